//! What is written down of requests.

mod common;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{ask, root, send};
use control_access::User;
use control_apiserver::ApiServer;
use control_audit::{Audit, Batch, LogOptions, Mode, Policy, SinkOptions, SinkTarget};
use control_request::body;
use control_types::value;
use control_types::value::Value;
use http::{Method, Request};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::ServiceExt;

const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
- level: Metadata
  resources: [{group: "", resources: ["secrets"]}]
  omitStages: [RequestReceived]
- level: RequestResponse
  resources: [{group: "", resources: ["configmaps"]}]
- level: Metadata
  users: ["ann"]
- level: Metadata
  users: []
  nonResourceURLs: ["/version"]
- level: None
"#;

fn policy() -> Policy {
    Policy::parse(POLICY.as_bytes()).expect("a policy")
}

fn log(path: &Path) -> SinkOptions {
    SinkOptions {
        to: SinkTarget::Log(LogOptions {
            path: path.to_owned(),
            ..LogOptions::default()
        }),
        mode: Mode::BlockingStrict,
        truncate: None,
    }
}

async fn server(dir: &Path, sink: SinkOptions) -> ApiServer {
    let first = common::server(dir).await;
    let mut config = first.api().config.clone();
    config.chain.audit = Some(Audit::open(policy(), [sink]).expect("a sink"));
    drop(first);
    ApiServer::new(config).await.expect("a server")
}

fn events(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|line| Value::from_slice(line.as_bytes()).expect("JSON"))
        .collect()
}

fn of<'a>(events: &'a [Value], uri: &str, stage: &str) -> Option<&'a Value> {
    events.iter().find(|event| {
        event
            .str_at(&["requestURI"])
            .is_some_and(|found| found.starts_with(uri))
            && event.str_at(&["stage"]) == Some(stage)
    })
}

#[tokio::test]
async fn requests_are_written_as_the_policy_says() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("audit.log");
    let server = server(dir.path(), log(&path)).await;
    let object = |kind: &str, name: &str| value!({"apiVersion": "v1", "kind": (kind), "metadata": {"name": name}, "data": {"a": "YWJj"}});
    let base = "/api/v1/namespaces/default";
    let maps = format!("{base}/configmaps");
    let (code, _) = ask(
        &server,
        &root(),
        Method::POST,
        &maps,
        Some(object("ConfigMap", "c")),
    )
    .await;
    assert_eq!(code, 201);
    let secrets = format!("{base}/secrets");
    let (code, _) = ask(
        &server,
        &root(),
        Method::POST,
        &secrets,
        Some(object("Secret", "s")),
    )
    .await;
    assert_eq!(code, 201);
    let ann = User::named("ann", []);
    let given = [("audit-id", "from-the-client"), ("user-agent", "test/1")];
    let answer = send(&server, &ann, Method::GET, "/api/v1/nodes", &given, None).await;
    assert_eq!(answer.status(), 403);
    assert_eq!(answer.headers()["audit-id"], "from-the-client");
    let missing = format!("{maps}/missing");
    ask(&server, &root(), Method::GET, &missing, None).await;
    ask(&server, &root(), Method::GET, "/api/v1/pods", None).await;

    let all = events(&path);
    let made = of(&all, &maps, "ResponseComplete").expect("written");
    assert_eq!(made.str_at(&["level"]), Some("RequestResponse"));
    assert_eq!(made.str_at(&["verb"]), Some("create"));
    assert_eq!(made.str_at(&["user", "username"]), Some("root"));
    assert_eq!(made.str_at(&["objectRef", "resource"]), Some("configmaps"));
    assert_eq!(made.str_at(&["objectRef", "name"]), Some("c"));
    assert_eq!(made.i64_at(&["responseStatus", "code"]), Some(201));
    assert_eq!(made.str_at(&["requestObject", "data", "a"]), Some("YWJj"));
    assert!(made.path(&["responseObject", "metadata", "uid"]).is_some());
    assert!(
        made.path(&["responseObject", "metadata", "managedFields"])
            .is_none()
    );
    assert_eq!(
        made.str_at(&["annotations", "authorization.k8s.io/decision"]),
        Some("allow")
    );
    assert!(of(&all, &maps, "RequestReceived").is_some());

    // Secrets are told of, but not told.
    let secret = of(&all, &secrets, "ResponseComplete").expect("written");
    assert_eq!(secret.str_at(&["level"]), Some("Metadata"));
    assert!(secret.get("requestObject").is_none() && secret.get("responseObject").is_none());
    assert!(of(&all, &secrets, "RequestReceived").is_none());
    let text = std::fs::read_to_string(&path).expect("the log");
    assert_eq!(
        text.lines()
            .filter(|line| line.contains("/secrets") && line.contains("YWJj"))
            .count(),
        0
    );

    let refused = of(&all, "/api/v1/nodes", "ResponseComplete").expect("written");
    assert_eq!(refused.str_at(&["auditID"]), Some("from-the-client"));
    assert_eq!(refused.str_at(&["userAgent"]), Some("test/1"));
    assert_eq!(
        refused.str_at(&["responseStatus", "reason"]),
        Some("Forbidden")
    );
    assert_eq!(
        refused.str_at(&["annotations", "authorization.k8s.io/decision"]),
        Some("forbid")
    );
    let missing = of(&all, &missing, "ResponseComplete").expect("written");
    assert_eq!(missing.i64_at(&["responseStatus", "code"]), Some(404));
    assert!(of(&all, "/api/v1/pods", "ResponseComplete").is_none());
}

#[tokio::test]
async fn what_is_made_and_deleted_is_named_at_any_level() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("audit.log");
    let server = server(dir.path(), log(&path)).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = value!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    let (code, made) = ask(&server, &root(), Method::POST, secrets, Some(secret)).await;
    assert_eq!(code, 201);
    let one = format!("{secrets}/s");
    let options = value!({"propagationPolicy": "Background"});
    let (code, _) = ask(&server, &root(), Method::DELETE, &one, Some(options)).await;
    assert_eq!(code, 200);
    // A client that speaks protobuf writes zeros, which are no news.
    let maps = "/api/v1/namespaces/default/configmaps";
    let bytes: &[u8] =
        b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x09\x0a\x07\x0a\x01c\x12\0\x22\0";
    let mut request = Request::post(maps)
        .header("content-type", "application/vnd.kubernetes.protobuf")
        .body(body::full(bytes))
        .expect("a request");
    request.extensions_mut().insert(root());
    let answer = server.service().oneshot(request).await;
    assert_eq!(answer.expect("infallible").status(), 201);
    let (code, _) = ask(
        &server,
        &root(),
        Method::DELETE,
        &format!("{maps}/c"),
        Some(value!({})),
    )
    .await;
    assert_eq!(code, 200);

    let all = events(&path);
    let find = |uri: &str, verb: &str| {
        let mut found = all.iter().filter(|event| {
            event.str_at(&["requestURI"]) == Some(uri)
                && event.str_at(&["verb"]) == Some(verb)
                && event.str_at(&["stage"]) == Some("ResponseComplete")
        });
        found.next().expect("written")
    };
    let created = find(secrets, "create");
    assert_eq!(created.str_at(&["objectRef", "name"]), Some("s"));
    assert!(created.get("requestObject").is_none());
    let deleted = find(&one, "delete");
    let status = deleted.get("responseStatus").expect("a status");
    assert_eq!(status.str_at(&["status"]), Some("Success"));
    assert_eq!(status.str_at(&["details", "name"]), Some("s"));
    assert_eq!(
        status.str_at(&["details", "uid"]),
        made.str_at(&["metadata", "uid"])
    );
    assert!(deleted.get("requestObject").is_none() && deleted.get("responseObject").is_none());
    let created = find(maps, "create");
    let sent = created
        .path(&["requestObject", "metadata"])
        .expect("metadata");
    assert!(
        sent.get("generateName").is_none() && sent.get("selfLink").is_none(),
        "{sent:?}"
    );
    let deleted = find(&format!("{maps}/c"), "delete");
    assert_eq!(
        deleted.str_at(&["requestObject", "kind"]),
        Some("DeleteOptions")
    );
}

#[tokio::test]
async fn watches_are_written_when_they_begin_and_end_and_failed_logins_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("audit.log");
    let server = server(dir.path(), log(&path)).await;
    let uri = "/api/v1/configmaps?watch=true";
    let watch = send(&server, &root(), Method::GET, uri, &[], None).await;
    assert_eq!(watch.status(), 200);
    let all = events(&path);
    assert!(of(&all, uri, "ResponseStarted").is_some());
    assert!(of(&all, uri, "ResponseComplete").is_none());
    drop(watch);
    for _ in 0..100 {
        if of(&events(&path), uri, "ResponseComplete").is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(of(&events(&path), uri, "ResponseComplete").is_some());

    // Nobody vouches for this one.
    let request = Request::get("/version")
        .header("authorization", "Bearer nonsense")
        .body(body::full(""))
        .expect("a request");
    let answer = server.service().oneshot(request).await.expect("infallible");
    assert_eq!(answer.status(), 401);
    let all = events(&path);
    let failed: Vec<_> = all
        .iter()
        .filter(|event| event.str_at(&["requestURI"]) == Some("/version"))
        .collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0].str_at(&["stage"]), Some("ResponseStarted"));
    assert_eq!(
        failed[0].str_at(&["responseStatus", "message"]),
        Some("Authentication failed, attempted: bearer")
    );
    assert!(failed[0].path(&["user", "username"]).is_none());
}

#[tokio::test]
async fn who_acts_as_another_is_told_with_that_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("audit.log");
    let server = server(dir.path(), log(&path)).await;
    // Impersonation is for requests from the network: its caller is found out by
    // a token.
    let account =
        value!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let base = "/api/v1/namespaces/default/serviceaccounts";
    ask(&server, &root(), Method::POST, base, Some(account)).await;
    let binding = value!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "robot"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "robot"}]
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    ask(&server, &root(), Method::POST, bindings, Some(binding)).await;
    let wanted =
        value!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let (code, token) = ask(
        &server,
        &root(),
        Method::POST,
        &format!("{base}/robot/token"),
        Some(wanted),
    )
    .await;
    assert_eq!(code, 201, "{token:?}");
    let token = token
        .str_at(&["status", "token"])
        .expect("a token")
        .to_owned();
    let uri = "/api/v1/namespaces/default/configmaps";
    for _ in 0..50 {
        let request = Request::get(uri)
            .header("authorization", format!("Bearer {token}"))
            .header("impersonate-user", "bob")
            .body(body::full(""))
            .expect("a request");
        server.service().oneshot(request).await.expect("infallible");
        let all = events(&path);
        let told = all.iter().any(|event| {
            event.str_at(&["impersonatedUser", "username"]) == Some("bob")
                && event.str_at(&["user", "username"])
                    == Some("system:serviceaccount:default:robot")
        });
        if told {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the other is not told");
}

#[tokio::test]
async fn a_log_that_cannot_be_written_refuses_requests_if_it_is_to() {
    let dir = tempfile::tempdir().expect("a directory");
    // Every write to it fails.
    let server = server(dir.path(), log(Path::new("/dev/full"))).await;
    let (code, answer) = ask(&server, &root(), Method::GET, "/api/v1/configmaps", None).await;
    assert_eq!(code, 500);
    assert!(
        answer
            .str_at(&["message"])
            .expect("why")
            .contains("failed to store audit event")
    );
    let (code, _) = ask(&server, &root(), Method::GET, "/api/v1/pods", None).await;
    assert_eq!(code, 200, "what is not audited goes on");
}

#[tokio::test]
async fn a_webhook_gets_lists_of_events() {
    let dir = tempfile::tempdir().expect("a directory");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    let got: Arc<Mutex<Vec<Value>>> = Arc::default();
    let into = Arc::clone(&got);
    let receiver = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = Vec::new();
            // One request a connection: it is answered once its body is there.
            let body = loop {
                let mut chunk = [0; 65_536];
                let read = stream.read(&mut chunk).await.expect("a request");
                bytes.extend_from_slice(&chunk[..read]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else {
                    continue;
                };
                let length: usize = head
                    .lines()
                    .find_map(|line| {
                        line.to_lowercase()
                            .strip_prefix("content-length: ")
                            .map(str::to_owned)
                    })
                    .and_then(|text| text.parse().ok())
                    .expect("a length");
                if body.len() >= length {
                    break body.to_owned();
                }
            };
            into.lock()
                .expect("no panic")
                .push(Value::from_slice(body.as_bytes()).expect("JSON"));
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(answer).await.expect("answered");
        }
    });
    let config = dir.path().join("webhook.kubeconfig");
    std::fs::write(
        &config,
        format!("current-context: c\ncontexts: [{{name: c, context: {{cluster: k}}}}]\nclusters: [{{name: k, cluster: {{server: \"http://{address}/audit\"}}}}]\n"),
    )
    .expect("written");
    let sink = SinkOptions {
        to: SinkTarget::Webhook {
            config,
            backoff: Duration::from_millis(50),
            dialer: control_proxy::egress::Dialer::default(),
        },
        mode: Mode::Batch(Batch {
            most: 10,
            wait: Duration::from_millis(200),
            ..Batch::of_webhook()
        }),
        truncate: Some(control_audit::Truncate::default()),
    };
    let server = server(dir.path(), sink).await;
    for _ in 0..3 {
        ask(&server, &root(), Method::GET, "/api/v1/configmaps", None).await;
    }
    for _ in 0..100 {
        let count: usize = got
            .lock()
            .expect("no panic")
            .iter()
            .map(|list| list.items_at(&["items"]).len())
            .sum();
        if count >= 6 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let lists = got.lock().expect("no panic").clone();
    assert!(
        lists
            .iter()
            .all(|list| list.str_at(&["kind"]) == Some("EventList"))
    );
    let events: usize = lists
        .iter()
        .map(|list| list.items_at(&["items"]).len())
        .sum();
    assert_eq!(events, 6, "two stages of three requests");
    assert!(lists.len() < 6, "they came together");
    receiver.abort();

    let metrics = send(&server, &root(), Method::GET, "/metrics", &[], None).await;
    let page = metrics
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    let page = String::from_utf8(page.to_vec()).expect("text");
    assert!(page.contains("apiserver_audit_event_total 6\n"));
    assert!(page.contains("apiserver_audit_level_total{level=\"RequestResponse\"} 3\n"));
}

/// As kube-apiserver: the object is decoded, which sets defaults, and written before
/// anything else happens to it; what is refused before is not written.
#[tokio::test]
async fn what_was_sent_is_written_with_its_defaults_and_not_when_nobody_heard_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("audit.log");
    let first = common::server(dir.path()).await;
    let mut config = first.api().config.clone();
    let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Request, resources: [{group: apps}]}]}";
    let policy = Policy::parse(policy.as_bytes()).expect("a policy");
    config.chain.audit = Some(Audit::open(policy, [log(&path)]).expect("a sink"));
    drop(first);
    let server = ApiServer::new(config).await.expect("a server");
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let mut set = value!({
        "metadata": {"name": "r", "uid": "mine", "managedFields": []},
        "spec": {
            "unknown": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        }
    });
    let (code, mut made) = ask(&server, &root(), Method::POST, sets, Some(set.clone())).await;
    assert_eq!(code, 201);
    set.set_path(&["metadata", "name"], "other");
    let ann = User::named("ann", []);
    let (code, _) = ask(&server, &ann, Method::POST, sets, Some(set)).await;
    assert_eq!(code, 403);
    made.set_path(&["spec", "replicas"], Value::Null);
    let one = format!("{sets}/r");
    let (code, _) = ask(&server, &root(), Method::PUT, &one, Some(made)).await;
    assert_eq!(code, 200);
    let all = events(&path);
    let written = |verb: &str, user: &str| {
        let found = all.iter().find(|event| {
            event.str_at(&["verb"]) == Some(verb)
                && event.str_at(&["user", "username"]) == Some(user)
                && event.str_at(&["stage"]) == Some("ResponseComplete")
        });
        found.expect("written")
    };
    let created = written("create", "root");
    let sent = created.get("requestObject").expect("it was heard");
    assert_eq!(sent.i64_at(&["spec", "replicas"]), Some(1));
    let pod = |field| sent.path(&["spec", "template", "spec", field]);
    assert_eq!(pod("restartPolicy"), Some(&value!("Always")));
    assert!(pod("terminationGracePeriodSeconds").is_some());
    assert_eq!(sent.path(&["spec", "unknown"]), None);
    assert_eq!(sent.str_at(&["kind"]), Some("ReplicaSet"));
    // What the client claimed is still there, what the server gives is not yet.
    assert_eq!(sent.str_at(&["metadata", "uid"]), Some("mine"));
    assert_eq!(sent.path(&["metadata", "namespace"]), None);
    let updated = written("update", "root");
    assert_eq!(
        updated.i64_at(&["requestObject", "spec", "replicas"]),
        Some(1)
    );
    let refused = written("create", "ann");
    assert_eq!(refused.get("requestObject"), None);
    assert_eq!(refused.path(&["objectRef", "name"]), None);
}

/// What the log of kube-apiserver 1.36.3 holds of requests for subresources: method,
/// path, body, and both objects, the answer's without what differs each time.
const SUBRESOURCES: &str = include_str!("corpus/audit_subresources.jsonl");

/// Without what differs each time.
fn settled(value: &Value) -> Value {
    const OTHERS: &[&str] = &[
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "token",
        "expirationTimestamp",
        "audiences",
    ];
    let Value::Object(members) = value else {
        return value.clone();
    };
    let mut out = Value::object();
    for (key, member) in members.iter() {
        if !OTHERS.contains(&key.as_str()) {
            out.insert(key.as_str(), settled(member));
        }
    }
    out
}

#[tokio::test]
async fn what_subresources_take_and_answer_is_written_as_stock_writes_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("audit.log");
    let first = common::server(dir.path()).await;
    let mut config = first.api().config.clone();
    let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, omitManagedFields: true, rules: [{level: RequestResponse}]}";
    let policy = Policy::parse(policy.as_bytes()).expect("a policy");
    config.chain.audit = Some(Audit::open(policy, [log(&path)]).expect("a sink"));
    drop(first);
    let server = ApiServer::new(config).await.expect("a server");
    let containers = value!([{"name": "c", "image": "i"}]);
    let pod = |name: &str| value!({"metadata": {"name": name}, "spec": {"containers": (containers.clone()), "serviceAccountName": "robot"}});
    let core = "/api/v1/namespaces/default";
    for (path, object) in [
        (
            "/api/v1/nodes".to_owned(),
            value!({"metadata": {"name": "n1"}}),
        ),
        (
            format!("{core}/serviceaccounts"),
            value!({"metadata": {"name": "robot"}}),
        ),
        (format!("{core}/pods"), pod("p")),
        (format!("{core}/pods"), pod("q")),
        (
            "/apis/apps/v1/namespaces/default/deployments".to_owned(),
            value!({"metadata": {"name": "d"}, "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": (containers.clone())}}
            }}),
        ),
    ] {
        let (code, made) = ask(&server, &root(), Method::POST, &path, Some(object)).await;
        assert_eq!(code, 201, "{made:?}");
    }
    for line in SUBRESOURCES.lines() {
        let case = Value::from_slice(line.as_bytes()).expect("JSON");
        let text = |key| case.str_at(&[key]).expect("a text");
        let method: Method = text("method").parse().expect("a method");
        let body = case.get("body").cloned();
        let (_, answer) = ask(&server, &root(), method, text("path"), body).await;
        let all = events(&path);
        let event = all.last().expect("an event");
        assert_eq!(event.str_at(&["requestURI"]), Some(text("path")));
        for key in ["requestObject", "responseObject"] {
            let found = event.get(key).map(settled);
            let wanted = case.get(key).map(settled);
            assert_eq!(found, wanted, "{key} of {line}: {answer:?}");
        }
    }
}
