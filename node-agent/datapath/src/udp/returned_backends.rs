//! What services have: whether another backend, and whether one that went is back, as it
//! may be when it is looked for later.

use std::net::SocketAddr;
use std::path::Path;

use ebpf_abi::{
    Address, Backend, ChecksummedValue, Port, Protocol, Service, ServiceKey, SlotKey, maps,
};

use super::{Move, place};
use crate::error::Error;
use crate::table::Table;

/// The present Services and backends. Reopen it after a map grew.
pub(super) struct CurrentServices {
    services: Table<ServiceKey, ChecksummedValue<Service>>,
    slots: Table<SlotKey, ChecksummedValue<Backend>>,
}

// === impl Services ===

impl CurrentServices {
    pub(super) fn open(directory: &Path) -> Result<Self, Error> {
        Ok(Self {
            services: Table::open(directory, maps::SERVICES)?,
            slots: Table::open(directory, maps::SLOTS)?,
        })
    }

    /// What of it is still gone: each backend with the fronts that lead to it no more.
    pub(super) fn without(&self, moves: &[Move]) -> Result<Vec<Move>, Error> {
        let mut gone = Vec::new();
        for it in moves {
            for backend in &it.backends {
                let mut fronts = Vec::new();
                for front in &it.fronts {
                    if !self.has(*front, *backend)? {
                        fronts.push(*front);
                    }
                }
                gone.push(Move {
                    fronts,
                    backends: vec![*backend],
                });
            }
        }
        Ok(gone)
    }

    /// Whether a service has a backend for who is inside.
    pub(super) fn serves(&self, (address, port): (Address, Port)) -> bool {
        let key = ServiceKey::internal(address, port, Protocol::UDP);
        let service = self.services.get(&key).ok().flatten();
        service
            .and_then(|it| it.open(&key))
            .is_some_and(|it| it.count > 0)
    }

    /// Sockets of this node ask as who is inside.
    fn has(&self, front: SocketAddr, backend: SocketAddr) -> Result<bool, Error> {
        let ((address, port), wanted) = (place(front), place(backend));
        let key = ServiceKey::internal(address, port, Protocol::UDP);
        let Some(service) = self.services.get(&key)?.and_then(|it| it.open(&key)) else {
            return Ok(false);
        };
        for slot in 0..service.count {
            let key = SlotKey::new(service.set, service.generation, slot);
            let found = self.slots.get(&key)?.and_then(|it| it.open(&key));
            if found.is_some_and(|it| (it.address, it.port) == wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
