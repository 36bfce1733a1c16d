//! NodeVolumeLimits: how many volumes of a CSI driver are attached to a node.
//!
//! A driver says in CSINode how many volumes it can attach to a node. Volumes count once,
//! however many pods on the node use them, and also while a VolumeAttachment says that they
//! are attached though no pod uses them. Counts are kept by node, and are counted again for
//! nodes whose pods, claims or attachments changed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use compact_str::CompactString;
use rustc_hash::FxHashSet;

use super::VolumeIndex;
use super::migration::provisioning_driver;
use crate::bits::Bits;
use crate::catalog::{Catalog, CatalogEvent};
use crate::snapshot::Snapshot;
use crate::view::{ClaimKey, PersistentVolumeClaim, Pod, PodClaim, PodDisk, VolumeSource};

/// Changes remembered until nodes are counted again; with more, all nodes are.
const MAX_STALE: usize = 4096;

/// A volume of a CSI driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct AttachableVolume {
    driver: CompactString,
    handle: Handle,
}

/// The identity of a driver's volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Handle {
    /// The driver's name of the volume.
    Volume(CompactString),
    /// The claim for which the volume is to be made.
    Claim(ClaimKey),
}

/// Counts of attached volumes by node. A clone is empty: counts are only valid for the
/// snapshot that they were computed from.
#[derive(Debug, Default)]
pub(super) struct AttachedVolumes(Mutex<AttachmentCounts>);

#[derive(Debug, Default)]
struct AttachmentCounts {
    /// The snapshot's clock when nodes were counted last.
    clock: u64,
    /// Counts by place.
    nodes: Vec<AttachedCounts>,
    stale: StaleCounts,
}

/// Attached volumes of a node, for drivers with a limit.
#[derive(Debug, Default)]
struct AttachedCounts {
    drivers: Box<[DriverCount]>,
    /// A pod on the node has a volume that cannot be counted, for this reason.
    failure: Option<String>,
}

#[derive(Debug)]
struct DriverCount {
    driver: CompactString,
    limit: i64,
    attached: i64,
}

/// Changes since nodes were last counted, besides those of nodes and their pods.
#[derive(Debug, Default)]
struct StaleCounts {
    everything: bool,
    claims: FxHashSet<ClaimKey>,
    nodes: FxHashSet<CompactString>,
}

/// Reason why a pod's volumes cannot be counted; the message is kube-scheduler's.
#[derive(Debug, thiserror::Error)]
pub(super) enum CountError {
    #[error("{0}")]
    Owner(String),
    #[error("converting volume({volume}) from inline to csi: {why}")]
    Inline { volume: String, why: String },
}

/// Nodes that a pod cannot go to because of their attached volumes.
#[derive(Debug, Default)]
pub(super) struct LimitViolations {
    /// Nodes that have as many volumes as they may have.
    pub(super) full: Bits,
    /// Nodes with pods whose volumes cannot be counted, by the reason.
    pub(super) unknown: BTreeMap<String, Bits>,
    /// Whether any node has a limit for one of the drivers.
    pub(super) limited: bool,
}

/// Finds out which volumes pods use and nodes have.
pub(super) struct VolumeCounter<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) catalog: &'a Catalog,
    pub(super) index: &'a VolumeIndex,
}

impl Clone for AttachedVolumes {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl AttachedVolumes {
    /// Notes which counts a change of the catalog makes stale. The index shows it already.
    pub(super) fn observe(&mut self, event: &CatalogEvent, index: &VolumeIndex) {
        let counts = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let stale = &mut counts.stale;
        match event {
            CatalogEvent::PersistentVolumeClaim(change) => {
                stale
                    .claims
                    .extend(change.latest().map(|claim| claim.key()));
            }
            CatalogEvent::PersistentVolume(change) => {
                for volume in change.previous.iter().chain(&change.current) {
                    if let Some(claim) = &volume.claim_ref {
                        let key = (claim.namespace.clone(), claim.name.clone());
                        stale.claims.insert(key);
                    }
                    let nodes = index.attached_to(&volume.metadata.name);
                    stale.nodes.extend(nodes.iter().cloned());
                }
            }
            CatalogEvent::CsiNode(change) => {
                let node = change.latest().map(|node| node.metadata.name.clone());
                stale.nodes.extend(node);
            }
            CatalogEvent::VolumeAttachment(change) => {
                let attachments = change.previous.iter().chain(&change.current);
                stale
                    .nodes
                    .extend(attachments.map(|attachment| attachment.node.clone()));
            }
            CatalogEvent::StorageClass(_) => stale.everything = true,
            _ => {}
        }
        if stale.claims.len() + stale.nodes.len() > MAX_STALE {
            stale.everything = true;
        }
        if stale.everything {
            stale.claims.clear();
            stale.nodes.clear();
        }
    }

    /// Returns the nodes to which `new` volumes cannot be attached.
    pub(super) fn exceeded(
        &self,
        counter: &VolumeCounter<'_>,
        new: &[AttachableVolume],
    ) -> LimitViolations {
        let mut exceeded = LimitViolations::default();
        if new.is_empty() {
            return exceeded;
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.refresh(counter);
        for place in counter.snapshot.live().iter() {
            let Some(node) = counts.nodes.get(place) else {
                continue;
            };
            let limits = |volume: &AttachableVolume| {
                let mut drivers = node.drivers.iter();
                drivers.any(|driver| driver.driver == volume.driver)
            };
            if !new.iter().any(limits) {
                continue;
            }
            exceeded.limited = true;
            if let Some(failure) = &node.failure {
                let nodes = exceeded.unknown.entry(failure.clone()).or_default();
                nodes.insert(place);
            } else if !node.admits(new.iter()) {
                // Only now it matters whether some of them are already attached.
                let attached = counter.used_on(place).unwrap_or_default();
                if !node.admits(new.iter().filter(|volume| !attached.contains(*volume))) {
                    exceeded.full.insert(place);
                }
            }
        }
        exceeded
    }
}

impl AttachedCounts {
    fn admits<'a>(&self, new: impl Iterator<Item = &'a AttachableVolume> + Clone) -> bool {
        self.drivers.iter().all(|driver| {
            let more = new.clone().filter(|volume| volume.driver == driver.driver);
            let more = i64::try_from(more.count()).unwrap_or(i64::MAX);
            more == 0 || driver.attached.saturating_add(more) <= driver.limit
        })
    }
}

impl AttachmentCounts {
    /// Counts the volumes of nodes where something changed.
    fn refresh(&mut self, counter: &VolumeCounter<'_>) {
        let snapshot = counter.snapshot;
        let stale = std::mem::take(&mut self.stale);
        let mut places = if stale.everything {
            snapshot.live().clone()
        } else {
            snapshot.changed_since(self.clock)
        };
        for claim in &stale.claims {
            for place in snapshot.volume_usage().of_claim(claim) {
                places.insert(*place);
            }
        }
        for node in &stale.nodes {
            if let Some(place) = snapshot.place_of(node) {
                places.insert(place);
            }
        }
        self.clock = snapshot.clock();
        self.nodes
            .resize_with(snapshot.places(), AttachedCounts::default);
        for place in places.iter() {
            if let Some(node) = self.nodes.get_mut(place) {
                *node = counter.count(place);
            }
        }
    }
}

impl VolumeCounter<'_> {
    /// Counts the attached volumes of the node at `place`.
    fn count(&self, place: usize) -> AttachedCounts {
        let name = self.snapshot.name(place);
        let drivers = self.index.csi_node(name).map(|node| &node.drivers);
        let limits = drivers.into_iter().flatten();
        let mut drivers: Vec<DriverCount> = limits
            .filter_map(|(driver, limit)| {
                Some(DriverCount {
                    driver: driver.clone(),
                    limit: (*limit)?,
                    attached: 0,
                })
            })
            .collect();
        if drivers.is_empty() {
            return AttachedCounts::default();
        }
        let mut attached = match self.used_on(place) {
            Ok(attached) => attached,
            Err(error) => {
                return AttachedCounts {
                    drivers: drivers.into(),
                    failure: Some(error.to_string()),
                };
            }
        };
        attached.extend(self.attachments(name));
        for volume in &attached {
            let driver = drivers.iter_mut();
            for driver in driver.filter(|driver| driver.driver == volume.driver) {
                driver.attached += 1;
            }
        }
        AttachedCounts {
            drivers: drivers.into(),
            failure: None,
        }
    }

    /// Returns the volumes that the pods on a node use.
    fn used_on(&self, place: usize) -> Result<FxHashSet<AttachableVolume>, CountError> {
        let mut used = FxHashSet::default();
        for pod in self.snapshot.pods_on(place) {
            if !pod.claims.is_empty() || !pod.disks.is_empty() {
                used.extend(self.used_by(pod)?);
            }
        }
        Ok(used)
    }

    /// Returns the volumes that are attached to a node, or are to be.
    fn attachments<'a>(&'a self, node: &'a str) -> impl Iterator<Item = AttachableVolume> + 'a {
        let attachments = self.index.attachments(node);
        attachments.filter_map(|attachment| {
            if attachment.attacher.is_empty() {
                return None;
            }
            let volume = self.index.volume(attachment.volume.as_ref()?)?;
            let VolumeSource::Csi { handle, .. } = &volume.source else {
                return None;
            };
            Some(AttachableVolume {
                driver: attachment.attacher.clone(),
                handle: Handle::Volume(handle.clone()),
            })
        })
    }

    /// Returns the volumes of CSI drivers that a pod uses, each once, on nodes with CSI drivers. Claims
    /// that are not there, or whose driver is not known, count for nothing.
    ///
    /// # Errors
    /// Which volume cannot be counted, and why.
    pub(super) fn used_by(&self, pod: &Pod) -> Result<Vec<AttachableVolume>, CountError> {
        let mut used = Vec::new();
        let mut add = |volume: Option<AttachableVolume>| {
            if let Some(volume) = volume
                && !used.contains(&volume)
            {
                used.push(volume);
            }
        };
        for claim in &pod.claims {
            let PodClaim::Volume { name, ephemeral } = claim else {
                continue;
            };
            let namespace = &pod.metadata.namespace;
            let claims = &self.catalog.persistent_volume_claims;
            let Some(claim) = claims.get(namespace, name) else {
                continue;
            };
            if *ephemeral && !super::claims::is_made_for(&claim, pod) {
                return Err(CountError::Owner(super::claims::not_made_for(&claim, pod)));
            }
            add(self.of_claim(&claim));
        }
        for disk in &pod.disks {
            if let PodDisk::InTree { name, disk, .. } = disk {
                let handle = disk.inline_handle().map_err(|why| CountError::Inline {
                    volume: name.to_string(),
                    why: why.to_string(),
                })?;
                add(Some(AttachableVolume {
                    driver: disk.driver().into(),
                    handle: Handle::Volume(handle),
                }));
            }
        }
        Ok(used)
    }

    /// The volume of a claim: its PersistentVolume, or else the one that its class makes.
    fn of_claim(&self, claim: &PersistentVolumeClaim) -> Option<AttachableVolume> {
        let volume = self.index.volume(&claim.volume_name);
        let attachable = match volume.map(|volume| &volume.source) {
            Some(VolumeSource::Csi { driver, handle }) => AttachableVolume {
                driver: driver.clone(),
                handle: Handle::Volume(handle.clone()),
            },
            Some(VolumeSource::InTree(migrated)) => AttachableVolume {
                driver: migrated.volume.driver().into(),
                handle: Handle::Volume(migrated.handle.clone().ok()?),
            },
            Some(VolumeSource::Other) => return None,
            None => {
                let class = self.catalog.storage_classes.get("", &claim.class)?;
                AttachableVolume {
                    driver: provisioning_driver(&class.provisioner)?.into(),
                    handle: Handle::Claim(claim.key()),
                }
            }
        };
        let has_names = !attachable.driver.is_empty()
            && !matches!(&attachable.handle, Handle::Volume(handle) if handle.is_empty());
        has_names.then_some(attachable)
    }
}
