//! Measures writes per second and their latency with 1, 16 and 64 writers, fsyncs per
//! write, and the cost of opening and paging. It is a plain program, because it measures
//! the disk, where statistics over nanoseconds mean nothing.
//!
//! `cargo bench -p control-store` (the directory: `BENCH_DIR`, default the build
//! directory's disk).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use control_store::embedded::{EmbeddedStore, Options};
use control_store::{Precondition, Range, Store, Write};

const VALUE: usize = 1500;
const TIME: Duration = Duration::from_secs(3);

fn main() {
    let base = std::env::var_os("BENCH_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    println!(
        "{:>8} {:>10} {:>10} {:>10} {:>10}",
        "writers", "writes/s", "p50", "p99", "max"
    );
    raw_fsync(&base);
    for writers in [1, 16, 64] {
        runtime.block_on(storm(&base, writers));
    }
    runtime.block_on(reads(&base));
}

/// Measures the disk alone: append and fdatasync in sequence.
fn raw_fsync(base: &std::path::Path) {
    use std::io::Write as _;
    let mut file = tempfile::tempfile_in(base).expect("a file");
    let mut times = Vec::new();
    let end = Instant::now() + TIME;
    while Instant::now() < end {
        let started = Instant::now();
        file.write_all(&[7; VALUE]).expect("a write");
        file.sync_data().expect("fdatasync");
        times.push(started.elapsed());
    }
    report("fsync", times);
}

async fn storm(base: &std::path::Path, writers: usize) {
    let dir = tempfile::tempdir_in(base).expect("a directory");
    let store = Arc::new(EmbeddedStore::open_in(dir.path(), Options::default()).expect("a store"));
    let end = Instant::now() + TIME;
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                while Instant::now() < end {
                    let key = Bytes::from(format!(
                        "/registry/pods/default/{writer}-{}",
                        times.len() % 100
                    ));
                    let write = Write::Put {
                        value: Bytes::from(vec![b'x'; VALUE]),
                        ttl: None,
                    };
                    let started = Instant::now();
                    store
                        .write(key, Precondition::Any, write)
                        .await
                        .expect("a write");
                    times.push(started.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.expect("a writer"));
    }
    report(&writers.to_string(), times);
}

async fn reads(base: &std::path::Path) {
    let dir = tempfile::tempdir_in(base).expect("a directory");
    let store = Arc::new(EmbeddedStore::open_in(dir.path(), Options::default()).expect("a store"));
    let writes = (0..20_000).map(|pod| {
        let store = store.clone();
        async move {
            let key = Bytes::from(format!("/registry/pods/default/pod-{pod}"));
            let write = Write::Put {
                value: Bytes::from(vec![b'x'; 5500]),
                ttl: None,
            };
            store
                .write(key, Precondition::Any, write)
                .await
                .expect("a write");
        }
    });
    let started = Instant::now();
    futures::future::join_all(writes).await;
    println!("20000 pods of 5.5 KB written in {:?}", started.elapsed());
    let size = std::fs::metadata(store.path()).expect("a file").len();
    println!("file: {} MB", size >> 20);

    let started = Instant::now();
    let page = store
        .range(Range::prefix("/registry/pods/"))
        .await
        .expect("a list");
    println!("list of {} in {:?}", page.kvs.len(), started.elapsed());
    let started = Instant::now();
    let page = store
        .range(Range {
            limit: 500,
            ..Range::prefix("/registry/pods/")
        })
        .await
        .expect("a page");
    println!(
        "page of {} of {} in {:?}",
        page.kvs.len(),
        page.count_remaining,
        started.elapsed()
    );
    let started = Instant::now();
    for pod in 0..10_000 {
        store
            .get(
                Bytes::from(format!("/registry/pods/default/pod-{pod}")),
                None,
            )
            .await
            .expect("a pod")
            .expect("a pod");
    }
    println!("get: {:?}", started.elapsed() / 10_000);

    let started = Instant::now();
    let path = store.path().to_owned();
    drop(store);
    println!("close: {:?}", started.elapsed());
    let started = Instant::now();
    let store = EmbeddedStore::open(path, Options::default()).expect("the store");
    println!(
        "open after a clean end: {:?} at revision {}",
        started.elapsed(),
        store.revision()
    );
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{name:>8} {:>10.0} {:>10.1?} {:>10.1?} {:>10.1?}",
        times.len() as f64 / TIME.as_secs_f64(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}
