//! Volumes of a pod.

use control_types::value::Value;

use super::container::{
    VOLUME_FIELDS, descending_path, field_ref, no_backsteps, resource_field_ref,
};
use super::vendor_volumes::{self, SourceParent};
use super::{claims, container, names, one_of, quantity};
use crate::error::{Errors, Path};
use crate::tree::Read;

const MODE_TEXT: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const HOST_PATH_TYPES: &[&str] = &[
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// The owner of these volumes.
#[derive(Clone, Copy)]
pub(crate) struct VolumesOwner<'a> {
    /// Name of the pod; "" for a template.
    pub(crate) name: &'a str,
    /// Whether it is a pod rather than a template.
    pub(crate) pod: bool,
}

/// The volumes of a pod; `owner` is its name, for the claims that it makes.
///
/// Answers those that mounts may name: a volume with an error is none.
pub(crate) fn volumes<'a>(
    list: &'a [Value],
    owner: VolumesOwner<'_>,
    all: &Path<'_>,
    errors: &mut Errors,
) -> Vec<&'a Value> {
    let mut good: Vec<&Value> = Vec::new();
    for (i, volume) in list.iter().enumerate() {
        let at = all.index(i);
        let before = errors.len();
        source(volume, owner, &at, errors);
        let name = volume.text("name");
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        } else {
            errors.invalid_each(&at.child("name"), name, names::dns_label(name));
        }
        if good.iter().any(|v| v.text("name") == name) {
            errors.duplicate(&at.child("name"), name);
        }
        if errors.len() == before {
            good.push(volume);
        }
        let claim = volume.at("persistentVolumeClaim").text("claimName");
        let made = !owner.name.is_empty()
            && list.iter().any(|v| {
                v.has("ephemeral") && format!("{}-{}", owner.name, v.text("name")) == claim
            });
        if made {
            errors.invalid(
                &at.child("persistentVolumeClaim.claimName"),
                claim,
                "must not reference a PVC that gets created for an ephemeral volume",
            );
        }
    }
    good
}

/// The kinds of volumes, in the order in which they are looked at.
const KINDS: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

fn source(volume: &Value, owner: VolumesOwner<'_>, at: &Path<'_>, errors: &mut Errors) {
    let mut found = 0;
    for kind in KINDS.iter().copied().filter(|kind| volume.has(kind)) {
        found += 1;
        if found > 1 {
            // two kinds are named otherwise in this error
            let said = match kind {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                kind => kind,
            };
            errors.forbidden(&at.child(said), "may not specify more than 1 volume type");
            continue;
        }
        let here = at.child(if kind == "gcePersistentDisk" {
            "persistentDisk"
        } else {
            kind
        });
        let source = volume.at(kind);
        one_source(kind, source, &here, errors);
        let name = volume.text("name");
        match kind {
            "iscsi"
                if source.has("initiatorName")
                    && name.len() + 1 + source.text("targetPortal").len() > 64 =>
            {
                errors.invalid(
                        &at.child("name"),
                        name,
                        "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.",
                    );
            }
            "ephemeral" if !owner.name.is_empty() && !name.is_empty() => {
                let claim = format!("{}-{name}", owner.name);
                for message in names::dns_subdomain(&claim) {
                    errors.invalid(
                        &at.child("name"),
                        name,
                        format!("PVC name {}: {message}", crate::error::quoted(&claim)),
                    );
                }
            }
            "image" if owner.pod && source.text("reference").is_empty() => {
                errors.required(&here.child("reference"), "");
            }
            _ => {}
        }
    }
    if found == 0 {
        errors.required(at, "must specify a volume type");
    }
}

/// Fields of a source that must be there.
pub(crate) fn required(source: &Value, fields: &[&str], at: &Path<'_>, errors: &mut Errors) {
    for field in fields.iter().filter(|field| source.text(field).is_empty()) {
        errors.required(&at.child(field), "");
    }
}

/// One source of a volume, by its kind.
pub(crate) fn one_source(kind: &str, source: &Value, at: &Path<'_>, errors: &mut Errors) {
    match kind {
        "emptyDir" => {
            if quantity::to_nanos(source.at("sizeLimit")) < 0 {
                errors.forbidden(
                    &at.child("sizeLimit"),
                    "SizeLimit field must be a valid resource quantity",
                );
            }
        }
        "hostPath" => {
            required(source, &["path"], at, errors);
            no_backsteps(source.text("path"), &at.child("path"), errors);
            if source.has("type") {
                one_of(
                    source.text("type"),
                    HOST_PATH_TYPES,
                    &at.child("type"),
                    errors,
                );
            }
        }
        "secret" => {
            required(source, &["secretName"], at, errors);
            mode(source, "defaultMode", at, errors);
            items(source, at, errors);
        }
        "configMap" => {
            required(source, &["name"], at, errors);
            mode(source, "defaultMode", at, errors);
            items(source, at, errors);
        }
        "downwardAPI" => {
            mode(source, "defaultMode", at, errors);
            for file in source.items("items") {
                downward_file(file, at, errors);
            }
        }
        "projected" => projected(source, at, errors),
        "persistentVolumeClaim" => required(source, &["claimName"], at, errors),
        "nfs" => nfs(source, at, errors),
        "csi" => {
            csi_driver(source.text("driver"), &at.child("driver"), errors);
            if source.has("nodePublishSecretRef") {
                let name = source.at("nodePublishSecretRef").text("name");
                if name.is_empty() {
                    errors.required(&at.child("nodePublishSecretRef.name"), "");
                } else {
                    errors.invalid_each(&at.child("name"), name, names::dns_subdomain(name));
                }
            }
        }
        "ephemeral" => {
            if source.has("volumeClaimTemplate") {
                claims::template(
                    source.at("volumeClaimTemplate"),
                    &at.child("volumeClaimTemplate"),
                    errors,
                );
            } else {
                errors.required(&at.child("volumeClaimTemplate"), "");
            }
        }
        "image" => {
            container::required_one_of(
                source.text("pullPolicy"),
                &["Always", "IfNotPresent", "Never"],
                &at.child("pullPolicy"),
                errors,
            );
        }
        kind => vendor_volumes::check(kind, source, SourceParent::Pod, at, errors),
    }
}

/// An NFS export.
pub(crate) fn nfs(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    required(source, &["server", "path"], at, errors);
    let path = source.text("path");
    if !path.starts_with('/') {
        errors.invalid(&at.child("path"), path, "must be an absolute path");
    }
}

/// The name of a CSI driver.
pub(crate) fn csi_driver(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(at, "");
        return;
    }
    if name.len() > 63 {
        errors.too_long(at, 63);
    }
    errors.invalid_each(at, name, names::dns_subdomain(&name.to_lowercase()));
}

fn mode(owner: &Value, field: &'static str, at: &Path<'_>, errors: &mut Errors) {
    if let Some(mode) = owner.int(field).filter(|mode| !(0..=0o777).contains(mode)) {
        errors.invalid(&at.child(field), mode, MODE_TEXT);
    }
}

/// A file below a volume whose names starting with `..` are reserved.
pub(crate) fn local_path(path: &str, at: &Path<'_>, errors: &mut Errors) {
    descending_path(path, at, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.invalid(at, path, "must not start with '..'");
    }
}

fn items(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let list = at.child("items");
    for (i, item) in source.items("items").iter().enumerate() {
        let at = list.index(i);
        required(item, &["key", "path"], &at, errors);
        local_path(item.text("path"), &at.child("path"), errors);
        mode(item, "mode", &at, errors);
    }
}

fn downward_file(file: &Value, at: &Path<'_>, errors: &mut Errors) {
    required(file, &["path"], at, errors);
    local_path(file.text("path"), &at.child("path"), errors);
    if file.has("fieldRef") {
        field_ref(
            file.at("fieldRef"),
            VOLUME_FIELDS,
            &at.child("fieldRef"),
            errors,
        );
        if file.has("resourceFieldRef") {
            errors.invalid(
                at,
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            );
        }
    } else if file.has("resourceFieldRef") {
        resource_field_ref(
            file.at("resourceFieldRef"),
            true,
            &at.child("resourceFieldRef"),
            errors,
        );
    } else {
        errors.required(at, "one of fieldRef and resourceFieldRef is required");
    }
    mode(file, "mode", at, errors);
}

fn projected(projection: &Value, all: &Path<'_>, errors: &mut Errors) {
    mode(projection, "defaultMode", all, errors);
    let mut paths: Vec<String> = Vec::new();
    let mut once = |path: &str, shown: &str, errors: &mut Errors| {
        if path.is_empty() {
            return;
        }
        if paths.iter().any(|p| p == path) {
            errors.invalid(all, shown, "conflicting duplicate paths");
        } else {
            paths.push(path.to_owned());
        }
    };
    let list = all.child("sources");
    for (i, source) in projection.items("sources").iter().enumerate() {
        let at = list.index(i);
        let mut kinds = 0;
        for kind in ["secret", "configMap"] {
            let part = source.at(kind);
            if part.is_null() {
                continue;
            }
            kinds += 1;
            let at = at.child(kind);
            required(part, &["name"], &at, errors);
            items(part, &at, errors);
            for item in part.items("items") {
                once(item.text("path"), part.text("name"), errors);
            }
        }
        if source.has("downwardAPI") {
            kinds += 1;
            for file in source.at("downwardAPI").items("items") {
                downward_file(file, &at.child("downwardAPI"), errors);
                once(file.text("path"), file.text("path"), errors);
            }
        }
        let token = source.at("serviceAccountToken");
        if !token.is_null() {
            kinds += 1;
            let seconds = token.num("expirationSeconds");
            let here = at.child("serviceAccountToken.expirationSeconds");
            if seconds < 600 {
                errors.invalid(
                    &here,
                    seconds,
                    "may not specify a duration less than 10 minutes",
                );
            }
            if seconds > 1 << 32 {
                errors.invalid(
                    &here,
                    seconds,
                    "may not specify a duration larger than 2^32 seconds",
                );
            }
            if token.text("path").is_empty() {
                errors.required(&all.child("path"), "");
            } else {
                local_path(token.text("path"), &all.child("path"), errors);
            }
        }
        if kinds > 1 {
            errors.forbidden(&at, "may not specify more than 1 volume type per source");
        }
    }
}
