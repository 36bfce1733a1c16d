//! An address on an interface of this machine.

use std::io;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::libc;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags};

/// An interface.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
}

// === impl Interface ===

impl Interface {
    /// Finds the interface of this name, or the one with the address `own`.
    ///
    /// # Errors
    /// The system's error, or that there is none.
    pub fn find(name: Option<&str>, own: IpAddr) -> io::Result<Self> {
        let has_own = |address: &nix::sys::socket::SockaddrStorage| match own {
            IpAddr::V4(own) => address.as_sockaddr_in().is_some_and(|one| one.ip() == own),
            IpAddr::V6(own) => address.as_sockaddr_in6().is_some_and(|one| one.ip() == own),
        };
        let found = match name {
            Some(name) => Some(name.to_owned()),
            None => getifaddrs()?
                .find(|entry| entry.address.as_ref().is_some_and(has_own))
                .map(|entry| entry.interface_name),
        };
        let name = found.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("no interface has the address {own}"),
            )
        })?;
        let index = nix::net::if_::if_nametoindex(name.as_str())?;
        Ok(Self { name, index })
    }

    /// Adds an address; it is no error if it is there.
    ///
    /// # Errors
    /// What the kernel said.
    pub async fn add(&self, address: IpAddr) -> io::Result<()> {
        self.set(address, true, libc::EEXIST).await
    }

    /// Removes an address; it is no error if it is not there.
    ///
    /// # Errors
    /// What the kernel said.
    pub async fn remove(&self, address: IpAddr) -> io::Result<()> {
        self.set(address, false, libc::EADDRNOTAVAIL).await
    }

    async fn set(&self, address: IpAddr, add: bool, is_done: i32) -> io::Result<()> {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        let mut request = handle.address().add(self.index, address, prefix);
        if address.is_ipv6() {
            // The former holder may hang and still answer: we take the address
            // immediately regardless.
            let at_once = AddressAttribute::Flags(AddressFlags::Nodad);
            request.message_mut().attributes.push(at_once);
        }
        let asked = async {
            if add {
                request.execute().await
            } else {
                let message = request.message_mut().clone();
                handle.address().del(message).execute().await
            }
        };
        // The task that waits for the answer drives the connection, which ends with it.
        let answer = tokio::select! {
            answer = asked => answer,
            () = connection => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        match answer {
            Ok(()) => Ok(()),
            Err(rtnetlink::Error::NetlinkError(error)) if error.raw_code().abs() == is_done => {
                Ok(())
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }
}
