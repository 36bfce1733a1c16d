//! Decides which node makes the volume of a claim.

use std::fmt;

use control_client::{Meta, Resource, View};
use control_types::quantity::{Format, Quantity};
use serde::Deserialize;
use serde_json::json;

use crate::hash;
use crate::views::{Claim, Node, StorageClass, Text, Volume};

/// Name of the driver.
pub(in crate::volumes) const DRIVER: &str = "csi.orlop.dev";
/// Topology key that ties a volume, and a node's capacity, to a node.
pub(super) const NODE_KEY: &str = "topology.csi.orlop.dev/node";
/// The node on which the volume of a claim is made.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The provisioner of a claim that waits for no consumer.
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

/// The source of the data that a new volume is a copy of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CopySource {
    /// The volume begins empty.
    None,
    /// The data is on this node.
    On(Text),
    /// The source is not bound or not ready yet.
    Pending,
    /// The data is elsewhere, or a populator brings it.
    Foreign,
}

/// How much a node can have of a class (CSIStorageCapacity).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCapacity {
    /// Its name.
    pub metadata: Meta,
    /// Bytes that are left.
    pub capacity: Option<Text>,
    /// The largest volume.
    pub maximum_volume_size: Option<Text>,
    /// Labels of the node.
    pub node_topology: Topology,
    /// The class.
    pub storage_class_name: Text,
}

/// A label selector, of which only the driver's key is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Topology {
    /// Labels that must be equal.
    pub match_labels: NodeLabel,
}

/// The node of a topology.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct NodeLabel {
    /// Name of the node.
    #[serde(rename = "topology.csi.orlop.dev/node")]
    pub node: Text,
}

impl View for NodeCapacity {
    const RESOURCE: Resource = Resource::namespaced(
        "storage.k8s.io",
        "v1",
        "csistoragecapacities",
        "CSIStorageCapacity",
    );

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl NodeCapacity {
    /// Returns the size of the largest volume that it has space for, in bytes.
    pub(super) fn largest(&self) -> Option<i64> {
        let left = bytes(self.capacity.as_ref())?;
        let largest = bytes(self.maximum_volume_size.as_ref());
        Some(largest.map_or(left, |largest| left.min(largest)))
    }
}

/// The reason why no node can provide the volume of a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoSpace {
    /// No node has storage of this class.
    NoStorage { class: Text },
    /// The volume is larger than what any node has left.
    TooLarge {
        class: Text,
        wanted: Text,
        most: i64,
    },
}

impl NoSpace {
    /// Returns the part that does not change while the claim waits.
    pub(super) const fn cause(&self) -> &'static str {
        match self {
            Self::NoStorage { .. } => "no storage",
            Self::TooLarge { .. } => "too large",
        }
    }
}

/// The message for the claim's author.
impl fmt::Display for NoSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStorage { class } => {
                write!(f, "no node that takes pods has storage of class {class}")
            }
            Self::TooLarge {
                class,
                wanted,
                most,
            } => {
                let most = Quantity::new(*most, Format::BinarySI).canonical();
                write!(
                    f,
                    "no node that takes pods has {wanted} left of storage class {class}, the \
                     most is {most}: delete volumes or add space"
                )
            }
        }
    }
}

/// The objects that a decision depends on.
pub(super) struct ClaimSnapshot<'a> {
    pub claim: &'a Claim,
    pub class: Option<&'a StorageClass>,
    /// The volume that the claim is bound to.
    pub volume: Option<&'a Volume>,
    pub source: CopySource,
}

/// The next step for a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NodeChoice {
    /// It has a node, needs none, or the scheduler selects it.
    Nothing,
    /// This node has its volume or its source.
    Select(Text),
    /// Any node with enough space will do ([`choose`]).
    Choose,
    /// Its source has to be there first.
    Wait,
}

/// Returns the next step for a claim.
pub(super) fn decide(snapshot: &ClaimSnapshot<'_>) -> NodeChoice {
    let claim = snapshot.claim;
    let annotations = &claim.metadata.annotations;
    let is_selected = annotations
        .get(SELECTED_NODE)
        .is_some_and(|it| !it.is_empty());
    if is_selected || claim.metadata.is_terminating() {
        return NodeChoice::Nothing;
    }
    if !claim.spec.volume_name.is_empty() {
        // A volume that was there before its claim: its node grows it and takes snapshots.
        let volume = snapshot.volume.filter(|volume| {
            let reference = volume.spec.claim_ref.as_ref();
            reference.is_some_and(|reference| reference.uid == claim.metadata.uid)
        });
        let node = volume.and_then(node_of);
        return node.map_or(NodeChoice::Nothing, |node| NodeChoice::Select(node.into()));
    }
    let Some(class) = snapshot.class.filter(|class| class.provisioner == DRIVER) else {
        return NodeChoice::Nothing;
    };
    match &snapshot.source {
        CopySource::On(node) => NodeChoice::Select(node.clone()),
        CopySource::Pending => NodeChoice::Wait,
        CopySource::Foreign => NodeChoice::Nothing,
        CopySource::None if class.waits_for_consumer() => NodeChoice::Nothing,
        // The binder looked for a volume that exists and found none.
        CopySource::None if annotations.get(PROVISIONER) == Some(DRIVER) => NodeChoice::Choose,
        CopySource::None => NodeChoice::Nothing,
    }
}

/// Returns the node that alone has a volume of the driver.
pub(in crate::volumes) fn node_of(volume: &Volume) -> Option<&str> {
    volume
        .spec
        .csi
        .as_ref()
        .filter(|csi| csi.driver == DRIVER)?;
    let [term] = volume
        .spec
        .node_affinity
        .required
        .node_selector_terms
        .as_slice()
    else {
        return None;
    };
    let [expression] = term.match_expressions.as_slice() else {
        return None;
    };
    match expression.values.as_slice() {
        [node] if expression.key == NODE_KEY && expression.operator == "In" => Some(node),
        _ => None,
    }
}

/// Returns the node for a claim without a selected node: of the schedulable ones with
/// enough space, the one with the fewest volumes, existing or planned; ties are broken by
/// a hash of the claim.
///
/// A node's reported space makes it a candidate but no better than others, so that a node
/// cannot attract claims by reporting much.
pub(super) fn choose(
    claim: &Claim,
    class: &StorageClass,
    nodes: &[impl AsRef<Node>],
    capacities: &[impl AsRef<NodeCapacity>],
    volumes: &[impl AsRef<Volume>],
    claims: &[impl AsRef<Claim>],
) -> Option<Text> {
    let wanted = bytes(claim.spec.resources.requests.storage.as_ref()).unwrap_or(0);
    let fits = |capacity: &&NodeCapacity| {
        capacity.storage_class_name == class.metadata.name
            && capacity.largest().is_some_and(|bytes| bytes >= wanted)
    };
    let count = |name: &str| {
        let volumes = volumes.iter().map(AsRef::<Volume>::as_ref);
        let there = volumes.filter(|volume| node_of(volume) == Some(name));
        let claims = claims.iter().map(AsRef::<Claim>::as_ref);
        let coming = claims.filter(|claim| {
            claim.spec.volume_name.is_empty()
                && claim.metadata.annotations.get(SELECTED_NODE) == Some(name)
        });
        there.count() + coming.count()
    };
    let capacities = capacities.iter().map(AsRef::<NodeCapacity>::as_ref);
    let candidates = capacities.filter(fits);
    let candidates = candidates.map(|capacity| &capacity.node_topology.match_labels.node);
    let candidates = candidates.filter(|node| may_have(nodes, class, node));
    let share = |node: &Text| hash::digest64(&json!([claim.metadata.uid, node]), "");
    candidates
        .min_by_key(|node| (count(node), share(node)))
        .cloned()
}

/// Returns why [`choose`] finds no node for a claim.
pub(super) fn no_space(
    claim: &Claim,
    class: &StorageClass,
    nodes: &[impl AsRef<Node>],
    capacities: &[impl AsRef<NodeCapacity>],
) -> NoSpace {
    let name = &class.metadata.name;
    let capacities = capacities.iter().map(AsRef::<NodeCapacity>::as_ref);
    let own = capacities.filter(|capacity| {
        let node = &capacity.node_topology.match_labels.node;
        capacity.storage_class_name == *name && may_have(nodes, class, node)
    });
    let wanted = claim.spec.resources.requests.storage.as_ref();
    match own.filter_map(NodeCapacity::largest).max() {
        None => NoSpace::NoStorage {
            class: name.clone(),
        },
        Some(most) => NoSpace::TooLarge {
            class: name.clone(),
            wanted: wanted.cloned().unwrap_or_else(|| "0".into()),
            most,
        },
    }
}

/// Whether a node is ready and open to pods.
pub(super) fn takes_pods(node: &Node) -> bool {
    let mut conditions = node.status.conditions.iter();
    let is_ready = conditions.any(|it| it.r#type == "Ready" && it.status == "True");
    is_ready && !node.spec.unschedulable
}

/// Whether a node takes pods, and volumes of a class.
fn may_have(nodes: &[impl AsRef<Node>], class: &StorageClass, name: &Text) -> bool {
    let mut nodes = nodes.iter().map(AsRef::<Node>::as_ref);
    let is_open = nodes.any(|node| node.metadata.name == *name && takes_pods(node));
    is_open && class.allows(NODE_KEY, name)
}

fn bytes(text: Option<&Text>) -> Option<i64> {
    Some(Quantity::parse(text?).ok()?.value())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde::de::DeserializeOwned;
    use serde_json::Value;

    use super::*;

    fn of<T: DeserializeOwned>(object: Value) -> T {
        serde_json::from_value(object).expect("an object")
    }

    fn claim(annotations: Value, volume: &str) -> Claim {
        of(json!({
            "metadata": {"namespace": "d", "name": "c", "uid": "u1", "annotations": annotations},
            "spec": {"volumeName": volume, "storageClassName": "local",
                "resources": {"requests": {"storage": "2Gi"}}},
        }))
    }

    fn class(mode: &str) -> StorageClass {
        of(json!({"metadata": {"name": "local"}, "provisioner": DRIVER,
            "volumeBindingMode": mode}))
    }

    fn volume(node: &str, uid: &str) -> Volume {
        of(json!({"metadata": {"name": "v"}, "spec": {
            "csi": {"driver": DRIVER}, "claimRef": {"uid": uid},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": NODE_KEY, "operator": "In", "values": [node]}]}]}}}}))
    }

    fn decided(claim: &Claim, class: &StorageClass, source: CopySource) -> NodeChoice {
        decide(&ClaimSnapshot {
            claim,
            class: Some(class),
            volume: None,
            source,
        })
    }

    #[test]
    fn copy_is_made_on_the_node_of_its_source_whatever_the_binding_mode() {
        let on = CopySource::On("n2".into());
        for mode in ["Immediate", "WaitForFirstConsumer"] {
            let (free, class) = (claim(json!({}), ""), class(mode));
            let select = NodeChoice::Select("n2".into());
            assert_eq!(decided(&free, &class, on.clone()), select, "{mode}");
            assert_eq!(
                decided(&free, &class, CopySource::Pending),
                NodeChoice::Wait
            );
            assert_eq!(
                decided(&free, &class, CopySource::Foreign),
                NodeChoice::Nothing
            );
        }
        let has = claim(json!({SELECTED_NODE: "n1"}), "");
        assert_eq!(
            decided(&has, &class("Immediate"), on.clone()),
            NodeChoice::Nothing
        );
        let mut foreign = class("Immediate");
        foreign.provisioner = "other.example.com".into();
        assert_eq!(
            decided(&claim(json!({}), ""), &foreign, on),
            NodeChoice::Nothing
        );
    }

    #[test]
    fn node_is_chosen_for_a_claim_that_waits_for_nobody_once_it_is_handed_over() {
        let handed = claim(json!({PROVISIONER: DRIVER}), "");
        let immediate = class("Immediate");
        assert_eq!(
            decided(&handed, &immediate, CopySource::None),
            NodeChoice::Choose
        );
        let early = claim(json!({}), "");
        assert_eq!(
            decided(&early, &immediate, CopySource::None),
            NodeChoice::Nothing
        );
        let waits = class("WaitForFirstConsumer");
        assert_eq!(
            decided(&handed, &waits, CopySource::None),
            NodeChoice::Nothing
        );
    }

    #[test]
    fn claim_of_a_volume_that_was_there_before_is_shown_to_its_node() {
        let bound = claim(json!({}), "v");
        let decided = |volume: &Volume| {
            decide(&ClaimSnapshot {
                claim: &bound,
                class: None,
                volume: Some(volume),
                source: CopySource::None,
            })
        };
        assert_eq!(
            decided(&volume("n2", "u1")),
            NodeChoice::Select("n2".into())
        );
        assert_eq!(decided(&volume("n2", "other")), NodeChoice::Nothing);
    }

    const NO_CLAIMS: &[Arc<Claim>] = &[];

    fn node(name: &str, ready: &str, closed: bool) -> Arc<Node> {
        of(
            json!({"metadata": {"name": name}, "spec": {"unschedulable": closed},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}}),
        )
    }

    fn capacity(node: &str, bytes: &str) -> Arc<NodeCapacity> {
        of(json!({"storageClassName": "local", "capacity": bytes,
            "nodeTopology": {"matchLabels": {NODE_KEY: node}}}))
    }

    #[test]
    fn node_that_promises_most_gets_no_more_claims_than_others() {
        let nodes = [node("honest", "True", false), node("thief", "True", false)];
        let capacities = [capacity("honest", "4Gi"), capacity("thief", "8Ei")];
        let coming = Arc::new(claim(json!({SELECTED_NODE: "honest"}), ""));
        let (claim, class) = (claim(json!({}), ""), class("Immediate"));
        let volumes = [Arc::new(volume("thief", "x"))];
        let chosen = choose(&claim, &class, &nodes, &capacities, &volumes, NO_CLAIMS);
        assert_eq!(chosen.as_deref(), Some("honest"));
        let both = [coming.clone(), coming];
        let chosen = choose(&claim, &class, &nodes, &capacities, &volumes, &both);
        assert_eq!(
            chosen.as_deref(),
            Some("thief"),
            "two are on their way to the other"
        );
        // Without volumes, the claims decide: each node gets some.
        let none: [Arc<Volume>; 0] = [];
        let chosen = |uid: usize| {
            let mut claim = claim.clone();
            claim.metadata.uid = format!("u{uid}").into();
            choose(&claim, &class, &nodes, &capacities, &none, NO_CLAIMS)
        };
        let honest = (0..200).filter(|uid| chosen(*uid).as_deref() == Some("honest"));
        let honest = honest.count();
        assert!((50..150).contains(&honest), "{honest} of 200");
    }

    #[test]
    fn closed_lost_full_and_unknown_nodes_are_not_chosen() {
        let (claim, class) = (claim(json!({}), ""), class("Immediate"));
        let none: [Arc<Volume>; 0] = [];
        let nodes = [
            node("closed", "True", true),
            node("lost", "Unknown", false),
            node("full", "True", false),
        ];
        let mut capacities = vec![
            capacity("closed", "4Gi"),
            capacity("lost", "4Gi"),
            capacity("full", "1Gi"),
            capacity("deleted", "4Gi"),
        ];
        assert_eq!(
            choose(&claim, &class, &nodes, &capacities, &none, NO_CLAIMS),
            None
        );
        let why = no_space(&claim, &class, &nodes, &capacities);
        assert_eq!(why.cause(), "too large");
        let said = why.to_string();
        assert!(
            said.contains("2Gi left of storage class local, the most is 1Gi"),
            "closed and lost nodes have more: {said}"
        );
        capacities.push(capacity("full", "2Gi"));
        let chosen = choose(&claim, &class, &nodes, &capacities, &none, NO_CLAIMS);
        assert_eq!(chosen.as_deref(), Some("full"));
        let elsewhere: StorageClass = of(json!({"metadata": {"name": "local"},
            "provisioner": DRIVER, "allowedTopologies": [{"matchLabelExpressions": [
                {"key": NODE_KEY, "values": ["other"]}]}]}));
        assert_eq!(
            choose(&claim, &elsewhere, &nodes, &capacities, &none, NO_CLAIMS),
            None
        );
        let why = no_space(&claim, &elsewhere, &nodes, &capacities);
        assert_eq!(why.cause(), "no storage");
        assert_eq!(
            why.to_string(),
            "no node that takes pods has storage of class local"
        );
    }
}
