//! `orlop backup verify`: reads a backup as a restore would, and every object in it.

use std::path::PathBuf;

use clap::Args;
use control_backup::archive::{ArchiveReader, Item, ServerFile};
use control_backup::place::Address;
use control_backup::{Entry, Manifest};
use control_encryption::{Encryption, OwnKeys, Source};
use control_watch_cache::storage::{ROOT, Transform};

use crate::backups::{self, S3};
use crate::error::Error;

/// The key file of a server without an EncryptionConfiguration.
const OWN_KEYS: &str = "pki/encryption.key";
/// The files without which a server cannot continue as it was.
const NEEDED: [&str; 6] = [
    "pki/ca.crt",
    "pki/ca.key",
    "pki/front-proxy-ca.crt",
    "pki/front-proxy-ca.key",
    "pki/sa.key",
    "pki/sa.pub",
];
/// The keys of kube-apiserver's allocators of addresses and ports, which are not objects
/// of its API.
const RANGES: &[u8] = b"/registry/ranges/";
/// How many problems are printed.
const PRINTED: usize = 20;

/// The backup to verify.
#[derive(Args)]
pub struct Verify {
    /// The backup: a file, or s3://BUCKET/PREFIX/NAME.
    #[arg(value_name = "BACKUP")]
    backup: Address,
    /// File of an identity of age that can read it.
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    #[command(flatten)]
    s3: S3,
}

/// Inspects the contents of a backup.
#[derive(Default)]
struct Inspection {
    files: Vec<String>,
    transform: Transform,
    objects: u64,
    encrypted: u64,
    others: u64,
    problems: Vec<String>,
    count: usize,
}

impl Verify {
    pub async fn run(self) -> Result<(), Error> {
        let identities = backups::identities(self.identity.as_deref())?;
        let (place, name) = self.backup.split().map_err(Error::Backup)?;
        let place = self.s3.place(&place)?;
        let read = move || -> Result<(Manifest, Inspection), control_backup::Error> {
            let archive = ArchiveReader::new(place.open(&name)?, &identities)?;
            let mut inspection = Inspection::default();
            let manifest = archive.read(|item| {
                inspection.take(item);
                Ok(())
            })?;
            Ok((manifest, inspection))
        };
        let (manifest, mut inspection) = tokio::task::spawn_blocking(read)
            .await
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
            .map_err(Error::Backup)?;
        inspection.find_missing();
        print!("{}", report(&manifest, &inspection));
        match inspection.count {
            0 => Ok(()),
            count => Err(Error::Verify(count)),
        }
    }
}

impl Inspection {
    fn take(&mut self, item: Item) {
        match item {
            Item::About(_) => {}
            Item::File(file) => self.file(&file),
            Item::Key(entry) => self.key(&entry),
        }
    }

    fn file(&mut self, file: &ServerFile) {
        self.files.push(file.name.clone());
        let text = String::from_utf8_lossy(&file.content);
        if file.name == OWN_KEYS {
            match OwnKeys::parse(&text, OWN_KEYS.as_ref()) {
                Ok(keys) => self.transform = Transform::new(Encryption::new(keys.table())),
                Err(error) => self.problem(format!("{OWN_KEYS}: {error}")),
            }
        } else if file.name.starts_with(backups::EXTERNAL)
            && text.contains("kind: EncryptionConfiguration")
        {
            match configuration(&file.content) {
                Ok(encryption) => self.transform = Transform::new(encryption),
                Err(error) => {
                    self.problem(format!("{}: {}", file.name, crate::run::all_causes(&error)));
                }
            }
        }
    }

    fn key(&mut self, entry: &Entry) {
        let is_object = entry.key.starts_with(ROOT)
            && !entry.key.starts_with(RANGES)
            && is_object(&entry.value);
        if !is_object {
            self.others += 1;
            return;
        }
        self.objects += 1;
        self.encrypted += u64::from(entry.value.starts_with(control_encryption::ANY_PREFIX));
        if let Err(error) = self.transform.open(&entry.key, &entry.value) {
            let key = String::from_utf8_lossy(&entry.key);
            self.problem(format!("{key}: {}", crate::run::all_causes(&error)));
        }
    }

    fn find_missing(&mut self) {
        for needed in NEEDED {
            if !self.files.iter().any(|file| file == needed) {
                self.problem(format!("{needed} is missing"));
            }
        }
        if self.objects == 0 {
            self.problem("there is no object".to_owned());
        }
    }

    fn problem(&mut self, text: String) {
        self.count += 1;
        if self.problems.len() < PRINTED {
            self.problems.push(text);
        }
    }
}

/// Whether a value is an object: kube-apiserver keeps some counters beside them.
fn is_object(value: &[u8]) -> bool {
    value.starts_with(b"k8s\0")
        || value.starts_with(control_encryption::ANY_PREFIX)
        || value.starts_with(b"{")
}

/// Why an EncryptionConfiguration of a backup cannot be read.
#[derive(Debug, thiserror::Error)]
enum EncryptionFileError {
    /// The file in memory.
    #[error(transparent)]
    Memory(#[from] std::io::Error),
    /// Its content.
    #[error(transparent)]
    Content(#[from] control_encryption::Error),
}

/// Reads an EncryptionConfiguration without writing its keys to a disk.
fn configuration(content: &[u8]) -> Result<Encryption, EncryptionFileError> {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::PermissionsExt as _;
    let name = c"encryption";
    let file = nix::sys::memfd::memfd_create(name, nix::sys::memfd::MFdFlags::MFD_CLOEXEC)
        .map_err(std::io::Error::from)?;
    let mut file = std::fs::File::from(file);
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
        .and_then(|()| file.write_all(content))?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let (table, _) = Source::Configuration(path).load()?;
    Ok(Encryption::new(table))
}

fn report(manifest: &Manifest, inspection: &Inspection) -> String {
    let about = &manifest.about;
    let mut out = format!(
        "cluster    {}\ncreated    {}\nversion    {} (Kubernetes {})\nstore      {}, revision {}\n",
        if about.cluster.is_empty() {
            "unknown"
        } else {
            &about.cluster
        },
        about.created,
        about.version,
        about.kubernetes,
        about.store,
        about.revision
    );
    out.push_str(&format!(
        "keys       {}: {} objects, {} of them encrypted; {} others; {} with a limited life\n",
        manifest.keys,
        inspection.objects,
        inspection.encrypted,
        inspection.others,
        manifest.leased_keys
    ));
    out.push_str(&format!("files      {}\n", manifest.files.len()));
    let mut resources: Vec<_> = manifest.resources.iter().collect();
    resources.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), (*name).clone()));
    for (name, count) in resources {
        out.push_str(&format!("  {count:>8}  {name}\n"));
    }
    for problem in &inspection.problems {
        out.push_str(&format!("problem: {problem}\n"));
    }
    if inspection.count > inspection.problems.len() {
        let more = inspection.count - inspection.problems.len();
        out.push_str(&format!("problem: … and {more} more\n"));
    }
    if inspection.count == 0 {
        out.push_str("whole: all checksums fit, every object can be read\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn entry(key: &'static str, value: &'static [u8]) -> Item {
        Item::Key(Entry {
            key: Bytes::from_static(key.as_bytes()),
            value: Bytes::from_static(value),
            ..Entry::default()
        })
    }

    #[test]
    fn what_is_missing_or_cannot_be_read_is_told() {
        let mut inspection = Inspection::default();
        inspection.take(entry("/registry/configmaps/a/b", b"k8s\0nonsense"));
        inspection.take(entry(
            "/registry/secrets/a/b",
            b"k8s:enc:aesgcm:v1:key1:xxxx",
        ));
        inspection.take(entry("/registry/ranges/serviceips", b""));
        inspection.find_missing();
        assert_eq!(
            (inspection.objects, inspection.encrypted, inspection.others),
            (2, 1, 1)
        );
        assert_eq!(
            inspection.count,
            2 + NEEDED.len(),
            "{:?}",
            inspection.problems
        );
        assert!(
            inspection
                .problems
                .iter()
                .any(|text| text == "pki/ca.key is missing")
        );
    }

    #[test]
    fn an_encryption_configuration_of_a_backup_opens_its_secrets() {
        let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n\
                    resources:\n- resources: [secrets]\n  providers:\n  - aesgcm:\n      keys:\n      \
                    - {name: k, secret: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=}\n";
        let encryption = configuration(text.as_bytes()).unwrap();
        assert_eq!(
            encryption.now().prefix("", "secrets"),
            "k8s:enc:aesgcm:v1:k:"
        );
        assert!(configuration(b"kind: EncryptionConfiguration").is_err());
    }
}
