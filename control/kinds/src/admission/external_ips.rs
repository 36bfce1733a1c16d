//! `DenyServiceExternalIPs`: no Service takes addresses that are not the cluster's
//! (CVE-2020-8554).

use control_types::value::Value;

use super::Refusal;
use crate::tree::Read;

/// Refuses external addresses that a Service did not have before.
///
/// # Errors
/// When there are any.
pub fn check_external_ips(service: &Value, old: Option<&Value>) -> Result<(), Refusal> {
    let addresses = |service: &Value| service.at("spec").items("externalIPs").to_vec();
    let before = old.map(addresses).unwrap_or_default();
    if addresses(service).iter().all(|one| before.contains(one)) {
        return Ok(());
    }
    Err("Use of external IPs is denied by admission control".to_owned())
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
                check_external_ips(new, old).is_ok(),
                allowed,
                "{new:?} {old:?}"
            );
        }
    }
}
