//! Node ports and host ports, from pods and from the host network.

use super::{CONNECTIONS, List, ONE_NODE, SMALL, both};
use crate::{check::Client, operation::ExpectedServers};

pub(super) fn add(list: &mut List<'_>) {
    let topology = list.topology;
    let http = topology.node_port("node-port", "http");
    let udp = topology.node_port("node-port", "udp");
    let local = topology.node_port("node-port-local", "http");
    for (family, suffix) in list.families() {
        let node = |number, port: Option<u16>| topology.node(number, family, port?);
        for (client, number, to) in [
            (Client::PodA, 0, "own node"),
            (Client::PodA, 1, "other node"),
            (Client::NodeA, 0, "own node"),
            (Client::NodeA, 1, "other node"),
        ] {
            if number == 1 && !topology.has_second_node() {
                list.skip(&format!("TCP{suffix}"), client, to, ONE_NODE);
                continue;
            }
            let target = node(number, http);
            let asked = (CONNECTIONS, both());
            list.ask(format!("TCP{suffix}"), (client, to), target, asked);
            list.echo(
                format!("UDP{suffix}"),
                (client, to),
                node(number, udp),
                SMALL,
            );
        }
        // Its only endpoint is on the last node.
        let last = topology.nodes.len().saturating_sub(1);
        let wanted = ExpectedServers::among(["server-b"]).source_kept();
        let name = format!("external traffic policy Local{suffix}");
        let to = (Client::NodeA, "node of its endpoint");
        list.ask(name, to, node(last, local), (5, wanted));
        let port = Some(topology.host_ports.pod);
        for client in [Client::PodA, Client::NodeA] {
            let to = (client, "host port of pod server-b");
            let wanted = ExpectedServers::among(["server-b"]);
            list.ask(
                format!("host port{suffix}"),
                to,
                node(last, port),
                (3, wanted),
            );
        }
    }
}
