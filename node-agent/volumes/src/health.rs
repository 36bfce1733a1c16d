//! Events about volumes of this node that are damaged or out of reach.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control_client::events::ObjectReference;
use control_client::{Meta, resources};
use csi_api as api;
use tokio_util::sync::CancellationToken;

use crate::shared::LoopContext;

/// How often the driver is asked.
const EVERY: Duration = Duration::from_secs(60);

/// What is wrong with volumes, by the driver's identifier.
type Findings = BTreeMap<String, String>;

/// An event about a volume.
#[derive(Debug, PartialEq, Eq)]
struct HealthNotice {
    volume: String,
    /// What is wrong; none for a volume that has recovered.
    message: Option<String>,
}

/// Returns what is said of volumes whose condition changed.
fn decide(before: &Findings, now: &Findings) -> Vec<HealthNotice> {
    let changed = now
        .iter()
        .filter(|(volume, message)| before.get(*volume) != Some(*message));
    let mut notices: Vec<HealthNotice> = changed
        .map(|(volume, message)| HealthNotice {
            volume: volume.clone(),
            message: Some(message.clone()),
        })
        .collect();
    let recovered = before.keys().filter(|volume| !now.contains_key(*volume));
    notices.extend(recovered.map(|volume| HealthNotice {
        volume: volume.clone(),
        message: None,
    }));
    notices
}

/// Returns the findings of an answer of the driver.
fn findings(entries: &[api::VolumeHealth]) -> Findings {
    let mut all = Findings::new();
    for entry in entries {
        let messages = entry.health_statuses.iter().map(|it| it.message.as_str());
        let messages: Vec<&str> = messages.collect();
        if !messages.is_empty() {
            all.insert(entry.volume_id.clone(), messages.join("; "));
        }
    }
    all
}

/// Asks the driver until `shutdown`.
pub async fn run(shared: Arc<LoopContext>, shutdown: CancellationToken) {
    shared.synced().await;
    let mut before = Findings::new();
    loop {
        match shared.driver.health().await {
            Ok(entries) => {
                let now = findings(&entries);
                for notice in decide(&before, &now) {
                    record(&shared, &notice);
                }
                before = now;
            }
            Err(error) => tracing::debug!(%error, "failed to query volume health"),
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

fn record(shared: &LoopContext, notice: &HealthNotice) {
    let volumes = shared.volumes.cache().snapshot();
    let mut all = volumes.iter();
    let volume = all.find(|it| it.handle_on(&shared.node) == Some(notice.volume.as_str()));
    let Some(claim) = volume.and_then(|volume| volume.spec.claim_ref.as_ref()) else {
        return;
    };
    let meta = Meta {
        namespace: claim.namespace.as_str().into(),
        name: claim.name.as_str().into(),
        uid: claim.uid.as_str().into(),
        ..Meta::default()
    };
    let about = ObjectReference::to_object(&resources::PERSISTENT_VOLUME_CLAIMS, &meta);
    match &notice.message {
        Some(message) => {
            shared
                .recorder
                .warning(&about, "VolumeConditionAbnormal", message.clone());
        }
        None => {
            let message = "The Volume returns to the healthy state";
            shared
                .recorder
                .normal(&about, "VolumeConditionNormal", message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Findings {
        let pairs = pairs.iter();
        pairs
            .map(|(volume, message)| ((*volume).to_owned(), (*message).to_owned()))
            .collect()
    }

    #[test]
    fn a_change_of_a_volumes_condition_is_told_once() {
        let notice = |volume: &str, message: Option<&str>| HealthNotice {
            volume: volume.to_owned(),
            message: message.map(str::to_owned),
        };
        let (none, bad) = (of(&[]), of(&[("a", "read errors"), ("b", "missing")]));
        assert_eq!(
            decide(&none, &bad),
            [
                notice("a", Some("read errors")),
                notice("b", Some("missing"))
            ]
        );
        assert!(decide(&bad, &bad).is_empty());
        let worse = of(&[("a", "data lost")]);
        assert_eq!(
            decide(&bad, &worse),
            [notice("a", Some("data lost")), notice("b", None)]
        );
    }

    #[test]
    fn a_volume_with_several_findings_has_one_message() {
        let entry = |message: &str| api::VolumeHealthEntry {
            status: api::VolumeHealthErrorType::Degraded.into(),
            reason: "R".to_owned(),
            message: message.to_owned(),
        };
        let health = |id: &str, entries| api::VolumeHealth {
            volume_id: id.to_owned(),
            health_statuses: entries,
        };
        let found = findings(&[
            health("a", vec![entry("one"), entry("two")]),
            health("b", Vec::new()),
        ]);
        assert_eq!(found, of(&[("a", "one; two")]));
    }
}
