//! The runtime's input: the environment and the configuration on standard input (CNI
//! specification 1.1, section 2).
//!
//! `cni-plugin`'s own reader rejects what the specification allows (upper case in
//! container IDs, SCTP among port mappings), so only its type of the configuration is
//! used, without the runtime's part.

use std::{
    io::Read,
    net::IpAddr,
    path::{Path, PathBuf},
};

use cni_addresses::{Holder, wire::Bandwidth};
use cni_plugin::config::NetworkConfig;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{config::Settings, error::Error, reply};

/// The version of errors before the request's version is known.
pub(crate) const NEWEST: &str = "1.1.0";
/// Versions of the specification that are spoken.
pub(crate) const VERSIONS: [&str; 3] = ["0.4.0", "1.0.0", NEWEST];

/// Bytes of a configuration with the results of a chain and all valid attachments
/// of a node.
const LONGEST: u64 = 4 << 20;

/// A verb about one interface of one container.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) version: String,
    /// The network's name.
    pub(crate) network: String,
    pub(crate) plugin: String,
    pub(crate) holder: Holder,
    /// The container's network namespace; DEL may come without.
    pub(crate) netns: Option<PathBuf>,
    pub(crate) settings: Settings,
    pub(crate) runtime: Runtime,
    /// The result of the previous plugins, or of the whole chain.
    pub(crate) previous: Option<Value>,
}

/// The runtime's settings for this container (`runtimeConfig`), for the plugin's declared
/// `capabilities`. Port mappings are not among them: the node agent implements the Pod's
/// host ports.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Runtime {
    /// Addresses, with or without a prefix length.
    ips: Option<Vec<String>>,
    mac: Option<String>,
    bandwidth: Option<Bandwidth>,
}

impl Runtime {
    /// The addresses that it shall have.
    pub(crate) fn addresses(&self) -> Result<Vec<IpAddr>, Error> {
        let texts = self.ips.iter().flatten();
        texts
            .map(|text| {
                let address = text.split('/').next().unwrap_or_default();
                address.parse().map_err(|_| {
                    Error::Configuration(format!("`runtimeConfig.ips`: `{text}` is no address"))
                })
            })
            .collect()
    }

    /// How much it may send and get, if that is limited.
    pub(crate) fn bandwidth(&self) -> Option<Bandwidth> {
        self.bandwidth.filter(Bandwidth::limits)
    }

    /// The hardware address that it shall have.
    pub(crate) fn mac(&self) -> Result<Option<[u8; 6]>, Error> {
        let Some(text) = self.mac.as_deref().filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        reply::parse_mac(text).map(Some).ok_or_else(|| {
            Error::Configuration(format!(
                "`runtimeConfig.mac`: `{text}` is no hardware address of a host"
            ))
        })
    }
}

impl Call {
    /// Reads it.
    ///
    /// # Errors
    /// With the version to answer in.
    pub(crate) fn read() -> Result<Self, (String, Error)> {
        let value: Value = input()?;
        let version = value["cniVersion"].as_str().unwrap_or(NEWEST).to_owned();
        let variable = |name: &'static str| std::env::var(name).unwrap_or_default();
        Self::of(
            value,
            &variable("CNI_CONTAINERID"),
            &variable("CNI_IFNAME"),
            Path::new(&variable("CNI_NETNS")),
        )
        .map_err(|error| (version, error))
    }

    fn of(mut value: Value, id: &str, ifname: &str, netns: &Path) -> Result<Self, Error> {
        let wrong = |error: serde_json::Error| Error::Configuration(error.to_string());
        let mut part = |key: &str| {
            let part = value.as_object_mut().and_then(|map| map.remove(key));
            part.filter(|part| !part.is_null())
        };
        let runtime = part("runtimeConfig").map_or_else(
            || Ok(Runtime::default()),
            |it| serde_json::from_value(it).map_err(wrong),
        )?;
        let previous = part("prevResult");
        let config: NetworkConfig = serde_json::from_value(value).map_err(wrong)?;
        let version = config.cni_version.to_string();
        if !VERSIONS.contains(&version.as_str()) {
            return Err(Error::Version(version));
        }
        if !is_container_id(id) {
            return Err(Error::Environment("CNI_CONTAINERID"));
        }
        if !is_interface_name(ifname) {
            return Err(Error::Environment("CNI_IFNAME"));
        }
        Ok(Self {
            version,
            settings: Settings::from_config(&config)?,
            network: config.name,
            plugin: config.plugin,
            holder: Holder {
                container_id: id.to_owned(),
                ifname: ifname.to_owned(),
            },
            netns: Some(netns.to_owned()).filter(|netns| !netns.as_os_str().is_empty()),
            runtime,
            previous,
        })
    }

    /// The namespace, where there must be one.
    pub(crate) fn netns(&self) -> Result<&Path, Error> {
        let netns = self.netns.as_deref();
        netns.ok_or(Error::Environment("CNI_NETNS"))
    }
}

/// The configuration on standard input.
///
/// # Errors
/// [`Error::Configuration`], with the version to answer in.
pub(crate) fn input<C: DeserializeOwned>() -> Result<C, (String, Error)> {
    let wrong = |error: String| (NEWEST.to_owned(), Error::Configuration(error));
    let mut input = Vec::new();
    std::io::stdin()
        .take(LONGEST)
        .read_to_end(&mut input)
        .map_err(|error| wrong(error.to_string()))?;
    serde_json::from_slice(&input).map_err(|error| wrong(error.to_string()))
}

/// Section 2, "Parameters": it begins with a letter or digit, and has dots,
/// hyphens and underscores besides.
fn is_container_id(id: &str) -> bool {
    id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || "_.-".contains(it))
}

/// Returns whether Linux accepts a device name.
fn is_interface_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 15
        && name != "."
        && name != ".."
        && !name.contains(|it: char| it == '/' || it == ':' || it.is_whitespace())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config() -> Value {
        json!({"cniVersion": "1.1.0", "name": "orlop", "type": "orlop-cni"})
    }

    fn read(value: Value, id: &str, ifname: &str) -> Result<Call, Error> {
        Call::of(value, id, ifname, Path::new(""))
    }

    #[test]
    fn what_the_specification_allows_is_read_and_the_rest_is_named() {
        let mut value = config();
        value["runtimeConfig"] = json!({
            "ips": ["10.0.0.9/32", "fd00::9"], "mac": "02:00:00:00:00:09",
            "portMappings": [{"hostPort": 1, "containerPort": 2, "protocol": "sctp"}],
        });
        value["prevResult"] = json!({"cniVersion": "1.1.0"});
        let call = read(value, "A-1_b.c", "eth0").expect("a call");
        let addresses = call.runtime.addresses().expect("addresses");
        assert_eq!(addresses.len(), 2);
        assert_eq!(call.runtime.mac().expect("a mac"), Some([2, 0, 0, 0, 0, 9]));
        assert!(call.previous.is_some() && call.netns.is_none());
        assert!(matches!(call.netns(), Err(Error::Environment("CNI_NETNS"))));
        for (id, ifname, missing) in [
            ("", "eth0", "CNI_CONTAINERID"),
            ("-x", "eth0", "CNI_CONTAINERID"),
            ("a/b", "eth0", "CNI_CONTAINERID"),
            ("a", "", "CNI_IFNAME"),
            ("a", "eth0:1", "CNI_IFNAME"),
            ("a", "sixteen-letters-", "CNI_IFNAME"),
        ] {
            let error = read(config(), id, ifname).expect_err("not valid");
            assert!(matches!(error, Error::Environment(it) if it == missing));
        }
        let mut value = config();
        value["cniVersion"] = json!("0.3.0");
        assert!(matches!(read(value, "a", "b"), Err(Error::Version(_))));
        for runtime in [json!({"ips": ["x"]}), json!({"mac": "01:00:00:00:00:01"})] {
            let mut value = config();
            value["runtimeConfig"] = runtime;
            let call = read(value, "a", "b").expect("a call");
            assert!(call.runtime.addresses().is_err() || call.runtime.mac().is_err());
        }
    }
}
