//! Reserve and Unreserve: decisions besides the node, such as the volume that a claim is
//! bound to.
//!
//! The scheduler's task tracks them: a reservation is assumed when its pod is, overlaid
//! on the catalog by the plugins, and dropped when the caches show it or the binding
//! fails.

use crate::catalog::CatalogEvent;
use crate::devices::{AssumedDevices, DeviceReservation};
use crate::view::Pod;
use crate::volumes::{AssumedVolumes, VolumeReservation};

/// The resources reserved for a pod besides its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    /// Volumes of its claims.
    pub volumes: VolumeReservation,
    /// Devices of its claims.
    pub devices: DeviceReservation,
}

/// Reservations that the caches do not show yet.
#[derive(Clone, Debug, Default)]
pub struct AssumedReservations {
    /// Volumes.
    pub volumes: AssumedVolumes,
    /// Devices.
    pub devices: AssumedDevices,
}

impl Reservation {
    /// Whether nothing has to be written before the pod is bound.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.volumes.is_empty() && self.devices.is_empty()
    }
}

impl AssumedReservations {
    /// Assumes the reservation of a pod.
    pub fn reserve(&mut self, pod: &Pod, reservation: &Reservation) {
        self.volumes.reserve(pod, &reservation.volumes);
        self.devices.reserve(pod, &reservation.devices);
    }

    /// Reverts what was assumed for a pod.
    pub fn unreserve(&mut self, pod: &Pod, reservation: &Reservation) {
        self.devices.unreserve(pod, &reservation.devices);
        self.volumes.unreserve(pod, &reservation.volumes);
    }

    /// Drops assumptions that the caches now show.
    pub fn observe(&mut self, event: &CatalogEvent) {
        self.volumes.observe(event);
        self.devices.observe(event);
    }
}
