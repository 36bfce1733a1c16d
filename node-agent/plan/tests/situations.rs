//! Compares the planned content of maps with expected files.
//!
//! Each `situations/*.yaml` holds a Node (the planning one), Services, EndpointSlices and Pods;
//! the file of the same name that ends in `.txt` holds the result, which a person reviews when it
//! changes: `ORLOP_BLESS=1` regenerates it. Besides the maps it lists problems, health checks, and
//! for every endpoint why it is used or not.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use ebpf_abi::{BackendFlags, NodeFlags, Scope, ServiceFlags};
use node_agent_plan::{
    Action, Config, Current, EndpointSlice, Metadata, NodeFacts, NodePortAddresses, Planner, Pod,
    Service, ServiceState, SliceState, explain,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Object {
    kind: String,
}

#[derive(Deserialize)]
struct Node {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Vec<ipnet::IpNet>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    addresses: Vec<Address>,
}

#[derive(Deserialize)]
struct Address {
    address: String,
}

#[derive(Default)]
struct Objects {
    node: String,
    facts: NodeFacts,
    services: Vec<Service>,
    slices: Vec<EndpointSlice>,
    pods: Vec<Pod>,
}

impl Objects {
    fn read(yaml: &str) -> Self {
        let mut objects = Self::default();
        for text in yaml.split("\n---\n") {
            let object: Object =
                serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
            match object.kind.as_str() {
                "Node" => objects.read_node(serde_saphyr::from_str(text).unwrap()),
                "Service" => objects.services.push(serde_saphyr::from_str(text).unwrap()),
                "EndpointSlice" => objects.slices.push(serde_saphyr::from_str(text).unwrap()),
                "Pod" => objects.pods.push(serde_saphyr::from_str(text).unwrap()),
                other => panic!("a situation has no {other}"),
            }
        }
        objects
    }

    /// Annotations stand for the agent's options.
    fn read_node(&mut self, node: Node) {
        let addresses: Vec<IpAddr> = node
            .status
            .addresses
            .iter()
            .filter_map(|it| it.address.parse().ok())
            .collect();
        let annotation = |name: &str| node.metadata.annotations.get(name);
        let option =
            annotation("nodeport-addresses").map(|text| text.split(',').collect::<Vec<_>>());
        let option = NodePortAddresses::parse(&option.unwrap_or_default()).unwrap();
        let reserved = annotation("listens").map(|text| text.split(',').collect::<Vec<_>>());
        let loopback = IpAddr::from([127, 0, 0, 1]);
        self.facts = NodeFacts {
            zone: node
                .metadata
                .labels
                .get("topology.kubernetes.io/zone")
                .cloned(),
            addresses: option.from_node([addresses.clone(), vec![loopback]].concat(), &addresses),
            inside: node.spec.pod_cidrs,
            reserved: reserved
                .unwrap_or_default()
                .iter()
                .map(|port| (port.parse().unwrap(), ebpf_abi::Protocol::TCP))
                .collect(),
            direct_return: annotation("direct-return").is_some(),
        };
        self.node = node.metadata.name;
    }

    fn planner(&self) -> Planner {
        Planner::new(Config {
            node: self.node.clone(),
            overrides: Vec::new(),
            facts: self.facts.clone(),
        })
    }

    fn tell(&self, planner: &mut Planner) -> Vec<Action> {
        let mut actions = Vec::new();
        for it in &self.services {
            actions.extend(planner.service_changed(
                &it.metadata.namespace,
                &it.metadata.name,
                Some(it),
            ));
        }
        for it in &self.slices {
            actions.extend(planner.slice_changed(
                &it.metadata.namespace,
                &it.metadata.name,
                Some(it),
            ));
        }
        for it in &self.pods {
            actions.extend(planner.pod_changed(
                &it.metadata.namespace,
                &it.metadata.name,
                Some(it),
            ));
        }
        actions
    }

    fn outcome(&self) -> String {
        let mut planner = self.planner();
        self.tell(&mut planner);
        let mut maps = Current::default();
        for action in planner.resync(&maps) {
            maps.apply(&action);
        }
        // Told one after another while the plan is at work, it comes to the same.
        let mut other = self.planner();
        let mut grown = Current::default();
        for action in other.resync(&Current::default()) {
            grown.apply(&action);
        }
        for action in self.tell(&mut other) {
            grown.apply(&action);
        }
        assert_eq!(words(&maps), words(&grown), "the order of events matters");

        let mut text = words(&maps);
        for check in planner.health_checks() {
            let (namespace, name) = (&check.namespace, &check.name);
            writeln!(
                text,
                "health of {namespace}/{name} at {}: {} local",
                check.port, check.local_ready
            )
            .unwrap();
        }
        for problem in planner.problems() {
            let word = problem.reason.word();
            writeln!(text, "{word}: {problem}").unwrap();
        }
        for service in &self.services {
            self.explain(service, &mut text);
        }
        text
    }

    fn explain(&self, service: &Service, text: &mut String) {
        let (namespace, name) = (&service.metadata.namespace, &service.metadata.name);
        let owned = |slice: &&EndpointSlice| {
            slice.metadata.labels.get("kubernetes.io/service-name") == Some(name)
                && slice.metadata.namespace == *namespace
        };
        let slices = self.slices.iter().filter(owned);
        let slices: Vec<_> = slices.map(SliceState::from).collect();
        let (slices, service) = (
            slices.iter().collect::<Vec<_>>(),
            ServiceState::from(service),
        );
        for it in explain(&self.node, self.facts.zone.as_deref(), &service, &slices) {
            let (port, protocol, endpoint) = (&it.port, it.protocol, &it.endpoint);
            write!(text, "why {name}:{port} {protocol} {endpoint}:").unwrap();
            if let Some(cluster) = it.cluster {
                write!(text, " {cluster}").unwrap();
            }
            if let Some(local) = it.local {
                write!(text, " | local: {local}").unwrap();
            }
            text.push('\n');
        }
    }
}

const FLAGS: [(ServiceFlags, &str); 9] = [
    (ServiceFlags::AFFINITY, "affinity"),
    (ServiceFlags::LOCAL_ONLY, "local-only"),
    (ServiceFlags::SCOPED, "scoped"),
    (ServiceFlags::SOURCES, "sources"),
    (ServiceFlags::MAGLEV, "maglev"),
    (ServiceFlags::DIRECT_RETURN, "direct-return"),
    (ServiceFlags::DROP_EMPTY, "drop-empty"),
    (ServiceFlags::NODE_PORT, "node-port"),
    (ServiceFlags::CLUSTER_IP, "cluster-ip"),
];

/// The maps, without numbers that depend on the order of events.
fn words(maps: &Current) -> String {
    let mut text = String::new();
    let mut nodes: Vec<_> = maps.nodes.iter().collect();
    nodes.sort();
    for (address, flags) in nodes {
        write!(text, "node {address}").unwrap();
        for (flag, word) in [
            (NodeFlags::PORTS, " ports"),
            (NodeFlags::LOOPBACK, " loopback"),
        ] {
            text += if flags.contains(flag) { word } else { "" };
        }
        text.push('\n');
    }
    let mut inside: Vec<_> = maps.inside.iter().collect();
    inside.sort();
    for range in inside {
        writeln!(text, "inside {range}").unwrap();
    }
    let mut entries: Vec<_> = maps.services.iter().collect();
    entries.sort();
    for (key, entry) in entries {
        let scope = if key.scope == Scope::EXTERNAL {
            " from outside"
        } else {
            ""
        };
        let socket = SocketAddr::new(key.address.into(), key.port.get());
        write!(text, "{} {socket}{scope}:", key.protocol).unwrap();
        for (_, word) in FLAGS.iter().filter(|(flag, _)| entry.flags.contains(*flag)) {
            write!(text, " {word}").unwrap();
        }
        if entry.affinity_seconds > 0 {
            write!(text, " {} s", entry.affinity_seconds).unwrap();
        }
        if entry.table > 0 {
            write!(text, " table of {}", entry.table).unwrap();
        }
        let name = maps.names.get(&entry.set).expect("every set has a name");
        writeln!(text, " [{name}]").unwrap();
        if entry.flags.contains(ServiceFlags::SOURCES) {
            let its = maps.sources.iter().filter(|(set, _)| *set == entry.set);
            let mut its: Vec<_> = its.map(|(_, range)| range.to_string()).collect();
            its.sort();
            writeln!(text, "  only from {}", its.join(" ")).unwrap();
        }
        let mut backends = maps.backends(entry).expect("no entry is torn");
        backends.sort();
        for it in backends {
            let socket = SocketAddr::new(it.address.into(), it.port.get());
            let local = it.flags.contains(BackendFlags::LOCAL);
            let ending = it.flags.contains(BackendFlags::TERMINATING);
            let words = [(local, " local"), (ending, " terminating")];
            let words: String = words
                .iter()
                .filter(|(is, _)| *is)
                .map(|(_, word)| *word)
                .collect();
            writeln!(text, "  {socket}{words}").unwrap();
        }
    }
    text
}

#[test]
fn maps_hold_what_the_reviewed_files_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/situations");
    let bless = std::env::var_os("ORLOP_BLESS").is_some();
    let (mut read, mut wrong) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "yaml") {
            continue;
        }
        read += 1;
        let outcome = Objects::read(&std::fs::read_to_string(&path).unwrap()).outcome();
        let expected = path.with_extension("txt");
        if bless {
            std::fs::write(&expected, &outcome).unwrap();
        }
        if std::fs::read_to_string(&expected).unwrap_or_default() != outcome {
            wrong.push(format!("{} is now:\n{outcome}", expected.display()));
        }
    }
    assert!(read >= 16, "{read}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
