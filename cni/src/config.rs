//! The plugin's own part of the network configuration.

use std::path::PathBuf;

use cni_plugin::config::NetworkConfig;
use ipnet::IpNet;
use serde::Deserialize;

use crate::error::Error;

/// Keys of the configuration beside those that every CNI plugin has.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settings {
    /// The node's pod ranges. Each pod gets an address of each IP version.
    #[serde(default)]
    pub(crate) ranges: Vec<IpNet>,
    /// MTU of the pod's interface in bytes; 0 leaves the kernel's default.
    #[serde(default)]
    pub(crate) mtu: u32,
    /// Folder where addresses given out are kept, over restarts of the node.
    #[serde(default = "default_data_dir")]
    pub(crate) data_dir: PathBuf,
    /// The node agent's socket. If there is one, an interface is down until
    /// the agent agrees: it enforces network policy there.
    #[serde(default)]
    pub(crate) agent: Option<PathBuf>,
    /// The socket at which the node agent allocates addresses. If there is none, the
    /// plugin takes them from `ranges` itself.
    #[serde(default)]
    pub(crate) addresses: Option<PathBuf>,
    /// Whether the agent at `addresses` performs ADD completely: older agents do not set
    /// this.
    #[serde(default)]
    pub(crate) attach: bool,
}

fn default_data_dir() -> PathBuf {
    PathBuf::from("/var/lib/orlop/cni")
}

impl Settings {
    /// Reads the plugin's keys out of the configuration.
    pub(crate) fn from_config(config: &NetworkConfig) -> Result<Self, Error> {
        let map = config
            .specific
            .iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        Self::from_json(serde_json::Value::Object(map))
    }

    /// Reads them out of the configuration as JSON.
    pub(crate) fn from_json(value: serde_json::Value) -> Result<Self, Error> {
        serde_json::from_value(value).map_err(|error| Error::Configuration(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_what_is_missing_has_a_default() {
        let value = serde_json::json!({"ranges": ["10.0.0.0/24", "fd00::/64"], "mtu": 1400});
        let settings = Settings::from_json(value).expect("settings");
        assert_eq!((settings.ranges.len(), settings.mtu), (2, 1400));
        assert_eq!(settings.data_dir, default_data_dir());
        let value = serde_json::json!({"ranges": ["10.0.0.0"]});
        assert!(Settings::from_json(value).is_err());
    }
}
