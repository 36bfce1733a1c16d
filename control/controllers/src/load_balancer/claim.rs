//! The address request of a Service.

use std::collections::BTreeSet;
use std::net::IpAddr;

use control_client::StringMap;
use control_load_balancer::{SHARING_KEY, WANTED_ADDRESSES, WANTED_POOL};

use super::allocate::AddressClaim;
use crate::views::Service;

impl AddressClaim {
    /// Reads the request of a Service in a namespace with these labels; `current` are its
    /// addresses.
    pub(super) fn from_service(
        service: &Service,
        namespace_labels: StringMap,
        current: Vec<IpAddr>,
    ) -> Self {
        let (meta, spec) = (&service.metadata, &service.spec);
        let annotation = |name: &str| meta.annotations.get(name).filter(|text| !text.is_empty());
        let has = |family: &str| spec.ip_families.iter().any(|f| f == family);
        let ipv6 = has("IPv6");
        let (requested, malformed) =
            match requested(annotation(WANTED_ADDRESSES), &spec.load_balancer_ip) {
                Ok(all) => (all, None),
                Err(error) => (Vec::new(), Some(error.to_string())),
            };
        Self {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            created: meta.creation_timestamp,
            labels: meta.labels.clone(),
            namespace_labels,
            // An old object may not say.
            ipv4: has("IPv4") || !ipv6,
            ipv6,
            all_families: spec.ip_family_policy.as_deref() == Some("RequireDualStack"),
            requested,
            malformed,
            pool: annotation(WANTED_POOL).map(Into::into),
            sharing: annotation(SHARING_KEY).map(Into::into),
            ports: spec
                .ports
                .iter()
                .map(|port| {
                    let protocol = if port.protocol.is_empty() {
                        "TCP".into()
                    } else {
                        port.protocol.clone()
                    };
                    (protocol, port.port)
                })
                .collect::<BTreeSet<_>>(),
            local: spec.external_traffic_policy == "Local",
            selector: spec.selector.clone(),
            current,
        }
    }
}

/// Error for a request for addresses that cannot be met by any pool.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error("`{text}` in the {place} is no IP address")]
    Address { text: String, place: &'static str },
    #[error(
        "the annotation orlop.dev/load-balancer-ips names two addresses of a family: a Service has one of each"
    )]
    Family,
    #[error(
        "spec.loadBalancerIP and the annotation orlop.dev/load-balancer-ips contradict each other: remove one"
    )]
    Contradiction,
}

/// Returns the requested addresses: by the annotation, by `spec.loadBalancerIP`, or by
/// both if they agree.
fn requested(annotation: Option<&str>, field: &str) -> Result<Vec<IpAddr>, RequestError> {
    let mut all: Vec<IpAddr> = Vec::new();
    for text in annotation.into_iter().flat_map(|text| text.split(',')) {
        let address = parse(text, "annotation orlop.dev/load-balancer-ips")?;
        if all.iter().any(|known| known.is_ipv4() == address.is_ipv4()) {
            return Err(RequestError::Family);
        }
        all.push(address);
    }
    if field.is_empty() {
        return Ok(all);
    }
    let address = parse(field, "field spec.loadBalancerIP")?;
    if all.is_empty() {
        all.push(address);
    } else if !all.contains(&address) {
        return Err(RequestError::Contradiction);
    }
    Ok(all)
}

fn parse(text: &str, place: &'static str) -> Result<IpAddr, RequestError> {
    let text = text.trim();
    text.parse().map_err(|_| RequestError::Address {
        text: text.to_owned(),
        place,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(object: serde_json::Value) -> AddressClaim {
        let service: Service = serde_json::from_value(object).unwrap();
        AddressClaim::from_service(&service, StringMap::default(), Vec::new())
    }

    #[test]
    fn all_that_a_service_can_ask_for_is_read() {
        let it = claim(serde_json::json!({
            "metadata": {"name": "a", "namespace": "d", "annotations": {
                "orlop.dev/load-balancer-ips": "10.0.0.1, fd00::1",
                "orlop.dev/ip-pool": "p", "orlop.dev/allow-shared-ip": "k"}},
            "spec": {"type": "LoadBalancer", "ipFamilies": ["IPv6", "IPv4"],
                "ipFamilyPolicy": "RequireDualStack", "loadBalancerIP": "fd00::1",
                "externalTrafficPolicy": "Local", "selector": {"app": "x"},
                "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}
        }));
        assert_eq!(it.malformed, None);
        assert_eq!(it.requested.len(), 2);
        assert!(it.ipv4 && it.ipv6 && it.all_families && it.local);
        assert_eq!(
            it.ports,
            BTreeSet::from([("TCP".into(), 80), ("UDP".into(), 53)])
        );
        assert_eq!(
            (it.pool.as_deref(), it.sharing.as_deref()),
            (Some("p"), Some("k"))
        );
    }

    #[test]
    fn contradictions_are_named() {
        let with = |annotation: &str, field: &str| {
            requested(Some(annotation), field).unwrap_err().to_string()
        };
        assert!(with("10.0.0.1,10.0.0.2", "").contains("two addresses"));
        assert!(with("10.0.0.1", "10.0.0.2").contains("contradict"));
        assert!(with("10.0.0.1,x", "").contains("`x`"));
        assert!(
            requested(None, "y")
                .unwrap_err()
                .to_string()
                .contains("spec.loadBalancerIP")
        );
        let null = claim(
            serde_json::json!({"metadata": {}, "spec": {"loadBalancerIP": null,
            "ports": null, "ipFamilies": null}}),
        );
        assert!(null.ipv4 && !null.ipv6 && null.requested.is_empty());
    }
}
