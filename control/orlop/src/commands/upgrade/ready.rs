//! Whether a server or a node is at work, and what runs there.

use std::time::{Duration, Instant, SystemTime};

use control_client::{Client, resources};
use jiff::Timestamp;
use serde_json::Value;

use super::Machine;
use crate::error::Error;
use crate::kubeconfig::Kubeconfig;
use crate::run::all_causes;
use crate::server_record::{self, ServerRecord};
use crate::status::{Answer, cluster};

/// How often it is looked whether something is so.
pub const LOOK: Duration = Duration::from_millis(250);

/// Why a server or node is not at work.
#[derive(Debug, thiserror::Error)]
pub enum ReadinessError {
    /// No server ever ran here.
    #[error("no server has started")]
    NoServer,
    /// The old server may still run.
    #[error("the server was not restarted")]
    NotRestarted,
    /// The server ended.
    #[error("the server does not run")]
    NotRunning,
    /// The server cannot be asked.
    #[error(transparent)]
    Kubeconfig(#[from] Error),
    /// The server is not ready, or does not say.
    #[error("/readyz: {0}")]
    Readyz(String),
    /// The API server refuses a query or does not answer.
    #[error(transparent)]
    Api(#[from] control_client::Error),
    /// The agent has not reported yet.
    #[error("the lease of node {0} was not renewed since the restart")]
    Lease(String),
    /// The Node has no condition `Ready`.
    #[error("node {0} is not ready")]
    Node(String),
}

/// Asks until the answer is yes.
///
/// # Errors
/// [`Error::Program`] with the last reason, in the name of `command`.
pub async fn wait_until<F: Future<Output = Result<(), ReadinessError>>>(
    command: &str,
    patience: Duration,
    mut ask: impl FnMut() -> F,
) -> Result<(), Error> {
    let began = Instant::now();
    let mut last = "it was not asked".to_owned();
    while began.elapsed() < patience {
        tokio::time::sleep(LOOK).await;
        match ask().await {
            Ok(()) => return Ok(()),
            Err(why) => last = all_causes(&why),
        }
    }
    Err(Error::Program {
        command: command.to_owned(),
        detail: format!("not ready after {patience:?}: {last}"),
    })
}

/// Returns when the server of this machine started last.
pub fn server_started(machine: &Machine) -> Option<SystemTime> {
    let record = std::fs::metadata(machine.data_dir.join(server_record::FILE));
    record.and_then(|file| file.modified()).ok()
}

/// Returns whether the server of this machine is ready; otherwise why not. A server that still
/// runs since `before` does not count: the restart command may return before the old one ends.
pub async fn server(
    machine: &Machine,
    kubeconfig: &Kubeconfig,
    before: Option<SystemTime>,
) -> Result<(), ReadinessError> {
    let record = ServerRecord::read(&machine.data_dir).ok_or(ReadinessError::NoServer)?;
    if server_started(machine) == before {
        return Err(ReadinessError::NotRestarted);
    }
    if !record.is_running() {
        return Err(ReadinessError::NotRunning);
    }
    // Its certificates may be new.
    let files = machine.client_files();
    let client = kubeconfig.client_or(&files, "orlop-upgrade").await?;
    match cluster::text(&client, "/readyz").await {
        Answer::Known(text) if text.trim() == "ok" => Ok(()),
        Answer::Known(text) => {
            let first = text.lines().next().unwrap_or_default();
            Err(ReadinessError::Readyz(first.to_owned()))
        }
        other => Err(ReadinessError::Readyz(other.why_unknown().to_owned())),
    }
}

/// Returns whether a node is ready and its agent reported since a time; otherwise why
/// not.
pub async fn node(client: &Client, name: &str, since: Timestamp) -> Result<(), ReadinessError> {
    let node: Value = client.get(&resources::NODES, "", name).await?;
    let lease: Value = client
        .get(&resources::LEASES, "kube-node-lease", name)
        .await?;
    let renewed = lease["spec"]["renewTime"].as_str().unwrap_or_default();
    if renewed
        .parse::<Timestamp>()
        .map_or(true, |renewed| renewed < since)
    {
        return Err(ReadinessError::Lease(name.to_owned()));
    }
    let conditions = node["status"]["conditions"].as_array();
    let is_ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    if is_ready {
        Ok(())
    } else {
        Err(ReadinessError::Node(name.to_owned()))
    }
}

/// The containers that run on a node: their identities and how often they were restarted.
pub async fn containers(client: &Client, node: &str) -> Result<Vec<(String, i64)>, Error> {
    let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
    let list: Value = client
        .request(http::Method::GET, &path, None::<&()>)
        .await
        .map_err(Error::Client)?;
    let mut found = Vec::new();
    for pod in list["items"].as_array().into_iter().flatten() {
        for container in pod["status"]["containerStatuses"]
            .as_array()
            .into_iter()
            .flatten()
        {
            if container["state"]["running"].is_object() {
                let id = container["containerID"].as_str().unwrap_or_default();
                let restarts = container["restartCount"].as_i64().unwrap_or_default();
                found.push((id.to_owned(), restarts));
            }
        }
    }
    Ok(found)
}
