//! Tests a stock kube-apiserver on the embedded store. `$KUBE_APISERVER` names the program, by
//! default the one on the PATH; without it, the test is skipped with a message.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{Program, Server, find, free_port};
use control_store::{Range, Store as _};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio_rustls::TlsConnector;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A kube-apiserver, asked over the network.
struct Stock {
    port: u16,
    tls: TlsConnector,
    _program: Program,
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

impl Stock {
    fn start(program: &Path, folder: &Path, etcd: &Path) -> Self {
        let keep = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("a file");
            path.display().to_string()
        };
        let serving =
            rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        let accounts = rcgen::KeyPair::generate().expect("a key");
        let (public, private) = (
            keep("sa.pub", &accounts.public_key_pem()),
            keep("sa.key", &accounts.serialize_pem()),
        );
        let log = std::fs::File::create(folder.join("kube-apiserver.log")).expect("a log");
        let port = free_port();
        let program = Program::start(
            Command::new(program)
                .arg(format!("--etcd-servers=unix://{}", etcd.display()))
                .arg(format!("--secure-port={port}"))
                .arg("--bind-address=127.0.0.1")
                .arg("--advertise-address=127.0.0.1")
                .arg("--endpoint-reconciler-type=none")
                .arg("--etcd-compaction-interval=2s")
                .arg("--authorization-mode=RBAC")
                .arg("--service-cluster-ip-range=10.96.0.0/16")
                .arg("--service-account-issuer=https://kubernetes.default.svc")
                .arg("--disable-admission-plugins=ServiceAccount")
                .arg(format!("--service-account-key-file={public}"))
                .arg(format!("--service-account-signing-key-file={private}"))
                .arg(format!(
                    "--tls-cert-file={}",
                    keep("tls.crt", &serving.cert.pem())
                ))
                .arg(format!(
                    "--tls-private-key-file={}",
                    keep("tls.key", &serving.signing_key.serialize_pem())
                ))
                .arg(format!(
                    "--token-auth-file={}",
                    keep("tokens", "secret,root,1,system:masters\n")
                ))
                .stdout(Stdio::null())
                .stderr(log),
        );
        let mut roots = rustls::RootCertStore::empty();
        roots.add(serving.cert.der().clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("protocols")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            port,
            tls: TlsConnector::from(Arc::new(config)),
            _program: program,
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        object: Option<&Value>,
    ) -> Result<http::Response<Incoming>, Failure> {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await?;
        let name = ServerName::try_from("127.0.0.1")?;
        let stream = self.tls.connect(name, stream).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let body = object.map_or_else(Vec::new, |object| object.to_string().into_bytes());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("authorization", "Bearer secret")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))?;
        Ok(sender.send_request(request).await?)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        object: Option<&Value>,
    ) -> Result<(u16, Value), Failure> {
        let answer = self.send(method, path, object).await?;
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await?.to_bytes();
        let value = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Ok((status, value))
    }

    async fn is_ready(&self) -> bool {
        matches!(self.ask(Method::GET, "/readyz", None).await, Ok((200, _)))
    }

    async fn done(&self, method: Method, path: &str, object: Option<&Value>) -> Value {
        let (status, value) = self.ask(method, path, object).await.expect("an answer");
        assert!((200..300).contains(&status), "{path}: {status} {value}");
        value
    }
}

/// Lines of a watch.
struct Events {
    body: Incoming,
    kept: Vec<u8>,
}

impl Events {
    async fn next(&mut self) -> Value {
        tokio::time::timeout(Duration::from_secs(30), async {
            loop {
                if let Some(end) = self.kept.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<_> = self.kept.drain(..=end).collect();
                    return serde_json::from_slice(&line).expect("JSON");
                }
                let frame = self.body.frame().await.expect("no end").expect("a frame");
                self.kept
                    .extend_from_slice(&frame.into_data().expect("data"));
            }
        })
        .await
        .expect("an event")
    }
}

async fn wait(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !holds().await {
        assert!(Instant::now() < until, "{what}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stock_kube_apiserver_runs_on_the_store() {
    let Some(program) = find("KUBE_APISERVER", "kube-apiserver") else {
        return;
    };
    let server = Server::start().await;
    let stock = Stock::start(&program, server.folder.path(), &server.socket);
    wait("kube-apiserver is ready", async || stock.is_ready().await).await;

    let object = |name: &str, value: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {"key": value},
        })
    };
    let first = stock
        .done(Method::POST, CONFIG_MAPS, Some(&object("first", "1")))
        .await;
    let text = |value: &Value, path: &str| {
        let found = value.pointer(path).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let (again, _) = stock
        .ask(Method::POST, CONFIG_MAPS, Some(&object("first", "1")))
        .await
        .expect("an answer");
    assert_eq!(again, 409);

    // The store has it under kube-apiserver's own key, at the revision that it names.
    let created = text(&first, "/metadata/resourceVersion");
    let stored = server
        .store
        .get(
            Bytes::from_static(b"/registry/configmaps/default/first"),
            None,
        )
        .await
        .expect("read")
        .expect("the object");
    assert_eq!(stored.mod_revision.to_string(), created);

    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={created}");
    let watch = stock.send(Method::GET, &path, None).await.expect("a watch");
    let mut events = Events {
        body: watch.into_body(),
        kept: Vec::new(),
    };
    let url = format!("{CONFIG_MAPS}/first");
    stock
        .done(Method::PUT, &url, Some(&object("first", "2")))
        .await;
    for count in 0..5 {
        let object = object(&format!("more-{count}"), "x");
        stock.done(Method::POST, CONFIG_MAPS, Some(&object)).await;
    }
    let list = stock
        .done(Method::GET, &format!("{CONFIG_MAPS}?limit=2"), None)
        .await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(list["metadata"]["remainingItemCount"], json!(4));
    let next = format!(
        "{CONFIG_MAPS}?limit=10&continue={}",
        text(&list, "/metadata/continue")
    );
    // Not part of the list that was begun before.
    stock
        .done(Method::POST, CONFIG_MAPS, Some(&object("zz-later", "x")))
        .await;
    let rest = stock.done(Method::GET, &next, None).await;
    assert_eq!(rest["items"].as_array().map(Vec::len), Some(4));
    stock.done(Method::DELETE, &url, None).await;

    let mut seen = Vec::new();
    while seen.last().is_none_or(|(kind, _)| kind != "DELETED") {
        let event = events.next().await;
        seen.push((text(&event, "/type"), text(&event, "/object/metadata/name")));
    }
    let mut expected = vec![("MODIFIED".to_owned(), "first".to_owned())];
    expected.extend((0..5).map(|count| ("ADDED".to_owned(), format!("more-{count}"))));
    expected.push(("ADDED".to_owned(), "zz-later".to_owned()));
    expected.push(("DELETED".to_owned(), "first".to_owned()));
    assert_eq!(seen, expected);

    // An Event has a lease.
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "event", "namespace": "default"},
        "involvedObject": {"kind": "ConfigMap", "name": "first", "namespace": "default"},
        "reason": "Test",
    });
    stock
        .done(
            Method::POST,
            "/api/v1/namespaces/default/events",
            Some(&event),
        )
        .await;
    let leases = server.store.leases().await.expect("leases");
    assert!(!leases.is_empty());

    // kube-apiserver compacts; clients of what is forgotten hear of it.
    let revision: u64 = created.parse().expect("a revision");
    wait("a compaction", async || {
        let touch = object("more-0", &format!("{:?}", Instant::now()));
        let url = format!("{CONFIG_MAPS}/more-0");
        stock.done(Method::PUT, &url, Some(&touch)).await;
        server.store.compacted() > revision
    })
    .await;
    let old = Range {
        at: Some(revision),
        ..Range::prefix("/registry/configmaps/")
    };
    server.store.range(old).await.expect_err("forgotten");
    // Events are not cached, so that kube-apiserver asks the store.
    let old = format!(
        "/api/v1/namespaces/default/events?resourceVersion={created}&resourceVersionMatch=Exact"
    );
    let (status, answer) = stock.ask(Method::GET, &old, None).await.expect("an answer");
    assert_eq!(status, 410, "{answer}");
}
