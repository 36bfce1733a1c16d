//! The first process of an emulated machine: makes the file systems that the
//! tests want, loads the modules in `/modules`, runs every program in `/tests`, and
//! switches the machine off. Of a program for which there is a list in `/only`, it runs the
//! tests of that list alone.
//! The last line it prints is `vm: passed` or `vm: failed`.

use std::{
    fs,
    path::Path,
    process::{Command, ExitStatus},
};

use nix::{
    mount::{MsFlags, mount},
    sys::reboot::{RebootMode, reboot},
};

fn main() {
    let passed = match prepare() {
        Ok(()) => run_all(),
        Err(error) => {
            println!("vm: {error}");
            false
        }
    };
    println!("vm: {}", if passed { "passed" } else { "failed" });
    // Only an error returns, and then the kernel panics and qemu ends as well.
    let _ = reboot(RebootMode::RB_POWER_OFF);
}

fn prepare() -> Result<(), String> {
    for (kind, target) in [
        ("devtmpfs", "/dev"),
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("bpf", "/sys/fs/bpf"),
        ("cgroup2", "/sys/fs/cgroup"),
        ("tmpfs", "/tmp"),
        ("tmpfs", "/run"),
    ] {
        let made = fs::create_dir_all(target).map_err(|error| error.to_string());
        made.and_then(|()| {
            mount(
                Some(kind),
                target,
                Some(kind),
                MsFlags::empty(),
                None::<&str>,
            )
            .or_else(|error| {
                if kind == "devtmpfs" {
                    Ok(())
                } else {
                    Err(error)
                }
            })
            .map_err(|error| error.to_string())
        })
        .map_err(|error| format!("mount {kind} on {target}: {error}"))?;
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    println!("vm: kernel {}", release.trim());
    load_modules();
    let up = Command::new("/bin/ip")
        .args(["link", "set", "lo", "up"])
        .status();
    if !up.as_ref().is_ok_and(ExitStatus::success) {
        return Err(format!("the loopback device does not come up: {up:?}"));
    }
    Ok(())
}

/// In the order of their names. A module that cannot be loaded is told: tests say what
/// they lack.
fn load_modules() {
    let folder = fs::read_dir("/modules").into_iter().flatten().flatten();
    let mut files: Vec<_> = folder.map(|entry| entry.path()).collect();
    files.sort();
    for path in files {
        let loaded = Command::new("/bin/insmod").arg(&path).status();
        if !loaded.as_ref().is_ok_and(ExitStatus::success) {
            println!("vm: {}: {loaded:?}", path.display());
        }
    }
}

/// The arguments that select the tests of a program.
fn selected(program: &Path) -> Vec<String> {
    let list = program
        .file_name()
        .map(|name| Path::new("/only").join(name));
    let Some(Ok(names)) = list.map(fs::read_to_string) else {
        return Vec::new();
    };
    let exact = std::iter::once("--exact".to_owned());
    exact.chain(names.lines().map(str::to_owned)).collect()
}

fn run_all() -> bool {
    let mut programs: Vec<_> = fs::read_dir(Path::new("/tests"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    programs.sort();
    if programs.is_empty() {
        println!("vm: no tests in /tests");
        return false;
    }
    let mut passed = true;
    for program in programs {
        println!("vm: {}", program.display());
        let status = Command::new(&program)
            .args(["--test-threads", "1", "--show-output"])
            .args(selected(&program))
            .env("PATH", "/bin")
            .env("ORLOP_VM", "1")
            .status();
        match status {
            Ok(status) if status.success() => {}
            other => {
                println!("vm: {}: {other:?}", program.display());
                passed = false;
            }
        }
    }
    passed
}
