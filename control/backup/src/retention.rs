//! Retention of backups.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;

use crate::BackupName;

/// How many backups, or for how long they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The newest so many.
    Last(usize),
    /// Those that are not older; the newest always.
    For(Duration),
}

/// An invalid retention rule.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is no rule of retention: give a number of backups, such as 14, or a time, such as 30d or 12h"
)]
pub struct KeepError(String);

impl FromStr for Keep {
    type Err = KeepError;

    fn from_str(text: &str) -> Result<Self, KeepError> {
        let wrong = || KeepError(text.to_owned());
        let split = text
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(text.len());
        let (digits, unit) = text.split_at(split);
        let number: u32 = digits.parse().map_err(|_| wrong())?;
        let seconds = match unit {
            "" => {
                return match number {
                    0 => Err(wrong()),
                    _ => Ok(Self::Last(number as usize)),
                };
            }
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            "w" => 7 * 86_400,
            _ => return Err(wrong()),
        };
        match number {
            0 => Err(wrong()),
            _ => Ok(Self::For(Duration::from_secs(u64::from(number) * seconds))),
        }
    }
}

impl Keep {
    /// The backups to remove of `found`, which are all of one place. Those of other clusters
    /// than `cluster` stay, and so does the newest.
    #[must_use]
    pub fn expired(self, found: &[BackupName], cluster: &str, now: Timestamp) -> Vec<BackupName> {
        let mut own: Vec<&BackupName> = found.iter().filter(|one| one.cluster == cluster).collect();
        own.sort_unstable_by(|a, b| b.cmp(a));
        let is_kept = |at: usize, name: &BackupName| match self {
            Self::Last(count) => at < count,
            Self::For(time) => at == 0 || now.duration_since(name.created).unsigned_abs() <= time,
        };
        own.into_iter()
            .enumerate()
            .filter(|(at, name)| !is_kept(*at, name))
            .map(|(_, name)| name.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(cluster: &str, hour: i64) -> BackupName {
        BackupName {
            cluster: cluster.to_owned(),
            created: Timestamp::from_second(hour * 3_600).unwrap(),
            revision: 7,
            encrypted: true,
        }
    }

    #[test]
    fn the_newest_of_a_cluster_are_kept() {
        let found = [name("a", 1), name("a", 3), name("b", 0), name("a", 2)];
        let now = Timestamp::from_second(10 * 3_600).unwrap();
        let expired = |keep: &str| keep.parse::<Keep>().unwrap().expired(&found, "a", now);
        assert_eq!(expired("2"), [name("a", 1)]);
        assert_eq!(expired("9"), []);
        assert_eq!(expired("8h"), [name("a", 1)]);
        assert_eq!(
            expired("1h"),
            [name("a", 2), name("a", 1)],
            "but for the newest"
        );
    }

    #[test]
    fn rules_that_keep_nothing_are_refused() {
        for bad in ["", "0", "0d", "-1", "7y", "d", "1.5d"] {
            assert!(bad.parse::<Keep>().is_err(), "{bad}");
        }
        assert_eq!(
            "2w".parse::<Keep>().unwrap(),
            Keep::For(Duration::from_secs(14 * 86_400))
        );
    }
}
