//! Ingress: how HTTP from outside reaches services.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, DEFAULT};
use crate::rules::{collect, ip, meta, names, ports};
use crate::table::{Timestamp, age, cells, columns, name};
use crate::tree::{Read, Write};
use crate::{FieldError, Kind};

const CLASS: &str = "kubernetes.io/ingress.class";

pub(crate) static KIND: Kind = Kind {
    group: "networking.k8s.io",
    kind: "Ingress",
    namespaced: Some(true),
    prepare_create: generic::first_generation_no_status,
    prepare_status_update: |new, old| new.take_from(old, "spec"),
    validate_create,
    validate_update,
    validate_status_update,
    warnings,
    columns: columns::INGRESS,
    row,
    allow_unconditional_update: true,
    ..DEFAULT
};

fn validate_create(object: &Value) -> Vec<FieldError> {
    collect(|errors| {
        check(object, &LenientIngress::default(), errors);
        let annotation = object.at("metadata").at("annotations").at(CLASS);
        let class = object.at("spec").at("ingressClassName");
        if !annotation.is_null() && !class.is_null() && annotation != class {
            errors.invalid(
                &Path::new("annotations").child(CLASS),
                annotation.clone(),
                "must match `ingressClassName` when both are specified",
            );
        }
    })
}

/// Invalid fields that stay accepted because the stored object has them.
#[derive(Default)]
struct LenientIngress {
    secret_names: bool,
    wildcard_rules: bool,
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        let spec = old.at("spec");
        let lenient = LenientIngress {
            secret_names: spec
                .items("tls")
                .iter()
                .any(|tls| !secret_name(tls.text("secretName")).is_empty()),
            wildcard_rules: spec.items("rules").iter().any(|rule| {
                let mut found = Errors::new();
                check_paths(rule, &Path::new(""), &mut found);
                rule.text("host").contains('*') && !found.is_empty()
            }),
        };
        check(new, &lenient, errors);
    })
}

fn secret_name(name: &str) -> names::Messages {
    if name.is_empty() {
        return names::Messages::new();
    }
    names::dns_subdomain(name)
}

fn host_name(host: &str) -> names::Messages {
    if host.contains('*') {
        names::wildcard_subdomain(host)
    } else {
        names::dns_subdomain(host)
    }
}

fn check(object: &Value, lenient: &LenientIngress, errors: &mut Errors) {
    meta::validate(object, Some(true), names::subdomain_name, errors);
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    let rules = spec.items("rules");
    if rules.is_empty() && !spec.has("defaultBackend") {
        errors.invalid(
            &at,
            spec.at("rules").clone(),
            "either `defaultBackend` or `rules` must be specified",
        );
    }
    if spec.has("defaultBackend") {
        check_backend(
            spec.at("defaultBackend"),
            &at.child("defaultBackend"),
            errors,
        );
    }
    let all = at.child("rules");
    for (i, rule) in rules.iter().enumerate() {
        let at = all.index(i);
        let host = rule.text("host");
        if !host.is_empty() {
            if ip::parse_sloppy(host).is_some() {
                let why = "must be a DNS name, not an IP address";
                errors.invalid(&at.child("host"), host, why);
            }
            errors.invalid_each(&at.child("host"), host, host_name(host));
        }
        if !(host.contains('*') && lenient.wildcard_rules) {
            check_paths(rule, &at, errors);
        }
    }
    let all = at.child("tls");
    for (i, tls) in spec.items("tls").iter().enumerate() {
        let at = all.index(i);
        let hosts = at.child("hosts");
        for (i, host) in tls.items("hosts").iter().map(Read::as_text).enumerate() {
            errors.invalid_each(&hosts.index(i), host, host_name(host));
        }
        let secret = tls.text("secretName");
        if !lenient.secret_names {
            errors.invalid_each(&at.child("secretName"), secret, secret_name(secret));
        }
    }
    if spec.has("ingressClassName") {
        let class = spec.text("ingressClassName");
        let at = at.child("ingressClassName");
        errors.invalid_each(&at, class, names::dns_subdomain(class));
    }
}

fn check_paths(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    if !rule.has("http") {
        return;
    }
    let at = at.child("http");
    let all = at.child("paths");
    let paths = rule.at("http").items("paths");
    if paths.is_empty() {
        errors.required(&all, "");
    }
    for (i, path) in paths.iter().enumerate() {
        let at = all.index(i);
        if !path.has("pathType") {
            errors.required(&at.child("pathType"), "pathType must be specified");
            continue;
        }
        let (text, path_at) = (path.text("path"), at.child("path"));
        match path.text("pathType") {
            "Exact" | "Prefix" => {
                if !text.starts_with('/') {
                    errors.invalid(&path_at, text, "must be an absolute path");
                }
                for part in ["//", "/./", "/../", "%2f", "%2F"] {
                    if text.contains(part) {
                        errors.invalid(&path_at, text, format!("must not contain '{part}'"));
                    }
                }
                for end in ["/..", "/."] {
                    if text.ends_with(end) {
                        errors.invalid(&path_at, text, format!("cannot end with '{end}'"));
                    }
                }
            }
            "ImplementationSpecific" => {
                if !text.is_empty() && !text.starts_with('/') {
                    errors.invalid(&path_at, text, "must be an absolute path");
                }
            }
            other => errors.not_supported(
                &at.child("pathType"),
                other,
                &["Exact", "ImplementationSpecific", "Prefix"],
            ),
        }
        check_backend(path.at("backend"), &at.child("backend"), errors);
    }
}

fn check_backend(backend: &Value, at: &Path<'_>, errors: &mut Errors) {
    match (backend.has("resource"), backend.has("service")) {
        (true, true) => {
            errors.invalid(at, "", "cannot set both resource and service backends");
        }
        (true, false) => check_reference(backend.at("resource"), &at.child("resource"), errors),
        (false, true) => {
            let service_at = at.child("service");
            let service = backend.at("service");
            let name = service.text("name");
            if name.is_empty() {
                errors.required(&service_at.child("name"), "");
            } else {
                errors.invalid_each(&service_at.child("name"), name, names::dns_label(name));
            }
            let port = service.at("port");
            let port_at = service_at.child("port");
            match (port.text("name"), port.num("number")) {
                ("", 0) => errors.required(at, "port name or number is required"),
                ("", number) => ports::number(number, &port_at.child("number"), errors),
                (name, 0) => {
                    errors.invalid_each(&port_at.child("name"), name, names::port_name(name));
                }
                _ => errors.invalid(at, "", "cannot set both port name & port number"),
            }
        }
        (false, false) => errors.invalid(at, "", "resource or service backend is required"),
    }
}

/// A reference to an object by group, kind and name.
pub(super) fn check_reference(reference: &Value, at: &Path<'_>, errors: &mut Errors) {
    if reference.has("apiGroup") {
        let group = reference.text("apiGroup");
        errors.invalid_each(&at.child("apiGroup"), group, names::dns_subdomain(group));
    }
    for field in ["kind", "name"] {
        let text = reference.text(field);
        if text.is_empty() {
            errors.required(&at.child(field), "");
        } else {
            errors.invalid_each(&at.child(field), text, names::segment_name(text, false));
        }
    }
}

fn validate_status_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        let ingress = |object| Read::dig(object, &["status", "loadBalancer"]).items("ingress");
        let known: Vec<&str> = ingress(old).iter().map(|point| point.text("ip")).collect();
        let all = Path::new("status.loadBalancer.ingress");
        for (i, point) in ingress(new).iter().enumerate() {
            let at = all.index(i);
            let (address, host) = (point.text("ip"), point.text("hostname"));
            if !address.is_empty() {
                ip::legacy(address, &known, &at.child("ip"), errors);
            }
            if !host.is_empty() {
                let at = at.child("hostname");
                errors.invalid_each(&at, host, names::dns_subdomain(host));
                if ip::parse_sloppy(host).is_some() {
                    errors.invalid(&at, host, "must be a DNS name, not an IP address");
                }
            }
        }
    })
}

fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let annotated = object.at("metadata").at("annotations").has(CLASS);
    if old.is_none() && annotated && !object.at("spec").has("ingressClassName") {
        return vec![format!(
            "annotation \"{CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"
        )];
    }
    Vec::new()
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = object.at("spec");
    let rules = spec.items("rules");
    let hosts: Vec<&str> = rules
        .iter()
        .map(|rule| rule.text("host"))
        .filter(|host| !host.is_empty())
        .collect();
    // once three are shown, any further rule counts as more
    let shown = hosts.iter().take(3).copied().collect::<Vec<_>>().join(",");
    let third = rules
        .iter()
        .enumerate()
        .filter(|(_, rule)| !rule.text("host").is_empty())
        .nth(2)
        .map_or(usize::MAX, |(i, _)| i);
    let hosts = if shown.is_empty() {
        "*".to_owned()
    } else if rules.len() > third.saturating_add(1) {
        format!("{shown} + {} more...", rules.len().saturating_sub(3))
    } else {
        shown
    };
    let class = if spec.has("ingressClassName") {
        spec.text("ingressClassName")
    } else {
        "<none>"
    };
    let ports = if spec.items("tls").is_empty() {
        "80"
    } else {
        "80, 443"
    };
    vec![
        name(object),
        class.into(),
        hosts.into(),
        cells::load_balancer(object.at("status"), true).into(),
        ports.into(),
        age(object, now),
    ]
}
