//! Certificates and who signs them.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SerialNumber,
};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;

use crate::{Error, files};

/// How long before it is issued a certificate is valid, at least and at most.
const CLOCK_SKEW: [Duration; 2] = [Duration::from_secs(5 * 60), Duration::from_secs(24 * 3600)];

/// Returns how long before its issue a certificate becomes valid: a tenth of its lifetime
/// within [`CLOCK_SKEW`].
///
/// Clocks differ, and are set back: a machine whose hardware clock is in local time is
/// hours ahead until it is synchronized, and certificates that it issued meanwhile must
/// be valid afterwards. A short-lived certificate is renewed at a share of its lifetime
/// and must not be due immediately.
fn clock_skew(validity: Duration) -> Duration {
    let [least, most] = CLOCK_SKEW;
    (validity / 10).clamp(least, most)
}

/// Ten years; an authority is meant to outlive the machines.
const AUTHORITY_VALIDITY: Duration = Duration::from_secs(3650 * 24 * 3600);

/// Signs certificates: a key and its own certificate.
pub struct Authority {
    certificate_pem: String,
    key: KeyPair,
    pub(crate) issuer: Issuer<'static, KeyPair>,
    expires: SystemTime,
}

/// The contents of a certificate.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The common name: for a client, the user's name.
    pub cn: String,
    /// The organisations: for a client, the user's groups. Two at most.
    pub orgs: Vec<String>,
    /// The names and addresses of a server.
    pub sans: Vec<String>,
    /// The usage of the certificate.
    pub usage: Usage,
    /// For how long, from now. Cut to the authority's own end.
    pub validity: Duration,
}

/// The usage of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Asking.
    Client,
    /// Answering.
    Server,
    /// Both, as a node's agent needs.
    Both,
}

/// Reason why an existing certificate is issued again.
#[derive(Debug, thiserror::Error)]
enum ReissueReason {
    #[error(transparent)]
    Pair(#[from] Error),
    #[error("its key cannot be read")]
    Key(#[source] rcgen::Error),
    #[error("another authority signed it")]
    Authority,
    #[error("it is for another subject")]
    Subject,
    #[error("it lacks the name `{0}`")]
    Name(String),
    #[error("it expires on {0}")]
    Expires(Timestamp),
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateKeyPair {
    /// The certificate, PEM.
    pub cert_pem: String,
    /// The private key, PKCS#8 PEM.
    pub key_pem: String,
}

/// The facts that are read back from a certificate.
struct Facts {
    begins: Timestamp,
    expires: Timestamp,
    subject: String,
    names: Vec<String>,
    public_key: Vec<u8>,
    /// The identifiers of this key and of the one that signed; empty if absent.
    key_id: Vec<u8>,
    signer_id: Vec<u8>,
}

// === impl Spec ===

impl Spec {
    /// A year.
    pub const DEFAULT_VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);

    /// A client's certificate for a year.
    #[must_use]
    pub fn client(cn: &str, orgs: &[&str]) -> Self {
        Self {
            cn: cn.to_owned(),
            orgs: orgs.iter().map(ToString::to_string).collect(),
            sans: Vec::new(),
            usage: Usage::Client,
            validity: Self::DEFAULT_VALIDITY,
        }
    }

    /// A server's certificate for a year.
    #[must_use]
    pub fn server(cn: &str, sans: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            cn: cn.to_owned(),
            orgs: Vec::new(),
            sans: sans.into_iter().map(Into::into).collect(),
            usage: Usage::Server,
            validity: Self::DEFAULT_VALIDITY,
        }
    }
}

// === impl Authority ===

impl Authority {
    /// A new authority, in memory only.
    ///
    /// # Errors
    /// [`Error::Name`] or [`Error::Crypto`].
    pub fn create(name: &str) -> Result<Self, Error> {
        Self::create_at(name, SystemTime::now())
    }

    pub(crate) fn create_at(name: &str, now: SystemTime) -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(Error::crypto("make a key"))?;
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(name, &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        // Go's verifier and the `kube-root-ca.crt` of stock clusters have it.
        params.subject_alt_names = CertificateParams::new(vec![name.to_owned()])
            .map_err(|_| no_name(name))?
            .subject_alt_names;
        params.not_before = (now - clock_skew(AUTHORITY_VALIDITY)).into();
        params.not_after = (now + AUTHORITY_VALIDITY).into();
        params.serial_number = Some(serial()?);
        let certificate = params
            .self_signed(&key)
            .map_err(Error::crypto("sign an authority"))?;
        let pem = certificate.pem();
        Self::from_pem(
            &pem,
            &key.serialize_pem(),
            Path::new("ca.crt"),
            Path::new("ca.key"),
        )
    }

    /// The authority in `NAME.crt` and `NAME.key` of `dir`; `None` if neither
    /// file exists.
    ///
    /// # Errors
    /// [`Error::Half`], [`Error::Expired`], [`Error::NotYetValid`],
    /// [`Error::KeyMismatch`], [`Error::Malformed`], [`Error::File`].
    pub fn load(dir: &Path, name: &str) -> Result<Option<Self>, Error> {
        let (certificate, key) = pair(dir, name);
        let Some(issued) = read_pair(&certificate, &key)? else {
            return Ok(None);
        };
        Self::from_pem(&issued.cert_pem, &issued.key_pem, &certificate, &key).map(Some)
    }

    /// The authority in a certificate's and a key's file.
    ///
    /// # Errors
    /// As [`Authority::load`]; also when a file does not exist.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, Error> {
        let absent = |path: &Path| Error::Malformed {
            path: path.to_owned(),
            expected: "authority",
            detail: "there is no such file".to_owned(),
        };
        let issued = read_pair(certificate, key)?.ok_or_else(|| absent(certificate))?;
        Self::from_pem(&issued.cert_pem, &issued.key_pem, certificate, key)
    }

    /// The authority in `dir`, made and written if it is not there. `common_name`
    /// is the name of a new one.
    ///
    /// # Errors
    /// As [`Authority::load`].
    pub fn load_or_create(dir: &Path, name: &str, common_name: &str) -> Result<Self, Error> {
        if let Some(authority) = Self::load(dir, name)? {
            return Ok(authority);
        }
        let authority = Self::create(common_name)?;
        let (certificate, key) = pair(dir, name);
        files::write_private(&key, authority.key.serialize_pem().as_bytes())?;
        files::write_public(&certificate, authority.certificate_pem.as_bytes())?;
        tracing::info!(certificate = %certificate.display(), "authority created");
        Ok(authority)
    }

    fn from_pem(
        cert_pem: &str,
        key_pem: &str,
        cert_path: &Path,
        key_path: &Path,
    ) -> Result<Self, Error> {
        let facts = Facts::read(cert_pem, cert_path)?;
        facts.check_time(cert_path, "renew it with the same key, or delete both to have a new authority made, and then give every client and node a new certificate")?;
        let key = KeyPair::from_pem(key_pem)
            .map_err(|error| malformed(key_path, "private key", error))?;
        facts.check_key(&key, cert_path, key_path)?;
        let again = KeyPair::from_pem(key_pem)
            .map_err(|error| malformed(key_path, "private key", error))?;
        let issuer = Issuer::from_ca_cert_pem(cert_pem, again)
            .map_err(|error| malformed(cert_path, "certificate", error))?;
        Ok(Self {
            certificate_pem: cert_pem.to_owned(),
            key,
            issuer,
            expires: facts.expires.into(),
        })
    }

    /// The authority's own certificate: what others trust.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The authority's private key, for a component that signs on its own (a
    /// stock controller manager).
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Makes a key and signs its certificate.
    ///
    /// # Errors
    /// [`Error::Name`] for a name that fits no certificate, or
    /// [`Error::Crypto`].
    pub fn issue(&self, spec: &Spec) -> Result<CertificateKeyPair, Error> {
        let key = KeyPair::generate().map_err(Error::crypto("make a key"))?;
        let params = self.params(spec)?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .map_err(Error::crypto("sign a certificate"))?;
        Ok(CertificateKeyPair {
            cert_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        })
    }

    /// Maintains the certificate `NAME.crt` with `NAME.key` in `dir` according to `spec`:
    /// the existing one is used if this authority signed it, it has the subject and all
    /// names, and a third of its lifetime is left; otherwise it is issued again.
    ///
    /// # Errors
    /// [`Error::File`], or as [`Authority::issue`].
    pub fn keep(&self, dir: &Path, name: &str, spec: &Spec) -> Result<CertificateKeyPair, Error> {
        let (certificate, key) = pair(dir, name);
        if let Ok(Some(issued)) = read_pair(&certificate, &key) {
            match self.fits(&issued, spec, &certificate, &key) {
                Ok(()) => return Ok(issued),
                Err(reason) => {
                    tracing::info!(certificate = %certificate.display(), %reason, "issuing a new certificate");
                }
            }
        }
        let issued = self.issue(spec)?;
        files::directory(dir)?;
        files::write_private(&key, issued.key_pem.as_bytes())?;
        files::write_public(&certificate, issued.cert_pem.as_bytes())?;
        Ok(issued)
    }

    fn fits(
        &self,
        issued: &CertificateKeyPair,
        spec: &Spec,
        certificate: &Path,
        key: &Path,
    ) -> Result<(), ReissueReason> {
        let facts = Facts::read(&issued.cert_pem, certificate)?;
        let own = Facts::read(&self.certificate_pem, certificate)?;
        let pair = KeyPair::from_pem(&issued.key_pem).map_err(ReissueReason::Key)?;
        facts.check_key(&pair, certificate, key)?;
        if facts.signer_id != own.key_id {
            return Err(ReissueReason::Authority);
        }
        if facts.subject != subject(&spec.cn, &spec.orgs) {
            return Err(ReissueReason::Subject);
        }
        if let Some(missing) = spec
            .sans
            .iter()
            .find(|san| !facts.names.contains(&canonical(san)))
        {
            return Err(ReissueReason::Name(missing.clone()));
        }
        let now = Timestamp::now();
        let life = facts.expires.duration_since(facts.begins);
        if now < facts.begins || facts.expires.duration_since(now) < life / 3 {
            return Err(ReissueReason::Expires(facts.expires));
        }
        Ok(())
    }

    pub(crate) fn params(&self, spec: &Spec) -> Result<CertificateParams, Error> {
        let mut params = CertificateParams::default();
        for san in &spec.sans {
            let one = CertificateParams::new(vec![san.clone()]).map_err(|_| no_name(san))?;
            params.subject_alt_names.extend(one.subject_alt_names);
        }
        params.distinguished_name = distinguished_name(&spec.cn, &spec.orgs)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match spec.usage {
            Usage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            Usage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Usage::Both => vec![
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
            ],
        };
        params.use_authority_key_identifier_extension = true;
        let now = SystemTime::now();
        params.not_before = (now - clock_skew(spec.validity)).into();
        params.not_after = (now + spec.validity).min(self.expires).into();
        params.serial_number = Some(serial()?);
        Ok(params)
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Authority")
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

// === impl Facts ===

impl Facts {
    fn read(pem: &str, path: &Path) -> Result<Self, Error> {
        let wrong = |detail: String| Error::Malformed {
            path: path.to_owned(),
            expected: "certificate",
            detail,
        };
        let (_, pem) = parse_x509_pem(pem.as_bytes()).map_err(|error| wrong(error.to_string()))?;
        let certificate = pem.parse_x509().map_err(|error| wrong(error.to_string()))?;
        let time = |seconds: i64| {
            Timestamp::from_second(seconds).map_err(|error| wrong(error.to_string()))
        };
        let names = certificate.subject_alternative_name().ok().flatten();
        let names = names
            .into_iter()
            .flat_map(|names| &names.value.general_names)
            .filter_map(|name| match name {
                GeneralName::DNSName(name) => Some(name.to_lowercase()),
                GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
                _ => None,
            });
        let orgs: Vec<String> = certificate
            .subject()
            .iter_organization()
            .filter_map(|org| org.as_str().ok().map(ToOwned::to_owned))
            .collect();
        let cn = certificate
            .subject()
            .iter_common_name()
            .find_map(|cn| cn.as_str().ok());
        let mut facts = Self {
            begins: time(certificate.validity().not_before.timestamp())?,
            expires: time(certificate.validity().not_after.timestamp())?,
            subject: subject(cn.unwrap_or_default(), &orgs),
            names: names.collect(),
            public_key: certificate.public_key().raw.to_vec(),
            key_id: Vec::new(),
            signer_id: Vec::new(),
        };
        for extension in certificate.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => facts.key_id = id.0.to_vec(),
                ParsedExtension::AuthorityKeyIdentifier(id) => {
                    facts.signer_id = id
                        .key_identifier
                        .as_ref()
                        .map_or(Vec::new(), |id| id.0.to_vec());
                }
                _ => {}
            }
        }
        Ok(facts)
    }

    fn check_time(&self, path: &Path, way_out: &'static str) -> Result<(), Error> {
        let now = Timestamp::now();
        if now > self.expires {
            return Err(Error::Expired {
                path: path.to_owned(),
                expired: self.expires,
                way_out,
            });
        }
        if now < self.begins {
            return Err(Error::NotYetValid {
                path: path.to_owned(),
                begins: self.begins,
            });
        }
        Ok(())
    }

    fn check_key(&self, key: &KeyPair, certificate: &Path, key_path: &Path) -> Result<(), Error> {
        use rcgen::PublicKeyData;
        if key.subject_public_key_info() == self.public_key {
            return Ok(());
        }
        Err(Error::KeyMismatch {
            certificate: certificate.to_owned(),
            key: key_path.to_owned(),
        })
    }
}

/// Checks that the first certificate of a PEM text is valid now. `path` and
/// `way_out` are for the error: where it is from, and what to do.
///
/// # Errors
/// [`Error::Expired`], [`Error::NotYetValid`] or [`Error::Malformed`].
pub fn check_certificate(pem: &str, path: &Path, way_out: &'static str) -> Result<(), Error> {
    Facts::read(pem, path)?.check_time(path, way_out)
}

/// Returns the validity of the first certificate of a PEM text.
pub(crate) fn validity(pem: &str, path: &Path) -> Result<(Timestamp, Timestamp), Error> {
    let facts = Facts::read(pem, path)?;
    Ok((facts.begins, facts.expires))
}

/// The names and addresses of the first certificate of a PEM text.
pub(crate) fn names(pem: &str, path: &Path) -> Result<Vec<String>, Error> {
    Ok(Facts::read(pem, path)?.names)
}

/// Whether the first certificate of a PEM text names the key of `authority` as its signer's.
pub(crate) fn is_signed_by(pem: &str, authority: &str) -> Result<bool, Error> {
    let path = Path::new("certificate");
    let signer = Facts::read(pem, path)?.signer_id;
    Ok(!signer.is_empty() && signer == Facts::read(authority, path)?.key_id)
}

/// The public key info (DER) of the first certificate of a PEM text.
pub(crate) fn public_key(pem: &str, path: &Path) -> Result<Vec<u8>, Error> {
    Ok(Facts::read(pem, path)?.public_key)
}

/// The files of a pair.
fn pair(dir: &Path, name: &str) -> (PathBuf, PathBuf) {
    (
        dir.join(format!("{name}.crt")),
        dir.join(format!("{name}.key")),
    )
}

fn read_pair(certificate: &Path, key: &Path) -> Result<Option<CertificateKeyPair>, Error> {
    match (files::read(certificate)?, files::read(key)?) {
        (Some(cert_pem), Some(key_pem)) => Ok(Some(CertificateKeyPair { cert_pem, key_pem })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(Error::Half {
            present: certificate.to_owned(),
            missing: key.to_owned(),
        }),
        (None, Some(_)) => Err(Error::Half {
            present: key.to_owned(),
            missing: certificate.to_owned(),
        }),
    }
}

fn malformed(path: &Path, expected: &'static str, error: rcgen::Error) -> Error {
    Error::Malformed {
        path: path.to_owned(),
        expected,
        detail: error.to_string(),
    }
}

pub(crate) fn no_name(name: &str) -> Error {
    Error::Name {
        name: name.to_owned(),
    }
}

pub(crate) fn distinguished_name(cn: &str, orgs: &[String]) -> Result<DistinguishedName, Error> {
    let mut name = DistinguishedName::new();
    // The library keeps one value for each type, and does not see that these
    // two types have the same number.
    let types = [
        DnType::OrganizationName,
        DnType::CustomDnType(vec![2, 5, 4, 10]),
    ];
    if orgs.len() > types.len() {
        return Err(Error::TooManyOrganisations {
            cn: cn.to_owned(),
            limit: types.len(),
        });
    }
    for (dn_type, org) in types.into_iter().zip(orgs) {
        name.push(dn_type, org.as_str());
    }
    name.push(DnType::CommonName, cn);
    Ok(name)
}

/// Common name and organisations in a form that can be compared.
fn subject(cn: &str, orgs: &[String]) -> String {
    let mut orgs: Vec<_> = orgs.iter().map(String::as_str).collect();
    orgs.sort_unstable();
    format!("{cn}\n{}", orgs.join("\n"))
}

/// A name of a server in the form in which certificates are compared.
fn canonical(san: &str) -> String {
    san.parse::<IpAddr>()
        .map_or_else(|_| san.to_lowercase(), |address| address.to_string())
}

pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

/// Returns a positive, random serial number.
fn serial() -> Result<SerialNumber, Error> {
    let mut bytes = [0; 16];
    crate::random::fill(&mut bytes)?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn facts(pem: &str) -> Facts {
        Facts::read(pem, Path::new("test.crt")).expect("a certificate")
    }

    #[test]
    fn what_was_issued_is_valid_on_a_clock_that_is_set_back_by_an_hour() {
        let authority = Authority::create("kubernetes").expect("an authority");
        let path = Path::new("test.crt");
        let begun = |pem: &str| {
            let (begins, _) = crate::validity(pem, path).expect("a certificate");
            Timestamp::now().duration_since(begins).unsigned_abs()
        };
        let spec = Spec::client("ann", &[]);
        let issued = authority.issue(&spec).expect("issued");
        let hour = DAY / 24;
        assert!(begun(&issued.cert_pem) > hour);
        assert!(begun(authority.certificate_pem()) > hour);
        // renewed at a share of its life, it must not be due from the start
        let spec = Spec {
            validity: hour,
            ..spec
        };
        let short = authority.issue(&spec).expect("issued");
        assert!(begun(&short.cert_pem) < hour / 8);
    }

    #[test]
    fn several_organisations_are_all_in_the_certificate() {
        let authority = Authority::create("kubernetes").expect("an authority");
        let issued = authority
            .issue(&Spec::client("ann", &["system:masters", "ops"]))
            .expect("issued");
        assert_eq!(facts(&issued.cert_pem).subject, "ann\nops\nsystem:masters");
        let error = authority.issue(&Spec::client("ann", &["a", "b", "c"]));
        assert!(matches!(
            error,
            Err(Error::TooManyOrganisations { limit: 2, .. })
        ));
    }

    #[test]
    fn what_is_kept_is_used_again_until_something_demands_a_new_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let authority = Authority::load_or_create(dir.path(), "ca", "kubernetes").expect("made");
        let spec = Spec::server("kube-apiserver", ["kubernetes", "10.96.0.1", "::1"]);
        let first = authority
            .keep(dir.path(), "apiserver", &spec)
            .expect("issued");
        assert_eq!(
            authority
                .keep(dir.path(), "apiserver", &spec)
                .expect("kept"),
            first
        );

        let more = Spec::server(
            "kube-apiserver",
            ["kubernetes", "10.96.0.1", "::1", "node-1"],
        );
        let second = authority
            .keep(dir.path(), "apiserver", &more)
            .expect("issued");
        assert_ne!(second, first);
        assert!(facts(&second.cert_pem).names.contains(&"node-1".to_owned()));

        let again = Authority::load_or_create(dir.path(), "ca", "kubernetes").expect("loaded");
        assert_eq!(again.certificate_pem(), authority.certificate_pem());
        assert_eq!(
            again.keep(dir.path(), "apiserver", &spec).expect("kept"),
            second
        );

        let other = Authority::create("kubernetes").expect("another authority");
        assert_ne!(
            other.keep(dir.path(), "apiserver", &spec).expect("issued"),
            second
        );
    }

    #[test]
    fn a_certificate_near_its_end_is_made_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        let authority = Authority::create("kubernetes").expect("an authority");
        let short = Spec {
            validity: Duration::from_secs(1),
            ..Spec::client("ann", &[])
        };
        let first = authority.keep(dir.path(), "ann", &short).expect("issued");
        assert_ne!(
            authority.keep(dir.path(), "ann", &short).expect("issued"),
            first
        );
    }

    #[test]
    fn an_expired_authority_is_refused_with_its_file_date_and_way_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = (SystemTime::now() - 2 * DAY).into();
        params.not_after = (SystemTime::now() - DAY).into();
        let pem = params.self_signed(&key).expect("signed").pem();
        files::write_public(&dir.path().join("ca.crt"), pem.as_bytes()).expect("written");
        files::write_private(&dir.path().join("ca.key"), key.serialize_pem().as_bytes())
            .expect("written");
        let error = Authority::load(dir.path(), "ca").expect_err("expired");
        assert!(matches!(error, Error::Expired { .. }));
        let text = error.to_string();
        assert!(
            text.contains("ca.crt` expired on 20")
                && text.contains("renew it")
                && !text.contains('\n'),
            "{text}"
        );
    }

    #[test]
    fn a_key_of_another_authority_and_a_missing_half_are_named() {
        let dir = tempfile::tempdir().expect("a directory");
        Authority::load_or_create(dir.path(), "ca", "kubernetes").expect("made");
        let other = Authority::create("kubernetes").expect("another");
        let key = dir.path().join("ca.key");
        files::write_private(&key, other.key_pem().as_bytes()).expect("written");
        assert!(matches!(
            Authority::load(dir.path(), "ca"),
            Err(Error::KeyMismatch { .. })
        ));
        files::write_private(&key, b"-----BEGIN").expect("written");
        assert!(matches!(
            Authority::load(dir.path(), "ca"),
            Err(Error::Malformed { .. })
        ));
        std::fs::remove_file(&key).expect("removed");
        assert!(matches!(
            Authority::load(dir.path(), "ca"),
            Err(Error::Half { .. })
        ));
    }

    #[test]
    fn a_name_that_fits_no_certificate_is_refused() {
        let authority = Authority::create("kubernetes").expect("an authority");
        let error = authority
            .issue(&Spec::server("x", ["näme"]))
            .expect_err("no IA5 string");
        assert!(matches!(error, Error::Name { name } if name == "näme"));
    }
}
