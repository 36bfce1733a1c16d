//! The versions of a kind that a CustomResourceDefinition defines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use control_kinds::CustomKind;
use tokio_util::sync::CancellationToken;

/// All versions of a custom kind, as one state of its definition has them.
#[derive(Debug)]
pub struct CrdVersions {
    kinds: Box<[Arc<CustomKind>]>,
    /// UID and generation of the definition.
    pub identity: String,
    /// Cancelled when the definition changes or is deleted; watches end then.
    pub gone: CancellationToken,
    terminating: AtomicBool,
    /// Whether a webhook converts objects, since versions differ in more than their names.
    pub webhook_converts: bool,
}

impl CrdVersions {
    /// Creates the versions of a definition that is not terminating.
    #[must_use]
    pub fn new(kinds: Box<[Arc<CustomKind>]>, identity: String, webhook_converts: bool) -> Self {
        Self {
            kinds,
            identity,
            gone: CancellationToken::new(),
            terminating: AtomicBool::new(false),
            webhook_converts,
        }
    }

    /// All versions, in the order of the definition.
    #[must_use]
    pub fn kinds(&self) -> &[Arc<CustomKind>] {
        &self.kinds
    }

    /// Returns the kind in a version.
    #[must_use]
    pub fn version(&self, version: &str) -> Option<&Arc<CustomKind>> {
        self.kinds.iter().find(|kind| kind.version == version)
    }

    /// Whether the definition is terminating, so that nothing new may be created.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.terminating.load(Ordering::Relaxed)
    }

    /// Records whether the definition is terminating.
    pub fn set_terminating(&self, terminating: bool) {
        self.terminating.store(terminating, Ordering::Relaxed);
    }
}
