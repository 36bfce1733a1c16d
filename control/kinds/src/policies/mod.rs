//! Evaluation of admission policies: `ValidatingAdmissionPolicy` (KEP-3488),
//! `MutatingAdmissionPolicy` (KEP-3962) and the match conditions that they share with
//! webhooks (KEP-3716).
//!
//! A policy is compiled once. Requests are passed as [`Facts`], which borrow their trees:
//! nothing is converted. The matching of policies, requests and parameters is done
//! elsewhere.

mod common;
mod conditions;
mod facts;
mod mutating;
mod scope;
pub mod types;
mod validating;

pub use conditions::{Conditions, MatchResult};
pub use control_cel::{Authorizer, Decision, Question, Schema};
pub use facts::Facts;
pub use mutating::{MutatingPolicy, Mutation, MutationError};
pub use validating::{Annotation, Cause, Finding, Note, ValidatingPolicy, Verdict};

#[cfg(test)]
mod tests;
