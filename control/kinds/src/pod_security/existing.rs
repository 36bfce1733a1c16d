//! Existing pods that violate a stricter policy: they stay, and the change of the
//! namespace's labels gets warnings about them.

use std::collections::{BTreeMap, BTreeSet};

use control_types::meta;
use control_types::status::quote;
use control_types::value::Value;

use super::{LevelVersion, Pod, evaluate, reasons};
use crate::tree::Read as _;

/// How many pods are looked at.
const MOST: usize = 3000;

/// The pods of a namespace, in the order in which they are looked at: first those
/// that are not like one before, by their controller.
#[derive(Debug)]
pub struct NamespacePods {
    pods: Vec<Value>,
}

impl NamespacePods {
    /// Orders pods.
    #[must_use]
    pub fn new(pods: impl IntoIterator<Item = Value>) -> Self {
        let mut controllers = BTreeSet::new();
        let mut repeated = Vec::new();
        let mut first = Vec::new();
        for pod in pods {
            let controller = meta::controller_of(&pod).map(|owner| owner.text("uid").to_owned());
            if controller.is_none_or(|uid| controllers.insert(uid)) {
                first.push(pod);
            } else {
                repeated.push(pod);
            }
        }
        first.append(&mut repeated);
        Self { pods: first }
    }

    /// Returns warnings about all pods that violate `enforce`. The evaluation stops when
    /// `is_late` returns true.
    #[must_use]
    pub fn warnings(
        &self,
        namespace: &str,
        enforce: LevelVersion,
        mut is_late: impl FnMut() -> bool,
    ) -> Vec<String> {
        let mut found: BTreeMap<String, (&str, usize)> = BTreeMap::new();
        let total = self.pods.len();
        let mut checked = total.min(MOST);
        for (at, object) in self.pods.iter().take(MOST).enumerate() {
            if let Some(pod) = Pod::within(object, &[]) {
                let broken = evaluate(enforce, pod);
                if !broken.is_empty() {
                    let name = meta::name(object);
                    let (first, count) = found.entry(reasons(&broken)).or_insert((name, 0));
                    *first = name.min(first);
                    *count += 1;
                }
            }
            if is_late() {
                checked = at + 1;
                break;
            }
        }
        let mut warnings = Vec::new();
        if checked < total {
            warnings.push(format!(
                "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
            ));
        }
        if !found.is_empty() {
            warnings.push(format!(
                "existing pods in namespace {} violate the new PodSecurity enforce level {}",
                quote(namespace),
                quote(&enforce.to_string())
            ));
        }
        let mut of_pods: Vec<String> = found
            .iter()
            .map(|(reasons, (name, count))| match count {
                1 => format!("{name}: {reasons}"),
                2 => format!("{name} (and 1 other pod): {reasons}"),
                many => format!("{name} (and {} other pods): {reasons}", many - 1),
            })
            .collect();
        of_pods.sort_unstable();
        warnings.append(&mut of_pods);
        warnings
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;
    use crate::pod_security::{Level, Version};

    fn pod(name: &str, privileged: bool, owner: &str) -> Value {
        value!({
            "metadata": {"name": name, "ownerReferences": [{"uid": owner, "controller": true}]},
            "spec": {"containers": [{"name": "c", "securityContext": {"privileged": privileged}}]}
        })
    }

    const BASELINE: LevelVersion = LevelVersion {
        level: Level::Baseline,
        version: Version::Latest,
    };

    #[test]
    fn pods_with_the_same_faults_are_told_together_by_the_first_name() {
        let pods = [("c", true), ("a", true), ("x", false), ("b", true)];
        let pods = pods.map(|(name, privileged)| pod(name, privileged, name));
        let warnings = NamespacePods::new(pods).warnings("n", BASELINE, || false);
        assert_eq!(
            warnings,
            [
                "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
                "a (and 2 other pods): privileged"
            ]
        );
    }

    #[test]
    fn a_pod_of_another_controller_comes_before_the_second_of_one() {
        let pods = [("a", "x"), ("b", "x"), ("c", "y")].map(|(name, owner)| pod(name, true, owner));
        let existing = NamespacePods::new(pods);
        let names: Vec<_> = existing.pods.iter().map(meta::name).collect();
        assert_eq!(names, ["a", "c", "b"]);
    }

    #[test]
    fn looking_ends_when_it_is_late_and_after_the_most() {
        let pods = |count: usize| (0..count).map(|at| pod(&format!("p{at}"), false, "x"));
        let existing = NamespacePods::new(pods(3));
        assert_eq!(
            existing.warnings("n", BASELINE, || true),
            ["new PodSecurity enforce level only checked against the first 1 of 3 existing pods"]
        );
        let existing = NamespacePods::new(pods(3001));
        assert_eq!(
            existing.warnings("n", BASELINE, || false),
            [
                "new PodSecurity enforce level only checked against the first 3000 of 3001 existing pods"
            ]
        );
    }
}
