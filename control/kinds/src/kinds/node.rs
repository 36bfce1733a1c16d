//! Node: a machine that runs pods.

use control_types::value::Value;

use crate::error::{ErrorKind, Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{collect, ip, meta, names, resources, tolerations};
use crate::table::{Timestamp, age, columns, name, or_none};
use crate::tree::{Read, Write, same};
use crate::{Field, FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "Node",
    namespaced: Some(false),
    default,
    prepare_create: |object| drop_config(object, &["spec", "status"]),
    prepare_update,
    prepare_status_update,
    validate_create,
    validate_update,
    validate_status_update,
    warnings,
    selectable: &["spec.unschedulable"],
    selectable_fields,
    columns: columns::NODE,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

fn default(object: &mut Value) {
    // `podCIDR` is the first of `podCIDRs`
    if let Some(spec) = object.there("spec") {
        let single = spec.text("podCIDR").to_owned();
        let first = spec
            .items("podCIDRs")
            .first()
            .map(|c| c.as_text().to_owned());
        if !single.is_empty() && first.as_deref() != Some(single.as_str()) {
            spec.put("podCIDRs", Value::Array(vec![single.into()]));
        } else if let Some(first) = first {
            spec.put("podCIDR", first);
        }
    }
    if let Some(status) = object.there("status")
        && status.has("capacity")
        && !status.has("allocatable")
    {
        let capacity = status.at("capacity").clone();
        status.put("allocatable", capacity);
    }
}

/// Drops the sources and the state of configuration that was once kept in the
/// cluster (removed in 1.24), below `parts`.
fn drop_config(object: &mut Value, parts: &[&str]) {
    for (part, field) in [("spec", "configSource"), ("status", "config")] {
        if parts.contains(&part)
            && let Some(part) = object.there(part)
        {
            part.drop_field(field);
        }
    }
}

fn prepare_update(new: &mut Value, old: &Value) {
    new.take_from(old, "status");
    if !old.at("spec").has("configSource") {
        drop_config(new, &["spec"]);
    }
}

fn prepare_status_update(new: &mut Value, old: &Value) {
    generic::update_status(new, old);
    if !old.at("status").has("config") {
        drop_config(new, &["status"]);
    }
}

fn warnings(object: &Value, _old: Option<&Value>) -> Vec<String> {
    let spec = object.at("spec");
    let mut out = Vec::new();
    if spec.has("configSource") {
        out.push("spec.configSource: the feature is removed".to_owned());
    }
    if !spec.text("externalID").is_empty() {
        out.push(
            "spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned(),
        );
    }
    let list = Path::new("spec.podCIDRs");
    for (i, range) in spec.items("podCIDRs").iter().enumerate() {
        out.extend(ip::cidr_warnings(&list.index(i), range.as_text()));
    }
    out
}

fn check_resources(object: &Value, errors: &mut Errors) {
    for field in ["status.capacity", "status.allocatable"] {
        let key = field.trim_start_matches("status.");
        let at = Path::new(field);
        for (resource, amount) in object.at("status").entries(key) {
            resources::amount(resource, amount, &at.child(resource), errors);
        }
    }
}

fn validate_create(object: &Value) -> Vec<FieldError> {
    collect(|errors| check(object, errors))
}

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    tolerations::taints(
        object.at("spec").items("taints"),
        &Path::new("metadata.taints"),
        errors,
    );
    check_resources(object, errors);
    let swap = object.dig(&["status", "nodeInfo", "swap"]);
    if swap.int("capacity").is_some_and(|c| c <= 0) {
        errors.invalid(
            &Path::new("metadata.nodeSwapStatus.capacity"),
            swap.num("capacity"),
            "must be greater than 0",
        );
    }
    let cidrs = object.at("spec").items("podCIDRs");
    let at = Path::new("spec.podCIDRs");
    for (i, cidr) in cidrs.iter().enumerate() {
        ip::legacy_cidr(cidr.as_text(), &[], &at.index(i), errors);
    }
    if cidrs.len() > 1 {
        let unread = cidrs
            .iter()
            .map(Read::as_text)
            .find(|text| ip::parse_cidr_sloppy(text).is_none());
        if let Some(wrong) = unread {
            errors.add(
                ErrorKind::Internal,
                &at,
                None,
                format!("invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR address: {wrong}"),
            );
        }
        let v6 =
            |c: &&Value| ip::parse_cidr_sloppy(c.as_text()).is_some_and(|c| c.addr().is_ipv6());
        let six = cidrs.iter().filter(v6).count();
        if cidrs.len() > 2 || six != 1 {
            errors.invalid(
                &at,
                Value::Array(cidrs.to_vec()),
                "may specify no more than one CIDR for each IP family",
            );
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_create(new);
    errors.extend(validate_status_update(new, old));
    errors
}

fn validate_status_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        check_resources(new, errors);
        let addresses = new.at("status").items("addresses");
        let at = Path::new("status.addresses");
        for (i, address) in addresses.iter().enumerate() {
            if addresses.iter().take(i).any(|a| same(a, address)) {
                errors.duplicate(&at.index(i), address.clone());
            }
        }
        let (after, before) = (new.at("spec"), old.at("spec"));
        if !before.items("podCIDRs").is_empty()
            && !same(after.at("podCIDRs"), before.at("podCIDRs"))
        {
            errors.forbidden(
                &Path::new("spec.podCIDRs"),
                "node updates may not change podCIDR except from \"\" to valid",
            );
        }
        if !before.text("providerID").is_empty()
            && after.text("providerID") != before.text("providerID")
        {
            errors.forbidden(
                &Path::new("spec.providerID"),
                "node updates may not change providerID except from \"\" to valid",
            );
        }
        tolerations::taints(after.items("taints"), &Path::new("metadata.taints"), errors);
        if after.text("externalID") != before.text("externalID") {
            errors.forbidden(&Path::new("spec.externalID"), "may not be updated");
        }
    })
}

fn selectable_fields(object: &Value) -> Vec<Field> {
    vec![(
        "spec.unschedulable",
        object.at("spec").flag("unschedulable").to_string(),
    )]
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = object.at("status");
    let ready = status
        .items("conditions")
        .iter()
        .rev()
        .find(|c| c.text("type") == "Ready");
    let mut state = match ready.map(|c| c.text("status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".into(),
        None => "Unknown".into(),
    };
    if object.at("spec").flag("unschedulable") {
        state.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = object
        .at("metadata")
        .entries("labels")
        .filter_map(
            |(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) => Some(role),
                None if key == "kubernetes.io/role" => Some(value.as_text()),
                None => None,
            },
        )
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    let info = status.at("nodeInfo");
    let known = |field: &str| match info.text(field) {
        "" => "<unknown>".to_owned(),
        text => text.to_owned(),
    };
    let mut kernel = known("kernelVersion");
    if !info.text("architecture").is_empty() {
        kernel = format!("{kernel} ({})", info.text("architecture"));
    }
    let address = |kind: &str| {
        let found = status
            .items("addresses")
            .iter()
            .find(|a| a.text("type") == kind);
        or_none(found.map_or("", |a| a.text("address")))
    };
    vec![
        name(object),
        state.into(),
        or_none(&roles.join(",")),
        age(object, now),
        info.text("kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        known("osImage").into(),
        kernel.into(),
        known("containerRuntimeVersion").into(),
    ]
}
