//! Reports of lvm2 (`--reportformat json`), with sizes in bytes.

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::tool::{self, Invocation, ToolRunner};

/// Tag of logical volumes that are the driver's.
pub const VOLUME_TAG: &str = "orlop.csi.volume";

/// Tag of logical volumes that are snapshots of the driver's.
pub const SNAPSHOT_TAG: &str = "orlop.csi.snapshot";

/// Tag of logical volumes that are being made.
pub const PARTIAL_TAG: &str = "orlop.csi.partial";

#[derive(Deserialize)]
struct Report<T> {
    report: Vec<T>,
}

#[derive(Deserialize)]
struct Volumes {
    lv: Vec<LogicalVolume>,
}

#[derive(Deserialize)]
struct Groups {
    vg: Vec<VolumeGroup>,
}

/// A logical volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct LogicalVolume {
    /// Name within the group.
    #[serde(rename = "lv_name")]
    pub name: String,
    #[serde(rename = "lv_size")]
    size: String,
    #[serde(rename = "lv_tags")]
    tags: String,
    #[serde(rename = "data_percent")]
    data: String,
    #[serde(default, rename = "metadata_percent")]
    metadata: String,
}

impl LogicalVolume {
    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        number(&self.size)
    }

    /// Whether it carries a tag.
    #[must_use]
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.split(',').any(|it| it == tag)
    }

    /// Returns how full it is, in percent; none where nothing can fill up.
    #[must_use]
    pub fn data_percent(&self) -> Option<f64> {
        self.data.parse().ok()
    }

    /// Returns how full its metadata is, in percent.
    #[must_use]
    pub fn metadata_percent(&self) -> Option<f64> {
        self.metadata.parse().ok()
    }

    /// Returns how many bytes are taken.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a percentage of a size, rounded down"
    )]
    pub fn used(&self) -> u64 {
        let bytes = self.bytes();
        self.data_percent().map_or(bytes, |percent| {
            (bytes as f64 * percent.clamp(0.0, 100.0) / 100.0) as u64
        })
    }
}

/// A volume group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct VolumeGroup {
    #[serde(rename = "vg_size")]
    size: String,
    #[serde(rename = "vg_free")]
    free: String,
    #[serde(rename = "vg_extent_size")]
    extent: String,
}

impl VolumeGroup {
    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        number(&self.size)
    }

    /// Returns how many bytes no logical volume has.
    #[must_use]
    pub fn free(&self) -> u64 {
        number(&self.free)
    }

    /// Returns the size of an extent in bytes.
    #[must_use]
    pub fn extent(&self) -> u64 {
        number(&self.extent).max(1)
    }
}

/// Sizes may have a fraction of zeros.
fn number(text: &str) -> u64 {
    let whole = text.split('.').next().unwrap_or_default();
    whole.trim().parse().unwrap_or_default()
}

fn command(program: &'static str) -> Invocation {
    let words = ["--reportformat", "json", "--units", "b", "--nosuffix"];
    Invocation::new(program).args(words)
}

/// Lists the logical volumes of a group.
///
/// # Errors
/// When lvm2 fails.
pub fn volumes(tools: &dyn ToolRunner, group: &str) -> Result<Vec<LogicalVolume>> {
    let invocation = command("lvs")
        .args([
            "-o",
            "lv_name,lv_size,lv_tags,data_percent,metadata_percent",
        ])
        .arg(group);
    let report: Report<Volumes> =
        tool::report(tools, &invocation).map_err(Error::tool("listing the volumes of", group))?;
    Ok(report.report.into_iter().flat_map(|it| it.lv).collect())
}

/// Describes a volume group.
///
/// # Errors
/// When lvm2 fails or there is no such group.
pub fn group(tools: &dyn ToolRunner, group: &str) -> Result<VolumeGroup> {
    let invocation = command("vgs")
        .args(["-o", "vg_size,vg_free,vg_extent_size"])
        .arg(group);
    let report: Report<Groups> =
        tool::report(tools, &invocation).map_err(Error::tool("describing the group", group))?;
    let first = report.report.into_iter().flat_map(|it| it.vg).next();
    first.ok_or_else(|| Error::invalid("volumeGroup", group, "must be a volume group"))
}
