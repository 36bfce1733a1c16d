//! One webhook of a configuration, as requests use it.

use std::sync::Arc;
use std::time::Duration;

use control_kinds::policies::Conditions;
use control_types::meta;
use control_types::value::Value;

use crate::dynamic::matching::Constraints;
use control_proxy::egress::Egress;
use control_proxy::webhook::{Client, ClientConfig, ConfigError};

/// How long a webhook is waited for that does not say.
const USUAL: Duration = Duration::from_secs(10);

/// The webhooks of one object.
#[derive(Debug)]
pub struct WebhookConfiguration {
    /// In the order in which they stand there.
    pub hooks: Vec<Arc<Hook>>,
}

/// Which `AdmissionReview` a webhook is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `admission.k8s.io/v1`
    V1,
    /// `admission.k8s.io/v1beta1`
    V1beta1,
}

/// A webhook.
#[derive(Debug)]
pub struct Hook {
    /// Its name, a domain.
    pub name: String,
    /// The name of the configuration that it stands in.
    pub configuration: String,
    /// Tells it from all others, also from one of the same name there.
    pub uid: String,
    /// Which requests it is about.
    pub constraints: Constraints,
    /// What else must be true of them; none: nothing.
    pub conditions: Option<Conditions>,
    /// Whether a request goes on when the webhook fails.
    pub ignores_failures: bool,
    /// How long it is waited for.
    pub timeout: Duration,
    /// What it is sent: the first version that it names of those that are known.
    pub version: Option<ReviewVersion>,
    /// Whether it may be asked about what is not stored; none: it does not say.
    pub harmless: Option<bool>,
    /// Whether it wants to see what others changed after it.
    pub reinvoked: bool,
    /// Asks it.
    pub client: Result<Client, ConfigError>,
}

impl WebhookConfiguration {
    /// Reads a configuration of either kind. Its webhooks are reached by the ways of
    /// `egress`.
    #[must_use]
    pub fn read(object: &Value, egress: &Egress) -> Self {
        let configuration = meta::name(object);
        let mut made: Vec<(ClientConfig, Client)> = Vec::new();
        let mut hooks: Vec<Arc<Hook>> = Vec::new();
        for hook in object.items_at(&["webhooks"]) {
            let name = hook.str_at(&["name"]).unwrap_or_default();
            let same = hooks.iter().filter(|other| other.name == name).count();
            hooks.push(Arc::new(Hook {
                name: name.to_owned(),
                configuration: configuration.to_owned(),
                uid: format!("{configuration}/{name}/{same}"),
                constraints: Constraints::of_webhook(hook),
                conditions: Conditions::compile(
                    hook.items_at(&["matchConditions"]),
                    false,
                    ignores_failures(hook),
                ),
                ignores_failures: ignores_failures(hook),
                timeout: hook
                    .i64_at(&["timeoutSeconds"])
                    .and_then(|seconds| u64::try_from(seconds).ok())
                    .map_or(USUAL, Duration::from_secs),
                version: hook
                    .items_at(&["admissionReviewVersions"])
                    .iter()
                    .find_map(|version| match version.as_str() {
                        Some("v1") => Some(ReviewVersion::V1),
                        Some("v1beta1") => Some(ReviewVersion::V1beta1),
                        _ => None,
                    }),
                harmless: hook
                    .str_at(&["sideEffects"])
                    .map(|effects| matches!(effects, "None" | "NoneOnDryRun")),
                reinvoked: hook.str_at(&["reinvocationPolicy"]) == Some("IfNeeded"),
                client: client(hook, egress, &mut made),
            }));
        }
        Self { hooks }
    }
}

fn ignores_failures(hook: &Value) -> bool {
    hook.str_at(&["failurePolicy"]) == Some("Ignore")
}

/// The client of a webhook; those in the same place share their connections.
fn client(
    hook: &Value,
    egress: &Egress,
    made: &mut Vec<(ClientConfig, Client)>,
) -> Result<Client, ConfigError> {
    let config = ClientConfig::read(hook.get("clientConfig").unwrap_or(&Value::Null))?;
    if let Some((_, client)) = made.iter().find(|(known, _)| *known == config) {
        return Ok(client.clone());
    }
    let client = config.client(egress)?;
    made.push((config, client.clone()));
    Ok(client)
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn a_webhook_is_read_with_what_it_wants() {
        let object = value!({"metadata": {"name": "c"}, "webhooks": [
            {"name": "a.b.c", "failurePolicy": "Ignore", "timeoutSeconds": 3,
             "sideEffects": "NoneOnDryRun", "reinvocationPolicy": "IfNeeded",
             "admissionReviewVersions": ["v2", "v1beta1", "v1"], "clientConfig": {}},
            {"name": "a.b.c", "sideEffects": "Some", "admissionReviewVersions": ["v1"]}
        ]});
        let read = WebhookConfiguration::read(&object, &Egress::default());
        let [first, second] = read.hooks.as_slice() else {
            panic!("two webhooks");
        };
        assert_eq!(
            (first.uid.as_str(), first.ignores_failures, first.timeout),
            ("c/a.b.c/0", true, Duration::from_secs(3))
        );
        assert_eq!(
            (first.version, first.harmless, first.reinvoked),
            (Some(ReviewVersion::V1beta1), Some(true), true)
        );
        assert_eq!(
            (second.uid.as_str(), second.version, second.harmless),
            ("c/a.b.c/1", Some(ReviewVersion::V1), Some(false))
        );
        assert_eq!(first.client.as_ref().err(), Some(&ConfigError::NoPlace));
    }
}
