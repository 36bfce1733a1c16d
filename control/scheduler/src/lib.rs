//! The scheduler: which node a pod runs on.
//!
//! ```text
//! pods, nodes ──watch──▶ Snapshot ──▶ place(snapshot, pod) ──▶ binding (async)
//!                  └──▶ Queue ─────────────▲      └─ fits nowhere: event,
//!                                                    condition, wait
//! ```
//!
//! One task owns queue and snapshot. [`place()`] is pure. What was decided is
//! *assumed* at once, so that the next pod sees it, and bound in the
//! background with many bindings under way; a binding that fails takes the
//! assumption back. Pods that fit nowhere wait for a change that may help
//! them, and are tried again after a back-off.
//!
//! Plugins keep the names, order, weights and semantics of kube-scheduler's
//! default profile; each is one small file in `plugins/`.

pub mod bits;
pub mod place;
pub mod plugins;
pub mod prefilter;
pub mod queue;
mod run;
pub mod selector;
pub mod snapshot;
pub mod view;

pub use place::{Decision, Diagnosis, Placer, place};
pub use run::{Config, Error, run};
pub use snapshot::Snapshot;
