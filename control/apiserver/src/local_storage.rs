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

use std::sync::OnceLock;

use control_kinds::local_storage;
use control_types::meta;
use control_types::value::Value;

use crate::projected_group::{ProjectedGroup, ProjectedResource};
use control_watch_cache::{CacheEntry, DecodeError};

const API_VERSION: &str = "storage.orlop.dev/v1alpha1";
const VERBS: &[&str] = &["list", "watch"];

pub(crate) static STORAGE: ProjectedGroup = ProjectedGroup {
    group: "storage.orlop.dev",
    version: "v1alpha1",
    api_version: API_VERSION,
    resources: &[&CLAIM, &VOLUME],
};

static CLAIM: ProjectedResource = ProjectedResource {
    kind: "LocalClaim",
    plural: "localclaims",
    singular: "localclaim",
    namespaced: true,
    verbs: VERBS,
    strategy: &local_storage::LOCAL_CLAIM,
    source: "persistentvolumeclaims",
    project: project_claim,
    described: OnceLock::new(),
};

static VOLUME: ProjectedResource = ProjectedResource {
    kind: "LocalVolume",
    plural: "localvolumes",
    singular: "localvolume",
    namespaced: false,
    verbs: VERBS,
    strategy: &local_storage::LOCAL_VOLUME,
    source: "persistentvolumes",
    project: project_volume,
    described: OnceLock::new(),
};

fn project_claim(claim: &CacheEntry) -> Result<Value, DecodeError> {
    projected(claim, CLAIM.kind)
}

fn project_volume(volume: &CacheEntry) -> Result<Value, DecodeError> {
    projected(volume, VOLUME.kind)
}

fn projected(object: &CacheEntry, kind: &'static str) -> Result<Value, DecodeError> {
    let mut object = object.value()?;
    object.remove_path(&["metadata", "managedFields"]);
    meta::set_type(&mut object, API_VERSION, kind);
    Ok(object)
}
