//! What load balancers and kubelets ask: kube-proxy's `/healthz`, `/livez` and
//! `healthCheckNodePort` (KEP-3458, `pkg/proxy/healthcheck`).

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use control_supervise::Supervisor;
use hyper::StatusCode;
use jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};

use super::http::{self, HttpAnswer};

/// After which the maps' being behind makes the node unhealthy: twice
/// kube-proxy's sync period.
const PATIENCE: Duration = Duration::from_secs(60);

/// By which the cluster autoscaler marks nodes that are about to go.
pub const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// The health of the datapath, shared with the health endpoints.
#[derive(Debug, Default)]
pub struct DatapathHealth {
    state: Mutex<HealthState>,
}

#[derive(Debug, Default)]
struct HealthState {
    updated: Option<Timestamp>,
    /// Since when the maps are behind what the API says.
    behind: Option<Instant>,
    /// The node is there and is not about to go.
    eligible: bool,
    /// Ready endpoints on this node, by namespace and name.
    checks: BTreeMap<(String, String), usize>,
}

/// The response of a `healthCheckNodePort`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePortHealth {
    pub namespace: String,
    pub name: String,
    pub port: u16,
    pub local_endpoints: usize,
}

/// The servers of Services' health checks.
#[derive(Default)]
pub struct HealthCheckServers {
    servers: BTreeMap<(String, String), HealthCheckServer>,
    /// What cannot be served, so that it is told once.
    refused: BTreeMap<(String, String), u16>,
}

struct HealthCheckServer {
    port: u16,
    _stop: DropGuard,
}

// === impl Health ===

impl DatapathHealth {
    fn state(&self) -> MutexGuard<'_, HealthState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The maps hold what the API says.
    pub fn updated(&self) {
        let mut state = self.state();
        state.updated = Some(Timestamp::now());
        state.behind = None;
    }

    /// The maps are behind.
    pub fn queued(&self) {
        self.state().behind.get_or_insert_with(Instant::now);
    }

    /// Whether traffic may be sent to this node.
    pub fn set_eligible(&self, eligible: bool) {
        self.state().eligible = eligible;
    }

    /// `/healthz`: may this node be sent traffic?
    pub fn healthz(&self) -> HttpAnswer {
        self.answer(true)
    }

    /// `/livez`: does the datapath follow, and do all tasks of the agent run?
    pub fn livez(&self) -> HttpAnswer {
        self.answer(false)
    }

    fn answer(&self, for_traffic: bool) -> HttpAnswer {
        let state = self.state();
        let healthy = state.healthy();
        // A task that is restarted is no reason to send traffic elsewhere.
        let down = if for_traffic {
            Vec::new()
        } else {
            Supervisor::process().unhealthy()
        };
        let good = healthy && down.is_empty() && (!for_traffic || state.eligible);
        let now = Timestamp::now();
        // As kube-proxy: recent whenever it is healthy.
        let updated = if good { Some(now) } else { state.updated };
        // Go's zero time for "never".
        let updated =
            updated.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), |it| it.to_string());
        let mut body = json!({
            "lastUpdated": updated,
            "currentTime": now.to_string(),
            "healthy": healthy,
        });
        if !down.is_empty()
            && let Some(body) = body.as_object_mut()
        {
            let names: Vec<&str> = down.iter().map(|task| task.name).collect();
            body.insert("tasksDown".to_owned(), json!(names));
        }
        if for_traffic && let Some(body) = body.as_object_mut() {
            body.insert("nodeEligible".to_owned(), state.eligible.into());
        }
        let status = if good {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        HttpAnswer::json(status, body.to_string())
    }

    /// A Service's `healthCheckNodePort`: has this node endpoints for it?
    pub fn check(&self, namespace: &str, name: &str) -> HttpAnswer {
        let state = self.state();
        let key = (namespace.to_owned(), name.to_owned());
        let endpoints = state.checks.get(&key).copied().unwrap_or_default();
        let healthy = state.healthy();
        let body = json!({
            "service": {"namespace": namespace, "name": name},
            "localEndpoints": endpoints,
            "serviceProxyHealthy": healthy,
        });
        let status = if endpoints > 0 && healthy {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        HttpAnswer {
            headers: vec![("x-load-balancing-endpoint-weight", endpoints.to_string())],
            ..HttpAnswer::json(status, body.to_string())
        }
    }

    fn set_checks(&self, checks: &[NodePortHealth]) {
        self.state().checks = checks
            .iter()
            .map(|it| ((it.namespace.clone(), it.name.clone()), it.local_endpoints))
            .collect();
    }
}

impl HealthState {
    fn healthy(&self) -> bool {
        self.behind.is_none_or(|since| since.elapsed() < PATIENCE)
    }
}

// === impl Checks ===

impl HealthCheckServers {
    /// Serves these from now on. Returns those whose port cannot be listened
    /// at, the first time that it cannot.
    pub async fn follow(
        &mut self,
        health: &Arc<DatapathHealth>,
        wanted: &[NodePortHealth],
        shutdown: &CancellationToken,
    ) -> Vec<(NodePortHealth, std::io::Error)> {
        health.set_checks(wanted);
        let keys: BTreeMap<_, _> = wanted
            .iter()
            .map(|it| ((it.namespace.clone(), it.name.clone()), it))
            .collect();
        self.servers
            .retain(|key, server| keys.get(key).is_some_and(|it| it.port == server.port));
        self.refused
            .retain(|key, port| keys.get(key).is_some_and(|it| it.port == *port));
        let mut failed = Vec::new();
        for (key, check) in keys {
            if self.servers.contains_key(&key) {
                continue;
            }
            match listen_everywhere(check.port).await {
                Ok(listener) => {
                    self.refused.remove(&key);
                    let stop = shutdown.child_token();
                    let (health, namespace, name) = (
                        Arc::clone(health),
                        check.namespace.clone(),
                        check.name.clone(),
                    );
                    info!(
                        namespace,
                        name,
                        port = check.port,
                        "serving a Service's health check"
                    );
                    let answer = move |_| {
                        let answer = health.check(&namespace, &name);
                        async move { answer }
                    };
                    http::serve_supervised("service-health-server", listener, answer, &stop);
                    let server = HealthCheckServer {
                        port: check.port,
                        _stop: stop.drop_guard(),
                    };
                    self.servers.insert(key, server);
                }
                Err(error) => {
                    if self.refused.insert(key, check.port).is_none() {
                        warn!(
                            namespace = check.namespace,
                            name = check.name,
                            port = check.port,
                            %error,
                            "failed to serve a Service's health check"
                        );
                        failed.push((check.clone(), error));
                    }
                }
            }
        }
        failed
    }
}

/// All addresses of both IP versions, or of IPv4 where there is no IPv6.
async fn listen_everywhere(port: u16) -> std::io::Result<tokio::net::TcpListener> {
    let both = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
    match http::listen(both).await {
        Err(error) if error.raw_os_error() == Some(nix::libc::EAFNOSUPPORT) => {
            http::listen(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)).await
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn body(answer: &HttpAnswer) -> Value {
        serde_json::from_str(&answer.body).expect("JSON")
    }

    #[test]
    fn a_node_that_is_about_to_go_gets_no_traffic_but_lives() {
        let health = DatapathHealth::default();
        health.updated();
        assert_eq!(health.healthz().status, 503, "no node is known");
        assert_eq!(body(&health.healthz())["nodeEligible"], false);
        assert_eq!(health.livez().status, 200);
        assert!(body(&health.livez()).get("nodeEligible").is_none());
        health.set_eligible(true);
        let answer = health.healthz();
        assert_eq!(answer.status, 200);
        let body = body(&answer);
        assert_eq!(body["nodeEligible"], true);
        for time in ["lastUpdated", "currentTime"] {
            let text = body[time].as_str().expect("a time");
            assert!(text.parse::<Timestamp>().is_ok(), "{text}");
        }
    }

    #[test]
    fn maps_that_stay_behind_make_it_unhealthy_until_they_catch_up() {
        let health = DatapathHealth::default();
        health.set_eligible(true);
        health.updated();
        health.queued();
        assert_eq!(health.healthz().status, 200, "not late yet");
        let long_ago = Instant::now().checked_sub(PATIENCE + Duration::from_secs(1));
        health.state().behind = Some(long_ago.expect("a machine that is up for a minute"));
        assert_eq!(health.healthz().status, 503);
        assert_eq!(health.livez().status, 503);
        health.queued();
        assert_eq!(health.livez().status, 503, "the oldest counts");
        health.updated();
        assert_eq!(health.livez().status, 200);
    }

    #[tokio::test]
    async fn health_checks_come_go_and_tell_the_weight() {
        let health = Arc::new(DatapathHealth::default());
        health.updated();
        let shutdown = CancellationToken::new();
        let free = http::listen("127.0.0.1:0".parse().expect("address"))
            .await
            .expect("a port");
        let port = free.local_addr().expect("address").port();
        drop(free);
        let mut checks = HealthCheckServers::default();
        let check = |endpoints| NodePortHealth {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            port,
            local_endpoints: endpoints,
        };
        let ask = async || {
            let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await.map(|_| text)
        };
        assert!(
            checks
                .follow(&health, &[check(2)], &shutdown)
                .await
                .is_empty()
        );
        let text = ask().await.expect("answered");
        assert!(text.starts_with("HTTP/1.0 200"), "{text}");
        assert!(
            text.contains("x-load-balancing-endpoint-weight: 2"),
            "{text}"
        );
        assert!(text.contains("\"localEndpoints\":2"), "{text}");
        checks.follow(&health, &[check(0)], &shutdown).await;
        let text = ask().await.expect("answered");
        assert!(text.starts_with("HTTP/1.0 503"), "{text}");

        // The port of another process, told once.
        let mut second = HealthCheckServers::default();
        assert_eq!(
            second.follow(&health, &[check(1)], &shutdown).await.len(),
            1
        );
        assert_eq!(
            second.follow(&health, &[check(1)], &shutdown).await.len(),
            0
        );

        checks.follow(&health, &[], &shutdown).await;
        let mut closed = false;
        for _ in 0..50 {
            closed = ask().await.is_err();
            if closed {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(closed, "the port is given back");
    }
}
