//! Options of how a node serves services, for every command that has a node.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, ValueEnum};
use ebpf_abi::DirectReturn;
use ipnet::IpNet;
use node_agent::{
    Globs, HEALTHZ, METRICS, NotAPattern, Patterns, ProxySettings, ServiceOptions, XdpMode,
};

use crate::error::Error;
use crate::values::InvalidValue;

/// How services are served.
// Other commands flatten it as well: groups need unique names.
#[derive(Args)]
#[group(id = "services")]
#[command(next_help_heading = "Options of services")]
pub struct ServiceArgs {
    /// kube-proxy's configuration file (KubeProxyConfiguration); fields without a meaning here are
    /// named in the log. Options go before it.
    #[arg(long, value_name = "FILE")]
    kube_proxy_config: Option<PathBuf>,
    /// Devices at which traffic enters: names with * and ?, separated by commas; a leading !
    /// excludes.
    #[arg(long, default_value = node_agent::DEVICES, value_name = "PATTERNS")]
    devices: String,
    /// Devices behind which there are pods, in the same form.
    #[arg(long, default_value = node_agent::POD_DEVICES, value_name = "PATTERNS")]
    pod_devices: String,
    /// Whether traffic is handled by XDP where it enters.
    #[arg(long, value_enum, default_value_t = Xdp::Off)]
    xdp: Xdp,
    /// Addresses of this node at which node ports are served: ranges, or `primary` for those that
    /// the Node object names; all unless given.
    #[arg(long, value_delimiter = ',', value_name = "RANGE")]
    nodeport_addresses: Vec<String>,
    /// Ranges of the cluster's pods; defaults to those of the Node object, and to
    /// 10.244.0.0/16 if the server is in the same process.
    #[arg(long, value_delimiter = ',', value_name = "RANGE")]
    cluster_cidr: Vec<IpNet>,
    /// Show clients of cluster IPs as this node, wherever they are.
    #[arg(long)]
    masquerade_all: bool,
    /// Translate sockets of the node's own processes only; pods are served at their devices.
    #[arg(long)]
    host_sockets_only: bool,
    /// How remote backends may answer clients directly.
    #[arg(long, value_enum, default_value_t = Direct::None)]
    direct_return: Direct,
    /// Ports that translated clients get.
    #[arg(long, value_parser = ports, default_value = "61000-65535", value_name = "FIRST-LAST")]
    client_ports: (u16, u16),
    /// Address of /healthz and /livez; `off` to disable. 0.0.0.0:10256 unless given.
    #[arg(long, value_name = "ADDRESS")]
    healthz_bind_address: Option<String>,
    /// Address of /metrics, /configz and /proxyMode; `off` to disable. 127.0.0.1:10249
    /// unless given.
    #[arg(long, value_name = "ADDRESS")]
    metrics_bind_address: Option<String>,
    /// If these two ports are taken, serve them when they are free, instead of ending: while
    /// kube-proxy runs, it has them.
    #[arg(long)]
    wait_for_ports: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Xdp {
    /// Not at all.
    Off,
    /// In drivers that can.
    Native,
    /// In drivers that can, else in the kernel's generic hook.
    NativeOrGeneric,
    /// In the kernel's generic hook: for tests.
    Generic,
}

#[derive(Clone, Copy, ValueEnum)]
enum Direct {
    /// Not at all: answers come back through this node.
    None,
    /// In an outer IP header to the backend.
    Ipip,
    /// In a frame to the backend's node on the same link.
    Link,
}

impl ServiceArgs {
    /// Ports that translated clients get.
    pub const fn client_ports(&self) -> (u16, u16) {
        self.client_ports
    }

    /// Returns the given ranges of the cluster's pods.
    pub fn cluster_cidr(&self) -> &[IpNet] {
        &self.cluster_cidr
    }

    /// kube-proxy's file, if one is given.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Option`].
    pub fn settings(&self) -> Result<Option<ProxySettings>, Error> {
        let Some(path) = &self.kube_proxy_config else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(path).map_err(|source| Error::File {
            path: path.clone(),
            source,
        })?;
        let settings = node_agent::kube_proxy_settings(&text)
            .map_err(|error| Error::Option(format!("`{}`: {error}", path.display())))?;
        for ignored in &settings.ignored {
            tracing::warn!(file = %path.display(), "{ignored}: without effect");
        }
        Ok(Some(settings))
    }

    /// Merges the options with those of kube-proxy's file.
    ///
    /// # Errors
    /// [`Error::Option`].
    pub fn complete(&self, settings: Option<&ProxySettings>) -> Result<ServiceOptions, Error> {
        let mut options = settings.map(|it| it.options.clone()).unwrap_or_default();
        let wrong = |error: NotAPattern| Error::Option(error.to_string());
        options.patterns = Patterns {
            devices: Globs::new(&self.devices).map_err(wrong)?,
            pods: Globs::new(&self.pod_devices).map_err(wrong)?,
            guarded: Globs::default(),
            host: false,
            xdp: match self.xdp {
                Xdp::Off => XdpMode::Off,
                Xdp::Native => XdpMode::Native,
                Xdp::NativeOrGeneric => XdpMode::NativeOrGeneric,
                Xdp::Generic => XdpMode::Generic,
            },
        };
        if !self.nodeport_addresses.is_empty() {
            options
                .node_port_addresses
                .clone_from(&self.nodeport_addresses);
        }
        if !self.cluster_cidr.is_empty() {
            options.cluster_cidrs.clone_from(&self.cluster_cidr);
        }
        options.masquerade_all |= self.masquerade_all;
        options.host_sockets_only = self.host_sockets_only;
        options.direct_return = match self.direct_return {
            Direct::None => DirectReturn::NONE,
            Direct::Ipip => DirectReturn::IPIP,
            Direct::Link => DirectReturn::LINK,
        };
        options.client_ports = self.client_ports;
        options.wait_for_ports = self.wait_for_ports;
        for (text, place, port, name) in [
            (
                &self.healthz_bind_address,
                &mut options.healthz,
                HEALTHZ,
                "--healthz-bind-address",
            ),
            (
                &self.metrics_bind_address,
                &mut options.metrics,
                METRICS,
                "--metrics-bind-address",
            ),
        ] {
            if let Some(text) = text {
                *place = address(text, port)
                    .map_err(|error| Error::Option(format!("{name}: {error}")))?;
            }
        }
        Ok(options)
    }
}

fn address(text: &str, port: u16) -> Result<Option<SocketAddr>, InvalidValue> {
    if text == "off" || text.is_empty() {
        return Ok(None);
    }
    let bare = || text.parse().ok().map(|ip| SocketAddr::new(ip, port));
    text.parse()
        .ok()
        .or_else(bare)
        .map(Some)
        .ok_or_else(|| InvalidValue::new(text, "address", "write ADDRESS:PORT, or off"))
}

/// Reads a range of ports.
///
/// # Errors
/// How to write it.
pub fn ports(text: &str) -> Result<(u16, u16), InvalidValue> {
    let parsed = text.split_once('-').and_then(|(first, last)| {
        let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
        (first > 0 && first < last).then_some((first, last))
    });
    parsed.ok_or_else(|| InvalidValue::new(text, "range of ports", "write FIRST-LAST"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_ports_and_off_are_understood() {
        assert_eq!(address("off", 1), Ok(None));
        assert_eq!(address("::", 7), Ok("[::]:7".parse().ok()));
        assert_eq!(address("127.0.0.1:8", 7), Ok("127.0.0.1:8".parse().ok()));
        assert!(address("x", 7).is_err());
        assert_eq!(ports("61000-65535"), Ok((61_000, 65_535)));
        for text in ["", "5", "9-8", "0-8", "1-70000"] {
            assert!(ports(text).is_err(), "{text}");
        }
    }
}
