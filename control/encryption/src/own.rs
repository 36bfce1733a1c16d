//! The keys that a cluster has without any configuration: Secrets are encrypted
//! with AES-GCM under the first key of a file that only its owner may read.
//!
//! A line of the file is a key: `<name>:<32 bytes in base64>`, or the bytes alone,
//! whose name is then `key1`. The first writes, all read.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::aes::{Gcm, random};
use crate::error::Error;
use crate::providers::{Provider, Table};

/// The name of a key without one.
const FIRST: &str = "key1";

/// Keys by their names, the one that writes first.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnKeys(Vec<(String, [u8; 32])>);

impl std::fmt::Debug for OwnKeys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.names()).finish()
    }
}

impl OwnKeys {
    /// Creates the file with one key, unless it exists.
    ///
    /// # Errors
    /// When it cannot be written, or the system has no random numbers.
    pub fn ensure(path: &Path) -> Result<(), Error> {
        if path.exists() {
            return Ok(());
        }
        let none = Self(Vec::new());
        none.with_new()?.write(path)
    }

    /// Writes the file, whole or not at all, for its owner's eyes only.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        control_pki::write_private(path, self.text().as_bytes()).map_err(Error::Pki)
    }

    /// Reads the text of a key file.
    ///
    /// # Errors
    /// [`Error::Malformed`], naming `path`.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let wrong = |detail: String| Error::Malformed {
            path: path.to_owned(),
            detail,
        };
        let mut keys: Vec<(String, [u8; 32])> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, secret) = line.split_once(':').unwrap_or((FIRST, line));
            let bytes = STANDARD
                .decode(secret.trim())
                .ok()
                .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
                .ok_or_else(|| {
                    let line = at + 1;
                    wrong(format!("line {line}: a key must be 32 bytes in base64"))
                })?;
            if keys.iter().any(|(other, _)| other == name) {
                return Err(wrong(format!("the name `{name}` is used twice")));
            }
            keys.push((name.to_owned(), bytes));
        }
        if keys.is_empty() {
            return Err(wrong("there is no key in it".to_owned()));
        }
        Ok(Self(keys))
    }

    /// The text of a key file.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.iter().fold(String::new(), |mut text, (name, key)| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}:{}", STANDARD.encode(key));
            text
        })
    }

    /// The keys' names, the one that writes first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Returns it with a new key that writes from now on; the others still read.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn with_new(&self) -> Result<Self, Error> {
        let mut key = [0; 32];
        random(&mut key)?;
        let number = self
            .names()
            .filter_map(|name| name.strip_prefix("key")?.parse::<u32>().ok())
            .max()
            .unwrap_or(0)
            .saturating_add(1);
        let mut keys = vec![(format!("key{number}"), key)];
        keys.extend(self.0.iter().cloned());
        Ok(Self(keys))
    }

    /// With the key alone that writes.
    #[must_use]
    pub fn newest(&self) -> Self {
        Self(self.0.iter().take(1).cloned().collect())
    }

    /// Encrypts Secrets with these keys.
    #[must_use]
    pub fn table(&self) -> Table {
        let providers: Vec<Provider> = self
            .0
            .iter()
            .filter_map(|(name, key)| {
                Some(Provider::Key {
                    prefix: format!("k8s:enc:aesgcm:v1:{name}:"),
                    cipher: Arc::new(Gcm::new(key)?),
                })
            })
            .collect();
        let mut table = Table::default();
        table.put("secrets", &providers);
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_writes_and_the_old_one_reads_until_it_is_dropped() {
        let path = Path::new("/k");
        let old = OwnKeys::parse(&STANDARD.encode([1; 32]), path).expect("a key");
        let seal = |keys: &OwnKeys| {
            let sealed = keys.table().seal("", "secrets", b"/a", b"v");
            sealed.expect("sealed").expect("encrypted")
        };
        let before = seal(&old);
        assert!(before.starts_with(b"k8s:enc:aesgcm:v1:key1:"));
        let both = old.with_new().expect("made");
        assert_eq!(both.names().collect::<Vec<_>>(), ["key2", "key1"]);
        assert_eq!(OwnKeys::parse(&both.text(), path).expect("read"), both);
        assert!(seal(&both).starts_with(b"k8s:enc:aesgcm:v1:key2:"));
        let open = |keys: &OwnKeys| keys.table().open("", "secrets", b"/a", &before);
        assert!(open(&both).expect("opened").stale);
        open(&both.newest()).expect_err("its key is gone");
    }

    #[test]
    fn the_first_key_is_made_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("encryption.key");
        OwnKeys::ensure(&path).expect("made");
        let made = std::fs::read_to_string(&path).expect("read");
        OwnKeys::ensure(&path).expect("there");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), made);
        let keys = OwnKeys::parse(&made, &path).expect("a key");
        assert_eq!(keys.names().collect::<Vec<_>>(), ["key1"]);
    }

    #[test]
    fn what_is_no_key_is_refused_with_its_line() {
        for (text, told) in [
            ("", "no key"),
            ("AAAA", "line 1: a key must be 32 bytes"),
            ("# comment\nkey2:AAAA", "line 2"),
        ] {
            let error = OwnKeys::parse(text, Path::new("/k")).expect_err(told);
            assert!(error.to_string().contains(told), "{error}");
        }
    }
}
