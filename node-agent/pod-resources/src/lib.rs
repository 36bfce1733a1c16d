//! What pods ask for of CPU, memory and huge pages, decided by pure functions: their class
//! ([`qos`]), what all of a pod has ([`pod_level_resources`]), whether it may change
//! ([`resize`]), and in which control group it runs ([`cgroup_names`]).

pub mod cgroup_names;
pub mod cpuset;
pub mod hugepages;
pub mod pod_level_resources;
pub mod qos;
pub mod resize;
