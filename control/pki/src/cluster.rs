//! All that one cluster's identities come from.

use std::path::{Path, PathBuf};

use crate::{Authority, Error, Issued, ServiceAccountKey, Spec, files};

/// The keys of a cluster, in one directory; see the crate's documentation.
#[derive(Debug)]
pub struct Cluster {
    /// The directory.
    pub dir: PathBuf,
    /// Signs the certificates of servers, components, nodes and people.
    pub ca: Authority,
    /// Signs the certificates of proxies that name users in headers.
    pub front_proxy_ca: Authority,
    /// Signs service accounts' tokens.
    pub service_account_key: ServiceAccountKey,
}

// === impl Cluster ===

impl Cluster {
    /// Loads the keys in `dir`; makes those that are not there.
    ///
    /// # Errors
    /// One line that names the file and the way out, see [`Error`].
    pub fn load_or_create(dir: impl Into<PathBuf>) -> Result<Self, Error> {
        let dir = dir.into();
        files::directory(&dir)?;
        Ok(Self {
            ca: Authority::load_or_create(&dir, "ca", "kubernetes")?,
            front_proxy_ca: Authority::load_or_create(&dir, "front-proxy-ca", "front-proxy-ca")?,
            service_account_key: ServiceAccountKey::load_or_create(&dir)?,
            dir,
        })
    }

    /// The API server's serving certificate for these names and addresses (it is
    /// made anew when one is missing or it comes near its end).
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Name`] or [`Error::Crypto`].
    pub fn serving(
        &self,
        sans: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Issued, Error> {
        self.ca.keep(
            &self.dir,
            "apiserver",
            &Spec::server("kube-apiserver", sans),
        )
    }

    /// The certificate with which the API server asks nodes' agents.
    ///
    /// # Errors
    /// As [`Cluster::serving`].
    pub fn kubelet_client(&self) -> Result<Issued, Error> {
        let spec = Spec::client("kube-apiserver-kubelet-client", &["kubeadm:cluster-admins"]);
        self.ca.keep(&self.dir, "apiserver-kubelet-client", &spec)
    }

    /// The certificate by which extension API servers know the API server: they
    /// believe whom it names in headers.
    ///
    /// # Errors
    /// As [`Cluster::serving`].
    pub fn front_proxy_client(&self) -> Result<Issued, Error> {
        let spec = Spec::client("front-proxy-client", &[]);
        self.front_proxy_ca
            .keep(&self.dir, "front-proxy-client", &spec)
    }

    /// The administrator's certificate.
    ///
    /// # Errors
    /// As [`Cluster::serving`].
    pub fn administrator(&self) -> Result<Issued, Error> {
        self.ca.keep(
            &self.dir,
            "admin",
            &Spec::client("kubernetes-admin", &["system:masters"]),
        )
    }

    /// A component's certificate, kept as `name`.
    ///
    /// # Errors
    /// As [`Cluster::serving`].
    pub fn component(&self, name: &str, spec: &Spec) -> Result<Issued, Error> {
        self.ca.keep(&self.dir, name, spec)
    }

    /// The file of the cluster authority's certificate.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        Path::new(&self.dir).join("ca.crt")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_second_start_finds_what_the_first_made_and_no_secret_is_readable_by_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let pki = dir.path().join("pki");
        let first = Cluster::load_or_create(&pki).expect("made");
        let admin = first.administrator().expect("issued");
        let second = Cluster::load_or_create(&pki).expect("loaded");
        assert_eq!(second.ca.certificate_pem(), first.ca.certificate_pem());
        assert_eq!(second.administrator().expect("kept"), admin);
        for entry in std::fs::read_dir(&pki).expect("a directory") {
            let entry = entry.expect("an entry");
            let mode = entry.metadata().expect("a file").permissions().mode() & 0o777;
            let public = [".crt", ".pub"]
                .iter()
                .any(|end| entry.file_name().to_string_lossy().ends_with(end));
            assert_eq!(
                mode,
                if public { 0o644 } else { 0o600 },
                "{:?}",
                entry.file_name()
            );
        }
    }
}
