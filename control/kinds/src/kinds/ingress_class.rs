//! `IngressClass`: which controller serves an Ingress.

use control_types::value::Value;

use super::ingress::check_reference;
use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{collect, immutable_text, meta, names};
use crate::table::{Timestamp, age, columns};
use crate::tree::{Read, Write};
use crate::{FieldError, Kind};

const SPEC: Path<'static> = Path::new("spec");
const CONTROLLER_LIMIT: usize = 250;

pub(crate) static KIND: Kind = Kind {
    group: "networking.k8s.io",
    kind: "IngressClass",
    namespaced: Some(false),
    default: |object| {
        if let Some(spec) = object.there("spec")
            && let Some(parameters) = spec.there("parameters")
        {
            parameters.absent("scope", "Cluster");
        }
    },
    prepare_create: generic::generation_one,
    prepare_update: |new, old| generic::raise_generation_on(new, old, &["spec"]),
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update,
    columns: columns::INGRESS_CLASS,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    let controller = spec.text("controller");
    if controller.len() > CONTROLLER_LIMIT {
        errors.too_long(&at.child("controller"), CONTROLLER_LIMIT);
    }
    names::domain_path(controller, &at.child("controller"), errors);
    if !spec.has("parameters") {
        return;
    }
    let (parameters, at) = (spec.at("parameters"), at.child("parameters"));
    check_reference(parameters, &at, errors);
    let namespace_at = at.child("namespace");
    match parameters.text("scope") {
        "Namespace" if !parameters.has("namespace") => {
            errors.required(&namespace_at, "`parameters.scope` is set to 'Namespace'");
        }
        "Namespace" => {
            let namespace = parameters.text("namespace");
            errors.invalid_each(&namespace_at, namespace, names::dns_label(namespace));
        }
        "Cluster" if parameters.has("namespace") => {
            errors.forbidden(&namespace_at, "`parameters.scope` is set to 'Cluster'");
        }
        "Cluster" => {}
        other => errors.not_supported(&at.child("scope"), other, &["Cluster", "Namespace"]),
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        let (now, then) = (new.at("spec"), old.at("spec"));
        let field = "controller";
        immutable_text(
            now.text(field),
            then.text(field),
            &SPEC.child(field),
            errors,
        );
        check(new, errors);
    })
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let (meta, spec) = (object.at("metadata"), object.at("spec"));
    let mut name = meta.text("name").to_owned();
    let mark = "ingressclass.kubernetes.io/is-default-class";
    if meta.at("annotations").text(mark) == "true" {
        name.push_str(" (default)");
    }
    let parameters = spec.at("parameters");
    let shown = if parameters.is_null() {
        "<none>".to_owned()
    } else {
        let mut kind = parameters.text("kind").to_owned();
        if parameters.has("apiGroup") {
            kind.push('.');
            kind.push_str(parameters.text("apiGroup"));
        }
        format!("{kind}/{}", parameters.text("name"))
    };
    vec![
        name.into(),
        spec.text("controller").into(),
        shown.into(),
        age(object, now),
    ]
}
