//! What the plan reads of the node's Pods: their host ports.

use node_agent_objects::pod::{Container, Pod};
use node_agent_plan as plan;

/// Returns the plan's form of a Pod.
pub fn planned(pod: &Pod) -> plan::Pod {
    let meta = &pod.metadata;
    let containers = |all: &[Container]| all.iter().map(ports).collect();
    let addresses = pod.status.pod_ips.iter();
    plan::Pod {
        metadata: plan::Metadata {
            name: meta.name.to_string(),
            namespace: meta.namespace.to_string(),
            creation_timestamp: meta.creation_timestamp.as_ref().map(ToString::to_string),
            ..plan::Metadata::default()
        },
        spec: plan::PodSpec {
            host_network: pod.spec.host_network,
            containers: containers(&pod.spec.containers),
            init_containers: containers(&pod.spec.init_containers),
        },
        status: plan::PodStatus {
            phase: Some(pod.status.phase.clone()),
            pod_ips: addresses
                .map(|it| plan::PodIp { ip: it.ip.clone() })
                .collect(),
        },
    }
}

fn ports(container: &Container) -> plan::Container {
    let ports = container.ports.iter().filter(|port| port.host_port != 0);
    let ports = ports.map(|port| plan::ContainerPort {
        container_port: port.container_port.into(),
        host_port: Some(port.host_port.into()),
        host_ip: Some(port.host_ip.clone()),
        protocol: Some(port.protocol.clone()).filter(|it| !it.is_empty()),
    });
    plan::Container {
        ports: ports.collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn host_ports_are_planned_as_they_are_written() {
        let written = json!({
            "metadata": {"name": "a", "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "containers": [{"name": "c", "ports": [
                    {"containerPort": 80, "hostPort": 8080},
                    {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "192.0.2.1"},
                ]}],
                "initContainers": [{"name": "s", "restartPolicy": "Always",
                    "ports": [{"containerPort": 1, "hostPort": 2, "protocol": "SCTP"}]}],
            },
            "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
        });
        let pod: Pod = serde_json::from_value(written.clone()).expect("a pod");
        let mut expected: plan::Pod = serde_json::from_value(written).expect("a pod");
        let containers = &mut expected.spec;
        for container in [&mut containers.containers, &mut containers.init_containers] {
            for port in container.iter_mut().flat_map(|it| &mut it.ports) {
                // Absent means as empty.
                port.host_ip.get_or_insert_default();
            }
        }
        assert_eq!(planned(&pod), expected);
    }
}
