//! Errors that stop a command.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use thiserror::Error;

/// Error of a command. The binary prints it in one line with its causes and exits with
/// code 1.
#[derive(Debug, Error)]
pub enum Error {
    /// A file or folder.
    #[error("cannot use `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// An address that is taken, or not this machine's.
    #[error("cannot listen on {address}: stop what listens there, or choose another port")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The port of health and metrics.
    #[error(transparent)]
    Component(control_serving::component::Error),
    /// No address that others could use.
    #[error("this machine has no default route to tell its address by: give {option}")]
    NoAddress {
        /// The option that names it.
        option: &'static str,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// An invalid kubelet configuration.
    #[error("cannot use `{}`", path.display())]
    KubeletConfiguration {
        /// The file.
        path: PathBuf,
        /// The problem.
        #[source]
        source: node_agent::SettingsError,
    },
    /// A configuration of local volumes that cannot be used.
    #[error("cannot use the configuration of local volumes")]
    VolumeConfiguration(#[source] node_agent::volumes::ConfigError),
    /// A socket that was inherited and is none.
    #[error("LISTEN_FDS announces a socket, but descriptor 3 is none")]
    Inherited(#[source] std::io::Error),
    /// Times of the leader election that do not fit together.
    #[error(
        "leader election needs a retry period of at least a moment, a renew deadline of more than 1.2 times that, and a lease duration longer than the deadline and of at least 1s; given are {retry:?}, {deadline:?} and {duration:?}"
    )]
    ElectionTimes {
        /// The lease duration.
        duration: std::time::Duration,
        /// The renew deadline.
        deadline: std::time::Duration,
        /// The retry period.
        retry: std::time::Duration,
    },
    /// A task failed without which the process cannot continue.
    #[error(transparent)]
    Task(control_supervise::Failure),
    /// A backup, or a store that is restored or moved.
    #[error(transparent)]
    Backup(control_backup::Error),
    /// A backup that is not as it should be.
    #[error("problems: {0}; see above")]
    Verify(usize),
    /// A folder whose store was moved.
    #[error("the store of this folder was moved to {to}: start the server with its options, or remove `{}` if the old store is to be used", marker.display())]
    Moved {
        /// The marker file.
        marker: PathBuf,
        /// Its new location.
        to: String,
    },
    /// A program that a command runs.
    #[error("`{command}` failed: {detail}")]
    Program {
        /// The program with its arguments.
        command: String,
        /// The outcome.
        detail: String,
    },
    /// The store.
    #[error(transparent)]
    Store(control_store::Error),
    /// The socket at which the store is served by etcd's API.
    #[error(transparent)]
    EtcdApi(control_etcd_api::ServeError),
    /// The API server.
    #[error(transparent)]
    ApiServer(control_apiserver::Error),
    /// An invalid configuration of the scheduler.
    #[error("cannot use `{}`", path.display())]
    SchedulerConfiguration {
        /// The file.
        path: PathBuf,
        /// The problem.
        #[source]
        source: crate::scheduler_file::SchedulerFileError,
    },
    /// Objects that make no cluster.
    #[error(transparent)]
    Objects(control_scheduler::objects::Error),
    /// Pods that fit nowhere in a simulation.
    #[error("{0}")]
    Simulation(String),
    /// The node agent.
    #[error(transparent)]
    NodeAgent(node_agent::Error),
    /// The audit policy.
    #[error(transparent)]
    AuditPolicy(control_audit::PolicyError),
    /// The audit log is unusable.
    #[error(transparent)]
    Audit(control_audit::Error),
    /// The egress configuration is unusable.
    #[error(transparent)]
    Egress(control_proxy::egress::Error),
    /// The tracing configuration is unusable.
    #[error(transparent)]
    Tracing(control_tracing::Error),
    /// Certificates and keys.
    #[error(transparent)]
    Pki(control_pki::Error),
    /// Encryption keys are unusable.
    #[error("{0}")]
    Encryption(String),
    /// Policies that are not as expected, or cannot be read.
    #[error("{0}")]
    Policy(String),
    /// Missing requirements of the machine.
    #[error("required and missing: {0}; see above what to do")]
    Preflight(usize),
    /// Problems of the cluster or machine.
    #[error("problems: {0}; see above what to do")]
    Status(usize),
    /// Joining a cluster.
    #[error(transparent)]
    Join(crate::join::Error),
    /// The address of all servers together.
    #[error("--control-plane-address {address}: cannot {what}")]
    ControlPlaneAddress {
        /// The address.
        address: std::net::IpAddr,
        /// The failed operation.
        what: String,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// Several servers.
    #[error(transparent)]
    Servers(crate::servers::Error),
    /// An option that cannot be used so.
    #[error("{0}")]
    Option(String),
    /// How access is configured.
    #[error(transparent)]
    Access(control_access::configuration::ConfigurationError),
    /// The files that access is configured by.
    #[error(transparent)]
    Settings(control_auth::SettingsError),
    /// Bootstrap tokens.
    #[error("{0}")]
    Token(String),
    /// The controllers.
    #[error(transparent)]
    Controllers(control_controllers::Error),
    /// A request to the API.
    #[error(transparent)]
    Client(control_client::Error),
    /// A node that stops a migration, or keeps it from beginning.
    #[error("{0}")]
    Migration(String),
    /// The demo.
    #[error("demo: {0}")]
    Demo(String),
    /// The connectivity test could not continue.
    #[error("connectivity test: {0}")]
    Connectivity(String),
    /// Checks of a connectivity test that failed.
    #[error("checks failed: {failed}; see above why")]
    Checks {
        /// How many.
        failed: usize,
        /// The exit code to end with.
        code: u8,
    },
    /// The async runtime or a signal handler.
    #[error("cannot start")]
    Start(#[source] std::io::Error),
}

impl Error {
    /// The code with which the process ends.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Checks { code, .. } => (*code).into(),
            _ => ExitCode::FAILURE,
        }
    }
}
