//! Watches that nobody reads.

use std::collections::HashMap;
use std::time::Duration;

use control_apiserver::chain::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::common::memory::MIB;
use super::floods::flood;
use super::frames::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, SETTINGS, frame, head,
};
use super::{PATIENCE, target};

const WATCHES: u32 = 300;
const EVENTS: usize = 60;
/// Bytes of what each event tells.
const EVENT: usize = 8000;
/// What a watch may hold that is not read: what the connection takes ahead of it, what
/// it has ready beside that, and an event more of each.
const EACH: usize = 64 * 1024;
const WINDOW_UPDATE: u8 = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_are_not_read_hold_little_and_lose_nothing() {
    let mut target = target(Settings {
        // A client by hand answers no pings.
        ping_interval: 10 * PATIENCE,
        ..Settings::default()
    })
    .await;
    let (mut from, mut to) = tokio::io::split(target.connect(b"h2").await);
    // All the room that there is, for each stream and for all: what is not read waits
    // for the socket.
    let room = 0x7fff_ffff_u32;
    let mut start = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let setting = [&4_u16.to_be_bytes()[..], &room.to_be_bytes()].concat();
    start.extend(frame(SETTINGS, 0, 0, &setting));
    let more = room - 65_535;
    start.extend(frame(WINDOW_UPDATE, 0, 0, &more.to_be_bytes()));
    to.write_all(&start).await.expect("sent");
    target.is_well_before().await;
    for number in 0..WATCHES {
        // Each selects in words of its own, so that none is sent what another is.
        let path = format!("/api/v1/configmaps?watch=1&labelSelector=a{number}!=b");
        let open = frame(
            HEADERS,
            END_STREAM | END_HEADERS,
            2 * number + 1,
            &head(&path),
        );
        to.write_all(&open).await.expect("sent");
    }
    // What TLS has taken need not be sent else.
    to.flush().await.expect("sent");
    // How much each has heard, from its answer's head on.
    let mut heard: HashMap<u32, usize> = HashMap::new();
    while heard.len() < WATCHES as usize {
        read_frame(&mut from, &mut heard).await;
    }
    let text = "x".repeat(EVENT);
    let maps = (0..EVENTS).map(|at| {
        let map = format!(r#"{{"metadata":{{"name":"m{at}"}},"data":{{"a":"{text}"}}}}"#);
        let length = map.len();
        format!("POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{map}")
    });
    let writer = target.connect(b"http/1.1").await;
    assert_eq!(flood(writer, maps, "201").await, EVENTS);
    // Until nothing more is taken ahead.
    let mut last = 0;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = target.memory.grown();
        if now == last {
            break;
        }
        last = now;
    }
    let all = WATCHES as usize * EACH;
    println!(
        "{} KiB a watch",
        target.memory.grown() / WATCHES as usize / 1024
    );
    target.is_well_within(all + 16 * MIB).await;
    // Who reads at last is told everything.
    let slow = |heard: &HashMap<u32, usize>| heard.values().any(|bytes| *bytes < EVENTS * EVENT);
    while slow(&heard) {
        read_frame(&mut from, &mut heard).await;
    }
    target.memory.assert_grown_less(all + 16 * MIB);
    target.end().await;
}

/// Reads a frame, and counts the bytes of an answer by its stream.
async fn read_frame(from: &mut (impl AsyncReadExt + Unpin), heard: &mut HashMap<u32, usize>) {
    let reading = async {
        let mut start = [0; 9];
        from.read_exact(&mut start).await.expect("a frame");
        let [_, a, b, kind, _, stream @ ..] = start;
        let length = u32::from_be_bytes([0, start[0], a, b]) as usize;
        let mut payload = vec![0; length];
        from.read_exact(&mut payload).await.expect("all of it");
        let stream = u32::from_be_bytes(stream);
        match kind {
            HEADERS => *heard.entry(stream).or_default() += 0,
            DATA => *heard.entry(stream).or_default() += length,
            RST_STREAM | GOAWAY => panic!("{stream} ended: {payload:?}"),
            _ => {}
        }
    };
    if tokio::time::timeout(PATIENCE, reading).await.is_err() {
        let least = heard.values().min();
        panic!("{} watches stand still, {least:?} bytes", heard.len());
    }
}
