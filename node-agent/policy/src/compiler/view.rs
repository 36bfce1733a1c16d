//! Shows the compiler's state, as numbers and as maps: for people and tests.

use ebpf_abi::policy::PolicyRoot;

use super::Compiler;
use super::sizes::Sizes;
use crate::address::Prefix;
use crate::policy::PortRange;

impl Compiler {
    /// How much there is.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        let rows = self.rulesets.values().flat_map(|it| it.rows.values());
        Sizes {
            pods: self.pods.len(),
            prefixes: {
                let hosts = self.hosts.iter().filter(|(_, host)| host.said.is_some());
                let own = |address| !self.mentions.contains_key(&Prefix::new(address, 128));
                self.mentions.len() + hosts.filter(|(address, _)| own(**address)).count()
            },
            peers: self.peers.len(),
            rulesets: self.rulesets.len(),
            verdicts: rows.map(|row| 1 + row.classes.len()).sum(),
            endpoints: 2 * self.endpoints.len(),
            classes: self.ports.len(),
            policies: self.current.len(),
        }
    }

    /// Ports that a host firewall does not close.
    #[must_use]
    pub fn protected(&self) -> &[PortRange] {
        &self.config.protected
    }

    /// Returns whether a policy selects this node, so that its own traffic is guarded.
    #[must_use]
    pub fn guards_node(&self) -> bool {
        self.nodes
            .values()
            .any(|node| node.local && node.rulesets != [0; 2])
    }

    /// The root as it was written last.
    #[must_use]
    pub const fn root(&self) -> PolicyRoot {
        self.root
    }
}
