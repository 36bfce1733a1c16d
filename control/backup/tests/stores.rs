//! Tests backups of stores and restores to them: embedded, as a file for a real etcd, and in a
//! running etcd. Tests that need etcd are skipped with a message if it is missing.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use control_backup::StoreSummary;
use control_backup::archive::ArchiveReader;
use control_backup::create::{CreatedBackup, Request, create};
use control_backup::place::{Folder, Place};
use control_backup::restore::{
    raise_revision, restore_embedded, restore_etcd_file, restore_live, restored_revision,
};
use control_backup::transfer::{Copy, Target, compare};
use control_store::embedded::{EmbeddedStore, Importer, Options};
use control_store::etcd::{Etcd as EtcdStore, EtcdOptions};
use control_store::{Error, KeyValue, Precondition, Range, Store, Write};
use jiff::Timestamp;

fn open(path: &Path) -> Arc<dyn Store> {
    Arc::new(EmbeddedStore::open(path, Options::default()).expect("a store"))
}

async fn put(store: &dyn Store, key: String, size: usize, ttl: Option<Duration>) {
    let value = Bytes::from(vec![b'v'; size]);
    let write = Write::Put { value, ttl };
    let written = store.write(key.into(), Precondition::Any, write).await;
    written.expect("written");
}

async fn all(store: &dyn Store) -> Vec<KeyValue> {
    let page = store.range(Range::prefix(Bytes::new())).await;
    page.expect("read").kvs
}

/// A store with keys that were written several times, deleted, large, and of limited life.
async fn filled(path: &Path) -> Arc<dyn Store> {
    let store = open(path);
    for number in 0..300 {
        put(
            &*store,
            format!("/registry/pods/default/{number:04}"),
            number * 7,
            None,
        )
        .await;
    }
    for number in (0..300).step_by(3) {
        put(
            &*store,
            format!("/registry/pods/default/{number:04}"),
            9_000,
            None,
        )
        .await;
    }
    let gone = Bytes::from_static(b"/registry/pods/default/0007");
    let deleted = store.write(gone, Precondition::Any, Write::Delete).await;
    deleted.expect("deleted");
    put(
        &*store,
        "/registry/events/a/e".to_owned(),
        10,
        Some(Duration::from_secs(3_000)),
    )
    .await;
    put(&*store, "/registry/big".to_owned(), 1_000_000, None).await;
    store
}

async fn backup(store: &Arc<dyn Store>, folder: &Path) -> CreatedBackup {
    let about = StoreSummary {
        format: 1,
        cluster: "1b2c3d4e".to_owned(),
        version: "0".to_owned(),
        kubernetes: "1.36".to_owned(),
        store: "embedded".to_owned(),
        revision: 0,
        created: Timestamp::now(),
    };
    let request = Request {
        about,
        files: Vec::new(),
        recipients: Vec::new(),
        place: Arc::new(Folder::new(folder)),
    };
    create(Arc::clone(store), request).await.expect("a backup")
}

fn archive(folder: &Path, created: &CreatedBackup) -> ArchiveReader {
    let file = Folder::new(folder)
        .open(&created.name.to_string())
        .expect("opened");
    ArchiveReader::new(file, &[]).expect("an archive")
}

fn without_leases(kvs: Vec<KeyValue>) -> Vec<KeyValue> {
    kvs.into_iter()
        .map(|kv| KeyValue { lease: 0, ..kv })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_store_comes_back_with_its_revisions_and_without_a_past() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = filled(&dir.path().join("first.redb")).await;
    let created = backup(&store, dir.path()).await;
    let before = all(&*store).await;
    put(&*store, "/registry/lost".to_owned(), 1, None).await;
    let lost = store.revision();
    let path = dir.path().join("second.redb");
    let restored = restore_embedded(archive(dir.path(), &created), &path, |about| {
        restored_revision(about.revision, about.created, Timestamp::now(), None)
    })
    .expect("restored");
    let second = open(&path);
    assert_eq!(second.revision(), restored.revision);
    // A backup that is restored within its second is taken to be of no age.
    assert!(restored.revision >= created.manifest.about.revision + 1_000_000_000);
    assert_eq!(without_leases(all(&*second).await), without_leases(before));
    for after in [created.manifest.about.revision, lost] {
        let gone = second.watch(Bytes::new(), after).next().await;
        assert!(
            matches!(gone, Some(Err(Error::Compacted { .. }))),
            "{gone:?}"
        );
    }
    let event = second
        .get(Bytes::from_static(b"/registry/events/a/e"), None)
        .await;
    assert_ne!(
        event.expect("read").expect("there").lease,
        0,
        "it ends some day"
    );
    put(&*second, "/registry/new".to_owned(), 1, None).await;
    assert_eq!(second.revision(), restored.revision + 1);
}

/// A real etcd, if there is one.
struct Etcd {
    child: Child,
    url: String,
    _dir: tempfile::TempDir,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Etcd {
    async fn start(data: Option<&Path>) -> Option<(Self, Arc<dyn Store>)> {
        let dir = tempfile::tempdir().expect("a folder");
        let port = || free_port::free_port().expect("a port");
        let url = format!("http://127.0.0.1:{}", port());
        let peer = format!("http://127.0.0.1:{}", port());
        let data = data.map_or_else(|| dir.path().join("data"), Path::to_owned);
        let child = Command::new("etcd")
            .args([
                "--listen-client-urls",
                &url,
                "--advertise-client-urls",
                &url,
            ])
            .args(["--listen-peer-urls", &peer, "--data-dir"])
            .arg(data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            eprintln!("skipped: no etcd on the PATH");
            return None;
        };
        let etcd = Self {
            child,
            url,
            _dir: dir,
        };
        let began = Instant::now();
        loop {
            let options = EtcdOptions {
                endpoints: vec![etcd.url.clone()],
                ..EtcdOptions::default()
            };
            match EtcdStore::connect(options).await {
                Ok(store) => return Some((etcd, Arc::new(store))),
                Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_for_etcd_becomes_an_etcd_with_the_same_revisions() {
    if Command::new("etcdctl").arg("version").output().is_err() {
        eprintln!("skipped: no etcdctl on the PATH");
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let store = filled(&dir.path().join("first.redb")).await;
    let created = backup(&store, dir.path()).await;
    let file = dir.path().join("etcd.db");
    let restored = restore_etcd_file(archive(dir.path(), &created), &file, |about| {
        restored_revision(about.revision, about.created, Timestamp::now(), None)
    })
    .expect("restored");
    let data = dir.path().join("data");
    let done = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args(["snapshot", "restore"])
        .arg(&file)
        .arg("--data-dir")
        .arg(&data)
        .output()
        .expect("etcdctl runs");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let Some((_etcd, etcd)) = Etcd::start(Some(&data)).await else {
        return;
    };
    assert_eq!(
        without_leases(all(&*etcd).await),
        without_leases(all(&*store).await)
    );
    assert!(etcd.latest().await.expect("a revision") >= restored.revision);
    let gone = etcd
        .watch(Bytes::new(), created.manifest.about.revision)
        .next()
        .await;
    assert!(
        matches!(gone, Some(Err(Error::Compacted { .. }))),
        "{gone:?}"
    );
    put(&*etcd, "/registry/new".to_owned(), 1, None).await;
    assert!(etcd.latest().await.expect("a revision") > restored.revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_etcd_is_filled_once_and_beyond_the_backup() {
    let Some((_etcd, etcd)) = Etcd::start(None).await else {
        return;
    };
    let dir = tempfile::tempdir().expect("a folder");
    let store = filled(&dir.path().join("first.redb")).await;
    let created = backup(&store, dir.path()).await;
    for is_empty in [true, false] {
        let (archive, etcd) = (archive(dir.path(), &created), Arc::clone(&etcd));
        let done = tokio::task::spawn_blocking(move || restore_live(archive, &etcd, "etcd", 2_000));
        let done = done.await.expect("it ends");
        assert_eq!(done.is_ok(), is_empty, "{done:?}");
    }
    compare(&*store, &*etcd).await.expect("equal");
    assert!(etcd.latest().await.expect("one") >= created.manifest.about.revision + 2_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_follows_its_source_both_ways() {
    let Some((_etcd, etcd)) = Etcd::start(None).await else {
        return;
    };
    let dir = tempfile::tempdir().expect("a folder");
    let store = filled(&dir.path().join("first.redb")).await;
    let target = Target::Live {
        store: Arc::clone(&etcd),
        name: "etcd".to_owned(),
    };
    let mut copy = Copy::begin(&*store, target).await.expect("copied");
    put(&*store, "/registry/later".to_owned(), 5, None).await;
    let gone = Bytes::from_static(b"/registry/big");
    store
        .write(gone, Precondition::Any, Write::Delete)
        .await
        .expect("deleted");
    assert!(
        compare(&*store, &*etcd).await.is_err(),
        "it does not follow by itself"
    );
    copy.follow(&*store, store.revision())
        .await
        .expect("followed");
    compare(&*store, &*etcd).await.expect("equal");
    let raised = raise_revision(&*etcd, 5_000, "etcd").await.expect("raised");
    assert!(raised >= 5_000);
    compare(&*store, &*etcd).await.expect("still equal");
    assert!(raise_revision(&*etcd, u64::MAX / 2, "etcd").await.is_err());

    let path = dir.path().join("back.redb");
    let importer = Importer::create(&path).expect("a file");
    let mut copy = Copy::begin(&*etcd, Target::Embedded(Box::new(importer)))
        .await
        .expect("copied");
    put(&*etcd, "/registry/later".to_owned(), 6, None).await;
    put(&*etcd, "/registry/latest".to_owned(), 7, None).await;
    let newest = etcd.latest().await.expect("one");
    copy.follow(&*etcd, newest).await.expect("followed");
    let Target::Embedded(importer) = copy.into_target() else {
        return;
    };
    importer.finish(newest).expect("finished");
    let back = open(&path);
    compare(&*etcd, &*back).await.expect("equal");
    assert_eq!(
        without_leases(all(&*etcd).await),
        without_leases(all(&*back).await),
        "with their revisions"
    );
}

/// Figures: `ORLOP_BACKUP_PODS=50000` and `--nocapture`.
#[tokio::test(flavor = "multi_thread")]
async fn many_pods_are_backed_up_and_restored() {
    let pods: usize = std::env::var("ORLOP_BACKUP_PODS")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(2_000);
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("first.redb");
    let mut importer = Importer::create(&path).expect("a file");
    for from in (0..pods).step_by(1_000) {
        let changes: Vec<_> = (from..(from + 1_000).min(pods))
            .map(|number| control_store::embedded::ImportedChange::Put {
                kv: KeyValue {
                    key: format!("/registry/pods/default/pod-{number:06}").into(),
                    // Half of it random, as names, addresses and times are.
                    value: (0..512_u64)
                        .flat_map(|at| {
                            let seed = (at + 1) * (number as u64 + 7);
                            let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                            if at % 2 == 0 {
                                mixed.to_le_bytes()
                            } else {
                                *b"spec.key"
                            }
                        })
                        .collect::<Vec<u8>>()
                        .into(),
                    create_revision: number as u64 + 2,
                    mod_revision: number as u64 + 2,
                    version: 1,
                    lease: 0,
                },
                remaining: None,
            })
            .collect();
        importer.apply(&changes).expect("written");
    }
    importer.finish(pods as u64 + 2).expect("finished");
    let store = open(&path);
    let created = backup(&store, dir.path()).await;
    assert_eq!(created.manifest.keys, pods as u64);
    let began = Instant::now();
    let second = dir.path().join("second.redb");
    restore_embedded(archive(dir.path(), &created), &second, |about| {
        about.revision + 1
    })
    .expect("restored");
    let took = began.elapsed();
    compare(&*store, &*open(&second)).await.expect("equal");
    println!(
        "{pods} pods of 4 KiB: backup {:.2?}, {} MiB; restore {took:.2?}",
        created.took,
        created.size >> 20
    );
}
