//! The resource of each view.

use control_client::{Meta, Resource, View, resources};

use super::{
    AttributesClass, CertificateSigningRequest, Claim, ConfigMap, CronJob, CsiDriver, DaemonSet,
    Deployment, EndpointSlice, Endpoints, Job, Lease, Namespace, Node, Pod, PodDisruptionBudget,
    ReplicaSet, ReplicationController, ResourceClaim, ResourceSlice, Revision, Service,
    ServiceAccount, StatefulSet, StorageClass, Volume, VolumeAttachment,
};

macro_rules! views {
    ($($view:ty = $resource:ident;)*) => {
        $(impl View for $view {
            const RESOURCE: Resource = resources::$resource;
            fn meta(&self) -> &Meta {
                &self.metadata
            }
        })*
    };
}

views! {
    AttributesClass = VOLUME_ATTRIBUTES_CLASSES;
    CertificateSigningRequest = CERTIFICATE_SIGNING_REQUESTS;
    Claim = PERSISTENT_VOLUME_CLAIMS;
    ConfigMap = CONFIG_MAPS;
    CronJob = CRON_JOBS;
    CsiDriver = CSI_DRIVERS;
    DaemonSet = DAEMON_SETS;
    Deployment = DEPLOYMENTS;
    EndpointSlice = ENDPOINT_SLICES;
    Endpoints = ENDPOINTS;
    Job = JOBS;
    Lease = LEASES;
    Namespace = NAMESPACES;
    Node = NODES;
    Pod = PODS;
    PodDisruptionBudget = POD_DISRUPTION_BUDGETS;
    ReplicaSet = REPLICA_SETS;
    ResourceClaim = RESOURCE_CLAIMS;
    ResourceSlice = RESOURCE_SLICES;
    Revision = CONTROLLER_REVISIONS;
    Service = SERVICES;
    ServiceAccount = SERVICE_ACCOUNTS;
    StatefulSet = STATEFUL_SETS;
    StorageClass = STORAGE_CLASSES;
    Volume = PERSISTENT_VOLUMES;
    VolumeAttachment = VOLUME_ATTACHMENTS;
}

impl View for ReplicationController {
    const RESOURCE: Resource = resources::REPLICATION_CONTROLLERS;
    fn meta(&self) -> &Meta {
        &self.0.metadata
    }
}
