//! The generic handlers, one file per verb. Every kind takes this one path;
//! what is particular to a kind is asked of [`control_kinds::Kind`].

pub mod create;
pub mod delete;
pub mod deletecollection;
pub mod get;
pub mod list;
pub mod patch;
pub mod patches;
pub mod update;
pub mod watch;
