//! The CSI driver `csi.orlop.dev`: local volumes with enforced sizes,
//! snapshots, clones and IO limits.
//!
//! ```text
//! server ──▶ service ──▶ driver ──▶ backend ──▶ tool, device, filesystem
//!  socket     messages     steps      storage     programs and system calls
//!                │           │
//!             request     catalog
//!         pure decisions  records and journal
//! ```
//!
//! [`run`] serves a driver over a socket; it is what the `orlop-csi` binary
//! does, and what a node agent can do in its own process. A caller in the same
//! process talks to the socket like any other.

pub mod automatic;
pub mod backend;
pub mod catalog;
pub mod config;
pub mod device;
pub mod driver;
pub mod error;
pub mod filesystem;
pub mod ids;
pub mod metrics;
pub mod request;
pub mod server;
pub mod service;
pub mod steps;
pub mod systemd;
#[cfg(test)]
mod testing;
pub mod tool;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use backend::Environment;
use config::Config;
use driver::Driver;
use metrics::Metrics;
use server::ServeError;
use service::Services;

/// The options of a driver.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the socket.
    pub socket: PathBuf,
    /// Name of the node.
    pub node: String,
    /// Classes of devices.
    pub config: Config,
    /// The address of metrics, if they are served.
    pub metrics: Option<SocketAddr>,
    /// The kubelet's folder of registration sockets, where the driver
    /// registers itself.
    pub registry: Option<PathBuf>,
    /// Whether volumes grow through the node service alone.
    pub expands_on_node: bool,
    /// The driver's metrics.
    pub counts: Metrics,
}

/// Reason why a driver ends.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No class can be used.
    #[error("no class can be used")]
    Open(#[source] error::Error),
    /// A socket fails.
    #[error("the driver cannot serve")]
    Serve(#[source] ServeError),
    /// The address of the metrics cannot be bound.
    #[error("metrics cannot be served at {address}")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// A task ended unexpectedly.
    #[error("a task of the driver ended unexpectedly")]
    Task(#[source] tokio::task::JoinError),
}

/// Runs a driver until `shutdown`. `ready` is called when calls are answered.
///
/// # Errors
/// When no class can be opened, or a socket fails.
pub async fn run(
    options: Options,
    environment: Environment,
    shutdown: CancellationToken,
    ready: impl FnOnce(),
) -> Result<(), RunError> {
    // The socket first: a second driver must not touch the first one's classes.
    let listener = server::listen(&options.socket)
        .await
        .map_err(RunError::Serve)?;
    let (config, node) = (options.config.clone(), options.node.clone());
    let opened =
        tokio::task::spawn_blocking(move || Driver::open(&config, &node, environment)).await;
    let mut driver = opened.map_err(RunError::Task)?.map_err(RunError::Open)?;
    driver.expands_on_node = options.expands_on_node;
    let driver = Arc::new(driver);
    let metrics = options.counts.clone();
    let services = Services::new(driver.clone(), metrics.clone());
    let serve_csi = async {
        server::serve(
            listener,
            &options.socket,
            services.handler(),
            shutdown.clone(),
        )
        .await;
        Ok(())
    };
    let serve_metrics = async {
        let Some(address) = options.metrics else {
            return Ok(());
        };
        let driver = driver.clone();
        metrics::serve(address, metrics.clone(), driver, shutdown.clone())
            .await
            .map_err(|source| RunError::Metrics { address, source })
    };
    let measure = async {
        metrics::keep_measured(metrics.clone(), driver.clone(), shutdown.clone()).await;
        Ok(())
    };
    let register = async {
        let Some(folder) = &options.registry else {
            return Ok(());
        };
        let path = folder.join(format!("{}-reg.sock", driver::NAME));
        let listener = server::listen(&path).await.map_err(RunError::Serve)?;
        let handler = services.registration(options.socket.clone());
        server::serve(listener, &path, handler, shutdown.clone()).await;
        Ok(())
    };
    tracing::info!(socket = %options.socket.display(), node = options.node, "serving");
    ready();
    tokio::try_join!(serve_csi, serve_metrics, measure, register).map(drop)
}
