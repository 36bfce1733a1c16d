//! The `loopback` plugin: containerd calls it before any other, in versions of the
//! specification as old as 0.3.1. So it uses no part of `cni-plugin`, which rejects them.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::json;

use crate::{
    error::Error,
    input::input,
    link,
    reply::{AddResult, Interface},
    verbs::VerbResult,
};

const VERSIONS: [&str; 5] = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

#[derive(Deserialize)]
struct Config {
    #[serde(rename = "cniVersion")]
    cni_version: String,
}

/// Whether this program was called by the name of that plugin.
pub(crate) fn is_meant() -> bool {
    std::env::args_os()
        .next()
        .is_some_and(|path| Path::new(&path).file_name() == Some("loopback".as_ref()))
}

/// Performs the verb.
pub(crate) fn run(verb: &str) -> VerbResult {
    let config: Config = input()?;
    let version = config.cni_version.as_str();
    let done = match verb {
        "VERSION" => Ok(json!({"cniVersion": version, "supportedVersions": VERSIONS}).to_string()),
        _ if !VERSIONS.contains(&version) => Err(Error::Version(version.to_owned())),
        "ADD" => netns()
            .and_then(|netns| add(version, &netns))
            .and_then(|added| {
                serde_json::to_string(&added)
                    .map_err(|error| Error::Configuration(error.to_string()))
            }),
        "CHECK" => netns()
            .and_then(|netns| check(&netns))
            .map(|()| String::new()),
        // `lo` is removed with its namespace, and needs nothing.
        "DEL" | "GC" | "STATUS" => Ok(String::new()),
        _ => Err(Error::Environment("CNI_COMMAND")),
    };
    done.map_err(|error| (config.cni_version.clone(), error))
}

fn netns() -> Result<PathBuf, Error> {
    std::env::var_os("CNI_NETNS")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .ok_or(Error::Environment("CNI_NETNS"))
}

/// Sets `lo` up in the pod.
pub(crate) fn add(version: &str, netns: &Path) -> Result<AddResult, Error> {
    link::in_namespace(netns, || {
        link::with_netlink(async |netlink| {
            let lo = link::find(&netlink, "lo").await?;
            link::set_up(&netlink, lo.index).await
        })
    })?;
    Ok(AddResult {
        cni_version: version.to_owned(),
        interfaces: vec![Interface {
            name: "lo".to_owned(),
            mac: "00:00:00:00:00:00".to_owned(),
            mtu: None,
            sandbox: Some(netns.display().to_string()),
        }],
        ips: Vec::new(),
        routes: Vec::new(),
        dns: serde_json::json!({}),
    })
}

/// Checks that `lo` is up.
pub(crate) fn check(netns: &Path) -> Result<(), Error> {
    link::in_namespace(netns, || {
        link::with_netlink(async |netlink| {
            if link::find(&netlink, "lo").await?.up {
                Ok(())
            } else {
                Err(Error::Check {
                    interface: "lo".to_owned(),
                    what: "it is down".to_owned(),
                })
            }
        })
    })
}
