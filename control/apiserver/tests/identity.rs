//! Users whom others vouch for, and others who decide, live: issuers of ID tokens, a
//! server that knows tokens, policies of a file, a server that authorizes; and files
//! that change while the server runs.

mod common;
#[path = "common/webhook.rs"]
mod webhook;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, KeyPair as _,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use common::{root, server_with};
use control_access::Abac;
use control_access::configuration::authorization::Authorizer;
use control_apiserver::ApiServer;
use control_auth::{Settings, WebhookSettings};
use control_request::body;
use control_types::value;
use control_types::value::Value;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;
use webhook::{Fake, Reply};

const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// A key of an issuer.
struct Signer {
    pair: EcdsaKeyPair,
    names: (&'static str, &'static str, &'static str),
}

impl Signer {
    fn es512(id: &'static str) -> Self {
        Self::new(&ECDSA_P521_SHA512_FIXED_SIGNING, ("ES512", "P-521", id))
    }

    fn es256(id: &'static str) -> Self {
        Self::new(&ECDSA_P256_SHA256_FIXED_SIGNING, ("ES256", "P-256", id))
    }

    fn new(
        of: &'static EcdsaSigningAlgorithm,
        names: (&'static str, &'static str, &'static str),
    ) -> Self {
        let pair = EcdsaKeyPair::generate(of).expect("a key");
        Self { pair, names }
    }

    fn key(&self) -> serde_json::Value {
        let point = &self.pair.public_key().as_ref()[1..];
        let (x, y) = point.split_at(point.len() / 2);
        let encode = |bytes| URL_SAFE_NO_PAD.encode(bytes);
        json!({"kty": "EC", "crv": self.names.1, "kid": self.names.2, "x": encode(x), "y": encode(y)})
    }

    fn sign(&self, claims: &serde_json::Value) -> String {
        let header = json!({"alg": self.names.0, "kid": self.names.2}).to_string();
        let parts = [header, claims.to_string()].map(|part| URL_SAFE_NO_PAD.encode(part));
        let input = parts.join(".");
        let made = self.pair.sign(&SystemRandom::new(), input.as_bytes());
        let made = URL_SAFE_NO_PAD.encode(made.expect("signed"));
        format!("{input}.{made}")
    }
}

/// An issuer on loopback: its discovery document, its keys, and what else it holds.
struct Provider {
    fake: Fake,
    url: String,
    keys: Arc<Mutex<Vec<serde_json::Value>>>,
    held: Arc<Mutex<String>>,
}

impl Provider {
    async fn start() -> Self {
        let url: Arc<OnceLock<String>> = Arc::default();
        let keys: Arc<Mutex<Vec<serde_json::Value>>> = Arc::default();
        let held: Arc<Mutex<String>> = Arc::default();
        let (at, own, kept) = (Arc::clone(&url), Arc::clone(&keys), Arc::clone(&held));
        let fake = Fake::start(move |path, _| {
            let url = at.get().expect("set before it is asked");
            match path {
                "/.well-known/openid-configuration" => Reply::Words(
                    json!({"issuer": url, "jwks_uri": format!("{url}/keys")}).to_string(),
                ),
                "/keys" => Reply::Words(json!({"keys": *own.lock().expect("a lock")}).to_string()),
                "/groups" => Reply::Words(kept.lock().expect("a lock").clone()),
                _ => Reply::Text(404, "nothing"),
            }
        })
        .await;
        let own_url = format!("https://127.0.0.1:{}", fake.port);
        url.set(own_url.clone()).expect("once");
        Self {
            fake,
            url: own_url,
            keys,
            held,
        }
    }

    fn authority(&self) -> String {
        let pem = STANDARD.decode(&self.fake.bundle).expect("base64");
        String::from_utf8(pem).expect("PEM")
    }

    fn set(&self, signers: &[&Signer]) {
        *self.keys.lock().expect("a lock") = signers.iter().map(|one| one.key()).collect();
    }

    fn claims(&self, more: serde_json::Value) -> serde_json::Value {
        let now = jiff::Timestamp::now().as_second();
        let mut claims = json!({
            "iss": self.url, "aud": "orlop", "sub": "ann", "exp": now + 600, "iat": now, "hd": "example.org"
        });
        let more = more.as_object().expect("claims").clone();
        claims.as_object_mut().expect("claims").extend(more);
        claims
    }

    /// An `AuthenticationConfiguration` that believes it for an audience.
    fn configuration(&self, audience: &str) -> String {
        json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
            "jwt": [{
                "issuer": {"url": self.url, "audiences": [audience], "certificateAuthority": self.authority()},
                "claimValidationRules": [{"expression": "claims.hd == 'example.org'", "message": "another domain"}],
                "claimMappings": {
                    "username": {"claim": "sub", "prefix": "oidc:"},
                    "groups": {"claim": "groups", "prefix": "oidc:"}
                }
            }]
        })
        .to_string()
    }
}

async fn asked(
    server: &ApiServer,
    token: &str,
    method: Method,
    path: &str,
    object: Option<Value>,
) -> (u16, Value) {
    let bytes = object.map_or_else(bytes::Bytes::new, |object| object.to_vec().into());
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {token}"))
        .body(body::full(bytes))
        .expect("a request");
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

/// The name and the groups of whoever shows a token; the code if it is nobody.
async fn who(server: &ApiServer, token: &str) -> Result<(String, Vec<String>), u16> {
    let review = value!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let (code, answer) = asked(server, token, Method::POST, SELF, Some(review)).await;
    if code != 201 {
        return Err(code);
    }
    let user = answer.path(&["status", "userInfo"]).expect("a user");
    let groups = user.items_at(&["groups"]).iter().filter_map(Value::as_str);
    Ok((
        user.str_at(&["username"]).expect("a name").to_owned(),
        groups.map(str::to_owned).collect(),
    ))
}

async fn until<T: PartialEq + std::fmt::Debug>(wanted: T, look: impl AsyncFn() -> T) {
    let mut found = look().await;
    for _ in 0..150 {
        if found == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        found = look().await;
    }
    assert_eq!(found, wanted);
}

fn known(name: &str, groups: &[&str]) -> Result<(String, Vec<String>), u16> {
    let mut all: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
    all.push("system:authenticated".to_owned());
    Ok((name.to_owned(), all))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_is_believed_as_its_configuration_says_and_no_longer() {
    let provider = Provider::start().await;
    let first = Signer::es512("one");
    provider.set(&[&first]);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("authentication.yaml");
    std::fs::write(&path, provider.configuration("orlop")).expect("written");
    let settings = Settings {
        authentication_file: Some(path.clone()),
        ..Settings::default()
    };
    let server = server_with(dir.path(), settings).await;
    let groups = json!({"groups": ["dev"]});
    let good = first.sign(&provider.claims(groups.clone()));
    until(known("oidc:ann", &["oidc:dev"]), || who(&server, &good)).await;
    let now = jiff::Timestamp::now().as_second();
    for (what, more) in [
        ("another audience", json!({"aud": "vault"})),
        ("expired", json!({"exp": now - 1})),
        ("not yet valid", json!({"nbf": now + 600})),
        ("a claim that a rule refuses", json!({"hd": "evil.org"})),
        ("no name", json!({"sub": null})),
        ("groups that are none", json!({"groups": {"a": 1}})),
        ("another issuer", json!({"iss": "https://127.0.0.1:1"})),
    ] {
        let token = first.sign(&provider.claims(more));
        assert_eq!(who(&server, &token).await, Err(401), "{what}");
    }
    let foreign = Signer::es512("one").sign(&provider.claims(json!({})));
    assert_eq!(who(&server, &foreign).await, Err(401), "a key of its own");

    // Groups that are elsewhere, signed by the same issuer.
    let elsewhere = |path: &str| {
        json!({
            "_claim_names": {"groups": "src"},
            "_claim_sources": {"src": {"endpoint": format!("{}{path}", provider.url), "access_token": "secret"}}
        })
    };
    let points = first.sign(&provider.claims(elsewhere("/groups")));
    *provider.held.lock().expect("a lock") =
        first.sign(&provider.claims(json!({"groups": ["far"]})));
    assert_eq!(
        who(&server, &points).await,
        known("oidc:ann", &["oidc:far"])
    );
    *provider.held.lock().expect("a lock") = foreign;
    assert_eq!(who(&server, &points).await, Err(401), "forged elsewhere");
    *provider.held.lock().expect("a lock") =
        first.sign(&provider.claims(json!({"aud": "vault", "groups": ["far"]})));
    assert_eq!(
        who(&server, &points).await,
        Err(401),
        "for another audience elsewhere"
    );
    *provider.held.lock().expect("a lock") = first.sign(&provider.claims(json!({})));
    assert_eq!(who(&server, &points).await, Err(401), "nothing elsewhere");
    let nowhere = first.sign(&provider.claims(elsewhere("/nowhere")));
    assert_eq!(who(&server, &nowhere).await, Err(401), "nobody there");

    // A new key is found when it is needed; the old one is gone.
    let second = Signer::es256("two");
    provider.set(&[&second]);
    let newer = second.sign(&provider.claims(groups.clone()));
    until(known("oidc:ann", &["oidc:dev"]), || who(&server, &newer)).await;
    assert_eq!(
        who(&server, &good).await,
        Err(401),
        "a key that is no longer"
    );

    // The file changes: another audience. What cannot be used changes nothing.
    std::fs::write(&path, "{}").expect("written");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(who(&server, &newer).await, known("oidc:ann", &["oidc:dev"]));
    std::fs::write(&path, provider.configuration("other")).expect("written");
    until(Err(401), || who(&server, &newer)).await;
    let other = second.sign(&provider.claims(json!({"aud": ["other"]})));
    until(known("oidc:ann", &[]), || who(&server, &other)).await;
}

/// A kubeconfig that names a server of a test.
fn kubeconfig(dir: &Path, fake: &Fake, path: &str) -> PathBuf {
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {
            "server": format!("https://127.0.0.1:{}{path}", fake.port),
            "certificate-authority-data": fake.bundle
        }}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
    });
    let path = dir.join(format!("{}.kubeconfig", path.trim_matches('/')));
    std::fs::write(&path, text.to_string()).expect("written");
    path
}

async fn review(server: &ApiServer, token: &str, audiences: &[&str]) -> Value {
    let audiences: Vec<Value> = audiences.iter().map(|one| (*one).into()).collect();
    let review = value!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": (token), "audiences": (Value::Array(audiences))}
    });
    let (code, answer) = common::ask(server, &root(), Method::POST, REVIEWS, Some(review)).await;
    assert_eq!(code, 201, "{answer:?}");
    answer.get("status").cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_knows_tokens_is_asked_once_for_each() {
    let fake = Fake::start(|_, question| {
        let token = question.str_at(&["spec", "token"]).unwrap_or_default();
        let status = match token {
            "ann" => value!({"authenticated": true, "user": {"username": "ann", "groups": ["dev"]}}),
            "vault" => value!({"authenticated": true, "audiences": ["vault"], "user": {"username": "bob"}}),
            "sick" => return Reply::Text(403, "no"),
            "odd" => value!({"authenticated": false, "error": "it is odd"}),
            _ => value!({"authenticated": false}),
        };
        Reply::Object(value!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": (status)}))
    })
    .await;
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        webhook_tokens: Some(WebhookSettings {
            kubeconfig: kubeconfig(dir.path(), &fake, "/tokens"),
            version: "v1".to_owned(),
            lasts: Duration::from_secs(60),
        }),
        ..Settings::default()
    };
    let server = server_with(dir.path(), settings).await;
    for _ in 0..3 {
        assert_eq!(who(&server, "ann").await, known("ann", &["dev"]));
        assert_eq!(who(&server, "nobody").await, Err(401));
        assert_eq!(who(&server, "vault").await, Err(401), "for others");
    }
    let asked = fake.take();
    assert_eq!(asked.len(), 3, "answers are remembered");
    let (_, question) = &asked[0];
    assert_eq!(
        question.path(&["spec", "audiences"]),
        Some(&value!(["https://kubernetes.default.svc.cluster.local"]))
    );
    for token in ["sick", "odd"] {
        assert_eq!(who(&server, token).await, Err(401));
        assert_eq!(who(&server, token).await, Err(401));
    }
    assert_eq!(fake.take().len(), 4, "failures are not remembered");
    // One that says nothing of audiences vouches for this server, not for others.
    let own = "https://kubernetes.default.svc.cluster.local";
    assert_eq!(
        review(&server, "ann", &[own])
            .await
            .bool_at(&["authenticated"]),
        Some(true)
    );
    assert_eq!(
        review(&server, "ann", &["vault"])
            .await
            .bool_at(&["authenticated"]),
        None
    );
    let status = review(&server, "vault", &["vault", "safe"]).await;
    assert_eq!(status.path(&["audiences"]), Some(&value!(["vault"])));
}

const PODS: &str = "/api/v1/namespaces/team/pods";

/// The code of a request by somebody whose token is the name.
async fn code(server: &ApiServer, name: &str, method: Method, path: &str) -> u16 {
    asked(server, name, method, path, None).await.0
}

/// Everybody is who they say.
fn names() -> control_access::TokenFile {
    control_access::TokenFile::parse("ann,ann,1,dev\nbob,bob,2\neve,eve,3\n").expect("a file")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_of_a_file_decide() {
    let policies = r#"
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"ann","namespace":"team","resource":"pods","apiGroup":"","readonly":true}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"system:authenticated","nonResourcePath":"/version","readonly":true}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"bob","namespace":"*","resource":"*","apiGroup":"*"}}
"#;
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        token_file: Some(names()),
        authorizers: vec![Authorizer::Abac],
        abac: Some(Abac::parse(policies).expect("policies")),
        ..Settings::default()
    };
    let server = server_with(dir.path(), settings).await;
    for (name, method, path, expected) in [
        ("ann", Method::GET, PODS, 200),
        ("ann", Method::DELETE, PODS, 403),
        ("ann", Method::GET, "/api/v1/namespaces/other/pods", 403),
        ("ann", Method::GET, "/api/v1/pods", 403),
        ("ann", Method::GET, "/api/v1/namespaces/team/secrets", 403),
        ("ann", Method::GET, "/version", 200),
        ("eve", Method::GET, "/version", 200),
        ("eve", Method::GET, "/healthz", 403),
        ("eve", Method::GET, PODS, 403),
        ("bob", Method::GET, "/apis/apps/v1/deployments", 200),
        (
            "bob",
            Method::DELETE,
            "/apis/apps/v1/namespaces/x/deployments",
            200,
        ),
        ("bob", Method::GET, "/metrics", 403),
    ] {
        assert_eq!(
            code(&server, name, method.clone(), path).await,
            expected,
            "{name} {method} {path}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_authorizes_is_asked_where_conditions_say_and_a_change_of_the_file_counts() {
    let fake = Fake::start(|_, question| {
        let user = question.str_at(&["spec", "user"]).unwrap_or_default();
        let status = match user {
            "ann" => value!({"allowed": true}),
            "bob" => value!({"allowed": false, "denied": true, "reason": "not bob"}),
            _ => return Reply::Text(400, "broken"),
        };
        Reply::Object(value!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": (status)}))
    })
    .await;
    let dir = tempfile::tempdir().expect("a directory");
    let remote = kubeconfig(dir.path(), &fake, "/decide");
    let configuration = |policy: &str, namespace: &str| {
        json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
            "authorizers": [
                {"type": "Webhook", "name": "team", "webhook": {
                    "timeout": "3s", "authorizedTTL": "5m", "unauthorizedTTL": "30s", "failurePolicy": policy,
                    "subjectAccessReviewVersion": "v1", "matchConditionSubjectAccessReviewVersion": "v1",
                    "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": remote},
                    "matchConditions": [
                        {"expression": "has(request.resourceAttributes)"},
                        {"expression": format!("request.resourceAttributes.namespace == '{namespace}'")}
                    ]
                }},
                {"type": "RBAC", "name": "rbac"}
            ]
        })
        .to_string()
    };
    let path = dir.path().join("authorization.yaml");
    std::fs::write(&path, configuration("Deny", "team")).expect("written");
    let settings = Settings {
        token_file: Some(names()),
        authorization_file: Some(path.clone()),
        ..Settings::default()
    };
    let server = server_with(dir.path(), settings).await;
    for _ in 0..2 {
        assert_eq!(code(&server, "ann", Method::GET, PODS).await, 200);
    }
    assert_eq!(fake.take().len(), 1, "a yes is remembered");
    let (status, answer) = asked(&server, "bob", Method::GET, PODS, None).await;
    assert_eq!(status, 403);
    assert_eq!(
        answer.str_at(&["message"]),
        Some(
            "pods is forbidden: User \"bob\" cannot list resource \"pods\" in API group \"\" in the namespace \"team\": not bob"
        )
    );
    fake.take();
    // Another namespace, and paths, are none of its business: RBAC says no and yes.
    assert_eq!(
        code(&server, "ann", Method::GET, "/api/v1/namespaces/other/pods").await,
        403
    );
    assert_eq!(code(&server, "ann", Method::GET, "/version").await, 200);
    assert!(fake.take().is_empty());
    // It fails, and failing is a no.
    assert_eq!(code(&server, "eve", Method::GET, PODS).await, 500);
    assert_eq!(fake.take().len(), 1);

    // Broken: nothing changes. Then another namespace, and failing says nothing.
    std::fs::write(&path, "authorizers: nothing").expect("written");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(code(&server, "ann", Method::GET, PODS).await, 200);
    std::fs::write(&path, configuration("NoOpinion", "other")).expect("written");
    until(403, || code(&server, "ann", Method::GET, PODS)).await;
    assert_eq!(
        code(&server, "ann", Method::GET, "/api/v1/namespaces/other/pods").await,
        200
    );
    assert_eq!(
        code(&server, "root", Method::GET, PODS).await,
        401,
        "a token of nobody"
    );
}
