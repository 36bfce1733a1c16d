//! The file of a `KubeSchedulerConfiguration`.

use std::path::Path;

use control_scheduler::config::{self, Configuration};
use control_scheduler::{Config, Features};

/// Error for an unusable file.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerFileError {
    /// It cannot be read.
    #[error("cannot be read")]
    Read(#[source] std::io::Error),
    /// It is another kind, or invalid.
    #[error("is no KubeSchedulerConfiguration")]
    Configuration(#[source] config::Error),
}

/// Whether a file is a `KubeSchedulerConfiguration` rather than options of this program.
pub fn is_configuration(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    config::is_configuration(&text)
}

/// Reads a `KubeSchedulerConfiguration`; with `elects`, including its election.
///
/// # Errors
/// [`SchedulerFileError`].
pub fn read(
    path: &Path,
    features: Features,
    elects: bool,
    identity: &str,
) -> Result<Config, SchedulerFileError> {
    let text = std::fs::read_to_string(path).map_err(SchedulerFileError::Read)?;
    let file = Configuration::from_yaml(&text, features);
    let file = file.map_err(SchedulerFileError::Configuration)?;
    let election = file.leader_election.as_candidate(identity);
    let election = election.map_err(SchedulerFileError::Configuration)?;
    let mut config = Config::from_file(file, features);
    config.election = election.filter(|_| elects);
    Ok(config)
}
