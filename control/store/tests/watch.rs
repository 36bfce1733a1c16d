//! Tests watches of the embedded store: slow readers, progress, expiry and faults.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control_store::embedded::{EmbeddedStore, Options};
use control_store::{Error, EventKind, Outcome, Precondition, Range, Store, Write};

fn open(options: Options) -> (tempfile::TempDir, Arc<EmbeddedStore>) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = EmbeddedStore::open_in(dir.path(), options).expect("a store");
    (dir, Arc::new(store))
}

async fn put(store: &EmbeddedStore, key: &str, value: &str, ttl: Option<Duration>) -> u64 {
    let write = Write::Put {
        value: Bytes::from(value.to_owned()),
        ttl,
    };
    match store
        .write(Bytes::from(key.to_owned()), Precondition::Any, write)
        .await
    {
        Ok(Outcome::Done { revision, .. }) => revision,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_sleeps_through_a_storm_sees_every_event_once_and_in_order() {
    const WRITES: u64 = 12_000;
    let (_dir, store) = open(Options::default());
    let mut watch = store.watch(Bytes::from_static(b"/a/"), 1);
    let writers: Vec<_> = (0..64)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for count in 0..WRITES / 64 {
                    put(&store, &format!("/a/{writer}"), &count.to_string(), None).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("written");
    }
    // More than one queue holds: the watch must have fallen back to the file.
    let mut expected = 2;
    while expected <= store.revision() {
        let batch = watch
            .next()
            .await
            .expect("open")
            .expect("nothing was compacted");
        for event in batch.events {
            assert_eq!(event.kv.mod_revision, expected);
            expected += 1;
        }
        assert_eq!(batch.revision, expected - 1);
    }
}

#[tokio::test]
async fn a_watch_overtaken_by_compaction_ends_with_that_error() {
    let (_dir, store) = open(Options {
        retain: None,
        ..Options::default()
    });
    for count in 0..10 {
        put(&store, "/a", &count.to_string(), None).await;
    }
    store.compact(8).await.expect("compacted");
    let mut watch = store.watch(Bytes::new(), 3);
    let error = watch
        .next()
        .await
        .expect("an answer")
        .expect_err("compacted");
    assert!(matches!(
        error,
        Error::Compacted {
            requested: 3,
            compacted: 8
        }
    ));
    assert!(watch.next().await.is_none(), "it is over");
}

#[tokio::test]
async fn progress_is_reported_on_request_though_nothing_concerned_the_watch() {
    let (_dir, store) = open(Options::default());
    let mut watch = store.watch(Bytes::from_static(b"/a/"), 1);
    let revision = put(&store, "/b/x", "", None).await;
    watch.progress().request();
    let batch = watch.next().await.expect("open").expect("fine");
    assert!(batch.events.is_empty());
    assert_eq!(batch.revision, revision);
}

#[tokio::test]
async fn a_key_with_a_time_limit_goes_and_one_written_again_stays() {
    let (dir, store) = open(Options::default());
    let short = Some(Duration::from_millis(200));
    put(&store, "/events/gone", "", short).await;
    put(&store, "/events/kept", "", short).await;
    let after = put(&store, "/events/kept", "", None).await;
    let mut watch = store.watch(Bytes::from_static(b"/events/"), after);
    let batch = tokio::time::timeout(Duration::from_secs(5), watch.next()).await;
    let batch = batch.expect("in time").expect("open").expect("fine");
    assert_eq!(batch.events.len(), 1);
    assert_eq!(batch.events[0].kind, EventKind::Delete);
    assert_eq!(&*batch.events[0].kv.key, b"/events/gone");
    let page = store
        .range(Range::prefix("/events/"))
        .await
        .expect("a list");
    assert_eq!(page.kvs.len(), 1);

    // A limit outlives the process that set it.
    put(&store, "/events/later", "", short).await;
    drop(watch);
    store.close();
    let store = EmbeddedStore::open_in(dir.path(), Options::default()).expect("the store");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(
        store
            .get(Bytes::from_static(b"/events/later"), None)
            .await
            .expect("read"),
        None
    );
}

#[tokio::test]
async fn the_past_is_forgotten_by_age_and_by_number() {
    let retain = Some(Duration::from_millis(300));
    let (_dir, store) = open(Options {
        retain,
        ..Options::default()
    });
    for count in 0..5 {
        put(&store, "/a", &count.to_string(), None).await;
    }
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert!(store.compacted() > 0, "by age");

    let (_dir, store) = open(Options {
        retain_revisions: 10,
        ..Options::default()
    });
    for count in 0..40 {
        put(&store, "/a", &count.to_string(), None).await;
    }
    assert!(
        store.revision() - store.compacted() < 15,
        "by number: {}",
        store.compacted()
    );
}

#[tokio::test]
async fn a_closed_store_ends_its_watches_and_refuses_work() {
    let (_dir, store) = open(Options::default());
    let mut watch = store.watch(Bytes::new(), store.revision());
    store.close();
    assert!(watch.next().await.is_none());
    let write = store
        .write(Bytes::from_static(b"/a"), Precondition::Any, Write::Delete)
        .await;
    assert!(matches!(write, Err(Error::Closed)));
}

#[test]
fn a_store_in_use_a_damaged_one_and_a_missing_directory_are_named() {
    let (dir, store) = open(Options::default());
    let locked = EmbeddedStore::open_in(dir.path(), Options::default()).expect_err("locked");
    assert!(matches!(locked, Error::Locked { .. }), "{locked}");
    assert!(locked.to_string().contains("store.redb"));
    drop(store);
    for rubbish in [&b"not a store"[..], &[7; 8192]] {
        std::fs::write(dir.path().join("store.redb"), rubbish).expect("written");
        let error = EmbeddedStore::open_in(dir.path(), Options::default()).expect_err("damaged");
        assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains("move the file away"));
    }
    let error =
        EmbeddedStore::open("/nonexistent/store.redb", Options::default()).expect_err("missing");
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
}

#[tokio::test]
async fn a_value_over_the_limit_is_refused_and_changes_nothing() {
    let (_dir, store) = open(Options {
        max_entry_bytes: 100,
        ..Options::default()
    });
    let write = Write::Put {
        value: Bytes::from(vec![0; 100]),
        ttl: None,
    };
    let error = store
        .write(Bytes::from_static(b"/a"), Precondition::Any, write)
        .await;
    assert!(matches!(
        error,
        Err(Error::TooLarge {
            size: 102,
            limit: 100
        })
    ));
    assert_eq!(store.revision(), 1);
}
