//! The keys of service accounts' tokens: files, read again when they change.
//!
//! One key signs, all are believed. Without options these are `pki/sa.key` and, of
//! keys that signed before, the public halves in `pki/sa-….pub`: `orlop certs rotate
//! service-account` puts the old one there. A token is believed as long as the key
//! that signed it is there.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use control_access::{Reference, Tokens};
use control_controllers::TokenSigner;
use control_pki::{PublicKey, ServiceAccountKey, ServiceAccountKeys};

use crate::error::Error;

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// Token keys.
#[derive(Args, Clone, Debug, Default)]
#[group(id = "token_keys")]
pub struct Options {
    /// Keys of service accounts' tokens that are believed besides the one that signs: PEM,
    /// public or private, read again when it changes. May be repeated.
    #[arg(long, value_name = "FILE")]
    service_account_key_file: Vec<PathBuf>,
    /// Private key that signs service accounts' tokens, read again when it changes; pki/sa.key of
    /// the data folder unless given.
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,
}

/// The paths of the keys.
#[derive(Clone, Debug)]
pub struct Files {
    options: Options,
    pki: PathBuf,
}

/// The last contents, for comparison.
pub type SeenKeys = Vec<(PathBuf, Vec<u8>)>;

/// Signs the tokens that lie in Secrets.
pub fn legacy_signer(tokens: Tokens) -> TokenSigner {
    TokenSigner(Arc::new(move |namespace, name, uid, secret| {
        let account = Reference {
            name: name.to_owned(),
            uid: uid.to_owned(),
        };
        tokens.issue_legacy(namespace, &account, secret)
    }))
}

// === impl Options ===

impl Options {
    /// Reads the files that the options name.
    ///
    /// # Errors
    /// Files that cannot be read or hold no key.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(path) = &self.service_account_signing_key_file {
            ServiceAccountKey::load(path).map_err(Error::Pki)?;
        }
        for path in &self.service_account_key_file {
            PublicKey::load(path).map_err(Error::Pki)?;
        }
        Ok(())
    }

    /// The files that the options name.
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let others = self.service_account_key_file.iter();
        others
            .chain(&self.service_account_signing_key_file)
            .cloned()
    }

    /// Returns the files, some of them in the folder of the cluster's keys.
    pub fn files(&self, pki: &Path) -> Files {
        Files {
            options: self.clone(),
            pki: pki.to_owned(),
        }
    }
}

// === impl Files ===

impl Files {
    /// Reads the keys.
    ///
    /// # Errors
    /// Files that cannot be read or hold no key.
    pub fn load(&self) -> Result<(ServiceAccountKeys, SeenKeys), Error> {
        // Timestamps are taken before reading, so that concurrent changes are read again.
        let seen = self.look();
        let signing = ServiceAccountKey::load(&self.signing()).map_err(Error::Pki)?;
        let mut others = Vec::new();
        for path in self.others() {
            others.extend(PublicKey::load(&path).map_err(Error::Pki)?);
        }
        Ok((ServiceAccountKeys::new(Arc::new(signing), others), seen))
    }

    /// Replaces the keys of `tokens` whenever files change; never ends. Files that
    /// cannot be used change nothing.
    pub async fn follow(self, tokens: Tokens, mut seen: SeenKeys) {
        loop {
            tokio::time::sleep(LOOK).await;
            let now = self.look();
            if now == seen {
                continue;
            }
            seen = now;
            match self.load() {
                Ok((keys, _)) => {
                    tracing::info!(keys = ?keys.ids(), "service account token keys reloaded");
                    tokens.replace_keys(keys);
                }
                Err(error) => {
                    let error = crate::run::in_one_line(&error);
                    tracing::error!(error, "service account token keys not reloaded");
                }
            }
        }
    }

    fn look(&self) -> SeenKeys {
        let files = std::iter::once(self.signing()).chain(self.others());
        files
            .map(|path| {
                let bytes = std::fs::read(&path).unwrap_or_default();
                (path, bytes)
            })
            .collect()
    }

    fn signing(&self) -> PathBuf {
        let given = self.options.service_account_signing_key_file.clone();
        given.unwrap_or_else(|| self.pki.join("sa.key"))
    }

    fn others(&self) -> Vec<PathBuf> {
        let mut all = self.options.service_account_key_file.clone();
        all.extend(retired(&self.pki));
        all
    }
}

/// Public halves of keys that signed before, by name.
pub fn retired(pki: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(pki)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("sa-") && name.ends_with(".pub")
        })
        .collect();
    all.sort();
    all
}

/// Puts a new signing key into a folder; the old one's public half stays.
///
/// # Errors
/// Files that cannot be used.
pub fn rotate(pki: &Path, now: jiff::Timestamp) -> Result<PathBuf, Error> {
    let path = pki.join("sa.key");
    let old = ServiceAccountKey::load(&path).map_err(Error::Pki)?;
    let kept = pki.join(format!("sa-{}.pub", now.strftime("%Y%m%dT%H%M%SZ")));
    // Before the key: tokens that it signed are believed at every moment.
    control_pki::write_public(&kept, old.public_pem().as_bytes()).map_err(Error::Pki)?;
    let aside = path.with_extension(format!("new-{}", std::process::id()));
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&aside)
        .map_err(|source| Error::File {
            path: aside.clone(),
            source,
        })?;
    let made = ServiceAccountKey::load_or_create(&aside).map_err(Error::Pki)?;
    let usable = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    };
    let new = aside.join("sa.key");
    control_pki::write_public(&pki.join("sa.pub"), made.public_pem().as_bytes())
        .map_err(Error::Pki)?;
    std::fs::rename(&new, &path).map_err(usable(&path))?;
    std::fs::remove_dir_all(&aside).map_err(usable(&aside))?;
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &Path) -> Files {
        Options::default().files(dir)
    }

    #[test]
    fn a_rotated_key_is_believed_until_its_file_is_deleted() {
        let dir = tempfile::tempdir().expect("a directory");
        ServiceAccountKey::load_or_create(dir.path()).expect("made");
        let (first, seen) = files(dir.path()).load().expect("usable");
        let kept = rotate(dir.path(), jiff::Timestamp::UNIX_EPOCH).expect("rotated");
        assert!(kept.ends_with("sa-19700101T000000Z.pub"));
        assert_ne!(files(dir.path()).look(), seen, "the change is seen");
        let (second, _) = files(dir.path()).load().expect("usable");
        assert_eq!(second.ids().len(), 2);
        assert_eq!(second.ids()[1], first.ids()[0]);
        let public = std::fs::read_to_string(dir.path().join("sa.pub")).expect("a file");
        assert_eq!(public, second.signing().public_pem());
        std::fs::remove_file(kept).expect("removed");
        let (third, _) = files(dir.path()).load().expect("usable");
        assert_eq!(third.ids(), [second.ids()[0]]);
        let left = std::fs::read_dir(dir.path()).expect("a folder").count();
        assert_eq!(left, 2, "nothing is left beside");
    }

    #[test]
    fn given_files_are_used_instead() {
        let (dir, other) = (tempfile::tempdir(), tempfile::tempdir());
        let (dir, other) = (dir.expect("a directory"), other.expect("a directory"));
        let own = ServiceAccountKey::load_or_create(dir.path()).expect("made");
        let theirs = ServiceAccountKey::load_or_create(other.path()).expect("made");
        let options = Options {
            service_account_key_file: vec![dir.path().join("sa.pub"), other.path().join("sa.pub")],
            service_account_signing_key_file: Some(other.path().join("sa.key")),
        };
        let (keys, _) = options.files(Path::new("/nowhere")).load().expect("usable");
        let id = |key: &ServiceAccountKey| key.public().jwk()["kid"].as_str().map(str::to_owned);
        assert_eq!(
            keys.ids()
                .into_iter()
                .map(|id| Some(id.to_owned()))
                .collect::<Vec<_>>(),
            [id(&theirs), id(&own)]
        );
        assert!(files(Path::new("/nowhere")).load().is_err());
    }
}
