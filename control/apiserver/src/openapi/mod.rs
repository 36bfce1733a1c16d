//! OpenAPI: what the API is, for tools: `kubectl explain`, `apply`, helm.
//!
//! Everything is made by rule: paths and operations from the registry
//! ([`operations`]), schemas from the tables of types ([`schemas`]), both with the
//! words that the published API has ([`texts`]), written in the form of OpenAPI 3
//! (a document for each group and version) and of OpenAPI 2 (one for all).
//!
//! What definitions of custom resources bring ([`custom`], [`structural`]) is put
//! among that in [`merged`].
//!
//! Documents are made when first asked for and kept packed: nobody may ask, and
//! plain they are ten megabytes. Their hash is their `ETag`, and the index names
//! it, so that clients keep documents for ever.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use control_types::registry;
use control_types::value::Value;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use sha2::{Digest, Sha512};

mod custom;
mod merged;
pub(crate) mod metrics;
mod operations;
mod protobuf;
mod schemas;
mod serve;
mod structural;
mod texts;
mod v2;
mod v3;

pub(crate) use merged::Merged;
pub use serve::answer;
use texts::Texts;

/// The version of the API, as documents state it.
const VERSION: &str = "1.36";

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
    fn of(json: Vec<u8>, encode: fn(&Value) -> Vec<u8>, made: Timestamp) -> Self {
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

/// The document at a place below `/openapi/v3/`: `api/v1`, `apis/apps`, `version`.
#[must_use]
pub fn v3(place: &str) -> Option<Arc<Document>> {
    let (what, made) = PLACES.get(place)?;
    let made = made.get_or_init(|| {
        let texts = texts();
        let own = match what {
            What::Version(group, version) => Some((*group, *version)),
            What::General | What::Group(_) => None,
        };
        let document = v3::document(own, &what.paths(place, &texts), &texts);
        // As stock servers escape it, so that the same document has the same hash.
        Arc::new(Document::of(
            go_json(&document),
            protobuf::v3,
            serve::started(),
        ))
    });
    Some(Arc::clone(made))
}

/// The document of everything.
#[must_use]
pub fn v2() -> Arc<Document> {
    static DOCUMENT: OnceLock<Arc<Document>> = OnceLock::new();
    let made = DOCUMENT.get_or_init(|| {
        let texts = texts();
        let mut paths: Vec<_> = PLACES
            .iter()
            .flat_map(|(place, (what, _))| what.paths(place, &texts))
            .collect();
        paths.sort_by(|a, b| a.path.cmp(&b.path));
        Arc::new(Document::of(
            v2::document(&paths, &texts).to_vec(),
            protobuf::v2,
            serve::started(),
        ))
    });
    Arc::clone(made)
}

/// The texts, once for all who make documents at the same time.
fn texts() -> Arc<Texts> {
    static HELD: Mutex<Weak<Texts>> = Mutex::new(Weak::new());
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.upgrade().unwrap_or_else(|| {
        let texts = Arc::new(Texts::read());
        *held = Arc::downgrade(&texts);
        texts
    })
}

/// What a document is about.
#[derive(Clone, Copy, Debug)]
enum What {
    /// Paths that belong to no group.
    General,
    /// A group.
    Group(&'static str),
    /// A group's version.
    Version(&'static str, &'static str),
}

impl What {
    fn paths(self, place: &str, texts: &Texts) -> Vec<operations::PathItem> {
        match self {
            Self::General => operations::general(place).into_iter().collect(),
            Self::Group(group) => vec![operations::group(group)],
            Self::Version(group, version) => operations::version(group, version, texts),
        }
    }
}

type Places = BTreeMap<String, (What, OnceLock<Arc<Document>>)>;

static PLACES: LazyLock<Places> = LazyLock::new(|| {
    let mut out = Places::new();
    let mut put = |place: String, what| out.insert(place, (what, OnceLock::new()));
    for place in [
        ".well-known/openid-configuration",
        "api",
        "apis",
        "openid/v1/jwks",
        "version",
    ] {
        put(place.to_owned(), What::General);
    }
    for group in registry::groups() {
        if !group.name.is_empty() {
            put(format!("apis/{}", group.name), What::Group(group.name));
        }
        for version in group.versions {
            let place = if group.name.is_empty() {
                format!("api/{version}")
            } else {
                format!("apis/{}/{version}", group.name)
            };
            put(place, What::Version(group.name, version));
        }
    }
    out
});

/// JSON as Go writes it by default: fit to stand within HTML.
fn go_json(value: &Value) -> Vec<u8> {
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
const fn meaning(code: u16) -> &'static str {
    match code {
        201 => "Created",
        202 => "Accepted",
        _ => "OK",
    }
}

#[cfg(test)]
mod tests;
