//! `cargo xtask vm`: kernel-dependent tests on other kernels, by emulation.
//!
//! A Debian kernel boots in qemu without hardware virtualisation; its first
//! process runs a suite of programs and switches the machine off. The
//! datapath's suite is its tests, which print what the verifier walked through;
//! the pods' suite is a node whose control groups are of version 2 alone; the
//! volumes' suite is the CSI driver's tests that need device-mapper and XFS
//! quotas; the [packages'](packages) suite installs and removes the Debian package under
//! systemd. The datapath's [short form](short) is part of `cargo xtask test`.

mod packages;
pub mod short;

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};

use crate::{
    build, ebpf,
    error::{Error, at},
    go, images,
    run::{Step, cargo, output, print_step, run, target, which, workspace},
    setup,
};

/// What Debian's kernels have as modules and the tests need, in the order in which
/// they need each other: devices, filters at devices, a look at sockets, images' layers.
const MODULES: [&str; 10] = [
    "veth",
    "llc",
    "stp",
    "bridge",
    "sch_ingress",
    "cls_bpf",
    "inet_diag",
    "tcp_diag",
    "udp_diag",
    "overlay",
];

/// The same for volumes: check sums, file systems, loop devices, device-mapper, ciphers.
const STORAGE_MODULES: [&str; 19] = [
    "crc16",
    "crc32c_generic",
    "libcrc32c",
    "mbcache",
    "jbd2",
    "ext4",
    "xfs",
    "loop",
    "dm-mod",
    "dm-bufio",
    "dm-snapshot",
    "dm-bio-prison",
    "dm-persistent-data",
    "dm-thin-pool",
    "dm-crypt",
    "ecb",
    "xts",
    "af_alg",
    "algif_skcipher",
];

/// What the volumes' tests start.
const VOLUME_PROGRAMS: [&str; 19] = [
    "ip",
    "insmod",
    "dd",
    "lvcreate",
    "lvremove",
    "lvextend",
    "lvchange",
    "lvs",
    "vgs",
    "pvcreate",
    "vgcreate",
    "vgremove",
    "cryptsetup",
    "mkfs.ext4",
    "mkfs.xfs",
    "e2fsck",
    "resize2fs",
    "xfs_growfs",
    "xfs_quota",
];

/// The tests of volumes that machines commonly lack the kernel for.
const VOLUME_TESTS: [&str; 5] = [
    "mapper::logical_volumes_are_copied_grown_and_zeroed",
    "mapper::thin_volumes_are_copied_grown_and_zeroed",
    "mapper::an_encrypted_volume_shows_its_data_to_the_holder_of_the_passphrase_alone",
    "mapper::a_volume_whose_key_a_manager_wraps_opens_again_grows_and_is_copied",
    "mapper::a_project_quota_enforces_and_reports_the_size_of_a_folder",
];

/// What a node of pods consists of, besides its own programs.
const NODE_PROGRAMS: [&str; 5] = [
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "runc",
    "kubectl",
];

/// The kernel series of Debian's packages that tests run on.
const SERIES: [&str; 2] = ["6.1", "6.12"];

/// Programs that the datapath's tests start.
const DATAPATH_PROGRAMS: [&str; 3] = ["ip", "tc", "insmod"];

/// What runs in the machines.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Suite {
    /// The datapath's tests.
    Datapath,
    /// Pods on control groups of version 2.
    Pods,
    /// The CSI driver on LVM, encrypted devices and XFS quotas.
    Volumes,
    /// Volumes of LVM, measured beside a plain disk.
    VolumeFigures,
    /// The Debian package on Debian with systemd.
    Packages,
}

/// Which kernels.
#[derive(Args)]
pub struct Options {
    /// Kernel series of Debian's packages.
    #[arg(long, value_delimiter = ',', default_values_t = SERIES.map(str::to_owned))]
    kernels: Vec<String>,
    /// Load the programs and make one connection of each kind, on all kernels at once.
    #[arg(long, conflicts_with_all = ["suites", "only", "programs"])]
    short: bool,
    /// What runs in them; pods take a quarter of an hour.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Suite::Datapath])]
    suites: Vec<Suite>,
    /// Of the datapath's tests, only files whose name begins so.
    #[arg(long, default_value = "")]
    only: String,
    /// Folder of the programs that run pods and are packed; without, they are built.
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Longest time for one machine, in seconds.
    #[arg(long, default_value_t = 1500)]
    timeout: u64,
}

/// Boots each kernel and runs the tests in it.
///
/// # Errors
/// When a package cannot be had, the tests do not build, or one fails.
pub fn vm(options: &Options) -> Result<(), Error> {
    setup::setup()?;
    setup::setup_for_machines()?;
    if options.short {
        return short::run_alone(&options.kernels);
    }
    for suite in &options.suites {
        let files = match suite {
            Suite::Datapath => datapath_files(&options.only)?,
            Suite::Pods => pods_files(options.programs.as_deref())?,
            Suite::Volumes => volumes_files()?,
            Suite::VolumeFigures => volume_figures_files()?,
            Suite::Packages => {
                packages::run_suite(&options.kernels, options.programs.as_deref())?;
                continue;
            }
        };
        for series in &options.kernels {
            run_suite(*suite, series, &files, options)?;
        }
    }
    Ok(())
}

/// Boots one kernel with one suite.
fn run_suite(
    suite: Suite,
    series: &str,
    files: &[(String, PathBuf)],
    options: &Options,
) -> Result<(), Error> {
    let step = Step::begin(format!("kernel {series}"));
    let kernel = kernel(series)?;
    let image = target().join("vm").join(format!("{series}.cpio"));
    let mut files = files.to_vec();
    files.extend(modules(&kernel, &MODULES));
    if matches!(suite, Suite::Volumes | Suite::VolumeFigures) {
        files.extend(modules(&kernel, &STORAGE_MODULES));
    }
    write_initramfs(&image, &files)?;
    // Of pods, images and layers are in memory, too.
    let (name, mebibytes) = match suite {
        Suite::Datapath => (series.to_owned(), 1024),
        Suite::Pods => (format!("{series}-pods"), 2560),
        // So are the disks of volumes.
        Suite::Volumes => (format!("{series}-volumes"), 3072),
        Suite::VolumeFigures => (format!("{series}-volume-figures"), 4096),
        Suite::Packages => (format!("{series}-packages"), packages::MEBIBYTES),
    };
    let limit = Duration::from_secs(options.timeout);
    let machine = Machine {
        name,
        kernel: find(&kernel, "vmlinuz")?,
        image,
        mebibytes,
        parameters: "",
        disk: None,
    };
    let ran = machine.boot(limit, |line| {
        // The firmware's last words may stand before our first.
        let is_shown = |start: &&str| line.starts_with(start);
        let is_figure = suite == Suite::VolumeFigures
            && ["backend ", "random ", "sequential ", "skipped"]
                .iter()
                .any(is_shown);
        if is_figure || line.contains("vm: ") || ["test ", "cost "].iter().any(is_shown) {
            println!("    {line}");
        }
    })?;
    step.done();
    ran.into_result()
}

fn datapath_files(only: &str) -> Result<Vec<(String, PathBuf)>, Error> {
    ebpf::build(&workspace(), &workspace().join(ebpf::OBJECT))?;
    let step = Step::begin("the datapath's tests");
    let tests = datapath_tests(&["--release", "--package", "node-agent-datapath", "--tests"])?;
    step.done();
    let init = build::images_programs()?.join("vm-init");
    let mut files = vec![("init".to_owned(), init)];
    for (name, test) in tests {
        if name.starts_with(only) {
            files.extend(libraries(&test)?);
            files.push((format!("tests/{name}"), test));
        }
    }
    with_programs(files, &DATAPATH_PROGRAMS)
}

fn pods_files(built: Option<&Path>) -> Result<Vec<(String, PathBuf)>, Error> {
    let built = match built {
        Some(folder) => folder.to_owned(),
        None => {
            build::build()?;
            target().join("release")
        }
    };
    let archive = images::build()?;
    let programs = build::images_programs()?;
    // Names of functions are a quarter of it.
    let folder = target().join("vm");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let orlop = folder.join("orlop");
    run(Command::new("strip")
        .arg("-o")
        .arg(&orlop)
        .arg(built.join("orlop")))?;
    let mut files = vec![
        ("init".to_owned(), programs.join("vm-init")),
        ("tests/pods".to_owned(), programs.join("vm-pods")),
        ("images.tar".to_owned(), archive),
        ("bin/orlop".to_owned(), orlop.clone()),
        ("bin/orlop-cni".to_owned(), built.join("orlop-cni")),
    ];
    files.extend(libraries(&orlop)?);
    files.extend(libraries(&built.join("orlop-cni"))?);
    let programs: Vec<&str> = ["ip", "insmod"].into_iter().chain(NODE_PROGRAMS).collect();
    with_programs(files, &programs)
}

fn volumes_files() -> Result<Vec<(String, PathBuf)>, Error> {
    setup::setup_for_volumes()?;
    go::build();
    let step = Step::begin("the volumes' tests");
    let selection = ["--package", "csi", "--test", "volumes"];
    let built = test_programs(&selection, |package| package.contains("/csi#"))?;
    step.done();
    let folder = target().join("vm");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let only = folder.join("volumes.only");
    fs::write(&only, VOLUME_TESTS.join("\n")).map_err(at(&only))?;
    let mut files = vec![
        ("init".to_owned(), build::images_programs()?.join("vm-init")),
        ("only/volumes".to_owned(), only),
    ];
    for (name, program) in built {
        files.extend(libraries(&program)?);
        let place = if name == "volumes" {
            "tests/volumes".to_owned()
        } else {
            // Where the tests were told that it is.
            program.to_string_lossy().trim_start_matches('/').to_owned()
        };
        files.push((place, program));
    }
    let sanity = go::folder().join("csi-sanity");
    if sanity.is_file() {
        files.push(("bin/csi-sanity".to_owned(), sanity));
    }
    with_programs(files, &VOLUME_PROGRAMS)
}

/// The bench of volumes, of which the parts run that need device-mapper.
fn volume_figures_files() -> Result<Vec<(String, PathBuf)>, Error> {
    setup::setup_for_volumes()?;
    let step = Step::begin("the bench of volumes");
    let text = output(cargo().args([
        "bench",
        "--no-run",
        "--message-format",
        "json",
        "--package",
        "csi",
        "--bench",
        "volumes",
    ]))?;
    let built = executables(&text, |package| package.contains("/csi#"));
    step.done();
    let only = target().join("vm").join("volume-figures.only");
    fs::create_dir_all(target().join("vm")).map_err(at(&only))?;
    fs::write(&only, "lvm\nlvm-thin").map_err(at(&only))?;
    let mut files = vec![
        ("init".to_owned(), build::images_programs()?.join("vm-init")),
        ("only/volumes".to_owned(), only),
    ];
    for (_, program) in built.into_iter().filter(|(name, _)| name == "volumes") {
        files.extend(libraries(&program)?);
        files.push(("tests/volumes".to_owned(), program));
    }
    let programs: Vec<&str> = VOLUME_PROGRAMS.into_iter().chain(["fio"]).collect();
    with_programs(files, &programs)
}

/// These files with programs of this machine.
fn with_programs(
    mut files: Vec<(String, PathBuf)>,
    programs: &[&str],
) -> Result<Vec<(String, PathBuf)>, Error> {
    for program in programs {
        let path = which(program).ok_or_else(|| Error::Missing {
            what: format!("`{program}`"),
            how: "`cargo xtask setup` installs what Debian has; kubectl is looked for on the path"
                .to_owned(),
        })?;
        files.extend(libraries(&path)?);
        files.push((format!("bin/{program}"), path));
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// The datapath's test programs, by name, built as `cargo test` with this selection
/// builds them.
fn datapath_tests(selection: &[&str]) -> Result<Vec<(String, PathBuf)>, Error> {
    test_programs(selection, |package| {
        package.contains("node-agent/datapath#") || package.contains("node-agent-datapath")
    })
}

/// Programs that `cargo test` with this selection builds of a package, by name.
fn test_programs(
    selection: &[&str],
    is_of_package: impl Fn(&str) -> bool,
) -> Result<Vec<(String, PathBuf)>, Error> {
    let text = output(
        cargo()
            .args(["test", "--no-run", "--message-format", "json"])
            .args(selection),
    )?;
    let programs = executables(&text, is_of_package);
    if programs.is_empty() {
        return Err(Error::Failed(format!(
            "no tests to run in a machine: cargo test {}",
            selection.join(" ")
        )));
    }
    Ok(programs)
}

/// The programs of a package, by name, in cargo's messages.
fn executables(messages: &str, is_of_package: impl Fn(&str) -> bool) -> Vec<(String, PathBuf)> {
    let messages = messages.lines();
    messages
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| is_of_package(message["package_id"].as_str().unwrap_or_default()))
        .filter_map(|message| {
            let name = message["target"]["name"].as_str()?.to_owned();
            Some((name, PathBuf::from(message["executable"].as_str()?)))
        })
        .collect()
}

/// A folder with the image and the modules of the newest kernel of a series.
fn kernel(series: &str) -> Result<PathBuf, Error> {
    let search = || {
        output(Command::new("apt-cache").args([
            "search",
            "--names-only",
            &format!("^linux-image-{}\\..*-amd64$", series.replace('.', "\\.")),
        ]))
    };
    let missing = |why: String| Error::Missing {
        what: format!("a kernel package of the series {series}"),
        how: format!("{why}; run apt-get update, or name another series with --kernels"),
    };
    let mut names = search().map_err(|error| missing(error.to_string()))?;
    if names.trim().is_empty() {
        // A fresh machine has no lists.
        let _ = output(Command::new("apt-get").args(["update", "-qq"]));
        names = search()?;
    }
    let newest = names
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| {
            !["cloud", "rt", "unsigned", "dbg"]
                .iter()
                .any(|word| name.contains(word))
        })
        .max_by_key(|name| {
            name.split(|c: char| !c.is_ascii_digit())
                .filter_map(|digits| digits.parse::<u32>().ok())
                .collect::<Vec<_>>()
        })
        .ok_or_else(|| missing("apt has none".to_owned()))?;
    let folder = target().join("vm").join(newest);
    // Names what is taken out: a folder of an earlier version has less.
    let complete = folder.join("complete-with-storage");
    if complete.exists() {
        return Ok(folder);
    }
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    output(
        Command::new("apt-get")
            .args(["download", "-qq", newest])
            .current_dir(&folder),
    )
    .map_err(|error| missing(error.to_string()))?;
    let package = find(&folder, "linux-image")?;
    extract_kernel(&package, &folder)?;
    for packed in fs::read_dir(&folder).map_err(at(&folder))?.flatten() {
        if packed.path().extension().is_some_and(|end| end == "xz") {
            run(Command::new("xz")
                .args(["--decompress", "--force"])
                .arg(packed.path()))?;
        }
    }
    fs::remove_file(&package).map_err(at(&package))?;
    File::create(&complete).map_err(at(&complete))?;
    Ok(folder)
}

/// Where modules stand in the machine; those that a kernel has built in are no files.
fn modules(folder: &Path, names: &[&str]) -> impl Iterator<Item = (String, PathBuf)> {
    let files = names.iter().enumerate().map(|(order, name)| {
        let file = folder.join(format!("{name}.ko"));
        (format!("modules/{order:02}-{name}.ko"), file)
    });
    files.filter(|(_, file)| file.exists())
}

/// Takes the kernel and what the tests need of its modules out of its package.
fn extract_kernel(package: &Path, folder: &Path) -> Result<(), Error> {
    let mut unpack = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(at(Path::new("dpkg-deb")))?;
    let stream = unpack.stdout.take();
    let taken = stream.map(|stream| -> std::io::Result<()> {
        for entry in tar::Archive::new(stream).entries()? {
            let mut entry = entry?;
            let path = entry.path()?.into_owned();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            let image = path.parent().is_some_and(|folder| folder.ends_with("boot"))
                && name.starts_with("vmlinuz");
            let module = name.split_once(".ko").is_some_and(|(module, _)| {
                MODULES.contains(&module) || STORAGE_MODULES.contains(&module)
            });
            if image || module {
                entry.unpack(folder.join(name))?;
            }
        }
        Ok(())
    });
    // After an error it may still want to write the rest.
    let _ = unpack.kill();
    let _ = unpack.wait();
    taken.unwrap_or(Ok(())).map_err(at(package))
}

/// The libraries that a program is linked with; a static one has none.
fn libraries(program: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let found = Command::new("ldd")
        .arg(program)
        .output()
        .map_err(at(Path::new("ldd")))?;
    let text = String::from_utf8_lossy(&found.stdout);
    Ok(text
        .split_whitespace()
        .filter(|word| word.starts_with('/') && !word.ends_with(':'))
        .map(|path| (path.trim_start_matches('/').to_owned(), PathBuf::from(path)))
        .collect())
}

fn find(folder: &Path, prefix: &str) -> Result<PathBuf, Error> {
    fs::read_dir(folder)
        .map_err(at(folder))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        })
        .ok_or_else(|| Error::Missing {
            what: format!("`{prefix}…` in `{}`", folder.display()),
            how: format!("remove `{}` and try again", folder.display()),
        })
}

/// Writes a cpio archive in the `newc` form that the kernel unpacks (kernel
/// documentation, "initramfs buffer format").
fn write_initramfs(path: &Path, files: &[(String, PathBuf)]) -> Result<(), Error> {
    let mut archive = Vec::new();
    let mut folders: BTreeSet<&Path> = ["dev", "proc", "sys", "tmp", "run"].map(Path::new).into();
    for (name, _) in files {
        let parents = Path::new(name).ancestors().skip(1);
        folders.extend(parents.filter(|folder| !folder.as_os_str().is_empty()));
    }
    // Parents come before what they hold.
    for folder in folders {
        entry(&mut archive, &folder.to_string_lossy(), 0o040_755, &[]);
    }
    for (name, file) in files {
        let bytes = fs::read(file).map_err(at(file))?;
        entry(&mut archive, name, 0o100_755, &bytes);
    }
    entry(&mut archive, "TRAILER!!!", 0, &[]);
    File::create(path)
        .and_then(|mut file| file.write_all(&archive))
        .map_err(at(path))
}

fn entry(archive: &mut Vec<u8>, name: &str, mode: u32, bytes: &[u8]) {
    let number = archive.len();
    let header = format!(
        "070701{number:08x}{mode:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}",
        0,
        0,
        1,
        0,
        bytes.len(),
        0,
        0,
        0,
        0,
        name.len() + 1,
        0
    );
    archive.extend_from_slice(header.as_bytes());
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend_from_slice(bytes);
    archive.resize(archive.len().next_multiple_of(4), 0);
}

/// An emulated machine.
struct Machine {
    /// For its log.
    name: String,
    kernel: PathBuf,
    /// The archive that becomes its file system.
    image: PathBuf,
    mebibytes: u32,
    /// Kernel parameters; those that the kernel does not know become the environment of
    /// the first process.
    parameters: &'static str,
    /// The image of its disk, which it changes.
    disk: Option<PathBuf>,
}

/// The result of a machine.
struct Ran {
    name: String,
    passed: bool,
    text: String,
    log: PathBuf,
}

impl Machine {
    /// Runs the machine until it ends, or for as long as `limit`.
    fn boot(self, limit: Duration, mut on_line: impl FnMut(&str)) -> Result<Ran, Error> {
        let log = target().join("vm").join(format!("{}.log", self.name));
        let mut machine = Command::new("qemu-system-x86_64")
            .args([
                "-accel",
                "tcg",
                "-cpu",
                "max",
                "-smp",
                "2",
                "-nographic",
                "-no-reboot",
            ])
            .args(["-m", &self.mebibytes.to_string()])
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&self.image)
            .arg("-append")
            .arg(format!(
                "console=ttyS0 quiet panic=-1 rdinit=/init {}",
                self.parameters
            ))
            .args(self.disk.iter().flat_map(|image| {
                let drive = format!("file={},format=raw,if=virtio", image.display());
                // A network without a way out, and a clock that counts instructions, so that a
                // busy host runs nothing out of time; more processors do not start with it.
                let network = "user,model=virtio-net-pci,restrict=on".to_owned();
                let clock = ["-icount", "shift=1", "-rtc", "clock=vm", "-smp", "1"];
                let disk = ["-drive".to_owned(), drive, "-nic".to_owned(), network];
                disk.into_iter().chain(clock.map(str::to_owned))
            }))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(at(Path::new("qemu-system-x86_64")))?;
        let lines = machine.stdout.take();
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = lines.map(BufReader::new);
            let mut line = Vec::new();
            // What tests print need not be text.
            while let Some(reader) = &mut lines
                && matches!(reader.read_until(b'\n', &mut line), Ok(1..))
            {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                if send.send(text).is_err() {
                    return;
                }
                line.clear();
            }
        });
        let started = Instant::now();
        let mut text = String::new();
        let mut passed = false;
        while let Some(left) = limit.checked_sub(started.elapsed()) {
            let Ok(line) = receive.recv_timeout(left) else {
                break;
            };
            on_line(&line);
            passed |= line.contains("vm: passed");
            text.push_str(&line);
            text.push('\n');
        }
        let _ = machine.kill();
        let _ = machine.wait();
        fs::write(&log, &text).map_err(at(&log))?;
        Ok(Ran {
            name: self.name,
            passed,
            text,
            log,
        })
    }
}

impl Ran {
    fn into_result(self) -> Result<(), Error> {
        if self.passed {
            return Ok(());
        }
        Err(Error::Failed(format!(
            "the tests did not pass in machine {}: see `{}`",
            self.name,
            self.log.display()
        )))
    }
}
