//! The owners of sets.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use crate::problem::Object;

/// The owner of a set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    Override,
    Service(Arc<str>),
    Pod(Arc<str>),
}

pub(super) fn join(namespace: &str, name: &str) -> Arc<str> {
    format!("{namespace}/{name}").into()
}

pub(super) fn split(key: &str) -> (Box<str>, Box<str>) {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    (namespace.into(), name.into())
}

// === impl Owner ===

impl Owner {
    pub(super) fn object(&self) -> Object {
        let (kind, key) = match self {
            Self::Override => ("Node", ""),
            Self::Service(key) => ("Service", &**key),
            Self::Pod(key) => ("Pod", &**key),
        };
        let (namespace, name) = split(key);
        Object {
            kind,
            namespace,
            name,
        }
    }
}

impl Display for Owner {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Override => f.write_str("the node itself"),
            Self::Service(key) => write!(f, "Service {key}"),
            Self::Pod(key) => write!(f, "Pod {key}"),
        }
    }
}
