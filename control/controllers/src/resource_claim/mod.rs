//! The resource-claim controller: creates the ResourceClaims that pods request by
//! templates, records their names in the pods' status, and releases devices when the last
//! consumer pod has ended.

mod decide;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control_client::events::{ObjectReference, Recorder};
use control_client::{
    Client, DeleteOptions, Discard, Error, Metadata, Patch, Queue, Selection, resources,
};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::decide::{
    ClaimAction, FINALIZER, OwnedClaim, POD_CLAIM_NAME, PodAction, TemplateClaimName, claim_name,
    decide_claim, decide_pod, generated_name, is_done, owning_pod,
};
use crate::Controller;
use crate::context::Context;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{Consumer, Pod, ResourceClaim, Text};
use crate::work::{self, Outcome};

/// Makes and cleans up claims to devices.
pub const CONTROLLER: Controller = Controller {
    name: "resourceclaim-controller",
    service_account: "resource-claim-controller",
    start,
};

/// Owns the names of claims in pods' status.
const FIELD_MANAGER: &str = "ResourceClaimController";
/// After this time the server is asked for a claim that the cache does not show.
const SHOWN_AFTER: Duration = Duration::from_secs(5);
/// How many pods are remembered as deleted.
const MOST_DELETED: usize = 500;

/// A key of the work queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Item {
    Pod(Key),
    Claim(Key),
}

#[derive(Debug, Default)]
struct ClaimMemory {
    /// Claims that were made and are not in the cache, by the pod's uid.
    made: HashMap<Text, Vec<CreatedClaim>>,
    /// Pods for which a claim may have been made, although the answer was lost.
    uncertain: HashSet<Text>,
    /// The youngest deleted pods.
    deleted: HashSet<Text>,
    deleted_order: VecDeque<Text>,
}

#[derive(Debug, Clone)]
struct CreatedClaim {
    entry: Text,
    name: Text,
    since: Instant,
}

struct ResourceClaims {
    client: Client,
    /// Reads templates, which the role does not grant.
    reader: Client,
    recorder: Recorder,
    pods: Arc<KindCache<Pod>>,
    claims: Arc<KindCache<ResourceClaim>>,
    memory: Mutex<ClaimMemory>,
    queue: Queue<Item>,
}

fn start(ctx: &Context) -> BoxFuture<'static, ()> {
    let this = Arc::new(ResourceClaims {
        client: ctx.client.clone(),
        reader: ctx.reader().clone(),
        recorder: ctx.recorder("resource_claim"),
        pods: ctx.pods(),
        claims: ctx.resource_claims(),
        memory: Mutex::default(),
        queue: Queue::with_delays(Duration::from_millis(5), work::LONGEST_DELAY),
    });
    let listener = Arc::clone(&this);
    this.pods.on_change(move |change| {
        let (previous, current) = (change.previous.as_deref(), change.current.as_deref());
        listener.pod_changed(previous, current);
    });
    let listener = Arc::clone(&this);
    this.claims.on_change(move |change| {
        if let Some(claim) = change.latest() {
            listener.claim_changed(claim, change.current.is_some());
        }
    });
    let (workers, shutdown) = (ctx.config.workers, ctx.shutdown.clone());
    Box::pin(async move {
        this.pods.ready().await;
        this.claims.ready().await;
        let queue = this.queue.clone();
        let work = move |item| {
            let this = Arc::clone(&this);
            async move {
                match item {
                    Item::Pod(key) => this.sync_pod(key).await,
                    Item::Claim(key) => this.sync_claim(key).await,
                }
            }
        };
        queue.run("resource_claim", workers, &shutdown, work).await;
    })
}

impl ResourceClaims {
    fn memory(&self) -> MutexGuard<'_, ClaimMemory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pod_changed(&self, previous: Option<&Pod>, current: Option<&Pod>) {
        let Some(pod) = current.or(previous) else {
            return;
        };
        let meta = &pod.metadata;
        let replaced =
            previous.filter(|old| current.is_none_or(|new| new.metadata.uid != old.metadata.uid));
        if let Some(old) = replaced {
            self.memory().forget_pod(&old.metadata.uid);
        }
        for gone in replaced
            .into_iter()
            .chain(current.filter(|pod| is_done(pod)))
        {
            let extended = gone.status.extended_resource_claim_status.iter();
            let extended = extended.map(|status| status.resource_claim_name.clone());
            for name in claims_in_use(gone).chain(extended) {
                let key = Key::new(meta.namespace.clone(), name);
                self.queue.add(Item::Claim(key));
            }
            if !gone.spec.resource_claims.is_empty() {
                for claim in self.claims.owned_by(&meta.namespace, &gone.metadata.uid) {
                    self.queue.add(Item::Claim(Key::from_meta(&claim.metadata)));
                }
            }
        }
        if current.is_some() && !pod.spec.resource_claims.is_empty() && !meta.is_terminating() {
            self.queue.add(Item::Pod(Key::from_meta(meta)));
        }
    }

    fn claim_changed(&self, claim: &ResourceClaim, exists: bool) {
        let meta = &claim.metadata;
        if exists {
            self.queue.add(Item::Claim(Key::from_meta(meta)));
        }
        if let Some((name, uid)) = owning_pod(claim) {
            let mut memory = self.memory();
            if let Some(made) = memory.made.get_mut(uid) {
                made.retain(|one| one.name != meta.name);
            }
            let key = Key::new(meta.namespace.clone(), name.clone());
            self.queue.add(Item::Pod(key));
        } else {
            for pod in self.pods.namespace(&meta.namespace) {
                let mut entries = pod.spec.resource_claims.iter();
                if entries.any(|entry| entry.resource_claim_name.as_ref() == Some(&meta.name)) {
                    self.queue.add(Item::Pod(Key::from_meta(&pod.metadata)));
                }
            }
        }
    }

    /// Returns the claims that a pod owns: those of the cache, and those that were just
    /// created.
    async fn owned(&self, pod: &Pod) -> Result<Vec<OwnedClaim>, Error> {
        let meta = &pod.metadata;
        let view = |claim: &ResourceClaim| OwnedClaim {
            name: claim.metadata.name.clone(),
            entry: claim
                .metadata
                .annotations
                .get(POD_CLAIM_NAME)
                .map(Text::from),
        };
        if self.memory().uncertain.contains(&meta.uid) {
            let selection = Selection::all().namespace(meta.namespace.as_str());
            let resource = &resources::RESOURCE_CLAIMS;
            let live = self
                .client
                .list::<ResourceClaim>(resource, &selection)
                .await?;
            let live = live.items.iter();
            let own =
                live.filter(|claim| owning_pod(claim).is_some_and(|(_, uid)| *uid == meta.uid));
            let mut memory = self.memory();
            let made = memory.made.entry(meta.uid.clone()).or_default();
            for claim in own {
                let known = made.iter().any(|one| one.name == claim.metadata.name);
                if let Some(entry) = view(claim).entry.filter(|_| !known) {
                    made.push(CreatedClaim {
                        entry,
                        name: claim.metadata.name.clone(),
                        since: Instant::now(),
                    });
                }
            }
            memory.uncertain.remove(&meta.uid);
        }
        let cached = self.claims.owned_by(&meta.namespace, &meta.uid);
        let mut owned: Vec<OwnedClaim> = cached.iter().map(|claim| view(claim)).collect();
        let made = self.memory().made.get(&meta.uid).cloned();
        for one in made.into_iter().flatten() {
            if owned.iter().any(|own| own.name == one.name) {
                continue;
            }
            if one.since.elapsed() >= SHOWN_AFTER
                && !self.exists(&meta.namespace, &one.name).await?
            {
                if let Some(made) = self.memory().made.get_mut(&meta.uid) {
                    made.retain(|other| other.name != one.name);
                }
                continue;
            }
            owned.push(OwnedClaim {
                name: one.name,
                entry: Some(one.entry),
            });
        }
        Ok(owned)
    }

    async fn exists(&self, namespace: &str, claim: &str) -> Result<bool, Error> {
        let resource = &resources::RESOURCE_CLAIMS;
        match self
            .client
            .get::<Metadata>(resource, namespace, claim)
            .await
        {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn sync_pod(&self, key: Key) -> Outcome {
        let Some(pod) = self.pods.by_key(&key) else {
            return Ok(None);
        };
        if pod.metadata.is_terminating() || pod.spec.resource_claims.is_empty() {
            return Ok(None);
        }
        let owned = self.owned(&pod).await?;
        let named: HashMap<Text, Arc<ResourceClaim>> = claims_in_use(&pod)
            .filter_map(|name| {
                let claim = self.claims.get(&key.namespace, &name)?;
                Some((name, claim))
            })
            .collect();
        let actions = decide_pod(&pod, &owned, |name| named.get(name).map(AsRef::as_ref));
        let mut recorded: Vec<(Text, Text)> = Vec::new();
        for action in actions {
            match action {
                PodAction::Create { entry, template } => {
                    let Some(claim) = self.create(&pod, &entry, &template).await? else {
                        return Ok(Some(work::LONGEST_DELAY));
                    };
                    recorded.push((entry, claim));
                }
                PodAction::Record { entry, claim } => recorded.push((entry, claim)),
                PodAction::Reserve(name) => {
                    if let Some(claim) = named.get(&name) {
                        self.reserve(&pod, claim).await?;
                    }
                }
            }
        }
        if recorded.is_empty() {
            return Ok(None);
        }
        self.write_pod_status(&pod, recorded).await?;
        // A created claim is remembered until the cache shows it.
        Ok(Some(SHOWN_AFTER))
    }

    /// Creates the claim of an entry; returns `None` if there is no template, and records
    /// an event on the pod.
    async fn create(&self, pod: &Pod, entry: &str, template: &str) -> Result<Option<Text>, Error> {
        let made = self.create_from(pod, entry, template).await;
        let why = match &made {
            Ok(Some(_)) => return made,
            Ok(None) => format!(
                "resource claim template {template:?}: resourceclaimtemplate.resource.k8s.io {template:?} not found"
            ),
            Err(error) if error.is_namespace_terminating() => return Ok(None),
            Err(error) => format!("create ResourceClaim : {}", error.chain()),
        };
        let about = ObjectReference::to_object(&resources::PODS, &pod.metadata);
        let message = format!("PodResourceClaim {entry}: {why}");
        self.recorder
            .warning(&about, "FailedResourceClaimCreation", message);
        made
    }

    async fn create_from(
        &self,
        pod: &Pod,
        entry: &str,
        template: &str,
    ) -> Result<Option<Text>, Error> {
        let meta = &pod.metadata;
        let selection = Selection::all()
            .namespace(meta.namespace.as_str())
            .fields(format!("metadata.name={template}"));
        let resource = &resources::RESOURCE_CLAIM_TEMPLATES;
        let found = self.reader.list::<Value>(resource, &selection).await?;
        let mut found = found.items.into_iter();
        let Some(template) = found.find(|one| one["metadata"]["name"] == template) else {
            return Ok(None);
        };
        let body = claim_from_template(&template["spec"], pod, entry);
        let resource = &resources::RESOURCE_CLAIMS;
        let made = self
            .client
            .create::<Metadata>(resource, &meta.namespace, &body)
            .await;
        match made {
            Ok(claim) => {
                let made = CreatedClaim {
                    entry: entry.into(),
                    name: claim.metadata.name.clone(),
                    since: Instant::now(),
                };
                let mut memory = self.memory();
                memory.made.entry(meta.uid.clone()).or_default().push(made);
                Ok(Some(claim.metadata.name))
            }
            Err(error) => {
                let code = error.status().map(|status| status.code);
                if !code.is_some_and(|code| (400..500).contains(&code)) {
                    self.memory().uncertain.insert(meta.uid.clone());
                }
                Err(error)
            }
        }
    }

    /// Notes the claims of entries in the pod's status, beside those that are there.
    async fn write_pod_status(&self, pod: &Pod, new: Vec<(Text, Text)>) -> Result<(), Error> {
        let is_new = |name: &Text| new.iter().any(|(entry, _)| entry == name);
        let former = pod.status.resource_claim_statuses.iter();
        let former = former.filter(|status| !is_new(&status.name)).map(
            |status| json!({"name": status.name, "resourceClaimName": status.resource_claim_name}),
        );
        let statuses: Vec<Value> = former
            .chain(
                new.iter()
                    .map(|(entry, claim)| json!({"name": entry, "resourceClaimName": claim})),
            )
            .collect();
        let meta = &pod.metadata;
        let body = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "status": {"resourceClaimStatuses": statuses}});
        let patch = Patch::Apply {
            body: &body,
            manager: FIELD_MANAGER,
            force: true,
        };
        let written = self
            .client
            .patch_status::<Discard>(&resources::PODS, &meta.namespace, &meta.name, patch)
            .await;
        work::unless_gone(written)
    }

    async fn reserve(&self, pod: &Pod, claim: &ResourceClaim) -> Result<(), Error> {
        let mut reserved_for = claim.status.reserved_for.clone();
        reserved_for.push(Consumer {
            resource: "pods".into(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..Consumer::default()
        });
        let meta = &claim.metadata;
        let patch = json!({"metadata": work::precondition(meta),
            "status": {"reservedFor": reserved_for}});
        let resource = &resources::RESOURCE_CLAIMS;
        work::merge(&self.client, resource, meta, "status", &patch).await
    }

    async fn sync_claim(&self, key: Key) -> Outcome {
        let Some(claim) = self.claims.by_key(&key) else {
            return Ok(None);
        };
        let mut gone = HashSet::new();
        for consumer in claim.status.reserved_for.iter().filter(|one| one.is_pod()) {
            if self.is_gone(&key.namespace, consumer).await? {
                gone.insert(consumer.uid.clone());
            }
        }
        let owner = owning_pod(&claim).and_then(|(name, _)| self.pods.get(&key.namespace, name));
        let is_gone = |consumer: &Consumer| gone.contains(&consumer.uid);
        let resource = &resources::RESOURCE_CLAIMS;
        let mut meta = claim.metadata.clone();
        for action in decide_claim(&claim, is_gone, owner.as_deref()) {
            let (part, patch) = match action {
                ClaimAction::Status {
                    reserved_for,
                    deallocate,
                } => {
                    let reserved = Some(reserved_for).filter(|list| !list.is_empty());
                    let mut status = json!({"reservedFor": reserved});
                    if deallocate {
                        status["allocation"] = Value::Null;
                    }
                    ("status", json!({"status": status}))
                }
                ClaimAction::RemoveFinalizer => {
                    let left = meta.finalizers.iter().filter(|name| *name != FINALIZER);
                    let left: Vec<&Text> = left.collect();
                    ("", json!({"metadata": {"finalizers": left}}))
                }
                ClaimAction::Delete => {
                    let options = DeleteOptions::of_uid(meta.uid.as_str());
                    let deleted = self
                        .client
                        .delete(resource, &key.namespace, &key.name, &options)
                        .await;
                    work::unless_gone(deleted)?;
                    continue;
                }
            };
            let mut patch = patch;
            for field in ["uid", "resourceVersion"] {
                patch["metadata"][field] = work::precondition(&meta)[field].take();
            }
            let patch = Patch::Merge(&patch);
            let written = self
                .client
                .patch::<Metadata>(resource, &key.namespace, &key.name, part, patch)
                .await;
            match written {
                Ok(written) => meta = written.metadata,
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Returns whether a consumer pod is deleted or done. If the cache does not show it,
    /// the server is asked: the scheduler may be ahead of the cache.
    async fn is_gone(&self, namespace: &str, consumer: &Consumer) -> Result<bool, Error> {
        if self.memory().deleted.contains(&consumer.uid) {
            return Ok(true);
        }
        if let Some(pod) = self.pods.get(namespace, &consumer.name)
            && pod.metadata.uid == consumer.uid
        {
            return Ok(is_done(&pod));
        }
        let (resource, name) = (&resources::PODS, &consumer.name);
        match self.client.get::<Metadata>(resource, namespace, name).await {
            Ok(pod) => Ok(pod.metadata.uid != consumer.uid),
            Err(error) if error.is_not_found() => Ok(true),
            Err(error) => Err(error),
        }
    }
}

impl ClaimMemory {
    fn forget_pod(&mut self, uid: &Text) {
        self.made.remove(uid);
        self.uncertain.remove(uid);
        if self.deleted.insert(uid.clone()) {
            self.deleted_order.push_back(uid.clone());
        }
        if self.deleted_order.len() > MOST_DELETED
            && let Some(oldest) = self.deleted_order.pop_front()
        {
            self.deleted.remove(&oldest);
        }
    }
}

/// The names of the claims that a pod uses.
pub(crate) fn claims_in_use(pod: &Pod) -> impl Iterator<Item = Text> {
    let entries = pod.spec.resource_claims.iter();
    entries.filter_map(|entry| match claim_name(pod, entry) {
        Some(TemplateClaimName::Known { name, .. }) => Some(name),
        _ => None,
    })
}

fn claim_from_template(template: &Value, pod: &Pod, entry: &str) -> Value {
    let meta = &pod.metadata;
    // As upstream, it does not block the pod's deletion.
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid,
        "controller": true});
    let mut metadata = json!({"namespace": meta.namespace,
        "generateName": generated_name(&meta.name, entry), "ownerReferences": [owner]});
    if let Some(labels) = template["metadata"].get("labels") {
        metadata["labels"] = labels.clone();
    }
    if let Some(annotations) = template["metadata"].get("annotations") {
        metadata["annotations"] = annotations.clone();
    }
    metadata["annotations"][POD_CLAIM_NAME] = entry.into();
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata,
        "spec": template["spec"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_has_the_metadata_of_its_template_and_the_pod_as_its_controller() {
        let template = json!({"metadata": {"labels": {"l": "1"}, "annotations": {"x": "y"}},
            "spec": {"devices": {}}});
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "1"}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(
            claim_from_template(&template, &pod, "gpu"),
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {
                "namespace": "n", "generateName": "p-gpu-", "labels": {"l": "1"},
                "annotations": {"x": "y", POD_CLAIM_NAME: "gpu"}, "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1",
                        "controller": true}]}, "spec": {"devices": {}}})
        );
    }
}
