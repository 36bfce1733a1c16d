//! What the plugin prints.

use std::net::IpAddr;

use serde::Serialize;

/// The result of ADD (CNI specification 1.1, section 5).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Added {
    pub(crate) cni_version: String,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) ips: Vec<Ip>,
    pub(crate) routes: Vec<Route>,
    pub(crate) dns: serde_json::Value,
}

#[derive(Debug, Serialize)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) mac: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sandbox: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Ip {
    /// Written with its prefix length, as `10.0.0.2/32`.
    pub(crate) address: String,
    pub(crate) gateway: IpAddr,
    pub(crate) interface: usize,
    /// `4` or `6`: only results before version 1.0 have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Route {
    pub(crate) dst: String,
    pub(crate) gw: IpAddr,
}

/// The hardware address as people write it.
pub(crate) fn mac(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .join(":")
}
