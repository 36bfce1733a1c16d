//! Errors of allocations.

use compact_str::CompactString;

use crate::api::ALLOCATION_RESULTS_MAX_SIZE;
use crate::selector::SelectorError;

/// Error of an allocation other than missing devices. The message is kube-scheduler's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocationError {
    /// A selector of an unknown kind.
    #[error(
        "claim {claim}, request {request}, selector #{index}: CEL expression empty (unsupported selector type?)"
    )]
    EmptySelector {
        /// The claim.
        claim: String,
        /// The request.
        request: CompactString,
        /// The selector's position.
        index: usize,
    },
    /// A feature is off that a request needs.
    #[error("claim {claim}, {kind} {request}: {what}")]
    FeatureDisabled {
        /// The claim.
        claim: String,
        /// `request` or `subrequest`.
        kind: &'static str,
        /// The request.
        request: CompactString,
        /// The requirement.
        what: &'static str,
    },
    /// A request of an unknown kind.
    #[error(
        "claim {claim}, request {request}: missing device class name (unsupported request type?)"
    )]
    MissingClassName {
        /// The claim.
        claim: String,
        /// The request.
        request: CompactString,
    },
    /// A class does not exist.
    #[error(
        "claim {claim}, request {request}: could not retrieve device class {class}: deviceclass.resource.k8s.io \"{class}\" not found"
    )]
    MissingClass {
        /// The claim.
        claim: String,
        /// The request.
        request: CompactString,
        /// The class.
        class: CompactString,
    },
    /// An allocation mode of an unknown kind.
    #[error("claim {claim}, request {request}: unsupported count mode {mode}")]
    UnsupportedMode {
        /// The claim.
        claim: String,
        /// The request.
        request: CompactString,
        /// The mode.
        mode: CompactString,
    },
    /// All devices are requested, but they are not completely known.
    #[error(
        "claim {claim}, request {request}: asks for all devices, but resource pool {pool} is currently {state}"
    )]
    UnknownDevices {
        /// The claim.
        claim: String,
        /// The request.
        request: CompactString,
        /// The pool, as `driver/pool`.
        pool: String,
        /// `being updated` or `invalid`.
        state: &'static str,
    },
    /// More devices than a claim can have.
    #[error(
        "claim {claim}: number of requested devices {devices} exceeds the claim limit of {ALLOCATION_RESULTS_MAX_SIZE}"
    )]
    TooManyDevices {
        /// The claim.
        claim: String,
        /// How many are needed at least.
        devices: usize,
    },
    /// A constraint of an unknown kind.
    #[error("claim {claim}, constraint #{index}: empty constraint (unsupported constraint type?)")]
    EmptyConstraint {
        /// The claim.
        claim: String,
        /// The constraint's position.
        index: usize,
    },
    /// All devices are requested, and they violate a constraint.
    #[error(
        "claim {claim}, request {request}: cannot add device {device} because a claim constraint would not be satisfied"
    )]
    ConstraintNotSatisfied {
        /// The claim.
        claim: String,
        /// The request.
        request: CompactString,
        /// The device, as `driver/pool/device`.
        device: String,
    },
    /// A selector of a class failed.
    #[error("class {class}: selector #{index}: {error}")]
    ClassSelector {
        /// The class.
        class: CompactString,
        /// The selector's position.
        index: usize,
        /// The reason.
        error: SelectorError,
    },
    /// A selector of a claim failed.
    #[error("claim {claim}: selector #{index}: {error}")]
    ClaimSelector {
        /// The claim.
        claim: String,
        /// The selector's position.
        index: usize,
        /// The reason.
        error: SelectorError,
    },
    /// A pool's devices cannot be used, and no others fit. Concerns this node only.
    #[error("invalid resource pools were encountered")]
    InvalidPools,
    /// The search took too long.
    #[error("node {node}: timed out trying to allocate devices")]
    TimedOut {
        /// The node.
        node: CompactString,
    },
    /// A slice has a node selector that cannot be put into an allocation.
    #[error(
        "create NodeSelector for claim {claim}: unsupported ResourceSlice.NodeSelector with {terms} terms"
    )]
    NodeSelectorTerms {
        /// The claim.
        claim: CompactString,
        /// How many terms it has.
        terms: usize,
    },
}

impl AllocationError {
    /// Whether other nodes may fit nevertheless.
    #[must_use]
    pub const fn is_of_node(&self) -> bool {
        matches!(self, Self::InvalidPools)
    }
}
