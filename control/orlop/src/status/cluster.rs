//! Gathers the state of a cluster from the API server.

use control_client::{Client, Error as ClientError, RequestBody};
use http::{Method, Request};
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{ANSWER_WITHIN, Answer, Part, Problem, State};

/// The limit on objects of each kind. Further ones are counted, but not examined.
const LIMIT: u32 = 1_000;
/// After this long without a renewal a lease counts as lost; stock leases last 15 s.
const LEASE_LOST: SignedDuration = SignedDuration::from_secs(30);
/// How long an address may take.
const ADDRESS_DUE: SignedDuration = SignedDuration::from_secs(60);
/// How long a certificate request may take.
const REQUEST_DUE: SignedDuration = SignedDuration::from_secs(60);

/// The answers.
#[derive(Clone, Debug, Default)]
pub struct ClusterFacts {
    /// The kubeconfig in use.
    pub kubeconfig: String,
    /// `/version`.
    pub version: Answer<Value>,
    /// `/readyz?verbose`, whatever its code.
    pub ready: Answer<String>,
    /// Nodes.
    pub nodes: Answer<Value>,
    /// Leases of the control plane.
    pub leases: Answer<Value>,
    /// Certificate requests.
    pub requests: Answer<Value>,
    /// Services.
    pub services: Answer<Value>,
    /// Network policies.
    pub policies: Answer<Value>,
}

/// Sends all queries to the API server concurrently.
pub async fn gather(client: &Client, kubeconfig: String) -> ClusterFacts {
    let get = |path: &'static str| get(client, path);
    let (version, ready, nodes, leases, requests, services, policies) = tokio::join!(
        get("/version"),
        ready(client),
        get("/api/v1/nodes"),
        get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"),
        get("/apis/certificates.k8s.io/v1/certificatesigningrequests"),
        get("/api/v1/services"),
        get("/apis/networking.k8s.io/v1/networkpolicies"),
    );
    ClusterFacts {
        kubeconfig,
        version,
        ready,
        nodes,
        leases,
        requests,
        services,
        policies,
    }
}

/// Reads a list or another answer in JSON.
pub async fn get(client: &Client, path: &str) -> Answer<Value> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{separator}limit={LIMIT}");
    // Several run concurrently: their combined state would be a large future.
    let asked = Box::pin(client.request::<Value>(Method::GET, &path, None::<&()>));
    match tokio::time::timeout(ANSWER_WITHIN, asked).await {
        Ok(Ok(answer)) => Answer::Known(answer),
        Ok(Err(ClientError::Forbidden(_))) => Answer::Forbidden,
        Ok(Err(error)) => Answer::Failed(error.chain()),
        Err(_) => Answer::Failed(no_answer()),
    }
}

/// Reads an answer as text, whatever its code.
pub async fn text(client: &Client, path: &str) -> Answer<String> {
    let request = match Request::get(path).body(RequestBody::empty()) {
        Ok(request) => request,
        Err(error) => return Answer::Failed(error.to_string()),
    };
    let asked = Box::pin(async {
        let sent = client.kube().send(request).await;
        let response = sent.map_err(|error| ClientError::from_transport(error).chain())?;
        let status = response.status();
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| ClientError::Body(error).chain())?;
        Ok::<_, String>((
            status,
            String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        ))
    });
    match tokio::time::timeout(ANSWER_WITHIN, asked).await {
        Ok(Ok((http::StatusCode::FORBIDDEN | http::StatusCode::UNAUTHORIZED, _))) => {
            Answer::Forbidden
        }
        Ok(Ok((_, text))) => Answer::Known(text),
        Ok(Err(error)) => Answer::Failed(error),
        Err(_) => Answer::Failed(no_answer()),
    }
}

async fn ready(client: &Client) -> Answer<String> {
    text(client, "/readyz?verbose").await
}

fn no_answer() -> String {
    format!("no answer within {} s", ANSWER_WITHIN.as_secs())
}

/// Judges the answers.
#[must_use]
pub fn judge(facts: &ClusterFacts, now: Timestamp) -> Vec<Part> {
    vec![
        servers(facts),
        store(facts),
        control_plane(facts, now),
        nodes(facts),
        certificates(facts, now),
        policy(facts),
        addresses(facts, now),
    ]
}

fn servers(facts: &ClusterFacts) -> Part {
    const NAME: &str = "API server";
    let kubeconfig = &facts.kubeconfig;
    if let Answer::Failed(error) = &facts.ready {
        let way_out = "check that the server runs (systemctl status orlop, or `orlop status` on its \
                       machine) and that this machine reaches it";
        return Part::down(
            NAME,
            format!("does not answer (kubeconfig {kubeconfig})"),
            Problem::new(error.clone(), None, way_out),
        );
    }
    let version = facts
        .version
        .known()
        .and_then(|it| it["gitVersion"].as_str());
    let version = version.unwrap_or("unknown version");
    let summary = format!("{version} (kubeconfig {kubeconfig})");
    let failing = failing(facts.ready.known().map_or("", String::as_str));
    let problems = failing
        .into_iter()
        .filter(|name| *name != STORE)
        .map(|name| {
            Problem::new(
                format!("check `{name}` fails"),
                None,
                "read the server's log (journalctl -u orlop)",
            )
        })
        .collect();
    Part::new(NAME, summary, problems)
}

/// The check of the store, under the name that kube-apiserver gives it.
const STORE: &str = "etcd";

fn store(facts: &ClusterFacts) -> Part {
    const NAME: &str = "store";
    match facts.ready.known() {
        None => Part::unknown(NAME, facts.ready.why_unknown()),
        Some(text) if failing(text).contains(&STORE) => Part::down(
            NAME,
            "the API server cannot use it",
            Problem::new(
                format!("check `{STORE}` fails"),
                None,
                "look for room on the store's disk, or at the etcd members (--etcd-servers)",
            ),
        ),
        Some(_) => Part::new(NAME, "the API server reads and writes", Vec::new()),
    }
}

/// Checks that fail in a verbose answer.
fn failing(text: &str) -> Vec<&str> {
    let failed = text.lines().filter_map(|line| line.strip_prefix("[-]"));
    failed
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

fn control_plane(facts: &ClusterFacts, now: Timestamp) -> Part {
    const NAME: &str = "controllers";
    let Some(leases) = facts.leases.known() else {
        return Part::unknown(NAME, facts.leases.why_unknown());
    };
    let mut problems = Vec::new();
    let mut leaders = Vec::new();
    for name in ["kube-scheduler", "kube-controller-manager"] {
        let lease = items(leases).find(|it| it["metadata"]["name"] == name);
        let renewed = lease.and_then(|it| time(&it["spec"]["renewTime"]));
        let holder = lease.and_then(|it| it["spec"]["holderIdentity"].as_str());
        let way_out = "start `orlop server`, or the component alone; read its log";
        match (renewed, holder) {
            (Some(renewed), Some(holder)) if !holder.is_empty() => {
                if now.duration_since(renewed) > LEASE_LOST {
                    let what = format!("{name} has not renewed its lease (last: {holder})");
                    problems.push(Problem::new(what, Some(renewed), way_out));
                } else {
                    leaders.push(format!("{name} on {holder}"));
                }
            }
            _ => problems.push(Problem::new(format!("{name} has no leader"), None, way_out)),
        }
    }
    Part::new(NAME, leaders.join(", "), problems)
}

fn nodes(facts: &ClusterFacts) -> Part {
    const NAME: &str = "nodes";
    let Some(nodes) = facts.nodes.known() else {
        return Part::unknown(NAME, facts.nodes.why_unknown());
    };
    let mut problems = Vec::new();
    let (mut count, mut ready, mut cordoned) = (0, 0, 0);
    for node in items(nodes) {
        count += 1;
        let name = name(node);
        cordoned += usize::from(node["spec"]["unschedulable"] == true);
        match condition(node, "Ready") {
            Some(it) if it["status"] == "True" => ready += 1,
            found => problems.push(Problem::new(
                format!("{name} is not ready{}", message(found)),
                found.and_then(|it| time(&it["lastTransitionTime"])),
                format!("run `orlop status` on {name}, or kubectl describe node {name}"),
            )),
        }
        for kind in [
            "MemoryPressure",
            "DiskPressure",
            "PIDPressure",
            "NetworkUnavailable",
        ] {
            if let Some(it) = condition(node, kind).filter(|it| it["status"] == "True") {
                problems.push(Problem::new(
                    format!("{name}: {kind}{}", message(Some(it))),
                    time(&it["lastTransitionTime"]),
                    format!("free what is short on {name}, or move pods away"),
                ));
            }
        }
        for kind in [
            "DatapathConnectionsFull",
            "DatapathSocketsFull",
            "DatapathClientsFull",
        ] {
            if let Some(it) = condition(node, kind).filter(|it| it["status"] == "True") {
                problems.push(Problem::new(
                    format!("{name}: {kind}{}", message(Some(it))),
                    time(&it["lastTransitionTime"]),
                    "see docs/reference/services.md, connection tables",
                ));
            }
        }
    }
    let mut summary = format!("{ready} of {count} ready");
    if cordoned > 0 {
        summary.push_str(&format!(", {cordoned} unschedulable"));
    }
    let mut part = Part::new(NAME, summary, problems);
    if count > 0 && ready == 0 {
        part.state = State::Down;
    }
    part
}

fn certificates(facts: &ClusterFacts, now: Timestamp) -> Part {
    const NAME: &str = "certificate requests";
    let Some(requests) = facts.requests.known() else {
        return Part::unknown(NAME, facts.requests.why_unknown());
    };
    let mut problems = Vec::new();
    let mut pending = 0;
    for request in items(requests) {
        let decided = request["status"]["conditions"]
            .as_array()
            .is_some_and(|it| !it.is_empty());
        if decided {
            continue;
        }
        pending += 1;
        let made = time(&request["metadata"]["creationTimestamp"]);
        if made.is_some_and(|made| now.duration_since(made) > REQUEST_DUE) {
            let user = request["spec"]["username"].as_str().unwrap_or_default();
            let name = name(request);
            problems.push(Problem::new(
                format!("nobody approved {name} of {user}"),
                made,
                format!("check its names, then kubectl certificate approve {name}"),
            ));
        }
    }
    Part::new(NAME, format!("{pending} pending"), problems)
}

fn policy(facts: &ClusterFacts) -> Part {
    const NAME: &str = "network policy";
    let Some(policies) = facts.policies.known() else {
        return Part::unknown(NAME, facts.policies.why_unknown());
    };
    let nodes = facts.nodes.known();
    let full = nodes.into_iter().flat_map(items).filter_map(|node| {
        let it = condition(node, "NetworkPolicyFull")?;
        (it["status"] == "True").then(|| {
            Problem::new(
                format!("{}: a policy map is full{}", name(node), message(Some(it))),
                time(&it["lastTransitionTime"]),
                "reduce policies, or add memory: pods whose rules do not fit stay closed",
            )
        })
    });
    Part::new(
        NAME,
        format!("{} NetworkPolicies", total(policies)),
        full.collect(),
    )
}

fn addresses(facts: &ClusterFacts, now: Timestamp) -> Part {
    const NAME: &str = "load balancers";
    let Some(services) = facts.services.known() else {
        return Part::unknown(NAME, facts.services.why_unknown());
    };
    let mut problems = Vec::new();
    let (mut count, mut given) = (0, 0);
    for service in items(services).filter(|it| it["spec"]["type"] == "LoadBalancer") {
        count += 1;
        let ingress = service["status"]["loadBalancer"]["ingress"].as_array();
        if ingress.is_some_and(|it| !it.is_empty()) {
            given += 1;
            continue;
        }
        let made = time(&service["metadata"]["creationTimestamp"]);
        if made.is_none_or(|made| now.duration_since(made) > ADDRESS_DUE) {
            let namespace = service["metadata"]["namespace"]
                .as_str()
                .unwrap_or_default();
            let name = name(service);
            problems.push(Problem::new(
                format!("Service {namespace}/{name} has no address"),
                made,
                format!(
                    "define an IPPool with a free address, and read the events: kubectl describe \
                     service -n {namespace} {name}"
                ),
            ));
        }
    }
    Part::new(
        NAME,
        format!("{given} of {count} have an address"),
        problems,
    )
}

/// The objects of a list.
fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

/// How many objects there are, those beyond the limit too.
fn total(list: &Value) -> u64 {
    let more = list["metadata"]["remainingItemCount"].as_u64();
    items(list).count() as u64 + more.unwrap_or_default()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = object["status"]["conditions"].as_array()?;
    all.iter().find(|it| it["type"] == kind)
}

fn message(condition: Option<&Value>) -> String {
    let text = condition.and_then(|it| it["message"].as_str());
    text.filter(|it| !it.is_empty())
        .map_or_else(String::new, |it| format!(": {it}"))
}

fn time(value: &Value) -> Option<Timestamp> {
    control_types::time::parse(value.as_str()?)
}

#[cfg(test)]
mod tests;
