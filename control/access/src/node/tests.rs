use control_types::value;

use super::*;
use crate::{NODES, Selection, User};

fn ask(verb: &str, what: &str, namespace: &str, name: &str) -> Attributes {
    let (group, what) = what.rsplit_once(':').unwrap_or(("", what));
    let (resource, subresource) = what.split_once('/').unwrap_or((what, ""));
    Attributes {
        user: User::named("system:node:n1", [NODES]),
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        is_resource_request: true,
        ..Attributes::default()
    }
}

fn pod(name: &str, node: &str) -> Value {
    let mut pod = value!({
        "metadata": { "namespace": "a" },
        "spec": {
            "serviceAccountName": "robot",
            "containers": [{ "env": [{ "valueFrom": { "secretKeyRef": { "name": "key" } } }] }],
            "ephemeralContainers": [{ "envFrom": [{ "secretRef": { "name": "debug" } }] }],
            "volumes": [
                { "name": "v", "persistentVolumeClaim": { "claimName": "data" } },
                { "name": "p", "projected": { "sources": [{ "configMap": { "name": "root-ca" } }] } },
                { "name": "i", "iscsi": { "secretRef": { "name": "chap" } } },
                { "name": "tmp", "ephemeral": {} },
            ],
            "resourceClaims": [{ "name": "g", "resourceClaimTemplateName": "t" }],
        },
        "status": { "resourceClaimStatuses": [{ "name": "g", "resourceClaimName": "gpu" }] },
    });
    pod.set_path(&["metadata", "name"], name);
    pod.set_path(&["spec", "nodeName"], node);
    pod
}

fn volume() -> Value {
    value!({
        "metadata": { "name": "pv" },
        "spec": {
            "claimRef": { "namespace": "a", "name": "data" },
            "csi": {
                "nodeStageSecretRef": { "namespace": "csi", "name": "stage" },
                "controllerPublishSecretRef": { "namespace": "csi", "name": "attach" },
            },
        },
    })
}

#[test]
fn an_agent_reads_what_its_pods_refer_to_and_nothing_else() {
    let graph = NodeGraph::default();
    graph.set_pod(&pod("web", "n1"));
    graph.set_pod(&pod("other", "n2"));
    graph.remove_pod("a", "other");
    graph.set_volume(&volume());
    let attachment =
        |node: &str| value!({ "metadata": { "name": "va" }, "spec": { "nodeName": node } });
    graph.set(OfNode::Attachment, &attachment("n1"));
    let yes = [
        ask("get", "secrets", "a", "key"),
        ask("watch", "secrets", "a", "key"),
        ask("get", "secrets", "a", "debug"),
        ask("get", "secrets", "a", "chap"),
        ask("get", "secrets", "csi", "stage"),
        ask("get", "configmaps", "a", "root-ca"),
        ask("get", "persistentvolumeclaims", "a", "data"),
        ask("get", "persistentvolumeclaims", "a", "web-tmp"),
        ask("update", "persistentvolumeclaims/status", "a", "data"),
        ask("get", "persistentvolumes", "", "pv"),
        ask("get", "resource.k8s.io:resourceclaims", "a", "gpu"),
        ask("get", "storage.k8s.io:volumeattachments", "", "va"),
        ask("get", "pods", "a", "web"),
        ask("get", "serviceaccounts", "a", "robot"),
        ask("create", "serviceaccounts/token", "a", "robot"),
    ];
    for question in &yes {
        assert_eq!(graph.allows("n1", question), Ok(()), "{question:?}");
        assert_eq!(
            graph.allows("n2", question).map_err(|it| it.to_string()),
            Err("no relationship found between node 'n2' and this object".to_owned()),
            "{question:?}"
        );
    }
    graph.set(OfNode::Attachment, &attachment(""));
    assert!(graph.allows("n1", &yes[11]).is_err());
    for (no, why) in [
        (ask("list", "secrets", "a", ""), "No Object name found"),
        (
            ask("list", "secrets", "", ""),
            "can only read namespaced object of this type",
        ),
        (
            ask("get", "secrets", "b", "key"),
            "no relationship found between node 'n1' and this object",
        ),
        (
            ask("get", "secrets", "csi", "attach"),
            "no relationship found between node 'n1' and this object",
        ),
        (
            ask("update", "secrets", "a", "key"),
            "can only read resources of this type",
        ),
        (
            ask("create", "serviceaccounts/token", "a", ""),
            "can only create tokens for individual service accounts",
        ),
        (
            ask("list", "persistentvolumes", "", ""),
            "can only get individual resources of this type",
        ),
        (
            ask("get", "nodes", "", "n2"),
            "node 'n1' cannot read 'n2', only its own Node object",
        ),
        (
            ask("list", "nodes", "", ""),
            "node 'n1' cannot read all nodes, only its own Node object",
        ),
        (ask("delete", "nodes", "", "n1"), ""),
        (
            ask("list", "pods", "", ""),
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (ask("update", "pods", "a", "web"), ""),
    ] {
        let said = graph.allows("n1", &no).expect_err("refused").to_string();
        assert_eq!(said, why, "{no:?}");
    }
}

#[test]
fn an_agent_lists_what_it_selects_by_its_own_name() {
    let graph = NodeGraph::default();
    for what in [
        "pods",
        "resource.k8s.io:resourceslices",
        "storage.orlop.dev:localclaims",
        "storage.orlop.dev:localvolumes",
    ] {
        for (selector, allowed) in [
            ("spec.nodeName=n1", true),
            ("spec.nodeName=n2", false),
            ("spec.nodeName!=n1", false),
        ] {
            let mut question = ask("list", what, "", "");
            question.selection = Selection::parse(selector, "");
            assert_eq!(
                graph.allows("n1", &question).is_ok(),
                allowed,
                "{what} {selector}"
            );
        }
    }
}

#[test]
fn an_agent_lists_the_snapshots_that_are_labelled_with_its_name() {
    let graph = NodeGraph::default();
    let label = "snapshot.storage.kubernetes.io/managed-by";
    for (selector, allowed) in [
        (format!("{label}=n1"), true),
        (format!("{label} in (n1)"), true),
        (format!("{label}=n1,other"), true),
        (format!("{label}=n2"), false),
        (format!("{label} in (n1,n2)"), false),
        (format!("{label}!=n1"), false),
        ("other=n1".to_owned(), false),
        (String::new(), false),
    ] {
        let mut question = ask(
            "list",
            "snapshot.storage.k8s.io:volumesnapshotcontents",
            "",
            "",
        );
        question.selection = Selection::parse("", &selector);
        assert_eq!(graph.allows("n1", &question).is_ok(), allowed, "{selector}");
    }
}

#[test]
fn two_pods_may_refer_to_one_thing_and_the_last_takes_it_along() {
    let graph = NodeGraph::default();
    let secret = ask("get", "secrets", "a", "key");
    graph.set_pod(&pod("one", "n1"));
    graph.set_pod(&pod("one", "n1"));
    graph.set_pod(&pod("two", "n1"));
    graph.remove_pod("a", "one");
    assert_eq!(graph.allows("n1", &secret), Ok(()));
    graph.remove_pod("a", "two");
    assert!(graph.allows("n1", &secret).is_err());
    assert_eq!(graph.read().targets(), 0);
    // Numbers that became free are used again.
    graph.set_pod(&pod("three", "n2"));
    assert!(graph.allows("n1", &secret).is_err());
    assert_eq!(graph.allows("n2", &secret), Ok(()));
}

/// A peer of the nodes with the label `rack: RACK`, or of all.
fn peer(name: &str, secret: Value, rack: Option<&str>) -> Value {
    let mut peer = value!({ "metadata": { "name": name }, "spec": { "passwordSecret": secret } });
    if let Some(rack) = rack {
        let selector = value!({ "matchLabels": { "rack": rack } });
        peer.set_path(&["spec", "nodeSelector"], selector);
    }
    peer
}

#[test]
fn an_agent_reads_the_passwords_of_the_peers_that_select_its_node() {
    let graph = NodeGraph::default();
    let one = peer("one", value!({ "name": "rack-1", "key": "k" }), Some("1"));
    let two = peer("two", value!({ "name": "rack-2" }), Some("2"));
    let all = peer("all", value!({ "key": "k" }), None);
    let mut broken = peer("broken", value!({ "name": "broken" }), None);
    let operator = value!({ "matchExpressions": [{ "key": "rack", "operator": "Near" }] });
    broken.set_path(&["spec", "nodeSelector"], operator);
    let without = peer("without", Value::Null, None);
    for peer in [&one, &two, &all, &broken, &without] {
        graph.set_peer(peer);
    }
    let allowed = |node: &str, verb: &str, namespace: &str, name: &str| {
        graph
            .allows(node, &ask(verb, "secrets", namespace, name))
            .is_ok()
    };
    assert!(
        !allowed("n1", "get", "kube-system", "orlop-bgp"),
        "no labels are known"
    );
    graph.look_labels_up_by(|selector, node| {
        let rack = node.strip_prefix('n').filter(|rack| !rack.is_empty());
        rack.is_some() && selector.matches_with(|key| rack.filter(|_| key == "rack"))
    });
    for verb in ["get", "list", "watch"] {
        for (node, name, expected) in [
            ("n1", "rack-1", true),
            ("n1", "rack-2", false),
            ("n2", "rack-1", false),
            ("n2", "rack-2", true),
            ("n1", "orlop-bgp", true),
            ("n3", "orlop-bgp", true),
            ("stranger", "orlop-bgp", false),
            ("n1", "broken", false),
            ("n1", "another", false),
            ("n1", "", false),
        ] {
            let found = allowed(node, verb, "kube-system", name);
            assert_eq!(found, expected, "{verb} {name} by {node}");
        }
    }
    assert!(!allowed("n1", "get", "default", "rack-1"), "elsewhere");
    assert!(!allowed("n1", "update", "kube-system", "rack-1"));
    let map = ask("get", "configmaps", "kube-system", "rack-1");
    assert!(graph.allows("n1", &map).is_err(), "another kind");
    graph.set_peer(&peer("one", value!({ "name": "rack-1" }), Some("2")));
    assert!(
        !allowed("n1", "get", "kube-system", "rack-1"),
        "the peer moved"
    );
    graph.remove_peer("all");
    assert!(
        !allowed("n1", "get", "kube-system", "orlop-bgp"),
        "the peer is gone"
    );
}

#[test]
fn an_agent_gets_no_token_of_an_account_that_no_pod_of_its_node_has() {
    let graph = NodeGraph::default();
    let token = ask(
        "create",
        "serviceaccounts/token",
        "kube-system",
        "orlop-network",
    );
    assert!(graph.allows("n1", &token).is_err());
}

#[test]
fn a_mirror_pod_opens_nothing() {
    let graph = NodeGraph::default();
    let mut mirror = pod("static", "n1");
    mirror.set_path(
        &["metadata", "annotations"],
        value!({ "kubernetes.io/config.mirror": "x" }),
    );
    graph.set_pod(&mirror);
    assert!(
        graph
            .allows("n1", &ask("get", "secrets", "a", "key"))
            .is_err()
    );
    assert_eq!(
        graph.allows("n1", &ask("get", "pods", "a", "static")),
        Ok(())
    );
}

#[test]
fn an_agent_keeps_its_own_lease_only_and_its_pods_status() {
    let graph = NodeGraph::default();
    let lease = "coordination.k8s.io:leases";
    for (verb, namespace, name, allowed) in [
        ("update", "kube-node-lease", "n1", true),
        ("create", "kube-node-lease", "", true),
        ("update", "kube-node-lease", "n2", false),
        ("update", "kube-system", "n1", false),
        ("list", "kube-node-lease", "", false),
    ] {
        let asked = graph.allows("n1", &ask(verb, lease, namespace, name));
        assert_eq!(asked.is_ok(), allowed, "{verb} {namespace}/{name}");
    }
    assert_eq!(
        graph.allows("n1", &ask("patch", "pods/status", "a", "web")),
        Ok(())
    );
    assert_eq!(graph.allows("n1", &ask("list", "services", "", "")), Ok(()));
}
