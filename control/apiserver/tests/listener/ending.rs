//! The end of the server, as its clients see it.

use std::time::Duration;

use control_apiserver::chain::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::frames::{farewell, preface};
use super::{PATIENCE, target};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_told_to_stop_says_so_and_lets_requests_end() {
    let target = target(Settings {
        shutdown_delay: Duration::from_secs(2),
        ..Settings::default()
    })
    .await;
    target.is_well().await;
    let mut watch = target.connect(b"http/1.1").await;
    watch
        .write_all(b"GET /api/v1/namespaces?watch=1 HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("sent");
    let mut h2 = target.connect(b"h2").await;
    preface(&mut h2).await;
    target.stop.cancel();
    tokio::time::sleep(Duration::from_millis(200)).await;
    // Still served, but not ready; alive all the same.
    let ask = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let ready = target.say(ask("/readyz").as_bytes()).await;
    assert!(ready.starts_with("HTTP/1.1 500"), "{ready}");
    assert!(
        ready.contains("[-]shutdown failed: reason withheld\n"),
        "{ready}"
    );
    let shutdown = target.say(ask("/readyz/shutdown").as_bytes()).await;
    assert!(
        shutdown.contains("internal server error: process is shutting down\n"),
        "{shutdown}"
    );
    let live = target.say(ask("/livez").as_bytes()).await;
    assert!(live.starts_with("HTTP/1.1 200"), "{live}");
    // Then watches end, and connections of HTTP/2 are told to go.
    let mut all = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, watch.read_to_end(&mut all)).await;
    ended.expect("in time").expect("an orderly end");
    assert!(all.ends_with(b"0\r\n\r\n"), "the stream was cut off");
    assert_eq!(farewell(&mut h2).await, Some(0));
    let began = std::time::Instant::now();
    target.end().await;
    assert!(began.elapsed() < Duration::from_secs(15));
}
