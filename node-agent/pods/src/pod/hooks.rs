//! What probes and lifecycle hooks do: run a command, ask over HTTP, connect.

use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::cri::{Runtime, api};
use crate::objects::pod::{Container, GrpcAction, Handler, HttpGet};

/// How much of an answer is read and shown.
const OUTPUT_MOST: usize = 10 << 10;

/// How it went: whether well, and what to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Success,
    /// Not as it should.
    Failure(String),
    /// It could not be done; probes that only watch for failures ignore that.
    Unknown(String),
}

/// Where a handler is run.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The runtime.
    pub runtime: &'a dyn Runtime,
    /// The container's definition.
    pub container: &'a Container,
    /// Its id.
    pub id: &'a str,
    /// The pod's address.
    pub ip: &'a str,
}

/// Runs a handler, for at most `limit`.
pub async fn run(handler: &Handler, place: Place<'_>, limit: Duration) -> Outcome {
    if let Some(exec) = &handler.exec {
        return command(&exec.command, place, limit).await;
    }
    let asked = async {
        if let Some(get) = &handler.http_get {
            http(get, place).await
        } else if let Some(tcp) = &handler.tcp_socket {
            let Some(port) = place.container.resolve_port(&tcp.port) else {
                return Outcome::Unknown(format!("couldn't find port: {:?}", tcp.port));
            };
            let host = if tcp.host.is_empty() {
                place.ip
            } else {
                &tcp.host
            };
            match TcpStream::connect((host, port)).await {
                Ok(_) => Outcome::Success,
                Err(error) => Outcome::Failure(format!("dial tcp {host}:{port}: {error}")),
            }
        } else if let Some(action) = &handler.grpc {
            grpc(action, place.ip).await
        } else if let Some(sleep) = &handler.sleep {
            let seconds = u64::try_from(sleep.seconds).unwrap_or(0);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Outcome::Success
        } else {
            Outcome::Unknown("missing probe handler".to_owned())
        }
    };
    tokio::time::timeout(limit, asked)
        .await
        .unwrap_or_else(|_| Outcome::Failure(timed_out(handler, place)))
}

fn timed_out(handler: &Handler, place: Place<'_>) -> String {
    match &handler.http_get {
        Some(get) => format!(
            "Get \"{}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
            url(get, place)
        ),
        None => "i/o timeout".to_owned(),
    }
}

async fn command(command: &[String], place: Place<'_>, limit: Duration) -> Outcome {
    let seconds = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX).max(1);
    let ran = place
        .runtime
        .exec_sync(api::ExecSyncRequest {
            container_id: place.id.to_owned(),
            cmd: command.to_vec(),
            timeout: seconds,
        })
        .await;
    match ran {
        Ok(answer) if answer.exit_code == 0 => Outcome::Success,
        Ok(answer) => {
            let mut text = String::from_utf8_lossy(&answer.stdout).into_owned();
            text.push_str(&String::from_utf8_lossy(&answer.stderr));
            Outcome::Failure(clipped(text))
        }
        Err(error) if error.code == tonic::Code::DeadlineExceeded => {
            Outcome::Failure(format!("command timed out: {error}"))
        }
        Err(error) => Outcome::Unknown(error.to_string()),
    }
}

fn clipped(mut text: String) -> String {
    let mut at = OUTPUT_MOST.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    text.truncate(at);
    text
}

fn url(get: &HttpGet, place: Place<'_>) -> String {
    let scheme = if get.scheme.eq_ignore_ascii_case("HTTPS") {
        "https"
    } else {
        "http"
    };
    let host = if get.host.is_empty() {
        place.ip
    } else {
        &get.host
    };
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let port = place.container.resolve_port(&get.port).unwrap_or(0);
    let slash = if get.path.starts_with('/') { "" } else { "/" };
    format!("{scheme}://{host}:{port}{slash}{}", get.path)
}

async fn http(get: &HttpGet, place: Place<'_>) -> Outcome {
    let Some(port) = place.container.resolve_port(&get.port) else {
        return Outcome::Unknown(format!("couldn't find port: {:?}", get.port));
    };
    let host = if get.host.is_empty() {
        place.ip
    } else {
        &get.host
    };
    let shown = url(get, place);
    let failure = |error: String| Outcome::Failure(format!("Get \"{shown}\": {error}"));
    let stream = match TcpStream::connect((host, port)).await {
        Ok(stream) => stream,
        Err(error) => return failure(format!("dial tcp {host}:{port}: {error}")),
    };
    let path = if get.path.starts_with('/') {
        get.path.clone()
    } else {
        format!("/{}", get.path)
    };
    let named = |name: &str| {
        get.http_headers
            .iter()
            .find(|h| h.name.eq_ignore_ascii_case(name))
            .map(|h| h.value.clone())
    };
    let authority = if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    let mut request = http::Request::builder()
        .method("GET")
        .uri(path)
        .header("Host", named("Host").unwrap_or(authority))
        .header("Connection", "close");
    if named("User-Agent").is_none() {
        request = request.header("User-Agent", "kube-probe/1.36");
    }
    if named("Accept").is_none() {
        request = request.header("Accept", "*/*");
    }
    for header in get
        .http_headers
        .iter()
        .filter(|h| !h.name.eq_ignore_ascii_case("Host"))
    {
        request = request.header(&header.name, &header.value);
    }
    let request = match request.body(Empty::<bytes::Bytes>::new()) {
        Ok(request) => request,
        Err(error) => return Outcome::Unknown(error.to_string()),
    };
    let answer = if get.scheme.eq_ignore_ascii_case("HTTPS") {
        match tls(stream, host).await {
            Ok(stream) => exchange(TokioIo::new(stream), request).await,
            Err(error) => return failure(error.to_string()),
        }
    } else {
        exchange(TokioIo::new(stream), request).await
    };
    match answer {
        Ok((status, _)) if (200..400).contains(&status) => Outcome::Success,
        Ok((status, _)) => Outcome::Failure(format!("HTTP probe failed with statuscode: {status}")),
        Err(error) => failure(error),
    }
}

async fn exchange<T>(
    io: T,
    request: http::Request<Empty<bytes::Bytes>>,
) -> Result<(u16, usize), String>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io)
        .await
        .map_err(|e| e.to_string())?;
    let driver = tokio::spawn(connection);
    let answer = sender
        .send_request(request)
        .await
        .map_err(|e| e.to_string());
    let result = match answer {
        Ok(answer) => {
            let status = answer.status().as_u16();
            // read, so that the server does not see a broken connection
            let read = Limited::new(answer.into_body(), OUTPUT_MOST)
                .collect()
                .await
                .map_or(0, |body| body.to_bytes().len());
            Ok((status, read))
        }
        Err(error) => Err(error),
    };
    driver.abort();
    result
}

async fn tls(
    stream: TcpStream,
    host: &str,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let name = rustls::pki_types::ServerName::try_from(host.to_owned())
        .map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidInput, e))?;
    tokio_rustls::TlsConnector::from(crate::tls::unverified())
        .connect(name, stream)
        .await
}

#[derive(Clone, PartialEq, prost::Message)]
struct HealthRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct HealthResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// `grpc.health.v1`: the one status that is healthy.
const SERVING: i32 = 1;

async fn grpc(action: &GrpcAction, ip: &str) -> Outcome {
    let host = if ip.contains(':') {
        format!("[{ip}]")
    } else {
        ip.to_owned()
    };
    let ask = async {
        let endpoint =
            tonic::transport::Endpoint::from_shared(format!("http://{host}:{}", action.port))
                .map_err(|e| e.to_string())?;
        let channel = endpoint.connect().await.map_err(|e| {
            format!(
                "timeout: failed to connect service \"{host}:{}\": {e}",
                action.port
            )
        })?;
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await.map_err(|e| e.to_string())?;
        let request = HealthRequest {
            service: action.service.clone().unwrap_or_default(),
        };
        client
            .unary(
                tonic::Request::new(request),
                http::uri::PathAndQuery::from_static("/grpc.health.v1.Health/Check"),
                tonic_prost::ProstCodec::<HealthRequest, HealthResponse>::default(),
            )
            .await
            .map(|answer| answer.into_inner().status)
            .map_err(|status| status.message().to_owned())
    };
    match ask.await {
        Ok(SERVING) => Outcome::Success,
        Ok(other) => Outcome::Failure(format!("service unhealthy (responded with status {other})")),
        Err(message) => Outcome::Failure(message),
    }
}
