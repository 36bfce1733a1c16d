//! Volumes on real file systems and loop devices.

mod crash;
mod data;
mod disk;
mod harness;
mod mapper;
mod process;
mod sanity;
