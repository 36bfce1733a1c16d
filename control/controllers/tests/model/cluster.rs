//! A cluster of the model: the server, the environment, and controllers that crash and restart,
//! driven by a history of steps.

use std::time::Duration;

use control_controllers::Config;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api::{Api, Event};
use crate::clock::Simulated;
use crate::environment::{self, DeadNodes};
use crate::history::{Fault, Step, key};

/// The cluster is at rest when controllers wrote nothing for this long.
const CALM: Duration = Duration::from_secs(60);
/// How long what is due may take after the last step.
const BOUND: Duration = Duration::from_secs(900);
/// How long fresh controllers are watched for work that was left.
const FRESH_LOOK: Duration = Duration::from_secs(25);
/// How often the driver looks for a crash.
const SLICE: Duration = Duration::from_millis(50);
/// Requests in ten seconds that only a loop without back-off makes.
const MOST_REQUESTS: u64 = 6_000;

/// A cluster.
pub struct Cluster {
    pub api: Api,
    pub dead: DeadNodes,
    controllers: Vec<String>,
    running: Option<Running>,
    environment: JoinHandle<()>,
}

struct Running {
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), control_controllers::Error>>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.environment.abort();
    }
}

impl Cluster {
    /// An empty cluster whose controllers are not started yet.
    pub fn new(controllers: &[&str]) -> Self {
        let (api, dead) = (Api::new(), DeadNodes::default());
        Self {
            environment: tokio::spawn(environment::run(api.clone(), DeadNodes::clone(&dead))),
            api,
            dead,
            controllers: controllers.iter().map(ToString::to_string).collect(),
            running: None,
        }
    }

    /// Starts the controllers; those that run die.
    pub fn restart(&mut self) {
        self.kill();
        let shutdown = CancellationToken::new();
        let config = Config {
            controllers: self.controllers.clone(),
            cluster_cidrs: vec!["10.1.0.0/16".parse().unwrap()],
            root_ca_pem: Some("-----BEGIN CERTIFICATE-----\n".to_owned()),
            ..Config::default()
        };
        let client = self.api.client();
        let task = tokio::spawn(control_controllers::run(client, config, shutdown.clone()));
        self.running = Some(Running { shutdown, task });
    }

    /// Ends the controllers as a kill does: nothing that they began is finished.
    fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.shutdown.cancel();
            running.task.abort();
        }
    }

    /// Lets time pass. Controllers that a fault killed are started again.
    pub async fn pass(&mut self, time: Duration) {
        let until = tokio::time::Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(SLICE)).await;
            if self.api.crashed() {
                self.restart();
            }
            let ended = |running: &Running| running.task.is_finished();
            if self.running.as_ref().is_some_and(ended) {
                let running = self.running.take().unwrap();
                panic!("the controllers ended: {:?}", running.task.await);
            }
        }
    }

    /// Does one step.
    pub async fn step(&mut self, step: &Step) {
        match step {
            Step::Wait(time) => self.pass(*time).await,
            Step::User(action) => action.apply(self),
            Step::Fault(fault) => self.fault(fault).await,
        }
    }

    async fn fault(&mut self, fault: &Fault) {
        match fault {
            Fault::Outage(time) => {
                self.api.set_outage(true);
                self.pass(*time).await;
                self.api.set_outage(false);
            }
            Fault::Writes(faults) => self.api.fault_writes(faults.iter().copied()),
            Fault::Hold(resource) => self.api.hold_watches(resource),
            Fault::Unreadable(resource) => self.api.set_unreadable(resource, true),
            Fault::CutWatches => self.api.cut_watches(),
            Fault::Expire => {
                self.api.compact();
                self.api.cut_watches();
            }
            Fault::Crash => self.restart(),
            Fault::Heal => self.api.heal(),
        }
    }

    /// Ends all faults and waits until the controllers have nothing to do any more; then
    /// starts new ones, which read everything again, and checks whether they find work that
    /// the former ones left.
    ///
    /// # Panics
    /// When they do, or when the former ones do not come to an end.
    pub async fn settle(&mut self) {
        self.api.heal();
        // A CronJob that is not suspended starts Jobs without end.
        for cron in self.api.list("cronjobs.batch") {
            let name = cron["metadata"]["name"].as_str().unwrap_or_default();
            let key = key("cronjobs.batch", "a", name);
            self.api
                .change(&key, |cron| cron["spec"]["suspend"] = true.into());
        }
        let began = tokio::time::Instant::now();
        let mut last = (self.api.revision(), tokio::time::Instant::now());
        while last.1.elapsed() < CALM {
            let (revision, requests) = (self.api.revision(), self.api.requests());
            self.pass(Duration::from_secs(10)).await;
            let asked = self.api.requests() - requests;
            assert!(asked < MOST_REQUESTS, "{asked} requests in ten seconds");
            if !self.written(revision).is_empty() {
                last = (self.api.revision(), tokio::time::Instant::now());
            }
            assert!(
                began.elapsed() < BOUND,
                "controllers go on without an end:\n{}",
                print(&self.written(revision))
            );
        }
        let revision = self.api.revision();
        self.restart();
        self.pass(FRESH_LOOK).await;
        let left = self.written(revision);
        assert!(
            left.is_empty(),
            "work was left that only a restart found:\n{}",
            print(&left)
        );
    }

    /// What controllers wrote since a revision.
    pub fn written(&self, since: u64) -> Vec<Event> {
        let mut events = self.api.events_since(since);
        events.retain(|event| event.by_controller);
        events
    }
}

/// Events in lines.
pub fn print(events: &[Event]) -> String {
    let line = |event: &Event| {
        let key = &event.key;
        let (resource, namespace, name) = (&key.resource, &key.namespace, &key.name);
        format!(
            "{} {} {resource} {namespace}/{name}: {}",
            event.revision, event.kind, event.object
        )
    };
    events
        .iter()
        .rev()
        .take(12)
        .rev()
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Runs a case in virtual time on a thread of its own, with all randomness from `seed`.
pub fn simulate<F: Future<Output = ()>>(seed: u64, case: impl FnOnce() -> F + Send) {
    let outcome = std::thread::scope(|scope| {
        let run = || {
            let simulated = Simulated::seeded(seed);
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(async {
                simulated.start_clocks();
                case().await;
            });
        };
        scope.spawn(run).join()
    });
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}
