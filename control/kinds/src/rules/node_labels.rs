//! Deprecated node labels: they still work, with a warning that names the replacement.

use control_types::value::Value;

use crate::error::Path;
use crate::tree::Read;

/// Returns the warning about a deprecated node label.
pub(crate) fn deprecated(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

/// Warnings for a label selector over nodes.
pub(crate) fn selector_warnings(selector: &Value, at: &Path<'_>) -> Vec<String> {
    let mut out = Vec::new();
    let list = at.child("matchExpressions");
    for (i, requirement) in selector.items("matchExpressions").iter().enumerate() {
        let key = requirement.text("key");
        if let Some(why) = deprecated(key) {
            out.push(format!("{}: {key} is {why}", list.index(i).child("key")));
        }
    }
    let labels = at.child("matchLabels");
    for (key, _) in selector.entries("matchLabels") {
        if let Some(why) = deprecated(key) {
            out.push(format!("{}: {why}", labels.child(key)));
        }
    }
    out
}

/// Warnings for the terms of a node selector.
pub(crate) fn term_warnings(term: &Value, at: &Path<'_>) -> Vec<String> {
    let list = at.child("matchExpressions");
    let mut out = Vec::new();
    for (i, requirement) in term.items("matchExpressions").iter().enumerate() {
        let key = requirement.text("key");
        if let Some(why) = deprecated(key) {
            out.push(format!("{}: {key} is {why}", list.index(i).child("key")));
        }
    }
    out
}
