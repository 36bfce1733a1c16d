//! One group and version that another server serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_pki::CertificateKeyPair;
use control_types::value::Value;
use control_types::{meta, value};
use rustls::ClientConfig;

use control_openapi::Swagger;
use control_proxy::ServiceLister;
use control_proxy::egress::client::HttpClient;
use control_proxy::egress::trust::{self, Trust};
use control_proxy::egress::{Dialer, Egress, Kind};
use control_proxy::service_resolver::{self, Location};

/// The port of a Service that an APIService does not name.
const PORT: i64 = 443;

/// What a server last said that it has.
#[derive(Debug)]
pub(crate) struct DiscoveredVersion {
    /// `APIVersionDiscovery`: version, resources, freshness.
    pub entry: Value,
    /// Where its document of OpenAPI 3 is, with the hash that it has now.
    pub document: Option<String>,
    /// What its document of OpenAPI 2 says of it, if it has one.
    pub swagger: Option<Arc<Swagger>>,
    /// When it was read; nothing if it could not be.
    pub read: Option<Instant>,
}

impl DiscoveredVersion {
    /// Describes a version by its discovery entry alone, without a request to its server.
    pub fn from_entry(entry: Value) -> Self {
        Self {
            entry,
            document: None,
            swagger: None,
            read: None,
        }
    }
}

/// One group and version that another server serves.
#[derive(Debug)]
pub struct Remote {
    /// The APIService's name.
    pub(crate) name: String,
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
    /// Namespace of the Service.
    pub(crate) namespace: String,
    /// Name of the Service.
    pub(crate) service: String,
    pub(crate) port: i64,
    pub(crate) group_priority: i64,
    pub(crate) version_priority: i64,
    /// What it was made of, to know it again.
    uid: String,
    spec: Value,
    identity: Option<Arc<CertificateKeyPair>>,
    /// How it is asked, or why it cannot be.
    connection: Result<Connection, RegistrationError>,
    available: AtomicBool,
    /// Whether it is this very server, for a group that another may take over.
    local: bool,
    /// What it last said that it has.
    pub(crate) discovered: ArcSwapOption<DiscoveredVersion>,
}

/// Error for an APIService by which no server can be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistrationError {
    /// Its bundle is no text.
    #[error("unable to load root certificates: unable to parse bytes as PEM block")]
    Bundle,
    /// Its certificates, or those of this server, cannot be used.
    #[error("unable to load root certificates")]
    Certificates(#[source] control_pki::Error),
    /// Its Service has no name that a certificate can have.
    #[error(transparent)]
    ServerName(std::io::Error),
}

/// How a server is asked.
#[derive(Debug)]
pub(crate) struct Connection {
    /// For requests.
    pub client: HttpClient,
    /// For upgrades, which need a connection of their own.
    pub tls: Arc<ClientConfig>,
    pub dialer: Dialer,
}

impl Remote {
    /// Reads an APIService that names a Service.
    pub(crate) fn new(
        object: &Value,
        identity: Option<Arc<CertificateKeyPair>>,
        egress: &Egress,
    ) -> Self {
        let text = |path: &[&str]| object.str_at(path).unwrap_or_default().to_owned();
        let number = |path: &[&str]| object.i64_at(path).unwrap_or_default();
        let (namespace, service) = (
            text(&["spec", "service", "namespace"]),
            text(&["spec", "service", "name"]),
        );
        let server_name = service_resolver::server_name(&namespace, &service);
        let spec = object.get("spec").cloned().unwrap_or_default();
        Self {
            name: meta::name(object).to_owned(),
            group: text(&["spec", "group"]),
            version: text(&["spec", "version"]),
            port: object.i64_at(&["spec", "service", "port"]).unwrap_or(PORT),
            group_priority: number(&["spec", "groupPriorityMinimum"]),
            version_priority: number(&["spec", "versionPriority"]),
            uid: meta::uid(object).to_owned(),
            connection: Connection::of(
                &spec,
                &server_name,
                identity.as_deref(),
                egress.to(Kind::Cluster),
            ),
            namespace,
            service,
            spec,
            identity,
            available: AtomicBool::new(false),
            local: false,
            discovered: ArcSwapOption::empty(),
        }
    }

    /// This very server, for a version of which discovery says `entry`.
    pub(crate) fn local(group: &str, version: &str, entry: Value) -> Self {
        let object = value!({
            "metadata": {"name": (format!("{version}.{group}"))},
            "spec": {
                "group": group, "version": version,
                "groupPriorityMinimum": 100, "versionPriority": 100
            }
        });
        let remote = Self::new(&object, None, &Egress::default());
        remote.set_available(true);
        remote
            .discovered
            .store(Some(Arc::new(DiscoveredVersion::from_entry(entry))));
        Self {
            local: true,
            ..remote
        }
    }

    /// Whether it is this very server.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// Whether it is what this APIService says and shows that certificate.
    pub(crate) fn is_of(&self, object: &Value, identity: Option<&Arc<CertificateKeyPair>>) -> bool {
        let same_identity = match (&self.identity, identity) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (None, None) => true,
            _ => false,
        };
        same_identity && self.uid == meta::uid(object) && object.get("spec") == Some(&self.spec)
    }

    /// What it is registered as.
    pub(crate) fn spec(&self) -> &Value {
        &self.spec
    }

    /// Whether its APIService says that it is available.
    pub(crate) fn is_available(&self) -> bool {
        self.available.load(Ordering::Acquire)
    }

    pub(crate) fn set_available(&self, available: bool) {
        self.available.store(available, Ordering::Release);
    }

    /// How it is asked.
    ///
    /// # Errors
    /// What is wrong with its registration.
    pub(crate) fn connection(&self) -> Result<&Connection, &RegistrationError> {
        self.connection.as_ref()
    }

    /// Where it is at the moment.
    ///
    /// # Errors
    /// When nothing stands behind its Service.
    pub(crate) fn location(
        &self,
        services: &dyn ServiceLister,
    ) -> Result<Location, service_resolver::Error> {
        service_resolver::resolve(services, &self.namespace, &self.service, self.port)
    }

    /// The path of its discovery.
    #[must_use]
    pub fn path(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }

    /// What it is sorted by within its group: the preferred version first.
    pub(crate) fn order(&self) -> Order<'_> {
        Order {
            priority: self.version_priority,
            version: &self.version,
        }
    }
}

/// The place of a version among those of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order<'a> {
    pub priority: i64,
    pub version: &'a str,
}

impl Ord for Order<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other
            .priority
            .cmp(&self.priority)
            .then_with(|| control_kinds::compare_versions(other.version, self.version))
    }
}

impl PartialOrd for Order<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Connection {
    fn of(
        spec: &Value,
        server_name: &str,
        own: Option<&CertificateKeyPair>,
        dialer: Dialer,
    ) -> Result<Self, RegistrationError> {
        let bundle = match spec.str_at(&["caBundle"]).filter(|text| !text.is_empty()) {
            Some(text) => STANDARD
                .decode(text)
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .ok_or(RegistrationError::Bundle)
                .map(Some)?,
            None => None,
        };
        let blind = spec.bool_at(&["insecureSkipTLSVerify"]) == Some(true);
        let tls = trust::tls(Trust::from_config(bundle.as_deref(), blind), own)
            .map_err(RegistrationError::Certificates)?;
        let client = HttpClient::over_tls(dialer.clone(), tls.clone(), server_name)
            .map_err(RegistrationError::ServerName)?;
        Ok(Self {
            client,
            tls: Arc::new(tls),
            dialer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(ca: &str) -> Value {
        value!({
            "metadata": {"name": "v1.a.example", "uid": "u"},
            "spec": {
                "group": "a.example", "version": "v1", "caBundle": ca,
                "groupPriorityMinimum": 2000, "versionPriority": 200,
                "service": {"namespace": "n", "name": "s"}
            }
        })
    }

    #[test]
    fn a_registration_is_known_again_until_it_is_another() {
        let one = service("");
        let remote = Remote::new(&one, None, &Egress::default());
        assert!(remote.is_of(&one, None));
        assert_eq!(
            (remote.port, remote.path().as_str()),
            (443, "/apis/a.example/v1")
        );
        let mut other = one.clone();
        other.set_path(&["spec", "versionPriority"], 3);
        assert!(!remote.is_of(&other, None));
        let identity = Arc::new(CertificateKeyPair {
            cert_pem: String::new(),
            key_pem: String::new(),
        });
        assert!(!remote.is_of(&one, Some(&identity)));
    }

    #[test]
    fn a_bundle_that_is_none_is_told_with_each_request() {
        let remote = Remote::new(&service("bm9uZQ=="), None, &Egress::default());
        let error = remote.connection().expect_err("no certificate in it");
        let why = error.to_string();
        assert!(why.starts_with("unable to load root certificates"), "{why}");
    }

    #[test]
    fn versions_of_higher_priority_come_first_then_the_newer() {
        let order = |priority, version| Order { priority, version };
        let mut all = [order(10, "v1beta1"), order(20, "v1alpha1"), order(10, "v1")];
        all.sort();
        assert_eq!(all.map(|one| one.version), ["v1alpha1", "v1", "v1beta1"]);
    }
}
