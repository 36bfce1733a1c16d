//! UDP backends that went: what is connected to them waits in vain.

use std::net::SocketAddr;

use ebpf_abi::{Protocol, ServiceKey};

use crate::compile::Datagrams;

/// UDP backends that left a Service; sockets connected to them have to be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedBackends {
    /// What clients addressed. A socket that reached the backend otherwise is
    /// not concerned.
    pub keys: Vec<ServiceKey>,
    /// Always UDP: TCP connections are left to end by themselves.
    pub protocol: Protocol,
    /// The backends.
    pub backends: Vec<SocketAddr>,
}

/// What was there and is there no more, port by port.
pub(super) fn note_gone(former: &[Datagrams], now: &[Datagrams], gone: &mut Vec<RemovedBackends>) {
    for (place, old) in former.iter().enumerate() {
        // A port is found again by any of its keys; mostly it stands where it
        // stood.
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
