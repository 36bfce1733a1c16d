//! `orlop controllers`: the controllers against any API server.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::{ArgAction, Args};
use control_access::Tokens;
use control_controllers::{Config, Identities, TokenSigner};
use control_metrics::Page;
use control_pki::{Authority, ServiceAccountKey};
use ipnet::IpNet;

use crate::{
    account_clients, component, election, error::Error, kubeconfig::Kubeconfig, run, token_keys,
    values,
};

/// Controllers and their settings.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    _file: crate::config::ConfigFile,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    /// Names of controllers; `*` for all, `-NAME` for all but one.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,
    /// The pods' ranges, divided among nodes: at most one of each IP version.
    #[arg(long, value_delimiter = ',')]
    cluster_cidr: Vec<IpNet>,
    /// Give nodes ranges out of --cluster-cidr.
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    allocate_node_cidrs: bool,
    /// Prefix length of a node's IPv4 range.
    #[arg(
        long,
        value_name = "LENGTH",
        default_value_t = 24,
        alias = "node-cidr-mask-size"
    )]
    node_cidr_mask_size_ipv4: u8,
    /// Prefix length of a node's IPv6 range.
    #[arg(long, value_name = "LENGTH", default_value_t = 64)]
    node_cidr_mask_size_ipv6: u8,
    /// Ranges of Service addresses; no kubelet gets a serving certificate for them.
    #[arg(long, value_delimiter = ',')]
    service_cluster_ip_range: Vec<IpNet>,
    /// Leave Services of type LoadBalancer that name no loadBalancerClass to others.
    #[arg(long)]
    load_balancer_class_only: bool,
    /// `external`: a cloud controller manager gives out load balancer addresses and makes
    /// routes.
    #[arg(long, value_name = "PROVIDER", value_parser = ["", "external"])]
    cloud_provider: Option<String>,
    /// PEM file of the authority that pods trust, published in every namespace.
    #[arg(long, value_name = "FILE")]
    root_ca_file: Option<PathBuf>,
    /// PEM file of the authority that signs approved CertificateSigningRequests.
    #[arg(long, value_name = "FILE", requires = "cluster_signing_key_file")]
    cluster_signing_cert_file: Option<PathBuf>,
    /// PEM file of its key.
    #[arg(long, value_name = "FILE", requires = "cluster_signing_cert_file")]
    cluster_signing_key_file: Option<PathBuf>,
    /// The longest life of certificates that it signs.
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = values::duration)]
    cluster_signing_duration: Duration,
    /// PEM file of the key that signs the tokens in Secrets of service accounts.
    #[arg(long, value_name = "FILE")]
    service_account_private_key_file: Option<PathBuf>,
    /// Use a separate service account for each controller, rather than the kubeconfig's
    /// user for all.
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = false,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    use_service_account_credentials: bool,
    /// How long a silent node stays Ready.
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = values::duration)]
    node_monitor_grace_period: Duration,
    /// How long a new node may be silent at first.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = values::duration)]
    node_startup_grace_period: Duration,
    /// How often nodes are looked at.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = values::duration)]
    node_monitor_period: Duration,
    /// How many ended pods may stay; 0 for any number.
    #[arg(long, value_name = "COUNT", default_value_t = 12_500)]
    terminated_pod_gc_threshold: usize,
    /// Taken for the sake of manifests of kube-controller-manager; nothing uses the name.
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    #[command(flatten)]
    election: election::Options,
    /// Port of health and metrics; 0 for none.
    #[arg(long, value_name = "PORT", default_value_t = 10257)]
    secure_port: u16,
    #[command(flatten)]
    port: component::Options,
}

/// Runs until a signal.
///
/// # Errors
/// An unusable kubeconfig, configuration or file; a controller that ended.
pub async fn run(options: Options) -> Result<(), Error> {
    let root_ca_pem = options.root_ca_file.as_deref().map(read).transpose()?;
    let authority = match options
        .cluster_signing_cert_file
        .as_deref()
        .zip(options.cluster_signing_key_file.as_deref())
    {
        Some((certificate, key)) => {
            let read = Authority::from_files(certificate, key);
            Some(Arc::new(read.map_err(Error::Pki)?))
        }
        None => None,
    };
    let token_signer = match &options.service_account_private_key_file {
        Some(path) => Some(signer(path)?),
        None => None,
    };
    let client = options
        .kubeconfig
        .client_or(&[], "kube-controller-manager")
        .await?;
    crate::servers::follow(&client);
    let shutdown = run::shutdown_on_signals()?;
    let port = options
        .port
        .bind(options.secure_port, &client, write_metrics)
        .await?;
    let identity = super::scheduler::own_identity();
    let election = options
        .election
        .election(election::CONTROLLERS, &identity)?;
    let config = Config {
        controllers: options.controllers,
        cluster_cidrs: if options.allocate_node_cidrs {
            options.cluster_cidr
        } else {
            Vec::new()
        },
        node_mask_ipv4: options.node_cidr_mask_size_ipv4,
        node_mask_ipv6: options.node_cidr_mask_size_ipv6,
        root_ca_pem,
        token_signer,
        kubelet_authority: authority.clone(),
        authority,
        service_cidrs: options.service_cluster_ip_range,
        certificate_life: options.cluster_signing_duration,
        node_grace_period: options.node_monitor_grace_period,
        node_startup_grace_period: options.node_startup_grace_period,
        node_monitor_period: options.node_monitor_period,
        terminated_pod_threshold: options.terminated_pod_gc_threshold,
        default_load_balancer: !options.load_balancer_class_only,
        external_cloud: options.cloud_provider.as_deref() == Some("external"),
        election,
        ..Config::default()
    };
    config.selected().map_err(Error::Controllers)?;
    config.check().map_err(Error::Controllers)?;
    component::serve(port, &shutdown);
    let identities = if options.use_service_account_credentials {
        let anonymous = options.kubeconfig.anonymous_or(&[]).await?;
        let accounts = account_clients::open(&client, &anonymous, &shutdown).await;
        let Some(account) = accounts else {
            return Ok(());
        };
        Identities {
            reader: client,
            account,
        }
    } else {
        client.clone().updating_through(&client).into()
    };
    control_controllers::run(identities, config, shutdown)
        .await
        .map_err(Error::Controllers)
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })
}

/// Signs the tokens in Secrets with the key in a file.
fn signer(path: &Path) -> Result<TokenSigner, Error> {
    let key = ServiceAccountKey::load(path).map_err(Error::Pki)?;
    Ok(token_keys::legacy_signer(Tokens::new(Arc::new(key))))
}

/// Writes the controllers' metrics.
fn write_metrics(page: &mut Page) {
    let mut text = String::new();
    control_client::metrics::write(&mut text);
    page.open_metrics(&text);
    control_apiserver::metrics::write_version(page);
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn the_options_of_kubeadms_manifest_are_taken() {
        let line = Line::try_parse_from([
            "controllers",
            "--allocate-node-cidrs=true",
            "--authentication-kubeconfig=/etc/kubernetes/controller-manager.conf",
            "--authorization-kubeconfig=/etc/kubernetes/controller-manager.conf",
            "--bind-address=127.0.0.1",
            "--client-ca-file=/etc/kubernetes/pki/ca.crt",
            "--cluster-cidr=10.244.0.0/16",
            "--cluster-name=kubernetes",
            "--cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt",
            "--cluster-signing-key-file=/etc/kubernetes/pki/ca.key",
            "--controllers=*,bootstrapsigner,tokencleaner",
            "--kubeconfig=/etc/kubernetes/controller-manager.conf",
            "--leader-elect=true",
            "--requestheader-client-ca-file=/etc/kubernetes/pki/front-proxy-ca.crt",
            "--root-ca-file=/etc/kubernetes/pki/ca.crt",
            "--service-account-private-key-file=/etc/kubernetes/pki/sa.key",
            "--service-cluster-ip-range=10.96.0.0/12",
            "--use-service-account-credentials=true",
        ]);
        let options = line.unwrap_or_else(|error| panic!("{error}")).options;
        assert!(options.use_service_account_credentials);
        assert_eq!(options.secure_port, 10257);
        let config = Config {
            controllers: options.controllers,
            ..Config::default()
        };
        assert!(config.selected().is_ok());
    }
}
