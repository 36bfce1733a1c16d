//! Service: one address for a set of pods.

use control_types::value::Value;

use crate::generic::{self, PLAIN};
use crate::rules::{labels, validate_service as rules};
use crate::table::{Timestamp, age, cells, columns, name};
use crate::tree::{Read, Write};
use crate::{Field, Kind, service};

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "Service",
    namespaced: Some(true),
    default,
    prepare_create: generic::no_status,
    prepare_update,
    prepare_status_update: generic::update_status,
    validate_create: rules::create,
    validate_update: rules::update,
    validate_status_update: rules::status_update,
    warnings: rules::warnings,
    selectable: &["spec.clusterIP", "spec.type"],
    selectable_fields,
    columns: columns::SERVICE,
    row,
    allow_create_on_update: true,
    allow_unconditional_update: true,
    ..PLAIN
};

fn default(object: &mut Value) {
    let spec = object.make("spec");
    spec.blank("sessionAffinity", "None");
    match spec.text("sessionAffinity") {
        "None" => spec.drop_field("sessionAffinityConfig"),
        "ClientIP"
            if !spec
                .dig(&["sessionAffinityConfig", "clientIP", "timeoutSeconds"])
                .is_null() => {}
        "ClientIP" => {
            spec.drop_field("sessionAffinityConfig");
            spec.make("sessionAffinityConfig")
                .make("clientIP")
                .put("timeoutSeconds", 10_800_i64);
        }
        _ => {}
    }
    spec.blank("type", "ClusterIP");
    let kind = spec.text("type").to_owned();
    for port in spec.items_mut("ports") {
        port.blank("protocol", "TCP");
        let unset = match port.at("targetPort") {
            Value::Null | Value::Int(0) => true,
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        if unset {
            let number = port.num("port");
            port.put("targetPort", number);
        }
    }
    if service::externally_accessible(spec) {
        spec.blank("externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        spec.absent("internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        spec.absent("allocateLoadBalancerNodePorts", true);
        if let Some(balancer) = object.there("status").and_then(|s| s.there("loadBalancer")) {
            for ingress in balancer.items_mut("ingress") {
                if !ingress.text("ip").is_empty() {
                    ingress.absent("ipMode", "VIP");
                }
            }
        }
    }
}

fn prepare_update(new: &mut Value, old: &Value) {
    new.take_from(old, "status");
    service::drop_what_the_type_lacks(new, old);
}

fn selectable_fields(object: &Value) -> Vec<Field> {
    let spec = object.at("spec");
    vec![
        ("spec.clusterIP", spec.text("clusterIP").to_owned()),
        ("spec.type", spec.text("type").to_owned()),
    ]
}

fn external_address(object: &Value) -> String {
    let spec = object.at("spec");
    let own: Vec<&str> = spec
        .items("externalIPs")
        .iter()
        .map(Read::as_text)
        .collect();
    match spec.text("type") {
        "ClusterIP" | "NodePort" if own.is_empty() => "<none>".into(),
        "ClusterIP" | "NodePort" => own.join(","),
        "LoadBalancer" => {
            let mut all = cells::load_balancer(object.at("status"), true);
            if !own.is_empty() {
                if !all.is_empty() {
                    all.push(',');
                }
                all.push_str(&own.join(","));
            }
            if all.is_empty() {
                "<pending>".into()
            } else {
                all
            }
        }
        "ExternalName" => spec.text("externalName").into(),
        _ => "<unknown>".into(),
    }
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = object.at("spec");
    let ports: Vec<String> = spec
        .items("ports")
        .iter()
        .map(|p| match p.num("nodePort") {
            node_port if node_port > 0 => {
                format!("{}:{node_port}/{}", p.num("port"), p.text("protocol"))
            }
            _ => format!("{}/{}", p.num("port"), p.text("protocol")),
        })
        .collect();
    let ip = spec
        .items("clusterIPs")
        .first()
        .map_or("<none>", Read::as_text);
    vec![
        name(object),
        spec.text("type").into(),
        ip.into(),
        external_address(object).into(),
        if ports.is_empty() {
            "<none>".into()
        } else {
            ports.join(",").into()
        },
        age(object, now),
        labels::format_map(spec.at("selector")).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_gets_a_type_a_protocol_and_a_target_port() {
        let mut object =
            Value::from_slice(br#"{"spec":{"ports":[{"port":80}]}}"#).expect("test object");
        default(&mut object);
        let spec = object.at("spec");
        assert_eq!(
            (spec.text("type"), spec.text("internalTrafficPolicy")),
            ("ClusterIP", "Cluster")
        );
        assert_eq!(spec.items("ports")[0].num("targetPort"), 80);
        assert!(!spec.has("externalTrafficPolicy"));
    }
}
