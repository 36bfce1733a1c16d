//! Datagrams between servers, which only servers of the cluster can create.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use control_pki::{SEAL_KEY_BYTES, fingerprint, open_sealed, seal};

use super::decide::Peer;

/// A server's announcement about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advert {
    /// The server's identity.
    pub id: u64,
    /// Rises with each datagram: an old one is no news.
    pub sequence: u64,
    /// Whether it answers requests.
    pub is_ready: bool,
    /// Whether it has the address.
    pub is_holder: bool,
    /// Whether it is about to end.
    pub leaves: bool,
}

/// The key that seals the datagrams of one cluster and address.
pub struct Key {
    bytes: [u8; SEAL_KEY_BYTES],
    context: String,
}

const READY: u8 = 1;
const HOLDER: u8 = 2;
const LEAVES: u8 = 4;

// === impl Key ===

impl Key {
    /// Derives the key of the cluster whose authority's key is in `pki`.
    ///
    /// # Errors
    /// The system's error for the file.
    pub fn of_cluster(pki: &Path, address: IpAddr) -> io::Result<Self> {
        let authority = std::fs::read(pki.join("ca.key"))?;
        let digest = fingerprint(&authority);
        let mut bytes = [0; SEAL_KEY_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digest.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).unwrap_or_default();
            *byte = u8::from_str_radix(pair, 16).unwrap_or_default();
        }
        Ok(Self {
            bytes,
            context: format!("control plane address {address}"),
        })
    }
}

// === impl Advert ===

impl Advert {
    /// The datagram.
    pub fn seal(&self, key: &Key) -> Option<Vec<u8>> {
        let mut flags = 0;
        for (is_set, flag) in [
            (self.is_ready, READY),
            (self.is_holder, HOLDER),
            (self.leaves, LEAVES),
        ] {
            if is_set {
                flags |= flag;
            }
        }
        let mut plain = self.id.to_be_bytes().to_vec();
        plain.extend(self.sequence.to_be_bytes());
        plain.push(flags);
        seal(&key.bytes, &key.context, &plain).ok()
    }

    /// Reads a datagram; `None` for one that no server of the cluster made.
    pub fn open(bytes: &[u8], key: &Key) -> Option<Self> {
        let plain = open_sealed(&key.bytes, &key.context, bytes)?;
        let (id, rest) = plain.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let [flags] = *rest else { return None };
        Some(Self {
            id: u64::from_be_bytes(*id),
            sequence: u64::from_be_bytes(*sequence),
            is_ready: flags & READY != 0,
            is_holder: flags & HOLDER != 0,
            leaves: flags & LEAVES != 0,
        })
    }

    /// The server that it is of.
    pub const fn peer(&self) -> Peer {
        Peer {
            id: self.id,
            is_ready: self.is_ready,
            is_holder: self.is_holder,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_of_the_cluster_are_believed() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("ca.key"), "one").expect("written");
        let address = [10, 0, 0, 9].into();
        let key = Key::of_cluster(dir.path(), address).expect("a key");
        let advert = Advert {
            id: 7,
            sequence: 1 << 40,
            is_ready: true,
            is_holder: false,
            leaves: true,
        };
        let bytes = advert.seal(&key).expect("sealed");
        assert_eq!(Advert::open(&bytes, &key), Some(advert));
        let other = Key::of_cluster(dir.path(), [10, 0, 0, 8].into()).expect("a key");
        assert_eq!(Advert::open(&bytes, &other), None, "another address");
        std::fs::write(dir.path().join("ca.key"), "two").expect("written");
        let foreign = Key::of_cluster(dir.path(), address).expect("a key");
        assert_eq!(Advert::open(&bytes, &foreign), None, "another cluster");
        assert_eq!(Advert::open(&bytes[1..], &key), None);
        assert_eq!(Advert::open(b"", &key), None);
    }
}
