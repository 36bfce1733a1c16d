//! Tests one node: the connections that it keeps open, and a restart of the agent.

#[path = "support/halted.rs"]
mod halted;

use ebpf_abi::Protocol;
use ebpf_abi::policy::Direction;
use ebpf_logic::policy::model::PolicyModel;
use ebpf_logic::policy::{Flow, HookPlace, PolicyMaps, policy};
use halted::{Halted, LOOKS};
use node_agent_policy::check::{Objects, read};
use node_agent_policy::policy::PortRange;
use node_agent_policy::{Action, Compiler, Config, End, Prefix, UNKNOWN_POD};

const OBJECTS: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {addresses: [{type: InternalIP, address: 172.16.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: x, name: a, labels: {app: a}}
spec: {nodeName: n1}
status: {podIP: 10.0.0.1}
---
apiVersion: v1
kind: Pod
metadata: {namespace: x, name: b, labels: {app: b}}
spec: {nodeName: n2}
status: {podIP: 10.0.0.2}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: x, name: closed}
spec:
  podSelector: {matchLabels: {app: a}}
  ingress: [{from: [{podSelector: {matchLabels: {app: b}}}], ports: [{port: 80}]}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: kube-system, name: hosts, annotations: {policy.orlop.dev/applies-to: nodes}}
spec: {podSelector: {}, policyTypes: [Ingress]}
"#;

fn objects(text: &str) -> Objects {
    read(serde_saphyr::from_multiple(text).unwrap()).unwrap().0
}

fn config(model: &PolicyModel) -> Config {
    Config {
        node: Some("n1".into()),
        protected: vec![PortRange {
            protocol: Protocol::TCP,
            first: 6443,
            last: 6443,
        }],
        previous: model.root,
    }
}

fn start(objects: &Objects, model: &PolicyModel) -> Compiler {
    let mut compiler = Compiler::new(config(model));
    objects.apply_to(&mut compiler);
    compiler.own_addresses(&["10.0.0.254".parse().unwrap()]);
    compiler
}

fn apply(actions: Vec<Action>, model: &mut PolicyModel) {
    for action in actions {
        action.apply(model);
    }
}

fn into(model: &impl PolicyMaps, place: HookPlace, own: &str, peer: &str, port: u16) -> bool {
    let address = |it: &str| it.parse::<std::net::IpAddr>().unwrap().into();
    let flow = Flow {
        place,
        direction: Direction::INGRESS,
        own: address(own),
        peer: address(peer),
        protocol: Protocol::TCP,
        port,
        relayed: false,
    };
    policy(model, &flow).allow
}

#[test]
fn all_own_addresses_reach_a_pod_and_no_others() {
    let mut model = PolicyModel::default();
    let mut compiler = start(&objects(OBJECTS), &model);
    apply(compiler.sync(), &mut model);
    for (peer, port, expected) in [
        ("172.16.0.1", 1, true),
        ("10.0.0.254", 1, true),
        ("10.0.0.253", 1, false),
        ("10.0.0.2", 80, true),
        ("10.0.0.2", 81, false),
    ] {
        let said = into(&model, HookPlace::Pod, "10.0.0.1", peer, port);
        assert_eq!(said, expected, "{peer} {port}");
    }
    compiler.own_addresses(&[]);
    apply(compiler.sync(), &mut model);
    assert!(!into(&model, HookPlace::Pod, "10.0.0.1", "10.0.0.254", 1));
}

#[test]
fn the_host_firewall_locks_nobody_out_unless_it_may() {
    let closed = objects(OBJECTS);
    let mut model = PolicyModel::default();
    apply(start(&closed, &model).sync(), &mut model);
    for own in ["172.16.0.1", "10.0.0.254"] {
        assert!(
            into(&model, HookPlace::Host, own, "192.0.2.1", 6443),
            "{own}"
        );
        assert!(
            !into(&model, HookPlace::Host, own, "192.0.2.1", 22),
            "{own}"
        );
    }
    let forced = OBJECTS.replace(
        "applies-to: nodes}",
        "applies-to: nodes, policy.orlop.dev/lockout: allowed}",
    );
    let mut model = PolicyModel::default();
    apply(start(&objects(&forced), &model).sync(), &mut model);
    assert!(!into(
        &model,
        HookPlace::Host,
        "172.16.0.1",
        "192.0.2.1",
        6443
    ));
}

#[test]
fn a_pod_is_closed_until_its_rules_are_complete() {
    let mut all = objects(OBJECTS);
    let pod = all.pods.remove(&("x".into(), "a".into())).unwrap();
    let mut model = PolicyModel::default();
    let mut compiler = start(&all, &model);
    apply(compiler.sync(), &mut model);
    compiler.pod_at(&pod, &["10.0.0.1".parse().unwrap()]);
    let ask = |model: &PolicyModel, peer| into(model, HookPlace::Pod, "10.0.0.1", peer, 80);
    let mut opened = false;
    for action in compiler.sync() {
        action.apply(&mut model);
        assert!(!ask(&model, "10.0.0.3"), "{action:?}");
        opened |= ask(&model, "10.0.0.2");
    }
    assert!(opened && ask(&model, "10.0.0.2"));
    // One whose namespace is not known stays closed.
    let mut stray = pod;
    stray.metadata.namespace = "nowhere".into();
    compiler.pod_at(&stray, &["10.0.0.9".parse().unwrap()]);
    apply(compiler.sync(), &mut model);
    assert!(!into(&model, HookPlace::Pod, "10.0.0.9", "10.0.0.2", 80));
}

const NO_BAD_PODS: &str = r#"
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: no-bad-pods}
spec:
  tier: Admin
  priority: 1
  subject: {namespaces: {}}
  ingress:
  - action: Deny
    from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: bad}}}}]
---
apiVersion: v1
kind: Node
metadata: {name: n2}
spec: {podCIDR: 10.0.9.0/24}
---
apiVersion: v1
kind: Pod
metadata: {namespace: other, name: good}
spec: {nodeName: n2}
status: {podIP: 10.0.9.7}
"#;

#[test]
fn a_new_pod_of_another_node_may_be_any_pod_until_it_is_known() {
    let mut all = objects(OBJECTS);
    all.policies.clear();
    let mut new = objects(NO_BAD_PODS);
    all.cluster_policies.append(&mut new.cluster_policies);
    let mut model = PolicyModel::default();
    let mut compiler = start(&all, &model);
    compiler.own_addresses(&["10.0.9.254".parse().unwrap()]);
    let mut ask = |compiler: &mut Compiler, peer: &str| {
        let before = model.root.generation;
        let actions = compiler.sync();
        let something = !actions.is_empty();
        apply(actions, &mut model);
        assert_eq!(model.root.generation != before, something);
        into(&model, HookPlace::Pod, "10.0.0.1", peer, 80)
    };
    assert!(ask(&mut compiler, "10.0.9.7"), "no range is known");
    compiler.node("n2", new.nodes.get("n2"));
    assert!(!ask(&mut compiler, "10.0.9.7"));
    assert!(ask(&mut compiler, "10.0.9.254"), "the node's own address");
    assert!(ask(&mut compiler, "10.0.8.7"), "outside");
    let explain = |compiler: &Compiler, from: &str| {
        let to = "10.0.0.1".parse().unwrap();
        compiler.explain(from.parse().unwrap(), to, Protocol::TCP, 80)
    };
    let explained = explain(&compiler, "10.0.9.7");
    assert_eq!(explained.from, End::UnknownPod("10.0.9.7".parse().unwrap()));
    let why = explained.ingress.unwrap();
    assert!(why.unknown_pod && why.to_string().ends_with(UNKNOWN_POD));
    assert!(!explain(&compiler, "10.0.8.7").ingress.unwrap().unknown_pod);

    let pod = new.pods.get(&("other".into(), "good".into()));
    compiler.pod("other", "good", pod);
    assert!(
        !ask(&mut compiler, "10.0.9.7"),
        "its namespace is not known"
    );
    compiler.namespace("other", new.namespaces.get("other"));
    assert!(ask(&mut compiler, "10.0.9.7"));
    compiler.pod("other", "good", None);
    assert!(!ask(&mut compiler, "10.0.9.7"));
    // The range is another node's, too, and then nobody's.
    compiler.node("n3", new.nodes.get("n2"));
    compiler.node("n2", None);
    assert!(!ask(&mut compiler, "10.0.9.7"));
    compiler.node("n3", None);
    assert!(ask(&mut compiler, "10.0.9.7"));
    compiler.pod_ranges(&[Prefix::parse("10.0.9.0/28").unwrap()]);
    assert!(!ask(&mut compiler, "10.0.9.7"), "a pool");
    assert!(ask(&mut compiler, "10.0.9.17"), "beyond the pool");
    // Nobody would be outside.
    compiler.pod_ranges(&[Prefix::V4]);
    assert!(ask(&mut compiler, "10.0.9.7"));
}

#[test]
fn an_agent_that_starts_anew_changes_no_verdict_on_the_way_and_leaves_nothing() {
    let all = objects(OBJECTS);
    let mut model = PolicyModel::default();
    apply(start(&all, &model).sync(), &mut model);
    let questions = [
        (HookPlace::Pod, "10.0.0.1", "10.0.0.2", 80, true),
        (HookPlace::Pod, "10.0.0.1", "10.0.0.2", 81, false),
        (HookPlace::Pod, "10.0.0.1", "10.0.0.3", 80, false),
        (HookPlace::Pod, "10.0.0.1", "172.16.0.1", 9, true),
        (HookPlace::Host, "172.16.0.1", "192.0.2.1", 6443, true),
        (HookPlace::Host, "172.16.0.1", "192.0.2.1", 6444, false),
    ];
    let verify = |model: &PolicyModel, when: &str| {
        for (place, own, peer, port, expected) in questions {
            let said = into(model, place, own, peer, port);
            assert_eq!(said, expected, "{own} {peer} {port} {when}");
        }
    };
    let halt = |model: &PolicyModel, meanwhile: &[Action]| {
        for looks in 0..LOOKS {
            for (place, own, peer, port, expected) in questions {
                let maps = Halted::after(looks, model.clone(), meanwhile);
                let said = into(&maps, place, own, peer, port);
                assert_eq!(
                    said, expected,
                    "{own} {peer} {port}, stopped after {looks} looks, during {meanwhile:?}"
                );
            }
        }
    };
    verify(&model, "at first");
    let count = |it: &PolicyModel| {
        let ports: usize = it.ports.values().filter(|it| it.0 != [0; 4]).count();
        (it.peers.len(), it.endpoints.len(), it.verdicts.len(), ports)
    };
    let before = count(&model);
    // The first successor dies on the way, the second one does not.
    for stop in [Some(12), None] {
        let root = model.root;
        let actions = start(&all, &model).sync();
        for (number, action) in actions.iter().enumerate() {
            if Some(number) == stop {
                break;
            }
            // Who was at work before sees no more than this.
            let rest = &actions[number..];
            let seen = rest.iter().position(Action::waits).unwrap_or(rest.len());
            halt(&model, &rest[..seen]);
            action.apply(&mut model);
            verify(&model, &format!("after {action:?}"));
        }
        assert_eq!(model.root == root, stop.is_some());
    }
    assert_eq!(count(&model), before);
}
