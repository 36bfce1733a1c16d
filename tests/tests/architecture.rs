//! Forbidden dependencies: the invariants of ARCHITECTURE.md, checked with `cargo metadata`. A new
//! crate that violates one fails here, with its path.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};

mod documents;
mod module_cycles;
mod sources;

use sources::{lines_without_tests, only_falls, production_sources, root};

struct Graph {
    members: BTreeSet<String>,
    /// Normal and build dependencies, not those of tests.
    edges: BTreeMap<String, BTreeSet<String>>,
    inherit_lints: BTreeMap<String, bool>,
    /// Where the members' manifests are.
    folders: BTreeMap<String, std::path::PathBuf>,
}

fn graph() -> Graph {
    let metadata: Metadata = MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .exec()
        .expect("cargo metadata");
    let names: BTreeMap<PackageId, String> = metadata
        .packages
        .iter()
        .map(|package| (package.id.clone(), package.name.to_string()))
        .collect();
    let members = metadata
        .workspace_members
        .iter()
        .map(|id| names[id].clone())
        .collect();
    let inherit_lints = metadata
        .workspace_packages()
        .iter()
        .map(|package| {
            let manifest = std::fs::read_to_string(&package.manifest_path).expect("manifest");
            let inherits = manifest.contains("[lints]\nworkspace = true");
            (package.name.to_string(), inherits)
        })
        .collect();
    let folders = metadata
        .workspace_packages()
        .iter()
        .filter_map(|package| {
            let folder = package.manifest_path.parent()?;
            Some((package.name.to_string(), folder.into()))
        })
        .collect();
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in metadata.resolve.expect("a resolved graph").nodes {
        let from = edges.entry(names[&node.id].clone()).or_default();
        for dependency in node.deps {
            if dependency
                .dep_kinds
                .iter()
                .any(|kind| kind.kind != DependencyKind::Development)
            {
                from.insert(names[&dependency.pkg].clone());
            }
        }
    }
    Graph {
        members,
        edges,
        inherit_lints,
        folders,
    }
}

impl Graph {
    /// The shortest way from a crate to another, for the failure's message.
    fn path(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut seen = BTreeSet::from([from.to_owned()]);
        let mut queue = VecDeque::from([vec![from.to_owned()]]);
        while let Some(path) = queue.pop_front() {
            for next in self.edges.get(path.last()?).into_iter().flatten() {
                let mut path = path.clone();
                path.push(next.clone());
                if next == to {
                    return Some(path);
                }
                if seen.insert(next.clone()) {
                    queue.push_back(path);
                }
            }
        }
        None
    }

    fn forbid(&self, from: &[&str], to: &[&str]) {
        for from in from {
            assert!(
                self.members.contains(*from),
                "`{from}` is no member of the workspace: rename it here too"
            );
            for to in to {
                if let Some(path) = self.path(from, to) {
                    panic!("`{from}` must not depend on `{to}`: {}", path.join(" → "));
                }
            }
        }
    }
}

/// Async runtimes, network, and aya.
const IMPURE: &[&str] = &[
    "tokio", "hyper", "rustls", "tonic", "socket2", "mio", "aya", "redb",
];

/// Crates whose functions are pure: what they decide follows from their arguments.
const PURE: &[&str] = &[
    "control-types",
    "control-kinds",
    "control-cel",
    "control-devices",
    "control-fields",
    "control-fairness",
    "control-metrics",
    "control-import",
    "control-load-balancer",
    "control-openapi",
    "node-agent-plan",
    "node-agent-policy",
    "ebpf-abi",
    "ebpf-logic",
    "xtask-oci",
];

#[test]
fn pure_crates_know_no_runtime_no_network_and_no_aya() {
    graph().forbid(PURE, IMPURE);
}

/// What a pure crate does not name of the standard library. Addresses of `std::net` are
/// plain data.
const IMPURE_STANDARD: &[&str] = &[
    "std::fs",
    "std::process",
    "std::os",
    "std::thread",
    "TcpListener",
    "TcpStream",
    "ToSocketAddrs",
    "UdpSocket",
    "UnixStream",
];

#[test]
fn pure_crates_touch_no_files_no_sockets_and_no_processes() {
    let sources = production_sources();
    let mut wrong = Vec::new();
    // Its dependencies know certificates, and its own code neither files nor waiting.
    let is_pure = |package: &str| PURE.contains(&package) || package == "control-access";
    for source in sources.iter().filter(|it| is_pure(&it.package)) {
        // `use std::{fs, …}` names a module of files, too.
        let text = source.text.replace("use std::{\n    ", "use std::");
        let text = text.replace("use std::{", "use std::");
        for word in IMPURE_STANDARD {
            if text.contains(word) {
                wrong.push(format!("{}: {word}", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn crates_that_documents_call_pure_are_listed() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let mut rows = 0;
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, name, _, unknown, _] = cells[..] else {
            continue;
        };
        if unknown.starts_with("I/O") {
            rows += 1;
            let package = name.trim_matches('`').replace('/', "-");
            assert!(PURE.contains(&&*package), "`{package}` is called pure");
        }
    }
    assert!(rows > 8, "the code map has {rows} rows of pure crates");
}

/// By crate: functions and types of production code whose error is a text. A failure that
/// somebody has to recognise, or that has a cause, is a type.
const TEXT_ERRORS: &[(&str, usize)] = &[];

#[test]
fn errors_are_types() {
    let pattern = regex::Regex::new(r"Result<[^;{}]*, String>").expect("a pattern");
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in production_sources() {
        for (number, line) in source.text.lines().enumerate() {
            let line = line.trim_start();
            if line.starts_with("//")
                || !pattern.is_match(line)
                || line.contains("Map<String, String>")
            {
                continue;
            }
            let text = format!("{}:{}: {line}", source.path, number + 1);
            found.entry(source.package.clone()).or_default().push(text);
        }
    }
    only_falls(&found, TEXT_ERRORS, "make the error a type");
}

/// By crate: messages of errors that print the error's source. Whoever logs an error
/// writes the chain of its sources.
const PRINTED_SOURCES: &[(&str, usize)] = &[];

#[test]
fn messages_do_not_print_their_source() {
    let pattern = regex::Regex::new(r#"#\[error\(\s*"[^"]*\{source[:}]"#).expect("a pattern");
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in production_sources() {
        for hit in pattern.find_iter(&source.text) {
            let number = source.text[..hit.start()].matches('\n').count() + 1;
            let text = format!("{}:{number}", source.path);
            found.entry(source.package.clone()).or_default().push(text);
        }
    }
    only_falls(&found, PRINTED_SOURCES, "leave the source to the log");
}

#[test]
fn what_speaks_the_api_never_sees_the_store() {
    let graph = graph();
    graph.forbid(
        KUBELET_PARTS,
        &["control-store", "control-apiserver", "redb"],
    );
    graph.forbid(
        &[
            "control-client",
            "control-controllers",
            "control-scheduler",
            "control-serving",
            "node-agent",
            "node-agent-pods",
            "node-agent-announce",
            "node-agent-dns",
            "node-agent-informers",
            "node-agent-plan",
            "node-agent-policy",
            "node-agent-datapath",
            "node-agent-volumes",
        ],
        &["control-store", "control-apiserver", "redb"],
    );
}

/// What the workers of pods use, and what runs beside them.
const KUBELET_PARTS: &[&str] = &[
    "node-agent-cgroups",
    "node-agent-cri",
    "node-agent-csi-client",
    "node-agent-files",
    "node-agent-images",
    "node-agent-kubelet-config",
    "node-agent-kubelet-metrics",
    "node-agent-kubelet-server",
    "node-agent-node-lifecycle",
    "node-agent-objects",
    "node-agent-plugins",
    "node-agent-pod-registry",
    "node-agent-pod-resources",
    "node-agent-pod-volumes",
    "node-agent-probes",
    "node-agent-resource-managers",
    "node-agent-unix-grpc",
];

#[test]
fn parts_of_the_kubelet_know_no_worker() {
    let graph = graph();
    graph.forbid(KUBELET_PARTS, &["node-agent-pods", "node-agent"]);
    graph.forbid(
        &[
            "node-agent-cri",
            "node-agent-files",
            "node-agent-kubelet-metrics",
        ],
        &["control-client"],
    );
}

/// Files of the node agent that open watches of their own, each with the reason.
const OWN_WATCHES: &[(&str, &str)] = &[
    (
        "node-agent/informers/src/lib.rs",
        "opens those that all parts share",
    ),
    (
        "node-agent/agent/src/policy/mod.rs",
        "reads what only policy needs, as a service account where a server has no PodEndpoints",
    ),
    ("node-agent/agent/src/policy/kinds.rs", "likewise"),
    (
        "node-agent/objects/src/follow.rs",
        "watches single objects, since a node may read no others of these kinds",
    ),
];

#[test]
fn watches_of_an_agent_are_opened_by_its_informers() {
    let pattern = regex::Regex::new(r"\breflect(_resource)?(::<|\()").expect("a pattern");
    let sources = production_sources();
    let opening = sources
        .iter()
        .filter(|it| it.path.starts_with("node-agent/"));
    let opening = opening.filter(|it| pattern.is_match(&it.text));
    let opening: BTreeSet<&str> = opening.map(|it| it.path.as_str()).collect();
    let known: BTreeSet<&str> = OWN_WATCHES.iter().map(|(path, _)| *path).collect();
    assert_eq!(opening, known, "subscribe to the agent's informers instead");
}

#[test]
fn the_store_never_sees_a_kind() {
    graph().forbid(
        &["control-store", "control-etcd-api"],
        &["control-types", "control-kinds", "k8s-openapi", "kube-core"],
    );
}

#[test]
fn what_the_api_server_is_made_of_needs_no_store() {
    graph().forbid(
        &[
            "control-request",
            "control-tracing",
            "control-strategy",
            "control-proxy",
            "control-openapi",
            "control-admission",
            "control-audit",
        ],
        &["control-store", "control-watch-cache", "control-apiserver"],
    );
}

#[test]
fn handlers_of_objects_know_no_request_chain() {
    graph().forbid(
        &["control-registry"],
        &["control-apiserver", "control-fairness", "control-openapi"],
    );
}

#[test]
fn what_the_request_chain_calls_does_not_know_it() {
    graph().forbid(
        &[
            "control-aggregation",
            "control-audit",
            "control-auth",
            "control-connect",
            "control-discovery",
            "control-flow-control",
            "control-metrics-server",
        ],
        &["control-apiserver"],
    );
    // Nor do its parts know each other, but for discovery, which shows other servers' groups.
    graph().forbid(
        &["control-aggregation", "control-auth", "control-connect"],
        &["control-audit", "control-flow-control", "control-discovery"],
    );
}

/// Packages on which Orlop is to be built, by the wish of those who ordered it.
const WANTED: &[&str] = &[
    "aya",
    "aya-log",
    "tokio",
    "netlink-packet-route",
    "rtnetlink",
    "cni-plugin",
    "tonic",
    "etcd-client",
    "serde",
];

#[test]
fn packages_that_were_asked_for_are_used() {
    let graph = graph();
    for wanted in WANTED {
        let users: Vec<&String> = graph
            .members
            .iter()
            .filter(|member| graph.edges[*member].contains(*wanted))
            .collect();
        let word = format!("{}::", wanted.replace('-', "_"));
        let used = users
            .iter()
            .any(|user| sources(&graph.folders[*user]).any(|text| text.contains(&word)));
        assert!(
            used,
            "`{wanted}` is to be used; these depend on it: {users:?}"
        );
    }
}

/// The text of all of a crate's sources.
fn sources(folder: &std::path::Path) -> impl Iterator<Item = String> {
    let mut folders = vec![folder.join("src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                files.push(path);
            }
        }
    }
    files
        .into_iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
}

#[test]
fn only_the_datapath_knows_aya() {
    let graph = graph();
    let direct: Vec<&String> = graph
        .members
        .iter()
        .filter(|member| graph.edges[*member].contains("aya"))
        .collect();
    assert_eq!(direct, ["node-agent-datapath"]);
}

#[test]
fn plugins_see_neither_the_store_nor_the_apiserver() {
    graph().forbid(
        &["cni", "csi"],
        &["control-store", "control-apiserver", "control-client"],
    );
}

#[test]
fn every_crate_inherits_the_workspace_lints() {
    for (name, inherits) in graph().inherit_lints {
        assert!(
            inherits,
            "`{name}`: add [lints] workspace = true to its Cargo.toml"
        );
    }
}

#[test]
fn no_file_is_the_project_s_second_project() {
    // A file that has outgrown its reader's head is to be split. Test modules beside the
    // code are not counted; what stands after them is, and so are files of tests.
    let limit = 1000;
    let mut folders = vec![root()];
    let mut long = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if !["target", "generated", ".git"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(&path).expect("source");
                let lines = lines_without_tests(&text);
                if lines > limit {
                    long.push(format!("{}: {lines} lines", path.display()));
                }
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// The Rust sources below folders of the workspace, without those of tests: path and
/// text without its tests.
fn product_sources(below: &[&str]) -> Vec<(String, String)> {
    let is_below = |path: &str| {
        let mut folders = below.iter();
        folders.any(|it| path.strip_prefix(it).is_some_and(|it| it.starts_with('/')))
    };
    production_sources()
        .into_iter()
        .filter(|source| is_below(&source.path))
        .map(|source| (source.path, source.text))
        .collect()
}

#[test]
fn metrics_pages_have_one_writer() {
    let sources = product_sources(&["control", "node-agent", "csi", "cni"]);
    let wrong: Vec<_> = sources
        .iter()
        .filter(|(path, text)| {
            let writes = text.contains("# TYPE ") || text.contains("# HELP ");
            writes && !path.starts_with("control/metrics/")
        })
        .map(|(path, _)| path.as_str())
        .collect();
    assert!(
        wrong.is_empty(),
        "write metrics with `control_metrics::Page`: {}",
        wrong.join(", ")
    );
}

/// What `control-types` decides for all, by a text that a second decision would contain:
/// what to use instead, and which files may contain it nevertheless.
const EVALUATED_ONCE: &[(&str, &str, &[&str])] = &[
    ("struct Quantity ", "control_types::quantity::Quantity", &[]),
    ("enum QosClass ", "control_types::qos::QosClass", &[]),
    (
        "struct LabelSelector ",
        "control_types::label_selector::LabelSelector",
        // made of that one, for the snapshot
        &["control/scheduler/src/selector.rs"],
    ),
    (
        "struct LabelRequirement ",
        "control_types::label_selector::LabelRequirement",
        &[],
    ),
    ("fn matches_selector", "LabelSelector::matches", &[]),
    (
        "\"DoesNotExist\" => value.is_none()",
        "control_types::labels::Operator::holds",
        &[],
    ),
    (
        "\"Exists\" => value.is_some()",
        "control_types::labels::Operator::holds",
        &[],
    ),
    (
        "\"Exists\" => true",
        "control_types::taints::TolerationRef",
        // whether one toleration includes another
        &["control/kinds/src/admission/runtime_class.rs"],
    ),
    (
        "\"Ki\" => ",
        "control_types::quantity::Quantity",
        // how Go holds a quantity, not what it amounts to
        &["control/controllers/src/template_dump.rs"],
    ),
];

#[test]
fn evaluations_of_the_api_stand_once() {
    let mut wrong = Vec::new();
    let mut in_types = BTreeSet::new();
    for (path, text) in product_sources(&["control", "node-agent", "ebpf/logic", "csi", "cni"]) {
        for (word, instead, allowed) in EVALUATED_ONCE {
            if !text.contains(word) {
                continue;
            }
            if path.starts_with("control/types/") {
                in_types.insert(*instead);
            } else if !allowed.contains(&path.as_str()) {
                wrong.push(format!("{path}: `{word}`: use {instead}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for one in [
        "control_types::quantity::Quantity",
        "control_types::qos::QosClass",
        "control_types::taints::TolerationRef",
    ] {
        assert!(in_types.contains(one), "{one} is elsewhere: rename it here");
    }
}

/// Where tasks and threads are spawned without the supervisor, how many times at most,
/// and why nobody has to know of their end. Everything that is to run for as long as the
/// process is started by `control_supervise::task`.
const UNSUPERVISED: &[(&str, usize, &str)] = &[
    (
        "control/connectivity/src/probe/mod.rs",
        1,
        "a scoped thread",
    ),
    (
        "control/connectivity/src/probe/serve.rs",
        5,
        "a pod's own program: listeners and connections",
    ),
    (
        "control/connectivity/src/probe/stream.rs",
        1,
        "a scoped thread",
    ),
    (
        "control/aggregation/src/available.rs",
        1,
        "supervised before it is spawned",
    ),
    ("control/audit/src/lib.rs", 1, "the end of a request"),
    ("control/audit/src/log.rs", 1, "tidies old files once"),
    ("control/audit/src/sink.rs", 1, "one delivery"),
    ("control/auth/src/cluster_access.rs", 1, "a scoped thread"),
    ("control/auth/src/legacy.rs", 1, "one write"),
    (
        "control/apiserver/src/chain/handling.rs",
        1,
        "the end of a request",
    ),
    (
        "control/proxy/src/egress/konnectivity.rs",
        1,
        "a connection",
    ),
    ("control/proxy/src/egress/target.rs", 1, "a connection"),
    (
        "control/apiserver/src/listen/inline_executor.rs",
        2,
        "requests of a connection",
    ),
    ("control/apiserver/src/listen/mod.rs", 2, "connections"),
    ("control/proxy/src/upgrade.rs", 2, "connections"),
    (
        "control/registry/src/allocate/allocation.rs",
        1,
        "one write",
    ),
    ("control/registry/src/allocate/ports.rs", 1, "one write"),
    (
        "control/controllers/src/context.rs",
        1,
        "supervised before it is spawned",
    ),
    (
        "control/controllers/src/garbage/mod.rs",
        1,
        "supervised before it is spawned",
    ),
    (
        "control/controllers/src/lib.rs",
        1,
        "supervised before it is spawned",
    ),
    (
        "control/controllers/src/namespace/mod.rs",
        1,
        "one wait, beside a timer",
    ),
    (
        "control/controllers/src/quota.rs",
        1,
        "supervised before it is spawned",
    ),
    (
        "control/client/src/queue.rs",
        1,
        "supervised before it is spawned",
    ),
    (
        "control/kms/src/lib.rs",
        2,
        "a thread of a plugin, and a call",
    ),
    (
        "control/encryption/src/kms/mod.rs",
        1,
        "a thread whose end closes its channel",
    ),
    (
        "control/etcd/src/process.rs",
        2,
        "a process, and its output: its keeper is supervised",
    ),
    ("control/etcd/src/spawn.rs", 1, "a process"),
    ("control/etcd-api/src/server.rs", 1, "a connection"),
    (
        "control/orlop/src/commands/flows.rs",
        1,
        "a command that ends",
    ),
    ("control/orlop/src/memory/allocator.rs", 1, "wakes a thread"),
    (
        "control/orlop/src/run.rs",
        3,
        "the whole process, and its signals",
    ),
    ("control/serving/src/accept.rs", 1, "a connection"),
    ("control/scheduler/src/run/bind.rs", 1, "one binding"),
    (
        "control/scheduler/src/run/failure.rs",
        3,
        "one write, and the evictions or the deallocation of one pod",
    ),
    ("control/scheduler/src/run/gang.rs", 1, "one status write"),
    (
        "control/store/src/embedded/mod.rs",
        1,
        "a thread that is supervised",
    ),
    ("control/supervise/src/task.rs", 2, "the supervisor"),
    (
        "node-agent/agent/src/addresses/attach.rs",
        1,
        "a scoped thread",
    ),
    ("node-agent/agent/src/cleanup/mod.rs", 1, "a process"),
    ("node-agent/agent/src/flows/serve.rs", 1, "a request"),
    (
        "node-agent/agent/src/lib.rs",
        4,
        "supervised before they are spawned",
    ),
    ("node-agent/agent/src/lines.rs", 1, "a connection"),
    (
        "node-agent/agent/src/parts.rs",
        1,
        "supervised before they are spawned",
    ),
    (
        "node-agent/agent/src/policy/grace.rs",
        1,
        "one wait, whose end is awaited",
    ),
    (
        "node-agent/agent/src/kube_proxy_takeover/api_responses.rs",
        1,
        "a connection that is tried twice",
    ),
    (
        "node-agent/agent/src/routes/netlink.rs",
        1,
        "a connection to the kernel",
    ),
    ("node-agent/agent/src/services/http.rs", 1, "a connection"),
    (
        "node-agent/agent/src/services/interfaces.rs",
        1,
        "a connection to the kernel",
    ),
    (
        "node-agent/agent/src/services/local_api.rs",
        1,
        "a connection",
    ),
    (
        "node-agent/agent/src/services/stale_sockets.rs",
        1,
        "a thread whose end closes its channel",
    ),
    (
        "node-agent/announce/src/bgp/mod.rs",
        1,
        "supervised before it is spawned",
    ),
    (
        "node-agent/announce/src/l2/mod.rs",
        2,
        "an interface, which is opened again",
    ),
    (
        "node-agent/announce/src/lib.rs",
        3,
        "supervised before they are spawned",
    ),
    ("csi/src/metrics.rs", 1, "a connection"),
    ("csi/src/server.rs", 1, "a connection"),
    (
        "csi/src/tool.rs",
        3,
        "a program, and threads that end with its streams",
    ),
    ("node-agent/datapath/src/loader.rs", 2, "scoped threads"),
    (
        "node-agent/datapath/src/namespaces.rs",
        1,
        "a scoped thread",
    ),
    ("node-agent/datapath/src/probe.rs", 1, "a scoped thread"),
    (
        "node-agent/datapath/src/log.rs",
        1,
        "a thread of the kernel's log",
    ),
    (
        "node-agent/dns/src/server.rs",
        3,
        "requests, and one supervised before",
    ),
    (
        "node-agent/csi-client/src/allocatable.rs",
        1,
        "supervised before it is spawned",
    ),
    ("node-agent/images/src/providers.rs", 1, "a process"),
    (
        "node-agent/kubelet-server/src/log_query.rs",
        2,
        "a request, and its process",
    ),
    ("node-agent/kubelet-server/src/logs/mod.rs", 1, "a request"),
    ("node-agent/kubelet-server/src/streams.rs", 2, "connections"),
    (
        "node-agent/kubelet-server/src/websockets.rs",
        2,
        "connections",
    ),
    (
        "node-agent/pods/src/lib.rs",
        2,
        "supervised before they are spawned",
    ),
    ("node-agent/pods/src/manager.rs", 1, "one write"),
    ("node-agent/pods/src/manager/orphans.rs", 1, "one sweep"),
    ("node-agent/probes/src/http_get.rs", 1, "a connection"),
    (
        "node-agent/resource-managers/src/dra/plugins.rs",
        2,
        "deletions that are tried until done",
    ),
    ("node-agent/unix-grpc/src/server.rs", 1, "a connection"),
];

/// How often a source spawns something, before its tests.
fn spawns(text: &str) -> usize {
    let tests = text
        .match_indices("\n#[cfg(test)]\nmod ")
        .map(|(start, _)| start)
        .find(|start| {
            let named = text[*start..].lines().nth(2);
            named.is_some_and(|line| line.ends_with('{'))
        });
    let product = text[..tests.unwrap_or(text.len())].lines();
    product
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| {
            let plain = line.matches("tokio::spawn(").count() + line.matches(".spawn(").count();
            plain + line.matches(".spawn_on(").count() + line.matches("thread::spawn(").count()
        })
        .sum()
}

#[test]
fn long_lived_tasks_belong_to_the_supervisor() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = ["control", "node-agent", "csi"]
        .map(|it| root.join(it))
        .to_vec();
    let mut wrong = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if !["target", "tests", "benches", "examples", "fuzz"].contains(&name.as_str()) {
                    folders.push(path);
                }
                continue;
            }
            let is_test = [
                "tests.rs",
                "testing.rs",
                "fake.rs",
                "fake_api.rs",
                "live.rs",
            ]
            .contains(&name.as_str())
                || name.ends_with("_tests.rs");
            if is_test || !name.ends_with(".rs") {
                continue;
            }
            let found = spawns(&std::fs::read_to_string(&path).expect("source"));
            let short = path
                .strip_prefix(&root)
                .expect("below")
                .display()
                .to_string();
            let known = UNSUPERVISED.iter().find(|(file, ..)| *file == short);
            let allowed = known.map_or(0, |(_, count, _)| *count);
            if found > allowed {
                wrong.push(format!("{short}: {found} spawns, {allowed} allowed"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "start what lives long by `control_supervise::task`, and name here what does not:\n{}",
        wrong.join("\n")
    );
}

/// The names of all functions in the sources below a folder.
fn functions(root: &std::path::Path) -> BTreeSet<String> {
    let mut folders = vec![root.to_owned()];
    let mut names = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && !["target", ".git"].contains(&name.as_str()) {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(&path).expect("source");
                let after = text.split("fn ").skip(1);
                names.extend(after.map(|rest| {
                    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
                    rest[..end.unwrap_or(rest.len())].to_owned()
                }));
            }
        }
    }
    names
}

/// Each row of the threat model's tables ends with the test that shows it, or with the
/// reason why there is none.
#[test]
fn every_line_of_the_threat_model_has_a_test_that_exists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page =
        std::fs::read_to_string(root.join("docs/explanation/threat-model.md")).expect("the page");
    let functions = functions(&root);
    let mut wrong = Vec::new();
    let mut rows = 0;
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let last = row.trim_end_matches('|').rsplit('|').next();
        let shown = last.unwrap_or_default().trim();
        if shown == "test" || shown.starts_with("---") {
            continue;
        }
        rows += 1;
        if shown.is_empty() {
            wrong.push(format!("no test and no reason: {row}"));
        }
    }
    // Tests are named in code spans, with the module, the file or neither before them.
    for span in page.split('`').skip(1).step_by(2) {
        let name = span.rsplit([':', ' ', '…']).next().unwrap_or_default();
        let is_test = name.matches('_').count() > 2 || span.contains(".rs: ");
        if is_test && !functions.contains(name) {
            wrong.push(format!("no such test: {span}"));
        }
    }
    assert!(rows > 20, "the page has {rows} rows");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
