//! File systems for tests: images in the temporary folder, mounted in a mount namespace of the
//! test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use csi::device::loop_device;
use csi::filesystem::mounts;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

/// A file system that goes with the value.
pub struct Disk {
    folder: tempfile::TempDir,
}

/// Why tests with devices cannot run here.
pub fn missing(programs: &[&str]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("mounting needs root".to_owned());
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("the kernel has no loop devices (`modprobe loop`)".to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &&&str| {
        let sbin = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        std::env::split_paths(&path)
            .chain(sbin)
            .any(|folder| folder.join(name).exists())
    };
    let absent: Vec<&&str> = programs.iter().filter(|name| !is_there(name)).collect();
    let absent = absent.first()?;
    Some(format!("`{absent}` is not installed"))
}

/// Gives the calling thread, and the programs that it starts, mounts of its own.
pub fn isolate() {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).expect("a mount namespace");
    rustix::mount::mount_change(
        "/",
        MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
    )
    .expect("private mounts");
}

impl Disk {
    /// Makes a file system (`xfs`, `btrfs`, `ext4`) of so many mebibytes, and
    /// mounts it.
    pub fn new(fs_type: &str, mebibytes: u64) -> Self {
        Self::with_options(fs_type, mebibytes, &[])
    }

    /// The same, mounted with options.
    pub fn with_options(fs_type: &str, mebibytes: u64, options: &[&str]) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("orlop-csi-")
            .tempdir()
            .expect("folder");
        let image = folder.path().join("disk.img");
        let file = File::create(&image).expect("image");
        file.set_len(mebibytes << 20).expect("size");
        // On the device: its sectors are larger than those of the image.
        let device = loop_device::attach(&image, false).expect("a loop device");
        let disk = Self { folder };
        let flag = if fs_type == "ext4" { "-F" } else { "-f" };
        let made = Command::new(format!("mkfs.{fs_type}"))
            .args(["-q", flag])
            .arg(&device)
            .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
            .stderr(Stdio::null())
            .status();
        assert!(made.expect("mkfs").success(), "mkfs.{fs_type}");
        let path = disk.path();
        let options: Vec<String> = options.iter().map(|it| (*it).to_owned()).collect();
        fs::create_dir(&path).expect("mount point");
        mounts::mount(&device, &path, fs_type, MountFlags::empty(), &options).expect("mount");
        disk
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// A loop device beside it.
    pub fn device(&self, name: &str, bytes: u64) -> PathBuf {
        let image = self.beside("devices").join(format!("{name}.img"));
        File::create(&image)
            .expect("image")
            .set_len(bytes)
            .expect("size");
        loop_device::attach(&image, false).expect("a loop device")
    }

    /// A folder beside it, on the machine's own file system.
    pub fn beside(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(&path).expect("folder");
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What a failed test left mounted, the last first.
        let table = mounts::MountTable::read().unwrap_or_default();
        let mut targets: Vec<PathBuf> = table
            .iter()
            .map(|it| it.target.clone())
            .filter(|target| target.starts_with(self.folder.path()))
            .collect();
        targets.reverse();
        let images = images(self.folder.path());
        for target in targets.iter().filter(|it| **it != self.path()) {
            let _ = rustix::mount::unmount(target, UnmountFlags::DETACH);
        }
        for image in images.iter().filter(|it| !it.ends_with("disk.img")) {
            let _ = loop_device::detach(image);
        }
        let _ = rustix::mount::unmount(self.path(), UnmountFlags::empty());
        let _ = loop_device::detach(&self.folder.path().join("disk.img"));
    }
}

/// All images in a folder.
fn images(folder: &Path) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|it| it == "img") {
                found.push(path);
            } else if entry.file_type().is_ok_and(|it| it.is_dir()) {
                folders.push(path);
            }
        }
    }
    found
}
