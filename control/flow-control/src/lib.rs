//! Priority and fairness (KEP-1040) of a server: the decisions of `control-fairness`, fed with
//! requests and with the cluster's priority levels and flow schemas.
//!
//! [`Fairness`] gives seats to requests ([`Fairness::admit`]); [`follow`] keeps its rules as
//! new as the objects, of which [`mandatory`] makes those that every cluster has.

mod collect;
pub mod dangling;
mod dump;
mod fairness;
mod follow;
mod level;
pub mod mandatory;

pub use fairness::{Fairness, Rejection, Seat, SeatRequest, WatchOpening};
pub use follow::follow;
