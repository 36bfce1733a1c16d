//! The protocol between the command and the probes.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};

/// An operation of a probe. Targets are `HOST:PORT`, with IPv6 addresses in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "camelCase")]
pub enum Operation {
    /// Asks a server for its name, on `count` connections in turn.
    Ask {
        /// The server or Service.
        target: String,
        /// Number of connections.
        count: u32,
    },
    /// Opens a TCP connection and closes it.
    Open {
        /// The target.
        target: String,
    },
    /// Sends a datagram to an echo server and waits for its echo.
    Datagram {
        /// The echo server.
        target: String,
        /// Size of the payload.
        size: DatagramSize,
    },
    /// Sends bytes to an echo server over TCP and compares the echo.
    Stream {
        /// The echo server.
        target: String,
        /// Number of bytes, each way.
        bytes: usize,
    },
    /// Resolves a name as programs do (`getaddrinfo(3)`).
    Resolve {
        /// The name.
        name: String,
    },
    /// Asks the pod's name server directly.
    Query {
        /// The name, in full.
        name: String,
        /// The type of record.
        record: Record,
        /// TCP instead of UDP.
        tcp: bool,
    },
}

/// Size of a datagram's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DatagramSize {
    /// So many bytes; the kernel may fragment.
    Bytes(usize),
    /// As many as fit into one packet of the client's path MTU; must not be fragmented.
    WholePacket,
}

/// Type of a DNS record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Record {
    /// IPv4 address.
    A,
    /// IPv6 address.
    Aaaa,
    /// Service location.
    Srv,
}

/// The expected outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "expect", rename_all = "camelCase")]
pub enum Expectation {
    /// It succeeds.
    Success,
    /// Servers answer.
    Servers(ExpectedServers),
    /// The name resolves to exactly these addresses.
    Addresses {
        /// The addresses, in any order.
        addresses: Vec<IpAddr>,
    },
    /// No answer: a rejection or a timeout.
    NoAnswer,
    /// The name does not exist.
    NoSuchName,
}

/// The servers that must answer, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedServers {
    /// The only ones that may answer; any if empty.
    pub among: Vec<String>,
    /// Whether each of them must answer at least once.
    pub each: bool,
    /// Whether one of them must answer all requests.
    pub same: bool,
    /// Servers see the client's own address.
    pub source_kept: bool,
}

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum Outcome {
    /// Servers answered: their names and numbers of answers.
    Answered {
        /// Answers by server.
        servers: BTreeMap<String, u32>,
        /// Addresses that servers saw and that are not the client's own.
        translated: Vec<IpAddr>,
    },
    /// The echo arrived, or a connection was opened.
    Done {
        /// Bytes of payload, each way.
        bytes: usize,
    },
    /// A name has these addresses.
    Resolved {
        /// Without duplicates, sorted.
        addresses: Vec<IpAddr>,
    },
    /// It failed.
    Failed {
        /// How.
        failure: Failure,
        /// In words, such as `3 of 20 connections: timed out`.
        detail: String,
    },
}

/// How an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Failure {
    /// A connection was reset or refused.
    Refused,
    /// No answer in time.
    TimedOut,
    /// No route, or an administrative rejection.
    Unreachable,
    /// The name does not exist.
    NoSuchName,
    /// No name server answered.
    NameServer,
    /// A packet was too large for the path.
    TooLarge,
    /// The answer was wrong.
    WrongAnswer,
    /// Anything else.
    Other,
}

/// One operation for a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The check's number.
    pub id: usize,
    /// The operation.
    #[serde(flatten)]
    pub operation: Operation,
    /// The expected outcome; the operation is repeated until it matches or time is up.
    pub expectation: Expectation,
}

/// The output of a probe, one line per task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The check's number.
    pub id: usize,
    /// The last outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How often it was tried.
    pub attempts: u32,
    /// Microseconds of one request in the last try: the median.
    pub micros: u64,
}

impl ExpectedServers {
    /// Any of these may answer.
    #[must_use]
    pub fn among<const N: usize>(names: [&str; N]) -> Self {
        Self {
            among: names.map(str::to_owned).to_vec(),
            ..Self::default()
        }
    }

    /// Each of these answers at least once.
    #[must_use]
    pub fn each<const N: usize>(names: [&str; N]) -> Self {
        Self {
            each: true,
            ..Self::among(names)
        }
    }

    /// As before, and one answers all requests.
    #[must_use]
    pub const fn by_one(mut self) -> Self {
        self.same = true;
        self
    }

    /// As before, and servers see the client's own address.
    #[must_use]
    pub const fn source_kept(mut self) -> Self {
        self.source_kept = true;
        self
    }
}

impl From<ExpectedServers> for Expectation {
    fn from(servers: ExpectedServers) -> Self {
        Self::Servers(servers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_reports_survive_their_text() {
        let task = Task {
            id: 3,
            operation: Operation::Datagram {
                target: "[fd00::1]:7".to_owned(),
                size: DatagramSize::WholePacket,
            },
            expectation: ExpectedServers::each(["a", "b"]).by_one().into(),
        };
        let text = serde_json::to_string(&task).unwrap();
        assert_eq!(serde_json::from_str::<Task>(&text).unwrap(), task, "{text}");
        let report = Report {
            id: 3,
            outcome: Outcome::Failed {
                failure: Failure::TimedOut,
                detail: "x".to_owned(),
            },
            attempts: 2,
            micros: 12,
        };
        let text = serde_json::to_string(&report).unwrap();
        let read: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(read, report, "{text}");
    }
}
