//! Encryption at rest.
//!
//! The configuration is kube-apiserver's `EncryptionConfiguration`
//! (`apiserver.config.k8s.io/v1`), and so are the bytes: either server can use the
//! other's store. Every value has a prefix that names its provider and key:
//! `k8s:enc:aesgcm:v1:<key>:`, `k8s:enc:aescbc:v1:<key>:`, `k8s:enc:secretbox:v1:<key>:`,
//! `k8s:enc:kms:v2:<name>:`.
//!
//! [`Encryption`] is the server's state: for each resource a list of providers, of which
//! the first writes and all read. It can be replaced while the server runs. [`Source`] is
//! its file, which is reloaded whenever it changes.

mod aes;
mod cipher;
mod config;
mod error;
mod kms;
mod own;
mod providers;
mod secretbox;
mod source;

use std::sync::Arc;

use arc_swap::ArcSwap;

pub use cipher::{ANY_PREFIX, OpenedValue};
pub use error::Error;
pub use own::OwnKeys;
pub use providers::Table;
pub use source::Source;

/// The encrypted resources and their providers. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Encryption(Arc<ArcSwap<Table>>);

impl Encryption {
    /// Encrypts as a table says.
    #[must_use]
    pub fn new(table: Table) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(table)))
    }

    /// Encrypts Secrets with the keys of a file, which is made if it is missing.
    ///
    /// # Errors
    /// When it cannot be used, see [`Source::load`].
    pub fn own(path: &std::path::Path) -> Result<Self, Error> {
        OwnKeys::ensure(path)?;
        Ok(Self::new(Source::Keys(path.to_owned()).load()?.0))
    }

    /// Encrypts in another way from now on.
    pub fn replace(&self, table: Table) {
        self.0.store(Arc::new(table));
    }

    /// How values are encrypted now.
    #[must_use]
    pub fn now(&self) -> Arc<Table> {
        self.0.load_full()
    }

    /// The bytes to store for a value of a resource; nothing if it is stored as
    /// it is. `key` is where it will lie: it can be read there only.
    ///
    /// # Errors
    /// When the resource's first provider cannot encrypt.
    pub fn seal(
        &self,
        (group, resource): (&str, &str),
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        self.0.load().seal(group, resource, key, value)
    }

    /// The value of stored bytes; nothing if they are the value.
    ///
    /// # Errors
    /// When no provider of the resource can decrypt them.
    pub fn open(
        &self,
        (group, resource): (&str, &str),
        key: &[u8],
        stored: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        if !stored.starts_with(ANY_PREFIX) {
            return Ok(None);
        }
        let opened = self.0.load().open(group, resource, key, stored)?;
        Ok(Some(opened.value))
    }
}
