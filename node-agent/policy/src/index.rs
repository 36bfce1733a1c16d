//! Finds the selectors that match an object without evaluating all of them: each is
//! indexed by a label that it needs.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::labels::{Labels, Selector};

/// Numbers of selectors.
#[derive(Default, Debug)]
pub struct Index {
    by_label: FxHashMap<Box<str>, SmallVec<[u32; 2]>>,
    rest: Vec<u32>,
}

impl Index {
    /// Adds a selector.
    pub fn insert(&mut self, number: u32, selector: &Selector) {
        match selector.needs() {
            Some(labels) => {
                for label in labels {
                    self.by_label.entry(label).or_default().push(number);
                }
            }
            None => self.rest.push(number),
        }
    }

    /// Removes a selector.
    pub fn remove(&mut self, number: u32, selector: &Selector) {
        for label in selector.needs().into_iter().flatten() {
            if let Some(numbers) = self.by_label.get_mut(&label) {
                numbers.retain(|it| *it != number);
                if numbers.is_empty() {
                    self.by_label.remove(&label);
                }
            }
        }
        self.rest.retain(|it| *it != number);
    }

    /// Returns selectors that may match these labels; each once.
    pub fn candidates<'a>(&'a self, labels: &'a Labels) -> impl Iterator<Item = u32> + 'a {
        labels
            .pairs()
            .filter_map(|pair| self.by_label.get(pair))
            .flatten()
            .chain(&self.rest)
            .copied()
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.by_label.clear();
        self.rest.clear();
    }
}
