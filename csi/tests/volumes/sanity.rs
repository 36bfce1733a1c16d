//! Runs csi-sanity, the Kubernetes project's tests for drivers, against the binary.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use csi_api as api;

use super::disk::{Disk, isolate, missing};
use super::harness::configuration;
use super::process::{self, capability};

/// Names the program, which `cargo xtask setup --for-tests` builds.
const VARIABLE: &str = "ORLOP_CSI_SANITY";

/// Sizes for small disks: a volume, and what it grows to.
const SIZES: [&str; 2] = [
    "-csi.testvolumesize=16777216",
    "-csi.testvolumeexpandsize=33554432",
];

fn program() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH")?;
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/go/bin");
    let mut folders = std::env::split_paths(&path).chain([built]);
    folders.find_map(|folder| Some(folder.join("csi-sanity")).filter(|it| it.is_file()))
}

/// A driver that is stopped with the value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs csi-sanity for a class, as `mount` or `block`. It leaves out exactly what `omitted`
/// says.
pub fn sanity(disk: &Disk, class: &str, access: &str, omitted: &[&[Omission]]) {
    let Some(program) = program() else {
        println!("skipped: no csi-sanity ({VARIABLE}, or `cargo xtask setup --for-tests`)");
        return;
    };
    let folder = disk.beside("sanity");
    let config = folder.join("config.yaml");
    fs::write(&config, configuration(class)).unwrap();
    let socket = folder.join("csi.sock");
    let mutable = folder.join("mutable.yaml");
    let devices = !class.contains("backend: btrfs") && !class.contains("backend: xfs-quota");
    let limits = if devices {
        "readIOPS: \"500\"\n"
    } else {
        "{}\n"
    };
    fs::write(&mutable, limits).unwrap();
    let log = File::create(folder.join("driver.log")).unwrap();
    let driver = Command::new(env!("CARGO_BIN_EXE_orlop-csi"))
        .arg(format!("--endpoint=unix://{}", socket.display()))
        .arg("--node-id=node-1")
        .arg(format!("--config={}", config.display()))
        .stderr(log)
        .spawn()
        .expect("driver");
    let _driver = Process(driver);
    let begun = Instant::now();
    while !socket.exists() {
        let log = || fs::read_to_string(folder.join("driver.log")).unwrap_or_default();
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "no socket: {}",
            log()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut command = Command::new(program);
    command
        .arg(format!("-csi.endpoint={}", socket.display()))
        .arg(format!("-csi.mountdir={}", folder.join("mount").display()))
        .arg(format!(
            "-csi.stagingdir={}",
            folder.join("staging").display()
        ))
        .arg(format!("-csi.testvolumeaccesstype={access}"))
        .arg(format!(
            "-csi.testvolumemutableparameters={}",
            mutable.display()
        ))
        .args(SIZES)
        .args(["-ginkgo.no-color", "-ginkgo.v"]);
    let output = command.stderr(Stdio::piped()).output().expect("csi-sanity");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let end: Vec<&str> = text.lines().rev().take(2).collect();
    println!("{class}, {access}:");
    for line in end.iter().rev() {
        println!("  {line}");
    }
    let driver_log = fs::read_to_string(folder.join("driver.log")).unwrap_or_default();
    let failed = format!("{text}\n--- the driver:\n{driver_log}");
    assert!(output.status.success(), "{failed}");
    let omitted = omitted.concat();
    let report = skips(&text);
    for (reason, count) in &report {
        let why = omitted.iter().find(|it| reason.contains(it.reason));
        let why = why.map_or("", |it| it.because);
        println!("  left out {count} times, {reason}: {why}");
    }
    assert_eq!(differences(&report, &omitted), Vec::<String>::new());
    let counted = skipped_specs(&text).expect("a summary");
    let named: usize = report.values().sum();
    assert_eq!(
        named, counted,
        "some are left out without a reason:\n{text}"
    );
    let left = fs::read_dir(disk.path().join("volumes")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "volumes are left");
}

/// Something that csi-sanity leaves out, and why that is right.
#[derive(Clone, Copy, Debug)]
pub struct Omission {
    /// Part of the reason that csi-sanity gives.
    pub reason: &'static str,
    /// Why the driver does not have it.
    pub because: &'static str,
}

const fn omission(reason: &'static str, because: &'static str) -> Omission {
    Omission { reason, because }
}

/// Reasons that csi-sanity gives for what it left out, with their number.
fn skips(text: &str) -> BTreeMap<String, usize> {
    let lines = text.lines().filter_map(|line| line.split_once("[SKIPPED]"));
    let reasons = lines.map(|(_, reason)| reason.trim());
    let mut all = BTreeMap::new();
    for reason in
        reasons.filter(|it| !it.is_empty() && !it.starts_with(['[']) && !it.starts_with("in ["))
    {
        *all.entry(reason.to_owned()).or_default() += 1;
    }
    all
}

/// How many tests csi-sanity says that it left out.
fn skipped_specs(text: &str) -> Option<usize> {
    let line = text.lines().rev().find(|line| line.contains(" Skipped"))?;
    let (before, _) = line.split_once(" Skipped")?;
    before.rsplit([' ', '|']).next()?.parse().ok()
}

/// What was left out without being listed, and what is listed and was not left out.
fn differences(report: &BTreeMap<String, usize>, omitted: &[Omission]) -> Vec<String> {
    let is_of = |reason: &str, it: &Omission| reason.contains(it.reason);
    let unlisted = report
        .keys()
        .filter(|reason| !omitted.iter().any(|it| is_of(reason, it)));
    let unlisted = unlisted.map(|reason| format!("left out without a reason of ours: {reason}"));
    let stale = omitted
        .iter()
        .filter(|it| !report.keys().any(|reason| is_of(reason, it)));
    let stale = stale.map(|it| format!("listed and not left out: {}", it.reason));
    unlisted.chain(stale).collect()
}

/// What no local driver has.
pub const LOCAL: [Omission; 3] = [
    omission(
        "ControllerPublishVolume not supported",
        "a local volume is on its node and is not attached to others",
    ),
    omission(
        "ControllerUnpublishVolume not supported",
        "a local volume is on its node and is not attached to others",
    ),
    omission(
        "Controller Publish, UnpublishVolume not supported",
        "a local volume is on its node and is not attached to others",
    ),
];

/// What no driver can show of its snapshots.
pub const COPIES: [Omission; 1] = [omission(
    "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported",
    "topology of snapshots is alpha, and csi-sanity 5.6 fails every driver that reports it: \
     it compares a message that was sent with one that was not, byte counters included",
)];

fn is_skipped() -> bool {
    if let Some(reason) = missing(&["mkfs.xfs", "mkfs.btrfs", "mkfs.ext4"]) {
        println!("skipped: {reason}");
        return true;
    }
    isolate();
    false
}

#[test]
fn csi_sanity_passes_on_image_files_of_xfs() {
    if !is_skipped() {
        let disk = Disk::new("xfs", 1024);
        let class = format!("backend: file, path: {}", disk.path().display());
        sanity(&disk, &class, "mount", &[&LOCAL, &COPIES]);
        sanity(&disk, &class, "block", &[&LOCAL, &COPIES]);
    }
}

#[test]
fn csi_sanity_passes_on_image_files_of_btrfs() {
    if !is_skipped() {
        let disk = Disk::new("btrfs", 1024);
        let class = format!(
            "backend: file, path: {}, provisioning: thick",
            disk.path().display()
        );
        sanity(&disk, &class, "mount", &[&LOCAL, &COPIES]);
    }
}

#[test]
fn csi_sanity_passes_on_btrfs_subvolumes() {
    if !is_skipped() {
        let disk = Disk::new("btrfs", 1024);
        let class = format!("backend: btrfs, path: {}", disk.path().display());
        sanity(&disk, &class, "mount", &[&LOCAL, &COPIES, &WITHOUT_GROUPS]);
    }
}

/// What a backend leaves out that cannot copy several volumes at one moment.
pub const WITHOUT_GROUPS: [Omission; 1] = [omission(
    "GroupControllerService not supported",
    "several volumes are copied at one moment by freezing their file systems while each is \
     copied at once, which this backend cannot",
)];

/// What a backend without copies leaves out.
pub const WITHOUT_COPIES: [Omission; 7] = [
    omission("Snapshot not supported", NO_COPIES),
    omission("CreateSnapshot not supported", NO_COPIES),
    omission("DeleteSnapshot not supported", NO_COPIES),
    omission("ListSnapshots not supported", NO_COPIES),
    omission("GetSnapshot not supported", NO_COPIES),
    omission("Volume Cloning not supported", NO_COPIES),
    omission("GroupControllerService not supported", NO_COPIES),
];
const NO_COPIES: &str = "a whole disk has nowhere to be copied to, and of a plain folder nothing \
                         makes a copy at one moment";

/// What a backend without growth leaves out.
const WITHOUT_GROWTH: [Omission; 2] = [
    omission(
        "ControllerExpandVolume not supported",
        "a disk has the size that it has",
    ),
    omission(
        "NodeExpandVolume not supported",
        "a disk has the size that it has",
    ),
];

#[test]
fn csi_sanity_passes_on_whole_devices() {
    if is_skipped() {
        return;
    }
    let disk = Disk::new("ext4", 1024);
    // Disks as large as the volumes that csi-sanity wants.
    let devices: Vec<String> = (0..4)
        .map(|number| {
            disk.device(&format!("raw-{number}"), 16 << 20)
                .display()
                .to_string()
        })
        .collect();
    let state = disk.beside("state");
    let class = format!(
        "backend: raw, devices: [{}], stateDir: {}",
        devices.join(", "),
        state.display()
    );
    for access in ["mount", "block"] {
        let omitted: [&[Omission]; 3] = [&LOCAL, &WITHOUT_COPIES, &WITHOUT_GROWTH];
        sanity(&disk, &class, access, &omitted);
    }
}

#[test]
fn csi_sanity_passes_on_folders_without_an_enforced_size() {
    if !is_skipped() {
        let disk = Disk::new("xfs", 512);
        let path = disk.path().display().to_string();
        let class = format!("backend: xfs-quota, path: {path}, allowUnenforcedSize: true");
        sanity(&disk, &class, "mount", &[&LOCAL, &WITHOUT_COPIES]);
    }
}

#[test]
fn what_csi_sanity_leaves_out_is_compared_with_the_list_both_ways() {
    let text = "\
        S [SKIPPED] [0.002 seconds]\n\
        Controller Service [Controller Server] [BeforeEach] GetCapacity\n\
        \x20 [SKIPPED] GetCapacity not supported\n\
        \x20 In [BeforeEach] at: /x.go:168\n\
        S [SKIPPED] [0.002 seconds]\n\
        \x20 [SKIPPED] GetCapacity not supported\n\
        Ran 2 of 4 Specs in 1.5 seconds\n\
        SUCCESS! -- 2 Passed | 0 Failed | 0 Pending | 2 Skipped\n";
    let report = skips(text);
    assert_eq!(skipped_specs(text), Some(2));
    assert_eq!(report.values().sum::<usize>(), 2);
    let capacity = omission("GetCapacity not supported", "of course");
    assert!(differences(&report, &[capacity]).is_empty());
    let unlisted = differences(&report, &[]);
    assert_eq!(unlisted.len(), 1, "{unlisted:?}");
    let stale = differences(&report, &[capacity, omission("Modify", "of course")]);
    assert_eq!(stale, ["listed and not left out: Modify"]);
}

/// csi-sanity's paging of snapshots wants five volumes of 10 GiB: a class that promises no
/// more than it has refuses the last on a small disk, and one that may promise more lists
/// their snapshots page by page.
#[test]
fn snapshots_of_volumes_larger_than_the_disk_are_listed_page_by_page() {
    if let Some(reason) = missing(&["mkfs.ext4"]) {
        println!("skipped: {reason}");
        return;
    }
    isolate();
    let disk = Disk::new("ext4", 256);
    let folder = disk.beside("driver");
    let class = format!("backend: file, path: {}", disk.path().display());
    let create = api::CreateVolumeRequest {
        name: "v".to_owned(),
        capacity_range: Some(api::CapacityRange {
            required_bytes: 10 << 30,
            limit_bytes: 0,
        }),
        volume_capabilities: vec![capability()],
        ..api::CreateVolumeRequest::default()
    };
    let strict = process::Process::start(&folder, &class);
    let refused: Result<api::CreateVolumeResponse, _> =
        strict.call("Controller/CreateVolume", create);
    let refused = refused.expect_err("no space");
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    assert!(
        refused.message().contains("raise `overcommit`"),
        "{refused}"
    );
    drop(strict);

    let driver = process::Process::start(&folder, &format!("{class}, overcommit: 1000"));
    for number in 0..5 {
        let volume = driver.create(&format!("v{number}"), 10 << 30, None);
        let request = api::CreateSnapshotRequest {
            source_volume_id: volume,
            name: format!("s{number}"),
            ..api::CreateSnapshotRequest::default()
        };
        let made: Result<api::CreateSnapshotResponse, _> =
            driver.call("Controller/CreateSnapshot", request);
        made.expect("a snapshot");
    }
    let (mut token, mut sizes, mut found) = (String::new(), Vec::new(), Vec::new());
    for _ in 0..5 {
        let request = api::ListSnapshotsRequest {
            max_entries: 2,
            starting_token: token,
            ..api::ListSnapshotsRequest::default()
        };
        let page: api::ListSnapshotsResponse = driver
            .call("Controller/ListSnapshots", request)
            .expect("a page");
        sizes.push(page.entries.len());
        let snapshots = page.entries.into_iter().filter_map(|entry| entry.snapshot);
        found.extend(snapshots.map(|snapshot| snapshot.snapshot_id));
        token = page.next_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(sizes, [2, 2, 1]);
    found.dedup();
    assert_eq!(found.len(), 5, "{found:?}");
}

/// csi-provisioner lets the scheduler select another node when the answer is RESOURCE_EXHAUSTED,
/// and tries again on the same node for ever when it is NOT_FOUND.
#[test]
fn a_snapshot_of_another_node_is_restored_there() {
    if let Some(reason) = missing(&["mkfs.ext4"]) {
        println!("skipped: {reason}");
        return;
    }
    isolate();
    let disk = Disk::new("ext4", 64);
    let folder = disk.beside("driver");
    let class = format!("backend: file, path: {}", disk.path().display());
    let driver = process::Process::start(&folder, &class);
    let restore = |snapshot: &str| {
        let source = api::SnapshotSource {
            snapshot_id: snapshot.to_owned(),
        };
        let request = api::CreateVolumeRequest {
            name: "restored".to_owned(),
            volume_capabilities: vec![capability()],
            volume_content_source: Some(api::VolumeContentSource {
                snapshot: Some(source),
                volume: None,
            }),
            ..api::CreateVolumeRequest::default()
        };
        let refused: Result<api::CreateVolumeResponse, _> =
            driver.call("Controller/CreateVolume", request);
        refused.expect_err("no such snapshot here")
    };
    let elsewhere = restore("s@node-2");
    assert_eq!(elsewhere.code(), tonic::Code::ResourceExhausted);
    assert!(
        elsewhere.message().contains("on node `node-2`"),
        "{elsewhere}"
    );
    for unknown in ["s", "s@node-1"] {
        assert_eq!(restore(unknown).code(), tonic::Code::NotFound, "{unknown}");
    }
}
