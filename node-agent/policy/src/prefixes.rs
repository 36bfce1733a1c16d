//! Disjoint classes of addresses from overlapping ranges.
//!
//! Ranges with exceptions are made of prefixes, and prefixes are nested or
//! disjoint: so the longest prefix that is mentioned anywhere and holds an
//! address says in which ranges the address is.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::address::Prefix;
use crate::policy::Networks;

/// All prefixes that policies mention.
#[derive(Debug)]
pub struct Prefixes {
    mentions: BTreeMap<Prefix, Mention>,
    lengths: [u32; 129],
}

#[derive(Debug, Default)]
struct Mention {
    within: SmallVec<[u32; 2]>,
    except: SmallVec<[u32; 2]>,
    /// Ranges that hold it, sorted.
    signature: Arc<[u32]>,
}

impl Prefixes {
    /// Only the whole of IPv4 is mentioned: else `::/0` would hold its
    /// addresses, since they stand mapped inside.
    pub fn new() -> Self {
        let mut lengths = [0; 129];
        lengths[usize::from(Prefix::V4.bits())] = 1;
        Self {
            mentions: BTreeMap::from([(Prefix::V4, Mention::default())]),
            lengths,
        }
    }

    /// Mentions all prefixes of a set; those that were not mentioned before.
    pub fn insert(&mut self, number: u32, set: &Networks) -> Vec<Prefix> {
        let mut new = Vec::new();
        let parts = [(&set.within, false), (&set.except, true)];
        for (prefixes, except) in parts {
            for prefix in prefixes {
                let mention = self.mentions.entry(*prefix).or_insert_with(|| {
                    new.push(*prefix);
                    Mention::default()
                });
                let list = if except {
                    &mut mention.except
                } else {
                    &mut mention.within
                };
                list.push(number);
            }
        }
        for prefix in &new {
            if let Some(count) = self.lengths.get_mut(usize::from(prefix.bits())) {
                *count += 1;
            }
        }
        new
    }

    /// Removes a set's references; returns prefixes without remaining references.
    pub fn remove(&mut self, number: u32, set: &Networks) -> Vec<Prefix> {
        let mut gone = Vec::new();
        for prefix in set.within.iter().chain(&set.except) {
            let Some(mention) = self.mentions.get_mut(prefix) else {
                continue;
            };
            mention.within.retain(|it| *it != number);
            mention.except.retain(|it| *it != number);
            if mention.within.is_empty() && mention.except.is_empty() && *prefix != Prefix::V4 {
                self.mentions.remove(prefix);
                if let Some(count) = self.lengths.get_mut(usize::from(prefix.bits())) {
                    *count -= 1;
                }
                gone.push(*prefix);
            }
        }
        gone
    }

    /// Recomputes the ranges of everything inside a set; returns the prefixes for which
    /// they changed.
    pub fn refresh(&mut self, set: &Networks) -> Vec<Prefix> {
        let mut changed = Vec::new();
        for outer in &set.within {
            let inside: Vec<Prefix> = self.inside(*outer).collect();
            for prefix in inside {
                let signature = self.compute(prefix);
                if let Some(mention) = self.mentions.get_mut(&prefix)
                    && *mention.signature != *signature
                {
                    mention.signature = signature.as_slice().into();
                    changed.push(prefix);
                }
            }
        }
        changed
    }

    /// Recomputes the ranges of one prefix.
    pub fn refresh_one(&mut self, prefix: Prefix) {
        let signature = self.compute(prefix);
        if let Some(mention) = self.mentions.get_mut(&prefix) {
            mention.signature = signature.as_slice().into();
        }
    }

    /// In which sets a mentioned prefix, or any address, is.
    pub fn signature(&self, prefix: Prefix) -> Arc<[u32]> {
        (0..=prefix.bits())
            .rev()
            .filter(|bits| self.is_used(*bits))
            .find_map(|bits| {
                let outer = Prefix::new(prefix.first(), bits);
                self.mentions
                    .get(&outer)
                    .filter(|_| outer.is_v4() == prefix.is_v4())
            })
            .map_or_else(Arc::default, |mention| Arc::clone(&mention.signature))
    }

    /// Returns whether it is referenced.
    pub fn is_mentioned(&self, prefix: Prefix) -> bool {
        self.mentions.contains_key(&prefix)
    }

    fn is_used(&self, bits: u8) -> bool {
        self.lengths
            .get(usize::from(bits))
            .is_some_and(|it| *it > 0)
    }

    fn inside(&self, outer: Prefix) -> impl Iterator<Item = Prefix> {
        let last = outer.last();
        self.mentions
            .range(outer..)
            .map(|(prefix, _)| *prefix)
            .take_while(move |prefix| prefix.first() <= last)
            .filter(move |prefix| outer.contains(*prefix))
    }

    fn compute(&self, prefix: Prefix) -> SmallVec<[u32; 8]> {
        let mut within: SmallVec<[u32; 8]> = SmallVec::new();
        let mut except: SmallVec<[u32; 8]> = SmallVec::new();
        for bits in (0..=prefix.bits()).filter(|bits| self.is_used(*bits)) {
            let outer = Prefix::new(prefix.first(), bits);
            if outer.is_v4() != prefix.is_v4() {
                continue;
            }
            if let Some(mention) = self.mentions.get(&outer) {
                within.extend(mention.within.iter().copied());
                except.extend(mention.except.iter().copied());
            }
        }
        within.retain(|it| !except.contains(it));
        within.sort_unstable();
        within.dedup();
        within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(within: &[&str], except: &[&str]) -> Networks {
        let read = |list: &[&str]| list.iter().map(|it| Prefix::parse(it).unwrap()).collect();
        Networks {
            within: read(within),
            except: read(except),
        }
    }

    fn at(prefixes: &Prefixes, address: &str) -> Vec<u32> {
        prefixes
            .signature(Prefix::host(address.parse().unwrap()))
            .to_vec()
    }

    #[test]
    fn the_longest_mention_says_all() {
        let mut prefixes = Prefixes::new();
        let sets = [
            set(&["10.0.0.0/8"], &["10.1.0.0/16"]),
            set(&["10.1.1.0/24", "192.0.2.0/24"], &[]),
            set(&["0.0.0.0/0"], &["10.1.1.1/32"]),
            set(&["::/0"], &[]),
        ];
        for (number, set) in (1..).zip(&sets) {
            prefixes.insert(number, set);
            prefixes.refresh(set);
        }
        assert_eq!(at(&prefixes, "10.2.0.1"), [1, 3]);
        assert_eq!(at(&prefixes, "10.1.2.1"), [3]);
        assert_eq!(at(&prefixes, "10.1.1.2"), [2, 3]);
        assert_eq!(at(&prefixes, "10.1.1.1"), [2]);
        assert_eq!(at(&prefixes, "fd00::1"), [4]);
        assert_eq!(at(&prefixes, "198.51.100.1"), [3]);
        let gone = prefixes.remove(3, &sets[2]);
        assert_eq!(gone, [Prefix::parse("10.1.1.1/32").unwrap()]);
        prefixes.refresh(&sets[2]);
        assert_eq!(at(&prefixes, "198.51.100.1"), [0_u32; 0]);
        assert_eq!(at(&prefixes, "10.1.1.1"), [2]);
    }
}
