//! Who is served first when not everybody can be: API priority and fairness
//! (KEP-1040).
//!
//! A request is classified by [`FlowSchema`]s to a priority level and a flow in
//! it. Each level has seats; a request holds as many as [`estimate`] thinks its
//! work needs. Who finds no seat waits in one of the level's queues, chosen by
//! shuffle sharding ([`Dealer`]), and the queues are served by fair queuing in
//! virtual time ([`QueueSet`]). Levels lend idle seats to each other, anew every
//! ten seconds, by what each of them demanded ([`distribute`]).
//!
//! Nothing here waits or reads a clock: times come in as durations since some
//! beginning, decisions go out.

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
