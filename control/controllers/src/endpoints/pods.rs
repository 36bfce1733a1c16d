//! The addresses and ports that a pod contributes to a Service.

use std::net::IpAddr;

use crate::views::{EndpointPort, IntOrString, Pod, Service, ServicePort, Text};

/// Whether the pod may be an endpoint at all: not ended, and with an address.
#[must_use]
pub fn may_serve(pod: &Pod, include_terminating: bool) -> bool {
    let has_address = !pod.status.pod_ip.is_empty() || !pod.status.pod_ips.is_empty();
    let stays = include_terminating || !pod.metadata.is_terminating();
    has_address && stays && !pod.is_terminal()
}

/// The pod's addresses of one family, normalised.
#[must_use]
pub fn addresses(pod: &Pod, ipv6: bool) -> Vec<Text> {
    let listed = pod.status.pod_ips.iter().map(|ip| &ip.ip);
    let single = pod
        .status
        .pod_ips
        .is_empty()
        .then_some(&pod.status.pod_ip)
        .into_iter();
    listed
        .chain(single)
        .filter_map(|ip| ip.parse::<IpAddr>().ok())
        .filter(|ip| ip.is_ipv6() == ipv6)
        .map(|ip| ip.to_string().into())
        .collect()
}

/// The host name that the pod has below the Service, if it asked for one.
#[must_use]
pub fn hostname(pod: &Pod, service: &Service) -> Option<Text> {
    (!pod.spec.hostname.is_empty()
        && pod.spec.subdomain == service.metadata.name
        && pod.metadata.namespace == service.metadata.namespace)
        .then(|| pod.spec.hostname.clone())
}

/// Returns the port number that a Service port targets in this pod; `None` if the pod has
/// no port of that name and protocol.
#[must_use]
pub fn target_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::Text(name)) => {
            let protocol = |p: &Text| {
                if p.is_empty() {
                    Text::from("TCP")
                } else {
                    p.clone()
                }
            };
            let sidecars = pod
                .spec
                .init_containers
                .iter()
                .filter(|c| c.restart_policy == "Always");
            pod.spec
                .containers
                .iter()
                .chain(sidecars)
                .flat_map(|container| &container.ports)
                .find(|p| p.name == *name && protocol(&p.protocol) == protocol(&port.protocol))
                .map(|p| p.container_port)
        }
    }
}

/// The endpoint ports that this pod gives the Service. Ports that it lacks are
/// left out.
#[must_use]
pub fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    service
        .spec
        .ports
        .iter()
        .filter_map(|port| {
            Some(EndpointPort {
                name: Some(port.name.clone()),
                port: Some(target_port(pod, port)?),
                protocol: Some(if port.protocol.is_empty() {
                    "TCP".into()
                } else {
                    port.protocol.clone()
                }),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect()
}

/// Returns whether a change of a pod can change endpoints: it compares everything that
/// endpoints are computed from.
#[must_use]
pub fn endpoint_changed(old: &Pod, new: &Pod) -> bool {
    old.metadata.uid != new.metadata.uid
        || old.metadata.labels != new.metadata.labels
        || old.metadata.deletion_timestamp.is_some() != new.metadata.deletion_timestamp.is_some()
        || old.is_terminal() != new.is_terminal()
        || old.is_ready() != new.is_ready()
        || old.status.pod_ips != new.status.pod_ips
        || old.status.pod_ip != new.status.pod_ip
        || old.spec.node_name != new.spec.node_name
        || old.spec.hostname != new.spec.hostname
        || old.spec.subdomain != new.spec.subdomain
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    fn port(value: serde_json::Value) -> ServicePort {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn named_port_is_found_by_name_and_protocol() {
        let p = pod(json!({"spec":{"containers":[{"ports":[
            {"name":"dns","containerPort":53,"protocol":"UDP"},
            {"name":"dns","containerPort":5353}]}]}}));
        assert_eq!(
            target_port(&p, &port(json!({"targetPort":"dns","protocol":"TCP"}))),
            Some(5353)
        );
        assert_eq!(
            target_port(&p, &port(json!({"targetPort":"dns","protocol":"UDP"}))),
            Some(53)
        );
        assert_eq!(target_port(&p, &port(json!({"targetPort":"web"}))), None);
        assert_eq!(
            target_port(&p, &port(json!({"targetPort":8080}))),
            Some(8080)
        );
        assert_eq!(target_port(&p, &port(json!({"port":80}))), Some(80));
    }

    #[test]
    fn addresses_are_of_one_family_and_normal() {
        let p = pod(
            json!({"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"},{"ip":"fd00:0::1"}]}}),
        );
        assert_eq!(addresses(&p, false), ["10.0.0.1"]);
        assert_eq!(addresses(&p, true), ["fd00::1"]);
        assert!(addresses(&pod(json!({"status":{"podIP":"rubbish"}})), false).is_empty());
    }

    #[test]
    fn ended_pods_never_serve() {
        assert!(!may_serve(
            &pod(json!({"status":{"phase":"Succeeded","podIP":"10.0.0.1"}})),
            true
        ));
        assert!(!may_serve(&pod(json!({})), true));
        let dying = pod(
            json!({"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"podIP":"10.0.0.1"}}),
        );
        assert!(may_serve(&dying, true));
        assert!(!may_serve(&dying, false));
    }

    #[test]
    fn pod_made_again_under_its_name_is_another_endpoint() {
        let of_uid = |uid: &str| {
            pod(json!({"metadata":{"name":"db-0","uid":uid},"status":{"podIP":"10.0.0.1"}}))
        };
        assert!(endpoint_changed(&of_uid("a"), &of_uid("b")));
        assert!(!endpoint_changed(&of_uid("a"), &of_uid("a")));
    }
}
