//! Tests that imported policies decide as Calico does: random policies are evaluated by a direct
//! implementation of Calico's rules, and, after conversion, by Orlop's own compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use control_import::policy::Settings;
use control_import::{Report, calico};
use ebpf_abi::Protocol;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

mod support;

use support::{FLOWS, Labels, TestCluster};

/// A selector as a formula over labels.
#[derive(Debug, Clone)]
enum Formula {
    All,
    Is(&'static str, &'static str),
    IsNot(&'static str, &'static str),
    In(&'static str, Vec<&'static str>),
    Has(&'static str),
    Not(Box<Formula>),
    And(Box<Formula>, Box<Formula>),
    Or(Box<Formula>, Box<Formula>),
}

impl Formula {
    fn text(&self) -> String {
        match self {
            Self::All => "all()".to_owned(),
            Self::Is(key, value) => format!("{key} == '{value}'"),
            Self::IsNot(key, value) => format!("{key} != '{value}'"),
            Self::In(key, values) => format!("{key} in {{'{}'}}", values.join("', '")),
            Self::Has(key) => format!("has({key})"),
            Self::Not(inner) => format!("!({})", inner.text()),
            Self::And(a, b) => format!("({}) && ({})", a.text(), b.text()),
            Self::Or(a, b) => format!("({}) || ({})", a.text(), b.text()),
        }
    }

    fn holds(&self, labels: &Labels) -> bool {
        let get = |key: &str| labels.get(key).map(String::as_str);
        match self {
            Self::All => true,
            Self::Is(key, value) => get(key) == Some(value),
            Self::IsNot(key, value) => get(key) != Some(value),
            Self::In(key, values) => get(key).is_some_and(|it| values.contains(&it)),
            Self::Has(key) => get(key).is_some(),
            Self::Not(inner) => !inner.holds(labels),
            Self::And(a, b) => a.holds(labels) && b.holds(labels),
            Self::Or(a, b) => a.holds(labels) || b.holds(labels),
        }
    }
}

/// What one end decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// A rule of an imported policy allows it.
    Allowed,
    /// Nothing denies it, or Kubernetes' own policy allows it.
    Open,
    Denied,
}

#[derive(Debug, Clone, Default)]
struct Entity {
    selector: Option<Formula>,
    namespaces: Option<Formula>,
    nets: Vec<&'static str>,
    not_nets: Vec<&'static str>,
}

#[derive(Debug, Clone)]
struct TestRule {
    action: &'static str,
    protocol: Option<&'static str>,
    ports: Vec<&'static str>,
    not_ports: Vec<&'static str>,
    peer: Entity,
    own: Option<Formula>,
}

#[derive(Debug, Clone)]
struct TestPolicy {
    namespace: Option<&'static str>,
    name: String,
    tier: &'static str,
    order: Option<u32>,
    selector: Formula,
    namespaces: Option<Formula>,
    ingress: Option<Vec<TestRule>>,
    egress: Option<Vec<TestRule>>,
}

#[derive(Debug, Clone)]
struct World {
    cluster: TestCluster,
    policies: Vec<TestPolicy>,
    first_tier_denies: bool,
    last_tier_denies: bool,
    sets: Vec<(Option<&'static str>, Labels, Vec<&'static str>)>,
    native: Option<&'static str>,
}

fn within(net: &str, address: IpAddr) -> bool {
    let net: ipnet::IpNet = net.parse().unwrap();
    net.contains(&address)
}

impl TestRule {
    fn object(&self, ingress: bool) -> Value {
        let mut peer = json!({});
        let entity = &self.peer;
        if let Some(it) = &entity.selector {
            peer["selector"] = it.text().into();
        }
        if let Some(it) = &entity.namespaces {
            peer["namespaceSelector"] = it.text().into();
        }
        if !entity.nets.is_empty() {
            peer["nets"] = json!(entity.nets);
        }
        if !entity.not_nets.is_empty() {
            peer["notNets"] = json!(entity.not_nets);
        }
        let mut own = json!({});
        if let Some(it) = &self.own {
            own["selector"] = it.text().into();
        }
        let (mut source, mut destination) = if ingress { (peer, own) } else { (own, peer) };
        let ports = |list: &[&str]| -> Vec<Value> {
            let number = |it: &&str| it.parse::<u16>().map_or_else(|_| json!(it), |it| json!(it));
            list.iter().map(number).collect()
        };
        if !self.ports.is_empty() {
            destination["ports"] = ports(&self.ports).into();
        }
        if !self.not_ports.is_empty() {
            destination["notPorts"] = ports(&self.not_ports).into();
        }
        let mut rule = json!({"action": self.action});
        if let Some(protocol) = self.protocol {
            rule["protocol"] = protocol.into();
        }
        for (key, value) in [
            ("source", source.take()),
            ("destination", destination.take()),
        ] {
            if value != json!({}) {
                rule[key] = value;
            }
        }
        rule
    }

    fn matches_port(&self, world: &World, to: IpAddr, protocol: Protocol, port: u16) -> bool {
        let Some(name) = self.protocol else {
            return true;
        };
        let own = match name {
            "TCP" => Protocol::TCP,
            "UDP" => Protocol::UDP,
            _ => Protocol(1),
        };
        let one = |text: &&str| match text.split_once(':') {
            Some((first, last)) => {
                (first.parse().unwrap()..=last.parse::<u16>().unwrap()).contains(&port)
            }
            None if *text == "http" => {
                world.cluster.pod(to).is_some() && port == 8080 && protocol == Protocol::TCP
            }
            None => text.parse() == Ok(port),
        };
        own == protocol
            && (self.ports.is_empty() || self.ports.iter().any(one))
            && !self.not_ports.iter().any(one)
    }

    fn matches_peer(&self, world: &World, policy: &TestPolicy, peer: IpAddr) -> bool {
        let entity = &self.peer;
        if !entity.nets.is_empty() && !entity.nets.iter().any(|it| within(it, peer)) {
            return false;
        }
        if entity.not_nets.iter().any(|it| within(it, peer)) {
            return false;
        }
        if entity.selector.is_none() && entity.namespaces.is_none() {
            return true;
        }
        let reaches = |namespace: Option<&str>| match (&entity.namespaces, namespace) {
            (Some(formula), Some(name)) => formula.holds(&world.cluster.namespace_labels(name)),
            (Some(_), None) => false,
            (None, of) => policy.namespace.is_none() || policy.namespace == of,
        };
        let selects = |labels: &Labels| entity.selector.as_ref().is_none_or(|it| it.holds(labels));
        let is_pod = world
            .cluster
            .pod(peer)
            .is_some_and(|pod| reaches(Some(&pod.namespace)) && selects(&pod.labels));
        is_pod
            || world.sets.iter().any(|(namespace, labels, nets)| {
                reaches(*namespace) && selects(labels) && nets.iter().any(|net| within(net, peer))
            })
    }
}

impl TestPolicy {
    fn object(&self) -> Value {
        let rules = |rules: &[TestRule], ingress| -> Vec<Value> {
            rules.iter().map(|rule| rule.object(ingress)).collect()
        };
        let mut spec = json!({"tier": self.tier, "selector": self.selector.text()});
        if let Some(order) = self.order {
            spec["order"] = order.into();
        }
        if let Some(it) = &self.namespaces {
            spec["namespaceSelector"] = it.text().into();
        }
        let mut types = Vec::new();
        if let Some(it) = &self.ingress {
            types.push("Ingress");
            spec["ingress"] = rules(it, true).into();
        }
        if let Some(it) = &self.egress {
            types.push("Egress");
            spec["egress"] = rules(it, false).into();
        }
        spec["types"] = types.into();
        let mut metadata = json!({"name": self.name});
        if let Some(namespace) = self.namespace {
            metadata["namespace"] = namespace.into();
        }
        json!({
            "apiVersion": "projectcalico.org/v3",
            "kind": if self.namespace.is_some() { "NetworkPolicy" } else { "GlobalNetworkPolicy" },
            "metadata": metadata,
            "spec": spec,
        })
    }

    fn selects(&self, world: &World, address: IpAddr) -> bool {
        world.cluster.pod(address).is_some_and(|pod| {
            self.namespace.is_none_or(|it| it == pod.namespace)
                && self.selector.holds(&pod.labels)
                && (self.namespaces.as_ref())
                    .is_none_or(|it| it.holds(&world.cluster.namespace_labels(&pod.namespace)))
        })
    }
}

impl World {
    fn objects(&self) -> Vec<Value> {
        let mut all = self.cluster.objects();
        let tier = |name: &str, order: u32, denies: bool| {
            json!({"apiVersion": "projectcalico.org/v3", "kind": "Tier",
                "metadata": {"name": name},
                "spec": {"order": order, "defaultAction": if denies { "Deny" } else { "Pass" }}})
        };
        all.push(tier("first", 100, self.first_tier_denies));
        all.push(tier("last", 2_000_000, self.last_tier_denies));
        all.push(tier("default", 1_000_000, true));
        for (index, (namespace, labels, nets)) in self.sets.iter().enumerate() {
            let mut metadata = json!({"name": format!("set{index}"), "labels": labels});
            if let Some(namespace) = namespace {
                metadata["namespace"] = (*namespace).into();
            }
            all.push(json!({"apiVersion": "projectcalico.org/v3",
                "kind": if namespace.is_some() { "NetworkSet" } else { "GlobalNetworkSet" },
                "metadata": metadata, "spec": {"nets": nets}}));
        }
        all.extend(self.policies.iter().map(TestPolicy::object));
        all.extend(self.native_object());
        all
    }

    /// A NetworkPolicy of Kubernetes: TCP 443 in, to the pods with `app: web`.
    fn native_object(&self) -> Option<Value> {
        self.native.map(|namespace| {
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                "metadata": {"namespace": namespace, "name": "native"},
                "spec": {"podSelector": {"matchLabels": {"app": "web"}},
                    "policyTypes": ["Ingress"],
                    "ingress": [{"ports": [{"port": 443}]}]}})
        })
    }

    /// What one end decides, by some of the policies.
    fn side(
        &self,
        kept: &BTreeSet<String>,
        ingress: bool,
        own: IpAddr,
        peer: IpAddr,
        (protocol, port): (Protocol, u16),
    ) -> Decision {
        let to = if ingress { own } else { peer };
        for (tier, denies) in [
            ("first", self.first_tier_denies),
            ("default", true),
            ("last", self.last_tier_denies),
        ] {
            // (order, namespace, name) → what it says of this flow.
            let mut policies: Vec<(u64, (&str, &str), Option<&str>)> = Vec::new();
            for policy in &self.policies {
                let rules = if ingress {
                    &policy.ingress
                } else {
                    &policy.egress
                };
                let Some(rules) = rules else { continue };
                if policy.tier != tier || !kept.contains(&policy.name) || !policy.selects(self, own)
                {
                    continue;
                }
                let found = rules
                    .iter()
                    .filter(|rule| rule.action != "Log")
                    .find(|rule| {
                        let pod = self.cluster.pod(own).unwrap();
                        rule.own.as_ref().is_none_or(|it| it.holds(&pod.labels))
                            && rule.matches_peer(self, policy, peer)
                            && rule.matches_port(self, to, protocol, port)
                    });
                let order = policy.order.map_or(u64::MAX, u64::from);
                let name = (policy.namespace.unwrap_or(""), policy.name.as_str());
                policies.push((order, name, found.map(|rule| rule.action)));
            }
            if let Some(namespace) = self.native.filter(|_| tier == "default" && ingress) {
                let pod = self.cluster.pod(own);
                let selected = pod.filter(|pod| {
                    pod.namespace == namespace
                        && pod.labels.get("app").is_some_and(|it| it == "web")
                });
                if selected.is_some() {
                    let allows = protocol == Protocol::TCP && port == 443;
                    policies.push((1000, ("~", "native"), allows.then_some("Allow")));
                }
            }
            policies.sort();
            if policies.is_empty() {
                continue;
            }
            let decided = policies
                .iter()
                .find_map(|(_, name, action)| Some((name, (*action)?)));
            match decided {
                Some((name, "Allow")) if name.1 != "native" => return Decision::Allowed,
                Some((_, "Allow")) => return Decision::Open,
                Some((_, "Deny")) => return Decision::Denied,
                Some(_) => {}
                None if denies => return Decision::Denied,
                None => {}
            }
        }
        Decision::Open
    }

    fn all(&self) -> BTreeSet<String> {
        self.policies.iter().map(|it| it.name.clone()).collect()
    }
}

fn values() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["web", "db"])
}

fn keys() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["app", "tier"])
}

fn formula() -> impl Strategy<Value = Formula> {
    let leaf = prop_oneof![
        2 => Just(Formula::All),
        4 => (keys(), values()).prop_map(|(key, value)| Formula::Is(key, value)),
        1 => (keys(), values()).prop_map(|(key, value)| Formula::IsNot(key, value)),
        1 => keys().prop_map(|key| Formula::In(key, vec!["web", "db"])),
        1 => keys().prop_map(Formula::Has),
    ];
    leaf.prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|it| Formula::Not(Box::new(it))),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| Formula::And(Box::new(a), Box::new(b))),
            (inner.clone(), inner).prop_map(|(a, b)| Formula::Or(Box::new(a), Box::new(b))),
        ]
    })
}

/// For namespaces: by name more often than by labels.
fn of_namespaces() -> impl Strategy<Value = Formula> {
    prop_oneof![
        3 => prop::sample::select(vec!["a", "b"])
            .prop_map(|name| Formula::Is("kubernetes.io/metadata.name", name)),
        1 => values().prop_map(|value| Formula::Is("app", value)),
        1 => Just(Formula::All),
    ]
}

fn nets() -> impl Strategy<Value = Vec<&'static str>> {
    let one = prop::sample::select(vec![
        "192.0.2.0/24",
        "192.0.2.128/25",
        "0.0.0.0/0",
        "10.1.0.0/28",
        "10.0.0.2/32",
    ]);
    prop::collection::vec(one, 0..3)
}

fn entity() -> impl Strategy<Value = Entity> {
    prop_oneof![
        2 => Just(Entity::default()),
        3 => (prop::option::of(formula()), prop::option::of(of_namespaces())).prop_map(
            |(selector, namespaces)| Entity { selector, namespaces, ..Entity::default() }
        ),
        3 => (nets(), nets()).prop_map(|(nets, not_nets)| Entity { nets, not_nets, ..Entity::default() }),
    ]
}

fn rule() -> impl Strategy<Value = TestRule> {
    let ports = prop::collection::vec(
        prop::sample::select(vec!["80", "443", "8080", "1:100", "http"]),
        0..3,
    );
    let not_ports = prop_oneof![3 => Just(vec![]), 1 => Just(vec!["80"])];
    let protocol = prop_oneof![
        3 => Just(None),
        4 => Just(Some("TCP")),
        2 => Just(Some("UDP")),
        1 => Just(Some("ICMP")),
    ];
    let action = prop::sample::select(vec!["Allow", "Allow", "Allow", "Deny", "Pass", "Log"]);
    (
        action,
        protocol,
        ports,
        not_ports,
        entity(),
        prop::option::weighted(0.1, formula()),
    )
        .prop_map(|(action, protocol, ports, not_ports, peer, own)| {
            let has_ports = matches!(protocol, Some("TCP" | "UDP"));
            let is_named = ports.contains(&"http");
            TestRule {
                action,
                protocol,
                ports: if has_ports { ports } else { Vec::new() },
                not_ports: if has_ports && !is_named {
                    not_ports
                } else {
                    Vec::new()
                },
                peer,
                own,
            }
        })
}

fn policies() -> impl Strategy<Value = Vec<TestPolicy>> {
    let namespace = prop_oneof![3 => Just(Some("a")), 1 => Just(Some("b")), 2 => Just(None)];
    let tier = prop_oneof![6 => Just("default"), 1 => Just("first"), 1 => Just("last")];
    let order = prop::option::of(prop::sample::select(vec![1_u32, 2, 3, 900, 1001]));
    let rules = || prop::option::of(prop::collection::vec(rule(), 0..4));
    let policy = (
        namespace,
        tier,
        order,
        formula(),
        prop::option::of(of_namespaces()),
        rules(),
        rules(),
    )
        .prop_map(
            |(namespace, tier, order, selector, namespaces, ingress, egress)| TestPolicy {
                namespace,
                name: String::new(),
                tier,
                order,
                selector,
                namespaces: namespaces.filter(|_| namespace.is_none()),
                ingress: if ingress.is_none() && egress.is_none() {
                    Some(Vec::new())
                } else {
                    ingress
                },
                egress,
            },
        );
    prop::collection::vec(policy, 1..4).prop_map(|mut all| {
        for (index, policy) in all.iter_mut().enumerate() {
            policy.name = format!("policy{index}");
        }
        all
    })
}

fn labels() -> impl Strategy<Value = Labels> {
    prop::collection::btree_map(
        keys().prop_map(str::to_owned),
        values().prop_map(str::to_owned),
        0..3,
    )
}

fn world() -> impl Strategy<Value = World> {
    let pods = prop::collection::vec(
        (
            prop::sample::select(vec!["a".to_owned(), "b".to_owned()]),
            labels(),
        ),
        2..5,
    );
    let set = (
        prop::sample::select(vec![None, Some("a"), Some("b")]),
        labels(),
        nets().prop_filter("some", |it| !it.is_empty()),
    );
    (
        (labels(), labels()),
        pods,
        policies(),
        any::<bool>(),
        any::<bool>(),
        prop::collection::vec(set, 0..2),
        prop::option::weighted(0.3, Just("a")),
    )
        .prop_map(
            |((a, b), pods, policies, first_tier_denies, last_tier_denies, sets, native)| {
                let namespaces = BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)]);
                World {
                    cluster: TestCluster::new(namespaces, pods),
                    policies,
                    first_tier_denies,
                    last_tier_denies,
                    sets,
                    native,
                }
            },
        )
}

fn kept(world: &World, report: &Report) -> BTreeSet<String> {
    let refused: BTreeSet<&str> = report
        .refused
        .iter()
        .map(|it| it.object.name.as_str())
        .collect();
    let all = world.all().into_iter();
    all.filter(|name| !refused.contains(name.as_str()))
        .collect()
}

/// Compares every flow, and every end on its own.
fn check(world: &World, settings: &Settings) -> Result<(), TestCaseError> {
    let report = calico::convert(&world.objects(), settings).unwrap();
    let kept = kept(world, &report);
    let policies: Vec<Value> = report
        .objects
        .iter()
        .cloned()
        .chain(world.native_object())
        .collect();
    let compiler = world.cluster.compiler(&policies);
    for from in world.cluster.ends() {
        for to in world.cluster.ends() {
            if from == to {
                continue;
            }
            for flow in FLOWS {
                let egress = world.side(&kept, false, from, to, flow);
                let ingress = world.side(&kept, true, to, from, flow);
                let decided = compiler.explain(from, to, flow.0, flow.1);
                let expected = egress != Decision::Denied && ingress != Decision::Denied;
                prop_assert_eq!(
                    decided.allow,
                    expected,
                    "{} to {} {:?}\n{:#?}\n{:#?}",
                    from,
                    to,
                    flow,
                    decided,
                    report
                );
                // The imported policies allow nothing that the source policies deny.
                let all = world.all();
                for (is_ingress, own, peer, decision) in
                    [(false, from, to, egress), (true, to, from, ingress)]
                {
                    if decision == Decision::Allowed {
                        prop_assert_ne!(
                            world.side(&all, is_ingress, own, peer, flow),
                            Decision::Denied,
                            "wider: {} to {} {:?}\n{:#?}",
                            from,
                            to,
                            flow,
                            report
                        );
                    }
                }
            }
        }
    }
    Ok(())
}

/// The properties show nothing about policies that are left out.
#[test]
fn many_random_policies_are_converted() {
    let mut runner = TestRunner::deterministic();
    for (expand_namespaces, least) in [(false, 25), (true, 35)] {
        let settings = Settings {
            expand_namespaces,
            ..Settings::default()
        };
        let (mut all, mut converted) = (0, 0);
        for _ in 0..300 {
            let world = world().new_tree(&mut runner).unwrap().current();
            let report = calico::convert(&world.objects(), &settings).unwrap();
            let refused: BTreeSet<&str> = report
                .refused
                .iter()
                .map(|it| it.object.name.as_str())
                .collect();
            all += world.policies.len();
            converted += world.policies.len() - refused.len();
        }
        let percent = converted * 100 / all;
        assert!(percent >= least, "{percent} % of {all} policies");
    }
}

proptest! {
    #![proptest_config(support::config())]

    #[test]
    fn imported_policies_decide_as_calico_does(world in world()) {
        check(&world, &Settings::default())?;
    }

    #[test]
    fn policies_expanded_into_namespaces_decide_as_calico_does(world in world()) {
        check(&world, &Settings { expand_namespaces: true, ..Settings::default() })?;
    }
}
