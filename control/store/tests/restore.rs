//! Tests a store whose file was replaced by an older copy.

use std::path::Path;

use bytes::Bytes;
use control_store::embedded::{EmbeddedStore, Options};
use control_store::{Error, Precondition, Store, Write};

async fn put(store: &EmbeddedStore, key: &str) -> u64 {
    let write = Write::Put {
        value: Bytes::from_static(b"value"),
        ttl: None,
    };
    let key = Bytes::from(key.to_owned());
    let written = store.write(key, Precondition::Any, write).await;
    written.expect("written");
    store.revision()
}

fn open(path: &Path) -> EmbeddedStore {
    EmbeddedStore::open(path, Options::default()).expect("a store")
}

/// Whether files have extended attributes here: what tells a copy apart.
fn has_attributes(dir: &Path) -> bool {
    let file = std::fs::File::create(dir.join("probe")).expect("a file");
    let none = rustix::fs::XattrFlags::empty();
    rustix::fs::fsetxattr(&file, "user.probe", b"1", none).is_ok()
}

#[tokio::test]
async fn a_restored_file_begins_beyond_all_that_was_lost_and_without_a_past() {
    let dir = tempfile::tempdir().expect("a directory");
    if !has_attributes(dir.path()) {
        eprintln!(
            "skipped: no extended attributes in {}",
            dir.path().display()
        );
        return;
    }
    for how in ["in place", "removed before", "elsewhere"] {
        let dir = dir.path().join(how);
        std::fs::create_dir(&dir).expect("a directory");
        let (path, backup) = (dir.join("store.redb"), dir.join("backup"));
        let store = open(&path);
        let saved = put(&store, "/saved").await;
        drop(store);
        std::fs::copy(&path, &backup).expect("a backup");
        let store = open(&path);
        for _ in 0..5 {
            put(&store, "/lost").await;
        }
        let lost = store.revision();
        drop(store);
        let path = match how {
            "in place" => path,
            "removed before" => {
                std::fs::remove_file(&path).expect("removed");
                path
            }
            _ => dir.join("other.redb"),
        };
        std::fs::copy(&backup, &path).expect("restored");
        let store = open(&path);
        assert!(
            store.revision() > lost,
            "{how}: {} <= {lost}",
            store.revision()
        );
        for after in [saved, lost] {
            let mut watch = store.watch(Bytes::new(), after);
            let answer = watch.next().await;
            assert!(
                matches!(answer, Some(Err(Error::Compacted { .. }))),
                "{how}: {answer:?}"
            );
        }
        let there = store.get(Bytes::from_static(b"/saved"), None).await;
        assert!(there.expect("an answer").is_some());
        let next = store.revision();
        assert_eq!(put(&store, "/next").await, next + 1);
    }
}

#[tokio::test]
async fn a_file_that_is_opened_again_goes_on_where_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("store.redb");
    let store = open(&path);
    let before = put(&store, "/a").await;
    let after = put(&store, "/b").await;
    drop(store);
    // A folder that is moved keeps its files.
    let moved = dir.path().join("moved.redb");
    std::fs::rename(&path, &moved).expect("moved");
    let store = open(&moved);
    assert_eq!(store.revision(), after);
    let batch = store.watch(Bytes::new(), before).next().await;
    let batch = batch.expect("a batch").expect("the past");
    assert_eq!(batch.events.len(), 1);
}
