//! The fields of Calico's objects. Unknown fields are errors: they may restrict what the
//! others allow.

use serde::Deserialize;
use serde_json::Value;

/// `spec` of a NetworkPolicy or GlobalNetworkPolicy.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct PolicySpec {
    pub tier: Option<String>,
    pub order: Option<f64>,
    pub selector: Option<String>,
    pub namespace_selector: Option<String>,
    pub service_account_selector: Option<String>,
    pub types: Option<Vec<String>>,
    pub ingress: Option<Vec<CalicoRule>>,
    pub egress: Option<Vec<CalicoRule>>,
    pub do_not_track: Option<bool>,
    #[serde(rename = "preDNAT")]
    pub pre_dnat: Option<bool>,
    pub apply_on_forward: Option<bool>,
    pub performance_hints: Option<Value>,
}

/// A rule.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct CalicoRule {
    pub action: String,
    #[serde(rename = "ipVersion")]
    pub ip_version: Option<u8>,
    pub protocol: Option<NumberOrText>,
    pub not_protocol: Option<NumberOrText>,
    pub icmp: Option<Value>,
    #[serde(rename = "notICMP")]
    pub not_icmp: Option<Value>,
    pub source: Option<Entity>,
    pub destination: Option<Entity>,
    pub http: Option<Value>,
    pub metadata: Option<Value>,
}

/// One end of a rule's match.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Entity {
    pub nets: Option<Vec<String>>,
    pub not_nets: Option<Vec<String>>,
    pub selector: Option<String>,
    pub not_selector: Option<String>,
    pub namespace_selector: Option<String>,
    pub ports: Option<Vec<NumberOrText>>,
    pub not_ports: Option<Vec<NumberOrText>>,
    pub service_accounts: Option<Value>,
    pub services: Option<Value>,
    pub domains: Option<Value>,
}

/// A number or a text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum NumberOrText {
    Number(u32),
    Text(String),
}

impl NumberOrText {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// `spec` of a Tier.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct TierSpec {
    pub order: Option<f64>,
    pub default_action: Option<String>,
}

/// `spec` of a NetworkSet or GlobalNetworkSet.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct NetworkSetSpec {
    pub nets: Option<Vec<String>>,
    pub allowed_egress_domains: Option<Value>,
}
