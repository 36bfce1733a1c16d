//! Events in a file that is changed for a new one when it gets large.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::{SignedDuration, Timestamp};

/// In which format events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON, one event a line.
    Json,
    /// kube-apiserver's old lines of text.
    Legacy,
}

/// Where events are written, and for how long they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The file; `-` is the standard output.
    pub path: PathBuf,
    /// In which format.
    pub format: Format,
    /// How large a file gets, in megabytes; 0 for no limit.
    pub max_size: u64,
    /// For how many days old files are kept; 0 for ever.
    pub max_age: u32,
    /// How many old files are kept; 0 for all.
    pub max_backups: usize,
    /// Whether old files are compressed.
    pub compress: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            path: PathBuf::from("-"),
            format: Format::Json,
            max_size: 100,
            max_age: 366,
            max_backups: 100,
            compress: false,
        }
    }
}

/// The file.
#[derive(Debug)]
pub(super) struct Log {
    options: LogOptions,
    /// In bytes.
    limit: u64,
    open: Mutex<Option<Open>>,
}

#[derive(Debug)]
struct Open {
    file: File,
    size: u64,
}

// === impl Log ===

impl Log {
    /// Opens the file, or makes it.
    pub(super) fn new(options: LogOptions) -> io::Result<Self> {
        let limit = options.max_size.saturating_mul(1024 * 1024);
        let open = match options.path.as_os_str() == "-" {
            true => None,
            false => Some(open(&options.path)?),
        };
        Ok(Self {
            options,
            limit,
            open: Mutex::new(open),
        })
    }

    pub(super) fn format(&self) -> Format {
        self.options.format
    }

    /// Writes lines, all at once.
    pub(super) fn write(&self, lines: &[u8]) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = &mut *open else {
            return io::stdout().lock().write_all(lines);
        };
        let length = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        if self.limit > 0 && open.size > 0 && open.size.saturating_add(length) > self.limit {
            *open = self.change()?;
        }
        open.file.write_all(lines)?;
        open.size += length;
        Ok(())
    }

    /// Puts the file aside and begins a new one.
    fn change(&self) -> io::Result<Open> {
        let path = &self.options.path;
        let aside = aside(path, Timestamp::now());
        std::fs::rename(path, &aside)?;
        let new = open(path)?;
        let options = self.options.clone();
        // Requests do not wait for what becomes of old files.
        std::thread::spawn(move || {
            if let Err(error) = tidy(&options, Timestamp::now()) {
                tracing::warn!(%error, path = %options.path.display(), "old audit logs cannot be tidied");
            }
        });
        Ok(new)
    }
}

fn open(path: &Path) -> io::Result<Open> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    let file = options.open(path)?;
    let size = file.metadata()?.len();
    Ok(Open { file, size })
}

/// `audit.log` put aside is `audit-2026-01-02T03-04-05.678.log`.
fn aside(path: &Path, at: Timestamp) -> PathBuf {
    let (stem, extension) = parts(path);
    let time = at.strftime("%Y-%m-%dT%H-%M-%S.%3f");
    path.with_file_name(format!("{stem}-{time}{extension}"))
}

fn parts(path: &Path) -> (String, String) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path
        .extension()
        .map(|extension| format!(".{}", extension.to_string_lossy()));
    (stem.into_owned(), extension.unwrap_or_default())
}

/// When a file was put aside, by its name.
fn put_aside(path: &Path, name: &str) -> Option<Timestamp> {
    let (stem, extension) = parts(path);
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let time = name
        .strip_prefix(&stem)?
        .strip_prefix('-')?
        .strip_suffix(extension.as_str())?;
    let (date, clock) = time.split_once('T')?;
    let clock = clock.replacen('-', ":", 2);
    format!("{date}T{clock}Z").parse().ok()
}

/// Removes old files that are too many or too old, compresses those that stay.
fn tidy(options: &LogOptions, now: Timestamp) -> io::Result<()> {
    let path = &options.path;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut old: Vec<(Timestamp, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(folder.unwrap_or(Path::new(".")))? {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(at) = put_aside(path, &name.to_string_lossy()) {
            old.push((at, entry.path()));
        }
    }
    old.sort();
    old.reverse();
    let age = SignedDuration::from_hours(24 * i64::from(options.max_age));
    for (place, (at, path)) in old.into_iter().enumerate() {
        let too_many = options.max_backups > 0 && place >= options.max_backups;
        let too_old = options.max_age > 0 && now.duration_since(at) > age;
        if too_many || too_old {
            std::fs::remove_file(path)?;
        } else if options.compress && path.extension().is_none_or(|end| end != "gz") {
            compress(&path)?;
        }
    }
    Ok(())
}

fn compress(path: &Path) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut packed = GzEncoder::new(options.open(name)?, Compression::default());
    io::copy(&mut File::open(path)?, &mut packed)?;
    packed.finish()?.sync_all()?;
    std::fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_gets_too_large_is_put_aside_under_its_time() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("sub/audit.log");
        let options = LogOptions {
            path: path.clone(),
            max_size: 1,
            max_backups: 1,
            ..LogOptions::default()
        };
        let log = Log::new(options.clone()).expect("a log");
        let line = vec![b'x'; 700_000];
        for _ in 0..4 {
            log.write(&line).expect("written");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // The thread that tidies may still be at it: once more, for certain.
        tidy(&options, Timestamp::now()).expect("tidied");
        let mut names: Vec<String> = std::fs::read_dir(dir.path().join("sub"))
            .expect("a folder")
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        assert_eq!(names.len(), 2, "{names:?}");
        assert_eq!(names[1], "audit.log");
        assert!(put_aside(&path, &names[0]).is_some(), "{names:?}");
        assert_eq!(std::fs::metadata(&path).expect("there").len(), 700_000);
    }

    #[test]
    fn old_files_go_by_age_and_others_are_compressed() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a.log");
        let now: Timestamp = "2026-03-10T00:00:00Z".parse().expect("a time");
        for name in [
            "a-2026-03-01T00-00-00.000.log",
            "a-2026-03-09T01-02-03.004.log",
            "b-2026-03-01T00-00-00.000.log",
            "a-other.log",
        ] {
            std::fs::write(dir.path().join(name), "text").expect("written");
        }
        let options = LogOptions {
            path,
            max_age: 5,
            compress: true,
            ..LogOptions::default()
        };
        tidy(&options, now).expect("tidied");
        let mut names: Vec<String> = std::fs::read_dir(dir.path())
            .expect("a folder")
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "a-2026-03-09T01-02-03.004.log.gz",
                "a-other.log",
                "b-2026-03-01T00-00-00.000.log"
            ]
        );
    }
}
