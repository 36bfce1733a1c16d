//! The control plane's work for the driver `csi.orlop.dev` on its own node: what stock
//! sidecars beside a driver do, as tasks of the node agent.
//!
//! ```text
//! claims, classes ──▶ provision ──▶ CreateVolume ──▶ PersistentVolume
//! volumes         ──▶ release   ──▶ DeleteVolume
//! claims, volumes ──▶ resize    ──▶ ControllerExpandVolume ──▶ status of the claim
//! classes         ──▶ capacity  ──▶ GetCapacity ──▶ CSIStorageCapacity
//! claims, classes ──▶ modify    ──▶ ControllerModifyVolume ──▶ status of the claim
//!                     health    ──▶ ControllerListVolumeHealth ──▶ events
//! measures        ──▶ fill      ──▶ events of the node
//! snapshots       ──▶ snapshot  ──▶ CreateSnapshot ──▶ VolumeSnapshotContent
//! ```
//!
//! Each module has a pure `decide` and a thin loop around it. The loops act on volumes of
//! their node alone: a claim is theirs once the scheduler selected the node for it. They
//! rest while stock sidecars hold the leases of the driver (`standby`).
//!
//! The driver is called over its socket, whether it is part of this process or not.

mod capacity;
mod conditions;
mod driver;
mod error;
mod fill;
mod health;
mod modify;
mod provision;
mod release;
mod resize;
mod shared;
mod snapshot;
mod standby;
#[cfg(test)]
mod testing;
mod views;

use std::path::PathBuf;
use std::sync::Arc;

use control_client::Client;
use control_supervise::task;
use node_agent_informers::Informers;
use tokio_util::sync::CancellationToken;

pub use driver::{CallError, Driver, NAME, NAMESPACE, NODE_KEY};
pub use fill::ClassFill;
use shared::LoopContext;
pub use shared::{Fills, Grown};

/// The CSIDriver object.
pub const DRIVER: &str = include_str!("../../../csi/deploy/driver.yaml");

/// The kinds of volume snapshots, and what nodes may write of them.
pub const SNAPSHOT_KINDS: &str = include_str!("manifests/snapshots.yaml");

/// Settings of the loops.
#[derive(Clone)]
pub struct Options {
    /// Client with the identity of the node.
    pub client: Client,
    /// The caches that it shares with the other parts of the node's agent.
    pub informers: Informers,
    /// Name of the node.
    pub node: String,
    /// Socket of the driver.
    pub socket: PathBuf,
    /// How full its classes are.
    pub fills: Fills,
    /// Who is told of volumes that have grown.
    pub grown: Grown,
}

/// Runs the loops until `shutdown`.
pub async fn run(options: Options, shutdown: CancellationToken) {
    let client = options.client.clone().named("orlop-volumes");
    let driver = Driver::new(&options.socket);
    let shared = Arc::new(LoopContext::new(
        &client,
        &options.informers,
        &options.node,
        driver,
        options.fills.clone(),
        options.grown.clone(),
    ));
    // Each loop with the same arguments, under its own name.
    macro_rules! spawn {
        ($name:literal, $run:path) => {{
            let (shared, end) = (shared.clone(), shutdown.clone());
            task($name)
                .until(&shutdown)
                .spawn_restarting(move || $run(shared.clone(), end.clone()))
        }};
    }
    let tasks = [
        spawn!("volume-sidecar-leases", standby::watch),
        spawn!("volume-provisioner", provision::run),
        spawn!("volume-releaser", release::run),
        spawn!("volume-resizer", resize::run),
        spawn!("volume-modifier", modify::run),
        spawn!("volume-capacity", capacity::run),
        spawn!("volume-snapshots", snapshot::run),
        spawn!("volume-health", health::run),
        spawn!("volume-fill", fill::run),
    ];
    shutdown.cancelled().await;
    for task in &tasks {
        while !task.is_finished() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}
