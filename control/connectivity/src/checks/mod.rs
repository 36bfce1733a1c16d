//! The checks, one file per group. Each is a function of the cluster's topology.

use crate::{
    check::{Check, Client, Group, Step},
    operation::{DatagramSize, Expectation, ExpectedServers, Operation},
    topology::{Family, Topology},
};

mod dns;
mod egress;
mod hosts;
mod mtu;
mod node_ports;
mod pods;
mod policy;
mod services;

/// The number of connections of checks that need an answer from each endpoint. With two
/// endpoints chosen at random, one of them is missed once in half a million.
const CONNECTIONS: u32 = 20;

/// All checks of these groups.
#[must_use]
pub fn all(topology: &Topology, groups: &[Group]) -> Vec<Check> {
    let mut all = Vec::new();
    for group in groups {
        let mut list = List {
            group: *group,
            topology,
            checks: Vec::new(),
        };
        match group {
            Group::Pods => pods::add(&mut list),
            Group::Services => services::add(&mut list),
            Group::NodePorts => node_ports::add(&mut list),
            Group::Dns => dns::add(&mut list),
            Group::Policy => policy::add(&mut list),
            Group::Hosts => hosts::add(&mut list),
            Group::Mtu => mtu::add(&mut list),
            Group::Egress => egress::add(&mut list),
        }
        all.append(&mut list.checks);
    }
    all
}

/// The checks of one group.
struct List<'a> {
    group: Group,
    topology: &'a Topology,
    checks: Vec<Check>,
}

impl List<'_> {
    fn push(&mut self, name: impl Into<String>, client: Client, to: impl Into<String>, step: Step) {
        let step = if client.is_on_second_node() && !self.topology.has_second_node() {
            Step::Skip(ONE_NODE.to_owned())
        } else {
            step
        };
        self.checks.push(Check {
            group: self.group,
            name: name.into(),
            client,
            to: to.into(),
            step,
        });
    }

    /// A check that is skipped.
    fn skip(&mut self, name: &str, client: Client, to: &str, why: &str) {
        self.push(name, client, to, Step::Skip(why.to_owned()));
    }

    /// The IP versions, each with the suffix of its checks' names: none where there is one.
    fn families(&self) -> Vec<(Family, String)> {
        let families = self.topology.families();
        let several = families.len() > 1;
        let named = |family: Family| {
            let suffix = if several {
                format!(", {}", family.name())
            } else {
                String::new()
            };
            (family, suffix)
        };
        families.into_iter().map(named).collect()
    }

    /// Asks a server for its name; skipped without a target.
    fn ask(
        &mut self,
        name: impl Into<String>,
        (client, to): (Client, impl Into<String>),
        target: Option<String>,
        (count, wanted): (u32, impl Into<Expectation>),
    ) {
        let run = |target| Step::Run(Operation::Ask { target, count }, wanted.into());
        let step = target.map_or_else(no_target, run);
        self.push(name, client, to, step);
    }

    /// Sends a datagram to an echo server; skipped without a target.
    fn echo(
        &mut self,
        name: impl Into<String>,
        (client, to): (Client, impl Into<String>),
        target: Option<String>,
        size: DatagramSize,
    ) {
        let run = |target| Step::Run(Operation::Datagram { target, size }, Expectation::Success);
        let step = target.map_or_else(no_target, run);
        self.push(name, client, to, step);
    }

    /// Opens a connection; skipped without a target.
    fn open(
        &mut self,
        name: impl Into<String>,
        (client, to): (Client, impl Into<String>),
        target: Option<String>,
    ) {
        let run = |target| Step::Run(Operation::Open { target }, Expectation::Success);
        let step = target.map_or_else(no_target, run);
        self.push(name, client, to, step);
    }
}

const ONE_NODE: &str = "only one node takes part: a second must be ready";

/// A small datagram.
const SMALL: DatagramSize = DatagramSize::Bytes(64);

fn no_target() -> Step {
    Step::Skip("there is no such address on this cluster".to_owned())
}

/// Any of both plain servers.
fn either() -> ExpectedServers {
    ExpectedServers::among(["server-a", "server-b"])
}

/// Both plain servers.
fn both() -> ExpectedServers {
    ExpectedServers::each(["server-a", "server-b"])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::topology::{Node, Service};

    fn topology(nodes: usize, dual_stack: bool) -> Topology {
        let addresses = |last: u8| {
            let mut all = vec![format!("10.0.0.{last}").parse().unwrap()];
            if dual_stack {
                all.push(format!("fd00::{last}").parse().unwrap());
            }
            all
        };
        let service = |last: u8| Service {
            cluster_ips: addresses(last),
            node_ports: [("http", 30_080), ("tcp", 30_006), ("udp", 30_007)]
                .map(|(name, port)| (name.to_owned(), port))
                .into(),
            load_balancer: vec![],
        };
        let servers = ["server-a", "server-b", "guarded", "host-a", "host-b"];
        let services = [
            "cluster",
            "node-port",
            "node-port-local",
            "affinity",
            "internal-local",
            "hairpin",
            "empty",
            "guarded",
        ];
        Topology {
            namespace: "test".to_owned(),
            domain: "cluster.local".to_owned(),
            nodes: (1..=nodes)
                .map(|number| Node {
                    name: format!("n{number}"),
                    addresses: addresses(u8::try_from(number).unwrap()),
                })
                .collect(),
            servers: servers
                .iter()
                .zip(10..)
                .map(|(name, last)| ((*name).to_owned(), addresses(last)))
                .collect(),
            services: services
                .iter()
                .zip(50..)
                .map(|(name, last)| ((*name).to_owned(), service(last)))
                .collect(),
            api_server: vec!["10.0.0.1:6443".parse().unwrap()],
            ..Topology::default()
        }
    }

    fn run(checks: &[Check]) -> usize {
        let run = |check: &&Check| matches!(check.step, Step::Run(..));
        checks.iter().filter(run).count()
    }

    #[test]
    fn every_group_has_checks_and_every_line_is_another() {
        let checks = all(&topology(2, true), &Group::ALL);
        for group in Group::ALL {
            let of_group = checks.iter().filter(|check| check.group == group);
            assert!(of_group.count() >= 2, "{group:?}");
        }
        let lines: BTreeSet<_> = checks
            .iter()
            .map(|check| {
                (
                    check.group,
                    check.name.as_str(),
                    check.client,
                    check.to.as_str(),
                )
            })
            .collect();
        assert_eq!(lines.len(), checks.len(), "two lines are the same");
    }

    #[test]
    fn another_run_has_the_same_lines() {
        let (first, mut second) = (topology(2, true), topology(2, true));
        second.namespace = "test-again".to_owned();
        let lines = |topology: &Topology| -> Vec<_> {
            let checks = all(topology, &Group::ALL).into_iter();
            checks
                .map(|it| (it.group, it.name, it.client, it.to))
                .collect()
        };
        assert_eq!(lines(&first), lines(&second));
    }

    #[test]
    fn one_node_skips_what_needs_two() {
        let (one, two) = (
            all(&topology(1, false), &Group::ALL),
            all(&topology(2, false), &Group::ALL),
        );
        assert!(run(&one) < run(&two), "{} {}", run(&one), run(&two));
        for check in &one {
            if check.client.is_on_second_node() {
                assert_eq!(check.step, Step::Skip(ONE_NODE.to_owned()), "{check:?}");
            }
        }
    }

    #[test]
    fn a_second_ip_version_is_checked_as_well() {
        let (single, dual) = (
            all(&topology(2, false), &Group::ALL),
            all(&topology(2, true), &Group::ALL),
        );
        assert!(single.iter().all(|check| !check.name.contains("IPv6")));
        let six = dual.iter().filter(|check| check.name.contains("IPv6"));
        assert!(six.count() > 10);
    }

    #[test]
    fn groups_are_chosen() {
        let checks = all(&topology(2, false), &[Group::Dns]);
        assert!(checks.iter().all(|check| check.group == Group::Dns));
        assert!(!checks.is_empty());
    }
}
