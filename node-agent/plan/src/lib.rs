//! Pure: snapshot of API objects in, desired datapath state and actions out.
//!
//! ```text
//! Service, EndpointSlice ──► compile ──► Desired sets ──► Planner ──► [Action]
//! Pod (host ports)       ──────────────►                     ▲
//! NodeFacts              ────────────────────────────────────┤
//!                                  Current (what maps hold) ─┘
//! ```
//!
//! [`compile`] turns one Service and its EndpointSlices into sets of backends;
//! it alone knows what the API means, and [`explain`] says why an endpoint is
//! in none of them. The [`Planner`] keeps what was planned, so that one changed
//! EndpointSlice costs its Service's endpoints and nothing else, and says what
//! to write, in an order in which every prefix is sound: new slots, then the
//! service's entry, then the removal of what nobody reads any more. Starting,
//! and after any failure, [`Planner::resync`] compares with what the maps really
//! hold.
//!
//! Beside actions come a [`Problem`] for everything that an object asks for and
//! does not get, the endpoints that are [`RemovedBackends`], and what a [`HealthCheck`]
//! answers.
//!
//! Nothing here does I/O, and equal input gives equal output.

mod account;
mod compile;
mod current;
mod explain;
mod maglev;
mod name;
mod node;
mod objects;
mod planner;
mod pods;
mod problem;
mod report;
mod service;
mod slice;

pub use account::{Account, Clients, EndpointAccount, EndpointStanding, FrontAccount};
pub use compile::{DesiredSet, Family, Key, Rank, UnusedReason, compile};
pub use current::{Action, Current};
pub use explain::{EndpointPlace, EndpointUse, ExplainedEndpoint, explain};
pub use node::{BadNodePortAddresses, NodeAddress, NodeFacts, NodePortAddresses};
pub use objects::{
    Affinity, AffinityConfig, ClientIp, Conditions, Container, ContainerPort, Endpoint,
    EndpointPort, EndpointSlice, Hint, Hints, LoadBalancerIngress, LoadBalancerStatus, Metadata,
    Pod, PodIp, PodSpec, PodStatus, Service, ServicePort, ServiceSpec, ServiceStatus,
};
pub use planner::{Config, Fullness, HealthCheck, MapCapacity, Override, Planner, RemovedBackends};
pub use problem::{Front, Object, Problem, Reason};
pub use report::{
    AddressReport, EndpointReport, ObjectReport, Report, ReportSelection, SetReport, owner_of_set,
};
pub use service::ServiceState;
pub use slice::{Endpoints, NameHash, ReadEndpoint, SliceEndpoint, SliceState, parse_protocol};
