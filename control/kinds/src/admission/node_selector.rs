//! `PodNodeSelector`: pods of a namespace run on the nodes that an annotation of the
//! namespace, or the configuration, names.

use std::collections::BTreeMap;

use control_types::value::Value;

use super::refusal::Refusal;
use crate::tree::{Read, Write};

/// The annotation of a namespace with the labels of its nodes.
pub const NODE_SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";

/// Error for a selector that is no list of labels.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid selector: [{part}]")]
pub struct NodeSelectorError {
    /// The part that is no label, in words.
    pub part: String,
}

/// Parses `a=b,c=d`.
///
/// # Errors
/// The invalid part.
pub fn read_node_selector(text: &str) -> Result<BTreeMap<String, String>, NodeSelectorError> {
    let mut found = BTreeMap::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let words: Vec<&str> = part.split('=').collect();
        let [key, value] = words.as_slice() else {
            return Err(NodeSelectorError {
                part: words.join(" "),
            });
        };
        found.insert(key.trim().to_owned(), value.trim().to_owned());
    }
    Ok(found)
}

/// Gives a pod the labels that its namespace wants its nodes to have.
///
/// # Errors
/// When the pod wants others.
pub fn select_nodes(pod: &mut Value, wanted: &BTreeMap<String, String>) -> Result<(), Refusal> {
    check_node_selector(pod, wanted, &BTreeMap::new())?;
    if wanted.is_empty() {
        return Ok(());
    }
    let selector = pod.make("spec").make("nodeSelector");
    for (key, value) in wanted {
        selector.put(key, value.as_str());
    }
    Ok(())
}

/// Refuses a pod that wants other nodes than its namespace, or labels that are not
/// among those that the namespace may ask for (`allowed`, if there are any).
///
/// # Errors
/// Which of both.
pub fn check_node_selector(
    pod: &Value,
    wanted: &BTreeMap<String, String>,
    allowed: &BTreeMap<String, String>,
) -> Result<(), Refusal> {
    let own = pod.at("spec").at("nodeSelector");
    for (key, value) in wanted {
        if own.has(key) && own.text(key) != value {
            return Err(
                "pod node label selector conflicts with its namespace node label selector".into(),
            );
        }
    }
    let asked = own
        .as_object()
        .into_iter()
        .flat_map(control_types::Map::iter);
    let mut asked = asked.map(|(key, value)| (key.to_string(), value.as_text()));
    if !allowed.is_empty()
        && asked.any(|(key, value)| allowed.get(&key).is_none_or(|one| one != value))
    {
        return Err("pod node label selector labels conflict with its namespace whitelist".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn a_pod_gets_the_labels_of_its_namespace_and_may_not_contradict_them() {
        let wanted = read_node_selector("zone=a, disk = ssd").expect("a selector");
        let mut pod = value!({"spec": {"nodeSelector": {"disk": "ssd", "x": "y"}}});
        select_nodes(&mut pod, &wanted).expect("no contradiction");
        assert_eq!(
            pod.at("spec").at("nodeSelector"),
            &value!({"disk": "ssd", "x": "y", "zone": "a"})
        );
        let mut other = value!({"spec": {"nodeSelector": {"zone": "b"}}});
        assert!(select_nodes(&mut other, &wanted).is_err());
        let allowed = read_node_selector("zone=a,disk=ssd").expect("a selector");
        let why = check_node_selector(&pod, &wanted, &allowed).expect_err("x is not allowed");
        assert!(why.to_string().ends_with("whitelist"));
        assert_eq!(
            read_node_selector("a").expect_err("no value").to_string(),
            "invalid selector: [a]"
        );
        let mut free = value!({"spec": {}});
        select_nodes(&mut free, &BTreeMap::new()).expect("nothing is wanted");
        assert_eq!(free, value!({"spec": {}}));
    }
}
