//! `EndpointSlice`: a part of a service's addresses.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{collect, immutable, ip, labels, meta, names, ports};
use crate::table::{Timestamp, age, cells, columns, name};
use crate::tree::{Read, Write, same};
use crate::{FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "discovery.k8s.io",
    kind: "EndpointSlice",
    namespaced: Some(true),
    default,
    prepare_create: |object| {
        drop_topology(object);
        generic::generation_one(object);
    },
    prepare_update,
    validate_create,
    validate_update,
    warnings,
    columns: columns::ENDPOINT_SLICE,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

fn default(object: &mut Value) {
    for port in object.items_mut("ports") {
        port.absent("name", "");
        port.absent("protocol", "TCP");
    }
}

/// The topology of `v1beta1` is read only by those who never left it.
fn drop_topology(object: &mut Value) {
    for endpoint in object.items_mut("endpoints") {
        endpoint.drop_field("deprecatedTopology");
    }
}

fn prepare_update(new: &mut Value, old: &Value) {
    let labels = |o: &Value| o.at("metadata").at("labels").clone();
    let changed = ["endpoints", "ports", "addressType"]
        .iter()
        .any(|field| !same(new.at(field), old.at(field)))
        || !same(&labels(new), &labels(old));
    if changed {
        generic::raise_generation(new, old);
    }
    if !same(new.at("endpoints"), old.at("endpoints")) {
        drop_topology(new);
    }
}

fn check(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    meta::validate(object, Some(true), names::subdomain_name, errors);
    let types = ["FQDN", "IPv4", "IPv6"];
    let address_type = object.text("addressType");
    if address_type.is_empty() {
        errors.required(&Path::new("addressType"), "");
    } else if !types.contains(&address_type) {
        errors.not_supported(&Path::new("addressType"), address_type, &types);
    }
    check_ports(object.items("ports"), errors);
    if !old.is_some_and(|old| same(old.at("endpoints"), object.at("endpoints"))) {
        check_endpoints(object.items("endpoints"), address_type, errors);
    }
}

fn check_ports(list: &[Value], errors: &mut Errors) {
    let all = Path::new("ports");
    if list.len() > 20_000 {
        errors.too_many(&all, list.len(), 20_000);
        return;
    }
    for (i, port) in list.iter().enumerate() {
        let at = all.index(i);
        let name = port.text("name");
        if !name.is_empty() {
            errors.invalid_each(&at.child("name"), name, names::dns_label(name));
        }
        if list.iter().take(i).any(|p| p.text("name") == name) {
            errors.duplicate(&at.child("name"), name);
        }
        if !port.has("protocol") {
            errors.required(&at.child("protocol"), "");
        } else if !ports::PROTOCOLS.contains(&port.text("protocol")) {
            errors.not_supported(
                &at.child("protocol"),
                port.text("protocol"),
                ports::PROTOCOLS,
            );
        }
        ports::app_protocol(port, &at, errors);
    }
}

fn check_endpoints(list: &[Value], address_type: &str, errors: &mut Errors) {
    let all = Path::new("endpoints");
    if list.len() > 1000 {
        errors.too_many(&all, list.len(), 1000);
        return;
    }
    for (i, endpoint) in list.iter().enumerate() {
        let at = all.index(i);
        let addresses_at = at.child("addresses");
        let addresses = endpoint.items("addresses");
        if addresses.is_empty() {
            errors.required(&addresses_at, "must contain at least 1 address");
        } else if addresses.len() > 100 {
            errors.too_many(&addresses_at, addresses.len(), 100);
        }
        for (i, address) in addresses.iter().map(Read::as_text).enumerate() {
            check_address(address, address_type, &addresses_at, i, errors);
        }
        if endpoint.has("nodeName") {
            let node = endpoint.text("nodeName");
            errors.invalid_each(&at.child("nodeName"), node, names::dns_subdomain(node));
        }
        let topology_at = at.child("deprecatedTopology");
        if endpoint.size("deprecatedTopology") > 16 {
            errors.too_many(&topology_at, endpoint.size("deprecatedTopology"), 16);
        }
        labels::labels(endpoint.at("deprecatedTopology"), &topology_at, errors);
        if endpoint.has("hostname") {
            let host = endpoint.text("hostname");
            errors.invalid_each(&at.child("hostname"), host, names::dns_label(host));
        }
        check_hints(
            endpoint.at("hints"),
            "forZones",
            names::label_value,
            &at.child("hints"),
            errors,
        );
        check_hints(
            endpoint.at("hints"),
            "forNodes",
            names::dns_subdomain,
            &at.child("hints"),
            errors,
        );
    }
}

fn check_address(address: &str, address_type: &str, at: &Path<'_>, i: usize, errors: &mut Errors) {
    let item = at.index(i);
    let before = errors.len();
    match address_type {
        "IPv4" => {
            ip::legacy(address, &[], &item, errors);
        }
        "IPv6" => ip::canonical(address, &item, errors),
        "FQDN" => fqdn(address, &item, errors),
        _ => {}
    }
    if errors.len() > before || !matches!(address_type, "IPv4" | "IPv6") {
        return;
    }
    let six = ip::parse_sloppy(address).is_some_and(|a| a.is_ipv6());
    if six != (address_type == "IPv6") {
        errors.invalid(at, address, format!("must be an {address_type} address"));
    }
    ip::endpoint(address, &item, errors);
}

/// A domain of at least two labels; a final dot is allowed.
fn fqdn(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(at, "");
        return;
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let messages = names::dns_subdomain(name);
    if !messages.is_empty() {
        errors.invalid(at, name, messages.join(","));
        return;
    }
    if !name.contains('.') {
        errors.invalid(
            at,
            name,
            "should be a domain with at least two segments separated by dots",
        );
        return;
    }
    for label in name.split('.') {
        let messages = names::dns_label(label);
        if !messages.is_empty() {
            errors.invalid(at, label, messages.join(","));
            return;
        }
    }
}

fn check_hints(
    hints: &Value,
    field: &'static str,
    rule: fn(&str) -> names::Messages,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let list = hints.items(field);
    let all = at.child(field);
    if list.len() > 8 {
        errors.too_many(&all, list.len(), 8);
        return;
    }
    for (i, hint) in list.iter().enumerate() {
        let item = all.index(i);
        let at = item.child("name");
        let name = hint.text("name");
        if list.iter().take(i).any(|h| h.text("name") == name) {
            errors.duplicate(&at, name);
        }
        errors.invalid_each(&at, name, rule(name));
    }
}

fn validate_create(object: &Value) -> Vec<FieldError> {
    collect(|errors| check(object, None, errors))
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        check(new, Some(old), errors);
        immutable(
            new.at("addressType"),
            old.at("addressType"),
            &Path::new("addressType"),
            errors,
        );
    })
}

fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut out = Vec::new();
    if old.is_none() && object.text("addressType") == "FQDN" {
        out.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let all = Path::new("endpoints");
    for (i, endpoint) in object.items("endpoints").iter().enumerate() {
        let at = all.index(i);
        let list = at.child("addresses");
        for (i, address) in endpoint.items("addresses").iter().enumerate() {
            out.extend(ip::warning(&list.index(i), address.as_text()));
        }
    }
    out
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = object
        .items("ports")
        .iter()
        .map(|p| match p.int("port") {
            Some(port) => port.to_string(),
            None if p.has("name") => p.text("name").to_owned(),
            None => "*".into(),
        })
        .collect();
    let addresses: Vec<String> = object
        .items("endpoints")
        .iter()
        .flat_map(|e| e.items("addresses"))
        .map(|a| a.as_text().to_owned())
        .collect();
    let shown = |list: &[String]| match cells::three_of(list, list.len()) {
        text if text.is_empty() => "<unset>".to_owned(),
        text => text,
    };
    vec![
        name(object),
        object.text("addressType").into(),
        shown(&ports).into(),
        shown(&addresses).into(),
        age(object, now),
    ]
}
