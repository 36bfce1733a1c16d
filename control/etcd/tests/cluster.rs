//! Tests members of a real etcd: `$ETCD`, or the one on the PATH. Without it, the tests are
//! skipped. The system chooses the loopback ports.

use std::path::{Path, PathBuf};
use std::time::Duration;

use control_etcd::plan::{Defragmentation, MemberView};
use control_etcd::record::Launch;
use control_etcd::{Admin, Credentials, Process, Record, join, process, recover, upkeep, wal};
use control_pki::EtcdPki;

const PATIENCE: Duration = Duration::from_secs(30);

/// A member with its folders.
struct Member {
    record: Record,
    launch: Launch,
    process: Process,
}

struct Cluster {
    dir: tempfile::TempDir,
    binary: PathBuf,
    credentials: Credentials,
}

fn etcd() -> Option<PathBuf> {
    let named = std::env::var_os("ETCD").map(PathBuf::from);
    let found = named.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|folder| folder.join("etcd"))
            .find(|file| file.is_file())
    });
    if found.is_none() {
        eprintln!("skipped: no `etcd` on the PATH (package etcd-server), and ETCD is not set");
    }
    found
}

fn port() -> u16 {
    free_port::free_port().expect("a port")
}

impl Cluster {
    fn new() -> Option<Self> {
        let binary = etcd()?;
        process::check(&binary).expect("a supported etcd");
        let dir = tempfile::tempdir().expect("a directory");
        let pki = EtcdPki::load_or_create(dir.path()).expect("keys");
        let client = pki.client("test").expect("issued");
        Some(Self {
            credentials: Credentials {
                ca: pki.ca.certificate_pem().to_owned(),
                certificate: client.cert_pem,
                key: client.key_pem,
            },
            dir,
            binary,
        })
    }

    fn record(&self, name: &str) -> Record {
        Record::first(name, [127, 0, 0, 1].into(), port(), port())
    }

    fn launch(&self, record: &Record, quota_bytes: u64) -> Launch {
        let pki = EtcdPki::load_or_create(self.dir.path()).expect("keys");
        pki.keep_member(&record.name, &record.certificate_names())
            .expect("certificates");
        Launch {
            binary: self.binary.clone(),
            folder: self.dir.path().join(&record.name),
            pki: pki.file(""),
            quota_bytes,
            begins_anew: false,
        }
    }

    fn start(&self, record: Record, quota_bytes: u64) -> Member {
        let launch = self.launch(&record, quota_bytes);
        record.save(&launch.folder).expect("saved");
        let process = Process::start(record.clone(), launch.clone());
        Member {
            record,
            launch,
            process,
        }
    }

    fn admin(&self, members: &[&Member]) -> Admin {
        let urls = members.iter().map(|one| one.record.client_url());
        Admin::new(self.credentials.clone(), urls.collect())
    }

    async fn client(&self, member: &Member) -> etcd_client::Client {
        let tls = etcd_client::TlsOptions::new()
            .ca_certificate(etcd_client::Certificate::from_pem(&self.credentials.ca))
            .identity(etcd_client::Identity::from_pem(
                &self.credentials.certificate,
                &self.credentials.key,
            ));
        let options = etcd_client::ConnectOptions::new().with_tls(tls);
        etcd_client::Client::connect([member.record.client_url()], Some(options))
            .await
            .expect("a client")
    }
}

async fn healthy(admin: &Admin, count: usize) -> Vec<MemberView> {
    for _ in 0..300 {
        let members = admin.survey().await.unwrap_or_default();
        let voters = members
            .iter()
            .filter(|one| !one.is_learner && one.is_healthy());
        if voters.count() == count {
            return members;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no {count} healthy members: {:?}", admin.survey().await);
}

/// Adds a member as a server does.
async fn join_one(cluster: &Cluster, admin: &Admin, name: &str) -> Member {
    let record = join::add(admin, cluster.record(name)).await.expect("added");
    let member = cluster.start(record, 1 << 30);
    let local = cluster.admin(&[&member]);
    join::promote(&local, &member.record)
        .await
        .expect("promoted");
    join::serving(&local, &member.record.local_url(), PATIENCE)
        .await
        .expect("serves");
    member
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_join_as_learners_survive_one_loss_and_are_replaced() {
    let Some(cluster) = Cluster::new() else {
        return;
    };
    let first = cluster.start(cluster.record("one"), 1 << 30);
    let admin = cluster.admin(&[&first]);
    healthy(&admin, 1).await;
    let second = join_one(&cluster, &admin, "two").await;
    let third = join_one(&cluster, &admin, "three").await;
    let all = cluster.admin(&[&third, &second, &first]);
    let members = healthy(&all, 3).await;
    assert_eq!(members.iter().filter(|one| one.is_leader()).count(), 1);
    assert!(members.iter().all(|one| !one.is_learner));

    // Data written at one is read at another, also after a restart of all processes of one.
    let mut client = cluster.client(&second).await;
    client.put("/key", "value", None).await.expect("written");
    let Member {
        record,
        launch,
        process,
    } = third;
    process.stop().await;
    assert!(launch.has_data());
    let third = Member {
        process: Process::start(record.clone(), launch.clone()),
        record,
        launch,
    };
    healthy(&all, 3).await;
    let mut client = cluster.client(&third).await;
    let read = client.get("/key", None).await.expect("read");
    assert_eq!(read.kvs()[0].value_str().expect("text"), "value");

    // One is lost for good right after another has started again, when etcd does not count that
    // one as healthy yet: it is removed, says so when it comes back, and another takes its place
    // while writes go on.
    let Member {
        record,
        launch,
        process,
    } = second;
    process.stop().await;
    let second = Member {
        process: Process::start(record.clone(), launch.clone()),
        record,
        launch,
    };
    healthy(&all, 3).await;
    let Member {
        record,
        launch,
        process,
    } = third;
    process.stop().await;
    let members = all.survey().await.expect("members");
    let lost = control_etcd::plan::find(&members, "three").expect("found");
    control_etcd::plan::check_removal(&members, lost.id).expect("two are left");
    all.remove(lost.id).await.expect("removed");
    let removed = Process::start(record, launch);
    tokio::time::timeout(PATIENCE, removed.removed())
        .await
        .expect("it learns that it was removed");
    removed.stop().await;
    let admin = cluster.admin(&[&first, &second]);
    let fourth = join_one(&cluster, &admin, "four").await;
    healthy(&admin, 3).await;
    let mut client = cluster.client(&fourth).await;
    let read = client.get("/key", None).await.expect("read");
    assert_eq!(read.kvs()[0].value_str().expect("text"), "value");
    for member in [first, second, fourth] {
        member.process.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_quota_is_recovered_without_a_person() {
    let Some(cluster) = Cluster::new() else {
        return;
    };
    let member = cluster.start(cluster.record("one"), 16 << 20);
    let admin = cluster.admin(&[&member]);
    healthy(&admin, 1).await;
    let mut client = cluster.client(&member).await;
    // History of one key, until no more is taken.
    let value = vec![b'x'; 1 << 20];
    let mut refused = None;
    for _ in 0..40 {
        if let Err(error) = client.put("/key", value.clone(), None).await {
            refused = Some(error.to_string());
            break;
        }
    }
    let refused = refused.expect("the quota is used up");
    assert!(refused.contains("database space exceeded"), "{refused}");
    assert_eq!(admin.quota_alarms().await.expect("asked").len(), 1);
    let before = admin
        .status(&member.record.client_url())
        .await
        .expect("asked");

    upkeep::once(&admin, &member.record, Defragmentation::default())
        .await
        .expect("looked after");

    assert!(admin.quota_alarms().await.expect("asked").is_empty());
    let after = admin
        .status(&member.record.client_url())
        .await
        .expect("asked");
    assert!(after.db_size < before.db_size / 2, "{before:?} {after:?}");
    client
        .put("/key", "small", None)
        .await
        .expect("written again");
    member.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_killed_comes_back_and_a_foreign_client_learns_nothing() {
    let Some(cluster) = Cluster::new() else {
        return;
    };
    let member = cluster.start(cluster.record("one"), 1 << 30);
    let admin = cluster.admin(&[&member]);
    healthy(&admin, 1).await;
    let id = process_of(&member.launch.folder).expect("it runs");
    kill(id);
    for _ in 0..200 {
        if process_of(&member.launch.folder).is_some_and(|now| now != id) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    healthy(&admin, 1).await;
    // A certificate of the cluster's own authority is none of etcd's clients.
    let other = tempfile::tempdir().expect("a directory");
    let foreign = control_pki::Cluster::load_or_create(other.path()).expect("keys");
    let shown = foreign.administrator().expect("issued");
    let stranger = Admin::new(
        Credentials {
            ca: cluster.credentials.ca.clone(),
            certificate: shown.cert_pem,
            key: shown.key_pem,
        },
        vec![member.record.client_url()],
    );
    assert!(stranger.members().await.is_err());
    member.process.stop().await;
    assert_eq!(process_of(&cluster.dir.path().join("one")), None);
}

fn kill(id: i32) {
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(id),
        nix::sys::signal::Signal::SIGKILL,
    )
    .expect("killed");
}

/// The process whose data is in that folder.
fn process_of(folder: &Path) -> Option<i32> {
    let wanted = format!("--data-dir={}", folder.join("data").display());
    std::fs::read_dir("/proc")
        .ok()?
        .flatten()
        .find_map(|entry| {
            let id: i32 = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let has = line
                .split(|byte| *byte == 0)
                .any(|word| word == wanted.as_bytes());
            has.then_some(id)
        })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_member_of_three_goes_on_alone_and_gets_others_again() {
    let Some(cluster) = Cluster::new() else {
        return;
    };
    let first = cluster.start(cluster.record("a"), 1 << 30);
    let admin = cluster.admin(&[&first]);
    join::serving(&admin, &first.record.local_url(), PATIENCE)
        .await
        .expect("serves");
    let second = join_one(&cluster, &admin, "b").await;
    let third = join_one(&cluster, &admin, "c").await;
    healthy(&admin, 3).await;
    let mut client = cluster.client(&first).await;
    client.put("key", "kept", None).await.expect("written");
    let (record, launch) = (first.record.clone(), first.launch.clone());
    // It has the write in its log, but not yet that a majority has it.
    kill(process_of(&launch.folder).expect("it runs"));
    for member in [first, second, third] {
        member.process.stop().await;
    }

    let (record, process) = recover::alone(record, &launch, &admin, PATIENCE)
        .await
        .expect("it goes on");
    assert_eq!(healthy(&admin, 1).await.len(), 1);
    let in_use = wal::commit_all(&launch.data());
    assert!(
        matches!(in_use, Err(control_etcd::Error::File { .. })),
        "{in_use:?}"
    );
    process.stop().await;
    record.save(&launch.folder).expect("saved");
    // As every start is.
    let record = Record::load(&launch.folder).expect("read").expect("there");
    let process = Process::start(record.clone(), launch.clone());
    join::serving(&admin, &record.local_url(), PATIENCE)
        .await
        .expect("serves");
    let alone = Member {
        record,
        launch,
        process,
    };
    let mut client = cluster.client(&alone).await;
    let found = client.get("key", None).await.expect("read");
    assert_eq!(found.kvs()[0].value(), b"kept");
    client.put("key", "written", None).await.expect("written");
    let another = join_one(&cluster, &admin, "d").await;
    assert_eq!(healthy(&admin, 2).await.len(), 2);
    another.process.stop().await;
    alone.process.stop().await;
}
