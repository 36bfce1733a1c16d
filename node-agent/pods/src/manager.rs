//! Gives every pod of the node its worker, and watches the runtime for all.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control_client::{Change, Reflector};
use node_agent_kubelet_server::SyncLoopHealth;
use node_agent_objects::pod::Pod;
use node_agent_pod_registry::EvictionRequest;
use node_agent_pod_volumes::growth::{self, GrownClaims};
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::pod::context::PodContext;
use crate::pod::worker;
use crate::static_pods::{self, StaticPods};

use self::mirror_pods::{MIRRORS_EVERY, MirrorPods};

mod mirror_pods;
mod orphans;
mod runtime_watch;

/// How often what belongs to no pod is looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// What tells the manager that something is to be done.
pub struct ManagerInputs {
    /// The pods that the API has for this node.
    pub pods: Reflector<Pod>,
    /// Pods that the node ends.
    pub orders: mpsc::UnboundedReceiver<EvictionRequest>,
    /// Uids of pods that are to look at everything, said and heard.
    pub nudges: (
        mpsc::UnboundedSender<String>,
        mpsc::UnboundedReceiver<String>,
    ),
    /// Claims whose volumes have grown.
    pub grown: GrownClaims,
    /// Whether the loop over all pods goes round.
    pub pulse: Arc<SyncLoopHealth>,
}

/// Runs the node's pods until `shutdown`; what runs goes on after it. Pods of
/// the API wait until what they need is `known`; static pods do not.
pub async fn run(
    shared: Arc<PodContext>,
    inputs: ManagerInputs,
    known: impl Future<Output = ()> + Send,
    shutdown: CancellationToken,
) {
    let ManagerInputs {
        pods,
        mut orders,
        nudges: (nudges, mut nudged),
        grown,
        pulse,
    } = inputs;
    let (done, mut finished) = mpsc::unbounded_channel();
    let (with, end) = (shared.clone(), shutdown.clone());
    let watcher = control_supervise::task("runtime-watcher")
        .spawn_restarting(move || runtime_watch::run(with.clone(), nudges.clone(), end.clone()));
    let mut workers: FxHashMap<String, worker::WorkerHandle> = FxHashMap::default();
    let mut changes = pods.changes();
    let mut grown = grown.follow();
    let mut sweep = Instant::now();
    let mut synced = false;
    let mut statics = statics(&shared);
    tokio::pin!(known);
    let mut is_known = false;
    let first = statics.borrow_and_update().clone();
    apply_statics(&shared, &mut workers, &done, &first);
    let mut mirrors = MirrorPods::default();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            () = pulse.asked() => pulse.answer(),
            () = &mut known, if !is_known => is_known = true,
            change = changes.recv(), if is_known => {
                let Some(change) = change else { break };
                mirrors.note(&change);
                apply(&shared, &mut workers, &done, change);
                mirrors.tell_workers(&statics, &workers);
            }
            changed = statics.changed() => {
                if changed.is_err() {
                    break;
                }
                let now = statics.borrow_and_update().clone();
                apply_statics(&shared, &mut workers, &done, &now);
                mirrors.tell_workers(&statics, &workers);
            }
            () = tokio::time::sleep_until(mirrors.due.into()), if synced => {
                mirrors.due = Instant::now() + MIRRORS_EVERY;
                let steps = static_pods::plan(&statics.borrow(), &mirrors.all());
                for step in steps {
                    tokio::spawn(mirror_pods::sync(shared.clone(), statics.borrow().clone(), step));
                }
            }
            uid = finished.recv() => {
                if let Some(uid) = uid {
                    workers.remove(&uid);
                }
            }
            changed = nudged.recv() => {
                let Some(uid) = changed else { break };
                if let Some(worker) = workers.get(&uid) {
                    worker.nudge();
                }
            }
            claim = growth::next(&mut grown) => {
                for entry in shared.pods.all() {
                    let worker = workers.get(entry.pod.uid());
                    if let Some(worker) = worker.filter(|_| claim.is_of(&entry.pod)) {
                        worker.refresh_volumes();
                    }
                }
            }
            order = orders.recv() => {
                if let Some(order) = order
                    && let Some(worker) = workers.get(&order.uid)
                {
                    worker.end(order.sentence, order.grace);
                }
            }
            () = pods.synced(), if !synced && is_known => {
                synced = true;
                sweep = Instant::now();
                // what the first list brought comes first
                while let Some(change) = changes.try_recv() {
                    mirrors.note(&change);
                    apply(&shared, &mut workers, &done, change);
                }
                shared.allocations.retain(|uid| workers.contains_key(uid));
                orphans::sweep(&shared, &workers);
            }
            () = tokio::time::sleep_until((sweep + SWEEP_EVERY).into()), if synced => {
                sweep = Instant::now();
                orphans::sweep(&shared, &workers);
            }
        }
    }
    watcher.abort();
}

/// The static pods of the node; nothing ever where there is no folder.
fn statics(shared: &PodContext) -> watch::Receiver<StaticPods> {
    let folder = shared.settings.static_pods.clone();
    let (node, every) = (shared.node.name.clone(), shared.settings.static_every);
    // at once, or what they left running would be taken for nobody's
    let first = folder.as_deref().map(|f| static_pods::read(f, &node));
    let (out, statics) = watch::channel(first.unwrap_or_default());
    let out = Arc::new(out);
    control_supervise::task("static-pods").spawn_restarting(move || {
        let (folder, node, out) = (folder.clone(), node.clone(), out.clone());
        async move {
            match folder {
                Some(folder) => static_pods::watch(folder, node, every, &out).await,
                // kept open
                None => out.closed().await,
            }
        }
    });
    statics
}

fn apply_statics(
    shared: &Arc<PodContext>,
    workers: &mut FxHashMap<String, worker::WorkerHandle>,
    done: &mpsc::UnboundedSender<String>,
    now: &StaticPods,
) {
    for entry in shared.pods.all() {
        let uid = entry.pod.uid();
        if entry.pod.is_static()
            && !now.contains_key(uid)
            && let Some(worker) = workers.get(uid)
        {
            shared.pods.disown(uid);
            worker.gone();
        }
    }
    for (uid, one) in now {
        if !workers.contains_key(uid) {
            let handle = worker::spawn(shared.clone(), one.pod.clone(), done.clone());
            workers.insert(uid.clone(), handle);
        }
    }
}

fn apply(
    shared: &Arc<PodContext>,
    workers: &mut FxHashMap<String, worker::WorkerHandle>,
    done: &mpsc::UnboundedSender<String>,
    change: Change<Pod>,
) {
    // a pod of the same name may have replaced another between two looks
    if let Some(previous) = &change.previous
        && change
            .current
            .as_ref()
            .is_none_or(|c| c.uid() != previous.uid())
        && let Some(worker) = workers.get(previous.uid())
    {
        shared.pods.disown(previous.uid());
        worker.gone();
    }
    if let Some(pod) = change.current.filter(|pod| !pod.is_mirror()) {
        match workers.get(pod.uid()) {
            Some(worker) => worker.set(pod),
            None => {
                let uid = pod.uid().to_owned();
                workers.insert(uid, worker::spawn(shared.clone(), pod, done.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing;
    use node_agent_cri::fake::Fake;
    use node_agent_kubelet_config::Settings;

    fn inputs(pods: Reflector<Pod>) -> (ManagerInputs, mpsc::UnboundedSender<EvictionRequest>) {
        let (sender, orders) = mpsc::unbounded_channel();
        let inputs = ManagerInputs {
            pods,
            orders,
            nudges: mpsc::unbounded_channel(),
            grown: GrownClaims::default(),
            pulse: Arc::default(),
        };
        (inputs, sender)
    }

    #[tokio::test]
    async fn static_pods_run_and_are_restarted_after_the_tasks_of_the_manager_panicked() {
        let supervisor = control_supervise::Supervisor::new();
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("manifests");
        fs::create_dir(&folder).unwrap();
        let write = |name: &str| {
            let pod = serde_json::json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {"containers": [{"name": name, "image": "i"}]}
            });
            fs::write(folder.join(format!("{name}.yaml")), pod.to_string()).unwrap();
        };
        write("a");
        let test = async {
            let runtime = Fake::default();
            let written = testing::Written::default();
            let mut shared = testing::context(&runtime, root.path(), written);
            shared.settings = Arc::new(Settings {
                static_pods: Some(folder.clone()),
                static_every: Duration::from_millis(100),
                ..Settings::default()
            });
            let shared = Arc::new(shared);
            let all = control_client::Selection::all();
            let pods = control_client::reflect::<Pod>(&shared.client, all);
            let shutdown = CancellationToken::new();
            let (inputs, _orders) = inputs(pods);
            let unknown = std::future::pending();
            let manager = run(shared.clone(), inputs, unknown, shutdown.clone());
            let own = supervisor.clone();
            let manager = tokio::spawn(async move { own.scope(manager).await });
            let until = async |what: &str, holds: &dyn Fn() -> bool| {
                for _ in 0..3000 {
                    if holds() {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                panic!("never came: {what}; {:?}", runtime.running());
            };
            until("a", &|| runtime.running() == ["a"]).await;
            let panics = async |name: &'static str| {
                let before = supervisor.restarts(name);
                assert!(supervisor.panic(name) > 0, "{name}");
                until(name, &|| supervisor.restarts(name) > before).await;
            };
            panics("static-pods").await;
            write("b");
            until("b", &|| runtime.running() == ["a", "b"]).await;
            panics("runtime-watcher").await;
            until("health", &|| supervisor.unhealthy().is_empty()).await;
            let starts = || {
                let calls = runtime.calls();
                calls.iter().filter(|it| it.starts_with("start a")).count()
            };
            let before = starts();
            assert!(runtime.exit("a", 1));
            until("a again", &|| {
                starts() > before && runtime.running() == ["a", "b"]
            })
            .await;
            assert_eq!(supervisor.failure(), None);
            shutdown.cancel();
            manager.await.unwrap();
        };
        supervisor.scope(test).await;
    }

    #[tokio::test]
    async fn who_asks_for_its_pulse_is_answered_before_the_api_and_never_after_the_end() {
        let root = tempfile::tempdir().unwrap();
        let written = testing::Written::default();
        let shared = testing::context(&Fake::default(), root.path(), written);
        let shared = Arc::new(shared);
        let pods = control_client::reflect::<Pod>(&shared.client, control_client::Selection::all());
        let shutdown = CancellationToken::new();
        let unknown = std::future::pending();
        let (inputs, _orders) = inputs(pods);
        let pulse = inputs.pulse.clone();
        let manager = run(shared, inputs, unknown, shutdown.clone());
        let manager = tokio::spawn(manager);
        assert!(pulse.beats(Duration::from_secs(60)).await);
        assert!(pulse.beats(Duration::from_secs(60)).await);
        shutdown.cancel();
        manager.await.unwrap();
        assert!(!pulse.beats(Duration::from_millis(50)).await);
    }
}
