//! What can be in the way of joining, and the way out.

use std::{path::PathBuf, time::Duration};

use thiserror::Error;

/// Why a machine cannot be a node. One line each.
#[derive(Debug, Error)]
pub enum Error {
    /// Neither credentials nor a way to get some.
    #[error(
        "this machine is no node yet (no credentials in `{}`): start it with the line that \
         `orlop token create` prints on the server", folder.display()
    )]
    NotJoined {
        /// Where they would be.
        folder: PathBuf,
    },
    /// The node's certificate is too old to be renewed.
    #[error(
        "the node's certificate `{}` expired on {expired}: join again with the line that \
         `orlop token create` prints on the server", path.display()
    )]
    Expired {
        /// Its file.
        path: PathBuf,
        /// When, in UTC.
        expired: jiff::Timestamp,
    },
    /// The credentials are another node's.
    #[error(
        "the credentials in `{}` are those of `{found}`, not of `{wanted}`: remove the folder to \
         join under the new name, or give the old one with --node-name", folder.display()
    )]
    OtherNode {
        /// Where they are.
        folder: PathBuf,
        /// Whose they are.
        found: String,
        /// Whose they should be.
        wanted: String,
    },
    /// The token has not the form of one.
    #[error(
        "the token has not the form abcdef.0123456789abcdef: copy it from the line that `orlop token create` prints"
    )]
    TokenForm,
    /// The hash has not the form of one.
    #[error(
        "`{0}` is no hash of an authority: it is `sha256:` and 64 hexadecimal digits, as `orlop token create` prints it"
    )]
    HashForm(String),
    /// The URL is none.
    #[error("`{0}` is no URL of an API server: write https://HOST:6443")]
    Url(String),
    /// No answer.
    #[error(
        "cannot reach `{server}`: check the address, that the server runs, and that no firewall is between"
    )]
    Unreachable {
        /// The URL.
        server: String,
        /// What came instead.
        #[source]
        source: control_client::Error,
    },
    /// It does not publish what machines need to join.
    #[error(
        "`{server}` does not tell who it is: it must let everybody read the ConfigMap kube-public/cluster-info"
    )]
    NoInfo {
        /// The URL.
        server: String,
        /// What it answered.
        #[source]
        source: control_client::Error,
    },
    /// What it publishes cannot be read.
    #[error(
        "`{server}` does not tell who it is: {problem} in the ConfigMap kube-public/cluster-info"
    )]
    BadInfo {
        /// The URL.
        server: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// Another authority than the one that was named.
    #[error(
        "the authority of `{server}` has the hash {found}, not {wanted}: check address and hash; \
         if both are right, somebody else answers there"
    )]
    WrongAuthority {
        /// The URL.
        server: String,
        /// What it has.
        found: String,
        /// What it should have.
        wanted: String,
    },
    /// The server's own certificate is not of the authority, or for another name.
    #[error(
        "`{server}` cannot show that it belongs to the cluster: name it by an address or name that its certificate has"
    )]
    Foreign {
        /// The URL.
        server: String,
        /// What TLS said.
        #[source]
        source: control_client::Error,
    },
    /// A certificate that is good at another time.
    #[error(
        "a certificate of `{server}` is not valid now: check this machine's clock (it shows {now}) and the server's"
    )]
    Clock {
        /// The URL.
        server: String,
        /// This machine's time.
        now: jiff::Timestamp,
        /// What TLS said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The token is not accepted.
    #[error(
        "`{server}` does not accept the token: it has expired, was deleted, or is not this cluster's; make a new one with `orlop token create` on the server"
    )]
    TokenRefused {
        /// The URL.
        server: String,
    },
    /// The token is accepted, but may not be used for this.
    #[error(
        "`{server}` does not let this token ask for a certificate: it must give a group that may, such as system:bootstrappers in Orlop"
    )]
    MayNot {
        /// The URL.
        server: String,
        /// What it answered.
        #[source]
        source: control_client::Error,
    },
    /// The request was refused by a person or a controller.
    #[error("the certificate request `{name}` was {how}: {message}")]
    Refused {
        /// Its name.
        name: String,
        /// `denied` or `not signed`.
        how: &'static str,
        /// What was given as the reason.
        message: String,
    },
    /// Nobody approved or signed it.
    #[error(
        "nobody {what} the certificate request `{name}` within {waited:?}: see `kubectl get csr {name}`, and approve it with `kubectl certificate approve {name}`"
    )]
    Ignored {
        /// Its name.
        name: String,
        /// `approved` or `signed`.
        what: &'static str,
        /// How long was waited.
        waited: Duration,
    },
    /// Certificates, keys and files.
    #[error(transparent)]
    Pki(#[from] control_pki::Error),
    /// A request to the API.
    #[error(transparent)]
    Client(control_client::Error),
}

impl Error {
    /// Sorts what came of a request to `server`.
    pub fn of_request(server: &str, source: control_client::Error) -> Self {
        use control_client::Error as E;
        let server = server.to_owned();
        let text = source.chain();
        match &source {
            E::Unauthorized(_) => Self::TokenRefused { server },
            E::Forbidden(_) => Self::MayNot { server, source },
            E::Connection(_) | E::Transport(_) | E::Body(_) | E::NoAnswer { .. } => {
                if text.contains("not valid yet") || text.contains("certificate expired") {
                    Self::Clock {
                        server,
                        now: jiff::Timestamp::now(),
                        source: Box::new(source),
                    }
                } else if text.contains("invalid peer certificate") {
                    Self::Foreign { server, source }
                } else {
                    Self::Unreachable { server, source }
                }
            }
            _ => Self::Client(source),
        }
    }

    /// The same, with the server named where only a request failed.
    pub(super) fn with_server(self, server: &str) -> Self {
        match self {
            Self::Client(source) => Self::of_request(server, source),
            other => other,
        }
    }
}
