//! A host for the agent: network and mount namespaces that end with this process, and a control
//! group; and clients of Services there.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::{Failure, ensure};

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// The host.
pub struct Host {
    /// The node's, and below it the agent's.
    group: PathBuf,
    /// Where this process was.
    home: PathBuf,
    scratch: PathBuf,
}

/// A running agent.
pub struct Agent {
    child: Child,
    log: BufReader<ChildStderr>,
    begun: Instant,
    group: PathBuf,
    /// What former agents used.
    before: Duration,
}

/// Asks a Service over UDP; two servers answer with their numbers.
pub struct Probe {
    socket: UdpSocket,
    service: (&'static str, u16),
}

/// How busy the machine is.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

// === impl Host ===

impl Host {
    /// A host; none where there cannot be one.
    ///
    /// To be called while this process has one thread.
    pub fn new() -> Result<Option<Self>, Failure> {
        let Some((root, home)) = cgroup2().filter(|_| nix::unistd::geteuid().is_root()) else {
            return Ok(None);
        };
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)?;
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        let name = format!("orlop-bench-{}", std::process::id());
        let scratch = std::env::temp_dir().join(&name);
        fs::create_dir_all(&scratch)?;
        node_agent_datapath::ensure_bpffs(&scratch)?;
        let group = root.join(&name);
        fs::create_dir_all(group.join("agent"))?;
        fs::create_dir_all(group.join("clients"))?;
        let host = Self {
            group,
            home,
            scratch,
        };
        enter(&host.group.join("clients"))?;
        ip("link set lo up")?;
        Ok(Some(host))
    }

    /// A file of this text.
    pub fn file(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let folder = std::env::temp_dir().join(format!("orlop-bench-{}-files", std::process::id()));
        fs::create_dir_all(&folder)?;
        let path = folder.join(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    fn pins(&self) -> PathBuf {
        self.scratch.join("orlop")
    }

    /// Starts the agent in a control group of its own.
    pub fn start(&self, program: &Path, kubeconfig: &Path) -> Result<Agent, Failure> {
        let group = self.group.join("agent");
        let script = "echo $$ > \"$0\"/cgroup.procs && exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&group).arg(program);
        command
            .args(["node-agent", "--datapath-only", "--node-name"])
            .arg(super::objects::NODE)
            .args(["--healthz-bind-address=off", "--metrics-bind-address=off"])
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--cgroup")
            .arg(&self.group)
            .arg("--pin-dir")
            .arg(self.pins());
        let (begun, before) = (Instant::now(), used(&group)?);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let log = child.stderr.take().ok_or("the agent has no log")?;
        Ok(Agent {
            child,
            log: BufReader::new(log),
            begun,
            group,
            before,
        })
    }

    /// Do the maps hold so many Services, the probe's beside them?
    pub fn check(&self, services: usize, endpoints: usize) -> Result<(), Failure> {
        let maps = node_agent_datapath::inspect(&self.pins())?.maps;
        ensure(
            maps.services.len() > services && maps.names.len() > services,
            format!("the maps hold {} entries of services", maps.services.len()),
        )?;
        ensure(
            maps.slots.len() == services * endpoints + 1,
            format!("the maps hold {} endpoints", maps.slots.len()),
        )
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = enter(&self.home);
        for folder in ["agent", "clients", ""] {
            let _ = fs::remove_dir(self.group.join(folder));
        }
        let _ = umount2(&self.scratch, MntFlags::MNT_DETACH);
        let _ = fs::remove_dir(&self.scratch);
        let files = self
            .scratch
            .with_file_name(format!("orlop-bench-{}-files", std::process::id()));
        let _ = fs::remove_dir_all(files);
    }
}

/// Where cgroup2 is mounted, and this process in it.
fn cgroup2() -> Option<(PathBuf, PathBuf)> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let root = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, place, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(place))
    })?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let home = root.join(own);
    Some((root, home))
}

fn enter(group: &Path) -> Result<(), Failure> {
    let id = std::process::id().to_string();
    Ok(fs::write(group.join("cgroup.procs"), id)?)
}

fn ip(arguments: &str) -> Result<(), Failure> {
    let status = Command::new("ip").args(arguments.split(' ')).status()?;
    ensure(status.success(), format!("ip {arguments}"))
}

/// The processor time of a control group.
fn used(group: &Path) -> Result<Duration, Failure> {
    let text = fs::read_to_string(group.join("cpu.stat"))?;
    let micros = text
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "));
    let micros = micros.ok_or("cpu.stat has no usage_usec")?;
    Ok(Duration::from_micros(micros.parse()?))
}

// === impl Agent ===

impl Agent {
    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it says so: how long that took from the start, and what it said.
    pub fn until(&mut self, text: &str) -> Result<(Duration, String), Failure> {
        let mut all = String::new();
        let mut line = String::new();
        while self.begun.elapsed() < PATIENCE {
            line.clear();
            if self.log.read_line(&mut line)? == 0 {
                break;
            }
            let took = self.begun.elapsed();
            if let Some((_, said)) = line.split_once(text) {
                return Ok((took, said.trim().to_owned()));
            }
            all.push_str(&line);
        }
        Err(format!("the agent did not say {text:?}: {all}").into())
    }

    /// The processor time that it has used.
    pub fn used(&self) -> Result<Duration, Failure> {
        Ok(used(&self.group)? - self.before)
    }

    /// Its memory, in words.
    pub fn memory(&self) -> Result<String, Failure> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|it| it.trim().trim_end_matches(" kB").parse::<u64>().ok());
            format!("{:.1}", kib.unwrap_or_default() as f64 / 1024.0)
        };
        let (all, own, files, most) = (of("VmRSS:"), of("RssAnon:"), of("RssFile:"), of("VmHWM:"));
        Ok(format!(
            "{all} MiB ({own} of its own, {files} of files; at most {most})"
        ))
    }

    /// Tells it to end and waits for that.
    pub fn end(mut self) -> Result<(), Failure> {
        kill(Pid::from_raw(i32::try_from(self.id())?), Signal::SIGTERM)?;
        // It must not be stopped by a log that nobody reads.
        let mut line = String::new();
        while self.log.read_line(&mut line)? > 0 {
            line.clear();
        }
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl Probe ===

impl Probe {
    /// A client of a Service at an address and port, and a server at each of its
    /// endpoints' places, with their port.
    pub fn new(
        (address, port, target): (&'static str, u16, u16),
        places: [&str; 2],
    ) -> Result<Self, Failure> {
        for (number, place) in (0_u8..).zip(places) {
            ip(&format!("addr add {place}/32 dev lo"))?;
            let server = UdpSocket::bind((place, target))?;
            std::thread::spawn(move || {
                let mut question = [0; 16];
                while let Ok((_, client)) = server.recv_from(&mut question) {
                    let _ = server.send_to(&[number], client);
                }
            });
        }
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        Ok(Self {
            socket,
            service: (address, port),
        })
    }

    /// Asks once; who answered.
    pub fn asks(&mut self) -> Result<Option<usize>, Failure> {
        self.socket.send_to(b"?", self.service)?;
        let mut answer = [0; 16];
        match self.socket.recv_from(&mut answer) {
            Ok(_) => Ok(Some(answer[0].into())),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks until this one answers.
    pub fn until(&mut self, number: usize) -> Result<(), Failure> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if self.asks()? == Some(number) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Err("the Service's new endpoint does not answer".into())
    }
}
