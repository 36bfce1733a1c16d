//! Extended resources that devices satisfy: a claim is created for them, with the
//! requests that the chosen node needs.

use std::sync::Arc;

use compact_str::CompactString;
use control_client::{Meta, OwnerReference, StringMap};
use control_devices::api::EXTENDED_RESOURCE_CLAIM_ANNOTATION;
use control_devices::is_extended_resource;

use super::AssumedDevices;
use super::reservation::pod_of_extended;
use crate::catalog::Catalog;
use crate::snapshot::Snapshot;
use crate::view::{Pod, ResourceClaim};

/// The extended resources of a pod that devices may satisfy.
pub(super) struct ExtendedResources {
    /// Resources that the pod requests, sorted, and whether devices may satisfy them.
    resources: Vec<(CompactString, bool)>,
    /// A claim of an earlier attempt, which is deleted before the next.
    pub stale: Option<Arc<ResourceClaim>>,
}

/// The extended resources of a pod that a node lacks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MissingResources {
    /// It neither has a resource nor do devices satisfy it.
    Unfit,
    /// These are to be satisfied by devices.
    ByDevices(Vec<CompactString>),
}

impl ExtendedResources {
    /// `None` for a pod without a resource that devices may satisfy.
    pub(super) fn prepare(pod: &Pod, catalog: &Catalog, assumed: &AssumedDevices) -> Option<Self> {
        if pod.containers.is_empty() || !assumed.features.extended_resources {
            return None;
        }
        let requested = pod.shape.requests.extended.iter();
        let requested =
            requested.filter(|(name, amount)| *amount != 0 && is_extended_resource(name));
        let resources: Vec<(CompactString, bool)> = requested
            .map(|(name, _)| (name.clone(), assumed.classes.class_of(name).is_some()))
            .collect();
        if !resources.iter().any(|(_, by_devices)| *by_devices) {
            return None;
        }
        let claims = catalog.resource_claims.snapshot();
        let stale = claims
            .namespace(&pod.metadata.namespace)
            .find(|claim| pod_of_extended(claim) == Some(&pod.metadata.uid))
            .cloned();
        Some(Self { resources, stale })
    }

    /// Returns what the node at `place` lacks.
    pub(super) fn lacking(&self, snapshot: &Snapshot, place: usize) -> MissingResources {
        let mut by_devices = Vec::new();
        let node = snapshot.node(place);
        for (name, may_be_devices) in &self.resources {
            let allocatable = node.and_then(|node| {
                let mut extended = node.allocatable.extended.iter();
                extended.find(|(known, _)| known == name)
            });
            let amount = allocatable.map_or(0, |(_, amount)| *amount);
            if *may_be_devices && amount == 0 {
                by_devices.push(name.clone());
            } else if allocatable.is_none() {
                return MissingResources::Unfit;
            }
        }
        MissingResources::ByDevices(by_devices)
    }

    /// The claim that is to be made.
    pub(super) fn claim(pod: &Pod) -> ResourceClaim {
        ResourceClaim {
            metadata: Meta {
                namespace: pod.metadata.namespace.clone(),
                owner_references: vec![OwnerReference {
                    api_version: CompactString::const_new("v1"),
                    kind: CompactString::const_new("Pod"),
                    name: pod.metadata.name.clone(),
                    uid: pod.metadata.uid.clone(),
                    controller: Some(true),
                    block_owner_deletion: None,
                }],
                annotations: StringMap::from_iter([(EXTENDED_RESOURCE_CLAIM_ANNOTATION, "true")]),
                ..Meta::default()
            },
            ..ResourceClaim::default()
        }
    }
}
