//! Reading with a bound.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, openat2};

/// Opens what is at `path` if it is a regular file: nothing else is opened, since a pipe
/// keeps its opener waiting and a device may do something.
///
/// # Errors
/// When it is not there or no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    regular_at(CWD, path, flags, ResolveFlags::empty())
}

pub(super) fn regular_at(
    at: impl AsFd,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> io::Result<File> {
    let look = OFlags::PATH | OFlags::CLOEXEC;
    let found = openat2(at, path, look, Mode::empty(), resolve)?;
    let stat = rustix::fs::fstat(&found)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        let message = format!("`{}` is no regular file", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    // the very file that was looked at
    let itself = format!("/proc/self/fd/{}", found.as_raw_fd());
    Ok(rustix::fs::open(itself, flags, Mode::empty())?.into())
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// When it is not there, no regular file, or longer.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = open_regular(path)?
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if read as u64 > most {
        let message = format!("`{}` is longer than {most} bytes", path.display());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Reads a regular file of at most `most` bytes as text.
///
/// # Errors
/// When it is not there, no regular file, longer, or no UTF-8.
pub fn read_to_string(path: &Path, most: u64) -> io::Result<String> {
    let bytes = read(path, most)?;
    String::from_utf8(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Reads the last `most` bytes of a regular file.
///
/// # Errors
/// When it is not there or no regular file.
pub fn read_tail(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = open_regular(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether the file at `path` has exactly that content; no more of it is read than that.
#[must_use]
pub fn has_content(path: &Path, content: &[u8]) -> bool {
    read(path, content.len() as u64).is_ok_and(|found| found == content)
}

/// Cuts a text after at most `most` bytes, between characters.
pub fn clip(text: &mut String, most: usize) {
    if text.len() > most {
        let mut end = most;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_that_is_larger_than_memory_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sparse");
        let file = File::create(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        let error = read(&path, 1 << 10).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(!has_content(&path, b"text"));
        assert_eq!(read_tail(&path, 3).unwrap(), [0; 3]);
        file.set_len(1 << 10).unwrap();
        assert_eq!(read(&path, 1 << 10).unwrap().len(), 1 << 10);
    }

    #[test]
    fn pipes_and_folders_are_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
        for path in [pipe.as_path(), dir.path()] {
            assert!(read(path, 10).is_err());
            assert!(read_tail(path, 10).is_err());
        }
        fs::write(dir.path().join("file"), "text").unwrap();
        assert!(has_content(&dir.path().join("file"), b"text"));
        assert!(!has_content(&dir.path().join("file"), b"texts"));
        assert!(!has_content(&dir.path().join("file"), b"tex"));
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let mut text = "aé€".to_owned();
        clip(&mut text, 6);
        assert_eq!(text, "aé€");
        clip(&mut text, 5);
        assert_eq!(text, "aé");
        clip(&mut text, 2);
        assert_eq!(text, "a");
    }
}
