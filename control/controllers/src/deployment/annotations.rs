//! The annotations by which a Deployment and its ReplicaSets remember.

use std::collections::BTreeMap;

use control_client::Meta;

use super::arithmetic::RolloutBounds;
use crate::views::Text;

/// The revision: `kubectl rollout history` and `undo` read it.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// Earlier revisions of a ReplicaSet that was rolled back to.
pub const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The Deployment's size when the ReplicaSet was last scaled.
pub const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// That size with the surge.
pub const MAX: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations that are not copied from the Deployment to its sets.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

/// Characters that the history may have.
const HISTORY_LIMIT: usize = 2000;

/// Copies the Deployment's annotations to its newest set and raises the set's
/// revision to `revision`. A revision that is replaced goes into the history.
pub fn inherit(annotations: &mut BTreeMap<Text, Text>, deployment: &Meta, revision: i64) {
    for (key, value) in deployment.annotations.iter() {
        if !OWN.contains(&key) {
            annotations.insert(key.into(), value.into());
        }
    }
    let old = annotations.get(REVISION).cloned();
    let number: i64 = match &old {
        None => 0,
        Some(text) if text.is_empty() => 0,
        // not ours: keep it
        Some(text) => match text.parse() {
            Ok(number) => number,
            Err(_) => return,
        },
    };
    if number >= revision {
        return;
    }
    annotations.insert(REVISION.into(), revision.to_string().into());
    let Some(old) = old.filter(|old| !old.is_empty()) else {
        return;
    };
    let history = annotations.get(HISTORY).cloned().unwrap_or_default();
    let mut entries: Vec<&str> = history.split(',').filter(|e| !e.is_empty()).collect();
    entries.push(&old);
    while entries.len() > 1
        && entries.iter().map(|e| e.len() + 1).sum::<usize>() > HISTORY_LIMIT + 1
    {
        entries.remove(0);
    }
    let text = entries.join(",");
    annotations.insert(HISTORY.into(), text.into());
}

/// Records the Deployment's size, so that a later change is recognised.
pub fn set_sizes(annotations: &mut BTreeMap<Text, Text>, bounds: &RolloutBounds) {
    annotations.insert(DESIRED.into(), bounds.replicas.to_string().into());
    let max = bounds.replicas.saturating_add(bounds.max_surge);
    annotations.insert(MAX.into(), max.to_string().into());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(json: serde_json::Value) -> Meta {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn annotations_of_the_deployment_are_copied_but_not_its_own_marks() {
        let deployment = meta(serde_json::json!({"annotations":{
            "kubernetes.io/change-cause":"why", REVISION:"9"}}));
        let mut set = BTreeMap::new();
        inherit(&mut set, &deployment, 3);
        assert_eq!(set.get("kubernetes.io/change-cause").unwrap(), "why");
        assert_eq!(set.get(REVISION).unwrap(), "3");
    }

    #[test]
    fn rolled_back_set_remembers_its_revisions() {
        let mut set = BTreeMap::from([(Text::from(REVISION), Text::from("1"))]);
        inherit(&mut set, &Meta::default(), 3);
        inherit(&mut set, &Meta::default(), 5);
        assert_eq!(set.get(REVISION).unwrap(), "5");
        assert_eq!(set.get(HISTORY).unwrap(), "1,3");
    }

    #[test]
    fn revision_never_falls() {
        let mut set = BTreeMap::from([(Text::from(REVISION), Text::from("7"))]);
        inherit(&mut set, &Meta::default(), 3);
        assert_eq!(set.get(REVISION).unwrap(), "7");
        assert_eq!(set.get(HISTORY), None);
    }

    #[test]
    fn history_drops_its_oldest_entries() {
        let long: Vec<String> = (1000..1400).map(|n| n.to_string()).collect();
        let mut set = BTreeMap::from([
            (Text::from(REVISION), Text::from("1400")),
            (Text::from(HISTORY), Text::from(long.join(","))),
        ]);
        inherit(&mut set, &Meta::default(), 1401);
        let history = set.get(HISTORY).unwrap();
        assert!(history.len() <= HISTORY_LIMIT);
        assert!(history.ends_with(",1399,1400"));
        assert!(history.starts_with("1001,"));
    }
}
