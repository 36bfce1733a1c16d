//! Lowers API objects to [`Policy`]: one file per kind.
//!
//! Parts that are not understood never allow more: an allow rule then matches nothing,
//! and a deny or pass rule denies everything (the ClusterNetworkPolicy API's rule for
//! unknown peers, applied to everything).
//!
//! # The host firewall
//!
//! A policy with the annotation [`APPLIES_TO`]` = "nodes"` is for nodes: its subject's
//! labels (`spec.subject.namespaces`, or `spec.podSelector`) are those of nodes.
//! NetworkPolicies may do so only in the namespace [`HOST_NAMESPACE`]: authors of
//! policies in other namespaces must not affect nodes.

mod cluster;
mod network_policy;

use crate::labels::Selector;
use crate::objects::{LabelSelector, Metadata};
use crate::policy::{Policy, PolicyRule, PortRange, RuleVerdict};

pub use cluster::cluster_network_policy;
pub use network_policy::network_policy;

/// The annotation by which a policy is for nodes: `nodes`.
pub const APPLIES_TO: &str = "policy.orlop.dev/applies-to";
/// The annotation by which a policy for nodes may close the API server's and
/// the agent's ports: `allowed`.
pub const LOCKOUT: &str = "policy.orlop.dev/lockout";
/// The namespace whose NetworkPolicies may be for nodes.
pub const HOST_NAMESPACE: &str = "kube-system";

fn is_for_nodes(metadata: &Metadata) -> bool {
    metadata
        .annotations
        .get(APPLIES_TO)
        .is_some_and(|it| it == "nodes")
}

fn is_forced(metadata: &Metadata) -> bool {
    metadata
        .annotations
        .get(LOCKOUT)
        .is_some_and(|it| it == "allowed")
}

fn selector(
    selector: &LabelSelector,
    problems: &mut Vec<String>,
    place: impl FnOnce() -> String,
) -> Option<Selector> {
    let read = Selector::new(selector);
    if read.is_none() {
        problems.push(format!("{}: a label selector that is none", place()));
    }
    read
}

/// Ports from numbers of the API.
fn range(protocol: ebpf_abi::Protocol, first: i64, last: i64) -> Option<PortRange> {
    let (first, last) = (u16::try_from(first).ok()?, u16::try_from(last).ok()?);
    (first > 0 && first <= last).then_some(PortRange {
        protocol,
        first,
        last,
    })
}

/// Makes the policy allow nothing and deny instead of pass: its subject, or its tier, is
/// not understood.
fn distrust(policy: &mut Policy) {
    for rules in [&mut policy.ingress, &mut policy.egress]
        .into_iter()
        .flatten()
    {
        rules.retain(|rule| rule.action != RuleVerdict::Accept);
        for rule in rules {
            rule.action = RuleVerdict::Deny;
        }
    }
}

/// A rule of which some part is not understood.
fn fail_closed(rule: &mut PolicyRule) {
    match rule.action {
        RuleVerdict::Accept => rule.peers = Some(Vec::new()),
        RuleVerdict::Deny | RuleVerdict::Pass => {
            rule.action = RuleVerdict::Deny;
            rule.peers = None;
            rule.ports = None;
        }
    }
}
