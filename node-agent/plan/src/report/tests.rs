use serde_json::{Value, json};

use super::*;
use crate::node::{NodeAddress, NodeFacts};
use crate::objects::{EndpointSlice, Pod, Service};
use crate::planner::{Config, Override, Planner};
use crate::service::ServiceState;
use crate::slice::SliceState;
use crate::{Action, explain};

const NODE: &str = "node-1";

/// A plan and the maps that it was written to.
struct Cluster {
    planner: Planner,
    maps: Current,
    services: Vec<Service>,
    slices: Vec<EndpointSlice>,
}

impl Cluster {
    fn new(services: &[Value], slices: &[Value], pods: &[Value]) -> Self {
        Self::with_overrides(services, slices, pods, Vec::new())
    }

    fn with_overrides(
        services: &[Value],
        slices: &[Value],
        pods: &[Value],
        overrides: Vec<Override>,
    ) -> Self {
        fn read<T: serde::de::DeserializeOwned>(values: &[Value]) -> Vec<T> {
            let read = |value: &Value| serde_json::from_value(value.clone()).unwrap();
            values.iter().map(read).collect()
        }
        let services: Vec<Service> = read(services);
        let slices: Vec<EndpointSlice> = read(slices);
        let own = |address: [u8; 4], ports| NodeAddress {
            address: address.into(),
            ports,
        };
        let mut planner = Planner::new(Config {
            node: NODE.into(),
            overrides,
            facts: NodeFacts {
                zone: Some("a".into()),
                addresses: vec![own([192, 0, 2, 1], true), own([192, 0, 2, 2], false)],
                reserved: vec![(22, ebpf_abi::Protocol::TCP)],
                ..NodeFacts::default()
            },
        });
        for it in &services {
            planner.service_changed(&it.metadata.namespace, &it.metadata.name, Some(it));
        }
        for it in &slices {
            planner.slice_changed(&it.metadata.namespace, &it.metadata.name, Some(it));
        }
        for it in read::<Pod>(pods) {
            planner.pod_changed(&it.metadata.namespace, &it.metadata.name, Some(&it));
        }
        let mut maps = Current::default();
        for action in planner.resync(&maps.clone()) {
            maps.apply(&action);
        }
        Self {
            planner,
            maps,
            services,
            slices,
        }
    }

    /// As the agent puts it together.
    fn accounts(&self) -> Vec<Account> {
        let of = |service: &Service| {
            let meta = &service.metadata;
            let slices: Vec<_> = self
                .slices
                .iter()
                .filter(|it| it.metadata.labels["kubernetes.io/service-name"] == meta.name)
                .map(SliceState::from)
                .collect();
            let slices: Vec<_> = slices.iter().collect();
            let state = ServiceState::from(service);
            let explained = explain(NODE, self.planner.zone(), &state, &slices);
            self.planner
                .service_account(&meta.namespace, &meta.name)
                .with(&state, &explained)
        };
        let services = self.services.iter().map(of);
        services.chain(self.planner.other_accounts()).collect()
    }

    fn told(&self, selected: &ReportSelection) -> String {
        Report::new(&self.maps, &self.accounts(), None, selected).to_string()
    }
}

fn service(name: &str, ip: &str, spec: &Value) -> Value {
    let mut service = json!({
        "metadata": {"namespace": "shop", "name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"type": "ClusterIP", "clusterIPs": [ip], "ports": [{"name": "http", "port": 80}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    service
}

fn slice(service: &str, endpoints: &Value) -> Value {
    json!({
        "metadata": {
            "namespace": "shop",
            "name": format!("{service}-1"),
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": endpoints,
    })
}

fn many() -> Cluster {
    let web = service(
        "web",
        "10.96.0.7",
        &json!({
            "type": "NodePort",
            "externalTrafficPolicy": "Local",
            "externalIPs": ["203.0.113.5", "192.0.2.1"],
            "ports": [{"name": "http", "port": 80, "nodePort": 30_080}],
        }),
    );
    let mut rival = service(
        "rival",
        "10.96.0.8",
        &json!({"externalIPs": ["203.0.113.5", "10.96.0.7"]}),
    );
    rival["metadata"]["creationTimestamp"] = json!("2026-02-01T00:00:00Z");
    let guarded = service(
        "ssh",
        "10.96.0.9",
        &json!({
            "externalIPs": ["192.0.2.1"], "ports": [{"name": "http", "port": 22}],
        }),
    );
    let headless = service("headless", "None", &json!({}));
    let ready = |address: &str, node: &str| json!({"addresses": [address], "nodeName": node});
    let mut ending = ready("10.244.1.4", NODE);
    ending["conditions"] = json!({"ready": false, "serving": true, "terminating": true});
    let mut starting = ready("10.244.1.3", NODE);
    starting["conditions"] = json!({"ready": false});
    let endpoints = json!([
        ready("10.244.1.2", NODE),
        ready("10.244.2.2", "node-2"),
        starting,
        ending,
        ready("127.0.0.1", NODE),
    ]);
    let pod = json!({
        "metadata": {"namespace": "shop", "name": "edge"},
        "spec": {"containers": [{"ports": [{"containerPort": 80, "hostPort": 8080}]}]},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.244.1.9"}]},
    });
    Cluster::new(
        &[web, rival, guarded, headless],
        &[slice("web", &endpoints)],
        &[pod],
    )
}

#[test]
fn each_address_and_endpoint_says_why_it_is_not_programmed() {
    let cluster = many();
    let web = ReportSelection::Object("shop".into(), "web".into());
    assert_eq!(
        cluster.told(&web),
        "\
shop/web
  shop/web:http TCP IPv4, generation 1
    at port 30080 of the node, IPv4 TCP, node port, from inside
    at 10.96.0.7:80 TCP, cluster IP
    at 192.0.2.1:80 TCP, external IP, from inside
    at 203.0.113.5:80 TCP, external IP, from inside
    to 10.244.1.2:8080, on this node
    to 10.244.2.2:8080
    to 10.244.1.3:8080, NOT PROGRAMMED: not ready
    to 10.244.1.4:8080, NOT PROGRAMMED: terminating, and others are ready
    to 127.0.0.1, NOT PROGRAMMED: no endpoint can be at this address
  shop/web:http TCP IPv4 local, generation 1, only endpoints on this node
    at port 30080 of the node, IPv4 TCP, node port, from outside
    at 192.0.2.1:80 TCP, external IP, from outside
    at 203.0.113.5:80 TCP, external IP, from outside
    to 10.244.1.2:8080, on this node
    to 10.244.1.3:8080, NOT PROGRAMMED: not ready
    to 10.244.1.4:8080, NOT PROGRAMMED: terminating, and others are ready
    to 10.244.2.2:8080, NOT PROGRAMMED: on another node, and the traffic policy is Local
    to 127.0.0.1, NOT PROGRAMMED: no endpoint can be at this address
  problem: 192.0.2.1 is an address of the node, whose ports of the same numbers are out of reach
  problem: 1 endpoints, `127.0.0.1` among them, are at addresses where no endpoint can be; they are left out
"
    );
    let rival = ReportSelection::Object("shop".into(), "rival".into());
    assert_eq!(
        cluster.told(&rival).lines().take(6).collect::<Vec<_>>(),
        [
            "shop/rival",
            "  shop/rival:http TCP IPv4, generation 1",
            "    at 10.96.0.7:80 TCP, external IP, NOT PROGRAMMED: it belongs to Service shop/web: \
             cluster IPs go before external IPs",
            "    at 10.96.0.8:80 TCP, cluster IP",
            "    at 203.0.113.5:80 TCP, external IP, NOT PROGRAMMED: it belongs to Service shop/web, \
             which is older",
            "    no endpoint: clients are refused",
        ]
    );
    for (name, line) in [
        (
            "ssh",
            "    at 192.0.2.1:22 TCP, external IP, NOT PROGRAMMED: the node itself listens there",
        ),
        (
            "headless",
            "  nothing is programmed: it is headless: DNS names its endpoints, which clients reach directly",
        ),
        ("edge", "    at port 8080 of the node, IPv4 TCP, host port"),
    ] {
        let told = cluster.told(&ReportSelection::Object("shop".into(), name.into()));
        assert!(told.lines().any(|it| it == line), "{line}\n{told}");
    }
}

#[test]
fn who_is_reached_at_a_place_is_found_by_any_of_its_addresses() {
    let cluster = many();
    let found = |address: &str, port: Option<u16>| -> Vec<String> {
        let place = ReportSelection::Place(address.parse().unwrap(), port);
        let report = Report::new(&cluster.maps, &cluster.accounts(), None, &place);
        report.objects.into_iter().map(|it| it.name).collect()
    };
    assert_eq!(found("10.96.0.8", Some(80)), ["rival"]);
    assert_eq!(found("10.96.0.8", Some(81)), [""; 0]);
    // Also who wants it and does not get it.
    assert_eq!(found("203.0.113.5", None), ["rival", "web"]);
    assert_eq!(found("192.0.2.1", Some(30_080)), ["web"], "a node port");
    assert_eq!(
        found("192.0.2.2", Some(30_080)),
        [""; 0],
        "not served there"
    );
    assert_eq!(found("192.0.2.1", Some(8_080)), ["edge"]);
    assert_eq!(found("10.244.1.3", Some(8_080)), ["web"], "an endpoint");
}

#[test]
fn without_the_agent_the_maps_speak_for_themselves() {
    let cluster = many();
    let report = Report::new(
        &cluster.maps,
        &[],
        Some("no agent".into()),
        &ReportSelection::All,
    );
    assert_eq!(report.reasons_unknown.as_deref(), Some("no agent"));
    let names: Vec<_> = report.objects.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["edge", "rival", "ssh", "web"]);
    let text = report.to_string();
    assert!(text.contains("    to 10.244.2.2:8080\n"), "{text}");
    assert!(
        !text.contains("NOT PROGRAMMED") && !text.contains("the maps"),
        "{text}"
    );
    assert!(text.contains("shop/rival:http TCP IPv4, generation 1\n    at 10.96.0.8:80 TCP\n"));
}

#[test]
fn maps_that_differ_from_the_plan_are_said_to() {
    let mut cluster = many();
    let accounts = cluster.accounts();
    let web = ReportSelection::Object("shop".into(), "web".into());
    // An entry is lost, and a slot leads elsewhere.
    let lost = *cluster
        .maps
        .services
        .keys()
        .find(|key| key.address == ebpf_abi::Address::v4([10, 96, 0, 7]))
        .unwrap();
    cluster.maps.apply(&Action::DeleteService(lost));
    let there = ebpf_abi::Address::v4([10, 244, 2, 2]);
    let backend = cluster
        .maps
        .slots
        .values_mut()
        .find(|it| it.address == there);
    backend.unwrap().address = ebpf_abi::Address::v4([10, 244, 9, 9]);
    let text = Report::new(&cluster.maps, &accounts, None, &web).to_string();
    for line in [
        "    at 10.96.0.7:80 TCP, cluster IP, NOT PROGRAMMED: it is planned, and the maps do not hold it",
        "    to 10.244.9.9:8080 (the maps hold it, and it is not planned)",
        "    to 10.244.2.2:8080, NOT PROGRAMMED: it is planned, and the maps do not hold it",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
}

#[test]
fn many_endpoints_of_one_fate_are_told_by_number() {
    let endpoints: Vec<_> = (0..200)
        .map(|n| json!({"addresses": [format!("10.244.3.{n}")], "conditions": {"ready": false}}))
        .collect();
    let cluster = Cluster::new(
        &[service("big", "10.96.0.7", &json!({}))],
        &[slice("big", &json!(endpoints))],
        &[],
    );
    let text = cluster.told(&ReportSelection::All);
    assert_eq!(text.matches("not ready").count(), TOLD + 1, "{text}");
    assert!(text.contains("and 190 more are NOT PROGRAMMED: not ready"));
    let whole = Report::new(
        &cluster.maps,
        &cluster.accounts(),
        None,
        &ReportSelection::All,
    );
    assert_eq!(whole.objects[0].sets[0].endpoints.len(), 200);
}

#[test]
fn an_account_is_read_as_it_was_written() {
    let accounts = many().accounts();
    let text = serde_json::to_string(&accounts).unwrap();
    assert_eq!(
        serde_json::from_str::<Vec<Account>>(&text).unwrap(),
        accounts
    );
}

#[test]
fn a_service_that_the_node_answers_itself_is_not_called_unprogrammed() {
    let address = [10, 96, 0, 10];
    let dns = Override {
        name: "dns".to_owned(),
        address: address.into(),
        port: 53,
        protocol: ebpf_abi::Protocol::UDP,
        backends: vec![(address, 53).into()],
    };
    let service = json!({
        "metadata": {"name": "kube-dns", "namespace": "kube-system", "uid": "1"},
        "spec": {"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "type": "ClusterIP",
            "ipFamilies": ["IPv4"],
            "ports": [{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53}]},
    });
    let cluster = Cluster::with_overrides(&[service], &[], &[], vec![dns]);
    let accounts = cluster.accounts();
    let text = Report::new(&cluster.maps, &accounts, None, &ReportSelection::All).to_string();
    assert!(
        text.contains("10.96.0.10:53 UDP, cluster IP, answered by the node itself"),
        "{text}"
    );
    assert!(!text.contains("NOT PROGRAMMED"), "{text}");
}
