//! Which ports of a range are taken, in the form in which kube-apiserver keeps it:
//! a `v1` RangeAllocation whose data are the bytes of one large number, its lowest
//! bit the range's first port.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use control_types::protobuf::{self, Envelope, MAGIC, TAIL};
use control_types::value::Value;

/// Why stored bytes are no map of ports.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// They are no protobuf.
    #[error("the ports that are taken cannot be read; delete the key to have it made anew")]
    Protobuf(#[source] protobuf::Error),
    /// They are no JSON.
    #[error("the ports that are taken cannot be read; delete the key to have it made anew")]
    Json(#[source] control_types::value::Error),
    /// Their range is none.
    #[error("the ports that are taken are of no range: `{0}`; delete the key to have it made anew")]
    Range(String),
}

/// The ports of a range, each free or taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMap {
    first: u16,
    last: u16,
    words: Vec<u64>,
}

impl PortMap {
    /// All ports from first to last, free.
    pub fn new((first, last): (u16, u16)) -> Self {
        let words = usize::from(last.saturating_sub(first)) / 64 + 1;
        Self {
            first,
            last,
            words: vec![0; words],
        }
    }

    /// The first and the last port.
    pub fn range(&self) -> (u16, u16) {
        (self.first, self.last)
    }

    /// Whether a port is taken; one outside the range is not.
    pub fn has(&self, port: u16) -> bool {
        self.place(port)
            .is_some_and(|(word, bit)| self.words[word] & bit != 0)
    }

    /// Takes a port or frees it; of one outside the range nothing is noted.
    pub fn set(&mut self, port: u16, taken: bool) {
        if let Some((word, bit)) = self.place(port) {
            if taken {
                self.words[word] |= bit;
            } else {
                self.words[word] &= !bit;
            }
        }
    }

    /// The ports that are taken, the lowest first.
    pub fn taken(&self) -> impl Iterator<Item = u16> + '_ {
        (self.first..=self.last).filter(|port| self.has(*port))
    }

    fn place(&self, port: u16) -> Option<(usize, u64)> {
        let within = (self.first..=self.last).contains(&port);
        let at = port.wrapping_sub(self.first);
        within.then(|| (usize::from(at / 64), 1 << (at % 64)))
    }

    /// The bytes to store.
    pub fn to_stored(&self) -> Vec<u8> {
        // An ObjectMeta that says nothing, as Go writes it: strings that are empty,
        // generation 0 and no creation time.
        const NO_METADATA: &[u8] = &[
            0x0a, 0, 0x12, 0, 0x1a, 0, 0x22, 0, 0x2a, 0, 0x32, 0, 0x38, 0, 0x42, 0,
        ];
        let mut message = Vec::new();
        protobuf::push_bytes(0x0a, NO_METADATA, &mut message);
        let range = format!("{}-{}", self.first, self.last);
        protobuf::push_bytes(0x12, range.as_bytes(), &mut message);
        protobuf::push_bytes(0x1a, &self.data(), &mut message);
        let mut out = Vec::new();
        protobuf::push_envelope_head("v1", "RangeAllocation", message.len(), &mut out);
        out.extend_from_slice(&message);
        out.extend_from_slice(TAIL);
        out
    }

    /// The map that was stored, of whatever range it is.
    pub fn of_stored(stored: &[u8]) -> Result<Self, Error> {
        if stored.starts_with(MAGIC) {
            let envelope = Envelope::open(stored).map_err(Error::Protobuf)?;
            let fields = protobuf::fields_of_bytes(envelope.raw).map_err(Error::Protobuf)?;
            let last = |number| {
                let mut of_number = fields.iter().rev().filter(|(at, _)| *at == number);
                of_number.next().map_or(&[][..], |(_, bytes)| *bytes)
            };
            return Self::of(&String::from_utf8_lossy(last(2)), last(3));
        }
        let object = Value::from_slice(stored).map_err(Error::Json)?;
        let text = |member| object.str_at(&[member]).unwrap_or_default();
        let data = STANDARD.decode(text("data")).unwrap_or_default();
        Self::of(text("range"), &data)
    }

    fn of(range: &str, data: &[u8]) -> Result<Self, Error> {
        let parsed = range
            .split_once('-')
            .and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)))
            .filter(|(first, last)| first <= last)
            .ok_or_else(|| Error::Range(range.to_owned()))?;
        let mut map = Self::new(parsed);
        for (at, byte) in data.iter().rev().take(map.words.len() * 8).enumerate() {
            map.words[at / 8] |= u64::from(*byte) << (at % 8 * 8);
        }
        Ok(map)
    }

    /// The number's bytes, the highest first, none of them a leading zero.
    fn data(&self) -> Vec<u8> {
        let words = self.words.iter().rev();
        let bytes = words.flat_map(|word| word.to_be_bytes());
        bytes.skip_while(|byte| *byte == 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What kube-apiserver 1.36 stores when 30003 is taken.
    const STOCK: &[u8] = b"k8s\0\x0a\x15\x0a\x02v1\x12\x0fRangeAllocation\x12\x22\x0a\x10\
        \x0a\0\x12\0\x1a\0\x22\0\x2a\0\x32\0\x38\0\x42\0\x12\x0b30000-32767\x1a\x01\x08\x1a\0\x22\0";

    #[test]
    fn what_is_stored_is_what_kube_apiserver_stores() {
        let mut map = PortMap::new((30000, 32767));
        map.set(30003, true);
        assert_eq!(map.to_stored(), STOCK);
        assert_eq!(PortMap::of_stored(STOCK).expect("a map"), map);
    }

    #[test]
    fn json_is_read_too() {
        let json = br#"{"kind":"RangeAllocation","apiVersion":"v1","metadata":{},"range":"30000-30010","data":"BAE="}"#;
        let map = PortMap::of_stored(json).expect("a map");
        assert_eq!(map.taken().collect::<Vec<_>>(), [30000, 30010]);
    }

    #[test]
    fn every_port_comes_back_and_none_beyond_the_range() {
        let mut map = PortMap::new((1, 200));
        for port in [1, 2, 64, 65, 128, 199, 200, 0, 201, u16::MAX] {
            map.set(port, true);
        }
        let read = PortMap::of_stored(&map.to_stored()).expect("a map");
        assert_eq!(
            read.taken().collect::<Vec<_>>(),
            [1, 2, 64, 65, 128, 199, 200]
        );
        map.set(64, false);
        assert!(!map.has(64) && map.has(65) && !map.has(201));
    }

    #[test]
    fn what_is_no_map_is_refused() {
        for stored in [
            &b""[..],
            b"k8s\0",
            b"{}",
            b"k8s\0\x12\x05\x12\x032-1",
            b"k8s\0\x12\xff",
        ] {
            assert!(PortMap::of_stored(stored).is_err(), "{stored:?}");
        }
        let long = PortMap::of("1-3", &[0xff; 4096]).expect("data beyond the range say nothing");
        assert_eq!(long.taken().count(), 3);
    }
}
