//! The disk of a node: an image with a file system whose state at one moment can be captured.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use csi::device::loop_device;
use csi::filesystem::mounts::{self, MountTable};
use rustix::mount::{MountFlags, UnmountFlags};

use super::disk::Disk;

/// A disk whose image lies on a file system that shares blocks of copies.
pub struct Machine {
    /// The disk with the file system that holds the image.
    outer: Disk,
    fs_type: &'static str,
}

impl Machine {
    /// Makes a disk with a file system, and mounts it.
    pub fn new(fs_type: &'static str, mebibytes: u64) -> Self {
        let outer = Disk::new("xfs", 3 * mebibytes);
        let machine = Self { outer, fs_type };
        let file = File::create(machine.image()).expect("image");
        file.set_len(mebibytes << 20).expect("size");
        let device = loop_device::attach(&machine.image(), false).expect("a loop device");
        let made = Command::new(format!("mkfs.{fs_type}"))
            .args(["-q", "-f"])
            .arg(&device)
            .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(made.expect("mkfs").success(), "mkfs.{fs_type}");
        fs::create_dir(machine.path()).expect("mount point");
        machine.mount();
        machine
    }

    fn image(&self) -> PathBuf {
        self.outer.path().join("node.img")
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.folder().join("disk")
    }

    /// A folder of the node that is on no disk of its own.
    pub fn folder(&self) -> PathBuf {
        self.outer.beside("node")
    }

    pub fn mount(&self) {
        let device = loop_device::attach(&self.image(), false).expect("a loop device");
        let path = self.path();
        mounts::mount(&device, &path, self.fs_type, MountFlags::empty(), &[]).expect("mounted");
    }

    /// Copies what the disk holds at this moment.
    pub fn cut(&self) -> PathBuf {
        let cut = self.image().with_extension("cut");
        let copied = Command::new("cp")
            .arg("--reflink=always")
            .args([&self.image(), &cut])
            .status();
        assert!(copied.expect("cp").success());
        cut
    }

    /// Takes everything off that is mounted of the disk. Nobody may use it any more.
    pub fn end(&self) {
        let folder = self.folder();
        let table = MountTable::read().expect("mounts");
        let mut targets: Vec<PathBuf> = table.iter().map(|it| it.target.clone()).collect();
        targets.retain(|target| target.starts_with(&folder));
        targets.reverse();
        let disk = self.path();
        for target in targets.iter().filter(|it| **it != disk) {
            rustix::mount::unmount(target, UnmountFlags::DETACH).expect("unmounted");
        }
        for image in images(&disk.join("volumes")) {
            loop_device::detach(&image).expect("detached");
        }
        rustix::mount::unmount(&disk, UnmountFlags::empty()).expect("the disk is unmounted");
        loop_device::detach(&self.image()).expect("detached");
    }

    /// Has the node go on from a cut.
    pub fn begin_with(&self, cut: &Path) {
        fs::rename(cut, self.image()).expect("renamed");
        self.mount();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}

fn images(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|it| it == "img"))
        .collect()
}
