//! `cargo xtask up`: from nothing to a cluster that answers.

use std::{
    fs::{self, File},
    net::TcpListener,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{
    Cluster, Node, down, first_process_of, groups, is_keeper, network, node_dir, relay, servers,
    spec::{Host, Program},
};
use crate::{
    build,
    error::{Error, at},
    images,
    run::{Step, output, print_step, run, target, wait_until},
    setup,
};

/// The options of `up`.
#[derive(Clone)]
pub struct Options {
    /// Number of nodes, 1 to 50.
    pub nodes: u8,
    /// Number of servers that are hosts of their own; 0: the first node has the one server.
    pub servers: u8,
    /// The state folder.
    pub dir: PathBuf,
    /// Stop once the nodes are ready, without the show.
    pub no_demo: bool,
    /// Start no program of ours on the hosts.
    pub bare: bool,
    /// Folder of the programs to run; without, they are built.
    pub programs: Option<PathBuf>,
    /// The nodes' network.
    pub net: network::Net,
}

/// Values of the agents' option `--overlay`.
const OVERLAYS: [&str; 3] = ["auto", "vxlan", "none"];

impl Options {
    /// Checks everything before anything is made.
    fn check(&self) -> Result<(), Error> {
        if let Some(mode) = &self.net.overlay
            && !OVERLAYS.contains(&mode.as_str())
        {
            return Err(Error::State(format!(
                "--overlay: `{mode}` is none of {}",
                OVERLAYS.join(", ")
            )));
        }
        let programs = self.programs()?;
        for name in ["orlop", "orlop-cni"] {
            let path = programs.join(name);
            if !path.is_file() {
                return Err(Error::Missing {
                    what: format!("`{}`", path.display()),
                    how: "`cargo xtask build` makes it".to_owned(),
                });
            }
        }
        down::ensure_own(&self.dir)?;
        if is_on_overlay(&self.dir) {
            return Err(Error::State(format!(
                "{} is on an overlay file system, on which hosts cannot mount theirs: name a \
                 folder of a disk with --state",
                self.dir.display()
            )));
        }
        Ok(())
    }

    fn programs(&self) -> Result<PathBuf, Error> {
        let folder = match &self.programs {
            Some(folder) => folder.clone(),
            None => build::Profile::of_first_look().folder(),
        };
        fs::canonicalize(&folder).map_err(at(&folder))
    }
}

/// Test hosts share the machine's disk with everything else on it: it is only
/// guarded against being full.
const KUBELET: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
evictionHard:
  memory.available: 100Mi
  nodefs.available: 1%
  nodefs.inodesFree: 1%
  imagefs.available: 1%
  imagefs.inodesFree: 1%
imageGCHighThresholdPercent: 99
imageGCLowThresholdPercent: 98
";

const CONTAINERD: &str = r#"version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "/mnt/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "PAUSE"
  # Without CAP_SYS_RESOURCE nobody may lower a process's OOM score.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
  # Mirrors of registries may be put there at any time.
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/mnt/registries"
"#;

/// Starts the cluster and demonstrates it.
///
/// # Errors
/// The first thing that is missing or fails; what was started is stopped again.
pub fn up(options: &Options) -> Result<(), Error> {
    let built;
    let options = if options.programs.is_some() {
        options
    } else {
        setup::setup()?;
        let profile = build::Profile::of_first_look();
        if profile == build::Profile::Quick {
            print_step(
                "compiling for a first look: most of it is not optimised. `cargo xtask build` \
                 makes the programs to measure and to use",
            );
        }
        build::build(profile)?;
        built = Options {
            programs: Some(profile.folder()),
            ..options.clone()
        };
        &built
    };
    setup::check_kernel()?;
    options.check()?;
    let dir = &options.dir;
    fs::create_dir_all(dir).map_err(at(dir))?;
    let dir = &fs::canonicalize(dir).map_err(at(dir))?;
    if let Some(cluster) = Cluster::load(dir)? {
        let is_up = |node: &Node| is_keeper(node.pid, &node_dir(dir, &node.name));
        let up: Vec<bool> = cluster.hosts().map(is_up).collect();
        if up.contains(&true) {
            return Err(Error::State(occupied(dir, &cluster, &up)));
        }
    }
    // Leftovers of a cluster that was killed.
    down::stop(dir)?;
    let result = start(options, dir);
    if result.is_err() {
        // Nothing half-started stays; the logs do.
        down::stop(dir)?;
    }
    result
}

/// Whether a folder, or the one that it will be made in, is on an overlay file system.
fn is_on_overlay(dir: &Path) -> bool {
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let existing = absolute.ancestors().find(|path| path.exists());
    existing
        .and_then(|path| nix::sys::statfs::statfs(path).ok())
        .is_some_and(|found| found.filesystem_type() == nix::sys::statfs::OVERLAYFS_SUPER_MAGIC)
}

/// Returns what to do about the existing cluster in `dir`, some of whose hosts are up.
fn occupied(dir: &Path, cluster: &Cluster, up: &[bool]) -> String {
    let state = dir.display();
    let mut text = format!("a cluster is up in {state}");
    let hosts = cluster.hosts().zip(up);
    for (node, _) in hosts.filter(|(_, up)| !**up) {
        let name = &node.name;
        text.push_str(&format!(
            "; {name} is down: `cargo xtask restart {name} --state {state}` starts it"
        ));
    }
    text.push_str(&format!(
        "; `cargo xtask status --state {state}` shows the cluster, `cargo xtask down --state \
         {state}` ends it"
    ));
    text
}

fn start(options: &Options, dir: &Path) -> Result<(), Error> {
    let started = Instant::now();
    match options.servers {
        0 => print_step(format!("{} node(s) in {}", options.nodes, dir.display())),
        servers => print_step(format!(
            "{servers} server(s), {} node(s) in {}",
            options.nodes,
            dir.display()
        )),
    }
    let step = Step::begin("images");
    let archive = images::build()?;
    step.done();

    let step = Step::begin("test hosts, network, credentials");
    let id = Cluster::id_of(dir);
    let socket = TcpListener::bind(("127.0.0.1", 0)).map_err(at(Path::new("127.0.0.1")))?;
    let port = socket
        .local_addr()
        .map_err(at(Path::new("127.0.0.1")))?
        .port();
    let mut cluster = Cluster {
        id: id.clone(),
        lan: None,
        servers: Vec::new(),
        nodes: Vec::new(),
        port,
        net: options.net.clone(),
    };
    let mut socket = Some(OwnedFd::from(socket));
    let of_lan = if options.servers > 0 {
        relay::prepare(&dir.join("lan"))?;
        socket.take()
    } else {
        None
    };
    let lan = keeper(
        &dir.join("lan"),
        &["--net"],
        &["lan", &format!("{id}/lan")],
        of_lan,
    )?;
    cluster.lan = Some(lan);
    cluster.save(dir)?;
    namespace_of(lan)?;
    network::bridge(lan)?;
    let programs = options.programs()?;
    if options.servers > 0 {
        network::address_bridge(lan)?;
    }
    if !options.bare {
        credentials(&programs.join("orlop"), dir, options, port)?;
    }
    step.done();
    if options.servers > 0 {
        servers::start(&mut cluster, &programs, dir, options)?;
    }
    let step = Step::begin("nodes");
    for number in 1..=options.nodes {
        let port = socket.is_some().then_some(port);
        let mut node = start_node(&programs, dir, &id, number, options, socket.take())?;
        node.port = port;
        cluster.nodes.push(node);
        cluster.save(dir)?;
    }
    for node in &cluster.nodes {
        connect(lan, dir, node, &options.net)?;
    }
    step.done();

    let step = Step::begin("container runtimes, images imported");
    for node in &cluster.nodes {
        let folder = node_dir(dir, &node.name);
        let log = folder.join("logs/containerd.log");
        let socket = folder.join("containerd.sock");
        wait_until(
            &format!("containerd on {}", node.name),
            Duration::from_secs(30),
            &log,
            || fs::metadata(&socket).is_ok(),
        )?;
        step.progress(&node.name);
        let inside = first_process_of(node.pid).ok_or_else(|| {
            Error::State(format!(
                "{} ended: see {}",
                node.name,
                folder.join("host.log").display()
            ))
        })?;
        let copy = folder.join("images.tar");
        fs::copy(&archive, &copy).map_err(at(&copy))?;
        import(inside, &log)?;
    }
    step.done();
    if !options.bare {
        print_step(format!(
            "kubeconfig: {}",
            dir.join("admin.kubeconfig").display()
        ));
        show(options, dir, &cluster)?;
    }
    print_step(format!("up after {:.1} s", started.elapsed().as_secs_f64()));
    Ok(())
}

/// Joins a host to the bridge, and tells it so.
///
/// # Errors
/// What `ip` says.
pub fn connect(lan: i32, dir: &Path, node: &Node, net: &network::Net) -> Result<(), Error> {
    namespace_of(node.pid)?;
    network::join(lan, node.pid, node.number(), net)?;
    let joined = node_dir(dir, &node.name).join("joined");
    File::create(&joined).map_err(at(&joined)).map(drop)
}

/// containerd answers some time after its socket is there.
fn import(inside: i32, log: &Path) -> Result<(), Error> {
    let mut last = Ok(());
    wait_until(
        "an import of the images",
        Duration::from_secs(30),
        log,
        || {
            last = images::import(inside, "/mnt/containerd.sock", "/mnt/images.tar");
            last.is_ok()
        },
    )
    .and(last)
}

/// Starts a process that holds namespaces, with `inside` run by this program.
fn keeper(
    folder: &Path,
    namespaces: &[&str],
    inside: &[&str],
    socket: Option<OwnedFd>,
) -> Result<i32, Error> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    let log = folder.join("host.log");
    let log = File::create(&log).map_err(at(&log))?;
    let this = std::env::current_exe().map_err(at(Path::new("/proc/self/exe")))?;
    let mut command = Command::new("setsid");
    command
        .arg("unshare")
        .args(namespaces)
        .arg("--")
        .arg(this)
        .arg("host")
        .args(inside)
        .arg(folder)
        .stdin(socket.map_or_else(Stdio::null, Stdio::from))
        .stdout(log.try_clone().map_err(at(folder))?)
        .stderr(log);
    let child = command.spawn().map_err(at(folder))?;
    i32::try_from(child.id()).map_err(|error| Error::State(error.to_string()))
}

/// Waits until the process has its own network namespace.
///
/// # Errors
/// When it gets none in time.
pub fn namespace_of(pid: i32) -> Result<(), Error> {
    let own = fs::read_link("/proc/self/ns/net").ok();
    let path = PathBuf::from(format!("/proc/{pid}/ns/net"));
    wait_until(
        "a network namespace",
        Duration::from_secs(10),
        &path,
        || {
            fs::read_link(&path)
                .ok()
                .is_some_and(|name| Some(name) != own)
        },
    )
}

/// The authorities, the administrator's kubeconfig and each node's credentials.
fn credentials(orlop: &Path, dir: &Path, options: &Options, port: u16) -> Result<(), Error> {
    let (data, server) = match options.servers {
        0 => (dir.join("server"), network::address(1)),
        _ => (servers::data(dir, 1), network::SERVERS),
    };
    output(
        Command::new(orlop)
            .args(["credentials", "admin", "--data-dir"])
            .arg(&data)
            .args(["--server", &format!("https://127.0.0.1:{port}"), "--output"])
            .arg(dir.join("admin.kubeconfig")),
    )?;
    for number in 1..=options.nodes {
        let name = format!("node-{number}");
        output(
            Command::new(orlop)
                .args(["credentials", "node", "--data-dir"])
                .arg(&data)
                .args(["--name", &name])
                .args(["--address", &network::address(number).to_string()])
                .args(["--server", &format!("https://{server}:6443"), "--output"])
                .arg(node_dir(dir, &name).join("credentials")),
        )?;
    }
    Ok(())
}

fn start_node(
    programs: &Path,
    dir: &Path,
    id: &str,
    number: u8,
    options: &Options,
    socket: Option<OwnedFd>,
) -> Result<Node, Error> {
    let net = &options.net;
    let name = format!("node-{number}");
    let address = network::address(number);
    let folder = node_dir(dir, &name);
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    for stale in ["joined", "containerd.sock"] {
        let _ = fs::remove_file(folder.join(stale));
    }
    let config = folder.join("containerd.toml");
    fs::write(&config, CONTAINERD.replace("PAUSE", images::PAUSE)).map_err(at(&config))?;
    let kubelet = folder.join("kubelet.yaml");
    fs::write(&kubelet, KUBELET).map_err(at(&kubelet))?;
    let group = format!("{id}/{name}");
    let unified = groups::roots()
        .1
        .ok_or_else(|| Error::State("no cgroup2 hierarchy is mounted".to_owned()))?
        .join(&group);

    // Another containerd brings its own shim, which it looks for on its path.
    let other = std::env::var("ORLOP_CONTAINERD").unwrap_or_default();
    let containerd = containerd_of(&other, &name).map_or_else(
        || "containerd".to_owned(),
        |folder| {
            format!("env PATH={folder}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin {folder}/containerd")
        },
    );
    let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
    let mut started = vec![Program {
        name: "containerd".to_owned(),
        command: words(format!("{containerd} --config /mnt/containerd.toml")),
        socket: false,
    }];
    let mut binds = vec![("bin".to_owned(), programs.display().to_string())];
    if number == 1 && options.servers == 0 && !options.bare {
        binds.push((
            "server".to_owned(),
            dir.join("server").display().to_string(),
        ));
        started.push(Program {
            name: "server".to_owned(),
            command: words(format!(
                "/mnt/bin/orlop server --data-dir /mnt/server --bind-address 0.0.0.0 \
                 --secure-port 6443 --advertise-address {address} {}",
                net.ranges()
            )),
            socket: socket.is_some(),
        });
    }
    let agent = Program {
        name: "node-agent".to_owned(),
        command: words(format!(
            "/mnt/bin/orlop node-agent --kubeconfig /mnt/credentials/kubeconfig \
             --node-name {name} --node-ip {} --cgroup {} \
             --tls-cert-file /mnt/credentials/serving.crt \
             --tls-private-key-file /mnt/credentials/serving.key \
             --client-ca-file /mnt/credentials/ca.crt --kubelet-config /mnt/kubelet.yaml \
             --container-runtime-endpoint unix:///mnt/containerd.sock {}",
            net.addresses(number),
            unified.display(),
            net.overlay
                .as_ref()
                .map_or_else(String::new, |mode| format!("--overlay {mode}"))
        )),
        socket: false,
    };
    if !options.bare {
        started.push(agent);
    }
    let server = dir.join("server");
    fs::create_dir_all(&server).map_err(at(&server))?;
    Host {
        name: name.clone(),
        group,
        binds,
        programs: started,
    }
    .save(&folder)?;
    let pid = start_host(&folder, socket)?;
    Ok(Node {
        name,
        address,
        pid,
        port: None,
    })
}

/// The folder of a host's containerd, of `FOLDER` for all hosts or `HOST=FOLDER` for one;
/// none: the machine's.
fn containerd_of<'a>(variable: &'a str, host: &str) -> Option<&'a str> {
    match variable.split_once('=') {
        _ if variable.is_empty() => None,
        None => Some(variable),
        Some((of, folder)) => (of == host).then_some(folder),
    }
}

/// Starts the test host that `host.json` in its folder describes; returns its keeper.
///
/// # Errors
/// When it cannot be started.
pub fn start_host(folder: &Path, socket: Option<OwnedFd>) -> Result<i32, Error> {
    let namespaces = [
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount",
        "--uts",
        "--mount-proc",
    ];
    keeper(folder, &namespaces, &["node"], socket)
}

/// Waits for the nodes and does the main job for all to see.
fn show(options: &Options, dir: &Path, cluster: &Cluster) -> Result<(), Error> {
    let mut command = Command::new(options.programs()?.join("orlop"));
    command
        .args(["demo", "--kubeconfig"])
        .arg(dir.join("admin.kubeconfig"))
        .args(["--nodes", &options.nodes.to_string()])
        .args(["--image", images::DEMO]);
    if options.no_demo {
        command.arg("--only-wait");
    }
    // A process of the node: in its namespaces and in its control group.
    if let Some(node) = cluster.nodes.first() {
        let this = std::env::current_exe().map_err(at(Path::new("/proc/self/exe")))?;
        command.arg("--from-node").arg(format!(
            "{} host exec {}/{} {}",
            this.display(),
            cluster.id,
            node.name,
            node.pid
        ));
        let demo = target().join("images/x86_64-unknown-linux-gnu/release/demo");
        command.arg("--client").arg(demo);
    }
    run(&mut command)
}

/// Runs a program as a process of a test host, in the host's network and
/// control group, with this machine's files.
///
/// # Errors
/// When the host's group or namespace cannot be entered, or the program fails.
pub fn exec(group: &str, keeper: i32, command: &[String]) -> Result<(), Error> {
    groups::enter_unified(group).map_err(at(Path::new(group)))?;
    run(Command::new("nsenter")
        .args(["--net", "--target", &keeper.to_string(), "--"])
        .args(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_used_is_refused_before_a_folder_is_made() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let programs = folder.path().join("programs");
        fs::create_dir(&programs).expect("made");
        let mut options = Options {
            nodes: 1,
            servers: 0,
            dir: folder.path().join("state"),
            no_demo: true,
            bare: false,
            programs: Some(programs.clone()),
            net: network::Net {
                overlay: Some("vlan".to_owned()),
                ..network::Net::default()
            },
        };
        let refused = |options: &Options| options.check().map_err(|error| error.to_string());
        assert!(refused(&options).is_err_and(|error| error.contains("`vlan`")));
        options.net.overlay = Some("vxlan".to_owned());
        assert!(refused(&options).is_err_and(|error| error.contains("programs/orlop`")));
        for name in ["orlop", "orlop-cni"] {
            fs::write(programs.join(name), "").expect("written");
        }
        options.dir = programs;
        assert!(refused(&options).is_err_and(|error| error.contains("no state folder")));
        assert!(!folder.path().join("state").exists());
    }

    #[test]
    fn another_containerd_is_for_all_hosts_or_for_one() {
        assert_eq!(containerd_of("", "node-1"), None);
        assert_eq!(containerd_of("/go/bin", "node-1"), Some("/go/bin"));
        assert_eq!(containerd_of("node-2=/go/bin", "node-2"), Some("/go/bin"));
        assert_eq!(containerd_of("node-2=/go/bin", "node-1"), None);
    }

    #[test]
    fn a_half_dead_cluster_is_named_with_its_folder_and_the_host_to_restart() {
        let node = |number: u8| Node {
            name: format!("node-{number}"),
            address: network::address(number),
            pid: 0,
            port: None,
        };
        let cluster = Cluster {
            id: "orlop-0".to_owned(),
            lan: None,
            servers: Vec::new(),
            nodes: vec![node(1), node(2)],
            port: 1,
            net: network::Net::default(),
        };
        let text = occupied(Path::new("/elsewhere"), &cluster, &[true, false]);
        for part in [
            "up in /elsewhere",
            "`cargo xtask restart node-2 --state /elsewhere`",
            "`cargo xtask down --state /elsewhere`",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("node-1"), "{text}");
    }
}
