//! Backup options of commands and the server: destination, encryption, and included
//! files.

mod files;
mod schedule;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use control_backup::StoreSummary;
use control_backup::age::{Identity, Recipient};
use control_backup::place::{Address, Place, S3Options};
use control_store::Store;
use control_watch_cache::storage::Transform;
use serde_json::Value;

use crate::error::Error;

pub use files::{EXTERNAL, server_files};
pub use schedule::{ScheduledBackup, write_metrics};

/// The version of Kubernetes whose API is served.
pub const KUBERNETES: &str = "1.36";

/// How S3-compatible storage is reached.
#[derive(Args, Clone, Debug, Default)]
#[group(id = "s3")]
pub struct S3 {
    /// URL of S3-compatible storage; AWS unless given. Credentials are read from
    /// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
    #[arg(long, value_name = "URL")]
    s3_endpoint: Option<String>,
    /// Region of the bucket; AWS_REGION, else us-east-1 unless given.
    #[arg(long, value_name = "REGION")]
    s3_region: Option<String>,
    /// PEM file of the authorities for the storage's certificate; the system's unless given.
    #[arg(long, value_name = "FILE")]
    s3_cafile: Option<PathBuf>,
}

impl S3 {
    /// The options.
    pub fn options(&self) -> S3Options {
        S3Options {
            endpoint: self.s3_endpoint.clone(),
            region: self.s3_region.clone(),
            ca_file: self.s3_cafile.clone(),
        }
    }

    /// The place of that address.
    ///
    /// # Errors
    /// Options that cannot be used.
    pub fn place(&self, address: &Address) -> Result<Arc<dyn Place>, Error> {
        let place = address.place(&self.options()).map_err(Error::Backup)?;
        Ok(place.into())
    }
}

/// For whom backups are encrypted.
///
/// # Errors
/// Nobody, unless they are to be plain.
pub fn recipients(
    recipients: &[Recipient],
    plain: bool,
    option: &str,
) -> Result<Vec<Recipient>, Error> {
    match (recipients.is_empty(), plain) {
        (false, true) => Err(Error::Option(format!(
            "{option}: a backup is either encrypted for recipients or plain"
        ))),
        (true, false) => Err(Error::Option(format!(
            "a backup holds the keys of the cluster: give {option}recipient age1… (`orlop backup keygen` makes one), or {option}plain to leave it readable for everybody"
        ))),
        _ => Ok(recipients.to_vec()),
    }
}

/// Reads the identities of a file of age.
///
/// # Errors
/// A file that cannot be read or holds none.
pub fn identities(file: Option<&Path>) -> Result<Vec<Identity>, Error> {
    let Some(path) = file else {
        return Ok(Vec::new());
    };
    let text = std::fs::read_to_string(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })?;
    Identity::parse_file(&text).map_err(|error| Error::Backup(control_backup::Error::Age(error)))
}

/// Returns the summary of a store for its backup.
///
/// # Errors
/// When the store cannot be read.
pub async fn about(store: &dyn Store, kind: &str) -> Result<StoreSummary, Error> {
    Ok(StoreSummary {
        format: 1,
        cluster: cluster_id(store).await?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kubernetes: KUBERNETES.to_owned(),
        store: kind.to_owned(),
        revision: 0,
        created: jiff::Timestamp::now(),
    })
}

/// The identity of a cluster: that of its namespace `kube-system`; empty without one.
async fn cluster_id(store: &dyn Store) -> Result<String, Error> {
    const KEY: &[u8] = b"/registry/namespaces/kube-system";
    let found = store
        .get(KEY.to_vec().into(), None)
        .await
        .map_err(Error::Store)?;
    let object = found
        .and_then(|kv| Transform::default().open(&kv.key, &kv.value).ok())
        .and_then(|json| serde_json::from_slice::<Value>(&json).ok());
    Ok(object
        .and_then(|object| object["metadata"]["uid"].as_str().map(str::to_owned))
        .unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_backup_needs_an_option_that_says_so() {
        let own = Identity::generate().unwrap().recipient().unwrap();
        assert!(recipients(&[], false, "--").is_err());
        assert!(recipients(&[own], true, "--").is_err());
        assert_eq!(recipients(&[own], false, "--").unwrap(), [own]);
        assert!(recipients(&[], true, "--").unwrap().is_empty());
    }
}
