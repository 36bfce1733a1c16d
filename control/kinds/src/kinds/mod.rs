//! One file per kind, all of one shape: a `static KIND`.

use crate::Kind;

mod config_map;
mod controller_revision;
mod cron_job;
mod daemon_set;
mod deployment;
mod endpoint_slice;
mod endpoints;
mod job;
mod namespace;
mod node;
mod persistent_volume_claim;
mod pod;
mod pod_template;
mod replica_set;
mod replication_controller;
mod secret;
mod service;
mod service_account;
mod stateful_set;

/// Every kind that has something particular.
pub(crate) static ALL: &[&Kind] = &[
    &pod::KIND,
    &config_map::KIND,
    &secret::KIND,
    &service::KIND,
    &endpoint_slice::KIND,
    &node::KIND,
    &namespace::KIND,
    &service_account::KIND,
    &deployment::KIND,
    &replica_set::KIND,
    &stateful_set::KIND,
    &daemon_set::KIND,
    &job::KIND,
    &cron_job::KIND,
    &endpoints::KIND,
    &persistent_volume_claim::KIND,
    &pod_template::KIND,
    &replication_controller::KIND,
    &controller_revision::KIND,
];
