//! The port of a component without an API of its own, such as a scheduler: health and
//! metrics, as kube-scheduler (10259) and kube-controller-manager (10257) serve them.
//!
//! | path | |
//! |---|---|
//! | `/healthz`, `/livez`, `/readyz` | whether all tasks run; `?verbose` names each; open to everybody unless configured otherwise |
//! | `/metrics` | Prometheus' text format or OpenMetrics |
//!
//! Clients of `/metrics` need the right to `get` that path (`nonResourceURLs`), as in the
//! ClusterRole `system:monitoring`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use control_client::{Client, Resource};
use control_metrics::{Format, Page};
use control_pki::{Authority, Spec};
use control_supervise::{Supervisor, TaskHealth};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, AccessDenied, GuardedPort, Rights, Settings};
use crate::{Body, Tls, TlsError, accept, process, reply, text};

/// Paths that need no right unless told otherwise.
pub const OPEN: [&str; 3] = ["/healthz", "/readyz", "/livez"];

/// How often certificates and authorities are looked up again.
const LOOK: Duration = Duration::from_secs(60);
/// The same while the API server does not answer, as when both start together.
const RETRY: Duration = Duration::from_secs(2);

/// How a component serves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen at.
    pub address: SocketAddr,
    /// PEM files of the certificate and its key; without them, a self-signed certificate
    /// is created in memory at each start.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// PEM file of the authorities of clients' certificates; without it, those that the API
    /// server publishes in the ConfigMap `kube-system/extension-apiserver-authentication`.
    pub client_ca: Option<PathBuf>,
    /// Paths that need no authorization; one that ends with `*` is a prefix.
    pub open: Vec<String>,
}

/// Reason why a component's port cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be bound.
    #[error("cannot listen on {address}: give another port with --secure-port, or 0 for none")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: std::io::Error,
    },
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A certificate, key or authority cannot be used.
    #[error("cannot use `{}`", path.display())]
    Tls {
        /// The file it is in.
        path: PathBuf,
        /// The reason.
        source: TlsError,
    },
    /// No certificate can be made.
    #[error("cannot make a certificate")]
    Certificate(#[source] control_pki::Error),
    /// The authorities that the API server publishes cannot be read.
    #[error("cannot read ConfigMap {}/{}", AUTHENTICATION.0, AUTHENTICATION.1)]
    Published(#[source] control_client::Error),
    /// The authorities that the API server publishes cannot be used.
    #[error("cannot use ConfigMap {}/{}", AUTHENTICATION.0, AUTHENTICATION.1)]
    Authorities(#[source] TlsError),
}

impl Error {
    /// Returns the message with its causes.
    fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        text
    }
}

/// Writes the component's own metrics.
pub type WriteMetrics = fn(&mut Page);

/// A component that listens.
pub struct Component {
    listener: Arc<TcpListener>,
    options: Options,
    tls: Tls,
    client: Client,
    metrics: WriteMetrics,
}

impl Component {
    /// Listens, and reads the files; errors are reported before anything begins.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn bind(
        options: Options,
        client: Client,
        metrics: WriteMetrics,
    ) -> Result<Self, Error> {
        let tls = match &options.certificate {
            Some((certificate, key)) => {
                let (chain, secret) = (read(certificate)?, read(key)?);
                let tls = Tls::without_clients(&chain, &secret);
                tls.map_err(|source| Error::Tls {
                    path: certificate.clone(),
                    source,
                })?
            }
            None => own(&options.address.ip().to_string())?,
        };
        if let Some(path) = &options.client_ca {
            let path = path.clone();
            let replaced = tls.replace_authorities(&read(&path)?);
            replaced.map_err(|source| Error::Tls { path, source })?;
        }
        let address = options.address;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| Error::Listen { address, source })?;
        Ok(Self {
            listener: Arc::new(listener),
            options,
            tls,
            client,
            metrics,
        })
    }

    /// Returns the address at which it listens.
    ///
    /// # Errors
    /// The system's error.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `shutdown`.
    pub async fn serve(self, shutdown: CancellationToken) {
        let guarded = GuardedPort {
            audience: None,
            header: "authorization",
            rights: Rights::Paths {
                open: self.options.open.clone(),
            },
            refusal: status,
        };
        // As upstream's delegating options: requests without credentials act as
        // system:anonymous, and answers are cached for ten seconds.
        let settings = Settings {
            anonymous: true,
            tokens_for: Duration::from_secs(10),
            allowed_for: Duration::from_secs(10),
            denied_for: Duration::from_secs(10),
            ..Settings::default()
        };
        let access = Access::new(guarded, self.client.clone(), "", settings);
        let metrics = self.metrics;
        let supervisor = Supervisor::current();
        let route = move |request: Request<Incoming>| {
            let answer = route(&request, metrics, &supervisor);
            std::future::ready(answer)
        };
        let serving = accept(
            self.listener,
            self.tls.clone(),
            access,
            route,
            shutdown.clone(),
        );
        let refreshing = refresh(&self.options, &self.tls, &self.client);
        tokio::select! {
            () = serving => {}
            () = refreshing => {}
        }
    }
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })
}

/// Returns a self-signed certificate, which is never written to disk.
fn own(name: &str) -> Result<Tls, Error> {
    let issued = Authority::create("self-signed-ca")
        .and_then(|authority| authority.issue(&Spec::server("localhost", ["localhost", name])))
        .map_err(Error::Certificate)?;
    let tls = Tls::without_clients(&issued.cert_pem, &issued.key_pem);
    tls.map_err(|source| Error::Tls {
        path: "(in memory)".into(),
        source,
    })
}

/// Keeps certificate and authorities as files and API server say. Never ends.
async fn refresh(options: &Options, tls: &Tls, client: &Client) {
    loop {
        if let Err(error) = renew(options, tls) {
            tracing::warn!(
                error = error.chain(),
                "certificate of the port not reloaded"
            );
        }
        let mut pause = LOOK;
        if options.client_ca.is_none()
            && let Err(error) = publish(tls, client).await
        {
            tracing::debug!(error = error.chain(), "client authorities not reloaded");
            pause = RETRY;
        }
        tokio::time::sleep(pause).await;
    }
}

/// Reloads the files.
fn renew(options: &Options, tls: &Tls) -> Result<(), Error> {
    if let Some((certificate, key)) = &options.certificate {
        let replaced = tls.replace(&read(certificate)?, &read(key)?);
        replaced.map_err(|source| Error::Tls {
            path: certificate.clone(),
            source,
        })?;
    }
    if let Some(path) = &options.client_ca {
        let path = path.clone();
        let replaced = tls.replace_authorities(&read(&path)?);
        replaced.map_err(|source| Error::Tls { path, source })?;
    }
    Ok(())
}

/// Namespace and name of the ConfigMap in which the API server publishes its authorities.
const AUTHENTICATION: (&str, &str) = ("kube-system", "extension-apiserver-authentication");
const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

/// Takes over the authorities that the API server publishes.
async fn publish(tls: &Tls, client: &Client) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct ConfigMap {
        #[serde(default)]
        data: Data,
    }
    #[derive(Default, Deserialize)]
    struct Data {
        #[serde(rename = "client-ca-file")]
        client_ca: Option<String>,
    }
    let (namespace, name) = AUTHENTICATION;
    let published: ConfigMap = client
        .get(&CONFIG_MAPS, namespace, name)
        .await
        .map_err(Error::Published)?;
    if let Some(authorities) = published.data.client_ca {
        tls.replace_authorities(&authorities)
            .map_err(Error::Authorities)?;
    }
    Ok(())
}

fn route(request: &Request<Incoming>, metrics: WriteMetrics, tasks: &Supervisor) -> Response<Body> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n");
    }
    let path = request.uri().path();
    match path {
        "/metrics" => page(request.headers(), metrics, tasks),
        "/healthz" | "/livez" | "/readyz" => {
            let query = request.uri().query().unwrap_or_default();
            let verbose = query
                .split('&')
                .any(|pair| pair.split('=').next() == Some("verbose"));
            health(path.trim_start_matches('/'), &tasks.health(), verbose)
        }
        _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

/// The page that Prometheus reads.
fn page(headers: &HeaderMap, metrics: WriteMetrics, tasks: &Supervisor) -> Response<Body> {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let form = Format::accepted_by(accept.unwrap_or_default());
    let mut page = Page::new(form);
    let mut supervised = String::new();
    tasks.write_metrics(&mut supervised);
    page.open_metrics(&supervised);
    metrics(&mut page);
    process::write(&mut page);
    reply(StatusCode::OK, form.media_type(), page.finish())
}

/// Health by the tasks, each of which is a check.
fn health(root: &str, tasks: &[TaskHealth], verbose: bool) -> Response<Body> {
    let is_well = |task: &TaskHealth| task.state == control_supervise::State::Running;
    let failed = !tasks.iter().all(is_well);
    if !failed && !verbose {
        return text(StatusCode::OK, "ok");
    }
    let mut said = String::from("[+]ping ok\n");
    for task in tasks {
        let name = task.name;
        said.push_str(&if is_well(task) {
            format!("[+]task/{name} ok\n")
        } else {
            format!("[-]task/{name} failed: reason withheld\n")
        });
    }
    let (status, end) = if failed {
        (StatusCode::INTERNAL_SERVER_ERROR, "failed")
    } else {
        (StatusCode::OK, "passed")
    };
    said.push_str(&format!("{root} check {end}\n"));
    text(status, said)
}

/// The `Status` object of a refusal, as API servers answer.
fn status(refused: &AccessDenied) -> Response<Body> {
    let reason = match refused.status {
        StatusCode::UNAUTHORIZED => "Unauthorized",
        StatusCode::FORBIDDEN => "Forbidden",
        _ => "InternalError",
    };
    let mut object = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": refused.message,
        "reason": reason,
        "code": refused.status.as_u16(),
    });
    if refused.status == StatusCode::FORBIDDEN {
        object["details"] = json!({});
    }
    reply(refused.status, "application/json", object.to_string())
}

#[cfg(test)]
mod tests;
