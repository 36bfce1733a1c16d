//! Decides which PersistentVolumes can serve a PersistentVolumeClaim.
//!
//! The volume binder (kube-controller-manager) and the scheduler share these rules, each
//! with its own view of the two objects. The binder chooses volumes for claims of classes
//! with `Immediate` binding; the scheduler chooses them for claims whose class waits for
//! a first consumer, and additionally checks node affinity.

use crate::quantity::Quantity;

/// The names in `accessModes`, in the order of their bits.
const MODES: [&str; 4] = [
    "ReadWriteOnce",
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOncePod",
];

/// In-tree plugins and the CSI drivers that replace them.
const MIGRATED: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// The CSI driver that took over from an in-tree plugin.
#[must_use]
pub fn migrated_driver(in_tree: &str) -> Option<&'static str> {
    let found = MIGRATED.iter().find(|(name, _)| *name == in_tree);
    found.map(|(_, driver)| *driver)
}

/// A set of access modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessModes(u8);

/// The fields of a claim that the rules read.
pub trait VolumeClaim {
    /// Its namespace.
    fn namespace(&self) -> &str;
    /// Its name.
    fn name(&self) -> &str;
    /// Its uid.
    fn uid(&self) -> &str;
    /// Its storage class; empty for none.
    fn class(&self) -> &str;
    /// The size that it requests; zero for none.
    fn request(&self) -> Quantity;
    /// The access modes that the volume must support.
    fn access_modes(&self) -> AccessModes;
    /// Whether it asks for a block device, not for a file system.
    fn is_block(&self) -> bool;
    /// Its VolumeAttributesClass; empty for none.
    fn attributes_class(&self) -> &str;
    /// Whether its selector matches a volume with these labels; true without a selector.
    fn selects<'a>(&self, label: &dyn Fn(&str) -> Option<&'a str>) -> bool;
}

/// The fields of a volume that the rules read.
pub trait Volume {
    /// The claim in `spec.claimRef`, if there is one.
    fn claim_ref(&self) -> Option<ClaimRef<'_>>;
    /// Its storage class; empty for none.
    fn class(&self) -> &str;
    /// Its size; zero for none.
    fn capacity(&self) -> Quantity;
    /// The access modes that it supports.
    fn access_modes(&self) -> AccessModes;
    /// Whether it is a block device, not a file system.
    fn is_block(&self) -> bool;
    /// Its VolumeAttributesClass; empty for none.
    fn attributes_class(&self) -> &str;
    /// Whether its phase is `Available`.
    fn is_available(&self) -> bool;
    /// Whether its deletion was requested.
    fn is_terminating(&self) -> bool;
    /// The value of one of its labels.
    fn label(&self, key: &str) -> Option<&str>;
}

/// `spec.claimRef` of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimRef<'a> {
    /// The claim's namespace.
    pub namespace: &'a str,
    /// The claim's name.
    pub name: &'a str,
    /// The claim's uid; empty while the volume is only reserved for the claim's name.
    pub uid: &'a str,
}

/// Returns whether a volume is bound to a claim, or reserved for it by name.
pub fn is_bound_to(volume: &impl Volume, claim: &impl VolumeClaim) -> bool {
    volume.claim_ref().is_some_and(|reference| {
        reference.name == claim.name()
            && reference.namespace == claim.namespace()
            && (reference.uid.is_empty() || reference.uid == claim.uid())
    })
}

/// Whether one of the two is a block device and the other a file system.
pub fn volume_modes_differ(volume: &impl Volume, claim: &impl VolumeClaim) -> bool {
    volume.is_block() != claim.is_block()
}

/// Whether the two name different VolumeAttributesClasses.
pub fn attributes_classes_differ(volume: &impl Volume, claim: &impl VolumeClaim) -> bool {
    volume.attributes_class() != claim.attributes_class()
}

/// Whether a volume supports all access modes that a claim asks for.
pub fn supports_access_modes(volume: &impl Volume, claim: &impl VolumeClaim) -> bool {
    volume.access_modes().contains_all(claim.access_modes())
}

/// Returns whether a volume could serve a claim, regardless of whether it is free: it is
/// not reserved for another claim, not being deleted, of the right kind and large enough.
/// This suffices for a volume that is reserved for the claim.
pub fn could_serve(volume: &impl Volume, claim: &impl VolumeClaim) -> bool {
    (volume.claim_ref().is_none() || is_bound_to(volume, claim))
        && !volume.is_terminating()
        && !volume_modes_differ(volume, claim)
        && !attributes_classes_differ(volume, claim)
        && volume.capacity() >= claim.request()
}

/// Returns whether a volume that [`could_serve`] a claim and is not reserved may be used
/// for it. Access modes are checked separately ([`supports_access_modes`]).
pub fn is_free_for(volume: &impl Volume, claim: &impl VolumeClaim) -> bool {
    volume.is_available()
        && volume.class() == claim.class()
        && claim.selects(&|key| volume.label(key))
}

// === impl AccessModes ===

impl AccessModes {
    /// `ReadWriteOncePod` alone.
    pub const READ_WRITE_ONCE_POD: Self = Self(1 << 3);

    /// An access mode that the API does not know: no volume supports it.
    const UNKNOWN: u8 = 1 << 7;

    /// Whether all of `others` are in this set.
    #[must_use]
    pub const fn contains_all(self, others: Self) -> bool {
        others.0 & Self::UNKNOWN == 0 && self.0 & others.0 == others.0
    }
}

impl<T: AsRef<str>> FromIterator<T> for AccessModes {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        let bit = |name: T| {
            let at = MODES.iter().position(|mode| *mode == name.as_ref());
            at.map_or(Self::UNKNOWN, |at| 1 << at)
        };
        Self(names.into_iter().map(bit).fold(0, std::ops::BitOr::bitor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_modes_are_sets_and_unknown_ones_are_never_supported() {
        let modes = |names: &[&str]| names.iter().collect::<AccessModes>();
        let all = modes(&MODES);
        assert!(all.contains_all(modes(&["ReadWriteOnce", "ReadWriteMany"])));
        assert!(all.contains_all(modes(&[])));
        assert!(!modes(&["ReadWriteOnce"]).contains_all(modes(&["ReadOnlyMany"])));
        assert!(!modes(&["Else"]).contains_all(modes(&["Else"])));
        assert!(all.contains_all(AccessModes::READ_WRITE_ONCE_POD));
        assert!(!modes(&["ReadWriteOnce"]).contains_all(AccessModes::READ_WRITE_ONCE_POD));
    }
}
