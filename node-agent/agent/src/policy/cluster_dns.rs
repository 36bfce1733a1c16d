//! The pods of cluster DNS, as rules know them.

use std::net::IpAddr;

use node_agent_policy::objects;

use crate::dns;

/// Who answers at the cluster DNS's addresses, as rules know it elsewhere: as
/// pods of `kube-system` with `k8s-app: kube-dns`. So a rule that allows cluster
/// DNS does so here, where the node's agent answers. No addresses: nobody.
pub fn pod(node: &str, addresses: &[IpAddr]) -> objects::Pod {
    let port = |name: &str, protocol: &str| objects::ContainerPort {
        name: name.to_owned(),
        container_port: i64::from(dns::PORT),
        protocol: Some(protocol.to_owned()),
    };
    let ips = addresses.iter().map(|address| objects::PodIp {
        ip: address.to_string(),
    });
    objects::Pod {
        metadata: objects::Metadata {
            // No object has such a name.
            name: "dns/".to_owned() + node,
            namespace: "kube-system".to_owned(),
            labels: [("k8s-app".to_owned(), "kube-dns".to_owned())].into(),
            ..objects::Metadata::default()
        },
        spec: objects::PodSpec {
            node_name: node.to_owned(),
            containers: vec![objects::Container {
                ports: vec![port("dns", "UDP"), port("dns-tcp", "TCP")],
                restart_policy: None,
            }],
            ..objects::PodSpec::default()
        },
        status: objects::PodStatus {
            pod_ips: ips.collect(),
            ..objects::PodStatus::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use ebpf_abi::Protocol;
    use node_agent_policy::{Compiler, Config};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_for_the_pods_of_cluster_dns_is_for_the_agent_that_answers() {
        let mut compiler = Compiler::new(Config {
            node: Some("n".to_owned()),
            ..Config::default()
        });
        let dns: IpAddr = "10.96.0.10".parse().expect("an address");
        let address: IpAddr = "10.0.0.1".parse().expect("an address");
        compiler.own_addresses(&[dns]);
        for name in ["x", "kube-system"] {
            let labels = json!({"kubernetes.io/metadata.name": name});
            let object = json!({"metadata": {"name": name, "labels": labels}});
            let object = serde_json::from_value(object).expect("a namespace");
            compiler.namespace(name, Some(&object));
        }
        let object = json!({
            "metadata": {"name": "a", "namespace": "x"},
            "spec": {"nodeName": "n"},
            "status": {"podIP": address},
        });
        let object = serde_json::from_value(object).expect("a pod");
        compiler.pod("x", "a", Some(&object));
        let policy = json!({
            "metadata": {"name": "p", "namespace": "x"},
            "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{
                "to": [{
                    "namespaceSelector": {},
                    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
                }],
                "ports": [{"port": 53, "protocol": "UDP"}, {"port": "dns-tcp"}],
            }]},
        });
        let policy = serde_json::from_value(policy).expect("a policy");
        compiler.network_policy("x", "p", Some(&policy));
        for (known, expected) in [(vec![], false), (vec![dns], true)] {
            let answers = pod("n", &known);
            compiler.pod("kube-system", &answers.metadata.name, Some(&answers));
            compiler.sync();
            for protocol in [Protocol::UDP, Protocol::TCP] {
                let said = compiler.explain(address, dns, protocol, 53);
                assert_eq!(said.egress.map(|it| it.decided.allow), Some(expected));
            }
            assert!(!compiler.explain(address, dns, Protocol::UDP, 54).allow);
        }
    }
}
