//! Tests volumes on real file systems and loop devices.

mod crash;
mod data;
mod disk;
mod group;
mod harness;
mod mapper;
#[expect(dead_code, reason = "the test with PostgreSQL uses more of it")]
mod process;
mod sanity;
