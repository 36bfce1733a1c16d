//! Clients that hold connections to a Service and make new ones all the while, from each place
//! that kube-proxy serves.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tests::{Cluster, Failure, ensure, eventually, lan::Lan, machine, netns};

use super::super::IMAGE;
use super::stock::{NODES, command};

/// Connections that each client holds.
const HELD: usize = 12;
/// Longer than a scenario takes.
const SECONDS: u32 = 1800;

/// The Service: its address and its port at every node.
pub struct Target {
    pub cluster_ip: String,
    pub port: u16,
    pub node_port: u16,
}

/// Clients of one generation.
pub struct Keepers<'a> {
    cluster: &'a Cluster,
    generation: &'static str,
    all: Vec<Keeper>,
}

struct Keeper {
    what: String,
    place: Place,
    /// How many connections it had made when it was last looked at.
    made: u64,
}

enum Place {
    Process { child: Child, log: PathBuf },
    Pod(String),
}

impl<'a> Keepers<'a> {
    /// Starts the clients; each has answers on all its connections.
    pub fn start(
        cluster: &'a Cluster,
        target: &Target,
        generation: &'static str,
    ) -> Result<Self, Failure> {
        let cluster_ip = format!("{}:{}", target.cluster_ip, target.port);
        let mut it = Self {
            cluster,
            generation,
            all: Vec::new(),
        };
        for (node, address) in NODES {
            let node_port = format!("{address}:{}", target.node_port);
            it.on_node(node, "cluster IP", &cluster_ip)?;
            it.on_node(node, "node port", &node_port)?;
            it.on_lan(node, &node_port)?;
            it.in_pod(node, &cluster_ip)?;
        }
        for at in 0..it.all.len() {
            let what = format!("{} clients, {}", generation, it.all[at].what);
            eventually(&what, 30, || {
                let said = it.said(&it.all[at])?;
                ensure(said.contains(&format!("held {HELD} ")), said)
            })?;
        }
        Ok(it)
    }

    fn on_node(&mut self, node: &str, what: &str, target: &str) -> Result<(), Failure> {
        let what = format!("{what} from {node}");
        let line = format!("exec demo connect {target} {HELD} {SECONDS}");
        let command = command(self.cluster, node, &line);
        self.spawn(what, command)
    }

    fn on_lan(&mut self, node: &str, target: &str) -> Result<(), Failure> {
        let lan = Lan::join(&self.cluster.dir, "10.88.0.2/24")?;
        let demo = self.cluster.dir.join(format!("nodes/{node}/tools/demo"));
        let mut command = netns::command(&lan.network(), &demo.display().to_string());
        command.args(["connect", target, &HELD.to_string(), &SECONDS.to_string()]);
        self.spawn(format!("node port of {node} from another machine"), command)
    }

    fn spawn(&mut self, what: String, mut command: std::process::Command) -> Result<(), Failure> {
        let name = format!("keeper-{}-{}", self.generation, self.all.len());
        let log = self.cluster.dir.join(name).with_extension("log");
        let file = File::create(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        self.all.push(Keeper {
            what,
            place: Place::Process { child, log },
            made: 0,
        });
        Ok(())
    }

    fn in_pod(&mut self, node: &str, target: &str) -> Result<(), Failure> {
        let name = format!("keeper-{}-{node}", self.generation);
        let pod = format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  nodeName: {node}
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: keeper
    image: {IMAGE}
    args: [connect, '{target}', '{HELD}', '{SECONDS}']
    resources: {{requests: {{cpu: 100m}}}}
"
        );
        self.cluster.kubectl_with("apply -f -", &pod)?;
        self.all.push(Keeper {
            what: format!("cluster IP from a pod on {node}"),
            place: Place::Pod(name),
            made: 0,
        });
        Ok(())
    }

    fn said(&self, keeper: &Keeper) -> Result<String, Failure> {
        match &keeper.place {
            Place::Process { log, .. } => Ok(fs::read_to_string(log)?),
            Place::Pod(name) => self.cluster.kubectl(&format!("logs {name}")),
        }
    }

    /// Fails unless all connections are still held, and new ones were made since the last look,
    /// none of which failed.
    pub fn go_on(&mut self, when: &str) -> Result<(), Failure> {
        let mut wrong = Vec::new();
        for at in 0..self.all.len() {
            let (keeper, generation) = (&self.all[at], self.generation);
            let before = keeper.made;
            let made = eventually("new connections", 8, || {
                let said = self.said(keeper)?;
                let last = said.lines().rfind(|line| line.starts_with("held "));
                let last = last.unwrap_or_default().to_owned();
                let made = last.split(' ').nth(5).and_then(|it| it.parse().ok());
                let made: u64 = made.unwrap_or_default();
                ensure(made > before + 20, format!("last said: {last}"))?;
                Ok((made, last, said))
            });
            match made {
                Ok((made, last, said)) => {
                    if last != format!("held {HELD} lost 0 made {made} failed 0") {
                        let bad = said.lines().filter(|line| !line.starts_with("held"));
                        let first: Vec<_> = bad.take(5).collect();
                        wrong.push(format!("{generation}, {}: {last} {first:?}", keeper.what));
                    }
                    self.all[at].made = made;
                }
                Err(error) => wrong.push(format!("{generation}, {}: {error}", keeper.what)),
            }
        }
        ensure(wrong.is_empty(), format!("{when}:\n{}", wrong.join("\n")))
    }

    /// Says how many connections were held, and how many were made besides.
    pub fn summary(&self) -> String {
        let made: u64 = self.all.iter().map(|it| it.made).sum();
        let held = self.all.len() * HELD;
        let generation = self.generation;
        format!("begun through {generation}: 0 of {held} held lost, 0 of {made} new failed")
    }

    /// Ends the clients, and so their connections.
    pub fn end(self) -> Result<(), Failure> {
        for keeper in &self.all {
            if let Place::Pod(name) = &keeper.place {
                let delete = format!("delete pod {name} --grace-period=1 --wait=false");
                self.cluster.kubectl(&delete)?;
            }
        }
        Ok(())
    }
}

impl Drop for Keepers<'_> {
    fn drop(&mut self) {
        for keeper in &mut self.all {
            if let Place::Process { child, .. } = &mut keeper.place {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        // nsenter(1) leaves its child behind.
        for (node, _) in NODES {
            let group = machine::group_of(&self.cluster.dir, node).unwrap_or_default();
            let group = group.trim_end_matches("/system");
            for pid in machine::processes_in(group, &["demo connect"]) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}
