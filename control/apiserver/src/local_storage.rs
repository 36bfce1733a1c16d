//! `storage.orlop.dev/v1alpha1` LocalClaim and LocalVolume: what a node's driver reads of
//! claims and volumes.
//!
//! An agent makes volumes for the claims for which its node was selected, and deletes and
//! grows the volumes that are on its node. It needs to follow these, and no others: the
//! node authorizer allows a node to list and watch both with the field selector
//! `spec.nodeName=NODE` alone. Each is the PersistentVolumeClaim or PersistentVolume of
//! the same name, with its fields and its resource version, and is written there.
//!
//! | resource | `spec.nodeName` of the selector |
//! | --- | --- |
//! | `localclaims` | the annotation `volume.kubernetes.io/selected-node` |
//! | `localvolumes` | the node of a volume of `csi.orlop.dev` that is on one node |

use std::sync::{Arc, OnceLock};

use control_kinds::{Kind, local_storage};
use control_types::meta;
use control_types::registry::{Resource, Storage};
use control_types::status::Status;
use control_types::value;
use control_types::value::Value;
use http::Method;

use crate::chain::Context;
use crate::pod_endpoints;
use control_registry::reply::{self, Answer};
use control_registry::{Projection, ServedResource};
use control_request::RequestInfo;
use control_strategy::ServedVersion;
use control_watch_cache::{Cached, DecodeError};

/// The group.
pub(crate) const GROUP: &str = "storage.orlop.dev";
/// Its version.
pub(crate) const VERSION: &str = "v1alpha1";
const API_VERSION: &str = "storage.orlop.dev/v1alpha1";
const VERBS: &[&str] = &["list", "watch"];
const CLAIMS: Names = Names {
    kind: &local_storage::LOCAL_CLAIM,
    plural: "localclaims",
    singular: "localclaim",
    scope: "Namespaced",
};
const VOLUMES: Names = Names {
    kind: &local_storage::LOCAL_VOLUME,
    plural: "localvolumes",
    singular: "localvolume",
    scope: "Cluster",
};

struct Names {
    kind: &'static Kind,
    plural: &'static str,
    singular: &'static str,
    scope: &'static str,
}

/// Both resources.
pub(crate) struct LocalStorage {
    claims: Arc<ServedResource>,
    volumes: Arc<ServedResource>,
}

impl LocalStorage {
    /// The resources, of which the objects are those of `claims` and `volumes`.
    pub fn of(claims: &ServedResource, volumes: &ServedResource) -> Self {
        static RESOURCES: [OnceLock<Resource>; 2] = [OnceLock::new(), OnceLock::new()];
        let [of_claims, of_volumes] = &RESOURCES;
        Self {
            claims: Arc::new(served(&CLAIMS, claims, of_claims, project_claim)),
            volumes: Arc::new(served(&VOLUMES, volumes, of_volumes, project_volume)),
        }
    }

    fn named(&self, plural: &str) -> Option<&Arc<ServedResource>> {
        let mut both = [&self.claims, &self.volumes].into_iter();
        both.find(|served| served.resource.plural == plural)
    }
}

fn served(
    names: &Names,
    of: &ServedResource,
    resource: &'static OnceLock<Resource>,
    projection: Projection,
) -> ServedResource {
    let resource = resource.get_or_init(|| Resource {
        group: GROUP,
        version: VERSION,
        kind: names.kind.kind,
        plural: names.plural,
        singular: names.singular,
        short_names: &[],
        categories: &[],
        namespaced: names.kind.namespaced == Some(true),
        verbs: VERBS,
        subresources: &[],
        storage_version_hash: "",
        storage: Storage {
            group: of.resource.storage.group,
            version: of.resource.storage.version,
        },
        schema: of.resource.schema,
        list_schema: of.resource.list_schema,
        returns_deleted: false,
    });
    ServedResource {
        version: Arc::new(ServedVersion::new(
            resource,
            names.kind.into(),
            of.stored_as,
        )),
        cache: of.cache.clone(),
        converter: None,
        projection: Some(projection),
    }
}

/// Returns the entry of the version in aggregated discovery.
pub(crate) fn entry() -> Value {
    let resource = |names: &Names| {
        let kind = names.kind.kind;
        value!({
            "resource": (names.plural), "singularResource": (names.singular),
            "responseKind": {"group": GROUP, "version": VERSION, "kind": kind},
            "scope": (names.scope), "verbs": VERBS
        })
    };
    value!({
        "version": VERSION,
        "resources": [(resource(&CLAIMS)), (resource(&VOLUMES))],
        "freshness": "Current"
    })
}

fn resource_list() -> Value {
    let resource = |names: &Names| {
        let namespaced = names.kind.namespaced == Some(true);
        value!({
            "name": (names.plural), "singularName": (names.singular),
            "namespaced": namespaced, "kind": (names.kind.kind), "verbs": VERBS
        })
    };
    value!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION,
        "resources": [(resource(&CLAIMS)), (resource(&VOLUMES))]
    })
}

/// Whether a request is about the group's version.
pub(crate) fn is_for(info: &RequestInfo) -> bool {
    if info.is_resource {
        return info.group == GROUP && info.version == VERSION;
    }
    let path = info.path.trim_end_matches('/');
    path.strip_prefix("/apis/") == Some(API_VERSION)
}

/// Answers a request that [is about the group's version](is_for).
///
/// # Errors
/// 405 for what is no list or watch, 404 for paths that are not served; else those of the
/// verbs.
pub(crate) async fn answer(context: Context) -> Answer {
    if context.parts.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    if !context.info.is_resource {
        return Ok(reply::json(200, reply::line(&resource_list().to_vec())));
    }
    let info = &context.info;
    let local = context.api.local_storage.as_ref();
    let served = local.and_then(|local| local.named(&info.resource));
    let is_served = info.subresource.is_empty() && info.rest.is_empty();
    let Some(served) = served.filter(|_| is_served).map(Arc::clone) else {
        return Err(Status::unknown_path());
    };
    if info.name_in_path {
        return Err(Status::method_not_allowed());
    }
    pod_endpoints::read(context, &served).await
}

fn project_claim(claim: &Cached) -> Result<Value, DecodeError> {
    projected(claim, CLAIMS.kind)
}

fn project_volume(volume: &Cached) -> Result<Value, DecodeError> {
    projected(volume, VOLUMES.kind)
}

fn projected(object: &Cached, kind: &Kind) -> Result<Value, DecodeError> {
    let mut object = object.value()?;
    object.remove_path(&["metadata", "managedFields"]);
    meta::set_type(&mut object, API_VERSION, kind.kind);
    Ok(object)
}
