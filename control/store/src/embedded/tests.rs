use std::time::Duration;

use super::*;
use crate::txn::{DeleteKeys, Keys, LeaseChoice, Op, PutKey, Txn};
use crate::{Precondition, Store, Write};

const BOOT: u128 = 7;

fn readings(wall_minutes: u64, uptime_minutes: u64) -> Readings {
    Readings {
        wall: (30_000_000 + wall_minutes) * 60_000,
        uptime: uptime_minutes * 60_000,
        boot: BOOT,
    }
}

async fn is_there(store: &EmbeddedStore) -> bool {
    let key = Bytes::from_static(b"lease");
    store.get(key, None).await.expect("read").is_some()
}

#[tokio::test]
async fn keys_with_a_limited_life_survive_a_clock_that_jumps_forwards() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("store.redb");
    let open = |readings| {
        EmbeddedStore::open_at(path.clone(), Options::default(), readings).expect("opened")
    };
    let store = open(readings(0, 100));
    let write = Write::Put {
        value: Bytes::from_static(b"value"),
        ttl: Some(Duration::from_secs(30 * 60)),
    };
    let key = Bytes::from_static(b"lease");
    let put = store.write(key, Precondition::Absent, write).await;
    put.expect("written");
    store.close();
    // The clock was set forwards by an hour while the process was down for a minute.
    let store = open(readings(61, 101));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(is_there(&store).await);
    store.close();
    // Its life ends by the time that passed.
    let store = open(readings(62, 131));
    for _ in 0..50 {
        if !is_there(&store).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the key outlived its time");
}

fn without_compaction() -> Options {
    Options {
        retain: None,
        ..Options::default()
    }
}

fn name(number: usize) -> Bytes {
    format!("key-{number:05}").into()
}

fn put_op(key: Bytes, lease: LeaseChoice) -> Op {
    Op::Put(PutKey {
        key,
        value: Some(Bytes::from_static(b"value")),
        lease,
        previous: false,
    })
}

fn puts(keys: impl Iterator<Item = Bytes>) -> Txn {
    Txn {
        success: keys.map(|key| put_op(key, LeaseChoice::Detach)).collect(),
        ..Txn::default()
    }
}

fn delete_everything() -> Txn {
    Txn::single(Op::Delete(DeleteKeys {
        keys: Keys::Interval {
            start: Bytes::from_static(b"\0"),
            end: Bytes::new(),
        },
        previous: false,
    }))
}

fn format_of(store: &EmbeddedStore) -> u64 {
    let state = store.shared.read(None, |transaction| {
        read::state(transaction).map(HistoryReplay::Answer)
    });
    state.expect("read").format
}

#[tokio::test]
async fn a_file_keeps_its_format_until_a_revision_has_several_changes_or_there_is_a_lease() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name| dir.path().join(name);
    let store = EmbeddedStore::open(path("shared"), without_compaction()).expect("a store");
    store
        .transact(puts([name(1)].into_iter()))
        .await
        .expect("written");
    assert_eq!(format_of(&store), 1);
    let both = puts([name(1), name(2)].into_iter());
    store.transact(both).await.expect("written");
    assert_eq!(format_of(&store), 2);
    let store = EmbeddedStore::open(path("leased"), without_compaction()).expect("a store");
    store.grant_lease(None, 100).await.expect("granted");
    assert_eq!(format_of(&store), 2);
    store.close();
    let store = EmbeddedStore::open(path("leased"), without_compaction()).expect("a store");
    assert_eq!(store.leases().await.expect("leases").len(), 1);
}

#[tokio::test]
async fn a_batch_is_never_a_part_of_a_revision() {
    const KEYS: usize = 2500;
    let dir = tempfile::tempdir().expect("a folder");
    let store =
        EmbeddedStore::open(dir.path().join("store"), without_compaction()).expect("a store");
    for first in (0..KEYS).step_by(100) {
        let keys = puts((first..first + 100).map(name));
        store.transact(keys).await.expect("written");
    }
    let written = store.revision();
    let mut live = store.watch(Bytes::new(), written);
    let deleted = store.transact(delete_everything()).await.expect("deleted");
    assert_eq!(deleted.revision, written + 1);
    let mut past = store.watch(Bytes::new(), written);
    for watch in [&mut live, &mut past] {
        let batch = watch.next().await.expect("open").expect("a batch");
        assert_eq!(batch.revision, written + 1);
        let keys: Vec<_> = batch.events.into_iter().map(|event| event.kv.key).collect();
        assert_eq!(keys, (0..KEYS).map(name).collect::<Vec<_>>());
    }
    // Those of the writes: whole revisions, in the order of the steps.
    let mut watch = store.watch(Bytes::new(), 1);
    let mut seen = Vec::new();
    while seen.len() < KEYS {
        let batch = watch.next().await.expect("open").expect("a batch");
        assert_eq!(batch.events.len() % 100, 0);
        seen.extend(batch.events.into_iter().map(|event| event.kv.key));
    }
    // The last of them may be followed by the deletions.
    seen.truncate(KEYS);
    assert_eq!(seen, (0..KEYS).map(name).collect::<Vec<_>>());
}

#[tokio::test]
async fn compaction_leaves_nothing_of_keys_that_are_gone() {
    let dir = tempfile::tempdir().expect("a folder");
    let store =
        EmbeddedStore::open(dir.path().join("store"), without_compaction()).expect("a store");
    let lease = store.grant_lease(None, 100).await.expect("granted");
    for _ in 0..3 {
        let leased = Txn {
            success: (0..40)
                .map(|number| put_op(name(number), LeaseChoice::Attach(lease)))
                .collect(),
            ..Txn::default()
        };
        store.transact(leased).await.expect("written");
        let half = puts((20..60).map(name));
        store.transact(half).await.expect("written");
    }
    let status = store.lease_status(lease, true).await.expect("read");
    assert_eq!(status.expect("the lease").keys.len(), 20);
    let before = store.revision();
    store.revoke_lease(lease).await.expect("revoked");
    assert_eq!(store.revision(), before + 1, "one revision for 20 keys");
    store.transact(delete_everything()).await.expect("deleted");
    store.compact(store.revision()).await.expect("compacted");
    let rows = || {
        let rows = store.shared.read(None, |transaction| {
            use redb::ReadableTableMetadata as _;
            let rows = [
                transaction.open_table(layout::INDEX)?.len()?,
                transaction.open_table(layout::LOG)?.len()?,
                transaction.open_table(layout::PARTS)?.len()?,
                transaction.open_table(layout::LEASED)?.len()?,
                transaction.open_table(layout::LEASES)?.len()?,
            ];
            Ok(HistoryReplay::Answer(rows))
        });
        rows.expect("read")
    };
    for _ in 0..100 {
        if rows() == [0; 5] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("left: {:?}", rows());
}
