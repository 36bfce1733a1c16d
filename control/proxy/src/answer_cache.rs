//! Answers that are remembered for a while, the oldest forgotten first.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

/// Answers of other servers, each kept for a while.
#[derive(Debug)]
pub struct AnswerCache<K, V> {
    most: usize,
    state: Mutex<CachedAnswers<K, V>>,
}

#[derive(Debug)]
struct CachedAnswers<K, V> {
    answers: FxHashMap<K, (Instant, V)>,
    /// In the order in which they came.
    order: VecDeque<K>,
}

impl<K: Clone + Eq + Hash, V: Clone> AnswerCache<K, V> {
    /// Returns an empty cache of at most `most` answers.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most,
            state: Mutex::new(CachedAnswers {
                answers: FxHashMap::default(),
                order: VecDeque::new(),
            }),
        }
    }

    /// The answer, if it still holds.
    pub fn get(&self, key: &K) -> Option<V> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, answer) = state.answers.get(key)?;
        (*until > Instant::now()).then(|| answer.clone())
    }

    /// Remembers an answer for a time; for none: not at all.
    pub fn put(&self, key: K, answer: V, lasts: Duration) {
        if lasts.is_zero() {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + lasts;
        if state.answers.insert(key.clone(), (until, answer)).is_none() {
            state.order.push_back(key);
        }
        while state.answers.len() > self.most {
            let Some(oldest) = state.order.pop_front() else {
                break;
            };
            state.answers.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_end_and_the_oldest_makes_room() {
        let cache = AnswerCache::new(2);
        let long = Duration::from_secs(60);
        cache.put("never", 0, Duration::ZERO);
        cache.put("a", 1, long);
        cache.put("b", 2, long);
        cache.put("a", 3, long);
        cache.put("c", 4, long);
        assert_eq!(cache.get(&"never"), None);
        assert_eq!(
            (cache.get(&"a"), cache.get(&"b"), cache.get(&"c")),
            (None, Some(2), Some(4))
        );
        cache.put("b", 5, Duration::from_nanos(1));
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(cache.get(&"b"), None);
    }
}
