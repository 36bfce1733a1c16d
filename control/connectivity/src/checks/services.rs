//! Services by their cluster addresses, names and load balancer addresses.

use super::{CONNECTIONS, List, SMALL, both, either};
use crate::{
    check::Client,
    objects::{SERVICE_ECHO, SERVICE_HTTP},
    operation::{Expectation, ExpectedServers},
};

pub(super) fn add(list: &mut List<'_>) {
    let topology = list.topology;
    let two = topology.has_second_node();
    for (family, suffix) in list.families() {
        let service = |name: &str, port| topology.service(name, family, port);
        for client in [Client::PodA, Client::NodeA] {
            let to = (client, "Service cluster");
            let target = service("cluster", SERVICE_HTTP);
            list.ask(
                format!("ClusterIP, TCP{suffix}"),
                to,
                target,
                (CONNECTIONS, both()),
            );
            let target = service("cluster", SERVICE_ECHO);
            list.echo(format!("ClusterIP, UDP{suffix}"), to, target, SMALL);
        }
        let to = (Client::PodA, "Service affinity");
        let wanted = either().by_one();
        let target = service("affinity", SERVICE_HTTP);
        list.ask(
            format!("session affinity{suffix}"),
            to,
            target,
            (CONNECTIONS, wanted),
        );
        let to = (Client::PodA, "Service internal-local");
        let wanted = if two {
            ExpectedServers::among(["server-a"])
        } else {
            either()
        };
        let target = service("internal-local", SERVICE_HTTP);
        list.ask(
            format!("internal traffic policy Local{suffix}"),
            to,
            target,
            (CONNECTIONS, wanted),
        );
        let to = (Client::Hairpin, "Service hairpin (itself)");
        let wanted = ExpectedServers::among(["hairpin"]);
        let target = service("hairpin", SERVICE_HTTP);
        list.ask(format!("hairpin{suffix}"), to, target, (3, wanted));
        let to = (Client::PodA, "Service empty");
        let target = service("empty", SERVICE_HTTP);
        list.ask(
            format!("no endpoints: no answer{suffix}"),
            to,
            target,
            (1, Expectation::NoAnswer),
        );
    }
    let port = SERVICE_HTTP;
    let headless = format!(
        "{}:{}",
        topology.full_name("headless"),
        crate::objects::HTTP
    );
    let to = (Client::PodA, "Service headless");
    list.ask("headless, by name", to, Some(headless), (3, either()));
    let external = format!("{}:{port}", topology.full_name("external-name"));
    let to = (Client::PodA, "Service external-name");
    list.ask("ExternalName", to, Some(external), (3, either()));
    let to = (Client::PodA, "Service default/kubernetes");
    let target = format!("kubernetes.default.svc.{}:443", topology.domain);
    list.open("API server", to, Some(target));
    load_balancer(list);
}

fn load_balancer(list: &mut List<'_>) {
    let service = list.topology.services.get("load-balancer");
    let addresses = service.map(|it| it.load_balancer.clone());
    let addresses = addresses.unwrap_or_default();
    let name = "LoadBalancer address";
    if addresses.is_empty() {
        let why = "nothing on this cluster gives addresses to Services of type LoadBalancer";
        list.skip(name, Client::PodA, "Service load-balancer", why);
        return;
    }
    for address in addresses {
        let target = match address.parse() {
            Ok(address) => std::net::SocketAddr::new(address, SERVICE_HTTP).to_string(),
            Err(_) => format!("{address}:{SERVICE_HTTP}"),
        };
        for client in [Client::PodA, Client::NodeA] {
            let to = (client, target.clone());
            list.ask(name, to, Some(target.clone()), (CONNECTIONS, both()));
        }
    }
}
