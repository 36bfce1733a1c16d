//! The first process of a test host.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::wait::{WaitPidFlag, WaitStatus, waitpid},
    unistd::{Pid, sethostname},
};

use super::{
    groups, relay,
    spec::{Host, Program},
};
use crate::error::{Error, at, while_doing};

/// Made by `up` in the host's folder once its leg is there.
const JOINED: &str = "/mnt/joined";

/// A folder: a program with a file of its name in it is not (re)started until the file is
/// removed.
const HELD: &str = "/mnt/held";

/// Variables of a program's environment, `NAME=VALUE` a line in a file named after it, read at
/// each of its starts.
const ENVIRONMENT: &str = "/mnt/environment";

/// How long a program that ended stays down.
const RESTART: Duration = Duration::from_millis(200);

/// Holds the namespace of the bridge until it is killed, and relays this machine's
/// loopback to the servers if its folder configures that.
///
/// # Errors
/// When its control group cannot be created.
pub fn hold(group: &str, folder: &Path) -> Result<(), Error> {
    groups::enter(group).map_err(at(Path::new("/sys/fs/cgroup")))?;
    relay::run(folder)?;
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// Makes this process the host in `folder`: control groups, mounts, names; then
/// keeps its programs running until it is killed.
///
/// # Errors
/// When the host cannot be set up. It then ends, and `up` shows its log.
pub fn first_process(folder: &Path) -> Result<(), Error> {
    let host = Host::load(folder)?;
    groups::enter(&host.group).map_err(at(Path::new("/sys/fs/cgroup")))?;
    sethostname(&host.name).map_err(while_doing("set the host name"))?;
    mounts(folder, &host)?;
    files(&host)?;
    let _ = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    wait_for_network();
    keep_running(&host.programs)
}

/// `up` connects the host to the bridge as soon as its namespace exists, and creates a
/// file; programs that need the node's address start after that.
fn wait_for_network() {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !Path::new(JOINED).exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn bind(source: &Path, target: &Path) -> Result<(), Error> {
    mount(
        Some(source),
        target,
        None::<&str>,
        MsFlags::MS_BIND | MsFlags::MS_REC,
        None::<&str>,
    )
    .map_err(while_doing(format!(
        "bind {} to {}",
        source.display(),
        target.display()
    )))
}

fn mount_new(kind: &str, target: &str, options: &str) -> Result<(), Error> {
    mount(
        Some(kind),
        target,
        Some(kind),
        MsFlags::empty(),
        Some(options),
    )
    .map_err(while_doing(format!("mount {kind} on {target}")))
}

fn make(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(at(folder))
}

fn mounts(folder: &Path, host: &Host) -> Result<(), Error> {
    mount(
        None::<&str>,
        "/",
        None::<&str>,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        None::<&str>,
    )
    .map_err(while_doing("make mounts private"))?;
    for name in ["logs", "tmp", "containerd", "pods", "state", "cgroup"] {
        make(&folder.join(name))?;
    }
    for name in ["etc", "var", "opt"] {
        make(&folder.join(name))?;
        make(&folder.join(format!("{name}.work")))?;
    }
    for (name, source) in &host.binds {
        let target = folder.join(name);
        make(&target)?;
        bind(Path::new(source), &target)?;
    }
    bind(folder, Path::new("/mnt"))?;

    // /sys has to show this network namespace, with the machine's control
    // groups; eBPF pins get a file system of their own, which ends with the host.
    bind(Path::new("/sys/fs/cgroup"), Path::new("/mnt/cgroup"))?;
    mount_new("sysfs", "/sys", "")?;
    bind(Path::new("/mnt/cgroup"), Path::new("/sys/fs/cgroup"))?;
    umount2("/mnt/cgroup", MntFlags::MNT_DETACH).map_err(while_doing("unmount /mnt/cgroup"))?;
    mount_new("bpf", "/sys/fs/bpf", "mode=700")?;

    // Writable copies of the machine's folders, and folders that must be plain disk.
    for name in ["etc", "var", "opt"] {
        mount_new(
            "overlay",
            &format!("/{name}"),
            &format!("lowerdir=/{name},upperdir=/mnt/{name},workdir=/mnt/{name}.work"),
        )?;
    }
    mount_new("tmpfs", "/run", "mode=755")?;
    for (source, target) in [
        ("containerd", "/var/lib/containerd"),
        ("pods", "/var/lib/kubelet"),
        ("state", "/var/lib/orlop"),
        ("tmp", "/tmp"),
    ] {
        make(Path::new(target))?;
        bind(&Path::new("/mnt").join(source), Path::new(target))?;
    }
    make(Path::new("/run/lock"))?;
    let tmp = Path::new("/tmp");
    fs::set_permissions(tmp, fs::Permissions::from_mode(0o1777)).map_err(at(tmp))?;
    mount(
        None::<&str>,
        "/",
        None::<&str>,
        MsFlags::MS_REC | MsFlags::MS_SHARED,
        None::<&str>,
    )
    .map_err(while_doing("share mounts within the host"))
}

fn files(host: &Host) -> Result<(), Error> {
    let name = &host.name;
    for (path, text) in [
        ("/etc/hostname", format!("{name}\n")),
        (
            "/etc/hosts",
            format!("127.0.0.1 localhost {name}\n::1 localhost\n"),
        ),
        // No resolver: names outside the cluster do not resolve on a test host.
        ("/etc/resolv.conf", String::new()),
    ] {
        let path = Path::new(path);
        fs::write(path, text).map_err(at(path))?;
    }
    // The machine's own CNI configuration is none of the host's.
    make(Path::new("/etc/cni"))?;
    mount_new("tmpfs", "/etc/cni", "mode=755")?;
    make(Path::new("/etc/cni/net.d"))?;
    make(Path::new("/opt/cni/bin"))
}

fn start(program: &Program) -> std::io::Result<i32> {
    let path = PathBuf::from(format!("/mnt/logs/{}.log", program.name));
    let mut log = File::options().create(true).append(true).open(path)?;
    writeln!(log, "--- start of {}", program.name)?;
    let mut command = if program.socket {
        // The shell knows its own number, which sd_listen_fds(3) wants, and
        // keeps it on exec. The socket arrives as standard input of this process.
        let mut command = Command::new("/bin/sh");
        command
            .args([
                "-c",
                "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\" 3<&0 </dev/null",
                "sh",
            ])
            .args(&program.command)
            .stdin(Stdio::inherit());
        command
    } else {
        let mut command = Command::new(&program.command[0]);
        command.args(&program.command[1..]).stdin(Stdio::null());
        command
    };
    let variables = Path::new(ENVIRONMENT).join(&program.name);
    for line in fs::read_to_string(variables).unwrap_or_default().lines() {
        if let Some((name, value)) = line.split_once('=') {
            command.env(name, value);
        }
    }
    let child = command
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()?;
    i32::try_from(child.id()).map_err(std::io::Error::other)
}

/// Starts the programs and starts each again when it ends; reaps what their
/// children leave. Ends only by a signal.
fn keep_running(programs: &[Program]) -> Result<(), Error> {
    let mut running: BTreeMap<i32, &Program> = BTreeMap::new();
    let mut due: Vec<(Instant, &Program)> = programs
        .iter()
        .map(|program| (Instant::now(), program))
        .collect();
    loop {
        let now = Instant::now();
        let (start_now, later): (Vec<_>, Vec<_>) = due.into_iter().partition(|(when, program)| {
            *when <= now && !Path::new(HELD).join(&program.name).exists()
        });
        due = later;
        for (_, program) in start_now {
            match start(program) {
                Ok(pid) => {
                    running.insert(pid, program);
                }
                Err(error) => {
                    eprintln!("{}: {error}", program.name);
                    due.push((now + RESTART, program));
                }
            }
        }
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)) => {
                if let Some(program) = running.remove(&pid.as_raw()) {
                    due.push((Instant::now() + RESTART, program));
                }
            }
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
