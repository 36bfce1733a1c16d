//! `CustomResourceDefinition`: a kind that its users bring.

use control_types::object;
use control_types::value;
use control_types::value::Value;

use crate::approval;
use crate::error::{Errors, Path};
use crate::generic::{self, DEFAULT};
use crate::rules::{collect, crd_fields, crd_schema, immutable, matching, meta, names, pem};
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
            check_rest(object, None, errors);
        })
    },
    validate_update,
    validate_status_update,
    warnings,
    begin_deletion: Some(begin_deletion),
    ..DEFAULT
};

/// Keeps the definition until the objects of its kind are deleted.
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
    if object.at("status").items("storedVersions").is_empty() {
        note_storage(object);
    }
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

/// Checks the name of a definition.
fn check_name(object: &Value, errors: &mut Errors) {
    meta::validate_generic(object, Some(false), names::subdomain_name, errors);
    let spec = object.at("spec");
    let wanted = format!("{}.{}", spec.at("names").text("plural"), spec.text("group"));
    let metadata = Path::new("metadata");
    for member in ["generateName", "name"] {
        let name = object.at("metadata").text(member);
        if !name.is_empty() && name != wanted {
            let why = "must be spec.names.plural+\".\"+spec.group";
            errors.invalid(&metadata.child(member), name, why);
        }
    }
}

/// Validates a definition; `old` is its former state.
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
    check_versions(spec, old, &at, errors);
    check_conversion(spec.at("conversion"), old, &at.child("conversion"), errors);
}

/// Validates what follows the specification.
fn check_rest(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let accepted = Path::new("status.acceptedNames");
    check_names(object.at("status").at("acceptedNames"), &accepted, errors);
    check_stored(object, errors);
    check_approval(object, old, errors);
    let keeps = |object: &Value| object.at("spec").flag("preserveUnknownFields");
    if keeps(object) && !old.is_some_and(keeps) {
        errors.invalid(
            &Path::new("spec.preserveUnknownFields"),
            true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        );
    }
}

/// The versions in which objects may be stored are versions of the definition.
fn check_stored(object: &Value, errors: &mut Errors) {
    let at = Path::new("status.storedVersions");
    let stored = object.at("status").items("storedVersions");
    if stored.is_empty() {
        let none = Value::Array(Vec::new());
        errors.invalid(&at, none, "must have at least one stored version");
        return;
    }
    let versions = object.at("spec").items("versions");
    let all = || Value::Array(stored.to_vec());
    let named = |name: &str| stored.iter().any(|known| known.as_text() == name);
    for version in versions {
        let name = version.text("name");
        if version.flag("storage") && !named(name) {
            errors.invalid(&at, all(), format!("must have the storage version {name}"));
        }
    }
    for (i, version) in stored.iter().enumerate() {
        let name = version.as_text();
        if !versions.iter().any(|known| known.text("name") == name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.invalid(&at.index(i), version.clone(), why);
        }
    }
}

/// Groups of the Kubernetes community need an approval (KEP-1111), which may stay
/// as it was.
fn check_approval(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let group = object.at("spec").text("group");
    if !approval::is_protected(group) {
        return;
    }
    let found = approval::evaluate(object);
    if old.is_some_and(|old| approval::evaluate(old).state == found.state) {
        return;
    }
    let at = Path::new("metadata.annotations");
    let at = at.key(approval::ANNOTATION);
    match found.state {
        approval::State::Missing => errors.required(&at, found.message),
        approval::State::Invalid => errors.invalid(&at, found.annotation, found.message),
        approval::State::Approved | approval::State::Bypassed => {}
    }
}

/// Properties of the whole definition, which all versions share; errors name them there.
struct CommonProperties<'a> {
    versions: &'a [Value],
}

impl CommonProperties<'_> {
    fn has(&self, field: &str) -> bool {
        self.versions.split_first().is_some_and(|(first, rest)| {
            rest.iter()
                .all(|version| same(version.at(field), first.at(field)))
        })
    }

    /// The versions as messages show them.
    fn shown(&self) -> Value {
        let common = |field: &str| self.has(field);
        let own = |version: &Value, field: &str, show: fn(&Value) -> Value| {
            if common(field) || !version.has(field) {
                Value::Null
            } else {
                show(version.at(field))
            }
        };
        let one = |version: &Value| {
            object!({
                "Name": (version.text("name")),
                "Served": (version.flag("served")),
                "Storage": (version.flag("storage")),
                "Deprecated": (version.flag("deprecated")),
                "DeprecationWarning": (version.at("deprecationWarning").clone()),
                "Schema": (own(version, "schema", |schema| {
                    let schema = schema.at("openAPIV3Schema");
                    let schema = (!schema.is_null()).then(|| crd_fields::shown(schema));
                    value!({"OpenAPIV3Schema": schema})
                })),
                "Subresources": (own(version, "subresources", |given| {
                    let scale = given.at("scale");
                    let scale = (!scale.is_null()).then(|| value!({
                        "SpecReplicasPath": (scale.text("specReplicasPath")),
                        "StatusReplicasPath": (scale.text("statusReplicasPath")),
                        "LabelSelectorPath": (scale.at("labelSelectorPath").clone())
                    }));
                    value!({"Status": (given.at("status").clone()), "Scale": scale})
                })),
                "AdditionalPrinterColumns": (own(version, "additionalPrinterColumns", |columns| {
                    let columns = columns.as_array().into_iter().flatten();
                    columns.map(|column| object!({
                        "Name": (column.text("name")),
                        "Type": (column.text("type")),
                        "Format": (column.text("format")),
                        "Description": (column.text("description")),
                        "Priority": (column.num("priority")),
                        "JSONPath": (column.text("jsonPath"))
                    })).collect()
                })),
                "SelectableFields": (own(version, "selectableFields", |fields| {
                    let fields = fields.as_array().into_iter().flatten();
                    fields.map(|field| object!({"JSONPath": (field.text("jsonPath"))})).collect()
                }))
            })
        };
        self.versions.iter().map(one).collect()
    }
}

fn check_versions(spec: &Value, old: Option<&Value>, whole: &Path<'_>, errors: &mut Errors) {
    let versions = spec.items("versions");
    let common = CommonProperties { versions };
    let all = whole.child("versions");
    for (i, version) in versions.iter().enumerate() {
        if version.at("schema").at("openAPIV3Schema").is_null() {
            let at = all.index(i);
            errors.required(&at.child("schema").child("openAPIV3Schema"), "");
        }
    }
    let has_status = |version: &Value| version.at("subresources").has("status");
    let before = old.map_or(&[][..], |old| old.at("spec").items("versions"));
    let unchanged = |version: &Value| {
        before.iter().any(|one| {
            one.text("name") == version.text("name") && same(one.at("schema"), version.at("schema"))
        })
    };
    for (i, version) in versions.iter().enumerate() {
        let at = all.index(i);
        let name = version.text("name");
        let wrong = names::dns1035_label(name);
        if !wrong.is_empty() {
            errors.invalid(&at.child("name"), name, wrong.join(","));
        }
        check_deprecation(version, &at, errors);
        let own = |field: &str| !common.has(field);
        let schema = version.at("schema").at("openAPIV3Schema");
        if own("schema") && !schema.is_null() {
            let at = at.child("schema");
            crd_schema::root(
                schema,
                has_status(version),
                unchanged(version),
                &at.child("openAPIV3Schema"),
                errors,
            );
        }
        if own("subresources") {
            check_scale(version, &at, errors);
        }
        if own("additionalPrinterColumns") {
            check_columns(version, &at, errors);
        }
        if own("selectableFields") {
            let schema = Some(schema).filter(|schema| own("schema") && !schema.is_null());
            let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
            check_selectable(version, old, (schema, why), &at, errors);
        }
    }
    let unique = |(i, version): (usize, &Value)| {
        let name = version.text("name");
        versions
            .iter()
            .take(i)
            .all(|other| other.text("name") != name)
    };
    if !versions.iter().enumerate().all(unique) {
        errors.invalid(&all, common.shown(), "must contain unique version names");
    }
    let stored = versions.iter().filter(|version| version.flag("storage"));
    if stored.count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.invalid(&all, common.shown(), why);
    }
    if let Some(first) = versions.first() {
        // The older field for a single version follows the first.
        let name = first.text("name");
        let wrong = names::dns1035_label(name);
        if !wrong.is_empty() && !name.is_empty() {
            errors.invalid(&whole.child("version"), name, wrong.join(","));
        }
    }
    let naming = spec.at("names");
    let names_at = whole.child("names");
    for field in ["plural", "singular", "kind", "listKind"] {
        if naming.text(field).is_empty() {
            errors.required(&names_at.child(field), "");
        }
    }
    check_names(naming, &names_at, errors);
    let Some(first) = versions.first() else {
        return;
    };
    let schema = first.at("schema").at("openAPIV3Schema");
    let schema = Some(schema).filter(|schema| common.has("schema") && !schema.is_null());
    if let Some(schema) = schema {
        let at = whole.child("validation");
        let status = versions.iter().any(has_status);
        crd_schema::root(
            schema,
            status,
            unchanged(first),
            &at.child("openAPIV3Schema"),
            errors,
        );
    }
    if common.has("subresources") {
        check_scale(first, whole, errors);
    }
    if common.has("additionalPrinterColumns") {
        check_columns(first, whole, errors);
    }
    if common.has("selectableFields") {
        let why = "may only be set when validations.schema is included";
        check_selectable(first, old, (schema, why), whole, errors);
    }
}

fn check_deprecation(version: &Value, at: &Path<'_>, errors: &mut Errors) {
    let at = at.child("deprecationWarning");
    let Value::String(text) = version.at("deprecationWarning") else {
        return;
    };
    let mut wrong = |why: String| errors.invalid(&at, text.as_str(), why);
    if !version.flag("deprecated") {
        wrong("can only be set for deprecated versions".into());
        return;
    }
    if text.len() > 256 {
        wrong("must be <= 256 characters long".into());
    }
    if text.is_empty() {
        wrong("must not be an empty string".into());
    }
    let printable =
        |letter: &char| !letter.is_control() && (*letter == ' ' || !letter.is_whitespace());
    if let Some((i, _)) = text.char_indices().find(|(_, letter)| !printable(letter)) {
        wrong(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {i}"
        ));
    }
}

/// The most fields that objects of a version can be selected by.
const SELECTABLE: usize = 8;

/// Checks selectable fields; `schema` is that of the objects, or the error if there is
/// none.
fn check_selectable(
    version: &Value,
    old: Option<&Value>,
    (schema, missing): (Option<&Value>, &str),
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let at = at.child("selectableFields");
    let fields = version.items("selectableFields");
    if fields.is_empty() {
        return;
    }
    let Some(schema) = schema else {
        errors.invalid(&at, "", missing);
        return;
    };
    let mut known: Vec<Vec<String>> = Vec::new();
    for (j, field) in fields.iter().enumerate() {
        let path = field.text("jsonPath");
        let at = at.index(j);
        let at = at.child("jsonPath");
        if path.is_empty() {
            errors.required(&at, "");
            continue;
        }
        let (names, of) = match crd_fields::field(path, schema, false) {
            Ok(found) => found,
            Err(why) => {
                errors.invalid(&at, path, format!("is an invalid path: {why}"));
                continue;
            }
        };
        if names.first().is_some_and(|name| name == "metadata") {
            errors.invalid(&at, path, "must not point to fields in metadata");
        }
        let of = of.map(|of| of.text("type"));
        if !matches!(of, Some("string" | "boolean" | "integer")) {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.invalid(&at, path, why);
        }
        if known.contains(&names) {
            errors.duplicate(&at, path);
        } else {
            known.push(names);
        }
    }
    // As many as there were may stay.
    let before = old.is_some_and(|old| {
        let versions = old.at("spec").items("versions");
        let same_name = |one: &&Value| one.text("name") == version.text("name");
        versions
            .iter()
            .find(same_name)
            .is_some_and(|one| one.items("selectableFields") == fields)
    });
    if known.len() > SELECTABLE && !before {
        errors.too_many(&at, known.len(), SELECTABLE);
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
        let (kind, format) = (column.text("type"), column.text("format"));
        let why = format!("must be one of {}", kinds.join(","));
        if kind.is_empty() {
            errors.required(&at.child("type"), why);
        } else if !kinds.contains(&kind) {
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
    for (field, roots, why) in [
        ("specReplicasPath", &[".spec."][..], "under .spec"),
        ("statusReplicasPath", &[".status."], "under .status"),
        (
            "labelSelectorPath",
            &[".spec.", ".status."],
            "under either .spec or .status",
        ),
    ] {
        let (path, at) = (scale.text(field), at.child(field));
        if path.is_empty() {
            if field != "labelSelectorPath" {
                errors.required(&at, "");
            }
        } else if !path.starts_with('.') {
            errors.invalid(&at, path, "must be a simple json path starting with .");
        } else if !roots.iter().any(|root| path.starts_with(root)) {
            errors.invalid(&at, path, format!("should be a json path {why}"));
        }
    }
}

fn check_names(naming: &Value, at: &Path<'_>, errors: &mut Errors) {
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
    let list = |field: &str, errors: &mut Errors| {
        let all = at.child(field);
        for (i, name) in naming.items(field).iter().map(Read::as_text).enumerate() {
            let wrong = names::dns1035_label(name);
            if !wrong.is_empty() {
                errors.invalid(&all.index(i), name, wrong.join(","));
            }
        }
    };
    list("shortNames", errors);
    let kind = naming.text("kind");
    if !kind.is_empty() && kind == naming.text("listKind") {
        let why = "kind and listKind may not be the same";
        errors.invalid(&at.child("listKind"), kind, why);
    }
    list("categories", errors);
}

/// Versions of `ConversionReview` that this server speaks.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

fn check_conversion(conversion: &Value, old: Option<&Value>, at: &Path<'_>, errors: &mut Errors) {
    let strategy = conversion.text("strategy");
    match strategy {
        "None" | "Webhook" => {}
        "" => errors.required(&at.child("strategy"), ""),
        other => errors.not_supported(&at.child("strategy"), other, &["None", "Webhook"]),
    }
    let webhook = conversion.at("webhook");
    // the API names these two as its older version did
    let (client_at, reviews_at) = (
        at.child("webhookClientConfig"),
        at.child("conversionReviewVersions"),
    );
    let reviews = webhook.items("conversionReviewVersions");
    if strategy != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if webhook.has("clientConfig") {
            errors.forbidden(&client_at, why);
        }
        if !reviews.is_empty() {
            errors.forbidden(&reviews_at, why);
        }
        return;
    }
    if webhook.has("clientConfig") {
        let config = webhook.at("clientConfig");
        matching::client(config, &client_at, errors);
        if !old.is_none_or(allows_bad_bundle)
            && let Err(why) = pem::certificates(config.text("caBundle"))
        {
            let why = format!("unable to load root certificates: {why}");
            let shown = config.at("caBundle").clone();
            errors.invalid(&client_at.child("caBundle"), shown, why);
        }
    } else {
        errors.required(&client_at, "required when strategy is set to Webhook");
    }
    if reviews.is_empty() {
        errors.required(&reviews_at, "");
        return;
    }
    for (i, version) in reviews.iter().enumerate() {
        let at = reviews_at.index(i);
        if reviews[..i].contains(version) {
            errors.invalid(&at, version.clone(), "duplicate version");
            continue;
        }
        for why in names::dns1035_label(version.as_text()) {
            errors.invalid(&at, version.clone(), why);
        }
    }
    let known = |reviews: &[Value]| reviews.iter().any(|one| REVIEWS.contains(&one.as_text()));
    // A definition that was accepted without a known one may stay so.
    let before = old.map(|old| {
        let webhook = old.dig(&["spec", "conversion", "webhook"]);
        webhook.items("conversionReviewVersions")
    });
    let needed = before.is_none_or(|before| before.is_empty() || known(before));
    if needed && !known(reviews) {
        let why = format!("must include at least one of {}", REVIEWS.join(", "));
        errors.invalid(&reviews_at, Value::Array(reviews.to_vec()), why);
    }
}

/// Before a definition is established, and where it was one already, the bundle may
/// be none.
fn allows_bad_bundle(old: &Value) -> bool {
    let bundle = old
        .dig(&["spec", "conversion", "webhook", "clientConfig"])
        .text("caBundle");
    !is_established(old) || (!bundle.is_empty() && pem::certificates(bundle).is_err())
}

fn is_established(definition: &Value) -> bool {
    definition
        .at("status")
        .items("conditions")
        .iter()
        .any(|c| c.text("type") == "Established" && c.text("status") == "True")
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update_generic(new, old, errors);
        check(new, Some(old), errors);
        let fixed: &[(&[&str], &str)] = if is_established(old) {
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
        check_rest(new, Some(old), errors);
    })
}

fn validate_status_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update_generic(new, old, errors);
        let accepted = Path::new("status.acceptedNames");
        check_names(new.at("status").at("acceptedNames"), &accepted, errors);
    })
}

/// Warns about new formats without effect.
fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let formats = |definition: &Value| {
        let mut out = Vec::new();
        let versions = definition.at("spec").items("versions");
        // A warning common to all versions is given once.
        let common = CommonProperties { versions }.has("schema");
        for version in versions
            .iter()
            .take(if common { 1 } else { versions.len() })
        {
            crd_schema::unknown_formats(version.at("schema").at("openAPIV3Schema"), 0, &mut out);
        }
        out
    };
    let before = old.map(formats).unwrap_or_default();
    formats(new)
        .into_iter()
        .filter(|format| !before.contains(format))
        .map(|format| format!("unrecognized format {}", crate::error::quoted(&format)))
        .collect()
}
