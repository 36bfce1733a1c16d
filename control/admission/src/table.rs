//! All plugins in the order of kube-apiserver's `AllOrderedPlugins`, with the requests that each
//! of them handles.

use std::sync::Arc;

use control_kinds::admission::ReservedAddresses;

use crate::admission::Admission;
use crate::attributes::Attributes;
use crate::operation::Operation::{self, Create, Delete, Update};
use crate::plugin::Plugin;
use crate::plugins::always_pull_images::AlwaysPullImages;
use crate::plugins::certificate_signers::CertificateSigners;
use crate::plugins::certificate_subject_restriction::CertificateSubjectRestriction;
use crate::plugins::default_ingress_class::DefaultIngressClass;
use crate::plugins::default_storage_class::DefaultStorageClass;
use crate::plugins::default_toleration_seconds::DefaultTolerationSeconds;
use crate::plugins::deny_service_external_ips::DenyServiceExternalIPs;
use crate::plugins::extended_resource_toleration::ExtendedResourceToleration;
use crate::plugins::limit_pod_hard_anti_affinity_topology::LimitPodHardAntiAffinityTopology;
use crate::plugins::limit_ranger::LimitRanger;
use crate::plugins::namespace_auto_provision::NamespaceAutoProvision;
use crate::plugins::namespace_exists::NamespaceExists;
use crate::plugins::namespace_lifecycle::NamespaceLifecycle;
use crate::plugins::node_declared_feature_validator::NodeDeclaredFeatureValidator;
use crate::plugins::node_restriction::NodeRestriction;
use crate::plugins::owner_references_permission_enforcement::OwnerReferencesPermissionEnforcement;
use crate::plugins::persistent_volume_claim_resize::PersistentVolumeClaimResize;
use crate::plugins::pod_resize_validator::PodResizeValidator;
use crate::plugins::pod_topology_labels::PodTopologyLabels;
use crate::plugins::priority::Priority;
use crate::plugins::runtime_class::RuntimeClass;
use crate::plugins::service_account::ServiceAccount;
use crate::plugins::storage_object_in_use_protection::StorageObjectInUseProtection;
use crate::plugins::taint_nodes_by_condition::TaintNodesByCondition;
use crate::settings::Settings;

/// A plugin with the requests that it handles.
#[derive(Debug)]
pub(crate) struct Registration {
    plugin: Plugin,
    rules: &'static [PluginRule],
    pub admission: Arc<dyn Admission>,
}

/// Operations on a resource by its group, plural and subresource.
#[derive(Debug)]
struct PluginRule(
    &'static [Operation],
    &'static str,
    &'static str,
    &'static str,
);

/// Any group, plural or subresource.
const ANY: &str = "*";
const CREATE: &[Operation] = &[Create];
const UPDATE: &[Operation] = &[Update];
const WRITE: &[Operation] = &[Create, Update];
const DELETE: &[Operation] = &[Delete];
const CHANGE: &[Operation] = &[Create, Update, Delete];
const CERTIFICATES: (&str, &str) = ("certificates.k8s.io", "certificatesigningrequests");

/// Returns the built-in plugins that are on. Those of [`crate::dynamic`] come behind all of
/// them in either phase: `MutatingAdmissionPolicy` and `MutatingAdmissionWebhook`, then
/// `ValidatingAdmissionPolicy` and `ValidatingAdmissionWebhook`; `ResourceQuota` is charged when
/// an object is about to be stored. Plugins that are not here do nothing yet.
pub(crate) fn registrations(settings: &Settings, reserved: ReservedAddresses) -> Vec<Registration> {
    let mut all = Vec::new();
    let mut row = |plugin: Plugin, rules: &'static [PluginRule], admission: Arc<dyn Admission>| {
        all.push(Registration {
            plugin,
            rules,
            admission,
        });
    };
    row(
        Plugin::NamespaceAutoProvision,
        &[PluginRule(CREATE, ANY, ANY, "")],
        Arc::new(NamespaceAutoProvision),
    );
    row(
        Plugin::NamespaceLifecycle,
        &[
            PluginRule(CREATE, ANY, ANY, ANY),
            PluginRule(DELETE, "", "namespaces", ""),
        ],
        Arc::new(NamespaceLifecycle),
    );
    row(
        Plugin::NamespaceExists,
        &[PluginRule(CREATE, ANY, ANY, "")],
        Arc::new(NamespaceExists),
    );
    row(
        Plugin::LimitPodHardAntiAffinityTopology,
        &[PluginRule(WRITE, "", "pods", "")],
        Arc::new(LimitPodHardAntiAffinityTopology),
    );
    row(
        Plugin::LimitRanger,
        &[
            PluginRule(CREATE, "", "pods", ""),
            PluginRule(UPDATE, "", "pods", "resize"),
            PluginRule(WRITE, "", "persistentvolumeclaims", ""),
        ],
        Arc::new(LimitRanger),
    );
    row(
        Plugin::ServiceAccount,
        &[
            PluginRule(CREATE, "", "pods", ""),
            PluginRule(UPDATE, "", "pods", "ephemeralcontainers"),
        ],
        Arc::new(ServiceAccount),
    );
    row(
        Plugin::NodeRestriction,
        &[PluginRule(CHANGE, ANY, ANY, ANY)],
        Arc::new(NodeRestriction(reserved)),
    );
    row(
        Plugin::TaintNodesByCondition,
        &[PluginRule(CREATE, "", "nodes", "")],
        Arc::new(TaintNodesByCondition),
    );
    row(
        Plugin::AlwaysPullImages,
        &[PluginRule(WRITE, "", "pods", "")],
        Arc::new(AlwaysPullImages),
    );
    if let Some(policy) = &settings.image_policy {
        row(
            Plugin::ImagePolicyWebhook,
            &[
                PluginRule(WRITE, "", "pods", ""),
                PluginRule(UPDATE, "", "pods", "ephemeralcontainers"),
            ],
            Arc::clone(policy) as _,
        );
    }
    row(
        Plugin::PodSecurity,
        &[PluginRule(WRITE, ANY, ANY, ANY)],
        Arc::new(settings.pod_security.clone()),
    );
    row(
        Plugin::PodNodeSelector,
        &[PluginRule(CREATE, "", "pods", "")],
        Arc::new(settings.node_selectors.clone()),
    );
    row(
        Plugin::Priority,
        &[
            PluginRule(WRITE, "", "pods", ""),
            PluginRule(WRITE, "scheduling.k8s.io", "priorityclasses", ""),
        ],
        Arc::new(Priority),
    );
    row(
        Plugin::DefaultTolerationSeconds,
        &[PluginRule(WRITE, "", "pods", "")],
        Arc::new(DefaultTolerationSeconds(settings.stay)),
    );
    row(
        Plugin::PodTolerationRestriction,
        &[PluginRule(WRITE, "", "pods", "")],
        Arc::new(settings.tolerations.clone()),
    );
    if let Some(rates) = &settings.event_rates {
        row(
            Plugin::EventRateLimit,
            &[
                PluginRule(WRITE, "", "events", ANY),
                PluginRule(WRITE, "events.k8s.io", "events", ANY),
            ],
            Arc::clone(rates) as _,
        );
    }
    row(
        Plugin::ExtendedResourceToleration,
        &[PluginRule(WRITE, "", "pods", "")],
        Arc::new(ExtendedResourceToleration),
    );
    row(
        Plugin::DefaultStorageClass,
        &[PluginRule(CREATE, "", "persistentvolumeclaims", "")],
        Arc::new(DefaultStorageClass),
    );
    row(
        Plugin::StorageObjectInUseProtection,
        &[
            PluginRule(CREATE, "", "persistentvolumeclaims", ""),
            PluginRule(CREATE, "", "persistentvolumes", ""),
            PluginRule(CREATE, "storage.k8s.io", "volumeattributesclasses", ""),
        ],
        Arc::new(StorageObjectInUseProtection),
    );
    row(
        Plugin::OwnerReferencesPermissionEnforcement,
        &[PluginRule(WRITE, ANY, ANY, ANY)],
        Arc::new(OwnerReferencesPermissionEnforcement),
    );
    row(
        Plugin::PersistentVolumeClaimResize,
        &[PluginRule(UPDATE, "", "persistentvolumeclaims", "")],
        Arc::new(PersistentVolumeClaimResize),
    );
    row(
        Plugin::RuntimeClass,
        &[PluginRule(CREATE, "", "pods", "")],
        Arc::new(RuntimeClass),
    );
    row(
        Plugin::CertificateApproval,
        &[PluginRule(
            UPDATE,
            CERTIFICATES.0,
            CERTIFICATES.1,
            "approval",
        )],
        Arc::new(CertificateSigners::APPROVAL),
    );
    row(
        Plugin::CertificateSigning,
        &[PluginRule(UPDATE, CERTIFICATES.0, CERTIFICATES.1, "status")],
        Arc::new(CertificateSigners::SIGNING),
    );
    row(
        Plugin::CertificateSubjectRestriction,
        &[PluginRule(CREATE, CERTIFICATES.0, CERTIFICATES.1, "")],
        Arc::new(CertificateSubjectRestriction),
    );
    row(
        Plugin::DefaultIngressClass,
        &[PluginRule(CREATE, "networking.k8s.io", "ingresses", "")],
        Arc::new(DefaultIngressClass),
    );
    row(
        Plugin::DenyServiceExternalIPs,
        &[PluginRule(WRITE, "", "services", "")],
        Arc::new(DenyServiceExternalIPs(settings.external_ip_ranges.clone())),
    );
    row(
        Plugin::PodTopologyLabels,
        &[
            PluginRule(CREATE, "", "pods", ""),
            PluginRule(CREATE, "", "pods", "binding"),
            PluginRule(CREATE, "", "bindings", ""),
        ],
        Arc::new(PodTopologyLabels),
    );
    row(
        Plugin::NodeDeclaredFeatureValidator,
        &[
            PluginRule(UPDATE, "", "pods", ""),
            PluginRule(UPDATE, "", "pods", "resize"),
        ],
        Arc::new(NodeDeclaredFeatureValidator),
    );
    row(
        Plugin::PodResizeValidator,
        &[PluginRule(UPDATE, "", "pods", "resize")],
        Arc::new(PodResizeValidator),
    );
    all.retain(|one| settings.plugins.has(one.plugin));
    all
}

impl Registration {
    /// Whether the plugin handles a request.
    pub(crate) fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let resource = attributes.served.resource;
        let is = |pattern: &str, text: &str| pattern == ANY || pattern == text;
        self.rules
            .iter()
            .any(|PluginRule(operations, group, plural, subresource)| {
                is(plural, resource.plural)
                    && is(group, resource.group)
                    && is(subresource, attributes.subresource)
                    && operations.contains(&attributes.operation)
            })
    }
}

#[cfg(test)]
mod tests {
    use control_types::registry;

    use super::*;
    use crate::plugin::Plugins;

    #[test]
    fn plugins_run_in_kube_apiservers_order_on_resources_that_are_there() {
        let names: Vec<String> = Plugin::ALL
            .iter()
            .map(|one| one.name().to_owned())
            .collect();
        let settings = Settings {
            plugins: Plugins::only(&names).expect("known"),
            ..Settings::default()
        };
        let all = registrations(&settings, ReservedAddresses::default());
        assert!(all.iter().map(|one| one.plugin).is_sorted());
        for PluginRule(_, group, plural, subresource) in all.iter().flat_map(|one| one.rules) {
            let known = registry::resources().iter().any(|resource| {
                resource.plural == *plural
                    && resource.group == *group
                    && (["", ANY].contains(subresource)
                        || resource.subresource(subresource).is_some())
            });
            assert!(known || *plural == ANY, "{group}/{plural}/{subresource}");
        }
        let without = Settings {
            plugins: Plugins::none(),
            ..Settings::default()
        };
        assert!(registrations(&without, ReservedAddresses::default()).is_empty());
    }
}
