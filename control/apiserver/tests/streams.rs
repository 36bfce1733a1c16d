//! Logs and streams over real TLS on loopback: a client, the server, and a
//! kubelet's stand-in that answers what it was asked and sends upgraded bytes
//! back. What it cannot show is a container behind it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use control_access::{MASTERS, Tokens, User};
use control_apiserver::{ApiServer, ClusterAccess, Config};
use control_pki::{
    Authority, ClientTrust, Cluster, ServingIdentity, Spec, client_config, server_config,
};
use control_proxy::Kubelets;
use control_request::body;
use control_store::embedded::{EmbeddedStore, Options};
use control_types::value;
use control_types::value::Value;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// A running server, and what is needed to talk to it.
struct Stage {
    address: SocketAddr,
    service: control_apiserver::Service,
    authority: String,
    administrator: control_pki::CertificateKeyPair,
    shutdown: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

/// Starts a server with a node whose kubelet is the stand-in. `kubelet_ca` signs
/// the kubelet's certificate; the cluster's own unless given.
async fn stage(dir: &Path, kubelet_ca: Option<Authority>) -> Stage {
    let cluster = Cluster::load_or_create(dir.join("pki")).expect("keys");
    let authority = cluster.ca.certificate_pem().to_owned();
    let trust = || ClientTrust::new(&authority).expect("trust");
    let tls = |ca: &Authority, name: &str| {
        let issued = ca
            .issue(&Spec::server(name, ["127.0.0.1"]))
            .expect("signed");
        let identity = ServingIdentity::new(&issued, dir).expect("an identity");
        server_config(identity, &[]).expect("TLS")
    };
    let kubelet = tls(
        kubelet_ca.as_ref().unwrap_or(&cluster.ca),
        "system:node:node-1",
    );
    let port = stand_in(kubelet, trust()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let own = tls(&cluster.ca, "kube-apiserver");
    let kubelets = Kubelets::new(&authority, &cluster.kubelet_client().expect("issued"));
    let administrator = cluster.administrator().expect("issued");
    let tokens = Tokens::new(Arc::new(cluster.service_account_key));
    let store = EmbeddedStore::open_in(&dir.join("store"), Options::default()).expect("a store");
    let server = ApiServer::new(Config {
        store: Arc::new(store),
        access: Arc::new(ClusterAccess::new(trust(), tokens)),
        encryption: Default::default(),
        advertise_address: address.ip(),
        advertise_port: address.port(),
        service_cidrs: vec!["10.96.0.0/16".parse().expect("a range")],
        node_ports: (30000, 32767),
        kubelets: Some(kubelets.expect("usable")),
        proxy_identity: None,
        egress: control_proxy::Egress::default(),
        whole: false,
        chain: control_apiserver::chain::Settings::default(),
    })
    .await
    .expect("a server");
    let shutdown = CancellationToken::new();
    let service = server.service();
    let tls = Arc::new(ArcSwap::from_pointee(own));
    let serving = tokio::spawn(server.serve([listener], tls, shutdown.clone()));
    let stage = Stage {
        address,
        service,
        authority,
        administrator,
        shutdown,
        serving,
    };
    let node = value!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}});
    stage.make("/api/v1/nodes", node).await;
    let status = value!({"status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": (i64::from(port))}}
    }});
    let (code, _) = stage
        .ask(
            &root(),
            Method::PATCH,
            "/api/v1/nodes/node-1/status",
            Some(status),
        )
        .await;
    assert_eq!(code, 200);
    let account = value!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"},
        "automountServiceAccountToken": false
    });
    let path = "/api/v1/namespaces/default/serviceaccounts";
    stage.make(path, account).await;
    for (name, node) in [("web", "node-1"), ("new", "")] {
        let mut pod = value!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i"}]}
        });
        if !node.is_empty() {
            pod.set_path(&["spec", "nodeName"], node);
        }
        stage.make("/api/v1/namespaces/default/pods", pod).await;
    }
    stage
}

fn root() -> User {
    User::named("root", [MASTERS])
}

/// A kubelet's stand-in; returns its port.
async fn stand_in(tls: rustls::ServerConfig, trust: ClientTrust) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, trust) = (acceptor.clone(), trust.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
                assert!(
                    trust.verify(chain).is_ok(),
                    "the server shows its certificate"
                );
                let service = hyper::service::service_fn(|request| async {
                    Ok::<_, Infallible>(kubelet(request))
                });
                let served = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades();
                let _ = served.await;
            });
        }
    });
    port
}

/// Answers with what was asked, or sends back upgraded bytes.
fn kubelet(mut request: Request<Incoming>) -> Response<Full<Bytes>> {
    let asked = format!("{} {}", request.method(), request.uri());
    let answer = |code, text: String| {
        let mut answer = Response::new(Full::from(text));
        *answer.status_mut() = code;
        answer
    };
    if asked.contains("tailLines=7") {
        let text = "container \"c\" in pod \"web\" is waiting to start: ContainerCreating";
        return answer(StatusCode::BAD_REQUEST, text.to_owned());
    }
    if !request.headers().contains_key("upgrade") {
        return answer(StatusCode::OK, asked);
    }
    if asked.contains("command=refused") {
        return answer(StatusCode::NOT_FOUND, "pod does not exist".to_owned());
    }
    assert!(!request.headers().contains_key("authorization"));
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgrade.await.expect("upgraded"));
        stream.write_all(asked.as_bytes()).await.expect("sent");
        let (mut reads, mut writes) = tokio::io::split(stream);
        let _ = tokio::io::copy(&mut reads, &mut writes).await;
        let _ = writes.shutdown().await;
    });
    let mut answer = answer(StatusCode::SWITCHING_PROTOCOLS, String::new());
    for name in ["connection", "upgrade", "x-stream-protocol-version"] {
        if let Some(value) = request.headers().get(name) {
            answer.headers_mut().insert(name, value.clone());
        }
    }
    answer
}

impl Stage {
    /// Asks within the process; the answer's code, and its body if it is JSON.
    async fn ask(
        &self,
        user: &User,
        method: Method,
        path: &str,
        object: Option<Value>,
    ) -> (u16, Value) {
        let (code, text) = self.text(user, method, path, object).await;
        (code, Value::from_slice(&text).unwrap_or_default())
    }

    async fn text(
        &self,
        user: &User,
        method: Method,
        path: &str,
        object: Option<Value>,
    ) -> (u16, Bytes) {
        let media = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let bytes = object.map_or_else(Bytes::new, |object| object.to_vec().into());
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .body(body::full(bytes))
            .expect("a request");
        request.extensions_mut().insert(user.clone());
        let answer = self
            .service
            .clone()
            .oneshot(request)
            .await
            .expect("an answer");
        let code = answer.status().as_u16();
        let read = answer.into_body().collect().await.expect("a body");
        (code, read.to_bytes())
    }

    async fn make(&self, path: &str, object: Value) {
        let (code, answer) = self.ask(&root(), Method::POST, path, Some(object)).await;
        assert!(matches!(code, 201 | 409), "{answer:?}");
    }

    /// Opens a connection as the administrator and sends a request for an
    /// upgrade; the answer's head.
    async fn upgrade(&self, head: &str) -> (TlsStream<TcpStream>, String) {
        let config = client_config(&self.authority, Some(&self.administrator)).expect("TLS");
        let stream = TcpStream::connect(self.address).await.expect("connected");
        let name = "127.0.0.1".try_into().expect("a name");
        let mut stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .expect("TLS");
        let head = format!("{head}Host: x\r\nAuthorization: Basic eDp5\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("asked");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.expect("an answer"));
        }
        (
            stream,
            String::from_utf8(answer).expect("text").to_lowercase(),
        )
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.serving.await.expect("stopped");
    }
}

const LOG: &str = "/api/v1/namespaces/default/pods/web/log";
const EXEC: &str = "/api/v1/namespaces/default/pods/web/exec";
const SPDY: &str = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\
    X-Stream-Protocol-Version: v4.channel.k8s.io\r\n";

#[tokio::test]
async fn logs_come_from_the_pod_s_node_or_its_words_do() {
    let dir = tempfile::tempdir().expect("a folder");
    let stage = stage(dir.path(), None).await;
    let path = format!("{LOG}?follow=true&sinceSeconds=3&other=1");
    let (code, text) = stage.text(&root(), Method::GET, &path, None).await;
    assert_eq!(code, 200);
    assert_eq!(
        text,
        "GET /containerLogs/default/web/c?follow=true&sinceSeconds=3"
    );
    let path = format!("{LOG}?tailLines=7");
    let (code, status) = stage.ask(&root(), Method::GET, &path, None).await;
    assert_eq!(
        (code, status.str_at(&["reason"])),
        (400, Some("BadRequest"))
    );
    assert_eq!(
        status.str_at(&["message"]),
        Some("container \"c\" in pod \"web\" is waiting to start: ContainerCreating")
    );
    let path = LOG.replace("web", "new");
    let (code, _) = stage.ask(&root(), Method::GET, &path, None).await;
    assert_eq!(code, 204);
    let path = format!("{LOG}?container=x");
    let (code, status) = stage.ask(&root(), Method::GET, &path, None).await;
    assert_eq!(code, 400);
    assert_eq!(
        status.str_at(&["message"]),
        Some("container x is not valid for pod web")
    );
    stage.stop().await;
}

#[tokio::test]
async fn a_kubelet_of_another_authority_is_not_asked_unless_the_client_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let other = Authority::create("other").expect("made");
    let stage = stage(dir.path(), Some(other)).await;
    let (code, status) = stage.ask(&root(), Method::GET, LOG, None).await;
    let message = status.str_at(&["message"]).unwrap_or_default();
    assert_eq!(code, 500);
    assert!(message.contains("certificate"), "{message}");
    let path = format!("{LOG}?insecureSkipTLSVerifyBackend=true");
    let (code, _) = stage.text(&root(), Method::GET, &path, None).await;
    assert_eq!(code, 200);
    stage.stop().await;
}

#[tokio::test]
async fn upgraded_bytes_pass_and_end_with_the_server() {
    let dir = tempfile::tempdir().expect("a folder");
    let stage = stage(dir.path(), None).await;
    let head = format!("POST {EXEC}?command=sh&command=-c&stdout=1&tty=true HTTP/1.1\r\n{SPDY}");
    let (mut stream, answer) = stage.upgrade(&head).await;
    assert!(answer.starts_with("http/1.1 101"), "{answer}");
    assert!(answer.contains("x-stream-protocol-version: v4.channel.k8s.io"));
    let asked = "POST /exec/default/web/c?output=1&tty=1&command=sh&command=-c";
    let mut got = vec![0; asked.len()];
    stream.read_exact(&mut got).await.expect("came");
    assert_eq!(String::from_utf8_lossy(&got), asked);
    let sent: Vec<u8> = (0..500_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let (mut reads, mut writes) = tokio::io::split(stream);
    let mut back = vec![0; sent.len()];
    let (wrote, read) = tokio::join!(writes.write_all(&sent), reads.read_exact(&mut back));
    wrote.expect("sent");
    read.expect("came back");
    assert!(sent == back);
    stage.stop().await;
    assert_eq!(reads.read(&mut [0]).await.unwrap_or(0), 0, "closed");
}

#[tokio::test]
async fn what_a_kubelet_refuses_is_passed_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let stage = stage(dir.path(), None).await;
    let head = format!("POST {EXEC}?command=refused&stdout=1 HTTP/1.1\r\n{SPDY}");
    let (mut stream, answer) = stage.upgrade(&head).await;
    assert!(answer.starts_with("http/1.1 404"), "{answer}");
    let mut body = [0; 18];
    stream.read_exact(&mut body).await.expect("the body");
    assert_eq!(&body, b"pod does not exist");
    stage.stop().await;
}

#[tokio::test]
async fn a_websocket_for_ports_carries_the_kubelet_s_bytes() {
    let dir = tempfile::tempdir().expect("a folder");
    let stage = stage(dir.path(), None).await;
    let path = EXEC.replace("exec", "portforward");
    let head = format!(
        "GET {path} HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n"
    );
    let (mut stream, answer) = stage.upgrade(&head).await;
    assert!(answer.starts_with("http/1.1 101"), "{answer}");
    assert!(answer.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="));
    assert!(answer.contains("sec-websocket-protocol: spdy/3.1+portforward.k8s.io"));
    let asked = b"POST /portForward/default/web";
    let mut got = vec![0; asked.len() + 2];
    stream.read_exact(&mut got).await.expect("came");
    assert_eq!(got[..2], [0x82, u8::try_from(asked.len()).expect("short")]);
    assert_eq!(&got[2..], asked);
    // A masked message, with a mask that changes nothing.
    stream
        .write_all(b"\x82\x83\0\0\0\0abc")
        .await
        .expect("sent");
    let mut got = [0; 5];
    stream.read_exact(&mut got).await.expect("came back");
    assert_eq!(&got, b"\x82\x03abc");
    stage.stop().await;
}

#[tokio::test]
async fn a_websocket_takes_the_right_to_create() {
    let dir = tempfile::tempdir().expect("a folder");
    let stage = stage(dir.path(), None).await;
    let role = |verb: &str| {
        value!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": verb},
            "rules": [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", verb]}]
        })
    };
    let binding = |verb: &str| {
        value!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": verb},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": verb},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": verb}]
        })
    };
    let group = "/apis/rbac.authorization.k8s.io/v1";
    for verb in ["list", "create"] {
        stage
            .make(&format!("{group}/clusterroles"), role(verb))
            .await;
        stage
            .make(&format!("{group}/clusterrolebindings"), binding(verb))
            .await;
    }
    let user = |name: &str| User::named(name, ["developers"]);
    // Roles take effect a moment after they are made.
    let mut answer = (0, Value::Null);
    for _ in 0..100 {
        answer = stage.ask(&user("create"), Method::GET, EXEC, None).await;
        if answer.0 != 403 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(answer.0, 400, "allowed, but no upgrade: {:?}", answer.1);
    assert_eq!(
        answer.1.str_at(&["message"]),
        Some("Upgrade request required")
    );
    let (code, status) = stage.ask(&user("list"), Method::GET, EXEC, None).await;
    assert_eq!(code, 403);
    assert_eq!(
        status.str_at(&["message"]),
        Some("pods \"web\" is forbidden: ")
    );
    stage.stop().await;
}

#[tokio::test]
async fn proxies_do_not_lead_back_to_this_host() {
    let dir = tempfile::tempdir().expect("a folder");
    let stage = stage(dir.path(), None).await;
    for (path, code, message) in [
        (
            "/api/v1/nodes/node-1/proxy/healthz",
            400,
            "address not allowed",
        ),
        ("/api/v1/nodes/none/proxy/", 404, "nodes \"none\" not found"),
        (
            "/api/v1/namespaces/default/pods/web:1:2:3/proxy/",
            400,
            "invalid pod request \"web:1:2:3\"",
        ),
        (
            "/api/v1/namespaces/default/pods/web/proxy/",
            400,
            "address not allowed",
        ),
        (
            "/api/v1/namespaces/default/services/none/proxy/",
            404,
            "services \"none\" not found",
        ),
        (
            "/api/v1/namespaces/default/services/kubernetes:444/proxy/",
            503,
            "no service port 444 found for service \"kubernetes\"",
        ),
        (
            "/api/v1/namespaces/default/services/https:kubernetes:https/proxy/",
            503,
            "no endpoints available for service \"https:kubernetes:https\"",
        ),
    ] {
        let (got, status) = stage.ask(&root(), Method::GET, path, None).await;
        assert_eq!(
            (got, status.str_at(&["message"])),
            (code, Some(message)),
            "{path}"
        );
    }
    stage.stop().await;
}
