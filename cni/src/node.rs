//! The verbs that concern no one pod: GC, STATUS, VERSION. `cni-plugin` knows
//! neither of the former two.

use std::{collections::BTreeSet, path::Path, time::Duration};

use cni_addresses::Holder;
use serde::Deserialize;
use serde_json::json;

use crate::{
    addresses, agent,
    config::Settings,
    error::{Error, file_error},
    input::{VERSIONS, input},
    link,
    verbs::{VerbResult, is_loopback},
};

#[derive(Deserialize)]
struct NodeConfig {
    #[serde(rename = "cniVersion")]
    cni_version: String,
    #[serde(default)]
    name: String,
    #[serde(default, rename = "type")]
    plugin: String,
    #[serde(default, rename = "cni.dev/valid-attachments")]
    valid: Vec<Holder>,
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

/// Performs the verb.
pub(crate) fn run(verb: &str) -> VerbResult {
    let config: NodeConfig = input()?;
    let version = config.cni_version.clone();
    let done = match verb {
        "VERSION" => Ok(json!({
            "cniVersion": version,
            "supportedVersions": VERSIONS,
        })
        .to_string()),
        _ if !VERSIONS.contains(&version.as_str()) => Err(Error::Version(version.clone())),
        _ if is_loopback(&config.plugin) => Ok(String::new()),
        "GC" => collect(config).map(|()| String::new()),
        _ => status(config).map(|()| String::new()),
    };
    done.map_err(|error| (version, error))
}

/// Removes the interfaces without a valid attachment, and releases their addresses.
/// Others are tried when one fails; the first failure is returned.
fn collect(config: NodeConfig) -> Result<(), Error> {
    let settings = Settings::from_json(serde_json::Value::Object(config.rest))?;
    let store = addresses::store(&settings, &config.name)?;
    let keep: BTreeSet<Holder> = config.valid.into_iter().collect();
    let gone: BTreeSet<Holder> = store
        .held()
        .map_err(Error::Addresses)?
        .into_iter()
        .filter_map(|held| held.holder)
        .filter(|holder| !keep.contains(holder))
        .collect();
    let mut first = Ok(());
    for holder in &gone {
        let name = holder.device();
        let removed = link::with_netlink(async |netlink| link::remove(&netlink, &name).await)
            .and_then(|()| store.give_back(holder).map_err(Error::Addresses));
        first = first.and(removed.map(drop));
    }
    first?;
    // Files without a holder.
    let others = store.give_back_others(&keep, Duration::ZERO);
    others.map(drop).map_err(Error::Addresses)
}

/// Whether an ADD could succeed now.
fn status(config: NodeConfig) -> Result<(), Error> {
    let settings = Settings::from_json(serde_json::Value::Object(config.rest))?;
    if let Some(socket) = &settings.agent {
        agent::is_there(socket)?;
    }
    addresses::status(&settings, &config.name)?;
    let of_kernel = [
        (true, "/proc/sys/net/ipv4/ip_forward"),
        (false, "/proc/sys/net/ipv6/conf/all/forwarding"),
    ];
    for (v4, forwarding) in of_kernel {
        let ranges = &settings.ranges;
        if !ranges.iter().any(|range| range.addr().is_ipv4() == v4) {
            continue;
        }
        let path = Path::new(forwarding);
        let value = std::fs::read_to_string(path).map_err(file_error(path))?;
        if value.trim() != "1" {
            return Err(Error::NotReady(format!(
                "`{forwarding}` is not 1: the node does not forward packets"
            )));
        }
    }
    Ok(())
}
