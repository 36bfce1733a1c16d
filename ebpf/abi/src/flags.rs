//! Switches of entries: what their types have in common.

/// Gives types of bits their questions.
macro_rules! flags {
    ($($name:ident),+) => {
        $(
            impl $name {
                /// Returns whether all flags of `other` are set.
                #[inline(always)]
                #[must_use]
                pub const fn contains(self, other: Self) -> bool {
                    self.0 & other.0 == other.0
                }

                /// With the flags of `other` too.
                #[inline(always)]
                #[must_use]
                pub const fn with(self, other: Self) -> Self {
                    Self(self.0 | other.0)
                }
            }
        )+
    };
}

#[cfg(test)]
mod tests {
    use crate::{BackendFlags, ServiceFlags};

    #[test]
    fn flags_are_contained_only_together() {
        let both = ServiceFlags::AFFINITY.with(ServiceFlags::SCOPED);
        assert!(both.contains(ServiceFlags::AFFINITY) && both.contains(both));
        assert!(both.contains(ServiceFlags::NONE));
        assert!(!ServiceFlags::AFFINITY.contains(both));
        assert!(!BackendFlags::LOCAL.contains(BackendFlags::TERMINATING));
    }
}
