//! The folder of a node's credentials.

use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use control_pki::{CertificateKeyPair, check_certificate, kubeconfig, write_private, write_public};
use serde_json::Value;

use super::{Error, user};

/// A node's credentials on disk: `ca.crt`, `client.crt` and `.key`, `serving.crt`
/// and `.key`, and the `kubeconfig` with which the agent starts.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

/// A node's credentials as a client.
#[derive(Clone, Debug)]
pub struct OwnFiles {
    /// The API server's URL.
    pub server: String,
    /// The cluster's authority, PEM.
    pub authority: String,
    /// Certificate and key.
    pub client: CertificateKeyPair,
}

const WAY_OUT: &str = "join again with the line that `orlop token create` prints on the server";

impl Folder {
    /// The folder at `path`, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes it, for its owner only.
    ///
    /// # Errors
    /// [`Error::Pki`], naming it.
    pub fn prepare(&self) -> Result<(), Error> {
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0);
        made.map_err(|source| file(&self.0, "written", source))
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Files of the serving certificate, which may come after the start.
    pub fn serving(&self) -> node_agent::ServingCertificates {
        node_agent::ServingCertificates {
            certificate: self.file("serving.crt"),
            key: self.file("serving.key"),
            client_ca: self.file("ca.crt"),
            awaited: true,
        }
    }

    /// The credentials of this node, if it has any.
    ///
    /// # Errors
    /// [`Error::OtherNode`], or [`Error::Pki`] for files that cannot be read
    /// and certificates whose time is not now.
    pub fn load(&self, node: &str) -> Result<Option<OwnFiles>, Error> {
        // Written last: once it exists, the other files are complete.
        let path = self.file("kubeconfig");
        let config: Value = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(file(&path, "read", source)),
            Ok(text) => {
                let options = serde_saphyr::options! { strict_booleans: true };
                serde_saphyr::from_str_with_options(&text, options)
                    .map_err(|error| malformed(&path, &error))?
            }
        };
        let server = config["clusters"][0]["cluster"]["server"].as_str();
        let server = server.ok_or_else(|| malformed(&path, &"it names no server"))?;
        let found = config["users"][0]["name"].as_str().unwrap_or_default();
        if found != user(node) {
            return Err(Error::OtherNode {
                folder: self.0.clone(),
                found: found.to_owned(),
                wanted: user(node),
            });
        }
        let certificate = self.file("client.crt");
        let client = CertificateKeyPair {
            cert_pem: read(&certificate)?,
            key_pem: read(&self.file("client.key"))?,
        };
        check_certificate(&client.cert_pem, &certificate, WAY_OUT)?;
        Ok(Some(OwnFiles {
            server: server.to_owned(),
            authority: read(&self.file("ca.crt"))?,
            client,
        }))
    }

    /// Writes the credentials of this node; a crash leaves old or new ones.
    ///
    /// # Errors
    /// [`Error::Pki`].
    pub fn save(&self, own: &OwnFiles, node: &str) -> Result<(), Error> {
        self.prepare()?;
        write_public(&self.file("ca.crt"), own.authority.as_bytes())?;
        write_private(&self.file("client.key"), own.client.key_pem.as_bytes())?;
        write_private(&self.file("client.crt"), own.client.cert_pem.as_bytes())?;
        let name = user(node);
        let text = kubeconfig(&own.server, &own.authority, &own.client, "orlop", &name);
        write_private(&self.file("kubeconfig"), text.as_bytes())?;
        Ok(())
    }

    /// Writes the serving certificate, the key first.
    ///
    /// # Errors
    /// [`Error::Pki`].
    pub fn save_serving(&self, serving: &CertificateKeyPair) -> Result<(), Error> {
        write_private(&self.file("serving.key"), serving.key_pem.as_bytes())?;
        write_private(&self.file("serving.crt"), serving.cert_pem.as_bytes())?;
        Ok(())
    }
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| file(path, "read", source))
}

fn file(path: &Path, action: &'static str, source: std::io::Error) -> Error {
    Error::Pki(control_pki::Error::File {
        path: path.to_owned(),
        action,
        source,
    })
}

fn malformed(path: &Path, detail: &dyn std::fmt::Display) -> Error {
    Error::Pki(control_pki::Error::Malformed {
        path: path.to_owned(),
        expected: "kubeconfig of a node",
        detail: detail.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt, time::Duration};

    use control_pki::{Authority, Spec};

    use super::*;

    fn own(node: &str, validity: Duration) -> OwnFiles {
        let authority = Authority::create("kubernetes").expect("an authority");
        let spec = Spec {
            validity,
            ..Spec::client(&user(node), &["system:nodes"])
        };
        OwnFiles {
            server: "https://10.0.0.1:6443".to_owned(),
            authority: authority.certificate_pem().to_owned(),
            client: authority.issue(&spec).expect("issued"),
        }
    }

    #[test]
    fn what_is_written_is_found_again_and_secret() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let folder = Folder::new(dir.path().join("agent"));
        assert!(folder.load("n1").expect("no error").is_none());
        let written = own("n1", Duration::from_secs(3600));
        folder.save(&written, "n1").expect("saved");
        folder.save_serving(&written.client).expect("saved");
        let found = folder.load("n1").expect("no error").expect("there");
        assert_eq!(found.server, written.server);
        assert_eq!(found.client, written.client);
        for entry in std::fs::read_dir(folder.path()).expect("a folder") {
            let entry = entry.expect("an entry");
            let mode = entry.metadata().expect("a file").permissions().mode() & 0o777;
            let wanted = if entry.file_name() == "ca.crt" {
                0o644
            } else {
                0o600
            };
            assert_eq!(mode, wanted, "{:?}", entry.file_name());
        }
        let error = folder.load("n2").expect_err("another node's").to_string();
        assert!(
            error.contains("system:node:n1") && error.contains("--node-name"),
            "{error}"
        );
    }

    #[test]
    fn credentials_that_expired_are_told_apart() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let folder = Folder::new(dir.path());
        let written = own("n1", Duration::ZERO);
        folder.save(&written, "n1").expect("saved");
        std::thread::sleep(Duration::from_millis(1100));
        let error = folder.load("n1").expect_err("expired");
        assert!(
            matches!(error, Error::Pki(control_pki::Error::Expired { .. })),
            "{error}"
        );
    }
}
