//! Network policy: from the API to the maps that guard pods' interfaces.
//!
//! ```text
//! Pods, Namespaces, Nodes ──────────────┐
//! NetworkPolicies, ClusterNetworkPolicies ┼► one task ──► compiler ──► maps
//! addresses of this node ───────────────┤
//! the CNI plugin's questions ───────────┤──► answers, once a pod's rules are there
//! who, and why? ────────────────────────┘──► names of flows, and explanations
//! ```
//!
//! Which devices are guarded is the business of services, whose task owns the
//! programs; both meet in the maps, and in the pins of links.
//!
//! Until all is listed, the maps stay as the former agent left them, and no pod
//! starts: what it may not is not known yet. What is written is a prefix of
//! sound states; after a failure everything is compiled anew, under a new
//! epoch.

mod address_book;
pub(crate) mod admit;
mod bandwidth;
mod cache_dir;
mod capacity_condition;
mod cluster_dns;
mod datapath_requests;
mod delays;
pub mod explain;
mod grace;
mod kinds;
#[cfg(test)]
mod live;
mod query;
mod state;
mod views;
mod write;

use std::{
    collections::VecDeque,
    net::IpAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use control_client::{
    Change, Changes, Client, Reflector, Resource, Selection, reflect, reflect_resource,
};
use ipnet::IpNet;
use node_agent_datapath::Policy;
use node_agent_informers::{EndpointSlice, Node};
use node_agent_policy::{Compiler, Config, Prefix};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::{
    address_book::AddressBook,
    cache_dir::PolicyCacheDir,
    delays::{LOOK_AGAIN, RETRY},
    grace::GraceWait,
    kinds::ServedKinds,
    state::{PolicyCaches, PolicyState, WaitingInterface, is_of_api},
    views::{Namespace, NetworkPolicy, Pod},
    write::PolicyWriter,
};
use crate::{
    Error,
    services::{interfaces, local_api},
};

pub use admit::{AdmitRequest, InterfaceGate, PendingPodInterface, gate, socket};
pub use datapath_requests::{
    DatapathRequest, DatapathRequestReceiver, DatapathRequestSender, GrowthOutcome, wishes,
};
pub use grace::GraceMetrics;
pub use query::{PolicyQuery, query_channel};

/// How often the maps of a datapath that is starting are looked for.
const LOOK: Duration = Duration::from_millis(20);
/// How long lists are waited for before it is said, each time.
const REMIND: Duration = Duration::from_secs(10);
/// Changes that are compiled together at most, so that others get their turn.
const TOGETHER: usize = 4_096;

/// What it follows, for whoever holds rights against it.
#[cfg(test)]
pub(crate) const FOLLOWED: [Resource; 6] = {
    use control_client::Object;
    [
        Namespace::RESOURCE,
        Pod::RESOURCE,
        Node::RESOURCE,
        NetworkPolicy::RESOURCE,
        views::ClusterNetworkPolicy::RESOURCE,
        EndpointSlice::RESOURCE,
    ]
};

/// Options of network policy.
#[derive(Clone, Debug)]
pub struct PolicyOptions {
    /// The Node object's name.
    pub node: String,
    /// Where the datapath pins its maps.
    pub pin_dir: PathBuf,
    /// Addresses of the cluster's DNS that this agent answers itself.
    pub dns: Vec<IpAddr>,
    /// The UDP port of the overlay between nodes, where there may be one.
    pub tunnel: Option<u16>,
    /// The port at which this agent is asked, where that is not the kubelet's.
    pub asked_at: Option<u16>,
}

/// API clients by the identity that they use.
pub struct PolicyClients {
    /// Reads what policies are about, and nothing else.
    pub objects: Client,
    /// Pods, or PodEndpoints, which have the fields that are read of pods.
    pub pods: Resource,
    /// The node's own, which writes the Node's status.
    pub node: Client,
}

/// Handles of other parts that network policy uses.
pub struct PolicyContext {
    /// All Nodes.
    pub nodes: Reflector<Node>,
    /// All EndpointSlices, for those of the API server.
    pub slices: Reflector<EndpointSlice>,
    /// What they ask.
    pub asked: mpsc::Receiver<PolicyQuery>,
    /// Where interfaces wait, and those that do.
    pub gate: (InterfaceGate, mpsc::Receiver<AdmitRequest>),
    /// What is asked of the owner of maps and programs, and what it tells.
    pub wishes: DatapathRequestSender,
    /// The ranges of all nodes' pods, those of pools too.
    pub pod_ranges: watch::Receiver<Vec<IpNet>>,
    /// Shown by whoever shows metrics.
    pub metrics: GraceMetrics,
}

/// Enforces network policy until `shutdown`, and answers what is asked of it.
///
/// # Errors
/// [`Error::Datapath`] when the maps are not as they must be,
/// [`Error::File`] when the CNI plugin's questions cannot be listened for.
pub async fn run(
    PolicyClients {
        objects: client,
        pods,
        node,
    }: PolicyClients,
    options: PolicyOptions,
    PolicyContext {
        nodes,
        slices,
        asked: mut asks,
        gate: (gate, mut asked),
        wishes:
            DatapathRequestSender {
                asks: wishes,
                mut programs,
            },
        mut pod_ranges,
        metrics,
    }: PolicyContext,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let namespaces = reflect::<Namespace>(&client, Selection::all());
    let pods = reflect_resource::<Pod>(&client, pods, Selection::all());
    let policies = reflect::<NetworkPolicy>(&client, Selection::all());
    let mut changes = (
        namespaces.changes(),
        pods.changes(),
        nodes.changes(),
        policies.changes(),
    );
    let mut api_changes = slices.changes_where(|change| {
        let mut states = change.previous.iter().chain(&change.current);
        states.any(|slice| is_of_api(slice))
    });
    let (full, is_full) = watch::channel(None);
    let (name, until) = (options.node.clone(), shutdown.clone());
    control_supervise::task("policy-node-condition").spawn_restarting(move || {
        capacity_condition::follow(node.clone(), name.clone(), is_full.clone(), until.clone())
    });
    let mut found = kinds::find(client);
    let mut cluster_changes = None;
    let mut cluster_known = false;
    let Some(maps) = opened(&options.pin_dir, &shutdown).await? else {
        return Ok(());
    };
    // The maps' lock, which the datapath holds, tells that there is no other
    // agent whose socket this might be.
    let path = socket(&options.pin_dir);
    let listener = local_api::listen_at(&path).map_err(Error::file("listen at", &path))?;
    let folder = interfaces_of(&options.pin_dir);
    let kept = PolicyCacheDir::open(folder.clone()).map_err(Error::file("make", &folder))?;
    let admission = admit::serve(listener, gate, shutdown.clone());
    // Its state cannot be made again: a new agent makes it.
    control_supervise::task("policy-admission")
        .until(&shutdown)
        .spawn_essential(admission);
    let mut interfaces = interfaces::follow(shutdown.clone()).await?;
    let own = own_addresses(&interfaces.borrow_and_update().addresses);
    let mut state = PolicyState {
        compiler: Compiler::new(Config::default()),
        writer: PolicyWriter::new(maps, options.pin_dir, wishes, full),
        passing: GraceWait::new(metrics),
        dns: cluster_dns::pod(&options.node, &options.dns),
        node: options.node,
        tunnel: options.tunnel,
        asked_at: options.asked_at,
        caches: PolicyCaches {
            namespaces: namespaces.cache(),
            pods: pods.cache(),
            nodes: nodes.cache(),
            policies: policies.cache(),
            cluster: None,
            slices: slices.cache(),
        },
        own,
        pod_ranges: prefixes(&pod_ranges.borrow_and_update()),
        book: AddressBook::default(),
        kept,
        due: Instant::now(),
        pause: RETRY,
        sound: false,
        waiting: VecDeque::new(),
        guards_node: None,
        told_blind: false,
    };
    let listed = async {
        namespaces.synced().await;
        pods.synced().await;
        nodes.synced().await;
        policies.synced().await;
    };
    tokio::pin!(listed);
    let mut known = false;
    let mut remind = tokio::time::interval(REMIND);
    remind.reset();
    loop {
        let due = known && cluster_known && !state.sound;
        let waits = !state.waiting.is_empty();
        let passes = state.passing.is_waiting();
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = &mut listed, if !known => known = true,
            Some(found) = found.recv() => {
                if let ServedKinds::Listed(policies) = found {
                    cluster_changes = Some(policies.changes());
                    state.caches.cluster = Some(policies.cache());
                }
                cluster_known = true;
            }
            change = next(&mut cluster_changes) => state.on_cluster_policy(&change),
            Some(change) = changes.0.recv() => {
                state.on_namespace(&change);
                more(&mut changes.0, |change| state.on_namespace(change));
            }
            Some(change) = changes.1.recv() => {
                state.on_pod(&change);
                more(&mut changes.1, |change| state.on_pod(change));
            }
            Some(change) = changes.2.recv() => {
                state.on_node(&change);
                more(&mut changes.2, |change| state.on_node(change));
            }
            Some(change) = changes.3.recv() => {
                state.on_policy(&change);
                more(&mut changes.3, |change| state.on_policy(change));
            }
            Some(_) = api_changes.recv() => state.on_api(),
            Ok(()) = interfaces.changed() => {
                let own = own_addresses(&interfaces.borrow_and_update().addresses);
                if own != state.own {
                    state.compiler.own_addresses(&own);
                    state.own = own;
                }
            }
            Ok(()) = pod_ranges.changed() => {
                state.pod_ranges = prefixes(&pod_ranges.borrow_and_update());
                state.compiler.pod_ranges(&state.pod_ranges);
            }
            Some(question) = asked.recv() => {
                state.waiting.push_back(WaitingInterface::new(question));
                // A crowd's are looked at together, not all again for each.
                while let Ok(question) = asked.try_recv() {
                    state.waiting.push_back(WaitingInterface::new(question));
                }
            }
            Some(ask) = asks.recv() => state.answer(ask),
            mark = state.passing.over(), if passes => {
                if let Some(mark) = mark {
                    state.compiler.passed(mark);
                }
            }
            Ok(()) = programs.changed(), if waits => {}
            () = tokio::time::sleep(LOOK_AGAIN), if waits => {}
            () = tokio::time::sleep_until(state.due.into()), if due => state.compile().await,
            _ = remind.tick(), if !known || !cluster_known => {
                warn!(
                    missing = unlisted(&[
                        ("namespaces", namespaces.is_synced()),
                        ("pods", pods.is_synced()),
                        ("nodes", nodes.is_synced()),
                        ("networkpolicies", policies.is_synced()),
                        ("clusternetworkpolicies", cluster_known),
                    ]),
                    "network policy stays as it was, and no pod starts: the API server has not \
                     listed all; the agent must be allowed to list and watch them"
                );
            }
        }
        state.flush().await;
        state.admit().await;
    }
}

/// Says that this node enforces no policy: what a former agent left in the maps
/// goes, once the datapath is there.
///
/// # Errors
/// [`Error::Datapath`].
pub async fn clear(pin_dir: PathBuf, shutdown: CancellationToken) -> Result<(), Error> {
    if let Some(maps) = opened(&pin_dir, &shutdown).await? {
        maps.clear().map_err(Error::Datapath)?;
    }
    let path = socket(&pin_dir);
    local_api::remove_at(&path).map_err(Error::file("remove", &path))?;
    forget(&pin_dir);
    shutdown.cancelled().await;
    Ok(())
}

/// Forgets which interfaces were let up.
pub fn forget(pin_dir: &Path) {
    PolicyCacheDir::clear(&interfaces_of(pin_dir));
}

/// Where it is kept which interfaces were let up.
fn interfaces_of(pin_dir: &Path) -> PathBuf {
    socket(pin_dir).with_extension("interfaces")
}

/// The maps, once the datapath has pinned them.
async fn opened(pin_dir: &Path, shutdown: &CancellationToken) -> Result<Option<Policy>, Error> {
    loop {
        match Policy::open(pin_dir) {
            Ok(maps) => return Ok(Some(maps)),
            Err(node_agent_datapath::Error::NotPinned { .. }) => {}
            Err(error) => return Err(Error::Datapath(error)),
        }
        tokio::select! {
            () = shutdown.cancelled() => return Ok(None),
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Addresses by which others may reach this node: neither loopback nor those of
/// a link alone, which come and go with pods.
fn own_addresses(all: &[IpAddr]) -> Vec<IpAddr> {
    let counts = |address: &&IpAddr| match address {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
    };
    all.iter().filter(counts).copied().collect()
}

fn prefixes(ranges: &[IpNet]) -> Vec<Prefix> {
    let ranges = ranges.iter();
    ranges
        .filter_map(|range| Prefix::parse(&range.to_string()))
        .collect()
}

fn unlisted(lists: &[(&str, bool)]) -> String {
    let missing = lists.iter().filter(|(_, listed)| !listed);
    missing
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Takes what has arrived already: many changes are compiled at once.
fn more<V>(changes: &mut Changes<V>, mut each: impl FnMut(&Change<V>)) {
    for _ in 0..TOGETHER {
        let Some(change) = changes.try_recv() else {
            return;
        };
        each(&change);
    }
}

/// The next change of something that may not be there at all.
async fn next<V>(changes: &mut Option<Changes<V>>) -> Change<V> {
    if let Some(changes) = changes
        && let Some(change) = changes.recv().await
    {
        return change;
    }
    std::future::pending().await
}
