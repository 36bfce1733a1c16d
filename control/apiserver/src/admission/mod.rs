//! Admission: rules about a request that look beyond its one object.
//!
//! The steps and their order are those of Kubernetes 1.36: first all that may
//! change the object ([`admit_create`], [`admit_update`]), then the kind's own
//! validation, then all that only look ([`check_create`], [`check_update`]).
//! What a step decides is a pure function of `control_kinds::admission`; here
//! are the objects found that it looks at.

mod certificates;
mod counts;
pub mod dynamic;
mod event_rate;
mod image_policy;
pub(crate) mod node_restriction;
mod optional;
mod owners;
mod plugins;
mod pod_security;
pub(crate) mod quota;
mod resize;
mod service_account;
mod settings;

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use control_access::User;
use control_kinds::admission as rules;
use control_types::meta;
use control_types::status::{Cause, Status};
use control_types::value::{Pick, Value};

use crate::api::{Api, ServedResource, name_of};
use crate::chain::Context;
use control_watch_cache::Cached;

pub(crate) use self::counts::{AdmissionCounts, Step};
pub use self::event_rate::EventRates;
pub use self::plugins::{ChoiceError, Plugin, Plugins};
pub use self::settings::{Settings, SettingsError};
pub use control_kinds::admission::Stay;

/// Whether a plugin is on.
#[inline]
pub(crate) fn on(api: &Api, plugin: Plugin) -> bool {
    api.config.chain.admission.plugins.has(plugin)
}

/// The namespaces that every cluster has and keeps.
pub const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

/// What a pod takes from its priority class.
static CLASS: LazyLock<Pick> = LazyLock::new(|| {
    Pick::of([
        "metadata.name",
        "value",
        "globalDefault",
        "preemptionPolicy",
    ])
});

/// What a request changes, as the steps see it that only look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The object as it is to be.
    pub new: &'a Value,
    /// The object as it is; none: it is new.
    pub old: Option<&'a Value>,
}

/// Requests for certificates.
const CERTIFICATES: (&str, &str) = ("certificates.k8s.io", "certificatesigningrequests");

/// Admits a new object, and gives it what the cluster gives to such objects.
///
/// # Errors
/// 404 and 403.
pub async fn admit_create(
    context: &Context,
    served: &ServedResource,
    object: &mut Value,
) -> Result<(), Status> {
    let api = &context.api;
    let on = |plugin| on(api, plugin);
    if served.resource.namespaced {
        optional::namespace(context).await?;
        living_namespace(context, served, object).await?;
    }
    let resource = (served.resource.group, served.resource.plural);
    if resource == ("", "nodes") {
        node_restriction::admit_node(context, served, object, None)?;
    }
    if resource != ("", "pods") {
        node_restriction::check(context, served, "", object, None)?;
    }
    match resource {
        ("", "pods") => admit_pod(context, served, object).await,
        ("", "nodes") if on(Plugin::TaintNodesByCondition) => {
            rules::taint_new_node(object);
            Ok(())
        }
        ("", "persistentvolumeclaims") => {
            if on(Plugin::DefaultStorageClass) {
                let classes = values(api, "storage.k8s.io", "storageclasses", "")?;
                rules::default_storage_class(object, classes.iter());
            }
            if on(Plugin::StorageObjectInUseProtection) {
                rules::protect_from_deletion(served.resource.kind, object);
            }
            Ok(())
        }
        ("", "persistentvolumes") | ("storage.k8s.io", "volumeattributesclasses")
            if on(Plugin::StorageObjectInUseProtection) =>
        {
            rules::protect_from_deletion(served.resource.kind, object);
            Ok(())
        }
        CERTIFICATES => {
            certificates::admit_create(context, object);
            Ok(())
        }
        ("networking.k8s.io", "ingresses") if on(Plugin::DefaultIngressClass) => {
            let classes = values(api, "networking.k8s.io", "ingressclasses", "")?;
            rules::default_ingress_class(object, classes.iter());
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Looks at a new object that is otherwise right; `warnings` gets what the client
/// is told.
///
/// # Errors
/// 403.
pub async fn check_create(
    context: &Context,
    served: &ServedResource,
    object: &Value,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    check_limits(&context.api, served, object)?;
    let change = Change {
        subresource: "",
        new: object,
        old: None,
    };
    let on = |plugin| on(&context.api, plugin);
    if on(Plugin::ImagePolicyWebhook) {
        // Boxed: what hardly anybody turns on is not carried by every write.
        Box::pin(image_policy::check(context, served, change)).await?;
    }
    if on(Plugin::PodSecurity) {
        secure(context, served, change, warnings)?;
    }
    optional::check(context, served, change)?;
    match (served.resource.group, served.resource.plural) {
        ("scheduling.k8s.io", "priorityclasses") if on(Plugin::Priority) => {
            check_global_default(&context.api, served, object, true)
        }
        CERTIFICATES => {
            let restricted = on(Plugin::CertificateSubjectRestriction);
            certificates::check_create(served, object, restricted)
        }
        ("", "pods") if on(Plugin::RuntimeClass) => {
            let class = runtime_class(context, served, object).await?;
            rules::check_runtime_class(object, class.as_ref())
                .map_err(|why| refuse(served, object, &why))
        }
        _ => Ok(()),
    }
}

/// Admits an update, through the main resource (`subresource` empty) or another.
///
/// # Errors
/// 403.
pub fn admit_update(
    context: &Context,
    served: &ServedResource,
    subresource: &str,
    new: &mut Value,
    old: &Value,
) -> Result<(), Status> {
    if (served.resource.group, served.resource.plural) == ("", "nodes") {
        return node_restriction::admit_node(context, served, new, Some(old));
    }
    let pods = (served.resource.group, served.resource.plural) == ("", "pods");
    if !pods || !subresource.is_empty() {
        return Ok(());
    }
    let settings = &context.api.config.chain.admission;
    optional::before_priority(context, served, new, Some(old))?;
    if settings.plugins.has(Plugin::Priority) {
        rules::keep_priority(new, old);
    }
    if settings.plugins.has(Plugin::DefaultTolerationSeconds) {
        rules::default_tolerations(new, settings.stay);
    }
    optional::after_tolerations(context, new, Some(old))
}

/// Looks at an update that is otherwise right; `warnings` gets what the client is
/// told.
///
/// # Errors
/// 403.
pub async fn check_update(
    context: &Context,
    served: &ServedResource,
    subresource: &str,
    new: &Value,
    old: &Value,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let api = &context.api;
    node_restriction::check(context, served, subresource, new, Some(old))?;
    if (served.resource.group, served.resource.plural) == CERTIFICATES {
        return certificates::check_update(context, served, subresource, new, old);
    }
    let limited = matches!(
        (served.resource.group, served.resource.plural, subresource),
        ("", "pods", "resize") | ("", "persistentvolumeclaims", "")
    );
    if limited && !meta::is_deleting(old) {
        check_limits(api, served, new)?;
    }
    let change = Change {
        subresource,
        new,
        old: Some(old),
    };
    let on = |plugin| on(api, plugin);
    if on(Plugin::ImagePolicyWebhook) {
        Box::pin(image_policy::check(context, served, change)).await?;
    }
    if on(Plugin::PodSecurity) {
        secure(context, served, change, warnings)?;
    }
    optional::check(context, served, change)?;
    match (served.resource.group, served.resource.plural, subresource) {
        ("scheduling.k8s.io", "priorityclasses", "") if on(Plugin::Priority) => {
            check_global_default(api, served, new, false)
        }
        ("", "persistentvolumeclaims", "") if on(Plugin::PersistentVolumeClaimResize) => {
            let class = rules::growing_claim_class(new, old);
            let Some(class) = class.map_err(|why| refuse(served, new, &why))? else {
                return Ok(());
            };
            let class = value(api, "storage.k8s.io", "storageclasses", class);
            rules::check_growth(class.as_ref()).map_err(|why| refuse(served, new, &why))
        }
        ("", "pods", "" | "resize") => resize::check(context, served, subresource, new, old),
        ("", "pods", "ephemeralcontainers") if on(Plugin::ServiceAccount) => {
            service_account::check_ephemeral(context, served, new)
        }
        _ => Ok(()),
    }
}

/// Looks at the security of a pod, or of the pods that an object will make.
fn secure(
    context: &Context,
    served: &ServedResource,
    change: Change<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    if !pod_security::concerns(served) {
        return Ok(());
    }
    let began = Instant::now();
    let outcome = pod_security::check(context, served, change, warnings);
    let operation = match change.old {
        None => dynamic::Operation::Create,
        Some(_) => dynamic::Operation::Update,
    };
    let counts = &context.api.metrics.admission;
    counts.ended(
        Plugin::PodSecurity,
        Step::Validate,
        operation,
        began,
        outcome,
    )
}

/// Gives a binding the place of its node, which the pod gets from it.
pub fn admit_binding(context: &Context, node: &str, binding: &mut Value) {
    if on(&context.api, Plugin::PodTopologyLabels)
        && let Some(node) = value(&context.api, "", "nodes", node)
    {
        rules::topology_labels(&node, binding);
    }
}

/// Refuses the deletion of what every cluster must have, and of what is none of an
/// agent's business; without a user it is the server itself that deletes.
///
/// # Errors
/// 403.
pub fn admit_delete(
    plugins: Plugins,
    user: Option<&User>,
    served: &ServedResource,
    key: &str,
    object: &Value,
) -> Result<(), Status> {
    let namespaces = (served.resource.group, served.resource.plural) == ("", "namespaces");
    if namespaces && plugins.has(Plugin::NamespaceLifecycle) && IMMORTAL.contains(&name_of(key)) {
        return Err(Status::forbidden(
            "",
            "namespaces",
            name_of(key),
            "this namespace may not be deleted",
        ));
    }
    if plugins.has(Plugin::NodeRestriction) {
        node_restriction::check_delete(user, served, object)?;
    }
    Ok(())
}

/// The namespace of a new object must exist and must not be going; an eviction, a
/// binding and a request for a token are such objects, too.
///
/// # Errors
/// 404 and 403.
pub(crate) async fn living_namespace(
    context: &Context,
    served: &ServedResource,
    object: &Value,
) -> Result<(), Status> {
    if !on(&context.api, Plugin::NamespaceLifecycle) {
        return Ok(());
    }
    let namespace = context.info.namespace.as_str();
    let found = found(&context.api, "", "namespaces", namespace)
        .await?
        .ok_or_else(|| Status::not_found("", "namespaces", namespace))?;
    if found.field("status.phase") != Some("Terminating") {
        return Ok(());
    }
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let mut status = match &*context.info.name {
        "" => refuse(served, object, &why),
        name => Status::forbidden(served.resource.group, served.resource.plural, name, &why),
    };
    if let Some(details) = &mut status.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    Err(status)
}

async fn admit_pod(
    context: &Context,
    served: &ServedResource,
    pod: &mut Value,
) -> Result<(), Status> {
    let api = &context.api;
    let settings = &api.config.chain.admission;
    let on = |plugin| settings.plugins.has(plugin);
    if on(Plugin::LimitRanger) {
        for range in values(api, "", "limitranges", &context.info.namespace)? {
            rules::default_limits(&range, pod);
        }
    }
    if on(Plugin::ServiceAccount) {
        service_account::admit(context, served, pod).await?;
    }
    node_restriction::check(context, served, "", pod, None)?;
    optional::before_priority(context, served, pod, None)?;
    if on(Plugin::Priority) {
        let priority = priority(context, served, pod).await?;
        rules::assign_priority(pod, &priority).map_err(|why| refuse(served, pod, &why))?;
    }
    if on(Plugin::DefaultTolerationSeconds) {
        rules::default_tolerations(pod, settings.stay);
    }
    optional::after_tolerations(context, pod, None)?;
    if on(Plugin::RuntimeClass)
        && let Some(class) = runtime_class(context, served, pod).await?
    {
        rules::apply_runtime_class(pod, &class).map_err(|why| refuse(served, pod, &why))?;
    }
    let node = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
    if on(Plugin::PodTopologyLabels)
        && let Some(node) = value(api, "", "nodes", node)
    {
        rules::topology_labels(&node, pod);
    }
    Ok(())
}

async fn priority(
    context: &Context,
    served: &ServedResource,
    pod: &Value,
) -> Result<rules::Priority, Status> {
    const GROUP: &str = "scheduling.k8s.io";
    let api = &context.api;
    let name = pod
        .str_at(&["spec", "priorityClassName"])
        .unwrap_or_default();
    if name.is_empty() {
        let state = api.resource(GROUP, "priorityclasses")?.cache()?.state();
        // Asked with every pod, and mostly no class is the default.
        let part = |class: &Arc<Cached>| class.pick(&CLASS).map_err(Status::internal);
        let classes: Vec<Value> = state.objects.iter().map(part).collect::<Result<_, _>>()?;
        let default = rules::global_default(classes.iter());
        return Ok(default.map_or_else(rules::Priority::without_class, rules::Priority::from_class));
    }
    match found(api, GROUP, "priorityclasses", name).await? {
        Some(class) => {
            let class = class.value().map_err(Status::internal)?;
            Ok(rules::Priority::from_class(&class))
        }
        None => {
            let why = format!("no PriorityClass with name {name} was found");
            Err(refuse(served, pod, &why))
        }
    }
}

/// The runtime class that a pod names, if it names one.
async fn runtime_class(
    context: &Context,
    served: &ServedResource,
    pod: &Value,
) -> Result<Option<Value>, Status> {
    let Some(name) = pod.str_at(&["spec", "runtimeClassName"]) else {
        return Ok(None);
    };
    match found(&context.api, "node.k8s.io", "runtimeclasses", name).await? {
        Some(class) => Ok(Some(class.value().map_err(Status::internal)?)),
        None => {
            let shown = control_types::status::quote(name);
            let why = format!("pod rejected: RuntimeClass {shown} not found");
            Err(refuse(served, pod, &why))
        }
    }
}

/// Pods and claims must keep to the limits of their namespace.
fn check_limits(api: &Api, served: &ServedResource, object: &Value) -> Result<(), Status> {
    let is_claim = match (served.resource.group, served.resource.plural) {
        ("", "pods") => false,
        ("", "persistentvolumeclaims") => true,
        _ => return Ok(()),
    };
    if !on(api, Plugin::LimitRanger) {
        return Ok(());
    }
    for range in values(api, "", "limitranges", meta::namespace(object))? {
        if let Some(why) = rules::check_limits(&range, object, is_claim) {
            return Err(refuse(served, object, &why));
        }
    }
    Ok(())
}

/// Of all priority classes one at most is the default.
fn check_global_default(
    api: &Api,
    served: &ServedResource,
    class: &Value,
    is_new: bool,
) -> Result<(), Status> {
    if class.bool_at(&["globalDefault"]) != Some(true) {
        return Ok(());
    }
    let classes = values(api, "scheduling.k8s.io", "priorityclasses", "")?;
    match rules::global_default(classes.iter()).map(meta::name) {
        Some(other) if is_new || other != meta::name(class) => {
            let why = format!(
                "PriorityClass {other} is already marked as default. Only one default can exist"
            );
            Err(refuse(served, class, &why))
        }
        _ => Ok(()),
    }
}

/// The answer to a request that a step refuses.
fn refuse(served: &ServedResource, object: &Value, why: &str) -> Status {
    let name = match (meta::name(object), meta::generate_name(object)) {
        ("", "") => "Unknown",
        ("", prefix) => prefix,
        (name, _) => name,
    };
    Status::forbidden(served.resource.group, served.resource.plural, name, why)
}

/// An object that a request names, which may have been made a moment ago: one that the caches
/// lack is looked for again when they are as new as the store.
async fn found(
    api: &Api,
    group: &str,
    plural: &str,
    key: &str,
) -> Result<Option<Arc<Cached>>, Status> {
    if let Some(found) = api.cached(group, plural, key) {
        return Ok(Some(found));
    }
    api.catch_up().await?;
    Ok(api.cached(group, plural, key))
}

/// A cached object as a tree; one that cannot be read counts as missing.
fn value(api: &Api, group: &str, plural: &str, key: &str) -> Option<Value> {
    if key.is_empty() {
        return None;
    }
    api.cached(group, plural, key)?.value().ok()
}

/// All cached objects of a resource, of one namespace if that is named.
fn values(api: &Api, group: &str, plural: &str, namespace: &str) -> Result<Vec<Value>, Status> {
    values_of(api.resource(group, plural)?, namespace)
}

/// All cached objects of a resource in a namespace, or in all of them if it is empty.
fn values_of(served: &ServedResource, namespace: &str) -> Result<Vec<Value>, Status> {
    let state = served.cache()?.state();
    let tree = |object: &Arc<Cached>| object.value().map_err(Status::internal);
    if namespace.is_empty() {
        return state.objects.iter().map(tree).collect();
    }
    let prefix = format!("{namespace}/");
    state.objects.prefixed(&prefix).map(tree).collect()
}
