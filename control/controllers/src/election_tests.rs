//! Tests that one of several processes on one API server leads, in virtual time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use control_client::lease::Election;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fake_api::FakeApi;
use crate::{Config, Error, run};

const MAP: &str = "/api/v1/namespaces/n/configmaps/kube-root-ca.crt";
const SECOND: Duration = Duration::from_secs(1);
/// The lease time of 15 s, once more the longest pause of a candidate of 4.4 s before it sees
/// the last renewal and after the lease is over, and the second in which work appears.
const TAKEOVER: Duration = Duration::from_secs(25);

/// The fate of a process's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    Good,
    /// No request is answered.
    Silent,
    /// Requests about the lease are refused; all others are answered.
    RefusesLease,
}

/// A process that runs controllers.
struct Process {
    network: Arc<Mutex<Network>>,
    /// When it wrote something other than the lease.
    writes: Arc<Mutex<Vec<Instant>>>,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
}

impl Process {
    fn start(api: &FakeApi, identity: &str) -> Self {
        let network = Arc::new(Mutex::new(Network::Good));
        let writes: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let (state, log) = (Arc::clone(&network), Arc::clone(&writes));
        let client = api.client_with_faults(move |method, path| {
            let is_lease = path.contains("/leases");
            let network = *state.lock().unwrap();
            if network != Network::Silent && method != http::Method::GET && !is_lease {
                log.lock().unwrap().push(Instant::now());
            }
            async move {
                match network {
                    Network::Silent => std::future::pending().await,
                    Network::RefusesLease if is_lease => Some(500),
                    _ => None,
                }
            }
        });
        let config = Config {
            controllers: vec!["root-ca-certificate-publisher-controller".to_owned()],
            root_ca_pem: Some("pem".to_owned()),
            election: Some(Election::new(
                "kube-system",
                "kube-controller-manager",
                identity,
            )),
            ..Config::default()
        };
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(run(client, config, shutdown.clone()));
        Self {
            network,
            writes,
            shutdown,
            task,
        }
    }

    fn set(&self, network: Network) {
        *self.network.lock().unwrap() = network;
    }

    fn writes_since(&self, time: Instant) -> Vec<Instant> {
        let mut writes = self.writes.lock().unwrap().clone();
        writes.retain(|at| *at >= time);
        writes
    }
}

/// Deletes what the leader creates, each second for some seconds.
async fn work_for(api: &FakeApi, seconds: u32) {
    for _ in 0..seconds {
        api.remove(MAP);
        tokio::time::sleep(SECOND).await;
    }
}

async fn two() -> (FakeApi, Process, Process) {
    let api = FakeApi::new();
    api.put("/api/v1/namespaces/n", json!({}));
    let first = Process::start(&api, "first");
    tokio::time::sleep(SECOND).await;
    let second = Process::start(&api, "second");
    (api, first, second)
}

#[tokio::test(start_paused = true)]
async fn one_of_two_works_and_the_other_takes_over_within_the_lease_time() {
    let (api, first, second) = two().await;
    let began = Instant::now();
    work_for(&api, 60).await;
    assert!(first.writes_since(began).len() > 50);
    assert!(second.writes_since(began).is_empty());

    // The first is cut off: the second leads once the lease is over.
    first.set(Network::Silent);
    let cut = Instant::now();
    work_for(&api, 60).await;
    let taken = second.writes_since(cut)[0] - cut;
    assert!(taken <= TAKEOVER, "{taken:?}");

    // The first is back, and does not work while the second leads.
    first.set(Network::Good);
    let back = Instant::now();
    work_for(&api, 60).await;
    assert!(first.writes_since(back).is_empty());
    assert!(second.writes_since(back).len() > 50);

    // It leads again when the second stops, immediately since that releases the lease.
    second.shutdown.cancel();
    assert!(second.task.await.unwrap().is_ok());
    let ended = Instant::now();
    work_for(&api, 30).await;
    let taken = first.writes_since(ended)[0] - ended;
    assert!(taken <= Duration::from_secs(6), "{taken:?}");
    assert!(!first.task.is_finished());
}

#[tokio::test(start_paused = true)]
async fn leader_that_cannot_renew_stops_before_another_begins_and_lives_on() {
    let (api, first, second) = two().await;
    work_for(&api, 20).await;
    first.set(Network::RefusesLease);
    let cut = Instant::now();
    work_for(&api, 60).await;
    let last = *first.writes_since(cut).last().unwrap();
    let begins = second.writes_since(cut)[0];
    assert!(last < begins, "{:?} and {:?}", last - cut, begins - cut);
    assert!(begins - cut <= TAKEOVER);
    assert!(!first.task.is_finished());
}

#[tokio::test(start_paused = true)]
async fn controllers_go_on_after_the_only_server_was_away() {
    let api = FakeApi::new();
    api.put("/api/v1/namespaces/n", json!({}));
    let only = Process::start(&api, "only");
    work_for(&api, 10).await;
    only.set(Network::Silent);
    work_for(&api, 300).await;
    only.set(Network::Good);
    let back = Instant::now();
    work_for(&api, 120).await;
    let resumed = only.writes_since(back)[0] - back;
    assert!(resumed <= Duration::from_secs(10), "{resumed:?}");
    assert!(!only.task.is_finished());
}
