//! An API server with Services, EndpointSlices and a Node. It serves HTTP/2 over TLS as
//! kube-apiserver does, sends every object as an event of its own, and then the changes that the
//! benchmark makes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tests::Failure;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The server.
#[derive(Clone)]
pub struct Api(Arc<State>);

struct State {
    /// By path: the events that a watch begins with.
    kinds: HashMap<&'static str, Vec<Bytes>>,
    /// Who watches which path.
    watchers: Mutex<Vec<(String, mpsc::UnboundedSender<Bytes>)>>,
}

/// Where the server is, as a kubeconfig.
pub struct Place(String);

impl Place {
    /// The kubeconfig's text.
    pub fn kubeconfig(&self) -> &str {
        &self.0
    }
}

/// An event as a line of a watch.
pub fn event(kind: &str, object: &Value) -> Bytes {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into()
}

/// Initial events end.
fn bookmark() -> Bytes {
    let object = json!({"metadata": {
        "resourceVersion": "1000000",
        "annotations": {"k8s.io/initial-events-end": "true"},
    }});
    event("BOOKMARK", &object)
}

// === impl Api ===

impl Api {
    /// A server of these objects, by path.
    pub fn new(kinds: HashMap<&'static str, Vec<Bytes>>) -> Self {
        Self(Arc::new(State {
            kinds,
            watchers: Mutex::default(),
        }))
    }

    /// Tells who watches a path.
    pub fn tell(&self, path: &str, event: &Bytes) {
        let mut watchers = self
            .0
            .watchers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|(watched, to)| watched != path || to.send(event.clone()).is_ok());
    }

    /// Serves on loopback, on threads of its own.
    pub fn serve(&self) -> Result<Place, Failure> {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let api = self.clone();
        std::thread::spawn(move || runtime.block_on(api.accept(listener, acceptor)));
        Ok(Place(kubeconfig(address, &made.cert.pem())))
    }

    async fn accept(self, listener: TcpListener, acceptor: TlsAcceptor) {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, api) = (acceptor.clone(), self.clone());
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let service = service_fn(move |request| {
                    let api = api.clone();
                    async move { Ok::<_, Infallible>(api.answer(request).await) }
                });
                let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
        let has = |pair: &str| query.split('&').any(|it| it == pair);
        if head.method == Method::GET && has("watch=true") && self.0.kinds.contains_key(path) {
            let events = self.watch(path, has("sendInitialEvents=true"));
            let frames = events.map(|bytes| Ok(Frame::data(bytes)));
            return reply(StatusCode::OK, StreamBody::new(frames).boxed_unsync());
        }
        if head.method == Method::GET {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "reason": "NotFound", "code": 404, "message": "not here"});
            let body = Full::new(Bytes::from(status.to_string()));
            return reply(StatusCode::NOT_FOUND, body.boxed_unsync());
        }
        // Events and conditions are taken as they come.
        let sent = body
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes);
        let body = Full::new(sent.unwrap_or_default());
        reply(StatusCode::OK, body.boxed_unsync())
    }

    fn watch(&self, path: &str, initial: bool) -> impl Stream<Item = Bytes> + use<> {
        let (to, from) = mpsc::unbounded_channel();
        let mut watchers = self
            .0
            .watchers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        watchers.push((path.to_owned(), to));
        let first = self.0.kinds.get(path).filter(|_| initial);
        let first = first.map(|events| {
            let mut events = events.clone();
            events.push(bookmark());
            events
        });
        let later = stream::unfold(from, async |mut from| Some((from.recv().await?, from)));
        stream::iter(first.unwrap_or_default()).chain(later)
    }
}

fn reply(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    response
}

fn kubeconfig(address: SocketAddr, authority: &str) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {
            "server": format!("https://{address}"),
            "certificate-authority-data": STANDARD.encode(authority),
        }}],
        "users": [{"name": "bench", "user": {"token": "bench"}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    });
    config.to_string()
}
