//! The keys of objects in maps.

use compact_str::CompactString;

/// Namespace and name of a pod.
pub type PodKey = (CompactString, CompactString);

/// Namespace and name of a PodGroup.
pub type GangKey = (CompactString, CompactString);

/// Namespace and name of a claim.
pub type ClaimKey = (CompactString, CompactString);
