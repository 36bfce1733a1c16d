//! Volumes: where the volumes of a pod's claims can be reached, attached and provisioned.
//!
//! ```text
//! catalog ──events──▶ index ─┐
//!                  assumed ──┼─▶ State::prepare(pod) ─▶ nodes rejected, by plugin
//!                 snapshot ──┘            └─▶ reserve(node) ─▶ Reservation
//!                                              assumed at once, written by prebind
//! ```
//!
//! Four of kube-scheduler's plugins share one evaluation of the pod's claims:
//! VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone. Pods without
//! volumes pay for one comparison.

mod binding;
mod claims;
mod hints;
mod index;
mod limits;
pub mod migration;
mod nodes;
mod plugins;
mod prebind;
mod reservation;
mod restrictions;
mod state;
mod usage;
mod zone;

pub use index::VolumeIndex;
pub(crate) use plugins::{NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone};
pub(crate) use prebind::prebind;
pub use prebind::{BindingFailure, VolumePreBindError};
pub use reservation::{AssumedVolumes, StaticBinding, VolumeReservation};
pub use state::VolumeState;
pub use usage::VolumeUsage;

#[cfg(test)]
mod reference_tests;
