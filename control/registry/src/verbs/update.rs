//! PUT: an object replaced.

use std::sync::Arc;
use std::time::Instant;

use control_admission::{self as admission, Attributes, Operation, RequestOptions, Step};
use control_kinds::FieldError;
use control_kinds::quota::Charge;
use control_types::meta;
use control_types::status::{Cause, Status};
use control_types::value::Value;

use crate::allocate::HeldPorts;
use crate::context::Context;
use crate::escalation;
use crate::managed::{self, Endpoint};
use crate::owners::{self, AdmissionStage};
use crate::reply::{self, Answer};
use crate::served_resource::ServedResource;
use crate::verbs::create;
use crate::write::{Current, Decision};
use control_request::body::Body;
use control_request::negotiate::Format;
use control_request::options::{WriteOptions, why_no_number};
use control_request::plain_error;
use control_strategy::decode::{self, ExpectedKind};
use control_strategy::{invalid, name_of};

/// Answers an update of the main resource.
///
/// # Errors
/// Whatever forbids the change.
pub async fn update(context: &Context, served: &Arc<ServedResource>, body: Body) -> Answer {
    through(context, served, "", body).await
}

/// Answers an update of the main resource, or of a subresource that holds the
/// whole object (`status`, `resize`, …).
///
/// # Errors
/// Whatever forbids the change.
pub async fn through(
    context: &Context,
    served: &Arc<ServedResource>,
    subresource: &str,
    body: Body,
) -> Answer {
    let format = Format::negotiate(&context.parts.headers, context.query())?;
    let options = WriteOptions::parse(context.query(), "UpdateOptions", false)?;
    let decoded = decode::object(
        &context.parts.headers,
        body,
        served.expected(),
        options.field_validation,
    )
    .await?;
    context.warnings.extend(decoded.warnings);
    context.tell_sent(served, &decoded.object);
    let mut object = decoded.object;
    check_name(context, served, &mut object)?;
    let key = served.key(&context.info.namespace, &context.info.name);

    let creatable = subresource.is_empty() && served.kind.facts().allow_create_on_update;
    if creatable && meta::resource_version(&object).is_empty() {
        context.registry.catch_up().await?;
        if served.cache()?.get(&key).is_none() {
            let object =
                create::store(context, served, object, &options, create::Managers::Writer).await?;
            reply::acceptable_for_one(served.resource, format)?;
            let shaped = reply::shaped(object, &served.kind, format);
            return Ok(reply::value(201, &shaped, format));
        }
    }
    served.kind.default(&mut object);
    context
        .warnings
        .extend(owners::dedup(&mut object, AdmissionStage::Sent));
    let change = Change {
        context,
        served,
        subresource,
        options: &options,
        writer: Some(managed::manager_of(context, &options)),
        view: None,
    };
    let done = change.store(&key, |_| Ok(object.clone())).await?;
    reply::acceptable_for_one(served.resource, format)?;
    let shaped = reply::shaped(done, &served.kind, format);
    Ok(reply::value(200, &shaped, format))
}

/// Name and namespace of the body must be those of the path.
pub fn check_name(
    context: &Context,
    served: &ServedResource,
    object: &mut Value,
) -> Result<(), Status> {
    if served.resource.namespaced {
        let wanted = context.info.namespace.as_str();
        match meta::namespace(object) {
            "" => meta::set_namespace(object, wanted),
            namespace if namespace == wanted => {}
            _ => {
                return Err(Status::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
        }
    }
    let wanted = context.info.name.as_str();
    match meta::name(object) {
        "" => {
            return Err(Status::bad_request(format!(
                "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
            )));
        }
        name if name == wanted => {}
        name => {
            return Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({wanted})"
            )));
        }
    }
    Ok(())
}

/// The change of one object, whatever verb asks for it.
pub struct Change<'a> {
    /// The request.
    pub context: &'a Context,
    /// The resource.
    pub served: &'a Arc<ServedResource>,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// What the request says besides the object.
    pub options: &'a WriteOptions,
    /// The manager that is to own what changes; none when the new object comes
    /// with its `managedFields`.
    pub writer: Option<String>,
    /// What is written in place of the whole object, if it is not that.
    pub view: Option<&'a (dyn View + Sync)>,
}

/// A part of an object that is written as an object of a kind of its own.
pub trait View {
    /// The subresource.
    fn subresource(&self) -> &'static str;

    /// The kind.
    fn kind(&self) -> ExpectedKind<'_>;

    /// What an object shows.
    fn of(&self, object: &Value) -> Value;

    /// As [`View::of`], with what tells who owns its fields.
    ///
    /// # Errors
    /// When the owners cannot be read.
    fn with_owners(&self, object: &Value) -> Result<Value, Status>;

    /// The object with what was written.
    ///
    /// # Errors
    /// When that may not be written.
    fn put(&self, view: &Value, object: &Value) -> Result<Value, Status>;
}

/// What taking a decision brings besides it.
#[derive(Default)]
struct UpdateEffects {
    warnings: Vec<String>,
    allocation: Option<crate::allocate::Allocation>,
    /// What quotas must give before the decision is carried out.
    charges: Vec<Charge>,
    /// Others were faster with node ports: the decision is to be taken anew.
    again: bool,
}

impl Change<'_> {
    /// Stores what `make` makes of the present object (in the version that is
    /// served; decoded and defaulted). Answers the object as it is then.
    ///
    /// # Errors
    /// 404, conflicts, and whatever forbids the change.
    pub async fn store(
        &self,
        key: &str,
        mut make: impl FnMut(&Value) -> Result<Value, Status>,
    ) -> Result<Value, Status> {
        let Self {
            context, served, ..
        } = *self;
        let registry = &context.registry;
        let dry_run = self.options.dry_run;
        let ttl = (served.resource.plural == "events").then_some(create::EVENTS);
        let mut modification = registry.begin(served, key, dry_run, ttl).await?;
        let mut held = registry.allocators.hold(&registry.storage);
        if registry.admission.is_dynamic(&self.attributes()) {
            // Whoever is asked costs more than to read what others may have written.
            modification.confirm().await?;
        }
        let mut gathered;
        let done = loop {
            gathered = UpdateEffects::default();
            let decided = match modification.current() {
                Some(current) => {
                    self.decide(key, current, &mut make, &mut held, &mut gathered)
                        .await
                }
                None => Err(served.not_found(key)),
            };
            if gathered.again {
                modification.again().await?;
                continue;
            }
            if let (Ok(Decision::Put(new) | Decision::Delete(new)), false) =
                (&decided, gathered.charges.is_empty())
            {
                // Nothing is taken for what is known to be decided anew.
                if !modification.confirm().await? {
                    continue;
                }
                let (quota, attributes) = (&registry.admission.quota, self.attributes());
                let charged = quota.charge(&attributes, new, &gathered.charges);
                if let Err(status) = charged.await {
                    break Err(status);
                }
            }
            match modification.commit_decision(decided).await {
                Ok(None) => {}
                Ok(Some(done)) => break Ok(done),
                Err(status) => break Err(status),
            }
        };
        context.warnings.extend(gathered.warnings);
        let done = done?;
        if let Some(mut allocation) = gathered.allocation.filter(|_| !dry_run) {
            allocation.hold(held);
            allocation.keep(registry, &done.object).await;
        }
        if done.deleted && !dry_run {
            registry
                .allocators
                .deleted(registry, served, &done.object)
                .await;
        }
        let mut object = done.object;
        crate::convert::as_read(registry, &mut object, served).await?;
        Ok(object)
    }

    fn attributes(&self) -> Attributes<'_> {
        let (kind, subresource) = match self.view {
            Some(view) => (view.kind(), view.subresource()),
            None => (self.served.expected(), self.subresource),
        };
        let (context, version) = (self.context, &self.served.version);
        Attributes {
            options: RequestOptions::Update(self.options),
            dry_run: self.options.dry_run,
            ..context.admission(version, Operation::Update, kind, subresource)
        }
    }

    /// All mutating admission of what is written over `old`.
    async fn admit(&self, new: &mut Value, old: &Value) -> Result<(), Status> {
        let admission = &self.context.registry.admission;
        admission.admit(&self.attributes(), new, Some(old)).await
    }

    async fn decide(
        &self,
        key: &str,
        current: Current,
        make: &mut impl FnMut(&Value) -> Result<Value, Status>,
        held: &mut HeldPorts,
        gathered: &mut UpdateEffects,
    ) -> Result<Decision, Status> {
        let Self {
            context, served, ..
        } = *self;
        let mut old = current.object;
        if !served.is_form_of_tree(&old) {
            crate::convert::to_version(&context.registry, &mut old, served).await?;
        }
        served.form().complete(&mut old);
        let mut new;
        if let Some(view) = self.view {
            let shown = view.with_owners(&old)?;
            let mut written = make(&shown)?;
            self.admit(&mut written, &shown).await?;
            new = view.put(&written, &old)?;
        } else {
            new = make(&old)?;
            if let Some(writer) = &self.writer {
                Endpoint::for_resource(&context.registry, served, self.subresource).write(
                    Some(&old),
                    &mut new,
                    writer,
                );
            }
            self.admit(&mut new, &old).await?;
            gathered
                .warnings
                .extend(owners::dedup(&mut new, AdmissionStage::Admitted));
            // Whoever changed the object may have moved it.
            create::check_namespace(context, served, &mut new)?;
        }
        escalation::check(context, served, &new, Some(&old))?;
        self.check_version(key, &new, &old)?;
        if matches!(meta::resource_version(&new), "" | "0") {
            // An update of whatever version there is: from here on, of this one.
            meta::set_resource_version(&mut new, meta::resource_version(&old));
        }
        if !self.options.dry_run {
            // The store drops it; nothing else does.
            meta::metadata_mut(&mut new).remove("selfLink");
        }
        if self.subresource.is_empty() {
            let allocators = &context.registry.allocators;
            let (ports, dry_run) = (held.ports(), self.options.dry_run);
            let given = allocators.update(
                &context.registry.storage,
                served,
                &mut new,
                &old,
                ports,
                dry_run,
            );
            gathered.allocation = Some(given.await?);
        }
        // Changes are told from what was stored, which is complete.
        served.form().complete(&mut new);
        let errors = self.prepare(&mut new, &old)?;
        if !errors.is_empty() {
            if self.subresource.is_empty() {
                let warnings = served.kind.warnings_of_refused(&new, &old, &errors);
                gathered.warnings.extend(warnings);
            }
            return Err(invalid::status(
                served.resource.group,
                served.resource.kind,
                name_of(key),
                &errors,
            ));
        }
        if self.subresource.is_empty() {
            let warnings = served.kind.warnings(&new, Some(&old));
            gathered.warnings.extend(warnings);
        }
        let warnings = &mut gathered.warnings;
        let began = Instant::now();
        let chain = &context.registry.admission;
        // Of a view, the built-in plugins look at the whole object.
        let attributes = Attributes {
            subresource: self.subresource,
            ..self.attributes()
        };
        let change = admission::Change {
            new: &new,
            old: Some(&old),
        };
        let mut admitted = chain.validate(&attributes, change, warnings).await;
        if admitted.is_ok() {
            admitted = self.validate(&new, &old).await;
        }
        chain.counted(&attributes, Step::Validate, began, admitted)?;
        if let Some(allocation) = gathered
            .allocation
            .as_ref()
            .filter(|_| !self.options.dry_run)
        {
            let ports = allocation.ports_beyond(held);
            if !ports.is_empty() && !held.take(&ports).await? {
                gathered.again = true;
                return Err(Status::internal("node ports were given to others"));
            }
        }
        gathered.charges = chain.quota.assess(&attributes, change).await?;
        if is_finished(&new) {
            return Ok(Decision::Delete(new));
        }
        served.form().complete(&mut new);
        // What changes nothing is not written, whatever the order of members.
        meta::set_resource_version(&mut new, meta::resource_version(&old));
        managed::keep_times(&mut new, &old);
        if new == old {
            return Ok(Decision::Keep(old));
        }
        Ok(Decision::Put(new))
    }

    /// Lets policies and webhooks look at what is written.
    async fn validate(&self, new: &Value, old: &Value) -> Result<(), Status> {
        let (attributes, chain) = (self.attributes(), &self.context.registry.admission);
        match self.view {
            Some(view) if chain.is_dynamic(&attributes) => {
                let (new, old) = (view.of(new), view.of(old));
                let validated = chain.validate_dynamic(&attributes, Some(&new), Some(&old));
                validated.await
            }
            Some(_) => Ok(()),
            None => {
                let validated = chain.validate_dynamic(&attributes, Some(new), Some(old));
                validated.await
            }
        }
    }

    fn prepare(&self, new: &mut Value, old: &Value) -> Result<Vec<FieldError>, Status> {
        if self.subresource.is_empty() {
            return Ok(self.served.kind.before_update(new, old));
        }
        self.served
            .kind
            .before_subresource_update(self.subresource, new, old)
            .ok_or_else(Status::unknown_path)
    }

    /// The resource version and uid that a client names must be the present ones.
    fn check_version(&self, key: &str, new: &Value, old: &Value) -> Result<(), Status> {
        let resource = self.served.resource;
        let given = meta::resource_version(new);
        let uid = meta::uid(new);
        // A patched uid is a change of the object, which validation refuses.
        if !uid.is_empty() && uid != meta::uid(old) && self.context.info.verb != "patch" {
            let stored = self.served.store_key(key)?;
            // A dry run does not get as far as where all keys begin alike.
            let stored = match stored.strip_prefix(b"/registry") {
                Some(rest) if self.options.dry_run => rest,
                _ => &stored,
            };
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                String::from_utf8_lossy(stored),
                meta::uid(old)
            );
            return Err(self.served.conflict(key, &why));
        }
        if given.is_empty() || given == "0" {
            if self.served.kind.facts().allow_unconditional_update {
                return Ok(());
            }
            let cause = Cause {
                reason: "FieldValueInvalid".into(),
                message: "Invalid value: 0: must be specified for an update".into(),
                field: "metadata.resourceVersion".into(),
            };
            // The store speaks, which knows plurals and no kinds.
            return Err(Status::invalid(
                resource.group,
                resource.plural,
                name_of(key),
                vec![cause],
            ));
        }
        if let Err(error) = given.parse::<u64>() {
            return Err(plain_error(format!(
                "strconv.ParseUint: parsing {}: {}",
                control_types::status::quote(given),
                why_no_number(&error)
            )));
        }
        if given != meta::resource_version(old) {
            return Err(Status::modified(
                resource.group,
                resource.plural,
                name_of(key),
            ));
        }
        Ok(())
    }
}

/// Whether an object that was to be deleted has nothing left to wait for.
#[must_use]
pub fn is_finished(object: &Value) -> bool {
    meta::is_deleting(object)
        && meta::finalizers(object).next().is_none()
        && meta::deletion_grace_period_seconds(object).unwrap_or_default() == 0
        && (meta::kind(object) != "Namespace"
            || object.items_at(&["spec", "finalizers"]).is_empty())
}
