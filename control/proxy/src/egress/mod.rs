//! The way out: how this server reaches anything else.
//!
//! ```text
//! who asks                       kind           made of a Dialer
//! ───────────────────────────────────────────────────────────────────────────────
//! webhooks behind Services,      cluster        client::HttpClient
//!   extension API servers
//! nodes, proxied pods, services  cluster        target::Target
//! webhooks with a URL            controlplane   client::HttpClient
//! audit, token and access        controlplane   kubeconfig::Remote
//!   reviews
//! the collector of traces        controlplane   tonic, over the Dialer
//! the store in etcd              etcd           `control_store::etcd::Options`
//! issuers of ID tokens           as they say    client::HttpClient
//! ```
//!
//! Nothing else in this crate dials. By which way connections of a kind are made is
//! said by an `EgressSelectorConfiguration` (`--egress-selector-config-file`,
//! KEP-1281): directly, by a proxy that takes `CONNECT`, or by a konnectivity server.
//! Kinds that it does not name are reached directly, and so is what answers on this
//! very host (`componentstatuses`, KMS plugins) and, as in kube-apiserver, the server of
//! `ImagePolicyWebhook`.

pub mod client;
mod counts;
mod dial;
mod http_connect;
mod konnectivity;
pub mod kubeconfig;
pub mod target;
pub mod trust;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use control_access::configuration::ConfigurationError;
use control_access::configuration::egress::{
    self as configuration, EgressSelection, Transport, Way,
};
use control_metrics::Page;
use rustls::ClientConfig;

use self::counts::Counts;
use self::dial::Proxy;

pub use control_access::configuration::egress::Kind;
pub use dial::{DialError, Dialer, Io, Stream, TunnelError};

/// Why connections cannot be made as a file says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the egress selector configuration `{}`", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It says what cannot be.
    #[error("the egress selector configuration `{}` cannot be used", path.display())]
    Configuration {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: ConfigurationError,
    },
    /// Certificates that it names cannot be used.
    #[error("egress selection `{}`: `{}` cannot be read", kind.as_str(), path.display())]
    File {
        /// Of which selection.
        kind: Kind,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Certificates that it names cannot be used.
    #[error("egress selection `{}`: its certificates cannot be used", kind.as_str())]
    Certificates {
        /// Of which selection.
        kind: Kind,
        /// What is wrong with them.
        #[source]
        source: control_pki::Error,
    },
}

/// All ways out. Cheap to clone; clones count together.
#[derive(Debug, Clone, Default)]
pub struct Egress {
    ways: Vec<(Kind, Dialer)>,
    counts: Arc<Counts>,
}

// === impl Egress ===

impl Egress {
    /// Reads an `EgressSelectorConfiguration` and the certificates that it names.
    ///
    /// # Errors
    /// [`Error`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        let selections =
            configuration::parse(&text, Path::exists).map_err(|source| Error::Configuration {
                path: path.to_owned(),
                source,
            })?;
        let counts = Arc::<Counts>::default();
        let ways = selections
            .into_iter()
            .map(|selection| Ok((selection.kind, dialer(selection, &counts)?)))
            .collect::<Result<_, Error>>()?;
        Ok(Self { ways, counts })
    }

    /// By which way connections of a kind are made.
    #[must_use]
    pub fn to(&self, kind: Kind) -> Dialer {
        self.selected(kind).unwrap_or_default()
    }

    /// As [`Egress::to`], where the configuration names the kind.
    #[must_use]
    pub fn selected(&self, kind: Kind) -> Option<Dialer> {
        let found = self.ways.iter().find(|(known, _)| *known == kind);
        found.map(|(_, dialer)| dialer.clone())
    }

    /// Tells Prometheus of connections made by proxies.
    pub fn write(&self, page: &mut Page) {
        self.counts.write(page);
    }
}

fn dialer(selection: EgressSelection, counts: &Arc<Counts>) -> Result<Dialer, Error> {
    let EgressSelection { kind, way } = selection;
    let proxy = match way {
        Way::Direct => return Ok(Dialer::default()),
        Way::HttpConnect(Transport::Tcp { host, port, tls }) => Proxy::Tcp {
            host,
            port,
            tls: tls.map(|tls| credentials(kind, &tls)).transpose()?,
        },
        Way::HttpConnect(Transport::Unix(path)) => Proxy::Unix(path),
        Way::Grpc(path) => Proxy::Konnectivity(path),
    };
    Ok(Dialer::by(proxy, Arc::clone(counts)))
}

/// How TLS is spoken with a proxy, and the name that it must prove, if that is not
/// its host.
fn credentials(
    kind: Kind,
    files: &configuration::Certificates,
) -> Result<(Arc<ClientConfig>, Option<String>), Error> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|source| Error::File {
            kind,
            path: path.to_owned(),
            source,
        })
    };
    let authority = files.authority.as_deref().map(read).transpose()?;
    let own = control_pki::CertificateKeyPair {
        cert_pem: read(&files.certificate)?,
        key_pem: read(&files.key)?,
    };
    let trust = trust::Trust::from_config(authority.as_deref(), false);
    let config =
        trust::tls(trust, Some(&own)).map_err(|source| Error::Certificates { kind, source })?;
    Ok((Arc::new(config), files.server_name.clone()))
}
