//! A client certificate in files that another process replaces before it expires, as a
//! kubelet does with its own. New connections present the current certificate.

use std::fmt::{self, Debug, Formatter};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::config::AuthInfo;
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme, client};

/// The least time between two looks at the files.
const EVERY: Duration = Duration::from_secs(1);

/// Certificate and key, as the files had them at the last look.
pub struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    state: Mutex<PairState>,
}

struct PairState {
    looked: Instant,
    seen: [Stamp; 2],
    current: Arc<CertifiedKey>,
}

/// Tells a file from another one in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

/// Error for files without a usable pair.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot read `{}`", .0.display())]
    File(PathBuf, #[source] io::Error),
    #[error("`{}` is no PEM file of what is needed", .0.display())]
    Pem(PathBuf, #[source] pem::Error),
    #[error("certificate and key do not fit each other")]
    Pair(#[source] rustls::Error),
}

// === impl CertificateFiles ===

impl CertificateFiles {
    /// Returns the files that a user of a kubeconfig names; `None` for a user with other
    /// credentials, or whose files cannot be used.
    pub fn from_auth_info(user: &AuthInfo) -> Option<Self> {
        if user.client_certificate_data.is_some() || user.client_key_data.is_some() {
            return None;
        }
        let certificate = PathBuf::from(user.client_certificate.as_ref()?);
        let key = PathBuf::from(user.client_key.as_ref()?);
        let (seen, current) = load(&certificate, &key).ok()?;
        Some(Self {
            certificate,
            key,
            state: Mutex::new(PairState {
                looked: Instant::now(),
                seen,
                current: Arc::new(current),
            }),
        })
    }

    /// Makes connections present the certificate of the files. They do not resume former
    /// sessions, in which the server would see the former certificate.
    pub fn use_for(self: &Arc<Self>, tls: &mut ClientConfig) {
        tls.client_auth_cert_resolver = Arc::clone(self) as Arc<dyn ResolvesClientCert>;
        tls.resumption = client::Resumption::disabled();
    }

    /// Looks at the files if the last look was a while ago; returns whether there is another
    /// certificate since then. Files that cannot be used now are looked at again.
    pub fn refresh(&self, now: Instant) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(state.looked) < EVERY {
            return false;
        }
        state.looked = now;
        let there = [&self.certificate, &self.key].map(|path| Stamp::of(path).ok());
        if there == state.seen.map(Some) {
            return false;
        }
        match load(&self.certificate, &self.key) {
            Ok((seen, current)) => {
                state.seen = seen;
                let is_other = current.cert != state.current.cert;
                state.current = Arc::new(current);
                if is_other {
                    tracing::info!(file = %self.certificate.display(), "client certificate reloaded");
                }
                is_other
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "client certificate not reloaded; trying again"
                );
                false
            }
        }
    }
}

impl ResolvesClientCert for CertificateFiles {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&state.current))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl Debug for CertificateFiles {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateFiles")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

// === impl Stamp ===

impl Stamp {
    fn of(path: &Path) -> Result<Self, Error> {
        let there = fs::metadata(path).map_err(|error| Error::File(path.to_owned(), error))?;
        Ok(Self {
            device: there.dev(),
            inode: there.ino(),
            length: there.len(),
            modified: (there.mtime(), there.mtime_nsec()),
        })
    }
}

/// Reads a pair. The stamps are taken before the contents, so that concurrent changes are
/// read again.
fn load(certificate: &Path, key: &Path) -> Result<([Stamp; 2], CertifiedKey), Error> {
    let seen = [Stamp::of(certificate)?, Stamp::of(key)?];
    let read = |path: &Path| fs::read(path).map_err(|error| Error::File(path.to_owned(), error));
    let no_pem = |path: &Path| {
        let path = path.to_owned();
        |error| Error::Pem(path, error)
    };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&read(certificate)?)
        .collect::<Result<_, _>>()
        .map_err(no_pem(certificate))?;
    let key = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(no_pem(key))?;
    let pair = CertifiedKey::from_der(chain, key, &default_provider()).map_err(Error::Pair)?;
    Ok((seen, pair))
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::mpsc::{Receiver, channel};

    use control_pki::{
        Authority, CertificateKeyPair, ClientTrust, ServingIdentity, Spec, server_config,
    };
    use rustls::{ServerConfig, ServerConnection, Stream};

    use super::*;

    fn user(authority: &Authority, name: &str) -> CertificateKeyPair {
        authority.issue(&Spec::client(name, &[])).expect("issued")
    }

    /// Puts a pair into one file, in the place of another one, as a kubelet does.
    fn place(folder: &Path, issued: &CertificateKeyPair) {
        let pair = format!("{}{}", issued.cert_pem, issued.key_pem);
        let (next, current) = (folder.join("next.pem"), folder.join("current.pem"));
        fs::write(&next, pair).expect("written");
        fs::rename(next, current).expect("in its place");
    }

    /// A server that shows nothing but the certificates of those who connect.
    fn server(authority: &Authority) -> (SocketAddr, Receiver<Vec<u8>>) {
        let issued = authority
            .issue(&Spec::server("test", ["127.0.0.1"]))
            .expect("issued");
        let identity = ServingIdentity::new(&issued, Path::new("test")).expect("an identity");
        let trust = ClientTrust::new(authority.certificate_pem()).expect("trusted");
        let config = Arc::new(server_config(identity, &[&trust]).expect("a configuration"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("an address");
        let (told, shown) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, told) = (Arc::clone(&config), told.clone());
                std::thread::spawn(move || hold(stream, config, &told));
            }
        });
        (address, shown)
    }

    /// Tells the certificate, and keeps the connection open without an answer.
    fn hold(
        mut stream: TcpStream,
        config: Arc<ServerConfig>,
        told: &std::sync::mpsc::Sender<Vec<u8>>,
    ) {
        let mut connection = ServerConnection::new(config).expect("a connection");
        while connection.is_handshaking() {
            if connection.complete_io(&mut stream).is_err() {
                return;
            }
        }
        if let Some([first, ..]) = connection.peer_certificates() {
            let _ = told.send(first.to_vec());
        }
        let mut tls = Stream::new(&mut connection, &mut stream);
        let _ = io::copy(&mut tls, &mut io::sink());
    }

    /// The kubelet of a kubeadm cluster keeps key and certificate in one file behind a link, and
    /// replaces it long before the end; an API server refuses the former one afterwards, on
    /// connections that are open, too.
    #[tokio::test]
    async fn a_replaced_certificate_is_shown_on_a_new_connection() {
        let authority = Authority::create("test").expect("an authority");
        let folder = tempfile::tempdir().expect("a folder");
        let (first, second) = (user(&authority, "ann"), user(&authority, "ann"));
        place(folder.path(), &first);
        let (address, shown) = server(&authority);
        let ca = folder.path().join("ca.crt");
        fs::write(&ca, authority.certificate_pem()).expect("written");
        let pair = folder.path().join("current.pem");
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, \
             clusters: [{{name: k, cluster: {{server: 'https://{address}', \
             certificate-authority: '{}'}}}}], \
             users: [{{name: u, user: {{client-certificate: '{}', client-key: '{}'}}}}], \
             contexts: [{{name: c, context: {{cluster: k, user: u}}}}]}}",
            ca.display(),
            pair.display(),
            pair.display()
        );
        let client = crate::Client::from_kubeconfig_text(&text, "test")
            .await
            .expect("a client");
        let ask = async || {
            let asked =
                client.request::<serde_json::Value>(http::Method::GET, "/version", None::<&()>);
            let _ = tokio::time::timeout(Duration::from_millis(500), asked).await;
            shown.try_iter().collect::<Vec<_>>()
        };
        let der = |issued: &CertificateKeyPair| {
            let it = CertificateDer::from_pem_slice(issued.cert_pem.as_bytes());
            it.expect("a certificate").to_vec()
        };
        assert_eq!(ask().await, [der(&first)]);
        assert_eq!(ask().await, [] as [Vec<u8>; 0], "the same connection");
        place(folder.path(), &second);
        tokio::time::sleep(EVERY).await;
        assert_eq!(ask().await, [der(&second)]);
    }

    #[test]
    fn a_pair_that_does_not_fit_is_not_taken() {
        let authority = Authority::create("test").expect("an authority");
        let folder = tempfile::tempdir().expect("a folder");
        let (first, second) = (user(&authority, "ann"), user(&authority, "ann"));
        place(folder.path(), &first);
        let pair = folder.path().join("current.pem").display().to_string();
        let files = CertificateFiles::from_auth_info(&AuthInfo {
            client_certificate: Some(pair.clone()),
            client_key: Some(pair),
            ..AuthInfo::default()
        })
        .expect("usable");
        let shown = || files.resolve(&[], &[]).expect("one").cert.clone();
        let before = shown();
        let mut now = Instant::now();
        let mut later = || {
            now += EVERY;
            now
        };
        assert!(!files.refresh(later()), "nothing changed");
        let mixed = CertificateKeyPair {
            key_pem: second.key_pem.clone(),
            ..first
        };
        place(folder.path(), &mixed);
        assert!(!files.refresh(later()));
        assert_eq!(shown(), before);
        fs::remove_file(folder.path().join("current.pem")).expect("removed");
        assert!(!files.refresh(later()), "gone for a moment");
        place(folder.path(), &second);
        assert!(files.refresh(later()));
        assert_ne!(shown(), before);
        assert!(!files.refresh(later()), "the same once more");
    }
}
