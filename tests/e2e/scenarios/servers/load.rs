//! Clients that read and write while servers come and go, and what they saw.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use control_client::{Client, Patch, resources};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tests::{
    Cluster, Failure, ensure,
    history::{Action, Operation, is_linearizable},
};
use tokio_util::sync::CancellationToken;

const KEYS: usize = 3;
const CLIENTS: usize = 4;
const NAMESPACE: &str = "default";
/// Pause between a client's operations.
const PAUSE: Duration = Duration::from_millis(40);
/// How long one attempt may take; what is not answered by then is asked again.
const ATTEMPT: Duration = Duration::from_secs(1);

/// Clients that work until they are ended.
pub struct Load {
    runtime: tokio::runtime::Runtime,
    stop: CancellationToken,
    seen: Arc<Mutex<Outcome>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// What the clients saw.
#[derive(Debug, Default)]
pub struct Outcome {
    histories: BTreeMap<String, Vec<Operation>>,
    latencies: Vec<Duration>,
    /// Revisions of acknowledged writes.
    written: BTreeSet<u64>,
    /// Events in their order: object and revision.
    pub watched: Vec<(String, u64)>,
}

fn lock(seen: &Mutex<Outcome>) -> std::sync::MutexGuard<'_, Outcome> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Load {
    /// Starts the clients, over the address of all servers.
    pub fn start(cluster: &Cluster) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let (stop, seen) = (CancellationToken::new(), Arc::<Mutex<Outcome>>::default());
        let path = cluster.kubeconfig();
        let began = Instant::now();
        let first = runtime.block_on(async {
            let client = Client::from_kubeconfig(&path).await?;
            let mut revision = String::new();
            for key in 0..KEYS {
                let body = json!({"metadata": {"name": name(key)}, "data": {"value": "0"}});
                let made: Value = client
                    .create(&resources::CONFIG_MAPS, NAMESPACE, &body)
                    .await?;
                revision = made["metadata"]["resourceVersion"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
            }
            Ok::<_, Failure>(revision)
        })?;
        let mut tasks = Vec::new();
        for number in 0..CLIENTS {
            let (stop, seen, path) = (stop.clone(), Arc::clone(&seen), path.clone());
            tasks.push(runtime.spawn(async move {
                let Ok(client) = Client::from_kubeconfig(&path).await else {
                    return;
                };
                work(client, number, began, stop, seen).await;
            }));
        }
        {
            let seen = Arc::clone(&seen);
            tasks.push(runtime.spawn(async move {
                let Ok(client) = Client::from_kubeconfig(&path).await else {
                    return;
                };
                watch(client, first, seen).await;
            }));
        }
        Ok(Self {
            runtime,
            stop,
            seen,
            tasks,
        })
    }

    /// Ends the clients, then the watch, once it has heard of the last write or had the time to.
    pub fn end(self) -> Result<Outcome, Failure> {
        let Self {
            runtime,
            stop,
            seen,
            mut tasks,
        } = self;
        let watch = tasks.pop();
        stop.cancel();
        runtime.block_on(async {
            for task in tasks {
                let _ = tokio::time::timeout(Duration::from_secs(30), task).await;
            }
            for _ in 0..200 {
                let has_heard = {
                    let seen = lock(&seen);
                    let last = seen.watched.last().map_or(0, |(_, at)| *at);
                    seen.written.last().is_none_or(|written| *written <= last)
                };
                if has_heard {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            if let Some(watch) = watch {
                watch.abort();
                let _ = watch.await;
            }
        });
        runtime.shutdown_timeout(Duration::from_secs(5));
        Ok(std::mem::take(&mut *lock(&seen)))
    }
}

fn name(key: usize) -> String {
    format!("register-{key}")
}

fn revision_of(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

/// One client: writes and reads in turn, each until it is answered.
async fn work(
    client: Client,
    number: usize,
    epoch: Instant,
    stop: CancellationToken,
    seen: Arc<Mutex<Outcome>>,
) {
    let micros = || u64::try_from(epoch.elapsed().as_micros()).unwrap_or(u64::MAX);
    let mut step = 0_u64;
    while !stop.is_cancelled() {
        step += 1;
        let name = name((number + usize::try_from(step).unwrap_or(0)) % KEYS);
        let started = Instant::now();
        loop {
            let began = micros();
            // Each attempt of a write has a value of its own: one of an attempt that failed may
            // still come.
            let value = 1 + (began << 8 | number as u64);
            let attempt = async {
                if step.is_multiple_of(2) {
                    let object: Value = client
                        .get(&resources::CONFIG_MAPS, NAMESPACE, &name)
                        .await?;
                    let read = object["data"]["value"].as_str().unwrap_or_default();
                    Ok((Action::Read(read.parse().unwrap_or(u64::MAX)), None))
                } else {
                    let body = json!({"data": {"value": value.to_string()}});
                    let patch = Patch::Merge(&body);
                    let object: Value = client
                        .patch(&resources::CONFIG_MAPS, NAMESPACE, &name, "", patch)
                        .await?;
                    Ok((Action::Write(value), revision_of(&object)))
                }
            };
            let answer: Option<Result<_, control_client::Error>> =
                tokio::time::timeout(ATTEMPT, attempt).await.ok();
            let answered = answer.and_then(Result::ok);
            if note(&seen, &name, answered, began, micros(), started) {
                break;
            }
            if step % 2 == 1 {
                note_unknown(&seen, &name, value, began);
            }
            if stop.is_cancelled() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Takes an answer down; returns whether there was one.
fn note(
    seen: &Mutex<Outcome>,
    name: &str,
    answered: Option<(Action, Option<u64>)>,
    began: u64,
    ended: u64,
    started: Instant,
) -> bool {
    let Some((action, revision)) = answered else {
        return false;
    };
    let mut seen = lock(seen);
    seen.written.extend(revision);
    seen.latencies.push(started.elapsed());
    let history = seen.histories.entry(name.to_owned()).or_default();
    history.push(Operation {
        action,
        began,
        ended: Some(ended),
    });
    true
}

/// Takes a write down whose fate is unknown.
fn note_unknown(seen: &Mutex<Outcome>, name: &str, value: u64, began: u64) {
    let mut seen = lock(seen);
    let history = seen.histories.entry(name.to_owned()).or_default();
    history.push(Operation {
        action: Action::Write(value),
        began,
        ended: None,
    });
}

/// Watches from a revision on, and goes on from the last event where the watch breaks off.
async fn watch(client: Client, mut revision: String, seen: Arc<Mutex<Outcome>>) {
    let api: Api<ConfigMap> = Api::namespaced(client.kube().clone(), NAMESPACE);
    loop {
        let parameters = WatchParams::default().timeout(60);
        if let Ok(stream) = api.watch(&parameters, &revision).await {
            let mut stream = stream.boxed();
            while let Some(Ok(event)) = stream.next().await {
                let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else {
                    continue;
                };
                let at = object.metadata.resource_version.unwrap_or_default();
                let name = object.metadata.name.unwrap_or_default();
                lock(&seen)
                    .watched
                    .push((name, at.parse().unwrap_or_default()));
                revision = at;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

impl Outcome {
    /// How many operations were answered.
    pub fn operations(&self) -> usize {
        self.latencies.len()
    }

    /// How many writes nobody knows the fate of.
    pub fn unknown(&self) -> usize {
        let all = self.histories.values().flatten();
        all.filter(|one| one.ended.is_none()).count()
    }

    /// The time within which so many of a hundred operations were answered, all attempts of each
    /// together.
    pub fn percentile(&self, of_hundred: usize) -> Duration {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * of_hundred).div_ceil(100).saturating_sub(1);
        sorted.get(at).copied().unwrap_or_default()
    }

    /// No acknowledged write is lost and no read is stale.
    pub fn check_history(&self) -> Result<(), Failure> {
        for (name, history) in &self.histories {
            ensure(
                is_linearizable(history),
                format!("the history of {name} is not linearizable: {history:?}"),
            )?;
        }
        Ok(())
    }

    /// Every acknowledged write is watched once, in the order of revisions.
    pub fn check_watch(&self) -> Result<(), Failure> {
        let revisions: Vec<u64> = self.watched.iter().map(|(_, at)| *at).collect();
        let backwards = revisions.windows(2).find(|pair| pair[0] >= pair[1]);
        ensure(
            backwards.is_none(),
            format!("the watch repeated itself: {backwards:?}"),
        )?;
        let watched: BTreeSet<u64> = revisions.into_iter().collect();
        let missed: Vec<&u64> = self.written.difference(&watched).collect();
        ensure(missed.is_empty(), format!("the watch missed {missed:?}"))
    }
}
