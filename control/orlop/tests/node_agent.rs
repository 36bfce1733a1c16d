//! Tests starts of `orlop node-agent` that must fail: each ends with code 1 and one line that
//! names the cause and the way out. The tests need root.

use std::{
    fs,
    net::TcpListener,
    os::unix::{fs::PermissionsExt, net::UnixListener, process::CommandExt},
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

use control_pki::{Authority, CertificateKeyPair, Spec, kubeconfig};
use nix::sched::{CloneFlags, unshare};

/// A folder with all that a start needs but a container runtime and an API
/// server: what is checked before anything is changed.
struct Machine {
    folder: tempfile::TempDir,
    authority: Authority,
}

impl Machine {
    fn new() -> Self {
        let machine = Self {
            folder: tempfile::tempdir().expect("temporary folder"),
            authority: Authority::create("test").expect("an authority"),
        };
        let everybody = fs::Permissions::from_mode(0o755);
        fs::set_permissions(machine.folder.path(), everybody).expect("permissions");
        machine.write("orlop-cni", "");
        machine.user(Duration::from_secs(3600));
        let serving = machine.issue(&Spec::server("node", ["node"]), Duration::from_secs(3600));
        machine.write("serving.crt", &serving.cert_pem);
        machine.write("serving.key", &serving.key_pem);
        machine.write("ca.crt", machine.authority.certificate_pem());
        drop(UnixListener::bind(machine.path("stale.sock")).expect("a socket"));
        machine
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("a file");
    }

    fn issue(&self, spec: &Spec, validity: Duration) -> CertificateKeyPair {
        let spec = Spec {
            validity,
            ..spec.clone()
        };
        self.authority.issue(&spec).expect("issued")
    }

    fn user(&self, validity: Duration) {
        let own = self.issue(
            &Spec::client("system:node:node", &["system:nodes"]),
            validity,
        );
        let ca = self.authority.certificate_pem();
        let text = kubeconfig("https://127.0.0.1:1", ca, &own, "test", "node");
        self.write("kubeconfig", &text);
    }

    fn arguments(&self, runtime: &str) -> Vec<String> {
        [
            ("--kubeconfig", "kubeconfig"),
            ("--cni-plugin", "orlop-cni"),
            ("--tls-cert-file", "serving.crt"),
            ("--tls-private-key-file", "serving.key"),
            ("--client-ca-file", "ca.crt"),
            ("--container-runtime-endpoint", runtime),
            ("--pin-dir", "pins"),
        ]
        .into_iter()
        .flat_map(|(option, file)| [option.to_owned(), self.path(file)])
        .chain(["--node-name", "node", "--node-ip", "127.0.0.1"].map(str::to_owned))
        .collect()
    }

    fn start(&self) -> Command {
        self.start_with("missing.sock")
    }

    fn start_with(&self, runtime: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orlop"));
        command.arg("node-agent").args(self.arguments(runtime));
        command
    }

    /// The same after `preparation` in a mount namespace of its own.
    fn start_after(&self, preparation: &str) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c"])
            .arg(format!("{preparation} && exec \"$@\""))
            .args(["sh", env!("CARGO_BIN_EXE_orlop"), "node-agent"])
            .args(self.arguments("missing.sock"));
        command
    }
}

fn root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        println!("skipped: needs root, as the node agent does");
    }
    root
}

/// Runs in a network of its own, so that ports are free; the one line printed.
fn refusal(command: &mut Command) -> String {
    thread::scope(|scope| {
        scope
            .spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
                refusal_here(command)
            })
            .join()
            .expect("thread")
    })
}

fn refusal_here(command: &mut Command) -> String {
    let output = command.env("ORLOP_LOG", "off").output().expect("started");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "one line: {text}");
    assert!(text.starts_with("orlop: "), "{text}");
    text
}

fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

#[test]
fn a_user_who_is_not_root_is_told_so() {
    if !root() {
        return;
    }
    let machine = Machine::new();
    // The build folder may be closed to others.
    let copy = machine.path("orlop");
    fs::copy(env!("CARGO_BIN_EXE_orlop"), &copy).expect("a copy");
    let mut command = Command::new(copy);
    command
        .arg("node-agent")
        .args(machine.arguments("missing.sock"));
    says(&refusal(command.uid(65534).gid(65534)), &["root"]);
}

#[test]
fn a_missing_and_a_stale_socket_of_the_runtime_are_named() {
    if !root() {
        return;
    }
    let machine = Machine::new();
    let way_out = "--container-runtime-endpoint";
    thread::scope(|scope| {
        scope.spawn(|| {
            let text = refusal(&mut machine.start());
            says(&text, &["missing.sock", "No such file", way_out]);
        });
        scope.spawn(|| {
            let text = refusal(&mut machine.start_with("stale.sock"));
            says(&text, &["stale.sock", "refused", way_out]);
        });
    });
    assert!(
        !Path::new(&machine.path("pins")).exists(),
        "nothing was begun"
    );
}

#[test]
fn an_unreadable_and_a_broken_kubeconfig_are_named() {
    if !root() {
        return;
    }
    let machine = Machine::new();
    fs::remove_file(machine.path("kubeconfig")).expect("removed");
    says(
        &refusal(&mut machine.start()),
        &[&machine.path("kubeconfig"), "No such file", "--kubeconfig"],
    );
    machine.write("kubeconfig", "}{");
    says(
        &refusal(&mut machine.start()),
        &[&machine.path("kubeconfig")],
    );
}

#[test]
fn expired_certificates_are_named_with_their_date() {
    if !root() {
        return;
    }
    let machine = Machine::new();
    let serving = machine.issue(&Spec::server("node", ["node"]), Duration::ZERO);
    machine.write("serving.crt", &serving.cert_pem);
    machine.write("serving.key", &serving.key_pem);
    thread::sleep(Duration::from_millis(1100));
    let path = machine.path("serving.crt");
    says(
        &refusal(&mut machine.start()),
        &[&path, "expired on", "orlop credentials node"],
    );
    machine.user(Duration::ZERO);
    thread::sleep(Duration::from_millis(1100));
    says(
        &refusal(&mut machine.start()),
        &[
            &machine.path("kubeconfig"),
            "expired on",
            "orlop credentials",
        ],
    );
}

#[test]
fn a_machine_without_cgroup2_or_type_information_is_told_so() {
    if !root() {
        return;
    }
    let machine = Machine::new();
    let unmount = "for m in $(awk '$3 == \"cgroup2\" {print $2}' /proc/self/mounts); \
                   do umount -l $m; done";
    says(
        &refusal(&mut machine.start_after(unmount)),
        &["cgroup2", "mount -t cgroup2"],
    );
    let hide = "mount -t tmpfs none /sys/kernel/btf";
    says(
        &refusal(&mut machine.start_after(hide)),
        &["/sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF"],
    );
    let mut command = machine.start();
    command.args(["--cgroup", "/tmp"]);
    says(&refusal(&mut command), &["`/tmp`", "--cgroup"]);
}

#[test]
fn an_occupied_port_is_named() {
    if !root() {
        return;
    }
    let machine = Machine::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            let _taken = TcpListener::bind("0.0.0.0:10250").expect("the port");
            says(
                &refusal_here(&mut machine.start()),
                &["0.0.0.0:10250", "end the kubelet"],
            );
        });
    });
}

#[test]
fn halves_of_a_key_pair_and_unknown_flags_are_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_orlop"))
        .args(["node-agent", "--kubeconfig", "f", "--tls-cert-file", "f"])
        .output()
        .expect("started");
    assert_eq!(output.status.code(), Some(2));
    says(
        &String::from_utf8_lossy(&output.stderr),
        &["--tls-private-key-file"],
    );
    let output = Command::new(env!("CARGO_BIN_EXE_orlop"))
        .args(["node-agent", "--kubeconfig", "f", "--no-such-flag"])
        .output()
        .expect("started");
    assert_eq!(output.status.code(), Some(2));
    says(
        &String::from_utf8_lossy(&output.stderr),
        &["--no-such-flag"],
    );
}
