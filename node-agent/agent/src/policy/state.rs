//! What the task of network policy knows, and what it does with it.

use std::{
    collections::{BTreeSet, VecDeque},
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use control_client::{Cache, Change, Object, Snapshot, View};
use ebpf_abi::Protocol;
use node_agent_informers::{EndpointSlice, Node};
use node_agent_objects::error_chain;
use node_agent_policy::{Compiler, Config, Prefix, objects, policy::PortRange};
use tracing::{debug, info, warn};

use super::{
    address_book::{AddressBook, PodName},
    admit::{AdmitError, AdmitRequest, PendingPodInterface},
    bandwidth,
    cache_dir::PolicyCacheDir,
    delays::{PATIENCE, RETRY},
    grace::GraceWait,
    views::{ClusterNetworkPolicy, Namespace, NetworkPolicy, Pod, planned_node},
    write::{PolicyWriter, WriteOutcome},
};
use crate::serving;

/// The longest pause between attempts to write all that is known.
const RARELY: Duration = Duration::from_secs(60);

/// The state of network policy's task.
pub struct PolicyState {
    pub compiler: Compiler,
    pub writer: PolicyWriter,
    /// What waits to be removed from the maps.
    pub passing: GraceWait,
    pub node: String,
    /// The UDP port of the overlay between nodes.
    pub tunnel: Option<u16>,
    /// The agent's own port beside a kubelet.
    pub asked_at: Option<u16>,
    /// The pods of cluster DNS.
    pub dns: objects::Pod,
    pub caches: PolicyCaches,
    pub own: Vec<IpAddr>,
    pub pod_ranges: Vec<Prefix>,
    pub book: AddressBook,
    pub kept: PolicyCacheDir,
    /// When all is to be compiled anew, unless the maps are sound.
    pub due: Instant,
    /// How long after that again.
    pub pause: Duration,
    /// The maps hold what the compiler says.
    pub sound: bool,
    pub waiting: VecDeque<WaitingInterface>,
    /// Programs decide on the node's own traffic, or not; none: as a former
    /// agent left it.
    pub guards_node: Option<bool>,
    /// It was said that they cannot yet.
    pub told_blind: bool,
}

/// Caches of API objects that policy reads.
pub struct PolicyCaches {
    pub namespaces: Cache<Namespace>,
    pub pods: Cache<Pod>,
    pub nodes: Cache<Node>,
    pub policies: Cache<NetworkPolicy>,
    /// None where the API does not know the kind.
    pub cluster: Option<Cache<ClusterNetworkPolicy>>,
    /// Those that say where the API server is ([`is_of_api`]) and all others.
    pub slices: Cache<EndpointSlice>,
}

/// An interface that stays down until its rules are in the maps.
pub struct WaitingInterface {
    asked: AdmitRequest,
    until: Instant,
    /// The compiler was told of the addresses.
    told: bool,
    /// Programs that limit its bandwidth were asked for.
    wished: bool,
}

impl WaitingInterface {
    pub fn new(asked: AdmitRequest) -> Self {
        Self {
            asked,
            until: Instant::now() + PATIENCE,
            told: false,
            wished: false,
        }
    }
}

/// Whether a slice says where the API server is: what the Service `kubernetes` stands for.
pub fn is_of_api(slice: &EndpointSlice) -> bool {
    slice.namespace() == "default" && slice.service() == Some("kubernetes")
}

fn slices_of_api(slices: &Snapshot<EndpointSlice>) -> impl Iterator<Item = &Arc<EndpointSlice>> {
    slices.namespace("default").filter(|slice| is_of_api(slice))
}

// === impl State ===

impl PolicyState {
    pub fn on_namespace(&mut self, change: &Change<Namespace>) {
        if let Some((_, name)) = subject(change) {
            let planned = change.current.as_ref().map(|it| it.planned());
            self.compiler.namespace(&name, planned.as_ref());
        }
    }

    pub fn on_pod(&mut self, change: &Change<Pod>) {
        if let Some(name) = subject(change) {
            let pod = change.current.as_ref();
            let planned = pod.map(|it| (it.meta().uid.to_string(), it.planned()));
            let planned = planned.as_ref().map(|(uid, pod)| (uid.as_str(), pod));
            if planned.is_none() {
                self.kept.forget(&name.0, &name.1);
            }
            self.book.observe_pod(&name, planned, &mut self.compiler);
        }
    }

    pub fn on_node(&mut self, change: &Change<Node>) {
        if let Some((_, name)) = subject(change) {
            let planned = change.current.as_deref().map(planned_node);
            self.compiler.node(&name, planned.as_ref());
        }
    }

    pub fn on_policy(&mut self, change: &Change<NetworkPolicy>) {
        if let Some((namespace, name)) = subject(change) {
            let planned = change.current.as_ref().map(|it| it.planned());
            self.compiler
                .network_policy(&namespace, &name, planned.as_ref());
        }
    }

    pub fn on_cluster_policy(&mut self, change: &Change<ClusterNetworkPolicy>) {
        if let Some((_, name)) = subject(change) {
            let planned = change.current.as_ref().map(|it| it.planned());
            self.compiler
                .cluster_network_policy(&name, planned.as_ref());
        }
    }

    /// Compiles all that is known, and writes it beside what is in force, which
    /// it then replaces at once.
    pub async fn compile(&mut self) {
        let begun = Instant::now();
        self.due = begun + self.pause;
        self.pause = (self.pause * 2).min(RARELY);
        let previous = match self.writer.maps.root() {
            Ok(previous) => previous,
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to read the policy maps; retrying"
                );
                return;
            }
        };
        self.passing.forget();
        self.compiler = Compiler::new(Config {
            node: Some(self.node.clone()),
            protected: self.protected(),
            previous,
        });
        self.compiler.own_addresses(&self.own);
        self.compiler.pod_ranges(&self.pod_ranges);
        for node in self.caches.nodes.snapshot().iter() {
            self.compiler.node(node.name(), Some(&planned_node(node)));
        }
        for namespace in self.caches.namespaces.snapshot().iter() {
            let name = &namespace.meta().name;
            self.compiler.namespace(name, Some(&namespace.planned()));
        }
        for policy in self.caches.policies.snapshot().iter() {
            let meta = policy.meta();
            let planned = policy.planned();
            self.compiler
                .network_policy(&meta.namespace, &meta.name, Some(&planned));
        }
        if let Some(policies) = &self.caches.cluster {
            for policy in policies.snapshot().iter() {
                let name = &policy.meta().name;
                self.compiler
                    .cluster_network_policy(name, Some(&policy.planned()));
            }
        }
        let (namespace, name) = (&self.dns.metadata.namespace, &self.dns.metadata.name);
        self.compiler.pod(namespace, name, Some(&self.dns));
        self.remember();
        for pod in self.caches.pods.snapshot().iter() {
            let meta = pod.meta();
            let name = (meta.namespace.to_string(), meta.name.to_string());
            let planned = pod.planned();
            self.book
                .observe_pod(&name, Some((&meta.uid, &planned)), &mut self.compiler);
        }
        self.sound = true;
        self.flush().await;
        if self.sound {
            self.pause = RETRY;
            self.writer.has_room();
            let sizes = self.compiler.sizes();
            info!(took = ?begun.elapsed(), ?sizes, "policy maps are in sync");
        }
        for (object, problem) in self.compiler.problems() {
            warn!(%object, problem, "invalid policy");
        }
    }

    /// Writes what changed.
    pub async fn flush(&mut self) {
        if !self.sound {
            return;
        }
        if self.passing.is_too_much(self.compiler.waiting())
            && let Some(mark) = self.passing.over().await
        {
            self.compiler.passed(mark);
        }
        let actions = self.compiler.sync();
        if self.writer.write(&actions).await != WriteOutcome::Written {
            self.sound = false;
            self.due = Instant::now() + self.pause;
            return;
        }
        self.passing.begin(&self.compiler);
        self.guard_node().await;
    }

    /// The API server may be elsewhere than before: its ports are protected.
    pub fn on_api(&mut self) {
        if self.compiler.protected() != self.protected() {
            self.sound = false;
            self.due = Instant::now();
        }
    }

    fn protected(&self) -> Vec<PortRange> {
        let slices = self.caches.slices.snapshot();
        let of_api = slices_of_api(&slices).flat_map(|slice| slice.state().ports());
        protected(of_api.chain(self.asked_at), self.tunnel)
    }

    /// Has programs decide on the node's own traffic as long as a policy
    /// selects the node. Not before it is known where the API server is: who
    /// locks that out cannot be told to let it in again.
    async fn guard_node(&mut self) {
        let selected = self.compiler.guards_node();
        let wanted = selected
            && slices_of_api(&self.caches.slices.snapshot())
                .next()
                .is_some();
        if selected && !wanted && !std::mem::replace(&mut self.told_blind, true) {
            warn!(
                "a policy is for this node, and is not enforced on it before the endpoints of \
                 the Service `kubernetes` are known"
            );
        }
        if self.guards_node != Some(wanted) && self.writer.guard_node(wanted).await {
            debug!(wanted, "host policy switched");
            self.guards_node = Some(wanted);
        }
    }

    /// Takes the addresses up that pods were given while a former agent ran.
    fn remember(&mut self) {
        let is = |interface: &PendingPodInterface| {
            nix::net::if_::if_nametoindex(interface.device.as_str()).is_ok()
                && pod_of(&self.caches.pods, interface).is_ok()
        };
        let found = match self.kept.all(is) {
            Ok(found) => found,
            Err(error) => {
                warn!(%error, "failed to read the interfaces that were up before");
                return;
            }
        };
        for interface in found {
            if let Ok(pod) = pod_of(&self.caches.pods, &interface) {
                let name = (interface.namespace, interface.name);
                let uid = &pod.meta().uid;
                self.book
                    .assign(&name, uid, &interface.addresses, &mut self.compiler);
            }
        }
    }

    /// Answers questions whose rules are there, or that have waited enough.
    pub async fn admit(&mut self) {
        self.tell().await;
        for _ in 0..self.waiting.len() {
            let Some(mut waiting) = self.waiting.pop_front() else {
                return;
            };
            match self.check(&mut waiting).await {
                Ok(()) => {
                    debug!(interface = ?waiting.asked.interface, "admitting a pod's interface");
                    let _ = waiting.asked.answer.send(Ok(()));
                }
                Err(missing) if Instant::now() >= waiting.until => {
                    warn!(
                        namespace = waiting.asked.interface.namespace,
                        pod = waiting.asked.interface.name,
                        missing = error_chain(&missing),
                        "a pod waits for network policy"
                    );
                    let _ = waiting.asked.answer.send(Err(missing));
                }
                // Whoever asked has gone.
                Err(_) if waiting.asked.answer.is_closed() => {}
                Err(_) => self.waiting.push_back(waiting),
            }
        }
    }

    /// Tells the compiler of the addresses of those that wait, and writes what follows,
    /// once for all.
    async fn tell(&mut self) {
        if !self.sound {
            return;
        }
        let mut told = false;
        for waiting in self.waiting.iter_mut().filter(|it| !it.told) {
            let interface = &waiting.asked.interface;
            let Ok(pod) = pod_of(&self.caches.pods, interface) else {
                continue;
            };
            let name = (interface.namespace.clone(), interface.name.clone());
            let (uid, planned) = (pod.meta().uid.to_string(), pod.planned());
            let addresses = &interface.addresses;
            self.book.assign(&name, &uid, addresses, &mut self.compiler);
            self.book
                .observe_pod(&name, Some((&uid, &planned)), &mut self.compiler);
            waiting.told = true;
            told = true;
        }
        if told {
            self.flush().await;
        }
    }

    /// Fails with what a pod's interface still has to wait for.
    async fn check(&mut self, waiting: &mut WaitingInterface) -> Result<(), AdmitError> {
        if !self.sound {
            return Err(AdmitError::Unsound);
        }
        let interface = &waiting.asked.interface;
        pod_of(&self.caches.pods, interface)?;
        let PendingPodInterface {
            device, addresses, ..
        } = interface;
        if !waiting.told {
            return Err(AdmitError::Compiling);
        }
        if let Some(missing) = addresses
            .iter()
            .find(|address| !self.writer.maps.is_ready((**address).into()))
        {
            return Err(AdmitError::Rules(*missing));
        }
        let index = nix::net::if_::if_nametoindex(device.as_str());
        let index = index.map_err(|source| AdmitError::NoInterface {
            device: device.clone(),
            source,
        })?;
        if !self.writer.maps.is_guarded(index) {
            return Err(AdmitError::Unguarded(device.clone()));
        }
        let limits = bandwidth::limits(interface.bandwidth.as_ref());
        let limited = self.writer.limit(index, limits, &mut waiting.wished);
        limited.await?;
        // The next agent must know of it before anybody else does.
        let kept = self.kept.keep(interface);
        kept.map_err(|source| AdmitError::NotKept {
            device: device.clone(),
            source,
        })
    }
}

/// The pod whose interface it is, or why there is none.
fn pod_of(pods: &Cache<Pod>, interface: &PendingPodInterface) -> Result<Arc<Pod>, AdmitError> {
    let PendingPodInterface {
        namespace,
        name,
        uid,
        ..
    } = interface;
    let Some(pod) = pods.get(namespace, name) else {
        return Err(AdmitError::NoPod {
            namespace: namespace.clone(),
            name: name.clone(),
        });
    };
    // A static pod's UID is not that of the object that stands for it.
    let mirrors = pod.meta().annotations.get(MIRROR).is_some();
    if !uid.is_empty() && *pod.meta().uid != **uid && !mirrors {
        return Err(AdmitError::OtherPod {
            namespace: namespace.clone(),
            name: name.clone(),
        });
    }
    Ok(pod)
}

/// The annotation of an object that stands for a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Which object a change is about.
fn subject<V: View>(change: &Change<V>) -> Option<PodName> {
    let object = change.current.as_ref().or(change.previous.as_ref())?;
    let meta = object.meta();
    Some((meta.namespace.to_string(), meta.name.to_string()))
}

/// Ports of the node that a host firewall does not close: the agent's, and the API
/// server's (`asked`), here and elsewhere, and that by which nodes' pods reach each other.
fn protected(asked: impl Iterator<Item = u16>, tunnel: Option<u16>) -> Vec<PortRange> {
    let port = |protocol: Protocol, port: u16| PortRange {
        protocol,
        first: port,
        last: port,
    };
    let tcp: BTreeSet<u16> = asked.chain([serving::PORT]).collect();
    let tcp = tcp.into_iter().map(|it| port(Protocol::TCP, it));
    tcp.chain(tunnel.map(|it| port(Protocol::UDP, it)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_cluster_together_is_not_closed() {
        let said = |ports: Vec<PortRange>| -> Vec<(Protocol, u16)> {
            ports.iter().map(|it| (it.protocol, it.first)).collect()
        };
        let without = protected([6443, 6443].into_iter(), None);
        assert_eq!(
            said(without),
            [(Protocol::TCP, 6443), (Protocol::TCP, serving::PORT)]
        );
        let with = protected([].into_iter(), Some(8472));
        assert_eq!(
            said(with),
            [(Protocol::TCP, serving::PORT), (Protocol::UDP, 8472)]
        );
    }
}
