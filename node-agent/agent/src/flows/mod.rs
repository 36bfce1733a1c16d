//! Flows: what programs tell of single verdicts, with names, for people.
//!
//! ```text
//! programs ──ring──► one task ──► names (policy's task) ──► the last N ──► /flows
//!                                                      └──► metrics
//! ```
//!
//! Whatever programs tell, this costs a bounded part of a processor: of each
//! turn so many records are read, and what does not fit into the ring meanwhile
//! is lost, and counted.

mod flow;
mod metrics;
mod names;
mod serve;
mod store;
mod wait;

use std::{
    collections::HashMap,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ebpf_abi::{FlowRecord, Port};
use jiff::Timestamp;
use node_agent_datapath::{Records, ServiceNames, clock};
use node_agent_plan::owner_of_set;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{Error, endpoints::port, policy::PolicyQuery};

pub use flow::{Direction, Flow, FlowEnd, FlowFilter, FlowQueryError, FlowVerdict};
pub use metrics::FlowMetrics;
pub use names::{PolicyNames, known};
pub use serve::{FlowList, FlowServer, MissedFlows};
pub use store::FlowStore;

/// Records of one turn.
const TURN: usize = 1_024;
/// After each, so that many are named together: the ring holds ten turns.
const PAUSE: Duration = Duration::from_millis(100);
/// How often is looked without having been woken.
const LOOK: Duration = Duration::from_secs(5);
/// How long policy's task may take; then flows have addresses alone.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often is looked for a ring that is not there yet.
const SOON: Duration = Duration::from_millis(50);

/// Options of flow recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowOptions {
    /// How many are kept for those who ask; 0: nothing is recorded at all.
    pub kept: usize,
    /// Of flows that policy allows one in so many is recorded; 0: none.
    pub sample: u32,
    /// The port at which an agent that is no kubelet is asked for them; none: nowhere.
    pub port: Option<u16>,
}

impl Default for FlowOptions {
    fn default() -> Self {
        Self {
            kept: 4_096,
            sample: 16,
            port: Some(port::PORT),
        }
    }
}

/// Reads flow records of the programs.
#[derive(Debug)]
pub struct FlowReader {
    /// The Node object's name.
    pub node: String,
    /// Where maps are pinned.
    pub pin_dir: PathBuf,
    /// Where flows go.
    pub store: Arc<FlowStore>,
    /// Where they are counted.
    pub metrics: FlowMetrics,
    /// Who knows pods and rules; none where policy is not enforced.
    pub policy: Option<mpsc::Sender<PolicyQuery>>,
}

// === impl Reader ===

impl FlowReader {
    /// Reads until `shutdown`.
    ///
    /// # Errors
    /// [`Error::Datapath`] when the ring is not as it must be.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let Some(records) = self.opened(&shutdown).await? else {
            return Ok(());
        };
        // What was lost before is a former agent's.
        let mut lost = records.lost().map_err(Error::Datapath)?;
        let mut records = wait::async_records(records).map_err(Error::Ring)?;
        loop {
            let mut taken = Vec::new();
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                ready = records.readable_mut() => {
                    let mut ready = ready.map_err(Error::Ring)?;
                    take(ready.get_inner_mut(), &mut taken);
                    if taken.len() < TURN {
                        ready.clear_ready();
                    }
                }
                () = tokio::time::sleep(LOOK) => take(records.get_mut(), &mut taken),
            }
            match records.get_ref().lost() {
                Ok(now) => {
                    self.metrics.lost(now.saturating_sub(lost));
                    self.store
                        .lose(self.store.lost() + now.saturating_sub(lost));
                    lost = now;
                }
                Err(error) => warn!(%error, "failed to read the number of lost flows"),
            }
            if !taken.is_empty() {
                self.tell(taken).await;
            }
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    /// The ring, once the datapath has pinned it.
    async fn opened(&self, shutdown: &CancellationToken) -> Result<Option<Records>, Error> {
        loop {
            match Records::open(&self.pin_dir) {
                Ok(records) => return Ok(Some(records)),
                Err(node_agent_datapath::Error::NotPinned { .. }) => {}
                Err(error) => return Err(Error::Datapath(error)),
            }
            tokio::select! {
                () = shutdown.cancelled() => return Ok(None),
                () = tokio::time::sleep(SOON) => {}
            }
        }
    }

    /// Gives records their names, keeps and counts them.
    async fn tell(&self, records: Vec<FlowRecord>) {
        let records = Arc::new(records);
        let known = self.known(&records).await;
        let clocks = names::ClockPair {
            monotonic: clock(),
            now: Timestamp::now(),
        };
        let mut services = FlowServiceNames::of(&self.pin_dir);
        let devices = devices(&records);
        let mut flows = Vec::with_capacity(records.len());
        for (record, known) in records.iter().zip(known) {
            let service = services.of_record(record);
            let flow = names::flow(record, known, &self.node, clocks, service, &devices);
            flows.extend(flow);
        }
        for flow in &flows {
            self.metrics.count(flow);
        }
        self.store.add(flows);
        self.metrics.keeps(self.store.kept());
    }

    async fn known(&self, records: &Arc<Vec<FlowRecord>>) -> Vec<PolicyNames> {
        let nothing = || vec![PolicyNames::default(); records.len()];
        let Some(policy) = &self.policy else {
            return nothing();
        };
        let (sender, told) = oneshot::channel();
        let asked = async {
            policy
                .send(PolicyQuery::Names(Arc::clone(records), sender))
                .await
                .ok()?;
            told.await.ok()
        };
        let known = tokio::time::timeout(PATIENCE, asked).await.ok().flatten();
        known.unwrap_or_else(nothing)
    }
}

fn take(records: &mut Records, into: &mut Vec<FlowRecord>) {
    while into.len() < TURN
        && let Some(record) = records.take()
    {
        into.push(record);
    }
}

/// Names of the devices of these records; the host firewall's, which is at all
/// of the node's own, have none.
fn devices(records: &[FlowRecord]) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for index in records.iter().map(|it| it.device) {
        if index == 0 {
            names.insert(0, "node".to_owned());
            continue;
        }
        names.entry(index).or_insert_with(|| {
            nix::net::if_::if_indextoname(index)
                .ok()
                .and_then(|name| name.into_string().ok())
                .unwrap_or_else(|| index.to_string())
        });
    }
    names
}

/// Names of Services by address, each looked up once per batch.
struct FlowServiceNames {
    maps: ServiceNames,
    known: HashMap<(IpAddr, u16, u8), Option<String>>,
}

impl FlowServiceNames {
    fn of(pin_dir: &Path) -> Self {
        Self {
            maps: ServiceNames::open(pin_dir),
            known: HashMap::new(),
        }
    }

    fn of_record(&mut self, record: &FlowRecord) -> Option<String> {
        let pods = FlowRecord::INGRESS | FlowRecord::EGRESS;
        let (address, port) = if record.flags & pods == 0 {
            let tuple = &record.tuple;
            (tuple.destination.into(), tuple.destination_port.get())
        } else {
            names::asked(record)?
        };
        let protocol = record.tuple.protocol;
        let Self { maps, known } = self;
        known
            .entry((address, port, protocol.0))
            .or_insert_with(|| {
                let set = maps.name(address.into(), Port::new(port), protocol);
                let set = set.ok().flatten()?;
                let (_, namespace, name) = owner_of_set(&set);
                Some(format!("{namespace}/{name}"))
            })
            .clone()
    }
}
