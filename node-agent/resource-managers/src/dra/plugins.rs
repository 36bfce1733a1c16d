//! The drivers of devices on this node: where they answer, whether they do, and
//! what they tell of their devices' health.
//!
//! A driver may have several plugins at a time, while it is replaced. As long as
//! none of them is connected nobody should be given its devices: after half a
//! minute its ResourceSlices of this node are deleted (KEP-4381), as are those of
//! all drivers when the agent begins. Drivers that are there make them anew.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use control_client::{Client as Api, DeleteOptions, Resource, Selection};
use futures::StreamExt;
use futures::future::BoxFuture;
use hyper_util::rt::{TokioExecutor, TokioIo};
use node_agent_cri::RuntimeClient as Socket;
use node_agent_plugins::api::{Empty, PluginInfo};
use node_agent_plugins::{PluginHandlers, RegistrationError};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::health::{DeviceHealth, DeviceId};
use super::metrics::ClaimMetrics;
use super::state::ClaimTable;
use super::{Error, api};

/// How long a driver may take for one call.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(45));

/// How long a driver may be away before its slices go.
pub const AWAY: Duration = Duration::from_secs(30);

/// How long the deletion of slices waits when it failed, at first and at most.
const RETRY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(300)];

/// How often a plugin that is not connected is tried.
const CONNECT_EVERY: Duration = Duration::from_secs(1);

/// How often a driver is asked for its devices' health when it told none.
const ASK_EVERY: Duration = Duration::from_secs(5);

const RESOURCE_SLICES: Resource =
    Resource::cluster("resource.k8s.io", "v1", "resourceslices", "ResourceSlice");

/// The version of the gRPC service that a plugin serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PluginProtocol {
    V1,
    V1Beta1,
}

impl PluginProtocol {
    /// The first of those that a plugin names which is known here.
    fn choose(named: &[String]) -> Option<Self> {
        named.iter().find_map(|name| match name.as_str() {
            "v1.DRAPlugin" => Some(Self::V1),
            "v1beta1.DRAPlugin" => Some(Self::V1Beta1),
            _ => None,
        })
    }
}

/// One registered plugin of a driver.
#[derive(Clone, Debug)]
pub struct DraPlugin {
    endpoint: String,
    socket: Socket,
    service: PluginProtocol,
    connected: bool,
    /// Cancelled when it is gone.
    end: CancellationToken,
}

impl DraPlugin {
    async fn call<A>(
        &self,
        method: &'static str,
        claims: Vec<api::Claim>,
    ) -> Result<A, node_agent_cri::RuntimeError>
    where
        A: prost::Message + Default + 'static,
    {
        let request = api::ClaimsRequest { claims };
        self.socket.unary(method, request, PATIENCE).await
    }
}

/// The registered DRA drivers of the node.
pub struct DraPlugins {
    api: Api,
    node: String,
    away: Duration,
    /// The newest last.
    all: Mutex<BTreeMap<String, Vec<DraPlugin>>>,
    /// By driver that is away: cancelled when it is back.
    wipes: Mutex<BTreeMap<String, CancellationToken>>,
    health: Mutex<DeviceHealth>,
    /// Who uses what.
    table: Arc<Mutex<ClaimTable>>,
    metrics: ClaimMetrics,
    /// Gets the uids of pods whose devices are not as they were.
    changed: mpsc::UnboundedSender<String>,
    shutdown: CancellationToken,
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DraPlugins {
    pub(super) fn new(
        api: Api,
        node: &str,
        table: Arc<Mutex<ClaimTable>>,
        changed: mpsc::UnboundedSender<String>,
        away: Duration,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            api,
            node: node.to_owned(),
            away,
            all: Mutex::default(),
            wipes: Mutex::default(),
            health: Mutex::default(),
            table,
            metrics: ClaimMetrics::default(),
            changed,
            shutdown,
        }
    }

    /// The plugin of a driver to ask: the newest that is connected, or else the
    /// newest.
    ///
    /// # Errors
    /// When it has none.
    pub fn find(&self, driver: &str) -> Result<DraPlugin, Error> {
        let all = lock(&self.all);
        let own = all.get(driver).map(Vec::as_slice).unwrap_or_default();
        let connected = own.iter().rev().find(|plugin| plugin.connected);
        let found = connected.or(own.last()).cloned();
        found.ok_or_else(|| Error::Driver(driver.to_owned()))
    }

    /// Has a driver prepare claims.
    ///
    /// # Errors
    /// When it is not there, or cannot be asked.
    pub(super) async fn prepare(
        &self,
        driver: &str,
        claims: Vec<api::Claim>,
    ) -> Result<api::PrepareResponse, Error> {
        let methods = [
            "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources",
            "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources",
        ];
        self.call(driver, methods, claims).await
    }

    /// Has a driver take claims back.
    ///
    /// # Errors
    /// When it is not there, or cannot be asked.
    pub(super) async fn unprepare(
        &self,
        driver: &str,
        claims: Vec<api::Claim>,
    ) -> Result<api::UnprepareResponse, Error> {
        let methods = [
            "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources",
            "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodeUnprepareResources",
        ];
        self.call(driver, methods, claims).await
    }

    /// By a method, as `v1` and `v1beta1` name it.
    async fn call<A>(
        &self,
        driver: &str,
        [v1, v1beta1]: [&'static str; 2],
        claims: Vec<api::Claim>,
    ) -> Result<A, Error>
    where
        A: prost::Message + Default + 'static,
    {
        let plugin = self.find(driver)?;
        let method = match plugin.service {
            PluginProtocol::V1 => v1,
            PluginProtocol::V1Beta1 => v1beta1,
        };
        let begun = Instant::now();
        let answer = plugin.call(method, claims).await;
        let code = answer.as_ref().err().map_or(tonic::Code::Ok, |e| e.code);
        self.metrics.call(driver, method, code, begun.elapsed());
        answer.map_err(Error::Call)
    }

    /// How long calls and claims took.
    pub(super) fn metrics(&self) -> &ClaimMetrics {
        &self.metrics
    }

    /// How a device is, and what its driver says to that.
    #[must_use]
    pub fn health(&self, driver: &str, pool: &str, device: &str) -> (&'static str, Option<String>) {
        lock(&self.health).for_container(driver, pool, device, Instant::now())
    }

    fn add(self: &Arc<Self>, driver: &str, plugin: DraPlugin) -> Result<(), RegistrationError> {
        {
            let mut all = lock(&self.all);
            let own = all.entry(driver.to_owned()).or_default();
            if own.iter().any(|known| known.endpoint == plugin.endpoint) {
                // one instance does not take another's place
                return Err(RegistrationError::EndpointTaken {
                    endpoint: plugin.endpoint,
                    driver: driver.to_owned(),
                });
            }
            own.push(plugin.clone());
        }
        self.note(driver);
        let own = self.clone();
        let driver = driver.to_owned();
        control_supervise::task("dra-plugin")
            .detail(&*driver)
            .spawn_restarting(move || {
                let (own, driver, plugin) = (own.clone(), driver.clone(), plugin.clone());
                async move {
                    tokio::select! {
                        () = plugin.end.cancelled() => {}
                        () = own.follow(&driver, &plugin) => {}
                    }
                }
            });
        Ok(())
    }

    fn remove(self: &Arc<Self>, driver: &str, endpoint: &str) {
        let mut all = lock(&self.all);
        let Some(own) = all.get_mut(driver) else {
            return;
        };
        own.retain(|plugin| {
            let stays = plugin.endpoint != endpoint;
            if !stays {
                plugin.end.cancel();
            }
            stays
        });
        if own.is_empty() {
            all.remove(driver);
        }
        drop(all);
        self.forget(driver);
        self.note(driver);
    }

    /// Keeps connected with a plugin, and takes in what it tells.
    async fn follow(self: &Arc<Self>, driver: &str, plugin: &DraPlugin) {
        loop {
            match connect(plugin.socket.socket()).await {
                Err(error) => {
                    tracing::debug!(driver, %error, "DRA driver does not respond");
                }
                Ok((_open, connection)) => {
                    self.connected(driver, &plugin.endpoint, true);
                    tokio::select! {
                        () = connection => {}
                        () = self.watch(driver, plugin) => {}
                    }
                    self.connected(driver, &plugin.endpoint, false);
                    tracing::info!(driver, "connection to a DRA driver ended");
                }
            }
            tokio::time::sleep(CONNECT_EVERY).await;
        }
    }

    fn connected(self: &Arc<Self>, driver: &str, endpoint: &str, connected: bool) {
        let mut all = lock(&self.all);
        for plugin in all.get_mut(driver).into_iter().flatten() {
            if plugin.endpoint == endpoint {
                plugin.connected = connected;
            }
        }
        drop(all);
        self.note(driver);
    }

    /// Takes in what a driver tells of its devices' health, as long as it is
    /// connected.
    async fn watch(&self, driver: &str, plugin: &DraPlugin) {
        loop {
            let method = "v1alpha1.DRAResourceHealth/NodeWatchResources";
            let told = plugin.socket.stream(method, Empty {}).await;
            let ended = match told {
                Err(error) => Some(error),
                Ok(mut told) => {
                    let ended = loop {
                        match told.next().await {
                            None => break None,
                            Some(Err(error)) => break Some(error),
                            Some(Ok(response)) => self.take(driver, response),
                        }
                    };
                    self.forget(driver);
                    ended
                }
            };
            if ended.is_some_and(|error| error.is_unimplemented()) {
                // it will not learn it before it is replaced
                return std::future::pending().await;
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    fn take(&self, driver: &str, response: api::WatchResponse) {
        let changed = lock(&self.health).take(driver, response.devices, Instant::now());
        self.tell(driver, &changed);
    }

    fn forget(&self, driver: &str) {
        let changed = lock(&self.health).forget(driver);
        self.tell(driver, &changed);
    }

    /// Has the pods look that use one of these devices.
    fn tell(&self, driver: &str, changed: &BTreeSet<DeviceId>) {
        if changed.is_empty() {
            return;
        }
        let table = lock(&self.table);
        for (_, held) in table.iter() {
            let devices = held.drivers.get(driver).into_iter().flatten();
            let is_changed =
                |pool: &String, device: &String| changed.contains(&(pool.clone(), device.clone()));
            if devices
                .into_iter()
                .any(|d| is_changed(&d.pool_name, &d.device_name))
            {
                for pod in &held.pods {
                    // nobody looks any more when the agent ends
                    let _ = self.changed.send(pod.clone());
                }
            }
        }
    }

    /// Has a driver's slices deleted when it is away for too long.
    fn note(self: &Arc<Self>, driver: &str) {
        let mut wipes = lock(&self.wipes);
        let usable = lock(&self.all)
            .get(driver)
            .is_some_and(|own| own.iter().any(|plugin| plugin.connected));
        if usable {
            if let Some(wipe) = wipes.remove(driver) {
                wipe.cancel();
            }
            return;
        }
        if wipes.contains_key(driver) {
            return;
        }
        let back = self.shutdown.child_token();
        wipes.insert(driver.to_owned(), back.clone());
        let (own, driver) = (self.clone(), driver.to_owned());
        tokio::spawn(async move {
            tokio::select! {
                () = back.cancelled() => {}
                () = own.wipe_later(&driver) => {
                    // unless another has taken its place
                    let mut wipes = lock(&own.wipes);
                    if !back.is_cancelled() {
                        wipes.remove(&driver);
                    }
                }
            }
        });
    }

    async fn wipe_later(&self, driver: &str) {
        tokio::time::sleep(self.away).await;
        tracing::info!(driver, "DRA driver is gone; deleting its ResourceSlices");
        self.wipe(Some(driver)).await;
    }

    /// Takes away what drivers told the API that were there before the agent:
    /// those that still are make it anew.
    pub fn begin(self: Arc<Self>) {
        tokio::spawn(async move {
            tokio::select! {
                () = self.shutdown.cancelled() => {}
                () = self.wipe(None) => {}
            }
        });
    }

    /// Deletes the node's slices, of one driver or of all, until it succeeds.
    async fn wipe(&self, driver: Option<&str>) {
        let mut fields = format!("spec.nodeName={}", self.node);
        if let Some(driver) = driver {
            fields.push_str(&format!(",spec.driver={driver}"));
        }
        let selection = Selection::all().fields(fields);
        let mut wait = RETRY[0];
        loop {
            let options = DeleteOptions::default();
            let deleted = self
                .api
                .delete_collection(&RESOURCE_SLICES, &selection, &options)
                .await;
            match deleted {
                Ok(()) => return,
                // such an API knows no slices
                Err(error) if error.is_not_found() => return,
                Err(error) => {
                    tracing::debug!(
                        error = error.chain(),
                        "failed to delete ResourceSlices of the node"
                    );
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY[1]);
        }
    }
}

/// A connection that nothing is asked over, and what ends when it does.
async fn connect(
    socket: &Path,
) -> Result<(impl Send + use<>, impl Future<Output = ()> + Send + use<>), io::Error> {
    let stream = UnixStream::connect(socket);
    let stream = stream.await?;
    let (open, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .handshake::<_, http_body_util::Empty<Bytes>>(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let ended = async move {
        let _ = connection.await;
    };
    Ok((open, ended))
}

impl PluginHandlers for DraPlugins {
    fn r#type(&self) -> &'static str {
        "DRAPlugin"
    }

    fn take<'a>(
        self: Arc<Self>,
        info: &'a PluginInfo,
        endpoint: &'a str,
    ) -> BoxFuture<'a, Result<(), RegistrationError>> {
        Box::pin(async move {
            let service = PluginProtocol::choose(&info.supported_versions).ok_or_else(|| {
                RegistrationError::DraServices {
                    driver: info.name.clone(),
                    services: info.supported_versions.clone(),
                }
            })?;
            let plugin = DraPlugin {
                endpoint: endpoint.to_owned(),
                socket: Socket::new(endpoint),
                service,
                connected: false,
                end: self.shutdown.child_token(),
            };
            self.add(&info.name, plugin)
        })
    }

    fn gone<'a>(self: Arc<Self>, name: &'a str, endpoint: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.remove(name, endpoint) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_protocol_is_spoken_that_a_plugin_names_and_the_agent_knows() {
        let choose = |named: &[&str]| {
            let named: Vec<String> = named.iter().map(|n| (*n).to_owned()).collect();
            PluginProtocol::choose(&named)
        };
        let both = ["v2.DRAPlugin", "v1.DRAPlugin", "v1beta1.DRAPlugin"];
        assert_eq!(choose(&both), Some(PluginProtocol::V1));
        assert_eq!(
            choose(&["v1beta1.DRAPlugin"]),
            Some(PluginProtocol::V1Beta1)
        );
        for none in [&[][..], &["1.0.0"], &["v1alpha4", "v1"]] {
            assert_eq!(choose(none), None, "{none:?}");
        }
    }
}
