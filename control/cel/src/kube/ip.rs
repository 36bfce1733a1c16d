//! `ip('10.0.0.1')` and `cidr('10.0.0.0/8')`. Addresses with a zone and IPv4
//! addresses within IPv6 are refused.

use std::net::{IpAddr, Ipv6Addr};

use crate::run::encoding::quoted;
use crate::run::meter::Meter;
use crate::run::{Error, Val};

type Result<'a> = std::result::Result<Val<'a>, Error>;

fn address_of(text: &str) -> std::result::Result<IpAddr, Error> {
    if let Some((address, zone)) = text.split_once('%')
        && !zone.is_empty()
        && address.parse::<Ipv6Addr>().is_ok()
    {
        return Err(Error::failed(format!(
            "IP address {} with zone value is not allowed",
            quoted(text)
        )));
    }
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => Err(Error::failed(
            format!("IPv4-mapped IPv6 address {} is not allowed", quoted(text)),
        )),
        Ok(address) => Ok(address),
        Err(_) => Err(Error::failed(format!(
            "IP Address {0} parse error during conversion from string: ParseAddr({0}): {1}",
            quoted(text),
            why_no_address(text)
        ))),
    }
}

/// Returns why text is not an address, in Go's words.
fn why_no_address(text: &str) -> &'static str {
    let first = text.find(['.', ':', '%']).and_then(|at| text.get(at..));
    if !first.is_some_and(|rest| rest.starts_with('.')) {
        return "unable to parse IP";
    }
    let parts: Vec<&str> = text.split('.').collect();
    for (i, part) in parts.iter().enumerate() {
        if !part.bytes().all(|c| c.is_ascii_digit()) {
            return "unexpected character";
        }
        if part.is_empty() {
            return "IPv4 field must have at least one digit";
        }
        if part.len() > 1 && part.starts_with('0') {
            return "IPv4 field has octet with leading zero";
        }
        if part.parse::<u8>().is_err() {
            return "IPv4 field has value >255";
        }
        if i == 4 {
            return "IPv4 address too long";
        }
    }
    "IPv4 address too short"
}

fn network_of(text: &str) -> std::result::Result<(IpAddr, u8), Error> {
    let wrong = |why: &str| {
        Error::failed(format!(
            "network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix({}): {why}",
            quoted(text)
        ))
    };
    let (address, bits) = text.rsplit_once('/').ok_or_else(|| wrong("no '/'"))?;
    let address: IpAddr = address.parse().map_err(|_| {
        wrong(&format!(
            "ParseAddr({}): unable to parse IP",
            quoted(address)
        ))
    })?;
    let digits = !bits.is_empty() && bits.bytes().all(|c| c.is_ascii_digit());
    if !digits || (bits.len() > 1 && bits.starts_with('0')) {
        return Err(wrong(&format!("bad bits after slash: {}", quoted(bits))));
    }
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits
        .parse::<u8>()
        .ok()
        .filter(|bits| *bits <= most)
        .ok_or_else(|| wrong("prefix length out of range"))?;
    if let IpAddr::V6(inner) = address
        && inner.to_ipv4_mapped().is_some()
    {
        return Err(Error::failed(format!(
            "network address parse error during conversion from string: IPv4-mapped IPv6 address {} is not allowed",
            quoted(text)
        )));
    }
    Ok((address, bits))
}

pub(crate) fn parse<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Text(text)] => address_of(text).map(Val::Ip),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn parse_cidr<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Text(text)] => network_of(text).map(|(address, bits)| Val::Cidr(address, bits)),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn is_ip<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Text(text)] => Ok(Val::Bool(address_of(text).is_ok())),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn is_cidr<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Text(text)] => Ok(Val::Bool(network_of(text).is_ok())),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn is_canonical<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Text(text)] => Ok(Val::Bool(address_of(text)?.to_string() == **text)),
        _ => Err(Error::NoSuchOverload),
    }
}

macro_rules! properties {
    ($($name:ident = $get:expr;)*) => {$(
        pub(crate) fn $name<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
            match args {
                [Val::Ip(address)] => {
                    let get: fn(IpAddr) -> bool = $get;
                    Ok(Val::Bool(get(*address)))
                }
                _ => Err(Error::NoSuchOverload),
            }
        }
    )*};
}
properties! {
    is_unspecified = |ip| ip.is_unspecified();
    is_loopback = |ip| ip.is_loopback();
    is_link_local_multicast = |ip| match ip {
        IpAddr::V4(ip) => matches!(ip.octets(), [224, 0, 0, _]),
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    };
    is_link_local_unicast = link_local;
    // global unicast: includes private addresses
    is_global_unicast = |ip| {
        let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        !(broadcast || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || link_local(ip))
    };
}

fn link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

pub(crate) fn family<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Ip(address)] => Ok(Val::Int(if address.is_ipv4() { 4 } else { 6 })),
        _ => Err(Error::NoSuchOverload),
    }
}

/// An address with all but its first bits cleared.
fn mask(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX
                .checked_shl(32 - u32::from(bits.min(32)))
                .unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX
                .checked_shl(128 - u32::from(bits.min(128)))
                .unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

fn contains(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    network.is_ipv4() == address.is_ipv4() && mask(network, bits) == mask(address, bits)
}

pub(crate) fn contains_ip<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let (network, bits, address) = match args {
        [Val::Cidr(network, bits), Val::Ip(address)] => (network, bits, *address),
        [Val::Cidr(network, bits), Val::Text(text)] => {
            // an invalid address is not an argument
            let address = address_of(text).map_err(|_| Error::NoSuchOverload)?;
            (network, bits, address)
        }
        _ => return Err(Error::NoSuchOverload),
    };
    Ok(Val::Bool(contains(*network, *bits, address)))
}

pub(crate) fn contains_cidr<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let (network, bits, (inner, inner_bits)) = match args {
        [Val::Cidr(network, bits), Val::Cidr(inner, inner_bits)] => {
            (network, bits, (*inner, *inner_bits))
        }
        [Val::Cidr(network, bits), Val::Text(text)] => (network, bits, network_of(text)?),
        _ => return Err(Error::NoSuchOverload),
    };
    Ok(Val::Bool(
        *bits <= inner_bits && contains(*network, *bits, inner),
    ))
}

pub(crate) fn address<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Cidr(address, _)] => Ok(Val::Ip(*address)),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn masked<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Cidr(address, bits)] => Ok(Val::Cidr(mask(*address, *bits), *bits)),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn prefix_length<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Cidr(_, bits)] => Ok(Val::Int(i64::from(*bits))),
        _ => Err(Error::NoSuchOverload),
    }
}
