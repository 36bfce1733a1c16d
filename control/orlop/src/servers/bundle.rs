//! The keys that all servers of a cluster share, as they travel.

use std::collections::BTreeMap;
use std::path::Path;

use control_pki::{write_private, write_public};
use serde::{Deserialize, Serialize};

use super::Error;

/// Files of the folder of keys that servers share, without certificates that a server
/// creates for itself.
const FILES: [&str; 11] = [
    "ca.crt",
    "ca.key",
    "kubelet-ca.crt",
    "kubelet-ca.key",
    "front-proxy-ca.crt",
    "front-proxy-ca.key",
    "sa.key",
    "sa.pub",
    "encryption.key",
    "etcd/ca.crt",
    "etcd/ca.key",
];

/// The data that a joining server receives.
#[derive(Debug, Serialize, Deserialize)]
pub struct Bundle {
    /// Contents by the names of files.
    files: BTreeMap<String, String>,
    /// URLs of the managed etcd's members; none where it is not managed.
    pub etcd: Vec<String>,
}

/// Whether a file may be in a bundle: nothing else is ever written.
fn is_shared(name: &str) -> bool {
    let is_retired = name
        .strip_prefix("sa-")
        .and_then(|rest| rest.strip_suffix(".pub"))
        .is_some_and(|time| time.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    FILES.contains(&name) || is_retired
}

// === impl Bundle ===

impl Bundle {
    /// Reads the shared files in the folder `pki`.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn collect(pki: &Path, etcd: Vec<String>) -> Result<Self, Error> {
        let mut files = BTreeMap::new();
        let retired = crate::token_keys::retired(pki)
            .into_iter()
            .filter_map(|path| {
                let name = path.file_name()?.to_str()?;
                Some(name.to_owned())
            });
        let names = FILES.into_iter().map(str::to_owned).chain(retired);
        for name in names.filter(|name| is_shared(name)) {
            let path = pki.join(&name);
            match std::fs::read_to_string(&path) {
                Ok(text) => drop(files.insert(name, text)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => return Err(Error::File { path, source }),
            }
        }
        Ok(Self { files, etcd })
    }

    /// The certificate of the cluster's authority.
    pub fn authority(&self) -> Option<&str> {
        self.files.get("ca.crt").map(String::as_str)
    }

    /// Whether all is there that a server needs.
    pub fn is_whole(&self) -> bool {
        let needed = [
            "ca.crt",
            "ca.key",
            "kubelet-ca.key",
            "front-proxy-ca.key",
            "sa.key",
        ];
        needed.iter().all(|name| self.files.contains_key(*name))
            && self.files.keys().all(|name| is_shared(name))
            && (self.etcd.is_empty() || self.files.contains_key("etcd/ca.key"))
    }

    /// Writes the files into `folder`, which is made for its owner only.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn unpack(&self, folder: &Path) -> Result<(), Error> {
        use std::os::unix::fs::DirBuilderExt as _;
        for path in [folder.to_owned(), folder.join("etcd")] {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)
                .map_err(|source| Error::File { path, source })?;
        }
        for (name, text) in self.files.iter().filter(|(name, _)| is_shared(name)) {
            let path = folder.join(name);
            let written = if name.ends_with(".key") {
                write_private(&path, text.as_bytes())
            } else {
                write_public(&path, text.as_bytes())
            };
            written.map_err(Error::Pki)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use control_pki::{Cluster, EtcdPki};

    use super::*;

    #[test]
    fn two_servers_have_the_same_authorities_and_each_its_own_certificates() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        let first = Cluster::load_or_create(&one).expect("made");
        EtcdPki::load_or_create(&one).expect("made");
        first.administrator().expect("issued");
        std::fs::write(one.join("sa-20260101T000000Z.pub"), "old").expect("written");
        let bundle = Bundle::collect(&one, vec!["https://10.0.0.1:2379".into()]).expect("read");
        assert!(bundle.is_whole());
        bundle.unpack(&two).expect("written");
        let second = Cluster::load_or_create(&two).expect("loaded");
        assert_eq!(second.ca.certificate_pem(), first.ca.certificate_pem());
        assert!(EtcdPki::is_in(&two) && two.join("sa-20260101T000000Z.pub").exists());
        assert!(!two.join("admin.key").exists());
    }

    #[test]
    fn nothing_is_written_but_what_servers_share() {
        for name in [
            "../../etc/passwd",
            "admin.key",
            "sa-../x.pub",
            "etcd/server.key",
            "sa-.pub.x",
        ] {
            assert!(!is_shared(name), "{name}");
        }
        let dir = tempfile::tempdir().expect("a directory");
        let bundle = Bundle {
            files: [("../evil".to_owned(), String::new())].into(),
            etcd: Vec::new(),
        };
        assert!(!bundle.is_whole());
        bundle.unpack(&dir.path().join("pki")).expect("nothing");
        assert!(!dir.path().join("evil").exists());
    }
}
