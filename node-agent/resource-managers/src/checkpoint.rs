//! The kubelet's checkpoints: JSON with a checksum over what Go's `spew`
//! prints of the structure, so that either can go on with what the other left.
//!
//! The checksum is FNV-1a over `%#v` with types, keys sorted, without pointers'
//! addresses. What is printed is put together here by hand, type by type.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a checkpoint cannot be gone on with.
#[derive(Debug, thiserror::Error)]
#[error(
    "could not restore state from checkpoint `{}`; please drain this node and delete the file before starting again",
    path.display()
)]
pub struct CheckpointError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Why the text of a checkpoint is no state.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// It is not JSON, or lacks fields.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Its checksum is of another text.
    #[error("checkpoint is corrupted")]
    Corrupted,
    /// It is of another policy.
    #[error("configured policy \"{configured}\" differs from state checkpoint policy \"{stored}\"")]
    Policy {
        /// The policy that is configured.
        configured: String,
        /// The policy of the state.
        stored: String,
    },
}

/// The text of a checkpoint; none when there is none.
///
/// # Errors
/// When it is there and cannot be read.
pub fn read(path: &Path) -> Result<Option<String>, CheckpointError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CheckpointError {
            path: path.to_owned(),
            source: error.into(),
        }),
    }
}

/// The state of a resource manager, as stored in its checkpoint.
pub trait ManagerState: Serialize + DeserializeOwned {
    /// The policy that it is of.
    fn policy(&self) -> &str;

    /// The checksum's place.
    fn sum(&mut self) -> &mut u64;

    /// As Go prints it without its checksum.
    fn printed(&self) -> String;
}

/// The text of a state.
pub fn seal(mut state: impl ManagerState) -> String {
    let sum = checksum(&state.printed());
    *state.sum() = sum;
    serde_json::to_string(&state).unwrap_or_default()
}

/// A state of the policy that is configured, from its text.
///
/// # Errors
/// Why it is none.
pub fn open<S: ManagerState>(text: &str, policy: &str) -> Result<S, FormatError> {
    let mut state: S = serde_json::from_str(text)?;
    let sum = *state.sum();
    if sum != 0 && sum != checksum(&state.printed()) {
        return Err(FormatError::Corrupted);
    }
    if state.policy() != policy {
        return Err(FormatError::Policy {
            configured: policy.to_owned(),
            stored: state.policy().to_owned(),
        });
    }
    Ok(state)
}

/// A field's value with its type, which what is in lists and maps goes without:
/// `(string)x`.
pub fn typed(kind: &str, value: impl Display) -> String {
    format!("({kind}){value}")
}

/// A structure of typed fields: `{A:(int)1 B:(string)x}`.
pub fn fields(all: &[(&str, String)]) -> String {
    let all: Vec<String> = all.iter().map(|(k, v)| format!("{k}:{v}")).collect();
    format!("{{{}}}", all.join(" "))
}

/// A list: `[1 2]`.
pub fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(" "))
}

/// A map, sorted already: `map[a:1]`.
pub fn map(entries: impl IntoIterator<Item = (impl Display, impl Display)>) -> String {
    let entries: Vec<String> = entries
        .into_iter()
        .map(|(key, value)| format!("{key}:{value}"))
        .collect();
    format!("map[{}]", entries.join(" "))
}

/// The checksum of what was printed.
#[must_use]
pub fn checksum(printed: &str) -> u64 {
    let hash = printed.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_fnv_1a() {
        // from the algorithm's own list of test vectors
        assert_eq!(checksum(""), 0x811c_9dc5);
        assert_eq!(checksum("a"), 0xe40c_292c);
        assert_eq!(checksum("foobar"), 0xbf9c_f968);
    }
}
