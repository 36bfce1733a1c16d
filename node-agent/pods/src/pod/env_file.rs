//! Files of variables that containers leave in volumes of the pod's own
//! (KEP-3721): `NAME='value'` a line, in the kubelet's reading of a shell's syntax.
//!
//! ```text
//! # whole lines may be comments        blanks before a name do not count
//! NAME='what is between the quotes, as it is, over several lines too'   # more
//! OTHER= 'nothing': a blank after the `=` is where a shell's value ends
//! ```
//!
//! Containers write these files, so nothing is taken for granted: a path is followed
//! inside the volume only, what is no regular file is not opened (a pipe would never
//! answer, a device may do something), and no more is read than any pod has use for.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, openat, openat2};

/// No line of the file has so many bytes: where Go's `bufio.Scanner` gives up.
const LINE: usize = 64 << 10;

/// Most bytes that are read: more than twice what a program can be started with.
const MOST: u64 = 16 << 20;

/// Why an env file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not there, or a link leads nowhere.
    #[error("cannot open it: {0}")]
    Open(io::Error),
    /// A folder, a pipe, a device.
    #[error("no regular file")]
    Kind,
    /// It cannot be read.
    #[error("cannot read it: {0}")]
    Read(io::Error),
    /// It is too long.
    #[error("more than {MOST} bytes")]
    Size,
    /// A line of it is not of the form.
    #[error("line {0}: {1}")]
    Line(usize, LineError),
}

/// Why a line of an env file is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It assigns nothing.
    #[error("no `=`")]
    NoEquals,
    /// It names nothing.
    #[error("no name before the `=`")]
    NoName,
    /// As `NAME =`.
    #[error("whitespace before the `=`")]
    Blank,
    /// As `NAME=value` or `NAME="value"`.
    #[error("the value does not begin with a single quote")]
    Unquoted,
    /// The file ends within the value.
    #[error("the single quote that begins here has no end")]
    Unclosed,
    /// As `NAME='a''b'`.
    #[error("something other than a comment follows the value")]
    Rest,
    /// It is too long.
    #[error("{LINE} bytes or more")]
    Long,
}

/// What a file has, in its order, as far as it could be read.
#[derive(Debug, Default)]
pub(super) struct EnvFile {
    variables: Vec<(Vec<u8>, Vec<u8>)>,
    ended: Option<Arc<Error>>,
}

impl EnvFile {
    /// The value of `key`: of several the first. Empty when it has none or is not
    /// there, which the kubelet does not tell apart.
    ///
    /// # Errors
    /// When the file is wrong somewhere before.
    pub(super) fn value(&self, key: &str) -> Result<&[u8], Arc<Error>> {
        let mut all = self.variables.iter();
        match all.find(|(name, _)| name == key.as_bytes()) {
            Some((_, value)) => Ok(value),
            None => self.ended.clone().map_or(Ok(&[]), Err),
        }
    }
}

/// Reads the file at `path` in the volume at `root`.
pub(super) async fn read(root: &Path, path: &str) -> Result<EnvFile, Error> {
    let (root, path) = (root.to_owned(), path.to_owned());
    let read = tokio::task::spawn_blocking(move || Ok(parse(open(&root, &path)?)));
    read.await
        .unwrap_or_else(|gone| Err(Error::Read(io::Error::other(gone))))
}

/// Opens a regular file of the volume at `root`, whatever links there are in it.
fn open(root: &Path, path: &str) -> Result<File, Error> {
    let failed = |errno: rustix::io::Errno| Error::Open(errno.into());
    let look = OFlags::PATH | OFlags::CLOEXEC;
    let root = openat(CWD, root, look, Mode::empty()).map_err(failed)?;
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let path = if path.is_empty() { "." } else { path };
    let found = openat2(&root, path, look, Mode::empty(), within).map_err(failed)?;
    let stat = rustix::fs::fstat(&found).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Error::Kind);
    }
    // the very file that was looked at
    File::open(format!("/proc/self/fd/{}", found.as_raw_fd())).map_err(Error::Open)
}

/// Reads a file up to its end or its first fault.
fn parse(file: impl Read) -> EnvFile {
    let mut found = EnvFile::default();
    let mut lines = EnvLines {
        file: BufReader::new(file.take(MOST + 1)),
        read: 0,
        number: 0,
    };
    let read = lines.variables(&mut found.variables);
    found.ended = read.err().map(Arc::new);
    found
}

struct EnvLines<R> {
    file: BufReader<io::Take<R>>,
    read: u64,
    /// Of the line that was read last, from 1.
    number: usize,
}

impl<R: Read> EnvLines<R> {
    /// The next line without its end; none at the file's.
    fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut line = Vec::new();
        let most = LINE as u64;
        let mut part = self.file.by_ref().take(most);
        let read = part.read_until(b'\n', &mut line).map_err(Error::Read)?;
        self.number += 1;
        self.read += read as u64;
        if self.read > MOST {
            return Err(Error::Size);
        }
        if line.pop_if(|last| *last == b'\n').is_some() {
            line.pop_if(|last| *last == b'\r');
        } else if read >= LINE {
            return Err(Error::Line(self.number, LineError::Long));
        }
        Ok((read > 0).then_some(line))
    }

    fn variables(&mut self, found: &mut Vec<(Vec<u8>, Vec<u8>)>) -> Result<(), Error> {
        while let Some(line) = self.next()? {
            let line = without_blanks(&line);
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let wrong = |why| Error::Line(self.number, why);
            let equals = line.iter().position(|byte| *byte == b'=');
            let (name, rest) = line.split_at(equals.ok_or(wrong(LineError::NoEquals))?);
            let rest = rest.get(1..).unwrap_or_default();
            match name.last() {
                None => return Err(wrong(LineError::NoName)),
                Some(b' ' | b'\t') => return Err(wrong(LineError::Blank)),
                Some(_) => {}
            }
            let value = match rest.first() {
                Some(b' ' | b'\t') => Vec::new(),
                Some(b'\'') => self.quoted(rest.get(1..).unwrap_or_default())?,
                _ => return Err(wrong(LineError::Unquoted)),
            };
            found.push((name.to_vec(), value));
        }
        Ok(())
    }

    /// The value that begins with `line`, up to its quote.
    fn quoted(&mut self, line: &[u8]) -> Result<Vec<u8>, Error> {
        let begins = self.number;
        let mut value = Vec::new();
        let mut line = line.to_vec();
        loop {
            if let Some(end) = line.iter().position(|byte| *byte == b'\'') {
                let (last, rest) = line.split_at(end);
                value.extend_from_slice(last);
                let rest = without_blanks(rest.get(1..).unwrap_or_default());
                if !rest.is_empty() && !rest.starts_with(b"#") {
                    return Err(Error::Line(self.number, LineError::Rest));
                }
                return Ok(value);
            }
            value.extend_from_slice(&line);
            value.push(b'\n');
            let unclosed = Error::Line(begins, LineError::Unclosed);
            line = self.next()?.ok_or(unclosed)?;
        }
    }
}

fn without_blanks(line: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let begin = line.iter().position(|byte| !blank(byte));
    begin.and_then(|at| line.get(at..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// What `key` is in a file of that content: its value, or why there is none.
    fn found(content: &[u8], key: &str) -> Result<String, String> {
        let file = parse(content);
        let value = file
            .value(key)
            .map(|v| String::from_utf8_lossy(v).into_owned());
        value.map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_what_is_between_single_quotes() {
        let cases: [(&str, &str, &str); 17] = [
            ("A='1'\nB='2'\n", "B", "2"),
            ("A='1'", "A", "1"),
            ("  \t A='1'", "A", "1"),
            ("# A='0'\n\n \t\n   # more\nA='1'", "A", "1"),
            ("A='1'\nA='2'", "A", "1"),
            (
                "A='x # y = $B ${C} \\n \"'  # more",
                "A",
                "x # y = $B ${C} \\n \"",
            ),
            ("A='  x  '", "A", "  x  "),
            (
                "A='one\n two\n\nB=\nthree'\nB='2'",
                "A",
                "one\n two\n\nB=\nthree",
            ),
            ("A='one\n two\n\nB=\nthree'\nB='2'", "B", "2"),
            ("A='1'\r\nB='x\r\ny'\r\n", "B", "x\ny"),
            ("A='1'\r\nB='x\r\ny'\r\n", "A", "1"),
            ("A=''\n", "A", ""),
            ("A= 'x'\nB='2'", "A", ""),
            ("A= 'x\nB='2'", "B", "2"),
            ("A='1'", "B", ""),
            ("", "A", ""),
            ("export A='1'", "export A", "1"),
        ];
        for (content, key, value) in cases {
            assert_eq!(
                found(content.as_bytes(), key),
                Ok(value.to_owned()),
                "{content:?} {key}"
            );
        }
    }

    #[test]
    fn what_is_wrong_hides_what_follows_and_not_what_was_before() {
        let cases: [(&str, usize, LineError); 12] = [
            ("what", 2, LineError::NoEquals),
            ("='x'", 2, LineError::NoName),
            ("  ='x'", 2, LineError::NoName),
            ("B ='x'", 2, LineError::Blank),
            ("B\t= 'x'", 2, LineError::Blank),
            ("B=x", 2, LineError::Unquoted),
            ("B=\"x\"", 2, LineError::Unquoted),
            ("B=", 2, LineError::Unquoted),
            ("B='x", 2, LineError::Unclosed),
            ("B='x''y'", 2, LineError::Rest),
            ("B='x'y", 2, LineError::Rest),
            ("B='x\ny'z", 3, LineError::Rest),
        ];
        for (line, number, wrong) in cases {
            let content = format!("A='1'\n{line}\n");
            assert_eq!(found(content.as_bytes(), "A"), Ok("1".to_owned()), "{line}");
            for key in ["B", "C"] {
                let why = format!("line {number}: {wrong}");
                assert_eq!(found(content.as_bytes(), key), Err(why), "{line}");
            }
        }
    }

    #[test]
    fn lines_and_files_have_the_kubelets_length_and_ours() {
        // `A='` and `'` around it, and the end of the line
        let value = "x".repeat(LINE - 5);
        for end in ["\n", ""] {
            let line = format!("A='{value}'{end}");
            assert_eq!(found(line.as_bytes(), "A"), Ok(value.clone()));
            let line = format!("A='{value}x'{end}");
            let why = format!("line 1: {}", LineError::Long);
            assert_eq!(found(line.as_bytes(), "A"), Err(why));
        }
        // zeros without end, and lines without end
        let endless = parse(io::repeat(0));
        assert!(matches!(
            *endless.value("A").unwrap_err(),
            Error::Line(1, LineError::Long)
        ));
        let lines = [b"#".repeat(1023), b"\n".to_vec()].concat();
        let mut lines = lines.repeat(usize::try_from(MOST / 1024).unwrap());
        assert_eq!(found(&lines, "A"), Ok(String::new()));
        lines.push(b'#');
        assert!(matches!(
            *parse(&*lines).value("A").unwrap_err(),
            Error::Size
        ));
    }

    #[tokio::test]
    async fn files_are_found_inside_the_volume_only_and_nothing_else_is_opened() {
        let (volume, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |path: &str| volume.path().join(path);
        std::fs::create_dir(at("dir")).unwrap();
        std::fs::write(at("dir/real"), "A='in'").unwrap();
        std::fs::write(outside.path().join("real"), "A='out'").unwrap();
        symlink("dir/real", at("beside")).unwrap();
        // absolute, and up: as if the volume were the root
        symlink("/dir/real", at("absolute")).unwrap();
        symlink("../../../../dir", at("up")).unwrap();
        symlink(outside.path(), at("away")).unwrap();
        symlink("/proc/self/environ", at("proc")).unwrap();
        let pipe = at("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        for path in [
            "dir/real",
            "beside",
            "absolute",
            "up/real",
            "./dir//real",
            "/dir/real",
        ] {
            let file = read(volume.path(), path).await.unwrap();
            assert_eq!(file.value("A").unwrap(), b"in", "{path}");
        }
        for path in ["away/real", "proc", "none", "dir/real/more"] {
            let refused = read(volume.path(), path).await.unwrap_err();
            assert!(matches!(refused, Error::Open(_)), "{path}: {refused}");
        }
        for path in ["dir", "pipe", ""] {
            let refused = read(volume.path(), path).await.unwrap_err();
            assert!(matches!(refused, Error::Kind), "{path}: {refused}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_file_makes_it_panic(content in "[A='# \\t\\n\\r]{0,80}") {
            let _ = parse(content.as_bytes());
        }

        #[test]
        fn what_is_quoted_comes_back(values in proptest::collection::vec("[^'\\r]{0,30}", 0..8)) {
            let lines = values.iter().enumerate();
            let lines = lines.map(|(at, value)| format!(" K{at}='{value}' # {at}\n"));
            let content: String = lines.collect();
            for (at, value) in values.iter().enumerate() {
                proptest::prop_assert_eq!(found(content.as_bytes(), &format!("K{at}")), Ok(value.clone()));
            }
        }
    }
}
