//! Block devices: loop devices, encryption, wiping.

pub mod block;
pub mod key_manager;
pub mod loop_device;
pub mod luks;
mod xfs_handle;
