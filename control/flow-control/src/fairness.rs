//! Seats for requests.
//!
//! A request that finds a seat costs its classification and one short lock. No
//! lock is held while anybody waits, and nobody waits longer than a quarter of a
//! request's time: so a component whose answer needs another answer cannot wait
//! for itself for ever.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use control_access::User;
use control_fairness::{
    Arrival, Digest, Discipline, Distinguisher, Estimate, FlowSchema, Id, Start, Waiter, Watchers,
    estimate, flow_hash,
};
use http::{HeaderMap, HeaderValue};
use tokio::sync::oneshot;

use crate::follow;
use crate::level::Level;
use control_registry::{Storage, WatchPlace};
use control_request::RequestInfo;

/// Nobody waits longer than this.
const LONGEST: Duration = Duration::from_secs(60);
/// How many objects are looked at to guess how large a resource's are.
const SAMPLE: usize = 8;

/// Since when time is counted.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Levels, schemas and watches.
#[derive(Debug)]
pub struct Fairness {
    /// All seats.
    pub(crate) seats: usize,
    pub(crate) rules: ArcSwap<Rules>,
    watchers: Mutex<Watchers>,
    /// The objects that requests are about, and those of levels and schemas.
    pub(crate) storage: Arc<Storage>,
}

/// Schemas in the order in which they are tried, and the levels that they name.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) schemas: Vec<Schema>,
    pub(crate) levels: Vec<Arc<Level>>,
}

#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) schema: FlowSchema,
    pub(crate) level: Arc<Level>,
    pub(crate) slot: usize,
    /// The uids of schema and level, for clients.
    pub(crate) uids: (HeaderValue, HeaderValue),
    /// The hash of the flow of schemas that have only one.
    pub(crate) hash: u64,
}

/// A request that wants a seat.
#[derive(Debug, Clone, Copy)]
pub struct SeatRequest<'a> {
    /// What its method and path say.
    pub info: &'a Arc<RequestInfo>,
    /// Its query.
    pub query: Option<&'a str>,
    /// Who asks.
    pub user: &'a User,
    /// How long it may wait.
    pub wait: Duration,
}

/// There is no seat.
#[derive(Debug, Clone, Copy)]
pub struct Rejection {
    /// In how many seconds to try again.
    pub retry_after: u64,
}

/// Seats of a level, given back when dropped.
#[derive(Debug)]
pub struct Seat {
    level: Arc<Level>,
    id: Id,
}

/// What a watch holds: a seat until it has begun, and its place among watches until
/// it ends.
#[derive(Debug)]
pub struct WatchOpening {
    seat: Option<Seat>,
    _watching: Option<WatchRegistration>,
}

/// Counts a watch until dropped.
#[derive(Debug)]
struct WatchRegistration {
    fairness: std::sync::Weak<Fairness>,
    key: u64,
}

/// What waits behind a request.
#[derive(Debug)]
pub(crate) struct Ticket {
    waker: Option<oneshot::Sender<()>>,
    pub(crate) info: Arc<RequestInfo>,
    pub(crate) user: Box<str>,
}

pub(crate) fn now() -> Duration {
    BEGAN.elapsed()
}

// === impl Fairness ===

impl Fairness {
    /// With so many seats, and the levels that every cluster has.
    #[must_use]
    pub fn new(seats: usize, storage: Arc<Storage>) -> Self {
        Self {
            seats,
            storage,
            rules: ArcSwap::from_pointee(follow::mandatory(seats)),
            watchers: Mutex::default(),
        }
    }

    /// Waits for a seat. The answer's headers say by what schema and level the
    /// request went, whether or not there was one.
    ///
    /// # Errors
    /// When there is no seat in time.
    pub async fn admit(
        &self,
        asked: &SeatRequest<'_>,
        headers: &mut HeaderMap,
    ) -> Result<Seat, Rejection> {
        let (level, started, wait) = {
            let rules = self.rules.load();
            let info = asked.info;
            let digest = Digest {
                user: &asked.user.name,
                groups: &asked.user.groups,
                is_resource: info.is_resource,
                verb: info.verb,
                group: &info.group,
                resource: &info.resource,
                subresource: &info.subresource,
                namespace: &info.namespace,
                path: &info.path,
            };
            let Some(schema) = rules.classify(&digest) else {
                // There is always a schema for all; see `follow`.
                return Err(Rejection { retry_after: 1 });
            };
            let (schema_uid, level_uid) = schema.uids.clone();
            headers.insert("x-kubernetes-pf-flowschema-uid", schema_uid);
            headers.insert("x-kubernetes-pf-prioritylevel-uid", level_uid);
            let estimate = self.estimate(asked, schema);
            let level = &schema.level;
            let discipline = level.discipline();
            let flow = match discipline {
                Discipline::Queue(_) => schema.schema.flow(&digest),
                _ => "",
            };
            let hash = match schema.schema.distinguisher {
                Distinguisher::None => schema.hash,
                _ if flow.is_empty() => schema.hash,
                _ => flow_hash(&schema.schema.name, flow),
            };
            let arrival = Arrival {
                slot: schema.slot,
                hash,
                flow,
                estimate,
                watch: info.verb == "watch",
            };
            let ticket = Ticket {
                waker: None,
                info: Arc::clone(info),
                user: asked.user.name.as_str().into(),
            };
            let level = Arc::clone(level);
            let mut set = level.lock();
            let started = set.start(now(), &arrival, ticket);
            let wait = match started {
                Start::Waiting(id) => {
                    let (waker, woken) = oneshot::channel();
                    if let Some(ticket) = set.waiter(id) {
                        ticket.waker = Some(waker);
                    }
                    Some(woken)
                }
                Start::Executing(_) | Start::Refused(_) => None,
            };
            let release = set.next_release();
            drop(set);
            level.keep_time(release);
            (level, started, wait)
        };
        match (started, wait) {
            (Start::Executing(id), _) => Ok(Seat { level, id }),
            (Start::Waiting(id), Some(woken)) => {
                let seat = Seat { level, id };
                let wait = asked.wait.min(LONGEST);
                let woken = tokio::time::timeout(wait, woken).await;
                // Who was woken while the clock struck has a seat.
                if matches!(woken, Ok(Ok(()))) || !seat.level.lock().is_waiting(id) {
                    return Ok(seat);
                }
                let retry_after = seat.level.refused();
                Err(Rejection { retry_after })
            }
            (Start::Waiting(_) | Start::Refused(_), _) => Err(Rejection {
                retry_after: level.refused(),
            }),
        }
    }

    /// A watch begins: it keeps its seat until all objects are sent with which it
    /// begins, and concerns writes until it ends.
    pub fn open(
        self: &Arc<Self>,
        info: &RequestInfo,
        query: Option<&str>,
        seat: Seat,
    ) -> WatchOpening {
        // The agents of nodes watch the pods of one node each: few of them are
        // concerned by a pod, and they are not counted.
        let elsewhere = info.resource == "pods"
            && query.is_some_and(|query| query.contains("spec.nodeName%3D"));
        let watching = (!elsewhere).then(|| {
            let mut watchers = self.watchers();
            let key = watchers.begin(&info.group, &info.resource, &info.namespace, &info.name);
            WatchRegistration {
                fairness: Arc::downgrade(self),
                key,
            }
        });
        WatchOpening {
            seat: Some(seat),
            _watching: watching,
        }
    }

    fn watchers(&self) -> std::sync::MutexGuard<'_, Watchers> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many seats a request needs.
    fn estimate(&self, asked: &SeatRequest<'_>, schema: &Schema) -> Estimate {
        let info = asked.info;
        if !info.is_resource {
            return estimate::ONE;
        }
        match info.verb {
            "list" | "watch" => {
                let Some(listed) = listed(info, asked.query) else {
                    return estimate::ONE;
                };
                estimate::list(objects(&self.storage, info), listed, schema.level.widest())
            }
            "create" | "update" | "patch" | "delete" => {
                if info.resource == "serviceaccounts" && info.subresource == "token" {
                    // Nothing is written that anybody watches.
                    return estimate::ONE;
                }
                let concerned = self.watchers().interested(
                    &info.group,
                    &info.resource,
                    &info.namespace,
                    &info.name,
                );
                estimate::write(concerned, schema.level.widest())
            }
            _ => estimate::ONE,
        }
    }
}

/// What a list or watch asks for, as far as its work goes; `None` for a watch that
/// begins with nothing.
fn listed(info: &RequestInfo, query: Option<&str>) -> Option<estimate::ListRequest> {
    let mut listed = estimate::ListRequest {
        single: !info.name.is_empty(),
        ..estimate::ListRequest::default()
    };
    let mut from_beginning = true;
    let mut initial = false;
    let mut exact = false;
    let mut versioned = false;
    for (key, value) in control_request::pairs(query.unwrap_or_default()) {
        match key.as_str() {
            "limit" => listed.limit = value.parse().unwrap_or(0),
            "labelSelector" | "fieldSelector" => listed.selects |= !value.is_empty(),
            "continue" => listed.from_store |= !value.is_empty(),
            "resourceVersionMatch" => exact = value == "Exact",
            "resourceVersion" => {
                versioned = !value.is_empty() && value != "0";
                from_beginning = !versioned;
            }
            "sendInitialEvents" => initial = !matches!(value.as_str(), "" | "0" | "false"),
            _ => {}
        }
    }
    if info.verb == "watch" {
        listed.from_store = false;
        return (initial || from_beginning).then_some(listed);
    }
    listed.from_store |= exact || (listed.limit > 0 && versioned);
    Some(listed)
}

/// What is known of a resource's objects.
fn objects(storage: &Storage, info: &RequestInfo) -> Option<estimate::Objects> {
    let served = storage.served(&info.group, &info.version, &info.resource)?;
    let state = served.cache.as_ref()?.state();
    let (mut count, mut size) = (0_usize, 0_usize);
    for object in state.objects.iter().take(SAMPLE) {
        count += 1;
        size += object.json().len();
    }
    let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    Some(estimate::Objects {
        count: number(state.objects.len()),
        size: number(size.div_ceil(count.max(1))),
    })
}

// === impl Rules ===

impl Rules {
    fn classify(&self, digest: &Digest<'_>) -> Option<&Schema> {
        let found = self.schemas.iter().find(|one| one.schema.matches(digest));
        found.or_else(|| {
            let mut all = self.schemas.iter();
            all.rfind(|one| one.schema.name == follow::CATCH_ALL)
        })
    }
}

// === impl Seat ===

impl Drop for Seat {
    fn drop(&mut self) {
        let mut set = self.level.lock();
        set.finish(now(), self.id);
        let release = set.next_release();
        drop(set);
        self.level.keep_time(release);
    }
}

// === impl WatchOpening ===

impl WatchPlace for WatchOpening {
    /// The watch has begun: its seat is free.
    fn begun(&mut self) {
        self.seat = None;
    }
}

// === impl WatchRegistration ===

impl Drop for WatchRegistration {
    fn drop(&mut self) {
        if let Some(fairness) = self.fairness.upgrade() {
            fairness.watchers().end(self.key);
        }
    }
}

// === impl Ticket ===

impl Waiter for Ticket {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            // Who does not wait any more gives the seat back itself.
            let _ = waker.send(());
        }
    }
}
