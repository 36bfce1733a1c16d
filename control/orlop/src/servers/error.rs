//! Errors of joining as a server, each with the way out.

use std::path::PathBuf;

/// Reason why a machine cannot be a further server, in one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The token has not the form of a server's.
    #[error(
        "the token is none of a server: copy the line that `orlop token create --server` prints \
         on another server"
    )]
    TokenForm,
    /// Option `--join` without what belongs to it.
    #[error(
        "--join needs --token and --ca-cert-hash: copy the line that `orlop token create \
         --server` prints on another server"
    )]
    Incomplete,
    /// The folder has keys of another cluster.
    #[error(
        "`{}` has keys of another cluster: name another folder with --data-dir, or move that one \
         away", folder.display()
    )]
    OtherCluster {
        /// The folder of keys.
        folder: PathBuf,
    },
    /// The cluster does not have the keys for this token any more.
    #[error(
        "`{server}` has no keys for this token: it has expired or was deleted; make a new one \
         with `orlop token create --server` on another server"
    )]
    NoKeys {
        /// The server's URL.
        server: String,
        /// The answer.
        #[source]
        source: control_client::Error,
    },
    /// The keys cannot be decrypted, or are not as expected.
    #[error(
        "the keys that `{server}` gave cannot be used: {problem}; make a new token with `orlop \
         token create --server` on another server"
    )]
    BadKeys {
        /// The server's URL.
        server: String,
        /// The problem.
        problem: &'static str,
    },
    /// An option differs from the cluster's.
    #[error(
        "{option} is `{given}` here and `{wanted}` in the cluster: give the same on all servers"
    )]
    Differs {
        /// The option.
        option: &'static str,
        /// The given value.
        given: String,
        /// The cluster's value.
        wanted: String,
    },
    /// The cluster keeps objects where this server cannot reach them.
    #[error(
        "the cluster keeps its objects in an etcd that it does not manage: give --etcd-servers \
         and its files here, too"
    )]
    NoEtcd,
    /// Objects lie in a file of one server.
    #[error(
        "this server keeps its objects in `{}`, which no other server can share: start a new \
         cluster with `orlop server --etcd managed`, or move the objects to an etcd first", path.display()
    )]
    Embedded {
        /// The embedded store's file.
        path: PathBuf,
    },
    /// There are no keys to share.
    #[error("`{}` is no data folder of a server: run this on a server, or name its folder with --data-dir", folder.display())]
    NoServer {
        /// The folder.
        folder: PathBuf,
    },
    /// A file of keys.
    #[error("cannot use `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// Finding the cluster.
    #[error(transparent)]
    Join(crate::join::Error),
    /// Keys and certificates.
    #[error(transparent)]
    Pki(control_pki::Error),
    /// The member of etcd.
    #[error(transparent)]
    Etcd(control_etcd::Error),
    /// A request to the API.
    #[error(transparent)]
    Client(control_client::Error),
}
