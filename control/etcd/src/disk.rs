//! How long a disk takes to make a write durable.
//!
//! A member answers a write only after its log is on the disk, and sends heartbeats between such
//! writes. etcd's guide asks for a 99th percentile below 10 ms. A disk that needs as long as the
//! election timeout (1 s) makes its member lose or call elections all the time.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Error;

/// The 99th percentile that etcd's guide asks for.
pub const ADVISED: Duration = Duration::from_millis(10);
/// The 99th percentile from which a member does not start.
pub const LIMIT: Duration = Duration::from_secs(1);

/// Size of a write in bytes, about that of an entry of etcd's log.
const BLOCK: usize = 2300;
const WRITES: usize = 100;
/// A slow disk is known after fewer writes.
const TAKES: Duration = Duration::from_secs(3);

/// The suitability of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Fast enough.
    Good,
    /// Slower than advised.
    Slow,
    /// Too slow for a member.
    TooSlow,
}

/// Judges the 99th percentile of the time that durable writes take.
#[must_use]
pub fn judge(p99: Duration) -> Verdict {
    match p99 {
        p99 if p99 > LIMIT => Verdict::TooSlow,
        p99 if p99 > ADVISED => Verdict::Slow,
        _ => Verdict::Good,
    }
}

/// Returns the 99th percentile of some times; zero of none.
#[must_use]
pub fn p99(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = (sorted.len() * 99).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

/// Writes to a file in `folder` and measures how long each write takes to be durable.
///
/// # Errors
/// What the system said.
pub fn measure(folder: &Path) -> io::Result<Vec<Duration>> {
    let path = folder.join(format!("disk-check-{}", std::process::id()));
    let measured = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)?;
        let block = [0x5a; BLOCK];
        let began = Instant::now();
        let mut times = Vec::with_capacity(WRITES);
        while times.len() < WRITES && began.elapsed() < TAKES {
            let before = Instant::now();
            file.write_all(&block)?;
            file.sync_data()?;
            times.push(before.elapsed());
        }
        Ok(times)
    })();
    let _ = fs::remove_file(&path);
    measured
}

/// Checks the disk of a member's folder: warns where it is slow, and refuses one that is too
/// slow unless that is allowed.
///
/// # Errors
/// [`Error::SlowDisk`], or [`Error::File`] where nothing can be written.
pub fn check(folder: &Path, allow_slow: bool) -> Result<Duration, Error> {
    let times = measure(folder).map_err(|source| Error::File {
        path: folder.to_owned(),
        source,
    })?;
    let measured = p99(&times);
    match judge(measured) {
        Verdict::Good => {
            tracing::info!(p99 = ?measured, advised = ?ADVISED, "disk checked for etcd");
        }
        Verdict::TooSlow if !allow_slow => {
            return Err(Error::SlowDisk {
                folder: folder.to_owned(),
                measured,
                limit: LIMIT,
            });
        }
        Verdict::Slow | Verdict::TooSlow => {
            tracing::warn!(
                folder = %folder.display(),
                p99 = ?measured,
                advised = ?ADVISED,
                limit = ?LIMIT,
                "the disk is slow for etcd: writes take at least that long, and the member may \
                 lose its leader; put the data folder on a faster disk"
            );
        }
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_judged_by_its_slowest_hundredth() {
        let ms = Duration::from_millis;
        assert_eq!(judge(ms(10)), Verdict::Good);
        assert_eq!(judge(ms(11)), Verdict::Slow);
        assert_eq!(judge(ms(1000)), Verdict::Slow);
        assert_eq!(judge(ms(1001)), Verdict::TooSlow);
        let mut times = vec![ms(1); 99];
        times.push(ms(500));
        assert_eq!(p99(&times), ms(1));
        times.push(ms(500));
        assert_eq!(p99(&times), ms(500));
        assert_eq!(p99(&[ms(7)]), ms(7));
        assert_eq!(p99(&[]), Duration::ZERO);
    }

    #[test]
    fn a_check_leaves_no_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let times = measure(dir.path()).expect("measured");
        assert!(!times.is_empty() && times.len() <= WRITES);
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 0);
        assert!(measure(&dir.path().join("missing")).is_err());
    }
}
