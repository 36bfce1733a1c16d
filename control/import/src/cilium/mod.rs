//! Cilium's CiliumNetworkPolicy, CiliumClusterwideNetworkPolicy and CiliumCIDRGroup
//! (`cilium.io/v2`, `v2alpha1`).
//!
//! How Cilium decides: what any policy denies is denied, else what any allows is allowed, else it
//! is denied if some policy that selects the pod is about this direction, unless that policy says
//! otherwise (`enableDefaultDeny`). NetworkPolicies of Kubernetes count as policies that allow.
//!
//! In Cilium, address ranges match only peers outside the cluster; in a NetworkPolicy they match
//! pods and nodes as well. The converter therefore excludes the ranges of pods and nodes.

use std::collections::BTreeMap;

use control_types::label_selector::LabelSelector;
use ipnet::IpNet;
use serde_json::Value;

use self::objects::{CidrGroupSpec, CidrRule, CiliumRule, CiliumSpec, PortRule};
use crate::labels::{Conjunction, Disjunction, NAMESPACE_NAME, Requirements, all_pairs};
use crate::net::{self, Block, everything};
use crate::policy::{
    Action, Direction, ListedPeers, Peers, Policy, Port, Ports, Protocol, Rule, Settings, Side,
    Stage, Surroundings, Tier, arrange,
};
use crate::{InvalidValue, MalformedObject, ObjectId, Report, labels_of, read_spec};

mod objects;

/// The API group.
pub const GROUP: &str = "cilium.io";

/// Converts all policies among some objects. Namespaces, Nodes and NetworkPolicies of Kubernetes
/// among them are taken into account, others are ignored.
///
/// # Errors
/// An object that is not what its kind says.
pub fn convert(objects: &[Value], settings: &Settings) -> Result<Report, MalformedObject> {
    let surroundings = Surroundings::read(objects, settings)?;
    let mut reader = CiliumReader {
        groups: BTreeMap::new(),
        surroundings: &surroundings,
    };
    let mut found = Vec::new();
    for object in objects {
        let group = object["apiVersion"].as_str().unwrap_or_default();
        if group.split('/').next() != Some(GROUP) {
            continue;
        }
        match object["kind"].as_str() {
            Some("CiliumCIDRGroup") => reader.add_group(object)?,
            Some("CiliumNetworkPolicy" | "CiliumClusterwideNetworkPolicy") => found.push(object),
            _ => {}
        }
    }
    found.sort_by_key(|object| ObjectId::from_object(object));
    let mut policies = Vec::new();
    for object in found {
        policies.extend(reader.policies(object)?);
    }
    // Denials count before all that is allowed: each policy is there twice.
    let denying = policies.iter().map(|it| only(it, Action::Deny));
    let allowing = policies.iter().map(|it| only(it, Action::Allow));
    let tier = Tier {
        name: "cilium".to_owned(),
        stage: Stage::Default,
        denies_at_end: true,
        policies: denying.chain(allowing).collect(),
    };
    Ok(arrange(&[tier], &surroundings, settings, "cilium"))
}

/// Returns the policy with its rules of one action. Losses that concern all of it are in
/// both.
fn only(policy: &Policy, action: Action) -> Policy {
    let some = |side: &Side| Side {
        rules: side
            .rules
            .iter()
            .filter(|rule| rule.action == action)
            .cloned()
            .collect(),
        selects: side.selects,
    };
    Policy {
        ingress: policy.ingress.as_ref().map(some),
        egress: policy.egress.as_ref().map(some),
        ..policy.clone()
    }
}

struct CiliumReader<'a> {
    groups: BTreeMap<String, (BTreeMap<String, String>, Vec<IpNet>)>,
    surroundings: &'a Surroundings,
}

impl CiliumReader<'_> {
    fn add_group(&mut self, object: &Value) -> Result<(), MalformedObject> {
        let spec: CidrGroupSpec = read_spec(object)?;
        let id = ObjectId::from_object(object);
        let nets: Result<Vec<IpNet>, InvalidValue> = spec
            .external_cidrs
            .iter()
            .flatten()
            .map(|text| parse(text))
            .collect();
        let nets = nets.map_err(|why| MalformedObject {
            object: id.clone(),
            why: why.to_string(),
        })?;
        self.groups.insert(id.name, (labels_of(object), nets));
        Ok(())
    }

    /// The policies that an object contains: one for `spec` and each of `specs`.
    fn policies(&self, object: &Value) -> Result<Vec<Policy>, MalformedObject> {
        let id = ObjectId::from_object(object);
        let is_clusterwide = id.kind == "CiliumClusterwideNetworkPolicy";
        let malformed = |why: String| MalformedObject {
            object: id.clone(),
            why,
        };
        if is_clusterwide != id.namespace.is_empty() {
            return Err(malformed("its namespace does not fit its kind".to_owned()));
        }
        let mut specs: Vec<(String, Value)> = Vec::new();
        if !object["spec"].is_null() {
            specs.push((String::new(), object.clone()));
        }
        for (index, spec) in object["specs"].as_array().into_iter().flatten().enumerate() {
            let mut one = object.clone();
            one["spec"] = spec.clone();
            specs.push((format!("specs[{index}]."), one));
        }
        if specs.is_empty() {
            return Err(malformed("it has neither spec nor specs".to_owned()));
        }
        let mut all = Vec::new();
        for (place, one) in specs {
            let spec: CiliumSpec = read_spec(&one)?;
            all.push(
                self.policy(&id, &place, &spec)
                    .map_err(|why| malformed(why.to_string()))?,
            );
        }
        Ok(all)
    }

    fn policy(
        &self,
        id: &ObjectId,
        within: &str,
        spec: &CiliumSpec,
    ) -> Result<Policy, InvalidValue> {
        let own = if id.namespace.is_empty() {
            Conjunction::default()
        } else {
            in_namespace(&id.namespace)
        };
        let mut losses = Vec::new();
        let mut subject = vec![own.clone()];
        match (&spec.endpoint_selector, &spec.node_selector) {
            (Some(selector), None) => match self.selected(selector, &id.namespace) {
                Ok(PodSelection::Pods(pods)) => {
                    subject = all_pairs(&subject, &pods).unwrap_or_default();
                }
                Ok(PodSelection::Nobody) => subject.clear(),
                Err(SelectorRefusal::Loss(why)) => {
                    losses.push((format!("{within}endpointSelector"), why));
                }
                Err(SelectorRefusal::Malformed(why)) => return Err(why),
            },
            (None, Some(_)) => losses.push((
                format!("{within}nodeSelector"),
                "protect nodes by policies with the annotation policy.orlop.dev/applies-to"
                    .to_owned(),
            )),
            _ => {
                return Err(InvalidValue(format!(
                    "{within}spec: exactly one of endpointSelector and nodeSelector is needed"
                )));
            }
        }
        let sides = [
            (
                Direction::Ingress,
                &spec.ingress,
                &spec.ingress_deny,
                "ingress",
            ),
            (Direction::Egress, &spec.egress, &spec.egress_deny, "egress"),
        ];
        let mut both = [None, None];
        for (at, (direction, allowed, denied, key)) in sides.into_iter().enumerate() {
            if allowed.is_none() && denied.is_none() {
                continue;
            }
            let wanted = spec.enable_default_deny.as_ref();
            let wanted = wanted.and_then(|it| match direction {
                Direction::Ingress => it.ingress,
                Direction::Egress => it.egress,
            });
            let mut rules = Vec::new();
            for (list, action, suffix) in
                [(denied, Action::Deny, "Deny"), (allowed, Action::Allow, "")]
            {
                for (index, rule) in list.iter().flatten().enumerate() {
                    let place = format!("{within}{key}{suffix}[{index}]");
                    let read = self.rule(id, direction, action, &place, rule);
                    rules.extend(read.map_err(|why| format!("{place}: {why}"))?);
                }
            }
            both[at] = Some(Side {
                rules,
                selects: wanted.unwrap_or(true),
            });
        }
        let [ingress, egress] = both;
        Ok(Policy {
            id: id.clone(),
            name: id.name.clone(),
            subject,
            losses,
            ingress,
            egress,
            after_native: false,
        })
    }

    /// A rule; none if it matches nothing.
    fn rule(
        &self,
        id: &ObjectId,
        direction: Direction,
        action: Action,
        place: &str,
        rule: &CiliumRule,
    ) -> Result<Option<Rule>, InvalidValue> {
        let mut losses = Vec::<String>::new();
        let prefix = match direction {
            Direction::Ingress => "from",
            Direction::Egress => "to",
        };
        for (field, found, why) in [
            (
                format!("{prefix}Requires"),
                rule.requires.is_some(),
                "Cilium dropped it, too: add the labels to the other selectors",
            ),
            (
                format!("{prefix}Groups"),
                rule.groups.is_some(),
                "groups of cloud providers are not supported: list their addresses",
            ),
            (
                format!("{prefix}Nodes"),
                rule.nodes.is_some(),
                "policies cannot select nodes by Cilium's labels: use the entity remote-node",
            ),
            (
                "toServices".to_owned(),
                rule.services.is_some(),
                "policies cannot name Services: select their pods",
            ),
            (
                "toFQDNs".to_owned(),
                rule.fqdns.is_some(),
                "domain names are not supported: use addresses or a proxy",
            ),
            (
                "icmps".to_owned(),
                rule.icmps.is_some(),
                "policies match ICMP only together with everything else: allow all protocols",
            ),
            (
                "authentication".to_owned(),
                rule.authentication
                    .as_ref()
                    .is_some_and(|it| it.mode != "disabled"),
                "Orlop does not authenticate connections: use a mesh",
            ),
        ] {
            if found {
                losses.push(format!("{field}: {why}"));
            }
        }
        let is_any = rule.endpoints.is_none()
            && rule.cidr.is_none()
            && rule.cidr_set.is_none()
            && rule.entities.is_none();
        let is_named = [&rule.groups, &rule.nodes, &rule.services, &rule.fqdns];
        let has_other = is_named.into_iter().any(Option::is_some);
        if is_any
            && rule.ports.as_ref().is_none_or(Vec::is_empty)
            && !has_other
            && losses.is_empty()
        {
            // An empty rule allows nothing; it only selects.
            return Ok(None);
        }
        let ports = ports(rule.ports.as_deref(), &mut losses)?;
        let peers = if is_any {
            Peers::Anybody
        } else {
            self.peers(id, direction, rule, prefix, &mut losses)?
        };
        if !losses.is_empty() {
            return Ok(Some(Rule::lost(place.to_owned(), action, losses)));
        }
        Ok(Some(Rule {
            place: place.to_owned(),
            action,
            subject: None,
            peers,
            ports,
            losses,
        }))
    }

    fn peers(
        &self,
        id: &ObjectId,
        direction: Direction,
        rule: &CiliumRule,
        prefix: &str,
        losses: &mut Vec<String>,
    ) -> Result<Peers, InvalidValue> {
        let mut listed = ListedPeers::default();
        for selector in rule.endpoints.iter().flatten() {
            match self.selected(selector, &id.namespace) {
                Ok(PodSelection::Pods(pods)) => listed.pods.extend(pods),
                Ok(PodSelection::Nobody) => {}
                Err(SelectorRefusal::Loss(why)) => losses.push(format!("{prefix}Endpoints: {why}")),
                Err(SelectorRefusal::Malformed(why)) => return Err(why),
            }
        }
        let mut outside: Vec<Block> = Vec::new();
        for text in rule.cidr.iter().flatten() {
            outside.extend(Block::without(parse(text)?, &[]));
        }
        for set in rule.cidr_set.iter().flatten() {
            outside.extend(self.cidr_set(set, prefix, losses)?);
        }
        for entity in rule.entities.iter().flatten() {
            match entity.as_str() {
                "all" => return Ok(Peers::Anybody),
                "world" => outside.extend(blocks(&everything())),
                "world-ipv4" => outside.extend(blocks(&everything()[..1])),
                "world-ipv6" => outside.extend(blocks(&everything()[1..])),
                "cluster" => {
                    listed.pods.push(Conjunction::default());
                    self.add_nodes(direction, &mut listed, losses, "cluster");
                }
                "remote-node" => self.add_nodes(direction, &mut listed, losses, "remote-node"),
                // A node reaches its own pods whatever policies say.
                "host" if direction == Direction::Ingress => {}
                "none" => {}
                other => losses.push(format!(
                    "{prefix}Entities: `{other}` has no counterpart: use addresses"
                )),
            }
        }
        if !outside.is_empty() {
            let known = self.surroundings;
            if known.pod_ranges.is_empty() {
                losses.push(format!(
                    "{prefix}CIDR: in Cilium addresses of pods do not count as outside; give the \
                     range of the pods by --pod-cidr, so that it can be taken out"
                ));
            }
            let inside: Vec<IpNet> = known
                .pod_ranges
                .iter()
                .chain(&known.node_ranges)
                .copied()
                .collect();
            listed
                .blocks
                .extend(outside.iter().filter_map(|block| block.less(&inside)));
        }
        listed.pods.sort();
        listed.pods.dedup();
        listed.blocks.sort();
        listed.blocks.dedup();
        Ok(Peers::Listed(listed))
    }

    fn add_nodes(
        &self,
        direction: Direction,
        listed: &mut ListedPeers,
        losses: &mut Vec<String>,
        entity: &str,
    ) {
        if direction == Direction::Egress {
            listed.nodes = true;
        } else if self.surroundings.node_ranges.is_empty() {
            losses.push(format!(
                "fromEntities: {entity} includes other nodes, which a policy can match by \
                 addresses only: give their range by --node-cidr"
            ));
        } else {
            listed.blocks.extend(blocks(&self.surroundings.node_ranges));
        }
    }

    fn cidr_set(
        &self,
        set: &CidrRule,
        prefix: &str,
        losses: &mut Vec<String>,
    ) -> Result<Vec<Block>, InvalidValue> {
        let except: Result<Vec<IpNet>, InvalidValue> = set
            .except
            .iter()
            .flatten()
            .map(|text| parse(text))
            .collect();
        let except = except?;
        let nets = match (&set.cidr, &set.cidr_group_ref, &set.cidr_group_selector) {
            (Some(text), None, None) => vec![parse(text)?],
            (None, Some(name), None) => match self.groups.get(name) {
                Some((_, nets)) => nets.clone(),
                None => {
                    losses.push(format!(
                        "{prefix}CIDRSet: there is no CiliumCIDRGroup `{name}` in the input"
                    ));
                    Vec::new()
                }
            },
            (None, None, Some(selector)) => {
                let groups = self.groups.values().filter(|(labels, _)| {
                    selector.matches(|key| labels.get(key).map(String::as_str))
                });
                groups.flat_map(|(_, nets)| nets.clone()).collect()
            }
            _ => {
                return Err(InvalidValue(format!(
                    "{prefix}CIDRSet: exactly one of cidr, cidrGroupRef and cidrGroupSelector is \
                     needed"
                )));
            }
        };
        let blocks = nets
            .into_iter()
            .filter_map(|net| Block::without(net, &except));
        Ok(blocks.collect())
    }

    /// The pods that a selector selects, seen from a namespace (empty: from the cluster).
    fn selected(
        &self,
        selector: &LabelSelector,
        namespace: &str,
    ) -> Result<PodSelection, SelectorRefusal> {
        let tests = Requirements::of_selector(selector).map_err(SelectorRefusal::Malformed)?;
        let mut all = Conjunction::default();
        let mut has_namespace = namespace.is_empty();
        for (key, test) in tests {
            let one = match label(&key)? {
                LabelScope::Pod(key) => Conjunction {
                    pod: Requirements::one(&key, test),
                    ..Conjunction::default()
                },
                LabelScope::Namespace(key) => {
                    // A policy of a namespace that names others by labels reaches them.
                    has_namespace = true;
                    Conjunction {
                        namespace: Requirements::one(&key, test),
                        ..Conjunction::default()
                    }
                }
                LabelScope::Constant(value) => {
                    if test.matches(value) {
                        continue;
                    }
                    return Ok(PodSelection::Nobody);
                }
            };
            match all.and(&one) {
                Some(both) => all = both,
                None => return Ok(PodSelection::Nobody),
            }
        }
        if !has_namespace {
            match all.and(&in_namespace(namespace)) {
                Some(both) => all = both,
                None => return Ok(PodSelection::Nobody),
            }
        }
        // Contradictions are only found when it is simplified alone.
        Ok(match all.and(&Conjunction::default()) {
            Some(all) => PodSelection::Pods(vec![all]),
            None => PodSelection::Nobody,
        })
    }
}

enum PodSelection {
    Pods(Disjunction),
    Nobody,
}

enum SelectorRefusal {
    /// It cannot be converted.
    Loss(String),
    /// It is no selector.
    Malformed(InvalidValue),
}

enum LabelScope {
    Pod(String),
    Namespace(String),
    /// The same for all pods; `None`: no pod has it.
    Constant(Option<&'static str>),
}

/// Converts a label of Cilium to Kubernetes'.
fn label(key: &str) -> Result<LabelScope, SelectorRefusal> {
    let key = match key.split_once([':', '.']) {
        Some(("k8s" | "any", rest)) if key.contains(':') => rest,
        Some(("reserved", _)) if key.starts_with("reserved:") => {
            return Err(SelectorRefusal::Loss(format!(
                "label `{key}` is reserved by Cilium: use an entity"
            )));
        }
        _ => key,
    };
    if key.contains(':') {
        return Err(SelectorRefusal::Loss(format!(
            "label `{key}` is of a source that Kubernetes does not have"
        )));
    }
    if key == "io.kubernetes.pod.namespace" {
        return Ok(LabelScope::Namespace(NAMESPACE_NAME.to_owned()));
    }
    if let Some(key) = key.strip_prefix("io.cilium.k8s.namespace.labels.") {
        return Ok(LabelScope::Namespace(key.to_owned()));
    }
    if key == "io.cilium.k8s.policy.cluster" {
        return Ok(LabelScope::Constant(Some("default")));
    }
    if key.starts_with("io.cilium.k8s.policy.") {
        return Err(SelectorRefusal::Loss(format!(
            "label `{key}` is of service accounts, which label selectors cannot match: give the \
             pods a label"
        )));
    }
    Ok(LabelScope::Pod(key.to_owned()))
}

fn in_namespace(name: &str) -> Conjunction {
    Conjunction {
        namespace: Requirements::namespace(name),
        ..Conjunction::default()
    }
}

fn blocks(nets: &[IpNet]) -> Vec<Block> {
    nets.iter()
        .filter_map(|net| Block::without(*net, &[]))
        .collect()
}

fn parse(text: &str) -> Result<IpNet, InvalidValue> {
    net::parse(text).ok_or_else(|| InvalidValue(format!("`{text}` is no range of addresses")))
}

/// The ports of a rule.
fn ports(rules: Option<&[PortRule]>, losses: &mut Vec<String>) -> Result<Ports, InvalidValue> {
    let Some(rules) = rules.filter(|it| !it.is_empty()) else {
        return Ok(Ports::All);
    };
    let mut list = Vec::new();
    for rule in rules {
        let l7 = rule.rules.as_ref();
        let any_name = |dns: &[objects::Dns]| {
            dns.iter()
                .any(|it| it.match_pattern.as_deref() == Some("*"))
        };
        let has_l7 = l7.is_some_and(|it| {
            !it.other.is_empty() || it.dns.as_deref().is_some_and(|dns| !any_name(dns))
        });
        let tls = [
            &rule.terminating_tls,
            &rule.originating_tls,
            &rule.server_names,
            &rule.listener,
        ];
        if has_l7 {
            losses.push(
                "toPorts.rules: Orlop does not filter requests: use a proxy or a mesh".to_owned(),
            );
        }
        if tls.into_iter().any(Option::is_some) {
            losses.push("toPorts: Orlop does not terminate or inspect TLS: use a proxy".to_owned());
        }
        if rule.ports.as_ref().is_none_or(Vec::is_empty) {
            losses.push("toPorts: without ports it has no counterpart: list them".to_owned());
        }
        for port in rule.ports.iter().flatten() {
            match read_port(port)? {
                Ok(ports) => list.extend(ports),
                Err(why) => losses.push(format!("toPorts: {why}")),
            }
        }
    }
    list.sort();
    list.dedup();
    Ok(Ports::Listed(list))
}

/// The ports of one of `toPorts`; the inner error says why they have no counterpart.
fn read_port(
    port: &objects::PortProtocol,
) -> Result<Result<Vec<Port>, InvalidValue>, InvalidValue> {
    let protocol = port.protocol.as_deref().unwrap_or("ANY");
    let protocols: Vec<Protocol> = if protocol.eq_ignore_ascii_case("ANY") || protocol.is_empty() {
        Protocol::ALL.to_vec()
    } else if protocol.chars().all(|it| it.is_ascii_digit()) {
        return Err(InvalidValue(format!("protocol `{protocol}` is none")));
    } else if let Some(protocol) = Protocol::parse(protocol) {
        vec![protocol]
    } else {
        return Ok(Err(InvalidValue(format!(
            "policies match TCP, UDP and SCTP only, not {protocol}"
        ))));
    };
    let text = port.port.as_deref().unwrap_or("0");
    let Ok(first) = text.parse::<u16>() else {
        let is_name = text.chars().any(|it| it.is_ascii_alphabetic());
        if !is_name {
            return Err(InvalidValue(format!("`{text}` is no port")));
        }
        let named = protocols
            .into_iter()
            .map(|it| Port::Named(it, text.to_owned()));
        return Ok(Ok(named.collect()));
    };
    if first == 0 {
        if protocols.len() > 1 {
            return Ok(Err(InvalidValue(
                "port 0 of any protocol stands for all traffic: leave toPorts out".to_owned(),
            )));
        }
        let all = protocols.into_iter().map(|it| Port::Range(it, 1, u16::MAX));
        return Ok(Ok(all.collect()));
    }
    let last = match port.end_port {
        None | Some(0) => first,
        Some(last) => u16::try_from(last).map_err(|_| format!("endPort {last} is no port"))?,
    };
    if last < first {
        return Err(InvalidValue(format!(
            "ports {first} to {last} end before they begin"
        )));
    }
    let ranges = protocols.into_iter().map(|it| Port::Range(it, first, last));
    Ok(Ok(ranges.collect()))
}
