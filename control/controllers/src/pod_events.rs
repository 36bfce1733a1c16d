//! Translates changes of pods into work for the workloads that own them.

use control_client::{Change, Meta, Queue, Resource};

use crate::expectations::Expectations;
use crate::key::Key;
use crate::views::Pod;

/// The object of `resource` that an object names as its controller.
pub(crate) fn owner_of(resource: &Resource, object: &Meta) -> Option<Key> {
    let owner = object.controller()?;
    (owner.kind == *resource.kind && owner.api_version == resource.api_version())
        .then(|| Key::new(object.namespace.clone(), owner.name.clone()))
}

/// Notes the change of a pod in the expectations of its owners, and queues them.
///
/// Returns the pod when it is an orphan that some owner could adopt since this change.
pub(crate) fn observe<'a>(
    resource: &Resource,
    (expectations, queue): (&Expectations<Key>, &Queue<Key>),
    change: &'a Change<Pod>,
) -> Option<&'a Pod> {
    let (previous, current) = (change.previous.as_deref(), change.current.as_deref());
    let key_of = |pod: &Pod| owner_of(resource, &pod.metadata);
    let before = previous.and_then(key_of);
    let after = current.and_then(key_of);
    if let (Some(key), Some(previous)) = (&before, previous)
        && current.is_none_or(|pod| {
            pod.metadata.uid != previous.metadata.uid || pod.metadata.is_terminating()
        })
    {
        expectations.deleted(key, &previous.metadata.uid);
    }
    if let (Some(key), Some(current)) = (&after, current)
        && previous.is_none_or(|pod| pod.metadata.uid != current.metadata.uid)
    {
        // one that is already going was seen to come and to go
        expectations.created(key);
        expectations.deleted(key, &current.metadata.uid);
    }
    if before.is_none() && after.is_none() {
        return current.filter(|pod| is_new_orphan(pod, previous));
    }
    for key in [before, after].into_iter().flatten() {
        queue.add(key);
    }
    None
}

/// Whether a pod without controller appeared, or changed its labels or owners.
fn is_new_orphan(pod: &Pod, previous: Option<&Pod>) -> bool {
    let same = previous.is_some_and(|previous| {
        previous.metadata.labels == pod.metadata.labels
            && previous.metadata.owner_references == pod.metadata.owner_references
    });
    !same && !pod.metadata.labels.is_empty() && pod.metadata.controller().is_none()
}
