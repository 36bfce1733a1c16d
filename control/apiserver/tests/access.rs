//! Access end to end, through the in-process transport: the policy is there from
//! the start, tokens are issued, recognised and die, roles take effect.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control_access::{MASTERS, Tokens, User};
use control_apiserver::{ApiServer, ClusterAccess, Config};
use control_pki::{ClientTrust, Cluster};
use control_request::body;
use control_store::embedded::{EmbeddedStore, Options};
use control_types::value;
use control_types::value::Value;
use http::{Method, Request};
use http_body_util::BodyExt;
use tower::ServiceExt;

async fn server(dir: &Path) -> ApiServer {
    let cluster = Cluster::load_or_create(dir.join("pki")).expect("keys");
    let trust = ClientTrust::new(cluster.ca.certificate_pem()).expect("trust");
    let tokens = Tokens::new(Arc::new(cluster.service_account_key));
    let store = EmbeddedStore::open_in(&dir.join("store"), Options::default()).expect("a store");
    ApiServer::new(Config {
        store: Arc::new(store),
        access: Arc::new(ClusterAccess::new(trust, tokens)),
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
        chain: control_apiserver::chain::Settings::default(),
    })
    .await
    .expect("a server")
}

/// Asks as a user, or with a bearer token.
async fn ask(
    server: &ApiServer,
    who: Result<&User, &str>,
    method: Method,
    path: &str,
    object: Option<Value>,
) -> (u16, Value) {
    let bytes = object.map_or_else(Bytes::new, |object| object.to_vec().into());
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(body::full(bytes))
        .expect("a request");
    match who {
        Ok(user) => {
            request.extensions_mut().insert(user.clone());
        }
        Err(token) => {
            let header = format!("Bearer {token}").parse().expect("a header");
            request.headers_mut().insert("authorization", header);
        }
    }
    let response = server.service().oneshot(request).await.expect("infallible");
    let code = response.status().as_u16();
    let bytes = response
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    (code, Value::from_slice(&bytes).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn access_from_the_first_start_to_a_deleted_account() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    let root = User::named("root", [MASTERS]);

    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let (code, list) = ask(&server, Ok(&root), Method::GET, roles, None).await;
    assert_eq!(code, 200);
    assert!(
        list.items_at(&["items"]).len() > 60,
        "the bootstrap roles are there"
    );

    let account =
        value!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "robot" } });
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let (code, _) = ask(&server, Ok(&root), Method::POST, accounts, Some(account)).await;
    assert_eq!(code, 201);
    let request =
        value!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let path = format!("{accounts}/robot/token");
    let (code, answer) = ask(&server, Ok(&root), Method::POST, &path, Some(request)).await;
    assert_eq!(code, 201, "{answer:?}");
    let token = answer
        .str_at(&["status", "token"])
        .expect("a token")
        .to_owned();

    let pods = "/api/v1/namespaces/default/pods";
    let (code, refusal) = ask(&server, Err(&token), Method::GET, pods, None).await;
    assert_eq!(code, 403);
    assert_eq!(
        refusal.str_at(&["message"]),
        Some(
            "pods is forbidden: User \"system:serviceaccount:default:robot\" cannot list resource \"pods\" \
             in API group \"\" in the namespace \"default\""
        )
    );

    let binding = value!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": { "name": "robot-views" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:aggregate-to-view" },
        "subjects": [{ "kind": "ServiceAccount", "name": "robot", "namespace": "default" }]
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    let (code, answer) = ask(&server, Ok(&root), Method::POST, bindings, Some(binding)).await;
    assert_eq!(code, 201, "{answer:?}");
    let mut code = 0;
    for _ in 0..100 {
        (code, _) = ask(&server, Err(&token), Method::GET, pods, None).await;
        if code == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(code, 200, "the binding takes effect");
    let (code, _) = ask(&server, Err(&token), Method::GET, "/api/v1/pods", None).await;
    assert_eq!(code, 403, "in its namespace only");

    let review = value!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": { "verb": "get", "resource": "pods", "namespace": "default" } }
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let (code, answer) = ask(&server, Err(&token), Method::POST, path, Some(review)).await;
    assert_eq!(
        (code, answer.bool_at(&["status", "allowed"])),
        (201, Some(true)),
        "{answer:?}"
    );

    let (code, _) = ask(&server, Err("no.such.token"), Method::GET, pods, None).await;
    assert_eq!(code, 401);
    let (code, _) = ask(
        &server,
        Ok(&root),
        Method::DELETE,
        &format!("{accounts}/robot"),
        None,
    )
    .await;
    assert_eq!(code, 200);
    for _ in 0..100 {
        let (now, _) = ask(&server, Err(&token), Method::GET, pods, None).await;
        if now == 401 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the token of a deleted account still works");
}
