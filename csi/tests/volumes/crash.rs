//! Kills the driver between any two steps of every operation. After a restart nothing is leaked or
//! lost, and the same request succeeds.
//!
//! The driver runs in a process of its own, which is this program again, and kills itself at a
//! given point. The test cannot simulate a power failure.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use csi::catalog::record::Origin;
use csi::device::loop_device;
use csi::driver::Driver;
use csi::error::Result;
use csi::request::access::Access;
use csi::request::size::Range;
use csi::steps::{Step, StepObserver};

use super::disk::{Disk, isolate, missing};
use super::harness::{
    MIB, Places, mount, new, open, open_observed, places, publish, unless_busy, unpublish,
};

/// Tells the child which class, folder, operation and point it has.
const CHILD: &str = "ORLOP_CSI_TEST_CRASH";

/// Points of one operation, at most.
const LIMIT: usize = 40;

/// An operation, and what comes before it.
#[derive(Clone, Copy)]
struct Operation {
    name: &'static str,
    before: &'static [&'static str],
}

const OPERATIONS: [Operation; 15] = [
    operation("create", &[]),
    operation("delete", &["create"]),
    operation("expand", &["create"]),
    operation("stage", &["create"]),
    operation("publish", &["create", "stage"]),
    operation("snapshot", &["create", "stage", "publish", "write"]),
    operation(
        "delete-snapshot",
        &["create", "stage", "publish", "write", "snapshot"],
    ),
    operation(
        "restore",
        &["create", "stage", "publish", "write", "snapshot"],
    ),
    operation("clone", &["create", "stage", "publish", "write"]),
    operation("expand-in-use", &["create", "stage", "publish", "write"]),
    operation(
        "expand-on-node",
        &["create", "stage", "publish", "write", "expand-in-use"],
    ),
    operation("unpublish", &["create", "stage", "publish", "write"]),
    operation(
        "unstage",
        &["create", "stage", "publish", "write", "unpublish"],
    ),
    operation("group", &["create", "stage", "publish", "write"]),
    operation("inline", &[]),
];

const fn operation(name: &'static str, before: &'static [&'static str]) -> Operation {
    Operation { name, before }
}

const TEXT: &str = "acknowledged";

/// Where a case is done.
struct Case {
    folder: PathBuf,
    class: String,
    access: Access,
    bytes: u64,
}

impl Case {
    fn new(folder: &Path, class: &str, fs_type: &str) -> Self {
        Self {
            folder: folder.to_owned(),
            class: class.to_owned(),
            access: mount(fs_type),
            // XFS has no smaller volumes.
            bytes: if fs_type == "xfs" {
                320 * MIB
            } else {
                64 * MIB
            },
        }
    }

    fn places(&self) -> Places {
        places(&self.folder, "v")
    }

    /// Carries out an operation, which may have been done in part.
    fn run(&self, driver: &Driver, operation: &str) -> Result<()> {
        let at = self.places();
        let origin = |id: Origin| Some(id);
        let copy = |name: &str, from| {
            driver
                .create_volume(&new(name, 2 * self.bytes, self.access.clone(), from))
                .map(drop)
        };
        let range = Range {
            required: 2 * self.bytes,
            limit: 0,
        };
        let none = BTreeMap::new();
        match operation {
            "create" => driver
                .create_volume(&new("v", self.bytes, self.access.clone(), None))
                .map(drop),
            "delete" => driver.delete_volume("v"),
            "expand" | "expand-in-use" => driver.expand_volume("v", range).map(drop),
            "expand-on-node" => driver
                .expand_on_node("v", &at.target, range, &none)
                .map(drop),
            "stage" => driver.stage("v", &at.staging, &self.access, &none),
            "publish" => driver.publish("v", &at.staging, &at.target, &self.access, false),
            "unpublish" => driver.unpublish("v", &at.target),
            "unstage" => driver.unstage("v", &at.staging),
            "snapshot" => driver.create_snapshot("s", "v").map(drop),
            "delete-snapshot" => driver.delete_snapshot("s"),
            "restore" => copy("r", origin(Origin::Snapshot("s".to_owned()))),
            "clone" => copy("c", origin(Origin::Volume("v".to_owned()))),
            "group" => driver.create_group("g", &["v".to_owned()]).map(drop),
            "inline" => {
                let target = self.folder.join("inline");
                driver.publish_inline("i", &target, &self.access, &none, &none)
            }
            "write" => {
                let file = at.target.join("file");
                fs::write(&file, TEXT).expect("write");
                fs::File::open(&file)
                    .expect("open")
                    .sync_all()
                    .expect("sync");
                Ok(())
            }
            other => panic!("no operation {other}"),
        }
    }

    /// What the backend holds is what is recorded, and the journal is empty.
    fn check_nothing_leaked(&self, driver: &Driver, at: &str) {
        let store = driver.class(None).expect("class");
        let entries = store.catalog.entries().clone();
        let inventory = store.backend.list().expect("inventory");
        let recorded: BTreeSet<String> = entries.volumes.keys().cloned().collect();
        assert_eq!(inventory.volumes, recorded, "volumes after {at}");
        let recorded: BTreeSet<String> = entries.snapshots.keys().cloned().collect();
        assert_eq!(inventory.snapshots, recorded, "snapshots after {at}");
        assert!(entries.intents.is_empty(), "journal after {at}");
        for part in ["volumes", "snapshots"] {
            let folder = store.class.path.clone().expect("path").join(part);
            for entry in fs::read_dir(folder).expect("folder").flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                assert!(!name.contains("partial"), "{name} after {at}");
            }
        }
    }

    /// What was acknowledged is there, wherever it should be.
    fn check_data(&self, driver: &Driver, operation: Operation, at: &str) {
        if !operation.before.contains(&"write") {
            return;
        }
        let mut copies = vec!["v"];
        copies.extend(match operation.name {
            "restore" => Some("r"),
            "clone" => Some("c"),
            _ => None,
        });
        for id in copies {
            let at_places = places(&self.folder, id);
            publish(driver, id, &at_places, &self.access);
            let text = fs::read_to_string(at_places.target.join("file")).unwrap_or_default();
            assert_eq!(text, TEXT, "`{id}` after {at}");
        }
    }

    /// Takes everything away; nothing is left then.
    fn clean_up(&self, driver: &Driver, at: &str) {
        let _ = driver.unpublish("i", &self.folder.join("inline"));
        for id in ["r", "c", "v"] {
            if driver.volume(id).is_ok() {
                unpublish(driver, id, &places(&self.folder, id));
                driver.delete_volume(id).expect("delete");
            }
        }
        driver.delete_group("g", &[]).expect("delete group");
        driver.delete_snapshot("s").expect("delete snapshot");
        let store = driver.class(None).expect("class");
        let inventory = store.backend.list().expect("inventory");
        assert!(
            inventory.volumes.is_empty() && inventory.snapshots.is_empty(),
            "after {at}"
        );
    }
}

/// Kills its own process at a point.
struct Killer {
    at: usize,
    count: AtomicUsize,
    log: PathBuf,
}

impl StepObserver for Killer {
    fn reached(&self, step: Step, _: &str) {
        let mut log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .unwrap();
        writeln!(log, "{step:?}").unwrap();
        if self.count.fetch_add(1, Ordering::SeqCst) == self.at {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
    }
}

/// The process that is killed; alone it does nothing.
#[test]
fn a_child_is_killed_at_its_point() {
    let Some(text) = std::env::var_os(CHILD) else {
        return;
    };
    let text = text.into_string().expect("text");
    let parts: Vec<&str> = text.split('|').collect();
    let [folder, class, fs_type, operation, point] = parts[..] else {
        panic!("{text}");
    };
    let case = Case::new(Path::new(folder), class, fs_type);
    let killer = Killer {
        at: point.parse().expect("number"),
        count: AtomicUsize::new(0),
        log: case.folder.join("steps"),
    };
    let driver = open_observed(class, Arc::new(killer));
    case.run(&driver, operation).expect("operation");
    fs::write(case.folder.join("done"), "").expect("note");
}

/// Runs an operation in a child that is killed at a point, and returns whether
/// it ended before that point.
fn run_in_child(case: &Case, fs_type: &str, operation: &str, point: usize) -> bool {
    let folder = case.folder.display();
    let text = format!("{folder}|{}|{fs_type}|{operation}|{point}", case.class);
    let status = Command::new(std::env::current_exe().expect("own path"))
        .args([
            "--exact",
            "crash::a_child_is_killed_at_its_point",
            "--nocapture",
            "-q",
        ])
        .env(CHILD, text)
        .stdout(std::process::Stdio::null())
        .status()
        .expect("child");
    let done = case.folder.join("done");
    let ended = done.exists();
    let _ = fs::remove_file(done);
    assert!(
        ended == status.success(),
        "{operation} at {point}: {status}"
    );
    ended
}

/// Kills the driver at every point of every operation, and returns the points.
fn kill_everywhere(
    disk: &Disk,
    class: &str,
    fs_type: &str,
    leave_out: &[&str],
) -> BTreeSet<String> {
    let mut steps = BTreeSet::new();
    let mut cases = 0;
    for operation in OPERATIONS.iter().filter(|it| !leave_out.contains(&it.name)) {
        for point in 0..LIMIT {
            let at = format!("{} killed at point {point} ({class})", operation.name);
            let case = Case::new(&disk.beside("pods"), class, fs_type);
            {
                let driver = open(class);
                for before in operation.before {
                    unless_busy(before, || case.run(&driver, before));
                }
            }
            let ended = run_in_child(&case, fs_type, operation.name, point);
            let log = fs::read_to_string(case.folder.join("steps")).unwrap_or_default();
            steps.extend(log.lines().map(str::to_owned));
            let driver = open(class);
            case.check_nothing_leaked(&driver, &at);
            case.run(&driver, operation.name)
                .unwrap_or_else(|error| panic!("{at}, again: {}", error.chain()));
            case.check_nothing_leaked(&driver, &format!("{at}, again"));
            case.check_data(&driver, *operation, &at);
            case.clean_up(&driver, &at);
            drop(driver);
            for image in fs::read_dir(disk.path().join("volumes"))
                .expect("folder")
                .flatten()
            {
                assert!(
                    loop_device::find(&image.path())
                        .expect("devices")
                        .is_empty(),
                    "{at}"
                );
            }
            fs::remove_dir_all(&case.folder).expect("folder");
            cases += 1;
            if ended {
                break;
            }
            assert!(point + 1 < LIMIT, "{} has no end", operation.name);
        }
    }
    println!(
        "{cases} crashes ({class}), points: {}",
        steps.iter().cloned().collect::<Vec<_>>().join(" ")
    );
    steps
}

#[test]
fn a_driver_that_is_killed_anywhere_neither_leaks_nor_loses() {
    if let Some(reason) = missing(&["mkfs.xfs", "mkfs.btrfs", "mkfs.ext4"]) {
        println!("skipped: {reason}");
        return;
    }
    isolate();
    let mut steps = BTreeSet::new();
    {
        let disk = Disk::new("xfs", 4096);
        let class = format!("backend: file, path: {}", disk.path().display());
        steps.extend(kill_everywhere(&disk, &class, "xfs", &[]));
    }
    {
        let disk = Disk::new("btrfs", 2048);
        let class = format!("backend: btrfs, path: {}", disk.path().display());
        steps.extend(kill_everywhere(&disk, &class, "", &["group", "inline"]));
    }
    let all: BTreeSet<String> = Step::ALL.iter().map(|step| format!("{step:?}")).collect();
    let never: Vec<&String> = all.difference(&steps).collect();
    assert!(never.is_empty(), "never reached: {never:?}");
}
