//! File systems on devices: recognising, making, checking, growing.

pub mod mounts;
pub mod signature;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::tool::{Invocation, ToolError, ToolRunner};
use signature::Signature;

/// A file system that the driver makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FsType {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// btrfs.
    Btrfs,
}

impl FsType {
    /// Returns the kernel's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Parses the kernel's name.
    ///
    /// # Errors
    /// When the driver does not make such file systems.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "ext4" => Ok(Self::Ext4),
            "xfs" => Ok(Self::Xfs),
            "btrfs" => Ok(Self::Btrfs),
            _ => {
                let field = "volume_capability.mount.fs_type";
                Err(Error::invalid(field, name, "use `ext4`, `xfs` or `btrfs`"))
            }
        }
    }
}

/// How long making, checking or growing may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Reads which file system is on a device.
///
/// # Errors
/// When the device cannot be read.
pub fn probe(device: &Path) -> Result<Signature> {
    let file = File::open(device).map_err(Error::io("open", device))?;
    let mut head = vec![0; signature::HEAD];
    let mut filled = 0;
    while filled < head.len() {
        let at = filled as u64;
        let count = file
            .read_at(&mut head[filled..], at)
            .map_err(Error::io("read", device))?;
        if count == 0 {
            break;
        }
        filled += count;
    }
    Ok(signature::recognise(&head[..filled]))
}

/// Makes a file system, over whatever is on the device.
///
/// # Errors
/// When the program is missing or fails.
pub fn make(tools: &dyn ToolRunner, fs_type: FsType, device: &Path, id: &str) -> Result<()> {
    let invocation = match fs_type {
        // Without reserved blocks: the volume is its user's alone. The device
        // reads as zeros, so that discarding it first only costs time.
        FsType::Ext4 => Invocation::new("mkfs.ext4").args([
            "-F",
            "-q",
            "-m",
            "0",
            "-E",
            "lazy_itable_init=1,nodiscard",
        ]),
        FsType::Xfs => Invocation::new("mkfs.xfs").args(["-f", "-q", "-K"]),
        FsType::Btrfs => Invocation::new("mkfs.btrfs").args(["-f", "-q", "-K"]),
    };
    let invocation = invocation.arg(device).timeout(PATIENCE);
    tools
        .run(&invocation)
        .map_err(Error::tool("making the file system of", id))?;
    Ok(())
}

/// Checks a file system before it is mounted, and makes safe repairs.
///
/// XFS and btrfs replay their logs at the mount and are not checked here.
///
/// # Errors
/// When ext4 needs a repair that may lose data.
pub fn check(tools: &dyn ToolRunner, fs_type: FsType, device: &Path, id: &str) -> Result<()> {
    match fs_type {
        FsType::Ext4 => check_ext4(tools, &["-p"], device, id),
        FsType::Xfs | FsType::Btrfs => Ok(()),
    }
}

fn check_ext4(tools: &dyn ToolRunner, options: &[&str], device: &Path, id: &str) -> Result<()> {
    let invocation = Invocation::new("e2fsck").args(options).arg(device);
    // Bits 0 and 1: errors were corrected.
    let invocation = invocation.accept(&[0, 1, 2, 3]).timeout(PATIENCE);
    match tools.run(&invocation) {
        Ok(_) => Ok(()),
        // Bits 2 and 3: errors for which `-p` does not dare a repair, and
        // superblocks that are not understood.
        Err(ToolError::Exit {
            code: Some(code),
            complaint,
            ..
        }) if code & 12 != 0 => Err(Error::Precondition {
            id: id.to_owned(),
            reason: format!(
                "its file system is damaged ({complaint}): take a snapshot, then run `e2fsck {}`",
                device.display()
            ),
        }),
        Err(error) => Err(Error::tool("checking the file system of", id)(error)),
    }
}

/// Grows a file system that is not mounted to the size of its device, and
/// returns whether it could: XFS and btrfs grow while they are mounted.
///
/// # Errors
/// When the program is missing or fails.
pub fn grow_unmounted(
    tools: &dyn ToolRunner,
    fs_type: FsType,
    device: &Path,
    id: &str,
) -> Result<bool> {
    match fs_type {
        FsType::Xfs | FsType::Btrfs => Ok(false),
        FsType::Ext4 => {
            check_ext4(tools, &["-f", "-p"], device, id)?;
            let resize = Invocation::new("resize2fs").arg(device).timeout(PATIENCE);
            let done = tools.run(&resize);
            done.map_err(Error::tool("growing the file system of", id))?;
            Ok(true)
        }
    }
}

/// Changes the identity of a copied file system, if the kernel would otherwise take it
/// for the original.
///
/// # Errors
/// When the program is missing or fails.
pub fn renew_identity(
    tools: &dyn ToolRunner,
    fs_type: FsType,
    device: &Path,
    id: &str,
) -> Result<()> {
    if fs_type == FsType::Btrfs {
        let invocation = Invocation::new("btrfstune").args(["-f", "-m"]).arg(device);
        let done = tools.run(&invocation.timeout(PATIENCE));
        done.map_err(Error::tool("giving a new identity to", id))?;
    }
    Ok(())
}

/// Grows a mounted file system to the size of its device.
///
/// # Errors
/// When the program is missing or fails.
pub fn grow(
    tools: &dyn ToolRunner,
    fs_type: FsType,
    device: &Path,
    mount: &Path,
    id: &str,
) -> Result<()> {
    let invocation = match fs_type {
        FsType::Ext4 => Invocation::new("resize2fs").arg(device),
        FsType::Xfs => Invocation::new("xfs_growfs").arg("-d").arg(mount),
        FsType::Btrfs => {
            let words = ["filesystem", "resize", "max"];
            Invocation::new("btrfs").args(words).arg(mount)
        }
    };
    let done = tools.run(&invocation.timeout(PATIENCE));
    done.map_err(Error::tool("growing the file system of", id))?;
    Ok(())
}
