//! Test hosts: their processes, and programs that are kept from starting.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::Deserialize;
use tests::{Cluster, Failure, ensure, machine};

/// The command line of each program of a host, as far as it tells them apart.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("server", &["orlop", "server", "--data-dir"]),
    ("node-agent", &["orlop", "node-agent"]),
    ("containerd", &["containerd --config"]),
];

/// What `xtask up` writes down of a cluster.
#[derive(Deserialize)]
pub struct Record {
    /// Names its control groups.
    pub id: String,
    nodes: Vec<NodeRecord>,
}

#[derive(Deserialize)]
struct NodeRecord {
    name: String,
    pid: i32,
}

impl Record {
    /// The process that holds the host's namespaces.
    ///
    /// # Errors
    /// When there is no such host.
    pub fn keeper(&self, name: &str) -> Result<i32, Failure> {
        let node = self.nodes.iter().find(|node| node.name == name);
        let missing = || format!("the cluster has no `{name}`: bring it up with `--nodes 2`");
        Ok(node.ok_or_else(missing)?.pid)
    }
}

/// Reads the record of a cluster.
///
/// # Errors
/// When it is not there or cannot be understood.
pub fn record(cluster: &Cluster) -> Result<Record, Failure> {
    let path = cluster.dir.join("cluster.json");
    let text = fs::read(&path).map_err(|error| {
        format!(
            "no cluster in {}: {}: {error}",
            cluster.dir.display(),
            path.display()
        )
    })?;
    Ok(serde_json::from_slice(&text)?)
}

/// The host's folder, `/mnt` within.
pub fn folder(cluster: &Cluster, node: &str) -> PathBuf {
    cluster.dir.join("nodes").join(node)
}

fn words(program: &str) -> &'static [&'static str] {
    let found = PROGRAMS.iter().find(|(name, _)| *name == program);
    found.map_or(&[], |(_, words)| words)
}

/// The processes of a program of the host.
///
/// # Errors
/// When there are none.
pub fn processes(cluster: &Cluster, node: &str, program: &str) -> Result<Vec<i32>, Failure> {
    let found = machine::processes_of(&cluster.dir, node, words(program));
    ensure(!found.is_empty(), format!("no {program} runs on {node}"))?;
    Ok(found)
}

/// A program that was killed and does not start again until this is dropped.
pub struct Held(PathBuf);

/// Kills a program of the host, and keeps it from starting again.
///
/// # Errors
/// When it does not run, or the host's folder cannot be written.
pub fn hold(cluster: &Cluster, node: &str, program: &str) -> Result<Held, Failure> {
    let file = folder(cluster, node).join("held").join(program);
    fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))?;
    fs::write(&file, "")?;
    let held = Held(file);
    restart(cluster, node, program)?;
    Ok(held)
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Kills a program of the host, which the host starts again.
///
/// # Errors
/// When it does not run.
pub fn restart(cluster: &Cluster, node: &str, program: &str) -> Result<(), Failure> {
    for pid in processes(cluster, node, program)? {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
    Ok(())
}

/// A program that is stopped in the midst of what it does until this is dropped.
pub struct Frozen(Vec<i32>);

/// Stops a program of the host without ending it.
///
/// # Errors
/// When it does not run.
pub fn freeze(cluster: &Cluster, node: &str, program: &str) -> Result<Frozen, Failure> {
    let frozen = Frozen(processes(cluster, node, program)?);
    for pid in &frozen.0 {
        kill(Pid::from_raw(*pid), Signal::SIGSTOP)?;
    }
    Ok(frozen)
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGCONT);
        }
    }
}

/// A fault of a whole host, which is undone when this is dropped, so that a scenario that fails
/// leaves a cluster that works.
pub struct Outage<'a> {
    cluster: &'a Cluster,
    node: &'static str,
    undo: Option<&'static str>,
}

impl<'a> Outage<'a> {
    /// Cuts the host's power.
    ///
    /// # Errors
    /// The output of `xtask host`.
    pub fn power(cluster: &'a Cluster, node: &'static str) -> Result<Self, Failure> {
        Self::begin(cluster, node, ["kill", "start"])
    }

    /// Pulls the host's cable out.
    ///
    /// # Errors
    /// The output of `xtask host`.
    pub fn cable(cluster: &'a Cluster, node: &'static str) -> Result<Self, Failure> {
        Self::begin(cluster, node, ["cut", "join"])
    }

    fn begin(
        cluster: &'a Cluster,
        node: &'static str,
        [verb, undo]: [&'static str; 2],
    ) -> Result<Self, Failure> {
        let outage = Self {
            cluster,
            node,
            undo: Some(undo),
        };
        cluster.host(verb, node)?;
        Ok(outage)
    }

    /// Undoes it.
    ///
    /// # Errors
    /// The output of `xtask host`.
    pub fn end(mut self) -> Result<(), Failure> {
        match self.undo.take() {
            Some(undo) => self.cluster.host(undo, self.node),
            None => Ok(()),
        }
    }
}

impl Drop for Outage<'_> {
    fn drop(&mut self) {
        if let Some(undo) = self.undo.take() {
            let _ = self.cluster.host(undo, self.node);
        }
    }
}

/// A node that takes no new pods until this is dropped.
pub struct Cordon<'a>(&'a Cluster, &'static str);

impl<'a> Cordon<'a> {
    /// Marks the node as unschedulable.
    ///
    /// # Errors
    /// The output of kubectl.
    pub fn put(cluster: &'a Cluster, node: &'static str) -> Result<Self, Failure> {
        cluster.kubectl(&format!("cordon {node}"))?;
        Ok(Self(cluster, node))
    }
}

impl Drop for Cordon<'_> {
    fn drop(&mut self) {
        let _ = self.0.kubectl(&format!("uncordon {}", self.1));
    }
}

/// Runs a shell command among the mounts and processes of the host.
///
/// # Errors
/// What it printed as its error.
pub fn shell(cluster: &Cluster, node: &str, script: &str) -> Result<String, Failure> {
    let keeper = record(cluster)?.keeper(node)?;
    let children = fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children"))?;
    let inside = children.split_whitespace().next();
    let inside = inside.ok_or_else(|| format!("{node} is off"))?;
    let done = Command::new("nsenter")
        .args(["--mount", "--pid", "--target", inside, "--", "sh", "-c"])
        .arg(script)
        .output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure(done.status.success(), format!("{script}: {said}"))?;
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Kills the processes of the workload's containers on the host.
///
/// # Errors
/// When there are none.
pub fn crash_pods(cluster: &Cluster, node: &str) -> Result<usize, Failure> {
    let id = record(cluster)?.id;
    let mut hit = 0;
    for entry in fs::read_dir("/proc")?.flatten() {
        let path = entry.path();
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let group = fs::read_to_string(path.join("cgroup")).unwrap_or_default();
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        if group.contains(&format!("/{id}/{node}/")) && line.starts_with(b"/program\0") {
            kill(Pid::from_raw(pid), Signal::SIGKILL)?;
            hit += 1;
        }
    }
    ensure(hit > 0, format!("no container of the workload on {node}"))?;
    Ok(hit)
}
