//! Volumes that a vendor's plugin makes: in pods, and as persistent volumes,
//! where secrets are named together with their namespace.

use control_types::value::Value;

use super::volumes::{local_path, required};
use super::{names, one_of};
use crate::error::{Errors, Path};
use crate::tree::Read;

/// The field that contains a volume source.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceParent {
    /// A pod's volume.
    Pod,
    /// A persistent volume.
    Persistent,
}

/// A source by its kind; kinds that no vendor made are not looked at.
pub(crate) fn check(
    kind: &str,
    source: &Value,
    within: SourceParent,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    match kind {
        "gitRepo" => {
            required(source, &["repository"], at, errors);
            local_path(source.text("directory"), &at.child("directory"), errors);
        }
        "glusterfs" => glusterfs(source, at, errors),
        "iscsi" => iscsi(source, within, at, errors),
        "fc" => fibre_channel(source, at, errors),
        "rbd" => {
            monitors(source, at, errors);
            required(source, &["image"], at, errors);
        }
        "cephfs" => monitors(source, at, errors),
        "cinder" => {
            required(source, &["volumeID"], at, errors);
            secret(source, within, at, errors);
        }
        "flexVolume" => flex(source, at, errors),
        "azureFile" => {
            required(source, &["secretName", "shareName"], at, errors);
            if source.has("secretNamespace") {
                required(source, &["secretNamespace"], at, errors);
            }
        }
        "azureDisk" => azure_disk(source, at, errors),
        "vsphereVolume" => required(source, &["volumePath"], at, errors),
        "photonPersistentDisk" => required(source, &["pdID"], at, errors),
        "portworxVolume" => required(source, &["volumeID"], at, errors),
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            let id = if kind == "gcePersistentDisk" {
                "pdName"
            } else {
                "volumeID"
            };
            required(source, &[id], at, errors);
            let partition = source.num("partition");
            if !(0..=255).contains(&partition) {
                errors.invalid(&at.child("partition"), partition, names::between(1, 255));
            }
        }
        "scaleIO" => required(source, &["gateway", "system", "volumeName"], at, errors),
        "storageos" => storage_os(source, within, at, errors),
        "quobyte" => quobyte(source, at, errors),
        "flocker" => flocker(source, at, errors),
        _ => {}
    }
}

fn monitors(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    if source.items("monitors").is_empty() {
        errors.required(&at.child("monitors"), "");
    }
}

/// A secret by name and, for persistent volumes, namespace.
fn secret(source: &Value, within: SourceParent, at: &Path<'_>, errors: &mut Errors) {
    if source.has("secretRef") {
        let fields: &[&str] = match within {
            SourceParent::Pod => &["name"],
            SourceParent::Persistent => &["name", "namespace"],
        };
        required(
            source.at("secretRef"),
            fields,
            &at.child("secretRef"),
            errors,
        );
    }
}

fn glusterfs(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    required(source, &["endpoints", "path"], at, errors);
    if source.has("endpointsNamespace") {
        let (name, at) = (
            source.text("endpointsNamespace"),
            at.child("endpointsNamespace"),
        );
        if name.is_empty() {
            errors.invalid(
                &at,
                name,
                "if the endpointnamespace is set, it must be a valid namespace name",
            );
        } else {
            errors.invalid_each(&at, name, names::dns_label(name));
        }
    }
}

/// The forms of names that RFC 3720 gives: `iqn.`, `eui.` and `naa.`.
fn iscsi_name(name: &str) -> bool {
    let fixed = |rest: &str, length: usize| {
        let mut chars = rest.chars();
        // the API takes any character for the dot
        chars.next().is_some_and(|c| c != '\n')
            && chars.as_str().len() == length
            && chars.all(|c| c.is_ascii_alphanumeric())
    };
    if let Some(rest) = name.strip_prefix("eui") {
        return fixed(rest, 16);
    }
    if let Some(rest) = name.strip_prefix("naa") {
        return fixed(rest, 32);
    }
    // the pattern is not bound to the start of the text
    name.match_indices("iqn.")
        .any(|(at, prefix)| iqn(&name[at + prefix.len()..]))
}

fn iqn(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes
            .get(range)
            .is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    if !(digits(0..4) && bytes.get(4) == Some(&b'-') && digits(5..7) && bytes.get(7) == Some(&b'.'))
    {
        return false;
    }
    let Some((authority, unique)) = rest[8..].split_once(':') else {
        return false;
    };
    !authority.is_empty()
        && authority
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
        && !unique.is_empty()
        && !unique.contains(|c: char| {
            matches!(
                c,
                ',' | ';' | '*' | '&' | '$' | '|' | ' ' | '\t' | '\n' | '\r' | '\u{c}'
            )
        })
}

fn iscsi(source: &Value, within: SourceParent, at: &Path<'_>, errors: &mut Errors) {
    const FORMAT: &str = "must be valid format";
    let start = match within {
        SourceParent::Pod => "must be valid format starting with iqn, eui, or naa",
        SourceParent::Persistent => FORMAT,
    };
    let check = |name: &str, at: &Path<'_>, errors: &mut Errors| {
        if !["iqn", "eui", "naa"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            errors.invalid(at, name, start);
        } else if !iscsi_name(name) {
            errors.invalid(at, name, FORMAT);
        }
    };
    required(source, &["targetPortal"], at, errors);
    let name = source.text("iqn");
    if name.is_empty() {
        errors.required(&at.child("iqn"), "");
    } else {
        check(name, &at.child("iqn"), errors);
    }
    let lun = source.num("lun");
    if !(0..=255).contains(&lun) {
        errors.invalid(&at.child("lun"), lun, names::between(0, 255));
    }
    let authenticated = source.flag("chapAuthDiscovery") || source.flag("chapAuthSession");
    if authenticated && !source.has("secretRef") {
        errors.required(&at.child("secretRef"), "");
    }
    if within == SourceParent::Persistent && source.has("secretRef") {
        required(
            source.at("secretRef"),
            &["name"],
            &at.child("secretRef"),
            errors,
        );
    }
    if source.has("initiatorName") {
        check(
            source.text("initiatorName"),
            &at.child("initiatorname"),
            errors,
        );
    }
}

fn fibre_channel(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let targets = at.child("targetWWNs");
    let by_target = !source.items("targetWWNs").is_empty();
    let by_id = !source.items("wwids").is_empty();
    if !by_target && !by_id {
        errors.required(
            &targets,
            "must specify either targetWWNs or wwids, but not both",
        );
    }
    if by_target && by_id {
        errors.invalid(
            &targets,
            source.at("targetWWNs").clone(),
            "targetWWNs and wwids can not be specified simultaneously",
        );
    }
    if by_target {
        let at = at.child("lun");
        match source.int("lun") {
            None => errors.required(&at, "lun is required if targetWWNs is specified"),
            Some(lun) if !(0..=255).contains(&lun) => {
                errors.invalid(&at, lun, names::between(0, 255));
            }
            Some(_) => {}
        }
    }
}

fn flex(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    required(source, &["driver"], at, errors);
    let list = at.child("options");
    for (key, _) in source.entries("options") {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            errors.invalid(
                &list.key(key),
                key,
                "kubernetes.io and k8s.io namespaces are reserved",
            );
        }
    }
}

fn azure_disk(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    required(source, &["diskName", "diskURI"], at, errors);
    if source.has("cachingMode") {
        let modes = &["None", "ReadOnly", "ReadWrite"];
        one_of(
            source.text("cachingMode"),
            modes,
            &at.child("cachingMode"),
            errors,
        );
    }
    if !source.has("kind") {
        return;
    }
    let (kind, uri) = (source.text("kind"), source.text("diskURI"));
    one_of(
        kind,
        &["Dedicated", "Managed", "Shared"],
        &at.child("kind"),
        errors,
    );
    let (start, form) = if kind == "Managed" {
        (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        )
    } else {
        (
            "https://",
            "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",
        )
    };
    if !uri.starts_with(start) {
        errors.not_supported(&at.child("diskURI"), uri, &[form]);
    }
}

fn storage_os(source: &Value, within: SourceParent, at: &Path<'_>, errors: &mut Errors) {
    let name = source.text("volumeName");
    if name.is_empty() {
        errors.required(&at.child("volumeName"), "");
    } else {
        errors.invalid_each(&at.child("volumeName"), name, names::dns_label(name));
    }
    let namespace = source.text("volumeNamespace");
    if !namespace.is_empty() {
        errors.invalid_each(
            &at.child("volumeNamespace"),
            namespace,
            names::dns_label(namespace),
        );
    }
    secret(source, within, at, errors);
}

/// `host:port`, as Go's `net.SplitHostPort` takes it apart.
fn is_host_port(text: &str) -> bool {
    let Some((host, _)) = text.rsplit_once(':') else {
        return false;
    };
    match host.strip_prefix('[') {
        Some(inside) => inside
            .strip_suffix(']')
            .is_some_and(|inside| !inside.contains(['[', ']'])),
        None => !host.contains([':', '[', ']']),
    }
}

fn quobyte(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.text("registry");
    if registry.is_empty() {
        errors.required(&at.child("registry"), PAIRS);
    } else if source.text("tenant").len() >= 65 {
        errors.required(
            &at.child("tenant"),
            "must be a UUID and may not exceed a length of 64 characters",
        );
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_port(pair)) {
            errors.invalid(&at.child("registry"), registry, PAIRS);
        }
    }
    required(source, &["volume"], at, errors);
}

fn flocker(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (name, id) = (source.text("datasetName"), source.text("datasetUUID"));
    if name.is_empty() && id.is_empty() {
        errors.required(at, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !id.is_empty() {
        errors.invalid(
            at,
            "resource",
            "datasetName and datasetUUID can not be specified simultaneously",
        );
    }
    if name.contains('/') {
        errors.invalid(&at.child("datasetName"), name, "must not contain '/'");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iscsi_names_follow_their_three_forms() {
        assert!(iscsi_name("iqn.2001-04.com.example:storage.kube.sys1.xyz"));
        assert!(iscsi_name("eui.0123456789abcdef"));
        assert!(!iscsi_name("eui.0123"));
        assert!(!iscsi_name("iqn.2001-4.com.example:x"));
        assert!(!iscsi_name("iqn.2001-04.com.example:a b"));
        assert!(!iscsi_name("iqn.2001-04.com.example"));
    }

    #[test]
    fn hosts_and_ports_are_split_as_go_splits_them() {
        assert!(is_host_port("a:1") && is_host_port("[::1]:1") && is_host_port(":"));
        assert!(!is_host_port("a") && !is_host_port("::1") && !is_host_port("[::1]"));
    }
}
