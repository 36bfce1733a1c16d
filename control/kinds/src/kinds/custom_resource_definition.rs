//! `CustomResourceDefinition`: a kind that its users bring.

use control_types::value;
use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, DEFAULT};
use crate::rules::{collect, crd_schema, immutable, matching, meta, names};
use crate::tree::{Read, Write, same};
use crate::{FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "apiextensions.k8s.io",
    kind: "CustomResourceDefinition",
    namespaced: Some(false),
    default,
    prepare_create,
    prepare_update,
    prepare_status_update: |new, old| new.take_from(old, "spec"),
    validate_create: |object| {
        collect(|errors| {
            check_name(object, errors);
            check(object, None, errors);
        })
    },
    validate_update,
    begin_deletion: Some(begin_deletion),
    ..DEFAULT
};

/// Keeps the definition until the objects of its kind are gone.
fn begin_deletion(object: &mut Value) {
    control_types::meta::add_finalizer(object, "customresourcecleanup.apiextensions.k8s.io");
    let at = control_types::time::now();
    let condition = value!({
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": (at.as_str()),
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    });
    let conditions = object
        .make("status")
        .make_object()
        .get_or_insert_with("conditions", || value!([]))
        .make_array();
    conditions.retain(|old| old.text("type") != "Terminating");
    conditions.push(condition);
}

fn default(object: &mut Value) {
    let spec = object.make("spec");
    let naming = spec.make("names");
    let kind = naming.text("kind").to_owned();
    naming.blank("singular", &kind.to_lowercase());
    if !kind.is_empty() {
        naming.blank("listKind", &format!("{kind}List"));
    }
    spec.absent("conversion", value!({"strategy": "None"}));
    if let Some(conversion) = spec.there("conversion")
        && let Some(webhook) = conversion.there("webhook")
        && let Some(config) = webhook.there("clientConfig")
        && let Some(service) = config.there("service")
    {
        service.absent("port", 443_i64);
    }
}

/// The version in which objects are stored is noted: others may have been before.
fn note_storage(object: &mut Value) {
    let versions = object.at("spec").items("versions");
    let stored = versions.iter().find(|version| version.flag("storage"));
    let Some(name) = stored.map(|version| version.text("name").to_owned()) else {
        return;
    };
    let status = object.make("status");
    let mut all = status.items("storedVersions").to_vec();
    if all.iter().all(|known| known.as_text() != name) {
        all.push(name.into());
        status.put("storedVersions", Value::Array(all));
    }
}

fn prepare_create(object: &mut Value) {
    generic::generation_one(object);
    object.put(
        "status",
        value!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}}),
    );
    note_storage(object);
}

fn prepare_update(new: &mut Value, old: &Value) {
    generic::update_spec(new, old);
    note_storage(new);
}

fn check_name(object: &Value, errors: &mut Errors) {
    meta::validate_generic(object, Some(false), names::segment_name, errors);
    let spec = object.at("spec");
    let name = object.at("metadata").text("name");
    let wanted = format!("{}.{}", spec.at("names").text("plural"), spec.text("group"));
    if !name.is_empty() && name != wanted {
        errors.invalid(
            &Path::new("metadata.name"),
            name,
            "must be spec.names.plural+\".\"+spec.group",
        );
    }
}

fn check(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    let (group, group_at) = (spec.text("group"), at.child("group"));
    if group.is_empty() {
        errors.required(&group_at, "");
    } else {
        let wrong = names::dns_subdomain(group);
        if !wrong.is_empty() {
            errors.invalid(&group_at, group, wrong.join(","));
        } else if !group.contains('.') {
            errors.invalid(&group_at, group, "should be a domain with at least one dot");
        }
    }
    let scope = spec.text("scope");
    if scope.is_empty() {
        errors.required(&at.child("scope"), "");
    } else if !matches!(scope, "Cluster" | "Namespaced") {
        errors.not_supported(&at.child("scope"), scope, &["Cluster", "Namespaced"]);
    }
    if spec.flag("preserveUnknownFields") {
        errors.invalid(
            &at.child("preserveUnknownFields"),
            true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        );
    }
    let before = old.map_or(&[][..], |old| old.at("spec").items("versions"));
    check_versions(spec, before, &at.child("versions"), errors);
    check_names(spec.at("names"), &at.child("names"), errors);
    check_conversion(spec.at("conversion"), &at.child("conversion"), errors);
    if object.at("status").items("storedVersions").is_empty() {
        errors.invalid(
            &Path::new("status.storedVersions"),
            Value::Array(Vec::new()),
            "must have at least one stored version",
        );
    }
}

/// Whether all versions say the same of `field`. The API then takes it for a
/// property of the whole definition, and its errors name it there.
fn common(versions: &[Value], field: &str) -> bool {
    versions
        .split_first()
        .is_some_and(|(first, rest)| rest.iter().all(|v| same(v.at(field), first.at(field))))
}

/// `before`: the versions as they are stored.
fn check_versions(spec: &Value, before: &[Value], all: &Path<'_>, errors: &mut Errors) {
    let versions = spec.items("versions");
    let whole = Path::new("spec");
    let schema_of = |version: &Value| version.at("schema").at("openAPIV3Schema").clone();
    for (i, version) in versions.iter().enumerate() {
        let at = all.index(i);
        if schema_of(version).is_null() {
            errors.required(&at.child("schema").child("openAPIV3Schema"), "");
        }
        let name = version.text("name");
        let wrong = names::dns1035_label(name);
        if !wrong.is_empty() {
            errors.invalid(&at.child("name"), name, wrong.join(","));
            if i == 0 && !name.is_empty() {
                // the older field for a single version follows the first
                errors.invalid(&whole.child("version"), name, wrong.join(","));
            }
        }
    }
    let everywhere = |field: &str| common(versions, field);
    for (i, version) in versions.iter().enumerate() {
        let at = all.index(i);
        let here = |field: &str| i == 0 || !everywhere(field);
        let schema = version.at("schema").at("openAPIV3Schema");
        if here("schema") && !schema.is_null() {
            let shared = everywhere("schema");
            let status = if shared {
                versions.iter().any(|v| v.at("subresources").has("status"))
            } else {
                version.at("subresources").has("status")
            };
            let owner = if shared {
                whole.child("validation")
            } else {
                at.child("schema")
            };
            let unchanged = before.iter().any(|old| {
                old.text("name") == version.text("name")
                    && same(old.at("schema").at("openAPIV3Schema"), schema)
            });
            let at = owner.child("openAPIV3Schema");
            crd_schema::root(schema, status, unchanged, &at, errors);
        }
        if here("additionalPrinterColumns") {
            let owner = if everywhere("additionalPrinterColumns") {
                &whole
            } else {
                &at
            };
            check_columns(version, owner, errors);
        }
        if here("selectableFields") {
            let owner = if everywhere("selectableFields") {
                &whole
            } else {
                &at
            };
            check_selectable(version, owner, errors);
        }
        if here("subresources") {
            let owner = if everywhere("subresources") {
                &whole
            } else {
                &at
            };
            check_scale(version, owner, errors);
        }
    }
    let unique = |i: usize, version: &Value| {
        !versions
            .iter()
            .take(i)
            .any(|other| other.text("name") == version.text("name"))
    };
    if !versions
        .iter()
        .enumerate()
        .all(|(i, version)| unique(i, version))
    {
        errors.invalid(
            all,
            spec.at("versions").clone(),
            "must contain unique version names",
        );
    }
    if versions
        .iter()
        .filter(|version| version.flag("storage"))
        .count()
        != 1
    {
        errors.invalid(
            all,
            spec.at("versions").clone(),
            "must have exactly one version marked as storage version",
        );
    }
}

fn check_selectable(version: &Value, at: &Path<'_>, errors: &mut Errors) {
    let at = at.child("selectableFields");
    let schema = version.at("schema").at("openAPIV3Schema");
    let fields = version.items("selectableFields");
    if schema.is_null() && !fields.is_empty() {
        errors.invalid(
            &at,
            "",
            "may only be set when `version.schema.openAPIV3Schema` is not included",
        );
        return;
    }
    for (j, field) in fields.iter().enumerate() {
        let path = field.text("jsonPath");
        let at = at.index(j);
        let at = at.child("jsonPath");
        let of = crd_schema::type_at(schema, path);
        if path.is_empty() {
            errors.required(&at, "");
        } else if !matches!(of, Some("string" | "boolean" | "integer")) {
            errors.invalid(
                &at,
                path,
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            );
        }
    }
}

fn check_columns(version: &Value, at: &Path<'_>, errors: &mut Errors) {
    let all = at.child("additionalPrinterColumns");
    let kinds = ["boolean", "date", "integer", "number", "string"];
    let formats = [
        "binary",
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
    ];
    for (i, column) in version.items("additionalPrinterColumns").iter().enumerate() {
        let at = all.index(i);
        if column.text("name").is_empty() {
            errors.required(&at.child("name"), "");
        }
        if column.text("type").is_empty() {
            let why = format!("must be one of {}", kinds.join(","));
            errors.required(&at.child("type"), why);
        }
        let (kind, format) = (column.text("type"), column.text("format"));
        if !kind.is_empty() && !kinds.contains(&kind) {
            let why = format!("must be one of {}", kinds.join(","));
            errors.invalid(&at.child("type"), kind, why);
        }
        if !format.is_empty() && !formats.contains(&format) {
            let why = format!("must be one of {}", formats.join(","));
            errors.invalid(&at.child("format"), format, why);
        }
        let path = column.text("jsonPath");
        if path.is_empty() {
            errors.required(&at.child("JSONPath"), "");
        } else if !path.starts_with('.') {
            errors.invalid(
                &at.child("JSONPath"),
                path,
                "must be a simple json path starting with .",
            );
        }
    }
}

fn check_scale(version: &Value, at: &Path<'_>, errors: &mut Errors) {
    let scale = version.at("subresources").at("scale");
    if scale.is_null() {
        return;
    }
    let at = at.child("subresources");
    let at = at.child("scale");
    for (field, roots) in [
        ("specReplicasPath", &[".spec."][..]),
        ("statusReplicasPath", &[".status."]),
        ("labelSelectorPath", &[".spec.", ".status."]),
    ] {
        let (path, at) = (scale.text(field), at.child(field));
        if path.is_empty() {
            if field != "labelSelectorPath" {
                errors.required(&at, "");
            }
        } else if !path.starts_with('.') {
            errors.invalid(&at, path, "must be a simple json path starting with .");
        } else if path.contains('[') {
            errors.invalid(
                &at,
                path,
                "should be a json path without the array notation",
            );
        } else if !roots.iter().any(|root| path.starts_with(root)) {
            let shown: Vec<&str> = roots
                .iter()
                .map(|root| root.trim_end_matches('.'))
                .collect();
            let why = format!("should be a json path under {}", shown.join(" or "));
            errors.invalid(&at, path, why);
        }
    }
}

fn check_names(naming: &Value, at: &Path<'_>, errors: &mut Errors) {
    for field in ["plural", "singular", "kind", "listKind"] {
        if naming.text(field).is_empty() {
            errors.required(&at.child(field), "");
        }
    }
    for field in ["plural", "singular"] {
        let wrong = names::dns1035_label(naming.text(field));
        if !wrong.is_empty() && !naming.text(field).is_empty() {
            errors.invalid(&at.child(field), naming.text(field), wrong.join(","));
        }
    }
    for field in ["kind", "listKind"] {
        let name = naming.text(field);
        if name.is_empty() {
            continue;
        }
        let wrong = names::dns1035_label(&name.to_lowercase());
        if !wrong.is_empty() {
            let why = format!(
                "may have mixed case, but should otherwise match: {}",
                wrong.join(",")
            );
            errors.invalid(&at.child(field), name, why);
        }
    }
    for field in ["shortNames", "categories"] {
        let all = at.child(field);
        for (i, name) in naming.items(field).iter().map(Read::as_text).enumerate() {
            let wrong = names::dns1035_label(name);
            if !wrong.is_empty() {
                errors.invalid(&all.index(i), name, wrong.join(","));
            }
        }
    }
    let kind = naming.text("kind");
    if !kind.is_empty() && kind == naming.text("listKind") {
        let why = "kind and listKind may not be the same";
        errors.invalid(&at.child("listKind"), kind, why);
    }
}

fn check_conversion(conversion: &Value, at: &Path<'_>, errors: &mut Errors) {
    let webhook_at = at.child("webhook");
    match conversion.text("strategy") {
        "None" if conversion.has("webhook") => errors.forbidden(
            &webhook_at,
            "should not be set when strategy is not set to Webhook",
        ),
        "None" => {}
        "Webhook" => {
            let webhook = conversion.at("webhook");
            // the API names these two as its older version did
            let client_at = at.child("webhookClientConfig");
            if webhook.has("clientConfig") {
                matching::client(webhook.at("clientConfig"), &client_at, errors);
            } else {
                errors.required(&client_at, "required when strategy is set to Webhook");
            }
            if webhook.items("conversionReviewVersions").is_empty() {
                errors.required(&at.child("conversionReviewVersions"), "");
            }
        }
        "" => errors.required(&at.child("strategy"), ""),
        other => errors.not_supported(&at.child("strategy"), other, &["None", "Webhook"]),
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update_generic(new, old, errors);
        check(new, Some(old), errors);
        let established = old
            .at("status")
            .items("conditions")
            .iter()
            .any(|c| c.text("type") == "Established" && c.text("status") == "True");
        let fixed: &[(&[&str], &str)] = if established {
            &[
                (&["spec", "scope"], "spec.scope"),
                (&["spec", "names", "kind"], "spec.names.kind"),
            ]
        } else {
            &[]
        };
        let always: [(&[&str], &str); 2] = [
            (&["spec", "group"], "spec.group"),
            (&["spec", "names", "plural"], "spec.names.plural"),
        ];
        for (path, said) in fixed.iter().chain(&always) {
            immutable(new.dig(path), old.dig(path), &Path::new(said), errors);
        }
        let names: Vec<&str> = new
            .at("spec")
            .items("versions")
            .iter()
            .map(|version| version.text("name"))
            .collect();
        let stored = Path::new("status.storedVersions");
        for (i, version) in new.at("status").items("storedVersions").iter().enumerate() {
            if !names.contains(&version.as_text()) {
                let why = "missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions";
                let why = why.replace("v1", version.as_text());
                errors.invalid(&stored.index(i), version.clone(), why);
            }
        }
    })
}
