//! The program in the pods: serves, or performs tasks and prints a line per result.
//!
//! ```text
//! connectivity probe --name NAME [--serve] [--http PORT] [--echo PORT] [--settle SECONDS]
//! ```
//!
//! Tasks are a JSON list in the environment variable [`TASKS`]. With tasks it ends once
//! they are done; without, it serves until it is terminated. It needs only the standard
//! library, so that it can be a static program in an image of its own.

use std::{
    collections::BTreeMap,
    io::Write,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use crate::{
    objects::{ECHO, HTTP, TASKS},
    operation::{Operation, Outcome, Report, Task},
    verdict,
};

mod datagram;
mod dns;
mod failure;
mod serve;
mod stream;

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Tasks that are performed at the same time.
const WORKERS: usize = 6;
/// The interval between attempts of a task.
const PAUSE: Duration = Duration::from_millis(250);

/// The options of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    name: String,
    serve: bool,
    http: u16,
    echo: u16,
    settle: Duration,
}

/// Reason why a probe cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option without its value.
    #[error("{0} needs a value")]
    NoValue(String),
    /// An option with an invalid number.
    #[error("{option} {text}: {error}")]
    Number {
        /// The option.
        option: String,
        /// Its value.
        text: String,
        /// The problem.
        error: std::num::ParseIntError,
    },
    /// An unknown option.
    #[error("unknown option `{0}`")]
    Option(String),
    /// The tasks in the environment cannot be parsed.
    #[error("{TASKS}: {0}")]
    Tasks(serde_json::Error),
    /// A port cannot be served.
    #[error("ports {http} and {echo}: {error}")]
    Ports {
        /// The port of HTTP.
        http: u16,
        /// The port of echoes.
        echo: u16,
        /// The system's error.
        error: std::io::Error,
    },
    /// Termination signals cannot be handled.
    #[error("cannot {action} signals: {error}")]
    Signals {
        /// The operation.
        action: &'static str,
        /// The system's error.
        error: nix::Error,
    },
}

/// Runs the probe with the words after `connectivity probe`.
///
/// # Errors
/// [`Error`].
pub fn run(words: impl IntoIterator<Item = String>) -> Result<(), Error> {
    let options = Options::parse(words)?;
    let tasks: Option<Vec<Task>> = match std::env::var(TASKS) {
        Ok(text) => Some(serde_json::from_str(&text).map_err(Error::Tasks)?),
        Err(_) => None,
    };
    let until_end = match &tasks {
        None => Some(serve::EndSignals::block()?),
        Some(_) => None,
    };
    if options.serve {
        let (http, echo) = (options.http, options.echo);
        serve::start(&options.name, http, echo).map_err(|error| Error::Ports {
            http,
            echo,
            error,
        })?;
    }
    if let Some(tasks) = tasks {
        perform(&tasks, options.settle);
    }
    until_end.map_or(Ok(()), serve::EndSignals::wait)
}

/// Performs tasks, several at a time, and prints their results as they come.
fn perform(tasks: &[Task], settle: Duration) {
    let queue = Mutex::new(tasks.iter());
    let next = || queue.lock().ok().and_then(|mut queue| queue.next());
    thread::scope(|scope| {
        for _ in 0..WORKERS.min(tasks.len()) {
            scope.spawn(|| {
                while let Some(task) = next() {
                    let report = settle_task(task, settle);
                    let line = serde_json::to_string(&report).unwrap_or_default();
                    let mut out = std::io::stdout().lock();
                    // Nobody reads the log when it is closed.
                    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
                }
            });
        }
    });
}

/// Performs a task until its outcome is the expected one, or time is up.
fn settle_task(task: &Task, settle: Duration) -> Report {
    let started = Instant::now();
    let mut attempts = 0;
    loop {
        attempts += 1;
        let (outcome, mut times) = attempt(&task.operation);
        let is_expected = verdict::judge(&task.expectation, &outcome).is_ok();
        if is_expected || started.elapsed() >= settle {
            times.sort_unstable();
            let median = times.get(times.len() / 2).copied().unwrap_or_default();
            return Report {
                id: task.id,
                outcome,
                attempts,
                micros: u64::try_from(median.as_micros()).unwrap_or(u64::MAX),
            };
        }
        thread::sleep(PAUSE);
    }
}

/// Performs an operation once; also returns the time of each request.
fn attempt(operation: &Operation) -> (Outcome, Vec<Duration>) {
    if let Operation::Ask { target, count } = operation {
        return ask(target, *count);
    }
    let started = Instant::now();
    let done = match operation {
        Operation::Ask { .. } => Ok(Outcome::Done { bytes: 0 }),
        Operation::Open { target } => stream::open(target).map(|_| Outcome::Done { bytes: 0 }),
        Operation::Datagram { target, size } => {
            datagram::echo(target, *size).map(|bytes| Outcome::Done { bytes })
        }
        Operation::Stream { target, bytes } => {
            stream::echo(target, *bytes).map(|()| Outcome::Done { bytes: *bytes })
        }
        Operation::Resolve { name } => {
            dns::resolve(name).map(|addresses| Outcome::Resolved { addresses })
        }
        Operation::Query { name, record, tcp } => {
            dns::query(name, *record, *tcp).map(|()| Outcome::Done { bytes: 0 })
        }
    };
    let outcome = done.unwrap_or_else(failure::ProbeFailure::into_outcome);
    (outcome, vec![started.elapsed()])
}

/// Asks for the server's name on several connections; all must be answered.
fn ask(target: &str, count: u32) -> (Outcome, Vec<Duration>) {
    let mut servers = BTreeMap::new();
    let mut translated = Vec::new();
    let mut times = Vec::new();
    for number in 0..count {
        let started = Instant::now();
        match stream::query(target) {
            Ok(answer) => {
                times.push(started.elapsed());
                *servers.entry(answer.server).or_default() += 1;
                if answer.seen != answer.own && !translated.contains(&answer.seen) {
                    translated.push(answer.seen);
                }
            }
            Err(mut failed) => {
                if number > 0 {
                    failed.detail = format!(
                        "{} after {number} of {count} connections were answered",
                        failed.detail
                    );
                }
                return (failed.into_outcome(), vec![started.elapsed()]);
            }
        }
    }
    let outcome = Outcome::Answered {
        servers,
        translated,
    };
    (outcome, times)
}

// === impl Options ===

impl Options {
    fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, Error> {
        let mut options = Self {
            name: String::new(),
            serve: false,
            http: HTTP,
            echo: ECHO,
            settle: Duration::from_secs(15),
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| Error::NoValue(word.clone()));
            let number = |text: String| {
                let parsed = text.parse::<u16>();
                parsed.map_err(|error| Error::Number {
                    option: word.clone(),
                    text,
                    error,
                })
            };
            match word.as_str() {
                "--serve" => options.serve = true,
                "--name" => options.name = value()?,
                "--http" => options.http = number(value()?)?,
                "--echo" => options.echo = number(value()?)?,
                "--settle" => options.settle = Duration::from_secs(number(value()?)?.into()),
                other => return Err(Error::Option(other.to_owned())),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests;
