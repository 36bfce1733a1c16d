//! Errors of joining, each with the way out.

use std::{path::PathBuf, time::Duration};

use thiserror::Error;

/// Reason why a machine cannot be a node, in one line.
#[derive(Debug, Error)]
pub enum Error {
    /// Neither credentials nor a way to get some.
    #[error(
        "this machine is no node yet (no credentials in `{}`): start it with the line that \
         `orlop token create` prints on the server", folder.display()
    )]
    NotJoined {
        /// The folder in which they should be.
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
        /// The folder in which they are.
        folder: PathBuf,
        /// The node that they belong to.
        found: String,
        /// The node that they should belong to.
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
        /// The error instead.
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
        /// The API server's answer.
        #[source]
        source: control_client::Error,
    },
    /// The published data is invalid.
    #[error(
        "`{server}` does not tell who it is: {problem} in the ConfigMap kube-public/cluster-info"
    )]
    BadInfo {
        /// The URL.
        server: String,
        /// The problem.
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
        /// The actual hash.
        found: String,
        /// The expected hash.
        wanted: String,
    },
    /// The server's own certificate is not of the authority, or for another name.
    #[error(
        "`{server}` cannot show that it belongs to the cluster: name it by an address or name that its certificate has"
    )]
    Foreign {
        /// The URL.
        server: String,
        /// The TLS error.
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
        /// The TLS error.
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
    /// The token is accepted, but lacks the permission.
    #[error(
        "`{server}` does not let this token ask for a certificate: it must give a group that may, such as system:bootstrappers in Orlop"
    )]
    MayNot {
        /// The URL.
        server: String,
        /// The API server's answer.
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
        /// The reason.
        message: String,
    },
    /// The request was neither approved nor signed in time.
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
    /// Classifies the result of a request to `server`.
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
