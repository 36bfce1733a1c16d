//! Finds the volume that fits a claim.

use std::collections::BTreeMap;
use std::sync::Arc;

use control_types::volumes::{
    self, Volume as _, VolumeClaim as _, attributes_classes_differ, supports_access_modes,
    volume_modes_differ,
};

use crate::views::{Claim, StorageClass, Text, Volume};

/// Reason why a requested volume cannot serve a claim; the message is
/// kube-controller-manager's.
#[derive(Debug, thiserror::Error)]
pub(super) enum VolumeMismatch {
    #[error("the volume is marked for deletion {0:?}")]
    Terminating(Text),
    #[error("requested PV is too small")]
    Size,
    #[error("storageClassName does not match")]
    Class,
    #[error("volumeAttributesClassName does not match")]
    AttributesClass,
    #[error("incompatible volumeMode")]
    Mode,
    #[error("incompatible accessMode")]
    AccessMode,
}

/// Checks that the volume that a claim requests by name can serve it.
///
/// # Errors
/// [`VolumeMismatch`].
pub(super) fn check(volume: &Volume, claim: &Claim) -> Result<(), VolumeMismatch> {
    let mismatch = if volume.metadata.is_terminating() {
        VolumeMismatch::Terminating(volume.metadata.name.clone())
    } else if volume.capacity().value() < claim.request().value() {
        VolumeMismatch::Size
    } else if volume.class() != claim.class() {
        VolumeMismatch::Class
    } else if attributes_classes_differ(volume, claim) {
        VolumeMismatch::AttributesClass
    } else if volume_modes_differ(volume, claim) {
        VolumeMismatch::Mode
    } else if !supports_access_modes(volume, claim) {
        VolumeMismatch::AccessMode
    } else {
        return Ok(());
    };
    Err(mismatch)
}

/// The best volume for a claim: of those with the fewest access modes beyond the wanted
/// ones, the one reserved for the claim, or else the smallest that is free. Of a claim
/// that waits for its consumer only reserved volumes are found: the scheduler chooses
/// among the others.
pub(super) fn best(
    claim: &Claim,
    volumes: &[Arc<Volume>],
    waits_for_consumer: bool,
) -> Option<Arc<Volume>> {
    let mut by_modes: BTreeMap<(usize, Vec<&str>), Vec<&Arc<Volume>>> = BTreeMap::new();
    for volume in volumes {
        if supports_access_modes(&**volume, claim) && volumes::could_serve(&**volume, claim) {
            let mut modes: Vec<&str> = volume.spec.access_modes.iter().map(Text::as_str).collect();
            modes.sort_unstable();
            modes.dedup();
            by_modes
                .entry((modes.len(), modes))
                .or_default()
                .push(volume);
        }
    }
    let found = by_modes.values().find_map(|candidates| {
        let reserved = candidates.iter().find(|volume| volume.is_bound_to(claim));
        if reserved.is_some() {
            return reserved;
        }
        let free = candidates
            .iter()
            .filter(|volume| !waits_for_consumer && volumes::is_free_for(&****volume, claim));
        free.min_by(|a, b| {
            let by_size = a.capacity().cmp(&b.capacity());
            by_size.then_with(|| a.metadata.name.cmp(&b.metadata.name))
        })
    });
    found.map(|volume| Arc::clone(volume))
}

/// Returns the class of claims without one: of several defaults the newest, and among
/// those of one second the first by name.
pub(super) fn default_class(classes: &[Arc<StorageClass>]) -> Option<&StorageClass> {
    let defaults = classes.iter().filter(|class| class.is_default());
    let first = defaults.min_by(|a, b| {
        let age = |class: &StorageClass| class.metadata.creation_timestamp;
        age(b)
            .cmp(&age(a))
            .then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
    first.map(AsRef::as_ref)
}
