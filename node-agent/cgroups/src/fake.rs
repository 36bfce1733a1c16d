//! A systemd for tests, without a bus between.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zbus::connection::Builder;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, DBusError, OwnedObjectPath, OwnedVariant, interface};

use crate::slices::{PATH, SystemdSlices};

/// Systemd. Clones share it.
#[derive(Clone, Default)]
pub struct Systemd(Arc<Mutex<Facts>>);

struct Facts {
    units: BTreeMap<String, BTreeMap<String, OwnedVariant>>,
    /// What was asked of it, in order.
    calls: Vec<String>,
    jobs: u32,
    /// How jobs end; none never do.
    result: Option<&'static str>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            units: BTreeMap::new(),
            calls: Vec::new(),
            jobs: 0,
            result: Some("done"),
        }
    }
}

#[derive(Debug, DBusError)]
#[zbus(prefix = "org.freedesktop.systemd1")]
enum Refusal {
    #[zbus(error)]
    Bus(zbus::Error),
    UnitExists(String),
    NoSuchUnit(String),
}

type Properties = Vec<(String, OwnedVariant)>;

impl Systemd {
    fn facts(&self) -> std::sync::MutexGuard<'_, Facts> {
        self.0.lock().unwrap()
    }

    /// Slices as the agent has them, to this systemd; the other end is to be kept.
    pub async fn slices(&self, patience: Duration) -> (SystemdSlices, Connection) {
        let (theirs, ours) = UnixStream::pair().unwrap();
        let server = Builder::unix_stream(theirs)
            .server(zbus::Guid::generate())
            .p2p()
            .serve_at(PATH, self.clone())
            .build();
        let client = Builder::unix_stream(ours).p2p().build();
        let (server, client) = tokio::try_join!(server, client).unwrap();
        (SystemdSlices::with(Some(client), patience), server)
    }

    /// Forgets all units.
    pub fn forget_units(&self) {
        self.facts().units.clear();
    }

    /// Takes what was asked of it since it was last looked at.
    pub fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.facts().calls)
    }

    /// A property of a unit, whatever it is.
    pub fn property(&self, unit: &str, name: &str) -> Option<String> {
        let facts = self.facts();
        let value = facts.units.get(unit)?.get(name)?;
        Some(value.to_string())
    }

    /// How jobs end from now on; with none they never do.
    pub fn end_jobs(&self, result: Option<&'static str>) {
        self.facts().result = result;
    }

    async fn end(
        &self,
        emitter: &SignalEmitter<'_>,
        unit: &str,
    ) -> Result<OwnedObjectPath, Refusal> {
        let (job, result) = {
            let mut facts = self.facts();
            facts.jobs += 1;
            (facts.jobs, facts.result)
        };
        let path = |n: u32| OwnedObjectPath::try_from(format!("{PATH}/job/{n}"));
        if let Some(result) = result {
            // another one's of the same unit, which says nothing
            Self::job_removed(emitter, 0, path(0)?, unit, "canceled").await?;
            Self::job_removed(emitter, job, path(job)?, unit, result).await?;
        }
        Ok(path(job)?)
    }
}

#[interface(name = "org.freedesktop.systemd1.Manager")]
impl Systemd {
    async fn start_transient_unit(
        &self,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
        name: String,
        mode: String,
        properties: Properties,
        others: Vec<(String, Properties)>,
    ) -> Result<OwnedObjectPath, Refusal> {
        assert_eq!((mode.as_str(), others.len()), ("replace", 0));
        {
            let mut facts = self.facts();
            facts.calls.push(format!("start {name}"));
            if facts.units.contains_key(&name) {
                return Err(Refusal::UnitExists(format!("Unit {name} already exists.")));
            }
            facts
                .units
                .insert(name.clone(), properties.into_iter().collect());
        }
        self.end(&emitter, &name).await
    }

    async fn stop_unit(
        &self,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
        name: String,
        mode: String,
    ) -> Result<OwnedObjectPath, Refusal> {
        assert_eq!(mode, "replace");
        {
            let mut facts = self.facts();
            facts.calls.push(format!("stop {name}"));
            if facts.units.remove(&name).is_none() {
                return Err(Refusal::NoSuchUnit(format!("Unit {name} not loaded.")));
            }
        }
        self.end(&emitter, &name).await
    }

    fn reset_failed_unit(&self, name: String) {
        self.facts().calls.push(format!("reset {name}"));
    }

    fn set_unit_properties(
        &self,
        name: String,
        runtime: bool,
        properties: Properties,
    ) -> Result<(), Refusal> {
        assert!(runtime, "gone after the next start of the machine");
        let mut facts = self.facts();
        let mut call = format!("set {name}");
        for (name, value) in &properties {
            call.push_str(&format!(" {name}={}", u64::try_from(value).unwrap()));
        }
        facts.calls.push(call);
        let Some(unit) = facts.units.get_mut(&name) else {
            return Err(Refusal::NoSuchUnit(format!("Unit {name} not loaded.")));
        };
        unit.extend(properties);
        Ok(())
    }

    #[zbus(signal)]
    async fn job_removed(
        emitter: &SignalEmitter<'_>,
        id: u32,
        job: OwnedObjectPath,
        unit: &str,
        result: &str,
    ) -> zbus::Result<()>;
}

/// Long enough for any machine.
pub const LONG: Duration = Duration::from_secs(90);
