//! Debian's kernels, with the modules that tests need.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::arch::Architecture;
use crate::{
    apt::Apt,
    error::{Error, at},
    run::{run, target},
};

/// The kernel series of Debian's packages that tests run on.
pub const SERIES: [&str; 2] = ["6.1", "6.12"];

/// What Debian's kernels have as modules and the tests need, in the order in which
/// they need each other: devices, filters at devices, a look at sockets, images' layers.
pub const MODULES: [&str; 10] = [
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

/// The same for tests that write kube-proxy's rules: check sums, connection tracking, NAT,
/// nftables, and the matches and targets of iptables.
pub const NETFILTER_MODULES: [&str; 24] = [
    "crc32c_generic",
    "libcrc32c",
    "nfnetlink",
    "nf_defrag_ipv4",
    "nf_defrag_ipv6",
    "nf_conntrack",
    "nf_conntrack_netlink",
    "nf_nat",
    "nf_tables",
    "nft_chain_nat",
    "nft_ct",
    "nft_nat",
    "nft_masq",
    "nft_numgen",
    "nft_fib",
    "nft_fib_ipv4",
    "x_tables",
    "nft_compat",
    "xt_tcpudp",
    "xt_mark",
    "xt_statistic",
    "xt_addrtype",
    "xt_nat",
    "xt_MASQUERADE",
];

/// The same for volumes: check sums, file systems, loop devices, device-mapper, ciphers.
pub const STORAGE_MODULES: [&str; 19] = [
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

/// A kernel of Debian's, with the modules that tests need.
#[derive(Clone, Debug)]
pub struct Kernel {
    folder: PathBuf,
}

impl Kernel {
    /// Downloads the newest kernel of a series, unless it is there.
    ///
    /// # Errors
    /// When apt does not have the series, or the package cannot be unpacked.
    pub fn fetch(architecture: Architecture, series: &str) -> Result<Self, Error> {
        let apt = Apt::new(architecture)?;
        let missing = |why: String| Error::Missing {
            what: format!(
                "a kernel package of the series {series} for {}",
                architecture.debian()
            ),
            how: format!("{why}; run apt-get update, or name another series with --kernels"),
        };
        let pattern = format!(
            "^linux-image-{}\\..*-{}$",
            series.replace('.', "\\."),
            architecture.debian()
        );
        let search = || Ok::<_, Error>(newest(&apt.search(&pattern)?).map(ToOwned::to_owned));
        let mut name = search().map_err(|error| missing(error.to_string()))?;
        let is_complete = |name: &Option<String>| {
            let folder = name.as_ref().map(|name| target().join("vm").join(name));
            folder.is_some_and(|folder| folder.join(COMPLETE).exists())
        };
        // A fresh machine has no lists; nothing else updates those of a foreign architecture.
        if name.is_none() || architecture.is_foreign() && !is_complete(&name) {
            let updated = apt.update();
            name = search()?;
            if name.is_none() {
                updated.map_err(|error| missing(error.to_string()))?;
            }
        }
        let name = name.ok_or_else(|| missing("apt has none".to_owned()))?;
        let folder = target().join("vm").join(&name);
        if !folder.join(COMPLETE).exists() {
            fs::create_dir_all(&folder).map_err(at(&folder))?;
            apt.download(&name, &folder)
                .map_err(|error| missing(error.to_string()))?;
            unpack(&folder)?;
        }
        Ok(Self { folder })
    }

    /// Returns the image that the emulator boots.
    ///
    /// # Errors
    /// When it is missing.
    pub fn image(&self) -> Result<PathBuf, Error> {
        find(&self.folder, "vmlinuz")
    }

    /// The folder of its files, named as its package.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the places of modules in a machine; those that a kernel has built in are no files.
    pub fn modules(&self, names: &[&str]) -> impl Iterator<Item = (String, PathBuf)> {
        let files = names.iter().enumerate().map(|(order, name)| {
            let file = self.folder.join(format!("{name}.ko"));
            (format!("modules/{order:02}-{name}.ko"), file)
        });
        files.filter(|(_, file)| file.exists())
    }
}

/// Marks a folder whose package is unpacked. Its name says what is taken out: a folder of an
/// earlier version has less.
const COMPLETE: &str = "complete-with-netfilter";

/// Returns the newest kernel for ordinary machines among the packages that apt found.
fn newest(packages: &str) -> Option<&str> {
    packages
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
}

/// Unpacks the package in a folder.
fn unpack(folder: &Path) -> Result<(), Error> {
    let package = find(folder, "linux-image")?;
    extract_kernel(&package, folder)?;
    for packed in fs::read_dir(folder).map_err(at(folder))?.flatten() {
        if packed.path().extension().is_some_and(|end| end == "xz") {
            run(Command::new("xz")
                .args(["--decompress", "--force"])
                .arg(packed.path()))?;
        }
    }
    fs::remove_file(&package).map_err(at(&package))?;
    let complete = folder.join(COMPLETE);
    File::create(&complete).map_err(at(&complete))?;
    Ok(())
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
                [&MODULES[..], &NETFILTER_MODULES, &STORAGE_MODULES]
                    .iter()
                    .any(|names| names.contains(&module))
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

/// Returns the file of a folder whose name begins with `prefix`.
///
/// # Errors
/// When there is none.
pub fn find(folder: &Path, prefix: &str) -> Result<PathBuf, Error> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_one_for_ordinary_machines() {
        let packages = "\
linux-image-6.1.0-9-arm64 - Linux 6.1 for 64-bit ARMv8 machines (signed)
linux-image-6.1.0-56-arm64 - Linux 6.1 for 64-bit ARMv8 machines (signed)
linux-image-6.1.0-57-cloud-arm64 - Linux 6.1 for arm64 cloud (signed)
linux-image-6.1.0-57-rt-arm64 - Linux 6.1 for 64-bit ARMv8 machines, PREEMPT_RT (signed)
linux-image-6.1.0-12-arm64 - Linux 6.1 for 64-bit ARMv8 machines (signed)
";
        assert_eq!(newest(packages), Some("linux-image-6.1.0-56-arm64"));
        assert_eq!(newest(""), None);
    }
}
