//! Groups that are only read: their objects are made of those of other resources.

use std::sync::{Arc, OnceLock};

use control_kinds::Kind;
use control_types::registry::{Resource, Storage as StoredVersion};
use control_types::status::Status;
use control_types::value;
use control_types::value::Value;
use http::Method;

use control_aggregation::LocalVersion;
use control_registry::reply::{self, Answer};
use control_registry::{Context, Projection, ServedResource, Storage, verbs};
use control_request::{RequestInfo, negotiate};
use control_strategy::ServedVersion;

/// A group in its only version.
pub(crate) struct ProjectedGroup {
    pub group: &'static str,
    pub version: &'static str,
    /// Both.
    pub api_version: &'static str,
    pub resources: &'static [&'static ProjectedResource],
}

/// A resource whose objects are made of those of another.
pub(crate) struct ProjectedResource {
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub namespaced: bool,
    pub verbs: &'static [&'static str],
    pub strategy: &'static Kind,
    /// The plural of the core resource that it is made of.
    pub source: &'static str,
    pub project: Projection,
    /// Set when it is first served.
    pub described: OnceLock<Resource>,
}

/// A group with its resources, as far as those that they are made of are served.
pub(crate) struct ServedProjections {
    group: &'static ProjectedGroup,
    resources: Vec<Arc<ServedResource>>,
}

// === impl ProjectedResource ===

impl ProjectedResource {
    /// The resource, of which the objects are those of `source`.
    fn serve(&'static self, group: &ProjectedGroup, source: &ServedResource) -> ServedResource {
        let of = source.resource;
        let resource = self.described.get_or_init(|| Resource {
            group: group.group,
            version: group.version,
            kind: self.kind,
            plural: self.plural,
            singular: self.singular,
            short_names: &[],
            categories: &[],
            namespaced: self.namespaced,
            verbs: self.verbs,
            subresources: &[],
            storage_version_hash: "",
            storage: StoredVersion {
                group: of.storage.group,
                version: of.storage.version,
            },
            schema: of.schema,
            list_schema: of.list_schema,
            returns_deleted: false,
        });
        ServedResource {
            version: Arc::new(ServedVersion::new(
                resource,
                self.strategy.into(),
                source.stored_as,
            )),
            cache: source.cache.clone(),
            converter: None,
            projection: Some(self.project),
        }
    }
}

// === impl ProjectedGroup ===

impl ProjectedGroup {
    /// Returns the group's resources, projected from those that `storage` serves.
    pub(crate) fn serve(&'static self, storage: &Storage) -> ServedProjections {
        let served = self.resources.iter().filter_map(|one| {
            let source = storage.served("", "v1", one.source)?;
            Some(Arc::new(one.serve(self, &source)))
        });
        ServedProjections {
            group: self,
            resources: served.collect(),
        }
    }

    /// The version for discovery, in the aggregated form.
    pub(crate) fn local_version(&self) -> LocalVersion {
        let (group, version) = (self.group, self.version);
        let resources = self.resources.iter().map(|one| {
            value!({
                "resource": (one.plural),
                "responseKind": {"group": group, "version": version, "kind": (one.kind)},
                "scope": (if one.namespaced { "Namespaced" } else { "Cluster" }),
                "singularResource": (one.singular), "verbs": (one.verbs)
            })
        });
        let resources: Value = resources.collect();
        LocalVersion {
            group,
            version,
            entry: value!({"version": version, "resources": resources, "freshness": "Current"}),
        }
    }

    fn resource_list(&self) -> Value {
        let resources = self.resources.iter().map(|one| {
            value!({
                "name": (one.plural), "singularName": (one.singular),
                "namespaced": (one.namespaced), "kind": (one.kind), "verbs": (one.verbs)
            })
        });
        let resources: Value = resources.collect();
        value!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": (self.api_version),
            "resources": resources
        })
    }
}

// === impl ServedProjections ===

impl ServedProjections {
    /// Whether a request is about the group's version.
    pub(crate) fn is_for(&self, info: &RequestInfo) -> bool {
        if info.is_resource {
            return info.group == self.group.group && info.version == self.group.version;
        }
        let path = info.path.trim_end_matches('/');
        path.strip_prefix("/apis/") == Some(self.group.api_version)
    }

    /// Answers a request that [is about the group's version](Self::is_for).
    ///
    /// # Errors
    /// 405 for what is not read in this way, 404 for paths that are not served; else those of
    /// the verbs.
    pub(crate) async fn answer(&self, mut context: Context) -> Answer {
        if context.parts.method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        if !context.info.is_resource {
            let list = self.group.resource_list().to_vec();
            return Ok(reply::json(200, reply::line(&list)));
        }
        let info = &context.info;
        let mut resources = self.resources.iter();
        let served = resources.find(|served| served.resource.plural == info.resource);
        let is_served = info.subresource.is_empty() && info.rest.is_empty();
        let Some(served) = served.filter(|_| is_served) else {
            return Err(Status::unknown_path());
        };
        if info.name_in_path && !served.resource.verbs.contains(&"get") {
            return Err(Status::method_not_allowed());
        }
        if info.name_in_path && served.resource.namespaced && info.namespace.is_empty() {
            return Err(Status::unknown_path());
        }
        let verb = info.verb;
        // There is no message for it in protobuf.
        negotiate::without_protobuf(&mut context.request.parts.headers);
        negotiate::acceptable(&context.parts.headers, verb != "get")?;
        match verb {
            "get" => verbs::get::get(&context, served).await,
            "list" => verbs::list::list(&context, served).await,
            "watch" => verbs::watch::watch(&context, served).await,
            _ => Err(Status::method_not_allowed()),
        }
    }
}
