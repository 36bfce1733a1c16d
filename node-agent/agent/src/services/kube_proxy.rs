//! Reads kube-proxy's configuration file
//! (`kubeproxy.config.k8s.io/v1alpha1`), so that who replaces kube-proxy keeps
//! it, and names each field that has no meaning here.

use std::{net::SocketAddr, path::PathBuf};

use serde_json::{Map, Value};

use super::options::ServiceOptions;

/// The settings of a kube-proxy configuration file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KubeProxySettings {
    /// `clientConnection.kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `hostnameOverride`.
    pub node_name: Option<String>,
    /// What it says of services.
    pub options: ServiceOptions,
    /// Fields that are set and change nothing, each with the reason.
    pub ignored: Vec<String>,
}

/// Why a file is not a valid kube-proxy configuration.
#[derive(Debug, thiserror::Error)]
pub enum KubeProxyConfigError {
    /// It is no YAML.
    #[error("it is no YAML")]
    Yaml(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It is another object.
    #[error(
        "it is no KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1 (apiVersion `{version}`, kind `{kind}`)"
    )]
    Kind {
        /// What it says.
        version: String,
        /// What it says.
        kind: String,
    },
    /// A field's value is none.
    #[error("`{value}` is no value of {field}: {expected}")]
    Value {
        /// Its path.
        field: &'static str,
        /// What it is.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
}

/// Fields without a meaning here, and why.
const MEANINGLESS: &[(&str, &str)] = &[
    ("mode", "services are served by eBPF"),
    ("bindAddress", "both IP versions are served"),
    ("bindAddressHardFail", "both IP versions are served"),
    ("configSyncPeriod", "objects are watched"),
    (
        "detectLocalMode",
        "pods are told by clusterCIDR or the Node's podCIDRs",
    ),
    (
        "detectLocal",
        "pods are told by clusterCIDR or the Node's podCIDRs",
    ),
    ("enableProfiling", "there is no profiling"),
    ("featureGates", "there are no feature gates"),
    ("ipvs", "there is no IPVS"),
    ("iptables.masqueradeBit", "packets are not marked"),
    (
        "iptables.localhostNodePorts",
        "node ports at loopback addresses follow nodePortAddresses",
    ),
    ("iptables.syncPeriod", "changes are written at once"),
    ("iptables.minSyncPeriod", "changes are written at once"),
    ("nftables.masqueradeBit", "packets are not marked"),
    ("nftables.syncPeriod", "changes are written at once"),
    ("nftables.minSyncPeriod", "changes are written at once"),
    (
        "conntrack.maxPerCore",
        "the table's size follows the machine's memory",
    ),
    (
        "conntrack.min",
        "the table's size follows the machine's memory",
    ),
    ("conntrack.tcpBeLiberal", "sequence numbers are not checked"),
    ("clientConnection.acceptContentTypes", "JSON is read"),
    ("clientConnection.contentType", "JSON is read"),
    ("clientConnection.qps", "the client writes events only"),
    ("clientConnection.burst", "the client writes events only"),
    ("logging", "logging follows ORLOP_LOG and -v"),
    ("oomScoreAdj", "set it by the service manager"),
    ("portRange", "no process listens for node ports"),
    ("showHiddenMetricsForVersion", "no metric is hidden"),
    ("windowsRunAsService", "this is Linux"),
    ("winkernel", "this is Linux"),
];

/// Reads a file's text.
///
/// # Errors
/// [`KubeProxyConfigError`].
pub fn parse(text: &str) -> Result<KubeProxySettings, KubeProxyConfigError> {
    let value: Value = serde_saphyr::from_str(text)
        .map_err(|error| KubeProxyConfigError::Yaml(Box::new(error)))?;
    let word = |field: &str| {
        let word = value.get(field).and_then(Value::as_str);
        word.unwrap_or_default().to_owned()
    };
    let (version, kind) = (word("apiVersion"), word("kind"));
    if (version.as_str(), kind.as_str())
        != ("kubeproxy.config.k8s.io/v1alpha1", "KubeProxyConfiguration")
    {
        return Err(KubeProxyConfigError::Kind { version, kind });
    }
    let mut fields = KubeProxyFields(flatten(&value));
    fields.0.remove("apiVersion");
    fields.0.remove("kind");
    let mut settings = KubeProxySettings {
        kubeconfig: fields
            .text("clientConnection.kubeconfig")
            .map(PathBuf::from),
        node_name: fields.text("hostnameOverride"),
        ..KubeProxySettings::default()
    };
    let options = &mut settings.options;
    if let Some(text) = fields.text("clusterCIDR") {
        options.cluster_cidrs = text
            .split(',')
            .map(|range| range.trim().parse())
            .collect::<Result<_, _>>()
            .map_err(|_| KubeProxyConfigError::Value {
                field: "clusterCIDR",
                value: text,
                expected: "ranges of addresses, separated by commas",
            })?;
    }
    if let Some(Value::Array(texts)) = fields.0.remove("nodePortAddresses") {
        options.node_port_addresses = texts
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
    }
    options.healthz = fields.socket("healthzBindAddress", options.healthz)?;
    options.metrics = fields.socket("metricsBindAddress", options.metrics)?;
    for field in ["iptables.masqueradeAll", "nftables.masqueradeAll"] {
        options.masquerade_all |= fields.0.remove(field) == Some(Value::Bool(true));
    }
    let timeouts = &mut options.timeouts;
    for (field, seconds) in [
        (
            "conntrack.tcpEstablishedTimeout",
            &mut timeouts.tcp_established,
        ),
        (
            "conntrack.tcpCloseWaitTimeout",
            &mut timeouts.tcp_half_closed,
        ),
        ("conntrack.udpTimeout", &mut timeouts.udp_unreplied),
        ("conntrack.udpStreamTimeout", &mut timeouts.udp_replied),
    ] {
        if let Some(text) = fields.text(field) {
            let value = duration(&text).ok_or(KubeProxyConfigError::Value {
                field,
                value: text,
                expected: "a duration such as 24h0m0s",
            })?;
            // Zero keeps what is there (kube-proxy leaves the sysctl alone).
            if value > 0 {
                *seconds = value;
            }
        }
    }
    settings.ignored = fields
        .0
        .iter()
        .filter(|(_, value)| is_set(value))
        .map(|(field, _)| {
            let known = MEANINGLESS.iter().find(|(name, _)| {
                field == name
                    || field
                        .strip_prefix(name)
                        .is_some_and(|rest| rest.starts_with('.'))
            });
            match known {
                Some((_, why)) => format!("{field}: {why}"),
                None => format!("{field}: not known"),
            }
        })
        .collect();
    Ok(settings)
}

/// The file's leaves by their paths; lists are leaves.
fn flatten(value: &Value) -> Map<String, Value> {
    let mut leaves = Map::new();
    let mut rest = vec![(String::new(), value)];
    while let Some((path, value)) = rest.pop() {
        match value {
            Value::Object(fields) => rest.extend(fields.iter().map(|(name, value)| {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                (path, value)
            })),
            value => {
                leaves.insert(path, value.clone());
            }
        }
    }
    leaves
}

struct KubeProxyFields(Map<String, Value>);

impl KubeProxyFields {
    /// A text that is not empty.
    fn text(&mut self, field: &str) -> Option<String> {
        match self.0.remove(field) {
            Some(Value::String(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// An address with a port; a bare address gets the default's port, and an
    /// empty text the default.
    fn socket(
        &mut self,
        field: &'static str,
        default: Option<SocketAddr>,
    ) -> Result<Option<SocketAddr>, KubeProxyConfigError> {
        let Some(text) = self.text(field) else {
            return Ok(default);
        };
        let port = default.map_or(0, |address| address.port());
        let parsed = text
            .parse()
            .ok()
            .or_else(|| text.parse().ok().map(|ip| SocketAddr::new(ip, port)));
        parsed.map(Some).ok_or(KubeProxyConfigError::Value {
            field,
            value: text,
            expected: "an address and a port",
        })
    }
}

/// What a generated file lists though nobody set it does not count.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) => true,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty() && duration(text) != Some(0),
        Value::Array(items) => !items.is_empty(),
        Value::Object(_) => true,
    }
}

/// Go's durations (`time.ParseDuration`), in whole seconds.
fn duration(text: &str) -> Option<u32> {
    let mut rest = text;
    let mut seconds = 0.0;
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (value, tail) = rest.split_at(number);
        let unit = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let factor = match unit {
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            "us" | "µs" => 0.000_001,
            "ns" => 0.000_000_001,
            _ => return None,
        };
        seconds += value.parse::<f64>().ok()? * factor;
        rest = tail;
    }
    (seconds <= f64::from(u32::MAX)).then_some(seconds as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `kubeadm` writes it, with some fields set.
    const FILE: &str = r#"
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 0
  contentType: ""
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
  qps: 0
clusterCIDR: 10.244.0.0/16,fd00:244::/56
configSyncPeriod: 0s
conntrack:
  maxPerCore: null
  min: null
  tcpBeLiberal: false
  tcpCloseWaitTimeout: 30m0s
  tcpEstablishedTimeout: 1h30m
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ""
enableProfiling: false
healthzBindAddress: ""
hostnameOverride: node-7
iptables:
  localhostNodePorts: null
  masqueradeAll: true
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
ipvs:
  excludeCIDRs: null
  scheduler: rr
logging:
  flushFrequency: 0
metricsBindAddress: 0.0.0.0:10249
mode: ipvs
nodePortAddresses: [primary]
oomScoreAdj: null
somethingNew: 3
"#;

    #[test]
    fn what_users_have_is_taken_over_and_the_rest_is_named() {
        let settings = parse(FILE).expect("usable");
        assert_eq!(
            settings.kubeconfig,
            Some("/var/lib/kube-proxy/kubeconfig.conf".into())
        );
        assert_eq!(settings.node_name.as_deref(), Some("node-7"));
        let options = settings.options;
        let cidrs: Vec<_> = options
            .cluster_cidrs
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(cidrs, ["10.244.0.0/16", "fd00:244::/56"]);
        assert!(options.masquerade_all);
        assert_eq!(options.node_port_addresses, ["primary"]);
        assert_eq!(options.metrics, "0.0.0.0:10249".parse().ok());
        assert_eq!(options.healthz, ServiceOptions::default().healthz);
        assert_eq!(options.timeouts.tcp_established, 5_400);
        assert_eq!(options.timeouts.tcp_half_closed, 1_800);
        assert_eq!(options.timeouts.udp_replied, 120, "zero keeps the default");
        assert_eq!(
            settings.ignored,
            [
                "bindAddress: both IP versions are served",
                "ipvs.scheduler: there is no IPVS",
                "mode: services are served by eBPF",
                "somethingNew: not known",
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let with = |line: &str| {
            let text = format!(
                "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n{line}\n"
            );
            parse(&text).expect_err("unusable").to_string()
        };
        assert!(with("clusterCIDR: 10.0.0.0").contains("clusterCIDR"));
        assert!(with("healthzBindAddress: nowhere").contains("healthzBindAddress"));
        assert!(with("conntrack: {udpTimeout: soon}").contains("conntrack.udpTimeout"));
        assert!(matches!(
            parse("kind: Pod"),
            Err(KubeProxyConfigError::Kind { .. })
        ));
        assert!(matches!(parse("a: [b"), Err(KubeProxyConfigError::Yaml(_))));
    }

    #[test]
    fn durations_are_go_s() {
        for (text, seconds) in [
            ("0", Some(0)),
            ("24h0m0s", Some(86_400)),
            ("1.5h", Some(5_400)),
            ("1500ms", Some(1)),
            ("", None),
            ("5", None),
            ("5 s", None),
        ] {
            assert_eq!(duration(text), seconds, "{text}");
        }
    }
}
