//! Faults of servers, done and undone.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, SystemTime},
};

use ::tests::{Cluster, Failure, ensure, eventually, load::Load, machine, report::skip};
use control_pki::{Authority, EtcdPki, Spec, Usage, write_private, write_public};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::Deserialize;

use super::plan::{Cycle, Fault, Partition, Program, SERVERS, Server};
use crate::scenarios::clock;

/// How many bytes of the disk of each server's data a cluster of the drill's own has.
const DISK: &str = "size=1g,mode=755";
/// How long expired certificates may stay.
const RENEWAL: Duration = Duration::from_secs(40);

/// Undoes a fault when it is dropped.
struct Undo<'a> {
    faults: &'a Faults<'a>,
    how: How,
}

enum How {
    Links,
    Signals(Vec<i32>),
    Power(Vec<String>),
    File(PathBuf),
    Tracer(Child),
    Clock(Server),
}

/// The servers of a cluster, to which faults happen.
pub struct Faults<'a> {
    cluster: &'a Cluster,
    /// Whether each server has a disk of its own, which may be full.
    has_disks: bool,
}

/// Small disks for the servers of a cluster that is not up yet, until they are dropped. Programs
/// that run keep what they have open.
pub struct Disks(Vec<PathBuf>);

/// What `xtask up` writes down of a cluster.
#[derive(Deserialize)]
struct Record {
    lan: Option<i32>,
}

// === impl Disks ===

impl Disks {
    /// Mounts one for each server of the cluster that will be in `dir`.
    ///
    /// # Errors
    /// What the system says.
    pub fn mount(dir: &Path) -> Result<Self, Failure> {
        let mut disks = Self(Vec::new());
        for server in SERVERS {
            let folder = dir.join("server").join(name(server));
            fs::create_dir_all(&folder)?;
            nix::mount::mount(
                Some("tmpfs"),
                &folder,
                Some("tmpfs"),
                nix::mount::MsFlags::empty(),
                Some(DISK),
            )?;
            disks.0.push(folder);
        }
        Ok(disks)
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        for folder in &self.0 {
            let _ = nix::mount::umount2(folder, nix::mount::MntFlags::MNT_DETACH);
        }
    }
}

fn name(server: Server) -> String {
    format!("server-{server}")
}

/// What a program's command line contains.
fn words(program: Program) -> &'static [&'static str] {
    match program {
        Program::Server => &["orlop server", "--secure-port"],
        Program::Member => &["--initial-advertise-peer-urls"],
    }
}

// === impl Faults ===

impl<'a> Faults<'a> {
    /// The servers of a cluster.
    pub fn new(cluster: &'a Cluster, has_disks: bool) -> Self {
        Self { cluster, has_disks }
    }

    /// Lets a fault happen, and undoes it.
    ///
    /// # Errors
    /// A fault that cannot be made here, as skipped; one that cannot be undone.
    pub fn cycle(&self, cycle: Cycle, load: &Load) -> Result<(), Failure> {
        let Cycle { fault, lasts } = cycle;
        match fault {
            Fault::Partition(partition) => {
                let undo = self.partition(partition)?;
                sleep(lasts);
                undo.now()
            }
            Fault::Freeze(server, program) => {
                let pids = self.signal(server, program, Signal::SIGSTOP)?;
                let undo = self.undo(How::Signals(pids));
                sleep(lasts);
                undo.now()
            }
            Fault::Kill(server, program) => self.signal(server, program, Signal::SIGKILL).map(drop),
            Fault::Power(server) => {
                self.cluster.host("kill", &name(server))?;
                let undo = self.undo(How::Power(vec![name(server)]));
                sleep(lasts);
                undo.now()
            }
            Fault::Majority(one, other) => {
                let undo = self.partition_all(&[Partition::Cut(one), Partition::Cut(other)])?;
                sleep(lasts);
                undo.now()
            }
            Fault::DiskFull(server) => {
                let undo = self.fill(server)?;
                sleep(lasts);
                undo.now()
            }
            Fault::SlowDisk(server) => {
                let undo = self.slow_down(server)?;
                sleep(lasts);
                undo.now()
            }
            Fault::Clock(server, is_ahead) => self.clock(server, is_ahead, lasts, load),
            Fault::Certificates(server, program) => self.certificates(server, program),
            Fault::Replace(server) => {
                self.cluster.host("kill", &name(server))?;
                sleep(lasts);
                let asked = name(server % 3 + 1);
                self.cluster.replace_server(&name(server), &asked).map(drop)
            }
        }
    }

    fn undo(&self, how: How) -> Undo<'_> {
        Undo { faults: self, how }
    }

    fn partition(&self, partition: Partition) -> Result<Undo<'_>, Failure> {
        self.partition_all(&[partition])
    }

    fn partition_all(&self, partitions: &[Partition]) -> Result<Undo<'_>, Failure> {
        let undo = self.undo(How::Links);
        self.filter(&ruleset(partitions))?;
        Ok(undo)
    }

    /// Gives rules to the bridge between the hosts.
    fn filter(&self, rules: &str) -> Result<(), Failure> {
        let text = fs::read(self.cluster.dir.join("cluster.json"))?;
        let record: Record = serde_json::from_slice(&text)?;
        let lan = record.lan.ok_or("the cluster has no bridge")?;
        let mut child = Command::new("nsenter")
            .args([
                "--net",
                "--target",
                &lan.to_string(),
                "--",
                "nft",
                "-f",
                "-",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(rules.as_bytes())?;
        }
        let done = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure(done.status.success(), format!("nft: {said}"))
    }

    /// Sends a signal to a program; returns its processes.
    fn signal(
        &self,
        server: Server,
        program: Program,
        signal: Signal,
    ) -> Result<Vec<i32>, Failure> {
        // One that is being started again is waited for.
        let what = format!("the {program} of {}", name(server));
        let pids = eventually(&what, 30, || {
            let pids = machine::processes_of(&self.cluster.dir, &name(server), words(program));
            ensure(!pids.is_empty(), "it does not run")?;
            Ok(pids)
        })?;
        for pid in &pids {
            let _ = kill(Pid::from_raw(*pid), signal);
        }
        Ok(pids)
    }

    fn data(&self, server: Server) -> PathBuf {
        self.cluster.dir.join("server").join(name(server))
    }

    /// Fills the disk, so that not a byte is left.
    fn fill(&self, server: Server) -> Result<Undo<'_>, Failure> {
        if !self.has_disks {
            return skip("the servers' disks are the machine's");
        }
        let path = self.data(server).join("filler");
        let undo = self.undo(How::File(path.clone()));
        let mut file = fs::File::create(path)?;
        let mut block = vec![1; 1 << 20];
        while !block.is_empty() {
            if file.write_all(&block).is_err() {
                block.truncate(block.len() / 2);
            }
        }
        Ok(undo)
    }

    /// Has every flush of the member take half a second.
    fn slow_down(&self, server: Server) -> Result<Undo<'_>, Failure> {
        let pids = self.signal(server, Program::Member, Signal::SIGCONT)?;
        let mut command = Command::new("strace");
        for pid in pids {
            command.args(["-p", &pid.to_string()]);
        }
        command
            .args([
                "-f",
                "-qq",
                "-o",
                "/dev/null",
                "-e",
                "trace=fdatasync,fsync",
            ])
            .args(["-e", "inject=fdatasync,fsync:delay_enter=500000"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => Ok(self.undo(How::Tracer(child))),
            Err(_) => skip("no `strace` on the PATH: apt-get install strace"),
        }
    }

    /// Starts a server with a clock that can be moved, and moves it away and back.
    fn clock(
        &self,
        server: Server,
        is_ahead: bool,
        lasts: Duration,
        load: &Load,
    ) -> Result<(), Failure> {
        if !Path::new(clock::LIBRARY).exists() {
            return skip(format!("`{}` is missing", clock::LIBRARY));
        }
        let folder = self.cluster.dir.join("nodes").join(name(server));
        let undo = self.undo(How::Clock(server));
        clock::set(&folder, "server", "+0")?;
        clock::prepare(&folder, "server")?;
        self.signal(server, Program::Server, Signal::SIGKILL)?;
        load.all_are_ready()?;
        clock::set(&folder, "server", if is_ahead { "+3600" } else { "-3600" })?;
        sleep(lasts);
        clock::set(&folder, "server", "+0")?;
        sleep(lasts / 2);
        undo.now()
    }

    /// Puts certificates that have expired in the place of a server's, and kills a program, so
    /// that it has to begin with them; waits until they are renewed.
    fn certificates(&self, server: Server, program: Program) -> Result<(), Failure> {
        let pki = self.data(server).join("pki");
        let etcd = EtcdPki::load_or_create(&pki)?;
        let cluster = Authority::load(&pki, "ca")?.ok_or("no authority")?;
        for (authority, file) in [
            (&etcd.ca, "etcd/server"),
            (&etcd.ca, "etcd/peer"),
            (&etcd.ca, "etcd/client"),
            (&cluster, "apiserver"),
        ] {
            expire(authority, &pki, file)?;
        }
        // The life of what was made is a second.
        sleep(Duration::from_millis(1100));
        self.signal(server, program, Signal::SIGKILL)?;
        eventually("certificates to be renewed", RENEWAL.as_secs(), || {
            for file in ["etcd/peer.crt", "apiserver.crt"] {
                let path = pki.join(file);
                let (_, end) = control_pki::validity(&fs::read_to_string(&path)?, &path)?;
                let is_valid = SystemTime::from(end) > SystemTime::now();
                ensure(is_valid, format!("{file} expired on {end}"))?;
            }
            Ok(())
        })
    }
}

/// Makes a certificate anew that lives for a second.
fn expire(authority: &Authority, pki: &Path, file: &str) -> Result<(), Failure> {
    let (certificate, key) = (
        pki.join(format!("{file}.crt")),
        pki.join(format!("{file}.key")),
    );
    let names = control_pki::names(&fs::read_to_string(&certificate)?, &certificate)?;
    let mut spec = Spec::server("expired", names);
    spec.usage = Usage::Both;
    spec.validity = Duration::from_secs(1);
    let issued = authority.issue(&spec)?;
    write_private(&key, issued.key_pem.as_bytes())?;
    Ok(write_public(&certificate, issued.cert_pem.as_bytes())?)
}

/// The rules of the bridge that drop the packets of these partitions.
fn ruleset(partitions: &[Partition]) -> String {
    let leg = |server: Server| format!("node{}", 200 + server);
    let mut rules = Vec::new();
    for partition in partitions {
        match *partition {
            Partition::Cut(one) => {
                rules.push(format!("iifname {} drop", leg(one)));
                rules.push(format!("oifname {} drop", leg(one)));
            }
            Partition::Mute(one) => rules.push(format!("iifname {} drop", leg(one))),
            Partition::Deaf(one) => rules.push(format!("oifname {} drop", leg(one))),
            Partition::Between(one, other) => {
                for (from, to) in [(one, other), (other, one)] {
                    rules.push(format!("iifname {} oifname {} drop", leg(from), leg(to)));
                }
            }
            Partition::OneWay(from, to) => {
                rules.push(format!("iifname {} oifname {} drop", leg(from), leg(to)));
            }
        }
    }
    let mut text = String::from("add table bridge drill\nflush table bridge drill\n");
    // Between hosts; from and to the bridge's own address, by which this machine reaches them.
    for (chain, hook, has) in [
        ("between", "forward", ["iifname", "oifname"].as_slice()),
        ("arriving", "input", &["iifname"]),
        ("leaving", "output", &["oifname"]),
    ] {
        text +=
            &format!("add chain bridge drill {chain} {{ type filter hook {hook} priority 0; }}\n");
        for rule in &rules {
            let names = ["iifname", "oifname"];
            if names
                .iter()
                .all(|it| !rule.contains(it) || has.contains(it))
            {
                text += &format!("add rule bridge drill {chain} {rule}\n");
            }
        }
    }
    text
}

// === impl Undo ===

impl Undo<'_> {
    fn now(mut self) -> Result<(), Failure> {
        self.perform()
    }

    fn perform(&mut self) -> Result<(), Failure> {
        let faults = self.faults;
        match std::mem::replace(&mut self.how, How::Signals(Vec::new())) {
            How::Links => faults.filter("add table bridge drill\ndelete table bridge drill\n"),
            How::Signals(pids) => {
                for pid in pids {
                    let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
                }
                Ok(())
            }
            How::Power(names) => names
                .iter()
                .try_for_each(|name| faults.cluster.host("start", name)),
            How::File(path) => Ok(fs::remove_file(path)?),
            How::Tracer(mut child) => {
                // It lets the process go before it ends.
                let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
                child.wait()?;
                Ok(())
            }
            How::Clock(server) => {
                let folder = faults.cluster.dir.join("nodes").join(name(server));
                clock::remove(&folder, "server")?;
                faults
                    .signal(server, Program::Server, Signal::SIGKILL)
                    .map(drop)
            }
        }
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        let _ = self.perform();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_drop_in_the_directions_that_they_name() {
        let deaf = ruleset(&[Partition::Deaf(1)]);
        assert!(
            deaf.contains("drill between oifname node201 drop"),
            "{deaf}"
        );
        assert!(
            deaf.contains("drill leaving oifname node201 drop"),
            "{deaf}"
        );
        assert!(!deaf.contains("iifname"), "{deaf}");
        let cut = ruleset(&[Partition::Cut(2)]);
        assert!(cut.contains("drill arriving iifname node202 drop"), "{cut}");
        let one_way = ruleset(&[Partition::OneWay(1, 3)]);
        let rule = "iifname node201 oifname node203 drop";
        assert_eq!(one_way.matches(rule).count(), 1, "{one_way}");
        assert!(
            one_way.contains(&format!("drill between {rule}")),
            "{one_way}"
        );
    }
}
