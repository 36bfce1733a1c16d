//! `authentication` and `authorization`: who may use the serving API.

use control_serving::access::Settings;
use serde::Deserialize;

use super::Error;
use super::units::time;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Authentication {
    anonymous: EnabledSwitch,
    webhook: EnabledSwitch,
    x509: Certificates,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Certificates {
    #[serde(rename = "clientCAFile")]
    client_ca: String,
}

impl Authentication {
    /// `x509.clientCAFile`.
    pub(super) fn client_ca(&self) -> String {
        self.x509.client_ca.clone()
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EnabledSwitch {
    enabled: Option<bool>,
    #[serde(rename = "cacheTTL")]
    cache_ttl: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Authorization {
    mode: Option<String>,
    webhook: WebhookReviews,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WebhookReviews {
    #[serde(rename = "cacheAuthorizedTTL")]
    allowed: Option<String>,
    #[serde(rename = "cacheUnauthorizedTTL")]
    denied: Option<String>,
}

/// How requests to the serving API are checked.
pub(super) fn from_file(who: Authentication, may: Authorization) -> Result<Settings, Error> {
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
    Ok(Settings {
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
