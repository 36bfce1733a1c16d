//! PreBind: writes that precede the binding of a pod.

pub use crate::pre_binder::PreBinder;
use crate::reserve::Reservation;
use crate::view::Pod;
use crate::{devices, volumes};

/// Error that delays the binding of a pod.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Its volumes cannot be bound.
    #[error("running PreBind plugin \"VolumeBinding\"")]
    Volumes(#[source] volumes::VolumePreBindError),
    /// Its devices cannot be allocated.
    #[error("running PreBind plugin \"DynamicResources\"")]
    Devices(#[source] devices::ClaimPreBindError),
}

impl PreBinder {
    /// Writes a pod's reservations, and waits until they take effect.
    ///
    /// # Errors
    /// The pod cannot run on that node as decided.
    pub async fn prebind(
        &self,
        pod: &Pod,
        node: &str,
        reservation: &Reservation,
    ) -> Result<(), Error> {
        volumes::prebind(self, pod, node, &reservation.volumes)
            .await
            .map_err(Error::Volumes)?;
        devices::prebind(self, pod, node, &reservation.devices)
            .await
            .map_err(Error::Devices)
    }

    /// Reverts writes for a pod that is not bound after all.
    pub async fn unreserve(&self, pod: &Pod, reservation: &Reservation) {
        devices::unreserve(&self.client, pod, &reservation.devices).await;
    }
}
