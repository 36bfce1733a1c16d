//! `cargo xtask up --host`: the one node is this machine itself, with its own
//! container runtime and network; and `down` for it.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{down, node_dir};
use crate::{
    build,
    error::{Error, at},
    images,
    run::{Step, output, print_step, run, target, wait_until},
    setup,
};

/// The node's name, as with test hosts.
const NAME: &str = "node-1";
/// The machine's container runtime.
const CONTAINERD: &str = "/run/containerd/containerd.sock";
/// Names the process of `orlop up` and its program, in the state folder.
const RECORD: &str = "host.pid";

/// The files that `up` creates in a state folder.
const FILES: [&str; 6] = [
    RECORD,
    "admin.kubeconfig",
    "agent",
    "nodes",
    "orlop.log",
    "server",
];

/// The options of the cluster.
struct Options {
    /// The state folder.
    dir: PathBuf,
    /// Stop once the node is ready, without the show.
    no_demo: bool,
    /// Folder of `orlop` and `orlop-cni`.
    programs: PathBuf,
}

/// Whether the cluster in `dir` is one of this machine itself.
pub fn is_one(dir: &Path) -> bool {
    dir.join(RECORD).exists()
}

/// Starts the cluster, demonstrates it, and leaves it running. Without a folder of
/// programs, they are built.
///
/// # Errors
/// The first thing that is missing or fails; what was started is stopped again, the logs
/// stay.
pub fn up(dir: &Path, no_demo: bool, programs: Option<&Path>) -> Result<(), Error> {
    if programs.is_none() {
        setup::setup()?;
        build::build(build::Profile::Release)?;
    }
    setup::check_kernel()?;
    let built = build::Profile::Release.folder();
    let programs = programs.unwrap_or(&built);
    let programs = fs::canonicalize(programs).map_err(at(programs))?;
    down::ensure_own(dir)?;
    fs::create_dir_all(dir).map_err(at(dir))?;
    let dir = &fs::canonicalize(dir).map_err(at(dir))?;
    if let Some(pid) = running(dir) {
        return Err(Error::State(format!(
            "a cluster of this machine is up in {} (process {pid}): `cargo xtask down` ends it",
            dir.display()
        )));
    }
    if !Path::new(CONTAINERD).exists() {
        return Err(Error::Missing {
            what: format!("a container runtime at {CONTAINERD}"),
            how: "install containerd and start it (`systemctl start containerd`), or leave --host \
                  out to have test hosts with their own"
                .to_owned(),
        });
    }
    let options = Options {
        dir: dir.clone(),
        no_demo,
        programs,
    };
    let folder = node_dir(dir, NAME);
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let result = start(&options, &folder);
    if result.is_err() {
        // Nothing half-started stays; the logs do.
        leave(dir, &options.programs.join("orlop"))?;
    }
    result
}

fn start(options: &Options, folder: &Path) -> Result<(), Error> {
    let dir = &options.dir;
    let started = Instant::now();
    let step = Step::begin("images, imported into this machine's containerd");
    let archive = images::build()?;
    ctr(&["images", "import", &archive.display().to_string()])?;
    let wanted = sandbox_image();
    if wanted != images::PAUSE {
        // The runtime would fetch it otherwise; ours does the same.
        ctr(&["images", "tag", "--force", images::PAUSE, &wanted])?;
    }
    let socket = folder.join("containerd.sock");
    let _ = fs::remove_file(&socket);
    symlink(CONTAINERD, &socket).map_err(at(&socket))?;
    step.done();

    let step = Step::begin("server and agent");
    let log = dir.join("orlop.log");
    let file = File::create(&log).map_err(at(&log))?;
    let kubeconfig = dir.join("admin.kubeconfig");
    let _ = fs::remove_file(&kubeconfig);
    let mut child = Command::new("setsid")
        .arg(options.programs.join("orlop"))
        .args(["up", "--node-name", NAME, "--data-dir"])
        .arg(dir.join("server"))
        .arg("--agent-dir")
        .arg(dir.join("agent"))
        .arg("--write-kubeconfig")
        .arg(&kubeconfig)
        .stdin(Stdio::null())
        .stdout(file.try_clone().map_err(at(&log))?)
        .stderr(file)
        .spawn()
        .map_err(at(&log))?;
    let program = options.programs.join("orlop").display().to_string();
    let record = dir.join(RECORD);
    fs::write(&record, format!("{}\n{program}\n", child.id())).map_err(at(&record))?;
    let mut ended = false;
    wait_until("the API server", Duration::from_secs(30), &log, || {
        ended = !matches!(child.try_wait(), Ok(None));
        ended || kubeconfig.exists()
    })?;
    if ended {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let last = text.lines().last().unwrap_or("see its log").to_owned();
        return Err(Error::State(last));
    }
    step.done();
    print_step(format!("kubeconfig: {}", kubeconfig.display()));

    let mut demo = Command::new(options.programs.join("orlop"));
    demo.args([
        "demo",
        "--nodes",
        "1",
        "--image",
        images::DEMO,
        "--kubeconfig",
    ])
    .arg(&kubeconfig);
    if options.no_demo {
        demo.arg("--only-wait");
    }
    demo.arg("--client")
        .arg(target().join("images/x86_64-unknown-linux-gnu/release/demo"));
    run(&mut demo)?;
    print_step(format!("up after {:.1} s", started.elapsed().as_secs_f64()));
    Ok(())
}

/// Stops the cluster and removes its traces from the machine; with `keep_state` the
/// server's store and keys stay.
///
/// # Errors
/// What cannot be removed.
pub fn down(dir: &Path, keep_state: bool) -> Result<(), Error> {
    let started = Instant::now();
    let record = fs::read_to_string(dir.join(RECORD)).map_err(at(dir))?;
    leave(dir, Path::new(record.lines().nth(1).unwrap_or("orlop")))?;
    down::remove(dir, &FILES, keep_state)?;
    print_step(format!(
        "this machine is no cluster any more after {:.1} s",
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// Stops the process and removes a node's traces from its machine.
fn leave(dir: &Path, orlop: &Path) -> Result<(), Error> {
    end(dir)?;
    output(
        Command::new(orlop)
            .args(["reset", "--yes", "--foreign-pods", "keep"])
            .args(["--node-name", NAME, "--data-dir"])
            .arg(dir.join("agent")),
    )
    .map(drop)
}

/// Ends the process, politely first: it takes its DNS address off.
fn end(dir: &Path) -> Result<(), Error> {
    for (signal, patience) in [(Signal::SIGTERM, 400), (Signal::SIGKILL, 100)] {
        let Some(pid) = running(dir) else {
            break;
        };
        let _ = kill(Pid::from_raw(pid), signal);
        for _ in 0..patience {
            if running(dir).is_none() {
                break;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
    }
    match running(dir) {
        None => Ok(()),
        Some(pid) => Err(Error::State(format!(
            "the process {pid} of `orlop up` does not end"
        ))),
    }
}

/// Prints whether the cluster of this machine itself runs.
///
/// # Errors
/// When it does not.
pub fn status(dir: &Path) -> Result<(), Error> {
    println!("kubeconfig {}", dir.join("admin.kubeconfig").display());
    match running(dir) {
        Some(pid) => {
            println!("{NAME:<10} this machine up, process {pid}");
            Ok(())
        }
        None => Err(Error::State("down: `orlop up` of this machine".to_owned())),
    }
}

/// The process of `orlop up`, if it runs: its number may have been given to
/// another process since.
fn running(dir: &Path) -> Option<i32> {
    let record = fs::read_to_string(dir.join(RECORD)).ok()?;
    let pid: i32 = record.lines().next()?.parse().ok()?;
    let line = words_of(pid)?;
    let server = dir.join("server");
    let is_ours = line
        .split(|byte| *byte == 0)
        .any(|word| word == server.as_os_str().as_encoded_bytes());
    is_ours.then_some(pid)
}

/// Returns the command line of a process; `None` if there is none, or it has ended.
/// During an exec it is empty for a moment.
fn words_of(pid: i32) -> Option<Vec<u8>> {
    for _ in 0..50 {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let is_zombie = stat.rsplit(')').next()?.trim_start().starts_with('Z');
        if is_zombie || !line.is_empty() {
            return Some(line);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

fn ctr(arguments: &[&str]) -> Result<(), Error> {
    output(
        Command::new("ctr")
            .args(["--address", CONTAINERD, "--namespace", "k8s.io"])
            .args(arguments),
    )
    .map(drop)
}

/// The image of sandboxes that the machine's containerd is configured with.
fn sandbox_image() -> String {
    let config = output(Command::new("containerd").args(["config", "dump"])).unwrap_or_default();
    sandbox_of(&config).unwrap_or_else(|| images::PAUSE.to_owned())
}

/// `sandbox_image = "…"` (containerd 1), `sandbox = "…"` of pinned images (2).
fn sandbox_of(config: &str) -> Option<String> {
    config.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']);
        let named = matches!(key.trim(), "sandbox_image" | "sandbox");
        (named && value.contains(':')).then(|| value.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sandbox_image_is_found_in_both_forms_of_the_configuration() {
        let one = "    sandbox_image = \"registry.k8s.io/pause:3.6\"\n";
        assert_eq!(
            sandbox_of(one).as_deref(),
            Some("registry.k8s.io/pause:3.6")
        );
        let two = "      sandboxer = 'podsandbox'\n      sandbox = 'registry.k8s.io/pause:3.10'\n";
        assert_eq!(
            sandbox_of(two).as_deref(),
            Some("registry.k8s.io/pause:3.10")
        );
        assert_eq!(sandbox_of("version = 2\n"), None);
    }

    #[test]
    fn a_number_that_another_process_has_now_is_none_of_ours() {
        let dir = tempfile::tempdir().expect("temporary folder");
        assert!(!is_one(dir.path()));
        fs::write(dir.path().join(RECORD), std::process::id().to_string()).expect("written");
        assert!(is_one(dir.path()));
        assert_eq!(running(dir.path()), None);
    }
}
