//! A pod's `resolv.conf`, `hosts` file and names: pure functions.

use node_agent_cri::api::DnsConfig;
use node_agent_objects::pod::{Pod, PodSpec};

/// What the node gives pods for name resolution.
#[derive(Clone, Debug, Default)]
pub struct NodeDns {
    /// Addresses of the cluster's DNS.
    pub servers: Vec<String>,
    /// The cluster's domain, such as `cluster.local`.
    pub domain: String,
    /// What the node itself uses.
    pub host: ResolverConfig,
}

/// The content of a `resolv.conf`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolverConfig {
    /// `nameserver` lines.
    pub servers: Vec<String>,
    /// The last `search` line.
    pub searches: Vec<String>,
    /// The last `options` line.
    pub options: Vec<String>,
}

impl ResolverConfig {
    /// Reads the text of a `resolv.conf`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut resolver = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let keyword = words.next().unwrap_or_default();
            let values = words.map(str::to_owned);
            match keyword {
                "nameserver" => resolver.servers.extend(values.take(1)),
                "search" | "domain" => resolver.searches = values.collect(),
                "options" => resolver.options = values.collect(),
                _ => {}
            }
        }
        resolver
    }
}

/// Most name servers that a C library takes, and so the kubelet gives.
const MOST_SERVERS: usize = 3;

/// Most search domains that Kubernetes allows.
const MOST_SEARCHES: usize = 32;

/// What the pod gets by its `dnsPolicy` and `dnsConfig`.
#[must_use]
pub fn config(pod: &Pod, node: &NodeDns) -> DnsConfig {
    let spec = &pod.spec;
    let host = || DnsConfig {
        servers: node.host.servers.clone(),
        searches: node.host.searches.clone(),
        options: node.host.options.clone(),
    };
    let cluster_first = match spec.dns_policy.as_str() {
        "ClusterFirstWithHostNet" => true,
        "None" | "Default" => false,
        _ => !spec.host_network,
    };
    let mut config = if spec.dns_policy == "None" {
        DnsConfig::default()
    } else if cluster_first && !node.servers.is_empty() {
        let mut searches = Vec::new();
        if !node.domain.is_empty() {
            searches.push(format!("{}.svc.{}", pod.namespace(), node.domain));
            searches.push(format!("svc.{}", node.domain));
            searches.push(node.domain.clone());
        }
        searches.extend(node.host.searches.iter().filter(|s| *s != ".").cloned());
        DnsConfig {
            servers: node.servers.clone(),
            searches,
            options: vec!["ndots:5".to_owned()],
        }
    } else {
        host()
    };
    if let Some(own) = &spec.dns_config {
        config.servers.extend(own.nameservers.iter().cloned());
        config.searches.extend(own.searches.iter().cloned());
        for option in &own.options {
            let name = option.name.as_str();
            config
                .options
                .retain(|o| o.split(':').next().unwrap_or_default() != name);
            config.options.push(match &option.value {
                Some(value) if !value.is_empty() => format!("{name}:{value}"),
                _ => name.to_owned(),
            });
        }
    }
    dedup(&mut config.servers);
    dedup(&mut config.searches);
    config.servers.truncate(MOST_SERVERS);
    config.searches.truncate(MOST_SEARCHES);
    config
}

fn dedup(list: &mut Vec<String>) {
    let mut seen: Vec<String> = Vec::with_capacity(list.len());
    list.retain(|item| {
        let new = !seen.contains(item);
        if new {
            seen.push(item.clone());
        }
        new
    });
}

/// The pod's host name and, when it has one, its domain.
#[must_use]
pub fn names(pod: &Pod, cluster_domain: &str) -> (String, String) {
    let spec = &pod.spec;
    let mut host = if spec.hostname.is_empty() {
        // at most 63 characters, and none but letters and digits at the end
        let name = pod.name();
        let cut: String = name.chars().take(63).collect();
        cut.trim_end_matches(['-', '.']).to_owned()
    } else {
        spec.hostname.clone()
    };
    if let Some(name) = &spec.hostname_override {
        return (name.clone(), String::new());
    }
    let domain = if spec.subdomain.is_empty() || cluster_domain.is_empty() {
        String::new()
    } else {
        format!(
            "{}.{}.svc.{cluster_domain}",
            spec.subdomain,
            pod.namespace()
        )
    };
    if spec.set_hostname_as_fqdn == Some(true) && !domain.is_empty() {
        host = format!("{host}.{domain}");
    }
    (host, domain)
}

/// The content of a pod's `hosts` file. In the host's network it is the
/// node's own, and what the pod adds.
#[must_use]
pub fn hosts_file(
    spec: &PodSpec,
    ips: &[String],
    host: &str,
    domain: &str,
    node_file: &str,
) -> String {
    let mut out = String::new();
    if spec.host_network {
        out.push_str("# Kubernetes-managed hosts file (host network).\n");
        out.push_str(node_file);
    } else {
        out.push_str("# Kubernetes-managed hosts file.\n");
        out.push_str("127.0.0.1\tlocalhost\n");
        out.push_str("::1\tlocalhost ip6-localhost ip6-loopback\n");
        out.push_str("fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\n");
        out.push_str("fe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n");
        for ip in ips {
            if domain.is_empty() {
                out.push_str(&format!("{ip}\t{host}\n"));
            } else {
                let short = host.strip_suffix(&format!(".{domain}")).unwrap_or(host);
                out.push_str(&format!("{ip}\t{short}.{domain}\t{short}\n"));
            }
        }
    }
    if !spec.host_aliases.is_empty() {
        out.push_str("\n# Entries added by HostAliases.\n");
        for alias in &spec.host_aliases {
            out.push_str(&format!("{}\t{}\n", alias.ip, alias.hostnames.join("\t")));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: &str) -> Pod {
        serde_json::from_str(&format!(
            r#"{{"metadata":{{"name":"web-0","namespace":"shop"}},"spec":{spec}}}"#
        ))
        .unwrap()
    }

    fn node() -> NodeDns {
        NodeDns {
            servers: vec!["10.96.0.10".into()],
            domain: "cluster.local".into(),
            host: ResolverConfig::parse(
                "# a comment\nsearch example.com\nnameserver 192.0.2.53\noptions edns0\n",
            ),
        }
    }

    #[test]
    fn policies_choose_between_cluster_and_host() {
        let cluster = config(&pod(r#"{"dnsPolicy":"ClusterFirst"}"#), &node());
        assert_eq!(cluster.servers, ["10.96.0.10"]);
        assert_eq!(
            cluster.searches,
            [
                "shop.svc.cluster.local",
                "svc.cluster.local",
                "cluster.local",
                "example.com"
            ]
        );
        assert_eq!(cluster.options, ["ndots:5"]);
        for host in [
            r#"{"dnsPolicy":"Default"}"#,
            r#"{"dnsPolicy":"ClusterFirst","hostNetwork":true}"#,
        ] {
            assert_eq!(
                config(&pod(host), &node()).servers,
                ["192.0.2.53"],
                "{host}"
            );
        }
        let with_host_net = pod(r#"{"dnsPolicy":"ClusterFirstWithHostNet","hostNetwork":true}"#);
        assert_eq!(config(&with_host_net, &node()).servers, ["10.96.0.10"]);
    }

    #[test]
    fn own_configuration_is_added_and_its_options_win() {
        let pod = pod(
            r#"{"dnsPolicy":"ClusterFirst","dnsConfig":{"nameservers":["1.1.1.1","10.96.0.10"],
                "searches":["my.test"],"options":[{"name":"ndots","value":"2"},{"name":"rotate"}]}}"#,
        );
        let config = config(&pod, &node());
        assert_eq!(config.servers, ["10.96.0.10", "1.1.1.1"]);
        assert_eq!(config.searches.last().map(String::as_str), Some("my.test"));
        assert_eq!(config.options, ["ndots:2", "rotate"]);
    }

    #[test]
    fn hosts_file_names_the_pod_and_its_aliases() {
        let pod = pod(
            r#"{"hostname":"db","subdomain":"sql","hostAliases":[{"ip":"203.0.113.1","hostnames":["a","b"]}]}"#,
        );
        let (host, domain) = names(&pod, "cluster.local");
        assert_eq!(domain, "sql.shop.svc.cluster.local");
        let file = hosts_file(&pod.spec, &["10.0.0.9".into()], &host, &domain, "");
        assert!(
            file.contains("10.0.0.9\tdb.sql.shop.svc.cluster.local\tdb\n"),
            "{file}"
        );
        assert!(
            file.ends_with("\n# Entries added by HostAliases.\n203.0.113.1\ta\tb\n"),
            "{file}"
        );
    }
}
