//! The contents of the zone: pure.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use control_client::{Object, Snapshot};
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use node_agent_informers::{EndpointSlice, Service, ServicePort};

/// Seconds that an answer may be kept. Short: endpoints come and go.
const TTL: u32 = 5;

/// The version of the specification that is implemented.
const VERSION: &str = "1.1.0";

/// The zone at one moment.
pub struct Zone {
    /// Its name, such as `cluster.local.`.
    pub origin: Name,
    /// The services.
    pub services: Snapshot<Service>,
    /// Their endpoints.
    pub slices: Snapshot<EndpointSlice>,
}

/// The answer to a query.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The zone knows.
    Zone {
        /// `NoError` or `NXDomain`.
        code: ResponseCode,
        /// The answer.
        answers: Vec<Record>,
        /// Addresses of the names in the answer.
        additionals: Vec<Record>,
        /// The zone's SOA, if there is no answer (RFC 2308).
        authority: Option<Record>,
    },
    /// It is another name for one outside of the zone.
    Alias {
        /// The alias record.
        record: Record,
        /// The other name.
        target: Name,
    },
    /// It is not ours.
    Elsewhere,
}

/// The records at a name.
#[derive(Default)]
struct FoundName {
    addresses: Vec<IpAddr>,
    /// Port, target, and the target's addresses.
    srv: Vec<(u16, Name, Vec<IpAddr>)>,
    other: Vec<RData>,
    alias: Option<Name>,
}

/// An endpoint of a headless service: its label, its addresses, its ports.
struct Host {
    label: String,
    addresses: Vec<IpAddr>,
    ports: Vec<ServicePort>,
}

impl Zone {
    /// Answers a question.
    #[must_use]
    pub fn answer(&self, name: &Name, kind: RecordType) -> Answer {
        if let Some(address) = reverse(name) {
            let targets = self.names_of(address);
            if targets.is_empty() {
                return Answer::Elsewhere;
            }
            let found = FoundName {
                other: targets
                    .into_iter()
                    .map(|name| RData::PTR(PTR(name)))
                    .collect(),
                ..FoundName::default()
            };
            return self.say(name, kind, found);
        }
        if !self.origin.zone_of(name) {
            return Answer::Elsewhere;
        }
        match self.find(name, kind) {
            Some(found) => self.say(name, kind, found),
            None => self.nothing(ResponseCode::NXDomain),
        }
    }

    /// Looks up a name within the zone; returns `None` if there is no such name. The
    /// result contains what a query of this type needs.
    fn find(&self, name: &Name, kind: RecordType) -> Option<FoundName> {
        let depth = usize::from(name.num_labels()) - usize::from(self.origin.num_labels());
        let labels: Vec<String> = name
            .iter()
            .take(depth)
            .map(|label| String::from_utf8_lossy(label).to_ascii_lowercase())
            .collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        match labels.as_slice() {
            [] => Some(FoundName {
                other: vec![
                    RData::SOA(self.soa()),
                    RData::NS(NS(self.below("ns.dns").unwrap_or_default())),
                ],
                ..FoundName::default()
            }),
            ["svc" | "pod"] => Some(FoundName::default()),
            ["dns-version"] => Some(FoundName {
                other: vec![RData::TXT(TXT::new(vec![VERSION.to_owned()]))],
                ..FoundName::default()
            }),
            [namespace, "svc"] => self
                .services
                .namespace(namespace)
                .next()
                .map(|_| FoundName::default()),
            [address, _, "pod"] => dashed(address).map(|address| FoundName {
                addresses: vec![address],
                ..FoundName::default()
            }),
            [service, namespace, "svc"] => self
                .services
                .get(namespace, service)
                .map(|service| self.service(service, kind)),
            [port, protocol, service, namespace, "svc"] => {
                let (port, protocol) = (port.strip_prefix('_')?, protocol.strip_prefix('_')?);
                let service = self.services.get(namespace, service)?;
                let srv = self.ports(service, |candidate| {
                    candidate.name.eq_ignore_ascii_case(port) && is_protocol(candidate, protocol)
                });
                (!srv.is_empty()).then(|| FoundName {
                    srv,
                    ..FoundName::default()
                })
            }
            [host, service, namespace, "svc"] => {
                let service = self.services.get(namespace, service)?;
                if let Some(protocol) = host.strip_prefix('_') {
                    // a name above those of ports
                    let mut ports = service.ports().iter();
                    let any = ports.any(|port| is_protocol(port, protocol));
                    return any.then(FoundName::default);
                }
                let hosts = self.hosts(service);
                let of_host = hosts
                    .into_iter()
                    .filter(|candidate| candidate.label == *host);
                let addresses: Vec<IpAddr> = of_host.flat_map(|host| host.addresses).collect();
                (!addresses.is_empty()).then(|| FoundName {
                    addresses,
                    ..FoundName::default()
                })
            }
            _ => None,
        }
    }

    fn service(&self, service: &Service, kind: RecordType) -> FoundName {
        if let Some(name) = service.external_name() {
            let mut alias = Name::from_str(name).ok();
            if let Some(alias) = &mut alias {
                alias.set_fqdn(true);
            }
            return FoundName {
                alias,
                ..FoundName::default()
            };
        }
        let addresses = if service.is_headless() {
            let hosts = self.hosts(service);
            let mut addresses: Vec<IpAddr> =
                hosts.into_iter().flat_map(|host| host.addresses).collect();
            addresses.sort();
            addresses.dedup();
            addresses
        } else {
            service.cluster_ips().collect()
        };
        // A name for each endpoint is much work, and most questions are for addresses.
        let srv = match kind {
            RecordType::SRV | RecordType::ANY => self.ports(service, |_| true),
            _ => Vec::new(),
        };
        FoundName {
            addresses,
            srv,
            ..FoundName::default()
        }
    }

    /// The SRV records of ports.
    fn ports(
        &self,
        service: &Service,
        wanted: impl Fn(&ServicePort) -> bool,
    ) -> Vec<(u16, Name, Vec<IpAddr>)> {
        let own = format!("{}.{}.svc", service.name(), service.namespace());
        let mut srv = Vec::new();
        if service.is_headless() {
            for host in self.hosts(service) {
                let Some(name) = self.below(&format!("{}.{own}", host.label)) else {
                    continue;
                };
                for port in host.ports.iter().filter(|port| wanted(port)) {
                    srv.push((port.port, name.clone(), host.addresses.clone()));
                }
            }
        } else if let Some(name) = self.below(&own) {
            for port in service.ports().iter().filter(|port| wanted(port)) {
                srv.push((port.port, name.clone(), service.cluster_ips().collect()));
            }
        }
        srv
    }

    /// The endpoints of a headless service that are ready.
    fn hosts(&self, service: &Service) -> Vec<Host> {
        if !service.is_headless() {
            return Vec::new();
        }
        let slices = self.slices.namespace(service.namespace());
        let mut hosts = Vec::new();
        for slice in slices.filter(|slice| slice.service() == Some(service.name())) {
            let ports = slice.ports();
            hosts.extend(slice.hosts().filter_map(|host| {
                let first = host.addresses.first()?;
                let label = match &host.hostname {
                    Some(hostname) => hostname.to_ascii_lowercase(),
                    None => first.to_string().replace(['.', ':'], "-"),
                };
                Some(Host {
                    label,
                    addresses: host.addresses.into_vec(),
                    ports: ports.clone(),
                })
            }));
        }
        hosts
    }

    /// The names of an address of a service or of a headless one's endpoint.
    fn names_of(&self, address: IpAddr) -> Vec<Name> {
        let mut names = Vec::new();
        for service in self.services.iter() {
            if service.cluster_ips().any(|known| known == address) {
                let name = format!("{}.{}.svc", service.name(), service.namespace());
                names.extend(self.below(&name));
            }
        }
        for slice in self.slices.iter().filter(|it| it.has_host_at(address)) {
            let service = slice.service();
            let service = service.and_then(|name| self.services.get(slice.namespace(), name));
            let Some(service) = service else {
                continue;
            };
            for host in self.hosts(service) {
                if host.addresses.contains(&address) {
                    let (name, namespace) = (service.name(), service.namespace());
                    names.extend(self.below(&format!("{}.{name}.{namespace}.svc", host.label)));
                }
            }
        }
        names.sort();
        names.dedup();
        names
    }

    /// The records of the kind asked for.
    fn say(&self, name: &Name, kind: RecordType, found: FoundName) -> Answer {
        let record = |data| Record::from_rdata(name.clone(), TTL, data);
        if let Some(target) = found.alias {
            let record = record(RData::CNAME(CNAME(target.clone())));
            if kind == RecordType::CNAME {
                return answered(vec![record], Vec::new());
            }
            // one more step at most: aliases of aliases end nowhere
            if self.origin.zone_of(&target) {
                let rest = self
                    .find(&target, kind)
                    .filter(|found| found.alias.is_none());
                let mut answers = vec![record];
                if let Some(rest) = rest
                    && let Answer::Zone { answers: more, .. } = self.say(&target, kind, rest)
                {
                    answers.extend(more);
                }
                return answered(answers, Vec::new());
            }
            return Answer::Alias { record, target };
        }
        let mut answers = Vec::new();
        let mut additionals = Vec::new();
        let mut named = HashSet::new();
        let any = kind == RecordType::ANY;
        for address in &found.addresses {
            let data = address_data(*address);
            if any || data.record_type() == kind {
                answers.push(record(data));
            }
        }
        if any || kind == RecordType::SRV {
            let share = u16::try_from(found.srv.len()).unwrap_or(u16::MAX).max(1);
            for (port, target, addresses) in &found.srv {
                let weight = (100 / share).max(1);
                let data = RData::SRV(SRV::new(0, weight, *port, target.clone()));
                answers.push(record(data));
                for address in addresses {
                    if named.insert((target, *address)) {
                        let data = address_data(*address);
                        additionals.push(Record::from_rdata(target.clone(), TTL, data));
                    }
                }
            }
        }
        for data in found.other {
            if any || data.record_type() == kind {
                answers.push(record(data));
            }
        }
        if answers.is_empty() {
            return self.nothing(ResponseCode::NoError);
        }
        answered(answers, additionals)
    }

    fn nothing(&self, code: ResponseCode) -> Answer {
        Answer::Zone {
            code,
            answers: Vec::new(),
            additionals: Vec::new(),
            authority: Some(Record::from_rdata(
                self.origin.clone(),
                TTL,
                RData::SOA(self.soa()),
            )),
        }
    }

    fn soa(&self) -> SOA {
        let name = |text| self.below(text).unwrap_or_default();
        SOA::new(
            name("ns.dns"),
            name("hostmaster"),
            1,
            7200,
            1800,
            86400,
            TTL,
        )
    }

    /// A name within the zone; `None` when it is none (labels too long).
    fn below(&self, name: &str) -> Option<Name> {
        Name::from_str(name).ok()?.append_domain(&self.origin).ok()
    }
}

fn is_protocol(port: &ServicePort, name: &str) -> bool {
    port.protocol.to_string().eq_ignore_ascii_case(name)
}

const fn answered(answers: Vec<Record>, additionals: Vec<Record>) -> Answer {
    Answer::Zone {
        code: ResponseCode::NoError,
        answers,
        additionals,
        authority: None,
    }
}

fn address_data(address: IpAddr) -> RData {
    match address {
        IpAddr::V4(address) => RData::A(A(address)),
        IpAddr::V6(address) => RData::AAAA(AAAA(address)),
    }
}

/// `10-1-2-3`, or `2001-db8--1`.
fn dashed(label: &str) -> Option<IpAddr> {
    let v4 = label.replace('-', ".").parse::<Ipv4Addr>().map(IpAddr::V4);
    v4.or_else(|_| label.replace('-', ":").parse::<Ipv6Addr>().map(IpAddr::V6))
        .ok()
}

/// The address of a name below `in-addr.arpa` or `ip6.arpa`.
fn reverse(name: &Name) -> Option<IpAddr> {
    let labels: Vec<String> = name
        .iter()
        .map(|label| String::from_utf8_lossy(label).to_ascii_lowercase())
        .collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    match labels.as_slice() {
        [d, c, b, a, "in-addr", "arpa"] => format!("{a}.{b}.{c}.{d}").parse().ok().map(IpAddr::V4),
        [nibbles @ .., "ip6", "arpa"] if nibbles.len() == 32 => {
            let mut bits = 0u128;
            for nibble in nibbles.iter().rev() {
                if nibble.len() != 1 {
                    return None;
                }
                bits = bits << 4 | u128::from_str_radix(nibble, 16).ok()?;
            }
            Some(IpAddr::V6(Ipv6Addr::from(bits)))
        }
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub(crate) fn zone() -> Zone {
        let service = |name: &str, spec: Value| -> Service {
            let object = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
            serde_json::from_value(object).unwrap()
        };
        let web = service(
            "web",
            json!({"type": "ClusterIP", "clusterIP": "10.96.0.20",
                "clusterIPs": ["10.96.0.20", "fd00::20"],
                "ports": [{"name": "http", "protocol": "TCP", "port": 80}]}),
        );
        let db = service(
            "db",
            json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"],
                "ports": [{"name": "sql", "port": 5432}]}),
        );
        let away = service(
            "away",
            json!({"type": "ExternalName", "externalName": "example.com"}),
        );
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {"name": "db-1", "namespace": "default",
                "labels": {"kubernetes.io/service-name": "db"}},
            "addressType": "IPv4",
            "ports": [{"name": "sql", "protocol": "TCP", "port": 5432}],
            "endpoints": [
                {"addresses": ["10.244.0.5"], "hostname": "db-0", "conditions": {"ready": true}},
                {"addresses": ["10.244.0.6"], "conditions": {}},
                {"addresses": ["10.244.0.7"], "conditions": {"ready": false}},
            ],
        }))
        .unwrap();
        Zone {
            origin: Name::from_str("cluster.local.").unwrap(),
            services: [web, db, away].into_iter().collect(),
            slices: [slice].into_iter().collect(),
        }
    }

    /// `code: answers [+ additionals]`
    fn ask(name: &str, kind: RecordType) -> String {
        match zone().answer(&Name::from_str(name).unwrap(), kind) {
            Answer::Zone {
                code,
                answers,
                additionals,
                authority,
            } => {
                assert_eq!(authority.is_some(), answers.is_empty());
                let list = |records: &[Record]| {
                    let texts = records.iter().map(|record| record.data.to_string());
                    texts.collect::<Vec<_>>().join(" | ")
                };
                let mut text = format!("{code:?}: {}", list(&answers));
                if !additionals.is_empty() {
                    text = format!("{text} + {}", list(&additionals));
                }
                text
            }
            Answer::Alias { target, .. } => format!("alias {target}"),
            Answer::Elsewhere => "elsewhere".to_owned(),
        }
    }

    #[test]
    fn a_service_has_its_cluster_addresses_whatever_the_case() {
        let name = "web.default.svc.cluster.local.";
        assert_eq!(ask(name, RecordType::A), "NoError: 10.96.0.20");
        assert_eq!(
            ask("WEB.Default.svc.CLUSTER.local.", RecordType::A),
            "NoError: 10.96.0.20"
        );
        assert_eq!(ask(name, RecordType::AAAA), "NoError: fd00::20");
        assert_eq!(ask(name, RecordType::MX), "NoError: ");
        assert_eq!(
            ask("_http._tcp.web.default.svc.cluster.local.", RecordType::SRV),
            "NoError: 0 100 80 web.default.svc.cluster.local. + 10.96.0.20 | fd00::20"
        );
    }

    #[test]
    fn a_headless_service_has_its_ready_endpoints_and_their_names() {
        let name = "db.default.svc.cluster.local.";
        assert_eq!(ask(name, RecordType::A), "NoError: 10.244.0.5 | 10.244.0.6");
        assert_eq!(ask(name, RecordType::AAAA), "NoError: ");
        assert_eq!(
            ask("db-0.db.default.svc.cluster.local.", RecordType::A),
            "NoError: 10.244.0.5"
        );
        assert_eq!(
            ask("10-244-0-6.db.default.svc.cluster.local.", RecordType::A),
            "NoError: 10.244.0.6"
        );
        assert_eq!(
            ask("_sql._tcp.db.default.svc.cluster.local.", RecordType::SRV),
            "NoError: 0 50 5432 db-0.db.default.svc.cluster.local. | \
             0 50 5432 10-244-0-6.db.default.svc.cluster.local. + 10.244.0.5 | 10.244.0.6"
        );
    }

    #[test]
    fn names_that_do_not_exist_are_told_from_names_without_such_records() {
        for missing in [
            "none.default.svc.cluster.local.",
            "web.other.svc.cluster.local.",
            "other.svc.cluster.local.",
            "db-9.db.default.svc.cluster.local.",
            "_none._tcp.web.default.svc.cluster.local.",
            "words.default.pod.cluster.local.",
            "nothing.cluster.local.",
        ] {
            assert_eq!(ask(missing, RecordType::A), "NXDomain: ", "{missing}");
        }
        for there in [
            "svc.cluster.local.",
            "default.svc.cluster.local.",
            "cluster.local.",
        ] {
            assert_eq!(ask(there, RecordType::A), "NoError: ", "{there}");
        }
    }

    #[test]
    fn pods_aliases_versions_and_reverse_names_are_known() {
        assert_eq!(
            ask("10-1-2-3.default.pod.cluster.local.", RecordType::A),
            "NoError: 10.1.2.3"
        );
        assert_eq!(
            ask("away.default.svc.cluster.local.", RecordType::A),
            "alias example.com."
        );
        assert_eq!(
            ask("away.default.svc.cluster.local.", RecordType::CNAME),
            "NoError: example.com."
        );
        assert_eq!(
            ask("dns-version.cluster.local.", RecordType::TXT),
            "NoError: 1.1.0"
        );
        assert_eq!(
            ask("20.0.96.10.in-addr.arpa.", RecordType::PTR),
            "NoError: web.default.svc.cluster.local."
        );
        assert_eq!(
            ask("5.0.244.10.in-addr.arpa.", RecordType::PTR),
            "NoError: db-0.db.default.svc.cluster.local."
        );
        assert_eq!(
            ask(
                "0.2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.",
                RecordType::PTR
            ),
            "NoError: web.default.svc.cluster.local."
        );
        assert_eq!(ask("1.1.1.1.in-addr.arpa.", RecordType::PTR), "elsewhere");
        assert_eq!(ask("example.com.", RecordType::A), "elsewhere");
    }
}
