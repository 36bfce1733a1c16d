//! The serving API: what the API server asks the node for its clients.
//!
//! HTTP/1.1 over TLS, for clients that are known by a certificate of the
//! cluster's authority or by a bearer token, and that may ([`access`]). Others
//! are answered 401 (nobody) and 403 (somebody else); a certificate of another
//! authority ends the handshake.

pub mod access;
mod cadvisor;
mod checkpoint;
pub mod extra_endpoints;
mod files;
mod log_query;
pub mod logs;
mod stats;
mod streams;
mod sync_loop_health;
mod websockets;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control_supervise::{Supervisor, TaskHealth};
use futures::StreamExt;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use node_agent_cgroups::Cgroups;
use node_agent_cri::Runtime;
use node_agent_kubelet_config::{Settings, SystemLogs};
use node_agent_kubelet_metrics::PodMetrics;
use node_agent_node_lifecycle::shutdown::NodeShutdown;
use node_agent_pod_registry::{PodEntry, PodRegistry};
use node_agent_pod_resources::cgroup_names::CgroupLayout;
use node_agent_probes::probe::ProbeCounts;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use control_client::{Client, Selection, resources};

use extra_endpoints::{ExtraEndpoints, FurtherMetrics};

pub use crate::sync_loop_health::SyncLoopHealth;
use control_serving::access::Access;
pub use control_serving::{Body, Tls, TlsError};
use control_serving::{accept, reply, text};

/// How long the loop over the pods may take to go round once.
const HEALTH_PATIENCE: Duration = Duration::from_secs(5);

/// What the serving API answers from. Cloning is cheap.
#[derive(Clone)]
pub struct KubeletServer {
    /// The API, which says who may ask.
    pub client: Client,
    /// The node's name.
    pub node_name: String,
    /// The kubelet's configuration.
    pub settings: Arc<Settings>,
    /// The container runtime.
    pub runtime: Arc<dyn Runtime>,
    /// The runtime's name, such as `containerd`.
    pub runtime_name: String,
    /// The pods of the node.
    pub pods: Arc<PodRegistry>,
    /// The agent's own folder.
    pub root: PathBuf,
    /// Pods' logs.
    pub log_root: PathBuf,
    /// Control groups; none where there are none to be made.
    pub cgroups: Option<Cgroups>,
    /// What pods' control groups are called.
    pub layout: CgroupLayout,
    /// When the machine last went down.
    pub leaving: Arc<NodeShutdown>,
    /// How probes went.
    pub probes: Arc<ProbeCounts>,
    /// What is measured.
    pub metrics: Arc<PodMetrics>,
    /// What else is shown with it.
    pub further_metrics: Vec<FurtherMetrics>,
    /// What is answered besides the kubelet's paths.
    pub further: Option<ExtraEndpoints>,
    /// Whether the loop over all pods goes round.
    pub pulse: Arc<SyncLoopHealth>,
}

/// Serves until `shutdown`.
pub async fn serve(
    server: KubeletServer,
    listener: Arc<TcpListener>,
    tls: Tls,
    shutdown: CancellationToken,
) {
    let access = Access::new(
        access::KUBELET,
        server.client.clone(),
        &server.node_name,
        server.settings.access.clone(),
    );
    let until = shutdown.clone();
    let route = move |request| route(server.clone(), request, shutdown.clone());
    accept(listener, tls, access, route, until).await;
}

/// Serves what only this agent can be asked, at a port of its own, until `shutdown`:
/// beside a kubelet, which has the usual one.
pub async fn serve_further(
    listener: TcpListener,
    tls: Tls,
    access: Arc<Access>,
    further: ExtraEndpoints,
    shutdown: CancellationToken,
) {
    let route = move |request: Request<Incoming>| {
        let further = further.clone();
        async move {
            if request.method() != Method::GET {
                return not_found();
            }
            let uri = request.uri();
            let parts: Vec<&str> = uri.path().split('/').filter(|p| !p.is_empty()).collect();
            let answer = extra_endpoints::answer(Some(&further), &parts, uri.query()).await;
            answer.unwrap_or_else(not_found)
        }
    };
    accept(Arc::new(listener), tls, access, route, shutdown).await;
}

async fn route(
    server: KubeletServer,
    request: Request<Incoming>,
    shutdown: CancellationToken,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let metrics = server.metrics.clone();
    let _measured = metrics.http_request(request.method().as_str(), &path);
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    let method = request.method().clone();
    match (method, parts.as_slice()) {
        (Method::GET, ["healthz"]) => {
            let beats = server.pulse.beats(HEALTH_PATIENCE).await;
            health(beats, &Supervisor::process().unhealthy())
        }
        (Method::GET, ["pods" | "runningpods"]) => pods(&server).await,
        (Method::POST, ["checkpoint", namespace, pod, container]) => {
            checkpoint::answer(&server, namespace, pod, container, request.uri().query()).await
        }
        (Method::GET, ["stats", "summary"]) => stats::summary(&server).await,
        (Method::GET, ["configz"]) => stats::configuration(&server),
        (Method::GET | Method::HEAD, ["logs", rest @ ..]) => {
            let root = server.log_root.parent().unwrap_or(&server.log_root);
            let (query, slash) = (request.uri().query(), path.ends_with('/'));
            match server.settings.system_logs {
                SystemLogs::Off => text(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "logs endpoint is disabled.\n",
                ),
                SystemLogs::Files => files::answer(root, rest, slash).await,
                SystemLogs::Query => {
                    let journal = log_query::Journal::default();
                    match log_query::answer(journal, root, rest, query).await {
                        Some(answer) => answer,
                        None => files::answer(root, rest, slash).await,
                    }
                }
            }
        }
        (Method::GET, ["metrics", "probes"]) => stats::probes(&server),
        (Method::GET, ["metrics"]) => stats::metrics(&server).await,
        (Method::GET, ["metrics", "cadvisor"]) => cadvisor::answer(&server).await,
        (Method::GET, ["metrics", "resource"]) => stats::resource(&server).await,
        (Method::GET, ["containerLogs", namespace, pod, container]) => {
            logs::answer(&server, namespace, pod, container, request.uri().query())
        }
        (Method::GET | Method::POST, ["exec" | "attach" | "portForward", ..])
        | (Method::POST, ["run", ..]) => streams::route(&server, &parts, request, shutdown).await,
        (Method::GET, parts) => {
            let answer =
                extra_endpoints::answer(server.further.as_ref(), parts, request.uri().query())
                    .await;
            answer.unwrap_or_else(not_found)
        }
        _ => not_found(),
    }
}

/// `/healthz`, by whether the loop over all pods goes round and all tasks run.
fn health(goes_round: bool, down: &[TaskHealth]) -> Response<Body> {
    if goes_round && down.is_empty() {
        return text(StatusCode::OK, "ok");
    }
    let mut said = String::new();
    if !goes_round {
        said.push_str("[-]syncloop failed: the loop over the pods does not go round\n");
    }
    for task in down {
        let (name, restarts) = (task.name, task.restarts);
        let why = task.last_error.as_deref().unwrap_or_default();
        said.push_str(&format!(
            "[-]task/{name} failed, {restarts} restarts: {why}\n"
        ));
    }
    said.push_str("healthz check failed\n");
    text(StatusCode::INTERNAL_SERVER_ERROR, said)
}

fn not_found() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// All pods of the node with the statuses that it last made. The agent keeps of
/// a pod only what it needs; the whole of it is with the API, and where that
/// cannot be asked, what the agent has is told.
async fn pods(server: &KubeletServer) -> Response<Body> {
    let mine = Selection::all().fields(format!("spec.nodeName={}", server.node_name));
    let whole = tokio::time::timeout(
        Duration::from_secs(5),
        server
            .client
            .list::<serde_json::Value>(&resources::PODS, &mine),
    )
    .await;
    let entries = server.pods.all();
    let items = match whole {
        Ok(Ok(list)) => with_status(list.items, &entries),
        Ok(Err(_)) | Err(_) => lean(&entries),
    };
    let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items});
    reply(StatusCode::OK, "application/json", list.to_string())
}

/// The API's pods, each with the status that the node made last; and those
/// that the API does not know (yet).
fn with_status(mut items: Vec<serde_json::Value>, entries: &[PodEntry]) -> Vec<serde_json::Value> {
    let hash = "/metadata/annotations/kubernetes.io~1config.mirror";
    let mut told = rustc_hash::FxHashSet::default();
    for item in &mut items {
        let text = |pointer: &str| item.pointer(pointer).and_then(|v| v.as_str());
        let uid = text(hash)
            .or_else(|| text("/metadata/uid"))
            .unwrap_or_default();
        let Some(entry) = entries.iter().find(|e| e.pod.uid() == uid) else {
            continue;
        };
        told.insert(entry.pod.uid());
        if let Ok(status) = serde_json::to_value(&*entry.status) {
            item["status"] = status;
        }
    }
    let others: Vec<PodEntry> = entries
        .iter()
        .filter(|e| !told.contains(e.pod.uid()))
        .cloned()
        .collect();
    items.extend(lean(&others));
    items
}

/// Pods as far as the agent knows them.
fn lean(entries: &[PodEntry]) -> Vec<serde_json::Value> {
    entries
        .iter()
        .map(|PodEntry { pod, status, .. }| {
            json!({
                "metadata": &pod.metadata,
                "spec": {
                    "nodeName": pod.spec.node_name,
                    "containers": pod.spec.containers.iter()
                        .map(|c| json!({"name": c.name, "image": c.image}))
                        .collect::<Vec<_>>(),
                },
                "status": &**status,
            })
        })
        .collect()
}

/// An answer that comes bit by bit.
///
/// Its end is sent apart from its last bytes: kube-apiserver, copying a log to a
/// WebSocket, drops bytes that it reads together with the end.
pub(crate) fn streamed(chunks: tokio::sync::mpsc::Receiver<Bytes>) -> Response<Body> {
    let stream = futures::stream::unfold(chunks, |mut chunks| async move {
        match chunks.recv().await {
            Some(chunk) => Some((chunk, chunks)),
            None => {
                // What waits here is flushed.
                tokio::task::yield_now().await;
                None
            }
        }
    });
    let body = StreamBody::new(stream.map(|chunk| Ok(Frame::data(chunk)))).boxed_unsync();
    let mut answer = Response::new(body);
    answer.headers_mut().insert(
        header::CONTENT_TYPE,
        http::HeaderValue::from_static("text/plain"),
    );
    answer
}

/// The values of a query, decoded, in order.
pub(crate) fn query(text: Option<&str>) -> Vec<(String, String)> {
    text.unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key), decoded(value))
        })
        .collect()
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let code = bytes
            .get(at + 1..at + 3)
            .filter(|_| byte == b'%')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(code) => {
                out.push(code);
                at += 3;
            }
            None => {
                out.push(if byte == b'+' { b' ' } else { byte });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_a_stream_comes_apart_from_its_last_bytes() {
        use futures::FutureExt;

        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        sender
            .send(Bytes::from_static(b"last"))
            .await
            .expect("sent");
        drop(sender);
        let mut body = streamed(receiver).into_body();
        let first = body.frame().now_or_never().expect("at once");
        let data = first.expect("a frame").expect("no error").into_data();
        assert_eq!(data.expect("data"), "last");
        assert!(body.frame().now_or_never().is_none(), "not at once");
        assert!(body.frame().await.is_none(), "the end");
    }

    #[test]
    fn pods_are_told_whole_with_the_nodes_own_status_and_none_is_left_out() {
        let entry = |uid: &str| PodEntry {
            pod: Arc::new(
                serde_json::from_value(json!({"metadata": {"name": uid, "uid": uid}}))
                    .expect("a pod"),
            ),
            observed: Arc::default(),
            status: Arc::new(node_agent_objects::status::PodStatus {
                phase: "Running".to_owned(),
                ..Default::default()
            }),
            places: Arc::default(),
        };
        let items = vec![
            json!({"metadata": {"uid": "a"}, "spec": {"x": 1}, "status": {"phase": "Pending"}}),
            json!({"metadata": {"uid": "m", "annotations": {"kubernetes.io/config.mirror": "s"}}}),
            json!({"metadata": {"uid": "new"}, "status": {"phase": "Pending"}}),
        ];
        let told = with_status(items, &[entry("a"), entry("s"), entry("gone")]);
        let phases: Vec<_> = told
            .iter()
            .map(|pod| {
                (
                    pod["metadata"]["uid"].as_str(),
                    pod["status"]["phase"].as_str(),
                )
            })
            .collect();
        assert_eq!(
            phases,
            [
                (Some("a"), Some("Running")),
                (Some("m"), Some("Running")),
                (Some("new"), Some("Pending")),
                (Some("gone"), Some("Running"))
            ]
        );
        assert_eq!(told[0]["spec"]["x"], 1);
    }

    #[test]
    fn health_is_that_pods_are_looked_after() {
        assert_eq!(health(true, &[]).status(), 200);
        assert_eq!(health(false, &[]).status(), 500);
    }

    #[test]
    fn queries_are_decoded_in_order() {
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        assert_eq!(
            query(Some(
                "command=sh&command=-c&command=a%20%26+b&tty=1&x&%zz=%4"
            )),
            [
                pair("command", "sh"),
                pair("command", "-c"),
                pair("command", "a & b"),
                pair("tty", "1"),
                pair("x", ""),
                pair("%zz", "%4")
            ]
        );
        assert!(query(None).is_empty());
    }
}
