//! Who owns which field: ties `control_fields` to the resources that are served.

use std::sync::{Mutex, PoisonError};

use control_fields::manager::{self, ApplyError, Writer};
use control_fields::update::Versions;
use control_fields::{Filter, Schema};
use control_types::status::{Cause, Details, Status};
use control_types::value::{Map, Value};
use control_types::{coerce, meta, registry, time};
use http::header::USER_AGENT;

use crate::served_resource::ServedResource;
use crate::storage::Storage;
use control_request::options::WriteOptions;
use control_request::{RequestContext, plain_error};
use control_strategy::ObjectSchema;
use control_strategy::decode::ExpectedKind;

/// The manager of what the server makes by itself.
pub const OWN: &str = "kube-apiserver";

/// What is written through one endpoint, as far as ownership goes.
pub struct Endpoint<'a> {
    storage: &'a Storage,
    /// Plural within its group, for conversion; empty where there is one version.
    plural: &'static str,
    group: &'static str,
    kind: &'static str,
    version: String,
    form: ObjectSchema<'a>,
    served: Option<&'a ServedResource>,
    subresource: &'a str,
    filter: Option<Filter>,
    /// Why an object could not be converted.
    failed: Mutex<Option<Status>>,
}

/// The name under which a request writes.
#[must_use]
pub fn manager_of(context: &RequestContext, options: &WriteOptions) -> String {
    if !options.field_manager.is_empty() {
        return options.field_manager.clone();
    }
    let agent = context.parts.headers.get(USER_AGENT);
    let agent = agent.map(|value| String::from_utf8_lossy(value.as_bytes()));
    manager::name_of_agent(&agent.unwrap_or_default())
}

impl<'a> Endpoint<'a> {
    /// A resource, or a subresource of it that holds the whole object.
    #[must_use]
    pub fn for_resource(
        storage: &'a Storage,
        served: &'a ServedResource,
        subresource: &'a str,
    ) -> Self {
        let resource = served.resource;
        let filter = served
            .kind
            .reset(resource.group, resource.kind, subresource);
        Self {
            storage,
            plural: resource.plural,
            group: resource.group,
            kind: resource.kind,
            version: served.api_version.clone(),
            form: served.form(),
            served: Some(served),
            subresource,
            filter,
            failed: Mutex::default(),
        }
    }

    /// A subresource that has a kind of its own.
    #[must_use]
    pub fn own_kind(
        storage: &'a Storage,
        expected: ExpectedKind<'a>,
        subresource: &'a str,
    ) -> Self {
        Self {
            storage,
            plural: "",
            group: expected.group,
            kind: expected.kind,
            version: meta::join_api_version(expected.group, expected.version).to_string(),
            form: expected.form,
            served: None,
            subresource,
            filter: None,
            failed: Mutex::default(),
        }
    }

    fn writer<'w>(&'w self, name: &'w str, now: &'w str) -> Writer<'w> {
        Writer {
            name,
            api_version: &self.version,
            kind: self.kind,
            subresource: self.subresource,
            now,
        }
    }

    /// Sets the managers of an object that is written by another verb than
    /// apply; `live` is what it was. Both are decoded and defaulted.
    pub fn write(&self, live: Option<&Value>, new: &mut Value, name: &str) {
        self.form.fill(new);
        let now = time::now();
        let writer = self.writer(name, &now);
        match live {
            Some(live) => manager::update(self, live, new, &writer),
            None => manager::update(self, &self.empty(), new, &writer),
        }
        if let Some(status) = self.failure() {
            // Who owns what cannot be told now: nobody loses anything over that.
            tracing::warn!(%status, "owners of fields stay as they are");
            let before = live.and_then(|live| live.path(&["metadata", "managedFields"]));
            let metadata = meta::metadata_mut(new);
            match before.cloned() {
                Some(before) => metadata.insert("managedFields", before),
                None => metadata.remove("managedFields"),
            };
        }
    }

    fn failure(&self) -> Option<Status> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.take()
    }

    /// Applies a configuration; the object that results is still to be decoded.
    ///
    /// # Errors
    /// 409 for conflicts, 400 and 500 for what is wrong with the configuration.
    pub fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        name: &str,
        force: bool,
    ) -> Result<Value, Status> {
        let now = time::now();
        let writer = self.writer(name, &now);
        let result = match live {
            Some(live) => manager::apply(self, live, config, &writer, force),
            None => manager::apply(self, &self.empty(), config, &writer, force),
        };
        if let Some(status) = self.failure() {
            return Err(status);
        }
        result.map_err(status_of)
    }
}

/// What stock answers for an apply that fails.
fn status_of(error: ApplyError) -> Status {
    match error {
        ApplyError::Conflicts { message, causes } => {
            let mut status = Status::conflict("", "", "", "");
            status.message = message;
            status.details = Some(Details {
                causes: causes
                    .into_iter()
                    .map(|(message, field)| Cause {
                        reason: "FieldManagerConflict".into(),
                        message,
                        field,
                    })
                    .collect(),
                ..Details::default()
            });
            status
        }
        ApplyError::BadRequest(message) => Status::bad_request(message),
        ApplyError::Failed(message) => plain_error(message),
    }
}

/// Takes back times that changed though nothing else did: such a write is none.
pub fn keep_times(new: &mut Value, old: &Value) {
    const LIST: [&str; 2] = ["metadata", "managedFields"];
    let (Some(after), Some(before)) = (new.path(&LIST), old.path(&LIST)) else {
        return;
    };
    let (Some(left), Some(right)) = (after.as_array(), before.as_array()) else {
        return;
    };
    if left.len() != right.len() || left == right {
        return;
    }
    let rest_differs = |left: &Value, right: &Value| {
        let rest = |entry: &Value| {
            let members = entry.as_object().map_or(&[][..], Map::as_slice);
            members.iter().filter(|(key, _)| key != "time").count()
        };
        rest(left) != rest(right)
            || left.as_object().is_none_or(|members| {
                members
                    .iter()
                    .any(|(key, value)| key != "time" && right.get(key) != Some(value))
            })
    };
    if left
        .iter()
        .zip(right)
        .any(|(left, right)| rest_differs(left, right))
    {
        return;
    }
    let before = before.clone();
    let Some(slot) = new.path_mut(&LIST) else {
        return;
    };
    let after = std::mem::replace(slot, before);
    if *new != *old
        && let Some(slot) = new.path_mut(&LIST)
    {
        *slot = after;
    }
}

// === impl Endpoint ===

impl Versions for Endpoint<'_> {
    fn schema(&self, version: &str) -> Option<Schema<'_>> {
        if version == self.version {
            return Some(self.form.schema());
        }
        let (group, version) = meta::split_api_version(version);
        if let Some(versions) = self.served.and_then(|served| served.kind.crd_versions()) {
            let kind = versions
                .version(version)
                .filter(|kind| kind.group == group)?;
            return Some(Schema::Custom(kind.schema()));
        }
        self.storage.served(group, version, self.plural)?;
        registry::schema_of(group, version, self.kind).map(Schema::Struct)
    }

    fn convert(&self, object: &Value, from: &str, to: &str) -> Option<Value> {
        if let Some(versions) = self.served.and_then(|served| served.kind.crd_versions()) {
            let (group, version) = meta::split_api_version(to);
            let kind = versions
                .version(version)
                .filter(|kind| kind.group == group)?;
            let mut object = object.clone();
            if let Some(converter) = self.served.and_then(ServedResource::converter) {
                match converter.one_now(self.storage, object, to) {
                    Ok(converted) => object = converted,
                    Err(status) => {
                        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                        failed.get_or_insert(status);
                        return None;
                    }
                }
            }
            kind.convert(&mut object);
            return Some(object);
        }
        let served = |version| {
            let (group, version) = meta::split_api_version(version);
            self.storage.served(group, version, self.plural)
        };
        let (from, to) = (served(from)?, served(to)?);
        let mut object = object.clone();
        if !from.is_stored_form() {
            control_strategy::convert::to_stored(&mut object, from.resource);
        }
        if !to.is_stored_form() {
            to.convert_by_tables(&mut object).ok()?;
        }
        coerce::coerce(&mut object, to.resource.schema).ok()?;
        coerce::complete(&mut object, to.resource.schema);
        Some(object)
    }

    fn filter(&self, version: &str) -> Option<&Filter> {
        let (group, _) = meta::split_api_version(version);
        self.filter.as_ref().filter(|_| group == self.group)
    }

    fn empty(&self) -> Value {
        self.form.empty()
    }
}
