//! A container's log to one reader, from the node's own port.

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    net::IpAddr,
    os::fd::AsFd as _,
    path::PathBuf,
    slice,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Node;
use kube::{Api, client::ConfigExt as _};
use nix::sched::{CloneFlags, setns};
use rustls::pki_types::ServerName;
use serde_json::json;
use tests::Failure;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    cost::{Taken, load},
    subject::Subject,
    watching::names,
};

const ROUNDS: usize = 5;
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
    let log = PathBuf::from(format!(
        "/proc/{}/root/var/log/pods/default_{name}_{uid}/main/0.log",
        subject.agent()?
    ));
    for _ in 0..ROUNDS {
        // The agent may rotate it away while it is read; who reads keeps it.
        write(&log)?;
        let before = Taken::now(subject);
        let started = Instant::now();
        let bytes = read(subject, &format!("/containerLogs/default/{name}/main")).await?;
        let took = started.elapsed();
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
fn write(log: &PathBuf) -> Result<(), Failure> {
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
    let nodes: Api<Node> = Api::all(subject.client.clone());
    let status = nodes.get(&subject.node).await?.status.unwrap_or_default();
    let mut addresses = status.addresses.into_iter().flatten();
    let address = addresses.find(|address| address.type_ == "InternalIP");
    let address: IpAddr = address.ok_or("the node has no address")?.address.parse()?;
    let port = status
        .daemon_endpoints
        .and_then(|endpoints| endpoints.kubelet_endpoint)
        .map_or(10250, |endpoint| endpoint.port);
    let config = Arc::new(subject.config.rustls_client_config()?);
    let namespace = File::open(format!("/proc/{}/ns/net", subject.agent()?))?;
    // A socket belongs to the network of the thread that made it.
    let stream = std::thread::spawn(move || -> std::io::Result<std::net::TcpStream> {
        setns(namespace.as_fd(), CloneFlags::CLONE_NEWNET)?;
        std::net::TcpStream::connect((address, u16::try_from(port).unwrap_or(10250)))
    });
    let stream = stream.join().map_err(|_| "no connection")??;
    stream.set_nonblocking(true)?;
    let stream = tokio::net::TcpStream::from_std(stream)?;
    let name = ServerName::IpAddress(address.into());
    let mut stream = tokio_rustls::TlsConnector::from(config)
        .connect(name, stream)
        .await?;
    stream
        .write_all(format!("GET {path} HTTP/1.0\r\nhost: node\r\n\r\n").as_bytes())
        .await?;
    let mut buffer = vec![0; 256 << 10];
    let (mut head, mut bytes) = (Vec::new(), 0);
    loop {
        let count = match stream.read(&mut buffer).await {
            Ok(count) => count,
            // some servers end the connection without a word
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(error.into()),
        };
        let Some(new) = buffer.get(..count).filter(|new| !new.is_empty()) else {
            break;
        };
        if head.ends_with(b"\r\n\r\n") {
            bytes += new.len();
            continue;
        }
        for (at, byte) in new.iter().enumerate() {
            head.push(*byte);
            if head.ends_with(b"\r\n\r\n") {
                bytes += new.len() - at - 1;
                break;
            }
        }
    }
    let status = String::from_utf8_lossy(&head);
    let status = status.lines().next().unwrap_or_default();
    if !status.contains(" 200 ") {
        return Err(format!("{path}: {status}").into());
    }
    Ok(bytes)
}
