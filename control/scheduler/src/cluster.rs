//! The cluster, as decisions see it.

use std::sync::Arc;

use control_client::{Resource, resources};

use crate::catalog::{Catalog, CatalogEvent};
use crate::devices::AssumedDevices;
use crate::gangs::Gangs;
use crate::nominations::Nominations;
use crate::objects::{Error, ObjectSet};
use crate::reserve::AssumedReservations;
use crate::snapshot::Snapshot;
use crate::view::{Namespace, Node, Pod, PodGroup};

/// Everything that decisions read.
#[derive(Default)]
pub struct Cluster {
    /// Nodes, and the pods on them.
    pub snapshot: Snapshot,
    /// All other objects.
    pub catalog: Arc<Catalog>,
    /// Decisions about these objects that their caches do not show yet.
    pub assumed: AssumedReservations,
    /// Pods with a nominated node.
    pub nominations: Nominations,
    /// Pods that are scheduled together.
    pub gangs: Gangs,
}

impl Cluster {
    /// A cluster without nodes, with a catalog that stays as it is.
    #[must_use]
    pub fn from_catalog(catalog: Catalog) -> Self {
        let mut cluster = Self::default();
        cluster.replace_catalog(catalog);
        cluster
    }

    /// Replaces the catalog, and drops assumptions about the former objects.
    pub fn replace_catalog(&mut self, catalog: Catalog) {
        self.assumed = AssumedReservations {
            devices: AssumedDevices::from_catalog(&catalog),
            ..AssumedReservations::default()
        };
        self.catalog = Arc::new(catalog);
        self.set_device_resources();
    }

    /// Takes a change of an object in the catalog in.
    pub fn observe(&mut self, event: &CatalogEvent) {
        self.assumed.observe(event);
        if matches!(event, CatalogEvent::DeviceClass(_)) {
            self.set_device_resources();
        }
    }

    fn set_device_resources(&mut self) {
        let classes = self.assumed.devices.extended_resource_classes();
        self.snapshot.set_device_resources(classes.resources());
    }
}

impl ObjectSet {
    /// The cluster of these objects. Pods that ended use nothing.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn cluster(&self) -> Result<Cluster, Error> {
        let mut cluster = Cluster::from_catalog(Catalog::from_objects(self)?);
        for node in self.views::<Node>()? {
            cluster.snapshot.set_node(&Arc::new(node));
        }
        for namespace in self.views::<Namespace>()? {
            let meta = &namespace.metadata;
            cluster
                .snapshot
                .set_namespace(&meta.name, Some(&meta.labels));
        }
        for group in self.views::<PodGroup>()? {
            // If there are PodGroups, pods are scheduled by them.
            cluster.gangs.enable();
            cluster.gangs.set_group(&Arc::new(group));
        }
        for pod in self.views::<Pod>()? {
            if pod.finished {
                continue;
            }
            let pod = Arc::new(pod);
            cluster.gangs.observe(&pod);
            if !pod.node_name.is_empty() {
                cluster.snapshot.put_pod(&pod, &pod.node_name);
            }
        }
        Ok(cluster)
    }

    /// Returns the resources that a cluster consists of.
    pub fn resources() -> impl Iterator<Item = Resource> {
        [resources::NODES, resources::NAMESPACES, resources::PODS]
            .into_iter()
            .chain(Catalog::resources())
    }
}
