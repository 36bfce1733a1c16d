//! Removed UDP backends, whose connected clients would wait in vain.

use std::net::SocketAddr;

use ebpf_abi::{Protocol, ServiceKey};

use crate::compile::Datagrams;

/// UDP backends that left a Service; sockets connected to them have to be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedBackends {
    /// The destinations of clients. A socket that reached the backend by another one is
    /// not affected.
    pub keys: Vec<ServiceKey>,
    /// Always UDP: TCP connections are left to end by themselves.
    pub protocol: Protocol,
    /// The backends.
    pub backends: Vec<SocketAddr>,
}

/// Records backends that no longer exist, port by port.
pub(super) fn note_gone(former: &[Datagrams], now: &[Datagrams], gone: &mut Vec<RemovedBackends>) {
    for (place, old) in former.iter().enumerate() {
        // A port is identified by any of its keys; usually it is in the same place.
        let is_same = |new: &&Datagrams| new.keys.iter().any(|key| old.keys.contains(key));
        let same = now
            .get(place)
            .filter(is_same)
            .or_else(|| now.iter().find(is_same));
        let serving = same.map(|new| new.serving.as_slice()).unwrap_or_default();
        let backends: Vec<_> = old
            .serving
            .iter()
            .filter(|it| serving.binary_search(it).is_err())
            .map(|(address, port)| SocketAddr::new((*address).into(), *port))
            .collect();
        if !backends.is_empty() {
            gone.push(RemovedBackends {
                keys: old.keys.clone(),
                protocol: Protocol::UDP,
                backends,
            });
        }
    }
}
