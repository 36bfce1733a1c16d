//! The settings of the controllers.

use std::sync::Arc;
use std::time::Duration;

use control_client::lease::Election;
use control_pki::Authority;
use ipnet::IpNet;

use crate::error::Error;
use crate::token_signer::TokenSigner;

/// The settings of the controllers. The defaults are those of
/// kube-controller-manager.
#[derive(Debug, Clone)]
pub struct Config {
    /// The controllers to run: names; `*` for all that are on by default; `-name`
    /// excludes one.
    pub controllers: Vec<String>,
    /// The pods' ranges, at most one of each family. Without any, nodes get
    /// no range from us.
    pub cluster_cidrs: Vec<IpNet>,
    /// Prefix length of a node's IPv4 range.
    pub node_mask_ipv4: u8,
    /// Prefix length of a node's IPv6 range.
    pub node_mask_ipv6: u8,
    /// The certificates, in PEM, by which pods know the API server. Without
    /// them no `kube-root-ca.crt` is published.
    pub root_ca_pem: Option<String>,
    /// Signs tokens that lie in Secrets. Without it such Secrets stay empty.
    pub token_signer: Option<TokenSigner>,
    /// Signs certificates of approved requests. Without it, this process signs none.
    pub authority: Option<Arc<Authority>>,
    /// Signs the serving certificates of kubelets. Without it they stay unsigned.
    pub kubelet_authority: Option<Arc<Authority>>,
    /// The names and addresses by which clients reach the API server. No kubelet gets a
    /// serving certificate for them.
    pub api_server_names: Vec<String>,
    /// The ranges of Service addresses. No kubelet gets a serving certificate for an
    /// address in them.
    pub service_cidrs: Vec<IpNet>,
    /// The longest life of such certificates.
    pub certificate_life: Duration,
    /// How long a node may be silent before it counts as not ready.
    pub node_grace_period: Duration,
    /// How long a new node may be silent at first.
    pub node_startup_grace_period: Duration,
    /// How often nodes are looked at.
    pub node_monitor_period: Duration,
    /// How many ended pods may stay; 0 for any number.
    pub terminated_pod_threshold: usize,
    /// Whether Services of type LoadBalancer that name no class are ours.
    pub default_load_balancer: bool,
    /// Whether an external cloud controller manager assigns addresses to Services of type
    /// LoadBalancer. Services that name one of our classes are still ours.
    pub external_cloud: bool,
    /// The number of keys that each workload controller processes concurrently.
    pub workers: usize,
    /// With an election, the controllers run while this candidate leads; without, they are
    /// the only ones.
    pub election: Option<Election>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            controllers: vec!["*".to_owned()],
            cluster_cidrs: Vec::new(),
            node_mask_ipv4: 24,
            node_mask_ipv6: 64,
            root_ca_pem: None,
            token_signer: None,
            authority: None,
            kubelet_authority: None,
            api_server_names: Vec::new(),
            service_cidrs: Vec::new(),
            certificate_life: Duration::from_secs(365 * 24 * 3600),
            node_grace_period: Duration::from_secs(50),
            node_startup_grace_period: Duration::from_secs(60),
            node_monitor_period: Duration::from_secs(5),
            terminated_pod_threshold: 12_500,
            default_load_balancer: true,
            external_cloud: false,
            workers: 5,
            election: None,
        }
    }
}

impl Config {
    /// Checks what can be checked without a cluster.
    ///
    /// # Errors
    /// [`Error::PodRanges`], [`Error::NodeMask`].
    pub fn check(&self) -> Result<(), Error> {
        let v4 = self
            .cluster_cidrs
            .iter()
            .filter(|range| range.addr().is_ipv4());
        let v4 = v4.count();
        if v4 > 1 || self.cluster_cidrs.len() - v4 > 1 {
            let ranges: Vec<_> = self.cluster_cidrs.iter().map(ToString::to_string).collect();
            return Err(Error::PodRanges(ranges.join(", ")));
        }
        for range in &self.cluster_cidrs {
            let (size, most) = match range {
                IpNet::V4(_) => (self.node_mask_ipv4, 32),
                IpNet::V6(_) => (self.node_mask_ipv6, 128),
            };
            // more than 2^16 ranges would make the allocator's map too large
            let from = range.prefix_len();
            let to = most.min(from.saturating_add(16));
            if size < from || size > to {
                return Err(Error::NodeMask {
                    range: *range,
                    size,
                    from,
                    to,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CONTROLLERS;

    #[test]
    fn pod_ranges_are_one_of_each_ip_version() {
        let check = |ranges: &[&str]| {
            let config = Config {
                cluster_cidrs: ranges.iter().map(|range| range.parse().unwrap()).collect(),
                ..Config::default()
            };
            config.check()
        };
        assert!(check(&["10.244.0.0/16", "fd00::/56"]).is_ok());
        let error = check(&["10.244.0.0/16", "10.245.0.0/16"]).unwrap_err();
        assert!(error.to_string().contains("10.245.0.0/16"), "{error}");
        assert!(check(&["10.244.0.0/30"]).is_err());
    }

    fn names(list: &[&str]) -> Result<Vec<&'static str>, Error> {
        let config = Config {
            controllers: list.iter().map(ToString::to_string).collect(),
            ..Config::default()
        };
        Ok(config.selected()?.into_iter().map(|c| c.name).collect())
    }

    #[test]
    fn star_means_all_and_minus_means_not() {
        // one is off by default
        assert_eq!(names(&["*"]).unwrap().len(), CONTROLLERS.len() - 1);
        assert!(
            !names(&["*", "-deployment-controller"])
                .unwrap()
                .contains(&"deployment-controller")
        );
        assert_eq!(
            names(&["deployment-controller"]).unwrap(),
            ["deployment-controller"]
        );
    }

    #[test]
    fn unknown_name_says_what_there_is() {
        let error = names(&["deploy"]).unwrap_err().to_string();
        assert!(error.starts_with("no controller is called `deploy`; there are: "));
        assert!(error.contains("deployment-controller"));
    }

    #[test]
    fn node_mask_must_fit() {
        let config = Config {
            cluster_cidrs: vec!["10.0.0.0/25".parse().unwrap()],
            ..Config::default()
        };
        assert!(config.check().is_err());
    }

    #[test]
    fn names_are_unique() {
        let mut all: Vec<_> = CONTROLLERS.iter().map(|it| it.name).collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
