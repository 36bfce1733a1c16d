//! `orlop upgrade`: another binary for the server or the agent of this machine, checked before,
//! backed up, and taken back if it does not come up.

mod binary;
mod plan;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use control_backup::age::Recipient;
use control_backup::create::{Request, create};
use control_backup::place::Address;
use control_client::{Client, Selection, resources};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::plan::{DeprecatedApi, Facts, Program, Verdict};
use crate::backups::{self, S3};
use crate::error::Error;
use crate::kubeconfig::Kubeconfig;
use crate::server_record::ServerRecord;
use crate::status::{Answer, cluster};
use crate::stores::{self, NamedEtcd, STORE};

pub const EXAMPLES: &str = "\
Examples:
  orlop upgrade plan --to ./orlop-0.2.0
  orlop upgrade apply --to ./orlop-0.2.0 --restart 'systemctl restart orlop-server' \\
    --backup-to /var/backups/orlop --backup-recipient age1…
  orlop upgrade apply --node --to ./orlop-0.2.0 --restart 'systemctl restart orlop-agent'
  orlop upgrade rollback --restart 'systemctl restart orlop-server'";

/// What to do.
#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check what an upgrade would meet: skew, removed APIs, store format, disk, backup. Changes
    /// nothing.
    Plan(Box<Plan>),
    /// Replace the binary of the server on this machine, or with --node that of the agent.
    Apply(Box<Apply>),
    /// Put the binary back that the last upgrade of this machine replaced.
    Rollback(Rollback),
    /// Print what this binary is, as JSON.
    #[command(hide = true)]
    Facts,
}

#[derive(Args)]
struct Plan {
    /// The new binary.
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
}

#[derive(Args)]
struct Machine {
    /// Folder of the server.
    #[arg(long, default_value = "/var/lib/orlop/server")]
    data_dir: PathBuf,
    /// The installed binary; the one that the server or the agent runs unless given.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

#[derive(Args)]
struct Apply {
    /// The new binary.
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    /// Command that restarts the server or the agent, run by `sh -c`.
    #[arg(long, value_name = "COMMAND")]
    restart: String,
    /// Upgrade the agent of this machine, not a server. Pods keep running.
    #[arg(long)]
    node: bool,
    /// Name of the Node; the machine's host name unless given.
    #[arg(long, value_name = "NAME", requires = "node", value_parser = crate::values::node_name)]
    node_name: Option<String>,
    /// How long to wait until the server is ready, or the node, before the old binary is put back.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = crate::values::duration)]
    timeout: Duration,
    /// Where the backup goes that is made first: a folder, or s3://BUCKET/PREFIX.
    #[arg(long, value_name = "PLACE")]
    backup_to: Option<Address>,
    /// Recipient of age, `age1…`, for whom that backup is encrypted. May be repeated.
    #[arg(long, value_name = "RECIPIENT", requires = "backup_to")]
    backup_recipient: Vec<Recipient>,
    /// Do not encrypt that backup.
    #[arg(long, requires = "backup_to")]
    backup_plain: bool,
    /// Make no backup.
    #[arg(long, conflicts_with = "backup_to")]
    no_backup: bool,
    #[command(flatten)]
    s3: S3,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
}

#[derive(Args)]
struct Rollback {
    /// Command that restarts the server or the agent, run by `sh -c`.
    #[arg(long, value_name = "COMMAND")]
    restart: String,
    #[command(flatten)]
    machine: Machine,
}

/// What an upgrade leaves for a rollback, beside the binary that it kept.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    from: Program,
    to: Program,
    backup: Option<String>,
    at: Timestamp,
}

/// The end of the record's name.
const RECORD: &str = "upgrade.json";
/// Space that a restart needs beside the store and the binaries.
const RESERVE: u64 = 64 << 20;
/// How often it is looked whether something is ready.
const LOOK: Duration = Duration::from_millis(250);

/// Does it.
///
/// # Errors
/// What hinders the upgrade; a new binary that does not come up, after the old one was put
/// back.
pub async fn run(options: Options) -> Result<(), Error> {
    match options.command {
        Command::Plan(options) => options.run().await,
        Command::Apply(options) => options.run().await,
        Command::Rollback(options) => options.run().await,
        Command::Facts => {
            println!(
                "{}",
                serde_json::to_string(&this_program()).unwrap_or_default()
            );
            Ok(())
        }
    }
}

fn this_program() -> Program {
    let formats = control_store::embedded::FORMATS;
    Program {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kubernetes: backups::KUBERNETES.to_owned(),
        store_formats: (*formats.start(), *formats.end()),
    }
}

impl Machine {
    /// The installed binary.
    fn binary(&self) -> Result<PathBuf, Error> {
        let found = match &self.binary {
            Some(binary) => Some(binary.clone()),
            None => ServerRecord::read(&self.data_dir).map(|record| record.executable),
        };
        let found = found.or_else(|| std::env::current_exe().ok());
        found.ok_or_else(|| Error::Option("name the installed binary with --binary".to_owned()))
    }

    fn client_files(&self) -> [PathBuf; 1] {
        [self.data_dir.join("admin.kubeconfig")]
    }
}

impl Plan {
    async fn run(self) -> Result<(), Error> {
        let binary = self.machine.binary()?;
        let client = self
            .kubeconfig
            .client_or(&self.machine.client_files(), "orlop-upgrade")
            .await
            .ok();
        let facts = gather(&self.machine, &binary, &self.to, client.as_ref(), false).await?;
        let checks = plan::checks(&facts);
        print!("{}", table(&checks));
        print!("{}", steps(&facts));
        conclude(&checks)
    }
}

fn conclude(checks: &[plan::Check]) -> Result<(), Error> {
    if plan::is_possible(checks) {
        return Ok(());
    }
    let refused = checks
        .iter()
        .filter(|check| check.verdict == Verdict::Refused);
    Err(Error::Verify(refused.count()))
}

async fn gather(
    machine: &Machine,
    binary: &Path,
    to: &Path,
    client: Option<&Client>,
    makes_backup: bool,
) -> Result<Facts, Error> {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let store = size(&machine.data_dir.join(STORE));
    let folder = binary.parent().unwrap_or(binary);
    let free = nix::sys::statvfs::statvfs(folder)
        .map(|disk| disk.blocks_available() * disk.fragment_size());
    let nodes = match client {
        Some(client) => nodes(client).await.ok(),
        None => None,
    };
    let deprecated = match client {
        Some(client) => match cluster::text(client, "/metrics").await {
            Answer::Known(text) => Some(deprecated(&text)),
            _ => None,
        },
        None => None,
    };
    Ok(Facts {
        current: binary::ask(binary)?,
        new: binary::ask(to)?,
        nodes,
        deprecated,
        disk: (free.unwrap_or(0), 2 * size(to) + store + RESERVE),
        makes_backup,
    })
}

/// Nodes with the versions of their kubelets.
async fn nodes(client: &Client) -> Result<Vec<(String, String)>, Error> {
    let list = client
        .list::<Value>(&resources::NODES, &Selection::all())
        .await
        .map_err(Error::Client)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let node = |node: &Value| {
        let version = &node["status"]["nodeInfo"]["kubeletVersion"];
        (text(&node["metadata"]["name"]), text(version))
    };
    Ok(list.items.iter().map(node).collect())
}

/// The deprecated APIs of a page of metrics.
fn deprecated(metrics: &str) -> Vec<DeprecatedApi> {
    let lines = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("apiserver_requested_deprecated_apis{"));
    lines
        .map(|labels| {
            let label = |name: &str| {
                let (_, rest) = labels.split_once(&format!("{name}=\""))?;
                rest.split('"').next().map(str::to_owned)
            };
            let value = |name| label(name).unwrap_or_default();
            let name = format!(
                "{}.{}.{}",
                value("resource"),
                value("version"),
                value("group")
            );
            DeprecatedApi {
                name: name.trim_end_matches('.').to_owned(),
                removed_in: value("removed_release"),
            }
        })
        .collect()
}

fn table(checks: &[plan::Check]) -> String {
    let rows: Vec<[String; 3]> = checks
        .iter()
        .map(|check| {
            let verdict = match check.verdict {
                Verdict::Fine => "ok",
                Verdict::Note => "note",
                Verdict::Refused => "refused",
            };
            [
                check.name.to_owned(),
                verdict.to_owned(),
                check.text.clone(),
            ]
        })
        .collect();
    crate::table::table(["CHECK", "RESULT", "FOUND"], &rows)
}

fn steps(facts: &Facts) -> String {
    let mut out = "steps:\n  1. on each server, one after the other: orlop upgrade apply --to PATH --restart COMMAND --backup-to PLACE\n".to_owned();
    out.push_str("  2. on each node: orlop upgrade apply --node --to PATH --restart COMMAND (pods keep running)\n");
    if let Some(nodes) = &facts.nodes {
        let names: Vec<&str> = nodes.iter().map(|(name, _)| &**name).collect();
        out.push_str(&format!("     nodes: {}\n", names.join(", ")));
    }
    out
}

impl Apply {
    async fn run(self) -> Result<(), Error> {
        let binary = self.machine.binary()?;
        let client = self
            .kubeconfig
            .client_or(&self.machine.client_files(), "orlop-upgrade")
            .await;
        let facts = gather(
            &self.machine,
            &binary,
            &self.to,
            client.as_ref().ok(),
            self.backup_to.is_some(),
        )
        .await?;
        let checks = plan::checks(&facts);
        print!("{}", table(&checks));
        conclude(&checks)?;
        let backup = match (self.node, &self.backup_to) {
            (true, _) => None,
            (false, Some(place)) => Some(self.backup(place).await?),
            (false, None) if self.no_backup => None,
            (false, None) => {
                return Err(Error::Option(
                    "an upgrade of a server begins with a backup: give --backup-to PLACE, or --no-backup".to_owned(),
                ));
            }
        };
        let pods = match (self.node, &client) {
            (true, Ok(client)) => Some(containers(client, &self.node()?).await?),
            _ => None,
        };
        let record = Record {
            from: facts.current,
            to: facts.new,
            backup,
            at: Timestamp::now(),
        };
        let text = serde_json::to_vec_pretty(&record).unwrap_or_default();
        control_pki::write_private(&record_path(&binary), &text).map_err(Error::Pki)?;
        binary::replace(&binary, &self.to)?;
        let began = Instant::now();
        let up = async {
            super::store::shell(&self.restart)?;
            self.wait(client.as_ref().ok()).await
        };
        if let Err(error) = up.await {
            eprintln!(
                "orlop: the new binary does not come up, putting the old one back: {}",
                crate::run::all_causes(&error)
            );
            binary::put_back(&binary)?;
            super::store::shell(&self.restart)?;
            return Err(error);
        }
        println!(
            "`{}` is {} now, ready after {:.1} s; the old one is `{}`",
            binary.display(),
            record.to.version,
            began.elapsed().as_secs_f64(),
            binary::kept(&binary).display()
        );
        if let (Some(before), Ok(client)) = (pods, &client) {
            let after = containers(client, &self.node()?).await?;
            let kept = before.iter().filter(|one| after.contains(one)).count();
            println!("{kept} of {} containers kept running", before.len());
        }
        Ok(())
    }

    async fn backup(&self, place: &Address) -> Result<String, Error> {
        let recipients =
            backups::recipients(&self.backup_recipient, self.backup_plain, "--backup-")?;
        let data_dir = &self.machine.data_dir;
        let opened = stores::open(data_dir, &NamedEtcd::default()).await?;
        let about = backups::about(&*opened.store, opened.kind).await?;
        let request = Request {
            about,
            files: backups::server_files(data_dir)?,
            recipients,
            place: self.s3.place(place)?,
        };
        let created = create(Arc::clone(&opened.store), request)
            .await
            .map_err(Error::Backup)?;
        println!("backup {}", created.name);
        Ok(created.name.to_string())
    }

    fn node(&self) -> Result<String, Error> {
        match &self.node_name {
            Some(name) => Ok(name.clone()),
            None => nix::unistd::gethostname()
                .map(|name| name.to_string_lossy().into_owned())
                .map_err(|error| Error::Option(format!("no host name: {error}; give --node-name"))),
        }
    }

    /// Waits until the server, or the node, is at work after its restart.
    async fn wait(&self, client: Option<&Client>) -> Result<(), Error> {
        let restarted = Timestamp::now();
        let began = Instant::now();
        let mut last = "it was not asked".to_owned();
        while began.elapsed() < self.timeout {
            tokio::time::sleep(LOOK).await;
            let ready = if self.node {
                self.node_is_ready(client, restarted).await
            } else {
                self.server_is_ready().await
            };
            match ready {
                Ok(()) => return Ok(()),
                Err(why) => last = why,
            }
        }
        Err(Error::Program {
            command: self.restart.clone(),
            detail: format!("not ready after {:?}: {last}", self.timeout),
        })
    }

    async fn server_is_ready(&self) -> Result<(), String> {
        let record = ServerRecord::read(&self.machine.data_dir).ok_or("no server has started")?;
        if !record.is_running() {
            return Err("the server does not run".to_owned());
        }
        // Its certificates may be new.
        let files = self.machine.client_files();
        let client = self.kubeconfig.client_or(&files, "orlop-upgrade").await;
        let client = client.map_err(|error| crate::run::all_causes(&error))?;
        match cluster::text(&client, "/readyz").await {
            Answer::Known(text) if text.trim() == "ok" => Ok(()),
            Answer::Known(text) => Err(text.lines().next().unwrap_or_default().to_owned()),
            other => Err(other.why_unknown().to_owned()),
        }
    }

    async fn node_is_ready(&self, client: Option<&Client>, since: Timestamp) -> Result<(), String> {
        let client = client.ok_or("no kubeconfig: give --kubeconfig")?;
        let name = self.node().map_err(|error| error.to_string())?;
        let cause = |error: control_client::Error| error.to_string();
        let node: Value = client
            .get(&resources::NODES, "", &name)
            .await
            .map_err(cause)?;
        let lease: Value = client
            .get(&resources::LEASES, "kube-node-lease", &name)
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
}

fn record_path(binary: &Path) -> PathBuf {
    let mut name = binary.as_os_str().to_owned();
    name.push(format!(".{RECORD}"));
    PathBuf::from(name)
}

/// The containers that run on a node: their identities and how often they were restarted.
async fn containers(client: &Client, node: &str) -> Result<Vec<(String, i64)>, Error> {
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

impl Rollback {
    async fn run(self) -> Result<(), Error> {
        let binary = self.machine.binary()?;
        let path = record_path(&binary);
        let text = std::fs::read(&path).map_err(|source| Error::File {
            path: path.clone(),
            source,
        })?;
        let record: Record = serde_json::from_slice(&text)
            .map_err(|error| Error::Option(format!("`{}`: {error}", path.display())))?;
        let store = self.machine.data_dir.join(STORE);
        let (_, newest) = record.from.store_formats;
        if record.to.store_formats.1 > newest && store.exists() {
            let backup = record.backup.as_deref().unwrap_or("a backup");
            eprintln!(
                "orlop: if {} does not start because of the store's format, stop it and run `orlop restore --replace` with {backup}",
                record.from.version
            );
        }
        binary::put_back(&binary)?;
        super::store::shell(&self.restart)?;
        std::fs::remove_file(&path).map_err(|source| Error::File { path, source })?;
        println!("`{}` is {} again", binary.display(), record.from.version);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deprecated_apis_are_read_from_metrics() {
        let page = "# TYPE apiserver_requested_deprecated_apis gauge\n\
            apiserver_requested_deprecated_apis{group=\"\",removed_release=\"\",resource=\"endpoints\",subresource=\"\",version=\"v1\"} 1\n\
            apiserver_requested_deprecated_apis{group=\"flowcontrol.apiserver.k8s.io\",removed_release=\"1.32\",resource=\"flowschemas\",subresource=\"\",version=\"v1beta3\"} 1\n";
        let found = deprecated(page);
        assert_eq!(found[0].name, "endpoints.v1");
        assert_eq!(
            found[1].name,
            "flowschemas.v1beta3.flowcontrol.apiserver.k8s.io"
        );
        assert_eq!(found[1].removed_in, "1.32");
    }
}
