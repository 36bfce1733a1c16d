//! Makes pods' interfaces, all that the plugin's ADD does, a crowd's together.
//!
//! ```text
//! questions ─► addresses ─► pairs, pods' ends ─► programs, policy ─► nodes' ends up ─► answers
//!              └ written durably ┘
//! ```
//!
//! A plugin is a process a pod, and each would open sockets, ask the kernel one thing after
//! the other and flush a folder by itself. Here who asks while others are served is served
//! with all that ask meanwhile. The order of each one's steps is the plugin's own: nobody is
//! told of an address that is not written, and a node's end is down until policy agrees.

use std::{os::fd::OwnedFd, path::PathBuf, sync::Arc};

use cni_addresses::{
    AddressRequest as Wanted, Pool, Store,
    wire::{self, Answer, AttachedInterface, End},
};
use node_agent_datapath::Device;
use node_agent_objects::error_chain;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use self::kernel::{NetlinkFailure, PodRoute, VethPair};
use super::release::InterfaceRemover;
use crate::policy::{DatapathRequest, InterfaceGate, PendingPodInterface};

mod kernel;

/// Interfaces that are made at once, at most: the first of them waits for the last.
const TOGETHER: usize = 32;
/// Of what kind the devices are.
const KIND: &str = "veth";

/// Handles of other parts that attaching an interface needs.
pub struct AttachContext {
    /// Lets interfaces up; none: nobody enforces policy.
    pub gate: Option<InterfaceGate>,
    /// Who brings programs to devices.
    pub wishes: mpsc::Sender<DatapathRequest>,
}

/// Creates and configures pod interfaces.
#[derive(Clone)]
pub struct InterfaceBuilder {
    steps: mpsc::Sender<AttachStep>,
    gate: Option<InterfaceGate>,
    release: InterfaceRemover,
}

/// A step of attaching an interface.
enum AttachStep {
    Make(PendingInterface),
    Open(PodRoute, oneshot::Sender<Result<(), NetlinkFailure>>),
}

/// An interface to be created, and where its result goes.
struct PendingInterface {
    question: Arc<wire::Attach>,
    pool: Pool,
    netns: OwnedFd,
    told: oneshot::Sender<Result<CreatedInterface, AttachFailure>>,
}

/// An interface whose host end is still down.
struct CreatedInterface {
    way: PodRoute,
    ends: AttachedInterface,
}

/// Why an interface was not created.
enum AttachFailure {
    /// No address: nothing was changed.
    Address(cni_addresses::Error),
    /// Something may be left.
    Failed(String),
}

// === impl Attach ===

impl InterfaceBuilder {
    /// One whose tasks end with `shutdown`. `pin_dir` is the datapath's.
    pub fn start(
        store: Arc<Store>,
        pin_dir: PathBuf,
        AttachContext { gate, wishes }: AttachContext,
        release: InterfaceRemover,
        shutdown: CancellationToken,
    ) -> Self {
        let (steps, asked) = mpsc::channel(TOGETHER);
        let (made, all_made) = mpsc::unbounded_channel();
        let until = shutdown.clone();
        // Kept between runs, with what waits in them.
        let asked = Arc::new(tokio::sync::Mutex::new(asked));
        let all_made = Arc::new(tokio::sync::Mutex::new(all_made));
        control_supervise::task("interface-maker").spawn_restarting(move || {
            let (asked, until) = (asked.clone(), until.clone());
            let (store, pin_dir, made) = (store.clone(), pin_dir.clone(), made.clone());
            async move {
                let mut asked = asked.lock().await;
                let mut all = Vec::new();
                loop {
                    tokio::select! {
                        () = until.cancelled() => return,
                        count = asked.recv_many(&mut all, TOGETHER) => if count == 0 { return },
                    }
                    let (steps, store) = (std::mem::take(&mut all), store.clone());
                    let (pin_dir, made) = (pin_dir.clone(), made.clone());
                    let work = move || work(&store, &pin_dir, steps, &made);
                    // Who waits for a step of a crowd that failed so is told by its end.
                    let _ = tokio::task::spawn_blocking(work).await;
                }
            }
        });
        control_supervise::task("interface-notifier").spawn_restarting(move || {
            let (all_made, shutdown) = (all_made.clone(), shutdown.clone());
            let wishes = wishes.clone();
            async move {
                let mut all_made = all_made.lock().await;
                let mut all = Vec::new();
                loop {
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        count = all_made.recv_many(&mut all, TOGETHER) => if count == 0 { return },
                    }
                    // Who ends hears of nothing any more.
                    let _ = wishes
                        .send(DatapathRequest::Devices(std::mem::take(&mut all)))
                        .await;
                }
            }
        });
        Self {
            steps,
            gate,
            release,
        }
    }

    /// Makes an interface with addresses of `pool`, and lets it up.
    pub async fn attach(&self, question: wire::Attach, pool: Pool, netns: OwnedFd) -> Answer {
        let question = Arc::new(question);
        let (told, made) = oneshot::channel();
        let make = PendingInterface {
            question: question.clone(),
            pool,
            netns,
            told,
        };
        if self.steps.send(AttachStep::Make(make)).await.is_err() {
            return Answer::refuse(wire::LATER, ENDING);
        }
        let made = match made.await {
            Ok(Ok(made)) => made,
            Ok(Err(AttachFailure::Address(error))) => return Err(error).into(),
            Ok(Err(AttachFailure::Failed(why))) => {
                return self.undone(question, wire::NETLINK, why).await;
            }
            Err(_) => return self.undone(question, wire::LATER, ENDING.to_owned()).await,
        };
        let CreatedInterface { way, ends } = made;
        if let Some(gate) = &self.gate {
            let interface = PendingPodInterface {
                namespace: question.pod.namespace.clone(),
                name: question.pod.name.clone(),
                uid: question.uid.clone(),
                device: question.holder.device(),
                addresses: way.addresses.clone(),
                bandwidth: question.bandwidth,
            };
            if let Err(missing) = gate.admit(interface).await {
                let why = error_chain(&missing);
                return self.undone(question, wire::LATER, why).await;
            }
        }
        let addresses = way.addresses.clone();
        let (told, opened) = oneshot::channel();
        let opened = match self.steps.send(AttachStep::Open(way, told)).await {
            Ok(()) => opened.await,
            Err(_) => return self.undone(question, wire::LATER, ENDING.to_owned()).await,
        };
        match opened {
            Ok(Ok(())) => Answer {
                addresses,
                attached: Some(ends),
                refused: None,
            },
            Ok(Err(error)) => {
                let why = error_chain(&error);
                self.undone(question, wire::NETLINK, why).await
            }
            Err(_) => self.undone(question, wire::LATER, ENDING.to_owned()).await,
        }
    }

    /// The runtime calls DEL after a failed ADD, but need not: leaves nothing.
    async fn undone(&self, question: Arc<wire::Attach>, code: u32, why: String) -> Answer {
        let left = self.release.release(question.holder.clone()).await.refused;
        let why = match left {
            None => why,
            Some(left) => format!("{why}; and what was made stays: {}", left.reason),
        };
        Answer::refuse(code, why)
    }
}

/// What is said when this process ends.
const ENDING: &str = "the agent is ending";

/// Does a crowd's steps; those that make somebody ready first.
fn work(
    store: &Store,
    pin_dir: &std::path::Path,
    steps: Vec<AttachStep>,
    devices: &mpsc::UnboundedSender<Device>,
) {
    let (mut ways, mut makes) = (Vec::new(), Vec::new());
    for step in steps {
        match step {
            AttachStep::Make(make) => makes.push(make),
            AttachStep::Open(way, told) => ways.push((way, told)),
        }
    }
    if !ways.is_empty() {
        let (ways, told): (Vec<_>, Vec<_>) = ways.into_iter().unzip();
        for (told, opened) in told.into_iter().zip(kernel::open(&ways)) {
            // Who asked may have gone.
            let _ = told.send(opened);
        }
    }
    if !makes.is_empty() {
        make(store, pin_dir, makes, devices);
    }
}

fn make(
    store: &Store,
    pin_dir: &std::path::Path,
    makes: Vec<PendingInterface>,
    devices: &mpsc::UnboundedSender<Device>,
) {
    let wanted: Vec<_> = makes
        .iter()
        .map(|it| Wanted {
            pool: &it.pool,
            wanted: &it.question.wanted,
            holder: &it.question.holder,
        })
        .collect();
    let taken = match store.take_all(&wanted) {
        Ok(taken) => taken,
        Err(error) => {
            return tell_all(makes, &error_chain(&error));
        }
    };
    drop(wanted);
    let (mut pairs, mut asked) = (Vec::new(), Vec::new());
    let mut taken = taken;
    for (make, given) in makes.into_iter().zip(std::mem::take(&mut taken.given)) {
        match given {
            Ok(addresses) => {
                let holder = &make.question.holder;
                pairs.push(VethPair {
                    host: holder.device(),
                    pod: holder.ifname.clone(),
                    netns: make.netns,
                    mtu: make.question.mtu,
                    host_mac: holder.host_mac(),
                    pod_mac: make.question.mac.unwrap_or_else(|| holder.pod_mac()),
                    addresses,
                });
                asked.push(make.told);
            }
            Err(error) => drop(make.told.send(Err(AttachFailure::Address(error)))),
        }
    }
    let (flushed, made) = std::thread::scope(|scope| {
        let flushing = scope.spawn(|| taken.flush());
        let made = kernel::make(pin_dir, &pairs);
        for (pair, index) in pairs.iter().zip(&made) {
            if let Ok(index) = index {
                let _ = devices.send(Device {
                    index: *index,
                    name: pair.host.clone(),
                    kind: KIND.to_owned(),
                    ethernet: true,
                    ..Device::default()
                });
            }
        }
        (flushing.join(), made)
    });
    let unwritten = match flushed {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error_chain(&error)),
        Err(_) => Some("the thread that writes addresses failed".to_owned()),
    };
    for ((pair, made), told) in pairs.into_iter().zip(made).zip(asked) {
        let end = |mac| End {
            mac,
            mtu: pair.mtu(),
        };
        let ends = AttachedInterface {
            host: end(pair.host_mac),
            pod: end(pair.pod_mac),
        };
        let made = match (made, &unwritten) {
            (Ok(index), None) => Ok(CreatedInterface {
                way: PodRoute {
                    index,
                    mac: pair.pod_mac,
                    addresses: pair.addresses,
                },
                ends,
            }),
            (Err(error), _) => Err(AttachFailure::Failed(error_chain(&error))),
            (Ok(_), Some(why)) => Err(AttachFailure::Failed(why.clone())),
        };
        let _ = told.send(made);
    }
}

fn tell_all(makes: Vec<PendingInterface>, why: &str) {
    for make in makes {
        let _ = make.told.send(Err(AttachFailure::Failed(why.to_owned())));
    }
}

#[cfg(test)]
mod tests;
