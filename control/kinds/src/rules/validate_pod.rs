//! Validation of pods and of their updates.

use control_types::internal;
use control_types::value::Value;

use super::container::{self, PodContext};
use super::{
    collect, difference, env_files, ip, labels, meta, names, placement, pod_warnings, profiles,
    quantity, resources, security, tolerations, volumes, windows,
};
use crate::FieldError;
use crate::error::{Errors, Path};
use crate::tree::{Read, Write, same};

const SPEC: Path<'static> = Path::new("spec");
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A pod spec. `pod`: the pod itself rather than a template.
pub(crate) fn spec(spec: &Value, name: &str, pod: bool, at: &Path<'_>, errors: &mut Errors) {
    let grace = spec.int("terminationGracePeriodSeconds");
    if grace.is_none() {
        errors.required(&at.child("terminationGracePeriodSeconds"), "");
    }
    let owner = volumes::VolumesOwner { name, pod };
    let mountable = volumes::volumes(spec.items("volumes"), owner, &at.child("volumes"), errors);
    let claims = resource_claims(
        spec.items("resourceClaims"),
        &at.child("resourceClaims"),
        errors,
    );
    let around = PodContext {
        volumes: &mountable,
        claims: &claims,
        grace,
        restart_policy: spec.text("restartPolicy"),
        host_users: spec.truth("hostUsers") != Some(false),
    };
    let (inits, regular) = (spec.items("initContainers"), spec.items("containers"));
    container::containers(regular, &around, &at.child("containers"), errors);
    container::init_containers(inits, regular, &around, &at.child("initContainers"), errors);
    let others: Vec<&Value> = regular.iter().chain(inits).collect();
    container::ephemeral_containers(
        spec.items("ephemeralContainers"),
        &others,
        &around,
        &at.child("ephemeralContainers"),
        errors,
    );
    if spec.has("resources") {
        let at = at.child("resources");
        resources::requirements(
            spec.at("resources"),
            &claims,
            resources::ResourcesOwner::Pod,
            &at,
            errors,
        );
        pod_level_resources(spec, &at, errors);
    }
    host_network(spec, pod, &at.child("containers"), errors);
    container::required_one_of(
        spec.text("restartPolicy"),
        &["Always", "OnFailure", "Never"],
        &at.child("restartPolicy"),
        errors,
    );
    container::required_one_of(
        spec.text("dnsPolicy"),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        &at.child("dnsPolicy"),
        errors,
    );
    labels::labels(spec.at("nodeSelector"), &at.child("nodeSelector"), errors);
    security::pod(
        spec.at("securityContext"),
        spec,
        &at.child("securityContext"),
        errors,
    );
    placement::affinity(spec.at("affinity"), &at.child("affinity"), errors);
    dns_config(spec, &at.child("dnsConfig"), errors);
    let gates = at.child("readinessGates");
    for (i, gate) in spec.items("readinessGates").iter().enumerate() {
        let kind = gate.text("conditionType");
        errors.invalid_each(
            &gates.index(i).child("conditionType"),
            kind,
            names::qualified(kind),
        );
    }
    scheduling_gates(
        spec.items("schedulingGates"),
        &at.child("schedulingGates"),
        errors,
    );
    placement::spread(
        spec.items("topologySpreadConstraints"),
        &at.child("topologySpreadConstraints"),
        errors,
    );
    windows::host_process(spec, at, errors);
    host_users(spec, at, errors);
    host_name(spec, at, errors);
    for (field, rule) in [
        (
            "serviceAccountName",
            names::dns_subdomain as fn(&str) -> names::Messages,
        ),
        ("nodeName", names::dns_subdomain),
        ("hostname", names::dns_label),
        ("subdomain", names::dns_label),
        ("priorityClassName", names::dns_subdomain),
    ] {
        let text = spec.text(field);
        if !text.is_empty() {
            errors.invalid_each(&at.child(field), text, rule(text));
        }
        if field == "nodeName" {
            active_deadline(spec, 1, at, errors);
        }
    }
    tolerations::tolerations(spec.items("tolerations"), &at.child("tolerations"), errors);
    let aliases = at.child("hostAliases");
    for (i, alias) in spec.items("hostAliases").iter().enumerate() {
        let at = aliases.index(i);
        ip::legacy(alias.text("ip"), &[], &at.child("ip"), errors);
        let list = at.child("hostnames");
        for (i, name) in alias
            .items("hostnames")
            .iter()
            .map(Read::as_text)
            .enumerate()
        {
            errors.invalid_each(&list.index(i), name, names::dns_subdomain(name));
        }
    }
    if spec.has("runtimeClassName") {
        let class = spec.text("runtimeClassName");
        errors.invalid_each(
            &at.child("runtimeClassName"),
            class,
            names::dns_subdomain(class),
        );
    }
    if spec.has("preemptionPolicy") {
        container::required_one_of(
            spec.text("preemptionPolicy"),
            &["PreemptLowerPriority", "Never"],
            &at.child("preemptionPolicy"),
            errors,
        );
    }
    if spec.has("overhead") {
        let overhead = at.child("overhead");
        let list = overhead.child("limits");
        for (name, amount) in spec.entries("overhead") {
            resources::container_name(name, &list.key(name), errors);
            resources::amount(name, amount, &list.key(name), errors);
        }
    }
    if spec.has("os") {
        let (name, os) = (spec.at("os").text("name"), at.child("os"));
        if name.is_empty() {
            errors.required(&os.child("name"), "");
        } else {
            super::one_of(name, &["linux", "windows"], &os, errors);
        }
        windows::system(spec, at, errors);
    }
    env_files::volumes(spec, at, errors);
}

fn active_deadline(spec: &Value, least: i64, at: &Path<'_>, errors: &mut Errors) {
    let most = i64::from(i32::MAX);
    if let Some(seconds) = spec
        .int("activeDeadlineSeconds")
        .filter(|s| !(least..=most).contains(s))
    {
        errors.invalid(
            &at.child("activeDeadlineSeconds"),
            seconds,
            names::between(least, most),
        );
    }
}

fn resource_claims<'a>(list: &'a [Value], all: &Path<'_>, errors: &mut Errors) -> Vec<&'a str> {
    for (i, claim) in list.iter().enumerate() {
        let at = all.index(i);
        let name = claim.text("name");
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        } else if list.iter().take(i).any(|c| c.text("name") == name) {
            errors.duplicate(&at.child("name"), name);
        } else {
            errors.invalid_each(&at.child("name"), name, names::dns_label(name));
        }
        let fields = ["resourceClaimName", "resourceClaimTemplateName"];
        match fields.iter().filter(|f| claim.has(f)).count() {
            0 => errors.invalid(
                &at,
                claim.clone(),
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            2 => errors.invalid(
                &at,
                claim.clone(),
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
            _ => {}
        }
        for field in fields.iter().filter(|f| claim.has(f)) {
            errors.invalid_each(
                &at.child(field),
                claim.text(field),
                names::dns_subdomain(claim.text(field)),
            );
        }
    }
    list.iter().map(|c| c.text("name")).collect()
}

fn pod_level_resources(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let whole = spec.at("resources");
    let requests = at.child("requests");
    for (name, sum) in super::qos::container_requests(spec).iter() {
        let Some(asked) = whole.at("requests").get(name) else {
            continue;
        };
        if quantity::to_nanos(sum) > quantity::to_nanos(asked) {
            errors.invalid(
                &requests.key(name),
                resources::shown(asked),
                format!(
                    "must be greater than or equal to aggregate container requests of {}",
                    resources::shown(sum)
                ),
            );
        }
    }
    let containers = at.child("containers");
    for (i, c) in spec.items("containers").iter().enumerate() {
        for (name, limit) in c.at("resources").entries("limits") {
            let Some(most) = whole.at("limits").get(name) else {
                continue;
            };
            if quantity::to_nanos(limit) > quantity::to_nanos(most) {
                errors.invalid(
                    &containers.index(i).key(name).child("limits"),
                    resources::shown(limit),
                    format!(
                        "must be less than or equal to pod limits of {}",
                        resources::shown(most)
                    ),
                );
            }
        }
    }
}

fn host_network(spec: &Value, pod: bool, all: &Path<'_>, errors: &mut Errors) {
    if !spec.flag("hostNetwork") {
        return;
    }
    for (i, c) in spec.items("containers").iter().enumerate() {
        let item = all.index(i);
        let list = item.child("ports");
        for (j, port) in c.items("ports").iter().enumerate() {
            let host = port.num("hostPort");
            if (pod || host != 0) && host != port.num("containerPort") {
                errors.invalid(
                    &list.index(j).child("hostPort"),
                    host,
                    "must match `containerPort` when `hostNetwork` is true",
                );
            }
        }
    }
}

fn dns_config(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let config = spec.at("dnsConfig");
    let servers = config.items("nameservers");
    if spec.text("dnsPolicy") == "None" {
        if config.is_null() {
            errors.required(at, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if servers.is_empty() {
            errors.required(
                &at.child("nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            );
            return;
        }
    }
    let list = at.child("nameservers");
    if servers.len() > 3 {
        errors.invalid(
            &list,
            Value::Array(servers.to_vec()),
            "must not have more than 3 nameservers",
        );
    }
    for (i, server) in servers.iter().enumerate() {
        ip::legacy(server.as_text(), &[], &list.index(i), errors);
    }
    let searches = config.items("searches");
    let list = at.child("searches");
    if searches.len() > 32 {
        errors.invalid(
            &list,
            Value::Array(searches.to_vec()),
            "must not have more than 32 search paths",
        );
    }
    let length = searches
        .iter()
        .map(|s| s.as_text().len() + 1)
        .sum::<usize>()
        .saturating_sub(1);
    if length > 2048 {
        errors.invalid(
            &list,
            Value::Array(searches.to_vec()),
            "must not have more than 2048 characters (including spaces) in the search list",
        );
    }
    for (i, search) in searches
        .iter()
        .map(Read::as_text)
        .enumerate()
        .filter(|(_, s)| *s != ".")
    {
        let search = search.strip_suffix('.').unwrap_or(search);
        errors.invalid_each(
            &list.index(i),
            search,
            names::dns_subdomain_with_underscore(search),
        );
    }
    let list = at.child("options");
    for (i, _) in config
        .items("options")
        .iter()
        .enumerate()
        .filter(|(_, o)| o.text("name").is_empty())
    {
        errors.required(&list.index(i), "must not be empty");
    }
}

fn scheduling_gates(list: &[Value], all: &Path<'_>, errors: &mut Errors) {
    for (i, gate) in list.iter().enumerate() {
        let name = gate.text("name");
        errors.invalid_each(&all.index(i), name, names::qualified(name));
        if list.iter().take(i).any(|g| g.text("name") == name) {
            errors.duplicate(&all.index(i), name);
        }
    }
}

fn host_users(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    if spec.truth("hostUsers") != Some(false) {
        return;
    }
    // two of these fields are spelt by their names in Go
    for (field, shown) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if spec.flag(field) {
            errors.forbidden(&at.child(shown), "when `hostUsers` is false");
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let all = at.child(list);
        for (i, c) in spec.items(list).iter().enumerate() {
            if !c.items("volumeDevices").is_empty() {
                errors.forbidden(
                    &all.index(i).child("volumeDevices"),
                    "when `hostUsers` is false",
                );
            }
        }
    }
}

fn host_name(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    if !spec.has("hostnameOverride") {
        return;
    }
    let at = at.child("hostnameOverride");
    if spec.flag("setHostnameAsFQDN") {
        errors.forbidden(&at, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.flag("hostNetwork") {
        errors.forbidden(&at, "may not be specified when hostNetwork is true");
    }
    let name = spec.text("hostnameOverride");
    if name.len() > 64 {
        errors.too_long(&at, 64);
    }
    errors.invalid_each(&at, name, names::dns_subdomain(name));
}

pub(crate) fn metadata_and_spec(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(true), names::subdomain_name, errors);
    let pod = object.at("spec");
    let at = Path::new("metadata.annotations");
    annotations(object.at("metadata").at("annotations"), pod, &at, errors);
    spec(pod, object.at("metadata").text("name"), true, &SPEC, errors);
    if pod.text("serviceAccountName").is_empty() {
        let volumes = SPEC.child("volumes");
        for (i, volume) in pod.items("volumes").iter().enumerate() {
            let item = volumes.index(i);
            let sources = item.child("projected.sources");
            for (j, source) in volume.at("projected").items("sources").iter().enumerate() {
                if source.has("serviceAccountToken") {
                    errors.forbidden(
                        &sources.index(j).child("serviceAccountToken"),
                        "must not be specified when serviceAccountName is not set",
                    );
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        let all = SPEC.child(list);
        for (i, c) in pod.items(list).iter().enumerate() {
            container::image_spaces(c, &all.index(i), errors);
        }
    }
}

/// Validates the annotations of a pod or a template that the cluster interprets.
pub(crate) fn annotations(annotations: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    if annotations.has(MIRROR) && spec.text("nodeName").is_empty() {
        errors.invalid(
            &at.key(MIRROR),
            annotations.text(MIRROR),
            "must set spec.nodeName if mirror pod annotation is set",
        );
    }
    let cost = "controller.kubernetes.io/pod-deletion-cost";
    let text = annotations.text(cost);
    if annotations.has(cost)
        && (text.parse::<i32>().is_err()
            || text.starts_with('+')
            || (text.len() > 1 && text.starts_with('0')))
    {
        errors.invalid(&at.key(cost), text, "must be a 32bit integer");
    }
    profiles::annotations(annotations, spec, at, errors);
}

pub(crate) fn create(object: &Value) -> Vec<FieldError> {
    collect(|errors| {
        metadata_and_spec(object, errors);
        let spec = object.at("spec");
        if !spec.items("ephemeralContainers").is_empty() {
            errors.forbidden(
                &SPEC.child("ephemeralContainers"),
                "cannot be set on create",
            );
        }
        if !spec.text("nodeName").is_empty() && !spec.items("schedulingGates").is_empty() {
            errors.forbidden(
                &SPEC.child("nodeName"),
                "cannot be set until all schedulingGates have been cleared",
            );
        }
        let annotations = object.at("metadata").at("annotations");
        profiles::fields(annotations, spec, &SPEC, errors);
    })
}

const CHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(crate) fn update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        metadata_and_spec(new, errors);
        let (after, before) = (new.at("spec"), old.at("spec"));
        for list in ["containers", "initContainers"] {
            let at = SPEC.child(list);
            if after.items(list).len() != before.items(list).len() {
                errors.forbidden(&at, "pod updates may not add or remove containers");
                return;
            }
            for (i, c) in after.items(list).iter().enumerate() {
                if c.text("image").is_empty() {
                    errors.required(&at.index(i).child("image"), "");
                }
                container::image_spaces(c, &at.index(i), errors);
            }
        }
        if !deadline_update(after, before, errors) {
            return;
        }
        tolerations_update(after, before, errors);
        gates_update(after, before, errors);
        if same(after, before) {
            return;
        }
        if !before.items("schedulingGates").is_empty() {
            gated(after, before, errors);
        }
        let rest = unchangeable(after, before);
        if !same(&rest, before) {
            errors.forbidden(
                &SPEC,
                format!(
                    "{CHANGEABLE}\n{}",
                    difference("core.PodSpec", before, &rest)
                ),
            );
        }
    })
}

/// Tells whether the rest is to be looked at.
fn deadline_update(after: &Value, before: &Value, errors: &mut Errors) -> bool {
    let at = SPEC.child("activeDeadlineSeconds");
    let then = before.int("activeDeadlineSeconds");
    match after.int("activeDeadlineSeconds") {
        Some(now) => {
            let found = errors.len();
            active_deadline(after, 0, &SPEC, errors);
            if errors.len() == found && then.is_some_and(|then| then < now) {
                errors.invalid(&at, now, "must be less than or equal to previous value");
            }
            errors.len() == found
        }
        None => {
            if then.is_some() {
                errors.invalid(
                    &at,
                    Value::Null,
                    "must not update from a positive integer to nil value",
                );
            }
            true
        }
    }
}

fn tolerations_update(after: &Value, before: &Value, errors: &mut Errors) {
    let at = SPEC.child("tolerations");
    let plain = |t: &Value| {
        let mut t = t.clone();
        t.drop_field("tolerationSeconds");
        t
    };
    let now: Vec<Value> = after.items("tolerations").iter().map(plain).collect();
    for _ in before
        .items("tolerations")
        .iter()
        .filter(|t| !now.iter().any(|n| same(n, &plain(t))))
    {
        errors.forbidden(
            &at,
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
    tolerations::tolerations(after.items("tolerations"), &at, errors);
}

fn gates_update(after: &Value, before: &Value, errors: &mut Errors) {
    let all = SPEC.child("schedulingGates");
    let known = before.items("schedulingGates");
    for (i, gate) in after.items("schedulingGates").iter().enumerate() {
        let name = gate.text("name");
        if !known.iter().any(|g| g.text("name") == name) {
            errors.forbidden(
                &all.index(i).child("name"),
                format!("only deletion is allowed, but found new scheduling gate '{name}'"),
            );
        }
    }
}

/// The new spec with everything that may change set back.
fn unchangeable(after: &Value, before: &Value) -> Value {
    let mut rest = after.clone();
    for list in ["containers", "initContainers"] {
        for (c, then) in rest.items_mut(list).iter_mut().zip(before.items(list)) {
            c.take_from(then, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        rest.take_from(before, field);
    }
    if before.num("terminationGracePeriodSeconds") < 0
        && rest.num("terminationGracePeriodSeconds") == 1
    {
        rest.take_from(before, "terminationGracePeriodSeconds");
    }
    if !before.items("schedulingGates").is_empty() {
        // the placement of a gated pod may still change
        rest.take_from(before, "nodeSelector");
        let (then, now) = (before.at("affinity"), rest.at("affinity"));
        let node = then.at("nodeAffinity");
        if !same(now.at("nodeAffinity"), node) {
            let others = now.has("podAffinity") || now.has("podAntiAffinity");
            if then.is_null() && !others {
                rest.drop_field("affinity");
            } else {
                rest.make("affinity").take_from(then, "nodeAffinity");
            }
        }
    }
    rest
}

/// Validates the placement of a gated pod, which may only be narrowed (KEP-3838).
fn gated(after: &Value, before: &Value, errors: &mut Errors) {
    let mut selected = before.entries("nodeSelector");
    if !selected.all(|(key, value)| {
        after.at("nodeSelector").has(key) && after.at("nodeSelector").text(key) == value.as_text()
    }) {
        errors.invalid(
            &SPEC.child("nodeSelector"),
            after.at("nodeSelector").clone(),
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        );
    }
    let required = |spec: &Value| -> Value {
        let affinity = spec.at("affinity").at("nodeAffinity");
        affinity
            .at("requiredDuringSchedulingIgnoredDuringExecution")
            .at("nodeSelectorTerms")
            .clone()
    };
    let (now, then) = (required(after), required(before));
    let (terms, known) = (
        now.as_array().map_or(&[][..], Vec::as_slice),
        then.as_array(),
    );
    let known = known.map_or(&[][..], Vec::as_slice);
    let path = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";
    let all = SPEC.child(path);
    let all = all.child("nodeSelectorTerms");
    let shown = |term: &Value| internal::form("core.NodeSelectorTerm", term);
    if !known.is_empty() && known.len() != terms.len() {
        let shown = match now.as_array() {
            Some(terms) => terms.iter().map(shown).collect(),
            None => Value::Null,
        };
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.invalid(&all, shown, why);
        return;
    }
    for (i, (term, was)) in terms.iter().zip(known).enumerate() {
        let lists = ["matchExpressions", "matchFields"];
        let grows = |list: &&str| {
            let (now, then) = (term.items(list), was.items(list));
            now.len() >= then.len() && now.iter().zip(then).all(|(now, then)| same(now, then))
        };
        // one that selected nothing must not begin to select
        let nothing = lists.iter().all(|list| was.items(list).is_empty());
        let selects = lists.iter().any(|list| !term.items(list).is_empty());
        if (nothing && selects) || !lists.iter().all(grows) {
            let why = "only additions are allowed (no mutations or deletions)";
            errors.invalid(&all.index(i), shown(term), why);
        }
    }
}

pub(crate) fn ephemeral_containers_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        metadata_and_spec(new, errors);
        meta::update(new, old, errors);
        let at = SPEC.child("ephemeralContainers");
        let (after, before) = (
            new.at("spec").items("ephemeralContainers"),
            old.at("spec").items("ephemeralContainers"),
        );
        for c in before {
            let name = c.text("name");
            match after.iter().find(|n| n.text("name") == name) {
                None => errors.forbidden(
                    &at,
                    format!("existing ephemeral containers {name:?} may not be removed\n"),
                ),
                Some(now) if !same(now, c) => errors.forbidden(
                    &at,
                    format!(
                        "existing ephemeral containers {name:?} may not be changed\n{}",
                        difference("core.EphemeralContainer", c, now)
                    ),
                ),
                Some(_) => {}
            }
        }
    })
}

pub(crate) fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let mut out = Vec::new();
    let messages = names::dns_label(object.at("metadata").text("name"));
    if !messages.is_empty() {
        out.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
            messages.join(" ")
        ));
    }
    pod_warnings::check(object.at("metadata"), object.at("spec"), None, &mut out);
    out
}
