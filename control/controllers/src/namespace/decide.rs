//! Evaluates the remaining contents of a namespace, and its status.

use std::collections::BTreeMap;
use std::time::Duration;

use control_client::{Metadata, Resource};
use jiff::Timestamp;

use crate::views::{Condition, Text};

/// Delay before the second sweep of a namespace; it doubles for each further sweep.
/// Events end the wait earlier.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// The longest wait for an event that may have been missed.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// The result of one sweep over the resources of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Objects left, per `resource.group`.
    pub remaining: BTreeMap<String, usize>,
    /// The resources that have objects left.
    pub resources: Vec<Resource>,
    /// Objects left that wait for a finalizer, per finalizer.
    pub finalizers: BTreeMap<String, usize>,
    /// Deletions that failed.
    pub failures: Vec<String>,
    /// Why discovery failed, if it did.
    pub discovery: Option<String>,
}

impl Sweep {
    /// Takes account of the objects of a resource that are left.
    pub fn left(&mut self, resource: &Resource, objects: &[Metadata]) {
        if objects.is_empty() {
            return;
        }
        let name = format!("{}.{}", resource.plural, resource.group);
        self.remaining.insert(name, objects.len());
        self.resources.push(resource.clone());
        for object in objects {
            for finalizer in &object.metadata.finalizers {
                *self.finalizers.entry(finalizer.to_string()).or_default() += 1;
            }
        }
    }

    /// Returns whether the sweep found everything that remains. Then only those resources
    /// need further sweeps until they are empty.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failures.is_empty() && self.discovery.is_none()
    }

    /// Whether nothing is left and nothing went wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.remaining.is_empty() && self.is_complete()
    }
}

/// The sweeps of one namespace so far.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Its uid: another namespace of the same name starts from the beginning.
    pub uid: Text,
    /// How many sweeps in a row found the same.
    pub repetitions: u32,
    /// The last sweep.
    pub last: Sweep,
}

impl Progress {
    /// The resources of the next sweep; `None` for all.
    ///
    /// A request that was admitted before the deletion may store its object after the first
    /// sweep. Ever fewer of the sweeps cover all resources, to find such objects while
    /// others keep the namespace.
    #[must_use]
    pub fn scope(&self) -> Option<&[Resource]> {
        let narrow = self.last.is_complete()
            && !self.last.resources.is_empty()
            && !self.repetitions.is_power_of_two();
        narrow.then_some(self.last.resources.as_slice())
    }

    /// Records a sweep that was not clean. Returns how long to wait for the next one.
    pub fn note(&mut self, sweep: Sweep) -> Duration {
        let moved = sweep.remaining != self.last.remaining && sweep.is_complete();
        self.repetitions = if moved { 0 } else { self.repetitions + 1 };
        self.last = sweep;
        FIRST_DELAY
            .saturating_mul(1 << self.repetitions.min(16))
            .min(LONGEST_DELAY)
    }
}

/// The conditions after a sweep, in upstream's order and words; transition
/// times stay while the status stays.
#[must_use]
pub fn conditions(old: &[Condition], sweep: &Sweep, now: Timestamp) -> Vec<Condition> {
    let list = |entries: &BTreeMap<String, usize>, word: &str| {
        let texts: Vec<String> = entries
            .iter()
            .map(|(name, count)| format!("{name} {word} {count} resource instances"))
            .collect();
        texts.join(", ")
    };
    let discovery = sweep
        .discovery
        .as_ref()
        .map(|message| ("DiscoveryFailed", message.clone()));
    let content = (!sweep.failures.is_empty()).then(|| {
        let mut failures = sweep.failures.clone();
        failures.sort();
        let message = format!(
            "Failed to delete all resource types, {} remaining: {}",
            failures.len(),
            failures.join(", ")
        );
        ("ContentDeletionFailed", message)
    });
    let remaining = (!sweep.remaining.is_empty()).then(|| {
        let message = format!(
            "Some resources are remaining: {}",
            list(&sweep.remaining, "has")
        );
        ("SomeResourcesRemain", message)
    });
    let finalizers = (!sweep.finalizers.is_empty()).then(|| {
        let message = format!(
            "Some content in the namespace has finalizers remaining: {}",
            list(&sweep.finalizers, "in")
        );
        ("SomeFinalizersRemain", message)
    });
    let table = [
        (
            "NamespaceDeletionDiscoveryFailure",
            discovery,
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            content,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            remaining,
            "ContentRemoved",
            "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            finalizers,
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ];
    let mut conditions: Vec<Condition> = old
        .iter()
        .filter(|c| !table.iter().any(|row| row.0 == c.r#type))
        .cloned()
        .collect();
    for (r#type, problem, ok_reason, ok_message) in table {
        let (status, reason, message) = match problem {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", ok_reason, ok_message.to_owned()),
        };
        let mut condition = Condition::new(r#type, status, reason, message, now);
        if let Some(before) = Condition::find(old, r#type)
            && before.status == condition.status
        {
            condition.last_transition_time = before.last_transition_time;
        }
        conditions.push(condition);
    }
    conditions
}

#[cfg(test)]
mod tests {
    use control_client::resources;

    use super::*;

    #[test]
    fn what_remains_is_named() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let sweep = Sweep {
            remaining: BTreeMap::from([("pods.".into(), 2), ("deployments.apps".into(), 1)]),
            finalizers: BTreeMap::from([("example.com/keep".into(), 1)]),
            ..Sweep::default()
        };
        let c = conditions(&[], &sweep, now);
        assert_eq!(
            Condition::find(&c, "NamespaceContentRemaining")
                .unwrap()
                .message,
            "Some resources are remaining: deployments.apps has 1 resource instances, pods. has 2 resource instances"
        );
        assert_eq!(
            Condition::find(&c, "NamespaceFinalizersRemaining")
                .unwrap()
                .message,
            "Some content in the namespace has finalizers remaining: example.com/keep in 1 resource instances"
        );
        assert_eq!(
            Condition::find(&c, "NamespaceDeletionContentFailure")
                .unwrap()
                .status,
            "False"
        );
        assert!(!sweep.is_clean());
        let mut found = Sweep::default();
        found.left(&resources::PODS, &[]);
        assert_eq!(found, Sweep::default());
        let waiting: Metadata =
            serde_json::from_value(serde_json::json!({"metadata": {"finalizers": ["a/b"]}}))
                .unwrap();
        found.left(&resources::PODS, &[waiting.clone(), waiting]);
        assert_eq!(found.remaining, BTreeMap::from([("pods.".into(), 2)]));
        assert_eq!(found.finalizers, BTreeMap::from([("a/b".into(), 2)]));
        assert!(Sweep::default().is_clean());
    }

    #[test]
    fn namespace_that_does_not_move_is_looked_at_ever_more_seldom() {
        let left = |count: usize| Sweep {
            remaining: BTreeMap::from([("pods.".into(), count)]),
            resources: vec![resources::PODS],
            ..Sweep::default()
        };
        let mut progress = Progress::default();
        assert_eq!(progress.scope(), None, "the first sweep is of everything");
        let delays: Vec<u128> = (0..10)
            .map(|_| progress.note(left(2)).as_millis())
            .collect();
        assert_eq!(
            delays,
            [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]
        );
        assert_eq!(progress.scope(), Some([resources::PODS].as_slice()));
        assert_eq!(progress.note(left(1)), FIRST_DELAY, "it moves");
        let failed = Sweep {
            failures: vec!["no answer".into()],
            ..left(1)
        };
        assert!(progress.note(failed) > FIRST_DELAY);
        assert_eq!(progress.scope(), None, "more may be left than is known");
    }

    #[test]
    fn transition_times_stay_while_the_status_stays() {
        let then: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let first = conditions(&[], &Sweep::default(), then);
        assert_eq!(conditions(&first, &Sweep::default(), now), first);
    }
}
