//! Tells pods at once that the volume of a claim has grown.
//!
//! A node may not watch claims (upstream's policy lets it read them by name), so a pod's
//! claims are read once a minute. Who makes the node's own volumes follows their claims
//! and says it here; what is lost costs that minute and nothing else.

use node_agent_objects::pod::Pod;
use tokio::sync::broadcast;

use super::claim;

/// Claims that may wait to be told to pods.
const BACKLOG: usize = 256;

/// A claim whose volume has grown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrownClaim {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl GrownClaim {
    /// Whether a pod has the claim's volume.
    #[must_use]
    pub fn is_of(&self, pod: &Pod) -> bool {
        let mut volumes = pod.spec.volumes.iter();
        pod.namespace() == self.namespace
            && volumes.any(|volume| claim::name(pod, volume).as_deref() == Some(&self.name))
    }
}

/// Where grown claims are said, and heard. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct GrownClaims(broadcast::Sender<GrownClaim>);

impl Default for GrownClaims {
    fn default() -> Self {
        Self(broadcast::channel(BACKLOG).0)
    }
}

impl GrownClaims {
    /// Says that the volume of a claim has grown.
    pub fn notify(&self, namespace: &str, name: &str) {
        let claim = GrownClaim {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        // Without pods nobody listens.
        let _ = self.0.send(claim);
    }

    /// Hears of claims whose volumes grow from now on.
    #[must_use]
    pub fn follow(&self) -> broadcast::Receiver<GrownClaim> {
        self.0.subscribe()
    }
}

/// Returns the next claim; those that were lost are passed over.
pub async fn next(claims: &mut broadcast::Receiver<GrownClaim>) -> GrownClaim {
    loop {
        match claims.recv().await {
            Ok(claim) => return claim,
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_of_the_pods_of_its_namespace_that_have_its_volume() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "db-0", "namespace": "shop", "uid": "u"},
            "spec": {"containers": [], "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
            ]}
        }))
        .expect("a pod");
        let is_of = |namespace: &str, name: &str| {
            let claim = GrownClaim {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            claim.is_of(&pod)
        };
        assert!(is_of("shop", "data-db-0"));
        assert!(is_of("shop", "db-0-scratch"));
        assert!(!is_of("other", "data-db-0"));
        assert!(!is_of("shop", "data-db-1"));
    }
}
