//! Validation of a pod's status and of its transitions.

use control_types::value::Value;

use super::{collect, immutable, ip, meta, names};
use crate::FieldError;
use crate::error::{Errors, Path};
use crate::tree::Read;

const STATUS: Path<'static> = Path::new("status");
const NEGATIVE: &str = "must be a non-negative integer";

pub(crate) fn update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        let (after, before) = (new.at("status"), old.at("status"));
        let (spec, spec_before) = (new.at("spec"), old.at("spec"));
        conditions(after.items("conditions"), errors);
        nominated(after, before, spec_before, errors);
        let generation = after.num("observedGeneration");
        if generation < 0 {
            errors.invalid(&STATUS.child("observedGeneration"), generation, NEGATIVE);
        }
        immutable(
            after.at("qosClass"),
            before.at("qosClass"),
            &STATUS.child("qosClass"),
            errors,
        );
        if !all_restart(spec_before) {
            for (list, containers) in [
                ("containerStatuses", "containers"),
                ("initContainerStatuses", "initContainers"),
            ] {
                ended(after, before, list, spec_before, containers, errors);
            }
        }
        debuggers(after, before, errors);
        claims(after, spec, errors);
        extended_claims(after, spec, errors);
        addresses("podIPs", after, before, errors);
        addresses("hostIPs", after, before, errors);
    })
}

fn conditions(list: &[Value], errors: &mut Errors) {
    let all = STATUS.child("conditions");
    for (i, condition) in list.iter().enumerate() {
        let at = all.index(i);
        let generation = condition.num("observedGeneration");
        if generation < 0 {
            errors.invalid(&at.child("observedGeneration"), generation, NEGATIVE);
        }
        let kind = condition.text("type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            errors.invalid_each(&at.child("Type"), kind, names::qualified(kind));
        }
    }
}

fn nominated(after: &Value, before: &Value, spec_before: &Value, errors: &mut Errors) {
    let name = after.text("nominatedNodeName");
    if name.is_empty() || name == before.text("nominatedNodeName") {
        return;
    }
    let at = STATUS.child("nominatedNodeName");
    errors.invalid_each(&at, name, names::dns_subdomain(name));
    if !spec_before.text("nodeName").is_empty() {
        errors.forbidden(
            &at,
            "may not be set on pods that are already bound to a node",
        );
    }
}

/// Returns whether a rule of some container restarts all of them.
fn all_restart(spec: &Value) -> bool {
    ["initContainers", "containers"]
        .iter()
        .flat_map(|list| spec.items(list))
        .flat_map(|c| c.items("restartPolicyRules"))
        .any(|rule| rule.text("action") == "RestartAllContainers")
}

/// Whether a container that ended with `code` is started again.
fn restarts(c: &Value, spec: &Value, code: i64) -> bool {
    for rule in c.items("restartPolicyRules") {
        let codes = rule.at("exitCodes");
        let listed = codes
            .items("values")
            .iter()
            .any(|v| v.as_i64() == Some(code));
        let hit = match codes.text("operator") {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        };
        if hit && rule.text("action") == "Restart" {
            return true;
        }
    }
    let policy = if c.has("restartPolicy") {
        c.text("restartPolicy")
    } else {
        spec.text("restartPolicy")
    };
    match policy {
        "Always" => true,
        "OnFailure" => code != 0,
        _ => false,
    }
}

/// Checks that a terminated container does not come back.
fn ended(
    after: &Value,
    before: &Value,
    list: &'static str,
    spec: &Value,
    containers: &str,
    errors: &mut Errors,
) {
    let at = STATUS.child(list);
    for (i, then) in before.items(list).iter().enumerate() {
        let state = then.at("state").at("terminated");
        let name = then.text("name");
        let now = after.items(list).iter().find(|s| s.text("name") == name);
        let left = now.is_some_and(|now| !now.at("state").has("terminated"));
        if state.is_null() || !left {
            continue;
        }
        let allowed = spec
            .items(containers)
            .iter()
            .find(|c| c.text("name") == name)
            .is_some_and(|c| restarts(c, spec, state.num("exitCode")));
        if !allowed {
            errors.forbidden(
                &at.index(i).child("state"),
                "may not be transitioned to non-terminated state",
            );
        }
    }
}

/// Debugging containers never come back.
fn debuggers(after: &Value, before: &Value, errors: &mut Errors) {
    let list = "ephemeralContainerStatuses";
    let at = STATUS.child(list);
    for (i, then) in before.items(list).iter().enumerate() {
        let now = after
            .items(list)
            .iter()
            .find(|s| s.text("name") == then.text("name"));
        if then.at("state").has("terminated")
            && now.is_some_and(|now| !now.at("state").has("terminated"))
        {
            errors.forbidden(
                &at.index(i).child("state"),
                "may not be transitioned to non-terminated state",
            );
        }
    }
}

fn claims(status: &Value, spec: &Value, errors: &mut Errors) {
    let (list, all) = (
        status.items("resourceClaimStatuses"),
        STATUS.child("resourceClaimStatuses"),
    );
    for (i, claim) in list.iter().enumerate() {
        let (at, name) = (all.index(i), claim.text("name"));
        if !spec
            .items("resourceClaims")
            .iter()
            .any(|c| c.text("name") == name)
        {
            errors.invalid(
                &at.child("name"),
                name,
                "must match the name of an entry in `spec.resourceClaims`",
            );
        }
        if list.iter().take(i).any(|other| other.text("name") == name) {
            errors.duplicate(&at.child("name"), name);
        }
        if claim.has("resourceClaimName") {
            let name = claim.text("resourceClaimName");
            errors.invalid_each(
                &at.child("resourceClaimName"),
                name,
                names::dns_subdomain(name),
            );
        }
    }
}

/// The claim behind a pod's extended resources (KEP 5004).
fn extended_claims(status: &Value, spec: &Value, errors: &mut Errors) {
    let claim = status.at("extendedResourceClaimStatus");
    if claim.is_null() {
        return;
    }
    let at = STATUS.child("extendedResourceClaimStatus");
    let all = at.child("requestMappings");
    let mappings = claim.items("requestMappings");
    if mappings.is_empty() {
        errors.required(&all, "at least one request mapping is required");
    }
    for (i, mapping) in mappings.iter().enumerate() {
        let here = all.index(i);
        let (container, resource) = (mapping.text("containerName"), mapping.text("resourceName"));
        let found = ["containers", "initContainers"]
            .iter()
            .flat_map(|list| spec.items(list))
            .find(|c| c.text("name") == container);
        match found {
            Some(c) if !c.at("resources").at("requests").has(resource) => errors.invalid(
                &here.child("resourceName"),
                resource,
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests",
            ),
            Some(_) => {}
            None => errors.invalid(
                &here.child("containerName"),
                container,
                "must match the name of an entry in spec.initContainers.name or spec.containers.name",
            ),
        }
        let request = mapping.text("requestName");
        errors.invalid_each(&at.child("requestName"), request, names::dns_label(request));
        if mappings.iter().take(i).any(|other| other == mapping) {
            for field in ["containerName", "resourceName", "requestName"] {
                errors.duplicate(&here.child(field), mapping.text(field));
            }
        }
    }
    let name = claim.text("resourceClaimName");
    if name.is_empty() {
        errors.required(&at.child("resourceClaimName"), "");
    } else {
        errors.invalid_each(
            &at.child("resourceClaimName"),
            name,
            names::dns_subdomain(name),
        );
    }
}

fn addresses(field: &'static str, after: &Value, before: &Value, errors: &mut Errors) {
    let all = STATUS.child(field);
    let list: Vec<&str> = after.items(field).iter().map(|ip| ip.text("ip")).collect();
    let known: Vec<&str> = before.items(field).iter().map(|ip| ip.text("ip")).collect();
    if field == "hostIPs"
        && let Some(first) = list.first().filter(|ip| **ip != after.text("hostIP"))
    {
        errors.invalid(
            &all.index(0).child("ip"),
            *first,
            "must be equal to `hostIP`",
        );
    }
    for (i, address) in list.iter().enumerate() {
        ip::legacy(address, &known, &all.index(i), errors);
    }
    if list.len() < 2 {
        return;
    }
    let six = list
        .iter()
        .filter_map(|text| ip::parse_sloppy(text))
        .filter(std::net::IpAddr::is_ipv6)
        .count();
    if list.len() > 2 || six != 1 {
        errors.invalid(
            &all,
            after.at(field).clone(),
            "may specify no more than one IP for each IP family",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_comes_back_only_if_it_may_be_restarted() {
        let pod = |policy: &str, state: &str| {
            let text = format!(
                r#"{{"metadata":{{"resourceVersion":"1"}},"spec":{{"restartPolicy":"{policy}","containers":[{{"name":"c"}}]}},"status":{{"containerStatuses":[{{"name":"c","state":{{{state}}}}}]}}}}"#
            );
            Value::from_slice(text.as_bytes()).expect("test pod")
        };
        let found = |policy: &str, code: i64| {
            let old = pod(policy, &format!(r#""terminated":{{"exitCode":{code}}}"#));
            update(&pod(policy, r#""running":{}"#), &old).len()
        };
        assert_eq!(found("Always", 0), 0);
        assert_eq!(found("OnFailure", 1), 0);
        assert_eq!(found("OnFailure", 0), 1);
        assert_eq!(found("Never", 1), 1);
    }
}
