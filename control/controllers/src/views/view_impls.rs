//! Which resource each view is of.

use control_client::{Meta, Resource, View, resources};

use super::{
    CertificateSigningRequest, ConfigMap, CronJob, DaemonSet, Deployment, EndpointSlice, Endpoints,
    Job, Lease, Namespace, Node, Pod, PodDisruptionBudget, ReplicaSet, ReplicationController,
    Revision, Service, ServiceAccount, StatefulSet,
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
    CertificateSigningRequest = CERTIFICATE_SIGNING_REQUESTS;
    ConfigMap = CONFIG_MAPS;
    CronJob = CRON_JOBS;
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
    Revision = CONTROLLER_REVISIONS;
    Service = SERVICES;
    ServiceAccount = SERVICE_ACCOUNTS;
    StatefulSet = STATEFUL_SETS;
}

impl View for ReplicationController {
    const RESOURCE: Resource = resources::REPLICATION_CONTROLLERS;
    fn meta(&self) -> &Meta {
        &self.0.metadata
    }
}
