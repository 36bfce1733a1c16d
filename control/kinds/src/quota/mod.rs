//! Quotas: limits for the sum over a namespace.
//!
//! [`usage`] measures an object, [`assess`] computes the charge of a request on the
//! quotas of its namespace, [`pay`] adds it to one quota unless that exceeds the limit,
//! and [`recount`] counts from scratch. [`count_unknown`] counts what the status of a new
//! quota lacks. All are pure; callers that store the result of [`pay`] with a
//! precondition on the revision never exceed a quota.
//!
//! Each kind that is measured by more than its number is one file
//! (<https://kubernetes.io/docs/concepts/policy/resource-quotas/>).

mod amount;
mod claims;
mod decide;
mod devices;
mod limits;
mod measure;
mod pods;
mod recount;
mod scope_selector;
mod scopes;
mod services;
mod tracked;
mod unknown;

pub use amount::{Amount, Usage};
pub use decide::{Charge, Unpaid, assess, pay};
pub use limits::{Limit, Limits};
pub use measure::{Classes, Request};
pub(crate) use pods::qos_class;
pub(crate) use pods::requests_of;
pub use recount::{CountedObjects, next_change, recount};
pub use tracked::{counted, tracks, usage};
pub use unknown::{count_unknown, fill_unknown, is_usage_unknown};

#[cfg(test)]
mod tests;
