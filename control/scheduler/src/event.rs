//! Cluster events as waiting pods see them.

use std::fmt;

use crate::catalog::CatalogEvent;
use crate::gangs::GangKey;
use crate::snapshot::Wake;
use crate::view::{Node, Pod};

/// A change that may make a pod fit that did not.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Its kind; several if several things changed at once.
    pub wake: Wake,
    /// The changed object, and how it changed.
    pub subject: Subject<'a>,
}

/// The changed object.
#[derive(Clone, Copy)]
pub enum Subject<'a> {
    /// A node was added, changed or deleted.
    Node {
        /// The former state; `None` if it was added.
        old: Option<&'a Node>,
        /// The new state; `None` if it was deleted.
        new: Option<&'a Node>,
    },
    /// A pod was added to a node (or assumed there), changed or left it. A nominated pod
    /// counts as one on its node.
    Pod {
        /// Before; `None`: it was on no node.
        old: Option<&'a Pod>,
        /// Now; `None`: it is on no node any more.
        new: Option<&'a Pod>,
    },
    /// A waiting pod changed; of no interest to others.
    Itself {
        /// Before.
        old: &'a Pod,
        /// Now.
        new: &'a Pod,
    },
    /// An object of the catalog changed.
    Object(&'a CatalogEvent),
    /// A PodGroup appeared (`is_new`), or has as many pods as it needs.
    Gang {
        /// Namespace and name of the PodGroup.
        gang: &'a GangKey,
        /// Whether the PodGroup is new.
        is_new: bool,
    },
    /// Something that is not looked at in detail.
    Other,
}

impl fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node { .. } => "Node",
            Self::Pod { .. } => "Pod",
            Self::Itself { .. } => "Itself",
            Self::Object(_) => "Object",
            Self::Gang { .. } => "Gang",
            Self::Other => "Other",
        })
    }
}

impl<'a> Event<'a> {
    /// A change of a node.
    #[must_use]
    pub const fn node(wake: Wake, old: Option<&'a Node>, new: Option<&'a Node>) -> Self {
        Self {
            wake,
            subject: Subject::Node { old, new },
        }
    }

    /// Returns the event of a pod that was added to a node.
    #[must_use]
    pub const fn pod_added(pod: &'a Pod) -> Self {
        Self {
            wake: Wake::POD_ADDED,
            subject: Subject::Pod {
                old: None,
                new: Some(pod),
            },
        }
    }

    /// A pod left a node.
    #[must_use]
    pub const fn pod_removed(pod: &'a Pod) -> Self {
        Self {
            wake: Wake::POD_REMOVED,
            subject: Subject::Pod {
                old: Some(pod),
                new: None,
            },
        }
    }

    /// A waiting pod changed.
    #[must_use]
    pub const fn itself(old: &'a Pod, new: &'a Pod) -> Self {
        Self {
            wake: Wake::POD_ITSELF,
            subject: Subject::Itself { old, new },
        }
    }

    /// A PodGroup appeared (`is_new`), or has as many pods as it needs.
    #[must_use]
    pub const fn gang(gang: &'a GangKey, is_new: bool) -> Self {
        Self {
            wake: Wake::POD_GROUP,
            subject: Subject::Gang { gang, is_new },
        }
    }

    /// A pod on a node changed.
    #[must_use]
    pub fn pod_changed(old: &'a Pod, new: &'a Pod) -> Self {
        let mut wake = Wake::NONE;
        if old.metadata.labels != new.metadata.labels
            || old.metadata.is_terminating() != new.metadata.is_terminating()
        {
            wake = wake.and(Wake::POD_CHANGED);
        }
        if new.requests_less_than(old) {
            wake = wake.and(Wake::POD_SCALED_DOWN);
        }
        Self {
            wake,
            subject: Subject::Pod {
                old: Some(old),
                new: Some(new),
            },
        }
    }

    /// The name of the event in metrics.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self.subject {
            Subject::Node { old: None, .. } => "NodeAdd",
            Subject::Node { new: None, .. } => "NodeDelete",
            Subject::Node { .. } => "NodeUpdate",
            Subject::Pod { old: None, .. } => "AssignedPodAdd",
            Subject::Pod { new: None, .. } => "AssignedPodDelete",
            Subject::Pod { .. } => "AssignedPodUpdate",
            Subject::Itself { .. } => "UnscheduledPodUpdate",
            Subject::Object(event) => event.label(),
            Subject::Gang { is_new: true, .. } => "PodGroupAdd",
            Subject::Gang { is_new: false, .. } => "UnscheduledPodAdd",
            Subject::Other => "Update",
        }
    }
}
