//! Indexes pods and attachments by node, so that nothing is searched for.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::key::Key;
use crate::views::{Pod, Text, VolumeAttachment};
use crate::volumes::pods::claim_name;

/// The index. Only pods that use claims and are on nodes are in it.
#[derive(Debug, Default)]
pub(super) struct Index {
    pods_by_node: HashMap<Text, BTreeSet<Key>>,
    nodes_by_claim: HashMap<Key, BTreeMap<Key, Text>>,
    attachments_by_node: HashMap<Text, BTreeSet<Text>>,
    nodes_by_volume: HashMap<Text, BTreeMap<Text, Text>>,
}

/// The claims of a pod.
pub(super) fn claims_of(pod: &Pod) -> impl Iterator<Item = Key> {
    let names = pod
        .spec
        .volumes
        .iter()
        .filter_map(|volume| claim_name(pod, volume));
    names.map(|name| Key::new(pod.metadata.namespace.clone(), name))
}

/// Removes an entry of a map of sets, and the set with its last one.
macro_rules! remove {
    ($map:expr, $key:expr, $entry:expr) => {
        if let Some(entries) = $map.get_mut($key) {
            entries.remove($entry);
            if entries.is_empty() {
                $map.remove($key);
            }
        }
    };
}

impl Index {
    pub(super) fn pod_changed(&mut self, previous: Option<&Pod>, current: Option<&Pod>) {
        if let Some(pod) = previous {
            let key = Key::from_meta(&pod.metadata);
            remove!(self.pods_by_node, &pod.spec.node_name, &key);
            for claim in claims_of(pod) {
                remove!(self.nodes_by_claim, &claim, &key);
            }
        }
        let placed = current.filter(|pod| !pod.spec.node_name.is_empty());
        if let Some(pod) = placed
            && claims_of(pod).next().is_some()
        {
            let (key, node) = (Key::from_meta(&pod.metadata), &pod.spec.node_name);
            let pods = self.pods_by_node.entry(node.clone()).or_default();
            pods.insert(key.clone());
            for claim in claims_of(pod) {
                let nodes = self.nodes_by_claim.entry(claim).or_default();
                nodes.insert(key.clone(), node.clone());
            }
        }
    }

    pub(super) fn attachment_changed(
        &mut self,
        previous: Option<&VolumeAttachment>,
        current: Option<&VolumeAttachment>,
    ) {
        let volume = |attachment: &VolumeAttachment| {
            let source = &attachment.spec.source;
            source.persistent_volume_name.clone().unwrap_or_default()
        };
        if let Some(attachment) = previous {
            let (name, node) = (&attachment.metadata.name, &attachment.spec.node_name);
            remove!(self.attachments_by_node, node, name);
            remove!(self.nodes_by_volume, &volume(attachment), name);
        }
        if let Some(attachment) = current {
            let (name, node) = (&attachment.metadata.name, &attachment.spec.node_name);
            let names = self.attachments_by_node.entry(node.clone()).or_default();
            names.insert(name.clone());
            let nodes = self.nodes_by_volume.entry(volume(attachment)).or_default();
            nodes.insert(name.clone(), node.clone());
        }
    }

    /// The pods of a node.
    pub(super) fn pods(&self, node: &str) -> Vec<Key> {
        let pods = self.pods_by_node.get(node);
        pods.into_iter().flatten().cloned().collect()
    }

    /// The pods that use a claim, and their nodes.
    pub(super) fn users(&self, claim: &Key) -> Vec<(Key, Text)> {
        let users = self.nodes_by_claim.get(claim).into_iter().flatten();
        users
            .map(|(pod, node)| (pod.clone(), node.clone()))
            .collect()
    }

    /// The attachments to a node.
    pub(super) fn attachments(&self, node: &str) -> Vec<Text> {
        let names = self.attachments_by_node.get(node);
        names.into_iter().flatten().cloned().collect()
    }

    /// The attachments of a volume, and their nodes.
    pub(super) fn nodes(&self, volume: &str) -> impl Iterator<Item = (&Text, &Text)> {
        self.nodes_by_volume.get(volume).into_iter().flatten()
    }
}
