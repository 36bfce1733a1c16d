//! Renews the certificates of a running server: at two thirds of their lifetime, or after
//! they were deleted (`orlop certs rotate`). New connections use the new ones; nothing
//! restarts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use control_apiserver::ProxyIdentity;
use control_pki::{
    CertificateKeyPair, Cluster, KubeletTrust, ServingIdentity, Spec, kubeconfig, write_private,
};
use control_proxy::Kubelets;
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::servers::{etcd::MemberCertificates, names::ServerNames};

/// How often certificates are looked at.
const EVERY: Duration = Duration::from_secs(15);
/// Authorities are not renewed automatically: the log warns this long before they expire.
const WARNING: SignedDuration = SignedDuration::from_hours(90 * 24);
/// And how often.
const AGAIN: SignedDuration = SignedDuration::from_hours(24);

/// Users of certificates, and how they are created.
pub struct Rotation {
    /// The authorities.
    pub pki: Cluster,
    /// The names by which clients call the server, which change with its addresses.
    pub names: ServerNames,
    /// Those at the start.
    pub first_names: Vec<String>,
    /// The certificates of the member of etcd beside it.
    pub member: Option<MemberCertificates>,
    /// The certificate for clients.
    pub serving: Arc<ServingIdentity>,
    /// The certificate for nodes' agents.
    pub kubelets: Kubelets,
    /// The certificate for extension API servers.
    pub proxy: ProxyIdentity,
    /// The administrator's files, and the server's address in them.
    pub kubeconfigs: Vec<PathBuf>,
    /// The server's address there.
    pub url: String,
}

/// The certificates in use.
#[derive(Clone, PartialEq, Eq)]
struct InUse {
    serving: CertificateKeyPair,
    kubelets: CertificateKeyPair,
    kubelet_trust: String,
    proxy: CertificateKeyPair,
    administrator: CertificateKeyPair,
}

/// Returns the authorities that the API server accepts from kubelets now.
///
/// # Errors
/// An authority that cannot be read.
pub fn kubelet_trust(pki: &Cluster) -> Result<KubeletTrust, control_pki::Error> {
    pki.kubelet_trust(Spec::DEFAULT_VALIDITY, Timestamp::now())
}

impl Rotation {
    /// Looks after the certificates until shutdown.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut known = None;
        let mut warned = None;
        loop {
            match self.once(known.take()) {
                Ok(now) => known = Some(now),
                Err(error) => {
                    tracing::error!(error = %crate::run::in_one_line(&error), "certificates not reloaded");
                }
            }
            self.warn(&mut warned);
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }

    /// Renews certificates if necessary and loads changed ones.
    fn once(&self, known: Option<InUse>) -> Result<InUse, Error> {
        let made = || {
            Ok::<_, control_pki::Error>(InUse {
                serving: self.pki.serving(self.names.now(&self.first_names))?,
                kubelets: self.pki.kubelet_client()?,
                kubelet_trust: kubelet_trust(&self.pki)?.bundle_pem,
                proxy: self.pki.front_proxy_client()?,
                administrator: self.pki.administrator()?,
            })
        };
        if let Some(member) = &self.member {
            member.keep().map_err(Error::Pki)?;
        }
        let now = made().map_err(Error::Pki)?;
        let Some(known) = known else {
            // The first look: what there is was shown from the start.
            return Ok(now);
        };
        if known == now {
            return Ok(now);
        }
        let authority = self.pki.ca.certificate_pem();
        if known.serving != now.serving {
            let path = self.pki.dir.join("apiserver.crt");
            let replaced = self.serving.replace(&now.serving, &path);
            replaced.map_err(Error::Pki)?;
        }
        if known.kubelets != now.kubelets || known.kubelet_trust != now.kubelet_trust {
            let replaced = self.kubelets.replace(&now.kubelet_trust, &now.kubelets);
            replaced.map_err(Error::Pki)?;
        }
        if known.proxy != now.proxy {
            self.proxy.replace(now.proxy.clone());
        }
        if known.administrator != now.administrator {
            let own = &now.administrator;
            let text = kubeconfig(&self.url, authority, own, "orlop", "kubernetes-admin");
            for path in &self.kubeconfigs {
                write_private(path, text.as_bytes()).map_err(Error::Pki)?;
            }
        }
        tracing::info!("certificates reloaded");
        Ok(now)
    }

    fn warn(&self, warned: &mut Option<Timestamp>) {
        let now = Timestamp::now();
        if warned.is_some_and(|at| now.duration_since(at) < AGAIN) {
            return;
        }
        for (name, authority) in [
            ("ca", &self.pki.ca),
            ("kubelet-ca", &self.pki.kubelet_ca),
            ("front-proxy-ca", &self.pki.front_proxy_ca),
        ] {
            let path = self.pki.dir.join(format!("{name}.crt"));
            let Ok((_, expires)) = control_pki::validity(authority.certificate_pem(), &path) else {
                continue;
            };
            if expires.duration_since(now) < WARNING {
                *warned = Some(now);
                tracing::warn!(authority = name, %expires, "authority is about to expire: certificates that it signed will be rejected");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_deleted_is_made_anew_and_shown() {
        let dir = tempfile::tempdir().expect("a directory");
        let pki = Cluster::load_or_create(dir.path().join("pki")).expect("keys");
        let server_names = ServerNames {
            advertised: Some([10, 0, 0, 1].into()),
            bind: [0, 0, 0, 0].into(),
            service_ranges: Vec::new(),
            further: Vec::new(),
        };
        let names = server_names.now(&[]);
        let issued = pki.serving(&names).expect("issued");
        let path = pki.dir.join("apiserver.crt");
        let serving = ServingIdentity::new(&issued, &path).expect("an identity");
        let kubelet = pki.kubelet_client().expect("issued");
        let kubelets = Kubelets::new(pki.kubelet_ca.certificate_pem(), &kubelet).expect("usable");
        let kubeconfig = dir.path().join("admin.kubeconfig");
        let mut rotation = Rotation {
            names: server_names,
            first_names: names,
            member: None,
            serving,
            kubelets,
            proxy: ProxyIdentity::new(pki.front_proxy_client().expect("issued")),
            kubeconfigs: vec![kubeconfig.clone()],
            url: "https://127.0.0.1:6443".into(),
            pki,
        };
        let first = rotation.once(None).expect("as they are");
        let again = rotation.once(Some(first.clone())).expect("as they are");
        assert!(first == again);
        assert!(!kubeconfig.exists(), "nothing changed");
        for name in ["apiserver", "admin"] {
            for end in ["crt", "key"] {
                let path = rotation.pki.dir.join(format!("{name}.{end}"));
                std::fs::remove_file(path).expect("removed");
            }
        }
        let later = rotation.once(Some(again)).expect("made");
        assert!(later.serving != first.serving && later.administrator != first.administrator);
        assert!(later.kubelets == first.kubelets && later.proxy == first.proxy);
        assert!(kubeconfig.exists());
        // Another address, as a machine gets by DHCP.
        rotation.names.advertised = Some([10, 0, 0, 2].into());
        let moved = rotation.once(Some(later.clone())).expect("made");
        assert!(moved.serving != later.serving && moved.administrator == later.administrator);
        let has = control_pki::names(&moved.serving.cert_pem, &path).expect("names");
        assert!(has.contains(&"10.0.0.2".to_owned()), "{has:?}");
    }
}
