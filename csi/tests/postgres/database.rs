//! A database on a volume, crashes of the layers below it, and the checks afterwards.

use std::fmt;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use csi_api as api;

use super::load::{Acknowledged, CLIENTS, Load, counts};
use super::machine::Machine;
use super::process::Process;
use super::server::{Installation, Server};

const VOLUME: &str = "pgdata";
const SNAPSHOT: &str = "pgsnap";
const SIZE: i64 = 512 << 20;
const DISK: u64 = 1100;

/// What crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// All processes of the server, as when its pod is killed.
    Server,
    /// The driver, below a server that goes on, as when the agent is killed.
    Driver,
    /// The driver while it takes a snapshot of the volume.
    Snapshot,
    /// Everything, and what the kernel had not written.
    Node,
}

impl Crash {
    pub const ALL: [Self; 4] = [Self::Server, Self::Driver, Self::Snapshot, Self::Node];
}

pub struct Database {
    // Dropped in this order: whoever has files open, before the disk.
    server: Option<Server>,
    driver: Process,
    machine: Machine,
    installation: Installation,
    staging: PathBuf,
    target: PathBuf,
    /// Folder of the server's socket.
    run: PathBuf,
}

impl Database {
    pub fn create(backend: &str, installation: Installation) -> Self {
        let fs_type = if backend == "btrfs" { "btrfs" } else { "xfs" };
        let machine = Machine::new(fs_type, DISK);
        let folder = machine.folder();
        // The server is another user.
        let passable = fs::Permissions::from_mode(0o755);
        let root = folder.parent().expect("a parent");
        fs::set_permissions(root, passable).expect("permissions");
        let class = format!("backend: {backend}, path: {}", machine.path().display());
        let driver = Process::start(&folder, &class);
        driver.create(VOLUME, SIZE, None);
        let [staging, target, run] = ["staging", "target", "run"].map(|it| folder.join(it));
        for path in [&staging, &run] {
            fs::create_dir(path).expect("folder");
        }
        let (uid, gid) = (installation.uid, installation.gid);
        chown(&run, Some(uid), Some(gid)).expect("owner");
        let mut database = Self {
            server: None,
            driver,
            machine,
            installation,
            staging,
            target,
            run,
        };
        database.publish();
        let data = database.data();
        fs::create_dir(&data).expect("folder");
        chown(&data, Some(uid), Some(gid)).expect("owner");
        let data = data.display().to_string();
        let arguments = [
            "-D", &data, "-k", "-A", "trust", "-U", "postgres", "-E", "UTF8", "-N",
        ];
        database.installation.run("initdb", &arguments);
        // At once, instead of each file by itself.
        let folder = fs::File::open(&data).expect("folder");
        rustix::fs::syncfs(&folder).expect("synced");
        database.start();
        database.query(
            "CREATE EXTENSION amcheck; CREATE TABLE log (client int, n bigint, payload text, PRIMARY KEY (client, n)); CREATE TABLE account (id int PRIMARY KEY, n bigint NOT NULL); INSERT INTO account SELECT i, 0 FROM generate_series(0, 299) i",
        );
        database
    }

    fn data(&self) -> PathBuf {
        self.target.join("data")
    }

    fn publish(&self) {
        self.driver.publish(VOLUME, &self.staging, &self.target);
    }

    fn start(&mut self) {
        self.server = Some(self.installation.start(&self.data(), &self.run));
    }

    fn kill_server(&mut self) {
        self.server.take().expect("a server").kill();
    }

    fn query(&self, text: &str) -> String {
        let mut psql = self.installation.psql(&self.run);
        let output = psql.arg("-c").arg(text).output().expect("psql");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}: {errors}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    pub fn load(&self, acknowledged: &Acknowledged) -> Load {
        Load::start(|| self.installation.psql(&self.run), acknowledged)
    }

    /// Crashes something under load and brings it back.
    pub fn crash(&mut self, crash: Crash, load: Load, acknowledged: &Acknowledged, after: u64) {
        match crash {
            Crash::Server => {
                self.kill_server();
                load.end();
                self.start();
            }
            Crash::Driver => {
                self.driver.kill();
                self.driver.restart();
                self.publish();
                self.goes_on(acknowledged);
                load.end();
            }
            Crash::Snapshot => {
                let killed = self.driver.kill_after(Duration::from_millis(after));
                // It may have ended before.
                let _ = self.snapshot();
                killed.join().expect("killed");
                self.driver.restart();
                self.publish();
                let made = self.snapshot();
                made.expect("a snapshot, once the driver is back");
                self.goes_on(acknowledged);
                load.end();
                let request = api::DeleteSnapshotRequest {
                    snapshot_id: SNAPSHOT.to_owned(),
                    ..api::DeleteSnapshotRequest::default()
                };
                let deleted: Result<api::DeleteSnapshotResponse, _> =
                    self.driver.call("Controller/DeleteSnapshot", request);
                deleted.expect("deleted");
            }
            Crash::Node => {
                let before = counts(acknowledged);
                let cut = self.machine.cut();
                self.kill_server();
                load.end();
                self.driver.kill();
                self.machine.end();
                // What was acknowledged after the cut is not of this disk.
                for (client, count) in before.into_iter().enumerate() {
                    acknowledged[client].store(count, Ordering::SeqCst);
                }
                self.machine.begin_with(&cut);
                self.driver.restart();
                self.publish();
                self.start();
            }
        }
    }

    fn snapshot(&self) -> Result<api::CreateSnapshotResponse, tonic::Status> {
        let request = api::CreateSnapshotRequest {
            source_volume_id: VOLUME.to_owned(),
            name: SNAPSHOT.to_owned(),
            ..api::CreateSnapshotRequest::default()
        };
        self.driver.call("Controller/CreateSnapshot", request)
    }

    /// The server works whatever becomes of the driver.
    fn goes_on(&self, acknowledged: &Acknowledged) {
        let before = counts(acknowledged);
        let begun = std::time::Instant::now();
        while counts(acknowledged) == before {
            let waited = begun.elapsed();
            assert!(
                waited < Duration::from_secs(20),
                "the server waits for its driver"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Checks that all that was acknowledged is there, whole and in order; what was on its
    /// way may be there, too, and is acknowledged from now on.
    pub fn check(&self, acknowledged: &Acknowledged, crash: Crash, what: &dyn fmt::Display) {
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
        let arguments = ["-h", &run, "-U", "postgres", "-d", "postgres"];
        self.installation.run("pg_amcheck", &arguments);
    }

    /// Reads all pages of a server that was stopped in order.
    pub fn check_pages(&mut self, what: &dyn fmt::Display) {
        self.server.take().expect("a server").stop();
        let data = self.data().display().to_string();
        let arguments = ["--check", "-D", &data];
        let text = self.installation.run("pg_checksums", &arguments);
        assert!(text.contains("Bad checksums:  0"), "{what}: {text}");
        self.start();
    }

    /// Empties the tables.
    pub fn forget(&self) {
        self.query("TRUNCATE log; UPDATE account SET n = 0");
    }

    /// Ends all in order, and looks whether anything is left.
    pub fn finish(&mut self) {
        self.server.take().expect("a server").stop();
        self.driver.unpublish(VOLUME, &self.staging, &self.target);
    }
}
