//! Logs of containers: served from the files that the runtime writes, and
//! those files kept small.

mod copy;
mod rotate;

use std::path::PathBuf;

use bytes::Bytes;
use http::{Response, StatusCode};
use jiff::Timestamp;
use node_agent_cri::LogLine;
use node_agent_objects::status::PodStatus;
use node_agent_pod_registry::{log_directory, log_path};
use tokio::sync::mpsc;

use super::{Body, query, streamed, text};
use crate::KubeletServer;

pub use rotate::rotate;

/// The options of a container log request (`PodLogOptions`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogOptions {
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

/// A parameter of a log request whose value cannot be.
#[derive(Debug, thiserror::Error)]
#[error("invalid value `{value}` of {parameter}")]
pub struct InvalidLogOption {
    parameter: String,
    value: String,
}

/// Why a container has no log, in the kubelet's words. The first text names the container and
/// its pod.
#[derive(Debug, thiserror::Error)]
enum NoLog {
    /// It is not in the pod's status.
    #[error("{0} is not available")]
    NoStatus(String),
    /// It was never restarted.
    #[error("previous terminated {0} not found")]
    NoPrevious(String),
    /// It is over, and its log is gone.
    #[error("{0} is terminated")]
    Terminated(String),
    /// It has not started.
    #[error("{0} is waiting to start - no logs yet")]
    NotStarted(String),
    /// It cannot start yet.
    #[error("{0} is waiting to start: {1}")]
    Waiting(String, String),
}

impl LogOptions {
    /// Reads a query.
    ///
    /// # Errors
    /// When a value cannot be.
    pub fn parse(text: Option<&str>, now: Timestamp) -> Result<Self, InvalidLogOption> {
        let mut wanted = Self::default();
        for (key, value) in query(text) {
            let flag = || value != "0" && !value.eq_ignore_ascii_case("false");
            let invalid = || InvalidLogOption {
                parameter: key.clone(),
                value: value.clone(),
            };
            let number = || value.parse::<u64>().map_err(|_| invalid());
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
                    wanted.since = Some(value.parse().map_err(|_| invalid())?);
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

/// Turns lines of a log file into the requested output.
#[derive(Debug)]
pub struct LogFilter {
    wanted: LogOptions,
    left: Option<u64>,
    /// Whether the last line of each stream (`stdout`, `stderr`) goes on.
    open: [bool; 2],
}

impl LogFilter {
    /// For what is wanted.
    #[must_use]
    pub fn new(wanted: LogOptions) -> Self {
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
        let Some(line) = LogLine::parse(bytes) else {
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
        let written = || {
            std::str::from_utf8(line.time)
                .ok()?
                .parse::<Timestamp>()
                .ok()
        };
        if let Some(since) = self.wanted.since
            && written().is_some_and(|time| time < since)
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
            out.extend_from_slice(line.time);
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
    server: &KubeletServer,
    namespace: &str,
    pod: &str,
    container: &str,
    query: Option<&str>,
) -> Response<Body> {
    let wanted = match LogOptions::parse(query, Timestamp::now()) {
        Ok(wanted) => wanted,
        Err(error) => return text(StatusCode::BAD_REQUEST, error.to_string()),
    };
    let Some(entry) = server.pods.find(namespace, pod) else {
        let message = format!("pod \"{pod}\" does not exist");
        return text(StatusCode::NOT_FOUND, message);
    };
    if entry.pod.spec.container(container).is_none() {
        let message = format!("container \"{container}\" not found in pod \"{pod}\"");
        return text(StatusCode::NOT_FOUND, message);
    }
    let id = match meant(&entry.status, pod, container, wanted.previous) {
        Ok(id) => id,
        Err(error) => return text(StatusCode::BAD_REQUEST, error.to_string()),
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
        log_directory(&server.log_root, &entry.pod).join(log_path(container, record.restarts))
    } else {
        PathBuf::from(&record.log_path)
    };
    let (sender, receiver) = mpsc::channel(4);
    let running = {
        let (pods, id) = (server.pods.clone(), record.id.clone());
        let uid = entry.pod.uid().to_owned();
        move || {
            let pod = pods.get(&uid);
            let containers = pod.iter().flat_map(|entry| &entry.observed.containers);
            containers.into_iter().any(|c| c.id == id && c.running())
        }
    };
    tokio::spawn(async move {
        if let Err(error) = copy::copy(path.clone(), wanted, running, &sender).await {
            let message = format!("failed to read the log `{}`: {error}\n", path.display());
            let _ = sender.send(Bytes::from(message)).await;
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
) -> Result<&'a str, NoLog> {
    let of = format!("container \"{container}\" in pod \"{pod}\"");
    let Some(found) = status.container(container) else {
        return Err(NoLog::NoStatus(of));
    };
    let last = found
        .last_state
        .terminated
        .as_ref()
        .map(|terminated| terminated.container_id.as_str());
    let ran = last.filter(|id| !id.is_empty());
    let state = &found.state;
    let id = if previous {
        ran.ok_or(NoLog::NoPrevious(of))?
    } else if state.running.is_some() {
        &found.container_id
    } else if let Some(terminated) = &state.terminated {
        Some(terminated.container_id.as_str())
            .filter(|id| !id.is_empty())
            .or(ran)
            .ok_or(NoLog::Terminated(of))?
    } else if last.is_some() {
        ran.ok_or(NoLog::Terminated(of))?
    } else {
        let why = match &state.waiting {
            None => return Err(NoLog::NotStarted(of)),
            Some(waiting) => match waiting.reason.as_str() {
                "ErrImagePull" => "image can't be pulled",
                "ImagePullBackOff" => "trying and failing to pull image",
                other => other,
            },
        };
        return Err(NoLog::Waiting(of, why.to_owned()));
    };
    Ok(id.split_once("://").map_or(id, |(_, id)| id))
}

#[cfg(test)]
mod tests;
