//! The names by which work is queued.

use control_client::Meta;

use crate::views::Text;

/// The name of an object, by which work is queued.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace, empty for cluster-scoped kinds.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
}

impl Key {
    /// The key of an object.
    #[must_use]
    pub fn from_meta(meta: &Meta) -> Self {
        Self {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
        }
    }

    /// A key from its parts.
    #[must_use]
    pub fn new(namespace: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}", self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}
