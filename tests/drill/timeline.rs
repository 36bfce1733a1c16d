//! What the API says, and when: watches of the objects that a fault changes.

use std::{
    collections::BTreeMap,
    io::BufReader,
    process::{Child, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use tests::{Cluster, Failure};

use crate::workload::NAMESPACE;

/// Seconds since 1970.
pub fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// The kinds that are watched, as kubectl names them.
const WATCHES: [(&str, &str); 4] = [
    ("nodes", "nodes"),
    ("leases", "leases --namespace kube-node-lease"),
    ("endpointslices", "endpointslices --namespace drill"),
    ("pods", "pods --namespace drill"),
];

/// An object as the API showed it from a moment on; `None` once it is deleted.
struct Seen {
    at: f64,
    kind: &'static str,
    name: String,
    object: Option<Value>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    children: Mutex<Vec<Child>>,
    ended: AtomicBool,
}

/// Everything that the watches brought since the start; they end when this is dropped.
pub struct Timeline {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// A look at the cluster at one moment of a timeline.
pub struct View<'a>(BTreeMap<(&'static str, &'a str), &'a Value>);

impl Timeline {
    /// Starts the watches; one that ends, since the server does, starts again.
    pub fn start(cluster: &Cluster) -> Self {
        debug_assert_eq!(NAMESPACE, "drill");
        let shared = Arc::new(Shared::default());
        let threads = WATCHES
            .map(|(kind, words)| {
                let mut command = cluster.command(&format!(
                    "get {words} --watch --output-watch-events -o json"
                ));
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    while !shared.ended.load(Ordering::Relaxed) {
                        command.stdout(Stdio::piped()).stderr(Stdio::null());
                        if let Ok(child) = command.stdin(Stdio::null()).spawn() {
                            follow(&shared, kind, child);
                        }
                        thread::sleep(Duration::from_millis(100));
                    }
                })
            })
            .into();
        Self { shared, threads }
    }

    /// The first moment from `from` on at which `holds`.
    pub fn first(&self, from: f64, holds: impl Fn(&View<'_>) -> bool) -> Option<f64> {
        let seen = locked(&self.shared.seen);
        let mut view = View(BTreeMap::new());
        let mut begun = false;
        for change in seen.iter() {
            if change.at >= from && !begun {
                begun = true;
                if holds(&view) {
                    return Some(from);
                }
            }
            let key = (change.kind, change.name.as_str());
            match &change.object {
                Some(object) => view.0.insert(key, object),
                None => view.0.remove(&key),
            };
            if begun && holds(&view) {
                return Some(change.at);
            }
        }
        (!begun && holds(&view)).then_some(from)
    }

    /// Waits until it holds at a moment from `from` on; gives that moment.
    pub fn wait(
        &self,
        from: f64,
        patience: Duration,
        holds: impl Fn(&View<'_>) -> bool,
    ) -> Option<f64> {
        let deadline = now() + patience.as_secs_f64();
        loop {
            let found = self.first(from, &holds);
            if found.is_some() || now() > deadline {
                return found;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for the watches' first answers.
    ///
    /// # Errors
    /// When there are none after 30 s.
    pub fn ready(&self) -> Result<(), Failure> {
        let kinds = |view: &View<'_>| {
            let has = |wanted| view.0.keys().any(|(kind, _)| *kind == wanted);
            WATCHES.iter().all(|(kind, _)| has(*kind))
        };
        let found = self.wait(0.0, Duration::from_secs(30), kinds);
        found
            .map(drop)
            .ok_or_else(|| "the watches bring nothing".into())
    }

    /// When the node renewed its lease last before `until`, by the lease's own word.
    pub fn last_renewal(&self, node: &str, until: f64) -> Option<f64> {
        let seen = locked(&self.shared.seen);
        let mut renewals = seen.iter().rev().filter(|change| {
            change.kind == "leases" && change.name == node && change.at <= until + 1.0
        });
        let lease = renewals.find_map(|change| change.object.as_ref())?;
        let time: jiff::Timestamp = lease["spec"]["renewTime"].as_str()?.parse().ok()?;
        Some(time.as_duration().as_secs_f64())
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        // A watch that starts meanwhile is ended in the next round.
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            for child in locked(&self.shared.children).iter_mut() {
                let _ = child.kill();
            }
            thread::sleep(Duration::from_millis(20));
        }
        for child in locked(&self.shared.children).iter_mut() {
            let _ = child.wait();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes what one watch prints until it ends.
fn follow(shared: &Shared, kind: &'static str, mut child: Child) {
    let Some(output) = child.stdout.take() else {
        return;
    };
    locked(&shared.children).push(child);
    let mut events = serde_json::Deserializer::from_reader(BufReader::new(output)).into_iter();
    while let Some(Ok(event)) = events.next() {
        let mut event: Value = event;
        let object = event["object"].take();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let change = Seen {
            at: now(),
            kind,
            name: name.to_owned(),
            object: (event["type"] != "DELETED").then_some(object),
        };
        locked(&shared.seen).push(change);
    }
}

impl View<'_> {
    fn of(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let all = self.0.iter().filter(move |((of, _), _)| *of == kind);
        all.map(|(_, object)| *object)
    }

    /// The status of the node's condition `Ready`; empty where there is none.
    pub fn node_ready(&self, node: &str) -> &str {
        let object = self.0.get(&("nodes", node));
        let conditions = object.and_then(|object| object["status"]["conditions"].as_array());
        let mut conditions = conditions.into_iter().flatten();
        let ready = conditions.find(|condition| condition["type"] == "Ready");
        ready
            .and_then(|ready| ready["status"].as_str())
            .unwrap_or("")
    }

    /// Whether the node has a condition with this status.
    pub fn node_has(&self, node: &str, kind: &str, status: &str) -> bool {
        let object = self.0.get(&("nodes", node));
        let conditions = object.and_then(|object| object["status"]["conditions"].as_array());
        let holds = |condition: &Value| condition["type"] == kind && condition["status"] == status;
        conditions.is_some_and(|conditions| conditions.iter().any(holds))
    }

    /// Whether the node has a taint of this key and effect.
    pub fn tainted(&self, node: &str, key: &str, effect: &str) -> bool {
        let object = self.0.get(&("nodes", node));
        let taints = object.and_then(|object| object["spec"]["taints"].as_array());
        let is_it = |taint: &Value| taint["key"] == key && taint["effect"] == effect;
        taints.is_some_and(|taints| taints.iter().any(is_it))
    }

    /// Whether the node has any taint.
    pub fn has_taints(&self, node: &str) -> bool {
        let object = self.0.get(&("nodes", node));
        let taints = object.and_then(|object| object["spec"]["taints"].as_array());
        taints.is_some_and(|taints| !taints.is_empty())
    }

    /// How many ready endpoints on the node the Service has.
    pub fn endpoints(&self, node: &str) -> usize {
        let slices = self.of("endpointslices");
        let endpoints = slices.filter_map(|slice| slice["endpoints"].as_array());
        let on = |endpoint: &&Value| {
            endpoint["nodeName"] == node && endpoint["conditions"]["ready"] != false
        };
        endpoints.flatten().filter(on).count()
    }

    /// The pods of the workload on the node.
    pub fn pods(&self, node: &str) -> Vec<&Value> {
        let all = self.of("pods");
        all.filter(|pod| pod["spec"]["nodeName"] == node).collect()
    }

    /// How many pods of the workload are ready on the node, and are to stay.
    pub fn ready_pods(&self, node: &str) -> usize {
        let pods = self.pods(node).into_iter();
        pods.filter(|pod| is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null())
            .count()
    }

    /// How often containers of the pods on the node were restarted.
    pub fn restarts(&self, node: &str) -> u64 {
        let pods = self.pods(node).into_iter();
        let restarts = |pod: &Value| {
            let statuses = pod["status"]["containerStatuses"].as_array();
            let counts = statuses.into_iter().flatten();
            counts
                .filter_map(|status| status["restartCount"].as_u64())
                .sum::<u64>()
        };
        pods.map(restarts).sum()
    }
}

/// Whether the pod's condition `Ready` is true.
pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
