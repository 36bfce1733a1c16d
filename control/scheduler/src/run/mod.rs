//! The loop around placement: one task that owns queue and snapshot.

mod bind;
mod changes;
mod extend;
mod failure;
mod gang;
mod permit;

use std::sync::Arc;
use std::time::{Duration, Instant};

use compact_str::CompactString;
use control_client::events::{Format, Recorder};
use control_client::lease::{Election, LeadershipEnd};
use control_client::{Changes, Client, Reflector, Selection, reflect};
use control_types::error_chain;
use rustc_hash::FxHashMap;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use self::bind::{AssumedPod, BindResult};
use crate::catalog::{CatalogChanges, CatalogReflectors};
use crate::cluster::Cluster;
use crate::config::Configuration;
use crate::extender::{Extender, ExtenderConfig, WholeNode};
use crate::features::Features;
use crate::metrics;
use crate::place::{Decision, Placer};
use crate::plugins::Profile;
use crate::queue::{Backoff, Queue};
use crate::snapshot::PodKey;
use crate::view::{Namespace, Node, Pod, PodGroup};

/// The limit on concurrent bindings and status writes. The server's priority and fairness
/// throttles them when that is too much.
const UNDER_WAY: usize = 256;

/// Pods placed before looking for changes again.
const AT_ONCE: usize = 64;

/// How long the first pod waits for the catalog to be known.
const CATALOG_WITHIN: Duration = Duration::from_secs(10);

/// How the scheduler is to work.
#[derive(Clone)]
pub struct Config {
    /// A profile for each `schedulerName` whose pods are placed.
    pub profiles: Vec<Arc<Profile>>,
    /// The enabled features that are off by default.
    pub features: Features,
    /// How long pods back off.
    pub backoff: Backoff,
    /// HTTP services that take part in decisions.
    pub extenders: Vec<ExtenderConfig>,
    /// The election that decides who places pods; `None`: this scheduler is the only one.
    pub election: Option<Election>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            profiles: vec![Arc::new(Profile::default())],
            features: Features::default(),
            backoff: Backoff::default(),
            extenders: Vec::new(),
            election: None,
        }
    }
}

impl Config {
    /// The default profile under these feature gates, for each of these values of
    /// `schedulerName`.
    #[must_use]
    pub fn for_names(names: impl IntoIterator<Item = String>, features: Features) -> Self {
        let profiles = names.into_iter().map(|scheduler_name| {
            Arc::new(Profile {
                scheduler_name,
                ..Profile::with_features(features)
            })
        });
        Self {
            profiles: profiles.collect(),
            features,
            ..Self::default()
        }
    }

    /// Returns the settings of a `KubeSchedulerConfiguration`, read under these feature
    /// gates, without its election.
    #[must_use]
    pub fn from_file(file: Configuration, features: Features) -> Self {
        Self {
            profiles: file.profiles.into_iter().map(Arc::new).collect(),
            features,
            backoff: file.backoff,
            extenders: file.extenders,
            election: None,
        }
    }

    /// The election of the stock kube-scheduler, with this identity.
    #[must_use]
    pub fn elected_as(mut self, identity: &str) -> Self {
        self.election = Some(Election::new("kube-system", "kube-scheduler", identity));
        self
    }

    fn placers(&self) -> FxHashMap<CompactString, Placer> {
        let profiles = self.profiles.iter();
        profiles
            .map(|it| {
                (
                    it.scheduler_name.as_str().into(),
                    Placer::new(Arc::clone(it)),
                )
            })
            .collect()
    }
}

/// Places pods until `shutdown`. With an election, it does so while it leads: when the
/// lease is lost, or cannot be renewed, it pauses and stands for election again.
pub async fn run(client: Client, config: Config, shutdown: CancellationToken) {
    let client = client.named("kube-scheduler");
    let Some(election) = config.election.clone() else {
        metrics::leads(true);
        schedule(client, config, shutdown).await;
        metrics::leads(false);
        return;
    };
    while !shutdown.is_cancelled() {
        let work = |stop| async {
            metrics::leads(true);
            schedule(client.clone(), config.clone(), stop).await;
        };
        let led = Box::pin(election.lead(&client, &shutdown, work)).await;
        metrics::leads(false);
        match led {
            LeadershipEnd::Finished | LeadershipEnd::Shutdown => return,
            LeadershipEnd::Lost => tracing::warn!("scheduling paused, lease lost"),
        }
    }
}

/// Schedules until `shutdown`. After a panic everything is read again.
async fn schedule(client: Client, config: Config, shutdown: CancellationToken) {
    let again = shutdown.clone();
    let run = move || schedule_once(client.clone(), config.clone(), again.clone());
    control_supervise::task("scheduler")
        .until(&shutdown)
        .restarting(run)
        .await;
}

async fn schedule_once(client: Client, config: Config, shutdown: CancellationToken) {
    let nodes: Reflector<Node> = reflect(&client, Selection::all());
    let living = "status.phase!=Succeeded,status.phase!=Failed";
    let pods: Reflector<Pod> = reflect(&client, Selection::all().fields(living));
    let namespaces: Reflector<Namespace> = reflect(&client, Selection::all());
    let objects = CatalogReflectors::start(&client);
    // placing before all nodes and pods are known would crowd the known ones
    tokio::select! {
        () = shutdown.cancelled() => return,
        () = async { nodes.synced().await; pods.synced().await; } => {}
    }
    let pod_groups = tokio::select! {
        () = shutdown.cancelled() => return,
        groups = gang::watch(&client, config.features) => groups,
    };
    // Claims that are not known yet would be reported as missing. A server without one of
    // these resources must not block all pods.
    let catalog_synced = async {
        namespaces.synced().await;
        objects.synced().await;
        if let Some(groups) = &pod_groups {
            groups.synced().await;
        }
    };
    tokio::select! {
        () = shutdown.cancelled() => return,
        synced = tokio::time::timeout(CATALOG_WITHIN, catalog_synced) => if synced.is_err() {
            tracing::warn!("claims not synced yet, pods that need one wait");
        }
    }
    let mut extenders = Vec::new();
    for extender in &config.extenders {
        match Extender::connect(extender.clone()).await {
            Ok(extender) => extenders.push(extender),
            Err(error) => {
                tracing::error!(error = error_chain(&error), "failed to schedule");
                tokio::time::sleep(CATALOG_WITHIN).await;
                return;
            }
        }
    }
    let wants_nodes = extenders.iter().any(Extender::wants_whole_nodes);
    let whole_nodes = wants_nodes.then(|| reflect::<WholeNode>(&client, Selection::all()));
    if let Some(nodes) = &whole_nodes {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = nodes.synced() => {}
        }
    }
    let watches = Watches {
        nodes,
        pods,
        namespaces,
        objects,
        pod_groups,
    };
    let mut scheduler = Scheduler::new(client, &config, watches);
    scheduler.extenders = extenders;
    scheduler.whole_nodes = whole_nodes;
    scheduler.run(&shutdown).await;
}

/// The scheduler's watches.
struct Watches {
    nodes: Reflector<Node>,
    pods: Reflector<Pod>,
    namespaces: Reflector<Namespace>,
    objects: CatalogReflectors,
    /// `None`: pods are not scheduled by their PodGroups.
    pod_groups: Option<Reflector<PodGroup>>,
}

struct Scheduler {
    client: Client,
    recorder: Recorder,
    node_changes: Changes<Node>,
    pod_changes: Changes<Pod>,
    namespace_changes: Changes<Namespace>,
    nodes: Reflector<Node>,
    pods: Reflector<Pod>,
    catalog_changes: CatalogChanges,
    /// `None`: pods are not scheduled by their PodGroups.
    group_changes: Option<Changes<PodGroup>>,
    // These keep their watches alive.
    _pod_groups: Option<Reflector<PodGroup>>,
    _namespaces: Reflector<Namespace>,
    _objects: CatalogReflectors,
    cluster: Cluster,
    queue: Queue,
    /// The placers by `schedulerName`.
    placers: FxHashMap<CompactString, Placer>,
    /// Pods that are bound, or being bound, but not yet seen bound.
    assumed: FxHashMap<PodKey, Arc<AssumedPod>>,
    under_way: Arc<Semaphore>,
    results: mpsc::UnboundedSender<BindResult>,
    binding_results: mpsc::UnboundedReceiver<BindResult>,
    /// Pods for which evictions ended, and whether all succeeded.
    evicted: mpsc::UnboundedSender<(PodKey, bool)>,
    eviction_results: mpsc::UnboundedReceiver<(PodKey, bool)>,
    extenders: Vec<Extender>,
    /// For extenders that want whole nodes.
    whole_nodes: Option<Reflector<WholeNode>>,
}

/// The reason why [`Scheduler::place_some`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// Others get a turn; there may be more pods that are due.
    Yield,
    /// No pod is due.
    Idle,
    /// As many requests are under way as may be.
    Full,
}

/// Returns the time by the clock of timers, so that an expired timer is due.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl Scheduler {
    fn new(client: Client, config: &Config, watches: Watches) -> Self {
        let Watches {
            nodes,
            pods,
            namespaces,
            objects,
            pod_groups,
        } = watches;
        let (results, binding_results) = mpsc::unbounded_channel();
        let (evicted, eviction_results) = mpsc::unbounded_channel();
        let mut cluster = Cluster {
            catalog: objects.catalog(),
            ..Cluster::default()
        };
        if pod_groups.is_some() {
            cluster.gangs.enable();
        }
        Self {
            recorder: Recorder::new(
                &client,
                "default-scheduler",
                "default-scheduler",
                Format::Events,
            ),
            placers: config.placers(),
            client,
            node_changes: nodes.changes(),
            pod_changes: pods.changes(),
            namespace_changes: namespaces.changes(),
            nodes,
            pods,
            catalog_changes: objects.changes(),
            group_changes: pod_groups.as_ref().map(Reflector::changes),
            _pod_groups: pod_groups,
            _namespaces: namespaces,
            _objects: objects,
            cluster,
            queue: Queue::new(config.backoff),
            assumed: FxHashMap::default(),
            under_way: Arc::new(Semaphore::new(UNDER_WAY)),
            results,
            binding_results,
            evicted,
            eviction_results,
            extenders: Vec::new(),
            whole_nodes: None,
        }
    }

    async fn run(mut self, shutdown: &CancellationToken) {
        loop {
            self.take_in();
            let pause = tokio::select! {
                () = shutdown.cancelled() => return,
                pause = self.place_some() => pause,
            };
            self.report();
            if pause == Pause::Yield {
                // let the tasks that write get a turn
                tokio::task::yield_now().await;
                if shutdown.is_cancelled() {
                    return;
                }
                continue;
            }
            let next = self.queue.next_time();
            let under_way = Arc::clone(&self.under_way);
            let timer = async {
                match (pause, next) {
                    // Due work stays due until a request may be sent again.
                    (Pause::Full, _) => drop(under_way.acquire().await),
                    (_, Some(at)) => tokio::time::sleep_until(at.into()).await,
                    (_, None) => std::future::pending().await,
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = timer => {}
                event = self.catalog_changes.recv() => match event {
                    Some(event) => self.object(&event),
                    None => return,
                },
                change = self.node_changes.recv() => match change {
                    Some(change) => self.node(&change),
                    None => return,
                },
                change = self.namespace_changes.recv() => match change {
                    Some(change) => self.namespace(&change),
                    None => return,
                },
                change = self.pod_changes.recv() => match change {
                    Some(change) => self.pod(&change),
                    None => return,
                },
                change = gang::recv(&mut self.group_changes) => match change {
                    Some(change) => self.pod_group(&change),
                    None => return,
                },
                bound = self.binding_results.recv() => if let Some(bound) = bound {
                    self.bound(bound);
                },
                evicted = self.eviction_results.recv() => if let Some((key, done)) = evicted {
                    self.queue.release(&key, !done, now());
                },
            }
        }
    }

    /// Takes in everything that happened. Nodes first: a pod that is bound to
    /// a new node is then seen on it.
    fn take_in(&mut self) {
        while let Some(change) = self.node_changes.try_recv() {
            self.node(&change);
        }
        while let Some(change) = self.namespace_changes.try_recv() {
            self.namespace(&change);
        }
        while let Some(change) = self.group_changes.as_mut().and_then(Changes::try_recv) {
            self.pod_group(&change);
        }
        while let Some(change) = self.pod_changes.try_recv() {
            self.pod(&change);
        }
        while let Some(event) = self.catalog_changes.try_recv() {
            self.object(&event);
        }
        while let Ok(bound) = self.binding_results.try_recv() {
            self.bound(bound);
        }
        while let Ok((key, done)) = self.eviction_results.try_recv() {
            self.queue.release(&key, !done, now());
        }
    }

    /// Shows the state in metrics.
    fn report(&mut self) {
        let snapshot = &self.cluster.snapshot;
        let cache = [
            snapshot.live().count(),
            snapshot.pod_count(),
            self.assumed.len(),
        ];
        let pending = self.queue.pending();
        metrics::rejected(self.queue.rejected());
        metrics::state(pending, self.queue.take_incoming(), cache);
    }

    /// Places some of the pods that are due.
    async fn place_some(&mut self) -> Pause {
        for _ in 0..AT_ONCE {
            let Ok(permit) = Arc::clone(&self.under_way).try_acquire_owned() else {
                return Pause::Full;
            };
            let Some(pod) = self.queue.pop(now()) else {
                return Pause::Idle;
            };
            let began = Instant::now();
            if let Some(placer) = self.placers.get(&pod.scheduler_name)
                && let Some((unmet, rejecters)) = placer.pre_enqueue(&self.cluster, &pod)
            {
                tracing::debug!(
                    namespace = %pod.metadata.namespace, pod = %pod.metadata.name,
                    reason = unmet.reason, "not schedulable yet"
                );
                let key = pod.key();
                self.queue.gate(&key, rejecters, now());
                self.queue.reject(&key, [unmet.plugin]);
                continue;
            }
            if self.cluster.gangs.is_enabled()
                && let Some(gang) = pod.gang()
            {
                self.place_gang(&gang, pod, began, permit).await;
                // Its pods may be many, and take their time.
                return Pause::Yield;
            }
            let decision = self.decide(&pod).await;
            metrics::decided(began.elapsed());
            match decision {
                Ok(None) => self.queue.remove(&pod.key()),
                Err(error) => self.cannot_decide(&pod, error_chain(&error), began, Some(permit)),
                Ok(Some(Decision::Place {
                    node,
                    score,
                    reservation,
                    ..
                })) => {
                    let node = self.cluster.snapshot.name(node).to_owned();
                    tracing::debug!(
                        namespace = %pod.metadata.namespace, pod = %pod.metadata.name,
                        node, score, micros = began.elapsed().as_micros(), "placed"
                    );
                    self.bind(pod, node, reservation, began, Some(permit));
                }
                Ok(Some(Decision::Unschedulable(diagnosis))) => {
                    self.unschedulable(&pod, &diagnosis, began, permit).await;
                }
                Ok(Some(Decision::Failed(message))) => {
                    self.cannot_decide(&pod, message, began, Some(permit));
                }
            }
            if !self.extenders.is_empty() {
                // They took their time: changes in between matter.
                return Pause::Yield;
            }
        }
        Pause::Yield
    }
}

#[cfg(test)]
mod tests;
