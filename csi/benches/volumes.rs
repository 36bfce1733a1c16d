//! Measures volumes in comparison with the bare file system under them, and copies.
//!
//! `cargo bench --package csi --bench volumes` needs root, fio, and the programs of the file
//! systems. File systems are images in the temporary folder, so its disk is measured; arguments
//! select parts (`file`, `btrfs`, `copies`, `lvm`, `lvm-thin`). The last two need device-mapper,
//! which `cargo xtask vm --suites volume-figures` has where the machine lacks it.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use csi::catalog::record::Origin;
use csi::driver::Driver;
use csi::filesystem::mounts;
use rustix::mount::MountFlags;
use serde_json::Value;

#[path = "../tests/volumes/disk.rs"]
mod disk;
#[path = "../tests/volumes/group.rs"]
mod group;
#[expect(dead_code, reason = "tests use more of it")]
#[path = "../tests/volumes/harness.rs"]
mod harness;

use disk::{Disk, isolate, missing};
use group::Group;
use harness::{GIB, Places, mount, new, open, places, publish, unpublish};

/// Rounds of each workload, in turn on either side; the median counts.
const ROUNDS: usize = 5;

/// Seconds of one measurement.
const SECONDS: &str = "4";

/// The jobs: a name, and the options of fio.
const WORKLOADS: [(&str, &[&str]); 4] = [
    (
        "random reads, 4 KiB, 16 at once",
        &["--rw=randread", "--bs=4k", "--iodepth=16"],
    ),
    (
        "random writes, 4 KiB, 16 at once",
        &["--rw=randwrite", "--bs=4k", "--iodepth=16"],
    ),
    (
        "random writes, 8 KiB, each synced",
        &["--rw=randwrite", "--bs=8k", "--iodepth=1", "--fdatasync=1"],
    ),
    (
        "sequential writes, 1 MiB",
        &["--rw=write", "--bs=1M", "--iodepth=4"],
    ),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&String> = words.iter().filter(|it| !it.starts_with("--")).collect();
    let has = |part: &str| words.is_empty() || words.iter().any(|it| *it == part);
    if let Some(lacks) = missing(&["fio"]) {
        println!("skipped: {lacks}");
        return;
    }
    isolate();
    println!("load average at the start: {}", load());
    if has("file") {
        beside_bare("file", "xfs", 0.9);
    }
    if has("btrfs") {
        beside_bare("btrfs", "btrfs", 0.97);
    }
    if has("copies") {
        copies("file", "xfs");
        copies("btrfs", "btrfs");
    }
    for backend in ["lvm", "lvm-thin"] {
        if has(backend) {
            beside_a_plain_disk(backend, 0.97);
        }
    }
    println!("load average at the end: {}", load());
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// The results of fio.
#[derive(Clone, Copy)]
struct Figures {
    /// Operations a second.
    rate: f64,
    /// The 99th percentile, in microseconds.
    p99: f64,
}

fn fio(folder: &Path, arguments: &[&str]) -> Value {
    let output = Command::new("fio")
        .args(["--name=bench", "--output-format=json", "--direct=1"])
        .args(["--ioengine=libaio", "--size=512M", "--fallocate=none"])
        .arg(format!("--filename={}", folder.join("bench.dat").display()))
        .args(arguments)
        .output()
        .expect("fio");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let begin = text.find('{').expect("JSON");
    serde_json::from_str(&text[begin..]).expect("JSON")
}

fn measure(folder: &Path, workload: &[&str]) -> Figures {
    let runtime = format!("--runtime={SECONDS}");
    let common = ["--time_based", "--ramp_time=1", "--overwrite=1", &runtime];
    let report = fio(folder, &[workload, &common].concat());
    let job = &report["jobs"][0];
    let side = if workload[0].contains("read") {
        "read"
    } else {
        "write"
    };
    let p99 = job[side]["clat_ns"]["percentile"]["99.000000"].as_f64();
    Figures {
        rate: job[side]["iops"].as_f64().unwrap_or(0.0),
        p99: p99.unwrap_or(0.0) / 1000.0,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures each workload in a bare folder and in a volume, in turn.
fn compare(bare: &Path, volume: &Path, goal: f64) {
    let sides = [bare, volume];
    for side in sides {
        // Blocks are there and written before anything is measured.
        fio(side, &["--rw=write", "--bs=1M", "--end_fsync=1"]);
    }
    for (name, workload) in WORKLOADS {
        let mut measured = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            // Neither side is always the one that comes second.
            for side in [round % 2, 1 - round % 2] {
                measured[side].push(measure(sides[side], workload));
            }
        }
        let rates = measured
            .each_ref()
            .map(|it| it.iter().map(|f| f.rate).collect());
        let p99s = measured
            .each_ref()
            .map(|it| it.iter().map(|f| f.p99).collect());
        let [bare, own] = rates.map(median);
        let [bare_p99, own_p99] = p99s.map(median);
        let said = if own >= goal * bare && own_p99 <= 1.1 * bare_p99 {
            ""
        } else {
            ": missed"
        };
        println!(
            "{name}: {own:.0} of {bare:.0}/s ({:.2}), p99 {own_p99:.0} of {bare_p99:.0} µs ({:.2}){said}",
            own / bare,
            own_p99 / bare_p99,
        );
    }
}

/// Compares a volume with a folder of the file system that the volume is on.
fn beside_bare(backend: &str, fs_type: &str, goal: f64) {
    if let Some(lacks) = missing(&[&format!("mkfs.{fs_type}")]) {
        println!("skipped: {lacks}");
        return;
    }
    let disk = Disk::new(fs_type, 3072);
    let driver = open(&format!(
        "backend: {backend}, path: {}",
        disk.path().display()
    ));
    // The same file system in the volume, where it has one of its own.
    let access = mount(if backend == "file" { fs_type } else { "" });
    driver
        .create_volume(&new("v", GIB, access.clone(), None))
        .expect("volume");
    let at = places(&disk.beside("pods"), "v");
    publish(&driver, "v", &at, &access);
    let bare = disk.path().join("bare");
    std::fs::create_dir(&bare).expect("folder");
    println!(
        "\nbackend {backend}, beside a bare {fs_type} (goal: {goal} of it, p99 at most 1.1 times)"
    );
    compare(&bare, &at.target, goal);
    unpublish(&driver, "v", &at);
    driver.delete_volume("v").expect("deleted");
}

/// Compares a logical volume with a disk that has the same file system.
fn beside_a_plain_disk(backend: &str, goal: f64) {
    if let Some(lacks) = missing(&["lvcreate", "vgcreate", "mkfs.ext4"]).or_else(group::no_mapper) {
        println!("skipped: {lacks}");
        return;
    }
    let disk = Disk::new("ext4", 64);
    let plain = disk.device("plain", GIB);
    group::run("mkfs.ext4", &["-q", &plain.display().to_string()]);
    let bare = disk.beside("bare");
    mounts::mount(&plain, &bare, "ext4", MountFlags::empty(), &[]).expect("mount");
    let group = Group::new(&disk, "orlopbench", 1536);
    let pool = if backend == "lvm-thin" {
        group.add_thin_pool("pool", 1200);
        ", thinPool: pool"
    } else {
        ""
    };
    let driver = open(&format!(
        "backend: {backend}, volumeGroup: {}{pool}, stateDir: {}",
        group.0,
        disk.beside("state").display()
    ));
    let access = mount("ext4");
    driver
        .create_volume(&new("v", GIB, access.clone(), None))
        .expect("volume");
    let at = places(&disk.beside("pods"), "v");
    publish(&driver, "v", &at, &access);
    println!(
        "\nbackend {backend}, beside a disk with ext4 (goal: {goal} of it, p99 at most 1.1 times)"
    );
    compare(&bare, &at.target, goal);
    unpublish(&driver, "v", &at);
    driver.delete_volume("v").expect("deleted");
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// Snapshots and clones of a volume of 10 GiB that is full, in use, and then in pieces.
fn copies(backend: &str, fs_type: &str) {
    let disk = Disk::new(fs_type, 24 << 10);
    let driver = open(&format!(
        "backend: {backend}, path: {}, overcommit: 10",
        disk.path().display()
    ));
    let access = mount("");
    driver
        .create_volume(&new("v", 10 * GIB, access.clone(), None))
        .expect("volume");
    let at = places(&disk.beside("pods"), "v");
    publish(&driver, "v", &at, &access);
    fio(
        &at.target,
        &["--rw=write", "--bs=1M", "--end_fsync=1", "--size=9G"],
    );
    println!(
        "\nbackend {backend}, a volume of 10 GiB with 9 GiB of data, mounted (goals: snapshot 100 ms, clone 1 s)"
    );
    copy(&driver, "as written", 1);
    // Blocks that are shared with a snapshot are written elsewhere: the image is in pieces.
    let writes = [
        "--rw=randwrite",
        "--bs=4k",
        "--iodepth=16",
        "--time_based",
        "--runtime=10",
        "--size=9G",
    ];
    let report = fio(&at.target, &writes);
    let count = report["jobs"][0]["write"]["total_ios"].to_string();
    copy(&driver, &format!("after {count} random writes"), 2);
    end(&driver, &at);
}

fn copy(driver: &Driver, what: &str, number: usize) {
    let snapshot = format!("s{number}");
    let took = timed(|| driver.create_snapshot(&snapshot, "v").expect("snapshot"));
    println!("snapshot, {what}: {:.1} ms", took.as_secs_f64() * 1000.0);
    for (name, origin) in [
        (format!("c{number}"), Origin::Volume("v".to_owned())),
        (format!("r{number}"), Origin::Snapshot(snapshot)),
    ] {
        let order = new(&name, 10 * GIB, mount(""), Some(origin.clone()));
        let took = timed(|| driver.create_volume(&order).expect("copy"));
        let kind = if name.starts_with('c') {
            "clone"
        } else {
            "restored volume"
        };
        println!("{kind}, {what}: {:.1} ms", took.as_secs_f64() * 1000.0);
    }
}

fn end(driver: &Driver, at: &Places) {
    unpublish(driver, "v", at);
    for volume in ["c1", "c2", "r1", "r2", "v"] {
        driver.delete_volume(volume).expect("deleted");
    }
    for snapshot in ["s1", "s2"] {
        driver.delete_snapshot(snapshot).expect("deleted");
    }
}
