//! State shared by all controllers: the client, one cache per kind, the settings.

use std::sync::{Arc, OnceLock};

use control_client::events::{Format, Recorder};
use control_client::{Client, Selection};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::kind_cache::KindCache;
use crate::pod_autoscaler::HorizontalPodAutoscaler;
use crate::selinux_warnings::LabelledPod;
use crate::views::{
    AdmissionPolicy, AttributesClass, BootstrapToken, Claim, ClusterInfo, ClusterRole, ConfigMap,
    CronJob, CsiDriver, DaemonSet, Deployment, EndpointSlice, Endpoints, IpAddress, Job, Lease,
    Namespace, Node, Pod, PodDisruptionBudget, ReplicaSet, ReplicationController, ResourceClaim,
    ResourceSlice, Revision, Service, ServiceAccount, ServiceCidr, StatefulSet, StorageClass,
    Volume, VolumeAttachment,
};
use crate::volumes::local::NodeCapacity;

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
