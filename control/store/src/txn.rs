//! Transactions and queries over several keys, in etcd's terms.
//!
//! [`Store`](crate::Store) offers what the API server needs. A store that serves
//! etcd's clients has to do more: compare several keys, change several keys in one
//! revision, sort and filter, and attach keys to leases. Only the embedded store
//! takes these requests, see [`EmbeddedStore::transact`](crate::embedded::EmbeddedStore::transact).

use std::cmp::Ordering;
use std::collections::HashSet;

use bytes::Bytes;

use crate::{Error, KeyValue, Revision};

/// One key, or all keys of a half-open interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// One key.
    One(Bytes),
    /// The keys from `start` up to `end`, which is not included; an empty `end`
    /// means no end.
    Interval {
        /// The first key.
        start: Bytes,
        /// The key after the last.
        end: Bytes,
    },
}

/// The sort key of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortTarget {
    /// The key.
    #[default]
    Key,
    /// How often the key was written.
    Version,
    /// The revision that created the key.
    Create,
    /// The revision that changed the key last.
    Mod,
    /// The value.
    Value,
}

/// In which order a query answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortOrder {
    /// By key; ascending if another target is named.
    #[default]
    None,
    /// Lowest first.
    Ascend,
    /// Highest first.
    Descend,
}

/// Bounds on the revisions that a query selects; 0 means no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RevisionBounds {
    /// The lowest revision.
    pub min: Revision,
    /// The highest revision.
    pub max: Revision,
}

/// A question for keys, with etcd's options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The keys.
    pub keys: Keys,
    /// How many keys at most; 0 means all.
    pub limit: usize,
    /// As of which revision; `None` means now.
    pub at: Option<Revision>,
    /// The target of sorting.
    pub sort_target: SortTarget,
    /// The direction of sorting.
    pub sort_order: SortOrder,
    /// Leaves values out.
    pub keys_only: bool,
    /// Answers with the number of keys alone.
    pub count_only: bool,
    /// Bounds of the last change.
    pub mod_revision: RevisionBounds,
    /// Bounds of the creation.
    pub create_revision: RevisionBounds,
}

/// The answer to a [`Query`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The keys.
    pub kvs: Vec<KeyValue>,
    /// Whether the limit cut something off.
    pub more: bool,
    /// How many keys the interval has, whatever limit and bounds say.
    pub count: u64,
    /// The store's newest revision, not the requested one.
    pub revision: Revision,
}

/// The relation of the stored value to the given one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Both are the same.
    Equal,
    /// They differ.
    NotEqual,
    /// The stored value is greater.
    Greater,
    /// The stored value is less.
    Less,
}

/// The property that a comparison checks, with the value to compare with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// How often the key was written; 0 if it does not exist.
    Version(i64),
    /// The revision that created it; 0 if it does not exist.
    Create(i64),
    /// The revision that changed it last; 0 if it does not exist.
    Mod(i64),
    /// Its value; a key that does not exist never matches.
    Value(Bytes),
    /// The lease; 0 if the key has none or does not exist.
    Lease(i64),
}

/// A condition on every key of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The keys, each of which must match.
    pub keys: Keys,
    /// The compared property.
    pub target: Target,
    /// How.
    pub relation: Relation,
}

/// The lease of a written key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseChoice {
    /// None.
    Detach,
    /// The one that it has.
    Keep,
    /// This one, which must exist.
    Attach(i64),
}

/// A write of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutKey {
    /// The key.
    pub key: Bytes,
    /// The value; `None` keeps the one that the key has, which must exist.
    pub value: Option<Bytes>,
    /// The lease.
    pub lease: LeaseChoice,
    /// Whether to return the previous value.
    pub previous: bool,
}

/// A deletion of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteKeys {
    /// The keys.
    pub keys: Keys,
    /// Whether to return the previous values.
    pub previous: bool,
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads; sees what earlier steps changed.
    Query(Query),
    /// Writes a key.
    Put(PutKey),
    /// Deletes keys.
    Delete(DeleteKeys),
    /// A transaction inside; its comparisons see the state before the outermost one.
    Txn(Txn),
}

/// Operations that are performed together, in one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// All must hold.
    pub compare: Vec<Compare>,
    /// Operations if the comparisons hold.
    pub success: Vec<Op>,
    /// Operations if one does not hold.
    pub failure: Vec<Op>,
}

/// The answer to an [`Op`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpAnswer {
    /// The result of a query.
    Query(Selection),
    /// The result of a write.
    Put {
        /// The revision of the change.
        revision: Revision,
        /// The previous value, if it was requested.
        previous: Option<KeyValue>,
    },
    /// The result of a deletion.
    Delete {
        /// The revision of the change, or the newest if nothing was deleted.
        revision: Revision,
        /// How many keys were deleted.
        deleted: u64,
        /// The previous values, if they were requested.
        previous: Vec<KeyValue>,
    },
    /// The result of a nested transaction.
    Txn {
        /// Whether its comparisons held.
        succeeded: bool,
        /// The answers of its steps.
        answers: Vec<OpAnswer>,
    },
}

/// The answer to a [`Txn`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnAnswer {
    /// Whether the comparisons held.
    pub succeeded: bool,
    /// The answers of the steps that were taken.
    pub answers: Vec<OpAnswer>,
    /// The revision of the change, or the newest if nothing changed.
    pub revision: Revision,
}

/// A lease as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseStatus {
    /// How many seconds it lives after a grant or a renewal.
    pub granted_ttl: i64,
    /// How many whole seconds remain.
    pub remaining: i64,
    /// The keys that are attached to it, if they were requested.
    pub keys: Vec<Bytes>,
}

// === impl Keys ===

impl Keys {
    /// Returns whether the interval contains `key`.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        match self {
            Self::One(one) => *one == key,
            Self::Interval { start, end } => **start <= *key && (end.is_empty() || *key < **end),
        }
    }

    /// The longest prefix that all of the keys have.
    #[must_use]
    pub fn common_prefix(&self) -> Bytes {
        match self {
            Self::One(key) => key.clone(),
            Self::Interval { end, .. } if end.is_empty() => Bytes::new(),
            Self::Interval { start, end } => {
                if crate::prefix_end(start) == *end {
                    return start.clone();
                }
                let same = start.iter().zip(end.iter()).take_while(|(a, b)| a == b);
                start.slice(..same.count())
            }
        }
    }
}

// === impl RevisionBounds ===

impl RevisionBounds {
    /// Whether a bound is set.
    #[must_use]
    pub const fn is_set(self) -> bool {
        self.min != 0 || self.max != 0
    }

    pub(crate) const fn contain(self, revision: Revision) -> bool {
        revision >= self.min && (self.max == 0 || revision <= self.max)
    }
}

// === impl Compare ===

impl Compare {
    /// Returns whether the condition holds for `kvs`, which are all existing keys in its
    /// range.
    pub(crate) fn holds(&self, kvs: &[KeyValue]) -> bool {
        if kvs.is_empty() {
            return !matches!(self.target, Target::Value(_)) && self.relates(None);
        }
        kvs.iter().all(|kv| self.relates(Some(kv)))
    }

    fn relates(&self, kv: Option<&KeyValue>) -> bool {
        let number = |of: fn(&KeyValue) -> u64| signed(kv.map_or(0, of));
        let ordering = match &self.target {
            Target::Version(given) => number(|kv| kv.version).cmp(given),
            Target::Create(given) => number(|kv| kv.create_revision).cmp(given),
            Target::Mod(given) => number(|kv| kv.mod_revision).cmp(given),
            Target::Lease(given) => kv.map_or(0, |kv| lease_id(kv.lease)).cmp(given),
            Target::Value(given) => kv.map_or(&[][..], |kv| &kv.value).cmp(given),
        };
        match self.relation {
            Relation::Equal => ordering == Ordering::Equal,
            Relation::NotEqual => ordering != Ordering::Equal,
            Relation::Greater => ordering == Ordering::Greater,
            Relation::Less => ordering == Ordering::Less,
        }
    }
}

// === impl Txn ===

impl Txn {
    /// A transaction of one step without a condition.
    #[must_use]
    pub fn single(op: Op) -> Self {
        Self {
            success: vec![op],
            ..Self::default()
        }
    }

    /// Rejects a transaction that could change one key twice in any branch: two changes
    /// of a key in one revision are indistinguishable.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`].
    pub fn check(&self) -> Result<(), Error> {
        check_branch(&self.success)?;
        check_branch(&self.failure).map(drop)
    }

    /// How many bytes it may write.
    pub(crate) fn weight(&self) -> usize {
        let branch = |ops: &[Op]| -> usize {
            ops.iter()
                .map(|op| match op {
                    Op::Put(put) => put.key.len() + put.value.as_ref().map_or(0, Bytes::len),
                    Op::Txn(txn) => txn.weight(),
                    Op::Query(_) | Op::Delete(_) => 0,
                })
                .sum()
        };
        branch(&self.success).max(branch(&self.failure))
    }
}

/// The changes of a branch: keys that it writes, intervals that it deletes.
#[derive(Default)]
struct Changes<'t> {
    puts: HashSet<&'t Bytes>,
    deletions: Vec<&'t Keys>,
}

impl<'t> Changes<'t> {
    fn take(&mut self, key: &'t Bytes) -> Result<(), Error> {
        let is_new = !self.deletions.iter().any(|keys| keys.contains(key)) && self.puts.insert(key);
        is_new.then_some(()).ok_or(Error::DuplicateKey)
    }
}

fn check_branch(ops: &[Op]) -> Result<Changes<'_>, Error> {
    let deletions = ops.iter().filter_map(|op| match op {
        Op::Delete(delete) => Some(&delete.keys),
        _ => None,
    });
    let mut changes = Changes {
        puts: HashSet::new(),
        deletions: deletions.collect(),
    };
    for op in ops {
        let Op::Txn(txn) = op else { continue };
        // Only one of the two branches happens: they may write the same keys.
        let (success, failure) = (check_branch(&txn.success)?, check_branch(&txn.failure)?);
        let both: HashSet<_> = success.puts.union(&failure.puts).copied().collect();
        for key in both {
            changes.take(key)?;
        }
        changes.deletions.extend(success.deletions);
        changes.deletions.extend(failure.deletions);
    }
    for op in ops {
        if let Op::Put(put) = op {
            changes.take(&put.key)?;
        }
    }
    Ok(changes)
}

/// In a stored key's lease: it is one that was granted, otherwise it is the time at which
/// the key ends.
pub(crate) const GRANTED: u64 = 1 << 63;

/// Returns the lease id of a key for etcd's clients; 0 if it has none. For a key with its
/// own limited lifetime, it is the time of expiry in Unix milliseconds.
#[must_use]
pub fn lease_id(lease: u64) -> i64 {
    signed(lease & !GRANTED)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &'static str) -> Op {
        Op::Put(PutKey {
            key: Bytes::from_static(key.as_bytes()),
            value: Some(Bytes::new()),
            lease: LeaseChoice::Detach,
            previous: false,
        })
    }

    fn delete(start: &'static str, end: &'static str) -> Op {
        Op::Delete(DeleteKeys {
            keys: interval(start, end),
            previous: false,
        })
    }

    fn interval(start: &'static str, end: &'static str) -> Keys {
        Keys::Interval {
            start: Bytes::from_static(start.as_bytes()),
            end: Bytes::from_static(end.as_bytes()),
        }
    }

    fn either(success: Vec<Op>, failure: Vec<Op>) -> Op {
        Op::Txn(Txn {
            compare: Vec::new(),
            success,
            failure,
        })
    }

    fn is_refused(success: Vec<Op>) -> bool {
        either(success, Vec::new()).txn().check().is_err()
    }

    impl Op {
        fn txn(self) -> Txn {
            match self {
                Self::Txn(txn) => txn,
                other => Txn::single(other),
            }
        }
    }

    #[test]
    fn a_key_is_changed_once_at_most() {
        assert!(is_refused(vec![put("a"), put("a")]));
        assert!(is_refused(vec![put("b"), delete("a", "c")]));
        assert!(is_refused(vec![delete("b", ""), put("c")]));
        assert!(is_refused(vec![put("a"), either(vec![put("a")], vec![])]));
        assert!(is_refused(vec![
            either(vec![delete("a", "c")], vec![]),
            put("b")
        ]));
        assert!(!is_refused(vec![put("a"), delete("b", "d"), put("d")]));
        assert!(!is_refused(vec![either(vec![put("a")], vec![put("a")])]));
        assert!(!is_refused(vec![delete("a", "c"), delete("b", "d")]));
    }

    #[test]
    fn the_prefix_of_an_interval_covers_it() {
        assert_eq!(interval("/a/", "/a0").common_prefix(), "/a/");
        assert_eq!(interval("/a/b", "/a/c1").common_prefix(), "/a/");
        assert_eq!(interval("/a", "").common_prefix(), "");
    }
}
