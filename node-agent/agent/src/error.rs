//! What stops the node agent.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use ipnet::IpNet;
use thiserror::Error;

/// Why the node agent, or a part of it, cannot continue.
#[derive(Debug, Error)]
pub enum Error {
    /// Not root.
    #[error("the node agent manages containers, control groups and routes: run it as root")]
    NotRoot,
    /// The kernel does not describe its types.
    #[error(
        "`{}` is missing: the eBPF programs need a kernel with type information \
         (CONFIG_DEBUG_INFO_BTF=y), which Debian's kernels have from version 11 on",
        .0.display()
    )]
    NoBtf(PathBuf),
    /// No cgroup v2 hierarchy is mounted.
    #[error(
        "no cgroup2 hierarchy is mounted: mount one (mount -t cgroup2 none /sys/fs/cgroup/unified) \
         or name a folder with --cgroup"
    )]
    NoCgroup,
    /// The control group named is not in the cgroup v2 hierarchy.
    #[error(
        "`{}` is no folder of the cgroup2 hierarchy at `{}`: name one below it with --cgroup",
        folder.display(),
        mount.display()
    )]
    Cgroup {
        /// What was named.
        folder: PathBuf,
        /// Where the hierarchy is.
        mount: PathBuf,
    },
    /// The agent on this machine does not say what it is asked.
    #[error("the agent at `{}` cannot be asked", socket.display())]
    Asked {
        /// Its socket.
        socket: PathBuf,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What systemd asks for.
    #[error(transparent)]
    Systemd(crate::systemd::SystemdError),
    /// The datapath.
    #[error(transparent)]
    Datapath(node_agent_datapath::Error),
    /// Cluster DNS.
    #[error(transparent)]
    Dns(node_agent_dns::Error),
    /// The pods' part.
    #[error(transparent)]
    Pods(node_agent_pods::Error),
    /// The inputs of network policy are to be read elsewhere.
    #[error(
        "the API server serves PodEndpoints now: the agent must start again to read them          instead of pods"
    )]
    PolicySource,
    /// The API server cannot be reached as another than the node.
    #[error(transparent)]
    Client(control_client::Error),
    /// The token of the network's account.
    #[error("the token of the network's account cannot be used")]
    NetworkToken(#[source] http::header::InvalidHeaderValue),
    /// The container runtime's socket.
    #[error(
        "no container runtime answers at `{}` after {} s: start containerd, or name its socket \
         with --container-runtime-endpoint",
        socket.display(),
        waited.as_secs()
    )]
    Runtime {
        /// The socket.
        socket: PathBuf,
        /// For how long it was tried.
        waited: Duration,
        /// What the system said last.
        #[source]
        source: io::Error,
    },
    /// The runtime's endpoint is none that we can speak to.
    #[error(
        "`{0}` is no container runtime endpoint: it is the absolute path of a Unix socket, with or \
         without `unix://` before it"
    )]
    Endpoint(String),
    /// The serving API's address is taken.
    #[error("cannot listen on {address}: end the kubelet or node agent that runs there already")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The ring of flows cannot be waited for.
    #[error("cannot wait for what programs tell of flows")]
    Ring(#[source] io::Error),
    /// An option that names no addresses.
    #[error("--nodeport-addresses")]
    NodePortAddresses(#[source] node_agent_plan::BadNodePortAddresses),
    /// A certificate that expired or cannot be read.
    #[error(transparent)]
    Certificate(control_pki::Error),
    /// The serving API's certificate and key, or the authorities of its clients.
    #[error("`{}`", file.display())]
    Serving {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        #[source]
        source: node_agent_kubelet_server::TlsError,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} `{}`", path.display())]
    File {
        /// What was to be done.
        action: &'static str,
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Where pods' addresses are kept.
    #[error("the addresses of pods cannot be kept")]
    Addresses(#[source] cni_addresses::Error),
    /// No connection to the kernel's network configuration.
    #[error("cannot open a netlink socket")]
    NetlinkSocket(#[source] io::Error),
    /// The kernel refused a change of the network configuration.
    #[error("cannot {action}")]
    Netlink {
        /// What was to be done.
        action: String,
        /// What the kernel said.
        #[source]
        source: rtnetlink::Error,
    },
    /// No route can be made to a pod range.
    #[error("`{0}` is no range that a route can lead to")]
    Range(IpNet),
    /// A device of ours went while it was used.
    #[error("the device `{0}` is gone")]
    NoDevice(String),
    /// The node's address is on no interface.
    #[error("no interface has the address {0}: name one of this machine's with --node-ip")]
    NoAddress(IpAddr),
    /// There is no default route to tell the node's address.
    #[error("this machine has no default route to tell its address: name it with --node-ip")]
    NoDefaultRoute,
    /// Pods that this agent did not make, where it was not said what becomes of them.
    #[error(
        "pods of another kubelet are on this machine: {}; nothing was removed: say `--foreign-pods keep` or `--foreign-pods remove`",
        .0.join(", ")
    )]
    ForeignPods(Vec<String>),
    /// Pods depend on the datapath that is to be removed.
    #[error(
        "an agent on this machine also serves the pods' network (`{}`): `orlop reset` removes all \
         of it; with --pin-dir another datapath can be named",
        .0.display()
    )]
    WholeAgent(PathBuf),
    /// What could not be removed from the machine.
    #[error("left on this machine: {0}; end what uses it and try again")]
    Left(String),
    /// A part ended though nobody asked it to.
    #[error("a part of the node agent ended before the rest: see the log above")]
    Ended,
    /// A fault of the agent itself.
    #[error("a part of the node agent failed")]
    Panic(#[source] tokio::task::JoinError),
}

impl Error {
    /// For `map_err`: the file at `path` could not be acted upon.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }

    /// For `map_err`: the kernel refused to do this.
    pub(crate) fn netlink(action: impl Into<String>) -> impl FnOnce(rtnetlink::Error) -> Self {
        let action = action.into();
        move |source| Self::Netlink { action, source }
    }
}
