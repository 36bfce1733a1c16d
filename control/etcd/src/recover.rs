//! Continues with one member alone after most of the others are permanently lost.

use std::time::Duration;

use crate::record::Launch;
use crate::{Admin, Error, Process, Record, join, wal};

/// Starts the member of `record`, which does not run, as the only one of its cluster, with the
/// data that it has. Returns the record with which it starts from now on, and its process.
///
/// Everything in its log stays, also what was never acknowledged. What the others acknowledged without
/// it is lost, and they must never come back with their data.
///
/// # Errors
/// [`Error::File`] if its log is damaged or in use; [`Error::NotServing`] after `patience`.
pub async fn alone(
    record: Record,
    launch: &Launch,
    local: &Admin,
    patience: Duration,
) -> Result<(Record, Process), Error> {
    let mut launch = launch.clone();
    launch.begins_anew = true;
    let entries = wal::commit_all(&launch.data())?;
    if entries > 0 {
        tracing::info!(entries, "the last entries of the log count as committed");
    }
    let process = Process::start(record.clone(), launch);
    match join::serving(local, &record.local_url(), patience).await {
        Ok(()) => Ok((record.alone(), process)),
        Err(error) => {
            process.stop().await;
            Err(error)
        }
    }
}
