//! Helpers shared by the loops of several controllers.

use std::sync::Arc;
use std::time::Duration;

use control_client::events::{ObjectReference, Recorder};
use control_client::{
    Client, DeleteOptions, Discard, Error, Meta, Metadata, OwnerReference, Patch, Queue, Resource,
    resources,
};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::Value;

use crate::expectations::Expectations;
use crate::key::Key;
use crate::ownership;
use crate::views::Pod;

/// The result of a reconciliation: done, or again after a time.
pub(crate) type Outcome = Result<Option<Duration>, Error>;

/// The longest delay before a failed key is retried. It is shorter than a work queue's
/// default, because nothing else would wake the key.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// A queue of keys whose failures wait from 5 ms up to half a minute.
pub(crate) fn queue() -> Queue<Key> {
    Queue::with_delays(Duration::from_millis(5), LONGEST_DELAY)
}

/// The end of a reconciliation that made one object of a namespace: others may
/// have made it before, and a namespace that ends needs none.
///
/// # Errors
/// Any other failure of the write.
pub(crate) fn unless_overtaken<T>(written: Result<T, Error>) -> Outcome {
    match written {
        Err(error)
            if !error.is_already_exists()
                && !error.is_namespace_terminating()
                && !error.is_not_found() =>
        {
            Err(error)
        }
        _ => Ok(None),
    }
}

/// Ignores the error of a write to a deleted object.
///
/// # Errors
/// Any other failure of the write.
pub(crate) fn unless_gone<T>(written: Result<T, Error>) -> Result<(), Error> {
    match written {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Calls `work` for each item, in batches of concurrent calls; batches begin with one
/// call and double up to `most`. After a batch with a failure no further one is started:
/// what fails for one pod will mostly fail for all, and a full quota should not be met
/// with a thousand requests.
///
/// Returns the number of successful calls and the first failure.
pub(crate) async fn slow_start<T, F, Fut, E>(
    over: impl IntoIterator<Item = T>,
    most: usize,
    work: F,
) -> (usize, Option<E>)
where
    F: Fn(T) -> Fut,
    Fut: Future<Output = Result<(), E>>,
{
    let mut succeeded = 0;
    let mut left = over.into_iter().peekable();
    let mut batch = 1;
    while left.peek().is_some() {
        let (done, failure) = together(left.by_ref().take(batch).map(&work)).await;
        succeeded += done;
        if failure.is_some() {
            return (succeeded, failure);
        }
        batch = (batch * 2).min(most);
    }
    (succeeded, None)
}

/// Runs all at the same time: how many succeeded, and the first failure.
pub(crate) async fn together<Fut, E>(work: impl IntoIterator<Item = Fut>) -> (usize, Option<E>)
where
    Fut: Future<Output = Result<(), E>>,
{
    let mut running: FuturesUnordered<Fut> = work.into_iter().collect();
    let mut succeeded = 0;
    let mut failure = None;
    while let Some(result) = running.next().await {
        match result {
            Ok(()) => succeeded += 1,
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
    }
    (succeeded, failure)
}

/// Patches an object by RFC 7386; succeeds if it was deleted.
pub(crate) async fn merge(
    client: &Client,
    resource: &Resource,
    meta: &Meta,
    subresource: &str,
    patch: &Value,
) -> Result<(), Error> {
    let result = client
        .patch::<Discard>(
            resource,
            &meta.namespace,
            &meta.name,
            subresource,
            Patch::Merge(patch),
        )
        .await;
    unless_gone(result)
}

/// The metadata of a merge patch that applies only to the object that was read: this uid
/// at this revision. The server answers with a conflict otherwise.
///
/// A status that is computed from an object carries it: from a newer revision another
/// status may follow.
pub(crate) fn precondition(meta: &Meta) -> Value {
    serde_json::json!({"uid": meta.uid, "resourceVersion": meta.resource_version})
}

/// Returns whether the server still has the revision of the object that was read.
///
/// Must be called before work that must not be done twice. While the object's watch is
/// broken, its cache is behind the caches of its dependents, and a dependent that has
/// finished and was deleted looks like one that was never created.
///
/// # Errors
/// Errors that prevent a response.
pub(crate) async fn is_current(
    client: &Client,
    resource: &Resource,
    meta: &Meta,
) -> Result<bool, Error> {
    let answer = client
        .get::<Metadata>(resource, &meta.namespace, &meta.name)
        .await;
    match answer {
        Ok(fresh) => Ok(fresh.metadata.uid == meta.uid
            && fresh.metadata.resource_version == meta.resource_version),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// How long to wait for a cache that [`is_current`] found behind. Its event brings the
/// key back sooner.
pub(crate) const CACHE_BEHIND: Duration = Duration::from_secs(1);

/// Makes `owner` the controller of an object, after checking with the server that the
/// owner exists and is not being deleted: the cache may be stale, and the garbage
/// collector may be about to orphan the owner's objects.
pub(crate) async fn adopt(
    client: &Client,
    owner: (&Resource, &Meta),
    object: (&Resource, &Meta),
    finalizer: Option<&str>,
) -> Result<(), Error> {
    let (owner_resource, owner_meta) = owner;
    let fresh: Metadata = client
        .get(owner_resource, &owner_meta.namespace, &owner_meta.name)
        .await?;
    if fresh.metadata.uid != owner_meta.uid || fresh.metadata.is_terminating() {
        return Ok(());
    }
    let reference = reference_to(owner_resource, owner_meta);
    let mut patch = ownership::adopt_patch(object.1, &reference);
    if let Some(finalizer) = finalizer {
        let mut all: Vec<&str> = object.1.finalizers.iter().map(AsRef::as_ref).collect();
        if !all.contains(&finalizer) {
            all.push(finalizer);
            patch["metadata"]["finalizers"] = serde_json::json!(all);
        }
    }
    merge(client, object.0, object.1, "", &patch).await
}

/// The reference that makes `owner` the controller of an object.
pub(crate) fn reference_to(resource: &Resource, owner: &Meta) -> OwnerReference {
    ownership::controller_reference(&resource.api_version(), &resource.kind, owner)
}

/// Makes the pods of an owner, slowly at first, and tells people of each. Those that
/// could not be made are not expected any more.
///
/// Returns how many were made, and the first failure. That the namespace ends is
/// none: nothing can be made in there any more, and nothing needs to be.
pub(crate) async fn create_pods(
    client: &Client,
    recorder: &Recorder,
    expectations: &Expectations<Key>,
    (key, about): (&Key, &ObjectReference),
    bodies: impl ExactSizeIterator<Item = &Value>,
) -> (usize, Option<Error>) {
    let count = bodies.len();
    expectations.expect_creations(key, count);
    let (made, failure) = slow_start(bodies, usize::MAX, |body| async move {
        let made = client
            .create::<Metadata>(&resources::PODS, &key.namespace, body)
            .await;
        match made {
            Ok(pod) => {
                let message = format!("Created pod: {}", pod.metadata.name);
                recorder.normal(about, "SuccessfulCreate", message);
                Ok(())
            }
            Err(error) => {
                if !error.is_namespace_terminating() {
                    let message = format!("Error creating: {}", error.chain());
                    recorder.warning(about, "FailedCreate", message);
                }
                Err(error)
            }
        }
    })
    .await;
    for _ in made..count {
        expectations.created(key);
    }
    let failure = failure.filter(|error| !error.is_namespace_terminating());
    (made, failure)
}

/// Deletes pods of an owner concurrently, and records an event for each. Returns the
/// first failure; a missing pod is not a failure.
pub(crate) async fn delete_pods(
    client: &Client,
    recorder: &Recorder,
    expectations: &Expectations<Key>,
    (key, about): (&Key, &ObjectReference),
    pods: &[Arc<Pod>],
) -> Option<Error> {
    let uids = pods.iter().map(|pod| pod.metadata.uid.clone());
    expectations.expect_deletions(key, uids);
    let (_, failure) = together(pods.iter().map(|pod| async {
        let meta = &pod.metadata;
        let options = DeleteOptions::of_uid(meta.uid.as_str());
        let result = client
            .delete(&resources::PODS, &meta.namespace, &meta.name, &options)
            .await;
        match result {
            Ok(()) => {
                let message = format!("Deleted pod: {}", meta.name);
                recorder.normal(about, "SuccessfulDelete", message);
                Ok(())
            }
            Err(error) => {
                expectations.deleted(key, &meta.uid);
                if error.is_not_found() {
                    return Ok(());
                }
                let message = format!("Error deleting: {}", error.chain());
                recorder.warning(about, "FailedDelete", message);
                Err(error)
            }
        }
    }))
    .await;
    failure
}

/// The body of a pod made from a template, as upstream's controllers make it.
/// The name is left to the server unless the caller sets one.
pub(crate) fn pod_from_template(
    template: &Value,
    owner: &Meta,
    reference: &OwnerReference,
) -> Value {
    let mut metadata = serde_json::Map::new();
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(part) = template.get("metadata").and_then(|m| m.get(field)) {
            metadata.insert(field.into(), part.clone());
        }
    }
    metadata.insert("namespace".into(), owner.namespace.as_str().into());
    metadata.insert("generateName".into(), name_prefix(&owner.name).into());
    metadata.insert("ownerReferences".into(), serde_json::json!([reference]));
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": template.get("spec").cloned().unwrap_or_default(),
    })
}

/// `<name>-`, unless that would be too long for a name.
pub(crate) fn name_prefix(name: &str) -> String {
    const LIMIT: usize = 253;
    if name.len() < LIMIT {
        format!("{name}-")
    } else {
        name.to_owned()
    }
}

/// Keeps an `Arc` alive in each call of a worker.
pub(crate) fn call<T, Fut>(
    this: &Arc<T>,
    work: fn(Arc<T>, Key) -> Fut,
) -> impl Fn(Key) -> Fut + Clone + use<T, Fut> {
    let this = Arc::clone(this);
    move |key| work(Arc::clone(&this), key)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn slow_start_stops_after_the_first_bad_batch() {
        let calls = AtomicUsize::new(0);
        let (succeeded, failure) = slow_start(0..100, 100, |_| {
            let call = calls.fetch_add(1, Ordering::Relaxed);
            async move { if call == 4 { Err("quota") } else { Ok(()) } }
        })
        .await;
        // batches of 1, 2 and 4; the second call of the third fails
        assert_eq!(calls.load(Ordering::Relaxed), 7);
        assert_eq!(succeeded, 6);
        assert_eq!(failure, Some("quota"));
    }

    #[test]
    fn pod_carries_the_templates_metadata_and_its_owner() {
        let template =
            serde_json::json!({"metadata":{"labels":{"a":"b"},"name":"ignored"},"spec":{"x":1}});
        let owner: Meta =
            serde_json::from_value(serde_json::json!({"name":"web-1","namespace":"d","uid":"u"}))
                .unwrap();
        let reference = ownership::controller_reference("apps/v1", "ReplicaSet", &owner);
        assert_eq!(
            pod_from_template(&template, &owner, &reference),
            serde_json::json!({"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"},"namespace":"d",
                "generateName":"web-1-","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet",
                "name":"web-1","uid":"u","controller":true,"blockOwnerDeletion":true}]},"spec":{"x":1}})
        );
    }
}
