//! One run of a scenario, with pods that ask for one of the schedulers.

use std::time::Duration;

use control_client::{Client, DeleteOptions, Patch, Resource, Selection, resources};
use control_scheduler::queue::Backoff;
use control_scheduler::{Config, Features};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::outcome::Outcome;
use super::scenario::{PodStep, Scenario, Step};
use super::servers::BACKOFF;
use crate::Error;
use crate::case::text;

/// How often to look, and for how long nothing may change.
const POLL: Duration = Duration::from_millis(250);
const QUIET_POLLS: usize = 14;
const POLLS: usize = 160;

/// The class of important pods.
const IMPORTANT: &str = "important";

/// Which scheduler pods ask for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The stock one.
    Stock,
    /// Ours.
    Ours,
}

impl Side {
    const fn scheduler(self) -> &'static str {
        match self {
            Self::Stock => "default-scheduler",
            Self::Ours => "orlop-differential",
        }
    }
}

/// Starts our scheduler, until what is returned is dropped.
pub fn start_ours(client: &Client) -> DropGuard {
    let features = Features {
        generic_workload: true,
        gang_scheduling: true,
    };
    let config = Config {
        backoff: Backoff {
            initial: BACKOFF,
            longest: BACKOFF,
        },
        ..Config::for_names([Side::Ours.scheduler().to_owned()], features)
    };
    let shutdown = CancellationToken::new();
    let run = control_scheduler::run(client.clone(), config, shutdown.clone());
    tokio::spawn(run);
    shutdown.drop_guard()
}

/// What became of all, each time the scenario looks.
pub async fn play(client: &Client, scenario: &Scenario, side: Side) -> Result<Vec<Outcome>, Error> {
    let run = Run {
        client,
        side,
        namespace: create_namespace(client).await?,
    };
    let mut outcomes = Vec::new();
    let mut nodes = Vec::new();
    for step in &scenario.steps {
        match step {
            Step::Node(name, cpu) => {
                run.create_node(name, *cpu).await?;
                nodes.push(*name);
            }
            Step::Group(name, needed) => run.create_group(name, *needed).await?,
            Step::Pod(pod) => run.create_pod(pod).await?,
            Step::Ungate(pod) => {
                let patch = json!({"spec": {"schedulingGates": null}});
                client
                    .patch::<Value>(
                        &resources::PODS,
                        &run.namespace,
                        pod,
                        "",
                        Patch::Merge(&patch),
                    )
                    .await?;
            }
            Step::Delete(pod) => run.delete_pod(pod).await?,
            Step::DeleteBound => {
                for pod in run.list(&resources::PODS).await? {
                    if !text(&pod, "/spec/nodeName").is_empty() {
                        run.delete_pod(text(&pod, "/metadata/name")).await?;
                    }
                }
            }
            Step::Look => outcomes.push(run.look().await?),
        }
    }
    for pod in run.list(&resources::PODS).await? {
        run.delete_pod(text(&pod, "/metadata/name")).await?;
    }
    for node in nodes {
        let now = DeleteOptions::default().grace(0);
        client.delete(&resources::NODES, "", node, &now).await?;
    }
    Ok(outcomes)
}

/// A namespace of its own, since PodGroups stay: nobody releases them.
async fn create_namespace(client: &Client) -> Result<String, Error> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"generateName": "gangs-"}});
    let made: Value = client
        .create(&resources::NAMESPACES, "", &namespace)
        .await?;
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": IMPORTANT}, "value": 1000});
    let created = client
        .create::<Value>(&resources::PRIORITY_CLASSES, "", &class)
        .await;
    match created {
        Ok(_) => {}
        Err(error) if error.is_already_exists() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(text(&made, "/metadata/name").to_owned())
}

struct Run<'a> {
    client: &'a Client,
    side: Side,
    namespace: String,
}

impl Run<'_> {
    async fn create_node(&self, name: &str, cpu: u32) -> Result<(), Error> {
        let room = json!({"cpu": cpu.to_string(), "memory": "64Gi", "pods": "99"});
        let node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"capacity": room, "allocatable": room}});
        self.client
            .create::<Value>(&resources::NODES, "", &node)
            .await?;
        Ok(())
    }

    async fn create_group(&self, name: &str, needed: Option<u32>) -> Result<(), Error> {
        let policy = match needed {
            Some(needed) => json!({"gang": {"minCount": needed}}),
            None => json!({"basic": {}}),
        };
        let group = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"name": name}, "spec": {"schedulingPolicy": policy}});
        self.client
            .create::<Value>(&resources::POD_GROUPS, &self.namespace, &group)
            .await?;
        Ok(())
    }

    async fn create_pod(&self, step: &PodStep) -> Result<(), Error> {
        let mut spec = json!({
            "schedulerName": self.side.scheduler(),
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "example.org/none",
                "resources": {"requests": {"cpu": step.cpu.to_string()}}}],
        });
        if !step.group.is_empty() {
            spec["schedulingGroup"] = json!({"podGroupName": step.group});
        }
        if step.is_important {
            spec["priorityClassName"] = json!(IMPORTANT);
        }
        if step.is_gated {
            spec["schedulingGates"] = json!([{"name": "example.com/wait"}]);
        }
        if !step.only_on.is_empty() {
            spec["nodeSelector"] = json!({"kubernetes.io/hostname": step.only_on});
        }
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": step.name}, "spec": spec});
        self.client
            .create::<Value>(&resources::PODS, &self.namespace, &pod)
            .await?;
        Ok(())
    }

    async fn delete_pod(&self, name: &str) -> Result<(), Error> {
        let now = DeleteOptions::default().grace(0);
        let deleted = self
            .client
            .delete(&resources::PODS, &self.namespace, name, &now)
            .await;
        match deleted {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn list(&self, resource: &Resource) -> Result<Vec<Value>, Error> {
        let here = Selection::all().namespace(&self.namespace);
        Ok(self.client.list(resource, &here).await?.items)
    }

    /// What became of all, once nothing has changed for a while.
    async fn look(&self) -> Result<Outcome, Error> {
        let mut last = Outcome::default();
        let mut quiet = 0;
        for _ in 0..POLLS {
            tokio::time::sleep(POLL).await;
            let pods = self.list(&resources::PODS).await?;
            let groups = self.list(&resources::POD_GROUPS).await?;
            let events = self.list(&resources::EVENTS_V1).await?;
            let now = Outcome::of(&pods, &groups, &events);
            quiet = if now == last { quiet + 1 } else { 0 };
            last = now;
            if quiet >= QUIET_POLLS {
                return Ok(last);
            }
        }
        Err(Error::Program("things do not come to rest".to_owned()))
    }
}
