//! `orlop server`: the control plane in one process. Scheduler and controllers
//! call the API server without a network between, each under the identity that
//! the bootstrap policy gives it rights for.

use std::net::IpAddr;

use clap::Args;
use control_access::User;
use control_client::{Client, Discard, resources};
use control_controllers::Identities;
use ipnet::IpNet;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{api, backups, election, error::Error, notify, run};

/// Addresses of the cluster.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub api: api::Options,
    /// The pods' ranges, divided among nodes: at most one of each IP version.
    #[arg(long, value_delimiter = ',', default_value = "10.244.0.0/16")]
    pub cluster_cidr: Vec<IpNet>,
    /// Address of the DNS Service; the tenth of the first Service range unless given.
    #[arg(long)]
    pub cluster_dns: Option<IpAddr>,
    #[command(flatten)]
    pub load_balancer: LoadBalancer,
    /// KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) of the scheduler.
    #[arg(long, value_name = "FILE")]
    pub scheduler_config: Option<std::path::PathBuf>,
    #[command(flatten)]
    pub cloud: Cloud,
    #[command(flatten)]
    pub local_volumes: ServerVolumes,
    #[command(flatten)]
    pub election: election::Options,
    #[command(flatten)]
    pub backups: backups::ScheduledBackup,
}

/// Load balancer addresses on bare metal.
#[derive(Args, Clone, Copy, Default)]
pub struct LoadBalancer {
    /// Do not define the kinds that assign load balancer addresses (IPPool and others).
    #[arg(long)]
    no_load_balancer: bool,
    /// Leave Services of type LoadBalancer that name no loadBalancerClass to others.
    #[arg(long)]
    load_balancer_class_only: bool,
}

/// Volumes of the nodes' own disks.
#[derive(Args, Clone, Copy, Default)]
pub struct ServerVolumes {
    /// Do not define the driver csi.orlop.dev and the StorageClass `local`.
    #[arg(long)]
    pub no_local_volumes: bool,
}

/// The border of an external cloud controller manager.
#[derive(Args, Clone, Default)]
pub struct Cloud {
    /// `external`: a cloud controller manager gives out load balancer addresses and makes
    /// routes.
    #[arg(long, value_name = "PROVIDER", value_parser = ["", "external"])]
    cloud_provider: Option<String>,
}

impl Cloud {
    fn is_external(&self) -> bool {
        self.cloud_provider.as_deref() == Some("external")
    }
}

/// Serves until a signal, then lets open requests finish.
///
/// # Errors
/// What cannot be used: folder, store, certificates, address; a part that ended.
pub async fn run(options: Options) -> Result<(), Error> {
    let shutdown = run::shutdown_on_signals()?;
    let more = |api: &api::Api, until: CancellationToken| {
        let client = api.client(User::named("system:apiserver", ["system:masters"]));
        async move {
            notify::when_ready(&client, &until).await;
            Ok(())
        }
    };
    Box::pin(serve_with(options, more, shutdown)).await
}

/// Serves until `shutdown`.
///
/// # Errors
/// As [`run`].
#[cfg(test)]
pub async fn serve(options: Options, shutdown: CancellationToken) -> Result<(), Error> {
    Box::pin(serve_with(options, |_, _| async { Ok(()) }, shutdown)).await
}

/// Serves until `shutdown`, with one part more in the same process: `more`
/// makes it once the API server is there, and ends it when the token that it is
/// given says so.
///
/// At `shutdown` the server says at once that it is not ready. Clients over the
/// network are let go while controllers, scheduler and `more` still work; these end
/// when nobody else asks for anything, and the server outlives them, so that they
/// write their last words to it.
///
/// # Errors
/// As [`fn@run`], or what the part ended with.
pub async fn serve_with<F>(
    options: Options,
    more: impl FnOnce(&api::Api, CancellationToken) -> F,
    shutdown: CancellationToken,
) -> Result<(), Error>
where
    F: Future<Output = Result<(), Error>>,
{
    control_controllers::Config {
        cluster_cidrs: options.cluster_cidr.clone(),
        ..control_controllers::Config::default()
    }
    .check()
    .map_err(Error::Controllers)?;
    options.backups.check()?;
    let features = super::scheduler::features(options.api.requests.gates()?);
    let mut scheduler = match &options.scheduler_config {
        Some(path) => super::scheduler::configured(path, features, false, None)?,
        None => control_scheduler::Config::for_names(["default-scheduler".to_owned()], features),
    };
    let identity = if options.api.is_shared() {
        super::scheduler::own_identity()
    } else {
        election::identity_of_store()
    };
    let times = options.api.election_times();
    // Other servers have schedulers, too, and a stock one may stand by.
    scheduler.election = options
        .election
        .election_within(times, election::SCHEDULER, &identity)?;
    let election = options
        .election
        .election_within(times, election::CONTROLLERS, &identity)?;
    let api = Box::pin(options.api.open(false)).await?;
    // Cancelled for the parts when the clients of the network are disconnected.
    let parting = CancellationToken::new();
    let more = more(&api, parting.clone());
    let reader = api.client(component("kube-controller-manager"));
    let dns = options
        .cluster_dns
        .or_else(|| tenth(options.api.service_cluster_ip_range.first()?));
    let identities = {
        let accounts: Vec<_> = control_controllers::CONTROLLERS
            .iter()
            .map(|controller| controller.service_account)
            .filter(|account| !account.is_empty())
            .map(|name| (name, api.client(account(name)).named(name)))
            .collect();
        Identities {
            reader: reader.clone(),
            account: Box::new(move |name| {
                accounts
                    .iter()
                    .find(|(account, _)| *account == name)
                    .map_or_else(|| reader.clone(), |(_, client)| client.clone())
            }),
        }
    };
    let controllers = control_controllers::run(
        identities,
        control_controllers::Config {
            cluster_cidrs: options.cluster_cidr,
            root_ca_pem: Some(api.authority.clone()),
            authority: Some(api.signer.clone()),
            kubelet_authority: Some(api.kubelet_signer.clone()),
            api_server_names: api.names.clone(),
            service_cidrs: options.api.service_cluster_ip_range.clone(),
            token_signer: Some(api.token_signer()),
            default_load_balancer: !options.load_balancer.load_balancer_class_only,
            external_cloud: options.cloud.is_external(),
            election,
            ..control_controllers::Config::default()
        },
        parting.clone(),
    );
    let scheduler = control_scheduler::run(
        api.client(component("kube-scheduler")),
        scheduler,
        parting.clone(),
    );
    let addons = dns_service(
        api.client(User::named("system:apiserver", ["system:masters"])),
        dns,
    );
    let definitions = api.client(User::named("system:apiserver", ["system:masters"]));
    let definitions = async move {
        if !options.load_balancer.no_load_balancer
            && let Err(error) = super::load_balancer::define(&definitions).await
        {
            // Services without such addresses work all the same.
            tracing::warn!(error = %error.chain(), "failed to define the load balancer kinds");
        }
        if !options.local_volumes.no_local_volumes
            && let Err(error) = crate::local_volumes::define(&definitions).await
        {
            // Pods without volumes work all the same.
            tracing::warn!(error = %error.chain(), "failed to define the class of local volumes");
        }
        Ok(())
    };
    let backups = options.backups.run(
        std::sync::Arc::clone(&api.store),
        if options.api.is_shared() {
            "etcd"
        } else {
            "embedded"
        },
        &options.api.data_dir,
        api.client(User::named("system:apiserver", ["system:masters"])),
        &identity,
        parting.clone(),
    );
    // Together they would be too large for the stack of a thread.
    let controllers = Box::pin(controllers);
    let (scheduler, addons) = (Box::pin(scheduler), Box::pin(addons));
    let (definitions, backups, more) = (Box::pin(definitions), Box::pin(backups), Box::pin(more));
    let (serving, parted) = (shutdown.child_token(), CancellationToken::new());
    let here = api.shared();
    let parts = async {
        let parts = async {
            let _controllers = here.components.here("controller-manager");
            let _scheduler = here.components.here("scheduler");
            tokio::try_join!(
                async { controllers.await.map_err(Error::Controllers) },
                async {
                    scheduler.await;
                    Ok(())
                },
                async { addons.await.map_err(Error::Client) },
                definitions,
                backups,
                more,
            )
        };
        let result = parts.await;
        // One that ended of itself takes the others with it.
        serving.cancel();
        parted.cancel();
        result.map(drop)
    };
    let callers = async {
        parting.cancel();
        parted.cancelled().await;
    };
    let (result, ()) = tokio::join!(
        Box::pin(parts),
        Box::pin(api.serve(serving.clone(), callers))
    );
    result
}

fn component(name: &str) -> User {
    User::named(format!("system:{name}"), [])
}

pub(super) fn account(name: &str) -> User {
    User::named(
        format!("system:serviceaccount:kube-system:{name}"),
        [
            "system:serviceaccounts",
            "system:serviceaccounts:kube-system",
        ],
    )
}

fn tenth(range: &IpNet) -> Option<IpAddr> {
    match range {
        IpNet::V4(range) => range.hosts().nth(9).map(IpAddr::V4),
        IpNet::V6(range) => range.hosts().nth(10).map(IpAddr::V6),
    }
}

/// The Service by which pods know the DNS servers. It selects nothing: each
/// node's agent answers at its address itself.
async fn dns_service(client: Client, address: Option<IpAddr>) -> Result<(), control_client::Error> {
    let Some(address) = address else {
        return Ok(());
    };
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kube-dns",
            "namespace": "kube-system",
            "labels": {
                "k8s-app": "kube-dns",
                "kubernetes.io/cluster-service": "true",
                "kubernetes.io/name": "CoreDNS"
            }
        },
        "spec": {
            "clusterIP": address.to_string(),
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53}
            ]
        }
    });
    // Asked first: an address that the Service itself holds is refused as taken.
    let there: Result<Discard, _> = client
        .get(&resources::SERVICES, "kube-system", "kube-dns")
        .await;
    match there {
        Ok(_) => return Ok(()),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    let created: Result<Discard, _> = client
        .create(&resources::SERVICES, "kube-system", &service)
        .await;
    match created {
        Err(error) if !error.is_already_exists() => {
            // The cluster works without it, except for names.
            tracing::warn!(%address, error = %error.chain(), "failed to create the DNS Service");
            Ok(())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
