//! The fields that the API has, and which of them the agent acts on.

use serde_json::Value;

/// Whether the agent does what the field says, though it does not read it.
pub(super) fn is_done_anyway(key: &str, value: &Value) -> bool {
    let empty = value.is_null()
        || value.as_str() == Some("")
        || value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(serde_json::Map::is_empty)
        || value.as_i64() == Some(0);
    let same = match key {
        "enableServer"
        | "rotateCertificates"
        | "serverTLSBootstrap"
        | "cgroupsPerQOS"
        | "registerNode"
        | "enableControllerAttachDetach"
        | "cpuCFSQuota"
        | "localStorageCapacityIsolation"
        | "enableDebuggingHandlers" => value == &Value::Bool(true),
        // the groups of others are left to who made them
        "enforceNodeAllocatable" => value
            .as_array()
            .is_some_and(|list| list.iter().all(|what| what == "pods" || what == "none")),
        "configMapAndSecretChangeDetectionStrategy" => value == "Watch",
        "address" => value == "0.0.0.0" || value == "::",
        "port" => value == 10250,
        "nodeStatusUpdateFrequency" => value == "10s",
        "nodeStatusReportFrequency" => value == "5m" || value == "5m0s",
        "nodeLeaseDurationSeconds" => value == 40,
        "failSwapOn" | "failCgroupV1" | "protectKernelDefaults" => value == &Value::Bool(false),
        _ => false,
    };
    empty || same
}

/// The fields that the agent acts on.
pub(super) const SUPPORTED: &[&str] = &[
    "imagePullCredentialsVerificationPolicy",
    "preloadedImagesVerificationAllowlist",
    "authentication",
    "authorization",
    "maxPods",
    "podPidsLimit",
    "staticPodPath",
    "fileCheckFrequency",
    "allowedUnsafeSysctls",
    "seccompDefault",
    "containerLogMaxSize",
    "containerLogMaxFiles",
    "serializeImagePulls",
    "maxParallelImagePulls",
    "crashLoopBackOff",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMinimumReclaim",
    "evictionPressureTransitionPeriod",
    "evictionMaxPodGracePeriod",
    "mergeDefaultEvictionSettings",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "imageMinimumGCAge",
    "imageMaximumGCAge",
    "kubeReserved",
    "systemReserved",
    "registerWithTaints",
    "nodeStatusMaxImages",
    "shutdownGracePeriod",
    "shutdownGracePeriodCriticalPods",
    "shutdownGracePeriodByPodPriority",
    "cpuManagerPolicy",
    "cpuManagerPolicyOptions",
    "cpuManagerReconcilePeriod",
    "memoryManagerPolicy",
    "topologyManagerPolicy",
    "topologyManagerScope",
    "topologyManagerPolicyOptions",
    "reservedSystemCPUs",
    "reservedMemory",
    "featureGates",
    "memorySwap",
    "memoryThrottlingFactor",
    "memoryReservationPolicy",
    "singleProcessOOMKill",
    "clusterDNS",
    "clusterDomain",
    "resolvConf",
    "containerRuntimeEndpoint",
    "podLogsDir",
    "cgroupRoot",
    "cgroupDriver",
    "tlsCertFile",
    "tlsPrivateKeyFile",
    "enableSystemLogHandler",
    "enableSystemLogQuery",
    "apiVersion",
    "kind",
    "metadata",
];

/// The other fields that the API has.
pub(super) const KNOWN: &[&str] = &[
    "enableServer",
    "syncFrequency",
    "httpCheckFrequency",
    "staticPodURL",
    "staticPodURLHeader",
    "address",
    "port",
    "readOnlyPort",
    "tlsCipherSuites",
    "tlsCurvePreferences",
    "tlsMinVersion",
    "rotateCertificates",
    "serverTLSBootstrap",
    "registryPullQPS",
    "registryBurst",
    "eventRecordQPS",
    "eventBurst",
    "enableDebuggingHandlers",
    "enableContentionProfiling",
    "healthzPort",
    "healthzBindAddress",
    "oomScoreAdj",
    "streamingConnectionIdleTimeout",
    "nodeStatusUpdateFrequency",
    "nodeStatusReportFrequency",
    "nodeLeaseDurationSeconds",
    "volumeStatsAggPeriod",
    "kubeletCgroups",
    "systemCgroups",
    "cgroupsPerQOS",
    "qosReserved",
    "runtimeRequestTimeout",
    "hairpinMode",
    "podCIDR",
    "runOnce",
    "cpuCFSQuota",
    "cpuCFSQuotaPeriod",
    "maxOpenFiles",
    "contentType",
    "kubeAPIQPS",
    "kubeAPIBurst",
    "podsPerCore",
    "enableControllerAttachDetach",
    "protectKernelDefaults",
    "makeIPTablesUtilChains",
    "iptablesMasqueradeBit",
    "iptablesDropBit",
    "failSwapOn",
    "containerLogMaxWorkers",
    "containerLogMonitorInterval",
    "configMapAndSecretChangeDetectionStrategy",
    "showHiddenMetricsForVersion",
    "systemReservedCgroup",
    "kubeReservedCgroup",
    "enforceNodeAllocatable",
    "volumePluginDir",
    "providerID",
    "kernelMemcgNotification",
    "logging",
    "enableProfilingHandler",
    "enableDebugFlagsHandler",
    "registerNode",
    "tracing",
    "localStorageCapacityIsolation",
    "imageServiceEndpoint",
    "failCgroupV1",
    "userNamespaces",
    "nodeIPs",
];
