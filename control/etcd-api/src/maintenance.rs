//! The services `etcdserverpb.Maintenance` and `etcdserverpb.Cluster`, as far as they
//! apply to a store of one process.

use std::fs;
use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use control_store::Store as _;
use futures::stream::{self, Stream};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;
use tonic::Status;

use crate::messages as pb;
use crate::service::{Service, signed};
use crate::{API_VERSION, fault};

/// How many bytes of a snapshot one message has.
const BLOB_BYTES: usize = 64 << 10;

/// The action of an alarm request that lists alarms, and the one that lifts them.
const ALARM_GET: i32 = 0;
const ALARM_DEACTIVATE: i32 = 2;

/// A snapshot while it is sent.
struct SnapshotStream {
    file: tokio::fs::File,
    /// Bytes of the file that are left to send.
    remaining: u64,
    digest: Sha256,
    header: pb::ResponseHeader,
    is_done: bool,
}

impl Service {
    pub(crate) async fn member_list(
        self,
        _: pb::MemberListRequest,
    ) -> Result<pb::MemberListResponse, Status> {
        Ok(pb::MemberListResponse {
            header: Some(self.header(self.store.revision())),
            members: vec![pb::Member {
                id: self.member_id,
                name: "orlop".to_owned(),
                peer_urls: Vec::new(),
                client_urls: vec![format!("unix://{}", self.socket.display())],
                is_learner: false,
            }],
        })
    }

    pub(crate) async fn status(self, _: pb::StatusRequest) -> Result<pb::StatusResponse, Status> {
        let revision = self.store.revision();
        let header = self.header(revision);
        let size = self.store.size().await.map_or(0, |size| size.bytes);
        Ok(pb::StatusResponse {
            version: API_VERSION.to_owned(),
            db_size: signed(size),
            db_size_in_use: signed(size),
            leader: header.member_id,
            raft_index: revision,
            raft_applied_index: revision,
            raft_term: header.raft_term,
            header: Some(header),
            errors: Vec::new(),
            is_learner: false,
        })
    }

    /// No alarm is ever raised: a full disk fails writes, which work again when there is
    /// space.
    pub(crate) async fn alarm(
        self,
        request: pb::AlarmRequest,
    ) -> Result<pb::AlarmResponse, Status> {
        match request.action {
            ALARM_GET | ALARM_DEACTIVATE => Ok(pb::AlarmResponse {
                header: Some(self.header(self.store.revision())),
            }),
            _ => Err(Status::unimplemented("the embedded store has no alarms")),
        }
    }

    /// The copy's bytes, then their SHA-256 digest.
    pub(crate) async fn snapshot(
        self,
        _: pb::SnapshotRequest,
    ) -> Result<impl Stream<Item = Result<pb::SnapshotResponse, Status>> + Send, Status> {
        // One at a time, since each needs as much space as the store.
        let turn = self.snapshots.clone().lock_owned().await;
        let mut path = self.store.path().as_os_str().to_owned();
        path.push(".snapshot");
        let path = PathBuf::from(path);
        let failed = |error: io::Error| {
            Status::unavailable(format!("cannot read `{}`: {error}", path.display()))
        };
        // One that a crash has left.
        let _ = fs::remove_file(&path);
        let copied = self.store.snapshot(path.clone()).await;
        let opened = tokio::fs::File::open(&path).await;
        let _ = fs::remove_file(&path);
        drop(turn);
        let revision = copied.map_err(fault::status)?;
        let file = opened.map_err(failed)?;
        let remaining = file.metadata().await.map_err(failed)?.len();
        let sending = SnapshotStream {
            file,
            remaining,
            digest: Sha256::new(),
            header: self.header(revision),
            is_done: false,
        };
        Ok(stream::try_unfold(sending, |mut sending| async move {
            let next = sending.next().await.map_err(|error| {
                Status::unavailable(format!("cannot read the snapshot: {error}"))
            })?;
            Ok(next.map(|message| (message, sending)))
        }))
    }
}

// === impl SnapshotStream ===

impl SnapshotStream {
    async fn next(&mut self) -> io::Result<Option<pb::SnapshotResponse>> {
        if self.is_done {
            return Ok(None);
        }
        let wanted = usize::try_from(self.remaining).map_or(BLOB_BYTES, |it| it.min(BLOB_BYTES));
        let blob: Bytes = if wanted == 0 {
            self.is_done = true;
            Bytes::copy_from_slice(&self.digest.clone().finalize())
        } else {
            let mut blob = vec![0; wanted];
            self.file.read_exact(&mut blob).await?;
            self.digest.update(&blob);
            self.remaining -= wanted as u64;
            blob.into()
        };
        Ok(Some(pb::SnapshotResponse {
            header: Some(self.header.clone()),
            remaining_bytes: self.remaining,
            blob,
            version: API_VERSION.to_owned(),
        }))
    }
}
