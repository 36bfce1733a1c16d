//! All that one cluster's identities come from.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::{Authority, CertificateKeyPair, Error, ServiceAccountKey, Spec, files, validity};

/// Two authorities of a new cluster are made within this time.
const MADE_TOGETHER: SignedDuration = SignedDuration::from_secs(60);

/// The keys of a cluster, in one directory; see the crate's documentation.
#[derive(Debug)]
pub struct Cluster {
    /// The directory.
    pub dir: PathBuf,
    /// Signs the certificates of the API server, components and people, and the client
    /// certificates of nodes.
    pub ca: Authority,
    /// Signs the serving certificates of kubelets. Only the API server's kubelet client
    /// trusts it, so a node's serving certificate never passes for the API server's.
    pub kubelet_ca: Authority,
    /// Signs the certificates of proxies that name users in headers.
    pub front_proxy_ca: Authority,
    /// Signs service accounts' tokens.
    pub service_account_key: ServiceAccountKey,
}

/// The authorities whose serving certificates the API server accepts from kubelets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletTrust {
    /// Their certificates, in PEM.
    pub bundle_pem: String,
    /// When the cluster's own authority drops out of the bundle, for a cluster that is
    /// older than the authority of kubelets; `None` if it is not in the bundle.
    pub cluster_ca_until: Option<Timestamp>,
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
            kubelet_ca: Authority::load_or_create(&dir, "kubelet-ca", "kubelet-serving-ca")?,
            front_proxy_ca: Authority::load_or_create(&dir, "front-proxy-ca", "front-proxy-ca")?,
            service_account_key: ServiceAccountKey::load_or_create(&dir)?,
            dir,
        })
    }

    /// Returns the API server's serving certificate for these names and addresses (it is
    /// issued again when one is missing or it is close to expiry).
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Name`] or [`Error::Crypto`].
    pub fn serving(
        &self,
        sans: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<CertificateKeyPair, Error> {
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
    pub fn kubelet_client(&self) -> Result<CertificateKeyPair, Error> {
        let spec = Spec::client("kube-apiserver-kubelet-client", &["kubeadm:cluster-admins"]);
        self.ca.keep(&self.dir, "apiserver-kubelet-client", &spec)
    }

    /// Returns the authorities that the API server accepts from kubelets at `now`.
    ///
    /// Kubelets of a cluster that is older than its `kubelet-ca` may hold serving
    /// certificates of `ca`. These are accepted until the last of them has expired, at most
    /// `longest_life` after `kubelet-ca` was made.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn kubelet_trust(
        &self,
        longest_life: Duration,
        now: Timestamp,
    ) -> Result<KubeletTrust, Error> {
        let begins = |authority: &Authority| {
            validity(authority.certificate_pem(), &self.dir).map(|(begins, _)| begins)
        };
        let (ca, kubelet_ca) = (begins(&self.ca)?, begins(&self.kubelet_ca)?);
        let life = SignedDuration::try_from(longest_life).unwrap_or(SignedDuration::MAX);
        let until = kubelet_ca.checked_add(life).unwrap_or(Timestamp::MAX);
        let migrated = kubelet_ca.duration_since(ca) > MADE_TOGETHER;
        let mut bundle_pem = self.kubelet_ca.certificate_pem().to_owned();
        let cluster_ca_until = (migrated && now < until).then_some(until);
        if cluster_ca_until.is_some() {
            bundle_pem.push_str(self.ca.certificate_pem());
        }
        Ok(KubeletTrust {
            bundle_pem,
            cluster_ca_until,
        })
    }

    /// The certificate by which extension API servers know the API server: they
    /// believe whom it names in headers.
    ///
    /// # Errors
    /// As [`Cluster::serving`].
    pub fn front_proxy_client(&self) -> Result<CertificateKeyPair, Error> {
        let spec = Spec::client("front-proxy-client", &[]);
        self.front_proxy_ca
            .keep(&self.dir, "front-proxy-client", &spec)
    }

    /// The administrator's certificate.
    ///
    /// # Errors
    /// As [`Cluster::serving`].
    pub fn administrator(&self) -> Result<CertificateKeyPair, Error> {
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
    pub fn component(&self, name: &str, spec: &Spec) -> Result<CertificateKeyPair, Error> {
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
    use crate::{ClientTrust, parse_certificates};

    const YEAR: Duration = Spec::DEFAULT_VALIDITY;

    /// Whether a TLS client that trusts `bundle` takes `issued` for `name`.
    fn is_taken_for(bundle: &str, issued: &CertificateKeyPair, name: &'static str) -> bool {
        use rustls::client::danger::ServerCertVerifier as _;
        let chain = parse_certificates(&issued.cert_pem).expect("a certificate");
        let (first, rest) = chain.split_first().expect("one");
        crate::vouched::VouchedKey::new(bundle)
            .expect("a bundle")
            .verify_server_cert(
                first,
                rest,
                &name.try_into().expect("a name"),
                &[],
                rustls_pki_types::UnixTime::now(),
            )
            .is_ok()
    }

    #[test]
    fn a_kubelets_serving_certificate_is_none_of_the_api_server() {
        let dir = tempfile::tempdir().expect("a directory");
        let pki = Cluster::load_or_create(dir.path()).expect("made");
        let name = "kubernetes.default.svc";
        let stolen = pki
            .kubelet_ca
            .issue(&Spec::server("system:node:n1", [name]))
            .expect("issued");
        assert!(!is_taken_for(pki.ca.certificate_pem(), &stolen, name));
        assert!(!is_taken_for(
            pki.front_proxy_ca.certificate_pem(),
            &stolen,
            name
        ));
        let trust = pki.kubelet_trust(YEAR, Timestamp::now()).expect("read");
        assert_eq!(trust.cluster_ca_until, None);
        assert!(is_taken_for(&trust.bundle_pem, &stolen, name));
        let client = pki
            .kubelet_ca
            .issue(&Spec::client("admin", &["system:masters"]))
            .expect("issued");
        let clients = ClientTrust::new(pki.ca.certificate_pem()).expect("trust");
        let chain = parse_certificates(&client.cert_pem).expect("a certificate");
        assert!(clients.verify(&chain).is_err(), "it makes no clients");
    }

    #[test]
    fn an_older_cluster_accepts_kubelets_of_its_authority_until_their_certificates_expire() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut pki = Cluster::load_or_create(dir.path()).expect("made");
        let day = Duration::from_secs(24 * 3600);
        pki.ca = Authority::create_at("kubernetes", std::time::SystemTime::now() - 30 * day)
            .expect("an older authority");
        let old = pki
            .ca
            .issue(&Spec::server("system:node:n1", ["n1"]))
            .expect("issued");
        let now = Timestamp::now();
        let trust = pki.kubelet_trust(YEAR, now).expect("read");
        let until = trust.cluster_ca_until.expect("a transition");
        assert!(is_taken_for(&trust.bundle_pem, &old, "n1"));
        let later = pki.kubelet_trust(YEAR, until).expect("read");
        assert_eq!(later.cluster_ca_until, None);
        assert!(!is_taken_for(&later.bundle_pem, &old, "n1"));
        let year = SignedDuration::from_hours(365 * 24);
        assert!(until <= now + year, "{until}");
    }

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
