//! The kubelet's configuration file: `KubeletConfiguration` of
//! `kubelet.config.k8s.io/v1beta1`.
//!
//! A field that the API does not have is an error, as it is for the kubelet. A
//! field that it has and this agent does not act on is named by
//! [`Settings::unsupported`], unless it says what the agent does anyway.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::pod::pulls::Verification;
use crate::pod::quantity;

/// What the agent acts on. The defaults are the kubelet's.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Most pods; none leaves it to the command line.
    pub max_pods: Option<u32>,
    /// Most processes of one pod; none is no limit.
    pub pod_pids: Option<i64>,
    /// Folder of manifests that run whatever the API says.
    pub static_pods: Option<PathBuf>,
    /// How often that folder is read though nothing was heard of it.
    pub static_every: Duration,
    /// Settings of the kernel beyond the safe ones that pods may change.
    pub sysctls: Vec<String>,
    /// Whether containers that say nothing get the runtime's seccomp profile.
    pub seccomp_default: bool,
    /// Bytes from which on a log is rotated.
    pub log_most: u64,
    /// Files of one log, the current one with them.
    pub log_files: usize,
    /// Pulls that may go on at once.
    pub pulls: usize,
    /// Which images that are there have to be verified.
    pub verification: Verification,
    /// The longest back-off of a container that crashes.
    pub restart_most: Duration,
    /// What has to stay free before pods are evicted.
    pub eviction: Eviction,
    /// When images are removed.
    pub images: ImageCollection,
    /// By resource: what is kept from pods, of both reservations.
    pub reserved: BTreeMap<String, String>,
    /// Taints that the node registers with.
    pub taints: Vec<Value>,
    /// How many images the node's status names.
    pub status_images: usize,
    /// Who may use the serving API.
    pub access: Access,
    /// Fields of the file that the agent does not act on.
    pub unsupported: Vec<String>,
    /// The file as it was read, with what was not set left out.
    pub raw: Value,
}

/// An amount, or a share of what there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Bytes, inodes or processes.
    Units(u64),
    /// Of 100.
    Percent(f64),
}

impl Amount {
    /// The amount, of `capacity`.
    #[must_use]
    pub fn of(self, capacity: u64) -> u64 {
        match self {
            Self::Units(units) => units,
            Self::Percent(percent) => (capacity as f64 * percent / 100.0) as u64,
        }
    }
}

/// What can run short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// `memory.available`
    Memory,
    /// `nodefs.available`
    Disk,
    /// `nodefs.inodesFree`
    Inodes,
    /// `imagefs.available`
    ImageDisk,
    /// `imagefs.inodesFree`
    ImageInodes,
    /// `pid.available`
    Pids,
}

impl Signal {
    /// By its name in the configuration.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "memory.available" => Self::Memory,
            "nodefs.available" => Self::Disk,
            "nodefs.inodesFree" => Self::Inodes,
            "imagefs.available" => Self::ImageDisk,
            "imagefs.inodesFree" => Self::ImageInodes,
            "pid.available" => Self::Pids,
            _ => return None,
        })
    }
}

/// What has to stay free of one thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Of what.
    pub signal: Signal,
    /// How much.
    pub least: Amount,
    /// How long it may be less; none is not at all.
    pub grace: Option<Duration>,
    /// How much more has to be free again before it is enough.
    pub reclaim: Amount,
}

/// `evictionHard` and its companions.
#[derive(Clone, Debug, PartialEq)]
pub struct Eviction {
    /// What has to stay free.
    pub thresholds: Vec<Threshold>,
    /// How long a condition of the node outlasts its cause.
    pub transition: Duration,
    /// Seconds that a pod gets at most where the threshold had a grace.
    pub most_grace: i64,
}

/// `authentication` and `authorization`: who may use the serving API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether nobody is somebody too.
    pub anonymous: bool,
    /// Whether tokens are held against the API.
    pub webhook_tokens: bool,
    /// How long the answer is good for.
    pub tokens_for: Duration,
    /// Whether rights are; otherwise everybody known may do everything.
    pub webhook_rights: bool,
    /// How long a yes is good for.
    pub allowed_for: Duration,
    /// How long a no is.
    pub denied_for: Duration,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            anonymous: false,
            webhook_tokens: true,
            tokens_for: Duration::from_secs(120),
            webhook_rights: true,
            allowed_for: Duration::from_secs(300),
            denied_for: Duration::from_secs(30),
        }
    }
}

/// `imageGC…`
#[derive(Clone, Debug, PartialEq)]
pub struct ImageCollection {
    /// Percent of the disk from which on images are removed.
    pub high: u64,
    /// Percent of the disk down to which they are.
    pub low: u64,
    /// How old an unused image must be.
    pub least_age: Duration,
    /// How old an unused image may be, whatever the disk; none is for ever.
    pub most_age: Option<Duration>,
}

/// Why a configuration is none.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no YAML or of another shape.
    #[error("the kubelet's configuration cannot be read: {0}")]
    Form(String),
    /// It is another kind of object.
    #[error(
        "the configuration is a `{0}`; write `apiVersion: kubelet.config.k8s.io/v1beta1` and `kind: KubeletConfiguration`"
    )]
    Kind(String),
    /// The API has no such field.
    #[error("strict decoding error: unknown field \"{0}\"")]
    Unknown(String),
    /// A value cannot be.
    #[error("invalid configuration: {field}: `{value}` {why}")]
    Value {
        /// Where.
        field: &'static str,
        /// What.
        value: String,
        /// Why not.
        why: &'static str,
    },
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct File {
    max_pods: Option<u32>,
    pod_pids_limit: Option<i64>,
    static_pod_path: String,
    file_check_frequency: Option<String>,
    allowed_unsafe_sysctls: Vec<String>,
    seccomp_default: Option<bool>,
    container_log_max_size: Option<String>,
    container_log_max_files: Option<usize>,
    serialize_image_pulls: Option<bool>,
    max_parallel_image_pulls: Option<usize>,
    image_pull_credentials_verification_policy: Option<String>,
    preloaded_images_verification_allowlist: Vec<String>,
    crash_loop_back_off: CrashLoop,
    eviction_hard: Option<BTreeMap<String, String>>,
    eviction_soft: BTreeMap<String, String>,
    eviction_soft_grace_period: BTreeMap<String, String>,
    eviction_minimum_reclaim: BTreeMap<String, String>,
    eviction_pressure_transition_period: Option<String>,
    eviction_max_pod_grace_period: Option<i64>,
    merge_default_eviction_settings: Option<bool>,
    #[serde(rename = "imageGCHighThresholdPercent")]
    image_gc_high: Option<u64>,
    #[serde(rename = "imageGCLowThresholdPercent")]
    image_gc_low: Option<u64>,
    #[serde(rename = "imageMinimumGCAge")]
    image_least_age: Option<String>,
    #[serde(rename = "imageMaximumGCAge")]
    image_most_age: Option<String>,
    kube_reserved: BTreeMap<String, String>,
    system_reserved: BTreeMap<String, String>,
    register_with_taints: Vec<Value>,
    node_status_max_images: Option<i64>,
    authentication: Authentication,
    authorization: Authorization,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Authentication {
    anonymous: Switch,
    webhook: Switch,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Switch {
    enabled: Option<bool>,
    #[serde(rename = "cacheTTL")]
    cache_ttl: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Authorization {
    mode: Option<String>,
    webhook: Reviews,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reviews {
    #[serde(rename = "cacheAuthorizedTTL")]
    allowed: Option<String>,
    #[serde(rename = "cacheUnauthorizedTTL")]
    denied: Option<String>,
}

impl Access {
    fn from_file(who: Authentication, may: Authorization) -> Result<Self, Error> {
        let webhook_rights = match may.mode.as_deref() {
            None | Some("" | "Webhook") => true,
            Some("AlwaysAllow") => false,
            Some(other) => {
                return Err(Error::Value {
                    field: "authorization.mode",
                    value: other.to_owned(),
                    why: "is neither Webhook nor AlwaysAllow",
                });
            }
        };
        // as in Kubernetes, nothing said of a lifetime and none at all are the same
        let lifetime = |field, text: Option<String>, default| {
            let text = text.filter(|t| t != "0" && t != "0s");
            time(field, text, default)
        };
        Ok(Self {
            anonymous: who.anonymous.enabled.unwrap_or(false),
            webhook_tokens: who.webhook.enabled.unwrap_or(true),
            tokens_for: lifetime(
                "authentication.webhook.cacheTTL",
                who.webhook.cache_ttl,
                120,
            )?,
            webhook_rights,
            allowed_for: lifetime(
                "authorization.webhook.cacheAuthorizedTTL",
                may.webhook.allowed,
                300,
            )?,
            denied_for: lifetime(
                "authorization.webhook.cacheUnauthorizedTTL",
                may.webhook.denied,
                30,
            )?,
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CrashLoop {
    max_container_restart_period: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self::from_file(File::default()).unwrap_or_else(|_| unreachable!("defaults are valid"))
    }
}

impl Settings {
    /// Reads a configuration, YAML or JSON.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let raw: Value = serde_saphyr::from_str(text).map_err(|e| Error::Form(e.to_string()))?;
        let map = raw
            .as_object()
            .ok_or_else(|| Error::Form("it is no mapping".to_owned()))?;
        let word = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default();
        let kind = format!("{} {}", word("apiVersion"), word("kind"));
        if kind != "kubelet.config.k8s.io/v1beta1 KubeletConfiguration" {
            return Err(Error::Kind(kind));
        }
        let mut unsupported = Vec::new();
        for (key, value) in map {
            if key == "apiVersion" || key == "kind" || SUPPORTED.contains(&key.as_str()) {
                continue;
            }
            if !KNOWN.contains(&key.as_str()) {
                return Err(Error::Unknown(key.clone()));
            }
            if !is_done_anyway(key, value) {
                unsupported.push(key.clone());
            }
        }
        let authority = raw.pointer("/authentication/x509/clientCAFile");
        if authority
            .and_then(Value::as_str)
            .is_some_and(|file| !file.is_empty())
        {
            // it comes with what the node joined with
            unsupported.push("authentication.x509.clientCAFile".to_owned());
        }
        let file: File =
            serde_json::from_value(raw.clone()).map_err(|e| Error::Form(e.to_string()))?;
        Ok(Self {
            unsupported,
            raw,
            ..Self::from_file(file)?
        })
    }

    fn from_file(file: File) -> Result<Self, Error> {
        let parallel = file.max_parallel_image_pulls;
        Ok(Self {
            max_pods: file.max_pods.filter(|n| *n > 0),
            pod_pids: file.pod_pids_limit.filter(|n| *n > 0),
            static_pods: (!file.static_pod_path.is_empty()).then(|| file.static_pod_path.into()),
            static_every: time("fileCheckFrequency", file.file_check_frequency, 20)?,
            sysctls: file.allowed_unsafe_sysctls,
            seccomp_default: file.seccomp_default.unwrap_or(false),
            log_most: file
                .container_log_max_size
                .map_or(Ok(10 << 20), |t| size("containerLogMaxSize", &t))?,
            log_files: file.container_log_max_files.unwrap_or(5).max(2),
            pulls: match (file.serialize_image_pulls, parallel) {
                (Some(true), _) => 1,
                (_, Some(most)) => most.max(1),
                // the kubelet's default is one after the other
                _ => 3,
            },
            verification: verification(
                file.image_pull_credentials_verification_policy.as_deref(),
                file.preloaded_images_verification_allowlist,
            )?,
            restart_most: time(
                "crashLoopBackOff.maxContainerRestartPeriod",
                file.crash_loop_back_off.max_container_restart_period,
                300,
            )?,
            eviction: Eviction {
                thresholds: thresholds(
                    file.eviction_hard,
                    &file.eviction_soft,
                    &file.eviction_soft_grace_period,
                    &file.eviction_minimum_reclaim,
                    file.merge_default_eviction_settings.unwrap_or(false),
                )?,
                transition: time(
                    "evictionPressureTransitionPeriod",
                    file.eviction_pressure_transition_period,
                    300,
                )?,
                most_grace: file.eviction_max_pod_grace_period.unwrap_or(0).max(0),
            },
            images: ImageCollection {
                high: file.image_gc_high.unwrap_or(85),
                low: file.image_gc_low.unwrap_or(80),
                least_age: time("imageMinimumGCAge", file.image_least_age, 120)?,
                most_age: Some(time("imageMaximumGCAge", file.image_most_age, 0)?)
                    .filter(|age| !age.is_zero()),
            },
            reserved: together(&file.kube_reserved, &file.system_reserved)?,
            taints: file.register_with_taints,
            status_images: match file.node_status_max_images {
                None => 50,
                Some(most) => usize::try_from(most).unwrap_or(usize::MAX),
            },
            access: Access::from_file(file.authentication, file.authorization)?,
            unsupported: Vec::new(),
            raw: Value::Object(serde_json::Map::new()),
        })
    }
}

fn verification(policy: Option<&str>, list: Vec<String>) -> Result<Verification, Error> {
    let wrong = |field, value: &str, why| {
        Err(Error::Value {
            field,
            value: value.to_owned(),
            why,
        })
    };
    let found = match policy {
        None | Some("" | "NeverVerifyPreloadedImages") => Verification::Fetched,
        Some("NeverVerify") => Verification::Never,
        Some("AlwaysVerify") => Verification::Always,
        Some("NeverVerifyAllowlistedImages") => {
            for one in &list {
                let name = one.strip_suffix("/*").unwrap_or(one);
                if name.is_empty() || name.contains(['*', '@', ' ']) {
                    let field = "preloadedImagesVerificationAllowlist";
                    return wrong(
                        field,
                        one,
                        "is no image's name, nor one that ends with `/*`",
                    );
                }
            }
            return Ok(Verification::AllBut(list));
        }
        Some(other) => {
            let field = "imagePullCredentialsVerificationPolicy";
            return wrong(field, other, "is no such policy");
        }
    };
    if !list.is_empty() {
        let field = "preloadedImagesVerificationAllowlist";
        return wrong(
            field,
            "",
            "is only for the policy NeverVerifyAllowlistedImages",
        );
    }
    Ok(found)
}

fn together(
    a: &BTreeMap<String, String>,
    b: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Error> {
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for (name, text) in a.iter().chain(b) {
        let milli = quantity::milli(text).ok_or_else(|| Error::Value {
            field: "kubeReserved",
            value: text.clone(),
            why: "is no quantity",
        })?;
        let sum = sums.entry(name.clone()).or_default();
        *sum = sum.saturating_add(milli);
    }
    Ok(sums
        .into_iter()
        .map(|(name, milli)| (name, format!("{milli}m")))
        .collect())
}

/// The thresholds that the kubelet has when none are given.
const HARD: [(&str, &str); 5] = [
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
    ("imagefs.available", "15%"),
    ("imagefs.inodesFree", "5%"),
];

fn thresholds(
    hard: Option<BTreeMap<String, String>>,
    soft: &BTreeMap<String, String>,
    graces: &BTreeMap<String, String>,
    reclaims: &BTreeMap<String, String>,
    merge: bool,
) -> Result<Vec<Threshold>, Error> {
    let defaults = HARD.map(|(k, v)| (k.to_owned(), v.to_owned()));
    let hard = match hard {
        None => defaults.into(),
        Some(own) if merge => {
            let mut all: BTreeMap<String, String> = defaults.into();
            all.extend(own);
            all
        }
        Some(own) => own,
    };
    let mut all = Vec::new();
    for (list, is_soft) in [(&hard, false), (soft, true)] {
        for (name, text) in list {
            let Some(signal) = Signal::named(name) else {
                // `containerfs.…` and `allocatableMemory…` are set by the kubelet itself
                continue;
            };
            let least = amount("evictionHard", text)?;
            if matches!(least, Amount::Percent(p) if p <= 0.0) {
                // `0%` switches a threshold off
                continue;
            }
            let grace = if is_soft {
                let text = graces.get(name).ok_or_else(|| Error::Value {
                    field: "evictionSoft",
                    value: name.clone(),
                    why: "has no entry in evictionSoftGracePeriod",
                })?;
                Some(time("evictionSoftGracePeriod", Some(text.clone()), 0)?)
            } else {
                None
            };
            let reclaim = reclaims.get(name).map_or(Ok(Amount::Units(0)), |text| {
                amount("evictionMinimumReclaim", text)
            })?;
            all.push(Threshold {
                signal,
                least,
                grace,
                reclaim,
            });
        }
    }
    Ok(all)
}

fn amount(field: &'static str, text: &str) -> Result<Amount, Error> {
    let wrong = |why| Error::Value {
        field,
        value: text.to_owned(),
        why,
    };
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.parse().map_err(|_| wrong("is no percentage"))?;
        return if (0.0..=100.0).contains(&percent) {
            Ok(Amount::Percent(percent))
        } else {
            Err(wrong("must be between 0% and 100%"))
        };
    }
    size(field, text).map(Amount::Units)
}

fn size(field: &'static str, text: &str) -> Result<u64, Error> {
    quantity::whole(text)
        .and_then(|n| u64::try_from(n).ok())
        .ok_or_else(|| Error::Value {
            field,
            value: text.to_owned(),
            why: "is no quantity",
        })
}

/// A duration as Go writes it (`1m30s`), to the millisecond; `default` seconds
/// when absent.
fn time(field: &'static str, text: Option<String>, default: u64) -> Result<Duration, Error> {
    let Some(text) = text else {
        return Ok(Duration::from_secs(default));
    };
    go_duration(&text).ok_or(Error::Value {
        field,
        value: text,
        why: "is no duration, such as `1m30s`",
    })
}

/// A duration as Go writes it: `1m30s`.
pub(crate) fn go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let number: f64 = number.parse().ok()?;
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        total += number
            * match unit {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = after;
    }
    (!text.is_empty()).then(|| Duration::try_from_secs_f64(total).ok())?
}

/// Whether the agent does what the field says, though it does not read it.
fn is_done_anyway(key: &str, value: &Value) -> bool {
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
        "cpuManagerPolicy" | "topologyManagerPolicy" => value == "none",
        "memoryManagerPolicy" => value == "None",
        "cgroupDriver" => value == "cgroupfs",
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
const SUPPORTED: [&str; 33] = [
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
    "apiVersion",
    "kind",
    "metadata",
];

/// The other fields that the API has.
const KNOWN: [&str; 96] = [
    "enableServer",
    "podLogsDir",
    "syncFrequency",
    "httpCheckFrequency",
    "staticPodURL",
    "staticPodURLHeader",
    "address",
    "port",
    "readOnlyPort",
    "tlsCertFile",
    "tlsPrivateKeyFile",
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
    "clusterDomain",
    "clusterDNS",
    "streamingConnectionIdleTimeout",
    "nodeStatusUpdateFrequency",
    "nodeStatusReportFrequency",
    "nodeLeaseDurationSeconds",
    "volumeStatsAggPeriod",
    "kubeletCgroups",
    "systemCgroups",
    "cgroupRoot",
    "cgroupsPerQOS",
    "cgroupDriver",
    "cpuManagerPolicy",
    "singleProcessOOMKill",
    "cpuManagerPolicyOptions",
    "cpuManagerReconcilePeriod",
    "memoryManagerPolicy",
    "topologyManagerPolicy",
    "topologyManagerScope",
    "topologyManagerPolicyOptions",
    "qosReserved",
    "runtimeRequestTimeout",
    "hairpinMode",
    "podCIDR",
    "resolvConf",
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
    "featureGates",
    "failSwapOn",
    "memorySwap",
    "containerLogMaxWorkers",
    "containerLogMonitorInterval",
    "configMapAndSecretChangeDetectionStrategy",
    "reservedSystemCPUs",
    "showHiddenMetricsForVersion",
    "systemReservedCgroup",
    "kubeReservedCgroup",
    "enforceNodeAllocatable",
    "volumePluginDir",
    "providerID",
    "kernelMemcgNotification",
    "logging",
    "enableSystemLogHandler",
    "enableSystemLogQuery",
    "shutdownGracePeriod",
    "shutdownGracePeriodCriticalPods",
    "shutdownGracePeriodByPodPriority",
    "reservedMemory",
    "enableProfilingHandler",
    "enableDebugFlagsHandler",
    "memoryThrottlingFactor",
    "memoryReservationPolicy",
    "registerNode",
    "tracing",
    "localStorageCapacityIsolation",
    "containerRuntimeEndpoint",
    "imageServiceEndpoint",
    "failCgroupV1",
    "userNamespaces",
    "nodeIPs",
];

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    #[test]
    fn what_kubeadm_writes_is_read_and_what_is_not_done_is_named() {
        let text = format!(
            "{HEAD}staticPodPath: /etc/kubernetes/manifests\ncgroupDriver: systemd\n\
             rotateCertificates: true\nevictionPressureTransitionPeriod: 0s\nmaxPods: 250\n\
             imageMinimumGCAge: 2m0s\nshutdownGracePeriod: 30s\nlogging:\n  verbosity: 2\n\
             kubeReserved: {{cpu: 100m, memory: 1Gi}}\nsystemReserved: {{cpu: '1'}}\n"
        );
        let settings = Settings::parse(&text).unwrap();
        assert_eq!(settings.max_pods, Some(250));
        assert_eq!(
            settings.static_pods.as_deref(),
            Some(std::path::Path::new("/etc/kubernetes/manifests"))
        );
        assert_eq!(settings.eviction.transition, Duration::ZERO);
        assert_eq!(settings.reserved["cpu"], "1100m");
        let mut unsupported = settings.unsupported;
        unsupported.sort();
        assert_eq!(
            unsupported,
            ["cgroupDriver", "logging", "shutdownGracePeriod"]
        );
    }

    #[test]
    fn who_may_ask_is_as_strict_as_the_kubelets_unless_told_otherwise() {
        assert_eq!(Settings::default().access, Access::default());
        // what kubeadm writes
        let text = format!(
            "{HEAD}authentication: {{anonymous: {{enabled: false}}, webhook: {{cacheTTL: 0s, enabled: true}}}}\n\
             authorization: {{mode: Webhook, webhook: {{cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 1m}}}}\n"
        );
        let access = Settings::parse(&text).unwrap().access;
        assert_eq!(access.denied_for, Duration::from_secs(60));
        assert_eq!(access.allowed_for, Duration::from_secs(300));
        let text = format!("{HEAD}authorization: {{mode: AlwaysAllow}}\n");
        assert!(!Settings::parse(&text).unwrap().access.webhook_rights);
        let text = format!("{HEAD}authorization: {{mode: ABAC}}\n");
        assert!(Settings::parse(&text).is_err());
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let cases = [
            ("maxPod: 1\n", "unknown field \"maxPod\""),
            ("evictionHard: {memory.available: 5x}\n", "evictionHard"),
            ("evictionHard: {nodefs.available: 101%}\n", "0% and 100%"),
            (
                "evictionSoft: {memory.available: 1Gi}\n",
                "evictionSoftGracePeriod",
            ),
            ("imageMinimumGCAge: soon\n", "imageMinimumGCAge"),
        ];
        for (text, wanted) in cases {
            let error = Settings::parse(&format!("{HEAD}{text}")).unwrap_err();
            assert!(error.to_string().contains(wanted), "{text}: {error}");
        }
        assert!(matches!(
            Settings::parse("kind: Pod\napiVersion: v1\n"),
            Err(Error::Kind(_))
        ));
    }

    #[test]
    fn thresholds_are_the_kubelets_unless_given() {
        let default = Settings::default().eviction.thresholds;
        assert_eq!(default.len(), 5);
        let off = format!("{HEAD}evictionHard: {{nodefs.available: 0%, memory.available: 1Gi}}\n");
        let own = Settings::parse(&off).unwrap().eviction.thresholds;
        assert_eq!(own.len(), 1);
        assert_eq!(own[0].least, Amount::Units(1 << 30));
        assert_eq!(Amount::Percent(10.0).of(1000), 100);
    }
}
