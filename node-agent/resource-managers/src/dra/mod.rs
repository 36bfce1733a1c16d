//! Devices by claims: the node's side of Dynamic Resource Allocation
//! (`resource.k8s.io/v1`, KEP-4381).
//!
//! ```text
//! <root>/plugins_registry/*.sock   drivers make themselves known (`DRAPlugin`)
//! <root>/dra_manager_state         which claims are prepared for whom
//!
//! pod ─▶ claims ─allocated, reserved?─▶ drivers ─NodePrepareResources─▶ CDI ids ─▶ containers
//! ```
//!
//! Claims are prepared before a pod's sandbox is made, and taken back after its
//! containers ended and before its end is told: whoever allocates may give the
//! devices to others from then on. A claim that several pods use is prepared for
//! the first and taken back after the last.

pub mod api;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod health;
mod metrics;
mod plan;
mod plugins;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use control_client::Client as Api;
use node_agent_files::{atomic_file, blocking};
use node_agent_objects::pod::{Container, Pod};
use node_agent_objects::source::ObjectReader;
use node_agent_objects::status::ResourceStatus;
use node_agent_plugins::KeyedMutex;
use tokio::sync::{OwnedMutexGuard, mpsc};
use tokio_util::sync::CancellationToken;

use crate::devices::api as monitors;
use crate::{CheckpointError, read_checkpoint};
use plan::DriverBatches;
use state::{ClaimKey, ClaimTable};

pub use plugins::{AWAY, DraPlugins};

/// Below the agent's folder.
const STATE: &str = "dra_manager_state";

const PREPARE: &str = "NodePrepareResources";
const UNPREPARE: &str = "NodeUnprepareResources";

/// Why a pod's claims cannot be prepared or unprepared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The claim is still to be made.
    #[error("pod \"{0}\": ResourceClaim not created yet")]
    NotCreated(String),
    /// A kind of claim that is not known.
    #[error("pod \"{pod}\", spec.resourceClaim \"{claim}\": none of the supported fields are set")]
    Unsupported {
        /// Namespace and name.
        pod: String,
        /// Its name in the pod.
        claim: String,
    },
    /// The API does not give it.
    #[error("fetch ResourceClaim {claim}: {why}")]
    Fetch {
        /// The claim.
        claim: String,
        /// A sentence.
        why: String,
    },
    /// It was made for another pod.
    #[error("ResourceClaim {claim} was not created for Pod {pod} (Pod is not owner)")]
    NotOwned {
        /// Namespace and name.
        claim: String,
        /// Namespace and name.
        pod: String,
    },
    /// Others may use it, this pod may not (yet).
    #[error("pod {pod} is not allowed to use ResourceClaim {claim}")]
    NotReserved {
        /// Name and uid.
        claim: String,
        /// Name and uid.
        pod: String,
    },
    /// Nobody chose devices for it (yet).
    #[error("ResourceClaim {0}: not allocated")]
    NotAllocated(String),
    /// A pod had another claim of that name and is not through.
    #[error(
        "old ResourceClaim with same name {claim} and different UID {uid} still exists (previous pod force-deleted?!)"
    )]
    Replaced {
        /// Its name.
        claim: String,
        /// The uid of the old one.
        uid: String,
    },
    /// A container is to be made of what was not prepared.
    #[error("ResourceClaim {0} is not prepared on this node")]
    NotPrepared(String),
    /// The driver is not there (yet).
    #[error("DRA driver {0} is not registered")]
    Driver(String),
    /// The driver cannot be asked.
    #[error("{method}: {0}", method = .0.method)]
    Call(node_agent_cri::RuntimeError),
    /// The driver refuses.
    #[error("{method} failed for ResourceClaim {claim}: {why}")]
    Refused {
        /// What it was asked.
        method: &'static str,
        /// The claim.
        claim: String,
        /// What it said.
        why: String,
    },
    /// The driver answered about something else.
    #[error("{method} returned result for unknown claim UID {uid}")]
    Stranger {
        /// What it was asked.
        method: &'static str,
        /// What it told of.
        uid: String,
    },
    /// The driver did not answer about all.
    #[error("{method} skipped {skipped} ResourceClaims")]
    Skipped {
        /// What it was asked.
        method: &'static str,
        /// How many claims.
        skipped: usize,
    },
    /// It cannot be noted who uses what.
    #[error("checkpoint ResourceClaim state `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Prepares and unprepares the resource claims of the node's pods.
pub struct ClaimManager {
    path: PathBuf,
    table: Arc<Mutex<ClaimTable>>,
    /// Taken while a claim is prepared or taken back.
    turns: KeyedMutex<ClaimKey>,
    /// Whether the file says what the table does; held while it is written.
    saved: Mutex<bool>,
    plugins: Arc<DraPlugins>,
}

impl ClaimManager {
    /// With what was prepared before, by the checkpoint in the agent's folder.
    /// `changed` gets the uids of pods whose devices are not as they were;
    /// slices of drivers that are `away` for so long are deleted.
    ///
    /// # Errors
    /// When there is a checkpoint that cannot be gone on with.
    pub fn new(
        api: Api,
        node: &str,
        root: &Path,
        changed: mpsc::UnboundedSender<String>,
        away: Duration,
        shutdown: CancellationToken,
    ) -> Result<Self, CheckpointError> {
        let path = root.join(STATE);
        let table = match read_checkpoint(&path)? {
            None => ClaimTable::default(),
            Some(text) => ClaimTable::load(&text).map_err(|error| CheckpointError {
                path: path.clone(),
                source: error.into(),
            })?,
        };
        let table = Arc::new(Mutex::new(table));
        let plugins = DraPlugins::new(api, node, table.clone(), changed, away, shutdown);
        Ok(Self {
            path,
            table,
            turns: KeyedMutex::default(),
            saved: Mutex::new(true),
            plugins: Arc::new(plugins),
        })
    }

    /// The drivers.
    #[must_use]
    pub fn plugins(&self) -> Arc<DraPlugins> {
        self.plugins.clone()
    }

    fn table(&self) -> MutexGuard<'_, ClaimTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn save(&self) -> Result<(), Error> {
        let mut saved = blocking::lock(&self.saved);
        *saved = false;
        let text = self.table().save();
        atomic_file::write(&self.path, &text).map_err(|source| Error::Write {
            path: self.path.clone(),
            source,
        })?;
        *saved = true;
        Ok(())
    }

    /// Waits until nobody else is about these claims.
    async fn turns(&self, keys: &BTreeSet<ClaimKey>) -> Vec<OwnedMutexGuard<()>> {
        let mut turns = Vec::with_capacity(keys.len());
        for key in keys {
            turns.push(self.turns.take(key.clone()).await);
        }
        turns
    }

    /// Has drivers prepare the claims that a pod uses; does nothing for those
    /// that are prepared.
    ///
    /// # Errors
    /// When it cannot have one of them now; ask again later.
    pub async fn prepare(&self, pod: &Pod, objects: &dyn ObjectReader) -> Result<(), Error> {
        let used = plan::claims(pod)?;
        if used.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        let done = self.prepare_used(pod, &used, objects).await;
        let metrics = self.plugins.metrics();
        metrics.operation("PrepareResources", done.is_err(), begun.elapsed());
        done
    }

    async fn prepare_used(
        &self,
        pod: &Pod,
        used: &[plan::UsedClaim<'_>],
        objects: &dyn ObjectReader,
    ) -> Result<(), Error> {
        let key = |claim: &str| (pod.namespace().to_owned(), claim.to_owned());
        let keys: BTreeSet<ClaimKey> = used.iter().map(|used| key(used.claim)).collect();
        let _turns = self.turns(&keys).await;
        // all of it is looked at first: a pod that cannot have all of its claims
        // has none, and nobody needs to be there for it to go
        let mut usable = Vec::with_capacity(used.len());
        for one in used {
            let claim = objects.resource_claim(pod.namespace(), one.claim).await;
            let claim = claim.map_err(|error| Error::Fetch {
                claim: one.claim.to_owned(),
                why: error.to_string(),
            })?;
            let may = plan::usable(pod, one, &claim)?;
            for driver in &may.drivers {
                self.plugins.find(driver)?;
            }
            usable.push((key(one.claim), may));
        }
        let mut batches = DriverBatches::default();
        let mut unprepared = Vec::new();
        for (key, may) in &usable {
            let entered = self.table().enter(pod.uid(), key, may);
            let is_new = entered.map_err(|other| Error::Replaced {
                claim: key.1.clone(),
                uid: other.uid,
            })?;
            if is_new {
                batches.add(key, &may.uid, may.drivers.iter());
                unprepared.push(key);
            }
        }
        // before drivers are asked, so that nothing is prepared that nobody
        // knows of
        self.save()?;
        for (driver, asked) in batches.iter() {
            let claims = asked.iter().map(|(_, claim)| claim.clone()).collect();
            let told = self.plugins.prepare(driver, claims).await?;
            let answers = plan::answers(PREPARE, asked, told.claims, |a| &a.error)?;
            for (key, answer) in answers {
                self.table().set(&key, driver, answer.devices);
            }
        }
        for key in &unprepared {
            self.table().prepared(key);
        }
        if unprepared.is_empty() {
            return Ok(());
        }
        self.save()
    }

    /// Has drivers take back what a pod used that nothing runs of any more, as
    /// far as no other pod uses it.
    ///
    /// # Errors
    /// When a driver is not there or refuses; call it again later.
    pub async fn unprepare(&self, pod: &str) -> Result<(), Error> {
        let keys: BTreeSet<ClaimKey> = self.table().claims_of_pod(pod).into_iter().collect();
        if keys.is_empty() {
            // what could not be written last time may be written now
            let saved = *blocking::lock(&self.saved);
            return if saved { Ok(()) } else { self.save() };
        }
        let begun = Instant::now();
        let done = self.unprepare_all(pod, keys).await;
        let metrics = self.plugins.metrics();
        metrics.operation("UnprepareResources", done.is_err(), begun.elapsed());
        done
    }

    async fn unprepare_all(&self, pod: &str, keys: BTreeSet<ClaimKey>) -> Result<(), Error> {
        let _turns = self.turns(&keys).await;
        let mut batches = DriverBatches::default();
        let mut last = Vec::new();
        for key in &keys {
            let left = self.table().leave(pod, key);
            if let Some(held) = left {
                batches.add(key, &held.uid, held.drivers.keys());
                last.push(key);
            }
        }
        for (driver, asked) in batches.iter() {
            let claims = asked.iter().map(|(_, claim)| claim.clone()).collect();
            let told = self.plugins.unprepare(driver, claims).await?;
            plan::answers(UNPREPARE, asked, told.claims, |a| &a.error)?;
        }
        for key in last {
            self.table().remove(key);
        }
        self.save()
    }

    /// What `/metrics` says of claims and drivers.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.plugins.metrics().text(&self.table())
    }

    /// Whether the pod uses a claim: then it is not over.
    #[must_use]
    pub fn holds(&self, pod: &str) -> bool {
        !self.table().claims_of_pod(pod).is_empty()
    }

    /// The uids of all pods that use claims.
    #[must_use]
    pub fn pods(&self) -> BTreeSet<String> {
        let table = self.table();
        table.iter().flat_map(|(_, h)| h.pods.clone()).collect()
    }

    /// What the runtime knows the devices by that a container gets.
    ///
    /// # Errors
    /// When a claim was not prepared.
    pub fn cdi_devices(&self, pod: &Pod, container: &Container) -> Result<Vec<String>, Error> {
        plan::cdi_devices(&self.table(), pod, container)
    }

    /// By container: how the devices are that it has by claims.
    #[must_use]
    pub fn health(&self, pod: &Pod) -> BTreeMap<String, Vec<ResourceStatus>> {
        if pod.spec.resource_claims.is_empty() {
            return BTreeMap::new();
        }
        let of = |driver: &str, pool: &str, device: &str| self.plugins.health(driver, pool, device);
        plan::health(&self.table(), pod, of)
    }

    /// What monitors are told of a container's claims.
    #[must_use]
    pub fn pod_resources(
        &self,
        pod: &Pod,
        container: &Container,
    ) -> Vec<monitors::DynamicResource> {
        plan::pod_resources(&self.table(), pod, container)
    }
}

#[cfg(test)]
mod tests;
