//! Topology: a volume is reachable from its node alone.

use std::collections::BTreeMap;

use csi_api::{Topology, TopologyRequirement};

use crate::error::{Error, Result};

/// Key of the topology segment that names a node.
pub const NODE_KEY: &str = "topology.csi.orlop.dev/node";

/// Returns the topology of a node.
#[must_use]
pub fn of_node(node: &str) -> Topology {
    Topology {
        segments: BTreeMap::from([(NODE_KEY.to_owned(), node.to_owned())]),
    }
}

/// Whether a topology contains a node.
#[must_use]
pub fn contains(topology: &Topology, node: &str) -> bool {
    let named = |(key, value): (&String, &String)| key == NODE_KEY && value == node;
    topology.segments.is_empty() || topology.segments.iter().any(named)
}

/// Checks that a volume on the node meets a requirement.
///
/// # Errors
/// When the requisite topologies are all elsewhere.
pub fn check(requirement: Option<&TopologyRequirement>, node: &str) -> Result<()> {
    let Some(requirement) = requirement else {
        return Ok(());
    };
    let requisite = &requirement.requisite;
    if requisite.is_empty() || requisite.iter().any(|it| contains(it, node)) {
        return Ok(());
    }
    Err(Error::OtherNode {
        node: node.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_is_met_on_its_node_only() {
        let requirement = |nodes: &[&str]| TopologyRequirement {
            requisite: nodes.iter().map(|node| of_node(node)).collect(),
            preferred: Vec::new(),
        };
        assert!(check(None, "a").is_ok());
        assert!(check(Some(&requirement(&[])), "a").is_ok());
        assert!(check(Some(&requirement(&["b", "a"])), "a").is_ok());
        let error = check(Some(&requirement(&["b"])), "a").unwrap_err();
        assert_eq!(error.code(), tonic::Code::ResourceExhausted);
    }
}
