//! Says on the Node whether all of network policy has room in the maps.

use std::time::Duration;

use control_client::{Client, Error, Patch, resources};
use jiff::{Timestamp, Unit};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// The condition's type: `True` while something is closed for want of room.
pub const CONDITION: &str = "NetworkPolicyFull";
/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// A map that is full and cannot grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullMap {
    /// Its name.
    pub map: &'static str,
}

/// Keeps the Node's condition true until `shutdown`.
pub async fn follow(
    client: Client,
    node: String,
    mut full: watch::Receiver<Option<FullMap>>,
    shutdown: CancellationToken,
) {
    loop {
        let now = *full.borrow_and_update();
        let patch = json!({"status": {"conditions": [condition(now, Timestamp::now())]}});
        let patched: Result<Value, Error> = client
            .patch_status(&resources::NODES, "", &node, Patch::Strategic(&patch))
            .await;
        let again = match patched {
            Ok(_) => false,
            // The node is about to register itself.
            Err(Error::NotFound { .. }) => true,
            Err(error) => {
                warn!(%error, "failed to write the NetworkPolicyFull condition");
                true
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            changed = full.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(RETRY), if again => {}
        }
    }
}

fn condition(full: Option<FullMap>, now: Timestamp) -> Value {
    let now = now.round(Unit::Second).unwrap_or(now);
    let (status, reason, message) = match full {
        Some(FullMap { map }) => (
            "True",
            "MapFull",
            format!(
                "map {map} of network policy is as large as this machine allows, and full: pods \
                 that do not fit are closed"
            ),
        ),
        None => (
            "False",
            "HasRoom",
            "all of network policy has room in the maps".to_owned(),
        ),
    };
    json!({
        "type": CONDITION,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::fake::Api;

    #[tokio::test]
    async fn the_node_says_which_map_is_full_and_when_it_is_no_longer() {
        let api = Api::new();
        let (say, full) = watch::channel(None);
        let end = CancellationToken::new();
        let task = tokio::spawn(follow(api.client(), "n".to_owned(), full, end.clone()));
        let path = "/api/v1/nodes/n/status";
        let said = async |count: usize| {
            loop {
                let sent = api.sent("PATCH", path);
                if let Some(last) = sent.get(count - 1) {
                    let it = &last["status"]["conditions"][0];
                    assert_eq!(it["type"], CONDITION);
                    return (it["status"].clone(), it["message"].to_string());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert_eq!(said(1).await.0, "False");
        say.send_replace(Some(FullMap { map: "VERDICTS" }));
        let (status, message) = said(2).await;
        assert_eq!(status, "True");
        assert!(message.contains("VERDICTS"), "{message}");
        say.send_replace(None);
        assert_eq!(said(3).await.0, "False");
        end.cancel();
        task.await.expect("it ends");
    }
}
