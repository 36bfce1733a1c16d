//! What all parts of the agent share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use control_client::events::{ObjectReference, Recorder};
use control_client::resources;
use control_client::{Cache, Client};
use node_agent_informers::Node;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::mpsc;

use crate::cri::Runtime;
use crate::csi::CsiDrivers;
use crate::devices::DeviceManager;
use crate::dra::ClaimManager;
use crate::managers::ResourceManagers;
use crate::metrics::PodMetrics;
use crate::node::machine::Pressure;
use crate::node::shutdown::NodeShutdown;
use crate::objects::pod::Pod;
use crate::objects::source::ObjectReader;
use crate::objects::status::PodStatus;
use crate::pod::allocation::Allocations;
use crate::pod::cgroup::Cgroups;
use crate::pod::config::NodeFacts;
use crate::pod::dns::NodeDns;
use crate::pod::images::ImagePuller;
use crate::pod::observed::ObservedPod;
use crate::pod::probe::ProbeCounts;
use crate::pod::resize::Capacity;
use crate::pod::status::TerminationCause;
use crate::pod::userns::IdRanges;
use crate::sandbox_limiter::SandboxLimiter;
use crate::server::extra_endpoints::FurtherMetrics;
use crate::settings::Settings;
use crate::sync_loop_health::SyncLoopHealth;
use crate::volumes::growth::GrownClaims;

/// The state that all parts of the agent share, one per agent.
pub struct Shared {
    /// The API.
    pub client: Client,
    /// The container runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Who may have a sandbox made.
    pub crowd: SandboxLimiter,
    /// The runtime's name, such as `containerd`.
    pub runtime_name: String,
    /// Config maps, secrets, tokens, services.
    pub objects: Arc<dyn ObjectReader>,
    /// Where events go.
    pub events: Recorder,
    /// Drivers of volumes.
    pub csi: Arc<CsiDrivers>,
    /// Claims whose volumes have grown.
    pub grown: GrownClaims,
    /// Devices of plugins.
    pub devices: Arc<DeviceManager>,
    /// Devices by claims.
    pub claims: ClaimManager,
    /// CPUs and memory of containers' own.
    pub managers: ResourceManagers,
    /// Ids of pods' own.
    pub ranges: IdRanges,
    /// Images.
    pub images: ImagePuller,
    /// What is the same for all pods.
    pub node: NodeFacts,
    /// The node's name.
    pub node_name: String,
    /// Nodes, the own one among them.
    pub node_object: Cache<Node>,
    /// The kubelet's configuration.
    pub settings: Settings,
    /// The node's addresses, the primary first.
    pub host_ips: Vec<String>,
    /// What pods get for name resolution.
    pub dns: NodeDns,
    /// Control groups; none where there are none to be made.
    pub cgroups: Option<Cgroups>,
    /// What the node has for pods, for the downward API.
    pub allocatable: std::collections::BTreeMap<String, String>,
    /// The same of CPU and memory, as numbers.
    pub room: Capacity,
    /// Whether the machine is going down.
    pub leaving: NodeShutdown,
    /// What pods were granted, for who comes after this agent.
    pub allocations: Allocations,
    /// Held while resources are granted.
    pub grants: Mutex<()>,
    /// The agent's own folder: `/var/lib/kubelet`.
    pub root: PathBuf,
    /// What the node is short of.
    pub short: Mutex<Pressure>,
    /// Pods that the node ends.
    pub orders: mpsc::UnboundedSender<EvictionRequest>,
    /// What runs here, for the serving API.
    pub pods: PodRegistry,
    /// How probes went.
    pub probes: Arc<ProbeCounts>,
    /// How the runtime is watched.
    pub attention: RelistRate,
    /// What is measured.
    pub metrics: Arc<PodMetrics>,
    /// What else is shown with it.
    pub further_metrics: Option<FurtherMetrics>,
    /// Whether the loop over all pods goes round.
    pub pulse: Arc<SyncLoopHealth>,
}

/// A request to a pod's worker to terminate the pod.
#[derive(Clone, Debug)]
pub struct EvictionRequest {
    /// Its uid.
    pub uid: String,
    /// Why.
    pub sentence: TerminationCause,
    /// Seconds that it gets.
    pub grace: i64,
}

impl Shared {
    /// The node, as its events name it: it is perhaps not known yet, and who looks for
    /// them goes by the name.
    #[must_use]
    pub fn node_reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.node_name.clone(),
            uid: self.node_name.clone(),
            ..ObjectReference::default()
        }
    }

    /// What the node is short of.
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        *self.short.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the node is short of.
    pub fn set_pressure(&self, pressure: Pressure) {
        *self.short.lock().unwrap_or_else(PoisonError::into_inner) = pressure;
    }

    /// Ends a pod for the node's sake.
    pub fn order(&self, order: EvictionRequest) {
        // nobody runs pods any more when the agent ends
        let _ = self.orders.send(order);
    }

    /// Good news about a pod, or a container of it.
    pub fn normal(
        &self,
        pod: &Pod,
        container: Option<&str>,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.events
            .normal(&reference(pod, container), reason, message);
    }

    /// Bad news about a pod, or a container of it.
    pub fn warning(
        &self,
        pod: &Pod,
        container: Option<&str>,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.events
            .warning(&reference(pod, container), reason, message);
    }
}

fn reference(pod: &Pod, container: Option<&str>) -> ObjectReference {
    let reference = ObjectReference::to_object(&resources::PODS, &pod.metadata);
    match container {
        None => reference,
        Some(name) => {
            let spec = &pod.spec;
            let of = |list: &[crate::objects::pod::Container]| list.iter().any(|c| c.name == name);
            let kind = if of(&spec.init_containers) {
                "initContainers"
            } else if of(&spec.ephemeral_containers) {
                "ephemeralContainers"
            } else {
                "containers"
            };
            reference.field(format!("spec.{kind}{{{name}}}"))
        }
    }
}

/// A pod as the serving API sees it.
#[derive(Clone)]
pub struct PodEntry {
    /// The pod.
    pub pod: Arc<Pod>,
    /// What the runtime has of it.
    pub observed: Arc<ObservedPod>,
    /// Its status as last made.
    pub status: Arc<PodStatus>,
    /// By name: where volumes are that are not its own.
    pub places: Arc<std::collections::BTreeMap<String, PathBuf>>,
}

/// The pods of this node by uid. Each worker writes its own entry.
#[derive(Default)]
pub struct PodRegistry(RwLock<PodTable>);

#[derive(Default)]
struct PodTable {
    entries: FxHashMap<String, PodEntry>,
    /// Those that the API has no more and whose containers still end: deleted by force, or
    /// with no grace period. They hold nothing against a pod that comes now, as in the
    /// kubelet: a refusal would be for good, and what they hold is free in a moment.
    disowned: FxHashSet<String>,
}

impl PodRegistry {
    /// The pod of that name.
    #[must_use]
    pub fn find(&self, namespace: &str, name: &str) -> Option<PodEntry> {
        self.read(|pods| {
            let all = pods.entries.values();
            all.filter(|e| e.pod.namespace() == namespace && e.pod.name() == name)
                .max_by_key(|e| e.pod.metadata.creation_timestamp)
                .cloned()
        })
    }

    /// The pod of that uid.
    #[must_use]
    pub fn get(&self, uid: &str) -> Option<PodEntry> {
        self.read(|pods| pods.entries.get(uid).cloned())
    }

    /// All pods.
    #[must_use]
    pub fn all(&self) -> Vec<PodEntry> {
        self.read(|pods| pods.entries.values().cloned().collect())
    }

    /// The pods beside which another must find room: all but itself, those that have ended and
    /// those that the API has no more.
    #[must_use]
    pub fn beside(&self, uid: &str) -> Vec<Arc<Pod>> {
        self.read(|pods| pods.beside(uid).map(|e| e.pod.clone()).collect())
    }

    /// What these pods hold of CPU and memory.
    #[must_use]
    pub fn room(&self, but: &str) -> Capacity {
        self.read(|pods| {
            pods.beside(but)
                .map(|e| Capacity::asked(&e.pod.spec))
                .fold(Capacity::default(), Capacity::plus)
        })
    }

    /// Writes a pod's entry.
    pub fn put(&self, entry: PodEntry) {
        self.write(|pods| {
            pods.entries.insert(entry.pod.uid().to_owned(), entry);
        });
    }

    /// Notes that the API has the pod no more.
    pub fn disown(&self, uid: &str) {
        self.write(|pods| {
            if pods.entries.contains_key(uid) {
                pods.disowned.insert(uid.to_owned());
            }
        });
    }

    /// Takes a pod's entry away.
    pub fn remove(&self, uid: &str) {
        self.write(|pods| {
            pods.entries.remove(uid);
            pods.disowned.remove(uid);
        });
    }

    fn read<T>(&self, with: impl FnOnce(&PodTable) -> T) -> T {
        // a writer that panicked left whole entries
        with(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, with: impl FnOnce(&mut PodTable)) {
        with(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}

impl PodTable {
    fn beside(&self, uid: &str) -> impl Iterator<Item = &PodEntry> {
        self.entries.values().filter(move |entry| {
            let other = entry.pod.uid();
            other != uid && !entry.status.is_terminal() && !self.disowned.contains(other)
        })
    }
}

/// How often the runtime is listed: more often for a while after a start, when changes are
/// likely.
#[derive(Debug)]
pub struct RelistRate {
    begun: Instant,
    /// Milliseconds from then on: clocks are set, this is not.
    until: AtomicU64,
    network_ready: AtomicBool,
}

impl Default for RelistRate {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            until: AtomicU64::new(0),
            network_ready: AtomicBool::new(false),
        }
    }
}

impl RelistRate {
    /// Asks for close attention for the next seconds.
    pub fn raise(&self) {
        let until = self.elapsed() + 3000;
        self.until.fetch_max(until, Ordering::Relaxed);
    }

    /// Whether close attention is asked for.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.until.load(Ordering::Relaxed) > self.elapsed()
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes whether the runtime's network is ready.
    pub fn set_network_ready(&self, ready: bool) {
        self.network_ready.store(ready, Ordering::Relaxed);
    }

    /// Whether the runtime's network is ready.
    #[must_use]
    pub fn network_ready(&self) -> bool {
        self.network_ready.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_that_the_api_has_no_more_hold_nothing_against_others() {
        let registry = PodRegistry::default();
        let spec = serde_json::json!({"containers": [
            {"name": "a", "resources": {"requests": {"cpu": "1"}}},
        ]});
        let pod = |name: &str| {
            let metadata = serde_json::json!({"name": name, "namespace": "default", "uid": name});
            let pod = serde_json::json!({"metadata": metadata, "spec": spec});
            serde_json::from_value(pod).unwrap()
        };
        let entry = |name: &str| PodEntry {
            pod: Arc::new(pod(name)),
            observed: Default::default(),
            status: Default::default(),
            places: Default::default(),
        };
        let (old, kept) = (entry("old"), entry("kept"));
        let uid = old.pod.uid().to_owned();
        registry.put(old.clone());
        registry.put(kept);
        assert_eq!(registry.beside("new").len(), 2);
        registry.disown(&uid);
        // Its worker goes on writing what it sees until the containers have ended.
        registry.put(old.clone());
        let names = |pods: Vec<Arc<Pod>>| pods.iter().map(|it| it.name().to_owned()).collect();
        let beside: Vec<String> = names(registry.beside("new"));
        assert_eq!(beside, ["kept"]);
        assert_eq!(registry.room("new"), Capacity::asked(&old.pod.spec));
        assert!(registry.get(&uid).is_some());
        registry.remove(&uid);
        registry.put(old);
        assert_eq!(registry.beside("new").len(), 2, "a static pod came back");
    }
}
