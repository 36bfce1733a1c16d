//! Connections on which nothing is asked.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use control_apiserver::chain::Settings;
use control_pki::client_config;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::common::memory::MIB;
use super::frames::{END_HEADERS, END_STREAM, HEADERS, OK, frame, head, preface, verdict};
use super::{PATIENCE, Target, target};

/// As many as are opened where the machine lets a process have so many descriptors.
const MANY: usize = 10_000;
/// Descriptors that are left for all else.
const SPARE: usize = 1000;
/// What an idle connection may take of the server's memory.
const EACH: usize = 48 * 1024;
/// How long it may take to open all of them.
const OPENING: Duration = Duration::from_secs(300);

/// How the other process is told what to open: address, number, file of the authority.
const ORDER: &str = "ORLOP_IDLE_CONNECTIONS";

/// Ten thousand connections of a second process, which is this program, too: each end
/// takes a descriptor. What is measured is the server's memory alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_idle_connections_cost_little_and_leave_room() {
    let mut target = target(Settings {
        // None is to be closed before the last is open.
        header_timeout: 2 * OPENING,
        idle_timeout: 2 * OPENING,
        ping_interval: 2 * OPENING,
        ..Settings::default()
    })
    .await;
    let wanted = MANY.min(descriptors().saturating_sub(SPARE));
    assert!(
        wanted >= 1000,
        "`ulimit -Hn` lets a process have too few descriptors for {wanted} connections"
    );
    if wanted < MANY {
        println!("`ulimit -Hn` allows {wanted} connections instead of {MANY}");
    }
    target.is_well_before().await;
    let other = Other::start(&target, wanted);
    let (mut other, opened) = tokio::task::spawn_blocking(move || other.opened())
        .await
        .expect("it ran");
    assert_eq!(opened, wanted);
    let each = target.memory.grown() / wanted;
    println!("{wanted} idle connections: {} KiB each", each / 1024);
    target.is_well_within(wanted * EACH + 16 * MIB).await;
    other.end();
    target.is_well().await;
    target.end().await;
}

/// How many descriptors this process may have, having taken all that it may.
fn descriptors() -> usize {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("what is allowed");
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// The process that opens them.
struct Other(Child, Option<BufReader<ChildStdout>>);

impl Other {
    fn start(target: &Target, count: usize) -> Self {
        let authority = target.dir.path().join("authority.crt");
        std::fs::write(&authority, &target.authority).expect("written");
        let order = format!("{} {count} {}", target.address, authority.display());
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "idle::the_other_end", "--ignored", "--nocapture"])
            .env(ORDER, order)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.expect("it starts");
        let said = child.stdout.take().map(BufReader::new);
        Self(child, said)
    }

    /// Waits until it has opened all, or has ended; how many it has.
    fn opened(mut self) -> (Self, usize) {
        let said = self.1.as_mut().expect("its output");
        let opened = said.lines().find_map(|line| {
            let line = line.ok()?;
            let (_, count) = line.split_once("opened ")?;
            count.trim().parse().ok()
        });
        (self, opened.unwrap_or_default())
    }

    fn end(&mut self) {
        // It ends when there is nothing more to read.
        drop(self.0.stdin.take());
        self.0.wait().expect("it ends");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What [`Other`] runs; by itself it does nothing.
#[test]
#[ignore = "started by the test of idle connections"]
fn the_other_end() {
    let Ok(order) = std::env::var(ORDER) else {
        return;
    };
    let mut words = order.split(' ');
    let mut next = || words.next().expect("an order");
    let address: SocketAddr = next().parse().expect("an address");
    let count: usize = next().parse().expect("a number");
    let authority = std::fs::read_to_string(Path::new(next())).expect("the authority");
    descriptors();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let open = runtime.block_on(async {
        let opening = open(address, count, &authority);
        tokio::time::timeout(OPENING, opening)
            .await
            .expect("in time")
    });
    println!("opened {}", open.len());
    let mut rest = String::new();
    std::io::stdin().read_line(&mut rest).expect("an end");
    drop(open);
}

/// Opens connections, some at a time, from several addresses of this machine, as there
/// are not ports enough on one for long.
async fn open(address: SocketAddr, count: usize, authority: &str) -> Vec<TlsStream<TcpStream>> {
    const AT_ONCE: usize = 16;
    let tls = |protocol: &[u8]| {
        let mut tls = client_config(authority, None).expect("usable");
        tls.alpn_protocols = vec![protocol.to_vec()];
        TlsConnector::from(Arc::new(tls))
    };
    let (h1, h2) = (tls(b"http/1.1"), tls(b"h2"));
    let mut tasks = tokio::task::JoinSet::new();
    for of in 0..AT_ONCE {
        let (h1, h2) = (h1.clone(), h2.clone());
        tasks.spawn(async move {
            let mut open = Vec::new();
            for at in (of..count).step_by(AT_ONCE) {
                let socket = TcpSocket::new_v4().expect("a socket");
                let last = u8::try_from(2 + at % 8).expect("small");
                let source = SocketAddr::from(([127, 0, 0, last], 0));
                socket.bind(source).expect("a port");
                let stream = socket.connect(address).await.expect("connected");
                let name = ServerName::try_from("127.0.0.1").expect("a name");
                let connector = if at % 2 == 0 { &h2 } else { &h1 };
                let mut stream = connector.connect(name, stream).await.expect("a handshake");
                // A half of either says something, and then no more.
                match at % 4 {
                    0 => preface(&mut stream).await,
                    1 => stream
                        .write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\n")
                        .await
                        .expect("sent"),
                    _ => {}
                }
                open.push(stream);
            }
            open
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_on_which_nothing_is_asked_is_closed_and_no_other() {
    let mut target = target(Settings {
        idle_timeout: Duration::from_secs(2),
        // Clients by hand answer no pings.
        ping_interval: 10 * PATIENCE,
        ..Settings::default()
    })
    .await;
    target.is_well_before().await;
    let watch = frame(
        HEADERS,
        END_STREAM | END_HEADERS,
        1,
        &head("/api/v1/namespaces?watch=1"),
    );
    let mut watching = target.connect(b"h2").await;
    preface(&mut watching).await;
    watching.write_all(&watch).await.expect("sent");
    let mut old = target.connect(b"http/1.1").await;
    old.write_all(b"GET /api/v1/namespaces?watch=1 HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("sent");
    // Not a word; the beginning of one; a request that was answered.
    let mut silent = target.connect(b"h2").await;
    let mut begun = target.connect(b"http/1.1").await;
    begun.write_all(b"PR").await.expect("sent");
    let mut asked = target.connect(b"h2").await;
    preface(&mut asked).await;
    let ready = frame(HEADERS, END_STREAM | END_HEADERS, 1, &head("/readyz"));
    asked.write_all(&ready).await.expect("sent");
    for stream in [&mut silent, &mut begun] {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        let _ = ended.expect("it is closed");
    }
    assert_eq!(verdict(&mut asked).await, Ok(OK));
    assert_eq!(verdict(&mut asked).await, Err(0), "told to go");
    // Watches go on: what happens now is told.
    let name = "after-the-others-ended";
    let body = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
    let made = target
        .say(format!("POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes())
        .await;
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    for (what, stream) in [("HTTP/2", &mut watching), ("HTTP/1.1", &mut old)] {
        let hearing = async {
            let (mut all, mut chunk) = (Vec::new(), vec![0; 65_536]);
            while !String::from_utf8_lossy(&all).contains(name) {
                let read = stream.read(&mut chunk).await.expect("it is open");
                assert!(read > 0, "{what}: it was closed");
                all.extend_from_slice(&chunk[..read]);
            }
        };
        tokio::time::timeout(PATIENCE, hearing).await.expect(what);
    }
    target.is_well_within(16 * MIB).await;
    target.end().await;
}
