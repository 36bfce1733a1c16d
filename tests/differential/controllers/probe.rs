//! How long controllers and kubelets take for a round of work now: on a busy machine a cluster
//! that does nothing for a while need not be at rest.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use control_client::{Client, DeleteOptions, Discard, Error, resources};
use serde_json::{Value, json};

/// The namespace of the probe, which no case has.
const NAMESPACE: &str = "case-999999999999";
/// How often the probe looks for what it waits for.
const LOOK: Duration = Duration::from_millis(50);
/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(500);
/// How many of the last rounds count.
const ROUNDS: usize = 6;

#[derive(Default)]
struct State {
    rounds: VecDeque<Duration>,
    began: Option<Instant>,
}

/// The time of a round, measured again and again.
#[derive(Clone, Default)]
pub struct Probe(Arc<Mutex<State>>);

impl Probe {
    /// The longest of the last rounds, that which is under way included.
    pub fn latency(&self) -> Duration {
        let state = self.state();
        let current = state.began.map(|began| began.elapsed());
        let longest = state.rounds.iter().copied().chain(current).max();
        longest.unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measures until it is dropped.
    pub async fn run(self, client: Client) {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        // One that is refused is noticed by the rounds, which never end then.
        let _ = client
            .create::<Discard>(&resources::NAMESPACES, "", &namespace)
            .await;
        for number in 0_u64.. {
            self.state().began = Some(Instant::now());
            while round(&client, number).await.is_err() {
                tokio::time::sleep(LOOK).await;
            }
            {
                let mut state = self.state();
                let took = state.began.take().map(|began| began.elapsed());
                state.rounds.extend(took);
                if state.rounds.len() > ROUNDS {
                    state.rounds.pop_front();
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// A ReplicaSet whose pod becomes ready.
async fn round(client: &Client, number: u64) -> Result<(), Error> {
    let name = format!("probe-{number}");
    let labels = json!({"app": name});
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
                "containers": [{"name": "c", "image": "i"}]}}}});
    let sets = &resources::REPLICA_SETS;
    match client.create::<Discard>(sets, NAMESPACE, &set).await {
        Err(error) if !error.is_already_exists() => return Err(error),
        _ => {}
    }
    loop {
        let set: Value = client.get(sets, NAMESPACE, &name).await?;
        if set["status"]["readyReplicas"] == 1 {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    let options = DeleteOptions::default();
    client.delete(sets, NAMESPACE, &name, &options).await
}
