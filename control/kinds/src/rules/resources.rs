//! Names of resources and the quantities that they may have.

use control_types::value::Value;

use super::{names, quantity};
use crate::error::{ErrorKind, Errors, Path};
use crate::tree::Read;

const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

pub(crate) fn is_hugepages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Resources that Kubernetes itself defines.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Resources that devices define (`example.com/gpu`).
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified(&format!("requests.{name}")).is_empty()
}

/// Whether limits may exceed requests.
pub(crate) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_hugepages(name)
}

fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || is_hugepages(name) || name.starts_with("requests.hugepages-")
}

/// A standard resource, or a fully qualified one. Tells whether it is right.
pub(crate) fn name(name: &str, at: &Path<'_>, errors: &mut Errors) -> bool {
    let before = errors.len();
    errors.invalid_each(at, name, names::qualified(name));
    if errors.len() == before && !name.contains('/') && !is_standard(name) {
        errors.invalid(
            at,
            name,
            "must be a standard resource type or fully qualified",
        );
    }
    errors.len() == before
}

/// A resource that containers may ask for.
pub(crate) fn container_name(text: &str, at: &Path<'_>, errors: &mut Errors) {
    name(text, at, errors);
    if !text.contains('/') {
        if !matches!(text, "cpu" | "memory" | "ephemeral-storage") && !is_hugepages(text) {
            errors.invalid(at, text, "must be a standard resource for containers");
        }
    } else if !is_native(text) && !is_extended(text) {
        errors.invalid(at, text, "doesn't follow extended resource name standard");
    }
}

/// A resource that a pod as a whole may ask for.
fn pod_name(text: &str, at: &Path<'_>, errors: &mut Errors) {
    if name(text, at, errors) && !matches!(text, "cpu" | "memory") && !is_hugepages(text) {
        errors.not_supported(at, text, &["cpu", "hugepages-", "memory"]);
    }
}

/// Validates a quantity: not negative, and whole for countable resources.
pub(crate) fn amount(name: &str, value: &Value, at: &Path<'_>, errors: &mut Errors) {
    let nanos = quantity::to_nanos(value);
    if nanos < 0 {
        errors.invalid(at, value.clone(), "must be greater than or equal to 0");
    }
    if (COUNTED.contains(&name) || is_extended(name)) && !quantity::is_whole(nanos) {
        errors.invalid(at, value.clone(), "must be an integer");
    }
}

fn hugepage_size(name: &str) -> Option<quantity::Nanos> {
    quantity::parse(name.strip_prefix("hugepages-")?)
}

/// The owner of the validated resources.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResourcesOwner {
    /// A container.
    Container,
    /// A pod as a whole.
    Pod,
}

/// `resources` of a container or of a pod.
pub(crate) fn requirements(
    resources: &Value,
    claims: &[&str],
    owner: ResourcesOwner,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let check_name = match owner {
        ResourcesOwner::Container => container_name,
        ResourcesOwner::Pod => pod_name,
    };
    let (limits_at, requests_at) = (at.child("limits"), at.child("requests"));
    let (mut cpu_or_memory, mut hugepages) = (false, false);
    for (name, value) in resources.entries("limits") {
        let at = limits_at.key(name);
        check_name(name, &at, errors);
        amount(name, value, &at, errors);
        if is_hugepages(name) {
            hugepages = true;
            hugepage_amount(name, value, &at, errors);
        }
        cpu_or_memory |= matches!(name, "cpu" | "memory");
    }
    for (name, value) in resources.entries("requests") {
        let at = requests_at.key(name);
        check_name(name, &at, errors);
        amount(name, value, &at, errors);
        let limit = resources.at("limits").get(name);
        match limit {
            Some(limit) => {
                let (asked, most) = (quantity::to_nanos(value), quantity::to_nanos(limit));
                if asked != most && !is_overcommit_allowed(name) {
                    errors.invalid(
                        &requests_at,
                        value.clone(),
                        format!("must be equal to {name} limit of {}", shown(limit)),
                    );
                } else if asked > most {
                    errors.invalid(
                        &requests_at,
                        value.clone(),
                        format!(
                            "must be less than or equal to {name} limit of {}",
                            shown(limit)
                        ),
                    );
                }
            }
            None if !is_overcommit_allowed(name) => {
                errors.required(
                    &limits_at,
                    "Limit must be set for non overcommitable resources",
                );
            }
            None => {}
        }
        if is_hugepages(name) {
            hugepages = true;
            hugepage_amount(name, value, &at, errors);
        }
        cpu_or_memory |= matches!(name, "cpu" | "memory");
    }
    if hugepages && !cpu_or_memory {
        errors.forbidden(at, "HugePages require cpu or memory");
    }
    claim_names(resources, claims, &at.child("claims"), errors);
}

fn hugepage_amount(name: &str, value: &Value, at: &Path<'_>, errors: &mut Errors) {
    let divides =
        hugepage_size(name).is_some_and(|size| size > 0 && quantity::to_nanos(value) % size == 0);
    if !divides {
        errors.invalid(
            at,
            value.clone(),
            format!(
                "{} is not positive integer multiple of {}",
                shown(value),
                name.trim_start_matches("hugepages-")
            ),
        );
    }
}

fn claim_names(resources: &Value, claims: &[&str], at: &Path<'_>, errors: &mut Errors) {
    let list = resources.items("claims");
    for (i, claim) in list.iter().enumerate() {
        let at = at.index(i);
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            errors.required(&at, "");
            continue;
        }
        let twice = list.iter().take(i).any(|c| {
            c.text("name") == name
                && (c.text("request") == request
                    || c.text("request").is_empty()
                    || request.is_empty())
        });
        if twice {
            errors.duplicate(
                &at,
                if request.is_empty() {
                    name.to_owned()
                } else {
                    format!("{name}/{request}")
                },
            );
        }
        if !request.is_empty() {
            errors.invalid_each(&at.child("request"), request, names::dns_label(request));
        }
        if !claims.contains(&name) {
            let mut known = claims.to_vec();
            known.sort_unstable();
            let known = if known.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", known.join(", "))
            };
            errors.add(
                ErrorKind::NotFound,
                &at,
                Some(name.into()),
                format!("must be one of the names in pod.spec.resourceClaims{known}"),
            );
        }
    }
}

/// Checks that an amount is not negative. Messages show it as a whole number, rounded away
/// from zero.
pub(crate) fn not_negative(amount: &Value, at: &Path<'_>, errors: &mut Errors) {
    let nanos = quantity::to_nanos(amount);
    if nanos < 0 {
        let whole = (nanos - (quantity::ONE - 1)) / quantity::ONE;
        let whole = i64::try_from(whole).unwrap_or(i64::MIN);
        errors.invalid(at, whole, "must be a valid resource quantity");
    }
}

/// A quantity as messages show it.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => crate::error::compact_json(other),
    }
}
