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
    /// The node's pod ranges, at most one of each IP version. Each pod gets an
    /// address of each.
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
}

fn default_data_dir() -> PathBuf {
    PathBuf::from("/var/lib/orlop/cni")
}

impl Settings {
    /// Reads the plugin's keys out of the configuration.
    pub(crate) fn of(config: &NetworkConfig) -> Result<Self, Error> {
        let map = config
            .specific
            .iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        Self::from_json(serde_json::Value::Object(map))
    }

    /// Reads them out of the configuration as JSON.
    pub(crate) fn from_json(value: serde_json::Value) -> Result<Self, Error> {
        let settings: Self = serde_json::from_value(value)
            .map_err(|error| Error::Configuration(error.to_string()))?;
        for version in [true, false] {
            if settings
                .ranges
                .iter()
                .filter(|range| range.addr().is_ipv4() == version)
                .count()
                > 1
            {
                return Err(Error::Configuration(
                    "`ranges` holds two ranges of the same IP version".to_owned(),
                ));
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ranges_of_one_version_are_refused() {
        let value = serde_json::json!({"ranges": ["10.0.0.0/24", "10.0.1.0/24"]});
        assert!(Settings::from_json(value).is_err());
        let value = serde_json::json!({"ranges": ["10.0.0.0/24", "fd00::/64"], "mtu": 1400});
        let settings = Settings::from_json(value).expect("one range of each version");
        assert_eq!(settings.ranges.len(), 2);
        assert_eq!(settings.mtu, 1400);
    }
}
