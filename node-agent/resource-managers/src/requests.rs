//! What pods ask for of what is given to each container apart.

use node_agent_objects::pod::{Container, Pod};

/// What a pod needs at once of what `of` says of each container: all that runs
/// at the same time, or an init container with the sidecars before it where
/// that is more.
pub fn of_pod(pod: &Pod, of: impl Fn(&Container) -> u64) -> u64 {
    let (mut sidecars, mut most) = (0_u64, 0_u64);
    for container in &pod.spec.init_containers {
        let one = of(container);
        if container.is_sidecar() {
            sidecars = sidecars.saturating_add(one);
        } else {
            most = most.max(sidecars.saturating_add(one));
        }
    }
    let rest = pod.spec.containers.iter().map(of);
    most.max(rest.fold(sidecars, u64::saturating_add))
}

/// Whether the container is through when the pod's others run.
pub fn is_passing(pod: &Pod, container: &Container) -> bool {
    let init = pod.spec.init_containers.iter();
    init.filter(|c| !c.is_sidecar())
        .any(|c| c.name == container.name)
}
