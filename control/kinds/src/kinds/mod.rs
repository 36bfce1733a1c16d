//! One file per kind, all of one shape: a `static KIND`.

use crate::Kind;

mod admission_policy;
mod admission_policy_binding;
mod api_service;
mod certificate_signing_request;
mod component_status;
mod config_map;
mod controller_revision;
mod cron_job;
mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod custom_resource_definition;
mod daemon_set;
mod deployment;
mod device_class;
mod endpoint_slice;
mod endpoints;
mod event;
mod flow_schema;
pub(crate) mod horizontal_pod_autoscaler;
mod ingress;
mod ingress_class;
mod ip_address;
mod job;
mod lease;
mod limit_range;
mod namespace;
mod network_policy;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_disruption_budget;
mod pod_template;
mod priority_class;
mod priority_level_configuration;
mod replica_set;
mod replication_controller;
mod resource_claim;
mod resource_quota;
mod resource_slice;
mod role;
mod role_binding;
mod runtime_class;
mod secret;
mod service;
mod service_account;
mod service_cidr;
mod stateful_set;
mod storage_class;
mod volume_attachment;
mod volume_attributes_class;
mod webhook_configuration;

/// Every kind that has something particular.
pub(crate) static ALL: &[&Kind] = &[
    &pod::KIND,
    &config_map::KIND,
    &component_status::KIND,
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
    &event::CORE_EVENT,
    &event::NEW_EVENT,
    &lease::KIND,
    &limit_range::KIND,
    &resource_quota::KIND,
    &role::ROLE,
    &role::CLUSTER_ROLE,
    &role_binding::ROLE_BINDING,
    &role_binding::CLUSTER_ROLE_BINDING,
    &priority_class::KIND,
    &runtime_class::KIND,
    &pod_disruption_budget::KIND,
    &csi_driver::KIND,
    &csi_node::KIND,
    &csi_storage_capacity::KIND,
    &persistent_volume::KIND,
    &storage_class::KIND,
    &volume_attachment::KIND,
    &volume_attributes_class::KIND,
    &network_policy::KIND,
    &ingress::KIND,
    &ingress_class::KIND,
    &ip_address::KIND,
    &service_cidr::KIND,
    &webhook_configuration::VALIDATING,
    &webhook_configuration::MUTATING,
    &admission_policy::VALIDATING,
    &admission_policy::MUTATING,
    &admission_policy_binding::VALIDATING,
    &admission_policy_binding::MUTATING,
    &horizontal_pod_autoscaler::KIND,
    &flow_schema::KIND,
    &priority_level_configuration::KIND,
    &api_service::KIND,
    &certificate_signing_request::KIND,
    &device_class::KIND,
    &resource_claim::CLAIM,
    &resource_claim::TEMPLATE,
    &resource_slice::KIND,
    &custom_resource_definition::KIND,
];
