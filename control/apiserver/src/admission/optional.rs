//! The plugins that are off unless turned on, each with its objects found: what they
//! decide is pure (`control_kinds::admission`).

use control_kinds::admission as rules;
use control_types::status::Status;
use control_types::value;
use control_types::value::Value;

use super::plugins::Plugin::{self, *};
use super::{Change, owners, refuse};
use crate::api::{Api, ServedResource};
use crate::chain::Context;
use crate::duties::own;
use control_request::plain_error;

/// All of them: where none is on, nothing else is looked at.
const ALL: [Plugin; 10] = [
    NamespaceAutoProvision,
    NamespaceExists,
    LimitPodHardAntiAffinityTopology,
    AlwaysPullImages,
    PodNodeSelector,
    PodTolerationRestriction,
    EventRateLimit,
    ExtendedResourceToleration,
    OwnerReferencesPermissionEnforcement,
    DenyServiceExternalIPs,
];

/// Whether any of them is on.
#[inline]
fn any(api: &Api) -> bool {
    ALL.iter().any(|one| super::on(api, *one))
}

/// Makes the namespace of a new object, or wants it to be there.
///
/// # Errors
/// 404 where it must be there.
pub(super) async fn namespace(context: &Context) -> Result<(), Status> {
    let (api, name) = (&context.api, &*context.info.namespace);
    let (makes, wants) = (
        super::on(api, NamespaceAutoProvision),
        super::on(api, NamespaceExists),
    );
    if !(makes || wants) || api.cached("", "namespaces", name).is_some() {
        return Ok(());
    }
    if makes && !is_dry(context) {
        let object = value!({
            "kind": "Namespace", "apiVersion": "v1",
            "metadata": {"name": (name), "labels": {"kubernetes.io/metadata.name": (name)}}
        });
        own::ensure(api, ("", "namespaces"), own::OWN, object, |_, _| false).await?;
    }
    api.catch_up().await?;
    if wants && api.cached("", "namespaces", name).is_none() {
        return Err(Status::not_found("", "namespaces", name));
    }
    Ok(())
}

/// What a pod gets before it has its priority; `old` is none for a new one.
///
/// # Errors
/// 403.
pub(super) fn before_priority(
    context: &Context,
    served: &ServedResource,
    pod: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let api = &context.api;
    if !any(api) {
        return Ok(());
    }
    if super::on(api, AlwaysPullImages) {
        rules::always_pull(pod, old);
    }
    if super::on(api, PodNodeSelector) && old.is_none() {
        let wanted = selector(context)?;
        rules::select_nodes(pod, &wanted).map_err(|why| refuse(served, pod, &why))?;
        check_selector(context, served, pod)?;
    }
    Ok(())
}

/// What a pod gets after it has the usual tolerations.
///
/// # Errors
/// 403, or 500 when the namespace says what cannot be read.
pub(super) fn after_tolerations(
    context: &Context,
    pod: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let api = &context.api;
    if !any(api) {
        return Ok(());
    }
    if super::on(api, PodTolerationRestriction) {
        let given = match (old, tolerations(context, rules::DEFAULT_TOLERATIONS)?) {
            (Some(_), _) => Vec::new(),
            (None, Some(given)) => given,
            (None, None) => api.config.chain.admission.tolerations.given.clone(),
        };
        rules::add_tolerations(pod, &given);
        check_tolerations(context, pod)?;
    }
    if super::on(api, ExtendedResourceToleration) {
        rules::tolerate_extended_resources(pod);
    }
    Ok(())
}

/// Looks at what is written.
///
/// # Errors
/// 403; 429 for an event too many.
pub(super) fn check(
    context: &Context,
    served: &ServedResource,
    change: Change<'_>,
) -> Result<(), Status> {
    let api = &context.api;
    if !any(api) {
        return Ok(());
    }
    let on = |plugin| super::on(api, plugin);
    let refused = |why: String| refuse(served, change.new, &why);
    match (
        served.resource.group,
        served.resource.plural,
        change.subresource,
    ) {
        ("", "pods", "") => {
            if on(LimitPodHardAntiAffinityTopology) {
                rules::check_anti_affinity(change.new).map_err(refused)?;
            }
            if on(AlwaysPullImages) {
                rules::check_always_pull(change.new, change.old).map_err(refused)?;
            }
            if on(PodNodeSelector) && change.old.is_none() {
                check_selector(context, served, change.new)?;
            }
            if on(PodTolerationRestriction) {
                check_tolerations(context, change.new)?;
            }
        }
        ("", "services", "") if on(DenyServiceExternalIPs) => {
            let ranges = &api.config.chain.admission.external_ip_ranges;
            rules::check_external_ips(change.new, change.old, ranges).map_err(refused)?;
        }
        ("" | "events.k8s.io", "events", _) if on(EventRateLimit) && !is_dry(context) => {
            if let Some(rates) = &api.config.chain.admission.event_rates {
                rates.take(change.new, &context.info.namespace, &context.user.name)?;
            }
        }
        _ => {}
    }
    if on(OwnerReferencesPermissionEnforcement) {
        owners::check(context, served, change)?;
    }
    Ok(())
}

fn is_dry(context: &Context) -> bool {
    context.query_value("dryRun").is_some()
}

fn annotation(context: &Context, key: &str) -> Option<String> {
    let found = context
        .api
        .cached("", "namespaces", &context.info.namespace)?;
    let tree = found.value().ok()?;
    control_types::meta::annotation(&tree, key).map(str::to_owned)
}

/// What the namespace wants of its nodes.
fn selector(context: &Context) -> Result<std::collections::BTreeMap<String, String>, Status> {
    match annotation(context, rules::NODE_SELECTOR) {
        Some(text) => rules::read_node_selector(&text).map_err(Status::internal),
        None => Ok(context
            .api
            .config
            .chain
            .admission
            .node_selectors
            .usual
            .clone()),
    }
}

fn check_selector(context: &Context, served: &ServedResource, pod: &Value) -> Result<(), Status> {
    let none = std::collections::BTreeMap::new();
    let allowed = &context.api.config.chain.admission.node_selectors.allowed;
    let allowed = allowed.get(&*context.info.namespace).unwrap_or(&none);
    rules::check_node_selector(pod, &selector(context)?, allowed)
        .map_err(|why| refuse(served, pod, &why))
}

/// The tolerations that an annotation of the namespace lists, if it is there.
fn tolerations(context: &Context, key: &str) -> Result<Option<Vec<Value>>, Status> {
    let text = annotation(context, key);
    let read = text.map(|text| rules::read_tolerations(&text)).transpose();
    read.map_err(Status::internal)
}

fn check_tolerations(context: &Context, pod: &Value) -> Result<(), Status> {
    let (allowed, scope) = match tolerations(context, rules::ALLOWED_TOLERATIONS)? {
        Some(allowed) => (allowed, "namespace"),
        None => (
            context
                .api
                .config
                .chain
                .admission
                .tolerations
                .allowed
                .clone(),
            "cluster",
        ),
    };
    // Not a Status there: kube-apiserver answers 500.
    rules::check_tolerations(pod, &allowed, scope).map_err(plain_error)
}
