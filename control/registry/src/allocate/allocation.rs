//! The addresses and ports that a request holds until its Service is stored or rejected.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use control_kinds::service;
use control_types::status::Status;
use control_types::value::Value;

use super::allocated_addresses::{AllocatedAddresses, addresses_of, lock};
use super::objects;
use super::ports::{self, HeldPorts, Ports, ports_of};
use crate::storage::Storage;

/// What a request reserved; given back when dropped, unless kept.
#[derive(Debug)]
pub struct Allocation {
    taken: Arc<Mutex<AllocatedAddresses>>,
    reserved: Vec<IpAddr>,
    /// What the object no longer needs once it is stored.
    unneeded: Vec<IpAddr>,
    /// Ports that were chosen, some of which may have been taken in the store.
    pub ports: Vec<u16>,
    /// Node ports that the object no longer needs once it is stored.
    pub unneeded_ports: Vec<u16>,
    held: Option<HeldPorts>,
    /// The Service for which IPAddress objects were made.
    service: Option<(Arc<Storage>, Value)>,
    map: Arc<Ports>,
    kept: bool,
}

impl Allocation {
    /// Nothing is reserved yet.
    pub fn new(taken: &Arc<Mutex<AllocatedAddresses>>, map: &Arc<Ports>) -> Self {
        Self {
            taken: Arc::clone(taken),
            reserved: Vec::new(),
            unneeded: Vec::new(),
            ports: Vec::new(),
            unneeded_ports: Vec::new(),
            held: None,
            service: None,
            map: Arc::clone(map),
            kept: false,
        }
    }

    /// Creates the IPAddress objects of the reserved addresses. Returns `false` if another
    /// Service has one of the addresses.
    pub async fn take_addresses(
        &mut self,
        storage: &Arc<Storage>,
        service: &Value,
    ) -> Result<bool, Status> {
        // From here on they are given back when this is dropped.
        self.service = Some((Arc::clone(storage), service.clone()));
        for address in self.reserved.clone() {
            if !objects::take(storage, address, service).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The ports that were chosen and are not among those that the request holds.
    pub fn ports_beyond(&self, held: &HeldPorts) -> Vec<u16> {
        let beyond = self.ports.iter();
        let beyond = beyond.filter(|port| !held.ports().contains(port));
        beyond.copied().collect()
    }

    /// Notes which ports the request took in the store.
    pub fn hold(&mut self, held: HeldPorts) {
        self.held = Some(held);
    }

    /// The object is stored, as `service`: what it names is taken, what it left
    /// is free. Of an updated object the addresses are taken here; `old` is what
    /// it was.
    pub async fn keep(mut self, storage: &Storage, stored: &Value) {
        self.kept = true;
        if self.service.is_none() {
            for address in &self.reserved {
                match objects::take(storage, *address, stored).await {
                    Ok(true) => {}
                    Ok(false) => {
                        tracing::warn!(%address, "an address was given to two services");
                    }
                    Err(error) => tracing::warn!(%address, %error, "an address is not noted"),
                }
            }
        }
        objects::give_back_all(storage, &self.unneeded, stored).await;
        ports::give_back(storage, &self.map, &self.unneeded_ports).await;
        if let Some(held) = &mut self.held {
            held.keep(&self.ports);
        }
        let mut taken = lock(&self.taken);
        for address in &self.unneeded {
            taken.free(*address);
        }
        // The objects say from now on who has them.
        taken
            .pending
            .retain(|address| !self.reserved.contains(address));
    }

    /// Releases everything because the object was not stored. The client gets its answer only
    /// afterwards, so that a retry finds the addresses and ports free.
    pub async fn release(mut self) {
        if let Some(mut held) = self.held.take() {
            held.release().await;
        }
        if let Some((storage, service)) = self.service.take() {
            objects::give_back_all(&storage, &self.reserved, &service).await;
        }
    }

    /// Notes what an updated Service no longer needs.
    pub fn leave(&mut self, new: &Value, old: &Value) {
        let released = service::released(Some(new), old);
        self.unneeded = addresses_of(&released);
        // A number that goes on with another protocol stays taken.
        let kept = ports_of(&service::held(Some(new)));
        self.unneeded_ports = ports_of(&released);
        self.unneeded_ports.retain(|port| !kept.contains(port));
    }

    /// Reserves an address; `false` if somebody has it.
    pub fn reserve(&mut self, address: IpAddr) -> bool {
        let mut taken = lock(&self.taken);
        if !taken.take(address) {
            return false;
        }
        taken.pending.push(address);
        self.reserved.push(address);
        true
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        {
            let mut taken = lock(&self.taken);
            for address in &self.reserved {
                taken.free(*address);
            }
        }
        if let Some((storage, service)) = self.service.take() {
            // Whoever asked may be gone; the addresses are given back all the same.
            let reserved = std::mem::take(&mut self.reserved);
            tokio::spawn(
                async move { objects::give_back_all(&storage, &reserved, &service).await },
            );
        }
    }
}

#[cfg(test)]
impl Allocation {
    /// What [`Allocation::keep`] does where there are no objects.
    pub fn settled(mut self) {
        self.kept = true;
        let mut taken = lock(&self.taken);
        for address in &self.unneeded {
            taken.free(*address);
        }
    }
}
