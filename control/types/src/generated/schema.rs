//! Written by `cargo xtask generate` from the published Kubernetes API; do not edit.

use crate::schema::{Field, Merge, Type, TypeId, TypeRef, f};
use crate::schema::Shape::{Any, SchemaOrArray, SchemaOrBool, SchemaOrTexts, Struct, Texts};

/// Types, ordered by name.
pub(crate) static TYPES: &[Type; 616] = &[
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
    Type { name: "io.k8s.api.apps.v1.ControllerRevision", go: "v1.ControllerRevision", shape: Struct, atomic: false, published: true, range: (153, 4) },
    Type { name: "io.k8s.api.apps.v1.ControllerRevisionList", go: "v1.ControllerRevisionList", shape: Struct, atomic: false, published: true, range: (157, 3) },
    Type { name: "io.k8s.api.apps.v1.DaemonSet", go: "v1.DaemonSet", shape: Struct, atomic: false, published: true, range: (160, 4) },
    Type { name: "io.k8s.api.apps.v1.DaemonSetCondition", go: "v1.DaemonSetCondition", shape: Struct, atomic: false, published: true, range: (164, 5) },
    Type { name: "io.k8s.api.apps.v1.DaemonSetList", go: "v1.DaemonSetList", shape: Struct, atomic: false, published: true, range: (169, 3) },
    Type { name: "io.k8s.api.apps.v1.DaemonSetSpec", go: "v1.DaemonSetSpec", shape: Struct, atomic: false, published: true, range: (172, 5) },
    Type { name: "io.k8s.api.apps.v1.DaemonSetStatus", go: "v1.DaemonSetStatus", shape: Struct, atomic: false, published: true, range: (177, 10) },
    Type { name: "io.k8s.api.apps.v1.DaemonSetUpdateStrategy", go: "v1.DaemonSetUpdateStrategy", shape: Struct, atomic: false, published: true, range: (187, 2) },
    Type { name: "io.k8s.api.apps.v1.Deployment", go: "v1.Deployment", shape: Struct, atomic: false, published: true, range: (189, 4) },
    Type { name: "io.k8s.api.apps.v1.DeploymentCondition", go: "v1.DeploymentCondition", shape: Struct, atomic: false, published: true, range: (193, 6) },
    Type { name: "io.k8s.api.apps.v1.DeploymentList", go: "v1.DeploymentList", shape: Struct, atomic: false, published: true, range: (199, 3) },
    Type { name: "io.k8s.api.apps.v1.DeploymentSpec", go: "v1.DeploymentSpec", shape: Struct, atomic: false, published: true, range: (202, 8) },
    Type { name: "io.k8s.api.apps.v1.DeploymentStatus", go: "v1.DeploymentStatus", shape: Struct, atomic: false, published: true, range: (210, 9) },
    Type { name: "io.k8s.api.apps.v1.DeploymentStrategy", go: "v1.DeploymentStrategy", shape: Struct, atomic: false, published: true, range: (219, 2) },
    Type { name: "io.k8s.api.apps.v1.ReplicaSet", go: "v1.ReplicaSet", shape: Struct, atomic: false, published: true, range: (221, 4) },
    Type { name: "io.k8s.api.apps.v1.ReplicaSetCondition", go: "v1.ReplicaSetCondition", shape: Struct, atomic: false, published: true, range: (225, 5) },
    Type { name: "io.k8s.api.apps.v1.ReplicaSetList", go: "v1.ReplicaSetList", shape: Struct, atomic: false, published: true, range: (230, 3) },
    Type { name: "io.k8s.api.apps.v1.ReplicaSetSpec", go: "v1.ReplicaSetSpec", shape: Struct, atomic: false, published: true, range: (233, 4) },
    Type { name: "io.k8s.api.apps.v1.ReplicaSetStatus", go: "v1.ReplicaSetStatus", shape: Struct, atomic: false, published: true, range: (237, 7) },
    Type { name: "io.k8s.api.apps.v1.RollingUpdateDaemonSet", go: "v1.RollingUpdateDaemonSet", shape: Struct, atomic: false, published: true, range: (244, 2) },
    Type { name: "io.k8s.api.apps.v1.RollingUpdateDeployment", go: "v1.RollingUpdateDeployment", shape: Struct, atomic: false, published: true, range: (246, 2) },
    Type { name: "io.k8s.api.apps.v1.RollingUpdateStatefulSetStrategy", go: "v1.RollingUpdateStatefulSetStrategy", shape: Struct, atomic: false, published: true, range: (248, 2) },
    Type { name: "io.k8s.api.apps.v1.StatefulSet", go: "v1.StatefulSet", shape: Struct, atomic: false, published: true, range: (250, 4) },
    Type { name: "io.k8s.api.apps.v1.StatefulSetCondition", go: "v1.StatefulSetCondition", shape: Struct, atomic: false, published: true, range: (254, 5) },
    Type { name: "io.k8s.api.apps.v1.StatefulSetList", go: "v1.StatefulSetList", shape: Struct, atomic: false, published: true, range: (259, 3) },
    Type { name: "io.k8s.api.apps.v1.StatefulSetOrdinals", go: "v1.StatefulSetOrdinals", shape: Struct, atomic: false, published: true, range: (262, 1) },
    Type { name: "io.k8s.api.apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy", go: "v1.StatefulSetPersistentVolumeClaimRetentionPolicy", shape: Struct, atomic: false, published: true, range: (263, 2) },
    Type { name: "io.k8s.api.apps.v1.StatefulSetSpec", go: "v1.StatefulSetSpec", shape: Struct, atomic: false, published: true, range: (265, 11) },
    Type { name: "io.k8s.api.apps.v1.StatefulSetStatus", go: "v1.StatefulSetStatus", shape: Struct, atomic: false, published: true, range: (276, 10) },
    Type { name: "io.k8s.api.apps.v1.StatefulSetUpdateStrategy", go: "v1.StatefulSetUpdateStrategy", shape: Struct, atomic: false, published: true, range: (286, 2) },
    Type { name: "io.k8s.api.authentication.v1.BoundObjectReference", go: "v1.BoundObjectReference", shape: Struct, atomic: false, published: true, range: (288, 4) },
    Type { name: "io.k8s.api.authentication.v1.ExtraValue", go: "v1.ExtraValue", shape: Texts, atomic: false, published: false, range: (292, 0) },
    Type { name: "io.k8s.api.authentication.v1.SelfSubjectReview", go: "v1.SelfSubjectReview", shape: Struct, atomic: false, published: true, range: (292, 3) },
    Type { name: "io.k8s.api.authentication.v1.SelfSubjectReviewStatus", go: "v1.SelfSubjectReviewStatus", shape: Struct, atomic: false, published: true, range: (295, 1) },
    Type { name: "io.k8s.api.authentication.v1.TokenRequest", go: "v1.TokenRequest", shape: Struct, atomic: false, published: true, range: (296, 4) },
    Type { name: "io.k8s.api.authentication.v1.TokenRequestSpec", go: "v1.TokenRequestSpec", shape: Struct, atomic: false, published: true, range: (300, 3) },
    Type { name: "io.k8s.api.authentication.v1.TokenRequestStatus", go: "v1.TokenRequestStatus", shape: Struct, atomic: false, published: true, range: (303, 2) },
    Type { name: "io.k8s.api.authentication.v1.TokenReview", go: "v1.TokenReview", shape: Struct, atomic: false, published: true, range: (305, 4) },
    Type { name: "io.k8s.api.authentication.v1.TokenReviewSpec", go: "v1.TokenReviewSpec", shape: Struct, atomic: false, published: true, range: (309, 2) },
    Type { name: "io.k8s.api.authentication.v1.TokenReviewStatus", go: "v1.TokenReviewStatus", shape: Struct, atomic: false, published: true, range: (311, 4) },
    Type { name: "io.k8s.api.authentication.v1.UserInfo", go: "v1.UserInfo", shape: Struct, atomic: false, published: true, range: (315, 4) },
    Type { name: "io.k8s.api.authorization.v1.ExtraValue", go: "v1.ExtraValue", shape: Texts, atomic: false, published: false, range: (319, 0) },
    Type { name: "io.k8s.api.authorization.v1.FieldSelectorAttributes", go: "v1.FieldSelectorAttributes", shape: Struct, atomic: false, published: true, range: (319, 2) },
    Type { name: "io.k8s.api.authorization.v1.LabelSelectorAttributes", go: "v1.LabelSelectorAttributes", shape: Struct, atomic: false, published: true, range: (321, 2) },
    Type { name: "io.k8s.api.authorization.v1.LocalSubjectAccessReview", go: "v1.LocalSubjectAccessReview", shape: Struct, atomic: false, published: true, range: (323, 4) },
    Type { name: "io.k8s.api.authorization.v1.NonResourceAttributes", go: "v1.NonResourceAttributes", shape: Struct, atomic: false, published: true, range: (327, 2) },
    Type { name: "io.k8s.api.authorization.v1.NonResourceRule", go: "v1.NonResourceRule", shape: Struct, atomic: false, published: true, range: (329, 2) },
    Type { name: "io.k8s.api.authorization.v1.ResourceAttributes", go: "v1.ResourceAttributes", shape: Struct, atomic: false, published: true, range: (331, 9) },
    Type { name: "io.k8s.api.authorization.v1.ResourceRule", go: "v1.ResourceRule", shape: Struct, atomic: false, published: true, range: (340, 4) },
    Type { name: "io.k8s.api.authorization.v1.SelfSubjectAccessReview", go: "v1.SelfSubjectAccessReview", shape: Struct, atomic: false, published: true, range: (344, 4) },
    Type { name: "io.k8s.api.authorization.v1.SelfSubjectAccessReviewSpec", go: "v1.SelfSubjectAccessReviewSpec", shape: Struct, atomic: false, published: true, range: (348, 2) },
    Type { name: "io.k8s.api.authorization.v1.SelfSubjectRulesReview", go: "v1.SelfSubjectRulesReview", shape: Struct, atomic: false, published: true, range: (350, 4) },
    Type { name: "io.k8s.api.authorization.v1.SelfSubjectRulesReviewSpec", go: "v1.SelfSubjectRulesReviewSpec", shape: Struct, atomic: false, published: true, range: (354, 1) },
    Type { name: "io.k8s.api.authorization.v1.SubjectAccessReview", go: "v1.SubjectAccessReview", shape: Struct, atomic: false, published: true, range: (355, 4) },
    Type { name: "io.k8s.api.authorization.v1.SubjectAccessReviewSpec", go: "v1.SubjectAccessReviewSpec", shape: Struct, atomic: false, published: true, range: (359, 6) },
    Type { name: "io.k8s.api.authorization.v1.SubjectAccessReviewStatus", go: "v1.SubjectAccessReviewStatus", shape: Struct, atomic: false, published: true, range: (365, 4) },
    Type { name: "io.k8s.api.authorization.v1.SubjectRulesReviewStatus", go: "v1.SubjectRulesReviewStatus", shape: Struct, atomic: false, published: true, range: (369, 4) },
    Type { name: "io.k8s.api.autoscaling.v1.CrossVersionObjectReference", go: "v1.CrossVersionObjectReference", shape: Struct, atomic: true, published: true, range: (373, 3) },
    Type { name: "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler", go: "v1.HorizontalPodAutoscaler", shape: Struct, atomic: false, published: true, range: (376, 4) },
    Type { name: "io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerList", go: "v1.HorizontalPodAutoscalerList", shape: Struct, atomic: false, published: true, range: (380, 3) },
    Type { name: "io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerSpec", go: "v1.HorizontalPodAutoscalerSpec", shape: Struct, atomic: false, published: true, range: (383, 4) },
    Type { name: "io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerStatus", go: "v1.HorizontalPodAutoscalerStatus", shape: Struct, atomic: false, published: true, range: (387, 5) },
    Type { name: "io.k8s.api.autoscaling.v1.Scale", go: "v1.Scale", shape: Struct, atomic: false, published: true, range: (392, 4) },
    Type { name: "io.k8s.api.autoscaling.v1.ScaleSpec", go: "v1.ScaleSpec", shape: Struct, atomic: false, published: true, range: (396, 1) },
    Type { name: "io.k8s.api.autoscaling.v1.ScaleStatus", go: "v1.ScaleStatus", shape: Struct, atomic: false, published: true, range: (397, 2) },
    Type { name: "io.k8s.api.autoscaling.v2.ContainerResourceMetricSource", go: "v2.ContainerResourceMetricSource", shape: Struct, atomic: false, published: true, range: (399, 3) },
    Type { name: "io.k8s.api.autoscaling.v2.ContainerResourceMetricStatus", go: "v2.ContainerResourceMetricStatus", shape: Struct, atomic: false, published: true, range: (402, 3) },
    Type { name: "io.k8s.api.autoscaling.v2.CrossVersionObjectReference", go: "v2.CrossVersionObjectReference", shape: Struct, atomic: false, published: true, range: (405, 3) },
    Type { name: "io.k8s.api.autoscaling.v2.ExternalMetricSource", go: "v2.ExternalMetricSource", shape: Struct, atomic: false, published: true, range: (408, 2) },
    Type { name: "io.k8s.api.autoscaling.v2.ExternalMetricStatus", go: "v2.ExternalMetricStatus", shape: Struct, atomic: false, published: true, range: (410, 2) },
    Type { name: "io.k8s.api.autoscaling.v2.HPAScalingPolicy", go: "v2.HPAScalingPolicy", shape: Struct, atomic: false, published: true, range: (412, 3) },
    Type { name: "io.k8s.api.autoscaling.v2.HPAScalingRules", go: "v2.HPAScalingRules", shape: Struct, atomic: false, published: true, range: (415, 4) },
    Type { name: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler", go: "v2.HorizontalPodAutoscaler", shape: Struct, atomic: false, published: true, range: (419, 4) },
    Type { name: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior", go: "v2.HorizontalPodAutoscalerBehavior", shape: Struct, atomic: false, published: true, range: (423, 2) },
    Type { name: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerCondition", go: "v2.HorizontalPodAutoscalerCondition", shape: Struct, atomic: false, published: true, range: (425, 5) },
    Type { name: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerList", go: "v2.HorizontalPodAutoscalerList", shape: Struct, atomic: false, published: true, range: (430, 3) },
    Type { name: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec", go: "v2.HorizontalPodAutoscalerSpec", shape: Struct, atomic: false, published: true, range: (433, 5) },
    Type { name: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus", go: "v2.HorizontalPodAutoscalerStatus", shape: Struct, atomic: false, published: true, range: (438, 6) },
    Type { name: "io.k8s.api.autoscaling.v2.MetricIdentifier", go: "v2.MetricIdentifier", shape: Struct, atomic: false, published: true, range: (444, 2) },
    Type { name: "io.k8s.api.autoscaling.v2.MetricSpec", go: "v2.MetricSpec", shape: Struct, atomic: false, published: true, range: (446, 6) },
    Type { name: "io.k8s.api.autoscaling.v2.MetricStatus", go: "v2.MetricStatus", shape: Struct, atomic: false, published: true, range: (452, 6) },
    Type { name: "io.k8s.api.autoscaling.v2.MetricTarget", go: "v2.MetricTarget", shape: Struct, atomic: false, published: true, range: (458, 4) },
    Type { name: "io.k8s.api.autoscaling.v2.MetricValueStatus", go: "v2.MetricValueStatus", shape: Struct, atomic: false, published: true, range: (462, 3) },
    Type { name: "io.k8s.api.autoscaling.v2.ObjectMetricSource", go: "v2.ObjectMetricSource", shape: Struct, atomic: false, published: true, range: (465, 3) },
    Type { name: "io.k8s.api.autoscaling.v2.ObjectMetricStatus", go: "v2.ObjectMetricStatus", shape: Struct, atomic: false, published: true, range: (468, 3) },
    Type { name: "io.k8s.api.autoscaling.v2.PodsMetricSource", go: "v2.PodsMetricSource", shape: Struct, atomic: false, published: true, range: (471, 2) },
    Type { name: "io.k8s.api.autoscaling.v2.PodsMetricStatus", go: "v2.PodsMetricStatus", shape: Struct, atomic: false, published: true, range: (473, 2) },
    Type { name: "io.k8s.api.autoscaling.v2.ResourceMetricSource", go: "v2.ResourceMetricSource", shape: Struct, atomic: false, published: true, range: (475, 2) },
    Type { name: "io.k8s.api.autoscaling.v2.ResourceMetricStatus", go: "v2.ResourceMetricStatus", shape: Struct, atomic: false, published: true, range: (477, 2) },
    Type { name: "io.k8s.api.batch.v1.CronJob", go: "v1.CronJob", shape: Struct, atomic: false, published: true, range: (479, 4) },
    Type { name: "io.k8s.api.batch.v1.CronJobList", go: "v1.CronJobList", shape: Struct, atomic: false, published: true, range: (483, 3) },
    Type { name: "io.k8s.api.batch.v1.CronJobSpec", go: "v1.CronJobSpec", shape: Struct, atomic: false, published: true, range: (486, 8) },
    Type { name: "io.k8s.api.batch.v1.CronJobStatus", go: "v1.CronJobStatus", shape: Struct, atomic: false, published: true, range: (494, 3) },
    Type { name: "io.k8s.api.batch.v1.Job", go: "v1.Job", shape: Struct, atomic: false, published: true, range: (497, 4) },
    Type { name: "io.k8s.api.batch.v1.JobCondition", go: "v1.JobCondition", shape: Struct, atomic: false, published: true, range: (501, 6) },
    Type { name: "io.k8s.api.batch.v1.JobList", go: "v1.JobList", shape: Struct, atomic: false, published: true, range: (507, 3) },
    Type { name: "io.k8s.api.batch.v1.JobSpec", go: "v1.JobSpec", shape: Struct, atomic: false, published: true, range: (510, 16) },
    Type { name: "io.k8s.api.batch.v1.JobStatus", go: "v1.JobStatus", shape: Struct, atomic: false, published: true, range: (526, 11) },
    Type { name: "io.k8s.api.batch.v1.JobTemplateSpec", go: "v1.JobTemplateSpec", shape: Struct, atomic: false, published: true, range: (537, 2) },
    Type { name: "io.k8s.api.batch.v1.PodFailurePolicy", go: "v1.PodFailurePolicy", shape: Struct, atomic: false, published: true, range: (539, 1) },
    Type { name: "io.k8s.api.batch.v1.PodFailurePolicyOnExitCodesRequirement", go: "v1.PodFailurePolicyOnExitCodesRequirement", shape: Struct, atomic: false, published: true, range: (540, 3) },
    Type { name: "io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern", go: "v1.PodFailurePolicyOnPodConditionsPattern", shape: Struct, atomic: false, published: true, range: (543, 2) },
    Type { name: "io.k8s.api.batch.v1.PodFailurePolicyRule", go: "v1.PodFailurePolicyRule", shape: Struct, atomic: false, published: true, range: (545, 3) },
    Type { name: "io.k8s.api.batch.v1.SuccessPolicy", go: "v1.SuccessPolicy", shape: Struct, atomic: false, published: true, range: (548, 1) },
    Type { name: "io.k8s.api.batch.v1.SuccessPolicyRule", go: "v1.SuccessPolicyRule", shape: Struct, atomic: false, published: true, range: (549, 2) },
    Type { name: "io.k8s.api.batch.v1.UncountedTerminatedPods", go: "v1.UncountedTerminatedPods", shape: Struct, atomic: false, published: true, range: (551, 2) },
    Type { name: "io.k8s.api.certificates.v1.CertificateSigningRequest", go: "v1.CertificateSigningRequest", shape: Struct, atomic: false, published: true, range: (553, 4) },
    Type { name: "io.k8s.api.certificates.v1.CertificateSigningRequestCondition", go: "v1.CertificateSigningRequestCondition", shape: Struct, atomic: false, published: true, range: (557, 6) },
    Type { name: "io.k8s.api.certificates.v1.CertificateSigningRequestList", go: "v1.CertificateSigningRequestList", shape: Struct, atomic: false, published: true, range: (563, 3) },
    Type { name: "io.k8s.api.certificates.v1.CertificateSigningRequestSpec", go: "v1.CertificateSigningRequestSpec", shape: Struct, atomic: false, published: true, range: (566, 8) },
    Type { name: "io.k8s.api.certificates.v1.CertificateSigningRequestStatus", go: "v1.CertificateSigningRequestStatus", shape: Struct, atomic: false, published: true, range: (574, 2) },
    Type { name: "io.k8s.api.certificates.v1.ExtraValue", go: "v1.ExtraValue", shape: Texts, atomic: false, published: false, range: (576, 0) },
    Type { name: "io.k8s.api.coordination.v1.Lease", go: "v1.Lease", shape: Struct, atomic: false, published: true, range: (576, 3) },
    Type { name: "io.k8s.api.coordination.v1.LeaseList", go: "v1.LeaseList", shape: Struct, atomic: false, published: true, range: (579, 3) },
    Type { name: "io.k8s.api.coordination.v1.LeaseSpec", go: "v1.LeaseSpec", shape: Struct, atomic: false, published: true, range: (582, 7) },
    Type { name: "io.k8s.api.core.v1.AWSElasticBlockStoreVolumeSource", go: "v1.AWSElasticBlockStoreVolumeSource", shape: Struct, atomic: false, published: true, range: (589, 4) },
    Type { name: "io.k8s.api.core.v1.Affinity", go: "v1.Affinity", shape: Struct, atomic: false, published: true, range: (593, 3) },
    Type { name: "io.k8s.api.core.v1.AppArmorProfile", go: "v1.AppArmorProfile", shape: Struct, atomic: false, published: true, range: (596, 2) },
    Type { name: "io.k8s.api.core.v1.AttachedVolume", go: "v1.AttachedVolume", shape: Struct, atomic: false, published: true, range: (598, 2) },
    Type { name: "io.k8s.api.core.v1.AzureDiskVolumeSource", go: "v1.AzureDiskVolumeSource", shape: Struct, atomic: false, published: true, range: (600, 6) },
    Type { name: "io.k8s.api.core.v1.AzureFilePersistentVolumeSource", go: "v1.AzureFilePersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (606, 4) },
    Type { name: "io.k8s.api.core.v1.AzureFileVolumeSource", go: "v1.AzureFileVolumeSource", shape: Struct, atomic: false, published: true, range: (610, 3) },
    Type { name: "io.k8s.api.core.v1.Binding", go: "v1.Binding", shape: Struct, atomic: false, published: true, range: (613, 3) },
    Type { name: "io.k8s.api.core.v1.CSIPersistentVolumeSource", go: "v1.CSIPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (616, 10) },
    Type { name: "io.k8s.api.core.v1.CSIVolumeSource", go: "v1.CSIVolumeSource", shape: Struct, atomic: false, published: true, range: (626, 5) },
    Type { name: "io.k8s.api.core.v1.Capabilities", go: "v1.Capabilities", shape: Struct, atomic: false, published: true, range: (631, 2) },
    Type { name: "io.k8s.api.core.v1.CephFSPersistentVolumeSource", go: "v1.CephFSPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (633, 6) },
    Type { name: "io.k8s.api.core.v1.CephFSVolumeSource", go: "v1.CephFSVolumeSource", shape: Struct, atomic: false, published: true, range: (639, 6) },
    Type { name: "io.k8s.api.core.v1.CinderPersistentVolumeSource", go: "v1.CinderPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (645, 4) },
    Type { name: "io.k8s.api.core.v1.CinderVolumeSource", go: "v1.CinderVolumeSource", shape: Struct, atomic: false, published: true, range: (649, 4) },
    Type { name: "io.k8s.api.core.v1.ClientIPConfig", go: "v1.ClientIPConfig", shape: Struct, atomic: false, published: true, range: (653, 1) },
    Type { name: "io.k8s.api.core.v1.ClusterTrustBundleProjection", go: "v1.ClusterTrustBundleProjection", shape: Struct, atomic: false, published: true, range: (654, 5) },
    Type { name: "io.k8s.api.core.v1.ComponentCondition", go: "v1.ComponentCondition", shape: Struct, atomic: false, published: true, range: (659, 4) },
    Type { name: "io.k8s.api.core.v1.ComponentStatus", go: "v1.ComponentStatus", shape: Struct, atomic: false, published: true, range: (663, 3) },
    Type { name: "io.k8s.api.core.v1.ComponentStatusList", go: "v1.ComponentStatusList", shape: Struct, atomic: false, published: true, range: (666, 3) },
    Type { name: "io.k8s.api.core.v1.ConfigMap", go: "v1.ConfigMap", shape: Struct, atomic: false, published: true, range: (669, 5) },
    Type { name: "io.k8s.api.core.v1.ConfigMapEnvSource", go: "v1.ConfigMapEnvSource", shape: Struct, atomic: false, published: true, range: (674, 2) },
    Type { name: "io.k8s.api.core.v1.ConfigMapKeySelector", go: "v1.ConfigMapKeySelector", shape: Struct, atomic: true, published: true, range: (676, 3) },
    Type { name: "io.k8s.api.core.v1.ConfigMapList", go: "v1.ConfigMapList", shape: Struct, atomic: false, published: true, range: (679, 3) },
    Type { name: "io.k8s.api.core.v1.ConfigMapNodeConfigSource", go: "v1.ConfigMapNodeConfigSource", shape: Struct, atomic: false, published: true, range: (682, 5) },
    Type { name: "io.k8s.api.core.v1.ConfigMapProjection", go: "v1.ConfigMapProjection", shape: Struct, atomic: false, published: true, range: (687, 3) },
    Type { name: "io.k8s.api.core.v1.ConfigMapVolumeSource", go: "v1.ConfigMapVolumeSource", shape: Struct, atomic: false, published: true, range: (690, 4) },
    Type { name: "io.k8s.api.core.v1.Container", go: "v1.Container", shape: Struct, atomic: false, published: true, range: (694, 25) },
    Type { name: "io.k8s.api.core.v1.ContainerExtendedResourceRequest", go: "v1.ContainerExtendedResourceRequest", shape: Struct, atomic: false, published: true, range: (719, 3) },
    Type { name: "io.k8s.api.core.v1.ContainerImage", go: "v1.ContainerImage", shape: Struct, atomic: false, published: true, range: (722, 2) },
    Type { name: "io.k8s.api.core.v1.ContainerPort", go: "v1.ContainerPort", shape: Struct, atomic: false, published: true, range: (724, 5) },
    Type { name: "io.k8s.api.core.v1.ContainerResizePolicy", go: "v1.ContainerResizePolicy", shape: Struct, atomic: false, published: true, range: (729, 2) },
    Type { name: "io.k8s.api.core.v1.ContainerRestartRule", go: "v1.ContainerRestartRule", shape: Struct, atomic: false, published: true, range: (731, 2) },
    Type { name: "io.k8s.api.core.v1.ContainerRestartRuleOnExitCodes", go: "v1.ContainerRestartRuleOnExitCodes", shape: Struct, atomic: false, published: true, range: (733, 2) },
    Type { name: "io.k8s.api.core.v1.ContainerState", go: "v1.ContainerState", shape: Struct, atomic: false, published: true, range: (735, 3) },
    Type { name: "io.k8s.api.core.v1.ContainerStateRunning", go: "v1.ContainerStateRunning", shape: Struct, atomic: false, published: true, range: (738, 1) },
    Type { name: "io.k8s.api.core.v1.ContainerStateTerminated", go: "v1.ContainerStateTerminated", shape: Struct, atomic: false, published: true, range: (739, 7) },
    Type { name: "io.k8s.api.core.v1.ContainerStateWaiting", go: "v1.ContainerStateWaiting", shape: Struct, atomic: false, published: true, range: (746, 2) },
    Type { name: "io.k8s.api.core.v1.ContainerStatus", go: "v1.ContainerStatus", shape: Struct, atomic: false, published: true, range: (748, 15) },
    Type { name: "io.k8s.api.core.v1.ContainerUser", go: "v1.ContainerUser", shape: Struct, atomic: false, published: true, range: (763, 1) },
    Type { name: "io.k8s.api.core.v1.DaemonEndpoint", go: "v1.DaemonEndpoint", shape: Struct, atomic: false, published: true, range: (764, 1) },
    Type { name: "io.k8s.api.core.v1.DownwardAPIProjection", go: "v1.DownwardAPIProjection", shape: Struct, atomic: false, published: true, range: (765, 1) },
    Type { name: "io.k8s.api.core.v1.DownwardAPIVolumeFile", go: "v1.DownwardAPIVolumeFile", shape: Struct, atomic: false, published: true, range: (766, 4) },
    Type { name: "io.k8s.api.core.v1.DownwardAPIVolumeSource", go: "v1.DownwardAPIVolumeSource", shape: Struct, atomic: false, published: true, range: (770, 2) },
    Type { name: "io.k8s.api.core.v1.EmptyDirVolumeSource", go: "v1.EmptyDirVolumeSource", shape: Struct, atomic: false, published: true, range: (772, 2) },
    Type { name: "io.k8s.api.core.v1.EndpointAddress", go: "v1.EndpointAddress", shape: Struct, atomic: true, published: true, range: (774, 4) },
    Type { name: "io.k8s.api.core.v1.EndpointPort", go: "v1.EndpointPort", shape: Struct, atomic: true, published: true, range: (778, 4) },
    Type { name: "io.k8s.api.core.v1.EndpointSubset", go: "v1.EndpointSubset", shape: Struct, atomic: false, published: true, range: (782, 3) },
    Type { name: "io.k8s.api.core.v1.Endpoints", go: "v1.Endpoints", shape: Struct, atomic: false, published: true, range: (785, 3) },
    Type { name: "io.k8s.api.core.v1.EndpointsList", go: "v1.EndpointsList", shape: Struct, atomic: false, published: true, range: (788, 3) },
    Type { name: "io.k8s.api.core.v1.EnvFromSource", go: "v1.EnvFromSource", shape: Struct, atomic: false, published: true, range: (791, 3) },
    Type { name: "io.k8s.api.core.v1.EnvVar", go: "v1.EnvVar", shape: Struct, atomic: false, published: true, range: (794, 3) },
    Type { name: "io.k8s.api.core.v1.EnvVarSource", go: "v1.EnvVarSource", shape: Struct, atomic: false, published: true, range: (797, 5) },
    Type { name: "io.k8s.api.core.v1.EphemeralContainer", go: "v1.EphemeralContainer", shape: Struct, atomic: false, published: true, range: (802, 2) },
    Type { name: "io.k8s.api.core.v1.EphemeralContainerCommon", go: "v1.EphemeralContainerCommon", shape: Struct, atomic: false, published: false, range: (804, 25) },
    Type { name: "io.k8s.api.core.v1.EphemeralVolumeSource", go: "v1.EphemeralVolumeSource", shape: Struct, atomic: false, published: true, range: (829, 1) },
    Type { name: "io.k8s.api.core.v1.Event", go: "v1.Event", shape: Struct, atomic: false, published: true, range: (830, 16) },
    Type { name: "io.k8s.api.core.v1.EventList", go: "v1.EventList", shape: Struct, atomic: false, published: true, range: (846, 3) },
    Type { name: "io.k8s.api.core.v1.EventSeries", go: "v1.EventSeries", shape: Struct, atomic: false, published: true, range: (849, 2) },
    Type { name: "io.k8s.api.core.v1.EventSource", go: "v1.EventSource", shape: Struct, atomic: false, published: true, range: (851, 2) },
    Type { name: "io.k8s.api.core.v1.ExecAction", go: "v1.ExecAction", shape: Struct, atomic: false, published: true, range: (853, 1) },
    Type { name: "io.k8s.api.core.v1.FCVolumeSource", go: "v1.FCVolumeSource", shape: Struct, atomic: false, published: true, range: (854, 5) },
    Type { name: "io.k8s.api.core.v1.FileKeySelector", go: "v1.FileKeySelector", shape: Struct, atomic: true, published: true, range: (859, 4) },
    Type { name: "io.k8s.api.core.v1.FlexPersistentVolumeSource", go: "v1.FlexPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (863, 5) },
    Type { name: "io.k8s.api.core.v1.FlexVolumeSource", go: "v1.FlexVolumeSource", shape: Struct, atomic: false, published: true, range: (868, 5) },
    Type { name: "io.k8s.api.core.v1.FlockerVolumeSource", go: "v1.FlockerVolumeSource", shape: Struct, atomic: false, published: true, range: (873, 2) },
    Type { name: "io.k8s.api.core.v1.GCEPersistentDiskVolumeSource", go: "v1.GCEPersistentDiskVolumeSource", shape: Struct, atomic: false, published: true, range: (875, 4) },
    Type { name: "io.k8s.api.core.v1.GRPCAction", go: "v1.GRPCAction", shape: Struct, atomic: false, published: true, range: (879, 2) },
    Type { name: "io.k8s.api.core.v1.GitRepoVolumeSource", go: "v1.GitRepoVolumeSource", shape: Struct, atomic: false, published: true, range: (881, 3) },
    Type { name: "io.k8s.api.core.v1.GlusterfsPersistentVolumeSource", go: "v1.GlusterfsPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (884, 4) },
    Type { name: "io.k8s.api.core.v1.GlusterfsVolumeSource", go: "v1.GlusterfsVolumeSource", shape: Struct, atomic: false, published: true, range: (888, 3) },
    Type { name: "io.k8s.api.core.v1.HTTPGetAction", go: "v1.HTTPGetAction", shape: Struct, atomic: false, published: true, range: (891, 5) },
    Type { name: "io.k8s.api.core.v1.HTTPHeader", go: "v1.HTTPHeader", shape: Struct, atomic: false, published: true, range: (896, 2) },
    Type { name: "io.k8s.api.core.v1.HostAlias", go: "v1.HostAlias", shape: Struct, atomic: false, published: true, range: (898, 2) },
    Type { name: "io.k8s.api.core.v1.HostIP", go: "v1.HostIP", shape: Struct, atomic: false, published: true, range: (900, 1) },
    Type { name: "io.k8s.api.core.v1.HostPathVolumeSource", go: "v1.HostPathVolumeSource", shape: Struct, atomic: false, published: true, range: (901, 2) },
    Type { name: "io.k8s.api.core.v1.ISCSIPersistentVolumeSource", go: "v1.ISCSIPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (903, 11) },
    Type { name: "io.k8s.api.core.v1.ISCSIVolumeSource", go: "v1.ISCSIVolumeSource", shape: Struct, atomic: false, published: true, range: (914, 11) },
    Type { name: "io.k8s.api.core.v1.ImageVolumeSource", go: "v1.ImageVolumeSource", shape: Struct, atomic: false, published: true, range: (925, 2) },
    Type { name: "io.k8s.api.core.v1.ImageVolumeStatus", go: "v1.ImageVolumeStatus", shape: Struct, atomic: false, published: true, range: (927, 1) },
    Type { name: "io.k8s.api.core.v1.KeyToPath", go: "v1.KeyToPath", shape: Struct, atomic: false, published: true, range: (928, 3) },
    Type { name: "io.k8s.api.core.v1.Lifecycle", go: "v1.Lifecycle", shape: Struct, atomic: false, published: true, range: (931, 3) },
    Type { name: "io.k8s.api.core.v1.LifecycleHandler", go: "v1.LifecycleHandler", shape: Struct, atomic: false, published: true, range: (934, 4) },
    Type { name: "io.k8s.api.core.v1.LimitRange", go: "v1.LimitRange", shape: Struct, atomic: false, published: true, range: (938, 3) },
    Type { name: "io.k8s.api.core.v1.LimitRangeItem", go: "v1.LimitRangeItem", shape: Struct, atomic: false, published: true, range: (941, 6) },
    Type { name: "io.k8s.api.core.v1.LimitRangeList", go: "v1.LimitRangeList", shape: Struct, atomic: false, published: true, range: (947, 3) },
    Type { name: "io.k8s.api.core.v1.LimitRangeSpec", go: "v1.LimitRangeSpec", shape: Struct, atomic: false, published: true, range: (950, 1) },
    Type { name: "io.k8s.api.core.v1.LinuxContainerUser", go: "v1.LinuxContainerUser", shape: Struct, atomic: false, published: true, range: (951, 3) },
    Type { name: "io.k8s.api.core.v1.LoadBalancerIngress", go: "v1.LoadBalancerIngress", shape: Struct, atomic: false, published: true, range: (954, 4) },
    Type { name: "io.k8s.api.core.v1.LoadBalancerStatus", go: "v1.LoadBalancerStatus", shape: Struct, atomic: false, published: true, range: (958, 1) },
    Type { name: "io.k8s.api.core.v1.LocalObjectReference", go: "v1.LocalObjectReference", shape: Struct, atomic: true, published: true, range: (959, 1) },
    Type { name: "io.k8s.api.core.v1.LocalVolumeSource", go: "v1.LocalVolumeSource", shape: Struct, atomic: false, published: true, range: (960, 2) },
    Type { name: "io.k8s.api.core.v1.ModifyVolumeStatus", go: "v1.ModifyVolumeStatus", shape: Struct, atomic: false, published: true, range: (962, 2) },
    Type { name: "io.k8s.api.core.v1.NFSVolumeSource", go: "v1.NFSVolumeSource", shape: Struct, atomic: false, published: true, range: (964, 3) },
    Type { name: "io.k8s.api.core.v1.Namespace", go: "v1.Namespace", shape: Struct, atomic: false, published: true, range: (967, 4) },
    Type { name: "io.k8s.api.core.v1.NamespaceCondition", go: "v1.NamespaceCondition", shape: Struct, atomic: false, published: true, range: (971, 5) },
    Type { name: "io.k8s.api.core.v1.NamespaceList", go: "v1.NamespaceList", shape: Struct, atomic: false, published: true, range: (976, 3) },
    Type { name: "io.k8s.api.core.v1.NamespaceSpec", go: "v1.NamespaceSpec", shape: Struct, atomic: false, published: true, range: (979, 1) },
    Type { name: "io.k8s.api.core.v1.NamespaceStatus", go: "v1.NamespaceStatus", shape: Struct, atomic: false, published: true, range: (980, 2) },
    Type { name: "io.k8s.api.core.v1.Node", go: "v1.Node", shape: Struct, atomic: false, published: true, range: (982, 4) },
    Type { name: "io.k8s.api.core.v1.NodeAddress", go: "v1.NodeAddress", shape: Struct, atomic: false, published: true, range: (986, 2) },
    Type { name: "io.k8s.api.core.v1.NodeAffinity", go: "v1.NodeAffinity", shape: Struct, atomic: false, published: true, range: (988, 2) },
    Type { name: "io.k8s.api.core.v1.NodeAllocatableResourceClaimStatus", go: "v1.NodeAllocatableResourceClaimStatus", shape: Struct, atomic: false, published: true, range: (990, 3) },
    Type { name: "io.k8s.api.core.v1.NodeCondition", go: "v1.NodeCondition", shape: Struct, atomic: false, published: true, range: (993, 6) },
    Type { name: "io.k8s.api.core.v1.NodeConfigSource", go: "v1.NodeConfigSource", shape: Struct, atomic: false, published: true, range: (999, 1) },
    Type { name: "io.k8s.api.core.v1.NodeConfigStatus", go: "v1.NodeConfigStatus", shape: Struct, atomic: false, published: true, range: (1000, 4) },
    Type { name: "io.k8s.api.core.v1.NodeDaemonEndpoints", go: "v1.NodeDaemonEndpoints", shape: Struct, atomic: false, published: true, range: (1004, 1) },
    Type { name: "io.k8s.api.core.v1.NodeFeatures", go: "v1.NodeFeatures", shape: Struct, atomic: false, published: true, range: (1005, 1) },
    Type { name: "io.k8s.api.core.v1.NodeList", go: "v1.NodeList", shape: Struct, atomic: false, published: true, range: (1006, 3) },
    Type { name: "io.k8s.api.core.v1.NodeProxyOptions", go: "v1.NodeProxyOptions", shape: Struct, atomic: false, published: false, range: (1009, 2) },
    Type { name: "io.k8s.api.core.v1.NodeRuntimeHandler", go: "v1.NodeRuntimeHandler", shape: Struct, atomic: false, published: true, range: (1011, 2) },
    Type { name: "io.k8s.api.core.v1.NodeRuntimeHandlerFeatures", go: "v1.NodeRuntimeHandlerFeatures", shape: Struct, atomic: false, published: true, range: (1013, 2) },
    Type { name: "io.k8s.api.core.v1.NodeSelector", go: "v1.NodeSelector", shape: Struct, atomic: true, published: true, range: (1015, 1) },
    Type { name: "io.k8s.api.core.v1.NodeSelectorRequirement", go: "v1.NodeSelectorRequirement", shape: Struct, atomic: false, published: true, range: (1016, 3) },
    Type { name: "io.k8s.api.core.v1.NodeSelectorTerm", go: "v1.NodeSelectorTerm", shape: Struct, atomic: true, published: true, range: (1019, 2) },
    Type { name: "io.k8s.api.core.v1.NodeSpec", go: "v1.NodeSpec", shape: Struct, atomic: false, published: true, range: (1021, 7) },
    Type { name: "io.k8s.api.core.v1.NodeStatus", go: "v1.NodeStatus", shape: Struct, atomic: false, published: true, range: (1028, 14) },
    Type { name: "io.k8s.api.core.v1.NodeSwapStatus", go: "v1.NodeSwapStatus", shape: Struct, atomic: false, published: true, range: (1042, 1) },
    Type { name: "io.k8s.api.core.v1.NodeSystemInfo", go: "v1.NodeSystemInfo", shape: Struct, atomic: false, published: true, range: (1043, 11) },
    Type { name: "io.k8s.api.core.v1.ObjectFieldSelector", go: "v1.ObjectFieldSelector", shape: Struct, atomic: true, published: true, range: (1054, 2) },
    Type { name: "io.k8s.api.core.v1.ObjectReference", go: "v1.ObjectReference", shape: Struct, atomic: true, published: true, range: (1056, 7) },
    Type { name: "io.k8s.api.core.v1.PersistentVolume", go: "v1.PersistentVolume", shape: Struct, atomic: false, published: true, range: (1063, 4) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeClaim", go: "v1.PersistentVolumeClaim", shape: Struct, atomic: false, published: true, range: (1067, 4) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeClaimCondition", go: "v1.PersistentVolumeClaimCondition", shape: Struct, atomic: false, published: true, range: (1071, 6) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeClaimList", go: "v1.PersistentVolumeClaimList", shape: Struct, atomic: false, published: true, range: (1077, 3) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeClaimSpec", go: "v1.PersistentVolumeClaimSpec", shape: Struct, atomic: false, published: true, range: (1080, 9) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeClaimStatus", go: "v1.PersistentVolumeClaimStatus", shape: Struct, atomic: false, published: true, range: (1089, 8) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeClaimTemplate", go: "v1.PersistentVolumeClaimTemplate", shape: Struct, atomic: false, published: true, range: (1097, 2) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeClaimVolumeSource", go: "v1.PersistentVolumeClaimVolumeSource", shape: Struct, atomic: false, published: true, range: (1099, 2) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeList", go: "v1.PersistentVolumeList", shape: Struct, atomic: false, published: true, range: (1101, 3) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeSource", go: "v1.PersistentVolumeSource", shape: Struct, atomic: false, published: false, range: (1104, 22) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeSpec", go: "v1.PersistentVolumeSpec", shape: Struct, atomic: false, published: true, range: (1126, 10) },
    Type { name: "io.k8s.api.core.v1.PersistentVolumeStatus", go: "v1.PersistentVolumeStatus", shape: Struct, atomic: false, published: true, range: (1136, 4) },
    Type { name: "io.k8s.api.core.v1.PhotonPersistentDiskVolumeSource", go: "v1.PhotonPersistentDiskVolumeSource", shape: Struct, atomic: false, published: true, range: (1140, 2) },
    Type { name: "io.k8s.api.core.v1.Pod", go: "v1.Pod", shape: Struct, atomic: false, published: true, range: (1142, 4) },
    Type { name: "io.k8s.api.core.v1.PodAffinity", go: "v1.PodAffinity", shape: Struct, atomic: false, published: true, range: (1146, 2) },
    Type { name: "io.k8s.api.core.v1.PodAffinityTerm", go: "v1.PodAffinityTerm", shape: Struct, atomic: false, published: true, range: (1148, 6) },
    Type { name: "io.k8s.api.core.v1.PodAntiAffinity", go: "v1.PodAntiAffinity", shape: Struct, atomic: false, published: true, range: (1154, 2) },
    Type { name: "io.k8s.api.core.v1.PodAttachOptions", go: "v1.PodAttachOptions", shape: Struct, atomic: false, published: false, range: (1156, 6) },
    Type { name: "io.k8s.api.core.v1.PodCertificateProjection", go: "v1.PodCertificateProjection", shape: Struct, atomic: false, published: true, range: (1162, 7) },
    Type { name: "io.k8s.api.core.v1.PodCondition", go: "v1.PodCondition", shape: Struct, atomic: false, published: true, range: (1169, 7) },
    Type { name: "io.k8s.api.core.v1.PodDNSConfig", go: "v1.PodDNSConfig", shape: Struct, atomic: false, published: true, range: (1176, 3) },
    Type { name: "io.k8s.api.core.v1.PodDNSConfigOption", go: "v1.PodDNSConfigOption", shape: Struct, atomic: false, published: true, range: (1179, 2) },
    Type { name: "io.k8s.api.core.v1.PodExecOptions", go: "v1.PodExecOptions", shape: Struct, atomic: false, published: false, range: (1181, 7) },
    Type { name: "io.k8s.api.core.v1.PodExtendedResourceClaimStatus", go: "v1.PodExtendedResourceClaimStatus", shape: Struct, atomic: false, published: true, range: (1188, 2) },
    Type { name: "io.k8s.api.core.v1.PodIP", go: "v1.PodIP", shape: Struct, atomic: false, published: true, range: (1190, 1) },
    Type { name: "io.k8s.api.core.v1.PodList", go: "v1.PodList", shape: Struct, atomic: false, published: true, range: (1191, 3) },
    Type { name: "io.k8s.api.core.v1.PodOS", go: "v1.PodOS", shape: Struct, atomic: false, published: true, range: (1194, 1) },
    Type { name: "io.k8s.api.core.v1.PodPortForwardOptions", go: "v1.PodPortForwardOptions", shape: Struct, atomic: false, published: false, range: (1195, 2) },
    Type { name: "io.k8s.api.core.v1.PodProxyOptions", go: "v1.PodProxyOptions", shape: Struct, atomic: false, published: false, range: (1197, 2) },
    Type { name: "io.k8s.api.core.v1.PodReadinessGate", go: "v1.PodReadinessGate", shape: Struct, atomic: false, published: true, range: (1199, 1) },
    Type { name: "io.k8s.api.core.v1.PodResourceClaim", go: "v1.PodResourceClaim", shape: Struct, atomic: false, published: true, range: (1200, 3) },
    Type { name: "io.k8s.api.core.v1.PodResourceClaimStatus", go: "v1.PodResourceClaimStatus", shape: Struct, atomic: false, published: true, range: (1203, 2) },
    Type { name: "io.k8s.api.core.v1.PodSchedulingGate", go: "v1.PodSchedulingGate", shape: Struct, atomic: false, published: true, range: (1205, 1) },
    Type { name: "io.k8s.api.core.v1.PodSchedulingGroup", go: "v1.PodSchedulingGroup", shape: Struct, atomic: false, published: true, range: (1206, 1) },
    Type { name: "io.k8s.api.core.v1.PodSecurityContext", go: "v1.PodSecurityContext", shape: Struct, atomic: false, published: true, range: (1207, 13) },
    Type { name: "io.k8s.api.core.v1.PodSpec", go: "v1.PodSpec", shape: Struct, atomic: false, published: true, range: (1220, 42) },
    Type { name: "io.k8s.api.core.v1.PodStatus", go: "v1.PodStatus", shape: Struct, atomic: false, published: true, range: (1262, 21) },
    Type { name: "io.k8s.api.core.v1.PodTemplate", go: "v1.PodTemplate", shape: Struct, atomic: false, published: true, range: (1283, 3) },
    Type { name: "io.k8s.api.core.v1.PodTemplateList", go: "v1.PodTemplateList", shape: Struct, atomic: false, published: true, range: (1286, 3) },
    Type { name: "io.k8s.api.core.v1.PodTemplateSpec", go: "v1.PodTemplateSpec", shape: Struct, atomic: false, published: true, range: (1289, 2) },
    Type { name: "io.k8s.api.core.v1.PortStatus", go: "v1.PortStatus", shape: Struct, atomic: false, published: true, range: (1291, 3) },
    Type { name: "io.k8s.api.core.v1.PortworxVolumeSource", go: "v1.PortworxVolumeSource", shape: Struct, atomic: false, published: true, range: (1294, 3) },
    Type { name: "io.k8s.api.core.v1.PreferredSchedulingTerm", go: "v1.PreferredSchedulingTerm", shape: Struct, atomic: false, published: true, range: (1297, 2) },
    Type { name: "io.k8s.api.core.v1.Probe", go: "v1.Probe", shape: Struct, atomic: false, published: true, range: (1299, 7) },
    Type { name: "io.k8s.api.core.v1.ProbeHandler", go: "v1.ProbeHandler", shape: Struct, atomic: false, published: false, range: (1306, 4) },
    Type { name: "io.k8s.api.core.v1.ProjectedVolumeSource", go: "v1.ProjectedVolumeSource", shape: Struct, atomic: false, published: true, range: (1310, 2) },
    Type { name: "io.k8s.api.core.v1.QuobyteVolumeSource", go: "v1.QuobyteVolumeSource", shape: Struct, atomic: false, published: true, range: (1312, 6) },
    Type { name: "io.k8s.api.core.v1.RBDPersistentVolumeSource", go: "v1.RBDPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (1318, 8) },
    Type { name: "io.k8s.api.core.v1.RBDVolumeSource", go: "v1.RBDVolumeSource", shape: Struct, atomic: false, published: true, range: (1326, 8) },
    Type { name: "io.k8s.api.core.v1.ReplicationController", go: "v1.ReplicationController", shape: Struct, atomic: false, published: true, range: (1334, 4) },
    Type { name: "io.k8s.api.core.v1.ReplicationControllerCondition", go: "v1.ReplicationControllerCondition", shape: Struct, atomic: false, published: true, range: (1338, 5) },
    Type { name: "io.k8s.api.core.v1.ReplicationControllerList", go: "v1.ReplicationControllerList", shape: Struct, atomic: false, published: true, range: (1343, 3) },
    Type { name: "io.k8s.api.core.v1.ReplicationControllerSpec", go: "v1.ReplicationControllerSpec", shape: Struct, atomic: false, published: true, range: (1346, 4) },
    Type { name: "io.k8s.api.core.v1.ReplicationControllerStatus", go: "v1.ReplicationControllerStatus", shape: Struct, atomic: false, published: true, range: (1350, 6) },
    Type { name: "io.k8s.api.core.v1.ResourceClaim", go: "v1.ResourceClaim", shape: Struct, atomic: false, published: true, range: (1356, 2) },
    Type { name: "io.k8s.api.core.v1.ResourceFieldSelector", go: "v1.ResourceFieldSelector", shape: Struct, atomic: true, published: true, range: (1358, 3) },
    Type { name: "io.k8s.api.core.v1.ResourceHealth", go: "v1.ResourceHealth", shape: Struct, atomic: false, published: true, range: (1361, 3) },
    Type { name: "io.k8s.api.core.v1.ResourceQuota", go: "v1.ResourceQuota", shape: Struct, atomic: false, published: true, range: (1364, 4) },
    Type { name: "io.k8s.api.core.v1.ResourceQuotaList", go: "v1.ResourceQuotaList", shape: Struct, atomic: false, published: true, range: (1368, 3) },
    Type { name: "io.k8s.api.core.v1.ResourceQuotaSpec", go: "v1.ResourceQuotaSpec", shape: Struct, atomic: false, published: true, range: (1371, 3) },
    Type { name: "io.k8s.api.core.v1.ResourceQuotaStatus", go: "v1.ResourceQuotaStatus", shape: Struct, atomic: false, published: true, range: (1374, 2) },
    Type { name: "io.k8s.api.core.v1.ResourceRequirements", go: "v1.ResourceRequirements", shape: Struct, atomic: false, published: true, range: (1376, 3) },
    Type { name: "io.k8s.api.core.v1.ResourceStatus", go: "v1.ResourceStatus", shape: Struct, atomic: false, published: true, range: (1379, 2) },
    Type { name: "io.k8s.api.core.v1.SELinuxOptions", go: "v1.SELinuxOptions", shape: Struct, atomic: false, published: true, range: (1381, 4) },
    Type { name: "io.k8s.api.core.v1.ScaleIOPersistentVolumeSource", go: "v1.ScaleIOPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (1385, 10) },
    Type { name: "io.k8s.api.core.v1.ScaleIOVolumeSource", go: "v1.ScaleIOVolumeSource", shape: Struct, atomic: false, published: true, range: (1395, 10) },
    Type { name: "io.k8s.api.core.v1.ScopeSelector", go: "v1.ScopeSelector", shape: Struct, atomic: true, published: true, range: (1405, 1) },
    Type { name: "io.k8s.api.core.v1.ScopedResourceSelectorRequirement", go: "v1.ScopedResourceSelectorRequirement", shape: Struct, atomic: false, published: true, range: (1406, 3) },
    Type { name: "io.k8s.api.core.v1.SeccompProfile", go: "v1.SeccompProfile", shape: Struct, atomic: false, published: true, range: (1409, 2) },
    Type { name: "io.k8s.api.core.v1.Secret", go: "v1.Secret", shape: Struct, atomic: false, published: true, range: (1411, 6) },
    Type { name: "io.k8s.api.core.v1.SecretEnvSource", go: "v1.SecretEnvSource", shape: Struct, atomic: false, published: true, range: (1417, 2) },
    Type { name: "io.k8s.api.core.v1.SecretKeySelector", go: "v1.SecretKeySelector", shape: Struct, atomic: true, published: true, range: (1419, 3) },
    Type { name: "io.k8s.api.core.v1.SecretList", go: "v1.SecretList", shape: Struct, atomic: false, published: true, range: (1422, 3) },
    Type { name: "io.k8s.api.core.v1.SecretProjection", go: "v1.SecretProjection", shape: Struct, atomic: false, published: true, range: (1425, 3) },
    Type { name: "io.k8s.api.core.v1.SecretReference", go: "v1.SecretReference", shape: Struct, atomic: true, published: true, range: (1428, 2) },
    Type { name: "io.k8s.api.core.v1.SecretVolumeSource", go: "v1.SecretVolumeSource", shape: Struct, atomic: false, published: true, range: (1430, 4) },
    Type { name: "io.k8s.api.core.v1.SecurityContext", go: "v1.SecurityContext", shape: Struct, atomic: false, published: true, range: (1434, 12) },
    Type { name: "io.k8s.api.core.v1.SerializedReference", go: "v1.SerializedReference", shape: Struct, atomic: false, published: false, range: (1446, 2) },
    Type { name: "io.k8s.api.core.v1.Service", go: "v1.Service", shape: Struct, atomic: false, published: true, range: (1448, 4) },
    Type { name: "io.k8s.api.core.v1.ServiceAccount", go: "v1.ServiceAccount", shape: Struct, atomic: false, published: true, range: (1452, 5) },
    Type { name: "io.k8s.api.core.v1.ServiceAccountList", go: "v1.ServiceAccountList", shape: Struct, atomic: false, published: true, range: (1457, 3) },
    Type { name: "io.k8s.api.core.v1.ServiceAccountTokenProjection", go: "v1.ServiceAccountTokenProjection", shape: Struct, atomic: false, published: true, range: (1460, 3) },
    Type { name: "io.k8s.api.core.v1.ServiceList", go: "v1.ServiceList", shape: Struct, atomic: false, published: true, range: (1463, 3) },
    Type { name: "io.k8s.api.core.v1.ServicePort", go: "v1.ServicePort", shape: Struct, atomic: false, published: true, range: (1466, 6) },
    Type { name: "io.k8s.api.core.v1.ServiceProxyOptions", go: "v1.ServiceProxyOptions", shape: Struct, atomic: false, published: false, range: (1472, 2) },
    Type { name: "io.k8s.api.core.v1.ServiceSpec", go: "v1.ServiceSpec", shape: Struct, atomic: false, published: true, range: (1474, 20) },
    Type { name: "io.k8s.api.core.v1.ServiceStatus", go: "v1.ServiceStatus", shape: Struct, atomic: false, published: true, range: (1494, 2) },
    Type { name: "io.k8s.api.core.v1.SessionAffinityConfig", go: "v1.SessionAffinityConfig", shape: Struct, atomic: false, published: true, range: (1496, 1) },
    Type { name: "io.k8s.api.core.v1.SleepAction", go: "v1.SleepAction", shape: Struct, atomic: false, published: true, range: (1497, 1) },
    Type { name: "io.k8s.api.core.v1.StorageOSPersistentVolumeSource", go: "v1.StorageOSPersistentVolumeSource", shape: Struct, atomic: false, published: true, range: (1498, 5) },
    Type { name: "io.k8s.api.core.v1.StorageOSVolumeSource", go: "v1.StorageOSVolumeSource", shape: Struct, atomic: false, published: true, range: (1503, 5) },
    Type { name: "io.k8s.api.core.v1.Sysctl", go: "v1.Sysctl", shape: Struct, atomic: false, published: true, range: (1508, 2) },
    Type { name: "io.k8s.api.core.v1.TCPSocketAction", go: "v1.TCPSocketAction", shape: Struct, atomic: false, published: true, range: (1510, 2) },
    Type { name: "io.k8s.api.core.v1.Taint", go: "v1.Taint", shape: Struct, atomic: false, published: true, range: (1512, 4) },
    Type { name: "io.k8s.api.core.v1.Toleration", go: "v1.Toleration", shape: Struct, atomic: false, published: true, range: (1516, 5) },
    Type { name: "io.k8s.api.core.v1.TopologySelectorLabelRequirement", go: "v1.TopologySelectorLabelRequirement", shape: Struct, atomic: false, published: true, range: (1521, 2) },
    Type { name: "io.k8s.api.core.v1.TopologySelectorTerm", go: "v1.TopologySelectorTerm", shape: Struct, atomic: true, published: true, range: (1523, 1) },
    Type { name: "io.k8s.api.core.v1.TopologySpreadConstraint", go: "v1.TopologySpreadConstraint", shape: Struct, atomic: false, published: true, range: (1524, 8) },
    Type { name: "io.k8s.api.core.v1.TypedLocalObjectReference", go: "v1.TypedLocalObjectReference", shape: Struct, atomic: true, published: true, range: (1532, 3) },
    Type { name: "io.k8s.api.core.v1.TypedObjectReference", go: "v1.TypedObjectReference", shape: Struct, atomic: false, published: true, range: (1535, 4) },
    Type { name: "io.k8s.api.core.v1.Volume", go: "v1.Volume", shape: Struct, atomic: false, published: true, range: (1539, 2) },
    Type { name: "io.k8s.api.core.v1.VolumeDevice", go: "v1.VolumeDevice", shape: Struct, atomic: false, published: true, range: (1541, 2) },
    Type { name: "io.k8s.api.core.v1.VolumeMount", go: "v1.VolumeMount", shape: Struct, atomic: false, published: true, range: (1543, 7) },
    Type { name: "io.k8s.api.core.v1.VolumeMountStatus", go: "v1.VolumeMountStatus", shape: Struct, atomic: false, published: true, range: (1550, 5) },
    Type { name: "io.k8s.api.core.v1.VolumeNodeAffinity", go: "v1.VolumeNodeAffinity", shape: Struct, atomic: false, published: true, range: (1555, 1) },
    Type { name: "io.k8s.api.core.v1.VolumeProjection", go: "v1.VolumeProjection", shape: Struct, atomic: false, published: true, range: (1556, 6) },
    Type { name: "io.k8s.api.core.v1.VolumeResourceRequirements", go: "v1.VolumeResourceRequirements", shape: Struct, atomic: false, published: true, range: (1562, 2) },
    Type { name: "io.k8s.api.core.v1.VolumeSource", go: "v1.VolumeSource", shape: Struct, atomic: false, published: false, range: (1564, 30) },
    Type { name: "io.k8s.api.core.v1.VolumeStatus", go: "v1.VolumeStatus", shape: Struct, atomic: false, published: true, range: (1594, 1) },
    Type { name: "io.k8s.api.core.v1.VsphereVirtualDiskVolumeSource", go: "v1.VsphereVirtualDiskVolumeSource", shape: Struct, atomic: false, published: true, range: (1595, 4) },
    Type { name: "io.k8s.api.core.v1.WeightedPodAffinityTerm", go: "v1.WeightedPodAffinityTerm", shape: Struct, atomic: false, published: true, range: (1599, 2) },
    Type { name: "io.k8s.api.core.v1.WindowsSecurityContextOptions", go: "v1.WindowsSecurityContextOptions", shape: Struct, atomic: false, published: true, range: (1601, 4) },
    Type { name: "io.k8s.api.discovery.v1.Endpoint", go: "v1.Endpoint", shape: Struct, atomic: false, published: true, range: (1605, 8) },
    Type { name: "io.k8s.api.discovery.v1.EndpointConditions", go: "v1.EndpointConditions", shape: Struct, atomic: false, published: true, range: (1613, 3) },
    Type { name: "io.k8s.api.discovery.v1.EndpointHints", go: "v1.EndpointHints", shape: Struct, atomic: false, published: true, range: (1616, 2) },
    Type { name: "io.k8s.api.discovery.v1.EndpointPort", go: "v1.EndpointPort", shape: Struct, atomic: true, published: true, range: (1618, 4) },
    Type { name: "io.k8s.api.discovery.v1.EndpointSlice", go: "v1.EndpointSlice", shape: Struct, atomic: false, published: true, range: (1622, 5) },
    Type { name: "io.k8s.api.discovery.v1.EndpointSliceList", go: "v1.EndpointSliceList", shape: Struct, atomic: false, published: true, range: (1627, 3) },
    Type { name: "io.k8s.api.discovery.v1.ForNode", go: "v1.ForNode", shape: Struct, atomic: false, published: true, range: (1630, 1) },
    Type { name: "io.k8s.api.discovery.v1.ForZone", go: "v1.ForZone", shape: Struct, atomic: false, published: true, range: (1631, 1) },
    Type { name: "io.k8s.api.events.v1.Event", go: "v1.Event", shape: Struct, atomic: false, published: true, range: (1632, 16) },
    Type { name: "io.k8s.api.events.v1.EventList", go: "v1.EventList", shape: Struct, atomic: false, published: true, range: (1648, 3) },
    Type { name: "io.k8s.api.events.v1.EventSeries", go: "v1.EventSeries", shape: Struct, atomic: false, published: true, range: (1651, 2) },
    Type { name: "io.k8s.api.flowcontrol.v1.ExemptPriorityLevelConfiguration", go: "v1.ExemptPriorityLevelConfiguration", shape: Struct, atomic: false, published: true, range: (1653, 2) },
    Type { name: "io.k8s.api.flowcontrol.v1.FlowDistinguisherMethod", go: "v1.FlowDistinguisherMethod", shape: Struct, atomic: false, published: true, range: (1655, 1) },
    Type { name: "io.k8s.api.flowcontrol.v1.FlowSchema", go: "v1.FlowSchema", shape: Struct, atomic: false, published: true, range: (1656, 4) },
    Type { name: "io.k8s.api.flowcontrol.v1.FlowSchemaCondition", go: "v1.FlowSchemaCondition", shape: Struct, atomic: false, published: true, range: (1660, 5) },
    Type { name: "io.k8s.api.flowcontrol.v1.FlowSchemaList", go: "v1.FlowSchemaList", shape: Struct, atomic: false, published: true, range: (1665, 3) },
    Type { name: "io.k8s.api.flowcontrol.v1.FlowSchemaSpec", go: "v1.FlowSchemaSpec", shape: Struct, atomic: false, published: true, range: (1668, 4) },
    Type { name: "io.k8s.api.flowcontrol.v1.FlowSchemaStatus", go: "v1.FlowSchemaStatus", shape: Struct, atomic: false, published: true, range: (1672, 1) },
    Type { name: "io.k8s.api.flowcontrol.v1.GroupSubject", go: "v1.GroupSubject", shape: Struct, atomic: false, published: true, range: (1673, 1) },
    Type { name: "io.k8s.api.flowcontrol.v1.LimitResponse", go: "v1.LimitResponse", shape: Struct, atomic: false, published: true, range: (1674, 2) },
    Type { name: "io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration", go: "v1.LimitedPriorityLevelConfiguration", shape: Struct, atomic: false, published: true, range: (1676, 4) },
    Type { name: "io.k8s.api.flowcontrol.v1.NonResourcePolicyRule", go: "v1.NonResourcePolicyRule", shape: Struct, atomic: false, published: true, range: (1680, 2) },
    Type { name: "io.k8s.api.flowcontrol.v1.PolicyRulesWithSubjects", go: "v1.PolicyRulesWithSubjects", shape: Struct, atomic: false, published: true, range: (1682, 3) },
    Type { name: "io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration", go: "v1.PriorityLevelConfiguration", shape: Struct, atomic: false, published: true, range: (1685, 4) },
    Type { name: "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationCondition", go: "v1.PriorityLevelConfigurationCondition", shape: Struct, atomic: false, published: true, range: (1689, 5) },
    Type { name: "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationList", go: "v1.PriorityLevelConfigurationList", shape: Struct, atomic: false, published: true, range: (1694, 3) },
    Type { name: "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationReference", go: "v1.PriorityLevelConfigurationReference", shape: Struct, atomic: false, published: true, range: (1697, 1) },
    Type { name: "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec", go: "v1.PriorityLevelConfigurationSpec", shape: Struct, atomic: false, published: true, range: (1698, 3) },
    Type { name: "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationStatus", go: "v1.PriorityLevelConfigurationStatus", shape: Struct, atomic: false, published: true, range: (1701, 1) },
    Type { name: "io.k8s.api.flowcontrol.v1.QueuingConfiguration", go: "v1.QueuingConfiguration", shape: Struct, atomic: false, published: true, range: (1702, 3) },
    Type { name: "io.k8s.api.flowcontrol.v1.ResourcePolicyRule", go: "v1.ResourcePolicyRule", shape: Struct, atomic: false, published: true, range: (1705, 5) },
    Type { name: "io.k8s.api.flowcontrol.v1.ServiceAccountSubject", go: "v1.ServiceAccountSubject", shape: Struct, atomic: false, published: true, range: (1710, 2) },
    Type { name: "io.k8s.api.flowcontrol.v1.Subject", go: "v1.Subject", shape: Struct, atomic: false, published: true, range: (1712, 4) },
    Type { name: "io.k8s.api.flowcontrol.v1.UserSubject", go: "v1.UserSubject", shape: Struct, atomic: false, published: true, range: (1716, 1) },
    Type { name: "io.k8s.api.networking.v1.HTTPIngressPath", go: "v1.HTTPIngressPath", shape: Struct, atomic: false, published: true, range: (1717, 3) },
    Type { name: "io.k8s.api.networking.v1.HTTPIngressRuleValue", go: "v1.HTTPIngressRuleValue", shape: Struct, atomic: false, published: true, range: (1720, 1) },
    Type { name: "io.k8s.api.networking.v1.IPAddress", go: "v1.IPAddress", shape: Struct, atomic: false, published: true, range: (1721, 3) },
    Type { name: "io.k8s.api.networking.v1.IPAddressList", go: "v1.IPAddressList", shape: Struct, atomic: false, published: true, range: (1724, 3) },
    Type { name: "io.k8s.api.networking.v1.IPAddressSpec", go: "v1.IPAddressSpec", shape: Struct, atomic: false, published: true, range: (1727, 1) },
    Type { name: "io.k8s.api.networking.v1.IPBlock", go: "v1.IPBlock", shape: Struct, atomic: false, published: true, range: (1728, 2) },
    Type { name: "io.k8s.api.networking.v1.Ingress", go: "v1.Ingress", shape: Struct, atomic: false, published: true, range: (1730, 4) },
    Type { name: "io.k8s.api.networking.v1.IngressBackend", go: "v1.IngressBackend", shape: Struct, atomic: false, published: true, range: (1734, 2) },
    Type { name: "io.k8s.api.networking.v1.IngressClass", go: "v1.IngressClass", shape: Struct, atomic: false, published: true, range: (1736, 3) },
    Type { name: "io.k8s.api.networking.v1.IngressClassList", go: "v1.IngressClassList", shape: Struct, atomic: false, published: true, range: (1739, 3) },
    Type { name: "io.k8s.api.networking.v1.IngressClassParametersReference", go: "v1.IngressClassParametersReference", shape: Struct, atomic: false, published: true, range: (1742, 5) },
    Type { name: "io.k8s.api.networking.v1.IngressClassSpec", go: "v1.IngressClassSpec", shape: Struct, atomic: false, published: true, range: (1747, 2) },
    Type { name: "io.k8s.api.networking.v1.IngressList", go: "v1.IngressList", shape: Struct, atomic: false, published: true, range: (1749, 3) },
    Type { name: "io.k8s.api.networking.v1.IngressLoadBalancerIngress", go: "v1.IngressLoadBalancerIngress", shape: Struct, atomic: false, published: true, range: (1752, 3) },
    Type { name: "io.k8s.api.networking.v1.IngressLoadBalancerStatus", go: "v1.IngressLoadBalancerStatus", shape: Struct, atomic: false, published: true, range: (1755, 1) },
    Type { name: "io.k8s.api.networking.v1.IngressPortStatus", go: "v1.IngressPortStatus", shape: Struct, atomic: false, published: true, range: (1756, 3) },
    Type { name: "io.k8s.api.networking.v1.IngressRule", go: "v1.IngressRule", shape: Struct, atomic: false, published: true, range: (1759, 2) },
    Type { name: "io.k8s.api.networking.v1.IngressRuleValue", go: "v1.IngressRuleValue", shape: Struct, atomic: false, published: false, range: (1761, 1) },
    Type { name: "io.k8s.api.networking.v1.IngressServiceBackend", go: "v1.IngressServiceBackend", shape: Struct, atomic: false, published: true, range: (1762, 2) },
    Type { name: "io.k8s.api.networking.v1.IngressSpec", go: "v1.IngressSpec", shape: Struct, atomic: false, published: true, range: (1764, 4) },
    Type { name: "io.k8s.api.networking.v1.IngressStatus", go: "v1.IngressStatus", shape: Struct, atomic: false, published: true, range: (1768, 1) },
    Type { name: "io.k8s.api.networking.v1.IngressTLS", go: "v1.IngressTLS", shape: Struct, atomic: false, published: true, range: (1769, 2) },
    Type { name: "io.k8s.api.networking.v1.NetworkPolicy", go: "v1.NetworkPolicy", shape: Struct, atomic: false, published: true, range: (1771, 3) },
    Type { name: "io.k8s.api.networking.v1.NetworkPolicyEgressRule", go: "v1.NetworkPolicyEgressRule", shape: Struct, atomic: false, published: true, range: (1774, 2) },
    Type { name: "io.k8s.api.networking.v1.NetworkPolicyIngressRule", go: "v1.NetworkPolicyIngressRule", shape: Struct, atomic: false, published: true, range: (1776, 2) },
    Type { name: "io.k8s.api.networking.v1.NetworkPolicyList", go: "v1.NetworkPolicyList", shape: Struct, atomic: false, published: true, range: (1778, 3) },
    Type { name: "io.k8s.api.networking.v1.NetworkPolicyPeer", go: "v1.NetworkPolicyPeer", shape: Struct, atomic: false, published: true, range: (1781, 3) },
    Type { name: "io.k8s.api.networking.v1.NetworkPolicyPort", go: "v1.NetworkPolicyPort", shape: Struct, atomic: false, published: true, range: (1784, 3) },
    Type { name: "io.k8s.api.networking.v1.NetworkPolicySpec", go: "v1.NetworkPolicySpec", shape: Struct, atomic: false, published: true, range: (1787, 4) },
    Type { name: "io.k8s.api.networking.v1.ParentReference", go: "v1.ParentReference", shape: Struct, atomic: false, published: true, range: (1791, 4) },
    Type { name: "io.k8s.api.networking.v1.ServiceBackendPort", go: "v1.ServiceBackendPort", shape: Struct, atomic: true, published: true, range: (1795, 2) },
    Type { name: "io.k8s.api.networking.v1.ServiceCIDR", go: "v1.ServiceCIDR", shape: Struct, atomic: false, published: true, range: (1797, 4) },
    Type { name: "io.k8s.api.networking.v1.ServiceCIDRList", go: "v1.ServiceCIDRList", shape: Struct, atomic: false, published: true, range: (1801, 3) },
    Type { name: "io.k8s.api.networking.v1.ServiceCIDRSpec", go: "v1.ServiceCIDRSpec", shape: Struct, atomic: false, published: true, range: (1804, 1) },
    Type { name: "io.k8s.api.networking.v1.ServiceCIDRStatus", go: "v1.ServiceCIDRStatus", shape: Struct, atomic: false, published: true, range: (1805, 1) },
    Type { name: "io.k8s.api.node.v1.Overhead", go: "v1.Overhead", shape: Struct, atomic: false, published: true, range: (1806, 1) },
    Type { name: "io.k8s.api.node.v1.RuntimeClass", go: "v1.RuntimeClass", shape: Struct, atomic: false, published: true, range: (1807, 5) },
    Type { name: "io.k8s.api.node.v1.RuntimeClassList", go: "v1.RuntimeClassList", shape: Struct, atomic: false, published: true, range: (1812, 3) },
    Type { name: "io.k8s.api.node.v1.Scheduling", go: "v1.Scheduling", shape: Struct, atomic: false, published: true, range: (1815, 2) },
    Type { name: "io.k8s.api.policy.v1.Eviction", go: "v1.Eviction", shape: Struct, atomic: false, published: true, range: (1817, 3) },
    Type { name: "io.k8s.api.policy.v1.PodDisruptionBudget", go: "v1.PodDisruptionBudget", shape: Struct, atomic: false, published: true, range: (1820, 4) },
    Type { name: "io.k8s.api.policy.v1.PodDisruptionBudgetList", go: "v1.PodDisruptionBudgetList", shape: Struct, atomic: false, published: true, range: (1824, 3) },
    Type { name: "io.k8s.api.policy.v1.PodDisruptionBudgetSpec", go: "v1.PodDisruptionBudgetSpec", shape: Struct, atomic: false, published: true, range: (1827, 4) },
    Type { name: "io.k8s.api.policy.v1.PodDisruptionBudgetStatus", go: "v1.PodDisruptionBudgetStatus", shape: Struct, atomic: false, published: true, range: (1831, 7) },
    Type { name: "io.k8s.api.rbac.v1.AggregationRule", go: "v1.AggregationRule", shape: Struct, atomic: false, published: true, range: (1838, 1) },
    Type { name: "io.k8s.api.rbac.v1.ClusterRole", go: "v1.ClusterRole", shape: Struct, atomic: false, published: true, range: (1839, 4) },
    Type { name: "io.k8s.api.rbac.v1.ClusterRoleBinding", go: "v1.ClusterRoleBinding", shape: Struct, atomic: false, published: true, range: (1843, 4) },
    Type { name: "io.k8s.api.rbac.v1.ClusterRoleBindingList", go: "v1.ClusterRoleBindingList", shape: Struct, atomic: false, published: true, range: (1847, 3) },
    Type { name: "io.k8s.api.rbac.v1.ClusterRoleList", go: "v1.ClusterRoleList", shape: Struct, atomic: false, published: true, range: (1850, 3) },
    Type { name: "io.k8s.api.rbac.v1.PolicyRule", go: "v1.PolicyRule", shape: Struct, atomic: false, published: true, range: (1853, 5) },
    Type { name: "io.k8s.api.rbac.v1.Role", go: "v1.Role", shape: Struct, atomic: false, published: true, range: (1858, 3) },
    Type { name: "io.k8s.api.rbac.v1.RoleBinding", go: "v1.RoleBinding", shape: Struct, atomic: false, published: true, range: (1861, 4) },
    Type { name: "io.k8s.api.rbac.v1.RoleBindingList", go: "v1.RoleBindingList", shape: Struct, atomic: false, published: true, range: (1865, 3) },
    Type { name: "io.k8s.api.rbac.v1.RoleList", go: "v1.RoleList", shape: Struct, atomic: false, published: true, range: (1868, 3) },
    Type { name: "io.k8s.api.rbac.v1.RoleRef", go: "v1.RoleRef", shape: Struct, atomic: true, published: true, range: (1871, 3) },
    Type { name: "io.k8s.api.rbac.v1.Subject", go: "v1.Subject", shape: Struct, atomic: true, published: true, range: (1874, 4) },
    Type { name: "io.k8s.api.resource.v1.AllocatedDeviceStatus", go: "v1.AllocatedDeviceStatus", shape: Struct, atomic: false, published: true, range: (1878, 7) },
    Type { name: "io.k8s.api.resource.v1.AllocationResult", go: "v1.AllocationResult", shape: Struct, atomic: false, published: true, range: (1885, 3) },
    Type { name: "io.k8s.api.resource.v1.CELDeviceSelector", go: "v1.CELDeviceSelector", shape: Struct, atomic: false, published: true, range: (1888, 1) },
    Type { name: "io.k8s.api.resource.v1.CapacityRequestPolicy", go: "v1.CapacityRequestPolicy", shape: Struct, atomic: false, published: true, range: (1889, 3) },
    Type { name: "io.k8s.api.resource.v1.CapacityRequestPolicyRange", go: "v1.CapacityRequestPolicyRange", shape: Struct, atomic: false, published: true, range: (1892, 3) },
    Type { name: "io.k8s.api.resource.v1.CapacityRequirements", go: "v1.CapacityRequirements", shape: Struct, atomic: false, published: true, range: (1895, 1) },
    Type { name: "io.k8s.api.resource.v1.Counter", go: "v1.Counter", shape: Struct, atomic: false, published: true, range: (1896, 1) },
    Type { name: "io.k8s.api.resource.v1.CounterSet", go: "v1.CounterSet", shape: Struct, atomic: false, published: true, range: (1897, 2) },
    Type { name: "io.k8s.api.resource.v1.Device", go: "v1.Device", shape: Struct, atomic: false, published: true, range: (1899, 13) },
    Type { name: "io.k8s.api.resource.v1.DeviceAllocationConfiguration", go: "v1.DeviceAllocationConfiguration", shape: Struct, atomic: false, published: true, range: (1912, 3) },
    Type { name: "io.k8s.api.resource.v1.DeviceAllocationResult", go: "v1.DeviceAllocationResult", shape: Struct, atomic: false, published: true, range: (1915, 2) },
    Type { name: "io.k8s.api.resource.v1.DeviceAttribute", go: "v1.DeviceAttribute", shape: Struct, atomic: false, published: true, range: (1917, 8) },
    Type { name: "io.k8s.api.resource.v1.DeviceCapacity", go: "v1.DeviceCapacity", shape: Struct, atomic: false, published: true, range: (1925, 2) },
    Type { name: "io.k8s.api.resource.v1.DeviceClaim", go: "v1.DeviceClaim", shape: Struct, atomic: false, published: true, range: (1927, 3) },
    Type { name: "io.k8s.api.resource.v1.DeviceClaimConfiguration", go: "v1.DeviceClaimConfiguration", shape: Struct, atomic: false, published: true, range: (1930, 2) },
    Type { name: "io.k8s.api.resource.v1.DeviceClass", go: "v1.DeviceClass", shape: Struct, atomic: false, published: true, range: (1932, 3) },
    Type { name: "io.k8s.api.resource.v1.DeviceClassConfiguration", go: "v1.DeviceClassConfiguration", shape: Struct, atomic: false, published: true, range: (1935, 1) },
    Type { name: "io.k8s.api.resource.v1.DeviceClassList", go: "v1.DeviceClassList", shape: Struct, atomic: false, published: true, range: (1936, 3) },
    Type { name: "io.k8s.api.resource.v1.DeviceClassSpec", go: "v1.DeviceClassSpec", shape: Struct, atomic: false, published: true, range: (1939, 3) },
    Type { name: "io.k8s.api.resource.v1.DeviceConfiguration", go: "v1.DeviceConfiguration", shape: Struct, atomic: false, published: false, range: (1942, 1) },
    Type { name: "io.k8s.api.resource.v1.DeviceConstraint", go: "v1.DeviceConstraint", shape: Struct, atomic: false, published: true, range: (1943, 3) },
    Type { name: "io.k8s.api.resource.v1.DeviceCounterConsumption", go: "v1.DeviceCounterConsumption", shape: Struct, atomic: false, published: true, range: (1946, 2) },
    Type { name: "io.k8s.api.resource.v1.DeviceRequest", go: "v1.DeviceRequest", shape: Struct, atomic: false, published: true, range: (1948, 3) },
    Type { name: "io.k8s.api.resource.v1.DeviceRequestAllocationResult", go: "v1.DeviceRequestAllocationResult", shape: Struct, atomic: false, published: true, range: (1951, 10) },
    Type { name: "io.k8s.api.resource.v1.DeviceSelector", go: "v1.DeviceSelector", shape: Struct, atomic: false, published: true, range: (1961, 1) },
    Type { name: "io.k8s.api.resource.v1.DeviceSubRequest", go: "v1.DeviceSubRequest", shape: Struct, atomic: false, published: true, range: (1962, 7) },
    Type { name: "io.k8s.api.resource.v1.DeviceTaint", go: "v1.DeviceTaint", shape: Struct, atomic: false, published: true, range: (1969, 4) },
    Type { name: "io.k8s.api.resource.v1.DeviceToleration", go: "v1.DeviceToleration", shape: Struct, atomic: false, published: true, range: (1973, 5) },
    Type { name: "io.k8s.api.resource.v1.ExactDeviceRequest", go: "v1.ExactDeviceRequest", shape: Struct, atomic: false, published: true, range: (1978, 7) },
    Type { name: "io.k8s.api.resource.v1.NetworkDeviceData", go: "v1.NetworkDeviceData", shape: Struct, atomic: false, published: true, range: (1985, 3) },
    Type { name: "io.k8s.api.resource.v1.NodeAllocatableResourceMapping", go: "v1.NodeAllocatableResourceMapping", shape: Struct, atomic: false, published: true, range: (1988, 2) },
    Type { name: "io.k8s.api.resource.v1.OpaqueDeviceConfiguration", go: "v1.OpaqueDeviceConfiguration", shape: Struct, atomic: false, published: true, range: (1990, 2) },
    Type { name: "io.k8s.api.resource.v1.ResourceClaim", go: "v1.ResourceClaim", shape: Struct, atomic: false, published: true, range: (1992, 4) },
    Type { name: "io.k8s.api.resource.v1.ResourceClaimConsumerReference", go: "v1.ResourceClaimConsumerReference", shape: Struct, atomic: false, published: true, range: (1996, 4) },
    Type { name: "io.k8s.api.resource.v1.ResourceClaimList", go: "v1.ResourceClaimList", shape: Struct, atomic: false, published: true, range: (2000, 3) },
    Type { name: "io.k8s.api.resource.v1.ResourceClaimSpec", go: "v1.ResourceClaimSpec", shape: Struct, atomic: false, published: true, range: (2003, 1) },
    Type { name: "io.k8s.api.resource.v1.ResourceClaimStatus", go: "v1.ResourceClaimStatus", shape: Struct, atomic: false, published: true, range: (2004, 3) },
    Type { name: "io.k8s.api.resource.v1.ResourceClaimTemplate", go: "v1.ResourceClaimTemplate", shape: Struct, atomic: false, published: true, range: (2007, 3) },
    Type { name: "io.k8s.api.resource.v1.ResourceClaimTemplateList", go: "v1.ResourceClaimTemplateList", shape: Struct, atomic: false, published: true, range: (2010, 3) },
    Type { name: "io.k8s.api.resource.v1.ResourceClaimTemplateSpec", go: "v1.ResourceClaimTemplateSpec", shape: Struct, atomic: false, published: true, range: (2013, 2) },
    Type { name: "io.k8s.api.resource.v1.ResourcePool", go: "v1.ResourcePool", shape: Struct, atomic: false, published: true, range: (2015, 3) },
    Type { name: "io.k8s.api.resource.v1.ResourceSlice", go: "v1.ResourceSlice", shape: Struct, atomic: false, published: true, range: (2018, 3) },
    Type { name: "io.k8s.api.resource.v1.ResourceSliceList", go: "v1.ResourceSliceList", shape: Struct, atomic: false, published: true, range: (2021, 3) },
    Type { name: "io.k8s.api.resource.v1.ResourceSliceSpec", go: "v1.ResourceSliceSpec", shape: Struct, atomic: false, published: true, range: (2024, 8) },
    Type { name: "io.k8s.api.scheduling.v1.PriorityClass", go: "v1.PriorityClass", shape: Struct, atomic: false, published: true, range: (2032, 6) },
    Type { name: "io.k8s.api.scheduling.v1.PriorityClassList", go: "v1.PriorityClassList", shape: Struct, atomic: false, published: true, range: (2038, 3) },
    Type { name: "io.k8s.api.storage.v1.CSIDriver", go: "v1.CSIDriver", shape: Struct, atomic: false, published: true, range: (2041, 3) },
    Type { name: "io.k8s.api.storage.v1.CSIDriverList", go: "v1.CSIDriverList", shape: Struct, atomic: false, published: true, range: (2044, 3) },
    Type { name: "io.k8s.api.storage.v1.CSIDriverSpec", go: "v1.CSIDriverSpec", shape: Struct, atomic: false, published: true, range: (2047, 11) },
    Type { name: "io.k8s.api.storage.v1.CSINode", go: "v1.CSINode", shape: Struct, atomic: false, published: true, range: (2058, 3) },
    Type { name: "io.k8s.api.storage.v1.CSINodeDriver", go: "v1.CSINodeDriver", shape: Struct, atomic: false, published: true, range: (2061, 4) },
    Type { name: "io.k8s.api.storage.v1.CSINodeList", go: "v1.CSINodeList", shape: Struct, atomic: false, published: true, range: (2065, 3) },
    Type { name: "io.k8s.api.storage.v1.CSINodeSpec", go: "v1.CSINodeSpec", shape: Struct, atomic: false, published: true, range: (2068, 1) },
    Type { name: "io.k8s.api.storage.v1.CSIStorageCapacity", go: "v1.CSIStorageCapacity", shape: Struct, atomic: false, published: true, range: (2069, 6) },
    Type { name: "io.k8s.api.storage.v1.CSIStorageCapacityList", go: "v1.CSIStorageCapacityList", shape: Struct, atomic: false, published: true, range: (2075, 3) },
    Type { name: "io.k8s.api.storage.v1.StorageClass", go: "v1.StorageClass", shape: Struct, atomic: false, published: true, range: (2078, 9) },
    Type { name: "io.k8s.api.storage.v1.StorageClassList", go: "v1.StorageClassList", shape: Struct, atomic: false, published: true, range: (2087, 3) },
    Type { name: "io.k8s.api.storage.v1.TokenRequest", go: "v1.TokenRequest", shape: Struct, atomic: false, published: true, range: (2090, 2) },
    Type { name: "io.k8s.api.storage.v1.VolumeAttachment", go: "v1.VolumeAttachment", shape: Struct, atomic: false, published: true, range: (2092, 4) },
    Type { name: "io.k8s.api.storage.v1.VolumeAttachmentList", go: "v1.VolumeAttachmentList", shape: Struct, atomic: false, published: true, range: (2096, 3) },
    Type { name: "io.k8s.api.storage.v1.VolumeAttachmentSource", go: "v1.VolumeAttachmentSource", shape: Struct, atomic: false, published: true, range: (2099, 2) },
    Type { name: "io.k8s.api.storage.v1.VolumeAttachmentSpec", go: "v1.VolumeAttachmentSpec", shape: Struct, atomic: false, published: true, range: (2101, 3) },
    Type { name: "io.k8s.api.storage.v1.VolumeAttachmentStatus", go: "v1.VolumeAttachmentStatus", shape: Struct, atomic: false, published: true, range: (2104, 4) },
    Type { name: "io.k8s.api.storage.v1.VolumeAttributesClass", go: "v1.VolumeAttributesClass", shape: Struct, atomic: false, published: true, range: (2108, 4) },
    Type { name: "io.k8s.api.storage.v1.VolumeAttributesClassList", go: "v1.VolumeAttributesClassList", shape: Struct, atomic: false, published: true, range: (2112, 3) },
    Type { name: "io.k8s.api.storage.v1.VolumeError", go: "v1.VolumeError", shape: Struct, atomic: false, published: true, range: (2115, 3) },
    Type { name: "io.k8s.api.storage.v1.VolumeNodeResources", go: "v1.VolumeNodeResources", shape: Struct, atomic: false, published: true, range: (2118, 1) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceColumnDefinition", go: "v1.CustomResourceColumnDefinition", shape: Struct, atomic: false, published: true, range: (2119, 6) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceConversion", go: "v1.CustomResourceConversion", shape: Struct, atomic: false, published: true, range: (2125, 2) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition", go: "v1.CustomResourceDefinition", shape: Struct, atomic: false, published: true, range: (2127, 4) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionCondition", go: "v1.CustomResourceDefinitionCondition", shape: Struct, atomic: false, published: true, range: (2131, 6) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionList", go: "v1.CustomResourceDefinitionList", shape: Struct, atomic: false, published: true, range: (2137, 3) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionNames", go: "v1.CustomResourceDefinitionNames", shape: Struct, atomic: false, published: true, range: (2140, 6) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec", go: "v1.CustomResourceDefinitionSpec", shape: Struct, atomic: false, published: true, range: (2146, 6) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus", go: "v1.CustomResourceDefinitionStatus", shape: Struct, atomic: false, published: true, range: (2152, 4) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionVersion", go: "v1.CustomResourceDefinitionVersion", shape: Struct, atomic: false, published: true, range: (2156, 9) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresourceScale", go: "v1.CustomResourceSubresourceScale", shape: Struct, atomic: false, published: true, range: (2165, 3) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresourceStatus", go: "v1.CustomResourceSubresourceStatus", shape: Struct, atomic: false, published: true, range: (2168, 0) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresources", go: "v1.CustomResourceSubresources", shape: Struct, atomic: false, published: true, range: (2168, 2) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceValidation", go: "v1.CustomResourceValidation", shape: Struct, atomic: false, published: true, range: (2170, 1) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ExternalDocumentation", go: "v1.ExternalDocumentation", shape: Struct, atomic: false, published: true, range: (2171, 2) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", go: "v1.JSON", shape: Any, atomic: false, published: true, range: (2173, 0) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps", go: "v1.JSONSchemaProps", shape: Struct, atomic: false, published: true, range: (2173, 44) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", go: "v1.JSONSchemaPropsOrArray", shape: SchemaOrArray, atomic: false, published: true, range: (2217, 0) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool", go: "v1.JSONSchemaPropsOrBool", shape: SchemaOrBool, atomic: false, published: true, range: (2217, 0) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray", go: "v1.JSONSchemaPropsOrStringArray", shape: SchemaOrTexts, atomic: false, published: true, range: (2217, 0) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.SelectableField", go: "v1.SelectableField", shape: Struct, atomic: false, published: true, range: (2217, 1) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ServiceReference", go: "v1.ServiceReference", shape: Struct, atomic: false, published: true, range: (2218, 4) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ValidationRule", go: "v1.ValidationRule", shape: Struct, atomic: false, published: true, range: (2222, 6) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.WebhookClientConfig", go: "v1.WebhookClientConfig", shape: Struct, atomic: false, published: true, range: (2228, 3) },
    Type { name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.WebhookConversion", go: "v1.WebhookConversion", shape: Struct, atomic: false, published: true, range: (2231, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup", go: "v1.APIGroup", shape: Struct, atomic: false, published: true, range: (2233, 5) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList", go: "v1.APIGroupList", shape: Struct, atomic: false, published: true, range: (2238, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.APIResource", go: "v1.APIResource", shape: Struct, atomic: false, published: true, range: (2240, 10) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList", go: "v1.APIResourceList", shape: Struct, atomic: false, published: true, range: (2250, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions", go: "v1.APIVersions", shape: Struct, atomic: false, published: true, range: (2253, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.Condition", go: "v1.Condition", shape: Struct, atomic: false, published: true, range: (2256, 6) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.CreateOptions", go: "v1.CreateOptions", shape: Struct, atomic: false, published: false, range: (2262, 4) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", go: "v1.DeleteOptions", shape: Struct, atomic: false, published: true, range: (2266, 7) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.FieldSelectorRequirement", go: "v1.FieldSelectorRequirement", shape: Struct, atomic: false, published: true, range: (2273, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", go: "v1.FieldsV1", shape: Any, atomic: false, published: true, range: (2276, 0) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.GetOptions", go: "v1.GetOptions", shape: Struct, atomic: false, published: false, range: (2276, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionForDiscovery", go: "v1.GroupVersionForDiscovery", shape: Struct, atomic: false, published: true, range: (2278, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionKind", go: "v1.GroupVersionKind", shape: Struct, atomic: false, published: false, range: (2280, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionResource", go: "v1.GroupVersionResource", shape: Struct, atomic: false, published: false, range: (2283, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", go: "v1.LabelSelector", shape: Struct, atomic: true, published: true, range: (2286, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement", go: "v1.LabelSelectorRequirement", shape: Struct, atomic: false, published: true, range: (2288, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.List", go: "v1.List", shape: Struct, atomic: false, published: false, range: (2291, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta", go: "v1.ListMeta", shape: Struct, atomic: false, published: true, range: (2294, 5) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.ListOptions", go: "v1.ListOptions", shape: Struct, atomic: false, published: false, range: (2299, 12) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry", go: "v1.ManagedFieldsEntry", shape: Struct, atomic: false, published: true, range: (2311, 7) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", go: "v1.ObjectMeta", shape: Struct, atomic: false, published: true, range: (2318, 15) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference", go: "v1.OwnerReference", shape: Struct, atomic: true, published: true, range: (2333, 6) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata", go: "v1.PartialObjectMetadata", shape: Struct, atomic: false, published: false, range: (2339, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList", go: "v1.PartialObjectMetadataList", shape: Struct, atomic: false, published: false, range: (2341, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.Patch", go: "v1.Patch", shape: Any, atomic: false, published: true, range: (2344, 0) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.PatchOptions", go: "v1.PatchOptions", shape: Struct, atomic: false, published: false, range: (2344, 5) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.Preconditions", go: "v1.Preconditions", shape: Struct, atomic: false, published: true, range: (2349, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.ServerAddressByClientCIDR", go: "v1.ServerAddressByClientCIDR", shape: Struct, atomic: false, published: true, range: (2351, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.ShardInfo", go: "v1.ShardInfo", shape: Struct, atomic: false, published: true, range: (2353, 1) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.Status", go: "v1.Status", shape: Struct, atomic: false, published: true, range: (2354, 7) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.StatusCause", go: "v1.StatusCause", shape: Struct, atomic: false, published: true, range: (2361, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.StatusDetails", go: "v1.StatusDetails", shape: Struct, atomic: false, published: true, range: (2364, 6) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.Table", go: "v1.Table", shape: Struct, atomic: false, published: false, range: (2370, 4) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.TableColumnDefinition", go: "v1.TableColumnDefinition", shape: Struct, atomic: false, published: false, range: (2374, 5) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.TableRow", go: "v1.TableRow", shape: Struct, atomic: false, published: false, range: (2379, 3) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.TableRowCondition", go: "v1.TableRowCondition", shape: Struct, atomic: false, published: false, range: (2382, 4) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.TypeMeta", go: "v1.TypeMeta", shape: Struct, atomic: false, published: false, range: (2386, 2) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.UpdateOptions", go: "v1.UpdateOptions", shape: Struct, atomic: false, published: false, range: (2388, 4) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.Verbs", go: "v1.Verbs", shape: Texts, atomic: false, published: false, range: (2392, 0) },
    Type { name: "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent", go: "v1.WatchEvent", shape: Struct, atomic: false, published: true, range: (2392, 2) },
    Type { name: "io.k8s.apimachinery.pkg.runtime.RawExtension", go: "runtime.RawExtension", shape: Any, atomic: false, published: true, range: (2394, 0) },
    Type { name: "io.k8s.apimachinery.pkg.version.Info", go: "version.Info", shape: Struct, atomic: false, published: true, range: (2394, 13) },
    Type { name: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService", go: "v1.APIService", shape: Struct, atomic: false, published: true, range: (2407, 4) },
    Type { name: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceCondition", go: "v1.APIServiceCondition", shape: Struct, atomic: false, published: true, range: (2411, 5) },
    Type { name: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceList", go: "v1.APIServiceList", shape: Struct, atomic: false, published: true, range: (2416, 3) },
    Type { name: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceSpec", go: "v1.APIServiceSpec", shape: Struct, atomic: false, published: true, range: (2419, 7) },
    Type { name: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceStatus", go: "v1.APIServiceStatus", shape: Struct, atomic: false, published: true, range: (2426, 1) },
    Type { name: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference", go: "v1.ServiceReference", shape: Struct, atomic: false, published: true, range: (2427, 3) },
];

/// Types of fields.
pub(crate) static REFS: &[TypeRef; 554] = &[
    TypeRef::String,
    TypeRef::Object(TypeId(580)),
    TypeRef::Object(TypeId(581)),
    TypeRef::Object(TypeId(79)),
    TypeRef::Object(TypeId(608)),
    TypeRef::Bool,
    TypeRef::Object(TypeId(597)),
    TypeRef::Bytes,
    TypeRef::Map(&TypeRef::String),
    TypeRef::List(&TypeRef::String),
    TypeRef::Object(TypeId(604)),
    TypeRef::Object(TypeId(0)),
    TypeRef::Object(TypeId(1)),
    TypeRef::Object(TypeId(582)),
    TypeRef::List(&TypeRef::Object(TypeId(19))),
    TypeRef::Object(TypeId(588)),
    TypeRef::Object(TypeId(14)),
    TypeRef::Object(TypeId(12)),
    TypeRef::Object(TypeId(585)),
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
    TypeRef::List(&TypeRef::Object(TypeId(573))),
    TypeRef::List(&TypeRef::Object(TypeId(33))),
    TypeRef::List(&TypeRef::Object(TypeId(34))),
    TypeRef::Object(TypeId(24)),
    TypeRef::List(&TypeRef::Object(TypeId(39))),
    TypeRef::Object(TypeId(44)),
    TypeRef::Object(TypeId(45)),
    TypeRef::Time,
    TypeRef::List(&TypeRef::Object(TypeId(41))),
    TypeRef::Object(TypeId(314)),
    TypeRef::Object(TypeId(46)),
    TypeRef::List(&TypeRef::Object(TypeId(42))),
    TypeRef::Object(TypeId(58)),
    TypeRef::Object(TypeId(50)),
    TypeRef::Object(TypeId(51)),
    TypeRef::List(&TypeRef::Object(TypeId(47))),
    TypeRef::Object(TypeId(52)),
    TypeRef::List(&TypeRef::Object(TypeId(48))),
    TypeRef::Object(TypeId(59)),
    TypeRef::Object(TypeId(56)),
    TypeRef::Object(TypeId(57)),
    TypeRef::List(&TypeRef::Object(TypeId(53))),
    TypeRef::List(&TypeRef::Object(TypeId(54))),
    TypeRef::IntOrString,
    TypeRef::Object(TypeId(66)),
    TypeRef::Object(TypeId(67)),
    TypeRef::List(&TypeRef::Object(TypeId(61))),
    TypeRef::List(&TypeRef::Object(TypeId(276))),
    TypeRef::Object(TypeId(68)),
    TypeRef::Object(TypeId(65)),
    TypeRef::Object(TypeId(64)),
    TypeRef::List(&TypeRef::Object(TypeId(62))),
    TypeRef::Object(TypeId(60)),
    TypeRef::Object(TypeId(72)),
    TypeRef::Object(TypeId(74)),
    TypeRef::Object(TypeId(75)),
    TypeRef::Object(TypeId(69)),
    TypeRef::Object(TypeId(77)),
    TypeRef::Object(TypeId(78)),
    TypeRef::Map(&TypeRef::Object(TypeId(70))),
    TypeRef::List(&TypeRef::Object(TypeId(576))),
    TypeRef::List(&TypeRef::Object(TypeId(583))),
    TypeRef::Object(TypeId(93)),
    TypeRef::Object(TypeId(94)),
    TypeRef::Object(TypeId(81)),
    TypeRef::Object(TypeId(82)),
    TypeRef::Object(TypeId(89)),
    TypeRef::Object(TypeId(86)),
    TypeRef::Object(TypeId(84)),
    TypeRef::Object(TypeId(91)),
    TypeRef::Object(TypeId(95)),
    TypeRef::Map(&TypeRef::Object(TypeId(80))),
    TypeRef::List(&TypeRef::Object(TypeId(87))),
    TypeRef::List(&TypeRef::Object(TypeId(85))),
    TypeRef::Object(TypeId(99)),
    TypeRef::Object(TypeId(100)),
    TypeRef::List(&TypeRef::Object(TypeId(97))),
    TypeRef::Object(TypeId(96)),
    TypeRef::Object(TypeId(102)),
    TypeRef::Object(TypeId(103)),
    TypeRef::Object(TypeId(120)),
    TypeRef::Object(TypeId(121)),
    TypeRef::Object(TypeId(117)),
    TypeRef::List(&TypeRef::Object(TypeId(109))),
    TypeRef::Quantity,
    TypeRef::Object(TypeId(115)),
    TypeRef::Object(TypeId(116)),
    TypeRef::Object(TypeId(110)),
    TypeRef::List(&TypeRef::Object(TypeId(111))),
    TypeRef::Object(TypeId(106)),
    TypeRef::List(&TypeRef::Object(TypeId(118))),
    TypeRef::Object(TypeId(112)),
    TypeRef::List(&TypeRef::Object(TypeId(119))),
    TypeRef::List(&TypeRef::Object(TypeId(113))),
    TypeRef::Object(TypeId(122)),
    TypeRef::Object(TypeId(124)),
    TypeRef::Object(TypeId(126)),
    TypeRef::Object(TypeId(104)),
    TypeRef::Object(TypeId(107)),
    TypeRef::Object(TypeId(123)),
    TypeRef::Object(TypeId(125)),
    TypeRef::Object(TypeId(127)),
    TypeRef::Object(TypeId(105)),
    TypeRef::Object(TypeId(108)),
    TypeRef::Object(TypeId(130)),
    TypeRef::Object(TypeId(131)),
    TypeRef::List(&TypeRef::Object(TypeId(128))),
    TypeRef::Object(TypeId(137)),
    TypeRef::List(&TypeRef::Object(TypeId(274))),
    TypeRef::Object(TypeId(135)),
    TypeRef::Object(TypeId(136)),
    TypeRef::List(&TypeRef::Object(TypeId(132))),
    TypeRef::Object(TypeId(138)),
    TypeRef::Object(TypeId(142)),
    TypeRef::List(&TypeRef::Object(TypeId(133))),
    TypeRef::Object(TypeId(144)),
    TypeRef::List(&TypeRef::Object(TypeId(141))),
    TypeRef::List(&TypeRef::Int32),
    TypeRef::Object(TypeId(139)),
    TypeRef::List(&TypeRef::Object(TypeId(140))),
    TypeRef::List(&TypeRef::Object(TypeId(143))),
    TypeRef::Object(TypeId(148)),
    TypeRef::Object(TypeId(149)),
    TypeRef::List(&TypeRef::Object(TypeId(145))),
    TypeRef::Map(&TypeRef::Object(TypeId(150))),
    TypeRef::List(&TypeRef::Object(TypeId(146))),
    TypeRef::Object(TypeId(153)),
    TypeRef::List(&TypeRef::Object(TypeId(151))),
    TypeRef::MicroTime,
    TypeRef::Object(TypeId(255)),
    TypeRef::Object(TypeId(289)),
    TypeRef::Object(TypeId(291)),
    TypeRef::Object(TypeId(274)),
    TypeRef::Object(TypeId(349)),
    TypeRef::Object(TypeId(244)),
    TypeRef::List(&TypeRef::Object(TypeId(171))),
    TypeRef::List(&TypeRef::Object(TypeId(172))),
    TypeRef::Map(&TypeRef::Bytes),
    TypeRef::List(&TypeRef::Object(TypeId(174))),
    TypeRef::List(&TypeRef::Object(TypeId(234))),
    TypeRef::List(&TypeRef::Object(TypeId(184))),
    TypeRef::List(&TypeRef::Object(TypeId(204))),
    TypeRef::List(&TypeRef::Object(TypeId(205))),
    TypeRef::Object(TypeId(336)),
    TypeRef::List(&TypeRef::Object(TypeId(185))),
    TypeRef::List(&TypeRef::Object(TypeId(186))),
    TypeRef::List(&TypeRef::Object(TypeId(377))),
    TypeRef::List(&TypeRef::Object(TypeId(376))),
    TypeRef::Object(TypeId(318)),
    TypeRef::Object(TypeId(235)),
    TypeRef::Object(TypeId(351)),
    TypeRef::Object(TypeId(187)),
    TypeRef::Object(TypeId(191)),
    TypeRef::Object(TypeId(189)),
    TypeRef::Object(TypeId(190)),
    TypeRef::Object(TypeId(188)),
    TypeRef::Map(&TypeRef::Quantity),
    TypeRef::List(&TypeRef::Object(TypeId(378))),
    TypeRef::Object(TypeId(193)),
    TypeRef::List(&TypeRef::Object(TypeId(337))),
    TypeRef::Object(TypeId(241)),
    TypeRef::List(&TypeRef::Object(TypeId(196))),
    TypeRef::Object(TypeId(273)),
    TypeRef::Object(TypeId(330)),
    TypeRef::List(&TypeRef::Object(TypeId(199))),
    TypeRef::List(&TypeRef::Object(TypeId(200))),
    TypeRef::List(&TypeRef::Object(TypeId(201))),
    TypeRef::List(&TypeRef::Object(TypeId(202))),
    TypeRef::Object(TypeId(175)),
    TypeRef::Object(TypeId(345)),
    TypeRef::Object(TypeId(206)),
    TypeRef::Object(TypeId(176)),
    TypeRef::Object(TypeId(346)),
    TypeRef::Object(TypeId(216)),
    TypeRef::Object(TypeId(208)),
    TypeRef::Object(TypeId(281)),
    TypeRef::Object(TypeId(213)),
    TypeRef::Object(TypeId(212)),
    TypeRef::List(&TypeRef::Object(TypeId(210))),
    TypeRef::List(&TypeRef::Object(TypeId(226))),
    TypeRef::Object(TypeId(236)),
    TypeRef::Object(TypeId(214)),
    TypeRef::Object(TypeId(225)),
    TypeRef::Object(TypeId(367)),
    TypeRef::Object(TypeId(363)),
    TypeRef::Object(TypeId(240)),
    TypeRef::List(&TypeRef::Object(TypeId(237))),
    TypeRef::List(&TypeRef::Object(TypeId(238))),
    TypeRef::List(&TypeRef::Int64),
    TypeRef::List(&TypeRef::Object(TypeId(315))),
    TypeRef::List(&TypeRef::Object(TypeId(242))),
    TypeRef::Object(TypeId(251)),
    TypeRef::Object(TypeId(252)),
    TypeRef::List(&TypeRef::Object(TypeId(248))),
    TypeRef::List(&TypeRef::Object(TypeId(249))),
    TypeRef::Object(TypeId(269)),
    TypeRef::Object(TypeId(270)),
    TypeRef::Object(TypeId(266)),
    TypeRef::List(&TypeRef::Object(TypeId(317))),
    TypeRef::Object(TypeId(178)),
    TypeRef::Object(TypeId(258)),
    TypeRef::Object(TypeId(194)),
    TypeRef::List(&TypeRef::Object(TypeId(253))),
    TypeRef::Object(TypeId(265)),
    TypeRef::List(&TypeRef::Object(TypeId(268))),
    TypeRef::List(&TypeRef::Object(TypeId(267))),
    TypeRef::List(&TypeRef::Object(TypeId(368))),
    TypeRef::List(&TypeRef::Object(TypeId(257))),
    TypeRef::List(&TypeRef::Object(TypeId(254))),
    TypeRef::Object(TypeId(260)),
    TypeRef::Object(TypeId(272)),
    TypeRef::List(&TypeRef::Object(TypeId(183))),
    TypeRef::List(&TypeRef::Object(TypeId(157))),
    TypeRef::Object(TypeId(259)),
    TypeRef::List(&TypeRef::Object(TypeId(264))),
    TypeRef::Object(TypeId(261)),
    TypeRef::Object(TypeId(271)),
    TypeRef::Object(TypeId(285)),
    TypeRef::Object(TypeId(286)),
    TypeRef::Object(TypeId(279)),
    TypeRef::Object(TypeId(280)),
    TypeRef::Object(TypeId(381)),
    TypeRef::Object(TypeId(373)),
    TypeRef::Object(TypeId(374)),
    TypeRef::List(&TypeRef::Object(TypeId(277))),
    TypeRef::Object(TypeId(246)),
    TypeRef::List(&TypeRef::Object(TypeId(275))),
    TypeRef::Object(TypeId(220)),
    TypeRef::Object(TypeId(154)),
    TypeRef::Object(TypeId(229)),
    TypeRef::Object(TypeId(223)),
    TypeRef::Object(TypeId(247)),
    TypeRef::Object(TypeId(322)),
    TypeRef::Object(TypeId(230)),
    TypeRef::Object(TypeId(167)),
    TypeRef::Object(TypeId(165)),
    TypeRef::Object(TypeId(215)),
    TypeRef::Object(TypeId(219)),
    TypeRef::Object(TypeId(217)),
    TypeRef::Object(TypeId(159)),
    TypeRef::Object(TypeId(384)),
    TypeRef::Object(TypeId(321)),
    TypeRef::Object(TypeId(158)),
    TypeRef::Object(TypeId(287)),
    TypeRef::Object(TypeId(316)),
    TypeRef::Object(TypeId(339)),
    TypeRef::Object(TypeId(245)),
    TypeRef::Object(TypeId(364)),
    TypeRef::Object(TypeId(162)),
    TypeRef::Object(TypeId(284)),
    TypeRef::Object(TypeId(379)),
    TypeRef::Object(TypeId(310)),
    TypeRef::Object(TypeId(311)),
    TypeRef::List(&TypeRef::Object(TypeId(290))),
    TypeRef::List(&TypeRef::Object(TypeId(385))),
    TypeRef::List(&TypeRef::Object(TypeId(296))),
    TypeRef::List(&TypeRef::Object(TypeId(182))),
    TypeRef::List(&TypeRef::Object(TypeId(288))),
    TypeRef::Object(TypeId(338)),
    TypeRef::Object(TypeId(386)),
    TypeRef::List(&TypeRef::Object(TypeId(366))),
    TypeRef::Object(TypeId(343)),
    TypeRef::Object(TypeId(156)),
    TypeRef::List(&TypeRef::Object(TypeId(375))),
    TypeRef::List(&TypeRef::Object(TypeId(181))),
    TypeRef::List(&TypeRef::Object(TypeId(207))),
    TypeRef::Object(TypeId(309)),
    TypeRef::List(&TypeRef::Object(TypeId(244))),
    TypeRef::Object(TypeId(155)),
    TypeRef::List(&TypeRef::Object(TypeId(369))),
    TypeRef::List(&TypeRef::Object(TypeId(227))),
    TypeRef::Object(TypeId(295)),
    TypeRef::List(&TypeRef::Object(TypeId(304))),
    TypeRef::List(&TypeRef::Object(TypeId(372))),
    TypeRef::Object(TypeId(301)),
    TypeRef::List(&TypeRef::Object(TypeId(307))),
    TypeRef::List(&TypeRef::Object(TypeId(305))),
    TypeRef::Object(TypeId(308)),
    TypeRef::List(&TypeRef::Object(TypeId(294))),
    TypeRef::List(&TypeRef::Object(TypeId(228))),
    TypeRef::List(&TypeRef::Object(TypeId(299))),
    TypeRef::List(&TypeRef::Object(TypeId(192))),
    TypeRef::List(&TypeRef::Object(TypeId(306))),
    TypeRef::Object(TypeId(298)),
    TypeRef::List(&TypeRef::Object(TypeId(256))),
    TypeRef::List(&TypeRef::Object(TypeId(312))),
    TypeRef::Object(TypeId(268)),
    TypeRef::Object(TypeId(319)),
    TypeRef::Object(TypeId(221)),
    TypeRef::List(&TypeRef::Object(TypeId(380))),
    TypeRef::Object(TypeId(327)),
    TypeRef::Object(TypeId(328)),
    TypeRef::List(&TypeRef::Object(TypeId(324))),
    TypeRef::List(&TypeRef::Object(TypeId(325))),
    TypeRef::Object(TypeId(334)),
    TypeRef::Object(TypeId(335)),
    TypeRef::List(&TypeRef::Object(TypeId(332))),
    TypeRef::Object(TypeId(341)),
    TypeRef::List(&TypeRef::Object(TypeId(329))),
    TypeRef::List(&TypeRef::Object(TypeId(331))),
    TypeRef::List(&TypeRef::Object(TypeId(342))),
    TypeRef::List(&TypeRef::Object(TypeId(344))),
    TypeRef::Object(TypeId(164)),
    TypeRef::Object(TypeId(360)),
    TypeRef::Object(TypeId(361)),
    TypeRef::List(&TypeRef::Object(TypeId(354))),
    TypeRef::List(&TypeRef::Object(TypeId(353))),
    TypeRef::List(&TypeRef::Object(TypeId(358))),
    TypeRef::Object(TypeId(362)),
    TypeRef::Object(TypeId(243)),
    TypeRef::Object(TypeId(169)),
    TypeRef::List(&TypeRef::Object(TypeId(370))),
    TypeRef::Object(TypeId(382)),
    TypeRef::Object(TypeId(383)),
    TypeRef::Object(TypeId(348)),
    TypeRef::Object(TypeId(195)),
    TypeRef::Object(TypeId(179)),
    TypeRef::Object(TypeId(356)),
    TypeRef::Object(TypeId(170)),
    TypeRef::Object(TypeId(293)),
    TypeRef::Object(TypeId(198)),
    TypeRef::Object(TypeId(222)),
    TypeRef::Object(TypeId(350)),
    TypeRef::Object(TypeId(231)),
    TypeRef::Object(TypeId(224)),
    TypeRef::Object(TypeId(282)),
    TypeRef::Object(TypeId(323)),
    TypeRef::Object(TypeId(218)),
    TypeRef::Object(TypeId(168)),
    TypeRef::Object(TypeId(166)),
    TypeRef::Object(TypeId(197)),
    TypeRef::Object(TypeId(160)),
    TypeRef::Object(TypeId(180)),
    TypeRef::Object(TypeId(320)),
    TypeRef::Object(TypeId(340)),
    TypeRef::Object(TypeId(365)),
    TypeRef::Object(TypeId(163)),
    TypeRef::Object(TypeId(209)),
    TypeRef::Object(TypeId(232)),
    TypeRef::Object(TypeId(233)),
    TypeRef::Object(TypeId(290)),
    TypeRef::Object(TypeId(388)),
    TypeRef::Object(TypeId(389)),
    TypeRef::List(&TypeRef::Object(TypeId(394))),
    TypeRef::List(&TypeRef::Object(TypeId(393))),
    TypeRef::List(&TypeRef::Object(TypeId(387))),
    TypeRef::List(&TypeRef::Object(TypeId(390))),
    TypeRef::List(&TypeRef::Object(TypeId(391))),
    TypeRef::Object(TypeId(397)),
    TypeRef::List(&TypeRef::Object(TypeId(395))),
    TypeRef::Object(TypeId(403)),
    TypeRef::Object(TypeId(404)),
    TypeRef::List(&TypeRef::Object(TypeId(400))),
    TypeRef::Object(TypeId(413)),
    TypeRef::Object(TypeId(399)),
    TypeRef::List(&TypeRef::Object(TypeId(409))),
    TypeRef::List(&TypeRef::Object(TypeId(401))),
    TypeRef::Object(TypeId(416)),
    TypeRef::Object(TypeId(406)),
    TypeRef::List(&TypeRef::Object(TypeId(419))),
    TypeRef::List(&TypeRef::Object(TypeId(417))),
    TypeRef::List(&TypeRef::Object(TypeId(408))),
    TypeRef::Object(TypeId(414)),
    TypeRef::Object(TypeId(415)),
    TypeRef::List(&TypeRef::Object(TypeId(410))),
    TypeRef::Object(TypeId(407)),
    TypeRef::Object(TypeId(398)),
    TypeRef::List(&TypeRef::Object(TypeId(411))),
    TypeRef::Object(TypeId(420)),
    TypeRef::Object(TypeId(405)),
    TypeRef::Object(TypeId(418)),
    TypeRef::Object(TypeId(428)),
    TypeRef::List(&TypeRef::Object(TypeId(421))),
    TypeRef::Object(TypeId(425)),
    TypeRef::List(&TypeRef::Object(TypeId(423))),
    TypeRef::Object(TypeId(450)),
    TypeRef::Object(TypeId(440)),
    TypeRef::Object(TypeId(441)),
    TypeRef::Object(TypeId(439)),
    TypeRef::Object(TypeId(432)),
    TypeRef::List(&TypeRef::Object(TypeId(429))),
    TypeRef::Object(TypeId(431)),
    TypeRef::List(&TypeRef::Object(TypeId(427))),
    TypeRef::List(&TypeRef::Object(TypeId(436))),
    TypeRef::List(&TypeRef::Object(TypeId(434))),
    TypeRef::Object(TypeId(438)),
    TypeRef::Object(TypeId(422)),
    TypeRef::Object(TypeId(451)),
    TypeRef::List(&TypeRef::Object(TypeId(442))),
    TypeRef::List(&TypeRef::Object(TypeId(437))),
    TypeRef::Object(TypeId(435)),
    TypeRef::Object(TypeId(449)),
    TypeRef::List(&TypeRef::Object(TypeId(448))),
    TypeRef::List(&TypeRef::Object(TypeId(447))),
    TypeRef::List(&TypeRef::Object(TypeId(443))),
    TypeRef::Object(TypeId(426)),
    TypeRef::List(&TypeRef::Object(TypeId(445))),
    TypeRef::List(&TypeRef::Object(TypeId(444))),
    TypeRef::Object(TypeId(454)),
    TypeRef::Object(TypeId(455)),
    TypeRef::List(&TypeRef::Object(TypeId(452))),
    TypeRef::Object(TypeId(456)),
    TypeRef::Object(TypeId(459)),
    TypeRef::List(&TypeRef::Object(TypeId(457))),
    TypeRef::Object(TypeId(575)),
    TypeRef::Object(TypeId(463)),
    TypeRef::Object(TypeId(464)),
    TypeRef::List(&TypeRef::Object(TypeId(461))),
    TypeRef::Map(&TypeRef::Time),
    TypeRef::List(&TypeRef::Object(TypeId(582))),
    TypeRef::List(&TypeRef::Object(TypeId(470))),
    TypeRef::Object(TypeId(465)),
    TypeRef::List(&TypeRef::Object(TypeId(476))),
    TypeRef::Object(TypeId(475)),
    TypeRef::List(&TypeRef::Object(TypeId(467))),
    TypeRef::List(&TypeRef::Object(TypeId(466))),
    TypeRef::List(&TypeRef::Object(TypeId(472))),
    TypeRef::List(&TypeRef::Object(TypeId(471))),
    TypeRef::Object(TypeId(506)),
    TypeRef::Object(TypeId(487)),
    TypeRef::List(&TypeRef::Quantity),
    TypeRef::Object(TypeId(481)),
    TypeRef::Map(&TypeRef::Object(TypeId(483))),
    TypeRef::Map(&TypeRef::Object(TypeId(488))),
    TypeRef::Map(&TypeRef::Object(TypeId(489))),
    TypeRef::List(&TypeRef::Object(TypeId(498))),
    TypeRef::List(&TypeRef::Object(TypeId(503))),
    TypeRef::Map(&TypeRef::Object(TypeId(507))),
    TypeRef::Object(TypeId(496)),
    TypeRef::List(&TypeRef::Object(TypeId(500))),
    TypeRef::List(&TypeRef::Object(TypeId(486))),
    TypeRef::List(&TypeRef::Bool),
    TypeRef::Object(TypeId(480)),
    TypeRef::List(&TypeRef::Object(TypeId(499))),
    TypeRef::List(&TypeRef::Object(TypeId(497))),
    TypeRef::List(&TypeRef::Object(TypeId(491))),
    TypeRef::Object(TypeId(495)),
    TypeRef::List(&TypeRef::Object(TypeId(492))),
    TypeRef::List(&TypeRef::Object(TypeId(501))),
    TypeRef::List(&TypeRef::Object(TypeId(493))),
    TypeRef::Object(TypeId(508)),
    TypeRef::Object(TypeId(505)),
    TypeRef::List(&TypeRef::Object(TypeId(502))),
    TypeRef::List(&TypeRef::Object(TypeId(504))),
    TypeRef::Object(TypeId(479)),
    TypeRef::Object(TypeId(482)),
    TypeRef::Object(TypeId(512)),
    TypeRef::Object(TypeId(513)),
    TypeRef::List(&TypeRef::Object(TypeId(509))),
    TypeRef::Object(TypeId(490)),
    TypeRef::Object(TypeId(478)),
    TypeRef::List(&TypeRef::Object(TypeId(510))),
    TypeRef::List(&TypeRef::Object(TypeId(477))),
    TypeRef::Object(TypeId(516)),
    TypeRef::List(&TypeRef::Object(TypeId(514))),
    TypeRef::Object(TypeId(520)),
    TypeRef::List(&TypeRef::Object(TypeId(518))),
    TypeRef::Object(TypeId(517)),
    TypeRef::List(&TypeRef::Object(TypeId(485))),
    TypeRef::List(&TypeRef::Object(TypeId(484))),
    TypeRef::List(&TypeRef::Object(TypeId(521))),
    TypeRef::Object(TypeId(525)),
    TypeRef::List(&TypeRef::Object(TypeId(523))),
    TypeRef::List(&TypeRef::Object(TypeId(534))),
    TypeRef::Object(TypeId(529)),
    TypeRef::Object(TypeId(543)),
    TypeRef::List(&TypeRef::Object(TypeId(526))),
    TypeRef::List(&TypeRef::Object(TypeId(527))),
    TypeRef::List(&TypeRef::Object(TypeId(530))),
    TypeRef::List(&TypeRef::Object(TypeId(371))),
    TypeRef::List(&TypeRef::Object(TypeId(532))),
    TypeRef::Object(TypeId(538)),
    TypeRef::Object(TypeId(539)),
    TypeRef::List(&TypeRef::Object(TypeId(535))),
    TypeRef::Object(TypeId(537)),
    TypeRef::Object(TypeId(542)),
    TypeRef::List(&TypeRef::Object(TypeId(540))),
    TypeRef::Object(TypeId(567)),
    TypeRef::Object(TypeId(550)),
    TypeRef::Object(TypeId(551)),
    TypeRef::List(&TypeRef::Object(TypeId(546))),
    TypeRef::Object(TypeId(549)),
    TypeRef::List(&TypeRef::Object(TypeId(552))),
    TypeRef::Object(TypeId(545)),
    TypeRef::List(&TypeRef::Object(TypeId(547))),
    TypeRef::Object(TypeId(556)),
    TypeRef::Object(TypeId(555)),
    TypeRef::List(&TypeRef::Object(TypeId(544))),
    TypeRef::List(&TypeRef::Object(TypeId(563))),
    TypeRef::Object(TypeId(554)),
    TypeRef::Object(TypeId(553)),
    TypeRef::Object(TypeId(559)),
    TypeRef::Object(TypeId(558)),
    TypeRef::Float,
    TypeRef::List(&TypeRef::Object(TypeId(558))),
    TypeRef::Object(TypeId(560)),
    TypeRef::List(&TypeRef::Object(TypeId(559))),
    TypeRef::Map(&TypeRef::Object(TypeId(559))),
    TypeRef::Object(TypeId(561)),
    TypeRef::Map(&TypeRef::Object(TypeId(562))),
    TypeRef::Object(TypeId(557)),
    TypeRef::List(&TypeRef::Object(TypeId(565))),
    TypeRef::Object(TypeId(564)),
    TypeRef::Object(TypeId(566)),
    TypeRef::List(&TypeRef::Object(TypeId(579))),
    TypeRef::Object(TypeId(579)),
    TypeRef::List(&TypeRef::Object(TypeId(595))),
    TypeRef::List(&TypeRef::Object(TypeId(568))),
    TypeRef::Object(TypeId(606)),
    TypeRef::List(&TypeRef::Object(TypeId(570))),
    TypeRef::Object(TypeId(594)),
    TypeRef::List(&TypeRef::Object(TypeId(608))),
    TypeRef::Object(TypeId(596)),
    TypeRef::Object(TypeId(577)),
    TypeRef::List(&TypeRef::Object(TypeId(589))),
    TypeRef::List(&TypeRef::Object(TypeId(587))),
    TypeRef::List(&TypeRef::Object(TypeId(590))),
    TypeRef::Object(TypeId(599)),
    TypeRef::List(&TypeRef::Object(TypeId(598))),
    TypeRef::List(&TypeRef::Object(TypeId(601))),
    TypeRef::List(&TypeRef::Object(TypeId(602))),
    TypeRef::List(&TypeRef::Any),
    TypeRef::List(&TypeRef::Object(TypeId(603))),
    TypeRef::Object(TypeId(613)),
    TypeRef::Object(TypeId(614)),
    TypeRef::List(&TypeRef::Object(TypeId(610))),
    TypeRef::Object(TypeId(615)),
    TypeRef::List(&TypeRef::Object(TypeId(611))),
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
pub(crate) static GO_TYPES: &[&str; 685] = &[
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
];

/// Fields, type by type: name, protobuf number, flags, type, merge, default, Go type.
pub(crate) static FIELDS: &[Field; 2430] = &[
    // io.k8s.api.admission.v1.AdmissionRequest
    f(878, 1, 0, 0, 0, 0, 1), // uid
    f(391, 2, 0, 1, 0, 0, 2), // kind
    f(679, 3, 0, 2, 0, 0, 3), // resource
    f(818, 4, 1, 0, 0, 0, 4), // subResource
    f(665, 13, 3, 1, 0, 0, 2), // requestKind
    f(669, 14, 3, 2, 0, 0, 3), // requestResource
    f(670, 15, 1, 0, 0, 0, 4), // requestSubResource
    f(494, 5, 1, 0, 0, 0, 4), // name
    f(497, 6, 1, 0, 0, 0, 4), // namespace
    f(544, 7, 0, 0, 0, 0, 5), // operation
    f(893, 8, 0, 3, 0, 0, 6), // userInfo
    f(534, 9, 1, 4, 0, 0, 7), // object
    f(537, 10, 1, 4, 0, 0, 7), // oldObject
    f(223, 11, 3, 5, 0, 0, 8), // dryRun
    f(549, 12, 1, 4, 0, 0, 7), // options
    // io.k8s.api.admission.v1.AdmissionResponse
    f(878, 1, 0, 0, 0, 0, 1), // uid
    f(35, 2, 0, 5, 0, 0, 8), // allowed
    f(794, 3, 3, 6, 0, 0, 9), // status
    f(563, 4, 1, 7, 0, 0, 10), // patch
    f(564, 5, 3, 0, 0, 0, 11), // patchType
    f(64, 6, 1, 8, 0, 0, 12), // auditAnnotations
    f(932, 7, 1, 9, 0, 0, 13), // warnings
    // io.k8s.api.admission.v1.AdmissionReview
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(664, 1, 3, 11, 0, 0, 15), // request
    f(694, 2, 3, 12, 0, 0, 16), // response
    // io.k8s.api.admissionregistration.v1.ApplyConfiguration
    f(258, 1, 1, 0, 0, 0, 4), // expression
    // io.k8s.api.admissionregistration.v1.AuditAnnotation
    f(387, 1, 8, 0, 0, 1, 4), // key
    f(901, 2, 8, 0, 0, 1, 4), // valueExpression
    // io.k8s.api.admissionregistration.v1.ExpressionWarning
    f(279, 2, 8, 0, 0, 1, 4), // fieldRef
    f(931, 3, 8, 0, 0, 1, 4), // warning
    // io.k8s.api.admissionregistration.v1.JSONPatch
    f(258, 1, 1, 0, 0, 0, 4), // expression
    // io.k8s.api.admissionregistration.v1.MatchCondition
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(258, 2, 8, 0, 0, 1, 4), // expression
    // io.k8s.api.admissionregistration.v1.MatchResources
    f(498, 1, 3, 13, 0, 0, 17), // namespaceSelector
    f(535, 2, 3, 13, 0, 0, 17), // objectSelector
    f(689, 3, 1, 14, 1, 0, 18), // resourceRules
    f(248, 4, 1, 14, 1, 0, 18), // excludeResourceRules
    f(450, 7, 3, 0, 0, 0, 19), // matchPolicy
    // io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 16, 0, 2, 21), // spec
    // io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 17, 0, 2, 22), // spec
    // io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBindingList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 19, 0, 0, 24), // items
    // io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBindingSpec
    f(602, 1, 1, 0, 0, 0, 4), // policyName
    f(558, 2, 3, 20, 0, 0, 25), // paramRef
    f(451, 3, 3, 21, 0, 0, 26), // matchResources
    // io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 22, 0, 0, 27), // items
    // io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicySpec
    f(557, 1, 3, 23, 0, 0, 28), // paramKind
    f(444, 2, 3, 21, 0, 0, 26), // matchConstraints
    f(904, 3, 1, 24, 1, 0, 29), // variables
    f(493, 4, 1, 25, 1, 0, 30), // mutations
    f(272, 5, 3, 0, 0, 0, 31), // failurePolicy
    f(443, 6, 1, 26, 2, 0, 32), // matchConditions
    f(655, 7, 1, 0, 0, 0, 33), // reinvocationPolicy
    // io.k8s.api.admissionregistration.v1.MutatingWebhook
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(112, 2, 8, 27, 0, 2, 34), // clientConfig
    f(707, 3, 1, 28, 1, 0, 35), // rules
    f(272, 4, 3, 0, 0, 0, 31), // failurePolicy
    f(450, 9, 3, 0, 0, 0, 19), // matchPolicy
    f(498, 5, 3, 13, 0, 0, 17), // namespaceSelector
    f(535, 11, 3, 13, 0, 0, 17), // objectSelector
    f(773, 6, 10, 0, 0, 0, 36), // sideEffects
    f(859, 7, 3, 29, 0, 0, 37), // timeoutSeconds
    f(17, 8, 8, 9, 1, 0, 13), // admissionReviewVersions
    f(655, 10, 3, 0, 0, 0, 33), // reinvocationPolicy
    f(443, 12, 1, 26, 2, 0, 32), // matchConditions
    // io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(935, 2, 1, 30, 2, 0, 38), // webhooks
    // io.k8s.api.admissionregistration.v1.MutatingWebhookConfigurationList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 31, 0, 0, 39), // items
    // io.k8s.api.admissionregistration.v1.Mutation
    f(564, 2, 8, 0, 0, 1, 11), // patchType
    f(52, 3, 3, 32, 0, 0, 40), // applyConfiguration
    f(383, 4, 3, 33, 0, 0, 41), // jsonPatch
    // io.k8s.api.admissionregistration.v1.NamedRuleWithOperations
    f(688, 1, 1, 9, 1, 0, 13), // resourceNames
    f(65535, 2, 4, 34, 0, 0, 42), // (inline)
    // io.k8s.api.admissionregistration.v1.ParamKind
    f(41, 1, 1, 0, 0, 0, 4), // apiVersion
    f(391, 2, 1, 0, 0, 0, 4), // kind
    // io.k8s.api.admissionregistration.v1.ParamRef
    f(494, 1, 1, 0, 0, 0, 4), // name
    f(497, 2, 1, 0, 0, 0, 4), // namespace
    f(747, 3, 3, 13, 0, 0, 17), // selector
    f(559, 4, 3, 0, 0, 0, 43), // parameterNotFoundAction
    // io.k8s.api.admissionregistration.v1.Rule
    f(40, 1, 1, 9, 1, 0, 13), // apiGroups
    f(42, 2, 1, 9, 1, 0, 13), // apiVersions
    f(693, 3, 1, 9, 1, 0, 13), // resources
    f(727, 4, 3, 0, 0, 0, 44), // scope
    // io.k8s.api.admissionregistration.v1.RuleWithOperations
    f(545, 1, 1, 9, 1, 0, 45), // operations
    f(65535, 2, 4, 35, 0, 0, 46), // (inline)
    // io.k8s.api.admissionregistration.v1.ServiceReference
    f(497, 1, 8, 0, 0, 1, 4), // namespace
    f(494, 2, 8, 0, 0, 1, 4), // name
    f(565, 3, 3, 0, 0, 0, 4), // path
    f(605, 4, 3, 29, 0, 0, 37), // port
    // io.k8s.api.admissionregistration.v1.TypeChecking
    f(259, 1, 1, 36, 1, 0, 47), // expressionWarnings
    // io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 37, 0, 2, 48), // spec
    f(794, 3, 1, 38, 0, 2, 49), // status
    // io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 9, 39, 0, 2, 50), // spec
    // io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 40, 0, 0, 51), // items
    // io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec
    f(602, 1, 9, 0, 0, 0, 4), // policyName
    f(558, 2, 3, 20, 0, 0, 25), // paramRef
    f(451, 3, 3, 21, 0, 0, 26), // matchResources
    f(898, 4, 9, 9, 3, 0, 52), // validationActions
    // io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 41, 0, 0, 53), // items
    // io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicySpec
    f(557, 1, 3, 23, 0, 0, 28), // paramKind
    f(444, 2, 3, 21, 0, 0, 26), // matchConstraints
    f(899, 3, 1, 42, 1, 0, 54), // validations
    f(272, 4, 3, 0, 0, 0, 31), // failurePolicy
    f(64, 5, 1, 43, 1, 0, 55), // auditAnnotations
    f(443, 6, 1, 26, 2, 0, 32), // matchConditions
    f(904, 7, 1, 24, 2, 0, 29), // variables
    // io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyStatus
    f(536, 1, 1, 44, 0, 0, 56), // observedGeneration
    f(877, 2, 3, 45, 0, 0, 57), // typeChecking
    f(131, 3, 1, 46, 4, 0, 58), // conditions
    // io.k8s.api.admissionregistration.v1.ValidatingWebhook
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(112, 2, 8, 27, 0, 2, 34), // clientConfig
    f(707, 3, 1, 28, 1, 0, 35), // rules
    f(272, 4, 3, 0, 0, 0, 31), // failurePolicy
    f(450, 9, 3, 0, 0, 0, 19), // matchPolicy
    f(498, 5, 3, 13, 0, 0, 17), // namespaceSelector
    f(535, 10, 3, 13, 0, 0, 17), // objectSelector
    f(773, 6, 10, 0, 0, 0, 36), // sideEffects
    f(859, 7, 3, 29, 0, 0, 37), // timeoutSeconds
    f(17, 8, 8, 9, 1, 0, 13), // admissionReviewVersions
    f(443, 11, 1, 26, 2, 0, 32), // matchConditions
    // io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(935, 2, 1, 47, 2, 0, 59), // webhooks
    // io.k8s.api.admissionregistration.v1.ValidatingWebhookConfigurationList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 48, 0, 0, 60), // items
    // io.k8s.api.admissionregistration.v1.Validation
    f(258, 1, 8, 0, 0, 1, 4), // expression
    f(468, 2, 1, 0, 0, 0, 4), // message
    f(648, 3, 3, 0, 0, 0, 61), // reason
    f(469, 4, 1, 0, 0, 0, 4), // messageExpression
    // io.k8s.api.admissionregistration.v1.Variable
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(258, 2, 8, 0, 0, 1, 4), // expression
    // io.k8s.api.admissionregistration.v1.WebhookClientConfig
    f(888, 3, 3, 0, 0, 0, 4), // url
    f(756, 1, 3, 49, 0, 0, 62), // service
    f(91, 2, 1, 7, 0, 0, 10), // caBundle
    // io.k8s.api.apps.v1.ControllerRevision
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(171, 2, 1, 4, 0, 0, 7), // data
    f(700, 3, 8, 44, 0, 3, 56), // revision
    // io.k8s.api.apps.v1.ControllerRevisionList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 50, 0, 0, 63), // items
    // io.k8s.api.apps.v1.DaemonSet
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 51, 0, 2, 64), // spec
    f(794, 3, 1, 52, 0, 2, 65), // status
    // io.k8s.api.apps.v1.DaemonSetCondition
    f(876, 1, 8, 0, 0, 1, 66), // type
    f(794, 2, 8, 0, 0, 1, 67), // status
    f(415, 3, 1, 53, 0, 0, 68), // lastTransitionTime
    f(648, 4, 1, 0, 0, 0, 4), // reason
    f(468, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.api.apps.v1.DaemonSetList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 54, 0, 0, 69), // items
    // io.k8s.api.apps.v1.DaemonSetSpec
    f(747, 1, 10, 13, 0, 0, 17), // selector
    f(847, 2, 8, 55, 0, 2, 70), // template
    f(885, 3, 1, 56, 0, 2, 71), // updateStrategy
    f(481, 4, 1, 29, 0, 0, 37), // minReadySeconds
    f(701, 6, 3, 29, 0, 0, 37), // revisionHistoryLimit
    // io.k8s.api.apps.v1.DaemonSetStatus
    f(166, 1, 8, 29, 0, 3, 37), // currentNumberScheduled
    f(531, 2, 8, 29, 0, 3, 37), // numberMisscheduled
    f(200, 3, 8, 29, 0, 3, 37), // desiredNumberScheduled
    f(532, 4, 8, 29, 0, 3, 37), // numberReady
    f(536, 5, 1, 44, 0, 0, 56), // observedGeneration
    f(886, 6, 1, 29, 0, 0, 37), // updatedNumberScheduled
    f(530, 7, 1, 29, 0, 0, 37), // numberAvailable
    f(533, 8, 1, 29, 0, 0, 37), // numberUnavailable
    f(120, 9, 3, 29, 0, 0, 37), // collisionCount
    f(131, 10, 1, 57, 5, 0, 72), // conditions
    // io.k8s.api.apps.v1.DaemonSetUpdateStrategy
    f(876, 1, 1, 0, 0, 0, 73), // type
    f(704, 2, 3, 58, 0, 0, 74), // rollingUpdate
    // io.k8s.api.apps.v1.Deployment
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 59, 0, 2, 75), // spec
    f(794, 3, 1, 60, 0, 2, 76), // status
    // io.k8s.api.apps.v1.DeploymentCondition
    f(876, 1, 8, 0, 0, 1, 77), // type
    f(794, 2, 8, 0, 0, 1, 67), // status
    f(416, 6, 1, 53, 0, 0, 68), // lastUpdateTime
    f(415, 7, 1, 53, 0, 0, 68), // lastTransitionTime
    f(648, 4, 1, 0, 0, 0, 4), // reason
    f(468, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.api.apps.v1.DeploymentList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 61, 0, 0, 78), // items
    // io.k8s.api.apps.v1.DeploymentSpec
    f(659, 1, 3, 29, 0, 0, 37), // replicas
    f(747, 2, 10, 13, 0, 0, 17), // selector
    f(847, 3, 8, 55, 0, 2, 70), // template
    f(812, 4, 1, 62, 6, 2, 79), // strategy
    f(481, 5, 1, 29, 0, 0, 37), // minReadySeconds
    f(701, 6, 3, 29, 0, 0, 37), // revisionHistoryLimit
    f(570, 7, 1, 5, 0, 0, 8), // paused
    f(625, 9, 3, 29, 0, 0, 37), // progressDeadlineSeconds
    // io.k8s.api.apps.v1.DeploymentStatus
    f(536, 1, 1, 44, 0, 0, 56), // observedGeneration
    f(659, 2, 1, 29, 0, 0, 37), // replicas
    f(887, 3, 1, 29, 0, 0, 37), // updatedReplicas
    f(647, 7, 1, 29, 0, 0, 37), // readyReplicas
    f(67, 4, 1, 29, 0, 0, 37), // availableReplicas
    f(879, 5, 1, 29, 0, 0, 37), // unavailableReplicas
    f(851, 9, 3, 29, 0, 0, 37), // terminatingReplicas
    f(131, 6, 1, 63, 5, 0, 80), // conditions
    f(120, 8, 3, 29, 0, 0, 37), // collisionCount
    // io.k8s.api.apps.v1.DeploymentStrategy
    f(876, 1, 1, 0, 0, 0, 81), // type
    f(704, 2, 3, 64, 0, 0, 82), // rollingUpdate
    // io.k8s.api.apps.v1.ReplicaSet
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 65, 0, 2, 83), // spec
    f(794, 3, 1, 66, 0, 2, 84), // status
    // io.k8s.api.apps.v1.ReplicaSetCondition
    f(876, 1, 8, 0, 0, 1, 85), // type
    f(794, 2, 8, 0, 0, 1, 67), // status
    f(415, 3, 1, 53, 0, 0, 68), // lastTransitionTime
    f(648, 4, 1, 0, 0, 0, 4), // reason
    f(468, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.api.apps.v1.ReplicaSetList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 67, 0, 0, 86), // items
    // io.k8s.api.apps.v1.ReplicaSetSpec
    f(659, 1, 3, 29, 0, 0, 37), // replicas
    f(481, 4, 1, 29, 0, 0, 37), // minReadySeconds
    f(747, 2, 10, 13, 0, 0, 17), // selector
    f(847, 3, 1, 55, 0, 2, 70), // template
    // io.k8s.api.apps.v1.ReplicaSetStatus
    f(659, 1, 8, 29, 0, 3, 37), // replicas
    f(300, 2, 1, 29, 0, 0, 37), // fullyLabeledReplicas
    f(647, 4, 1, 29, 0, 0, 37), // readyReplicas
    f(67, 5, 1, 29, 0, 0, 37), // availableReplicas
    f(851, 7, 3, 29, 0, 0, 37), // terminatingReplicas
    f(536, 3, 1, 44, 0, 0, 56), // observedGeneration
    f(131, 6, 1, 68, 5, 0, 87), // conditions
    // io.k8s.api.apps.v1.RollingUpdateDaemonSet
    f(463, 1, 3, 69, 0, 0, 88), // maxUnavailable
    f(462, 2, 3, 69, 0, 0, 88), // maxSurge
    // io.k8s.api.apps.v1.RollingUpdateDeployment
    f(463, 1, 3, 69, 0, 0, 88), // maxUnavailable
    f(462, 2, 3, 69, 0, 0, 88), // maxSurge
    // io.k8s.api.apps.v1.RollingUpdateStatefulSetStrategy
    f(562, 1, 3, 29, 0, 0, 37), // partition
    f(463, 2, 3, 69, 0, 0, 88), // maxUnavailable
    // io.k8s.api.apps.v1.StatefulSet
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 70, 0, 2, 89), // spec
    f(794, 3, 1, 71, 0, 2, 90), // status
    // io.k8s.api.apps.v1.StatefulSetCondition
    f(876, 1, 8, 0, 0, 1, 91), // type
    f(794, 2, 8, 0, 0, 1, 67), // status
    f(415, 3, 1, 53, 0, 0, 68), // lastTransitionTime
    f(648, 4, 1, 0, 0, 0, 4), // reason
    f(468, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.api.apps.v1.StatefulSetList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 72, 0, 0, 92), // items
    // io.k8s.api.apps.v1.StatefulSetOrdinals
    f(787, 1, 0, 29, 0, 3, 37), // start
    // io.k8s.api.apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy
    f(937, 1, 1, 0, 0, 0, 93), // whenDeleted
    f(938, 2, 1, 0, 0, 0, 93), // whenScaled
    // io.k8s.api.apps.v1.StatefulSetSpec
    f(659, 1, 3, 29, 0, 0, 37), // replicas
    f(747, 2, 10, 13, 0, 0, 17), // selector
    f(847, 3, 8, 55, 0, 2, 70), // template
    f(915, 4, 1, 73, 1, 0, 94), // volumeClaimTemplates
    f(761, 5, 0, 0, 0, 1, 4), // serviceName
    f(597, 6, 1, 0, 0, 0, 95), // podManagementPolicy
    f(885, 7, 1, 74, 0, 2, 96), // updateStrategy
    f(701, 8, 3, 29, 0, 0, 37), // revisionHistoryLimit
    f(481, 9, 1, 29, 0, 0, 37), // minReadySeconds
    f(576, 10, 3, 75, 0, 0, 97), // persistentVolumeClaimRetentionPolicy
    f(550, 11, 3, 76, 0, 0, 98), // ordinals
    // io.k8s.api.apps.v1.StatefulSetStatus
    f(536, 1, 1, 44, 0, 0, 56), // observedGeneration
    f(659, 2, 8, 29, 0, 3, 37), // replicas
    f(647, 3, 1, 29, 0, 0, 37), // readyReplicas
    f(167, 4, 1, 29, 0, 0, 37), // currentReplicas
    f(887, 5, 1, 29, 0, 0, 37), // updatedReplicas
    f(168, 6, 1, 0, 0, 0, 4), // currentRevision
    f(884, 7, 1, 0, 0, 0, 4), // updateRevision
    f(120, 9, 3, 29, 0, 0, 37), // collisionCount
    f(131, 10, 1, 77, 5, 0, 99), // conditions
    f(67, 11, 0, 29, 0, 3, 37), // availableReplicas
    // io.k8s.api.apps.v1.StatefulSetUpdateStrategy
    f(876, 1, 1, 0, 0, 0, 100), // type
    f(704, 2, 3, 78, 0, 0, 101), // rollingUpdate
    // io.k8s.api.authentication.v1.BoundObjectReference
    f(391, 1, 1, 0, 0, 0, 4), // kind
    f(41, 2, 1, 0, 0, 0, 4), // apiVersion
    f(494, 3, 1, 0, 0, 0, 4), // name
    f(878, 4, 1, 0, 0, 0, 1), // uid
    // io.k8s.api.authentication.v1.SelfSubjectReview
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(794, 2, 1, 79, 0, 2, 102), // status
    // io.k8s.api.authentication.v1.SelfSubjectReviewStatus
    f(893, 1, 1, 3, 0, 2, 6), // userInfo
    // io.k8s.api.authentication.v1.TokenRequest
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 0, 80, 0, 2, 103), // spec
    f(794, 3, 1, 81, 0, 2, 104), // status
    // io.k8s.api.authentication.v1.TokenRequestSpec
    f(63, 1, 0, 9, 1, 0, 13), // audiences
    f(256, 4, 2, 44, 0, 0, 56), // expirationSeconds
    f(88, 3, 2, 82, 0, 0, 105), // boundObjectRef
    // io.k8s.api.authentication.v1.TokenRequestStatus
    f(863, 1, 0, 0, 0, 1, 4), // token
    f(257, 2, 0, 53, 0, 0, 68), // expirationTimestamp
    // io.k8s.api.authentication.v1.TokenReview
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 8, 83, 0, 2, 106), // spec
    f(794, 3, 1, 84, 0, 2, 107), // status
    // io.k8s.api.authentication.v1.TokenReviewSpec
    f(863, 1, 9, 0, 0, 0, 4), // token
    f(63, 2, 1, 9, 1, 0, 13), // audiences
    // io.k8s.api.authentication.v1.TokenReviewStatus
    f(65, 1, 1, 5, 0, 0, 8), // authenticated
    f(891, 2, 1, 3, 0, 2, 6), // user
    f(63, 4, 1, 9, 1, 0, 13), // audiences
    f(241, 3, 1, 0, 0, 0, 4), // error
    // io.k8s.api.authentication.v1.UserInfo
    f(895, 1, 1, 0, 0, 0, 4), // username
    f(878, 2, 1, 0, 0, 0, 4), // uid
    f(319, 3, 1, 9, 1, 0, 13), // groups
    f(268, 4, 1, 85, 0, 0, 108), // extra
    // io.k8s.api.authorization.v1.FieldSelectorAttributes
    f(640, 1, 1, 0, 0, 0, 4), // rawSelector
    f(674, 2, 1, 86, 1, 0, 109), // requirements
    // io.k8s.api.authorization.v1.LabelSelectorAttributes
    f(640, 1, 1, 0, 0, 0, 4), // rawSelector
    f(674, 2, 1, 87, 1, 0, 110), // requirements
    // io.k8s.api.authorization.v1.LocalSubjectAccessReview
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 8, 88, 0, 2, 111), // spec
    f(794, 3, 1, 89, 0, 2, 112), // status
    // io.k8s.api.authorization.v1.NonResourceAttributes
    f(565, 1, 1, 0, 0, 0, 4), // path
    f(905, 2, 1, 0, 0, 0, 4), // verb
    // io.k8s.api.authorization.v1.NonResourceRule
    f(906, 1, 8, 9, 1, 0, 13), // verbs
    f(524, 2, 1, 9, 1, 0, 13), // nonResourceURLs
    // io.k8s.api.authorization.v1.ResourceAttributes
    f(497, 1, 1, 0, 0, 0, 4), // namespace
    f(905, 2, 1, 0, 0, 0, 4), // verb
    f(316, 3, 1, 0, 0, 0, 4), // group
    f(907, 4, 1, 0, 0, 0, 4), // version
    f(679, 5, 1, 0, 0, 0, 4), // resource
    f(821, 6, 1, 0, 0, 0, 4), // subresource
    f(494, 7, 1, 0, 0, 0, 4), // name
    f(280, 8, 3, 90, 0, 0, 113), // fieldSelector
    f(402, 9, 3, 91, 0, 0, 114), // labelSelector
    // io.k8s.api.authorization.v1.ResourceRule
    f(906, 1, 8, 9, 1, 0, 13), // verbs
    f(40, 2, 1, 9, 1, 0, 13), // apiGroups
    f(693, 3, 1, 9, 1, 0, 13), // resources
    f(688, 4, 1, 9, 1, 0, 13), // resourceNames
    // io.k8s.api.authorization.v1.SelfSubjectAccessReview
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 8, 92, 0, 2, 115), // spec
    f(794, 3, 1, 89, 0, 2, 112), // status
    // io.k8s.api.authorization.v1.SelfSubjectAccessReviewSpec
    f(680, 1, 3, 93, 0, 0, 116), // resourceAttributes
    f(522, 2, 3, 94, 0, 0, 117), // nonResourceAttributes
    // io.k8s.api.authorization.v1.SelfSubjectRulesReview
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 8, 95, 0, 2, 118), // spec
    f(794, 3, 1, 96, 0, 2, 119), // status
    // io.k8s.api.authorization.v1.SelfSubjectRulesReviewSpec
    f(497, 1, 1, 0, 0, 0, 4), // namespace
    // io.k8s.api.authorization.v1.SubjectAccessReview
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 8, 88, 0, 2, 111), // spec
    f(794, 3, 1, 89, 0, 2, 112), // status
    // io.k8s.api.authorization.v1.SubjectAccessReviewSpec
    f(680, 1, 3, 93, 0, 0, 116), // resourceAttributes
    f(522, 2, 3, 94, 0, 0, 117), // nonResourceAttributes
    f(891, 3, 1, 0, 0, 0, 4), // user
    f(319, 4, 1, 9, 1, 0, 13), // groups
    f(268, 5, 1, 97, 0, 0, 108), // extra
    f(878, 6, 1, 0, 0, 0, 4), // uid
    // io.k8s.api.authorization.v1.SubjectAccessReviewStatus
    f(35, 1, 8, 5, 0, 4, 8), // allowed
    f(185, 4, 1, 5, 0, 0, 8), // denied
    f(648, 2, 1, 0, 0, 0, 4), // reason
    f(243, 3, 1, 0, 0, 0, 4), // evaluationError
    // io.k8s.api.authorization.v1.SubjectRulesReviewStatus
    f(689, 1, 8, 98, 1, 0, 120), // resourceRules
    f(523, 2, 8, 99, 1, 0, 121), // nonResourceRules
    f(358, 3, 8, 5, 0, 4, 8), // incomplete
    f(243, 4, 1, 0, 0, 0, 4), // evaluationError
    // io.k8s.api.autoscaling.v1.CrossVersionObjectReference
    f(391, 1, 8, 0, 0, 1, 4), // kind
    f(494, 2, 8, 0, 0, 1, 4), // name
    f(41, 3, 1, 0, 0, 0, 4), // apiVersion
    // io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 9, 100, 0, 2, 122), // spec
    f(794, 3, 1, 101, 0, 2, 123), // status
    // io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 102, 0, 0, 124), // items
    // io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerSpec
    f(718, 1, 8, 103, 0, 2, 125), // scaleTargetRef
    f(482, 2, 3, 29, 0, 0, 37), // minReplicas
    f(460, 3, 8, 29, 0, 3, 37), // maxReplicas
    f(839, 4, 3, 29, 0, 0, 37), // targetCPUUtilizationPercentage
    // io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerStatus
    f(536, 1, 3, 44, 0, 0, 56), // observedGeneration
    f(410, 2, 3, 53, 0, 0, 68), // lastScaleTime
    f(167, 3, 8, 29, 0, 3, 37), // currentReplicas
    f(201, 4, 8, 29, 0, 3, 37), // desiredReplicas
    f(163, 5, 3, 29, 0, 0, 37), // currentCPUUtilizationPercentage
    // io.k8s.api.autoscaling.v1.Scale
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 104, 0, 2, 126), // spec
    f(794, 3, 1, 105, 0, 2, 127), // status
    // io.k8s.api.autoscaling.v1.ScaleSpec
    f(659, 1, 1, 29, 0, 3, 37), // replicas
    // io.k8s.api.autoscaling.v1.ScaleStatus
    f(659, 1, 8, 29, 0, 3, 37), // replicas
    f(747, 2, 1, 0, 0, 0, 4), // selector
    // io.k8s.api.autoscaling.v2.ContainerResourceMetricSource
    f(494, 1, 8, 0, 0, 1, 128), // name
    f(838, 2, 8, 106, 0, 2, 129), // target
    f(140, 3, 8, 0, 0, 1, 4), // container
    // io.k8s.api.autoscaling.v2.ContainerResourceMetricStatus
    f(494, 1, 8, 0, 0, 1, 128), // name
    f(162, 2, 8, 107, 0, 2, 130), // current
    f(140, 3, 8, 0, 0, 1, 4), // container
    // io.k8s.api.autoscaling.v2.CrossVersionObjectReference
    f(391, 1, 8, 0, 0, 1, 4), // kind
    f(494, 2, 8, 0, 0, 1, 4), // name
    f(41, 3, 1, 0, 0, 0, 4), // apiVersion
    // io.k8s.api.autoscaling.v2.ExternalMetricSource
    f(471, 1, 8, 108, 0, 2, 131), // metric
    f(838, 2, 8, 106, 0, 2, 129), // target
    // io.k8s.api.autoscaling.v2.ExternalMetricStatus
    f(471, 1, 8, 108, 0, 2, 131), // metric
    f(162, 2, 8, 107, 0, 2, 130), // current
    // io.k8s.api.autoscaling.v2.HPAScalingPolicy
    f(876, 1, 8, 0, 0, 1, 132), // type
    f(900, 2, 8, 29, 0, 3, 37), // value
    f(574, 3, 8, 29, 0, 3, 37), // periodSeconds
    // io.k8s.api.autoscaling.v2.HPAScalingRules
    f(786, 3, 3, 29, 0, 0, 37), // stabilizationWindowSeconds
    f(745, 1, 3, 0, 0, 0, 133), // selectPolicy
    f(601, 2, 1, 109, 1, 0, 134), // policies
    f(865, 4, 3, 110, 0, 0, 135), // tolerance
    // io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 9, 111, 0, 2, 136), // spec
    f(794, 3, 1, 112, 0, 2, 137), // status
    // io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior
    f(719, 1, 3, 113, 0, 0, 138), // scaleUp
    f(716, 2, 3, 113, 0, 0, 138), // scaleDown
    // io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerCondition
    f(876, 1, 8, 0, 0, 1, 139), // type
    f(794, 2, 8, 0, 0, 1, 67), // status
    f(415, 3, 1, 53, 0, 0, 68), // lastTransitionTime
    f(648, 4, 1, 0, 0, 0, 4), // reason
    f(468, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 114, 0, 0, 140), // items
    // io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec
    f(718, 1, 8, 115, 0, 2, 141), // scaleTargetRef
    f(482, 2, 3, 29, 0, 0, 37), // minReplicas
    f(460, 3, 8, 29, 0, 3, 37), // maxReplicas
    f(472, 4, 1, 116, 1, 0, 142), // metrics
    f(76, 5, 3, 117, 0, 0, 143), // behavior
    // io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus
    f(536, 1, 3, 44, 0, 0, 56), // observedGeneration
    f(410, 2, 3, 53, 0, 0, 68), // lastScaleTime
    f(167, 3, 1, 29, 0, 0, 37), // currentReplicas
    f(201, 4, 8, 29, 0, 3, 37), // desiredReplicas
    f(165, 5, 0, 118, 1, 0, 144), // currentMetrics
    f(131, 6, 1, 119, 5, 0, 145), // conditions
    // io.k8s.api.autoscaling.v2.MetricIdentifier
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(747, 2, 3, 13, 0, 0, 17), // selector
    // io.k8s.api.autoscaling.v2.MetricSpec
    f(876, 1, 8, 0, 0, 1, 146), // type
    f(534, 2, 3, 120, 0, 0, 147), // object
    f(600, 3, 3, 121, 0, 0, 148), // pods
    f(679, 4, 3, 122, 0, 0, 149), // resource
    f(144, 7, 3, 123, 0, 0, 150), // containerResource
    f(262, 5, 3, 124, 0, 0, 151), // external
    // io.k8s.api.autoscaling.v2.MetricStatus
    f(876, 1, 8, 0, 0, 1, 146), // type
    f(534, 2, 3, 125, 0, 0, 152), // object
    f(600, 3, 3, 126, 0, 0, 153), // pods
    f(679, 4, 3, 127, 0, 0, 154), // resource
    f(144, 7, 3, 128, 0, 0, 155), // containerResource
    f(262, 5, 3, 129, 0, 0, 156), // external
    // io.k8s.api.autoscaling.v2.MetricTarget
    f(876, 1, 8, 0, 0, 1, 157), // type
    f(900, 2, 3, 110, 0, 0, 135), // value
    f(69, 3, 3, 110, 0, 0, 135), // averageValue
    f(68, 4, 3, 29, 0, 0, 37), // averageUtilization
    // io.k8s.api.autoscaling.v2.MetricValueStatus
    f(900, 1, 3, 110, 0, 0, 135), // value
    f(69, 2, 3, 110, 0, 0, 135), // averageValue
    f(68, 3, 3, 29, 0, 0, 37), // averageUtilization
    // io.k8s.api.autoscaling.v2.ObjectMetricSource
    f(197, 1, 8, 115, 0, 2, 141), // describedObject
    f(838, 2, 8, 106, 0, 2, 129), // target
    f(471, 3, 8, 108, 0, 2, 131), // metric
    // io.k8s.api.autoscaling.v2.ObjectMetricStatus
    f(471, 1, 8, 108, 0, 2, 131), // metric
    f(162, 2, 8, 107, 0, 2, 130), // current
    f(197, 3, 8, 115, 0, 2, 141), // describedObject
    // io.k8s.api.autoscaling.v2.PodsMetricSource
    f(471, 1, 8, 108, 0, 2, 131), // metric
    f(838, 2, 8, 106, 0, 2, 129), // target
    // io.k8s.api.autoscaling.v2.PodsMetricStatus
    f(471, 1, 8, 108, 0, 2, 131), // metric
    f(162, 2, 8, 107, 0, 2, 130), // current
    // io.k8s.api.autoscaling.v2.ResourceMetricSource
    f(494, 1, 8, 0, 0, 1, 128), // name
    f(838, 2, 8, 106, 0, 2, 129), // target
    // io.k8s.api.autoscaling.v2.ResourceMetricStatus
    f(494, 1, 8, 0, 0, 1, 128), // name
    f(162, 2, 8, 107, 0, 2, 130), // current
    // io.k8s.api.batch.v1.CronJob
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 9, 130, 0, 2, 158), // spec
    f(794, 3, 1, 131, 0, 2, 159), // status
    // io.k8s.api.batch.v1.CronJobList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 132, 0, 0, 160), // items
    // io.k8s.api.batch.v1.CronJobSpec
    f(720, 1, 8, 0, 0, 1, 4), // schedule
    f(858, 8, 3, 0, 0, 0, 4), // timeZone
    f(791, 2, 3, 44, 0, 0, 56), // startingDeadlineSeconds
    f(129, 3, 1, 0, 0, 0, 161), // concurrencyPolicy
    f(832, 4, 3, 5, 0, 0, 8), // suspend
    f(382, 5, 8, 133, 0, 2, 162), // jobTemplate
    f(829, 6, 3, 29, 0, 0, 37), // successfulJobsHistoryLimit
    f(271, 7, 3, 29, 0, 0, 37), // failedJobsHistoryLimit
    // io.k8s.api.batch.v1.CronJobStatus
    f(7, 1, 1, 134, 1, 0, 163), // active
    f(411, 4, 3, 53, 0, 0, 68), // lastScheduleTime
    f(413, 5, 3, 53, 0, 0, 68), // lastSuccessfulTime
    // io.k8s.api.batch.v1.Job
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 135, 0, 2, 164), // spec
    f(794, 3, 1, 136, 0, 2, 165), // status
    // io.k8s.api.batch.v1.JobCondition
    f(876, 1, 8, 0, 0, 1, 166), // type
    f(794, 2, 8, 0, 0, 1, 67), // status
    f(409, 3, 1, 53, 0, 0, 68), // lastProbeTime
    f(415, 4, 1, 53, 0, 0, 68), // lastTransitionTime
    f(648, 5, 1, 0, 0, 0, 4), // reason
    f(468, 6, 1, 0, 0, 0, 4), // message
    // io.k8s.api.batch.v1.JobList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 137, 0, 0, 167), // items
    // io.k8s.api.batch.v1.JobSpec
    f(556, 1, 3, 29, 0, 0, 37), // parallelism
    f(127, 2, 3, 29, 0, 0, 37), // completions
    f(8, 3, 3, 44, 0, 0, 56), // activeDeadlineSeconds
    f(591, 11, 3, 138, 0, 0, 168), // podFailurePolicy
    f(827, 16, 3, 139, 0, 0, 169), // successPolicy
    f(74, 7, 3, 29, 0, 0, 37), // backoffLimit
    f(75, 12, 3, 29, 0, 0, 37), // backoffLimitPerIndex
    f(455, 13, 3, 29, 0, 0, 37), // maxFailedIndexes
    f(747, 4, 3, 13, 0, 0, 17), // selector
    f(441, 5, 3, 5, 0, 0, 8), // manualSelector
    f(847, 6, 8, 55, 0, 2, 70), // template
    f(874, 8, 3, 29, 0, 0, 37), // ttlSecondsAfterFinished
    f(125, 9, 3, 0, 0, 0, 170), // completionMode
    f(832, 10, 3, 5, 0, 0, 8), // suspend
    f(598, 14, 3, 0, 0, 0, 171), // podReplacementPolicy
    f(438, 15, 3, 0, 0, 0, 4), // managedBy
    // io.k8s.api.batch.v1.JobStatus
    f(131, 1, 1, 140, 7, 0, 172), // conditions
    f(788, 2, 3, 53, 0, 0, 68), // startTime
    f(126, 3, 3, 53, 0, 0, 68), // completionTime
    f(7, 4, 1, 29, 0, 0, 37), // active
    f(824, 5, 1, 29, 0, 0, 37), // succeeded
    f(269, 6, 1, 29, 0, 0, 37), // failed
    f(850, 11, 3, 29, 0, 0, 37), // terminating
    f(124, 7, 1, 0, 0, 0, 4), // completedIndexes
    f(270, 10, 3, 0, 0, 0, 4), // failedIndexes
    f(880, 8, 3, 141, 0, 0, 173), // uncountedTerminatedPods
    f(646, 9, 3, 29, 0, 0, 37), // ready
    // io.k8s.api.batch.v1.JobTemplateSpec
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 135, 0, 2, 164), // spec
    // io.k8s.api.batch.v1.PodFailurePolicy
    f(707, 1, 8, 142, 1, 0, 174), // rules
    // io.k8s.api.batch.v1.PodFailurePolicyOnExitCodesRequirement
    f(142, 1, 3, 0, 0, 0, 4), // containerName
    f(546, 2, 8, 0, 0, 1, 175), // operator
    f(903, 3, 8, 143, 3, 0, 176), // values
    // io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern
    f(876, 1, 8, 0, 0, 1, 177), // type
    f(794, 2, 0, 0, 0, 1, 67), // status
    // io.k8s.api.batch.v1.PodFailurePolicyRule
    f(6, 1, 8, 0, 0, 1, 178), // action
    f(538, 2, 3, 144, 0, 0, 179), // onExitCodes
    f(539, 3, 1, 145, 1, 0, 180), // onPodConditions
    // io.k8s.api.batch.v1.SuccessPolicy
    f(707, 1, 8, 146, 1, 0, 181), // rules
    // io.k8s.api.batch.v1.SuccessPolicyRule
    f(826, 1, 3, 0, 0, 0, 4), // succeededIndexes
    f(825, 2, 3, 29, 0, 0, 37), // succeededCount
    // io.k8s.api.batch.v1.UncountedTerminatedPods
    f(824, 1, 1, 9, 3, 0, 182), // succeeded
    f(269, 2, 1, 9, 3, 0, 182), // failed
    // io.k8s.api.certificates.v1.CertificateSigningRequest
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 8, 147, 0, 2, 183), // spec
    f(794, 3, 1, 148, 0, 2, 184), // status
    // io.k8s.api.certificates.v1.CertificateSigningRequestCondition
    f(876, 1, 8, 0, 0, 1, 185), // type
    f(794, 6, 8, 0, 0, 1, 67), // status
    f(648, 2, 1, 0, 0, 0, 4), // reason
    f(468, 3, 1, 0, 0, 0, 4), // message
    f(416, 4, 1, 53, 0, 0, 68), // lastUpdateTime
    f(415, 5, 1, 53, 0, 0, 68), // lastTransitionTime
    // io.k8s.api.certificates.v1.CertificateSigningRequestList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 149, 0, 0, 186), // items
    // io.k8s.api.certificates.v1.CertificateSigningRequestSpec
    f(664, 1, 8, 7, 0, 0, 10), // request
    f(775, 7, 8, 0, 0, 1, 4), // signerName
    f(256, 8, 3, 29, 0, 0, 37), // expirationSeconds
    f(889, 5, 1, 9, 1, 0, 187), // usages
    f(895, 2, 1, 0, 0, 0, 4), // username
    f(878, 3, 1, 0, 0, 0, 4), // uid
    f(319, 4, 1, 9, 1, 0, 13), // groups
    f(268, 6, 1, 150, 0, 0, 108), // extra
    // io.k8s.api.certificates.v1.CertificateSigningRequestStatus
    f(131, 1, 1, 151, 4, 0, 188), // conditions
    f(101, 2, 1, 7, 0, 0, 10), // certificate
    // io.k8s.api.coordination.v1.Lease
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 152, 0, 2, 189), // spec
    // io.k8s.api.coordination.v1.LeaseList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 153, 0, 0, 190), // items
    // io.k8s.api.coordination.v1.LeaseSpec
    f(328, 1, 3, 0, 0, 0, 4), // holderIdentity
    f(417, 2, 3, 29, 0, 0, 37), // leaseDurationSeconds
    f(5, 3, 3, 154, 0, 0, 191), // acquireTime
    f(658, 4, 3, 154, 0, 0, 191), // renewTime
    f(418, 5, 3, 29, 0, 0, 37), // leaseTransitions
    f(812, 6, 3, 0, 0, 0, 192), // strategy
    f(615, 7, 3, 0, 0, 0, 4), // preferredHolder
    // io.k8s.api.core.v1.AWSElasticBlockStoreVolumeSource
    f(918, 1, 8, 0, 0, 1, 4), // volumeID
    f(299, 2, 1, 0, 0, 0, 4), // fsType
    f(562, 3, 1, 29, 0, 0, 37), // partition
    f(642, 4, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.Affinity
    f(504, 1, 3, 155, 0, 0, 193), // nodeAffinity
    f(585, 2, 3, 156, 0, 0, 194), // podAffinity
    f(587, 3, 3, 157, 0, 0, 195), // podAntiAffinity
    // io.k8s.api.core.v1.AppArmorProfile
    f(876, 1, 8, 0, 0, 1, 196), // type
    f(434, 2, 3, 0, 0, 0, 4), // localhostProfile
    // io.k8s.api.core.v1.AttachedVolume
    f(494, 1, 8, 0, 0, 1, 197), // name
    f(206, 2, 8, 0, 0, 1, 4), // devicePath
    // io.k8s.api.core.v1.AzureDiskVolumeSource
    f(209, 1, 8, 0, 0, 1, 4), // diskName
    f(210, 2, 8, 0, 0, 1, 4), // diskURI
    f(92, 3, 3, 0, 0, 5, 198), // cachingMode
    f(299, 4, 3, 0, 0, 6, 4), // fsType
    f(642, 5, 3, 5, 0, 4, 8), // readOnly
    f(391, 6, 3, 0, 0, 7, 199), // kind
    // io.k8s.api.core.v1.AzureFilePersistentVolumeSource
    f(740, 1, 8, 0, 0, 1, 4), // secretName
    f(769, 2, 8, 0, 0, 1, 4), // shareName
    f(642, 3, 1, 5, 0, 0, 8), // readOnly
    f(741, 4, 2, 0, 0, 0, 4), // secretNamespace
    // io.k8s.api.core.v1.AzureFileVolumeSource
    f(740, 1, 8, 0, 0, 1, 4), // secretName
    f(769, 2, 8, 0, 0, 1, 4), // shareName
    f(642, 3, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.Binding
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(838, 2, 8, 158, 0, 2, 200), // target
    // io.k8s.api.core.v1.CSIPersistentVolumeSource
    f(219, 1, 8, 0, 0, 1, 4), // driver
    f(917, 2, 8, 0, 0, 1, 4), // volumeHandle
    f(642, 3, 1, 5, 0, 0, 8), // readOnly
    f(299, 4, 1, 0, 0, 0, 4), // fsType
    f(911, 5, 1, 8, 0, 0, 12), // volumeAttributes
    f(152, 6, 3, 159, 0, 0, 201), // controllerPublishSecretRef
    f(517, 7, 3, 159, 0, 0, 201), // nodeStageSecretRef
    f(514, 8, 3, 159, 0, 0, 201), // nodePublishSecretRef
    f(151, 9, 3, 159, 0, 0, 201), // controllerExpandSecretRef
    f(509, 10, 3, 159, 0, 0, 201), // nodeExpandSecretRef
    // io.k8s.api.core.v1.CSIVolumeSource
    f(219, 1, 8, 0, 0, 1, 4), // driver
    f(642, 2, 3, 5, 0, 0, 8), // readOnly
    f(299, 3, 3, 0, 0, 0, 4), // fsType
    f(911, 4, 1, 8, 0, 0, 12), // volumeAttributes
    f(514, 5, 3, 160, 0, 0, 202), // nodePublishSecretRef
    // io.k8s.api.core.v1.Capabilities
    f(9, 1, 1, 9, 1, 0, 203), // add
    f(222, 2, 1, 9, 1, 0, 203), // drop
    // io.k8s.api.core.v1.CephFSPersistentVolumeSource
    f(488, 1, 8, 9, 1, 0, 13), // monitors
    f(565, 2, 1, 0, 0, 0, 4), // path
    f(891, 3, 1, 0, 0, 0, 4), // user
    f(738, 4, 1, 0, 0, 0, 4), // secretFile
    f(742, 5, 3, 159, 0, 0, 201), // secretRef
    f(642, 6, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.CephFSVolumeSource
    f(488, 1, 8, 9, 1, 0, 13), // monitors
    f(565, 2, 1, 0, 0, 0, 4), // path
    f(891, 3, 1, 0, 0, 0, 4), // user
    f(738, 4, 1, 0, 0, 0, 4), // secretFile
    f(742, 5, 3, 160, 0, 0, 202), // secretRef
    f(642, 6, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.CinderPersistentVolumeSource
    f(918, 1, 8, 0, 0, 1, 4), // volumeID
    f(299, 2, 1, 0, 0, 0, 4), // fsType
    f(642, 3, 1, 5, 0, 0, 8), // readOnly
    f(742, 4, 3, 159, 0, 0, 201), // secretRef
    // io.k8s.api.core.v1.CinderVolumeSource
    f(918, 1, 8, 0, 0, 1, 4), // volumeID
    f(299, 2, 1, 0, 0, 0, 4), // fsType
    f(642, 3, 1, 5, 0, 0, 8), // readOnly
    f(742, 4, 3, 160, 0, 0, 202), // secretRef
    // io.k8s.api.core.v1.ClientIPConfig
    f(859, 1, 3, 29, 0, 0, 37), // timeoutSeconds
    // io.k8s.api.core.v1.ClusterTrustBundleProjection
    f(494, 1, 3, 0, 0, 0, 4), // name
    f(775, 2, 3, 0, 0, 0, 4), // signerName
    f(402, 3, 3, 13, 0, 0, 17), // labelSelector
    f(547, 5, 3, 5, 0, 0, 8), // optional
    f(565, 4, 8, 0, 0, 1, 4), // path
    // io.k8s.api.core.v1.ComponentCondition
    f(876, 1, 8, 0, 0, 1, 204), // type
    f(794, 2, 8, 0, 0, 1, 67), // status
    f(468, 3, 1, 0, 0, 0, 4), // message
    f(241, 4, 1, 0, 0, 0, 4), // error
    // io.k8s.api.core.v1.ComponentStatus
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(131, 2, 1, 161, 5, 0, 205), // conditions
    // io.k8s.api.core.v1.ComponentStatusList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 162, 0, 0, 206), // items
    // io.k8s.api.core.v1.ConfigMap
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(357, 4, 3, 5, 0, 0, 8), // immutable
    f(171, 2, 1, 8, 0, 0, 12), // data
    f(79, 3, 1, 163, 0, 0, 207), // binaryData
    // io.k8s.api.core.v1.ConfigMapEnvSource
    f(65535, 1, 4, 160, 0, 0, 202), // (inline)
    f(547, 2, 3, 5, 0, 0, 8), // optional
    // io.k8s.api.core.v1.ConfigMapKeySelector
    f(65535, 1, 4, 160, 0, 0, 202), // (inline)
    f(387, 2, 8, 0, 0, 1, 4), // key
    f(547, 3, 3, 5, 0, 0, 8), // optional
    // io.k8s.api.core.v1.ConfigMapList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 164, 0, 0, 208), // items
    // io.k8s.api.core.v1.ConfigMapNodeConfigSource
    f(497, 1, 8, 0, 0, 1, 4), // namespace
    f(494, 2, 8, 0, 0, 1, 4), // name
    f(878, 3, 1, 0, 0, 0, 1), // uid
    f(691, 4, 1, 0, 0, 0, 4), // resourceVersion
    f(394, 5, 8, 0, 0, 1, 4), // kubeletConfigKey
    // io.k8s.api.core.v1.ConfigMapProjection
    f(65535, 1, 4, 160, 0, 0, 202), // (inline)
    f(381, 2, 1, 165, 1, 0, 209), // items
    f(547, 4, 3, 5, 0, 0, 8), // optional
    // io.k8s.api.core.v1.ConfigMapVolumeSource
    f(65535, 1, 4, 160, 0, 0, 202), // (inline)
    f(381, 2, 1, 165, 1, 0, 209), // items
    f(179, 3, 3, 29, 0, 0, 37), // defaultMode
    f(547, 4, 3, 5, 0, 0, 8), // optional
    // io.k8s.api.core.v1.Container
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(351, 2, 1, 0, 0, 0, 4), // image
    f(122, 3, 1, 9, 1, 0, 13), // command
    f(54, 4, 1, 9, 1, 0, 13), // args
    f(941, 5, 1, 0, 0, 0, 4), // workingDir
    f(607, 6, 1, 166, 8, 0, 210), // ports
    f(236, 19, 1, 167, 1, 0, 211), // envFrom
    f(235, 7, 1, 168, 2, 0, 212), // env
    f(693, 8, 1, 169, 0, 2, 213), // resources
    f(678, 23, 1, 170, 1, 0, 214), // resizePolicy
    f(696, 24, 3, 0, 0, 0, 215), // restartPolicy
    f(697, 25, 1, 171, 1, 0, 216), // restartPolicyRules
    f(921, 9, 1, 172, 9, 0, 217), // volumeMounts
    f(916, 21, 1, 173, 10, 0, 218), // volumeDevices
    f(428, 10, 3, 174, 0, 0, 219), // livenessProbe
    f(645, 11, 3, 174, 0, 0, 219), // readinessProbe
    f(792, 22, 3, 174, 0, 0, 219), // startupProbe
    f(421, 12, 3, 175, 0, 0, 220), // lifecycle
    f(853, 13, 1, 0, 0, 0, 4), // terminationMessagePath
    f(854, 20, 1, 0, 0, 0, 221), // terminationMessagePolicy
    f(353, 14, 1, 0, 0, 0, 222), // imagePullPolicy
    f(744, 15, 3, 176, 0, 0, 223), // securityContext
    f(797, 16, 1, 5, 0, 0, 8), // stdin
    f(798, 17, 1, 5, 0, 0, 8), // stdinOnce
    f(875, 18, 1, 5, 0, 0, 8), // tty
    // io.k8s.api.core.v1.ContainerExtendedResourceRequest
    f(142, 1, 8, 0, 0, 1, 4), // containerName
    f(687, 2, 8, 0, 0, 1, 4), // resourceName
    f(667, 3, 8, 0, 0, 1, 4), // requestName
    // io.k8s.api.core.v1.ContainerImage
    f(495, 1, 0, 9, 1, 0, 13), // names
    f(778, 2, 1, 44, 0, 0, 56), // sizeBytes
    // io.k8s.api.core.v1.ContainerPort
    f(494, 1, 1, 0, 0, 0, 4), // name
    f(337, 2, 1, 29, 0, 0, 37), // hostPort
    f(143, 3, 8, 29, 0, 3, 37), // containerPort
    f(630, 4, 1, 0, 0, 8, 224), // protocol
    f(331, 5, 1, 0, 0, 0, 4), // hostIP
    // io.k8s.api.core.v1.ContainerResizePolicy
    f(687, 1, 8, 0, 0, 1, 128), // resourceName
    f(696, 2, 8, 0, 0, 1, 225), // restartPolicy
    // io.k8s.api.core.v1.ContainerRestartRule
    f(6, 1, 9, 0, 0, 0, 226), // action
    f(254, 2, 3, 177, 0, 0, 227), // exitCodes
    // io.k8s.api.core.v1.ContainerRestartRuleOnExitCodes
    f(546, 1, 9, 0, 0, 0, 228), // operator
    f(903, 2, 1, 143, 3, 0, 176), // values
    // io.k8s.api.core.v1.ContainerState
    f(930, 1, 3, 178, 0, 0, 229), // waiting
    f(712, 2, 3, 179, 0, 0, 230), // running
    f(849, 3, 3, 180, 0, 0, 231), // terminated
    // io.k8s.api.core.v1.ContainerStateRunning
    f(790, 1, 1, 53, 0, 0, 68), // startedAt
    // io.k8s.api.core.v1.ContainerStateTerminated
    f(253, 1, 8, 29, 0, 3, 37), // exitCode
    f(774, 2, 1, 29, 0, 0, 37), // signal
    f(648, 3, 1, 0, 0, 0, 4), // reason
    f(468, 4, 1, 0, 0, 0, 4), // message
    f(790, 5, 1, 53, 0, 0, 68), // startedAt
    f(286, 6, 1, 53, 0, 0, 68), // finishedAt
    f(141, 7, 1, 0, 0, 0, 4), // containerID
    // io.k8s.api.core.v1.ContainerStateWaiting
    f(648, 1, 1, 0, 0, 0, 4), // reason
    f(468, 2, 1, 0, 0, 0, 4), // message
    // io.k8s.api.core.v1.ContainerStatus
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(793, 2, 1, 181, 0, 2, 232), // state
    f(412, 3, 1, 181, 0, 2, 232), // lastState
    f(646, 4, 8, 5, 0, 4, 8), // ready
    f(695, 5, 8, 29, 0, 3, 37), // restartCount
    f(351, 6, 8, 0, 0, 1, 4), // image
    f(352, 7, 8, 0, 0, 1, 4), // imageID
    f(141, 8, 1, 0, 0, 0, 4), // containerID
    f(789, 9, 3, 5, 0, 0, 8), // started
    f(25, 10, 1, 182, 0, 0, 233), // allocatedResources
    f(693, 11, 3, 169, 0, 0, 213), // resources
    f(921, 12, 1, 183, 9, 0, 234), // volumeMounts
    f(891, 13, 3, 184, 0, 0, 235), // user
    f(26, 14, 1, 185, 2, 0, 236), // allocatedResourcesStatus
    f(801, 15, 3, 0, 0, 0, 237), // stopSignal
    // io.k8s.api.core.v1.ContainerUser
    f(426, 1, 3, 186, 0, 0, 238), // linux
    // io.k8s.api.core.v1.DaemonEndpoint
    f(2, 1, 8, 29, 0, 3, 37), // Port
    // io.k8s.api.core.v1.DownwardAPIProjection
    f(381, 1, 1, 187, 1, 0, 239), // items
    // io.k8s.api.core.v1.DownwardAPIVolumeFile
    f(565, 1, 8, 0, 0, 1, 4), // path
    f(279, 2, 3, 188, 0, 0, 240), // fieldRef
    f(685, 3, 3, 189, 0, 0, 241), // resourceFieldRef
    f(486, 4, 3, 29, 0, 0, 37), // mode
    // io.k8s.api.core.v1.DownwardAPIVolumeSource
    f(381, 1, 1, 187, 1, 0, 239), // items
    f(179, 2, 3, 29, 0, 0, 37), // defaultMode
    // io.k8s.api.core.v1.EmptyDirVolumeSource
    f(466, 1, 1, 0, 0, 0, 242), // medium
    f(779, 2, 3, 110, 0, 0, 135), // sizeLimit
    // io.k8s.api.core.v1.EndpointAddress
    f(372, 1, 8, 0, 0, 1, 4), // ip
    f(340, 3, 1, 0, 0, 0, 4), // hostname
    f(512, 4, 3, 0, 0, 0, 4), // nodeName
    f(843, 2, 3, 158, 0, 0, 200), // targetRef
    // io.k8s.api.core.v1.EndpointPort
    f(494, 1, 1, 0, 0, 0, 4), // name
    f(605, 2, 8, 29, 0, 3, 37), // port
    f(630, 3, 1, 0, 0, 0, 224), // protocol
    f(51, 4, 3, 0, 0, 0, 4), // appProtocol
    // io.k8s.api.core.v1.EndpointSubset
    f(15, 1, 1, 190, 1, 0, 243), // addresses
    f(526, 2, 1, 190, 1, 0, 243), // notReadyAddresses
    f(607, 3, 1, 191, 1, 0, 244), // ports
    // io.k8s.api.core.v1.Endpoints
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(823, 2, 1, 192, 1, 0, 245), // subsets
    // io.k8s.api.core.v1.EndpointsList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 193, 0, 0, 246), // items
    // io.k8s.api.core.v1.EnvFromSource
    f(617, 1, 1, 0, 0, 0, 4), // prefix
    f(135, 2, 3, 194, 0, 0, 247), // configMapRef
    f(742, 3, 3, 195, 0, 0, 248), // secretRef
    // io.k8s.api.core.v1.EnvVar
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(900, 2, 1, 0, 0, 0, 4), // value
    f(902, 3, 3, 196, 0, 0, 249), // valueFrom
    // io.k8s.api.core.v1.EnvVarSource
    f(279, 1, 3, 188, 0, 0, 240), // fieldRef
    f(685, 2, 3, 189, 0, 0, 241), // resourceFieldRef
    f(134, 3, 3, 197, 0, 0, 250), // configMapKeyRef
    f(739, 4, 3, 198, 0, 0, 251), // secretKeyRef
    f(284, 5, 3, 199, 0, 0, 252), // fileKeyRef
    // io.k8s.api.core.v1.EphemeralContainer
    f(65535, 1, 4, 200, 0, 0, 253), // (inline)
    f(840, 2, 1, 0, 0, 0, 4), // targetContainerName
    // io.k8s.api.core.v1.EphemeralContainerCommon
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(351, 2, 1, 0, 0, 0, 4), // image
    f(122, 3, 1, 9, 1, 0, 13), // command
    f(54, 4, 1, 9, 1, 0, 13), // args
    f(941, 5, 1, 0, 0, 0, 4), // workingDir
    f(607, 6, 1, 166, 8, 0, 210), // ports
    f(236, 19, 1, 167, 1, 0, 211), // envFrom
    f(235, 7, 1, 168, 2, 0, 212), // env
    f(693, 8, 1, 169, 0, 2, 213), // resources
    f(678, 23, 1, 170, 1, 0, 214), // resizePolicy
    f(696, 24, 3, 0, 0, 0, 215), // restartPolicy
    f(697, 25, 1, 171, 1, 0, 216), // restartPolicyRules
    f(921, 9, 1, 172, 9, 0, 217), // volumeMounts
    f(916, 21, 1, 173, 10, 0, 218), // volumeDevices
    f(428, 10, 3, 174, 0, 0, 219), // livenessProbe
    f(645, 11, 3, 174, 0, 0, 219), // readinessProbe
    f(792, 22, 3, 174, 0, 0, 219), // startupProbe
    f(421, 12, 3, 175, 0, 0, 220), // lifecycle
    f(853, 13, 1, 0, 0, 0, 4), // terminationMessagePath
    f(854, 20, 1, 0, 0, 0, 221), // terminationMessagePolicy
    f(353, 14, 1, 0, 0, 0, 222), // imagePullPolicy
    f(744, 15, 3, 176, 0, 0, 223), // securityContext
    f(797, 16, 1, 5, 0, 0, 8), // stdin
    f(798, 17, 1, 5, 0, 0, 8), // stdinOnce
    f(875, 18, 1, 5, 0, 0, 8), // tty
    // io.k8s.api.core.v1.EphemeralVolumeSource
    f(914, 1, 3, 201, 0, 0, 254), // volumeClaimTemplate
    // io.k8s.api.core.v1.Event
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 8, 15, 0, 2, 20), // metadata
    f(371, 2, 8, 158, 0, 2, 200), // involvedObject
    f(648, 3, 1, 0, 0, 0, 4), // reason
    f(468, 4, 1, 0, 0, 0, 4), // message
    f(781, 5, 1, 202, 0, 2, 255), // source
    f(288, 6, 1, 53, 0, 0, 68), // firstTimestamp
    f(414, 7, 1, 53, 0, 0, 68), // lastTimestamp
    f(155, 8, 1, 29, 0, 0, 37), // count
    f(876, 9, 1, 0, 0, 0, 4), // type
    f(244, 10, 1, 154, 0, 0, 191), // eventTime
    f(751, 11, 3, 203, 0, 0, 256), // series
    f(6, 12, 1, 0, 0, 0, 4), // action
    f(656, 13, 3, 158, 0, 0, 200), // related
    f(660, 14, 0, 0, 0, 1, 4), // reportingComponent
    f(662, 15, 0, 0, 0, 1, 4), // reportingInstance
    // io.k8s.api.core.v1.EventList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 204, 0, 0, 257), // items
    // io.k8s.api.core.v1.EventSeries
    f(155, 1, 1, 29, 0, 0, 37), // count
    f(407, 2, 1, 154, 0, 0, 191), // lastObservedTime
    // io.k8s.api.core.v1.EventSource
    f(128, 1, 1, 0, 0, 0, 4), // component
    f(329, 2, 1, 0, 0, 0, 4), // host
    // io.k8s.api.core.v1.ExecAction
    f(122, 1, 1, 9, 1, 0, 13), // command
    // io.k8s.api.core.v1.FCVolumeSource
    f(845, 1, 1, 9, 1, 0, 13), // targetWWNs
    f(435, 2, 3, 29, 0, 0, 37), // lun
    f(299, 3, 1, 0, 0, 0, 4), // fsType
    f(642, 4, 1, 5, 0, 0, 8), // readOnly
    f(942, 5, 1, 9, 1, 0, 13), // wwids
    // io.k8s.api.core.v1.FileKeySelector
    f(922, 1, 8, 0, 0, 1, 4), // volumeName
    f(565, 2, 8, 0, 0, 1, 4), // path
    f(387, 3, 8, 0, 0, 1, 4), // key
    f(547, 4, 3, 5, 0, 4, 8), // optional
    // io.k8s.api.core.v1.FlexPersistentVolumeSource
    f(219, 1, 8, 0, 0, 1, 4), // driver
    f(299, 2, 1, 0, 0, 0, 4), // fsType
    f(742, 3, 3, 159, 0, 0, 201), // secretRef
    f(642, 4, 1, 5, 0, 0, 8), // readOnly
    f(549, 5, 1, 8, 0, 0, 12), // options
    // io.k8s.api.core.v1.FlexVolumeSource
    f(219, 1, 8, 0, 0, 1, 4), // driver
    f(299, 2, 1, 0, 0, 0, 4), // fsType
    f(742, 3, 3, 160, 0, 0, 202), // secretRef
    f(642, 4, 1, 5, 0, 0, 8), // readOnly
    f(549, 5, 1, 8, 0, 0, 12), // options
    // io.k8s.api.core.v1.FlockerVolumeSource
    f(174, 1, 1, 0, 0, 0, 4), // datasetName
    f(175, 2, 1, 0, 0, 0, 4), // datasetUUID
    // io.k8s.api.core.v1.GCEPersistentDiskVolumeSource
    f(572, 1, 8, 0, 0, 1, 4), // pdName
    f(299, 2, 1, 0, 0, 0, 4), // fsType
    f(562, 3, 1, 29, 0, 0, 37), // partition
    f(642, 4, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.GRPCAction
    f(605, 1, 8, 29, 0, 3, 37), // port
    f(756, 2, 2, 0, 0, 1, 4), // service
    // io.k8s.api.core.v1.GitRepoVolumeSource
    f(663, 1, 8, 0, 0, 1, 4), // repository
    f(700, 2, 1, 0, 0, 0, 4), // revision
    f(208, 3, 1, 0, 0, 0, 4), // directory
    // io.k8s.api.core.v1.GlusterfsPersistentVolumeSource
    f(231, 1, 8, 0, 0, 1, 4), // endpoints
    f(565, 2, 8, 0, 0, 1, 4), // path
    f(642, 3, 1, 5, 0, 0, 8), // readOnly
    f(232, 4, 3, 0, 0, 0, 4), // endpointsNamespace
    // io.k8s.api.core.v1.GlusterfsVolumeSource
    f(231, 1, 8, 0, 0, 1, 4), // endpoints
    f(565, 2, 8, 0, 0, 1, 4), // path
    f(642, 3, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.HTTPGetAction
    f(565, 1, 1, 0, 0, 0, 4), // path
    f(605, 2, 8, 69, 0, 0, 88), // port
    f(329, 3, 1, 0, 0, 0, 4), // host
    f(726, 4, 1, 0, 0, 0, 258), // scheme
    f(346, 5, 1, 205, 1, 0, 259), // httpHeaders
    // io.k8s.api.core.v1.HTTPHeader
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(900, 2, 8, 0, 0, 1, 4), // value
    // io.k8s.api.core.v1.HostAlias
    f(372, 1, 8, 0, 0, 1, 4), // ip
    f(342, 2, 1, 9, 1, 0, 13), // hostnames
    // io.k8s.api.core.v1.HostIP
    f(372, 1, 8, 0, 0, 1, 4), // ip
    // io.k8s.api.core.v1.HostPathVolumeSource
    f(565, 1, 8, 0, 0, 1, 4), // path
    f(876, 2, 3, 0, 0, 0, 260), // type
    // io.k8s.api.core.v1.ISCSIPersistentVolumeSource
    f(842, 1, 8, 0, 0, 1, 4), // targetPortal
    f(378, 2, 8, 0, 0, 1, 4), // iqn
    f(435, 3, 8, 29, 0, 3, 37), // lun
    f(380, 4, 1, 0, 0, 9, 4), // iscsiInterface
    f(299, 5, 1, 0, 0, 0, 4), // fsType
    f(642, 6, 1, 5, 0, 0, 8), // readOnly
    f(606, 7, 1, 9, 1, 0, 13), // portals
    f(103, 8, 1, 5, 0, 0, 8), // chapAuthDiscovery
    f(104, 11, 1, 5, 0, 0, 8), // chapAuthSession
    f(742, 10, 3, 159, 0, 0, 201), // secretRef
    f(364, 12, 3, 0, 0, 0, 4), // initiatorName
    // io.k8s.api.core.v1.ISCSIVolumeSource
    f(842, 1, 8, 0, 0, 1, 4), // targetPortal
    f(378, 2, 8, 0, 0, 1, 4), // iqn
    f(435, 3, 8, 29, 0, 3, 37), // lun
    f(380, 4, 1, 0, 0, 9, 4), // iscsiInterface
    f(299, 5, 1, 0, 0, 0, 4), // fsType
    f(642, 6, 1, 5, 0, 0, 8), // readOnly
    f(606, 7, 1, 9, 1, 0, 13), // portals
    f(103, 8, 1, 5, 0, 0, 8), // chapAuthDiscovery
    f(104, 11, 1, 5, 0, 0, 8), // chapAuthSession
    f(742, 10, 3, 160, 0, 0, 202), // secretRef
    f(364, 12, 3, 0, 0, 0, 4), // initiatorName
    // io.k8s.api.core.v1.ImageVolumeSource
    f(652, 1, 1, 0, 0, 0, 4), // reference
    f(634, 2, 1, 0, 0, 0, 222), // pullPolicy
    // io.k8s.api.core.v1.ImageVolumeStatus
    f(355, 1, 9, 0, 0, 0, 4), // imageRef
    // io.k8s.api.core.v1.KeyToPath
    f(387, 1, 8, 0, 0, 1, 4), // key
    f(565, 2, 8, 0, 0, 1, 4), // path
    f(486, 3, 3, 29, 0, 0, 37), // mode
    // io.k8s.api.core.v1.Lifecycle
    f(609, 1, 3, 206, 0, 0, 261), // postStart
    f(610, 2, 3, 206, 0, 0, 261), // preStop
    f(801, 3, 3, 0, 0, 0, 237), // stopSignal
    // io.k8s.api.core.v1.LifecycleHandler
    f(251, 1, 3, 207, 0, 0, 262), // exec
    f(345, 2, 3, 208, 0, 0, 263), // httpGet
    f(846, 3, 3, 209, 0, 0, 264), // tcpSocket
    f(780, 4, 3, 210, 0, 0, 265), // sleep
    // io.k8s.api.core.v1.LimitRange
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 211, 0, 2, 266), // spec
    // io.k8s.api.core.v1.LimitRangeItem
    f(876, 1, 8, 0, 0, 1, 267), // type
    f(453, 2, 1, 182, 0, 0, 233), // max
    f(473, 3, 1, 182, 0, 0, 233), // min
    f(177, 4, 1, 182, 0, 0, 233), // default
    f(180, 5, 1, 182, 0, 0, 233), // defaultRequest
    f(458, 6, 1, 182, 0, 0, 233), // maxLimitRequestRatio
    // io.k8s.api.core.v1.LimitRangeList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 212, 0, 0, 268), // items
    // io.k8s.api.core.v1.LimitRangeSpec
    f(425, 1, 8, 213, 1, 0, 269), // limits
    // io.k8s.api.core.v1.LinuxContainerUser
    f(878, 1, 8, 44, 0, 3, 56), // uid
    f(305, 2, 8, 44, 0, 3, 56), // gid
    f(830, 3, 1, 214, 1, 0, 270), // supplementalGroups
    // io.k8s.api.core.v1.LoadBalancerIngress
    f(372, 1, 1, 0, 0, 0, 4), // ip
    f(340, 2, 1, 0, 0, 0, 4), // hostname
    f(376, 3, 3, 0, 0, 0, 271), // ipMode
    f(607, 4, 1, 215, 1, 0, 272), // ports
    // io.k8s.api.core.v1.LoadBalancerStatus
    f(359, 1, 1, 216, 1, 0, 273), // ingress
    // io.k8s.api.core.v1.LocalObjectReference
    f(494, 1, 1, 0, 0, 1, 4), // name
    // io.k8s.api.core.v1.LocalVolumeSource
    f(565, 1, 8, 0, 0, 1, 4), // path
    f(299, 2, 3, 0, 0, 0, 4), // fsType
    // io.k8s.api.core.v1.ModifyVolumeStatus
    f(844, 1, 1, 0, 0, 0, 4), // targetVolumeAttributesClassName
    f(794, 2, 8, 0, 0, 1, 274), // status
    // io.k8s.api.core.v1.NFSVolumeSource
    f(753, 1, 8, 0, 0, 1, 4), // server
    f(565, 2, 8, 0, 0, 1, 4), // path
    f(642, 3, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.Namespace
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 217, 0, 2, 275), // spec
    f(794, 3, 1, 218, 0, 2, 276), // status
    // io.k8s.api.core.v1.NamespaceCondition
    f(876, 1, 8, 0, 0, 1, 277), // type
    f(794, 2, 8, 0, 0, 1, 67), // status
    f(415, 4, 1, 53, 0, 0, 68), // lastTransitionTime
    f(648, 5, 1, 0, 0, 0, 4), // reason
    f(468, 6, 1, 0, 0, 0, 4), // message
    // io.k8s.api.core.v1.NamespaceList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 219, 0, 0, 278), // items
    // io.k8s.api.core.v1.NamespaceSpec
    f(285, 1, 1, 9, 1, 0, 279), // finalizers
    // io.k8s.api.core.v1.NamespaceStatus
    f(579, 1, 1, 0, 0, 0, 280), // phase
    f(131, 2, 1, 220, 5, 0, 281), // conditions
    // io.k8s.api.core.v1.Node
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 221, 0, 2, 282), // spec
    f(794, 3, 1, 222, 0, 2, 283), // status
    // io.k8s.api.core.v1.NodeAddress
    f(876, 1, 8, 0, 0, 1, 284), // type
    f(13, 2, 8, 0, 0, 1, 4), // address
    // io.k8s.api.core.v1.NodeAffinity
    f(673, 1, 3, 223, 0, 0, 285), // requiredDuringSchedulingIgnoredDuringExecution
    f(614, 2, 1, 224, 1, 0, 286), // preferredDuringSchedulingIgnoredDuringExecution
    // io.k8s.api.core.v1.NodeAllocatableResourceClaimStatus
    f(681, 1, 8, 0, 0, 1, 4), // resourceClaimName
    f(147, 2, 1, 9, 3, 0, 13), // containers
    f(693, 3, 8, 182, 0, 0, 287), // resources
    // io.k8s.api.core.v1.NodeCondition
    f(876, 1, 8, 0, 0, 1, 288), // type
    f(794, 2, 8, 0, 0, 1, 67), // status
    f(405, 3, 1, 53, 0, 0, 68), // lastHeartbeatTime
    f(415, 4, 1, 53, 0, 0, 68), // lastTransitionTime
    f(648, 5, 1, 0, 0, 0, 4), // reason
    f(468, 6, 1, 0, 0, 0, 4), // message
    // io.k8s.api.core.v1.NodeConfigSource
    f(133, 2, 3, 225, 0, 0, 289), // configMap
    // io.k8s.api.core.v1.NodeConfigStatus
    f(55, 1, 3, 226, 0, 0, 290), // assigned
    f(7, 2, 3, 226, 0, 0, 290), // active
    f(406, 3, 3, 226, 0, 0, 290), // lastKnownGood
    f(241, 4, 1, 0, 0, 0, 4), // error
    // io.k8s.api.core.v1.NodeDaemonEndpoints
    f(395, 1, 1, 227, 0, 2, 291), // kubeletEndpoint
    // io.k8s.api.core.v1.NodeFeatures
    f(831, 1, 3, 5, 0, 0, 8), // supplementalGroupsPolicy
    // io.k8s.api.core.v1.NodeList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 228, 0, 0, 292), // items
    // io.k8s.api.core.v1.NodeProxyOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(565, 1, 1, 0, 0, 0, 4), // path
    // io.k8s.api.core.v1.NodeRuntimeHandler
    f(494, 1, 0, 0, 0, 1, 4), // name
    f(275, 2, 3, 229, 0, 0, 293), // features
    // io.k8s.api.core.v1.NodeRuntimeHandlerFeatures
    f(651, 1, 3, 5, 0, 0, 8), // recursiveReadOnlyMounts
    f(894, 2, 3, 5, 0, 0, 8), // userNamespaces
    // io.k8s.api.core.v1.NodeSelector
    f(516, 1, 8, 230, 1, 0, 294), // nodeSelectorTerms
    // io.k8s.api.core.v1.NodeSelectorRequirement
    f(387, 1, 8, 0, 0, 1, 4), // key
    f(546, 2, 8, 0, 0, 1, 295), // operator
    f(903, 3, 1, 9, 1, 0, 13), // values
    // io.k8s.api.core.v1.NodeSelectorTerm
    f(445, 1, 1, 231, 1, 0, 296), // matchExpressions
    f(446, 2, 1, 231, 1, 0, 296), // matchFields
    // io.k8s.api.core.v1.NodeSpec
    f(588, 1, 1, 0, 0, 0, 4), // podCIDR
    f(589, 7, 1, 9, 11, 0, 13), // podCIDRs
    f(631, 3, 1, 0, 0, 0, 4), // providerID
    f(883, 4, 1, 5, 0, 0, 8), // unschedulable
    f(837, 5, 1, 232, 1, 0, 297), // taints
    f(136, 6, 3, 226, 0, 0, 290), // configSource
    f(264, 2, 1, 0, 0, 0, 4), // externalID
    // io.k8s.api.core.v1.NodeStatus
    f(94, 1, 1, 182, 0, 0, 233), // capacity
    f(22, 2, 1, 182, 0, 0, 233), // allocatable
    f(579, 3, 1, 0, 0, 0, 298), // phase
    f(131, 4, 1, 233, 5, 0, 299), // conditions
    f(15, 5, 1, 234, 5, 0, 300), // addresses
    f(170, 6, 1, 235, 0, 2, 301), // daemonEndpoints
    f(511, 7, 1, 236, 0, 2, 302), // nodeInfo
    f(356, 8, 1, 237, 1, 0, 303), // images
    f(928, 9, 1, 9, 1, 0, 304), // volumesInUse
    f(927, 10, 1, 238, 1, 0, 305), // volumesAttached
    f(132, 11, 3, 239, 0, 0, 306), // config
    f(714, 12, 1, 240, 1, 0, 307), // runtimeHandlers
    f(275, 13, 3, 241, 0, 0, 308), // features
    f(176, 14, 1, 9, 1, 0, 13), // declaredFeatures
    // io.k8s.api.core.v1.NodeSwapStatus
    f(94, 1, 3, 44, 0, 0, 56), // capacity
    // io.k8s.api.core.v1.NodeSystemInfo
    f(436, 1, 8, 0, 0, 1, 4), // machineID
    f(836, 2, 8, 0, 0, 1, 4), // systemUUID
    f(86, 3, 8, 0, 0, 1, 4), // bootID
    f(386, 4, 8, 0, 0, 1, 4), // kernelVersion
    f(553, 5, 8, 0, 0, 1, 4), // osImage
    f(145, 6, 8, 0, 0, 1, 4), // containerRuntimeVersion
    f(396, 7, 8, 0, 0, 1, 4), // kubeletVersion
    f(392, 8, 8, 0, 0, 1, 4), // kubeProxyVersion
    f(543, 9, 8, 0, 0, 1, 4), // operatingSystem
    f(53, 10, 8, 0, 0, 1, 4), // architecture
    f(833, 11, 3, 242, 0, 0, 309), // swap
    // io.k8s.api.core.v1.ObjectFieldSelector
    f(41, 1, 1, 0, 0, 0, 4), // apiVersion
    f(278, 2, 8, 0, 0, 1, 4), // fieldPath
    // io.k8s.api.core.v1.ObjectReference
    f(391, 1, 1, 0, 0, 0, 4), // kind
    f(497, 2, 1, 0, 0, 0, 4), // namespace
    f(494, 3, 1, 0, 0, 0, 4), // name
    f(878, 4, 1, 0, 0, 0, 1), // uid
    f(41, 5, 1, 0, 0, 0, 4), // apiVersion
    f(691, 6, 1, 0, 0, 0, 4), // resourceVersion
    f(278, 7, 1, 0, 0, 0, 4), // fieldPath
    // io.k8s.api.core.v1.PersistentVolume
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 243, 0, 2, 310), // spec
    f(794, 3, 1, 244, 0, 2, 311), // status
    // io.k8s.api.core.v1.PersistentVolumeClaim
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 245, 0, 2, 312), // spec
    f(794, 3, 1, 246, 0, 2, 313), // status
    // io.k8s.api.core.v1.PersistentVolumeClaimCondition
    f(876, 1, 8, 0, 0, 1, 314), // type
    f(794, 2, 8, 0, 0, 1, 67), // status
    f(409, 3, 1, 53, 0, 0, 68), // lastProbeTime
    f(415, 4, 1, 53, 0, 0, 68), // lastTransitionTime
    f(648, 5, 1, 0, 0, 0, 4), // reason
    f(468, 6, 1, 0, 0, 0, 4), // message
    // io.k8s.api.core.v1.PersistentVolumeClaimList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 73, 0, 0, 94), // items
    // io.k8s.api.core.v1.PersistentVolumeClaimSpec
    f(4, 1, 1, 9, 1, 0, 315), // accessModes
    f(747, 4, 3, 13, 0, 0, 17), // selector
    f(693, 2, 1, 247, 0, 2, 316), // resources
    f(922, 3, 1, 0, 0, 0, 4), // volumeName
    f(804, 5, 3, 0, 0, 0, 4), // storageClassName
    f(920, 6, 3, 0, 0, 0, 317), // volumeMode
    f(172, 7, 3, 248, 0, 0, 318), // dataSource
    f(173, 8, 3, 249, 0, 0, 319), // dataSourceRef
    f(912, 9, 3, 0, 0, 0, 4), // volumeAttributesClassName
    // io.k8s.api.core.v1.PersistentVolumeClaimStatus
    f(579, 1, 1, 0, 0, 0, 320), // phase
    f(4, 2, 1, 9, 1, 0, 315), // accessModes
    f(94, 3, 1, 182, 0, 0, 233), // capacity
    f(131, 4, 1, 250, 5, 0, 321), // conditions
    f(25, 5, 1, 182, 0, 0, 233), // allocatedResources
    f(24, 7, 1, 8, 12, 0, 322), // allocatedResourceStatuses
    f(169, 8, 3, 0, 0, 0, 4), // currentVolumeAttributesClassName
    f(487, 9, 3, 251, 0, 0, 323), // modifyVolumeStatus
    // io.k8s.api.core.v1.PersistentVolumeClaimTemplate
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 8, 245, 0, 2, 312), // spec
    // io.k8s.api.core.v1.PersistentVolumeClaimVolumeSource
    f(108, 1, 8, 0, 0, 1, 4), // claimName
    f(642, 2, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.PersistentVolumeList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 252, 0, 0, 324), // items
    // io.k8s.api.core.v1.PersistentVolumeSource
    f(302, 1, 3, 253, 0, 0, 325), // gcePersistentDisk
    f(70, 2, 3, 254, 0, 0, 326), // awsElasticBlockStore
    f(336, 3, 3, 255, 0, 0, 327), // hostPath
    f(311, 4, 3, 256, 0, 0, 328), // glusterfs
    f(502, 5, 3, 257, 0, 0, 329), // nfs
    f(641, 6, 3, 258, 0, 0, 330), // rbd
    f(379, 7, 3, 259, 0, 0, 331), // iscsi
    f(107, 8, 3, 260, 0, 0, 332), // cinder
    f(100, 9, 3, 261, 0, 0, 333), // cephfs
    f(274, 10, 3, 262, 0, 0, 334), // fc
    f(290, 11, 3, 263, 0, 0, 335), // flocker
    f(289, 12, 3, 264, 0, 0, 336), // flexVolume
    f(72, 13, 3, 265, 0, 0, 337), // azureFile
    f(929, 14, 3, 266, 0, 0, 338), // vsphereVolume
    f(639, 15, 3, 267, 0, 0, 339), // quobyte
    f(71, 16, 3, 268, 0, 0, 340), // azureDisk
    f(580, 17, 3, 269, 0, 0, 341), // photonPersistentDisk
    f(608, 18, 3, 270, 0, 0, 342), // portworxVolume
    f(717, 19, 3, 271, 0, 0, 343), // scaleIO
    f(433, 20, 3, 272, 0, 0, 344), // local
    f(810, 21, 3, 273, 0, 0, 345), // storageos
    f(161, 22, 3, 274, 0, 0, 346), // csi
    // io.k8s.api.core.v1.PersistentVolumeSpec
    f(94, 1, 1, 182, 0, 0, 233), // capacity
    f(65535, 2, 4, 275, 0, 0, 347), // (inline)
    f(4, 3, 1, 9, 1, 0, 315), // accessModes
    f(109, 4, 3, 158, 12, 0, 200), // claimRef
    f(578, 5, 1, 0, 0, 0, 348), // persistentVolumeReclaimPolicy
    f(804, 6, 1, 0, 0, 0, 4), // storageClassName
    f(489, 7, 1, 9, 1, 0, 13), // mountOptions
    f(920, 8, 3, 0, 0, 0, 317), // volumeMode
    f(504, 9, 3, 276, 0, 0, 349), // nodeAffinity
    f(912, 10, 3, 0, 0, 0, 4), // volumeAttributesClassName
    // io.k8s.api.core.v1.PersistentVolumeStatus
    f(579, 1, 1, 0, 0, 0, 350), // phase
    f(468, 2, 1, 0, 0, 0, 4), // message
    f(648, 3, 1, 0, 0, 0, 4), // reason
    f(408, 4, 3, 53, 0, 0, 68), // lastPhaseTransitionTime
    // io.k8s.api.core.v1.PhotonPersistentDiskVolumeSource
    f(571, 1, 8, 0, 0, 1, 4), // pdID
    f(299, 2, 1, 0, 0, 0, 4), // fsType
    // io.k8s.api.core.v1.Pod
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 277, 0, 2, 351), // spec
    f(794, 3, 1, 278, 0, 2, 352), // status
    // io.k8s.api.core.v1.PodAffinity
    f(673, 1, 1, 279, 1, 0, 353), // requiredDuringSchedulingIgnoredDuringExecution
    f(614, 2, 1, 280, 1, 0, 354), // preferredDuringSchedulingIgnoredDuringExecution
    // io.k8s.api.core.v1.PodAffinityTerm
    f(402, 1, 3, 13, 0, 0, 17), // labelSelector
    f(500, 2, 1, 9, 1, 0, 13), // namespaces
    f(870, 3, 8, 0, 0, 1, 4), // topologyKey
    f(498, 4, 3, 13, 0, 0, 17), // namespaceSelector
    f(448, 5, 1, 9, 1, 0, 13), // matchLabelKeys
    f(485, 6, 1, 9, 1, 0, 13), // mismatchLabelKeys
    // io.k8s.api.core.v1.PodAntiAffinity
    f(673, 1, 1, 279, 1, 0, 353), // requiredDuringSchedulingIgnoredDuringExecution
    f(614, 2, 1, 280, 1, 0, 354), // preferredDuringSchedulingIgnoredDuringExecution
    // io.k8s.api.core.v1.PodAttachOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(797, 1, 1, 5, 0, 0, 8), // stdin
    f(799, 2, 1, 5, 0, 0, 8), // stdout
    f(796, 3, 1, 5, 0, 0, 8), // stderr
    f(875, 4, 1, 5, 0, 0, 8), // tty
    f(140, 5, 1, 0, 0, 0, 4), // container
    // io.k8s.api.core.v1.PodCertificateProjection
    f(775, 1, 9, 0, 0, 0, 4), // signerName
    f(389, 2, 9, 0, 0, 0, 4), // keyType
    f(454, 3, 3, 29, 0, 0, 37), // maxExpirationSeconds
    f(160, 4, 1, 0, 0, 0, 4), // credentialBundlePath
    f(388, 5, 1, 0, 0, 0, 4), // keyPath
    f(102, 6, 1, 0, 0, 0, 4), // certificateChainPath
    f(892, 7, 1, 8, 0, 0, 12), // userAnnotations
    // io.k8s.api.core.v1.PodCondition
    f(876, 1, 8, 0, 0, 1, 177), // type
    f(536, 7, 1, 44, 0, 0, 56), // observedGeneration
    f(794, 2, 8, 0, 0, 1, 67), // status
    f(409, 3, 1, 53, 0, 0, 68), // lastProbeTime
    f(415, 4, 1, 53, 0, 0, 68), // lastTransitionTime
    f(648, 5, 1, 0, 0, 0, 4), // reason
    f(468, 6, 1, 0, 0, 0, 4), // message
    // io.k8s.api.core.v1.PodDNSConfig
    f(496, 1, 1, 9, 1, 0, 13), // nameservers
    f(734, 2, 1, 9, 1, 0, 13), // searches
    f(549, 3, 1, 281, 1, 0, 355), // options
    // io.k8s.api.core.v1.PodDNSConfigOption
    f(494, 1, 1, 0, 0, 0, 4), // name
    f(900, 2, 3, 0, 0, 0, 4), // value
    // io.k8s.api.core.v1.PodExecOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(797, 1, 1, 5, 0, 0, 8), // stdin
    f(799, 2, 1, 5, 0, 0, 8), // stdout
    f(796, 3, 1, 5, 0, 0, 8), // stderr
    f(875, 4, 1, 5, 0, 0, 8), // tty
    f(140, 5, 1, 0, 0, 0, 4), // container
    f(122, 6, 0, 9, 0, 0, 13), // command
    // io.k8s.api.core.v1.PodExtendedResourceClaimStatus
    f(666, 1, 8, 282, 1, 0, 356), // requestMappings
    f(681, 2, 8, 0, 0, 1, 4), // resourceClaimName
    // io.k8s.api.core.v1.PodIP
    f(372, 1, 8, 0, 0, 1, 4), // ip
    // io.k8s.api.core.v1.PodList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 283, 0, 0, 357), // items
    // io.k8s.api.core.v1.PodOS
    f(494, 1, 8, 0, 0, 1, 358), // name
    // io.k8s.api.core.v1.PodPortForwardOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(607, 1, 1, 143, 0, 0, 176), // ports
    // io.k8s.api.core.v1.PodProxyOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(565, 1, 1, 0, 0, 0, 4), // path
    // io.k8s.api.core.v1.PodReadinessGate
    f(130, 1, 8, 0, 0, 1, 177), // conditionType
    // io.k8s.api.core.v1.PodResourceClaim
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(681, 3, 3, 0, 0, 0, 4), // resourceClaimName
    f(683, 4, 3, 0, 0, 0, 4), // resourceClaimTemplateName
    // io.k8s.api.core.v1.PodResourceClaimStatus
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(681, 2, 3, 0, 0, 0, 4), // resourceClaimName
    // io.k8s.api.core.v1.PodSchedulingGate
    f(494, 1, 8, 0, 0, 1, 4), // name
    // io.k8s.api.core.v1.PodSchedulingGroup
    f(593, 1, 3, 0, 0, 0, 4), // podGroupName
    // io.k8s.api.core.v1.PodSecurityContext
    f(733, 1, 3, 284, 0, 0, 359), // seLinuxOptions
    f(940, 8, 3, 285, 0, 0, 360), // windowsOptions
    f(710, 2, 3, 44, 0, 0, 56), // runAsUser
    f(708, 6, 3, 44, 0, 0, 56), // runAsGroup
    f(709, 3, 3, 5, 0, 0, 8), // runAsNonRoot
    f(830, 4, 1, 214, 1, 0, 270), // supplementalGroups
    f(831, 12, 3, 0, 0, 0, 361), // supplementalGroupsPolicy
    f(296, 5, 3, 44, 0, 0, 56), // fsGroup
    f(834, 7, 1, 286, 1, 0, 362), // sysctls
    f(297, 9, 3, 0, 0, 0, 363), // fsGroupChangePolicy
    f(735, 10, 3, 287, 0, 0, 364), // seccompProfile
    f(50, 11, 3, 288, 0, 0, 365), // appArmorProfile
    f(731, 13, 3, 0, 0, 0, 366), // seLinuxChangePolicy
    // io.k8s.api.core.v1.PodSpec
    f(926, 1, 1, 289, 13, 0, 367), // volumes
    f(362, 20, 1, 290, 2, 0, 368), // initContainers
    f(147, 2, 8, 290, 2, 0, 368), // containers
    f(240, 34, 1, 291, 2, 0, 369), // ephemeralContainers
    f(696, 3, 1, 0, 0, 0, 370), // restartPolicy
    f(852, 4, 3, 44, 0, 0, 56), // terminationGracePeriodSeconds
    f(8, 5, 3, 44, 0, 0, 56), // activeDeadlineSeconds
    f(217, 6, 1, 0, 0, 0, 371), // dnsPolicy
    f(515, 7, 1, 8, 14, 0, 12), // nodeSelector
    f(758, 8, 1, 0, 0, 0, 4), // serviceAccountName
    f(757, 9, 1, 0, 0, 0, 4), // serviceAccount
    f(66, 21, 3, 5, 0, 0, 8), // automountServiceAccountToken
    f(512, 10, 1, 0, 0, 0, 4), // nodeName
    f(334, 11, 1, 5, 0, 0, 8), // hostNetwork
    f(335, 12, 1, 5, 0, 0, 8), // hostPID
    f(332, 13, 1, 5, 0, 0, 8), // hostIPC
    f(770, 27, 3, 5, 0, 0, 8), // shareProcessNamespace
    f(744, 14, 3, 292, 0, 0, 372), // securityContext
    f(354, 15, 1, 293, 2, 0, 373), // imagePullSecrets
    f(340, 16, 1, 0, 0, 0, 4), // hostname
    f(819, 17, 1, 0, 0, 0, 4), // subdomain
    f(18, 18, 3, 294, 0, 0, 374), // affinity
    f(721, 19, 1, 0, 0, 0, 4), // schedulerName
    f(867, 22, 1, 295, 1, 0, 375), // tolerations
    f(330, 23, 1, 296, 15, 0, 376), // hostAliases
    f(621, 24, 1, 0, 0, 0, 4), // priorityClassName
    f(620, 25, 3, 29, 0, 0, 37), // priority
    f(216, 26, 3, 297, 0, 0, 377), // dnsConfig
    f(644, 28, 1, 298, 1, 0, 378), // readinessGates
    f(713, 29, 3, 0, 0, 0, 4), // runtimeClassName
    f(229, 30, 3, 5, 0, 0, 8), // enableServiceLinks
    f(612, 31, 3, 0, 0, 0, 379), // preemptionPolicy
    f(554, 32, 1, 182, 0, 0, 233), // overhead
    f(872, 33, 1, 299, 16, 0, 380), // topologySpreadConstraints
    f(765, 35, 3, 5, 0, 0, 8), // setHostnameAsFQDN
    f(552, 36, 3, 300, 0, 0, 381), // os
    f(339, 37, 3, 5, 0, 0, 8), // hostUsers
    f(723, 38, 1, 301, 2, 0, 382), // schedulingGates
    f(684, 39, 1, 302, 13, 0, 383), // resourceClaims
    f(693, 40, 3, 169, 0, 0, 213), // resources
    f(341, 41, 3, 0, 0, 0, 4), // hostnameOverride
    f(724, 43, 3, 303, 0, 0, 384), // schedulingGroup
    // io.k8s.api.core.v1.PodStatus
    f(536, 17, 1, 44, 0, 0, 56), // observedGeneration
    f(579, 1, 1, 0, 0, 0, 385), // phase
    f(131, 2, 1, 304, 5, 0, 386), // conditions
    f(468, 3, 1, 0, 0, 0, 4), // message
    f(648, 4, 1, 0, 0, 0, 4), // reason
    f(521, 11, 1, 0, 0, 0, 4), // nominatedNodeName
    f(331, 5, 1, 0, 0, 0, 4), // hostIP
    f(333, 16, 1, 305, 17, 0, 387), // hostIPs
    f(594, 6, 1, 0, 0, 0, 4), // podIP
    f(595, 12, 1, 306, 15, 0, 388), // podIPs
    f(788, 7, 3, 53, 0, 0, 68), // startTime
    f(361, 10, 1, 307, 1, 0, 389), // initContainerStatuses
    f(146, 8, 1, 307, 1, 0, 389), // containerStatuses
    f(635, 9, 1, 0, 0, 0, 390), // qosClass
    f(239, 13, 1, 307, 1, 0, 389), // ephemeralContainerStatuses
    f(677, 14, 1, 0, 0, 0, 391), // resize
    f(682, 15, 1, 308, 13, 0, 392), // resourceClaimStatuses
    f(260, 18, 3, 309, 0, 0, 393), // extendedResourceClaimStatus
    f(25, 19, 1, 182, 0, 0, 233), // allocatedResources
    f(693, 20, 3, 169, 0, 0, 213), // resources
    f(506, 21, 1, 310, 1, 0, 394), // nodeAllocatableResourceClaimStatuses
    // io.k8s.api.core.v1.PodTemplate
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(847, 2, 1, 55, 0, 2, 70), // template
    // io.k8s.api.core.v1.PodTemplateList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 311, 0, 0, 395), // items
    // io.k8s.api.core.v1.PodTemplateSpec
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 277, 0, 2, 351), // spec
    // io.k8s.api.core.v1.PortStatus
    f(605, 1, 8, 29, 0, 3, 37), // port
    f(630, 2, 8, 0, 0, 1, 224), // protocol
    f(241, 3, 3, 0, 0, 0, 4), // error
    // io.k8s.api.core.v1.PortworxVolumeSource
    f(918, 1, 8, 0, 0, 1, 4), // volumeID
    f(299, 2, 1, 0, 0, 0, 4), // fsType
    f(642, 3, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.PreferredSchedulingTerm
    f(936, 1, 8, 29, 0, 3, 37), // weight
    f(613, 2, 8, 312, 0, 2, 396), // preference
    // io.k8s.api.core.v1.Probe
    f(65535, 1, 4, 313, 0, 0, 397), // (inline)
    f(363, 2, 1, 29, 0, 0, 37), // initialDelaySeconds
    f(859, 3, 1, 29, 0, 0, 37), // timeoutSeconds
    f(574, 4, 1, 29, 0, 0, 37), // periodSeconds
    f(828, 5, 1, 29, 0, 0, 37), // successThreshold
    f(273, 6, 1, 29, 0, 0, 37), // failureThreshold
    f(852, 7, 3, 44, 0, 0, 56), // terminationGracePeriodSeconds
    // io.k8s.api.core.v1.ProbeHandler
    f(251, 1, 3, 207, 0, 0, 262), // exec
    f(345, 2, 3, 208, 0, 0, 263), // httpGet
    f(846, 3, 3, 209, 0, 0, 264), // tcpSocket
    f(320, 4, 3, 314, 0, 0, 398), // grpc
    // io.k8s.api.core.v1.ProjectedVolumeSource
    f(782, 1, 0, 315, 1, 0, 399), // sources
    f(179, 2, 3, 29, 0, 0, 37), // defaultMode
    // io.k8s.api.core.v1.QuobyteVolumeSource
    f(654, 1, 8, 0, 0, 1, 4), // registry
    f(910, 2, 8, 0, 0, 1, 4), // volume
    f(642, 3, 1, 5, 0, 0, 8), // readOnly
    f(891, 4, 1, 0, 0, 0, 4), // user
    f(316, 5, 1, 0, 0, 0, 4), // group
    f(848, 6, 1, 0, 0, 0, 4), // tenant
    // io.k8s.api.core.v1.RBDPersistentVolumeSource
    f(488, 1, 8, 9, 1, 0, 13), // monitors
    f(351, 2, 8, 0, 0, 1, 4), // image
    f(299, 3, 1, 0, 0, 0, 4), // fsType
    f(604, 4, 1, 0, 0, 10, 4), // pool
    f(891, 5, 1, 0, 0, 11, 4), // user
    f(390, 6, 1, 0, 0, 12, 4), // keyring
    f(742, 7, 3, 159, 0, 0, 201), // secretRef
    f(642, 8, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.RBDVolumeSource
    f(488, 1, 8, 9, 1, 0, 13), // monitors
    f(351, 2, 8, 0, 0, 1, 4), // image
    f(299, 3, 1, 0, 0, 0, 4), // fsType
    f(604, 4, 1, 0, 0, 10, 4), // pool
    f(891, 5, 1, 0, 0, 11, 4), // user
    f(390, 6, 1, 0, 0, 12, 4), // keyring
    f(742, 7, 3, 160, 0, 0, 202), // secretRef
    f(642, 8, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.ReplicationController
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 316, 0, 2, 400), // spec
    f(794, 3, 1, 317, 0, 2, 401), // status
    // io.k8s.api.core.v1.ReplicationControllerCondition
    f(876, 1, 8, 0, 0, 1, 402), // type
    f(794, 2, 8, 0, 0, 1, 67), // status
    f(415, 3, 1, 53, 0, 0, 68), // lastTransitionTime
    f(648, 4, 1, 0, 0, 0, 4), // reason
    f(468, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.api.core.v1.ReplicationControllerList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 318, 0, 0, 403), // items
    // io.k8s.api.core.v1.ReplicationControllerSpec
    f(659, 1, 3, 29, 0, 13, 37), // replicas
    f(481, 4, 1, 29, 0, 3, 37), // minReadySeconds
    f(747, 2, 1, 8, 14, 0, 12), // selector
    f(847, 3, 3, 55, 0, 0, 70), // template
    // io.k8s.api.core.v1.ReplicationControllerStatus
    f(659, 1, 8, 29, 0, 3, 37), // replicas
    f(300, 2, 1, 29, 0, 0, 37), // fullyLabeledReplicas
    f(647, 4, 1, 29, 0, 0, 37), // readyReplicas
    f(67, 5, 1, 29, 0, 0, 37), // availableReplicas
    f(536, 3, 1, 44, 0, 0, 56), // observedGeneration
    f(131, 6, 1, 319, 5, 0, 404), // conditions
    // io.k8s.api.core.v1.ResourceClaim
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(664, 2, 1, 0, 0, 0, 4), // request
    // io.k8s.api.core.v1.ResourceFieldSelector
    f(142, 1, 1, 0, 0, 0, 4), // containerName
    f(679, 2, 8, 0, 0, 1, 4), // resource
    f(215, 3, 1, 110, 0, 0, 135), // divisor
    // io.k8s.api.core.v1.ResourceHealth
    f(686, 1, 8, 0, 0, 1, 405), // resourceID
    f(325, 2, 1, 0, 0, 0, 406), // health
    f(468, 6, 3, 0, 0, 0, 4), // message
    // io.k8s.api.core.v1.ResourceQuota
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 320, 0, 2, 407), // spec
    f(794, 3, 1, 321, 0, 2, 408), // status
    // io.k8s.api.core.v1.ResourceQuotaList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 322, 0, 0, 409), // items
    // io.k8s.api.core.v1.ResourceQuotaSpec
    f(323, 1, 1, 182, 0, 0, 233), // hard
    f(730, 2, 1, 9, 1, 0, 410), // scopes
    f(729, 3, 3, 323, 0, 0, 411), // scopeSelector
    // io.k8s.api.core.v1.ResourceQuotaStatus
    f(323, 1, 1, 182, 0, 0, 233), // hard
    f(890, 2, 1, 182, 0, 0, 233), // used
    // io.k8s.api.core.v1.ResourceRequirements
    f(425, 1, 1, 182, 0, 0, 233), // limits
    f(671, 2, 1, 182, 0, 0, 233), // requests
    f(110, 3, 1, 324, 18, 0, 412), // claims
    // io.k8s.api.core.v1.ResourceStatus
    f(494, 1, 8, 0, 0, 1, 128), // name
    f(693, 2, 1, 325, 19, 0, 413), // resources
    // io.k8s.api.core.v1.SELinuxOptions
    f(891, 1, 1, 0, 0, 0, 4), // user
    f(702, 2, 1, 0, 0, 0, 4), // role
    f(876, 3, 1, 0, 0, 0, 4), // type
    f(420, 4, 1, 0, 0, 0, 4), // level
    // io.k8s.api.core.v1.ScaleIOPersistentVolumeSource
    f(301, 1, 8, 0, 0, 1, 4), // gateway
    f(835, 2, 8, 0, 0, 1, 4), // system
    f(742, 3, 10, 159, 0, 0, 201), // secretRef
    f(785, 4, 1, 5, 0, 0, 8), // sslEnabled
    f(629, 5, 1, 0, 0, 0, 4), // protectionDomain
    f(808, 6, 1, 0, 0, 0, 4), // storagePool
    f(805, 7, 1, 0, 0, 14, 4), // storageMode
    f(922, 8, 1, 0, 0, 0, 4), // volumeName
    f(299, 9, 1, 0, 0, 15, 4), // fsType
    f(642, 10, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.ScaleIOVolumeSource
    f(301, 1, 8, 0, 0, 1, 4), // gateway
    f(835, 2, 8, 0, 0, 1, 4), // system
    f(742, 3, 10, 160, 0, 0, 202), // secretRef
    f(785, 4, 1, 5, 0, 0, 8), // sslEnabled
    f(629, 5, 1, 0, 0, 0, 4), // protectionDomain
    f(808, 6, 1, 0, 0, 0, 4), // storagePool
    f(805, 7, 1, 0, 0, 14, 4), // storageMode
    f(922, 8, 1, 0, 0, 0, 4), // volumeName
    f(299, 9, 1, 0, 0, 15, 4), // fsType
    f(642, 10, 1, 5, 0, 0, 8), // readOnly
    // io.k8s.api.core.v1.ScopeSelector
    f(445, 1, 1, 326, 1, 0, 414), // matchExpressions
    // io.k8s.api.core.v1.ScopedResourceSelectorRequirement
    f(728, 1, 8, 0, 0, 1, 415), // scopeName
    f(546, 2, 8, 0, 0, 1, 416), // operator
    f(903, 3, 1, 9, 1, 0, 13), // values
    // io.k8s.api.core.v1.SeccompProfile
    f(876, 1, 8, 0, 0, 1, 417), // type
    f(434, 2, 3, 0, 0, 0, 4), // localhostProfile
    // io.k8s.api.core.v1.Secret
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(357, 5, 3, 5, 0, 0, 8), // immutable
    f(171, 2, 1, 163, 0, 0, 207), // data
    f(814, 4, 1, 8, 0, 0, 12), // stringData
    f(876, 3, 1, 0, 0, 0, 418), // type
    // io.k8s.api.core.v1.SecretEnvSource
    f(65535, 1, 4, 160, 0, 0, 202), // (inline)
    f(547, 2, 3, 5, 0, 0, 8), // optional
    // io.k8s.api.core.v1.SecretKeySelector
    f(65535, 1, 4, 160, 0, 0, 202), // (inline)
    f(387, 2, 8, 0, 0, 1, 4), // key
    f(547, 3, 3, 5, 0, 0, 8), // optional
    // io.k8s.api.core.v1.SecretList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 327, 0, 0, 419), // items
    // io.k8s.api.core.v1.SecretProjection
    f(65535, 1, 4, 160, 0, 0, 202), // (inline)
    f(381, 2, 1, 165, 1, 0, 209), // items
    f(547, 4, 3, 5, 0, 0, 8), // optional
    // io.k8s.api.core.v1.SecretReference
    f(494, 1, 1, 0, 0, 0, 4), // name
    f(497, 2, 1, 0, 0, 0, 4), // namespace
    // io.k8s.api.core.v1.SecretVolumeSource
    f(740, 1, 1, 0, 0, 0, 4), // secretName
    f(381, 2, 1, 165, 1, 0, 209), // items
    f(179, 3, 3, 29, 0, 0, 37), // defaultMode
    f(547, 4, 3, 5, 0, 0, 8), // optional
    // io.k8s.api.core.v1.SecurityContext
    f(93, 1, 3, 328, 0, 0, 420), // capabilities
    f(623, 2, 3, 5, 0, 0, 8), // privileged
    f(733, 3, 3, 284, 0, 0, 359), // seLinuxOptions
    f(940, 10, 3, 285, 0, 0, 360), // windowsOptions
    f(710, 4, 3, 44, 0, 0, 56), // runAsUser
    f(708, 8, 3, 44, 0, 0, 56), // runAsGroup
    f(709, 5, 3, 5, 0, 0, 8), // runAsNonRoot
    f(643, 6, 3, 5, 0, 0, 8), // readOnlyRootFilesystem
    f(32, 7, 3, 5, 0, 0, 8), // allowPrivilegeEscalation
    f(624, 9, 3, 0, 0, 0, 421), // procMount
    f(735, 11, 3, 287, 0, 0, 364), // seccompProfile
    f(50, 12, 3, 288, 0, 0, 365), // appArmorProfile
    // io.k8s.api.core.v1.SerializedReference
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(652, 1, 1, 158, 0, 0, 200), // reference
    // io.k8s.api.core.v1.Service
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 329, 0, 2, 422), // spec
    f(794, 3, 1, 330, 0, 2, 423), // status
    // io.k8s.api.core.v1.ServiceAccount
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(743, 2, 1, 134, 2, 0, 163), // secrets
    f(354, 3, 1, 293, 1, 0, 373), // imagePullSecrets
    f(66, 4, 3, 5, 0, 0, 8), // automountServiceAccountToken
    // io.k8s.api.core.v1.ServiceAccountList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 331, 0, 0, 424), // items
    // io.k8s.api.core.v1.ServiceAccountTokenProjection
    f(62, 1, 1, 0, 0, 0, 4), // audience
    f(256, 2, 3, 44, 0, 0, 56), // expirationSeconds
    f(565, 3, 8, 0, 0, 1, 4), // path
    // io.k8s.api.core.v1.ServiceList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 332, 0, 0, 425), // items
    // io.k8s.api.core.v1.ServicePort
    f(494, 1, 1, 0, 0, 0, 4), // name
    f(630, 2, 1, 0, 0, 8, 224), // protocol
    f(51, 6, 3, 0, 0, 0, 4), // appProtocol
    f(605, 3, 8, 29, 0, 3, 37), // port
    f(841, 4, 1, 69, 0, 0, 88), // targetPort
    f(513, 5, 1, 29, 0, 0, 37), // nodePort
    // io.k8s.api.core.v1.ServiceProxyOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(565, 1, 1, 0, 0, 0, 4), // path
    // io.k8s.api.core.v1.ServiceSpec
    f(607, 1, 1, 333, 20, 0, 426), // ports
    f(747, 2, 1, 8, 14, 0, 12), // selector
    f(114, 3, 1, 0, 0, 0, 4), // clusterIP
    f(115, 18, 1, 9, 1, 0, 13), // clusterIPs
    f(876, 4, 1, 0, 0, 0, 427), // type
    f(265, 5, 1, 9, 1, 0, 13), // externalIPs
    f(763, 7, 1, 0, 0, 0, 428), // sessionAffinity
    f(431, 8, 1, 0, 0, 0, 4), // loadBalancerIP
    f(432, 9, 1, 9, 1, 0, 13), // loadBalancerSourceRanges
    f(266, 10, 1, 0, 0, 0, 4), // externalName
    f(267, 11, 1, 0, 0, 0, 429), // externalTrafficPolicy
    f(326, 12, 1, 29, 0, 0, 37), // healthCheckNodePort
    f(633, 13, 1, 5, 0, 0, 8), // publishNotReadyAddresses
    f(764, 14, 3, 334, 0, 0, 430), // sessionAffinityConfig
    f(374, 19, 1, 9, 1, 0, 431), // ipFamilies
    f(375, 17, 3, 0, 0, 0, 432), // ipFamilyPolicy
    f(23, 20, 3, 5, 0, 0, 8), // allocateLoadBalancerNodePorts
    f(430, 21, 3, 0, 0, 0, 4), // loadBalancerClass
    f(369, 22, 3, 0, 0, 0, 433), // internalTrafficPolicy
    f(873, 23, 3, 0, 0, 0, 4), // trafficDistribution
    // io.k8s.api.core.v1.ServiceStatus
    f(429, 1, 1, 335, 0, 2, 434), // loadBalancer
    f(131, 2, 1, 46, 5, 0, 58), // conditions
    // io.k8s.api.core.v1.SessionAffinityConfig
    f(113, 1, 3, 336, 0, 0, 435), // clientIP
    // io.k8s.api.core.v1.SleepAction
    f(736, 1, 8, 44, 0, 3, 56), // seconds
    // io.k8s.api.core.v1.StorageOSPersistentVolumeSource
    f(922, 1, 1, 0, 0, 0, 4), // volumeName
    f(923, 2, 1, 0, 0, 0, 4), // volumeNamespace
    f(299, 3, 1, 0, 0, 0, 4), // fsType
    f(642, 4, 1, 5, 0, 0, 8), // readOnly
    f(742, 5, 3, 158, 0, 0, 200), // secretRef
    // io.k8s.api.core.v1.StorageOSVolumeSource
    f(922, 1, 1, 0, 0, 0, 4), // volumeName
    f(923, 2, 1, 0, 0, 0, 4), // volumeNamespace
    f(299, 3, 1, 0, 0, 0, 4), // fsType
    f(642, 4, 1, 5, 0, 0, 8), // readOnly
    f(742, 5, 3, 160, 0, 0, 202), // secretRef
    // io.k8s.api.core.v1.Sysctl
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(900, 2, 8, 0, 0, 1, 4), // value
    // io.k8s.api.core.v1.TCPSocketAction
    f(605, 1, 8, 69, 0, 0, 88), // port
    f(329, 2, 1, 0, 0, 0, 4), // host
    // io.k8s.api.core.v1.Taint
    f(387, 1, 8, 0, 0, 1, 4), // key
    f(900, 2, 1, 0, 0, 0, 4), // value
    f(224, 3, 8, 0, 0, 1, 436), // effect
    f(857, 4, 3, 53, 0, 0, 68), // timeAdded
    // io.k8s.api.core.v1.Toleration
    f(387, 1, 1, 0, 0, 0, 4), // key
    f(546, 2, 1, 0, 0, 0, 437), // operator
    f(900, 3, 1, 0, 0, 0, 4), // value
    f(224, 4, 1, 0, 0, 0, 436), // effect
    f(866, 5, 3, 44, 0, 0, 56), // tolerationSeconds
    // io.k8s.api.core.v1.TopologySelectorLabelRequirement
    f(387, 1, 8, 0, 0, 1, 4), // key
    f(903, 2, 8, 9, 1, 0, 13), // values
    // io.k8s.api.core.v1.TopologySelectorTerm
    f(447, 1, 1, 337, 1, 0, 438), // matchLabelExpressions
    // io.k8s.api.core.v1.TopologySpreadConstraint
    f(461, 1, 8, 29, 0, 3, 37), // maxSkew
    f(870, 2, 8, 0, 0, 1, 4), // topologyKey
    f(939, 3, 8, 0, 0, 1, 439), // whenUnsatisfiable
    f(402, 4, 3, 13, 0, 0, 17), // labelSelector
    f(477, 5, 3, 29, 0, 0, 37), // minDomains
    f(505, 6, 3, 0, 0, 0, 440), // nodeAffinityPolicy
    f(518, 7, 3, 0, 0, 0, 440), // nodeTaintsPolicy
    f(448, 8, 1, 9, 1, 0, 13), // matchLabelKeys
    // io.k8s.api.core.v1.TypedLocalObjectReference
    f(39, 1, 2, 0, 0, 0, 4), // apiGroup
    f(391, 2, 8, 0, 0, 1, 4), // kind
    f(494, 3, 8, 0, 0, 1, 4), // name
    // io.k8s.api.core.v1.TypedObjectReference
    f(39, 1, 2, 0, 0, 0, 4), // apiGroup
    f(391, 2, 8, 0, 0, 1, 4), // kind
    f(494, 3, 8, 0, 0, 1, 4), // name
    f(497, 4, 3, 0, 0, 0, 4), // namespace
    // io.k8s.api.core.v1.Volume
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(65535, 2, 4, 338, 0, 0, 441), // (inline)
    // io.k8s.api.core.v1.VolumeDevice
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(206, 2, 8, 0, 0, 1, 4), // devicePath
    // io.k8s.api.core.v1.VolumeMount
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(642, 2, 1, 5, 0, 0, 8), // readOnly
    f(650, 7, 3, 0, 0, 0, 442), // recursiveReadOnly
    f(490, 3, 8, 0, 0, 1, 4), // mountPath
    f(816, 4, 1, 0, 0, 0, 4), // subPath
    f(491, 5, 3, 0, 0, 0, 443), // mountPropagation
    f(817, 6, 1, 0, 0, 0, 4), // subPathExpr
    // io.k8s.api.core.v1.VolumeMountStatus
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(490, 2, 8, 0, 0, 1, 4), // mountPath
    f(642, 3, 1, 5, 0, 0, 8), // readOnly
    f(650, 4, 3, 0, 0, 0, 442), // recursiveReadOnly
    f(925, 5, 3, 339, 0, 0, 444), // volumeStatus
    // io.k8s.api.core.v1.VolumeNodeAffinity
    f(672, 1, 3, 223, 0, 0, 285), // required
    // io.k8s.api.core.v1.VolumeProjection
    f(737, 1, 3, 340, 0, 0, 445), // secret
    f(218, 2, 3, 341, 0, 0, 446), // downwardAPI
    f(133, 3, 3, 342, 0, 0, 447), // configMap
    f(759, 4, 3, 343, 0, 0, 448), // serviceAccountToken
    f(118, 5, 3, 344, 0, 0, 449), // clusterTrustBundle
    f(590, 6, 3, 345, 0, 0, 450), // podCertificate
    // io.k8s.api.core.v1.VolumeResourceRequirements
    f(425, 1, 1, 182, 0, 0, 233), // limits
    f(671, 2, 1, 182, 0, 0, 233), // requests
    // io.k8s.api.core.v1.VolumeSource
    f(336, 1, 3, 255, 0, 0, 327), // hostPath
    f(226, 2, 3, 346, 0, 0, 451), // emptyDir
    f(302, 3, 3, 253, 0, 0, 325), // gcePersistentDisk
    f(70, 4, 3, 254, 0, 0, 326), // awsElasticBlockStore
    f(307, 5, 3, 347, 0, 0, 452), // gitRepo
    f(737, 6, 3, 348, 0, 0, 453), // secret
    f(502, 7, 3, 257, 0, 0, 329), // nfs
    f(379, 8, 3, 349, 0, 0, 454), // iscsi
    f(311, 9, 3, 350, 0, 0, 455), // glusterfs
    f(575, 10, 3, 351, 0, 0, 456), // persistentVolumeClaim
    f(641, 11, 3, 352, 0, 0, 457), // rbd
    f(289, 12, 3, 353, 0, 0, 458), // flexVolume
    f(107, 13, 3, 354, 0, 0, 459), // cinder
    f(100, 14, 3, 355, 0, 0, 460), // cephfs
    f(290, 15, 3, 263, 0, 0, 335), // flocker
    f(218, 16, 3, 356, 0, 0, 461), // downwardAPI
    f(274, 17, 3, 262, 0, 0, 334), // fc
    f(72, 18, 3, 357, 0, 0, 462), // azureFile
    f(133, 19, 3, 358, 0, 0, 463), // configMap
    f(929, 20, 3, 266, 0, 0, 338), // vsphereVolume
    f(639, 21, 3, 267, 0, 0, 339), // quobyte
    f(71, 22, 3, 268, 0, 0, 340), // azureDisk
    f(580, 23, 3, 269, 0, 0, 341), // photonPersistentDisk
    f(626, 26, 3, 359, 0, 0, 464), // projected
    f(608, 24, 3, 270, 0, 0, 342), // portworxVolume
    f(717, 25, 3, 360, 0, 0, 465), // scaleIO
    f(810, 27, 3, 361, 0, 0, 466), // storageos
    f(161, 28, 3, 362, 0, 0, 467), // csi
    f(237, 29, 3, 363, 0, 0, 468), // ephemeral
    f(351, 30, 3, 364, 0, 0, 469), // image
    // io.k8s.api.core.v1.VolumeStatus
    f(351, 1, 3, 365, 0, 0, 470), // image
    // io.k8s.api.core.v1.VsphereVirtualDiskVolumeSource
    f(924, 1, 8, 0, 0, 1, 4), // volumePath
    f(299, 2, 1, 0, 0, 0, 4), // fsType
    f(807, 3, 1, 0, 0, 0, 4), // storagePolicyName
    f(806, 4, 1, 0, 0, 0, 4), // storagePolicyID
    // io.k8s.api.core.v1.WeightedPodAffinityTerm
    f(936, 1, 8, 29, 0, 3, 37), // weight
    f(586, 2, 8, 366, 0, 2, 471), // podAffinityTerm
    // io.k8s.api.core.v1.WindowsSecurityContextOptions
    f(313, 1, 3, 0, 0, 0, 4), // gmsaCredentialSpecName
    f(312, 2, 3, 0, 0, 0, 4), // gmsaCredentialSpec
    f(711, 3, 3, 0, 0, 0, 4), // runAsUserName
    f(338, 4, 3, 5, 0, 0, 8), // hostProcess
    // io.k8s.api.discovery.v1.Endpoint
    f(15, 1, 8, 9, 3, 0, 13), // addresses
    f(131, 2, 1, 367, 0, 2, 472), // conditions
    f(340, 3, 3, 0, 0, 0, 4), // hostname
    f(843, 4, 3, 158, 0, 0, 200), // targetRef
    f(195, 5, 1, 8, 0, 0, 12), // deprecatedTopology
    f(512, 6, 3, 0, 0, 0, 4), // nodeName
    f(950, 7, 3, 0, 0, 0, 4), // zone
    f(327, 8, 3, 368, 0, 0, 473), // hints
    // io.k8s.api.discovery.v1.EndpointConditions
    f(646, 1, 3, 5, 0, 0, 8), // ready
    f(762, 2, 3, 5, 0, 0, 8), // serving
    f(850, 3, 3, 5, 0, 0, 8), // terminating
    // io.k8s.api.discovery.v1.EndpointHints
    f(292, 1, 1, 369, 1, 0, 474), // forZones
    f(291, 2, 1, 370, 1, 0, 475), // forNodes
    // io.k8s.api.discovery.v1.EndpointPort
    f(494, 1, 3, 0, 0, 0, 4), // name
    f(630, 2, 3, 0, 0, 0, 224), // protocol
    f(605, 3, 3, 29, 0, 0, 37), // port
    f(51, 4, 3, 0, 0, 0, 4), // appProtocol
    // io.k8s.api.discovery.v1.EndpointSlice
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(14, 4, 8, 0, 0, 1, 476), // addressType
    f(231, 2, 0, 371, 1, 0, 477), // endpoints
    f(607, 3, 0, 372, 1, 0, 244), // ports
    // io.k8s.api.discovery.v1.EndpointSliceList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 373, 0, 0, 478), // items
    // io.k8s.api.discovery.v1.ForNode
    f(494, 1, 8, 0, 0, 1, 4), // name
    // io.k8s.api.discovery.v1.ForZone
    f(494, 1, 8, 0, 0, 1, 4), // name
    // io.k8s.api.events.v1.Event
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 0, 15, 0, 2, 20), // metadata
    f(244, 2, 8, 154, 0, 0, 191), // eventTime
    f(751, 3, 3, 374, 0, 0, 256), // series
    f(661, 4, 1, 0, 0, 0, 4), // reportingController
    f(662, 5, 1, 0, 0, 0, 4), // reportingInstance
    f(6, 6, 1, 0, 0, 0, 4), // action
    f(648, 7, 1, 0, 0, 0, 4), // reason
    f(653, 8, 1, 158, 0, 2, 200), // regarding
    f(656, 9, 3, 158, 0, 0, 200), // related
    f(527, 10, 1, 0, 0, 0, 4), // note
    f(876, 11, 1, 0, 0, 0, 4), // type
    f(194, 12, 1, 202, 0, 2, 255), // deprecatedSource
    f(192, 13, 1, 53, 0, 0, 68), // deprecatedFirstTimestamp
    f(193, 14, 1, 53, 0, 0, 68), // deprecatedLastTimestamp
    f(191, 15, 1, 29, 0, 0, 37), // deprecatedCount
    // io.k8s.api.events.v1.EventList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 375, 0, 0, 257), // items
    // io.k8s.api.events.v1.EventSeries
    f(155, 1, 8, 29, 0, 3, 37), // count
    f(407, 2, 8, 154, 0, 0, 191), // lastObservedTime
    // io.k8s.api.flowcontrol.v1.ExemptPriorityLevelConfiguration
    f(520, 1, 3, 29, 0, 0, 37), // nominalConcurrencyShares
    f(419, 2, 3, 29, 0, 0, 37), // lendablePercent
    // io.k8s.api.flowcontrol.v1.FlowDistinguisherMethod
    f(876, 1, 8, 0, 0, 1, 479), // type
    // io.k8s.api.flowcontrol.v1.FlowSchema
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 376, 0, 2, 480), // spec
    f(794, 3, 1, 377, 0, 2, 481), // status
    // io.k8s.api.flowcontrol.v1.FlowSchemaCondition
    f(876, 1, 1, 0, 0, 0, 482), // type
    f(794, 2, 1, 0, 0, 0, 67), // status
    f(415, 3, 1, 53, 0, 0, 68), // lastTransitionTime
    f(648, 4, 1, 0, 0, 0, 4), // reason
    f(468, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.api.flowcontrol.v1.FlowSchemaList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 378, 0, 0, 483), // items
    // io.k8s.api.flowcontrol.v1.FlowSchemaSpec
    f(622, 1, 8, 379, 0, 2, 484), // priorityLevelConfiguration
    f(452, 2, 0, 29, 0, 3, 37), // matchingPrecedence
    f(214, 3, 3, 380, 0, 0, 485), // distinguisherMethod
    f(707, 4, 1, 381, 1, 0, 486), // rules
    // io.k8s.api.flowcontrol.v1.FlowSchemaStatus
    f(131, 1, 1, 382, 5, 0, 487), // conditions
    // io.k8s.api.flowcontrol.v1.GroupSubject
    f(494, 1, 8, 0, 0, 1, 4), // name
    // io.k8s.api.flowcontrol.v1.LimitResponse
    f(876, 1, 8, 0, 0, 1, 488), // type
    f(638, 2, 3, 383, 0, 0, 489), // queuing
    // io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration
    f(520, 1, 2, 29, 0, 0, 37), // nominalConcurrencyShares
    f(423, 2, 1, 384, 0, 2, 490), // limitResponse
    f(419, 3, 3, 29, 0, 0, 37), // lendablePercent
    f(87, 4, 3, 29, 0, 0, 37), // borrowingLimitPercent
    // io.k8s.api.flowcontrol.v1.NonResourcePolicyRule
    f(906, 1, 8, 9, 3, 0, 13), // verbs
    f(524, 6, 8, 9, 3, 0, 13), // nonResourceURLs
    // io.k8s.api.flowcontrol.v1.PolicyRulesWithSubjects
    f(820, 1, 8, 385, 1, 0, 491), // subjects
    f(689, 2, 1, 386, 1, 0, 492), // resourceRules
    f(523, 3, 1, 387, 1, 0, 493), // nonResourceRules
    // io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 388, 0, 2, 494), // spec
    f(794, 3, 1, 389, 0, 2, 495), // status
    // io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationCondition
    f(876, 1, 1, 0, 0, 0, 496), // type
    f(794, 2, 1, 0, 0, 0, 67), // status
    f(415, 3, 1, 53, 0, 0, 68), // lastTransitionTime
    f(648, 4, 1, 0, 0, 0, 4), // reason
    f(468, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 390, 0, 0, 497), // items
    // io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationReference
    f(494, 1, 8, 0, 0, 1, 4), // name
    // io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec
    f(876, 1, 8, 0, 0, 1, 498), // type
    f(424, 2, 3, 391, 0, 0, 499), // limited
    f(252, 3, 3, 392, 0, 0, 500), // exempt
    // io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationStatus
    f(131, 1, 1, 393, 5, 0, 501), // conditions
    // io.k8s.api.flowcontrol.v1.QueuingConfiguration
    f(637, 1, 0, 29, 0, 3, 37), // queues
    f(321, 2, 0, 29, 0, 3, 37), // handSize
    f(636, 3, 0, 29, 0, 3, 37), // queueLengthLimit
    // io.k8s.api.flowcontrol.v1.ResourcePolicyRule
    f(906, 1, 8, 9, 3, 0, 13), // verbs
    f(40, 2, 8, 9, 3, 0, 13), // apiGroups
    f(693, 3, 8, 9, 3, 0, 13), // resources
    f(117, 4, 1, 5, 0, 0, 8), // clusterScope
    f(500, 5, 0, 9, 3, 0, 13), // namespaces
    // io.k8s.api.flowcontrol.v1.ServiceAccountSubject
    f(497, 1, 8, 0, 0, 1, 4), // namespace
    f(494, 2, 8, 0, 0, 1, 4), // name
    // io.k8s.api.flowcontrol.v1.Subject
    f(391, 1, 8, 0, 0, 1, 502), // kind
    f(891, 2, 3, 394, 0, 0, 503), // user
    f(316, 3, 3, 395, 0, 0, 504), // group
    f(757, 4, 3, 396, 0, 0, 505), // serviceAccount
    // io.k8s.api.flowcontrol.v1.UserSubject
    f(494, 1, 8, 0, 0, 1, 4), // name
    // io.k8s.api.networking.v1.HTTPIngressPath
    f(565, 1, 1, 0, 0, 0, 4), // path
    f(566, 3, 10, 0, 0, 0, 506), // pathType
    f(73, 2, 8, 397, 0, 2, 507), // backend
    // io.k8s.api.networking.v1.HTTPIngressRuleValue
    f(567, 1, 8, 398, 1, 0, 508), // paths
    // io.k8s.api.networking.v1.IPAddress
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 9, 399, 0, 2, 509), // spec
    // io.k8s.api.networking.v1.IPAddressList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 400, 0, 0, 510), // items
    // io.k8s.api.networking.v1.IPAddressSpec
    f(561, 1, 11, 401, 0, 0, 511), // parentRef
    // io.k8s.api.networking.v1.IPBlock
    f(105, 1, 8, 0, 0, 1, 4), // cidr
    f(247, 2, 1, 9, 1, 0, 13), // except
    // io.k8s.api.networking.v1.Ingress
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 402, 0, 2, 512), // spec
    f(794, 3, 1, 403, 0, 2, 513), // status
    // io.k8s.api.networking.v1.IngressBackend
    f(756, 4, 3, 404, 0, 0, 514), // service
    f(679, 3, 3, 248, 0, 0, 318), // resource
    // io.k8s.api.networking.v1.IngressClass
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 405, 0, 2, 515), // spec
    // io.k8s.api.networking.v1.IngressClassList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 406, 0, 0, 516), // items
    // io.k8s.api.networking.v1.IngressClassParametersReference
    f(39, 1, 3, 0, 0, 0, 4), // apiGroup
    f(391, 2, 8, 0, 0, 1, 4), // kind
    f(494, 3, 8, 0, 0, 1, 4), // name
    f(727, 4, 2, 0, 0, 0, 4), // scope
    f(497, 5, 3, 0, 0, 0, 4), // namespace
    // io.k8s.api.networking.v1.IngressClassSpec
    f(149, 1, 1, 0, 0, 0, 4), // controller
    f(560, 2, 3, 407, 0, 0, 517), // parameters
    // io.k8s.api.networking.v1.IngressList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 408, 0, 0, 518), // items
    // io.k8s.api.networking.v1.IngressLoadBalancerIngress
    f(372, 1, 1, 0, 0, 0, 4), // ip
    f(340, 2, 1, 0, 0, 0, 4), // hostname
    f(607, 4, 1, 409, 1, 0, 519), // ports
    // io.k8s.api.networking.v1.IngressLoadBalancerStatus
    f(359, 1, 1, 410, 1, 0, 520), // ingress
    // io.k8s.api.networking.v1.IngressPortStatus
    f(605, 1, 8, 29, 0, 3, 37), // port
    f(630, 2, 8, 0, 0, 1, 224), // protocol
    f(241, 3, 3, 0, 0, 0, 4), // error
    // io.k8s.api.networking.v1.IngressRule
    f(329, 1, 1, 0, 0, 0, 4), // host
    f(65535, 2, 4, 411, 0, 0, 521), // (inline)
    // io.k8s.api.networking.v1.IngressRuleValue
    f(344, 1, 3, 412, 0, 0, 522), // http
    // io.k8s.api.networking.v1.IngressServiceBackend
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(605, 2, 1, 413, 0, 2, 523), // port
    // io.k8s.api.networking.v1.IngressSpec
    f(360, 4, 3, 0, 0, 0, 4), // ingressClassName
    f(178, 1, 3, 397, 0, 0, 507), // defaultBackend
    f(861, 2, 1, 414, 1, 0, 524), // tls
    f(707, 3, 1, 415, 1, 0, 525), // rules
    // io.k8s.api.networking.v1.IngressStatus
    f(429, 1, 1, 416, 0, 2, 526), // loadBalancer
    // io.k8s.api.networking.v1.IngressTLS
    f(343, 1, 1, 9, 1, 0, 13), // hosts
    f(740, 2, 1, 0, 0, 0, 4), // secretName
    // io.k8s.api.networking.v1.NetworkPolicy
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 417, 0, 2, 527), // spec
    // io.k8s.api.networking.v1.NetworkPolicyEgressRule
    f(607, 1, 1, 418, 1, 0, 528), // ports
    f(862, 2, 1, 419, 1, 0, 529), // to
    // io.k8s.api.networking.v1.NetworkPolicyIngressRule
    f(607, 1, 1, 418, 1, 0, 528), // ports
    f(295, 2, 1, 419, 1, 0, 529), // from
    // io.k8s.api.networking.v1.NetworkPolicyList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 420, 0, 0, 530), // items
    // io.k8s.api.networking.v1.NetworkPolicyPeer
    f(599, 1, 3, 13, 0, 0, 17), // podSelector
    f(498, 2, 3, 13, 0, 0, 17), // namespaceSelector
    f(373, 3, 3, 421, 0, 0, 531), // ipBlock
    // io.k8s.api.networking.v1.NetworkPolicyPort
    f(630, 1, 3, 0, 0, 0, 224), // protocol
    f(605, 2, 3, 69, 0, 0, 88), // port
    f(230, 3, 3, 29, 0, 0, 37), // endPort
    // io.k8s.api.networking.v1.NetworkPolicySpec
    f(599, 1, 0, 13, 0, 2, 17), // podSelector
    f(359, 2, 1, 422, 1, 0, 532), // ingress
    f(225, 3, 1, 423, 1, 0, 533), // egress
    f(603, 4, 1, 9, 1, 0, 534), // policyTypes
    // io.k8s.api.networking.v1.ParentReference
    f(316, 1, 1, 0, 0, 0, 4), // group
    f(679, 2, 9, 0, 0, 0, 4), // resource
    f(497, 3, 1, 0, 0, 0, 4), // namespace
    f(494, 4, 9, 0, 0, 0, 4), // name
    // io.k8s.api.networking.v1.ServiceBackendPort
    f(494, 1, 1, 0, 0, 0, 4), // name
    f(529, 2, 1, 29, 0, 0, 37), // number
    // io.k8s.api.networking.v1.ServiceCIDR
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 424, 0, 2, 535), // spec
    f(794, 3, 1, 425, 0, 2, 536), // status
    // io.k8s.api.networking.v1.ServiceCIDRList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 426, 0, 0, 537), // items
    // io.k8s.api.networking.v1.ServiceCIDRSpec
    f(106, 1, 1, 9, 1, 0, 13), // cidrs
    // io.k8s.api.networking.v1.ServiceCIDRStatus
    f(131, 1, 1, 46, 5, 0, 58), // conditions
    // io.k8s.api.node.v1.Overhead
    f(592, 1, 1, 182, 0, 0, 233), // podFixed
    // io.k8s.api.node.v1.RuntimeClass
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(322, 2, 8, 0, 0, 1, 4), // handler
    f(554, 3, 3, 427, 0, 0, 538), // overhead
    f(722, 4, 3, 428, 0, 0, 539), // scheduling
    // io.k8s.api.node.v1.RuntimeClassList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 429, 0, 0, 540), // items
    // io.k8s.api.node.v1.Scheduling
    f(515, 1, 1, 8, 14, 0, 12), // nodeSelector
    f(867, 2, 1, 295, 1, 0, 375), // tolerations
    // io.k8s.api.policy.v1.Eviction
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(182, 2, 3, 430, 0, 0, 541), // deleteOptions
    // io.k8s.api.policy.v1.PodDisruptionBudget
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 431, 0, 2, 542), // spec
    f(794, 3, 1, 432, 0, 2, 543), // status
    // io.k8s.api.policy.v1.PodDisruptionBudgetList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 433, 0, 0, 544), // items
    // io.k8s.api.policy.v1.PodDisruptionBudgetSpec
    f(474, 1, 3, 69, 0, 0, 88), // minAvailable
    f(747, 2, 3, 13, 21, 0, 17), // selector
    f(463, 3, 3, 69, 0, 0, 88), // maxUnavailable
    f(881, 4, 3, 0, 0, 0, 545), // unhealthyPodEvictionPolicy
    // io.k8s.api.policy.v1.PodDisruptionBudgetStatus
    f(536, 1, 1, 44, 0, 0, 56), // observedGeneration
    f(211, 2, 1, 434, 0, 0, 546), // disruptedPods
    f(212, 3, 0, 29, 0, 3, 37), // disruptionsAllowed
    f(164, 4, 0, 29, 0, 3, 37), // currentHealthy
    f(199, 5, 0, 29, 0, 3, 37), // desiredHealthy
    f(255, 6, 0, 29, 0, 3, 37), // expectedPods
    f(131, 7, 1, 46, 5, 0, 58), // conditions
    // io.k8s.api.rbac.v1.AggregationRule
    f(116, 1, 1, 435, 1, 0, 547), // clusterRoleSelectors
    // io.k8s.api.rbac.v1.ClusterRole
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(707, 2, 0, 436, 1, 0, 548), // rules
    f(19, 3, 3, 437, 0, 0, 549), // aggregationRule
    // io.k8s.api.rbac.v1.ClusterRoleBinding
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(820, 2, 1, 438, 1, 0, 491), // subjects
    f(703, 3, 8, 439, 0, 2, 550), // roleRef
    // io.k8s.api.rbac.v1.ClusterRoleBindingList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 440, 0, 0, 551), // items
    // io.k8s.api.rbac.v1.ClusterRoleList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 441, 0, 0, 552), // items
    // io.k8s.api.rbac.v1.PolicyRule
    f(906, 1, 8, 9, 1, 0, 13), // verbs
    f(40, 2, 1, 9, 1, 0, 13), // apiGroups
    f(693, 3, 1, 9, 1, 0, 13), // resources
    f(688, 4, 1, 9, 1, 0, 13), // resourceNames
    f(524, 5, 1, 9, 1, 0, 13), // nonResourceURLs
    // io.k8s.api.rbac.v1.Role
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(707, 2, 0, 436, 1, 0, 548), // rules
    // io.k8s.api.rbac.v1.RoleBinding
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(820, 2, 1, 438, 1, 0, 491), // subjects
    f(703, 3, 8, 439, 0, 2, 550), // roleRef
    // io.k8s.api.rbac.v1.RoleBindingList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 442, 0, 0, 553), // items
    // io.k8s.api.rbac.v1.RoleList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 443, 0, 0, 554), // items
    // io.k8s.api.rbac.v1.RoleRef
    f(39, 1, 0, 0, 0, 1, 4), // apiGroup
    f(391, 2, 8, 0, 0, 1, 4), // kind
    f(494, 3, 8, 0, 0, 1, 4), // name
    // io.k8s.api.rbac.v1.Subject
    f(391, 1, 8, 0, 0, 1, 4), // kind
    f(39, 2, 1, 0, 0, 0, 4), // apiGroup
    f(494, 3, 8, 0, 0, 1, 4), // name
    f(497, 4, 1, 0, 0, 0, 4), // namespace
    // io.k8s.api.resource.v1.AllocatedDeviceStatus
    f(219, 1, 8, 0, 0, 1, 4), // driver
    f(604, 2, 8, 0, 0, 1, 4), // pool
    f(204, 3, 8, 0, 0, 1, 4), // device
    f(768, 7, 3, 0, 0, 0, 4), // shareID
    f(131, 4, 0, 46, 4, 0, 58), // conditions
    f(171, 5, 3, 4, 0, 0, 7), // data
    f(501, 6, 3, 444, 0, 0, 555), // networkData
    // io.k8s.api.resource.v1.AllocationResult
    f(207, 1, 1, 445, 0, 2, 556), // devices
    f(515, 3, 3, 223, 0, 0, 285), // nodeSelector
    f(30, 5, 3, 53, 0, 0, 68), // allocationTimestamp
    // io.k8s.api.resource.v1.CELDeviceSelector
    f(258, 1, 8, 0, 0, 1, 4), // expression
    // io.k8s.api.resource.v1.CapacityRequestPolicy
    f(177, 1, 2, 110, 0, 0, 135), // default
    f(897, 3, 1, 446, 1, 0, 557), // validValues
    f(896, 4, 3, 447, 0, 0, 558), // validRange
    // io.k8s.api.resource.v1.CapacityRequestPolicyRange
    f(473, 1, 11, 110, 0, 0, 135), // min
    f(453, 2, 3, 110, 0, 0, 135), // max
    f(800, 3, 3, 110, 0, 0, 135), // step
    // io.k8s.api.resource.v1.CapacityRequirements
    f(671, 1, 1, 182, 0, 0, 559), // requests
    // io.k8s.api.resource.v1.Counter
    f(900, 1, 8, 110, 0, 0, 135), // value
    // io.k8s.api.resource.v1.CounterSet
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(157, 2, 9, 448, 0, 0, 560), // counters
    // io.k8s.api.resource.v1.Device
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(61, 2, 1, 449, 0, 0, 561), // attributes
    f(94, 3, 1, 450, 0, 0, 562), // capacity
    f(139, 4, 1, 451, 1, 0, 563), // consumesCounters
    f(512, 5, 3, 0, 0, 0, 4), // nodeName
    f(515, 6, 3, 223, 0, 0, 285), // nodeSelector
    f(20, 7, 3, 5, 0, 0, 8), // allNodes
    f(837, 8, 1, 452, 1, 0, 564), // taints
    f(82, 9, 3, 5, 0, 0, 8), // bindsToNode
    f(80, 10, 1, 9, 1, 0, 13), // bindingConditions
    f(81, 11, 1, 9, 1, 0, 13), // bindingFailureConditions
    f(31, 12, 3, 5, 0, 0, 8), // allowMultipleAllocations
    f(507, 13, 1, 453, 0, 0, 565), // nodeAllocatableResourceMappings
    // io.k8s.api.resource.v1.DeviceAllocationConfiguration
    f(781, 1, 8, 0, 0, 1, 566), // source
    f(671, 2, 1, 9, 1, 0, 13), // requests
    f(65535, 3, 4, 454, 0, 0, 567), // (inline)
    // io.k8s.api.resource.v1.DeviceAllocationResult
    f(698, 1, 1, 455, 1, 0, 568), // results
    f(132, 2, 1, 456, 1, 0, 569), // config
    // io.k8s.api.resource.v1.DeviceAttribute
    f(367, 2, 3, 44, 0, 0, 56), // int
    f(84, 3, 3, 5, 0, 0, 8), // bool
    f(813, 4, 3, 0, 0, 0, 4), // string
    f(907, 5, 3, 0, 0, 0, 4), // version
    f(370, 6, 1, 214, 1, 0, 270), // ints
    f(85, 7, 1, 457, 1, 0, 570), // bools
    f(815, 8, 1, 9, 1, 0, 13), // strings
    f(909, 9, 1, 9, 1, 0, 13), // versions
    // io.k8s.api.resource.v1.DeviceCapacity
    f(900, 1, 8, 110, 0, 0, 135), // value
    f(668, 2, 3, 458, 0, 0, 571), // requestPolicy
    // io.k8s.api.resource.v1.DeviceClaim
    f(671, 1, 0, 459, 1, 0, 572), // requests
    f(137, 2, 1, 460, 1, 0, 573), // constraints
    f(132, 3, 1, 461, 1, 0, 574), // config
    // io.k8s.api.resource.v1.DeviceClaimConfiguration
    f(671, 1, 1, 9, 1, 0, 13), // requests
    f(65535, 2, 4, 454, 0, 0, 567), // (inline)
    // io.k8s.api.resource.v1.DeviceClass
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 8, 462, 0, 2, 575), // spec
    // io.k8s.api.resource.v1.DeviceClassConfiguration
    f(65535, 1, 4, 454, 0, 0, 567), // (inline)
    // io.k8s.api.resource.v1.DeviceClassList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 463, 0, 0, 576), // items
    // io.k8s.api.resource.v1.DeviceClassSpec
    f(748, 1, 1, 464, 1, 0, 577), // selectors
    f(132, 2, 1, 465, 1, 0, 578), // config
    f(261, 4, 3, 0, 0, 0, 4), // extendedResourceName
    // io.k8s.api.resource.v1.DeviceConfiguration
    f(541, 1, 3, 466, 0, 0, 579), // opaque
    // io.k8s.api.resource.v1.DeviceConstraint
    f(671, 1, 1, 9, 1, 0, 13), // requests
    f(442, 2, 3, 0, 0, 0, 580), // matchAttribute
    f(213, 3, 3, 0, 0, 0, 580), // distinctAttribute
    // io.k8s.api.resource.v1.DeviceCounterConsumption
    f(156, 1, 8, 0, 0, 1, 4), // counterSet
    f(157, 2, 9, 448, 0, 0, 560), // counters
    // io.k8s.api.resource.v1.DeviceRequest
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(245, 2, 3, 467, 0, 0, 581), // exactly
    f(287, 3, 1, 468, 1, 0, 582), // firstAvailable
    // io.k8s.api.resource.v1.DeviceRequestAllocationResult
    f(664, 1, 8, 0, 0, 1, 4), // request
    f(219, 2, 8, 0, 0, 1, 4), // driver
    f(604, 3, 8, 0, 0, 1, 4), // pool
    f(204, 4, 8, 0, 0, 1, 4), // device
    f(16, 5, 3, 5, 0, 0, 8), // adminAccess
    f(867, 6, 1, 469, 1, 0, 583), // tolerations
    f(80, 7, 1, 9, 1, 0, 13), // bindingConditions
    f(81, 8, 1, 9, 1, 0, 13), // bindingFailureConditions
    f(768, 9, 3, 0, 0, 0, 1), // shareID
    f(138, 10, 1, 182, 0, 0, 559), // consumedCapacity
    // io.k8s.api.resource.v1.DeviceSelector
    f(98, 1, 3, 470, 0, 0, 584), // cel
    // io.k8s.api.resource.v1.DeviceSubRequest
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(205, 2, 8, 0, 0, 1, 4), // deviceClassName
    f(748, 3, 1, 464, 1, 0, 577), // selectors
    f(28, 4, 1, 0, 0, 0, 585), // allocationMode
    f(155, 5, 1, 44, 0, 0, 56), // count
    f(867, 6, 1, 469, 1, 0, 583), // tolerations
    f(94, 7, 3, 471, 0, 0, 586), // capacity
    // io.k8s.api.resource.v1.DeviceTaint
    f(387, 1, 8, 0, 0, 1, 4), // key
    f(900, 2, 1, 0, 0, 0, 4), // value
    f(224, 3, 8, 0, 0, 1, 587), // effect
    f(857, 4, 3, 53, 0, 0, 68), // timeAdded
    // io.k8s.api.resource.v1.DeviceToleration
    f(387, 1, 1, 0, 0, 0, 4), // key
    f(546, 2, 1, 0, 0, 16, 588), // operator
    f(900, 3, 1, 0, 0, 0, 4), // value
    f(224, 4, 1, 0, 0, 0, 587), // effect
    f(866, 5, 3, 44, 0, 0, 56), // tolerationSeconds
    // io.k8s.api.resource.v1.ExactDeviceRequest
    f(205, 1, 8, 0, 0, 1, 4), // deviceClassName
    f(748, 2, 1, 464, 1, 0, 577), // selectors
    f(28, 3, 1, 0, 0, 0, 585), // allocationMode
    f(155, 4, 1, 44, 0, 0, 56), // count
    f(16, 5, 3, 5, 0, 0, 8), // adminAccess
    f(867, 6, 1, 469, 1, 0, 583), // tolerations
    f(94, 7, 3, 471, 0, 0, 586), // capacity
    // io.k8s.api.resource.v1.NetworkDeviceData
    f(368, 1, 1, 0, 0, 0, 4), // interfaceName
    f(377, 2, 1, 9, 1, 0, 13), // ips
    f(324, 3, 1, 0, 0, 0, 4), // hardwareAddress
    // io.k8s.api.resource.v1.NodeAllocatableResourceMapping
    f(95, 1, 3, 0, 0, 0, 589), // capacityKey
    f(29, 2, 3, 110, 0, 0, 135), // allocationMultiplier
    // io.k8s.api.resource.v1.OpaqueDeviceConfiguration
    f(219, 1, 8, 0, 0, 1, 4), // driver
    f(560, 2, 8, 4, 0, 0, 7), // parameters
    // io.k8s.api.resource.v1.ResourceClaim
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 8, 472, 0, 2, 590), // spec
    f(794, 3, 1, 473, 0, 2, 591), // status
    // io.k8s.api.resource.v1.ResourceClaimConsumerReference
    f(39, 1, 1, 0, 0, 0, 4), // apiGroup
    f(679, 3, 8, 0, 0, 1, 4), // resource
    f(494, 4, 8, 0, 0, 1, 4), // name
    f(878, 5, 8, 0, 0, 1, 1), // uid
    // io.k8s.api.resource.v1.ResourceClaimList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 474, 0, 0, 412), // items
    // io.k8s.api.resource.v1.ResourceClaimSpec
    f(207, 1, 0, 475, 0, 2, 592), // devices
    // io.k8s.api.resource.v1.ResourceClaimStatus
    f(27, 1, 3, 476, 0, 0, 593), // allocation
    f(676, 2, 1, 477, 22, 0, 594), // reservedFor
    f(207, 4, 1, 478, 23, 0, 595), // devices
    // io.k8s.api.resource.v1.ResourceClaimTemplate
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 8, 479, 0, 2, 596), // spec
    // io.k8s.api.resource.v1.ResourceClaimTemplateList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 480, 0, 0, 597), // items
    // io.k8s.api.resource.v1.ResourceClaimTemplateSpec
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 8, 472, 0, 2, 590), // spec
    // io.k8s.api.resource.v1.ResourcePool
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(304, 2, 8, 44, 0, 3, 56), // generation
    f(690, 3, 8, 44, 0, 3, 56), // resourceSliceCount
    // io.k8s.api.resource.v1.ResourceSlice
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 8, 481, 0, 2, 598), // spec
    // io.k8s.api.resource.v1.ResourceSliceList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 482, 0, 0, 599), // items
    // io.k8s.api.resource.v1.ResourceSliceSpec
    f(219, 1, 8, 0, 0, 1, 4), // driver
    f(604, 2, 8, 483, 0, 2, 600), // pool
    f(512, 3, 3, 0, 0, 0, 4), // nodeName
    f(515, 4, 3, 223, 0, 0, 285), // nodeSelector
    f(20, 5, 3, 5, 0, 0, 8), // allNodes
    f(207, 6, 1, 484, 1, 0, 601), // devices
    f(573, 7, 3, 5, 0, 0, 8), // perDeviceNodeSelection
    f(771, 8, 1, 485, 1, 0, 602), // sharedCounters
    // io.k8s.api.scheduling.v1.PriorityClass
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(900, 2, 0, 29, 0, 3, 37), // value
    f(310, 3, 1, 5, 0, 0, 8), // globalDefault
    f(198, 4, 1, 0, 0, 0, 4), // description
    f(612, 5, 3, 0, 0, 0, 379), // preemptionPolicy
    // io.k8s.api.scheduling.v1.PriorityClassList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 486, 0, 0, 603), // items
    // io.k8s.api.storage.v1.CSIDriver
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 8, 487, 0, 2, 604), // spec
    // io.k8s.api.storage.v1.CSIDriverList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 488, 0, 0, 605), // items
    // io.k8s.api.storage.v1.CSIDriverSpec
    f(57, 1, 3, 5, 0, 0, 8), // attachRequired
    f(596, 2, 3, 5, 0, 0, 8), // podInfoOnMount
    f(919, 3, 1, 9, 3, 0, 606), // volumeLifecycleModes
    f(803, 4, 3, 5, 0, 0, 8), // storageCapacity
    f(298, 5, 3, 0, 0, 0, 607), // fsGroupPolicy
    f(864, 6, 1, 489, 1, 0, 608), // tokenRequests
    f(675, 7, 3, 5, 0, 0, 8), // requiresRepublish
    f(732, 8, 3, 5, 0, 0, 8), // seLinuxMount
    f(508, 9, 3, 44, 0, 0, 56), // nodeAllocatableUpdatePeriodSeconds
    f(760, 10, 3, 5, 0, 0, 8), // serviceAccountTokenInSecrets
    f(619, 11, 3, 5, 0, 0, 8), // preventPodSchedulingIfMissing
    // io.k8s.api.storage.v1.CSINode
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 8, 490, 0, 2, 609), // spec
    // io.k8s.api.storage.v1.CSINodeDriver
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(510, 2, 8, 0, 0, 1, 4), // nodeID
    f(871, 3, 0, 9, 1, 0, 13), // topologyKeys
    f(22, 4, 3, 491, 0, 0, 610), // allocatable
    // io.k8s.api.storage.v1.CSINodeList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 492, 0, 0, 611), // items
    // io.k8s.api.storage.v1.CSINodeSpec
    f(221, 1, 8, 493, 2, 0, 612), // drivers
    // io.k8s.api.storage.v1.CSIStorageCapacity
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(519, 2, 3, 13, 0, 0, 17), // nodeTopology
    f(804, 3, 8, 0, 0, 1, 4), // storageClassName
    f(94, 4, 3, 110, 0, 0, 135), // capacity
    f(465, 5, 3, 110, 0, 0, 135), // maximumVolumeSize
    // io.k8s.api.storage.v1.CSIStorageCapacityList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 494, 0, 0, 613), // items
    // io.k8s.api.storage.v1.StorageClass
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(632, 2, 8, 0, 0, 1, 4), // provisioner
    f(560, 3, 1, 8, 0, 0, 12), // parameters
    f(649, 4, 3, 0, 0, 0, 348), // reclaimPolicy
    f(489, 5, 1, 9, 1, 0, 13), // mountOptions
    f(33, 6, 3, 5, 0, 0, 8), // allowVolumeExpansion
    f(913, 7, 3, 0, 0, 0, 614), // volumeBindingMode
    f(36, 8, 1, 495, 1, 0, 615), // allowedTopologies
    // io.k8s.api.storage.v1.StorageClassList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 496, 0, 0, 616), // items
    // io.k8s.api.storage.v1.TokenRequest
    f(62, 1, 8, 0, 0, 1, 4), // audience
    f(256, 2, 3, 44, 0, 0, 56), // expirationSeconds
    // io.k8s.api.storage.v1.VolumeAttachment
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 8, 497, 0, 2, 617), // spec
    f(794, 3, 1, 498, 0, 2, 618), // status
    // io.k8s.api.storage.v1.VolumeAttachmentList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 499, 0, 0, 619), // items
    // io.k8s.api.storage.v1.VolumeAttachmentSource
    f(577, 1, 3, 0, 0, 0, 4), // persistentVolumeName
    f(365, 2, 3, 243, 0, 0, 310), // inlineVolumeSpec
    // io.k8s.api.storage.v1.VolumeAttachmentSpec
    f(59, 1, 8, 0, 0, 1, 4), // attacher
    f(781, 2, 8, 500, 0, 2, 620), // source
    f(512, 3, 8, 0, 0, 1, 4), // nodeName
    // io.k8s.api.storage.v1.VolumeAttachmentStatus
    f(58, 1, 8, 5, 0, 4, 8), // attached
    f(60, 2, 1, 8, 0, 0, 12), // attachmentMetadata
    f(56, 3, 3, 501, 0, 0, 621), // attachError
    f(202, 4, 3, 501, 0, 0, 621), // detachError
    // io.k8s.api.storage.v1.VolumeAttributesClass
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(220, 2, 8, 0, 0, 1, 4), // driverName
    f(560, 3, 1, 8, 0, 0, 12), // parameters
    // io.k8s.api.storage.v1.VolumeAttributesClassList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 502, 0, 0, 622), // items
    // io.k8s.api.storage.v1.VolumeError
    f(856, 1, 1, 53, 0, 0, 68), // time
    f(468, 2, 1, 0, 0, 0, 4), // message
    f(242, 3, 3, 29, 0, 0, 37), // errorCode
    // io.k8s.api.storage.v1.VolumeNodeResources
    f(155, 1, 3, 29, 0, 0, 37), // count
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceColumnDefinition
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(876, 2, 8, 0, 0, 1, 4), // type
    f(294, 3, 1, 0, 0, 0, 4), // format
    f(198, 4, 1, 0, 0, 0, 4), // description
    f(620, 5, 1, 29, 0, 0, 37), // priority
    f(384, 6, 8, 0, 0, 1, 4), // jsonPath
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceConversion
    f(812, 1, 8, 0, 0, 1, 623), // strategy
    f(934, 2, 3, 503, 0, 0, 624), // webhook
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 8, 504, 0, 2, 625), // spec
    f(794, 3, 1, 505, 0, 2, 626), // status
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionCondition
    f(876, 1, 8, 0, 0, 1, 627), // type
    f(794, 2, 8, 0, 0, 1, 67), // status
    f(415, 3, 1, 53, 0, 0, 68), // lastTransitionTime
    f(648, 4, 1, 0, 0, 0, 4), // reason
    f(468, 5, 1, 0, 0, 0, 4), // message
    f(536, 6, 1, 44, 0, 0, 56), // observedGeneration
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 506, 0, 0, 628), // items
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionNames
    f(582, 1, 8, 0, 0, 1, 4), // plural
    f(776, 2, 1, 0, 0, 0, 4), // singular
    f(772, 3, 1, 9, 1, 0, 13), // shortNames
    f(391, 4, 8, 0, 0, 1, 4), // kind
    f(427, 5, 1, 0, 0, 0, 4), // listKind
    f(96, 6, 1, 9, 1, 0, 13), // categories
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec
    f(316, 1, 8, 0, 0, 1, 4), // group
    f(495, 3, 8, 507, 0, 2, 629), // names
    f(727, 4, 8, 0, 0, 1, 630), // scope
    f(909, 7, 8, 508, 1, 0, 631), // versions
    f(153, 9, 3, 509, 0, 0, 632), // conversion
    f(618, 10, 1, 5, 0, 0, 8), // preserveUnknownFields
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus
    f(131, 1, 0, 510, 4, 0, 633), // conditions
    f(3, 2, 0, 507, 0, 2, 629), // acceptedNames
    f(811, 3, 0, 9, 1, 0, 13), // storedVersions
    f(536, 4, 1, 44, 0, 0, 56), // observedGeneration
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionVersion
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(752, 2, 8, 5, 0, 4, 8), // served
    f(802, 3, 8, 5, 0, 4, 8), // storage
    f(190, 7, 1, 5, 0, 0, 8), // deprecated
    f(196, 8, 3, 0, 0, 0, 4), // deprecationWarning
    f(725, 4, 3, 511, 0, 0, 634), // schema
    f(822, 5, 3, 512, 0, 0, 635), // subresources
    f(11, 6, 1, 513, 1, 0, 636), // additionalPrinterColumns
    f(746, 9, 1, 514, 1, 0, 637), // selectableFields
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresourceScale
    f(784, 1, 8, 0, 0, 1, 4), // specReplicasPath
    f(795, 2, 8, 0, 0, 1, 4), // statusReplicasPath
    f(403, 3, 3, 0, 0, 0, 4), // labelSelectorPath
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresources
    f(794, 1, 3, 515, 0, 0, 638), // status
    f(715, 2, 3, 516, 0, 0, 639), // scale
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceValidation
    f(542, 1, 3, 517, 0, 0, 640), // openAPIV3Schema
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ExternalDocumentation
    f(198, 1, 1, 0, 0, 0, 4), // description
    f(888, 2, 1, 0, 0, 0, 4), // url
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps
    f(349, 1, 1, 0, 0, 0, 4), // id
    f(1, 2, 1, 0, 0, 0, 641), // $schema
    f(0, 3, 3, 0, 0, 0, 4), // $ref
    f(198, 4, 1, 0, 0, 0, 4), // description
    f(876, 5, 1, 0, 0, 0, 4), // type
    f(294, 6, 1, 0, 0, 0, 4), // format
    f(860, 7, 1, 0, 0, 0, 4), // title
    f(177, 8, 3, 518, 0, 0, 642), // default
    f(464, 9, 3, 519, 0, 0, 643), // maximum
    f(249, 10, 1, 5, 0, 0, 8), // exclusiveMaximum
    f(483, 11, 3, 519, 0, 0, 643), // minimum
    f(250, 12, 1, 5, 0, 0, 8), // exclusiveMinimum
    f(457, 13, 3, 44, 0, 0, 56), // maxLength
    f(479, 14, 3, 44, 0, 0, 56), // minLength
    f(568, 15, 1, 0, 0, 0, 4), // pattern
    f(456, 16, 3, 44, 0, 0, 56), // maxItems
    f(478, 17, 3, 44, 0, 0, 56), // minItems
    f(882, 18, 1, 5, 0, 0, 8), // uniqueItems
    f(492, 19, 3, 519, 0, 0, 643), // multipleOf
    f(234, 20, 1, 520, 1, 0, 644), // enum
    f(459, 21, 3, 44, 0, 0, 56), // maxProperties
    f(480, 22, 3, 44, 0, 0, 56), // minProperties
    f(672, 23, 1, 9, 1, 0, 13), // required
    f(381, 24, 3, 521, 0, 0, 645), // items
    f(21, 25, 1, 522, 1, 0, 646), // allOf
    f(540, 26, 1, 522, 1, 0, 646), // oneOf
    f(38, 27, 1, 522, 1, 0, 646), // anyOf
    f(525, 28, 3, 517, 0, 0, 640), // not
    f(628, 29, 1, 523, 0, 0, 647), // properties
    f(12, 30, 3, 524, 0, 0, 648), // additionalProperties
    f(569, 31, 1, 523, 0, 0, 647), // patternProperties
    f(186, 32, 1, 525, 0, 0, 649), // dependencies
    f(10, 33, 3, 524, 0, 0, 648), // additionalItems
    f(181, 34, 1, 523, 0, 0, 650), // definitions
    f(263, 35, 3, 526, 0, 0, 651), // externalDocs
    f(246, 36, 3, 518, 0, 0, 642), // example
    f(528, 37, 1, 5, 0, 0, 8), // nullable
    f(948, 38, 3, 5, 0, 0, 8), // x-kubernetes-preserve-unknown-fields
    f(943, 39, 1, 5, 0, 0, 8), // x-kubernetes-embedded-resource
    f(944, 40, 1, 5, 0, 0, 8), // x-kubernetes-int-or-string
    f(945, 41, 1, 9, 1, 0, 13), // x-kubernetes-list-map-keys
    f(946, 42, 3, 0, 0, 0, 4), // x-kubernetes-list-type
    f(947, 43, 3, 0, 0, 0, 4), // x-kubernetes-map-type
    f(949, 44, 1, 527, 24, 0, 652), // x-kubernetes-validations
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.SelectableField
    f(384, 1, 8, 0, 0, 1, 4), // jsonPath
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ServiceReference
    f(497, 1, 8, 0, 0, 1, 4), // namespace
    f(494, 2, 8, 0, 0, 1, 4), // name
    f(565, 3, 3, 0, 0, 0, 4), // path
    f(605, 4, 3, 29, 0, 0, 37), // port
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ValidationRule
    f(706, 1, 8, 0, 0, 1, 4), // rule
    f(468, 2, 1, 0, 0, 0, 4), // message
    f(469, 3, 1, 0, 0, 0, 4), // messageExpression
    f(648, 4, 3, 0, 0, 0, 653), // reason
    f(278, 5, 1, 0, 0, 0, 4), // fieldPath
    f(548, 6, 3, 5, 0, 0, 8), // optionalOldSelf
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.WebhookClientConfig
    f(888, 3, 3, 0, 0, 0, 4), // url
    f(756, 1, 3, 528, 0, 0, 62), // service
    f(91, 2, 1, 7, 0, 0, 10), // caBundle
    // io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.WebhookConversion
    f(112, 2, 3, 529, 0, 0, 34), // clientConfig
    f(154, 3, 8, 9, 1, 0, 13), // conversionReviewVersions
    // io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(909, 2, 8, 530, 1, 0, 654), // versions
    f(616, 3, 1, 531, 0, 2, 655), // preferredVersion
    f(755, 4, 1, 532, 1, 0, 656), // serverAddressByClientCIDRs
    // io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(319, 1, 8, 533, 1, 0, 657), // groups
    // io.k8s.apimachinery.pkg.apis.meta.v1.APIResource
    f(494, 1, 8, 0, 0, 1, 4), // name
    f(777, 6, 8, 0, 0, 1, 4), // singularName
    f(499, 2, 8, 5, 0, 4, 8), // namespaced
    f(316, 8, 1, 0, 0, 0, 4), // group
    f(907, 9, 1, 0, 0, 0, 4), // version
    f(391, 3, 8, 0, 0, 1, 4), // kind
    f(906, 4, 8, 534, 0, 0, 658), // verbs
    f(772, 5, 1, 9, 1, 0, 13), // shortNames
    f(96, 7, 1, 9, 1, 0, 13), // categories
    f(809, 10, 1, 0, 0, 0, 4), // storageVersionHash
    // io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(318, 1, 8, 0, 0, 1, 4), // groupVersion
    f(693, 2, 8, 535, 1, 0, 659), // resources
    // io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(909, 1, 8, 9, 1, 0, 13), // versions
    f(755, 2, 8, 532, 1, 0, 656), // serverAddressByClientCIDRs
    // io.k8s.apimachinery.pkg.apis.meta.v1.Condition
    f(876, 1, 8, 0, 0, 1, 4), // type
    f(794, 2, 8, 0, 0, 1, 67), // status
    f(536, 3, 1, 44, 0, 0, 56), // observedGeneration
    f(415, 4, 8, 53, 0, 0, 68), // lastTransitionTime
    f(648, 5, 8, 0, 0, 1, 4), // reason
    f(468, 6, 8, 0, 0, 1, 4), // message
    // io.k8s.apimachinery.pkg.apis.meta.v1.CreateOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(223, 1, 1, 9, 0, 0, 13), // dryRun
    f(277, 3, 1, 0, 0, 0, 4), // fieldManager
    f(281, 4, 1, 0, 0, 0, 4), // fieldValidation
    // io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(315, 1, 3, 44, 0, 0, 56), // gracePeriodSeconds
    f(611, 2, 3, 536, 0, 0, 660), // preconditions
    f(551, 3, 3, 5, 0, 0, 8), // orphanDependents
    f(627, 4, 3, 0, 0, 0, 661), // propagationPolicy
    f(223, 5, 1, 9, 1, 0, 13), // dryRun
    f(350, 6, 3, 5, 0, 0, 8), // ignoreStoreReadErrorWithClusterBreakingPotential
    // io.k8s.apimachinery.pkg.apis.meta.v1.FieldSelectorRequirement
    f(387, 1, 8, 0, 0, 1, 4), // key
    f(546, 2, 8, 0, 0, 1, 662), // operator
    f(903, 3, 1, 9, 1, 0, 13), // values
    // io.k8s.apimachinery.pkg.apis.meta.v1.GetOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(691, 1, 1, 0, 0, 0, 4), // resourceVersion
    // io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionForDiscovery
    f(318, 1, 8, 0, 0, 1, 4), // groupVersion
    f(907, 2, 8, 0, 0, 1, 4), // version
    // io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionKind
    f(316, 1, 0, 0, 0, 0, 4), // group
    f(907, 2, 0, 0, 0, 0, 4), // version
    f(391, 3, 0, 0, 0, 0, 4), // kind
    // io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionResource
    f(316, 1, 0, 0, 0, 0, 4), // group
    f(907, 2, 0, 0, 0, 0, 4), // version
    f(679, 3, 0, 0, 0, 0, 4), // resource
    // io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector
    f(449, 1, 1, 8, 0, 0, 12), // matchLabels
    f(445, 2, 1, 87, 1, 0, 110), // matchExpressions
    // io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement
    f(387, 1, 8, 0, 0, 1, 4), // key
    f(546, 2, 8, 0, 0, 1, 663), // operator
    f(903, 3, 1, 9, 1, 0, 13), // values
    // io.k8s.apimachinery.pkg.apis.meta.v1.List
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 0, 23), // metadata
    f(381, 2, 0, 537, 0, 0, 664), // items
    // io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta
    f(749, 1, 1, 0, 0, 0, 4), // selfLink
    f(691, 2, 1, 0, 0, 0, 4), // resourceVersion
    f(148, 3, 1, 0, 0, 0, 4), // continue
    f(657, 4, 3, 44, 0, 0, 56), // remainingItemCount
    f(766, 5, 3, 538, 0, 0, 665), // shardInfo
    // io.k8s.apimachinery.pkg.apis.meta.v1.ListOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(402, 1, 1, 0, 0, 0, 4), // labelSelector
    f(280, 2, 1, 0, 0, 0, 4), // fieldSelector
    f(933, 3, 1, 5, 0, 0, 8), // watch
    f(34, 9, 1, 5, 0, 0, 8), // allowWatchBookmarks
    f(691, 4, 1, 0, 0, 0, 4), // resourceVersion
    f(692, 10, 1, 0, 0, 0, 666), // resourceVersionMatch
    f(859, 5, 3, 44, 0, 0, 56), // timeoutSeconds
    f(422, 7, 1, 44, 0, 0, 56), // limit
    f(148, 8, 1, 0, 0, 0, 4), // continue
    f(750, 11, 3, 5, 0, 0, 8), // sendInitialEvents
    f(767, 15, 1, 0, 0, 0, 4), // shardSelector
    // io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry
    f(440, 1, 1, 0, 0, 0, 4), // manager
    f(544, 2, 1, 0, 0, 0, 667), // operation
    f(41, 3, 1, 0, 0, 0, 4), // apiVersion
    f(856, 4, 3, 53, 0, 0, 68), // time
    f(282, 6, 1, 0, 0, 0, 4), // fieldsType
    f(283, 7, 3, 539, 0, 0, 668), // fieldsV1
    f(821, 8, 1, 0, 0, 0, 4), // subresource
    // io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta
    f(494, 1, 1, 0, 0, 0, 4), // name
    f(303, 2, 1, 0, 0, 0, 4), // generateName
    f(497, 3, 1, 0, 0, 0, 4), // namespace
    f(749, 4, 1, 0, 0, 0, 4), // selfLink
    f(878, 5, 1, 0, 0, 0, 1), // uid
    f(691, 6, 1, 0, 0, 0, 4), // resourceVersion
    f(304, 7, 1, 44, 0, 0, 56), // generation
    f(159, 8, 17, 53, 0, 0, 68), // creationTimestamp
    f(184, 9, 3, 53, 0, 0, 68), // deletionTimestamp
    f(183, 10, 3, 44, 0, 0, 56), // deletionGracePeriodSeconds
    f(404, 11, 1, 8, 0, 0, 12), // labels
    f(37, 12, 1, 8, 0, 0, 12), // annotations
    f(555, 13, 1, 540, 22, 0, 669), // ownerReferences
    f(285, 14, 1, 9, 11, 0, 13), // finalizers
    f(439, 17, 1, 541, 1, 0, 670), // managedFields
    // io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference
    f(41, 5, 8, 0, 0, 1, 4), // apiVersion
    f(391, 1, 8, 0, 0, 1, 4), // kind
    f(494, 3, 8, 0, 0, 1, 4), // name
    f(878, 4, 8, 0, 0, 1, 1), // uid
    f(149, 6, 3, 5, 0, 0, 8), // controller
    f(83, 7, 3, 5, 0, 0, 8), // blockOwnerDeletion
    // io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 0, 20), // metadata
    // io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 0, 23), // metadata
    f(381, 2, 0, 542, 0, 0, 671), // items
    // io.k8s.apimachinery.pkg.apis.meta.v1.PatchOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(223, 1, 1, 9, 0, 0, 13), // dryRun
    f(293, 2, 3, 5, 0, 0, 8), // force
    f(277, 3, 1, 0, 0, 0, 4), // fieldManager
    f(281, 4, 1, 0, 0, 0, 4), // fieldValidation
    // io.k8s.apimachinery.pkg.apis.meta.v1.Preconditions
    f(878, 1, 3, 0, 0, 0, 1), // uid
    f(691, 2, 3, 0, 0, 0, 4), // resourceVersion
    // io.k8s.apimachinery.pkg.apis.meta.v1.ServerAddressByClientCIDR
    f(111, 1, 8, 0, 0, 1, 4), // clientCIDR
    f(754, 2, 8, 0, 0, 1, 4), // serverAddress
    // io.k8s.apimachinery.pkg.apis.meta.v1.ShardInfo
    f(747, 1, 8, 0, 0, 1, 4), // selector
    // io.k8s.apimachinery.pkg.apis.meta.v1.Status
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(794, 2, 1, 0, 0, 0, 4), // status
    f(468, 3, 1, 0, 0, 0, 4), // message
    f(648, 4, 1, 0, 0, 0, 61), // reason
    f(203, 5, 3, 543, 0, 0, 672), // details
    f(119, 6, 1, 29, 0, 0, 37), // code
    // io.k8s.apimachinery.pkg.apis.meta.v1.StatusCause
    f(648, 1, 1, 0, 0, 0, 673), // reason
    f(468, 2, 1, 0, 0, 0, 4), // message
    f(276, 3, 1, 0, 0, 0, 4), // field
    // io.k8s.apimachinery.pkg.apis.meta.v1.StatusDetails
    f(494, 1, 1, 0, 0, 0, 4), // name
    f(316, 2, 1, 0, 0, 0, 4), // group
    f(391, 3, 1, 0, 0, 0, 4), // kind
    f(878, 6, 1, 0, 0, 0, 1), // uid
    f(97, 4, 1, 544, 1, 0, 674), // causes
    f(699, 5, 1, 29, 0, 0, 37), // retryAfterSeconds
    // io.k8s.apimachinery.pkg.apis.meta.v1.Table
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 0, 1, 18, 0, 0, 23), // metadata
    f(121, 0, 0, 545, 0, 0, 675), // columnDefinitions
    f(705, 0, 0, 546, 0, 0, 676), // rows
    // io.k8s.apimachinery.pkg.apis.meta.v1.TableColumnDefinition
    f(494, 0, 0, 0, 0, 0, 4), // name
    f(876, 0, 0, 0, 0, 0, 4), // type
    f(294, 0, 0, 0, 0, 0, 4), // format
    f(198, 0, 0, 0, 0, 0, 4), // description
    f(620, 0, 0, 29, 0, 0, 37), // priority
    // io.k8s.apimachinery.pkg.apis.meta.v1.TableRow
    f(99, 0, 0, 547, 0, 0, 677), // cells
    f(131, 0, 1, 548, 0, 0, 678), // conditions
    f(534, 0, 1, 4, 0, 0, 7), // object
    // io.k8s.apimachinery.pkg.apis.meta.v1.TableRowCondition
    f(876, 0, 0, 0, 0, 0, 679), // type
    f(794, 0, 0, 0, 0, 0, 67), // status
    f(648, 0, 1, 0, 0, 0, 4), // reason
    f(468, 0, 1, 0, 0, 0, 4), // message
    // io.k8s.apimachinery.pkg.apis.meta.v1.TypeMeta
    f(391, 1, 1, 0, 0, 0, 4), // kind
    f(41, 2, 1, 0, 0, 0, 4), // apiVersion
    // io.k8s.apimachinery.pkg.apis.meta.v1.UpdateOptions
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(223, 1, 1, 9, 0, 0, 13), // dryRun
    f(277, 2, 1, 0, 0, 0, 4), // fieldManager
    f(281, 3, 1, 0, 0, 0, 4), // fieldValidation
    // io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent
    f(876, 1, 8, 0, 0, 1, 4), // type
    f(534, 2, 8, 4, 0, 0, 7), // object
    // io.k8s.apimachinery.pkg.version.Info
    f(437, 0, 8, 0, 0, 1, 4), // major
    f(484, 0, 8, 0, 0, 1, 4), // minor
    f(227, 0, 1, 0, 0, 0, 4), // emulationMajor
    f(228, 0, 1, 0, 0, 0, 4), // emulationMinor
    f(475, 0, 1, 0, 0, 0, 4), // minCompatibilityMajor
    f(476, 0, 1, 0, 0, 0, 4), // minCompatibilityMinor
    f(309, 0, 8, 0, 0, 1, 4), // gitVersion
    f(306, 0, 8, 0, 0, 1, 4), // gitCommit
    f(308, 0, 8, 0, 0, 1, 4), // gitTreeState
    f(89, 0, 8, 0, 0, 1, 4), // buildDate
    f(314, 0, 8, 0, 0, 1, 4), // goVersion
    f(123, 0, 8, 0, 0, 1, 4), // compiler
    f(581, 0, 8, 0, 0, 1, 4), // platform
    // io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 15, 0, 2, 20), // metadata
    f(783, 2, 1, 549, 0, 2, 680), // spec
    f(794, 3, 1, 550, 0, 2, 681), // status
    // io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceCondition
    f(876, 1, 8, 0, 0, 1, 682), // type
    f(794, 2, 8, 0, 0, 1, 67), // status
    f(415, 3, 1, 53, 0, 0, 68), // lastTransitionTime
    f(648, 4, 1, 0, 0, 0, 4), // reason
    f(468, 5, 1, 0, 0, 0, 4), // message
    // io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceList
    f(65535, 0, 4, 10, 0, 0, 14), // (inline)
    f(470, 1, 1, 18, 0, 2, 23), // metadata
    f(381, 2, 8, 551, 0, 0, 683), // items
    // io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceSpec
    f(756, 1, 3, 552, 0, 0, 62), // service
    f(316, 2, 1, 0, 0, 0, 4), // group
    f(907, 3, 1, 0, 0, 0, 4), // version
    f(366, 4, 1, 5, 0, 0, 8), // insecureSkipTLSVerify
    f(91, 5, 1, 7, 1, 0, 10), // caBundle
    f(317, 7, 8, 29, 0, 3, 37), // groupPriorityMinimum
    f(908, 8, 8, 29, 0, 3, 37), // versionPriority
    // io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceStatus
    f(131, 1, 1, 553, 5, 0, 684), // conditions
    // io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference
    f(497, 1, 1, 0, 0, 0, 4), // namespace
    f(494, 2, 1, 0, 0, 0, 4), // name
    f(605, 3, 3, 29, 0, 0, 37), // port
];
