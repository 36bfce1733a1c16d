//! csi-sanity, the Kubernetes project's tests of drivers, against the binary.

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

/// Runs csi-sanity for a class, as `mount` or `block`, leaving out what a name
/// matches, and returns its last lines.
pub fn sanity(disk: &Disk, class: &str, access: &str, skip: &[&str], may_skip: &[&str]) {
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
    for pattern in skip {
        command.arg(format!("-ginkgo.skip={pattern}"));
    }
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
    for reason in skips(&text) {
        println!("  left out: {reason}");
        let known = may_skip.iter().any(|it| reason.contains(it));
        assert!(known, "left out without a known reason: {reason}");
    }
    let left = fs::read_dir(disk.path().join("volumes")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "volumes are left");
}

/// Reasons that csi-sanity gives for what it left out.
fn skips(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.split_once("[SKIPPED]"));
    let reasons = lines
        .map(|(_, reason)| reason.trim().to_owned())
        .filter(|it| !it.is_empty());
    let mut all: Vec<String> = reasons
        .filter(|it| !it.starts_with("in [") && !it.starts_with('['))
        .collect();
    all.sort();
    all.dedup();
    all
}

/// What no local driver has, since volumes are not attached to nodes by a
/// controller; and topology of snapshots, which is alpha, and for which csi-sanity
/// 5.6 fails every driver that reports it: it compares a message that was sent with
/// one that was not, byte counters included.
pub const LOCAL: [&str; 4] = [
    "ControllerPublishVolume",
    "ControllerUnpublishVolume",
    "Controller Publish, UnpublishVolume not supported",
    "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported",
];

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
        sanity(&disk, &class, "mount", &[], &LOCAL);
        sanity(&disk, &class, "block", &[], &LOCAL);
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
        sanity(&disk, &class, "mount", &[], &LOCAL);
    }
}

#[test]
fn csi_sanity_passes_on_btrfs_subvolumes() {
    if !is_skipped() {
        let disk = Disk::new("btrfs", 1024);
        let class = format!("backend: btrfs, path: {}", disk.path().display());
        let may_skip = [&LOCAL[..], &["GroupControllerService not supported"]].concat();
        sanity(&disk, &class, "mount", &[], &may_skip);
    }
}

/// What a backend without copies leaves out.
pub const WITHOUT_COPIES: [&str; 8] = [
    "Snapshot not supported",
    "CreateSnapshot not supported",
    "DeleteSnapshot not supported",
    "ListSnapshots not supported",
    "GetSnapshot not supported",
    "Volume Cloning not supported",
    "GroupControllerService not supported",
    "VolumeGroupSnapshots not supported",
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
    let without_growth = [
        "ControllerExpandVolume not supported",
        "NodeExpandVolume not supported",
    ];
    let may_skip = [&LOCAL[..], &WITHOUT_COPIES, &without_growth].concat();
    sanity(&disk, &class, "mount", &[], &may_skip);
    sanity(&disk, &class, "block", &[], &may_skip);
}

#[test]
fn csi_sanity_passes_on_folders_without_an_enforced_size() {
    if !is_skipped() {
        let disk = Disk::new("xfs", 512);
        let path = disk.path().display().to_string();
        let class = format!("backend: xfs-quota, path: {path}, allowUnenforcedSize: true");
        let may_skip = [&LOCAL[..], &WITHOUT_COPIES].concat();
        sanity(&disk, &class, "mount", &[], &may_skip);
    }
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
