//! The obvious decisions: for each node and each claim over all volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use control_client::StringMap;
use control_types::quantity::Quantity;
use control_types::volumes::AccessModes;

use super::cases::{BETA_ZONE, ZONE};
use crate::selector::NodeTerm;
use crate::view::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, Pod, PodClaim,
    StorageClass, VolumeAttachment, VolumeSource,
};
use crate::volumes::restrictions::pods_conflict;

pub(super) const DISK: &str = "node(s) had no available disk";
pub(super) const IN_USE: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
pub(super) const FULL: &str = "node(s) exceed max volume count";
pub(super) const OUT_OF_REACH: &str = "node(s) didn't match PersistentVolume's node affinity";
pub(super) const NO_VOLUME: &str = "node(s) didn't find available persistent volumes to bind";
pub(super) const NO_SPACE: &str = "node(s) did not have enough free storage";
pub(super) const NO_ZONE: &str = "node(s) had no available volume zone";

/// The input of the reference implementation.
pub(super) struct Reference<'a> {
    pub(super) nodes: &'a BTreeMap<String, StringMap>,
    pub(super) volumes: Vec<PersistentVolume>,
    pub(super) claims: Vec<PersistentVolumeClaim>,
    pub(super) classes: Vec<StorageClass>,
    pub(super) csi_nodes: Vec<CsiNode>,
    pub(super) drivers: Vec<CsiDriver>,
    pub(super) capacities: Vec<CsiStorageCapacity>,
    pub(super) attachments: Vec<VolumeAttachment>,
    pub(super) placed: &'a [(Arc<Pod>, String)],
}

pub(super) type Reasons = BTreeSet<&'static str>;

fn reaches(terms: Option<&[NodeTerm]>, labels: &StringMap) -> bool {
    terms.is_none_or(|terms| {
        terms.iter().any(|term| {
            term.valid
                && term.names.iter().all(|(only, _)| !only)
                && term
                    .labels
                    .iter()
                    .all(|it| it.operator.matches(labels.get(&it.key)))
        })
    })
}

impl Reference<'_> {
    fn claim(&self, name: &str) -> Option<&PersistentVolumeClaim> {
        self.claims.iter().find(|claim| claim.metadata.name == name)
    }

    fn names<'a>(&self, pod: &'a Pod) -> Vec<&'a str> {
        let mut names = Vec::new();
        for claim in &pod.claims {
            if let PodClaim::Volume { name, .. } = claim
                && !names.contains(&name.as_str())
            {
                names.push(name.as_str());
            }
        }
        names
    }

    pub(super) fn restrictions(&self, pod: &Pod, node: &str) -> Reasons {
        let here = self.placed.iter().filter(|(_, at)| at == node);
        for (other, _) in here {
            if pods_conflict(pod, other) {
                return [DISK].into();
            }
        }
        let exclusive: AccessModes = ["ReadWriteOncePod"].iter().collect();
        for name in self.names(pod) {
            let claim = self.claim(name).expect("a claim");
            let used = self
                .placed
                .iter()
                .any(|(other, _)| self.names(other).contains(&name));
            if claim.access_modes.contains_all(exclusive) && used {
                return [IN_USE].into();
            }
        }
        Reasons::new()
    }

    fn attachable(&self, claim: &PersistentVolumeClaim) -> Option<(String, String)> {
        let volume = self
            .volumes
            .iter()
            .find(|volume| volume.metadata.name == claim.volume_name);
        match volume.map(|volume| &volume.source) {
            Some(VolumeSource::Csi { driver, handle }) => {
                Some((driver.to_string(), handle.to_string()))
            }
            Some(_) => None,
            None => {
                let class = self
                    .classes
                    .iter()
                    .find(|class| class.metadata.name == claim.class)?;
                let claim = format!("claim {}", claim.metadata.name);
                Some((class.provisioner.to_string(), claim))
            }
        }
    }

    fn used(&self, pod: &Pod) -> BTreeSet<(String, String)> {
        let mut used = BTreeSet::new();
        for name in self.names(pod) {
            used.extend(self.claim(name).and_then(|claim| self.attachable(claim)));
        }
        for disk in &pod.disks {
            if let crate::view::PodDisk::InTree { .. } = disk {
                let handle = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk".to_owned();
                used.insert(("pd.csi.storage.gke.io".to_owned(), handle));
            }
        }
        used
    }

    pub(super) fn limits(&self, pod: &Pod, node: &str) -> Reasons {
        let Some(csi_node) = self.csi_nodes.iter().find(|one| one.metadata.name == node) else {
            return Reasons::new();
        };
        let mut attached = BTreeSet::new();
        for (other, _) in self.placed.iter().filter(|(_, at)| at == node) {
            attached.extend(self.used(other));
        }
        let mut new = self.used(pod);
        new.retain(|volume| !attached.contains(volume));
        for attachment in self.attachments.iter().filter(|one| one.node == node) {
            let volume = self
                .volumes
                .iter()
                .find(|one| Some(&one.metadata.name) == attachment.volume.as_ref());
            if let Some(VolumeSource::Csi { handle, .. }) = volume.map(|volume| &volume.source) {
                attached.insert((attachment.attacher.to_string(), handle.to_string()));
            }
        }
        for (driver, limit) in &csi_node.drivers {
            let of = |volumes: &BTreeSet<(String, String)>| {
                volumes
                    .iter()
                    .filter(|(of, _)| of == driver.as_str())
                    .count() as i64
            };
            if let Some(limit) = limit
                && of(&new) > 0
                && of(&attached) + of(&new) > *limit
            {
                return [FULL].into();
            }
        }
        Reasons::new()
    }

    /// The reasons of VolumeBinding, and the volume of each claim that waits; `None`: it is
    /// made.
    pub(super) fn binding(
        &self,
        pod: &Pod,
        node: &str,
    ) -> (Reasons, BTreeMap<String, Option<String>>) {
        let labels = &self.nodes[node];
        let mut reasons = Reasons::new();
        let mut waiting = Vec::new();
        let mut bound_fit = true;
        for name in self.names(pod) {
            let claim = self.claim(name).expect("a claim");
            if !claim.is_bound() {
                waiting.push(claim);
                continue;
            }
            let volume = self
                .volumes
                .iter()
                .find(|volume| volume.metadata.name == claim.volume_name);
            bound_fit &= reaches(volume.expect("a volume").node_affinity.as_deref(), labels);
        }
        if !bound_fit {
            reasons.insert(OUT_OF_REACH);
        }
        let selected: Vec<_> = waiting
            .iter()
            .filter(|claim| claim.selected_node.is_some())
            .copied()
            .collect();
        if selected
            .iter()
            .any(|claim| claim.selected_node.as_deref() != Some(node))
        {
            reasons.insert(NO_VOLUME);
            return (reasons, BTreeMap::new());
        }
        waiting.retain(|claim| claim.selected_node.is_none());
        waiting.sort_by(|a, b| a.request.cmp(&b.request));
        let mut to_make = selected;
        let mut found: BTreeMap<String, Option<String>> = BTreeMap::new();
        for claim in waiting {
            let taken: Vec<String> = found.values().flatten().cloned().collect();
            let volume = self.match_volume(claim, labels, &taken);
            let name = volume.map(|volume| volume.metadata.name.to_string());
            if name.is_none() {
                to_make.push(claim);
            }
            found.insert(claim.metadata.name.to_string(), name);
        }
        for claim in to_make {
            found.insert(claim.metadata.name.to_string(), None);
            let class = self
                .classes
                .iter()
                .find(|one| one.metadata.name == claim.class);
            let class = class.expect("a class");
            let allowed = class.allowed_topologies.is_empty()
                || class.allowed_topologies.iter().any(|term| {
                    !term.match_label_expressions.is_empty()
                        && term.match_label_expressions.iter().all(|it| {
                            labels
                                .get(&it.key)
                                .is_some_and(|value| it.values.iter().any(|one| one == value))
                        })
                });
            if class.provisioner == "kubernetes.io/no-provisioner" || !allowed {
                reasons.insert(NO_VOLUME);
                return (reasons, found);
            }
            if !self.has_room(class, claim, labels) {
                reasons.insert(NO_SPACE);
                return (reasons, found);
            }
        }
        (reasons, found)
    }

    fn has_room(
        &self,
        class: &StorageClass,
        claim: &PersistentVolumeClaim,
        labels: &StringMap,
    ) -> bool {
        let driver = self
            .drivers
            .iter()
            .find(|driver| driver.metadata.name == class.provisioner);
        if !driver.is_some_and(|driver| driver.spec.storage_capacity) {
            return true;
        }
        let size = claim.request.as_ref().map_or(0, Quantity::value);
        self.capacities.iter().any(|capacity| {
            capacity.class == class.metadata.name
                && capacity.volume_limit.is_some_and(|limit| limit >= size)
                && capacity
                    .node_topology
                    .as_ref()
                    .is_some_and(|topology| topology.matches(labels))
        })
    }

    fn match_volume(
        &self,
        claim: &PersistentVolumeClaim,
        labels: &StringMap,
        taken: &[String],
    ) -> Option<&PersistentVolume> {
        let request = claim.request.clone().unwrap_or(Quantity::ZERO);
        let mut smallest: Option<&PersistentVolume> = None;
        let mut reserved = false;
        let mut mine: Option<&PersistentVolume> = None;
        for volume in &self.volumes {
            let reference = volume.claim_ref.as_ref();
            let is_mine = reference.is_some_and(|reference| {
                reference.namespace == claim.metadata.namespace
                    && reference.name == claim.metadata.name
                    && (reference.uid.is_empty() || reference.uid == claim.metadata.uid)
            });
            if taken.iter().any(|name| *name == volume.metadata.name)
                || volume.class != claim.class
                || reference.is_some() && !is_mine
                || volume.capacity < request
                || volume.is_block != claim.is_block
                || volume.attributes_class != claim.attributes_class
                || volume.metadata.is_terminating()
            {
                continue;
            }
            let reaches = reaches(volume.node_affinity.as_deref(), labels);
            if is_mine {
                reserved = true;
                if reaches && mine.is_none() {
                    mine = Some(volume);
                }
                continue;
            }
            let fits = volume.available
                && reaches
                && volume.access_modes.contains_all(claim.access_modes)
                && claim
                    .selector
                    .as_ref()
                    .is_none_or(|selector| selector.matches(&volume.metadata.labels));
            // Volumes are sorted by name.
            if fits && smallest.is_none_or(|known| volume.capacity < known.capacity) {
                smallest = Some(volume);
            }
        }
        if reserved { mine } else { smallest }
    }

    pub(super) fn zone(&self, pod: &Pod, node: &str) -> Reasons {
        let labels = &self.nodes[node];
        let keys = [
            BETA_ZONE,
            "failure-domain.beta.kubernetes.io/region",
            ZONE,
            "topology.kubernetes.io/region",
        ];
        if keys.iter().all(|key| labels.get(key).is_none()) {
            return Reasons::new();
        }
        for name in self.names(pod) {
            let claim = self.claim(name).expect("a claim");
            let volume = self
                .volumes
                .iter()
                .find(|volume| volume.metadata.name == claim.volume_name);
            let Some(volume) = volume else { continue };
            for key in [BETA_ZONE, ZONE] {
                let Some(zones) = volume.metadata.labels.get(key) else {
                    continue;
                };
                let zones: Vec<&str> = zones.split("__").map(str::trim).collect();
                if zones.contains(&"") {
                    continue;
                }
                let own = labels.get(key).or_else(|| labels.get(ZONE));
                if own.is_none_or(|own| !zones.contains(&own)) {
                    return [NO_ZONE].into();
                }
            }
        }
        Reasons::new()
    }
}
