//! Fields that a write through each endpoint resets, so that no manager comes to own them
//! by it: the strategies' `GetResetFields` of Kubernetes.

/// Paths that a write through one endpoint of a kind resets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Nothing.
    Nothing,
    /// These, with all below them.
    Fields(&'static [&'static [&'static str]]),
    /// All fields except these and their children; `*` stands for any step.
    AllBut(&'static [&'static [&'static str]]),
}

const STATUS: Reset = Reset::Fields(&[&["status"]]);
const SPEC: Reset = Reset::Fields(&[&["spec"]]);
const SPEC_AND_METADATA: Reset = Reset::Fields(&[&["spec"], &["metadata"]]);

/// Returns the fields that a write of `kind` through `subresource` (empty: the main
/// resource) resets.
#[must_use]
pub fn reset(group: &str, kind: &str, subresource: &str) -> Reset {
    match (group, kind, subresource) {
        ("", "Pod", "status") => Reset::Fields(&[
            &["spec"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
        ]),
        ("", "Namespace", "finalize") => STATUS,
        ("apps", "Deployment", "status") => Reset::Fields(&[&["spec"], &["metadata", "labels"]]),
        ("certificates.k8s.io", "CertificateSigningRequest", "") => {
            Reset::Fields(&[&["spec"], &["status"]])
        }
        ("certificates.k8s.io", "CertificateSigningRequest", "status") => {
            Reset::Fields(&[&["spec"], &["status", "conditions"]])
        }
        ("certificates.k8s.io", "CertificateSigningRequest", "approval") => {
            Reset::Fields(&[&["spec"], &["status", "certificate"]])
        }
        (
            "",
            "Pod"
            | "Namespace"
            | "Node"
            | "PersistentVolume"
            | "PersistentVolumeClaim"
            | "ReplicationController"
            | "ResourceQuota"
            | "Service",
            _,
        )
        | ("apps", "Deployment" | "DaemonSet" | "ReplicaSet" | "StatefulSet", _)
        | ("batch", "Job" | "CronJob", _)
        | ("autoscaling", "HorizontalPodAutoscaler", _)
        | ("networking.k8s.io", "Ingress", _)
        | ("policy", "PodDisruptionBudget", _)
        | ("apiextensions.k8s.io", "CustomResourceDefinition", _) => match subresource {
            "" => STATUS,
            "status" => SPEC,
            _ => Reset::Nothing,
        },
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", _)
        | ("flowcontrol.apiserver.k8s.io", "FlowSchema" | "PriorityLevelConfiguration", _)
        | ("networking.k8s.io", "ServiceCIDR", _)
        | ("resource.k8s.io", "ResourceClaim" | "DeviceTaintRule", _)
        | ("scheduling.k8s.io", "PodGroup", _)
        | ("storage.k8s.io", "VolumeAttachment", _)
        | ("apiregistration.k8s.io", "APIService", _) => match subresource {
            "" => STATUS,
            "status" => SPEC_AND_METADATA,
            _ => Reset::Nothing,
        },
        _ => Reset::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_endpoint_resets_what_the_others_write() {
        assert_eq!(reset("apps", "ReplicaSet", ""), STATUS);
        assert_eq!(reset("apps", "ReplicaSet", "status"), SPEC);
        assert_eq!(reset("", "ConfigMap", ""), Reset::Nothing);
        assert_eq!(reset("", "Pod", "resize"), Reset::Nothing);
        assert_eq!(
            reset("storage.k8s.io", "VolumeAttachment", "status"),
            SPEC_AND_METADATA
        );
    }
}
