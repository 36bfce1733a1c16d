//! A server in a process of its own, and clients that ask it over TLS and HTTP/2.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use control_pki::{CertificateKeyPair, Cluster, client_config};
use control_types::value::Value;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// What a client of lists takes before it reads.
pub const WINDOWS: (u32, u32) = (4 << 20, 64 << 20);

pub fn say(what: &str, figure: impl AsRef<str>) {
    println!("{what:<44} {}", figure.as_ref());
}

/// Median, 99th percentile and worst.
pub fn times(all: &mut [Duration]) -> String {
    all.sort_unstable();
    let at = |part: usize| all[(all.len() * part / 100).min(all.len() - 1)].as_secs_f64() * 1e3;
    format!(
        "p50 {:.2} ms  p99 {:.2} ms  max {:.2} ms",
        at(50),
        at(99),
        at(100)
    )
}

/// A server process; ends when dropped.
pub struct Server {
    child: Child,
    /// Who asks: the administrator, at the server's address.
    pub admin: Peer,
    /// From the start of the process to the first answer of `/readyz`.
    pub took: Duration,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; the files go with the directory.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a server that keeps its files in `dir`, and waits until it says that
    /// it is ready. `command` is told the port and makes the program's call.
    pub async fn start(dir: &Path, command: impl FnOnce(u16) -> Result<Command>) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port::free_port()?));
        let began = Instant::now();
        let mut child = command(address.port())?.stdout(Stdio::null()).spawn()?;
        let pki = loop {
            if began.elapsed() > Duration::from_secs(60) || child.try_wait()?.is_some() {
                let _ = child.kill();
                return Err("the server did not start".into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            // It makes its authorities before its own certificate; afterwards this only
            // reads them. `orlop` listens before that.
            if dir.join("pki/apiserver.crt").exists()
                && tokio::net::TcpStream::connect(address).await.is_ok()
            {
                break Cluster::load_or_create(dir.join("pki"))?;
            }
        };
        let admin = Peer::new(address, &pki, Some(&pki.administrator()?))?;
        let mut server = Self {
            child,
            admin,
            took: Duration::ZERO,
        };
        let mut connection = server.connect().await?;
        loop {
            let answer = connection.ask(Method::GET, "/readyz", None).await?;
            if answer.status() == 200 {
                break;
            }
            if began.elapsed() > Duration::from_secs(60) {
                return Err(format!("/readyz answers {}", answer.status()).into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.took = began.elapsed();
        Ok(server)
    }

    /// A connection of the administrator.
    pub async fn connect(&self) -> Result<Connection> {
        self.admin.connect(WINDOWS).await
    }

    /// Megabytes in memory.
    pub fn resident(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok())
            .unwrap_or_default()
            * 1024.0
            / 1e6
    }

    /// Processor time used so far. Counted in hundredths of a second.
    pub fn processor(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.unwrap_or_default();
        // Behind the name in brackets: state is the third field.
        let fields: Vec<_> = stat
            .rsplit(") ")
            .next()
            .unwrap_or_default()
            .split(' ')
            .collect();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok());
        Duration::from_millis((ticks(11).unwrap_or_default() + ticks(12).unwrap_or_default()) * 10)
    }
}

/// A server, and who asks it.
#[derive(Clone)]
pub struct Peer {
    pub address: SocketAddr,
    tls: TlsConnector,
}

impl Peer {
    pub fn new(
        address: SocketAddr,
        pki: &Cluster,
        who: Option<&CertificateKeyPair>,
    ) -> Result<Self> {
        let mut config = client_config(pki.ca.certificate_pem(), who)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            address,
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// A connection whose client takes so many bytes of a stream, and of all, that
    /// were not read yet.
    pub async fn connect(&self, (stream_window, all): (u32, u32)) -> Result<Connection> {
        let stream = tokio::net::TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("127.0.0.1")?;
        let stream = self.tls.connect(name, stream).await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(stream_window)
            .initial_connection_window_size(all)
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(connection);
        Ok(Connection(sender))
    }
}

#[derive(Clone)]
pub struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    pub async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Incoming>> {
        let body = body.map(Value::to_vec).unwrap_or_default();
        self.send(method, path, &[], body.into()).await
    }

    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://127.0.0.1{path}"))
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Ok(self.0.send_request(request.body(Full::new(body))?).await?)
    }

    /// Makes an object; what is stored is given back.
    pub async fn create(&mut self, path: &str, object: &Value) -> Result<Bytes> {
        let answer = self.ask(Method::POST, path, Some(object)).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        if status != 201 {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into());
        }
        Ok(body)
    }
}
