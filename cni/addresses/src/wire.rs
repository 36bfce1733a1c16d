//! The protocol between plugin and agent: one line of JSON each way, over a socket of
//! root's. Only the agent allocates addresses; the plugin releases and lists them without
//! an agent.

use std::{
    io::{self, BufRead, BufReader, IoSlice, Write},
    net::IpAddr,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::net::UnixStream,
    },
    path::Path,
    time::{Duration, Instant},
};

use nix::sys::{
    socket::{
        self, AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, sendmsg,
        setsockopt, sockopt,
    },
    time::TimeVal,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Error, Holder};

/// How long either may take: the agent answers by itself before.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Timeout for the removal of an interface, before the plugin does it itself. The agent
/// takes a tenth of a second for a hundred at once; this is ten times what five hundred
/// wait for on a busy machine, and the cost for each of an agent that hangs.
pub const SHORT: Duration = Duration::from_secs(5);
/// Bytes of a line at most: names and addresses.
pub const LONGEST: usize = 4_096;

/// Try again later (CNI specification 1.1, section "Error").
pub const LATER: u32 = 11;
/// Not ready: no ADD can be served.
pub const NOT_READY: u32 = 50;
/// Not ready, since no address is left.
pub const EMPTY: u32 = 51;
/// No address is free. Codes from 100 on are the plugin's own.
pub const EXHAUSTED: u32 = 100;
/// The kernel did not do what netlink asked for.
pub const NETLINK: u32 = 102;
/// A requested address is unavailable.
pub const UNAVAILABLE: u32 = 105;

/// A pod, as the runtime says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A pod's bandwidth limits, from the runtime (the capability `bandwidth`): rates in bits
/// per second, bursts in bits; 0: no limit.
///
/// containerd writes the names with a capital, since Go reads either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Bandwidth {
    /// Towards the pod.
    #[serde(alias = "IngressRate")]
    pub ingress_rate: u64,
    /// At once.
    #[serde(alias = "IngressBurst")]
    pub ingress_burst: u64,
    /// From the pod.
    #[serde(alias = "EgressRate")]
    pub egress_rate: u64,
    /// At once.
    #[serde(alias = "EgressBurst")]
    pub egress_burst: u64,
}

impl Bandwidth {
    /// Returns whether anything is limited.
    #[must_use]
    pub const fn limits(&self) -> bool {
        self.ingress_rate != 0 || self.egress_rate != 0
    }
}

/// A request of the plugin.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "verb", rename_all = "camelCase")]
pub enum Question {
    /// Addresses for an interface: those that it has, else new ones.
    Take {
        /// For whom.
        holder: Holder,
        /// The pod.
        pod: Pod,
        /// Those that it shall be, if any, one of an IP version.
        #[serde(default)]
        wanted: Vec<IpAddr>,
    },
    /// All that ADD does: the network namespace comes with the question, as a file.
    Attach(Attach),
    /// Could a pod get addresses now?
    Status,
    /// Remove an interface, and release its addresses. The plugin does it itself if there
    /// is no answer.
    Release {
        /// The holder.
        holder: Holder,
    },
}

/// An interface that is to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Attach {
    /// For whom.
    pub holder: Holder,
    /// The pod.
    pub pod: Pod,
    /// The pod's UID; empty if the runtime does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Addresses that it shall have, if any, one of an IP version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wanted: Vec<IpAddr>,
    /// The hardware address of the pod's end, if it shall be a certain one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<[u8; 6]>,
    /// In bytes; 0 leaves the kernel's default.
    #[serde(default)]
    pub mtu: u32,
    /// How much it may send and get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
}

/// An interface that was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct AttachedInterface {
    /// The node's end.
    pub host: End,
    /// The pod's.
    pub pod: End,
}

/// An end of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct End {
    /// Its hardware address.
    pub mac: [u8; 6],
    /// In bytes.
    pub mtu: u32,
}

/// The agent's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Answer {
    /// The addresses asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    /// The interface that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<AttachedInterface>,
    /// Why the request was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusal>,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Refusal {
    /// The number for the runtime.
    pub code: u32,
    /// The reason, for people.
    pub reason: String,
}

impl Answer {
    /// A refusal.
    #[must_use]
    pub fn refuse(code: u32, reason: impl Into<String>) -> Self {
        Self {
            refused: Some(Refusal {
                code,
                reason: reason.into(),
            }),
            ..Self::default()
        }
    }
}

impl From<Result<Vec<IpAddr>, Error>> for Answer {
    fn from(result: Result<Vec<IpAddr>, Error>) -> Self {
        let error = match result {
            Ok(addresses) => {
                return Self {
                    addresses,
                    ..Self::default()
                };
            }
            Err(error) => error,
        };
        let mut reason = error.to_string();
        if let Some(cause) = std::error::Error::source(&error) {
            reason = format!("{reason}: {cause}");
        }
        Self::refuse(code(&error), reason)
    }
}

/// Returns the error code for the runtime.
#[must_use]
pub const fn code(error: &Error) -> u32 {
    match error {
        Error::Exhausted { .. } => EXHAUSTED,
        Error::Resting { .. } => LATER,
        Error::NoPool(_) | Error::Foreign { .. } | Error::Taken { .. } => UNAVAILABLE,
        Error::File { .. } => 5,
    }
}

/// Sends a request to the agent that listens at `socket`, with a total timeout: a
/// listener that never accepts lets only its queue connect.
///
/// # Errors
/// The system's error: nothing listens, or the answer is invalid or late.
pub fn request<Q: Serialize, A: DeserializeOwned>(
    socket: &Path,
    question: &Q,
    patience: Duration,
) -> io::Result<A> {
    ask_with(socket, question, None, patience)
}

/// The same with a file that is handed over: paths may mean something else to the agent.
///
/// # Errors
/// As [`request`].
pub fn ask_with<Q: Serialize, A: DeserializeOwned>(
    socket: &Path,
    question: &Q,
    file: Option<BorrowedFd<'_>>,
    patience: Duration,
) -> io::Result<A> {
    let until = Instant::now() + patience;
    let mut stream = connect(socket, patience)?;
    let mut line = serde_json::to_vec(question)?;
    line.push(b'\n');
    let sent = match file {
        Some(file) => {
            let files = [file.as_raw_fd()];
            let with = [ControlMessage::ScmRights(&files)];
            let what = [IoSlice::new(&line)];
            let to = stream.as_raw_fd();
            sendmsg::<UnixAddr>(to, &what, &with, MsgFlags::MSG_NOSIGNAL, None)?
        }
        None => 0,
    };
    stream.write_all(line.get(sent..).unwrap_or_default())?;
    // Zero would be for ever.
    let left = until.saturating_duration_since(Instant::now());
    stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

/// A connection, whose writes wait no longer either.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let fd = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    let patience = i64::try_from(patience.as_micros()).unwrap_or(i64::MAX);
    let time = TimeVal::new(patience / 1_000_000, patience % 1_000_000);
    setsockopt(&fd, sockopt::SendTimeout, &time)?;
    socket::connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(UnixStream::from(fd))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_are_understood_as_they_were_written() {
        let holder = Holder {
            container_id: "c".to_owned(),
            ifname: "eth0".to_owned(),
        };
        for question in [
            Question::Take {
                holder,
                pod: Pod::default(),
                wanted: vec![IpAddr::from([10, 0, 0, 1])],
            },
            Question::Attach(Attach {
                uid: "u".to_owned(),
                mac: Some([2, 0, 0, 0, 0, 9]),
                mtu: 1400,
                ..Attach::default()
            }),
            Question::Status,
            Question::Release {
                holder: Holder {
                    container_id: "c".to_owned(),
                    ifname: "eth0".to_owned(),
                },
            },
        ] {
            let text = serde_json::to_string(&question).expect("JSON");
            assert!(!text.contains('\n'));
            let read: Question = serde_json::from_str(&text).expect("a question");
            assert_eq!(read, question);
        }
        let said = r#"{"IngressRate":10000000,"IngressBurst":4294967295,"egressRate":5}"#;
        let bandwidth: Bandwidth = serde_json::from_str(said).expect("a bandwidth");
        assert_eq!(
            bandwidth,
            Bandwidth {
                ingress_rate: 10_000_000,
                ingress_burst: 4_294_967_295,
                egress_rate: 5,
                egress_burst: 0,
            }
        );
        assert!(bandwidth.limits() && !Bandwidth::default().limits());
        let pool = || "p".to_owned();
        let answer = Answer::from(Err(Error::Exhausted { pool: pool() }));
        assert_eq!(answer.refused.expect("refused").code, EXHAUSTED);
        let next = Duration::from_secs(3);
        let answer = Answer::from(Err(Error::Resting { pool: pool(), next }));
        assert_eq!(answer.refused.expect("refused").code, LATER);
    }

    #[test]
    fn who_asks_somebody_that_hangs_waits_no_longer_than_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let flags = SockFlag::SOCK_CLOEXEC;
        let fd = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None);
        let listener = fd.expect("a socket");
        let address = UnixAddr::new(&path).expect("an address");
        socket::bind(listener.as_raw_fd(), &address).expect("bound");
        socket::listen(&listener, socket::Backlog::new(1).expect("a queue")).expect("listens");
        let mut queued = Vec::new();
        // The first ones wait for the answer, and those after them to be let in.
        for number in 0..5 {
            let begun = Instant::now();
            let patience = Duration::from_millis(50);
            let asked: io::Result<Answer> = request(&path, &Question::Status, patience);
            let error = asked.expect_err("nobody answers");
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{number}: {error}");
            let took = begun.elapsed();
            assert!(took >= patience && took < patience * 20, "{took:?}");
            // Who went leaves the queue no shorter.
            queued.extend(connect(&path, patience));
        }
        assert!(queued.len() < 5, "the queue was never full");
    }
}
