//! How admission is configured: which plugins are on, and the file of
//! `--admission-control-config-file` (`AdmissionConfiguration` of
//! `apiserver.config.k8s.io/v1`), in which each has a part, or names a file with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use control_kinds::admission::{NodeSelectorError, Stay};
use control_kinds::quota::{Limit, Limits};
use control_proxy::egress::kubeconfig;
use control_types::value::{self, ConvertError, Value};
use control_types::{error_chain, yaml};
use ipnet::IpNet;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::plugin::{Plugin, Plugins};
use crate::plugins::event_rate_limit::{EventRateConfiguration, EventRateLimit};
use crate::plugins::image_policy_webhook::{ImagePolicyConfiguration, ImagePolicyWebhook};
use crate::plugins::pod_node_selector::PodNodeSelector;
use crate::plugins::pod_security::PodSecurity;
use crate::plugins::pod_toleration_restriction::PodTolerationRestriction;

/// What admission is told.
#[derive(Debug, Default)]
pub struct Settings {
    /// The plugins that are on.
    pub plugins: Plugins,
    /// How long pods stay on a silent node that do not say it themselves.
    pub stay: Stay,
    /// Of `DenyServiceExternalIPs`: ranges of addresses that Services may have nevertheless.
    pub external_ip_ranges: Vec<IpNet>,
    pub(crate) event_rates: Option<Arc<EventRateLimit>>,
    pub(crate) node_selectors: PodNodeSelector,
    pub(crate) tolerations: PodTolerationRestriction,
    pub(crate) pod_security: PodSecurity,
    pub(crate) quota_limits: Limits,
    pub(crate) image_policy: Option<Arc<ImagePolicyWebhook>>,
}

/// `ResourceQuotaConfiguration` of `apiserver.config.k8s.io/v1`, and `Configuration` of
/// the older group.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct QuotaConfiguration {
    limited_resources: Vec<LimitedResource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct LimitedResource {
    api_group: String,
    resource: String,
    match_contains: Vec<String>,
    match_scopes: Vec<MatchScope>,
}

/// `ScopedResourceSelectorRequirement`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct MatchScope {
    scope_name: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

/// Why admission cannot be configured so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A file cannot be read.
    #[error("cannot read admission configuration {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// A file is none of its kind.
    #[error("{}: {why}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The part of a plugin is wrong.
    #[error("admission plugin {name:?}")]
    Plugin {
        /// The plugin.
        name: String,
        /// What is wrong.
        source: PluginError,
    },
    /// A plugin is on that cannot work without a configuration.
    #[error(
        "admission plugin \"EventRateLimit\" needs limits: give them in --admission-control-config-file"
    )]
    NoLimits,
    /// Likewise.
    #[error(
        "admission plugin \"ImagePolicyWebhook\" needs a server to ask: name its kubeconfig in --admission-control-config-file"
    )]
    NoServer,
}

/// Error for the configuration of a plugin; the messages are kube-apiserver's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// It is of another kind.
    #[error("expected kind {kind} of {group}, found {version:?} and {found:?}")]
    Kind {
        /// The kind that it must be of.
        kind: &'static str,
        /// The kind's group.
        group: &'static str,
        /// Its version.
        version: String,
        /// Its kind.
        found: String,
    },
    /// A member is unknown, or of another type.
    #[error(transparent)]
    Member(#[from] ConvertError),
    /// An entry is unknown.
    #[error("unknown field \"{0}\"")]
    UnknownField(String),
    /// A member is missing.
    #[error("{0}: Required value")]
    Required(String),
    /// A member's value is wrong.
    #[error("{field}: Invalid value: {value}: {must}")]
    Invalid {
        /// The member.
        field: String,
        /// Its value.
        value: String,
        /// What it must be.
        must: String,
    },
    /// A member has none of the values that there are.
    #[error("{field}: Unsupported value: {value}: supported values: {supported}")]
    Unsupported {
        /// The member.
        field: String,
        /// Its value.
        value: String,
        /// The values that there are.
        supported: &'static str,
    },
    /// A member is no text.
    #[error("{0}: it is no text")]
    NoText(String),
    /// A namespace's selector of nodes is wrong.
    #[error("podNodeSelectorPluginConfig.{namespace}")]
    NodeSelector {
        /// The namespace.
        namespace: String,
        /// What is wrong.
        source: NodeSelectorError,
    },
    /// Its kubeconfig names no server that can be asked.
    #[error(transparent)]
    Kubeconfig(#[from] kubeconfig::Error),
    /// The plugin has none.
    #[error("it has no configuration here")]
    NoConfiguration,
    /// Several things are wrong.
    #[error("[{}]", .0.iter().map(|it| error_chain(it)).collect::<Vec<_>>().join(", "))]
    Several(Vec<PluginError>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdmissionConfiguration {
    #[serde(default)]
    plugins: Vec<PluginConfiguration>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PluginConfiguration {
    name: String,
    #[serde(default)]
    path: String,
    configuration: Option<Value>,
}

/// Members by which a file is known that is the configuration of a plugin itself.
const OLD: [(&str, Plugin); 2] = [
    ("imagePolicy", Plugin::ImagePolicyWebhook),
    ("podNodeSelectorPluginConfig", Plugin::PodNodeSelector),
];

const VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];

impl Settings {
    /// Settings with these plugins, configured by the file if there is one.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn new(plugins: Plugins, stay: Stay, file: Option<&Path>) -> Result<Self, SettingsError> {
        let mut settings = Self {
            plugins,
            stay,
            ..Self::default()
        };
        if let Some(path) = file {
            settings.read(path)?;
        }
        if plugins.has(Plugin::EventRateLimit) && settings.event_rates.is_none() {
            return Err(SettingsError::NoLimits);
        }
        if plugins.has(Plugin::ImagePolicyWebhook) && settings.image_policy.is_none() {
            return Err(SettingsError::NoServer);
        }
        Ok(settings)
    }

    fn read(&mut self, path: &Path) -> Result<(), SettingsError> {
        let wrong = |why: String| SettingsError::Wrong {
            path: path.to_owned(),
            why,
        };
        let mut tree = document(path)?;
        // Before there was an AdmissionConfiguration, the file was the one plugin's own.
        for (member, plugin) in OLD {
            if tree.get("kind").is_none() && tree.get(member).is_some() {
                return self
                    .take(plugin, tree)
                    .map_err(|source| SettingsError::Plugin {
                        name: plugin.name().to_owned(),
                        source,
                    });
            }
        }
        let (version, kind) = (tree.remove("apiVersion"), tree.remove("kind"));
        let text = |value: &Option<Value>| {
            value
                .as_ref()
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let (version, kind) = (text(&version), text(&kind));
        if !VERSIONS.contains(&&*version) || kind != "AdmissionConfiguration" {
            return Err(wrong(format!(
                "expected apiVersion {} and kind AdmissionConfiguration, found {version:?} and {kind:?}",
                VERSIONS[0]
            )));
        }
        let file: AdmissionConfiguration =
            value::from_value(&tree).map_err(|error| wrong(error.to_string()))?;
        for part in file.plugins {
            let Some(plugin) = Plugin::find(&part.name) else {
                return Err(wrong(format!(
                    "there is no admission plugin {:?}",
                    part.name
                )));
            };
            let configuration = match part.configuration {
                Some(configuration) => configuration,
                None if part.path.is_empty() => continue,
                None => {
                    let folder = path.parent().unwrap_or(Path::new("."));
                    document(&folder.join(&part.path))?
                }
            };
            self.take(plugin, configuration)
                .map_err(|source| SettingsError::Plugin {
                    name: part.name,
                    source,
                })?;
        }
        Ok(())
    }

    fn take(&mut self, plugin: Plugin, of: Value) -> Result<(), PluginError> {
        match plugin {
            Plugin::EventRateLimit => {
                let group = "eventratelimit.admission.k8s.io";
                let read: EventRateConfiguration = versioned(of, group, "Configuration")?;
                self.event_rates = Some(Arc::new(EventRateLimit::new(&read)?));
            }
            Plugin::PodSecurity => {
                let group = "pod-security.admission.config.k8s.io";
                let read = versioned(of, group, "PodSecurityConfiguration")?;
                self.pod_security = PodSecurity::new(read)?;
            }
            Plugin::PodTolerationRestriction => {
                let group = "podtolerationrestriction.admission.k8s.io";
                self.tolerations = versioned(of, group, "Configuration")?;
            }
            Plugin::ResourceQuota => {
                let read = match kind_of(&of) {
                    "ResourceQuotaConfiguration" => {
                        versioned(of, "apiserver.config.k8s.io", "ResourceQuotaConfiguration")
                    }
                    _ => versioned(of, "resourcequota.admission.k8s.io", "Configuration"),
                };
                self.quota_limits = QuotaConfiguration::limits(read?)?;
            }
            // Its server need not be there while it is off.
            Plugin::ImagePolicyWebhook if self.plugins.has(plugin) => {
                let read: ImagePolicyConfiguration = value::from_value(&of)?;
                self.image_policy = Some(Arc::new(read.server()?));
            }
            Plugin::ImagePolicyWebhook => {}
            Plugin::PodNodeSelector => self.node_selectors = PodNodeSelector::read(&of)?,
            _ => return Err(PluginError::NoConfiguration),
        }
        Ok(())
    }
}

impl QuotaConfiguration {
    fn limits(self) -> Result<Limits, PluginError> {
        let mut limits = Vec::new();
        for (at, one) in self.limited_resources.into_iter().enumerate() {
            if one.resource.is_empty() {
                let field = format!("limitedResources[{at}].resource");
                return Err(PluginError::Required(field));
            }
            limits.push(Limit {
                group: one.api_group,
                plural: one.resource,
                contains: one.match_contains,
                scopes: one.match_scopes.iter().map(MatchScope::tree).collect(),
            });
        }
        Ok(Limits(limits))
    }
}

impl MatchScope {
    fn tree(&self) -> Value {
        let values = self.values.iter().map(|value| value.as_str().into());
        let mut tree = Value::object();
        tree.insert("scopeName", self.scope_name.as_str());
        tree.insert("operator", self.operator.as_str());
        tree.insert("values", Value::Array(values.collect()));
        tree
    }
}

fn document(path: &Path) -> Result<Value, SettingsError> {
    let bytes = std::fs::read(path).map_err(|source| SettingsError::File {
        path: path.to_owned(),
        source,
    })?;
    match yaml::read(&bytes) {
        Ok(document) => Ok(document.value),
        Err(error) => Err(SettingsError::Wrong {
            path: path.to_owned(),
            why: error.to_string(),
        }),
    }
}

fn kind_of(of: &Value) -> &str {
    of.str_at(&["kind"]).unwrap_or_default()
}

/// Reads a configuration of a group in any version.
fn versioned<T: DeserializeOwned>(
    mut of: Value,
    group: &'static str,
    kind: &'static str,
) -> Result<T, PluginError> {
    let (version, found) = (of.remove("apiVersion"), of.remove("kind"));
    let version = version.as_ref().and_then(Value::as_str).unwrap_or_default();
    let found = found.as_ref().and_then(Value::as_str).unwrap_or_default();
    if version.split_once('/').is_none_or(|(of, _)| of != group) || found != kind {
        return Err(PluginError::Kind {
            kind,
            group,
            version: version.to_owned(),
            found: found.to_owned(),
        });
    }
    Ok(value::from_value(&of)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n";

    fn read(parts: &str, more: &[(&str, &str)]) -> Result<Settings, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("admission.yaml");
        std::fs::write(&path, format!("{HEAD}{parts}")).expect("written");
        for (name, text) in more {
            std::fs::write(dir.path().join(name), text).expect("written");
        }
        Settings::new(Plugins::default(), Stay::default(), Some(&path))
            .map_err(|error| error_chain(&error))
    }

    #[test]
    fn parts_stand_in_the_file_or_beside_it() {
        let settings = read(
            "- name: EventRateLimit\n  path: events.yaml\n\
             - name: PodNodeSelector\n  configuration:\n    podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: 'a=b', team: 'x=y'}\n\
             - name: PodTolerationRestriction\n  configuration: {apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1, kind: Configuration, default: [{key: a, operator: Exists}]}\n\
             - name: ResourceQuota\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [{resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: [high]}]}]}\n\
             - name: PodSecurity\n  configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {enforce: baseline}}\n",
            &[(
                "events.yaml",
                "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits: [{type: Server, qps: 1, burst: 1}]\n",
            )],
        );
        let settings = settings.expect("right");
        assert!(settings.event_rates.is_some());
        assert_eq!(settings.node_selectors.usual["a"], "b");
        assert_eq!(settings.node_selectors.allowed["team"]["x"], "y");
        assert_eq!(settings.tolerations.given.len(), 1);
        let limit = &settings.quota_limits.0[0];
        assert_eq!(limit.plural, "pods");
        assert_eq!(limit.scopes[0].str_at(&["operator"]), Some("In"));
        assert_eq!(
            settings.pod_security.policy.enforce.to_string(),
            "baseline:latest"
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_plugin() {
        for (parts, told) in [
            (
                "- name: Nothing\n  configuration: {}\n",
                "there is no admission plugin \"Nothing\"",
            ),
            (
                "- name: AlwaysDeny\n  configuration: {}\n",
                "admission plugin \"AlwaysDeny\": it has no configuration here",
            ),
            (
                "- name: EventRateLimit\n  configuration: {}\n",
                "expected kind Configuration of eventratelimit.admission.k8s.io",
            ),
            (
                "- name: ResourceQuota\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [{matchContains: [pods]}]}\n",
                "limitedResources[0].resource: Required value",
            ),
            (
                "- name: ResourceQuota\n  configuration: {apiVersion: v1, kind: Configuration}\n",
                "expected kind Configuration of resourcequota.admission.k8s.io",
            ),
            (
                "- name: EventRateLimit\n  path: none.yaml\n",
                "cannot read admission configuration",
            ),
            (
                "- name: PodSecurity\n  configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {enforce: strict}}\n",
                "strict",
            ),
            ("- name: PodSecurity\n  nam: x\n", "nam"),
        ] {
            let why = read(parts, &[]).expect_err(told);
            assert!(why.contains(told), "{why}");
        }
        let on = Plugins::choose(&["EventRateLimit".to_owned()], &[]).expect("known");
        assert!(matches!(
            Settings::new(on, Stay::default(), None),
            Err(SettingsError::NoLimits)
        ));
        let on = Plugins::choose(&["ImagePolicyWebhook".to_owned()], &[]).expect("known");
        assert!(matches!(
            Settings::new(on, Stay::default(), None),
            Err(SettingsError::NoServer)
        ));
    }

    #[test]
    fn a_file_may_be_the_configuration_of_one_plugin_itself() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("admission.yaml");
        let read = |text: &str, on: &[&str]| {
            std::fs::write(&path, text).expect("written");
            let on: Vec<String> = on.iter().map(|name| (*name).to_owned()).collect();
            let plugins = Plugins::choose(&on, &[]).expect("known");
            Settings::new(plugins, Stay::default(), Some(&path))
                .map_err(|error| error_chain(&error))
        };
        let selectors = "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: 'a=b'}";
        let settings = read(selectors, &[]).expect("right");
        assert_eq!(settings.node_selectors.usual["a"], "b");
        let policy = "imagePolicy: {kubeConfigFile: /nowhere, allowTTL: 50, defaultAllow: true}";
        assert!(read(policy, &[]).is_ok(), "it is off");
        for (text, told) in [
            (policy, "/nowhere"),
            (
                "imagePolicy: {allowTTL: 1801}",
                "imagePolicy.allowTTL: Invalid value: 1801",
            ),
            (
                "imagePolicy: {}",
                "imagePolicy.kubeConfigFile: Required value",
            ),
            ("imagePolicy: {allowTTl: 1}", "allowTTl"),
        ] {
            let why = read(text, &["ImagePolicyWebhook"]).expect_err(told);
            assert!(why.contains(told), "{why}");
        }
    }
}
