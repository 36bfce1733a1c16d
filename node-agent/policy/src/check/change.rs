//! Effects of changed objects: the same expectations, checked before and after.

use std::collections::BTreeMap;

use super::CheckedFlow;

/// A flow whose verdict changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// As it was; none: one of its ends was not there.
    pub before: Option<CheckedFlow>,
    /// As it is then.
    pub after: CheckedFlow,
}

/// Returns the flows whose verdict differs, in the order of `after`, without flows of
/// ends that the change removes.
#[must_use]
pub fn changes(before: &[CheckedFlow], after: &[CheckedFlow]) -> Vec<Change> {
    let key = |it: &CheckedFlow| {
        let ends = (it.explanation.from.clone(), it.explanation.to.clone());
        (
            ends,
            it.port.clone(),
            it.expected == super::ExpectedVerdict::Allow,
        )
    };
    // The same flow may be listed twice, and once for each family: occurrences are
    // matched in order.
    let mut known: BTreeMap<_, Vec<&CheckedFlow>> = BTreeMap::new();
    for it in before.iter().rev() {
        known.entry(key(it)).or_default().push(it);
    }
    after
        .iter()
        .filter_map(|it| {
            let before = known.get_mut(&key(it)).and_then(Vec::pop);
            if before.is_some_and(|known| known.explanation.allow == it.explanation.allow) {
                return None;
            }
            Some(Change {
                before: before.cloned(),
                after: it.clone(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{check, read};
    use super::*;

    fn pod(name: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "x", "name": name, "labels": {"app": name}},
        })
    }

    fn checked(policies: &[Value], pods: &[&str]) -> Vec<CheckedFlow> {
        let test = json!({
            "apiVersion": "orlop.dev/v1alpha1", "kind": "PolicyTest",
            "flows": [
                {"from": "x/*", "to": "x/a", "port": [80, 81], "expect": "allow"},
                {"from": "192.0.2.1", "to": "x/a", "port": 80, "expect": "deny"},
                {"from": "192.0.2.1", "to": "x/a", "port": 80, "expect": "deny"},
            ],
        });
        let pods = pods.iter().map(|it| pod(it));
        let documents = pods.chain(policies.to_vec()).chain([test]).collect();
        let (objects, tests) = read(documents).expect("documents");
        check(&objects, &tests).expect("checked")
    }

    fn policy(port: u16) -> Value {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"namespace": "x", "name": "p"},
            "spec": {"podSelector": {}, "ingress": [{
                "from": [{"podSelector": {}}], "ports": [{"port": port}],
            }]},
        })
    }

    fn words(changes: &[Change]) -> Vec<String> {
        let words = changes.iter().map(|it| {
            let allow = |it: &CheckedFlow| it.explanation.allow;
            format!(
                "{} {} {} {:?} {}",
                it.after.explanation.from,
                it.after.explanation.to,
                it.after.port,
                it.before.as_ref().map(allow),
                allow(&it.after)
            )
        });
        words.collect()
    }

    #[test]
    fn flows_that_are_decided_otherwise_are_told_and_no_others() {
        let (open, closed) = (
            checked(&[], &["a", "b"]),
            checked(&[policy(80)], &["a", "b"]),
        );
        assert_eq!(changes(&open, &open), []);
        let expected = [
            "x/b x/a 81 Some(true) false",
            "192.0.2.1 x/a 80 Some(true) false",
            "192.0.2.1 x/a 80 Some(true) false",
        ];
        assert_eq!(words(&changes(&open, &closed)), expected);
        // Another rule of the same object decides: nothing that one would feel.
        let moved = checked(&[policy(81)], &["a", "b"]);
        let expected = ["x/b x/a 80 Some(true) false", "x/b x/a 81 Some(false) true"];
        assert_eq!(words(&changes(&closed, &moved)), expected);
        // A pod that comes with the change.
        let more = checked(&[policy(80)], &["a", "b", "c"]);
        let expected = ["x/c x/a 80 None true", "x/c x/a 81 None false"];
        assert_eq!(words(&changes(&closed, &more)), expected);
    }
}
