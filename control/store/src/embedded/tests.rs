use std::time::Duration;

use super::*;
use crate::{Precondition, Store, Write};

const BOOT: u128 = 7;

fn readings(wall_minutes: u64, uptime_minutes: u64) -> Readings {
    Readings {
        wall: (30_000_000 + wall_minutes) * 60_000,
        uptime: uptime_minutes * 60_000,
        boot: BOOT,
    }
}

async fn is_there(store: &Embedded) -> bool {
    let key = Bytes::from_static(b"lease");
    store.get(key, None).await.expect("read").is_some()
}

#[tokio::test]
async fn keys_with_a_limited_life_survive_a_clock_that_jumps_forwards() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("store.redb");
    let open =
        |readings| Embedded::open_at(path.clone(), Options::default(), readings).expect("opened");
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
