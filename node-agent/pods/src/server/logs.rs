//! Logs of containers: served from the files that the runtime writes, and
//! those files kept small.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Body, query, streamed, text};
use crate::cri::api::ContainerId;
use crate::objects::status::PodStatus;
use crate::pod::config;
use crate::shared::Shared;

/// How often a log that is followed is looked at, and all logs for rotation.
const FOLLOW_EVERY: Duration = Duration::from_millis(100);
const ROTATE_EVERY: Duration = Duration::from_secs(10);

/// What of a log is wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Go on when the end is reached.
    pub follow: bool,
    /// That of the container before.
    pub previous: bool,
    /// With times.
    pub timestamps: bool,
    /// Only so many lines from the end.
    pub tail: Option<u64>,
    /// Only so many bytes.
    pub limit: Option<u64>,
    /// Only what is not older.
    pub since: Option<Timestamp>,
    /// Only `stdout` or `stderr`.
    pub stream: Option<String>,
}

impl Wanted {
    /// Reads a query.
    ///
    /// # Errors
    /// A sentence about a value that cannot be.
    pub fn parse(text: Option<&str>, now: Timestamp) -> Result<Self, String> {
        let mut wanted = Self::default();
        for (key, value) in query(text) {
            let flag = || value != "0" && !value.eq_ignore_ascii_case("false");
            let number = || {
                value
                    .parse::<u64>()
                    .map_err(|_| format!("invalid value `{value}` of {key}"))
            };
            match key.as_str() {
                "follow" => wanted.follow = flag(),
                "previous" => wanted.previous = flag(),
                "timestamps" => wanted.timestamps = flag(),
                "tail" if value == "all" => wanted.tail = None,
                "tail" | "tailLines" => wanted.tail = Some(number()?),
                "limitBytes" => wanted.limit = Some(number()?),
                "sinceSeconds" => {
                    let seconds = i64::try_from(number()?).unwrap_or(i64::MAX / 2_000_000_000);
                    wanted.since = now
                        .checked_sub(jiff::SignedDuration::from_secs(seconds))
                        .ok();
                }
                "sinceTime" => {
                    let time = value
                        .parse()
                        .map_err(|_| format!("invalid value `{value}` of {key}"))?;
                    wanted.since = Some(time);
                }
                "stream" if value == "Stdout" || value == "Stderr" => {
                    wanted.stream = Some(value.to_lowercase());
                }
                _ => {}
            }
        }
        Ok(wanted)
    }
}

/// One line of a CRI log: `TIME STREAM TAG CONTENT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// RFC 3339 with nanoseconds.
    pub time: &'a str,
    /// `stdout` or `stderr`.
    pub stream: &'a str,
    /// Whether the content goes on in the next line.
    pub partial: bool,
    /// What the container wrote, without the line's end.
    pub content: &'a [u8],
}

impl<'a> Line<'a> {
    /// Reads one line, with or without its end.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let mut parts = bytes.splitn(4, |b| *b == b' ');
        let time = std::str::from_utf8(parts.next()?).ok()?;
        let stream = std::str::from_utf8(parts.next()?).ok()?;
        let tags = parts.next()?;
        let content = parts.next().unwrap_or_default();
        let partial = tags.split(|b| *b == b':').next() == Some(b"P");
        matches!(stream, "stdout" | "stderr").then_some(Self {
            time,
            stream,
            partial,
            content,
        })
    }
}

/// Turns lines of a file into what is wanted of them.
#[derive(Debug)]
pub struct Filter {
    wanted: Wanted,
    left: Option<u64>,
    /// Whether the last line of each stream (`stdout`, `stderr`) goes on.
    open: [bool; 2],
}

impl Filter {
    /// For what is wanted.
    #[must_use]
    pub fn new(wanted: Wanted) -> Self {
        Self {
            left: wanted.limit,
            wanted,
            open: [false; 2],
        }
    }

    /// Whether all that is wanted has come.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.left == Some(0)
    }

    /// What is wanted of a line goes to `out`.
    pub fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let Some(line) = Line::parse(bytes) else {
            return;
        };
        if self
            .wanted
            .stream
            .as_deref()
            .is_some_and(|s| s != line.stream)
        {
            return;
        }
        if let Some(since) = self.wanted.since
            && line
                .time
                .parse::<Timestamp>()
                .is_ok_and(|time| time < since)
        {
            return;
        }
        let from = out.len();
        let [stdout, stderr] = &mut self.open;
        let open = if line.stream == "stderr" {
            stderr
        } else {
            stdout
        };
        if self.wanted.timestamps && !*open {
            out.extend_from_slice(line.time.as_bytes());
            out.push(b' ');
        }
        *open = line.partial;
        out.extend_from_slice(line.content);
        if !line.partial {
            out.push(b'\n');
        }
        if let Some(left) = &mut self.left {
            let new = (out.len() - from) as u64;
            if new > *left {
                out.truncate(from + usize::try_from(*left).unwrap_or(usize::MAX));
            }
            *left = left.saturating_sub(new);
        }
    }
}

/// Answers a request for a container's log.
pub(super) fn answer(
    shared: &Arc<Shared>,
    namespace: &str,
    pod: &str,
    container: &str,
    query: Option<&str>,
) -> Response<Body> {
    let wanted = match Wanted::parse(query, Timestamp::now()) {
        Ok(wanted) => wanted,
        Err(message) => return text(StatusCode::BAD_REQUEST, message),
    };
    let Some(entry) = shared.pods.find(namespace, pod) else {
        let message = format!("pod \"{pod}\" does not exist");
        return text(StatusCode::NOT_FOUND, message);
    };
    if entry.pod.spec.container(container).is_none() {
        let message = format!("container \"{container}\" not found in pod \"{pod}\"");
        return text(StatusCode::NOT_FOUND, message);
    }
    let id = match meant(&entry.status, pod, container, wanted.previous) {
        Ok(id) => id,
        Err(message) => return text(StatusCode::BAD_REQUEST, message),
    };
    let record = entry
        .observed
        .containers
        .iter()
        .find(|record| record.id == id)
        .cloned();
    let Some(record) = record else {
        let message = format!("unable to retrieve container logs for {id}");
        return text(StatusCode::BAD_REQUEST, message);
    };
    let path = if record.log_path.is_empty() {
        config::log_directory(&shared.node.log_root, &entry.pod)
            .join(config::log_path(container, record.restarts))
    } else {
        PathBuf::from(&record.log_path)
    };
    let (sender, receiver) = mpsc::channel(4);
    let running = {
        let (shared, id) = (shared.clone(), record.id.clone());
        let uid = entry.pod.uid().to_owned();
        move || {
            shared
                .pods
                .all()
                .iter()
                .filter(|e| e.pod.uid() == uid)
                .flat_map(|e| &e.observed.containers)
                .any(|c| c.id == id && c.running())
        }
    };
    tokio::task::spawn_blocking(move || {
        if let Err(error) = copy(&path, wanted, running, &sender) {
            let message = format!("failed to read the log `{}`: {error}\n", path.display());
            let _ = sender.blocking_send(Bytes::from(message));
        }
    });
    streamed(receiver)
}

/// The runtime's id of the container whose log is meant: the one that runs, else
/// the last that ran; or why there is none, in the kubelet's words.
fn meant<'a>(
    status: &'a PodStatus,
    pod: &str,
    container: &str,
    previous: bool,
) -> Result<&'a str, String> {
    let of = format!("container \"{container}\" in pod \"{pod}\"");
    let found = status
        .container(container)
        .ok_or_else(|| format!("{of} is not available"))?;
    let last = found
        .last_state
        .terminated
        .as_ref()
        .map(|terminated| terminated.container_id.as_str());
    let ran = last.filter(|id| !id.is_empty());
    let state = &found.state;
    let id = if previous {
        ran.ok_or_else(|| format!("previous terminated {of} not found"))?
    } else if state.running.is_some() {
        &found.container_id
    } else if let Some(terminated) = &state.terminated {
        Some(terminated.container_id.as_str())
            .filter(|id| !id.is_empty())
            .or(ran)
            .ok_or_else(|| format!("{of} is terminated"))?
    } else if last.is_some() {
        ran.ok_or_else(|| format!("{of} is terminated"))?
    } else {
        let why = match &state.waiting {
            None => return Err(format!("{of} is waiting to start - no logs yet")),
            Some(waiting) => match waiting.reason.as_str() {
                "ErrImagePull" => "image can't be pulled",
                "ImagePullBackOff" => "trying and failing to pull image",
                other => other,
            },
        };
        return Err(format!("{of} is waiting to start: {why}"));
    };
    Ok(id.split_once("://").map_or(id, |(_, id)| id))
}

/// Sends what is wanted of a log, to its end or for as long as it grows.
fn copy(
    path: &Path,
    wanted: Wanted,
    running: impl Fn() -> bool,
    out: &mpsc::Sender<Bytes>,
) -> io::Result<()> {
    let mut file = fs::File::open(path)?;
    if let Some(lines) = wanted.tail {
        let at = tail_offset(&mut file, lines)?;
        file.seek(SeekFrom::Start(at))?;
    }
    let follow = wanted.follow;
    let mut inode = file.metadata()?.ino();
    let mut filter = Filter::new(wanted);
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let mut line = Vec::new();
    let mut chunk = Vec::new();
    loop {
        let ran = running();
        // to the end of the file
        loop {
            let read = reader.read_until(b'\n', &mut line)?;
            if line.ends_with(b"\n") {
                filter.take(&line, &mut chunk);
                line.clear();
            }
            let full = chunk.len() >= 32 << 10;
            if (read == 0 || full || filter.is_done())
                && !chunk.is_empty()
                && out
                    .blocking_send(std::mem::take(&mut chunk).into())
                    .is_err()
            {
                return Ok(());
            }
            if filter.is_done() {
                return Ok(());
            }
            if read == 0 {
                break;
            }
        }
        if !follow || !ran || out.is_closed() {
            return Ok(());
        }
        std::thread::sleep(FOLLOW_EVERY);
        if let Ok(now) = fs::metadata(path)
            && now.ino() != inode
        {
            // rotated: the old file was read to its end above, but for what
            // came while this slept
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest)?;
            for bytes in rest.split_inclusive(|b| *b == b'\n') {
                filter.take(bytes, &mut chunk);
            }
            inode = now.ino();
            reader = BufReader::with_capacity(64 << 10, fs::File::open(path)?);
            line.clear();
        }
    }
}

/// Where the last `lines` lines of a file begin.
fn tail_offset(file: &mut fs::File, lines: u64) -> io::Result<u64> {
    const STEP: u64 = 16 << 10;
    let end = file.metadata()?.len();
    if lines == 0 {
        return Ok(end);
    }
    let mut at = end;
    let mut found = 0;
    let mut buffer = Vec::new();
    while at > 0 {
        let from = at.saturating_sub(STEP);
        file.seek(SeekFrom::Start(from))?;
        buffer.clear();
        file.by_ref().take(at - from).read_to_end(&mut buffer)?;
        for (index, byte) in buffer.iter().enumerate().rev() {
            let position = from + index as u64;
            // the end of the last line begins no line
            if *byte == b'\n' && position + 1 != end {
                found += 1;
                if found == lines {
                    return Ok(position + 1);
                }
            }
        }
        at = from;
    }
    Ok(0)
}

/// Rotates logs that have grown too long, until `shutdown`.
pub async fn rotate(shared: Arc<Shared>, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(ROTATE_EVERY) => {}
        }
        for entry in shared.pods.all() {
            for record in entry.observed.containers.iter().filter(|c| c.running()) {
                let path = Path::new(&record.log_path);
                if record.log_path.is_empty()
                    || fs::metadata(path).map_or(0, |m| m.len()) < shared.settings.log_most
                {
                    continue;
                }
                let stamp = Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
                let aside = PathBuf::from(format!("{}.{stamp}", record.log_path));
                if let Err(error) = fs::rename(path, &aside) {
                    tracing::warn!(path = %path.display(), %error, "cannot rotate the log");
                    continue;
                }
                let reopened = shared
                    .runtime
                    .reopen_container_log(ContainerId {
                        container_id: record.id.clone(),
                    })
                    .await;
                if let Err(error) = reopened {
                    // the runtime goes on writing the old file
                    tracing::warn!(path = %path.display(), %error, "cannot reopen the log");
                    let _ = fs::rename(&aside, path);
                    continue;
                }
                drop_old(path, shared.settings.log_files);
            }
        }
    }
}

/// Removes all but the newest of a log's rotated files.
fn drop_old(path: &Path, most: usize) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
    else {
        return;
    };
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut rotated: Vec<PathBuf> = entries
        .flatten()
        .filter(|e| {
            e.file_name()
                .to_str()
                .and_then(|n| n.strip_prefix(name))
                .is_some_and(|rest| rest.starts_with('.'))
        })
        .map(|e| e.path())
        .collect();
    rotated.sort();
    let excess = rotated.len().saturating_sub(most.saturating_sub(1));
    for old in rotated.into_iter().take(excess) {
        let _ = fs::remove_file(old);
    }
}

#[cfg(test)]
#[path = "logs_tests.rs"]
mod tests;
