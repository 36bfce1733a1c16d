//! The commands, one file each.

pub mod agent;
pub mod apiserver;
pub mod certs;
pub mod config;
pub mod conntrack;
pub mod controllers;
pub mod credentials;
pub mod debug;
pub mod demo;
pub mod encryption;
pub mod explain;
pub mod flows;
pub mod load_balancer;
pub mod node_agent;
pub mod policy;
pub mod reset;
pub mod scheduler;
pub mod server;
pub mod service_options;
pub mod services;
pub mod simulate;
pub mod token;
pub mod trace;
pub mod up;
pub mod volumes;
pub mod why;
