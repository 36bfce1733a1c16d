//! A test host from within, for scenarios that change what it is: its mounts, its
//! runtime, its agent's configuration.

use std::{fs, path::PathBuf, process::Command};

use tests::{Cluster, Failure, ensure, eventually, machine};

use super::IMAGE;

/// What the agent's command line has.
pub const AGENT: &[&str] = &["orlop", "node-agent"];

/// A node, whose first process starts `orlop node-agent` again whenever it ends.
pub struct Node<'a> {
    cluster: &'a Cluster,
    name: &'static str,
    /// Its files, as the machine sees them; `/mnt` within.
    pub folder: PathBuf,
}

impl<'a> Node<'a> {
    pub fn of(cluster: &'a Cluster, name: &'static str) -> Self {
        let folder = cluster.dir.join("nodes").join(name);
        Self {
            cluster,
            name,
            folder,
        }
    }

    /// Applies manifests in which NODE stands for this node, IMAGE for the scenarios' image.
    pub fn apply(&self, manifests: &str) -> Result<(), Failure> {
        let filled = manifests.replace("NODE", self.name).replace("IMAGE", IMAGE);
        self.cluster.kubectl_with("apply -f -", &filled).map(drop)
    }

    /// The processes of the container runtime itself.
    pub fn runtime(&self) -> Result<Vec<i32>, Failure> {
        let found =
            machine::processes_of(&self.cluster.dir, self.name, &["containerd", "--config"]);
        ensure(!found.is_empty(), "no container runtime was found")?;
        Ok(found)
    }

    /// Runs a program among the node's mounts and processes, as which `/proc` there knows
    /// it; what it printed.
    pub fn run(&self, words: &[&str]) -> Result<String, Failure> {
        let inside = self.runtime()?.into_iter().next().unwrap_or_default();
        let done = Command::new("nsenter")
            .args(["--mount", "--pid", "--target", &inside.to_string(), "--"])
            .args(words)
            .output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure(done.status.success(), format!("{words:?}: {said}"))?;
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// kill -9 of the agent; waits until it is there again, has told that the node is
    /// ready and answers for the containers that it found: at least so many.
    pub fn restart_agent(&self, containers: usize) -> Result<(), Failure> {
        let before = machine::processes_of(&self.cluster.dir, self.name, AGENT);
        let hit = machine::kill_program(&self.cluster.dir, self.name, AGENT);
        ensure(hit > 0, "no agent was there to be killed")?;
        eventually("another agent", 30, || {
            let now = machine::processes_of(&self.cluster.dir, self.name, AGENT);
            let other = now.iter().any(|pid| !before.contains(pid));
            ensure(other, "it does not run")
        })?;
        self.answers(AGENT, containers)
    }

    /// Waits until the program runs and tells of the containers that it found.
    pub fn answers(&self, words: &[&str], containers: usize) -> Result<(), Failure> {
        let name = self.name;
        eventually(&format!("{words:?} on {name}"), 60, || {
            let running = machine::processes_of(&self.cluster.dir, name, words);
            ensure(!running.is_empty(), "it does not run")?;
            let path = format!("get --raw /api/v1/nodes/{name}/proxy/metrics");
            let metrics = self.cluster.kubectl(&path)?;
            let line = "kubelet_running_containers{container_state=\"running\"} ";
            let told = metrics.lines().find_map(|text| text.strip_prefix(line));
            let count: usize = told.and_then(|count| count.parse().ok()).unwrap_or(0);
            ensure(count >= containers, format!("{count} containers run"))
        })
    }

    /// Has the node run nothing but what names it, until this is dropped.
    pub fn alone(&self) -> Result<Alone<'a>, Failure> {
        let (cluster, name) = (self.cluster, self.name);
        cluster.kubectl(&format!("cordon {name}"))?;
        let alone = Alone { cluster, name };
        cluster.kubectl(&format!(
            "delete pod --all-namespaces --field-selector spec.nodeName={name} \
             --grace-period=1 --timeout=60s"
        ))?;
        Ok(alone)
    }

    /// Gives the agent another configuration until this is dropped: `change` makes it of
    /// the text that there is. The agent has to be started anew for either.
    pub fn configured(&self, change: impl FnOnce(&str) -> String) -> Result<Configured, Failure> {
        let file = self.folder.join("kubelet.yaml");
        let before = fs::read_to_string(&file)?;
        fs::write(&file, change(&before))?;
        Ok(Configured { file, before })
    }
}

pub struct Alone<'a> {
    cluster: &'a Cluster,
    name: &'static str,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        let _ = self.cluster.kubectl(&format!("uncordon {}", self.name));
    }
}

pub struct Configured {
    file: PathBuf,
    before: String,
}

impl Drop for Configured {
    fn drop(&mut self) {
        let _ = fs::write(&self.file, &self.before);
    }
}

/// Waits until pods, as `kubectl get` names them, are ready.
pub fn ready(cluster: &Cluster, pods: &str) -> Result<(), Failure> {
    let wait = format!("wait {pods} --for=condition=Ready --timeout=120s");
    cluster.kubectl(&wait).map(drop)
}

/// Deletes pods, also those that are not there.
pub fn end(cluster: &Cluster, pods: &str) -> Result<(), Failure> {
    let delete = format!("delete {pods} --grace-period=1 --ignore-not-found --timeout=60s");
    cluster.kubectl(&delete).map(drop)
}

/// Fails unless what was told of pods before is told of them now.
pub fn same(before: &[String], now: &[String]) -> Result<(), Failure> {
    ensure(now == before, format!("{before:#?} became {now:#?}"))
}

/// Of pods, as `kubectl get` names them: by pod and container its id, how often it was
/// restarted and whether it is ready.
pub fn containers(cluster: &Cluster, pods: &str) -> Result<Vec<String>, Failure> {
    let found = cluster.get(pods)?;
    let one = [found.clone()];
    let all = found["items"].as_array().map_or(&one[..], Vec::as_slice);
    let mut told = Vec::new();
    for pod in all {
        for key in ["initContainerStatuses", "containerStatuses"] {
            for status in pod["status"][key].as_array().into_iter().flatten() {
                told.push(format!(
                    "{} {} {} {} {}",
                    pod["metadata"]["name"],
                    status["name"],
                    status["containerID"],
                    status["restartCount"],
                    status["ready"]
                ));
            }
        }
    }
    told.sort();
    ensure(!told.is_empty(), format!("{pods}: no containers"))?;
    Ok(told)
}

/// The same, and since when each pod is ready, or not.
pub fn states(cluster: &Cluster, pods: &str) -> Result<Vec<String>, Failure> {
    let mut told = containers(cluster, pods)?;
    let found = cluster.get(pods)?;
    let one = [found.clone()];
    let all = found["items"].as_array().map_or(&one[..], Vec::as_slice);
    for pod in all {
        let conditions = pod["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let ready = conditions.find(|condition| condition["type"] == "Ready");
        let ready = ready.ok_or("a pod without the condition Ready")?;
        told.push(format!(
            "{} {} {}",
            pod["metadata"]["name"], ready["status"], ready["lastTransitionTime"]
        ));
    }
    Ok(told)
}
