//! The state of a cluster and of this machine, as `orlop status` and `orlop support-bundle`
//! tell it.
//!
//! ```text
//! API server ──► cluster::Facts ─┐
//!                                ├─ judge (pure) ──► [Part]s with [Problem]s
//! this machine ─► machine::Facts ┘
//! ```
//!
//! What cannot be asked is no reason to keep quiet about the rest: each question has a time
//! limit of its own, and its failure is a state like others.

pub mod cluster;
pub mod machine;

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

/// How long a question may take.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// Unknown: there is no such part here, or it may not be queried.
    Unknown,
    /// Something is wrong.
    Degraded,
    /// It does not work.
    Down,
}

/// One line of the screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// How it is.
    pub state: State,
    /// The summary, which is always shown.
    pub summary: String,
    /// The problems.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The problem.
    pub what: String,
    /// Since when, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// What to do.
    pub way_out: String,
}

/// The answer to a query.
#[derive(Clone, Debug, Default)]
pub enum Answer<T> {
    /// The answer.
    Known(T),
    /// The query was not sent, because there is no peer.
    #[default]
    NotAsked,
    /// The query is forbidden.
    Forbidden,
    /// The query failed or got no answer.
    Failed(String),
}

// === impl State ===

impl State {
    /// The word on the screen.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Degraded => "degraded",
            Self::Down => "DOWN",
        }
    }
}

// === impl Part ===

impl Part {
    /// Returns a part whose state follows from its problems: healthy if there are none.
    pub fn new(name: &'static str, summary: impl Into<String>, problems: Vec<Problem>) -> Self {
        let state = if problems.is_empty() {
            State::Ok
        } else {
            State::Degraded
        };
        Self {
            name,
            state,
            summary: summary.into(),
            problems,
        }
    }

    /// A part of which nothing is known.
    pub fn unknown(name: &'static str, why: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Unknown,
            summary: why.into(),
            problems: Vec::new(),
        }
    }

    /// A part that does not work.
    pub fn down(name: &'static str, summary: impl Into<String>, problem: Problem) -> Self {
        Self {
            name,
            state: State::Down,
            summary: summary.into(),
            problems: vec![problem],
        }
    }
}

// === impl Problem ===

impl Problem {
    /// Something wrong, and what to do.
    pub fn new(
        what: impl Into<String>,
        since: Option<Timestamp>,
        way_out: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            since,
            way_out: way_out.into(),
        }
    }
}

// === impl Answer ===

impl<T> Answer<T> {
    /// The answer, if there is one.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(answer) => Some(answer),
            _ => None,
        }
    }

    /// Returns why the state is unknown.
    pub fn why_unknown(&self) -> &str {
        match self {
            Self::Known(_) => "",
            Self::NotAsked => "not asked",
            Self::Forbidden => "this user may not read it",
            Self::Failed(error) => error,
        }
    }
}

/// A duration in its largest two units, as people read it: `3d4h`, `12m`.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m"),
        (0, hours, minutes) => format!("{hours}h{minutes}m"),
        (days, hours, _) => format!("{days}d{hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let now = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(1_000);
        let of = |seconds| age(now - jiff::SignedDuration::from_secs(seconds), now);
        assert_eq!(of(5), "5s");
        assert_eq!(of(720), "12m");
        assert_eq!(of(7_260), "2h1m");
        assert_eq!(of(273_600), "3d4h");
        assert_eq!(of(-5), "0s", "clocks differ");
    }
}
