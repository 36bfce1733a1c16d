//! Checks from pods to addresses outside of the pod network.

use super::List;
use crate::check::Client;

pub(super) fn add(list: &mut List<'_>) {
    let topology = list.topology;
    let api_server = topology.api_server.first().map(ToString::to_string);
    for client in [Client::PodA, Client::NodeA] {
        let to = (client, "API server's own address");
        list.open("TCP", to, api_server.clone());
    }
    match &topology.external {
        Some(target) => {
            let to = (Client::PodA, target.as_str());
            list.open("outside of the cluster", to, Some(target.clone()));
        }
        None => list.skip(
            "outside of the cluster",
            Client::PodA,
            "-",
            "--external names no server",
        ),
    }
}
