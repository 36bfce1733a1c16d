//! What the node's services wrote, at `/logs/?query=` (`NodeLogQuery`, KEP-2258): from
//! the journal, else from their files below the folder of logs.
//!
//! | parameter | means |
//! | --- | --- |
//! | `query` | a service, or with a slash a file; services may be several |
//! | `sinceTime`, `untilTime` | RFC 3339 |
//! | `tailLines` | so many of the last lines |
//! | `pattern` | an expression that lines match |
//! | `boot` | 0 is since the machine began, -1 the time before |
//!
//! Who asks is answered as by the kubelet: 400 for a value that is none, 406 for values
//! that do not go together, and what fails later is a line of the answer.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::Command;
use tokio::sync::mpsc;

use super::files::{self, FoundFile};
use super::{Body, streamed, text};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Most services of one query.
const MOST_SERVICES: usize = 4;

/// Most letters of a service's name.
const LONGEST_NAME: usize = 256;

/// Most lines that can be asked for.
const MOST_LINES: i64 = 100_000;

/// Bytes read at once.
const CHUNK: usize = 32 << 10;

/// The query parameters of a node log request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LogQuery {
    services: Vec<String>,
    files: Vec<String>,
    only: LineSelection,
}

/// Which lines of a log are requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LineSelection {
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    lines: Option<i64>,
    boot: Option<i64>,
    pattern: String,
}

/// The program that reads the journal.
#[derive(Clone, Debug)]
pub(super) struct Journal(Vec<String>);

impl Default for Journal {
    fn default() -> Self {
        Self(vec!["journalctl".to_owned()])
    }
}

/// Answers a query at the path `parts` below `/logs/`; none when it is none.
pub(super) async fn answer(
    journal: Journal,
    root: &Path,
    parts: &[&str],
    query: Option<&str>,
) -> Option<Response<Body>> {
    let refused = |status, errors: &[String]| Some(text(status, together(errors) + "\n"));
    let query = match parse(&super::query(query)) {
        Ok(query) => query?,
        Err(errors) => return refused(StatusCode::BAD_REQUEST, &errors),
    };
    if !parts.is_empty() {
        let said = "path not allowed in query mode\n";
        return Some(text(StatusCode::NOT_ACCEPTABLE, said));
    }
    let errors = query.check();
    if !errors.is_empty() {
        return refused(StatusCode::NOT_ACCEPTABLE, &errors);
    }
    let root = root.to_owned();
    if let [file] = query.files.as_slice() {
        let parts = path(file);
        let found = tokio::task::spawn_blocking(move || files::find(&root, &parts)).await;
        return match found.unwrap_or_else(|e| Err(io::Error::other(e))) {
            Err(error) => {
                let said = [invalid("query", &json!([file]), &error.to_string())];
                refused(StatusCode::NOT_ACCEPTABLE, &said)
            }
            found => Some(files::answer_found(found, None, true)),
        };
    }
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let copied = copy(&journal, &root, &query, &sender);
        if tokio::time::timeout(PATIENCE, copied).await.is_err() {
            say(&sender, "the logs took too long to read, and end here").await;
        }
    });
    Some(streamed(receiver))
}

/// The parts of a file's path, relative to the folder of logs. Clients of Windows write
/// it in their way.
fn path(file: &str) -> Vec<String> {
    file.split(['/', '\\'])
        .filter(|part| !part.is_empty() && *part != ".")
        .map(str::to_owned)
        .collect()
}

// === what is asked for: pure ===

fn invalid(field: &str, value: &Value, why: &str) -> String {
    format!("{field}: Invalid value: {value}: {why}")
}

/// Several errors as one, in the API's way.
fn together(errors: &[String]) -> String {
    let mut all: Vec<&str> = Vec::new();
    for error in errors {
        if !all.contains(&error.as_str()) {
            all.push(error);
        }
    }
    match all.as_slice() {
        [one] => (*one).to_owned(),
        all => format!("[{}]", all.join(", ")),
    }
}

/// The query, none when there is nothing of one; or what of it cannot be read.
fn parse(pairs: &[(String, String)]) -> Result<Option<LogQuery>, Vec<String>> {
    let mut errors = Vec::new();
    let mut query = LogQuery::default();
    let all = pairs.iter().filter(|(key, _)| key == "query");
    let asked: Vec<&str> = all.map(|(_, value)| value.as_str()).collect();
    for one in &asked {
        if one.contains(['/', '\\']) {
            query.files.push((*one).to_owned());
        } else if !one.trim().is_empty() {
            query.services.push((*one).to_owned());
        }
    }
    if !asked.is_empty() && query == LogQuery::default() {
        errors.push(invalid("query", &json!(asked), "may not be empty"));
    }
    let first = |name: &str| {
        let found = pairs.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    };
    let mut time = |name: &str| {
        let text = first(name)?;
        let read = rfc3339(text);
        if read.is_none() {
            errors.push(invalid(name, &json!(text), "invalid time format"));
        }
        read
    };
    query.only.since = time("sinceTime");
    query.only.until = time("untilTime");
    let mut number = |name: &str| {
        let text = first(name)?;
        match text.parse() {
            Ok(number) => Some(number),
            Err(error) => {
                errors.push(invalid(name, &json!(text), &format!("no number: {error}")));
                None
            }
        }
    };
    query.only.boot = number("boot");
    query.only.lines = number("tailLines");
    query.only.pattern = first("pattern").unwrap_or_default().to_owned();
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Some(query).filter(|query| *query != LogQuery::default()))
}

/// A time as RFC 3339 has it, which is narrower than what else is understood.
fn rfc3339(text: &str) -> Option<Timestamp> {
    let letters = text.bytes().all(|b| b"0123456789-:.+TZ".contains(&b));
    let exact = letters && text.as_bytes().get(10) == Some(&b'T') && text.len() >= 20;
    text.parse().ok().filter(|_| exact)
}

impl LogQuery {
    /// What of it does not go together.
    fn check(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for service in &self.services {
            let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
            let why = if service.len() > LONGEST_NAME {
                format!("length must be less than {LONGEST_NAME}")
            } else if service.chars().all(fits) {
                continue;
            } else {
                "input contains unsupported characters".to_owned()
            };
            errors.push(invalid("query", &json!(service), &why));
        }
        let (services, files) = (self.services.len(), self.files.len());
        if services > MOST_SERVICES {
            errors.push(format!(
                "query: Too many: {services}: must have at most {MOST_SERVICES} items"
            ));
        }
        let all = json!(self.files);
        if services == 0 && files == 0 {
            errors.push("query: Required value: cannot be empty with options".to_owned());
        } else if services > 0 && files > 0 {
            let both = format!("[{}], [{}]", self.files.join(" "), self.services.join(" "));
            let why = "cannot specify a file and service";
            errors.push(invalid("query", &json!(both), why));
        } else if files > 1 {
            errors.push(invalid("query", &all, "cannot specify more than one file"));
        } else if files == 1 && self.only != LineSelection::default() {
            errors.push(invalid("query", &all, "cannot specify file with options"));
        }
        let only = &self.only;
        if let (Some(since), Some(until)) = (only.since, only.until)
            && since > until
        {
            let until = json!(until.to_string());
            errors.push(invalid("untilTime", &until, "must be after `sinceTime`"));
        }
        if let Some(boot) = only.boot.filter(|boot| *boot > 0) {
            errors.push(invalid("boot", &json!(boot), "must be less than 1"));
        }
        if let Some(lines) = only.lines.filter(|n| !(0..=MOST_LINES).contains(n)) {
            let why = format!("must be between 0 and {MOST_LINES}, inclusive");
            errors.push(invalid("tailLines", &json!(lines), &why));
        }
        if let Err(error) = regex::Regex::new(&only.pattern) {
            errors.push(invalid("pattern", &json!(only.pattern), &error.to_string()));
        }
        errors
    }
}

/// The words that ask `journalctl` for these services. None of them is read by a shell,
/// and each value is a part of its option's word: it can be no option itself.
fn words(services: &[&str], only: &LineSelection) -> Vec<String> {
    let mut words = ["--utc", "--no-pager", "--output=short-precise"]
        .map(str::to_owned)
        .to_vec();
    // journalctl reads times as local ones, unless told
    let time = |at: Timestamp| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    words.extend(only.since.map(|at| format!("--since={}", time(at))));
    words.extend(only.until.map(|at| format!("--until={}", time(at))));
    words.extend(only.lines.map(|lines| format!("--lines={lines}")));
    words.extend(services.iter().map(|service| format!("--unit={service}")));
    if !only.pattern.is_empty() {
        words.push(format!("--grep={}", only.pattern));
    }
    words.extend(only.boot.map(|boot| format!("--boot={boot}")));
    words
}

/// Those of `services` that write to the journal, which has the `units`, and the others.
fn split<'a>(services: &'a [String], units: &str) -> (Vec<&'a str>, Vec<&'a str>) {
    services.iter().map(String::as_str).partition(|service| {
        units
            .lines()
            .any(|unit| unit.strip_suffix(".service") == Some(service))
    })
}

// === what is read ===

/// Sends what the services wrote.
async fn copy(journal: &Journal, root: &Path, query: &LogQuery, out: &mpsc::Sender<Bytes>) {
    let units = journal.units().await;
    let (native, others) = split(&query.services, &units);
    if !native.is_empty()
        && let Err(error) = journal.read(&words(&native, &query.only), out).await
    {
        say(out, &format!("error: the journal cannot be read: {error}")).await;
    }
    if others.is_empty() {
        return;
    }
    if query.only != LineSelection::default() {
        let others = others.join(", ");
        let said = format!("the logs of {others} are files: ask for them without options");
        return say(out, &said).await;
    }
    for service in others {
        copy_files(root, service, out).await;
    }
}

/// Sends the first file that may be the service's log.
async fn copy_files(root: &Path, service: &str, out: &mpsc::Sender<Bytes>) {
    let log = format!("{service}.log");
    let places = [
        vec![service.to_owned()],
        vec![log.clone()],
        vec![service.to_owned(), log],
    ];
    for place in places {
        let (root, sender) = (root.to_owned(), out.clone());
        let copied = tokio::task::spawn_blocking(move || match files::find(&root, &place)? {
            FoundFile::Folder(_) => Err(io::ErrorKind::NotFound.into()),
            FoundFile::File(file, length) => {
                files::copy(file, length, &sender);
                Ok(())
            }
        });
        match copied.await.unwrap_or_else(|e| Err(io::Error::other(e))) {
            Ok(()) => return,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return say(
                    out,
                    &format!("the log of {service} cannot be read: {error}"),
                )
                .await;
            }
        }
    }
    say(out, &format!("log not found for {service}")).await;
}

/// A line of the answer that is no log.
async fn say(out: &mpsc::Sender<Bytes>, line: &str) {
    let _ = out.send(format!("\n{line}\n").into()).await;
}

impl Journal {
    fn command(&self) -> Command {
        let (program, before) = match self.0.split_first() {
            Some((program, before)) => (program.as_str(), before),
            None => ("journalctl", [].as_slice()),
        };
        let mut command = Command::new(program);
        // who no longer listens has it end
        command.args(before).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// The units that it knows, a line each; none where there is no journal.
    async fn units(&self) -> String {
        let mut command = self.command();
        let ran = command.args(["--field", "_SYSTEMD_UNIT"]).output().await;
        match ran {
            Ok(ran) if ran.status.success() => String::from_utf8_lossy(&ran.stdout).into_owned(),
            _ => String::new(),
        }
    }

    /// Sends what it says and complains of, as it comes.
    async fn read(&self, words: &[String], out: &mpsc::Sender<Bytes>) -> io::Result<()> {
        let (read, write) = io::pipe()?;
        let mut child = {
            // holds ends of the pipe, which would keep it open
            let mut command = self.command();
            command.args(words);
            command.stdout(write.try_clone()?).stderr(write);
            command.spawn()?
        };
        let mut read = pipe::Receiver::from_owned_fd(read.into())?;
        loop {
            let mut chunk = BytesMut::with_capacity(CHUNK);
            if read.read_buf(&mut chunk).await? == 0 {
                break;
            }
            if out.send(chunk.freeze()).await.is_err() {
                return Ok(());
            }
        }
        child.wait().await.map(drop)
    }
}

#[cfg(test)]
#[path = "log_query_tests.rs"]
mod tests;
