//! Runs all controllers against the API server of a kubeconfig, until ctrl-c:
//! `cargo run -p control-controllers --example against -- admin.kubeconfig`.

use control_client::Client;
use control_controllers::{Config, run};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .init();
    let path = std::env::args().nth(1).ok_or("usage: against KUBECONFIG")?;
    let client = Client::from_kubeconfig(&path).await?;
    let config = Config {
        cluster_cidrs: vec!["10.244.0.0/16".parse()?, "fd00:10:244::/56".parse()?],
        root_ca_pem: Some("-----BEGIN CERTIFICATE-----\n".to_owned()),
        ..Config::default()
    };
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        stop.cancel();
    });
    run(client, config, shutdown).await?;
    Ok(())
}
