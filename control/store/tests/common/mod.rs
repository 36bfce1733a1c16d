//! A model that keeps a copy of the whole map for every revision. It runs the same operations as a
//! store beside it: any sequence, with reopening and compaction in between, must have the same
//! results.

use std::collections::BTreeMap;

use bytes::Bytes;
use control_store::{
    Error, Event, EventKind, KeyValue, Outcome, Page, Precondition, Range, Revision, Store, Write,
};
use proptest::prelude::*;

/// Keys that are prefixes of each other and contain zero bytes and 0xff, which a
/// composite key could confuse.
const KEYS: [&[u8]; 8] = [
    b"/a/",
    b"/a/x",
    b"/a/x\0",
    b"/a/x\0\0\0\0\0\0\0\x07",
    b"/a/y",
    b"/b/\xff",
    b"/b/\xff\xff",
    b"\xff",
];

#[derive(Clone, Debug)]
pub enum Op {
    Put {
        key: usize,
        precondition: Check,
        value: Vec<u8>,
    },
    Delete {
        key: usize,
        precondition: Check,
    },
    Get {
        key: usize,
        back: u64,
    },
    Range {
        start: usize,
        end: usize,
        limit: usize,
        back: u64,
    },
    Compact {
        back: u64,
    },
    Reopen,
}

/// A precondition relative to the state it meets.
#[derive(Clone, Copy, Debug)]
pub enum Check {
    Absent,
    Current,
    Stale,
    Any,
}

/// Makes the stores that a run compares with the model.
pub trait Fixture {
    type Its: Store;

    /// Whether the compaction of the empty store is visible.
    const EMPTY_IS_SEEN: bool;

    /// Opens the store: a new one at first, then the same.
    async fn open(&mut self) -> Self::Its;
}

type Map = BTreeMap<Bytes, KeyValue>;

struct Model {
    /// The map as of each revision, the first being revision 1.
    past: Vec<Map>,
    compacted: Revision,
}

impl Model {
    fn revision(&self) -> Revision {
        self.past.len() as Revision
    }

    fn at(&self, revision: Revision) -> &Map {
        &self.past[usize::try_from(revision).unwrap() - 1]
    }

    fn now(&self) -> &Map {
        self.at(self.revision())
    }

    fn precondition(&self, key: &Bytes, check: Check) -> Precondition {
        let current = self.now().get(key).map_or(1, |kv| kv.mod_revision);
        match check {
            Check::Absent => Precondition::Absent,
            Check::Current => Precondition::ModRevision(current),
            Check::Stale => Precondition::ModRevision(current.saturating_sub(1)),
            Check::Any => Precondition::Any,
        }
    }

    fn write(&mut self, key: &Bytes, precondition: Precondition, value: Option<Bytes>) -> Outcome {
        let current = self.now().get(key).cloned();
        let holds = match precondition {
            Precondition::Absent => current.is_none(),
            Precondition::ModRevision(revision) => current
                .as_ref()
                .is_some_and(|kv| kv.mod_revision == revision),
            Precondition::Any => true,
        };
        if !holds || (value.is_none() && current.is_none()) {
            return Outcome::Failed {
                current,
                revision: self.revision(),
            };
        }
        let revision = self.revision() + 1;
        let mut next = self.now().clone();
        match value {
            None => {
                next.remove(key);
            }
            Some(value) => {
                let kv = KeyValue {
                    key: key.clone(),
                    value,
                    create_revision: current.as_ref().map_or(revision, |kv| kv.create_revision),
                    mod_revision: revision,
                    version: current.as_ref().map_or(1, |kv| kv.version + 1),
                    lease: 0,
                };
                next.insert(key.clone(), kv);
            }
        }
        self.past.push(next);
        Outcome::Done {
            revision,
            previous: current,
        }
    }

    fn range(&self, range: &Range) -> Page {
        let at = range.at.unwrap_or(self.revision());
        let inside: Vec<_> = self
            .at(at)
            .values()
            .filter(|kv| kv.key >= range.start && (range.end.is_empty() || kv.key < range.end))
            .cloned()
            .collect();
        let taken = if range.limit == 0 {
            inside.len()
        } else {
            inside.len().min(range.limit)
        };
        Page {
            more: inside.len() > taken,
            count_remaining: (inside.len() - taken) as u64,
            kvs: inside[..taken].to_vec(),
            revision: at,
        }
    }

    /// The change that made `revision`.
    fn event(&self, revision: Revision) -> Event {
        let (before, after) = (self.at(revision - 1), self.at(revision));
        if let Some(kv) = after.values().find(|kv| kv.mod_revision == revision) {
            let previous = before.get(&kv.key).cloned();
            return Event {
                kind: EventKind::Put,
                kv: kv.clone(),
                previous,
            };
        }
        let gone = before
            .values()
            .find(|kv| !after.contains_key(&kv.key))
            .expect("a deletion");
        let kv = KeyValue {
            value: Bytes::new(),
            create_revision: 0,
            mod_revision: revision,
            version: 0,
            lease: 0,
            ..gone.clone()
        };
        Event {
            kind: EventKind::Delete,
            kv,
            previous: Some(gone.clone()),
        }
    }
}

pub fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = 0..KEYS.len();
    let check = prop_oneof![
        3 => Just(Check::Any),
        2 => Just(Check::Current),
        1 => Just(Check::Absent),
        1 => Just(Check::Stale),
    ];
    let value = proptest::collection::vec(any::<u8>(), 0..12);
    let op = prop_oneof![
        12 => (key.clone(), check.clone(), value)
            .prop_map(|(key, precondition, value)| Op::Put { key, precondition, value }),
        6 => (key.clone(), check).prop_map(|(key, precondition)| Op::Delete { key, precondition }),
        2 => (key.clone(), 0..20u64).prop_map(|(key, back)| Op::Get { key, back }),
        3 => (key, 0..=KEYS.len(), 0..4usize, 0..20u64)
            .prop_map(|(start, end, limit, back)| Op::Range { start, end, limit, back }),
        1 => (0..20u64).prop_map(|back| Op::Compact { back }),
        1 => Just(Op::Reopen),
    ];
    proptest::collection::vec(op, 1..60)
}

pub async fn run<F: Fixture>(mut fixture: F, ops: Vec<Op>) -> Result<(), TestCaseError> {
    let mut store = fixture.open().await;
    let mut model = Model {
        past: vec![Map::new()],
        compacted: 0,
    };
    for op in ops {
        match op {
            Op::Put {
                key,
                precondition,
                value,
            } => {
                let key = Bytes::from_static(KEYS[key]);
                let precondition = model.precondition(&key, precondition);
                let value = Bytes::from(value);
                let write = Write::Put {
                    value: value.clone(),
                    ttl: None,
                };
                let answer = store
                    .write(key.clone(), precondition, write)
                    .await
                    .expect("a write");
                prop_assert_eq!(answer, model.write(&key, precondition, Some(value)));
            }
            Op::Delete { key, precondition } => {
                let key = Bytes::from_static(KEYS[key]);
                let precondition = model.precondition(&key, precondition);
                let answer = store
                    .write(key.clone(), precondition, Write::Delete)
                    .await
                    .expect("a write");
                prop_assert_eq!(answer, model.write(&key, precondition, None));
            }
            Op::Get { key, back } => {
                let key = Bytes::from_static(KEYS[key]);
                let at = model.revision().saturating_sub(back);
                match store.get(key.clone(), Some(at)).await {
                    Ok(answer) => {
                        prop_assert!(at >= model.compacted);
                        // Nothing is asked before the first revision but by number 0.
                        let expected = if at == 0 {
                            None
                        } else {
                            model.at(at).get(&key).cloned()
                        };
                        prop_assert_eq!(answer, expected);
                    }
                    Err(error) => prop_assert!(at < model.compacted, "{}", error),
                }
            }
            Op::Range {
                start,
                end,
                limit,
                back,
            } => {
                let at = model.revision().saturating_sub(back).max(1);
                let range = Range {
                    start: Bytes::from_static(KEYS[start]),
                    end: KEYS
                        .get(end)
                        .map_or(Bytes::new(), |end| Bytes::from_static(end)),
                    limit,
                    at: (back > 0).then_some(at),
                };
                match store.range(range.clone()).await {
                    Ok(page) => {
                        prop_assert!(at >= model.compacted);
                        prop_assert_eq!(page, model.range(&range));
                    }
                    Err(error) => prop_assert!(at < model.compacted, "{}", error),
                }
            }
            Op::Compact { back } => {
                let to = model.revision().saturating_sub(back);
                if to == 1 && !F::EMPTY_IS_SEEN {
                    continue;
                }
                let answer = store.compact(to).await;
                prop_assert_eq!(answer.is_ok(), to > model.compacted);
                model.compacted = model.compacted.max(to);
            }
            Op::Reopen => {
                drop(store);
                store = fixture.open().await;
            }
        }
        prop_assert_eq!(store.revision(), model.revision());
        prop_assert_eq!(store.compacted(), model.compacted);
    }
    same_past(&store, &model).await
}

/// Every watch that can still be started tells the model's past.
async fn same_past(store: &impl Store, model: &Model) -> Result<(), TestCaseError> {
    let watches = [&b""[..], b"/a/"].into_iter().flat_map(|prefix| {
        (1..=model.revision()).map(move |after| watched(store, model, prefix, after))
    });
    for outcome in futures::future::join_all(watches).await {
        outcome?;
    }
    Ok(())
}

async fn watched(
    store: &impl Store,
    model: &Model,
    prefix: &'static [u8],
    after: Revision,
) -> Result<(), TestCaseError> {
    let mut watch = store.watch(Bytes::from_static(prefix), after);
    watch.progress().request();
    let mut events = Vec::new();
    loop {
        match watch.next().await.expect("the store is open") {
            Ok(batch) => {
                events.extend(batch.events);
                if batch.revision >= model.revision() {
                    break;
                }
            }
            Err(Error::Compacted {
                requested,
                compacted,
            }) => {
                prop_assert!(after < model.compacted);
                prop_assert_eq!((requested, compacted), (after, model.compacted));
                prop_assert!(events.is_empty());
                return Ok(());
            }
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
    }
    prop_assert!(after >= model.compacted);
    let expected: Vec<_> = (after + 1..=model.revision())
        .map(|revision| model.event(revision))
        .filter(|event| event.kv.key.starts_with(prefix))
        .collect();
    prop_assert_eq!(events, expected);
    Ok(())
}
