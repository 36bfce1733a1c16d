//! Plans the take-over of addresses from MetalLB, step by step. Pure.
//!
//! MetalLB's controller is stopped first, so that only one program assigns addresses.
//! Then Orlop's controller takes over the Services with their present addresses.
//!
//! **ARP and NDP.** Two nodes may answer for an address at once: the one that a client
//! asks forwards the packets. So Orlop announces an address first, and once a node holds
//! it, MetalLB stops for it alone: the address moves to a pool of MetalLB's that no
//! advertisement names. MetalLB's speakers reject a configuration in which an announced
//! address is in no pool, or in two, and keep the former one: so two writes are one
//! change for them. They also look for one pool with all addresses of a Service. So
//! addresses that Services connect move together.
//!
//! Whoever announces an address has the state of the connections to it, so Orlop first
//! announces it on the node on which MetalLB does, and nowhere else: MetalLB says which
//! one that is since its release 0.14.
//!
//! **BGP.** A router has one session with an address of a node: the second is refused
//! while the first is up. So the session moves node by node, while the other nodes keep
//! announcing the same addresses: a route loses one of its next hops for some seconds,
//! and is never withdrawn as a whole. The next node follows once the previous one has its
//! session and its routes. If only one node announces an address, its route is absent for
//! that time; this is refused unless it is accepted.
//!
//! Labels mark what is not taken over yet: Orlop's announcements select Services that
//! have [`LABEL`], and its peers nodes that have it; MetalLB's speakers run on nodes that
//! do not.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use control_load_balancer::AddressRange;
use control_types::label_selector::LabelSelector;
use serde_json::{Value, json};

use super::service::ServedService;
use crate::{InvalidValue, ObjectId};

/// On a Service: Orlop announces it. On a node: Orlop speaks BGP there, and MetalLB does not.
pub const LABEL: &str = "orlop.dev/metallb";
/// The label's value.
pub const TAKEN: &str = "taken-over";
/// The label's value on a Service that Orlop announces only on the node on which MetalLB does.
pub const CLAIMED: &str = "claimed";
/// The label of nodes by which one is selected.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// MetalLB's pool for addresses that it does not announce any more.
pub const PARKED: &str = "orlop-taken-over";
/// The ConfigMap in MetalLB's namespace with the information for the way back.
pub const RECORD: &str = "orlop-migrate-metallb";

/// A task of the take-over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Write the record.
    Record,
    /// Scale MetalLB's controller to nothing, and let its objects be changed without it.
    StopController,
    /// Give Services the annotations that they lack.
    Annotate,
    /// Create Orlop's objects, for what is labelled.
    Create,
    /// Wait until Orlop's controller has taken all Services over with their addresses.
    AwaitAssigned,
    /// Let MetalLB's advertisements name the pools that they are about.
    NameAdvertisements,
    /// Announce addresses by ARP or NDP, and have MetalLB stop.
    TakeAddresses(BTreeSet<IpAddr>),
    /// Keep MetalLB's speakers away from nodes that are labelled.
    ExemptNodes,
    /// Label all Services that BGP announces.
    LabelServices(Vec<IpAddr>),
    /// Stop MetalLB's speaker on a node, and wait until Orlop has its sessions.
    TakeNode(String),
    /// Stop MetalLB's speakers everywhere.
    StopSpeakers,
    /// Let Orlop's objects be for everything, and remove the labels.
    Finish,
}

/// The reason why nothing is done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A route would be withdrawn.
    #[error(
        "{address} is announced by BGP from one node only ({node}): its route would be away for \
         some seconds while the session changes hands. Let a second node announce it (another \
         endpoint, or a wider nodeSelector), or accept it with --allow-gap"
    )]
    OneNode {
        /// The address.
        address: IpAddr,
        /// The node; empty if there is none.
        node: String,
    },
    /// Addresses of a Service are announced in different ways.
    #[error(
        "{near} is announced by ARP or NDP and {routed} by BGP, and both are of one Service, which \
         moves as a whole: the route would be away until the sessions have changed hands. Announce \
         both in the same way, or accept it with --allow-gap"
    )]
    Mixed {
        /// The address that ARP or NDP announces.
        near: IpAddr,
        /// The one that BGP announces.
        routed: IpAddr,
    },
}

/// State of the cluster that the take-over is planned from.
#[derive(Debug, Clone, Default)]
pub struct Situation {
    /// Orlop's objects, as converted.
    pub objects: Vec<Value>,
    /// Services with their addresses.
    pub services: Vec<ServedService>,
    /// Nodes and their labels.
    pub nodes: BTreeMap<String, BTreeMap<String, String>>,
    /// For Services with policy Local, by namespace and name: nodes with endpoints.
    pub endpoints: BTreeMap<(String, String), BTreeSet<String>>,
    /// Addresses that were taken over by a former run.
    pub taken: BTreeSet<IpAddr>,
}

impl Situation {
    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let kind = kind.to_owned();
        self.objects
            .iter()
            .filter(move |it| it["kind"] == kind.as_str())
    }

    /// Whether objects of a kind announce addresses of a pool.
    fn is_announced(&self, kind: &str, pool: &str) -> bool {
        self.of_kind(kind).any(|it| {
            let names = it.pointer("/spec/ipPools").and_then(Value::as_array);
            names.is_none_or(|names| names.iter().any(|it| it == pool))
        })
    }

    /// The addresses that objects of a kind announce.
    fn addresses(&self, kind: &str) -> BTreeSet<IpAddr> {
        let mut all = BTreeSet::new();
        for service in &self.services {
            for (address, pool) in service.addresses.iter().zip(&service.pools) {
                if self.is_announced(kind, pool) {
                    all.insert(*address);
                }
            }
        }
        all
    }

    /// Addresses that BGP announces.
    #[must_use]
    pub fn by_bgp(&self) -> BTreeSet<IpAddr> {
        if self.of_kind("BGPPeer").next().is_none() {
            return BTreeSet::new();
        }
        self.addresses("BGPAdvertisement")
    }

    /// Addresses that only ARP and NDP announce.
    #[must_use]
    pub fn by_l2_alone(&self) -> BTreeSet<IpAddr> {
        let by_bgp = self.by_bgp();
        let all = self.addresses("L2Announcement");
        all.into_iter().filter(|it| !by_bgp.contains(it)).collect()
    }

    /// Addresses that only ARP and NDP announce, those together that Services connect.
    #[must_use]
    pub fn groups(&self) -> Vec<BTreeSet<IpAddr>> {
        let mut groups: Vec<BTreeSet<IpAddr>> = Vec::new();
        for service in &self.services {
            let mut group: BTreeSet<IpAddr> = service.addresses.iter().copied().collect();
            groups.retain(|known| {
                let apart = known.is_disjoint(&group);
                if !apart {
                    group.extend(known);
                }
                apart
            });
            groups.push(group);
        }
        let alone = self.by_l2_alone();
        groups.retain(|group| !group.is_disjoint(&alone));
        groups.sort();
        groups
    }

    /// The nodes that have sessions, in the order of their names.
    #[must_use]
    pub fn bgp_nodes(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for peer in self.of_kind("BGPPeer") {
            let selector = selector(&peer["spec"]["nodeSelector"]);
            let selected = self.nodes.iter().filter(|(_, labels)| {
                selector
                    .as_ref()
                    .is_none_or(|it| it.matches(|key| labels.get(key).map(String::as_str)))
            });
            all.extend(selected.map(|(name, _)| name.clone()));
        }
        all
    }

    /// The nodes that announce an address by BGP.
    fn announcing(&self, address: IpAddr) -> BTreeSet<String> {
        let mut nodes = self.bgp_nodes();
        for service in self
            .services
            .iter()
            .filter(|it| it.addresses.contains(&address))
        {
            if service.is_local {
                let key = (service.namespace.clone(), service.name.clone());
                let local = self.endpoints.get(&key).cloned().unwrap_or_default();
                nodes.retain(|it| local.contains(it));
            }
        }
        nodes
    }
}

fn selector(value: &Value) -> Option<LabelSelector> {
    serde_json::from_value(value.clone()).ok()
}

/// Returns the tasks of the take-over, in the order in which they run.
///
/// # Errors
/// [`Refusal`], unless gaps are allowed.
pub fn plan(situation: &Situation, allow_gap: bool) -> Result<Vec<Task>, Refusal> {
    let by_bgp = situation.by_bgp();
    if !allow_gap {
        for address in &by_bgp {
            let nodes = situation.announcing(*address);
            if nodes.len() < 2 {
                return Err(Refusal::OneNode {
                    address: *address,
                    node: nodes.first().cloned().unwrap_or_default(),
                });
            }
        }
        for group in situation.groups() {
            let near = group.difference(&by_bgp).next();
            let routed = group.intersection(&by_bgp).next();
            if let (Some(near), Some(routed)) = (near, routed) {
                let (near, routed) = (*near, *routed);
                return Err(Refusal::Mixed { near, routed });
            }
        }
    }
    let mut tasks = vec![
        Task::Record,
        Task::StopController,
        Task::Annotate,
        Task::Create,
        Task::AwaitAssigned,
    ];
    let groups = situation.groups();
    let left = groups
        .into_iter()
        .filter(|it| !it.is_subset(&situation.taken));
    let left: Vec<Task> = left.map(Task::TakeAddresses).collect();
    if !left.is_empty() {
        tasks.push(Task::NameAdvertisements);
        tasks.extend(left);
    }
    tasks.push(Task::ExemptNodes);
    if !by_bgp.is_empty() {
        tasks.push(Task::LabelServices(by_bgp.into_iter().collect()));
        tasks.extend(situation.bgp_nodes().into_iter().map(Task::TakeNode));
    }
    tasks.push(Task::StopSpeakers);
    tasks.push(Task::Finish);
    Ok(tasks)
}

/// A task in words.
#[must_use]
pub fn describe(task: &Task, situation: &Situation) -> String {
    match task {
        Task::Record => format!("record MetalLB's state in ConfigMap {RECORD}"),
        Task::StopController => {
            "stop MetalLB's controller, and let its objects be changed without it".to_owned()
        }
        Task::Annotate => {
            let lacking = |it: &&ServedService| !it.annotations.is_empty();
            let number = situation.services.iter().filter(lacking).count();
            format!("annotate {number} Services with what they ask of MetalLB")
        }
        Task::Create => format!("create {} objects of Orlop", situation.objects.len()),
        Task::AwaitAssigned => format!(
            "wait until Orlop's controller has {} Services with the addresses that they have",
            situation.services.len()
        ),
        Task::NameAdvertisements => {
            "let MetalLB's advertisements name the pools that they are about".to_owned()
        }
        Task::TakeAddresses(addresses) => {
            let all: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            let all = all.join(", ");
            format!("{all} (ARP or NDP): announce, then have MetalLB stop")
        }
        Task::ExemptNodes => {
            "keep MetalLB's speakers away from nodes that Orlop has taken over".to_owned()
        }
        Task::LabelServices(addresses) => format!(
            "let Orlop announce {} addresses by BGP where it has sessions",
            addresses.len()
        ),
        Task::TakeNode(node) => format!(
            "node {node} (BGP): stop MetalLB's speaker, wait for Orlop's sessions and routes"
        ),
        Task::StopSpeakers => "stop MetalLB's speakers on all nodes".to_owned(),
        Task::Finish => "let Orlop's objects be for all Services and nodes".to_owned(),
    }
}

/// An object, limited to Services and nodes that are labelled.
#[must_use]
pub fn limited(object: &Value) -> Value {
    let mut limited = object.clone();
    let key = match object["kind"].as_str() {
        Some("L2Announcement" | "BGPAdvertisement") => "serviceSelector",
        Some("BGPPeer") => "nodeSelector",
        _ => return limited,
    };
    let spec = &mut limited["spec"];
    if !spec[key].is_object() {
        spec[key] = json!({});
    }
    spec[key]["matchLabels"][LABEL] = TAKEN.into();
    limited
}

/// The node on which MetalLB announces Services by ARP and NDP, from its ServiceL2Status objects;
/// `None` if it does not say, or announces them on several nodes.
#[must_use]
pub fn announcing_node(statuses: &[Value], services: &[&ServedService]) -> Option<String> {
    let is_about = |status: &&Value| {
        services.iter().any(|it| {
            status["serviceNamespace"] == it.namespace.as_str()
                && status["serviceName"] == it.name.as_str()
        })
    };
    let statuses = statuses.iter().map(|it| &it["status"]);
    let nodes: BTreeSet<&str> = statuses
        .filter(is_about)
        .filter_map(|it| it["node"].as_str())
        .collect();
    match nodes.first() {
        Some(node) if nodes.len() == 1 => Some((*node).to_owned()),
        _ => None,
    }
}

/// L2Announcements that have a node announce the Services that are labelled [`CLAIMED`], and no
/// other node: copies of those among `objects`.
#[must_use]
pub fn claiming(objects: &[Value], hostname: &str) -> Vec<Value> {
    let announcements = objects.iter().filter(|it| it["kind"] == "L2Announcement");
    announcements
        .enumerate()
        .map(|(number, object)| {
            let mut claim = object.clone();
            claim["metadata"] = json!({"name": format!("orlop-migrate-metallb-{number}")});
            for (key, label, value) in [
                ("serviceSelector", LABEL, CLAIMED),
                ("nodeSelector", HOSTNAME, hostname),
            ] {
                let spec = &mut claim["spec"];
                if !spec[key].is_object() {
                    spec[key] = json!({});
                }
                let known = spec[key]["matchExpressions"].as_array();
                let mut all = known.cloned().unwrap_or_default();
                all.push(json!({"key": label, "operator": "In", "values": [value]}));
                spec[key]["matchExpressions"] = all.into();
            }
            claim
        })
        .collect()
}

/// A pool with all ranges of some objects, which is there while pools come or go one by one:
/// Orlop's controller would replace addresses that no pool has. Its name is last, since of two
/// pools the first has an address.
#[must_use]
pub fn cover(objects: &[Value]) -> Value {
    let pools = objects.iter().filter(|it| it["kind"] == "IPPool");
    let ranges: Vec<String> = pools
        .flat_map(|it| texts(it.pointer("/spec/ranges")))
        .collect();
    json!({
        "apiVersion": "orlop.dev/v1alpha1",
        "kind": "IPPool",
        "metadata": {"name": "zzzz-orlop-migrate-metallb"},
        "spec": {"ranges": ranges, "autoAssign": false},
    })
}

/// The patch that takes the limit of [`limited`] away again; `None` for kinds without one.
#[must_use]
pub fn unlimiting(kind: &str) -> Option<Value> {
    let key = match kind {
        "L2Announcement" | "BGPAdvertisement" => "serviceSelector",
        "BGPPeer" => "nodeSelector",
        _ => return None,
    };
    Some(json!({"spec": {key: {"matchLabels": {LABEL: null}}}}))
}

/// The ranges of a pool without an address, as texts; empty if nothing is left.
#[must_use]
pub fn ranges_without(ranges: &[String], address: IpAddr) -> Vec<String> {
    let mut left = Vec::new();
    for text in ranges {
        let range = text.parse::<AddressRange>();
        let Some(range) = range.ok().filter(|it| it.contains(address)) else {
            left.push(text.clone());
            continue;
        };
        let (first, last) = (range.first(), range.last());
        if first < address
            && let Some(before) = neighbour(address, false)
        {
            left.push(format!("{first}-{before}"));
        }
        if address < last
            && let Some(after) = neighbour(address, true)
        {
            left.push(format!("{after}-{last}"));
        }
    }
    left
}

/// The address after or before one.
fn neighbour(address: IpAddr, after: bool) -> Option<IpAddr> {
    match address {
        IpAddr::V4(it) => {
            let number = u32::from(it);
            let number = if after {
                number.checked_add(1)
            } else {
                number.checked_sub(1)
            };
            number.map(|it| IpAddr::V4(it.into()))
        }
        IpAddr::V6(it) => {
            let number = u128::from(it);
            let number = if after {
                number.checked_add(1)
            } else {
                number.checked_sub(1)
            };
            number.map(|it| IpAddr::V6(it.into()))
        }
    }
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let all = value.and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|it| it.as_str().map(str::to_owned))
        .collect()
}

/// The ranges that MetalLB's pools have while some addresses are taken over; none: the pool is to
/// be deleted, since a pool cannot be empty.
#[must_use]
pub fn pool_ranges(originals: &[Value], taken: &BTreeSet<IpAddr>) -> Vec<(ObjectId, Vec<String>)> {
    originals
        .iter()
        .map(|pool| {
            let ranges = texts(pool.pointer("/spec/addresses"));
            let left = taken
                .iter()
                .fold(ranges, |left, address| ranges_without(&left, *address));
            (ObjectId::from_object(pool), left)
        })
        .collect()
}

/// The pool of addresses that are taken over.
#[must_use]
pub fn parked(namespace: &str, taken: &BTreeSet<IpAddr>) -> Value {
    let ranges: Vec<String> = taken.iter().map(|it| format!("{it}-{it}")).collect();
    json!({
        "apiVersion": "metallb.io/v1beta1",
        "kind": "IPAddressPool",
        "metadata": {"namespace": namespace, "name": PARKED},
        "spec": {"addresses": ranges, "autoAssign": false},
    })
}

/// The addresses of the pool of those that are taken over.
#[must_use]
pub fn parked_addresses(pool: &Value) -> BTreeSet<IpAddr> {
    let ranges = texts(pool.pointer("/spec/addresses")).into_iter();
    let ranges = ranges.filter_map(|it| it.parse::<AddressRange>().ok());
    ranges.map(|it| it.first()).collect()
}

/// Patches that let MetalLB's advertisements name the pools that they are about, so that they are
/// not about [`PARKED`].
#[must_use]
pub fn naming(advertisements: &[Value], pools: &[Value]) -> Vec<(ObjectId, Value)> {
    let mut all = Vec::new();
    for advertisement in advertisements {
        let spec = &advertisement["spec"];
        let selectors: Vec<LabelSelector> = spec["ipAddressPoolSelectors"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(selector)
            .collect();
        let mut names: BTreeSet<String> = texts(spec.get("ipAddressPools")).into_iter().collect();
        let is_about_all = names.is_empty() && selectors.is_empty();
        for pool in pools {
            let labels = crate::labels_of(pool);
            let get = |key: &str| labels.get(key).map(String::as_str);
            if is_about_all || selectors.iter().any(|it| it.matches(get)) {
                names.insert(ObjectId::from_object(pool).name);
            }
        }
        if names.is_empty() {
            // About no pool; an empty list would be about all.
            names.insert("none".to_owned());
        }
        let patch = json!({"spec": {"ipAddressPools": names, "ipAddressPoolSelectors": null}});
        all.push((ObjectId::from_object(advertisement), patch));
    }
    all
}

/// The patch that keeps a DaemonSet's pods away from nodes that are labelled, without restarting
/// those that run: pods of nodes that the template excludes go, and the others are replaced by
/// nothing as long as updates are made on deletion only.
#[must_use]
pub fn exempting(daemon_set: &Value) -> Value {
    let pointer = "/spec/template/spec/affinity/nodeAffinity/\
                   requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = daemon_set.pointer(pointer).and_then(Value::as_array);
    let mut terms = terms.cloned().unwrap_or_default();
    if terms.is_empty() {
        terms.push(json!({}));
    }
    for term in &mut terms {
        let requirement = json!({"key": LABEL, "operator": "DoesNotExist"});
        let known = term["matchExpressions"].as_array();
        let mut all = known.cloned().unwrap_or_default();
        if !all.contains(&requirement) {
            all.push(requirement);
        }
        term["matchExpressions"] = all.into();
    }
    json!({"spec": {
        "updateStrategy": {"type": "OnDelete", "rollingUpdate": null},
        "template": {"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }}}},
    }})
}

/// The patch that gives a DaemonSet its affinity and strategy back.
#[must_use]
pub fn restoring(original: &Value) -> Value {
    let get = |pointer: &str| original.pointer(pointer).cloned().unwrap_or(Value::Null);
    json!([
        {"op": "add", "path": "/spec/template/spec/affinity",
            "value": match get("/spec/template/spec/affinity") {
                Value::Null => json!({}),
                other => other,
            }},
        {"op": "add", "path": "/spec/updateStrategy", "value": get("/spec/updateStrategy")},
    ])
}

/// The number of routes that a node announces, once it has all its sessions.
///
/// # Errors
/// The session that is not up, and why.
pub fn sessions(announcer: &Value, peers: &BTreeSet<String>) -> Result<usize, InvalidValue> {
    let all = announcer
        .pointer("/status/peers")
        .and_then(Value::as_object);
    let mut routes = 0;
    for name in peers {
        let peer = all.and_then(|it| it.get(name));
        let state = peer.and_then(|it| it["state"].as_str()).unwrap_or("none");
        if state != "Established" {
            let why = peer.and_then(|it| it["error"].as_str()).unwrap_or_default();
            let text = format!("session with {name} is {state} {why}");
            return Err(InvalidValue(text.trim_end().to_owned()));
        }
        let advertised = peer
            .and_then(|it| it["advertised"].as_u64())
            .unwrap_or_default();
        routes += usize::try_from(advertised).unwrap_or(usize::MAX);
    }
    Ok(routes)
}

/// The peers that a node has sessions with.
#[must_use]
pub fn peers_of(objects: &[Value], labels: &BTreeMap<String, String>) -> BTreeSet<String> {
    let peers = objects.iter().filter(|it| it["kind"] == "BGPPeer");
    let selected = peers.filter(|peer| {
        selector(&peer["spec"]["nodeSelector"])
            .is_none_or(|it| it.matches(|key| labels.get(key).map(String::as_str)))
    });
    selected.map(|it| ObjectId::from_object(it).name).collect()
}

#[cfg(test)]
mod tests;
