//! The API server alone, for trying it with kubectl or the oracle:
//! `apiserver DIR PORT [ADDRESS]` keeps its state in `DIR`, listens on the address
//! (loopback unless given) and writes the administrator's kubeconfig to
//! `DIR/admin.kubeconfig`.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use control_access::Tokens;
use control_apiserver::{ApiServer, Authorities, ClusterAccess, Config, ProxyIdentity};
use control_pki::{ClientTrust, Cluster, ServingIdentity, kubeconfig, server_config};
use control_proxy::Kubelets;
use control_store::embedded::{EmbeddedStore, Options};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().ok_or("usage: apiserver DIR PORT")?);
    let port: u16 = arguments
        .next()
        .ok_or("usage: apiserver DIR PORT")?
        .parse()?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1".to_owned());
    let began = std::time::Instant::now();
    std::fs::create_dir_all(&dir)?;
    let pki = Cluster::load_or_create(dir.join("pki"))?;
    let trust = ClientTrust::new(pki.ca.certificate_pem())?;
    let serving = pki.serving([address.as_str(), "127.0.0.1", "localhost", "10.96.0.1"])?;
    let identity = ServingIdentity::new(&serving, &dir.join("pki/apiserver.crt"))?;
    let tls = server_config(identity, &[&trust])?;
    let admin = kubeconfig(
        &format!("https://{address}:{port}"),
        pki.ca.certificate_pem(),
        &pki.administrator()?,
        "orlop",
        "admin",
    );
    let kubelets = Kubelets::new(pki.kubelet_ca.certificate_pem(), &pki.kubelet_client()?)?;
    let proxy = pki.front_proxy_client()?;
    let store = EmbeddedStore::open(dir.join("store.redb"), Options::default())?;
    let config = Config {
        store: Arc::new(store),
        access: Arc::new(
            ClusterAccess::new(trust, Tokens::new(Arc::new(pki.service_account_key))).publishing(
                Authorities {
                    clients: pki.ca.certificate_pem().to_owned(),
                    front_proxy: Some(pki.front_proxy_ca.certificate_pem().to_owned()),
                },
            ),
        ),
        encryption: control_encryption::Encryption::own(&dir.join("pki/encryption.key"))?,
        advertise_address: "192.0.2.2".parse()?,
        advertise_port: port,
        service_cidrs: vec!["10.96.0.0/16".parse()?],
        node_ports: (30000, 32767),
        kubelets: Some(kubelets),
        proxy_identity: Some(ProxyIdentity::new(proxy)),
        egress: control_proxy::Egress::default(),
        whole: false,
        chain: control_apiserver::chain::Settings::default(),
    };
    let listener = tokio::net::TcpListener::bind((address.as_str(), port)).await?;
    let server = ApiServer::new(config).await?;
    control_pki::write_private(&dir.join("admin.kubeconfig"), admin.as_bytes())?;
    println!("ready after {:?}", began.elapsed());
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        let mut terminated =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok();
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            () = async { match &mut terminated { Some(signal) => { signal.recv().await; } None => std::future::pending().await } } => {}
        }
        stop.cancel();
    });
    server
        .serve([listener], Arc::new(ArcSwap::from_pointee(tls)), shutdown)
        .await;
    Ok(())
}
