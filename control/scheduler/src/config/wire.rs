//! The fields of a file.

use serde::Deserialize;
use serde_json::Value;

use crate::extender::ExtenderConfig;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct RawConfiguration {
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(rename = "apiVersion")]
    _api_version: String,
    pub(super) parallelism: Option<i32>,
    pub(super) leader_election: LeaderElection,
    #[serde(rename = "clientConnection")]
    _client_connection: Value,
    #[serde(rename = "enableProfiling")]
    _enable_profiling: Option<bool>,
    #[serde(rename = "enableContentionProfiling")]
    _enable_contention_profiling: Option<bool>,
    pub(super) percentage_of_nodes_to_score: Option<i32>,
    pub(super) pod_initial_backoff_seconds: Option<i64>,
    pub(super) pod_max_backoff_seconds: Option<i64>,
    pub(super) profiles: Vec<RawProfile>,
    pub(super) extenders: Vec<ExtenderConfig>,
    #[serde(rename = "delayCacheUntilActive")]
    _delay_cache_until_active: bool,
}

/// Whether, and by which lease, schedulers agree on who works.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LeaderElection {
    /// Whether they do.
    pub leader_elect: bool,
    /// A leader that did not renew for this long may be replaced.
    pub lease_duration: String,
    /// A leader that could not renew for this long pauses.
    pub renew_deadline: String,
    /// How often to try.
    pub retry_period: String,
    /// The kind of lock; always `leases`.
    pub resource_lock: String,
    /// The name of the lease.
    pub resource_name: String,
    /// The namespace of the lease.
    pub resource_namespace: String,
}

impl Default for LeaderElection {
    fn default() -> Self {
        Self {
            leader_elect: true,
            lease_duration: "15s".to_owned(),
            renew_deadline: "10s".to_owned(),
            retry_period: "2s".to_owned(),
            resource_lock: "leases".to_owned(),
            resource_name: "kube-scheduler".to_owned(),
            resource_namespace: "kube-system".to_owned(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct RawProfile {
    pub(super) scheduler_name: Option<String>,
    pub(super) percentage_of_nodes_to_score: Option<i32>,
    pub(super) plugins: Plugins,
    pub(super) plugin_config: Vec<PluginConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Plugins {
    pub(super) pre_enqueue: PluginSet,
    pub(super) queue_sort: PluginSet,
    pub(super) pre_filter: PluginSet,
    pub(super) filter: PluginSet,
    pub(super) post_filter: PluginSet,
    pub(super) pre_score: PluginSet,
    pub(super) score: PluginSet,
    pub(super) reserve: PluginSet,
    pub(super) permit: PluginSet,
    pub(super) pre_bind: PluginSet,
    pub(super) bind: PluginSet,
    pub(super) post_bind: PluginSet,
    pub(super) multi_point: PluginSet,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PluginSet {
    pub(super) enabled: Vec<RawPlugin>,
    pub(super) disabled: Vec<RawPlugin>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawPlugin {
    pub(super) name: String,
    pub(super) weight: Option<i32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PluginConfig {
    pub(super) name: String,
    pub(super) args: Value,
}

impl RawConfiguration {
    pub(super) fn set_defaults(&mut self) {
        self.parallelism.get_or_insert(16);
        self.pod_initial_backoff_seconds.get_or_insert(1);
        self.pod_max_backoff_seconds.get_or_insert(10);
        if self.profiles.is_empty() {
            self.profiles.push(RawProfile::default());
        }
        if let [only] = self.profiles.as_mut_slice() {
            let name = &mut only.scheduler_name;
            name.get_or_insert_with(|| "default-scheduler".to_owned());
        }
    }
}
