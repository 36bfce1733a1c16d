//! Custom resources: the part of the API that CustomResourceDefinitions bring.
//!
//! A version of a definition becomes a [`ServedResource`] of the same shape as one of the
//! built-in resources, so that everything behind the routing is the same path.
//! [`Definitions`] holds what is served at the moment as a snapshot: requests read
//! it without a lock, and those for built-in resources do not look at it at all.
//! It follows the cache of the definitions: before a request for a custom resource
//! is answered it is as new as that cache.

mod build;
pub mod conversion;
mod follow;
pub mod status;

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use control_store::Revision;
use rustc_hash::FxHashMap;
use tokio::sync::Mutex;

use crate::served_resource::ServedResource;

pub use build::prefix;
pub use follow::follow;

/// The group of the definitions.
pub const GROUP: &str = "apiextensions.k8s.io";
/// Their plural.
pub const PLURAL: &str = "customresourcedefinitions";

/// What is served of custom resources.
#[derive(Debug, Default)]
pub struct Definitions {
    snapshot: ArcSwap<Snapshot>,
    known: Mutex<FxHashMap<String, follow::DefinitionState>>,
}

/// What is served at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// By group, then by plural, the preferred version first.
    groups: FxHashMap<&'static str, FxHashMap<&'static str, Vec<Arc<ServedResource>>>>,
    /// The revision of the definitions that it shows.
    revision: Revision,
    /// Whether a definition is on its way out.
    deleting: bool,
    /// Counts the snapshots that differ in what is served.
    pub generation: u64,
}

impl Definitions {
    /// What is served now.
    #[must_use]
    pub fn now(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }
}

impl Snapshot {
    /// The resource at a path.
    #[must_use]
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ServedResource>> {
        let versions = self.groups.get(group)?.get(plural)?;
        versions
            .iter()
            .find(|served| served.resource.version == version)
    }

    /// Whether a definition is on its way out.
    #[must_use]
    pub fn any_deleting(&self) -> bool {
        self.deleting
    }

    /// Whether anything is served in a group.
    #[must_use]
    pub fn has_group(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    /// Whether anything is served in a group and version.
    #[must_use]
    pub fn has_version(&self, group: &str, version: &str) -> bool {
        self.groups.get(group).is_some_and(|resources| {
            resources
                .values()
                .flatten()
                .any(|served| served.resource.version == version)
        })
    }

    /// The groups in alphabetical order.
    #[must_use]
    pub fn groups(&self) -> Vec<&'static str> {
        let mut all: Vec<&'static str> = self.groups.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// The versions of a group, the preferred one first.
    #[must_use]
    pub fn versions(&self, group: &str) -> Vec<&'static str> {
        let mut all: Vec<&'static str> = self
            .resources(group)
            .map(|served| served.resource.version)
            .collect();
        all.sort_by(|a, b| control_kinds::compare_versions(b, a));
        all.dedup();
        all
    }

    /// All resources of a group, in every version.
    pub fn resources(&self, group: &str) -> impl Iterator<Item = &Arc<ServedResource>> {
        self.groups
            .get(group)
            .into_iter()
            .flat_map(|resources| resources.values().flatten())
    }

    /// The resources of a group and version in alphabetical order.
    #[must_use]
    pub fn resources_of(&self, group: &str, version: &str) -> Vec<&Arc<ServedResource>> {
        let mut all: Vec<_> = self
            .resources(group)
            .filter(|served| served.resource.version == version)
            .collect();
        all.sort_by_key(|served| served.resource.plural);
        all
    }
}
