//! Announces the addresses of load balancers from this node: answers for them by
//! ARP and NDP, and tells routers of them by BGP.
//!
//! ```text
//! API ──Services, EndpointSlices, Nodes──▶ desired ──L2──▶ election ──▶ l2: answers, announcements
//!     ──pools, announcements, peers──────▶         ──BGP─▶ routes ────▶ bgp: sessions
//!     ◀─Announcer: renewals, addresses, sessions──────────────┘
//! ```
//!
//! `desired`, `election`, `l2::frame`, `bgp::message`, `bgp::routes` and
//! `bgp::session` are pure. What the packets meet when they come is the datapath's:
//! nothing here gives the addresses to an interface.
//!
//! Services, EndpointSlices and Nodes are only followed while something is to be
//! announced at all: a cluster that does not use this pays four idle watches.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use control_client::{Change, Client, Object, Reflector, View};
use control_load_balancer::{Pool, Text};
use node_agent_informers::{EndpointSlice, Informers, Node, Service};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

pub mod bgp;
pub mod desired;
pub mod election;
pub mod l2;
pub mod metrics;
mod renewal;
mod sys;
pub mod view;

use self::bgp::{Peer, Speaker};
use self::desired::World;
use self::election::{AgentLives, AnnouncerStatement, ClaimState, Claims, HeldClaims, Report};
use self::l2::{AnsweredAddresses, Conflict};
use self::metrics::Metrics;
use self::renewal::Renewal;
use self::view::{ANNOUNCERS, Announcer, BgpAdvertisement, BgpPeer, IpPool, L2Announcement};

/// How often it is looked whether the kinds are defined by now: at first, and at
/// the longest; each pause is longer by the first.
const SOON: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_secs(30);
/// Changes that come within this time are looked at together.
const GATHER: Duration = Duration::from_millis(10);

/// Announces this node's addresses until `shutdown`. If the kinds are not defined, waits
/// until they are.
pub async fn run(
    client: Client,
    informers: Informers,
    node: String,
    metrics: Metrics,
    shutdown: CancellationToken,
) {
    if !wait_until_served(&client, &shutdown).await {
        return;
    }
    let asked = RequestedAnnouncements::follow(&informers);
    let mut changes = asked.watch();
    tokio::select! {
        () = shutdown.cancelled() => return,
        () = asked.synced() => {}
    }
    loop {
        changes.mark_unchanged();
        if asked.anything() {
            info!("announcing load balancer addresses");
            let announcing = AnnouncementLoop {
                client: client.clone(),
                informers: &informers,
                node: node.clone(),
                metrics: metrics.clone(),
                asked: &asked,
            };
            announcing.run(&shutdown).await;
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

async fn wait_until_served(client: &Client, shutdown: &CancellationToken) -> bool {
    let mut looks = 0_u32;
    loop {
        match client.serves(&ANNOUNCERS).await {
            Ok(true) => return true,
            Ok(false) => {}
            Err(error) => {
                debug!(error = %error.chain(), "failed to discover the kinds of announcements");
            }
        }
        looks = looks.saturating_add(1);
        tokio::select! {
            () = shutdown.cancelled() => return false,
            () = tokio::time::sleep(SOON.saturating_mul(looks).min(LATER)) => {}
        }
    }
}

/// Notifies waiters of every change of a kind that `matters`.
fn wake<V: Object>(
    tasks: &mut JoinSet<()>,
    reflector: &Reflector<V>,
    bell: &watch::Sender<u64>,
    matters: impl Fn(&Change<V>) -> bool + Send + Sync + 'static,
) {
    let (reflector, bell, matters) = (reflector.clone(), bell.clone(), Arc::new(matters));
    let task = control_supervise::task("announcer-follower").detail(V::RESOURCE.to_string());
    let mut changes = Some(reflector.changes());
    tasks.spawn(task.restarting(move || {
        let (bell, matters) = (bell.clone(), Arc::clone(&matters));
        // A run after a panic starts with a notification, for changes that the former one
        // missed.
        let missed = changes.is_none();
        let mut changes = changes.take().unwrap_or_else(|| reflector.changes());
        async move {
            let ring = || bell.send_modify(|count| *count = count.wrapping_add(1));
            if missed {
                ring();
            }
            while let Some(change) = changes.recv().await {
                if matters(&change) {
                    ring();
                }
            }
        }
    }));
}

/// Whether what announcements read of an object is other than before.
fn differs<V, T: PartialEq>(change: &Change<V>, read: impl Fn(&V) -> T) -> bool {
    change.previous.as_deref().map(&read) != change.current.as_deref().map(&read)
}

fn of_node(node: &Node) -> (bool, bool, Vec<IpAddr>, control_client::StringMap) {
    let addresses = node.internal_addresses().collect();
    (
        desired::is_allowed(node),
        node.is_ready(),
        addresses,
        node.meta().labels.clone(),
    )
}

fn all<V: Object>(reflector: &Reflector<V>) -> Vec<Arc<V>> {
    reflector.cache().snapshot().iter().cloned().collect()
}

/// The announcements that users request.
struct RequestedAnnouncements {
    pools: Reflector<IpPool>,
    l2: Reflector<L2Announcement>,
    peers: Reflector<BgpPeer>,
    advertisements: Reflector<BgpAdvertisement>,
    bell: watch::Sender<u64>,
    _tasks: JoinSet<()>,
}

impl RequestedAnnouncements {
    fn follow(informers: &Informers) -> Self {
        let mut tasks = JoinSet::new();
        let bell = watch::Sender::new(0);
        let it = Self {
            pools: informers.subscribe(),
            l2: informers.subscribe(),
            peers: informers.subscribe(),
            advertisements: informers.subscribe(),
            bell: bell.clone(),
            _tasks: JoinSet::new(),
        };
        // The controller writes pools' statuses.
        wake(&mut tasks, &it.pools, &bell, |change| {
            differs(change, |pool| pool.spec.clone())
        });
        wake(&mut tasks, &it.l2, &bell, |_| true);
        wake(&mut tasks, &it.peers, &bell, |_| true);
        wake(&mut tasks, &it.advertisements, &bell, |_| true);
        Self {
            _tasks: tasks,
            ..it
        }
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    async fn synced(&self) {
        self.pools.synced().await;
        self.l2.synced().await;
        self.peers.synced().await;
        self.advertisements.synced().await;
    }

    fn anything(&self) -> bool {
        !all(&self.l2).is_empty() || !all(&self.peers).is_empty()
    }
}

/// The caches of API objects that announcements depend on.
struct FollowedCaches {
    services: Reflector<Service>,
    slices: Reflector<EndpointSlice>,
    nodes: Reflector<Node>,
    announcers: Reflector<Announcer>,
}

struct AnnouncementLoop<'a> {
    client: Client,
    informers: &'a Informers,
    node: String,
    metrics: Metrics,
    asked: &'a RequestedAnnouncements,
}

impl AnnouncementLoop<'_> {
    /// Announces until nothing is requested any more, or `shutdown`.
    async fn run(&self, shutdown: &CancellationToken) {
        let followed = FollowedCaches {
            services: self.informers.subscribe(),
            slices: self.informers.subscribe(),
            nodes: self.informers.subscribe(),
            announcers: self.informers.subscribe(),
        };
        let mut tasks = JoinSet::new();
        let bell = watch::Sender::new(0_u64);
        // Most Services are not load balancers, most endpoints are not theirs, and nodes
        // write their statuses all the time.
        wake(&mut tasks, &followed.services, &bell, |change| {
            differs(change, |it| it.load_balancer().cloned())
        });
        let services = followed.services.cache();
        wake(
            &mut tasks,
            &followed.slices,
            &bell,
            move |change: &Change<EndpointSlice>| {
                let slice = change.latest();
                let service = slice.and_then(|it| services.get(it.namespace(), it.service()?));
                // An unknown one will be delivered as a change.
                service.is_some_and(|it| it.load_balancer().is_some_and(|it| it.is_local))
            },
        );
        wake(&mut tasks, &followed.nodes, &bell, |change| {
            differs(change, of_node)
        });
        let mut lives_changes = followed.announcers.changes();
        let synced = async {
            followed.services.synced().await;
            followed.slices.synced().await;
            followed.nodes.synced().await;
            followed.announcers.synced().await;
        };
        // Nothing is advertised before everything is known: a peer that kept our routes
        // would lose them otherwise.
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = synced => {}
        }

        let answering = watch::Sender::new(Arc::<AnsweredAddresses>::default());
        let own_addresses = watch::Sender::new(Arc::<BTreeSet<IpAddr>>::default());
        let (conflict_sender, mut conflicts) = mpsc::unbounded_channel();
        // Ends all parts of this round, and the sessions as a restart does.
        let stop = shutdown.child_token();
        let answers = {
            let (answering, own) = (answering.subscribe(), own_addresses.subscribe());
            let (metrics, stop) = (self.metrics.clone(), stop.clone());
            move || {
                l2::run(
                    answering.clone(),
                    own.clone(),
                    conflict_sender.clone(),
                    metrics.clone(),
                    stop.clone(),
                )
            }
        };
        let task = control_supervise::task("l2-announcer").until(&stop);
        tasks.spawn(task.restarting(answers));
        let mut speaker = Speaker::new(self.client.clone(), self.metrics.clone(), stop.clone());
        let former = followed.announcers.cache().get("", &self.node);
        let former = former.map(|it| said(&it)).unwrap_or_default();
        let report = watch::Sender::new(Report::default());
        let (word_sender, mut words) = mpsc::unbounded_channel();
        let renewal = Renewal {
            client: self.client.clone(),
            node: self.node.clone(),
            metrics: self.metrics.clone(),
            words: word_sender,
            last: Arc::new(Mutex::new(former.renewed.clone())),
        };
        let renewal = {
            let (report, statuses, stop) = (report.subscribe(), speaker.statuses(), stop.clone());
            move || {
                let renewal = renewal.clone();
                renewal.run(report.clone(), statuses.clone(), stop.clone())
            }
        };
        let task = control_supervise::task("announcer-status").until(&stop);
        tasks.spawn(task.restarting(renewal));

        let mut lives = AgentLives::new(&self.node);
        let mut held: Option<HeldClaims> = None;
        let (mut asked_bell, mut bell) = (self.asked.watch(), bell.subscribe());
        let mut world_changed = true;
        let mut wanted = desired::L2::new();
        loop {
            if world_changed {
                world_changed = false;
                asked_bell.mark_unchanged();
                bell.mark_unchanged();
                if !self.asked.anything() {
                    break;
                }
                let world = self.world(&followed);
                wanted = world.l2();
                let own = world.nodes.iter().find(|n| n.name() == self.node);
                let addresses: Vec<IpAddr> = own
                    .map(|n| n.internal_addresses().collect())
                    .unwrap_or_default();
                speaker.bring(sessions(&world, &addresses)).await;
                own_addresses.send_if_modified(|known| {
                    let addresses: BTreeSet<IpAddr> = addresses.into_iter().collect();
                    let other = **known != addresses;
                    if other {
                        *known = Arc::new(addresses);
                    }
                    other
                });
            }
            while let Some(change) = lives_changes.try_recv() {
                // Words that came back were sent before.
                while let Ok(word) = words.try_recv() {
                    lives.record_own(word);
                }
                observe(&mut lives, &change);
            }
            let now = Instant::now();
            let before =
                held.get_or_insert_with(|| HeldClaims::resumed(&former.claims, &lives, now));
            let decided = election::decide(&self.node, &wanted, &lives, before, now);
            if decided != *before {
                Self::log(before, &decided);
            }
            *before = decided;
            let table: AnsweredAddresses = before
                .addresses()
                .filter_map(|address| Some((address, wanted.get(&address)?.interfaces.clone())))
                .collect();
            self.metrics.holds(table.len());
            answering.send_if_modified(|known| {
                let other = **known != table;
                if other {
                    *known = Arc::new(table);
                }
                other
            });
            let said = Report::new(&self.node, &wanted, &lives, before, now);
            report.send_if_modified(|known| {
                let other = *known != said;
                *known = said;
                other
            });
            let next = lives
                .next_end(now)
                .into_iter()
                .chain(before.next_end())
                .min();
            tokio::select! {
                () = shutdown.cancelled() => break,
                changed = bell.changed() => {
                    world_changed = changed.is_ok();
                    tokio::time::sleep(GATHER).await;
                }
                changed = asked_bell.changed() => {
                    world_changed = changed.is_ok();
                    tokio::time::sleep(GATHER).await;
                }
                Some(word) = words.recv() => lives.record_own(word),
                change = lives_changes.recv() => if let Some(change) = change {
                    while let Ok(word) = words.try_recv() {
                        lives.record_own(word);
                    }
                    observe(&mut lives, &change);
                },
                Some(conflict) = conflicts.recv() => Self::contested(conflict, &lives, &mut held),
                () = until(next) => {}
            }
        }
        if shutdown.is_cancelled() {
            stop.cancel();
        } else {
            // Nothing is requested: the routes are to be withdrawn.
            speaker.bring(BTreeMap::new()).await;
            stop.cancel();
        }
        speaker.ended().await;
        while tasks.join_next().await.is_some() {
            tasks.abort_all();
        }
        self.metrics.holds(0);
    }

    fn world(&self, followed: &FollowedCaches) -> World {
        let mut pools: Vec<Pool> = all(&self.asked.pools)
            .iter()
            .map(|pool| Pool::from_spec(&pool.metadata.name, &pool.spec).0)
            .collect();
        pools.sort_by(|a, b| a.name.cmp(&b.name));
        World {
            node: self.node.clone(),
            services: all(&followed.services),
            slices: all(&followed.slices),
            nodes: all(&followed.nodes),
            pools,
            l2: all(&self.asked.l2),
            advertisements: all(&self.asked.advertisements),
            peers: all(&self.asked.peers),
        }
    }

    fn contested(conflict: Conflict, lives: &AgentLives, held: &mut Option<HeldClaims>) {
        let Conflict { address, mac } = conflict;
        let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
        let Some(held) = held else { return };
        if held.contested(address, lives, Instant::now()) {
            warn!(%address, mac, "API server unreachable and another node announces the address; withdrawing it");
        } else {
            warn!(%address, mac, "address conflict: another host answers for a load balancer address");
        }
    }

    fn log(before: &HeldClaims, now: &HeldClaims) {
        let (before, now): (BTreeSet<_>, BTreeSet<_>) =
            (before.addresses().collect(), now.addresses().collect());
        for address in now.difference(&before) {
            info!(%address, "answering for an address by ARP or NDP");
        }
        for address in before.difference(&now) {
            info!(%address, "no longer answering for an address");
        }
    }
}

fn sessions(
    world: &World,
    own: &[IpAddr],
) -> BTreeMap<Text, (Result<Peer, bgp::Error>, bgp::routes::Routes)> {
    let mut routes = world.bgp();
    let mut all = BTreeMap::new();
    for peer in &world.peers {
        if let Some(routes) = routes.remove(&peer.metadata.name) {
            let understood = Peer::from_spec(&peer.spec, own);
            all.insert(peer.metadata.name.clone(), (understood, routes));
        }
    }
    all
}

fn said(announcer: &Announcer) -> AnnouncerStatement {
    let status = &announcer.status;
    let answers = status.addresses.iter().filter_map(|text| text.parse().ok());
    // Agents of before said no terms: any is higher.
    let of_none = |address: IpAddr| {
        (
            address,
            ClaimState {
                term: 0,
                answers: true,
            },
        )
    };
    let mut claims: Claims = answers.map(of_none).collect();
    for claim in &status.claims {
        if let Ok(address) = claim.address.parse() {
            let unheard = ClaimState {
                term: 0,
                answers: false,
            };
            claims.entry(address).or_insert(unheard).term = claim.term;
        }
    }
    AnnouncerStatement {
        renewed: status.renew_time.clone(),
        revision: announcer.metadata.revision().unwrap_or_default(),
        claims,
    }
}

fn observe(lives: &mut AgentLives, change: &Change<Announcer>) {
    match (&change.current, &change.previous) {
        (Some(it), _) => lives.observe(&it.metadata.name, &said(it), Instant::now()),
        (None, Some(gone)) => lives.forget(&gone.metadata.name),
        (None, None) => {}
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
