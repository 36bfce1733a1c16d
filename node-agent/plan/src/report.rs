//! Reports what is programmed on this node, and what is not and why: the maps' contents
//! beside the plan's accounts of the objects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};

use ebpf_abi::{
    Backend, BackendFlags, NodeFlags, Service as Entry, ServiceFlags, ServiceKey, SlotKey,
};
use ipnet::IpNet;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::account::{Account, Clients, EndpointAccount, EndpointStanding, FrontAccount};
use crate::current::Current;

/// Behind the name of a set of endpoints of this node only.
const LOCAL: &str = " local";
/// The number of unused endpoints with the same reason that are listed one by one; others
/// are counted.
const TOLD: usize = 10;

/// Selects the contents of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportSelection {
    /// Everything.
    All,
    /// The Service or Pod of a namespace and name.
    Object(String, String),
    /// An address at which clients reach something, or of an endpoint; at one port or at
    /// any.
    Place(IpAddr, Option<u16>),
}

/// The whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Why reasons, and everything that is not in the maps, are unknown; `None` if the
    /// agent reported them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasons_unknown: Option<String>,
    /// Services, Pods with host ports, and what the node answers itself.
    pub objects: Vec<ObjectReport>,
}

/// One object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReport {
    /// `Service`, `Pod` or `Node`.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Why it has no datapath at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nothing: Option<String>,
    /// Sets of endpoints and what leads to them.
    pub sets: Vec<SetReport>,
    /// Requests that are not in force.
    pub problems: Vec<String>,
}

/// Endpoints of a port in a family under one traffic policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetReport {
    /// `namespace/service:port protocol family`, and `local` for endpoints of this
    /// node only.
    pub name: String,
    /// Its number in the maps; none: they do not hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<u32>,
    /// Its generation in the maps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// For how many seconds a client keeps its endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity_seconds: Option<u32>,
    /// Places of the table of consistent hashing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<u32>,
    /// The treatment of clients while there is no endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients_are: Option<&'static str>,
    /// The allowed sources of addresses with restricted clients.
    pub sources: Vec<IpNet>,
    /// Addresses that lead to it, or should.
    pub addresses: Vec<AddressReport>,
    /// Endpoints that are used, or might be.
    pub endpoints: Vec<EndpointReport>,
}

/// An address and port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressReport {
    /// The address; unspecified for those of the node that serve node ports.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    /// The protocol.
    pub protocol: String,
    /// For which clients.
    pub clients: Clients,
    /// The kind of address, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether the maps lead from it to this set.
    pub programmed: bool,
    /// Only for clients in the set's source ranges.
    pub restricted: bool,
    /// Endpoints of other nodes answer clients directly.
    pub direct_return: bool,
    /// The node itself answers there, as it does for cluster DNS.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub answered_by_node: bool,
    /// Why it is not programmed, or what is unexpected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointReport {
    /// The endpoint.
    pub endpoint: String,
    /// Whether it is in the maps.
    pub programmed: bool,
    /// On this node.
    pub local: bool,
    /// It is ending, and serves since no other is ready.
    pub terminating: bool,
    /// Why it is not programmed, or what is unexpected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The entries that the maps hold of a set.
#[derive(Default)]
struct HeldSet<'a> {
    set: u32,
    entries: Vec<(&'a ServiceKey, &'a Entry)>,
}

// === impl Report ===

impl Report {
    /// Combines the maps' contents with the agent's accounts. Without the agent there are none,
    /// and `reasons_unknown` says why.
    #[must_use]
    pub fn new(
        maps: &Current,
        accounts: &[Account],
        reasons_unknown: Option<String>,
        selected: &ReportSelection,
    ) -> Self {
        let mut held: BTreeMap<String, HeldSet<'_>> = BTreeMap::new();
        for (set, name) in &maps.names {
            held.entry(name.to_string()).or_default().set = *set;
        }
        for (key, entry) in &maps.services {
            let name = maps
                .names
                .get(&entry.set)
                .map_or_else(|| format!("(unnamed) {}", entry.set), ToString::to_string);
            let its = held.entry(name).or_default();
            its.set = entry.set;
            its.entries.push((key, entry));
        }
        let mut sources: FxHashMap<u32, Vec<IpNet>> = FxHashMap::default();
        for (set, range) in &maps.sources {
            sources.entry(*set).or_default().push(*range);
        }
        let mut objects: BTreeMap<(String, String, String), ObjectReport> = BTreeMap::new();
        for account in accounts {
            let object = ObjectReport::of(account, &mut held, maps, &sources);
            objects.insert(object.key(), object);
        }
        // Sets without an account.
        for (name, held) in held {
            let (kind, namespace, object) = owner_of_set(&name);
            let place = (kind.to_owned(), namespace.to_owned(), object.to_owned());
            let set = SetReport::of(&name, Some(&held), &[], None, maps, &sources);
            let object = objects.entry(place).or_insert_with(|| ObjectReport {
                kind: kind.to_owned(),
                namespace: namespace.to_owned(),
                name: object.to_owned(),
                ..ObjectReport::default()
            });
            object.sets.push(set);
        }
        let mut report = Self {
            reasons_unknown,
            objects: objects.into_values().collect(),
        };
        report.select(selected, maps);
        report
    }

    fn select(&mut self, selected: &ReportSelection, maps: &Current) {
        match selected {
            ReportSelection::All => {}
            ReportSelection::Object(namespace, name) => self
                .objects
                .retain(|it| it.namespace == *namespace && it.name == *name),
            ReportSelection::Place(address, port) => {
                let flags = maps.nodes.get(&(*address).into()).copied();
                let own = flags.is_some_and(|flags| flags.contains(NodeFlags::PORTS));
                let is = |at: IpAddr| {
                    at == *address
                        || (own && at.is_unspecified() && at.is_ipv4() == address.is_ipv4())
                };
                for object in &mut self.objects {
                    object.sets.retain(|set| {
                        let leads = set
                            .addresses
                            .iter()
                            .any(|it| is(it.address) && port.is_none_or(|port| port == it.port));
                        leads
                            || set.endpoints.iter().any(|it| {
                                let socket = it.endpoint.parse::<SocketAddr>();
                                socket.is_ok_and(|it| {
                                    it.ip() == *address && port.is_none_or(|port| port == it.port())
                                })
                            })
                    });
                }
                self.objects.retain(|it| !it.sets.is_empty());
            }
        }
    }
}

// === impl ObjectReport ===

impl ObjectReport {
    fn of(
        account: &Account,
        held: &mut BTreeMap<String, HeldSet<'_>>,
        maps: &Current,
        sources: &FxHashMap<u32, Vec<IpNet>>,
    ) -> Self {
        let mut fronts: BTreeMap<&str, Vec<&FrontAccount>> = BTreeMap::new();
        for front in &account.fronts {
            fronts.entry(&front.set).or_default().push(front);
        }
        let mut endpoints: BTreeMap<&str, Vec<&EndpointAccount>> = BTreeMap::new();
        for endpoint in &account.endpoints {
            endpoints.entry(&endpoint.set).or_default().push(endpoint);
        }
        let mut names: BTreeSet<String> = fronts.keys().map(|name| (*name).to_owned()).collect();
        for (name, its) in &endpoints {
            let local = |it: &&EndpointAccount| it.local != EndpointStanding::NoSet;
            let cluster = |it: &&EndpointAccount| it.cluster != EndpointStanding::NoSet;
            if its.iter().copied().any(|it| cluster(&it)) {
                names.insert((*name).to_owned());
            }
            if its.iter().copied().any(|it| local(&it)) {
                names.insert(format!("{name}{LOCAL}"));
            }
        }
        let sets = names.iter().map(|name| {
            let fronts = fronts.remove(name.as_str()).unwrap_or_default();
            let of_all = name.strip_suffix(LOCAL).unwrap_or(name);
            let its = endpoints.get(of_all).map(Vec::as_slice);
            let its = its.or((account.kind == "Service").then_some(&[]));
            SetReport::of(
                name,
                held.remove(name).as_ref(),
                &fronts,
                its,
                maps,
                sources,
            )
        });
        Self {
            kind: account.kind.clone(),
            namespace: account.namespace.clone(),
            name: account.name.clone(),
            nothing: account.nothing.clone(),
            sets: sets.collect(),
            problems: account.problems.clone(),
        }
    }

    fn key(&self) -> (String, String, String) {
        (self.kind.clone(), self.namespace.clone(), self.name.clone())
    }
}

// === impl SetReport ===

impl SetReport {
    /// Builds the report of a set; `endpoints` is `None` if there is no account of them.
    fn of(
        name: &str,
        held: Option<&HeldSet<'_>>,
        fronts: &[&FrontAccount],
        endpoints: Option<&[&EndpointAccount]>,
        maps: &Current,
        sources: &FxHashMap<u32, Vec<IpNet>>,
    ) -> Self {
        let mut it = Self {
            name: name.to_owned(),
            addresses: addresses(held, fronts),
            ..Self::default()
        };
        let mut backends: &[Backend] = &[];
        let slots;
        if let Some(held) = held {
            it.set = Some(held.set);
            it.sources = sources.get(&held.set).cloned().unwrap_or_default();
            it.sources.sort_unstable();
            if let Some((_, entry)) = held.entries.first() {
                let has = |flag| entry.flags.contains(flag);
                it.generation = Some(entry.generation);
                it.affinity_seconds = has(ServiceFlags::AFFINITY).then_some(entry.affinity_seconds);
                it.table = has(ServiceFlags::MAGLEV).then_some(entry.table);
                it.clients_are = (entry.count == 0).then(|| {
                    if has(ServiceFlags::DROP_EMPTY) {
                        "dropped"
                    } else {
                        "refused"
                    }
                });
                let slot = |slot| SlotKey::new(entry.set, entry.generation, slot);
                slots = (0..entry.count)
                    .filter_map(|number| maps.slots.get(&slot(number)).copied())
                    .collect::<Vec<_>>();
                backends = &slots;
            }
        }
        it.endpoints = report_endpoints(name, backends, endpoints);
        it
    }
}

/// Returns the addresses that lead to a set, or should.
fn addresses(held: Option<&HeldSet<'_>>, fronts: &[&FrontAccount]) -> Vec<AddressReport> {
    type Place<'a> = (IpAddr, u16, String, Clients);
    let mut all: BTreeMap<Place<'_>, AddressReport> = BTreeMap::new();
    for (key, entry) in held.into_iter().flat_map(|held| &held.entries) {
        let clients = Clients::from_key(key, entry.flags);
        let address = AddressReport {
            address: key.address.into(),
            port: key.port.get(),
            protocol: key.protocol.to_string(),
            clients,
            title: None,
            programmed: true,
            restricted: entry.flags.contains(ServiceFlags::SOURCES),
            direct_return: entry.flags.contains(ServiceFlags::DIRECT_RETURN),
            answered_by_node: false,
            why: None,
        };
        let place = (
            address.address,
            address.port,
            address.protocol.clone(),
            clients,
        );
        all.insert(place, address);
    }
    for front in fronts {
        let place = (
            front.address,
            front.port,
            front.protocol.clone(),
            front.clients,
        );
        let address = all.entry(place).or_insert_with(|| AddressReport {
            address: front.address,
            port: front.port,
            protocol: front.protocol.clone(),
            clients: front.clients,
            title: None,
            programmed: false,
            restricted: false,
            direct_return: false,
            answered_by_node: false,
            why: Some("it is planned, and the maps do not hold it".to_owned()),
        });
        address.title = Some(front.title.clone());
        address.answered_by_node = front.answered_by_node;
        match (&front.why, address.programmed) {
            (Some(why), false) => address.why = Some(why.clone()),
            (Some(why), true) => {
                address.why = Some(format!("the maps hold it although {why}"));
            }
            (None, _) => {}
        }
    }
    if !fronts.is_empty() {
        for address in all.values_mut().filter(|it| it.title.is_none()) {
            address.why = Some("the maps hold it, and it is not planned".to_owned());
        }
    }
    all.into_values().collect()
}

fn report_endpoints(
    name: &str,
    backends: &[Backend],
    told: Option<&[&EndpointAccount]>,
) -> Vec<EndpointReport> {
    let local = name.ends_with(LOCAL);
    let mut reasons: BTreeMap<&str, &EndpointStanding> = BTreeMap::new();
    for it in told.unwrap_or_default() {
        let standing = if local { &it.local } else { &it.cluster };
        reasons.insert(&it.endpoint, standing);
    }
    let mut all = Vec::with_capacity(backends.len().max(reasons.len()));
    for backend in backends {
        let endpoint = SocketAddr::new(backend.address.into(), backend.port.get()).to_string();
        let why = match (reasons.remove(&*endpoint), told) {
            (Some(EndpointStanding::InForce), _) | (_, None) => None,
            (Some(EndpointStanding::Not(why)), _) => {
                Some(format!("the maps hold it although {why}"))
            }
            (Some(EndpointStanding::NoSet) | None, Some(_)) => {
                Some("the maps hold it, and it is not planned".to_owned())
            }
        };
        all.push(EndpointReport {
            endpoint,
            programmed: true,
            local: backend.flags.contains(BackendFlags::LOCAL),
            terminating: backend.flags.contains(BackendFlags::TERMINATING),
            why,
        });
    }
    let others = reasons.into_iter().filter_map(|(endpoint, standing)| {
        let why = match standing {
            EndpointStanding::NoSet => return None,
            EndpointStanding::InForce => "it is planned, and the maps do not hold it",
            EndpointStanding::Not(why) => why,
        };
        Some(EndpointReport {
            endpoint: endpoint.to_owned(),
            programmed: false,
            local: false,
            terminating: false,
            why: Some(why.to_owned()),
        })
    });
    all.extend(others);
    all
}

/// Returns the owner of a set of this name: kind, namespace, name.
#[must_use]
pub fn owner_of_set(set: &str) -> (&'static str, &str, &str) {
    let (kind, rest) = match set.split_once(' ') {
        Some(("(pod)", rest)) => ("Pod", rest),
        Some(("(node)" | "(unnamed)", _)) => return ("Node", "", ""),
        _ => ("Service", set),
    };
    let object = rest.split([' ', ':']).next().unwrap_or(rest);
    let (namespace, name) = object.split_once('/').unwrap_or(("", object));
    (kind, namespace, name)
}

// === impl Display ===

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.objects.is_empty() {
            return writeln!(f, "nothing");
        }
        for object in &self.objects {
            Display::fmt(object, f)?;
        }
        Ok(())
    }
}

impl Display for ObjectReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            namespace,
            name,
            ..
        } = self;
        match kind.as_str() {
            "Node" => writeln!(f, "the node itself")?,
            "Service" => writeln!(f, "{namespace}/{name}")?,
            _ => writeln!(f, "{kind} {namespace}/{name}")?,
        }
        if let Some(why) = &self.nothing {
            writeln!(f, "  nothing is programmed: {why}")?;
        }
        for set in &self.sets {
            Display::fmt(set, f)?;
        }
        for problem in &self.problems {
            writeln!(f, "  problem: {problem}")?;
        }
        Ok(())
    }
}

impl Display for SetReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "  {}", self.name)?;
        if let Some(generation) = self.generation {
            write!(f, ", generation {generation}")?;
        }
        if let Some(seconds) = self.affinity_seconds {
            write!(f, ", a client keeps its endpoint for {seconds} s")?;
        }
        if let Some(places) = self.table {
            write!(f, ", by consistent hashing over {places} places")?;
        }
        if self.name.ends_with(LOCAL) {
            write!(f, ", only endpoints on this node")?;
        }
        writeln!(f)?;
        for address in &self.addresses {
            writeln!(f, "    at {address}")?;
        }
        if !self.sources.is_empty() {
            let ranges: Vec<_> = self.sources.iter().map(IpNet::to_string).collect();
            writeln!(f, "    some clients only: {}", ranges.join(" "))?;
        }
        if let Some(fate) = self.clients_are {
            writeln!(f, "    no endpoint: clients are {fate}")?;
        }
        let mut told: BTreeMap<&str, usize> = BTreeMap::new();
        for endpoint in &self.endpoints {
            if !endpoint.programmed {
                let count = told
                    .entry(endpoint.why.as_deref().unwrap_or_default())
                    .or_default();
                *count += 1;
                if *count > TOLD {
                    continue;
                }
            }
            writeln!(f, "    to {endpoint}")?;
        }
        for (why, count) in told.iter().filter(|(_, count)| **count > TOLD) {
            writeln!(f, "    and {} more are NOT PROGRAMMED: {why}", count - TOLD)?;
        }
        Ok(())
    }
}

impl Display for AddressReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (port, protocol) = (self.port, &self.protocol);
        if self.address.is_unspecified() {
            let family = if self.address.is_ipv4() {
                "IPv4"
            } else {
                "IPv6"
            };
            write!(f, "port {port} of the node, {family} {protocol}")?;
        } else {
            write!(f, "{} {protocol}", SocketAddr::new(self.address, port))?;
        }
        if let Some(title) = &self.title {
            write!(f, ", {title}")?;
        }
        match self.clients {
            Clients::All => {}
            Clients::Inside => write!(f, ", from inside")?,
            Clients::Outside => write!(f, ", from outside")?,
        }
        if self.restricted {
            write!(f, ", for some clients only")?;
        }
        if self.direct_return {
            write!(f, ", answered directly")?;
        }
        if self.answered_by_node && !self.programmed {
            return write!(f, ", answered by the node itself");
        }
        write_why(f, self.programmed, self.why.as_deref())
    }
}

impl Display for EndpointReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.endpoint)?;
        if self.local {
            write!(f, ", on this node")?;
        }
        if self.terminating {
            write!(f, ", terminating")?;
        }
        write_why(f, self.programmed, self.why.as_deref())
    }
}

fn write_why(f: &mut Formatter<'_>, programmed: bool, why: Option<&str>) -> fmt::Result {
    match (programmed, why) {
        (true, None) => Ok(()),
        (true, Some(why)) => write!(f, " ({why})"),
        (false, why) => write!(f, ", NOT PROGRAMMED: {}", why.unwrap_or("unknown")),
    }
}

#[cfg(test)]
mod tests;
