//! Where a node's things are and what they are called: what options of the command line
//! say, too, which go before the file (as for the kubelet).

use std::net::IpAddr;
use std::path::PathBuf;

use node_agent_pod_resources::cgroup_names::CgroupManager;
use serde::Deserialize;

use super::Error;

/// The paths that the file sets; `None` and empty mean not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfiguredPaths {
    /// `clusterDNS`: whom pods ask for names.
    pub cluster_dns: Vec<IpAddr>,
    /// `clusterDomain`.
    pub cluster_domain: Option<String>,
    /// `resolvConf`: what names the resolvers for other domains.
    pub resolv_conf: Option<PathBuf>,
    /// `containerRuntimeEndpoint`: a path, or `unix://` and a path.
    pub runtime_endpoint: Option<String>,
    /// `podLogsDir`.
    pub log_root: Option<PathBuf>,
    /// `cgroupRoot`: the control group of all pods' groups, from the hierarchy's root.
    pub cgroup_root: Option<String>,
    /// `cgroupDriver`: who makes them, unless the runtime says.
    pub cgroup_driver: Option<CgroupManager>,
    /// What the serving API shows and whom it believes.
    pub serving: ServingPlaces,
}

/// Files of the serving API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServingPlaces {
    /// `tlsCertFile`.
    pub certificate: Option<PathBuf>,
    /// `tlsPrivateKeyFile`.
    pub key: Option<PathBuf>,
    /// `authentication.x509.clientCAFile`.
    pub client_ca: Option<PathBuf>,
}

impl ServingPlaces {
    /// The names of those fields that say something.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> + '_ {
        [
            ("tlsCertFile", &self.certificate),
            ("tlsPrivateKeyFile", &self.key),
            ("authentication.x509.clientCAFile", &self.client_ca),
        ]
        .into_iter()
        .filter_map(|(name, said)| said.as_ref().map(|_| name))
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PathsFile {
    #[serde(rename = "clusterDNS")]
    cluster_dns: Vec<String>,
    cluster_domain: String,
    resolv_conf: String,
    container_runtime_endpoint: String,
    pod_logs_dir: String,
    cgroup_root: String,
    cgroup_driver: String,
    tls_cert_file: String,
    tls_private_key_file: String,
}

impl ConfiguredPaths {
    pub(super) fn from_file(file: PathsFile, client_ca: String) -> Result<Self, Error> {
        let addresses = file.cluster_dns.into_iter().map(|text| {
            text.parse().map_err(|_| Error::Value {
                field: "clusterDNS",
                value: text,
                why: "is no IP address",
            })
        });
        let cgroup_driver = match file.cgroup_driver.as_str() {
            "" => None,
            "cgroupfs" => Some(CgroupManager::Cgroupfs),
            "systemd" => Some(CgroupManager::Systemd),
            _ => {
                return Err(Error::Value {
                    field: "cgroupDriver",
                    value: file.cgroup_driver,
                    why: "is neither cgroupfs nor systemd",
                });
            }
        };
        Ok(Self {
            cluster_dns: addresses.collect::<Result<_, _>>()?,
            cluster_domain: said(file.cluster_domain),
            resolv_conf: path(file.resolv_conf),
            runtime_endpoint: said(file.container_runtime_endpoint),
            log_root: path(file.pod_logs_dir),
            cgroup_root: said(file.cgroup_root),
            cgroup_driver,
            serving: ServingPlaces {
                certificate: path(file.tls_cert_file),
                key: path(file.tls_private_key_file),
                client_ca: path(client_ca),
            },
        })
    }
}

fn said(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn path(text: String) -> Option<PathBuf> {
    said(text).map(PathBuf::from)
}
