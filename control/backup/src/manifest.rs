//! The summary at the start of a backup, and the manifest at its end.

use std::collections::BTreeMap;

use control_store::Revision;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The format that this version writes and reads.
pub const FORMAT: u32 = 1;

/// The first entry: what is known before the store is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreSummary {
    /// `FORMAT`.
    pub format: u32,
    /// The UID of the namespace `kube-system`, which identifies a cluster; empty if unknown.
    pub cluster: String,
    /// The version of Orlop that made the backup.
    pub version: String,
    /// The version of Kubernetes whose API it serves, such as `1.36`.
    pub kubernetes: String,
    /// The kind of store: `embedded` or `etcd`.
    pub store: String,
    /// The revision as of which all keys are.
    pub revision: Revision,
    /// When it was read.
    pub created: Timestamp,
}

/// The last entry: the contents of the backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// As at the begin.
    #[serde(flatten)]
    pub about: StoreSummary,
    /// How many keys of the store there are.
    pub keys: u64,
    /// How many bytes their values have.
    pub value_bytes: u64,
    /// The number of keys with a limited lifetime.
    pub leased_keys: u64,
    /// The number of keys of each resource, by the beginning of their keys.
    pub resources: BTreeMap<String, u64>,
    /// Files of the server, by their names in the backup.
    pub files: Vec<String>,
    /// SHA-256 of every other entry, in hexadecimal digits.
    pub checksums: BTreeMap<String, String>,
}
