//! `PersistentVolumeSpec`: of persistent volumes, and inline in attachments.

use control_types::value::Value;

use super::vendor_volumes::{self, SourceParent};
use super::{claims, container, labels, names, one_of, placement, quantity, resources, volumes};
use crate::error::{Errors, Path};
use crate::tree::Read;

/// The members of the spec that are sources of the volume, in the order in
/// which they are looked at.
pub(crate) const SOURCES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// The spec of a persistent volume, or (`inline`) that of an attachment.
pub(crate) fn check(spec: &Value, inline: bool, at: &Path<'_>, errors: &mut Errors) {
    let not_inline = "may not be specified in the context of inline volumes";
    if inline {
        for field in ["claimRef", "capacity"] {
            if spec.has(field) {
                errors.forbidden(&at.child(field), not_inline);
            }
        }
        if !spec.has("csi") {
            errors.required(
                &at.child("csi"),
                "has to be specified in the context of inline volumes",
            );
        }
    }
    access_modes(spec, at, errors);
    if !inline {
        capacity(spec, at, errors);
    }
    let policy = spec.text("persistentVolumeReclaimPolicy");
    let policy_at = at.child("persistentVolumeReclaimPolicy");
    if inline && !matches!(policy, "" | "Retain") {
        errors.forbidden(
            &policy_at,
            "may only be Retain in the context of inline volumes",
        );
    } else if !inline && !policy.is_empty() {
        one_of(policy, &["Delete", "Recycle", "Retain"], &policy_at, errors);
    }
    if spec.has("nodeAffinity") {
        let at = at.child("nodeAffinity");
        if inline {
            errors.forbidden(&at, not_inline);
        } else if spec.at("nodeAffinity").has("required") {
            let required = spec.at("nodeAffinity").at("required");
            placement::node_selector(required, true, &at.child("required"), errors);
        } else {
            errors.required(
                &at.child("required"),
                "must specify required node constraints",
            );
        }
    }
    sources(spec, at, errors);
    let path = spec.at("hostPath").text("path");
    if !path.is_empty() && path.trim_matches('/').is_empty() && policy == "Recycle" {
        errors.forbidden(
            &policy_at,
            "may not be 'recycle' for a hostPath mount of '/'",
        );
    }
    classes(spec, inline, at, errors);
}

fn access_modes(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let at = at.child("accessModes");
    let modes = spec.items("accessModes");
    if modes.is_empty() {
        errors.required(&at, "");
    }
    let (mut single, mut other) = (false, false);
    for mode in modes.iter().map(Read::as_text) {
        one_of(mode, claims::ACCESS_MODES, &at, errors);
        single |= mode == "ReadWriteOncePod";
        other |= mode != "ReadWriteOncePod" && claims::ACCESS_MODES.contains(&mode);
    }
    if single && other {
        errors.forbidden(&at, "may not use ReadWriteOncePod with other access modes");
    }
}

fn capacity(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let at = at.child("capacity");
    if spec.size("capacity") == 0 {
        errors.required(&at, "");
    }
    if spec.size("capacity") != 1 || !spec.at("capacity").has("storage") {
        errors.not_supported(&at, spec.at("capacity").clone(), &["storage"]);
    }
    for (name, amount) in spec.entries("capacity") {
        resources::not_negative(amount, &at.key(name), errors);
        if quantity::to_nanos(amount) <= 0 {
            errors.invalid(&at.key(name), amount.clone(), "must be greater than zero");
        }
    }
}

fn sources(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let mut found = 0;
    for kind in SOURCES.iter().filter(|kind| spec.has(kind)) {
        // two sources are named otherwise in errors
        let said = match *kind {
            "gcePersistentDisk" => "persistentDisk",
            kind => kind,
        };
        found += 1;
        if found > 1 && *kind != "flexVolume" {
            let kind = if *kind == "cephfs" { "cephFS" } else { kind };
            errors.forbidden(&at.child(kind), "may not specify more than 1 volume type");
            continue;
        }
        source(kind, spec, &at.child(said), errors);
    }
    if spec.has("local") && !spec.has("nodeAffinity") {
        errors.required(
            &at.child("nodeAffinity"),
            "Local volume requires node affinity",
        );
    }
    if found == 0 {
        errors.required(at, "must specify a volume type");
    }
}

fn source(kind: &str, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let source = spec.at(kind);
    match kind {
        "csi" => {
            volumes::csi_driver(source.text("driver"), &at.child("driver"), errors);
            volumes::required(source, &["volumeHandle"], at, errors);
            for field in [
                "controllerPublishSecretRef",
                "controllerExpandSecretRef",
                "nodePublishSecretRef",
                "nodeExpandSecretRef",
            ] {
                if source.has(field) {
                    secret(source.at(field), &at.child(field), errors);
                }
            }
        }
        "local" => {
            volumes::required(source, &["path"], at, errors);
            if !source.text("path").is_empty() {
                container::no_backsteps(source.text("path"), &at.child("path"), errors);
            }
        }
        "hostPath" | "nfs" => volumes::one_source(kind, source, at, errors),
        kind => vendor_volumes::check(kind, source, SourceParent::Persistent, at, errors),
    }
}

fn secret(reference: &Value, at: &Path<'_>, errors: &mut Errors) {
    volumes::required(reference, &["name"], at, errors);
    let name = reference.text("name");
    if !name.is_empty() {
        errors.invalid_each(&at.child("name"), name, names::dns_subdomain(name));
    }
    volumes::required(reference, &["namespace"], at, errors);
    let namespace = reference.text("namespace");
    if !namespace.is_empty() {
        errors.invalid_each(
            &at.child("namespace"),
            namespace,
            names::dns_label(namespace),
        );
    }
}

fn classes(spec: &Value, inline: bool, at: &Path<'_>, errors: &mut Errors) {
    let class = spec.text("storageClassName");
    let class_at = at.child("storageClassName");
    if inline && !class.is_empty() {
        errors.forbidden(
            &class_at,
            "may not be specified in the context of inline volumes",
        );
    } else if !class.is_empty() {
        errors.invalid_each(&class_at, class, names::dns_subdomain(class));
    }
    if spec.has("volumeMode") {
        let (mode, at) = (spec.text("volumeMode"), at.child("volumeMode"));
        if inline && mode != "Filesystem" {
            errors.forbidden(
                &at,
                "may not specify volumeMode other than Filesystem in the context of inline volumes",
            );
        } else if !inline {
            one_of(mode, &["Block", "Filesystem"], &at, errors);
        }
    }
    let field = "volumeAttributesClassName";
    if spec.has(field) && !inline {
        let (name, at_field) = (spec.text(field), at.child(field));
        if name.is_empty() {
            errors.required(&at_field, "an empty string is disallowed");
        } else {
            errors.invalid_each(&at_field, name, names::dns_subdomain(name));
        }
        if !spec.has("csi") {
            errors.required(
                &at.child("csi"),
                "has to be specified when using volumeAttributesClassName",
            );
        }
    }
}

/// One term of a storage class's topology.
pub(crate) fn topology_term(term: &Value, at: &Path<'_>, errors: &mut Errors) {
    let list = at.child("matchLabelExpressions");
    let requirements = term.items("matchLabelExpressions");
    for (i, requirement) in requirements.iter().enumerate() {
        let at = list.index(i);
        let values = requirement.items("values");
        let values_at = at.child("values");
        if values.is_empty() {
            errors.required(&values_at, "");
        }
        for (j, value) in values.iter().enumerate() {
            if values.iter().take(j).any(|other| other == value) {
                errors.duplicate(&values_at.index(j), value.clone());
            }
        }
        let key = requirement.text("key");
        labels::label_key(key, &at.child("key"), errors);
        if requirements.iter().take(i).any(|r| r.text("key") == key) {
            errors.duplicate(&at.child("key"), key);
        }
    }
}

/// Parameters of a class, as its driver reads them.
pub(crate) fn parameters(map: &Value, may_be_empty: bool, at: &Path<'_>, errors: &mut Errors) {
    const MOST: usize = 512;
    const SIZE: usize = 256 * 1024;
    let entries = || {
        map.as_object()
            .into_iter()
            .flat_map(control_types::Map::iter)
    };
    if entries().count() > MOST {
        errors.too_long(at, MOST);
        return;
    }
    let mut total = 0;
    for (key, value) in entries() {
        if key.is_empty() {
            errors.invalid(at, "", "field can not be empty.");
        }
        total += key.len() + value.as_text().len();
    }
    if total > SIZE {
        errors.too_long(at, SIZE);
    }
    if !may_be_empty && entries().count() == 0 {
        errors.required(at, "must contain at least one key/value pair");
    }
}
