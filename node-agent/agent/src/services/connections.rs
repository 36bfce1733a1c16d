//! Says when the table of connections is full: a condition of the Node, an event
//! on it, a metric. Without it, what is lost looks like a network that loses
//! packets at random.
//!
//! ```text
//! maps ──► Loads ──► Watch (pure, with hysteresis) ──► condition, event, metric
//! ```
//!
//! The condition's form is that of node-problem-detector's: it is `True` while
//! there is a problem, and there with `False` when there is none.

use std::{path::PathBuf, sync::Arc, time::Duration};

use control_client::{
    Client, Discard, Error as ClientError, Patch,
    events::{Format, ObjectReference, Recorder},
    resources,
};
use jiff::Timestamp;
use node_agent_datapath::{Load, Loads};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::metrics::Metrics;

/// The condition's type.
const CONDITION: &str = "DatapathConnectionsFull";
const IS_FULL: &str = "ConnectionTableIsFull";
const HAS_ROOM: &str = "ConnectionTableHasRoom";

/// How often is looked.
const EVERY: Duration = Duration::from_secs(10);
/// From this part on the table is full.
const FULL: (u64, u64) = (19, 20);
/// Up to this part, it has room again.
const ROOM: (u64, u64) = (4, 5);
/// So many looks in a row without a loss are needed for that, too.
const CALM: u32 = 6;

/// Whether the table is full, from one look to the next. Pure.
#[derive(Debug, Default)]
struct Watch {
    full: bool,
    /// What was lost until the last look; none before the first.
    dropped: Option<u64>,
    calm: u32,
}

// === impl Watch ===

impl Watch {
    /// Takes a look into account; true if the table is full from now on, or still.
    fn look(&mut self, load: &Load) -> bool {
        // What was lost before this agent started says nothing of now.
        let before = self.dropped.replace(load.dropped).unwrap_or(load.dropped);
        let losing = load.dropped > before;
        let part = |(part, whole)| load.capacity * part / whole;
        self.calm = if losing { 0 } else { self.calm + 1 };
        if losing || load.connections >= part(FULL) {
            self.full = true;
        } else if self.full && self.calm >= CALM && load.connections <= part(ROOM) {
            self.full = false;
        }
        self.full
    }
}

/// Tells the API.
struct Teller {
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

/// Looks until `shutdown`. Services do not depend on it.
pub async fn follow(
    client: Client,
    node: String,
    pin_dir: PathBuf,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
) {
    let unknown = |error: &(dyn std::error::Error + 'static)| {
        warn!(
            error,
            "it is not known how full the table of connections is"
        );
    };
    let mut loads = match Loads::open(&pin_dir) {
        Ok(loads) => loads,
        Err(error) => return unknown(&error),
    };
    let mut teller = Teller::new(&client, &node);
    let mut watch = Watch::default();
    let mut clock = tokio::time::interval(EVERY);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = clock.tick() => {}
        }
        // A large table takes a while.
        let looked = tokio::task::spawn_blocking(move || {
            let load = loads.look();
            (loads, load)
        });
        let load;
        (loads, load) = match looked.await {
            Ok(looked) => looked,
            Err(panic) => return unknown(&panic),
        };
        match load {
            Ok(load) => {
                let full = watch.look(&load);
                metrics.connections(&load, full);
                teller.tell(&load, full).await;
            }
            Err(error) => unknown(&error),
        }
    }
}

// === impl Teller ===

impl Teller {
    fn new(client: &Client, node: &str) -> Self {
        Self {
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
    async fn tell(&mut self, load: &Load, full: bool) {
        let message = message(load, full);
        if self.told != full {
            self.told = full;
            if full {
                warn!(
                    connections = load.connections,
                    dropped = load.dropped,
                    "{message}"
                );
                self.recorder.warning(&self.node, IS_FULL, &*message);
            } else {
                info!(connections = load.connections, "{message}");
                self.recorder.normal(&self.node, HAS_ROOM, &*message);
            }
        }
        if self.stands == Some(full) {
            return;
        }
        let patch = condition(full, &message, Timestamp::now());
        let patch = Patch::Strategic(&patch);
        let done = self
            .client
            .patch_status::<Discard>(&resources::NODES, "", &self.node.name, patch)
            .await;
        match done {
            Ok(_) => self.stands = Some(full),
            // kube-proxy's rights do not contain it.
            Err(ClientError::Forbidden(_)) => {
                self.stands = Some(full);
                if !self.forbidden {
                    self.forbidden = true;
                    info!(
                        condition = CONDITION,
                        "the condition needs the right to patch nodes/status, which this agent \
                         has not; events and metrics tell the same"
                    );
                }
            }
            // The Node may not be there yet; the next look tries again.
            Err(error) => info!(
                error = &error as &dyn std::error::Error,
                condition = CONDITION,
                "the condition could not be written; trying again"
            ),
        }
    }
}

fn message(load: &Load, full: bool) -> String {
    let Load {
        connections,
        capacity,
        dropped,
    } = load;
    if full {
        format!(
            "the table of connections through node ports and load balancers holds {connections} of \
             {capacity}, and {dropped} packets found no room since the start: new connections are \
             dropped; shorten the timeouts of connections, or give the machine more memory and the \
             agent new maps"
        )
    } else {
        format!(
            "the table of connections through node ports and load balancers has room: it holds \
             {connections} of {capacity}"
        )
    }
}

/// The patch of the Node's status.
fn condition(full: bool, message: &str, now: Timestamp) -> Value {
    // As the API writes times: to the second.
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({"status": {"conditions": [{
        "type": CONDITION,
        "status": if full { "True" } else { "False" },
        "reason": if full { IS_FULL } else { HAS_ROOM },
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }]}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::fake::Api;

    fn load(connections: u64, dropped: u64) -> Load {
        Load {
            connections,
            capacity: 100,
            dropped,
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
            let mut watch = Watch::default();
            let found: Vec<_> = looks
                .iter()
                .map(|(connections, dropped)| watch.look(&load(*connections, *dropped)))
                .collect();
            assert_eq!(found, expected, "{name}");
        }
    }

    fn standing(api: &Api) -> Vec<String> {
        let patches = api.sent("PATCH", "/api/v1/nodes/node-1/status");
        let of = |patch: &Value| {
            let it = &patch["status"]["conditions"][0];
            assert_eq!(it["type"], CONDITION);
            assert!(
                it["message"]
                    .as_str()
                    .is_some_and(|text| text.contains("connections"))
            );
            format!("{}/{}", it["status"], it["reason"]).replace('"', "")
        };
        patches.iter().map(of).collect()
    }

    #[tokio::test]
    async fn the_node_s_condition_and_its_events_follow() {
        let api = Api::new();
        let mut teller = Teller::new(&api.client(), "node-1");
        for full in [false, false, true, true, false, false] {
            teller.tell(&load(96, 3), full).await;
        }
        assert_eq!(
            standing(&api),
            [
                "False/ConnectionTableHasRoom",
                "True/ConnectionTableIsFull",
                "False/ConnectionTableHasRoom"
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
                (Some("Warning"), Some(IS_FULL)),
                (Some("Normal"), Some(HAS_ROOM))
            ]
        );
        assert_eq!(events[0]["involvedObject"]["kind"], "Node");
        assert_eq!(events[0]["involvedObject"]["name"], "node-1");
        let text = events[0]["message"].as_str().unwrap_or_default();
        assert!(text.contains("holds 96 of 100, and 3 packets"), "{text}");
    }

    #[tokio::test]
    async fn who_may_not_write_the_condition_tells_by_events() {
        let api = Api::new();
        api.answer("PATCH", 403);
        let mut teller = Teller::new(&api.client(), "node-1");
        for full in [false, false, true, true] {
            teller.tell(&load(96, 3), full).await;
        }
        assert_eq!(standing(&api).len(), 2, "once for each state");
        assert_eq!(api.events(1).await[0]["reason"], IS_FULL);
    }

    #[tokio::test]
    async fn a_node_that_is_not_there_yet_is_told_later() {
        let api = Api::new();
        api.answer("PATCH", 404);
        let mut teller = Teller::new(&api.client(), "node-1");
        teller.tell(&load(1, 0), false).await;
        teller.tell(&load(1, 0), false).await;
        api.answer("PATCH", 200);
        teller.tell(&load(1, 0), false).await;
        teller.tell(&load(1, 0), false).await;
        assert_eq!(standing(&api).len(), 3);
    }
}
