//! Nodes, in a crowd of others.

use std::sync::Arc;
use std::time::Duration;

use control_apiserver::chain::Settings;
use control_pki::{CertificateKeyPair, Cluster};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::{PATIENCE, Target, target};

/// A connection that asks one thing after the other, from a thread of its own.
struct Asker {
    runtime: tokio::runtime::Runtime,
    stream: TlsStream<TcpStream>,
}

impl Asker {
    fn connect(target: &Target, who: Option<&CertificateKeyPair>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let stream = runtime.block_on(target.connect_as(who, b"http/1.1"));
        Self { runtime, stream }
    }

    /// The head of the answer, when it has come with its body.
    fn ask(&mut self, method: &str, path: &str, body: &str) -> String {
        let Self { runtime, stream } = self;
        runtime.block_on(async {
            let length = body.len();
            let media = match method {
                "PATCH" => "application/merge-patch+json",
                _ => "application/json",
            };
            let head = format!(
                "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {media}\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            stream.write_all(head.as_bytes()).await.expect("sent");
            let mut said = Vec::new();
            loop {
                let mut chunk = [0; 4096];
                let read = stream.read(&mut chunk).await.expect("an answer");
                assert!(read > 0, "the connection ended");
                said.extend_from_slice(&chunk[..read]);
                let text = String::from_utf8_lossy(&said).into_owned();
                let Some((head, rest)) = text.split_once("\r\n\r\n") else {
                    continue;
                };
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                if rest.len() >= length.unwrap_or(0) {
                    return head.to_owned();
                }
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_served_while_the_threads_of_the_crowd_have_no_time() {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    let target = target(Settings::default()).await;
    let cluster = Cluster::load_or_create(target.dir.path().join("pki")).expect("keys");
    let node = control_pki::Spec::client("system:node:n1", &["system:nodes"]);
    let node = cluster.ca.issue(&node).expect("issued");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let (busy, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (busy, over) = (Arc::new(busy), Arc::new(over));
    std::thread::scope(|threads| {
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let (connected, both) = std::sync::mpsc::channel::<()>();
        let (of_node, target, node) = (connected.clone(), &target, &node);
        let renewing = threads.spawn(move || {
            let mut asker = Asker::connect(target, Some(node));
            let lease = r#"{"metadata":{"name":"n1"},"spec":{"holderIdentity":"n1","leaseDurationSeconds":40}}"#;
            let made = asker.ask("POST", leases, lease);
            of_node.send(()).expect("heard");
            gone.recv().expect("told");
            let renewed: Vec<String> = (0..10)
                .map(|at| {
                    let change = format!(r#"{{"spec":{{"leaseTransitions":{at}}}}}"#);
                    asker.ask("PATCH", &format!("{leases}/n1"), &change)
                })
                .collect();
            (made, renewed)
        });
        let (begin, begun) = std::sync::mpsc::channel::<()>();
        let others_answer = Arc::new(AtomicBool::new(false));
        let answered = Arc::clone(&others_answer);
        let other = threads.spawn(move || {
            let mut asker = Asker::connect(target, None);
            asker.ask("GET", "/readyz", "");
            connected.send(()).expect("heard");
            begun.recv().expect("told");
            let answer = asker.ask("GET", "/readyz", "");
            answered.store(true, Ordering::SeqCst);
            answer
        });
        for _ in 0..2 {
            both.recv_timeout(PATIENCE).expect("connected");
        }
        // Both threads of this runtime have something else to do from now on.
        for _ in 0..2 {
            let (busy, over) = (Arc::clone(&busy), Arc::clone(&over));
            tokio::spawn(async move {
                busy.fetch_add(1, Ordering::SeqCst);
                while !over.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        while busy.load(Ordering::SeqCst) < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        begin.send(()).expect("heard");
        go.send(()).expect("heard");
        let began = std::time::Instant::now();
        while !renewing.is_finished() && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (in_time, others) = (renewing.is_finished(), others_answer.load(Ordering::SeqCst));
        over.store(true, Ordering::SeqCst);
        let (made, renewed) = renewing.join().expect("it ran");
        assert!(made.starts_with("HTTP/1.1 201"), "{made}");
        for answer in renewed {
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        assert!(in_time, "the node waited for the crowd");
        assert!(!others, "nobody was to have time for others");
        let answer = other.join().expect("it ran");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    });
    target.end().await;
}
