//! The objects besides nodes, pods and namespaces that decisions read.
//!
//! Each kind is one line of `catalog!` below: its cache, its changes, its part in the
//! wait at start, and the wake-ups of waiting pods that a change causes.

use std::sync::Arc;

use control_client::{
    Cache, Change, Changes, Client, Reflector, Resource, Selection, View, reflect,
};

use crate::objects::{self, ObjectSet};
use crate::snapshot::Wake;
use crate::view::{
    CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, PersistentVolume, PersistentVolumeClaim,
    PodDisruptionBudget, ReplicaSet, ReplicationController, ResourceClaim, ResourceSlice, Service,
    StatefulSet, StorageClass, VolumeAttachment,
};

macro_rules! catalog {
    ($($(#[$doc:meta])* $field:ident: $view:ident, $wake:ident;)*) => {
        /// Caches of the objects besides nodes and pods that decisions read.
        #[derive(Clone)]
        pub struct Catalog {
            $($(#[$doc])* pub $field: Cache<$view>,)*
        }

        /// Reflectors that keep a [`Catalog`] current.
        pub(crate) struct CatalogReflectors {
            $($field: Reflector<$view>,)*
        }

        /// Changes of the objects in a [`Catalog`].
        pub(crate) struct CatalogChanges {
            $($field: Changes<$view>,)*
        }

        /// A change of an object in a [`Catalog`].
        #[derive(Debug)]
        pub enum CatalogEvent {
            $($(#[$doc])* $view(Change<$view>),)*
        }

        impl Default for Catalog {
            fn default() -> Self {
                Self { $($field: Cache::fixed([]),)* }
            }
        }

        impl Catalog {
            /// The catalog of these objects, which nothing changes.
            ///
            /// # Errors
            /// Objects that cannot be read.
            pub fn from_objects(objects: &ObjectSet) -> Result<Self, objects::Error> {
                Ok(Self { $($field: Cache::fixed(objects.views::<$view>()?),)* })
            }

            /// The resources of all kinds.
            pub fn resources() -> impl Iterator<Item = Resource> {
                [$(<$view as View>::RESOURCE,)*].into_iter()
            }
        }

        impl CatalogReflectors {
            /// Starts to follow all kinds. Must be called within a tokio runtime.
            pub(crate) fn start(client: &Client) -> Self {
                Self { $($field: reflect(client, Selection::all()),)* }
            }

            /// Waits until all caches are filled.
            pub(crate) async fn synced(&self) {
                $(self.$field.synced().await;)*
            }

            pub(crate) fn changes(&self) -> CatalogChanges {
                CatalogChanges { $($field: self.$field.changes(),)* }
            }

            pub(crate) fn catalog(&self) -> Arc<Catalog> {
                Arc::new(Catalog { $($field: self.$field.cache(),)* })
            }
        }

        impl CatalogChanges {
            /// Waits for a change; `None`: there will be no more.
            pub(crate) async fn recv(&mut self) -> Option<CatalogEvent> {
                tokio::select! {
                    $(change = self.$field.recv() => change.map(CatalogEvent::$view),)*
                }
            }

            /// Returns a change that is there already.
            pub(crate) fn try_recv(&mut self) -> Option<CatalogEvent> {
                $(if let Some(change) = self.$field.try_recv() {
                    return Some(CatalogEvent::$view(change));
                })*
                None
            }
        }

        impl CatalogEvent {
            /// The name of the event in metrics.
            #[must_use]
            pub const fn label(&self) -> &'static str {
                match self {
                    $(
                        Self::$view(Change { previous: None, .. }) => {
                            concat!(stringify!($view), "Add")
                        }
                        Self::$view(Change { current: None, .. }) => {
                            concat!(stringify!($view), "Delete")
                        }
                        Self::$view(_) => concat!(stringify!($view), "Update"),
                    )*
                }
            }

            /// Returns which waiting pods the change may help.
            #[must_use]
            pub const fn wake(&self) -> Wake {
                match self {
                    $(Self::$view(_) => Wake::$wake,)*
                }
            }
        }
    };
}

catalog! {
    /// Claims to volumes.
    persistent_volume_claims: PersistentVolumeClaim, VOLUME_CLAIM;
    /// Volumes.
    persistent_volumes: PersistentVolume, VOLUME;
    /// Classes of volumes.
    storage_classes: StorageClass, STORAGE_CLASS;
    /// CSI drivers of nodes.
    csi_nodes: CsiNode, CSI_NODE;
    /// CSI drivers.
    csi_drivers: CsiDriver, CSI_DRIVER;
    /// The capacity of CSI drivers by topology.
    csi_storage_capacities: CsiStorageCapacity, CSI_CAPACITY;
    /// Attachments of volumes to nodes.
    volume_attachments: VolumeAttachment, VOLUME_ATTACHMENT;
    /// Claims to devices.
    resource_claims: ResourceClaim, RESOURCE_CLAIM;
    /// Devices.
    resource_slices: ResourceSlice, RESOURCE_SLICE;
    /// Classes of devices.
    device_classes: DeviceClass, DEVICE_CLASS;
    /// Budgets that preemption respects.
    pod_disruption_budgets: PodDisruptionBudget, NONE;
    /// Services, whose pods are spread by default.
    services: Service, NONE;
    /// Replication controllers, whose pods are spread by default.
    replication_controllers: ReplicationController, NONE;
    /// Replica sets, whose pods are spread by default.
    replica_sets: ReplicaSet, NONE;
    /// Stateful sets, whose pods are spread by default.
    stateful_sets: StatefulSet, NONE;
}
