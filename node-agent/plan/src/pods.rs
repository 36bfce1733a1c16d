//! Host ports of this node's Pods: the datapath of `containers[].ports[].hostPort`.

use std::net::IpAddr;

use ebpf_abi::{Address, Backend, BackendFlags, Port, Protocol, ServiceFlags, ServiceKey};
use smallvec::SmallVec;

use crate::compile::{DesiredSet, Family, Key, Rank, is_unicast};
use crate::name;
use crate::objects::Pod;
use crate::problem::Reason;
use crate::service::created;
use crate::slice::{parse_port, parse_protocol};

/// The part of a Pod that matters here, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodState {
    pub(crate) created: u64,
    addresses: SmallVec<[Address; 2]>,
    ports: Vec<HostPort>,
    pub(crate) problems: Vec<Reason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HostPort {
    /// Unspecified: all of the node's, in every family.
    at: Option<Address>,
    host_port: u16,
    protocol: Protocol,
    port: u16,
}

impl PodState {
    /// Returns `None` for pods without own host ports: those in the node's network
    /// namespace, those without an address yet, and terminated ones.
    pub(crate) fn from_pod(pod: &Pod) -> Option<Self> {
        let over = matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
        if pod.spec.host_network || over {
            return None;
        }
        let mut problems = Vec::new();
        let containers = pod.spec.init_containers.iter().chain(&pod.spec.containers);
        let wanted = containers
            .flat_map(|container| &container.ports)
            .filter_map(|port| Some((port, port.host_port.filter(|it| *it != 0)?)));
        let mut ports: Vec<HostPort> = Vec::new();
        for (port, host_port) in wanted {
            let at = match port.host_ip.as_deref().map(str::trim) {
                None | Some("") => Ok(None),
                Some(text) => match text.parse::<IpAddr>() {
                    Ok(address) if address.is_unspecified() => Ok(None),
                    Ok(address) if is_unicast(address) || address.is_loopback() => {
                        Ok(Some(Address::from(address)))
                    }
                    _ => Err(Reason::BadAddress {
                        field: "hostIP",
                        text: text.into(),
                    }),
                },
            };
            let numbers = parse_port(host_port)
                .zip(parse_port(port.container_port))
                .zip(parse_protocol(port.protocol.as_deref()))
                .ok_or_else(|| Reason::BadPort {
                    port: host_port.to_string().into(),
                });
            match at.and_then(|at| Ok((at, numbers?))) {
                Ok((at, ((host_port, port), protocol))) => {
                    let same = |it: &HostPort| {
                        (it.at, it.host_port, it.protocol) == (at, host_port, protocol)
                    };
                    if !ports.iter().any(same) {
                        ports.push(HostPort {
                            at,
                            host_port,
                            protocol,
                            port,
                        });
                    }
                }
                Err(reason) => problems.push(reason),
            }
        }
        let addresses: SmallVec<[Address; 2]> = pod
            .status
            .pod_ips
            .iter()
            .filter_map(|it| it.ip.parse().ok())
            .filter(|address| is_unicast(*address))
            .map(Address::from)
            .collect();
        if addresses.is_empty() || (ports.is_empty() && problems.is_empty()) {
            return None;
        }
        Some(Self {
            created: created(&pod.metadata),
            addresses,
            ports,
            problems,
        })
    }

    pub(crate) fn sets(&self, prefix: &str) -> Vec<DesiredSet> {
        let mut sets = Vec::with_capacity(self.ports.len() * self.addresses.len());
        for it in &self.ports {
            for address in &self.addresses {
                let family = Family::of_address(*address);
                let at = it.at.unwrap_or_else(|| family.wildcard());
                if Family::of_address(at) != family {
                    continue;
                }
                let (host_port, protocol) = (it.host_port, it.protocol);
                let place = if it.at.is_some() {
                    format!(" at {at}")
                } else {
                    String::new()
                };
                sets.push(DesiredSet {
                    // No namespace has such a name.
                    name: name::fit(format!(
                        "(pod) {prefix}:{host_port} {protocol} {family}{place}"
                    )),
                    keys: vec![Key {
                        key: ServiceKey::internal(at, Port::new(host_port), protocol),
                        flags: ServiceFlags::NONE,
                        rank: Rank::HostPort,
                    }],
                    flags: ServiceFlags::NONE,
                    affinity_seconds: 0,
                    table: 0,
                    sources: Vec::new(),
                    backends: vec![Backend::new(
                        *address,
                        Port::new(it.port),
                        BackendFlags::LOCAL,
                    )],
                    missing: 0,
                });
            }
        }
        sets
    }
}
