//! Measures a container's log with one reader at the node's own port.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::Path,
    slice,
    time::{Duration, Instant},
};

use serde_json::json;
use tests::Failure;

use super::{
    cost::{Taken, load},
    http::{self, Place},
    subject::Subject,
    watching::names,
};

const ROUNDS: usize = 5;
/// How often the agent may have rotated the log away before it was opened.
const MISSES: usize = 10;
/// What a container writes in a line, its end included, and how many lines.
const LINE: usize = 128;
const LINES: usize = 6_000_000;

/// Puts a long log in the place of a container's, and reads it.
pub async fn run(subject: &Subject) -> Result<(), Failure> {
    let watching = subject.watching();
    let names = names("talker", 1);
    let name = names.first().map(String::as_str).unwrap_or_default();
    subject.make(slice::from_ref(&names[0]), &json!({})).await?;
    let seen = watching.ready(&names).await?;
    let uid = seen.first().map(|pod| pod.uid.clone()).unwrap_or_default();
    let log = subject.log(name, &uid)?;
    let next = log.with_file_name("next");
    let (mut rounds, mut misses) = (0, 0);
    while rounds < ROUNDS {
        // The agent may rotate it away while it is read, since who reads keeps it; but
        // not while it is written.
        write(&next)?;
        fs::rename(&next, &log)?;
        let before = Taken::now(subject);
        let started = Instant::now();
        let bytes = read(subject, &format!("/containerLogs/default/{name}/main")).await?;
        let took = started.elapsed();
        if bytes == 0 && misses < MISSES {
            misses += 1;
            continue;
        }
        rounds += 1;
        let cost = Taken::now(subject).since(before, None);
        let rate = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
        println!(
            "log of {} MB to one reader: {:.0} MB/s; {cost}; load {}",
            bytes / 1_000_000,
            rate(took),
            load()
        );
        if bytes < LINE * LINES {
            return Err(format!("{bytes} bytes came, not {}", LINE * LINES).into());
        }
    }
    subject.clear().await
}

/// Lines as the container runtime writes them.
fn write(log: &Path) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(log)?);
    let text = "0123456789abcdef".repeat(LINE / 16);
    for line in 0..LINES {
        let (seconds, nanos) = (line / 1_000_000 % 60, line % 1_000_000);
        writeln!(
            out,
            "2026-01-02T03:04:{seconds:02}.{nanos:09}Z stdout F {}",
            &text[1..]
        )?;
    }
    out.flush()?;
    Ok(())
}

/// How many bytes of an answer come. They are only counted, so that little but the
/// server's work is measured: HTTP/1.0 has no frames.
async fn read(subject: &Subject, path: &str) -> Result<usize, Failure> {
    let place = Place::node(subject).await?;
    let mut stream = place.connect().await?;
    let head = format!("GET {path} HTTP/1.0\r\nhost: node\r\n");
    let mut bytes = http::ask(&mut stream, &head, 200).await?.len();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match http::more(&mut stream, &mut buffer).await? {
            0 => return Ok(bytes),
            count => bytes += count,
        }
    }
}
