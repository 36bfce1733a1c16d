//! Mount options of a StorageClass, checked against a list.
//!
//! What is not on the list is refused: an option may make a file system
//! unsafe (`nobarrier`), reach other files (`usrjquota=…`), or be ignored.

use rustix::mount::MountFlags;

use crate::error::{Error, Result};
use crate::filesystem::FsType;

/// Options of a mount: flags of the kernel, and options of the file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Names of generic flags, sorted.
    flags: Vec<&'static str>,
    /// Options of the file system, as they are given to it.
    data: Vec<String>,
}

/// Flags that every file system has.
const FLAGS: [(&str, MountFlags); 10] = [
    ("ro", MountFlags::RDONLY),
    ("noatime", MountFlags::NOATIME),
    ("nodiratime", MountFlags::NODIRATIME),
    ("relatime", MountFlags::RELATIME),
    ("strictatime", MountFlags::STRICTATIME),
    ("nodev", MountFlags::NODEV),
    ("nosuid", MountFlags::NOSUID),
    ("noexec", MountFlags::NOEXEC),
    ("sync", MountFlags::SYNCHRONOUS),
    ("dirsync", MountFlags::DIRSYNC),
];

/// Words that mean the default.
const DEFAULTS: [&str; 5] = ["rw", "defaults", "dev", "suid", "exec"];

/// Shape of an option's value.
#[derive(Clone, Copy)]
enum Value {
    None,
    Number,
    OneOf(&'static [&'static str]),
}

/// Options of single file systems.
const OPTIONS: [(FsType, &str, Value); 17] = [
    (FsType::Ext4, "discard", Value::None),
    (FsType::Ext4, "nodiscard", Value::None),
    (FsType::Ext4, "commit", Value::Number),
    (FsType::Ext4, "data", Value::OneOf(&["journal", "ordered"])),
    (
        FsType::Ext4,
        "errors",
        Value::OneOf(&["remount-ro", "panic"]),
    ),
    (FsType::Ext4, "stripe", Value::Number),
    (FsType::Xfs, "discard", Value::None),
    (FsType::Xfs, "nodiscard", Value::None),
    (FsType::Xfs, "inode64", Value::None),
    (FsType::Xfs, "logbufs", Value::Number),
    (FsType::Xfs, "largeio", Value::None),
    (FsType::Xfs, "swalloc", Value::None),
    (FsType::Btrfs, "discard", Value::OneOf(&["sync", "async"])),
    (FsType::Btrfs, "nodiscard", Value::None),
    (FsType::Btrfs, "commit", Value::Number),
    (FsType::Btrfs, "autodefrag", Value::None),
    (
        FsType::Btrfs,
        "compress",
        Value::OneOf(&["zstd", "lzo", "zlib", "no"]),
    ),
];

/// Checks options; without a file system, the option of any is accepted.
///
/// # Errors
/// Names the option that is not on the list.
pub fn parse(options: &[String], fs_type: Option<FsType>) -> Result<MountOptions> {
    let mut parsed = MountOptions::default();
    let words = options.iter().flat_map(|text| text.split(','));
    for word in words.map(str::trim).filter(|word| !word.is_empty()) {
        if DEFAULTS.contains(&word) {
            continue;
        }
        if let Some((name, _)) = FLAGS.iter().find(|(name, _)| *name == word) {
            parsed.flags.push(name);
            continue;
        }
        let (name, value) = word
            .split_once('=')
            .map_or((word, None), |(n, v)| (n, Some(v)));
        let known = OPTIONS.iter().any(|(of, option, shape)| {
            *option == name && fs_type.is_none_or(|it| it == *of) && fits(*shape, value)
        });
        if !known {
            return Err(Error::invalid(
                "volume_capability.mount.mount_flags",
                word,
                expected(fs_type),
            ));
        }
        parsed.data.push(word.to_owned());
    }
    parsed.flags.sort_unstable();
    parsed.flags.dedup();
    Ok(parsed)
}

fn fits(shape: Value, value: Option<&str>) -> bool {
    match (shape, value) {
        (Value::None, None) => true,
        (Value::Number, Some(value)) => value.len() <= 6 && value.parse::<u32>().is_ok(),
        (Value::OneOf(words), Some(value)) => words.contains(&value),
        _ => false,
    }
}

fn expected(fs_type: Option<FsType>) -> String {
    let flags = FLAGS.iter().map(|(name, _)| *name);
    let own = OPTIONS
        .iter()
        .filter(|(of, ..)| fs_type.is_none_or(|it| it == *of));
    let mut names: Vec<&str> = flags.chain(own.map(|(_, name, _)| *name)).collect();
    names.dedup();
    format!("use some of {}", names.join(", "))
}

impl MountOptions {
    /// Returns the kernel's flags.
    #[must_use]
    pub fn flags(&self) -> MountFlags {
        let known = FLAGS.iter().filter(|(name, _)| self.flags.contains(name));
        known.fold(MountFlags::empty(), |all, (_, flag)| all | *flag)
    }

    /// Returns the options of a file system, each as it is given to it.
    ///
    /// # Errors
    /// When one is an option of another file system.
    pub fn data(&self, fs_type: FsType) -> Result<Vec<String>> {
        parse(&self.data, Some(fs_type)).map(|parsed| parsed.data)
    }

    /// Whether there are options of a file system.
    #[must_use]
    pub fn has_data(&self) -> bool {
        !self.data.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(options: &[&str]) -> Vec<String> {
        options.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn flags_and_options_are_told_apart() {
        let options = words(&["noatime,nodev", "rw", "commit=30"]);
        let parsed = parse(&options, Some(FsType::Ext4)).unwrap();
        assert_eq!(parsed.flags(), MountFlags::NOATIME | MountFlags::NODEV);
        assert_eq!(parsed.data(FsType::Ext4).unwrap(), ["commit=30"]);
        assert!(parsed.data(FsType::Xfs).is_err());
    }

    #[test]
    fn options_that_are_not_on_the_list_are_refused() {
        for option in [
            "nobarrier",
            "usrjquota=/x",
            "commit=x",
            "data=writeback",
            "discard=1",
            "commit",
        ] {
            let error = parse(&words(&[option]), Some(FsType::Ext4)).unwrap_err();
            assert!(error.to_string().contains(option), "{error}");
        }
    }

    #[test]
    fn an_option_needs_a_file_system_that_knows_it() {
        assert!(parse(&words(&["largeio"]), Some(FsType::Xfs)).is_ok());
        assert!(parse(&words(&["largeio"]), Some(FsType::Ext4)).is_err());
        assert!(parse(&words(&["largeio"]), None).is_ok());
    }
}
