//! Makes a backup while the store is in use.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control_store::Store;
use tokio::sync::mpsc;

use crate::age::Recipient;
use crate::archive::{ArchiveWriter, ServerFile};
use crate::manifest::{Manifest, StoreSummary};
use crate::place::Place;
use crate::source::Pages;
use crate::{BackupName, Entry, Error};

/// The contents of a backup beside the store, and its destination.
pub struct Request {
    /// The summary. Its revision and time are set when the store is read.
    pub about: StoreSummary,
    /// Files of the server.
    pub files: Vec<ServerFile>,
    /// Public keys to which the backup is encrypted. Empty: it is not encrypted.
    pub recipients: Vec<Recipient>,
    /// The destination.
    pub place: Arc<dyn Place>,
}

/// A backup that was made.
#[derive(Clone, Debug)]
pub struct CreatedBackup {
    /// Its name.
    pub name: BackupName,
    /// Its size, in bytes.
    pub size: u64,
    /// The contents.
    pub manifest: Manifest,
    /// How long it took.
    pub took: Duration,
}

/// Pages that wait to be written: bounds the memory.
const WAITING: usize = 2;

/// Reads `store` as of now and writes a backup.
///
/// # Errors
/// What cannot be read or written; nothing is left of the backup then.
pub async fn create(store: Arc<dyn Store>, request: Request) -> Result<CreatedBackup, Error> {
    let started = Instant::now();
    let Request {
        about,
        files,
        recipients,
        place,
    } = request;
    let about = StoreSummary {
        revision: store.latest().await.map_err(Error::Store)?,
        created: jiff::Timestamp::now(),
        ..about
    };
    let revision = about.revision;
    let (pages, receiver) = mpsc::channel(WAITING);
    let writer =
        tokio::task::spawn_blocking(move || write(about, &files, &recipients, &*place, receiver));
    let reader = async {
        let mut source = Pages::new(&*store, revision);
        loop {
            let page = source.next().await?;
            let is_last = page.is_empty();
            // An empty page is the end; without it the backup is aborted.
            if pages.send(page).await.is_err() || is_last {
                return Ok::<_, Error>(());
            }
        }
    };
    let read = reader.await;
    drop(pages);
    let written = writer
        .await
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    read?;
    let (name, size, manifest) = written?;
    Ok(CreatedBackup {
        name,
        size,
        manifest,
        took: started.elapsed(),
    })
}

fn write(
    about: StoreSummary,
    files: &[ServerFile],
    recipients: &[Recipient],
    place: &dyn Place,
    mut pages: mpsc::Receiver<Vec<Entry>>,
) -> Result<(BackupName, u64, Manifest), Error> {
    let name = BackupName::new(&about, !recipients.is_empty());
    let sink = place.create(&name.to_string())?;
    let mut archive = ArchiveWriter::new(sink, about, recipients)?;
    for file in files {
        archive.file(file)?;
    }
    loop {
        let page = pages.blocking_recv().ok_or(Error::Cancelled)?;
        if page.is_empty() {
            break;
        }
        for entry in &page {
            archive.key(entry)?;
        }
    }
    let (sink, manifest) = archive.finish()?;
    let size = sink.commit()?;
    Ok((name, size, manifest))
}
