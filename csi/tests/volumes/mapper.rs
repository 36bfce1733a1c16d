//! Tests volumes that need device-mapper or XFS quotas. Where the machine lacks them,
//! `cargo xtask vm --suites volumes` provides them.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use control_kms::fake::FakeManager;
use csi::catalog::record::Origin;
use csi::driver::Driver;
use csi::request::size::Range;

use super::disk::{Disk, isolate, missing};
use super::group::{self, Group};
use super::harness::{MIB, block, create, mount, new, open, places, publish, unpublish};
use super::sanity::{COPIES, LOCAL, WITHOUT_COPIES, WITHOUT_GROUPS, sanity};

/// Prints why a test cannot run.
fn is_skipped(programs: &[&str]) -> bool {
    if let Some(reason) = missing(programs).or_else(group::no_mapper) {
        println!("skipped: {reason}");
        return true;
    }
    isolate();
    false
}

/// Copies of a volume in use, growth, and deletion.
fn check_life(driver: &Driver, folder: &Path, independent_snapshots: bool) {
    let access = mount("ext4");
    let volume = create(driver, "data", 64 * MIB, access.clone());
    let at = places(folder, "data");
    publish(driver, &volume.id, &at, &access);
    fs::write(at.target.join("file"), "before").unwrap();
    driver.create_snapshot("snap", &volume.id).unwrap();
    fs::write(at.target.join("file"), "after").unwrap();

    let snapshot = Some(Origin::Snapshot("snap".to_owned()));
    driver
        .create_volume(&new("restored", 96 * MIB, access.clone(), snapshot))
        .unwrap();
    let clone = Some(Origin::Volume("data".to_owned()));
    driver
        .create_volume(&new("clone", 0, access.clone(), clone))
        .unwrap();
    for (name, text) in [("restored", "before"), ("clone", "after")] {
        let at = places(folder, name);
        publish(driver, name, &at, &access);
        assert_eq!(
            fs::read_to_string(at.target.join("file")).unwrap(),
            text,
            "{name}"
        );
        unpublish(driver, name, &at);
    }

    let range = Range {
        required: 128 * MIB,
        limit: 0,
    };
    if !independent_snapshots {
        for refused in [
            driver.delete_volume("data"),
            driver.expand_volume("data", range).map(drop),
        ] {
            assert_eq!(refused.unwrap_err().code(), tonic::Code::FailedPrecondition);
        }
        driver.delete_snapshot("snap").unwrap();
    }
    driver.expand_volume("data", range).unwrap();
    driver
        .expand_on_node("data", &at.target, range, &BTreeMap::new())
        .unwrap();
    assert!(driver.stats("data", &at.target).unwrap().bytes.1 > 100 * MIB);
    unpublish(driver, "data", &at);
    for name in ["data", "restored", "clone"] {
        driver.delete_volume(name).unwrap();
    }
    driver.delete_snapshot("snap").unwrap();
    let inventory = driver.class(None).unwrap().backend.list().unwrap();
    assert!(inventory.volumes.is_empty() && inventory.snapshots.is_empty());
}

/// A second owner of the same space reads zeros.
fn check_former_owner(driver: &Driver, folder: &Path, bytes: u64) {
    for owner in ["first", "second"] {
        create(driver, owner, bytes, block());
        let at = places(folder, owner);
        publish(driver, owner, &at, &block());
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&at.target)
            .unwrap();
        let mut page = vec![0; MIB as usize];
        for offset in (0..bytes).step_by(MIB as usize) {
            device.read_exact_at(&mut page, offset).unwrap();
            assert!(page.iter().all(|byte| *byte == 0), "{owner} at {offset}");
        }
        page.fill(7);
        for offset in (0..bytes).step_by(MIB as usize) {
            device.write_all_at(&page, offset).unwrap();
        }
        device.sync_all().unwrap();
        drop(device);
        unpublish(driver, owner, &at);
        driver.delete_volume(owner).unwrap();
    }
}

const LVM: [&str; 5] = ["lvcreate", "pvcreate", "vgcreate", "dd", "mkfs.ext4"];

#[test]
fn logical_volumes_are_copied_grown_and_zeroed() {
    if is_skipped(&LVM) {
        return;
    }
    let disk = Disk::new("ext4", 64);
    let group = Group::new(&disk, "orlopthick", 768);
    let state = disk.beside("state");
    let class = format!(
        "backend: lvm, volumeGroup: {}, wipe: none, stateDir: {}",
        group.0,
        state.display()
    );
    let driver = open(&class);
    let folder = disk.beside("pods");
    if has_resize_right() {
        check_life(&driver, &folder, false);
    }
    // Extents are given out from the first free one on: the same to both owners.
    check_former_owner(&driver, &folder, 64 * MIB);
    drop(driver);
    sanity(&disk, &class, "mount", &[&LOCAL, &COPIES, &WITHOUT_GROUPS]);
}

#[test]
fn thin_volumes_are_copied_grown_and_zeroed() {
    if is_skipped(&LVM) {
        return;
    }
    let disk = Disk::new("ext4", 64);
    let group = Group::new(&disk, "orlopthin", 768);
    group.add_thin_pool("pool", 512);
    let state = disk.beside("state");
    let class = format!(
        "backend: lvm-thin, volumeGroup: {}, thinPool: pool, stateDir: {}",
        group.0,
        state.display()
    );
    let driver = open(&class);
    let folder = disk.beside("pods");
    if has_resize_right() {
        check_life(&driver, &folder, true);
    }
    drop(driver);
    // Most of a small pool is written by the first owner and given to the second.
    group.add_thin_pool("small", 64);
    let small = class
        .replace("thinPool: pool", "thinPool: small")
        .replace("/state", "/small");
    check_former_owner(&open(&small), &folder, 48 * MIB);
    sanity(&disk, &class, "mount", &[&LOCAL, &COPIES]);
}

/// Whether a mounted ext4 can grow here.
pub fn has_resize_right() -> bool {
    super::data::has_sys_resource()
}

#[test]
fn an_encrypted_volume_shows_its_data_to_the_holder_of_the_passphrase_alone() {
    if is_skipped(&["cryptsetup", "mkfs.xfs", "mkfs.ext4"]) {
        return;
    }
    const MARK: &str = "what nobody else may read";
    let disk = Disk::new("xfs", 512);
    let folder = disk.beside("pods");
    let driver = open(&format!(
        "backend: file, path: {}, encryption: luks2",
        disk.path().display()
    ));
    let access = mount("ext4");
    create(&driver, "secret", 64 * MIB, access.clone());
    let at = places(&folder, "secret");
    let secrets = |text: &str| BTreeMap::from([("luksPassphrase".to_owned(), text.to_owned())]);
    let none = driver
        .stage("secret", &at.staging, &access, &BTreeMap::new())
        .unwrap_err();
    assert_eq!(none.code(), tonic::Code::InvalidArgument);
    for _ in 0..2 {
        driver
            .stage("secret", &at.staging, &access, &secrets("right"))
            .unwrap();
        driver
            .publish("secret", &at.staging, &at.target, &access, false)
            .unwrap();
        fs::write(at.target.join("file"), MARK.repeat(1000)).unwrap();
        unpublish(&driver, "secret", &at);
    }
    let image = fs::read(disk.path().join("volumes/secret.img")).unwrap();
    let found = image
        .windows(MARK.len())
        .any(|window| window == MARK.as_bytes());
    assert!(!found, "the image holds plain text");
    assert!(!Path::new("/dev/mapper/orlop-secret").exists());
    let wrong = driver
        .stage("secret", &at.staging, &access, &secrets("wrong"))
        .unwrap_err();
    println!("{}", wrong.chain());
    driver.unstage("secret", &at.staging).unwrap();
    driver
        .stage("secret", &at.staging, &access, &secrets("right"))
        .unwrap();
    driver.unstage("secret", &at.staging).unwrap();
    driver.delete_volume("secret").unwrap();
}

#[test]
fn a_volume_whose_key_a_manager_wraps_opens_again_grows_and_is_copied() {
    if is_skipped(&["cryptsetup", "mkfs.ext4"]) {
        return;
    }
    let disk = Disk::new("xfs", 512);
    let folder = disk.beside("pods");
    let socket = disk.beside("kms").join("kms.sock");
    let manager = Arc::new(FakeManager::default());
    manager.use_key(1);
    manager.serve(&socket).unwrap();
    let class = format!(
        "backend: file, path: {}, encryption: luks2, kmsEndpoint: 'unix://{}'",
        disk.path().display(),
        socket.display()
    );
    let driver = open(&class);
    let access = mount("ext4");
    create(&driver, "kept", 64 * MIB, access.clone());
    let at = places(&folder, "kept");
    publish(&driver, "kept", &at, &access);
    fs::write(at.target.join("file"), "data").unwrap();
    unpublish(&driver, "kept", &at);
    drop(driver);

    // The node restarts, and the manager's key is another.
    manager.use_key(2);
    let driver = open(&class);
    publish(&driver, "kept", &at, &access);
    assert_eq!(fs::read(at.target.join("file")).unwrap(), b"data");
    let before = manager.decrypted();
    if has_resize_right() {
        let range = Range {
            required: 96 * MIB,
            limit: 0,
        };
        driver
            .expand_on_node("kept", &at.target, range, &BTreeMap::new())
            .unwrap();
        assert_eq!(manager.decrypted(), before + 1);
    }
    unpublish(&driver, "kept", &at);
    let origin = Some(Origin::Volume("kept".to_owned()));
    let copy = new("copy", 96 * MIB, access.clone(), origin);
    driver.create_volume(&copy).unwrap();
    let copied = places(&folder, "copy");
    publish(&driver, "copy", &copied, &access);
    assert_eq!(fs::read(copied.target.join("file")).unwrap(), b"data");
    unpublish(&driver, "copy", &copied);
    for id in ["copy", "kept"] {
        driver.delete_volume(id).unwrap();
    }
}

#[test]
fn a_project_quota_enforces_and_reports_the_size_of_a_folder() {
    if is_skipped(&["mkfs.xfs", "xfs_quota"]) {
        return;
    }
    let disk = Disk::with_options("xfs", 512, &["prjquota"]);
    let folder = disk.beside("pods");
    let class = format!("backend: xfs-quota, path: {}", disk.path().display());
    let driver = open(&class);
    let access = mount("");
    create(&driver, "folder", 32 * MIB, access.clone());
    let at = places(&folder, "folder");
    publish(&driver, "folder", &at, &access);
    let write = |mebibytes: u64| {
        let file = File::create(at.target.join("file")).unwrap();
        let page = vec![7; MIB as usize];
        let mut done = Ok(());
        for offset in 0..mebibytes {
            done = done.and_then(|()| file.write_all_at(&page, offset * MIB));
        }
        done.and_then(|()| file.sync_all())
    };
    write(16).unwrap();
    let stats = driver.stats("folder", &at.target).unwrap();
    assert_eq!(stats.bytes.1, 32 * MIB);
    assert!((16 * MIB..20 * MIB).contains(&stats.bytes.2), "{stats:?}");
    assert!(write(64).is_err(), "64 MiB fit into 32");
    let range = Range {
        required: 128 * MIB,
        limit: 0,
    };
    driver.expand_volume("folder", range).unwrap();
    write(64).unwrap();
    unpublish(&driver, "folder", &at);
    driver.delete_volume("folder").unwrap();
    drop(driver);
    sanity(&disk, &class, "mount", &[&LOCAL, &WITHOUT_COPIES]);
}
