//! Devices: allocation of devices to the claims of pods (kube-scheduler's DynamicResources).
//!
//! ```text
//! catalog events ──▶ Assumed (inventory, devices in use) ◀── reserve, unreserve
//!                       │
//!                    State: claims of one pod ──▶ filter, score ──▶ Reservation ──▶ prebind
//! ```
//!
//! The search for devices is `control-devices`; what is here looks up claims, keeps the
//! books, and writes.

mod claims;
mod dynamic_resources;
mod extended;
mod post_filter;
mod prebind;
mod reservation;
mod search;
mod state;
mod unreserve;
mod wait;

use crate::snapshot::Wake;

pub(crate) use dynamic_resources::DynamicResources;
pub use post_filter::Deallocation;
pub use prebind::ClaimPreBindError;
pub(crate) use prebind::prebind;
pub use reservation::{AssumedDevices, DeviceReservation};
pub use state::DeviceState;
pub(crate) use unreserve::unreserve;

/// Changes that may help a pod which the plugin rejected.
const WAKES: Wake = Wake::NODE_ADDED
    .and(Wake::NODE_LABELS)
    .and(Wake::NODE_ALLOCATABLE)
    .and(Wake::RESOURCE_CLAIM)
    .and(Wake::DEVICE_CLASS)
    .and(Wake::RESOURCE_SLICE)
    .and(Wake::POD_ITSELF);
