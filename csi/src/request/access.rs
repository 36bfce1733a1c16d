//! Access modes and types that a local volume can honestly have.

use csi_api::{Mode, VolumeCapability};

use crate::error::{Error, Result};
use crate::filesystem::FsType;
use crate::request::mount_options::{self, MountOptions};

/// How a volume is going to be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Access mode.
    pub mode: Mode,
    /// Access type.
    pub kind: AccessKind,
}

/// Access type of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// The device itself.
    Block,
    /// A mounted file system.
    Mount {
        /// File system that is wanted; none is the class's default.
        fs_type: Option<FsType>,
        /// How it is mounted.
        options: MountOptions,
    },
}

impl Access {
    /// Checks a capability of a request.
    ///
    /// # Errors
    /// When the mode needs more than one node, or the type is not set, set
    /// twice, or names an unknown file system or mount option.
    pub fn parse(capability: &VolumeCapability) -> Result<Self> {
        let number = capability.access_mode.map_or(0, |it| it.mode);
        let mode = Mode::try_from(number).unwrap_or(Mode::Unknown);
        match mode {
            Mode::SingleNodeWriter
            | Mode::SingleNodeReaderOnly
            | Mode::SingleNodeSingleWriter
            | Mode::SingleNodeMultiWriter => {}
            Mode::Unknown => {
                return Err(Error::Missing {
                    field: "volume_capability.access_mode",
                });
            }
            Mode::MultiNodeReaderOnly
            | Mode::MultiNodeSingleWriter
            | Mode::MultiNodeMultiWriter => {
                return Err(Error::invalid(
                    "volume_capability.access_mode",
                    format!("{mode:?}"),
                    "a local volume is on one node: use ReadWriteOnce or ReadWriteOncePod",
                ));
            }
        }
        let kind = match (&capability.block, &capability.mount) {
            (Some(_), None) => AccessKind::Block,
            (None, Some(mount)) => {
                let fs_type = match mount.fs_type.as_str() {
                    "" => None,
                    name => Some(FsType::parse(name)?),
                };
                AccessKind::Mount {
                    fs_type,
                    options: mount_options::parse(&mount.mount_flags, fs_type)?,
                }
            }
            _ => {
                return Err(Error::Missing {
                    field: "volume_capability.access_type (exactly one of `block` and `mount`)",
                });
            }
        };
        Ok(Self { mode, kind })
    }

    /// Checks the capabilities of a request, of which there must be one.
    ///
    /// # Errors
    /// As [`Access::parse`], and if both types are requested.
    pub fn parse_all(capabilities: &[VolumeCapability]) -> Result<Vec<Self>> {
        if capabilities.is_empty() {
            return Err(Error::Missing {
                field: "volume_capabilities",
            });
        }
        let all: Vec<Self> = capabilities
            .iter()
            .map(Self::parse)
            .collect::<Result<_>>()?;
        let block = all.iter().filter(|it| it.kind == AccessKind::Block).count();
        if block != 0 && block != all.len() {
            return Err(Error::invalid(
                "volume_capabilities",
                "block and mount",
                "a volume is a device or a file system, not both",
            ));
        }
        Ok(all)
    }

    /// Whether the volume is only read.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.mode == Mode::SingleNodeReaderOnly
    }

    /// Returns the file system that is wanted.
    #[must_use]
    pub fn fs_type(&self) -> Option<FsType> {
        match &self.kind {
            AccessKind::Block => None,
            AccessKind::Mount { fs_type, .. } => *fs_type,
        }
    }
}

/// Decides whether a volume with `mode` may be published at one more target,
/// given how many other targets it has on this node.
///
/// # Errors
/// When the mode allows a single target and there is one.
pub fn check_targets(id: &str, mode: Mode, others: usize) -> Result<()> {
    if mode == Mode::SingleNodeSingleWriter && others > 0 {
        return Err(Error::Precondition {
            id: id.to_owned(),
            reason: "its access mode allows one pod, and another uses it: wait until that pod ends"
                .to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use csi_api::{AccessMode, BlockVolume, MountVolume};

    use super::*;

    fn capability(mode: Mode) -> VolumeCapability {
        VolumeCapability {
            block: None,
            mount: Some(MountVolume::default()),
            access_mode: Some(AccessMode { mode: mode.into() }),
        }
    }

    #[test]
    fn modes_of_one_node_are_accepted_and_modes_of_many_refused() {
        for number in 1..=7 {
            let mode = Mode::try_from(number).unwrap();
            let accepted = Access::parse(&capability(mode)).is_ok();
            let single = format!("{mode:?}").starts_with("SingleNode");
            assert_eq!(accepted, single, "{mode:?}");
        }
    }

    #[test]
    fn exactly_one_access_type_is_needed() {
        let mut both = capability(Mode::SingleNodeWriter);
        both.block = Some(BlockVolume {});
        assert!(Access::parse(&both).is_err());
        both.mount = None;
        assert_eq!(Access::parse(&both).unwrap().kind, AccessKind::Block);
        both.block = None;
        assert!(Access::parse(&both).is_err());
    }

    #[test]
    fn a_volume_is_not_device_and_file_system_at_once() {
        let mount = capability(Mode::SingleNodeWriter);
        let mut block = mount.clone();
        (block.block, block.mount) = (Some(BlockVolume {}), None);
        assert!(Access::parse_all(&[mount.clone(), block]).is_err());
        assert!(Access::parse_all(&[mount.clone(), mount]).is_ok());
        assert!(Access::parse_all(&[]).is_err());
    }

    #[test]
    fn an_unknown_file_system_is_refused() {
        let mut capability = capability(Mode::SingleNodeWriter);
        capability.mount.as_mut().unwrap().fs_type = "ntfs".to_owned();
        let error = Access::parse(&capability).unwrap_err().to_string();
        assert!(error.contains("ntfs") && error.contains("xfs"), "{error}");
    }

    #[test]
    fn a_single_writer_has_one_target() {
        assert!(check_targets("v", Mode::SingleNodeSingleWriter, 0).is_ok());
        assert!(check_targets("v", Mode::SingleNodeSingleWriter, 1).is_err());
        assert!(check_targets("v", Mode::SingleNodeMultiWriter, 5).is_ok());
    }
}
