//! `NetworkPolicy`: who may talk to a namespace's pods, and to whom they may.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, DEFAULT};
use crate::rules::{collect, ip, labels, meta, names, ports};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write};
use crate::{FieldError, Kind};

/// The two directions: (member of the spec, its list of peers).
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

pub(crate) static KIND: Kind = Kind {
    group: "networking.k8s.io",
    kind: "NetworkPolicy",
    namespaced: Some(true),
    default,
    prepare_create: generic::generation_one,
    prepare_update: |new, old| generic::raise_generation_on(new, old, &["spec"]),
    validate_create: |object| {
        collect(|errors| {
            meta::validate(object, Some(true), names::subdomain_name, errors);
            check(object, &[], errors);
        })
    },
    validate_update,
    warnings,
    columns: columns::NETWORK_POLICY,
    row,
    allow_unconditional_update: true,
    ..DEFAULT
};

fn default(object: &mut Value) {
    let spec = object.make("spec");
    for (direction, _) in DIRECTIONS {
        for rule in spec.items_mut(direction) {
            for port in rule.items_mut("ports") {
                port.absent("protocol", "TCP");
            }
        }
    }
    if spec.items("policyTypes").is_empty() {
        let mut types = vec!["Ingress".into()];
        if !spec.items("egress").is_empty() {
            types.push("Egress".into());
        }
        spec.put("policyTypes", Value::Array(types));
    }
}

fn check(object: &Value, known: &[&str], errors: &mut Errors) {
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    labels::selector(spec.at("podSelector"), &at.child("podSelector"), errors);
    for (direction, peers) in DIRECTIONS {
        let all = at.child(direction);
        for (i, rule) in spec.items(direction).iter().enumerate() {
            let at = all.index(i);
            let ports_at = at.child("ports");
            for (i, port) in rule.items("ports").iter().enumerate() {
                check_port(port, &ports_at.index(i), errors);
            }
            let peers_at = at.child(peers);
            for (i, peer) in rule.items(peers).iter().enumerate() {
                check_peer(peer, known, &peers_at.index(i), errors);
            }
        }
    }
    let types_at = at.child("policyTypes");
    let types = spec.items("policyTypes");
    if types.len() > 2 {
        errors.invalid(
            &types_at,
            spec.at("policyTypes").clone(),
            "may not specify more than two policyTypes",
        );
        return;
    }
    for (i, one) in types.iter().map(Read::as_text).enumerate() {
        if !matches!(one, "Ingress" | "Egress") {
            errors.not_supported(&types_at.index(i), one, &["Ingress", "Egress"]);
        }
    }
}

fn check_port(port: &Value, at: &Path<'_>, errors: &mut Errors) {
    let protocol = port.text("protocol");
    if port.has("protocol") && !ports::PROTOCOLS.contains(&protocol) {
        errors.not_supported(&at.child("protocol"), protocol, &["TCP", "UDP", "SCTP"]);
    }
    let end_at = at.child("endPort");
    let end = port.int("endPort");
    match port.at("port") {
        Value::Int(number) => {
            ports::number(*number, &at.child("port"), errors);
            if let Some(end) = end {
                if end < *number {
                    errors.invalid(&end_at, *number, "must be greater than or equal to `port`");
                }
                ports::number(end, &end_at, errors);
            }
        }
        Value::String(_) => {
            if let Some(end) = end {
                errors.invalid(
                    &end_at,
                    end,
                    "may not be specified when `port` is non-numeric",
                );
            }
            ports::number_or_name(port.at("port"), &at.child("port"), errors);
        }
        _ => {
            if let Some(end) = end {
                errors.invalid(
                    &end_at,
                    end,
                    "may not be specified when `port` is not specified",
                );
            }
        }
    }
}

fn check_peer(peer: &Value, known: &[&str], at: &Path<'_>, errors: &mut Errors) {
    let mut selectors = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if peer.has(field) {
            selectors += 1;
            labels::selector(peer.at(field), &at.child(field), errors);
        }
    }
    if peer.has("ipBlock") {
        check_block(peer.at("ipBlock"), known, &at.child("ipBlock"), errors);
        if selectors > 0 {
            errors.forbidden(at, "may not specify both ipBlock and another peer");
        }
    } else if selectors == 0 {
        errors.required(at, "must specify a peer");
    }
}

fn check_block(block: &Value, known: &[&str], at: &Path<'_>, errors: &mut Errors) {
    let text = block.text("cidr");
    if text.is_empty() {
        errors.required(&at.child("cidr"), "");
        return;
    }
    ip::legacy_cidr(text, known, &at.child("cidr"), errors);
    let Some(range) = ip::parse_cidr_sloppy(text) else {
        return;
    };
    let all = at.child("except");
    for (i, except) in block.items("except").iter().map(Read::as_text).enumerate() {
        let at = all.index(i);
        ip::legacy_cidr(except, known, &at, errors);
        let Some(inner) = ip::parse_cidr_sloppy(except) else {
            continue;
        };
        if !range.contains(&inner.network()) || range.prefix_len() >= inner.prefix_len() {
            errors.invalid(&at, except, "must be a strict subset of `cidr`");
        }
    }
}

/// Every range of a policy with its path below `spec`.
fn ranges(object: &Value) -> Vec<(String, &str)> {
    let spec = object.at("spec");
    let mut out = Vec::new();
    for (direction, peers) in DIRECTIONS {
        for (i, rule) in spec.items(direction).iter().enumerate() {
            for (j, peer) in rule.items(peers).iter().enumerate() {
                let Some(block) = peer.get("ipBlock").filter(|block| !block.is_null()) else {
                    continue;
                };
                let at = format!("spec.{direction}[{i}].{peers}[{j}].ipBlock");
                out.push((format!("{at}.cidr"), block.text("cidr")));
                for (k, except) in block.items("except").iter().enumerate() {
                    out.push((format!("{at}.except[{k}]"), except.as_text()));
                }
            }
        }
    }
    out
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        let known: Vec<&str> = ranges(old).into_iter().map(|(_, range)| range).collect();
        check(new, &known, errors);
    })
}

fn warnings(object: &Value, _old: Option<&Value>) -> Vec<String> {
    ranges(object)
        .into_iter()
        .flat_map(|(at, range)| ip::cidr_warnings(&Path::new(&at), range))
        .collect()
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let selector = object.at("spec").at("podSelector");
    vec![
        name(object),
        labels::format(selector).into(),
        age(object, now),
    ]
}
