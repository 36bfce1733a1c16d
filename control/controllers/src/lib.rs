//! One module per controller.
//!
//! Every controller has the same rooms: a pure `decide` that turns a snapshot
//! of objects into actions, and a thin loop around it that gathers the
//! snapshot from shared caches and carries the actions out through the API.
//! A decision never depends on what changed, so a missed event costs nothing
//! but time, and a restart needs no state.
//!
//! ```text
//! Kind<V> (one cache per kind) ──change──▶ Queue<Key> ──▶ snapshot ──▶ decide
//!     ▲                                                                   │
//!     └────────── watch ◀── API server ◀── apply ◀── Vec<Action> ◀────────┘
//! ```
//!
//! A new controller is a file with a `pub const CONTROLLER` and a line in
//! [`CONTROLLERS`].

use std::time::Duration;

use control_client::Client;
use futures::future::BoxFuture;
use ipnet::IpNet;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

mod account_tokens;
mod admission_policies;
mod bootstrap_signer;
mod cluster_role;
mod config;
mod context;
mod cronjob;
mod custom;
mod daemonset;
mod deployment;
mod device_taints;
mod discovery;
mod disruption;
#[cfg(test)]
mod election_tests;
mod endpoints;
mod expectations;
#[cfg(test)]
mod fake_api;
mod garbage;
mod hash;
mod history;
mod job;
mod legacy_tokens;
mod load_balancer;
mod names;
mod namespace;
mod node;
mod optional;
mod ownership;
mod pod_autoscaler;
mod pod_events;
mod pod_gc;
mod protection;
mod quota;
mod replicaset;
mod resource_claim;
mod root_ca;
mod selinux_warnings;
mod service_account;
mod service_cidr;
mod statefulset;
mod storage_migration;
mod storage_versions;
mod trust_bundle;
pub mod views;
mod volumes;
mod work;
mod written;

mod certificates;
mod template_dump;
mod token_cleaner;

pub use account_tokens::{Sign, TokenSigner};
pub use config::Config;
pub use context::{Context, Key, KindCache};

/// A controller: its name and the function that starts it.
pub struct Controller {
    /// The name that the configuration selects it by; upstream's, where there
    /// is one.
    pub name: &'static str,
    /// The service account in `kube-system` that has the rights it needs, by
    /// the bootstrap policy (`system:controller:…`); empty: it acts as the reader.
    pub service_account: &'static str,
    /// Registers with the caches it needs, and returns its work: a future that
    /// ends after shutdown.
    pub start: fn(&Context) -> BoxFuture<'static, ()>,
}

/// All controllers.
pub static CONTROLLERS: &[Controller] = &[
    deployment::CONTROLLER,
    replicaset::REPLICA_SET,
    replicaset::REPLICATION_CONTROLLER,
    statefulset::CONTROLLER,
    daemonset::CONTROLLER,
    pod_autoscaler::CONTROLLER,
    job::CONTROLLER,
    cronjob::CONTROLLER,
    job::TTL,
    endpoints::SLICES,
    endpoints::LEGACY,
    endpoints::MIRROR,
    garbage::CONTROLLER,
    namespace::CONTROLLER,
    service_account::CONTROLLER,
    root_ca::CONTROLLER,
    cluster_role::CONTROLLER,
    service_cidr::CONTROLLER,
    disruption::CONTROLLER,
    protection::CLAIM_PROTECTION,
    protection::VOLUME_PROTECTION,
    protection::CLASS_PROTECTION,
    node::LIFECYCLE,
    node::TAINT_EVICTION,
    node::IPAM,
    node::TTL,
    pod_gc::CONTROLLER,
    quota::CONTROLLER,
    certificates::APPROVING,
    certificates::SIGNING,
    certificates::CLEANING,
    token_cleaner::CONTROLLER,
    bootstrap_signer::CONTROLLER,
    legacy_tokens::CONTROLLER,
    load_balancer::CONTROLLER,
    account_tokens::CONTROLLER,
    volumes::binder::CONTROLLER,
    volumes::ephemeral::CONTROLLER,
    volumes::expand::CONTROLLER,
    volumes::attach::CONTROLLER,
    volumes::local::CONTROLLER,
    volumes::snapshots::CONTROLLER,
    resource_claim::CONTROLLER,
    device_taints::CONTROLLER,
    admission_policies::CONTROLLER,
    storage_migration::CONTROLLER,
    storage_versions::CONTROLLER,
    certificates::POD_REQUESTS,
    trust_bundle::CONTROLLER,
    selinux_warnings::CONTROLLER,
];

/// The identities with which controllers call the API server.
pub struct Identities {
    /// Reads for all controllers.
    pub reader: Client,
    /// Gives the client of a service account in `kube-system`.
    pub account: Box<dyn Fn(&'static str) -> Client + Send + Sync>,
}

/// One identity for everything, as a kubeconfig gives it.
impl From<Client> for Identities {
    fn from(client: Client) -> Self {
        Self {
            reader: client.clone(),
            account: Box::new(move |_| client.clone()),
        }
    }
}

/// Reason why the controllers ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration names a controller that does not exist.
    #[error("no controller is called `{name}`; there are: {known}")]
    UnknownController {
        /// The requested name.
        name: String,
        /// All names.
        known: String,
    },
    /// More than one pod range of an IP version.
    #[error("pod ranges must be one, or one of each IP version: {0}")]
    PodRanges(String),
    /// The pod ranges cannot be divided among nodes.
    #[error(
        "pod range `{range}` cannot be divided into ranges of /{size} for nodes; give a node mask between {from} and {to}"
    )]
    NodeMask {
        /// The whole range.
        range: IpNet,
        /// The size asked for.
        size: u8,
        /// The least that would do.
        from: u8,
        /// The most.
        to: u8,
    },
    /// A controller ended without a shutdown.
    #[error("controller `{name}` ended unexpectedly")]
    Ended {
        /// Its name.
        name: &'static str,
    },
}

/// Runs the selected controllers until `shutdown`. Work in progress is finished before
/// this returns.
///
/// With [`Config::election`], they run while this process leads. Losing the lease stops
/// them, and they start with fresh caches when it leads again.
///
/// # Errors
/// An unusable configuration, immediately; or a controller that fails irrecoverably.
pub async fn run(
    identities: impl Into<Identities>,
    config: Config,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let identities = identities.into();
    config.selected()?;
    config.check()?;
    let Some(election) = config.election.clone() else {
        return run_until(&identities, config, shutdown).await;
    };
    let client = identities.reader.clone().named("leader-election");
    let led = election
        .lead_repeatedly(&client, &shutdown, |stop| {
            run_until(&identities, config.clone(), stop)
        })
        .await;
    led.unwrap_or(Ok(()))
}

/// Runs the selected controllers once, until `shutdown`.
async fn run_until(
    identities: &Identities,
    config: Config,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let selected = config.selected()?;
    let shutdown = shutdown.child_token();
    let context = Context::new(identities.reader.clone(), config, shutdown.clone());
    let mut controllers: JoinSet<&'static str> = JoinSet::new();
    for controller in selected {
        let own = match controller.service_account {
            "" => context.client.clone(),
            account => (identities.account)(account),
        };
        let work = (controller.start)(&context.with_client(own));
        let name = controller.name;
        let task = control_supervise::task(name).until(&shutdown);
        controllers.spawn(task.owned(async move {
            work.await;
            name
        }));
    }
    let mut pumps = JoinSet::new();
    context.launch(&mut pumps);
    tracing::info!(controllers = controllers.len(), "controllers started");
    let mut result = Ok(());
    while let Some(ended) = controllers.join_next().await {
        match ended {
            Ok(name) if !shutdown.is_cancelled() => {
                result = Err(Error::Ended { name });
                shutdown.cancel();
            }
            Ok(_) => {}
            Err(error) if error.is_panic() => {
                shutdown.cancel();
                std::panic::resume_unwind(error.into_panic());
            }
            Err(_) => {}
        }
    }
    shutdown.cancel();
    while pumps.join_next().await.is_some() {}
    result
}

/// The longest delay before a failed key is retried. It is shorter than a work queue's
/// default, because nothing else would wake the key.
const LONGEST_DELAY: Duration = Duration::from_secs(30);
