//! Which images are removed: when the disk is nearly full, or when they have
//! been of no use for too long. Pure.

use std::time::Duration;

use jiff::Timestamp;
use node_agent_kubelet_config::ImageCollection;
use rustc_hash::{FxHashMap, FxHashSet};

/// An image on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeImage {
    /// The runtime's id.
    pub id: String,
    /// Bytes.
    pub size: u64,
    /// Whether the runtime wants it kept.
    pub pinned: bool,
}

/// Remembers when images were first seen and last used.
#[derive(Clone, Debug, Default)]
pub struct ImageLedger(FxHashMap<String, (Timestamp, Timestamp)>);

impl ImageLedger {
    /// Notes what is there and what is in use.
    pub fn note(&mut self, images: &[NodeImage], used: &FxHashSet<String>, now: Timestamp) {
        self.0.retain(|id, _| images.iter().any(|i| i.id == *id));
        for image in images {
            let (_, last) = self.0.entry(image.id.clone()).or_insert((now, now));
            if used.contains(&image.id) {
                *last = now;
            }
        }
    }

    /// The images to be removed so that `excess` bytes become free, and those
    /// that are too old; the longest unused first.
    #[must_use]
    pub fn unwanted(
        &self,
        images: &[NodeImage],
        used: &FxHashSet<String>,
        rules: &ImageCollection,
        excess: u64,
        now: Timestamp,
    ) -> Vec<String> {
        let age = |at: Timestamp| Duration::try_from(now.duration_since(at)).unwrap_or_default();
        let mut free: Vec<(&NodeImage, Timestamp, Timestamp)> = images
            .iter()
            .filter(|i| !i.pinned && !used.contains(&i.id))
            .filter_map(|i| self.0.get(&i.id).map(|(first, last)| (i, *last, *first)))
            .collect();
        free.sort_by(|a, b| (a.1, a.2, &a.0.id).cmp(&(b.1, b.2, &b.0.id)));
        let mut freed = 0;
        let mut unwanted = Vec::new();
        for (image, last, first) in free {
            let too_old = rules.most_age.is_some_and(|most| age(last) > most);
            let needed = freed < excess && age(first) >= rules.least_age;
            if too_old || needed {
                freed = freed.saturating_add(image.size);
                unwanted.push(image.id.clone());
            }
        }
        unwanted
    }
}

/// Bytes to be freed of a disk of `capacity` bytes, `available` of them free.
#[must_use]
pub fn excess(rules: &ImageCollection, capacity: u64, available: u64) -> u64 {
    let used = capacity.saturating_sub(available);
    let part = |percent: u64| (u128::from(capacity) * u128::from(percent) / 100) as u64;
    if capacity == 0 || used < part(rules.high) {
        return 0;
    }
    used.saturating_sub(part(rules.low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn image(id: &str, size: u64) -> NodeImage {
        NodeImage {
            id: id.into(),
            size,
            pinned: id == "pause",
        }
    }

    #[test]
    fn the_longest_unused_go_until_there_is_room() {
        let rules = node_agent_kubelet_config::Settings::default().images;
        let all = [
            image("a", 10),
            image("b", 10),
            image("c", 10),
            image("pause", 1),
        ];
        let mut ledger = ImageLedger::default();
        let used = |names: &[&str]| -> FxHashSet<String> {
            names.iter().map(|n| (*n).to_owned()).collect()
        };
        ledger.note(&all, &used(&["a", "b", "c"]), at(0));
        ledger.note(&all, &used(&["a", "b"]), at(100));
        ledger.note(&all, &used(&["b"]), at(200));
        let unwanted = |excess, now| ledger.unwanted(&all, &used(&["b"]), &rules, excess, at(now));
        assert_eq!(unwanted(0, 1000), Vec::<String>::new());
        assert_eq!(unwanted(5, 1000), ["c"]);
        assert_eq!(unwanted(15, 1000), ["c", "a"]);
        assert_eq!(
            unwanted(1000, 1000),
            ["c", "a"],
            "never what is used or pinned"
        );
        assert_eq!(unwanted(1000, 100), Vec::<String>::new(), "too young");
        let old = ImageCollection {
            most_age: Some(Duration::from_secs(950)),
            ..rules
        };
        assert_eq!(
            ledger.unwanted(&all, &used(&["b"]), &old, 0, at(1000)),
            ["c"]
        );
    }

    #[test]
    fn nothing_is_excess_below_the_high_mark() {
        let rules = node_agent_kubelet_config::Settings::default().images;
        assert_eq!(excess(&rules, 1000, 151), 0);
        assert_eq!(excess(&rules, 1000, 150), 50);
        assert_eq!(excess(&rules, 0, 0), 0);
    }
}
