//! `cargo xtask vm`: kernel-dependent tests on other kernels, by emulation.
//!
//! A Debian kernel boots in qemu without hardware virtualisation; its first
//! process runs a suite of static programs and switches the machine off. The
//! datapath's suite is its tests, which print what the verifier walked through;
//! the pods' suite is a node whose control groups are of version 2 alone.

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
    build::{self, TRIPLE},
    ebpf,
    error::{Error, at},
    images,
    run::{Step, cargo, output, run, say, target, which, workspace},
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

/// What a node of pods consists of, besides its own programs.
const NODE_PROGRAMS: [&str; 5] = [
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "runc",
    "kubectl",
];

/// What runs in the machines.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Suite {
    /// The datapath's tests.
    Datapath,
    /// Pods on control groups of version 2.
    Pods,
}

/// Which kernels.
#[derive(Args)]
pub struct Options {
    /// Kernel series of Debian's packages.
    #[arg(long, value_delimiter = ',', default_value = "6.1,6.12")]
    kernels: Vec<String>,
    /// What runs in them; pods take a quarter of an hour.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Suite::Datapath])]
    suites: Vec<Suite>,
    /// Of the datapath's tests, only files whose name begins so.
    #[arg(long, default_value = "")]
    only: String,
    /// Folder of the programs that run pods; without, they are built.
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
    for (program, package) in [
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("insmod", "kmod"),
    ] {
        if which(program).is_none() {
            say(format!("installing {package}"));
            run(Command::new("apt-get")
                .args(["install", "-y", "-qq", "--no-install-recommends", package])
                .env("DEBIAN_FRONTEND", "noninteractive"))?;
        }
    }
    for suite in &options.suites {
        let files = match suite {
            Suite::Datapath => datapath_files(&options.only)?,
            Suite::Pods => pods_files(options.programs.as_deref())?,
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
    files.extend(modules(&kernel));
    write_initramfs(&image, &files)?;
    // Of pods, images and layers are in memory, too.
    let (name, mebibytes) = match suite {
        Suite::Datapath => (series.to_owned(), 1024),
        Suite::Pods => (format!("{series}-pods"), 2560),
    };
    let limit = Duration::from_secs(options.timeout);
    boot(&name, &find(&kernel, "vmlinuz")?, &image, mebibytes, limit)?;
    step.done();
    Ok(())
}

fn datapath_files(only: &str) -> Result<Vec<(String, PathBuf)>, Error> {
    ebpf::build(&workspace(), &workspace().join(ebpf::OBJECT))?;
    let step = Step::begin("tests as static programs");
    let tests = static_tests()?;
    step.done();
    let init = build::images_programs()?.join("vm-init");
    let mut files = vec![("init".to_owned(), init)];
    for test in tests {
        let name = test.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(only) {
            files.push((format!("tests/{name}"), test.clone()));
        }
    }
    with_programs(files, &["ip", "tc", "insmod"])
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

/// The datapath's integration tests, linked statically.
fn static_tests() -> Result<Vec<PathBuf>, Error> {
    let text = output(
        cargo()
            .args([
                "test",
                "--release",
                "--no-run",
                "--package",
                "node-agent-datapath",
            ])
            .args([
                "--tests",
                "--message-format",
                "json",
                "--target",
                TRIPLE,
                "--target-dir",
            ])
            .arg(target().join("vm/build"))
            .env("RUSTFLAGS", "-C target-feature=+crt-static"),
    )?;
    let programs: Vec<PathBuf> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .collect();
    if programs.is_empty() {
        return Err(Error::Failed(
            "the package node-agent-datapath has no tests to run in a machine".to_owned(),
        ));
    }
    Ok(programs)
}

/// A folder with the image and the modules of the newest kernel of a series.
fn kernel(series: &str) -> Result<PathBuf, Error> {
    let names = output(Command::new("apt-cache").args([
        "search",
        "--names-only",
        &format!("^linux-image-{}\\..*-amd64$", series.replace('.', "\\.")),
    ]))?;
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
        .ok_or_else(|| Error::Missing {
            what: format!("a kernel package of the series {series}"),
            how: "run apt-get update, or name another series with --kernels".to_owned(),
        })?;
    let folder = target().join("vm").join(newest);
    let complete = folder.join("complete");
    if complete.exists() {
        return Ok(folder);
    }
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    output(
        Command::new("apt-get")
            .args(["download", "-qq", newest])
            .current_dir(&folder),
    )?;
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

/// Where the modules stand in the machine; those that a kernel has built in are no files.
fn modules(folder: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    let files = MODULES.iter().enumerate().map(|(order, name)| {
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
            let module = name
                .split_once(".ko")
                .is_some_and(|(module, _)| MODULES.contains(&module));
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

fn boot(
    name: &str,
    kernel: &Path,
    image: &Path,
    mebibytes: u32,
    limit: Duration,
) -> Result<(), Error> {
    let log = target().join("vm").join(format!("{name}.log"));
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
        .args(["-m", &mebibytes.to_string()])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(image)
        .args(["-append", "console=ttyS0 quiet panic=-1 rdinit=/init"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(at(Path::new("qemu-system-x86_64")))?;
    let lines = machine.stdout.take();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in lines
            .map(BufReader::new)
            .into_iter()
            .flat_map(BufRead::lines)
        {
            let Ok(line) = line else { return };
            if send.send(line).is_err() {
                return;
            }
        }
    });
    let started = Instant::now();
    let mut text = String::new();
    let mut passed = false;
    while let Some(left) = limit.checked_sub(started.elapsed()) {
        let Ok(line) = receive.recv_timeout(left) else {
            break;
        };
        // The firmware's last words may stand before our first.
        if line.contains("vm: ") || line.starts_with("test ") || line.starts_with("cost ") {
            println!("    {}", line.trim_end());
        }
        passed |= line.contains("vm: passed");
        text.push_str(&line);
        text.push('\n');
    }
    let _ = machine.kill();
    let _ = machine.wait();
    fs::write(&log, text).map_err(at(&log))?;
    if passed {
        Ok(())
    } else {
        Err(Error::Failed(format!(
            "the tests did not pass in machine {name}: see `{}`",
            log.display()
        )))
    }
}
