//! Admission webhooks: which requests they are asked about, what they are shown,
//! and what becomes of their answers and failures.

mod common;
#[path = "common/webhook.rs"]
mod webhook;

use std::time::Instant;

use common::{ask, root, send, server};
use control_apiserver::ApiServer;
use control_request::body;
use control_request::peer::ClientAddr;
use control_types::meta;
use control_types::value;
use control_types::value::Value;
use http::Method;
use tower::ServiceExt as _;
use webhook::{Fake, Reply, patch, review};

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A webhook of a configuration: about everything unless `more` says otherwise.
fn hook(name: &str, client: Value, more: Value) -> Value {
    let mut hook = value!({
        "name": (name),
        "clientConfig": (client),
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{
            "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
            "resources": ["*/*"]
        }]
    });
    for (key, value) in more
        .as_object()
        .into_iter()
        .flat_map(control_types::Map::iter)
    {
        hook.insert(key.as_str().to_owned(), value.clone());
    }
    hook
}

/// Rules for the creation of config maps.
fn maps(operations: &[&str]) -> Value {
    let operations: Vec<Value> = operations.iter().map(|one| Value::from(*one)).collect();
    value!([{
        "operations": (operations), "apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["configmaps"]
    }])
}

/// Configures webhooks and waits until the server knows them.
async fn configure(server: &ApiServer, plural: &str, name: &str, hooks: Vec<Value>) {
    let path = format!("{CONFIGURATIONS}/{plural}");
    let object = value!({"metadata": {"name": (name)}, "webhooks": (hooks)});
    let (code, made) = ask(server, &root(), Method::POST, &path, Some(object)).await;
    assert_eq!(code, 201, "{made:?}");
    server.api().catch_up().await.expect("caches");
}

async fn with_default_namespace(dir: &std::path::Path) -> ApiServer {
    let server = server(dir).await;
    for _ in 0..100 {
        let (code, _) = ask(
            &server,
            &root(),
            Method::GET,
            "/api/v1/namespaces/default",
            None,
        )
        .await;
        if code == 200 {
            return server;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("there is no namespace");
}

fn map(name: &str, data: Value) -> Value {
    value!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": (name)}, "data": (data)})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutating_webhooks_change_objects_in_the_order_of_their_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (with_default_namespace(dir.path()).await, root());
    let fake = Fake::start(|path, question| match path {
        "/first" => {
            let seen = question.str_at(&["request", "object", "data", "second"]);
            let value = if seen.is_some() { "again" } else { "once" };
            patch(
                question,
                value!([{"op": "add", "path": "/data/first", "value": (value)}]),
            )
        }
        _ => {
            let seen = question.str_at(&["request", "object", "data", "first"]);
            let value = format!("saw {}", seen.unwrap_or("nothing"));
            patch(
                question,
                value!([
                    {"op": "add", "path": "/data/second", "value": (value)},
                    {"op": "add", "path": "/bogus", "value": 1}
                ]),
            )
        }
    })
    .await;
    let create = value!({"rules": (maps(&["CREATE"]))});
    let mut again = create.clone();
    again.insert("reinvocationPolicy", "IfNeeded");
    let second = hook("second.example.com", fake.at("/second"), create);
    let first = hook("first.example.com", fake.at("/first"), again);
    configure(&server, "mutatingwebhookconfigurations", "b", vec![second]).await;
    configure(&server, "mutatingwebhookconfigurations", "a", vec![first]).await;
    let sent = map("m", value!({"own": "x"}));
    let (code, made) = ask(&server, &root, Method::POST, MAPS, Some(sent)).await;
    assert_eq!(code, 201, "{made:?}");
    assert_eq!(
        made.get("data"),
        Some(&value!({"own": "x", "first": "again", "second": "saw once"}))
    );
    assert_eq!(made.get("bogus"), None);
    let paths: Vec<String> = fake.take().into_iter().map(|(path, _)| path).collect();
    // The first wants to see what the second did; the second does not.
    assert_eq!(paths, ["/first", "/second", "/first"]);
    // Who owns what was written before they were asked.
    let (_, stored) = ask(&server, &root, Method::GET, &format!("{MAPS}/m"), None).await;
    let owned = stored.path(&["metadata", "managedFields"]);
    let owned = owned.and_then(Value::as_array).expect("managers");
    assert!(owned[0].path(&["fieldsV1", "f:data", "f:own"]).is_some());
    assert!(owned[0].path(&["fieldsV1", "f:data", "f:first"]).is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_told_in_the_webhook_s_words() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (with_default_namespace(dir.path()).await, root());
    let fake = Fake::start(|path, question| {
        let response = match path {
            "/plain" => value!({"allowed": false}),
            "/worded" => value!({
                "allowed": false,
                "status": {"code": 409, "reason": "OutOfCheese", "message": "none left",
                           "details": {"name": "n", "retryAfterSeconds": 4}}
            }),
            _ => value!({"allowed": true, "warnings": ["mind the gap"]}),
        };
        review(question, response)
    })
    .await;
    let about = |name: &str, value: &str, path: &str| {
        let name = format!("{name}.example.com");
        let selector = value!({"matchLabels": {"ask": (value)}});
        hook(
            &name,
            fake.at(path),
            value!({"rules": (maps(&["CREATE"])), "objectSelector": (selector)}),
        )
    };
    let hooks = vec![
        about("plain", "plain", "/plain"),
        about("worded", "worded", "/worded"),
        about("kind", "kind", "/kind"),
    ];
    configure(&server, "validatingwebhookconfigurations", "a", hooks).await;
    let labelled = |value: &str| {
        let mut map = map("m", Value::object());
        meta::set_label(&mut map, "ask", value);
        map
    };
    let (code, answer) = ask(&server, &root, Method::POST, MAPS, Some(labelled("plain"))).await;
    assert_eq!(code, 400);
    assert_eq!(
        answer,
        value!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "admission webhook \"plain.example.com\" denied the request without explanation",
            "code": 400
        })
    );
    let sent = Some(labelled("worded"));
    let headers = [("content-type", "application/json")];
    let answer = send(&server, &root, Method::POST, MAPS, &headers, sent).await;
    assert_eq!(answer.status().as_u16(), 409);
    assert_eq!(answer.headers()["retry-after"], "4");
    let (_, answer) = ask(&server, &root, Method::POST, MAPS, Some(labelled("worded"))).await;
    assert_eq!(
        answer,
        value!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "admission webhook \"worded.example.com\" denied the request: none left",
            "reason": "OutOfCheese", "details": {"name": "n", "retryAfterSeconds": 4},
            "code": 409
        })
    );
    let sent = Some(labelled("kind"));
    let answer = send(&server, &root, Method::POST, MAPS, &headers, sent).await;
    assert_eq!(answer.status().as_u16(), 201);
    assert_eq!(answer.headers()["warning"], "299 - \"mind the gap\"");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_close_or_open_as_the_policy_says() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (with_default_namespace(dir.path()).await, root());
    let fake = Fake::start(|path, _| match path {
        "/silent" => Reply::Silence,
        "/broken" => Reply::Text(500, "boom\n"),
        "/missing" => Reply::Text(404, "404 page not found\n"),
        "/words" => Reply::Text(200, "hello"),
        _ => Reply::Object(value!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "response": {"uid": "other", "allowed": true}
        })),
    })
    .await;
    let port = fake.port;
    let nobody = value!({"url": "https://127.0.0.1:1/x"});
    let stranger = value!({"url": (format!("https://127.0.0.1:{port}/x")), "caBundle": ""});
    // Where the webhook is, and what is told of it.
    let table: Vec<(&str, Value, String)> = vec![
        (
            "nobody",
            nobody,
            "failed to call webhook: Post \"https://127.0.0.1:1/x?timeout=1s\": dial tcp 127.0.0.1:1: connect: connection refused".into(),
        ),
        (
            "silent",
            fake.at("/silent"),
            format!("failed to call webhook: Post \"https://127.0.0.1:{port}/silent?timeout=1s\": context deadline exceeded"),
        ),
        (
            "broken",
            fake.at("/broken"),
            "failed to call webhook: an error on the server (\"boom\") has prevented the request from succeeding".into(),
        ),
        (
            "missing",
            fake.at("/missing"),
            "failed to call webhook: the server could not find the requested resource".into(),
        ),
        (
            "words",
            fake.at("/words"),
            // Words are a string in YAML, which an answer may be written in.
            "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }".into(),
        ),
        (
            "stranger",
            stranger,
            format!("failed to call webhook: Post \"https://127.0.0.1:{port}/x?timeout=1s\": tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        ),
    ];
    let mut hooks = Vec::new();
    for (label, client, _) in &table {
        for policy in ["Fail", "Ignore"] {
            let selector = value!({"matchLabels": {"ask": (*label), "policy": (policy)}});
            hooks.push(hook(
                &format!("{label}.{}.example.com", policy.to_lowercase()),
                client.clone(),
                value!({
                    "rules": (maps(&["CREATE"])), "objectSelector": (selector),
                    "failurePolicy": (policy), "timeoutSeconds": 1
                }),
            ));
        }
    }
    for plural in [
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
    ] {
        configure(&server, plural, "a", hooks.clone()).await;
        for (label, _, why) in &table {
            let labelled = |policy: &str| {
                let mut map = map(label, Value::object());
                meta::set_label(&mut map, "ask", label);
                meta::set_label(&mut map, "policy", policy);
                map
            };
            let began = Instant::now();
            let (code, answer) =
                ask(&server, &root, Method::POST, MAPS, Some(labelled("Fail"))).await;
            assert_eq!(code, 500, "{label}");
            assert!(began.elapsed().as_secs() < 3, "{label}");
            assert_eq!(
                answer.str_at(&["message"]),
                Some(&*format!(
                    "Internal error occurred: failed calling webhook \"{label}.fail.example.com\": {why}"
                ))
            );
            let path = format!("{MAPS}?dryRun=All");
            let (code, answer) = ask(
                &server,
                &root,
                Method::POST,
                &path,
                Some(labelled("Ignore")),
            )
            .await;
            assert_eq!(code, 201, "{label}: {answer:?}");
        }
        let path = format!("{CONFIGURATIONS}/{plural}/a");
        let (code, _) = ask(&server, &root, Method::DELETE, &path, None).await;
        assert_eq!(code, 200);
        server.api().catch_up().await.expect("caches");
    }
}

/// What a webhook was asked, in one line.
fn line(question: &Value) -> String {
    let request = question.get("request").cloned().unwrap_or_default();
    let text = |path: &[&str]| request.str_at(path).unwrap_or_default().to_owned();
    let subresource = match text(&["subResource"]) {
        none if none.is_empty() => none,
        some => format!("/{some}"),
    };
    let kind_of = |field: &str| {
        let object = request.get(field).filter(|object| !object.is_null());
        object.map_or("-", |object| meta::kind(object)).to_owned()
    };
    format!(
        "{} {}{subresource} {} {}/{} {} {} {}",
        text(&["operation"]),
        text(&["resource", "resource"]),
        text(&["kind", "kind"]),
        text(&["namespace"]),
        text(&["name"]),
        kind_of("object"),
        kind_of("oldObject"),
        kind_of("options"),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_to_write_and_to_connect_is_asked_about() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (with_default_namespace(dir.path()).await, root());
    let fake = Fake::start(|_, question| review(question, value!({"allowed": true}))).await;
    let all = hook("all.example.com", fake.at("/"), Value::object());
    configure(&server, "validatingwebhookconfigurations", "a", vec![all]).await;
    let api = "/api/v1/namespaces/default";
    let deployment = value!({
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}
            }
        }
    });
    let pod = value!({
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "default",
                 "automountServiceAccountToken": false}
    });
    let account = value!({"metadata": {"name": "default"}});
    let apps = "/apis/apps/v1/namespaces/default/deployments";
    let review_path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    // What is done, and which questions that makes.
    let table: Vec<(Method, String, Option<Value>, Vec<&str>)> = vec![
        (
            Method::POST,
            format!("{api}/serviceaccounts"),
            Some(account),
            vec![
                "CREATE serviceaccounts ServiceAccount default/default ServiceAccount - CreateOptions",
            ],
        ),
        (
            Method::POST,
            format!("{api}/configmaps"),
            Some(map("m", Value::object())),
            vec!["CREATE configmaps ConfigMap default/m ConfigMap - CreateOptions"],
        ),
        (
            Method::POST,
            format!("{api}/configmaps"),
            Some(value!({"metadata": {"generateName": "g-"}})),
            vec!["CREATE configmaps ConfigMap default/g- ConfigMap - CreateOptions"],
        ),
        (
            Method::PUT,
            format!("{api}/configmaps/m"),
            Some(map("m", value!({"a": "b"}))),
            vec!["UPDATE configmaps ConfigMap default/m ConfigMap ConfigMap UpdateOptions"],
        ),
        (
            Method::PATCH,
            format!("{api}/configmaps/m"),
            Some(value!({"data": {"c": "d"}})),
            vec!["UPDATE configmaps ConfigMap default/m ConfigMap ConfigMap UpdateOptions"],
        ),
        (
            Method::DELETE,
            format!("{api}/configmaps/m"),
            None,
            vec!["DELETE configmaps ConfigMap default/m - ConfigMap DeleteOptions"],
        ),
        (
            Method::PUT,
            "/apis/coordination.k8s.io/v1/namespaces/default/leases/l".into(),
            Some(value!({"metadata": {"name": "l"}, "spec": {}})),
            vec!["CREATE leases Lease default/l Lease - CreateOptions"],
        ),
        (
            Method::DELETE,
            "/apis/coordination.k8s.io/v1/namespaces/default/leases".into(),
            None,
            vec!["DELETE leases Lease default/ - Lease DeleteOptions"],
        ),
        (
            Method::POST,
            "/api/v1/namespaces".into(),
            Some(value!({"metadata": {"name": "n"}})),
            vec!["CREATE namespaces Namespace n/n Namespace - CreateOptions"],
        ),
        (
            Method::POST,
            "/api/v1/nodes".into(),
            Some(value!({"metadata": {"name": "n"}})),
            vec!["CREATE nodes Node /n Node - CreateOptions"],
        ),
        (
            Method::POST,
            apps.into(),
            Some(deployment),
            vec!["CREATE deployments Deployment default/d Deployment - CreateOptions"],
        ),
        (
            Method::PATCH,
            format!("{apps}/d/status"),
            Some(value!({"status": {"replicas": 1}})),
            vec![
                "UPDATE deployments/status Deployment default/d Deployment Deployment UpdateOptions",
            ],
        ),
        (
            Method::PATCH,
            format!("{apps}/d/scale"),
            Some(value!({"spec": {"replicas": 2}})),
            vec!["UPDATE deployments/scale Scale default/d Scale Scale UpdateOptions"],
        ),
        (
            Method::POST,
            format!("{api}/pods"),
            Some(pod),
            vec!["CREATE pods Pod default/p Pod - CreateOptions"],
        ),
        (
            Method::POST,
            format!("{api}/pods/p/exec?command=sh"),
            None,
            vec!["CONNECT pods/exec PodExecOptions default/p PodExecOptions - -"],
        ),
        (
            Method::GET,
            format!("{api}/pods/p/proxy/x"),
            None,
            vec!["CONNECT pods/proxy PodProxyOptions default/p PodProxyOptions - -"],
        ),
        (
            Method::POST,
            format!("{api}/pods/p/binding"),
            Some(value!({"metadata": {"name": "p"}, "target": {"name": "n"}})),
            vec!["CREATE pods/binding Binding default/p Binding - CreateOptions"],
        ),
        (
            Method::POST,
            format!("{api}/pods/p/eviction"),
            Some(value!({"metadata": {"name": "p"}})),
            vec!["CREATE pods/eviction Eviction default/p Eviction - CreateOptions"],
        ),
        (
            Method::POST,
            format!("{api}/serviceaccounts/default/token"),
            Some(value!({})),
            vec![
                "CREATE serviceaccounts/token TokenRequest default/default TokenRequest - CreateOptions",
            ],
        ),
        (
            Method::POST,
            review_path.into(),
            Some(value!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}})),
            vec![
                "CREATE selfsubjectaccessreviews SelfSubjectAccessReview / SelfSubjectAccessReview - CreateOptions",
            ],
        ),
        (
            Method::DELETE,
            format!("{CONFIGURATIONS}/validatingwebhookconfigurations/a"),
            None,
            vec![],
        ),
    ];
    for (method, path, object, wanted) in table {
        fake.take();
        let (code, answer) = ask(&server, &root, method.clone(), &path, object).await;
        let connects = path.contains("/exec") || path.contains("/proxy");
        assert!(connects || code < 300, "{method} {path}: {answer:?}");
        let ours = |question: &Value| {
            // The server's own requests are asked about as well; they are not meant.
            question.str_at(&["request", "userInfo", "username"]) == Some("root")
        };
        let lines: Vec<String> = fake
            .take()
            .iter()
            .filter(|(_, question)| ours(question))
            .map(|(_, question)| line(question))
            .collect();
        let generated = path.ends_with("configmaps") && wanted[0].contains("/g-");
        if generated {
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert!(lines[0].starts_with("CREATE configmaps ConfigMap default/g-"));
        } else {
            assert_eq!(lines, wanted, "{method} {path}: {code}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_is_about_other_versions_of_the_same_objects() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (with_default_namespace(dir.path()).await, root());
    let fake = Fake::start(|path, question| match path {
        "/change" => patch(
            question,
            value!([{"op": "replace", "path": "/spec/targetCPUUtilizationPercentage", "value": 70}]),
        ),
        _ => review(question, value!({"allowed": true})),
    })
    .await;
    let rules = value!([{
        "operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v1"],
        "resources": ["horizontalpodautoscalers"]
    }]);
    let exact = hook(
        "exact.example.com",
        fake.at("/exact"),
        value!({"rules": (rules.clone()), "matchPolicy": "Exact"}),
    );
    let change = hook(
        "change.example.com",
        fake.at("/change"),
        value!({ "rules": (rules) }),
    );
    let hooks = vec![exact, change];
    configure(&server, "mutatingwebhookconfigurations", "a", hooks).await;
    let scaler = value!({
        "metadata": {"name": "h"},
        "spec": {
            "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]
        }
    });
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let (code, made) = ask(&server, &root, Method::POST, path, Some(scaler)).await;
    assert_eq!(code, 201, "{made:?}");
    assert_eq!(made.str_at(&["apiVersion"]), Some("autoscaling/v2"));
    let metric = &made.items_at(&["spec", "metrics"])[0];
    assert_eq!(
        metric.i64_at(&["resource", "target", "averageUtilization"]),
        Some(70)
    );
    let asked = fake.take();
    let [(path, question)] = asked.as_slice() else {
        panic!("one question: {asked:?}");
    };
    let text = |path: &[&str]| question.str_at(path).unwrap_or_default();
    assert_eq!(path, "/change");
    assert_eq!(text(&["request", "kind", "version"]), "v1");
    assert_eq!(text(&["request", "requestKind", "version"]), "v2");
    assert_eq!(text(&["request", "object", "apiVersion"]), "autoscaling/v1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_is_asked_at_its_endpoints_under_its_own_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (with_default_namespace(dir.path()).await, root());
    let fake = Fake::start(|_, question| {
        review(
            question,
            value!({"allowed": false, "status": {"message": "no"}}),
        )
    })
    .await;
    let client = value!({
        "service": {"namespace": "default", "name": "hook", "path": "/p", "port": (fake.port)},
        "caBundle": (fake.bundle.as_str())
    });
    let hooks = vec![hook(
        "service.example.com",
        client,
        value!({"rules": (maps(&["CREATE"])), "timeoutSeconds": 5}),
    )];
    configure(&server, "validatingwebhookconfigurations", "a", hooks).await;
    let refused = |answer: &Value| answer.str_at(&["message"]).unwrap_or_default().to_owned();
    let sent = || Some(map("m", Value::object()));
    let failed = format!(
        "Internal error occurred: failed calling webhook \"service.example.com\": failed to call webhook: Post \"https://hook.default.svc:{}/p?timeout=5s\":",
        fake.port
    );
    let (code, answer) = ask(&server, &root, Method::POST, MAPS, sent()).await;
    assert_eq!(
        (code, refused(&answer)),
        (500, format!("{failed} service \"hook\" not found"))
    );
    let service = value!({
        "metadata": {"name": "hook"},
        "spec": {"ports": [{"name": "https", "port": (fake.port)}]}
    });
    let path = "/api/v1/namespaces/default/services";
    let (code, made) = ask(&server, &root, Method::POST, path, Some(service)).await;
    assert_eq!(code, 201, "{made:?}");
    server.api().catch_up().await.expect("caches");
    let (code, answer) = ask(&server, &root, Method::POST, MAPS, sent()).await;
    assert_eq!(
        (code, refused(&answer)),
        (
            500,
            format!("{failed} no endpoints available for service \"hook\"")
        )
    );
    // Loopback addresses are none that a slice may have, but a name may be one.
    let path = format!("{path}/hook");
    let named = value!({"spec": {"type": "ExternalName", "externalName": "localhost"}});
    let (code, made) = ask(&server, &root, Method::PATCH, &path, Some(named)).await;
    assert_eq!(code, 200, "{made:?}");
    server.api().catch_up().await.expect("caches");
    let (code, answer) = ask(&server, &root, Method::POST, MAPS, sent()).await;
    assert_eq!(
        (code, refused(&answer)),
        (
            400,
            "admission webhook \"service.example.com\" denied the request: no".into()
        )
    );
    assert_eq!(fake.take().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_administrator_on_the_machine_gets_past_a_webhook_that_is_down() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (with_default_namespace(dir.path()).await, root());
    let nobody = value!({"url": "https://127.0.0.1:1/x"});
    let hooks = vec![hook(
        "down.example.com",
        nobody,
        value!({"rules": (maps(&["*"]))}),
    )];
    configure(&server, "validatingwebhookconfigurations", "a", hooks).await;
    let create = async |address: Option<&str>, header: bool| {
        let sent = map("m", Value::object()).to_vec();
        let mut request = http::Request::builder().method(Method::POST).uri(MAPS);
        request = request.header("content-type", "application/json");
        if header {
            request = request.header("orlop-bypass-admission", "true");
        }
        let mut request = request.body(body::full(sent)).expect("a request");
        request.extensions_mut().insert(root.clone());
        if let Some(address) = address {
            let address = address.parse().expect("an address");
            request.extensions_mut().insert(ClientAddr(address));
        }
        let answer = server.service().oneshot(request).await;
        let answer = answer.expect("infallible");
        let warning = answer.headers().get("warning").cloned();
        (answer.status().as_u16(), warning)
    };
    assert_eq!(create(Some("127.0.0.1:5000"), false).await, (500, None));
    assert_eq!(create(Some("10.0.0.9:5000"), true).await, (403, None));
    assert_eq!(create(None, true).await, (403, None));
    let (code, warning) = create(Some("127.0.0.1:5000"), true).await;
    assert_eq!(code, 201);
    assert_eq!(
        warning.expect("a warning"),
        "299 - \"admission policies and webhooks were bypassed\""
    );
    // What was refused is counted under the names that dashboards know.
    let headers = [("accept", "text/plain")];
    let page = send(&server, &root, Method::GET, "/metrics", &headers, None).await;
    let page = http_body_util::BodyExt::collect(page.into_body()).await;
    let page = String::from_utf8(page.expect("a page").to_bytes().to_vec()).expect("text");
    let line = page
        .lines()
        .find(|line| line.starts_with("apiserver_admission_webhook_rejection_count{"))
        .expect("a rejection");
    for label in [
        "name=\"down.example.com\"",
        "type=\"validating\"",
        "operation=\"CREATE\"",
        "error_type=\"calling_webhook_error\"",
        "rejection_code=\"503\"",
    ] {
        assert!(line.contains(label), "{line}");
    }
    assert!(line.ends_with(" 1"), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_and_namespaces_keep_requests_from_a_webhook() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (with_default_namespace(dir.path()).await, root());
    let fake = Fake::start(|_, question| review(question, value!({"allowed": false}))).await;
    let namespace = value!({"metadata": {"name": "free", "labels": {"free": "yes"}}});
    let path = "/api/v1/namespaces";
    let (code, _) = ask(&server, &root, Method::POST, path, Some(namespace)).await;
    assert_eq!(code, 201);
    server.api().catch_up().await.expect("caches");
    let selector = value!({"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]});
    let conditions = value!([
        {"name": "named", "expression": "!object.metadata.name.startsWith('skip')"},
        {"name": "allowed", "expression": "request.userInfo.username == 'root' && authorizer.group('').resource('pods').check('get').allowed()"}
    ]);
    let hooks = vec![hook(
        "some.example.com",
        fake.at("/"),
        value!({
            "rules": (maps(&["CREATE"])), "namespaceSelector": (selector),
            "matchConditions": (conditions)
        }),
    )];
    configure(&server, "validatingwebhookconfigurations", "a", hooks).await;
    for (namespace, name, wanted) in [
        ("default", "asked", 400),
        ("default", "skipped", 201),
        ("free", "asked", 201),
    ] {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let sent = Some(map(name, Value::object()));
        let (code, answer) = ask(&server, &root, Method::POST, &path, sent).await;
        assert_eq!(code, wanted, "{namespace}/{name}: {answer:?}");
    }
    assert_eq!(fake.take().len(), 1);
}
