//! The compiler's actions on their way into the maps: into larger ones, if
//! these are full, and closed where there is no room at all.

use std::path::PathBuf;

use node_agent_datapath::{Bandwidths, Policy, Unwritten};
use node_agent_policy::Action;
use tokio::sync::{mpsc, watch};
use tracing::{debug, warn};

use super::{
    bandwidth::Limits,
    told::Full,
    wishes::{Room, Wish, room},
};

/// Writes the maps.
pub struct Writer {
    pub maps: Policy,
    pin_dir: PathBuf,
    wishes: mpsc::Sender<Wish>,
    full: watch::Sender<Option<Full>>,
}

/// What became of actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The maps hold them.
    Written,
    /// They do not; all is to be compiled anew.
    Failed,
    /// There is no room: what they are about is closed, and the Node says so.
    Full,
}

// === impl Writer ===

impl Writer {
    pub const fn new(
        maps: Policy,
        pin_dir: PathBuf,
        wishes: mpsc::Sender<Wish>,
        full: watch::Sender<Option<Full>>,
    ) -> Self {
        Self {
            maps,
            pin_dir,
            wishes,
            full,
        }
    }

    /// Writes actions in order.
    pub async fn write(&mut self, actions: &[Action]) -> Outcome {
        let mut rest = actions;
        // Each turn goes on, or doubles a map.
        loop {
            let Err(stopped) = self.maps.apply(rest) else {
                return Outcome::Written;
            };
            rest = rest.get(stopped.done..).unwrap_or_default();
            let Some(map) = stopped.full() else {
                return failed(&stopped);
            };
            match room(&self.wishes, map).await {
                Room::Failed => return failed(&stopped),
                Room::More => match Policy::open(&self.pin_dir) {
                    Ok(maps) => self.maps = maps,
                    Err(source) => return failed(&Unwritten { done: 0, source }),
                },
                Room::NoMore if stopped.is_harmless() => {
                    debug!(map, "no room for rules' names");
                    let names = rest
                        .iter()
                        .take_while(|it| matches!(it, Action::PutRule(..)));
                    rest = rest.get(names.count()..).unwrap_or_default();
                }
                Room::NoMore => return self.close(map, rest),
            }
        }
    }

    /// Has programs decide on the node's own traffic, or no longer; false if
    /// nobody can be asked any more.
    pub async fn guard_node(&self, guarded: bool) -> bool {
        self.wishes.send(Wish::Host(guarded)).await.is_ok()
    }

    /// Limits how much goes to the pod behind an interface and comes from it; what is
    /// missing until that is in force. `wished`: programs were asked for.
    pub async fn limit(
        &self,
        device: u32,
        Limits { ingress, egress }: Limits,
        wished: &mut bool,
    ) -> Option<String> {
        let limited = ingress.is_some() || egress.is_some();
        let written = Bandwidths::open(&self.pin_dir).and_then(|map| {
            map.set(device, ingress, egress)?;
            Ok(!limited || map.is_in_force(device))
        });
        match written {
            Ok(true) => None,
            Ok(false) => {
                if !std::mem::replace(wished, true) {
                    // Who cannot be asked any more ends, and so does whoever waits.
                    let _ = self.wishes.send(Wish::Bandwidth).await;
                }
                Some("its bandwidth is not limited yet".to_owned())
            }
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "a pod's bandwidth cannot be limited"
                );
                Some(format!("its bandwidth cannot be limited: {error}"))
            }
        }
    }

    /// Says that there is room for everything.
    pub fn has_room(&self) {
        self.full.send_if_modified(|full| full.take().is_some());
    }

    fn close(&self, map: &'static str, unwritten: &[Action]) -> Outcome {
        match self.maps.close(unwritten) {
            Ok(closed) => {
                warn!(
                    map,
                    closed,
                    "a map of network policy is full, and as large as this machine allows: what \
                     does not fit is closed"
                );
                self.full.send_replace(Some(Full { map }));
                Outcome::Full
            }
            Err(error) => failed(&Unwritten {
                done: 0,
                source: error,
            }),
        }
    }
}

fn failed(stopped: &Unwritten) -> Outcome {
    warn!(
        error = stopped as &dyn std::error::Error,
        "policy did not reach the maps, which stay as they are; it will be compiled anew"
    );
    Outcome::Failed
}
