//! Objects in, actions out; what was compiled stays, so that a change costs
//! what it touches.
//!
//! ```text
//! policies ──► atoms (selectors, ranges of addresses) ──┐
//! pods, nodes ──► which atoms match ──► peers ──────────┼──► rows of rulesets
//! pods here ──► which policies select ──► rulesets ─────┘
//! ```
//!
//! [`Compiler::sync`] goes in rounds. A round makes peers of addresses, then
//! rulesets of pods, then classes of ports, completes all rulesets for the new
//! peers and classes, and only then lets addresses, ports and pods refer to
//! them. A policy that changed takes its new atoms before the round and gives
//! the old ones back long after it: in between every ruleset, old or new, knows all
//! peers. So each action leaves maps in which a flow is decided by the old
//! objects or by the new ones, by a program too that read half of it before
//! ([`Compiler::passed`]).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ebpf_abi::policy::{PeerEntry, PolicyRoot};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::action::Action;
use crate::address::{Prefix, number};
use crate::index::Index;
use crate::intern::Interner;
use crate::labels::{Labels, Selector};
use crate::objects::{ClusterNetworkPolicy, Namespace, NetworkPolicy, Node, Pod};
use crate::policy::{Namespaces, Networks, ObjectName, PodSelector, PortRange};
use crate::ports::{PortId, Ports};
use crate::prefixes::Prefixes;
use crate::ruleset::{AtomId, Binding, Key, PeerClass, PeerId, PolicyId, Ruleset, RulesetId, atom};

mod deferred_free;
mod entities;
mod explain;
mod explanation;
mod peers;
mod policies;
mod release;
mod round;
mod rulesets;
mod sizes;
mod view;

pub use deferred_free::FreeMark;
pub use explanation::{End, Explanation, Reason, Side, SideDecision, UNKNOWN_POD};
pub use sizes::Sizes;

/// Inputs of the compiler besides API objects.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The node whose pods get rulesets. `None`: all pods and nodes of the cluster, as
    /// for queries about it; then nothing is local.
    pub node: Option<String>,
    /// Ports of the node that a host firewall does not close: the API server's, the
    /// agent's, those of routes between nodes.
    pub protected: Vec<PortRange>,
    /// The root in the maps, of any former writer.
    pub previous: PolicyRoot,
}

type PodId = u32;
type NodeId = u32;

/// Compiles policies into map actions.
#[derive(Debug)]
pub struct Compiler {
    config: Config,
    root: PolicyRoot,
    /// Whether the first round has run.
    started: bool,

    namespaces: FxHashMap<Arc<str>, NamespaceState>,
    pods: FxHashMap<PodId, PodState>,
    pod_ids: FxHashMap<(Arc<str>, Box<str>), PodId>,
    next_pod: PodId,
    nodes: FxHashMap<NodeId, NodeState>,
    node_ids: FxHashMap<Box<str>, NodeId>,
    next_node: NodeId,
    /// Further addresses of this node.
    own_addresses: Vec<u128>,

    policies: FxHashMap<PolicyId, PolicyState>,
    current: BTreeMap<ObjectName, PolicyId>,
    next_policy: PolicyId,
    next_cookie: u32,
    /// The owners of cookies, by the first cookie of each.
    cookies: BTreeMap<u32, PolicyId>,
    problems: BTreeMap<ObjectName, Vec<String>>,

    subjects: Interner<PodSelector>,
    subject_policies: FxHashMap<u32, SmallVec<[PolicyId; 2]>>,
    pod_atoms: Interner<PodSelector>,
    node_atoms: Interner<Selector>,
    network_atoms: Interner<Networks>,
    bindings: Interner<Binding>,
    binding_ports: FxHashMap<u32, PortId>,
    /// Names of ports that egress rules use, and how many do.
    names: FxHashMap<Box<str>, u32>,
    bindings_of: FxHashMap<Box<str>, SmallVec<[AtomId; 2]>>,

    ports: Ports,
    protected: Vec<PortId>,
    prefixes: Prefixes,
    /// Ranges of pods' addresses, and how many nodes have them.
    pod_ranges: FxHashMap<Prefix, u32>,
    /// Those that no Node object names.
    further_ranges: Vec<Prefix>,
    hosts: BTreeMap<u128, Host>,
    mentions: FxHashMap<Prefix, PeerId>,

    peers: Interner<PeerClass>,
    peers_of: FxHashMap<AtomId, FxHashSet<PeerId>>,

    rulesets: FxHashMap<RulesetId, Ruleset>,
    ruleset_ids: FxHashMap<Arc<Key>, RulesetId>,
    next_ruleset: RulesetId,
    rulesets_of: FxHashMap<AtomId, FxHashSet<RulesetId>>,
    rulesets_of_port: FxHashMap<PortId, FxHashSet<RulesetId>>,
    rulesets_of_name: FxHashMap<Box<str>, FxHashSet<RulesetId>>,
    endpoints: FxHashMap<u128, Endpoint>,
    leaving: deferred_free::DeferredFree,
    dirty: Dirty,
}

#[derive(Debug, Default)]
struct Dirty {
    hosts: FxHashSet<u128>,
    mentions: FxHashSet<Prefix>,
    pods: FxHashSet<PodId>,
    nodes: FxHashSet<NodeId>,
    endpoints: FxHashSet<u128>,
    rules: Vec<(u32, Box<str>)>,
}

impl Dirty {
    fn is_empty(&self) -> bool {
        self.hosts.is_empty()
            && self.mentions.is_empty()
            && self.pods.is_empty()
            && self.nodes.is_empty()
            && self.endpoints.is_empty()
            && self.rules.is_empty()
    }
}

#[derive(Debug, Default)]
struct NamespaceState {
    /// `None`: there are pods, but not the object, so that nothing is known about them.
    labels: Option<Labels>,
    atoms: Index,
    subjects: Index,
    pods: FxHashSet<PodId>,
}

#[derive(Debug, PartialEq, Eq)]
struct PodState {
    namespace: Arc<str>,
    name: Box<str>,
    node: Box<str>,
    labels: Labels,
    addresses: SmallVec<[u128; 2]>,
    ports: Box<[Binding]>,
    created: u64,
    local: bool,
    /// For ingress and egress; 0: none.
    rulesets: [RulesetId; 2],
}

#[derive(Debug, PartialEq, Eq)]
struct NodeState {
    name: Box<str>,
    labels: Labels,
    addresses: SmallVec<[u128; 2]>,
    /// The ranges of its pods' addresses.
    ranges: SmallVec<[Prefix; 2]>,
    local: bool,
    rulesets: [RulesetId; 2],
}

/// The pods or node that hold an address.
#[derive(Debug, Default)]
struct Host {
    nodes: SmallVec<[NodeId; 1]>,
    pods: SmallVec<[PodId; 1]>,
    /// It was given as this node's own.
    own: bool,
    /// The entry in the maps, once it is written.
    said: Option<PeerEntry>,
    bindings: SmallVec<[u32; 1]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressOwner {
    Node(NodeId),
    Pod(PodId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Endpoint {
    owner: AddressOwner,
    rulesets: [RulesetId; 2],
}

#[derive(Debug)]
struct PolicyState {
    policy: crate::policy::Policy,
    /// Cookies: no rule matched (ingress, egress), then the rules.
    cookie: u32,
    ingress: Option<Vec<crate::ruleset::AtomRule>>,
    egress: Option<Vec<crate::ruleset::AtomRule>>,
    subject: Option<u32>,
    atoms: Vec<AtomId>,
    ports: Vec<PortId>,
    names: Vec<Box<str>>,
}

impl Compiler {
    /// A compiler that knows no objects yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let mut ports = Ports::default();
        let protected = config
            .protected
            .iter()
            .map(|it| ports.acquire(*it))
            .collect();
        let root = PolicyRoot {
            // 0 means an empty map.
            epoch: config.previous.epoch.checked_add(1).unwrap_or(1),
            generation: config.previous.generation,
        };
        let mut dirty = Dirty::default();
        dirty.mentions.insert(Prefix::V4);
        Self {
            config,
            root,
            started: false,
            namespaces: FxHashMap::default(),
            pods: FxHashMap::default(),
            pod_ids: FxHashMap::default(),
            next_pod: 0,
            nodes: FxHashMap::default(),
            node_ids: FxHashMap::default(),
            next_node: 0,
            own_addresses: Vec::new(),
            policies: FxHashMap::default(),
            current: BTreeMap::new(),
            next_policy: 1,
            next_cookie: ebpf_abi::policy::cookies::FIRST,
            cookies: BTreeMap::new(),
            problems: BTreeMap::new(),
            subjects: Interner::starting_at(1),
            subject_policies: FxHashMap::default(),
            pod_atoms: Interner::starting_at(1),
            node_atoms: Interner::starting_at(1),
            network_atoms: Interner::starting_at(1),
            bindings: Interner::starting_at(1),
            binding_ports: FxHashMap::default(),
            names: FxHashMap::default(),
            bindings_of: FxHashMap::default(),
            ports,
            protected,
            prefixes: Prefixes::new(),
            pod_ranges: FxHashMap::default(),
            further_ranges: Vec::new(),
            hosts: BTreeMap::new(),
            mentions: FxHashMap::default(),
            peers: Interner::starting_at(PeerEntry::FIRST),
            peers_of: FxHashMap::default(),
            rulesets: FxHashMap::default(),
            ruleset_ids: FxHashMap::default(),
            next_ruleset: 1,
            rulesets_of: FxHashMap::default(),
            rulesets_of_port: FxHashMap::default(),
            rulesets_of_name: FxHashMap::default(),
            endpoints: FxHashMap::default(),
            leaving: deferred_free::DeferredFree::default(),
            dirty,
        }
    }

    /// Updates a pod; `None` removes it.
    pub fn pod(&mut self, namespace: &str, name: &str, pod: Option<&Pod>) {
        self.put_pod(namespace, name, pod, None);
    }

    /// Updates a pod with the addresses that it was just given, before its status
    /// contains them.
    pub fn pod_at(&mut self, pod: &Pod, addresses: &[IpAddr]) {
        let metadata = &pod.metadata;
        self.put_pod(
            &metadata.namespace,
            &metadata.name,
            Some(pod),
            Some(addresses),
        );
    }

    /// A namespace as it is now.
    pub fn namespace(&mut self, name: &str, namespace: Option<&Namespace>) {
        self.put_namespace(name, namespace);
    }

    /// A node as it is now.
    pub fn node(&mut self, name: &str, node: Option<&Node>) {
        self.put_node(name, node);
    }

    /// All addresses of this node that its Node object does not name.
    pub fn own_addresses(&mut self, addresses: &[IpAddr]) {
        let new: Vec<u128> = addresses.iter().map(|it| number(*it)).collect();
        let old = std::mem::replace(&mut self.own_addresses, new.clone());
        for (addresses, own) in [(old, false), (new, true)] {
            for address in addresses {
                self.hosts.entry(address).or_default().own = own;
                self.dirty.hosts.insert(address);
                self.dirty.endpoints.insert(address);
            }
        }
    }

    /// All ranges of pods' addresses that no Node object names in `spec.podCIDRs`.
    pub fn pod_ranges(&mut self, ranges: &[Prefix]) {
        let old = std::mem::replace(&mut self.further_ranges, ranges.to_vec());
        self.change_ranges(&old, ranges);
    }

    /// A NetworkPolicy as it is now.
    pub fn network_policy(&mut self, namespace: &str, name: &str, policy: Option<&NetworkPolicy>) {
        let object = ObjectName {
            kind: crate::policy::Kind::NetworkPolicy,
            namespace: namespace.into(),
            name: name.into(),
        };
        let lowered = policy.map(crate::lower::network_policy);
        if matches!(lowered, Some(None)) {
            let why = format!(
                "is for nodes, which a policy of namespace {} only may be; it is ignored",
                crate::lower::HOST_NAMESPACE
            );
            self.put_policy(&object, None);
            self.problems.insert(object, vec![why]);
            return;
        }
        self.put_policy(&object, lowered.flatten());
    }

    /// A ClusterNetworkPolicy as it is now.
    pub fn cluster_network_policy(&mut self, name: &str, policy: Option<&ClusterNetworkPolicy>) {
        let object = ObjectName {
            kind: crate::policy::Kind::ClusterNetworkPolicy,
            namespace: "".into(),
            name: name.into(),
        };
        self.put_policy(&object, policy.map(crate::lower::cluster_network_policy));
    }

    /// Returns the parts of policies that were not understood, and their treatment.
    pub fn problems(&self) -> impl Iterator<Item = (&ObjectName, &str)> {
        self.problems
            .iter()
            .flat_map(|(name, all)| all.iter().map(move |it| (name, it.as_str())))
    }

    /// What brings the maps from what they hold to what the objects say. What is not
    /// referred to any more stays until that has [passed](Self::passed).
    pub fn sync(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        let first = !std::mem::replace(&mut self.started, true);
        if first {
            actions.push(Action::Clear(self.root.epoch));
        }
        self.round(&mut actions);
        // Known flows are looked at again when everything new is in place.
        if first || !actions.is_empty() {
            self.root.generation = self.root.generation.wrapping_add(1);
            actions.push(Action::PutRoot(self.root));
        }
        if first {
            actions.push(Action::Prune(self.root.epoch));
        }
        // Nobody's verdict is another afterwards.
        self.release(&mut actions);
        let mut rounds = 0;
        while (!self.dirty.is_empty() || self.ports.is_dirty()) && rounds < 4 {
            self.round(&mut actions);
            rounds += 1;
        }
        self.leaving.seal();
        actions
    }
}

/// Does a namespace belong to a selector's?
fn is_of(namespaces: &Namespaces, name: &str, labels: &Labels) -> bool {
    match namespaces {
        Namespaces::Named(it) => **it == *name,
        Namespaces::Matching(selector) => selector.matches(labels),
    }
}

/// The atom of a table's number.
const fn pods_atom(number: u32) -> AtomId {
    atom::atom(atom::PODS, number)
}
