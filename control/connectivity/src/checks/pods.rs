//! Pod to pod, on one node and across nodes.

use super::{List, ONE_NODE, SMALL};
use crate::{
    check::Client,
    objects::{ECHO, HTTP},
    operation::ExpectedServers,
};

pub(super) fn add(list: &mut List<'_>) {
    let one = !list.topology.has_second_node();
    for (family, suffix) in list.families() {
        for (server, place) in [("server-a", "same node"), ("server-b", "other node")] {
            let to = format!("pod {server}, {place}");
            if one && server == "server-b" {
                list.skip(&format!("TCP{suffix}"), Client::PodA, &to, ONE_NODE);
                continue;
            }
            let target = list.topology.server(server, family, HTTP);
            let wanted = ExpectedServers::among([server]).source_kept();
            let from = (Client::PodA, to.as_str());
            list.ask(format!("TCP{suffix}"), from, target, (3, wanted));
            let target = list.topology.server(server, family, ECHO);
            list.echo(format!("UDP{suffix}"), from, target, SMALL);
        }
    }
}
