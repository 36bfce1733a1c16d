//! The compiler's actions on their way into the maps: into larger ones, if
//! these are full, and closed where there is no room at all.

use std::path::PathBuf;

use node_agent_datapath::{Bandwidths, PartialWrite, Policy};
use node_agent_policy::Action;
use tokio::sync::{mpsc, watch};
use tracing::{debug, warn};

use super::{
    admit::AdmitError,
    bandwidth::BandwidthLimits,
    capacity_condition::FullMap,
    datapath_requests::{DatapathRequest, GrowthOutcome, room},
};

/// Writes the policy maps.
pub struct PolicyWriter {
    pub maps: Policy,
    pin_dir: PathBuf,
    wishes: mpsc::Sender<DatapathRequest>,
    full: watch::Sender<Option<FullMap>>,
}

/// The result of writing actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The maps hold them.
    Written,
    /// They do not; all is to be compiled anew.
    Failed,
    /// There is no room: what they are about is closed, and the Node says so.
    Full,
}

// === impl Writer ===

impl PolicyWriter {
    pub const fn new(
        maps: Policy,
        pin_dir: PathBuf,
        wishes: mpsc::Sender<DatapathRequest>,
        full: watch::Sender<Option<FullMap>>,
    ) -> Self {
        Self {
            maps,
            pin_dir,
            wishes,
            full,
        }
    }

    /// Writes actions in order.
    pub async fn write(&mut self, actions: &[Action]) -> WriteOutcome {
        let mut rest = actions;
        // Each turn goes on, or doubles a map.
        loop {
            let Err(stopped) = self.maps.apply(rest) else {
                return WriteOutcome::Written;
            };
            rest = rest.get(stopped.done..).unwrap_or_default();
            let Some(map) = stopped.full() else {
                return failed(&stopped);
            };
            match room(&self.wishes, map).await {
                GrowthOutcome::Failed => return failed(&stopped),
                GrowthOutcome::More => match Policy::open(&self.pin_dir) {
                    Ok(maps) => self.maps = maps,
                    Err(source) => return failed(&PartialWrite { done: 0, source }),
                },
                GrowthOutcome::NoMore if stopped.is_harmless() => {
                    debug!(map, "the table of rule names is full");
                    let names = rest
                        .iter()
                        .take_while(|it| matches!(it, Action::PutRule(..)));
                    rest = rest.get(names.count()..).unwrap_or_default();
                }
                GrowthOutcome::NoMore => return self.close(map, rest),
            }
        }
    }

    /// Has programs decide on the node's own traffic, or no longer; false if
    /// nobody can be asked any more.
    pub async fn guard_node(&self, guarded: bool) -> bool {
        self.wishes
            .send(DatapathRequest::Host(guarded))
            .await
            .is_ok()
    }

    /// Limits how much goes to the pod behind an interface and comes from it; what is
    /// missing until that is in force. `wished`: programs were asked for.
    pub async fn limit(
        &self,
        device: u32,
        BandwidthLimits { ingress, egress }: BandwidthLimits,
        wished: &mut bool,
    ) -> Result<(), AdmitError> {
        let limited = ingress.is_some() || egress.is_some();
        let written = Bandwidths::open(&self.pin_dir).and_then(|map| {
            map.set(device, ingress, egress)?;
            Ok(!limited || map.is_in_force(device))
        });
        match written {
            Ok(true) => Ok(()),
            Ok(false) => {
                if !std::mem::replace(wished, true) {
                    // Who cannot be asked any more ends, and so does whoever waits.
                    let _ = self.wishes.send(DatapathRequest::Bandwidth).await;
                }
                Err(AdmitError::Unlimited)
            }
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to limit a pod's bandwidth"
                );
                Err(AdmitError::Bandwidth(error))
            }
        }
    }

    /// Says that there is room for everything.
    pub fn has_room(&self) {
        self.full.send_if_modified(|full| full.take().is_some());
    }

    fn close(&self, map: &'static str, unwritten: &[Action]) -> WriteOutcome {
        match self.maps.close(unwritten) {
            Ok(closed) => {
                warn!(
                    map,
                    closed,
                    "a map of network policy is full, and as large as this machine allows: what \
                     does not fit is closed"
                );
                self.full.send_replace(Some(FullMap { map }));
                WriteOutcome::Full
            }
            Err(error) => failed(&PartialWrite {
                done: 0,
                source: error,
            }),
        }
    }
}

fn failed(stopped: &PartialWrite) -> WriteOutcome {
    warn!(
        error = stopped as &dyn std::error::Error,
        "failed to write the policy maps; they stay unchanged until the next compilation"
    );
    WriteOutcome::Failed
}
