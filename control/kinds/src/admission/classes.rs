//! `DefaultStorageClass`, `DefaultIngressClass` and `StorageObjectInUseProtection`:
//! objects that name no class get the cluster's default, and objects in use are protected
//! from deletion.

use control_types::value::Value;

use crate::tree::{Read, Write};

/// The newest class that one of `annotations` marks as default; of two equally
/// old ones the first by name.
fn default_of<'a>(
    classes: impl Iterator<Item = &'a Value>,
    annotations: &[&str],
) -> Option<&'a str> {
    let marked = |class: &&Value| {
        let own = class.at("metadata").at("annotations");
        annotations.iter().any(|key| own.text(key) == "true")
    };
    classes
        .filter(marked)
        .map(|class| class.at("metadata"))
        .min_by(|a, b| {
            let created = |meta: &Value| meta.text("creationTimestamp").to_owned();
            created(b)
                .cmp(&created(a))
                .then_with(|| a.text("name").cmp(b.text("name")))
        })
        .map(|meta| meta.text("name"))
}

/// Gives a claim that names no class the default among `classes`.
pub fn default_storage_class<'a>(claim: &mut Value, classes: impl Iterator<Item = &'a Value>) {
    let legacy = "volume.beta.kubernetes.io/storage-class";
    if claim.at("metadata").at("annotations").has(legacy)
        || claim.at("spec").has("storageClassName")
    {
        return;
    }
    let annotations = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    if let Some(name) = default_of(classes, &annotations) {
        claim.make("spec").put("storageClassName", name);
    }
}

/// Gives an ingress that names no class the default among `classes`.
pub fn default_ingress_class<'a>(ingress: &mut Value, classes: impl Iterator<Item = &'a Value>) {
    let annotations = ingress.at("metadata").at("annotations");
    if ingress.at("spec").has("ingressClassName") || annotations.has("kubernetes.io/ingress.class")
    {
        return;
    }
    let marks = ["ingressclass.kubernetes.io/is-default-class"];
    if let Some(name) = default_of(classes, &marks) {
        ingress.make("spec").put("ingressClassName", name);
    }
}

/// Adds the finalizer that protects volumes, claims and attribute classes in use.
pub fn protect_from_deletion(kind: &str, object: &mut Value) {
    let finalizer = match kind {
        "PersistentVolume" => "kubernetes.io/pv-protection",
        "PersistentVolumeClaim" => "kubernetes.io/pvc-protection",
        "VolumeAttributesClass" => "kubernetes.io/vac-protection",
        _ => return,
    };
    let mut all = object.at("metadata").items("finalizers").to_vec();
    if all.iter().all(|known| known.as_text() != finalizer) {
        all.push(finalizer.into());
        object.make("metadata").put("finalizers", Value::Array(all));
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn the_newest_default_class_is_taken() {
        let class = |name: &str, at: &str, default: &str| {
            value!({"metadata": {
                "name": name, "creationTimestamp": at,
                "annotations": {"storageclass.kubernetes.io/is-default-class": default}
            }})
        };
        let classes = [
            class("old", "2026-01-01T00:00:00Z", "true"),
            class("b", "2026-01-02T00:00:00Z", "true"),
            class("a", "2026-01-02T00:00:00Z", "true"),
            class("new", "2026-01-03T00:00:00Z", "false"),
        ];
        let mut claim = value!({"spec": {}});
        default_storage_class(&mut claim, classes.iter());
        assert_eq!(claim.str_at(&["spec", "storageClassName"]), Some("a"));
        let mut own = value!({"spec": {"storageClassName": ""}});
        default_storage_class(&mut own, classes.iter());
        assert_eq!(own.str_at(&["spec", "storageClassName"]), Some(""));
    }

    #[test]
    fn protection_is_added_once() {
        let mut claim = value!({"metadata": {"finalizers": ["own"]}});
        protect_from_deletion("PersistentVolumeClaim", &mut claim);
        protect_from_deletion("PersistentVolumeClaim", &mut claim);
        assert_eq!(claim.items_at(&["metadata", "finalizers"]).len(), 2);
    }
}
