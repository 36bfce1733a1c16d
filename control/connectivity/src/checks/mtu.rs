//! Large payloads: packets as large as the path says, fragments, and long streams.

use super::{List, no_target};
use crate::{
    check::{Client, Step},
    objects::{ECHO, SERVICE_ECHO},
    operation::{DatagramSize, Expectation, Operation},
};

/// Larger than any usual MTU but that of jumbo frames.
const FRAGMENTED: DatagramSize = DatagramSize::Bytes(8000);

/// Long enough for windows to open and segments to be merged.
const STREAM: usize = 4 << 20;

pub(super) fn add(list: &mut List<'_>) {
    let topology = list.topology;
    let far = if topology.has_second_node() {
        "pod server-b, other node"
    } else {
        "pod server-b"
    };
    for (family, suffix) in list.families() {
        for client in [Client::PodA, Client::NodeA] {
            for (to, target) in [
                (far, topology.server("server-b", family, ECHO)),
                (
                    "Service cluster",
                    topology.service("cluster", family, SERVICE_ECHO),
                ),
            ] {
                let from = (client, to);
                let name = format!("datagram of a whole packet{suffix}");
                list.echo(name, from, target.clone(), DatagramSize::WholePacket);
                let name = format!("datagram of 8000 bytes{suffix}");
                list.echo(name, from, target.clone(), FRAGMENTED);
                stream(list, &suffix, from, target);
            }
        }
        let last = topology.nodes.len().saturating_sub(1);
        let port = topology.node_port("node-port", "tcp");
        let target = port.and_then(|port| topology.node(last, family, port));
        stream(list, &suffix, (Client::NodeA, "node port"), target);
    }
}

fn stream(list: &mut List<'_>, suffix: &str, (client, to): (Client, &str), target: Option<String>) {
    let bytes = STREAM;
    let run = |target| Step::Run(Operation::Stream { target, bytes }, Expectation::Success);
    let step = target.map_or_else(no_target, run);
    list.push(format!("4 MiB over TCP{suffix}"), client, to, step);
}
