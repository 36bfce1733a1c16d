//! Kinds of events that may make a pod fit.

/// Reasons why a pod that did not fit may fit now, or that a plugin waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wake(u32);

macro_rules! wakes {
    ($($(#[$doc:meta])* $name:ident = $bit:literal,)*) => {
        $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*
    };
}

impl Wake {
    /// Nothing.
    pub const NONE: Self = Self(0);
    wakes! {
        /// A node was added.
        NODE_ADDED = 0,
        /// The allocatable resources of a node changed.
        NODE_ALLOCATABLE = 1,
        /// Labels of a node changed.
        NODE_LABELS = 2,
        /// Taints of a node changed.
        NODE_TAINTS = 3,
        /// A node was cordoned or uncordoned.
        NODE_SCHEDULABLE = 4,
        /// A pod left a node, or is not nominated for one any more.
        POD_REMOVED = 5,
        /// A claim to a volume changed.
        VOLUME_CLAIM = 6,
        /// A pod was added to a node.
        POD_ADDED = 7,
        /// Labels of a pod on a node changed, or its deletion began.
        POD_CHANGED = 8,
        /// Labels of a namespace changed.
        NAMESPACE_LABELS = 9,
        /// A node was removed.
        NODE_REMOVED = 10,
        /// A pod on a node requests less than before.
        POD_SCALED_DOWN = 11,
        /// A volume changed.
        VOLUME = 12,
        /// A class of volumes changed.
        STORAGE_CLASS = 13,
        /// A claim to devices changed.
        RESOURCE_CLAIM = 14,
        /// The CSI drivers of a node changed.
        CSI_NODE = 15,
        /// A CSI driver changed.
        CSI_DRIVER = 16,
        /// The storage capacity that a CSI driver reports changed.
        CSI_CAPACITY = 17,
        /// The attachment of a volume to a node changed.
        VOLUME_ATTACHMENT = 18,
        /// A class of devices changed.
        DEVICE_CLASS = 19,
        /// The devices of a node or of a pool changed.
        RESOURCE_SLICE = 20,
        /// The waiting pod itself changed.
        POD_ITSELF = 21,
        /// The features that a node declares changed.
        NODE_FEATURES = 22,
        /// A PodGroup appeared, or has as many pods as it needs.
        POD_GROUP = 23,
    }

    /// Everything.
    pub const ALL: Self = Self(u32::MAX);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether they have something in common.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The numbers of the kinds in it.
    pub fn kinds(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let kind = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            Some(kind)
        })
    }

    /// Whether it is nothing.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}
