//! Lean views: the fields of each kind that some controller reads.
//!
//! All controllers share one cache per kind, so a view is the union of what they need.
//! Other fields are dropped while decoding; so writes are patches, and a view is never
//! sent back.

mod admission_policy;
mod batch;
mod bootstrap;
mod certificate;
mod cluster;
mod cluster_role;
mod common;
mod device;
mod network;
mod node;
mod pod;
mod service_cidr;
mod storage;
mod view_impls;
mod workload;

pub use admission_policy::AdmissionPolicy;
pub use batch::{CronJob, CronJobStatus, Job, JobCondition, JobSpec, JobStatus, UncountedPods};
pub use bootstrap::{BootstrapToken, ClusterInfo};
pub use certificate::{CertificateSigningRequest, RequestSpec, RequestStatus};
pub use cluster::{ConfigMap, Namespace, ServiceAccount};
pub use cluster_role::{AggregationRule, ClusterRole};
pub use common::{Condition, IntOrString, LabelSelector, Requirement, Text, seconds_now, upsert};
pub(crate) use common::{is_present, null_as_default};
pub use device::{AllocatedDevice, Consumer, ResourceClaim, ResourceSlice};
pub use network::{
    ConditionsOfEndpoint, Endpoint, EndpointAddress, EndpointPort, EndpointSlice, EndpointSubset,
    Endpoints, HintName, Hints, Service, ServicePort, ServiceSpec, TargetRef,
};
pub use node::{Lease, Node, NodeAddress, Taint};
pub(crate) use pod::deletion_order as pod_deletion_order;
pub use pod::{ContainerStatus, Phase, Pod, PodPort, PodResourceClaim, PodVolume, Toleration};
pub(crate) use service_cidr::SERVICE_CIDR_FINALIZER;
pub use service_cidr::{CidrCondition, IpAddress, ServiceCidr};
pub use storage::{
    AttributesClass, Capacity, Claim, ClaimRef, ClaimStatus, CsiDriver, CsiSource, DataSource,
    IscsiSource, StorageClass, Volume, VolumeAttachment,
};
pub(crate) use workload::POD_TEMPLATE_HASH;
pub use workload::{
    ClaimRetention, DaemonSet, DaemonSetStatus, Deployment, DeploymentSpec, DeploymentStatus,
    PodDisruptionBudget, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus, ReplicationController,
    Revision, RollingUpdate, StatefulSet, StatefulSetStatus, Strategy, Template,
};
