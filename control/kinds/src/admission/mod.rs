//! The pure part of admission: what a request's object gets, and why it is
//! refused, given the other objects that the rule looks at. The API server finds
//! those objects, keeps the order of the steps, and words the answer
//! (`pods "x" is forbidden: …`) around the reasons given here.
//!
//! The steps are those that Kubernetes 1.36 turns on by default, in its order:
//! first all that change the object, then, after the kind's own validation, all
//! that only look at it.

mod claims;
mod classes;
mod limits;
mod node_restriction;
mod nodes;
mod priority;
mod resize;
mod runtime_class;
mod secrets;
mod tolerations;

pub use claims::{check_growth, growing_claim_class};
pub use classes::{default_ingress_class, default_storage_class, protect_from_deletion};
pub use limits::{check_limits, default_limits};
pub use node_restriction::{
    node_ends_pod, node_makes_pod, node_reports_claim, node_reports_pod, node_writes_node,
};
pub use nodes::{taint_new_node, topology_labels};
pub use priority::{Priority, assign_priority, global_default, keep_priority};
pub use resize::{ResizeRefusal, check_features, check_resize, features_for_update};
pub use runtime_class::{apply_runtime_class, check_runtime_class};
pub use secrets::{check_ephemeral_secrets, check_secrets, limits_secrets};
pub use tolerations::default_tolerations;

/// Why a request is refused: what follows `is forbidden: ` in the answer.
pub type Refusal = String;
