//! Processing of written objects of a custom kind: decoding, initial state, fields that
//! an update preserves, and validation.

use control_types::coerce;
use control_types::go;
use control_types::meta;
use control_types::schema::TypeId;
use control_types::structural::Schema;
use control_types::value;
use control_types::value::Value;

use super::{CustomKind, lists, validate};
use crate::error::{ErrorKind, Errors, FieldError, Path};
use crate::rules::{meta as metadata, names};
use crate::tree::{Read, Write};

/// The type of which the metadata of every object is a part.
const PARTIAL: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata";

/// Errors after which rules are not evaluated: the object does not have the expected
/// structure.
const BLOCKING: &[ErrorKind] = &[
    ErrorKind::NotSupported,
    ErrorKind::Required,
    ErrorKind::TooLong,
    ErrorKind::TooMany,
    ErrorKind::TypeInvalid,
];

impl CustomKind {
    /// Brings a parsed object into the form of the kind: metadata by its type,
    /// unknown members pruned, `null` dropped. Answers what strict field validation
    /// objects to, as `unknown field "spec.foo"`.
    ///
    /// # Errors
    /// When metadata does not have its type.
    pub fn coerce(&self, object: &mut Value) -> Result<Vec<String>, coerce::Error> {
        self.coerce_with(object, Schema::prune_nulls)
    }

    /// As [`CustomKind::coerce`], for the result of an apply: nothing decodes it again,
    /// so that every `null` stays for validation.
    ///
    /// # Errors
    /// When metadata does not have its type.
    pub fn coerce_applied(&self, object: &mut Value) -> Result<Vec<String>, coerce::Error> {
        self.coerce_with(object, |_, _| ())
    }

    fn coerce_with(
        &self,
        object: &mut Value,
        nulls: impl FnOnce(&Schema, &mut Value),
    ) -> Result<Vec<String>, coerce::Error> {
        let mut findings = metadata_of(object)?;
        findings.extend(
            self.schema
                .prune(object)
                .into_iter()
                .map(|path| format!("unknown field {}", crate::error::quoted(&path))),
        );
        nulls(&self.schema, object);
        if self.schema.has_resources() {
            let mut unknown = Vec::new();
            embedded_at(&self.schema, object, false, "", &mut unknown)?;
            if !unknown.is_empty() {
                findings.extend(unknown);
                findings.sort();
            }
        }
        sort(object);
        Ok(findings)
    }

    /// Gives absent members their defaults.
    pub fn default(&self, object: &mut Value) {
        self.schema.fill_defaults(object);
    }

    /// Brings an object that was stored, in whatever version and under whatever
    /// definition, into the form of this version, in which it is stored from now on.
    pub fn normalize(&self, object: &mut Value) {
        self.convert(object);
        self.default(object);
    }

    /// Brings an object of another version into this one, with nothing that this
    /// version does not know. It gives no defaults: those are of the version in which
    /// an object is written, and of that in which it is stored.
    pub fn convert(&self, object: &mut Value) {
        let wanted = meta::join_api_version(self.group, self.version);
        meta::set_type(object, &wanted, self.kind);
        // Metadata of the wrong type was stored by others: it stays as it is.
        let _ = self.coerce(object);
        if meta::generation(object) == 0 {
            meta::set_generation(object, 1);
        }
    }

    /// Prepares and validates a new object.
    pub fn before_create(&self, object: &mut Value) -> Vec<FieldError> {
        if self.has_status {
            object.drop_field("status");
        }
        meta::set_generation(object, 1);
        let mut errors = Errors::new();
        metadata::validate_generic(
            object,
            Some(self.namespaced),
            names::subdomain_name,
            &mut errors,
        );
        validate::check(&self.schema, object, None, None, &mut errors);
        self.scale_spec(object, &mut errors);
        self.scale_status(object, &mut errors);
        embedded_errors(&self.schema, object, None, &mut errors);
        lists::check(&self.schema, object, &mut errors);
        self.rules(object, None, &mut errors);
        let errors = errors.into_vec();
        if errors.is_empty() {
            return metadata::validate_path_segments(object, Some(self.namespaced));
        }
        errors
    }

    /// Prepares and validates an update of the main resource.
    pub fn before_update(&self, new: &mut Value, old: &Value) -> Vec<FieldError> {
        metadata::keep_generation(new, old);
        if self.has_status {
            new.take_from(old, "status");
        }
        let rest = |object: &Value| -> Vec<(String, Value)> {
            let map = object.as_object();
            let mut members: Vec<(String, Value)> = map
                .into_iter()
                .flat_map(control_types::Map::iter)
                .filter(|(key, _)| key.as_str() != "metadata")
                .map(|(key, value)| (key.to_string(), value.clone()))
                .collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            members
        };
        if rest(new) != rest(old) {
            meta::set_generation(new, meta::generation(old) + 1);
        }
        self.checked(new, old, |errors, new| {
            validate::check(&self.schema, new, Some(old), None, errors);
            self.scale_spec(new, errors);
            self.scale_status(new, errors);
            embedded_errors(&self.schema, new, None, errors);
        })
    }

    /// Prepares and validates an update of `status`; `None` if there is no such
    /// subresource.
    pub fn before_status_update(&self, new: &mut Value, old: &Value) -> Option<Vec<FieldError>> {
        if !self.has_status {
            return None;
        }
        let status = new.get("status").cloned();
        let managers = new.path(&["metadata", "managedFields"]).cloned();
        let version = meta::resource_version(new).to_owned();
        new.clone_from(old);
        match managers {
            Some(list) => meta::metadata_mut(new).insert("managedFields", list),
            None => meta::metadata_mut(new).remove("managedFields"),
        };
        meta::set_resource_version(new, &version);
        match status {
            Some(status) => new.insert("status", status),
            None => new.remove("status"),
        };
        sort(new);
        Some(self.checked(new, old, |errors, new| {
            if let (Some(status), Some(of)) = (new.get("status"), self.schema.property("status")) {
                validate::check(of, status, old.get("status"), Some("status"), errors);
            }
            self.scale_status(new, errors);
        }))
    }

    fn checked(
        &self,
        new: &mut Value,
        old: &Value,
        own: impl FnOnce(&mut Errors, &Value),
    ) -> Vec<FieldError> {
        metadata::keep_system_fields(new, old);
        let mut errors = Errors::new();
        errors.extend(metadata::validate_path_segments(new, Some(self.namespaced)));
        metadata::update_generic(new, old, &mut errors);
        // The kind looks at metadata again, and reports it again, as the API does.
        metadata::update_generic(new, old, &mut errors);
        own(&mut errors, new);
        let mut before = Errors::new();
        lists::check(&self.schema, old, &mut before);
        if before.is_empty() {
            lists::check(&self.schema, new, &mut errors);
        }
        self.rules(new, Some(old), &mut errors);
        errors.into_vec()
    }

    /// Evaluates `x-kubernetes-validations`, unless earlier errors block them.
    fn rules(&self, object: &Value, old: Option<&Value>, errors: &mut Errors) {
        let Some(rules) = &self.rules else { return };
        if is_blocked(errors.iter()) {
            errors.extend([FieldError {
                kind: ErrorKind::Invalid,
                field: "<nil>".into(),
                bad_value: Some(Value::Null),
                detail: "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation".into(),
            }]);
        } else {
            rules.check(&self.schema, object, old, errors);
        }
    }

    /// Returns warnings about new finalizers with unconventional names, and about rules
    /// that unchanged values violate.
    #[must_use]
    pub fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let before: Vec<&str> = old.into_iter().flat_map(meta::finalizers).collect();
        let mut added: Vec<&str> = meta::finalizers(new)
            .filter(|name| !before.contains(name))
            .collect();
        added.sort_unstable();
        added.dedup();
        let mut out = Vec::new();
        for name in added {
            let shown = crate::error::quoted(name);
            let mut say = |why: &str| out.push(format!("metadata.finalizers: {shown}: {why}"));
            for why in names::qualified(name) {
                say(&why);
            }
            if name.contains('/') || matches!(name, "orphan" | "foregroundDeletion" | "kubernetes")
            {
                continue;
            }
            if name.contains('.') {
                say(
                    "prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers",
                );
            } else {
                say(
                    "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers",
                );
            }
        }
        if let Some(old) = old {
            out.extend(self.let_through(new, old));
        }
        out
    }

    /// Returns warnings of an update that is rejected for `errors`: about rules that
    /// unchanged values violate, if rules were evaluated.
    #[must_use]
    pub fn warnings_of_refused(
        &self,
        new: &Value,
        old: &Value,
        errors: &[FieldError],
    ) -> Vec<String> {
        if is_blocked(errors.iter()) {
            return Vec::new();
        }
        self.let_through(new, old)
    }

    fn let_through(&self, new: &Value, old: &Value) -> Vec<String> {
        let rules = self.rules.as_ref();
        rules.map_or_else(Vec::new, |rules| rules.let_through(&self.schema, new, old))
    }

    fn scale_spec(&self, object: &Value, errors: &mut Errors) {
        if let Some(scale) = &self.scale {
            replicas(object, scale.paths.spec_replicas, &scale.spec, errors);
        }
    }

    fn scale_status(&self, object: &Value, errors: &mut Errors) {
        let Some(scale) = &self.scale else { return };
        replicas(object, scale.paths.status_replicas, &scale.status, errors);
        if let (Some(path), Some(written)) = (scale.paths.selector, &scale.selector) {
            match nested(object, path) {
                Ok(Some(Value::String(_)) | None) => {}
                Ok(Some(other)) => {
                    let detail = accessor_error(path, other, "string");
                    errors.invalid(&Path::new(written), "", detail);
                }
                Err(error) => errors.invalid(&Path::new(written), "", error.to_string()),
            }
        }
    }
}

/// Whether an object is too wrong for rules.
fn is_blocked<'a>(mut errors: impl Iterator<Item = &'a FieldError>) -> bool {
    errors.any(|error| BLOCKING.contains(&error.kind))
}

/// A number of replicas that is not one.
fn replicas(object: &Value, path: &[&str], written: &str, errors: &mut Errors) {
    let at = Path::new(written);
    match nested(object, path) {
        Ok(Some(Value::Int(number))) if *number < 0 => {
            errors.invalid(&at, *number, "should be a non-negative integer");
        }
        Ok(Some(Value::Int(number))) if *number > i64::from(i32::MAX) => {
            errors.invalid(&at, *number, "should be less than or equal to 2147483647");
        }
        Ok(Some(Value::Int(_)) | None) => {}
        Ok(Some(other)) => {
            let detail = accessor_error(path, other, "int64");
            errors.invalid(&at, 0_i64, detail);
        }
        Err(error) => errors.invalid(&at, 0_i64, error.to_string()),
    }
}

/// Error for a path with a value that is not an object; the message is apimachinery's.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct AccessorError(String);

/// Returns the value at a path, if there is one.
fn nested<'a>(object: &'a Value, path: &[&str]) -> Result<Option<&'a Value>, AccessorError> {
    let mut value = object;
    for (at, name) in path.iter().enumerate() {
        match value {
            Value::Object(map) => match map.get(name) {
                Some(next) => value = next,
                None => return Ok(None),
            },
            other => {
                let wanted = "map[string]interface{}";
                return Err(AccessorError(accessor_error(&path[..at], other, wanted)));
            }
        }
    }
    Ok(Some(value))
}

fn accessor_error(path: &[&str], found: &Value, wanted: &str) -> String {
    format!(
        ".{} accessor error: {} is of the type {}, expected {wanted}",
        path.join("."),
        go::plain(found),
        go::type_name(found)
    )
}

/// Decodes metadata by its type. Returns the paths of unknown fields.
fn metadata_of(object: &mut Value) -> Result<Vec<String>, coerce::Error> {
    let Some(given) = object.get_mut("metadata") else {
        return Ok(Vec::new());
    };
    let Some(of) = TypeId::by_name(PARTIAL) else {
        return Ok(Vec::new());
    };
    let mut partial = value!({});
    partial.insert("metadata", given.take());
    let findings = coerce::coerce(&mut partial, of);
    let findings = match findings {
        Ok(findings) => findings,
        Err(error) => {
            return Err(error);
        }
    };
    *given = partial.remove("metadata").unwrap_or_else(Value::object);
    Ok(findings)
}

/// Metadata of embedded objects by its type; `inner`: the value itself may be one.
pub(super) fn embedded(
    schema: &Schema,
    value: &mut Value,
    inner: bool,
) -> Result<(), coerce::Error> {
    embedded_at(schema, value, inner, "", &mut Vec::new())
}

/// As [`embedded`], and reports dropped fields: `unknown field "spec.pod.metadata.x"`.
fn embedded_at(
    schema: &Schema,
    value: &mut Value,
    inner: bool,
    at: &str,
    findings: &mut Vec<String>,
) -> Result<(), coerce::Error> {
    if !schema.has_resources() {
        return Ok(());
    }
    if inner && schema.is_embedded() && value.as_object().is_some() {
        let dot = if at.is_empty() { "" } else { "." };
        findings.extend(
            metadata_of(value)?
                .into_iter()
                .map(|said| said.replacen("\"metadata", &format!("\"{at}{dot}metadata"), 1)),
        );
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                if let Some(of) = schema.member(key).filter(|of| of.has_resources()) {
                    let at = match at {
                        "" => key.as_str().to_owned(),
                        at => format!("{at}.{}", key.as_str()),
                    };
                    embedded_at(of, value, true, &at, findings)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = schema.items().filter(|of| of.has_resources()) {
                for (i, item) in items.iter_mut().enumerate() {
                    embedded_at(of, item, true, &format!("{at}[{i}]"), findings)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Checks embedded objects: they need a kind and a version, and valid metadata.
pub(super) fn embedded_errors(
    schema: &Schema,
    value: &Value,
    at: Option<&Path<'_>>,
    errors: &mut Errors,
) {
    if !schema.has_resources() {
        return;
    }
    if let Some(at) = at
        && schema.is_embedded()
        && value.as_object().is_some()
    {
        embedded_text(value, "apiVersion", at, errors, |version| {
            let parts = version.matches('/').count();
            (parts > 1).then(|| format!("unexpected GroupVersion string: {version}"))
        });
        embedded_text(value, "kind", at, errors, |kind| {
            let wrong = names::dns1035_label(&kind.to_lowercase());
            let wrong = (!wrong.is_empty()).then(|| wrong.join(","))?;
            Some(format!(
                "may have mixed case, but should otherwise match: {wrong}"
            ))
        });
        if value.has("metadata") {
            let mut metadata = value.at("metadata").clone();
            let namespaced = !metadata.text("namespace").is_empty();
            // An embedded object needs no name.
            metadata.blank("name", "fakename");
            metadata::validate_at(
                &metadata,
                Some(namespaced),
                |_, _| Vec::new(),
                &at.child("metadata"),
                errors,
            );
        }
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter() {
                if let Some(of) = schema.property(key) {
                    match at {
                        Some(at) => embedded_errors(of, value, Some(&at.child(key)), errors),
                        None => embedded_errors(of, value, Some(&Path::new(key)), errors),
                    }
                } else if let Some(of) = schema.additional_schema()
                    && let Some(at) = at
                {
                    embedded_errors(of, value, Some(&at.key(key)), errors);
                }
            }
        }
        Value::Array(items) => {
            if let (Some(of), Some(at)) = (schema.items(), at) {
                for (i, item) in items.iter().enumerate() {
                    embedded_errors(of, item, Some(&at.index(i)), errors);
                }
            }
        }
        _ => {}
    }
}

/// Checks a required text of an embedded object; `wrong` returns what is wrong with it.
fn embedded_text(
    object: &Value,
    name: &str,
    at: &Path<'_>,
    errors: &mut Errors,
    wrong: impl Fn(&str) -> Option<String>,
) {
    let at = at.child(name);
    match object.get(name) {
        None => errors.required(&at, ""),
        Some(Value::String(text)) if text.is_empty() => {
            errors.invalid(&at, "", "must not be empty");
        }
        Some(Value::String(text)) => {
            if let Some(why) = wrong(text) {
                errors.invalid(&at, text, why);
            }
        }
        Some(other) => errors.invalid(&at, other.clone(), "must be a string"),
    }
}

/// Members in the order in which the API writes custom objects, but kind,
/// version and metadata first.
fn sort(object: &mut Value) {
    fn all(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.sort();
                map.values_mut().for_each(all);
            }
            Value::Array(items) => items.iter_mut().for_each(all),
            _ => {}
        }
    }
    if let Value::Object(map) = object {
        let rank = |key: &str| match key {
            "apiVersion" => 0,
            "kind" => 1,
            "metadata" => 2,
            _ => 3,
        };
        map.entries_mut()
            .sort_by(|(a, _), (b, _)| (rank(a), a.as_str()).cmp(&(rank(b), b.as_str())));
        for (key, value) in map.iter_mut() {
            if key.as_str() != "metadata" {
                all(value);
            }
        }
    }
}
