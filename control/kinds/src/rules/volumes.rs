//! Volumes of a pod.

use control_types::value::Value;

use super::container::{
    VOLUME_FIELDS, descending_path, field_ref, no_backsteps, resource_field_ref,
};
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

/// The volumes of a pod; `owner` is its name, for the claims that it makes.
pub(crate) fn volumes(list: &[Value], owner: &str, all: &Path<'_>, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, volume) in list.iter().enumerate() {
        let at = all.index(i);
        let before = errors.len();
        source(volume, &at, errors);
        let name = volume.text("name");
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        } else {
            errors.invalid_each(&at.child("name"), name, names::dns_label(name));
        }
        if seen.contains(&name) {
            errors.duplicate(&at.child("name"), name);
        }
        if errors.len() == before {
            seen.push(name);
        }
        let claim = volume.at("persistentVolumeClaim").text("claimName");
        let made = !owner.is_empty()
            && list
                .iter()
                .any(|v| v.has("ephemeral") && format!("{owner}-{}", v.text("name")) == claim);
        if made {
            errors.invalid(
                &at.child("persistentVolumeClaim.claimName"),
                claim,
                "must not reference a PVC that gets created for an ephemeral volume",
            );
        }
    }
}

fn source(volume: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(map) = volume.as_object() else {
        return;
    };
    let mut found = 0;
    for (kind, source) in map.iter().filter(|(k, v)| &***k != "name" && !v.is_null()) {
        let kind: &str = kind;
        let at = at.child(kind);
        found += 1;
        if found > 1 {
            errors.forbidden(&at, "may not specify more than 1 volume type");
            continue;
        }
        one_source(kind, source, &at, errors);
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
        "emptyDir" if quantity::of(source.at("sizeLimit")) < 0 => {
            errors.forbidden(
                &at.child("sizeLimit"),
                "SizeLimit field must be a valid resource quantity",
            );
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
        "gitRepo" => required(source, &["repository"], at, errors),
        "glusterfs" => required(source, &["endpoints", "path"], at, errors),
        "iscsi" => required(source, &["targetPortal", "iqn"], at, errors),
        "rbd" => required(source, &["image"], at, errors),
        "cephfs" if source.items("monitors").is_empty() => {
            errors.required(&at.child("monitors"), "");
        }
        "azureFile" => required(source, &["secretName", "shareName"], at, errors),
        "vsphereVolume" => required(source, &["volumePath"], at, errors),
        "cinder" | "awsElasticBlockStore" => required(source, &["volumeID"], at, errors),
        "gcePersistentDisk" => required(source, &["pdName"], at, errors),
        "flexVolume" => required(source, &["driver"], at, errors),
        "portworxVolume" => required(source, &["volumeID"], at, errors),
        "photonPersistentDisk" => required(source, &["pdID"], at, errors),
        _ => {}
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
fn local_path(path: &str, at: &Path<'_>, errors: &mut Errors) {
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
        kinds += usize::from(source.has("clusterTrustBundle"))
            + usize::from(source.has("podCertificate"));
        if kinds > 1 {
            errors.forbidden(&at, "may not specify more than 1 volume type per source");
        }
    }
}
