//! `orlop apiserver`: the API server alone, with its embedded store.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use arc_swap::ArcSwap;
use clap::Args;
use control_access::Tokens;
use control_apiserver::{ApiServer, Config, Kubelets, access::ClusterAccess};
use control_pki::{
    ClientTrust, Cluster, SealingKey, ServingIdentity, kubeconfig, server_config, write_private,
};
use control_store::embedded::{Embedded, Options as StoreOptions};
use ipnet::IpNet;

use crate::{error::Error, listen, run};

/// Where it keeps its state and listens.
#[derive(Args)]
pub struct Options {
    /// Folder of the store, the authorities and the keys; made if missing.
    #[arg(long)]
    data_dir: PathBuf,
    /// Address to listen on.
    #[arg(long, default_value = "0.0.0.0")]
    bind_address: IpAddr,
    /// Port to listen on.
    #[arg(long, default_value_t = 6443)]
    secure_port: u16,
    /// Where other hosts reach this server; the bind address unless given.
    #[arg(long)]
    advertise_address: Option<IpAddr>,
    /// Ranges of Service addresses: one, or one of each IP version, the primary first.
    #[arg(long, value_delimiter = ',', default_value = "10.96.0.0/16")]
    service_cluster_ip_range: Vec<IpNet>,
    /// Write the administrator's kubeconfig here once the server is ready.
    #[arg(long)]
    write_kubeconfig: Option<PathBuf>,
}

/// Serves until a signal, then lets open requests finish.
///
/// # Errors
/// What cannot be used: folder, store, certificates, address.
pub async fn run(options: Options) -> Result<(), Error> {
    let dir = &options.data_dir;
    std::fs::create_dir_all(dir).map_err(|source| Error::File {
        path: dir.clone(),
        source,
    })?;
    let address = SocketAddr::new(options.bind_address, options.secure_port);
    let listener = match listen::inherited()? {
        Some(socket) => socket,
        None => listen::open(address).await?,
    };
    let pki = Cluster::load_or_create(dir.join("pki")).map_err(Error::Pki)?;
    let trust = ClientTrust::new(pki.ca.certificate_pem()).map_err(Error::Pki)?;
    let advertise = options.advertise_address.unwrap_or(options.bind_address);
    let serving = pki
        .serving(names(&options, advertise))
        .map_err(Error::Pki)?;
    let identity =
        ServingIdentity::new(&serving, &dir.join("pki/apiserver.crt")).map_err(Error::Pki)?;
    let tls = server_config(identity, &[&trust]).map_err(Error::Pki)?;
    let sealing =
        SealingKey::load_or_create(&dir.join("pki/encryption.key")).map_err(Error::Pki)?;
    let store =
        Embedded::open(dir.join("store.redb"), StoreOptions::default()).map_err(Error::Store)?;
    let administrator = pki.administrator().map_err(Error::Pki)?;
    let authority = pki.ca.certificate_pem().to_owned();
    let kubelets = pki
        .kubelet_client()
        .and_then(|own| Kubelets::new(&authority, &own))
        .map_err(Error::Pki)?;
    let server = ApiServer::new(Config {
        store: Arc::new(store),
        access: Arc::new(ClusterAccess::new(
            ClientTrust::new(pki.ca.certificate_pem()).map_err(Error::Pki)?,
            Tokens::new(Arc::new(pki.service_account_key)),
        )),
        sealing_key: Some(Arc::new(sealing)),
        advertise_address: advertise,
        advertise_port: options.secure_port,
        service_cidrs: options.service_cluster_ip_range.clone(),
        node_ports: (30_000, 32_767),
        kubelets: Some(kubelets),
    })
    .await
    .map_err(Error::ApiServer)?;
    if let Some(path) = &options.write_kubeconfig {
        let host = if options.bind_address.is_unspecified() {
            IpAddr::from([127, 0, 0, 1])
        } else {
            options.bind_address
        };
        let url = format!("https://{}", SocketAddr::new(host, options.secure_port));
        let text = kubeconfig(
            &url,
            &authority,
            &administrator,
            "orlop",
            "kubernetes-admin",
        );
        write_private(path, text.as_bytes()).map_err(Error::Pki)?;
    }
    tracing::info!(%address, "the API server is ready");
    let shutdown = run::shutdown_on_signals()?;
    server
        .serve(listener, Arc::new(ArcSwap::from_pointee(tls)), shutdown)
        .await;
    Ok(())
}

/// The names and addresses by which clients may call the server: its own, those
/// of the `kubernetes` Service, and loopback.
fn names(options: &Options, advertise: IpAddr) -> Vec<String> {
    let mut names: Vec<String> = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "localhost",
        "127.0.0.1",
        "::1",
    ]
    .map(str::to_owned)
    .into();
    for address in [advertise, options.bind_address] {
        if !address.is_unspecified() {
            names.push(address.to_string());
        }
    }
    names.extend(
        options
            .service_cluster_ip_range
            .iter()
            .filter_map(|range| range.hosts().next())
            .map(|address| address.to_string()),
    );
    names.sort();
    names.dedup();
    names
}
