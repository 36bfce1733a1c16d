//! The `loopback` plugin: containerd 1.6 asks for it before any other.

use std::path::Path;

use crate::{
    error::Error,
    link,
    reply::{Added, Interface},
};

/// Sets `lo` up in the pod.
pub(crate) fn add(version: &str, netns: &Path) -> Result<Added, Error> {
    link::in_namespace(netns, || {
        link::with_netlink(async |netlink| {
            let lo = link::find(&netlink, "lo").await?;
            link::set_up(&netlink, lo.index).await
        })
    })?;
    Ok(Added {
        cni_version: version.to_owned(),
        interfaces: vec![Interface {
            name: "lo".to_owned(),
            mac: "00:00:00:00:00:00".to_owned(),
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
