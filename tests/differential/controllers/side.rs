//! One run: an API server, a kubelet that only says that pods run, and the controllers, stock
//! or ours.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use control_client::Client;
use control_controllers::Config;
use tokio_util::sync::CancellationToken;

use super::drive::{Record, run_all};
use super::kubelet;
use super::mirror::Mirror;
use super::probe::Probe;
use super::scenario::Case;
use crate::Error;
use crate::process::{ApiServer, Running};

/// Controllers that have nothing to compare themselves with, or whose work is not that of
/// one case.
const LEFT_OUT: &str = "*,-node-ipam-controller,-certificatesigningrequest-signing-controller,\
-certificatesigningrequest-approving-controller,-bootstrap-signer-controller,\
-token-cleaner-controller";

/// Who runs the controllers.
pub enum Controllers<'a> {
    /// A stock kube-controller-manager.
    Stock(&'a Path),
    /// Ours, in this process.
    Ours,
}

/// Runs all cases with these controllers on an API server of their own.
pub async fn run(
    apiserver: &Path,
    controllers: Controllers<'_>,
    cases: Arc<Vec<Case>>,
    at_once: usize,
) -> Result<Vec<Result<Record, Error>>, Error> {
    let server = ApiServer::start(apiserver)?;
    let client = Client::from_kubeconfig(server.kubeconfig()).await?;
    let (sender, pods) = tokio::sync::mpsc::unbounded_channel();
    let mirror = Arc::new(Mirror::start(&client, sender).await);
    let kubelets = tokio::spawn(kubelet::run(client.clone(), pods));
    let shutdown = CancellationToken::new();
    let (mut process, mut task) = (None, None);
    match controllers {
        Controllers::Stock(program) => process = Some(stock(program, &server)?),
        Controllers::Ours => {
            let authority = server.folder().join("pki/ca.crt");
            let root_ca_pem = std::fs::read_to_string(&authority).map_err(|source| Error::Io {
                what: "reading the authority's certificate",
                source,
            })?;
            let mut list: Vec<String> = LEFT_OUT.split(',').map(ToOwned::to_owned).collect();
            list.push("-load-balancer-controller".to_owned());
            let config = Config {
                controllers: list,
                root_ca_pem: Some(root_ca_pem),
                ..Config::default()
            };
            let own = Client::from_kubeconfig(server.kubeconfig()).await?;
            let run = control_controllers::run(
                own.named("kube-controller-manager"),
                config,
                shutdown.clone(),
            );
            task = Some(tokio::spawn(run));
        }
    }
    let probe = Probe::default();
    let probing = tokio::spawn(probe.clone().run(client.clone()));
    let records = run_all(client, mirror, probe, cases, at_once).await;
    probing.abort();
    shutdown.cancel();
    if let Some(task) = task {
        let ended = task.await;
        let ended = ended.map_err(|panic| Error::Program(format!("our controllers: {panic}")))?;
        ended.map_err(|error| Error::Program(format!("our controllers: {error}")))?;
    }
    if let Some(process) = &mut process
        && process.has_ended()
    {
        let log = std::fs::read_to_string(server.folder().join(LOG)).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(5).collect();
        return Err(Error::Program(format!(
            "kube-controller-manager ended: {}",
            last.join("\n")
        )));
    }
    kubelets.abort();
    Ok(records)
}

const LOG: &str = "controllers.log";

fn stock(program: &Path, server: &ApiServer) -> Result<Running, Error> {
    let failed = |what: &'static str| move |source| Error::Io { what, source };
    let log = File::create(server.folder().join(LOG)).map_err(failed("creating a log"))?;
    let again = log.try_clone().map_err(failed("creating a log"))?;
    let child = Command::new(program)
        .arg("--kubeconfig")
        .arg(server.kubeconfig())
        .arg(format!("--controllers={LEFT_OUT}"))
        .args(["--leader-elect=false", "--secure-port=0"])
        .args(["--kube-api-qps=2000", "--kube-api-burst=4000", "-v=2"])
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(again)
        .spawn()
        .map_err(failed("starting kube-controller-manager"))?;
    Ok(Running::new(child))
}
