//! Claims that are to be allocated.

use std::sync::Arc;

use compact_str::CompactString;

use crate::api::ResourceClaimSpec;

/// A claim that is to be allocated.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its namespace.
    pub namespace: CompactString,
    /// Its name.
    pub name: CompactString,
    /// The requested devices.
    pub spec: Arc<ResourceClaimSpec>,
}

impl Claim {
    /// `namespace/name`
    pub(crate) fn reference(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}
