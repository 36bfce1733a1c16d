//! Migration from another implementation of Services to Orlop, and back.

pub mod install;
pub mod metallb;
pub mod plan;
