use serde_json::json;

use super::*;

const NOW: &str = "2026-05-01T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().expect("a time")
}

fn list(items: Value) -> Answer<Value> {
    Answer::Known(json!({ "items": items }))
}

fn lease(name: &str, renewed: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "holderIdentity": "server-1", "renewTime": renewed },
    })
}

fn node(name: &str, ready: &str, more: Value) -> Value {
    let mut conditions = vec![json!({
        "type": "Ready",
        "status": ready,
        "lastTransitionTime": "2026-05-01T11:48:00Z",
        "message": "",
    })];
    conditions.extend(more.as_array().cloned().unwrap_or_default());
    json!({ "metadata": { "name": name }, "status": { "conditions": conditions } })
}

fn healthy() -> ClusterFacts {
    ClusterFacts {
        kubeconfig: "/etc/admin".to_owned(),
        version: Answer::Known(json!({ "gitVersion": "v1.36.3" })),
        ready: Answer::Known("[+]ping ok\n[+]etcd ok\nreadyz check passed\n".to_owned()),
        nodes: list(json!([node("node-1", "True", json!([]))])),
        leases: list(json!([
            lease("kube-scheduler", "2026-05-01T11:59:58.000000Z"),
            lease("kube-controller-manager", "2026-05-01T11:59:59.000000Z"),
        ])),
        requests: list(json!([])),
        services: list(json!([])),
        policies: list(json!([])),
    }
}

fn part(facts: &ClusterFacts, name: &str) -> Part {
    let all = judge(facts, now());
    let found = all.into_iter().find(|it| it.name == name);
    found.expect("a part")
}

#[test]
fn a_healthy_cluster_has_no_problem() {
    let all = judge(&healthy(), now());
    assert!(all.iter().all(|it| it.state == State::Ok), "{all:?}");
    assert_eq!(all[0].summary, "v1.36.3 (kubeconfig /etc/admin)");
}

#[test]
fn a_dead_api_server_is_down_and_the_rest_is_unknown() {
    let failed = || Answer::Failed("connection refused".to_owned());
    let facts = ClusterFacts {
        kubeconfig: "/etc/admin".to_owned(),
        version: Answer::Failed("connection refused".to_owned()),
        ready: Answer::Failed("connection refused".to_owned()),
        nodes: failed(),
        leases: failed(),
        requests: failed(),
        services: failed(),
        policies: failed(),
    };
    let all = judge(&facts, now());
    assert_eq!(all[0].state, State::Down);
    assert!(all[0].problems[0].what.contains("refused"));
    assert!(
        all[1..].iter().all(|it| it.state == State::Unknown),
        "{all:?}"
    );
}

#[test]
fn a_failed_check_of_the_store_is_the_store_s() {
    let mut facts = healthy();
    facts.ready = Answer::Known("[+]ping ok\n[-]etcd failed: reason withheld\n".to_owned());
    assert_eq!(part(&facts, "API server").state, State::Ok);
    assert_eq!(part(&facts, "store").state, State::Down);
    facts.ready = Answer::Known("[-]tasks failed: reason withheld\n[+]etcd ok\n".to_owned());
    assert_eq!(part(&facts, "store").state, State::Ok);
    let server = part(&facts, "API server");
    assert_eq!(server.problems[0].what, "check `tasks` fails");
}

#[test]
fn nodes_that_are_not_ready_are_named_with_their_time() {
    let mut facts = healthy();
    facts.nodes = list(json!([
        node(
            "node-1",
            "True",
            json!([{ "type": "DiskPressure", "status": "True" }])
        ),
        node("node-2", "Unknown", json!([])),
    ]));
    let nodes = part(&facts, "nodes");
    assert_eq!(
        (nodes.state, nodes.summary.as_str()),
        (State::Degraded, "1 of 2 ready")
    );
    assert_eq!(nodes.problems[0].what, "node-1: DiskPressure");
    assert_eq!(nodes.problems[1].what, "node-2 is not ready");
    assert_eq!(nodes.problems[1].since, "2026-05-01T11:48:00Z".parse().ok());
    facts.nodes = list(json!([node("node-1", "False", json!([]))]));
    assert_eq!(part(&facts, "nodes").state, State::Down);
}

#[test]
fn a_lease_that_nobody_renews_has_no_leader() {
    let mut facts = healthy();
    facts.leases = list(json!([lease("kube-scheduler", "2026-05-01T11:00:00Z")]));
    let part = part(&facts, "controllers");
    assert_eq!(part.problems.len(), 2);
    assert_eq!(part.problems[0].since, "2026-05-01T11:00:00Z".parse().ok());
    assert!(
        part.problems[1]
            .what
            .contains("kube-controller-manager has no leader")
    );
}

#[test]
fn services_and_requests_that_wait_too_long_are_problems() {
    let mut facts = healthy();
    let service = |name: &str, made: &str, ingress: Value| {
        json!({
            "metadata": { "name": name, "namespace": "shop", "creationTimestamp": made },
            "spec": { "type": "LoadBalancer" },
            "status": { "loadBalancer": { "ingress": ingress } },
        })
    };
    facts.services = list(json!([
        service(
            "web",
            "2026-05-01T10:00:00Z",
            json!([{ "ip": "192.0.2.7" }])
        ),
        service("late", "2026-05-01T10:00:00Z", json!([])),
        service("new", "2026-05-01T11:59:50Z", json!([])),
    ]));
    let addresses = part(&facts, "load balancers");
    assert_eq!(addresses.summary, "1 of 3 have an address");
    assert_eq!(addresses.problems.len(), 1);
    assert!(addresses.problems[0].what.contains("shop/late"));
    facts.requests = list(json!([{
        "metadata": { "name": "csr-1", "creationTimestamp": "2026-05-01T10:00:00Z" },
        "spec": { "username": "system:node:node-2" },
    }]));
    let requests = part(&facts, "certificate requests");
    assert!(requests.problems[0].way_out.contains("approve csr-1"));
}

#[test]
fn what_a_user_may_not_read_is_unknown_and_no_problem() {
    let mut facts = healthy();
    facts.leases = Answer::Forbidden;
    facts.requests = Answer::Forbidden;
    let all = judge(&facts, now());
    assert!(all.iter().all(|it| it.problems.is_empty()), "{all:?}");
    assert_eq!(part(&facts, "controllers").state, State::Unknown);
}
