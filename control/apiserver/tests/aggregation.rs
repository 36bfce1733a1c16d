//! Aggregation over real TLS on loopback: an extension API server's stand-in
//! that believes the front-proxy authority alone and answers what it was asked.
//! What it cannot show is a Service with endpoints: addresses of loopback are
//! refused there, so the Service is an `ExternalName`.

mod common;

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use common::{ask, root, send};
use control_access::{MASTERS, Tokens, User};
use control_apiserver::{ApiServer, ClusterAccess, Config, ProxyIdentity};
use control_pki::{
    Authority, ClientTrust, Cluster, ServingIdentity, Spec, client_config, server_config,
};
use control_proxy::Kubelets;
use control_proxy::egress::Dialer;
use control_proxy::egress::target::Target;
use control_request::body;
use control_store::embedded::{EmbeddedStore, Options};
use control_types::value;
use control_types::value::{Map, Value};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

const GROUP: &str = "/apis/wardle.example.com/v1alpha1";

async fn server(dir: &Path, cluster: Cluster) -> ApiServer {
    let trust = ClientTrust::new(cluster.ca.certificate_pem()).expect("trust");
    let proxy = cluster.front_proxy_client().expect("issued");
    let tokens = Tokens::new(Arc::new(cluster.service_account_key));
    let store = EmbeddedStore::open_in(&dir.join("store"), Options::default()).expect("a store");
    ApiServer::new(Config {
        store: Arc::new(store),
        access: Arc::new(ClusterAccess::new(trust, tokens)),
        encryption: Default::default(),
        advertise_address: [127, 0, 0, 1].into(),
        advertise_port: 6443,
        service_cidrs: vec!["10.96.0.0/16".parse().expect("a range")],
        node_ports: (30000, 32767),
        kubelets: None,
        proxy_identity: Some(ProxyIdentity::new(proxy)),
        egress: control_proxy::Egress::default(),
        whole: false,
        chain: control_apiserver::chain::Settings::default(),
    })
    .await
    .expect("a server")
}

/// An extension API server's stand-in, until dropped.
struct Extension {
    port: u16,
    ca: String,
    end: CancellationToken,
}

impl Drop for Extension {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl Extension {
    async fn start(dir: &Path, front_proxy_ca: &str) -> Self {
        let ca = Authority::create("wardle").expect("an authority");
        let issued = ca
            .issue(&Spec::server("wardle", ["api.default.svc"]))
            .expect("signed");
        let identity = ServingIdentity::new(&issued, dir).expect("an identity");
        let tls = server_config(identity, &[]).expect("TLS");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let trust = ClientTrust::new(front_proxy_ca).expect("trust");
        let end = CancellationToken::new();
        let ended = end.clone();
        tokio::spawn(async move {
            loop {
                let stream = tokio::select! {
                    () = ended.cancelled() => return,
                    accepted = listener.accept() => accepted.expect("a connection").0,
                };
                let (acceptor, trust, ended) = (acceptor.clone(), trust.clone(), ended.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
                    let believed = trust.verify(chain).is_ok();
                    let service =
                        hyper::service::service_fn(move |request| answer(request, believed));
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let serving =
                        builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
                    tokio::select! {
                        _ = serving => {}
                        () = ended.cancelled() => {}
                    }
                });
            }
        });
        Self {
            port,
            ca: ca.certificate_pem().to_owned(),
            end,
        }
    }

    fn registration(&self) -> Value {
        value!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1alpha1.wardle.example.com"},
            "spec": {
                "group": "wardle.example.com", "version": "v1alpha1",
                "groupPriorityMinimum": 2000, "versionPriority": 200,
                "caBundle": (STANDARD.encode(&self.ca)),
                "service": {"namespace": "default", "name": "api", "port": (i64::from(self.port))}
            }
        })
    }
}

async fn answer(
    request: Request<Incoming>,
    believed: bool,
) -> Result<Response<body::Body>, Infallible> {
    let json = |value: Value| Response::new(body::full(value.to_vec()));
    if !believed {
        let mut response = Response::new(body::empty());
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        return Ok(response);
    }
    let path = request.uri().path().to_owned();
    Ok(match path.as_str() {
        "/apis" => {
            let mut response = json(value!({"items": [{
                "metadata": {"name": "wardle.example.com"},
                "versions": [{"version": "v1alpha1", "resources": [{
                    "resource": "flunders", "scope": "Namespaced", "verbs": ["get"]
                }]}]
            }]}));
            response.headers_mut().insert(
                "content-type",
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
                    .parse()
                    .expect("a value"),
            );
            response
        }
        GROUP => json(value!({"kind": "APIResourceList"})),
        "/openapi/v2" => json(value!({
            "swagger": "2.0",
            "paths": {
                "/apis/wardle.example.com/v1alpha1/flunders": {"get": {
                    "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/wardle.Flunder"}}}
                }},
                "/apis/other.example.com/v1/things": {"get": {}}
            },
            "definitions": {"wardle.Flunder": {"type": "object"}, "wardle.Other": {}}
        })),
        "/openapi/v3" => json(value!({"paths": {"apis/wardle.example.com/v1alpha1": {
            "serverRelativeURL": "/openapi/v3/apis/wardle.example.com/v1alpha1?hash=A1"
        }}})),
        _ if path.ends_with("/elsewhere") => {
            let mut response = Response::new(body::empty());
            *response.status_mut() = StatusCode::FOUND;
            let to = "https://192.0.2.1/".parse().expect("a value");
            response.headers_mut().insert("location", to);
            response
        }
        _ if path.ends_with("/upgrade") => {
            let mut response = Response::new(body::empty());
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            for (name, value) in [("connection", "Upgrade"), ("upgrade", "echo")] {
                let value = value.parse().expect("a value");
                response.headers_mut().insert(name, value);
            }
            let user = request.headers()["x-remote-user"].clone();
            tokio::spawn(async move {
                let upgraded = hyper::upgrade::on(request).await.expect("upgraded");
                let mut stream = TokioIo::new(upgraded);
                stream.write_all(user.as_bytes()).await.expect("written");
                let mut bytes = [0; 5];
                stream.read_exact(&mut bytes).await.expect("read");
                stream.write_all(&bytes).await.expect("written");
                stream.shutdown().await.expect("closed");
            });
            response
        }
        _ if request.uri().query() == Some("watch=true") => {
            // One event now, and then nothing for long.
            let frames = futures::stream::unfold(0, |sent| async move {
                if sent == 1 {
                    std::future::pending::<()>().await;
                }
                let frame = Frame::data(Bytes::from_static(b"{\"type\":\"ADDED\"}\n"));
                Some((Ok::<_, body::BoxError>(frame), sent + 1))
            });
            Response::new(body::Body::new(StreamBody::new(frames)))
        }
        _ => {
            let mut headers = Map::new();
            for name in request.headers().keys() {
                let all: Vec<&str> = request
                    .headers()
                    .get_all(name)
                    .iter()
                    .filter_map(|value| value.to_str().ok())
                    .collect();
                headers.insert(name.as_str(), all.join("|"));
            }
            let method = request.method().to_string();
            let target = request.uri().path_and_query().expect("a path").to_string();
            let sent = request
                .into_body()
                .collect()
                .await
                .expect("a body")
                .to_bytes();
            json(value!({
                "method": method, "target": target, "headers": headers,
                "body": (String::from_utf8_lossy(&sent).into_owned())
            }))
        }
    })
}

async fn register(server: &ApiServer, extension: &Extension) {
    let service = value!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "api"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}
    });
    let path = "/api/v1/namespaces/default/services";
    let (code, answer) = ask(server, &root(), Method::POST, path, Some(service)).await;
    assert_eq!(code, 201, "{answer}");
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    let made = Some(extension.registration());
    let (code, answer) = ask(server, &root(), Method::POST, path, made).await;
    assert_eq!(code, 201, "{answer}");
}

/// Waits for the condition to have a reason, and gives its message.
async fn until(server: &ApiServer, reason: &str) -> String {
    let path = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.wardle.example.com";
    let began = Instant::now();
    loop {
        let (_, service) = ask(server, &root(), Method::GET, path, None).await;
        let condition = service.items_at(&["status", "conditions"]).first().cloned();
        let condition = condition.unwrap_or_default();
        if condition.str_at(&["reason"]) == Some(reason) {
            return condition
                .str_at(&["message"])
                .unwrap_or_default()
                .to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(40), "{condition}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn text(response: Response<body::Body>) -> (u16, String) {
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body");
    (
        code,
        String::from_utf8_lossy(&bytes.to_bytes()).into_owned(),
    )
}

#[tokio::test]
async fn requests_reach_the_extension_server_with_the_caller_s_identity() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = Cluster::load_or_create(dir.path().join("pki")).expect("keys");
    let extension = Extension::start(dir.path(), cluster.front_proxy_ca.certificate_pem()).await;
    let server = server(dir.path(), cluster).await;
    register(&server, &extension).await;
    assert_eq!(until(&server, "Passed").await, "all checks passed");
    let mut alice = User::named("alice", ["team", MASTERS]);
    alice.uid = "17".into();
    alice.extra = vec![("example.org/scope".into(), vec!["a".into()])];
    let path = format!("{GROUP}/namespaces/default/flunders/x%2Fy?pretty=1&a=b");
    let forged = [
        ("x-remote-user", "root"),
        ("x-remote-extra-scope", "all"),
        ("authorization", "Bearer secret"),
        ("impersonate-user", "eve"),
        ("content-type", "application/json"),
    ];
    let sent = Some(value!({"a": 1}));
    let response = send(&server, &alice, Method::POST, &path, &forged, sent).await;
    let (code, body) = text(response).await;
    assert_eq!(code, 200, "{body}");
    let told = Value::from_slice(body.as_bytes()).expect("JSON");
    assert_eq!(told.str_at(&["method"]), Some("POST"));
    assert_eq!(told.str_at(&["target"]), Some(path.as_str()));
    assert_eq!(told.str_at(&["body"]), Some("{\"a\":1}"));
    let header = |name: &str| told.str_at(&["headers", name]);
    assert_eq!(header("x-remote-user"), Some("alice"));
    assert_eq!(header("x-remote-uid"), Some("17"));
    assert_eq!(
        header("x-remote-group"),
        Some("team|system:masters|system:authenticated")
    );
    assert_eq!(header("x-remote-extra-example.org%2fscope"), Some("a"));
    for gone in ["authorization", "impersonate-user", "x-remote-extra-scope"] {
        assert_eq!(header(gone), None, "{gone}");
    }

    let path = format!("{GROUP}/elsewhere");
    let response = send(&server, &alice, Method::GET, &path, &[], None).await;
    assert_eq!(text(response).await.0, 502);

    let path = format!("{GROUP}/flunders?watch=true");
    let response = send(&server, &alice, Method::GET, &path, &[], None).await;
    let mut stream = response.into_body();
    let first = tokio::time::timeout(Duration::from_secs(5), stream.frame()).await;
    let frame = first.expect("in time").expect("an event").expect("a frame");
    assert_eq!(frame.data_ref().expect("data"), "{\"type\":\"ADDED\"}\n");

    let eve = User::named("eve", []);
    let path = format!("{GROUP}/flunders");
    let (code, _) = ask(&server, &eve, Method::GET, &path, None).await;
    assert_eq!(code, 403, "rights are judged here first");
}

#[tokio::test]
async fn groups_of_extension_servers_are_discovered_and_go_with_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = Cluster::load_or_create(dir.path().join("pki")).expect("keys");
    let extension = Extension::start(dir.path(), cluster.front_proxy_ca.certificate_pem()).await;
    let server = server(dir.path(), cluster).await;
    register(&server, &extension).await;
    until(&server, "Passed").await;
    let names = async |accept: &str, path: &[&str]| {
        let headers = [("accept", accept)];
        let response = send(&server, &root(), Method::GET, "/apis", &headers, None).await;
        let list = Value::from_slice(text(response).await.1.as_bytes()).expect("JSON");
        let key = if path.len() == 1 { "groups" } else { "items" };
        let all = list.items_at(&[key]).to_vec();
        let at = all
            .iter()
            .position(|one| one.str_at(path) == Some("wardle.example.com"));
        at.map(|at| (at + 1 == all.len(), all[at].clone()))
    };
    let (last, group) = names("application/json", &["name"]).await.expect("listed");
    assert!(last, "its priority is below those of all others");
    assert_eq!(
        group.str_at(&["preferredVersion", "groupVersion"]),
        Some("wardle.example.com/v1alpha1")
    );
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let began = Instant::now();
    loop {
        let (_, group) = names(aggregated, &["metadata", "name"])
            .await
            .expect("listed");
        let version = &group.items_at(&["versions"])[0];
        if version.str_at(&["freshness"]) == Some("Current") {
            let resource = &version.items_at(&["resources"])[0];
            assert_eq!(resource.str_at(&["resource"]), Some("flunders"));
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{group}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (code, one) = ask(
        &server,
        &root(),
        Method::GET,
        "/apis/wardle.example.com",
        None,
    )
    .await;
    assert_eq!((code, one.str_at(&["kind"])), (200, Some("APIGroup")));
    let (code, list) = ask(&server, &root(), Method::GET, GROUP, None).await;
    assert_eq!(
        (code, list.str_at(&["kind"])),
        (200, Some("APIResourceList"))
    );

    let (_, index) = ask(&server, &root(), Method::GET, "/openapi/v3", None).await;
    let place = [
        "paths",
        "apis/wardle.example.com/v1alpha1",
        "serverRelativeURL",
    ];
    let url = index.str_at(&place).expect("in the index").to_owned();
    assert!(index.path(&["paths", "api/v1"]).is_some());
    let (code, told) = ask(&server, &root(), Method::GET, &url, None).await;
    assert_eq!((code, told.str_at(&["target"])), (200, Some(url.as_str())));

    let (_, swagger) = ask(&server, &root(), Method::GET, "/openapi/v2", None).await;
    let flunders = ["paths", "/apis/wardle.example.com/v1alpha1/flunders", "get"];
    assert!(swagger.path(&flunders).is_some());
    let schema = ["definitions", "wardle.Flunder", "type"];
    assert_eq!(swagger.str_at(&schema), Some("object"));
    // It does not speak for what it is not registered for.
    let things = ["paths", "/apis/other.example.com/v1/things"];
    assert!(swagger.path(&things).is_none());
    assert!(swagger.path(&["definitions", "wardle.Other"]).is_none());
    let pods = ["paths", "/api/v1/namespaces/{namespace}/pods", "get"];
    assert!(swagger.path(&pods).is_some());
    let page = send(&server, &root(), Method::GET, "/metrics", &[], None).await;
    let (_, page) = text(page).await;
    let gauge = "aggregator_unavailable_apiservice{name=\"v1alpha1.wardle.example.com\"} 0\n";
    assert!(page.contains(gauge), "{page}");

    let registered = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.wardle.example.com";
    let (code, _) = ask(&server, &root(), Method::DELETE, registered, None).await;
    assert_eq!(code, 200);
    let began = Instant::now();
    while names("application/json", &["name"]).await.is_some() {
        assert!(began.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (code, _) = ask(&server, &root(), Method::GET, GROUP, None).await;
    assert_eq!(code, 404);
    let (_, swagger) = ask(&server, &root(), Method::GET, "/openapi/v2", None).await;
    assert!(swagger.path(&flunders).is_none());
}

#[tokio::test]
async fn what_cannot_be_reached_is_told_and_answers_503() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = Cluster::load_or_create(dir.path().join("pki")).expect("keys");
    let extension = Extension::start(dir.path(), cluster.front_proxy_ca.certificate_pem()).await;
    let server = server(dir.path(), cluster).await;
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    let mut made = extension.registration();
    // An authority that did not sign the server's certificate.
    let other = Authority::create("other").expect("an authority");
    let right = made.str_at(&["spec", "caBundle"]).map(str::to_owned);
    let wrong = STANDARD.encode(other.certificate_pem());
    made.set_path(&["spec", "caBundle"], wrong);
    let (code, _) = ask(&server, &root(), Method::POST, path, Some(made)).await;
    assert_eq!(code, 201);
    assert_eq!(
        until(&server, "ServiceNotFound").await,
        "service/api in \"default\" is not present"
    );
    let flunders = format!("{GROUP}/flunders");
    let response = send(&server, &root(), Method::GET, &flunders, &[], None).await;
    assert_eq!(text(response).await, (503, "service unavailable\n".into()));
    let service = value!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "api"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}
    });
    let services = "/api/v1/namespaces/default/services";
    let (code, _) = ask(&server, &root(), Method::POST, services, Some(service)).await;
    assert_eq!(code, 201);
    let why = until(&server, "FailedDiscoveryCheck").await;
    assert!(
        why.contains("x509: certificate signed by unknown authority"),
        "{why}"
    );
    let fix = value!({"spec": {"caBundle": right}});
    let one = format!("{path}/v1alpha1.wardle.example.com");
    let (code, _) = ask(&server, &root(), Method::PATCH, &one, Some(fix)).await;
    assert_eq!(code, 200);
    until(&server, "Passed").await;
    drop(extension);
    // The address is still there: it is a request that notices, or the next look.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let response = send(&server, &root(), Method::GET, &flunders, &[], None).await;
    let (code, why) = text(response).await;
    assert_eq!(code, 503);
    assert!(why.contains("connection refused"), "{why}");
}

#[tokio::test]
async fn upgraded_connections_carry_bytes_both_ways() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = Cluster::load_or_create(dir.path().join("pki")).expect("keys");
    let extension = Extension::start(dir.path(), cluster.front_proxy_ca.certificate_pem()).await;
    let serving = cluster.serving(["127.0.0.1"]).expect("issued");
    let admin = cluster.administrator().expect("issued");
    let authority = cluster.ca.certificate_pem().to_owned();
    let server = server(dir.path(), cluster).await;
    register(&server, &extension).await;
    until(&server, "Passed").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let identity = ServingIdentity::new(&serving, dir.path()).expect("an identity");
    let tls = Arc::new(ArcSwap::from_pointee(
        server_config(identity, &[]).expect("TLS"),
    ));
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(server.serve([listener], tls, shutdown.clone()));
    let target = Target {
        host: "127.0.0.1".into(),
        port,
        tls: Some(Arc::new(
            client_config(&authority, Some(&admin)).expect("TLS"),
        )),
        server_name: None,
        dialer: Dialer::default(),
    };
    let request = Request::get(format!("{GROUP}/namespaces/default/flunders/x/upgrade"))
        .header("host", "x")
        .header("connection", "Upgrade")
        .header("upgrade", "echo")
        .body(body::empty())
        .expect("a request");
    let response = target.send(request).await.expect("an answer");
    assert_eq!(response.status(), 101);
    let upgraded = hyper::upgrade::on(response).await.expect("upgraded");
    let mut stream = TokioIo::new(upgraded);
    stream.write_all(b"hello").await.expect("written");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.expect("read");
    assert_eq!(String::from_utf8_lossy(&all), "kubernetes-adminhello");
    shutdown.cancel();
    running.await.expect("ended");
}

#[tokio::test]
async fn what_nodes_use_is_served_here_until_another_server_is_registered() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = Cluster::load_or_create(dir.path().join("pki")).expect("keys");
    let port = agent(&cluster, dir.path()).await;
    let server = server_alone(dir.path(), cluster).await;
    let node = value!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}});
    let (code, _) = ask(&server, &root(), Method::POST, "/api/v1/nodes", Some(node)).await;
    assert_eq!(code, 201);
    let status = value!({"status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": (i64::from(port))}}
    }});
    let path = "/api/v1/nodes/node-1/status";
    let (code, _) = ask(&server, &root(), Method::PATCH, path, Some(status)).await;
    assert_eq!(code, 200);
    let (_, groups) = ask(&server, &root(), Method::GET, "/apis", None).await;
    let names = groups.items_at(&["groups"]).iter();
    let names: Vec<_> = names.filter_map(|group| group.str_at(&["name"])).collect();
    assert!(
        names.ends_with(&["metrics.k8s.io", "network.orlop.dev", "storage.orlop.dev"]),
        "{names:?}"
    );
    let base = "/apis/metrics.k8s.io/v1beta1";
    let began = Instant::now();
    let item = loop {
        let path = format!("{base}/nodes");
        let (code, list) = ask(&server, &root(), Method::GET, &path, None).await;
        assert_eq!(
            (code, list.str_at(&["kind"])),
            (200, Some("NodeMetricsList"))
        );
        if let Some(item) = list.items_at(&["items"]).first() {
            break item.clone();
        }
        assert!(began.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(item.str_at(&["usage", "memory"]), Some("1Mi"));
    let headers = [(
        "accept",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    )];
    let path = format!("{base}/nodes");
    let table = send(&server, &root(), Method::GET, &path, &headers, None).await;
    let table = Value::from_slice(text(table).await.1.as_bytes()).expect("JSON");
    let names = table.items_at(&["columnDefinitions"]).iter();
    let names: Vec<_> = names.map(|one| one.str_at(&["name"])).collect();
    let wanted = ["Name", "cpu", "memory", "Window"].map(Some);
    assert_eq!(names, wanted);
    let cells = table.items_at(&["rows"])[0].items_at(&["cells"]).to_vec();
    assert_eq!((&cells[0], &cells[2]), (&value!("node-1"), &value!("1Mi")));
    let (_, index) = ask(&server, &root(), Method::GET, "/openapi/v3", None).await;
    let place = ["paths", "apis/metrics.k8s.io/v1beta1", "serverRelativeURL"];
    let url = index.str_at(&place).expect("in the index").to_owned();
    let (code, document) = ask(&server, &root(), Method::GET, &url, None).await;
    let nodes = ["paths", "/apis/metrics.k8s.io/v1beta1/nodes", "get"];
    assert!(code == 200 && document.path(&nodes).is_some());
    let (_, swagger) = ask(&server, &root(), Method::GET, "/openapi/v2", None).await;
    assert!(swagger.path(&nodes).is_some());
    let (code, one) = ask(
        &server,
        &root(),
        Method::GET,
        &format!("{base}/nodes/node-2"),
        None,
    )
    .await;
    assert_eq!(code, 404);
    assert_eq!(
        one.str_at(&["message"]),
        Some("nodes.metrics.k8s.io \"node-2\" not found")
    );
    let registered = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io";
    let theirs = value!({"spec": {
        "insecureSkipTLSVerify": true, "service": {"namespace": "kube-system", "name": "theirs"}
    }});
    let (code, answer) = ask(&server, &root(), Method::PATCH, registered, Some(theirs)).await;
    assert_eq!(code, 200, "{answer}");
    let began = Instant::now();
    loop {
        let path = format!("{base}/nodes");
        let response = send(&server, &root(), Method::GET, &path, &[], None).await;
        if text(response).await == (503, "service unavailable\n".to_owned()) {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A server that runs alone, and so does what other components do beside a stock one.
async fn server_alone(dir: &Path, cluster: Cluster) -> ApiServer {
    let kubelets = Kubelets::new(
        cluster.ca.certificate_pem(),
        &cluster.kubelet_client().expect("issued"),
    )
    .expect("usable");
    let mut config = server(dir, cluster).await.api().config.clone();
    config.kubelets = Some(kubelets);
    config.whole = true;
    ApiServer::new(config).await.expect("a server")
}

/// The paths of all lists that are served, by discovery.
async fn lists(server: &ApiServer) -> Vec<String> {
    let mut roots = vec!["/api/v1".to_owned()];
    let (_, groups) = ask(server, &root(), Method::GET, "/apis", None).await;
    for group in groups.items_at(&["groups"]) {
        let versions = group.items_at(&["versions"]).iter();
        let names = versions.filter_map(|version| version.str_at(&["groupVersion"]));
        roots.extend(names.map(|name| format!("/apis/{name}")));
    }
    let mut lists = Vec::new();
    for root_path in roots {
        let (code, resources) = ask(server, &root(), Method::GET, &root_path, None).await;
        assert_eq!(code, 200, "{root_path}");
        for resource in resources.items_at(&["resources"]) {
            let mut verbs = resource.items_at(&["verbs"]).iter();
            if verbs.any(|verb| verb.as_str() == Some("list")) {
                let name = resource.str_at(&["name"]).expect("a name");
                lists.push(format!("{root_path}/{name}"));
            }
        }
        lists.push(root_path);
    }
    lists
}

#[tokio::test]
async fn every_path_answers_what_kubectl_and_client_go_accept() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = Cluster::load_or_create(dir.path().join("pki")).expect("keys");
    let server = server_alone(dir.path(), cluster).await;
    let definition = value!({
        "metadata": {"name": "gears.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
            }]
        }
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, answer) = ask(&server, &root(), Method::POST, path, Some(definition)).await;
    assert_eq!(code, 201, "{answer:?}");
    let gears = "/apis/example.com/v1/gears".to_owned();
    let began = Instant::now();
    let mut paths = lists(&server).await;
    while !paths.contains(&gears) {
        assert!(began.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(20)).await;
        paths = lists(&server).await;
    }
    assert!(paths.contains(&"/apis/metrics.k8s.io/v1beta1/nodes".to_owned()));
    let endpoints = "/apis/network.orlop.dev/v1alpha1/podendpoints";
    assert!(paths.contains(&endpoints.to_owned()));
    let claims = "/apis/storage.orlop.dev/v1alpha1/localclaims";
    assert!(paths.contains(&claims.to_owned()));
    let others = [
        "/api",
        "/apis",
        "/apis/apps",
        "/apis/metrics.k8s.io",
        "/version",
        "/healthz",
        "/livez",
        "/readyz",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/apis/apps/v1",
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
        "/",
    ];
    paths.extend(others.map(str::to_owned));
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    let cbor = "application/cbor,application/json;q=0.9,application/vnd.kubernetes.protobuf;q=0.8";
    for accept in [
        table,
        discovery,
        metadata,
        cbor,
        "application/vnd.kubernetes.protobuf, */*",
        "application/vnd.kubernetes.protobuf,application/json",
        "application/json, */*",
        "application/json",
        "*/*",
    ] {
        for path in &paths {
            let headers = [("accept", accept)];
            let answer = send(&server, &root(), Method::GET, path, &headers, None).await;
            let code = answer.status().as_u16();
            assert_eq!(code, 200, "{path} with {accept}");
        }
    }
}

/// A node's agent that has used a bit more each time it is asked.
async fn agent(cluster: &Cluster, dir: &Path) -> u16 {
    let issued = cluster
        .ca
        .issue(&Spec::server("system:node:node-1", ["127.0.0.1"]))
        .expect("signed");
    let identity = ServingIdentity::new(&issued, dir).expect("an identity");
    let acceptor = TlsAcceptor::from(Arc::new(server_config(identity, &[]).expect("TLS")));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let mut used = 0;
        while let Ok((stream, _)) = listener.accept().await {
            used += 1;
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let service = hyper::service::service_fn(move |_: Request<Incoming>| async move {
                    let text = format!(
                        "node_cpu_usage_seconds_total {used}\nnode_memory_working_set_bytes 1048576\n"
                    );
                    Ok::<_, Infallible>(Response::new(body::full(text)))
                });
                let _ = auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    port
}
