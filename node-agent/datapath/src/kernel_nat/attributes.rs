//! Attributes of netfilter's netlink messages (`linux/netfilter/nfnetlink.h`): written,
//! and read back. Numbers in them are in network order.

/// The attribute holds others.
const NESTED: u16 = 1 << 15;
/// The bits of an attribute's type that say what it is.
const KIND: u16 = 0x3fff;
/// Bytes of an attribute's header.
const HEADER: usize = 4;

/// The family and the subsystem's number, with which each message begins
/// (`struct nfgenmsg`).
pub(super) fn header(family: u8, resource: u16) -> Vec<u8> {
    let [high, low] = resource.to_be_bytes();
    vec![family, 0, high, low]
}

/// Bytes of [`header`].
pub(super) const GENERIC: usize = 4;

/// Appends an attribute.
pub(super) fn put(message: &mut Vec<u8>, kind: u16, content: &[u8]) {
    let length = u16::try_from(HEADER + content.len()).unwrap_or(u16::MAX);
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(content);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Appends an attribute that holds what `fill` writes.
pub(super) fn nest(message: &mut Vec<u8>, kind: u16, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut content = Vec::new();
    fill(&mut content);
    put(message, kind | NESTED, &content);
}

/// Returns the content of the first attribute of a kind.
pub(super) fn get(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    let mut rest = attributes;
    loop {
        let head: [u8; HEADER] = rest.get(..HEADER)?.try_into().ok()?;
        let [a, b, c, d] = head;
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let content = rest.get(HEADER..length)?;
        if u16::from_ne_bytes([c, d]) & KIND == kind {
            return Some(content);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

/// Returns an attribute that holds a number of 32 bits.
pub(super) fn number(attributes: &[u8], kind: u16) -> Option<u32> {
    let content = get(attributes, kind)?;
    content.try_into().map(u32::from_be_bytes).ok()
}

/// Returns an attribute that holds a port.
pub(super) fn port(attributes: &[u8], kind: u16) -> Option<u16> {
    let content = get(attributes, kind)?;
    content.try_into().map(u16::from_be_bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_by_kind_at_any_depth() {
        let mut message = Vec::new();
        put(&mut message, 1, b"odd");
        nest(&mut message, 2, |inner| {
            put(inner, 7, &80_u16.to_be_bytes());
            put(inner, 8, &9_u32.to_be_bytes());
        });
        assert_eq!(get(&message, 1), Some(&b"odd"[..]));
        let inner = get(&message, 2).unwrap();
        assert_eq!((port(inner, 7), number(inner, 8)), (Some(80), Some(9)));
        assert_eq!(get(inner, 9), None);
    }

    #[test]
    fn what_is_cut_off_or_shorter_than_its_header_is_none() {
        let mut message = Vec::new();
        put(&mut message, 1, &[0; 8]);
        put(&mut message, 2, &[0; 8]);
        for length in 0..message.len() {
            assert_eq!(get(&message[..length], 2), None, "{length}");
        }
        message[..2].copy_from_slice(&0_u16.to_ne_bytes());
        assert_eq!(get(&message, 2), None, "no progress");
    }
}
