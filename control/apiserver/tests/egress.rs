//! How the server reaches others: every connection goes by the way that is configured
//! for its kind. The hosts that are named here do not exist; only the proxies know where
//! they are.

mod common;
#[path = "common/proxy.rs"]
mod proxy;
#[path = "common/webhook.rs"]
mod webhook;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{ask, root, send};
use control_access::Tokens;
use control_apiserver::{ApiServer, ClusterAccess, Config, ProxyIdentity};
use control_audit::{Audit, Mode, Policy, SinkOptions, SinkTarget};
use control_auth::{Settings, WebhookSettings};
use control_pki::{Authority, ClientTrust, Cluster, Spec};
use control_proxy::Kubelets;
use control_proxy::egress::{Dialer, Egress, Kind, Stream};
use control_request::body;
use control_store::embedded::{EmbeddedStore, Options};
use control_types::value;
use control_types::value::Value;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use proxy::{Does, Proxy, egress};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tower::ServiceExt as _;
use webhook::{Fake, Reply, review};

/// Long enough for a busy machine; nothing takes as long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends back what comes; its port.
async fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reads, mut writes) = stream.split();
                let _ = tokio::io::copy(&mut reads, &mut writes).await;
            });
        }
    });
    port
}

/// A port at which nobody listens, as long as what comes with it lives.
async fn nobody() -> (tokio::net::TcpSocket, u16) {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket
        .bind("127.0.0.1:0".parse().expect("an address"))
        .expect("bound");
    let port = socket.local_addr().expect("an address").port();
    (socket, port)
}

/// More than fits into all buffers on the way is sent and comes back.
async fn echoed(stream: Stream) {
    let sent: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    let (mut reads, mut writes) = tokio::io::split(stream);
    let writing = async { writes.write_all(&sent).await.expect("written") };
    let mut got = vec![0; sent.len()];
    let reading = async { reads.read_exact(&mut got).await.expect("read") };
    tokio::time::timeout(PATIENCE, async { tokio::join!(writing, reading) })
        .await
        .expect("in time");
    assert!(got == sent);
}

fn by(dir: &Path, proxy: &Proxy) -> Dialer {
    egress(dir, &[("cluster", &proxy.connection)]).to(Kind::Cluster)
}

#[tokio::test]
async fn connections_are_made_by_each_kind_of_proxy() {
    let dir = tempfile::tempdir().expect("a folder");
    let port = echo().await;
    for proxy in [
        Proxy::tcp(Does::Connect).await,
        Proxy::tls(dir.path()).await,
        Proxy::unix(dir.path()),
        Proxy::konnectivity(dir.path()),
    ] {
        let dialer = by(dir.path(), &proxy);
        assert!(!dialer.is_direct());
        for (host, address) in [
            ("nowhere.invalid", format!("nowhere.invalid:{port}")),
            ("2001:db8::7", format!("[2001:db8::7]:{port}")),
        ] {
            let stream = dialer.dial(host, port).await.expect(&proxy.connection);
            assert_eq!(proxy.asked().last(), Some(&address), "{dialer:?}");
            echoed(stream).await;
            if proxy.connection.contains("GRPC") {
                // What was let go here is closed there.
                let closed = async {
                    while proxy.asked().last().is_some_and(|last| last != "closed") {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                };
                tokio::time::timeout(PATIENCE, closed)
                    .await
                    .expect("closed");
            }
        }
        // Other kinds are not named, and reached directly.
        let egress = egress(dir.path(), &[("cluster", &proxy.connection)]);
        assert!(egress.selected(Kind::Etcd).is_none() && egress.to(Kind::Etcd).is_direct());
    }
}

#[tokio::test]
async fn a_connection_that_is_not_made_is_told_with_its_proxy() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_socket, port) = nobody().await;
    let missing = dir.path().join("missing.sock");
    let missing = format!(
        "{{proxyProtocol: HTTPConnect, transport: {{uds: {{udsName: {}}}}}}}",
        missing.display()
    );
    let gone = format!(
        "{{proxyProtocol: HTTPConnect, transport: {{tcp: {{url: 'http://127.0.0.1:{port}'}}}}}}"
    );
    let konnectivity = Proxy::konnectivity(dir.path());
    for (connection, words) in [
        (
            Proxy::tcp(Does::Refuse).await.connection,
            "while dialing nowhere.invalid:1, code 403: 403 Forbidden".to_owned(),
        ),
        (
            Proxy::tcp(Does::Interrupt).await.connection,
            "unexpected 5 bytes of buffered data".to_owned(),
        ),
        (
            gone,
            format!("dial tcp 127.0.0.1:{port}: connect: connection refused"),
        ),
        (missing, "dial unix ".to_owned()),
        (
            konnectivity.connection.clone(),
            "konnectivity.sock while dialing nowhere.invalid:1, ".to_owned(),
        ),
    ] {
        let dialer = egress(dir.path(), &[("etcd", &connection)]).to(Kind::Etcd);
        let dialed = tokio::time::timeout(PATIENCE, dialer.dial("nowhere.invalid", 1)).await;
        let why = dialed.expect("in time").err().expect("no way").to_string();
        assert!(why.contains(&words), "{connection}: {why}");
    }
}

#[tokio::test]
async fn certificates_of_a_proxy_are_read_at_the_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let certificate = path("own.crt");
    std::fs::write(&certificate, "none").expect("written");
    let file = path("egress.yaml");
    std::fs::write(
        &file,
        format!("{{apiVersion: apiserver.k8s.io/v1beta1, kind: EgressSelectorConfiguration, egressSelections: [{{name: etcd, connection: {{proxyProtocol: HTTPConnect, transport: {{tcp: {{url: 'https://p:1', tlsConfig: {{clientCert: {certificate}, clientKey: {certificate}}}}}}}}}}}]}}"),
    )
    .expect("written");
    let why = Egress::read(Path::new(&file)).expect_err("no certificate");
    assert_eq!(
        why.to_string(),
        "egress selection `etcd`: its certificates cannot be used"
    );
    let why = Egress::read(Path::new("/nowhere/egress.yaml")).expect_err("no file");
    assert!(why.to_string().contains("`/nowhere/egress.yaml`"), "{why}");
}

/// A server's stand-in that answers `ok` over HTTP/1.1, over TLS where there is a
/// certificate; its port.
async fn stand_in(issued: Option<control_pki::CertificateKeyPair>) -> u16 {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    let acceptor = issued.map(|issued| {
        let chain = CertificateDer::pem_slice_iter(issued.cert_pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).expect("PEM");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a pair");
        tokio_rustls::TlsAcceptor::from(Arc::new(tls))
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                match acceptor {
                    None => answer_ok(stream).await,
                    Some(acceptor) => {
                        if let Ok(stream) = acceptor.accept(stream).await {
                            answer_ok(stream).await;
                        }
                    }
                }
            });
        }
    });
    port
}

async fn answer_ok(stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin) {
    let service = hyper::service::service_fn(|_: Request<hyper::body::Incoming>| async {
        Ok::<_, std::convert::Infallible>(http::Response::new(body::full("ok")))
    });
    let io = hyper_util::rt::TokioIo::new(stream);
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(io, service)
        .await;
}

/// A server all of whose connections go by `egress`; tokens are known to a webhook, and
/// audit events sent to one.
async fn server(dir: &Path, egress: &Egress, fake: &Fake) -> ApiServer {
    let cluster = Cluster::load_or_create(dir.join("pki")).expect("keys");
    let trust = ClientTrust::new(cluster.ca.certificate_pem()).expect("trust");
    let kubelets = Kubelets::new(
        cluster.ca.certificate_pem(),
        &cluster.kubelet_client().expect("issued"),
    );
    let proxy = cluster.front_proxy_client().expect("issued");
    let kubeconfig = |name: &str| {
        let path = dir.join(name);
        let text = fake.kubeconfig(&format!("/{name}"));
        std::fs::write(&path, text.replace("127.0.0.1", "hook.default.svc")).expect("written");
        path
    };
    let settings = Settings {
        webhook_tokens: Some(WebhookSettings {
            kubeconfig: kubeconfig("tokens"),
            version: "v1".to_owned(),
            lasts: Duration::ZERO,
        }),
        egress: egress.clone(),
        ..Settings::default()
    };
    let policy = Policy::parse(
        b"{apiVersion: audit.k8s.io/v1, kind: Policy, omitStages: [RequestReceived], rules: [{level: Metadata, verbs: [create], resources: [{resources: [configmaps]}]}, {level: None}]}",
    )
    .expect("a policy");
    let sink = SinkOptions {
        to: SinkTarget::Webhook {
            config: kubeconfig("audit"),
            backoff: Duration::from_millis(50),
            dialer: egress.to(Kind::ControlPlane),
        },
        mode: Mode::Blocking,
        truncate: None,
    };
    let chain = control_apiserver::chain::Settings {
        audit: Some(Audit::open(policy, [sink]).expect("a sink")),
        ..Default::default()
    };
    let tokens = Tokens::new(Arc::new(cluster.service_account_key));
    let store = EmbeddedStore::open_in(&dir.join("store"), Options::default()).expect("a store");
    ApiServer::new(Config {
        store: Arc::new(store),
        access: Arc::new(ClusterAccess::configured(trust, tokens, settings).expect("settings")),
        encryption: Default::default(),
        advertise_address: [127, 0, 0, 1].into(),
        advertise_port: 6443,
        service_cidrs: vec!["10.96.0.0/16".parse().expect("a range")],
        node_ports: (30000, 32767),
        kubelets: Some(kubelets.expect("usable")),
        proxy_identity: Some(ProxyIdentity::new(proxy)),
        egress: egress.clone(),
        whole: false,
        chain,
    })
    .await
    .expect("a server")
}

async fn make(server: &ApiServer, path: &str, object: Value) {
    let (code, made) = ask(server, &root(), Method::POST, path, Some(object)).await;
    assert_eq!(code, 201, "{path}: {made:?}");
    server.api().catch_up().await.expect("caches");
}

async fn text(server: &ApiServer, path: &str) -> (u16, String) {
    let answer = send(server, &root(), Method::GET, path, &[], None).await;
    let code = answer.status().as_u16();
    let bytes = answer
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    (code, String::from_utf8_lossy(&bytes).into_owned())
}

/// A node, a pod on it and a service of the control plane's other side, none of which
/// can be reached but by a proxy.
async fn cluster(server: &ApiServer, kubelet: u16, pod: u16) {
    let node = value!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    make(server, "/api/v1/nodes", node).await;
    let status = value!({"status": {
        "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": (i64::from(kubelet))}}
    }});
    let path = "/api/v1/nodes/n/status";
    let (code, told) = ask(server, &root(), Method::PATCH, path, Some(status)).await;
    assert_eq!(code, 200, "{told:?}");
    let account = value!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"},
        "automountServiceAccountToken": false
    });
    make(
        server,
        "/api/v1/namespaces/default/serviceaccounts",
        account,
    )
    .await;
    let object = value!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [
            {"name": "c", "image": "i", "ports": [{"containerPort": (i64::from(pod))}]}
        ]}
    });
    make(server, "/api/v1/namespaces/default/pods", object).await;
    let status = value!({"status": {"podIP": "192.0.2.9", "podIPs": [{"ip": "192.0.2.9"}]}});
    let path = "/api/v1/namespaces/default/pods/p/status";
    let (code, told) = ask(server, &root(), Method::PATCH, path, Some(status)).await;
    assert_eq!(code, 200, "{told:?}");
}

fn hook(name: &str, client: Value) -> Value {
    value!({
        "name": (name), "clientConfig": (client), "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
        "rules": [{
            "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["configmaps"]
        }]
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_connection_of_the_server_goes_by_the_way_of_its_kind() {
    let dir = tempfile::tempdir().expect("a folder");
    let to_cluster = Proxy::tls(dir.path()).await;
    let to_controlplane = Proxy::unix(dir.path());
    let egress = egress(
        dir.path(),
        &[
            ("cluster", &to_cluster.connection),
            ("controlplane", &to_controlplane.connection),
        ],
    );
    let fake = Fake::start(|path, question| match path {
        "/tokens" => Reply::Object(value!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "status": {"authenticated": true, "user": {"username": "ann", "groups": ["system:masters"]}}
        })),
        "/audit" => Reply::Object(Value::object()),
        _ => review(question, value!({"allowed": true})),
    })
    .await;
    let server = server(dir.path(), &egress, &fake).await;
    let named = |host: &str, port: u16| format!("{host}:{port}");
    let pki = Cluster::load_or_create(dir.path().join("pki")).expect("keys");
    let kubelet = pki
        .ca
        .issue(&Spec::server("system:node:n", ["192.0.2.7"]))
        .expect("signed");
    let (kubelet, pod) = (stand_in(Some(kubelet)).await, stand_in(None).await);
    cluster(&server, kubelet, pod).await;

    // The agent of a node, and a pod.
    let (code, told) = text(&server, "/api/v1/namespaces/default/pods/p/log").await;
    assert_eq!((code, told.as_str()), (200, "ok"));
    let (code, told) = text(&server, "/api/v1/namespaces/default/pods/p/proxy/").await;
    assert_eq!((code, told.as_str()), (200, "ok"));
    assert_eq!(
        to_cluster.asked(),
        [named("192.0.2.7", kubelet), named("192.0.2.9", pod)]
    );

    // Webhooks: behind a Service they belong to the cluster, by URL to the control
    // plane.
    let service = value!({
        "metadata": {"name": "hook"},
        "spec": {"type": "ExternalName", "externalName": "service.invalid"}
    });
    make(&server, "/api/v1/namespaces/default/services", service).await;
    let reference = value!({
        "service": {
            "namespace": "default", "name": "hook", "path": "/s", "port": (i64::from(fake.port))
        },
        "caBundle": (fake.bundle.as_str())
    });
    let url = format!("https://hook.default.svc:{}/u", fake.port);
    let url = value!({"url": (url), "caBundle": (fake.bundle.as_str())});
    let hooks = value!({
        "metadata": {"name": "hooks"},
        "webhooks": [(hook("s.example.com", reference)), (hook("u.example.com", url))]
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    make(&server, path, hooks).await;
    let map = value!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    make(&server, "/api/v1/namespaces/default/configmaps", map).await;
    let mut paths: Vec<String> = fake.take().into_iter().map(|(path, _)| path).collect();
    paths.sort();
    assert_eq!(paths, ["/audit", "/s", "/u"]);
    assert_eq!(
        to_cluster.asked().last(),
        Some(&named("service.invalid", fake.port))
    );
    // The webhook and the audit log, each over a connection of its own.
    let hook = named("hook.default.svc", fake.port);
    assert_eq!(to_controlplane.asked(), [hook.clone(), hook.clone()]);

    // Who knows tokens.
    let request = Request::get("/api/v1/namespaces/default/configmaps/m")
        .header("authorization", "Bearer unknown")
        .body(body::empty())
        .expect("a request");
    let answer = server.service().oneshot(request).await.expect("infallible");
    assert_eq!(answer.status(), 200);
    assert_eq!(to_controlplane.asked(), [hook.clone(), hook.clone(), hook]);

    // What is counted of it.
    let (_, page) = text(&server, "/metrics").await;
    for line in [
        "apiserver_egress_dialer_dial_start_total{protocol=\"http_connect\",transport=\"tcp\"} 3",
        "apiserver_egress_dialer_dial_start_total{protocol=\"http_connect\",transport=\"uds\"} 3",
        "apiserver_egress_dialer_dial_duration_seconds_count{protocol=\"http_connect\",transport=\"uds\"} 3",
    ] {
        assert!(page.lines().any(|known| known == line), "{line}\n{page}");
    }
    assert!(!page.contains("dial_failure_count{"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_server_is_reached_by_way_of_the_cluster() {
    let dir = tempfile::tempdir().expect("a folder");
    let proxy = Proxy::konnectivity(dir.path());
    let egress = egress(dir.path(), &[("cluster", &proxy.connection)]);
    let fake = Fake::start(|_, _| Reply::Object(Value::object())).await;
    let server = server(dir.path(), &egress, &fake).await;
    let ca = Authority::create("extension").expect("an authority");
    let issued = ca
        .issue(&Spec::server("extension", ["api.default.svc"]))
        .expect("signed");
    let port = stand_in(Some(issued)).await;
    let service = value!({
        "metadata": {"name": "api"},
        "spec": {"type": "ExternalName", "externalName": "extension.invalid"}
    });
    make(&server, "/api/v1/namespaces/default/services", service).await;
    let bundle = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(ca.certificate_pem())
    };
    let registration = value!({
        "metadata": {"name": "v1.a.example"},
        "spec": {
            "group": "a.example", "version": "v1", "caBundle": (bundle),
            "groupPriorityMinimum": 2000, "versionPriority": 10,
            "service": {"namespace": "default", "name": "api", "port": (i64::from(port))}
        }
    });
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    make(&server, path, registration).await;
    let asked = async {
        loop {
            let (code, told) = text(&server, "/apis/a.example/v1/things").await;
            if code == 200 {
                return told;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let told = tokio::time::timeout(PATIENCE, asked)
        .await
        .expect("in time");
    assert_eq!(told, "ok");
    let address = format!("extension.invalid:{port}");
    let asked = proxy.asked();
    assert!(asked.contains(&address), "{asked:?}");
    assert!(
        asked
            .iter()
            .all(|asked| *asked == address || asked == "closed")
    );
}
