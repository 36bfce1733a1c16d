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

pub(crate) use dynamic_resources::DynamicResources;
pub use post_filter::Deallocation;
pub use prebind::ClaimPreBindError;
pub(crate) use prebind::prebind;
pub use reservation::{AssumedDevices, DeviceReservation};
pub use state::DeviceState;
pub(crate) use unreserve::unreserve;
