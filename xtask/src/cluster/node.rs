//! Single test hosts of a cluster: ended, started again, cut off, and entered.

use std::{
    fs::{self, File},
    net::TcpListener,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    Cluster, Node, down, first_process_of, groups, is_keeper, loops, network, node_dir, up,
};
use crate::{
    error::{Error, at},
    run::{print_step, wait_until},
};

/// How long programs may take to end before the host is killed.
const GRACE: Duration = Duration::from_secs(10);

/// A host of a cluster, by its name.
pub struct NodeHost<'a> {
    dir: &'a Path,
    cluster: Cluster,
    /// Among the servers, then the nodes.
    index: usize,
}

impl<'a> NodeHost<'a> {
    /// Finds the host in the cluster's record.
    ///
    /// # Errors
    /// When there is no cluster in `dir`, or no such host in it.
    pub fn find(dir: &'a Path, name: &str) -> Result<Self, Error> {
        let cluster = Cluster::load(dir)?.ok_or_else(|| no_cluster(dir))?;
        let index = cluster.hosts().position(|node| node.name == name);
        let Some(index) = index else {
            let names: Vec<&str> = cluster.hosts().map(|node| node.name.as_str()).collect();
            return Err(Error::State(format!(
                "there is no `{name}` in {}: its hosts are {}",
                dir.display(),
                names.join(", ")
            )));
        };
        Ok(Self {
            dir,
            cluster,
            index,
        })
    }

    fn node(&self) -> &Node {
        let (servers, nodes) = (&self.cluster.servers, &self.cluster.nodes);
        let node = self.index.checked_sub(servers.len());
        node.map_or_else(|| &servers[self.index], |index| &nodes[index])
    }

    fn group(&self) -> String {
        format!("{}/{}", self.cluster.id, self.node().name)
    }

    fn is_up(&self) -> bool {
        is_keeper(self.node().pid, &node_dir(self.dir, &self.node().name))
    }

    /// Its number in the network.
    fn number(&self) -> u8 {
        self.node().number()
    }

    /// Ends its programs in order, then the host.
    ///
    /// # Errors
    /// When a control group stays.
    pub fn stop(&self) -> Result<(), Error> {
        let system = format!("{}/system", self.group());
        let first = first_process_of(self.node().pid);
        if let Some(first) = first {
            // It would start what ends again.
            let _ = kill(Pid::from_raw(first), Signal::SIGSTOP);
        }
        let programs = || {
            let all = groups::processes(&system).into_iter();
            all.filter(|pid| Some(*pid) != first).collect::<Vec<_>>()
        };
        for pid in programs() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let until = Instant::now() + GRACE;
        while Instant::now() < until && !programs().iter().all(|pid| is_zombie(*pid)) {
            std::thread::sleep(Duration::from_millis(50));
        }
        self.kill()
    }

    /// Stops the host immediately, as a power cut does. Its disk stays.
    ///
    /// # Errors
    /// When a control group stays.
    pub fn kill(&self) -> Result<(), Error> {
        let node = self.node();
        let folder = node_dir(self.dir, &node.name);
        down::end(node.pid, &folder);
        // The kernel, which is the machine's, has not ended.
        loops::detach(&folder);
        match groups::remove(&self.group()).first() {
            None => Ok(()),
            Some(left) => Err(Error::State(format!(
                "the control group `{}` does not go",
                left.display()
            ))),
        }
    }

    /// Starts a host that is down, from what its disk has.
    ///
    /// # Errors
    /// When it is up, or does not start.
    pub fn start(&mut self) -> Result<(), Error> {
        let name = self.node().name.clone();
        if self.is_up() {
            return Err(Error::State(format!("{name} is up")));
        }
        let lan = self.bridge()?;
        let left = groups::remove(&self.group());
        if let Some(left) = left.first() {
            return Err(Error::State(format!("`{}` is in use", left.display())));
        }
        let folder = node_dir(self.dir, &name);
        for stale in ["joined", "containerd.sock"] {
            let _ = fs::remove_file(folder.join(stale));
        }
        // A host with an API server got its port on this machine from us.
        let port = self.node().port;
        let socket = port
            .map(|port| TcpListener::bind(("127.0.0.1", port)))
            .transpose()
            .map_err(at(Path::new("127.0.0.1")))?;
        let pid = up::start_host(&folder, socket.map(OwnedFd::from))?;
        let (number, net) = (self.number(), self.cluster.net.clone());
        let servers = self.cluster.servers.len();
        match self.index.checked_sub(servers) {
            Some(index) => self.cluster.nodes[index].pid = pid,
            None => self.cluster.servers[self.index].pid = pid,
        }
        self.cluster.save(self.dir)?;
        up::namespace_of(pid)?;
        network::join(lan, pid, number, &net)?;
        let joined = folder.join("joined");
        File::create(&joined).map_err(at(&joined))?;
        if self.index < servers {
            return Ok(());
        }
        wait_until(
            &format!("containerd on {name}"),
            Duration::from_secs(30),
            &folder.join("logs/containerd.log"),
            || folder.join("containerd.sock").exists(),
        )
    }

    /// The process that holds the bridge between the hosts.
    ///
    /// # Errors
    /// When it has ended.
    fn bridge(&self) -> Result<i32, Error> {
        let lan = self.cluster.lan;
        let lan = lan.filter(|lan| is_keeper(*lan, &self.dir.join("lan")));
        lan.ok_or_else(|| {
            let dir = self.dir.display();
            Error::State(format!(
                "the bridge of {dir} is gone with the whole cluster: `cargo xtask down --state \
                 {dir}`, then up"
            ))
        })
    }

    /// Cuts the host off the others, as a pulled cable does.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn cut(&self) -> Result<(), Error> {
        self.link("down")
    }

    /// Joins it to the others again.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn join(&self) -> Result<(), Error> {
        self.link("up")
    }

    fn link(&self, state: &str) -> Result<(), Error> {
        let lan = self.cluster.lan.ok_or_else(|| no_cluster(self.dir))?;
        network::set_leg(lan, self.number(), state)
    }

    /// Runs a command, or a shell, as a process of the host: in its namespaces, and in its
    /// control group, without which cluster IPs are not translated. Does not return when
    /// it starts.
    ///
    /// # Errors
    /// When the host is down or the command does not start.
    pub fn shell(&self, command: &[String]) -> Result<(), Error> {
        let name = &self.node().name;
        let inside = first_process_of(self.node().pid).filter(|_| self.is_up());
        let Some(inside) = inside else {
            let dir = self.dir.display();
            return Err(Error::State(format!(
                "{name} is down: `cargo xtask restart {name} --state {dir}`"
            )));
        };
        let group = self.group();
        groups::enter_unified(&group).map_err(at(Path::new(&group)))?;
        let path = std::env::var("PATH").unwrap_or_default();
        let mut nsenter = Command::new("nsenter");
        nsenter
            .args(["--net", "--mount", "--uts", "--pid", "--target"])
            .arg(inside.to_string())
            .arg("--")
            .env("PATH", format!("/mnt/bin:{path}"))
            .env("CONTAINER_RUNTIME_ENDPOINT", "unix:///mnt/containerd.sock")
            .env("CONTAINERD_ADDRESS", "/mnt/containerd.sock")
            .env("PS1", format!("{name}:\\w# "));
        if command.is_empty() {
            nsenter.arg("/bin/sh");
        } else {
            nsenter.args(command);
        }
        Err(at(Path::new("nsenter"))(nsenter.exec()))
    }
}

/// Ends a host, if it is up, and starts it again.
///
/// # Errors
/// As [`NodeHost::stop`] and [`NodeHost::start`].
pub fn restart(dir: &Path, name: &str) -> Result<(), Error> {
    let started = Instant::now();
    let mut host = NodeHost::find(dir, name)?;
    // A host that is stopped could not come back without it.
    host.bridge()?;
    if host.is_up() {
        host.stop()?;
    }
    host.start()?;
    print_step(format!(
        "{name} is up after {:.1} s",
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// The error for a folder without a cluster.
pub fn no_cluster(dir: &Path) -> Error {
    let dir = dir.display();
    Error::State(format!(
        "no cluster in {dir}: `cargo xtask up --state {dir}` makes one"
    ))
}

/// Whether a process has ended and waits for its parent to notice.
fn is_zombie(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim().starts_with('Z'))
    })
}
