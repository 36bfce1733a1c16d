#![allow(dead_code, reason = "each test binary uses a part")]
//! Network namespaces and calls of the plugin. Needs root.

use std::{
    io::Write,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, setns, unshare},
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A node that forwards, and a folder for it and its pods, which are to go before it.
pub struct World {
    pub node: Namespace,
    folder: TempDir,
}

impl World {
    /// None, and it is said why, where nobody may make one.
    pub fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root to make network namespaces");
            return None;
        }
        let folder = tempfile::tempdir().expect("temporary folder");
        let node = Namespace::new(folder.path(), "node");
        node.run(|| {
            write_sysctl("net/ipv4/ip_forward", "1");
            write_sysctl("net/ipv6/conf/all/forwarding", "1");
            // The addresses from which the node itself speaks to pods.
            ip("link set lo up");
            ip("addr add 192.0.2.1/32 dev lo");
            ip("addr add 2001:db8::1/128 dev lo nodad");
        });
        Some(Self { node, folder })
    }

    /// A pod of this name.
    pub fn pod(&self, name: &str) -> Namespace {
        Namespace::new(self.folder.path(), name)
    }

    /// A file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The plugin of this version and with these ranges; `more` of its configuration.
    pub fn plugin(&self, version: &str, ranges: &[&str], more: Value) -> Plugin<'_> {
        let mut config = json!({
            "cniVersion": version, "name": "orlop", "type": "orlop-cni",
            "ranges": ranges, "dataDir": self.file("data"),
        });
        let map = config.as_object_mut().expect("a map");
        map.extend(more.as_object().cloned().unwrap_or_default());
        Plugin {
            node: &self.node,
            config,
        }
    }

    /// The names of the node's interfaces that lead to pods.
    pub fn devices(&self) -> Vec<String> {
        let devices = "/proc/thread-self/net/dev";
        let text = self
            .node
            .run(|| std::fs::read_to_string(devices).expect("interfaces"));
        let names = text.lines().filter_map(|line| line.split_once(':'));
        let names = names.map(|(name, _)| name.trim().to_owned());
        names.filter(|it| it.starts_with("orl")).collect()
    }

    /// The addresses that are given out.
    pub fn addresses(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.file("data/orlop")).expect("data folder");
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names
            .filter(|name| name.parse::<std::net::IpAddr>().is_ok())
            .collect()
    }
}

/// A network namespace kept by a bind mount under a temporary folder.
pub struct Namespace(pub PathBuf);

impl Namespace {
    pub fn new(folder: &Path, name: &str) -> Self {
        let path = folder.join(name);
        std::fs::write(&path, b"").expect("mount point");
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    unshare(CloneFlags::CLONE_NEWNET).expect("new network namespace");
                    mount(
                        Some("/proc/thread-self/ns/net"),
                        &path,
                        None::<&str>,
                        MsFlags::MS_BIND,
                        None::<&str>,
                    )
                    .expect("keep the namespace");
                })
                .join()
                .expect("thread");
        });
        Self(path)
    }

    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let file = std::fs::File::open(&self.0).expect("namespace");
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    setns(&file, CloneFlags::CLONE_NEWNET).expect("enter");
                    work()
                })
                .join()
                .expect("thread")
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A child that another test starts meanwhile may have a file of it for a moment.
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

pub struct Plugin<'a> {
    pub node: &'a Namespace,
    pub config: Value,
}

impl Plugin<'_> {
    /// Runs one verb in the node's namespace: success and the printed JSON.
    pub fn call(&self, verb: &str, pod: Option<(&str, &Namespace)>) -> (bool, Value) {
        self.call_with(verb, pod, &self.config)
    }

    pub fn call_with(
        &self,
        verb: &str,
        pod: Option<(&str, &Namespace)>,
        config: &Value,
    ) -> (bool, Value) {
        self.call_named("orlop-cni", verb, pod, config)
    }

    /// The same, with the name by which the program is called.
    pub fn call_named(
        &self,
        name: &str,
        verb: &str,
        pod: Option<(&str, &Namespace)>,
        config: &Value,
    ) -> (bool, Value) {
        self.call_program(None, name, verb, pod, config)
    }

    /// The same of another program, if there is one.
    pub fn call_program(
        &self,
        program: Option<&Path>,
        name: &str,
        verb: &str,
        pod: Option<(&str, &Namespace)>,
        config: &Value,
    ) -> (bool, Value) {
        let mut command = Command::new(program.unwrap_or(Path::new(PLUGIN)));
        command.arg0(name);
        if let Some((id, namespace)) = pod {
            of_container(&mut command, id).env("CNI_NETNS", &namespace.0);
        }
        self.run(command, verb, config)
    }

    /// The same, of a container whose namespace is gone.
    pub fn call_gone(&self, verb: &str, id: &str, config: &Value) -> (bool, Value) {
        let mut command = Command::new(PLUGIN);
        of_container(&mut command, id);
        self.run(command, verb, config)
    }

    fn run(&self, mut command: Command, verb: &str, config: &Value) -> (bool, Value) {
        command
            .env("CNI_COMMAND", verb)
            .env("CNI_PATH", "/nowhere")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let output = self.node.run(|| {
            let mut child = command.spawn().expect("start the plugin");
            let mut stdin = child.stdin.take().expect("stdin");
            match stdin.write_all(config.to_string().as_bytes()) {
                // It may say no to the verb before it reads anything.
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
                written => written.expect("configuration"),
            }
            drop(stdin);
            child.wait_with_output().expect("end of the plugin")
        });
        let value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        (output.status.success(), value)
    }
}

const PLUGIN: &str = env!("CARGO_BIN_EXE_orlop-cni");

fn of_container<'a>(command: &'a mut Command, id: &str) -> &'a mut Command {
    command
        .env("CNI_CONTAINERID", id)
        .env("CNI_IFNAME", "eth0")
        .env(
            "CNI_ARGS",
            format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=x;K8S_POD_NAME={id};K8S_POD_UID=u"),
        )
}

fn write_sysctl(key: &str, value: &str) {
    std::fs::write(format!("/proc/sys/{key}"), value).expect("sysctl");
}

pub fn ip(arguments: &str) {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .expect("the program `ip`");
    assert!(status.success(), "ip {arguments}");
}

pub fn address(result: &Value, index: usize) -> String {
    let text = result["ips"][index]["address"]
        .as_str()
        .expect("an address");
    text.split('/')
        .next()
        .expect("the part before the slash")
        .to_owned()
}

/// Answers one connection in `server`, asked by `client`.
pub fn reach(server: &Namespace, client: &Namespace, at: &str) -> bool {
    let listen: SocketAddr = if at.contains(':') {
        format!("[{at}]:7000").parse().expect("address")
    } else {
        format!("{at}:7000").parse().expect("address")
    };
    let listener = server.run(|| TcpListener::bind(listen).expect("bind the pod's address"));
    let connected = client.run(|| TcpStream::connect_timeout(&listen, Duration::from_secs(2)));
    drop(listener);
    connected.is_ok()
}
