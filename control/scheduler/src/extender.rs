//! Extenders: HTTP services that filter, score and bind beside the plugins.
//!
//! The loop waits for their answers, as kube-scheduler's does: between a pod's filters and its
//! binding nothing else is decided.

use std::collections::BTreeMap;
use std::time::Duration;

use compact_str::CompactString;
use control_client::{Client, Meta, Resource, View, resources};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::view::Pod;

/// How long an extender may take, unless its configuration says otherwise.
const TIMEOUT: Duration = Duration::from_secs(5);
/// An extender's best score.
const BEST: i64 = 10;

/// An extender, as a `KubeSchedulerConfiguration` has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExtenderConfig {
    /// The base URL.
    pub url_prefix: String,
    /// The path of its filter; empty if it has none.
    pub filter_verb: String,
    /// The path by which it judges preemption.
    pub preempt_verb: String,
    /// The path of its scores.
    pub prioritize_verb: String,
    /// The weight of its scores.
    pub weight: i64,
    /// The path by which it binds pods.
    pub bind_verb: String,
    /// Whether it is reached by HTTPS.
    #[serde(rename = "enableHTTPS")]
    pub enable_https: bool,
    /// Certificates for HTTPS.
    pub tls_config: Option<ExtenderTls>,
    /// How long it may take, such as `5s`.
    pub http_timeout: Option<String>,
    /// Whether it knows nodes, so that their names suffice.
    pub node_cache_capable: bool,
    /// Resources that it manages. If there are any, it is called for pods that request
    /// one.
    pub managed_resources: Vec<ManagedResource>,
    /// Whether pods are placed while it fails.
    pub ignorable: bool,
}

/// A resource that an extender looks after.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ManagedResource {
    /// Its name.
    pub name: CompactString,
    /// Whether NodeResourcesFit does not check it.
    pub ignored_by_scheduler: bool,
}

/// Certificates for an extender.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExtenderTls {
    /// Whether its certificate is not checked.
    pub insecure: bool,
    /// The name in its certificate.
    pub server_name: String,
    /// Our certificate.
    pub cert_file: String,
    /// The key of that.
    pub key_file: String,
    /// Its authority.
    #[serde(rename = "caFile")]
    pub ca_file: String,
    /// Our certificate, in base64.
    pub cert_data: String,
    /// The key of that, in base64.
    pub key_data: String,
    /// Its authority, in base64.
    #[serde(rename = "caData")]
    pub ca_data: String,
}

/// Error of an extender.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be reached with its configuration.
    #[error("extender {url:?} cannot be used")]
    Client {
        /// The URL.
        url: String,
        /// The reason.
        #[source]
        source: control_client::Error,
    },
    /// A request failed.
    #[error("failed {verb} with extender at URL {url}")]
    Request {
        /// The verb of the call.
        verb: String,
        /// The URL.
        url: String,
        /// The reason.
        #[source]
        source: control_client::Error,
    },
    /// It took too long.
    #[error("failed {verb} with extender at URL {url}: no answer within {after:?}")]
    Timeout {
        /// The verb of the call.
        verb: String,
        /// The URL.
        url: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// The pod cannot be read from the API server.
    #[error("cannot read the pod for extenders")]
    Pod(#[source] control_client::Error),
    /// It answered that it failed.
    #[error("{0}")]
    Refused(String),
    /// It names a node that it was not asked about.
    #[error(
        "extender {url:?} claims a filtered node {node:?} which is not found in the input node list"
    )]
    UnknownNode {
        /// The URL.
        url: String,
        /// The node.
        node: String,
    },
    /// It wants no victims on a node, or pods that are not there.
    #[error("{0}")]
    Victims(String),
}

/// An object with all its fields, for extenders that want whole ones.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Value")]
pub(crate) struct WholeNode {
    metadata: Meta,
    pub(crate) value: Value,
}

impl From<Value> for WholeNode {
    fn from(value: Value) -> Self {
        let metadata = value.get("metadata").cloned().unwrap_or_default();
        Self {
            metadata: serde_json::from_value(metadata).unwrap_or_default(),
            value,
        }
    }
}

impl View for WholeNode {
    const RESOURCE: Resource = resources::NODES;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// An extender's answer to a filter request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ExtenderFilterResult {
    /// Names of the nodes that are left.
    pub(crate) left: Vec<String>,
    /// Nodes that eviction may help, and why they fail.
    pub(crate) failed: BTreeMap<String, String>,
    /// Nodes that eviction does not help, and why they fail.
    pub(crate) unresolvable: BTreeMap<String, String>,
}

/// Pods to evict by node: their uids, and how many a budget protects.
pub(crate) type VictimsByNode = BTreeMap<String, (Vec<String>, i64)>;

/// A configured extender.
#[derive(Clone)]
pub(crate) struct Extender {
    config: ExtenderConfig,
    client: Client,
    timeout: Duration,
}

impl Extender {
    /// Connects to an extender.
    ///
    /// # Errors
    /// Certificates that cannot be used.
    pub(crate) async fn connect(config: ExtenderConfig) -> Result<Self, Error> {
        let text = kubeconfig(&config).to_string();
        let client = Client::from_kubeconfig_text(&text, &config.url_prefix)
            .await
            .map_err(|source| Error::Client {
                url: config.url_prefix.clone(),
                source,
            })?;
        let timeout = config.http_timeout.as_deref();
        let timeout = timeout.and_then(control_types::duration::parse);
        let timeout = timeout.and_then(|it| u64::try_from(it).ok());
        let timeout = timeout.filter(|it| *it > 0);
        Ok(Self {
            timeout: timeout.map_or(TIMEOUT, Duration::from_nanos),
            config,
            client,
        })
    }

    pub(crate) const fn is_ignorable(&self) -> bool {
        self.config.ignorable
    }

    pub(crate) fn wants_whole_nodes(&self) -> bool {
        let asks = !self.config.filter_verb.is_empty() || !self.config.prioritize_verb.is_empty();
        asks && !self.config.node_cache_capable
    }

    pub(crate) fn url(&self) -> &str {
        &self.config.url_prefix
    }

    pub(crate) fn binds(&self) -> bool {
        !self.config.bind_verb.is_empty()
    }

    pub(crate) fn judges_preemption(&self) -> bool {
        !self.config.preempt_verb.is_empty()
    }

    /// Returns whether it is to be called for a pod.
    pub(crate) fn is_interested(&self, pod: &Pod) -> bool {
        let mut managed = self.config.managed_resources.iter();
        self.config.managed_resources.is_empty()
            || managed.any(|it| {
                let mut requests = pod.shape.requests.extended.iter();
                requests.any(|(name, _)| *name == it.name)
            })
    }

    /// The nodes on which the pod may run.
    pub(crate) async fn filter(
        &self,
        pod: &Value,
        names: Vec<String>,
        nodes: impl FnOnce(&[String]) -> Vec<Value>,
    ) -> Result<ExtenderFilterResult, Error> {
        if self.config.filter_verb.is_empty() {
            return Ok(ExtenderFilterResult {
                left: names,
                ..ExtenderFilterResult::default()
            });
        }
        let args = self.arguments(pod, &names, nodes);
        let answer = self.ask(&self.config.filter_verb, &args).await?;
        let answer = lower_keys(answer);
        filtered(&answer, &names, self.config.node_cache_capable, self.url())
    }

    /// Its scores of nodes, on the scheduler's scale and weighted.
    pub(crate) async fn prioritize(
        &self,
        pod: &Value,
        names: &[String],
        nodes: impl FnOnce(&[String]) -> Vec<Value>,
    ) -> Result<Vec<(String, i64)>, Error> {
        if self.config.prioritize_verb.is_empty() {
            return Ok(Vec::new());
        }
        let args = self.arguments(pod, names, nodes);
        let answer = self.ask(&self.config.prioritize_verb, &args).await?;
        let factor = self.config.weight * (crate::plugins::MAX_SCORE / BEST);
        let hosts = answer.as_array().into_iter().flatten();
        let scores = hosts.filter_map(|host| {
            let host = lower_keys(host.clone());
            let name = host.get("host")?.as_str()?.to_owned();
            let score = host.get("score").and_then(Value::as_i64).unwrap_or(0);
            Some((name, score.saturating_mul(factor)))
        });
        Ok(scores.collect())
    }

    /// The victims that it agrees to, by node.
    pub(crate) async fn preempt(
        &self,
        pod: &Value,
        victims: &VictimsByNode,
    ) -> Result<VictimsByNode, Error> {
        let by_node: Map<String, Value> = victims
            .iter()
            .map(|(node, (uids, violations))| {
                let pods: Vec<Value> = uids.iter().map(|uid| json!({"UID": uid})).collect();
                let victims = json!({"Pods": pods, "NumPDBViolations": violations});
                (node.clone(), victims)
            })
            .collect();
        let args = json!({
            "Pod": pod, "NodeNameToVictims": null, "NodeNameToMetaVictims": by_node,
        });
        let answer = self.ask(&self.config.preempt_verb, &args).await?;
        let answer = lower_keys(answer);
        let by_node = answer.get("nodenametometavictims");
        let by_node = by_node.and_then(Value::as_object).into_iter().flatten();
        let mut agreed = VictimsByNode::new();
        for (node, victims) in by_node {
            let victims = lower_keys(victims.clone());
            let pods = victims.get("pods").and_then(Value::as_array);
            let uids = pods.into_iter().flatten().filter_map(|pod| {
                let pod = lower_keys(pod.clone());
                Some(pod.get("uid")?.as_str()?.to_owned())
            });
            let uids: Vec<String> = uids.collect();
            let violations = victims.get("numpdbviolations").and_then(Value::as_i64);
            if uids.is_empty() {
                if self.is_ignorable() {
                    continue;
                }
                return Err(Error::Victims(format!(
                    "expected at least one victim pod on node {node:?}"
                )));
            }
            agreed.insert(node.clone(), (uids, violations.unwrap_or(0)));
        }
        Ok(agreed)
    }

    /// Lets it bind a pod.
    pub(crate) async fn bind(&self, pod: &Pod, node: &str) -> Result<(), Error> {
        let meta = &pod.metadata;
        let args = json!({
            "PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node,
        });
        let answer = lower_keys(self.ask(&self.config.bind_verb, &args).await?);
        refusal(&answer)
    }

    fn arguments(
        &self,
        pod: &Value,
        names: &[String],
        nodes: impl FnOnce(&[String]) -> Vec<Value>,
    ) -> Value {
        if self.config.node_cache_capable {
            json!({"Pod": pod, "Nodes": null, "NodeNames": names})
        } else {
            let list = json!({"metadata": {}, "items": nodes(names)});
            json!({"Pod": pod, "Nodes": list, "NodeNames": null})
        }
    }

    async fn ask(&self, verb: &str, args: &Value) -> Result<Value, Error> {
        let path = format!("/{verb}");
        let request = self.client.request(http::Method::POST, &path, Some(args));
        let url = || self.config.url_prefix.clone();
        match tokio::time::timeout(self.timeout, request).await {
            Err(_) => Err(Error::Timeout {
                verb: verb.to_owned(),
                url: url(),
                after: self.timeout,
            }),
            Ok(Err(source)) => Err(Error::Request {
                verb: verb.to_owned(),
                url: url(),
                source,
            }),
            Ok(Ok(answer)) => Ok(answer),
        }
    }
}

/// Go reads the keys of JSON whatever their case is.
fn lower_keys(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter();
            fields
                .map(|(key, value)| (key.to_lowercase(), value))
                .collect::<Map<_, _>>()
                .into()
        }
        other => other,
    }
}

fn refusal(answer: &Value) -> Result<(), Error> {
    match answer.get("error").and_then(Value::as_str) {
        None | Some("") => Ok(()),
        Some(error) => Err(Error::Refused(error.to_owned())),
    }
}

fn filtered(
    answer: &Value,
    asked: &[String],
    by_name: bool,
    url: &str,
) -> Result<ExtenderFilterResult, Error> {
    refusal(answer)?;
    let names = answer.get("nodenames").and_then(Value::as_array);
    let left: Vec<String> = match names.filter(|_| by_name) {
        Some(names) => {
            let names = names.iter().filter_map(Value::as_str);
            names.map(str::to_owned).collect()
        }
        None => {
            let items = answer.pointer("/nodes/items").and_then(Value::as_array);
            let items = items.into_iter().flatten();
            let names = items.filter_map(|node| node.pointer("/metadata/name")?.as_str());
            names.map(str::to_owned).collect()
        }
    };
    if let Some(unknown) = left.iter().find(|name| !asked.contains(name)) {
        return Err(Error::UnknownNode {
            url: url.to_owned(),
            node: unknown.clone(),
        });
    }
    let messages = |field: &str| -> BTreeMap<String, String> {
        let nodes = answer.get(field).and_then(Value::as_object);
        let nodes = nodes.into_iter().flatten();
        let message = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        nodes
            .map(|(node, why)| (node.clone(), message(why)))
            .collect()
    };
    let unresolvable = messages("failedandunresolvablenodes");
    let mut failed = messages("failednodes");
    failed.retain(|node, _| !unresolvable.contains_key(node));
    Ok(ExtenderFilterResult {
        left,
        failed,
        unresolvable,
    })
}

/// Describes the extender's endpoint as a kubeconfig.
fn kubeconfig(config: &ExtenderConfig) -> Value {
    let tls = config.tls_config.clone().unwrap_or_default();
    let mut cluster = Map::new();
    let mut user = Map::new();
    cluster.insert(
        "server".to_owned(),
        json!(config.url_prefix.trim_end_matches('/')),
    );
    let has_authority = !tls.ca_file.is_empty() || !tls.ca_data.is_empty();
    if tls.insecure || config.enable_https && !has_authority {
        cluster.insert("insecure-skip-tls-verify".to_owned(), json!(true));
    }
    for (key, value) in [
        ("certificate-authority", &tls.ca_file),
        ("certificate-authority-data", &tls.ca_data),
        ("tls-server-name", &tls.server_name),
    ] {
        if !value.is_empty() {
            cluster.insert(key.to_owned(), json!(value));
        }
    }
    for (key, value) in [
        ("client-certificate", &tls.cert_file),
        ("client-key", &tls.key_file),
        ("client-certificate-data", &tls.cert_data),
        ("client-key-data", &tls.key_data),
    ] {
        if !value.is_empty() {
            user.insert(key.to_owned(), json!(value));
        }
    }
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "extender",
        "contexts": [{"name": "extender", "context": {"cluster": "extender", "user": "extender"}}],
        "clusters": [{"name": "extender", "cluster": cluster}],
        "users": [{"name": "extender", "user": user}],
    })
}

#[cfg(test)]
#[path = "extender_tests.rs"]
mod tests;
