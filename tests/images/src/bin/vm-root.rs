//! The first process of an emulated machine with a disk: loads the modules in `/modules`,
//! mounts the disk, and becomes the disk's own first process, systemd. The root of an
//! initramfs cannot be pivoted away from, so the disk is mounted over it (the kernel's
//! documentation, `ramfs-rootfs-initramfs`).

use std::{
    error::Error,
    fs, io,
    os::unix::process::CommandExt,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use nix::{
    mount::{MsFlags, mount},
    sys::reboot::{RebootMode, reboot},
};

const DISK: &str = "/dev/vda";
const ROOT: &str = "/root";
/// The driver finds the disk a moment after it is loaded.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let error = match prepare() {
        Ok(()) => Command::new("/sbin/init").env_clear().exec().into(),
        Err(error) => error,
    };
    println!("vm: {error}");
    println!("vm: failed");
    let _ = reboot(RebootMode::RB_POWER_OFF);
}

fn prepare() -> Result<(), Box<dyn Error>> {
    mount_at("devtmpfs", "devtmpfs", "/dev", MsFlags::empty())?;
    let mut modules: Vec<_> = fs::read_dir("/modules")?
        .flatten()
        .map(|it| it.path())
        .collect();
    modules.sort();
    for module in modules {
        let status = Command::new("/bin/insmod").arg(&module).status()?;
        if !status.success() {
            return Err(format!("insmod {}: {status}", module.display()).into());
        }
    }
    let started = Instant::now();
    while !Path::new(DISK).exists() {
        if started.elapsed() > PATIENCE {
            return Err(format!("there is no {DISK}").into());
        }
        thread::sleep(Duration::from_millis(50));
    }
    fs::create_dir_all(ROOT)?;
    mount_at(DISK, "ext4", ROOT, MsFlags::empty())?;
    std::env::set_current_dir(ROOT)?;
    mount_at("/dev", "", "dev", MsFlags::MS_MOVE)?;
    mount_at(".", "", "/", MsFlags::MS_MOVE)?;
    nix::unistd::chroot(".")?;
    Ok(std::env::set_current_dir("/")?)
}

fn mount_at(what: &str, kind: &str, target: &str, flags: MsFlags) -> io::Result<()> {
    mount(Some(what), target, Some(kind), flags, None::<&str>)
        .map_err(|error| io::Error::other(format!("mount {what} on {target}: {error}")))
}
