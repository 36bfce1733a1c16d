//! `PodSecurity`: pods keep to what the labels of their namespace ask for; who makes
//! what will make pods that do not is warned.

use std::time::{Duration, Instant};

use control_kinds::pod_security::{self as rules, Existing, LevelVersion, Pod, Policy};
use control_types::meta;
use control_types::status::{Status, quote};

use super::Change;
use crate::api::Served;
use crate::chain::Context;
use crate::invalid;
use crate::metrics::PodSecurityLabels;

/// How long the pods of a namespace are looked at when its labels change.
const LOOK: Duration = Duration::from_secs(1);
/// Subresources of pods that change nothing that is judged.
const HARMLESS: &[&str] = &[
    "exec",
    "attach",
    "binding",
    "eviction",
    "log",
    "portforward",
    "proxy",
    "status",
];

/// Looks at namespaces, pods, and what makes pods.
///
/// # Errors
/// 403 for a pod that is not allowed, 422 for labels that say nothing.
pub(super) fn check(
    context: &Context,
    served: &Served,
    change: Change<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    match (served.resource.group, served.resource.plural) {
        ("", "namespaces") if change.subresource.is_empty() => {
            namespace(context, served, change, warnings)
        }
        ("", "pods") if !HARMLESS.contains(&change.subresource) => {
            judge(context, served, change, true, warnings)
        }
        ("", "pods") => Ok(()),
        _ if served.kind.facts().template.is_some() && change.subresource.is_empty() => {
            judge(context, served, change, false, warnings)
        }
        _ => Ok(()),
    }
}

fn namespace(
    context: &Context,
    served: &Served,
    change: Change<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let (new, errors) = Policy::of(|label| meta::label(change.new, label));
    let name = meta::name(change.new);
    let refused = || {
        let errors: Vec<_> = errors
            .iter()
            .map(rules::LabelError::to_field_error)
            .collect();
        let resource = served.resource;
        invalid::status(resource.group, resource.kind, name, &errors)
    };
    let Some(old) = change.old else {
        return if errors.is_empty() {
            Ok(())
        } else {
            Err(refused())
        };
    };
    let (old, old_errors) = Policy::of(|label| meta::label(old, label));
    if !errors.is_empty() && errors != old_errors {
        return Err(refused());
    }
    if new.is_stricter_than(&old) {
        let began = Instant::now();
        let pods = super::values(&context.api, "", "pods", name)?;
        let is_late = || began.elapsed() > LOOK;
        warnings.append(&mut Existing::new(pods).warnings(name, new.enforce, is_late));
    }
    Ok(())
}

fn judge(
    context: &Context,
    served: &Served,
    change: Change<'_>,
    is_pod: bool,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let namespace = meta::namespace(change.new);
    let Some(found) = context.api.cached("", "namespaces", namespace) else {
        let why = format!("failed to lookup namespace {}", quote(namespace));
        return if is_pod {
            Err(Status::internal(why))
        } else {
            Ok(())
        };
    };
    let (policy, errors) = Policy::of(|label| found.label(label));
    let operation = if change.old.is_some() {
        "update"
    } else {
        "create"
    };
    let resource = if is_pod { "pod" } else { "controller" };
    let count = |decision, mode, by: LevelVersion| {
        context.api.metrics.pod_security(&PodSecurityLabels::new(
            decision,
            mode,
            by,
            operation,
            resource,
            change.subresource,
        ));
    };
    if policy.is_open() && errors.is_empty() {
        if is_pod {
            context.annotate(
                "pod-security.kubernetes.io/enforce-policy",
                "privileged:latest",
            );
            count("allow", "enforce", policy.enforce);
        }
        return Ok(());
    }
    if let (true, Some(old)) = (is_pod, change.old)
        && !rules::is_significant(change.new, old)
    {
        return Ok(());
    }
    let Some(pod) = served
        .kind
        .facts()
        .template
        .and_then(|template| Pod::within(change.new, template))
    else {
        return Ok(());
    };
    if !errors.is_empty() {
        let texts: Vec<_> = errors
            .iter()
            .map(|error| error.to_field_error().to_string())
            .collect();
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let text = format!("Failed to parse policy: {list}");
        context.annotate("pod-security.kubernetes.io/error", text);
    }
    // The modes are often of one level: it is looked at once.
    let mut seen: Vec<(LevelVersion, rules::Violations)> = Vec::with_capacity(3);
    let mut look = |by: LevelVersion| {
        if let Some((_, found)) = seen.iter().find(|(other, _)| *other == by) {
            return found.clone();
        }
        let found = rules::evaluate(by, pod);
        seen.push((by, found.clone()));
        found
    };
    let told = |verb: &str, by: LevelVersion, found: &[rules::Violation]| {
        let by = quote(&by.to_string());
        format!("{verb} PodSecurity {by}: {}", rules::details(found))
    };
    let mut answer = Ok(());
    if is_pod {
        let by = policy.enforce;
        context.annotate("pod-security.kubernetes.io/enforce-policy", by.to_string());
        let found = look(by);
        if found.is_empty() {
            count("allow", "enforce", by);
        } else {
            count("deny", "enforce", by);
            let resource = served.resource;
            answer = Err(Status::forbidden(
                resource.group,
                resource.plural,
                meta::name(change.new),
                &told("violates", by, &found),
            ));
        }
    }
    let found = look(policy.audit);
    if !found.is_empty() {
        let text = told("would violate", policy.audit, &found);
        context.annotate("pod-security.kubernetes.io/audit-violations", text);
        count("deny", "audit", policy.audit);
    }
    if answer.is_ok() {
        let found = look(policy.warn);
        if !found.is_empty() {
            warnings.push(told("would violate", policy.warn, &found));
            count("deny", "warn", policy.warn);
        }
    }
    answer
}
