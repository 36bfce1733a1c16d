//! A client of etcd's API with this crate's messages, for a real etcd and for the embedded store.

#![allow(dead_code, reason = "each test uses what it needs of the common parts")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use control_etcd_api::EtcdApi;
use control_etcd_api::messages as pb;
use control_store::embedded::{EmbeddedStore, Options};
use futures::stream::Stream;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Status, Streaming};

/// A program that ends with this value.
pub struct Program(Child);

impl Program {
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("the program starts"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The path of a program, or a line that says why the test is skipped.
pub fn find(variable: &str, name: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from).or_else(|| {
        std::env::split_paths(&std::env::var_os("PATH")?)
            .map(|folder| folder.join(name))
            .find(|path| path.is_file())
    });
    if found.is_none() {
        println!("skipped: no `{name}` on the PATH, and {variable} is not set");
    }
    found
}

pub fn free_port() -> u16 {
    free_port::free_port().expect("a port")
}

/// A real etcd of one member.
pub struct Etcd {
    folder: tempfile::TempDir,
    url: String,
    _program: Program,
}

impl Etcd {
    pub fn start(program: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("http://127.0.0.1:{}", free_port());
        let peer = format!("http://127.0.0.1:{}", free_port());
        let program = Program::start(
            Command::new(program)
                .arg("--data-dir")
                .arg(folder.path().join("data"))
                .args(["--listen-client-urls", &url])
                .args(["--advertise-client-urls", &url])
                .args(["--listen-peer-urls", &peer])
                .args(["--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &format!("default={peer}")])
                .args(["--heartbeat-interval", "10", "--election-timeout", "100"])
                .args(["--log-level", "error", "--unsafe-no-fsync"])
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        );
        Self {
            folder,
            url,
            _program: program,
        }
    }

    pub async fn connect(&self) -> Client {
        let endpoint = Endpoint::from_shared(self.url.clone()).expect("an endpoint");
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            if let Ok(channel) = endpoint.connect().await {
                let client = Client(channel);
                if client.range(pb::RangeRequest::key("x")).await.is_ok() {
                    return client;
                }
            }
            assert!(Instant::now() < until, "etcd does not answer");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The embedded store behind etcd's API.
pub struct Server {
    pub folder: tempfile::TempDir,
    pub store: Arc<EmbeddedStore>,
    pub socket: PathBuf,
    shutdown: CancellationToken,
}

impl Server {
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options {
            retain: None,
            cache_bytes: 1 << 20,
            ..Options::default()
        };
        let store =
            EmbeddedStore::open(folder.path().join("store.redb"), options).expect("a store");
        let store = Arc::new(store);
        let socket = folder.path().join("etcd.sock");
        let endpoint = format!("unix://{}", socket.display());
        let api = EtcdApi::open(&endpoint, store.clone()).await;
        let shutdown = CancellationToken::new();
        tokio::spawn(api.expect("a socket").serve(shutdown.clone()));
        Self {
            folder,
            store,
            socket,
            shutdown,
        }
    }

    pub async fn connect(&self) -> Client {
        let path = self.socket.clone();
        let connector = tower::service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://etcd.sock");
        let channel = endpoint.connect_with_connector(connector).await;
        Client(channel.expect("a connection"))
    }

    pub fn stop(&self) {
        self.shutdown.cancel();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Calls by this crate's messages.
#[derive(Clone)]
pub struct Client(Channel);

macro_rules! calls {
    ($($name:ident: $path:literal, $request:ident -> $response:ident;)*) => {
        $(
            pub async fn $name(&self, request: pb::$request) -> Result<pb::$response, Status> {
                self.unary($path, request).await
            }
        )*
    };
}

impl Client {
    calls! {
        range: "/etcdserverpb.KV/Range", RangeRequest -> RangeResponse;
        put: "/etcdserverpb.KV/Put", PutRequest -> PutResponse;
        delete_range: "/etcdserverpb.KV/DeleteRange", DeleteRangeRequest -> DeleteRangeResponse;
        txn: "/etcdserverpb.KV/Txn", TxnRequest -> TxnResponse;
        compact: "/etcdserverpb.KV/Compact", CompactionRequest -> CompactionResponse;
        grant: "/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest -> LeaseGrantResponse;
        revoke: "/etcdserverpb.Lease/LeaseRevoke", LeaseRevokeRequest -> LeaseRevokeResponse;
        time_to_live: "/etcdserverpb.Lease/LeaseTimeToLive", LeaseTimeToLiveRequest -> LeaseTimeToLiveResponse;
        leases: "/etcdserverpb.Lease/LeaseLeases", LeaseLeasesRequest -> LeaseLeasesResponse;
        members: "/etcdserverpb.Cluster/MemberList", MemberListRequest -> MemberListResponse;
        status: "/etcdserverpb.Maintenance/Status", StatusRequest -> StatusResponse;
        alarm: "/etcdserverpb.Maintenance/Alarm", AlarmRequest -> AlarmResponse;
        defragment: "/etcdserverpb.Maintenance/Defragment", SnapshotRequest -> AlarmResponse;
    }

    async fn unary<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: prost::Message + Default + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut grpc = self.grpc().await?;
        let codec = tonic_prost::ProstCodec::<Q, A>::default();
        let path = http::uri::PathAndQuery::from_static(path);
        let answer = grpc.unary(tonic::Request::new(request), path, codec).await;
        answer.map(tonic::Response::into_inner)
    }

    pub async fn watch(
        &self,
        requests: impl Stream<Item = pb::WatchRequest> + Send + 'static,
    ) -> Result<Streaming<pb::WatchResponse>, Status> {
        self.streaming("/etcdserverpb.Watch/Watch", requests).await
    }

    pub async fn keep_alive(
        &self,
        requests: impl Stream<Item = pb::LeaseKeepAliveRequest> + Send + 'static,
    ) -> Result<Streaming<pb::LeaseKeepAliveResponse>, Status> {
        self.streaming("/etcdserverpb.Lease/LeaseKeepAlive", requests)
            .await
    }

    pub async fn snapshot(&self) -> Result<Streaming<pb::SnapshotResponse>, Status> {
        let mut grpc = self.grpc().await?;
        let codec = tonic_prost::ProstCodec::default();
        let path = http::uri::PathAndQuery::from_static("/etcdserverpb.Maintenance/Snapshot");
        let request = tonic::Request::new(pb::SnapshotRequest {});
        let answer = grpc.server_streaming(request, path, codec).await;
        answer.map(tonic::Response::into_inner)
    }

    async fn streaming<Q, A>(
        &self,
        path: &'static str,
        requests: impl Stream<Item = Q> + Send + 'static,
    ) -> Result<Streaming<A>, Status>
    where
        Q: prost::Message + Default + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut grpc = self.grpc().await?;
        let codec = tonic_prost::ProstCodec::<Q, A>::default();
        let path = http::uri::PathAndQuery::from_static(path);
        let request = tonic::Request::new(requests);
        let answer = grpc.streaming(request, path, codec).await;
        answer.map(tonic::Response::into_inner)
    }

    async fn grpc(&self) -> Result<tonic::client::Grpc<Channel>, Status> {
        let mut grpc = tonic::client::Grpc::new(self.0.clone());
        let ready = grpc.ready().await;
        ready.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(grpc)
    }
}

/// Short forms of requests.
pub trait Key {
    fn key(key: &str) -> Self;
}

impl Key for pb::RangeRequest {
    fn key(key: &str) -> Self {
        Self {
            key: Bytes::copy_from_slice(key.as_bytes()),
            ..Self::default()
        }
    }
}

pub fn put(key: &str, value: &str) -> pb::PutRequest {
    pb::PutRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
        ..pb::PutRequest::default()
    }
}

pub fn delete(key: &str, range_end: &str) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        range_end: Bytes::copy_from_slice(range_end.as_bytes()),
        ..pb::DeleteRangeRequest::default()
    }
}

/// A request for a watch of the keys from `key` to `range_end`.
pub fn create(key: &str, range_end: &str, start_revision: i64) -> pb::WatchRequest {
    pb::WatchRequest {
        create_request: Some(pb::WatchCreateRequest {
            key: Bytes::copy_from_slice(key.as_bytes()),
            range_end: Bytes::copy_from_slice(range_end.as_bytes()),
            start_revision,
            prev_kv: true,
            ..pb::WatchCreateRequest::default()
        }),
        ..pb::WatchRequest::default()
    }
}
