//! What must not depend on what: the invariants of ARCHITECTURE.md, over
//! `cargo metadata`. A new crate that breaks one fails here, with its path.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};

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

#[test]
fn pure_crates_know_no_runtime_no_network_and_no_aya() {
    graph().forbid(
        &[
            "control-types",
            "control-kinds",
            "control-cel",
            "control-fields",
            "control-fairness",
            "control-load-balancer",
            "node-agent-plan",
            "node-agent-policy",
            "ebpf-abi",
            "ebpf-logic",
        ],
        IMPURE,
    );
}

#[test]
fn what_speaks_the_api_never_sees_the_store() {
    graph().forbid(
        &[
            "control-client",
            "control-controllers",
            "control-scheduler",
            "node-agent",
            "node-agent-pods",
            "node-agent-announce",
            "node-agent-dns",
            "node-agent-plan",
            "node-agent-policy",
            "node-agent-datapath",
        ],
        &["control-store", "control-apiserver", "redb"],
    );
}

#[test]
fn the_store_never_sees_a_kind() {
    graph().forbid(
        &["control-store"],
        &["control-types", "control-kinds", "k8s-openapi", "kube-core"],
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
        &["cni"],
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
    // A file that has outgrown its reader's head is to be split (lines before tests).
    let limit = 1000;
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![root];
    let mut long = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && !["target", "generated", ".git", "tests"].contains(&name.as_str()) {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(&path).expect("source");
                let lines = text
                    .lines()
                    .take_while(|line| !line.starts_with("#[cfg(test)]"))
                    .count();
                if lines > limit {
                    long.push(format!("{}: {lines} lines", path.display()));
                }
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}
