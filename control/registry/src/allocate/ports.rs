//! Node ports, given out by the store: it holds which ones are taken, so that each
//! is given once, whichever server asks. Key and layout are kube-apiserver's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use control_kinds::service;
use control_store::{KeyValue, Outcome, Precondition, Revision, Write};
use control_types::status::Status;

use super::port_map::PortMap;
use crate::storage::{Storage, precondition};
use crate::store_error::store_error;

/// Where the store has it.
const KEY: &[u8] = b"/registry/ranges/servicenodeports";
/// How often a change is tried anew because another server was faster.
const ATTEMPTS: usize = 30;

/// The map as of a revision; 0: as nobody has it yet.
#[derive(Debug, Clone)]
struct VersionedPortMap {
    map: Arc<PortMap>,
    revision: Revision,
}

/// The ports of the cluster.
#[derive(Debug)]
pub struct Ports {
    range: (u16, u16),
    /// As it was last read or written here; another server may have changed it.
    known: Mutex<VersionedPortMap>,
    /// Changes of this server one after another, instead of against each other.
    turn: tokio::sync::Mutex<()>,
    /// In how many rounds more ports that no Service has are left alone.
    pub leaks: Mutex<HashMap<u16, u8>>,
}

impl Ports {
    pub fn new(range: (u16, u16)) -> Self {
        Self {
            range,
            known: Mutex::new(VersionedPortMap {
                map: Arc::new(PortMap::new(range)),
                revision: 0,
            }),
            turn: tokio::sync::Mutex::default(),
            leaks: Mutex::default(),
        }
    }

    /// The first and the last port.
    pub fn range(&self) -> (u16, u16) {
        self.range
    }

    /// What is known here, which may be old.
    pub fn known(&self) -> Arc<PortMap> {
        Arc::clone(&self.lock().map)
    }

    /// Reads what the store has.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn refresh(&self, storage: &Storage) -> Result<(), Status> {
        let (map, revision) = self.read(storage).await?;
        if let Some(map) = map
            && map.range() == self.range
        {
            self.learn(Arc::new(map), revision);
        }
        Ok(())
    }

    /// What the store has, if anything, and as of which revision.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn read(&self, storage: &Storage) -> Result<(Option<PortMap>, Revision), Status> {
        let stored = storage.store().get(Bytes::from_static(KEY), None).await;
        match stored.map_err(|error| store_error(&error))? {
            Some(stored) => Ok((Some(decode(&stored)?), stored.mod_revision)),
            None => Ok((None, 0)),
        }
    }

    /// Takes ports, all or none. `false`: one of them is taken already.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn take(&self, storage: &Storage, ports: &[u16]) -> Result<bool, Status> {
        self.change(storage, |map| {
            let free = ports.iter().all(|port| !map.has(*port));
            ports.iter().for_each(|port| map.set(*port, true));
            free
        })
        .await
    }

    /// Frees ports.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn give_back(&self, storage: &Storage, ports: &[u16]) -> Result<(), Status> {
        if ports.is_empty() {
            return Ok(());
        }
        let freed = self.change(storage, |map| {
            ports.iter().for_each(|port| map.set(*port, false));
            true
        });
        freed.await.map(drop)
    }

    /// Puts a map in the place of the one that the store had at `revision`.
    /// `false`: it has another now.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn replace(
        &self,
        storage: &Storage,
        map: PortMap,
        revision: Revision,
    ) -> Result<bool, Status> {
        Ok(matches!(
            self.write(storage, Arc::new(map), revision).await?,
            PortMapWrite::Done
        ))
    }

    async fn change(
        &self,
        storage: &Storage,
        change: impl Fn(&mut PortMap) -> bool,
    ) -> Result<bool, Status> {
        let _turn = self.turn.lock().await;
        let VersionedPortMap { map, revision } = self.lock().clone();
        let mut present = (revision != 0).then_some((map, revision));
        let mut fresh = false;
        for _ in 0..ATTEMPTS {
            let (map, revision) = match present.take() {
                Some(present) => present,
                None => {
                    fresh = true;
                    match self.read(storage).await? {
                        (Some(map), revision) => (Arc::new(map), revision),
                        (None, _) => {
                            return Err(Status::internal(
                                "cannot allocate resources of type servicenodeportallocations at this time",
                            ));
                        }
                    }
                }
            };
            if map.range() != self.range {
                return Err(Status::internal(
                    "the provided range does not match the current range",
                ));
            }
            let mut next = PortMap::clone(&map);
            let fits = change(&mut next);
            if !fits || next == *map {
                // What was known here may be old.
                if fresh {
                    self.learn(map, revision);
                    return Ok(fits);
                }
                continue;
            }
            match self.write(storage, Arc::new(next), revision).await? {
                PortMapWrite::Done => return Ok(true),
                PortMapWrite::Another(stored) => {
                    fresh = true;
                    present = stored
                        .map(|stored| {
                            Ok::<_, Status>((Arc::new(decode(&stored)?), stored.mod_revision))
                        })
                        .transpose()?;
                }
            }
        }
        Err(Status::conflict(
            "",
            "servicenodeportallocations",
            "",
            "node ports are being taken too often; please try again",
        ))
    }

    async fn write(
        &self,
        storage: &Storage,
        map: Arc<PortMap>,
        revision: Revision,
    ) -> Result<PortMapWrite, Status> {
        let write = Write::Put {
            value: map.to_stored().into(),
            ttl: None,
        };
        let condition: Precondition = precondition(revision);
        let written = storage
            .store()
            .write(Bytes::from_static(KEY), condition, write)
            .await;
        match written {
            Ok(Outcome::Done { revision, .. }) => {
                self.learn(map, revision);
                Ok(PortMapWrite::Done)
            }
            Ok(Outcome::Failed { current, .. }) => Ok(PortMapWrite::Another(current)),
            Err(error) => {
                // Whether it is written is not known.
                self.lock().revision = 0;
                Err(store_error(&error))
            }
        }
    }

    fn learn(&self, map: Arc<PortMap>, revision: Revision) {
        let mut known = self.lock();
        if revision >= known.revision {
            *known = VersionedPortMap { map, revision };
        }
    }

    fn lock(&self) -> MutexGuard<'_, VersionedPortMap> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As if the store had said so.
    #[cfg(test)]
    pub fn note(&self, ports: &[u16], taken: bool) {
        let mut known = self.lock();
        let map = Arc::make_mut(&mut known.map);
        ports.iter().for_each(|port| map.set(*port, taken));
    }
}

enum PortMapWrite {
    Done,
    /// The store has something else.
    Another(Option<KeyValue>),
}

fn decode(stored: &KeyValue) -> Result<PortMap, Status> {
    PortMap::of_stored(&stored.value).map_err(Status::internal)
}

/// Ports that a request took in the store and whose Service is not stored yet.
/// Dropped, they are given back.
#[derive(Debug)]
pub struct HeldPorts {
    storage: Arc<Storage>,
    map: Arc<Ports>,
    ports: Vec<u16>,
}

impl HeldPorts {
    /// None yet.
    pub fn new(storage: &Arc<Storage>, map: &Arc<Ports>) -> Self {
        Self {
            storage: Arc::clone(storage),
            map: Arc::clone(map),
            ports: Vec::new(),
        }
    }

    /// The ports.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Takes more ports, all or none. Returns `false` if another Service has one of them.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn take(&mut self, ports: &[u16]) -> Result<bool, Status> {
        let taken = self.map.take(&self.storage, ports).await?;
        if taken {
            self.ports.extend_from_slice(ports);
        }
        Ok(taken)
    }

    /// The Service is stored and has these: they are its own from now on.
    pub fn keep(&mut self, used: &[u16]) {
        self.ports.retain(|port| !used.contains(port));
    }

    /// All are given back before anybody is told.
    pub async fn release(&mut self) {
        give_back(&self.storage, &self.map, &std::mem::take(&mut self.ports)).await;
    }
}

impl Drop for HeldPorts {
    fn drop(&mut self) {
        if !self.ports.is_empty() {
            // Whoever asked may be gone; the ports are given back all the same.
            let (storage, map) = (Arc::clone(&self.storage), Arc::clone(&self.map));
            let ports = std::mem::take(&mut self.ports);
            tokio::spawn(async move { give_back(&storage, &map, &ports).await });
        }
    }
}

/// Frees ports; where the store does not take it, the repair finds them later.
pub(super) async fn give_back(storage: &Storage, map: &Ports, ports: &[u16]) {
    if let Err(error) = map.give_back(storage, ports).await {
        tracing::warn!(?ports, %error, "node ports are not given back");
    }
}

/// Returns the node ports among what a Service has or had.
pub(super) fn ports_of(held: &service::ReleasedResources) -> Vec<u16> {
    held.ports.iter().map(|(port, _)| *port).collect()
}
