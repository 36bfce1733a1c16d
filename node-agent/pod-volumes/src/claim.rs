//! What a claim stands for: pure, over the claim and the volume that it is
//! bound to.

use std::path::{Component, Path};

use node_agent_objects::claim::{CsiVolume, PersistentVolume, VolumeClaim};
use node_agent_objects::pod::Pod;
use node_agent_objects::quantity;
use node_agent_objects::source::ReadError;
use node_agent_objects::volume::{HostPath, Volume, VolumeSource};
use serde_json::{Value, json};

/// Why a pod cannot use a claim, in the kubelet's words.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The claim or its volume cannot be read.
    #[error(transparent)]
    Read(ReadError),
    /// The claim of an ephemeral volume belongs to something else.
    #[error("PVC {namespace}/{claim} was not created for pod {namespace}/{pod} (pod is not owner)")]
    NotOwner {
        /// The namespace of both.
        namespace: String,
        /// The claim.
        claim: String,
        /// The pod.
        pod: String,
    },
    /// The claim is on its way out.
    #[error("PVC is being deleted")]
    Deleted,
    /// The claim has no volume yet.
    #[error("PVC is not bound")]
    Unbound,
    /// The claim does not name its volume.
    #[error("PVC has empty pvc.Spec.VolumeName")]
    NoVolumeName,
    /// The volume is not bound to any claim.
    #[error(
        "found PV object {0} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
    )]
    NoClaimRef(String),
    /// The volume is bound to another claim.
    #[error(
        "found PV object {volume} but its pv.Spec.ClaimRef.UID {bound} does not point to claim.UID {claim}"
    )]
    OtherClaim {
        /// The persistent volume.
        volume: String,
        /// The uid of the claim that it is bound to.
        bound: String,
        /// The uid of the pod's claim.
        claim: String,
    },
    /// A container uses a device as a file system, or the reverse.
    #[error("volume {volume} has volumeMode {mode}, but is specified in {field}")]
    Mode {
        /// The pod's volume.
        volume: String,
        /// `Block` or `Filesystem`.
        mode: String,
        /// The container's field.
        field: &'static str,
    },
    /// The path of a local volume is relative or leads upwards.
    #[error("invalid path: {0}")]
    Path(String),
    /// A kind of volume that this agent does not mount.
    #[error(
        "persistent volumes of kind `{0}` are not supported by this node; use a CSI driver, local or hostPath"
    )]
    Unsupported(String),
}

/// The volume that a claim is bound to, and where its data is.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundClaim {
    /// Name of the persistent volume.
    pub name: String,
    /// Where it is.
    pub place: DataLocation,
    /// Whether the pod may only read it.
    pub read_only: bool,
    /// Whether it is a block device and no file system.
    pub block: bool,
    /// Options of the mount.
    pub options: Vec<String>,
    /// Group that all containers get for it (`pv.beta.kubernetes.io/gid`).
    pub group: Option<i64>,
    /// The kinds of access that the volume is for.
    pub access_modes: Vec<String>,
}

/// The location of a volume's data.
#[derive(Clone, Debug, PartialEq)]
pub enum DataLocation {
    /// At a path of the node, used as it is.
    HostPath(HostPath),
    /// At a path of the node, mounted for each pod.
    Local(String),
    /// With a driver.
    Csi(CsiVolume),
}

/// The claim that a volume of a pod is of.
#[must_use]
pub fn name(pod: &Pod, volume: &Volume) -> Option<String> {
    match &volume.source {
        VolumeSource::Claim(claim) => Some(claim.claim_name.clone()),
        VolumeSource::Ephemeral => Some(format!("{}-{}", pod.name(), volume.name)),
        _ => None,
    }
}

/// Checks that the pod may use the claim.
///
/// # Errors
/// Why not.
pub fn check(pod: &Pod, volume: &Volume, claim: &VolumeClaim) -> Result<(), ClaimError> {
    if volume.source == VolumeSource::Ephemeral {
        let owned = claim
            .metadata
            .owner_references
            .iter()
            .any(|owner| owner.uid == pod.uid() && owner.is_controller());
        if !owned {
            return Err(ClaimError::NotOwner {
                namespace: pod.namespace().to_owned(),
                claim: claim.metadata.name.to_string(),
                pod: pod.name().to_owned(),
            });
        }
    }
    let protected = claim
        .metadata
        .finalizers
        .iter()
        .any(|f| f == "kubernetes.io/pvc-protection");
    if claim.metadata.deletion_timestamp.is_some() && !protected {
        return Err(ClaimError::Deleted);
    }
    if claim.status.phase != "Bound" {
        return Err(ClaimError::Unbound);
    }
    if claim.spec.volume_name.is_empty() {
        return Err(ClaimError::NoVolumeName);
    }
    Ok(())
}

/// Where the data of a claim is that may be used.
///
/// # Errors
/// Why it cannot be used.
pub fn resolve(
    pod: &Pod,
    volume: &Volume,
    claim: &VolumeClaim,
    bound: &PersistentVolume,
) -> Result<BoundClaim, ClaimError> {
    let name = bound.metadata.name.to_string();
    match &bound.spec.claim_ref {
        None => return Err(ClaimError::NoClaimRef(name)),
        Some(reference) if reference.uid != claim.metadata.uid => {
            return Err(ClaimError::OtherClaim {
                volume: name,
                bound: reference.uid.clone(),
                claim: claim.metadata.uid.to_string(),
            });
        }
        Some(_) => {}
    }
    let mode = bound.spec.volume_mode.as_deref().unwrap_or("Filesystem");
    let block = mode == "Block";
    let mut containers = pod.spec.all_containers();
    let misused = if block {
        containers
            .any(|c| c.volume_mounts.iter().any(|m| m.name == volume.name))
            .then_some("volumeMounts")
    } else {
        containers
            .any(|c| c.volume_devices.iter().any(|d| d.name == volume.name))
            .then_some("volumeDevices")
    };
    if let Some(field) = misused {
        return Err(ClaimError::Mode {
            volume: volume.name.clone(),
            mode: mode.to_owned(),
            field,
        });
    }
    let place = if let Some(host) = &bound.spec.host_path {
        DataLocation::HostPath(host.clone())
    } else if let Some(local) = &bound.spec.local {
        let path = Path::new(&local.path);
        if !path.is_absolute() || path.components().any(|c| c == Component::ParentDir) {
            return Err(ClaimError::Path(local.path.clone()));
        }
        DataLocation::Local(local.path.clone())
    } else if let Some(csi) = &bound.spec.csi {
        DataLocation::Csi(csi.clone())
    } else {
        let known = [
            "nodeAffinity",
            "persistentVolumeReclaimPolicy",
            "storageClassName",
            "volumeAttributesClassName",
        ];
        let kind = bound
            .spec
            .rest
            .keys()
            .find(|k| !known.contains(&k.as_str()));
        return Err(ClaimError::Unsupported(kind.cloned().unwrap_or_default()));
    };
    let of_claim = matches!(&volume.source, VolumeSource::Claim(c) if c.read_only);
    Ok(BoundClaim {
        name,
        read_only: of_claim || matches!(&place, DataLocation::Csi(csi) if csi.read_only),
        place,
        block,
        options: bound.spec.mount_options.clone(),
        group: bound
            .metadata
            .annotations
            .get("pv.beta.kubernetes.io/gid")
            .and_then(|gid| gid.parse().ok()),
        access_modes: bound.spec.access_modes.clone(),
    })
}

/// How large the volume of a claim has become, in bytes and as written, when
/// its file system has not taken that yet.
#[must_use]
pub fn growth(claim: &VolumeClaim, bound: &PersistentVolume) -> Option<(i64, String)> {
    let size = bound.spec.capacity.get("storage")?;
    let bytes = quantity::whole(size)?;
    let before = quantity::whole(claim.status.capacity.get("storage")?)?;
    (bytes > before).then(|| (bytes, size.clone()))
}

/// What is to be told of a claim whose file system has grown to `size`: a merge
/// of its status, on the condition that nobody else changed it.
#[must_use]
pub fn grown(claim: &VolumeClaim, size: &str) -> Value {
    const OVER: [&str; 4] = [
        "Resizing",
        "FileSystemResizePending",
        "ControllerResizeError",
        "NodeResizeError",
    ];
    let conditions: Vec<&Value> = claim
        .status
        .conditions
        .iter()
        .filter(|c| c["type"].as_str().is_none_or(|kind| !OVER.contains(&kind)))
        .collect();
    json!({
        "metadata": {"resourceVersion": claim.metadata.resource_version},
        "status": {
            "capacity": {"storage": size},
            "allocatedResourceStatuses": {"storage": null},
            "conditions": conditions,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "db", "namespace": "a", "uid": "u"},
            "spec": {
                "containers": [{"name": "c", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}],
                "volumes": [
                    {"name": "data", "persistentVolumeClaim": {"claimName": "data-db", "readOnly": true}},
                    {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {}}}]}}))
        .unwrap()
    }

    fn claim(changes: &Value) -> VolumeClaim {
        let mut object = json!({
            "metadata": {"name": "data-db", "namespace": "a", "uid": "c1"},
            "spec": {"volumeName": "pv1"}, "status": {"phase": "Bound"}});
        merge(&mut object, changes);
        serde_json::from_value(object).unwrap()
    }

    fn bound(changes: &Value) -> PersistentVolume {
        let mut object = json!({
            "metadata": {"name": "pv1"},
            "spec": {"claimRef": {"uid": "c1"}, "storageClassName": "x", "local": {"path": "/mnt/d"}}});
        merge(&mut object, changes);
        serde_json::from_value(object).unwrap()
    }

    fn merge(into: &mut Value, from: &Value) {
        let Some(from) = from.as_object() else {
            *into = from.clone();
            return;
        };
        for (key, value) in from {
            merge(&mut into[key], value);
        }
    }

    #[test]
    fn a_claim_is_used_only_bound_and_not_on_its_way_out() {
        let pod = pod();
        let said = |changes: Value| {
            let checked = check(&pod, &pod.spec.volumes[0], &claim(&changes));
            checked.err().map(|error| error.to_string())
        };
        assert_eq!(said(json!({})), None);
        assert_eq!(
            said(json!({"status": {"phase": "Pending"}})).as_deref(),
            Some("PVC is not bound")
        );
        let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(said(going).as_deref(), Some("PVC is being deleted"));
        let kept = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["kubernetes.io/pvc-protection"]}});
        assert_eq!(said(kept), None);
    }

    #[test]
    fn an_ephemeral_volumes_claim_has_to_be_the_pods_own() {
        let pod = pod();
        let volume = &pod.spec.volumes[1];
        assert_eq!(name(&pod, volume).as_deref(), Some("db-tmp"));
        let other = check(&pod, volume, &claim(&json!({})));
        assert!(other.unwrap_err().to_string().contains("pod is not owner"));
        let own = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod",
            "name": "db", "uid": "u", "controller": true}]}});
        assert!(check(&pod, volume, &claim(&own)).is_ok());
    }

    #[test]
    fn a_file_system_grows_with_its_volume_and_the_claim_says_so() {
        let of = |size: &str| {
            claim(&json!({"metadata": {"resourceVersion": "5"}, "status": {
                "capacity": {"storage": size},
                "conditions": [{"type": "FileSystemResizePending"}, {"type": "Other"}]}}))
        };
        let volume = bound(&json!({"spec": {"capacity": {"storage": "2Gi"}}}));
        assert_eq!(
            growth(&of("1Gi"), &volume),
            Some((2 << 30, "2Gi".to_owned()))
        );
        assert_eq!(growth(&of("2048Mi"), &volume), None);
        assert_eq!(growth(&of("3Gi"), &volume), None);
        let patch = grown(&of("1Gi"), "2Gi");
        assert_eq!(patch["status"]["capacity"]["storage"], "2Gi");
        assert_eq!(patch["status"]["conditions"], json!([{"type": "Other"}]));
        assert_eq!(patch["metadata"]["resourceVersion"], "5");
    }

    #[test]
    fn a_volume_of_another_claim_or_another_mode_or_an_unknown_kind_is_refused() {
        let pod = pod();
        let found = |changes: Value| {
            resolve(
                &pod,
                &pod.spec.volumes[0],
                &claim(&json!({})),
                &bound(&changes),
            )
        };
        let good = found(json!({})).unwrap();
        assert_eq!(good.place, DataLocation::Local("/mnt/d".to_owned()));
        assert!(good.read_only && !good.block);
        let cases = [
            (json!({"spec": {"claimRef": {"uid": "c2"}}}), "claim.UID c1"),
            (
                json!({"spec": {"volumeMode": "Block"}}),
                "specified in volumeMounts",
            ),
            (
                json!({"spec": {"local": {"path": "/mnt/../etc"}}}),
                "invalid path",
            ),
            (
                json!({"spec": {"local": null, "nfs": {"server": "s"}}}),
                "kind `nfs`",
            ),
        ];
        for (changes, wanted) in cases {
            let said = found(changes).unwrap_err().to_string();
            assert!(said.contains(wanted), "{said}");
        }
    }
}
