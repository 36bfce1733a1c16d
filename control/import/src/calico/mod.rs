//! Calico's NetworkPolicy, GlobalNetworkPolicy, Tier, NetworkSet and GlobalNetworkSet
//! (`projectcalico.org/v3`, `crd.projectcalico.org/v1`).
//!
//! Calico evaluates tiers in order, in each tier the policies that select the pod in
//! order, and in each policy the rules in order. The first matching rule allows, denies
//! or passes to the next tier. If a policy of a tier selects a pod and no rule matches,
//! the tier denies, or passes if it is configured so. After all tiers pods are open.
//! NetworkPolicies of Kubernetes are policies of the tier `default`, with order 1000.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use serde_json::Value;

use self::objects::{CalicoRule, Entity, NetworkSetSpec, NumberOrText, PolicySpec, TierSpec};
use self::selector::Selector;
use crate::labels::{Conjunction, Disjunction, Requirements, all_pairs};
use crate::net::{self, Block, everything};
use crate::policy::{
    Action, Direction, ListedPeers, Peers, Policy, Port, Ports, Protocol, Rule, Settings, Side,
    Stage, Surroundings, Tier, arrange,
};
use crate::{InvalidValue, MalformedObject, ObjectId, Remark, Report, labels_of, read_spec};

mod objects;
pub mod selector;

/// The API groups.
pub const GROUPS: [&str; 2] = ["projectcalico.org", "crd.projectcalico.org"];

/// The tier that policies are in which name none, and Kubernetes' own.
const DEFAULT_TIER: &str = "default";
/// The order of the tier `default`.
const DEFAULT_TIER_ORDER: f64 = 1_000_000.0;
/// The order of Kubernetes' policies in it.
const NATIVE_ORDER: f64 = 1000.0;

/// Converts all policies among some objects. Namespaces, Nodes and NetworkPolicies of Kubernetes
/// among them are taken into account, others are ignored.
///
/// # Errors
/// An object that is not what its kind says.
pub fn convert(objects: &[Value], settings: &Settings) -> Result<Report, MalformedObject> {
    let mut surroundings = Surroundings::read(objects, settings)?;
    let mut reader = CalicoReader::default();
    let mut tiers: BTreeMap<String, (f64, bool)> = BTreeMap::new();
    tiers.insert(DEFAULT_TIER.to_owned(), (DEFAULT_TIER_ORDER, true));
    let mut policies = Vec::new();
    let mut refused = Vec::new();
    for object in objects {
        let group = object["apiVersion"].as_str().unwrap_or_default();
        let group = group.split('/').next().unwrap_or_default();
        if !GROUPS.contains(&group) {
            continue;
        }
        let id = ObjectId::from_object(object);
        match id.kind.as_str() {
            "Tier" => {
                let spec: TierSpec = read_spec(object)?;
                let denies = match spec.default_action.as_deref() {
                    None | Some("Deny") => true,
                    Some("Pass") => false,
                    Some(other) => {
                        return Err(MalformedObject {
                            object: id,
                            why: format!("defaultAction `{other}` is neither Deny nor Pass"),
                        });
                    }
                };
                let order = spec.order.unwrap_or(f64::INFINITY);
                tiers.insert(id.name, (order, denies));
            }
            "NetworkSet" | "GlobalNetworkSet" => reader.add_network_set(object)?,
            "NetworkPolicy" | "GlobalNetworkPolicy" => policies.push(object),
            "StagedNetworkPolicy"
            | "StagedGlobalNetworkPolicy"
            | "StagedKubernetesNetworkPolicy" => {
                surroundings.notes.push(Remark {
                    object: id,
                    place: String::new(),
                    text: "is staged: it decides nothing and is left out".to_owned(),
                });
            }
            "HostEndpoint" => refused.push(Remark {
                object: id,
                place: String::new(),
                text: "Orlop protects nodes by policies with the annotation \
                       policy.orlop.dev/applies-to: write one for this node"
                    .to_owned(),
            }),
            _ => {}
        }
    }
    let mut by_tier: BTreeMap<String, Vec<(f64, Policy)>> = BTreeMap::new();
    for object in policies {
        let spec: PolicySpec = read_spec(object)?;
        let tier = spec.tier.clone().unwrap_or_else(|| DEFAULT_TIER.to_owned());
        // Calico keeps Kubernetes' policies under such names where it copies them.
        let id = ObjectId::from_object(object);
        if ["knp.", "kcnp.", "kanp.", "kbanp."]
            .iter()
            .any(|it| id.name.starts_with(it))
        {
            continue;
        }
        if !tiers.contains_key(&tier) {
            return Err(MalformedObject {
                object: id,
                why: format!("there is no Tier `{tier}` in the input, so its order is not known"),
            });
        }
        let order = spec.order.unwrap_or(f64::INFINITY);
        let policy = reader.policy(object, &spec, &tier, &surroundings)?;
        by_tier.entry(tier).or_default().push((order, policy));
    }
    let mut in_order: Vec<(String, (f64, bool))> = tiers.into_iter().collect();
    in_order.sort_by(|a, b| compare(a.1.0, b.1.0).then_with(|| a.0.cmp(&b.0)));
    let own = in_order.iter().position(|(name, _)| name == DEFAULT_TIER);
    let mut all = Vec::new();
    for (at, (name, (_, denies_at_end))) in in_order.into_iter().enumerate() {
        let mut policies = by_tier.remove(&name).unwrap_or_default();
        policies.sort_by(|(a, left), (b, right)| {
            let key = |it: &Policy| (it.id.namespace.clone(), it.id.name.clone());
            compare(*a, *b).then_with(|| key(left).cmp(&key(right)))
        });
        let stage = match Some(at).cmp(&own) {
            Ordering::Less => Stage::Before,
            Ordering::Equal => Stage::Default,
            Ordering::Greater => Stage::After,
        };
        let policies = policies.into_iter().map(|(order, policy)| Policy {
            after_native: order > NATIVE_ORDER,
            ..policy
        });
        all.push(Tier {
            name,
            stage,
            denies_at_end,
            policies: policies.collect(),
        });
    }
    pass_is_final(&mut all);
    let mut report = arrange(&all, &surroundings, settings, "calico");
    report.refused.extend(refused);
    Ok(report)
}

/// Orders without NaN.
fn compare(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

/// In the last tiers with policies, Pass leads to the end of all tiers, where pods are
/// open. In the tier of NetworkPolicies that equals Allow; with later tiers, it cannot be
/// expressed.
fn pass_is_final(tiers: &mut [Tier]) {
    let has_after = tiers
        .iter()
        .any(|tier| tier.stage == Stage::After && !tier.policies.is_empty());
    let mut after_seen = false;
    for tier in tiers.iter_mut().filter(|tier| !tier.policies.is_empty()) {
        let further = tier.stage == Stage::After && std::mem::replace(&mut after_seen, true);
        for policy in &mut tier.policies {
            if further {
                policy.losses.push((
                    "tier".to_owned(),
                    "Orlop has one tier after NetworkPolicies, which another tier took: merge \
                     the tiers"
                        .to_owned(),
                ));
            }
            if tier.stage != Stage::Default {
                continue;
            }
            let sides = [&mut policy.ingress, &mut policy.egress];
            for rule in sides.into_iter().flatten().flat_map(|side| &mut side.rules) {
                if rule.action != Action::Pass {
                    continue;
                }
                if has_after {
                    rule.losses.push(
                        "Pass leads to a later tier, but a pod that a NetworkPolicy selects has \
                         none after it: move the later tier's rules here"
                            .to_owned(),
                    );
                } else {
                    rule.action = Action::Allow;
                }
            }
        }
    }
}

/// A set of addresses with labels.
struct NetworkSet {
    id: ObjectId,
    labels: BTreeMap<String, String>,
    nets: Vec<IpNet>,
    has_domains: bool,
}

#[derive(Default)]
struct CalicoReader {
    sets: Vec<NetworkSet>,
}

impl CalicoReader {
    fn add_network_set(&mut self, object: &Value) -> Result<(), MalformedObject> {
        let spec: NetworkSetSpec = read_spec(object)?;
        let id = ObjectId::from_object(object);
        let nets = nets(spec.nets.as_deref()).map_err(|why| MalformedObject {
            object: id.clone(),
            why: why.to_string(),
        })?;
        let domains = spec.allowed_egress_domains.unwrap_or_default();
        self.sets.push(NetworkSet {
            labels: labels_of(object),
            nets,
            has_domains: domains.as_array().is_some_and(|it| !it.is_empty()),
            id,
        });
        Ok(())
    }

    fn policy(
        &self,
        object: &Value,
        spec: &PolicySpec,
        tier: &str,
        surroundings: &Surroundings,
    ) -> Result<Policy, MalformedObject> {
        let id = ObjectId::from_object(object);
        let malformed = |why: String| MalformedObject {
            object: id.clone(),
            why,
        };
        let is_global = id.kind == "GlobalNetworkPolicy";
        if is_global != id.namespace.is_empty() {
            return Err(malformed("its namespace does not fit its kind".to_owned()));
        }
        let own = if is_global {
            Conjunction::default()
        } else {
            Conjunction {
                namespace: Requirements::namespace(&id.namespace),
                ..Conjunction::default()
            }
        };
        let mut losses: Vec<(String, String)> = Vec::new();
        let mut lose = |place: &str, text: &str| losses.push((place.to_owned(), text.to_owned()));
        if spec
            .service_account_selector
            .as_deref()
            .is_some_and(|it| !it.trim().is_empty())
        {
            lose(
                "serviceAccountSelector",
                "label selectors cannot match service accounts: give the pods a label",
            );
        }
        for (place, set) in [
            ("doNotTrack", spec.do_not_track),
            ("preDNAT", spec.pre_dnat),
            ("applyOnForward", spec.apply_on_forward),
        ] {
            if set == Some(true) {
                lose(
                    place,
                    "is for host endpoints, which Orlop does not have: protect nodes by policies \
                     with the annotation policy.orlop.dev/applies-to",
                );
            }
        }
        let mut subject = vec![own.clone()];
        for (place, text, of_namespaces) in [
            ("selector", &spec.selector, false),
            ("namespaceSelector", &spec.namespace_selector, true),
        ] {
            let text = text.as_deref().unwrap_or_default();
            let read = Selector::parse(text).map_err(|error| malformed(error.to_string()))?;
            if of_namespaces && !is_global && !text.trim().is_empty() {
                return Err(malformed(
                    "a NetworkPolicy has no namespaceSelector".to_owned(),
                ));
            }
            let selected = if of_namespaces {
                read.namespaces()
            } else {
                read.pods()
            };
            match selected {
                Ok(selected) => match all_pairs(&subject, &selected) {
                    Some(both) => subject = both,
                    None => lose(place, "it needs too many label selectors: simplify it"),
                },
                Err(error) => lose(place, &error.to_string()),
            }
        }
        let types = types(spec).map_err(|why| malformed(why.to_string()))?;
        let mut sides = [None, None];
        for (direction, rules) in [
            (Direction::Ingress, &spec.ingress),
            (Direction::Egress, &spec.egress),
        ] {
            if !types.contains(&direction) {
                continue;
            }
            let context = Context {
                reader: self,
                surroundings,
                namespace: (!is_global).then_some(id.namespace.as_str()),
                subject: &subject,
                direction,
            };
            let mut read = Vec::new();
            for (index, rule) in rules.iter().flatten().enumerate() {
                let place = match direction {
                    Direction::Ingress => format!("ingress[{index}]"),
                    Direction::Egress => format!("egress[{index}]"),
                };
                let rule = context
                    .rule(&place, rule)
                    .map_err(|why| malformed(format!("{place}: {why}")))?;
                read.extend(rule);
            }
            sides[usize::from(direction == Direction::Egress)] = Some(Side {
                rules: read,
                selects: true,
            });
        }
        let [ingress, egress] = sides;
        let name = id
            .name
            .strip_prefix(&format!("{tier}."))
            .unwrap_or(&id.name);
        let name = if tier == DEFAULT_TIER {
            name.to_owned()
        } else {
            format!("{tier}.{name}")
        };
        Ok(Policy {
            id,
            name,
            subject,
            losses,
            ingress,
            egress,
            after_native: false,
        })
    }
}

/// Returns the directions of a policy: without `types` those that it has rules for, and
/// ingress if it has none.
fn types(spec: &PolicySpec) -> Result<BTreeSet<Direction>, InvalidValue> {
    let mut all = BTreeSet::new();
    for text in spec.types.iter().flatten() {
        all.insert(match text.as_str() {
            "Ingress" => Direction::Ingress,
            "Egress" => Direction::Egress,
            other => {
                return Err(InvalidValue(format!(
                    "type `{other}` is neither Ingress nor Egress"
                )));
            }
        });
    }
    if all.is_empty() {
        let has = |rules: &Option<Vec<CalicoRule>>| rules.as_ref().is_some_and(|it| !it.is_empty());
        if has(&spec.egress) {
            all.insert(Direction::Egress);
        }
        if has(&spec.ingress) || all.is_empty() {
            all.insert(Direction::Ingress);
        }
    }
    Ok(all)
}

/// State shared by the rules of a policy.
struct Context<'a> {
    reader: &'a CalicoReader,
    surroundings: &'a Surroundings,
    /// None: the policy is cluster-wide.
    namespace: Option<&'a str>,
    subject: &'a Disjunction,
    direction: Direction,
}

impl Context<'_> {
    /// A rule; none if it decides nothing.
    fn rule(&self, place: &str, rule: &CalicoRule) -> Result<Option<Rule>, InvalidValue> {
        let action = match rule.action.as_str() {
            "Allow" | "allow" => Action::Allow,
            "Deny" | "deny" => Action::Deny,
            "Pass" | "pass" | "next-tier" => Action::Pass,
            // It continues with the next rule.
            "Log" | "log" => return Ok(None),
            other => {
                return Err(InvalidValue(format!(
                    "action `{other}` is none of Allow, Deny, Pass and Log"
                )));
            }
        };
        let mut losses = Vec::<String>::new();
        for (what, found, why) in [
            (
                "http",
                rule.http.is_some(),
                "Orlop does not filter requests: use a proxy or a mesh",
            ),
            ("icmp", rule.icmp.is_some(), NO_ICMP),
            ("notICMP", rule.not_icmp.is_some(), NO_ICMP),
            (
                "notProtocol",
                rule.not_protocol.is_some(),
                "policies cannot leave a protocol out: list the others",
            ),
        ] {
            if found {
                losses.push(format!("{what}: {why}"));
            }
        }
        let nobody = Entity::default();
        let source = rule.source.as_ref().unwrap_or(&nobody);
        let destination = rule.destination.as_ref().unwrap_or(&nobody);
        let (own, own_name, peer, peer_name) = match self.direction {
            Direction::Ingress => (destination, "destination", source, "source"),
            Direction::Egress => (source, "source", destination, "destination"),
        };
        if is_some(source.ports.as_ref()) || is_some(source.not_ports.as_ref()) {
            losses.push("source.ports: policies match destination ports only".to_owned());
        }
        let ports = ports(rule.protocol.as_ref(), destination, &mut losses)?;
        let subject = self.own(own, own_name, &mut losses)?;
        let peers = self.peers(peer, peer_name, rule.ip_version, &mut losses)?;
        if losses.is_empty() {
            Ok(Some(Rule {
                place: place.to_owned(),
                action,
                subject,
                peers,
                ports,
                losses,
            }))
        } else {
            Ok(Some(Rule::lost(place.to_owned(), action, losses)))
        }
    }

    /// The pods of the policy that a rule is about.
    fn own(
        &self,
        entity: &Entity,
        name: &str,
        losses: &mut Vec<String>,
    ) -> Result<Option<Disjunction>, InvalidValue> {
        for (field, found) in [
            ("nets", is_some(entity.nets.as_ref())),
            ("notNets", is_some(entity.not_nets.as_ref())),
            ("serviceAccounts", entity.service_accounts.is_some()),
            ("services", entity.services.is_some()),
            ("domains", entity.domains.is_some()),
        ] {
            if found {
                losses.push(format!(
                    "{name}.{field}: a policy selects its own pods by labels: use the policy's \
                     selector"
                ));
            }
        }
        let mut subject = self.subject.clone();
        let mut narrowed = false;
        for (text, of_namespaces, negated) in [
            (&entity.selector, false, false),
            (&entity.namespace_selector, true, false),
            (&entity.not_selector, false, true),
        ] {
            let Some(text) = text.as_deref().filter(|it| !it.trim().is_empty()) else {
                continue;
            };
            let mut read = Selector::parse(text).map_err(|error| error.to_string())?;
            if negated {
                read = Selector::Not(Box::new(read));
            }
            let selected = if of_namespaces {
                read.namespaces()
            } else {
                read.pods()
            };
            match selected.map(|selected| all_pairs(&subject, &selected)) {
                Ok(Some(both)) => {
                    narrowed = true;
                    subject = both;
                }
                Ok(None) => losses.push(format!("{name}: it needs too many label selectors")),
                Err(error) => losses.push(format!("{name}: {error}")),
            }
        }
        Ok(narrowed.then_some(subject))
    }

    /// The other end.
    fn peers(
        &self,
        entity: &Entity,
        name: &str,
        ip_version: Option<u8>,
        losses: &mut Vec<String>,
    ) -> Result<Peers, InvalidValue> {
        for (field, found, why) in [
            (
                "serviceAccounts",
                entity.service_accounts.is_some(),
                "label selectors cannot match service accounts: give the pods a label",
            ),
            (
                "services",
                entity.services.is_some(),
                "policies cannot name Services: select their pods",
            ),
            (
                "domains",
                entity.domains.is_some(),
                "domain names are not supported: use addresses or a proxy",
            ),
        ] {
            if found {
                losses.push(format!("{name}.{field}: {why}"));
            }
        }
        let (within, without) = (
            nets(entity.nets.as_deref())?,
            nets(entity.not_nets.as_deref())?,
        );
        let text = |it: &Option<String>| it.clone().filter(|it| !it.trim().is_empty());
        let selects =
            text(&entity.selector).is_some() || text(&entity.namespace_selector).is_some();
        let not_selector = text(&entity.not_selector);
        let has_nets = is_some(entity.nets.as_ref());
        if selects && (has_nets || !without.is_empty()) {
            losses.push(format!(
                "{name}: policies cannot require labels and addresses at once: use one of them"
            ));
            return Ok(Peers::Anybody);
        }
        if not_selector.is_some() && !selects {
            losses.push(format!(
                "{name}.notSelector: policies cannot match all but some pods: select those that \
                 are meant"
            ));
            return Ok(Peers::Anybody);
        }
        let of_version = |net: &IpNet| match ip_version {
            Some(4) => matches!(net, IpNet::V4(_)),
            Some(6) => matches!(net, IpNet::V6(_)),
            _ => true,
        };
        if !selects {
            if !has_nets && without.is_empty() && ip_version.is_none() {
                return Ok(Peers::Anybody);
            }
            let within = if has_nets {
                within
            } else {
                everything().to_vec()
            };
            let blocks = within.into_iter().filter(of_version);
            let blocks = blocks.filter_map(|net| Block::without(net, &without));
            return Ok(Peers::Listed(ListedPeers {
                blocks: blocks.collect(),
                ..ListedPeers::default()
            }));
        }
        let listed = self.selected(entity, name, losses)?;
        if ip_version.is_some() && !listed.pods.is_empty() {
            losses.push(format!(
                "ipVersion: policies cannot match pods by their addresses' version: leave it out \
                 or use {name}.nets"
            ));
        }
        let blocks = listed
            .blocks
            .into_iter()
            .filter(|it| of_version(&it.within));
        Ok(Peers::Listed(ListedPeers {
            blocks: blocks.collect(),
            ..listed
        }))
    }

    /// Pods and network sets by their labels.
    fn selected(
        &self,
        entity: &Entity,
        name: &str,
        losses: &mut Vec<String>,
    ) -> Result<ListedPeers, InvalidValue> {
        let text = |it: &Option<String>| it.clone().filter(|it| !it.trim().is_empty());
        let parse = |text: &str| Selector::parse(text).map_err(|error| error.to_string());
        let selector = parse(&text(&entity.selector).unwrap_or_default())?;
        let without = text(&entity.not_selector)
            .as_deref()
            .map(parse)
            .transpose()?;
        let namespaces = text(&entity.namespace_selector)
            .as_deref()
            .map(parse)
            .transpose()?;
        let is_global_only = namespaces == Some(Selector::Global);
        let mut listed = ListedPeers::default();
        if !is_global_only {
            let own = match (&namespaces, self.namespace) {
                (Some(selector), _) => selector.namespaces(),
                (None, Some(namespace)) => Ok(vec![Conjunction {
                    namespace: Requirements::namespace(namespace),
                    ..Conjunction::default()
                }]),
                (None, None) => Ok(vec![Conjunction::default()]),
            };
            let mut pods = match (own, selector.pods()) {
                (Ok(own), Ok(pods)) => all_pairs(&own, &pods),
                (Err(error), _) | (_, Err(error)) => {
                    losses.push(format!("{name}: {error}"));
                    return Ok(listed);
                }
            };
            if let Some(without) = &without {
                match Selector::Not(Box::new(without.clone())).pods() {
                    Ok(others) => pods = pods.and_then(|pods| all_pairs(&pods, &others)),
                    Err(error) => losses.push(format!("{name}: {error}")),
                }
            }
            match pods {
                Some(pods) => listed.pods = pods,
                None => losses.push(format!("{name}: it needs too many label selectors")),
            }
        }
        for set in &self.reader.sets {
            let namespace = (!set.id.namespace.is_empty()).then_some(set.id.namespace.as_str());
            let in_reach = match (&namespaces, self.namespace, namespace) {
                (Some(Selector::Global), _, namespace) => namespace.is_none(),
                (Some(_), _, None) => false,
                (Some(selector), _, Some(namespace)) => {
                    match self.surroundings.namespaces.get(namespace) {
                        Some(labels) => {
                            let mut labels = labels.clone();
                            labels
                                .insert("projectcalico.org/name".to_owned(), namespace.to_owned());
                            selector.matches(&labels, true)
                        }
                        None => {
                            losses.push(format!(
                                "{name}.namespaceSelector: whether it selects {} depends on the \
                                 labels of Namespace {namespace}: give that object, too",
                                set.id
                            ));
                            false
                        }
                    }
                }
                (None, Some(own), namespace) => namespace == Some(own),
                (None, None, _) => true,
            };
            let mut labels = set.labels.clone();
            if let Some(namespace) = namespace {
                labels.insert(
                    "projectcalico.org/namespace".to_owned(),
                    namespace.to_owned(),
                );
            }
            if !in_reach || !selector.matches(&labels, namespace.is_some()) {
                continue;
            }
            // Pods may have addresses of the set.
            if without.is_some() {
                losses.push(format!(
                    "{name}.notSelector: {} is selected, too, and policies cannot take pods out \
                     of its addresses",
                    set.id
                ));
            }
            if set.has_domains {
                losses.push(format!(
                    "{name}.selector: {} has domain names, which are not supported: use \
                     addresses",
                    set.id
                ));
            }
            let blocks = set.nets.iter().filter_map(|net| Block::without(*net, &[]));
            listed.blocks.extend(blocks);
        }
        listed.blocks.sort();
        listed.blocks.dedup();
        Ok(listed)
    }
}

const NO_ICMP: &str = "policies match ICMP only together with everything else: allow all protocols";

fn is_some<T>(list: Option<&Vec<T>>) -> bool {
    list.is_some_and(|it| !it.is_empty())
}

fn nets(texts: Option<&[String]>) -> Result<Vec<IpNet>, InvalidValue> {
    let texts = texts.unwrap_or_default().iter();
    texts
        .map(|text| {
            net::parse(text)
                .ok_or_else(|| InvalidValue(format!("`{text}` is no range of addresses")))
        })
        .collect()
}

/// The destination ports of a rule.
fn ports(
    protocol: Option<&NumberOrText>,
    destination: &Entity,
    losses: &mut Vec<String>,
) -> Result<Ports, InvalidValue> {
    let (ports, not_ports) = (&destination.ports, &destination.not_ports);
    let has_ports = is_some(ports.as_ref()) || is_some(not_ports.as_ref());
    let Some(protocol) = protocol else {
        if has_ports {
            return Err(InvalidValue("ports need a protocol".to_owned()));
        }
        return Ok(Ports::All);
    };
    let text = protocol.text();
    let Some(protocol) = Protocol::parse(&text) else {
        let why = if ["ICMP", "ICMPV6", "1", "58"].contains(&text.to_ascii_uppercase().as_str()) {
            NO_ICMP
        } else {
            "policies match TCP, UDP and SCTP only"
        };
        losses.push(format!("protocol {text}: {why}"));
        return Ok(Ports::All);
    };
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    let mut names = Vec::new();
    if is_some(ports.as_ref()) {
        for port in ports.iter().flatten() {
            match range(port)? {
                Some(range) => ranges.push(range),
                None => names.push(port.text()),
            }
        }
    } else {
        ranges.push((0, u16::MAX));
    }
    for port in not_ports.iter().flatten() {
        let Some((first, last)) = range(port)? else {
            losses.push("notPorts: policies cannot leave named ports out: use numbers".to_owned());
            continue;
        };
        ranges = ranges
            .into_iter()
            .flat_map(|(start, end)| {
                let before = (first > start).then(|| (start, end.min(first - 1)));
                let after = (last < end).then(|| (start.max(last + 1), end));
                before.into_iter().chain(after)
            })
            .filter(|(start, end)| start <= end)
            .collect();
    }
    if !names.is_empty() && is_some(not_ports.as_ref()) {
        losses.push("notPorts: policies cannot leave ports out of named ones".to_owned());
    }
    let ranges = ranges.into_iter().filter(|(_, last)| *last > 0);
    let ranges = ranges.map(|(first, last)| Port::Range(protocol, first.max(1), last));
    let names = names.into_iter().map(|name| Port::Named(protocol, name));
    Ok(Ports::Listed(ranges.chain(names).collect()))
}

/// A port or range of ports; `None` for a name.
fn range(port: &NumberOrText) -> Result<Option<(u16, u16)>, InvalidValue> {
    let text = match port {
        NumberOrText::Number(number) => {
            let number = u16::try_from(*number).map_err(|_| format!("{number} is no port"))?;
            return Ok(Some((number, number)));
        }
        NumberOrText::Text(text) => text,
    };
    if let Ok(number) = text.parse::<u16>() {
        return Ok(Some((number, number)));
    }
    let is_name = text.chars().any(|it| it.is_ascii_alphabetic());
    match text.split_once(':') {
        Some((first, last)) => {
            let parse = |text: &str| {
                text.parse::<u16>()
                    .map_err(|_| format!("`{text}` is no port"))
            };
            let (first, last) = (parse(first)?, parse(last)?);
            if first > last {
                return Err(InvalidValue(format!(
                    "ports `{text}` end before they begin"
                )));
            }
            Ok(Some((first, last)))
        }
        None if is_name => Ok(None),
        None => Err(InvalidValue(format!("`{text}` is no port"))),
    }
}
