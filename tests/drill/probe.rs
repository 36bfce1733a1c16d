//! Requests through a Service every 100 ms, as a client of the cluster sees it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    process::{Child, Command, ExitCode, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use tests::{Cluster, Failure, netns};

use crate::{host, timeline::now};

/// How often a request starts, whether the one before has ended or not.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long one may take, connecting and answering each.
const TIMEOUT: Duration = Duration::from_secs(1);
/// A probe whose drill has gone ends by itself.
const LONGEST: Duration = Duration::from_secs(3600);

/// One request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// When it began, in seconds since 1970.
    pub began: f64,
    /// Why it failed.
    pub error: Option<String>,
}

/// `drill probe`: asks until standard input ends, one line an answer.
pub fn ask(target: &str) -> ExitCode {
    let Ok(target) = target.parse::<SocketAddr>() else {
        eprintln!("drill: `{target}` is no address with a port");
        return ExitCode::FAILURE;
    };
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let started = Instant::now();
    while started.elapsed() < LONGEST {
        thread::spawn(move || {
            let began = now();
            let result = request(target);
            let word = result.map_or_else(|error| error.to_string(), |()| "ok".to_owned());
            println!("{began:.3} {word}");
        });
        thread::sleep(INTERVAL);
    }
    ExitCode::SUCCESS
}

fn request(target: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&target, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: drill\r\nConnection: close\r\n\r\n"
    )?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 200 ") {
        Ok(())
    } else {
        Err(std::io::Error::other("no answer"))
    }
}

/// A probe that runs until it is dropped.
pub struct Probe {
    child: Child,
    answers: Arc<Mutex<Vec<Answer>>>,
}

impl Probe {
    /// Asks as a process of the node with the server.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn inside(cluster: &Cluster, target: SocketAddr) -> Result<Self, Failure> {
        let record = host::record(cluster)?;
        let mut command = Command::new(tests::programs().join("xtask"));
        command
            .args(["host", "exec"])
            .arg(format!("{}/{}", record.id, crate::SERVER))
            .arg(record.keeper(crate::SERVER)?.to_string())
            .arg(std::env::current_exe()?);
        Self::start(command, target)
    }

    /// Asks as a machine on the nodes' network that is no node.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn outside(cluster: &Cluster, target: SocketAddr) -> Result<Self, Failure> {
        let lan = tests::lan::Lan::join(&cluster.dir, "10.88.0.2/24")?;
        let this = std::env::current_exe()?;
        let command = netns::command(&lan.network(), &this.display().to_string());
        Self::start(command, target)
    }

    fn start(mut command: Command, target: SocketAddr) -> Result<Self, Failure> {
        let mut child = command
            .args(["probe", &target.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("the probe has no output")?;
        let answers = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&answers);
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Some((began, word)) = line.split_once(' ') else {
                    continue;
                };
                let answer = Answer {
                    began: began.parse().unwrap_or_default(),
                    error: (word != "ok").then(|| word.to_owned()),
                };
                if let Ok(mut all) = sink.lock() {
                    all.push(answer);
                }
            }
        });
        Ok(Self { child, answers })
    }

    /// The requests that began in this time, in seconds since 1970.
    pub fn between(&self, from: f64, to: f64) -> Vec<Answer> {
        let all = self.answers.lock().map(|all| all.clone());
        let mut found = all.unwrap_or_default();
        found.retain(|answer| (from..to).contains(&answer.began));
        found
    }

    /// How many requests began in this time, and how many of them failed.
    pub fn failures(&self, from: f64, to: f64) -> (usize, usize) {
        let all = self.between(from, to);
        let failed = all.iter().filter(|answer| answer.error.is_some()).count();
        (all.len(), failed)
    }

    /// When the last failed request in this time began.
    pub fn last_failure(&self, from: f64, to: f64) -> Option<f64> {
        let all = self.between(from, to);
        let failed = all.iter().filter(|answer| answer.error.is_some());
        failed.map(|answer| answer.began).max_by(f64::total_cmp)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // It ends with its standard input, also behind the programs that started it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
