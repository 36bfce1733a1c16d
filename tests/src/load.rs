//! Clients that read and write registers, which are ConfigMaps, while servers come and go, and
//! what they saw: whether it is linearizable, and whether watches told all of it.
//!
//! A load has watches that go on from one round to the next, so that they live through every
//! fault. Each round has registers and clients of its own, so that a history stays short enough
//! to be judged.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use control_client::{Client, Patch, Resource, Selection, resources};
use serde_json::{Value, json};
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Failure, ensure,
    history::{Action, Operation, is_linearizable},
    watches::{self, Event, Watches},
};

static CONFIG_MAPS: Resource = resources::CONFIG_MAPS;
/// Registers of a round.
const REGISTERS: usize = 3;
/// Pause between a client's operations.
const PAUSE: Duration = Duration::from_millis(40);
/// How long one attempt may take; what is not answered by then is asked again.
const ATTEMPT: Duration = Duration::from_secs(1);
/// Pause before an operation that failed is tried again.
const AGAIN: Duration = Duration::from_millis(20);
/// How long all may take to be well after the last fault.
const PATIENCE: Duration = Duration::from_secs(180);
/// What a register has that is not there.
const MISSING: u64 = u64::MAX;

/// Clients of a cluster, and watches of what they do.
pub struct Load {
    runtime: Runtime,
    watches: Watches,
    namespace: String,
    /// One for each kubeconfig.
    clients: Vec<Client>,
    /// What times of operations count from.
    epoch: Instant,
    rounds: usize,
}

/// Clients that work until their round ends or is dropped.
pub struct Round {
    stop: DropGuard,
    registers: Vec<String>,
    seen: Arc<Mutex<Outcome>>,
    tasks: Vec<JoinHandle<()>>,
}

/// What the clients and watches of a round saw.
#[derive(Debug, Default)]
pub struct Outcome {
    histories: BTreeMap<String, Vec<Operation>>,
    latencies: Vec<Duration>,
    /// The attempts of the operation that needed most.
    most_attempts: usize,
    acknowledged: Vec<Event>,
    told: Vec<(String, watches::Record)>,
}

/// An answered attempt.
struct Answer {
    /// What became known of registers.
    actions: Vec<(String, Action)>,
    /// A write, as watches are to tell it.
    write: Option<Event>,
}

/// One client.
struct Worker {
    client: Client,
    number: usize,
    namespace: String,
    registers: Vec<String>,
    epoch: Instant,
    stop: CancellationToken,
    seen: Arc<Mutex<Outcome>>,
}

fn lock(seen: &Mutex<Outcome>) -> std::sync::MutexGuard<'_, Outcome> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn micros_since(epoch: Instant) -> u64 {
    u64::try_from(epoch.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// The change that an answered write made.
fn event_of(object: &Value, value: u64) -> Option<Event> {
    let metadata = &object["metadata"];
    Some(Event {
        name: metadata["name"].as_str()?.to_owned(),
        revision: metadata["resourceVersion"].as_str()?.parse().ok()?,
        value: Some(value),
    })
}

fn value_of(object: &Value) -> u64 {
    let text = object["data"]["value"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or(MISSING)
}

// === impl Load ===

impl Load {
    /// Makes the namespace and starts the watches. A client and a watch use each kubeconfig,
    /// which is given with its name: that of one server, or of all.
    ///
    /// # Errors
    /// A kubeconfig that cannot be used, or a cluster that does not answer.
    pub fn start(kubeconfigs: &[(String, PathBuf)], namespace: &str) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let mut clients = Vec::new();
        for (_, path) in kubeconfigs {
            clients.push(runtime.block_on(Client::from_kubeconfig(path))?);
        }
        let client = clients.first().ok_or("a load needs a kubeconfig")?;
        let revision = runtime.block_on(async {
            let body = json!({"metadata": {"name": namespace}});
            match client
                .create::<Value>(&resources::NAMESPACES, "", &body)
                .await
            {
                Err(error) if !error.is_already_exists() => return Err(error.into()),
                _ => {}
            }
            let selection = Selection::all().namespace(namespace);
            let list = client.list::<Value>(&CONFIG_MAPS, &selection).await?;
            Ok::<_, Failure>(list.resource_version.parse()?)
        })?;
        let watches = Watches::start(&runtime, kubeconfigs, namespace, revision)?;
        Ok(Self {
            runtime,
            watches,
            namespace: namespace.to_owned(),
            clients,
            epoch: Instant::now(),
            rounds: 0,
        })
    }

    /// Makes registers, and starts as many workers for each kubeconfig.
    ///
    /// # Errors
    /// Registers that cannot be made.
    pub fn begin(&mut self, workers: usize) -> Result<Round, Failure> {
        self.rounds += 1;
        let name = |at| format!("register-{}-{at}", self.rounds);
        let registers: Vec<String> = (0..REGISTERS).map(name).collect();
        let seen = Arc::<Mutex<Outcome>>::default();
        let this = &*self;
        for register in &registers {
            let made = this.until_answered(|client| async move {
                let body = json!({"metadata": {"name": register}, "data": {"value": "0"}});
                let made = client.create::<Value>(&CONFIG_MAPS, &this.namespace, &body);
                match made.await {
                    Err(error) if error.is_already_exists() => Ok(None),
                    Err(error) => Err(error),
                    Ok(object) => Ok(event_of(&object, 0)),
                }
            })?;
            lock(&seen).acknowledged.extend(made);
        }
        let stop = CancellationToken::new();
        let mut tasks = Vec::new();
        let everyone = self.clients.iter().cycle();
        let count = workers * self.clients.len();
        for (number, client) in everyone.take(count).enumerate() {
            let worker = Worker {
                client: client.clone(),
                number,
                namespace: self.namespace.clone(),
                registers: registers.clone(),
                epoch: self.epoch,
                stop: stop.clone(),
                seen: Arc::clone(&seen),
            };
            tasks.push(self.runtime.spawn(worker.work()));
        }
        Ok(Round {
            stop: stop.drop_guard(),
            registers,
            seen,
            tasks,
        })
    }

    /// Ends the clients of a round, asks every server for what is there, and waits until all
    /// watches have told of the last write.
    ///
    /// # Errors
    /// A cluster that takes no writes, a server that does not answer, or a watch that stands
    /// still.
    pub fn end(&self, round: Round) -> Result<Outcome, Failure> {
        let Round {
            stop,
            registers,
            seen,
            tasks,
        } = round;
        drop(stop);
        self.runtime.block_on(async {
            for task in tasks {
                let _ = tokio::time::timeout(Duration::from_secs(30), task).await;
            }
        });
        let mut last = 0;
        for register in &registers {
            last = last.max(self.last_words(register, &seen)?);
        }
        self.watches.wait_for(last, PATIENCE)?;
        let mut outcome = std::mem::take(&mut *lock(&seen));
        outcome.told = self.watches.take(last);
        for register in &registers {
            self.until_answered(|client| async move {
                let options = control_client::DeleteOptions::default();
                let resource = &CONFIG_MAPS;
                let gone = client.delete(resource, &self.namespace, register, &options);
                match gone.await {
                    Err(error) if !error.is_not_found() => Err(error),
                    _ => Ok(()),
                }
            })?;
        }
        Ok(outcome)
    }

    /// Writes a register a last time, and reads it through every kubeconfig; returns the
    /// revision.
    fn last_words(&self, register: &str, seen: &Mutex<Outcome>) -> Result<u64, Failure> {
        let mut attempts = Vec::new();
        let began = micros_since(self.epoch);
        let value = 1 + (began << 8 | 0xff);
        let written = self.until_answered(|client| {
            // Each attempt has a value of its own: one that failed may still come.
            let attempt = value + ((attempts.len() as u64) << 32);
            attempts.push(attempt);
            async move {
                let body = json!({"data": {"value": attempt.to_string()}});
                let patch = Patch::Merge(&body);
                let resource = &CONFIG_MAPS;
                let object: Value = client
                    .patch(resource, &self.namespace, register, "", patch)
                    .await?;
                Ok(event_of(&object, attempt))
            }
        })?;
        let written = written.ok_or("an answer without a revision")?;
        for attempt in attempts {
            let is_done = written.value == Some(attempt);
            let ended = is_done.then(|| micros_since(self.epoch));
            note(seen, register, Action::Write(attempt), began, ended);
        }
        let revision = written.revision;
        lock(seen).acknowledged.push(written);
        for client in &self.clients {
            let began = micros_since(self.epoch);
            let read = self.until_answered_by(client, |client| async move {
                client
                    .get::<Value>(&CONFIG_MAPS, &self.namespace, register)
                    .await
            })?;
            let read = Action::Read(value_of(&read));
            note(seen, register, read, began, Some(micros_since(self.epoch)));
        }
        Ok(revision)
    }

    /// Waits until each server says that it is ready, asked by its kubeconfig.
    ///
    /// # Errors
    /// What one answers in the end.
    pub fn all_are_ready(&self) -> Result<(), Failure> {
        for client in &self.clients {
            self.until_answered_by(client, |client| async move {
                let request = http::Request::get("/readyz").body(Vec::new());
                let request = request.unwrap_or_default();
                let answer = client.kube().request_text(request).await;
                answer.map_err(control_client::Error::from_transport)
            })?;
        }
        Ok(())
    }

    fn until_answered<T, F: Future<Output = Result<T, control_client::Error>>>(
        &self,
        ask: impl FnMut(Client) -> F,
    ) -> Result<T, Failure> {
        self.until_answered_by(&self.clients[0], ask)
    }

    /// Asks again and again until there is an answer.
    fn until_answered_by<T, F: Future<Output = Result<T, control_client::Error>>>(
        &self,
        client: &Client,
        mut ask: impl FnMut(Client) -> F,
    ) -> Result<T, Failure> {
        let until = Instant::now() + PATIENCE;
        self.runtime.block_on(async {
            loop {
                let attempt = tokio::time::timeout(5 * ATTEMPT, ask(client.clone())).await;
                let error = match attempt {
                    Ok(Ok(answer)) => return Ok(answer),
                    Ok(Err(error)) => error.chain(),
                    Err(elapsed) => elapsed.to_string(),
                };
                if Instant::now() > until {
                    return Err(format!("no answer for {PATIENCE:?}: {error}").into());
                }
                tokio::time::sleep(5 * AGAIN).await;
            }
        })
    }
}

// === impl Worker ===

impl Worker {
    /// Reads and writes in turn, each until it is answered.
    async fn work(self) {
        for step in 0.. {
            let register = self.registers[(self.number + step) % self.registers.len()].clone();
            let started = Instant::now();
            let mut attempts = 0;
            loop {
                if self.stop.is_cancelled() {
                    return;
                }
                attempts += 1;
                if self.attempt(step, &register, started).await {
                    break;
                }
                tokio::time::sleep(AGAIN).await;
            }
            self.count_attempts(attempts);
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn count_attempts(&self, attempts: usize) {
        let mut seen = lock(&self.seen);
        seen.most_attempts = seen.most_attempts.max(attempts);
    }

    /// Makes one attempt of the step, and takes it down; returns whether it was answered.
    async fn attempt(&self, step: usize, register: &str, started: Instant) -> bool {
        let began = micros_since(self.epoch);
        // Each attempt of a write has a value of its own: one of an attempt that failed may
        // still come.
        let value = 1 + (began << 8 | self.number as u64);
        let (asked, action) = match step % 4 {
            0 => {
                let written = self.write(register, value);
                let asked = tokio::time::timeout(ATTEMPT, written).await;
                (asked, Some(Action::Write(value)))
            }
            1 => (
                tokio::time::timeout(ATTEMPT, self.read(register)).await,
                None,
            ),
            2 => (tokio::time::timeout(ATTEMPT, self.list()).await, None),
            _ => return self.swap(register, value, started).await,
        };
        self.take_down(asked, register, action, began, started)
    }

    /// Reads a register and replaces what it has, unless somebody else did.
    async fn swap(&self, register: &str, value: u64, started: Instant) -> bool {
        let began = micros_since(self.epoch);
        let resource = &CONFIG_MAPS;
        let got = self
            .client
            .get::<Value>(resource, &self.namespace, register);
        let Ok(Ok(mut object)) = tokio::time::timeout(ATTEMPT, got).await else {
            return false;
        };
        let from = value_of(&object);
        let ended = Some(micros_since(self.epoch));
        note(&self.seen, register, Action::Read(from), began, ended);
        object["data"]["value"] = json!(value.to_string());
        let began = micros_since(self.epoch);
        let put = async {
            let resource = &CONFIG_MAPS;
            let put = self
                .client
                .update::<Value>(resource, &self.namespace, register, &object);
            let actions = |action| vec![(register.to_owned(), action)];
            match put.await {
                Ok(object) => Ok(Answer {
                    actions: actions(Action::Swap { from, to: value }),
                    write: event_of(&object, value),
                }),
                // Not done, for sure.
                Err(error) if error.is_conflict() => Ok(Answer {
                    actions: Vec::new(),
                    write: None,
                }),
                Err(error) => Err(error),
            }
        };
        let asked = tokio::time::timeout(ATTEMPT, put).await;
        let action = Some(Action::Swap { from, to: value });
        self.take_down(asked, register, action, began, started)
    }

    async fn write(&self, register: &str, value: u64) -> Result<Answer, control_client::Error> {
        let body = json!({"data": {"value": value.to_string()}});
        let patch = Patch::Merge(&body);
        let resource = &CONFIG_MAPS;
        let written = self
            .client
            .patch::<Value>(resource, &self.namespace, register, "", patch)
            .await;
        let (action, write) = match written {
            Ok(object) => (Action::Write(value), event_of(&object, value)),
            Err(error) if error.is_not_found() => (Action::Read(MISSING), None),
            Err(error) => return Err(error),
        };
        Ok(Answer {
            actions: vec![(register.to_owned(), action)],
            write,
        })
    }

    async fn read(&self, register: &str) -> Result<Answer, control_client::Error> {
        let got = self
            .client
            .get::<Value>(&CONFIG_MAPS, &self.namespace, register)
            .await;
        let value = match got {
            Ok(object) => value_of(&object),
            Err(error) if error.is_not_found() => MISSING,
            Err(error) => return Err(error),
        };
        Ok(Answer {
            actions: vec![(register.to_owned(), Action::Read(value))],
            write: None,
        })
    }

    /// Reads all registers at once.
    async fn list(&self) -> Result<Answer, control_client::Error> {
        let selection = Selection::all().namespace(&self.namespace);
        let list = self.client.list::<Value>(&CONFIG_MAPS, &selection).await?;
        let read = |register: &String| {
            let mut items = list.items.iter();
            let found = items.find(|item| item["metadata"]["name"] == register.as_str());
            let value = found.map_or(MISSING, value_of);
            (register.clone(), Action::Read(value))
        };
        Ok(Answer {
            actions: self.registers.iter().map(read).collect(),
            write: None,
        })
    }

    /// Takes an attempt down, also a write of which it is not known whether it happened; returns
    /// whether there was an answer.
    fn take_down(
        &self,
        asked: Result<Result<Answer, control_client::Error>, tokio::time::error::Elapsed>,
        register: &str,
        action: Option<Action>,
        began: u64,
        started: Instant,
    ) -> bool {
        let Ok(Ok(answer)) = asked else {
            if let Some(action) = action {
                note(&self.seen, register, action, began, None);
            }
            return false;
        };
        let ended = Some(micros_since(self.epoch));
        for (register, action) in answer.actions {
            note(&self.seen, &register, action, began, ended);
        }
        let mut seen = lock(&self.seen);
        seen.acknowledged.extend(answer.write);
        seen.latencies.push(started.elapsed());
        true
    }
}

fn note(seen: &Mutex<Outcome>, register: &str, action: Action, began: u64, ended: Option<u64>) {
    let mut seen = lock(seen);
    let history = seen.histories.entry(register.to_owned()).or_default();
    history.push(Operation {
        action,
        began,
        ended,
    });
}

// === impl Outcome ===

impl Outcome {
    /// How many operations were answered.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.latencies.len()
    }

    /// How often the operation was tried that was tried most: 2 for clients that retry once.
    #[must_use]
    pub fn most_attempts(&self) -> usize {
        self.most_attempts
    }

    /// How many writes nobody knows the fate of.
    #[must_use]
    pub fn unknown(&self) -> usize {
        let all = self.histories.values().flatten();
        all.filter(|one| one.ended.is_none()).count()
    }

    /// How many changes the watches told, of the one that told most.
    #[must_use]
    pub fn watched(&self) -> usize {
        let records = self.told.iter();
        records.map(|(_, record)| record.len()).max().unwrap_or(0)
    }

    /// The time within which so many of a hundred operations were answered, all attempts of each
    /// together.
    #[must_use]
    pub fn percentile(&self, of_hundred: usize) -> Duration {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * of_hundred).div_ceil(100).saturating_sub(1);
        sorted.get(at).copied().unwrap_or_default()
    }

    /// No acknowledged write is lost and no read is stale.
    ///
    /// # Errors
    /// The register whose history has no order, with the history.
    pub fn check_history(&self) -> Result<(), Failure> {
        for (name, history) in &self.histories {
            let mut history = history.clone();
            history.sort_by_key(|one| one.began);
            ensure(
                is_linearizable(&history),
                format!("the history of {name} is not linearizable: {history:?}"),
            )?;
        }
        Ok(())
    }

    /// Every watch told every change once, in the order of revisions.
    ///
    /// # Errors
    /// The first gap, repetition or difference.
    pub fn check_watches(&self) -> Result<(), Failure> {
        watches::check(&self.told, &self.acknowledged)
    }
}
