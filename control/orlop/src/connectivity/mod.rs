//! The connectivity test: deploys probes in a separate namespace, collects their reports,
//! and removes the namespace. `control-connectivity` defines the checks.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use control_client::{Client, resources};
use control_connectivity::{
    Check, Client as Prober, Group, Report, Step, Task, Topology, checks,
    objects::{self, PodOptions},
    topology::{HostPorts, Node},
    verdict,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::Value;

use crate::error::Error;

mod gather;
mod namespace;

/// How a test is made.
pub struct Plan {
    /// Image of the probes.
    pub image: String,
    /// When it is pulled.
    pub pull_policy: String,
    /// Groups of checks.
    pub groups: Vec<Group>,
    /// Names of the nodes that take part; two that are ready if empty.
    pub nodes: Vec<String>,
    /// A server outside of the cluster.
    pub external: Option<String>,
    /// The cluster's domain.
    pub domain: String,
    /// First of the ports on nodes.
    pub host_port: u16,
    /// How long a check may take to succeed.
    pub settle: Duration,
    /// How long pods may take to start, and checks to end.
    pub timeout: Duration,
    /// Leave the namespace.
    pub keep: bool,
}

/// A line of the table.
#[derive(Debug, Serialize)]
pub struct Line {
    /// Group of the check.
    pub group: &'static str,
    /// The checked property.
    pub check: String,
    /// Pod or host network, and node.
    pub from: String,
    /// The destination.
    pub to: String,
    /// The result.
    pub result: Verdict,
    /// Median time of a request, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<u64>,
    /// Tries until it was as expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Why it failed or was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As expected.
    Pass,
    /// Not as expected.
    Fail,
    /// Not made.
    Skip,
}

/// Makes the test. The namespace is removed afterwards, also when the test fails or is
/// interrupted.
///
/// # Errors
/// What stops the test as a whole: an API that does not answer, no node, pods that do not start.
pub async fn run(client: &Client, plan: &Plan) -> Result<Vec<Line>, Error> {
    let shutdown = crate::run::shutdown_on_signals()?;
    let progress = Progress::begin();
    let nodes = gather::nodes(client, &plan.nodes).await?;
    namespace::remove_stale(client).await;
    let namespace = namespace::create(client).await?;
    let test = Test {
        client,
        plan,
        namespace: &namespace,
        nodes,
        progress: &progress,
    };
    let lines = tokio::select! {
        lines = Box::pin(test.run()) => lines,
        () = shutdown.cancelled() => Err(Error::Connectivity(
            "interrupted; the namespace of the probes is removed".to_owned(),
        )),
    };
    if plan.keep {
        eprintln!("the probes are left in namespace {namespace}");
        return lines;
    }
    progress.say(&format!("removing namespace {namespace}"));
    let removed = namespace::remove(client, &namespace, plan.timeout).await;
    progress.end();
    let lines = lines?;
    removed?;
    Ok(lines)
}

struct Test<'a> {
    client: &'a Client,
    plan: &'a Plan,
    namespace: &'a str,
    nodes: Vec<Node>,
    progress: &'a Progress,
}

/// The polling interval for pods.
const POLL: Duration = Duration::from_millis(300);
/// How long a load balancer may take to give an address.
const LOAD_BALANCER: Duration = Duration::from_secs(5);

impl Test<'_> {
    async fn run(&self) -> Result<Vec<Line>, Error> {
        self.progress.say("creating probes");
        let options = self.pod_options();
        for service in objects::services() {
            self.create(&resources::SERVICES, &service).await?;
        }
        for policy in objects::policies() {
            self.create(&resources::NETWORK_POLICIES, &policy).await?;
        }
        let servers = objects::servers(&options);
        for pod in &servers {
            self.create(&resources::PODS, pod).await?;
        }
        let names: Vec<&str> = servers.iter().filter_map(gather::name).collect();
        self.wait_for_servers(&names).await?;
        let topology = self.topology(&names).await?;
        let external = objects::external_name(&topology.full_name("cluster"));
        self.create(&resources::SERVICES, &external).await?;

        let checks = checks::all(&topology, &self.plan.groups);
        let tasks = tasks(&checks);
        for (prober, tasks) in &tasks {
            let pod = objects::client(*prober, tasks, &options);
            self.create(&resources::PODS, &pod).await?;
        }
        let ProbeReports { reports, missing } = self.reports(&tasks).await?;
        let place = |prober: Prober| {
            let node = self
                .nodes
                .get(usize::from(prober.is_on_second_node()))
                .or(self.nodes.first());
            node.map_or("", |node| node.name.as_str()).to_owned()
        };
        let line = |(id, check): (usize, &Check)| {
            let no_report = missing.get(check.client.pod()).map(String::as_str);
            line(check, &place(check.client), reports.get(&id), no_report)
        };
        Ok(checks.iter().enumerate().map(line).collect())
    }

    fn pod_options(&self) -> PodOptions<'_> {
        PodOptions {
            image: &self.plan.image,
            pull_policy: &self.plan.pull_policy,
            nodes: &self.nodes,
            host_ports: HostPorts::starting_at(self.plan.host_port),
            settle: self.plan.settle.as_secs().max(1),
        }
    }

    /// Creates an object. A new namespace may lack its service account for a moment.
    async fn create(
        &self,
        resource: &control_client::Resource,
        object: &Value,
    ) -> Result<(), Error> {
        let started = Instant::now();
        loop {
            let created = self
                .client
                .create::<Value>(resource, self.namespace, object)
                .await;
            match created {
                Ok(_) => return Ok(()),
                Err(error)
                    if error.chain().contains("serviceaccount")
                        && started.elapsed() < self.plan.timeout =>
                {
                    tokio::time::sleep(POLL).await;
                }
                Err(error) => return Err(Error::Client(error)),
            }
        }
    }

    async fn wait_for_servers(&self, names: &[&str]) -> Result<(), Error> {
        let started = Instant::now();
        loop {
            let pods = gather::pods(self.client, self.namespace).await?;
            let waiting: Vec<&&str> = names
                .iter()
                .filter(|name| !pods.get(**name).is_some_and(gather::is_ready))
                .collect();
            let Some(first) = waiting.first() else {
                return Ok(());
            };
            let ended = |name: &&&&str| pods.get(***name).is_some_and(gather::has_ended);
            if let Some(name) = waiting.iter().find(ended) {
                return Err(self.ended(name, &pods[**name]).await);
            }
            let state = pods
                .get(**first)
                .map_or_else(|| "there is no such pod".to_owned(), gather::state);
            let text = format!(
                "{} of {} probes ready",
                names.len() - waiting.len(),
                names.len()
            );
            self.progress.say(&text);
            if started.elapsed() > self.plan.timeout {
                return Err(Error::Connectivity(format!(
                    "{text} after {} s; pod {first}: {state}",
                    self.plan.timeout.as_secs()
                )));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Returns the error for a server that ended; its log has the reason.
    async fn ended(&self, name: &str, pod: &Value) -> Error {
        let log = gather::log(self.client, self.namespace, name).await;
        let log = log.unwrap_or_default();
        let said = log.lines().last().map(|line| format!(": {line}"));
        Error::Connectivity(format!(
            "pod {name} ended: {}{}",
            gather::state(pod),
            said.unwrap_or_default()
        ))
    }

    async fn topology(&self, names: &[&str]) -> Result<Topology, Error> {
        let started = Instant::now();
        let services = loop {
            let services = gather::services(self.client, self.namespace).await?;
            let is_given = services
                .get("load-balancer")
                .is_some_and(|it| !it.load_balancer.is_empty());
            if is_given || started.elapsed() > LOAD_BALANCER {
                break services;
            }
            tokio::time::sleep(POLL).await;
        };
        let pods = gather::pods(self.client, self.namespace).await?;
        let servers = names.iter().filter_map(|name| {
            let pod = pods.get(*name)?;
            Some(((*name).to_owned(), gather::addresses(pod)))
        });
        Ok(Topology {
            namespace: self.namespace.to_owned(),
            domain: self.plan.domain.clone(),
            nodes: self.nodes.clone(),
            servers: servers.collect(),
            services,
            api_server: gather::api_server(self.client).await?,
            external: self.plan.external.clone(),
            host_ports: HostPorts::starting_at(self.plan.host_port),
        })
    }

    /// Collects the probes' reports, and the state of pods without a complete report.
    async fn reports(&self, tasks: &BTreeMap<Prober, Vec<Task>>) -> Result<ProbeReports, Error> {
        let wanted: usize = tasks.values().map(Vec::len).sum();
        let started = Instant::now();
        loop {
            let pods = gather::pods(self.client, self.namespace).await?;
            let ProbeReports {
                mut reports,
                mut missing,
            } = ProbeReports::default();
            let mut running = false;
            for (prober, tasks) in tasks {
                let name = prober.pod();
                let pod = pods.get(name);
                let has_started = pod.is_some_and(gather::has_started);
                let log = if has_started {
                    gather::log(self.client, self.namespace, name).await
                } else {
                    Ok(String::new())
                };
                let log = log.unwrap_or_default();
                let lines = log
                    .lines()
                    .filter_map(|it| serde_json::from_str::<Report>(it).ok());
                let before = reports.len();
                reports.extend(lines.map(|report| (report.id, report)));
                if reports.len() - before < tasks.len() {
                    let state = pod.map_or_else(|| "it is gone".to_owned(), gather::state);
                    running |= !pod.is_some_and(gather::has_ended);
                    missing.insert(name, state);
                }
            }
            self.progress
                .say(&format!("{} of {wanted} checks done", reports.len()));
            if missing.is_empty() || !running || started.elapsed() > self.plan.timeout {
                return Ok(ProbeReports { reports, missing });
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// The probes' reports by number, and by pod without a complete report: its state.
#[derive(Default)]
struct ProbeReports {
    reports: BTreeMap<usize, Report>,
    missing: BTreeMap<&'static str, String>,
}

/// The tasks of each client; a task's number is its check's place.
fn tasks(checks: &[Check]) -> BTreeMap<Prober, Vec<Task>> {
    let mut tasks: BTreeMap<Prober, Vec<Task>> = BTreeMap::new();
    for (id, check) in checks.iter().enumerate() {
        if let Step::Run(operation, expectation) = &check.step {
            tasks.entry(check.client).or_default().push(Task {
                id,
                operation: operation.clone(),
                expectation: expectation.clone(),
            });
        }
    }
    tasks
}

/// Formats a check's line, with the probe's report, or the probe's state.
fn line(check: &Check, node: &str, report: Option<&Report>, no_report: Option<&str>) -> Line {
    let (result, why) = match (&check.step, report) {
        (Step::Skip(why), _) => (Verdict::Skip, Some(why.clone())),
        (Step::Run(_, expectation), Some(report)) => {
            match verdict::judge(expectation, &report.outcome) {
                Ok(()) => (Verdict::Pass, None),
                Err(mismatch) => (Verdict::Fail, Some(mismatch.to_string())),
            }
        }
        (Step::Run(..), None) => {
            let state = no_report.unwrap_or("it ended without a result");
            let why = format!("no result from pod {}: {state}", check.client.pod());
            (Verdict::Fail, Some(why))
        }
    };
    let is_host = matches!(check.client, Prober::NodeA | Prober::NodeB);
    Line {
        group: check.group.name(),
        check: check.name.clone(),
        from: if is_host {
            format!("host network of {node}")
        } else {
            format!("{} on {node}", check.client.pod())
        },
        to: check.to.clone(),
        result,
        latency_us: report
            .filter(|_| result == Verdict::Pass)
            .map(|report| report.micros),
        attempts: report.map(|report| report.attempts),
        why,
    }
}

/// A spinner on standard error, where that is a terminal.
struct Progress(ProgressBar);

impl Progress {
    fn begin() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("  {spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    fn say(&self, text: &str) {
        self.0.set_message(text.to_owned());
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use control_connectivity::{Expectation, Failure, Operation, Outcome};

    use super::*;

    fn check(client: Prober, step: Step) -> Check {
        Check {
            group: Group::Services,
            name: "ClusterIP, TCP".to_owned(),
            client,
            to: "Service cluster".to_owned(),
            step,
        }
    }

    fn open() -> Step {
        let target = "10.0.0.1:80".to_owned();
        Step::Run(Operation::Open { target }, Expectation::Success)
    }

    fn report(outcome: Outcome) -> Report {
        Report {
            id: 1,
            outcome,
            attempts: 3,
            micros: 250,
        }
    }

    #[test]
    fn tasks_are_numbered_by_their_checks_and_skipped_ones_have_none() {
        let checks = [
            check(Prober::PodA, Step::Skip("one node".to_owned())),
            check(Prober::PodA, open()),
            check(Prober::NodeA, open()),
        ];
        let tasks = tasks(&checks);
        assert_eq!(tasks[&Prober::PodA][0].id, 1);
        assert_eq!(tasks[&Prober::NodeA][0].id, 2);
        assert_eq!(tasks.len(), 2);
    }

    #[test]
    fn a_line_says_what_came_of_its_check() {
        let passed = line(
            &check(Prober::PodA, open()),
            "n1",
            Some(&report(Outcome::Done { bytes: 0 })),
            None,
        );
        assert_eq!(
            (passed.result, passed.latency_us),
            (Verdict::Pass, Some(250))
        );
        assert_eq!(passed.from, "pod-a on n1");
        let failed = line(
            &check(Prober::NodeA, open()),
            "n1",
            Some(&report(Outcome::Failed {
                failure: Failure::Refused,
                detail: "refused".to_owned(),
            })),
            None,
        );
        assert_eq!(failed.result, Verdict::Fail);
        assert_eq!(failed.why.as_deref(), Some("refused"));
        assert_eq!(failed.from, "host network of n1");
        assert_eq!(failed.latency_us, None);
        let skipped = Step::Skip("one node".to_owned());
        let skipped = line(&check(Prober::PodA, skipped), "n1", None, None);
        assert_eq!(skipped.result, Verdict::Skip);
        assert_eq!(skipped.why.as_deref(), Some("one node"));
    }

    #[test]
    fn a_probe_that_never_ran_fails_its_checks_and_says_why() {
        let line = line(
            &check(Prober::PodB, open()),
            "n2",
            None,
            Some("Pending: ErrImagePull"),
        );
        assert_eq!(line.result, Verdict::Fail);
        let why = line.why.unwrap();
        assert!(
            why.contains("pod-b") && why.contains("ErrImagePull"),
            "{why}"
        );
    }
}
