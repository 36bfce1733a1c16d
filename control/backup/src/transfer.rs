//! Copies a store into another one while it is in use, and keeps the copy up to date until
//! the source is at rest. A move is: copy, follow, stop the servers, follow once more,
//! compare.

use std::sync::Arc;

use bytes::Bytes;
use control_store::embedded::{ImportedChange, Importer};
use control_store::{Event, EventKind, Outcome, Precondition, Revision, Store, Watch, Write};

use crate::restore::{ensure_empty, put_all};
use crate::source::{Pages, lease_time};
use crate::{Entry, Error};

/// The store to which keys are copied.
pub enum Target {
    /// A new file of the embedded store. Keys keep their revisions.
    Embedded(Box<Importer>),
    /// A store that runs. Keys get new revisions.
    Live {
        /// It.
        store: Arc<dyn Store>,
        /// Its name for people.
        name: String,
    },
}

/// A copy that follows its source.
pub struct Copy {
    target: Target,
    /// The copy is that of the source at this revision.
    revision: Revision,
    keys: u64,
    watch: Watch,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// How many keys both have.
    pub keys: u64,
    /// How many bytes of values.
    pub bytes: u64,
}

// === impl Target ===

impl Target {
    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), Error> {
        match self {
            Self::Embedded(importer) => {
                let changes: Vec<_> = entries
                    .into_iter()
                    .map(|entry| ImportedChange::Put {
                        remaining: entry.remaining(),
                        kv: entry.key_value(),
                    })
                    .collect();
                importer.apply(&changes).map_err(Error::Store)
            }
            Self::Live { store, .. } => put_all(&**store, entries).await,
        }
    }

    async fn delete(&mut self, key: Bytes) -> Result<(), Error> {
        match self {
            Self::Embedded(importer) => {
                let change = ImportedChange::Delete(key);
                importer.apply(&[change]).map_err(Error::Store)
            }
            Self::Live { store, .. } => {
                let deleted = store.write(key, Precondition::Any, Write::Delete).await;
                deleted.map(|_: Outcome| ()).map_err(Error::Store)
            }
        }
    }
}

// === impl Copy ===

impl Copy {
    /// Copies all of `source` into an empty target.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::Store`].
    pub async fn begin(source: &dyn Store, mut target: Target) -> Result<Self, Error> {
        if let Target::Live { store, name } = &target {
            ensure_empty(&**store, name).await?;
        }
        let revision = source.latest().await.map_err(Error::Store)?;
        let watch = source.watch(Bytes::new(), revision);
        let mut pages = Pages::new(source, revision);
        let mut keys = 0;
        loop {
            let page = pages.next().await?;
            if page.is_empty() {
                break;
            }
            keys += page.len() as u64;
            target.put(page).await?;
        }
        Ok(Self {
            target,
            revision,
            keys,
            watch,
        })
    }

    /// The revision of the source that the copy has.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// How many keys the first copy had.
    #[must_use]
    pub const fn keys(&self) -> u64 {
        self.keys
    }

    /// Takes the source's changes up to a revision.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn follow(&mut self, source: &dyn Store, to: Revision) -> Result<(), Error> {
        while self.revision < to {
            self.watch.progress().request();
            let batch = self.watch.next().await;
            let batch = batch
                .unwrap_or(Err(control_store::Error::Closed))
                .map_err(Error::Store)?;
            for event in batch.events {
                self.take(source, event).await?;
            }
            self.revision = self.revision.max(batch.revision);
        }
        Ok(())
    }

    /// Continues with another access to the same source, such as its file when it is no
    /// longer served.
    pub fn follow_instead(&mut self, source: &dyn Store) {
        self.watch = source.watch(Bytes::new(), self.revision);
    }

    async fn take(&mut self, source: &dyn Store, event: Event) -> Result<(), Error> {
        match event.kind {
            EventKind::Delete => self.target.delete(event.kv.key).await,
            EventKind::Put => {
                let remaining = lease_time(source, event.kv.lease).await?;
                self.target.put(vec![Entry::new(event.kv, remaining)]).await
            }
        }
    }

    /// Gives the target back, which is not finished yet.
    #[must_use]
    pub fn into_target(self) -> Target {
        self.target
    }
}

/// Compares the present keys and values of two stores. A key with a lease may be missing
/// from one of them, because it expired there.
///
/// # Errors
/// [`Error::Differs`], [`Error::Store`].
pub async fn compare(source: &dyn Store, target: &dyn Store) -> Result<Comparison, Error> {
    let one = source.latest().await.map_err(Error::Store)?;
    let other = target.latest().await.map_err(Error::Store)?;
    let (mut left, mut right) = (Stream::new(source, one), Stream::new(target, other));
    let (mut a, mut b) = (left.next().await?, right.next().await?);
    let mut compared = Comparison::default();
    let mut differing = Vec::new();
    loop {
        match (&a, &b) {
            (None, None) => break,
            (Some(one), Some(other)) if one.key == other.key => {
                if one.value == other.value {
                    compared.keys += 1;
                    compared.bytes += one.value.len() as u64;
                } else {
                    differing.push(one.key.clone());
                }
                (a, b) = (left.next().await?, right.next().await?);
            }
            (Some(one), other) if other.as_ref().is_none_or(|other| one.key < other.key) => {
                differing.extend((one.lease == 0).then(|| one.key.clone()));
                a = left.next().await?;
            }
            (_, Some(other)) => {
                differing.extend((other.lease == 0).then(|| other.key.clone()));
                b = right.next().await?;
            }
            (Some(_), None) => break,
        }
    }
    match differing.first() {
        None => Ok(compared),
        Some(first) => Err(Error::Differs {
            count: differing.len() as u64,
            first: String::from_utf8_lossy(first).into_owned(),
        }),
    }
}

/// The keys of a store, one by one.
struct Stream<'s> {
    pages: Pages<'s>,
    page: std::vec::IntoIter<Entry>,
}

impl<'s> Stream<'s> {
    fn new(store: &'s dyn Store, revision: Revision) -> Self {
        Self {
            pages: Pages::new(store, revision).without_leases(),
            page: Vec::new().into_iter(),
        }
    }

    async fn next(&mut self) -> Result<Option<Entry>, Error> {
        if let Some(entry) = self.page.next() {
            return Ok(Some(entry));
        }
        self.page = self.pages.next().await?.into_iter();
        Ok(self.page.next())
    }
}
