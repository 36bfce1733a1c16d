//! Decisions about requests: pure functions, without I/O.

pub mod access;
pub mod io_limits;
pub mod mount_options;
pub mod pages;
pub mod size;
pub mod topology;
