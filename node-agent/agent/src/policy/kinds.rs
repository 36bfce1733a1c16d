//! ClusterNetworkPolicies, whose kind the API may not have, or not yet.

use std::time::Duration;

use control_client::{Client, Reflector, Selection, reflect};
use tokio::sync::mpsc;
use tracing::debug;

use super::{
    delays::RETRY,
    views::{CLUSTER_NETWORK_POLICIES, ClusterNetworkPolicy},
};

/// How often it is asked whether the API has the kind by now.
const KINDS: Duration = Duration::from_secs(5);

/// Whether the API server serves ClusterNetworkPolicies.
pub enum ServedKinds {
    /// The API has no such kind.
    Absent,
    /// All of them.
    Listed(Reflector<ClusterNetworkPolicy>),
}

/// Says whether the API has ClusterNetworkPolicies, and which, as soon as it
/// has: their definition may be installed at any time.
pub fn find(client: Client) -> mpsc::Receiver<ServedKinds> {
    let (sender, receiver) = mpsc::channel(1);
    control_supervise::task("cluster-policy-discovery").spawn_restarting(move || {
        let (client, sender) = (client.clone(), sender.clone());
        async move {
            let mut told = false;
            while !sender.is_closed() {
                match client.serves(&CLUSTER_NETWORK_POLICIES).await {
                    Ok(true) => {
                        let policies = reflect(&client, Selection::all());
                        policies.synced().await;
                        let _ = sender.send(ServedKinds::Listed(policies)).await;
                        return;
                    }
                    Ok(false) => {
                        if !std::mem::replace(&mut told, true) {
                            let _ = sender.send(ServedKinds::Absent).await;
                        }
                        tokio::time::sleep(KINDS).await;
                    }
                    Err(error) => {
                        debug!(%error, "failed to discover ClusterNetworkPolicies");
                        tokio::time::sleep(RETRY).await;
                    }
                }
            }
        }
    });
    receiver
}
