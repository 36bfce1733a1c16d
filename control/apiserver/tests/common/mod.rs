//! A server over an empty store, asked through the in-process transport.

#![allow(dead_code, reason = "each test takes what it needs")]

pub mod late;
pub mod memory;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use control_access::{MASTERS, Tokens, User};
use control_apiserver::{ApiServer, ClusterAccess, Config};
use control_auth::Settings;
use control_pki::{ClientTrust, Cluster};
use control_request::body;
use control_store::embedded::{EmbeddedStore, Options};
use control_types::value::Value;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use tower::ServiceExt;

/// Starts a server whose files are in `dir`.
pub async fn server(dir: &Path) -> ApiServer {
    server_with(dir, Settings::default()).await
}

/// As [`server`], with settings of access.
pub async fn server_with(dir: &Path, settings: Settings) -> ApiServer {
    server_of(dir, settings, control_apiserver::chain::Settings::default()).await
}

/// As [`server`], with settings of access and of the request chain.
pub async fn server_of(
    dir: &Path,
    settings: Settings,
    chain: control_apiserver::chain::Settings,
) -> ApiServer {
    let cluster = Cluster::load_or_create(dir.join("pki")).expect("keys");
    let trust = ClientTrust::new(cluster.ca.certificate_pem()).expect("trust");
    let tokens = Tokens::new(Arc::new(cluster.service_account_key));
    let store = EmbeddedStore::open_in(&dir.join("store"), Options::default()).expect("a store");
    ApiServer::new(Config {
        store: Arc::new(store),
        access: Arc::new(ClusterAccess::configured(trust, tokens, settings).expect("settings")),
        encryption: control_encryption::Encryption::own(&dir.join("pki/encryption.key"))
            .expect("keys"),
        advertise_address: [127, 0, 0, 1].into(),
        advertise_port: 6443,
        service_cidrs: vec!["10.96.0.0/16".parse().expect("a range")],
        node_ports: (30000, 32767),
        kubelets: None,
        proxy_identity: None,
        egress: control_proxy::Egress::default(),
        whole: false,
        chain,
    })
    .await
    .expect("a server")
}

/// Starts a server on a store whose changes are told late once the flag is set.
pub async fn server_that_lags(dir: &Path) -> (ApiServer, Arc<AtomicBool>) {
    let first = server(dir).await;
    let mut config = first.api().config.clone();
    let late = late::Late::new(Arc::clone(&config.store));
    let begun = late.begun();
    config.store = Arc::new(late);
    (ApiServer::new(config).await.expect("a server"), begun)
}

/// Starts a second server on the store of a first one.
pub async fn beside(first: &ApiServer) -> ApiServer {
    let mut config = first.api().config.clone();
    config.advertise_address = [127, 0, 0, 2].into();
    ApiServer::new(config).await.expect("a server")
}

/// Who may do anything.
pub fn root() -> User {
    User::named("root", [MASTERS])
}

/// Sends a request and gives the answer's head and body.
pub async fn send(
    server: &ApiServer,
    user: &User,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    object: Option<Value>,
) -> Response<body::Body> {
    let bytes = object.map_or_else(Bytes::new, |object| object.to_vec().into());
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(body::full(bytes)).expect("a request");
    request.extensions_mut().insert(user.clone());
    server.service().oneshot(request).await.expect("infallible")
}

/// Asks and reads the whole answer as JSON.
pub async fn ask(
    server: &ApiServer,
    user: &User,
    method: Method,
    path: &str,
    object: Option<Value>,
) -> (u16, Value) {
    let media = if method == Method::PATCH {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let answer = send(
        server,
        user,
        method,
        path,
        &[("content-type", media)],
        object,
    )
    .await;
    let code = answer.status().as_u16();
    let bytes = answer
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    (code, Value::from_slice(&bytes).unwrap_or_default())
}

/// The events of a watch, until there is none for a while or it ends.
pub async fn events(answer: Response<body::Body>) -> Vec<Value> {
    let mut body = answer.into_body();
    let mut bytes = Vec::new();
    while let Ok(Some(Ok(frame))) =
        tokio::time::timeout(Duration::from_millis(300), body.frame()).await
    {
        bytes.extend_from_slice(frame.data_ref().expect("data"));
    }
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| Value::from_slice(line).expect("JSON"))
        .collect()
}
