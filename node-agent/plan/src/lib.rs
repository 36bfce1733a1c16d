//! Pure: snapshot of API objects in, desired datapath state and actions out.
//!
//! ```text
//! Service, EndpointSlice ──► compile ──► Desired sets ──► Planner ──► [Action]
//!                                                            ▲
//!                                  Current (what maps hold) ─┘
//! ```
//!
//! [`compile`] turns one Service and its EndpointSlices into sets of backends;
//! it alone knows what the API means. The [`Planner`] keeps what was planned,
//! so that one changed EndpointSlice costs its own endpoints and nothing else,
//! and says what to write, in an order in which every prefix is sound: new
//! slots, then the service's entry, then the removal of what nobody reads any
//! more. Starting, and after any failure, [`Planner::resync`] compares with
//! what the maps really hold.
//!
//! Nothing here does I/O, and equal input gives equal output.

mod compile;
mod current;
mod objects;
mod planner;

pub use compile::{Desired, Family, compile};
pub use current::{Action, Current};
pub use objects::{
    Affinity, AffinityConfig, ClientIp, Conditions, Endpoint, EndpointPort, EndpointSlice,
    Metadata, Service, ServicePort, ServiceSpec,
};
pub use planner::{Config, Override, Planner};
