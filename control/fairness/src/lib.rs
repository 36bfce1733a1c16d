//! API priority and fairness (KEP-1040): decides which requests are served first under
//! overload.
//!
//! [`FlowSchema`]s classify a request to a priority level and a flow within it. Each
//! level has seats; a request holds as many as [`estimate`] expects its work to need. A
//! request that finds no seat waits in one of the level's queues, chosen by shuffle
//! sharding ([`Dealer`]), and the queues are served by fair queuing in virtual time
//! ([`QueueSet`]). Levels lend idle seats to each other, redistributed every ten seconds
//! by their demand ([`distribute`]).
//!
//! Nothing here waits or reads a clock: times are passed as durations since some origin,
//! and decisions are returned.

mod demand;
pub mod estimate;
mod level;
mod queues;
mod retry_after;
mod schema;
mod shares;
mod shuffle;
mod watchers;
mod work;

pub use demand::{Demand, Integral, Integrator};
pub use estimate::Estimate;
pub use level::{Discipline, LevelSpec, QueueingSettings, SpecError};
pub use queues::{
    Arrival, FlowStats, Id, QueueSet, QueueView, Reason, RequestView, Start, Totals, Waiter,
};
pub use retry_after::RetryAfter;
pub use schema::{Digest, Distinguisher, FlowSchema};
pub use shares::{Claim, LevelShares, Limits, distribute, limits};
pub use shuffle::{Dealer, flow_hash};
pub use watchers::Watchers;
pub use work::SeatSeconds;
