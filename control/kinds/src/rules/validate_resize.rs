//! Changes of a pod's resources while it runs (KEP-1287).

use control_types::value::Value;

use super::{collect, meta, qos, validate_pod};
use crate::error::{Errors, FieldError, Path};
use crate::tree::{Read, Write, same};

const SPEC: Path<'static> = Path::new("spec");
const ONLY: &str = "only cpu and memory resources are mutable";

pub(crate) fn resize(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        validate_pod::metadata_and_spec(new, errors);
        let (after, before) = (new.at("spec"), old.at("spec"));
        for (forbidden, what) in [
            (
                old.at("metadata")
                    .at("annotations")
                    .has("kubernetes.io/config.mirror"),
                "static pods cannot be resized",
            ),
            (
                before.at("os").text("name") == "windows",
                "windows pods cannot be resized",
            ),
        ] {
            if forbidden {
                *errors = Errors::new();
                errors.forbidden(&Path::new(""), what);
                return;
            }
        }
        let class = match old.at("status").text("qosClass") {
            "" => qos::class(before),
            known => known,
        };
        if qos::class(after) != class {
            // the message shows the status, which is unchanged
            let shown = new.at("status").text("qosClass");
            let why = "Pod QOS Class may not change as a result of resizing";
            errors.invalid(&SPEC, shown, why);
        }
        let statuses = old.at("status").items("containerStatuses");
        let running = statuses.iter().find(|one| one.at("state").has("running"));
        if running.is_some_and(|one| !one.has("resources")) {
            let why = "Pod running on node without support for resize";
            errors.forbidden(&SPEC, why);
        }
        let mut rest = after.clone();
        of_the_pod(&mut rest, before, errors);
        if !old
            .at("status")
            .items("nodeAllocatableResourceClaimStatuses")
            .is_empty()
        {
            let why = "pods with node allocatable resource claims cannot be resized";
            errors.forbidden(&SPEC, why);
        }
        if !same_containers(after, before, errors) {
            return;
        }
        removed(after, before, errors);
        containers(&mut rest, before, errors);
        if errors.is_empty() && !same(&rest, before) {
            errors.forbidden(&SPEC, ONLY);
        }
    })
}

/// Validates pod-level requests; restores in `rest` what may change.
fn of_the_pod(rest: &mut Value, before: &Value, errors: &mut Errors) {
    let sets = |spec: &Value| {
        let all = spec.at("resources");
        all.size("requests") + all.size("limits") > 0
    };
    if !sets(rest) && !sets(before) {
        return;
    }
    let at = SPEC.child("resources");
    if before.has("resources") && !rest.has("resources") {
        errors.forbidden(&at, "pod-level resources cannot be removed");
        return;
    }
    for (list, why) in [
        ("requests", "pod-level resource requests cannot be removed"),
        ("limits", "pod-level resource limits cannot be removed"),
    ] {
        let (now, then) = (rest.at("resources"), before.at("resources"));
        if goes(now.at(list), then.at(list)) {
            errors.forbidden(&at.child(list), why);
        }
    }
    set_back(rest.make("resources"), before.at("resources"));
    let all = rest.at("resources");
    let empty = all.size("requests") + all.size("limits") + all.items("claims").len() == 0;
    if !before.has("resources") && empty {
        rest.drop_field("resources");
    }
    if !same(rest.at("resources"), before.at("resources")) {
        let why = "only cpu and memory resources are mutable at pod-level";
        errors.forbidden(&SPEC, why);
    }
}

/// Whether the containers are those that there were.
fn same_containers(after: &Value, before: &Value, errors: &mut Errors) -> bool {
    let found = errors.len();
    for list in ["containers", "initContainers"] {
        let all = SPEC.child(list);
        let (now, then) = (after.items(list), before.items(list));
        if now.len() != then.len() {
            let why = format!("{list} may not be added or removed on resize");
            errors.forbidden(&all, why);
            continue;
        }
        for (i, (now, then)) in now.iter().zip(then).enumerate() {
            if now.text("name") != then.text("name") {
                let why = format!("{list} may not be renamed or reordered on resize");
                errors.forbidden(&all.index(i).child("name"), why);
            }
        }
    }
    errors.len() == found
}

/// Checks that no amount is removed.
fn removed(after: &Value, before: &Value, errors: &mut Errors) {
    for list in ["initContainers", "containers"] {
        let all = SPEC.child(list);
        for (i, (now, then)) in after.items(list).iter().zip(before.items(list)).enumerate() {
            let at = all.index(i);
            let at = at.child("resources");
            let (now, then) = (now.at("resources"), then.at("resources"));
            for amounts in ["requests", "limits"] {
                if goes(now.at(amounts), then.at(amounts)) {
                    let why = format!("resource {amounts} cannot be removed");
                    errors.forbidden(&at.child(amounts), why);
                }
            }
        }
    }
}

/// Only cpu and memory change; `rest` gets back what may.
fn containers(rest: &mut Value, before: &Value, errors: &mut Errors) {
    let all = SPEC.child("initContainers");
    for (now, then) in rest
        .items_mut("containers")
        .iter_mut()
        .zip(before.items("containers"))
    {
        restore(now, then);
        if !same(now, then) {
            errors.forbidden(&SPEC, ONLY);
        }
    }
    for (i, (now, then)) in rest
        .items_mut("initContainers")
        .iter_mut()
        .zip(before.items("initContainers"))
        .enumerate()
    {
        let changes = !same(now, then);
        restore(now, then);
        if !same(now, then) {
            let why = "only cpu and memory resources for init or sidecar containers are mutable";
            errors.forbidden(&all.index(i), why);
        }
        if changes && now.text("restartPolicy") != "Always" {
            let policies = now.items("resizePolicy").iter();
            for _ in policies.filter(|one| one.text("restartPolicy") == "RestartContainer") {
                let why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                errors.forbidden(&all.index(i), why);
            }
        }
    }
}

/// Whether an amount that there was is there no more.
fn goes(now: &Value, then: &Value) -> bool {
    let names = then.as_object().into_iter().flatten();
    let mut names = names.map(|(name, _)| name);
    names.any(|name| !now.has(name))
}

/// Gives amounts of cpu and memory back as they were.
fn set_back(now: &mut Value, then: &Value) {
    for list in ["requests", "limits"] {
        for name in ["cpu", "memory"] {
            let was = then.at(list);
            if was.has(name) {
                now.make(list).take_from(was, name);
            } else if let Some(amounts) = now.there(list) {
                amounts.drop_field(name);
            }
        }
        if now.size(list) == 0 && !then.has(list) {
            now.drop_field(list);
        }
    }
}

/// Gives a container its amounts of cpu and memory back. One that claims devices is
/// never as it was: it cannot be resized.
fn restore(now: &mut Value, then: &Value) {
    let resources = now.make("resources");
    resources.drop_field("claims");
    set_back(resources, then.at("resources"));
    if !then.has("resources") && now.size("resources") == 0 {
        now.drop_field("resources");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: &str) -> Value {
        let text = format!(
            r#"{{"metadata":{{"name":"p","namespace":"n","resourceVersion":"1"}},"spec":{spec},"status":{{"qosClass":"Burstable"}}}}"#
        );
        Value::from_slice(text.as_bytes()).expect("test object")
    }

    fn of(resources: &str) -> Value {
        pod(&format!(
            r#"{{"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","schedulerName":"s","containers":[{{"name":"c","image":"i","resources":{resources},"imagePullPolicy":"Always","terminationMessagePath":"/dev/l","terminationMessagePolicy":"File"}}]}}"#
        ))
    }

    fn told(new: &Value, old: &Value) -> Vec<String> {
        resize(new, old).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn cpu_and_memory_change_and_nothing_else() {
        let old = of(r#"{"requests":{"cpu":"100m","ephemeral-storage":"1Gi"}}"#);
        let new = of(r#"{"requests":{"cpu":"200m","ephemeral-storage":"1Gi","memory":"1Gi"}}"#);
        assert_eq!(told(&new, &old), [""; 0]);
        let new = of(r#"{"requests":{"cpu":"200m","ephemeral-storage":"2Gi"}}"#);
        assert_eq!(told(&new, &old), [format!("spec: Forbidden: {ONLY}")]);
    }

    #[test]
    fn what_was_asked_for_stays_asked_for_and_the_class_stays() {
        let old = of(r#"{"requests":{"cpu":"100m"}}"#);
        assert_eq!(
            told(&of("{}"), &old),
            [
                "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing",
                "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"
            ]
        );
    }
}
