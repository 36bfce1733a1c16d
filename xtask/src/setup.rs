//! `cargo xtask setup`: installs what a fresh Debian machine lacks.

use std::{path::Path, process::Command};

use crate::{
    ebpf,
    error::Error,
    go, machete,
    run::{print_step, run, which},
    vm::{self, arch::Architecture},
};

/// A Debian package, and a file that is there once it is installed.
struct Package {
    name: &'static str,
    sign: &'static str,
    reason: &'static str,
}

const PACKAGES: &[Package] = &[
    Package {
        name: "gcc",
        sign: "/usr/bin/cc",
        reason: "links programs and compiles the TLS library",
    },
    Package {
        name: "libc6-dev",
        sign: "/usr/include/stdlib.h",
        reason: "headers for the same",
    },
    Package {
        name: "cmake",
        sign: "/usr/bin/cmake",
        reason: "builds the TLS library",
    },
    Package {
        name: "protobuf-compiler",
        sign: "/usr/bin/protoc",
        reason: "compiles etcd's protocol",
    },
    Package {
        name: "libprotobuf-dev",
        sign: "/usr/include/google/protobuf/descriptor.proto",
        reason: "files that etcd's protocol includes",
    },
    Package {
        name: "containerd",
        sign: "/usr/bin/containerd",
        reason: "runs containers",
    },
    Package {
        name: "runc",
        sign: "/usr/sbin/runc",
        reason: "starts containers",
    },
    Package {
        name: "iproute2",
        sign: "/sbin/ip",
        reason: "joins the test hosts",
    },
    Package {
        name: "util-linux",
        sign: "/usr/bin/nsenter",
        reason: "makes and enters the test hosts",
    },
];

/// A compiler for eBPF with the core library's source.
const BPF_PACKAGES: &[Package] = &[
    Package {
        name: "rustc-web",
        sign: "/usr/bin/rustc",
        reason: "compiles eBPF",
    },
    Package {
        name: "cargo-web",
        sign: "/usr/bin/cargo",
        reason: "the same",
    },
    Package {
        name: "rust-web-src",
        sign: "/usr/share/doc/rust-web-src",
        reason: "the core library's source, built for eBPF",
    },
];

/// Programs that tests compare with or communicate with.
const TEST_PACKAGES: &[Package] = &[
    Package {
        name: "etcd-server",
        sign: "/usr/bin/etcd",
        reason: "the store of others, which the API server can use, too",
    },
    Package {
        name: "etcd-client",
        sign: "/usr/bin/etcdctl",
        reason: "reads the store, and restores snapshots of it",
    },
    Package {
        name: "containernetworking-plugins",
        sign: "/usr/lib/cni/loopback",
        reason: "standard CNI plugins, which tests chain with ours",
    },
    Package {
        name: "libfaketime",
        sign: "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
        reason: "clocks that jump, for drills",
    },
    Package {
        name: "bird2",
        sign: "/usr/sbin/bird",
        reason: "the router to which load balancer addresses are announced in tests",
    },
    Package {
        name: "xfsprogs",
        sign: "/usr/sbin/mkfs.xfs",
        reason: "file systems of the CSI driver's volumes",
    },
    Package {
        name: "btrfs-progs",
        sign: "/usr/bin/btrfs",
        reason: "the same",
    },
    Package {
        name: "postgresql",
        sign: "/usr/share/doc/postgresql",
        reason: "writes to volumes while they crash",
    },
];

/// Programs that the CSI driver's tests start in emulated machines.
const VOLUME_PACKAGES: &[Package] = &[
    Package {
        name: "lvm2",
        sign: "/usr/sbin/lvcreate",
        reason: "logical volumes",
    },
    Package {
        name: "cryptsetup-bin",
        sign: "/usr/sbin/cryptsetup",
        reason: "encrypted volumes",
    },
    Package {
        name: "xfsprogs",
        sign: "/usr/sbin/mkfs.xfs",
        reason: "file systems of volumes",
    },
];

/// What measures volumes.
const FIGURES_PACKAGES: &[Package] = &[Package {
    name: "fio",
    sign: "/usr/bin/fio",
    reason: "measures volumes",
}];

/// Packages for other kernels, besides an emulator.
const MACHINE_PACKAGES: &[Package] = &[
    Package {
        name: "iptables",
        sign: "/usr/sbin/iptables",
        reason: "makes what kube-proxy leaves, for tests that take over or remove it",
    },
    Package {
        name: "nftables",
        sign: "/usr/sbin/nft",
        reason: "the same",
    },
    Package {
        name: "kmod",
        sign: "/usr/sbin/insmod",
        reason: "loads those kernels' modules",
    },
    Package {
        name: "xz-utils",
        sign: "/usr/bin/xz",
        reason: "unpacks them",
    },
];

/// Emulators, by architecture.
const EMULATORS: &[(Architecture, Package)] = &[
    (
        Architecture::X86_64,
        Package {
            name: "qemu-system-x86",
            sign: "/usr/bin/qemu-system-x86_64",
            reason: "runs the datapath on other kernels",
        },
    ),
    (
        Architecture::Aarch64,
        Package {
            name: "qemu-system-arm",
            sign: "/usr/bin/qemu-system-aarch64",
            reason: "runs the datapath on machines of another architecture",
        },
    ),
];

/// Packages that make disks of emulated machines.
const DISK_PACKAGES: &[Package] = &[
    Package {
        name: "mmdebstrap",
        sign: "/usr/bin/mmdebstrap",
        reason: "makes a root folder of Debian's packages",
    },
    Package {
        name: "e2fsprogs",
        sign: "/usr/sbin/mke2fs",
        reason: "makes a disk image of it",
    },
];

const LLVM: Package = Package {
    name: "llvm-22-dev",
    sign: "/usr/lib/llvm-22/lib/libLLVM.so",
    reason: "bpf-linker is built with it",
};

fn missing() -> Vec<&'static Package> {
    let mut wanted: Vec<&Package> = PACKAGES.iter().collect();
    if ebpf::provider().is_err() {
        wanted.extend(BPF_PACKAGES);
    }
    if ebpf::linker().is_err() {
        wanted.push(&LLVM);
    }
    wanted.retain(|package| !Path::new(package.sign).exists());
    wanted
}

/// Installs what is missing; lists it first; does nothing if everything is there.
///
/// # Errors
/// When something is missing and this is not root, or an installation fails.
pub fn setup() -> Result<(), Error> {
    install(&missing())?;
    if ebpf::provider().is_err() {
        print_step(format!(
            "Debian's compiler is not {}, which builds the eBPF programs: rustup installs it",
            ebpf::RUSTC
        ));
        ebpf::install_compiler()?;
    }
    if ebpf::linker().is_err() {
        print_step("bpf-linker is built from its package (about a minute)");
        ebpf::install_linker()?;
    }
    Ok(())
}

/// Also installs what only tests need. None of it is started as a service.
///
/// # Errors
/// As [`setup`].
pub fn setup_for_tests() -> Result<(), Error> {
    setup()?;
    let mut wanted: Vec<&Package> = TEST_PACKAGES.iter().collect();
    wanted.retain(|package| !Path::new(package.sign).exists());
    if !wanted.is_empty() {
        let _held = NoServices::hold();
        install(&wanted)?;
    }
    setup_for_machines(Architecture::default())?;
    vm::short::fetch_kernels();
    go::build();
    machete::install()
}

/// Installs what emulated machines of an architecture need: packages, and for a foreign one
/// Rust's standard library.
///
/// # Errors
/// As [`setup`].
pub fn setup_for_machines(architecture: Architecture) -> Result<(), Error> {
    let emulator = EMULATORS.iter().filter(|(of, _)| *of == architecture);
    let mut wanted: Vec<&Package> = emulator.map(|(_, package)| package).collect();
    wanted.extend(MACHINE_PACKAGES);
    wanted.retain(|package| !Path::new(package.sign).exists());
    install(&wanted)?;
    if architecture.is_foreign() {
        architecture.install_standard_library()?;
    }
    Ok(())
}

/// Installs what makes disks of emulated machines.
///
/// # Errors
/// As [`setup`].
pub fn setup_for_disks() -> Result<(), Error> {
    let mut wanted: Vec<&Package> = DISK_PACKAGES.iter().collect();
    wanted.retain(|package| !Path::new(package.sign).exists());
    install(&wanted)
}

/// Installs what the tests of volumes start in emulated machines. None of it is started
/// as a service here.
///
/// # Errors
/// As [`setup`].
pub fn setup_for_volumes() -> Result<(), Error> {
    setup_for_disk_tools(VOLUME_PACKAGES.iter())
}

/// Installs the tools of [`setup_for_volumes`], and fio.
///
/// # Errors
/// As [`setup`].
pub fn setup_for_volume_figures() -> Result<(), Error> {
    setup_for_disk_tools(VOLUME_PACKAGES.iter().chain(FIGURES_PACKAGES))
}

/// Installs what is missing of these packages, without starting their services.
fn setup_for_disk_tools(packages: impl Iterator<Item = &'static Package>) -> Result<(), Error> {
    let mut wanted: Vec<&Package> = packages.collect();
    wanted.retain(|package| !Path::new(package.sign).exists());
    if wanted.is_empty() {
        return Ok(());
    }
    let _held = NoServices::hold();
    install(&wanted)
}

fn install(missing: &[&Package]) -> Result<(), Error> {
    if missing.is_empty() {
        return Ok(());
    }
    print_step("to be installed from Debian's packages:");
    for package in missing {
        println!("  {:<14} {}", package.name, package.reason);
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    if !nix::unistd::geteuid().is_root() {
        return Err(Error::Missing {
            what: names.join(" "),
            how: format!("run as root: apt-get install {}", names.join(" ")),
        });
    }
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    run(Command::new("apt-get")
        .args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(&names)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

/// While it lives, Debian's packages start no services (Debian Policy 9.3.3.1,
/// `policy-rc.d`): a router that a test needs is not to speak for this machine.
struct NoServices(Option<&'static Path>);

impl NoServices {
    fn hold() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let path = Path::new("/usr/sbin/policy-rc.d");
        if path.exists() {
            // The machine has its own policy.
            return Self(None);
        }
        let made = std::fs::write(path, "#!/bin/sh\nexit 101\n")
            .and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)));
        Self(made.is_ok().then_some(path))
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            // Left behind it would keep later packages from starting services.
            if let Err(error) = std::fs::remove_file(path) {
                print_step(format!("remove {} by hand: {error}", path.display()));
            }
        }
    }
}

/// Says what `up` needs of the machine beside packages.
///
/// # Errors
/// The first thing that is missing, and how to get it.
pub fn check_kernel() -> Result<(), Error> {
    if !nix::unistd::geteuid().is_root() {
        return Err(Error::Missing {
            what: "root".to_owned(),
            how: "namespaces, control groups and eBPF programs need it: use sudo".to_owned(),
        });
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(Error::Missing {
            what: "`/sys/kernel/btf/vmlinux`".to_owned(),
            how: "boot a kernel with CONFIG_DEBUG_INFO_BTF (Debian's kernels have it)".to_owned(),
        });
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    if !mounts
        .lines()
        .any(|line| line.split(' ').nth(2) == Some("cgroup2"))
    {
        return Err(Error::Missing {
            what: "a cgroup2 mount".to_owned(),
            how: "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified"
                .to_owned(),
        });
    }
    for program in ["containerd", "ctr", "runc", "ip", "nsenter", "unshare"] {
        if which(program).is_none() {
            return Err(Error::Missing {
                what: format!("`{program}`"),
                how: "run `cargo xtask setup`".to_owned(),
            });
        }
    }
    Ok(())
}
