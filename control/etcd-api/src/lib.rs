//! etcd's v3 API in front of the embedded store, on a unix socket.
//!
//! etcdctl reads the store through it, and a stock kube-apiserver runs on it.
//!
//! ```text
//! server ──▶ service ──▶ kv, watch, lease, maintenance ──▶ control_store::embedded
//! socket      routes       messages to requests and back
//! ```
//!
//! What a request means is decided by the store: revisions, transactions, queries and
//! leases are there. This crate checks messages as etcd does and translates them. Services
//! and options that are not served answer `UNIMPLEMENTED`.

mod fault;
mod kv;
mod lease;
mod maintenance;
pub mod messages;
mod server;
mod service;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use control_store::embedded::EmbeddedStore;
use tokio_util::sync::CancellationToken;

pub use server::ServeError;

/// The version of etcd whose API is served, for clients that decide by it which features
/// they use.
pub const API_VERSION: &str = "3.5.21";

/// etcd's API on a socket that is open.
#[derive(Debug)]
pub struct EtcdApi {
    listener: server::Listener,
    store: Arc<EmbeddedStore>,
}

impl EtcdApi {
    /// Checks an endpoint without using it.
    ///
    /// # Errors
    /// [`ServeError::Endpoint`].
    pub fn check(endpoint: &str) -> Result<(), ServeError> {
        server::socket_path(endpoint).map(drop)
    }

    /// Opens the socket that `endpoint` names: `unix:///PATH`. Only the owner of this
    /// process can connect.
    ///
    /// # Errors
    /// [`ServeError`].
    pub async fn open(endpoint: &str, store: Arc<EmbeddedStore>) -> Result<Self, ServeError> {
        let path = server::socket_path(endpoint)?;
        Ok(Self {
            listener: server::listen(&path).await?,
            store,
        })
    }

    /// The path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.listener.path()
    }

    /// Answers calls until `shutdown`, which ends watches.
    pub async fn serve(self, shutdown: CancellationToken) {
        let path: PathBuf = self.path().to_owned();
        let service = service::Service::new(self.store, &path, shutdown.clone());
        tracing::info!(socket = %path.display(), "serving the etcd API");
        self.listener.serve(service, shutdown).await;
    }
}
