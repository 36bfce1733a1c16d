//! Whether a server or a node is at work, and what runs there.

use std::time::{Duration, Instant, SystemTime};

use control_client::{Client, resources};
use jiff::Timestamp;
use serde_json::Value;

use super::Machine;
use crate::error::Error;
use crate::kubeconfig::Kubeconfig;
use crate::server_record::{self, ServerRecord};
use crate::status::{Answer, cluster};

/// How often it is looked whether something is so.
pub const LOOK: Duration = Duration::from_millis(250);

/// Asks until the answer is yes.
///
/// # Errors
/// [`Error::Program`] with the last reason, in the name of `command`.
pub async fn wait_until<F: Future<Output = Result<(), String>>>(
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
            Err(why) => last = why,
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
) -> Result<(), String> {
    let record = ServerRecord::read(&machine.data_dir).ok_or("no server has started")?;
    if server_started(machine) == before {
        return Err("the server was not restarted".to_owned());
    }
    if !record.is_running() {
        return Err("the server does not run".to_owned());
    }
    // Its certificates may be new.
    let files = machine.client_files();
    let client = kubeconfig.client_or(&files, "orlop-upgrade").await;
    let client = client.map_err(|error| crate::run::all_causes(&error))?;
    match cluster::text(&client, "/readyz").await {
        Answer::Known(text) if text.trim() == "ok" => Ok(()),
        Answer::Known(text) => Err(text.lines().next().unwrap_or_default().to_owned()),
        other => Err(other.why_unknown().to_owned()),
    }
}

/// Returns whether a node is ready and its agent reported since a time; otherwise why
/// not.
pub async fn node(client: &Client, name: &str, since: Timestamp) -> Result<(), String> {
    let cause = |error: control_client::Error| error.to_string();
    let node: Value = client
        .get(&resources::NODES, "", name)
        .await
        .map_err(cause)?;
    let lease: Value = client
        .get(&resources::LEASES, "kube-node-lease", name)
        .await
        .map_err(cause)?;
    let renewed = lease["spec"]["renewTime"].as_str().unwrap_or_default();
    if renewed
        .parse::<Timestamp>()
        .map_or(true, |renewed| renewed < since)
    {
        return Err(format!(
            "the lease of node {name} was not renewed since the restart"
        ));
    }
    let conditions = node["status"]["conditions"].as_array();
    let is_ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    if is_ready {
        Ok(())
    } else {
        Err(format!("node {name} is not ready"))
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
