//! Pod: containers that share a network and volumes on one node.

use control_types::value::Value;

use crate::generic::{self, DEFAULT};
use crate::rules::{app_armor, defaults, pod_status, qos, validate_pod as rules, validate_resize};
use crate::table::{Timestamp, age, columns, name, or_none, since};
use crate::tree::{Read, Write};
use crate::{Field, Kind, Subresource};

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "Pod",
    namespaced: Some(true),
    template: Some(&[]),
    default,
    prepare_create,
    prepare_status_update,
    validate_create: rules::create,
    validate_update: rules::update,
    validate_status_update: pod_status::update,
    subresources: &[
        Subresource {
            name: "ephemeralcontainers",
            prepare: prepare_ephemeral_containers,
            validate: rules::ephemeral_containers_update,
        },
        Subresource {
            name: "resize",
            prepare: prepare_resize,
            validate: validate_resize::resize,
        },
    ],
    warnings: rules::warnings,
    selectable: &[
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ],
    selectable_fields,
    columns: columns::POD,
    row,
    row_conditions,
    allow_unconditional_update: true,
    graceful: Some(grace_period),
    ..DEFAULT
};

/// `podIP` is the first of `podIPs`; where they differ, the single one counts.
fn addresses(status: &mut Value) {
    let single = status.text("podIP").to_owned();
    let first = status.items("podIPs").first().map(|ip| ip.text("ip"));
    if single.is_empty() {
        if let Some(first) = first.map(ToOwned::to_owned) {
            status.put("podIP", first);
        }
    } else if first != Some(&single) {
        let mut address = Value::object();
        address.put("ip", single);
        status.put("podIPs", Value::Array(vec![address]));
    }
}

fn default(object: &mut Value) {
    if let Some(status) = object.there("status") {
        addresses(status);
    }
    let spec = object.make("spec");
    defaults::pod_spec(spec);
    for list in ["containers", "initContainers"] {
        for container in spec.items_mut(list) {
            requests_from_limits(container);
        }
    }
    pod_level_requests(spec);
    // a pod, unlike a template, never keeps a negative time
    if spec.num("terminationGracePeriodSeconds") < 0 {
        spec.put("terminationGracePeriodSeconds", 1_i64);
    }
    spec.absent("enableServiceLinks", true);
    if spec.flag("hostNetwork") {
        for list in ["containers", "initContainers"] {
            for container in spec.items_mut(list) {
                for port in container.items_mut("ports") {
                    let number = port.num("containerPort");
                    port.zero("hostPort", number);
                }
            }
        }
    }
}

/// Sets missing requests to the limits.
fn requests_from_limits(container: &mut Value) {
    let Some(resources) = container.there("resources") else {
        return;
    };
    let limits = resources.at("limits").clone();
    let Value::Object(limits) = limits else {
        return;
    };
    let requests = resources.make("requests");
    for (name, quantity) in limits.iter() {
        requests.absent(name, quantity.clone());
    }
}

/// Sets missing pod-level requests to the sum of its containers' requests, or else to its
/// limits.
fn pod_level_requests(spec: &mut Value) {
    let limits = spec.at("resources").at("limits").clone();
    let Value::Object(limits) = limits else {
        return;
    };
    if limits.is_empty() {
        return;
    }
    let sums = qos::container_requests(spec);
    let requests = spec.make("resources").make("requests");
    let supported = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    for (name, quantity) in sums
        .iter()
        .filter(|(name, _)| matches!(&***name, "cpu" | "memory"))
    {
        requests.absent(name, quantity.clone());
    }
    for (name, quantity) in limits.iter().filter(|(name, _)| supported(name)) {
        requests.absent(name, quantity.clone());
    }
}

fn prepare_create(object: &mut Value) {
    generic::first_generation_no_status(object);
    app_armor::from_annotations(object);
    let class = qos::class(object.at("spec"));
    let labels = object.at("metadata").at("labels").clone();
    let stamp = object.at("metadata").text("creationTimestamp").to_owned();
    let gated = !object.at("spec").items("schedulingGates").is_empty();
    let status = object.make("status");
    status.put("phase", "Pending");
    if gated {
        let mut condition = Value::object();
        condition.put("type", "PodScheduled");
        condition.put("status", "False");
        condition.put("lastProbeTime", Value::Null);
        condition.put("lastTransitionTime", stamp);
        condition.put("reason", "SchedulingGated");
        condition.put(
            "message",
            "Scheduling is blocked due to non-empty scheduling gates",
        );
        status.put("conditions", Value::Array(vec![condition]));
    }
    status.put("qosClass", class);
    let spec = object.make("spec");
    if let Some(affinity) = spec.there("affinity") {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let Some(terms) = affinity.there(kind) else {
                continue;
            };
            for preferred in terms.items_mut("preferredDuringSchedulingIgnoredDuringExecution") {
                if let Some(term) = preferred.there("podAffinityTerm") {
                    merge_label_keys(term, &labels);
                }
            }
            for term in terms.items_mut("requiredDuringSchedulingIgnoredDuringExecution") {
                merge_label_keys(term, &labels);
            }
        }
    }
    for constraint in spec.items_mut("topologySpreadConstraints") {
        merge_label_keys(constraint, &labels);
    }
}

/// `matchLabelKeys` and `mismatchLabelKeys` become requirements on the pod's own values.
fn merge_label_keys(term: &mut Value, labels: &Value) {
    if !term.has("labelSelector") {
        return;
    }
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term
            .items(field)
            .iter()
            .map(Read::as_text)
            .filter(|key| labels.has(key))
        {
            let mut requirement = Value::object();
            requirement.put("key", key);
            requirement.put("operator", operator);
            requirement.put("values", Value::Array(vec![labels.text(key).into()]));
            added.push(requirement);
        }
    }
    if added.is_empty() {
        return;
    }
    let selector = term.make("labelSelector");
    let mut all = selector.items("matchExpressions").to_vec();
    all.append(&mut added);
    selector.put("matchExpressions", Value::Array(all));
}

fn prepare_status_update(new: &mut Value, old: &Value) {
    new.take_from(old, "spec");
    let meta = new.make("metadata");
    meta.drop_field("deletionTimestamp");
    meta.take_from(old.at("metadata"), "ownerReferences");
    let before = old.at("status");
    let status = new.make("status");
    status.blank("qosClass", before.text("qosClass"));
    if status.num("observedGeneration") == 0 && before.num("observedGeneration") != 0 {
        status.put("observedGeneration", before.num("observedGeneration"));
    }
    // a client that does not know observedGeneration must not erase it
    let generations: Vec<(String, i64)> = before
        .items("conditions")
        .iter()
        .map(|c| (c.text("type").to_owned(), c.num("observedGeneration")))
        .collect();
    for condition in status.items_mut("conditions") {
        if condition.num("observedGeneration") == 0
            && let Some((_, known)) = generations
                .iter()
                .find(|(kind, g)| kind == condition.text("type") && *g != 0)
        {
            condition.put("observedGeneration", *known);
        }
    }
}

fn keep_all_but_spec_of(new: &mut Value, old: &Value, field: &str) {
    let wanted = new.at("spec").get(field).cloned();
    new.take_from(old, "spec");
    if let Some(wanted) = wanted {
        new.make("spec").put(field, wanted);
    } else {
        new.make("spec").drop_field(field);
    }
    keep_meta_and_status(new, old);
}

fn keep_meta_and_status(new: &mut Value, old: &Value) {
    new.take_from(old, "status");
    let meta = new.make("metadata");
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
    ] {
        meta.take_from(old.at("metadata"), field);
    }
}

fn prepare_ephemeral_containers(new: &mut Value, old: &Value) {
    keep_all_but_spec_of(new, old, "ephemeralContainers");
    generic::raise_generation_on(new, old, &["spec"]);
}

fn prepare_resize(new: &mut Value, old: &Value) {
    let names = |o: &Value, list: &str| -> Vec<String> {
        o.at("spec")
            .items(list)
            .iter()
            .map(|c| c.text("name").to_owned())
            .collect()
    };
    let lists = ["containers", "initContainers"];
    // another set of containers is left for validation to refuse
    if lists
        .iter()
        .all(|list| names(new, list) == names(old, list))
    {
        let asked = new.at("spec").clone();
        new.take_from(old, "spec");
        let spec = new.make("spec");
        for list in lists {
            for (container, from) in spec.items_mut(list).iter_mut().zip(asked.items(list)) {
                container.take_from(from, "resources");
                container.take_from(from, "resizePolicy");
            }
        }
        spec.take_from(&asked, "resources");
        keep_meta_and_status(new, old);
    }
    generic::raise_generation_on(new, old, &["spec"]);
}

/// Returns the grace period of a pod, given the one in the deletion request.
fn grace_period(pod: &Value, asked: Option<i64>) -> i64 {
    let spec = pod.at("spec");
    let ended = matches!(pod.at("status").text("phase"), "Succeeded" | "Failed");
    if spec.text("nodeName").is_empty() || ended {
        return 0;
    }
    match asked.unwrap_or_else(|| spec.num("terminationGracePeriodSeconds")) {
        negative if negative < 0 => 1,
        seconds => seconds,
    }
}

fn selectable_fields(object: &Value) -> Vec<Field> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let own = |text: &str| text.to_owned();
    let ips = status.items("podIPs");
    let ip = ips
        .first()
        .map_or_else(|| status.text("podIP"), |ip| ip.text("ip"));
    let mut all = vec![
        ("spec.nodeName", own(spec.text("nodeName"))),
        ("spec.restartPolicy", own(spec.text("restartPolicy"))),
        ("spec.schedulerName", own(spec.text("schedulerName"))),
        (
            "spec.serviceAccountName",
            own(spec.text("serviceAccountName")),
        ),
        ("spec.hostNetwork", spec.flag("hostNetwork").to_string()),
        ("status.phase", own(status.text("phase"))),
        ("status.podIP", own(ip)),
        (
            "status.nominatedNodeName",
            own(status.text("nominatedNodeName")),
        ),
    ];
    all.push((
        "status.podIPs",
        ips.iter()
            .map(|ip| ip.text("ip"))
            .collect::<Vec<_>>()
            .join(","),
    ));
    all
}

fn row_conditions(object: &Value) -> Vec<Value> {
    let (reason, message) = match object.at("status").text("phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return Vec::new(),
    };
    let mut condition = Value::object();
    condition.put("type", "Completed");
    condition.put("status", "True");
    condition.put("reason", reason);
    condition.put("message", message);
    vec![condition]
}

fn is_sidecar(container: Option<&Value>) -> bool {
    container.is_some_and(|c| c.text("restartPolicy") == "Always")
}

fn has_true_condition(status: &Value, kind: &str) -> bool {
    status
        .items("conditions")
        .iter()
        .any(|c| c.text("type") == kind && c.text("status") == "True")
}

/// How a terminated container is called: its reason, else signal or exit code.
fn ended(terminated: &Value) -> String {
    let (reason, signal) = (terminated.text("reason"), terminated.num("signal"));
    if !reason.is_empty() {
        reason.to_owned()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", terminated.num("exitCode"))
    }
}

/// Restarts and the latest end of a restarted container.
#[derive(Clone, Default)]
struct Restarts {
    count: i64,
    last: String,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += status.num("restartCount");
        // RFC 3339 stamps in UTC sort as text
        let finished = status.at("lastState").at("terminated").text("finishedAt");
        if finished > self.last.as_str() {
            finished.clone_into(&mut self.last);
        }
    }
}

/// The values of the columns READY, STATUS and RESTARTS.
struct Summary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: Restarts,
}

fn summary(pod: &Value) -> Summary {
    let (spec, status) = (pod.at("spec"), pod.at("status"));
    let inits = spec.items("initContainers");
    let init = |name: &str| inits.iter().find(|c| c.text("name") == name);
    let mut total = spec.items("containers").len();
    total += inits.iter().filter(|c| is_sidecar(Some(c))).count();
    let mut ready = 0;
    let mut reason = status.text("phase").to_owned();
    if !status.text("reason").is_empty() {
        status.text("reason").clone_into(&mut reason);
    }
    let gated =
        |c: &&Value| c.text("type") == "PodScheduled" && c.text("reason") == "SchedulingGated";
    if status.items("conditions").iter().any(|c| gated(&c)) {
        reason = "SchedulingGated".into();
    }

    let mut restarts = Restarts::default();
    let mut sidecar_restarts = Restarts::default();
    let mut initializing = false;
    for (i, container) in status.items("initContainerStatuses").iter().enumerate() {
        restarts.add(container);
        let sidecar = is_sidecar(init(container.text("name")));
        if sidecar {
            sidecar_restarts.add(container);
        }
        let state = container.at("state");
        let terminated = state.has("terminated").then(|| state.at("terminated"));
        if terminated.is_some_and(|t| t.num("exitCode") == 0) {
            continue;
        }
        if sidecar && container.flag("started") {
            ready += usize::from(container.flag("ready"));
            continue;
        }
        let waiting = state.at("waiting").text("reason");
        reason = match terminated {
            Some(terminated) => format!("Init:{}", ended(terminated)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => {
                format!("Init:{waiting}")
            }
            None => format!("Init:{i}/{}", inits.len()),
        };
        initializing = true;
        break;
    }

    if !initializing || has_true_condition(status, "Initialized") {
        restarts = sidecar_restarts;
        let mut running = false;
        let mut failure = String::new();
        for container in status.items("containerStatuses").iter().rev() {
            restarts.add(container);
            let state = container.at("state");
            let waiting = state.at("waiting").text("reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut reason);
            } else if state.has("terminated") {
                reason = ended(state.at("terminated"));
                if state.at("terminated").num("exitCode") != 0 {
                    failure.clone_from(&reason);
                }
            } else if container.flag("ready") && state.has("running") {
                running = true;
                ready += 1;
            }
        }
        if reason == "Completed" {
            if running && has_true_condition(status, "Ready") {
                reason = "Running".into();
            } else if !failure.is_empty() {
                reason = failure;
            } else if running {
                reason = "NotReady".into();
            }
        }
    }

    if pod.at("metadata").has("deletionTimestamp") {
        if status.text("reason") == "NodeLost" {
            reason = "Unknown".into();
        } else if !matches!(status.text("phase"), "Succeeded" | "Failed") {
            reason = "Terminating".into();
        }
    }
    Summary {
        ready,
        total,
        reason,
        restarts,
    }
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let Summary {
        ready,
        total,
        reason,
        restarts,
    } = summary(object);
    let restarts = if restarts.count != 0 && !restarts.last.is_empty() {
        format!("{} ({} ago)", restarts.count, since(&restarts.last, now))
    } else {
        restarts.count.to_string()
    };
    let ip = status
        .items("podIPs")
        .first()
        .map_or_else(|| status.text("podIP"), |ip| ip.text("ip"));
    let gates = spec.items("readinessGates");
    let gates = if gates.is_empty() {
        "<none>".to_owned()
    } else {
        let open = gates
            .iter()
            .filter(|g| has_true_condition(status, g.text("conditionType")))
            .count();
        format!("{open}/{}", gates.len())
    };
    vec![
        name(object),
        format!("{ready}/{total}").into(),
        reason.into(),
        restarts.into(),
        age(object, now),
        or_none(ip),
        or_none(spec.text("nodeName")),
        or_none(status.text("nominatedNodeName")),
        gates.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(text: &str) -> Value {
        Value::from_slice(text.as_bytes()).expect("test object")
    }

    fn shown(text: &str) -> (String, String, String) {
        let now = "2026-01-01T00:01:00Z".parse().expect("time");
        let cells = row(&pod(text), now);
        let text = |i: usize| cells[i].as_text().to_owned();
        (text(1), text(2), text(3))
    }

    #[test]
    fn a_crashing_container_shows_its_reason_and_the_age_of_the_last_restart() {
        let (ready, status, restarts) = shown(
            r#"{"spec":{"containers":[{"name":"c"}]},"status":{"phase":"Running","containerStatuses":[
            {"name":"c","restartCount":1,"state":{"waiting":{"reason":"CrashLoopBackOff"}},
             "lastState":{"terminated":{"finishedAt":"2026-01-01T00:00:55Z","exitCode":1}}}]}}"#,
        );
        assert_eq!(
            (ready.as_str(), status.as_str(), restarts.as_str()),
            ("0/1", "CrashLoopBackOff", "1 (5s ago)")
        );
    }

    #[test]
    fn init_containers_are_counted_until_they_end() {
        let (_, status, _) = shown(
            r#"{"spec":{"initContainers":[{"name":"i"},{"name":"j"}],"containers":[{"name":"c"}]},
            "status":{"phase":"Pending","initContainerStatuses":[
            {"name":"i","state":{"terminated":{"exitCode":0}}},{"name":"j","state":{"running":{}}}]}}"#,
        );
        assert_eq!(status, "Init:1/2");
    }

    #[test]
    fn a_deleted_pod_is_terminating_unless_it_has_ended() {
        let text = |phase: &str| {
            shown(&format!(
                r#"{{"metadata":{{"deletionTimestamp":"2026-01-01T00:00:00Z"}},"status":{{"phase":"{phase}"}}}}"#
            ))
            .1
        };
        assert_eq!(text("Running"), "Terminating");
        assert_eq!(text("Succeeded"), "Succeeded");
    }

    #[test]
    fn a_pod_without_a_node_is_deleted_at_once() {
        let waiting = pod(r#"{"spec":{"terminationGracePeriodSeconds":30}}"#);
        assert_eq!(grace_period(&waiting, Some(5)), 0);
        let placed = pod(r#"{"spec":{"nodeName":"n","terminationGracePeriodSeconds":30}}"#);
        assert_eq!(grace_period(&placed, None), 30);
        assert_eq!(grace_period(&placed, Some(-1)), 1);
    }

    #[test]
    fn a_new_pod_is_pending_and_has_a_class() {
        let mut object = pod(
            r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"a",
            "resources":{"limits":{"cpu":"1","memory":"1Gi"}}}]},"status":{"phase":"Running"}}"#,
        );
        default(&mut object);
        prepare_create(&mut object);
        let status = object.at("status");
        assert_eq!(
            (status.text("phase"), status.text("qosClass")),
            ("Pending", "Guaranteed")
        );
        assert_eq!(object.at("spec").text("dnsPolicy"), "ClusterFirst");
    }
}
