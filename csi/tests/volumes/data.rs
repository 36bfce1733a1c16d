//! Tests the users' view of volumes: their data, sizes and modes.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use csi::catalog::record::Origin;
use csi::driver::Driver;
use csi::request::size::Range;
use csi_api::Mode;

use super::disk::{Disk, isolate, missing};
use super::harness::{
    GIB, MIB, block, create, mount, mount_as, new, open, places, publish, unpublish,
};

const PROGRAMS: [&str; 4] = ["mkfs.xfs", "mkfs.btrfs", "mkfs.ext4", "e2fsck"];

/// Prints why a test cannot run.
fn is_skipped() -> bool {
    if let Some(reason) = missing(&PROGRAMS) {
        println!("skipped: {reason}");
        return true;
    }
    isolate();
    false
}

/// Whether this process may use up the last of something (`capabilities(7)`).
pub fn has_sys_resource() -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits & (1 << 24) != 0)
}

fn file_class(disk: &Disk) -> String {
    format!("backend: file, path: {}", disk.path().display())
}

fn btrfs_class(disk: &Disk) -> String {
    format!("backend: btrfs, path: {}", disk.path().display())
}

fn expand(driver: &Driver, id: &str, bytes: u64) {
    let range = Range {
        required: bytes,
        limit: 0,
    };
    driver.expand_volume(id, range).expect("expand");
}

#[test]
fn each_file_system_of_an_image_keeps_data_is_copied_and_grows_while_it_is_used() {
    if is_skipped() {
        return;
    }
    let disk = Disk::new("xfs", 4096);
    let folder = disk.beside("pods");
    let driver = open(&file_class(&disk));
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let access = mount(fs_type);
        let volume = create(&driver, fs_type, 320 * MIB, access.clone());
        let at = places(&folder, fs_type);
        publish(&driver, &volume.id, &at, &access);
        fs::write(at.target.join("file"), fs_type).unwrap();
        let before = driver.stats(&volume.id, &at.target).unwrap();

        // A copy of what is in use has everything that was written before.
        driver
            .create_snapshot(&format!("snap-{fs_type}"), &volume.id)
            .unwrap();
        fs::write(at.target.join("file"), "later").unwrap();
        let origin = Origin::Snapshot(format!("snap-{fs_type}"));
        let name = format!("restored-{fs_type}");
        let (_, copy) = driver
            .create_volume(&new(&name, 640 * MIB, access.clone(), Some(origin)))
            .unwrap();
        let copy_at = places(&folder, &name);
        publish(&driver, &copy.id, &copy_at, &access);
        assert_eq!(
            fs::read_to_string(copy_at.target.join("file")).unwrap(),
            fs_type
        );
        let grown = driver.stats(&copy.id, &copy_at.target).unwrap();
        assert!(
            grown.bytes.1 > before.bytes.1 * 3 / 2,
            "{fs_type}: {grown:?} {before:?}"
        );

        // While it is used, for which ext4 wants a right that a container may lack.
        if fs_type == "ext4" && !has_sys_resource() {
            println!("online growth of ext4 is left out: no CAP_SYS_RESOURCE");
            unpublish(&driver, &volume.id, &at);
            expand(&driver, &volume.id, 640 * MIB);
            publish(&driver, &volume.id, &at, &access);
        } else {
            expand(&driver, &volume.id, 640 * MIB);
            let (none, range) = (BTreeMap::new(), Range::default());
            driver
                .expand_on_node(&volume.id, &at.target, range, &none)
                .unwrap();
        }
        let after = driver.stats(&volume.id, &at.target).unwrap();
        assert!(
            after.bytes.1 > before.bytes.1 * 3 / 2,
            "{fs_type}: {after:?} {before:?}"
        );

        // While it is not.
        unpublish(&driver, &volume.id, &at);
        expand(&driver, &volume.id, 800 * MIB);
        publish(&driver, &volume.id, &at, &access);
        let offline = driver.stats(&volume.id, &at.target).unwrap();
        assert!(
            offline.bytes.1 > after.bytes.1,
            "{fs_type}: {offline:?} {after:?}"
        );
        assert_eq!(fs::read_to_string(at.target.join("file")).unwrap(), "later");

        unpublish(&driver, &volume.id, &at);
        unpublish(&driver, &copy.id, &copy_at);
        driver.delete_volume(&volume.id).unwrap();
        driver.delete_volume(&copy.id).unwrap();
        driver.delete_snapshot(&format!("snap-{fs_type}")).unwrap();
    }
    assert_eq!(
        fs::read_dir(disk.path().join("volumes")).unwrap().count(),
        0
    );
    assert_eq!(
        fs::read_dir(disk.path().join("snapshots")).unwrap().count(),
        0
    );
}

#[test]
fn a_device_is_written_grown_and_cloned() {
    if is_skipped() {
        return;
    }
    let disk = Disk::new("btrfs", 2048);
    let folder = disk.beside("pods");
    let driver = open(&file_class(&disk));
    let volume = create(&driver, "device", 64 * MIB, block());
    let at = places(&folder, "device");
    publish(&driver, &volume.id, &at, &block());
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&at.target)
        .unwrap();
    device.write_all_at(b"rows", 32 * MIB).unwrap();
    device.sync_all().unwrap();
    expand(&driver, &volume.id, 128 * MIB);
    driver
        .expand_on_node(&volume.id, &at.target, Range::default(), &BTreeMap::new())
        .unwrap();
    assert_eq!(
        driver.stats(&volume.id, &at.target).unwrap().bytes.1,
        128 * MIB
    );

    let origin = Some(Origin::Volume(volume.id.clone()));
    let (_, clone) = driver
        .create_volume(&new("clone", 0, block(), origin))
        .unwrap();
    let clone_at = places(&folder, "clone");
    publish(&driver, &clone.id, &clone_at, &block());
    let mut bytes = [0; 4];
    File::open(&clone_at.target)
        .unwrap()
        .read_exact_at(&mut bytes, 32 * MIB)
        .unwrap();
    assert_eq!(&bytes, b"rows");
    drop(device);
    unpublish(&driver, &clone.id, &clone_at);
    unpublish(&driver, &volume.id, &at);
}

/// Otherwise each flush of the device would write the log of the file system below.
#[test]
fn writes_leave_the_times_of_an_image_on_xfs_alone() {
    if is_skipped() {
        return;
    }
    let disk = Disk::new("xfs", 1024);
    let driver = open(&file_class(&disk));
    let volume = create(&driver, "device", 64 * MIB, block());
    let at = places(&disk.beside("pods"), "device");
    publish(&driver, &volume.id, &at, &block());
    let image = disk
        .path()
        .join("volumes")
        .join(format!("{}.img", volume.id));
    let changed = || fs::metadata(&image).unwrap().modified().unwrap();
    let before = changed();
    let device = OpenOptions::new().write(true).open(&at.target).unwrap();
    // Longer than the grain of times.
    std::thread::sleep(std::time::Duration::from_millis(50));
    device.write_all_at(b"rows", 32 * MIB).unwrap();
    device.sync_all().unwrap();
    assert_eq!(changed(), before);
    drop(device);
    unpublish(&driver, &volume.id, &at);
}

#[test]
fn a_new_volume_never_shows_what_a_former_owner_wrote() {
    if is_skipped() {
        return;
    }
    const MARK: &[u8] = b"the former owner's secret";
    let disk = Disk::new("xfs", 1024);
    let folder = disk.beside("pods");
    for provisioning in ["thin", "thick"] {
        let driver = open(&format!(
            "{}, provisioning: {provisioning}",
            file_class(&disk)
        ));
        // Most of the disk is written by the first and given to the second owner.
        let owner = |name: &str, look: &dyn Fn(&File)| {
            let volume = create(&driver, name, 512 * MIB, block());
            let at = places(&folder, name);
            publish(&driver, &volume.id, &at, &block());
            let device = OpenOptions::new()
                .read(true)
                .write(true)
                .open(&at.target)
                .unwrap();
            look(&device);
            device.sync_all().unwrap();
            drop(device);
            unpublish(&driver, &volume.id, &at);
            driver.delete_volume(&volume.id).unwrap();
        };
        owner("first", &|device| {
            let page = MARK.repeat((MIB as usize).div_ceil(MARK.len()));
            for at in 0..512 {
                device
                    .write_all_at(&page[..MIB as usize], at * MIB)
                    .unwrap();
            }
        });
        owner("second", &|device| {
            let mut page = vec![0; MIB as usize];
            for at in 0..512 {
                device.read_exact_at(&mut page, at * MIB).unwrap();
                assert!(
                    page.iter().all(|byte| *byte == 0),
                    "{provisioning}, MiB {at}"
                );
            }
        });
    }
}

#[test]
fn a_quota_group_enforces_and_reports_the_size_of_a_subvolume() {
    if is_skipped() {
        return;
    }
    let disk = Disk::new("btrfs", 2048);
    let folder = disk.beside("pods");
    let driver = open(&btrfs_class(&disk));
    let access = mount("");
    let volume = create(&driver, "sub", 64 * MIB, access.clone());
    let at = places(&folder, "sub");
    publish(&driver, &volume.id, &at, &access);
    let write = |mebibytes: u64| {
        let file = File::create(at.target.join("file")).unwrap();
        let page = vec![7; MIB as usize];
        let mut done = Ok(());
        for offset in 0..mebibytes {
            done = done.and_then(|()| file.write_all_at(&page, offset * MIB));
        }
        done.and_then(|()| file.sync_all())
    };
    write(32).unwrap();
    let stats = driver.stats(&volume.id, &at.target).unwrap();
    assert_eq!(stats.bytes.1, 64 * MIB);
    assert!(
        stats.bytes.2 >= 32 * MIB && stats.bytes.2 < 40 * MIB,
        "{stats:?}"
    );
    assert!(write(100).is_err(), "100 MiB fit into 64");
    expand(&driver, &volume.id, 256 * MIB);
    write(100).unwrap();

    driver.create_snapshot("snap", &volume.id).unwrap();
    fs::remove_file(at.target.join("file")).unwrap();
    let origin = Some(Origin::Snapshot("snap".to_owned()));
    let (_, copy) = driver
        .create_volume(&new("copy", 512 * MIB, access.clone(), origin))
        .unwrap();
    assert_eq!(copy.bytes, 512 * MIB);
    let copy_at = places(&folder, "copy");
    publish(&driver, &copy.id, &copy_at, &access);
    assert_eq!(
        fs::metadata(copy_at.target.join("file")).unwrap().len(),
        100 * MIB
    );
    let busy = driver.delete_volume(&copy.id).unwrap_err();
    assert_eq!(busy.code(), tonic::Code::FailedPrecondition);
    unpublish(&driver, &copy.id, &copy_at);
    unpublish(&driver, &volume.id, &at);
    driver.delete_volume(&volume.id).unwrap();
    driver.delete_snapshot("snap").unwrap();
    driver.delete_volume(&copy.id).unwrap();
    assert_eq!(
        fs::read_dir(disk.path().join("volumes")).unwrap().count(),
        0
    );
}

#[test]
fn subvolumes_that_a_pod_made_go_with_its_volume() {
    if is_skipped() {
        return;
    }
    let disk = Disk::new("btrfs", 512);
    let driver = open(&btrfs_class(&disk));
    let volume = create(&driver, "outer", 64 * MIB, mount(""));
    let inner = disk.path().join("volumes/outer/a/inner");
    fs::create_dir(inner.parent().unwrap()).unwrap();
    for path in [inner.clone(), inner.join("innermost")] {
        let made = std::process::Command::new("btrfs")
            .args(["-q", "subvolume", "create"])
            .arg(path)
            .status();
        assert!(made.unwrap().success());
    }
    driver.delete_volume(&volume.id).unwrap();
    assert!(!disk.path().join("volumes/outer").exists());
}

#[test]
fn a_volume_of_one_pod_is_refused_to_another() {
    if is_skipped() {
        return;
    }
    let disk = Disk::new("btrfs", 1024);
    let folder = disk.beside("pods");
    for class in [file_class(&disk), btrfs_class(&disk)] {
        let driver = open(&class);
        let access = mount_as("", Mode::SingleNodeSingleWriter, &["noatime"]);
        let volume = create(&driver, "single", 64 * MIB, access.clone());
        let at = places(&folder, "single");
        publish(&driver, &volume.id, &at, &access);
        let other = folder.join("other");
        let refused = driver.publish(&volume.id, &at.staging, &other, &access, false);
        assert_eq!(
            refused.unwrap_err().code(),
            tonic::Code::FailedPrecondition,
            "{class}"
        );
        // Read-only for the same pod is another publication.
        let refused = driver.publish(&volume.id, &at.staging, &at.target, &access, true);
        assert_eq!(
            refused.unwrap_err().code(),
            tonic::Code::AlreadyExists,
            "{class}"
        );
        unpublish(&driver, &volume.id, &at);
        driver
            .stage(&volume.id, &at.staging, &access, &BTreeMap::new())
            .unwrap();
        driver
            .publish(&volume.id, &at.staging, &other, &access, true)
            .unwrap();
        assert!(
            fs::write(other.join("file"), "x").is_err(),
            "{class}: not read-only"
        );
        driver.unpublish(&volume.id, &other).unwrap();
        driver.unstage(&volume.id, &at.staging).unwrap();
        driver.delete_volume(&volume.id).unwrap();
    }
}

#[test]
fn a_class_promises_no_more_than_it_has() {
    if is_skipped() {
        return;
    }
    let disk = Disk::new("xfs", 1024);
    let driver = open(&file_class(&disk));
    let available = driver.class(None).unwrap().space().unwrap().available;
    create(&driver, "one", available / 2, block());
    let left = driver.class(None).unwrap().space().unwrap().available;
    assert!(left <= available / 2 + MIB, "{left} of {available}");
    let refused = driver.create_volume(&new("two", available, block(), None));
    let error = refused.err().unwrap();
    assert_eq!(error.code(), tonic::Code::ResourceExhausted);
    assert!(error.to_string().contains("class `local` has"), "{error}");
    create(&driver, "three", left / 2, block());
}

#[test]
fn an_inline_volume_lives_as_long_as_its_pod() {
    if is_skipped() {
        return;
    }
    let disk = Disk::new("xfs", 1024);
    let folder = disk.beside("pods");
    let driver = open(&file_class(&disk));
    let target = folder.join("target");
    let context = BTreeMap::from([("size".to_owned(), "100Mi".to_owned())]);
    let none = BTreeMap::new();
    // As kubelets make it.
    let handle = format!("csi-{}", "7f".repeat(32));
    let id = csi::ids::of_volume_handle(handle.clone());
    for _ in 0..2 {
        driver
            .publish_inline(&handle, &target, &mount(""), &context, &none)
            .unwrap();
    }
    fs::write(target.join("file"), "x").unwrap();
    assert_eq!(driver.volume(&id).unwrap().1.bytes, 100 * MIB);
    driver.unpublish(&id, &target).unwrap();
    driver.unpublish(&id, &target).unwrap();
    assert!(!target.exists());
    assert!(driver.volume(&id).is_err());
    assert_eq!(
        fs::read_dir(disk.path().join("volumes")).unwrap().count(),
        0
    );
    let context = BTreeMap::from([("colour".to_owned(), "red".to_owned())]);
    let refused = driver.publish_inline("csi-2", &target, &mount(""), &context, &none);
    assert_eq!(refused.unwrap_err().code(), tonic::Code::InvalidArgument);
}

#[test]
fn snapshots_of_a_group_are_of_one_moment_and_nothing_stays_frozen() {
    if is_skipped() {
        return;
    }
    let disk = Disk::new("xfs", 2048);
    let folder = disk.beside("pods");
    let driver = open(&file_class(&disk));
    let access = mount("ext4");
    let names = ["data", "wal"];
    for name in names {
        create(&driver, name, 64 * MIB, access.clone());
        publish(&driver, name, &places(&folder, name), &access);
        fs::write(folder.join(format!("{name}.target/file")), "before").unwrap();
    }
    let sources = names.map(str::to_owned);
    let (group, members) = driver.create_group("group", &sources).unwrap();
    assert_eq!(members.len(), 2);
    // Writes go on.
    for name in names {
        fs::write(folder.join(format!("{name}.target/file")), "after").unwrap();
    }
    let again = driver.create_group("group", &sources).unwrap();
    assert_eq!(again.0, group);
    let error = driver.delete_snapshot(&members[0].id).unwrap_err();
    assert_eq!(error.code(), tonic::Code::FailedPrecondition);
    let origin = Some(Origin::Snapshot(members[0].id.clone()));
    driver
        .create_volume(&new("copy", 0, access.clone(), origin))
        .unwrap();
    let at = places(&folder, "copy");
    publish(&driver, "copy", &at, &access);
    assert_eq!(
        fs::read_to_string(at.target.join("file")).unwrap(),
        "before"
    );
    driver.delete_group("group", &[]).unwrap();
    assert_eq!(
        fs::read_dir(disk.path().join("snapshots")).unwrap().count(),
        0
    );
    unpublish(&driver, "copy", &at);
    for name in names {
        unpublish(&driver, name, &places(&folder, name));
    }
}

#[test]
fn changed_blocks_are_those_that_were_written_between_two_snapshots() {
    if is_skipped() {
        return;
    }
    for fs_type in ["xfs", "btrfs"] {
        let disk = Disk::new(fs_type, 1024);
        let folder = disk.beside("pods");
        let driver = open(&file_class(&disk));
        let volume = create(&driver, "device", 64 * MIB, block());
        let at = places(&folder, "device");
        publish(&driver, &volume.id, &at, &block());
        let device = OpenOptions::new().write(true).open(&at.target).unwrap();
        let page = vec![5; MIB as usize];
        let write = |mebibyte: u64| {
            device.write_all_at(&page, mebibyte * MIB).unwrap();
            device.sync_all().unwrap();
        };
        (0..8).for_each(&write);
        driver.create_snapshot("old", &volume.id).unwrap();
        write(3);
        write(20);
        driver.create_snapshot("new", &volume.id).unwrap();
        let ranges = |base| -> Vec<(u64, u64)> {
            let (_, extents) = driver.snapshot_blocks("new", base).unwrap();
            extents
                .iter()
                .map(|it| (it.offset / MIB, it.length / MIB))
                .collect()
        };
        assert_eq!(ranges(None), [(0, 8), (20, 1)], "{fs_type}");
        assert_eq!(ranges(Some("old")), [(3, 1), (20, 1)], "{fs_type}");
        drop(device);
        unpublish(&driver, &volume.id, &at);
    }
}

#[test]
fn a_damaged_file_system_is_not_mounted() {
    if is_skipped() {
        return;
    }
    let disk = Disk::new("xfs", 1024);
    let folder = disk.beside("pods");
    let driver = open(&file_class(&disk));
    let access = mount("ext4");
    create(&driver, "broken", 64 * MIB, access.clone());
    let at = places(&folder, "broken");
    publish(&driver, "broken", &at, &access);
    unpublish(&driver, "broken", &at);
    // The superblock and the group descriptors: no harmless repair.
    let image = OpenOptions::new()
        .write(true)
        .open(disk.path().join("volumes/broken.img"))
        .unwrap();
    image.write_all_at(&[0xff; 8192], 1024 + 0x40).unwrap();
    let error = driver
        .stage("broken", &at.staging, &access, &BTreeMap::new())
        .unwrap_err();
    println!("{}", error.chain());
    assert!(fs::read_dir(&at.staging).unwrap().next().is_none());
}

#[test]
fn copies_on_a_file_system_without_reflinks_need_a_volume_at_rest() {
    if is_skipped() {
        return;
    }
    let disk = Disk::new("ext4", 1024);
    let folder = disk.beside("pods");
    let driver = open(&file_class(&disk));
    let access = mount("ext4");
    create(&driver, "source", 64 * MIB, access.clone());
    let at = places(&folder, "source");
    publish(&driver, "source", &at, &access);
    fs::write(at.target.join("file"), "data").unwrap();
    let refused = driver.create_snapshot("snap", "source").unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    unpublish(&driver, "source", &at);
    driver.create_snapshot("snap", "source").unwrap();
    let origin = Some(Origin::Snapshot("snap".to_owned()));
    driver
        .create_volume(&new("copy", 0, access.clone(), origin))
        .unwrap();
    let at = places(&folder, "copy");
    publish(&driver, "copy", &at, &access);
    assert_eq!(fs::read_to_string(at.target.join("file")).unwrap(), "data");
    unpublish(&driver, "copy", &at);
}

#[test]
fn a_folder_without_an_enforced_size_is_refused_unless_the_class_says_so() {
    if is_skipped() {
        return;
    }
    let disk = Disk::new("ext4", 256);
    let path = disk.path().display().to_string();
    let text = super::harness::configuration(&format!("backend: xfs-quota, path: {path}"));
    let config = csi::config::Config::parse(&text).unwrap();
    let environment = csi::backend::Environment {
        tools: std::sync::Arc::new(csi::tool::SystemRunner),
        steps: std::sync::Arc::new(csi::steps::TraceSteps),
    };
    let error = Driver::open(&config, "node-1", environment).err().unwrap();
    assert!(
        error.chain().contains("allowUnenforcedSize: true"),
        "{}",
        error.chain()
    );
    let driver = open(&format!(
        "backend: xfs-quota, path: {path}, allowUnenforcedSize: true"
    ));
    create(&driver, "plain", 16 * MIB, mount(""));
    assert!(Path::new(&path).join("volumes/plain").is_dir());
}

#[test]
fn sizes_beyond_the_disk_do_not_fit() {
    if is_skipped() {
        return;
    }
    let disk = Disk::new("xfs", 512);
    let driver = open(&file_class(&disk));
    assert!(
        driver
            .create_volume(&new("huge", 100 * GIB, block(), None))
            .is_err()
    );
    assert_eq!(
        fs::read_dir(disk.path().join("volumes")).unwrap().count(),
        0
    );
}
