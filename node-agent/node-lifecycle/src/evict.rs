//! Node-pressure eviction: when something runs short, what the node says of it
//! and which pod has to go. Pure; the source of the rules is the published
//! documentation of node-pressure eviction.

use std::time::Duration;

use jiff::Timestamp;
use node_agent_kubelet_config::{Eviction, Signal, Threshold};
use node_agent_objects::pod::CRITICAL_PRIORITY;
use rustc_hash::FxHashMap;

use super::machine::Pressure;

/// The available and total amount of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalReading {
    /// What is free.
    pub available: u64,
    /// What there is in all.
    pub capacity: u64,
}

/// The result of one evaluation of eviction thresholds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvictionDecision {
    /// What the node is short of, as its conditions say.
    pub pressure: Pressure,
    /// What a pod has to go for now, if one has to.
    pub evict: Option<EvictionCause>,
}

/// The resource shortage for which a pod is evicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvictionCause {
    /// The threshold that is crossed.
    pub threshold: Threshold,
    /// What was found.
    pub reading: SignalReading,
}

/// Remembers since when each eviction threshold is exceeded.
#[derive(Clone, Debug, Default)]
pub struct ThresholdWatcher {
    /// By the threshold's place in the list.
    since: FxHashMap<usize, Timestamp>,
    /// When a condition was last true of itself.
    last: FxHashMap<Signal, Timestamp>,
}

impl ThresholdWatcher {
    /// Judges what was read.
    pub fn judge(
        &mut self,
        rules: &Eviction,
        readings: &FxHashMap<Signal, SignalReading>,
        now: Timestamp,
    ) -> EvictionDecision {
        let mut due: Vec<EvictionCause> = Vec::new();
        for (at, threshold) in rules.thresholds.iter().enumerate() {
            let Some(reading) = readings.get(&threshold.signal).copied() else {
                continue;
            };
            let least = threshold.least.amount_of(reading.capacity);
            // once crossed, it takes more than the threshold to be well again
            let enough = if self.since.contains_key(&at) {
                least.saturating_add(threshold.reclaim.amount_of(reading.capacity))
            } else {
                least
            };
            if reading.available >= enough {
                self.since.remove(&at);
                continue;
            }
            let since = *self.since.entry(at).or_insert(now);
            self.last.insert(threshold.signal, now);
            let lasted = Duration::try_from(now.duration_since(since)).unwrap_or_default();
            if threshold.grace.is_none_or(|grace| lasted >= grace) {
                due.push(EvictionCause {
                    threshold: *threshold,
                    reading,
                });
            }
        }
        self.last.retain(|_, last| {
            let ago = Duration::try_from(now.duration_since(*last)).unwrap_or_default();
            ago.is_zero() || ago < rules.transition
        });
        // memory before anything else; hard before soft
        due.sort_by_key(|c| {
            (
                c.threshold.signal != Signal::Memory,
                c.threshold.grace.is_some(),
                c.threshold.signal,
            )
        });
        let on = |signals: &[Signal]| signals.iter().any(|s| self.last.contains_key(s));
        EvictionDecision {
            pressure: Pressure {
                memory: on(&[Signal::Memory]),
                disk: on(&[
                    Signal::Disk,
                    Signal::Inodes,
                    Signal::ImageDisk,
                    Signal::ImageInodes,
                ]),
                pids: on(&[Signal::Pids]),
            },
            evict: due.first().copied(),
        }
    }
}

/// A pod that may be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionCandidate {
    /// Its uid.
    pub uid: String,
    /// Its priority.
    pub priority: i32,
    /// What it asked for of what runs short.
    pub request: u64,
    /// What it uses of it.
    pub usage: u64,
}

/// Brings candidates in the order in which they go: those that use more than
/// they asked for, then the less important, then those that use most beyond
/// what they asked for.
pub fn rank(candidates: &mut Vec<EvictionCandidate>) {
    candidates.retain(|c| c.priority < CRITICAL_PRIORITY);
    candidates.sort_by(|a, b| {
        let over = |c: &EvictionCandidate| i128::from(c.usage) - i128::from(c.request);
        (b.usage > b.request)
            .cmp(&(a.usage > a.request))
            .then(a.priority.cmp(&b.priority))
            .then(over(b).cmp(&over(a)))
            .then(a.uid.cmp(&b.uid))
    });
}

/// What runs short, as messages name it.
#[must_use]
pub fn resource(signal: Signal) -> &'static str {
    match signal {
        Signal::Memory => "memory",
        Signal::Disk | Signal::ImageDisk => "ephemeral-storage",
        Signal::Inodes | Signal::ImageInodes => "inodes",
        Signal::Pids => "pids",
    }
}

/// What the status of a pod says that went for `cause`; `containers` have a
/// name, what they use and what they asked for.
#[must_use]
pub fn message(cause: &EvictionCause, containers: &[(String, u64, u64)]) -> String {
    use std::fmt::Write as _;
    let what = resource(cause.threshold.signal);
    let least = cause.threshold.least.amount_of(cause.reading.capacity);
    let written = |n: u64| {
        if matches!(what, "memory" | "ephemeral-storage") {
            binary(n)
        } else {
            n.to_string()
        }
    };
    let mut text = format!(
        "The node was low on resource: {what}. Threshold quantity: {}, available: {}. ",
        written(least),
        written(cause.reading.available)
    );
    for (name, usage, request) in containers {
        if usage > request && matches!(what, "memory" | "ephemeral-storage") {
            let request = if *request == 0 {
                "0".to_owned()
            } else {
                written(*request)
            };
            let _ = write!(
                text,
                "Container {name} was using {}, request is {request}, has larger consumption of {what}. ",
                written(*usage)
            );
        }
    }
    text
}

/// Bytes as a quantity with the largest binary unit that keeps them whole.
#[must_use]
pub fn binary(bytes: u64) -> String {
    for (shift, unit) in [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")] {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    if bytes >= 1024 {
        return format!("{}Ki", bytes >> 10);
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_agent_kubelet_config::Amount;
    use proptest::prelude::*;

    fn threshold(grace: Option<u64>, reclaim: u64) -> Threshold {
        Threshold {
            signal: Signal::Memory,
            least: Amount::Units(100),
            grace: grace.map(Duration::from_secs),
            reclaim: Amount::Units(reclaim),
        }
    }

    fn rules(threshold: Threshold) -> Eviction {
        Eviction {
            thresholds: vec![threshold],
            transition: Duration::from_secs(300),
            most_grace: 0,
        }
    }

    fn judge(
        watcher: &mut ThresholdWatcher,
        rules: &Eviction,
        available: u64,
        at: i64,
    ) -> (bool, bool) {
        let reading = SignalReading {
            available,
            capacity: 1000,
        };
        let now = Timestamp::from_second(at).unwrap();
        let found = watcher.judge(
            rules,
            &[(Signal::Memory, reading)].into_iter().collect(),
            now,
        );
        (found.pressure.memory, found.evict.is_some())
    }

    #[test]
    fn hard_thresholds_act_at_once_and_conditions_outlast_their_cause() {
        let (mut watcher, rules) = (ThresholdWatcher::default(), rules(threshold(None, 50)));
        assert_eq!(judge(&mut watcher, &rules, 100, 0), (false, false));
        assert_eq!(judge(&mut watcher, &rules, 99, 10), (true, true));
        // enough for the threshold, not for the reclaim
        assert_eq!(judge(&mut watcher, &rules, 149, 20), (true, true));
        assert_eq!(judge(&mut watcher, &rules, 150, 30), (true, false));
        assert_eq!(judge(&mut watcher, &rules, 150, 319), (true, false));
        assert_eq!(judge(&mut watcher, &rules, 150, 320), (false, false));
    }

    #[test]
    fn soft_thresholds_wait_and_forget() {
        let (mut watcher, rules) = (ThresholdWatcher::default(), rules(threshold(Some(30), 0)));
        assert_eq!(judge(&mut watcher, &rules, 99, 0), (true, false));
        assert_eq!(judge(&mut watcher, &rules, 99, 29), (true, false));
        assert_eq!(judge(&mut watcher, &rules, 100, 30), (true, false));
        assert_eq!(judge(&mut watcher, &rules, 99, 40), (true, false));
        assert_eq!(judge(&mut watcher, &rules, 99, 70), (true, true));
    }

    #[test]
    fn who_exceeds_its_request_goes_first_and_the_system_never() {
        let one = |uid: &str, priority, request, usage| EvictionCandidate {
            uid: uid.into(),
            priority,
            request,
            usage,
        };
        let mut all = vec![
            one("guaranteed", 0, 500, 400),
            one("important", 1000, 0, 900),
            one("small", 0, 0, 10),
            one("large", 0, 0, 300),
            one("system", CRITICAL_PRIORITY, 0, 5000),
        ];
        rank(&mut all);
        let order: Vec<&str> = all.iter().map(|c| c.uid.as_str()).collect();
        assert_eq!(order, ["large", "small", "important", "guaranteed"]);
    }

    #[test]
    fn the_message_says_what_and_who() {
        let cause = EvictionCause {
            threshold: Threshold {
                least: Amount::Units(100 << 20),
                ..threshold(None, 0)
            },
            reading: SignalReading {
                available: 50 << 20,
                capacity: 1 << 30,
            },
        };
        assert_eq!(
            message(&cause, &[("a".into(), 10 << 20, 0), ("b".into(), 1, 2)]),
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. \
             Container a was using 10Mi, request is 0, has larger consumption of memory. "
        );
    }

    proptest! {
        #[test]
        fn ranking_keeps_all_but_the_critical(list in prop::collection::vec(
            (any::<u32>(), -10..10_i32, 0..1000_u64, 0..1000_u64), 0..20)) {
            let mut all: Vec<EvictionCandidate> = list.iter().map(|(uid, priority, request, usage)| EvictionCandidate {
                uid: uid.to_string(), priority: *priority, request: *request, usage: *usage }).collect();
            let before = all.len();
            rank(&mut all);
            prop_assert_eq!(all.len(), before);
            let within = all.iter().position(|c| c.usage <= c.request).unwrap_or(before);
            prop_assert!(all[within..].iter().all(|c| c.usage <= c.request));
        }
    }
}
