//! Random histories of one pod: whatever happens, and in whatever order, some
//! things must never be.
//!
//! The runtime here is a model: it does what an action says, or fails before or
//! *after* it did it. What the model cannot show is in the tests over the fake
//! runtime and over containerd.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use node_agent_cri::observed::{ObservedContainer as Record, ObservedSandbox};
use node_agent_objects::status::PodStatus;
use node_agent_pod_resources::pod_level_resources;
use proptest::prelude::*;
use rustc_hash::FxHashMap;

use super::*;
use crate::pod::status;

/// Something that happens to a pod.
#[derive(Clone, Debug)]
enum Event {
    /// Seconds pass; less than none when the clock is set back.
    Time(i64),
    /// The process of a running container ends.
    Exit(usize, i32),
    /// A startup probe is through.
    Started(usize),
    /// A liveness probe has failed for good.
    Dead(usize),
    /// The sandbox and all in it dies.
    SandboxDies,
    /// The agent starts anew and knows only what the runtime has.
    AgentRestarts,
    /// The API wants the pod to end.
    Deleted,
    /// A container is granted so much CPU.
    Granted(usize, i64),
    /// The pod as a whole is granted a limit of so much CPU; none is 0.
    PodGranted(i64),
    /// The next action fails, having done its work or not.
    Fails(bool),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (1_i64..400).prop_map(Event::Time),
        1 => (-4000_i64..0).prop_map(Event::Time),
        6 => (0_usize..8, prop_oneof![Just(0), Just(1), Just(42), Just(137)])
            .prop_map(|(which, code)| Event::Exit(which, code)),
        4 => (0_usize..8).prop_map(Event::Started),
        1 => (0_usize..8).prop_map(Event::Dead),
        1 => Just(Event::SandboxDies),
        1 => Just(Event::AgentRestarts),
        1 => Just(Event::Deleted),
        2 => (0_usize..8, 1_i64..4).prop_map(|(which, cpu)| Event::Granted(which, cpu)),
        2 => (0_i64..4).prop_map(Event::PodGranted),
        1 => any::<bool>().prop_map(Event::Fails),
    ];
    prop::collection::vec(event, 1..60)
}

fn specs() -> impl Strategy<Value = serde_json::Value> {
    let policy = || prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")];
    let init = prop::collection::vec(
        prop_oneof![
            Just(serde_json::json!({})),
            Just(serde_json::json!({"restartPolicy": "Always"})),
            Just(serde_json::json!({"restartPolicy": "Always", "startupProbe": {"exec": {}}})),
        ],
        0..4,
    );
    let own = prop_oneof![
        3 => Just(serde_json::json!({})),
        1 => policy().prop_map(|p| serde_json::json!({"restartPolicy": p})),
        1 => Just(serde_json::json!({"restartPolicy": "Never", "restartPolicyRules":
            [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]})),
        1 => Just(serde_json::json!({"restartPolicy": "Never", "restartPolicyRules":
            [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]})),
    ];
    let anew = prop::collection::vec(any::<bool>(), 8);
    (policy(), init, prop::collection::vec(own, 1..4), anew).prop_map(
        |(policy, init, regular, anew)| {
            let mut anew = anew.into_iter();
            let mut named =
                |list: Vec<serde_json::Value>, prefix: &str| -> Vec<serde_json::Value> {
                    list.into_iter()
                        .enumerate()
                        .map(|(at, mut one)| {
                            one["name"] = format!("{prefix}{at}").into();
                            if anew.next() == Some(true) {
                                one["resizePolicy"] = serde_json::json!([
                            {"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
                            }
                            one
                        })
                        .collect()
                };
            serde_json::json!({
                "restartPolicy": policy,
                "initContainers": named(init, "i"),
                "containers": named(regular, "c"),
            })
        },
    )
}

struct World {
    pod: Pod,
    observed: ObservedPod,
    memory: PodMemory,
    aim: PodGoal,
    now: Timestamp,
    /// Always goes on, whatever the clock says.
    ticks: i64,
    status: PodStatus,
    fails: Option<bool>,
    /// By container id: whether its startup probe ever was through.
    was_started: FxHashMap<String, bool>,
    log: Vec<String>,
}

impl World {
    fn new(spec: serde_json::Value) -> Self {
        let pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": spec}))
        .unwrap();
        Self {
            pod,
            observed: ObservedPod::default(),
            memory: PodMemory::default(),
            aim: PodGoal::Run,
            now: Timestamp::from_second(1_000_000_000).unwrap(),
            ticks: 1_000_000_000_000_000_000,
            status: PodStatus::default(),
            fails: None,
            was_started: FxHashMap::default(),
            log: Vec::new(),
        }
    }

    fn tick(&mut self) -> i64 {
        self.ticks += 1_000_000;
        self.ticks
    }

    fn step(&self) -> PlanStep {
        next(&PlanInput {
            pod: &self.pod,
            aim: self.aim,
            observed: &self.observed,
            memory: &self.memory,
            now: self.now,
        })
    }

    /// What the worker does after it looked at the runtime.
    fn looked(&mut self) {
        for record in self.observed.containers.iter().filter(|c| c.running()) {
            let probed = self.pod.spec.container(&record.name).unwrap();
            if probed.startup_probe.is_none() {
                self.memory.started.insert(record.id.clone(), true);
                self.was_started.insert(record.id.clone(), true);
            }
        }
        let lives = |id: &String| self.observed.containers.iter().any(|c| c.id == *id);
        self.memory.started.retain(|id, _| lives(id));
        self.memory.verdicts.retain(|id, _| lives(id));
        self.memory.again.retain(lives);
        self.memory.in_force.retain(|id, _| lives(id));
        self.observed.sort();
    }

    /// What the pod as a whole was granted.
    fn whole(&self) -> Option<ResourceRequirements> {
        Some(self.pod.spec.resources.clone().unwrap_or_default())
    }

    /// What a container was granted, of its own and of its pod.
    fn granted(&self, container: &Container) -> ResourceRequirements {
        pod_level_resources::effective(&container.resources, self.pod.spec.resources.as_ref())
    }

    fn exit(&mut self, at: usize, code: i32) {
        let tick = self.now.as_nanosecond() as i64;
        let record = Arc::make_mut(&mut self.observed.containers[at]);
        record.state = ContainerState::Exited;
        record.exit_code = code;
        record.finished_at = tick;
    }

    fn kill_all(&mut self) {
        for at in 0..self.observed.containers.len() {
            if self.observed.containers[at].running() {
                self.exit(at, 137);
            }
        }
        for sandbox in &mut self.observed.sandboxes {
            sandbox.ready = false;
        }
    }

    fn perform(&mut self, action: &PodAction) -> Result<(), TestCaseError> {
        self.log.push(format!("{action:?}"));
        let failure = self.fails.take();
        if failure == Some(false) {
            if let PodAction::Start { name } = action {
                let failure = StartFailure {
                    at: self.now,
                    retry: Wait::new(self.now, Duration::from_secs(2)),
                    reason: "CreateContainerError".into(),
                    message: "no".into(),
                    then: None,
                };
                self.memory.failures.insert(name.clone(), failure);
            }
            return Ok(());
        }
        match action {
            PodAction::MountVolumes => self.memory.volumes_ready = true,
            PodAction::CreateSandbox { attempt } => {
                prop_assert!(
                    self.observed.is_still(),
                    "a second sandbox beside a live one"
                );
                self.memory.pod_in_force = self.whole();
                let created_at = self.tick();
                self.observed.sandboxes.push(ObservedSandbox {
                    id: format!("s{attempt}-{created_at}"),
                    attempt: *attempt,
                    ready: true,
                    created_at,
                    ips: vec!["10.0.0.1".into()],
                });
            }
            PodAction::KillPod { .. } => self.kill_all(),
            PodAction::Kill { id, again, .. } => {
                let at = self.observed.containers.iter().position(|c| c.id == *id);
                self.exit(at.unwrap(), 137);
                if *again {
                    self.memory.again.insert(id.clone());
                }
            }
            PodAction::Resize => {
                let mut changed = usize::from(pod_changes(&self.pod, &self.memory));
                for container in resize::resizable(&self.pod.spec) {
                    let Some(record) = self.observed.latest(&container.name) else {
                        continue;
                    };
                    let change = change_of(&self.pod, container, record, &self.memory);
                    if record.running() && change == ResizeAction::Update {
                        let held = self.granted(container);
                        self.memory.in_force.insert(record.id.clone(), held);
                        changed += 1;
                    }
                }
                prop_assert!(changed > 0, "a resize of nothing");
                self.memory.pod_in_force = self.whole();
            }
            PodAction::Reset { containers } => {
                for (id, runs) in containers {
                    let at = self.observed.containers.iter().position(|c| c.id == *id);
                    let gone = self.observed.containers.remove(at.unwrap());
                    prop_assert_eq!(gone.exited(), !runs);
                    if failure == Some(true) {
                        // the agent died after the first
                        break;
                    }
                }
            }
            PodAction::Start { name } => self.start(name)?,
        }
        Ok(())
    }

    fn start(&mut self, name: &str) -> Result<(), TestCaseError> {
        let sandbox = self.observed.live_sandbox().unwrap().id.clone();
        let spec = self.pod.spec.clone();
        let before = self.observed.latest(name).cloned();
        prop_assert!(
            !before.as_ref().is_some_and(|b| b.running()),
            "{name} would run twice"
        );
        // predecessors: when this one is made for the first time in its sandbox
        if self.observed.latest_in(&sandbox, name).is_none() {
            let until = spec.init_containers.iter().position(|c| c.name == name);
            for init in &spec.init_containers[..until.unwrap_or(spec.init_containers.len())] {
                let through = self
                    .observed
                    .containers
                    .iter()
                    .filter(|c| c.name == init.name && c.sandbox == sandbox)
                    .any(|c| {
                        if init.is_sidecar() {
                            self.was_started.get(&c.id) == Some(&true)
                        } else {
                            c.exited() && c.exit_code == 0
                        }
                    });
                prop_assert!(through, "{name} started before {} was through", init.name);
            }
        }
        if let Some(before) = before.filter(|b| b.exited()) {
            let container = spec.container(name).unwrap();
            let init = spec.init_containers.iter().any(|c| c.name == name);
            let may = self.memory.again.contains(&before.id)
                || if init {
                    before.sandbox != sandbox || init_restarts(container, &spec, before.exit_code)
                } else {
                    restarts(container, &spec, before.exit_code)
                };
            prop_assert!(may, "{name} started again against its policy");
            self.memory
                .restarts
                .entry((name.to_owned(), definition_hash(container)))
                .or_insert_with(Backoff::restarts)
                .note(self.now);
        }
        let restarts = crate::pod::restarts::restarts_before(
            self.observed.latest(name).map(|b| &**b),
            self.status.container(name),
        );
        let created_at = self.tick();
        let held = self.granted(spec.container(name).unwrap());
        let id = format!("{name}-{created_at}");
        self.memory.in_force.insert(id, held);
        self.memory.failures.remove(name);
        self.observed.containers.insert(
            0,
            Arc::new(Record {
                id: format!("{name}-{created_at}"),
                name: name.to_owned(),
                restarts,
                sandbox,
                state: ContainerState::Running,
                created_at,
                started_at: created_at,
                finished_at: 0,
                exit_code: 0,
                reason: String::new(),
                message: String::new(),
                image: String::new(),
                image_ref: String::new(),
                hash: definition_hash(self.pod.spec.container(name).unwrap()),
                log_path: String::new(),
                user: None,
            }),
        );
        Ok(())
    }

    /// Decides and does until there is nothing to do at this moment.
    fn settle(&mut self) -> Result<PlanStep, TestCaseError> {
        for _ in 0..40 {
            let step = self.step();
            self.report(&step)?;
            if step.actions.is_empty() {
                let busy = self.observed.containers.iter().any(|c| c.running());
                prop_assert!(
                    step.finished || step.wake.is_some() || busy,
                    "nothing runs, nothing is done and nothing is waited for: {step:?}"
                );
                let resizing = is_resizing(&self.pod, &self.observed, &self.memory);
                prop_assert!(
                    self.aim != PodGoal::Run
                        || step.finished
                        || !resizing
                        || !step.waiting.is_empty(),
                    "what runs has not what it was granted"
                );
                let differs = |c: &&Arc<Record>| {
                    let container = self.pod.spec.container(&c.name).unwrap();
                    let change = change_of(&self.pod, container, c, &self.memory);
                    c.running() && change != ResizeAction::None
                };
                prop_assert!(
                    resizing || !self.observed.containers.iter().any(|c| differs(&c)),
                    "a resize that is through and is not"
                );
                return Ok(step);
            }
            for action in &step.actions {
                self.perform(action)?;
                self.looked();
            }
        }
        Err(TestCaseError::fail(format!(
            "no rest: {:?}",
            self.step().actions
        )))
    }

    fn report(&mut self, step: &PlanStep) -> Result<(), TestCaseError> {
        let terminal = step.finished;
        let made = status::compute(&status::StatusInput {
            pod: &self.pod,
            old: &self.status,
            observed: &self.observed,
            memory: &self.memory,
            waiting: &step.waiting,
            ready: &FxHashMap::default(),
            terminal,
            sentence: None,
            health: &Default::default(),
            held: false,
            pending: None,
            host_ips: &[],
            runtime: "fake",
            now: self.now,
        });
        for old in self
            .status
            .container_statuses
            .iter()
            .chain(&self.status.init_container_statuses)
        {
            let new = made.container(&old.name).unwrap();
            prop_assert!(
                new.restart_count >= old.restart_count,
                "the restart count of {} went from {} to {}",
                old.name,
                old.restart_count,
                new.restart_count
            );
        }
        if self.status.is_terminal() {
            prop_assert_eq!(&made.phase, &self.status.phase, "an end is for good");
        }
        if terminal && self.aim == PodGoal::Run {
            prop_assert!(made.is_terminal(), "finished, but {}", made.phase);
        }
        self.status = made;
        if self.status.is_terminal() && self.aim == PodGoal::Run {
            self.aim = PodGoal::End { grace: 30 };
        }
        Ok(())
    }

    fn happen(&mut self, event: &Event) {
        self.log.push(format!("-- {event:?}"));
        let running: Vec<usize> = (0..self.observed.containers.len())
            .filter(|at| self.observed.containers[*at].running())
            .collect();
        let pick = |which: usize| running.get(which % running.len().max(1)).copied();
        match event {
            Event::Time(seconds) => self.now += SignedDuration::from_secs(*seconds),
            Event::Exit(which, code) => {
                if let Some(at) = pick(*which) {
                    self.exit(at, *code);
                }
            }
            Event::Started(which) => {
                if let Some(at) = pick(*which) {
                    let id = self.observed.containers[at].id.clone();
                    self.memory.started.insert(id.clone(), true);
                    self.was_started.insert(id, true);
                }
            }
            Event::Dead(which) => {
                if let Some(at) = pick(*which) {
                    let id = self.observed.containers[at].id.clone();
                    self.memory.verdicts.insert(id, ProbeVerdict::Dead);
                }
            }
            Event::SandboxDies => self.kill_all(),
            Event::AgentRestarts => {
                let before = std::mem::take(&mut self.memory);
                self.memory = PodMemory {
                    // the API's status says that
                    started: before.started,
                    in_force: before.in_force,
                    pod_in_force: before.pod_in_force,
                    ..PodMemory::default()
                };
            }
            Event::Deleted => {
                if self.aim == PodGoal::Run {
                    self.aim = PodGoal::End { grace: 1 };
                }
            }
            Event::Granted(which, cpu) => {
                let spec = &mut self.pod.spec;
                let init = spec.init_containers.len();
                let at = which % (init + spec.containers.len());
                let mut all = spec.init_containers.iter_mut().chain(&mut spec.containers);
                let container = all.nth(at).unwrap();
                let cpu = [("cpu".to_owned(), cpu.to_string())];
                container.resources.requests = cpu.into();
            }
            Event::PodGranted(cpu) => {
                let cpu = (*cpu > 0).then(|| ("cpu".to_owned(), cpu.to_string()));
                self.pod.spec.resources = Some(ResourceRequirements {
                    limits: cpu.into_iter().collect(),
                    ..ResourceRequirements::default()
                });
            }
            Event::Fails(after) => self.fails = Some(*after),
        }
        self.looked();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_history_breaks_a_pod(spec in specs(), events in events()) {
        let mut world = World::new(spec);
        let mut run = || -> Result<(), TestCaseError> {
            world.settle()?;
            for event in &events {
                world.happen(event);
                world.settle()?;
                let mut names: Vec<&str> = world.observed.containers.iter()
                    .filter(|c| c.running()).map(|c| c.name.as_str()).collect();
                let all = names.len();
                names.sort_unstable();
                names.dedup();
                prop_assert_eq!(all, names.len(), "a container runs twice");
            }
            // a deleted pod always ends
            world.happen(&Event::Deleted);
            world.fails = None;
            let step = world.settle()?;
            prop_assert!(step.finished, "deleted, and not ended");
            prop_assert!(world.observed.is_still());
            Ok(())
        };
        if let Err(error) = run() {
            let log = world.log.join("\n");
            return Err(TestCaseError::fail(format!("{error}\n{log}")));
        }
    }
}
