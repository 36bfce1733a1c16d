//! The kubelet's configuration file: `KubeletConfiguration` of
//! `kubelet.config.k8s.io/v1beta1`.
//!
//! A field that the API does not have is an error, as it is for the kubelet. A
//! field that it has and this agent does not act on is named by
//! [`Settings::unsupported`], unless it says what the agent does anyway.

mod access;
mod alignment;
mod error;
mod eviction;
mod fields;
mod gates;
mod memory;
mod places;
mod shutdown;
mod units;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use node_agent_objects::quantity;
use serde::Deserialize;
use serde_json::Value;

use access::{Authentication, Authorization};
use units::{size, time};

pub use alignment::{Alignment, CpuPolicyOptions, ReservedMemory, TopologyPolicy, TopologyScope};
pub use control_serving::access::Settings as Access;
pub use error::Error;
pub use eviction::{Amount, Eviction, Signal, Threshold};
pub use memory::{MemoryLimits, MemoryQos};
pub use places::{ConfiguredPaths, ServingPlaces};
pub use shutdown::ShutdownPeriod;

/// The settings that the agent supports. The defaults are the kubelet's.
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
    pub verification: PullVerification,
    /// The longest back-off of a container that crashes.
    pub restart_most: Duration,
    /// What has to stay free before pods are evicted.
    pub eviction: Eviction,
    /// When images are removed.
    pub images: ImageCollection,
    /// By resource: what is kept from pods, of both reservations.
    pub reserved: BTreeMap<String, String>,
    /// Whether the reservations are kept from pods by the kernel, too.
    pub enforce_pods: bool,
    /// Taints that the node registers with.
    pub taints: Vec<Value>,
    /// How many images the node's status names.
    pub status_images: usize,
    /// Who may use the serving API.
    pub access: Access,
    /// What may be read of the node's own logs.
    pub system_logs: SystemLogs,
    /// How containers are given CPUs, memory and devices.
    pub alignment: Alignment,
    /// How containers' memory is limited beyond their limits.
    pub memory: MemoryLimits,
    /// How long pods get when the machine shuts down, lowest priority first;
    /// none leaves them to their end.
    pub shutdown: Vec<ShutdownPeriod>,
    /// Where things are, as far as the file says so.
    pub places: ConfiguredPaths,
    /// Fields of the file that the agent does not act on.
    pub unsupported: Vec<String>,
    /// The file as it was read, with what was not set left out.
    pub raw: Value,
}

/// What may be read of the node's own logs, by those who may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemLogs {
    /// None of them (`enableSystemLogHandler: false`).
    Off,
    /// Its files.
    #[default]
    Files,
    /// What was asked for of its services, too (`enableSystemLogQuery`, KEP-2258).
    Query,
}

/// Which preloaded images need verified credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullVerification {
    /// Nothing.
    Never,
    /// Those that the agent fetched.
    Fetched,
    /// All but those whose repository is one of these, or begins as one that
    /// ends with `/*`.
    AllBut(Vec<String>),
    /// All.
    Always,
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

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct KubeletConfigurationFile {
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
    enforce_node_allocatable: Option<Vec<String>>,
    register_with_taints: Vec<Value>,
    node_status_max_images: Option<i64>,
    authentication: Authentication,
    authorization: Authorization,
    enable_system_log_handler: Option<bool>,
    enable_system_log_query: Option<bool>,
    feature_gates: gates::FeatureGates,
    #[serde(flatten)]
    shutdown: shutdown::ShutdownFile,
    #[serde(flatten)]
    alignment: alignment::AlignmentFile,
    #[serde(flatten)]
    memory: memory::MemoryFile,
    #[serde(flatten)]
    places: places::PathsFile,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CrashLoop {
    max_container_restart_period: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self::from_file(KubeletConfigurationFile::default())
            .unwrap_or_else(|_| unreachable!("defaults are valid"))
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
            if key == "apiVersion" || key == "kind" || fields::SUPPORTED.contains(&key.as_str()) {
                continue;
            }
            if !fields::KNOWN.contains(&key.as_str()) {
                return Err(Error::Unknown(key.clone()));
            }
            if !fields::is_done_anyway(key, value) {
                unsupported.push(key.clone());
            }
        }
        let file: KubeletConfigurationFile =
            serde_json::from_value(raw.clone()).map_err(|e| Error::Form(e.to_string()))?;
        unsupported.extend(file.feature_gates.unsupported());
        Ok(Self {
            unsupported,
            raw,
            ..Self::from_file(file)?
        })
    }

    /// By kind: bytes of memory and huge pages that are kept from pods, of the
    /// `memory` bytes that the node has.
    #[must_use]
    pub fn kept_memory(&self, memory: u64) -> BTreeMap<String, u64> {
        let huge = node_agent_pod_resources::hugepages::PREFIX;
        let mut kept: BTreeMap<String, u64> = self
            .reserved
            .iter()
            .filter(|(kind, _)| *kind == "memory" || kind.starts_with(huge))
            .filter_map(|(kind, text)| {
                let bytes = u64::try_from(quantity::whole(text)?).ok()?;
                Some((kind.clone(), bytes))
            })
            .collect();
        let hard = self.eviction.hard(Signal::Memory, memory);
        let all = kept.entry("memory".to_owned()).or_default();
        *all = all.saturating_add(hard);
        kept
    }

    fn from_file(file: KubeletConfigurationFile) -> Result<Self, Error> {
        let parallel = file.max_parallel_image_pulls;
        let alignment = Alignment::from_file(file.alignment, &file.feature_gates)?;
        let mut reserved = together(&file.kube_reserved, &file.system_reserved)?;
        if let Some(cpus) = &alignment.reserved_cpus {
            reserved.insert("cpu".to_owned(), cpus.len().to_string());
        }
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
                thresholds: eviction::thresholds(
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
            reserved,
            enforce_pods: file
                .enforce_node_allocatable
                .is_none_or(|list| list.iter().any(|what| what == "pods")),
            system_logs: system_logs(
                file.enable_system_log_handler.unwrap_or(true),
                file.enable_system_log_query.unwrap_or(false),
            )?,
            alignment,
            memory: MemoryLimits::from_file(file.memory, &file.feature_gates)?,
            taints: file.register_with_taints,
            status_images: match file.node_status_max_images {
                None => 50,
                Some(most) => usize::try_from(most).unwrap_or(usize::MAX),
            },
            places: ConfiguredPaths::from_file(file.places, file.authentication.client_ca())?,
            access: access::from_file(file.authentication, file.authorization)?,
            shutdown: shutdown::periods(file.shutdown)?,
            unsupported: Vec::new(),
            raw: Value::Object(serde_json::Map::new()),
        })
    }
}

fn system_logs(files: bool, query: bool) -> Result<SystemLogs, Error> {
    match (files, query) {
        (false, true) => Err(Error::Value {
            field: "enableSystemLogQuery",
            value: "true".to_owned(),
            why: "needs `enableSystemLogHandler: true`",
        }),
        (false, false) => Ok(SystemLogs::Off),
        (true, false) => Ok(SystemLogs::Files),
        (true, true) => Ok(SystemLogs::Query),
    }
}

fn verification(policy: Option<&str>, list: Vec<String>) -> Result<PullVerification, Error> {
    let wrong = |field, value: &str, why| {
        Err(Error::Value {
            field,
            value: value.to_owned(),
            why,
        })
    };
    let found = match policy {
        None | Some("" | "NeverVerifyPreloadedImages") => PullVerification::Fetched,
        Some("NeverVerify") => PullVerification::Never,
        Some("AlwaysVerify") => PullVerification::Always,
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
            return Ok(PullVerification::AllBut(list));
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

#[cfg(test)]
mod tests;
