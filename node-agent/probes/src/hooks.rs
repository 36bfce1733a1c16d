//! What probes and lifecycle hooks do: run a command, ask over HTTP, connect.

use std::time::Duration;

use node_agent_cri::{Runtime, api};
use node_agent_files::clip;
use node_agent_objects::pod::{Container, GrpcAction, LifecycleHandler};
use tokio::net::TcpStream;

use super::http_get;

/// How much of an answer is read and shown.
pub(super) const OUTPUT_MOST: usize = 10 << 10;

/// The result of a hook or probe, with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookOutcome {
    /// As it should.
    Success,
    /// As it should, and yet there is something to tell.
    Warning(String),
    /// Not as it should.
    Failure(String),
    /// It could not be done; probes that only watch for failures ignore that.
    Unknown(String),
}

/// The container in which a handler runs.
#[derive(Clone, Copy)]
pub struct HookTarget<'a> {
    /// The runtime.
    pub runtime: &'a dyn Runtime,
    /// The container's definition.
    pub container: &'a Container,
    /// Its id.
    pub id: &'a str,
    /// The pod's address.
    pub ip: &'a str,
}

/// Runs a lifecycle hook, for at most `limit`. Over HTTP any answer is as it should.
pub async fn hook(
    handler: &LifecycleHandler,
    place: HookTarget<'_>,
    limit: Duration,
) -> HookOutcome {
    match &handler.http_get {
        None => run(handler, place, limit).await,
        Some(get) => match tokio::time::timeout(limit, http_get::send(get, place)).await {
            Ok(Ok(_)) => HookOutcome::Success,
            Ok(Err(outcome)) => outcome,
            Err(_) => HookOutcome::Failure(timed_out(handler, place)),
        },
    }
}

/// Runs a probe's handler, for at most `limit`.
pub async fn run(
    handler: &LifecycleHandler,
    place: HookTarget<'_>,
    limit: Duration,
) -> HookOutcome {
    if let Some(exec) = &handler.exec {
        return command(&exec.command, place, limit).await;
    }
    let asked = async {
        if let Some(get) = &handler.http_get {
            http_get::probe(get, place).await
        } else if let Some(tcp) = &handler.tcp_socket {
            let Some(port) = place.container.resolve_port(&tcp.port) else {
                return HookOutcome::Unknown(format!("couldn't find port: {:?}", tcp.port));
            };
            let host = if tcp.host.is_empty() {
                place.ip
            } else {
                &tcp.host
            };
            match TcpStream::connect((host, port)).await {
                Ok(_) => HookOutcome::Success,
                Err(error) => HookOutcome::Failure(format!("dial tcp {host}:{port}: {error}")),
            }
        } else if let Some(action) = &handler.grpc {
            grpc(action, place.ip).await
        } else if let Some(sleep) = &handler.sleep {
            let seconds = u64::try_from(sleep.seconds).unwrap_or(0);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            HookOutcome::Success
        } else {
            HookOutcome::Unknown("missing probe handler".to_owned())
        }
    };
    tokio::time::timeout(limit, asked)
        .await
        .unwrap_or_else(|_| HookOutcome::Failure(timed_out(handler, place)))
}

fn timed_out(handler: &LifecycleHandler, place: HookTarget<'_>) -> String {
    match &handler.http_get {
        Some(get) => format!(
            "Get \"{}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
            http_get::url(get, place)
        ),
        None => "i/o timeout".to_owned(),
    }
}

async fn command(command: &[String], place: HookTarget<'_>, limit: Duration) -> HookOutcome {
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
        Ok(answer) if answer.exit_code == 0 => HookOutcome::Success,
        Ok(mut answer) => {
            // it may be as long as the runtime's answers can be
            answer.stdout.truncate(OUTPUT_MOST);
            answer.stderr.truncate(OUTPUT_MOST);
            let mut text = String::from_utf8_lossy(&answer.stdout).into_owned();
            text.push_str(&String::from_utf8_lossy(&answer.stderr));
            HookOutcome::Failure(clipped(text))
        }
        Err(error) if error.code == tonic::Code::DeadlineExceeded => {
            HookOutcome::Failure(format!("command timed out: {error}"))
        }
        Err(error) => HookOutcome::Unknown(error.to_string()),
    }
}

fn clipped(mut text: String) -> String {
    clip(&mut text, OUTPUT_MOST);
    text
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

async fn grpc(action: &GrpcAction, ip: &str) -> HookOutcome {
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
        let mut client = tonic::client::Grpc::new(channel).max_decoding_message_size(OUTPUT_MOST);
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
            .map_err(|status| clipped(status.message().to_owned()))
    };
    match ask.await {
        Ok(SERVING) => HookOutcome::Success,
        Ok(other) => {
            HookOutcome::Failure(format!("service unhealthy (responded with status {other})"))
        }
        Err(message) => HookOutcome::Failure(message),
    }
}
