//! Network policy: from the API to the maps that guard pods' interfaces.
//!
//! ```text
//! Pods, Namespaces, Nodes ──────────────┐
//! NetworkPolicies, ClusterNetworkPolicies ┼► one task ──► compiler ──► maps
//! addresses of this node ───────────────┤
//! the CNI plugin's questions ───────────┤──► answers, once a pod's rules are there
//! who, and why? ────────────────────────┘──► names of flows, and explanations
//! ```
//!
//! Which devices are guarded is the business of services, whose task owns the
//! programs; both meet in the maps, and in the pins of links.
//!
//! Until all is listed, the maps stay as the former agent left them, and no pod
//! starts: what it may not is not known yet. What is written is a prefix of
//! sound states; after a failure everything is compiled anew, under a new
//! epoch.

mod admit;
mod ask;
mod book;
mod views;
pub mod why;

use std::{
    collections::VecDeque,
    net::IpAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use control_client::{Cache, Change, Changes, Client, Reflector, Selection, View, reflect};
use ebpf_abi::Protocol;
use node_agent_datapath::Policy;
use node_agent_policy::{Compiler, Config, objects, policy::PortRange};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use self::{
    admit::{Asked, Interface},
    book::{Book, Name},
    views::{CLUSTER_NETWORK_POLICIES, ClusterNetworkPolicy, Namespace, NetworkPolicy, Node, Pod},
};
use crate::{
    Error, dns,
    services::{interfaces, local},
    serving,
};

pub use admit::socket;
pub use ask::{Ask, asks};

/// How long after a failure all is compiled anew.
const RETRY: Duration = Duration::from_secs(1);
/// How often what is awaited is looked at: links of devices, maps of a
/// datapath that is starting.
const LOOK: Duration = Duration::from_millis(20);
/// How long the CNI plugin's question may wait for an answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long lists are waited for before it is said, each time.
const REMIND: Duration = Duration::from_secs(10);
/// How often it is asked whether the API has ClusterNetworkPolicies by now.
const KINDS: Duration = Duration::from_secs(60);
/// Changes that are compiled together at most, so that others get their turn.
const TOGETHER: usize = 4_096;

/// What this part must be told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The Node object's name.
    pub node: String,
    /// Where the datapath pins its maps.
    pub pin_dir: PathBuf,
    /// Addresses of the cluster's DNS that this agent answers itself.
    pub dns: Vec<IpAddr>,
}

/// Enforces network policy until `shutdown`, and answers what is asked of it.
///
/// # Errors
/// [`Error::Datapath`] when the maps are not as they must be,
/// [`Error::File`] when the CNI plugin's questions cannot be listened for.
pub async fn run(
    client: Client,
    options: Options,
    mut asks: mpsc::Receiver<Ask>,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let namespaces = reflect::<Namespace>(&client, Selection::all());
    let pods = reflect::<Pod>(&client, Selection::all());
    let nodes = reflect::<Node>(&client, Selection::all());
    let policies = reflect::<NetworkPolicy>(&client, Selection::all());
    let mut changes = (
        namespaces.changes(),
        pods.changes(),
        nodes.changes(),
        policies.changes(),
    );
    let mut found = find(client);
    let mut cluster_changes = None;
    let mut cluster_known = false;
    let Some(maps) = opened(&options.pin_dir, &shutdown).await? else {
        return Ok(());
    };
    // The maps' lock, which the datapath holds, tells that there is no other
    // agent whose socket this might be.
    let path = socket(&options.pin_dir);
    let listener = local::listen_at(&path).map_err(Error::file("listen at", &path))?;
    let (sender, mut asked) = admit::questions();
    tokio::spawn(admit::serve(listener, sender, shutdown.clone()));
    let mut interfaces = interfaces::follow(shutdown.clone()).await?;
    let own = own_addresses(&interfaces.borrow_and_update().addresses);
    let mut state = State {
        compiler: Compiler::new(Config::default()),
        maps,
        dns: dns_pod(&options.node, &options.dns),
        node: options.node,
        namespaces: namespaces.cache(),
        pods: pods.cache(),
        nodes: nodes.cache(),
        policies: policies.cache(),
        cluster: None,
        own,
        book: Book::default(),
        begun: Instant::now(),
        sound: false,
        waiting: VecDeque::new(),
    };
    let listed = async {
        namespaces.synced().await;
        pods.synced().await;
        nodes.synced().await;
        policies.synced().await;
    };
    tokio::pin!(listed);
    let mut known = false;
    let mut remind = tokio::time::interval(REMIND);
    remind.reset();
    loop {
        let due = known && cluster_known && !state.sound;
        let waits = !state.waiting.is_empty();
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = &mut listed, if !known => known = true,
            Some(found) = found.recv() => {
                if let Found::Listed(policies) = found {
                    cluster_changes = Some(policies.changes());
                    state.cluster = Some(policies.cache());
                }
                cluster_known = true;
            }
            change = next(&mut cluster_changes) => state.on_cluster_policy(&change),
            Some(change) = changes.0.recv() => {
                state.on_namespace(&change);
                more(&mut changes.0, |change| state.on_namespace(change));
            }
            Some(change) = changes.1.recv() => {
                state.on_pod(&change);
                more(&mut changes.1, |change| state.on_pod(change));
            }
            Some(change) = changes.2.recv() => {
                state.on_node(&change);
                more(&mut changes.2, |change| state.on_node(change));
            }
            Some(change) = changes.3.recv() => {
                state.on_policy(&change);
                more(&mut changes.3, |change| state.on_policy(change));
            }
            Ok(()) = interfaces.changed() => {
                let own = own_addresses(&interfaces.borrow_and_update().addresses);
                if own != state.own {
                    state.compiler.own_addresses(&own);
                    state.own = own;
                }
            }
            Some(question) = asked.recv() => state.waiting.push_back(Waiting::new(question)),
            Some(ask) = asks.recv() => state.answer(ask),
            () = tokio::time::sleep(LOOK), if waits => {}
            () = pause(state.begun), if due => state.compile(),
            _ = remind.tick(), if !known || !cluster_known => {
                warn!(
                    missing = unlisted(&[
                        ("namespaces", namespaces.is_synced()),
                        ("pods", pods.is_synced()),
                        ("nodes", nodes.is_synced()),
                        ("networkpolicies", policies.is_synced()),
                        ("clusternetworkpolicies", cluster_known),
                    ]),
                    "network policy stays as it was, and no pod starts: the API server has not \
                     listed all; the agent must be allowed to list and watch them"
                );
            }
        }
        state.flush();
        state.admit();
    }
}

/// Says that this node enforces no policy: what a former agent left in the maps
/// goes, once the datapath is there.
///
/// # Errors
/// [`Error::Datapath`].
pub async fn clear(pin_dir: PathBuf, shutdown: CancellationToken) -> Result<(), Error> {
    if let Some(maps) = opened(&pin_dir, &shutdown).await? {
        maps.clear().map_err(Error::Datapath)?;
    }
    let path = socket(&pin_dir);
    local::remove_at(&path).map_err(Error::file("remove", &path))?;
    shutdown.cancelled().await;
    Ok(())
}

/// The maps, once the datapath has pinned them.
async fn opened(pin_dir: &Path, shutdown: &CancellationToken) -> Result<Option<Policy>, Error> {
    loop {
        match Policy::open(pin_dir) {
            Ok(maps) => return Ok(Some(maps)),
            Err(node_agent_datapath::Error::NotPinned { .. }) => {}
            Err(error) => return Err(Error::Datapath(error)),
        }
        tokio::select! {
            () = shutdown.cancelled() => return Ok(None),
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Addresses by which others may reach this node: neither loopback nor those of
/// a link alone, which come and go with pods.
fn own_addresses(all: &[IpAddr]) -> Vec<IpAddr> {
    let counts = |address: &&IpAddr| match address {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
    };
    all.iter().filter(counts).copied().collect()
}

/// Until the next attempt after the last one.
async fn pause(begun: Instant) {
    tokio::time::sleep_until((begun + RETRY).into()).await;
}

fn unlisted(lists: &[(&str, bool)]) -> String {
    let missing = lists.iter().filter(|(_, listed)| !listed);
    missing
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Takes what has arrived already: many changes are compiled at once.
fn more<V>(changes: &mut Changes<V>, mut each: impl FnMut(&Change<V>)) {
    for _ in 0..TOGETHER {
        let Some(change) = changes.try_recv() else {
            return;
        };
        each(&change);
    }
}

struct State {
    compiler: Compiler,
    maps: Policy,
    node: String,
    dns: objects::Pod,
    namespaces: Cache<Namespace>,
    pods: Cache<Pod>,
    nodes: Cache<Node>,
    policies: Cache<NetworkPolicy>,
    /// None where the API does not know the kind.
    cluster: Option<Cache<ClusterNetworkPolicy>>,
    own: Vec<IpAddr>,
    book: Book,
    /// When all was compiled last.
    begun: Instant,
    /// The maps hold what the compiler says.
    sound: bool,
    waiting: VecDeque<Waiting>,
}

/// An interface that is down until its rules are there.
struct Waiting {
    asked: Asked,
    until: Instant,
    /// The compiler was told of the addresses.
    told: bool,
}

impl Waiting {
    fn new(asked: Asked) -> Self {
        Self {
            asked,
            until: Instant::now() + PATIENCE,
            told: false,
        }
    }
}

// === impl State ===

impl State {
    fn on_namespace(&mut self, change: &Change<Namespace>) {
        if let Some((_, name)) = subject(change) {
            let planned = change.current.as_ref().map(|it| it.planned());
            self.compiler.namespace(&name, planned.as_ref());
        }
    }

    fn on_pod(&mut self, change: &Change<Pod>) {
        if let Some(name) = subject(change) {
            let pod = change.current.as_ref();
            let planned = pod.map(|it| (it.meta().uid.to_string(), it.planned()));
            let planned = planned.as_ref().map(|(uid, pod)| (uid.as_str(), pod));
            self.book.tell(&name, planned, &mut self.compiler);
        }
    }

    fn on_node(&mut self, change: &Change<Node>) {
        if let Some((_, name)) = subject(change) {
            let planned = change.current.as_ref().map(|it| it.planned());
            self.compiler.node(&name, planned.as_ref());
        }
    }

    fn on_policy(&mut self, change: &Change<NetworkPolicy>) {
        if let Some((namespace, name)) = subject(change) {
            let planned = change.current.as_ref().map(|it| it.planned());
            self.compiler
                .network_policy(&namespace, &name, planned.as_ref());
        }
    }

    fn on_cluster_policy(&mut self, change: &Change<ClusterNetworkPolicy>) {
        if let Some((_, name)) = subject(change) {
            let planned = change.current.as_ref().map(|it| it.planned());
            self.compiler
                .cluster_network_policy(&name, planned.as_ref());
        }
    }

    /// Compiles all that is known, and writes it beside what is in force, which
    /// it then replaces at once.
    fn compile(&mut self) {
        self.begun = Instant::now();
        let previous = match self.maps.root() {
            Ok(previous) => previous,
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "policy's maps cannot be read; trying again"
                );
                return;
            }
        };
        self.compiler = Compiler::new(Config {
            node: Some(self.node.clone()),
            protected: protected(),
            previous,
        });
        self.compiler.own_addresses(&self.own);
        for node in self.nodes.snapshot().iter() {
            self.compiler.node(&node.meta().name, Some(&node.planned()));
        }
        for namespace in self.namespaces.snapshot().iter() {
            let name = &namespace.meta().name;
            self.compiler.namespace(name, Some(&namespace.planned()));
        }
        for policy in self.policies.snapshot().iter() {
            let meta = policy.meta();
            let planned = policy.planned();
            self.compiler
                .network_policy(&meta.namespace, &meta.name, Some(&planned));
        }
        if let Some(policies) = &self.cluster {
            for policy in policies.snapshot().iter() {
                let name = &policy.meta().name;
                self.compiler
                    .cluster_network_policy(name, Some(&policy.planned()));
            }
        }
        let (namespace, name) = (&self.dns.metadata.namespace, &self.dns.metadata.name);
        self.compiler.pod(namespace, name, Some(&self.dns));
        for pod in self.pods.snapshot().iter() {
            let meta = pod.meta();
            let name = (meta.namespace.to_string(), meta.name.to_string());
            let planned = pod.planned();
            self.book
                .tell(&name, Some((&meta.uid, &planned)), &mut self.compiler);
        }
        self.sound = true;
        self.flush();
        if self.sound {
            let sizes = self.compiler.sizes();
            info!(took = ?self.begun.elapsed(), ?sizes, "the maps hold what policies say");
        }
        for (object, problem) in self.compiler.problems() {
            warn!(%object, problem, "a policy is not understood");
        }
    }

    /// Writes what changed.
    fn flush(&mut self) {
        if !self.sound {
            return;
        }
        let actions = self.compiler.sync();
        if let Err(error) = self.maps.apply(&actions) {
            self.sound = false;
            warn!(
                error = &error as &dyn std::error::Error,
                "policy did not reach the maps, which stay as they are; it will be compiled anew"
            );
        }
    }

    /// Answers questions whose rules are there, or that have waited enough.
    fn admit(&mut self) {
        for _ in 0..self.waiting.len() {
            let Some(mut waiting) = self.waiting.pop_front() else {
                return;
            };
            let missing = self.missing(&mut waiting);
            match missing {
                None => {
                    debug!(interface = ?waiting.asked.interface, "a pod's interface may be up");
                    let _ = waiting.asked.answer.send(Ok(()));
                }
                Some(missing) if Instant::now() >= waiting.until => {
                    warn!(
                        namespace = waiting.asked.interface.namespace,
                        pod = waiting.asked.interface.name,
                        missing,
                        "a pod cannot start yet"
                    );
                    let _ = waiting.asked.answer.send(Err(missing));
                }
                // Whoever asked has gone.
                Some(_) if waiting.asked.answer.is_closed() => {}
                Some(_) => self.waiting.push_back(waiting),
            }
        }
    }

    /// What a pod's interface still has to wait for.
    fn missing(&mut self, waiting: &mut Waiting) -> Option<String> {
        if !self.sound {
            return Some("network policy is not known yet: the API is still being listed".into());
        }
        let Interface {
            namespace,
            name,
            uid,
            device,
            addresses,
        } = &waiting.asked.interface;
        let Some(pod) = self.pods.get(namespace, name) else {
            return Some(format!("pod `{namespace}/{name}` is not known yet"));
        };
        // A static pod's UID is not that of the object that stands for it.
        let mirrors = pod.meta().annotations.get(MIRROR).is_some();
        if !uid.is_empty() && *pod.meta().uid != **uid && !mirrors {
            return Some(format!(
                "pod `{namespace}/{name}` is known as one of another UID"
            ));
        }
        if !waiting.told {
            let name = (namespace.clone(), name.clone());
            let (uid, planned) = (pod.meta().uid.to_string(), pod.planned());
            self.book.give(&name, &uid, addresses, &mut self.compiler);
            self.book
                .tell(&name, Some((&uid, &planned)), &mut self.compiler);
            waiting.told = true;
            self.flush();
        }
        if let Some(missing) = addresses
            .iter()
            .find(|address| !self.maps.is_ready((**address).into()))
        {
            return Some(format!("the rules of {missing} are not in force yet"));
        }
        match nix::net::if_::if_nametoindex(device.as_str()) {
            Err(error) => Some(format!("interface `{device}`: {error}")),
            Ok(index) if !self.maps.is_guarded(index) => {
                Some(format!("interface `{device}` is not guarded yet"))
            }
            Ok(_) => None,
        }
    }
}

/// The annotation of an object that stands for a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Which object a change is about.
fn subject<V: View>(change: &Change<V>) -> Option<Name> {
    let object = change.current.as_ref().or(change.previous.as_ref())?;
    let meta = object.meta();
    Some((meta.namespace.to_string(), meta.name.to_string()))
}

/// Who answers at the cluster DNS's addresses, as rules know it elsewhere: as
/// pods of `kube-system` with `k8s-app: kube-dns`. So a rule that allows cluster
/// DNS does so here, where the node's agent answers. No addresses: nobody.
fn dns_pod(node: &str, addresses: &[IpAddr]) -> objects::Pod {
    let port = |name: &str, protocol: &str| objects::ContainerPort {
        name: name.to_owned(),
        container_port: i64::from(dns::PORT),
        protocol: Some(protocol.to_owned()),
    };
    let ips = addresses.iter().map(|address| objects::PodIp {
        ip: address.to_string(),
    });
    objects::Pod {
        metadata: objects::Metadata {
            // No object has such a name.
            name: "dns/".to_owned() + node,
            namespace: "kube-system".to_owned(),
            labels: [("k8s-app".to_owned(), "kube-dns".to_owned())].into(),
            ..objects::Metadata::default()
        },
        spec: objects::PodSpec {
            node_name: node.to_owned(),
            containers: vec![objects::Container {
                ports: vec![port("dns", "UDP"), port("dns-tcp", "TCP")],
                restart_policy: None,
            }],
            ..objects::PodSpec::default()
        },
        status: objects::PodStatus {
            pod_ips: ips.collect(),
            ..objects::PodStatus::default()
        },
    }
}

/// Ports of the node that a host firewall does not close.
fn protected() -> Vec<PortRange> {
    vec![PortRange {
        protocol: Protocol::TCP,
        first: serving::PORT,
        last: serving::PORT,
    }]
}

/// What is known of ClusterNetworkPolicies.
enum Found {
    /// The API has no such kind.
    Absent,
    /// All of them.
    Listed(Reflector<ClusterNetworkPolicy>),
}

/// Says whether the API has ClusterNetworkPolicies, and which, as soon as it
/// has: their definition may be installed at any time.
fn find(client: Client) -> mpsc::Receiver<Found> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut told = false;
        while !sender.is_closed() {
            match client.serves(&CLUSTER_NETWORK_POLICIES).await {
                Ok(true) => {
                    let policies = reflect(&client, Selection::all());
                    policies.synced().await;
                    let _ = sender.send(Found::Listed(policies)).await;
                    return;
                }
                Ok(false) => {
                    if !std::mem::replace(&mut told, true) {
                        let _ = sender.send(Found::Absent).await;
                    }
                    tokio::time::sleep(KINDS).await;
                }
                Err(error) => {
                    debug!(%error, "not known whether there are ClusterNetworkPolicies");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    });
    receiver
}

/// The next change of something that may not be there at all.
async fn next<V>(changes: &mut Option<Changes<V>>) -> Change<V> {
    if let Some(changes) = changes
        && let Some(change) = changes.recv().await
    {
        return change;
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_for_the_pods_of_cluster_dns_is_for_the_agent_that_answers() {
        let mut compiler = Compiler::new(Config {
            node: Some("n".to_owned()),
            ..Config::default()
        });
        let dns: IpAddr = "10.96.0.10".parse().expect("an address");
        let pod: IpAddr = "10.0.0.1".parse().expect("an address");
        compiler.own_addresses(&[dns]);
        for name in ["x", "kube-system"] {
            let labels = json!({"kubernetes.io/metadata.name": name});
            let object = json!({"metadata": {"name": name, "labels": labels}});
            let object = serde_json::from_value(object).expect("a namespace");
            compiler.namespace(name, Some(&object));
        }
        let object = json!({
            "metadata": {"name": "a", "namespace": "x"},
            "spec": {"nodeName": "n"},
            "status": {"podIP": pod},
        });
        let object = serde_json::from_value(object).expect("a pod");
        compiler.pod("x", "a", Some(&object));
        let policy = json!({
            "metadata": {"name": "p", "namespace": "x"},
            "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{
                "to": [{
                    "namespaceSelector": {},
                    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
                }],
                "ports": [{"port": 53, "protocol": "UDP"}, {"port": "dns-tcp"}],
            }]},
        });
        let policy = serde_json::from_value(policy).expect("a policy");
        compiler.network_policy("x", "p", Some(&policy));
        for (known, expected) in [(vec![], false), (vec![dns], true)] {
            let answers = dns_pod("n", &known);
            compiler.pod("kube-system", &answers.metadata.name, Some(&answers));
            compiler.sync();
            for protocol in [Protocol::UDP, Protocol::TCP] {
                let said = compiler.explain(pod, dns, protocol, 53);
                assert_eq!(said.egress.map(|it| it.decided.allow), Some(expected));
            }
            assert!(!compiler.explain(pod, dns, Protocol::UDP, 54).allow);
        }
    }
}
