//! The archive of a support bundle: bounded, and without secrets.

pub mod collect;

use std::{
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use crate::redact;

/// Bytes of one file in the archive.
const MOST_OF_ONE: usize = 4 << 20;

/// Files that go into an archive.
#[derive(Debug)]
pub struct SupportBundle {
    /// Bytes that are left for all.
    room: usize,
    files: Vec<(String, String)>,
    contents: Vec<Entry>,
}

/// A file of the bundle in its index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its path in the archive.
    pub name: String,
    /// Bytes in the archive.
    pub size: usize,
    /// Bytes that were left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut: usize,
    /// Why it is missing or incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The part of a text that is kept when it is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The beginning, as of a list.
    Head,
    /// The end, as of a log.
    Tail,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

// === impl Bundle ===

impl SupportBundle {
    /// An empty bundle for so many bytes before compression.
    pub const fn new(room: usize) -> Self {
        Self {
            room,
            files: Vec::new(),
            contents: Vec::new(),
        }
    }

    /// Adds a file: secrets are taken out, and what does not fit is cut off.
    pub fn add(&mut self, name: &str, text: &str, keep: Keep) {
        let text = redact::text(text);
        let most = MOST_OF_ONE.min(self.room);
        let kept = shorten(&text, most, keep);
        self.room -= kept.len();
        self.contents.push(Entry {
            name: name.to_owned(),
            size: kept.len(),
            cut: text.len() - kept.len(),
            error: None,
        });
        self.files.push((name.to_owned(), kept.to_owned()));
    }

    /// Notes that a file is missing, and why.
    pub fn missing(&mut self, name: &str, why: &str) {
        self.contents.push(Entry {
            name: name.to_owned(),
            size: 0,
            cut: 0,
            error: Some(redact::text(why)),
        });
    }

    /// Returns the index.
    pub fn contents(&self) -> &[Entry] {
        &self.contents
    }

    /// Writes the archive to a new file that only its owner reads; returns its size.
    ///
    /// # Errors
    /// What the system says, also when the file exists.
    pub fn write(&self, path: &Path, made: Timestamp) -> io::Result<u64> {
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let folder = path.file_name().unwrap_or_default().to_string_lossy();
        let folder = folder.trim_end_matches(".tar.gz").to_owned();
        let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
        let contents = json!({
            "made": made.to_string(),
            "version": env!("CARGO_PKG_VERSION"),
            "files": self.contents,
        });
        let contents = ("contents.json".to_owned(), format!("{contents:#}\n"));
        for (name, text) in std::iter::once(&contents).chain(&self.files) {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o600);
            header.set_mtime(u64::try_from(made.as_second()).unwrap_or_default());
            archive.append_data(&mut header, format!("{folder}/{name}"), text.as_bytes())?;
        }
        let mut file = archive.into_inner()?.finish()?;
        file.flush()?;
        Ok(file.metadata()?.len())
    }
}

/// The first or last bytes of a text, from or to the end of a line where there is one.
fn shorten(text: &str, most: usize, keep: Keep) -> &str {
    if text.len() <= most {
        return text;
    }
    match keep {
        Keep::Head => {
            let end = text.floor_char_boundary(most);
            let head = text.get(..end).unwrap_or_default();
            head.rfind('\n')
                .and_then(|at| head.get(..=at))
                .unwrap_or(head)
        }
        Keep::Tail => {
            let begin = text.ceil_char_boundary(text.len() - most);
            let tail = text.get(begin..).unwrap_or_default();
            tail.find('\n')
                .and_then(|at| tail.get(at + 1..))
                .unwrap_or(tail)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// All that is in an archive, with the names of files.
    fn read(path: &Path) -> Vec<(String, String)> {
        let file = std::fs::File::open(path).expect("an archive");
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
        let entries = archive.entries().expect("entries");
        entries
            .map(|entry| {
                let mut entry = entry.expect("an entry");
                let name = entry.path().expect("a name").display().to_string();
                let mut text = String::new();
                entry.read_to_string(&mut text).expect("text");
                (name, text)
            })
            .collect()
    }

    #[test]
    fn secrets_that_were_planted_are_in_no_file_nor_name_of_the_archive() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("support.tar.gz");
        let mut bundle = SupportBundle::new(1 << 20);
        let planted = [
            "planted-one",
            "0123456789abcdef",
            "planted-three",
            "planted-four",
        ];
        bundle.add("log.txt", "token=planted-one\nready\n", Keep::Tail);
        bundle.add("join.txt", "--token abcdef.0123456789abcdef", Keep::Tail);
        bundle.add(
            "config.yaml",
            "password: 'planted-three'\nport: 1\n",
            Keep::Head,
        );
        bundle.missing("pods.json", "https://me:planted-four@server/ refused");
        bundle.write(&path, Timestamp::UNIX_EPOCH).expect("written");
        let files = read(&path);
        assert_eq!(files.len(), 4);
        assert_eq!(files[0].0, "support/contents.json");
        let all = format!("{files:?}");
        for secret in planted {
            assert!(!all.contains(secret), "{secret} is in {all}");
        }
        assert!(all.contains("ready") && all.contains("port: 1"), "{all}");
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&path)
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = bundle
            .write(&path, Timestamp::UNIX_EPOCH)
            .expect_err("it exists");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_bundle_is_no_larger_than_it_may_be() {
        let mut bundle = SupportBundle::new(10);
        bundle.add("a", "1234\n5678\n", Keep::Head);
        bundle.add("b", "more", Keep::Head);
        let cut: Vec<_> = bundle
            .contents()
            .iter()
            .map(|it| (it.size, it.cut))
            .collect();
        assert_eq!(cut, [(10, 0), (0, 4)]);
        assert_eq!(shorten("one\ntwo\nthree\n", 9, Keep::Head), "one\ntwo\n");
        assert_eq!(shorten("one\ntwo\nthree\n", 11, Keep::Tail), "two\nthree\n");
        assert_eq!(shorten("ééé", 3, Keep::Head), "é");
        assert_eq!(shorten("ééé", 3, Keep::Tail), "é");
    }
}
