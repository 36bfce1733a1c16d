//! The view of ValidatingAdmissionPolicies.

use control_client::{Meta, Resource, View};
use serde::Deserialize;

use super::common::null_as_default;

const POLICIES: Resource = Resource::cluster(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
);

/// A ValidatingAdmissionPolicy, of which only the generations are read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct AdmissionPolicy {
    /// Name and generation.
    pub metadata: Meta,
    #[serde(deserialize_with = "null_as_default")]
    status: PolicyStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PolicyStatus {
    observed_generation: i64,
}

impl View for AdmissionPolicy {
    const RESOURCE: Resource = POLICIES;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl AdmissionPolicy {
    /// Whether this generation was not checked yet.
    pub(crate) fn is_due(&self) -> bool {
        self.status.observed_generation < self.metadata.generation
    }
}
