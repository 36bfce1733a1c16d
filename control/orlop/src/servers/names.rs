//! The names and addresses in a server's certificate.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::address;
use crate::values::InvalidValue;

/// The names by which clients may call a server.
#[derive(Clone, Debug)]
pub struct ServerNames {
    /// The address that options give; that of the default route unless they do.
    pub advertised: Option<IpAddr>,
    /// The address on which the server listens.
    pub bind: IpAddr,
    /// Ranges of Service addresses: the first of each is the `kubernetes` Service's.
    pub service_ranges: Vec<IpNet>,
    /// Further names and addresses.
    pub further: Vec<String>,
}

// === impl ServerNames ===

impl ServerNames {
    /// Returns all names of a server at this address: its own, those of the `kubernetes`
    /// Service, and loopback.
    pub fn at(&self, advertised: IpAddr) -> Vec<String> {
        let mut names: Vec<String> = [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "localhost",
            "127.0.0.1",
            "::1",
        ]
        .map(str::to_owned)
        .into();
        for address in [advertised, self.bind] {
            if !address.is_unspecified() {
                names.push(address.to_string());
            }
        }
        let first = |range: &IpNet| range.hosts().next().map(|address| address.to_string());
        names.extend(self.service_ranges.iter().filter_map(first));
        names.extend(self.further.iter().cloned());
        names.sort();
        names.dedup();
        names
    }

    /// Returns the current names of the server; those of `before` while the machine has
    /// no route.
    pub fn now(&self, before: &[String]) -> Vec<String> {
        let found = match self.advertised {
            Some(address) => Some(address),
            None => address::of_default_route(self.bind).ok(),
        };
        found.map_or_else(|| before.to_vec(), |address| self.at(address))
    }
}

/// Reads a name or address for a certificate.
///
/// # Errors
/// A description of the expected value.
pub fn certificate_name(text: &str) -> Result<String, InvalidValue> {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let host = text.strip_prefix("*.").unwrap_or(text);
    let is_name = host.len() <= 253 && host.split('.').all(is_label);
    if text.parse::<IpAddr>().is_ok() || is_name {
        Ok(text.to_owned())
    } else {
        let way_out = "write a DNS name or an IP address";
        Err(InvalidValue::new(text, "name for a certificate", way_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> ServerNames {
        ServerNames {
            advertised: Some([10, 0, 0, 1].into()),
            bind: [0, 0, 0, 0].into(),
            service_ranges: vec!["10.96.0.0/16".parse().expect("a range")],
            further: vec!["api.example.com".to_owned(), "10.0.0.9".to_owned()],
        }
    }

    #[test]
    fn a_certificate_has_own_addresses_those_of_the_service_and_further_ones() {
        let all = names().at([10, 0, 0, 1].into());
        for name in [
            "10.0.0.1",
            "10.96.0.1",
            "api.example.com",
            "10.0.0.9",
            "kubernetes",
        ] {
            assert!(all.iter().any(|one| one == name), "{name} in {all:?}");
        }
        assert!(!all.contains(&"0.0.0.0".to_owned()));
        assert_eq!(names().now(&[]), all);
    }

    #[test]
    fn only_names_and_addresses_are_taken() {
        for good in [
            "a",
            "api.example.com",
            "*.example.com",
            "10.0.0.1",
            "fd00::1",
        ] {
            assert!(certificate_name(good).is_ok(), "{good}");
        }
        for bad in ["", "a b", "https://a", "a..b", "10.0.0.1:6443", "é"] {
            assert!(certificate_name(bad).is_err(), "{bad}");
        }
    }
}
