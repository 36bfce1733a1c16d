//! Measures followed logs, commands with standard input and forwarded ports, all at once and
//! through the API server. The content of each stream is checked after it opens, and again when
//! all are open.

use std::{
    fs::OpenOptions,
    io::Write as _,
    time::{Duration, Instant},
};

use base64::Engine as _;
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::json;
use tests::Failure;
use tokio::{io::AsyncWriteExt as _, net::TcpStream, time::timeout};
use tokio_rustls::client::TlsStream;

use super::{
    cost::{Held, load, spread},
    http::{self, Place},
    subject::Subject,
    watching::names,
};

/// How many pods the streams are of.
const PODS: usize = 8;
/// How many are opened at a time.
const AT_A_TIME: usize = 16;
const PATIENCE: Duration = Duration::from_secs(300);
/// How many threads more than before many streams are no pile.
const THREADS: usize = 64;

/// Opens, asks, closes, and looks at what they took and left.
pub async fn run(subject: &Subject, count: usize, image: &str) -> Result<(), Failure> {
    let watching = subject.watching();
    let names = names("stream", PODS);
    let serve = json!({"image": image, "args": ["serve"]});
    subject.make(&names, &serve).await?;
    let seen = watching.ready(&names).await?;
    let place = Place::api(subject).await?;
    let before = programs(subject)?;

    let started = Instant::now();
    let opened = futures::stream::iter(0..count).map(|number| {
        let (place, name) = (&place, names.get(number % PODS));
        async move {
            let name = name.map(String::as_str).unwrap_or_default();
            let open = One::open(place, Kind::of(number / PODS), name);
            timeout(PATIENCE, open).await?
        }
    });
    let mut all: Vec<One> = opened.buffer_unordered(AT_A_TIME).try_collect().await?;
    let took = started.elapsed();

    let asked = Instant::now();
    for (name, pod) in names.iter().zip(&seen) {
        let mut log = OpenOptions::new()
            .append(true)
            .open(subject.log(name, &pod.uid)?)?;
        writeln!(log, "2026-01-02T03:04:05.000000006Z stdout F {AGAIN}")?;
    }
    let answers = all.iter_mut().map(|one| async move {
        timeout(PATIENCE, one.again()).await??;
        Ok::<_, Failure>(asked.elapsed())
    });
    let times = futures::future::try_join_all(answers).await?;
    let open = programs(subject)?;
    drop(all);
    println!(
        "{count} streams (logs, commands, ports), {AT_A_TIME} at a time: open after {:.1} s; \
         asked at once, answers after {}; load {}",
        took.as_secs_f64(),
        spread(times),
        load()
    );

    let closed = settled(subject, &before).await?;
    for (((name, before), (_, open)), (_, closed)) in before.iter().zip(&open).zip(&closed) {
        println!("    {name}: {before}; with all open {open}; after them {closed}");
        if open.threads > before.threads + THREADS {
            return Err(format!("{name} has threads for streams").into());
        }
    }
    subject.clear().await
}

/// What the programs on the way hold.
fn programs(subject: &Subject) -> Result<Vec<(&'static str, Held)>, Failure> {
    let mut all = vec![("agent", Held::by(subject.agent()?)?)];
    if let Some(server) = subject.server() {
        all.push(("API server", Held::by(server)?));
    }
    Ok(all)
}

/// The same, once the ends of all streams have come through.
async fn settled(
    subject: &Subject,
    before: &[(&'static str, Held)],
) -> Result<Vec<(&'static str, Held)>, Failure> {
    let started = Instant::now();
    loop {
        let now = programs(subject)?;
        // Connections that are kept for later are few.
        let left = now
            .iter()
            .zip(before)
            .find(|((_, now), (_, before))| now.files > before.files + PODS);
        match left {
            None => return Ok(now),
            Some(((name, held), _)) if started.elapsed() > PATIENCE => {
                return Err(format!("{name} still has {held} after the streams' end").into());
            }
            Some(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

// === one stream ===

const ONCE: &str = "said once";
const AGAIN: &str = "said again";

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Log,
    Command,
    Port,
}

struct One {
    kind: Kind,
    stream: TlsStream<TcpStream>,
    /// What came and is not understood yet.
    raw: Vec<u8>,
    /// What was said by the other end.
    heard: Vec<u8>,
}

impl Kind {
    fn of(number: usize) -> Self {
        match number % 3 {
            0 => Self::Log,
            1 => Self::Command,
            _ => Self::Port,
        }
    }

    /// The channel that answers come on.
    fn channel(self) -> u8 {
        u8::from(self == Self::Command)
    }
}

impl One {
    /// Opens a stream, and waits for the first that it has to bring.
    async fn open(place: &Place, kind: Kind, pod: &str) -> Result<Self, Failure> {
        let (path, protocol) = match kind {
            Kind::Log => ("log?follow=true", ""),
            Kind::Command => (
                "exec?command=/program&command=repeat&stdin=true&stdout=true",
                "v5.channel.k8s.io",
            ),
            Kind::Port => ("portforward?ports=7777", "v4.channel.k8s.io"),
        };
        let path = format!("/api/v1/namespaces/default/pods/{pod}/{path}");
        let mut stream = place.connect().await?;
        let raw = if kind == Kind::Log {
            http::ask(
                &mut stream,
                &format!("GET {path} HTTP/1.0\r\nhost: api\r\n"),
                200,
            )
            .await?
        } else {
            let key = base64::engine::general_purpose::STANDARD.encode([7; 16]);
            let head = format!(
                "GET {path} HTTP/1.1\r\nhost: api\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n\
                 sec-websocket-protocol: {protocol}\r\n"
            );
            http::ask(&mut stream, &head, 101).await?
        };
        let mut one = Self {
            kind,
            stream,
            raw,
            heard: Vec::new(),
        };
        if kind == Kind::Log {
            one.hear("serves HTTP").await?;
        } else {
            one.say(ONCE).await?;
            one.hear(ONCE).await?;
        }
        Ok(one)
    }

    /// The same once more; a log brings what stands in it meanwhile.
    async fn again(&mut self) -> Result<(), Failure> {
        if self.kind != Kind::Log {
            self.say(AGAIN).await?;
        }
        self.hear(AGAIN).await
    }

    /// A line in a frame of RFC 6455, section 5.2; its mask changes nothing.
    async fn say(&mut self, text: &str) -> Result<(), Failure> {
        let length = u8::try_from(text.len() + 2)?;
        let mut frame = vec![0x82, 0x80 | length, 0, 0, 0, 0, 0];
        frame.extend_from_slice(text.as_bytes());
        frame.push(b'\n');
        self.stream.write_all(&frame).await?;
        Ok(self.stream.flush().await?)
    }

    async fn hear(&mut self, text: &str) -> Result<(), Failure> {
        let mut buffer = [0; 4096];
        loop {
            self.understand()?;
            if String::from_utf8_lossy(&self.heard).contains(text) {
                self.heard.clear();
                return Ok(());
            }
            match http::more(&mut self.stream, &mut buffer).await? {
                0 => return Err(format!("a stream ended before `{text}` came").into()),
                count => self
                    .raw
                    .extend_from_slice(buffer.get(..count).unwrap_or_default()),
            }
        }
    }

    /// Takes the frames that are there as a whole.
    fn understand(&mut self) -> Result<(), Failure> {
        if self.kind == Kind::Log {
            self.heard.append(&mut self.raw);
            return Ok(());
        }
        while let [first, second, rest @ ..] = self.raw.as_slice() {
            let (length, rest) = match (second & 0x7f, rest) {
                (126, [high, low, rest @ ..]) => {
                    (usize::from(u16::from_be_bytes([*high, *low])), rest)
                }
                (126, _) => return Ok(()),
                (127, _) => return Err("a frame of more than was said".into()),
                (length, rest) => (usize::from(length), rest),
            };
            let Some(payload) = rest.get(..length) else {
                return Ok(());
            };
            if first & 0x0f == 8 {
                return Err(format!("closed: {}", String::from_utf8_lossy(payload)).into());
            }
            if let Some((channel, said)) = payload.split_first()
                && *channel == self.kind.channel()
            {
                self.heard.extend_from_slice(said);
            }
            let used = self.raw.len() - rest.len() + length;
            self.raw.drain(..used);
        }
        Ok(())
    }
}
