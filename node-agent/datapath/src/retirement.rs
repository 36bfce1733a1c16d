//! Takes a datapath out of force, with or without a moment for its connections.
//!
//! Between the two calls of [`Retirement`] the programs still translate the
//! connections that they know, and nothing else: a stream's packets are found
//! in the flow table, whatever became of its Service, while what opens a
//! connection asks the services first, and there are none any more. So another
//! implementation of Services can take new connections over while established
//! ones go on.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebpf_abi::{ChecksummedValue, Service, ServiceKey, Timeouts, maps};

use crate::configuration::Configuration;
use crate::devices::Attachment;
use crate::error::Error;
use crate::flows::Flows;
use crate::kernel_nat::KernelNat;
use crate::pins::{self, version_dir};
use crate::removal::remove_version;
use crate::table::Table;

/// The datapath pinned below a directory, as the names of its pins tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstalledPins {
    /// Hooks of sockets with a program.
    pub socket_hooks: Vec<String>,
    /// Hooks of devices with a program.
    pub devices: Vec<Attachment>,
    /// Number of maps.
    pub maps: usize,
    /// Whether a process keeps the maps up to date. Without one they are frozen.
    pub in_use: bool,
}

/// A datapath that no agent works with any more and that is about to be removed.
///
/// An agent cannot start with it while this value lives.
#[derive(Debug)]
pub struct Retirement {
    pin_dir: PathBuf,
    _lock: File,
}

// === impl Installed ===

impl InstalledPins {
    /// Looks at the pins of all versions; `None` if there are none.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn find(pin_dir: &Path) -> Result<Option<Self>, Error> {
        if !pin_dir.exists() {
            return Ok(None);
        }
        let mut found = Self {
            in_use: pins::is_locked(pin_dir)?,
            ..Self::default()
        };
        for version in pins::versions(pin_dir)? {
            found.maps += pins::files(&version)?.len();
            let links = version.join(pins::LINKS);
            if !links.is_dir() {
                continue;
            }
            let hooks = pins::files(&links)?.into_iter();
            let names = hooks.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
            found.socket_hooks.extend(names);
            let devices = links.join(pins::DEVICE_LINKS);
            found
                .devices
                .extend(crate::devices::attach::attachments(&devices)?);
        }
        found.socket_hooks.sort();
        found.socket_hooks.dedup();
        Ok((found != Self::default()).then_some(found))
    }
}

// === impl Retirement ===

impl Retirement {
    /// How often [`renew_ports`](Self::renew_ports) is to be called: several times while a
    /// reservation lasts, since a call may fail.
    pub const RENEW_AFTER: Duration = Duration::from_secs(30);

    /// Locks what is pinned there; `None` if there is nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] while an agent works with it; [`Error::File`].
    pub fn begin(pin_dir: &Path) -> Result<Option<Self>, Error> {
        if !pin_dir.exists() {
            return Ok(None);
        }
        Ok(Some(Self {
            pin_dir: pin_dir.to_owned(),
            _lock: pins::lock(pin_dir)?,
        }))
    }

    /// Removes all services from the maps; returns how many entries there were.
    /// From now on new connections are left to whoever else serves them, and the kernel gives
    /// them no port that one of the programs' connections has ([`renew_ports`](Self::renew_ports)).
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn refuse_new_connections(&self) -> Result<usize, Error> {
        let directory = version_dir(&self.pin_dir);
        if !directory.join(maps::SERVICES).exists() {
            return Ok(0);
        }
        let services =
            Table::<ServiceKey, ChecksummedValue<Service>>::open(&directory, maps::SERVICES)?;
        let keys: Vec<_> = services
            .entries()?
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        // Before the kernel serves anybody, and again for those who came meanwhile.
        self.renew_ports();
        services.delete(&keys)?;
        self.renew_ports();
        Ok(keys.len())
    }

    /// Keeps the kernel's translation away from the ports of connections that go on, for two
    /// minutes from now. Failing, a new connection may get one of them, and no answers.
    pub fn renew_ports(&self) {
        match self.reserve_ports() {
            Ok(connections) => tracing::debug!(connections, "reserved their ports in the kernel"),
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "failed to keep the kernel's translation away from ports in use"
            ),
        }
    }

    fn reserve_ports(&self) -> Result<usize, Error> {
        let directory = version_dir(&self.pin_dir);
        if !directory.join(maps::FLOWS).exists() {
            return Ok(0);
        }
        KernelNat::at(&self.pin_dir).reserve_ports(&timeouts(&directory)?)
    }

    /// Number of streams that the packet programs translate and that would end with
    /// them. Connections of processes that were translated at their sockets do not
    /// depend on the programs.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn open_connections(&self) -> Result<usize, Error> {
        let directory = version_dir(&self.pin_dir);
        if !directory.join(maps::FLOWS).exists() {
            return Ok(0);
        }
        Flows::open(&self.pin_dir)?.open_streams(&timeouts(&directory)?)
    }

    /// Takes everything out of force and removes it.
    ///
    /// # Errors
    ///
    /// [`Error::File`], [`Error::Link`].
    pub fn finish(self) -> Result<(), Error> {
        for version in pins::versions(&self.pin_dir)? {
            remove_version(&version)?;
        }
        drop(self._lock);
        pins::remove_dir(&self.pin_dir)
    }
}

fn timeouts(directory: &Path) -> Result<Timeouts, Error> {
    let config = Configuration::open(directory)?.get()?;
    Ok(config.map_or(Timeouts::DEFAULT, |config| config.timeouts))
}
