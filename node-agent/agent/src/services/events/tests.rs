//! Bad objects: what the maps hold for them does not depend on the order in which
//! they come, others are not harmed, and events on them are sent.

use std::net::IpAddr;

use node_agent_plan::{Config, Current, EndpointSlice, NodeFacts, NodePortAddresses, Pod, Service};
use serde_json::{Value, json};

use super::*;
use crate::services::fake::Api;

const NODE: &str = "node-1";

/// What is wrong, the objects, and the events: on what, of what kind and reason,
/// with which words.
struct Case {
    name: &'static str,
    objects: Vec<Value>,
    events: &'static [&'static str],
}

#[test]
fn a_map_is_called_full_before_it_is() {
    let of = |used| Fullness {
        map: "SLOTS",
        used,
        capacity: 100,
    };
    assert!(!is_full(&of(89)) && is_full(&of(90)) && is_full(&of(100)));
}

/// A Service, older than those whose names sort behind its own.
fn service(name: &str, spec: &Value) -> Value {
    let day = name.bytes().next().unwrap_or(b'a') - b'a' + 1;
    let mut service = json!({
        "kind": "Service",
        "metadata": {
            "namespace": "ns", "name": name,
            "creationTimestamp": format!("2026-01-{day:02}T00:00:00Z"),
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIPs": [format!("10.96.1.{day}")],
            "ports": [{"name": "http", "port": 80}],
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        if key == "status" {
            service["status"] = value.clone();
        } else {
            service["spec"][key] = value.clone();
        }
    }
    service
}

fn slice(service: &str, number: usize, port: &Value, addresses: &[String]) -> Value {
    let endpoint = |address: &String| json!({"addresses": [address]});
    json!({
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": "ns", "name": format!("{service}-{number}"),
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "ports": [port],
        "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

fn one(service: &str, addresses: &[&str]) -> Value {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    slice(
        service,
        0,
        &json!({"name": "http", "port": 8080}),
        &addresses,
    )
}

fn balanced(ip: &str) -> Value {
    json!({
        "type": "LoadBalancer",
        "status": {"loadBalancer": {"ingress": [{"ip": ip}]}},
    })
}

/// 100 000 endpoints in 100 slices.
fn huge() -> Vec<Value> {
    let slices = (0..100).map(|n| {
        let address = |m: usize| {
            format!(
                "10.{}.{}.{}",
                128 + n / 2,
                (n % 2) * 100 + m / 250,
                m % 250 + 1
            )
        };
        let addresses: Vec<String> = (0..1_000_usize).map(address).collect();
        slice("a", n, &json!({"name": "http", "port": 8080}), &addresses)
    });
    std::iter::once(service("a", &json!({})))
        .chain(slices)
        .collect()
}

fn cases() -> Vec<Case> {
    let external = |ip: &str| json!({"externalIPs": [ip]});
    let ports = |ports: &Value| json!({"ports": ports});
    vec![
        Case {
            name: "100 000 endpoints",
            objects: huge(),
            events: &[
                "Service a, Warning, TooManyEndpoints: of 100000 IPv4 endpoints the first 16384 serve",
            ],
        },
        Case {
            name: "two with one external IP: the older has it",
            objects: vec![
                service("a", &external("203.0.113.1")),
                service("b", &external("203.0.113.1")),
            ],
            events: &[
                "Service b, Warning, AddressTaken: TCP 203.0.113.1 port 80 belongs to Service ns/a",
            ],
        },
        Case {
            name: "an external IP that is another's cluster IP, be that younger",
            objects: vec![
                service("a", &external("10.96.1.2")),
                service("b", &json!({})),
            ],
            events: &["Service a, Warning, AddressTaken: belongs to Service ns/b"],
        },
        Case {
            name: "an external IP that is another's balanced address",
            objects: vec![
                service("a", &external("203.0.113.9")),
                service("b", &balanced("203.0.113.9")),
            ],
            events: &["Service a, Warning, AddressTaken: belongs to Service ns/b"],
        },
        Case {
            name: "two with one balanced address and port",
            objects: vec![
                service("a", &balanced("203.0.113.9")),
                service("b", &balanced("203.0.113.9")),
            ],
            events: &["Service b, Warning, AddressTaken: belongs to Service ns/a"],
        },
        Case {
            name: "two with one node port",
            objects: vec![
                service(
                    "a",
                    &ports(&json!([{"name": "http", "port": 80, "nodePort": 30_080}])),
                ),
                service(
                    "b",
                    &ports(&json!([{"name": "http", "port": 80, "nodePort": 30_080}])),
                ),
            ],
            events: &[
                "Service b, Warning, AddressTaken: TCP port 30080 of the node belongs to Service ns/a",
            ],
        },
        Case {
            name: "an external IP that is the node's",
            objects: vec![service("a", &external("192.0.2.1"))],
            events: &["Service a, Normal, NodeAddressUsed: 192.0.2.1 is an address of the node"],
        },
        Case {
            name: "an external IP that is the node's, at the port of its SSH",
            objects: vec![service(
                "a",
                &json!({"externalIPs": ["192.0.2.1"], "ports": [{"name": "http", "port": 22}]}),
            )],
            events: &[
                "Service a, Warning, PortReserved: at TCP 192.0.2.1 port 22 the node itself listens",
            ],
        },
        Case {
            name: "ports that are none",
            objects: vec![
                service(
                    "a",
                    &ports(&json!([
                        {"name": "http", "port": 80},
                        {"name": "zero", "port": 0},
                        {"name": "many", "port": 65_536},
                        {"name": "gre", "port": 1, "protocol": "GRE"},
                        {"name": "http", "port": 81},
                    ])),
                ),
                slice(
                    "a",
                    0,
                    &json!({"name": "nought", "port": 0}),
                    &["10.244.0.1".into()],
                ),
            ],
            events: &[
                "Service a, Warning, BadPort: port zero is out of range",
                "Service a, Warning, BadPort: port many is out of range",
                "Service a, Warning, BadPort: port gre is out of range",
                "Service a, Warning, BadPort: port http is out of range",
                "Service a, Warning, BadPort: port nought is out of range",
            ],
        },
        Case {
            name: "addresses of the other family",
            objects: vec![
                service("a", &external("2001:db8::1")),
                service("b", &balanced("2001:db8::2")),
                one("b", &["10.244.0.1", "fd00::1"]),
            ],
            events: &[
                "Service a, Warning, BadAddress: 2001:db8::1 in externalIPs is of a family",
                "Service b, Warning, BadAddress: 2001:db8::2 in status.loadBalancer",
                "Service b, Warning, BadEndpoints: 1 endpoints, `fd00::1` among them",
            ],
        },
        Case {
            name: "addresses of this machine alone, of groups, and none",
            objects: vec![
                service(
                    "a",
                    &json!({"externalIPs": ["127.0.0.1", "169.254.169.254", "::1", "x"]}),
                ),
                service("b", &balanced("0.0.0.0")),
                service("c", &balanced("224.0.0.1")),
                service("d", &json!({})),
                one(
                    "d",
                    &["127.0.0.1", "169.254.1.1", "10.244.0.1", "255.255.255.255"],
                ),
            ],
            events: &[
                "Service a, Warning, BadAddress: `127.0.0.1` in externalIPs is no address",
                "Service a, Warning, BadAddress: `169.254.169.254` in externalIPs",
                "Service a, Warning, BadAddress: `::1` in externalIPs",
                "Service a, Warning, BadAddress: `x` in externalIPs",
                "Service b, Warning, BadAddress: `0.0.0.0` in status.loadBalancer",
                "Service c, Warning, BadAddress: `224.0.0.1` in status.loadBalancer",
                "Service d, Warning, BadEndpoints: 3 endpoints, `127.0.0.1` among them",
            ],
        },
        Case {
            name: "a source range that is none",
            objects: vec![{
                let mut it = service("a", &balanced("203.0.113.9"));
                it["spec"]["loadBalancerSourceRanges"] = json!(["198.51.100.0/24", "all"]);
                it
            }],
            events: &["Service a, Warning, BadSourceRange: `all` in loadBalancerSourceRanges"],
        },
        Case {
            name: "a host port that a node port has, and one at no address",
            objects: vec![
                service(
                    "a",
                    &ports(&json!([{"name": "http", "port": 80, "nodePort": 30_080}])),
                ),
                json!({
                    "kind": "Pod",
                    "metadata": {"namespace": "ns", "name": "p"},
                    "spec": {"containers": [{"ports": [
                        {"containerPort": 80, "hostPort": 30_080},
                        {"containerPort": 81, "hostPort": 81, "hostIP": "nowhere"},
                    ]}]},
                    "status": {"phase": "Running", "podIPs": [{"ip": "10.244.0.9"}]},
                }),
            ],
            events: &[
                "Pod p, Warning, AddressTaken: TCP port 30080 of the node belongs to Service ns/a",
                "Pod p, Warning, BadAddress: `nowhere` in hostIP",
            ],
        },
    ]
}

/// A plan that was told of the objects, and what the maps hold then.
fn planned<'a>(objects: impl Iterator<Item = &'a Value>, at_once: bool) -> (Planner, Current) {
    let own = [IpAddr::from([192, 0, 2, 1]), IpAddr::from([127, 0, 0, 1])];
    let mut planner = Planner::new(Config {
        node: NODE.to_owned(),
        overrides: Vec::new(),
        facts: NodeFacts {
            addresses: NodePortAddresses::All.from_node(own, &[]),
            reserved: vec![(22, ebpf_abi::Protocol::TCP)],
            ..NodeFacts::default()
        },
    });
    let mut maps = Current::default();
    if !at_once {
        // Each one as it comes.
        for action in planner.resync(&maps.clone()) {
            maps.apply(&action);
        }
    }
    for object in objects {
        fn read<T: serde::de::DeserializeOwned>(object: &Value) -> T {
            T::deserialize(object).expect("an object")
        }
        let actions = match object["kind"].as_str() {
            Some("Service") => {
                let it: Service = read(object);
                planner.service_changed("ns", &it.metadata.name, Some(&it))
            }
            Some("Pod") => {
                let it: Pod = read(object);
                planner.pod_changed("ns", &it.metadata.name, Some(&it))
            }
            _ => {
                let it: EndpointSlice = read(object);
                planner.slice_changed("ns", &it.metadata.name, Some(&it))
            }
        };
        actions.iter().for_each(|action| maps.apply(action));
    }
    if at_once {
        for action in planner.resync(&maps.clone()) {
            maps.apply(&action);
        }
    }
    (planner, maps)
}

/// What clients find: keys, and the endpoints behind them.
fn found(maps: &Current) -> BTreeMap<String, Vec<String>> {
    let entries = maps.services.iter().map(|(key, entry)| {
        let name = maps.names.get(&entry.set).map(ToString::to_string);
        let mut backends: Vec<String> = maps
            .backends(entry)
            .expect("whole")
            .iter()
            .map(|it| format!("{}:{}", it.address, it.port.get()))
            .collect();
        backends.sort_unstable();
        (format!("{key:?} {}", name.unwrap_or_default()), backends)
    });
    entries.collect()
}

/// Objects that have nothing to do with it.
fn bystander() -> [Value; 2] {
    let mut good = service("z", &json!({"externalIPs": ["203.0.113.200"]}));
    good["spec"]["ports"] = json!([{"name": "http", "port": 80, "nodePort": 31_000}]);
    [good, one("z", &["10.244.9.9"])]
}

#[tokio::test]
async fn bad_objects_are_resolved_in_one_way_and_told_by_events() {
    for case in cases() {
        let name = case.name;
        let mut objects = case.objects;
        objects.extend(bystander());
        let (planner, maps) = planned(objects.iter(), true);
        let told = found(&maps);
        // One by one and backwards: the same, unless there are very many.
        if objects.len() < 50 {
            for at_once in [true, false] {
                let (_, maps) = planned(objects.iter().rev(), at_once);
                assert_eq!(found(&maps), told, "{name}: backwards, at once: {at_once}");
            }
            let (_, maps) = planned(objects.iter(), false);
            assert_eq!(found(&maps), told, "{name}: one by one");
        }
        let good = told
            .iter()
            .filter(|(key, _)| key.contains("ns/z:http TCP IPv4"));
        let good: Vec<_> = good.map(|(_, backends)| backends.concat()).collect();
        assert_eq!(
            good, ["10.244.9.9:8080"; 3],
            "{name}: others are not harmed"
        );

        let api = Api::new();
        let mut teller = EventReporter::new(&api.client(), NODE);
        let uid = |namespace: &str, name: &str| Some(format!("uid of {namespace}/{name}"));
        teller.problems(&planner, uid);
        // Told once.
        teller.problems(&planner, uid);
        let events = api.events(case.events.len()).await;
        assert_eq!(
            events.len(),
            api.sent("POST", "/api/v1/namespaces/ns/events").len(),
            "{name}"
        );
        let mut rest: Vec<_> = events.iter().collect();
        for wanted in case.events {
            let (what, words) = wanted.split_once(": ").expect("what, and words");
            let is = |event: &&Value| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let regarding = &event["involvedObject"];
                let (kind, name) = (text(&regarding["kind"]), text(&regarding["name"]));
                let uid = if kind == "Service" {
                    format!("uid of ns/{name}")
                } else {
                    String::new()
                };
                let (how, reason) = (text(&event["type"]), text(&event["reason"]));
                format!("{kind} {name}, {how}, {reason}") == what
                    && text(&regarding["uid"]) == uid
                    && text(&event["message"]).contains(words)
            };
            let place = rest.iter().position(is);
            let place = place.unwrap_or_else(|| panic!("{name}: no {wanted}: {events:#?}"));
            rest.remove(place);
        }
        assert!(rest.is_empty(), "{name}: not asked for: {rest:#?}");
        // What is put right is not told again, and what comes back is.
        assert_eq!(planner.problems().count(), case.events.len(), "{name}");
    }
}

/// More at once than the recorder keeps are told as it sends.
#[tokio::test]
async fn nothing_is_left_untold_where_much_is_wrong() {
    const COUNT: usize = 1_500;
    let objects: Vec<_> = (0..COUNT)
        .map(|number| {
            let own = format!("10.97.{}.{}", number / 250, number % 250);
            let spec = json!({"clusterIPs": [own], "externalIPs": ["x"]});
            service(&format!("a{number}"), &spec)
        })
        .collect();
    let (planner, _) = planned(objects.iter(), true);
    let api = Api::new();
    let mut teller = EventReporter::new(&api.client(), NODE);
    teller.problems(&planner, |_, _| None);
    assert!(teller.is_behind(), "the recorder has no room for as many");
    let all = async {
        while teller.is_behind() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            teller.problems(&planner, |_, _| None);
        }
    };
    let all = tokio::time::timeout(std::time::Duration::from_secs(60), all).await;
    all.expect("told");
    let events = api.events(COUNT).await;
    let names = events.iter().map(|event| &event["involvedObject"]["name"]);
    let names: BTreeSet<_> = names.map(ToString::to_string).collect();
    assert_eq!((events.len(), names.len()), (COUNT, COUNT));
}

#[tokio::test]
async fn what_is_wrong_again_is_told_again() {
    let api = Api::new();
    let mut teller = EventReporter::new(&api.client(), NODE);
    let bad: Service =
        serde_json::from_value(service("a", &json!({"externalIPs": ["x"]}))).expect("a Service");
    let good: Service = serde_json::from_value(service("a", &json!({}))).expect("a Service");
    let (mut planner, _) = planned(std::iter::empty(), true);
    for (service, count) in [(&bad, 1), (&good, 1), (&bad, 2), (&bad, 2)] {
        planner.service_changed("ns", "a", Some(service));
        teller.problems(&planner, |_, _| None);
        // The recorder counts what is equal: a series is one event, and a patch.
        let told = async {
            loop {
                let events = api.events(1).await;
                let name = events[0]["metadata"]["name"].as_str().unwrap_or_default();
                let again = api.sent("PATCH", &format!("/api/v1/namespaces/ns/events/{name}"));
                if events.len() + again.len() >= count {
                    return events.len() + again.len();
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let told = tokio::time::timeout(std::time::Duration::from_secs(60), told).await;
        assert_eq!(told.expect("told"), count);
    }
}
