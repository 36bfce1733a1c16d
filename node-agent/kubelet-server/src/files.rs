//! The node's log files, at `/logs/`: folders as lists, files as they are.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use tokio::sync::mpsc;

use super::{Body, decoded, reply, streamed, text};

/// Bytes read at once.
const CHUNK: u64 = 32 << 10;

/// An entry below the served folder.
#[derive(Debug)]
pub(super) enum FoundFile {
    /// Names, those of folders with a slash.
    Folder(Vec<String>),
    /// A file, and how long it was when it was opened.
    File(fs::File, u64),
}

/// Answers for what `parts` name below `root`; `slash` is whether the path ended
/// with one.
pub(super) async fn answer(root: &Path, parts: &[&str], slash: bool) -> Response<Body> {
    let parts: Vec<String> = parts.iter().map(|part| decoded(part)).collect();
    let last = parts.last().cloned();
    let root = root.to_owned();
    let found = tokio::task::spawn_blocking(move || find(&root, &parts)).await;
    let found = found.unwrap_or_else(|error| Err(io::Error::other(error)));
    answer_found(found, last, slash)
}

/// The answer with what was found, whose last name is `last`.
pub(super) fn answer_found(
    found: io::Result<FoundFile>,
    last: Option<String>,
    slash: bool,
) -> Response<Body> {
    match found {
        Ok(FoundFile::Folder(names)) => match last {
            // Links in the list are relative to the folder.
            Some(last) if !slash => redirect(&last),
            _ => reply(StatusCode::OK, "text/html; charset=utf-8", list(&names)),
        },
        Ok(FoundFile::File(file, length)) => {
            let (sender, receiver) = mpsc::channel(4);
            tokio::task::spawn_blocking(move || copy(file, length, &sender));
            streamed(receiver)
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            text(StatusCode::FORBIDDEN, "403 Forbidden\n")
        }
        Err(_) => text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

/// Opens what is meant. Links that lead out of the root lead nowhere, nor do those that
/// somebody puts there meanwhile.
pub(super) fn find(root: &Path, parts: &[String]) -> io::Result<FoundFile> {
    let root = root.canonicalize()?;
    let mut path: PathBuf = root.clone();
    for part in parts {
        if part.contains(['/', '\0']) || part == ".." {
            return Err(io::ErrorKind::NotFound.into());
        }
        path.push(part);
    }
    let path = path.canonicalize()?;
    if !path.starts_with(&root) {
        return Err(io::ErrorKind::NotFound.into());
    }
    // there are no links left in it; a pipe keeps nobody waiting
    let file = fs::File::from(openat2(
        CWD,
        &path,
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    )?);
    let kind = file.metadata()?;
    if kind.is_file() {
        return Ok(FoundFile::File(file, kind.len()));
    }
    if !kind.is_dir() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&path)? {
        let entry = entry?;
        if let Ok(mut name) = entry.file_name().into_string() {
            if entry.path().is_dir() {
                name.push('/');
            }
            names.push(name);
        }
    }
    names.sort();
    Ok(FoundFile::Folder(names))
}

fn list(names: &[String]) -> String {
    let mut page = String::from("<!doctype html>\n<pre>\n");
    for name in names {
        let _ = writeln!(page, "<a href=\"{}\">{}</a>", link(name), escaped(name));
    }
    page.push_str("</pre>\n");
    page
}

fn link(name: &str) -> String {
    let mut link = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            link.push(char::from(byte));
        } else {
            let _ = write!(link, "%{byte:02X}");
        }
    }
    link
}

fn escaped(name: &str) -> String {
    name.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn redirect(last: &str) -> Response<Body> {
    let mut answer = reply(StatusCode::MOVED_PERMANENTLY, "text/plain", Bytes::new());
    if let Ok(location) = HeaderValue::from_str(&(link(last) + "/")) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    answer
}

/// Sends what was in the file when it was opened.
pub(super) fn copy(file: fs::File, length: u64, out: &mpsc::Sender<Bytes>) {
    let mut file = file.take(length);
    loop {
        let mut chunk = Vec::new();
        match file.by_ref().take(CHUNK).read_to_end(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(_) if out.blocking_send(chunk.into()).is_err() => return,
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn parts(path: &str) -> Vec<String> {
        path.split('/')
            .filter(|p| !p.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn nothing_outside_the_root_is_found() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().join("log");
        fs::create_dir_all(root.join("pods")).expect("made");
        fs::write(root.join("a<b>.log"), "text").expect("written");
        fs::write(dir.path().join("secret"), "secret").expect("written");
        symlink("../secret", root.join("out")).expect("linked");
        symlink("a<b>.log", root.join("in")).expect("linked");
        let found = find(&root, &[]).expect("the root");
        let FoundFile::Folder(names) = found else {
            panic!("no folder: {found:?}");
        };
        assert_eq!(names, ["a<b>.log", "in", "out", "pods/"]);
        assert!(list(&names).contains("<a href=\"a%3Cb%3E.log\">a&lt;b&gt;.log</a>"));
        assert!(matches!(
            find(&root, &parts("in")),
            Ok(FoundFile::File(_, 4))
        ));
        for outside in ["out", "../secret", "pods/../../secret", "none"] {
            let error = find(&root, &parts(outside)).expect_err(outside);
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{outside}");
        }
        let error = find(&root, &["pods/../../secret".to_owned()]).expect_err("an escaped slash");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn folders_need_a_slash_and_files_come_whole() {
        use http_body_util::BodyExt;

        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join("pods")).expect("made");
        let text = vec![b'x'; 100_000];
        fs::write(dir.path().join("big"), &text).expect("written");
        let moved = answer(dir.path(), &["pods"], false).await;
        assert_eq!(moved.status(), 301);
        assert_eq!(moved.headers()[header::LOCATION], "pods/");
        assert_eq!(answer(dir.path(), &["pods"], true).await.status(), 200);
        assert_eq!(answer(dir.path(), &["none"], false).await.status(), 404);
        let whole = answer(dir.path(), &["big"], false).await;
        let read = whole.into_body().collect().await.expect("read").to_bytes();
        assert!(read == text);
    }
}
