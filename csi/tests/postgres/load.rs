//! Clients that insert rows, each after the previous one is acknowledged.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const CLIENTS: usize = 3;

/// How long the clients may take to notice that they are to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many transactions of each client are acknowledged.
pub type Acknowledged = Arc<[AtomicU64; CLIENTS]>;

pub fn counts(acknowledged: &Acknowledged) -> [u64; CLIENTS] {
    std::array::from_fn(|client| acknowledged[client].load(Ordering::SeqCst))
}

/// Connections under load.
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts the clients; `psql` makes a connection.
    pub fn start(psql: impl Fn() -> Command, acknowledged: &Acknowledged) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |client: usize| {
            let child = psql()
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn();
            let (child, stop) = (child.expect("psql"), stop.clone());
            let acknowledged = acknowledged.clone();
            std::thread::spawn(move || insert(child, client, &acknowledged[client], &stop))
        };
        let threads = (0..CLIENTS).map(start).collect();
        Self { stop, threads }
    }

    /// Ends the clients, each after its transaction.
    pub fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        for thread in self.threads {
            while !thread.is_finished() {
                assert!(begun.elapsed() < PATIENCE, "a client waits for an answer");
                std::thread::sleep(Duration::from_millis(5));
            }
            thread.join().expect("no panic");
        }
    }
}

/// Inserts row after row until told to stop, or the server is gone.
fn insert(mut child: Child, client: usize, acknowledged: &AtomicU64, stop: &AtomicBool) {
    let output = child.stdout.take().expect("output");
    let mut lines = BufReader::new(output).lines();
    let mut input: ChildStdin = child.stdin.take().expect("input");
    while !stop.load(Ordering::SeqCst) {
        let next = acknowledged.load(Ordering::SeqCst) + 1;
        let account = client as u64 * 100 + next % 100;
        // One statement is one transaction. Its row is printed after the commit.
        let sent = writeln!(
            input,
            "WITH paid AS (UPDATE account SET n = n + 1 WHERE id = {account}) INSERT INTO log VALUES ({client}, {next}, repeat(md5('{next}'), 16)) RETURNING n;"
        );
        if sent.and_then(|()| input.flush()).is_err() {
            break;
        }
        match lines.next() {
            Some(Ok(line)) if line == next.to_string() => {
                acknowledged.store(next, Ordering::SeqCst);
            }
            _ => break,
        }
    }
    // Without input psql ends, and `timeout` with it.
    drop(input);
    let _ = child.wait();
}
