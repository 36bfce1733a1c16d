//! Tests the store in a real etcd: `$ETCD`, or the one on the PATH. Without it, the tests are
//! skipped with a message.

mod common;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{Fixture, ops, run};
use control_store::etcd::{Etcd, EtcdOptions, Tls};
use control_store::{Batch, Error, EventKind, Outcome, Precondition, Range, Store, Watch, Write};
use proptest::prelude::*;

/// One member with its own folder, stopped when this value is dropped.
struct Server {
    program: PathBuf,
    folder: tempfile::TempDir,
    client: u16,
    peer: u16,
    tls: Option<Tls>,
    name: &'static str,
    /// The other members: names and ports.
    others: Vec<(&'static str, u16)>,
    child: Option<Child>,
}

impl Server {
    /// Starts a member, or prints why there is none.
    fn start() -> Option<Self> {
        Self::start_with(None, |_| {})
    }

    fn start_with(tls: Option<Tls>, prepare: impl FnOnce(&std::path::Path)) -> Option<Self> {
        let program = std::env::var_os("ETCD").map(PathBuf::from).or_else(|| {
            std::env::split_paths(&std::env::var_os("PATH")?)
                .map(|folder| folder.join("etcd"))
                .find(|path| path.is_file())
        });
        let Some(program) = program else {
            eprintln!("skipped: no `etcd` on the PATH (package etcd-server), and ETCD is not set");
            return None;
        };
        let (client, peer) = (free_port(), free_port());
        let folder = tempfile::tempdir().expect("a folder");
        prepare(folder.path());
        let mut server = Self {
            program,
            folder,
            client,
            peer,
            tls,
            name: "default",
            others: Vec::new(),
            child: None,
        };
        server.run();
        Some(server)
    }

    /// Two members of one cluster.
    fn pair() -> Option<[Self; 2]> {
        let (mut first, mut second) = (Self::start()?, Self::start()?);
        (first.name, second.name) = ("first", "second");
        first.others.push((second.name, second.peer));
        second.others.push((first.name, first.peer));
        for server in [&mut first, &mut second] {
            server.kill();
            let _ = std::fs::remove_dir_all(server.folder.path().join("data"));
            server.run();
        }
        Some([first, second])
    }

    /// Starts the program; again, after [`Server::kill`].
    fn run(&mut self) {
        let folder = self.folder.path();
        let client = self.url();
        let peer = format!("http://127.0.0.1:{}", self.peer);
        let mut members = format!("{}={peer}", self.name);
        for (name, port) in &self.others {
            members.push_str(&format!(",{name}=http://127.0.0.1:{port}"));
        }
        let mut command = Command::new(&self.program);
        command
            .args(["--name", self.name])
            .arg("--data-dir")
            .arg(folder.join("data"))
            .args(["--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &members])
            // A single member elects itself as soon as its patience ends.
            .args(["--heartbeat-interval", "10", "--election-timeout", "100"])
            .args(["--log-level", "error"])
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.join("log")).expect("a log"));
        if self.tls.is_some() {
            command
                .arg("--client-cert-auth")
                .arg("--trusted-ca-file")
                .arg(folder.join("ca.pem"))
                .arg("--cert-file")
                .arg(folder.join("server.pem"))
                .arg("--key-file")
                .arg(folder.join("server.key"));
        }
        self.child = Some(command.spawn().expect("etcd starts"));
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.client)
    }

    fn options(&self) -> EtcdOptions {
        EtcdOptions {
            endpoints: vec![self.url()],
            tls: self.tls.clone(),
            timeout: Duration::from_secs(5),
            ..EtcdOptions::default()
        }
    }

    async fn connect(&self) -> Etcd {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            match Etcd::connect(self.options()).await {
                Ok(store) => return store,
                Err(error) if Instant::now() > until => {
                    let log = std::fs::read_to_string(self.folder.path().join("log"));
                    panic!("{error:?}; etcd says: {}", log.unwrap_or_default())
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> u16 {
    free_port::free_port().expect("a port")
}

struct Member(Server);

impl Fixture for Member {
    type Its = Etcd;

    const EMPTY_IS_SEEN: bool = false;

    async fn open(&mut self) -> Etcd {
        self.0.connect().await
    }
}

proptest! {
    // Each case has an etcd of its own.
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_operations_answers_as_the_model(ops in ops()) {
        let Some(server) = Server::start() else { return Ok(()) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(run(Member(server), ops))?;
    }
}

async fn put(store: &Etcd, key: &str, value: &str, ttl: Option<Duration>) -> u64 {
    let write = Write::Put {
        value: Bytes::from(value.to_owned()),
        ttl,
    };
    match store
        .write(Bytes::from(key.to_owned()), Precondition::Any, write)
        .await
    {
        Ok(Outcome::Done { revision, .. }) => revision,
        other => panic!("{other:?}"),
    }
}

async fn next(watch: &mut Watch) -> Batch {
    tokio::time::timeout(Duration::from_secs(10), watch.next())
        .await
        .expect("in time")
        .expect("open")
        .expect("fine")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_sleeps_through_a_storm_sees_every_event_once_and_in_order() {
    const WRITES: u64 = 4_000;
    let Some(server) = Server::start() else {
        return;
    };
    let store = std::sync::Arc::new(server.connect().await);
    let first = store.revision() + 1;
    let mut watch = store.watch(Bytes::from_static(b"/a/"), store.revision());
    let writers: Vec<_> = (0..32)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for count in 0..WRITES / 32 {
                    put(&store, &format!("/a/{writer}"), &count.to_string(), None).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("written");
    }
    let mut expected = first;
    while expected <= store.revision() {
        let batch = next(&mut watch).await;
        for event in batch.events {
            assert_eq!(event.kv.mod_revision, expected);
            expected += 1;
        }
        assert_eq!(batch.revision, expected - 1);
    }
    assert_eq!(expected, first + WRITES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_nobody_reads_hold_up_neither_reads_nor_other_watches() {
    const UNREAD: usize = 110;
    let Some(server) = Server::start() else {
        return;
    };
    let store = server.connect().await;
    let first = store.revision();
    put(&store, "/a/first", "1", None).await;
    let mut unread = Vec::new();
    for _ in 0..UNREAD {
        let mut watch = store.watch(Bytes::from_static(b"/a/"), first);
        assert_eq!(next(&mut watch).await.events.len(), 1);
        unread.push(watch);
    }
    let large = "x".repeat(300_000);
    for count in 0..4 {
        put(&store, &format!("/a/{count}"), &large, None).await;
    }
    // Members send as much as they may.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let read = store.get(Bytes::from_static(b"/a/0"), None);
    let read = tokio::time::timeout(Duration::from_secs(5), read).await;
    let read = read.expect("an answer").expect("a value");
    assert_eq!(read.map(|it| it.value.len()), Some(large.len()));
    let mut watch = store.watch(Bytes::from_static(b"/b/"), store.revision());
    put(&store, "/b/1", "1", None).await;
    assert_eq!(next(&mut watch).await.events.len(), 1);
    // They have missed nothing.
    for watch in &mut unread[..4] {
        let mut seen = 0;
        while seen < 4 {
            seen += next(watch).await.events.len();
        }
    }
}

#[tokio::test]
async fn a_watch_overtaken_by_anothers_compaction_ends_with_that_error() {
    let Some(server) = Server::start() else {
        return;
    };
    let (store, other) = (server.connect().await, server.connect().await);
    for count in 0..10 {
        put(&store, "/a", &count.to_string(), None).await;
    }
    other.compact(8).await.expect("compacted");
    assert_eq!(store.compacted(), 0, "not heard of yet");
    let mut watch = store.watch(Bytes::from_static(b"/a"), 3);
    let error = watch
        .next()
        .await
        .expect("an answer")
        .expect_err("compacted");
    let (requested, compacted) = (3, 8);
    assert!(
        matches!(error, Error::Compacted { requested: r, compacted: c } if (r, c) == (requested, compacted)),
        "{error:?}"
    );
    assert!(watch.next().await.is_none(), "it is over");
    let error = store.get(Bytes::from_static(b"/a"), Some(5)).await;
    assert!(
        matches!(
            error,
            Err(Error::Compacted {
                requested: 5,
                compacted: 8
            })
        ),
        "{error:?}"
    );
    let error = store
        .range(Range {
            at: Some(1_000),
            ..Range::prefix("/")
        })
        .await;
    assert!(
        matches!(
            error,
            Err(Error::FutureRevision {
                requested: 1_000,
                current: 11
            })
        ),
        "{error:?}"
    );
    assert_eq!(
        server.connect().await.compacted(),
        8,
        "a new process finds out"
    );
}

#[tokio::test]
async fn progress_comes_by_itself_when_others_write_what_does_not_concern_the_watch() {
    let Some(server) = Server::start() else {
        return;
    };
    let (store, other) = (server.connect().await, server.connect().await);
    let mut watch = store.watch(Bytes::from_static(b"/a/"), store.revision());
    let revision = put(&other, "/b/x", "", None).await;
    // This process hears of the revision by asking for anything.
    assert_eq!(store.latest().await.expect("latest"), revision);
    let mut place = 0;
    while place < revision {
        let batch = next(&mut watch).await;
        assert!(batch.events.is_empty());
        place = batch.revision;
    }
    // And on request without having heard of it.
    let revision = put(&other, "/b/y", "", None).await;
    watch.progress().request();
    while place < revision {
        let batch = next(&mut watch).await;
        assert!(batch.events.is_empty());
        place = batch.revision;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_progress_is_reported_before_its_events() {
    let Some(server) = Server::start() else {
        return;
    };
    let store = std::sync::Arc::new(server.connect().await);
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for count in 0..1_500 {
                let key = if count % 3 == 0 { "/a/x" } else { "/b/x" };
                put(&store, key, "", None).await;
            }
        })
    };
    let first = store.revision();
    let mut expected = 0;
    // New watches are those that have not caught up yet.
    while !writer.is_finished() {
        let mut watch = store.watch(Bytes::from_static(b"/a/"), first);
        watch.progress().request();
        let goal = store.revision();
        let (mut place, mut events) = (first, 0);
        while place < goal {
            let batch = next(&mut watch).await;
            for event in &batch.events {
                assert!(
                    event.kv.mod_revision > place,
                    "late: {event:?} after {place}"
                );
                assert!(event.kv.mod_revision <= batch.revision);
                events += 1;
            }
            place = batch.revision;
        }
        // Every third write concerns the watch.
        let due = (place - first).div_ceil(3);
        assert_eq!(events, due, "from {first} to {place}");
        expected += 1;
    }
    writer.await.expect("written");
    assert!(expected > 3);
}

#[tokio::test]
async fn keys_with_a_time_limit_share_a_lease_and_go_and_one_written_again_stays() {
    let Some(server) = Server::start() else {
        return;
    };
    let store = server.connect().await;
    let short = Some(Duration::from_secs(2));
    let long = Some(Duration::from_secs(600));
    put(&store, "/events/gone", "", short).await;
    put(&store, "/events/kept", "", short).await;
    put(&store, "/events/a", "", long).await;
    put(&store, "/events/b", "", long).await;
    let after = put(&store, "/events/kept", "", None).await;
    let page = store
        .range(Range::prefix("/events/"))
        .await
        .expect("a list");
    let lease = |name: &str| {
        let kv = page.kvs.iter().find(|kv| kv.key.ends_with(name.as_bytes()));
        kv.expect("there").lease
    };
    assert_ne!(lease("a"), 0);
    assert_eq!(lease("a"), lease("b"));
    assert_ne!(lease("a"), lease("gone"));
    assert_eq!(lease("kept"), 0);
    let mut watch = store.watch(Bytes::from_static(b"/events/"), after);
    let batch = next(&mut watch).await;
    assert_eq!(batch.events.len(), 1);
    assert_eq!(batch.events[0].kind, EventKind::Delete);
    assert_eq!(&*batch.events[0].kv.key, b"/events/gone");
    assert!(batch.events[0].previous.is_some());
}

#[tokio::test]
async fn a_watch_outlives_its_server() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let store = server.connect().await;
    let first = put(&store, "/a", "1", None).await;
    let mut watch = store.watch(Bytes::from_static(b"/a"), first - 1);
    assert_eq!(next(&mut watch).await.revision, first);
    server.kill();
    let error = store
        .write(Bytes::from_static(b"/a"), Precondition::Any, Write::Delete)
        .await
        .expect_err("nobody is there");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains(&server.url()), "{error}");
    // The watch notices, too.
    tokio::time::timeout(Duration::from_millis(300), watch.next())
        .await
        .expect_err("nothing can come");
    server.run();
    let writer = server.connect().await;
    let second = put(&writer, "/a", "2", None).await;
    let batch = next(&mut watch).await;
    assert_eq!(batch.events.len(), 1, "{batch:?}");
    assert_eq!(batch.events[0].kv.mod_revision, second);
    assert_eq!(
        batch.events[0]
            .previous
            .as_ref()
            .expect("before")
            .mod_revision,
        first
    );
}

#[tokio::test]
async fn without_a_majority_nothing_is_waited_for_and_all_goes_on_with_one() {
    let Some([first, mut second]) = Server::pair() else {
        return;
    };
    let store = first.connect().await;
    let before = put(&store, "/a", "1", None).await;
    assert_eq!(store.outage(), None);
    // Only who has named a leader is believed to have lost it.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    second.kill();
    let until = Instant::now() + Duration::from_secs(15);
    while store.outage().is_none() {
        assert!(Instant::now() < until, "the loss is not noticed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let began = Instant::now();
    let write = Write::Delete;
    let refused = store.write(Bytes::from_static(b"/a"), Precondition::Any, write);
    let error = refused.await.expect_err("no majority");
    assert!(matches!(error, Error::NoLeader { .. }), "{error:?}");
    assert!(error.to_string().contains(&first.url()), "{error}");
    let error = store.latest().await.expect_err("no majority");
    assert!(matches!(error, Error::NoLeader { .. }), "{error:?}");
    assert!(began.elapsed() < Duration::from_millis(100), "at once");
    second.run();
    let until = Instant::now() + Duration::from_secs(15);
    while store.outage().is_some() {
        assert!(Instant::now() < until, "the leader is not noticed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(put(&store, "/a", "2", None).await > before);
}

#[tokio::test]
async fn watches_end_with_their_store() {
    let Some(server) = Server::start() else {
        return;
    };
    let store = server.connect().await;
    let mut watch = store.watch(Bytes::new(), store.revision());
    let waiting = tokio::spawn(async move { watch.next().await.is_none() });
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(store);
    let ended = tokio::time::timeout(Duration::from_secs(5), waiting).await;
    assert!(ended.expect("in time").expect("no panic"));
}

#[tokio::test]
async fn a_value_over_either_limit_is_refused_and_changes_nothing() {
    let Some(server) = Server::start() else {
        return;
    };
    let ours = server.connect().await;
    let theirs = Etcd::connect(EtcdOptions {
        max_entry_bytes: usize::MAX,
        ..server.options()
    })
    .await
    .expect("connected");
    let before = ours.revision();
    let size = 2 << 20;
    for store in [ours, theirs] {
        let write = Write::Put {
            value: Bytes::from(vec![0; size]),
            ttl: None,
        };
        let error = store
            .write(Bytes::from_static(b"/a"), Precondition::Any, write)
            .await
            .expect_err("too large");
        assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
        assert_eq!(store.latest().await.expect("latest"), before);
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_named() {
    let options = EtcdOptions {
        endpoints: vec![format!("http://127.0.0.1:{}", free_port())],
        timeout: Duration::from_millis(500),
        ..EtcdOptions::default()
    };
    let address = options.endpoints[0].clone();
    let error = Etcd::connect(options).await.expect_err("nobody");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains(&address), "{error}");
}

#[tokio::test]
async fn certificates_are_wanted_and_shown() {
    let (tls, files) = certificates();
    let prepared = Server::start_with(Some(tls), |folder| {
        for (name, text) in &files {
            std::fs::write(folder.join(name), text).expect("written");
        }
    });
    let Some(server) = prepared else { return };
    let store = server.connect().await;
    let revision = put(&store, "/a", "1", None).await;
    let kv = store
        .get(Bytes::from_static(b"/a"), None)
        .await
        .expect("read");
    assert_eq!(kv.expect("there").mod_revision, revision);
    // Without a certificate of one's own.
    let mut options = server.options();
    options.tls = options.tls.map(|tls| Tls {
        identity: None,
        ..tls
    });
    options.timeout = Duration::from_secs(1);
    let error = Etcd::connect(options).await.expect_err("refused");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
}

/// The client's certificates, and the server's files.
fn certificates() -> (Tls, Vec<(&'static str, String)>) {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    let key = || KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, key()).expect("an authority");
    let issue = |usage: &[rcgen::ExtendedKeyUsagePurpose]| {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("parameters");
        params.extended_key_usages = usage.to_vec();
        let key = key();
        let certificate = params.signed_by(&key, &ca).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    };
    let usage = rcgen::ExtendedKeyUsagePurpose::ClientAuth;
    // etcd's own gateway shows the server's certificate as a client's.
    let (server, server_key) = issue(&[rcgen::ExtendedKeyUsagePurpose::ServerAuth, usage.clone()]);
    let (client, client_key) = issue(&[usage]);
    let tls = Tls {
        ca: ca.pem().into_bytes(),
        identity: Some((client.into_bytes(), client_key.into_bytes())),
    };
    let files = vec![
        ("ca.pem", ca.pem()),
        ("server.pem", server),
        ("server.key", server_key),
    ];
    (tls, files)
}
