//! Tests that imported policies decide as Cilium does: random policies are evaluated by a direct
//! implementation of Cilium's rules, and, after conversion, by Orlop's own compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use control_import::cilium;
use control_import::policy::Settings;
use ebpf_abi::Protocol;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

mod support;

use support::{FLOWS, Labels, OTHER_NODE, POD_RANGE, TestCluster};

/// Labels that must be there, and namespaces, by name.
#[derive(Debug, Clone, Default)]
struct Chosen {
    labels: Vec<(&'static str, &'static str)>,
    absent: Option<&'static str>,
    namespace: Option<&'static str>,
    namespace_label: Option<&'static str>,
}

impl Chosen {
    fn object(&self, prefix: &str) -> Value {
        let mut labels = json!({});
        for (key, value) in &self.labels {
            labels[format!("{prefix}{key}")] = (*value).into();
        }
        if let Some(namespace) = self.namespace {
            labels["k8s:io.kubernetes.pod.namespace"] = namespace.into();
        }
        if let Some(value) = self.namespace_label {
            labels["io.cilium.k8s.namespace.labels.app"] = value.into();
        }
        let mut selector = json!({"matchLabels": labels});
        if let Some(key) = self.absent {
            selector["matchExpressions"] = json!([{"key": key, "operator": "DoesNotExist"}]);
        }
        selector
    }

    /// `own`: the namespace of the policy.
    fn holds(&self, cluster: &TestCluster, own: Option<&str>, address: IpAddr) -> bool {
        let Some(pod) = cluster.pod(address) else {
            return false;
        };
        let namespace_labels = &cluster.namespaces[&pod.namespace];
        let in_reach = match (self.namespace, self.namespace_label) {
            (None, None) => own.is_none_or(|it| it == pod.namespace),
            (name, label) => {
                name.is_none_or(|it| it == pod.namespace)
                    && label.is_none_or(|it| namespace_labels.get("app").is_some_and(|v| v == it))
            }
        };
        in_reach
            && self
                .labels
                .iter()
                .all(|(key, value)| pod.labels.get(*key).is_some_and(|it| it == value))
            && self.absent.is_none_or(|key| !pod.labels.contains_key(key))
    }
}

#[derive(Debug, Clone)]
enum TestPeers {
    Anybody,
    Endpoints(Vec<Chosen>),
    Cidr(Vec<(&'static str, Vec<&'static str>)>),
    Entities(Vec<&'static str>),
    Empty,
}

#[derive(Debug, Clone)]
struct TestRule {
    peers: TestPeers,
    ports: Vec<(&'static str, Option<u16>, &'static str)>,
}

#[derive(Debug, Clone)]
struct TestPolicy {
    name: String,
    namespace: Option<&'static str>,
    subject: Chosen,
    /// Ingress, ingressDeny, egress, egressDeny.
    rules: [Option<Vec<TestRule>>; 4],
    default_deny: [Option<bool>; 2],
}

#[derive(Debug, Clone)]
struct World {
    cluster: TestCluster,
    policies: Vec<TestPolicy>,
}

fn within(net: &str, address: IpAddr) -> bool {
    let net: ipnet::IpNet = net.parse().unwrap();
    net.contains(&address)
}

fn is_outside(address: IpAddr) -> bool {
    !within(POD_RANGE, address) && address != OTHER_NODE.parse::<IpAddr>().unwrap()
}

impl TestRule {
    fn object(&self, ingress: bool) -> Value {
        let prefix = if ingress { "from" } else { "to" };
        let mut rule = json!({});
        match &self.peers {
            TestPeers::Anybody => {}
            TestPeers::Empty => rule[format!("{prefix}Endpoints")] = json!([]),
            TestPeers::Endpoints(all) => {
                let all: Vec<Value> = all.iter().map(|it| it.object("k8s:")).collect();
                rule[format!("{prefix}Endpoints")] = all.into();
            }
            TestPeers::Cidr(all) => {
                let all: Vec<Value> = all
                    .iter()
                    .map(|(cidr, except)| json!({"cidr": cidr, "except": except}))
                    .collect();
                rule[format!("{prefix}CIDRSet")] = all.into();
            }
            TestPeers::Entities(all) => rule[format!("{prefix}Entities")] = json!(all),
        }
        if !self.ports.is_empty() {
            let ports: Vec<Value> = self
                .ports
                .iter()
                .map(|(port, end, protocol)| {
                    let mut port = json!({"port": port, "protocol": protocol});
                    if let Some(end) = end {
                        port["endPort"] = (*end).into();
                    }
                    port
                })
                .collect();
            rule["toPorts"] = json!([{"ports": ports}]);
        }
        rule
    }

    fn matches(
        &self,
        world: &World,
        own: Option<&str>,
        peer: IpAddr,
        to: IpAddr,
        (protocol, port): (Protocol, u16),
    ) -> bool {
        let cluster = &world.cluster;
        let is_peer = match &self.peers {
            TestPeers::Anybody => !self.ports.is_empty(),
            TestPeers::Empty => false,
            TestPeers::Endpoints(all) => all.iter().any(|it| it.holds(cluster, own, peer)),
            TestPeers::Cidr(all) => {
                is_outside(peer)
                    && all.iter().any(|(cidr, except)| {
                        within(cidr, peer) && !except.iter().any(|it| within(it, peer))
                    })
            }
            TestPeers::Entities(all) => all.iter().any(|entity| match *entity {
                "all" => true,
                "world" => is_outside(peer),
                "cluster" => !is_outside(peer),
                "remote-node" => peer == OTHER_NODE.parse::<IpAddr>().unwrap(),
                _ => false,
            }),
        };
        let is_port = |(text, end, name): &(&str, Option<u16>, &str)| {
            let of_protocol = match *name {
                "TCP" => protocol == Protocol::TCP,
                "UDP" => protocol == Protocol::UDP,
                _ => protocol == Protocol::TCP || protocol == Protocol::UDP,
            };
            of_protocol
                && match text.parse::<u16>() {
                    Ok(0) => true,
                    Ok(first) => (first..=end.unwrap_or(first)).contains(&port),
                    Err(_) => {
                        cluster.pod(to).is_some() && protocol == Protocol::TCP && port == 8080
                    }
                }
        };
        is_peer && (self.ports.is_empty() || self.ports.iter().any(is_port))
    }
}

impl TestPolicy {
    fn object(&self) -> Value {
        let mut spec = json!({"endpointSelector": self.subject.object("")});
        let keys = ["ingress", "ingressDeny", "egress", "egressDeny"];
        for (at, (key, rules)) in keys.into_iter().zip(&self.rules).enumerate() {
            if let Some(rules) = rules {
                let rules: Vec<Value> = rules.iter().map(|it| it.object(at < 2)).collect();
                spec[key] = rules.into();
            }
        }
        for (key, value) in ["ingress", "egress"].into_iter().zip(self.default_deny) {
            if let Some(value) = value {
                spec["enableDefaultDeny"][key] = value.into();
            }
        }
        let mut metadata = json!({"name": self.name});
        if let Some(namespace) = self.namespace {
            metadata["namespace"] = namespace.into();
        }
        let kind = if self.namespace.is_some() {
            "CiliumNetworkPolicy"
        } else {
            "CiliumClusterwideNetworkPolicy"
        };
        json!({"apiVersion": "cilium.io/v2", "kind": kind, "metadata": metadata, "spec": spec})
    }

    fn selects(&self, world: &World, address: IpAddr) -> bool {
        let pod = world.cluster.pod(address);
        pod.is_some_and(|pod| self.namespace.is_none_or(|it| it == pod.namespace))
            && self.subject.holds(&world.cluster, self.namespace, address)
    }
}

impl World {
    fn side(
        &self,
        kept: &BTreeSet<String>,
        ingress: bool,
        own: IpAddr,
        peer: IpAddr,
        flow: (Protocol, u16),
    ) -> bool {
        let to = if ingress { own } else { peer };
        let first = if ingress { 0 } else { 2 };
        let selecting: Vec<&TestPolicy> = self
            .policies
            .iter()
            .filter(|it| kept.contains(&it.name) && it.selects(self, own))
            .collect();
        let matches = |at: usize| {
            selecting.iter().any(|policy| {
                policy.rules[at]
                    .iter()
                    .flatten()
                    .any(|rule| rule.matches(self, policy.namespace, peer, to, flow))
            })
        };
        if matches(first + 1) {
            return false;
        }
        let denies = selecting.iter().any(|policy| {
            let is_about = policy.rules[first].is_some() || policy.rules[first + 1].is_some();
            is_about && policy.default_deny[first / 2].unwrap_or(true)
        });
        !denies || matches(first)
    }

    /// Whether a rule of some policies allows a flow.
    fn allowed(
        &self,
        kept: &BTreeSet<String>,
        ingress: bool,
        own: IpAddr,
        peer: IpAddr,
        flow: (Protocol, u16),
    ) -> bool {
        let to = if ingress { own } else { peer };
        let at = if ingress { 0 } else { 2 };
        let selecting = self.policies.iter();
        let mut selecting = selecting.filter(|it| kept.contains(&it.name) && it.selects(self, own));
        selecting.any(|policy| {
            let mut rules = policy.rules[at].iter().flatten();
            rules.any(|rule| rule.matches(self, policy.namespace, peer, to, flow))
        })
    }
}

fn pair() -> impl Strategy<Value = (&'static str, &'static str)> {
    let keys = prop::sample::select(vec!["app", "tier"]);
    (keys, prop::sample::select(vec!["web", "db"]))
}

fn chosen(with_namespaces: bool) -> impl Strategy<Value = Chosen> {
    let namespace = prop_oneof![3 => Just(None), 1 => Just(Some("a")), 1 => Just(Some("b"))];
    (
        prop::collection::vec(pair(), 0..2),
        prop::option::weighted(0.2, prop::sample::select(vec!["app", "tier"])),
        namespace,
        prop::option::weighted(0.1, prop::sample::select(vec!["web", "db"])),
    )
        .prop_map(move |(labels, absent, namespace, namespace_label)| Chosen {
            labels,
            absent,
            namespace: namespace.filter(|_| with_namespaces),
            namespace_label: namespace_label.filter(|_| with_namespaces),
        })
}

fn rule() -> impl Strategy<Value = TestRule> {
    let nets = || {
        prop::sample::select(vec![
            "192.0.2.0/24",
            "192.0.2.128/25",
            "0.0.0.0/0",
            "10.0.0.0/8",
        ])
    };
    let peers = prop_oneof![
        2 => Just(TestPeers::Anybody),
        1 => Just(TestPeers::Empty),
        5 => prop::collection::vec(chosen(true), 1..3).prop_map(TestPeers::Endpoints),
        3 => prop::collection::vec((nets(), prop::collection::vec(nets(), 0..2)), 1..3)
            .prop_map(TestPeers::Cidr),
        3 => prop::collection::vec(
            prop::sample::select(vec!["all", "world", "cluster", "remote-node", "none"]), 1..3)
            .prop_map(TestPeers::Entities),
    ];
    let ports = prop::collection::vec(
        prop::sample::select(vec![
            ("80", None, "TCP"),
            ("80", None, "ANY"),
            ("1", Some(443), "TCP"),
            ("0", None, "UDP"),
            ("http", None, "TCP"),
        ]),
        0..3,
    );
    (peers, ports).prop_map(|(peers, ports)| TestRule { peers, ports })
}

fn policy() -> impl Strategy<Value = TestPolicy> {
    let rules = || prop::option::of(prop::collection::vec(rule(), 0..3));
    let denied = || prop::option::weighted(0.25, prop::collection::vec(rule(), 1..2));
    let default_deny = || prop::option::weighted(0.2, any::<bool>());
    (
        prop::sample::select(vec![Some("a"), Some("a"), Some("b"), None]),
        chosen(false),
        (any::<bool>(), chosen(true)),
        (rules(), denied(), rules(), denied()),
        [default_deny(), default_deny()],
    )
        .prop_map(
            |(namespace, own, (wide, other), (a, b, c, d), default_deny)| TestPolicy {
                name: String::new(),
                namespace,
                subject: if wide && namespace.is_none() {
                    other
                } else {
                    own
                },
                rules: [a, b, c, d],
                default_deny,
            },
        )
}

fn world() -> impl Strategy<Value = World> {
    let labels = || {
        prop::collection::btree_map(
            prop::sample::select(vec!["app".to_owned(), "tier".to_owned()]),
            prop::sample::select(vec!["web".to_owned(), "db".to_owned()]),
            0..3,
        )
    };
    let pods = prop::collection::vec(
        (
            prop::sample::select(vec!["a".to_owned(), "b".to_owned()]),
            labels(),
        ),
        2..5,
    );
    (
        (labels(), labels()),
        pods,
        prop::collection::vec(policy(), 1..4),
    )
        .prop_map(
            |((a, b), pods, mut policies): ((Labels, Labels), _, Vec<TestPolicy>)| {
                for (index, policy) in policies.iter_mut().enumerate() {
                    policy.name = format!("policy{index}");
                }
                let namespaces = BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)]);
                World {
                    cluster: TestCluster::new(namespaces, pods),
                    policies,
                }
            },
        )
}

fn check(world: &World, settings: &Settings) -> Result<(), TestCaseError> {
    let mut objects = world.cluster.objects();
    objects.extend(world.policies.iter().map(TestPolicy::object));
    let report = cilium::convert(&objects, settings).unwrap();
    let refused: BTreeSet<&str> = report
        .refused
        .iter()
        .map(|it| it.object.name.as_str())
        .collect();
    let all: BTreeSet<String> = world.policies.iter().map(|it| it.name.clone()).collect();
    let kept: BTreeSet<String> = all
        .iter()
        .filter(|it| !refused.contains(it.as_str()))
        .cloned()
        .collect();
    let compiler = world.cluster.compiler(&report.objects);
    for from in world.cluster.ends() {
        for to in world.cluster.ends() {
            if from == to {
                continue;
            }
            for flow in FLOWS {
                let egress = world.side(&kept, false, from, to, flow);
                let ingress = world.side(&kept, true, to, from, flow);
                let decided = compiler.explain(from, to, flow.0, flow.1);
                prop_assert_eq!(
                    decided.allow,
                    egress && ingress,
                    "{} to {} {:?}\n{:#?}\n{:#?}",
                    from,
                    to,
                    flow,
                    decided,
                    report
                );
                for (is_ingress, own, peer, allows) in
                    [(false, from, to, egress), (true, to, from, ingress)]
                {
                    if allows && world.allowed(&kept, is_ingress, own, peer, flow) {
                        prop_assert!(
                            world.side(&all, is_ingress, own, peer, flow),
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
            let mut objects = world.cluster.objects();
            objects.extend(world.policies.iter().map(TestPolicy::object));
            let report = cilium::convert(&objects, &settings).unwrap();
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
    fn imported_policies_decide_as_cilium_does(world in world()) {
        check(&world, &Settings::default())?;
    }

    #[test]
    fn policies_expanded_into_namespaces_decide_as_cilium_does(world in world()) {
        check(&world, &Settings { expand_namespaces: true, ..Settings::default() })?;
    }
}
