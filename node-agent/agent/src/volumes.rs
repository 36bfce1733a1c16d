//! Local volumes: the driver `csi.orlop.dev` in this process, and the work of its sidecars.
//!
//! The driver registers itself like any other: the pods' part reaches it over its socket,
//! and so do the loops of `node-agent-volumes`.

use std::{
    error::Error as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use control_client::{Backoff, Client};
use control_metrics::{Format, Page};
use control_supervise::task;
pub use csi::metrics::Metrics;
pub use csi::{
    automatic::{Choice, FOLDER, NoVolumes, remove_unused},
    config::{Config, ConfigError},
};
use csi::{backend::Environment, steps::TraceSteps, tool::SystemRunner};
use node_agent_informers::Informers;
use node_agent_pods::GrownClaims;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::Error;

/// How long a driver that cannot start waits at first, and at most.
const RETRY: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(60)];

/// Options of the node's own volume driver.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// Name of the node.
    pub node: String,
    /// The agent's folder.
    pub root: PathBuf,
    /// Classes of devices.
    pub config: Config,
    /// What the driver counts.
    pub counts: Metrics,
    /// Tells pods that volumes have grown.
    pub grown: GrownClaims,
}

/// Returns the driver's families, as part of a page in the text format.
#[must_use]
pub fn families(counts: &Metrics) -> String {
    let mut page = Page::new(Format::Text);
    counts.write(&mut page);
    page.into_families()
}

/// Chooses the best backend that this machine has.
///
/// # Errors
/// What the machine lacks.
pub fn choose() -> Result<Choice, NoVolumes> {
    let machine = csi::automatic::survey(&SystemRunner, Path::new(FOLDER))?;
    csi::automatic::choose(&machine)
}

/// Runs driver and loops until `shutdown`.
pub async fn run(
    client: Client,
    informers: Informers,
    options: VolumeOptions,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let socket = options
        .root
        .join("plugins")
        .join(node_agent_volumes::NAME)
        .join("csi.sock");
    let start = csi::Options {
        socket: socket.clone(),
        node: options.node.clone(),
        config: options.config,
        metrics: None,
        registry: Some(options.root.join("plugins_registry")),
        expands_on_node: false,
        counts: options.counts.clone(),
    };
    let counts = options.counts;
    let fills = move || {
        let spaces = counts.spaces().into_iter();
        let fill = |space: csi::metrics::ClassSpace| node_agent_volumes::ClassFill {
            class: space.class,
            total: space.total,
            used: space.used,
        };
        spaces.map(fill).collect()
    };
    let end = shutdown.clone();
    let driver = task("csi-driver")
        .until(&shutdown)
        .spawn_restarting(move || drive(start.clone(), end.clone()));
    let loops = node_agent_volumes::Options {
        client,
        informers,
        node: options.node,
        socket,
        fills: Arc::new(fills),
        grown: Arc::new(move |namespace, name| options.grown.notify(namespace, name)),
    };
    node_agent_volumes::run(loops, shutdown).await;
    while !driver.is_finished() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Serves the driver until `shutdown`: one whose disks are missing is started again.
async fn drive(options: csi::Options, shutdown: CancellationToken) {
    let mut backoff = Backoff::new(RETRY[0], RETRY[1]);
    loop {
        let environment = Environment {
            tools: Arc::new(SystemRunner),
            steps: Arc::new(TraceSteps),
        };
        let ready = || {
            info!(driver = node_agent_volumes::NAME, "serving local volumes");
        };
        let ended = csi::run(options.clone(), environment, shutdown.clone(), ready).await;
        if shutdown.is_cancelled() {
            return;
        }
        if let Err(error) = ended {
            let mut causes = Vec::new();
            let mut cause = error.source();
            while let Some(error) = cause {
                causes.push(error.to_string());
                cause = error.source();
            }
            let cause = causes.join(": ");
            warn!(%error, cause, "failed to serve local volumes");
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(backoff.after_failure()) => {}
        }
    }
}
