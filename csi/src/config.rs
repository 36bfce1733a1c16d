//! The configuration file: a `VolumeConfiguration` of device classes.
//!
//! Parsing is strict. An unknown field, a field that the class's backend does
//! not use, or a missing one is an error that names the class and the field.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::filesystem::FsType;

/// API version of the file.
pub const API_VERSION: &str = "orlop.dev/v1alpha1";

/// Kind of the file.
pub const KIND: &str = "VolumeConfiguration";

/// The folder of records and journal below that of volumes.
pub(crate) const STATE_FOLDER: &str = ".orlop-csi";

/// The folder of state of classes without their own file system.
const STATE_ROOT: &str = "/var/lib/orlop/csi";

/// Reason why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration `{}`", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// The text is no YAML of the documented shape.
    #[error("the configuration is not understood: {message}")]
    Syntax {
        /// The parser's message, with line and column.
        message: String,
    },
    /// `apiVersion` or `kind` names something else.
    #[error("`{field}` is `{value}`: must be `{expected}`")]
    Version {
        /// `apiVersion` or `kind`.
        field: &'static str,
        /// Value in the file.
        value: String,
        /// The only value that is supported.
        expected: &'static str,
    },
    /// There is no class.
    #[error("`classes` is empty: name at least one class of devices")]
    NoClass,
    /// Two classes have one name.
    #[error("`classes` has two entries named `{name}`: rename one")]
    DuplicateClass {
        /// The name.
        name: String,
    },
    /// A name cannot be used.
    #[error(
        "`classes[].name` is `{name}`: use lower-case letters, digits and `-`, at most 63, beginning with a letter or digit"
    )]
    ClassName {
        /// The name.
        name: String,
    },
    /// A field is required by the backend.
    #[error("class `{class}`: `{field}` is required by backend `{backend}`")]
    MissingField {
        /// Name of the class.
        class: String,
        /// Name of the field.
        field: &'static str,
        /// Name of the backend.
        backend: &'static str,
    },
    /// A field has no meaning for the backend.
    #[error("class `{class}`: `{field}` has no meaning for backend `{backend}`: remove it")]
    UnusedField {
        /// Name of the class.
        class: String,
        /// Name of the field.
        field: &'static str,
        /// Name of the backend.
        backend: &'static str,
    },
    /// A field has a value that is not accepted.
    #[error("class `{class}`: `{field}` is `{value}`: {expected}")]
    FieldValue {
        /// Name of the class.
        class: String,
        /// Name of the field.
        field: &'static str,
        /// Value in the file.
        value: String,
        /// Values that are accepted.
        expected: &'static str,
    },
}

/// Kind of storage behind a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendKind {
    /// Image files, attached as loop devices.
    File,
    /// btrfs subvolumes with quota groups.
    Btrfs,
    /// Logical volumes of LVM, allocated in full.
    Lvm,
    /// Logical volumes of a thin pool of LVM.
    LvmThin,
    /// Folders with XFS project quotas.
    XfsQuota,
    /// Whole disks or partitions.
    Raw,
}

impl BackendKind {
    /// Returns the name in the configuration file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Btrfs => "btrfs",
            Self::Lvm => "lvm",
            Self::LvmThin => "lvm-thin",
            Self::XfsQuota => "xfs-quota",
            Self::Raw => "raw",
        }
    }
}

/// How much of a volume is allocated when it is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProvisioningMode {
    /// Space is taken as it is written.
    #[default]
    Thin,
    /// All space is allocated at creation.
    Thick,
}

/// The treatment of a deleted volume's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wipe {
    /// The space is freed; the next owner reads zeros by other means.
    None,
    /// The device is told that the space is unused.
    Discard,
    /// The space is overwritten with zeros.
    Zero,
}

/// Encryption of volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encryption {
    /// LUKS2 by dm-crypt; the passphrase comes with the staging secrets, or from a key
    /// manager.
    Luks2,
}

/// A class of devices.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ClassConfig {
    /// Name, by which the StorageClass parameter `class` picks it.
    pub name: String,
    /// Kind of storage.
    pub backend: BackendKind,
    /// Folder of `file`, `btrfs` and `xfs-quota`.
    pub path: Option<PathBuf>,
    /// Volume group of `lvm` and `lvm-thin`.
    pub volume_group: Option<String>,
    /// Thin pool of `lvm-thin`.
    pub thin_pool: Option<String>,
    /// Devices of `raw`.
    pub devices: Option<Vec<PathBuf>>,
    /// Allocation of `file`.
    pub provisioning: Option<ProvisioningMode>,
    /// Factor by which promised space may exceed the actual space.
    pub overcommit: Option<f64>,
    /// File system of volumes whose StorageClass names none.
    pub filesystem: Option<FsType>,
    /// Treatment of deleted data.
    pub wipe: Option<Wipe>,
    /// Encryption of the volumes.
    pub encryption: Option<Encryption>,
    /// Socket of the key manager (KMS v2) that wraps the keys of encrypted volumes:
    /// `unix:///PATH`.
    pub kms_endpoint: Option<String>,
    /// Whether a folder without an enforced size is accepted.
    pub allow_unenforced_size: Option<bool>,
    /// The folder of records and the journal; by default with the data, or below
    /// `/var/lib/orlop/csi` if the class has no folder.
    pub state_dir: Option<PathBuf>,
}

/// The configuration of a driver.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Classes of devices; the first is the default.
    pub classes: Vec<ClassConfig>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Document {
    api_version: String,
    kind: String,
    #[serde(default)]
    classes: Vec<ClassConfig>,
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// When it cannot be read or is refused.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text)
    }

    /// Parses and validates the text of a configuration.
    ///
    /// # Errors
    /// When it is invalid, with the field and the expected value.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let options = serde_saphyr::options! { strict_booleans: true };
        let document: Document =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| {
                ConfigError::Syntax {
                    message: error.to_string(),
                }
            })?;
        let expect = |field, value: String, expected| {
            if value == expected {
                return Ok(());
            }
            Err(ConfigError::Version {
                field,
                value,
                expected,
            })
        };
        expect("apiVersion", document.api_version, API_VERSION)?;
        expect("kind", document.kind, KIND)?;
        if document.classes.is_empty() {
            return Err(ConfigError::NoClass);
        }
        for (at, class) in document.classes.iter().enumerate() {
            class.check()?;
            let earlier = &document.classes[..at];
            if earlier.iter().any(|other| other.name == class.name) {
                return Err(ConfigError::DuplicateClass {
                    name: class.name.clone(),
                });
            }
        }
        Ok(Self {
            classes: document.classes,
        })
    }
}

impl ClassConfig {
    /// Returns where the class's records and journal are kept.
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        if let Some(folder) = &self.state_dir {
            return folder.clone();
        }
        match &self.path {
            Some(path) => path.join(STATE_FOLDER),
            None => Path::new(STATE_ROOT).join(&self.name),
        }
    }

    /// Returns the path of the key manager's socket, if the class has one.
    #[must_use]
    pub fn kms_socket(&self) -> Option<&str> {
        let path = self.kms_endpoint.as_ref()?.strip_prefix("unix://")?;
        is_plain_path(Path::new(path)).then_some(path)
    }

    fn check(&self) -> Result<(), ConfigError> {
        if !is_class_name(&self.name) {
            return Err(ConfigError::ClassName {
                name: self.name.clone(),
            });
        }
        for (field, is_set) in self.set_fields() {
            let used = self.usage(field);
            if used == FieldUsage::Required && !is_set {
                return Err(ConfigError::MissingField {
                    class: self.name.clone(),
                    field,
                    backend: self.backend.name(),
                });
            }
            if used == FieldUsage::None && is_set {
                return Err(ConfigError::UnusedField {
                    class: self.name.clone(),
                    field,
                    backend: self.backend.name(),
                });
            }
        }
        self.check_values()
    }

    fn set_fields(&self) -> [(&'static str, bool); 11] {
        [
            ("path", self.path.is_some()),
            ("volumeGroup", self.volume_group.is_some()),
            ("thinPool", self.thin_pool.is_some()),
            ("devices", self.devices.is_some()),
            ("provisioning", self.provisioning.is_some()),
            ("overcommit", self.overcommit.is_some()),
            ("filesystem", self.filesystem.is_some()),
            ("wipe", self.wipe.is_some()),
            ("encryption", self.encryption.is_some()),
            ("kmsEndpoint", self.kms_endpoint.is_some()),
            ("allowUnenforcedSize", self.allow_unenforced_size.is_some()),
        ]
    }

    fn usage(&self, field: &str) -> FieldUsage {
        use BackendKind::{Btrfs, File, Lvm, LvmThin, Raw, XfsQuota};
        match (field, self.backend) {
            ("path", File | Btrfs | XfsQuota)
            | ("volumeGroup", Lvm | LvmThin)
            | ("thinPool", LvmThin)
            | ("devices", Raw) => FieldUsage::Required,
            ("provisioning", File)
            | ("overcommit", File | Btrfs | XfsQuota | LvmThin)
            | ("filesystem" | "encryption" | "kmsEndpoint" | "wipe", File | Lvm | LvmThin | Raw)
            | ("allowUnenforcedSize", Btrfs | XfsQuota) => FieldUsage::Optional,
            _ => FieldUsage::None,
        }
    }

    fn check_values(&self) -> Result<(), ConfigError> {
        let wrong = |field, value: String, expected| {
            Err(ConfigError::FieldValue {
                class: self.name.clone(),
                field,
                value,
                expected,
            })
        };
        let absolute = [("path", &self.path), ("stateDir", &self.state_dir)];
        for (field, path) in absolute {
            if let Some(path) = path.as_ref().filter(|path| !is_plain_path(path)) {
                return wrong(field, path.display().to_string(), PLAIN_PATH);
            }
        }
        for device in self.devices.iter().flatten() {
            if !is_plain_path(device) {
                return wrong("devices", device.display().to_string(), PLAIN_PATH);
            }
        }
        if self.devices.as_ref().is_some_and(Vec::is_empty) {
            return wrong("devices", "[]".to_owned(), "name at least one device");
        }
        for (field, name) in [
            ("volumeGroup", &self.volume_group),
            ("thinPool", &self.thin_pool),
        ] {
            if let Some(name) = name.as_ref().filter(|name| !is_lvm_name(name)) {
                return wrong(
                    field,
                    name.clone(),
                    "use letters, digits and `_.+-`, not beginning with `-`",
                );
            }
        }
        if let Some(factor) = self.overcommit.filter(|it| !(1.0..=1000.0).contains(it)) {
            return wrong("overcommit", factor.to_string(), "a number from 1 to 1000");
        }
        if let Some(endpoint) = &self.kms_endpoint {
            if self.encryption.is_none() {
                let expected = "it wraps keys of encrypted volumes: set `encryption: luks2`";
                return wrong("kmsEndpoint", endpoint.clone(), expected);
            }
            if self.kms_socket().is_none() {
                let expected = "use `unix:///PATH`, the socket of a KMS v2 plugin";
                return wrong("kmsEndpoint", endpoint.clone(), expected);
            }
        }
        if self.backend == BackendKind::File && self.wipe == Some(Wipe::Zero) {
            let expected = "a file cannot be overwritten in place on every file system; use `none` or `discard`, or `encryption: luks2`";
            return wrong("wipe", "zero".to_owned(), expected);
        }
        Ok(())
    }
}

/// Whether a backend uses a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldUsage {
    Required,
    Optional,
    None,
}

const PLAIN_PATH: &str = "an absolute path without `..`, blanks or control characters";

/// Returns whether a path needs no escaping in a mount table and in commands of tools.
fn is_plain_path(path: &Path) -> bool {
    let Some(text) = path.to_str() else {
        return false;
    };
    let odd = |c: char| c.is_whitespace() || c.is_control() || "\"'\\,:".contains(c);
    path.is_absolute() && !text.contains(odd) && !text.split('/').any(|part| part == "..")
}

fn is_class_name(name: &str) -> bool {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = name.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|c| plain(*c) || *c == b'-')
        && plain(bytes[0])
}

fn is_lvm_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.+-".contains(c);
    !name.is_empty()
        && name.len() <= 127
        && !name.starts_with(['-', '.'])
        && name.chars().all(plain)
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
