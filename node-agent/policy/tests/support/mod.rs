//! A cluster of plain objects, and a direct implementation of the specification for them. It
//! shares only the views of objects with the compiler.
#![allow(dead_code, reason = "each test uses a part")]

pub mod halted;
pub mod random;
pub mod reference;

use std::collections::BTreeMap;
use std::net::IpAddr;

use ebpf_abi::Protocol;
use ebpf_abi::policy::Direction;
use ebpf_logic::policy::model::PolicyModel;
use ebpf_logic::policy::{Flow, HookPlace, PolicyMaps, policy};
use node_agent_policy::objects::{ClusterNetworkPolicy, Namespace, NetworkPolicy, Node, Pod};
use node_agent_policy::{Compiler, Config};

/// All objects, by namespace and name.
#[derive(Clone, Default, Debug)]
pub struct Cluster {
    pub namespaces: BTreeMap<String, Namespace>,
    pub pods: BTreeMap<(String, String), Pod>,
    pub nodes: BTreeMap<String, Node>,
    pub policies: BTreeMap<(String, String), NetworkPolicy>,
    pub cluster_policies: BTreeMap<String, ClusterNetworkPolicy>,
}

/// A compiler that was told all of a cluster, as of one node.
pub fn compiler(cluster: &Cluster, node: Option<&str>) -> Compiler {
    let config = Config {
        node: node.map(str::to_owned),
        ..Config::default()
    };
    told(cluster, config)
}

/// The same, configured otherwise.
pub fn told(cluster: &Cluster, config: Config) -> Compiler {
    let mut compiler = Compiler::new(config);
    for (name, it) in &cluster.cluster_policies {
        compiler.cluster_network_policy(name, Some(it));
    }
    for ((namespace, name), it) in &cluster.pods {
        compiler.pod(namespace, name, Some(it));
    }
    for (name, it) in &cluster.nodes {
        compiler.node(name, Some(it));
    }
    for (name, it) in &cluster.namespaces {
        compiler.namespace(name, Some(it));
    }
    for ((namespace, name), it) in &cluster.policies {
        compiler.network_policy(namespace, name, Some(it));
    }
    compiler
}

/// No program is at work any more: what waited for that is removed.
pub fn settle(compiler: &mut Compiler, model: &mut PolicyModel) {
    let mut turns = 0;
    while let Some(mark) = compiler.mark() {
        compiler.passed(mark);
        for action in compiler.sync() {
            action.apply(model);
        }
        turns += 1;
        assert!(turns < 8, "something always waits");
    }
}

/// What a node's maps say of one side of a flow.
pub fn asked(
    model: &impl PolicyMaps,
    place: HookPlace,
    direction: Direction,
    own: IpAddr,
    peer: IpAddr,
    protocol: Protocol,
    port: u16,
) -> bool {
    let flow = Flow {
        place,
        direction,
        own: own.into(),
        peer: peer.into(),
        protocol,
        port,
        relayed: false,
    };
    policy(model, &flow).allow
}
