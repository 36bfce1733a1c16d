//! Runs the cases against one cluster, many at a time, and notes what it holds after each step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control_client::{
    Client, DeleteOptions, Discard, Error, Metadata, Patch, Selection, resources,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::mirror::Mirror;
use super::normal::{Normalizer, Snapshot};
use super::probe::Probe;
use super::scenario::{Action, Case, Step};

/// A step is over after this long, at rest or not.
const LONGEST: Duration = Duration::from_secs(150);
/// How often it is looked whether a case is at rest.
const LOOK: Duration = Duration::from_millis(100);
/// How long controllers may take to make a namespace usable.
const NAMESPACE_READY: Duration = Duration::from_secs(60);

/// What a cluster held after each step of a case.
pub type Record = Vec<Snapshot>;

/// Runs one case.
pub async fn run(
    client: &Client,
    mirror: &Mirror,
    probe: &Probe,
    case: &Case,
) -> Result<Record, crate::Error> {
    let namespace = case.namespace();
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    client
        .create::<Discard>(&resources::NAMESPACES, "", &object)
        .await?;
    ready(client, &namespace).await?;
    let mut driver = Driver {
        client,
        namespace: namespace.clone(),
        uids: BTreeMap::new(),
    };
    let mut record = Record::new();
    for step in &case.steps {
        let mut refused = Vec::new();
        for action in &step.actions {
            if let Err(error) = driver.perform(action).await {
                match error.status() {
                    // Both servers are the same program: they refuse the same.
                    Some(status) => refused.push(json!({"reason": status.reason})),
                    None => return Err(error.into()),
                }
            }
        }
        rest(mirror, probe, &namespace, step).await;
        let objects = mirror.objects(&namespace);
        let normal = Normalizer::new(&namespace, &mirror.known(&namespace, &objects))?;
        let mut snapshot = normal.snapshot(&objects);
        if !refused.is_empty() {
            snapshot.insert("refused requests".to_owned(), refused);
        }
        record.push(snapshot);
    }
    Ok(record)
}

/// Waits until a namespace has what every pod needs.
async fn ready(client: &Client, namespace: &str) -> Result<(), crate::Error> {
    let began = Instant::now();
    loop {
        let accounts = &resources::SERVICE_ACCOUNTS;
        let account = client.get::<Metadata>(accounts, namespace, "default").await;
        let maps = &resources::CONFIG_MAPS;
        let map = client
            .get::<Metadata>(maps, namespace, "kube-root-ca.crt")
            .await;
        match (account, map) {
            (Ok(_), Ok(_)) => return Ok(()),
            _ if began.elapsed() > NAMESPACE_READY => {
                return Err(crate::Error::Program(format!(
                    "namespace {namespace} has no service account or root certificate after {NAMESPACE_READY:?}"
                )));
            }
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}

/// Waits until nothing happened in the case for as long as the step says, and for some rounds
/// of work as long as they take now.
async fn rest(mirror: &Mirror, probe: &Probe, case: &str, step: &Step) {
    let began = Instant::now();
    while began.elapsed() < LONGEST {
        tokio::time::sleep(LOOK).await;
        let calm = step.calm + probe.latency() * 3;
        if began.elapsed() >= calm && mirror.calm(case) >= calm {
            return;
        }
    }
}

struct Driver<'a> {
    client: &'a Client,
    namespace: String,
    /// Of the objects that were created, by name.
    uids: BTreeMap<String, String>,
}

impl Driver<'_> {
    async fn perform(&mut self, action: &Action) -> Result<(), Error> {
        match action {
            Action::Create(resource, object) => {
                let mut object = self.with_uids(object);
                let namespace = self.namespace_of(&object);
                if resource.namespaced {
                    object["metadata"]["namespace"] = namespace.clone().into();
                }
                let made: Metadata = self.client.create(resource, &namespace, &object).await?;
                let meta = made.metadata;
                self.uids
                    .insert(meta.name.to_string(), meta.uid.to_string());
                Ok(())
            }
            Action::Patch(resource, name, patch) => {
                let namespace = self.namespace_of(patch);
                self.client
                    .patch::<Discard>(resource, &namespace, name, "", Patch::Merge(patch))
                    .await
                    .map(drop)
            }
            Action::Delete(resource, name, policy) => {
                let options = DeleteOptions::default().propagation(*policy);
                self.client
                    .delete(resource, &self.namespace, name, &options)
                    .await
            }
            Action::PatchPod(app, patch) => {
                let Some(name) = self.pod(app).await? else {
                    return Ok(());
                };
                let pods = &resources::PODS;
                self.client
                    .patch::<Discard>(pods, &self.namespace, &name, "", Patch::Merge(patch))
                    .await
                    .map(drop)
            }
            Action::DeletePod(app) => {
                let Some(name) = self.pod(app).await? else {
                    return Ok(());
                };
                let options = DeleteOptions::default();
                self.client
                    .delete(&resources::PODS, &self.namespace, &name, &options)
                    .await
            }
            Action::NextMinute(seconds) => {
                let now = Timestamp::now()
                    .as_millisecond()
                    .rem_euclid(60_000)
                    .unsigned_abs();
                let left = 60_000 - now + seconds * 1000;
                tokio::time::sleep(Duration::from_millis(left)).await;
                Ok(())
            }
        }
    }

    /// The youngest pod with a label, and of those of one second the last by its name, since
    /// pods of a StatefulSet have an order.
    async fn pod(&self, app: &str) -> Result<Option<String>, Error> {
        let selection = Selection::all()
            .namespace(self.namespace.as_str())
            .labels(format!("app={app}"));
        let pods = self
            .client
            .list::<Metadata>(&resources::PODS, &selection)
            .await?;
        let ages = pods.items.into_iter().map(|pod| {
            let meta = pod.metadata;
            (meta.creation_timestamp, meta.name.to_string())
        });
        Ok(ages.max().map(|(_, name)| name))
    }

    fn namespace_of(&self, object: &Value) -> String {
        let own = object
            .pointer("/metadata/namespace")
            .and_then(Value::as_str);
        own.unwrap_or(&self.namespace).to_owned()
    }

    /// Fills in the uids of owners.
    fn with_uids(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let owners = object.pointer_mut("/metadata/ownerReferences");
        for owner in owners.and_then(Value::as_array_mut).into_iter().flatten() {
            let named = owner["uid"]
                .as_str()
                .and_then(|uid| uid.strip_prefix("UID:"));
            if let Some(uid) = named.and_then(|name| self.uids.get(name)) {
                owner["uid"] = uid.as_str().into();
            }
        }
        object
    }
}

/// Runs all cases, and returns what each left, or why it could not be run.
pub async fn run_all(
    client: Client,
    mirror: Arc<Mirror>,
    probe: Probe,
    cases: Arc<Vec<Case>>,
    at_once: usize,
) -> Vec<Result<Record, crate::Error>> {
    let limit = Arc::new(tokio::sync::Semaphore::new(at_once.max(1)));
    let mut running = Vec::new();
    for number in 0..cases.len() {
        let (client, mirror, cases) = (client.clone(), Arc::clone(&mirror), Arc::clone(&cases));
        let (limit, probe) = (Arc::clone(&limit), probe.clone());
        running.push(tokio::spawn(async move {
            // The semaphore is never closed.
            let _permit = limit.acquire().await;
            run(&client, &mirror, &probe, &cases[number]).await
        }));
    }
    let mut records = Vec::new();
    for task in running {
        records.push(task.await.unwrap_or_else(|panic| {
            Err(crate::Error::Program(format!(
                "a case cannot be run: {panic}"
            )))
        }));
    }
    records
}
