//! Names, as programs resolve them and as the name server answers.

use super::List;
use crate::{
    check::{Client, Step},
    operation::{Expectation, Operation, Record},
};

/// The target that the table shows. The full DNS name contains the namespace, which is a new one
/// in each run, so that the tables of two runs could not be compared.
const CLUSTER: &str = "Service cluster";

pub(super) fn add(list: &mut List<'_>) {
    let topology = list.topology;
    let full = topology.full_name("cluster");
    let cluster = topology.services.get("cluster");
    let addresses = cluster.map(|it| it.cluster_ips.clone()).unwrap_or_default();
    let of_cluster = || Expectation::Addresses {
        addresses: addresses.clone(),
    };
    let resolve = |name: &str, expectation| {
        let name = name.to_owned();
        Step::Run(Operation::Resolve { name }, expectation)
    };
    let short = format!("cluster.{}.svc", topology.namespace);
    for client in [Client::PodA, Client::PodB, Client::NodeA] {
        let step = resolve(&full, of_cluster());
        list.push("full name of a Service", client, CLUSTER, step);
    }
    let step = resolve("cluster", of_cluster());
    list.push("name in its own namespace", Client::PodA, CLUSTER, step);
    let step = resolve(&short, of_cluster());
    list.push("name with namespace", Client::PodA, CLUSTER, step);
    let endpoints = ["server-a", "server-b"]
        .iter()
        .filter_map(|name| topology.servers.get(*name));
    let addresses = endpoints.flatten().copied().collect();
    let headless = topology.full_name("headless");
    let step = resolve(&headless, Expectation::Addresses { addresses });
    let to = "Service headless";
    list.push("headless: all endpoints", Client::PodA, to, step);
    let missing = topology.full_name("no-such-service");
    let step = resolve(&missing, Expectation::NoSuchName);
    let to = "Service no-such-service";
    list.push("a name that does not exist", Client::PodA, to, step);
    let record = if topology.families().first() == Some(&crate::topology::Family::V6) {
        Record::Aaaa
    } else {
        Record::A
    };
    for (protocol, tcp) in [("UDP", false), ("TCP", true)] {
        for (kind, record, name) in [
            ("address", record, full.clone()),
            ("SRV", Record::Srv, format!("_http._tcp.{full}")),
        ] {
            let query = Operation::Query { name, record, tcp };
            let step = Step::Run(query, Expectation::Success);
            let name = format!("{kind} record over {protocol}");
            list.push(name, Client::PodA, "name server", step);
        }
    }
}
