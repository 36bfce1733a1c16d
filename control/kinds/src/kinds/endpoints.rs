//! Endpoints: the older list of a service's addresses.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::{collect, ip, meta, names, ports};
use crate::table::{Timestamp, age, cells, columns, name};
use crate::tree::{Read, Write, same};
use crate::{FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "Endpoints",
    namespaced: Some(true),
    default,
    validate_create,
    validate_update,
    warnings,
    columns: columns::ENDPOINTS,
    row,
    allow_create_on_update: true,
    allow_unconditional_update: true,
    ..PLAIN
};

fn default(object: &mut Value) {
    for subset in object.items_mut("subsets") {
        for port in subset.items_mut("ports") {
            port.blank("protocol", "TCP");
        }
    }
}

fn check_subsets(object: &Value, errors: &mut Errors) {
    let all = Path::new("subsets");
    for (i, subset) in object.items("subsets").iter().enumerate() {
        let at = all.index(i);
        let lists = ["addresses", "notReadyAddresses"];
        if lists.iter().all(|list| subset.items(list).is_empty()) {
            errors.required(&at, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in lists {
            let list_at = at.child(list);
            for (i, address) in subset.items(list).iter().enumerate() {
                check_address(address, &list_at.index(i), errors);
            }
        }
        let ports_at = at.child("ports");
        let list = subset.items("ports");
        for (i, port) in list.iter().enumerate() {
            let at = ports_at.index(i);
            ports::name_among(port, list.len() > 1, &at, errors);
            ports::number(port.num("port"), &at.child("port"), errors);
            ports::protocol(port, &at, errors);
            ports::app_protocol(port, &at, errors);
        }
    }
}

fn check_address(address: &Value, at: &Path<'_>, errors: &mut Errors) {
    ip::legacy(address.text("ip"), &[], &at.child("ip"), errors);
    let host = address.text("hostname");
    if !host.is_empty() {
        errors.invalid_each(&at.child("hostname"), host, names::dns_label(host));
    }
    if address.has("nodeName") {
        let node = address.text("nodeName");
        errors.invalid_each(&at.child("nodeName"), node, names::dns_subdomain(node));
    }
    ip::endpoint(address.text("ip"), &at.child("ip"), errors);
}

fn check(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    meta::validate(object, Some(true), names::subdomain_name, errors);
    let trigger = "endpoints.kubernetes.io/last-change-trigger-time";
    let stamp = object.at("metadata").at("annotations").text(trigger);
    if !stamp.is_empty() && stamp.parse::<Timestamp>().is_err() {
        errors.invalid(
            &Path::new("annotations").key(trigger),
            stamp,
            format!("parsing time {stamp:?} as \"2006-01-02T15:04:05.999999999Z07:00\": cannot parse {stamp:?} as \"2006\""),
        );
    }
    // addresses that were accepted before may stay
    if !old.is_some_and(|old| same(old.at("subsets"), object.at("subsets"))) {
        check_subsets(object, errors);
    }
}

fn validate_create(object: &Value) -> Vec<FieldError> {
    collect(|errors| check(object, None, errors))
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        check(new, Some(old), errors);
    })
}

fn warnings(object: &Value, _old: Option<&Value>) -> Vec<String> {
    let all = Path::new("subsets");
    let mut out = Vec::new();
    for (i, subset) in object.items("subsets").iter().enumerate() {
        let at = all.index(i);
        for list in ["addresses", "notReadyAddresses"] {
            let list_at = at.child(list);
            for (i, address) in subset.items(list).iter().enumerate() {
                out.extend(ip::warning(
                    &list_at.index(i).child("ip"),
                    address.text("ip"),
                ));
            }
        }
    }
    out
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut shown = Vec::new();
    for subset in object.items("subsets") {
        let addresses = || subset.items("addresses").iter().map(|a| a.text("ip"));
        if subset.items("ports").is_empty() {
            shown.extend(addresses().map(str::to_owned));
        }
        for port in subset.items("ports") {
            shown.extend(addresses().map(|a| {
                let port = port.num("port");
                if a.contains(':') {
                    format!("[{a}]:{port}")
                } else {
                    format!("{a}:{port}")
                }
            }));
        }
    }
    let text = if object.items("subsets").is_empty() {
        "<none>".into()
    } else {
        cells::three_of(&shown, shown.len())
    };
    vec![name(object), text.into(), age(object, now)]
}
