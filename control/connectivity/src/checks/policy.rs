//! Network policy: `guarded` lets in `pod-a` on one port, `confined` gets out to `server-a`.

use super::List;
use crate::{
    check::Client,
    objects::{ECHO, HTTP, SERVICE_HTTP},
    operation::{Expectation, ExpectedServers},
};

pub(super) fn add(list: &mut List<'_>) {
    let topology = list.topology;
    for (family, suffix) in list.families() {
        let guarded = || Expectation::from(ExpectedServers::among(["guarded"]));
        let pod = |name: &str, port| topology.server(name, family, port);
        let allowed = format!("ingress allowed{suffix}");
        let denied = format!("ingress denied{suffix}");
        let target = pod("guarded", HTTP);
        let to = "pod guarded";
        list.ask(&allowed, (Client::PodA, to), target.clone(), (3, guarded()));
        list.ask(
            &denied,
            (Client::PodB, to),
            target,
            (1, Expectation::NoAnswer),
        );
        let target = topology.service("guarded", family, SERVICE_HTTP);
        let to = "Service guarded";
        list.ask(&allowed, (Client::PodA, to), target.clone(), (3, guarded()));
        list.ask(
            &denied,
            (Client::PodB, to),
            target,
            (1, Expectation::NoAnswer),
        );
        let to = (Client::PodA, "another port of pod guarded");
        list.ask(
            &denied,
            to,
            pod("guarded", ECHO),
            (1, Expectation::NoAnswer),
        );
        let to = (Client::Confined, "pod server-a");
        let wanted = ExpectedServers::among(["server-a"]);
        let name = format!("egress allowed{suffix}");
        list.ask(name, to, pod("server-a", HTTP), (3, wanted));
        let to = (Client::Confined, "pod server-b");
        let name = format!("egress denied{suffix}");
        list.ask(name, to, pod("server-b", HTTP), (1, Expectation::NoAnswer));
    }
}
