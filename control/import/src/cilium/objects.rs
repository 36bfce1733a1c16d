//! The fields of Cilium's objects. Unknown fields are errors: they may restrict what the
//! others allow.

use control_types::label_selector::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

/// One rule set of a CiliumNetworkPolicy or CiliumClusterwideNetworkPolicy: `spec`, or one of
/// `specs`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct CiliumSpec {
    pub endpoint_selector: Option<LabelSelector>,
    pub node_selector: Option<LabelSelector>,
    pub ingress: Option<Vec<CiliumRule>>,
    pub ingress_deny: Option<Vec<CiliumRule>>,
    pub egress: Option<Vec<CiliumRule>>,
    pub egress_deny: Option<Vec<CiliumRule>>,
    pub enable_default_deny: Option<DefaultDeny>,
    pub labels: Option<Value>,
    pub description: Option<String>,
    pub log: Option<Value>,
}

/// Whether unmatched traffic is denied.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct DefaultDeny {
    pub ingress: Option<bool>,
    pub egress: Option<bool>,
}

/// A rule of either direction.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CiliumRule {
    #[serde(alias = "fromEndpoints", alias = "toEndpoints")]
    pub endpoints: Option<Vec<LabelSelector>>,
    #[serde(alias = "fromRequires", alias = "toRequires")]
    pub requires: Option<Value>,
    #[serde(alias = "fromCIDR", alias = "toCIDR")]
    pub cidr: Option<Vec<String>>,
    #[serde(alias = "fromCIDRSet", alias = "toCIDRSet")]
    pub cidr_set: Option<Vec<CidrRule>>,
    #[serde(alias = "fromEntities", alias = "toEntities")]
    pub entities: Option<Vec<String>>,
    #[serde(alias = "fromGroups", alias = "toGroups")]
    pub groups: Option<Value>,
    #[serde(alias = "fromNodes", alias = "toNodes")]
    pub nodes: Option<Value>,
    #[serde(rename = "toServices")]
    pub services: Option<Value>,
    #[serde(rename = "toFQDNs")]
    pub fqdns: Option<Value>,
    #[serde(rename = "toPorts")]
    pub ports: Option<Vec<PortRule>>,
    pub icmps: Option<Value>,
    pub authentication: Option<Authentication>,
}

/// One of `fromCIDRSet` or `toCIDRSet`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct CidrRule {
    pub cidr: Option<String>,
    pub cidr_group_ref: Option<String>,
    pub cidr_group_selector: Option<LabelSelector>,
    pub except: Option<Vec<String>>,
}

/// One of `toPorts`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct PortRule {
    pub ports: Option<Vec<PortProtocol>>,
    #[serde(rename = "terminatingTLS")]
    pub terminating_tls: Option<Value>,
    #[serde(rename = "originatingTLS")]
    pub originating_tls: Option<Value>,
    pub server_names: Option<Value>,
    pub listener: Option<Value>,
    pub rules: Option<L7>,
}

/// A port.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct PortProtocol {
    pub port: Option<String>,
    pub end_port: Option<i64>,
    pub protocol: Option<String>,
}

/// The allowed requests.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct L7 {
    pub dns: Option<Vec<Dns>>,
    #[serde(flatten)]
    pub other: serde_json::Map<String, Value>,
}

/// A name that may be looked up.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Dns {
    pub match_name: Option<String>,
    pub match_pattern: Option<String>,
}

/// Mutual authentication.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Authentication {
    pub mode: String,
}

/// `spec` of a CiliumCIDRGroup.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CidrGroupSpec {
    #[serde(rename = "externalCIDRs")]
    pub external_cidrs: Option<Vec<String>>,
}
