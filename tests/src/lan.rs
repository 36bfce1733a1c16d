//! The network that a cluster's test hosts stand in, seen by a machine there that
//! is no node.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    time::Duration,
};

use nix::sched::{CloneFlags, setns};

use crate::{Failure, ensure, netns};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A machine on the bridge, without any part of the cluster.
pub struct Lan {
    pid: i32,
}

impl Lan {
    /// Joins the network of the cluster in `dir` as `address`, such as
    /// `10.88.0.2/24`; it goes with the cluster.
    ///
    /// # Errors
    /// When there is no such cluster, or what `ip` says.
    pub fn join(dir: &Path, address: &str) -> Result<Self, Failure> {
        let record: serde_json::Value =
            serde_json::from_slice(&fs::read(dir.join("cluster.json"))?)?;
        let pid = record["lan"]
            .as_i64()
            .ok_or("the cluster has no network of its own")?;
        let lan = Self {
            pid: i32::try_from(pid)?,
        };
        lan.ip(&format!("addr replace {address} dev br0"))?;
        Ok(lan)
    }

    /// Pulls a node's cable out.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn cut(&self, number: u8) -> Result<(), Failure> {
        self.ip(&format!("link set node{number} down"))
    }

    /// Puts it in again.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn mend(&self, number: u8) -> Result<(), Failure> {
        self.ip(&format!("link set node{number} up"))
    }

    /// Asks an HTTP server, on a new connection; gives the whole answer.
    ///
    /// # Errors
    /// Those of the connection; nothing after a second is one.
    pub fn get(&self, target: SocketAddr) -> Result<String, Failure> {
        let space = File::open(netns::of(self.pid))?;
        let asked = std::thread::spawn(move || -> std::io::Result<String> {
            setns(space, CloneFlags::CLONE_NEWNET)?;
            let mut stream = TcpStream::connect_timeout(&target, TIMEOUT)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            write!(
                stream,
                "GET / HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n"
            )?;
            stream.shutdown(std::net::Shutdown::Write)?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        let answer = asked.join().map_err(|_| "the thread that asked ended")??;
        ensure(
            answer.starts_with("HTTP/1.1 200 "),
            format!("answer {answer:?}"),
        )?;
        Ok(answer)
    }

    /// The bridge's network namespace.
    pub fn network(&self) -> PathBuf {
        netns::of(self.pid)
    }

    fn ip(&self, words: &str) -> Result<(), Failure> {
        netns::inside(&netns::of(self.pid), &format!("ip {words}")).map(drop)
    }
}
