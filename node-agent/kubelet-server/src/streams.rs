//! Streams into containers: `exec`, `attach`, `portForward`.
//!
//! The runtime serves the streams itself, at a URL that it tells for each
//! (CRI's `Exec`, `Attach`, `PortForward`). The agent checks what is asked for,
//! gets the URL, passes the request for an upgrade on, and then the bytes,
//! whatever the protocol; what runtimes do not speak is translated
//! ([`super::websockets`]).

use std::time::Duration;

use bytes::Bytes;
use control_streams::join::join;
use control_streams::remotecommand::StreamSelection;
use control_streams::websocket::wants_upgrade;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use node_agent_cri::api::{AttachRequest, ExecRequest, ExecSyncRequest, PortForwardRequest};
use node_agent_objects::error_chain;
use node_agent_pod_registry::PodEntry;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::{Body, query, reply, text, websockets};
use crate::KubeletServer;

/// How long the runtime's own server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// The pod and container that a request's path names.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamPath<'a> {
    pub namespace: &'a str,
    pub pod: &'a str,
    /// The pod's uid, where the path has one.
    pub uid: Option<&'a str>,
}

/// Runs a command in a container, with streams.
pub(super) async fn exec(
    server: &KubeletServer,
    asked: StreamPath<'_>,
    container: &str,
    request: Request<Incoming>,
    shutdown: CancellationToken,
) -> Response<Body> {
    let pairs = query(request.uri().query());
    let streams = match wanted(&pairs) {
        Ok(streams) => streams,
        Err(refusal) => return text(StatusCode::BAD_REQUEST, refusal.to_string()),
    };
    let id = match running(server, asked, container) {
        Ok(id) => id,
        Err(refusal) => return refusal.into(),
    };
    let cmd = pairs
        .into_iter()
        .filter(|(key, _)| key == "command")
        .map(|(_, word)| word)
        .collect();
    let url = server
        .runtime
        .exec(ExecRequest {
            container_id: id,
            cmd,
            tty: streams.tty,
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr,
        })
        .await;
    match url {
        Ok(at) => command(at.url, request, streams, shutdown).await,
        Err(error) => of_runtime(&error),
    }
}

/// Joins the streams of a container's own process.
pub(super) async fn attach(
    server: &KubeletServer,
    asked: StreamPath<'_>,
    container: &str,
    request: Request<Incoming>,
    shutdown: CancellationToken,
) -> Response<Body> {
    let pairs = query(request.uri().query());
    let streams = match wanted(&pairs) {
        Ok(streams) => streams,
        Err(refusal) => return text(StatusCode::BAD_REQUEST, refusal.to_string()),
    };
    let id = match running(server, asked, container) {
        Ok(id) => id,
        Err(refusal) => return refusal.into(),
    };
    // Whether there is a terminal was decided when the container was made.
    let tty = asked
        .find(server)
        .ok()
        .and_then(|entry| Some(entry.pod.spec.container(container)?.tty))
        .unwrap_or(streams.tty);
    let streams = StreamSelection {
        tty,
        stderr: streams.stderr && !tty,
        ..streams
    };
    let url = server
        .runtime
        .attach(AttachRequest {
            container_id: id,
            stdin: streams.stdin,
            tty: streams.tty,
            stdout: streams.stdout,
            stderr: streams.stderr,
        })
        .await;
    match url {
        Ok(at) => command(at.url, request, streams, shutdown).await,
        Err(error) => of_runtime(&error),
    }
}

/// Makes connections to a pod's ports.
pub(super) async fn port_forward(
    server: &KubeletServer,
    asked: StreamPath<'_>,
    request: Request<Incoming>,
    shutdown: CancellationToken,
) -> Response<Body> {
    // a tunnel has a SPDY client in it, which names them later
    let tunnelled = websockets::is_tunnelled(&request);
    let ports = match ports(&query(request.uri().query())) {
        _ if tunnelled => Vec::new(),
        Ok(ports) => ports,
        Err(refusal) => return text(StatusCode::BAD_REQUEST, refusal.to_string()),
    };
    let entry = match asked.find(server) {
        Ok(entry) => entry,
        Err(refusal) => return refusal.into(),
    };
    let Some(sandbox) = entry.observed.live_sandbox() else {
        let message = format!(
            "unable to forward port because pod is not running. Current status={}",
            entry.status.phase
        );
        return text(StatusCode::INTERNAL_SERVER_ERROR, message);
    };
    let url = server
        .runtime
        .port_forward(PortForwardRequest {
            pod_sandbox_id: sandbox.id.clone(),
            port: ports,
        })
        .await;
    match url {
        Ok(at) if tunnelled => websockets::carry(&at.url, request, shutdown).await,
        Ok(at) => pass(&at.url, request, shutdown).await,
        Err(error) => of_runtime(&error),
    }
}

/// Runs a command in a container and answers what it wrote.
pub(super) async fn run(
    server: &KubeletServer,
    asked: StreamPath<'_>,
    container: &str,
    request: &Request<Incoming>,
) -> Response<Body> {
    let id = match running(server, asked, container) {
        Ok(id) => id,
        Err(refusal) => return refusal.into(),
    };
    let command = query(request.uri().query())
        .into_iter()
        .find(|(key, _)| key == "cmd")
        .map(|(_, command)| command)
        .unwrap_or_default();
    let answer = server
        .runtime
        .exec_sync(ExecSyncRequest {
            container_id: id,
            cmd: command.split(' ').map(str::to_owned).collect(),
            timeout: 0,
        })
        .await;
    match answer {
        Err(error) => of_runtime(&error),
        Ok(answer) if answer.exit_code == 0 => {
            let mut both = answer.stdout.to_vec();
            both.extend_from_slice(&answer.stderr);
            reply(StatusCode::OK, "application/json", both)
        }
        Ok(answer) => {
            let message = format!(
                "command '{command}' exited with {}: {}",
                answer.exit_code,
                String::from_utf8_lossy(&answer.stderr)
            );
            text(StatusCode::INTERNAL_SERVER_ERROR, message)
        }
    }
}

/// Why a stream is refused.
#[derive(Debug, PartialEq, Eq)]
struct StreamRefusal(StatusCode, String);

impl From<StreamRefusal> for Response<Body> {
    fn from(StreamRefusal(code, message): StreamRefusal) -> Self {
        text(code, message)
    }
}

/// The id of the running container that a path names.
fn running(
    server: &KubeletServer,
    asked: StreamPath<'_>,
    container: &str,
) -> Result<String, StreamRefusal> {
    let entry = asked.find(server)?;
    entry
        .observed
        .latest(container)
        .filter(|found| found.running())
        .map(|found| found.id.clone())
        .ok_or_else(|| {
            StreamRefusal(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("container not found (\"{container}\")"),
            )
        })
}

fn of_runtime(error: &node_agent_cri::RuntimeError) -> Response<Body> {
    let code = match error.code {
        tonic::Code::NotFound => StatusCode::NOT_FOUND,
        tonic::Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    text(code, error.to_string())
}

// === impl Asked ===

impl StreamPath<'_> {
    fn find(&self, server: &KubeletServer) -> Result<PodEntry, StreamRefusal> {
        let missing = |message: &str| StreamRefusal(StatusCode::NOT_FOUND, message.to_owned());
        let entry = server
            .pods
            .find(self.namespace, self.pod)
            .ok_or_else(|| missing("pod does not exist"))?;
        if self.uid.is_some_and(|uid| uid != entry.pod.uid()) {
            return Err(missing("pod not found"));
        }
        Ok(entry)
    }
}

/// A request that names no stream, in the kubelet's words.
#[derive(Debug, thiserror::Error)]
#[error("you must specify at least 1 of stdin, stdout, stderr")]
struct NoStreams;

/// A request that names a port that cannot be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid port \"{0}\": it must be 1 to 65535")]
struct InvalidPort(String);

/// Reads the kubelet's names for streams.
fn wanted(pairs: &[(String, String)]) -> Result<StreamSelection, NoStreams> {
    let set = |name: &str| {
        let value = pairs.iter().find(|(key, _)| key == name);
        value.is_some_and(|(_, value)| value == "1")
    };
    let tty = set("tty");
    let streams = StreamSelection {
        stdin: set("input"),
        stdout: set("output"),
        // A terminal has one output.
        stderr: set("error") && !tty,
        tty,
    };
    if streams.stdin || streams.stdout || streams.stderr {
        Ok(streams)
    } else {
        Err(NoStreams)
    }
}

/// The ports that a WebSocket client names; SPDY clients name them per stream.
fn ports(pairs: &[(String, String)]) -> Result<Vec<i32>, InvalidPort> {
    pairs
        .iter()
        .filter(|(key, _)| key == "port")
        .flat_map(|(_, value)| value.split(','))
        .filter(|port| !port.is_empty())
        .map(|port| match port.parse::<u16>() {
            Ok(0) | Err(_) => Err(InvalidPort(port.to_owned())),
            Ok(port) => Ok(i32::from(port)),
        })
        .collect()
}

/// Joins the client with a command's streams at the runtime's URL.
async fn command(
    url: String,
    request: Request<Incoming>,
    streams: StreamSelection,
    shutdown: CancellationToken,
) -> Response<Body> {
    if websockets::is_translated(&request) {
        websockets::translate(url, request, streams, shutdown)
    } else {
        pass(&url, request, shutdown).await
    }
}

/// Passes a request for an upgrade on to the runtime's URL, and then the bytes.
async fn pass(
    url: &str,
    request: Request<Incoming>,
    shutdown: CancellationToken,
) -> Response<Body> {
    if !wants_upgrade(request.headers()) {
        return text(StatusCode::BAD_REQUEST, "Upgrade request required");
    }
    match upgrade(url, request, shutdown).await {
        Ok(answer) => answer,
        Err(error) => {
            let error = error_chain(&error);
            tracing::warn!(url, error, "failed to open the runtime's stream");
            text(StatusCode::INTERNAL_SERVER_ERROR, error)
        }
    }
}

/// Why the runtime's streaming server returned no stream.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The URL is of no known form.
    #[error("the runtime named `{0}`, which is no http URL")]
    Url(String),
    /// It cannot be reached.
    #[error("error dialing backend: dial tcp {address}")]
    Dial {
        address: String,
        source: std::io::Error,
    },
    /// It does not speak HTTP.
    #[error("error sending request")]
    Http(#[source] hyper::Error),
    /// It answers, but with something else.
    #[error("invalid upgrade response: status code {0}")]
    Answer(u16),
    /// It refuses the upgrade, with a text.
    #[error("unable to upgrade connection: {0}")]
    Refused(String),
    /// It agrees to another protocol than was offered.
    #[error(transparent)]
    Protocol(Box<dyn std::error::Error + Send + Sync>),
    /// The connection ends before it is upgraded.
    #[error(transparent)]
    Upgrade(hyper::Error),
}

/// Requests a stream from the runtime's streaming server.
pub(super) async fn request_stream(
    url: &str,
    method: Method,
    mut headers: HeaderMap,
) -> Result<Response<Incoming>, Error> {
    let wrong = || Error::Url(url.to_owned());
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let authority = uri.authority().ok_or_else(wrong)?;
    if uri.scheme_str() != Some("http") {
        return Err(wrong());
    }
    let address = match authority.port_u16() {
        Some(_) => authority.as_str().to_owned(),
        None => format!("{authority}:80"),
    };
    let dial = |source| Error::Dial {
        address: address.clone(),
        source,
    };
    let stream = tokio::time::timeout(CONNECT, TcpStream::connect(&address))
        .await
        .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
        .map_err(dial)?;
    stream.set_nodelay(true).map_err(dial)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(Error::Http)?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "connection to the runtime's stream ended");
        }
    });
    let mut onward = Request::new(Empty::<Bytes>::new());
    *onward.method_mut() = method;
    *onward.uri_mut() = uri
        .path_and_query()
        .ok_or_else(wrong)?
        .as_str()
        .parse()
        .map_err(|_| wrong())?;
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::TRANSFER_ENCODING);
    headers.remove(header::AUTHORIZATION);
    if let Ok(host) = authority.as_str().parse() {
        headers.insert(header::HOST, host);
    }
    *onward.headers_mut() = headers;
    sender.send_request(onward).await.map_err(Error::Http)
}

/// The runtime's refusal of an upgrade, for the client.
pub(super) fn refused(answer: Response<Incoming>) -> Result<Response<Body>, Error> {
    let code = answer.status().as_u16();
    if code < 400 {
        return Err(Error::Answer(code));
    }
    Ok(answer.map(|body| body.map_err(std::io::Error::other).boxed_unsync()))
}

pub(super) fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

async fn upgrade(
    url: &str,
    mut request: Request<Incoming>,
    shutdown: CancellationToken,
) -> Result<Response<Body>, Error> {
    let client = hyper::upgrade::on(&mut request);
    let headers = std::mem::take(request.headers_mut());
    let mut answer = request_stream(url, request.method().clone(), headers).await?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return refused(answer);
    }
    let runtime = hyper::upgrade::on(&mut answer);
    tokio::spawn(async move {
        match futures::future::try_join(client, runtime).await {
            Ok((client, runtime)) => {
                let (client, runtime) = (TokioIo::new(client), TokioIo::new(runtime));
                join(client, runtime, shutdown.cancelled()).await;
            }
            Err(error) => tracing::debug!(%error, "connection upgrade failed"),
        }
    });
    Ok(answer.map(|_| empty()))
}

/// Answers the paths below `/exec`, `/attach`, `/portForward` and `/run`.
pub(super) async fn route(
    server: &KubeletServer,
    parts: &[&str],
    request: Request<Incoming>,
    shutdown: CancellationToken,
) -> Response<Body> {
    let asked = |namespace, pod, uid| StreamPath {
        namespace,
        pod,
        uid,
    };
    match *parts {
        ["exec", namespace, pod, container] => {
            exec(
                server,
                asked(namespace, pod, None),
                container,
                request,
                shutdown,
            )
            .await
        }
        ["exec", namespace, pod, uid, container] => {
            let asked = asked(namespace, pod, Some(uid));
            exec(server, asked, container, request, shutdown).await
        }
        ["attach", namespace, pod, container] => {
            attach(
                server,
                asked(namespace, pod, None),
                container,
                request,
                shutdown,
            )
            .await
        }
        ["attach", namespace, pod, uid, container] => {
            let asked = asked(namespace, pod, Some(uid));
            attach(server, asked, container, request, shutdown).await
        }
        ["portForward", namespace, pod] => {
            port_forward(server, asked(namespace, pod, None), request, shutdown).await
        }
        ["portForward", namespace, pod, uid] => {
            port_forward(server, asked(namespace, pod, Some(uid)), request, shutdown).await
        }
        ["run", namespace, pod, container] => {
            run(server, asked(namespace, pod, None), container, &request).await
        }
        ["run", namespace, pod, uid, container] => {
            run(
                server,
                asked(namespace, pod, Some(uid)),
                container,
                &request,
            )
            .await
        }
        _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
