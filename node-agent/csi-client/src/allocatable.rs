//! How many volumes of a driver the node can hold, which changes while it runs
//! (`MutableCSINodeAllocatableCount`, KEP-4876).
//!
//! A driver whose `CSIDriver` has `nodeAllocatableUpdatePeriodSeconds` is asked so often,
//! and at once when a volume finds no room (`ResourceExhausted`). What it says becomes
//! `allocatable.count` of the node's `CSINode`, by which the scheduler places pods.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use control_client::{Meta, Reflector, Resource, View};
use csi_api::NodeGetInfoResponse;
use node_agent_informers::{Informers, SharedView};
use node_agent_plugins::api::Empty;
use serde::Deserialize;
use serde_json::Value;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::plan::DriverSpec;
use super::register::{allocatable, change};
use super::{CSI_DRIVERS, CsiDrivers, Error};

/// Many volumes that find no room at the same time ask a driver once: as often as it may
/// be asked by its period.
const PAUSE: Duration = Duration::from_secs(10);

/// A `CSIDriver`, of which only `nodeAllocatableUpdatePeriodSeconds` is read.
#[derive(Deserialize)]
struct CsiDriverPeriod {
    metadata: Meta,
    #[serde(default)]
    spec: PeriodicSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PeriodicSpec {
    node_allocatable_update_period_seconds: Option<u64>,
}

impl View for CsiDriverPeriod {
    const RESOURCE: Resource = CSI_DRIVERS;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl SharedView for CsiDriverPeriod {}

/// Drivers that are polled, each with its period and its task.
type PollTasks<T> = BTreeMap<String, (Duration, T)>;

/// What has to end and what to begin, so that those in `wanted` are asked as often as
/// they want to be. One whose period stays is left alone. Pure.
fn changes<T>(
    asked: &PollTasks<T>,
    wanted: &BTreeMap<String, Duration>,
) -> (Vec<String>, Vec<(String, Duration)>) {
    let ends = asked
        .iter()
        .filter(|(name, (period, _))| wanted.get(*name) != Some(period))
        .map(|(name, _)| name.clone());
    let begins = wanted
        .iter()
        .filter(|(name, period)| asked.get(*name).map(|(period, _)| period) != Some(period))
        .map(|(name, period)| (name.clone(), *period));
    (ends.collect(), begins.collect())
}

/// The drivers of a `CSINode` with this one's count as it is now. Who else is there and
/// what else it says stays: it is immutable. Pure.
fn counted(mut all: Vec<Value>, name: &str, most: i64) -> Vec<Value> {
    let own = all.iter_mut().find(|one| one["name"] == name);
    if let Some(own) = own.and_then(Value::as_object_mut) {
        match allocatable(most) {
            Some(count) => own.insert("allocatable".to_owned(), count),
            None => own.remove("allocatable"),
        };
    }
    all
}

/// Asks the drivers that want to be asked, until `shutdown`.
pub(super) async fn keep(
    drivers: Arc<CsiDrivers>,
    informers: Informers,
    shutdown: CancellationToken,
) {
    let mut objects: Option<Reflector<CsiDriverPeriod>> = None;
    let mut changed = None;
    let mut asked: PollTasks<AbortHandle> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    loop {
        let names = drivers.names();
        // most nodes have no drivers: they do not follow what they would not use
        if names.is_empty() {
            (objects, changed) = (None, None);
        } else if objects.is_none() {
            let all = informers.subscribe::<CsiDriverPeriod>();
            (changed, objects) = (Some(all.changes()), Some(all));
        }
        let cache = objects.as_ref().map(Reflector::cache);
        let wanted: BTreeMap<String, Duration> = names
            .into_iter()
            .filter_map(|name| {
                let object = cache.as_ref()?.get("", &name)?;
                let seconds = object.spec.node_allocatable_update_period_seconds?;
                (seconds > 0).then(|| (name, Duration::from_secs(seconds)))
            })
            .collect();
        let (ends, begins) = changes(&asked, &wanted);
        for name in ends {
            if let Some((_, task)) = asked.remove(&name) {
                task.abort();
            }
        }
        for (name, period) in begins {
            let (with, of) = (drivers.clone(), name.clone());
            let task = control_supervise::task("driver-allocatable")
                .detail(&*name)
                .restarting(move || every(with.clone(), of.clone(), period));
            let task = tasks.spawn(task);
            asked.insert(name, (period, task));
        }
        let change = async {
            match &mut changed {
                Some(changed) => changed.recv().await.is_some(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = drivers.known.notified() => {}
            more = change => if !more {
                (objects, changed) = (None, None);
            },
            Some(_) = tasks.join_next() => {}
        }
    }
}

async fn every(drivers: Arc<CsiDrivers>, name: String, period: Duration) {
    loop {
        tokio::time::sleep(period).await;
        if let Err(error) = drivers.recount(&name).await {
            tracing::warn!(
                driver = name,
                %error,
                "failed to update the allocatable count of a CSI driver"
            );
        }
    }
}

impl CsiDrivers {
    /// Keeps the count of volumes that the node can hold as its drivers say, until
    /// `shutdown`.
    pub async fn keep_counts(self: Arc<Self>, informers: Informers, shutdown: CancellationToken) {
        keep(self, informers, shutdown).await;
    }

    fn names(&self) -> Vec<String> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.keys().cloned().collect()
    }

    /// Queries a driver for the number of volumes that the node can hold, and writes it to
    /// `CSINode`.
    async fn recount(&self, name: &str) -> Result<(), Error> {
        let driver = self.find(name)?;
        let info: NodeGetInfoResponse = driver.call("csi.v1.Node/NodeGetInfo", Empty {}).await?;
        let api = self.api()?;
        // made at the registration: that it is gone since then was somebody's decision
        change(api, &self.node, None, |all| {
            counted(all, name, info.max_volumes_per_node)
        })
        .await
        .map_err(Error::Count)
    }

    /// A volume found no room on the node: asks the driver, once for all that find none at
    /// the same time. Whether it wants to be asked.
    pub(super) async fn found_full(&self, name: &str, spec: &DriverSpec) -> bool {
        if spec.node_allocatable_update_period_seconds.unwrap_or(0) == 0 {
            return false;
        }
        let asks = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            let before = asked.get(name).is_none_or(|at| at.elapsed() >= PAUSE);
            if before {
                asked.insert(name.to_owned(), Instant::now());
            }
            before
        };
        if asks {
            tracing::info!(
                driver = name,
                "a volume was refused for lack of attachment slots; updating the driver's allocatable count"
            );
            if let Err(error) = self.recount(name).await {
                tracing::warn!(
                    driver = name,
                    %error,
                    "failed to update the allocatable count of a CSI driver"
                );
            }
        }
        true
    }

    /// The same for a driver that finds no room itself.
    pub(super) async fn heed<T>(
        &self,
        name: &str,
        spec: &DriverSpec,
        made: Result<T, Error>,
    ) -> Result<T, Error> {
        if let Err(Error::Call(error)) = &made
            && error.code == tonic::Code::ResourceExhausted
        {
            self.found_full(name, spec).await;
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_changed_begins_anew() {
        let seconds = Duration::from_secs;
        let wanted = |all: &[(&str, u64)]| -> BTreeMap<String, Duration> {
            let all = all.iter();
            all.map(|(name, s)| ((*name).to_owned(), seconds(*s)))
                .collect()
        };
        let asked: PollTasks<()> = wanted(&[("a", 10), ("b", 10), ("c", 10)])
            .into_iter()
            .map(|(name, period)| (name, (period, ())))
            .collect();
        let (ends, begins) = changes(&asked, &wanted(&[("a", 10), ("b", 20), ("d", 30)]));
        assert_eq!(ends, ["b", "c"]);
        assert_eq!(
            begins,
            [("b".to_owned(), seconds(20)), ("d".to_owned(), seconds(30))]
        );
        let (ends, begins) = changes(&asked, &wanted(&[("a", 10), ("b", 10), ("c", 10)]));
        assert!(ends.is_empty() && begins.is_empty());
    }

    #[test]
    fn nothing_but_the_count_of_the_driver_changes() {
        let drivers = || {
            vec![
                json!({"name": "other", "nodeID": "o", "allocatable": {"count": 1}}),
                json!({"name": "d", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": {"count": 9}}),
            ]
        };
        let with = |own: Value| vec![drivers()[0].clone(), own];
        assert_eq!(
            counted(drivers(), "d", 4),
            with(
                json!({"name": "d", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": {"count": 4}})
            )
        );
        let none = with(json!({"name": "d", "nodeID": "n", "topologyKeys": ["zone"]}));
        assert_eq!(counted(drivers(), "d", 0), none, "it says no more");
        assert_eq!(counted(drivers(), "d", -3), none, "no number of volumes");
        assert_eq!(
            counted(drivers(), "d", i64::MAX)[1]["allocatable"]["count"],
            i32::MAX,
            "the API counts in 32 bits"
        );
        assert_eq!(counted(drivers(), "gone", 4), drivers());
    }
}
