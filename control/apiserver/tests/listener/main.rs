//! Attacks on the listener: each is refused with the right code, the server goes on
//! answering, and its memory stays under a stated bound. Client and server are one
//! process here unless a test says otherwise, so the bounds hold for both together.

#![allow(
    clippy::large_futures,
    reason = "a test may hold a server and its clients on its stack"
)]

#[path = "../common/mod.rs"]
mod common;

mod bodies;
mod ending;
mod floods;
mod frames;
mod idle;
mod lane;
mod slow;
mod smuggling;
mod watches;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use common::memory::Memory;
use control_apiserver::ApiServer;
use control_apiserver::chain::Settings;
use control_pki::{CertificateKeyPair, Cluster, ServingIdentity, client_config, server_config};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that listens, and how to reach it.
struct Target {
    memory: Memory,
    dir: tempfile::TempDir,
    address: SocketAddr,
    authority: String,
    admin: CertificateKeyPair,
    stop: CancellationToken,
    served: tokio::task::JoinHandle<()>,
}

/// A server and what it takes to serve it.
struct Unserved {
    dir: tempfile::TempDir,
    cluster: Cluster,
    tls: Arc<ArcSwap<rustls::ServerConfig>>,
    address: SocketAddr,
    server: Option<ApiServer>,
    listener: Option<TcpListener>,
}

async fn target(settings: Settings) -> Target {
    let memory = Memory::alone().await;
    let mut parts = unserved(settings).await;
    let stop = CancellationToken::new();
    let server = parts.server.take().expect("a server");
    let listener = parts.listener.take().expect("a listener");
    let served = tokio::spawn(server.serve([listener], Arc::clone(&parts.tls), stop.clone()));
    parts.target(memory, stop, served)
}

impl Unserved {
    fn target(
        self,
        memory: Memory,
        stop: CancellationToken,
        served: tokio::task::JoinHandle<()>,
    ) -> Target {
        Target {
            memory,
            dir: self.dir,
            address: self.address,
            authority: self.cluster.ca.certificate_pem().to_owned(),
            admin: self.cluster.administrator().expect("issued"),
            stop,
            served,
        }
    }
}

async fn unserved(settings: Settings) -> Unserved {
    let dir = tempfile::tempdir().expect("a directory");
    let first = common::server(dir.path()).await;
    let mut config = first.api().config.clone();
    drop(first);
    config.chain = settings;
    let cluster = Cluster::load_or_create(dir.path().join("pki")).expect("keys");
    let serving = cluster.serving(["127.0.0.1"]).expect("issued");
    let file = dir.path().join("serving.crt");
    let identity = ServingIdentity::new(&serving, &file).expect("usable");
    let tls = server_config(identity, &[]).expect("usable");
    let server = ApiServer::new(config).await.expect("a server");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    Unserved {
        dir,
        cluster,
        tls: Arc::new(ArcSwap::from_pointee(tls)),
        address,
        server: Some(server),
        listener: Some(listener),
    }
}

impl Target {
    async fn connect(&self, protocol: &[u8]) -> TlsStream<TcpStream> {
        self.connect_as(Some(&self.admin), protocol).await
    }

    async fn connect_as(
        &self,
        who: Option<&CertificateKeyPair>,
        protocol: &[u8],
    ) -> TlsStream<TcpStream> {
        let mut tls = client_config(&self.authority, who).expect("usable");
        tls.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.address).await.expect("connected");
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let connector = TlsConnector::from(Arc::new(tls));
        connector.connect(name, stream).await.expect("a handshake")
    }

    /// Sends bytes over HTTP/1.1 and reads what comes, until it ends or pauses.
    async fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect(b"http/1.1").await;
        stream.write_all(bytes).await.expect("sent");
        heard(&mut stream).await
    }

    /// Whether the server answers as if nothing were.
    async fn is_well(&self) {
        let mut stream = self.connect(b"http/1.1").await;
        let ask = b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(ask).await.expect("sent");
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        read.expect("in time").expect("an answer");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// The server is well, and its memory is looked at from here on.
    async fn is_well_before(&mut self) {
        self.is_well().await;
        self.memory.begin();
    }

    /// The server is well, and had at most so many bytes more since then.
    async fn is_well_within(&self, bound: usize) {
        self.is_well().await;
        self.memory.assert_grown_less(bound);
    }

    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.served)
            .await
            .expect("it ends")
            .expect("it ends well");
    }
}

async fn heard(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut all = Vec::new();
    let mut chunk = [0; 16_384];
    let mut patience = PATIENCE;
    while let Ok(Ok(read)) = tokio::time::timeout(patience, stream.read(&mut chunk)).await {
        patience = Duration::from_secs(3);
        if read == 0 {
            break;
        }
        all.extend_from_slice(&chunk[..read]);
    }
    String::from_utf8_lossy(&all).into_owned()
}
