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

use control_client::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

mod account_tokens;
mod admission_policies;
mod bootstrap_signer;
mod cluster_role;
mod config;
mod context;
mod controller;
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
mod error;
mod expectations;
#[cfg(test)]
mod fake_api;
mod garbage;
mod hash;
mod history;
mod job;
mod key;
mod kind_cache;
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
mod token_signer;

pub use config::Config;
pub use context::Context;
pub use controller::Controller;
pub use error::Error;
pub use key::Key;
pub use kind_cache::KindCache;
pub use token_signer::{Sign, TokenSigner};

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

impl Config {
    /// The controllers that are to run.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub fn selected(&self) -> Result<Vec<&'static Controller>, Error> {
        let known = || CONTROLLERS.iter().map(|controller| controller.name);
        for name in &self.controllers {
            if !names::is_known(name, known()) {
                return Err(Error::UnknownController {
                    name: name.strip_prefix('-').unwrap_or(name).to_owned(),
                    known: known().collect::<Vec<_>>().join(", "),
                });
            }
        }
        Ok(CONTROLLERS
            .iter()
            .filter(|controller| names::selects(&self.controllers, controller.name))
            .collect())
    }
}

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
