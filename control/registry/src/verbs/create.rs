//! POST: a new object.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control_admission::{Attributes, Change, Operation, Plugin, RequestOptions, Step};
use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;

use crate::certificate_requests;
use crate::context::Context;
use crate::escalation;
use crate::managed::{self, Endpoint};
use crate::owners::{self, AdmissionStage};
use crate::reply::{self, Answer};
use crate::served_resource::ServedResource;
use control_request::body::Body;
use control_request::negotiate::Format;
use control_request::options::WriteOptions;
use control_request::plain_error;
use control_strategy::{decode, invalid, names};

/// How often a generated name is tried anew.
const NAMES: usize = 8;
/// How long events are kept.
pub const EVENTS: Duration = Duration::from_secs(3600);

/// Answers a create.
///
/// # Errors
/// Whatever forbids the object.
pub async fn create(context: &Context, served: &Arc<ServedResource>, body: Body) -> Answer {
    let format = Format::negotiate(&context.parts.headers, context.query())?;
    let options = WriteOptions::parse(context.query(), "CreateOptions", false)?;
    let decoded = decode::object(
        &context.parts.headers,
        body,
        served.expected(),
        options.field_validation,
    )
    .await?;
    context.warnings.extend(decoded.warnings);
    context.tell_sent(served, &decoded.object);
    let object = store(context, served, decoded.object, &options, Managers::Writer).await?;
    reply::acceptable_for_one(served.resource, format)?;
    Ok(reply::value(
        201,
        &reply::shaped(object, &served.kind, format),
        format,
    ))
}

/// Where the `managedFields` of a new object come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Managers {
    /// The request's manager is to own what it writes.
    Writer,
    /// They are in the object already.
    Given,
}

/// All that happens to a decoded object until it is stored. Answers the object
/// with its resource version.
///
/// # Errors
/// Whatever forbids the object.
pub async fn store(
    context: &Context,
    served: &Arc<ServedResource>,
    mut object: Value,
    options: &WriteOptions,
    managers: Managers,
) -> Result<Value, Status> {
    if served
        .kind
        .crd_versions()
        .is_some_and(|family| family.is_terminating())
    {
        return Err(Status::forbidden(
            served.resource.group,
            served.resource.plural,
            meta::name(&object),
            "create not allowed while custom resource definition is terminating",
        ));
    }
    wipe(&mut object);
    let namespace = check_namespace(context, served, &mut object)?;
    let given = meta::name(&object).to_owned();
    served.kind.default(&mut object);
    if managers == Managers::Writer {
        context
            .warnings
            .extend(owners::dedup(&mut object, AdmissionStage::Sent));
        let name = managed::manager_of(context, options);
        Endpoint::for_resource(&context.registry, served, "").write(None, &mut object, &name);
    }
    let attributes = Attributes {
        namespace: match (&*namespace, served.resource.plural) {
            ("", "namespaces") => &given,
            (namespace, _) => namespace,
        },
        name: &given,
        options: RequestOptions::Create(options),
        dry_run: options.dry_run,
        ..context.admission(&served.version, Operation::Create, served.expected(), "")
    };
    if certificate_requests::are_of(served) {
        certificate_requests::set_requester(&context.user, &mut object);
    }
    // Until then it has no name: that is how stock tells of it.
    let admission = &context.registry.admission;
    admission.admit(&attributes, &mut object, None).await?;
    context
        .warnings
        .extend(owners::dedup(&mut object, AdmissionStage::Admitted));
    // Whoever changed the object may have moved it, or made it claim a version.
    check_namespace(context, served, &mut object)?;
    // One that was applied is not about any version.
    let version = match managers {
        Managers::Writer => meta::resource_version(&object).to_owned(),
        Managers::Given => String::new(),
    };
    escalation::check(context, served, &object, None)?;
    let prefix = if given.is_empty() {
        meta::generate_name(&object).to_owned()
    } else {
        String::new()
    };
    let generates = !meta::generate_name(&object).is_empty();
    // Only a name that was generated is tried again.
    let mut template = object;
    for attempt in 1.. {
        let mut object = if prefix.is_empty() {
            std::mem::take(&mut template)
        } else {
            template.clone()
        };
        if !prefix.is_empty() {
            meta::set_name(&mut object, &names::generate_name(&prefix));
        }
        fill_metadata(&mut object);
        let allocation = context
            .registry
            .allocators
            .create(
                &context.registry.storage,
                served,
                &mut object,
                options.dry_run,
            )
            .await?;
        let name = meta::name(&object).to_owned();
        let place = RequestedMeta {
            namespace: &namespace,
            given: &given,
            version: &version,
        };
        let attributes = Attributes {
            name: &name,
            ..attributes
        };
        match store_one(context, served, &attributes, object, place).await {
            Ok(stored) if options.dry_run => return Ok(stored),
            Ok(stored) => {
                allocation.keep(&context.registry, &stored).await;
                return Ok(stored);
            }
            Err(status) => {
                allocation.release().await;
                if status.reason != "AlreadyExists" || !generates {
                    return Err(status);
                }
                if attempt >= NAMES || prefix.is_empty() || options.dry_run {
                    return Err(Status::generate_name_conflict(
                        served.resource.group,
                        served.resource.plural,
                        &name,
                    ));
                }
            }
        }
    }
    Err(Status::internal("no name was found"))
}

/// What a request says of a new object besides the object.
struct RequestedMeta<'a> {
    namespace: &'a str,
    /// The name that it came with; empty for a generated one.
    given: &'a str,
    /// The resource version that it came with.
    version: &'a str,
}

/// Checks and stores an object that has all it gets.
async fn store_one(
    context: &Context,
    served: &ServedResource,
    attributes: &Attributes<'_>,
    mut object: Value,
    place: RequestedMeta<'_>,
) -> Result<Value, Status> {
    let admission = &context.registry.admission;
    let errors = served.kind.before_create(&mut object);
    if !errors.is_empty() {
        return Err(invalid::status(
            served.resource.group,
            served.resource.kind,
            place.given,
            &errors,
        ));
    }
    if context.info.verb != "create" {
        context.must_be_allowed("create").await?;
    }
    if certificate_requests::are_of(served) {
        certificate_requests::check(served, &object)?;
    }
    let mut warnings = served.kind.warnings(&object, None);
    let began = Instant::now();
    let change = Change {
        new: &object,
        old: None,
    };
    let mut admitted = admission.validate(attributes, change, &mut warnings).await;
    context.warnings.extend(warnings);
    served.form().complete(&mut object);
    if admitted.is_ok() {
        let dynamic = admission.validate_dynamic(attributes, Some(&object), None);
        admitted = dynamic.await;
    }
    admission.counted(attributes, Step::Validate, began, admitted)?;
    let name = meta::name(&object).to_owned();
    let key = served.key(place.namespace, &name);
    // Last of all: nothing is taken for what is refused anyway.
    let charges = admission.quota.assess_new(attributes, &object).await?;
    if attributes.dry_run {
        if served.cache()?.get(&key).is_some() {
            return Err(taken(
                served,
                &key,
                Status::already_exists(served.resource.group, served.resource.plural, &name),
            ));
        }
        crate::convert::can_be_stored(&context.registry, &object, served).await?;
        meta::set_resource_version(&mut object, place.version);
        return Ok(object);
    }
    // Only what is stored must not claim a version.
    if place
        .version
        .parse::<u64>()
        .is_ok_and(|version| version != 0)
    {
        return Err(plain_error(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    // A name that is taken takes nothing from a quota. The cache may not know of it yet.
    if !charges.is_empty() && !context.registry.is_stored(served, &key).await? {
        let began = Instant::now();
        let charged = admission.quota.charge(attributes, &object, &charges).await;
        let durations = &attributes.metrics.durations;
        let (plugin, operation) = (Plugin::ResourceQuota, attributes.operation);
        durations.ended(plugin, Step::Validate, operation, began, charged)?;
    }
    let ttl = (served.resource.plural == "events").then_some(EVENTS);
    let stored = context.registry.store_new(served, &key, object, ttl).await;
    let mut stored = stored.map_err(|status| taken(served, &key, status))?;
    if served.converter().is_none() {
        crate::convert::as_read(&context.registry, &mut stored, served).await?;
    }
    Ok(stored)
}

/// An answer that a name is taken also says when its owner is on its way out.
fn taken(served: &ServedResource, key: &str, mut status: Status) -> Status {
    if status.reason == "AlreadyExists"
        && let Ok(cache) = served.cache()
        && let Some(there) = cache.get(key)
        && there.value().is_ok_and(|there| meta::is_deleting(&there))
    {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// The namespace of the request, also set in the object.
pub fn check_namespace(
    context: &Context,
    served: &ServedResource,
    object: &mut Value,
) -> Result<String, Status> {
    if !served.resource.namespaced {
        meta::set_namespace(object, "");
        return Ok(String::new());
    }
    let wanted = context.info.namespace.as_str();
    match meta::namespace(object) {
        "" => meta::set_namespace(object, wanted),
        given if given == wanted => {}
        _ => {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    Ok(wanted.to_owned())
}

/// Drops what only the system may set.
fn wipe(object: &mut Value) {
    let metadata = meta::metadata_mut(object);
    for field in [
        "selfLink",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        metadata.remove(field);
    }
}

/// What the system sets in a new object.
fn fill_metadata(object: &mut Value) {
    meta::metadata_mut(object).remove("resourceVersion");
    meta::set_uid(object, &uuid::Uuid::new_v4().to_string());
    meta::set_creation_timestamp(object, jiff::Timestamp::now());
}
