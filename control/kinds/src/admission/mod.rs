//! The pure part of admission: how a request's object is changed, and why it is rejected,
//! given the other objects that the rule needs. The API server finds those objects, keeps
//! the order of the steps, and adds the standard prefix (`pods "x" is forbidden: …`) to
//! the reasons returned here.
//!
//! The steps are those of Kubernetes 1.36, in its order: first all that change the
//! object, then, after the kind's own validation, all that only check it. The API server
//! decides which of them are enabled.

mod claims;
mod classes;
mod extended;
mod external_ips;
mod limits;
mod local_volumes;
mod node_identity;
mod node_restriction;
mod node_selector;
mod nodes;
mod priority;
mod pull;
mod refusal;
mod resize;
mod runtime_class;
mod secrets;
mod toleration_limits;
mod tolerations;
mod topology;

pub use claims::{check_growth, growing_claim_class};
pub use classes::{default_ingress_class, default_storage_class, protect_from_deletion};
pub use extended::tolerate_extended_resources;
pub use external_ips::check_external_ips;
pub use limits::{check_limits, default_limits};
pub use local_volumes::{
    is_volume_of_node, node_changes_volume, node_deletes_volume, node_gives_claim_back,
    node_makes_volume, node_publishes_capacity, node_reports_volume_of_claim,
};
pub use node_identity::{
    IP_POOLS, JOINED_FROM, NodeAddresses, ReservedAddresses, SERVING_NAMES, adds_pod_addresses,
    joined_from, listed, node_keeps_its_bounds, node_publishes_slice, node_reports_addresses,
    node_reports_pod_addresses, pool_ranges, reports_new_addresses,
};
pub use node_restriction::{
    node_ends_pod, node_makes_pod, node_reports_claim, node_reports_pod, node_writes_node,
};
pub use node_selector::{
    NODE_SELECTOR, NodeSelectorError, check_node_selector, read_node_selector, select_nodes,
};
pub use nodes::{taint_new_node, topology_labels};
pub use priority::{Priority, assign_priority, global_default, keep_priority};
pub use pull::{always_pull, check_always_pull};
pub use refusal::Refusal;
pub use resize::{ResizeRefusal, check_features, check_resize, features_for_update};
pub use runtime_class::{apply_runtime_class, check_runtime_class};
pub use secrets::{check_ephemeral_secrets, check_secrets, limits_secrets};
pub use toleration_limits::{
    ALLOWED_TOLERATIONS, DEFAULT_TOLERATIONS, TolerationsError, add_tolerations, check_tolerations,
    read_tolerations,
};
pub use tolerations::{Stay, default_tolerations};
pub use topology::check_anti_affinity;
