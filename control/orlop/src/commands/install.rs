//! `orlop node-agent install`: begin to serve beside kube-proxy.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use clap::Args;
use control_client::{Client, Discard, Resource, Selection, resources};
use node_agent::{
    kube_proxy_takeover::{
        answering,
        step::{CONDITION, TakeoverReason},
    },
    machine::{self, FindingLevel, MachineRole, ProbePaths},
};
use serde_json::Value;

use crate::{
    error::Error,
    migrate::install::{self, BIND, CONFIG, Identity, Installation, UNIT, UNITS},
    values,
};

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop node-agent install --datapath-only --dry-run   list what would be written
  orlop node-agent install --datapath-only             kubeadm's or k3s's node
  orlop node-agent install --datapath-only --no-unit   write the options, and start it yourself";

const BINDINGS: Resource = Resource::cluster(
    "rbac.authorization.k8s.io",
    "v1",
    "clusterrolebindings",
    "ClusterRoleBinding",
);

/// How often is looked whether the agent serves.
const LOOK: Duration = Duration::from_millis(500);

/// What to install, and where.
#[derive(Args)]
pub struct Options {
    /// Serve Services beside kube-proxy, until `orlop migrate kube-proxy` takes its place.
    #[arg(long, required = true)]
    datapath_only: bool,
    /// Kubeconfig of the agent; that of the kubelet of kubeadm, k3s or RKE2 unless given.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Kubeconfig of an administrator, who lets nodes read EndpointSlices if they may not yet; that
    /// of kubeadm, k3s or RKE2 unless given.
    #[arg(long, value_name = "FILE")]
    admin_kubeconfig: Option<PathBuf>,
    /// The Node object's name; the host's name unless given.
    #[arg(long, value_parser = values::node_name)]
    node_name: Option<String>,
    /// The cgroup v2 folder whose processes see Services; the root of the hierarchy unless given.
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// Directory of pinned eBPF programs and maps.
    #[arg(long, default_value = node_agent::PINS)]
    pin_dir: PathBuf,
    /// Path of the file with the agent's options.
    #[arg(long, default_value = CONFIG, value_name = "FILE")]
    write_config: PathBuf,
    /// Write no unit of systemd and start nothing: print the command that starts the agent.
    #[arg(long)]
    no_unit: bool,
    /// List what would be written, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// How long the agent may take until it serves.
    #[arg(long, value_parser = values::duration, default_value = "60s", value_name = "DURATION")]
    timeout: Duration,
}

/// Installs.
///
/// # Errors
/// What is missing, what cannot be written, or the Services that do not answer.
pub async fn run(options: &Options) -> Result<(), Error> {
    if !options.datapath_only {
        return Ok(());
    }
    let (kubeconfig, identity) = install::kubeconfig(options.kubeconfig.as_deref(), Path::exists)
        .ok_or_else(|| {
        Error::Option(format!(
            "no kubeconfig of a node is here ({}): name one with --kubeconfig",
            install::looked_for()
        ))
    })?;
    let it = Installation {
        program: std::env::current_exe().map_err(Error::Start)?,
        kubeconfig,
        identity,
        node_name: options.node_name.clone(),
        pin_dir: options.pin_dir.clone(),
        cgroup: options.cgroup.clone(),
    };
    check_machine(options).await?;
    let unit = Path::new(UNITS).join(UNIT);
    if options.dry_run {
        println!("# {}\n{}", options.write_config.display(), it.config());
        if !options.no_unit {
            println!("# {}\n{}", unit.display(), it.unit(&options.write_config));
        }
        return Ok(());
    }
    let client = Client::from_kubeconfig(&it.kubeconfig)
        .await
        .map_err(Error::Client)?
        .named("orlop-install");
    ensure_rights(options, &client, it.identity).await?;
    write(&options.write_config, &it.config())?;
    println!("options are in {}", options.write_config.display());
    if options.no_unit {
        println!(
            "start the agent with:\n  {}",
            it.command(&options.write_config)
        );
        return Ok(());
    }
    let (before, asked) = answering(&client).await.map_err(Error::Client)?;
    println!("{} of {asked} ports of Services answer", before.len());
    write(&unit, &it.unit(&options.write_config))?;
    systemctl(&["daemon-reload"])?;
    let name = node_name(options)?;
    let since = heartbeat(&client, &name).await;
    systemctl(&["enable", "--now", UNIT])?;
    wait(&client, &name, since.as_ref(), options.timeout).await?;
    let (after, asked) = answering(&client).await.map_err(Error::Client)?;
    println!(
        "{} of {asked} ports of Services answer through Orlop",
        after.len()
    );
    let worse: Vec<&str> = before.difference(&after).map(String::as_str).collect();
    if worse.is_empty() {
        println!("next: orlop migrate kube-proxy --node {name}");
        return Ok(());
    }
    Err(Error::Migration(format!(
        "answered before, and not through Orlop: {}; stop it with `systemctl disable --now {UNIT}` \
         and `orlop node-agent uninstall --datapath-only`",
        worse.join(", ")
    )))
}

/// The pre-flight check of this machine.
async fn check_machine(options: &Options) -> Result<(), Error> {
    let places = ProbePaths {
        pin_dir: options.pin_dir.clone(),
        runtime_endpoint: String::new(),
        disks: Vec::new(),
    };
    let facts = machine::gather(&places).await;
    let findings = machine::judge(&facts, MachineRole::Datapath);
    // kube-proxy has its ports as long as it runs.
    let missing: Vec<_> = findings
        .iter()
        .filter(|it| it.verdict == FindingLevel::Missing && !it.check.starts_with("port "))
        .collect();
    for it in &missing {
        let way_out = it.way_out.as_deref().unwrap_or_default();
        eprintln!("{}: {}; {way_out}", it.check, it.found);
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Error::Preflight(missing.len()))
    }
}

/// Lets nodes read EndpointSlices, which they may not in a stock cluster.
async fn ensure_rights(
    options: &Options,
    client: &Client,
    identity: Identity,
) -> Result<(), Error> {
    let readable = client
        .list::<Discard>(&resources::ENDPOINT_SLICES, &Selection::all())
        .await;
    match readable {
        Ok(_) => return Ok(()),
        Err(control_client::Error::Forbidden(_)) if identity == Identity::Kubelet => {}
        Err(error) => return Err(Error::Client(error)),
    }
    let admin = install::admin_kubeconfig(options.admin_kubeconfig.as_deref(), Path::exists);
    let Some(admin) = admin else {
        return Err(Error::Migration(format!(
            "nodes may not read EndpointSlices: as an administrator, run once `{BIND}`"
        )));
    };
    let admin = Client::from_kubeconfig(&admin)
        .await
        .map_err(Error::Client)?;
    match admin
        .create::<Discard>(&BINDINGS, "", &install::binding())
        .await
    {
        Ok(_) | Err(control_client::Error::AlreadyExists(_)) => {
            println!("ClusterRoleBinding orlop-datapath lets nodes read what kube-proxy reads");
            Ok(())
        }
        Err(error) => Err(Error::Client(error)),
    }
}

fn node_name(options: &Options) -> Result<String, Error> {
    match &options.node_name {
        Some(name) => Ok(name.clone()),
        None => super::node_agent::host_name(),
    }
}

/// When the agent last said on its Node how things are, other than that it waits.
async fn heartbeat(client: &Client, node: &str) -> Option<Value> {
    let node: Value = client.get(&resources::NODES, "", node).await.ok()?;
    let conditions = node["status"]["conditions"].as_array()?;
    let condition = conditions
        .iter()
        .find(|it| it["type"] == CONDITION && it["reason"] != TakeoverReason::Waiting.word())?;
    Some(condition["lastHeartbeatTime"].clone())
}

/// Waits until the agent that was started says that it serves.
async fn wait(
    client: &Client,
    node: &str,
    since: Option<&Value>,
    patience: Duration,
) -> Result<(), Error> {
    let until = Instant::now() + patience;
    while Instant::now() < until {
        let now = heartbeat(client, node).await;
        if now.is_some() && now.as_ref() != since {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(Error::Migration(format!(
        "the agent does not serve after {} s: see `journalctl -u {UNIT}`",
        patience.as_secs()
    )))
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)
}

fn systemctl(arguments: &[&str]) -> Result<(), Error> {
    let failed = |why: String| {
        Error::Migration(format!(
            "`systemctl {}` failed: {why}; without systemd, use --no-unit",
            arguments.join(" ")
        ))
    };
    let output = Command::new("systemctl")
        .args(arguments)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        Ok(())
    } else {
        let message = String::from_utf8_lossy(&output.stderr);
        Err(failed(message.trim().to_owned()))
    }
}
