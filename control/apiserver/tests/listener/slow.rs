//! Clients that take their time.

use std::time::Duration;

use control_apiserver::chain::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::common::memory::MIB;
use super::{PATIENCE, target};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sends_slowly_is_not_waited_for() {
    let mut target = target(Settings {
        header_timeout: Duration::from_secs(3),
        ..Settings::default()
    })
    .await;
    target.is_well_before().await;
    // A head that never ends.
    let answer = target
        .say(b"GET /readyz HTTP/1.1\r\nhost: x\r\nx-slow: ")
        .await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 408"),
        "{answer}"
    );
    // A body that never comes: the request's own time ends it.
    let answer = target
        .say(b"POST /api/v1/namespaces/default/configmaps?timeout=1s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"kind\":")
        .await;
    assert!(answer.starts_with("HTTP/1.1 504"), "{answer}");
    assert!(answer.contains("request did not complete within the allotted timeout"));
    target.is_well_within(16 * MIB).await;
    target.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_send_slowly_keep_nobody_out() {
    const MANY: usize = 200;
    let mut target = target(Settings {
        header_timeout: Duration::from_secs(3),
        ..Settings::default()
    })
    .await;
    target.is_well_before().await;
    let mut slow = Vec::new();
    for _ in 0..MANY {
        let mut stream = target.connect(b"http/1.1").await;
        stream
            .write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\nx-slow: ")
            .await
            .expect("sent");
        slow.push(stream);
    }
    // No handshake at all.
    let mut silent = Vec::new();
    for _ in 0..MANY {
        silent.push(TcpStream::connect(target.address).await.expect("connected"));
    }
    target.is_well_within(MANY * 200 * 1024 + 32 * MIB).await;
    // They are sent away, dribbling or not.
    for mut stream in slow {
        let dribble = async {
            while stream.write_all(b"a").await.is_ok() {
                let mut rest = Vec::new();
                let ended =
                    tokio::time::timeout(Duration::from_millis(50), stream.read_to_end(&mut rest));
                if ended.await.is_ok() {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, dribble)
            .await
            .expect("it is closed");
    }
    for mut stream in silent {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        let _ = ended.expect("it is closed");
    }
    target.is_well().await;
    target.end().await;
}
