//! Tests a new user's first and last commands on a host in namespaces, with a real API server and
//! a real agent: `status`, `support-bundle`, stopping with `--on-exit`, and `uninstall`. The tests
//! need root.

#[path = "../../../node-agent/datapath/tests/host/mod.rs"]
mod host;

use std::{
    fs,
    io::Read,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use control_client::{Client, Discard, Resource};
use control_pki::{Authority, Spec, kubeconfig};
use host::{Host, Server, ask_tcp, ip, put_service, put_slice, service, slice};
use nix::{
    mount::{MsFlags, mount},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

const RESERVED: &str = "/proc/sys/net/ipv4/ip_local_reserved_ports";
const API: &str = "127.0.0.1:16443";

/// A host whose `/run` is its own, so that nothing of the machine's is touched.
struct Machine {
    host: Host,
    folder: tempfile::TempDir,
}

/// A running command, ended with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(command: &mut Command, log: &Path) -> Self {
        let log = fs::File::create(log).expect("a log");
        let child = command.stdout(Stdio::null()).stderr(log).spawn();
        Self(child.expect("orlop runs"))
    }

    /// Asks it to end, as systemd does, and waits until it has.
    fn stop(mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).expect("a pid"));
        kill(pid, Signal::SIGTERM).expect("a signal");
        let status = self.0.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }
}

impl Machine {
    fn new() -> Option<Self> {
        let host = Host::new()?;
        let none: Option<&str> = None;
        mount(Some("none"), "/run", Some("tmpfs"), MsFlags::empty(), none).expect("a /run");
        fs::write(RESERVED, "8080\n").expect("reserved ports");
        Some(Self {
            host,
            folder: tempfile::tempdir().expect("a folder"),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn orlop(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orlop"));
        command
            .args(words)
            .arg("--pin-dir")
            .arg(&self.host.pin_dir)
            .env_remove("KUBECONFIG")
            .env("HOME", self.folder.path())
            .output()
            .expect("orlop runs")
    }

    fn uninstall(&self, more: &[&str]) -> Output {
        let words = [&["node-agent", "uninstall", "--datapath-only"], more].concat();
        self.orlop(&words)
    }

    /// `orlop status`, of this machine's files only.
    fn status(&self, more: &[&str]) -> (bool, Value) {
        let (server, agent) = (self.path("server"), self.path("agent"));
        let words = [
            "status",
            "-o",
            "json",
            "--server-dir",
            server.to_str().expect("text"),
            "--agent-dir",
            agent.to_str().expect("text"),
        ];
        let output = self.orlop(&[&words[..], more].concat());
        let value = serde_json::from_slice(&output.stdout);
        (output.status.success(), value.expect("JSON"))
    }

    fn server(&self) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orlop"));
        command
            .args([
                "apiserver",
                "--bind-address",
                "127.0.0.1",
                "--secure-port",
                "16443",
                // No Service has endpoints on the loopback.
                "--advertise-address",
                "192.0.2.1",
            ])
            .arg("--data-dir")
            .arg(self.path("server"))
            .arg("--write-kubeconfig")
            .arg(self.path("admin.kubeconfig"));
        let running = Running::start(&mut command, &self.path("server.log"));
        let ready = || TcpStream::connect(API).is_ok() && self.path("admin.kubeconfig").exists();
        self.until("the API server listens", ready);
        running
    }

    /// Starts an agent that uninstalls at its end, with a kubeconfig of this folder.
    fn agent(&self, kubeconfig: &str) -> Running {
        // What the kernel hands out itself, so that ports are reserved.
        fs::write("/proc/sys/net/ipv4/ip_local_port_range", "32768 65535").expect("a range");
        let mut command = Command::new(env!("CARGO_BIN_EXE_orlop"));
        command
            .args(["node-agent", "--datapath-only", "--node-name", "node-1"])
            .args(["--on-exit", "uninstall", "--drain", "5s"])
            .args(["--cluster-cidr", "10.244.0.0/16"])
            .arg("--kubeconfig")
            .arg(self.path(kubeconfig))
            .arg("--pin-dir")
            .arg(&self.host.pin_dir)
            .arg("--cgroup")
            .arg(&self.host.cgroup);
        Running::start(&mut command, &self.path("agent.log"))
    }

    fn until(&self, what: &str, is: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is() {
            if begun.elapsed() > Duration::from_secs(120) {
                for log in ["server.log", "agent.log"] {
                    let text = fs::read_to_string(self.path(log)).unwrap_or_default();
                    println!("--- {log}\n{text}");
                }
                panic!("not within two minutes: {what}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn reserved() -> String {
    fs::read_to_string(RESERVED).expect("reserved ports")
}

/// The part of a status with this name.
fn part<'a>(status: &'a Value, name: &str) -> &'a Value {
    let parts = status["parts"].as_array().expect("parts");
    let found = parts.iter().find(|it| it["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {status:#}"))
}

#[test]
fn an_uninstall_removes_what_the_agent_recorded_and_nothing_else() {
    let Some(machine) = Machine::new() else {
        return;
    };
    machine.host.address("10.244.0.1");
    let _server = Server::start("10.244.0.1:8080");
    let mut engine = machine.host.engine();
    put_slice(&mut engine, &slice("web-4", "web", &["10.244.0.1"], 8080));
    put_service(&mut engine, &service("web", &["10.96.0.7"], 80));
    ask_tcp("10.96.0.7:80").expect("served");
    // What the agent writes before it reserves ports, of which one was another's.
    let name = machine.host.pin_dir.display().to_string();
    let name = name.trim_matches('/').replace('/', "-");
    let record = PathBuf::from(format!("/run/orlop/{name}.changes.json"));
    fs::create_dir_all("/run/orlop").expect("a folder");
    let changes = json!({ "reservedPorts": [61_000, 61_001], "mounts": [] });
    fs::write(&record, changes.to_string()).expect("a record");
    fs::write(RESERVED, "8080,61000-61002\n").expect("reserved ports");

    let busy = machine.uninstall(&[]);
    assert!(!busy.status.success());
    assert!(text(&busy.stderr).contains("end it first"), "{busy:?}");
    drop(engine);

    let listed = text(&machine.uninstall(&["--dry-run"]).stdout);
    for line in ["program at sockets: connect4", "reserved ports 61000-61001"] {
        assert!(listed.lines().any(|it| it == line), "{line}\n{listed}");
    }
    ask_tcp("10.96.0.7:80").expect("a dry run changes nothing");
    let (healthy, status) = machine.status(&[]);
    assert!(!healthy);
    let frozen = part(&status, "datapath here");
    let what = frozen["problems"][0]["what"].as_str().expect("a problem");
    assert!(
        what.contains("no agent keeps the maps up to date"),
        "{frozen:#}"
    );

    let done = machine.uninstall(&[]);
    assert!(done.status.success(), "{done:?}");
    assert!(
        text(&done.stdout).contains("the datapath is removed"),
        "{done:?}"
    );
    assert!(!machine.host.pin_dir.exists());
    assert!(ask_tcp("10.96.0.7:80").is_err());
    assert_eq!(reserved(), "8080,61002\n");
    assert!(!Path::new("/run/orlop").exists());
    let again = machine.uninstall(&[]);
    assert!(again.status.success());
    assert!(text(&again.stdout).contains("no datapath"), "{again:?}");
    assert_eq!(reserved(), "8080,61002\n");
}

#[test]
fn the_datapath_of_a_node_with_pods_is_refused() {
    let Some(machine) = Machine::new() else {
        return;
    };
    drop(machine.host.engine());
    let name = machine.host.pin_dir.display().to_string();
    let name = name.trim_matches('/').replace('/', "-");
    fs::create_dir_all("/run/orlop").expect("a folder");
    fs::write(format!("/run/orlop/{name}.cni.sock"), "").expect("a socket");
    let refused = machine.uninstall(&[]);
    assert!(!refused.status.success());
    assert!(text(&refused.stderr).contains("orlop reset"), "{refused:?}");
    assert!(machine.host.pin_dir.exists());
}

#[test]
fn an_agent_that_never_reached_its_server_leaves_nothing_either() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let authority = Authority::create("test").expect("an authority");
    let user = Spec::client("system:node:node-1", &["system:nodes"]);
    let user = authority.issue(&user).expect("issued");
    let ca = authority.certificate_pem();
    let text = kubeconfig("https://127.0.0.1:1", ca, &user, "test", "node-1");
    fs::write(machine.path("kubeconfig"), text).expect("a kubeconfig");
    let agent = machine.agent("kubeconfig");
    let links = machine
        .host
        .pin_dir
        .join(format!("v{}/links", ebpf_abi::VERSION));
    machine.until("programs are in force", || links.join("bind6").exists());
    assert_eq!(reserved(), "8080,61000-65535\n");
    agent.stop();
    assert!(!machine.host.pin_dir.exists(), "programs and maps are gone");
    assert_eq!(reserved(), "8080\n");
    assert!(!Path::new("/run/orlop").exists());
}

#[test]
fn an_agent_that_is_to_uninstall_at_its_end_leaves_nothing() {
    let Some(machine) = Machine::new() else {
        return;
    };
    ip("addr add 192.0.2.1/32 dev lo");
    let server = machine.server();
    let agent = machine.agent("admin.kubeconfig");
    let socket_hooks = || {
        let (_, status) = machine.status(&[]);
        let parts = status["parts"].as_array().cloned().unwrap_or_default();
        parts
            .iter()
            .any(|it| it["name"] == "datapath here" && it["state"] == "ok")
    };
    machine.until("the datapath is in force", socket_hooks);
    assert_eq!(reserved(), "8080,61000-65535\n");

    let kubeconfig = machine.path("admin.kubeconfig").display().to_string();
    let (_, status) = machine.status(&["--kubeconfig", &kubeconfig]);
    assert_eq!(part(&status, "API server")["state"], "ok", "{status:#}");
    assert_eq!(part(&status, "store")["state"], "ok");
    assert_eq!(part(&status, "server here")["state"], "ok");
    assert_eq!(part(&status, "nodes")["summary"], "0 of 0 ready");
    let controllers = part(&status, "controllers");
    assert_eq!(
        controllers["state"], "degraded",
        "none run here: {controllers}"
    );

    support_bundle_has_no_secret(&machine, &kubeconfig);

    // A dead API server: the rest is still shown.
    drop(server);
    let (healthy, status) = machine.status(&["--kubeconfig", &kubeconfig]);
    assert!(!healthy);
    assert_eq!(part(&status, "API server")["state"], "down");
    assert_eq!(part(&status, "server here")["state"], "down");
    assert_eq!(part(&status, "datapath here")["state"], "ok", "{status:#}");
    assert_eq!(part(&status, "nodes")["state"], "unknown");

    agent.stop();
    assert!(!machine.host.pin_dir.exists(), "programs and maps are gone");
    assert_eq!(reserved(), "8080\n");
    assert!(!Path::new("/run/orlop").exists());
    let (_, status) = machine.status(&[]);
    let parts = status["parts"].as_array().expect("parts");
    assert!(
        parts.iter().all(|it| it["name"] != "datapath here"),
        "{status:#}"
    );
}

/// Plants secrets in the cluster and in the machine's folders.
fn support_bundle_has_no_secret(machine: &Machine, kubeconfig: &str) {
    let planted = "hunter2-planted";
    let secrets = Resource::namespaced("", "v1", "secrets", "Secret");
    let deployments = Resource::namespaced("apps", "v1", "deployments", "Deployment");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = Client::from_kubeconfig(kubeconfig).await.expect("a client");
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "planted" },
            "stringData": { "password": planted },
        });
        let created = client.create::<Discard>(&secrets, "default", &secret).await;
        created.expect("a Secret");
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "planted" },
            "spec": {
                "selector": { "matchLabels": { "app": "planted" } },
                "template": {
                    "metadata": { "labels": { "app": "planted" } },
                    "spec": { "containers": [{
                        "name": "a", "image": "kept-image:1",
                        "env": [{ "name": "ANY", "value": planted }],
                        "args": [planted],
                    }] },
                },
            },
        });
        let created = client
            .create::<Discard>(&deployments, "default", &deployment)
            .await;
        created.expect("a Deployment");
    });
    let key = fs::read_to_string(machine.path("server/pki/ca.key")).expect("a key");
    let key = key.lines().nth(1).expect("a line").to_owned();

    let file = machine.path("support.tar.gz");
    let (server, agent) = (machine.path("server"), machine.path("agent"));
    let output = machine.orlop(&[
        "support-bundle",
        "--kubeconfig",
        kubeconfig,
        "--file",
        file.to_str().expect("text"),
        "--server-dir",
        server.to_str().expect("text"),
        "--agent-dir",
        agent.to_str().expect("text"),
    ]);
    assert!(output.status.success(), "{output:?}");
    let archive = fs::File::open(&file).expect("a bundle");
    let mut all = String::new();
    flate2::read::GzDecoder::new(archive)
        .read_to_string(&mut all)
        .expect("text");
    assert!(all.len() < 64 << 20);
    assert!(!all.contains(planted), "a planted secret is in the bundle");
    assert!(!all.contains(&key), "a key is in the bundle");
    assert!(!all.contains("PRIVATE KEY"), "a key is in the bundle");
    for kept in [
        "kept-image:1",
        "status.json",
        "pki/ca.key",
        "readyz check passed",
    ] {
        assert!(all.contains(kept), "{kept} is not in the bundle");
    }
}
