//! IP addresses and CIDR ranges as fields of the API hold them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::{Errors, Path, quoted};

/// Reads an address as old clients wrote it: leading zeros are allowed in `IPv4`.
pub(crate) fn parse_sloppy(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Some(unmap(IpAddr::V6(address)));
        }
        let (head, tail) = text.rsplit_once(':')?;
        let tail = parse_v4(tail)?;
        return format!("{head}:{tail}")
            .parse::<Ipv6Addr>()
            .ok()
            .map(|a| unmap(IpAddr::V6(a)));
    }
    parse_v4(text).map(IpAddr::V4)
}

fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *octet = part
            .trim_start_matches('0')
            .parse()
            .ok()
            .or((!part.contains(|c| c != '0')).then_some(0))?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

/// Go treats an `IPv4` address in `IPv6` clothes as the `IPv4` address.
fn unmap(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        v4 @ IpAddr::V4(_) => v4,
    }
}

fn is_mapped(text: &str) -> bool {
    text.parse::<Ipv6Addr>()
        .is_ok_and(|a| a.to_ipv4_mapped().is_some())
}

fn parse(text: &str, at: &Path<'_>, errors: &mut Errors) -> Option<IpAddr> {
    let Some(address) = parse_sloppy(text) else {
        errors.invalid(
            at,
            text,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        );
        return None;
    };
    let mut right = true;
    if text.parse::<IpAddr>().is_err() {
        errors.invalid(at, text, "must not have leading 0s");
        right = false;
    }
    if is_mapped(text) {
        errors.invalid(at, text, "must not be an IPv4-mapped IPv6 address");
        right = false;
    }
    right.then_some(address)
}

/// Validates an address in a field that is older than the strict rules: existing values
/// may stay.
pub(crate) fn legacy(text: &str, known: &[&str], at: &Path<'_>, errors: &mut Errors) -> bool {
    known.contains(&text) || parse(text, at, errors).is_some()
}

/// An address in its canonical form.
pub(crate) fn canonical(text: &str, at: &Path<'_>, errors: &mut Errors) {
    if let Some(address) = parse(text, at, errors) {
        let form = address.to_string();
        if form != text {
            errors.invalid(
                at,
                text,
                format!("must be in canonical form ({})", quoted(&form)),
            );
        }
    }
}

/// A range as old clients wrote it: address bits beyond the prefix are dropped.
pub(crate) fn parse_cidr_sloppy(text: &str) -> Option<ipnet::IpNet> {
    let (address, prefix) = text.split_once('/')?;
    let mapped = address.contains(':');
    let address = parse_sloppy(address)?;
    if prefix.is_empty() || prefix.len() > 4 || !prefix.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut prefix: u8 = prefix.parse().ok()?;
    if mapped && address.is_ipv4() {
        prefix = prefix.checked_sub(96)?;
    }
    ipnet::IpNet::new(address, prefix)
        .ok()
        .map(|net| net.trunc())
}

fn cidr(text: &str, at: &Path<'_>, errors: &mut Errors) -> Option<ipnet::IpNet> {
    let Some(net) = parse_cidr_sloppy(text) else {
        errors.invalid(
            at,
            text,
            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        );
        return None;
    };
    let (address, prefix) = text.split_once('/')?;
    let leading = prefix.len() > 1 && prefix.starts_with('0');
    let detail = if address.parse::<IpAddr>().is_err() || leading {
        "must not have leading 0s in IP or prefix length"
    } else if is_mapped(address) {
        "must not have an IPv4-mapped IPv6 address"
    } else if address.parse::<IpAddr>() != Ok(net.addr()) {
        "must not have bits set beyond the prefix length"
    } else {
        return Some(net);
    };
    errors.invalid(at, text, detail);
    None
}

/// A range in a field that is older than the strict rules.
pub(crate) fn legacy_cidr(text: &str, known: &[&str], at: &Path<'_>, errors: &mut Errors) {
    if !known.contains(&text) {
        let _ = cidr(text, at, errors);
    }
}

/// A range in its canonical form.
pub(crate) fn canonical_cidr(text: &str, at: &Path<'_>, errors: &mut Errors) {
    if let Some(net) = cidr(text, at, errors) {
        let form = net.to_string();
        if form != text {
            let form = quoted(&form);
            errors.invalid(at, text, format!("must be in canonical form ({form})"));
        }
    }
}

/// An address with the length of its prefix, in canonical form.
pub(crate) fn interface_address(text: &str, at: &Path<'_>, errors: &mut Errors) {
    let given = parse_cidr_sloppy(text).zip(
        text.split_once('/')
            .and_then(|(address, _)| parse_sloppy(address)),
    );
    let Some((net, address)) = given else {
        errors.invalid(
            at,
            text,
            "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)",
        );
        return;
    };
    let form = format!("{address}/{}", net.prefix_len());
    if form != text {
        errors.invalid(
            at,
            text,
            format!("must be in canonical form ({})", quoted(&form)),
        );
    }
}

/// Warnings for a range that is accepted but oddly written.
pub(crate) fn cidr_warnings(at: &Path<'_>, text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let Some(net) = parse_cidr_sloppy(text) else {
        return out;
    };
    let Some((address, prefix)) = text.split_once('/') else {
        return out;
    };
    let form = quoted(&net.to_string());
    let shown = quoted(text);
    if let Some(address) = parse_sloppy(address).filter(|address| *address != net.addr()) {
        let single = quoted(&format!("{address}/{}", net.max_prefix_len()));
        out.push(format!(
            "{at}: CIDR value {shown} is ambiguous in this context (should be {form} or {single}?)"
        ));
    }
    let leading = prefix.len() > 1 && prefix.starts_with('0');
    if address.parse::<IpAddr>().is_err() || leading || is_mapped(address) {
        out.push(format!(
            "{at}: non-standard CIDR value {shown} is invalid: use {form}"
        ));
    }
    if out.is_empty() && net.addr().is_ipv6() && net.to_string() != text {
        out.push(format!(
            "{at}: IPv6 CIDR value {shown} should be in RFC 5952 canonical format ({form})"
        ));
    }
    out
}

/// An address that a service may send traffic to.
pub(crate) fn endpoint(text: &str, at: &Path<'_>, errors: &mut Errors) {
    let Some(address) = parse_sloppy(text) else {
        errors.invalid(at, text, "must be a valid IP address");
        return;
    };
    if address.is_unspecified() {
        errors.invalid(at, text, format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        errors.invalid(
            at,
            text,
            "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        );
    }
    let (unicast, multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (
            v6.is_unicast_link_local(),
            v6.segments()[0] & 0xff0f == 0xff02,
        ),
    };
    if unicast {
        errors.invalid(
            at,
            text,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        );
    }
    if multicast {
        errors.invalid(
            at,
            text,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        );
    }
}

/// The warning for an address that is accepted but oddly written.
pub(crate) fn warning(at: &Path<'_>, text: &str) -> Option<String> {
    let address = parse_sloppy(text)?;
    if text.parse::<IpAddr>().is_err() || is_mapped(text) {
        return Some(format!(
            "{at}: non-standard IP address {} is invalid: use {}",
            quoted(text),
            quoted(&address.to_string())
        ));
    }
    let form = address.to_string();
    (address.is_ipv6() && form != text).then(|| {
        format!(
            "{at}: IPv6 address {} should be in RFC 5952 canonical format ({})",
            quoted(text),
            quoted(&form)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(check: impl Fn(&Path<'_>, &mut Errors)) -> Vec<String> {
        let mut errors = Errors::new();
        check(&Path::new("x"), &mut errors);
        errors.into_vec().iter().map(|e| e.detail.clone()).collect()
    }

    #[test]
    fn leading_zeros_are_read_and_refused() {
        assert_eq!(parse_sloppy("010.1.2.3"), Some(IpAddr::from([10, 1, 2, 3])));
        assert_eq!(
            errors(|at, e| _ = legacy("010.1.2.3", &[], at, e)),
            ["must not have leading 0s"]
        );
        assert!(errors(|at, e| _ = legacy("010.1.2.3", &["010.1.2.3"], at, e)).is_empty());
        assert_eq!(parse_sloppy("10.0.0.300"), None);
        assert_eq!(parse_sloppy("1.2.3"), None);
    }

    #[test]
    fn ranges_have_no_bits_beyond_their_prefix() {
        assert!(errors(|at, e| legacy_cidr("10.0.0.0/8", &[], at, e)).is_empty());
        assert_eq!(
            errors(|at, e| legacy_cidr("10.0.0.1/8", &[], at, e)),
            ["must not have bits set beyond the prefix length"]
        );
        assert_eq!(errors(|at, e| legacy_cidr("x", &[], at, e)).len(), 1);
    }

    #[test]
    fn endpoints_are_not_local() {
        assert_eq!(errors(|at, e| endpoint("127.0.0.1", at, e)).len(), 1);
        assert_eq!(errors(|at, e| endpoint("169.254.1.1", at, e)).len(), 1);
        assert!(errors(|at, e| endpoint("10.0.0.1", at, e)).is_empty());
    }
}
