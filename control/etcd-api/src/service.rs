//! Routes the path of a call to its handler.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use control_store::Revision;
use control_store::embedded::EmbeddedStore;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, Stream, StreamExt as _};
use http::Request;
use hyper::body::Incoming;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::codec::CompressionEncoding;

use crate::messages as pb;
use crate::{fault, watch};

/// The largest message that is read: a request of the size that the store takes, and room
/// for what surrounds it.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// The answer to a call.
pub(crate) type Answer = http::Response<tonic::body::Body>;

/// Messages of an answer that has many.
type Messages<A> = BoxStream<'static, Result<A, Status>>;

/// State shared by all calls.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) store: Arc<EmbeddedStore>,
    pub(crate) socket: Arc<Path>,
    pub(crate) member_id: u64,
    cluster_id: u64,
    pub(crate) shutdown: CancellationToken,
    /// Held while a snapshot is made.
    pub(crate) snapshots: Arc<tokio::sync::Mutex<()>>,
}

// === impl Service ===

impl Service {
    pub fn new(store: Arc<EmbeddedStore>, socket: &Path, shutdown: CancellationToken) -> Self {
        let path = std::fs::canonicalize(store.path()).unwrap_or_else(|_| store.path().into());
        Self {
            member_id: identity(&path, "member"),
            cluster_id: identity(&path, "cluster"),
            socket: PathBuf::from(socket).into(),
            store,
            shutdown,
            snapshots: Arc::default(),
        }
    }

    /// The header of an answer that is true as of a revision.
    pub fn header(&self, revision: Revision) -> pb::ResponseHeader {
        pb::ResponseHeader {
            cluster_id: self.cluster_id,
            member_id: self.member_id,
            revision: signed(revision),
            raft_term: 1,
        }
    }

    /// Answers a call.
    pub fn answer(&self, request: Request<Incoming>) -> BoxFuture<'static, Answer> {
        let path = request.uri().path().to_owned();
        match path.as_str() {
            "/etcdserverpb.KV/Range" => self.unary(request, Self::range),
            "/etcdserverpb.KV/Put" => self.unary(request, Self::put),
            "/etcdserverpb.KV/DeleteRange" => self.unary(request, Self::delete_range),
            "/etcdserverpb.KV/Txn" => self.unary(request, Self::txn),
            "/etcdserverpb.KV/Compact" => self.unary(request, Self::compact),
            "/etcdserverpb.Watch/Watch" => self.watch(request),
            "/etcdserverpb.Lease/LeaseGrant" => self.unary(request, Self::lease_grant),
            "/etcdserverpb.Lease/LeaseRevoke" => self.unary(request, Self::lease_revoke),
            "/etcdserverpb.Lease/LeaseKeepAlive" => self.keep_alive(request),
            "/etcdserverpb.Lease/LeaseTimeToLive" => self.unary(request, Self::lease_time_to_live),
            "/etcdserverpb.Lease/LeaseLeases" => self.unary(request, Self::lease_leases),
            "/etcdserverpb.Cluster/MemberList" => self.unary(request, Self::member_list),
            "/etcdserverpb.Maintenance/Status" => self.unary(request, Self::status),
            "/etcdserverpb.Maintenance/Alarm" => self.unary(request, Self::alarm),
            "/etcdserverpb.Maintenance/Snapshot" => self.send_snapshot(request),
            _ => {
                let status =
                    Status::unimplemented(format!("`{path}` is not served by the embedded store"));
                Box::pin(async move { status.into_http() })
            }
        }
    }

    /// Answers one message with one.
    fn unary<Q, A, F>(
        &self,
        request: Request<Incoming>,
        call: impl Fn(Self, Q) -> F + Clone + Send + 'static,
    ) -> BoxFuture<'static, Answer>
    where
        Q: prost::Message + Default + 'static,
        A: prost::Message + Default + 'static,
        F: Future<Output = Result<A, Status>> + Send + 'static,
    {
        let this = self.clone();
        let service = tower::service_fn(move |request: tonic::Request<Q>| {
            let answer = call(this.clone(), request.into_inner());
            async move { answer.await.map(tonic::Response::new) }
        });
        Box::pin(async move { grpc::<Q, A>().unary(service, request).await })
    }

    fn send_snapshot(&self, request: Request<Incoming>) -> BoxFuture<'static, Answer> {
        let this = self.clone();
        let service = tower::service_fn(move |request: tonic::Request<pb::SnapshotRequest>| {
            let snapshot = this.clone().snapshot(request.into_inner());
            async move {
                let messages: Messages<pb::SnapshotResponse> = snapshot.await?.boxed();
                Ok(tonic::Response::new(messages))
            }
        });
        Box::pin(async move { grpc().server_streaming(service, request).await })
    }

    fn watch(&self, request: Request<Incoming>) -> BoxFuture<'static, Answer> {
        let this = self.clone();
        self.streaming(request, move |requests| {
            watch::session(this.clone(), requests)
        })
    }

    fn keep_alive(&self, request: Request<Incoming>) -> BoxFuture<'static, Answer> {
        let this = self.clone();
        self.streaming(request, move |requests| {
            let this = this.clone();
            requests.then(move |request| {
                let this = this.clone();
                async move { this.lease_keep_alive(request?).await }
            })
        })
    }

    /// Answers many messages with many, until the server shuts down.
    fn streaming<Q, A, S>(
        &self,
        request: Request<Incoming>,
        call: impl Fn(tonic::Streaming<Q>) -> S + Clone + Send + 'static,
    ) -> BoxFuture<'static, Answer>
    where
        Q: prost::Message + Default + 'static,
        A: prost::Message + Default + 'static,
        S: Stream<Item = Result<A, Status>> + Send + 'static,
    {
        let shutdown = self.shutdown.clone();
        let service = tower::service_fn(move |request: tonic::Request<tonic::Streaming<Q>>| {
            let messages = call(request.into_inner());
            let end = shutdown.clone().cancelled_owned();
            let stopped = futures::stream::once(async { Err(fault::stopped()) });
            let parting = shutdown.clone();
            let stopped = stopped.take_while(move |_| std::future::ready(parting.is_cancelled()));
            let messages: Messages<A> = messages.take_until(end).chain(stopped).boxed();
            std::future::ready(Ok(tonic::Response::new(messages)))
        });
        Box::pin(async move { grpc::<Q, A>().streaming(service, request).await })
    }
}

fn grpc<Q, A>() -> tonic::server::Grpc<tonic_prost::ProstCodec<A, Q>>
where
    Q: prost::Message + Default + 'static,
    A: prost::Message + Default + 'static,
{
    tonic::server::Grpc::new(tonic_prost::ProstCodec::<A, Q>::default())
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .accept_compressed(CompressionEncoding::Gzip)
}

/// A number that stays the same for a store at a path.
fn identity(path: &Path, of: &str) -> u64 {
    let mut digest = Sha256::new();
    digest.update(of.as_bytes());
    digest.update(path.as_os_str().as_encoded_bytes());
    let first = digest.finalize().first_chunk::<8>().copied();
    first.map_or(1, u64::from_be_bytes).max(1)
}

pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A negative number means none, as 0 does.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
