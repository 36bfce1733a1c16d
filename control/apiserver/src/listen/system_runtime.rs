//! Threads of their own for the cluster's own connections.
//!
//! A crowd of clients keeps the threads busy that serve it: what else these threads
//! have to do waits for its turn among thousands of tasks. Nodes and the components of
//! the control plane, known by their certificates, are therefore served by threads of
//! a second pool, which the system lets run as soon as they have something to do. A
//! node's lease is renewed in time whatever the crowd does; fair queues
//! (`control_flow_control`) alone only say whose requests run, not on which thread.

use std::io;
use std::os::fd::AsFd;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle, Runtime};

/// The pool. It ends with what runs in it.
#[derive(Debug)]
pub(crate) struct SystemRuntime(Option<Runtime>);

impl SystemRuntime {
    /// Starts the threads: as many as the machine has processors, since most
    /// connections of a large cluster are its nodes'.
    ///
    /// # Errors
    /// When there are no threads to be had.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .thread_name("nodes-lane")
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Where its tasks are spawned.
    pub fn handle(&self) -> Option<&Handle> {
        self.0.as_ref().map(Runtime::handle)
    }
}

impl Drop for SystemRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // It is dropped among tasks, where nothing may block.
            runtime.shutdown_background();
        }
    }
}

/// Lets the reactor of another pool watch a connection from now on. Nothing that was
/// received is lost: it is the same socket under another number.
///
/// # Errors
/// When there are no more descriptors.
pub(super) fn rehome(stream: &mut TcpStream, to: &Handle) -> io::Result<()> {
    let same = std::net::TcpStream::from(stream.as_fd().try_clone_to_owned()?);
    let _inside = to.enter();
    *stream = TcpStream::from_std(same)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_moves_loses_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut client = TcpStream::connect(address).await.expect("connected");
        let (mut stream, _) = listener.accept().await.expect("accepted");
        client.write_all(b"before").await.expect("sent");
        let mut start = [0; 3];
        stream.read_exact(&mut start).await.expect("received");
        let system = SystemRuntime::start().expect("threads");
        let handle = system.handle().expect("runs").clone();
        rehome(&mut stream, &handle).expect("moved");
        let echo = handle.spawn(async move {
            let mut rest = [0; 8];
            stream.read_exact(&mut rest).await?;
            stream.write_all(&rest).await?;
            io::Result::Ok(std::thread::current().name().map(str::to_owned))
        });
        client.write_all(b"after").await.expect("sent");
        let mut said = Vec::new();
        client.read_to_end(&mut said).await.expect("received");
        assert_eq!((&start, &*said), (b"bef", &b"oreafter"[..]));
        let thread = echo.await.expect("ran").expect("well");
        assert_eq!(thread.as_deref(), Some("nodes-lane"));
    }
}
