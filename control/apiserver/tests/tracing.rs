//! Traces: a request's spans reach the collector as one tree, and whoever is asked for
//! its sake is told of the span in which that is done.

#[path = "common/collector.rs"]
mod collector;
mod common;
#[path = "common/webhook.rs"]
mod webhook;

use std::path::Path;
use std::time::Duration;

use collector::{Collector, Span};
use common::{ask, root, send, server_of};
use control_apiserver::ApiServer;
use control_auth::{Settings, WebhookSettings};
use control_proxy::egress::Dialer;
use control_request::body;
use control_tracing::{Config, Tracer};
use control_types::value;
use control_types::value::Value;
use http::{Method, Request};
use tower::ServiceExt as _;
use webhook::{Fake, Reply, review};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const THEIRS: &str = "b7ad6b7169203331";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Long enough for a busy machine; spans are sent every five seconds.
const PATIENCE: Duration = Duration::from_secs(90);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(text: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("digits");
    (0..text.len()).step_by(2).map(pair).collect()
}

/// Waits for spans of a trace that are enough.
async fn spans(collector: &Collector, trace: &[u8], enough: impl Fn(&[Span]) -> bool) -> Vec<Span> {
    let found = async {
        loop {
            let spans = collector.of(trace);
            if enough(&spans) {
                return spans;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, found).await;
    found.unwrap_or_else(|_| panic!("{:#?}", collector.all()))
}

async fn server(dir: &Path, collector: &Collector, rate: u32, settings: Settings) -> ApiServer {
    let endpoint = collector.endpoint.clone();
    let tracer = Tracer::new(&Config { endpoint, rate }, Dialer::default());
    let chain = control_apiserver::chain::Settings {
        tracer: Some(tracer.expect("a tracer")),
        ..Default::default()
    };
    server_of(dir, settings, chain).await
}

async fn make(server: &ApiServer, path: &str, object: Value) {
    let (code, made) = ask(server, &root(), Method::POST, path, Some(object)).await;
    assert_eq!(code, 201, "{path}: {made:?}");
    server.api().catch_up().await.expect("caches");
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    let [one] = found[..] else {
        panic!("{name}: {spans:#?}")
    };
    one
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_one_trace_from_its_client_to_its_webhooks() {
    let dir = tempfile::tempdir().expect("a folder");
    let collector = Collector::start().await;
    let fake = Fake::start(|_, question| review(question, value!({"allowed": true}))).await;
    let server = server(dir.path(), &collector, 0, Settings::default()).await;
    for (plural, path) in [
        ("mutatingwebhookconfigurations", "/m"),
        ("validatingwebhookconfigurations", "/v"),
    ] {
        let hooks = value!({"metadata": {"name": "hooks"}, "webhooks": [{
            "name": "a.example.com", "clientConfig": (fake.at(path)), "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [{
                "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"]
            }]
        }]});
        let group = "/apis/admissionregistration.k8s.io/v1";
        make(&server, &format!("{group}/{plural}"), hooks).await;
    }
    let map = |name: &str| value!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": (name)}});
    let with = |name: &'static str, flags: &str| {
        let traceparent = format!("00-{TRACE}-{THEIRS}-{flags}");
        let (server, map) = (&server, map(name));
        async move {
            let headers = [
                ("traceparent", traceparent.as_str()),
                ("content-type", "application/json"),
            ];
            let answer = send(server, &root(), Method::POST, MAPS, &headers, Some(map)).await;
            assert_eq!(answer.status(), 201);
        }
    };
    // Who does not want to be traced is not, nor are webhooks told of it.
    with("untraced", "00").await;
    assert_eq!(
        fake.told(),
        [("/m".to_owned(), None), ("/v".to_owned(), None)]
    );
    with("traced", "01").await;
    let whole = "POST /api/v1/namespaces/{:namespace}/configmaps";
    let spans = spans(&collector, &bytes(TRACE), |spans| {
        spans.iter().any(|span| span.name == whole)
    })
    .await;
    let whole = named(&spans, whole);
    assert_eq!((hex(&whole.parent).as_str(), whole.kind), (THEIRS, 2));
    for step in ["priorityandfairness", "authorization", "Create"] {
        assert_eq!(named(&spans, step).parent, whole.id, "{step}");
    }
    let create = named(&spans, "Create");
    let (mutating, validating) = (
        named(&spans, "Call mutating webhook"),
        named(&spans, "Call validating webhook"),
    );
    for part in [
        mutating,
        validating,
        named(&spans, "Create etcd3"),
        named(&spans, "SerializeObject"),
    ] {
        assert_eq!(part.parent, create.id, "{}", part.name);
        assert!(create.began <= part.began && part.began <= part.ended);
        assert!(part.ended <= create.ended, "{}", part.name);
    }
    // Each webhook was told of the request that it was sent.
    let told: Vec<(String, Option<String>)> = ["/m", "/v"]
        .into_iter()
        .zip([mutating, validating])
        .map(|(path, call)| {
            let request = spans
                .iter()
                .find(|span| span.name == "HTTP POST" && span.parent == call.id)
                .expect("a request");
            assert_eq!(request.kind, 3);
            let id = hex(&request.id);
            (path.to_owned(), Some(format!("00-{TRACE}-{id}-01")))
        })
        .collect();
    assert_eq!(fake.told(), told);
    assert!(collector.all().iter().all(|span| hex(&span.trace) == TRACE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_knows_tokens_and_who_serves_groups_are_told_too() {
    let dir = tempfile::tempdir().expect("a folder");
    let collector = Collector::start().await;
    let fake = Fake::start(|path, _| match path {
        "/tokens" => Reply::Object(value!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "status": {"authenticated": true, "user": {"username": "ann", "groups": ["system:masters"]}}
        })),
        _ => Reply::Object(Value::object()),
    })
    .await;
    let kubeconfig = dir.path().join("tokens");
    std::fs::write(&kubeconfig, fake.kubeconfig("/tokens")).expect("written");
    let settings = Settings {
        webhook_tokens: Some(WebhookSettings {
            kubeconfig,
            version: "v1".to_owned(),
            lasts: Duration::ZERO,
        }),
        ..Settings::default()
    };
    let server = server(dir.path(), &collector, 1_000_000, settings).await;
    let request = Request::get("/version").header("authorization", "Bearer unknown");
    let request = request.body(body::empty()).expect("a request");
    let answer = server.service().oneshot(request).await.expect("infallible");
    assert_eq!(answer.status(), 200);
    let told = fake.told();
    let [(_, Some(told))] = &told[..] else {
        panic!("{told:?}")
    };
    let [_, trace, span, _] = told.split('-').collect::<Vec<_>>()[..] else {
        panic!("{told}")
    };
    let found = spans(&collector, &bytes(trace), |spans| {
        spans.iter().any(|span| span.name == "GET")
    })
    .await;
    let (whole, asked) = (named(&found, "GET"), named(&found, "authentication"));
    let request = named(&found, "HTTP POST");
    assert_eq!((&asked.parent, &whole.parent), (&whole.id, &Vec::new()));
    assert_eq!(
        (&request.parent, hex(&request.id).as_str()),
        (&asked.id, span)
    );

    // An extension server.
    let service = value!({
        "metadata": {"name": "hook"},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}
    });
    make(&server, "/api/v1/namespaces/default/services", service).await;
    let registration = value!({
        "metadata": {"name": "v1.a.example"},
        "spec": {
            "group": "a.example", "version": "v1", "caBundle": (fake.bundle.as_str()),
            "groupPriorityMinimum": 2000, "versionPriority": 10,
            "service": {"namespace": "default", "name": "hook", "port": (i64::from(fake.port))}
        }
    });
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    make(&server, path, registration).await;
    let headers = [("traceparent", &*format!("00-{TRACE}-{THEIRS}-01"))];
    let things = "/apis/a.example/v1/things";
    let served = async {
        loop {
            let answer = send(&server, &root(), Method::GET, things, &headers, None).await;
            if answer.status() == 200 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, served)
        .await
        .expect("served");
    let told: Vec<_> = fake
        .told()
        .into_iter()
        .filter(|(path, _)| path == things)
        .collect();
    let [(_, Some(told))] = &told[..] else {
        panic!("{told:?}")
    };
    let enough = |spans: &[Span]| spans.iter().any(|span| told.contains(&hex(&span.id)));
    let found = spans(&collector, &bytes(TRACE), enough).await;
    let request = named(&found, "HTTP GET");
    assert_eq!(*told, format!("00-{TRACE}-{}-01", hex(&request.id)));
}
