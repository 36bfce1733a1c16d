//! The commands, one file each.

pub mod apiserver;
pub mod controllers;
pub mod credentials;
pub mod debug;
pub mod demo;
pub mod node_agent;
pub mod scheduler;
pub mod server;
