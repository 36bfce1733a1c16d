//! The libraries that Kubernetes adds to the language.

pub(crate) mod format;
pub(crate) mod ip;
pub(crate) mod mutation;
pub(crate) mod quantity;
pub(crate) mod semver;
pub(crate) mod url;

use crate::run::native::Native;

/// The function called `name` in these libraries.
pub(crate) fn find(name: &str, method: bool) -> Option<Native> {
    Some(match (name, method) {
        ("quantity", false) => quantity::parse,
        ("isQuantity", false) => quantity::is,
        ("sign", _) => quantity::sign,
        ("isGreaterThan", _) => quantity::is_greater,
        ("isLessThan", _) => quantity::is_less,
        ("compareTo", _) => quantity::compare,
        ("asApproximateFloat", _) => quantity::as_float,
        ("asInteger", _) => quantity::as_integer,
        ("isInteger", _) => quantity::is_integer,
        ("add", _) => quantity::add,
        ("sub", _) => quantity::sub,
        ("url", false) => url::parse,
        ("isURL", false) => url::is,
        ("getScheme", _) => url::scheme,
        ("getHost", _) => url::host,
        ("getHostname", _) => url::hostname,
        ("getPort", _) => url::port,
        ("getEscapedPath", _) => url::escaped_path,
        ("getQuery", _) => url::query,
        ("ip", false) => ip::parse,
        ("ip.isCanonical", _) => ip::is_canonical,
        ("isIP", false) => ip::is_ip,
        ("family", _) => ip::family,
        ("isUnspecified", _) => ip::is_unspecified,
        ("isLoopback", _) => ip::is_loopback,
        ("isLinkLocalMulticast", _) => ip::is_link_local_multicast,
        ("isLinkLocalUnicast", _) => ip::is_link_local_unicast,
        ("isGlobalUnicast", _) => ip::is_global_unicast,
        ("cidr", false) => ip::parse_cidr,
        ("isCIDR", false) => ip::is_cidr,
        ("containsIP", _) => ip::contains_ip,
        ("containsCIDR", _) => ip::contains_cidr,
        ("ip", true) => ip::address,
        ("masked", _) => ip::masked,
        ("prefixLength", _) => ip::prefix_length,
        ("semver", false) => semver::parse,
        ("isSemver", false) => semver::is,
        ("major", _) => semver::major,
        ("minor", _) => semver::minor,
        ("patch", _) => semver::patch,
        ("format.named", _) => format::named,
        ("validate", _) => format::validate,
        ("jsonpatch.escapeKey", _) => mutation::escape_key,
        _ => return format::constant(name),
    })
}
