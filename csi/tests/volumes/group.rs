//! Volume groups of LVM, on loop devices.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::disk::Disk;

/// Why the kernel has no volume groups, if it has none.
pub fn no_mapper() -> Option<String> {
    // The tools make the device where it is missing, whether or not anything is behind it.
    let drivers = fs::read_to_string("/proc/misc").unwrap_or_default();
    let has_mapper = drivers.contains("device-mapper") && Path::new("/dev/mapper/control").exists();
    (!has_mapper).then(|| "the kernel has no device-mapper".to_owned())
}

/// Runs a program, which makes device nodes itself where there is no udev.
pub fn run(program: &str, arguments: &[&str]) {
    let path = "/usr/sbin:/sbin:/usr/bin:/bin";
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", path)
        .envs((!Path::new("/run/udev/control").exists()).then_some(("DM_DISABLE_UDEV", "1")))
        .output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
}

/// A volume group that goes with the value.
pub struct Group(pub String);

impl Group {
    /// Makes one of so many mebibytes, on a device beside a disk.
    pub fn new(disk: &Disk, name: &str, mebibytes: u64) -> Self {
        let device = disk.device(name, mebibytes << 20).display().to_string();
        run("pvcreate", &["--yes", &device]);
        run("vgcreate", &["--yes", name, &device]);
        Self(name.to_owned())
    }

    /// Makes a thin pool in it, of so many mebibytes.
    pub fn add_thin_pool(&self, name: &str, mebibytes: u64) {
        let size = format!("{mebibytes}M");
        let place = format!("{}/{name}", self.0);
        run(
            "lvcreate",
            &[
                "--yes",
                "--size",
                &size,
                "--type",
                "thin-pool",
                "--name",
                &place,
            ],
        );
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = Command::new("vgremove")
            .args(["--yes", "--force", &self.0])
            .output();
    }
}
