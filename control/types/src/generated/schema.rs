//! Written by `cargo xtask generate` from the published Kubernetes API; do not edit.

use crate::schema::{Field, Merge, Type, TypeId, TypeRef, f};
use crate::schema::Shape::{Any, SchemaOrArray, SchemaOrBool, SchemaOrTexts, Struct, Texts};

/// Types, ordered by name.
pub(crate) static TYPES: &[Type; 626] = &[
    Type { name: "io.k8s.api.admission.v1.AdmissionRequest", go: "v1.AdmissionRequest", shape: Struct, atomic: false, published: false, range: (0, 15) },
    Type { name: "io.k8s.api.admission.v1.AdmissionResponse", go: "v1.AdmissionResponse", shape: Struct, atomic: false, published: false, range: (15, 7) },
    Type { name: "io.k8s.api.admission.v1.AdmissionReview", go: "v1.AdmissionReview", shape: Struct, atomic: false, published: false, range: (22, 3) },
    Type { name: "io.k8s.api.admissionregistration.v1.ApplyConfiguration", go: "v1.ApplyConfiguration", shape: Struct, atomic: false, published: true, range: (25, 1) },
    Type { name: "io.k8s.api.admissionregistration.v1.AuditAnnotation", go: "v1.AuditAnnotation", shape: Struct, atomic: false, published: true, range: (26, 2) },
    Type { name: "io.k8s.api.admissionregistration.v1.ExpressionWarning", go: "v1.ExpressionWarning", shape: Struct, atomic: false, published: true, range: (28, 2) },
    Type { name: "io.k8s.api.admissionregistration.v1.JSONPatch", go: "v1.JSONPatch", shape: Struct, atomic: false, published: true, range: (30, 1) },
    Type { name: "io.k8s.api.admissionregistration.v1.MatchCondition", go: "v1.MatchCondition", shape: Struct, atomic: false, published: true, range: (31, 2) },
    Type { name: "io.k8s.api.admissionregistration.v1.MatchResources", go: "v1.MatchResources", shape: Struct, atomic: true, published: true, range: (33, 5) },
    Type { name: "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy", go: "v1.MutatingAdmissionPolicy", shape: Struct, atomic: false, published: true, range: (38, 3) },
    Type { name: "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding", go: "v1.MutatingAdmissionPolicyBinding", shape: Struct, atomic: false, published: true, range: (41, 3) },
    Type { name: "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBindingList", go: "v1.MutatingAdmissionPolicyBindingList", shape: Struct, atomic: false, published: true, range: (44, 3) },
    Type { name: "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBindingSpec", go: "v1.MutatingAdmissionPolicyBindingSpec", shape: Struct, atomic: false, published: true, range: (47, 3) },
    Type { name: "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyList", go: "v1.MutatingAdmissionPolicyList", shape: Struct, atomic: false, published: true, range: (50, 3) },
    Type { name: "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicySpec", go: "v1.MutatingAdmissionPolicySpec", shape: Struct, atomic: false, published: true, range: (53, 7) },
    Type { name: "io.k8s.api.admissionregistration.v1.MutatingWebhook", go: "v1.MutatingWebhook", shape: Struct, atomic: false, published: true, range: (60, 12) },
    Type { name: "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration", go: "v1.MutatingWebhookConfiguration", shape: Struct, atomic: false, published: true, range: (72, 3) },
    Type { name: "io.k8s.api.admissionregistration.v1.MutatingWebhookConfigurationList", go: "v1.MutatingWebhookConfigurationList", shape: Struct, atomic: false, published: true, range: (75, 3) },
    Type { name: "io.k8s.api.admissionregistration.v1.Mutation", go: "v1.Mutation", shape: Struct, atomic: false, published: true, range: (78, 3) },
    Type { name: "io.k8s.api.admissionregistration.v1.NamedRuleWithOperations", go: "v1.NamedRuleWithOperations", shape: Struct, atomic: true, published: true, range: (81, 2) },
    Type { name: "io.k8s.api.admissionregistration.v1.ParamKind", go: "v1.ParamKind", shape: Struct, atomic: true, published: true, range: (83, 2) },
    Type { name: "io.k8s.api.admissionregistration.v1.ParamRef", go: "v1.ParamRef", shape: Struct, atomic: true, published: true, range: (85, 4) },
    Type { name: "io.k8s.api.admissionregistration.v1.Rule", go: "v1.Rule", shape: Struct, atomic: false, published: false, range: (89, 4) },
    Type { name: "io.k8s.api.admissionregistration.v1.RuleWithOperations", go: "v1.RuleWithOperations", shape: Struct, atomic: false, published: true, range: (93, 2) },
    Type { name: "io.k8s.api.admissionregistration.v1.ServiceReference", go: "v1.ServiceReference", shape: Struct, atomic: false, published: true, range: (95, 4) },
    Type { name: "io.k8s.api.admissionregistration.v1.TypeChecking", go: "v1.TypeChecking", shape: Struct, atomic: false, published: true, range: (99, 1) },
    Type { name: "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy", go: "v1.ValidatingAdmissionPolicy", shape: Struct, atomic: false, published: true, range: (100, 4) },
    Type { name: "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding", go: "v1.ValidatingAdmissionPolicyBinding", shape: Struct, atomic: false, published: true, range: (104, 3) },
    Type { name: "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingList", go: "v1.ValidatingAdmissionPolicyBindingList", shape: Struct, atomic: false, published: true, range: (107, 3) },
    Type { name: "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec", go: "v1.ValidatingAdmissionPolicyBindingSpec", shape: Struct, atomic: false, published: true, range: (110, 4) },
    Type { name: "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyList", go: "v1.ValidatingAdmissionPolicyList", shape: Struct, atomic: false, published: true, range: (114, 3) },
    Type { name: "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicySpec", go: "v1.ValidatingAdmissionPolicySpec", shape: Struct, atomic: false, published: true, range: (117, 7) },
    Type { name: "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyStatus", go: "v1.ValidatingAdmissionPolicyStatus", shape: Struct, atomic: false, published: true, range: (124, 3) },
    Type { name: "io.k8s.api.admissionregistration.v1.ValidatingWebhook", go: "v1.ValidatingWebhook", shape: Struct, atomic: false, published: true, range: (127, 11) },
    Type { name: "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration", go: "v1.ValidatingWebhookConfiguration", shape: Struct, atomic: false, published: true, range: (138, 3) },
    Type { name: "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfigurationList", go: "v1.ValidatingWebhookConfigurationList", shape: Struct, atomic: false, published: true, range: (141, 3) },
    Type { name: "io.k8s.api.admissionregistration.v1.Validation", go: "v1.Validation", shape: Struct, atomic: false, published: true, range: (144, 4) },
    Type { name: "io.k8s.api.admissionregistration.v1.Variable", go: "v1.Variable", shape: Struct, atomic: true, published: true, range: (148, 2) },
    Type { name: "io.k8s.api.admissionregistration.v1.WebhookClientConfig", go: "v1.WebhookClientConfig", shape: Struct, atomic: false, published: true, range: (150, 3) },
    Type { name: "io.k8s.api.apidiscovery.v2.APIGroupDiscovery", go: "v2.APIGroupDiscovery", shape: Struct, atomic: false, published: false, range: (153, 3) },
    Type { name: "io.k8s.api.apidiscovery.v2.APIGroupDiscoveryList", go: "v2.APIGroupDiscoveryList", shape: Struct, atomic: false, published: false, range: (156, 3) },
    Type { name: "io.k8s.api.apidiscovery.v2.APIResourceDiscovery", go: "v2.APIResourceDiscovery", shape: Struct, atomic: false, published: false, range: (159, 8) },
    Type { name: "io.k8s.api.apidiscovery.v2.APISubresourceDiscovery", go: "v2.APISubresourceDiscovery", shape: Struct, atomic: false, published: false, range: (167, 4) },
    Type { name: "io.k8s.api.apidiscovery.v2.APIVersionDiscovery", go: "v2.APIVersionDiscovery", shape: Struct, atomic: false, published: false, range: (171, 3) },
    Type { name: "io.k8s.api.apps.v1.ControllerRevision", go: "v1.ControllerRevision", shape: Struct, atomic: false, published: true, range: (174, 4) },
    Type { name: "io.k8s.api.apps.v1.ControllerRevisionList", go: "v1.ControllerRevisionList", shape: Struct, atomic: false, published: true, range: (178, 3) },
    Type { name: "io.k8s.api.apps.v1.DaemonSet", go: "v1.DaemonSet", shape: Struct, atomic: false, published: true, range: (181, 4) },
    Type { name: "io.k8s.api.apps.v1.DaemonSetCondition", go: "v1.DaemonSetCondition", shape: Struct, atomic: false, published: true, range: (185, 5) },
    Type { name: "io.k8s.api.apps.v1.DaemonSetList", go: "v1.DaemonSetList", shape: Struct, atomic: false, published: true, range: (190, 3) },
    Type { name: "io.k8s.api.apps.v1.DaemonSetSpec", go: "v1.DaemonSetSpec", shape: Struct, atomic: false, published: true, range: (193, 5) },
    Type { name: "io.k8s.api.apps.v1.DaemonSetStatus", go: "v1.DaemonSetStatus", shape: Struct, atomic: false, published: true, range: (198, 10) },
    Type { name: "io.k8s.api.apps.v1.DaemonSetUpdateStrategy", go: "v1.DaemonSetUpdateStrategy", shape: Struct, atomic: false, published: true, range: (208, 2) },
    Type { name: "io.k8s.api.apps.v1.Deployment", go: "v1.Deployment", shape: Struct, atomic: false, published: true, range: (210, 4) },
    Type { name: "io.k8s.api.apps.v1.DeploymentCondition", go: "v1.DeploymentCondition", shape: Struct, atomic: false, published: true, range: (214, 6) },
    Type { name: "io.k8s.api.apps.v1.DeploymentList", go: "v1.DeploymentList", shape: Struct, atomic: false, published: true, range: (220, 3) },
    Type { name: "io.k8s.api.apps.v1.DeploymentSpec", go: "v1.DeploymentSpec", shape: Struct, atomic: false, published: true, range: (223, 8) },
    Type { name: "io.k8s.api.apps.v1.DeploymentStatus", go: "v1.DeploymentStatus", shape: Struct, atomic: false, published: true, range: (231, 9) },
    Type { name: "io.k8s.api.apps.v1.DeploymentStrategy", go: "v1.DeploymentStrategy", shape: Struct, atomic: false, published: true, range: (240, 2) },
    Type { name: "io.k8s.api.apps.v1.ReplicaSet", go: "v1.ReplicaSet", shape: Struct, atomic: false, published: true, range: (242, 4) },
    Type { name: "io.k8s.api.apps.v1.ReplicaSetCondition", go: "v1.ReplicaSetCondition", shape: Struct, atomic: false, published: true, range: (246, 5) },
    Type { name: "io.k8s.api.apps.v1.ReplicaSetList", go: "v1.ReplicaSetList", shape: Struct, atomic: false, published: true, range: (251, 3) },
    Type { name: "io.k8s.api.apps.v1.ReplicaSetSpec", go: "v1.ReplicaSetSpec", shape: Struct, atomic: false, published: true, range: (254, 4) },
    Type { name: "io.k8s.api.apps.v1.ReplicaSetStatus", go: "v1.ReplicaSetStatus", shape: Struct, atomic: false, published: true, range: (258, 7) },
    Type { name: "io.k8s.api.apps.v1.RollingUpdateDaemonSet", go: "v1.RollingUpdateDaemonSet", shape: Struct, atomic: false, published: true, range: (265, 2) },
    Type { name: "io.k8s.api.apps.v1.RollingUpdateDeployment", go: "v1.RollingUpdateDeployment", shape: Struct, atomic: false, published: true, range: (267, 2) },
    Type { name: "io.k8s.api.apps.v1.RollingUpdateStatefulSetStrategy", go: "v1.RollingUpdateStatefulSetStrategy", shape: Struct, atomic: false, published: true, range: (269, 2) },
    Type { name: "io.k8s.api.apps.v1.StatefulSet", go: "v1.StatefulSet", shape: Struct, atomic: false, published: true, range: (271, 4) },
    Type { name: "io.k8s.api.apps.v1.StatefulSetCondition", go: "v1.StatefulSetCondition", shape: Struct, atomic: false, published: true, range: (275, 5) },
    Type { name: "io.k8s.api.apps.v1.StatefulSetList", go: "v1.StatefulSetList", shape: Struct, atomic: false, published: true, range: (280, 3) },
    Type { name: "io.k8s.api.apps.v1.StatefulSetOrdinals", go: "v1.StatefulSetOrdinals", shape: Struct, atomic: false, published: true, range: (283, 1) },
    Type { name: "io.k8s.api.apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy", go: "v1.StatefulSetPersistentVolumeClaimRetentionPolicy", shape: Struct, atomic: false, published: true, range: (284, 2) },
    Type { name: "io.k8s.api.apps.v1.StatefulSetSpec", go: "v1.StatefulSetSpec", shape: Struct, atomic: false, published: true, range: (286, 11) },
    Type { name: "io.k8s.api.apps.v1.StatefulSetStatus", go: "v1.StatefulSetStatus", shape: Struct, atomic: false, published: true, range: (297, 10) },
    Type { name: "io.k8s.api.apps.v1.StatefulSetUpdateStrategy", go: "v1.StatefulSetUpdateStrategy", shape: Struct, atomic: false, published: true, range: (307, 2) },
    Type { name: "io.k8s.api.authentication.v1.BoundObjectReference", go: "v1.BoundObjectReference", shape: Struct, atomic: false, published: true, range: (309, 4) },
    Type { name: "io.k8s.api.authentication.v1.ExtraValue", go: "v1.ExtraValue", shape: Texts, atomic: false, published: false, range: (313, 0) },
    Type { name: "io.k8s.api.authentication.v1.SelfSubjectReview", go: "v1.SelfSubjectReview", shape: Struct, atomic: false, published: true, range: (313, 3) },
    Type { name: "io.k8s.api.authentication.v1.SelfSubjectReviewStatus", go: "v1.SelfSubjectReviewStatus", shape: Struct, atomic: false, published: true, range: (316, 1) },
    Type { name: "io.k8s.api.authentication.v1.TokenRequest", go: "v1.TokenRequest", shape: Struct, atomic: false, published: true, range: (317, 4) },
    Type { name: "io.k8s.api.authentication.v1.TokenRequestSpec", go: "v1.TokenRequestSpec", shape: Struct, atomic: false, published: true, range: (321, 3) },
    Type { name: "io.k8s.api.authentication.v1.TokenRequestStatus", go: "v1.TokenRequestStatus", shape: Struct, atomic: false, published: true, range: (324, 2) },
    Type { name: "io.k8s.api.authentication.v1.TokenReview", go: "v1.TokenReview", shape: Struct, atomic: false, published: true, range: (326, 4) },
    Type { name: "io.k8s.api.authentication.v1.TokenReviewSpec", go: "v1.TokenReviewSpec", shape: Struct, atomic: false, published: true, range: (330, 2) },
    Type { name: "io.k8s.api.authentication.v1.TokenReviewStatus", go: "v1.TokenReviewStatus", shape: Struct, atomic: false, published: true, range: (332, 4) },
    Type { name: "io.k8s.api.authentication.v1.UserInfo", go: "v1.UserInfo", shape: Struct, atomic: false, published: true, range: (336, 4) },
    Type { name: "io.k8s.api.authorization.v1.ExtraValue", go: "v1.ExtraValue", shape: Texts, atomic: false, published: false, range: (340, 0) },
    Type { name: "io.k8s.api.authorization.v1.FieldSelectorAttributes", go: "v1.FieldSelectorAttributes", shape: Struct, atomic: false, published: true, range: (340, 2) },
    Type { name: "io.k8s.api.authorization.v1.LabelSelectorAttributes", go: "v1.LabelSelectorAttributes", shape: Struct, atomic: false, published: true, range: (342, 2) },
    Type { name: "io.k8s.api.authorization.v1.LocalSubjectAccessReview", go: "v1.LocalSubjectAccessReview", shape: Struct, atomic: false, published: true, range: (344, 4) },
    Type { name: "io.k8s.api.authorization.v1.NonResourceAttributes", go: "v1.NonResourceAttributes", shape: Struct, atomic: false, published: true, range: (348, 2) },
    Type { name: "io.k8s.api.authorization.v1.NonResourceRule", go: "v1.NonResourceRule", shape: Struct, atomic: false, published: true, range: (350, 2) },
    Type { name: "io.k8s.api.authorization.v1.ResourceAttributes", go: "v1.ResourceAttributes", shape: Struct, atomic: false, published: true, range: (352, 9) },
    Type { name: "io.k8s.api.authorization.v1.ResourceRule", go: "v1.ResourceRule", shape: Struct, atomic: false, published: true, range: (361, 4) },
    Type { name: "io.k8s.api.authorization.v1.SelfSubjectAccessReview", go: "v1.SelfSubjectAccessReview", shape: Struct, atomic: false, published: true, range: (365, 4) },
    Type { name: "io.k8s.api.authorization.v1.SelfSubjectAccessReviewSpec", go: "v1.SelfSubjectAccessReviewSpec", shape: Struct, atomic: false, published: true, range: (369, 2) },
    Type { name: "io.k8s.api.authorization.v1.SelfSubjectRulesReview", go: "v1.SelfSubjectRulesReview", shape: Struct, atomic: false, published: true, range: (371, 4) },
    Type { name: "io.k8s.api.authorization.v1.SelfSubjectRulesReviewSpec", go: "v1.SelfSubjectRulesReviewSpec", shape: Struct, atomic: false, published: true, range: (375, 1) },
    Type { name: "io.k8s.api.authorization.v1.SubjectAccessReview", go: "v1.SubjectAccessReview", shape: Struct, atomic: false, published: true, range: (376, 4) },
    Type { name: "io.k8s.api.authorization.v1.SubjectAccessReviewSpec", go: "v1.SubjectAccessReviewSpec", shape: Struct, atomic: false, published: true, range: (380, 6) },
    Type { name: "io.k8s.api.authorization.v1.SubjectAccessReviewStatus", go: "v1.SubjectAccessReviewStatus", shape: Struct, atomic: false, published: true, range: (386, 4) },
    Type { name: "io.k8s.api.authorization.v1.SubjectRulesReviewStatus", go: "v1.SubjectRulesReviewStatus", shape: Struct, atomic: false, published: true, range: (390, 4) },
    Type { name: "io.k8s.api.autoscaling.v1.CrossVersionObjectReference", go: "v1.CrossVersionObjectReference", shape: Struct, atomic: true, published: true, range: (394, 3) },
    Type { name: "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler", go: "v1.HorizontalPodAutoscaler", shape: Struct, atomic: false, published: true, range: (397, 4) },
    Type { name: "io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerList", go: "v1.HorizontalPodAutoscalerList", shape: Struct, atomic: false, published: true, range: (401, 3) },
    Type { name: "io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerSpec", go: "v1.HorizontalPodAutoscalerSpec", shape: Struct, atomic: false, published: true, range: (404, 4) },
    Type { name: "io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerStatus", go: "v1.HorizontalPodAutoscalerStatus", shape: Struct, atomic: false, published: true, range: (408, 5) },
    Type { name: "io.k8s.api.autoscaling.v1.Scale", go: "v1.Scale", shape: Struct, atomic: false, published: true, range: (413, 4) },
    Type { name: "io.k8s.api.autoscaling.v1.ScaleSpec", go: "v1.ScaleSpec", shape: Struct, atomic: false, published: true, range: (417, 1) },
    Type { name: "io.k8s.api.autoscaling.v1.ScaleStatus", go: "v1.ScaleStatus", shape: Struct, atomic: false, published: true, range: (418, 2) },
    Type { name: "io.k8s.api.autoscaling.v2.ContainerResourceMetricSource", go: "v2.ContainerResourceMetricSource", shape: Struct, atomic: false, published: true, range: (420, 3) },
    Type { name: "io.k8s.api.autoscaling.v2.ContainerResourceMetricStatus", go: "v2.ContainerResourceMetricStatus", shape: Struct, atomic: false, published: true, range: (423, 3) },
    Type { name: "io.k8s.api.autoscaling.v2.CrossVersionObjectReference", go: "v2.CrossVersionObjectReference", shape: Struct, atomic: false, published: true, range: (426, 3) },
    Type { name: "io.k8s.api.autoscaling.v2.ExternalMetricSource", go: "v2.ExternalMetricSource", shape: Struct, atomic: false, published: true, range: (429, 2) },
    Type { name: "io.k8s.api.autoscaling.v2.ExternalMetricStatus", go: "v2.ExternalMetricStatus", shape: Struct, atomic: false, published: true, range: (431, 2) },
    Type { name: "io.k8s.api.autoscaling.v2.HPAScalingPolicy", go: "v2.HPAScalingPolicy", shape: Struct, atomic: false, published: true, range: (433, 3) },
    Type { name: "io.k8s.api.autoscaling.v2.HPAScalingRules", go: "v2.HPAScalingRules", shape: Struct, atomic: false, published: true, range: (436, 4) },
    Type { name: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler", go: "v2.HorizontalPodAutoscaler", shape: Struct, atomic: false, published: true, range: (440, 4) },
    Type { name: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior", go: "v2.HorizontalPodAutoscalerBehavior", shape: Struct, atomic: false, published: true, range: (444, 2) },
    Type { name: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerCondition", go: "v2.HorizontalPodAutoscalerCondition", shape: Struct, atomic: false, published: true, range: (446, 5) },
    Type { name: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerList", go: "v2.HorizontalPodAutoscalerList", shape: Struct, atomic: false, published: true, range: (451, 3) },
    Type { name: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec", go: "v2.HorizontalPodAutoscalerSpec", shape: Struct, atomic: false, published: true, range: (454, 5) },
    Type { name: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus", go: "v2.HorizontalPodAutoscalerStatus", shape: Struct, atomic: false, published: true, range: (459, 6) },
    Type { name: "io.k8s.api.autoscaling.v2.MetricIdentifier", go: "v2.MetricIdentifier", shape: Struct, atomic: false, published: true, range: (465, 2) },
    Type { name: "io.k8s.api.autoscaling.v2.MetricSpec", go: "v2.MetricSpec", shape: Struct, atomic: false, published: true, range: (467, 6) },
    Type { name: "io.k8s.api.autoscaling.v2.MetricStatus", go: "v2.MetricStatus", shape: Struct, atomic: false, published: true, range: (473, 6) },
    Type { name: "io.k8s.api.autoscaling.v2.MetricTarget", go: "v2.MetricTarget", shape: Struct, atomic: false, published: true, range: (479, 4) },
    Type { name: "io.k8s.api.autoscaling.v2.MetricValueStatus", go: "v2.MetricValueStatus", shape: Struct, atomic: false, published: true, range: (483, 3) },
    Type { name: "io.k8s.api.autoscaling.v2.ObjectMetricSource", go: "v2.ObjectMetricSource", shape: Struct, atomic: false, published: true, range: (486, 3) },
    Type { name: "io.k8s.api.autoscaling.v2.ObjectMetricStatus", go: "v2.ObjectMetricStatus", shape: Struct, atomic: false, published: true, range: (489, 3) },
    Type { name: "io.k8s.api.autoscaling.v2.PodsMetricSource", go: "v2.PodsMetricSource", shape: Struct, atomic: false, published: true, range: (492, 2) },
    Type { name: "io.k8s.api.autoscaling.v2.PodsMetricStatus", go: "v2.PodsMetricStatus", shape: Struct, atomic: false, published: true, range: (494, 2) },
    Type { name: "io.k8s.api.autoscaling.v2.ResourceMetricSource", go: "v2.ResourceMetricSource", shape: Struct, atomic: false, published: true, range: (496, 2) },
    Type { name: "io.k8s.api.autoscaling.v2.ResourceMetricStatus", go: "v2.ResourceMetricStatus", shape: Struct, atomic: false, published: true, range: (498, 2) },
    Type { name: "io.k8s.api.batch.v1.CronJob", go: "v1.CronJob", shape: Struct, atomic: false, published: true, range: (500, 4) },
    Type { name: "io.k8s.api.batch.v1.CronJobList", go: "v1.CronJobList", shape: Struct, atomic: false, published: true, range: (504, 3) },
    Type { name: "io.k8s.api.batch.v1.CronJobSpec", go: "v1.CronJobSpec", shape: Struct, atomic: false, published: true, range: (507, 8) },
    Type { name: "io.k8s.api.batch.v1.CronJobStatus", go: "v1.CronJobStatus", shape: Struct, atomic: false, published: true, range: (515, 3) },
    Type { name: "io.k8s.api.batch.v1.Job", go: "v1.Job", shape: Struct, atomic: false, published: true, range: (518, 4) },
    Type { name: "io.k8s.api.batch.v1.JobCondition", go: "v1.JobCondition", shape: Struct, atomic: false, published: true, range: (522, 6) },
    Type { name: "io.k8s.api.batch.v1.JobList", go: "v1.JobList", shape: Struct, atomic: false, published: true, range: (528, 3) },
    Type { name: "io.k8s.api.batch.v1.JobSpec", go: "v1.JobSpec", shape: Struct, atomic: false, published: true, range: (531, 16) },
    Type { name: "io.k8s.api.batch.v1.JobStatus", go: "v1.JobStatus", shape: Struct, atomic: false, published: true, range: (547, 11) },
    Type { name: "io.k8s.api.batch.v1.JobTemplateSpec", go: "v1.JobTemplateSpec", shape: Struct, atomic: false, published: true, range: (558, 2) },
    Type { name: "io.k8s.api.batch.v1.PodFailurePolicy", go: "v1.PodFailurePolicy", shape: Struct, atomic: false, published: true, range: (560, 1) },
    Type { name: "io.k8s.api.batch.v1.PodFailurePolicyOnExitCodesRequirement", go: "v1.PodFailurePolicyOnExitCodesRequirement", shape: Struct, atomic: false, published: true, range: (561, 3) },
    Type { name: "io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern", go: "v1.PodFailurePolicyOnPodConditionsPattern", shape: Struct, atomic: false, published: true, range: (564, 2) },
    Type { name: "io.k8s.api.batch.v1.PodFailurePolicyRule", go: "v1.PodFailurePolicyRule", shape: Struct, atomic: false, published: true, range: (566, 3) },
    Type { name: "io.k8s.api.batch.v1.SuccessPolicy", go: "v1.SuccessPolicy", shape: Struct, atomic: false, published: true, range: (569, 1) },
    Type { name: "io.k8s.api.batch.v1.SuccessPolicyRule", go: "v1.SuccessPolicyRule", shape: Struct, atomic: false, published: true, range: (570, 2) },
    Type { name: "io.k8s.api.batch.v1.UncountedTerminatedPods", go: "v1.UncountedTerminatedPods", shape: Struct, atomic: false, published: true, range: (572, 2) },
    Type { name: "io.k8s.api.certificates.v1.CertificateSigningRequest", go: "v1.CertificateSigningRequest", shape: Struct, atomic: false, published: true, range: (574, 4) },
    Type { name: "io.k8s.api.certificates.v1.CertificateSigningRequestCondition", go: "v1.CertificateSigningRequestCondition", shape: Struct, atomic: false, published: true, range: (578, 6) },
    Type { name: "io.k8s.api.certificates.v1.CertificateSigningRequestList", go: "v1.CertificateSigningRequestList", shape: Struct, atomic: false, published: true, range: (584, 3) },
    Type { name: "io.k8s.api.certificates.v1.CertificateSigningRequestSpec", go: "v1.CertificateSigningRequestSpec", shape: Struct, atomic: false, published: true, range: (587, 8) },
    Type { name: "io.k8s.api.certificates.v1.CertificateSigningRequestStatus", go: "v1.CertificateSigningRequestStatus", shape: Struct, atomic: false, published: true, range: (595, 2) },
    Type { name: "io.k8s.api.certificates.v1.ExtraValue", go: "v1.ExtraValue", shape: Texts, atomic: false, published: false, range: (597, 0) },
    Type { name: "io.k8s.api.coordination.v1.Lease", go: "v1.Lease", shape: Struct, atomic: false, published: true, range: (597, 3) },
    Type { name: "io.k8s.api.coordination.v1.LeaseList", go: "v1.LeaseList", shape: Struct, atomic: false, published: true, range: (600, 3) },
    Type { name: "io.k8s.api.coordination.v1.LeaseSpec", go: "v1.LeaseSpec", shape: Struct, atomic: false, published: true, range: (603, 7) },
    Type { name: "io.k8s.api.core.v1.AWSElasticBlockStoreVolumeSource", go: "v1.AWSElasticBlockStoreVolumeSource", shape: Struct, atomic: false, published: true, range: (610, 4) },
    Type { name: "io.k8s.api.core.v1.Affinity", go: "v1.Affinity", shape: Struct, atomic: false, published: true, range: (614, 3) },
    Type { name: "io.k8s.api.core.v1.AppArmorProfile", go: "v1.AppArmorProfile", shape: Struct, atomic: false, published: true, range: (617, 2) },
    Type { name: "io.k8s.api.core.v1.AttachedVolume", go: "v1.AttachedVolume", shape: Struct, atomic: false, published: true, range: (619, 2) },
    Type { name: "io.k8s.api.core.v1.AzureDiskVolumeSource", go: "v1.AzureDiskVolumeSource", shape: Struct, atomic: false, published: true, range: (621, 6) },
    Type { name: "io.k8s.api.core.v1.AzureFilePersistentVolumeSource", go: "v1.AzureFilePersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (627, 4) },
    Type { name: "io.k8s.api.core.v1.AzureFileVolumeSource", go: "v1.AzureFileVolumeSource", shape: Struct, atomic: false, published: true, range: (631, 3) },
    Type { name: "io.k8s.api.core.v1.Binding", go: "v1.Binding", shape: Struct, atomic: false, published: true, range: (634, 3) },
    Type { name: "io.k8s.api.core.v1.CSIPersistentVolumeSource", go: "v1.CSIPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (637, 10) },
    Type { name: "io.k8s.api.core.v1.CSIVolumeSource", go: "v1.CSIVolumeSource", shape: Struct, atomic: false, published: true, range: (647, 5) },
    Type { name: "io.k8s.api.core.v1.Capabilities", go: "v1.Capabilities", shape: Struct, atomic: false, published: true, range: (652, 2) },
    Type { name: "io.k8s.api.core.v1.CephFSPersistentVolumeSource", go: "v1.CephFSPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (654, 6) },
    Type { name: "io.k8s.api.core.v1.CephFSVolumeSource", go: "v1.CephFSVolumeSource", shape: Struct, atomic: false, published: true, range: (660, 6) },
    Type { name: "io.k8s.api.core.v1.CinderPersistentVolumeSource", go: "v1.CinderPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (666, 4) },
    Type { name: "io.k8s.api.core.v1.CinderVolumeSource", go: "v1.CinderVolumeSource", shape: Struct, atomic: false, published: true, range: (670, 4) },
    Type { name: "io.k8s.api.core.v1.ClientIPConfig", go: "v1.ClientIPConfig", shape: Struct, atomic: false, published: true, range: (674, 1) },
    Type { name: "io.k8s.api.core.v1.ClusterTrustBundleProjection", go: "v1.ClusterTrustBundleProjection", shape: Struct, atomic: false, published: true, range: (675, 5) },
    Type { name: "io.k8s.api.core.v1.ComponentCondition", go: "v1.ComponentCondition", shape: Struct, atomic: false, published: true, range: (680, 4) },
    Type { name: "io.k8s.api.core.v1.ComponentStatus", go: "v1.ComponentStatus", shape: Struct, atomic: false, published: true, range: (684, 3) },
    Type { name: "io.k8s.api.core.v1.ComponentStatusList", go: "v1.ComponentStatusList", shape: Struct, atomic: false, published: true, range: (687, 3) },
    Type { name: "io.k8s.api.core.v1.ConfigMap", go: "v1.ConfigMap", shape: Struct, atomic: false, published: true, range: (690, 5) },
    Type { name: "io.k8s.api.core.v1.ConfigMapEnvSource", go: "v1.ConfigMapEnvSource", shape: Struct, atomic: false, published: true, range: (695, 2) },
    Type { name: "io.k8s.api.core.v1.ConfigMapKeySelector", go: "v1.ConfigMapKeySelector", shape: Struct, atomic: true, published: true, range: (697, 3) },
    Type { name: "io.k8s.api.core.v1.ConfigMapList", go: "v1.ConfigMapList", shape: Struct, atomic: false, published: true, range: (700, 3) },
    Type { name: "io.k8s.api.core.v1.ConfigMapNodeConfigSource", go: "v1.ConfigMapNodeConfigSource", shape: Struct, atomic: false, published: true, range: (703, 5) },
    Type { name: "io.k8s.api.core.v1.ConfigMapProjection", go: "v1.ConfigMapProjection", shape: Struct, atomic: false, published: true, range: (708, 3) },
    Type { name: "io.k8s.api.core.v1.ConfigMapVolumeSource", go: "v1.ConfigMapVolumeSource", shape: Struct, atomic: false, published: true, range: (711, 4) },
    Type { name: "io.k8s.api.core.v1.Container", go: "v1.Container", shape: Struct, atomic: false, published: true, range: (715, 25) },
    Type { name: "io.k8s.api.core.v1.ContainerExtendedResourceRequest", go: "v1.ContainerExtendedResourceRequest", shape: Struct, atomic: false, published: true, range: (740, 3) },
    Type { name: "io.k8s.api.core.v1.ContainerImage", go: "v1.ContainerImage", shape: Struct, atomic: false, published: true, range: (743, 2) },
    Type { name: "io.k8s.api.core.v1.ContainerPort", go: "v1.ContainerPort", shape: Struct, atomic: false, published: true, range: (745, 5) },
    Type { name: "io.k8s.api.core.v1.ContainerResizePolicy", go: "v1.ContainerResizePolicy", shape: Struct, atomic: false, published: true, range: (750, 2) },
    Type { name: "io.k8s.api.core.v1.ContainerRestartRule", go: "v1.ContainerRestartRule", shape: Struct, atomic: false, published: true, range: (752, 2) },
    Type { name: "io.k8s.api.core.v1.ContainerRestartRuleOnExitCodes", go: "v1.ContainerRestartRuleOnExitCodes", shape: Struct, atomic: false, published: true, range: (754, 2) },
    Type { name: "io.k8s.api.core.v1.ContainerState", go: "v1.ContainerState", shape: Struct, atomic: false, published: true, range: (756, 3) },
    Type { name: "io.k8s.api.core.v1.ContainerStateRunning", go: "v1.ContainerStateRunning", shape: Struct, atomic: false, published: true, range: (759, 1) },
    Type { name: "io.k8s.api.core.v1.ContainerStateTerminated", go: "v1.ContainerStateTerminated", shape: Struct, atomic: false, published: true, range: (760, 7) },
    Type { name: "io.k8s.api.core.v1.ContainerStateWaiting", go: "v1.ContainerStateWaiting", shape: Struct, atomic: false, published: true, range: (767, 2) },
    Type { name: "io.k8s.api.core.v1.ContainerStatus", go: "v1.ContainerStatus", shape: Struct, atomic: false, published: true, range: (769, 15) },
    Type { name: "io.k8s.api.core.v1.ContainerUser", go: "v1.ContainerUser", shape: Struct, atomic: false, published: true, range: (784, 1) },
    Type { name: "io.k8s.api.core.v1.DaemonEndpoint", go: "v1.DaemonEndpoint", shape: Struct, atomic: false, published: true, range: (785, 1) },
    Type { name: "io.k8s.api.core.v1.DownwardAPIProjection", go: "v1.DownwardAPIProjection", shape: Struct, atomic: false, published: true, range: (786, 1) },
    Type { name: "io.k8s.api.core.v1.DownwardAPIVolumeFile", go: "v1.DownwardAPIVolumeFile", shape: Struct, atomic: false, published: true, range: (787, 4) },
    Type { name: "io.k8s.api.core.v1.DownwardAPIVolumeSource", go: "v1.DownwardAPIVolumeSource", shape: Struct, atomic: false, published: true, range: (791, 2) },
    Type { name: "io.k8s.api.core.v1.EmptyDirVolumeSource", go: "v1.EmptyDirVolumeSource", shape: Struct, atomic: false, published: true, range: (793, 2) },
    Type { name: "io.k8s.api.core.v1.EndpointAddress", go: "v1.EndpointAddress", shape: Struct, atomic: true, published: true, range: (795, 4) },
    Type { name: "io.k8s.api.core.v1.EndpointPort", go: "v1.EndpointPort", shape: Struct, atomic: true, published: true, range: (799, 4) },
    Type { name: "io.k8s.api.core.v1.EndpointSubset", go: "v1.EndpointSubset", shape: Struct, atomic: false, published: true, range: (803, 3) },
    Type { name: "io.k8s.api.core.v1.Endpoints", go: "v1.Endpoints", shape: Struct, atomic: false, published: true, range: (806, 3) },
    Type { name: "io.k8s.api.core.v1.EndpointsList", go: "v1.EndpointsList", shape: Struct, atomic: false, published: true, range: (809, 3) },
    Type { name: "io.k8s.api.core.v1.EnvFromSource", go: "v1.EnvFromSource", shape: Struct, atomic: false, published: true, range: (812, 3) },
    Type { name: "io.k8s.api.core.v1.EnvVar", go: "v1.EnvVar", shape: Struct, atomic: false, published: true, range: (815, 3) },
    Type { name: "io.k8s.api.core.v1.EnvVarSource", go: "v1.EnvVarSource", shape: Struct, atomic: false, published: true, range: (818, 5) },
    Type { name: "io.k8s.api.core.v1.EphemeralContainer", go: "v1.EphemeralContainer", shape: Struct, atomic: false, published: true, range: (823, 2) },
    Type { name: "io.k8s.api.core.v1.EphemeralContainerCommon", go: "v1.EphemeralContainerCommon", shape: Struct, atomic: false, published: false, range: (825, 25) },
    Type { name: "io.k8s.api.core.v1.EphemeralVolumeSource", go: "v1.EphemeralVolumeSource", shape: Struct, atomic: false, published: true, range: (850, 1) },
    Type { name: "io.k8s.api.core.v1.Event", go: "v1.Event", shape: Struct, atomic: false, published: true, range: (851, 16) },
    Type { name: "io.k8s.api.core.v1.EventList", go: "v1.EventList", shape: Struct, atomic: false, published: true, range: (867, 3) },
    Type { name: "io.k8s.api.core.v1.EventSeries", go: "v1.EventSeries", shape: Struct, atomic: false, published: true, range: (870, 2) },
    Type { name: "io.k8s.api.core.v1.EventSource", go: "v1.EventSource", shape: Struct, atomic: false, published: true, range: (872, 2) },
    Type { name: "io.k8s.api.core.v1.ExecAction", go: "v1.ExecAction", shape: Struct, atomic: false, published: true, range: (874, 1) },
    Type { name: "io.k8s.api.core.v1.FCVolumeSource", go: "v1.FCVolumeSource", shape: Struct, atomic: false, published: true, range: (875, 5) },
    Type { name: "io.k8s.api.core.v1.FileKeySelector", go: "v1.FileKeySelector", shape: Struct, atomic: true, published: true, range: (880, 4) },
    Type { name: "io.k8s.api.core.v1.FlexPersistentVolumeSource", go: "v1.FlexPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (884, 5) },
    Type { name: "io.k8s.api.core.v1.FlexVolumeSource", go: "v1.FlexVolumeSource", shape: Struct, atomic: false, published: true, range: (889, 5) },
    Type { name: "io.k8s.api.core.v1.FlockerVolumeSource", go: "v1.FlockerVolumeSource", shape: Struct, atomic: false, published: true, range: (894, 2) },
    Type { name: "io.k8s.api.core.v1.GCEPersistentDiskVolumeSource", go: "v1.GCEPersistentDiskVolumeSource", shape: Struct, atomic: false, published: true, range: (896, 4) },
    Type { name: "io.k8s.api.core.v1.GRPCAction", go: "v1.GRPCAction", shape: Struct, atomic: false, published: true, range: (900, 2) },
    Type { name: "io.k8s.api.core.v1.GitRepoVolumeSource", go: "v1.GitRepoVolumeSource", shape: Struct, atomic: false, published: true, range: (902, 3) },
    Type { name: "io.k8s.api.core.v1.GlusterfsPersistentVolumeSource", go: "v1.GlusterfsPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (905, 4) },
    Type { name: "io.k8s.api.core.v1.GlusterfsVolumeSource", go: "v1.GlusterfsVolumeSource", shape: Struct, atomic: false, published: true, range: (909, 3) },
    Type { name: "io.k8s.api.core.v1.HTTPGetAction", go: "v1.HTTPGetAction", shape: Struct, atomic: false, published: true, range: (912, 5) },
    Type { name: "io.k8s.api.core.v1.HTTPHeader", go: "v1.HTTPHeader", shape: Struct, atomic: false, published: true, range: (917, 2) },
    Type { name: "io.k8s.api.core.v1.HostAlias", go: "v1.HostAlias", shape: Struct, atomic: false, published: true, range: (919, 2) },
    Type { name: "io.k8s.api.core.v1.HostIP", go: "v1.HostIP", shape: Struct, atomic: false, published: true, range: (921, 1) },
    Type { name: "io.k8s.api.core.v1.HostPathVolumeSource", go: "v1.HostPathVolumeSource", shape: Struct, atomic: false, published: true, range: (922, 2) },
    Type { name: "io.k8s.api.core.v1.ISCSIPersistentVolumeSource", go: "v1.ISCSIPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (924, 11) },
    Type { name: "io.k8s.api.core.v1.ISCSIVolumeSource", go: "v1.ISCSIVolumeSource", shape: Struct, atomic: false, published: true, range: (935, 11) },
    Type { name: "io.k8s.api.core.v1.ImageVolumeSource", go: "v1.ImageVolumeSource", shape: Struct, atomic: false, published: true, range: (946, 2) },
    Type { name: "io.k8s.api.core.v1.ImageVolumeStatus", go: "v1.ImageVolumeStatus", shape: Struct, atomic: false, published: true, range: (948, 1) },
    Type { name: "io.k8s.api.core.v1.KeyToPath", go: "v1.KeyToPath", shape: Struct, atomic: false, published: true, range: (949, 3) },
    Type { name: "io.k8s.api.core.v1.Lifecycle", go: "v1.Lifecycle", shape: Struct, atomic: false, published: true, range: (952, 3) },
    Type { name: "io.k8s.api.core.v1.LifecycleHandler", go: "v1.LifecycleHandler", shape: Struct, atomic: false, published: true, range: (955, 4) },
    Type { name: "io.k8s.api.core.v1.LimitRange", go: "v1.LimitRange", shape: Struct, atomic: false, published: true, range: (959, 3) },
    Type { name: "io.k8s.api.core.v1.LimitRangeItem", go: "v1.LimitRangeItem", shape: Struct, atomic: false, published: true, range: (962, 6) },
    Type { name: "io.k8s.api.core.v1.LimitRangeList", go: "v1.LimitRangeList", shape: Struct, atomic: false, published: true, range: (968, 3) },
    Type { name: "io.k8s.api.core.v1.LimitRangeSpec", go: "v1.LimitRangeSpec", shape: Struct, atomic: false, published: true, range: (971, 1) },
    Type { name: "io.k8s.api.core.v1.LinuxContainerUser", go: "v1.LinuxContainerUser", shape: Struct, atomic: false, published: true, range: (972, 3) },
    Type { name: "io.k8s.api.core.v1.LoadBalancerIngress", go: "v1.LoadBalancerIngress", shape: Struct, atomic: false, published: true, range: (975, 4) },
    Type { name: "io.k8s.api.core.v1.LoadBalancerStatus", go: "v1.LoadBalancerStatus", shape: Struct, atomic: false, published: true, range: (979, 1) },
    Type { name: "io.k8s.api.core.v1.LocalObjectReference", go: "v1.LocalObjectReference", shape: Struct, atomic: true, published: true, range: (980, 1) },
    Type { name: "io.k8s.api.core.v1.LocalVolumeSource", go: "v1.LocalVolumeSource", shape: Struct, atomic: false, published: true, range: (981, 2) },
    Type { name: "io.k8s.api.core.v1.ModifyVolumeStatus", go: "v1.ModifyVolumeStatus", shape: Struct, atomic: false, published: true, range: (983, 2) },
    Type { name: "io.k8s.api.core.v1.NFSVolumeSource", go: "v1.NFSVolumeSource", shape: Struct, atomic: false, published: true, range: (985, 3) },
    Type { name: "io.k8s.api.core.v1.Namespace", go: "v1.Namespace", shape: Struct, atomic: false, published: true, range: (988, 4) },
    Type { name: "io.k8s.api.core.v1.NamespaceCondition", go: "v1.NamespaceCondition", shape: Struct, atomic: false, published: true, range: (992, 5) },
    Type { name: "io.k8s.api.core.v1.NamespaceList", go: "v1.NamespaceList", shape: Struct, atomic: false, published: true, range: (997, 3) },
    Type { name: "io.k8s.api.core.v1.NamespaceSpec", go: "v1.NamespaceSpec", shape: Struct, atomic: false, published: true, range: (1000, 1) },
    Type { name: "io.k8s.api.core.v1.NamespaceStatus", go: "v1.NamespaceStatus", shape: Struct, atomic: false, published: true, range: (1001, 2) },
    Type { name: "io.k8s.api.core.v1.Node", go: "v1.Node", shape: Struct, atomic: false, published: true, range: (1003, 4) },
    Type { name: "io.k8s.api.core.v1.NodeAddress", go: "v1.NodeAddress", shape: Struct, atomic: false, published: true, range: (1007, 2) },
    Type { name: "io.k8s.api.core.v1.NodeAffinity", go: "v1.NodeAffinity", shape: Struct, atomic: false, published: true, range: (1009, 2) },
    Type { name: "io.k8s.api.core.v1.NodeAllocatableResourceClaimStatus", go: "v1.NodeAllocatableResourceClaimStatus", shape: Struct, atomic: false, published: true, range: (1011, 3) },
    Type { name: "io.k8s.api.core.v1.NodeCondition", go: "v1.NodeCondition", shape: Struct, atomic: false, published: true, range: (1014, 6) },
    Type { name: "io.k8s.api.core.v1.NodeConfigSource", go: "v1.NodeConfigSource", shape: Struct, atomic: false, published: true, range: (1020, 1) },
    Type { name: "io.k8s.api.core.v1.NodeConfigStatus", go: "v1.NodeConfigStatus", shape: Struct, atomic: false, published: true, range: (1021, 4) },
    Type { name: "io.k8s.api.core.v1.NodeDaemonEndpoints", go: "v1.NodeDaemonEndpoints", shape: Struct, atomic: false, published: true, range: (1025, 1) },
    Type { name: "io.k8s.api.core.v1.NodeFeatures", go: "v1.NodeFeatures", shape: Struct, atomic: false, published: true, range: (1026, 1) },
    Type { name: "io.k8s.api.core.v1.NodeList", go: "v1.NodeList", shape: Struct, atomic: false, published: true, range: (1027, 3) },
    Type { name: "io.k8s.api.core.v1.NodeProxyOptions", go: "v1.NodeProxyOptions", shape: Struct, atomic: false, published: false, range: (1030, 2) },
    Type { name: "io.k8s.api.core.v1.NodeRuntimeHandler", go: "v1.NodeRuntimeHandler", shape: Struct, atomic: false, published: true, range: (1032, 2) },
    Type { name: "io.k8s.api.core.v1.NodeRuntimeHandlerFeatures", go: "v1.NodeRuntimeHandlerFeatures", shape: Struct, atomic: false, published: true, range: (1034, 2) },
    Type { name: "io.k8s.api.core.v1.NodeSelector", go: "v1.NodeSelector", shape: Struct, atomic: true, published: true, range: (1036, 1) },
    Type { name: "io.k8s.api.core.v1.NodeSelectorRequirement", go: "v1.NodeSelectorRequirement", shape: Struct, atomic: false, published: true, range: (1037, 3) },
    Type { name: "io.k8s.api.core.v1.NodeSelectorTerm", go: "v1.NodeSelectorTerm", shape: Struct, atomic: true, published: true, range: (1040, 2) },
    Type { name: "io.k8s.api.core.v1.NodeSpec", go: "v1.NodeSpec", shape: Struct, atomic: false, published: true, range: (1042, 7) },
    Type { name: "io.k8s.api.core.v1.NodeStatus", go: "v1.NodeStatus", shape: Struct, atomic: false, published: true, range: (1049, 14) },
    Type { name: "io.k8s.api.core.v1.NodeSwapStatus", go: "v1.NodeSwapStatus", shape: Struct, atomic: false, published: true, range: (1063, 1) },
    Type { name: "io.k8s.api.core.v1.NodeSystemInfo", go: "v1.NodeSystemInfo", shape: Struct, atomic: false, published: true, range: (1064, 11) },
    Type { name: "io.k8s.api.core.v1.ObjectFieldSelector", go: "v1.ObjectFieldSelector", shape: Struct, atomic: true, published: true, range: (1075, 2) },
    Type { name: "io.k8s.api.core.v1.ObjectReference", go: "v1.ObjectReference", shape: Struct, atomic: true, published: true, range: (1077, 7) },
    Type { name: "io.k8s.api.core.v1.PersistentVolume", go: "v1.PersistentVolume", shape: Struct, atomic: false, published: true, range: (1084, 4) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeClaim", go: "v1.PersistentVolumeClaim", shape: Struct, atomic: false, published: true, range: (1088, 4) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeClaimCondition", go: "v1.PersistentVolumeClaimCondition", shape: Struct, atomic: false, published: true, range: (1092, 6) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeClaimList", go: "v1.PersistentVolumeClaimList", shape: Struct, atomic: false, published: true, range: (1098, 3) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeClaimSpec", go: "v1.PersistentVolumeClaimSpec", shape: Struct, atomic: false, published: true, range: (1101, 9) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeClaimStatus", go: "v1.PersistentVolumeClaimStatus", shape: Struct, atomic: false, published: true, range: (1110, 8) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeClaimTemplate", go: "v1.PersistentVolumeClaimTemplate", shape: Struct, atomic: false, published: true, range: (1118, 2) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeClaimVolumeSource", go: "v1.PersistentVolumeClaimVolumeSource", shape: Struct, atomic: false, published: true, range: (1120, 2) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeList", go: "v1.PersistentVolumeList", shape: Struct, atomic: false, published: true, range: (1122, 3) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeSource", go: "v1.PersistentVolumeSource", shape: Struct, atomic: false, published: false, range: (1125, 22) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeSpec", go: "v1.PersistentVolumeSpec", shape: Struct, atomic: false, published: true, range: (1147, 10) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeStatus", go: "v1.PersistentVolumeStatus", shape: Struct, atomic: false, published: true, range: (1157, 4) },
    Type { name: "io.k8s.api.core.v1.PhotonPersistentDiskVolumeSource", go: "v1.PhotonPersistentDiskVolumeSource", shape: Struct, atomic: false, published: true, range: (1161, 2) },
    Type { name: "io.k8s.api.core.v1.Pod", go: "v1.Pod", shape: Struct, atomic: false, published: true, range: (1163, 4) },
    Type { name: "io.k8s.api.core.v1.PodAffinity", go: "v1.PodAffinity", shape: Struct, atomic: false, published: true, range: (1167, 2) },
    Type { name: "io.k8s.api.core.v1.PodAffinityTerm", go: "v1.PodAffinityTerm", shape: Struct, atomic: false, published: true, range: (1169, 6) },
    Type { name: "io.k8s.api.core.v1.PodAntiAffinity", go: "v1.PodAntiAffinity", shape: Struct, atomic: false, published: true, range: (1175, 2) },
    Type { name: "io.k8s.api.core.v1.PodAttachOptions", go: "v1.PodAttachOptions", shape: Struct, atomic: false, published: false, range: (1177, 6) },
    Type { name: "io.k8s.api.core.v1.PodCertificateProjection", go: "v1.PodCertificateProjection", shape: Struct, atomic: false, published: true, range: (1183, 7) },
    Type { name: "io.k8s.api.core.v1.PodCondition", go: "v1.PodCondition", shape: Struct, atomic: false, published: true, range: (1190, 7) },
    Type { name: "io.k8s.api.core.v1.PodDNSConfig", go: "v1.PodDNSConfig", shape: Struct, atomic: false, published: true, range: (1197, 3) },
    Type { name: "io.k8s.api.core.v1.PodDNSConfigOption", go: "v1.PodDNSConfigOption", shape: Struct, atomic: false, published: true, range: (1200, 2) },
    Type { name: "io.k8s.api.core.v1.PodExecOptions", go: "v1.PodExecOptions", shape: Struct, atomic: false, published: false, range: (1202, 7) },
    Type { name: "io.k8s.api.core.v1.PodExtendedResourceClaimStatus", go: "v1.PodExtendedResourceClaimStatus", shape: Struct, atomic: false, published: true, range: (1209, 2) },
    Type { name: "io.k8s.api.core.v1.PodIP", go: "v1.PodIP", shape: Struct, atomic: false, published: true, range: (1211, 1) },
    Type { name: "io.k8s.api.core.v1.PodList", go: "v1.PodList", shape: Struct, atomic: false, published: true, range: (1212, 3) },
    Type { name: "io.k8s.api.core.v1.PodOS", go: "v1.PodOS", shape: Struct, atomic: false, published: true, range: (1215, 1) },
    Type { name: "io.k8s.api.core.v1.PodPortForwardOptions", go: "v1.PodPortForwardOptions", shape: Struct, atomic: false, published: false, range: (1216, 2) },
    Type { name: "io.k8s.api.core.v1.PodProxyOptions", go: "v1.PodProxyOptions", shape: Struct, atomic: false, published: false, range: (1218, 2) },
    Type { name: "io.k8s.api.core.v1.PodReadinessGate", go: "v1.PodReadinessGate", shape: Struct, atomic: false, published: true, range: (1220, 1) },
    Type { name: "io.k8s.api.core.v1.PodResourceClaim", go: "v1.PodResourceClaim", shape: Struct, atomic: false, published: true, range: (1221, 3) },
    Type { name: "io.k8s.api.core.v1.PodResourceClaimStatus", go: "v1.PodResourceClaimStatus", shape: Struct, atomic: false, published: true, range: (1224, 2) },
    Type { name: "io.k8s.api.core.v1.PodSchedulingGate", go: "v1.PodSchedulingGate", shape: Struct, atomic: false, published: true, range: (1226, 1) },
    Type { name: "io.k8s.api.core.v1.PodSchedulingGroup", go: "v1.PodSchedulingGroup", shape: Struct, atomic: false, published: true, range: (1227, 1) },
    Type { name: "io.k8s.api.core.v1.PodSecurityContext", go: "v1.PodSecurityContext", shape: Struct, atomic: false, published: true, range: (1228, 13) },
    Type { name: "io.k8s.api.core.v1.PodSpec", go: "v1.PodSpec", shape: Struct, atomic: false, published: true, range: (1241, 42) },
    Type { name: "io.k8s.api.core.v1.PodStatus", go: "v1.PodStatus", shape: Struct, atomic: false, published: true, range: (1283, 21) },
    Type { name: "io.k8s.api.core.v1.PodTemplate", go: "v1.PodTemplate", shape: Struct, atomic: false, published: true, range: (1304, 3) },
    Type { name: "io.k8s.api.core.v1.PodTemplateList", go: "v1.PodTemplateList", shape: Struct, atomic: false, published: true, range: (1307, 3) },
    Type { name: "io.k8s.api.core.v1.PodTemplateSpec", go: "v1.PodTemplateSpec", shape: Struct, atomic: false, published: true, range: (1310, 2) },
    Type { name: "io.k8s.api.core.v1.PortStatus", go: "v1.PortStatus", shape: Struct, atomic: false, published: true, range: (1312, 3) },
    Type { name: "io.k8s.api.core.v1.PortworxVolumeSource", go: "v1.PortworxVolumeSource", shape: Struct, atomic: false, published: true, range: (1315, 3) },
    Type { name: "io.k8s.api.core.v1.PreferredSchedulingTerm", go: "v1.PreferredSchedulingTerm", shape: Struct, atomic: false, published: true, range: (1318, 2) },
    Type { name: "io.k8s.api.core.v1.Probe", go: "v1.Probe", shape: Struct, atomic: false, published: true, range: (1320, 7) },
    Type { name: "io.k8s.api.core.v1.ProbeHandler", go: "v1.ProbeHandler", shape: Struct, atomic: false, published: false, range: (1327, 4) },
    Type { name: "io.k8s.api.core.v1.ProjectedVolumeSource", go: "v1.ProjectedVolumeSource", shape: Struct, atomic: false, published: true, range: (1331, 2) },
    Type { name: "io.k8s.api.core.v1.QuobyteVolumeSource", go: "v1.QuobyteVolumeSource", shape: Struct, atomic: false, published: true, range: (1333, 6) },
    Type { name: "io.k8s.api.core.v1.RBDPersistentVolumeSource", go: "v1.RBDPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (1339, 8) },
    Type { name: "io.k8s.api.core.v1.RBDVolumeSource", go: "v1.RBDVolumeSource", shape: Struct, atomic: false, published: true, range: (1347, 8) },
    Type { name: "io.k8s.api.core.v1.ReplicationController", go: "v1.ReplicationController", shape: Struct, atomic: false, published: true, range: (1355, 4) },
    Type { name: "io.k8s.api.core.v1.ReplicationControllerCondition", go: "v1.ReplicationControllerCondition", shape: Struct, atomic: false, published: true, range: (1359, 5) },
    Type { name: "io.k8s.api.core.v1.ReplicationControllerList", go: "v1.ReplicationControllerList", shape: Struct, atomic: false, published: true, range: (1364, 3) },
    Type { name: "io.k8s.api.core.v1.ReplicationControllerSpec", go: "v1.ReplicationControllerSpec", shape: Struct, atomic: false, published: true, range: (1367, 4) },
    Type { name: "io.k8s.api.core.v1.ReplicationControllerStatus", go: "v1.ReplicationControllerStatus", shape: Struct, atomic: false, published: true, range: (1371, 6) },
    Type { name: "io.k8s.api.core.v1.ResourceClaim", go: "v1.ResourceClaim", shape: Struct, atomic: false, published: true, range: (1377, 2) },
    Type { name: "io.k8s.api.core.v1.ResourceFieldSelector", go: "v1.ResourceFieldSelector", shape: Struct, atomic: true, published: true, range: (1379, 3) },
    Type { name: "io.k8s.api.core.v1.ResourceHealth", go: "v1.ResourceHealth", shape: Struct, atomic: false, published: true, range: (1382, 3) },
    Type { name: "io.k8s.api.core.v1.ResourceQuota", go: "v1.ResourceQuota", shape: Struct, atomic: false, published: true, range: (1385, 4) },
    Type { name: "io.k8s.api.core.v1.ResourceQuotaList", go: "v1.ResourceQuotaList", shape: Struct, atomic: false, published: true, range: (1389, 3) },
    Type { name: "io.k8s.api.core.v1.ResourceQuotaSpec", go: "v1.ResourceQuotaSpec", shape: Struct, atomic: false, published: true, range: (1392, 3) },
    Type { name: "io.k8s.api.core.v1.ResourceQuotaStatus", go: "v1.ResourceQuotaStatus", shape: Struct, atomic: false, published: true, range: (1395, 2) },
    Type { name: "io.k8s.api.core.v1.ResourceRequirements", go: "v1.ResourceRequirements", shape: Struct, atomic: false, published: true, range: (1397, 3) },
    Type { name: "io.k8s.api.core.v1.ResourceStatus", go: "v1.ResourceStatus", shape: Struct, atomic: false, published: true, range: (1400, 2) },
    Type { name: "io.k8s.api.core.v1.SELinuxOptions", go: "v1.SELinuxOptions", shape: Struct, atomic: false, published: true, range: (1402, 4) },
    Type { name: "io.k8s.api.core.v1.ScaleIOPersistentVolumeSource", go: "v1.ScaleIOPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (1406, 10) },
    Type { name: "io.k8s.api.core.v1.ScaleIOVolumeSource", go: "v1.ScaleIOVolumeSource", shape: Struct, atomic: false, published: true, range: (1416, 10) },
    Type { name: "io.k8s.api.core.v1.ScopeSelector", go: "v1.ScopeSelector", shape: Struct, atomic: true, published: true, range: (1426, 1) },
    Type { name: "io.k8s.api.core.v1.ScopedResourceSelectorRequirement", go: "v1.ScopedResourceSelectorRequirement", shape: Struct, atomic: false, published: true, range: (1427, 3) },
    Type { name: "io.k8s.api.core.v1.SeccompProfile", go: "v1.SeccompProfile", shape: Struct, atomic: false, published: true, range: (1430, 2) },
    Type { name: "io.k8s.api.core.v1.Secret", go: "v1.Secret", shape: Struct, atomic: false, published: true, range: (1432, 6) },
    Type { name: "io.k8s.api.core.v1.SecretEnvSource", go: "v1.SecretEnvSource", shape: Struct, atomic: false, published: true, range: (1438, 2) },
    Type { name: "io.k8s.api.core.v1.SecretKeySelector", go: "v1.SecretKeySelector", shape: Struct, atomic: true, published: true, range: (1440, 3) },
    Type { name: "io.k8s.api.core.v1.SecretList", go: "v1.SecretList", shape: Struct, atomic: false, published: true, range: (1443, 3) },
    Type { name: "io.k8s.api.core.v1.SecretProjection", go: "v1.SecretProjection", shape: Struct, atomic: false, published: true, range: (1446, 3) },
    Type { name: "io.k8s.api.core.v1.SecretReference", go: "v1.SecretReference", shape: Struct, atomic: true, published: true, range: (1449, 2) },
    Type { name: "io.k8s.api.core.v1.SecretVolumeSource", go: "v1.SecretVolumeSource", shape: Struct, atomic: false, published: true, range: (1451, 4) },
    Type { name: "io.k8s.api.core.v1.SecurityContext", go: "v1.SecurityContext", shape: Struct, atomic: false, published: true, range: (1455, 12) },
    Type { name: "io.k8s.api.core.v1.SerializedReference", go: "v1.SerializedReference", shape: Struct, atomic: false, published: false, range: (1467, 2) },
    Type { name: "io.k8s.api.core.v1.Service", go: "v1.Service", shape: Struct, atomic: false, published: true, range: (1469, 4) },
    Type { name: "io.k8s.api.core.v1.ServiceAccount", go: "v1.ServiceAccount", shape: Struct, atomic: false, published: true, range: (1473, 5) },
    Type { name: "io.k8s.api.core.v1.ServiceAccountList", go: "v1.ServiceAccountList", shape: Struct, atomic: false, published: true, range: (1478, 3) },
    Type { name: "io.k8s.api.core.v1.ServiceAccountTokenProjection", go: "v1.ServiceAccountTokenProjection", shape: Struct, atomic: false, published: true, range: (1481, 3) },
    Type { name: "io.k8s.api.core.v1.ServiceList", go: "v1.ServiceList", shape: Struct, atomic: false, published: true, range: (1484, 3) },
    Type { name: "io.k8s.api.core.v1.ServicePort", go: "v1.ServicePort", shape: Struct, atomic: false, published: true, range: (1487, 6) },
    Type { name: "io.k8s.api.core.v1.ServiceProxyOptions", go: "v1.ServiceProxyOptions", shape: Struct, atomic: false, published: false, range: (1493, 2) },
    Type { name: "io.k8s.api.core.v1.ServiceSpec", go: "v1.ServiceSpec", shape: Struct, atomic: false, published: true, range: (1495, 20) },
    Type { name: "io.k8s.api.core.v1.ServiceStatus", go: "v1.ServiceStatus", shape: Struct, atomic: false, published: true, range: (1515, 2) },
    Type { name: "io.k8s.api.core.v1.SessionAffinityConfig", go: "v1.SessionAffinityConfig", shape: Struct, atomic: false, published: true, range: (1517, 1) },
    Type { name: "io.k8s.api.core.v1.SleepAction", go: "v1.SleepAction", shape: Struct, atomic: false, published: true, range: (1518, 1) },
    Type { name: "io.k8s.api.core.v1.StorageOSPersistentVolumeSource", go: "v1.StorageOSPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (1519, 5) },
    Type { name: "io.k8s.api.core.v1.StorageOSVolumeSource", go: "v1.StorageOSVolumeSource", shape: Struct, atomic: false, published: true, range: (1524, 5) },
    Type { name: "io.k8s.api.core.v1.Sysctl", go: "v1.Sysctl", shape: Struct, atomic: false, published: true, range: (1529, 2) },
    Type { name: "io.k8s.api.core.v1.TCPSocketAction", go: "v1.TCPSocketAction", shape: Struct, atomic: false, published: true, range: (1531, 2) },
    Type { name: "io.k8s.api.core.v1.Taint", go: "v1.Taint", shape: Struct, atomic: false, published: true, range: (1533, 4) },
    Type { name: "io.k8s.api.core.v1.Toleration", go: "v1.Toleration", shape: Struct, atomic: false, published: true, range: (1537, 5) },
    Type { name: "io.k8s.api.core.v1.TopologySelectorLabelRequirement", go: "v1.TopologySelectorLabelRequirement", shape: Struct, atomic: false, published: true, range: (1542, 2) },
    Type { name: "io.k8s.api.core.v1.TopologySelectorTerm", go: "v1.TopologySelectorTerm", shape: Struct, atomic: true, published: true, range: (1544, 1) },
    Type { name: "io.k8s.api.core.v1.TopologySpreadConstraint", go: "v1.TopologySpreadConstraint", shape: Struct, atomic: false, published: true, range: (1545, 8) },
    Type { name: "io.k8s.api.core.v1.TypedLocalObjectReference", go: "v1.TypedLocalObjectReference", shape: Struct, atomic: true, published: true, range: (1553, 3) },
    Type { name: "io.k8s.api.core.v1.TypedObjectReference", go: "v1.TypedObjectReference", shape: Struct, atomic: false, published: true, range: (1556, 4) },
    Type { name: "io.k8s.api.core.v1.Volume", go: "v1.Volume", shape: Struct, atomic: false, published: true, range: (1560, 2) },
    Type { name: "io.k8s.api.core.v1.VolumeDevice", go: "v1.VolumeDevice", shape: Struct, atomic: false, published: true, range: (1562, 2) },
    Type { name: "io.k8s.api.core.v1.VolumeMount", go: "v1.VolumeMount", shape: Struct, atomic: false, published: true, range: (1564, 7) },
    Type { name: "io.k8s.api.core.v1.VolumeMountStatus", go: "v1.VolumeMountStatus", shape: Struct, atomic: false, published: true, range: (1571, 5) },
    Type { name: "io.k8s.api.core.v1.VolumeNodeAffinity", go: "v1.VolumeNodeAffinity", shape: Struct, atomic: false, published: true, range: (1576, 1) },
    Type { name: "io.k8s.api.core.v1.VolumeProjection", go: "v1.VolumeProjection", shape: Struct, atomic: false, published: true, range: (1577, 6) },
    Type { name: "io.k8s.api.core.v1.VolumeResourceRequirements", go: "v1.VolumeResourceRequirements", shape: Struct, atomic: false, published: true, range: (1583, 2) },
    Type { name: "io.k8s.api.core.v1.VolumeSource", go: "v1.VolumeSource", shape: Struct, atomic: false, published: false, range: (1585, 30) },
    Type { name: "io.k8s.api.core.v1.VolumeStatus", go: "v1.VolumeStatus", shape: Struct, atomic: false, published: true, range: (1615, 1) },
    Type { name: "io.k8s.api.core.v1.VsphereVirtualDiskVolumeSource", go: "v1.VsphereVirtualDiskVolumeSource", shape: Struct, atomic: false, published: true, range: (1616, 4) },
    Type { name: "io.k8s.api.core.v1.WeightedPodAffinityTerm", go: "v1.WeightedPodAffinityTerm", shape: Struct, atomic: false, published: true, range: (1620, 2) },
    Type { name: "io.k8s.api.core.v1.WindowsSecurityContextOptions", go: "v1.WindowsSecurityContextOptions", shape: Struct, atomic: false, published: true, range: (1622, 4) },
    Type { name: "io.k8s.api.discovery.v1.Endpoint", go: "v1.Endpoint", shape: Struct, atomic: false, published: true, range: (1626, 8) },
    Type { name: "io.k8s.api.discovery.v1.EndpointConditions", go: "v1.EndpointConditions", shape: Struct, atomic: false, published: true, range: (1634, 3) },
    Type { name: "io.k8s.api.discovery.v1.EndpointHints", go: "v1.EndpointHints", shape: Struct, atomic: false, published: true, range: (1637, 2) },
    Type { name: "io.k8s.api.discovery.v1.EndpointPort", go: "v1.EndpointPort", shape: Struct, atomic: true, published: true, range: (1639, 4) },
    Type { name: "io.k8s.api.discovery.v1.EndpointSlice", go: "v1.EndpointSlice", shape: Struct, atomic: false, published: true, range: (1643, 5) },
    Type { name: "io.k8s.api.discovery.v1.EndpointSliceList", go: "v1.EndpointSliceList", shape: Struct, atomic: false, published: true, range: (1648, 3) },
    Type { name: "io.k8s.api.discovery.v1.ForNode", go: "v1.ForNode", shape: Struct, atomic: false, published: true, range: (1651, 1) },
    Type { name: "io.k8s.api.discovery.v1.ForZone", go: "v1.ForZone", shape: Struct, atomic: false, published: true, range: (1652, 1) },
    Type { name: "io.k8s.api.events.v1.Event", go: "v1.Event", shape: Struct, atomic: false, published: true, range: (1653, 16) },
    Type { name: "io.k8s.api.events.v1.EventList", go: "v1.EventList", shape: Struct, atomic: false, published: true, range: (1669, 3) },
    Type { name: "io.k8s.api.events.v1.EventSeries", go: "v1.EventSeries", shape: Struct, atomic: false, published: true, range: (1672, 2) },
    Type { name: "io.k8s.api.flowcontrol.v1.ExemptPriorityLevelConfiguration", go: "v1.ExemptPriorityLevelConfiguration", shape: Struct, atomic: false, published: true, range: (1674, 2) },
    Type { name: "io.k8s.api.flowcontrol.v1.FlowDistinguisherMethod", go: "v1.FlowDistinguisherMethod", shape: Struct, atomic: false, published: true, range: (1676, 1) },
    Type { name: "io.k8s.api.flowcontrol.v1.FlowSchema", go: "v1.FlowSchema", shape: Struct, atomic: false, published: true, range: (1677, 4) },
    Type { name: "io.k8s.api.flowcontrol.v1.FlowSchemaCondition", go: "v1.FlowSchemaCondition", shape: Struct, atomic: false, published: true, range: (1681, 5) },
    Type { name: "io.k8s.api.flowcontrol.v1.FlowSchemaList", go: "v1.FlowSchemaList", shape: Struct, atomic: false, published: true, range: (1686, 3) },
    Type { name: "io.k8s.api.flowcontrol.v1.FlowSchemaSpec", go: "v1.FlowSchemaSpec", shape: Struct, atomic: false, published: true, range: (1689, 4) },
    Type { name: "io.k8s.api.flowcontrol.v1.FlowSchemaStatus", go: "v1.FlowSchemaStatus", shape: Struct, atomic: false, published: true, range: (1693, 1) },
    Type { name: "io.k8s.api.flowcontrol.v1.GroupSubject", go: "v1.GroupSubject", shape: Struct, atomic: false, published: true, range: (1694, 1) },
    Type { name: "io.k8s.api.flowcontrol.v1.LimitResponse", go: "v1.LimitResponse", shape: Struct, atomic: false, published: true, range: (1695, 2) },
    Type { name: "io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration", go: "v1.LimitedPriorityLevelConfiguration", shape: Struct, atomic: false, published: true, range: (1697, 4) },
    Type { name: "io.k8s.api.flowcontrol.v1.NonResourcePolicyRule", go: "v1.NonResourcePolicyRule", shape: Struct, atomic: false, published: true, range: (1701, 2) },
    Type { name: "io.k8s.api.flowcontrol.v1.PolicyRulesWithSubjects", go: "v1.PolicyRulesWithSubjects", shape: Struct, atomic: false, published: true, range: (1703, 3) },
    Type { name: "io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration", go: "v1.PriorityLevelConfiguration", shape: Struct, atomic: false, published: true, range: (1706, 4) },
    Type { name: "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationCondition", go: "v1.PriorityLevelConfigurationCondition", shape: Struct, atomic: false, published: true, range: (1710, 5) },
    Type { name: "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationList", go: "v1.PriorityLevelConfigurationList", shape: Struct, atomic: false, published: true, range: (1715, 3) },
    Type { name: "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationReference", go: "v1.PriorityLevelConfigurationReference", shape: Struct, atomic: false, published: true, range: (1718, 1) },
    Type { name: "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec", go: "v1.PriorityLevelConfigurationSpec", shape: Struct, atomic: false, published: true, range: (1719, 3) },
    Type { name: "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationStatus", go: "v1.PriorityLevelConfigurationStatus", shape: Struct, atomic: false, published: true, range: (1722, 1) },
    Type { name: "io.k8s.api.flowcontrol.v1.QueuingConfiguration", go: "v1.QueuingConfiguration", shape: Struct, atomic: false, published: true, range: (1723, 3) },
    Type { name: "io.k8s.api.flowcontrol.v1.ResourcePolicyRule", go: "v1.ResourcePolicyRule", shape: Struct, atomic: false, published: true, range: (1726, 5) },
    Type { name: "io.k8s.api.flowcontrol.v1.ServiceAccountSubject", go: "v1.ServiceAccountSubject", shape: Struct, atomic: false, published: true, range: (1731, 2) },
    Type { name: "io.k8s.api.flowcontrol.v1.Subject", go: "v1.Subject", shape: Struct, atomic: false, published: true, range: (1733, 4) },
    Type { name: "io.k8s.api.flowcontrol.v1.UserSubject", go: "v1.UserSubject", shape: Struct, atomic: false, published: true, range: (1737, 1) },
    Type { name: "io.k8s.api.networking.v1.HTTPIngressPath", go: "v1.HTTPIngressPath", shape: Struct, atomic: false, published: true, range: (1738, 3) },
    Type { name: "io.k8s.api.networking.v1.HTTPIngressRuleValue", go: "v1.HTTPIngressRuleValue", shape: Struct, atomic: false, published: true, range: (1741, 1) },
    Type { name: "io.k8s.api.networking.v1.IPAddress", go: "v1.IPAddress", shape: Struct, atomic: false, published: true, range: (1742, 3) },
    Type { name: "io.k8s.api.networking.v1.IPAddressList", go: "v1.IPAddressList", shape: Struct, atomic: false, published: true, range: (1745, 3) },
    Type { name: "io.k8s.api.networking.v1.IPAddressSpec", go: "v1.IPAddressSpec", shape: Struct, atomic: false, published: true, range: (1748, 1) },
    Type { name: "io.k8s.api.networking.v1.IPBlock", go: "v1.IPBlock", shape: Struct, atomic: false, published: true, range: (1749, 2) },
    Type { name: "io.k8s.api.networking.v1.Ingress", go: "v1.Ingress", shape: Struct, atomic: false, published: true, range: (1751, 4) },
    Type { name: "io.k8s.api.networking.v1.IngressBackend", go: "v1.IngressBackend", shape: Struct, atomic: false, published: true, range: (1755, 2) },
    Type { name: "io.k8s.api.networking.v1.IngressClass", go: "v1.IngressClass", shape: Struct, atomic: false, published: true, range: (1757, 3) },
    Type { name: "io.k8s.api.networking.v1.IngressClassList", go: "v1.IngressClassList", shape: Struct, atomic: false, published: true, range: (1760, 3) },
    Type { name: "io.k8s.api.networking.v1.IngressClassParametersReference", go: "v1.IngressClassParametersReference", shape: Struct, atomic: false, published: true, range: (1763, 5) },
    Type { name: "io.k8s.api.networking.v1.IngressClassSpec", go: "v1.IngressClassSpec", shape: Struct, atomic: false, published: true, range: (1768, 2) },
    Type { name: "io.k8s.api.networking.v1.IngressList", go: "v1.IngressList", shape: Struct, atomic: false, published: true, range: (1770, 3) },
    Type { name: "io.k8s.api.networking.v1.IngressLoadBalancerIngress", go: "v1.IngressLoadBalancerIngress", shape: Struct, atomic: false, published: true, range: (1773, 3) },
    Type { name: "io.k8s.api.networking.v1.IngressLoadBalancerStatus", go: "v1.IngressLoadBalancerStatus", shape: Struct, atomic: false, published: true, range: (1776, 1) },
    Type { name: "io.k8s.api.networking.v1.IngressPortStatus", go: "v1.IngressPortStatus", shape: Struct, atomic: false, published: true, range: (1777, 3) },
    Type { name: "io.k8s.api.networking.v1.IngressRule", go: "v1.IngressRule", shape: Struct, atomic: false, published: true, range: (1780, 2) },
    Type { name: "io.k8s.api.networking.v1.IngressRuleValue", go: "v1.IngressRuleValue", shape: Struct, atomic: false, published: false, range: (1782, 1) },
    Type { name: "io.k8s.api.networking.v1.IngressServiceBackend", go: "v1.IngressServiceBackend", shape: Struct, atomic: false, published: true, range: (1783, 2) },
    Type { name: "io.k8s.api.networking.v1.IngressSpec", go: "v1.IngressSpec", shape: Struct, atomic: false, published: true, range: (1785, 4) },
    Type { name: "io.k8s.api.networking.v1.IngressStatus", go: "v1.IngressStatus", shape: Struct, atomic: false, published: true, range: (1789, 1) },
    Type { name: "io.k8s.api.networking.v1.IngressTLS", go: "v1.IngressTLS", shape: Struct, atomic: false, published: true, range: (1790, 2) },
    Type { name: "io.k8s.api.networking.v1.NetworkPolicy", go: "v1.NetworkPolicy", shape: Struct, atomic: false, published: true, range: (1792, 3) },
    Type { name: "io.k8s.api.networking.v1.NetworkPolicyEgressRule", go: "v1.NetworkPolicyEgressRule", shape: Struct, atomic: false, published: true, range: (1795, 2) },
    Type { name: "io.k8s.api.networking.v1.NetworkPolicyIngressRule", go: "v1.NetworkPolicyIngressRule", shape: Struct, atomic: false, published: true, range: (1797, 2) },
    Type { name: "io.k8s.api.networking.v1.NetworkPolicyList", go: "v1.NetworkPolicyList", shape: Struct, atomic: false, published: true, range: (1799, 3) },
    Type { name: "io.k8s.api.networking.v1.NetworkPolicyPeer", go: "v1.NetworkPolicyPeer", shape: Struct, atomic: false, published: true, range: (1802, 3) },
    Type { name: "io.k8s.api.networking.v1.NetworkPolicyPort", go: "v1.NetworkPolicyPort", shape: Struct, atomic: false, published: true, range: (1805, 3) },
    Type { name: "io.k8s.api.networking.v1.NetworkPolicySpec", go: "v1.NetworkPolicySpec", shape: Struct, atomic: false, published: true, range: (1808, 4) },
    Type { name: "io.k8s.api.networking.v1.ParentReference", go: "v1.ParentReference", shape: Struct, atomic: false, published: true, range: (1812, 4) },
    Type { name: "io.k8s.api.networking.v1.ServiceBackendPort", go: "v1.ServiceBackendPort", shape: Struct, atomic: true, published: true, range: (1816, 2) },
    Type { name: "io.k8s.api.networking.v1.ServiceCIDR", go: "v1.ServiceCIDR", shape: Struct, atomic: false, published: true, range: (1818, 4) },
    Type { name: "io.k8s.api.networking.v1.ServiceCIDRList", go: "v1.ServiceCIDRList", shape: Struct, atomic: false, published: true, range: (1822, 3) },
    Type { name: "io.k8s.api.networking.v1.ServiceCIDRSpec", go: "v1.ServiceCIDRSpec", shape: Struct, atomic: false, published: true, range: (1825, 1) },
    Type { name: "io.k8s.api.networking.v1.ServiceCIDRStatus", go: "v1.ServiceCIDRStatus", shape: Struct, atomic: false, published: true, range: (1826, 1) },
    Type { name: "io.k8s.api.node.v1.Overhead", go: "v1.Overhead", shape: Struct, atomic: false, published: true, range: (1827, 1) },
    Type { name: "io.k8s.api.node.v1.RuntimeClass", go: "v1.RuntimeClass", shape: Struct, atomic: false, published: true, range: (1828, 5) },
    Type { name: "io.k8s.api.node.v1.RuntimeClassList", go: "v1.RuntimeClassList", shape: Struct, atomic: false, published: true, range: (1833, 3) },
    Type { name: "io.k8s.api.node.v1.Scheduling", go: "v1.Scheduling", shape: Struct, atomic: false, published: true, range: (1836, 2) },
    Type { name: "io.k8s.api.policy.v1.Eviction", go: "v1.Eviction", shape: Struct, atomic: false, published: true, range: (1838, 3) },
    Type { name: "io.k8s.api.policy.v1.PodDisruptionBudget", go: "v1.PodDisruptionBudget", shape: Struct, atomic: false, published: true, range: (1841, 4) },
    Type { name: "io.k8s.api.policy.v1.PodDisruptionBudgetList", go: "v1.PodDisruptionBudgetList", shape: Struct, atomic: false, published: true, range: (1845, 3) },
    Type { name: "io.k8s.api.policy.v1.PodDisruptionBudgetSpec", go: "v1.PodDisruptionBudgetSpec", shape: Struct, atomic: false, published: true, range: (1848, 4) },
    Type { name: "io.k8s.api.policy.v1.PodDisruptionBudgetStatus", go: "v1.PodDisruptionBudgetStatus", shape: Struct, atomic: false, published: true, range: (1852, 7) },
    Type { name: "io.k8s.api.rbac.v1.AggregationRule", go: "v1.AggregationRule", shape: Struct, atomic: false, published: true, range: (1859, 1) },
    Type { name: "io.k8s.api.rbac.v1.ClusterRole", go: "v1.ClusterRole", shape: Struct, atomic: false, published: true, range: (1860, 4) },
    Type { name: "io.k8s.api.rbac.v1.ClusterRoleBinding", go: "v1.ClusterRoleBinding", shape: Struct, atomic: false, published: true, range: (1864, 4) },
    Type { name: "io.k8s.api.rbac.v1.ClusterRoleBindingList", go: "v1.ClusterRoleBindingList", shape: Struct, atomic: false, published: true, range: (1868, 3) },
    Type { name: "io.k8s.api.rbac.v1.ClusterRoleList", go: "v1.ClusterRoleList", shape: Struct, atomic: false, published: true, range: (1871, 3) },
    Type { name: "io.k8s.api.rbac.v1.PolicyRule", go: "v1.PolicyRule", shape: Struct, atomic: false, published: true, range: (1874, 5) },
    Type { name: "io.k8s.api.rbac.v1.Role", go: "v1.Role", shape: Struct, atomic: false, published: true, range: (1879, 3) },
    Type { name: "io.k8s.api.rbac.v1.RoleBinding", go: "v1.RoleBinding", shape: Struct, atomic: false, published: true, range: (1882, 4) },
    Type { name: "io.k8s.api.rbac.v1.RoleBindingList", go: "v1.RoleBindingList", shape: Struct, atomic: false, published: true, range: (1886, 3) },
    Type { name: "io.k8s.api.rbac.v1.RoleList", go: "v1.RoleList", shape: Struct, atomic: false, published: true, range: (1889, 3) },
    Type { name: "io.k8s.api.rbac.v1.RoleRef", go: "v1.RoleRef", shape: Struct, atomic: true, published: true, range: (1892, 3) },
    Type { name: "io.k8s.api.rbac.v1.Subject", go: "v1.Subject", shape: Struct, atomic: true, published: true, range: (1895, 4) },
    Type { name: "io.k8s.api.resource.v1.AllocatedDeviceStatus", go: "v1.AllocatedDeviceStatus", shape: Struct, atomic: false, published: true, range: (1899, 7) },
    Type { name: "io.k8s.api.resource.v1.AllocationResult", go: "v1.AllocationResult", shape: Struct, atomic: false, published: true, range: (1906, 3) },
    Type { name: "io.k8s.api.resource.v1.CELDeviceSelector", go: "v1.CELDeviceSelector", shape: Struct, atomic: false, published: true, range: (1909, 1) },
    Type { name: "io.k8s.api.resource.v1.CapacityRequestPolicy", go: "v1.CapacityRequestPolicy", shape: Struct, atomic: false, published: true, range: (1910, 3) },
    Type { name: "io.k8s.api.resource.v1.CapacityRequestPolicyRange", go: "v1.CapacityRequestPolicyRange", shape: Struct, atomic: false, published: true, range: (1913, 3) },
    Type { name: "io.k8s.api.resource.v1.CapacityRequirements", go: "v1.CapacityRequirements", shape: Struct, atomic: false, published: true, range: (1916, 1) },
    Type { name: "io.k8s.api.resource.v1.Counter", go: "v1.Counter", shape: Struct, atomic: false, published: true, range: (1917, 1) },
    Type { name: "io.k8s.api.resource.v1.CounterSet", go: "v1.CounterSet", shape: Struct, atomic: false, published: true, range: (1918, 2) },
    Type { name: "io.k8s.api.resource.v1.Device", go: "v1.Device", shape: Struct, atomic: false, published: true, range: (1920, 13) },
    Type { name: "io.k8s.api.resource.v1.DeviceAllocationConfiguration", go: "v1.DeviceAllocationConfiguration", shape: Struct, atomic: false, published: true, range: (1933, 3) },
    Type { name: "io.k8s.api.resource.v1.DeviceAllocationResult", go: "v1.DeviceAllocationResult", shape: Struct, atomic: false, published: true, range: (1936, 2) },
    Type { name: "io.k8s.api.resource.v1.DeviceAttribute", go: "v1.DeviceAttribute", shape: Struct, atomic: false, published: true, range: (1938, 8) },
    Type { name: "io.k8s.api.resource.v1.DeviceCapacity", go: "v1.DeviceCapacity", shape: Struct, atomic: false, published: true, range: (1946, 2) },
    Type { name: "io.k8s.api.resource.v1.DeviceClaim", go: "v1.DeviceClaim", shape: Struct, atomic: false, published: true, range: (1948, 3) },
    Type { name: "io.k8s.api.resource.v1.DeviceClaimConfiguration", go: "v1.DeviceClaimConfiguration", shape: Struct, atomic: false, published: true, range: (1951, 2) },
    Type { name: "io.k8s.api.resource.v1.DeviceClass", go: "v1.DeviceClass", shape: Struct, atomic: false, published: true, range: (1953, 3) },
    Type { name: "io.k8s.api.resource.v1.DeviceClassConfiguration", go: "v1.DeviceClassConfiguration", shape: Struct, atomic: false, published: true, range: (1956, 1) },
    Type { name: "io.k8s.api.resource.v1.DeviceClassList", go: "v1.DeviceClassList", shape: Struct, atomic: false, published: true, range: (1957, 3) },
    Type { name: "io.k8s.api.resource.v1.DeviceClassSpec", go: "v1.DeviceClassSpec", shape: Struct, atomic: false, published: true, range: (1960, 3) },
    Type { name: "io.k8s.api.resource.v1.DeviceConfiguration", go: "v1.DeviceConfiguration", shape: Struct, atomic: false, published: false, range: (1963, 1) },
    Type { name: "io.k8s.api.resource.v1.DeviceConstraint", go: "v1.DeviceConstraint", shape: Struct, atomic: false, published: true, range: (1964, 3) },
    Type { name: "io.k8s.api.resource.v1.DeviceCounterConsumption", go: "v1.DeviceCounterConsumption", shape: Struct, atomic: false, published: true, range: (1967, 2) },
    Type { name: "io.k8s.api.resource.v1.DeviceRequest", go: "v1.DeviceRequest", shape: Struct, atomic: false, published: true, range: (1969, 3) },
    Type { name: "io.k8s.api.resource.v1.DeviceRequestAllocationResult", go: "v1.DeviceRequestAllocationResult", shape: Struct, atomic: false, published: true, range: (1972, 10) },
    Type { name: "io.k8s.api.resource.v1.DeviceSelector", go: "v1.DeviceSelector", shape: Struct, atomic: false, published: true, range: (1982, 1) },
    Type { name: "io.k8s.api.resource.v1.DeviceSubRequest", go: "v1.DeviceSubRequest", shape: Struct, atomic: false, published: true, range: (1983, 7) },
    Type { name: "io.k8s.api.resource.v1.DeviceTaint", go: "v1.DeviceTaint", shape: Struct, atomic: false, published: true, range: (1990, 4) },
    Type { name: "io.k8s.api.resource.v1.DeviceToleration", go: "v1.DeviceToleration", shape: Struct, atomic: false, published: true, range: (1994, 5) },
    Type { name: "io.k8s.api.resource.v1.ExactDeviceRequest", go: "v1.ExactDeviceRequest", shape: Struct, atomic: false, published: true, range: (1999, 7) },
    Type { name: "io.k8s.api.resource.v1.NetworkDeviceData", go: "v1.NetworkDeviceData", shape: Struct, atomic: false, published: true, range: (2006, 3) },
    Type { name: "io.k8s.api.resource.v1.NodeAllocatableResourceMapping", go: "v1.NodeAllocatableResourceMapping", shape: Struct, atomic: false, published: true, range: (2009, 2) },
    Type { name: "io.k8s.api.resource.v1.OpaqueDeviceConfiguration", go: "v1.OpaqueDeviceConfiguration", shape: Struct, atomic: false, published: true, range: (2011, 2) },
    Type { name: "io.k8s.api.resource.v1.ResourceClaim", go: "v1.ResourceClaim", shape: Struct, atomic: false, published: true, range: (2013, 4) },
    Type { name: "io.k8s.api.resource.v1.ResourceClaimConsumerReference", go: "v1.ResourceClaimConsumerReference", shape: Struct, atomic: false, published: true, range: (2017, 4) },
    Type { name: "io.k8s.api.resource.v1.ResourceClaimList", go: "v1.ResourceClaimList", shape: Struct, atomic: false, published: true, range: (2021, 3) },
    Type { name: "io.k8s.api.resource.v1.ResourceClaimSpec", go: "v1.ResourceClaimSpec", shape: Struct, atomic: false, published: true, range: (2024, 1) },
    Type { name: "io.k8s.api.resource.v1.ResourceClaimStatus", go: "v1.ResourceClaimStatus", shape: Struct, atomic: false, published: true, range: (2025, 3) },
    Type { name: "io.k8s.api.resource.v1.ResourceClaimTemplate", go: "v1.ResourceClaimTemplate", shape: Struct, atomic: false, published: true, range: (2028, 3) },
    Type { name: "io.k8s.api.resource.v1.ResourceClaimTemplateList", go: "v1.ResourceClaimTemplateList", shape: Struct, atomic: false, published: true, range: (2031, 3) },
    Type { name: "io.k8s.api.resource.v1.ResourceClaimTemplateSpec", go: "v1.ResourceClaimTemplateSpec", shape: Struct, atomic: false, published: true, range: (2034, 2) },
    Type { name: "io.k8s.api.resource.v1.ResourcePool", go: "v1.ResourcePool", shape: Struct, atomic: false, published: true, range: (2036, 3) },
    Type { name: "io.k8s.api.resource.v1.ResourceSlice", go: "v1.ResourceSlice", shape: Struct, atomic: false, published: true, range: (2039, 3) },
    Type { name: "io.k8s.api.resource.v1.ResourceSliceList", go: "v1.ResourceSliceList", shape: Struct, atomic: false, published: true, range: (2042, 3) },
    Type { name: "io.k8s.api.resource.v1.ResourceSliceSpec", go: "v1.ResourceSliceSpec", shape: Struct, atomic: false, published: true, range: (2045, 8) },
    Type { name: "io.k8s.api.scheduling.v1.PriorityClass", go: "v1.PriorityClass", shape: Struct, atomic: false, published: true, range: (2053, 6) },
    Type { name: "io.k8s.api.scheduling.v1.PriorityClassList", go: "v1.PriorityClassList", shape: Struct, atomic: false, published: true, range: (2059, 3) },
    Type { name: "io.k8s.api.storage.v1.CSIDriver", go: "v1.CSIDriver", shape: Struct, atomic: false, published: true, range: (2062, 3) },
    Type { name: "io.k8s.api.storage.v1.CSIDriverList", go: "v1.CSIDriverList", shape: Struct, atomic: false, published: true, range: (2065, 3) },
    Type { name: "io.k8s.api.storage.v1.CSIDriverSpec", go: "v1.CSIDriverSpec", shape: Struct, atomic: false, published: true, range: (2068, 11) },
    Type { name: "io.k8s.api.storage.v1.CSINode", go: "v1.CSINode", shape: Struct, atomic: false, published: true, range: (2079, 3) },
    Type { name: "io.k8s.api.storage.v1.CSINodeDriver", go: "v1.CSINodeDriver", shape: Struct, atomic: false, published: true, range: (2082, 4) },
    Type { name: "io.k8s.api.storage.v1.CSINodeList", go: "v1.CSINodeList", shape: Struct, atomic: false, published: true, range: (2086, 3) },
    Type { name: "io.k8s.api.storage.v1.CSINodeSpec", go: "v1.CSINodeSpec", shape: Struct, atomic: false, published: true, range: (2089, 1) },
    Type { name: "io.k8s.api.storage.v1.CSIStorageCapacity", go: "v1.CSIStorageCapacity", shape: Struct, atomic: false, published: true, range: (2090, 6) },
    Type { name: "io.k8s.api.storage.v1.CSIStorageCapacityList", go: "v1.CSIStorageCapacityList", shape: Struct, atomic: false, published: true, range: (2096, 3) },
    Type { name: "io.k8s.api.storage.v1.StorageClass", go: "v1.StorageClass", shape: Struct, atomic: false, published: true, range: (2099, 9) },
    Type { name: "io.k8s.api.storage.v1.StorageClassList", go: "v1.StorageClassList", shape: Struct, atomic: false, published: true, range: (2108, 3) },
    Type { name: "io.k8s.api.storage.v1.TokenRequest", go: "v1.TokenRequest", shape: Struct, atomic: false, published: true, range: (2111, 2) },
    Type { name: "io.k8s.api.storage.v1.VolumeAttachment", go: "v1.VolumeAttachment", shape: Struct, atomic: false, published: true, range: (2113, 4) },
    Type { name: "io.k8s.api.storage.v1.VolumeAttachmentList", go: "v1.VolumeAttachmentList", shape: Struct, atomic: false, published: true, range: (2117, 3) },
    Type { name: "io.k8s.api.storage.v1.VolumeAttachmentSource", go: "v1.VolumeAttachmentSource", shape: Struct, atomic: false, published: true, range: (2120, 2) },
    Type { name: "io.k8s.api.storage.v1.VolumeAttachmentSpec", go: "v1.VolumeAttachmentSpec", shape: Struct, atomic: false, published: true, range: (2122, 3) },
    Type { name: "io.k8s.api.storage.v1.VolumeAttachmentStatus", go: "v1.VolumeAttachmentStatus", shape: Struct, atomic: false, published: true, range: (2125, 4) },
    Type { name: "io.k8s.api.storage.v1.VolumeAttributesClass", go: "v1.VolumeAttributesClass", shape: Struct, atomic: false, published: true, range: (2129, 4) },
    Type { name: "io.k8s.api.storage.v1.VolumeAttributesClassList", go: "v1.VolumeAttributesClassList", shape: Struct, atomic: false, published: true, range: (2133, 3) },
    Type { name: "io.k8s.api.storage.v1.VolumeError", go: "v1.VolumeError", shape: Struct, atomic: false, published: true, range: (2136, 3) },
    Type { name: "io.k8s.api.storage.v1.VolumeNodeResources", go: "v1.VolumeNodeResources", shape: Struct, atomic: false, published: true, range: (2139, 1) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceColumnDefinition", go: "v1.CustomResourceColumnDefinition", shape: Struct, atomic: false, published: true, range: (2140, 6) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceConversion", go: "v1.CustomResourceConversion", shape: Struct, atomic: false, published: true, range: (2146, 2) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition", go: "v1.CustomResourceDefinition", shape: Struct, atomic: false, published: true, range: (2148, 4) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionCondition", go: "v1.CustomResourceDefinitionCondition", shape: Struct, atomic: false, published: true, range: (2152, 6) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionList", go: "v1.CustomResourceDefinitionList", shape: Struct, atomic: false, published: true, range: (2158, 3) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionNames", go: "v1.CustomResourceDefinitionNames", shape: Struct, atomic: false, published: true, range: (2161, 6) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec", go: "v1.CustomResourceDefinitionSpec", shape: Struct, atomic: false, published: true, range: (2167, 6) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus", go: "v1.CustomResourceDefinitionStatus", shape: Struct, atomic: false, published: true, range: (2173, 4) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionVersion", go: "v1.CustomResourceDefinitionVersion", shape: Struct, atomic: false, published: true, range: (2177, 9) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresourceScale", go: "v1.CustomResourceSubresourceScale", shape: Struct, atomic: false, published: true, range: (2186, 3) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresourceStatus", go: "v1.CustomResourceSubresourceStatus", shape: Struct, atomic: false, published: true, range: (2189, 0) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresources", go: "v1.CustomResourceSubresources", shape: Struct, atomic: false, published: true, range: (2189, 2) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceValidation", go: "v1.CustomResourceValidation", shape: Struct, atomic: false, published: true, range: (2191, 1) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ExternalDocumentation", go: "v1.ExternalDocumentation", shape: Struct, atomic: false, published: true, range: (2192, 2) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", go: "v1.JSON", shape: Any, atomic: false, published: true, range: (2194, 0) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps", go: "v1.JSONSchemaProps", shape: Struct, atomic: false, published: true, range: (2194, 44) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", go: "v1.JSONSchemaPropsOrArray", shape: SchemaOrArray, atomic: false, published: true, range: (2238, 0) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool", go: "v1.JSONSchemaPropsOrBool", shape: SchemaOrBool, atomic: false, published: true, range: (2238, 0) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray", go: "v1.JSONSchemaPropsOrStringArray", shape: SchemaOrTexts, atomic: false, published: true, range: (2238, 0) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.SelectableField", go: "v1.SelectableField", shape: Struct, atomic: false, published: true, range: (2238, 1) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ServiceReference", go: "v1.ServiceReference", shape: Struct, atomic: false, published: true, range: (2239, 4) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ValidationRule", go: "v1.ValidationRule", shape: Struct, atomic: false, published: true, range: (2243, 6) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.WebhookClientConfig", go: "v1.WebhookClientConfig", shape: Struct, atomic: false, published: true, range: (2249, 3) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.WebhookConversion", go: "v1.WebhookConversion", shape: Struct, atomic: false, published: true, range: (2252, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup", go: "v1.APIGroup", shape: Struct, atomic: false, published: true, range: (2254, 5) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList", go: "v1.APIGroupList", shape: Struct, atomic: false, published: true, range: (2259, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.APIResource", go: "v1.APIResource", shape: Struct, atomic: false, published: true, range: (2261, 10) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList", go: "v1.APIResourceList", shape: Struct, atomic: false, published: true, range: (2271, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions", go: "v1.APIVersions", shape: Struct, atomic: false, published: true, range: (2274, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.Condition", go: "v1.Condition", shape: Struct, atomic: false, published: true, range: (2277, 6) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.CreateOptions", go: "v1.CreateOptions", shape: Struct, atomic: false, published: false, range: (2283, 4) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", go: "v1.DeleteOptions", shape: Struct, atomic: false, published: true, range: (2287, 7) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.FieldSelectorRequirement", go: "v1.FieldSelectorRequirement", shape: Struct, atomic: false, published: true, range: (2294, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", go: "v1.FieldsV1", shape: Any, atomic: false, published: true, range: (2297, 0) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.GetOptions", go: "v1.GetOptions", shape: Struct, atomic: false, published: false, range: (2297, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionForDiscovery", go: "v1.GroupVersionForDiscovery", shape: Struct, atomic: false, published: true, range: (2299, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionKind", go: "v1.GroupVersionKind", shape: Struct, atomic: false, published: false, range: (2301, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionResource", go: "v1.GroupVersionResource", shape: Struct, atomic: false, published: false, range: (2304, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", go: "v1.LabelSelector", shape: Struct, atomic: true, published: true, range: (2307, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement", go: "v1.LabelSelectorRequirement", shape: Struct, atomic: false, published: true, range: (2309, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.List", go: "v1.List", shape: Struct, atomic: false, published: false, range: (2312, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta", go: "v1.ListMeta", shape: Struct, atomic: false, published: true, range: (2315, 5) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.ListOptions", go: "v1.ListOptions", shape: Struct, atomic: false, published: false, range: (2320, 12) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry", go: "v1.ManagedFieldsEntry", shape: Struct, atomic: false, published: true, range: (2332, 7) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", go: "v1.ObjectMeta", shape: Struct, atomic: false, published: true, range: (2339, 15) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference", go: "v1.OwnerReference", shape: Struct, atomic: true, published: true, range: (2354, 6) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata", go: "v1.PartialObjectMetadata", shape: Struct, atomic: false, published: false, range: (2360, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList", go: "v1.PartialObjectMetadataList", shape: Struct, atomic: false, published: false, range: (2362, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.Patch", go: "v1.Patch", shape: Any, atomic: false, published: true, range: (2365, 0) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.PatchOptions", go: "v1.PatchOptions", shape: Struct, atomic: false, published: false, range: (2365, 5) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.Preconditions", go: "v1.Preconditions", shape: Struct, atomic: false, published: true, range: (2370, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.ServerAddressByClientCIDR", go: "v1.ServerAddressByClientCIDR", shape: Struct, atomic: false, published: true, range: (2372, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.ShardInfo", go: "v1.ShardInfo", shape: Struct, atomic: false, published: true, range: (2374, 1) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.Status", go: "v1.Status", shape: Struct, atomic: false, published: true, range: (2375, 7) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.StatusCause", go: "v1.StatusCause", shape: Struct, atomic: false, published: true, range: (2382, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.StatusDetails", go: "v1.StatusDetails", shape: Struct, atomic: false, published: true, range: (2385, 6) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.Table", go: "v1.Table", shape: Struct, atomic: false, published: false, range: (2391, 4) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.TableColumnDefinition", go: "v1.TableColumnDefinition", shape: Struct, atomic: false, published: false, range: (2395, 5) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.TableRow", go: "v1.TableRow", shape: Struct, atomic: false, published: false, range: (2400, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.TableRowCondition", go: "v1.TableRowCondition", shape: Struct, atomic: false, published: false, range: (2403, 4) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.TypeMeta", go: "v1.TypeMeta", shape: Struct, atomic: false, published: false, range: (2407, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.UpdateOptions", go: "v1.UpdateOptions", shape: Struct, atomic: false, published: false, range: (2409, 4) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.Verbs", go: "v1.Verbs", shape: Texts, atomic: false, published: false, range: (2413, 0) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent", go: "v1.WatchEvent", shape: Struct, atomic: false, published: true, range: (2413, 2) },
    Type { name: "io.k8s.apimachinery.pkg.runtime.RawExtension", go: "runtime.RawExtension", shape: Any, atomic: false, published: true, range: (2415, 0) },
    Type { name: "io.k8s.apimachinery.pkg.version.Info", go: "version.Info", shape: Struct, atomic: false, published: true, range: (2415, 13) },
    Type { name: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService", go: "v1.APIService", shape: Struct, atomic: false, published: true, range: (2428, 4) },
    Type { name: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceCondition", go: "v1.APIServiceCondition", shape: Struct, atomic: false, published: true, range: (2432, 5) },
    Type { name: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceList", go: "v1.APIServiceList", shape: Struct, atomic: false, published: true, range: (2437, 3) },
    Type { name: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceSpec", go: "v1.APIServiceSpec", shape: Struct, atomic: false, published: true, range: (2440, 7) },
    Type { name: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceStatus", go: "v1.APIServiceStatus", shape: Struct, atomic: false, published: true, range: (2447, 1) },
    Type { name: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference", go: "v1.ServiceReference", shape: Struct, atomic: false, published: true, range: (2448, 3) },
    Type { name: "io.k8s.metrics.pkg.apis.metrics.v1beta1.ContainerMetrics", go: "v1beta1.ContainerMetrics", shape: Struct, atomic: false, published: false, range: (2451, 2) },
    Type { name: "io.k8s.metrics.pkg.apis.metrics.v1beta1.NodeMetrics", go: "v1beta1.NodeMetrics", shape: Struct, atomic: false, published: false, range: (2453, 5) },
    Type { name: "io.k8s.metrics.pkg.apis.metrics.v1beta1.NodeMetricsList", go: "v1beta1.NodeMetricsList", shape: Struct, atomic: false, published: false, range: (2458, 3) },
    Type { name: "io.k8s.metrics.pkg.apis.metrics.v1beta1.PodMetrics", go: "v1beta1.PodMetrics", shape: Struct, atomic: false, published: false, range: (2461, 5) },
    Type { name: "io.k8s.metrics.pkg.apis.metrics.v1beta1.PodMetricsList", go: "v1beta1.PodMetricsList", shape: Struct, atomic: false, published: false, range: (2466, 3) },
];

/// Types of fields.
pub(crate) static REFS: &[TypeRef; 563] = &[
    TypeRef::String,
    TypeRef::Object(TypeId(585)),
    TypeRef::Object(TypeId(586)),
    TypeRef::Object(TypeId(84)),
    TypeRef::Object(TypeId(613)),
    TypeRef::Bool,
    TypeRef::Object(TypeId(602)),
    TypeRef::Bytes,
    TypeRef::Map(&TypeRef::String),
    TypeRef::List(&TypeRef::String),
    TypeRef::Object(TypeId(609)),
    TypeRef::Object(TypeId(0)),
    TypeRef::Object(TypeId(1)),
    TypeRef::Object(TypeId(587)),
    TypeRef::List(&TypeRef::Object(TypeId(19))),
    TypeRef::Object(TypeId(593)),
    TypeRef::Object(TypeId(14)),
    TypeRef::Object(TypeId(12)),
    TypeRef::Object(TypeId(590)),
    TypeRef::List(&TypeRef::Object(TypeId(10))),
    TypeRef::Object(TypeId(21)),
    TypeRef::Object(TypeId(8)),
    TypeRef::List(&TypeRef::Object(TypeId(9))),
    TypeRef::Object(TypeId(20)),
    TypeRef::List(&TypeRef::Object(TypeId(37))),
    TypeRef::List(&TypeRef::Object(TypeId(18))),
    TypeRef::List(&TypeRef::Object(TypeId(7))),
    TypeRef::Object(TypeId(38)),
    TypeRef::List(&TypeRef::Object(TypeId(23))),
    TypeRef::Int32,
    TypeRef::List(&TypeRef::Object(TypeId(15))),
    TypeRef::List(&TypeRef::Object(TypeId(16))),
    TypeRef::Object(TypeId(3)),
    TypeRef::Object(TypeId(6)),
    TypeRef::Object(TypeId(23)),
    TypeRef::Object(TypeId(22)),
    TypeRef::List(&TypeRef::Object(TypeId(5))),
    TypeRef::Object(TypeId(31)),
    TypeRef::Object(TypeId(32)),
    TypeRef::Object(TypeId(29)),
    TypeRef::List(&TypeRef::Object(TypeId(27))),
    TypeRef::List(&TypeRef::Object(TypeId(26))),
    TypeRef::List(&TypeRef::Object(TypeId(36))),
    TypeRef::List(&TypeRef::Object(TypeId(4))),
    TypeRef::Int64,
    TypeRef::Object(TypeId(25)),
    TypeRef::List(&TypeRef::Object(TypeId(578))),
    TypeRef::List(&TypeRef::Object(TypeId(33))),
    TypeRef::List(&TypeRef::Object(TypeId(34))),
    TypeRef::Object(TypeId(24)),
    TypeRef::List(&TypeRef::Object(TypeId(43))),
    TypeRef::List(&TypeRef::Object(TypeId(39))),
    TypeRef::List(&TypeRef::Object(TypeId(42))),
    TypeRef::List(&TypeRef::Object(TypeId(585))),
    TypeRef::List(&TypeRef::Object(TypeId(41))),
    TypeRef::List(&TypeRef::Object(TypeId(44))),
    TypeRef::Object(TypeId(49)),
    TypeRef::Object(TypeId(50)),
    TypeRef::Time,
    TypeRef::List(&TypeRef::Object(TypeId(46))),
    TypeRef::Object(TypeId(319)),
    TypeRef::Object(TypeId(51)),
    TypeRef::List(&TypeRef::Object(TypeId(47))),
    TypeRef::Object(TypeId(63)),
    TypeRef::Object(TypeId(55)),
    TypeRef::Object(TypeId(56)),
    TypeRef::List(&TypeRef::Object(TypeId(52))),
    TypeRef::Object(TypeId(57)),
    TypeRef::List(&TypeRef::Object(TypeId(53))),
    TypeRef::Object(TypeId(64)),
    TypeRef::Object(TypeId(61)),
    TypeRef::Object(TypeId(62)),
    TypeRef::List(&TypeRef::Object(TypeId(58))),
    TypeRef::List(&TypeRef::Object(TypeId(59))),
    TypeRef::IntOrString,
    TypeRef::Object(TypeId(71)),
    TypeRef::Object(TypeId(72)),
    TypeRef::List(&TypeRef::Object(TypeId(66))),
    TypeRef::List(&TypeRef::Object(TypeId(281))),
    TypeRef::Object(TypeId(73)),
    TypeRef::Object(TypeId(70)),
    TypeRef::Object(TypeId(69)),
    TypeRef::List(&TypeRef::Object(TypeId(67))),
    TypeRef::Object(TypeId(65)),
    TypeRef::Object(TypeId(77)),
    TypeRef::Object(TypeId(79)),
    TypeRef::Object(TypeId(80)),
    TypeRef::Object(TypeId(74)),
    TypeRef::Object(TypeId(82)),
    TypeRef::Object(TypeId(83)),
    TypeRef::Map(&TypeRef::Object(TypeId(75))),
    TypeRef::List(&TypeRef::Object(TypeId(581))),
    TypeRef::List(&TypeRef::Object(TypeId(588))),
    TypeRef::Object(TypeId(98)),
    TypeRef::Object(TypeId(99)),
    TypeRef::Object(TypeId(86)),
    TypeRef::Object(TypeId(87)),
    TypeRef::Object(TypeId(94)),
    TypeRef::Object(TypeId(91)),
    TypeRef::Object(TypeId(89)),
    TypeRef::Object(TypeId(96)),
    TypeRef::Object(TypeId(100)),
    TypeRef::Map(&TypeRef::Object(TypeId(85))),
    TypeRef::List(&TypeRef::Object(TypeId(92))),
    TypeRef::List(&TypeRef::Object(TypeId(90))),
    TypeRef::Object(TypeId(104)),
    TypeRef::Object(TypeId(105)),
    TypeRef::List(&TypeRef::Object(TypeId(102))),
    TypeRef::Object(TypeId(101)),
    TypeRef::Object(TypeId(107)),
    TypeRef::Object(TypeId(108)),
    TypeRef::Object(TypeId(125)),
    TypeRef::Object(TypeId(126)),
    TypeRef::Object(TypeId(122)),
    TypeRef::List(&TypeRef::Object(TypeId(114))),
    TypeRef::Quantity,
    TypeRef::Object(TypeId(120)),
    TypeRef::Object(TypeId(121)),
    TypeRef::Object(TypeId(115)),
    TypeRef::List(&TypeRef::Object(TypeId(116))),
    TypeRef::Object(TypeId(111)),
    TypeRef::List(&TypeRef::Object(TypeId(123))),
    TypeRef::Object(TypeId(117)),
    TypeRef::List(&TypeRef::Object(TypeId(124))),
    TypeRef::List(&TypeRef::Object(TypeId(118))),
    TypeRef::Object(TypeId(127)),
    TypeRef::Object(TypeId(129)),
    TypeRef::Object(TypeId(131)),
    TypeRef::Object(TypeId(109)),
    TypeRef::Object(TypeId(112)),
    TypeRef::Object(TypeId(128)),
    TypeRef::Object(TypeId(130)),
    TypeRef::Object(TypeId(132)),
    TypeRef::Object(TypeId(110)),
    TypeRef::Object(TypeId(113)),
    TypeRef::Object(TypeId(135)),
    TypeRef::Object(TypeId(136)),
    TypeRef::List(&TypeRef::Object(TypeId(133))),
    TypeRef::Object(TypeId(142)),
    TypeRef::List(&TypeRef::Object(TypeId(279))),
    TypeRef::Object(TypeId(140)),
    TypeRef::Object(TypeId(141)),
    TypeRef::List(&TypeRef::Object(TypeId(137))),
    TypeRef::Object(TypeId(143)),
    TypeRef::Object(TypeId(147)),
    TypeRef::List(&TypeRef::Object(TypeId(138))),
    TypeRef::Object(TypeId(149)),
    TypeRef::List(&TypeRef::Object(TypeId(146))),
    TypeRef::List(&TypeRef::Int32),
    TypeRef::Object(TypeId(144)),
    TypeRef::List(&TypeRef::Object(TypeId(145))),
    TypeRef::List(&TypeRef::Object(TypeId(148))),
    TypeRef::Object(TypeId(153)),
    TypeRef::Object(TypeId(154)),
    TypeRef::List(&TypeRef::Object(TypeId(150))),
    TypeRef::Map(&TypeRef::Object(TypeId(155))),
    TypeRef::List(&TypeRef::Object(TypeId(151))),
    TypeRef::Object(TypeId(158)),
    TypeRef::List(&TypeRef::Object(TypeId(156))),
    TypeRef::MicroTime,
    TypeRef::Object(TypeId(260)),
    TypeRef::Object(TypeId(294)),
    TypeRef::Object(TypeId(296)),
    TypeRef::Object(TypeId(279)),
    TypeRef::Object(TypeId(354)),
    TypeRef::Object(TypeId(249)),
    TypeRef::List(&TypeRef::Object(TypeId(176))),
    TypeRef::List(&TypeRef::Object(TypeId(177))),
    TypeRef::Map(&TypeRef::Bytes),
    TypeRef::List(&TypeRef::Object(TypeId(179))),
    TypeRef::List(&TypeRef::Object(TypeId(239))),
    TypeRef::List(&TypeRef::Object(TypeId(189))),
    TypeRef::List(&TypeRef::Object(TypeId(209))),
    TypeRef::List(&TypeRef::Object(TypeId(210))),
    TypeRef::Object(TypeId(341)),
    TypeRef::List(&TypeRef::Object(TypeId(190))),
    TypeRef::List(&TypeRef::Object(TypeId(191))),
    TypeRef::List(&TypeRef::Object(TypeId(382))),
    TypeRef::List(&TypeRef::Object(TypeId(381))),
    TypeRef::Object(TypeId(323)),
    TypeRef::Object(TypeId(240)),
    TypeRef::Object(TypeId(356)),
    TypeRef::Object(TypeId(192)),
    TypeRef::Object(TypeId(196)),
    TypeRef::Object(TypeId(194)),
    TypeRef::Object(TypeId(195)),
    TypeRef::Object(TypeId(193)),
    TypeRef::Map(&TypeRef::Quantity),
    TypeRef::List(&TypeRef::Object(TypeId(383))),
    TypeRef::Object(TypeId(198)),
    TypeRef::List(&TypeRef::Object(TypeId(342))),
    TypeRef::Object(TypeId(246)),
    TypeRef::List(&TypeRef::Object(TypeId(201))),
    TypeRef::Object(TypeId(278)),
    TypeRef::Object(TypeId(335)),
    TypeRef::List(&TypeRef::Object(TypeId(204))),
    TypeRef::List(&TypeRef::Object(TypeId(205))),
    TypeRef::List(&TypeRef::Object(TypeId(206))),
    TypeRef::List(&TypeRef::Object(TypeId(207))),
    TypeRef::Object(TypeId(180)),
    TypeRef::Object(TypeId(350)),
    TypeRef::Object(TypeId(211)),
    TypeRef::Object(TypeId(181)),
    TypeRef::Object(TypeId(351)),
    TypeRef::Object(TypeId(221)),
    TypeRef::Object(TypeId(213)),
    TypeRef::Object(TypeId(286)),
    TypeRef::Object(TypeId(218)),
    TypeRef::Object(TypeId(217)),
    TypeRef::List(&TypeRef::Object(TypeId(215))),
    TypeRef::List(&TypeRef::Object(TypeId(231))),
    TypeRef::Object(TypeId(241)),
    TypeRef::Object(TypeId(219)),
    TypeRef::Object(TypeId(230)),
    TypeRef::Object(TypeId(372)),
    TypeRef::Object(TypeId(368)),
    TypeRef::Object(TypeId(245)),
    TypeRef::List(&TypeRef::Object(TypeId(242))),
    TypeRef::List(&TypeRef::Object(TypeId(243))),
    TypeRef::List(&TypeRef::Int64),
    TypeRef::List(&TypeRef::Object(TypeId(320))),
    TypeRef::List(&TypeRef::Object(TypeId(247))),
    TypeRef::Object(TypeId(256)),
    TypeRef::Object(TypeId(257)),
    TypeRef::List(&TypeRef::Object(TypeId(253))),
    TypeRef::List(&TypeRef::Object(TypeId(254))),
    TypeRef::Object(TypeId(274)),
    TypeRef::Object(TypeId(275)),
    TypeRef::Object(TypeId(271)),
    TypeRef::List(&TypeRef::Object(TypeId(322))),
    TypeRef::Object(TypeId(183)),
    TypeRef::Object(TypeId(263)),
    TypeRef::Object(TypeId(199)),
    TypeRef::List(&TypeRef::Object(TypeId(258))),
    TypeRef::Object(TypeId(270)),
    TypeRef::List(&TypeRef::Object(TypeId(273))),
    TypeRef::List(&TypeRef::Object(TypeId(272))),
    TypeRef::List(&TypeRef::Object(TypeId(373))),
    TypeRef::List(&TypeRef::Object(TypeId(262))),
    TypeRef::List(&TypeRef::Object(TypeId(259))),
    TypeRef::Object(TypeId(265)),
    TypeRef::Object(TypeId(277)),
    TypeRef::List(&TypeRef::Object(TypeId(188))),
    TypeRef::List(&TypeRef::Object(TypeId(162))),
    TypeRef::Object(TypeId(264)),
    TypeRef::List(&TypeRef::Object(TypeId(269))),
    TypeRef::Object(TypeId(266)),
    TypeRef::Object(TypeId(276)),
    TypeRef::Object(TypeId(290)),
    TypeRef::Object(TypeId(291)),
    TypeRef::Object(TypeId(284)),
    TypeRef::Object(TypeId(285)),
    TypeRef::Object(TypeId(386)),
    TypeRef::Object(TypeId(378)),
    TypeRef::Object(TypeId(379)),
    TypeRef::List(&TypeRef::Object(TypeId(282))),
    TypeRef::Object(TypeId(251)),
    TypeRef::List(&TypeRef::Object(TypeId(280))),
    TypeRef::Object(TypeId(225)),
    TypeRef::Object(TypeId(159)),
    TypeRef::Object(TypeId(234)),
    TypeRef::Object(TypeId(228)),
    TypeRef::Object(TypeId(252)),
    TypeRef::Object(TypeId(327)),
    TypeRef::Object(TypeId(235)),
    TypeRef::Object(TypeId(172)),
    TypeRef::Object(TypeId(170)),
    TypeRef::Object(TypeId(220)),
    TypeRef::Object(TypeId(224)),
    TypeRef::Object(TypeId(222)),
    TypeRef::Object(TypeId(164)),
    TypeRef::Object(TypeId(389)),
    TypeRef::Object(TypeId(326)),
    TypeRef::Object(TypeId(163)),
    TypeRef::Object(TypeId(292)),
    TypeRef::Object(TypeId(321)),
    TypeRef::Object(TypeId(344)),
    TypeRef::Object(TypeId(250)),
    TypeRef::Object(TypeId(369)),
    TypeRef::Object(TypeId(167)),
    TypeRef::Object(TypeId(289)),
    TypeRef::Object(TypeId(384)),
    TypeRef::Object(TypeId(315)),
    TypeRef::Object(TypeId(316)),
    TypeRef::List(&TypeRef::Object(TypeId(295))),
    TypeRef::List(&TypeRef::Object(TypeId(390))),
    TypeRef::List(&TypeRef::Object(TypeId(301))),
    TypeRef::List(&TypeRef::Object(TypeId(187))),
    TypeRef::List(&TypeRef::Object(TypeId(293))),
    TypeRef::Object(TypeId(343)),
    TypeRef::Object(TypeId(391)),
    TypeRef::List(&TypeRef::Object(TypeId(371))),
    TypeRef::Object(TypeId(348)),
    TypeRef::Object(TypeId(161)),
    TypeRef::List(&TypeRef::Object(TypeId(380))),
    TypeRef::List(&TypeRef::Object(TypeId(186))),
    TypeRef::List(&TypeRef::Object(TypeId(212))),
    TypeRef::Object(TypeId(314)),
    TypeRef::List(&TypeRef::Object(TypeId(249))),
    TypeRef::Object(TypeId(160)),
    TypeRef::List(&TypeRef::Object(TypeId(374))),
    TypeRef::List(&TypeRef::Object(TypeId(232))),
    TypeRef::Object(TypeId(300)),
    TypeRef::List(&TypeRef::Object(TypeId(309))),
    TypeRef::List(&TypeRef::Object(TypeId(377))),
    TypeRef::Object(TypeId(306)),
    TypeRef::List(&TypeRef::Object(TypeId(312))),
    TypeRef::List(&TypeRef::Object(TypeId(310))),
    TypeRef::Object(TypeId(313)),
    TypeRef::List(&TypeRef::Object(TypeId(299))),
    TypeRef::List(&TypeRef::Object(TypeId(233))),
    TypeRef::List(&TypeRef::Object(TypeId(304))),
    TypeRef::List(&TypeRef::Object(TypeId(197))),
    TypeRef::List(&TypeRef::Object(TypeId(311))),
    TypeRef::Object(TypeId(303)),
    TypeRef::List(&TypeRef::Object(TypeId(261))),
    TypeRef::List(&TypeRef::Object(TypeId(317))),
    TypeRef::Object(TypeId(273)),
    TypeRef::Object(TypeId(324)),
    TypeRef::Object(TypeId(226)),
    TypeRef::List(&TypeRef::Object(TypeId(385))),
    TypeRef::Object(TypeId(332)),
    TypeRef::Object(TypeId(333)),
    TypeRef::List(&TypeRef::Object(TypeId(329))),
    TypeRef::List(&TypeRef::Object(TypeId(330))),
    TypeRef::Object(TypeId(339)),
    TypeRef::Object(TypeId(340)),
    TypeRef::List(&TypeRef::Object(TypeId(337))),
    TypeRef::Object(TypeId(346)),
    TypeRef::List(&TypeRef::Object(TypeId(334))),
    TypeRef::List(&TypeRef::Object(TypeId(336))),
    TypeRef::List(&TypeRef::Object(TypeId(347))),
    TypeRef::List(&TypeRef::Object(TypeId(349))),
    TypeRef::Object(TypeId(169)),
    TypeRef::Object(TypeId(365)),
    TypeRef::Object(TypeId(366)),
    TypeRef::List(&TypeRef::Object(TypeId(359))),
    TypeRef::List(&TypeRef::Object(TypeId(358))),
    TypeRef::List(&TypeRef::Object(TypeId(363))),
    TypeRef::Object(TypeId(367)),
    TypeRef::Object(TypeId(248)),
    TypeRef::Object(TypeId(174)),
    TypeRef::List(&TypeRef::Object(TypeId(375))),
    TypeRef::Object(TypeId(387)),
    TypeRef::Object(TypeId(388)),
    TypeRef::Object(TypeId(353)),
    TypeRef::Object(TypeId(200)),
    TypeRef::Object(TypeId(184)),
    TypeRef::Object(TypeId(361)),
    TypeRef::Object(TypeId(175)),
    TypeRef::Object(TypeId(298)),
    TypeRef::Object(TypeId(203)),
    TypeRef::Object(TypeId(227)),
    TypeRef::Object(TypeId(355)),
    TypeRef::Object(TypeId(236)),
    TypeRef::Object(TypeId(229)),
    TypeRef::Object(TypeId(287)),
    TypeRef::Object(TypeId(328)),
    TypeRef::Object(TypeId(223)),
    TypeRef::Object(TypeId(173)),
    TypeRef::Object(TypeId(171)),
    TypeRef::Object(TypeId(202)),
    TypeRef::Object(TypeId(165)),
    TypeRef::Object(TypeId(185)),
    TypeRef::Object(TypeId(325)),
    TypeRef::Object(TypeId(345)),
    TypeRef::Object(TypeId(370)),
    TypeRef::Object(TypeId(168)),
    TypeRef::Object(TypeId(214)),
    TypeRef::Object(TypeId(237)),
    TypeRef::Object(TypeId(238)),
    TypeRef::Object(TypeId(295)),
    TypeRef::Object(TypeId(393)),
    TypeRef::Object(TypeId(394)),
    TypeRef::List(&TypeRef::Object(TypeId(399))),
    TypeRef::List(&TypeRef::Object(TypeId(398))),
    TypeRef::List(&TypeRef::Object(TypeId(392))),
    TypeRef::List(&TypeRef::Object(TypeId(395))),
    TypeRef::List(&TypeRef::Object(TypeId(396))),
    TypeRef::Object(TypeId(402)),
    TypeRef::List(&TypeRef::Object(TypeId(400))),
    TypeRef::Object(TypeId(408)),
    TypeRef::Object(TypeId(409)),
    TypeRef::List(&TypeRef::Object(TypeId(405))),
    TypeRef::Object(TypeId(418)),
    TypeRef::Object(TypeId(404)),
    TypeRef::List(&TypeRef::Object(TypeId(414))),
    TypeRef::List(&TypeRef::Object(TypeId(406))),
    TypeRef::Object(TypeId(421)),
    TypeRef::Object(TypeId(411)),
    TypeRef::List(&TypeRef::Object(TypeId(424))),
    TypeRef::List(&TypeRef::Object(TypeId(422))),
    TypeRef::List(&TypeRef::Object(TypeId(413))),
    TypeRef::Object(TypeId(419)),
    TypeRef::Object(TypeId(420)),
    TypeRef::List(&TypeRef::Object(TypeId(415))),
    TypeRef::Object(TypeId(412)),
    TypeRef::Object(TypeId(403)),
    TypeRef::List(&TypeRef::Object(TypeId(416))),
    TypeRef::Object(TypeId(425)),
    TypeRef::Object(TypeId(410)),
    TypeRef::Object(TypeId(423)),
    TypeRef::Object(TypeId(433)),
    TypeRef::List(&TypeRef::Object(TypeId(426))),
    TypeRef::Object(TypeId(430)),
    TypeRef::List(&TypeRef::Object(TypeId(428))),
    TypeRef::Object(TypeId(455)),
    TypeRef::Object(TypeId(445)),
    TypeRef::Object(TypeId(446)),
    TypeRef::Object(TypeId(444)),
    TypeRef::Object(TypeId(437)),
    TypeRef::List(&TypeRef::Object(TypeId(434))),
    TypeRef::Object(TypeId(436)),
    TypeRef::List(&TypeRef::Object(TypeId(432))),
    TypeRef::List(&TypeRef::Object(TypeId(441))),
    TypeRef::List(&TypeRef::Object(TypeId(439))),
    TypeRef::Object(TypeId(443)),
    TypeRef::Object(TypeId(427)),
    TypeRef::Object(TypeId(456)),
    TypeRef::List(&TypeRef::Object(TypeId(447))),
    TypeRef::List(&TypeRef::Object(TypeId(442))),
    TypeRef::Object(TypeId(440)),
    TypeRef::Object(TypeId(454)),
    TypeRef::List(&TypeRef::Object(TypeId(453))),
    TypeRef::List(&TypeRef::Object(TypeId(452))),
    TypeRef::List(&TypeRef::Object(TypeId(448))),
    TypeRef::Object(TypeId(431)),
    TypeRef::List(&TypeRef::Object(TypeId(450))),
    TypeRef::List(&TypeRef::Object(TypeId(449))),
    TypeRef::Object(TypeId(459)),
    TypeRef::Object(TypeId(460)),
    TypeRef::List(&TypeRef::Object(TypeId(457))),
    TypeRef::Object(TypeId(461)),
    TypeRef::Object(TypeId(464)),
    TypeRef::List(&TypeRef::Object(TypeId(462))),
    TypeRef::Object(TypeId(580)),
    TypeRef::Object(TypeId(468)),
    TypeRef::Object(TypeId(469)),
    TypeRef::List(&TypeRef::Object(TypeId(466))),
    TypeRef::Map(&TypeRef::Time),
    TypeRef::List(&TypeRef::Object(TypeId(587))),
    TypeRef::List(&TypeRef::Object(TypeId(475))),
    TypeRef::Object(TypeId(470)),
    TypeRef::List(&TypeRef::Object(TypeId(481))),
    TypeRef::Object(TypeId(480)),
    TypeRef::List(&TypeRef::Object(TypeId(472))),
    TypeRef::List(&TypeRef::Object(TypeId(471))),
    TypeRef::List(&TypeRef::Object(TypeId(477))),
    TypeRef::List(&TypeRef::Object(TypeId(476))),
    TypeRef::Object(TypeId(511)),
    TypeRef::Object(TypeId(492)),
    TypeRef::List(&TypeRef::Quantity),
    TypeRef::Object(TypeId(486)),
    TypeRef::Map(&TypeRef::Object(TypeId(488))),
    TypeRef::Map(&TypeRef::Object(TypeId(493))),
    TypeRef::Map(&TypeRef::Object(TypeId(494))),
    TypeRef::List(&TypeRef::Object(TypeId(503))),
    TypeRef::List(&TypeRef::Object(TypeId(508))),
    TypeRef::Map(&TypeRef::Object(TypeId(512))),
    TypeRef::Object(TypeId(501)),
    TypeRef::List(&TypeRef::Object(TypeId(505))),
    TypeRef::List(&TypeRef::Object(TypeId(491))),
    TypeRef::List(&TypeRef::Bool),
    TypeRef::Object(TypeId(485)),
    TypeRef::List(&TypeRef::Object(TypeId(504))),
    TypeRef::List(&TypeRef::Object(TypeId(502))),
    TypeRef::List(&TypeRef::Object(TypeId(496))),
    TypeRef::Object(TypeId(500)),
    TypeRef::List(&TypeRef::Object(TypeId(497))),
    TypeRef::List(&TypeRef::Object(TypeId(506))),
    TypeRef::List(&TypeRef::Object(TypeId(498))),
    TypeRef::Object(TypeId(513)),
    TypeRef::Object(TypeId(510)),
    TypeRef::List(&TypeRef::Object(TypeId(507))),
    TypeRef::List(&TypeRef::Object(TypeId(509))),
    TypeRef::Object(TypeId(484)),
    TypeRef::Object(TypeId(487)),
    TypeRef::Object(TypeId(517)),
    TypeRef::Object(TypeId(518)),
    TypeRef::List(&TypeRef::Object(TypeId(514))),
    TypeRef::Object(TypeId(495)),
    TypeRef::Object(TypeId(483)),
    TypeRef::List(&TypeRef::Object(TypeId(515))),
    TypeRef::List(&TypeRef::Object(TypeId(482))),
    TypeRef::Object(TypeId(521)),
    TypeRef::List(&TypeRef::Object(TypeId(519))),
    TypeRef::Object(TypeId(525)),
    TypeRef::List(&TypeRef::Object(TypeId(523))),
    TypeRef::Object(TypeId(522)),
    TypeRef::List(&TypeRef::Object(TypeId(490))),
    TypeRef::List(&TypeRef::Object(TypeId(489))),
    TypeRef::List(&TypeRef::Object(TypeId(526))),
    TypeRef::Object(TypeId(530)),
    TypeRef::List(&TypeRef::Object(TypeId(528))),
    TypeRef::List(&TypeRef::Object(TypeId(539))),
    TypeRef::Object(TypeId(534)),
    TypeRef::Object(TypeId(548)),
    TypeRef::List(&TypeRef::Object(TypeId(531))),
    TypeRef::List(&TypeRef::Object(TypeId(532))),
    TypeRef::List(&TypeRef::Object(TypeId(535))),
    TypeRef::List(&TypeRef::Object(TypeId(376))),
    TypeRef::List(&TypeRef::Object(TypeId(537))),
    TypeRef::Object(TypeId(543)),
    TypeRef::Object(TypeId(544)),
    TypeRef::List(&TypeRef::Object(TypeId(540))),
    TypeRef::Object(TypeId(542)),
    TypeRef::Object(TypeId(547)),
    TypeRef::List(&TypeRef::Object(TypeId(545))),
    TypeRef::Object(TypeId(572)),
    TypeRef::Object(TypeId(555)),
    TypeRef::Object(TypeId(556)),
    TypeRef::List(&TypeRef::Object(TypeId(551))),
    TypeRef::Object(TypeId(554)),
    TypeRef::List(&TypeRef::Object(TypeId(557))),
    TypeRef::Object(TypeId(550)),
    TypeRef::List(&TypeRef::Object(TypeId(552))),
    TypeRef::Object(TypeId(561)),
    TypeRef::Object(TypeId(560)),
    TypeRef::List(&TypeRef::Object(TypeId(549))),
    TypeRef::List(&TypeRef::Object(TypeId(568))),
    TypeRef::Object(TypeId(559)),
    TypeRef::Object(TypeId(558)),
    TypeRef::Object(TypeId(564)),
    TypeRef::Object(TypeId(563)),
    TypeRef::Float,
    TypeRef::List(&TypeRef::Object(TypeId(563))),
    TypeRef::Object(TypeId(565)),
    TypeRef::List(&TypeRef::Object(TypeId(564))),
    TypeRef::Map(&TypeRef::Object(TypeId(564))),
    TypeRef::Object(TypeId(566)),
    TypeRef::Map(&TypeRef::Object(TypeId(567))),
    TypeRef::Object(TypeId(562)),
    TypeRef::List(&TypeRef::Object(TypeId(570))),
    TypeRef::Object(TypeId(569)),
    TypeRef::Object(TypeId(571)),
    TypeRef::List(&TypeRef::Object(TypeId(584))),
    TypeRef::Object(TypeId(584)),
    TypeRef::List(&TypeRef::Object(TypeId(600))),
    TypeRef::List(&TypeRef::Object(TypeId(573))),
    TypeRef::Object(TypeId(611)),
    TypeRef::List(&TypeRef::Object(TypeId(575))),
    TypeRef::Object(TypeId(599)),
    TypeRef::List(&TypeRef::Object(TypeId(613))),
    TypeRef::Object(TypeId(601)),
    TypeRef::Object(TypeId(582)),
    TypeRef::List(&TypeRef::Object(TypeId(594))),
    TypeRef::List(&TypeRef::Object(TypeId(592))),
    TypeRef::List(&TypeRef::Object(TypeId(595))),
    TypeRef::Object(TypeId(604)),
    TypeRef::List(&TypeRef::Object(TypeId(603))),
    TypeRef::List(&TypeRef::Object(TypeId(606))),
    TypeRef::List(&TypeRef::Object(TypeId(607))),
    TypeRef::List(&TypeRef::Any),
    TypeRef::List(&TypeRef::Object(TypeId(608))),
    TypeRef::Object(TypeId(618)),
    TypeRef::Object(TypeId(619)),
    TypeRef::List(&TypeRef::Object(TypeId(615))),
    TypeRef::Object(TypeId(620)),
    TypeRef::List(&TypeRef::Object(TypeId(616))),
    TypeRef::Duration,
    TypeRef::List(&TypeRef::Object(TypeId(622))),
    TypeRef::List(&TypeRef::Object(TypeId(621))),
    TypeRef::List(&TypeRef::Object(TypeId(624))),
];

/// How lists and maps merge.
pub(crate) static MERGES: &[Merge; 25] = &[
    Merge { list_type: "", list_map_keys: &[], map_type: "", patch_strategy: "", patch_merge_key: "" },
    Merge { list_type: "atomic", list_map_keys: &[], map_type: "", patch_strategy: "", patch_merge_key: "" },
    Merge { list_type: "map", list_map_keys: &["name"], map_type: "", patch_strategy: "merge", patch_merge_key: "name" },
    Merge { list_type: "set", list_map_keys: &[], map_type: "", patch_strategy: "", patch_merge_key: "" },
    Merge { list_type: "map", list_map_keys: &["type"], map_type: "", patch_strategy: "", patch_merge_key: "" },
    Merge { list_type: "map", list_map_keys: &["type"], map_type: "", patch_strategy: "merge", patch_merge_key: "type" },
    Merge { list_type: "", list_map_keys: &[], map_type: "", patch_strategy: "retainKeys", patch_merge_key: "" },
    Merge { list_type: "atomic", list_map_keys: &[], map_type: "", patch_strategy: "merge", patch_merge_key: "type" },
    Merge { list_type: "map", list_map_keys: &["containerPort", "protocol"], map_type: "", patch_strategy: "merge", patch_merge_key: "containerPort" },
    Merge { list_type: "map", list_map_keys: &["mountPath"], map_type: "", patch_strategy: "merge", patch_merge_key: "mountPath" },
    Merge { list_type: "map", list_map_keys: &["devicePath"], map_type: "", patch_strategy: "merge", patch_merge_key: "devicePath" },
    Merge { list_type: "set", list_map_keys: &[], map_type: "", patch_strategy: "merge", patch_merge_key: "" },
    Merge { list_type: "", list_map_keys: &[], map_type: "granular", patch_strategy: "", patch_merge_key: "" },
    Merge { list_type: "map", list_map_keys: &["name"], map_type: "", patch_strategy: "merge,retainKeys", patch_merge_key: "name" },
    Merge { list_type: "", list_map_keys: &[], map_type: "atomic", patch_strategy: "", patch_merge_key: "" },
    Merge { list_type: "map", list_map_keys: &["ip"], map_type: "", patch_strategy: "merge", patch_merge_key: "ip" },
    Merge { list_type: "map", list_map_keys: &["topologyKey", "whenUnsatisfiable"], map_type: "", patch_strategy: "merge", patch_merge_key: "topologyKey" },
    Merge { list_type: "atomic", list_map_keys: &[], map_type: "", patch_strategy: "merge", patch_merge_key: "ip" },
    Merge { list_type: "map", list_map_keys: &["name"], map_type: "", patch_strategy: "", patch_merge_key: "" },
    Merge { list_type: "map", list_map_keys: &["resourceID"], map_type: "", patch_strategy: "", patch_merge_key: "" },
    Merge { list_type: "map", list_map_keys: &["port", "protocol"], map_type: "", patch_strategy: "merge", patch_merge_key: "port" },
    Merge { list_type: "", list_map_keys: &[], map_type: "", patch_strategy: "replace", patch_merge_key: "" },
    Merge { list_type: "map", list_map_keys: &["uid"], map_type: "", patch_strategy: "merge", patch_merge_key: "uid" },
    Merge { list_type: "map", list_map_keys: &["driver", "device", "pool", "shareID"], map_type: "", patch_strategy: "", patch_merge_key: "" },
    Merge { list_type: "map", list_map_keys: &["rule"], map_type: "", patch_strategy: "merge", patch_merge_key: "rule" },
];

/// Defaults, as JSON.
pub(crate) static DEFAULTS: &[&str; 17] = &[
    "",
    "\"\"",
    "{}",
    "0",
    "false",
    "\"ReadWrite\"",
    "\"ext4\"",
    "\"Shared\"",
    "\"TCP\"",
    "\"default\"",
    "\"rbd\"",
    "\"admin\"",
    "\"/etc/ceph/keyring\"",
    "1",
    "\"ThinProvisioned\"",
    "\"xfs\"",
    "\"Equal\"",
];

/// Types as Go names them.
pub(crate) static GO_TYPES: &[&str; 696] = &[
    "",
    "types.UID",
    "v1.GroupVersionKind",
    "v1.GroupVersionResource",
    "string",
    "v1.Operation",
    "v1.UserInfo",
    "runtime.RawExtension",
    "bool",
    "v1.Status",
    "[]uint8",
    "v1.PatchType",
    "map[string]string",
    "[]string",
    "v1.TypeMeta",
    "v1.AdmissionRequest",
    "v1.AdmissionResponse",
    "v1.LabelSelector",
    "[]v1.NamedRuleWithOperations",
    "v1.MatchPolicyType",
    "v1.ObjectMeta",
    "v1.MutatingAdmissionPolicySpec",
    "v1.MutatingAdmissionPolicyBindingSpec",
    "v1.ListMeta",
    "[]v1.MutatingAdmissionPolicyBinding",
    "v1.ParamRef",
    "v1.MatchResources",
    "[]v1.MutatingAdmissionPolicy",
    "v1.ParamKind",
    "[]v1.Variable",
    "[]v1.Mutation",
    "v1.FailurePolicyType",
    "[]v1.MatchCondition",
    "v1.ReinvocationPolicyType",
    "v1.WebhookClientConfig",
    "[]v1.RuleWithOperations",
    "v1.SideEffectClass",
    "int32",
    "[]v1.MutatingWebhook",
    "[]v1.MutatingWebhookConfiguration",
    "v1.ApplyConfiguration",
    "v1.JSONPatch",
    "v1.RuleWithOperations",
    "v1.ParameterNotFoundActionType",
    "v1.ScopeType",
    "[]v1.OperationType",
    "v1.Rule",
    "[]v1.ExpressionWarning",
    "v1.ValidatingAdmissionPolicySpec",
    "v1.ValidatingAdmissionPolicyStatus",
    "v1.ValidatingAdmissionPolicyBindingSpec",
    "[]v1.ValidatingAdmissionPolicyBinding",
    "[]v1.ValidationAction",
    "[]v1.ValidatingAdmissionPolicy",
    "[]v1.Validation",
    "[]v1.AuditAnnotation",
    "int64",
    "v1.TypeChecking",
    "[]v1.Condition",
    "[]v1.ValidatingWebhook",
    "[]v1.ValidatingWebhookConfiguration",
    "v1.StatusReason",
    "v1.ServiceReference",
    "[]v2.APIVersionDiscovery",
    "[]v2.APIGroupDiscovery",
    "v2.ResourceScope",
    "[]v2.APISubresourceDiscovery",
    "[]v1.GroupVersionKind",
    "[]v2.APIResourceDiscovery",
    "v2.DiscoveryFreshness",
    "[]v1.ControllerRevision",
    "v1.DaemonSetSpec",
    "v1.DaemonSetStatus",
    "v1.DaemonSetConditionType",
    "v1.ConditionStatus",
    "v1.Time",
    "[]v1.DaemonSet",
    "v1.PodTemplateSpec",
    "v1.DaemonSetUpdateStrategy",
    "[]v1.DaemonSetCondition",
    "v1.DaemonSetUpdateStrategyType",
    "v1.RollingUpdateDaemonSet",
    "v1.DeploymentSpec",
    "v1.DeploymentStatus",
    "v1.DeploymentConditionType",
    "[]v1.Deployment",
    "v1.DeploymentStrategy",
    "[]v1.DeploymentCondition",
    "v1.DeploymentStrategyType",
    "v1.RollingUpdateDeployment",
    "v1.ReplicaSetSpec",
    "v1.ReplicaSetStatus",
    "v1.ReplicaSetConditionType",
    "[]v1.ReplicaSet",
    "[]v1.ReplicaSetCondition",
    "intstr.IntOrString",
    "v1.StatefulSetSpec",
    "v1.StatefulSetStatus",
    "v1.StatefulSetConditionType",
    "[]v1.StatefulSet",
    "v1.PersistentVolumeClaimRetentionPolicyType",
    "[]v1.PersistentVolumeClaim",
    "v1.PodManagementPolicyType",
    "v1.StatefulSetUpdateStrategy",
    "v1.StatefulSetPersistentVolumeClaimRetentionPolicy",
    "v1.StatefulSetOrdinals",
    "[]v1.StatefulSetCondition",
    "v1.StatefulSetUpdateStrategyType",
    "v1.RollingUpdateStatefulSetStrategy",
    "v1.SelfSubjectReviewStatus",
    "v1.TokenRequestSpec",
    "v1.TokenRequestStatus",
    "v1.BoundObjectReference",
    "v1.TokenReviewSpec",
    "v1.TokenReviewStatus",
    "map[string]v1.ExtraValue",
    "[]v1.FieldSelectorRequirement",
    "[]v1.LabelSelectorRequirement",
    "v1.SubjectAccessReviewSpec",
    "v1.SubjectAccessReviewStatus",
    "v1.FieldSelectorAttributes",
    "v1.LabelSelectorAttributes",
    "v1.SelfSubjectAccessReviewSpec",
    "v1.ResourceAttributes",
    "v1.NonResourceAttributes",
    "v1.SelfSubjectRulesReviewSpec",
    "v1.SubjectRulesReviewStatus",
    "[]v1.ResourceRule",
    "[]v1.NonResourceRule",
    "v1.HorizontalPodAutoscalerSpec",
    "v1.HorizontalPodAutoscalerStatus",
    "[]v1.HorizontalPodAutoscaler",
    "v1.CrossVersionObjectReference",
    "v1.ScaleSpec",
    "v1.ScaleStatus",
    "v1.ResourceName",
    "v2.MetricTarget",
    "v2.MetricValueStatus",
    "v2.MetricIdentifier",
    "v2.HPAScalingPolicyType",
    "v2.ScalingPolicySelect",
    "[]v2.HPAScalingPolicy",
    "resource.Quantity",
    "v2.HorizontalPodAutoscalerSpec",
    "v2.HorizontalPodAutoscalerStatus",
    "v2.HPAScalingRules",
    "v2.HorizontalPodAutoscalerConditionType",
    "[]v2.HorizontalPodAutoscaler",
    "v2.CrossVersionObjectReference",
    "[]v2.MetricSpec",
    "v2.HorizontalPodAutoscalerBehavior",
    "[]v2.MetricStatus",
    "[]v2.HorizontalPodAutoscalerCondition",
    "v2.MetricSourceType",
    "v2.ObjectMetricSource",
    "v2.PodsMetricSource",
    "v2.ResourceMetricSource",
    "v2.ContainerResourceMetricSource",
    "v2.ExternalMetricSource",
    "v2.ObjectMetricStatus",
    "v2.PodsMetricStatus",
    "v2.ResourceMetricStatus",
    "v2.ContainerResourceMetricStatus",
    "v2.ExternalMetricStatus",
    "v2.MetricTargetType",
    "v1.CronJobSpec",
    "v1.CronJobStatus",
    "[]v1.CronJob",
    "v1.ConcurrencyPolicy",
    "v1.JobTemplateSpec",
    "[]v1.ObjectReference",
    "v1.JobSpec",
    "v1.JobStatus",
    "v1.JobConditionType",
    "[]v1.Job",
    "v1.PodFailurePolicy",
    "v1.SuccessPolicy",
    "v1.CompletionMode",
    "v1.PodReplacementPolicy",
    "[]v1.JobCondition",
    "v1.UncountedTerminatedPods",
    "[]v1.PodFailurePolicyRule",
    "v1.PodFailurePolicyOnExitCodesOperator",
    "[]int32",
    "v1.PodConditionType",
    "v1.PodFailurePolicyAction",
    "v1.PodFailurePolicyOnExitCodesRequirement",
    "[]v1.PodFailurePolicyOnPodConditionsPattern",
    "[]v1.SuccessPolicyRule",
    "[]types.UID",
    "v1.CertificateSigningRequestSpec",
    "v1.CertificateSigningRequestStatus",
    "v1.RequestConditionType",
    "[]v1.CertificateSigningRequest",
    "[]v1.KeyUsage",
    "[]v1.CertificateSigningRequestCondition",
    "v1.LeaseSpec",
    "[]v1.Lease",
    "v1.MicroTime",
    "v1.CoordinatedLeaseStrategy",
    "v1.NodeAffinity",
    "v1.PodAffinity",
    "v1.PodAntiAffinity",
    "v1.AppArmorProfileType",
    "v1.UniqueVolumeName",
    "v1.AzureDataDiskCachingMode",
    "v1.AzureDataDiskKind",
    "v1.ObjectReference",
    "v1.SecretReference",
    "v1.LocalObjectReference",
    "[]v1.Capability",
    "v1.ComponentConditionType",
    "[]v1.ComponentCondition",
    "[]v1.ComponentStatus",
    "map[string][]uint8",
    "[]v1.ConfigMap",
    "[]v1.KeyToPath",
    "[]v1.ContainerPort",
    "[]v1.EnvFromSource",
    "[]v1.EnvVar",
    "v1.ResourceRequirements",
    "[]v1.ContainerResizePolicy",
    "v1.ContainerRestartPolicy",
    "[]v1.ContainerRestartRule",
    "[]v1.VolumeMount",
    "[]v1.VolumeDevice",
    "v1.Probe",
    "v1.Lifecycle",
    "v1.TerminationMessagePolicy",
    "v1.PullPolicy",
    "v1.SecurityContext",
    "v1.Protocol",
    "v1.ResourceResizeRestartPolicy",
    "v1.ContainerRestartRuleAction",
    "v1.ContainerRestartRuleOnExitCodes",
    "v1.ContainerRestartRuleOnExitCodesOperator",
    "v1.ContainerStateWaiting",
    "v1.ContainerStateRunning",
    "v1.ContainerStateTerminated",
    "v1.ContainerState",
    "v1.ResourceList",
    "[]v1.VolumeMountStatus",
    "v1.ContainerUser",
    "[]v1.ResourceStatus",
    "v1.Signal",
    "v1.LinuxContainerUser",
    "[]v1.DownwardAPIVolumeFile",
    "v1.ObjectFieldSelector",
    "v1.ResourceFieldSelector",
    "v1.StorageMedium",
    "[]v1.EndpointAddress",
    "[]v1.EndpointPort",
    "[]v1.EndpointSubset",
    "[]v1.Endpoints",
    "v1.ConfigMapEnvSource",
    "v1.SecretEnvSource",
    "v1.EnvVarSource",
    "v1.ConfigMapKeySelector",
    "v1.SecretKeySelector",
    "v1.FileKeySelector",
    "v1.EphemeralContainerCommon",
    "v1.PersistentVolumeClaimTemplate",
    "v1.EventSource",
    "v1.EventSeries",
    "[]v1.Event",
    "v1.URIScheme",
    "[]v1.HTTPHeader",
    "v1.HostPathType",
    "v1.LifecycleHandler",
    "v1.ExecAction",
    "v1.HTTPGetAction",
    "v1.TCPSocketAction",
    "v1.SleepAction",
    "v1.LimitRangeSpec",
    "v1.LimitType",
    "[]v1.LimitRange",
    "[]v1.LimitRangeItem",
    "[]int64",
    "v1.LoadBalancerIPMode",
    "[]v1.PortStatus",
    "[]v1.LoadBalancerIngress",
    "v1.PersistentVolumeClaimModifyVolumeStatus",
    "v1.NamespaceSpec",
    "v1.NamespaceStatus",
    "v1.NamespaceConditionType",
    "[]v1.Namespace",
    "[]v1.FinalizerName",
    "v1.NamespacePhase",
    "[]v1.NamespaceCondition",
    "v1.NodeSpec",
    "v1.NodeStatus",
    "v1.NodeAddressType",
    "v1.NodeSelector",
    "[]v1.PreferredSchedulingTerm",
    "map[v1.ResourceName]resource.Quantity",
    "v1.NodeConditionType",
    "v1.ConfigMapNodeConfigSource",
    "v1.NodeConfigSource",
    "v1.DaemonEndpoint",
    "[]v1.Node",
    "v1.NodeRuntimeHandlerFeatures",
    "[]v1.NodeSelectorTerm",
    "v1.NodeSelectorOperator",
    "[]v1.NodeSelectorRequirement",
    "[]v1.Taint",
    "v1.NodePhase",
    "[]v1.NodeCondition",
    "[]v1.NodeAddress",
    "v1.NodeDaemonEndpoints",
    "v1.NodeSystemInfo",
    "[]v1.ContainerImage",
    "[]v1.UniqueVolumeName",
    "[]v1.AttachedVolume",
    "v1.NodeConfigStatus",
    "[]v1.NodeRuntimeHandler",
    "v1.NodeFeatures",
    "v1.NodeSwapStatus",
    "v1.PersistentVolumeSpec",
    "v1.PersistentVolumeStatus",
    "v1.PersistentVolumeClaimSpec",
    "v1.PersistentVolumeClaimStatus",
    "v1.PersistentVolumeClaimConditionType",
    "[]v1.PersistentVolumeAccessMode",
    "v1.VolumeResourceRequirements",
    "v1.PersistentVolumeMode",
    "v1.TypedLocalObjectReference",
    "v1.TypedObjectReference",
    "v1.PersistentVolumeClaimPhase",
    "[]v1.PersistentVolumeClaimCondition",
    "map[v1.ResourceName]v1.ClaimResourceStatus",
    "v1.ModifyVolumeStatus",
    "[]v1.PersistentVolume",
    "v1.GCEPersistentDiskVolumeSource",
    "v1.AWSElasticBlockStoreVolumeSource",
    "v1.HostPathVolumeSource",
    "v1.GlusterfsPersistentVolumeSource",
    "v1.NFSVolumeSource",
    "v1.RBDPersistentVolumeSource",
    "v1.ISCSIPersistentVolumeSource",
    "v1.CinderPersistentVolumeSource",
    "v1.CephFSPersistentVolumeSource",
    "v1.FCVolumeSource",
    "v1.FlockerVolumeSource",
    "v1.FlexPersistentVolumeSource",
    "v1.AzureFilePersistentVolumeSource",
    "v1.VsphereVirtualDiskVolumeSource",
    "v1.QuobyteVolumeSource",
    "v1.AzureDiskVolumeSource",
    "v1.PhotonPersistentDiskVolumeSource",
    "v1.PortworxVolumeSource",
    "v1.ScaleIOPersistentVolumeSource",
    "v1.LocalVolumeSource",
    "v1.StorageOSPersistentVolumeSource",
    "v1.CSIPersistentVolumeSource",
    "v1.PersistentVolumeSource",
    "v1.PersistentVolumeReclaimPolicy",
    "v1.VolumeNodeAffinity",
    "v1.PersistentVolumePhase",
    "v1.PodSpec",
    "v1.PodStatus",
    "[]v1.PodAffinityTerm",
    "[]v1.WeightedPodAffinityTerm",
    "[]v1.PodDNSConfigOption",
    "[]v1.ContainerExtendedResourceRequest",
    "[]v1.Pod",
    "v1.OSName",
    "v1.SELinuxOptions",
    "v1.WindowsSecurityContextOptions",
    "v1.SupplementalGroupsPolicy",
    "[]v1.Sysctl",
    "v1.PodFSGroupChangePolicy",
    "v1.SeccompProfile",
    "v1.AppArmorProfile",
    "v1.PodSELinuxChangePolicy",
    "[]v1.Volume",
    "[]v1.Container",
    "[]v1.EphemeralContainer",
    "v1.RestartPolicy",
    "v1.DNSPolicy",
    "v1.PodSecurityContext",
    "[]v1.LocalObjectReference",
    "v1.Affinity",
    "[]v1.Toleration",
    "[]v1.HostAlias",
    "v1.PodDNSConfig",
    "[]v1.PodReadinessGate",
    "v1.PreemptionPolicy",
    "[]v1.TopologySpreadConstraint",
    "v1.PodOS",
    "[]v1.PodSchedulingGate",
    "[]v1.PodResourceClaim",
    "v1.PodSchedulingGroup",
    "v1.PodPhase",
    "[]v1.PodCondition",
    "[]v1.HostIP",
    "[]v1.PodIP",
    "[]v1.ContainerStatus",
    "v1.PodQOSClass",
    "v1.PodResizeStatus",
    "[]v1.PodResourceClaimStatus",
    "v1.PodExtendedResourceClaimStatus",
    "[]v1.NodeAllocatableResourceClaimStatus",
    "[]v1.PodTemplate",
    "v1.NodeSelectorTerm",
    "v1.ProbeHandler",
    "v1.GRPCAction",
    "[]v1.VolumeProjection",
    "v1.ReplicationControllerSpec",
    "v1.ReplicationControllerStatus",
    "v1.ReplicationControllerConditionType",
    "[]v1.ReplicationController",
    "[]v1.ReplicationControllerCondition",
    "v1.ResourceID",
    "v1.ResourceHealthStatus",
    "v1.ResourceQuotaSpec",
    "v1.ResourceQuotaStatus",
    "[]v1.ResourceQuota",
    "[]v1.ResourceQuotaScope",
    "v1.ScopeSelector",
    "[]v1.ResourceClaim",
    "[]v1.ResourceHealth",
    "[]v1.ScopedResourceSelectorRequirement",
    "v1.ResourceQuotaScope",
    "v1.ScopeSelectorOperator",
    "v1.SeccompProfileType",
    "v1.SecretType",
    "[]v1.Secret",
    "v1.Capabilities",
    "v1.ProcMountType",
    "v1.ServiceSpec",
    "v1.ServiceStatus",
    "[]v1.ServiceAccount",
    "[]v1.Service",
    "[]v1.ServicePort",
    "v1.ServiceType",
    "v1.ServiceAffinity",
    "v1.ServiceExternalTrafficPolicy",
    "v1.SessionAffinityConfig",
    "[]v1.IPFamily",
    "v1.IPFamilyPolicy",
    "v1.ServiceInternalTrafficPolicy",
    "v1.LoadBalancerStatus",
    "v1.ClientIPConfig",
    "v1.TaintEffect",
    "v1.TolerationOperator",
    "[]v1.TopologySelectorLabelRequirement",
    "v1.UnsatisfiableConstraintAction",
    "v1.NodeInclusionPolicy",
    "v1.VolumeSource",
    "v1.RecursiveReadOnlyMode",
    "v1.MountPropagationMode",
    "v1.VolumeStatus",
    "v1.SecretProjection",
    "v1.DownwardAPIProjection",
    "v1.ConfigMapProjection",
    "v1.ServiceAccountTokenProjection",
    "v1.ClusterTrustBundleProjection",
    "v1.PodCertificateProjection",
    "v1.EmptyDirVolumeSource",
    "v1.GitRepoVolumeSource",
    "v1.SecretVolumeSource",
    "v1.ISCSIVolumeSource",
    "v1.GlusterfsVolumeSource",
    "v1.PersistentVolumeClaimVolumeSource",
    "v1.RBDVolumeSource",
    "v1.FlexVolumeSource",
    "v1.CinderVolumeSource",
    "v1.CephFSVolumeSource",
    "v1.DownwardAPIVolumeSource",
    "v1.AzureFileVolumeSource",
    "v1.ConfigMapVolumeSource",
    "v1.ProjectedVolumeSource",
    "v1.ScaleIOVolumeSource",
    "v1.StorageOSVolumeSource",
    "v1.CSIVolumeSource",
    "v1.EphemeralVolumeSource",
    "v1.ImageVolumeSource",
    "v1.ImageVolumeStatus",
    "v1.PodAffinityTerm",
    "v1.EndpointConditions",
    "v1.EndpointHints",
    "[]v1.ForZone",
    "[]v1.ForNode",
    "v1.AddressType",
    "[]v1.Endpoint",
    "[]v1.EndpointSlice",
    "v1.FlowDistinguisherMethodType",
    "v1.FlowSchemaSpec",
    "v1.FlowSchemaStatus",
    "v1.FlowSchemaConditionType",
    "[]v1.FlowSchema",
    "v1.PriorityLevelConfigurationReference",
    "v1.FlowDistinguisherMethod",
    "[]v1.PolicyRulesWithSubjects",
    "[]v1.FlowSchemaCondition",
    "v1.LimitResponseType",
    "v1.QueuingConfiguration",
    "v1.LimitResponse",
    "[]v1.Subject",
    "[]v1.ResourcePolicyRule",
    "[]v1.NonResourcePolicyRule",
    "v1.PriorityLevelConfigurationSpec",
    "v1.PriorityLevelConfigurationStatus",
    "v1.PriorityLevelConfigurationConditionType",
    "[]v1.PriorityLevelConfiguration",
    "v1.PriorityLevelEnablement",
    "v1.LimitedPriorityLevelConfiguration",
    "v1.ExemptPriorityLevelConfiguration",
    "[]v1.PriorityLevelConfigurationCondition",
    "v1.SubjectKind",
    "v1.UserSubject",
    "v1.GroupSubject",
    "v1.ServiceAccountSubject",
    "v1.PathType",
    "v1.IngressBackend",
    "[]v1.HTTPIngressPath",
    "v1.IPAddressSpec",
    "[]v1.IPAddress",
    "v1.ParentReference",
    "v1.IngressSpec",
    "v1.IngressStatus",
    "v1.IngressServiceBackend",
    "v1.IngressClassSpec",
    "[]v1.IngressClass",
    "v1.IngressClassParametersReference",
    "[]v1.Ingress",
    "[]v1.IngressPortStatus",
    "[]v1.IngressLoadBalancerIngress",
    "v1.IngressRuleValue",
    "v1.HTTPIngressRuleValue",
    "v1.ServiceBackendPort",
    "[]v1.IngressTLS",
    "[]v1.IngressRule",
    "v1.IngressLoadBalancerStatus",
    "v1.NetworkPolicySpec",
    "[]v1.NetworkPolicyPort",
    "[]v1.NetworkPolicyPeer",
    "[]v1.NetworkPolicy",
    "v1.IPBlock",
    "[]v1.NetworkPolicyIngressRule",
    "[]v1.NetworkPolicyEgressRule",
    "[]v1.PolicyType",
    "v1.ServiceCIDRSpec",
    "v1.ServiceCIDRStatus",
    "[]v1.ServiceCIDR",
    "v1.Overhead",
    "v1.Scheduling",
    "[]v1.RuntimeClass",
    "v1.DeleteOptions",
    "v1.PodDisruptionBudgetSpec",
    "v1.PodDisruptionBudgetStatus",
    "[]v1.PodDisruptionBudget",
    "v1.UnhealthyPodEvictionPolicyType",
    "map[string]v1.Time",
    "[]v1.LabelSelector",
    "[]v1.PolicyRule",
    "v1.AggregationRule",
    "v1.RoleRef",
    "[]v1.ClusterRoleBinding",
    "[]v1.ClusterRole",
    "[]v1.RoleBinding",
    "[]v1.Role",
    "v1.NetworkDeviceData",
    "v1.DeviceAllocationResult",
    "[]resource.Quantity",
    "v1.CapacityRequestPolicyRange",
    "map[v1.QualifiedName]resource.Quantity",
    "map[string]v1.Counter",
    "map[v1.QualifiedName]v1.DeviceAttribute",
    "map[v1.QualifiedName]v1.DeviceCapacity",
    "[]v1.DeviceCounterConsumption",
    "[]v1.DeviceTaint",
    "map[v1.ResourceName]v1.NodeAllocatableResourceMapping",
    "v1.AllocationConfigSource",
    "v1.DeviceConfiguration",
    "[]v1.DeviceRequestAllocationResult",
    "[]v1.DeviceAllocationConfiguration",
    "[]bool",
    "v1.CapacityRequestPolicy",
    "[]v1.DeviceRequest",
    "[]v1.DeviceConstraint",
    "[]v1.DeviceClaimConfiguration",
    "v1.DeviceClassSpec",
    "[]v1.DeviceClass",
    "[]v1.DeviceSelector",
    "[]v1.DeviceClassConfiguration",
    "v1.OpaqueDeviceConfiguration",
    "v1.FullyQualifiedName",
    "v1.ExactDeviceRequest",
    "[]v1.DeviceSubRequest",
    "[]v1.DeviceToleration",
    "v1.CELDeviceSelector",
    "v1.DeviceAllocationMode",
    "v1.CapacityRequirements",
    "v1.DeviceTaintEffect",
    "v1.DeviceTolerationOperator",
    "v1.QualifiedName",
    "v1.ResourceClaimSpec",
    "v1.ResourceClaimStatus",
    "v1.DeviceClaim",
    "v1.AllocationResult",
    "[]v1.ResourceClaimConsumerReference",
    "[]v1.AllocatedDeviceStatus",
    "v1.ResourceClaimTemplateSpec",
    "[]v1.ResourceClaimTemplate",
    "v1.ResourceSliceSpec",
    "[]v1.ResourceSlice",
    "v1.ResourcePool",
    "[]v1.Device",
    "[]v1.CounterSet",
    "[]v1.PriorityClass",
    "v1.CSIDriverSpec",
    "[]v1.CSIDriver",
    "[]v1.VolumeLifecycleMode",
    "v1.FSGroupPolicy",
    "[]v1.TokenRequest",
    "v1.CSINodeSpec",
    "v1.VolumeNodeResources",
    "[]v1.CSINode",
    "[]v1.CSINodeDriver",
    "[]v1.CSIStorageCapacity",
    "v1.VolumeBindingMode",
    "[]v1.TopologySelectorTerm",
    "[]v1.StorageClass",
    "v1.VolumeAttachmentSpec",
    "v1.VolumeAttachmentStatus",
    "[]v1.VolumeAttachment",
    "v1.VolumeAttachmentSource",
    "v1.VolumeError",
    "[]v1.VolumeAttributesClass",
    "v1.ConversionStrategyType",
    "v1.WebhookConversion",
    "v1.CustomResourceDefinitionSpec",
    "v1.CustomResourceDefinitionStatus",
    "v1.CustomResourceDefinitionConditionType",
    "[]v1.CustomResourceDefinition",
    "v1.CustomResourceDefinitionNames",
    "v1.ResourceScope",
    "[]v1.CustomResourceDefinitionVersion",
    "v1.CustomResourceConversion",
    "[]v1.CustomResourceDefinitionCondition",
    "v1.CustomResourceValidation",
    "v1.CustomResourceSubresources",
    "[]v1.CustomResourceColumnDefinition",
    "[]v1.SelectableField",
    "v1.CustomResourceSubresourceStatus",
    "v1.CustomResourceSubresourceScale",
    "v1.JSONSchemaProps",
    "v1.JSONSchemaURL",
    "v1.JSON",
    "float64",
    "[]v1.JSON",
    "v1.JSONSchemaPropsOrArray",
    "[]v1.JSONSchemaProps",
    "map[string]v1.JSONSchemaProps",
    "v1.JSONSchemaPropsOrBool",
    "v1.JSONSchemaDependencies",
    "v1.JSONSchemaDefinitions",
    "v1.ExternalDocumentation",
    "v1.ValidationRules",
    "v1.FieldValueErrorReason",
    "[]v1.GroupVersionForDiscovery",
    "v1.GroupVersionForDiscovery",
    "[]v1.ServerAddressByClientCIDR",
    "[]v1.APIGroup",
    "v1.Verbs",
    "[]v1.APIResource",
    "v1.Preconditions",
    "v1.DeletionPropagation",
    "v1.FieldSelectorOperator",
    "v1.LabelSelectorOperator",
    "[]runtime.RawExtension",
    "v1.ShardInfo",
    "v1.ResourceVersionMatch",
    "v1.ManagedFieldsOperationType",
    "v1.FieldsV1",
    "[]v1.OwnerReference",
    "[]v1.ManagedFieldsEntry",
    "[]v1.PartialObjectMetadata",
    "v1.StatusDetails",
    "v1.CauseType",
    "[]v1.StatusCause",
    "[]v1.TableColumnDefinition",
    "[]v1.TableRow",
    "[]interface {}",
    "[]v1.TableRowCondition",
    "v1.RowConditionType",
    "v1.APIServiceSpec",
    "v1.APIServiceStatus",
    "v1.APIServiceConditionType",
    "[]v1.APIService",
    "[]v1.APIServiceCondition",
    "v1.Duration",
    "[]v1beta1.NodeMetrics",
    "[]v1beta1.ContainerMetrics",
    "[]v1beta1.PodMetrics",
];

/// Names in Go that do not follow from those in JSON, by the field's place below.
pub(crate) static GO_NAMES: &[(u16, &str); 320] = &[
    (0, "UID"),
    (15, "UID"),
    (17, "Result"),
    (39, "ObjectMeta"),
    (42, "ObjectMeta"),
    (45, "ListMeta"),
    (51, "ListMeta"),
    (73, "ObjectMeta"),
    (76, "ListMeta"),
    (80, "JSONPatch"),
    (83, "APIVersion"),
    (89, "APIGroups"),
    (90, "APIVersions"),
    (101, "ObjectMeta"),
    (105, "ObjectMeta"),
    (108, "ListMeta"),
    (115, "ListMeta"),
    (139, "ObjectMeta"),
    (142, "ListMeta"),
    (150, "URL"),
    (152, "CABundle"),
    (154, "ObjectMeta"),
    (157, "ListMeta"),
    (175, "ObjectMeta"),
    (179, "ListMeta"),
    (182, "ObjectMeta"),
    (191, "ListMeta"),
    (211, "ObjectMeta"),
    (221, "ListMeta"),
    (243, "ObjectMeta"),
    (252, "ListMeta"),
    (272, "ObjectMeta"),
    (281, "ListMeta"),
    (310, "APIVersion"),
    (312, "UID"),
    (314, "ObjectMeta"),
    (318, "ObjectMeta"),
    (327, "ObjectMeta"),
    (337, "UID"),
    (345, "ObjectMeta"),
    (362, "APIGroups"),
    (366, "ObjectMeta"),
    (372, "ObjectMeta"),
    (377, "ObjectMeta"),
    (385, "UID"),
    (396, "APIVersion"),
    (398, "ObjectMeta"),
    (402, "ListMeta"),
    (414, "ObjectMeta"),
    (428, "APIVersion"),
    (441, "ObjectMeta"),
    (452, "ListMeta"),
    (501, "ObjectMeta"),
    (505, "ListMeta"),
    (519, "ObjectMeta"),
    (529, "ListMeta"),
    (542, "TTLSecondsAfterFinished"),
    (558, "ObjectMeta"),
    (575, "ObjectMeta"),
    (585, "ListMeta"),
    (592, "UID"),
    (598, "ObjectMeta"),
    (601, "ListMeta"),
    (611, "FSType"),
    (622, "DataDiskURI"),
    (624, "FSType"),
    (635, "ObjectMeta"),
    (640, "FSType"),
    (649, "FSType"),
    (667, "FSType"),
    (671, "FSType"),
    (685, "ObjectMeta"),
    (688, "ListMeta"),
    (691, "ObjectMeta"),
    (701, "ListMeta"),
    (705, "UID"),
    (739, "TTY"),
    (771, "LastTerminationState"),
    (795, "IP"),
    (807, "ObjectMeta"),
    (810, "ListMeta"),
    (849, "TTY"),
    (852, "ObjectMeta"),
    (865, "ReportingController"),
    (868, "ListMeta"),
    (877, "FSType"),
    (879, "WWIDs"),
    (885, "FSType"),
    (890, "FSType"),
    (896, "PDName"),
    (897, "FSType"),
    (905, "EndpointsName"),
    (909, "EndpointsName"),
    (916, "HTTPHeaders"),
    (919, "IP"),
    (921, "IP"),
    (925, "IQN"),
    (927, "ISCSIInterface"),
    (928, "FSType"),
    (931, "DiscoveryCHAPAuth"),
    (932, "SessionCHAPAuth"),
    (936, "IQN"),
    (938, "ISCSIInterface"),
    (939, "FSType"),
    (942, "DiscoveryCHAPAuth"),
    (943, "SessionCHAPAuth"),
    (956, "HTTPGet"),
    (957, "TCPSocket"),
    (960, "ObjectMeta"),
    (969, "ListMeta"),
    (972, "UID"),
    (973, "GID"),
    (975, "IP"),
    (977, "IPMode"),
    (982, "FSType"),
    (989, "ObjectMeta"),
    (998, "ListMeta"),
    (1004, "ObjectMeta"),
    (1028, "ListMeta"),
    (1048, "DoNotUseExternalID"),
    (1068, "OSImage"),
    (1075, "APIVersion"),
    (1080, "UID"),
    (1081, "APIVersion"),
    (1085, "ObjectMeta"),
    (1089, "ObjectMeta"),
    (1099, "ListMeta"),
    (1118, "ObjectMeta"),
    (1123, "ListMeta"),
    (1125, "GCEPersistentDisk"),
    (1126, "AWSElasticBlockStore"),
    (1129, "NFS"),
    (1130, "RBD"),
    (1131, "ISCSI"),
    (1133, "CephFS"),
    (1134, "FC"),
    (1145, "StorageOS"),
    (1146, "CSI"),
    (1162, "FSType"),
    (1164, "ObjectMeta"),
    (1181, "TTY"),
    (1206, "TTY"),
    (1211, "IP"),
    (1213, "ListMeta"),
    (1228, "SELinuxOptions"),
    (1235, "FSGroup"),
    (1237, "FSGroupChangePolicy"),
    (1240, "SELinuxChangePolicy"),
    (1248, "DNSPolicy"),
    (1251, "DeprecatedServiceAccount"),
    (1268, "DNSConfig"),
    (1276, "OS"),
    (1296, "QOSClass"),
    (1305, "ObjectMeta"),
    (1308, "ListMeta"),
    (1310, "ObjectMeta"),
    (1316, "FSType"),
    (1328, "HTTPGet"),
    (1329, "TCPSocket"),
    (1330, "GRPC"),
    (1339, "CephMonitors"),
    (1340, "RBDImage"),
    (1341, "FSType"),
    (1342, "RBDPool"),
    (1343, "RadosUser"),
    (1347, "CephMonitors"),
    (1348, "RBDImage"),
    (1349, "FSType"),
    (1350, "RBDPool"),
    (1351, "RadosUser"),
    (1356, "ObjectMeta"),
    (1365, "ListMeta"),
    (1386, "ObjectMeta"),
    (1390, "ListMeta"),
    (1409, "SSLEnabled"),
    (1414, "FSType"),
    (1419, "SSLEnabled"),
    (1424, "FSType"),
    (1433, "ObjectMeta"),
    (1444, "ListMeta"),
    (1457, "SELinuxOptions"),
    (1470, "ObjectMeta"),
    (1474, "ObjectMeta"),
    (1479, "ListMeta"),
    (1485, "ListMeta"),
    (1509, "IPFamilies"),
    (1510, "IPFamilyPolicy"),
    (1521, "FSType"),
    (1526, "FSType"),
    (1553, "APIGroup"),
    (1556, "APIGroup"),
    (1587, "GCEPersistentDisk"),
    (1588, "AWSElasticBlockStore"),
    (1591, "NFS"),
    (1592, "ISCSI"),
    (1595, "RBD"),
    (1598, "CephFS"),
    (1601, "FC"),
    (1611, "StorageOS"),
    (1612, "CSI"),
    (1617, "FSType"),
    (1622, "GMSACredentialSpecName"),
    (1623, "GMSACredentialSpec"),
    (1644, "ObjectMeta"),
    (1649, "ListMeta"),
    (1654, "ObjectMeta"),
    (1670, "ListMeta"),
    (1678, "ObjectMeta"),
    (1687, "ListMeta"),
    (1707, "ObjectMeta"),
    (1716, "ListMeta"),
    (1727, "APIGroups"),
    (1743, "ObjectMeta"),
    (1746, "ListMeta"),
    (1749, "CIDR"),
    (1752, "ObjectMeta"),
    (1758, "ObjectMeta"),
    (1761, "ListMeta"),
    (1763, "APIGroup"),
    (1771, "ListMeta"),
    (1773, "IP"),
    (1782, "HTTP"),
    (1787, "TLS"),
    (1793, "ObjectMeta"),
    (1800, "ListMeta"),
    (1804, "IPBlock"),
    (1819, "ObjectMeta"),
    (1823, "ListMeta"),
    (1825, "CIDRs"),
    (1829, "ObjectMeta"),
    (1834, "ListMeta"),
    (1839, "ObjectMeta"),
    (1842, "ObjectMeta"),
    (1846, "ListMeta"),
    (1861, "ObjectMeta"),
    (1865, "ObjectMeta"),
    (1869, "ListMeta"),
    (1872, "ListMeta"),
    (1875, "APIGroups"),
    (1880, "ObjectMeta"),
    (1883, "ObjectMeta"),
    (1887, "ListMeta"),
    (1890, "ListMeta"),
    (1892, "APIGroup"),
    (1896, "APIGroup"),
    (1938, "IntValue"),
    (1939, "BoolValue"),
    (1940, "StringValue"),
    (1941, "VersionValue"),
    (1942, "IntValues"),
    (1943, "BoolValues"),
    (1944, "StringValues"),
    (1945, "VersionValues"),
    (1954, "ObjectMeta"),
    (1958, "ListMeta"),
    (1982, "CEL"),
    (2007, "IPs"),
    (2014, "ObjectMeta"),
    (2017, "APIGroup"),
    (2020, "UID"),
    (2022, "ListMeta"),
    (2029, "ObjectMeta"),
    (2032, "ListMeta"),
    (2034, "ObjectMeta"),
    (2040, "ObjectMeta"),
    (2043, "ListMeta"),
    (2054, "ObjectMeta"),
    (2060, "ListMeta"),
    (2063, "ObjectMeta"),
    (2066, "ListMeta"),
    (2072, "FSGroupPolicy"),
    (2075, "SELinuxMount"),
    (2080, "ObjectMeta"),
    (2087, "ListMeta"),
    (2091, "ObjectMeta"),
    (2097, "ListMeta"),
    (2100, "ObjectMeta"),
    (2109, "ListMeta"),
    (2114, "ObjectMeta"),
    (2118, "ListMeta"),
    (2130, "ObjectMeta"),
    (2134, "ListMeta"),
    (2145, "JSONPath"),
    (2149, "ObjectMeta"),
    (2159, "ListMeta"),
    (2193, "URL"),
    (2194, "ID"),
    (2195, "Schema"),
    (2196, "Ref"),
    (2231, "XPreserveUnknownFields"),
    (2232, "XEmbeddedResource"),
    (2233, "XIntOrString"),
    (2234, "XListMapKeys"),
    (2235, "XListType"),
    (2236, "XMapType"),
    (2237, "XValidations"),
    (2238, "JSONPath"),
    (2249, "URL"),
    (2251, "CABundle"),
    (2273, "APIResources"),
    (2313, "ListMeta"),
    (2334, "APIVersion"),
    (2343, "UID"),
    (2354, "APIVersion"),
    (2357, "UID"),
    (2361, "ObjectMeta"),
    (2363, "ListMeta"),
    (2370, "UID"),
    (2376, "ListMeta"),
    (2382, "Type"),
    (2388, "UID"),
    (2392, "ListMeta"),
    (2408, "APIVersion"),
    (2429, "ObjectMeta"),
    (2438, "ListMeta"),
    (2444, "CABundle"),
    (2454, "ObjectMeta"),
    (2459, "ListMeta"),
    (2462, "ObjectMeta"),
    (2467, "ListMeta"),
];

/// Fields, type by type: name, protobuf number, flags, type, merge, default, Go type.
pub(crate) static FIELDS: &[Field; 2469] = &[
    // io.k8s.api.admission.v1.AdmissionRequest
    f(883, 1, 0, 0, 0, 0, 1), // uid
    f(393, 2, 0, 1, 0, 0, 2), // kind
    f(681, 3, 0, 2, 0, 0, 3), // resource
    f(822, 4, 1, 0, 0, 0, 4), // subResource
    f(667, 13, 3, 1, 0, 0, 2), // requestKind
    f(671, 14, 3, 2, 0, 0, 3), // requestResource
    f(672, 15, 1, 0, 0, 0, 4), // requestSubResource
    f(496, 5, 1, 0, 0, 0, 4), // name
    f(499, 6, 1, 0, 0, 0, 4), // namespace
    f(546, 7, 0, 0, 0, 0, 5), // operation
    f(899, 8, 0, 3, 0, 0, 6), // userInfo
    f(536, 9, 1, 4, 0, 0, 7), // object
    f(539, 10, 1, 4, 0, 0, 7), // oldObject
    f(224, 11, 3, 5, 0, 0, 8), // dryRun
    f(551, 12, 1, 4, 0, 0, 7), // options
    // io.k8s.api.admission.v1.AdmissionResponse
    f(883, 1, 0, 0, 0, 0, 1), // uid
    f(36, 2, 0, 5, 0, 0, 8), // allowed
    f(798, 3, 3, 6, 0, 0, 9), // status
    f(565, 4, 1, 7, 0, 0, 10), // patch
    f(566, 5, 3, 0, 0, 0, 11), // patchType
    f(65, 6, 1, 8, 0, 0, 12), // auditAnnotations
    f(938, 7, 1, 9, 0, 0, 13), // warnings
    // io.k8s.api.admission.v1.AdmissionReview
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(666, 1, 3, 11, 0, 0, 15), // request
    f(696, 2, 3, 12, 0, 0, 16), // response
    // io.k8s.api.admissionregistration.v1.ApplyConfiguration
    f(259, 1, 1, 0, 0, 0, 4), // expression
    // io.k8s.api.admissionregistration.v1.AuditAnnotation
    f(389, 1, 8, 0, 0, 1, 4), // key
    f(907, 2, 8, 0, 0, 1, 4), // valueExpression
    // io.k8s.api.admissionregistration.v1.ExpressionWarning
    f(280, 2, 8, 0, 0, 1, 4), // fieldRef
    f(937, 3, 8, 0, 0, 1, 4), // warning
    // io.k8s.api.admissionregistration.v1.JSONPatch
    f(259, 1, 1, 0, 0, 0, 4), // expression
    // io.k8s.api.admissionregistration.v1.MatchCondition
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(259, 2, 8, 0, 0, 1, 4), // expression
    // io.k8s.api.admissionregistration.v1.MatchResources
    f(500, 1, 3, 13, 0, 0, 17), // namespaceSelector
    f(537, 2, 3, 13, 0, 0, 17), // objectSelector
    f(691, 3, 1, 14, 1, 0, 18), // resourceRules
    f(249, 4, 1, 14, 1, 0, 18), // excludeResourceRules
    f(452, 7, 3, 0, 0, 0, 19), // matchPolicy
    // io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 16, 0, 2, 21), // spec
    // io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 17, 0, 2, 22), // spec
    // io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBindingList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 19, 0, 0, 24), // items
    // io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBindingSpec
    f(604, 1, 1, 0, 0, 0, 4), // policyName
    f(560, 2, 3, 20, 0, 0, 25), // paramRef
    f(453, 3, 3, 21, 0, 0, 26), // matchResources
    // io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 22, 0, 0, 27), // items
    // io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicySpec
    f(559, 1, 3, 23, 0, 0, 28), // paramKind
    f(446, 2, 3, 21, 0, 0, 26), // matchConstraints
    f(910, 3, 1, 24, 1, 0, 29), // variables
    f(495, 4, 1, 25, 1, 0, 30), // mutations
    f(273, 5, 3, 0, 0, 0, 31), // failurePolicy
    f(445, 6, 1, 26, 2, 0, 32), // matchConditions
    f(657, 7, 1, 0, 0, 0, 33), // reinvocationPolicy
    // io.k8s.api.admissionregistration.v1.MutatingWebhook
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(113, 2, 8, 27, 0, 2, 34), // clientConfig
    f(710, 3, 1, 28, 1, 0, 35), // rules
    f(273, 4, 3, 0, 0, 0, 31), // failurePolicy
    f(452, 9, 3, 0, 0, 0, 19), // matchPolicy
    f(500, 5, 3, 13, 0, 0, 17), // namespaceSelector
    f(537, 11, 3, 13, 0, 0, 17), // objectSelector
    f(776, 6, 10, 0, 0, 0, 36), // sideEffects
    f(863, 7, 3, 29, 0, 0, 37), // timeoutSeconds
    f(18, 8, 8, 9, 1, 0, 13), // admissionReviewVersions
    f(657, 10, 3, 0, 0, 0, 33), // reinvocationPolicy
    f(445, 12, 1, 26, 2, 0, 32), // matchConditions
    // io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(941, 2, 1, 30, 2, 0, 38), // webhooks
    // io.k8s.api.admissionregistration.v1.MutatingWebhookConfigurationList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 31, 0, 0, 39), // items
    // io.k8s.api.admissionregistration.v1.Mutation
    f(566, 2, 8, 0, 0, 1, 11), // patchType
    f(53, 3, 3, 32, 0, 0, 40), // applyConfiguration
    f(385, 4, 3, 33, 0, 0, 41), // jsonPatch
    // io.k8s.api.admissionregistration.v1.NamedRuleWithOperations
    f(690, 1, 1, 9, 1, 0, 13), // resourceNames
    f(65535, 2, 4, 34, 0, 0, 42), // (inline)
    // io.k8s.api.admissionregistration.v1.ParamKind
    f(42, 1, 1, 0, 0, 0, 4), // apiVersion
    f(393, 2, 1, 0, 0, 0, 4), // kind
    // io.k8s.api.admissionregistration.v1.ParamRef
    f(496, 1, 1, 0, 0, 0, 4), // name
    f(499, 2, 1, 0, 0, 0, 4), // namespace
    f(750, 3, 3, 13, 0, 0, 17), // selector
    f(561, 4, 3, 0, 0, 0, 43), // parameterNotFoundAction
    // io.k8s.api.admissionregistration.v1.Rule
    f(41, 1, 1, 9, 1, 0, 13), // apiGroups
    f(43, 2, 1, 9, 1, 0, 13), // apiVersions
    f(695, 3, 1, 9, 1, 0, 13), // resources
    f(730, 4, 3, 0, 0, 0, 44), // scope
    // io.k8s.api.admissionregistration.v1.RuleWithOperations
    f(547, 1, 1, 9, 1, 0, 45), // operations
    f(65535, 2, 4, 35, 0, 0, 46), // (inline)
    // io.k8s.api.admissionregistration.v1.ServiceReference
    f(499, 1, 8, 0, 0, 1, 4), // namespace
    f(496, 2, 8, 0, 0, 1, 4), // name
    f(567, 3, 3, 0, 0, 0, 4), // path
    f(607, 4, 3, 29, 0, 0, 37), // port
    // io.k8s.api.admissionregistration.v1.TypeChecking
    f(260, 1, 1, 36, 1, 0, 47), // expressionWarnings
    // io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 37, 0, 2, 48), // spec
    f(798, 3, 1, 38, 0, 2, 49), // status
    // io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 9, 39, 0, 2, 50), // spec
    // io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 40, 0, 0, 51), // items
    // io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec
    f(604, 1, 9, 0, 0, 0, 4), // policyName
    f(560, 2, 3, 20, 0, 0, 25), // paramRef
    f(453, 3, 3, 21, 0, 0, 26), // matchResources
    f(904, 4, 9, 9, 3, 0, 52), // validationActions
    // io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 41, 0, 0, 53), // items
    // io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicySpec
    f(559, 1, 3, 23, 0, 0, 28), // paramKind
    f(446, 2, 3, 21, 0, 0, 26), // matchConstraints
    f(905, 3, 1, 42, 1, 0, 54), // validations
    f(273, 4, 3, 0, 0, 0, 31), // failurePolicy
    f(65, 5, 1, 43, 1, 0, 55), // auditAnnotations
    f(445, 6, 1, 26, 2, 0, 32), // matchConditions
    f(910, 7, 1, 24, 2, 0, 29), // variables
    // io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyStatus
    f(538, 1, 1, 44, 0, 0, 56), // observedGeneration
    f(882, 2, 3, 45, 0, 0, 57), // typeChecking
    f(132, 3, 1, 46, 4, 0, 58), // conditions
    // io.k8s.api.admissionregistration.v1.ValidatingWebhook
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(113, 2, 8, 27, 0, 2, 34), // clientConfig
    f(710, 3, 1, 28, 1, 0, 35), // rules
    f(273, 4, 3, 0, 0, 0, 31), // failurePolicy
    f(452, 9, 3, 0, 0, 0, 19), // matchPolicy
    f(500, 5, 3, 13, 0, 0, 17), // namespaceSelector
    f(537, 10, 3, 13, 0, 0, 17), // objectSelector
    f(776, 6, 10, 0, 0, 0, 36), // sideEffects
    f(863, 7, 3, 29, 0, 0, 37), // timeoutSeconds
    f(18, 8, 8, 9, 1, 0, 13), // admissionReviewVersions
    f(445, 11, 1, 26, 2, 0, 32), // matchConditions
    // io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(941, 2, 1, 47, 2, 0, 59), // webhooks
    // io.k8s.api.admissionregistration.v1.ValidatingWebhookConfigurationList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 48, 0, 0, 60), // items
    // io.k8s.api.admissionregistration.v1.Validation
    f(259, 1, 8, 0, 0, 1, 4), // expression
    f(470, 2, 1, 0, 0, 0, 4), // message
    f(650, 3, 3, 0, 0, 0, 61), // reason
    f(471, 4, 1, 0, 0, 0, 4), // messageExpression
    // io.k8s.api.admissionregistration.v1.Variable
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(259, 2, 8, 0, 0, 1, 4), // expression
    // io.k8s.api.admissionregistration.v1.WebhookClientConfig
    f(893, 3, 3, 0, 0, 0, 4), // url
    f(759, 1, 3, 49, 0, 0, 62), // service
    f(92, 2, 1, 7, 0, 0, 10), // caBundle
    // io.k8s.api.apidiscovery.v2.APIGroupDiscovery
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 0, 20), // metadata
    f(915, 2, 1, 50, 0, 0, 63), // versions
    // io.k8s.api.apidiscovery.v2.APIGroupDiscoveryList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 0, 23), // metadata
    f(383, 2, 0, 51, 0, 0, 64), // items
    // io.k8s.api.apidiscovery.v2.APIResourceDiscovery
    f(681, 1, 0, 0, 0, 0, 4), // resource
    f(697, 2, 3, 1, 0, 0, 2), // responseKind
    f(730, 3, 0, 0, 0, 0, 65), // scope
    f(781, 4, 0, 0, 0, 0, 4), // singularResource
    f(912, 5, 0, 9, 0, 0, 13), // verbs
    f(775, 6, 1, 9, 0, 0, 13), // shortNames
    f(97, 7, 1, 9, 0, 0, 13), // categories
    f(826, 8, 1, 52, 0, 0, 66), // subresources
    // io.k8s.api.apidiscovery.v2.APISubresourceDiscovery
    f(825, 1, 0, 0, 0, 0, 4), // subresource
    f(697, 2, 3, 1, 0, 0, 2), // responseKind
    f(4, 3, 1, 53, 0, 0, 67), // acceptedTypes
    f(912, 4, 0, 9, 0, 0, 13), // verbs
    // io.k8s.api.apidiscovery.v2.APIVersionDiscovery
    f(913, 1, 0, 0, 0, 0, 4), // version
    f(695, 2, 1, 54, 0, 0, 68), // resources
    f(296, 3, 1, 0, 0, 0, 69), // freshness
    // io.k8s.api.apps.v1.ControllerRevision
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(172, 2, 1, 4, 0, 0, 7), // data
    f(703, 3, 8, 44, 0, 3, 56), // revision
    // io.k8s.api.apps.v1.ControllerRevisionList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 55, 0, 0, 70), // items
    // io.k8s.api.apps.v1.DaemonSet
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 56, 0, 2, 71), // spec
    f(798, 3, 1, 57, 0, 2, 72), // status
    // io.k8s.api.apps.v1.DaemonSetCondition
    f(881, 1, 8, 0, 0, 1, 73), // type
    f(798, 2, 8, 0, 0, 1, 74), // status
    f(417, 3, 1, 58, 0, 0, 75), // lastTransitionTime
    f(650, 4, 1, 0, 0, 0, 4), // reason
    f(470, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.api.apps.v1.DaemonSetList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 59, 0, 0, 76), // items
    // io.k8s.api.apps.v1.DaemonSetSpec
    f(750, 1, 10, 13, 0, 0, 17), // selector
    f(851, 2, 8, 60, 0, 2, 77), // template
    f(890, 3, 1, 61, 0, 2, 78), // updateStrategy
    f(483, 4, 1, 29, 0, 0, 37), // minReadySeconds
    f(704, 6, 3, 29, 0, 0, 37), // revisionHistoryLimit
    // io.k8s.api.apps.v1.DaemonSetStatus
    f(167, 1, 8, 29, 0, 3, 37), // currentNumberScheduled
    f(533, 2, 8, 29, 0, 3, 37), // numberMisscheduled
    f(201, 3, 8, 29, 0, 3, 37), // desiredNumberScheduled
    f(534, 4, 8, 29, 0, 3, 37), // numberReady
    f(538, 5, 1, 44, 0, 0, 56), // observedGeneration
    f(891, 6, 1, 29, 0, 0, 37), // updatedNumberScheduled
    f(532, 7, 1, 29, 0, 0, 37), // numberAvailable
    f(535, 8, 1, 29, 0, 0, 37), // numberUnavailable
    f(121, 9, 3, 29, 0, 0, 37), // collisionCount
    f(132, 10, 1, 62, 5, 0, 79), // conditions
    // io.k8s.api.apps.v1.DaemonSetUpdateStrategy
    f(881, 1, 1, 0, 0, 0, 80), // type
    f(707, 2, 3, 63, 0, 0, 81), // rollingUpdate
    // io.k8s.api.apps.v1.Deployment
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 64, 0, 2, 82), // spec
    f(798, 3, 1, 65, 0, 2, 83), // status
    // io.k8s.api.apps.v1.DeploymentCondition
    f(881, 1, 8, 0, 0, 1, 84), // type
    f(798, 2, 8, 0, 0, 1, 74), // status
    f(418, 6, 1, 58, 0, 0, 75), // lastUpdateTime
    f(417, 7, 1, 58, 0, 0, 75), // lastTransitionTime
    f(650, 4, 1, 0, 0, 0, 4), // reason
    f(470, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.api.apps.v1.DeploymentList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 66, 0, 0, 85), // items
    // io.k8s.api.apps.v1.DeploymentSpec
    f(661, 1, 3, 29, 0, 0, 37), // replicas
    f(750, 2, 10, 13, 0, 0, 17), // selector
    f(851, 3, 8, 60, 0, 2, 77), // template
    f(816, 4, 1, 67, 6, 2, 86), // strategy
    f(483, 5, 1, 29, 0, 0, 37), // minReadySeconds
    f(704, 6, 3, 29, 0, 0, 37), // revisionHistoryLimit
    f(572, 7, 1, 5, 0, 0, 8), // paused
    f(627, 9, 3, 29, 0, 0, 37), // progressDeadlineSeconds
    // io.k8s.api.apps.v1.DeploymentStatus
    f(538, 1, 1, 44, 0, 0, 56), // observedGeneration
    f(661, 2, 1, 29, 0, 0, 37), // replicas
    f(892, 3, 1, 29, 0, 0, 37), // updatedReplicas
    f(649, 7, 1, 29, 0, 0, 37), // readyReplicas
    f(68, 4, 1, 29, 0, 0, 37), // availableReplicas
    f(884, 5, 1, 29, 0, 0, 37), // unavailableReplicas
    f(855, 9, 3, 29, 0, 0, 37), // terminatingReplicas
    f(132, 6, 1, 68, 5, 0, 87), // conditions
    f(121, 8, 3, 29, 0, 0, 37), // collisionCount
    // io.k8s.api.apps.v1.DeploymentStrategy
    f(881, 1, 1, 0, 0, 0, 88), // type
    f(707, 2, 3, 69, 0, 0, 89), // rollingUpdate
    // io.k8s.api.apps.v1.ReplicaSet
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 70, 0, 2, 90), // spec
    f(798, 3, 1, 71, 0, 2, 91), // status
    // io.k8s.api.apps.v1.ReplicaSetCondition
    f(881, 1, 8, 0, 0, 1, 92), // type
    f(798, 2, 8, 0, 0, 1, 74), // status
    f(417, 3, 1, 58, 0, 0, 75), // lastTransitionTime
    f(650, 4, 1, 0, 0, 0, 4), // reason
    f(470, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.api.apps.v1.ReplicaSetList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 72, 0, 0, 93), // items
    // io.k8s.api.apps.v1.ReplicaSetSpec
    f(661, 1, 3, 29, 0, 0, 37), // replicas
    f(483, 4, 1, 29, 0, 0, 37), // minReadySeconds
    f(750, 2, 10, 13, 0, 0, 17), // selector
    f(851, 3, 1, 60, 0, 2, 77), // template
    // io.k8s.api.apps.v1.ReplicaSetStatus
    f(661, 1, 8, 29, 0, 3, 37), // replicas
    f(302, 2, 1, 29, 0, 0, 37), // fullyLabeledReplicas
    f(649, 4, 1, 29, 0, 0, 37), // readyReplicas
    f(68, 5, 1, 29, 0, 0, 37), // availableReplicas
    f(855, 7, 3, 29, 0, 0, 37), // terminatingReplicas
    f(538, 3, 1, 44, 0, 0, 56), // observedGeneration
    f(132, 6, 1, 73, 5, 0, 94), // conditions
    // io.k8s.api.apps.v1.RollingUpdateDaemonSet
    f(465, 1, 3, 74, 0, 0, 95), // maxUnavailable
    f(464, 2, 3, 74, 0, 0, 95), // maxSurge
    // io.k8s.api.apps.v1.RollingUpdateDeployment
    f(465, 1, 3, 74, 0, 0, 95), // maxUnavailable
    f(464, 2, 3, 74, 0, 0, 95), // maxSurge
    // io.k8s.api.apps.v1.RollingUpdateStatefulSetStrategy
    f(564, 1, 3, 29, 0, 0, 37), // partition
    f(465, 2, 3, 74, 0, 0, 95), // maxUnavailable
    // io.k8s.api.apps.v1.StatefulSet
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 75, 0, 2, 96), // spec
    f(798, 3, 1, 76, 0, 2, 97), // status
    // io.k8s.api.apps.v1.StatefulSetCondition
    f(881, 1, 8, 0, 0, 1, 98), // type
    f(798, 2, 8, 0, 0, 1, 74), // status
    f(417, 3, 1, 58, 0, 0, 75), // lastTransitionTime
    f(650, 4, 1, 0, 0, 0, 4), // reason
    f(470, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.api.apps.v1.StatefulSetList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 77, 0, 0, 99), // items
    // io.k8s.api.apps.v1.StatefulSetOrdinals
    f(791, 1, 0, 29, 0, 3, 37), // start
    // io.k8s.api.apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy
    f(943, 1, 1, 0, 0, 0, 100), // whenDeleted
    f(944, 2, 1, 0, 0, 0, 100), // whenScaled
    // io.k8s.api.apps.v1.StatefulSetSpec
    f(661, 1, 3, 29, 0, 0, 37), // replicas
    f(750, 2, 10, 13, 0, 0, 17), // selector
    f(851, 3, 8, 60, 0, 2, 77), // template
    f(921, 4, 1, 78, 1, 0, 101), // volumeClaimTemplates
    f(764, 5, 0, 0, 0, 1, 4), // serviceName
    f(599, 6, 1, 0, 0, 0, 102), // podManagementPolicy
    f(890, 7, 1, 79, 0, 2, 103), // updateStrategy
    f(704, 8, 3, 29, 0, 0, 37), // revisionHistoryLimit
    f(483, 9, 1, 29, 0, 0, 37), // minReadySeconds
    f(578, 10, 3, 80, 0, 0, 104), // persistentVolumeClaimRetentionPolicy
    f(552, 11, 3, 81, 0, 0, 105), // ordinals
    // io.k8s.api.apps.v1.StatefulSetStatus
    f(538, 1, 1, 44, 0, 0, 56), // observedGeneration
    f(661, 2, 8, 29, 0, 3, 37), // replicas
    f(649, 3, 1, 29, 0, 0, 37), // readyReplicas
    f(168, 4, 1, 29, 0, 0, 37), // currentReplicas
    f(892, 5, 1, 29, 0, 0, 37), // updatedReplicas
    f(169, 6, 1, 0, 0, 0, 4), // currentRevision
    f(889, 7, 1, 0, 0, 0, 4), // updateRevision
    f(121, 9, 3, 29, 0, 0, 37), // collisionCount
    f(132, 10, 1, 82, 5, 0, 106), // conditions
    f(68, 11, 0, 29, 0, 3, 37), // availableReplicas
    // io.k8s.api.apps.v1.StatefulSetUpdateStrategy
    f(881, 1, 1, 0, 0, 0, 107), // type
    f(707, 2, 3, 83, 0, 0, 108), // rollingUpdate
    // io.k8s.api.authentication.v1.BoundObjectReference
    f(393, 1, 1, 0, 0, 0, 4), // kind
    f(42, 2, 1, 0, 0, 0, 4), // apiVersion
    f(496, 3, 1, 0, 0, 0, 4), // name
    f(883, 4, 1, 0, 0, 0, 1), // uid
    // io.k8s.api.authentication.v1.SelfSubjectReview
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(798, 2, 1, 84, 0, 2, 109), // status
    // io.k8s.api.authentication.v1.SelfSubjectReviewStatus
    f(899, 1, 1, 3, 0, 2, 6), // userInfo
    // io.k8s.api.authentication.v1.TokenRequest
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 0, 85, 0, 2, 110), // spec
    f(798, 3, 1, 86, 0, 2, 111), // status
    // io.k8s.api.authentication.v1.TokenRequestSpec
    f(64, 1, 0, 9, 1, 0, 13), // audiences
    f(257, 4, 2, 44, 0, 0, 56), // expirationSeconds
    f(89, 3, 2, 87, 0, 0, 112), // boundObjectRef
    // io.k8s.api.authentication.v1.TokenRequestStatus
    f(868, 1, 0, 0, 0, 1, 4), // token
    f(258, 2, 0, 58, 0, 0, 75), // expirationTimestamp
    // io.k8s.api.authentication.v1.TokenReview
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 8, 88, 0, 2, 113), // spec
    f(798, 3, 1, 89, 0, 2, 114), // status
    // io.k8s.api.authentication.v1.TokenReviewSpec
    f(868, 1, 9, 0, 0, 0, 4), // token
    f(64, 2, 1, 9, 1, 0, 13), // audiences
    // io.k8s.api.authentication.v1.TokenReviewStatus
    f(66, 1, 1, 5, 0, 0, 8), // authenticated
    f(897, 2, 1, 3, 0, 2, 6), // user
    f(64, 4, 1, 9, 1, 0, 13), // audiences
    f(242, 3, 1, 0, 0, 0, 4), // error
    // io.k8s.api.authentication.v1.UserInfo
    f(901, 1, 1, 0, 0, 0, 4), // username
    f(883, 2, 1, 0, 0, 0, 4), // uid
    f(321, 3, 1, 9, 1, 0, 13), // groups
    f(269, 4, 1, 90, 0, 0, 115), // extra
    // io.k8s.api.authorization.v1.FieldSelectorAttributes
    f(642, 1, 1, 0, 0, 0, 4), // rawSelector
    f(676, 2, 1, 91, 1, 0, 116), // requirements
    // io.k8s.api.authorization.v1.LabelSelectorAttributes
    f(642, 1, 1, 0, 0, 0, 4), // rawSelector
    f(676, 2, 1, 92, 1, 0, 117), // requirements
    // io.k8s.api.authorization.v1.LocalSubjectAccessReview
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 8, 93, 0, 2, 118), // spec
    f(798, 3, 1, 94, 0, 2, 119), // status
    // io.k8s.api.authorization.v1.NonResourceAttributes
    f(567, 1, 1, 0, 0, 0, 4), // path
    f(911, 2, 1, 0, 0, 0, 4), // verb
    // io.k8s.api.authorization.v1.NonResourceRule
    f(912, 1, 8, 9, 1, 0, 13), // verbs
    f(526, 2, 1, 9, 1, 0, 13), // nonResourceURLs
    // io.k8s.api.authorization.v1.ResourceAttributes
    f(499, 1, 1, 0, 0, 0, 4), // namespace
    f(911, 2, 1, 0, 0, 0, 4), // verb
    f(318, 3, 1, 0, 0, 0, 4), // group
    f(913, 4, 1, 0, 0, 0, 4), // version
    f(681, 5, 1, 0, 0, 0, 4), // resource
    f(825, 6, 1, 0, 0, 0, 4), // subresource
    f(496, 7, 1, 0, 0, 0, 4), // name
    f(281, 8, 3, 95, 0, 0, 120), // fieldSelector
    f(404, 9, 3, 96, 0, 0, 121), // labelSelector
    // io.k8s.api.authorization.v1.ResourceRule
    f(912, 1, 8, 9, 1, 0, 13), // verbs
    f(41, 2, 1, 9, 1, 0, 13), // apiGroups
    f(695, 3, 1, 9, 1, 0, 13), // resources
    f(690, 4, 1, 9, 1, 0, 13), // resourceNames
    // io.k8s.api.authorization.v1.SelfSubjectAccessReview
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 8, 97, 0, 2, 122), // spec
    f(798, 3, 1, 94, 0, 2, 119), // status
    // io.k8s.api.authorization.v1.SelfSubjectAccessReviewSpec
    f(682, 1, 3, 98, 0, 0, 123), // resourceAttributes
    f(524, 2, 3, 99, 0, 0, 124), // nonResourceAttributes
    // io.k8s.api.authorization.v1.SelfSubjectRulesReview
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 8, 100, 0, 2, 125), // spec
    f(798, 3, 1, 101, 0, 2, 126), // status
    // io.k8s.api.authorization.v1.SelfSubjectRulesReviewSpec
    f(499, 1, 1, 0, 0, 0, 4), // namespace
    // io.k8s.api.authorization.v1.SubjectAccessReview
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 8, 93, 0, 2, 118), // spec
    f(798, 3, 1, 94, 0, 2, 119), // status
    // io.k8s.api.authorization.v1.SubjectAccessReviewSpec
    f(682, 1, 3, 98, 0, 0, 123), // resourceAttributes
    f(524, 2, 3, 99, 0, 0, 124), // nonResourceAttributes
    f(897, 3, 1, 0, 0, 0, 4), // user
    f(321, 4, 1, 9, 1, 0, 13), // groups
    f(269, 5, 1, 102, 0, 0, 115), // extra
    f(883, 6, 1, 0, 0, 0, 4), // uid
    // io.k8s.api.authorization.v1.SubjectAccessReviewStatus
    f(36, 1, 8, 5, 0, 4, 8), // allowed
    f(186, 4, 1, 5, 0, 0, 8), // denied
    f(650, 2, 1, 0, 0, 0, 4), // reason
    f(244, 3, 1, 0, 0, 0, 4), // evaluationError
    // io.k8s.api.authorization.v1.SubjectRulesReviewStatus
    f(691, 1, 8, 103, 1, 0, 127), // resourceRules
    f(525, 2, 8, 104, 1, 0, 128), // nonResourceRules
    f(360, 3, 8, 5, 0, 4, 8), // incomplete
    f(244, 4, 1, 0, 0, 0, 4), // evaluationError
    // io.k8s.api.autoscaling.v1.CrossVersionObjectReference
    f(393, 1, 8, 0, 0, 1, 4), // kind
    f(496, 2, 8, 0, 0, 1, 4), // name
    f(42, 3, 1, 0, 0, 0, 4), // apiVersion
    // io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 9, 105, 0, 2, 129), // spec
    f(798, 3, 1, 106, 0, 2, 130), // status
    // io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 107, 0, 0, 131), // items
    // io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerSpec
    f(721, 1, 8, 108, 0, 2, 132), // scaleTargetRef
    f(484, 2, 3, 29, 0, 0, 37), // minReplicas
    f(462, 3, 8, 29, 0, 3, 37), // maxReplicas
    f(843, 4, 3, 29, 0, 0, 37), // targetCPUUtilizationPercentage
    // io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerStatus
    f(538, 1, 3, 44, 0, 0, 56), // observedGeneration
    f(412, 2, 3, 58, 0, 0, 75), // lastScaleTime
    f(168, 3, 8, 29, 0, 3, 37), // currentReplicas
    f(202, 4, 8, 29, 0, 3, 37), // desiredReplicas
    f(164, 5, 3, 29, 0, 0, 37), // currentCPUUtilizationPercentage
    // io.k8s.api.autoscaling.v1.Scale
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 109, 0, 2, 133), // spec
    f(798, 3, 1, 110, 0, 2, 134), // status
    // io.k8s.api.autoscaling.v1.ScaleSpec
    f(661, 1, 1, 29, 0, 3, 37), // replicas
    // io.k8s.api.autoscaling.v1.ScaleStatus
    f(661, 1, 8, 29, 0, 3, 37), // replicas
    f(750, 2, 1, 0, 0, 0, 4), // selector
    // io.k8s.api.autoscaling.v2.ContainerResourceMetricSource
    f(496, 1, 8, 0, 0, 1, 135), // name
    f(842, 2, 8, 111, 0, 2, 136), // target
    f(141, 3, 8, 0, 0, 1, 4), // container
    // io.k8s.api.autoscaling.v2.ContainerResourceMetricStatus
    f(496, 1, 8, 0, 0, 1, 135), // name
    f(163, 2, 8, 112, 0, 2, 137), // current
    f(141, 3, 8, 0, 0, 1, 4), // container
    // io.k8s.api.autoscaling.v2.CrossVersionObjectReference
    f(393, 1, 8, 0, 0, 1, 4), // kind
    f(496, 2, 8, 0, 0, 1, 4), // name
    f(42, 3, 1, 0, 0, 0, 4), // apiVersion
    // io.k8s.api.autoscaling.v2.ExternalMetricSource
    f(473, 1, 8, 113, 0, 2, 138), // metric
    f(842, 2, 8, 111, 0, 2, 136), // target
    // io.k8s.api.autoscaling.v2.ExternalMetricStatus
    f(473, 1, 8, 113, 0, 2, 138), // metric
    f(163, 2, 8, 112, 0, 2, 137), // current
    // io.k8s.api.autoscaling.v2.HPAScalingPolicy
    f(881, 1, 8, 0, 0, 1, 139), // type
    f(906, 2, 8, 29, 0, 3, 37), // value
    f(576, 3, 8, 29, 0, 3, 37), // periodSeconds
    // io.k8s.api.autoscaling.v2.HPAScalingRules
    f(790, 3, 3, 29, 0, 0, 37), // stabilizationWindowSeconds
    f(748, 1, 3, 0, 0, 0, 140), // selectPolicy
    f(603, 2, 1, 114, 1, 0, 141), // policies
    f(870, 4, 3, 115, 0, 0, 142), // tolerance
    // io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 9, 116, 0, 2, 143), // spec
    f(798, 3, 1, 117, 0, 2, 144), // status
    // io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior
    f(722, 1, 3, 118, 0, 0, 145), // scaleUp
    f(719, 2, 3, 118, 0, 0, 145), // scaleDown
    // io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerCondition
    f(881, 1, 8, 0, 0, 1, 146), // type
    f(798, 2, 8, 0, 0, 1, 74), // status
    f(417, 3, 1, 58, 0, 0, 75), // lastTransitionTime
    f(650, 4, 1, 0, 0, 0, 4), // reason
    f(470, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 119, 0, 0, 147), // items
    // io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec
    f(721, 1, 8, 120, 0, 2, 148), // scaleTargetRef
    f(484, 2, 3, 29, 0, 0, 37), // minReplicas
    f(462, 3, 8, 29, 0, 3, 37), // maxReplicas
    f(474, 4, 1, 121, 1, 0, 149), // metrics
    f(77, 5, 3, 122, 0, 0, 150), // behavior
    // io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus
    f(538, 1, 3, 44, 0, 0, 56), // observedGeneration
    f(412, 2, 3, 58, 0, 0, 75), // lastScaleTime
    f(168, 3, 1, 29, 0, 0, 37), // currentReplicas
    f(202, 4, 8, 29, 0, 3, 37), // desiredReplicas
    f(166, 5, 0, 123, 1, 0, 151), // currentMetrics
    f(132, 6, 1, 124, 5, 0, 152), // conditions
    // io.k8s.api.autoscaling.v2.MetricIdentifier
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(750, 2, 3, 13, 0, 0, 17), // selector
    // io.k8s.api.autoscaling.v2.MetricSpec
    f(881, 1, 8, 0, 0, 1, 153), // type
    f(536, 2, 3, 125, 0, 0, 154), // object
    f(602, 3, 3, 126, 0, 0, 155), // pods
    f(681, 4, 3, 127, 0, 0, 156), // resource
    f(145, 7, 3, 128, 0, 0, 157), // containerResource
    f(263, 5, 3, 129, 0, 0, 158), // external
    // io.k8s.api.autoscaling.v2.MetricStatus
    f(881, 1, 8, 0, 0, 1, 153), // type
    f(536, 2, 3, 130, 0, 0, 159), // object
    f(602, 3, 3, 131, 0, 0, 160), // pods
    f(681, 4, 3, 132, 0, 0, 161), // resource
    f(145, 7, 3, 133, 0, 0, 162), // containerResource
    f(263, 5, 3, 134, 0, 0, 163), // external
    // io.k8s.api.autoscaling.v2.MetricTarget
    f(881, 1, 8, 0, 0, 1, 164), // type
    f(906, 2, 3, 115, 0, 0, 142), // value
    f(70, 3, 3, 115, 0, 0, 142), // averageValue
    f(69, 4, 3, 29, 0, 0, 37), // averageUtilization
    // io.k8s.api.autoscaling.v2.MetricValueStatus
    f(906, 1, 3, 115, 0, 0, 142), // value
    f(70, 2, 3, 115, 0, 0, 142), // averageValue
    f(69, 3, 3, 29, 0, 0, 37), // averageUtilization
    // io.k8s.api.autoscaling.v2.ObjectMetricSource
    f(198, 1, 8, 120, 0, 2, 148), // describedObject
    f(842, 2, 8, 111, 0, 2, 136), // target
    f(473, 3, 8, 113, 0, 2, 138), // metric
    // io.k8s.api.autoscaling.v2.ObjectMetricStatus
    f(473, 1, 8, 113, 0, 2, 138), // metric
    f(163, 2, 8, 112, 0, 2, 137), // current
    f(198, 3, 8, 120, 0, 2, 148), // describedObject
    // io.k8s.api.autoscaling.v2.PodsMetricSource
    f(473, 1, 8, 113, 0, 2, 138), // metric
    f(842, 2, 8, 111, 0, 2, 136), // target
    // io.k8s.api.autoscaling.v2.PodsMetricStatus
    f(473, 1, 8, 113, 0, 2, 138), // metric
    f(163, 2, 8, 112, 0, 2, 137), // current
    // io.k8s.api.autoscaling.v2.ResourceMetricSource
    f(496, 1, 8, 0, 0, 1, 135), // name
    f(842, 2, 8, 111, 0, 2, 136), // target
    // io.k8s.api.autoscaling.v2.ResourceMetricStatus
    f(496, 1, 8, 0, 0, 1, 135), // name
    f(163, 2, 8, 112, 0, 2, 137), // current
    // io.k8s.api.batch.v1.CronJob
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 9, 135, 0, 2, 165), // spec
    f(798, 3, 1, 136, 0, 2, 166), // status
    // io.k8s.api.batch.v1.CronJobList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 137, 0, 0, 167), // items
    // io.k8s.api.batch.v1.CronJobSpec
    f(723, 1, 8, 0, 0, 1, 4), // schedule
    f(862, 8, 3, 0, 0, 0, 4), // timeZone
    f(795, 2, 3, 44, 0, 0, 56), // startingDeadlineSeconds
    f(130, 3, 1, 0, 0, 0, 168), // concurrencyPolicy
    f(836, 4, 3, 5, 0, 0, 8), // suspend
    f(384, 5, 8, 138, 0, 2, 169), // jobTemplate
    f(833, 6, 3, 29, 0, 0, 37), // successfulJobsHistoryLimit
    f(272, 7, 3, 29, 0, 0, 37), // failedJobsHistoryLimit
    // io.k8s.api.batch.v1.CronJobStatus
    f(8, 1, 1, 139, 1, 0, 170), // active
    f(413, 4, 3, 58, 0, 0, 75), // lastScheduleTime
    f(415, 5, 3, 58, 0, 0, 75), // lastSuccessfulTime
    // io.k8s.api.batch.v1.Job
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 140, 0, 2, 171), // spec
    f(798, 3, 1, 141, 0, 2, 172), // status
    // io.k8s.api.batch.v1.JobCondition
    f(881, 1, 8, 0, 0, 1, 173), // type
    f(798, 2, 8, 0, 0, 1, 74), // status
    f(411, 3, 1, 58, 0, 0, 75), // lastProbeTime
    f(417, 4, 1, 58, 0, 0, 75), // lastTransitionTime
    f(650, 5, 1, 0, 0, 0, 4), // reason
    f(470, 6, 1, 0, 0, 0, 4), // message
    // io.k8s.api.batch.v1.JobList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 142, 0, 0, 174), // items
    // io.k8s.api.batch.v1.JobSpec
    f(558, 1, 3, 29, 0, 0, 37), // parallelism
    f(128, 2, 3, 29, 0, 0, 37), // completions
    f(9, 3, 3, 44, 0, 0, 56), // activeDeadlineSeconds
    f(593, 11, 3, 143, 0, 0, 175), // podFailurePolicy
    f(831, 16, 3, 144, 0, 0, 176), // successPolicy
    f(75, 7, 3, 29, 0, 0, 37), // backoffLimit
    f(76, 12, 3, 29, 0, 0, 37), // backoffLimitPerIndex
    f(457, 13, 3, 29, 0, 0, 37), // maxFailedIndexes
    f(750, 4, 3, 13, 0, 0, 17), // selector
    f(443, 5, 3, 5, 0, 0, 8), // manualSelector
    f(851, 6, 8, 60, 0, 2, 77), // template
    f(879, 8, 3, 29, 0, 0, 37), // ttlSecondsAfterFinished
    f(126, 9, 3, 0, 0, 0, 177), // completionMode
    f(836, 10, 3, 5, 0, 0, 8), // suspend
    f(600, 14, 3, 0, 0, 0, 178), // podReplacementPolicy
    f(440, 15, 3, 0, 0, 0, 4), // managedBy
    // io.k8s.api.batch.v1.JobStatus
    f(132, 1, 1, 145, 7, 0, 179), // conditions
    f(792, 2, 3, 58, 0, 0, 75), // startTime
    f(127, 3, 3, 58, 0, 0, 75), // completionTime
    f(8, 4, 1, 29, 0, 0, 37), // active
    f(828, 5, 1, 29, 0, 0, 37), // succeeded
    f(270, 6, 1, 29, 0, 0, 37), // failed
    f(854, 11, 3, 29, 0, 0, 37), // terminating
    f(125, 7, 1, 0, 0, 0, 4), // completedIndexes
    f(271, 10, 3, 0, 0, 0, 4), // failedIndexes
    f(885, 8, 3, 146, 0, 0, 180), // uncountedTerminatedPods
    f(648, 9, 3, 29, 0, 0, 37), // ready
    // io.k8s.api.batch.v1.JobTemplateSpec
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 140, 0, 2, 171), // spec
    // io.k8s.api.batch.v1.PodFailurePolicy
    f(710, 1, 8, 147, 1, 0, 181), // rules
    // io.k8s.api.batch.v1.PodFailurePolicyOnExitCodesRequirement
    f(143, 1, 3, 0, 0, 0, 4), // containerName
    f(548, 2, 8, 0, 0, 1, 182), // operator
    f(909, 3, 8, 148, 3, 0, 183), // values
    // io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern
    f(881, 1, 8, 0, 0, 1, 184), // type
    f(798, 2, 0, 0, 0, 1, 74), // status
    // io.k8s.api.batch.v1.PodFailurePolicyRule
    f(7, 1, 8, 0, 0, 1, 185), // action
    f(540, 2, 3, 149, 0, 0, 186), // onExitCodes
    f(541, 3, 1, 150, 1, 0, 187), // onPodConditions
    // io.k8s.api.batch.v1.SuccessPolicy
    f(710, 1, 8, 151, 1, 0, 188), // rules
    // io.k8s.api.batch.v1.SuccessPolicyRule
    f(830, 1, 3, 0, 0, 0, 4), // succeededIndexes
    f(829, 2, 3, 29, 0, 0, 37), // succeededCount
    // io.k8s.api.batch.v1.UncountedTerminatedPods
    f(828, 1, 1, 9, 3, 0, 189), // succeeded
    f(270, 2, 1, 9, 3, 0, 189), // failed
    // io.k8s.api.certificates.v1.CertificateSigningRequest
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 8, 152, 0, 2, 190), // spec
    f(798, 3, 1, 153, 0, 2, 191), // status
    // io.k8s.api.certificates.v1.CertificateSigningRequestCondition
    f(881, 1, 8, 0, 0, 1, 192), // type
    f(798, 6, 8, 0, 0, 1, 74), // status
    f(650, 2, 1, 0, 0, 0, 4), // reason
    f(470, 3, 1, 0, 0, 0, 4), // message
    f(418, 4, 1, 58, 0, 0, 75), // lastUpdateTime
    f(417, 5, 1, 58, 0, 0, 75), // lastTransitionTime
    // io.k8s.api.certificates.v1.CertificateSigningRequestList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 154, 0, 0, 193), // items
    // io.k8s.api.certificates.v1.CertificateSigningRequestSpec
    f(666, 1, 8, 7, 0, 0, 10), // request
    f(778, 7, 8, 0, 0, 1, 4), // signerName
    f(257, 8, 3, 29, 0, 0, 37), // expirationSeconds
    f(895, 5, 1, 9, 1, 0, 194), // usages
    f(901, 2, 1, 0, 0, 0, 4), // username
    f(883, 3, 1, 0, 0, 0, 4), // uid
    f(321, 4, 1, 9, 1, 0, 13), // groups
    f(269, 6, 1, 155, 0, 0, 115), // extra
    // io.k8s.api.certificates.v1.CertificateSigningRequestStatus
    f(132, 1, 1, 156, 4, 0, 195), // conditions
    f(102, 2, 1, 7, 0, 0, 10), // certificate
    // io.k8s.api.coordination.v1.Lease
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 157, 0, 2, 196), // spec
    // io.k8s.api.coordination.v1.LeaseList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 158, 0, 0, 197), // items
    // io.k8s.api.coordination.v1.LeaseSpec
    f(330, 1, 3, 0, 0, 0, 4), // holderIdentity
    f(419, 2, 3, 29, 0, 0, 37), // leaseDurationSeconds
    f(6, 3, 3, 159, 0, 0, 198), // acquireTime
    f(660, 4, 3, 159, 0, 0, 198), // renewTime
    f(420, 5, 3, 29, 0, 0, 37), // leaseTransitions
    f(816, 6, 3, 0, 0, 0, 199), // strategy
    f(617, 7, 3, 0, 0, 0, 4), // preferredHolder
    // io.k8s.api.core.v1.AWSElasticBlockStoreVolumeSource
    f(924, 1, 8, 0, 0, 1, 4), // volumeID
    f(301, 2, 1, 0, 0, 0, 4), // fsType
    f(564, 3, 1, 29, 0, 0, 37), // partition
    f(644, 4, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.Affinity
    f(506, 1, 3, 160, 0, 0, 200), // nodeAffinity
    f(587, 2, 3, 161, 0, 0, 201), // podAffinity
    f(589, 3, 3, 162, 0, 0, 202), // podAntiAffinity
    // io.k8s.api.core.v1.AppArmorProfile
    f(881, 1, 8, 0, 0, 1, 203), // type
    f(436, 2, 3, 0, 0, 0, 4), // localhostProfile
    // io.k8s.api.core.v1.AttachedVolume
    f(496, 1, 8, 0, 0, 1, 204), // name
    f(207, 2, 8, 0, 0, 1, 4), // devicePath
    // io.k8s.api.core.v1.AzureDiskVolumeSource
    f(210, 1, 8, 0, 0, 1, 4), // diskName
    f(211, 2, 8, 0, 0, 1, 4), // diskURI
    f(93, 3, 3, 0, 0, 5, 205), // cachingMode
    f(301, 4, 3, 0, 0, 6, 4), // fsType
    f(644, 5, 3, 5, 0, 4, 8), // readOnly
    f(393, 6, 3, 0, 0, 7, 206), // kind
    // io.k8s.api.core.v1.AzureFilePersistentVolumeSource
    f(743, 1, 8, 0, 0, 1, 4), // secretName
    f(772, 2, 8, 0, 0, 1, 4), // shareName
    f(644, 3, 1, 5, 0, 0, 8), // readOnly
    f(744, 4, 2, 0, 0, 0, 4), // secretNamespace
    // io.k8s.api.core.v1.AzureFileVolumeSource
    f(743, 1, 8, 0, 0, 1, 4), // secretName
    f(772, 2, 8, 0, 0, 1, 4), // shareName
    f(644, 3, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.Binding
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(842, 2, 8, 163, 0, 2, 207), // target
    // io.k8s.api.core.v1.CSIPersistentVolumeSource
    f(220, 1, 8, 0, 0, 1, 4), // driver
    f(923, 2, 8, 0, 0, 1, 4), // volumeHandle
    f(644, 3, 1, 5, 0, 0, 8), // readOnly
    f(301, 4, 1, 0, 0, 0, 4), // fsType
    f(917, 5, 1, 8, 0, 0, 12), // volumeAttributes
    f(153, 6, 3, 164, 0, 0, 208), // controllerPublishSecretRef
    f(519, 7, 3, 164, 0, 0, 208), // nodeStageSecretRef
    f(516, 8, 3, 164, 0, 0, 208), // nodePublishSecretRef
    f(152, 9, 3, 164, 0, 0, 208), // controllerExpandSecretRef
    f(511, 10, 3, 164, 0, 0, 208), // nodeExpandSecretRef
    // io.k8s.api.core.v1.CSIVolumeSource
    f(220, 1, 8, 0, 0, 1, 4), // driver
    f(644, 2, 3, 5, 0, 0, 8), // readOnly
    f(301, 3, 3, 0, 0, 0, 4), // fsType
    f(917, 4, 1, 8, 0, 0, 12), // volumeAttributes
    f(516, 5, 3, 165, 0, 0, 209), // nodePublishSecretRef
    // io.k8s.api.core.v1.Capabilities
    f(10, 1, 1, 9, 1, 0, 210), // add
    f(223, 2, 1, 9, 1, 0, 210), // drop
    // io.k8s.api.core.v1.CephFSPersistentVolumeSource
    f(490, 1, 8, 9, 1, 0, 13), // monitors
    f(567, 2, 1, 0, 0, 0, 4), // path
    f(897, 3, 1, 0, 0, 0, 4), // user
    f(741, 4, 1, 0, 0, 0, 4), // secretFile
    f(745, 5, 3, 164, 0, 0, 208), // secretRef
    f(644, 6, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.CephFSVolumeSource
    f(490, 1, 8, 9, 1, 0, 13), // monitors
    f(567, 2, 1, 0, 0, 0, 4), // path
    f(897, 3, 1, 0, 0, 0, 4), // user
    f(741, 4, 1, 0, 0, 0, 4), // secretFile
    f(745, 5, 3, 165, 0, 0, 209), // secretRef
    f(644, 6, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.CinderPersistentVolumeSource
    f(924, 1, 8, 0, 0, 1, 4), // volumeID
    f(301, 2, 1, 0, 0, 0, 4), // fsType
    f(644, 3, 1, 5, 0, 0, 8), // readOnly
    f(745, 4, 3, 164, 0, 0, 208), // secretRef
    // io.k8s.api.core.v1.CinderVolumeSource
    f(924, 1, 8, 0, 0, 1, 4), // volumeID
    f(301, 2, 1, 0, 0, 0, 4), // fsType
    f(644, 3, 1, 5, 0, 0, 8), // readOnly
    f(745, 4, 3, 165, 0, 0, 209), // secretRef
    // io.k8s.api.core.v1.ClientIPConfig
    f(863, 1, 3, 29, 0, 0, 37), // timeoutSeconds
    // io.k8s.api.core.v1.ClusterTrustBundleProjection
    f(496, 1, 3, 0, 0, 0, 4), // name
    f(778, 2, 3, 0, 0, 0, 4), // signerName
    f(404, 3, 3, 13, 0, 0, 17), // labelSelector
    f(549, 5, 3, 5, 0, 0, 8), // optional
    f(567, 4, 8, 0, 0, 1, 4), // path
    // io.k8s.api.core.v1.ComponentCondition
    f(881, 1, 8, 0, 0, 1, 211), // type
    f(798, 2, 8, 0, 0, 1, 74), // status
    f(470, 3, 1, 0, 0, 0, 4), // message
    f(242, 4, 1, 0, 0, 0, 4), // error
    // io.k8s.api.core.v1.ComponentStatus
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(132, 2, 1, 166, 5, 0, 212), // conditions
    // io.k8s.api.core.v1.ComponentStatusList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 167, 0, 0, 213), // items
    // io.k8s.api.core.v1.ConfigMap
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(359, 4, 3, 5, 0, 0, 8), // immutable
    f(172, 2, 1, 8, 0, 0, 12), // data
    f(80, 3, 1, 168, 0, 0, 214), // binaryData
    // io.k8s.api.core.v1.ConfigMapEnvSource
    f(65535, 1, 4, 165, 0, 0, 209), // (inline)
    f(549, 2, 3, 5, 0, 0, 8), // optional
    // io.k8s.api.core.v1.ConfigMapKeySelector
    f(65535, 1, 4, 165, 0, 0, 209), // (inline)
    f(389, 2, 8, 0, 0, 1, 4), // key
    f(549, 3, 3, 5, 0, 0, 8), // optional
    // io.k8s.api.core.v1.ConfigMapList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 169, 0, 0, 215), // items
    // io.k8s.api.core.v1.ConfigMapNodeConfigSource
    f(499, 1, 8, 0, 0, 1, 4), // namespace
    f(496, 2, 8, 0, 0, 1, 4), // name
    f(883, 3, 1, 0, 0, 0, 1), // uid
    f(693, 4, 1, 0, 0, 0, 4), // resourceVersion
    f(396, 5, 8, 0, 0, 1, 4), // kubeletConfigKey
    // io.k8s.api.core.v1.ConfigMapProjection
    f(65535, 1, 4, 165, 0, 0, 209), // (inline)
    f(383, 2, 1, 170, 1, 0, 216), // items
    f(549, 4, 3, 5, 0, 0, 8), // optional
    // io.k8s.api.core.v1.ConfigMapVolumeSource
    f(65535, 1, 4, 165, 0, 0, 209), // (inline)
    f(383, 2, 1, 170, 1, 0, 216), // items
    f(180, 3, 3, 29, 0, 0, 37), // defaultMode
    f(549, 4, 3, 5, 0, 0, 8), // optional
    // io.k8s.api.core.v1.Container
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(353, 2, 1, 0, 0, 0, 4), // image
    f(123, 3, 1, 9, 1, 0, 13), // command
    f(55, 4, 1, 9, 1, 0, 13), // args
    f(948, 5, 1, 0, 0, 0, 4), // workingDir
    f(609, 6, 1, 171, 8, 0, 217), // ports
    f(237, 19, 1, 172, 1, 0, 218), // envFrom
    f(236, 7, 1, 173, 2, 0, 219), // env
    f(695, 8, 1, 174, 0, 2, 220), // resources
    f(680, 23, 1, 175, 1, 0, 221), // resizePolicy
    f(699, 24, 3, 0, 0, 0, 222), // restartPolicy
    f(700, 25, 1, 176, 1, 0, 223), // restartPolicyRules
    f(927, 9, 1, 177, 9, 0, 224), // volumeMounts
    f(922, 21, 1, 178, 10, 0, 225), // volumeDevices
    f(430, 10, 3, 179, 0, 0, 226), // livenessProbe
    f(647, 11, 3, 179, 0, 0, 226), // readinessProbe
    f(796, 22, 3, 179, 0, 0, 226), // startupProbe
    f(423, 12, 3, 180, 0, 0, 227), // lifecycle
    f(857, 13, 1, 0, 0, 0, 4), // terminationMessagePath
    f(858, 20, 1, 0, 0, 0, 228), // terminationMessagePolicy
    f(355, 14, 1, 0, 0, 0, 229), // imagePullPolicy
    f(747, 15, 3, 181, 0, 0, 230), // securityContext
    f(801, 16, 1, 5, 0, 0, 8), // stdin
    f(802, 17, 1, 5, 0, 0, 8), // stdinOnce
    f(880, 18, 1, 5, 0, 0, 8), // tty
    // io.k8s.api.core.v1.ContainerExtendedResourceRequest
    f(143, 1, 8, 0, 0, 1, 4), // containerName
    f(689, 2, 8, 0, 0, 1, 4), // resourceName
    f(669, 3, 8, 0, 0, 1, 4), // requestName
    // io.k8s.api.core.v1.ContainerImage
    f(497, 1, 0, 9, 1, 0, 13), // names
    f(782, 2, 1, 44, 0, 0, 56), // sizeBytes
    // io.k8s.api.core.v1.ContainerPort
    f(496, 1, 1, 0, 0, 0, 4), // name
    f(339, 2, 1, 29, 0, 0, 37), // hostPort
    f(144, 3, 8, 29, 0, 3, 37), // containerPort
    f(632, 4, 1, 0, 0, 8, 231), // protocol
    f(333, 5, 1, 0, 0, 0, 4), // hostIP
    // io.k8s.api.core.v1.ContainerResizePolicy
    f(689, 1, 8, 0, 0, 1, 135), // resourceName
    f(699, 2, 8, 0, 0, 1, 232), // restartPolicy
    // io.k8s.api.core.v1.ContainerRestartRule
    f(7, 1, 9, 0, 0, 0, 233), // action
    f(255, 2, 3, 182, 0, 0, 234), // exitCodes
    // io.k8s.api.core.v1.ContainerRestartRuleOnExitCodes
    f(548, 1, 9, 0, 0, 0, 235), // operator
    f(909, 2, 1, 148, 3, 0, 183), // values
    // io.k8s.api.core.v1.ContainerState
    f(936, 1, 3, 183, 0, 0, 236), // waiting
    f(715, 2, 3, 184, 0, 0, 237), // running
    f(853, 3, 3, 185, 0, 0, 238), // terminated
    // io.k8s.api.core.v1.ContainerStateRunning
    f(794, 1, 1, 58, 0, 0, 75), // startedAt
    // io.k8s.api.core.v1.ContainerStateTerminated
    f(254, 1, 8, 29, 0, 3, 37), // exitCode
    f(777, 2, 1, 29, 0, 0, 37), // signal
    f(650, 3, 1, 0, 0, 0, 4), // reason
    f(470, 4, 1, 0, 0, 0, 4), // message
    f(794, 5, 1, 58, 0, 0, 75), // startedAt
    f(287, 6, 1, 58, 0, 0, 75), // finishedAt
    f(142, 7, 1, 0, 0, 0, 4), // containerID
    // io.k8s.api.core.v1.ContainerStateWaiting
    f(650, 1, 1, 0, 0, 0, 4), // reason
    f(470, 2, 1, 0, 0, 0, 4), // message
    // io.k8s.api.core.v1.ContainerStatus
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(797, 2, 1, 186, 0, 2, 239), // state
    f(414, 3, 1, 186, 0, 2, 239), // lastState
    f(648, 4, 8, 5, 0, 4, 8), // ready
    f(698, 5, 8, 29, 0, 3, 37), // restartCount
    f(353, 6, 8, 0, 0, 1, 4), // image
    f(354, 7, 8, 0, 0, 1, 4), // imageID
    f(142, 8, 1, 0, 0, 0, 4), // containerID
    f(793, 9, 3, 5, 0, 0, 8), // started
    f(26, 10, 1, 187, 0, 0, 240), // allocatedResources
    f(695, 11, 3, 174, 0, 0, 220), // resources
    f(927, 12, 1, 188, 9, 0, 241), // volumeMounts
    f(897, 13, 3, 189, 0, 0, 242), // user
    f(27, 14, 1, 190, 2, 0, 243), // allocatedResourcesStatus
    f(805, 15, 3, 0, 0, 0, 244), // stopSignal
    // io.k8s.api.core.v1.ContainerUser
    f(428, 1, 3, 191, 0, 0, 245), // linux
    // io.k8s.api.core.v1.DaemonEndpoint
    f(2, 1, 8, 29, 0, 3, 37), // Port
    // io.k8s.api.core.v1.DownwardAPIProjection
    f(383, 1, 1, 192, 1, 0, 246), // items
    // io.k8s.api.core.v1.DownwardAPIVolumeFile
    f(567, 1, 8, 0, 0, 1, 4), // path
    f(280, 2, 3, 193, 0, 0, 247), // fieldRef
    f(687, 3, 3, 194, 0, 0, 248), // resourceFieldRef
    f(488, 4, 3, 29, 0, 0, 37), // mode
    // io.k8s.api.core.v1.DownwardAPIVolumeSource
    f(383, 1, 1, 192, 1, 0, 246), // items
    f(180, 2, 3, 29, 0, 0, 37), // defaultMode
    // io.k8s.api.core.v1.EmptyDirVolumeSource
    f(468, 1, 1, 0, 0, 0, 249), // medium
    f(783, 2, 3, 115, 0, 0, 142), // sizeLimit
    // io.k8s.api.core.v1.EndpointAddress
    f(374, 1, 8, 0, 0, 1, 4), // ip
    f(342, 3, 1, 0, 0, 0, 4), // hostname
    f(514, 4, 3, 0, 0, 0, 4), // nodeName
    f(847, 2, 3, 163, 0, 0, 207), // targetRef
    // io.k8s.api.core.v1.EndpointPort
    f(496, 1, 1, 0, 0, 0, 4), // name
    f(607, 2, 8, 29, 0, 3, 37), // port
    f(632, 3, 1, 0, 0, 0, 231), // protocol
    f(52, 4, 3, 0, 0, 0, 4), // appProtocol
    // io.k8s.api.core.v1.EndpointSubset
    f(16, 1, 1, 195, 1, 0, 250), // addresses
    f(528, 2, 1, 195, 1, 0, 250), // notReadyAddresses
    f(609, 3, 1, 196, 1, 0, 251), // ports
    // io.k8s.api.core.v1.Endpoints
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(827, 2, 1, 197, 1, 0, 252), // subsets
    // io.k8s.api.core.v1.EndpointsList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 198, 0, 0, 253), // items
    // io.k8s.api.core.v1.EnvFromSource
    f(619, 1, 1, 0, 0, 0, 4), // prefix
    f(136, 2, 3, 199, 0, 0, 254), // configMapRef
    f(745, 3, 3, 200, 0, 0, 255), // secretRef
    // io.k8s.api.core.v1.EnvVar
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(906, 2, 1, 0, 0, 0, 4), // value
    f(908, 3, 3, 201, 0, 0, 256), // valueFrom
    // io.k8s.api.core.v1.EnvVarSource
    f(280, 1, 3, 193, 0, 0, 247), // fieldRef
    f(687, 2, 3, 194, 0, 0, 248), // resourceFieldRef
    f(135, 3, 3, 202, 0, 0, 257), // configMapKeyRef
    f(742, 4, 3, 203, 0, 0, 258), // secretKeyRef
    f(285, 5, 3, 204, 0, 0, 259), // fileKeyRef
    // io.k8s.api.core.v1.EphemeralContainer
    f(65535, 1, 4, 205, 0, 0, 260), // (inline)
    f(844, 2, 1, 0, 0, 0, 4), // targetContainerName
    // io.k8s.api.core.v1.EphemeralContainerCommon
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(353, 2, 1, 0, 0, 0, 4), // image
    f(123, 3, 1, 9, 1, 0, 13), // command
    f(55, 4, 1, 9, 1, 0, 13), // args
    f(948, 5, 1, 0, 0, 0, 4), // workingDir
    f(609, 6, 1, 171, 8, 0, 217), // ports
    f(237, 19, 1, 172, 1, 0, 218), // envFrom
    f(236, 7, 1, 173, 2, 0, 219), // env
    f(695, 8, 1, 174, 0, 2, 220), // resources
    f(680, 23, 1, 175, 1, 0, 221), // resizePolicy
    f(699, 24, 3, 0, 0, 0, 222), // restartPolicy
    f(700, 25, 1, 176, 1, 0, 223), // restartPolicyRules
    f(927, 9, 1, 177, 9, 0, 224), // volumeMounts
    f(922, 21, 1, 178, 10, 0, 225), // volumeDevices
    f(430, 10, 3, 179, 0, 0, 226), // livenessProbe
    f(647, 11, 3, 179, 0, 0, 226), // readinessProbe
    f(796, 22, 3, 179, 0, 0, 226), // startupProbe
    f(423, 12, 3, 180, 0, 0, 227), // lifecycle
    f(857, 13, 1, 0, 0, 0, 4), // terminationMessagePath
    f(858, 20, 1, 0, 0, 0, 228), // terminationMessagePolicy
    f(355, 14, 1, 0, 0, 0, 229), // imagePullPolicy
    f(747, 15, 3, 181, 0, 0, 230), // securityContext
    f(801, 16, 1, 5, 0, 0, 8), // stdin
    f(802, 17, 1, 5, 0, 0, 8), // stdinOnce
    f(880, 18, 1, 5, 0, 0, 8), // tty
    // io.k8s.api.core.v1.EphemeralVolumeSource
    f(920, 1, 3, 206, 0, 0, 261), // volumeClaimTemplate
    // io.k8s.api.core.v1.Event
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 8, 15, 0, 2, 20), // metadata
    f(373, 2, 8, 163, 0, 2, 207), // involvedObject
    f(650, 3, 1, 0, 0, 0, 4), // reason
    f(470, 4, 1, 0, 0, 0, 4), // message
    f(785, 5, 1, 207, 0, 2, 262), // source
    f(289, 6, 1, 58, 0, 0, 75), // firstTimestamp
    f(416, 7, 1, 58, 0, 0, 75), // lastTimestamp
    f(156, 8, 1, 29, 0, 0, 37), // count
    f(881, 9, 1, 0, 0, 0, 4), // type
    f(245, 10, 1, 159, 0, 0, 198), // eventTime
    f(754, 11, 3, 208, 0, 0, 263), // series
    f(7, 12, 1, 0, 0, 0, 4), // action
    f(658, 13, 3, 163, 0, 0, 207), // related
    f(662, 14, 0, 0, 0, 1, 4), // reportingComponent
    f(664, 15, 0, 0, 0, 1, 4), // reportingInstance
    // io.k8s.api.core.v1.EventList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 209, 0, 0, 264), // items
    // io.k8s.api.core.v1.EventSeries
    f(156, 1, 1, 29, 0, 0, 37), // count
    f(409, 2, 1, 159, 0, 0, 198), // lastObservedTime
    // io.k8s.api.core.v1.EventSource
    f(129, 1, 1, 0, 0, 0, 4), // component
    f(331, 2, 1, 0, 0, 0, 4), // host
    // io.k8s.api.core.v1.ExecAction
    f(123, 1, 1, 9, 1, 0, 13), // command
    // io.k8s.api.core.v1.FCVolumeSource
    f(849, 1, 1, 9, 1, 0, 13), // targetWWNs
    f(437, 2, 3, 29, 0, 0, 37), // lun
    f(301, 3, 1, 0, 0, 0, 4), // fsType
    f(644, 4, 1, 5, 0, 0, 8), // readOnly
    f(949, 5, 1, 9, 1, 0, 13), // wwids
    // io.k8s.api.core.v1.FileKeySelector
    f(928, 1, 8, 0, 0, 1, 4), // volumeName
    f(567, 2, 8, 0, 0, 1, 4), // path
    f(389, 3, 8, 0, 0, 1, 4), // key
    f(549, 4, 3, 5, 0, 4, 8), // optional
    // io.k8s.api.core.v1.FlexPersistentVolumeSource
    f(220, 1, 8, 0, 0, 1, 4), // driver
    f(301, 2, 1, 0, 0, 0, 4), // fsType
    f(745, 3, 3, 164, 0, 0, 208), // secretRef
    f(644, 4, 1, 5, 0, 0, 8), // readOnly
    f(551, 5, 1, 8, 0, 0, 12), // options
    // io.k8s.api.core.v1.FlexVolumeSource
    f(220, 1, 8, 0, 0, 1, 4), // driver
    f(301, 2, 1, 0, 0, 0, 4), // fsType
    f(745, 3, 3, 165, 0, 0, 209), // secretRef
    f(644, 4, 1, 5, 0, 0, 8), // readOnly
    f(551, 5, 1, 8, 0, 0, 12), // options
    // io.k8s.api.core.v1.FlockerVolumeSource
    f(175, 1, 1, 0, 0, 0, 4), // datasetName
    f(176, 2, 1, 0, 0, 0, 4), // datasetUUID
    // io.k8s.api.core.v1.GCEPersistentDiskVolumeSource
    f(574, 1, 8, 0, 0, 1, 4), // pdName
    f(301, 2, 1, 0, 0, 0, 4), // fsType
    f(564, 3, 1, 29, 0, 0, 37), // partition
    f(644, 4, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.GRPCAction
    f(607, 1, 8, 29, 0, 3, 37), // port
    f(759, 2, 2, 0, 0, 1, 4), // service
    // io.k8s.api.core.v1.GitRepoVolumeSource
    f(665, 1, 8, 0, 0, 1, 4), // repository
    f(703, 2, 1, 0, 0, 0, 4), // revision
    f(209, 3, 1, 0, 0, 0, 4), // directory
    // io.k8s.api.core.v1.GlusterfsPersistentVolumeSource
    f(232, 1, 8, 0, 0, 1, 4), // endpoints
    f(567, 2, 8, 0, 0, 1, 4), // path
    f(644, 3, 1, 5, 0, 0, 8), // readOnly
    f(233, 4, 3, 0, 0, 0, 4), // endpointsNamespace
    // io.k8s.api.core.v1.GlusterfsVolumeSource
    f(232, 1, 8, 0, 0, 1, 4), // endpoints
    f(567, 2, 8, 0, 0, 1, 4), // path
    f(644, 3, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.HTTPGetAction
    f(567, 1, 1, 0, 0, 0, 4), // path
    f(607, 2, 8, 74, 0, 0, 95), // port
    f(331, 3, 1, 0, 0, 0, 4), // host
    f(729, 4, 1, 0, 0, 0, 265), // scheme
    f(348, 5, 1, 210, 1, 0, 266), // httpHeaders
    // io.k8s.api.core.v1.HTTPHeader
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(906, 2, 8, 0, 0, 1, 4), // value
    // io.k8s.api.core.v1.HostAlias
    f(374, 1, 8, 0, 0, 1, 4), // ip
    f(344, 2, 1, 9, 1, 0, 13), // hostnames
    // io.k8s.api.core.v1.HostIP
    f(374, 1, 8, 0, 0, 1, 4), // ip
    // io.k8s.api.core.v1.HostPathVolumeSource
    f(567, 1, 8, 0, 0, 1, 4), // path
    f(881, 2, 3, 0, 0, 0, 267), // type
    // io.k8s.api.core.v1.ISCSIPersistentVolumeSource
    f(846, 1, 8, 0, 0, 1, 4), // targetPortal
    f(380, 2, 8, 0, 0, 1, 4), // iqn
    f(437, 3, 8, 29, 0, 3, 37), // lun
    f(382, 4, 1, 0, 0, 9, 4), // iscsiInterface
    f(301, 5, 1, 0, 0, 0, 4), // fsType
    f(644, 6, 1, 5, 0, 0, 8), // readOnly
    f(608, 7, 1, 9, 1, 0, 13), // portals
    f(104, 8, 1, 5, 0, 0, 8), // chapAuthDiscovery
    f(105, 11, 1, 5, 0, 0, 8), // chapAuthSession
    f(745, 10, 3, 164, 0, 0, 208), // secretRef
    f(366, 12, 3, 0, 0, 0, 4), // initiatorName
    // io.k8s.api.core.v1.ISCSIVolumeSource
    f(846, 1, 8, 0, 0, 1, 4), // targetPortal
    f(380, 2, 8, 0, 0, 1, 4), // iqn
    f(437, 3, 8, 29, 0, 3, 37), // lun
    f(382, 4, 1, 0, 0, 9, 4), // iscsiInterface
    f(301, 5, 1, 0, 0, 0, 4), // fsType
    f(644, 6, 1, 5, 0, 0, 8), // readOnly
    f(608, 7, 1, 9, 1, 0, 13), // portals
    f(104, 8, 1, 5, 0, 0, 8), // chapAuthDiscovery
    f(105, 11, 1, 5, 0, 0, 8), // chapAuthSession
    f(745, 10, 3, 165, 0, 0, 209), // secretRef
    f(366, 12, 3, 0, 0, 0, 4), // initiatorName
    // io.k8s.api.core.v1.ImageVolumeSource
    f(654, 1, 1, 0, 0, 0, 4), // reference
    f(636, 2, 1, 0, 0, 0, 229), // pullPolicy
    // io.k8s.api.core.v1.ImageVolumeStatus
    f(357, 1, 9, 0, 0, 0, 4), // imageRef
    // io.k8s.api.core.v1.KeyToPath
    f(389, 1, 8, 0, 0, 1, 4), // key
    f(567, 2, 8, 0, 0, 1, 4), // path
    f(488, 3, 3, 29, 0, 0, 37), // mode
    // io.k8s.api.core.v1.Lifecycle
    f(611, 1, 3, 211, 0, 0, 268), // postStart
    f(612, 2, 3, 211, 0, 0, 268), // preStop
    f(805, 3, 3, 0, 0, 0, 244), // stopSignal
    // io.k8s.api.core.v1.LifecycleHandler
    f(252, 1, 3, 212, 0, 0, 269), // exec
    f(347, 2, 3, 213, 0, 0, 270), // httpGet
    f(850, 3, 3, 214, 0, 0, 271), // tcpSocket
    f(784, 4, 3, 215, 0, 0, 272), // sleep
    // io.k8s.api.core.v1.LimitRange
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 216, 0, 2, 273), // spec
    // io.k8s.api.core.v1.LimitRangeItem
    f(881, 1, 8, 0, 0, 1, 274), // type
    f(455, 2, 1, 187, 0, 0, 240), // max
    f(475, 3, 1, 187, 0, 0, 240), // min
    f(178, 4, 1, 187, 0, 0, 240), // default
    f(181, 5, 1, 187, 0, 0, 240), // defaultRequest
    f(460, 6, 1, 187, 0, 0, 240), // maxLimitRequestRatio
    // io.k8s.api.core.v1.LimitRangeList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 217, 0, 0, 275), // items
    // io.k8s.api.core.v1.LimitRangeSpec
    f(427, 1, 8, 218, 1, 0, 276), // limits
    // io.k8s.api.core.v1.LinuxContainerUser
    f(883, 1, 8, 44, 0, 3, 56), // uid
    f(307, 2, 8, 44, 0, 3, 56), // gid
    f(834, 3, 1, 219, 1, 0, 277), // supplementalGroups
    // io.k8s.api.core.v1.LoadBalancerIngress
    f(374, 1, 1, 0, 0, 0, 4), // ip
    f(342, 2, 1, 0, 0, 0, 4), // hostname
    f(378, 3, 3, 0, 0, 0, 278), // ipMode
    f(609, 4, 1, 220, 1, 0, 279), // ports
    // io.k8s.api.core.v1.LoadBalancerStatus
    f(361, 1, 1, 221, 1, 0, 280), // ingress
    // io.k8s.api.core.v1.LocalObjectReference
    f(496, 1, 1, 0, 0, 1, 4), // name
    // io.k8s.api.core.v1.LocalVolumeSource
    f(567, 1, 8, 0, 0, 1, 4), // path
    f(301, 2, 3, 0, 0, 0, 4), // fsType
    // io.k8s.api.core.v1.ModifyVolumeStatus
    f(848, 1, 1, 0, 0, 0, 4), // targetVolumeAttributesClassName
    f(798, 2, 8, 0, 0, 1, 281), // status
    // io.k8s.api.core.v1.NFSVolumeSource
    f(756, 1, 8, 0, 0, 1, 4), // server
    f(567, 2, 8, 0, 0, 1, 4), // path
    f(644, 3, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.Namespace
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 222, 0, 2, 282), // spec
    f(798, 3, 1, 223, 0, 2, 283), // status
    // io.k8s.api.core.v1.NamespaceCondition
    f(881, 1, 8, 0, 0, 1, 284), // type
    f(798, 2, 8, 0, 0, 1, 74), // status
    f(417, 4, 1, 58, 0, 0, 75), // lastTransitionTime
    f(650, 5, 1, 0, 0, 0, 4), // reason
    f(470, 6, 1, 0, 0, 0, 4), // message
    // io.k8s.api.core.v1.NamespaceList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 224, 0, 0, 285), // items
    // io.k8s.api.core.v1.NamespaceSpec
    f(286, 1, 1, 9, 1, 0, 286), // finalizers
    // io.k8s.api.core.v1.NamespaceStatus
    f(581, 1, 1, 0, 0, 0, 287), // phase
    f(132, 2, 1, 225, 5, 0, 288), // conditions
    // io.k8s.api.core.v1.Node
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 226, 0, 2, 289), // spec
    f(798, 3, 1, 227, 0, 2, 290), // status
    // io.k8s.api.core.v1.NodeAddress
    f(881, 1, 8, 0, 0, 1, 291), // type
    f(14, 2, 8, 0, 0, 1, 4), // address
    // io.k8s.api.core.v1.NodeAffinity
    f(675, 1, 3, 228, 0, 0, 292), // requiredDuringSchedulingIgnoredDuringExecution
    f(616, 2, 1, 229, 1, 0, 293), // preferredDuringSchedulingIgnoredDuringExecution
    // io.k8s.api.core.v1.NodeAllocatableResourceClaimStatus
    f(683, 1, 8, 0, 0, 1, 4), // resourceClaimName
    f(148, 2, 1, 9, 3, 0, 13), // containers
    f(695, 3, 8, 187, 0, 0, 294), // resources
    // io.k8s.api.core.v1.NodeCondition
    f(881, 1, 8, 0, 0, 1, 295), // type
    f(798, 2, 8, 0, 0, 1, 74), // status
    f(407, 3, 1, 58, 0, 0, 75), // lastHeartbeatTime
    f(417, 4, 1, 58, 0, 0, 75), // lastTransitionTime
    f(650, 5, 1, 0, 0, 0, 4), // reason
    f(470, 6, 1, 0, 0, 0, 4), // message
    // io.k8s.api.core.v1.NodeConfigSource
    f(134, 2, 3, 230, 0, 0, 296), // configMap
    // io.k8s.api.core.v1.NodeConfigStatus
    f(56, 1, 3, 231, 0, 0, 297), // assigned
    f(8, 2, 3, 231, 0, 0, 297), // active
    f(408, 3, 3, 231, 0, 0, 297), // lastKnownGood
    f(242, 4, 1, 0, 0, 0, 4), // error
    // io.k8s.api.core.v1.NodeDaemonEndpoints
    f(397, 1, 1, 232, 0, 2, 298), // kubeletEndpoint
    // io.k8s.api.core.v1.NodeFeatures
    f(835, 1, 3, 5, 0, 0, 8), // supplementalGroupsPolicy
    // io.k8s.api.core.v1.NodeList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 233, 0, 0, 299), // items
    // io.k8s.api.core.v1.NodeProxyOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(567, 1, 1, 0, 0, 0, 4), // path
    // io.k8s.api.core.v1.NodeRuntimeHandler
    f(496, 1, 0, 0, 0, 1, 4), // name
    f(276, 2, 3, 234, 0, 0, 300), // features
    // io.k8s.api.core.v1.NodeRuntimeHandlerFeatures
    f(653, 1, 3, 5, 0, 0, 8), // recursiveReadOnlyMounts
    f(900, 2, 3, 5, 0, 0, 8), // userNamespaces
    // io.k8s.api.core.v1.NodeSelector
    f(518, 1, 8, 235, 1, 0, 301), // nodeSelectorTerms
    // io.k8s.api.core.v1.NodeSelectorRequirement
    f(389, 1, 8, 0, 0, 1, 4), // key
    f(548, 2, 8, 0, 0, 1, 302), // operator
    f(909, 3, 1, 9, 1, 0, 13), // values
    // io.k8s.api.core.v1.NodeSelectorTerm
    f(447, 1, 1, 236, 1, 0, 303), // matchExpressions
    f(448, 2, 1, 236, 1, 0, 303), // matchFields
    // io.k8s.api.core.v1.NodeSpec
    f(590, 1, 1, 0, 0, 0, 4), // podCIDR
    f(591, 7, 1, 9, 11, 0, 13), // podCIDRs
    f(633, 3, 1, 0, 0, 0, 4), // providerID
    f(888, 4, 1, 5, 0, 0, 8), // unschedulable
    f(841, 5, 1, 237, 1, 0, 304), // taints
    f(137, 6, 3, 231, 0, 0, 297), // configSource
    f(265, 2, 1, 0, 0, 0, 4), // externalID
    // io.k8s.api.core.v1.NodeStatus
    f(95, 1, 1, 187, 0, 0, 240), // capacity
    f(23, 2, 1, 187, 0, 0, 240), // allocatable
    f(581, 3, 1, 0, 0, 0, 305), // phase
    f(132, 4, 1, 238, 5, 0, 306), // conditions
    f(16, 5, 1, 239, 5, 0, 307), // addresses
    f(171, 6, 1, 240, 0, 2, 308), // daemonEndpoints
    f(513, 7, 1, 241, 0, 2, 309), // nodeInfo
    f(358, 8, 1, 242, 1, 0, 310), // images
    f(934, 9, 1, 9, 1, 0, 311), // volumesInUse
    f(933, 10, 1, 243, 1, 0, 312), // volumesAttached
    f(133, 11, 3, 244, 0, 0, 313), // config
    f(717, 12, 1, 245, 1, 0, 314), // runtimeHandlers
    f(276, 13, 3, 246, 0, 0, 315), // features
    f(177, 14, 1, 9, 1, 0, 13), // declaredFeatures
    // io.k8s.api.core.v1.NodeSwapStatus
    f(95, 1, 3, 44, 0, 0, 56), // capacity
    // io.k8s.api.core.v1.NodeSystemInfo
    f(438, 1, 8, 0, 0, 1, 4), // machineID
    f(840, 2, 8, 0, 0, 1, 4), // systemUUID
    f(87, 3, 8, 0, 0, 1, 4), // bootID
    f(388, 4, 8, 0, 0, 1, 4), // kernelVersion
    f(555, 5, 8, 0, 0, 1, 4), // osImage
    f(146, 6, 8, 0, 0, 1, 4), // containerRuntimeVersion
    f(398, 7, 8, 0, 0, 1, 4), // kubeletVersion
    f(394, 8, 8, 0, 0, 1, 4), // kubeProxyVersion
    f(545, 9, 8, 0, 0, 1, 4), // operatingSystem
    f(54, 10, 8, 0, 0, 1, 4), // architecture
    f(837, 11, 3, 247, 0, 0, 316), // swap
    // io.k8s.api.core.v1.ObjectFieldSelector
    f(42, 1, 1, 0, 0, 0, 4), // apiVersion
    f(279, 2, 8, 0, 0, 1, 4), // fieldPath
    // io.k8s.api.core.v1.ObjectReference
    f(393, 1, 1, 0, 0, 0, 4), // kind
    f(499, 2, 1, 0, 0, 0, 4), // namespace
    f(496, 3, 1, 0, 0, 0, 4), // name
    f(883, 4, 1, 0, 0, 0, 1), // uid
    f(42, 5, 1, 0, 0, 0, 4), // apiVersion
    f(693, 6, 1, 0, 0, 0, 4), // resourceVersion
    f(279, 7, 1, 0, 0, 0, 4), // fieldPath
    // io.k8s.api.core.v1.PersistentVolume
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 248, 0, 2, 317), // spec
    f(798, 3, 1, 249, 0, 2, 318), // status
    // io.k8s.api.core.v1.PersistentVolumeClaim
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 250, 0, 2, 319), // spec
    f(798, 3, 1, 251, 0, 2, 320), // status
    // io.k8s.api.core.v1.PersistentVolumeClaimCondition
    f(881, 1, 8, 0, 0, 1, 321), // type
    f(798, 2, 8, 0, 0, 1, 74), // status
    f(411, 3, 1, 58, 0, 0, 75), // lastProbeTime
    f(417, 4, 1, 58, 0, 0, 75), // lastTransitionTime
    f(650, 5, 1, 0, 0, 0, 4), // reason
    f(470, 6, 1, 0, 0, 0, 4), // message
    // io.k8s.api.core.v1.PersistentVolumeClaimList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 78, 0, 0, 101), // items
    // io.k8s.api.core.v1.PersistentVolumeClaimSpec
    f(5, 1, 1, 9, 1, 0, 322), // accessModes
    f(750, 4, 3, 13, 0, 0, 17), // selector
    f(695, 2, 1, 252, 0, 2, 323), // resources
    f(928, 3, 1, 0, 0, 0, 4), // volumeName
    f(808, 5, 3, 0, 0, 0, 4), // storageClassName
    f(926, 6, 3, 0, 0, 0, 324), // volumeMode
    f(173, 7, 3, 253, 0, 0, 325), // dataSource
    f(174, 8, 3, 254, 0, 0, 326), // dataSourceRef
    f(918, 9, 3, 0, 0, 0, 4), // volumeAttributesClassName
    // io.k8s.api.core.v1.PersistentVolumeClaimStatus
    f(581, 1, 1, 0, 0, 0, 327), // phase
    f(5, 2, 1, 9, 1, 0, 322), // accessModes
    f(95, 3, 1, 187, 0, 0, 240), // capacity
    f(132, 4, 1, 255, 5, 0, 328), // conditions
    f(26, 5, 1, 187, 0, 0, 240), // allocatedResources
    f(25, 7, 1, 8, 12, 0, 329), // allocatedResourceStatuses
    f(170, 8, 3, 0, 0, 0, 4), // currentVolumeAttributesClassName
    f(489, 9, 3, 256, 0, 0, 330), // modifyVolumeStatus
    // io.k8s.api.core.v1.PersistentVolumeClaimTemplate
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 8, 250, 0, 2, 319), // spec
    // io.k8s.api.core.v1.PersistentVolumeClaimVolumeSource
    f(109, 1, 8, 0, 0, 1, 4), // claimName
    f(644, 2, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.PersistentVolumeList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 257, 0, 0, 331), // items
    // io.k8s.api.core.v1.PersistentVolumeSource
    f(304, 1, 3, 258, 0, 0, 332), // gcePersistentDisk
    f(71, 2, 3, 259, 0, 0, 333), // awsElasticBlockStore
    f(338, 3, 3, 260, 0, 0, 334), // hostPath
    f(313, 4, 3, 261, 0, 0, 335), // glusterfs
    f(504, 5, 3, 262, 0, 0, 336), // nfs
    f(643, 6, 3, 263, 0, 0, 337), // rbd
    f(381, 7, 3, 264, 0, 0, 338), // iscsi
    f(108, 8, 3, 265, 0, 0, 339), // cinder
    f(101, 9, 3, 266, 0, 0, 340), // cephfs
    f(275, 10, 3, 267, 0, 0, 341), // fc
    f(291, 11, 3, 268, 0, 0, 342), // flocker
    f(290, 12, 3, 269, 0, 0, 343), // flexVolume
    f(73, 13, 3, 270, 0, 0, 344), // azureFile
    f(935, 14, 3, 271, 0, 0, 345), // vsphereVolume
    f(641, 15, 3, 272, 0, 0, 346), // quobyte
    f(72, 16, 3, 273, 0, 0, 347), // azureDisk
    f(582, 17, 3, 274, 0, 0, 348), // photonPersistentDisk
    f(610, 18, 3, 275, 0, 0, 349), // portworxVolume
    f(720, 19, 3, 276, 0, 0, 350), // scaleIO
    f(435, 20, 3, 277, 0, 0, 351), // local
    f(814, 21, 3, 278, 0, 0, 352), // storageos
    f(162, 22, 3, 279, 0, 0, 353), // csi
    // io.k8s.api.core.v1.PersistentVolumeSpec
    f(95, 1, 1, 187, 0, 0, 240), // capacity
    f(65535, 2, 4, 280, 0, 0, 354), // (inline)
    f(5, 3, 1, 9, 1, 0, 322), // accessModes
    f(110, 4, 3, 163, 12, 0, 207), // claimRef
    f(580, 5, 1, 0, 0, 0, 355), // persistentVolumeReclaimPolicy
    f(808, 6, 1, 0, 0, 0, 4), // storageClassName
    f(491, 7, 1, 9, 1, 0, 13), // mountOptions
    f(926, 8, 3, 0, 0, 0, 324), // volumeMode
    f(506, 9, 3, 281, 0, 0, 356), // nodeAffinity
    f(918, 10, 3, 0, 0, 0, 4), // volumeAttributesClassName
    // io.k8s.api.core.v1.PersistentVolumeStatus
    f(581, 1, 1, 0, 0, 0, 357), // phase
    f(470, 2, 1, 0, 0, 0, 4), // message
    f(650, 3, 1, 0, 0, 0, 4), // reason
    f(410, 4, 3, 58, 0, 0, 75), // lastPhaseTransitionTime
    // io.k8s.api.core.v1.PhotonPersistentDiskVolumeSource
    f(573, 1, 8, 0, 0, 1, 4), // pdID
    f(301, 2, 1, 0, 0, 0, 4), // fsType
    // io.k8s.api.core.v1.Pod
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 282, 0, 2, 358), // spec
    f(798, 3, 1, 283, 0, 2, 359), // status
    // io.k8s.api.core.v1.PodAffinity
    f(675, 1, 1, 284, 1, 0, 360), // requiredDuringSchedulingIgnoredDuringExecution
    f(616, 2, 1, 285, 1, 0, 361), // preferredDuringSchedulingIgnoredDuringExecution
    // io.k8s.api.core.v1.PodAffinityTerm
    f(404, 1, 3, 13, 0, 0, 17), // labelSelector
    f(502, 2, 1, 9, 1, 0, 13), // namespaces
    f(875, 3, 8, 0, 0, 1, 4), // topologyKey
    f(500, 4, 3, 13, 0, 0, 17), // namespaceSelector
    f(450, 5, 1, 9, 1, 0, 13), // matchLabelKeys
    f(487, 6, 1, 9, 1, 0, 13), // mismatchLabelKeys
    // io.k8s.api.core.v1.PodAntiAffinity
    f(675, 1, 1, 284, 1, 0, 360), // requiredDuringSchedulingIgnoredDuringExecution
    f(616, 2, 1, 285, 1, 0, 361), // preferredDuringSchedulingIgnoredDuringExecution
    // io.k8s.api.core.v1.PodAttachOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(801, 1, 1, 5, 0, 0, 8), // stdin
    f(803, 2, 1, 5, 0, 0, 8), // stdout
    f(800, 3, 1, 5, 0, 0, 8), // stderr
    f(880, 4, 1, 5, 0, 0, 8), // tty
    f(141, 5, 1, 0, 0, 0, 4), // container
    // io.k8s.api.core.v1.PodCertificateProjection
    f(778, 1, 9, 0, 0, 0, 4), // signerName
    f(391, 2, 9, 0, 0, 0, 4), // keyType
    f(456, 3, 3, 29, 0, 0, 37), // maxExpirationSeconds
    f(161, 4, 1, 0, 0, 0, 4), // credentialBundlePath
    f(390, 5, 1, 0, 0, 0, 4), // keyPath
    f(103, 6, 1, 0, 0, 0, 4), // certificateChainPath
    f(898, 7, 1, 8, 0, 0, 12), // userAnnotations
    // io.k8s.api.core.v1.PodCondition
    f(881, 1, 8, 0, 0, 1, 184), // type
    f(538, 7, 1, 44, 0, 0, 56), // observedGeneration
    f(798, 2, 8, 0, 0, 1, 74), // status
    f(411, 3, 1, 58, 0, 0, 75), // lastProbeTime
    f(417, 4, 1, 58, 0, 0, 75), // lastTransitionTime
    f(650, 5, 1, 0, 0, 0, 4), // reason
    f(470, 6, 1, 0, 0, 0, 4), // message
    // io.k8s.api.core.v1.PodDNSConfig
    f(498, 1, 1, 9, 1, 0, 13), // nameservers
    f(737, 2, 1, 9, 1, 0, 13), // searches
    f(551, 3, 1, 286, 1, 0, 362), // options
    // io.k8s.api.core.v1.PodDNSConfigOption
    f(496, 1, 1, 0, 0, 0, 4), // name
    f(906, 2, 3, 0, 0, 0, 4), // value
    // io.k8s.api.core.v1.PodExecOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(801, 1, 1, 5, 0, 0, 8), // stdin
    f(803, 2, 1, 5, 0, 0, 8), // stdout
    f(800, 3, 1, 5, 0, 0, 8), // stderr
    f(880, 4, 1, 5, 0, 0, 8), // tty
    f(141, 5, 1, 0, 0, 0, 4), // container
    f(123, 6, 0, 9, 0, 0, 13), // command
    // io.k8s.api.core.v1.PodExtendedResourceClaimStatus
    f(668, 1, 8, 287, 1, 0, 363), // requestMappings
    f(683, 2, 8, 0, 0, 1, 4), // resourceClaimName
    // io.k8s.api.core.v1.PodIP
    f(374, 1, 8, 0, 0, 1, 4), // ip
    // io.k8s.api.core.v1.PodList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 288, 0, 0, 364), // items
    // io.k8s.api.core.v1.PodOS
    f(496, 1, 8, 0, 0, 1, 365), // name
    // io.k8s.api.core.v1.PodPortForwardOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(609, 1, 1, 148, 0, 0, 183), // ports
    // io.k8s.api.core.v1.PodProxyOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(567, 1, 1, 0, 0, 0, 4), // path
    // io.k8s.api.core.v1.PodReadinessGate
    f(131, 1, 8, 0, 0, 1, 184), // conditionType
    // io.k8s.api.core.v1.PodResourceClaim
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(683, 3, 3, 0, 0, 0, 4), // resourceClaimName
    f(685, 4, 3, 0, 0, 0, 4), // resourceClaimTemplateName
    // io.k8s.api.core.v1.PodResourceClaimStatus
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(683, 2, 3, 0, 0, 0, 4), // resourceClaimName
    // io.k8s.api.core.v1.PodSchedulingGate
    f(496, 1, 8, 0, 0, 1, 4), // name
    // io.k8s.api.core.v1.PodSchedulingGroup
    f(595, 1, 3, 0, 0, 0, 4), // podGroupName
    // io.k8s.api.core.v1.PodSecurityContext
    f(736, 1, 3, 289, 0, 0, 366), // seLinuxOptions
    f(947, 8, 3, 290, 0, 0, 367), // windowsOptions
    f(713, 2, 3, 44, 0, 0, 56), // runAsUser
    f(711, 6, 3, 44, 0, 0, 56), // runAsGroup
    f(712, 3, 3, 5, 0, 0, 8), // runAsNonRoot
    f(834, 4, 1, 219, 1, 0, 277), // supplementalGroups
    f(835, 12, 3, 0, 0, 0, 368), // supplementalGroupsPolicy
    f(298, 5, 3, 44, 0, 0, 56), // fsGroup
    f(838, 7, 1, 291, 1, 0, 369), // sysctls
    f(299, 9, 3, 0, 0, 0, 370), // fsGroupChangePolicy
    f(738, 10, 3, 292, 0, 0, 371), // seccompProfile
    f(51, 11, 3, 293, 0, 0, 372), // appArmorProfile
    f(734, 13, 3, 0, 0, 0, 373), // seLinuxChangePolicy
    // io.k8s.api.core.v1.PodSpec
    f(932, 1, 1, 294, 13, 0, 374), // volumes
    f(364, 20, 1, 295, 2, 0, 375), // initContainers
    f(148, 2, 8, 295, 2, 0, 375), // containers
    f(241, 34, 1, 296, 2, 0, 376), // ephemeralContainers
    f(699, 3, 1, 0, 0, 0, 377), // restartPolicy
    f(856, 4, 3, 44, 0, 0, 56), // terminationGracePeriodSeconds
    f(9, 5, 3, 44, 0, 0, 56), // activeDeadlineSeconds
    f(218, 6, 1, 0, 0, 0, 378), // dnsPolicy
    f(517, 7, 1, 8, 14, 0, 12), // nodeSelector
    f(761, 8, 1, 0, 0, 0, 4), // serviceAccountName
    f(760, 9, 1, 0, 0, 0, 4), // serviceAccount
    f(67, 21, 3, 5, 0, 0, 8), // automountServiceAccountToken
    f(514, 10, 1, 0, 0, 0, 4), // nodeName
    f(336, 11, 1, 5, 0, 0, 8), // hostNetwork
    f(337, 12, 1, 5, 0, 0, 8), // hostPID
    f(334, 13, 1, 5, 0, 0, 8), // hostIPC
    f(773, 27, 3, 5, 0, 0, 8), // shareProcessNamespace
    f(747, 14, 3, 297, 0, 0, 379), // securityContext
    f(356, 15, 1, 298, 2, 0, 380), // imagePullSecrets
    f(342, 16, 1, 0, 0, 0, 4), // hostname
    f(823, 17, 1, 0, 0, 0, 4), // subdomain
    f(19, 18, 3, 299, 0, 0, 381), // affinity
    f(724, 19, 1, 0, 0, 0, 4), // schedulerName
    f(872, 22, 1, 300, 1, 0, 382), // tolerations
    f(332, 23, 1, 301, 15, 0, 383), // hostAliases
    f(623, 24, 1, 0, 0, 0, 4), // priorityClassName
    f(622, 25, 3, 29, 0, 0, 37), // priority
    f(217, 26, 3, 302, 0, 0, 384), // dnsConfig
    f(646, 28, 1, 303, 1, 0, 385), // readinessGates
    f(716, 29, 3, 0, 0, 0, 4), // runtimeClassName
    f(230, 30, 3, 5, 0, 0, 8), // enableServiceLinks
    f(614, 31, 3, 0, 0, 0, 386), // preemptionPolicy
    f(556, 32, 1, 187, 0, 0, 240), // overhead
    f(877, 33, 1, 304, 16, 0, 387), // topologySpreadConstraints
    f(768, 35, 3, 5, 0, 0, 8), // setHostnameAsFQDN
    f(554, 36, 3, 305, 0, 0, 388), // os
    f(341, 37, 3, 5, 0, 0, 8), // hostUsers
    f(726, 38, 1, 306, 2, 0, 389), // schedulingGates
    f(686, 39, 1, 307, 13, 0, 390), // resourceClaims
    f(695, 40, 3, 174, 0, 0, 220), // resources
    f(343, 41, 3, 0, 0, 0, 4), // hostnameOverride
    f(727, 43, 3, 308, 0, 0, 391), // schedulingGroup
    // io.k8s.api.core.v1.PodStatus
    f(538, 17, 1, 44, 0, 0, 56), // observedGeneration
    f(581, 1, 1, 0, 0, 0, 392), // phase
    f(132, 2, 1, 309, 5, 0, 393), // conditions
    f(470, 3, 1, 0, 0, 0, 4), // message
    f(650, 4, 1, 0, 0, 0, 4), // reason
    f(523, 11, 1, 0, 0, 0, 4), // nominatedNodeName
    f(333, 5, 1, 0, 0, 0, 4), // hostIP
    f(335, 16, 1, 310, 17, 0, 394), // hostIPs
    f(596, 6, 1, 0, 0, 0, 4), // podIP
    f(597, 12, 1, 311, 15, 0, 395), // podIPs
    f(792, 7, 3, 58, 0, 0, 75), // startTime
    f(363, 10, 1, 312, 1, 0, 396), // initContainerStatuses
    f(147, 8, 1, 312, 1, 0, 396), // containerStatuses
    f(637, 9, 1, 0, 0, 0, 397), // qosClass
    f(240, 13, 1, 312, 1, 0, 396), // ephemeralContainerStatuses
    f(679, 14, 1, 0, 0, 0, 398), // resize
    f(684, 15, 1, 313, 13, 0, 399), // resourceClaimStatuses
    f(261, 18, 3, 314, 0, 0, 400), // extendedResourceClaimStatus
    f(26, 19, 1, 187, 0, 0, 240), // allocatedResources
    f(695, 20, 3, 174, 0, 0, 220), // resources
    f(508, 21, 1, 315, 1, 0, 401), // nodeAllocatableResourceClaimStatuses
    // io.k8s.api.core.v1.PodTemplate
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(851, 2, 1, 60, 0, 2, 77), // template
    // io.k8s.api.core.v1.PodTemplateList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 316, 0, 0, 402), // items
    // io.k8s.api.core.v1.PodTemplateSpec
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 282, 0, 2, 358), // spec
    // io.k8s.api.core.v1.PortStatus
    f(607, 1, 8, 29, 0, 3, 37), // port
    f(632, 2, 8, 0, 0, 1, 231), // protocol
    f(242, 3, 3, 0, 0, 0, 4), // error
    // io.k8s.api.core.v1.PortworxVolumeSource
    f(924, 1, 8, 0, 0, 1, 4), // volumeID
    f(301, 2, 1, 0, 0, 0, 4), // fsType
    f(644, 3, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.PreferredSchedulingTerm
    f(942, 1, 8, 29, 0, 3, 37), // weight
    f(615, 2, 8, 317, 0, 2, 403), // preference
    // io.k8s.api.core.v1.Probe
    f(65535, 1, 4, 318, 0, 0, 404), // (inline)
    f(365, 2, 1, 29, 0, 0, 37), // initialDelaySeconds
    f(863, 3, 1, 29, 0, 0, 37), // timeoutSeconds
    f(576, 4, 1, 29, 0, 0, 37), // periodSeconds
    f(832, 5, 1, 29, 0, 0, 37), // successThreshold
    f(274, 6, 1, 29, 0, 0, 37), // failureThreshold
    f(856, 7, 3, 44, 0, 0, 56), // terminationGracePeriodSeconds
    // io.k8s.api.core.v1.ProbeHandler
    f(252, 1, 3, 212, 0, 0, 269), // exec
    f(347, 2, 3, 213, 0, 0, 270), // httpGet
    f(850, 3, 3, 214, 0, 0, 271), // tcpSocket
    f(322, 4, 3, 319, 0, 0, 405), // grpc
    // io.k8s.api.core.v1.ProjectedVolumeSource
    f(786, 1, 0, 320, 1, 0, 406), // sources
    f(180, 2, 3, 29, 0, 0, 37), // defaultMode
    // io.k8s.api.core.v1.QuobyteVolumeSource
    f(656, 1, 8, 0, 0, 1, 4), // registry
    f(916, 2, 8, 0, 0, 1, 4), // volume
    f(644, 3, 1, 5, 0, 0, 8), // readOnly
    f(897, 4, 1, 0, 0, 0, 4), // user
    f(318, 5, 1, 0, 0, 0, 4), // group
    f(852, 6, 1, 0, 0, 0, 4), // tenant
    // io.k8s.api.core.v1.RBDPersistentVolumeSource
    f(490, 1, 8, 9, 1, 0, 13), // monitors
    f(353, 2, 8, 0, 0, 1, 4), // image
    f(301, 3, 1, 0, 0, 0, 4), // fsType
    f(606, 4, 1, 0, 0, 10, 4), // pool
    f(897, 5, 1, 0, 0, 11, 4), // user
    f(392, 6, 1, 0, 0, 12, 4), // keyring
    f(745, 7, 3, 164, 0, 0, 208), // secretRef
    f(644, 8, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.RBDVolumeSource
    f(490, 1, 8, 9, 1, 0, 13), // monitors
    f(353, 2, 8, 0, 0, 1, 4), // image
    f(301, 3, 1, 0, 0, 0, 4), // fsType
    f(606, 4, 1, 0, 0, 10, 4), // pool
    f(897, 5, 1, 0, 0, 11, 4), // user
    f(392, 6, 1, 0, 0, 12, 4), // keyring
    f(745, 7, 3, 165, 0, 0, 209), // secretRef
    f(644, 8, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.ReplicationController
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 321, 0, 2, 407), // spec
    f(798, 3, 1, 322, 0, 2, 408), // status
    // io.k8s.api.core.v1.ReplicationControllerCondition
    f(881, 1, 8, 0, 0, 1, 409), // type
    f(798, 2, 8, 0, 0, 1, 74), // status
    f(417, 3, 1, 58, 0, 0, 75), // lastTransitionTime
    f(650, 4, 1, 0, 0, 0, 4), // reason
    f(470, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.api.core.v1.ReplicationControllerList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 323, 0, 0, 410), // items
    // io.k8s.api.core.v1.ReplicationControllerSpec
    f(661, 1, 3, 29, 0, 13, 37), // replicas
    f(483, 4, 1, 29, 0, 3, 37), // minReadySeconds
    f(750, 2, 1, 8, 14, 0, 12), // selector
    f(851, 3, 3, 60, 0, 0, 77), // template
    // io.k8s.api.core.v1.ReplicationControllerStatus
    f(661, 1, 8, 29, 0, 3, 37), // replicas
    f(302, 2, 1, 29, 0, 0, 37), // fullyLabeledReplicas
    f(649, 4, 1, 29, 0, 0, 37), // readyReplicas
    f(68, 5, 1, 29, 0, 0, 37), // availableReplicas
    f(538, 3, 1, 44, 0, 0, 56), // observedGeneration
    f(132, 6, 1, 324, 5, 0, 411), // conditions
    // io.k8s.api.core.v1.ResourceClaim
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(666, 2, 1, 0, 0, 0, 4), // request
    // io.k8s.api.core.v1.ResourceFieldSelector
    f(143, 1, 1, 0, 0, 0, 4), // containerName
    f(681, 2, 8, 0, 0, 1, 4), // resource
    f(216, 3, 1, 115, 0, 0, 142), // divisor
    // io.k8s.api.core.v1.ResourceHealth
    f(688, 1, 8, 0, 0, 1, 412), // resourceID
    f(327, 2, 1, 0, 0, 0, 413), // health
    f(470, 6, 3, 0, 0, 0, 4), // message
    // io.k8s.api.core.v1.ResourceQuota
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 325, 0, 2, 414), // spec
    f(798, 3, 1, 326, 0, 2, 415), // status
    // io.k8s.api.core.v1.ResourceQuotaList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 327, 0, 0, 416), // items
    // io.k8s.api.core.v1.ResourceQuotaSpec
    f(325, 1, 1, 187, 0, 0, 240), // hard
    f(733, 2, 1, 9, 1, 0, 417), // scopes
    f(732, 3, 3, 328, 0, 0, 418), // scopeSelector
    // io.k8s.api.core.v1.ResourceQuotaStatus
    f(325, 1, 1, 187, 0, 0, 240), // hard
    f(896, 2, 1, 187, 0, 0, 240), // used
    // io.k8s.api.core.v1.ResourceRequirements
    f(427, 1, 1, 187, 0, 0, 240), // limits
    f(673, 2, 1, 187, 0, 0, 240), // requests
    f(111, 3, 1, 329, 18, 0, 419), // claims
    // io.k8s.api.core.v1.ResourceStatus
    f(496, 1, 8, 0, 0, 1, 135), // name
    f(695, 2, 1, 330, 19, 0, 420), // resources
    // io.k8s.api.core.v1.SELinuxOptions
    f(897, 1, 1, 0, 0, 0, 4), // user
    f(705, 2, 1, 0, 0, 0, 4), // role
    f(881, 3, 1, 0, 0, 0, 4), // type
    f(422, 4, 1, 0, 0, 0, 4), // level
    // io.k8s.api.core.v1.ScaleIOPersistentVolumeSource
    f(303, 1, 8, 0, 0, 1, 4), // gateway
    f(839, 2, 8, 0, 0, 1, 4), // system
    f(745, 3, 10, 164, 0, 0, 208), // secretRef
    f(789, 4, 1, 5, 0, 0, 8), // sslEnabled
    f(631, 5, 1, 0, 0, 0, 4), // protectionDomain
    f(812, 6, 1, 0, 0, 0, 4), // storagePool
    f(809, 7, 1, 0, 0, 14, 4), // storageMode
    f(928, 8, 1, 0, 0, 0, 4), // volumeName
    f(301, 9, 1, 0, 0, 15, 4), // fsType
    f(644, 10, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.ScaleIOVolumeSource
    f(303, 1, 8, 0, 0, 1, 4), // gateway
    f(839, 2, 8, 0, 0, 1, 4), // system
    f(745, 3, 10, 165, 0, 0, 209), // secretRef
    f(789, 4, 1, 5, 0, 0, 8), // sslEnabled
    f(631, 5, 1, 0, 0, 0, 4), // protectionDomain
    f(812, 6, 1, 0, 0, 0, 4), // storagePool
    f(809, 7, 1, 0, 0, 14, 4), // storageMode
    f(928, 8, 1, 0, 0, 0, 4), // volumeName
    f(301, 9, 1, 0, 0, 15, 4), // fsType
    f(644, 10, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.ScopeSelector
    f(447, 1, 1, 331, 1, 0, 421), // matchExpressions
    // io.k8s.api.core.v1.ScopedResourceSelectorRequirement
    f(731, 1, 8, 0, 0, 1, 422), // scopeName
    f(548, 2, 8, 0, 0, 1, 423), // operator
    f(909, 3, 1, 9, 1, 0, 13), // values
    // io.k8s.api.core.v1.SeccompProfile
    f(881, 1, 8, 0, 0, 1, 424), // type
    f(436, 2, 3, 0, 0, 0, 4), // localhostProfile
    // io.k8s.api.core.v1.Secret
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(359, 5, 3, 5, 0, 0, 8), // immutable
    f(172, 2, 1, 168, 0, 0, 214), // data
    f(818, 4, 1, 8, 0, 0, 12), // stringData
    f(881, 3, 1, 0, 0, 0, 425), // type
    // io.k8s.api.core.v1.SecretEnvSource
    f(65535, 1, 4, 165, 0, 0, 209), // (inline)
    f(549, 2, 3, 5, 0, 0, 8), // optional
    // io.k8s.api.core.v1.SecretKeySelector
    f(65535, 1, 4, 165, 0, 0, 209), // (inline)
    f(389, 2, 8, 0, 0, 1, 4), // key
    f(549, 3, 3, 5, 0, 0, 8), // optional
    // io.k8s.api.core.v1.SecretList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 332, 0, 0, 426), // items
    // io.k8s.api.core.v1.SecretProjection
    f(65535, 1, 4, 165, 0, 0, 209), // (inline)
    f(383, 2, 1, 170, 1, 0, 216), // items
    f(549, 4, 3, 5, 0, 0, 8), // optional
    // io.k8s.api.core.v1.SecretReference
    f(496, 1, 1, 0, 0, 0, 4), // name
    f(499, 2, 1, 0, 0, 0, 4), // namespace
    // io.k8s.api.core.v1.SecretVolumeSource
    f(743, 1, 1, 0, 0, 0, 4), // secretName
    f(383, 2, 1, 170, 1, 0, 216), // items
    f(180, 3, 3, 29, 0, 0, 37), // defaultMode
    f(549, 4, 3, 5, 0, 0, 8), // optional
    // io.k8s.api.core.v1.SecurityContext
    f(94, 1, 3, 333, 0, 0, 427), // capabilities
    f(625, 2, 3, 5, 0, 0, 8), // privileged
    f(736, 3, 3, 289, 0, 0, 366), // seLinuxOptions
    f(947, 10, 3, 290, 0, 0, 367), // windowsOptions
    f(713, 4, 3, 44, 0, 0, 56), // runAsUser
    f(711, 8, 3, 44, 0, 0, 56), // runAsGroup
    f(712, 5, 3, 5, 0, 0, 8), // runAsNonRoot
    f(645, 6, 3, 5, 0, 0, 8), // readOnlyRootFilesystem
    f(33, 7, 3, 5, 0, 0, 8), // allowPrivilegeEscalation
    f(626, 9, 3, 0, 0, 0, 428), // procMount
    f(738, 11, 3, 292, 0, 0, 371), // seccompProfile
    f(51, 12, 3, 293, 0, 0, 372), // appArmorProfile
    // io.k8s.api.core.v1.SerializedReference
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(654, 1, 1, 163, 0, 0, 207), // reference
    // io.k8s.api.core.v1.Service
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 334, 0, 2, 429), // spec
    f(798, 3, 1, 335, 0, 2, 430), // status
    // io.k8s.api.core.v1.ServiceAccount
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(746, 2, 1, 139, 2, 0, 170), // secrets
    f(356, 3, 1, 298, 1, 0, 380), // imagePullSecrets
    f(67, 4, 3, 5, 0, 0, 8), // automountServiceAccountToken
    // io.k8s.api.core.v1.ServiceAccountList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 336, 0, 0, 431), // items
    // io.k8s.api.core.v1.ServiceAccountTokenProjection
    f(63, 1, 1, 0, 0, 0, 4), // audience
    f(257, 2, 3, 44, 0, 0, 56), // expirationSeconds
    f(567, 3, 8, 0, 0, 1, 4), // path
    // io.k8s.api.core.v1.ServiceList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 337, 0, 0, 432), // items
    // io.k8s.api.core.v1.ServicePort
    f(496, 1, 1, 0, 0, 0, 4), // name
    f(632, 2, 1, 0, 0, 8, 231), // protocol
    f(52, 6, 3, 0, 0, 0, 4), // appProtocol
    f(607, 3, 8, 29, 0, 3, 37), // port
    f(845, 4, 1, 74, 0, 0, 95), // targetPort
    f(515, 5, 1, 29, 0, 0, 37), // nodePort
    // io.k8s.api.core.v1.ServiceProxyOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(567, 1, 1, 0, 0, 0, 4), // path
    // io.k8s.api.core.v1.ServiceSpec
    f(609, 1, 1, 338, 20, 0, 433), // ports
    f(750, 2, 1, 8, 14, 0, 12), // selector
    f(115, 3, 1, 0, 0, 0, 4), // clusterIP
    f(116, 18, 1, 9, 1, 0, 13), // clusterIPs
    f(881, 4, 1, 0, 0, 0, 434), // type
    f(266, 5, 1, 9, 1, 0, 13), // externalIPs
    f(766, 7, 1, 0, 0, 0, 435), // sessionAffinity
    f(433, 8, 1, 0, 0, 0, 4), // loadBalancerIP
    f(434, 9, 1, 9, 1, 0, 13), // loadBalancerSourceRanges
    f(267, 10, 1, 0, 0, 0, 4), // externalName
    f(268, 11, 1, 0, 0, 0, 436), // externalTrafficPolicy
    f(328, 12, 1, 29, 0, 0, 37), // healthCheckNodePort
    f(635, 13, 1, 5, 0, 0, 8), // publishNotReadyAddresses
    f(767, 14, 3, 339, 0, 0, 437), // sessionAffinityConfig
    f(376, 19, 1, 9, 1, 0, 438), // ipFamilies
    f(377, 17, 3, 0, 0, 0, 439), // ipFamilyPolicy
    f(24, 20, 3, 5, 0, 0, 8), // allocateLoadBalancerNodePorts
    f(432, 21, 3, 0, 0, 0, 4), // loadBalancerClass
    f(371, 22, 3, 0, 0, 0, 440), // internalTrafficPolicy
    f(878, 23, 3, 0, 0, 0, 4), // trafficDistribution
    // io.k8s.api.core.v1.ServiceStatus
    f(431, 1, 1, 340, 0, 2, 441), // loadBalancer
    f(132, 2, 1, 46, 5, 0, 58), // conditions
    // io.k8s.api.core.v1.SessionAffinityConfig
    f(114, 1, 3, 341, 0, 0, 442), // clientIP
    // io.k8s.api.core.v1.SleepAction
    f(739, 1, 8, 44, 0, 3, 56), // seconds
    // io.k8s.api.core.v1.StorageOSPersistentVolumeSource
    f(928, 1, 1, 0, 0, 0, 4), // volumeName
    f(929, 2, 1, 0, 0, 0, 4), // volumeNamespace
    f(301, 3, 1, 0, 0, 0, 4), // fsType
    f(644, 4, 1, 5, 0, 0, 8), // readOnly
    f(745, 5, 3, 163, 0, 0, 207), // secretRef
    // io.k8s.api.core.v1.StorageOSVolumeSource
    f(928, 1, 1, 0, 0, 0, 4), // volumeName
    f(929, 2, 1, 0, 0, 0, 4), // volumeNamespace
    f(301, 3, 1, 0, 0, 0, 4), // fsType
    f(644, 4, 1, 5, 0, 0, 8), // readOnly
    f(745, 5, 3, 165, 0, 0, 209), // secretRef
    // io.k8s.api.core.v1.Sysctl
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(906, 2, 8, 0, 0, 1, 4), // value
    // io.k8s.api.core.v1.TCPSocketAction
    f(607, 1, 8, 74, 0, 0, 95), // port
    f(331, 2, 1, 0, 0, 0, 4), // host
    // io.k8s.api.core.v1.Taint
    f(389, 1, 8, 0, 0, 1, 4), // key
    f(906, 2, 1, 0, 0, 0, 4), // value
    f(225, 3, 8, 0, 0, 1, 443), // effect
    f(861, 4, 3, 58, 0, 0, 75), // timeAdded
    // io.k8s.api.core.v1.Toleration
    f(389, 1, 1, 0, 0, 0, 4), // key
    f(548, 2, 1, 0, 0, 0, 444), // operator
    f(906, 3, 1, 0, 0, 0, 4), // value
    f(225, 4, 1, 0, 0, 0, 443), // effect
    f(871, 5, 3, 44, 0, 0, 56), // tolerationSeconds
    // io.k8s.api.core.v1.TopologySelectorLabelRequirement
    f(389, 1, 8, 0, 0, 1, 4), // key
    f(909, 2, 8, 9, 1, 0, 13), // values
    // io.k8s.api.core.v1.TopologySelectorTerm
    f(449, 1, 1, 342, 1, 0, 445), // matchLabelExpressions
    // io.k8s.api.core.v1.TopologySpreadConstraint
    f(463, 1, 8, 29, 0, 3, 37), // maxSkew
    f(875, 2, 8, 0, 0, 1, 4), // topologyKey
    f(945, 3, 8, 0, 0, 1, 446), // whenUnsatisfiable
    f(404, 4, 3, 13, 0, 0, 17), // labelSelector
    f(479, 5, 3, 29, 0, 0, 37), // minDomains
    f(507, 6, 3, 0, 0, 0, 447), // nodeAffinityPolicy
    f(520, 7, 3, 0, 0, 0, 447), // nodeTaintsPolicy
    f(450, 8, 1, 9, 1, 0, 13), // matchLabelKeys
    // io.k8s.api.core.v1.TypedLocalObjectReference
    f(40, 1, 2, 0, 0, 0, 4), // apiGroup
    f(393, 2, 8, 0, 0, 1, 4), // kind
    f(496, 3, 8, 0, 0, 1, 4), // name
    // io.k8s.api.core.v1.TypedObjectReference
    f(40, 1, 2, 0, 0, 0, 4), // apiGroup
    f(393, 2, 8, 0, 0, 1, 4), // kind
    f(496, 3, 8, 0, 0, 1, 4), // name
    f(499, 4, 3, 0, 0, 0, 4), // namespace
    // io.k8s.api.core.v1.Volume
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(65535, 2, 4, 343, 0, 0, 448), // (inline)
    // io.k8s.api.core.v1.VolumeDevice
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(207, 2, 8, 0, 0, 1, 4), // devicePath
    // io.k8s.api.core.v1.VolumeMount
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(644, 2, 1, 5, 0, 0, 8), // readOnly
    f(652, 7, 3, 0, 0, 0, 449), // recursiveReadOnly
    f(492, 3, 8, 0, 0, 1, 4), // mountPath
    f(820, 4, 1, 0, 0, 0, 4), // subPath
    f(493, 5, 3, 0, 0, 0, 450), // mountPropagation
    f(821, 6, 1, 0, 0, 0, 4), // subPathExpr
    // io.k8s.api.core.v1.VolumeMountStatus
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(492, 2, 8, 0, 0, 1, 4), // mountPath
    f(644, 3, 1, 5, 0, 0, 8), // readOnly
    f(652, 4, 3, 0, 0, 0, 449), // recursiveReadOnly
    f(931, 5, 3, 344, 0, 0, 451), // volumeStatus
    // io.k8s.api.core.v1.VolumeNodeAffinity
    f(674, 1, 3, 228, 0, 0, 292), // required
    // io.k8s.api.core.v1.VolumeProjection
    f(740, 1, 3, 345, 0, 0, 452), // secret
    f(219, 2, 3, 346, 0, 0, 453), // downwardAPI
    f(134, 3, 3, 347, 0, 0, 454), // configMap
    f(762, 4, 3, 348, 0, 0, 455), // serviceAccountToken
    f(119, 5, 3, 349, 0, 0, 456), // clusterTrustBundle
    f(592, 6, 3, 350, 0, 0, 457), // podCertificate
    // io.k8s.api.core.v1.VolumeResourceRequirements
    f(427, 1, 1, 187, 0, 0, 240), // limits
    f(673, 2, 1, 187, 0, 0, 240), // requests
    // io.k8s.api.core.v1.VolumeSource
    f(338, 1, 3, 260, 0, 0, 334), // hostPath
    f(227, 2, 3, 351, 0, 0, 458), // emptyDir
    f(304, 3, 3, 258, 0, 0, 332), // gcePersistentDisk
    f(71, 4, 3, 259, 0, 0, 333), // awsElasticBlockStore
    f(309, 5, 3, 352, 0, 0, 459), // gitRepo
    f(740, 6, 3, 353, 0, 0, 460), // secret
    f(504, 7, 3, 262, 0, 0, 336), // nfs
    f(381, 8, 3, 354, 0, 0, 461), // iscsi
    f(313, 9, 3, 355, 0, 0, 462), // glusterfs
    f(577, 10, 3, 356, 0, 0, 463), // persistentVolumeClaim
    f(643, 11, 3, 357, 0, 0, 464), // rbd
    f(290, 12, 3, 358, 0, 0, 465), // flexVolume
    f(108, 13, 3, 359, 0, 0, 466), // cinder
    f(101, 14, 3, 360, 0, 0, 467), // cephfs
    f(291, 15, 3, 268, 0, 0, 342), // flocker
    f(219, 16, 3, 361, 0, 0, 468), // downwardAPI
    f(275, 17, 3, 267, 0, 0, 341), // fc
    f(73, 18, 3, 362, 0, 0, 469), // azureFile
    f(134, 19, 3, 363, 0, 0, 470), // configMap
    f(935, 20, 3, 271, 0, 0, 345), // vsphereVolume
    f(641, 21, 3, 272, 0, 0, 346), // quobyte
    f(72, 22, 3, 273, 0, 0, 347), // azureDisk
    f(582, 23, 3, 274, 0, 0, 348), // photonPersistentDisk
    f(628, 26, 3, 364, 0, 0, 471), // projected
    f(610, 24, 3, 275, 0, 0, 349), // portworxVolume
    f(720, 25, 3, 365, 0, 0, 472), // scaleIO
    f(814, 27, 3, 366, 0, 0, 473), // storageos
    f(162, 28, 3, 367, 0, 0, 474), // csi
    f(238, 29, 3, 368, 0, 0, 475), // ephemeral
    f(353, 30, 3, 369, 0, 0, 476), // image
    // io.k8s.api.core.v1.VolumeStatus
    f(353, 1, 3, 370, 0, 0, 477), // image
    // io.k8s.api.core.v1.VsphereVirtualDiskVolumeSource
    f(930, 1, 8, 0, 0, 1, 4), // volumePath
    f(301, 2, 1, 0, 0, 0, 4), // fsType
    f(811, 3, 1, 0, 0, 0, 4), // storagePolicyName
    f(810, 4, 1, 0, 0, 0, 4), // storagePolicyID
    // io.k8s.api.core.v1.WeightedPodAffinityTerm
    f(942, 1, 8, 29, 0, 3, 37), // weight
    f(588, 2, 8, 371, 0, 2, 478), // podAffinityTerm
    // io.k8s.api.core.v1.WindowsSecurityContextOptions
    f(315, 1, 3, 0, 0, 0, 4), // gmsaCredentialSpecName
    f(314, 2, 3, 0, 0, 0, 4), // gmsaCredentialSpec
    f(714, 3, 3, 0, 0, 0, 4), // runAsUserName
    f(340, 4, 3, 5, 0, 0, 8), // hostProcess
    // io.k8s.api.discovery.v1.Endpoint
    f(16, 1, 8, 9, 3, 0, 13), // addresses
    f(132, 2, 1, 372, 0, 2, 479), // conditions
    f(342, 3, 3, 0, 0, 0, 4), // hostname
    f(847, 4, 3, 163, 0, 0, 207), // targetRef
    f(196, 5, 1, 8, 0, 0, 12), // deprecatedTopology
    f(514, 6, 3, 0, 0, 0, 4), // nodeName
    f(957, 7, 3, 0, 0, 0, 4), // zone
    f(329, 8, 3, 373, 0, 0, 480), // hints
    // io.k8s.api.discovery.v1.EndpointConditions
    f(648, 1, 3, 5, 0, 0, 8), // ready
    f(765, 2, 3, 5, 0, 0, 8), // serving
    f(854, 3, 3, 5, 0, 0, 8), // terminating
    // io.k8s.api.discovery.v1.EndpointHints
    f(293, 1, 1, 374, 1, 0, 481), // forZones
    f(292, 2, 1, 375, 1, 0, 482), // forNodes
    // io.k8s.api.discovery.v1.EndpointPort
    f(496, 1, 3, 0, 0, 0, 4), // name
    f(632, 2, 3, 0, 0, 0, 231), // protocol
    f(607, 3, 3, 29, 0, 0, 37), // port
    f(52, 4, 3, 0, 0, 0, 4), // appProtocol
    // io.k8s.api.discovery.v1.EndpointSlice
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(15, 4, 8, 0, 0, 1, 483), // addressType
    f(232, 2, 0, 376, 1, 0, 484), // endpoints
    f(609, 3, 0, 377, 1, 0, 251), // ports
    // io.k8s.api.discovery.v1.EndpointSliceList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 378, 0, 0, 485), // items
    // io.k8s.api.discovery.v1.ForNode
    f(496, 1, 8, 0, 0, 1, 4), // name
    // io.k8s.api.discovery.v1.ForZone
    f(496, 1, 8, 0, 0, 1, 4), // name
    // io.k8s.api.events.v1.Event
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 0, 15, 0, 2, 20), // metadata
    f(245, 2, 8, 159, 0, 0, 198), // eventTime
    f(754, 3, 3, 379, 0, 0, 263), // series
    f(663, 4, 1, 0, 0, 0, 4), // reportingController
    f(664, 5, 1, 0, 0, 0, 4), // reportingInstance
    f(7, 6, 1, 0, 0, 0, 4), // action
    f(650, 7, 1, 0, 0, 0, 4), // reason
    f(655, 8, 1, 163, 0, 2, 207), // regarding
    f(658, 9, 3, 163, 0, 0, 207), // related
    f(529, 10, 1, 0, 0, 0, 4), // note
    f(881, 11, 1, 0, 0, 0, 4), // type
    f(195, 12, 1, 207, 0, 2, 262), // deprecatedSource
    f(193, 13, 1, 58, 0, 0, 75), // deprecatedFirstTimestamp
    f(194, 14, 1, 58, 0, 0, 75), // deprecatedLastTimestamp
    f(192, 15, 1, 29, 0, 0, 37), // deprecatedCount
    // io.k8s.api.events.v1.EventList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 380, 0, 0, 264), // items
    // io.k8s.api.events.v1.EventSeries
    f(156, 1, 8, 29, 0, 3, 37), // count
    f(409, 2, 8, 159, 0, 0, 198), // lastObservedTime
    // io.k8s.api.flowcontrol.v1.ExemptPriorityLevelConfiguration
    f(522, 1, 3, 29, 0, 0, 37), // nominalConcurrencyShares
    f(421, 2, 3, 29, 0, 0, 37), // lendablePercent
    // io.k8s.api.flowcontrol.v1.FlowDistinguisherMethod
    f(881, 1, 8, 0, 0, 1, 486), // type
    // io.k8s.api.flowcontrol.v1.FlowSchema
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 381, 0, 2, 487), // spec
    f(798, 3, 1, 382, 0, 2, 488), // status
    // io.k8s.api.flowcontrol.v1.FlowSchemaCondition
    f(881, 1, 1, 0, 0, 0, 489), // type
    f(798, 2, 1, 0, 0, 0, 74), // status
    f(417, 3, 1, 58, 0, 0, 75), // lastTransitionTime
    f(650, 4, 1, 0, 0, 0, 4), // reason
    f(470, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.api.flowcontrol.v1.FlowSchemaList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 383, 0, 0, 490), // items
    // io.k8s.api.flowcontrol.v1.FlowSchemaSpec
    f(624, 1, 8, 384, 0, 2, 491), // priorityLevelConfiguration
    f(454, 2, 0, 29, 0, 3, 37), // matchingPrecedence
    f(215, 3, 3, 385, 0, 0, 492), // distinguisherMethod
    f(710, 4, 1, 386, 1, 0, 493), // rules
    // io.k8s.api.flowcontrol.v1.FlowSchemaStatus
    f(132, 1, 1, 387, 5, 0, 494), // conditions
    // io.k8s.api.flowcontrol.v1.GroupSubject
    f(496, 1, 8, 0, 0, 1, 4), // name
    // io.k8s.api.flowcontrol.v1.LimitResponse
    f(881, 1, 8, 0, 0, 1, 495), // type
    f(640, 2, 3, 388, 0, 0, 496), // queuing
    // io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration
    f(522, 1, 2, 29, 0, 0, 37), // nominalConcurrencyShares
    f(425, 2, 1, 389, 0, 2, 497), // limitResponse
    f(421, 3, 3, 29, 0, 0, 37), // lendablePercent
    f(88, 4, 3, 29, 0, 0, 37), // borrowingLimitPercent
    // io.k8s.api.flowcontrol.v1.NonResourcePolicyRule
    f(912, 1, 8, 9, 3, 0, 13), // verbs
    f(526, 6, 8, 9, 3, 0, 13), // nonResourceURLs
    // io.k8s.api.flowcontrol.v1.PolicyRulesWithSubjects
    f(824, 1, 8, 390, 1, 0, 498), // subjects
    f(691, 2, 1, 391, 1, 0, 499), // resourceRules
    f(525, 3, 1, 392, 1, 0, 500), // nonResourceRules
    // io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 393, 0, 2, 501), // spec
    f(798, 3, 1, 394, 0, 2, 502), // status
    // io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationCondition
    f(881, 1, 1, 0, 0, 0, 503), // type
    f(798, 2, 1, 0, 0, 0, 74), // status
    f(417, 3, 1, 58, 0, 0, 75), // lastTransitionTime
    f(650, 4, 1, 0, 0, 0, 4), // reason
    f(470, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 395, 0, 0, 504), // items
    // io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationReference
    f(496, 1, 8, 0, 0, 1, 4), // name
    // io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec
    f(881, 1, 8, 0, 0, 1, 505), // type
    f(426, 2, 3, 396, 0, 0, 506), // limited
    f(253, 3, 3, 397, 0, 0, 507), // exempt
    // io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationStatus
    f(132, 1, 1, 398, 5, 0, 508), // conditions
    // io.k8s.api.flowcontrol.v1.QueuingConfiguration
    f(639, 1, 0, 29, 0, 3, 37), // queues
    f(323, 2, 0, 29, 0, 3, 37), // handSize
    f(638, 3, 0, 29, 0, 3, 37), // queueLengthLimit
    // io.k8s.api.flowcontrol.v1.ResourcePolicyRule
    f(912, 1, 8, 9, 3, 0, 13), // verbs
    f(41, 2, 8, 9, 3, 0, 13), // apiGroups
    f(695, 3, 8, 9, 3, 0, 13), // resources
    f(118, 4, 1, 5, 0, 0, 8), // clusterScope
    f(502, 5, 0, 9, 3, 0, 13), // namespaces
    // io.k8s.api.flowcontrol.v1.ServiceAccountSubject
    f(499, 1, 8, 0, 0, 1, 4), // namespace
    f(496, 2, 8, 0, 0, 1, 4), // name
    // io.k8s.api.flowcontrol.v1.Subject
    f(393, 1, 8, 0, 0, 1, 509), // kind
    f(897, 2, 3, 399, 0, 0, 510), // user
    f(318, 3, 3, 400, 0, 0, 511), // group
    f(760, 4, 3, 401, 0, 0, 512), // serviceAccount
    // io.k8s.api.flowcontrol.v1.UserSubject
    f(496, 1, 8, 0, 0, 1, 4), // name
    // io.k8s.api.networking.v1.HTTPIngressPath
    f(567, 1, 1, 0, 0, 0, 4), // path
    f(568, 3, 10, 0, 0, 0, 513), // pathType
    f(74, 2, 8, 402, 0, 2, 514), // backend
    // io.k8s.api.networking.v1.HTTPIngressRuleValue
    f(569, 1, 8, 403, 1, 0, 515), // paths
    // io.k8s.api.networking.v1.IPAddress
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 9, 404, 0, 2, 516), // spec
    // io.k8s.api.networking.v1.IPAddressList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 405, 0, 0, 517), // items
    // io.k8s.api.networking.v1.IPAddressSpec
    f(563, 1, 11, 406, 0, 0, 518), // parentRef
    // io.k8s.api.networking.v1.IPBlock
    f(106, 1, 8, 0, 0, 1, 4), // cidr
    f(248, 2, 1, 9, 1, 0, 13), // except
    // io.k8s.api.networking.v1.Ingress
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 407, 0, 2, 519), // spec
    f(798, 3, 1, 408, 0, 2, 520), // status
    // io.k8s.api.networking.v1.IngressBackend
    f(759, 4, 3, 409, 0, 0, 521), // service
    f(681, 3, 3, 253, 0, 0, 325), // resource
    // io.k8s.api.networking.v1.IngressClass
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 410, 0, 2, 522), // spec
    // io.k8s.api.networking.v1.IngressClassList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 411, 0, 0, 523), // items
    // io.k8s.api.networking.v1.IngressClassParametersReference
    f(40, 1, 3, 0, 0, 0, 4), // apiGroup
    f(393, 2, 8, 0, 0, 1, 4), // kind
    f(496, 3, 8, 0, 0, 1, 4), // name
    f(730, 4, 2, 0, 0, 0, 4), // scope
    f(499, 5, 3, 0, 0, 0, 4), // namespace
    // io.k8s.api.networking.v1.IngressClassSpec
    f(150, 1, 1, 0, 0, 0, 4), // controller
    f(562, 2, 3, 412, 0, 0, 524), // parameters
    // io.k8s.api.networking.v1.IngressList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 413, 0, 0, 525), // items
    // io.k8s.api.networking.v1.IngressLoadBalancerIngress
    f(374, 1, 1, 0, 0, 0, 4), // ip
    f(342, 2, 1, 0, 0, 0, 4), // hostname
    f(609, 4, 1, 414, 1, 0, 526), // ports
    // io.k8s.api.networking.v1.IngressLoadBalancerStatus
    f(361, 1, 1, 415, 1, 0, 527), // ingress
    // io.k8s.api.networking.v1.IngressPortStatus
    f(607, 1, 8, 29, 0, 3, 37), // port
    f(632, 2, 8, 0, 0, 1, 231), // protocol
    f(242, 3, 3, 0, 0, 0, 4), // error
    // io.k8s.api.networking.v1.IngressRule
    f(331, 1, 1, 0, 0, 0, 4), // host
    f(65535, 2, 4, 416, 0, 0, 528), // (inline)
    // io.k8s.api.networking.v1.IngressRuleValue
    f(346, 1, 3, 417, 0, 0, 529), // http
    // io.k8s.api.networking.v1.IngressServiceBackend
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(607, 2, 1, 418, 0, 2, 530), // port
    // io.k8s.api.networking.v1.IngressSpec
    f(362, 4, 3, 0, 0, 0, 4), // ingressClassName
    f(179, 1, 3, 402, 0, 0, 514), // defaultBackend
    f(866, 2, 1, 419, 1, 0, 531), // tls
    f(710, 3, 1, 420, 1, 0, 532), // rules
    // io.k8s.api.networking.v1.IngressStatus
    f(431, 1, 1, 421, 0, 2, 533), // loadBalancer
    // io.k8s.api.networking.v1.IngressTLS
    f(345, 1, 1, 9, 1, 0, 13), // hosts
    f(743, 2, 1, 0, 0, 0, 4), // secretName
    // io.k8s.api.networking.v1.NetworkPolicy
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 422, 0, 2, 534), // spec
    // io.k8s.api.networking.v1.NetworkPolicyEgressRule
    f(609, 1, 1, 423, 1, 0, 535), // ports
    f(867, 2, 1, 424, 1, 0, 536), // to
    // io.k8s.api.networking.v1.NetworkPolicyIngressRule
    f(609, 1, 1, 423, 1, 0, 535), // ports
    f(297, 2, 1, 424, 1, 0, 536), // from
    // io.k8s.api.networking.v1.NetworkPolicyList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 425, 0, 0, 537), // items
    // io.k8s.api.networking.v1.NetworkPolicyPeer
    f(601, 1, 3, 13, 0, 0, 17), // podSelector
    f(500, 2, 3, 13, 0, 0, 17), // namespaceSelector
    f(375, 3, 3, 426, 0, 0, 538), // ipBlock
    // io.k8s.api.networking.v1.NetworkPolicyPort
    f(632, 1, 3, 0, 0, 0, 231), // protocol
    f(607, 2, 3, 74, 0, 0, 95), // port
    f(231, 3, 3, 29, 0, 0, 37), // endPort
    // io.k8s.api.networking.v1.NetworkPolicySpec
    f(601, 1, 0, 13, 0, 2, 17), // podSelector
    f(361, 2, 1, 427, 1, 0, 539), // ingress
    f(226, 3, 1, 428, 1, 0, 540), // egress
    f(605, 4, 1, 9, 1, 0, 541), // policyTypes
    // io.k8s.api.networking.v1.ParentReference
    f(318, 1, 1, 0, 0, 0, 4), // group
    f(681, 2, 9, 0, 0, 0, 4), // resource
    f(499, 3, 1, 0, 0, 0, 4), // namespace
    f(496, 4, 9, 0, 0, 0, 4), // name
    // io.k8s.api.networking.v1.ServiceBackendPort
    f(496, 1, 1, 0, 0, 0, 4), // name
    f(531, 2, 1, 29, 0, 0, 37), // number
    // io.k8s.api.networking.v1.ServiceCIDR
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 429, 0, 2, 542), // spec
    f(798, 3, 1, 430, 0, 2, 543), // status
    // io.k8s.api.networking.v1.ServiceCIDRList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 431, 0, 0, 544), // items
    // io.k8s.api.networking.v1.ServiceCIDRSpec
    f(107, 1, 1, 9, 1, 0, 13), // cidrs
    // io.k8s.api.networking.v1.ServiceCIDRStatus
    f(132, 1, 1, 46, 5, 0, 58), // conditions
    // io.k8s.api.node.v1.Overhead
    f(594, 1, 1, 187, 0, 0, 240), // podFixed
    // io.k8s.api.node.v1.RuntimeClass
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(324, 2, 8, 0, 0, 1, 4), // handler
    f(556, 3, 3, 432, 0, 0, 545), // overhead
    f(725, 4, 3, 433, 0, 0, 546), // scheduling
    // io.k8s.api.node.v1.RuntimeClassList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 434, 0, 0, 547), // items
    // io.k8s.api.node.v1.Scheduling
    f(517, 1, 1, 8, 14, 0, 12), // nodeSelector
    f(872, 2, 1, 300, 1, 0, 382), // tolerations
    // io.k8s.api.policy.v1.Eviction
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(183, 2, 3, 435, 0, 0, 548), // deleteOptions
    // io.k8s.api.policy.v1.PodDisruptionBudget
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 436, 0, 2, 549), // spec
    f(798, 3, 1, 437, 0, 2, 550), // status
    // io.k8s.api.policy.v1.PodDisruptionBudgetList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 438, 0, 0, 551), // items
    // io.k8s.api.policy.v1.PodDisruptionBudgetSpec
    f(476, 1, 3, 74, 0, 0, 95), // minAvailable
    f(750, 2, 3, 13, 21, 0, 17), // selector
    f(465, 3, 3, 74, 0, 0, 95), // maxUnavailable
    f(886, 4, 3, 0, 0, 0, 552), // unhealthyPodEvictionPolicy
    // io.k8s.api.policy.v1.PodDisruptionBudgetStatus
    f(538, 1, 1, 44, 0, 0, 56), // observedGeneration
    f(212, 2, 1, 439, 0, 0, 553), // disruptedPods
    f(213, 3, 0, 29, 0, 3, 37), // disruptionsAllowed
    f(165, 4, 0, 29, 0, 3, 37), // currentHealthy
    f(200, 5, 0, 29, 0, 3, 37), // desiredHealthy
    f(256, 6, 0, 29, 0, 3, 37), // expectedPods
    f(132, 7, 1, 46, 5, 0, 58), // conditions
    // io.k8s.api.rbac.v1.AggregationRule
    f(117, 1, 1, 440, 1, 0, 554), // clusterRoleSelectors
    // io.k8s.api.rbac.v1.ClusterRole
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(710, 2, 0, 441, 1, 0, 555), // rules
    f(20, 3, 3, 442, 0, 0, 556), // aggregationRule
    // io.k8s.api.rbac.v1.ClusterRoleBinding
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(824, 2, 1, 443, 1, 0, 498), // subjects
    f(706, 3, 8, 444, 0, 2, 557), // roleRef
    // io.k8s.api.rbac.v1.ClusterRoleBindingList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 445, 0, 0, 558), // items
    // io.k8s.api.rbac.v1.ClusterRoleList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 446, 0, 0, 559), // items
    // io.k8s.api.rbac.v1.PolicyRule
    f(912, 1, 8, 9, 1, 0, 13), // verbs
    f(41, 2, 1, 9, 1, 0, 13), // apiGroups
    f(695, 3, 1, 9, 1, 0, 13), // resources
    f(690, 4, 1, 9, 1, 0, 13), // resourceNames
    f(526, 5, 1, 9, 1, 0, 13), // nonResourceURLs
    // io.k8s.api.rbac.v1.Role
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(710, 2, 0, 441, 1, 0, 555), // rules
    // io.k8s.api.rbac.v1.RoleBinding
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(824, 2, 1, 443, 1, 0, 498), // subjects
    f(706, 3, 8, 444, 0, 2, 557), // roleRef
    // io.k8s.api.rbac.v1.RoleBindingList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 447, 0, 0, 560), // items
    // io.k8s.api.rbac.v1.RoleList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 448, 0, 0, 561), // items
    // io.k8s.api.rbac.v1.RoleRef
    f(40, 1, 0, 0, 0, 1, 4), // apiGroup
    f(393, 2, 8, 0, 0, 1, 4), // kind
    f(496, 3, 8, 0, 0, 1, 4), // name
    // io.k8s.api.rbac.v1.Subject
    f(393, 1, 8, 0, 0, 1, 4), // kind
    f(40, 2, 1, 0, 0, 0, 4), // apiGroup
    f(496, 3, 8, 0, 0, 1, 4), // name
    f(499, 4, 1, 0, 0, 0, 4), // namespace
    // io.k8s.api.resource.v1.AllocatedDeviceStatus
    f(220, 1, 8, 0, 0, 1, 4), // driver
    f(606, 2, 8, 0, 0, 1, 4), // pool
    f(205, 3, 8, 0, 0, 1, 4), // device
    f(771, 7, 3, 0, 0, 0, 4), // shareID
    f(132, 4, 0, 46, 4, 0, 58), // conditions
    f(172, 5, 3, 4, 0, 0, 7), // data
    f(503, 6, 3, 449, 0, 0, 562), // networkData
    // io.k8s.api.resource.v1.AllocationResult
    f(208, 1, 1, 450, 0, 2, 563), // devices
    f(517, 3, 3, 228, 0, 0, 292), // nodeSelector
    f(31, 5, 3, 58, 0, 0, 75), // allocationTimestamp
    // io.k8s.api.resource.v1.CELDeviceSelector
    f(259, 1, 8, 0, 0, 1, 4), // expression
    // io.k8s.api.resource.v1.CapacityRequestPolicy
    f(178, 1, 2, 115, 0, 0, 142), // default
    f(903, 3, 1, 451, 1, 0, 564), // validValues
    f(902, 4, 3, 452, 0, 0, 565), // validRange
    // io.k8s.api.resource.v1.CapacityRequestPolicyRange
    f(475, 1, 11, 115, 0, 0, 142), // min
    f(455, 2, 3, 115, 0, 0, 142), // max
    f(804, 3, 3, 115, 0, 0, 142), // step
    // io.k8s.api.resource.v1.CapacityRequirements
    f(673, 1, 1, 187, 0, 0, 566), // requests
    // io.k8s.api.resource.v1.Counter
    f(906, 1, 8, 115, 0, 0, 142), // value
    // io.k8s.api.resource.v1.CounterSet
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(158, 2, 9, 453, 0, 0, 567), // counters
    // io.k8s.api.resource.v1.Device
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(62, 2, 1, 454, 0, 0, 568), // attributes
    f(95, 3, 1, 455, 0, 0, 569), // capacity
    f(140, 4, 1, 456, 1, 0, 570), // consumesCounters
    f(514, 5, 3, 0, 0, 0, 4), // nodeName
    f(517, 6, 3, 228, 0, 0, 292), // nodeSelector
    f(21, 7, 3, 5, 0, 0, 8), // allNodes
    f(841, 8, 1, 457, 1, 0, 571), // taints
    f(83, 9, 3, 5, 0, 0, 8), // bindsToNode
    f(81, 10, 1, 9, 1, 0, 13), // bindingConditions
    f(82, 11, 1, 9, 1, 0, 13), // bindingFailureConditions
    f(32, 12, 3, 5, 0, 0, 8), // allowMultipleAllocations
    f(509, 13, 1, 458, 0, 0, 572), // nodeAllocatableResourceMappings
    // io.k8s.api.resource.v1.DeviceAllocationConfiguration
    f(785, 1, 8, 0, 0, 1, 573), // source
    f(673, 2, 1, 9, 1, 0, 13), // requests
    f(65535, 3, 4, 459, 0, 0, 574), // (inline)
    // io.k8s.api.resource.v1.DeviceAllocationResult
    f(701, 1, 1, 460, 1, 0, 575), // results
    f(133, 2, 1, 461, 1, 0, 576), // config
    // io.k8s.api.resource.v1.DeviceAttribute
    f(369, 2, 3, 44, 0, 0, 56), // int
    f(85, 3, 3, 5, 0, 0, 8), // bool
    f(817, 4, 3, 0, 0, 0, 4), // string
    f(913, 5, 3, 0, 0, 0, 4), // version
    f(372, 6, 1, 219, 1, 0, 277), // ints
    f(86, 7, 1, 462, 1, 0, 577), // bools
    f(819, 8, 1, 9, 1, 0, 13), // strings
    f(915, 9, 1, 9, 1, 0, 13), // versions
    // io.k8s.api.resource.v1.DeviceCapacity
    f(906, 1, 8, 115, 0, 0, 142), // value
    f(670, 2, 3, 463, 0, 0, 578), // requestPolicy
    // io.k8s.api.resource.v1.DeviceClaim
    f(673, 1, 0, 464, 1, 0, 579), // requests
    f(138, 2, 1, 465, 1, 0, 580), // constraints
    f(133, 3, 1, 466, 1, 0, 581), // config
    // io.k8s.api.resource.v1.DeviceClaimConfiguration
    f(673, 1, 1, 9, 1, 0, 13), // requests
    f(65535, 2, 4, 459, 0, 0, 574), // (inline)
    // io.k8s.api.resource.v1.DeviceClass
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 8, 467, 0, 2, 582), // spec
    // io.k8s.api.resource.v1.DeviceClassConfiguration
    f(65535, 1, 4, 459, 0, 0, 574), // (inline)
    // io.k8s.api.resource.v1.DeviceClassList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 468, 0, 0, 583), // items
    // io.k8s.api.resource.v1.DeviceClassSpec
    f(751, 1, 1, 469, 1, 0, 584), // selectors
    f(133, 2, 1, 470, 1, 0, 585), // config
    f(262, 4, 3, 0, 0, 0, 4), // extendedResourceName
    // io.k8s.api.resource.v1.DeviceConfiguration
    f(543, 1, 3, 471, 0, 0, 586), // opaque
    // io.k8s.api.resource.v1.DeviceConstraint
    f(673, 1, 1, 9, 1, 0, 13), // requests
    f(444, 2, 3, 0, 0, 0, 587), // matchAttribute
    f(214, 3, 3, 0, 0, 0, 587), // distinctAttribute
    // io.k8s.api.resource.v1.DeviceCounterConsumption
    f(157, 1, 8, 0, 0, 1, 4), // counterSet
    f(158, 2, 9, 453, 0, 0, 567), // counters
    // io.k8s.api.resource.v1.DeviceRequest
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(246, 2, 3, 472, 0, 0, 588), // exactly
    f(288, 3, 1, 473, 1, 0, 589), // firstAvailable
    // io.k8s.api.resource.v1.DeviceRequestAllocationResult
    f(666, 1, 8, 0, 0, 1, 4), // request
    f(220, 2, 8, 0, 0, 1, 4), // driver
    f(606, 3, 8, 0, 0, 1, 4), // pool
    f(205, 4, 8, 0, 0, 1, 4), // device
    f(17, 5, 3, 5, 0, 0, 8), // adminAccess
    f(872, 6, 1, 474, 1, 0, 590), // tolerations
    f(81, 7, 1, 9, 1, 0, 13), // bindingConditions
    f(82, 8, 1, 9, 1, 0, 13), // bindingFailureConditions
    f(771, 9, 3, 0, 0, 0, 1), // shareID
    f(139, 10, 1, 187, 0, 0, 566), // consumedCapacity
    // io.k8s.api.resource.v1.DeviceSelector
    f(99, 1, 3, 475, 0, 0, 591), // cel
    // io.k8s.api.resource.v1.DeviceSubRequest
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(206, 2, 8, 0, 0, 1, 4), // deviceClassName
    f(751, 3, 1, 469, 1, 0, 584), // selectors
    f(29, 4, 1, 0, 0, 0, 592), // allocationMode
    f(156, 5, 1, 44, 0, 0, 56), // count
    f(872, 6, 1, 474, 1, 0, 590), // tolerations
    f(95, 7, 3, 476, 0, 0, 593), // capacity
    // io.k8s.api.resource.v1.DeviceTaint
    f(389, 1, 8, 0, 0, 1, 4), // key
    f(906, 2, 1, 0, 0, 0, 4), // value
    f(225, 3, 8, 0, 0, 1, 594), // effect
    f(861, 4, 3, 58, 0, 0, 75), // timeAdded
    // io.k8s.api.resource.v1.DeviceToleration
    f(389, 1, 1, 0, 0, 0, 4), // key
    f(548, 2, 1, 0, 0, 16, 595), // operator
    f(906, 3, 1, 0, 0, 0, 4), // value
    f(225, 4, 1, 0, 0, 0, 594), // effect
    f(871, 5, 3, 44, 0, 0, 56), // tolerationSeconds
    // io.k8s.api.resource.v1.ExactDeviceRequest
    f(206, 1, 8, 0, 0, 1, 4), // deviceClassName
    f(751, 2, 1, 469, 1, 0, 584), // selectors
    f(29, 3, 1, 0, 0, 0, 592), // allocationMode
    f(156, 4, 1, 44, 0, 0, 56), // count
    f(17, 5, 3, 5, 0, 0, 8), // adminAccess
    f(872, 6, 1, 474, 1, 0, 590), // tolerations
    f(95, 7, 3, 476, 0, 0, 593), // capacity
    // io.k8s.api.resource.v1.NetworkDeviceData
    f(370, 1, 1, 0, 0, 0, 4), // interfaceName
    f(379, 2, 1, 9, 1, 0, 13), // ips
    f(326, 3, 1, 0, 0, 0, 4), // hardwareAddress
    // io.k8s.api.resource.v1.NodeAllocatableResourceMapping
    f(96, 1, 3, 0, 0, 0, 596), // capacityKey
    f(30, 2, 3, 115, 0, 0, 142), // allocationMultiplier
    // io.k8s.api.resource.v1.OpaqueDeviceConfiguration
    f(220, 1, 8, 0, 0, 1, 4), // driver
    f(562, 2, 8, 4, 0, 0, 7), // parameters
    // io.k8s.api.resource.v1.ResourceClaim
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 8, 477, 0, 2, 597), // spec
    f(798, 3, 1, 478, 0, 2, 598), // status
    // io.k8s.api.resource.v1.ResourceClaimConsumerReference
    f(40, 1, 1, 0, 0, 0, 4), // apiGroup
    f(681, 3, 8, 0, 0, 1, 4), // resource
    f(496, 4, 8, 0, 0, 1, 4), // name
    f(883, 5, 8, 0, 0, 1, 1), // uid
    // io.k8s.api.resource.v1.ResourceClaimList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 479, 0, 0, 419), // items
    // io.k8s.api.resource.v1.ResourceClaimSpec
    f(208, 1, 0, 480, 0, 2, 599), // devices
    // io.k8s.api.resource.v1.ResourceClaimStatus
    f(28, 1, 3, 481, 0, 0, 600), // allocation
    f(678, 2, 1, 482, 22, 0, 601), // reservedFor
    f(208, 4, 1, 483, 23, 0, 602), // devices
    // io.k8s.api.resource.v1.ResourceClaimTemplate
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 8, 484, 0, 2, 603), // spec
    // io.k8s.api.resource.v1.ResourceClaimTemplateList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 485, 0, 0, 604), // items
    // io.k8s.api.resource.v1.ResourceClaimTemplateSpec
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 8, 477, 0, 2, 597), // spec
    // io.k8s.api.resource.v1.ResourcePool
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(306, 2, 8, 44, 0, 3, 56), // generation
    f(692, 3, 8, 44, 0, 3, 56), // resourceSliceCount
    // io.k8s.api.resource.v1.ResourceSlice
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 8, 486, 0, 2, 605), // spec
    // io.k8s.api.resource.v1.ResourceSliceList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 487, 0, 0, 606), // items
    // io.k8s.api.resource.v1.ResourceSliceSpec
    f(220, 1, 8, 0, 0, 1, 4), // driver
    f(606, 2, 8, 488, 0, 2, 607), // pool
    f(514, 3, 3, 0, 0, 0, 4), // nodeName
    f(517, 4, 3, 228, 0, 0, 292), // nodeSelector
    f(21, 5, 3, 5, 0, 0, 8), // allNodes
    f(208, 6, 1, 489, 1, 0, 608), // devices
    f(575, 7, 3, 5, 0, 0, 8), // perDeviceNodeSelection
    f(774, 8, 1, 490, 1, 0, 609), // sharedCounters
    // io.k8s.api.scheduling.v1.PriorityClass
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(906, 2, 0, 29, 0, 3, 37), // value
    f(312, 3, 1, 5, 0, 0, 8), // globalDefault
    f(199, 4, 1, 0, 0, 0, 4), // description
    f(614, 5, 3, 0, 0, 0, 386), // preemptionPolicy
    // io.k8s.api.scheduling.v1.PriorityClassList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 491, 0, 0, 610), // items
    // io.k8s.api.storage.v1.CSIDriver
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 8, 492, 0, 2, 611), // spec
    // io.k8s.api.storage.v1.CSIDriverList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 493, 0, 0, 612), // items
    // io.k8s.api.storage.v1.CSIDriverSpec
    f(58, 1, 3, 5, 0, 0, 8), // attachRequired
    f(598, 2, 3, 5, 0, 0, 8), // podInfoOnMount
    f(925, 3, 1, 9, 3, 0, 613), // volumeLifecycleModes
    f(807, 4, 3, 5, 0, 0, 8), // storageCapacity
    f(300, 5, 3, 0, 0, 0, 614), // fsGroupPolicy
    f(869, 6, 1, 494, 1, 0, 615), // tokenRequests
    f(677, 7, 3, 5, 0, 0, 8), // requiresRepublish
    f(735, 8, 3, 5, 0, 0, 8), // seLinuxMount
    f(510, 9, 3, 44, 0, 0, 56), // nodeAllocatableUpdatePeriodSeconds
    f(763, 10, 3, 5, 0, 0, 8), // serviceAccountTokenInSecrets
    f(621, 11, 3, 5, 0, 0, 8), // preventPodSchedulingIfMissing
    // io.k8s.api.storage.v1.CSINode
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 8, 495, 0, 2, 616), // spec
    // io.k8s.api.storage.v1.CSINodeDriver
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(512, 2, 8, 0, 0, 1, 4), // nodeID
    f(876, 3, 0, 9, 1, 0, 13), // topologyKeys
    f(23, 4, 3, 496, 0, 0, 617), // allocatable
    // io.k8s.api.storage.v1.CSINodeList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 497, 0, 0, 618), // items
    // io.k8s.api.storage.v1.CSINodeSpec
    f(222, 1, 8, 498, 2, 0, 619), // drivers
    // io.k8s.api.storage.v1.CSIStorageCapacity
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(521, 2, 3, 13, 0, 0, 17), // nodeTopology
    f(808, 3, 8, 0, 0, 1, 4), // storageClassName
    f(95, 4, 3, 115, 0, 0, 142), // capacity
    f(467, 5, 3, 115, 0, 0, 142), // maximumVolumeSize
    // io.k8s.api.storage.v1.CSIStorageCapacityList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 499, 0, 0, 620), // items
    // io.k8s.api.storage.v1.StorageClass
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(634, 2, 8, 0, 0, 1, 4), // provisioner
    f(562, 3, 1, 8, 0, 0, 12), // parameters
    f(651, 4, 3, 0, 0, 0, 355), // reclaimPolicy
    f(491, 5, 1, 9, 1, 0, 13), // mountOptions
    f(34, 6, 3, 5, 0, 0, 8), // allowVolumeExpansion
    f(919, 7, 3, 0, 0, 0, 621), // volumeBindingMode
    f(37, 8, 1, 500, 1, 0, 622), // allowedTopologies
    // io.k8s.api.storage.v1.StorageClassList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 501, 0, 0, 623), // items
    // io.k8s.api.storage.v1.TokenRequest
    f(63, 1, 8, 0, 0, 1, 4), // audience
    f(257, 2, 3, 44, 0, 0, 56), // expirationSeconds
    // io.k8s.api.storage.v1.VolumeAttachment
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 8, 502, 0, 2, 624), // spec
    f(798, 3, 1, 503, 0, 2, 625), // status
    // io.k8s.api.storage.v1.VolumeAttachmentList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 504, 0, 0, 626), // items
    // io.k8s.api.storage.v1.VolumeAttachmentSource
    f(579, 1, 3, 0, 0, 0, 4), // persistentVolumeName
    f(367, 2, 3, 248, 0, 0, 317), // inlineVolumeSpec
    // io.k8s.api.storage.v1.VolumeAttachmentSpec
    f(60, 1, 8, 0, 0, 1, 4), // attacher
    f(785, 2, 8, 505, 0, 2, 627), // source
    f(514, 3, 8, 0, 0, 1, 4), // nodeName
    // io.k8s.api.storage.v1.VolumeAttachmentStatus
    f(59, 1, 8, 5, 0, 4, 8), // attached
    f(61, 2, 1, 8, 0, 0, 12), // attachmentMetadata
    f(57, 3, 3, 506, 0, 0, 628), // attachError
    f(203, 4, 3, 506, 0, 0, 628), // detachError
    // io.k8s.api.storage.v1.VolumeAttributesClass
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(221, 2, 8, 0, 0, 1, 4), // driverName
    f(562, 3, 1, 8, 0, 0, 12), // parameters
    // io.k8s.api.storage.v1.VolumeAttributesClassList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 507, 0, 0, 629), // items
    // io.k8s.api.storage.v1.VolumeError
    f(860, 1, 1, 58, 0, 0, 75), // time
    f(470, 2, 1, 0, 0, 0, 4), // message
    f(243, 3, 3, 29, 0, 0, 37), // errorCode
    // io.k8s.api.storage.v1.VolumeNodeResources
    f(156, 1, 3, 29, 0, 0, 37), // count
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceColumnDefinition
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(881, 2, 8, 0, 0, 1, 4), // type
    f(295, 3, 1, 0, 0, 0, 4), // format
    f(199, 4, 1, 0, 0, 0, 4), // description
    f(622, 5, 1, 29, 0, 0, 37), // priority
    f(386, 6, 8, 0, 0, 1, 4), // jsonPath
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceConversion
    f(816, 1, 8, 0, 0, 1, 630), // strategy
    f(940, 2, 3, 508, 0, 0, 631), // webhook
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 8, 509, 0, 2, 632), // spec
    f(798, 3, 1, 510, 0, 2, 633), // status
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionCondition
    f(881, 1, 8, 0, 0, 1, 634), // type
    f(798, 2, 8, 0, 0, 1, 74), // status
    f(417, 3, 1, 58, 0, 0, 75), // lastTransitionTime
    f(650, 4, 1, 0, 0, 0, 4), // reason
    f(470, 5, 1, 0, 0, 0, 4), // message
    f(538, 6, 1, 44, 0, 0, 56), // observedGeneration
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 511, 0, 0, 635), // items
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionNames
    f(584, 1, 8, 0, 0, 1, 4), // plural
    f(779, 2, 1, 0, 0, 0, 4), // singular
    f(775, 3, 1, 9, 1, 0, 13), // shortNames
    f(393, 4, 8, 0, 0, 1, 4), // kind
    f(429, 5, 1, 0, 0, 0, 4), // listKind
    f(97, 6, 1, 9, 1, 0, 13), // categories
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec
    f(318, 1, 8, 0, 0, 1, 4), // group
    f(497, 3, 8, 512, 0, 2, 636), // names
    f(730, 4, 8, 0, 0, 1, 637), // scope
    f(915, 7, 8, 513, 1, 0, 638), // versions
    f(154, 9, 3, 514, 0, 0, 639), // conversion
    f(620, 10, 1, 5, 0, 0, 8), // preserveUnknownFields
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus
    f(132, 1, 0, 515, 4, 0, 640), // conditions
    f(3, 2, 0, 512, 0, 2, 636), // acceptedNames
    f(815, 3, 0, 9, 1, 0, 13), // storedVersions
    f(538, 4, 1, 44, 0, 0, 56), // observedGeneration
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionVersion
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(755, 2, 8, 5, 0, 4, 8), // served
    f(806, 3, 8, 5, 0, 4, 8), // storage
    f(191, 7, 1, 5, 0, 0, 8), // deprecated
    f(197, 8, 3, 0, 0, 0, 4), // deprecationWarning
    f(728, 4, 3, 516, 0, 0, 641), // schema
    f(826, 5, 3, 517, 0, 0, 642), // subresources
    f(12, 6, 1, 518, 1, 0, 643), // additionalPrinterColumns
    f(749, 9, 1, 519, 1, 0, 644), // selectableFields
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresourceScale
    f(788, 1, 8, 0, 0, 1, 4), // specReplicasPath
    f(799, 2, 8, 0, 0, 1, 4), // statusReplicasPath
    f(405, 3, 3, 0, 0, 0, 4), // labelSelectorPath
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresources
    f(798, 1, 3, 520, 0, 0, 645), // status
    f(718, 2, 3, 521, 0, 0, 646), // scale
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceValidation
    f(544, 1, 3, 522, 0, 0, 647), // openAPIV3Schema
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ExternalDocumentation
    f(199, 1, 1, 0, 0, 0, 4), // description
    f(893, 2, 1, 0, 0, 0, 4), // url
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps
    f(351, 1, 1, 0, 0, 0, 4), // id
    f(1, 2, 1, 0, 0, 0, 648), // $schema
    f(0, 3, 3, 0, 0, 0, 4), // $ref
    f(199, 4, 1, 0, 0, 0, 4), // description
    f(881, 5, 1, 0, 0, 0, 4), // type
    f(295, 6, 1, 0, 0, 0, 4), // format
    f(865, 7, 1, 0, 0, 0, 4), // title
    f(178, 8, 3, 523, 0, 0, 649), // default
    f(466, 9, 3, 524, 0, 0, 650), // maximum
    f(250, 10, 1, 5, 0, 0, 8), // exclusiveMaximum
    f(485, 11, 3, 524, 0, 0, 650), // minimum
    f(251, 12, 1, 5, 0, 0, 8), // exclusiveMinimum
    f(459, 13, 3, 44, 0, 0, 56), // maxLength
    f(481, 14, 3, 44, 0, 0, 56), // minLength
    f(570, 15, 1, 0, 0, 0, 4), // pattern
    f(458, 16, 3, 44, 0, 0, 56), // maxItems
    f(480, 17, 3, 44, 0, 0, 56), // minItems
    f(887, 18, 1, 5, 0, 0, 8), // uniqueItems
    f(494, 19, 3, 524, 0, 0, 650), // multipleOf
    f(235, 20, 1, 525, 1, 0, 651), // enum
    f(461, 21, 3, 44, 0, 0, 56), // maxProperties
    f(482, 22, 3, 44, 0, 0, 56), // minProperties
    f(674, 23, 1, 9, 1, 0, 13), // required
    f(383, 24, 3, 526, 0, 0, 652), // items
    f(22, 25, 1, 527, 1, 0, 653), // allOf
    f(542, 26, 1, 527, 1, 0, 653), // oneOf
    f(39, 27, 1, 527, 1, 0, 653), // anyOf
    f(527, 28, 3, 522, 0, 0, 647), // not
    f(630, 29, 1, 528, 0, 0, 654), // properties
    f(13, 30, 3, 529, 0, 0, 655), // additionalProperties
    f(571, 31, 1, 528, 0, 0, 654), // patternProperties
    f(187, 32, 1, 530, 0, 0, 656), // dependencies
    f(11, 33, 3, 529, 0, 0, 655), // additionalItems
    f(182, 34, 1, 528, 0, 0, 657), // definitions
    f(264, 35, 3, 531, 0, 0, 658), // externalDocs
    f(247, 36, 3, 523, 0, 0, 649), // example
    f(530, 37, 1, 5, 0, 0, 8), // nullable
    f(955, 38, 3, 5, 0, 0, 8), // x-kubernetes-preserve-unknown-fields
    f(950, 39, 1, 5, 0, 0, 8), // x-kubernetes-embedded-resource
    f(951, 40, 1, 5, 0, 0, 8), // x-kubernetes-int-or-string
    f(952, 41, 1, 9, 1, 0, 13), // x-kubernetes-list-map-keys
    f(953, 42, 3, 0, 0, 0, 4), // x-kubernetes-list-type
    f(954, 43, 3, 0, 0, 0, 4), // x-kubernetes-map-type
    f(956, 44, 1, 532, 24, 0, 659), // x-kubernetes-validations
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.SelectableField
    f(386, 1, 8, 0, 0, 1, 4), // jsonPath
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ServiceReference
    f(499, 1, 8, 0, 0, 1, 4), // namespace
    f(496, 2, 8, 0, 0, 1, 4), // name
    f(567, 3, 3, 0, 0, 0, 4), // path
    f(607, 4, 3, 29, 0, 0, 37), // port
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ValidationRule
    f(709, 1, 8, 0, 0, 1, 4), // rule
    f(470, 2, 1, 0, 0, 0, 4), // message
    f(471, 3, 1, 0, 0, 0, 4), // messageExpression
    f(650, 4, 3, 0, 0, 0, 660), // reason
    f(279, 5, 1, 0, 0, 0, 4), // fieldPath
    f(550, 6, 3, 5, 0, 0, 8), // optionalOldSelf
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.WebhookClientConfig
    f(893, 3, 3, 0, 0, 0, 4), // url
    f(759, 1, 3, 533, 0, 0, 62), // service
    f(92, 2, 1, 7, 0, 0, 10), // caBundle
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.WebhookConversion
    f(113, 2, 3, 534, 0, 0, 34), // clientConfig
    f(155, 3, 8, 9, 1, 0, 13), // conversionReviewVersions
    // io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(915, 2, 8, 535, 1, 0, 661), // versions
    f(618, 3, 1, 536, 0, 2, 662), // preferredVersion
    f(758, 4, 1, 537, 1, 0, 663), // serverAddressByClientCIDRs
    // io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(321, 1, 8, 538, 1, 0, 664), // groups
    // io.k8s.apimachinery.pkg.apis.meta.v1.APIResource
    f(496, 1, 8, 0, 0, 1, 4), // name
    f(780, 6, 8, 0, 0, 1, 4), // singularName
    f(501, 2, 8, 5, 0, 4, 8), // namespaced
    f(318, 8, 1, 0, 0, 0, 4), // group
    f(913, 9, 1, 0, 0, 0, 4), // version
    f(393, 3, 8, 0, 0, 1, 4), // kind
    f(912, 4, 8, 539, 0, 0, 665), // verbs
    f(775, 5, 1, 9, 1, 0, 13), // shortNames
    f(97, 7, 1, 9, 1, 0, 13), // categories
    f(813, 10, 1, 0, 0, 0, 4), // storageVersionHash
    // io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(320, 1, 8, 0, 0, 1, 4), // groupVersion
    f(695, 2, 8, 540, 1, 0, 666), // resources
    // io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(915, 1, 8, 9, 1, 0, 13), // versions
    f(758, 2, 8, 537, 1, 0, 663), // serverAddressByClientCIDRs
    // io.k8s.apimachinery.pkg.apis.meta.v1.Condition
    f(881, 1, 8, 0, 0, 1, 4), // type
    f(798, 2, 8, 0, 0, 1, 74), // status
    f(538, 3, 1, 44, 0, 0, 56), // observedGeneration
    f(417, 4, 8, 58, 0, 0, 75), // lastTransitionTime
    f(650, 5, 8, 0, 0, 1, 4), // reason
    f(470, 6, 8, 0, 0, 1, 4), // message
    // io.k8s.apimachinery.pkg.apis.meta.v1.CreateOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(224, 1, 1, 9, 0, 0, 13), // dryRun
    f(278, 3, 1, 0, 0, 0, 4), // fieldManager
    f(282, 4, 1, 0, 0, 0, 4), // fieldValidation
    // io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(317, 1, 3, 44, 0, 0, 56), // gracePeriodSeconds
    f(613, 2, 3, 541, 0, 0, 667), // preconditions
    f(553, 3, 3, 5, 0, 0, 8), // orphanDependents
    f(629, 4, 3, 0, 0, 0, 668), // propagationPolicy
    f(224, 5, 1, 9, 1, 0, 13), // dryRun
    f(352, 6, 3, 5, 0, 0, 8), // ignoreStoreReadErrorWithClusterBreakingPotential
    // io.k8s.apimachinery.pkg.apis.meta.v1.FieldSelectorRequirement
    f(389, 1, 8, 0, 0, 1, 4), // key
    f(548, 2, 8, 0, 0, 1, 669), // operator
    f(909, 3, 1, 9, 1, 0, 13), // values
    // io.k8s.apimachinery.pkg.apis.meta.v1.GetOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(693, 1, 1, 0, 0, 0, 4), // resourceVersion
    // io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionForDiscovery
    f(320, 1, 8, 0, 0, 1, 4), // groupVersion
    f(913, 2, 8, 0, 0, 1, 4), // version
    // io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionKind
    f(318, 1, 0, 0, 0, 0, 4), // group
    f(913, 2, 0, 0, 0, 0, 4), // version
    f(393, 3, 0, 0, 0, 0, 4), // kind
    // io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionResource
    f(318, 1, 0, 0, 0, 0, 4), // group
    f(913, 2, 0, 0, 0, 0, 4), // version
    f(681, 3, 0, 0, 0, 0, 4), // resource
    // io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector
    f(451, 1, 1, 8, 0, 0, 12), // matchLabels
    f(447, 2, 1, 92, 1, 0, 117), // matchExpressions
    // io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement
    f(389, 1, 8, 0, 0, 1, 4), // key
    f(548, 2, 8, 0, 0, 1, 670), // operator
    f(909, 3, 1, 9, 1, 0, 13), // values
    // io.k8s.apimachinery.pkg.apis.meta.v1.List
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 0, 23), // metadata
    f(383, 2, 0, 542, 0, 0, 671), // items
    // io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta
    f(752, 1, 1, 0, 0, 0, 4), // selfLink
    f(693, 2, 1, 0, 0, 0, 4), // resourceVersion
    f(149, 3, 1, 0, 0, 0, 4), // continue
    f(659, 4, 3, 44, 0, 0, 56), // remainingItemCount
    f(769, 5, 3, 543, 0, 0, 672), // shardInfo
    // io.k8s.apimachinery.pkg.apis.meta.v1.ListOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(404, 1, 1, 0, 0, 0, 4), // labelSelector
    f(281, 2, 1, 0, 0, 0, 4), // fieldSelector
    f(939, 3, 1, 5, 0, 0, 8), // watch
    f(35, 9, 1, 5, 0, 0, 8), // allowWatchBookmarks
    f(693, 4, 1, 0, 0, 0, 4), // resourceVersion
    f(694, 10, 1, 0, 0, 0, 673), // resourceVersionMatch
    f(863, 5, 3, 44, 0, 0, 56), // timeoutSeconds
    f(424, 7, 1, 44, 0, 0, 56), // limit
    f(149, 8, 1, 0, 0, 0, 4), // continue
    f(753, 11, 3, 5, 0, 0, 8), // sendInitialEvents
    f(770, 15, 1, 0, 0, 0, 4), // shardSelector
    // io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry
    f(442, 1, 1, 0, 0, 0, 4), // manager
    f(546, 2, 1, 0, 0, 0, 674), // operation
    f(42, 3, 1, 0, 0, 0, 4), // apiVersion
    f(860, 4, 3, 58, 0, 0, 75), // time
    f(283, 6, 1, 0, 0, 0, 4), // fieldsType
    f(284, 7, 3, 544, 0, 0, 675), // fieldsV1
    f(825, 8, 1, 0, 0, 0, 4), // subresource
    // io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta
    f(496, 1, 1, 0, 0, 0, 4), // name
    f(305, 2, 1, 0, 0, 0, 4), // generateName
    f(499, 3, 1, 0, 0, 0, 4), // namespace
    f(752, 4, 1, 0, 0, 0, 4), // selfLink
    f(883, 5, 1, 0, 0, 0, 1), // uid
    f(693, 6, 1, 0, 0, 0, 4), // resourceVersion
    f(306, 7, 1, 44, 0, 0, 56), // generation
    f(160, 8, 17, 58, 0, 0, 75), // creationTimestamp
    f(185, 9, 3, 58, 0, 0, 75), // deletionTimestamp
    f(184, 10, 3, 44, 0, 0, 56), // deletionGracePeriodSeconds
    f(406, 11, 1, 8, 0, 0, 12), // labels
    f(38, 12, 1, 8, 0, 0, 12), // annotations
    f(557, 13, 1, 545, 22, 0, 676), // ownerReferences
    f(286, 14, 1, 9, 11, 0, 13), // finalizers
    f(441, 17, 1, 546, 1, 0, 677), // managedFields
    // io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference
    f(42, 5, 8, 0, 0, 1, 4), // apiVersion
    f(393, 1, 8, 0, 0, 1, 4), // kind
    f(496, 3, 8, 0, 0, 1, 4), // name
    f(883, 4, 8, 0, 0, 1, 1), // uid
    f(150, 6, 3, 5, 0, 0, 8), // controller
    f(84, 7, 3, 5, 0, 0, 8), // blockOwnerDeletion
    // io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 0, 20), // metadata
    // io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 0, 23), // metadata
    f(383, 2, 0, 547, 0, 0, 678), // items
    // io.k8s.apimachinery.pkg.apis.meta.v1.PatchOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(224, 1, 1, 9, 0, 0, 13), // dryRun
    f(294, 2, 3, 5, 0, 0, 8), // force
    f(278, 3, 1, 0, 0, 0, 4), // fieldManager
    f(282, 4, 1, 0, 0, 0, 4), // fieldValidation
    // io.k8s.apimachinery.pkg.apis.meta.v1.Preconditions
    f(883, 1, 3, 0, 0, 0, 1), // uid
    f(693, 2, 3, 0, 0, 0, 4), // resourceVersion
    // io.k8s.apimachinery.pkg.apis.meta.v1.ServerAddressByClientCIDR
    f(112, 1, 8, 0, 0, 1, 4), // clientCIDR
    f(757, 2, 8, 0, 0, 1, 4), // serverAddress
    // io.k8s.apimachinery.pkg.apis.meta.v1.ShardInfo
    f(750, 1, 8, 0, 0, 1, 4), // selector
    // io.k8s.apimachinery.pkg.apis.meta.v1.Status
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(798, 2, 1, 0, 0, 0, 4), // status
    f(470, 3, 1, 0, 0, 0, 4), // message
    f(650, 4, 1, 0, 0, 0, 61), // reason
    f(204, 5, 3, 548, 0, 0, 679), // details
    f(120, 6, 1, 29, 0, 0, 37), // code
    // io.k8s.apimachinery.pkg.apis.meta.v1.StatusCause
    f(650, 1, 1, 0, 0, 0, 680), // reason
    f(470, 2, 1, 0, 0, 0, 4), // message
    f(277, 3, 1, 0, 0, 0, 4), // field
    // io.k8s.apimachinery.pkg.apis.meta.v1.StatusDetails
    f(496, 1, 1, 0, 0, 0, 4), // name
    f(318, 2, 1, 0, 0, 0, 4), // group
    f(393, 3, 1, 0, 0, 0, 4), // kind
    f(883, 6, 1, 0, 0, 0, 1), // uid
    f(98, 4, 1, 549, 1, 0, 681), // causes
    f(702, 5, 1, 29, 0, 0, 37), // retryAfterSeconds
    // io.k8s.apimachinery.pkg.apis.meta.v1.Table
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 0, 1, 18, 0, 0, 23), // metadata
    f(122, 0, 0, 550, 0, 0, 682), // columnDefinitions
    f(708, 0, 0, 551, 0, 0, 683), // rows
    // io.k8s.apimachinery.pkg.apis.meta.v1.TableColumnDefinition
    f(496, 0, 0, 0, 0, 0, 4), // name
    f(881, 0, 0, 0, 0, 0, 4), // type
    f(295, 0, 0, 0, 0, 0, 4), // format
    f(199, 0, 0, 0, 0, 0, 4), // description
    f(622, 0, 0, 29, 0, 0, 37), // priority
    // io.k8s.apimachinery.pkg.apis.meta.v1.TableRow
    f(100, 0, 0, 552, 0, 0, 684), // cells
    f(132, 0, 1, 553, 0, 0, 685), // conditions
    f(536, 0, 1, 4, 0, 0, 7), // object
    // io.k8s.apimachinery.pkg.apis.meta.v1.TableRowCondition
    f(881, 0, 0, 0, 0, 0, 686), // type
    f(798, 0, 0, 0, 0, 0, 74), // status
    f(650, 0, 1, 0, 0, 0, 4), // reason
    f(470, 0, 1, 0, 0, 0, 4), // message
    // io.k8s.apimachinery.pkg.apis.meta.v1.TypeMeta
    f(393, 1, 1, 0, 0, 0, 4), // kind
    f(42, 2, 1, 0, 0, 0, 4), // apiVersion
    // io.k8s.apimachinery.pkg.apis.meta.v1.UpdateOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(224, 1, 1, 9, 0, 0, 13), // dryRun
    f(278, 2, 1, 0, 0, 0, 4), // fieldManager
    f(282, 3, 1, 0, 0, 0, 4), // fieldValidation
    // io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent
    f(881, 1, 8, 0, 0, 1, 4), // type
    f(536, 2, 8, 4, 0, 0, 7), // object
    // io.k8s.apimachinery.pkg.version.Info
    f(439, 0, 8, 0, 0, 1, 4), // major
    f(486, 0, 8, 0, 0, 1, 4), // minor
    f(228, 0, 1, 0, 0, 0, 4), // emulationMajor
    f(229, 0, 1, 0, 0, 0, 4), // emulationMinor
    f(477, 0, 1, 0, 0, 0, 4), // minCompatibilityMajor
    f(478, 0, 1, 0, 0, 0, 4), // minCompatibilityMinor
    f(311, 0, 8, 0, 0, 1, 4), // gitVersion
    f(308, 0, 8, 0, 0, 1, 4), // gitCommit
    f(310, 0, 8, 0, 0, 1, 4), // gitTreeState
    f(90, 0, 8, 0, 0, 1, 4), // buildDate
    f(316, 0, 8, 0, 0, 1, 4), // goVersion
    f(124, 0, 8, 0, 0, 1, 4), // compiler
    f(583, 0, 8, 0, 0, 1, 4), // platform
    // io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 2, 20), // metadata
    f(787, 2, 1, 554, 0, 2, 687), // spec
    f(798, 3, 1, 555, 0, 2, 688), // status
    // io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceCondition
    f(881, 1, 8, 0, 0, 1, 689), // type
    f(798, 2, 8, 0, 0, 1, 74), // status
    f(417, 3, 1, 58, 0, 0, 75), // lastTransitionTime
    f(650, 4, 1, 0, 0, 0, 4), // reason
    f(470, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 2, 23), // metadata
    f(383, 2, 8, 556, 0, 0, 690), // items
    // io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceSpec
    f(759, 1, 3, 557, 0, 0, 62), // service
    f(318, 2, 1, 0, 0, 0, 4), // group
    f(913, 3, 1, 0, 0, 0, 4), // version
    f(368, 4, 1, 5, 0, 0, 8), // insecureSkipTLSVerify
    f(92, 5, 1, 7, 1, 0, 10), // caBundle
    f(319, 7, 8, 29, 0, 3, 37), // groupPriorityMinimum
    f(914, 8, 8, 29, 0, 3, 37), // versionPriority
    // io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceStatus
    f(132, 1, 1, 558, 5, 0, 691), // conditions
    // io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference
    f(499, 1, 1, 0, 0, 0, 4), // namespace
    f(496, 2, 1, 0, 0, 0, 4), // name
    f(607, 3, 3, 29, 0, 0, 37), // port
    // io.k8s.metrics.pkg.apis.metrics.v1beta1.ContainerMetrics
    f(496, 1, 0, 0, 0, 0, 4), // name
    f(894, 2, 0, 187, 0, 0, 240), // usage
    // io.k8s.metrics.pkg.apis.metrics.v1beta1.NodeMetrics
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 0, 20), // metadata
    f(864, 2, 0, 58, 0, 0, 75), // timestamp
    f(946, 3, 0, 559, 0, 0, 692), // window
    f(894, 4, 0, 187, 0, 0, 240), // usage
    // io.k8s.metrics.pkg.apis.metrics.v1beta1.NodeMetricsList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 0, 23), // metadata
    f(383, 2, 0, 560, 0, 0, 693), // items
    // io.k8s.metrics.pkg.apis.metrics.v1beta1.PodMetrics
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 15, 0, 0, 20), // metadata
    f(864, 2, 0, 58, 0, 0, 75), // timestamp
    f(946, 3, 0, 559, 0, 0, 692), // window
    f(148, 4, 0, 561, 0, 0, 694), // containers
    // io.k8s.metrics.pkg.apis.metrics.v1beta1.PodMetricsList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(472, 1, 1, 18, 0, 0, 23), // metadata
    f(383, 2, 0, 562, 0, 0, 695), // items
];
