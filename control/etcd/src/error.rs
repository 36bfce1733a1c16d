//! Errors of a member or its cluster.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Reason why a member cannot run, or its cluster cannot be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The member's record or data cannot be read or written.
    #[error("cannot use `{}`", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The record is invalid.
    #[error("`{}` is no record of an etcd member: restore it, or remove the folder and join again with `orlop server --join`", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The problem.
        #[source]
        source: serde_json::Error,
    },
    /// The program cannot be started.
    #[error(
        "cannot start `{program}`: install etcd 3.4 to 3.7 (Debian: apt install etcd-server), or name it with --etcd-binary"
    )]
    Program {
        /// The program.
        program: String,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The program is of a version that was not tried.
    #[error(
        "`{program}` is etcd {version}: versions 3.4 to 3.7 work; name another with --etcd-binary"
    )]
    Version {
        /// The program.
        program: String,
        /// Its version, or its output instead.
        version: String,
    },
    /// The machine has another address than when the member was made.
    #[error(
        "etcd member `{name}` was made for {recorded}, and this server's address is {now}: start \
         with --advertise-address {recorded}, or remove the member (`orlop etcd members remove \
         {name}` on another server), remove `{}`, and join again", folder.display()
    )]
    OtherAddress {
        /// The member.
        name: String,
        /// Its address.
        recorded: IpAddr,
        /// The server's address.
        now: IpAddr,
        /// The member's folder.
        folder: PathBuf,
    },
    /// The disk is too slow for a member.
    #[error(
        "the disk of `{}` takes {measured:?} to make a write durable (99th percentile), more than \
         {limit:?}: members would lose their leader again and again; use another disk, or \
         --etcd-allow-slow-disk", folder.display()
    )]
    SlowDisk {
        /// The folder.
        folder: PathBuf,
        /// The 99th percentile.
        measured: Duration,
        /// The limit.
        limit: Duration,
    },
    /// No member answers.
    #[error(
        "no member of etcd answers at {endpoints}: check that one runs, and the network between"
    )]
    Unreachable {
        /// The members that were tried.
        endpoints: String,
        /// The last one's error.
        #[source]
        source: Option<Box<etcd_client::Error>>,
    },
    /// A member refused.
    #[error("etcd refused to {action}")]
    Refused {
        /// The request.
        action: String,
        /// The member's error.
        #[source]
        source: Box<etcd_client::Error>,
    },
    /// There is no such member.
    #[error("there is no member `{name}`: the members are {known}")]
    NoMember {
        /// The name or id that was given.
        name: String,
        /// All existing members.
        known: String,
    },
    /// Another machine has that name or address in the cluster.
    #[error(
        "`{name}` at {url} is a member already: if its machine is gone for good, run `orlop etcd \
         members replace {name}` on another server; else choose another --etcd-name"
    )]
    Taken {
        /// The member.
        name: String,
        /// Its peer URL.
        url: String,
    },
    /// The removal would leave a cluster without a majority.
    #[error(
        "without `{name}` only {healthy} of {needed} members that a majority needs would answer: \
         bring others up first, or give --force"
    )]
    QuorumAtRisk {
        /// The member.
        name: String,
        /// Voting members that answer after the removal.
        healthy: usize,
        /// A majority of those that would be left.
        needed: usize,
    },
    /// The learner did not catch up.
    #[error(
        "member `{name}` was added but did not catch up within {waited:?}: see this server's log for what etcd says; start it again to go on"
    )]
    NotPromoted {
        /// The member.
        name: String,
        /// How long was waited.
        waited: Duration,
        /// The cluster's last error.
        #[source]
        source: Option<Box<Error>>,
    },
    /// The member was removed from its cluster while it was away.
    #[error(
        "member `{name}` was removed from its cluster: remove `{}`, then join again with the line \
         that `orlop token create --server` prints on another server", folder.display()
    )]
    Removed {
        /// The member.
        name: String,
        /// Its folder.
        folder: PathBuf,
    },
    /// No program restores snapshots.
    #[error(
        "no program restores a snapshot of etcd (tried: {tried}): install etcdctl or, for etcd 3.6 \
         and later, etcdutl (Debian: apt install etcd-client), or put it beside --etcd-binary"
    )]
    NoRestorer {
        /// The programs that were tried.
        tried: String,
    },
    /// A snapshot was not restored.
    #[error("`{}` does not restore the snapshot: {problem}", program.display())]
    NotRestored {
        /// The program.
        program: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The member did not start to serve.
    #[error("etcd did not serve within {waited:?}: see this server's log for what it says")]
    NotServing {
        /// How long was waited.
        waited: Duration,
    },
}
