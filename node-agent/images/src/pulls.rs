//! Who may use an image that is there (KEP-2535): whoever has what it was
//! fetched with, or could fetch it.
//!
//! ```text
//! <root>/image_manager/pulling/sha256-…   written before an image is fetched
//! <root>/image_manager/pulled/sha256-…    what it was fetched with
//! ```
//!
//! The files are the kubelet's, so that it and the agent can take turns on a
//! node. They are written beside and moved into place: a full disk or a crash
//! leaves the old one, and one that cannot be read counts as none, which asks
//! the registry once more.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use jiff::Timestamp;
use node_agent_files::{atomic_file, blocking, digest};
use node_agent_kubelet_config::PullVerification;
use node_agent_objects::times::rfc3339;
use serde::{Deserialize, Serialize};

use super::credentials::{Credential, CredentialSource, PullAccount, PullSecret, repository};

/// Whether the policy wants the credentials verified of who asks for an image.
fn verifies(policy: &PullVerification, image: &str, fetched: bool) -> bool {
    match policy {
        PullVerification::Never => false,
        PullVerification::Fetched => fetched,
        PullVerification::Always => true,
        PullVerification::AllBut(patterns) => {
            let name = repository(image);
            !patterns
                .iter()
                .any(|pattern| match pattern.strip_suffix('*') {
                    Some(prefix) => name.starts_with(prefix),
                    None => name == *pattern,
                })
        }
    }
}

/// `ImagePullCredentials`: the credentials that pulled an image under one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PulledCredentials {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kubernetes_secrets: Vec<PullSecret>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kubernetes_service_accounts: Vec<PullAccount>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    node_pods_accessible: bool,
}

/// Most credentials of one kind that are remembered of a name.
const MOST: usize = 100;

impl PulledCredentials {
    fn add(&mut self, source: &CredentialSource) {
        if self.node_pods_accessible {
            return;
        }
        match source {
            CredentialSource::Node => {
                *self = Self {
                    node_pods_accessible: true,
                    ..Self::default()
                };
            }
            CredentialSource::Secret(secret) => {
                let all = &mut self.kubernetes_secrets;
                all.retain(|s| {
                    (&s.uid, &s.namespace, &s.name)
                        != (&secret.uid, &secret.namespace, &secret.name)
                });
                if all.len() >= MOST {
                    all.remove(0);
                }
                all.push(secret.clone());
            }
            CredentialSource::Account(account) => {
                let all = &mut self.kubernetes_service_accounts;
                all.retain(|a| a != account);
                if all.len() >= MOST {
                    all.remove(0);
                }
                all.push(account.clone());
            }
        }
    }

    /// Whether one of the sources was used, or is another form of one.
    fn has(&self, sources: &[Credential]) -> bool {
        self.node_pods_accessible
            || sources.iter().any(|credential| match &credential.source {
                CredentialSource::Node => false,
                CredentialSource::Account(account) => {
                    self.kubernetes_service_accounts.contains(account)
                }
                CredentialSource::Secret(own) => self.kubernetes_secrets.iter().any(|used| {
                    let same = (&used.uid, &used.namespace, &used.name)
                        == (&own.uid, &own.namespace, &own.name);
                    let hash = &own.credential_hash;
                    same || (!hash.is_empty() && used.credential_hash == *hash)
                }),
            })
    }
}

/// `ImagePulledRecord`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PulledRecord {
    kind: String,
    api_version: String,
    last_updated_time: String,
    image_ref: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    credential_mapping: BTreeMap<String, PulledCredentials>,
}

/// `ImagePullIntent`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PullIntent {
    kind: String,
    api_version: String,
    image: String,
}

const VERSION: &str = "kubelet.config.k8s.io/v1beta1";

/// Records of which images were pulled with which credentials.
#[derive(Debug)]
pub struct PullRecords {
    folder: PathBuf,
    verification: PullVerification,
    /// By image: how many are fetching it. Held while files change.
    fetching: Mutex<BTreeMap<String, usize>>,
}

/// Whether a pod may use an image, or what has to be checked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullVerdict {
    /// It may.
    Yes,
    /// It has to be fetched again, with the pod's own credentials.
    No,
    /// It depends on the pod's credentials.
    AskFor,
}

impl PullRecords {
    /// Keeps records below the agent's folder.
    #[must_use]
    pub fn new(root: &Path, verification: PullVerification) -> Self {
        Self {
            folder: root.join("image_manager"),
            verification,
            fetching: Mutex::default(),
        }
    }

    fn file(&self, kind: &str, of: &str) -> PathBuf {
        self.folder
            .join(kind)
            .join(format!("sha256-{}", digest(of)))
    }

    fn record(&self, id: &str) -> Option<PulledRecord> {
        let text = fs::read_to_string(self.file("pulled", id)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Whether the image with this id may be used under this name.
    #[must_use]
    pub fn verdict(&self, image: &str, id: &str) -> PullVerdict {
        let fetching = self.lock();
        let fetched = self.file("pulled", id).exists()
            || fetching.contains_key(image)
            || self.file("pulling", image).exists();
        if !verifies(&self.verification, image, fetched) {
            return PullVerdict::Yes;
        }
        let record = self.record(id);
        let used = record.and_then(|mut r| r.credential_mapping.remove(&repository(image)));
        match used {
            Some(used) if used.node_pods_accessible => PullVerdict::Yes,
            Some(used) if used != PulledCredentials::default() => PullVerdict::AskFor,
            _ => PullVerdict::No,
        }
    }

    /// Whether one of these credentials is enough, where [`PullVerdict::AskFor`] was
    /// the verdict. What is another form of a known one is remembered.
    #[must_use]
    pub fn suffices(&self, image: &str, id: &str, credentials: &[Credential]) -> bool {
        let _turn = self.lock();
        let Some(mut record) = self.record(id) else {
            return false;
        };
        let Some(used) = record.credential_mapping.get_mut(&repository(image)) else {
            return false;
        };
        let known = credentials
            .iter()
            .find(|c| used.has(std::slice::from_ref(c)));
        let Some(known) = known else { return false };
        let before = used.clone();
        if matches!(known.source, CredentialSource::Secret(_)) {
            used.add(&known.source);
        }
        if *used != before {
            self.put(record);
        }
        true
    }

    /// Notes that the image is about to be fetched.
    ///
    /// # Errors
    /// When that cannot be written: it would later be taken for one that nobody
    /// needs credentials for.
    pub fn begin(&self, image: &str) -> io::Result<()> {
        let mut fetching = self.lock();
        let intent = PullIntent {
            kind: "ImagePullIntent".to_owned(),
            api_version: VERSION.to_owned(),
            image: image.to_owned(),
        };
        let text = serde_json::to_string(&intent)?;
        atomic_file::write(&self.file("pulling", image), &text)?;
        *fetching.entry(image.to_owned()).or_default() += 1;
        Ok(())
    }

    /// Notes that fetching has ended: with which id and by whose credentials,
    /// or without success.
    pub fn end(&self, image: &str, done: Option<(&str, &CredentialSource)>) {
        let mut fetching = self.lock();
        if let Some((id, source)) = done
            && !self.add(image, id, Some(source))
        {
            // the intent stays, and says that the image was fetched
            fetching.remove(image);
            return;
        }
        let left = fetching.get(image).map_or(0, |n| n.saturating_sub(1));
        if left > 0 {
            fetching.insert(image.to_owned(), left);
            return;
        }
        fetching.remove(image);
        let _ = fs::remove_file(self.file("pulling", image));
    }

    /// Whether an agent before this one was fetching something when it ended.
    #[must_use]
    pub fn was_fetching(&self) -> bool {
        fs::read_dir(self.folder.join("pulling")).is_ok_and(|mut all| all.next().is_some())
    }

    /// Takes over what another agent left behind; `images` are those that are
    /// there, each with its id and all its names.
    pub fn adopt(&self, images: &[(String, Vec<String>)]) {
        let _turn = self.lock();
        let Ok(entries) = fs::read_dir(self.folder.join("pulling")) else {
            return;
        };
        for entry in entries.flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let Ok(intent) = serde_json::from_str::<PullIntent>(&text) else {
                continue;
            };
            let found = images
                .iter()
                .find(|(_, names)| names.contains(&intent.image));
            // nobody knows what with: the next to use it has to show that
            if found.is_none_or(|(id, _)| self.add(&intent.image, id, None)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Forgets images that are not there any more: of `ids` are those that are.
    pub fn keep(&self, ids: &[String], since: Timestamp) {
        let _turn = self.lock();
        let Ok(entries) = fs::read_dir(self.folder.join("pulled")) else {
            return;
        };
        for entry in entries.flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let Ok(record) = serde_json::from_str::<PulledRecord>(&text) else {
                continue;
            };
            let fresh = record.last_updated_time.parse::<Timestamp>();
            let fresh = fresh.is_ok_and(|at| at >= since);
            if !fresh && !ids.contains(&record.image_ref) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, usize>> {
        blocking::lock(&self.fetching)
    }

    fn add(&self, image: &str, id: &str, source: Option<&CredentialSource>) -> bool {
        let before = self.record(id);
        let mut record = before.clone().unwrap_or_else(|| PulledRecord {
            image_ref: id.to_owned(),
            ..PulledRecord::default()
        });
        if let Some(source) = source {
            let used = record.credential_mapping.entry(repository(image));
            used.or_default().add(source);
        }
        before.as_ref() == Some(&record) || self.put(record)
    }

    fn put(&self, mut record: PulledRecord) -> bool {
        record.kind = "ImagePulledRecord".to_owned();
        record.api_version = VERSION.to_owned();
        record.last_updated_time = rfc3339(Timestamp::now());
        let path = self.file("pulled", &record.image_ref);
        let written = serde_json::to_string(&record)
            .map_err(io::Error::from)
            .and_then(|text| atomic_file::write(&path, &text));
        if let Err(error) = &written {
            tracing::warn!(image = record.image_ref, %error, "failed to write the image pull record");
        }
        written.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_agent_cri::api;

    fn secret(name: &str, hash: &str) -> Credential {
        Credential {
            auth: api::AuthConfig::default(),
            source: CredentialSource::Secret(PullSecret {
                uid: format!("{name}-uid"),
                namespace: "a".to_owned(),
                name: name.to_owned(),
                credential_hash: hash.to_owned(),
            }),
        }
    }

    fn fetched(pulls: &PullRecords, source: &CredentialSource) {
        pulls.begin("r.io/app:1").unwrap();
        pulls.end("r.io/app:1", Some(("sha256:1", source)));
    }

    #[test]
    fn an_image_that_was_fetched_with_a_secret_needs_that_secret_or_its_content() {
        let root = tempfile::tempdir().unwrap();
        let pulls = PullRecords::new(root.path(), PullVerification::Fetched);
        // it was there before the agent
        assert_eq!(pulls.verdict("r.io/app:1", "sha256:1"), PullVerdict::Yes);
        fetched(&pulls, &secret("s", "h1").source);
        // as another agent finds it
        let pulls = PullRecords::new(root.path(), PullVerification::Fetched);
        assert_eq!(pulls.verdict("r.io/app:1", "sha256:1"), PullVerdict::AskFor);
        let may =
            |credentials: &[Credential]| pulls.suffices("r.io/app:2", "sha256:1", credentials);
        assert!(!may(&[]));
        assert!(!may(&[secret("other", "h2")]));
        assert!(may(&[secret("copy", "h1")]), "the same content");
        assert!(may(&[secret("s", "h3")]), "the same secret, changed");
        assert!(may(&[secret("other", "h3")]), "what it was changed to");
        // the same bytes under another name are another matter
        assert_eq!(pulls.verdict("r.io/other:1", "sha256:1"), PullVerdict::No);
    }

    #[test]
    fn an_image_that_anybody_could_fetch_is_everybodys_from_then_on() {
        let root = tempfile::tempdir().unwrap();
        let pulls = PullRecords::new(root.path(), PullVerification::Fetched);
        fetched(&pulls, &secret("s", "h1").source);
        fetched(&pulls, &CredentialSource::Node);
        fetched(&pulls, &secret("s", "h1").source);
        assert_eq!(pulls.verdict("r.io/app:1", "sha256:1"), PullVerdict::Yes);
        assert!(
            !root
                .path()
                .join("image_manager/pulling")
                .read_dir()
                .unwrap()
                .any(|_| true)
        );
    }

    #[test]
    fn what_was_being_fetched_when_the_agent_died_has_to_be_verified() {
        let root = tempfile::tempdir().unwrap();
        PullRecords::new(root.path(), PullVerification::Fetched)
            .begin("r.io/app:1")
            .unwrap();
        let pulls = PullRecords::new(root.path(), PullVerification::Fetched);
        assert_eq!(pulls.verdict("r.io/app:1", "sha256:1"), PullVerdict::No);
        assert!(pulls.was_fetching());
        pulls.adopt(&[("sha256:1".to_owned(), vec!["r.io/app:1".to_owned()])]);
        assert_eq!(pulls.verdict("r.io/app:1", "sha256:1"), PullVerdict::No);
        assert!(!pulls.was_fetching());
        pulls.keep(&[], Timestamp::MAX);
        assert_eq!(pulls.verdict("r.io/app:1", "sha256:1"), PullVerdict::Yes);
    }

    #[test]
    fn policies_say_which_images_are_verified() {
        let list = PullVerification::AllBut(vec!["r.io/base".to_owned(), "q.io/a/*".to_owned()]);
        for (policy, image, fetched, asks) in [
            (&PullVerification::Never, "r.io/x", true, false),
            (&PullVerification::Fetched, "r.io/x", false, false),
            (&PullVerification::Fetched, "r.io/x", true, true),
            (&PullVerification::Always, "r.io/x", false, true),
            (&list, "r.io/base:1", true, false),
            (&list, "r.io/base2", false, true),
            (&list, "q.io/a/b@sha256:0", true, false),
            (&list, "q.io/ab", false, true),
        ] {
            assert_eq!(verifies(policy, image, fetched), asks, "{policy:?} {image}");
        }
    }

    #[test]
    fn a_record_that_cannot_be_written_or_read_lets_nobody_in() {
        let root = tempfile::tempdir().unwrap();
        let pulls = PullRecords::new(root.path(), PullVerification::Fetched);
        fetched(&pulls, &secret("s", "h1").source);
        let file = pulls.file("pulled", "sha256:1");
        fs::write(&file, "{\"trunc").unwrap();
        assert_eq!(pulls.verdict("r.io/app:1", "sha256:1"), PullVerdict::No);
        fs::remove_file(&file).unwrap();
        // a folder in the file's place: nothing can be written
        fs::create_dir(&file).unwrap();
        fetched(&pulls, &CredentialSource::Node);
        assert_eq!(pulls.verdict("r.io/app:1", "sha256:1"), PullVerdict::No);
    }
}
