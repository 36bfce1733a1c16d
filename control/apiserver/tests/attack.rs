//! Attempts to be somebody else, or to do what one may not: each is refused with
//! the code and in the words of kube-apiserver, and none makes the server hold more
//! memory than [`BOUND`].

mod common;

use std::sync::Arc;

use bytes::Bytes;
use common::memory::{MIB, Memory};
use common::{root, server, server_with};
use control_access::FrontProxy;
use control_access::configuration::authentication::Anonymous;
use control_apiserver::ApiServer;
use control_auth::Settings;
use control_pki::{Authority, ClientTrust, Cluster, Spec, parse_certificates};
use control_request::body;
use control_request::peer::PeerCertificates;
use control_types::value;
use control_types::value::Value;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;

/// What a server may take more while it is attacked.
const BOUND: usize = 48 * MIB;

/// As the listener hands a request on: with a certificate, headers, or neither.
#[derive(Default)]
struct Caller<'a> {
    certificate: Option<PeerCertificates>,
    headers: Vec<(&'a str, String)>,
}

impl<'a> Caller<'a> {
    fn nobody() -> Self {
        Self::default()
    }

    fn bearer(token: &str) -> Self {
        Self::nobody().with("authorization", &format!("Bearer {token}"))
    }

    /// Whom `authority` vouches for.
    fn certified(authority: &Authority, name: &str, groups: &[&str]) -> Self {
        let issued = authority
            .issue(&Spec::client(name, groups))
            .expect("issued");
        let chain = parse_certificates(&issued.cert_pem).expect("a certificate");
        Self {
            certificate: Some(PeerCertificates(chain.into())),
            headers: Vec::new(),
        }
    }

    fn with(mut self, header: &'a str, value: &str) -> Self {
        self.headers.push((header, value.to_owned()));
        self
    }

    async fn ask(
        &self,
        server: &ApiServer,
        method: Method,
        path: &str,
        object: Option<Value>,
    ) -> (u16, Value) {
        let bytes = object.map_or_else(Bytes::new, |object| object.to_vec().into());
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let mut request = request.body(body::full(bytes)).expect("a request");
        if let Some(certificate) = &self.certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        let answer = server.service().oneshot(request).await.expect("infallible");
        let code = answer.status().as_u16();
        let bytes = answer
            .into_body()
            .collect()
            .await
            .expect("a body")
            .to_bytes();
        (code, Value::from_slice(&bytes).unwrap_or_default())
    }

    async fn get(&self, server: &ApiServer, path: &str) -> (u16, Value) {
        self.ask(server, Method::GET, path, None).await
    }

    /// 403 and the message.
    async fn refused(
        &self,
        server: &ApiServer,
        method: Method,
        path: &str,
        object: Option<Value>,
    ) -> String {
        let (code, answer) = self.ask(server, method, path, object).await;
        assert_eq!(code, 403, "{path}: {answer:?}");
        answer.str_at(&["message"]).unwrap_or_default().to_owned()
    }
}

async fn make(server: &ApiServer, path: &str, object: Value) -> Value {
    let (code, answer) = common::ask(server, &root(), Method::POST, path, Some(object)).await;
    assert_eq!(code, 201, "{path}: {answer:?}");
    answer
}

async fn remove(server: &ApiServer, path: &str) {
    let now = value!({ "gracePeriodSeconds": 0 });
    let (code, answer) = common::ask(server, &root(), Method::DELETE, path, Some(now)).await;
    assert_eq!(code, 200, "{path}: {answer:?}");
}

fn named(kind: &str, name: &str) -> Value {
    value!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name } })
}

/// A pod that refers to a secret, bound to a node.
fn pod(name: &str, node: &str, secret: &str) -> Value {
    value!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name },
        "spec": {
            "nodeName": node, "serviceAccountName": "robot",
            "containers": [{ "name": "c", "image": "i", "envFrom": [{ "secretRef": { "name": secret } }] }]
        }
    })
}

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// What everybody who is somebody may ask.
const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn who() -> Value {
    value!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" })
}

async fn token(server: &ApiServer, account: &str, spec: Value) -> String {
    let request = value!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": (spec) });
    let answer = make(server, &format!("{ACCOUNTS}/{account}/token"), request).await;
    answer
        .str_at(&["status", "token"])
        .expect("a token")
        .to_owned()
}

async fn whoami(server: &ApiServer, token: &str) -> (u16, String) {
    let (code, answer) = Caller::bearer(token)
        .ask(server, Method::POST, SELF, Some(who()))
        .await;
    let name = answer.str_at(&["status", "userInfo", "username"]);
    (
        code,
        name.or(answer.str_at(&["message"]))
            .unwrap_or_default()
            .to_owned(),
    )
}

/// Deletions reach the caches a moment later.
async fn soon_nobody(server: &ApiServer, token: &str, why: &str) {
    for _ in 0..200 {
        if whoami(server, token).await.0 == 401 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("a token still works: {why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_as_good_as_what_it_is_bound_to() {
    let mut memory = Memory::alone().await;
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    memory.begin();
    for account in ["robot", "other"] {
        make(&server, ACCOUNTS, named("ServiceAccount", account)).await;
    }
    make(&server, SECRETS, named("Secret", "s")).await;
    make(&server, "/api/v1/nodes", named("Node", "n1")).await;
    make(&server, PODS, pod("web", "n1", "s")).await;
    let bound = |kind: &str, name: &str| value!({ "boundObjectRef": { "kind": kind, "apiVersion": "v1", "name": name } });
    let robot = (201, "system:serviceaccount:default:robot".to_owned());
    let nobody = (401, "Unauthorized".to_owned());

    let plain = token(&server, "robot", value!({})).await;
    assert_eq!(whoami(&server, &plain).await, robot);
    let elsewhere = token(&server, "robot", value!({ "audiences": ["vault"] })).await;
    assert_eq!(
        whoami(&server, &elsewhere).await,
        nobody,
        "of another audience"
    );

    for (kind, name, path) in [
        ("Pod", "web", format!("{PODS}/web")),
        ("Secret", "s", format!("{SECRETS}/s")),
        ("Node", "n1", "/api/v1/nodes/n1".to_owned()),
    ] {
        let token = token(&server, "robot", bound(kind, name)).await;
        assert_eq!(whoami(&server, &token).await, robot, "{kind}");
        remove(&server, &path).await;
        soon_nobody(&server, &token, kind).await;
        // Made anew it is another: the token stays dead.
        match kind {
            "Pod" => drop(make(&server, PODS, pod("web", "n1", "s")).await),
            "Secret" => drop(make(&server, SECRETS, named("Secret", "s")).await),
            _ => drop(make(&server, "/api/v1/nodes", named("Node", "n1")).await),
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert_eq!(whoami(&server, &token).await, nobody, "{kind} made anew");
    }
    let other = value!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": (bound("Pod", "web")) });
    let path = format!("{ACCOUNTS}/other/token");
    let (code, answer) = common::ask(&server, &root(), Method::POST, &path, Some(other)).await;
    assert_eq!(
        (code, answer.str_at(&["message"])),
        (
            400,
            Some(
                r#"cannot bind token for serviceaccount "other" to pod running with different serviceaccount name."#
            )
        )
    );
    remove(&server, &format!("{ACCOUNTS}/robot")).await;
    soon_nobody(&server, &plain, "of a deleted account").await;
    make(&server, ACCOUNTS, named("ServiceAccount", "robot")).await;
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert_eq!(
        whoami(&server, &plain).await,
        nobody,
        "of an account made anew"
    );
    memory.assert_grown_less(BOUND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_token_is_nobodys() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let mut memory = Memory::alone().await;
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    memory.begin();
    let key = Cluster::load_or_create(dir.path().join("pki"))
        .expect("keys")
        .service_account_key;
    let account = make(&server, ACCOUNTS, named("ServiceAccount", "robot")).await;
    let good = token(&server, "robot", value!({})).await;
    let parts: Vec<&str> = good.split('.').collect();
    let (header, claims, signature) = (parts[0], parts[1], parts[2]);
    let encode = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let own_id = serde_json::from_slice::<serde_json::Value>(
        &URL_SAFE_NO_PAD.decode(header).expect("base64"),
    )
    .expect("JSON")["kid"]
        .clone();
    // HS256 with the public key as the secret, which everybody has.
    let shared = |id: serde_json::Value| {
        let head = encode(json!({ "alg": "HS256", "kid": id }));
        let input = format!("{head}.{claims}");
        let secret =
            aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, key.public_pem().as_bytes());
        let tag = aws_lc_rs::hmac::sign(&secret, input.as_bytes());
        format!("{input}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
    };
    let master = encode(json!({
        "aud": ["https://kubernetes.default.svc.cluster.local"], "exp": 4_000_000_000_u64, "iat": 1, "nbf": 1,
        "iss": "https://kubernetes.default.svc.cluster.local",
        "kubernetes.io": { "namespace": "kube-system", "serviceaccount": { "name": "admin", "uid": "x" } },
        "sub": "system:serviceaccount:kube-system:admin"
    }));
    let none = encode(json!({ "alg": "none", "kid": own_id }));
    let traversal = encode(json!({ "alg": "ES256", "kid": "../../pki/sa.pub" }));
    let remote = encode(
        json!({ "alg": "ES256", "jku": "https://evil/keys", "jwk": { "kty": "oct", "k": "" } }),
    );
    let spec = |exp: i64| {
        json!({
            "aud": ["https://kubernetes.default.svc.cluster.local"], "exp": exp, "iat": exp - 600, "nbf": exp - 600,
            "iss": "https://kubernetes.default.svc.cluster.local",
            "kubernetes.io": {
                "namespace": "default",
                "serviceaccount": { "name": "robot", "uid": account.str_at(&["metadata", "uid"]) }
            },
            "sub": "system:serviceaccount:default:robot"
        })
    };
    let now = jiff::Timestamp::now().as_second();
    let sign = |claims: serde_json::Value| key.sign(&claims).expect("signed");
    assert_eq!(
        whoami(&server, &sign(spec(now + 600))).await.0,
        201,
        "the key is the server's"
    );
    for (what, forged) in [
        ("no algorithm", format!("{none}.{claims}.")),
        (
            "no algorithm, old signature",
            format!("{none}.{claims}.{signature}"),
        ),
        ("the public key as a secret", shared(own_id.clone())),
        (
            "the public key as a secret, no kid",
            shared(serde_json::Value::Null),
        ),
        ("other claims", format!("{header}.{master}.{signature}")),
        (
            "kid of another key",
            format!("{traversal}.{claims}.{signature}"),
        ),
        ("a key of its own", format!("{remote}.{claims}.{signature}")),
        ("no signature", format!("{header}.{claims}.")),
        ("two parts", format!("{header}.{claims}")),
        ("four parts", format!("{good}.{signature}")),
        ("nothing", "..".to_owned()),
        ("expired", sign(spec(now - 61))),
        ("not yet valid", sign(spec(now + 661))),
        (
            "bootstrap token of nobody",
            "abcdef.0123456789abcdef".to_owned(),
        ),
    ] {
        assert_eq!(
            whoami(&server, &forged).await,
            (401, "Unauthorized".to_owned()),
            "{what}"
        );
    }
    assert_eq!(whoami(&server, &good).await.0, 201);
    // What a review says of them.
    let review = value!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": { "token": (sign(spec(now - 61))) }
    });
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let (_, answer) = common::ask(&server, &root(), Method::POST, path, Some(review)).await;
    assert_eq!(
        (
            answer.bool_at(&["status", "authenticated"]),
            answer.str_at(&["status", "error"])
        ),
        (
            None,
            Some("[invalid bearer token, service account token has expired]")
        )
    );
    memory.assert_grown_less(BOUND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_the_older_kind_is_told_noted_and_revoked() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let mut memory = Memory::alone().await;
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    memory.begin();
    let key = Cluster::load_or_create(dir.path().join("pki"))
        .expect("keys")
        .service_account_key;
    let account = make(&server, ACCOUNTS, named("ServiceAccount", "robot")).await;
    let account = control_access::Reference {
        name: "robot".to_owned(),
        uid: account
            .str_at(&["metadata", "uid"])
            .expect("a uid")
            .to_owned(),
    };
    let tokens = control_access::Tokens::new(Arc::new(key));
    let token = tokens
        .issue_legacy("default", &account, "old")
        .expect("issued");
    assert_eq!(whoami(&server, &token).await.0, 401, "no Secret holds it");
    make(&server, SECRETS, value!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": { "name": "old", "annotations": { "kubernetes.io/service-account.name": "robot" } },
        "data": { "token": (STANDARD.encode(&token)) }
    })).await;
    assert_eq!(whoami(&server, &token).await.0, 201);
    let secret = format!("{SECRETS}/old");
    let label = "kubernetes.io/legacy-token-last-used";
    let mut noted = false;
    for _ in 0..200 {
        let (_, now) = common::ask(&server, &root(), Method::GET, &secret, None).await;
        noted = now.str_at(&["metadata", "labels", label]).is_some();
        if noted {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(noted, "the day of its use is noted");
    let mark = value!({ "metadata": { "labels": { "kubernetes.io/legacy-token-invalid-since": "2026-01-01" } } });
    let (code, _) = common::ask(&server, &root(), Method::PATCH, &secret, Some(mark)).await;
    assert_eq!(code, 200);
    soon_nobody(&server, &token, "marked invalid").await;
    memory.assert_grown_less(BOUND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_reads_what_is_its_own_only() {
    let mut memory = Memory::alone().await;
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    memory.begin();
    let pki = Cluster::load_or_create(dir.path().join("pki")).expect("keys");
    make(&server, ACCOUNTS, named("ServiceAccount", "robot")).await;
    for (node, secret) in [("n1", "one"), ("n2", "two")] {
        make(&server, "/api/v1/nodes", named("Node", node)).await;
        make(&server, SECRETS, named("Secret", secret)).await;
        make(&server, PODS, pod(&format!("web-{node}"), node, secret)).await;
    }
    let node = Caller::certified(&pki.ca, "system:node:n1", &["system:nodes"]);
    let own = format!("{SECRETS}/one");
    for _ in 0..200 {
        if node.get(&server, &own).await.0 == 200 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(node.get(&server, &own).await.0, 200);
    let user = r#"User "system:node:n1" cannot"#;
    for (method, path, words) in [
        (
            Method::GET,
            format!("{SECRETS}/two"),
            format!(
                r#"secrets "two" is forbidden: {user} get resource "secrets" in API group "" in the namespace "default": no relationship found between node 'n1' and this object"#
            ),
        ),
        (
            Method::GET,
            SECRETS.to_owned(),
            format!(
                r#"secrets is forbidden: {user} list resource "secrets" in API group "" in the namespace "default": No Object name found"#
            ),
        ),
        (
            Method::GET,
            "/api/v1/secrets".to_owned(),
            format!(
                r#"secrets is forbidden: {user} list resource "secrets" in API group "" at the cluster scope: can only read namespaced object of this type"#
            ),
        ),
        (
            Method::DELETE,
            own.clone(),
            format!(
                r#"secrets "one" is forbidden: {user} delete resource "secrets" in API group "" in the namespace "default": can only read resources of this type"#
            ),
        ),
        (
            Method::GET,
            "/api/v1/pods".to_owned(),
            format!(
                r#"pods is forbidden: {user} list resource "pods" in API group "" at the cluster scope: can only list/watch pods with spec.nodeName field selector"#
            ),
        ),
        (
            Method::GET,
            format!("{PODS}/web-n2"),
            format!(
                r#"pods "web-n2" is forbidden: {user} get resource "pods" in API group "" in the namespace "default": no relationship found between node 'n1' and this object"#
            ),
        ),
        (
            Method::GET,
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n2".to_owned(),
            format!(
                r#"leases.coordination.k8s.io "n2" is forbidden: {user} get resource "leases" in API group "coordination.k8s.io" in the namespace "kube-node-lease": can only access node lease with the same name as the requesting node"#
            ),
        ),
        (
            Method::DELETE,
            "/api/v1/nodes/n1".to_owned(),
            format!(
                r#"nodes "n1" is forbidden: {user} delete resource "nodes" in API group "" at the cluster scope"#
            ),
        ),
    ] {
        assert_eq!(node.refused(&server, method, &path, None).await, words);
    }
    let request =
        value!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    make(&server, ACCOUNTS, named("ServiceAccount", "other")).await;
    let path = format!("{ACCOUNTS}/other/token");
    let why = node
        .refused(&server, Method::POST, &path, Some(request))
        .await;
    assert!(
        why.ends_with("no relationship found between node 'n1' and this object"),
        "{why}"
    );
    // A name without the group is an ordinary user.
    let pretender = Caller::certified(&pki.ca, "system:node:n1", &[]);
    assert_eq!(
        pretender.refused(&server, Method::GET, &own, None).await,
        format!(
            r#"secrets "one" is forbidden: {user} get resource "secrets" in API group "" in the namespace "default""#
        )
    );
    memory.assert_grown_less(BOUND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gives_what_he_does_not_have() {
    let mut memory = Memory::alone().await;
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    memory.begin();
    let pki = Cluster::load_or_create(dir.path().join("pki")).expect("keys");
    let group = "rbac.authorization.k8s.io";
    let api = format!("/apis/{group}/v1");
    let role = |name: &str, verbs: &[&str], resources: &[&str]| {
        let list = |all: &[&str]| Value::Array(all.iter().map(|one| (*one).into()).collect());
        let mut role = value!({ "apiVersion": (format!("{group}/v1")), "kind": "ClusterRole" });
        role.insert("metadata", value!({ "name": name }));
        let mut rule = value!({ "apiGroups": [group] });
        rule.insert("verbs", list(verbs));
        rule.insert("resources", list(resources));
        role.insert("rules", Value::Array(vec![rule]));
        role
    };
    let binding = |name: &str, role: &str, user: &str| {
        value!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }]
        })
    };
    let writer = role(
        "writer",
        &["create", "update"],
        &["clusterroles", "clusterrolebindings"],
    );
    make(&server, &format!("{api}/clusterroles"), writer).await;
    make(
        &server,
        &format!("{api}/clusterrolebindings"),
        binding("eve-writes", "writer", "eve"),
    )
    .await;
    let eve = Caller::certified(&pki.ca, "eve", &["dev"]);
    let roles = format!("{api}/clusterroles");
    for _ in 0..200 {
        let (code, _) = eve
            .ask(
                &server,
                Method::POST,
                &format!("{roles}?dryRun=All"),
                Some(role("own", &["create"], &["clusterroles"])),
            )
            .await;
        if code == 201 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let why = eve
        .refused(
            &server,
            Method::POST,
            &roles,
            Some(role("more", &["delete"], &["clusterroles"])),
        )
        .await;
    assert_eq!(
        why,
        "clusterroles.rbac.authorization.k8s.io \"more\" is forbidden: user \"eve\" (groups=[\"dev\" \"system:authenticated\"]) \
         is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"rbac.authorization.k8s.io\"], Resources:[\"clusterroles\"], Verbs:[\"delete\"]}"
    );
    let bindings = format!("{api}/clusterrolebindings");
    let why = eve
        .refused(
            &server,
            Method::POST,
            &bindings,
            Some(binding("all", "cluster-admin", "eve")),
        )
        .await;
    assert!(
        why.starts_with("clusterrolebindings.rbac.authorization.k8s.io \"all\" is forbidden: user \"eve\"")
            && why.ends_with("{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"),
        "{why}"
    );
    let mut aggregated = role("gather", &["create"], &["clusterroles"]);
    aggregated.insert(
        "aggregationRule",
        value!({ "clusterRoleSelectors": [{ "matchLabels": { "x": "y" } }] }),
    );
    let why = eve
        .refused(&server, Method::POST, &roles, Some(aggregated))
        .await;
    assert!(
        why.ends_with("must have cluster-admin privileges to use the aggregationRule"),
        "{why}"
    );
    memory.assert_grown_less(BOUND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_becomes_another_without_right() {
    let mut memory = Memory::alone().await;
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    memory.begin();
    let pki = Cluster::load_or_create(dir.path().join("pki")).expect("keys");
    for headers in [
        &[("impersonate-user", "root")][..],
        &[(
            "impersonate-user",
            "system:serviceaccount:kube-system:admin",
        )],
        &[
            ("impersonate-user", "system:node:n1"),
            ("impersonate-group", "system:nodes"),
        ],
        &[
            ("impersonate-user", "eve"),
            ("impersonate-group", "system:masters"),
        ],
        &[("impersonate-user", "eve"), ("impersonate-uid", "0")],
        &[
            ("impersonate-user", "eve"),
            ("impersonate-extra-scopes", "all"),
        ],
    ] {
        let mut eve = Caller::certified(&pki.ca, "eve", &[]);
        for (name, value) in headers {
            eve = eve.with(name, value);
        }
        eve.refused(&server, Method::GET, PODS, None).await;
    }
    let eve = Caller::certified(&pki.ca, "eve", &[]).with("impersonate-group", "system:masters");
    assert_eq!(
        eve.get(&server, PODS).await.0,
        400,
        "a group without a user"
    );
    // Who may is that other from then on, and no master any more.
    let admin = || Caller::certified(&pki.ca, "admin", &["system:masters"]);
    assert_eq!(admin().get(&server, PODS).await.0, 200);
    let as_bob = admin().with("impersonate-user", "bob");
    let why = as_bob.refused(&server, Method::GET, PODS, None).await;
    assert!(
        why.contains(r#"User "bob" cannot list resource "pods""#),
        "{why}"
    );
    memory.assert_grown_less(BOUND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_authorised_is_what_is_done() {
    let mut memory = Memory::alone().await;
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    memory.begin();
    let pki = Cluster::load_or_create(dir.path().join("pki")).expect("keys");
    make(
        &server,
        "/api/v1/namespaces/kube-system/secrets",
        named("Secret", "key"),
    )
    .await;
    make(&server, SECRETS, named("Secret", "own")).await;
    // eve reads one secret of one namespace.
    let api = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    make(&server, &format!("{api}/roles"), value!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "one" },
        "rules": [{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch", "deletecollection"], "resourceNames": ["own"] }]
    })).await;
    make(&server, &format!("{api}/rolebindings"), value!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "one" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve" }]
    })).await;
    let eve = Caller::certified(&pki.ca, "eve", &[]);
    let own = format!("{SECRETS}/own");
    for _ in 0..200 {
        if eve.get(&server, &own).await.0 == 200 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(
        eve.get(&server, "/api/v1/namespaces/default/secrets/%6fwn")
            .await
            .0,
        200
    );
    let (code, list) = eve
        .get(
            &server,
            &format!("{SECRETS}?fieldSelector=metadata.name%3Down"),
        )
        .await;
    assert_eq!((code, list.items_at(&["items"]).len()), (200, 1));
    for path in [
        "/api/v1/namespaces/kube-system/secrets/key",
        "/api/v1/namespaces/kube%2Dsystem/secrets/key",
        "/api/v1/namespaces%2Fkube-system%2Fsecrets%2Fkey",
        "/api/v1/namespaces/default/secrets/own%2F..%2F..%2F..%2Fkube-system%2Fsecrets%2Fkey",
        "/api/v1/namespaces/default/../kube-system/secrets/key",
        "/api/v1/namespaces/default%2F..%2Fkube-system/secrets/key",
        "/api/v1/namespaces/default/secrets?fieldSelector=&fieldSelector=metadata.name%3Down",
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%21%3Down",
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Down%2Cmetadata.name%3Dkey%00",
        "/api/v1/secrets?fieldSelector=metadata.name%3Down",
        "/api/v1/watch/namespaces/kube-system/secrets/key",
        "/api/v1/watch/secrets",
        "//api/v1/namespaces/kube-system/secrets/key",
        "/api/v1//namespaces/kube-system/secrets/key",
        "/API/v1/namespaces/kube-system/secrets/key",
    ] {
        let (code, answer) = eve.get(&server, path).await;
        assert!((400..500).contains(&code), "{path}: {code} {answer:?}");
        assert!(
            answer.get("data").is_none() && answer.get("items").is_none(),
            "{path}: {answer:?}"
        );
    }
    // A right to delete what has a name is none to delete a collection.
    let collection = format!("{SECRETS}?fieldSelector=metadata.name%3Down");
    eve.refused(&server, Method::DELETE, &collection, None)
        .await;
    // The old form of a watch is one, whatever the method; nothing is deleted.
    let old = "/api/v1/watch/namespaces/default/secrets/own";
    assert_eq!(eve.ask(&server, Method::DELETE, old, None).await.0, 405);
    assert_eq!(eve.get(&server, &own).await.0, 200);
    memory.assert_grown_less(BOUND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_of_a_proxy_are_believed_of_the_proxy_only() {
    let mut memory = Memory::alone().await;
    let dir = tempfile::tempdir().expect("a directory");
    let pki = Cluster::load_or_create(dir.path().join("pki")).expect("keys");
    let trust = ClientTrust::new(pki.front_proxy_ca.certificate_pem()).expect("trust");
    let proxy = FrontProxy {
        names: vec!["front-proxy-client".to_owned()],
        ..FrontProxy::default()
    };
    let settings = Settings {
        front_proxy: Some((trust, proxy)),
        anonymous: Anonymous::Paths(vec!["/livez".to_owned()]),
        ..Settings::default()
    };
    let server = server_with(dir.path(), settings).await;
    memory.begin();
    let as_master = |caller: Caller<'static>| {
        caller
            .with("x-remote-user", "boss")
            .with("x-remote-group", "system:masters")
    };
    let proxy = as_master(Caller::certified(
        &pki.front_proxy_ca,
        "front-proxy-client",
        &[],
    ));
    assert_eq!(proxy.get(&server, PODS).await.0, 200);
    for (what, caller, code) in [
        (
            "a proxy of another name",
            Caller::certified(&pki.front_proxy_ca, "other", &[]),
            401,
        ),
        (
            "a client of the cluster",
            Caller::certified(&pki.ca, "front-proxy-client", &[]),
            403,
        ),
        ("nobody", Caller::nobody(), 401),
        (
            "an authority of its own",
            Caller::certified(
                &Authority::create("front-proxy-ca").expect("made"),
                "front-proxy-client",
                &[],
            ),
            401,
        ),
    ] {
        assert_eq!(as_master(caller).get(&server, PODS).await.0, code, "{what}");
    }
    // Without headers a proxy is nobody.
    let silent = Caller::certified(&pki.front_proxy_ca, "front-proxy-client", &[]);
    assert_eq!(silent.get(&server, PODS).await.0, 401);
    // Anonymous for the paths that are named, and no other.
    assert_eq!(Caller::nobody().get(&server, "/livez").await.0, 200);
    for path in ["/livez/ping", "/healthz", "/version", "/api"] {
        assert_eq!(Caller::nobody().get(&server, path).await.0, 401, "{path}");
    }
    memory.assert_grown_less(BOUND);
}
