//! A small cluster, and Orlop's verdict for every flow in it.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::net::IpAddr;

use ebpf_abi::Protocol;
use node_agent_policy::objects::{ClusterNetworkPolicy, Namespace, NetworkPolicy, Node, Pod};
use node_agent_policy::{Compiler, Config};
use serde_json::{Value, json};

/// Each case asks hundreds of flows: fewer cases than usual, unless told otherwise.
pub fn config() -> proptest::prelude::ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok();
    let cases = cases.and_then(|it| it.parse().ok()).unwrap_or(96);
    proptest::prelude::ProptestConfig {
        cases,
        ..proptest::prelude::ProptestConfig::default()
    }
}

pub type Labels = BTreeMap<String, String>;

/// A pod of the small cluster.
#[derive(Debug, Clone)]
pub struct TestPod {
    pub namespace: String,
    pub name: String,
    pub labels: Labels,
    pub address: IpAddr,
}

/// Two namespaces with pods on node `n1`, a node `n2` without pods, and hosts outside.
#[derive(Debug, Clone)]
pub struct TestCluster {
    pub namespaces: BTreeMap<String, Labels>,
    pub pods: Vec<TestPod>,
}

pub const POD_RANGE: &str = "10.1.0.0/24";
pub const OTHER_NODE: &str = "10.0.0.2";
pub const OUTSIDE: [&str; 3] = ["192.0.2.1", "192.0.2.129", "198.51.100.1"];

/// Protocol and port of the flows that are asked; every pod names TCP port 8080 `http`.
pub const FLOWS: [(Protocol, u16); 6] = [
    (Protocol::TCP, 80),
    (Protocol::TCP, 443),
    (Protocol::TCP, 8080),
    (Protocol::UDP, 80),
    (Protocol::UDP, 53),
    (Protocol(1), 0),
];

impl TestCluster {
    pub fn new(namespaces: BTreeMap<String, Labels>, pods: Vec<(String, Labels)>) -> Self {
        let pods = pods.into_iter().enumerate();
        let pods = pods.map(|(index, (namespace, labels))| TestPod {
            namespace,
            name: format!("p{index}"),
            labels,
            address: IpAddr::from([10, 1, 0, 10 + u8::try_from(index).unwrap()]),
        });
        Self {
            pods: pods.collect(),
            namespaces,
        }
    }

    pub fn namespace_labels(&self, name: &str) -> Labels {
        let mut labels = self.namespaces[name].clone();
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
        labels
    }

    /// Namespaces and nodes, as the converters read them.
    pub fn objects(&self) -> Vec<Value> {
        let namespaces = self.namespaces.keys().map(|name| {
            json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "labels": self.namespace_labels(name)}})
        });
        let node = |name: &str, range: &str, address: &str| {
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                "spec": {"podCIDRs": [range]},
                "status": {"addresses": [{"type": "InternalIP", "address": address}]}})
        };
        namespaces
            .chain([
                node("n1", POD_RANGE, "10.0.0.1"),
                node("n2", "10.1.1.0/24", OTHER_NODE),
            ])
            .collect()
    }

    pub fn pod(&self, address: IpAddr) -> Option<&TestPod> {
        self.pods.iter().find(|pod| pod.address == address)
    }

    /// All addresses that take part.
    pub fn ends(&self) -> Vec<IpAddr> {
        let pods = self.pods.iter().map(|pod| pod.address);
        let others = OUTSIDE.into_iter().chain([OTHER_NODE]);
        pods.chain(others.map(|it| it.parse().unwrap())).collect()
    }

    /// Orlop's compiler with the cluster and some policies.
    pub fn compiler(&self, policies: &[Value]) -> Compiler {
        let mut compiler = Compiler::new(Config::default());
        for object in self.objects() {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            if object["kind"] == "Node" {
                let node: Node = serde_json::from_value(object).unwrap();
                compiler.node(&name, Some(&node));
            } else {
                let namespace: Namespace = serde_json::from_value(object).unwrap();
                compiler.namespace(&name, Some(&namespace));
            }
        }
        for pod in &self.pods {
            let object = json!({
                "metadata": {"namespace": pod.namespace, "name": pod.name, "labels": pod.labels},
                "spec": {"nodeName": "n1", "containers": [
                    {"ports": [{"name": "http", "containerPort": 8080}]}]},
                "status": {"phase": "Running", "podIP": pod.address, "podIPs": [{"ip": pod.address}]},
            });
            let object: Pod = serde_json::from_value(object).unwrap();
            compiler.pod(&pod.namespace, &pod.name, Some(&object));
        }
        for object in policies {
            let name = object["metadata"]["name"].as_str().unwrap();
            if object["kind"] == "NetworkPolicy" {
                let namespace = object["metadata"]["namespace"].as_str().unwrap();
                let policy: NetworkPolicy = serde_json::from_value(object.clone()).unwrap();
                compiler.network_policy(namespace, name, Some(&policy));
            } else {
                let policy: ClusterNetworkPolicy = serde_json::from_value(object.clone()).unwrap();
                compiler.cluster_network_policy(name, Some(&policy));
            }
        }
        compiler.sync();
        let problems: Vec<String> = compiler
            .problems()
            .map(|(name, problem)| format!("{name}: {problem}"))
            .collect();
        assert!(problems.is_empty(), "{problems:?} in {policies:#?}");
        compiler
    }
}
