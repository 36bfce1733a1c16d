//! From which ranges services get their addresses: those of the ServiceCIDR
//! objects that are ready (KEP-1880).

use std::net::IpAddr;

use control_types::value::Value;
use ipnet::IpNet;

use crate::storage::Storage;

/// How often a free address or port is sought at random before all are tried.
pub(super) const TRIES: u32 = 64;

/// The ranges that may be given out from now; `first` are those that the server
/// was told at start, which are there before their object is.
pub(super) fn ready(storage: &Storage, first: &[IpNet]) -> Vec<IpNet> {
    let Ok(state) = storage
        .resource("networking.k8s.io", "servicecidrs")
        .and_then(|served| served.cache())
        .map(|cache| cache.state())
    else {
        return first.to_vec();
    };
    let objects: Vec<Value> = state
        .objects
        .iter()
        .filter_map(|object| object.value().ok())
        .collect();
    among(&objects, first)
}

fn among(objects: &[Value], first: &[IpNet]) -> Vec<IpNet> {
    let ranges_of = |object: &Value| -> Vec<IpNet> {
        object
            .items_at(&["spec", "cidrs"])
            .iter()
            .filter_map(|range| range.as_str()?.parse().ok())
            .collect()
    };
    let mut ranges: Vec<IpNet> = first
        .iter()
        .filter(|range| {
            // Not told yet, or told and ready.
            let told = objects
                .iter()
                .filter(|object| ranges_of(object).contains(range));
            let mut told = told.peekable();
            told.peek().is_none() || told.any(is_ready)
        })
        .copied()
        .collect();
    for object in objects.iter().filter(|object| is_ready(object)) {
        for range in ranges_of(object) {
            if !ranges.contains(&range) {
                ranges.push(range);
            }
        }
    }
    ranges
}

/// Whether new services may get addresses of a ServiceCIDR.
fn is_ready(object: &Value) -> bool {
    !control_types::meta::is_deleting(object)
        && object
            .items_at(&["status", "conditions"])
            .iter()
            .any(|condition| {
                condition.str_at(&["type"]) == Some("Ready")
                    && condition.str_at(&["status"]) == Some("True")
            })
}

/// Whether an address of a range may be a service's: not the network itself,
/// and of IPv4 not the broadcast address.
pub(super) fn has(range: &IpNet, address: IpAddr) -> bool {
    match (range, address) {
        (IpNet::V4(range), IpAddr::V4(address)) => {
            range.contains(&address) && address != range.network() && address != range.broadcast()
        }
        (IpNet::V6(range), IpAddr::V6(address)) => {
            range.contains(&address) && address != range.network()
        }
        _ => false,
    }
}

/// How many addresses of a range may be services', as far as that can be counted
/// and is worth it.
pub(super) fn size(range: &IpNet) -> u64 {
    let bits = range.max_prefix_len() - range.prefix_len();
    let all = 1_u64.checked_shl(bits.into()).unwrap_or(u64::MAX);
    all.saturating_sub(if range.addr().is_ipv4() { 2 } else { 1 })
}

/// How many addresses at the beginning of a range are left to services that ask
/// for certain ones (KEP-3070).
pub(super) fn band(range: &IpNet) -> u64 {
    const LEAST: u64 = 16;
    let bits = range.max_prefix_len() - range.prefix_len();
    let all = 1_u64.checked_shl(bits.into()).unwrap_or(u64::MAX);
    if all < LEAST {
        0
    } else {
        (all / 16).clamp(LEAST, 256)
    }
}

/// The nth address of a range; the network itself is the 0th.
pub(super) fn nth(range: &IpNet, at: u64) -> Option<IpAddr> {
    match range {
        IpNet::V4(range) => u32::from(range.network())
            .checked_add(u32::try_from(at).ok()?)
            .map(|address| IpAddr::V4(address.into())),
        IpNet::V6(range) => u128::from(range.network())
            .checked_add(u128::from(at))
            .map(|address| IpAddr::V6(address.into())),
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn range(text: &str) -> IpNet {
        text.parse().expect("a range")
    }

    fn object(cidr: &str, ready: &str) -> Value {
        value!({"spec": {"cidrs": [cidr]}, "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    }

    #[test]
    fn ranges_are_used_while_they_are_ready() {
        let first = [range("10.96.0.0/16")];
        assert_eq!(among(&[], &first), first);
        let more = [
            object("10.96.0.0/16", "True"),
            object("10.200.0.0/24", "True"),
            object("10.201.0.0/24", "False"),
        ];
        assert_eq!(
            among(&more, &first),
            [range("10.96.0.0/16"), range("10.200.0.0/24")]
        );
        assert_eq!(among(&[object("10.96.0.0/16", "False")], &first), []);
    }

    #[test]
    fn ends_of_a_range_are_nobody_s() {
        let v4 = range("10.0.0.0/24");
        let has = |range: &IpNet, text: &str| has(range, text.parse().expect("an address"));
        assert!(!has(&v4, "10.0.0.0") && !has(&v4, "10.0.0.255") && has(&v4, "10.0.0.254"));
        let v6 = range("fd00::/112");
        assert!(!has(&v6, "fd00::") && has(&v6, "fd00::ffff"));
    }

    #[test]
    fn bands_are_those_of_kep_3070() {
        for (text, wanted) in [
            ("10.0.0.0/28", 16),
            ("10.0.0.0/29", 0),
            ("10.0.0.0/24", 16),
            ("10.0.0.0/20", 256),
            ("10.0.0.0/16", 256),
            ("fd00::/64", 256),
        ] {
            assert_eq!(band(&range(text)), wanted, "{text}");
        }
    }
}
