//! One pod: what is wanted, what is there, what to do.
//!
//! `next` decides and `status` reports, both pure; `worker` drives them over a
//! pod's `state`, `execute` and `kill` do what was decided.

mod actuate;
mod admission;
pub mod admit;
pub mod allocation;
pub mod argument_expansion;
pub mod atomic_file;
pub mod backoff;
pub mod cgroup;
pub mod cgroup_names;
mod cleanup;
pub mod conditions;
pub mod config;
pub mod credentials;
mod definition;
pub mod dns;
pub mod env;
pub mod env_file;
pub mod execute;
pub mod fields;
pub mod hooks;
mod http_get;
pub mod hugepages;
pub mod images;
mod keep_volumes;
pub mod kill;
pub mod limits;
mod live_status;
pub mod next;
pub mod observe;
pub mod observed;
pub mod pod_level_resources;
pub mod probe;
mod probe_responder;
pub mod providers;
pub mod pulls;
pub mod qos;
pub mod quantity;
pub mod report;
pub mod resize;
pub mod restarts;
mod sandbox;
pub mod slices;
mod state;
pub mod status;
pub mod times;
pub mod userns;
pub mod worker;
