//! A driver of devices on a real socket, for tests. What it cannot show is a
//! device.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use http::Request;
use hyper::body::Incoming;
use node_agent_plugins::api::{Empty, PluginInfo, RegistrationStatus};
use node_agent_unix_grpc::server;
use node_agent_unix_grpc::server::GrpcResponse;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::api;

#[derive(Default)]
struct State {
    calls: Vec<String>,
    /// By what it is asked: what it says against it.
    refuses: Vec<(&'static str, &'static str)>,
    health: Option<mpsc::UnboundedReceiver<api::WatchResponse>>,
}

/// A driver that has one device for each claim, and notes what it is asked.
#[derive(Clone)]
pub struct Driver {
    state: Arc<Mutex<State>>,
    health: mpsc::UnboundedSender<api::WatchResponse>,
    socket: PathBuf,
    end: CancellationToken,
}

impl Driver {
    /// Makes itself known in the agent's folder, with the services that it
    /// names.
    pub fn start(root: &Path, name: &'static str, services: &[&str]) -> Self {
        let (health, told) = mpsc::unbounded_channel();
        let state = State {
            health: Some(told),
            ..State::default()
        };
        let driver = Self {
            state: Arc::new(Mutex::new(state)),
            health,
            socket: root.join("plugins_registry").join(format!("{name}.sock")),
            end: CancellationToken::new(),
        };
        let info = PluginInfo {
            r#type: "DRAPlugin".to_owned(),
            name: name.to_owned(),
            endpoint: driver.socket.display().to_string(),
            supported_versions: services.iter().map(|s| (*s).to_owned()).collect(),
        };
        let own = driver.clone();
        tokio::spawn(async move {
            let with = own.clone();
            server::listen(&own.socket, own.end.clone(), move |request| {
                with.clone().answer(request, info.clone())
            })
            .await;
        });
        driver
    }

    /// What it was asked since the last time.
    pub fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().calls)
    }

    /// How often it was asked since then.
    pub fn asked(&self) -> usize {
        self.state.lock().unwrap().calls.len()
    }

    /// From now on it says that against `Prepare` or `Unprepare`; nothing lets
    /// it do its work again.
    pub fn refuse(&self, what: &'static str, why: &'static str) {
        let mut state = self.state.lock().unwrap();
        state.refuses.retain(|(known, _)| *known != what);
        state.refuses.push((what, why));
    }

    /// Tells how the device of a claim is.
    pub fn report_health(&self, claim: &str, health: api::HealthStatus) {
        let device = api::DeviceHealth {
            device: Some(api::DeviceIdentifier {
                pool_name: "n1".to_owned(),
                device_name: format!("of-{claim}"),
            }),
            health: health.into(),
            health_check_timeout_seconds: 3600,
            message: "so it is".to_owned(),
        };
        let devices = vec![device];
        self.health.send(api::WatchResponse { devices }).unwrap();
    }

    /// It goes, as when its pod is deleted.
    pub fn stop(&self) {
        self.end.cancel();
    }

    async fn answer(self, request: Request<Incoming>, info: PluginInfo) -> GrpcResponse {
        let path = request.uri().path().to_owned();
        let state = self.state;
        match path.as_str() {
            "/pluginregistration.Registration/GetInfo" => {
                server::unary(request, move |_: Empty| Ok(info.clone())).await
            }
            "/pluginregistration.Registration/NotifyRegistrationStatus" => {
                server::unary(request, move |told: RegistrationStatus| {
                    let line = format!("registered {} {}", told.plugin_registered, told.error);
                    state.lock().unwrap().calls.push(line.trim_end().to_owned());
                    Ok(Empty {})
                })
                .await
            }
            "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
            | "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources" => {
                server::unary(request, move |asked: api::ClaimsRequest| {
                    let each = |claim: &api::Claim, error| api::Prepared {
                        devices: vec![api::Device {
                            request_names: vec!["r".to_owned()],
                            pool_name: "n1".to_owned(),
                            device_name: format!("of-{}", claim.name),
                            cdi_device_ids: vec![format!("d.io/x={}", claim.name)],
                            share_id: None,
                        }],
                        error,
                    };
                    let claims = note(&state, "Prepare", &path, &asked, each);
                    Ok(api::PrepareResponse { claims })
                })
                .await
            }
            "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources"
            | "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodeUnprepareResources" => {
                server::unary(request, move |asked: api::ClaimsRequest| {
                    let each = |_: &api::Claim, error| api::Unprepared { error };
                    let claims = note(&state, "Unprepare", &path, &asked, each);
                    Ok(api::UnprepareResponse { claims })
                })
                .await
            }
            "/v1alpha1.DRAResourceHealth/NodeWatchResources" => {
                let told = state.lock().unwrap().health.take();
                let Some(told) = told else {
                    return server::unknown();
                };
                let stream = futures::stream::unfold(told, |mut told| async move {
                    told.recv().await.map(|next| (Ok(next), told))
                });
                server::streaming::<Empty, api::WatchResponse>(request, stream.boxed()).await
            }
            _ => server::unknown(),
        }
    }
}

/// Notes what is asked, and answers about each claim.
fn note<A>(
    state: &Mutex<State>,
    what: &'static str,
    path: &str,
    asked: &api::ClaimsRequest,
    each: impl Fn(&api::Claim, String) -> A,
) -> std::collections::BTreeMap<String, A> {
    let mut state = state.lock().unwrap();
    let refuses = state.refuses.iter().find(|(known, _)| *known == what);
    let error = refuses.map_or("", |(_, why)| why).to_owned();
    let version = if path.contains("v1beta1") {
        "v1beta1"
    } else {
        "v1"
    };
    let names: Vec<&str> = asked.claims.iter().map(|c| c.name.as_str()).collect();
    let line = format!("{version} {what} {}", names.join(" "));
    state.calls.push(line);
    let claims = asked.claims.iter();
    claims
        .map(|c| (c.uid.clone(), each(c, error.clone())))
        .collect()
}
