//! `KubeSchedulerConfiguration` files (`kubescheduler.config.k8s.io/v1`).
//!
//! A file is read as kube-scheduler reads it: its defaults, the rules by which plugins of the
//! default profile are kept, replaced and disabled, and its messages about what cannot be.
//! Fields that tune how kube-scheduler works inside, such as `parallelism` and
//! `percentageOfNodesToScore`, are checked and have no effect: all nodes are always scored.

mod args;
mod field;
mod plugins;
mod validate;
mod wire;

use std::time::Duration;

use control_client::lease::Election;
use serde_json::Value;

use crate::extender::ExtenderConfig;
use crate::features::Features;
use crate::plugins::Profile;
use crate::queue::Backoff;

pub use wire::LeaderElection;

/// The version of the files.
pub const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";

/// Error for an unusable file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is no such file.
    #[error("expected a KubeSchedulerConfiguration of {API_VERSION}, not {kind} of {api_version}")]
    Kind {
        /// Its kind.
        kind: String,
        /// Its version.
        api_version: String,
    },
    /// It is no YAML.
    #[error("the file is no YAML")]
    Yaml(#[source] control_types::yaml::Error),
    /// An invalid duration.
    #[error("leaderElection.{0} is no duration such as 15s")]
    Duration(&'static str),
    /// A field is unknown or of another type.
    #[error("cannot read the configuration")]
    Syntax(#[source] serde_json::Error),
    /// The arguments of a plugin are unknown or of another type.
    #[error("decoding .profiles[{profile}].pluginConfig[{index}]: decoding args for plugin {name}")]
    Args {
        /// The index of the profile.
        profile: usize,
        /// The index of the plugin's arguments.
        index: usize,
        /// The plugin.
        name: String,
        /// The problem.
        #[source]
        source: serde_json::Error,
    },
    /// Values that cannot be, as kube-scheduler names them.
    #[error("{}", validate::aggregate(.0))]
    Invalid(Vec<String>),
    /// The plugins of a profile do not make a scheduler.
    #[error("initializing profiles: creating profile for scheduler name {name}: {detail}")]
    Profile {
        /// The profile.
        name: String,
        /// The problem.
        detail: String,
    },
}

/// The settings of a file.
pub struct Configuration {
    /// A profile for each `schedulerName`.
    pub profiles: Vec<Profile>,
    /// HTTP services that take part in decisions.
    pub extenders: Vec<ExtenderConfig>,
    /// How long pods back off.
    pub backoff: Backoff,
    /// Whether, and by which lease, schedulers agree on who works.
    pub leader_election: LeaderElection,
}

/// Whether a file, by its text, is of any version of `KubeSchedulerConfiguration`.
#[must_use]
pub fn is_configuration(text: &str) -> bool {
    let value = parse(text).ok();
    let version = value.as_ref().and_then(|it| it.get("apiVersion"));
    let version = version.and_then(Value::as_str).unwrap_or_default();
    version.starts_with("kubescheduler.config.k8s.io/")
}

fn parse(text: &str) -> Result<Value, Error> {
    let document = control_types::yaml::read(text.as_bytes()).map_err(Error::Yaml)?;
    serde_json::to_value(document.value).map_err(Error::Syntax)
}

impl LeaderElection {
    /// Returns the election with this candidate; `None` if schedulers do not elect a
    /// leader.
    ///
    /// # Errors
    /// Invalid durations.
    pub fn as_candidate(&self, identity: &str) -> Result<Option<Election>, Error> {
        let duration = |field, text: &str| {
            let nanoseconds = control_types::duration::parse(text);
            let nanoseconds = nanoseconds.and_then(|it| u64::try_from(it).ok());
            let duration = nanoseconds.map(Duration::from_nanos);
            duration.ok_or(Error::Duration(field))
        };
        let election = Election {
            namespace: self.resource_namespace.clone(),
            name: self.resource_name.clone(),
            identity: identity.to_owned(),
            lease_duration: duration("leaseDuration", &self.lease_duration)?,
            renew_deadline: duration("renewDeadline", &self.renew_deadline)?,
            retry_period: duration("retryPeriod", &self.retry_period)?,
        };
        Ok(self.leader_elect.then_some(election))
    }
}

impl Configuration {
    /// Reads a file's text. Feature gates decide which plugins there are.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn from_yaml(text: &str, features: Features) -> Result<Self, Error> {
        Self::read(parse(text)?, features)
    }

    /// Reads a file's value.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn read(value: Value, features: Features) -> Result<Self, Error> {
        let text = |field: &str| {
            let text = value.get(field).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let (kind, api_version) = (text("kind"), text("apiVersion"));
        if kind != "KubeSchedulerConfiguration" || api_version != API_VERSION {
            return Err(Error::Kind { kind, api_version });
        }
        let mut raw: wire::RawConfiguration =
            serde_json::from_value(value).map_err(Error::Syntax)?;
        raw.set_defaults();
        let mut args = args::read_all(&raw)?;
        let managed = raw.extenders.iter().flat_map(|it| &it.managed_resources);
        for resource in managed.filter(|it| it.ignored_by_scheduler) {
            for args in &mut args {
                args.fit.ignored_resources.push(resource.name.clone());
            }
        }
        let wrong = validate::validate(&raw, &args);
        if !wrong.is_empty() {
            return Err(Error::Invalid(wrong));
        }
        let profiles = raw.profiles.iter().zip(args);
        let profiles = profiles.map(|(profile, args)| {
            plugins::profile(profile, args, features).map_err(|error| Error::Profile {
                name: profile.scheduler_name.clone().unwrap_or_default(),
                detail: error.to_string(),
            })
        });
        let seconds = |seconds: Option<i64>| {
            Duration::from_secs(u64::try_from(seconds.unwrap_or(1)).unwrap_or(1))
        };
        Ok(Self {
            profiles: profiles.collect::<Result<_, _>>()?,
            backoff: Backoff {
                initial: seconds(raw.pod_initial_backoff_seconds),
                longest: seconds(raw.pod_max_backoff_seconds),
            },
            extenders: raw.extenders,
            leader_election: raw.leader_election,
        })
    }
}

#[cfg(test)]
mod tests;
