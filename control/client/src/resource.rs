//! The resource of a request, and a component's view of its objects.

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;

#[cfg(doc)]
use crate::identity::Identity;
use crate::meta::Meta;

/// A resource of the API: where its objects are served and their names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// API version, such as `v1`.
    pub version: Cow<'static, str>,
    /// The name in paths, such as `pods`.
    pub plural: Cow<'static, str>,
    /// The kind of its objects, such as `Pod`.
    pub kind: Cow<'static, str>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl Resource {
    /// A resource whose objects live in namespaces.
    #[must_use]
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            plural: Cow::Borrowed(plural),
            kind: Cow::Borrowed(kind),
            namespaced: true,
        }
    }

    /// A resource whose objects belong to the whole cluster.
    #[must_use]
    pub const fn cluster(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            plural: Cow::Borrowed(plural),
            kind: Cow::Borrowed(kind),
            namespaced: false,
        }
    }

    /// The `apiVersion` of its objects: `v1`, `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for Resource {
    /// `pods`, `deployments.apps`: as Kubernetes names resources in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// What a component reads of a kind.
///
/// Declare only the fields that are read: all else is skipped while parsing
/// and costs no memory (a full typed pod measured 38 KB of heap).
///
/// ```
/// use control_client::{Meta, Resource, View, resources};
/// use serde::Deserialize;
///
/// #[derive(Debug, Deserialize)]
/// struct Node {
///     metadata: Meta,
///     #[serde(default)]
///     spec: NodeSpec,
/// }
/// #[derive(Debug, Default, Deserialize)]
/// struct NodeSpec {
///     #[serde(default)]
///     unschedulable: bool,
/// }
/// impl View for Node {
///     const RESOURCE: Resource = resources::NODES;
///     fn meta(&self) -> &Meta {
///         &self.metadata
///     }
/// }
/// ```
pub trait View: DeserializeOwned + Send + Sync + 'static {
    /// The resource whose objects this is a view of.
    const RESOURCE: Resource;

    /// The object's metadata.
    fn meta(&self) -> &Meta;
}

/// The part of an object that caches need. Every [`View`] answers from its metadata; a
/// view that keeps less has an [`Identity`].
pub trait Object: DeserializeOwned + Send + Sync + 'static {
    /// The resource whose objects this is a view of.
    const RESOURCE: Resource;

    /// Its namespace; empty for cluster-scoped objects.
    fn namespace(&self) -> &str;

    /// Its name.
    fn name(&self) -> &str;

    /// The revision this was read at.
    fn resource_version(&self) -> &str;

    /// Returns whether `other` is the same object, not one that was deleted and created
    /// again.
    fn has_uid_of(&self, other: &Self) -> bool;

    /// The revision as a number, for comparing (KEP-5504); `None` when the server's
    /// are not numbers.
    fn revision(&self) -> Option<u64> {
        self.resource_version().parse().ok()
    }
}

impl<V: View> Object for V {
    const RESOURCE: Resource = <V as View>::RESOURCE;

    fn namespace(&self) -> &str {
        &self.meta().namespace
    }

    fn name(&self) -> &str {
        &self.meta().name
    }

    fn resource_version(&self) -> &str {
        &self.meta().resource_version
    }

    fn has_uid_of(&self, other: &Self) -> bool {
        self.meta().uid == other.meta().uid
    }
}

/// The resources that Orlop's own components read and write.
pub mod resources {
    use super::Resource;

    macro_rules! resources {
        ($($(#[$doc:meta])* $name:ident = $scope:ident($group:literal, $version:literal, $plural:literal, $kind:literal);)*) => {
            $($(#[$doc])* pub const $name: Resource = Resource::$scope($group, $version, $plural, $kind);)*
        };
    }

    resources! {
        /// `v1` ConfigMap.
        CONFIG_MAPS = namespaced("", "v1", "configmaps", "ConfigMap");
        /// `v1` Endpoints.
        ENDPOINTS = namespaced("", "v1", "endpoints", "Endpoints");
        /// `v1` Event.
        EVENTS = namespaced("", "v1", "events", "Event");
        /// `v1` Namespace.
        NAMESPACES = cluster("", "v1", "namespaces", "Namespace");
        /// `v1` Node.
        NODES = cluster("", "v1", "nodes", "Node");
        /// `v1` PersistentVolumeClaim.
        PERSISTENT_VOLUME_CLAIMS = namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim");
        /// `v1` PersistentVolume.
        PERSISTENT_VOLUMES = cluster("", "v1", "persistentvolumes", "PersistentVolume");
        /// `v1` Pod.
        PODS = namespaced("", "v1", "pods", "Pod");
        /// `v1` ReplicationController.
        REPLICATION_CONTROLLERS = namespaced("", "v1", "replicationcontrollers", "ReplicationController");
        /// `v1` ResourceQuota.
        RESOURCE_QUOTAS = namespaced("", "v1", "resourcequotas", "ResourceQuota");
        /// `v1` Secret.
        SECRETS = namespaced("", "v1", "secrets", "Secret");
        /// `v1` ServiceAccount.
        SERVICE_ACCOUNTS = namespaced("", "v1", "serviceaccounts", "ServiceAccount");
        /// `v1` Service.
        SERVICES = namespaced("", "v1", "services", "Service");
        /// `apps/v1` ControllerRevision.
        CONTROLLER_REVISIONS = namespaced("apps", "v1", "controllerrevisions", "ControllerRevision");
        /// `apps/v1` DaemonSet.
        DAEMON_SETS = namespaced("apps", "v1", "daemonsets", "DaemonSet");
        /// `apps/v1` Deployment.
        DEPLOYMENTS = namespaced("apps", "v1", "deployments", "Deployment");
        /// `apps/v1` ReplicaSet.
        REPLICA_SETS = namespaced("apps", "v1", "replicasets", "ReplicaSet");
        /// `apps/v1` StatefulSet.
        STATEFUL_SETS = namespaced("apps", "v1", "statefulsets", "StatefulSet");
        /// `batch/v1` CronJob.
        CRON_JOBS = namespaced("batch", "v1", "cronjobs", "CronJob");
        /// `batch/v1` Job.
        JOBS = namespaced("batch", "v1", "jobs", "Job");
        /// `certificates.k8s.io/v1` CertificateSigningRequest.
        CERTIFICATE_SIGNING_REQUESTS = cluster("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest");
        /// `coordination.k8s.io/v1` Lease.
        LEASES = namespaced("coordination.k8s.io", "v1", "leases", "Lease");
        /// `discovery.k8s.io/v1` EndpointSlice.
        ENDPOINT_SLICES = namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice");
        /// `events.k8s.io/v1` Event.
        EVENTS_V1 = namespaced("events.k8s.io", "v1", "events", "Event");
        /// `networking.k8s.io/v1` NetworkPolicy.
        NETWORK_POLICIES = namespaced("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy");
        /// `policy/v1` PodDisruptionBudget.
        POD_DISRUPTION_BUDGETS = namespaced("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget");
        /// `scheduling.k8s.io/v1alpha2` PodGroup.
        POD_GROUPS = namespaced("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup");
        /// `scheduling.k8s.io/v1` PriorityClass.
        PRIORITY_CLASSES = cluster("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass");
        /// `node.k8s.io/v1` RuntimeClass.
        RUNTIME_CLASSES = cluster("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass");
        /// `storage.k8s.io/v1` StorageClass.
        STORAGE_CLASSES = cluster("storage.k8s.io", "v1", "storageclasses", "StorageClass");
        /// `storage.k8s.io/v1` CSIDriver.
        CSI_DRIVERS = cluster("storage.k8s.io", "v1", "csidrivers", "CSIDriver");
        /// `storage.k8s.io/v1` VolumeAttachment.
        VOLUME_ATTACHMENTS = cluster("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment");
        /// `storage.k8s.io/v1` VolumeAttributesClass.
        VOLUME_ATTRIBUTES_CLASSES = cluster("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass");
        /// `resource.k8s.io/v1` ResourceClaim.
        RESOURCE_CLAIMS = namespaced("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim");
        /// `resource.k8s.io/v1` ResourceSlice.
        RESOURCE_SLICES = cluster("resource.k8s.io", "v1", "resourceslices", "ResourceSlice");
        /// `resource.k8s.io/v1` ResourceClaimTemplate.
        RESOURCE_CLAIM_TEMPLATES = namespaced("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_display_as_kubernetes_names_them() {
        assert_eq!(resources::PODS.to_string(), "pods");
        assert_eq!(resources::DEPLOYMENTS.to_string(), "deployments.apps");
        assert_eq!(resources::PODS.api_version(), "v1");
        assert_eq!(resources::LEASES.api_version(), "coordination.k8s.io/v1");
    }
}
