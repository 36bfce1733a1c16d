//! The end of the server, as its clients see it.

use std::sync::Arc;
use std::time::Duration;

use control_apiserver::chain::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::common::memory::Memory;
use super::frames::{farewell, preface};
use super::{PATIENCE, heard, target, unserved};

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

/// A client whose packets reach another server meanwhile does not hold this one for the whole grace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_a_withdrawn_address_end_at_once_and_others_finish() {
    let mut parts = unserved(Settings::default()).await;
    let shared = TcpListener::bind("127.0.0.2:0").await.expect("a port");
    let shared_address = shared.local_addr().expect("an address");
    let own = parts.listener.take().expect("a listener");
    let server = parts.server.take().expect("a server");
    let (api, stop) = (Arc::clone(server.api()), CancellationToken::new());
    let served = tokio::spawn(server.serve([own, shared], Arc::clone(&parts.tls), stop.clone()));
    let mut target = parts.target(Memory::alone().await, stop, served);
    // Requests that are open as long as their clients like.
    let body = br#"{"metadata":{"name":"late"}}"#;
    let head = format!(
        "POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let mut near = target.connect(b"http/1.1").await;
    near.write_all(head.as_bytes()).await.expect("sent");
    let near_address = std::mem::replace(&mut target.address, shared_address);
    let mut cut = target.connect(b"http/1.1").await;
    cut.write_all(head.as_bytes()).await.expect("sent");
    target.address = near_address;
    tokio::time::sleep(Duration::from_millis(200)).await;
    target.stop.cancel();
    let ended = tokio::time::timeout(Duration::from_millis(500), cut.read_u8()).await;
    assert!(ended.is_err(), "open until the address is withdrawn");
    api.lifecycle.withdraw(shared_address.ip());
    let ended = tokio::time::timeout(Duration::from_secs(5), cut.read_u8()).await;
    assert!(ended.is_ok_and(|it| it.is_err()), "a cut without an answer");
    near.write_all(body).await.expect("sent");
    let answer = heard(&mut near).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    target.end().await;
}
