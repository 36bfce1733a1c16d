//! The API server of a run, where cases are set up and cleared away.

use std::collections::BTreeMap;
use std::time::Duration;

use control_client::{Client, DeleteOptions, Patch, Resource, Selection, resources};
use serde_json::{Value, json};

use crate::Error;
use crate::case::{Case, Object, Step, key, text};
use crate::generate::{NAMESPACES, PRIORITIES};
use crate::ours::Ours;
use crate::process::{ApiServer, StockScheduler};
use crate::volumes;

/// How often a pod is read while a scheduler is at work, and for how long.
const POLL: Duration = Duration::from_millis(4);
const POLLS: usize = 1500;

/// How long informers that log nothing may take to know of an object.
const SETTLE: Duration = Duration::from_millis(60);

const PRIORITY_CLASSES: Resource = Resource::cluster(
    "scheduling.k8s.io",
    "v1",
    "priorityclasses",
    "PriorityClass",
);
const SERVICE_ACCOUNTS: Resource =
    Resource::namespaced("", "v1", "serviceaccounts", "ServiceAccount");

/// The API server and the stock scheduler of a run.
pub struct Stage {
    pub(crate) client: Client,
    pub(crate) stock: StockScheduler,
    namespaces: Vec<Value>,
}

impl Stage {
    /// Makes what all cases share.
    pub async fn new(server: &ApiServer, stock: StockScheduler) -> Result<Self, Error> {
        let client = Client::from_kubeconfig(server.kubeconfig()).await?;
        let client = client.named("orlop-differential");
        let mut namespaces = Vec::new();
        for (name, labels) in NAMESPACES {
            let labels: BTreeMap<_, _> = labels.iter().copied().collect();
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "labels": labels}});
            let namespace = client
                .create(&resources::NAMESPACES, "", &namespace)
                .await?;
            namespaces.push(with_kind(namespace, &resources::NAMESPACES));
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": name}});
            client
                .create::<Value>(&SERVICE_ACCOUNTS, name, &account)
                .await?;
        }
        for (name, value, preempts) in PRIORITIES {
            let policy = if preempts {
                "PreemptLowerPriority"
            } else {
                "Never"
            };
            let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": name}, "value": value, "preemptionPolicy": policy});
            client
                .create::<Value>(&PRIORITY_CLASSES, "", &class)
                .await?;
        }
        let mut stage = Self {
            client,
            stock,
            namespaces,
        };
        stage.wait_for_stock().await?;
        Ok(stage)
    }

    /// Waits until the stock scheduler sees changes: what it lists when it starts, it would
    /// know without having seen what happened before.
    async fn wait_for_stock(&mut self) -> Result<(), Error> {
        let first = Object::new(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "first"},
        }));
        let case = Case {
            seed: 0,
            objects: vec![first.clone()],
            steps: Vec::new(),
        };
        self.client
            .create::<Value>(&resources::NODES, "", &first.value)
            .await?;
        self.stock
            .until("its first node", |seen| !seen.nodes_added.is_empty())
            .await?;
        self.clean(&case).await
    }

    /// The API server's client.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Forgets what the stock scheduler logged.
    pub fn forget(&mut self) {
        self.stock.forget();
    }

    /// Creates what the case begins with, and waits until the stock scheduler knows of it.
    pub async fn create_objects(&mut self, case: &Case, ours: &mut Ours) -> Result<(), Error> {
        for namespace in &self.namespaces {
            ours.put(namespace)?;
        }
        let (mut added, mut updated, mut silent) = (Vec::new(), Vec::new(), false);
        for object in ordered(&case.objects) {
            let Some(resource) = object.resource() else {
                continue;
            };
            let mut made: Value = self
                .client
                .create(resource, object.namespace(), &object.value)
                .await?;
            if object.kind() == "Node" {
                added.push(object.name().to_owned());
                let wanted = &object.value["spec"]["taints"];
                let without = |it: &Value| if it.is_null() { json!([]) } else { it.clone() };
                if without(&made["spec"]["taints"]) != without(wanted) {
                    // Admission taints new nodes until somebody says that they are ready.
                    let patch = json!({"spec": {"taints": without(wanted)}});
                    made = self
                        .client
                        .patch(resource, "", object.name(), "", Patch::Merge(&patch))
                        .await?;
                    updated.push(object.name().to_owned());
                }
            } else {
                silent = true;
                let status = &object.value["status"];
                if !status.is_null() && made["status"] != *status {
                    let patch = json!({"status": status});
                    made = self
                        .client
                        .patch(
                            resource,
                            object.namespace(),
                            object.name(),
                            "status",
                            Patch::Merge(&patch),
                        )
                        .await?;
                }
            }
            ours.put(&with_kind(made, resource))?;
        }
        self.stock
            .until("nodes", |seen| {
                added.iter().all(|it| seen.nodes_added.contains(it))
                    && updated.iter().all(|it| seen.nodes_updated.contains(it))
            })
            .await?;
        if silent {
            tokio::time::sleep(SETTLE).await;
        }
        Ok(())
    }

    /// Creates a pod; `None`: the API server refuses it, so that nobody decides about it.
    pub async fn create_pod(&self, pod: &Value) -> Result<Option<Value>, Error> {
        let namespace = text(pod, "/metadata/namespace");
        let made = self.client.create(&resources::PODS, namespace, pod).await;
        match made {
            Ok(made) => Ok(Some(made)),
            Err(
                control_client::Error::Invalid(why)
                | control_client::Error::Forbidden(why)
                | control_client::Error::BadRequest(why),
            ) => {
                println!("refused: {}", why.message);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the pod of a step that names its node, as it is then, and waits until the stock
    /// scheduler knows; `None`: the API server refuses it.
    pub async fn create_bound(&mut self, step: &Step) -> Result<Option<Value>, Error> {
        let Some(mut pod) = self.create_pod(step.pod()).await? else {
            return Ok(None);
        };
        let key = key(&pod);
        self.stock
            .until("a pod on a node", |seen| seen.pods_assigned.contains(&key))
            .await?;
        if let Step::Terminating(_) = step {
            let (namespace, name) = (
                text(&pod, "/metadata/namespace"),
                text(&pod, "/metadata/name"),
            );
            let gracefully = DeleteOptions::default();
            self.client
                .delete(&resources::PODS, namespace, name, &gracefully)
                .await?;
            pod = self.client.get(&resources::PODS, namespace, name).await?;
            self.stock
                .until("a pod that terminates", |seen| {
                    seen.pods_updated.contains(&key)
                })
                .await?;
        }
        Ok(Some(pod))
    }

    /// Takes a pod's gates away; none is decided about while it has them.
    pub async fn without_gates(&self, pod: Value) -> Result<Value, Error> {
        if pod["spec"]["schedulingGates"].is_null() {
            return Ok(pod);
        }
        tokio::time::sleep(SETTLE).await;
        let (namespace, name) = (
            text(&pod, "/metadata/namespace"),
            text(&pod, "/metadata/name"),
        );
        let now: Value = self.client.get(&resources::PODS, namespace, name).await?;
        let condition = scheduled(&now).map_or("", |it| text(it, "/reason"));
        if condition != "SchedulingGated" {
            return Err(Error::Program(format!(
                "a pod with gates has the condition `{condition}`"
            )));
        }
        let patch = json!({"spec": {"schedulingGates": null}});
        let patch = Patch::Merge(&patch);
        Ok(self
            .client
            .patch(&resources::PODS, namespace, name, "", patch)
            .await?)
    }

    /// The pod, once it is decided about.
    pub async fn decided(&self, pod: &Value) -> Result<Value, Error> {
        let (namespace, name) = (
            text(pod, "/metadata/namespace"),
            text(pod, "/metadata/name"),
        );
        let claims = volumes::claims_of(pod);
        for poll in 0..POLLS {
            if poll % 8 == 7 {
                self.bind_claims(namespace, &claims).await?;
            }
            let pod: Value = self.client.get(&resources::PODS, namespace, name).await?;
            let is_decided = scheduled(&pod).is_some_and(|it| it["reason"] != "SchedulingGated");
            if is_decided || !text(&pod, "/spec/nodeName").is_empty() {
                return Ok(pod);
            }
            tokio::time::sleep(POLL).await;
        }
        Err(Error::Program(format!(
            "nobody decides about {namespace}/{name}"
        )))
    }

    /// Deletes pods at once, and waits until the stock scheduler knows.
    pub async fn remove_pods(&mut self, pods: &[String]) -> Result<(), Error> {
        self.delete_pods(pods).await?;
        self.stock
            .until(&format!("the end of {}", pods.join(", ")), |seen| {
                pods.iter().all(|it| seen.pods_deleted.contains(it))
            })
            .await
    }

    /// Deletes pods at once.
    pub async fn delete_pods(&self, pods: &[String]) -> Result<(), Error> {
        for pod in pods {
            let (namespace, name) = pod.split_once('/').unwrap_or(("", pod));
            let now = DeleteOptions::default().grace(0);
            let deleted = self
                .client
                .delete(&resources::PODS, namespace, name, &now)
                .await;
            match deleted {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Deletes everything that the case made, and waits until the stock scheduler knows.
    pub async fn clean(&mut self, case: &Case) -> Result<(), Error> {
        let pods = self
            .client
            .list::<Value>(&resources::PODS, &Selection::all())
            .await?;
        let is_placed = |it: &&Value| !text(it, "/spec/nodeName").is_empty();
        let placed: Vec<String> = pods.items.iter().filter(is_placed).map(key).collect();
        let all: Vec<String> = pods.items.iter().map(key).collect();
        self.delete_pods(&all).await?;
        // The stock scheduler logs nothing about pending pods of other schedulers.
        self.remove_pods(&placed).await?;
        self.release_protected(case).await?;
        let now = DeleteOptions::default().grace(0);
        let mut nodes = Vec::new();
        for object in &case.objects {
            let Some(resource) = object.resource() else {
                continue;
            };
            let deleted = self
                .client
                .delete(resource, object.namespace(), object.name(), &now)
                .await;
            match deleted {
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
                Ok(()) if object.kind() == "Node" => nodes.push(object.name().to_owned()),
                Ok(()) => {}
            }
        }
        self.stock
            .until("deleted nodes", |seen| {
                nodes.iter().all(|it| seen.nodes_deleted.contains(it))
            })
            .await
    }
}

/// Objects in the order in which their kinds are created.
fn ordered(objects: &[Object]) -> Vec<&Object> {
    let mut ordered: Vec<&Object> = objects.iter().collect();
    let rank = |it: &Object| crate::case::resources().position(|one| one.kind == it.kind());
    ordered.sort_by_key(|it| rank(it));
    ordered
}

/// The condition `PodScheduled` of a pod.
pub fn scheduled(pod: &Value) -> Option<&Value> {
    let conditions = pod["status"]["conditions"].as_array()?;
    conditions.iter().find(|it| it["type"] == "PodScheduled")
}

/// An object that says what it is, as lists do not.
pub fn with_kind(mut object: Value, resource: &Resource) -> Value {
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.as_ref().into();
    object
}
