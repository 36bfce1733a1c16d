//! Says when a table that programs fill is full: of connections, of datagram sockets
//! ([`ORIGINALS`]), of clients that keep their endpoint ([`AFFINITY`]). Each is a
//! condition of the Node, an event on it, a metric. Without it, what is lost looks like
//! a network that loses packets at random.
//!
//! ```text
//! maps ──► Loads, Remembered ──► Watch (pure, with hysteresis) ──► condition, event, metric
//! ```
//!
//! The condition's form is that of node-problem-detector's: it is `True` while
//! there is a problem, and there with `False` when there is none.
//!
//! [`ORIGINALS`]: ebpf_abi::maps::ORIGINALS
//! [`AFFINITY`]: ebpf_abi::maps::AFFINITY

use std::{path::PathBuf, sync::Arc, time::Duration};

use control_client::{
    Client, Discard, Error as ClientError, Patch,
    events::{Format, ObjectReference, Recorder},
    resources,
};
use jiff::Timestamp;
use node_agent_datapath::{Error as DatapathError, Loads, StaleEntryScan, TableLoad};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::metrics::ServiceMetrics;

/// How often is looked at connections.
const EVERY: Duration = Duration::from_secs(10);
/// The others, which are walked through each time, are looked at every so many times.
const SELDOM: u32 = 6;
/// From this part on the table is full.
const FULL: (u64, u64) = (19, 20);
/// Up to this part, it has room again.
const ROOM: (u64, u64) = (4, 5);
/// So many looks in a row without a loss are needed for that, too.
const CALM: u32 = 6;

/// A table that programs fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilledTable {
    /// Connections that packets made.
    Connections,
    /// Datagram sockets that talk to services.
    Sockets,
    /// Clients of services with affinity.
    Clients,
}

/// Detects a full table between two readings. Pure.
#[derive(Debug, Default)]
struct FillWatch {
    full: bool,
    /// What was lost until the last look; none before the first.
    lost: Option<u64>,
    calm: u32,
}

// === impl Filled ===

impl FilledTable {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Connections, Self::Sockets, Self::Clients];

    /// The condition's type.
    const fn condition(self) -> &'static str {
        match self {
            Self::Connections => "DatapathConnectionsFull",
            Self::Sockets => "DatapathSocketsFull",
            Self::Clients => "DatapathClientsFull",
        }
    }

    /// The condition's reason, and the event's.
    const fn reason(self, full: bool) -> &'static str {
        match (self, full) {
            (Self::Connections, true) => "ConnectionTableIsFull",
            (Self::Connections, false) => "ConnectionTableHasRoom",
            (Self::Sockets, true) => "SocketTableIsFull",
            (Self::Sockets, false) => "SocketTableHasRoom",
            (Self::Clients, true) => "ClientTableIsFull",
            (Self::Clients, false) => "ClientTableHasRoom",
        }
    }

    const fn table(self) -> &'static str {
        match self {
            Self::Connections => "the table of connections through node ports and load balancers",
            Self::Sockets => "the table of datagram sockets that talk to services",
            Self::Clients => "the table of clients that keep their endpoint",
        }
    }

    fn message(self, load: &TableLoad, full: bool) -> String {
        let TableLoad {
            held,
            capacity,
            lost,
        } = load;
        let table = self.table();
        if !full {
            return format!("{table} has room: it holds {held} of {capacity}");
        }
        let what = match self {
            Self::Connections => format!(
                "and {lost} packets found no room since the start: new connections are dropped; \
                 shorten the timeouts of connections, or give the machine more memory and the \
                 agent new maps"
            ),
            Self::Sockets => format!(
                "and of those that were watched {lost} were forgotten: they see endpoints instead \
                 of services; fewer sockets, or give the machine more memory and the agent new maps"
            ),
            Self::Clients => format!(
                "and of those that were watched {lost} were forgotten: they get another endpoint; \
                 shorten `sessionAffinityConfig.clientIP.timeoutSeconds`, or give the machine more \
                 memory and the agent new maps"
            ),
        };
        format!("{table} holds {held} of {capacity}, {what}")
    }
}

// === impl Watch ===

impl FillWatch {
    /// Takes a look into account; true if the table is full from now on, or still.
    fn look(&mut self, load: &TableLoad) -> bool {
        // What was lost before this agent started says nothing of now.
        let before = self.lost.replace(load.lost).unwrap_or(load.lost);
        let losing = load.lost > before;
        let part = |(part, whole)| load.capacity * part / whole;
        self.calm = if losing { 0 } else { self.calm + 1 };
        if losing || load.held >= part(FULL) {
            self.full = true;
        } else if self.full && self.calm >= CALM && load.held <= part(ROOM) {
            self.full = false;
        }
        self.full
    }
}

/// Reports one table's fill level to the API.
struct FillReporter {
    table: FilledTable,
    client: Client,
    node: ObjectReference,
    recorder: Recorder,
    /// What was told by the last event; at the start, that there is room.
    told: bool,
    /// What the condition says, or would if it might be written.
    stands: Option<bool>,
    /// That it may not was said.
    forbidden: bool,
}

/// The sizes of all tables in the kernel.
struct KernelTables {
    loads: Loads,
    remembered: StaleEntryScan,
}

// === impl Tables ===

impl KernelTables {
    fn open(pin_dir: &std::path::Path) -> Result<Self, DatapathError> {
        Ok(Self {
            loads: Loads::open(pin_dir)?,
            remembered: StaleEntryScan::open(pin_dir)?,
        })
    }

    fn look(&mut self, table: FilledTable) -> Result<TableLoad, DatapathError> {
        match table {
            FilledTable::Connections => self.loads.look(),
            FilledTable::Sockets => self.remembered.sockets(),
            FilledTable::Clients => self.remembered.clients(),
        }
    }
}

/// Looks until `shutdown`. Services do not depend on it.
pub async fn follow(
    client: Client,
    node: String,
    pin_dir: PathBuf,
    metrics: Arc<ServiceMetrics>,
    shutdown: CancellationToken,
) {
    let unknown = |error: &(dyn std::error::Error + 'static)| {
        warn!(error, "failed to read how full the programs' tables are");
    };
    let mut tables = match KernelTables::open(&pin_dir) {
        Ok(tables) => tables,
        Err(error) => return unknown(&error),
    };
    let mut all = FilledTable::ALL.map(|table| {
        (
            FillReporter::new(&client, &node, table),
            FillWatch::default(),
        )
    });
    let mut clock = tokio::time::interval(EVERY);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for turn in 0_u32.. {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = clock.tick() => {}
        }
        for (teller, watch) in &mut all {
            let table = teller.table;
            if table != FilledTable::Connections && !turn.is_multiple_of(SELDOM) {
                continue;
            }
            // A large table takes a while.
            let looked = tokio::task::spawn_blocking(move || {
                let load = tables.look(table);
                (tables, load)
            });
            let load;
            (tables, load) = match looked.await {
                Ok(looked) => looked,
                Err(panic) => return unknown(&panic),
            };
            match load {
                Ok(load) => {
                    let full = watch.look(&load);
                    metrics.filled(table, &load, full);
                    teller.tell(&load, full).await;
                }
                Err(error) => unknown(&error),
            }
        }
    }
}

// === impl Teller ===

impl FillReporter {
    fn new(client: &Client, node: &str, table: FilledTable) -> Self {
        Self {
            table,
            client: client.clone(),
            node: ObjectReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: node.to_owned(),
                // As kubelets do: the node's own events carry its name.
                uid: node.to_owned(),
                ..ObjectReference::default()
            },
            recorder: Recorder::new(client, "kube-proxy", node, Format::Core),
            told: false,
            stands: None,
            forbidden: false,
        }
    }

    /// Tells of a change by an event, and writes the condition until it stands.
    async fn tell(&mut self, load: &TableLoad, full: bool) {
        let message = self.table.message(load, full);
        let reason = self.table.reason(full);
        if self.told != full {
            self.told = full;
            if full {
                warn!(held = load.held, lost = load.lost, "{message}");
                self.recorder.warning(&self.node, reason, &*message);
            } else {
                info!(held = load.held, "{message}");
                self.recorder.normal(&self.node, reason, &*message);
            }
        }
        if self.stands == Some(full) {
            return;
        }
        let patch = condition(self.table, full, &message, Timestamp::now());
        let patch = Patch::Strategic(&patch);
        let done = self
            .client
            .patch_status::<Discard>(&resources::NODES, "", &self.node.name, patch)
            .await;
        let condition = self.table.condition();
        match done {
            Ok(_) => self.stands = Some(full),
            // kube-proxy's rights do not contain it.
            Err(ClientError::Forbidden(_)) => {
                self.stands = Some(full);
                if !self.forbidden {
                    self.forbidden = true;
                    info!(
                        condition,
                        "the condition needs the right to patch nodes/status, which this agent \
                         has not; events and metrics tell the same"
                    );
                }
            }
            // The Node may not be there yet; the next look tries again.
            Err(error) => info!(
                error = &error as &dyn std::error::Error,
                condition, "failed to write the condition; retrying"
            ),
        }
    }
}

/// The patch of the Node's status.
fn condition(table: FilledTable, full: bool, message: &str, now: Timestamp) -> Value {
    // As the API writes times: to the second.
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({"status": {"conditions": [{
        "type": table.condition(),
        "status": if full { "True" } else { "False" },
        "reason": table.reason(full),
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }]}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::fake::Api;

    fn load(held: u64, lost: u64) -> TableLoad {
        TableLoad {
            held,
            capacity: 100,
            lost,
        }
    }

    /// Looks, in order, and whether the table is full then.
    #[test]
    fn full_begins_at_once_and_ends_when_it_is_calm() {
        let cases: [(&str, &[(u64, u64)], &[bool]); 6] = [
            ("below", &[(0, 0), (94, 0), (94, 0)], &[false; 3]),
            (
                "by number",
                &[(94, 0), (95, 0), (81, 0)],
                &[false, true, true],
            ),
            (
                "by loss",
                &[(10, 0), (10, 1), (10, 1)],
                &[false, true, true],
            ),
            ("a loss of former times", &[(10, 9), (10, 9)], &[false; 2]),
            (
                "calm for six looks",
                &[(95, 0), (80, 0), (80, 0), (80, 0), (80, 0), (80, 0)],
                &[true, true, true, true, true, false],
            ),
            (
                "a loss in between",
                &[
                    (95, 0),
                    (9, 0),
                    (9, 0),
                    (9, 0),
                    (9, 1),
                    (9, 1),
                    (9, 1),
                    (9, 1),
                    (9, 1),
                    (9, 1),
                    (9, 1),
                ],
                &[
                    true, true, true, true, true, true, true, true, true, true, false,
                ],
            ),
        ];
        for (name, looks, expected) in cases {
            let mut watch = FillWatch::default();
            let found: Vec<_> = looks
                .iter()
                .map(|(held, lost)| watch.look(&load(*held, *lost)))
                .collect();
            assert_eq!(found, expected, "{name}");
        }
    }

    fn standing(api: &Api) -> Vec<String> {
        let patches = api.sent("PATCH", "/api/v1/nodes/node-1/status");
        let of = |patch: &Value| {
            let it = &patch["status"]["conditions"][0];
            let text = it["message"].as_str().unwrap_or_default();
            assert!(text.contains("of 100"), "{text}");
            format!("{}/{}/{}", it["type"], it["status"], it["reason"]).replace('"', "")
        };
        patches.iter().map(of).collect()
    }

    #[tokio::test]
    async fn the_node_s_condition_and_its_events_follow() {
        let api = Api::new();
        let mut teller = FillReporter::new(&api.client(), "node-1", FilledTable::Connections);
        for full in [false, false, true, true, false, false] {
            teller.tell(&load(96, 3), full).await;
        }
        assert_eq!(
            standing(&api),
            [
                "DatapathConnectionsFull/False/ConnectionTableHasRoom",
                "DatapathConnectionsFull/True/ConnectionTableIsFull",
                "DatapathConnectionsFull/False/ConnectionTableHasRoom"
            ]
        );
        let events = api.events(2).await;
        let told: Vec<_> = events
            .iter()
            .map(|it| (it["type"].as_str(), it["reason"].as_str()))
            .collect();
        assert_eq!(
            told,
            [
                (Some("Warning"), Some("ConnectionTableIsFull")),
                (Some("Normal"), Some("ConnectionTableHasRoom"))
            ]
        );
        assert_eq!(events[0]["involvedObject"]["kind"], "Node");
        assert_eq!(events[0]["involvedObject"]["name"], "node-1");
        let text = events[0]["message"].as_str().unwrap_or_default();
        assert!(text.contains("holds 96 of 100, and 3 packets"), "{text}");
    }

    #[tokio::test]
    async fn each_table_has_a_condition_and_events_of_its_own() {
        let api = Api::new();
        for table in FilledTable::ALL {
            let mut teller = FillReporter::new(&api.client(), "node-1", table);
            teller.tell(&load(96, 3), true).await;
        }
        assert_eq!(
            standing(&api),
            [
                "DatapathConnectionsFull/True/ConnectionTableIsFull",
                "DatapathSocketsFull/True/SocketTableIsFull",
                "DatapathClientsFull/True/ClientTableIsFull"
            ]
        );
        let events = api.events(3).await;
        let mut reasons: Vec<_> = events.iter().map(|it| it["reason"].as_str()).collect();
        reasons.sort_unstable();
        let expected = [
            "ClientTableIsFull",
            "ConnectionTableIsFull",
            "SocketTableIsFull",
        ];
        assert_eq!(reasons, expected.map(Some));
    }

    #[tokio::test]
    async fn who_may_not_write_the_condition_tells_by_events() {
        let api = Api::new();
        api.answer("PATCH", 403);
        let mut teller = FillReporter::new(&api.client(), "node-1", FilledTable::Connections);
        for full in [false, false, true, true] {
            teller.tell(&load(96, 3), full).await;
        }
        assert_eq!(standing(&api).len(), 2, "once for each state");
        assert_eq!(api.events(1).await[0]["reason"], "ConnectionTableIsFull");
    }

    #[tokio::test]
    async fn a_node_that_is_not_there_yet_is_told_later() {
        let api = Api::new();
        api.answer("PATCH", 404);
        let mut teller = FillReporter::new(&api.client(), "node-1", FilledTable::Connections);
        teller.tell(&load(1, 0), false).await;
        teller.tell(&load(1, 0), false).await;
        api.answer("PATCH", 200);
        teller.tell(&load(1, 0), false).await;
        teller.tell(&load(1, 0), false).await;
        assert_eq!(standing(&api).len(), 3);
    }
}
