//! Pods and the host network, both ways.

use super::{List, ONE_NODE, SMALL};
use crate::{
    check::Client,
    objects::{ECHO, HTTP},
    operation::ExpectedServers,
};

pub(super) fn add(list: &mut List<'_>) {
    let topology = list.topology;
    let ports = topology.host_ports;
    for (family, suffix) in list.families() {
        let tcp = format!("TCP{suffix}");
        let udp = format!("UDP{suffix}");
        for (client, number, host, to) in [
            (Client::PodA, 0, "host-a", "host network of its node"),
            (Client::PodA, 1, "host-b", "host network of another node"),
            (Client::NodeA, 1, "host-b", "host network of another node"),
            (Client::NodeB, 0, "host-a", "host network of another node"),
        ] {
            if number == 1 && !topology.has_second_node() {
                list.skip(&tcp, client, to, ONE_NODE);
                continue;
            }
            let target = topology.node(number, family, ports.http);
            let wanted = ExpectedServers::among([host]);
            list.ask(&tcp, (client, to), target, (3, wanted));
            let target = topology.node(number, family, ports.echo);
            list.echo(&udp, (client, to), target, SMALL);
        }
        for (server, to) in [
            ("server-a", "pod server-a, same node"),
            ("server-b", "pod server-b, other node"),
        ] {
            if server == "server-b" && !topology.has_second_node() {
                list.skip(&tcp, Client::NodeA, to, ONE_NODE);
                continue;
            }
            let target = topology.server(server, family, HTTP);
            let wanted = ExpectedServers::among([server]);
            list.ask(&tcp, (Client::NodeA, to), target, (3, wanted));
            let target = topology.server(server, family, ECHO);
            list.echo(&udp, (Client::NodeA, to), target, SMALL);
        }
    }
}
