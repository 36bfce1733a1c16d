//! Fragments: only the first carries ports (RFC 791, RFC 8200 section 4.5).

use ebpf_abi::{ChecksummedValue, FragmentKey, FragmentPorts};

use super::{Headers, Work};
use crate::maps::Flows;

/// Keeps the ports of a first fragment that belongs to a service.
#[inline(always)]
pub(super) fn keep<M: Flows>(maps: &M, work: &Work) {
    let key = key(&work.headers);
    let tuple = &work.headers.tuple;
    let ports = FragmentPorts::new(tuple.source_port, tuple.destination_port);
    maps.keep_fragment(&key, &ChecksummedValue::new(&key, ports));
}

/// Gives a later fragment the ports of its first; false if that was not seen,
/// or belongs to no service.
#[inline(always)]
pub(super) fn recall<M: Flows>(maps: &M, work: &mut Work) -> bool {
    let key = key(&work.headers);
    let Some(ports) = maps.fragment(&key).and_then(|sealed| sealed.open(&key)) else {
        return false;
    };
    work.headers.tuple.source_port = ports.source_port;
    work.headers.tuple.destination_port = ports.destination_port;
    true
}

#[inline(always)]
fn key(headers: &Headers) -> FragmentKey {
    let tuple = &headers.tuple;
    FragmentKey::new(
        tuple.source,
        tuple.destination,
        headers.identification,
        tuple.protocol,
    )
}
