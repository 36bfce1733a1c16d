//! A collector of traces of ours on loopback: OTLP over gRPC.

use std::sync::{Arc, Mutex};

use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpListener;

/// The collector.
pub struct Collector {
    /// Where it listens.
    pub endpoint: String,
    spans: Arc<Mutex<Vec<Span>>>,
}

#[derive(Clone, PartialEq, Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<Resource>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<Scope>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

/// A span, as far as tests look at it.
#[derive(Clone, PartialEq, Message)]
pub struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub trace: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub parent: Vec<u8>,
    #[prost(string, tag = "5")]
    pub name: String,
    /// 1: internal, 2: server, 3: client.
    #[prost(int32, tag = "6")]
    pub kind: i32,
    #[prost(fixed64, tag = "7")]
    pub began: u64,
    #[prost(fixed64, tag = "8")]
    pub ended: u64,
}

impl Collector {
    /// Starts it.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = listener.local_addr().expect("an address").to_string();
        let spans = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&spans);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let all = Arc::clone(&all);
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let all = Arc::clone(&all);
                    async move {
                        let bytes = request.into_body().collect().await?.to_bytes();
                        // A gRPC message has a head of five bytes.
                        let export = Export::decode(&bytes[5..]).expect("a message");
                        let scopes = export.resources.into_iter().flat_map(|one| one.scopes);
                        all.lock()
                            .expect("a lock")
                            .extend(scopes.flat_map(|scope| scope.spans));
                        let answer = http::Response::builder()
                            .header("content-type", "application/grpc")
                            .header("grpc-status", "0")
                            .body(control_request::body::full(vec![0; 5]));
                        Ok::<_, hyper::Error>(answer.expect("an answer"))
                    }
                });
                let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(serving);
            }
        });
        Self { endpoint, spans }
    }

    /// The spans of a trace so far.
    pub fn of(&self, trace: &[u8]) -> Vec<Span> {
        let all = self.spans.lock().expect("a lock");
        all.iter()
            .filter(|span| span.trace == trace)
            .cloned()
            .collect()
    }

    /// All spans so far.
    pub fn all(&self) -> Vec<Span> {
        self.spans.lock().expect("a lock").clone()
    }
}
