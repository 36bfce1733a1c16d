//! The claims that a pod uses.

use std::borrow::Cow;

use crate::views::{Phase, Pod, PodVolume};

/// The name of the claim behind a volume of a pod, if there is one.
pub(crate) fn claim_name<'a>(pod: &Pod, volume: &'a PodVolume) -> Option<Cow<'a, str>> {
    if let Some(claim) = &volume.persistent_volume_claim {
        return Some(Cow::Borrowed(claim.claim_name.as_str()));
    }
    volume
        .ephemeral
        .then(|| Cow::Owned(format!("{}-{}", pod.metadata.name, volume.name)))
}

/// Whether a pod uses a claim of its namespace.
pub(super) fn uses_claim(pod: &Pod, claim: &str) -> bool {
    pod.spec
        .volumes
        .iter()
        .any(|volume| claim_name(pod, volume).is_some_and(|name| name == claim))
}

/// Whether none of the pod's containers run any more, so that its volumes are free.
pub(super) fn is_terminated(pod: &Pod) -> bool {
    let stopped = || {
        pod.status
            .container_statuses
            .iter()
            .all(|status| status.state.terminated.is_some() || status.state.waiting)
    };
    matches!(pod.status.phase, Phase::Failed | Phase::Succeeded)
        || (pod.metadata.is_terminating() && stopped())
}
