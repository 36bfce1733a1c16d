//! `EgressSelectorConfiguration`: by which way the API server reaches the control
//! plane, the cluster and etcd (KEP-1281). Read and checked here as kube-apiserver
//! does; nothing is connected.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{ConfigurationError, Problems};

/// The destination of a connection, which names an `egressSelection`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Other parts of the control plane, and what its operators run beside it:
    /// webhooks with a URL, the audit webhook, collectors of traces.
    ControlPlane,
    /// The store.
    Etcd,
    /// What the control plane manages: nodes, pods and services.
    Cluster,
}

/// One way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressSelection {
    /// The destination.
    pub kind: Kind,
    /// The connection type.
    pub way: Way,
}

/// How connections are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// A direct connection.
    Direct,
    /// Through a proxy with `CONNECT` (RFC 9110, 9.3.6).
    HttpConnect(Transport),
    /// Through a konnectivity server that listens on a Unix socket.
    Grpc(PathBuf),
}

/// How a proxy is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// At a host and port, over TLS where there are certificates.
    Tcp {
        /// An address or a host's name.
        host: String,
        /// TCP port.
        port: u16,
        /// Without, it is spoken in the clear.
        tls: Option<Certificates>,
    },
    /// At a Unix socket.
    Unix(PathBuf),
}

/// PEM files for a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificates {
    /// The authority of the proxy's certificate; those of the machine unless given.
    pub authority: Option<PathBuf>,
    /// The client certificate for the proxy.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The name that the proxy must prove, if that is not its host.
    pub server_name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct EgressFile {
    /// The selections; an absent list is empty.
    egress_selections: Option<Vec<SelectionFile>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SelectionFile {
    name: String,
    connection: ConnectionFile,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct ConnectionFile {
    proxy_protocol: String,
    transport: Option<TransportFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TransportFile {
    tcp: Option<TcpFile>,
    uds: Option<UdsFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct TcpFile {
    url: String,
    tls_config: Option<TlsFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct UdsFile {
    uds_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct TlsFile {
    ca_bundle: String,
    client_key: String,
    client_cert: String,
    tls_server_name: String,
}

/// The kinds by their names.
const KINDS: [(&str, Kind); 3] = [
    ("cluster", Kind::Cluster),
    ("controlplane", Kind::ControlPlane),
    ("etcd", Kind::Etcd),
];
const PROTOCOLS: [&str; 3] = ["Direct", "HTTPConnect", "GRPC"];
/// The path in kube-apiserver's errors, for every selection.
const PATH: &str = "service.connection";

/// Reads and checks a file; `exists` tells whether there is a file of a name.
///
/// # Errors
/// The invalid field, in kube-apiserver's words.
pub fn parse(
    text: &[u8],
    exists: impl Fn(&Path) -> bool,
) -> Result<Vec<EgressSelection>, ConfigurationError> {
    let file: EgressFile = super::read_of(
        text,
        "EgressSelectorConfiguration",
        "apiserver.k8s.io",
        &["v1beta1", "v1alpha1"],
    )?;
    let mut problems = Problems::default();
    let selections = file.egress_selections.unwrap_or_default();
    let ways: Vec<Option<Way>> = selections
        .iter()
        .map(|one| way(&one.connection, &exists, &mut problems))
        .collect();
    let mut all: Vec<EgressSelection> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (at, (one, way)) in selections.iter().zip(ways).enumerate() {
        let name = one.name.to_lowercase();
        if !seen.insert(name.clone()) {
            problems.duplicate(&format!("{PATH}[{at}]"), &name);
            continue;
        }
        let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == name) else {
            problems.unsupported(PATH, &name, &KINDS.map(|(known, _)| known));
            continue;
        };
        all.extend(way.map(|way| EgressSelection { kind: *kind, way }));
    }
    problems.none().map(|()| all)
}

impl Kind {
    /// Its name in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ControlPlane => "controlplane",
            Self::Etcd => "etcd",
            Self::Cluster => "cluster",
        }
    }

    /// Parses an issuer's `egressSelectorType`; `None` is a direct connection, whatever
    /// is configured for other connections.
    pub(super) fn of_issuer(text: &str) -> Option<Self> {
        match text {
            "controlplane" => Some(Self::ControlPlane),
            "cluster" => Some(Self::Cluster),
            _ => None,
        }
    }
}

fn way(
    file: &ConnectionFile,
    exists: &dyn Fn(&Path) -> bool,
    problems: &mut Problems,
) -> Option<Way> {
    let transport = format!("{PATH}.transport");
    match (file.proxy_protocol.as_str(), &file.transport) {
        ("Direct", None) => Some(Way::Direct),
        ("Direct", Some(_)) => {
            problems.invalid(
                &transport,
                "direct",
                "config must be absent for direct connect",
            );
            None
        }
        ("HTTPConnect", None) => {
            problems.required(&transport, "transport must be set for HTTPConnect");
            None
        }
        ("HTTPConnect", Some(to)) => to_proxy(to, exists, problems).map(Way::HttpConnect),
        ("GRPC", None) => {
            problems.required(&transport, "transport must be set for GRPC");
            None
        }
        ("GRPC", Some(TransportFile { uds: None, .. })) => {
            problems.required(&format!("{PATH}.uds"), "UDS must be set with GRPC");
            None
        }
        ("GRPC", Some(TransportFile { uds: Some(uds), .. })) => {
            socket(uds, problems).map(Way::Grpc)
        }
        (other, _) => {
            problems.unsupported(&format!("{PATH}.protocol"), other, &PROTOCOLS);
            None
        }
    }
}

fn to_proxy(
    file: &TransportFile,
    exists: &dyn Fn(&Path) -> bool,
    problems: &mut Problems,
) -> Option<Transport> {
    let path = format!("{PATH}.tcp");
    match (&file.tcp, &file.uds) {
        (Some(tcp), Some(_)) => {
            problems.invalid(&path, &tcp.url, "TCP and UDS cannot both be set");
            None
        }
        (None, None) => {
            problems.required(&path, "One of TCP or UDS must be set");
            None
        }
        (Some(tcp), None) => self::tcp(tcp, exists, problems),
        (None, Some(uds)) => socket(uds, problems).map(Transport::Unix),
    }
}

fn socket(file: &UdsFile, problems: &mut Problems) -> Option<PathBuf> {
    if file.uds_name.is_empty() {
        let path = format!("{PATH}.udsName");
        problems.invalid(&path, "nil", "must be present for UDS connections");
        return None;
    }
    Some(PathBuf::from(&file.uds_name))
}

fn tcp(
    file: &TcpFile,
    exists: &dyn Fn(&Path) -> bool,
    problems: &mut Problems,
) -> Option<Transport> {
    let url = format!("{PATH}.url");
    let (tls, usual) = if file.url.starts_with("http://") {
        if file.tls_config.is_some() {
            let why = "config must not be present when using HTTP";
            problems.invalid(&format!("{PATH}.tlsConfig"), "nil", why);
            return None;
        }
        (None, 80)
    } else if file.url.starts_with("https://") {
        (
            Some(certificates(file.tls_config.as_ref(), exists, problems)?),
            443,
        )
    } else {
        let why = "supported connection protocols are http:// and https://";
        problems.invalid(&url, &file.url, why);
        return None;
    };
    let Some((host, port)) = place(&file.url, usual) else {
        problems.invalid(&url, &file.url, "it names no host and port");
        return None;
    };
    Some(Transport::Tcp { host, port, tls })
}

/// Host and port of a URL; the port that is `usual` where it names none.
fn place(url: &str, usual: u16) -> Option<(String, u16)> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok()?,
        None if port.is_empty() => usual,
        None => return None,
    };
    (!host.is_empty() && !host.contains('@')).then(|| (host.to_owned(), port))
}

fn certificates(
    file: Option<&TlsFile>,
    exists: &dyn Fn(&Path) -> bool,
    problems: &mut Problems,
) -> Option<Certificates> {
    let path = format!("{PATH}.tlsConfig");
    let Some(file) = file else {
        problems.required(&path, "TLSConfig must be present when using HTTPS");
        return None;
    };
    let before = problems.0.len();
    let mut check = |field: &str, name: &str, missing: Option<&str>, gone: &str| {
        let path = format!("{path}.{field}");
        match missing {
            Some(why) if name.is_empty() => problems.invalid(&path, "nil", why),
            _ if !name.is_empty() && !exists(Path::new(name)) => {
                problems.invalid(&path, name, gone);
            }
            _ => {}
        }
    };
    check(
        "caBundle",
        &file.ca_bundle,
        None,
        "TLS config ca bundle does not exist",
    );
    check(
        "clientCert",
        &file.client_cert,
        Some("Using TLS requires clientCert"),
        "TLS client cert does not exist",
    );
    check(
        "clientKey",
        &file.client_key,
        Some("Using TLS requires requires clientKey"),
        "TLS client key does not exist",
    );
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    (problems.0.len() == before).then(|| Certificates {
        authority: given(&file.ca_bundle).map(PathBuf::from),
        certificate: PathBuf::from(&file.client_cert),
        key: PathBuf::from(&file.client_key),
        server_name: given(&file.tls_server_name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n";

    fn read(selections: &str) -> Result<Vec<EgressSelection>, String> {
        let text = format!("{HEAD}{selections}");
        parse(text.as_bytes(), |path| !path.starts_with("/nowhere"))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn each_kind_has_a_way_of_its_own() {
        let text = "
- {name: Cluster, connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: 'https://[::1]:8131', tlsConfig: {caBundle: /ca, clientCert: /c, clientKey: /k, tlsServerName: p}}}}}
- {name: controlplane, connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: /s}}}}
- {name: etcd, connection: {proxyProtocol: Direct}}
";
        let tls = Certificates {
            authority: Some("/ca".into()),
            certificate: "/c".into(),
            key: "/k".into(),
            server_name: Some("p".to_owned()),
        };
        let expected = [
            (
                Kind::Cluster,
                Way::HttpConnect(Transport::Tcp {
                    host: "::1".to_owned(),
                    port: 8131,
                    tls: Some(tls),
                }),
            ),
            (
                Kind::ControlPlane,
                Way::HttpConnect(Transport::Unix("/s".into())),
            ),
            (Kind::Etcd, Way::Direct),
        ];
        let expected = expected.map(|(kind, way)| EgressSelection { kind, way });
        assert_eq!(read(text), Ok(expected.to_vec()));
        let grpc =
            "- {name: cluster, connection: {proxyProtocol: GRPC, transport: {uds: {udsName: /s}}}}";
        assert_eq!(read(grpc).expect("right")[0].way, Way::Grpc("/s".into()));
        let plain = "- {name: cluster, connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://p'}}}}";
        let way = Way::HttpConnect(Transport::Tcp {
            host: "p".to_owned(),
            port: 80,
            tls: None,
        });
        assert_eq!(read(plain).expect("right")[0].way, way);
        assert_eq!(read("").map(|all| all.len()), Ok(0));
    }

    #[test]
    fn what_is_wrong_is_told_in_the_words_of_stock() {
        let connection = |text: &str| format!("- {{name: cluster, connection: {{{text}}}}}");
        let https = |tls: &str| {
            connection(&format!(
                "proxyProtocol: HTTPConnect, transport: {{tcp: {{url: 'https://p:1'{tls}}}}}"
            ))
        };
        for (text, why) in [
            (
                "- {name: master, connection: {proxyProtocol: Direct}}".to_owned(),
                r#"service.connection: Unsupported value: "master": supported values: "cluster", "controlplane", "etcd""#,
            ),
            (
                "- {name: etcd, connection: {proxyProtocol: Direct}}\n- {name: ETCD, connection: {proxyProtocol: Direct}}".to_owned(),
                r#"service.connection[1]: Duplicate value: "etcd""#,
            ),
            (
                connection("proxyProtocol: SOCKS"),
                r#"service.connection.protocol: Unsupported value: "SOCKS": supported values: "Direct", "HTTPConnect", "GRPC""#,
            ),
            (
                connection("proxyProtocol: Direct, transport: {}"),
                r#"service.connection.transport: Invalid value: "direct": config must be absent for direct connect"#,
            ),
            (
                connection("proxyProtocol: HTTPConnect"),
                "service.connection.transport: Required value: transport must be set for HTTPConnect",
            ),
            (
                connection("proxyProtocol: HTTPConnect, transport: {}"),
                "service.connection.tcp: Required value: One of TCP or UDS must be set",
            ),
            (
                connection("proxyProtocol: HTTPConnect, transport: {uds: {}}"),
                r#"service.connection.udsName: Invalid value: "nil": must be present for UDS connections"#,
            ),
            (
                connection("proxyProtocol: GRPC, transport: {tcp: {url: 'https://p'}}"),
                "service.connection.uds: Required value: UDS must be set with GRPC",
            ),
            (
                connection("proxyProtocol: HTTPConnect, transport: {tcp: {url: 'p:1'}}"),
                r#"service.connection.url: Invalid value: "p:1": supported connection protocols are http:// and https://"#,
            ),
            (
                connection("proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://p:1', tlsConfig: {}}}"),
                r#"service.connection.tlsConfig: Invalid value: "nil": config must not be present when using HTTP"#,
            ),
            (
                connection("proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://p:x'}}"),
                r#"service.connection.url: Invalid value: "http://p:x": it names no host and port"#,
            ),
            (
                https(""),
                "service.connection.tlsConfig: Required value: TLSConfig must be present when using HTTPS",
            ),
            (
                https(", tlsConfig: {clientCert: /nowhere/c, clientKey: /k}"),
                r#"service.connection.tlsConfig.clientCert: Invalid value: "/nowhere/c": TLS client cert does not exist"#,
            ),
            (
                https(", tlsConfig: {clientCert: /c}"),
                r#"service.connection.tlsConfig.clientKey: Invalid value: "nil": Using TLS requires requires clientKey"#,
            ),
        ] {
            assert_eq!(read(&text), Err(why.to_owned()), "{text}");
        }
        for text in [
            "- {name: etcd, connection: {proxyProtocol: Direct, x: 1}}",
            "- 1",
            "{",
        ] {
            let why = read(text).expect_err(text);
            assert!(why.starts_with("the configuration cannot be read"), "{why}");
        }
        let other = b"apiVersion: apiserver.config.k8s.io/v1\nkind: EgressSelectorConfiguration\n";
        let why = parse(other, |_| true)
            .expect_err("another group")
            .to_string();
        assert!(
            why.contains("expected apiVersion apiserver.k8s.io/v1beta1"),
            "{why}"
        );
    }
}
