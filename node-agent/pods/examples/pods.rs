//! A node that runs pods, and nothing else: for trying this crate against any
//! API server and container runtime.
//!
//! `pods KUBECONFIG NODE NODE-IP RUNTIME-SOCKET ROOT CGROUP [CERT KEY CLIENT-CA]`
//!
//! `KUBELET_CONFIG` may name a file with the kubelet's configuration.

use std::path::PathBuf;

use control_client::Client;
use node_agent_informers::{Informers, NodeScope};
use node_agent_kubelet_config::Settings;
use node_agent_kubelet_server::Tls;
use node_agent_pods::AgentOptions;
use tokio_util::sync::CancellationToken;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let filter = std::env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (required, tls) = args
        .split_at_checked(6)
        .ok_or("six arguments are needed, see the source")?;
    let [kubeconfig, name, ip, socket, root, cgroup] = required else {
        return Err("six arguments are needed, see the source".into());
    };
    let serving = match tls {
        [cert, key, ca] => Some(Tls::new(
            &std::fs::read_to_string(cert)?,
            &std::fs::read_to_string(key)?,
            &std::fs::read_to_string(ca)?,
            &["kube-apiserver-kubelet-client"],
        )?),
        _ => None,
    };
    let settings = match std::env::var_os("KUBELET_CONFIG") {
        Some(file) => Settings::parse(&std::fs::read_to_string(file)?)?,
        None => Settings::default(),
    };
    let client = Client::from_kubeconfig(kubeconfig).await?;
    let options = AgentOptions {
        informers: Informers::new(client.clone(), name, NodeScope::Own),
        client,
        node_name: name.clone(),
        node_ips: vec![ip.parse()?],
        external_cloud: None,
        labels: Vec::new(),
        runtime_endpoint: socket.clone(),
        root: PathBuf::from(root),
        log_root: PathBuf::from("/var/log/pods"),
        cluster_dns: vec!["10.96.0.10".parse()?],
        cluster_domain: "cluster.local".to_owned(),
        resolv_conf: PathBuf::from("/etc/resolv.conf"),
        cgroup: cgroup.clone(),
        most_pods: 110,
        providers: None,
        settings,
        listen: format!("{ip}:10250").parse()?,
        serving,
        further: None,
        further_metrics: None,
        pulse: std::sync::Arc::default(),
        grown: node_agent_pods::GrownClaims::default(),
    };
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        stop.cancel();
    });
    node_agent_pods::run(options, shutdown).await?;
    Ok(())
}
