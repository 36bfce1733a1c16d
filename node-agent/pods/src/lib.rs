//! The kubelet's duties: CRI, probes, volumes, status, serving API.

pub mod cri;
pub mod objects;
pub mod pod;
pub mod shared;
mod tls;
pub mod volumes;
