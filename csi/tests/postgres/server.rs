//! Debian's PostgreSQL: its programs, and a server that can be killed with all its processes.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a program or a start may take, recovery included.
const PATIENCE: Duration = Duration::from_secs(60);

/// Programs of PostgreSQL, and who runs them.
pub struct Installation {
    programs: PathBuf,
    pub uid: u32,
    pub gid: u32,
}

impl Installation {
    pub fn find() -> Option<Self> {
        let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
            .ok()?
            .flatten()
            .map(|entry| entry.path().join("bin"))
            .filter(|path| path.join("postgres").exists() && path.join("pg_amcheck").exists())
            .collect();
        versions.sort();
        let users = fs::read_to_string("/etc/passwd").ok()?;
        let user = users.lines().find(|line| line.starts_with("postgres:"))?;
        let mut fields = user.split(':').skip(2);
        Some(Self {
            programs: versions.pop()?,
            uid: fields.next()?.parse().ok()?,
            gid: fields.next()?.parse().ok()?,
        })
    }

    fn as_user(&self, mut command: Command) -> Command {
        command
            .uid(self.uid)
            .gid(self.gid)
            .current_dir("/")
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        command
    }

    /// A program that is ended when it does not end in time.
    fn bounded(&self, program: &str) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=1", &PATIENCE.as_secs().to_string()])
            .arg(self.programs.join(program));
        self.as_user(command)
    }

    /// Runs a program to its end and returns what it printed.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.bounded(program).args(arguments).output();
        let output = output.expect(program);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {text}{errors}"
        );
        text
    }

    /// psql, for a server whose socket is in `run`.
    pub fn psql(&self, run: &Path) -> Command {
        let mut command = self.bounded("psql");
        command
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"])
            .args(["-U", "postgres", "-h"])
            .arg(run);
        command
    }

    /// Starts a server and waits until it answers.
    pub fn start(&self, data: &Path, run: &Path) -> Server {
        let path = run.join("postgres.log");
        let log = fs::File::options().create(true).append(true).open(&path);
        let log = log.expect("log");
        let mut command = self.as_user(Command::new(self.programs.join("postgres")));
        command.arg("-D").arg(data);
        for setting in [
            "listen_addresses=",
            &format!("unix_socket_directories={}", run.display()),
            "shared_buffers=16MB",
            "max_wal_size=48MB",
            "min_wal_size=32MB",
            "checkpoint_timeout=30s",
            "max_connections=20",
        ] {
            command.arg("-c").arg(setting);
        }
        let child = command
            .stdout(log.try_clone().expect("log"))
            .stderr(log)
            .spawn();
        let mut server = Server(child.expect("postgres"));
        let begun = Instant::now();
        loop {
            let asked = self.psql(run).args(["-c", "SELECT 1"]).output();
            if asked.expect("psql").status.success() {
                return server;
            }
            let log = || fs::read_to_string(&path).unwrap_or_default();
            let ended = server.0.try_wait().expect("a server");
            assert!(ended.is_none(), "the server ended: {}", log());
            assert!(begun.elapsed() < PATIENCE, "no server: {}", log());
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

/// A server; it is killed with the value.
pub struct Server(Child);

impl Server {
    /// Kills all processes as `kill -9` does.
    pub fn kill(mut self) {
        self.end_all();
    }

    /// Ends it in order.
    pub fn stop(mut self) {
        // "Fast": clients are sent away, and a checkpoint is written.
        kill(pid(self.0.id()), Signal::SIGINT).expect("a signal");
        let begun = Instant::now();
        while self.0.try_wait().expect("a server").is_none() {
            assert!(begun.elapsed() < PATIENCE, "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn end_all(&mut self) {
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        let own = self.0.id();
        // It starts no others then.
        let _ = kill(pid(own), Signal::SIGSTOP);
        // Each has a session of its own.
        let all = children(own);
        for child in &all {
            // It may have ended by itself.
            let _ = kill(pid(*child), Signal::SIGKILL);
        }
        let _ = kill(pid(own), Signal::SIGKILL);
        let _ = self.0.wait();
        let begun = Instant::now();
        while all.iter().any(|child| is_alive(*child)) && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end_all();
    }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).expect("an id"))
}

/// State and parent of a process.
fn stat(id: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

fn is_alive(id: u32) -> bool {
    stat(id).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| stat(*id).is_some_and(|(_, of)| of == parent))
        .collect()
}
