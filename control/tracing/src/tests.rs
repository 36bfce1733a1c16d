use std::time::Duration;

use control_access::User;
use http::{HeaderMap, Request};

use super::otlp::Attribute;
use super::span::to_other;
use super::*;

const THEIRS: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Connects directly.
#[derive(Clone)]
struct Tcp;

impl Connect for Tcp {
    type Stream = tokio::net::TcpStream;

    async fn connect(&self, host: &str, port: u16) -> std::io::Result<Self::Stream> {
        tokio::net::TcpStream::connect((host, port)).await
    }
}

/// A tracer, and the spans that it sends.
fn kept(rate: u32) -> (Arc<Tracer>, impl FnMut() -> Vec<otlp::SpanData>) {
    let (exporter, mut queue) = Exporter::kept();
    let tracer = Arc::new(Tracer {
        bound: bound(rate),
        exporter,
    });
    let taken = move || {
        let mut all = Vec::new();
        while let Ok(otlp::Message::Span(span)) = queue.try_recv() {
            all.push(*span);
        }
        all
    };
    (tracer, taken)
}

fn traced(tracer: &Arc<Tracer>, traceparent: &str) -> Option<RequestTrace> {
    let path = "/api/v1/namespaces/a/pods/b/log?follow=1";
    let request = Request::get(path)
        .header("traceparent", traceparent)
        .header("user-agent", "me")
        .body(())
        .expect("a request");
    let (parts, ()) = request.into_parts();
    let info = RequestInfo::parse(&parts.method, parts.uri.path(), parts.uri.query());
    tracer.begin(&parts, &info, "some-id")
}

#[tokio::test]
async fn only_who_is_believed_has_a_part_in_its_own_trace() {
    let (tracer, mut sent) = kept(0);
    assert!(traced(&tracer, "").is_none());
    assert!(traced(&tracer, &THEIRS.replace("-01", "-00")).is_none());
    let mut asked = traced(&tracer, THEIRS).expect("it may be");
    assert!(!asked.set_user(&User::named("a", [])));
    assert!(asked.whole().child("x").is_none());
    drop(asked);
    assert_eq!(sent(), []);
    let mut asked = traced(&tracer, THEIRS).expect("it may be");
    // Who asks is not known yet: what ends meanwhile waits, and others are told nothing.
    let step = asked.whole().child("authentication");
    let mut headers = HeaderMap::new();
    let told = under(step.as_ref(), async { to_other("HTTP POST", &mut headers) }).await;
    drop((told, step));
    assert!(headers.is_empty());
    assert_eq!(sent(), []);
    assert!(asked.set_user(&User::named("a", ["system:masters"])));
    asked.answered(200);
    drop(asked);
    let spans = sent();
    let [other, step, whole] = &spans[..] else {
        panic!("{spans:?}")
    };
    assert_eq!(
        whole.name,
        "GET /api/v1/namespaces/{:namespace}/pods/{:name}/log"
    );
    let parent = context::Parent::parse(THEIRS).expect("right");
    assert_eq!(
        (whole.trace, whole.parent),
        (parent.trace, Some(parent.span))
    );
    assert_eq!((step.trace, step.parent), (parent.trace, Some(whole.span)));
    assert_eq!((other.trace, other.parent), (parent.trace, Some(step.span)));
    assert!(whole.began <= whole.ended && whole.began > 1_700_000_000_000_000_000);
    let code = ("http.response.status_code", Attribute::Number(200));
    assert!(whole.attributes.contains(&code) && !whole.failed);
    // Whoever is not believed gets a trace of ours, by chance.
    let (always, mut sent) = kept(1_000_000);
    let mut asked = traced(&always, THEIRS).expect("it may be");
    assert!(asked.set_user(&User::named("a", [])));
    drop(asked);
    let spans = sent();
    assert_eq!(
        (spans[0].parent, spans[0].link),
        (None, Some((parent.trace, parent.span)))
    );
    assert_ne!(spans[0].trace, parent.trace);
}

#[tokio::test]
async fn others_are_told_of_the_span_that_they_are_asked_in() {
    let (tracer, mut sent) = kept(1_000_000);
    let asked = traced(&tracer, "").expect("it is");
    let mut headers = HeaderMap::new();
    let hook = under(Some(asked.whole()), async {
        child("Call validating webhook")
    })
    .await;
    let work = async {
        // A task that waits finds its span again.
        tokio::task::yield_now().await;
        let mut span = to_other("HTTP POST", &mut headers).expect("a span");
        span.fails();
    };
    under(hook.as_ref(), work).await;
    assert!(child("outside").is_none());
    drop((hook, asked));
    let spans = sent();
    let [request, hook, whole] = &spans[..] else {
        panic!("{spans:?}")
    };
    assert_eq!((hook.parent, whole.parent), (Some(whole.span), None));
    assert_eq!((request.parent, request.failed), (Some(hook.span), true));
    let told = headers["traceparent"].to_str().expect("text");
    let told = context::Parent::parse(told).expect("right");
    let expected = context::Parent {
        trace: whole.trace,
        span: request.span,
        sampled: true,
    };
    assert_eq!(told, expected);
    // Nobody answered it.
    assert!(whole.failed);
}

#[test]
fn the_rate_is_a_part_of_all_numbers() {
    assert_eq!(
        (bound(0), bound(1_000_000), bound(500_000)),
        (0, 1 << 63, 1 << 62)
    );
    let (tracer, _) = kept(500_000);
    let mut number = [0xff; 16];
    assert!(!tracer.samples(number));
    number[8] = 0x7f;
    assert!(tracer.samples(number));
}

fn tracer(rate: u32) -> Arc<Tracer> {
    let endpoint = "127.0.0.1:1".to_owned();
    Tracer::new(&Config { endpoint, rate }, Tcp).expect("a tracer")
}

#[test]
fn a_configuration_is_kube_apiservers() {
    let parse = |text: &str| {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n";
        Config::parse(format!("{head}{text}").as_bytes())
    };
    let usual = parse("").expect("right");
    assert_eq!((&*usual.endpoint, usual.rate), ("localhost:4317", 0));
    let given = parse("endpoint: c:1\nsamplingRatePerMillion: 100\n").expect("right");
    assert_eq!((&*given.endpoint, given.rate), ("c:1", 100));
    for wrong in [
        "samplingRatePerMillion: -1\n",
        "samplingRatePerMillion: 1000001\n",
        "x: 1\n",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    assert!(Config::parse(b"kind: TracingConfiguration\napiVersion: v1\n").is_err());
    assert!(Config::parse(b"{").is_err());
}

/// A collector that takes one request and keeps it.
async fn collector() -> (String, tokio::task::JoinHandle<otlp::message::Request>) {
    use http_body_util::BodyExt;
    use prost::Message;

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let endpoint = listener.local_addr().expect("an address").to_string();
    let task = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        let (kept, mut taken) = tokio::sync::mpsc::channel(1);
        let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
            let kept = kept.clone();
            async move {
                assert!(request.uri().path().ends_with("TraceService/Export"));
                let bytes = request
                    .into_body()
                    .collect()
                    .await
                    .expect("a body")
                    .to_bytes();
                // A gRPC message has a head of five bytes.
                let message = otlp::message::Request::decode(&bytes[5..]).expect("a message");
                let _ = kept.send(message).await;
                let answer = http::Response::builder()
                    .header("content-type", "application/grpc")
                    .header("grpc-status", "0")
                    .body(control_request::body::full(vec![0; 5]));
                Ok::<_, std::convert::Infallible>(answer.expect("an answer"))
            }
        });
        let executor = hyper_util::rt::TokioExecutor::new();
        let io = hyper_util::rt::TokioIo::new(stream);
        let serving =
            hyper::server::conn::http2::Builder::new(executor).serve_connection(io, service);
        tokio::select! {
            taken = taken.recv() => taken.expect("a message"),
            ended = serving => panic!("the connection ended: {ended:?}"),
        }
    });
    (endpoint, task)
}

#[tokio::test]
async fn spans_reach_a_collector_over_grpc() {
    let (endpoint, taken) = collector().await;
    let rate = 1_000_000;
    let tracer = Tracer::new(&Config { endpoint, rate }, Tcp).expect("a tracer");
    drop(traced(&tracer, "").expect("it may be"));
    tracer.close().await;
    let taken = tokio::time::timeout(Duration::from_secs(10), taken).await;
    let request = taken.expect("in time").expect("no panic");
    let spans = &request.resource_spans[0].scope_spans[0].spans;
    assert_eq!(spans.len(), 1);
    assert_eq!(
        (
            spans[0].kind,
            spans[0].trace_id.len(),
            spans[0].span_id.len()
        ),
        (2, 16, 8)
    );
    // It ended before it was answered.
    assert_eq!(spans[0].status.as_ref().map(|status| status.code), Some(2));
    assert_eq!(tracer.exporter.lost(), 0);
}

#[tokio::test]
async fn spans_that_nobody_takes_are_lost_and_counted() {
    let tracer = tracer(1_000_000);
    for _ in 0..5000 {
        drop(traced(&tracer, ""));
    }
    assert!(tracer.exporter.lost() > 0);
}
