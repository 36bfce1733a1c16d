//! Tests joining a real server on loopback with its controllers.

use std::{path::Path, time::Duration};

use clap::Parser;
use control_client::{Client, Patch, Selection, resources};
use control_supervise::Supervisor;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Error, Folder, Join, encode, ensure, keep, keep::keep as keep_up, request};
use crate::commands::server;

const TOKEN: &str = "abcdef.0123456789abcdef";

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: server::Options,
}

#[tokio::test]
async fn options_that_cannot_be_used_leave_no_folder() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = Folder::new(dir.path().join("agent"));
    let hash = format!("sha256:{}", "0".repeat(64));
    for (server, token, hash) in [
        ("10.0.0.1:6443", TOKEN, hash.as_str()),
        ("https://10.0.0.1:6443", "abcdef", &hash),
        ("https://10.0.0.1:6443", TOKEN, "sha256:0"),
    ] {
        let join = Join {
            server: server.to_owned(),
            token: token.to_owned(),
            hashes: vec![hash.to_owned()],
        };
        let error = ensure(&folder, "n1", Some(&join)).await;
        assert!(error.is_err(), "{server} {token} {hash}");
        assert!(!folder.path().exists(), "{server} {token} {hash}");
    }
}

/// A control plane in this process.
pub(crate) struct Server {
    url: String,
    pub(crate) admin: Client,
    hash: String,
    stop: CancellationToken,
    pub(crate) running: JoinHandle<()>,
}

impl Server {
    /// Starts it with tasks of the current supervisor.
    pub(crate) async fn start(dir: &Path) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let port = free_port::free_port().expect("a port");
        let line = [
            "test",
            "--data-dir",
            &dir.display().to_string(),
            "--bind-address",
            "127.0.0.1",
            "--secure-port",
            &port.to_string(),
        ]
        .map(str::to_owned);
        let options = Line::parse_from(line).options;
        let stop = CancellationToken::new();
        let until = stop.clone();
        let supervisor = Supervisor::current();
        let running = tokio::spawn(async move {
            supervisor
                .scope(Box::pin(server::serve(options, until)))
                .await
                .expect("served");
        });
        let kubeconfig = dir.join("admin.kubeconfig");
        let mut found = None;
        for _ in 0..400 {
            if kubeconfig.exists() {
                let client = Client::from_kubeconfig(&kubeconfig)
                    .await
                    .expect("a client");
                let map = client
                    .get::<Value>(&resources::CONFIG_MAPS, "kube-public", "cluster-info")
                    .await;
                if let Ok(map) = map {
                    found = Some((client, map));
                    break;
                }
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        let (admin, map) = found.expect("the server comes up");
        let cluster = super::read(&map).expect("cluster-info");
        assert_eq!(cluster.server, format!("https://127.0.0.1:{port}"));
        Self {
            url: cluster.server,
            admin,
            hash: cluster.hash,
            stop,
            running,
        }
    }

    /// A token as kubeadm makes it.
    pub(crate) async fn token(&self, token: &str, expiration: &str) {
        let (id, secret) = token.split_once('.').expect("a token");
        let data = json!({
            "token-id": encode(id), "token-secret": encode(secret),
            "usage-bootstrap-authentication": encode("true"),
            "expiration": encode(expiration),
            "auth-extra-groups": encode("system:bootstrappers:kubeadm:default-node-token"),
        });
        let body = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token", "data": data});
        self.admin
            .create::<Value>(&resources::SECRETS, "kube-system", &body)
            .await
            .expect("created");
        // Credentials are looked up in the cache, which is updated a moment later.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    pub(crate) fn join(&self, token: &str) -> Join {
        Join {
            server: self.url.clone(),
            token: token.to_owned(),
            hashes: vec![self.hash.clone()],
        }
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.running.await.expect("no panic");
    }
}

async fn who_am_i(client: &Client) -> Value {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer: Value = client
        .request(http::Method::POST, path, Some(&body))
        .await
        .expect("an answer");
    answer["status"]["userInfo"].clone()
}

/// A node registers itself, as its agent does.
async fn register(client: &Client, name: &str, address: &str) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    client
        .create::<Value>(&resources::NODES, "", &node)
        .await
        .expect("created");
    // A patch: controllers write to a new node at the same time.
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}});
    client
        .patch_status::<Value>(&resources::NODES, "", name, Patch::Merge(&status))
        .await
        .expect("patched");
}

/// A node may read PodEndpoints of all pods, and no pods.
async fn reads_pod_endpoints_of_all_pods_alone(node: &Client) {
    let pods = node
        .list::<Value>(&resources::PODS, &Selection::all())
        .await;
    assert!(
        pods.is_err_and(|error| matches!(error, control_client::Error::Forbidden(_))),
        "a node lists all pods"
    );
    node.list::<Value>(&node_agent::POD_ENDPOINTS, &Selection::all())
        .await
        .expect("PodEndpoints");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_joins_serves_and_renews() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let server = Server::start(&dir.path().join("server")).await;
    let folder = Folder::new(dir.path().join("agent"));
    server.token(TOKEN, "2099-01-01T00:00:00Z").await;

    let own = ensure(&folder, "n1", Some(&server.join(TOKEN)))
        .await
        .expect("joined");
    let client = Client::from_kubeconfig(folder.file("kubeconfig"))
        .await
        .expect("a client");
    let user = who_am_i(&client).await;
    assert_eq!(user["username"], "system:node:n1");
    assert!(
        user["groups"]
            .as_array()
            .is_some_and(|all| all.contains(&json!("system:nodes"))),
        "{user}"
    );
    let again = ensure(&folder, "n1", None).await.expect("no token needed");
    assert_eq!(again.client, own.client);

    // No serving certificate before the node's addresses are recorded, and none for
    // addresses of others.
    let names = ["127.0.0.1".to_owned(), "n1".to_owned()];
    let stop = CancellationToken::new();
    let keeping = {
        let (folder, client, stop) = (folder.clone(), client.clone(), stop.clone());
        tokio::spawn(async move { keep_up(&folder, "n1", &names, &client, &stop).await })
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!folder.file("serving.crt").exists());
    register(&client, "n1", "127.0.0.1").await;
    let node: Value = server
        .admin
        .get(&resources::NODES, "", "n1")
        .await
        .expect("a node");
    let annotations = &node["metadata"]["annotations"];
    assert_eq!(annotations["orlop.dev/joined-from"], "127.0.0.1");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(
        !folder.file("serving.crt").exists(),
        "it is an address of the API server as well"
    );
    let vouch = json!({"metadata": {"annotations": {"orlop.dev/serving-names": "127.0.0.1"}}});
    let by_node: Result<Value, _> = client
        .patch(&resources::NODES, "", "n1", "", Patch::Merge(&vouch))
        .await;
    assert!(matches!(by_node, Err(control_client::Error::Forbidden(_))));
    server
        .admin
        .patch::<Value>(&resources::NODES, "", "n1", "", Patch::Merge(&vouch))
        .await
        .expect("patched");
    reads_pod_endpoints_of_all_pods_alone(&client).await;
    for _ in 0..200 {
        if folder.file("serving.crt").exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let pem = std::fs::read_to_string(folder.file("serving.crt")).expect("a certificate");
    let mut found = control_pki::names(&pem, &folder.file("serving.crt")).expect("read");
    found.sort();
    assert_eq!(found, ["127.0.0.1", "n1"]);
    let authority = std::fs::read_to_string(folder.file("ca.crt")).expect("the authority");
    assert!(
        !control_pki::is_signed_by(&pem, &authority).expect("read"),
        "clients of the API server trust whoever signed it"
    );
    stop.cancel();
    assert!(!keeping.await.expect("no panic"), "nothing was renewed");

    let foreign = ["127.0.0.1".to_owned(), "kubernetes.default.svc".to_owned()];
    let asked = control_pki::Request::new("system:node:n1", &["system:nodes"], &foreign)
        .expect("a request");
    let refused = tokio::time::timeout(
        Duration::from_secs(10),
        request::certificate(&client, &asked, request::RequestKind::Serving),
    );
    let refused = refused.await.expect("it is decided");
    let refused = refused.expect_err("a certificate of the API server");
    assert!(
        matches!(&refused, Error::Refused { how: "denied", .. }),
        "{refused}"
    );

    let renewed = keep::renew_now(&folder, "n1", &client).await;
    assert!(renewed.expect("renewed"));
    let new = ensure(&folder, "n1", None).await.expect("there");
    assert_ne!(new.client, own.client);
    let client = Client::from_kubeconfig(folder.file("kubeconfig"))
        .await
        .expect("a client");
    assert_eq!(who_am_i(&client).await["username"], "system:node:n1");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_should_not_join_is_told_why() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let server = Server::start(&dir.path().join("server")).await;
    let folder = Folder::new(dir.path().join("agent"));
    server
        .token("expire.0123456789abcdef", "2020-01-01T00:00:00Z")
        .await;
    server.token(TOKEN, "2099-01-01T00:00:00Z").await;

    for token in [
        "expire.0123456789abcdef",
        "nobody.0123456789abcdef",
        "abcdef.0123456789abcdeg",
    ] {
        let error = ensure(&folder, "n1", Some(&server.join(token)))
            .await
            .expect_err(token);
        assert!(
            matches!(error, Error::TokenRefused { .. }),
            "{token}: {error}"
        );
    }
    let mut join = server.join(TOKEN);
    join.hashes = vec![format!("sha256:{}", "0".repeat(64))];
    let error = ensure(&folder, "n1", Some(&join)).await.expect_err("hash");
    assert!(matches!(error, Error::WrongAuthority { .. }), "{error}");
    assert!(error.to_string().contains(&server.hash), "{error}");
    let mut join = server.join("rubbish");
    let error = ensure(&folder, "n1", Some(&join)).await.expect_err("form");
    assert!(matches!(error, Error::TokenForm), "{error}");
    join = server.join(TOKEN);
    join.server = "https://127.0.0.1:1".to_owned();
    let error = ensure(&folder, "n1", Some(&join))
        .await
        .expect_err("nobody");
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let error = ensure(&folder, "n1", None).await.expect_err("nothing");
    assert!(matches!(error, Error::NotJoined { .. }), "{error}");
    assert!(
        !folder.file("kubeconfig").exists(),
        "nothing half done stays"
    );

    // A token lets its bearer ask for a certificate, and no more.
    let text = control_client_text(&server.url, TOKEN);
    let bearer = Client::from_kubeconfig_text(&text, "test")
        .await
        .expect("a client");
    let user = who_am_i(&bearer).await;
    assert_eq!(user["username"], "system:bootstrap:abcdef");
    let secrets = Selection::all().namespace("kube-system");
    let listed = bearer.list::<Value>(&resources::SECRETS, &secrets).await;
    assert!(matches!(listed, Err(control_client::Error::Forbidden(_))));
    let asked =
        control_pki::Request::new("system:masters", &["system:masters"], &[]).expect("a request");
    let master = tokio::time::timeout(
        Duration::from_secs(1),
        request::certificate(&bearer, &asked, request::RequestKind::Client),
    );
    assert!(master.await.is_err(), "nobody approves that");
    server.end().await;
}

fn control_client_text(url: &str, token: &str) -> String {
    super::kubeconfig(
        &json!({"server": url, "insecure-skip-tls-verify": true}),
        &json!({"token": token}),
    )
}
