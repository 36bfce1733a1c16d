//! `kill -9` during a storm of writes: every acknowledged write survives, and revisions
//! continue.
//!
//! The test starts itself again as the victim, which writes with several tasks and prints
//! every acknowledged write.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control_store::embedded::{EmbeddedStore, Options};
use control_store::{Outcome, Precondition, Store, Write};

const VICTIM: &str = "ORLOP_STORE_VICTIM";
const WRITERS: u64 = 8;

/// Writes until it is killed; one line for each acknowledged write.
fn victim(dir: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let store = Arc::new(EmbeddedStore::open_in(dir, Options::default()).expect("a store"));
        let writers = (0..WRITERS).map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for count in 0_u64.. {
                    let key = Bytes::from(format!("/{writer}/{}", count % 10));
                    let value = Bytes::from(format!("{count}-{}", "x".repeat(700)));
                    let write = Write::Put { value, ttl: None };
                    let outcome = store.write(key, Precondition::Any, write).await;
                    let Ok(Outcome::Done { revision, .. }) = outcome else {
                        panic!("{outcome:?}");
                    };
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "{writer} {count} {revision}").expect("the parent reads");
                    out.flush().expect("the parent reads");
                }
            })
        });
        futures::future::join_all(writers).await;
    });
}

#[test]
fn no_acknowledged_write_is_lost_by_a_kill() {
    if let Some(dir) = std::env::var_os(VICTIM) {
        return victim(Path::new(&dir));
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut highest = 1;
    for round in 0..5_u64 {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--exact",
                "no_acknowledged_write_is_lost_by_a_kill",
                "--nocapture",
            ])
            .env(VICTIM, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the victim");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let reader = std::thread::spawn(move || {
            let mut acknowledged: Vec<[u64; 3]> = Vec::new();
            for line in output.lines().map_while(Result::ok) {
                let mut words = line.split(' ').map(|word| word.parse::<u64>().ok());
                // The test harness prints lines of its own.
                if let (Some(Some(writer)), Some(Some(count)), Some(Some(revision))) =
                    (words.next(), words.next(), words.next())
                {
                    acknowledged.push([writer, count, revision]);
                }
            }
            acknowledged
        });
        std::thread::sleep(Duration::from_millis(300 + 137 * round));
        child.kill().expect("killed");
        child.wait().expect("ended");
        let acknowledged = reader.join().expect("read");
        assert!(
            acknowledged.len() > 20,
            "only {} writes: nothing was tested",
            acknowledged.len()
        );

        // The last acknowledged write of each key, by revision.
        let mut last: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
        for [writer, count, revision] in acknowledged {
            assert!(
                revision > highest,
                "revision {revision} was given out before"
            );
            let entry = last.entry((writer, count % 10)).or_default();
            *entry = (*entry).max((revision, count));
        }
        let store = EmbeddedStore::open_in(dir.path(), Options::default()).expect("the store");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        for ((writer, slot), (revision, count)) in last {
            assert!(store.revision() >= revision);
            let key = Bytes::from(format!("/{writer}/{slot}"));
            let kv = runtime
                .block_on(store.get(key, None))
                .expect("readable")
                .expect("present");
            // A later write may have become durable without being acknowledged.
            assert!(
                kv.mod_revision >= revision,
                "revision {revision} of {writer}/{slot} is lost"
            );
            if kv.mod_revision == revision {
                assert!(kv.value.starts_with(format!("{count}-").as_bytes()));
            }
        }
        highest = store.revision();
    }
}
