//! A document, packed, and what all documents share.

use std::io::{Read as _, Write as _};
use std::sync::OnceLock;

use bytes::Bytes;
use control_types::value::Value;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use sha2::{Digest, Sha512};

/// The version of the API, as documents state it.
pub(crate) const VERSION: &str = "1.36";

/// A document, packed.
#[derive(Debug)]
pub struct Document {
    /// JSON in gzip.
    pub gzip: Bytes,
    /// Length of the JSON.
    pub length: usize,
    /// SHA-512 of the JSON, upper case hexadecimal; of what it is made of where
    /// that is much.
    pub hash: String,
    /// Since when it is so.
    pub made: Timestamp,
    /// How its protobuf is made of its tree, and that protobuf in gzip.
    encode: fn(&Value) -> Vec<u8>,
    protobuf: OnceLock<(Bytes, usize)>,
}

impl Document {
    pub(crate) fn from_json(json: Vec<u8>, encode: fn(&Value) -> Vec<u8>, made: Timestamp) -> Self {
        let hash = Sha512::digest(&json);
        Self {
            gzip: packed(&json),
            length: json.len(),
            hash: hash.iter().map(|byte| format!("{byte:02X}")).collect(),
            made,
            encode,
            protobuf: OnceLock::new(),
        }
    }

    /// The JSON.
    #[must_use]
    pub fn json(&self) -> Vec<u8> {
        unpacked(&self.gzip, self.length)
    }

    /// The protobuf.
    #[must_use]
    pub fn protobuf(&self) -> Vec<u8> {
        let (gzip, length) = self.protobuf.get_or_init(|| {
            // What this program wrote it reads.
            let tree = Value::from_slice(&self.json()).unwrap_or_default();
            let bytes = (self.encode)(&tree);
            (packed(&bytes), bytes.len())
        });
        unpacked(gzip, *length)
    }
}

fn unpacked(gzip: &[u8], length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(length);
    // Bytes that this program packed, from memory.
    let _ = GzDecoder::new(gzip).read_to_end(&mut out);
    out
}

fn packed(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), Compression::fast());
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default().into()
}

/// When documents of built-in resources last changed: never while the program runs.
pub(crate) fn started() -> Timestamp {
    static STARTED: OnceLock<Timestamp> = OnceLock::new();
    *STARTED.get_or_init(Timestamp::now)
}

/// JSON as Go writes it by default: fit to stand within HTML.
pub(crate) fn go_json(value: &Value) -> Vec<u8> {
    let plain = value.to_vec();
    let mut out = Vec::with_capacity(plain.len() + plain.len() / 64);
    for byte in plain {
        // None of them is part of JSON's own syntax or of a longer character.
        match byte {
            b'<' => out.extend_from_slice(br"\u003c"),
            b'>' => out.extend_from_slice(br"\u003e"),
            b'&' => out.extend_from_slice(br"\u0026"),
            other => out.push(other),
        }
    }
    out
}

/// What a status code means, as documents say it.
pub(crate) const fn meaning(code: u16) -> &'static str {
    match code {
        201 => "Created",
        202 => "Accepted",
        _ => "OK",
    }
}
