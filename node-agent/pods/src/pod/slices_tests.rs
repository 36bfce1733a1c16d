//! Slices over a systemd of the test's own, without a bus between. What this cannot show:
//! what systemd does with a property, and with the files of a group.

use std::os::unix::net::UnixStream;

use zbus::connection::Builder;
use zbus::object_server::SignalEmitter;
use zbus::{DBusError, OwnedVariant, interface};

use super::super::cgroup::{CgroupLayout, CgroupManager, Cgroups};
use super::*;
use crate::cri::fake::Fake;
use crate::testing::Run;

/// Systemd. `Clone` shares.
#[derive(Clone, Default)]
pub(crate) struct Systemd(Arc<Mutex<Facts>>);

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
    pub(crate) async fn slices(&self, patience: Duration) -> (SystemdSlices, Connection) {
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

    /// Takes what was asked of it since it was last looked at.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.facts().calls)
    }

    /// A property of a unit, whatever it is.
    pub(crate) fn property(&self, unit: &str, name: &str) -> Option<String> {
        let facts = self.facts();
        let value = facts.units.get(unit)?.get(name)?;
        Some(value.to_string())
    }

    fn end_jobs(&self, result: Option<&'static str>) {
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
pub(crate) const LONG: Duration = Duration::from_secs(90);

#[test]
fn limits_are_properties_of_either_version() {
    let limits = SliceLimits {
        shares: Some(1024),
        quota: Some(Some(50_000)),
        memory: Some(Some(4096)),
        tasks: Some(Some(0)),
        protected: Some(("memory.min", 7)),
    };
    let of = |limits: SliceLimits, version| -> Vec<(&str, u64)> {
        limits.properties(version).into_iter().collect()
    };
    assert_eq!(
        of(limits, CgroupVersion::Two),
        [
            ("CPUQuotaPerSecUSec", 500_000),
            ("CPUWeight", 39),
            ("MemoryMax", 4096),
            ("MemoryMin", 7),
            ("TasksMax", 1)
        ]
    );
    assert_eq!(
        of(limits, CgroupVersion::One),
        [
            ("CPUQuotaPerSecUSec", 500_000),
            ("CPUShares", 1024),
            ("MemoryLimit", 4096),
            ("TasksMax", 1)
        ]
    );
    let open = SliceLimits {
        quota: Some(None),
        memory: Some(None),
        tasks: Some(None),
        ..SliceLimits::default()
    };
    for version in [CgroupVersion::One, CgroupVersion::Two] {
        let all = open.properties(version);
        assert!(all.len() == 3 && all.values().all(|value| *value == u64::MAX));
        assert!(SliceLimits::default().properties(version).is_empty());
    }
    for (quota, expected) in [(1000, 1000), (1001, 2000), (150_100, 151_000), (0, 0)] {
        assert_eq!(whole_percents(quota), expected);
    }
}

#[tokio::test]
async fn a_slice_is_made_limited_and_removed() {
    let systemd = Systemd::default();
    let (slices, _other_end) = systemd.slices(LONG).await;
    let unit = "kubepods-podu.slice";
    slices
        .make((unit, "kubepods.slice"), CgroupVersion::Two)
        .await
        .unwrap();
    for (name, value) in [
        ("Wants", "[\"kubepods.slice\"]"),
        ("DefaultDependencies", "false"),
        ("CPUAccounting", "true"),
        ("MemoryAccounting", "true"),
        ("TasksAccounting", "true"),
        ("IOAccounting", "true"),
    ] {
        assert_eq!(
            systemd.property(unit, name).as_deref(),
            Some(value),
            "{name}"
        );
    }
    // it may be another's, or from before a restart
    slices
        .make((unit, "kubepods.slice"), CgroupVersion::Two)
        .await
        .unwrap();
    let set = |shares| {
        let limits = SliceLimits {
            shares: Some(shares),
            memory: Some(Some(4096)),
            ..SliceLimits::default()
        };
        slices.set(unit, limits.properties(CgroupVersion::Two))
    };
    for shares in [1024, 1024, 2] {
        set(shares).await.unwrap();
    }
    slices.remove(unit).await.unwrap();
    slices.remove(unit).await.unwrap();
    assert_eq!(
        systemd.calls(),
        [
            "start kubepods-podu.slice",
            "start kubepods-podu.slice",
            "set kubepods-podu.slice CPUWeight=39 MemoryMax=4096",
            "set kubepods-podu.slice CPUWeight=1",
            "stop kubepods-podu.slice",
            "stop kubepods-podu.slice"
        ]
    );
    // a slice that is made anew knows nothing
    slices
        .make((unit, "kubepods.slice"), CgroupVersion::One)
        .await
        .unwrap();
    assert!(systemd.property(unit, "BlockIOAccounting").is_some());
    let anew = "set kubepods-podu.slice CPUWeight=1 MemoryMax=4096";
    set(2).await.unwrap();
    assert_eq!(systemd.calls()[1], anew);
    systemd.facts().units.clear();
    slices
        .make((unit, "kubepods.slice"), CgroupVersion::One)
        .await
        .unwrap();
    set(2).await.unwrap();
    assert_eq!(systemd.calls()[1], anew);
}

#[tokio::test]
async fn what_systemd_does_not_do_is_said_with_its_unit() {
    let systemd = Systemd::default();
    let (slices, other_end) = systemd.slices(LONG).await;
    systemd.end_jobs(Some("failed"));
    let failed = slices
        .make(("a.slice", "-.slice"), CgroupVersion::Two)
        .await
        .unwrap_err();
    let text = failed.to_string();
    assert!(matches!(failed, Error::Job { .. }), "{text}");
    assert!(
        text.contains("`a.slice`") && text.contains("failed"),
        "{text}"
    );
    let failed = slices.remove("a.slice").await.unwrap_err();
    assert!(matches!(failed, Error::Job { .. }), "{failed}");
    assert_eq!(
        systemd.calls(),
        ["start a.slice", "stop a.slice", "reset a.slice"]
    );
    let weight = [("CPUWeight", 1)].into();
    let refused = slices.set("none.slice", weight).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");

    other_end.close().await.unwrap();
    let away = slices
        .make(("b.slice", "-.slice"), CgroupVersion::Two)
        .await
        .unwrap_err();
    let text = away.to_string();
    assert!(matches!(away, Error::Away { .. }), "{text}");
    assert!(text.contains("cgroupDriver"), "{text}");
}

#[tokio::test]
async fn a_systemd_that_hangs_holds_nobody() {
    let systemd = Systemd::default();
    systemd.end_jobs(None);
    let (slices, _other_end) = systemd.slices(Duration::from_millis(200)).await;
    let hung = slices
        .make(("a.slice", "-.slice"), CgroupVersion::Two)
        .await
        .unwrap_err();
    assert!(matches!(hung, Error::Hung { .. }), "{hung}");
}

#[tokio::test]
async fn a_pod_waits_for_its_slice_and_runs_in_it_until_its_end() {
    let mount = tempfile::tempdir().unwrap();
    std::fs::write(mount.path().join("cgroup.controllers"), "cpu memory").unwrap();
    let systemd = Systemd::default();
    systemd.end_jobs(Some("failed"));
    let (slices, _other_end) = systemd.slices(LONG).await;
    let layout = CgroupLayout::new(CgroupManager::Systemd, "/");
    let spec = serde_json::json!({"containers": [{"name": "a", "image": "i"}]});
    let run = Run::begin_with(spec, Fake::default(), |shared| {
        let found = Cgroups::find(mount.path(), layout.clone()).unwrap();
        shared.cgroups = Some(found.through(slices));
        shared.node.cgroups = layout;
    });
    run.until("told", |r| r.received("FailedCreatePodSandBox"))
        .await;
    assert!(run.received("kubepods-besteffort-podu.slice") && run.runtime.groups().is_empty());
    systemd.end_jobs(Some("done"));
    run.until("running", |r| r.phase() == "Running").await;
    assert_eq!(
        run.runtime.groups(),
        ["/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podu.slice"]
    );
    run.delete().await;
    let calls = systemd.calls();
    let stopped = calls
        .iter()
        .any(|c| c == "stop kubepods-besteffort-podu.slice");
    assert!(stopped, "{calls:?}");
}
