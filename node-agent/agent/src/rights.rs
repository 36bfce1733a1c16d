//! Holds the role of the manual and of the Helm chart, for an agent beside another kubelet, against what the
//! agent asks the API server for: a right too few keeps a part from working, and one too
//! many is a gift.

use std::{collections::BTreeSet, fs, path::Path};

use control_client::{Object, Resource};
use node_agent_announce::view as announced;
use node_agent_informers::{EndpointSlice, Node, Service};
use node_agent_objects::pod::Pod;
use serde::Deserialize;

use crate::{network, policy};

const MANUAL: &str = include_str!("../../../docs/how-to/keep-a-stock-kubelet.md");
/// What the Helm chart renders in mode `network`.
const MANIFEST: &str = include_str!("../deploy/manifests/network.yaml");

#[derive(Deserialize)]
struct ClusterRole {
    rules: Vec<PolicyRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PolicyRule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

/// API group, resource and verb.
type ResourceVerb = (String, String, &'static str);

const FOLLOWED: [&str; 2] = ["list", "watch"];

fn in_manual() -> BTreeSet<(String, String, String)> {
    let blocks = MANUAL.split("```yaml\n").skip(1);
    let mut blocks = blocks.filter_map(|it| it.split("```").next());
    allowed(blocks.find(|it| it.contains("kind: ClusterRole")))
}

fn in_chart() -> BTreeSet<(String, String, String)> {
    let mut documents = MANIFEST.split("\n---\n");
    allowed(documents.find(|it| {
        it.contains("\nkind: ClusterRole\n") && it.contains("\n  name: orlop-node-agent\n")
    }))
}

fn allowed(role: Option<&str>) -> BTreeSet<(String, String, String)> {
    let role: ClusterRole = serde_saphyr::from_str(role.expect("the role")).expect("YAML");
    let mut rights = BTreeSet::new();
    for rule in role.rules {
        for group in &rule.api_groups {
            for resource in &rule.resources {
                for verb in &rule.verbs {
                    let right = (group.clone(), resource.clone(), verb.clone());
                    assert!(rights.insert(right), "{resource}: {verb} stands twice");
                }
            }
        }
    }
    rights
}

fn rights(resource: &Resource, verbs: &[&'static str]) -> Vec<ResourceVerb> {
    let right = |verb: &&'static str| {
        (
            resource.group.to_string(),
            resource.plural.to_string(),
            *verb,
        )
    };
    verbs.iter().map(right).collect()
}

fn followed<V: Object>() -> Vec<ResourceVerb> {
    rights(&V::RESOURCE, &FOLLOWED)
}

/// What the parts of an agent that runs no pods ask for.
fn asked() -> BTreeSet<ResourceVerb> {
    let written = |group: &str, resource: &str, verb| (group.to_owned(), resource.to_owned(), verb);
    let mut all = vec![
        // services
        followed::<Service>(),
        followed::<EndpointSlice>(),
        followed::<Node>(),
        followed::<Pod>(),
        vec![
            written("", "nodes/status", "patch"),
            written("", "events", "create"),
            written("", "events", "patch"),
            written("events.k8s.io", "events", "create"),
            written("events.k8s.io", "events", "patch"),
        ],
        // who asks for flows
        vec![
            written("authentication.k8s.io", "tokenreviews", "create"),
            written("authorization.k8s.io", "subjectaccessreviews", "create"),
        ],
        // routes
        rights(&network::SERVICE_CIDRS, &["list"]),
        // addresses
        rights(&control_client::resources::PODS, &["get"]),
        // announcements
        followed::<announced::IpPool>(),
        followed::<announced::L2Announcement>(),
        followed::<announced::BgpPeer>(),
        followed::<announced::BgpAdvertisement>(),
        followed::<announced::Announcer>(),
        rights(&announced::ANNOUNCERS, &["create", "patch"]),
    ];
    all.extend(policy::FOLLOWED.map(|resource| rights(&resource, &FOLLOWED)));
    all.into_iter().flatten().collect()
}

#[test]
fn the_roles_of_manual_and_chart_are_what_the_agent_asks_for_and_no_more() {
    let asked: BTreeSet<_> = asked()
        .into_iter()
        .map(|(group, resource, verb)| (group, resource, verb.to_owned()))
        .collect();
    for (place, allowed) in [("manual", in_manual()), ("chart", in_chart())] {
        let missing: Vec<_> = asked.difference(&allowed).collect();
        let idle: Vec<_> = allowed.difference(&asked).collect();
        assert!(
            missing.is_empty() && idle.is_empty(),
            "{place}: missing: {missing:?}, not asked for: {idle:?}"
        );
    }
}

/// Resources of the API's own that these sources name, each of which is among the rights
/// above or stands here with the reason why not.
#[test]
fn no_resource_is_named_that_the_role_does_not_know() {
    const KNOWN: [(&str, &str); 8] = [
        ("NODES", "nodes"),
        ("SERVICES", "services"),
        ("ENDPOINT_SLICES", "endpointslices"),
        ("PODS", "pods"),
        ("NAMESPACES", "namespaces"),
        ("NETWORK_POLICIES", "networkpolicies"),
        // The passwords of BGP peers: a Role of its own.
        ("SECRETS", ""),
        // Tokens of the account that reads pods where there are no PodEndpoints.
        ("SERVICE_ACCOUNTS", ""),
    ];
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    for folder in ["src", "../announce/src", "../informers/src"] {
        collect(&own.join(folder), &mut sources);
    }
    assert!(sources.len() > 50, "the sources are elsewhere");
    let resources: BTreeSet<_> = in_manual().into_iter().map(|it| it.1).collect();
    let mut named = BTreeSet::new();
    for text in sources {
        for after in text.split("resources::").skip(1) {
            let is_of_name = |it: &char| it.is_ascii_uppercase() || *it == '_';
            let name: String = after.chars().take_while(is_of_name).collect();
            named.insert(name);
        }
    }
    named.remove("");
    for name in named {
        let known = KNOWN.iter().find(|it| it.0 == name);
        let (_, plural) = known.unwrap_or_else(|| panic!("{name}: may the agent read it?"));
        assert!(plural.is_empty() || resources.contains(*plural), "{name}");
    }
}

fn collect(folder: &Path, sources: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("rights.rs") {
            sources.push(fs::read_to_string(&path).expect("a source"));
        }
    }
}
