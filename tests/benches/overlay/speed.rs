//! The throughput from one network namespace to another.

use std::fmt;
use std::fs::File;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use tests::{Failure, ensure, eventually, netns};

/// How long each measurement takes: many short ones meet a moment in which the machine
/// does nothing else sooner than few long ones.
const SPAN: Duration = Duration::from_secs(1);
/// Where questions are answered.
const PORT: u16 = 7_777;
/// An answer that has not come by then does not come.
const PATIENCE: Duration = Duration::from_millis(200);

/// What is sent.
#[derive(Clone, Copy)]
pub enum Load {
    /// So many TCP connections, each as fast as it goes; in Gbit/s.
    Streams(u8),
    /// One UDP datagram after the other, each answered; in thousands of answers a second.
    Questions,
}

/// Servers in a namespace, which end with this.
pub struct Served {
    iperf: Child,
    stop: Arc<AtomicBool>,
    answers: Option<JoinHandle<()>>,
}

/// Is the program that sends there?
pub fn is_installed() -> bool {
    let mut version = Command::new("iperf3");
    version.arg("--version").stdout(Stdio::null());
    version.status().is_ok_and(|it| it.success())
}

/// Does something as a thread in a network namespace.
fn as_thread<T: Send + 'static>(
    network: &Path,
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<JoinHandle<std::io::Result<T>>, Failure> {
    let space = File::open(network)?;
    Ok(std::thread::spawn(move || {
        setns(space, CloneFlags::CLONE_NEWNET)?;
        work()
    }))
}

fn joined<T>(thread: JoinHandle<std::io::Result<T>>) -> Result<T, Failure> {
    Ok(thread.join().map_err(|_| "a thread ended")??)
}

// === impl Served ===

impl Served {
    /// Starts them.
    pub fn new(network: &Path) -> Result<Self, Failure> {
        let socket = joined(as_thread(network, || {
            let socket = UdpSocket::bind(("::", PORT))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            Ok(socket)
        })?)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let answers = std::thread::spawn(move || {
            let mut question = [0; 64];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((length, client)) = socket.recv_from(&mut question) {
                    let _ = socket.send_to(&question[..length], client);
                }
            }
        });
        let iperf = netns::command(network, "iperf3")
            .arg("-s")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self {
            iperf,
            stop,
            answers: Some(answers),
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.iperf.kill();
        let _ = self.iperf.wait();
        if let Some(answers) = self.answers.take() {
            let _ = answers.join();
        }
    }
}

// === impl Load ===

impl Load {
    /// One figure: what gets from a namespace to an address where servers are.
    pub fn measure(self, _served: &Served, from: &Path, to: IpAddr) -> Result<f64, Failure> {
        match self {
            Self::Streams(streams) => eventually("iperf3", 20, || iperf(from, to, streams)),
            Self::Questions => questions(from, to),
        }
    }

    /// What is counted.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Streams(_) => "Gbit/s",
            Self::Questions => "k/s",
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Streams(1) => f.write_str("1 TCP stream"),
            Self::Streams(streams) => write!(f, "{streams} TCP streams"),
            Self::Questions => f.write_str("UDP questions and answers"),
        }
    }
}

/// What the receiver counted, in Gbit/s.
fn iperf(from: &Path, to: IpAddr, streams: u8) -> Result<f64, Failure> {
    let seconds = SPAN.as_secs();
    let line = format!("iperf3 -c {to} -P {streams} -t {seconds} -J");
    let said: serde_json::Value = serde_json::from_str(&netns::inside(from, &line)?)?;
    let rate = said["end"]["sum_received"]["bits_per_second"].as_f64();
    Ok(rate.ok_or_else(|| format!("iperf3 says {said}"))? / 1e9)
}

/// How many thousand questions are answered a second.
fn questions(from: &Path, to: IpAddr) -> Result<f64, Failure> {
    let asked = as_thread(from, move || {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.connect(SocketAddr::new(to, PORT))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let (mut answered, mut answer, begun) = (0_u32, [0; 64], Instant::now());
        while begun.elapsed() < SPAN {
            socket.send(b"?")?;
            match socket.recv(&mut answer) {
                Ok(_) => answered += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(f64::from(answered) / begun.elapsed().as_secs_f64())
    })?;
    let rate = joined(asked)?;
    ensure(rate > 0.0, format!("nobody answers at {to}"))?;
    Ok(rate / 1e3)
}
