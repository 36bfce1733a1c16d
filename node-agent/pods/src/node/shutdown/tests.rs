//! A shutdown from logind's word to the release of its inhibitor, over a
//! logind of the test's own, a pod's worker and the fake runtime. What this
//! cannot show is a machine that goes down.

use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zbus::object_server::SignalEmitter;
use zbus::{Connection, connection, interface};

use super::*;
use crate::cri::fake::Fake;
use crate::settings::Settings;
use crate::testing::Run;

/// Logind, and systemd beside it.
#[derive(Clone, Default)]
struct Login(Arc<Mutex<Facts>>);

#[derive(Default)]
struct Facts {
    /// What it reads again when systemd has it hang up.
    drop_ins: PathBuf,
    limit: u64,
    /// The other ends of inhibitors.
    held: Vec<UnixStream>,
}

impl Login {
    /// Whether anything delays the shutdown.
    fn is_inhibited(&self) -> bool {
        let facts = self.0.lock().unwrap();
        facts.held.iter().any(|end| {
            let mut polled = [PollFd::new(end, PollFlags::IN)];
            poll(&mut polled, Some(&Timespec::default())).unwrap();
            !polled[0].revents().contains(PollFlags::HUP)
        })
    }

    fn taken(&self) -> usize {
        self.0.lock().unwrap().held.len()
    }
}

#[interface(name = "org.freedesktop.login1.Manager")]
impl Login {
    #[zbus(property, name = "InhibitDelayMaxUSec")]
    fn limit(&self) -> u64 {
        self.0.lock().unwrap().limit
    }

    fn inhibit(&self, what: &str, _who: &str, _why: &str, mode: &str) -> zbus::OwnedFd {
        assert_eq!((what, mode), ("shutdown", "delay"));
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.0.lock().unwrap().held.push(ours);
        std::os::fd::OwnedFd::from(theirs).into()
    }

    #[zbus(signal)]
    async fn prepare_for_shutdown(of: &SignalEmitter<'_>, begins: bool) -> zbus::Result<()>;
}

struct Systemd(Login);

#[interface(name = "org.freedesktop.systemd1.Manager")]
impl Systemd {
    fn kill_unit(&self, unit: &str, whom: &str, signal: i32) {
        assert_eq!((unit, whom, signal), ("systemd-logind.service", "all", 1));
        let mut facts = self.0.0.lock().unwrap();
        let text = std::fs::read_to_string(facts.drop_ins.join("99-kubelet.conf")).unwrap();
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix("InhibitDelayMaxSec="));
        facts.limit = line.unwrap().parse::<u64>().unwrap() * 1_000_000;
    }
}

/// Both ends of a bus with nobody between.
async fn machine(login: &Login) -> (Logind, Connection) {
    let (theirs, ours) = UnixStream::pair().unwrap();
    let server = connection::Builder::unix_stream(theirs)
        .server(zbus::Guid::generate())
        .p2p()
        .serve_at("/org/freedesktop/login1", login.clone())
        .serve_at("/org/freedesktop/systemd1", Systemd(login.clone()))
        .build();
    let client = connection::Builder::unix_stream(ours).p2p().build();
    let (server, client) = tokio::try_join!(server, client).unwrap();
    (Logind::over(client).await.unwrap(), server)
}

async fn until(what: &str, is: impl Fn() -> bool) {
    for _ in 0..900 {
        if is() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("not {what}");
}

#[tokio::test]
async fn a_shutdown_waits_for_pods_and_then_goes_on() {
    let drop_ins = tempfile::tempdir().unwrap();
    let login = Login::default();
    login.0.lock().unwrap().drop_ins = drop_ins.path().join("logind.conf.d");
    let (logind, server) = machine(&login).await;
    let spec = serde_json::json!({"terminationGracePeriodSeconds": 7,
        "containers": [{"name": "a", "image": "i"}]});
    let run = Run::begin_with(spec, Fake::default(), |shared| {
        let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
                    shutdownGracePeriod: 180s\nshutdownGracePeriodCriticalPods: 60s\n";
        shared.settings = Settings::parse(text).unwrap();
        shared.leaving = NodeShutdown::new(&shared.root);
    });
    run.until("running", |r| r.phase() == "Running").await;

    let (shared, folder) = (run.shared.clone(), drop_ins.path().join("logind.conf.d"));
    let follows = tokio::spawn(async move {
        let periods = shared.settings.shutdown.clone();
        follow(&shared, &logind, &folder, &periods).await
    });
    until("inhibited", || login.is_inhibited()).await;
    assert_eq!(login.0.lock().unwrap().limit, 180_000_000);
    let emitter = SignalEmitter::new(&server, "/org/freedesktop/login1").unwrap();
    Login::prepare_for_shutdown(&emitter, true).await.unwrap();
    run.until("let go", |_| !login.is_inhibited()).await;
    // not before the pod was through
    let entry = run.shared.pods.find("default", "web").unwrap();
    assert_eq!(entry.status.phase, "Failed");
    assert_eq!(entry.status.reason, "Terminated");
    assert_eq!(entry.status.message, MESSAGE);
    let disrupted = entry.status.condition("DisruptionTarget").unwrap();
    assert_eq!(disrupted.reason, "TerminationByKubelet");
    assert!(run.runtime.running().is_empty());
    let calls = run.runtime.calls();
    let is_stop = |call: &String| call.starts_with("stop a-") && call.ends_with(" within 7");
    assert!(calls.iter().any(is_stop), "{calls:?}");
    assert!(!run.shared.root.join("pods/u").exists());
    assert!(run.shared.leaving.is_now());
    let last = NodeShutdown::new(&run.shared.root).last();
    assert!(last.start_time.is_some() && last.end_time >= last.start_time);

    // called off: the next one is delayed again
    Login::prepare_for_shutdown(&emitter, false).await.unwrap();
    until("inhibited again", || login.is_inhibited()).await;
    assert_eq!(login.taken(), 2);
    assert!(!run.shared.leaving.is_now());
    server.close().await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), follows).await;
    ended.expect("ends with the bus").unwrap().unwrap();
}

#[tokio::test]
async fn a_node_that_goes_down_takes_no_pods() {
    let spec = serde_json::json!({"containers": [{"name": "a", "image": "i"}]});
    let run = Run::begin_with(spec, Fake::default(), |shared| {
        shared.leaving = NodeShutdown::new(&shared.root);
        shared.leaving.set(true);
    });
    run.until("refused", |r| r.phase() == "Failed").await;
    let entry = run.shared.pods.find("default", "web").unwrap();
    assert_eq!(entry.status.reason, "NodeShutdown");
    assert!(run.runtime.is_empty(), "{}", run.runtime);
}

#[test]
fn the_last_shutdown_is_read_as_the_kubelet_wrote_it() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"{"startTime":"2026-01-02T03:04:05.678901234Z","endTime":"0001-01-01T00:00:00Z"}"#;
    std::fs::write(dir.path().join(STATE), text).unwrap();
    let leaving = NodeShutdown::new(dir.path());
    assert_eq!(leaving.last().end_time, None);
    let again = leaving.last();
    leaving.note(again);
    assert_eq!(
        std::fs::read_to_string(dir.path().join(STATE)).unwrap(),
        text
    );
}
