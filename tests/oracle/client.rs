//! One connection to an API server, made from a kubeconfig; HTTP/1.1 over TLS.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::Error;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server and who asks it.
pub struct Client {
    host: String,
    port: u16,
    tls: TlsConnector,
    roots: rustls::RootCertStore,
    connection: Option<SendRequest<Full<Bytes>>>,
}

/// An answer as it came.
pub struct Raw {
    /// Status code; 0 when there was no answer.
    pub code: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The body; the error when there was no answer.
    pub body: Vec<u8>,
}

impl Client {
    /// Reads a kubeconfig with client certificates.
    pub fn new(kubeconfig: &Path) -> Result<Self, Error> {
        let wrong = |why: &dyn std::fmt::Display| Error::file(kubeconfig, why);
        let text = std::fs::read_to_string(kubeconfig).map_err(|error| wrong(&error))?;
        let all: Value = serde_saphyr::from_str(&text).map_err(|error| wrong(&error))?;
        let named = |kind: &str, one: &str, name: &Value| {
            let list = all[kind].as_array().into_iter().flatten();
            let mut list = list.filter(|item| item["name"] == *name);
            list.next().map(|item| item[one].clone())
        };
        let context = named("contexts", "context", &all["current-context"])
            .ok_or_else(|| wrong(&"no current context"))?;
        let cluster = named("clusters", "cluster", &context["cluster"])
            .ok_or_else(|| wrong(&"no such cluster"))?;
        let user =
            named("users", "user", &context["user"]).ok_or_else(|| wrong(&"no such user"))?;
        let material = |of: &Value, key: &str| -> Result<Vec<u8>, Error> {
            if let Some(data) = of[format!("{key}-data")].as_str() {
                return STANDARD.decode(data).map_err(|error| wrong(&error));
            }
            let path = of[key]
                .as_str()
                .ok_or_else(|| wrong(&format!("no `{key}`")))?;
            let path = kubeconfig.parent().unwrap_or(Path::new("")).join(path);
            std::fs::read(&path).map_err(|error| Error::file(path, error))
        };
        let mut roots = rustls::RootCertStore::empty();
        let authority = material(&cluster, "certificate-authority")?;
        for one in CertificateDer::pem_slice_iter(&authority) {
            roots
                .add(one.map_err(|error| wrong(&error))?)
                .map_err(|error| wrong(&error))?;
        }
        let certificate = material(&user, "client-certificate")?;
        let chain = CertificateDer::pem_slice_iter(&certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| wrong(&error))?;
        let key = PrivateKeyDer::from_pem_slice(&material(&user, "client-key")?)
            .map_err(|error| wrong(&error))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&error))?
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(chain, key)
            .map_err(|error| wrong(&error))?;
        let server = cluster["server"].as_str().unwrap_or_default();
        let uri: http::Uri = server.parse().map_err(|error| wrong(&error))?;
        Ok(Self {
            host: uri
                .host()
                .unwrap_or_default()
                .trim_matches(['[', ']'])
                .to_owned(),
            port: uri.port_u16().unwrap_or(443),
            tls: TlsConnector::from(Arc::new(config)),
            roots,
            connection: None,
        })
    }

    /// A client of the same server that shows no certificate.
    pub fn without_certificate(&self) -> Result<Self, Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Server(error.to_string()))?
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        Ok(Self {
            host: self.host.clone(),
            port: self.port,
            tls: TlsConnector::from(Arc::new(config)),
            roots: self.roots.clone(),
            connection: None,
        })
    }

    /// Asks; a connection that broke is made anew once.
    pub async fn call(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&str>,
        headers: &[(String, String)],
    ) -> Raw {
        let mut why = String::new();
        for _ in 0..2 {
            let asked = tokio::time::timeout(PATIENCE, self.ask(method, path, body, headers));
            match asked.await {
                Ok(Ok(raw)) => return raw,
                Ok(Err(error)) => why = error,
                Err(_) => "it took too long".clone_into(&mut why),
            }
            self.connection = None;
        }
        Raw {
            code: 0,
            headers: HeaderMap::new(),
            body: format!("no answer: {why}").into_bytes(),
        }
    }

    async fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&str>,
        headers: &[(String, String)],
    ) -> Result<Raw, String> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", format!("{}:{}", self.host, self.port));
        let own = |name: &str| {
            headers
                .iter()
                .any(|(own, _)| own.eq_ignore_ascii_case(name))
        };
        for (name, value) in [("accept", "application/json"), ("user-agent", "oracle/1")] {
            if !own(name) {
                request = request.header(name, value);
            }
        }
        if body.is_some() && !own("content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let bytes = Bytes::from(body.unwrap_or_default().to_owned());
        let request = request
            .body(Full::new(bytes))
            .map_err(|error| error.to_string())?;
        if self.connection.as_ref().is_none_or(SendRequest::is_closed) {
            self.connection = Some(self.connect().await?);
        }
        let Some(connection) = &mut self.connection else {
            return Err("no connection".to_owned());
        };
        connection
            .ready()
            .await
            .map_err(|error| error.to_string())?;
        let response = connection.send_request(request).await;
        let (parts, body) = response.map_err(|error| error.to_string())?.into_parts();
        let body = body.collect().await.map_err(|error| error.to_string())?;
        Ok(Raw {
            code: parts.status.as_u16(),
            headers: parts.headers,
            body: body.to_bytes().to_vec(),
        })
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|error| text(&error))?;
        stream.set_nodelay(true).map_err(|error| text(&error))?;
        let name = ServerName::try_from(self.host.clone()).map_err(|error| text(&error))?;
        let stream = self
            .tls
            .connect(name, stream)
            .await
            .map_err(|error| text(&error))?;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|error| text(&error))?;
        tokio::spawn(connection);
        Ok(sender)
    }
}
