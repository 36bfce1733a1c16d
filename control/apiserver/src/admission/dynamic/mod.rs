//! Dynamic admission: what users themselves have a say in, by policies and webhooks.
//!
//! Every write passes through [`mutate`], behind all built-in steps that may change
//! the object, and through [`validate`], behind all that only look; only quotas come
//! later (the order of `AllOrderedPlugins` of kube-apiserver 1.36). Each lets policies
//! speak first, then webhooks. Where nothing is configured this costs a few loads of
//! pointers.

pub mod bypass;
pub mod equivalents;
pub mod managers;
pub mod matching;
pub mod policies;
pub mod source;
pub mod webhooks;

use std::sync::Arc;
use std::time::Instant;

use control_types::status::Status;
use control_types::value;
use control_types::value::Value;

use crate::admission::{Plugin, Step, on};
use crate::api::ServedResource;
use crate::chain::Context;
use control_proxy::egress::Egress;
use control_request::options::{DeleteOptions, WriteOptions};
use control_strategy::decode::Expected;
use control_watch_cache::{Cached, ResourceCache};
use policies::Policies;

pub use webhooks::Webhooks;

/// The group of policies and webhook configurations.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A new object.
    Create,
    /// Another state of an object.
    Update,
    /// No object any more.
    Delete,
    /// Streams to what an object stands for.
    Connect,
}

impl Operation {
    /// As rules and reviews write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The options of a request, whatever it does.
#[derive(Clone, Copy, Debug)]
pub enum RequestOptions<'a> {
    /// `CreateOptions`
    Create(&'a WriteOptions),
    /// `UpdateOptions`, also of a patch.
    Update(&'a WriteOptions),
    /// `DeleteOptions`
    Delete(&'a DeleteOptions),
    /// Connections have none.
    None,
}

/// What a request is about, as policies and webhooks see it. The objects go beside
/// it, for they change on the way.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The request: who asks, and what is to be told to the client and the audit log.
    pub context: &'a Context,
    /// The resource that is asked.
    pub served: &'a Arc<ServedResource>,
    /// What is done.
    pub operation: Operation,
    /// The kind of the objects: that of the resource, or of the subresource.
    pub kind: Expected<'a>,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace; of a namespace itself its name; else empty.
    pub namespace: &'a str,
    /// The object's name; empty while it has none, and for collections.
    pub name: &'a str,
    /// The options.
    pub options: RequestOptions<'a>,
    /// Whether nothing is stored.
    pub dry_run: bool,
}

/// What mutating admission remembers from one round to the next.
#[derive(Debug, Default)]
pub struct Rounds {
    again: bool,
    second: bool,
    managers: Option<Value>,
    policies: policies::Repetition,
    webhooks: webhooks::Memory,
}

impl Attributes<'_> {
    /// Counts how long admission, or a plugin's part in it, took since `began`; gives
    /// its outcome back.
    pub(crate) fn counted<T, E>(
        &self,
        plugin: impl Into<Option<Plugin>>,
        step: Step,
        began: Instant,
        outcome: Result<T, E>,
    ) -> Result<T, E> {
        let counts = &self.context.api.metrics.admission;
        counts.ended(plugin, step, self.operation, began, outcome)
    }
}

impl Rounds {
    /// Whether all steps are asked for the second time.
    #[must_use]
    pub fn is_reinvocation(&self) -> bool {
        self.second
    }

    /// Asks for a second round: somebody changed the object whose change others may
    /// want to see. There is no third.
    pub fn ask_again(&mut self) {
        self.again = true;
    }

    fn next(&mut self) -> bool {
        let next = self.again && !self.second;
        self.second |= next;
        next
    }
}

/// What is configured.
#[derive(Debug)]
pub struct Dynamic {
    /// Everything that may be configured, to know quickly that nothing is.
    configured: Box<[Arc<ResourceCache>]>,
    namespaces: Option<Arc<ResourceCache>>,
    policies: Option<Policies>,
    webhooks: Webhooks,
}

impl Dynamic {
    /// `cache` finds the cache of a resource by its group and plural.
    pub(crate) fn new(
        cache: impl Fn(&str, &str) -> Option<Arc<ResourceCache>>,
        egress: &Egress,
    ) -> Self {
        let configured = [
            "mutatingadmissionpolicybindings",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
        ];
        Self {
            configured: configured
                .into_iter()
                .filter_map(|plural| cache(GROUP, plural))
                .collect(),
            namespaces: cache("", "namespaces"),
            policies: Policies::new(|plural| cache(GROUP, plural)),
            webhooks: Webhooks::new(|plural| cache(GROUP, plural), egress),
        }
    }

    /// A namespace, as it is known here.
    #[must_use]
    pub fn namespace(&self, name: &str) -> Option<Arc<Cached>> {
        self.namespaces.as_ref()?.get(name)
    }

    fn is_empty(&self) -> bool {
        self.configured.iter().all(|cache| cache.is_empty())
    }
}

// === impl Attributes ===

impl Attributes<'_> {
    /// Whether anybody could have a say.
    #[must_use]
    pub fn is_looked_at(&self) -> bool {
        let api = &self.context.api;
        (!api.dynamic.is_empty() && !self.is_exempt()) || on(api, Plugin::AlwaysDeny)
    }

    /// Policies and webhooks have no say about themselves: else one that forbids
    /// everything could not be taken away.
    fn is_exempt(&self) -> bool {
        self.kind.group == GROUP
            && matches!(
                self.kind.kind,
                "ValidatingWebhookConfiguration"
                    | "MutatingWebhookConfiguration"
                    | "ValidatingAdmissionPolicy"
                    | "ValidatingAdmissionPolicyBinding"
                    | "MutatingAdmissionPolicy"
                    | "MutatingAdmissionPolicyBinding"
            )
    }

    /// The options as an object, null where there are none.
    #[must_use]
    pub fn options_value(&self) -> Value {
        let of = |kind: &str| value!({"kind": (kind), "apiVersion": "meta.k8s.io/v1"});
        let write = |kind: &str, options: &WriteOptions| {
            let mut object = of(kind);
            if options.dry_run {
                object.insert("dryRun", value!(["All"]));
            }
            if !options.field_manager.is_empty() {
                object.insert("fieldManager", options.field_manager.as_str());
            }
            // Only what was said, not what holds without a word.
            if let Some(said) = self.context.query_value("fieldValidation") {
                object.insert("fieldValidation", said);
            }
            object
        };
        match self.options {
            RequestOptions::Create(options) => write("CreateOptions", options),
            RequestOptions::Update(options) => write("UpdateOptions", options),
            RequestOptions::Delete(options) => {
                let mut object = of("DeleteOptions");
                if let Some(seconds) = options.grace_period_seconds {
                    object.insert("gracePeriodSeconds", seconds);
                }
                let mut preconditions = Value::object();
                if let Some(uid) = &options.uid {
                    preconditions.insert("uid", uid.as_str());
                }
                if let Some(version) = &options.resource_version {
                    preconditions.insert("resourceVersion", version.as_str());
                }
                if preconditions.as_object().is_some_and(|map| !map.is_empty()) {
                    object.insert("preconditions", preconditions);
                }
                if let Some(orphan) = options.orphan_dependents {
                    object.insert("orphanDependents", orphan);
                }
                if let Some(policy) = &options.propagation_policy {
                    object.insert("propagationPolicy", policy.as_str());
                }
                if options.dry_run {
                    object.insert("dryRun", value!(["All"]));
                }
                object
            }
            RequestOptions::None => Value::Null,
        }
    }
}

/// Lets policies and webhooks change a new object (`old` is none), a new state of an
/// object, or look at what is deleted or connected to. Tells whether all mutating
/// steps, the built-in ones before this included, are to be gone through once more.
///
/// # Errors
/// Whatever they refuse.
pub async fn mutate(
    attributes: &Attributes<'_>,
    mut object: Option<&mut Value>,
    old: Option<&Value>,
    rounds: &mut Rounds,
) -> Result<bool, Status> {
    if !attributes.is_looked_at() {
        return Ok(false);
    }
    if bypass::is_granted(attributes.context)? {
        bypass::tell(attributes.context);
        return Ok(false);
    }
    if let Some(object) = object.as_deref()
        && !rounds.second
    {
        rounds.managers = object.path(&managers::LIST).cloned();
    }
    Box::pin(all_mutating(attributes, object.as_deref_mut(), old, rounds)).await?;
    if rounds.next() {
        return Ok(true);
    }
    if let Some(object) = object {
        let warning = managers::restore(object, rounds.managers.take());
        attributes.context.warnings.extend(warning);
    }
    Ok(false)
}

/// As [`mutate`], for what has no built-in steps.
///
/// # Errors
/// Whatever is refused.
pub async fn mutate_alone(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    let mut rounds = Rounds::default();
    while mutate(attributes, Some(object), None, &mut rounds).await? {}
    Ok(())
}

/// Lets policies and webhooks look at what is to be done.
///
/// # Errors
/// Whatever they refuse.
pub async fn validate(
    attributes: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), Status> {
    if !attributes.is_looked_at() || bypass::is_granted(attributes.context)? {
        return Ok(());
    }
    Box::pin(all_validating(attributes, object, old)).await
}

/// First policies, then webhooks.
async fn all_mutating(
    attributes: &Attributes<'_>,
    mut object: Option<&mut Value>,
    old: Option<&Value>,
    rounds: &mut Rounds,
) -> Result<(), Status> {
    let api = &attributes.context.api;
    if on(api, Plugin::MutatingAdmissionPolicy)
        && let Some(policies) = &api.dynamic.policies
    {
        let began = Instant::now();
        let outcome = policies
            .mutate(attributes, object.as_deref_mut(), old, rounds)
            .await;
        attributes.counted(Plugin::MutatingAdmissionPolicy, Step::Admit, began, outcome)?;
    }
    if on(api, Plugin::MutatingAdmissionWebhook) {
        let began = Instant::now();
        let outcome = webhooks::mutate(attributes, object, old, rounds).await;
        attributes.counted(
            Plugin::MutatingAdmissionWebhook,
            Step::Admit,
            began,
            outcome,
        )?;
    }
    always_deny(attributes)
}

/// First policies, then webhooks.
async fn all_validating(
    attributes: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), Status> {
    let api = &attributes.context.api;
    if on(api, Plugin::ValidatingAdmissionPolicy)
        && let Some(policies) = &api.dynamic.policies
    {
        let began = Instant::now();
        let outcome = policies.validate(attributes, object, old).await;
        let plugin = Plugin::ValidatingAdmissionPolicy;
        attributes.counted(plugin, Step::Validate, began, outcome)?;
    }
    if on(api, Plugin::ValidatingAdmissionWebhook) {
        let began = Instant::now();
        let outcome = webhooks::validate(attributes, object, old).await;
        let plugin = Plugin::ValidatingAdmissionWebhook;
        attributes.counted(plugin, Step::Validate, began, outcome)?;
    }
    Ok(())
}

/// `AlwaysDeny`: nothing is admitted, last of all.
fn always_deny(attributes: &Attributes<'_>) -> Result<(), Status> {
    if !on(&attributes.context.api, Plugin::AlwaysDeny) {
        return Ok(());
    }
    let resource = attributes.served.resource;
    let why = "admission control is denying all modifications";
    let name = match attributes.name {
        "" => "Unknown",
        name => name,
    };
    Err(Status::forbidden(
        resource.group,
        resource.plural,
        name,
        why,
    ))
}
