//! The certificate of the serving API and the authorities of its clients: read at the
//! start, and again whenever a file changes, so that a renewal needs no restart.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use node_agent_kubelet_server::Tls;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::Error;

/// The port of the serving API, as everywhere.
pub(crate) const PORT: u16 = 10250;

/// Who asks the serving API: the API server, by the name that kubeadm and
/// Orlop's own authority give it.
const SERVED: &[&str] = &["kube-apiserver-kubelet-client"];

/// How often is looked for a certificate that is not there yet.
const SOON: Duration = Duration::from_millis(200);
/// How often is looked for a new one.
const NOW_AND_THEN: Duration = Duration::from_secs(10);

/// PEM files of the serving API.
#[derive(Clone, Debug)]
pub struct ServingCertificates {
    /// Its certificate.
    pub certificate: PathBuf,
    /// The certificate's key.
    pub key: PathBuf,
    /// The authority of its clients.
    pub client_ca: PathBuf,
    /// Whether certificate and key may come after the start: the agent serves
    /// once they are there.
    pub awaited: bool,
}

/// Where the serving API listens, for a node whose first address is `primary`.
pub fn address(primary: IpAddr) -> SocketAddr {
    let any = if primary.is_ipv4() {
        IpAddr::from([0; 4])
    } else {
        IpAddr::from([0; 16])
    };
    SocketAddr::new(any, PORT)
}

/// The TLS of the serving API.
///
/// # Errors
/// What of the files cannot be used; a certificate that is awaited may be
/// missing.
pub fn tls(files: &ServingCertificates) -> Result<Tls, Error> {
    let client_ca = read(&files.client_ca)?;
    let tls = Tls::without_certificate(&client_ca, SERVED).map_err(unusable(&files.client_ca))?;
    if !(files.awaited && changed_at(files).is_none()) {
        load(files, &tls)?;
    }
    Ok(tls)
}

/// Shows, and takes clients by, what the files hold as it changes, until `shutdown`.
///
/// # Errors
/// None: what cannot be used is logged, and what was there before stays.
pub async fn follow(
    files: ServingCertificates,
    tls: Tls,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let (mut shown, mut believed) = (None, None);
    // The start showed what was there.
    if !files.awaited {
        shown = changed_at(&files);
    }
    loop {
        let there = changed_at(&files);
        if there.is_some() && there != shown {
            let certificate = files.certificate.display();
            match load(&files, &tls) {
                Ok(()) => info!(%certificate, "serving certificate loaded"),
                Err(error) => warn!(%error, "the new serving certificate is not usable"),
            }
            shown = there;
        }
        let there = version(&files.client_ca).ok();
        if there.is_some() && there != believed {
            believe(&files, &tls);
            believed = there;
        }
        let pause = if shown.is_none() { SOON } else { NOW_AND_THEN };
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn believe(files: &ServingCertificates, tls: &Tls) {
    let authorities = files.client_ca.display();
    let replaced = read(&files.client_ca).and_then(|pem| {
        let replaced = tls.replace_authorities(&pem);
        replaced.map_err(unusable(&files.client_ca))
    });
    match replaced {
        Ok(true) => info!(%authorities, "client CA bundle loaded"),
        Ok(false) => {}
        Err(error) => warn!(%error, "the new client CA bundle is not usable"),
    }
}

fn load(files: &ServingCertificates, tls: &Tls) -> Result<(), Error> {
    let certificate = read(&files.certificate)?;
    let key = read(&files.key)?;
    control_pki::check_certificate(
        &certificate,
        &files.certificate,
        "have a new one made (`orlop credentials node`)",
    )
    .map_err(Error::Certificate)?;
    tls.replace(&certificate, &key)
        .map_err(unusable(&files.certificate))
}

/// When the certificate was written; the key is written before it.
fn changed_at(files: &ServingCertificates) -> Option<SystemTime> {
    let times = |path: &Path| -> io::Result<SystemTime> { std::fs::metadata(path)?.modified() };
    times(&files.key).ok()?;
    times(&files.certificate).ok()
}

/// What is another when another file took the place of this one, or it was written to.
fn version(path: &Path) -> io::Result<(u64, u64, i64, i64)> {
    let meta = std::fs::metadata(path)?;
    Ok((meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(Error::file("read", path))
}

fn unusable(file: &Path) -> impl FnOnce(node_agent_kubelet_server::TlsError) -> Error {
    let file = file.to_owned();
    move |source| Error::Serving { file, source }
}

#[cfg(test)]
mod tests {
    use control_pki::{Authority, Spec};

    use super::*;

    fn files(folder: &Path, awaited: bool) -> ServingCertificates {
        ServingCertificates {
            certificate: folder.join("serving.crt"),
            key: folder.join("serving.key"),
            client_ca: folder.join("ca.crt"),
            awaited,
        }
    }

    #[test]
    fn a_certificate_may_be_missing_only_if_it_is_awaited() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let authority = Authority::create("test").expect("an authority");
        let files = |awaited| files(folder.path(), awaited);
        assert!(tls(&files(true)).is_err(), "who may ask must be known");
        std::fs::write(&files(true).client_ca, authority.certificate_pem()).expect("written");
        let error = tls(&files(false)).expect_err("missing").to_string();
        assert!(error.contains("serving.crt"), "{error}");
        assert!(tls(&files(true)).is_ok());
        let issued = authority
            .issue(&Spec::server("n1", ["n1"]))
            .expect("issued");
        std::fs::write(&files(true).key, &issued.key_pem).expect("written");
        std::fs::write(&files(true).certificate, "rubbish").expect("written");
        assert!(tls(&files(true)).is_err(), "what is there must be right");
        std::fs::write(&files(true).certificate, &issued.cert_pem).expect("written");
        assert!(tls(&files(false)).is_ok());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn authorities_of_clients_are_those_that_the_file_has_now() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let authority = || Authority::create("test").expect("an authority");
        let files = files(folder.path(), true);
        std::fs::write(&files.client_ca, authority().certificate_pem()).expect("written");
        let tls = tls(&files).expect("without a certificate");
        let stop = CancellationToken::new();
        let following = tokio::spawn(follow(files.clone(), tls.clone(), stop.clone()));
        for next in [authority(), authority()] {
            // what cannot be used is not
            for (name, text) in [("rubbish", "rubbish"), ("next", next.certificate_pem())] {
                let path = folder.path().join(name);
                std::fs::write(&path, text).expect("written");
                std::fs::rename(&path, &files.client_ca).expect("replaced");
            }
            for _ in 0..600 {
                if tls.authorities() == next.certificate_pem() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert_eq!(tls.authorities(), next.certificate_pem());
        }
        stop.cancel();
        following.await.expect("no panic").expect("no error");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_certificate_that_comes_late_is_shown() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let authority = Authority::create("test").expect("an authority");
        let files = files(folder.path(), true);
        std::fs::write(&files.client_ca, authority.certificate_pem()).expect("written");
        let tls = tls(&files).expect("not there yet");
        let stop = CancellationToken::new();
        let following = tokio::spawn(follow(files.clone(), tls.clone(), stop.clone()));
        assert!(!tls.is_ready());
        let issued = authority
            .issue(&Spec::server("n1", ["n1"]))
            .expect("issued");
        std::fs::write(&files.key, &issued.key_pem).expect("written");
        std::fs::write(&files.certificate, &issued.cert_pem).expect("written");
        for _ in 0..100 {
            if tls.is_ready() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(tls.is_ready());
        stop.cancel();
        following.await.expect("no panic").expect("no error");
    }
}
