//! The packages' suite: the Debian package is installed, started, upgraded under traffic,
//! removed and purged on Debian with systemd.
//!
//! The machine has a disk, made of Debian's packages, the kernel's modules and what the test
//! needs; nothing is fetched in it. Its initramfs only finds the disk.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{
    arch::Architecture,
    initramfs::write_initramfs,
    kernel::{Kernel, find},
    machine::Machine,
    programs::with_programs,
};
use crate::{
    build, dist,
    error::{Error, at},
    images,
    results::Results,
    run::{Step, output, run, target, which},
    setup,
};

/// Debian packages of the machine besides the essential ones: those of every installation, those
/// that Orlop's package recommends, and the tools of the test.
const DEBIAN: [&str; 17] = [
    "bpftool",
    "ca-certificates",
    "containerd",
    "curl",
    "dbus",
    "dbus-user-session",
    "e2fsprogs",
    "iproute2",
    "iptables",
    "kmod",
    "nftables",
    "procps",
    "runc",
    "systemd",
    "systemd-sysv",
    "udev",
    "zstd",
];
const RELEASE: &str = "bookworm";
/// Settings of the machine, run in its root folder `$1` once the packages are there. Timers
/// would start other units meanwhile.
const SETTINGS: &str = r#"
set -e
echo 0123456789abcdef0123456789abcdef > "$1/etc/machine-id"
echo debian > "$1/etc/hostname"
printf '127.0.0.1 localhost\n10.0.2.15 debian\n' > "$1/etc/hosts"
rm -f "$1/etc/resolv.conf"
echo 'nameserver 10.0.2.3' > "$1/etc/resolv.conf"
cat > "$1/etc/systemd/network/lan.network" <<END
[Match]
Driver=virtio_net
[Network]
Address=10.0.2.15/24
Gateway=10.0.2.2
END
cat > "$1/etc/systemd/system/vm-packages.service" <<END
[Unit]
After=multi-user.target
[Service]
ExecStart=/test/vm-packages
Environment=SYSTEMD_BUS_TIMEOUT=600
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
[Install]
WantedBy=graphical.target
END
mkdir "$1/test"
chroot "$1" systemctl -q enable systemd-networkd vm-packages
chroot "$1" systemctl -q mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
    e2scrub_all.timer fstrim.timer systemd-tmpfiles-clean.timer serial-getty@ttyS0.service
"#;
/// The modules with which the first process finds the disk.
const DISK_MODULES: [&str; 3] = ["virtio_pci", "virtio_blk", "ext4"];
const DISK_SIZE: &str = "4G";
/// Memory of the machine.
pub const MEBIBYTES: u32 = 3072;
const TRIPLE: &str = "x86_64-unknown-linux-musl";
/// Versions of the package, the former first.
const VERSIONS: [&str; 2] = ["0.0.1", "0.0.2"];
/// The least that a machine needs, which does more than others.
const LIMIT: Duration = Duration::from_secs(3600);

/// Files to copy to the disk: path in the machine, and path of the source.
type Files = Vec<(&'static str, PathBuf)>;

/// Runs the suite on these kernels, with these programs; without, they are built.
///
/// # Errors
/// When a package cannot be had, something does not build, or a test fails.
pub fn run_suite(
    series: &[String],
    programs: Option<&Path>,
    results: &mut Results,
) -> Result<(), Error> {
    setup::setup_for_disks()?;
    let step = Step::begin("packages");
    let files = files(programs)?;
    step.done();
    let step = Step::begin("Debian with systemd");
    let root = root()?;
    step.done();
    for series in series {
        let step = Step::begin(format!("disk for kernel {series}"));
        let kernel = Kernel::fetch(Architecture::X86_64, series)?;
        let disk = Disk::make(series, kernel.folder(), &root, &files)?;
        step.done();
        let step = Step::begin(format!("packages on kernel {series}"));
        let machine = Machine {
            name: format!("{series}-packages"),
            architecture: Architecture::X86_64,
            kernel: kernel.image()?,
            image: disk.initramfs,
            mebibytes: MEBIBYTES,
            parameters: "systemd.show_status=0 net.ifnames=0".to_owned(),
            arguments: devices(&disk.image),
        };
        let ran = machine.boot(LIMIT, |line| {
            let is_shown = ["test ", "    "]
                .iter()
                .any(|start| line.starts_with(start));
            if is_shown || line.contains("vm: ") {
                println!("    {line}");
            }
        })?;
        step.done();
        fs::remove_file(&disk.image).map_err(at(&disk.image))?;
        ran.count(series, results);
        ran.into_result()?;
    }
    Ok(())
}

/// The emulator's arguments for this disk, a network without a way out, and a clock that counts
/// instructions, so that a busy host runs nothing out of time; more processors do not start with
/// such a clock.
fn devices(disk: &Path) -> Vec<String> {
    let drive = format!("file={},format=raw,if=virtio", disk.display());
    let network = "user,model=virtio-net-pci,restrict=on,ipv6=off";
    let devices = ["-drive", &drive, "-nic", network];
    let clock = ["-icount", "shift=1", "-rtc", "clock=vm", "-smp", "1"];
    let all = devices.iter().chain(&clock);
    all.map(|it| (*it).to_owned()).collect()
}

/// The packages, their images and the test.
fn files(programs: Option<&Path>) -> Result<Files, Error> {
    let folder = target().join("vm").join("packages");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let built = match programs {
        Some(folder) => folder.to_owned(),
        None => dist::build(TRIPLE, false)?,
    };
    let packed = folder.join("programs");
    fs::create_dir_all(&packed).map_err(at(&packed))?;
    for name in ["orlop", "orlop-cni", "orlop-csi"] {
        // Symbol names are a quarter of the size.
        run(Command::new("strip")
            .arg("-o")
            .arg(packed.join(name))
            .arg(built.join(name)))?;
    }
    dist::pack_deb(TRIPLE, &packed, &VERSIONS, &folder)?;
    let images = images::build()?;
    let programs = build::images_programs()?;
    let kubectl = which("kubectl").ok_or_else(|| Error::Missing {
        what: "`kubectl`".to_owned(),
        how: "it is looked for on the path".to_owned(),
    })?;
    let mut files = vec![
        ("test/images.tar", images),
        ("test/vm-packages", programs.join("vm-packages")),
        ("test/demo", programs.join("demo")),
        ("test/kubectl", kubectl),
    ];
    for (place, version) in [("test/1.deb", VERSIONS[0]), ("test/2.deb", VERSIONS[1])] {
        files.push((place, folder.join(format!("orlop_{version}_amd64.deb"))));
    }
    Ok(files)
}

/// An archive of Debian's root folder; one of the same packages and settings is taken again.
fn root() -> Result<PathBuf, Error> {
    let folder = target().join("vm");
    let archive = folder.join("debian.tar");
    let recipe = folder.join("debian.recipe");
    let wanted = format!("{RELEASE} {}\n{SETTINGS}", DEBIAN.join(" "));
    if archive.exists() && fs::read_to_string(&recipe).is_ok_and(|found| found == wanted) {
        return Ok(archive);
    }
    output(
        Command::new("mmdebstrap")
            .args(["--quiet", "--variant=minbase"])
            .arg(format!("--include={}", DEBIAN.join(",")))
            .arg(format!("--customize-hook={SETTINGS}"))
            .arg(RELEASE)
            .arg(&archive),
    )?;
    fs::write(&recipe, wanted).map_err(at(&recipe))?;
    Ok(archive)
}

/// What a machine starts from.
struct Disk {
    image: PathBuf,
    initramfs: PathBuf,
}

impl Disk {
    /// Puts root folder, modules and files together.
    fn make(series: &str, kernel: &Path, root: &Path, files: &Files) -> Result<Self, Error> {
        let vm = target().join("vm");
        let folder = vm.join(format!("{series}-root"));
        let made = Self::fill(&folder, series, kernel, root, files);
        // Large, and of root.
        fs::remove_dir_all(&folder).map_err(at(&folder))?;
        made
    }

    fn fill(
        folder: &Path,
        series: &str,
        kernel: &Path,
        root: &Path,
        files: &Files,
    ) -> Result<Self, Error> {
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(at(folder))?;
        }
        fs::create_dir_all(folder).map_err(at(folder))?;
        let unpack = |archive: &Path, only: &[&str]| {
            run(Command::new("tar")
                .args(["--extract", "--numeric-owner", "--directory"])
                .arg(folder)
                .arg("--file")
                .arg(archive)
                .args(only))
        };
        unpack(root, &[])?;
        let modules = modules(kernel)?;
        unpack(&modules, &[])?;
        for (place, file) in files {
            fs::copy(file, folder.join(place)).map_err(at(file))?;
        }
        let version = version(folder)?;
        run(Command::new("depmod")
            .arg("--basedir")
            .arg(folder)
            .arg(&version))?;
        let vm = target().join("vm");
        let initramfs = vm.join(format!("{series}-packages.cpio"));
        write_initramfs(&initramfs, &initramfs_files(folder, &version)?)?;
        let image = vm.join(format!("{series}-packages.ext4"));
        if image.exists() {
            fs::remove_file(&image).map_err(at(&image))?;
        }
        output(
            Command::new("mke2fs")
                .args(["-q", "-t", "ext4", "-d"])
                .arg(folder)
                .arg(&image)
                .arg(DISK_SIZE),
        )?;
        Ok(Self { image, initramfs })
    }
}

/// The modules of the kernel in this folder, as an archive of `usr/lib/modules`.
fn modules(kernel: &Path) -> Result<PathBuf, Error> {
    let archive = kernel.join("modules.tar");
    if archive.exists() {
        return Ok(archive);
    }
    let name = kernel.file_name().unwrap_or_default();
    let folder = kernel.join("package");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    output(
        Command::new("apt-get")
            .args(["download", "-qq"])
            .arg(name)
            .current_dir(&folder),
    )?;
    let package = find(&folder, "linux-image")?;
    let whole = File::create(&archive).map_err(at(&archive))?;
    let part = folder.join("root");
    run(Command::new("dpkg-deb")
        .arg("--extract")
        .arg(&package)
        .arg(&part))?;
    let below = if part.join("usr/lib/modules").is_dir() {
        part.join("usr")
    } else {
        part.clone()
    };
    // `lib` of the root folder is a link to `usr/lib`.
    run(Command::new("tar")
        .args(["--create", "--transform", "s,^lib,usr/lib,", "--directory"])
        .arg(below)
        .arg("lib/modules")
        .stdout(whole))?;
    fs::remove_dir_all(&folder).map_err(at(&folder))?;
    Ok(archive)
}

/// The kernel's version, by which its modules' folder is named.
fn version(root: &Path) -> Result<String, Error> {
    let folder = find(&root.join("usr/lib/modules"), "")?;
    let name = folder.file_name().unwrap_or_default();
    Ok(name.to_string_lossy().into_owned())
}

/// What finds the disk: modules in the order in which they need each other.
fn initramfs_files(root: &Path, version: &str) -> Result<Vec<(String, PathBuf)>, Error> {
    let mut files = vec![("init".to_owned(), build::images_programs()?.join("vm-root"))];
    let mut paths: Vec<PathBuf> = Vec::new();
    for module in DISK_MODULES {
        let needed = output(
            Command::new("modprobe")
                .args(["--show-depends", "--set-version", version, "--dirname"])
                .arg(root)
                .arg(module),
        )?;
        for line in needed.lines() {
            // Others are built in.
            if let Some(path) = line.strip_prefix("insmod ") {
                let path = PathBuf::from(path.trim());
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
        }
    }
    for (number, path) in paths.into_iter().enumerate() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        files.push((format!("modules/{number:02}-{name}"), path.clone()));
    }
    with_programs(Architecture::X86_64, files, &["insmod"])
}
