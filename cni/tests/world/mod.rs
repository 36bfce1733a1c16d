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
    mount::{MsFlags, mount, umount},
    sched::{CloneFlags, setns, unshare},
};
use serde_json::Value;

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
        let _ = umount(&self.0);
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

pub fn ready() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        println!("skipped: needs root to make network namespaces");
    }
    root
}

pub fn write_sysctl(key: &str, value: &str) {
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
