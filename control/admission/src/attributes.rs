//! What a request is about, as admission sees it.

use std::sync::Arc;

use control_request::RequestContext;
use control_request::options::{DeleteOptions, WriteOptions};
use control_strategy::ServedVersion;
use control_strategy::decode::ExpectedKind;
use control_types::meta;
use control_types::status::Status;
use control_types::value;
use control_types::value::Value;

use crate::cluster::Cluster;
use crate::metrics::AdmissionMetrics;
use crate::operation::Operation;

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

/// What a request is about. The objects go beside it, for they change on the way.
#[derive(Clone, Copy)]
pub struct Attributes<'a> {
    /// The objects and resources around the request.
    pub cluster: &'a dyn Cluster,
    /// Counters of admission.
    pub metrics: &'a AdmissionMetrics,
    /// The request: who asks, and what is to be told to the client and the audit log.
    pub context: &'a RequestContext,
    /// The resource that is asked.
    pub served: &'a Arc<ServedVersion>,
    /// The operation.
    pub operation: Operation,
    /// The kind of the objects: that of the resource, or of the subresource.
    pub kind: ExpectedKind<'a>,
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

impl std::fmt::Debug for Attributes<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Attributes")
            .field("served", &self.served)
            .field("operation", &self.operation)
            .field("subresource", &self.subresource)
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Attributes<'_> {
    /// Whether the request is about a resource, by group and plural.
    #[must_use]
    pub fn is_for(&self, group: &str, plural: &str) -> bool {
        let resource = self.served.resource;
        (resource.group, resource.plural) == (group, plural)
    }

    /// Whether the request is about the content of a namespace. Questions about rights are not:
    /// their answer must not tell whether the namespace exists.
    pub(crate) fn is_in_namespace(&self) -> bool {
        let resource = self.served.resource;
        resource.namespaced && resource.group != "authorization.k8s.io"
    }

    /// Returns the answer to a request that a plugin refuses.
    #[must_use]
    pub fn refuse(&self, object: &Value, why: impl AsRef<str>) -> Status {
        let name = match (meta::name(object), meta::generate_name(object)) {
            ("", "") => "Unknown",
            ("", prefix) => prefix,
            (name, _) => name,
        };
        let resource = self.served.resource;
        Status::forbidden(resource.group, resource.plural, name, why.as_ref())
    }

    /// Returns the value of a namespace's annotation, of the namespace that the request names.
    pub(crate) fn namespace_annotation(&self, key: &str) -> Option<String> {
        let namespace = &*self.context.info.namespace;
        let tree = self
            .cluster
            .get("", "namespaces", namespace)?
            .value()
            .ok()?;
        meta::annotation(&tree, key).map(str::to_owned)
    }

    /// Returns the options as an object, null where there are none.
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
            // Only the value of the request, not the default.
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
