//! Names of backups: they contain the cluster, the time and the revision, so that a
//! folder or a bucket can be listed without decrypting anything.
//!
//! `orlop-1b2c3d4e-20261126T195310Z-r123456.backup.age`; without `.age` it is not
//! encrypted.

use std::fmt;

use control_store::Revision;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The name of a backup. Later backups of a cluster are greater.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackupName {
    /// The first eight digits of the cluster's identity, `00000000` if unknown.
    pub cluster: String,
    /// When it was made, in whole seconds.
    pub created: Timestamp,
    /// The revision.
    pub revision: Revision,
    /// Whether it is encrypted.
    pub encrypted: bool,
}

const TIME: &str = "%Y%m%dT%H%M%SZ";
const DIGITS: usize = 8;

impl BackupName {
    /// The name for a backup.
    #[must_use]
    pub fn new(about: &crate::StoreSummary, encrypted: bool) -> Self {
        let hex = about.cluster.chars().filter(char::is_ascii_hexdigit);
        let digits: String = hex.take(DIGITS).collect::<String>().to_ascii_lowercase();
        Self {
            cluster: format!("{digits:0>DIGITS$}"),
            created: Timestamp::from_second(about.created.as_second()).unwrap_or(about.created),
            revision: about.revision,
            encrypted,
        }
    }

    /// Reads the name of a file; `None` if it is no backup.
    #[must_use]
    pub fn parse(file: &str) -> Option<Self> {
        let (rest, encrypted) = match file.strip_suffix(".backup.age") {
            Some(rest) => (rest, true),
            None => (file.strip_suffix(".backup")?, false),
        };
        let mut parts = rest.strip_prefix("orlop-")?.split('-');
        let cluster = parts.next()?.to_owned();
        let civil = jiff::civil::DateTime::strptime(TIME, parts.next()?).ok()?;
        let created = civil.to_zoned(TimeZone::UTC).ok()?.timestamp();
        let revision = parts.next()?.strip_prefix('r')?.parse().ok()?;
        let is_whole = parts.next().is_none() && cluster.len() == DIGITS;
        is_whole.then_some(Self {
            cluster,
            created,
            revision,
            encrypted,
        })
    }
}

impl fmt::Display for BackupName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.created.strftime(TIME);
        let end = if self.encrypted { ".age" } else { "" };
        write!(
            formatter,
            "orlop-{}-{time}-r{}.backup{end}",
            self.cluster, self.revision
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_its_text_and_other_files_are_no_backups() {
        for encrypted in [false, true] {
            let name = BackupName {
                cluster: "1b2c3d4e".to_owned(),
                created: "2026-11-26T19:53:10Z".parse().unwrap(),
                revision: 123_456,
                encrypted,
            };
            assert_eq!(BackupName::parse(&name.to_string()), Some(name));
        }
        for bad in [
            "",
            "orlop.backup",
            "store.redb",
            "orlop-1b2c3d4e-20261126T195310Z-r1.backup.age.partial",
            "orlop-1b2c3d4e-20261126T195310Z-1.backup",
            "orlop-1b2c3d4e-20261326T195310Z-r1.backup",
            "orlop-1b2c3d4e-20261126T195310Z-r1-2.backup",
            "orlop-1b2c-20261126T195310Z-r1.backup",
        ] {
            assert_eq!(BackupName::parse(bad), None, "{bad}");
        }
    }
}
