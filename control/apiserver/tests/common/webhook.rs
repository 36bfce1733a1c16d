//! A webhook of ours on loopback, over TLS, that answers as a test wants it to.

#![allow(dead_code, reason = "no test needs all of it")]

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use control_pki::{Authority, Spec};
use control_types::value;
use control_types::value::Value;
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What the webhook does with a question.
pub enum Reply {
    /// Answers an object.
    Object(Value),
    /// Answers a text with a code.
    Text(u16, &'static str),
    /// Answers a text that was made.
    Words(String),
    /// Lets one wait.
    Silence,
}

/// The webhook.
pub struct Fake {
    /// Its port.
    pub port: u16,
    /// Who vouches for it, as a `caBundle`.
    pub bundle: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    told: Arc<Mutex<Told>>,
}

/// Paths, and the `traceparent` that came with each question.
type Told = Vec<(String, Option<String>)>;

impl Fake {
    /// Starts it. `answer` gets the path and the question.
    pub async fn start(answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Self {
        let authority = Authority::create("webhooks").expect("an authority");
        let names = ["127.0.0.1", "hook.default.svc"];
        let issued = authority
            .issue(&Spec::server("hook", names))
            .expect("a certificate");
        let chain = CertificateDer::pem_slice_iter(issued.cert_pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).expect("PEM");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a pair");
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let answer = Arc::new(answer);
        let notes = Arc::clone(&asked);
        let told = Arc::<Mutex<Told>>::default();
        let traces = Arc::clone(&told);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, answer) = (acceptor.clone(), Arc::clone(&answer));
                let (notes, traces) = (Arc::clone(&notes), Arc::clone(&traces));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = hyper::service::service_fn(|request: http::Request<Incoming>| {
                        let (answer, notes) = (Arc::clone(&answer), Arc::clone(&notes));
                        let traces = Arc::clone(&traces);
                        async move {
                            let path = request.uri().path().to_owned();
                            let trace = request.headers().get("traceparent");
                            let trace = trace.map(|trace| trace.to_str().expect("text").to_owned());
                            traces.lock().expect("a lock").push((path.clone(), trace));
                            let bytes = request.into_body().collect().await?.to_bytes();
                            let question = Value::from_slice(&bytes).unwrap_or_default();
                            let reply = answer(&path, &question);
                            notes.lock().expect("a lock").push((path, question));
                            let (code, media, bytes) = match reply {
                                Reply::Object(object) => {
                                    (200, "application/json", Bytes::from(object.to_vec()))
                                }
                                Reply::Text(code, text) => (code, "text/plain", Bytes::from(text)),
                                Reply::Words(text) => (200, "text/plain", Bytes::from(text)),
                                Reply::Silence => std::future::pending().await,
                            };
                            let response = Response::builder()
                                .status(code)
                                .header("content-type", media)
                                .body(Full::new(bytes))
                                .expect("a response");
                            Ok::<_, hyper::Error>(response)
                        }
                    });
                    let _ = auto::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self {
            port,
            bundle: STANDARD.encode(authority.certificate_pem()),
            asked,
            told,
        }
    }

    /// A kubeconfig that names a path of it.
    pub fn kubeconfig(&self, path: &str) -> String {
        let (port, bundle) = (self.port, &self.bundle);
        format!(
            "{{clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{port}{path}', certificate-authority-data: {bundle}}}}}], contexts: [{{name: c, context: {{cluster: c}}}}], current-context: c}}"
        )
    }

    /// A `clientConfig` for a path.
    pub fn at(&self, path: &str) -> Value {
        let url = format!("https://127.0.0.1:{}{path}", self.port);
        value!({"url": (url), "caBundle": (self.bundle.as_str())})
    }

    /// Of which spans it was told so far, with the paths.
    pub fn told(&self) -> Told {
        std::mem::take(&mut *self.told.lock().expect("a lock"))
    }

    /// What was asked so far, with the paths.
    pub fn take(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.asked.lock().expect("a lock"))
    }
}

/// The answer to an admission review: `response` besides the uid.
pub fn review(question: &Value, response: Value) -> Reply {
    let mut response = response;
    let uid = question.str_at(&["request", "uid"]).unwrap_or_default();
    response.insert("uid", uid);
    Reply::Object(value!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "response": (response)
    }))
}

/// As [`review`], that allows and patches.
pub fn patch(question: &Value, operations: Value) -> Reply {
    let patch = STANDARD.encode(operations.to_vec());
    review(
        question,
        value!({"allowed": true, "patchType": "JSONPatch", "patch": (patch)}),
    )
}
