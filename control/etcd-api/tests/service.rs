//! Tests the guarantees of etcd's API for watches, leases, snapshots and members, over the socket.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{Client, Key as _, Server, create, delete, put};
use control_etcd_api::messages as pb;
use control_store::Store as _;
use control_store::embedded::{EmbeddedStore, Options};
use futures::channel::mpsc;
use tonic::{Code, Streaming};

/// A stream of requests with its answers.
struct Watch {
    requests: mpsc::UnboundedSender<pb::WatchRequest>,
    answers: Streaming<pb::WatchResponse>,
}

impl Watch {
    async fn open(client: &Client) -> Self {
        let (requests, receiver) = mpsc::unbounded();
        let answers = client.watch(receiver).await.expect("a stream");
        Self { requests, answers }
    }

    fn send(&self, request: pb::WatchRequest) {
        self.requests.unbounded_send(request).expect("open");
    }

    async fn next(&mut self) -> pb::WatchResponse {
        tokio::time::timeout(Duration::from_secs(20), self.answers.message())
            .await
            .expect("in time")
            .expect("no error")
            .expect("no end")
    }

    /// Opens one watch and returns its number.
    async fn create(&mut self, request: pb::WatchRequest) -> i64 {
        self.send(request);
        let answer = self.next().await;
        assert!(answer.created && !answer.canceled, "{answer:?}");
        answer.watch_id
    }
}

fn progress() -> pb::WatchRequest {
    pb::WatchRequest {
        progress_request: Some(pb::WatchProgressRequest {}),
        ..pb::WatchRequest::default()
    }
}

fn revision(header: Option<pb::ResponseHeader>) -> i64 {
    header.expect("a header").revision
}

fn puts(keys: &[&str]) -> pb::TxnRequest {
    let op = |key: &&str| pb::RequestOp {
        request_put: Some(put(key, "value")),
        ..pb::RequestOp::default()
    };
    pb::TxnRequest {
        success: keys.iter().map(op).collect(),
        ..pb::TxnRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_changes_of_a_transaction_come_in_one_answer_and_one_revision() {
    let server = Server::start().await;
    let client = server.connect().await;
    let mut live = Watch::open(&client).await;
    live.create(create("a", "c", 0)).await;
    let done = client.txn(puts(&["a", "b", "c"])).await.expect("done");
    let at = revision(done.header);
    let mut past = Watch::open(&client).await;
    past.create(create("a", "c", at)).await;
    for watch in [&mut live, &mut past] {
        let answer = watch.next().await;
        let seen: Vec<_> = answer
            .events
            .iter()
            .filter_map(|event| event.kv.clone())
            .map(|kv| (kv.key, kv.mod_revision, kv.create_revision))
            .collect();
        // `c` is outside.
        let expected = ["a", "b"].map(|key| (Bytes::from_static(key.as_bytes()), at, at));
        assert_eq!(seen, expected);
    }
    let gone = client.delete_range(delete("a", "\0")).await.expect("done");
    assert_eq!(gone.deleted, 3);
    let answer = live.next().await;
    assert_eq!(answer.events.len(), 2);
    for event in answer.events {
        assert_eq!(event.r#type, 1);
        assert_eq!(event.prev_kv.expect("what it held").value, "value");
        assert_eq!(event.kv.expect("a key").mod_revision, at + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_is_reported_when_every_watch_has_come_that_far() {
    let server = Server::start().await;
    let client = server.connect().await;
    for count in 0..50 {
        client
            .put(put("a", &count.to_string()))
            .await
            .expect("written");
    }
    let mut watch = Watch::open(&client).await;
    // The one without events first: events of the other may come before the next answer.
    let other = watch.create(create("b", "", 2)).await;
    let all = watch.create(create("a", "", 2)).await;
    assert_ne!(all, other);
    watch.send(progress());
    let mut events = 0;
    let reported = loop {
        let answer = watch.next().await;
        if answer.watch_id == -1 {
            break revision(answer.header);
        }
        assert_eq!(answer.watch_id, all);
        events += answer.events.len();
    };
    assert_eq!(events, 50, "events come before the report of progress");
    assert_eq!(reported, 51);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_watch_that_asks_for_it_hears_how_far_it_is() {
    let server = Server::start().await;
    let client = server.connect().await;
    let mut watch = Watch::open(&client).await;
    let mut request = create("a", "", 0);
    if let Some(create) = &mut request.create_request {
        create.progress_notify = true;
    }
    let id = watch.create(request).await;
    let written = client.put(put("elsewhere", "")).await.expect("written");
    let answer = watch.next().await;
    assert_eq!((answer.watch_id, answer.events.len()), (id, 0));
    assert_eq!(revision(answer.header), revision(written.header));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_end_when_they_are_cancelled_refused_or_too_old() {
    let server = Server::start().await;
    let client = server.connect().await;
    for _ in 0..5 {
        client.put(put("a", "")).await.expect("written");
    }
    let compact = pb::CompactionRequest {
        revision: 5,
        physical: false,
    };
    client.compact(compact.clone()).await.expect("compacted");
    let again = client.compact(compact).await.expect_err("again");
    assert_eq!(again.code(), Code::OutOfRange);
    assert_eq!(
        again.message(),
        "etcdserver: mvcc: required revision has been compacted"
    );
    let mut watch = Watch::open(&client).await;
    let old = watch.create(create("a", "", 3)).await;
    let answer = watch.next().await;
    assert_eq!(
        (answer.watch_id, answer.canceled, answer.compact_revision),
        (old, true, 5)
    );
    watch.send(create("b", "a", 0));
    let answer = watch.next().await;
    assert!(answer.created && answer.canceled);
    assert_eq!(answer.cancel_reason, "mvcc: watcher range is empty");
    let id = watch.create(create("a", "", 0)).await;
    watch.send(pb::WatchRequest {
        cancel_request: Some(pb::WatchCancelRequest { watch_id: id }),
        ..pb::WatchRequest::default()
    });
    let answer = watch.next().await;
    assert_eq!((answer.watch_id, answer.canceled), (id, true));
    client.put(put("a", "unseen")).await.expect("written");
    watch.send(progress());
    let answer = watch.next().await;
    assert_eq!((answer.watch_id, answer.events.len()), (-1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_may_begin_where_the_past_is_forgotten() {
    let server = Server::start().await;
    let client = server.connect().await;
    client.put(put("b", "older")).await.expect("written");
    let shared = client.txn(puts(&["c", "b", "a"])).await.expect("written");
    let compacted = revision(shared.header);
    client.put(put("a", "newer")).await.expect("written");
    let compact = pb::CompactionRequest {
        revision: compacted,
        physical: true,
    };
    client.compact(compact).await.expect("compacted");
    let mut watch = Watch::open(&client).await;
    watch.create(create("a", "d", compacted)).await;
    let mut seen = Vec::new();
    while seen.len() < 4 {
        for event in watch.next().await.events {
            let kv = event.kv.expect("a key");
            seen.push((kv.key, kv.mod_revision, event.prev_kv.is_some()));
        }
    }
    // As they were written; what they held before is forgotten.
    let key = |key: &'static str| Bytes::from_static(key.as_bytes());
    let expected = [
        (key("c"), compacted, false),
        (key("b"), compacted, false),
        (key("a"), compacted, false),
        (key("a"), compacted + 1, true),
    ];
    assert_eq!(seen, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_end_with_a_lease_that_is_not_renewed() {
    let server = Server::start().await;
    let client = server.connect().await;
    let grant = |id| pb::LeaseGrantRequest { ttl: 2, id };
    let short = client.grant(grant(0)).await.expect("granted");
    assert_ne!(short.id, 0);
    let kept = client.grant(grant(9)).await.expect("granted");
    let again = client.grant(grant(9)).await.expect_err("granted before");
    assert_eq!(again.message(), "etcdserver: lease already exists");
    for (key, lease) in [
        ("short", short.id),
        ("short too", short.id),
        ("kept", kept.id),
    ] {
        let request = pb::PutRequest {
            lease,
            ..put(key, "")
        };
        client.put(request).await.expect("written");
    }
    let mut watch = Watch::open(&client).await;
    watch.create(create("short", "shorz", 0)).await;
    let (renewals, receiver) = mpsc::unbounded();
    let mut renewed = client.keep_alive(receiver).await.expect("a stream");
    let end = tokio::time::Instant::now() + Duration::from_secs(5);
    while tokio::time::Instant::now() < end {
        let renewal = pb::LeaseKeepAliveRequest { id: kept.id };
        renewals.unbounded_send(renewal).expect("open");
        let answer = renewed.message().await.expect("no error").expect("no end");
        assert_eq!((answer.id, answer.ttl), (9, 2));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let answer = watch.next().await;
    assert_eq!(answer.events.len(), 2, "both in one revision: {answer:?}");
    let left = client
        .range(pb::RangeRequest {
            range_end: Bytes::from_static(b"\0"),
            ..pb::RangeRequest::key("a")
        })
        .await
        .expect("keys");
    assert_eq!(left.count, 1);
    assert_eq!(left.kvs[0].lease, 9);
    let gone = pb::LeaseTimeToLiveRequest {
        id: short.id,
        keys: true,
    };
    assert_eq!(client.time_to_live(gone).await.expect("known").ttl, -1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_and_shared_revisions_survive_a_restart_and_compaction() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.redb");
    let open = || {
        let options = Options {
            retain: None,
            ..Options::default()
        };
        EmbeddedStore::open(&path, options).expect("a store")
    };
    let server = Server::start().await;
    let client = server.connect().await;
    let grant = pb::LeaseGrantRequest { ttl: 500, id: 5 };
    client.grant(grant).await.expect("granted");
    let mut txn = puts(&["a", "b", "c"]);
    for op in &mut txn.success {
        if let Some(put) = &mut op.request_put {
            put.lease = 5;
        }
    }
    client.txn(txn).await.expect("written");
    client.put(put("b", "newer")).await.expect("written");
    client.delete_range(delete("a", "")).await.expect("deleted");
    // The snapshot is the store as it is, with everything in it.
    server.store.snapshot(path.clone()).await.expect("a copy");
    let store = open();
    let status = store.lease_status(5, true).await.expect("read");
    let status = status.expect("the lease");
    assert_eq!(status.keys, ["c"]);
    assert!(status.remaining > 490, "{status:?}");
    // A copy is a restore: its past is forgotten.
    let now = store.revision();
    assert!(now > 1_000_000_000 && store.compacted() == now);
    let kept = |key: &'static str| store.get(Bytes::from_static(key.as_bytes()), None);
    assert_eq!(kept("a").await.expect("read"), None);
    assert_eq!(kept("b").await.expect("read").expect("b").value, "newer");
    assert_eq!(kept("c").await.expect("read").expect("c").mod_revision, 2);
    drop(store);
    let store = open();
    assert_eq!(
        store.revision(),
        now,
        "opened again, it is no copy any more"
    );
    let ended = store.revoke_lease(5).await.expect("revoked");
    assert_eq!(ended, now + 1);
    let key = Bytes::from_static(b"c");
    assert_eq!(store.get(key, None).await.expect("read"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_ends_with_its_digest() {
    use sha2::Digest as _;
    let server = Server::start().await;
    let client = server.connect().await;
    client.put(put("a", "value")).await.expect("written");
    let mut messages = client.snapshot().await.expect("a stream");
    let mut bytes = Vec::new();
    while let Some(message) = messages.message().await.expect("no error") {
        bytes.extend_from_slice(&message.blob);
    }
    let (content, digest) = bytes.split_at(bytes.len() - 32);
    assert_eq!(sha2::Sha256::digest(content).as_slice(), digest);
    let copy = server.folder.path().join("copy.redb");
    std::fs::write(&copy, content).expect("a file");
    let store = EmbeddedStore::open(copy, Options::default()).expect("a store");
    let kv = store.get(Bytes::from_static(b"a"), None).await;
    assert_eq!(kv.expect("read").expect("the key").value, "value");
    let left: Vec<_> = std::fs::read_dir(server.folder.path())
        .expect("a folder")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.contains("snapshot"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_one_member_and_what_is_not_served_is_refused() {
    let server = Server::start().await;
    let client = server.connect().await;
    let status = client.status(pb::StatusRequest {}).await.expect("a status");
    let members = client
        .members(pb::MemberListRequest::default())
        .await
        .expect("members")
        .members;
    assert_eq!(members.len(), 1);
    assert_eq!(members[0].id, status.leader);
    assert!(status.db_size > 0);
    client
        .alarm(pb::AlarmRequest::default())
        .await
        .expect("no alarm");
    let refused = client
        .defragment(pb::SnapshotRequest {})
        .await
        .expect_err("not served");
    assert_eq!(refused.code(), Code::Unimplemented);
    let large = pb::PutRequest {
        value: vec![0; 2 << 20].into(),
        ..put("a", "")
    };
    let refused = client.put(large).await.expect_err("too large");
    assert_eq!(refused.message(), "etcdserver: request is too large");
    // A call in progress ends with the server.
    let mut watch = Watch::open(&client).await;
    watch.create(create("a", "", 0)).await;
    server.stop();
    let ended = tokio::time::timeout(Duration::from_secs(5), watch.answers.message());
    let ended = ended.await.expect("in time").expect_err("the end");
    assert_eq!(ended.message(), "etcdserver: server stopped");
}
