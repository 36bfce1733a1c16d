//! Volumes by class, by claim and by node.
//!
//! A claim that waits for its first consumer may take any free volume of its class. Volumes
//! that can be reached from the same nodes form a group, sorted by size: which nodes those
//! are is computed once for a group, and the smallest volume that is large enough comes
//! first. A decision so walks over groups, never over volumes for each node.

use std::collections::BTreeMap;
use std::sync::Arc;

use compact_str::CompactString;
use control_client::{Change, Object};
use control_types::quantity::Quantity;
use rustc_hash::FxHashMap;

use crate::catalog::{Catalog, CatalogEvent};
use crate::selector::NodeTerm;
use crate::view::{
    ClaimKey, CsiNode, CsiStorageCapacity, PersistentVolume, VolumeAttachment, VolumeSource,
};

/// Volumes that can be reached from the same nodes, by size and name.
type Group = BTreeMap<(Quantity, CompactString), Arc<PersistentVolume>>;
/// The node affinity that the volumes of a group have in common.
type Affinity = Option<Arc<[NodeTerm]>>;

/// Volumes, capacities, CSI drivers and attachments, by the keys of lookups.
#[derive(Clone, Debug, Default)]
pub struct VolumeIndex {
    /// Whether events were observed; otherwise it is empty.
    observed: bool,
    volumes: FxHashMap<CompactString, Arc<PersistentVolume>>,
    /// Free volumes by class.
    free: FxHashMap<CompactString, FxHashMap<Affinity, Group>>,
    /// By claim: volumes that are bound to it or reserved for it, sorted by name.
    reserved: FxHashMap<ClaimKey, BTreeMap<CompactString, Arc<PersistentVolume>>>,
    /// By class: capacity for volumes to be provisioned.
    capacities: FxHashMap<CompactString, BTreeMap<ClaimKey, Arc<CsiStorageCapacity>>>,
    csi_nodes: FxHashMap<CompactString, Arc<CsiNode>>,
    /// Attachments by node.
    attachments: FxHashMap<CompactString, BTreeMap<CompactString, Arc<VolumeAttachment>>>,
    /// By volume: nodes that it is attached to, or will be.
    attached_to: FxHashMap<CompactString, Vec<CompactString>>,
}

impl VolumeIndex {
    /// The index of all objects in a catalog.
    #[must_use]
    pub fn from_catalog(catalog: &Catalog) -> Self {
        let mut index = Self {
            observed: true,
            ..Self::default()
        };
        for volume in catalog.persistent_volumes.snapshot().iter() {
            index.add_volume(volume);
        }
        for capacity in catalog.csi_storage_capacities.snapshot().iter() {
            index.add_capacity(capacity);
        }
        for node in catalog.csi_nodes.snapshot().iter() {
            index.add_csi_node(node);
        }
        for attachment in catalog.volume_attachments.snapshot().iter() {
            index.add_attachment(attachment);
        }
        index
    }

    /// Whether it follows the events of a catalog.
    #[must_use]
    pub const fn is_current(&self) -> bool {
        self.observed
    }

    /// Takes in a change of the catalog.
    pub fn observe(&mut self, event: &CatalogEvent) {
        self.observed = true;
        match event {
            CatalogEvent::PersistentVolume(change) => {
                replace(self, change, Self::remove_volume, Self::add_volume);
            }
            CatalogEvent::CsiStorageCapacity(change) => {
                replace(self, change, Self::remove_capacity, Self::add_capacity);
            }
            CatalogEvent::CsiNode(change) => {
                replace(self, change, Self::remove_csi_node, Self::add_csi_node);
            }
            CatalogEvent::VolumeAttachment(change) => {
                replace(self, change, Self::remove_attachment, Self::add_attachment);
            }
            _ => {}
        }
    }

    /// A volume by its name.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.volumes.get(name)
    }

    /// Free volumes of a class, in groups that can be reached from the same nodes, each
    /// sorted by size.
    pub fn free(&self, class: &str) -> impl Iterator<Item = (&Affinity, &Group)> {
        self.free.get(class).into_iter().flatten()
    }

    /// Returns volumes that are bound to a claim of this name, or reserved for it, sorted
    /// by name.
    pub fn reserved(&self, claim: &ClaimKey) -> impl Iterator<Item = &Arc<PersistentVolume>> {
        self.reserved
            .get(claim)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// Returns the capacity for volumes of a class, sorted by name.
    pub fn capacities(&self, class: &str) -> impl Iterator<Item = &Arc<CsiStorageCapacity>> {
        self.capacities
            .get(class)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// The CSI drivers of a node.
    #[must_use]
    pub fn csi_node(&self, name: &str) -> Option<&Arc<CsiNode>> {
        self.csi_nodes.get(name)
    }

    /// All nodes with CSI drivers.
    pub fn csi_nodes(&self) -> impl Iterator<Item = &Arc<CsiNode>> {
        self.csi_nodes.values()
    }

    /// Volumes that are attached to a node, or are to be.
    pub fn attachments(&self, node: &str) -> impl Iterator<Item = &Arc<VolumeAttachment>> {
        self.attachments
            .get(node)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// Nodes that a volume is attached to, or is to be.
    #[must_use]
    pub fn attached_to(&self, volume: &str) -> &[CompactString] {
        self.attached_to.get(volume).map_or(&[], Vec::as_slice)
    }

    fn add_volume(&mut self, volume: &Arc<PersistentVolume>) {
        let name = &volume.metadata.name;
        self.volumes.insert(name.clone(), Arc::clone(volume));
        if let Some(claim) = &volume.claim_ref {
            let key = (claim.namespace.clone(), claim.name.clone());
            let reserved = self.reserved.entry(key).or_default();
            reserved.insert(name.clone(), Arc::clone(volume));
        } else if volume.available {
            let class = self.free.entry(volume.class.clone()).or_default();
            let group = class.entry(volume.node_affinity.clone()).or_default();
            let key = (volume.capacity.clone(), name.clone());
            group.insert(key, Arc::clone(volume));
        }
    }

    fn remove_volume(&mut self, volume: &Arc<PersistentVolume>) {
        let name = &volume.metadata.name;
        self.volumes.remove(name);
        if let Some(claim) = &volume.claim_ref {
            let key = (claim.namespace.clone(), claim.name.clone());
            remove(&mut self.reserved, &key, name);
        } else if let Some(class) = self.free.get_mut(&volume.class) {
            remove(
                class,
                &volume.node_affinity,
                &(volume.capacity.clone(), name.clone()),
            );
            if class.is_empty() {
                self.free.remove(&volume.class);
            }
        }
    }

    fn add_capacity(&mut self, capacity: &Arc<CsiStorageCapacity>) {
        let meta = &capacity.metadata;
        let of_class = self.capacities.entry(capacity.class.clone()).or_default();
        let key = (meta.namespace.clone(), meta.name.clone());
        of_class.insert(key, Arc::clone(capacity));
    }

    fn remove_capacity(&mut self, capacity: &Arc<CsiStorageCapacity>) {
        let meta = &capacity.metadata;
        let key = (meta.namespace.clone(), meta.name.clone());
        remove(&mut self.capacities, &capacity.class, &key);
    }

    fn add_csi_node(&mut self, node: &Arc<CsiNode>) {
        let name = node.metadata.name.clone();
        self.csi_nodes.insert(name, Arc::clone(node));
    }

    fn remove_csi_node(&mut self, node: &Arc<CsiNode>) {
        self.csi_nodes.remove(&node.metadata.name);
    }

    fn add_attachment(&mut self, attachment: &Arc<VolumeAttachment>) {
        let on_node = self.attachments.entry(attachment.node.clone()).or_default();
        let name = attachment.metadata.name.clone();
        on_node.insert(name, Arc::clone(attachment));
        if let Some(volume) = &attachment.volume {
            let nodes = self.attached_to.entry(volume.clone()).or_default();
            nodes.push(attachment.node.clone());
        }
    }

    fn remove_attachment(&mut self, attachment: &Arc<VolumeAttachment>) {
        remove(
            &mut self.attachments,
            &attachment.node,
            &attachment.metadata.name,
        );
        if let Some(volume) = &attachment.volume
            && let Some(nodes) = self.attached_to.get_mut(volume)
        {
            if let Some(at) = nodes.iter().position(|node| *node == attachment.node) {
                nodes.swap_remove(at);
            }
            if nodes.is_empty() {
                self.attached_to.remove(volume);
            }
        }
    }
}

fn replace<V: Object>(
    index: &mut VolumeIndex,
    change: &Change<V>,
    remove: fn(&mut VolumeIndex, &Arc<V>),
    add: fn(&mut VolumeIndex, &Arc<V>),
) {
    if let Some(previous) = &change.previous {
        remove(index, previous);
    }
    if let Some(current) = &change.current {
        add(index, current);
    }
}

/// Removes an entry of an inner map, and the inner map when it is empty.
fn remove<K, I: Ord, V>(outer: &mut FxHashMap<K, BTreeMap<I, V>>, key: &K, inner: &I)
where
    K: std::hash::Hash + Eq,
{
    if let Some(map) = outer.get_mut(key) {
        map.remove(inner);
        if map.is_empty() {
            outer.remove(key);
        }
    }
}

impl VolumeSource {
    /// The in-tree plugin of a volume whose CSI driver took over.
    #[must_use]
    pub fn migrated_plugin(&self) -> Option<&'static str> {
        match self {
            Self::InTree(migrated) => Some(migrated.volume.plugin()),
            Self::Csi { .. } | Self::Other => None,
        }
    }
}
