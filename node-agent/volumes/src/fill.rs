//! Events about classes whose storage is nearly full: writes to thin volumes fail, or wait,
//! once it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control_client::events::ObjectReference;
use control_client::{Metadata, resources};
use tokio_util::sync::CancellationToken;

use crate::provision::quantity;
use crate::shared::LoopContext;

/// How often the fill is looked at.
const EVERY: Duration = Duration::from_secs(15);

/// Percentages from which on something is said, and again at each.
const LEVELS: [u64; 4] = [80, 90, 95, 99];
/// How far the fill has to sink below a level before that level is said again.
const SLACK: u64 = 3;

/// How full the storage of a class is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassFill {
    /// Name of the class.
    pub class: String,
    /// Bytes that its storage has.
    pub total: u64,
    /// Bytes that are taken.
    pub used: u64,
}

impl ClassFill {
    fn percent(&self) -> u64 {
        let percent = u128::from(self.used) * 100 / u128::from(self.total.max(1));
        u64::try_from(percent).unwrap_or(100)
    }
}

/// An event about a storage class.
#[derive(Debug, PartialEq, Eq)]
enum FillNotice {
    /// It is fuller than a level.
    NearlyFull(String),
    /// It has space again.
    HasSpace(String),
}

/// Returns what is said of a class, given the level that was said last (0: none), and the
/// level that is said now.
fn decide(said: u64, fill: &ClassFill) -> (u64, Option<FillNotice>) {
    let percent = fill.percent();
    let level = |percent: u64| {
        let reached = LEVELS.into_iter().filter(|level| percent >= *level);
        reached.max().unwrap_or(0)
    };
    let (now, kept) = (level(percent), level(percent + SLACK));
    let ClassFill { class, total, used } = fill;
    let amount = |bytes: &u64| quantity(i64::try_from(*bytes >> 20 << 20).unwrap_or(i64::MAX));
    let (used, total) = (amount(used), amount(total));
    if now > said {
        let message = format!(
            "storage of volume class `{class}` is {percent} % full ({used} of {total}): writes to its volumes fail when it is full; delete volumes or snapshots, or add space"
        );
        return (now, Some(FillNotice::NearlyFull(message)));
    }
    if said > 0 && kept == 0 {
        let message =
            format!("storage of volume class `{class}` is {percent} % full ({used} of {total})");
        return (0, Some(FillNotice::HasSpace(message)));
    }
    (said.min(kept), None)
}

/// Looks at the fill until `shutdown`.
pub async fn run(shared: Arc<LoopContext>, shutdown: CancellationToken) {
    let mut said: BTreeMap<String, u64> = BTreeMap::new();
    loop {
        for fill in (shared.fills)() {
            let before = said.get(&fill.class).copied().unwrap_or(0);
            let (now, notice) = decide(before, &fill);
            said.insert(fill.class.clone(), now);
            if let Some(notice) = notice {
                record(&shared, notice).await;
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

async fn record(shared: &LoopContext, notice: FillNotice) {
    let node = &resources::NODES;
    let found = shared.client.get::<Metadata>(node, "", &shared.node).await;
    let Ok(found) = found else {
        return;
    };
    let about = ObjectReference::to_object(node, &found.metadata);
    match notice {
        FillNotice::NearlyFull(message) => {
            tracing::warn!(message, "storage of a volume class is nearly full");
            shared
                .recorder
                .warning(&about, "VolumeClassNearlyFull", message);
        }
        FillNotice::HasSpace(message) => {
            shared
                .recorder
                .normal(&about, "VolumeClassHasSpace", message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(percent: u64) -> ClassFill {
        ClassFill {
            class: "fast".to_owned(),
            total: 100 << 30,
            used: percent << 30,
        }
    }

    /// The reasons of what is said while a class fills in these steps.
    fn said(steps: &[u64]) -> Vec<&'static str> {
        let mut level = 0;
        let mut all = Vec::new();
        for percent in steps {
            let (now, notice) = decide(level, &fill(*percent));
            level = now;
            all.extend(notice.map(|notice| match notice {
                FillNotice::NearlyFull(_) => "full",
                FillNotice::HasSpace(_) => "space",
            }));
        }
        all
    }

    #[test]
    fn each_level_is_said_once_until_the_class_has_space_again() {
        assert_eq!(said(&[10, 79]), [""; 0]);
        assert_eq!(said(&[80, 81, 85, 89]), ["full"]);
        assert_eq!(said(&[80, 91, 96, 100]), ["full"; 4]);
        assert_eq!(said(&[100]), ["full"]);
        assert_eq!(said(&[81, 79, 81, 78, 82]), ["full"], "it sways at a level");
        assert_eq!(said(&[81, 60, 81]), ["full", "space", "full"]);
        assert_eq!(
            said(&[96, 91, 85, 91]),
            ["full", "full"],
            "90 % was left by more than the slack"
        );
    }

    #[test]
    fn message_names_the_class_and_the_way_out() {
        let (level, notice) = decide(0, &fill(92));
        assert_eq!(level, 90);
        let Some(FillNotice::NearlyFull(message)) = notice else {
            panic!("{notice:?}");
        };
        assert!(
            message.contains("class `fast` is 92 % full (92Gi of 100Gi)"),
            "{message}"
        );
        assert!(
            message.contains("delete volumes or snapshots, or add space"),
            "{message}"
        );
        assert_eq!(
            decide(0, &ClassFill::default()),
            (0, None),
            "nothing was measured yet"
        );
    }
}
