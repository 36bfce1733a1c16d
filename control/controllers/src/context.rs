//! State shared by all controllers: the client, one cache per kind, the settings.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use control_client::events::{Format, Recorder};
use control_client::{Change, Client, Meta, Queue, Reflector, Selection, View, reflect};
use rustc_hash::FxHashMap;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::admission_policies::AdmissionPolicy;
use crate::bootstrap_signer::{BootstrapToken, ClusterInfo};
use crate::cluster_role::ClusterRole;
use crate::pod_autoscaler::HorizontalPodAutoscaler;
use crate::selinux_warnings::LabelledPod;
use crate::service_cidr::{IpAddress, ServiceCidr};
use crate::views::{
    AttributesClass, Claim, ConfigMap, CronJob, CsiDriver, DaemonSet, Deployment, EndpointSlice,
    Endpoints, Job, Lease, Namespace, Node, Pod, PodDisruptionBudget, ReplicaSet,
    ReplicationController, ResourceClaim, ResourceSlice, Revision, Service, ServiceAccount,
    StatefulSet, StorageClass, Text, Volume, VolumeAttachment,
};
use crate::volumes::local::NodeCapacity;

/// The name of an object, by which work is queued.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace, empty for cluster-scoped kinds.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
}

impl Key {
    /// The key of an object.
    #[must_use]
    pub fn from_meta(meta: &Meta) -> Self {
        Self {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
        }
    }

    /// A key from its parts.
    #[must_use]
    pub fn new(namespace: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}", self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// Called for every change, in order, after index and cache show it. It must not block:
/// it only queues work.
type Handler<V> = Box<dyn Fn(&Change<V>) + Send + Sync>;

/// Objects by namespace and uid of their controller.
type ByOwner<V> = FxHashMap<(Text, Text), Vec<Arc<V>>>;

/// The cache of one kind, shared by all controllers that read it, with an index by
/// controlling owner.
///
/// One task writes the index and calls the handlers. So a controller that tracks its own
/// writes by these calls may rely on this: the index contains every change that the
/// controller was notified of.
pub struct KindCache<V: View> {
    reflector: Reflector<V>,
    owned: RwLock<ByOwner<V>>,
    indexed: bool,
    handlers: Mutex<Vec<Handler<V>>>,
    ready: watch::Sender<bool>,
}

impl<V: View> KindCache<V> {
    fn new(client: &Client, selection: Selection, indexed: bool) -> Arc<Self> {
        Arc::new(Self {
            reflector: reflect(client, selection),
            owned: RwLock::default(),
            indexed,
            handlers: Mutex::default(),
            ready: watch::Sender::new(false),
        })
    }

    /// Registers `handler` for every change, from the first list on. Must be called
    /// before the controllers are launched.
    pub fn on_change(&self, handler: impl Fn(&Change<V>) + Send + Sync + 'static) {
        self.handlers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(handler));
    }

    /// Queues the key of each object that changes or is deleted. Must be called before
    /// the controllers are launched.
    pub fn queue_changes(&self, queue: &Queue<Key>) {
        let queue = queue.clone();
        self.on_change(move |change| {
            if let Some(object) = change.latest() {
                queue.add(Key::from_meta(object.meta()));
            }
        });
    }

    /// Queues the key of each object that is added or changes, but not of deleted ones.
    /// Must be called before the controllers are launched.
    pub fn queue_present(&self, queue: &Queue<Key>) {
        let queue = queue.clone();
        self.on_change(move |change| {
            if let Some(object) = &change.current {
                queue.add(Key::from_meta(object.meta()));
            }
        });
    }

    /// Waits until the first list was indexed and all handlers were called.
    pub async fn ready(&self) {
        let mut ready = self.ready.subscribe();
        // an error means that the sender was dropped; it lives as long as `self`
        let _ = ready.wait_for(|ready| *ready).await;
    }

    /// One object from the cache.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<V>> {
        self.reflector.cache().get(namespace, name)
    }

    /// One object from the cache, by key.
    #[must_use]
    pub fn by_key(&self, key: &Key) -> Option<Arc<V>> {
        self.get(&key.namespace, &key.name)
    }

    /// All objects of a namespace.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> Vec<Arc<V>> {
        let snapshot = self.reflector.cache().snapshot();
        snapshot.namespace(namespace).cloned().collect()
    }

    /// All objects.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<V>> {
        self.reflector.cache().snapshot().iter().cloned().collect()
    }

    /// The objects of a namespace whose controller has this uid; with an empty
    /// uid, those that have none.
    #[must_use]
    pub fn owned_by(&self, namespace: &str, uid: &str) -> Vec<Arc<V>> {
        self.owned_by_any(namespace, [uid])
    }

    /// Returns the objects that a controller may claim: its own and those without a
    /// controller.
    #[must_use]
    pub fn claimable(&self, owner: &Meta) -> Vec<Arc<V>> {
        self.owned_by_any(&owner.namespace, [owner.uid.as_str(), ""])
    }

    /// Returns the objects of a namespace that one of these uids controls; an empty uid
    /// stands for no controller.
    ///
    /// All are read under one lock, so an object that moves from one owner to another is
    /// in the result exactly once.
    #[must_use]
    pub fn owned_by_any<'a>(
        &self,
        namespace: &str,
        uids: impl IntoIterator<Item = &'a str>,
    ) -> Vec<Arc<V>> {
        debug_assert!(self.indexed, "{} has no index by owner", V::RESOURCE);
        let owned = self.owned.read().unwrap_or_else(PoisonError::into_inner);
        uids.into_iter()
            .filter_map(|uid| owned.get(&(namespace.into(), uid.into())))
            .flatten()
            .cloned()
            .collect()
    }

    /// Follows the changes until `shutdown`.
    async fn pump(self: Arc<Self>, shutdown: CancellationToken) {
        let handlers =
            std::mem::take(&mut *self.handlers.lock().unwrap_or_else(PoisonError::into_inner));
        let mut changes = self.reflector.changes();
        let tell = |change: &Change<V>| {
            if self.indexed {
                self.index(change);
            }
            for handler in &handlers {
                handler(change);
            }
        };
        loop {
            let listed = self.reflector.is_synced();
            // listed objects are in the channel before the cache counts as listed
            while let Some(change) = changes.try_recv() {
                tell(&change);
            }
            if listed {
                self.ready
                    .send_if_modified(|ready| !std::mem::replace(ready, true));
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                change = changes.recv() => match change {
                    Some(change) => tell(&change),
                    None => return,
                },
                () = self.reflector.synced(), if !listed => {}
            }
        }
    }

    fn index(&self, change: &Change<V>) {
        let place = |object: &Arc<V>| {
            let meta = object.meta();
            let uid = meta
                .controller()
                .map(|owner| owner.uid.clone())
                .unwrap_or_default();
            (meta.namespace.clone(), uid)
        };
        let mut owned = self.owned.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(previous) = &change.previous {
            let at = place(previous);
            if let Some(list) = owned.get_mut(&at) {
                if let Some(found) = list
                    .iter()
                    .position(|object| object.meta().name == previous.meta().name)
                {
                    list.swap_remove(found);
                }
                if list.is_empty() {
                    owned.remove(&at);
                }
            }
        }
        if let Some(current) = &change.current {
            owned
                .entry(place(current))
                .or_default()
                .push(Arc::clone(current));
        }
    }
}

/// Declares the shared caches: one method each, which creates the cache on first use.
macro_rules! caches {
    ($($(#[$doc:meta])* $name:ident: $view:ty, $index:literal, $selection:expr;)*) => {
        #[derive(Default)]
        struct Caches {
            $($name: OnceLock<Arc<KindCache<$view>>>,)*
        }

        impl Context {
            $($(#[$doc])*
            #[must_use]
            pub fn $name(&self) -> Arc<KindCache<$view>> {
                Arc::clone(self.caches.$name.get_or_init(|| {
                    KindCache::new(&self.reader, $selection, $index)
                }))
            })*

            /// Starts the tasks of all caches in use.
            pub(crate) fn launch(&self, tasks: &mut JoinSet<()>) {
                $(if let Some(kind) = self.caches.$name.get() {
                    let pump = Arc::clone(kind).pump(self.shutdown.clone());
                    // A change that handlers missed cannot be delivered again.
                    let task = control_supervise::task("controller-cache");
                    let task = task.detail(stringify!($name)).until(&self.shutdown);
                    tasks.spawn(task.essential(pump));
                })*
            }
        }
    };
}

caches! {
    /// Pods, by owner.
    pods: Pod, true, Selection::all();
    /// Requests for certificates.
    certificate_requests: crate::views::CertificateSigningRequest, false, Selection::all();
    /// Nodes.
    nodes: Node, false, Selection::all();
    /// The leases of nodes.
    node_leases: Lease, false, Selection::all().namespace("kube-node-lease");
    /// Namespaces.
    namespaces: Namespace, false, Selection::all();
    /// Service accounts.
    service_accounts: ServiceAccount, false, Selection::all();
    /// The config maps that hold the root certificate.
    root_ca_maps: ConfigMap, false, Selection::all().fields("metadata.name=kube-root-ca.crt");
    /// Services.
    services: Service, false, Selection::all();
    /// Endpoint slices.
    slices: EndpointSlice, false, Selection::all();
    /// Legacy endpoints.
    endpoints: Endpoints, false, Selection::all();
    /// Deployments.
    deployments: Deployment, false, Selection::all();
    /// ReplicaSets, by owner.
    replica_sets: ReplicaSet, true, Selection::all();
    /// ReplicationControllers.
    replication_controllers: ReplicationController, true, Selection::all();
    /// StatefulSets.
    stateful_sets: StatefulSet, false, Selection::all();
    /// DaemonSets.
    daemon_sets: DaemonSet, false, Selection::all();
    /// ControllerRevisions, by owner.
    revisions: Revision, true, Selection::all();
    /// Jobs, by owner.
    jobs: Job, true, Selection::all();
    /// CronJobs.
    cron_jobs: CronJob, false, Selection::all();
    /// ClusterRoles.
    cluster_roles: ClusterRole, false, Selection::all();
    /// Claims to volumes.
    claims: Claim, false, Selection::all();
    /// Volumes.
    volumes: Volume, false, Selection::all();
    /// Classes of volumes' attributes.
    attributes_classes: AttributesClass, false, Selection::all();
    /// Storage classes.
    storage_classes: StorageClass, false, Selection::all();
    /// CSI drivers.
    csi_drivers: CsiDriver, false, Selection::all();
    /// Claims to devices, by owner.
    resource_claims: ResourceClaim, true, Selection::all();
    /// Devices that nodes offer.
    resource_slices: ResourceSlice, false, Selection::all();
    /// Attachments of volumes to nodes.
    attachments: VolumeAttachment, false, Selection::all();
    /// Ranges of services' addresses.
    service_cidrs: ServiceCidr, false, Selection::all();
    /// Services' addresses.
    ip_addresses: IpAddress, false, Selection::all();
    /// Bootstrap tokens.
    bootstrap_tokens: BootstrapToken, false, Selection::all().namespace("kube-system")
        .fields("type=bootstrap.kubernetes.io/token");
    /// The `cluster-info` that a joining machine reads first.
    cluster_info: ClusterInfo, false, Selection::all().namespace("kube-public")
        .fields("metadata.name=cluster-info");
    /// HorizontalPodAutoscalers.
    autoscalers: HorizontalPodAutoscaler, false, Selection::all();
    /// How much nodes can have of classes of local volumes.
    node_capacities: NodeCapacity, false, Selection::all();
    /// PodDisruptionBudgets.
    budgets: PodDisruptionBudget, false, Selection::all();
    /// ValidatingAdmissionPolicies.
    admission_policies: AdmissionPolicy, false, Selection::all();
    /// Pods with the SELinux labels of their containers.
    labelled_pods: LabelledPod, false, Selection::all();
}

/// The environment of a controller.
#[derive(Clone)]
pub struct Context {
    /// For the controller's own requests, under its own identity if it has one.
    pub client: Client,
    /// The settings of all controllers.
    pub config: Arc<Config>,
    /// Ends everything.
    pub shutdown: CancellationToken,
    /// Fills the caches that all controllers share.
    reader: Client,
    caches: Arc<Caches>,
}

impl Context {
    /// A context without caches yet.
    #[must_use]
    pub fn new(client: Client, config: Config, shutdown: CancellationToken) -> Self {
        Self {
            client: client.clone(),
            config: Arc::new(config),
            shutdown,
            reader: client,
            caches: Arc::default(),
        }
    }

    /// Returns the same caches and settings for a controller with its own identity.
    pub(crate) fn with_client(&self, client: Client) -> Self {
        Self {
            client,
            ..self.clone()
        }
    }

    /// Returns the client for lists that are seldom needed and that no cache holds.
    pub(crate) const fn reader(&self) -> &Client {
        &self.reader
    }

    /// Returns an event recorder; `kubectl describe` shows `component` as the event's
    /// source.
    #[must_use]
    pub fn recorder(&self, component: &str) -> Recorder {
        Recorder::new(&self.client, component, "", Format::Core)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use http::{Request, Response};
    use serde_json::{Value, json};

    use super::*;

    /// Pods whose cache is filled by the test, from a server that never answers.
    fn pods() -> Arc<KindCache<Pod>> {
        let silent = tower::service_fn(|_: Request<control_client::RequestBody>| {
            std::future::pending::<Result<Response<control_client::RequestBody>, std::io::Error>>()
        });
        KindCache::new(&Client::in_process(silent, ()), Selection::all(), true)
    }

    fn pod(owner: Option<&str>) -> Arc<Pod> {
        let mut value: Value = json!({"metadata": {"name": "p", "namespace": "d", "uid": "p"}});
        if let Some(uid) = owner {
            value["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1",
                "kind": "ReplicaSet", "name": "o", "uid": uid, "controller": true}]);
        }
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn change(previous: Option<&Arc<Pod>>, current: &Arc<Pod>) -> Change<Pod> {
        Change {
            previous: previous.cloned(),
            current: Some(Arc::clone(current)),
        }
    }

    #[tokio::test]
    async fn pod_that_is_adopted_between_two_lookups_is_found_exactly_once() {
        // In one order it would be missed, in the other found twice.
        for order in [["o", ""], ["", "o"]] {
            let kind = pods();
            let (free, owned) = (pod(None), pod(Some("o")));
            kind.index(&change(None, &free));
            let adopt = || kind.index(&change(Some(&free), &owned));
            let found = std::thread::scope(|scope| {
                let uids = order.into_iter().enumerate().map(|(at, uid)| {
                    if at == 1 {
                        let (done, adopted) = mpsc::channel();
                        scope.spawn(move || {
                            adopt();
                            let _ = done.send(());
                        });
                        // The adoption has to wait for the lookup to end.
                        let _ = adopted.recv_timeout(Duration::from_millis(100));
                    }
                    uid
                });
                kind.owned_by_any("d", uids).len()
            });
            assert_eq!(found, 1, "{order:?}");
        }
    }
}
