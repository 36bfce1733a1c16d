//! `DenyServiceExternalIPs`: no Service takes addresses that are not the cluster's
//! (CVE-2020-8554).

use std::net::IpAddr;

use control_types::value::Value;
use ipnet::IpNet;

use super::refusal::Refusal;
use crate::tree::Read;

/// Rejects new external addresses of a Service outside of the allowed ranges.
///
/// # Errors
/// When there are any.
pub fn check_external_ips(
    service: &Value,
    old: Option<&Value>,
    ranges: &[IpNet],
) -> Result<(), Refusal> {
    let addresses = |service: &Value| service.at("spec").items("externalIPs").to_vec();
    let before = old.map(addresses).unwrap_or_default();
    let is_in_ranges = |address: &Value| {
        let address = address.as_text().parse::<IpAddr>();
        address.is_ok_and(|address| ranges.iter().any(|range| range.contains(&address)))
    };
    let mut now = addresses(service).into_iter();
    if now.all(|one| before.contains(&one) || is_in_ranges(&one)) {
        return Ok(());
    }
    Err("Use of external IPs is denied by admission control".into())
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn addresses_may_stay_and_go_but_not_come() {
        let none = value!({"spec": {}});
        let one = value!({"spec": {"externalIPs": ["1.1.1.1"]}});
        let two = value!({"spec": {"externalIPs": ["2.2.2.2", "1.1.1.1"]}});
        for (new, old, allowed) in [
            (&none, None, true),
            (&one, None, false),
            (&one, Some(&two), true),
            (&two, Some(&one), false),
            (&none, Some(&one), true),
        ] {
            assert_eq!(
                check_external_ips(new, old, &[]).is_ok(),
                allowed,
                "{new:?} {old:?}"
            );
        }
        let ranges = ["2.2.2.0/24".parse().expect("a range")];
        assert!(check_external_ips(&two, Some(&one), &ranges).is_ok());
        assert!(check_external_ips(&two, None, &ranges).is_err());
    }
}
