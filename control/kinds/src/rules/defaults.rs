//! Defaults of pod specs, containers, probes and volumes, wherever they occur.

use control_types::value::Value;

use super::quantity;
use crate::tree::{Read, Write};

/// A pod spec, in a pod or in a template.
pub(crate) fn pod_spec(spec: &mut Value) {
    spec.blank("restartPolicy", "Always");
    spec.absent("terminationGracePeriodSeconds", 30_i64);
    spec.blank("dnsPolicy", "ClusterFirst");
    spec.absent("securityContext", Value::object());
    spec.blank("schedulerName", "default-scheduler");
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for c in spec.items_mut(list) {
            container(c);
        }
    }
    for v in spec.items_mut("volumes") {
        volume(v);
    }
    resources(spec.there("resources"));
    quantity::round_list_to_milli(spec.there("overhead"));
    // `serviceAccount` is the old name of `serviceAccountName`; both are shown
    if spec.text("serviceAccountName").is_empty() {
        let old = spec.text("serviceAccount").to_owned();
        if !old.is_empty() {
            spec.put("serviceAccountName", old);
        }
    }
    let account = spec.text("serviceAccountName").to_owned();
    if account.is_empty() {
        spec.drop_field("serviceAccount");
    } else {
        spec.put("serviceAccount", account);
    }
}

/// A pod template (`spec.template` of workloads).
pub(crate) fn pod_template(owner: Option<&mut Value>) {
    if let Some(template) = owner {
        pod_spec(template.make("spec"));
    }
}

fn container(c: &mut Value) {
    let always = image_is_latest(c.text("image"));
    c.blank(
        "imagePullPolicy",
        if always { "Always" } else { "IfNotPresent" },
    );
    c.blank("terminationMessagePath", "/dev/termination-log");
    c.blank("terminationMessagePolicy", "File");
    for port in c.items_mut("ports") {
        port.blank("protocol", "TCP");
    }
    for env in c.items_mut("env") {
        if let Some(from) = env.there("valueFrom") {
            field_ref(from.there("fieldRef"));
            if let Some(resource) = from.there("resourceFieldRef") {
                // a quantity without omitempty: 0 is shown
                resource.absent("divisor", "0");
            }
            if let Some(file) = from.there("fileKeyRef") {
                file.absent("optional", false);
            }
        }
    }
    resources(c.there("resources"));
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(p) = c.there(kind) {
            probe(p);
        }
    }
    if let Some(lifecycle) = c.there("lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = lifecycle.there(hook) {
                http_get(hook.there("httpGet"));
            }
        }
    }
}

/// `resources` of a container, a pod or a claim.
pub(crate) fn resources(resources: Option<&mut Value>) {
    if let Some(resources) = resources {
        quantity::round_list_to_milli(resources.there("limits"));
        quantity::round_list_to_milli(resources.there("requests"));
    }
}

fn probe(p: &mut Value) {
    p.zero("timeoutSeconds", 1);
    p.zero("periodSeconds", 10);
    p.zero("successThreshold", 1);
    p.zero("failureThreshold", 3);
    http_get(p.there("httpGet"));
    if let Some(grpc) = p.there("grpc") {
        grpc.absent("service", "");
    }
}

fn http_get(action: Option<&mut Value>) {
    if let Some(action) = action {
        action.blank("path", "/");
        action.blank("scheme", "HTTP");
    }
}

fn field_ref(reference: Option<&mut Value>) {
    if let Some(reference) = reference {
        reference.blank("apiVersion", "v1");
    }
}

fn downward_items(source: &mut Value) {
    for item in source.items_mut("items") {
        field_ref(item.there("fieldRef"));
        if let Some(resource) = item.there("resourceFieldRef") {
            resource.absent("divisor", "0");
        }
    }
}

fn volume(v: &mut Value) {
    let named_only = v
        .as_object()
        .is_some_and(|map| map.iter().all(|(k, x)| &**k == "name" || x.is_null()));
    if named_only {
        v.put("emptyDir", Value::object());
    }
    for kind in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = v.there(kind) {
            source.absent("defaultMode", 420_i64);
        }
    }
    if let Some(source) = v.there("downwardAPI") {
        downward_items(source);
    }
    if let Some(source) = v.there("projected") {
        for part in source.items_mut("sources") {
            if let Some(downward) = part.there("downwardAPI") {
                downward_items(downward);
            }
            if let Some(token) = part.there("serviceAccountToken") {
                token.absent("expirationSeconds", 3600_i64);
            }
        }
    }
    if let Some(image) = v.there("image") {
        let always = image_is_latest(image.text("reference"));
        image.blank("pullPolicy", if always { "Always" } else { "IfNotPresent" });
    }
    if let Some(ephemeral) = v.there("ephemeral")
        && let Some(template) = ephemeral.there("volumeClaimTemplate")
    {
        let spec = template.make("spec");
        spec.absent("volumeMode", "Filesystem");
        resources(spec.there("resources"));
    }
    volume_source(v);
}

/// The sources that volumes and persistent volumes share.
pub(crate) fn volume_source(v: &mut Value) {
    if let Some(path) = v.there("hostPath") {
        path.absent("type", "");
    }
    if let Some(iscsi) = v.there("iscsi") {
        iscsi.blank("iscsiInterface", "default");
    }
    if let Some(rbd) = v.there("rbd") {
        rbd.blank("pool", "rbd");
        rbd.blank("user", "admin");
        rbd.blank("keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = v.there("azureDisk") {
        disk.absent("cachingMode", "ReadWrite");
        disk.absent("fsType", "ext4");
        disk.absent("readOnly", false);
        disk.absent("kind", "Shared");
    }
    if let Some(scale) = v.there("scaleIO") {
        scale.blank("storageMode", "ThinProvisioned");
        scale.blank("fsType", "xfs");
    }
}

/// Whether an image reference names the tag `latest`, said or unsaid. A
/// malformed reference names no tag.
fn image_is_latest(image: &str) -> bool {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    let (repository, tag) = match rest.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (rest, None),
    };
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let tag_is_right = tag.is_none_or(|t| {
        t.len() <= 128
            && t.bytes().next().is_some_and(word)
            && t.bytes().all(|b| word(b) || matches!(b, b'.' | b'-'))
    });
    let path = match repository.split_once('/') {
        Some((host, path))
            if host.contains(['.', ':'])
                || host == "localhost"
                || host.bytes().any(|b| b.is_ascii_uppercase()) =>
        {
            path
        }
        _ => repository,
    };
    let path_is_right = !path.is_empty()
        && path.split('/').all(|part| {
            let alnum = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
            part.bytes().next().is_some_and(alnum)
                && part.bytes().last().is_some_and(alnum)
                && part
                    .bytes()
                    .all(|b| alnum(b) || matches!(b, b'.' | b'_' | b'-'))
                && !part.contains("..")
                && !part.contains("___")
        });
    // the name in full, with the registry and the folder that are left out
    const LONGEST: usize = 255;
    let full = if path.len() == repository.len() {
        let folder = if path.contains('/') { "" } else { "library/" };
        "docker.io/".len() + folder.len() + path.len()
    } else {
        repository.len()
    };
    // an identifier alone is no name
    let hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    let is_identifier = image.len() == 64 && image.bytes().all(hex);
    if !tag_is_right || !path_is_right || is_identifier || full > LONGEST {
        return false;
    }
    match tag {
        Some(tag) => tag == "latest",
        None => digest.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_tag_is_the_latest() {
        for latest in ["nginx", "nginx:latest", "host:5000/a/b", "Host/a"] {
            assert!(image_is_latest(latest), "{latest}");
        }
        for fixed in [
            "nginx:1",
            "nginx@sha256:00",
            "host:5000/a/b:1",
            "",
            "UPPER",
            "a..b:latest",
            "-x",
            &"a".repeat(64),
        ] {
            assert!(!image_is_latest(fixed), "{fixed}");
        }
    }
}
