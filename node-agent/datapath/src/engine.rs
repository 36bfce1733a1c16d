//! The plan and the datapath, joined.

use std::sync::Arc;

use ebpf_abi::Config as Node;
use node_agent_plan::{
    Action, Config, NodeFacts, Override, Planner, Pod, RemovedBackends, ServiceState, SliceState,
};

use crate::capacity::Capacity;
use crate::datapath::{Datapath, Options};
use crate::devices::attach::AttachSummary;
use crate::devices::{Device, Patterns};
use crate::error::Error;
use crate::snapshot::Snapshot;

/// The result of applying an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// So many entries of maps were written or removed.
    Written(usize),
    /// It is noted; [`Engine::resync`] is due.
    Deferred,
}

/// Keeps the maps equal to what Services and EndpointSlices say.
///
/// ```no_run
/// # use node_agent_datapath::{Error, Options};
/// # fn run(options: Options, config: node_agent_plan::Config) -> Result<(), Error> {
/// let mut engine = node_agent_datapath::Engine::open(&options, config)?;
/// // Feed all Services and EndpointSlices that a list returned …
/// engine.resync()?;
/// // … then each change. After an error, and while events are deferred:
/// if engine.needs_resync() {
///     engine.resync()?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Engine {
    planner: Planner,
    datapath: Datapath,
    options: Options,
    /// How large the maps may become.
    most: Capacity,
    /// The maps are known to hold what the plan says.
    sound: bool,
}

// === impl Engine ===

impl Engine {
    /// Brings the programs into force; see [`Datapath::open`]. Services that
    /// the maps hold already work from now on, as they were.
    ///
    /// # Errors
    ///
    /// Those of [`Datapath::open`].
    pub fn open(options: &Options, config: Config) -> Result<Self, Error> {
        let datapath = Datapath::open(options)?;
        let mut planner = Planner::new(config);
        planner.set_room(datapath.room());
        Ok(Self {
            planner,
            datapath,
            options: options.clone(),
            most: Capacity::of_machine(),
            sound: false,
        })
    }

    /// A Service appeared, changed or (`None`) went.
    ///
    /// # Errors
    ///
    /// When a map could not be written; from then on events are deferred until
    /// a [`resync`](Self::resync) succeeds.
    pub fn on_service_change(
        &mut self,
        namespace: &str,
        name: &str,
        service: Option<impl Into<Arc<ServiceState>>>,
    ) -> Result<ApplyOutcome, Error> {
        let actions = self.planner.service_changed(namespace, name, service);
        self.apply(&actions)
    }

    /// An EndpointSlice appeared, changed or (`None`) went.
    ///
    /// # Errors
    ///
    /// As [`on_service_change`](Self::on_service_change).
    pub fn on_slice_change(
        &mut self,
        namespace: &str,
        name: &str,
        slice: Option<impl Into<Arc<SliceState>>>,
    ) -> Result<ApplyOutcome, Error> {
        let actions = self.planner.slice_changed(namespace, name, slice);
        self.apply(&actions)
    }

    /// A Pod of this node appeared, changed or (`None`) went: its host ports.
    ///
    /// # Errors
    ///
    /// As [`on_service_change`](Self::on_service_change).
    pub fn on_pod_change(
        &mut self,
        namespace: &str,
        name: &str,
        pod: Option<&Pod>,
    ) -> Result<ApplyOutcome, Error> {
        let actions = self.planner.pod_changed(namespace, name, pod);
        self.apply(&actions)
    }

    /// The node is another than before: addresses, zone, ranges of pods, where
    /// it listens.
    ///
    /// # Errors
    ///
    /// As [`on_service_change`](Self::on_service_change).
    pub fn set_node(&mut self, facts: NodeFacts) -> Result<ApplyOutcome, Error> {
        let actions = self.planner.set_node(facts);
        self.apply(&actions)
    }

    /// UDP backends that went since this was asked last; to be asked after
    /// every change that was written.
    pub fn take_gone(&mut self) -> Vec<RemovedBackends> {
        self.planner.take_gone()
    }

    /// The plan: problems of objects, health checks, how full the maps are.
    #[must_use]
    pub const fn planner(&self) -> &Planner {
        &self.planner
    }

    /// This node answers other addresses itself than before.
    ///
    /// # Errors
    ///
    /// As [`on_service_change`](Self::on_service_change).
    pub fn set_overrides(&mut self, overrides: Vec<Override>) -> Result<ApplyOutcome, Error> {
        let actions = self.planner.set_overrides(overrides);
        self.apply(&actions)
    }

    /// Compares the whole plan with the maps and writes what differs: once
    /// after all objects were listed, and after every error. Returns how many
    /// entries were written or removed.
    ///
    /// # Errors
    ///
    /// When a map could not be read or written; to be called again, later.
    pub fn resync(&mut self) -> Result<usize, Error> {
        let mut written = self.compare()?;
        while self.grow()? {
            written += self.compare()?;
        }
        Ok(written)
    }

    fn compare(&mut self) -> Result<usize, Error> {
        let current = self.datapath.dump_and_sweep()?;
        let actions = self.planner.resync(&current);
        self.sound = false;
        self.datapath.apply(&actions)?;
        self.sound = true;
        Ok(actions.len())
    }

    /// How large maps may become by themselves when they are nearly full; what
    /// the machine's memory allows if this is not said.
    pub const fn allow(&mut self, most: Capacity) {
        self.most = most;
    }

    /// Makes maps larger that are nearly full, if they may be.
    fn grow(&mut self) -> Result<bool, Error> {
        let fullness = self.planner.fullness();
        let full: Vec<_> = fullness
            .iter()
            .filter(|it| it.is_near())
            .map(|it| it.map)
            .collect();
        if full.is_empty() {
            return Ok(false);
        }
        let room = self.datapath.room();
        let size = |entries: usize| u32::try_from(entries).unwrap_or(u32::MAX);
        let capacity = Capacity {
            services: size(room.services),
            slots: size(room.slots),
            members: size(room.members),
            chunks: size(room.chunks),
            sources: size(room.sources),
            ..self.options.capacity
        };
        let Some(capacity) = capacity.grown(&full, &self.most) else {
            return Ok(false);
        };
        self.enlarge(capacity)?;
        Ok(true)
    }

    /// Gives a map of policy that is full twice the room; false if it may not
    /// become larger. Whoever writes policy waits meanwhile, and opens the maps
    /// anew: [`Policy::open`](crate::Policy::open).
    ///
    /// # Errors
    ///
    /// Those of [`Datapath::grow`]; then all maps are to be written anew.
    pub fn grow_policy(&mut self, full: &str) -> Result<bool, Error> {
        let now = self.datapath.policy_capacity(&self.options.capacity)?;
        let Some(capacity) = now.grown(&[full], &self.most) else {
            return Ok(false);
        };
        self.enlarge(capacity)?;
        Ok(true)
    }

    fn enlarge(&mut self, capacity: Capacity) -> Result<(), Error> {
        self.options.capacity = capacity;
        // Half of the hooks may use the new maps if this fails: all is written
        // again, then.
        let sound = std::mem::replace(&mut self.sound, false);
        self.datapath.grow(&self.options)?;
        self.sound = sound;
        self.planner.set_room(self.datapath.room());
        Ok(())
    }

    /// Is a [`resync`](Self::resync) due?
    #[must_use]
    pub const fn needs_resync(&self) -> bool {
        !self.sound
    }

    /// What the maps hold; its `Display` says it in words.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn dump(&self) -> Result<Snapshot, Error> {
        self.datapath.snapshot()
    }

    /// As [`Datapath::configure`].
    ///
    /// # Errors
    ///
    /// Those of [`Datapath::configure`].
    pub fn configure(&mut self, config: &Node) -> Result<(), Error> {
        self.datapath.configure(config)
    }

    /// As [`Datapath::follow_devices`].
    ///
    /// # Errors
    ///
    /// Those of [`Datapath::follow_devices`].
    pub fn follow_devices(
        &mut self,
        devices: &[Device],
        patterns: &Patterns,
    ) -> Result<AttachSummary, Error> {
        self.datapath.follow_devices(devices, patterns)
    }

    /// The datapath alone.
    #[must_use]
    pub const fn datapath(&self) -> &Datapath {
        &self.datapath
    }

    fn apply(&mut self, actions: &[Action]) -> Result<ApplyOutcome, Error> {
        if !self.sound {
            return Ok(ApplyOutcome::Deferred);
        }
        self.datapath
            .apply(actions)
            .inspect_err(|_| self.sound = false)?;
        let mut written = actions.len();
        while self.grow()? {
            written += self.compare()?;
        }
        Ok(ApplyOutcome::Written(written))
    }
}
