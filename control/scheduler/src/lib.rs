//! The scheduler: chooses the node for a pod.
//!
//! ```text
//! pods, nodes ──watch──▶ Snapshot ┐
//! claims, budgets … ───▶ Catalog  ├▶ Cluster ─▶ place(cluster, pod) ─▶ reserve, prebind,
//! reservations ────────▶ Assumed  ┘      ▲        │                    bind (async)
//!          └─ events ──▶ Queue ──────────┘        └ fits nowhere: preempt, event,
//!                                                   condition, wait
//! ```
//!
//! One task owns queue and cluster. [`place()`] decides only from the cluster's contents,
//! and so do [`Placer::preempt`] and [`explain()`]. A decision is *assumed* immediately,
//! so that the next pod sees it, and bound in the background with many bindings in
//! flight; a binding that fails reverts the assumption. Pods that fit nowhere wait for an
//! event that may help according to a plugin which rejected them ([`event`]), and are
//! tried again after a back-off.
//!
//! With the feature gate `GenericWorkload`, pods of one PodGroup are decided together,
//! and are bound together or not at all ([`gangs`]).
//!
//! Plugins keep the names, order, weights and semantics of kube-scheduler's default
//! profile; each is one small file in `plugins/`, `volumes/` or `devices/`. A profile of
//! a [configuration](config) selects and arranges them.

pub mod bits;
pub mod catalog;
pub mod cluster;
pub mod config;
pub mod devices;
mod eligible_nodes;
pub mod event;
mod evict;
pub mod explain;
pub mod extender;
pub mod features;
pub mod gangs;
pub mod groups;
mod hypothesis;
pub mod metrics;
pub mod nominations;
pub mod objects;
pub mod outcome;
pub mod place;
pub mod plugins;
mod pre_binder;
pub mod prebind;
pub mod preempt;
pub mod queue;
pub mod relations;
pub mod reserve;
mod run;
pub mod selector;
mod shortcut;
pub mod snapshot;
pub mod unmet;
pub mod view;
pub mod volumes;
mod wake;

pub use catalog::Catalog;
pub use cluster::Cluster;
pub use explain::{Explanation, explain};
pub use features::Features;
pub use outcome::PodOutcome;
pub use place::{Decision, Diagnosis, Placer, place};
pub use plugins::Profile;
pub use preempt::{NoPreemption, Preemption};
pub use run::{Config, run};
pub use snapshot::Snapshot;
