//! Gives every pod of the node its worker, and watches the runtime for all.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control_client::{Change, DeleteOptions, Reflector, View};
use futures::StreamExt;
use node_agent_cri::observed::key;
use node_agent_cri::{Runtime, api, observe, origin};
use node_agent_kubelet_server::SyncLoopHealth;
use node_agent_objects::error_chain;
use node_agent_objects::pod::Pod;
use node_agent_pod_registry::EvictionRequest;
use node_agent_pod_volumes::growth::GrownClaims;
use node_agent_pod_volumes::{PodVolumes, growth};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::pod::context::PodContext;
use crate::pod::{kill, worker};
use crate::static_pods::{self, MirrorStep, StaticPods};

/// How often the runtime is asked what it has: when nothing is going on, when
/// something is starting, and when the runtime tells of changes itself.
const IDLE: Duration = Duration::from_secs(1);
const BUSY: Duration = Duration::from_millis(150);
const TOLD: Duration = Duration::from_secs(10);

/// How often what belongs to no pod is looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// How often mirror pods are compared with what they mirror.
const MIRRORS_EVERY: Duration = Duration::from_secs(1);

/// Seconds that a container gets whose pod is gone and says nothing.
const ORPHAN_GRACE: i64 = 30;

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
        .spawn_restarting(move || watch_runtime(with.clone(), nudges.clone(), end.clone()));
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
                mirrors.tell(&statics, &workers);
            }
            changed = statics.changed() => {
                if changed.is_err() {
                    break;
                }
                let now = statics.borrow_and_update().clone();
                apply_statics(&shared, &mut workers, &done, &now);
                mirrors.tell(&statics, &workers);
            }
            () = tokio::time::sleep_until(mirrors.due.into()), if synced => {
                mirrors.due = Instant::now() + MIRRORS_EVERY;
                let steps = static_pods::plan(&statics.borrow(), &mirrors.all());
                for step in steps {
                    tokio::spawn(mirror(shared.clone(), statics.borrow().clone(), step));
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
                sweep_orphans(&shared, &workers);
            }
            () = tokio::time::sleep_until((sweep + SWEEP_EVERY).into()), if synced => {
                sweep = Instant::now();
                sweep_orphans(&shared, &workers);
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

/// The mirror pods in the API, by uid.
struct MirrorPods {
    all: FxHashMap<String, Arc<Pod>>,
    /// When they are compared with what they mirror.
    due: Instant,
}

impl Default for MirrorPods {
    fn default() -> Self {
        Self {
            all: FxHashMap::default(),
            due: Instant::now(),
        }
    }
}

impl MirrorPods {
    fn note(&mut self, change: &Change<Pod>) {
        if let Some(previous) = &change.previous {
            self.all.remove(previous.uid());
        }
        if let Some(pod) = change.current.as_ref().filter(|pod| pod.is_mirror()) {
            self.all.insert(pod.uid().to_owned(), pod.clone());
        }
    }

    fn all(&self) -> Vec<Arc<Pod>> {
        self.all.values().cloned().collect()
    }

    /// Tells static pods of their mirrors.
    fn tell(
        &self,
        statics: &watch::Receiver<StaticPods>,
        workers: &FxHashMap<String, worker::WorkerHandle>,
    ) {
        for (uid, one) in statics.borrow().iter() {
            let mirror = self
                .all
                .values()
                .find(|m| m.name() == one.pod.name() && m.namespace() == one.pod.namespace());
            if let Some(worker) = workers.get(uid) {
                worker.mirror(mirror.cloned());
            }
        }
    }
}

/// Makes or deletes a mirror pod. What fails is tried again by the next look.
async fn mirror(shared: Arc<PodContext>, statics: StaticPods, step: MirrorStep) {
    let failed = match step {
        MirrorStep::Create(uid) => {
            let Some(one) = statics.get(&uid) else { return };
            let Some(node) = shared.node_object.get("", &shared.node.name) else {
                return;
            };
            let mut body = one.mirror.clone();
            body["metadata"]["ownerReferences"] = serde_json::json!([{
                "apiVersion": "v1",
                "kind": "Node",
                "name": shared.node.name,
                "uid": node.meta().uid,
                "controller": true,
            }]);
            let namespace = one.pod.namespace();
            shared
                .client
                .create::<control_client::Discard>(&Pod::RESOURCE, namespace, &body)
                .await
                .err()
                .filter(|error| !error.is_already_exists())
        }
        MirrorStep::Delete(namespace, name, uid) => {
            let options = DeleteOptions::of_uid(uid).grace(0);
            shared
                .client
                .delete(&Pod::RESOURCE, &namespace, &name, &options)
                .await
                .err()
                .filter(|error| !error.is_not_found() && !error.is_conflict())
        }
    };
    if let Some(error) = failed {
        tracing::warn!(error = error.chain(), "failed to sync mirror pod");
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

/// Ends and removes what belongs to no pod of the API.
fn sweep_orphans(shared: &Arc<PodContext>, workers: &FxHashMap<String, worker::WorkerHandle>) {
    let known: FxHashSet<String> = workers.keys().cloned().collect();
    let shared = shared.clone();
    tokio::spawn(async move {
        let mut uids: BTreeSet<String> = BTreeSet::new();
        if let Ok(found) = look(&*shared.runtime).await {
            uids.extend(found.into_keys());
        } else {
            return;
        }
        if let Ok(entries) = fs::read_dir(shared.node.root.join("pods")) {
            uids.extend(
                entries
                    .flatten()
                    .filter_map(|e| e.file_name().into_string().ok()),
            );
        }
        if let Some(cgroups) = &shared.cgroups {
            uids.extend(cgroups.pods());
        }
        uids.extend(shared.claims.pods());
        let is_known = |uid: &str| {
            known.contains(uid)
                || uids.contains(uid)
                || shared.pods.all().iter().any(|e| e.pod.uid() == uid)
        };
        shared.devices.keep(is_known);
        shared.managers.keep(is_known);
        for uid in uids {
            if !known.contains(&uid) && !shared.pods.all().iter().any(|e| e.pod.uid() == uid) {
                remove_orphan(&shared, &uid).await;
            }
        }
    });
}

async fn remove_orphan(shared: &PodContext, uid: &str) {
    if !is_own(shared, uid).await {
        tracing::debug!(uid, "ignoring a pod of another kubelet");
        return;
    }
    let Ok(observed) = observe::pod(&*shared.runtime, uid, &Default::default()).await else {
        return;
    };
    tracing::info!(uid, "cleaning up a pod that no longer exists");
    let ends = observed
        .containers
        .iter()
        .filter(|c| !c.exited())
        .map(|c| kill::stop(&*shared.runtime, &c.id, ORPHAN_GRACE));
    futures::future::join_all(ends).await;
    for sandbox in &observed.sandboxes {
        let id = || api::SandboxId {
            pod_sandbox_id: sandbox.id.clone(),
        };
        let _ = shared.runtime.stop_pod_sandbox(id()).await;
        if let Err(error) = shared.runtime.remove_pod_sandbox(id()).await {
            tracing::warn!(uid, %error, "failed to remove a sandbox");
            return;
        }
    }
    if let Err(error) = shared.claims.unprepare(uid).await {
        tracing::warn!(
            uid,
            error = error_chain(&error),
            "failed to unprepare resource claims"
        );
    }
    let volumes = PodVolumes::new(&shared.node.root, uid);
    if let Err(error) = shared.csi.release(volumes.pod_dir()).await {
        tracing::warn!(
            uid,
            error = error_chain(&error),
            "failed to unpublish volumes"
        );
        return;
    }
    if let Err(error) = volumes.remove() {
        tracing::warn!(uid, %error, "failed to remove volumes");
    }
    if let Some(cgroups) = &shared.cgroups {
        let _ = cgroups.remove_pod(uid).await;
    }
}

/// Whether this agent made what there is of a pod: all of its sandboxes, or its folder.
/// What is known to nobody else, as a control group without a sandbox, is.
async fn is_own(shared: &PodContext, uid: &str) -> bool {
    let folder = shared.node.root.join("pods").join(uid);
    if origin::is_marked(&folder) {
        return true;
    }
    let selector = [(key::POD_UID.to_owned(), uid.to_owned())].into();
    let request = api::ListPodSandboxRequest {
        filter: Some(api::PodSandboxFilter {
            label_selector: selector,
            ..api::PodSandboxFilter::default()
        }),
    };
    let Ok(found) = shared.runtime.list_pod_sandbox(request).await else {
        return false;
    };
    let mut sandboxes = found.items.iter();
    if sandboxes.len() == 0 {
        return !folder.exists();
    }
    sandboxes.all(|sandbox| origin::is_own(&sandbox.labels))
}

/// Tells of pods whose containers changed: by the runtime's own events where
/// it has them, and by looking.
async fn watch_runtime(
    shared: Arc<PodContext>,
    nudges: mpsc::UnboundedSender<String>,
    shutdown: CancellationToken,
) {
    let mut before: FxHashMap<String, u64> = FxHashMap::default();
    let mut events = shared.runtime.events().await.ok();
    loop {
        let begun = Instant::now();
        if let Ok(now) = look(&*shared.runtime).await {
            shared.metrics.relisted(begun.elapsed());
            for (uid, print) in &now {
                if before.get(uid) != Some(print) && nudges.send(uid.clone()).is_err() {
                    return;
                }
            }
            for uid in before.keys().filter(|uid| !now.contains_key(*uid)) {
                let _ = nudges.send(uid.clone());
            }
            before = now;
        }
        let looked = Instant::now();
        let Some(stream) = &mut events else {
            // short steps, so that a raise of attention is seen soon
            loop {
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(BUSY) => {}
                }
                if shared.attention.is_raised() || looked.elapsed() >= IDLE {
                    break;
                }
            }
            continue;
        };
        let wake = tokio::time::sleep(TOLD);
        tokio::pin!(wake);
        let lost = loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = &mut wake => break false,
                event = stream.next() => match event {
                    Some(Ok(event)) => {
                        let of = event.pod_sandbox_status.and_then(|s| s.metadata);
                        let Some(metadata) = of else { break false };
                        if nudges.send(metadata.uid).is_err() {
                            return;
                        }
                    }
                    Some(Err(error)) if error.is_unimplemented() => {
                        events = None;
                        break false;
                    }
                    Some(Err(_)) | None => break true,
                },
            }
        };
        if lost {
            // the runtime ended; it is asked again when it is back
            tokio::time::sleep(IDLE).await;
            events = shared.runtime.events().await.ok();
        }
    }
}

/// By pod uid: a fingerprint of its sandboxes and containers.
async fn look(runtime: &dyn Runtime) -> node_agent_cri::Result<FxHashMap<String, u64>> {
    use std::hash::{Hash, Hasher};
    let sandboxes = runtime.list_pod_sandbox(api::ListPodSandboxRequest { filter: None });
    let containers = runtime.list_containers(api::ListContainersRequest { filter: None });
    let (sandboxes, containers) = futures::future::try_join(sandboxes, containers).await?;
    let mut all: FxHashMap<String, u64> = FxHashMap::default();
    let mut add = |uid: &str, id: &str, state: i32| {
        let mut hasher = rustc_hash::FxHasher::default();
        (id, state).hash(&mut hasher);
        // order does not matter
        let print = all.entry(uid.to_owned()).or_default();
        *print = print.wrapping_add(hasher.finish());
    };
    for sandbox in &sandboxes.items {
        if let Some(metadata) = sandbox
            .metadata
            .as_ref()
            .filter(|_| sandbox.labels.contains_key(key::POD_UID))
        {
            add(&metadata.uid, &sandbox.id, sandbox.state);
        }
    }
    for container in &containers.containers {
        if let Some(uid) = container.labels.get(key::POD_UID) {
            add(uid, &container.id, container.state + 16);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
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
