//! The operations of the driver, independent of the protocol: each one decides purely
//! ([`crate::request`]), records its intent ([`crate::catalog`]), and lets a [`Backend`]
//! carry it out.

mod busy;
pub mod groups;
pub mod health;
pub mod inline;
pub mod limits;
pub mod node;
pub mod recover;
pub mod snapshots;
pub mod staging;
pub mod volumes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::backend::{self, Attachment, Backend, Environment, Space};
use crate::catalog::Catalog;
use crate::catalog::record::{SnapshotRecord, VolumeRecord};
use crate::config::{ClassConfig, Config, Encryption};
use crate::device::key_manager::KeyManager;
use crate::device::luks;
use crate::error::{Error, Result};
use crate::filesystem::mounts::{Mount, MountTable};
use busy::Busy;

/// Name of the driver.
pub const NAME: &str = "csi.orlop.dev";

/// An open class: its backend and its catalogue.
pub struct Store {
    /// Configuration of the class.
    pub class: ClassConfig,
    /// The storage of volumes.
    pub backend: Arc<dyn Backend>,
    /// The records.
    pub catalog: Catalog,
    /// Wraps the keys of encrypted volumes, if the class names one.
    key_manager: Option<KeyManager>,
    /// Taken while space is promised.
    admission: Mutex<()>,
}

impl Store {
    /// Returns a copy of all volumes, also of those that are being created.
    #[must_use]
    pub fn promised(&self) -> Vec<VolumeRecord> {
        self.catalog.entries().promised().cloned().collect()
    }

    /// Returns what can be promised.
    ///
    /// # Errors
    /// When the storage cannot be read.
    pub fn space(&self) -> Result<Space> {
        self.backend.space(&self.promised())
    }

    fn admission(&self) -> MutexGuard<'_, ()> {
        self.admission
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn is_encrypted(&self) -> bool {
        self.class.encryption == Some(Encryption::Luks2)
    }

    /// Returns where the key of an encrypted volume comes from; none where the class is not
    /// encrypted.
    fn key(&self, secrets: &BTreeMap<String, String>) -> Result<Option<luks::Key<'_>>> {
        if !self.is_encrypted() {
            return Ok(None);
        }
        let key = match &self.key_manager {
            Some(manager) => luks::Key::Managed(manager),
            None => luks::Key::Passphrase(luks::passphrase(secrets)?),
        };
        Ok(Some(key))
    }

    /// Returns where a volume's plain data is reachable, if it is.
    fn reachable(&self, record: &VolumeRecord) -> Result<Option<Attachment>> {
        let attached = self.backend.attached(record)?;
        if !self.is_encrypted() {
            return Ok(attached);
        }
        let mapped = luks::mapping(&record.id);
        Ok(mapped.exists().then_some(Attachment::Device(mapped)))
    }

    /// Returns the mounts of a volume.
    fn mounts(&self, record: &VolumeRecord, table: &MountTable) -> Result<Vec<Mount>> {
        Ok(match self.reachable(record)? {
            None => Vec::new(),
            Some(Attachment::Folder(folder)) => table.of_folder(&folder).cloned().collect(),
            Some(Attachment::Device(device)) => {
                let files = table.of_device(&device);
                files.chain(table.of_node(&device)).cloned().collect()
            }
        })
    }
}

/// A class, which may be unavailable: one broken disk does not keep the driver
/// from serving the others.
pub struct Class {
    /// Configuration.
    pub config: ClassConfig,
    store: Mutex<Option<Arc<Store>>>,
}

/// The driver of one node.
pub struct Driver {
    /// Name of the node.
    pub node: String,
    /// Classes, in the order of the configuration.
    pub classes: Vec<Class>,
    environment: Environment,
    busy: Busy,
    cgroups: PathBuf,
    /// Whether volumes grow through the node service alone: a stock resizer is
    /// one for all nodes and cannot reach the driver of each.
    pub expands_on_node: bool,
}

impl Driver {
    /// Opens the classes of a configuration and finishes what a crash left.
    ///
    /// # Errors
    /// When no class at all can be opened.
    pub fn open(config: &Config, node: &str, environment: Environment) -> Result<Self> {
        let class = |config: &ClassConfig| Class {
            config: config.clone(),
            store: Mutex::new(None),
        };
        let driver = Self {
            node: node.to_owned(),
            classes: config.classes.iter().map(class).collect(),
            environment,
            busy: Busy::default(),
            cgroups: PathBuf::from("/sys/fs/cgroup"),
            expands_on_node: false,
        };
        let mut failures = Vec::new();
        for class in &driver.classes {
            match driver.store(class) {
                Ok(store) => tracing::info!(
                    class = class.config.name,
                    backend = class.config.backend.name(),
                    volumes = store.catalog.entries().volumes.len(),
                    "class opened"
                ),
                Err(error) => {
                    let class = &class.config.name;
                    tracing::error!(class, error = error.chain(), "class is unavailable");
                    failures.push(error);
                }
            }
        }
        if failures.len() == driver.classes.len()
            && let Some(error) = failures.into_iter().next()
        {
            return Err(error);
        }
        Ok(driver)
    }

    /// Returns an open class, which is opened now where it could not be before.
    ///
    /// # Errors
    /// When it still cannot.
    pub fn store(&self, class: &Class) -> Result<Arc<Store>> {
        let mut held = class.store.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*held {
            return Ok(store.clone());
        }
        let open = || -> Result<Arc<Store>> {
            let backend = backend::open(&class.config, &self.environment)?;
            let catalog = Catalog::open(&class.config.state_dir())?;
            let name = &class.config.name;
            let socket = class.config.kms_socket();
            let manager = socket.map(|socket| KeyManager::start(name, socket));
            let store = Arc::new(Store {
                class: class.config.clone(),
                backend,
                catalog,
                key_manager: manager.transpose()?,
                admission: Mutex::new(()),
            });
            recover::recover(&store)?;
            Ok(store)
        };
        let store = open().map_err(|source| Error::Unavailable {
            class: class.config.name.clone(),
            source: Box::new(source),
        })?;
        *held = Some(store.clone());
        Ok(store)
    }

    /// Returns the classes that are open.
    #[must_use]
    pub fn stores(&self) -> Vec<Arc<Store>> {
        self.classes
            .iter()
            .filter_map(|class| self.store(class).ok())
            .collect()
    }

    /// Returns the class of a request; the first if it names none.
    ///
    /// # Errors
    /// When there is no such class, or it is unavailable.
    pub fn class(&self, name: Option<&str>) -> Result<Arc<Store>> {
        let found = match name {
            None => self.classes.first(),
            Some(name) => self.classes.iter().find(|it| it.config.name == name),
        };
        let Some(class) = found else {
            let names: Vec<&str> = self
                .classes
                .iter()
                .map(|it| it.config.name.as_str())
                .collect();
            let expected = format!("the node has {}", names.join(", "));
            return Err(Error::invalid(
                "parameters[class]",
                name.unwrap_or_default(),
                expected,
            ));
        };
        self.store(class)
    }

    /// Finds a volume.
    ///
    /// # Errors
    /// When there is none; while a class is unavailable, its volumes are reported as
    /// unavailable rather than missing.
    pub fn volume(&self, id: &str) -> Result<(Arc<Store>, VolumeRecord)> {
        self.find("volume", id, |store| {
            store.catalog.entries().volumes.get(id).cloned()
        })
    }

    /// Finds a snapshot.
    ///
    /// # Errors
    /// As [`Driver::volume`].
    pub fn snapshot(&self, id: &str) -> Result<(Arc<Store>, SnapshotRecord)> {
        self.find("snapshot", id, |store| {
            store.catalog.entries().snapshots.get(id).cloned()
        })
    }

    fn find<T>(
        &self,
        kind: &'static str,
        id: &str,
        look: impl Fn(&Store) -> Option<T>,
    ) -> Result<(Arc<Store>, T)> {
        let mut unavailable = None;
        for class in &self.classes {
            match self.store(class) {
                Ok(store) => {
                    if let Some(found) = look(&store) {
                        return Ok((store, found));
                    }
                }
                Err(error) => unavailable = Some(error),
            }
        }
        Err(unavailable.unwrap_or_else(|| Error::NotFound {
            kind,
            id: id.to_owned(),
            node: self.node.clone(),
        }))
    }
}

/// Turns "not found" into `None`.
pub(crate) fn optional<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX))
}
