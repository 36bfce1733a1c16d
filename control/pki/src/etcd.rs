//! The authority of an etcd that Orlop runs, and its members' certificates.
//!
//! It is a separate authority: etcd trusts every client that its authority signed, so a
//! certificate of the cluster's authority must not give access to the store.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Authority, CertificateKeyPair, Error, Spec, Usage, files};

/// The folder below the cluster's keys, as kubeadm lays it out.
const FOLDER: &str = "etcd";

/// How long the certificate of a client within this process lasts: it is made at each start and
/// never written to disk.
const IN_MEMORY: Duration = Duration::from_secs(5 * 365 * 24 * 3600);

/// Keys of an etcd cluster in the folder `etcd` of the cluster's keys.
#[derive(Debug)]
pub struct EtcdPki {
    dir: PathBuf,
    /// Signs the certificates of members and of their clients.
    pub ca: Authority,
}

// === impl EtcdPki ===

impl EtcdPki {
    /// Loads the authority below `pki`, the folder of the cluster's keys, or makes it.
    ///
    /// # Errors
    /// Returns an [`Error`] that names the file that cannot be used.
    pub fn load_or_create(pki: &Path) -> Result<Self, Error> {
        files::directory(pki)?;
        let dir = pki.join(FOLDER);
        files::directory(&dir)?;
        let ca = Authority::load_or_create(&dir, "ca", "etcd-ca")?;
        Ok(Self { dir, ca })
    }

    /// Returns whether `pki` has the authority of an etcd.
    #[must_use]
    pub fn is_in(pki: &Path) -> bool {
        pki.join(FOLDER).join("ca.key").exists()
    }

    /// Maintains the files of a member's certificates for these names, and those of a
    /// client for etcdctl.
    ///
    /// etcd reads them at every handshake, so a renewed certificate needs no restart.
    ///
    /// # Errors
    /// As [`Authority::keep`].
    pub fn keep_member(&self, name: &str, names: &[String]) -> Result<(), Error> {
        for file in ["server", "peer"] {
            let mut spec = Spec::server(name, names.iter().cloned());
            // A member asks itself with its server certificate, and its peers with the other.
            spec.usage = Usage::Both;
            self.ca.keep(&self.dir, file, &spec)?;
        }
        let spec = Spec::client("etcd-client", &[]);
        self.ca.keep(&self.dir, "client", &spec).map(drop)
    }

    /// Makes the certificate of a client in this process.
    ///
    /// # Errors
    /// As [`Authority::issue`].
    pub fn client(&self, name: &str) -> Result<CertificateKeyPair, Error> {
        let mut spec = Spec::client(name, &[]);
        spec.validity = IN_MEMORY;
        self.ca.issue(&spec)
    }

    /// Returns the path of a file in the folder.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cluster;

    #[test]
    fn a_member_s_certificates_follow_its_names() {
        let dir = tempfile::tempdir().expect("a directory");
        let etcd = EtcdPki::load_or_create(dir.path()).expect("made");
        assert!(EtcdPki::is_in(dir.path()));
        let read = || std::fs::read_to_string(etcd.file("peer.crt")).expect("a file");
        let names = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        etcd.keep_member("a", &names(&["10.0.0.1"])).expect("made");
        let first = read();
        etcd.keep_member("a", &names(&["10.0.0.1"])).expect("kept");
        assert_eq!(read(), first);
        etcd.keep_member("a", &names(&["10.0.0.2"])).expect("made");
        assert_ne!(read(), first);
    }

    #[test]
    fn the_cluster_s_authority_opens_no_etcd() {
        let dir = tempfile::tempdir().expect("a directory");
        let cluster = Cluster::load_or_create(dir.path()).expect("made");
        let etcd = EtcdPki::load_or_create(dir.path()).expect("made");
        let trust = crate::ClientTrust::new(etcd.ca.certificate_pem()).expect("trust");
        let chain = |issued: &CertificateKeyPair| {
            crate::parse_certificates(&issued.cert_pem).expect("parsed")
        };
        let admin = cluster.administrator().expect("issued");
        assert!(trust.verify(&chain(&admin)).is_err());
        let client = etcd.client("orlop").expect("issued");
        assert!(trust.verify(&chain(&client)).is_ok());
    }
}
