//! Object metadata: names, labels, annotations, owners, finalizers, and immutable fields.

use control_types::value::Value;

use super::names::{self, NameRule};
use super::{immutable, labels};
use crate::FieldError;
use crate::error::{Errors, Path};
use crate::tree::{Read, Write};

const AT: Path<'static> = Path::new("metadata");
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Validates the metadata of a new object by the naming rule of its kind.
pub(crate) fn validate(
    object: &Value,
    namespaced: Option<bool>,
    rule: NameRule,
    errors: &mut Errors,
) {
    validate_at(object.at("metadata"), namespaced, rule, &AT, errors);
    kube_finalizers(object, errors);
}

/// The same for kinds of other API servers (extensions, aggregation), whose
/// finalizers need no domain.
pub(crate) fn validate_generic(
    object: &Value,
    namespaced: Option<bool>,
    rule: NameRule,
    errors: &mut Errors,
) {
    validate_at(object.at("metadata"), namespaced, rule, &AT, errors);
}

fn kube_finalizers(object: &Value, errors: &mut Errors) {
    let list = AT.child("finalizers");
    let given = object.at("metadata").items("finalizers");
    for (i, finalizer) in given.iter().map(Read::as_text).enumerate() {
        kube_finalizer(finalizer, &list.index(i), errors);
    }
}

/// A finalizer without a domain is one of the few that the cluster knows itself.
pub(crate) fn kube_finalizer(finalizer: &str, at: &Path<'_>, errors: &mut Errors) {
    let standard = matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion");
    if !finalizer.contains('/') && !standard {
        errors.invalid(
            at,
            finalizer,
            "name is neither a standard finalizer name nor is it fully qualified",
        );
    }
}

pub(crate) fn validate_at(
    meta: &Value,
    namespaced: Option<bool>,
    rule: NameRule,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let prefix = meta.text("generateName");
    if !prefix.is_empty() {
        errors.invalid_each(&at.child("generateName"), prefix, rule(prefix, true));
    }
    let name = meta.text("name");
    if name.is_empty() {
        errors.required(&at.child("name"), "name or generateName is required");
    } else {
        errors.invalid_each(&at.child("name"), name, rule(name, false));
    }
    let namespace = meta.text("namespace");
    match namespaced {
        Some(true) if namespace.is_empty() => errors.required(&at.child("namespace"), ""),
        Some(true) => errors.invalid_each(
            &at.child("namespace"),
            namespace,
            names::dns_label(namespace),
        ),
        Some(false) if !namespace.is_empty() => {
            errors.forbidden(&at.child("namespace"), "not allowed on this type");
        }
        _ => {}
    }
    if meta.num("generation") < 0 {
        errors.invalid(
            &at.child("generation"),
            meta.num("generation"),
            "must be greater than or equal to 0",
        );
    }
    labels::labels(meta.at("labels"), &at.child("labels"), errors);
    annotations(meta.at("annotations"), &at.child("annotations"), errors);
    owner_references(
        meta.at("ownerReferences"),
        &at.child("ownerReferences"),
        errors,
    );
    finalizers(meta.at("finalizers"), &at.child("finalizers"), errors);
    managed_fields(meta.at("managedFields"), &at.child("managedFields"), errors);
}

/// The rule of every kind, checked after the kind's own: a name is one segment of a path.
pub(crate) fn validate_path_segments(object: &Value, namespaced: Option<bool>) -> Vec<FieldError> {
    let mut errors = Errors::new();
    validate_generic(object, namespaced, names::segment_name, &mut errors);
    errors.into_vec()
}

/// A map of annotations.
pub(crate) fn annotations(map: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Value::Object(map) = map else { return };
    let mut total = 0;
    for (key, value) in map.iter() {
        let key: &str = key;
        total += key.len() + value.as_text().len();
        errors.invalid_each(at, key, names::qualified(&key.to_lowercase()));
    }
    if total > ANNOTATIONS_LIMIT {
        errors.too_long(at, ANNOTATIONS_LIMIT);
    }
}

fn owner_references(list: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Value::Array(list_items) = list else {
        return;
    };
    let mut controller: Option<String> = None;
    for owner in list_items {
        let api_version = owner.text("apiVersion");
        // "a/b/c" has neither group nor version
        let version = match api_version.split_once('/') {
            None => api_version,
            Some((_, v)) if !v.contains('/') => v,
            Some(_) => "",
        };
        if version.is_empty() {
            errors.invalid(
                &at.child("apiVersion"),
                api_version,
                "version must not be empty",
            );
        }
        for field in ["kind", "name", "uid"] {
            if owner.text(field).is_empty() {
                errors.invalid(&at.child(field), "", "must not be empty");
            }
        }
        if api_version == "v1" && owner.text("kind") == "Event" {
            errors.invalid(
                at,
                owner.clone(),
                "/v1, Kind=Event is disallowed from being an owner",
            );
        }
        if owner.flag("controller") {
            let this = format!("{}/{}", owner.text("kind"), owner.text("name"));
            if let Some(first) = &controller {
                errors.invalid(
                    at,
                    list.clone(),
                    format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"),
                );
            } else {
                controller = Some(this);
            }
        }
    }
}

fn finalizers(list: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Value::Array(items) = list else { return };
    for finalizer in items {
        errors.invalid_each(
            at,
            finalizer.as_text(),
            names::qualified(finalizer.as_text()),
        );
    }
    let has = |name| items.iter().any(|f| f.as_text() == name);
    if has("orphan") && has("foregroundDeletion") {
        errors.invalid(
            at,
            list.clone(),
            "finalizer orphan and foregroundDeletion cannot be both set",
        );
    }
}

fn managed_fields(list: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Value::Array(items) = list else { return };
    for (i, entry) in items.iter().enumerate() {
        let at = at.index(i);
        if !matches!(entry.text("operation"), "Apply" | "Update") {
            errors.invalid(
                &at.child("operation"),
                entry.text("operation"),
                "must be `Apply` or `Update`",
            );
        }
        if !matches!(entry.text("fieldsType"), "" | "FieldsV1") {
            errors.invalid(
                &at.child("fieldsType"),
                entry.text("fieldsType"),
                "must be `FieldsV1`",
            );
        }
        field_manager(entry.text("manager"), &at.child("manager"), errors);
        if entry.text("subresource").len() > 256 {
            errors.too_long(&at.child("subresource"), 256);
        }
    }
}

fn field_manager(manager: &str, at: &Path<'_>, errors: &mut Errors) {
    if manager.len() > 128 {
        errors.too_long(at, 128);
    }
    for (i, c) in manager.char_indices().filter(|(_, c)| c.is_control()) {
        errors.invalid(
            at,
            manager,
            format!("invalid character U+{:04X} (at position {i})", c as u32),
        );
    }
}

/// The metadata errors of an update of a kind of Kubernetes' own.
pub(crate) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    update_generic(new, old, errors);
    kube_finalizers(new, errors);
}

/// The metadata errors of any update.
pub(crate) fn update_generic(new: &Value, old: &Value, errors: &mut Errors) {
    let (new, old) = (new.at("metadata"), old.at("metadata"));
    if old.has("deletionTimestamp") {
        let before = old.items("finalizers");
        let mut added: Vec<&str> = new
            .items("finalizers")
            .iter()
            .filter(|f| !before.contains(f))
            .map(Read::as_text)
            .collect();
        if !added.is_empty() {
            added.sort_unstable();
            let list = added
                .iter()
                .map(|f| crate::error::quoted(f))
                .collect::<Vec<_>>()
                .join(", ");
            errors.forbidden(
                &AT.child("finalizers"),
                format!("no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"),
            );
        }
    }
    if new.text("resourceVersion").is_empty() {
        errors.invalid(
            &AT.child("resourceVersion"),
            "",
            "must be specified for an update",
        );
    }
    if new.num("generation") < old.num("generation") {
        errors.invalid(
            &AT.child("generation"),
            new.num("generation"),
            "must not be decremented",
        );
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        immutable(new.at(field), old.at(field), &AT.child(field), errors);
    }
    labels::labels(new.at("labels"), &AT.child("labels"), errors);
    annotations(new.at("annotations"), &AT.child("annotations"), errors);
    owner_references(
        new.at("ownerReferences"),
        &AT.child("ownerReferences"),
        errors,
    );
    managed_fields(new.at("managedFields"), &AT.child("managedFields"), errors);
}

/// Clients do not set the generation.
pub(crate) fn keep_generation(new: &mut Value, old: &Value) {
    new.make("metadata")
        .take_from(old.at("metadata"), "generation");
}

/// Restores system fields that an update leaves out or, for times, changes.
pub(crate) fn keep_system_fields(new: &mut Value, old: &Value) {
    let old = old.at("metadata");
    let new = new.make("metadata");
    new.blank("uid", old.text("uid"));
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if old.has(field) {
            new.take_from(old, field);
        }
    }
    if old.has("deletionGracePeriodSeconds") && !new.has("deletionGracePeriodSeconds") {
        new.take_from(old, "deletionGracePeriodSeconds");
    }
}

#[cfg(test)]
mod tests {
    use control_types::value::Value;

    use super::*;

    fn errors(json: &str) -> Vec<String> {
        let object = Value::from_slice(json.as_bytes()).expect("test object");
        let mut errors = Errors::new();
        validate(&object, Some(true), names::subdomain_name, &mut errors);
        errors.into_vec().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_namespaced_object_needs_a_name_and_a_namespace() {
        assert_eq!(
            errors(r#"{"metadata":{}}"#),
            [
                "metadata.name: Required value: name or generateName is required",
                "metadata.namespace: Required value"
            ]
        );
    }

    #[test]
    fn two_controllers_are_refused() {
        let found = errors(
            r#"{"metadata":{"name":"x","namespace":"n","ownerReferences":[
            {"apiVersion":"v1","kind":"Pod","name":"a","uid":"1","controller":true},
            {"apiVersion":"v1","kind":"Pod","name":"b","uid":"2","controller":true}]}}"#,
        );
        assert_eq!(found.len(), 1);
        assert!(
            found[0].ends_with("Found \"true\" in references for Pod/a and Pod/b"),
            "{found:?}"
        );
    }

    #[test]
    fn an_update_may_not_change_the_uid() {
        let old =
            Value::from_slice(br#"{"metadata":{"name":"x","uid":"1","resourceVersion":"1"}}"#)
                .expect("old");
        let new =
            Value::from_slice(br#"{"metadata":{"name":"x","uid":"2","resourceVersion":"1"}}"#)
                .expect("new");
        let mut errors = Errors::new();
        update(&new, &old, &mut errors);
        let found = errors.into_vec();
        assert_eq!(
            found[0].to_string(),
            "metadata.uid: Invalid value: \"2\": field is immutable"
        );
    }
}
