//! The border to systemd where it makes the control groups: slices as transient units,
//! over D-Bus (`org.freedesktop.systemd1`, systemd.slice(5), systemd.resource-control(5)).
//!
//! Limits are told as properties, so that systemd does not take back at its next
//! `daemon-reload` what the agent writes into the same files.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use rustc_hash::FxHashMap;
use serde::Serialize;
use tokio::time::timeout;
use zbus::{
    Connection, DynamicType, MatchRule, MessageStream, OwnedObjectPath, Variant, fdo, message,
};

use crate::{CgroupVersion, weight};

/// How long systemd may take, as for the kubelet.
const PATIENCE: Duration = Duration::from_secs(30);

const SYSTEMD: &str = "org.freedesktop.systemd1";
pub(crate) const PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";

/// How a job ends that did what it was to do.
const DONE: &str = "done";

/// What is not limited.
const INFINITY: u64 = u64::MAX;

/// Why a request to systemd failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not there.
    #[error(
        "systemd cannot be reached over D-Bus; it is to make the control groups, as the container runtime or `cgroupDriver` says: is it the first process of this machine, and is there a system bus (`systemctl status dbus`)? Else have both say `cgroupfs`"
    )]
    Away {
        /// What the bus said.
        source: zbus::Error,
    },
    /// It does not answer.
    #[error("systemd does not {what} `{unit}` within {limit:?}; see `systemctl list-jobs`")]
    Hung {
        /// What was asked for.
        what: &'static str,
        /// Of which unit.
        unit: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// It refuses.
    #[error("systemd does not {what} `{unit}`; see `systemctl status {unit}`")]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// Of which unit.
        unit: String,
        /// What it said.
        source: zbus::Error,
    },
    /// It tried in vain.
    #[error("systemd does not {what} `{unit}`: the job is `{result}`; see `journalctl -u {unit}`")]
    Job {
        /// What was asked for.
        what: &'static str,
        /// Of which unit.
        unit: String,
        /// How the job ended.
        result: String,
    },
}

/// Limits of a control group that systemd manages; `None` leaves a limit unchanged, an inner
/// `None` removes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SliceLimits {
    /// Relative weight, as version 1 counts it.
    pub shares: Option<i64>,
    /// Microseconds of each 100 ms.
    pub quota: Option<Option<i64>>,
    /// Bytes.
    pub memory: Option<Option<i64>>,
    /// Processes and threads.
    pub tasks: Option<Option<u64>>,
    /// A file of version 2, and bytes that the kernel does not reclaim or throttles at.
    pub protected: Option<(&'static str, i64)>,
}

impl SliceLimits {
    /// As properties of the unit. The period of the quota is not among them: it is what
    /// systemd takes by default. Pure.
    #[must_use]
    pub fn properties(self, version: CgroupVersion) -> BTreeMap<&'static str, u64> {
        let one = version == CgroupVersion::One;
        let unsigned = |n: i64| u64::try_from(n).unwrap_or(0);
        let mut all = BTreeMap::new();
        if let Some(shares) = self.shares {
            if one {
                all.insert("CPUShares", unsigned(shares));
            } else {
                all.insert("CPUWeight", unsigned(weight(shares)));
            }
        }
        if let Some(quota) = self.quota {
            let a_second = quota.map_or(INFINITY, |us| unsigned(us).saturating_mul(10));
            all.insert("CPUQuotaPerSecUSec", a_second);
        }
        if let Some(memory) = self.memory {
            let name = if one { "MemoryLimit" } else { "MemoryMax" };
            all.insert(name, memory.map_or(INFINITY, unsigned));
        }
        if let Some(tasks) = self.tasks {
            // 0 is refused
            all.insert("TasksMax", tasks.map_or(INFINITY, |most| most.max(1)));
        }
        if let Some((file, bytes)) = self.protected.filter(|_| !one) {
            let name = match file {
                "memory.min" => Some("MemoryMin"),
                "memory.low" => Some("MemoryLow"),
                "memory.high" => Some("MemoryHigh"),
                _ => None,
            };
            all.extend(name.map(|name| (name, unsigned(bytes))));
        }
        all
    }
}

/// A quota that systemd, which counts whole percents of a CPU, does not write otherwise.
/// Pure.
#[must_use]
pub fn whole_percents(quota: i64) -> i64 {
    const PERCENT: i64 = node_agent_pod_resources::qos::CPU_PERIOD / 100;
    let more = quota.rem_euclid(PERCENT);
    if more == 0 {
        quota
    } else {
        quota.saturating_add(PERCENT - more)
    }
}

/// Creates and changes slices through systemd, over one connection that is opened on first use
/// and reopened when lost.
#[derive(Clone, Debug)]
pub struct SystemdSlices(Arc<SliceConnection>);

#[derive(Debug)]
struct SliceConnection {
    patience: Duration,
    /// Whether the connection is made here.
    connects: bool,
    bus: tokio::sync::Mutex<Option<Connection>>,
    /// By unit: what systemd knows already, which is not told again.
    told: Mutex<FxHashMap<String, BTreeMap<&'static str, u64>>>,
}

impl Default for SystemdSlices {
    fn default() -> Self {
        Self::with(None, PATIENCE)
    }
}

impl SystemdSlices {
    /// Over a bus, or the machine's own.
    pub(crate) fn with(bus: Option<Connection>, patience: Duration) -> Self {
        Self(Arc::new(SliceConnection {
            patience,
            connects: bus.is_none(),
            bus: tokio::sync::Mutex::new(bus),
            told: Mutex::default(),
        }))
    }

    /// Makes a slice in its parent; one that there is is left as it is.
    ///
    /// # Errors
    /// When systemd does not.
    pub async fn make(
        &self,
        (unit, parent): (&str, &str),
        version: CgroupVersion,
    ) -> Result<(), Error> {
        let disks = match version {
            CgroupVersion::One => "BlockIOAccounting",
            CgroupVersion::Two => "IOAccounting",
        };
        let mut properties = vec![
            ("Description", Variant::from("Kubernetes pods")),
            // a slice is where its name says
            ("Wants", Variant::from(vec![parent])),
            // neither does the machine's start wait for it nor its end
            ("DefaultDependencies", Variant::from(false)),
        ];
        for counted in [
            "CPUAccounting",
            "MemoryAccounting",
            "TasksAccounting",
            disks,
        ] {
            properties.push((counted, Variant::from(true)));
        }
        let others: [(&str, Vec<(&str, Variant<'_>)>); 0] = [];
        let body = (unit, "replace", properties, &others[..]);
        let made = self.job("make", unit, "StartTransientUnit", &body).await;
        if made.is_ok() {
            // whatever became of one of that name before
            self.told().remove(unit);
        }
        match made {
            Err(Error::Refused { source, .. }) if is(&source, "UnitExists") => Ok(()),
            other => other,
        }
    }

    /// Sets a slice's properties, those of which systemd does not know yet, until the
    /// machine is started again.
    ///
    /// # Errors
    /// When systemd does not.
    pub async fn set(
        &self,
        unit: &str,
        mut properties: BTreeMap<&'static str, u64>,
    ) -> Result<(), Error> {
        if let Some(known) = self.told().get(unit) {
            properties.retain(|name, value| known.get(name) != Some(value));
        }
        if properties.is_empty() {
            return Ok(());
        }
        let list: Vec<(&str, Variant<'_>)> = properties
            .iter()
            .map(|(name, value)| (*name, Variant::from(*value)))
            .collect();
        let body = (unit, true, list);
        self.ask("limit", unit, "SetUnitProperties", &body, false)
            .await?;
        let mut told = self.told();
        told.entry(unit.to_owned()).or_default().extend(properties);
        Ok(())
    }

    /// Removes a slice, and ends what is in it; one that is not there is no error.
    ///
    /// # Errors
    /// When systemd does not.
    pub async fn remove(&self, unit: &str) -> Result<(), Error> {
        self.told().remove(unit);
        match self.job("stop", unit, "StopUnit", &(unit, "replace")).await {
            Err(Error::Refused { source, .. }) if is(&source, "NoSuchUnit") => Ok(()),
            Err(Error::Job { what, unit, result }) => {
                // what failed is kept by systemd until somebody has seen it
                self.ask(what, &unit, "ResetFailedUnit", &(&unit,), false)
                    .await?;
                Err(Error::Job { what, unit, result })
            }
            other => other,
        }
    }

    fn told(&self) -> std::sync::MutexGuard<'_, FxHashMap<String, BTreeMap<&'static str, u64>>> {
        self.0.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has systemd do something to a unit, and waits until it is done.
    async fn job<B: Serialize + DynamicType>(
        &self,
        what: &'static str,
        unit: &str,
        method: &str,
        body: &B,
    ) -> Result<(), Error> {
        let result = self.ask(what, unit, method, body, true).await?;
        if result == DONE {
            return Ok(());
        }
        Err(Error::Job {
            what,
            unit: unit.to_owned(),
            result,
        })
    }

    /// Calls a method, once more when the connection was lost meanwhile; with `waits` until
    /// its job has ended, and how.
    async fn ask<B: Serialize + DynamicType>(
        &self,
        what: &'static str,
        unit: &str,
        method: &str,
        body: &B,
        waits: bool,
    ) -> Result<String, Error> {
        let limit = self.0.patience;
        let hung = || Error::Hung {
            what,
            unit: unit.to_owned(),
            limit,
        };
        let mut again = true;
        loop {
            let bus = timeout(limit, self.bus()).await.map_err(|_| hung())??;
            let asked = timeout(limit, call(&bus, unit, method, body, waits)).await;
            match asked.map_err(|_| hung())? {
                Ok(result) => return Ok(result),
                Err(source @ zbus::Error::InputOutput(_)) => {
                    self.forget(&bus).await;
                    if !std::mem::take(&mut again) {
                        return Err(Error::Away { source });
                    }
                }
                Err(zbus::Error::FDO(source))
                    if matches!(
                        *source,
                        fdo::Error::ServiceUnknown(_) | fdo::Error::NameHasNoOwner(_)
                    ) =>
                {
                    return Err(Error::Away {
                        source: zbus::Error::FDO(source),
                    });
                }
                Err(source) => {
                    return Err(Error::Refused {
                        what,
                        unit: unit.to_owned(),
                        source,
                    });
                }
            }
        }
    }

    async fn bus(&self) -> Result<Connection, Error> {
        let mut held = self.0.bus.lock().await;
        if let Some(bus) = &*held {
            return Ok(bus.clone());
        }
        if !self.0.connects {
            let source = zbus::Error::InputOutput(Arc::new(io::ErrorKind::NotConnected.into()));
            return Err(Error::Away { source });
        }
        // not by systemd's own socket: it calls itself there by a name that zbus takes for none
        let bus = Connection::system().await;
        let bus = bus.map_err(|source| Error::Away { source })?;
        Ok(held.insert(bus).clone())
    }

    /// Of a connection that is lost: another systemd may know less.
    async fn forget(&self, lost: &Connection) {
        let mut held = self.0.bus.lock().await;
        // another may have connected again meanwhile
        if held
            .as_ref()
            .is_some_and(|bus| bus.unique_name() == lost.unique_name())
        {
            *held = None;
        }
        self.told().clear();
    }
}

async fn call<B: Serialize + DynamicType>(
    bus: &Connection,
    unit: &str,
    method: &str,
    body: &B,
    waits: bool,
) -> zbus::Result<String> {
    // listened to before it can have ended
    let mut ends = if waits {
        let rule = MatchRule::builder()
            .msg_type(message::Type::Signal)
            .path(PATH)
            .interface(MANAGER)
            .member("JobRemoved")
            .arg(2, unit)
            .build()?;
        Some(MessageStream::for_match_rule(rule, bus, None).await?)
    } else {
        None
    };
    let answer = bus
        .call_method(Some(SYSTEMD), PATH, Some(MANAGER), method, body)
        .await?;
    let Some(ends) = &mut ends else {
        return Ok(DONE.to_owned());
    };
    let job: OwnedObjectPath = answer.body().deserialize()?;
    while let Some(signal) = ends.next().await {
        let signal = signal?;
        let (_, ended, _, result): (u32, OwnedObjectPath, String, String) =
            signal.body().deserialize()?;
        if ended == job {
            return Ok(result);
        }
    }
    Err(zbus::Error::InputOutput(Arc::new(
        io::ErrorKind::BrokenPipe.into(),
    )))
}

/// Whether it is this error of systemd's.
fn is(error: &zbus::Error, name: &str) -> bool {
    matches!(error, zbus::Error::MethodError(own, ..)
        if own.as_str().strip_prefix(SYSTEMD).and_then(|n| n.strip_prefix('.')) == Some(name))
}

#[cfg(test)]
#[path = "slices_tests.rs"]
pub(crate) mod tests;
