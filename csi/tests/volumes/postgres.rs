//! PostgreSQL with checksums on a volume, while its processes, the driver and the node
//! crash at random: no acknowledged transaction is lost, and no page is damaged.
//!
//! A crash of the node is what the disk held at one moment: the image is copied by
//! reflink under load, and the volume goes on from the copy. What this cannot show is a
//! disk that loses what it was told to flush.
//!
//! `ORLOP_POSTGRES_CRASHES` is the number of crashes, `ORLOP_POSTGRES_SEED` their order.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use csi::device::loop_device;
use csi::filesystem::mounts;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::disk::{Disk, isolate, missing};
use super::process::Process;

const CRASHES: u64 = 20;
const CLIENTS: usize = 3;
const VOLUME: &str = "pgdata";
const SIZE: i64 = 640 << 20;
/// How long the server may take to start, recovery included.
const PATIENCE: Duration = Duration::from_secs(60);
/// After how many crashes all pages are read.
const CHECK_EVERY: u64 = 10;

/// What crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crash {
    /// All processes of the server.
    Server,
    /// The driver, below a server that goes on.
    Driver,
    /// Both, and what the kernel had not written.
    Node,
}

/// Programs of PostgreSQL, and who runs them.
struct Installation {
    programs: PathBuf,
    uid: u32,
    gid: u32,
}

impl Installation {
    fn find() -> Option<Self> {
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

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
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

    /// Runs a program to its end and returns what it printed.
    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self
            .command(program)
            .args(arguments)
            .output()
            .expect(program);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {text}{errors}"
        );
        text
    }
}

/// A database on a volume.
struct Database {
    installation: Installation,
    /// Where the volume is published.
    target: PathBuf,
    staging: PathBuf,
    image: PathBuf,
    /// Folder of the server's socket.
    run: PathBuf,
    log: PathBuf,
    driver: Process,
    server: Option<Child>,
}

/// Connections that insert, each a row after the other is acknowledged.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// How many transactions of each client are acknowledged.
type Acknowledged = Arc<[AtomicU64; CLIENTS]>;

fn counts(acknowledged: &Acknowledged) -> [u64; CLIENTS] {
    std::array::from_fn(|client| acknowledged[client].load(Ordering::SeqCst))
}

impl Database {
    fn create(disk: &Disk, installation: Installation) -> Self {
        let folder = disk.beside("postgres");
        // The server is another user.
        let passable = fs::Permissions::from_mode(0o755);
        let root = folder.parent().expect("a parent");
        fs::set_permissions(root, passable).expect("permissions");
        let class = format!("backend: file, path: {}", disk.path().display());
        let driver = Process::start(&folder, &class);
        let volume = driver.create(VOLUME, SIZE, None);
        let image = disk.path().join("volumes").join(format!("{volume}.img"));
        let (staging, target, run) = (
            folder.join("staging"),
            folder.join("target"),
            folder.join("run"),
        );
        for path in [&staging, &run] {
            fs::create_dir(path).expect("folder");
        }
        chown(&run, Some(installation.uid), Some(installation.gid)).expect("owner");
        let database = Self {
            target,
            staging,
            image,
            log: run.join("postgres.log"),
            run,
            driver,
            installation,
            server: None,
        };
        database.publish();
        let data = database.data();
        fs::create_dir(&data).expect("folder");
        let (uid, gid) = (database.installation.uid, database.installation.gid);
        chown(&data, Some(uid), Some(gid)).expect("owner");
        let data = data.display().to_string();
        let arguments = [
            "-D", &data, "-k", "-A", "trust", "-U", "postgres", "-E", "UTF8",
        ];
        database.installation.run("initdb", &arguments);
        database
    }

    fn data(&self) -> PathBuf {
        self.target.join("data")
    }

    fn publish(&self) {
        self.driver.publish(VOLUME, &self.staging, &self.target);
    }

    fn start(&mut self) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .expect("log");
        let mut command = self.installation.command("postgres");
        command.arg("-D").arg(self.data());
        for setting in [
            "listen_addresses=",
            &format!("unix_socket_directories={}", self.run.display()),
            "shared_buffers=16MB",
            "max_wal_size=48MB",
            "min_wal_size=32MB",
            "checkpoint_timeout=30s",
            "max_connections=20",
        ] {
            command.arg("-c").arg(setting);
        }
        let server = command
            .stdout(log.try_clone().expect("log"))
            .stderr(log)
            .spawn();
        self.server = Some(server.expect("postgres"));
        let begun = Instant::now();
        loop {
            let ready = self
                .psql()
                .arg("-c")
                .arg("SELECT 1")
                .output()
                .expect("psql");
            if ready.status.success() {
                return;
            }
            let log = || fs::read_to_string(&self.log).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "no server: {}", log());
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    fn psql(&self) -> Command {
        psql(&self.installation, &self.run)
    }

    fn query(&self, text: &str) -> String {
        let output = self.psql().arg("-c").arg(text).output().expect("psql");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}: {errors}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Ends all processes of the server with a signal.
    fn end(&mut self, signal: Signal) {
        let Some(mut server) = self.server.take() else {
            return;
        };
        // Each has a session of its own.
        let children = children(server.id());
        kill(pid(server.id()), signal).expect("a signal");
        if signal == Signal::SIGKILL {
            for child in &children {
                // It may have ended by itself.
                let _ = kill(pid(*child), signal);
            }
        }
        server.wait().expect("an end");
        let begun = Instant::now();
        while children.iter().any(|child| is_alive(*child)) {
            assert!(begun.elapsed() < PATIENCE, "{children:?} do not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn load(&self, acknowledged: &Acknowledged) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |client: usize| {
            let child = self
                .psql()
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn();
            let (child, stop) = (child.expect("psql"), stop.clone());
            let acknowledged = acknowledged.clone();
            std::thread::spawn(move || insert(child, client, &acknowledged[client], &stop))
        };
        let threads = (0..CLIENTS).map(start).collect();
        Load { stop, threads }
    }

    /// Crashes something under load and brings it back.
    fn crash(&mut self, crash: Crash, load: Load, acknowledged: &Acknowledged) {
        match crash {
            Crash::Server => {
                self.end(Signal::SIGKILL);
                load.end();
                self.start();
            }
            Crash::Driver => {
                self.driver.kill();
                let before = counts(acknowledged);
                self.driver.restart();
                self.publish();
                std::thread::sleep(Duration::from_millis(200));
                let after = counts(acknowledged);
                assert_ne!(before, after, "the server goes on without its driver");
                load.end();
            }
            Crash::Node => {
                let cut = self.image.with_extension("cut");
                let before = counts(acknowledged);
                let copied = Command::new("cp")
                    .arg("--reflink=always")
                    .args([&self.image, &cut])
                    .status();
                assert!(copied.expect("cp").success());
                self.end(Signal::SIGKILL);
                load.end();
                self.driver.kill();
                mounts::unmount_all(&self.target).expect("unmounted");
                mounts::unmount_all(&self.staging).expect("unmounted");
                loop_device::detach(&self.image).expect("detached");
                fs::rename(&cut, &self.image).expect("renamed");
                // What was acknowledged after the copy is not of this disk.
                for (client, count) in before.into_iter().enumerate() {
                    acknowledged[client].store(count, Ordering::SeqCst);
                }
                self.driver.restart();
                self.publish();
                self.start();
            }
        }
    }

    /// Checks that all that was acknowledged is there, whole and in order; what was on its
    /// way may be there, too, and is acknowledged from now on.
    fn check(&self, acknowledged: &Acknowledged, crash: Crash, what: &dyn fmt::Display) {
        for client in 0..CLIENTS {
            let of_client = format!(
                "SELECT count(*), coalesce(max(n), 0), count(DISTINCT n) FROM log WHERE client = {client} AND payload = repeat(md5(n::text), 16)"
            );
            let answer = self.query(&of_client);
            let numbers: Vec<u64> = answer.split('|').filter_map(|it| it.parse().ok()).collect();
            let least = acknowledged[client].load(Ordering::SeqCst);
            let [count, last, distinct] = numbers[..] else {
                panic!("{answer}");
            };
            assert_eq!(
                (count, distinct),
                (last, last),
                "{what}: rows of client {client}"
            );
            assert!(
                last >= least,
                "{what}: client {client} has {last} of {least} rows"
            );
            if crash != Crash::Node {
                assert!(
                    last <= least + 1,
                    "{what}: client {client} sends one at a time"
                );
            }
            acknowledged[client].store(last, Ordering::SeqCst);
        }
        let sums = self.query("SELECT (SELECT sum(n) FROM account) = (SELECT count(*) FROM log)");
        assert_eq!(sums, "t", "{what}: accounts and log differ");
        let run = self.run.display().to_string();
        let arguments = [
            "-h",
            &run,
            "-U",
            "postgres",
            "-d",
            "postgres",
            "--install-missing",
        ];
        self.installation.run("pg_amcheck", &arguments);
    }

    /// Reads all pages of a server that was stopped in order.
    fn check_pages(&mut self) {
        self.end(Signal::SIGINT);
        let data = self.data().display().to_string();
        let text = self
            .installation
            .run("pg_checksums", &["--check", "-D", &data]);
        assert!(text.contains("Bad checksums:  0"), "{text}");
        self.start();
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.server.is_some() {
            self.end(Signal::SIGKILL);
        }
    }
}

impl Load {
    fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().expect("no panic");
        }
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

fn psql(installation: &Installation, run: &Path) -> Command {
    let mut command = installation.command("psql");
    command
        .args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            "postgres",
        ])
        .arg("-h")
        .arg(run);
    command
}

/// Inserts row after row until told to stop, or the server is gone.
fn insert(mut child: Child, client: usize, acknowledged: &AtomicU64, stop: &AtomicBool) {
    let output = child.stdout.take().expect("output");
    let mut lines = BufReader::new(output).lines();
    let mut input: ChildStdin = child.stdin.take().expect("input");
    while !stop.load(Ordering::SeqCst) {
        let next = acknowledged.load(Ordering::SeqCst) + 1;
        let account = client as u64 * 100 + next % 100;
        // One statement is one transaction. Its row is printed after the commit.
        let sent = writeln!(
            input,
            "WITH paid AS (UPDATE account SET n = n + 1 WHERE id = {account}) INSERT INTO log VALUES ({client}, {next}, repeat(md5('{next}'), 16)) RETURNING n;"
        );
        if sent.and_then(|()| input.flush()).is_err() {
            break;
        }
        match lines.next() {
            Some(Ok(line)) if line == next.to_string() => {
                acknowledged.store(next, Ordering::SeqCst);
            }
            _ => break,
        }
    }
    drop(input);
    let _ = child.kill();
    let _ = child.wait();
}

/// Numbers that look random (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

fn number(variable: &str, usual: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn postgres_loses_nothing_when_server_driver_and_node_crash() {
    let lacks = missing(&["mkfs.xfs", "mkfs.ext4"]);
    let installation = Installation::find();
    let (None, Some(installation)) = (&lacks, installation) else {
        let lacks = lacks.unwrap_or_else(|| "Debian's `postgresql` is not installed".to_owned());
        println!("skipped: {lacks}");
        return;
    };
    isolate();
    let crashes = number("ORLOP_POSTGRES_CRASHES", CRASHES);
    let mut dice = Dice(number("ORLOP_POSTGRES_SEED", 1));
    let disk = Disk::new("xfs", 2048);
    let mut database = Database::create(&disk, installation);
    database.start();
    database.query(
        "CREATE TABLE log (client int, n bigint, payload text, PRIMARY KEY (client, n)); CREATE TABLE account (id int PRIMARY KEY, n bigint NOT NULL); INSERT INTO account SELECT i, 0 FROM generate_series(0, 299) i",
    );
    let acknowledged: Acknowledged = Arc::default();
    let mut done = [0_u64; 3];
    for number in 1..=crashes {
        let load = database.load(&acknowledged);
        std::thread::sleep(Duration::from_millis(200 + dice.below(1000)));
        let crash = [Crash::Server, Crash::Driver, Crash::Node][dice.below(3) as usize];
        done[crash as usize] += 1;
        database.crash(crash, load, &acknowledged);
        let what = format!("crash {number} ({crash:?})");
        database.check(&acknowledged, crash, &what);
        if number % CHECK_EVERY == 0 {
            database.check_pages();
        }
    }
    database.check_pages();
    let total: u64 = counts(&acknowledged).iter().sum();
    println!(
        "{crashes} crashes (server {}, driver {}, node {}): none of {total} acknowledged transactions lost, no page damaged",
        done[0], done[1], done[2]
    );
    assert!(total > crashes, "nothing was written");
    database.end(Signal::SIGINT);
    mounts::unmount_all(&database.target).expect("unmounted");
    mounts::unmount_all(&database.staging).expect("unmounted");
}
