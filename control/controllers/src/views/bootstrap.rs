//! The views of what a joining machine reads first.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_client::{Meta, Resource, View, resources};
use jiff::Timestamp;
use serde::Deserialize;

use super::common::null_as_default;

/// The Secret of a bootstrap token.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct BootstrapToken {
    /// Named after the token's id.
    pub metadata: Meta,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) data: BTreeMap<String, String>,
}

impl View for BootstrapToken {
    const RESOURCE: Resource = resources::SECRETS;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// The ConfigMap of the cluster's information.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ClusterInfo {
    /// Its name.
    pub metadata: Meta,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) data: BTreeMap<String, String>,
}

impl View for ClusterInfo {
    const RESOURCE: Resource = resources::CONFIG_MAPS;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl BootstrapToken {
    fn get(&self, key: &str) -> Option<String> {
        let bytes = STANDARD.decode(self.data.get(key)?).ok()?;
        String::from_utf8(bytes)
            .ok()
            .filter(|text| !text.is_empty())
    }

    /// Id and secret, if the token may sign now.
    pub(crate) fn signing(&self, now: Timestamp) -> Option<(String, String)> {
        let id = self.get("token-id")?;
        let name = self.metadata.name.strip_prefix("bootstrap-token-");
        let expiration = self.get("expiration").map(|text| text.parse::<Timestamp>());
        // a time that cannot be read is over
        let is_over = expiration.is_some_and(|ends| ends.map_or(true, |ends| ends <= now));
        let may_sign = self.get("usage-bootstrap-signing").as_deref() == Some("true");
        (name == Some(id.as_str()) && !is_over && may_sign)
            .then_some((id, self.get("token-secret")?))
    }
}
