//! How many watches a write concerns.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

/// Counts open watches by what they watch. Watches of the same resource, namespace and
/// name are equal; selectors are evaluated for every event anyway.
#[derive(Debug, Default)]
pub struct Watchers {
    // By hash: a collision counts two keys together, which only makes a write seem more
    // expensive.
    counts: FxHashMap<u64, usize>,
}

fn key(group: &str, resource: &str, namespace: &str, name: &str) -> u64 {
    let mut hasher = FxHasher::default();
    (group, resource, namespace, name).hash(&mut hasher);
    hasher.finish()
}

// === impl Watchers ===

impl Watchers {
    /// A watch begins; the answer is for [`Watchers::end`].
    #[must_use]
    pub fn begin(&mut self, group: &str, resource: &str, namespace: &str, name: &str) -> u64 {
        let key = key(group, resource, namespace, name);
        *self.counts.entry(key).or_default() += 1;
        key
    }

    /// A watch ended.
    pub fn end(&mut self, key: u64) {
        if let Some(count) = self.counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key);
            }
        }
    }

    /// Returns how many watches a write to this object concerns: those of all objects, of
    /// its namespace, and of itself.
    #[must_use]
    pub fn interested(&self, group: &str, resource: &str, namespace: &str, name: &str) -> usize {
        if self.counts.is_empty() {
            return 0;
        }
        let count = |namespace, name| {
            let key = key(group, resource, namespace, name);
            self.counts.get(&key).copied().unwrap_or_default()
        };
        let mut all = count("", "");
        if !namespace.is_empty() {
            all += count(namespace, "");
        }
        if !name.is_empty() {
            all += count(namespace, name);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_concerns_watches_of_all_of_the_namespace_and_of_the_object() {
        let mut watchers = Watchers::default();
        let all = watchers.begin("", "pods", "", "");
        let _namespace = watchers.begin("", "pods", "a", "");
        let _one = watchers.begin("", "pods", "a", "x");
        let _other = watchers.begin("", "pods", "b", "");
        let _group = watchers.begin("apps", "pods", "", "");
        assert_eq!(watchers.interested("", "pods", "a", "x"), 3);
        assert_eq!(watchers.interested("", "pods", "a", "y"), 2);
        assert_eq!(watchers.interested("", "nodes", "", "n"), 0);
        watchers.end(all);
        assert_eq!(watchers.interested("", "pods", "c", "x"), 0);
    }
}
