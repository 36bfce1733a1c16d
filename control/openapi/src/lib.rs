//! OpenAPI: what the API is, for tools: `kubectl explain`, `apply`, helm.
//!
//! Everything is made by rule: paths and operations from the registry
//! (`operations`), schemas from the tables of types (`schemas`), both with the
//! words that the published API has (`texts`), written in the form of OpenAPI 3
//! (a document for each group and version) and of OpenAPI 2 (one for all).
//!
//! What definitions of custom resources bring (`custom`, `structural`) is put
//! among that in `merged`.
//!
//! Documents are made when first asked for and kept packed: nobody may ask, and
//! plain they are ten megabytes. Their hash is their `ETag`, and the index names
//! it, so that clients keep documents for ever.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};

use control_types::registry;

mod aggregated;
mod custom;
mod document;
mod merged;
pub mod metrics;
mod operations;
mod protobuf;
mod schemas;
mod structural;
mod texts;
mod v2;
mod v3;

pub use aggregated::Swagger;
pub use document::Document;
use document::{go_json, started};
pub use merged::{CustomResources, Index, MergedDocuments};
use texts::Texts;

/// The document at a place below `/openapi/v3/`: `api/v1`, `apis/apps`, `version`.
#[must_use]
pub fn v3(place: &str) -> Option<Arc<Document>> {
    let (what, made) = PLACES.get(place)?;
    let made = made.get_or_init(|| {
        let texts = texts();
        let own = match what {
            DocumentScope::Version(group, version) => Some((*group, *version)),
            DocumentScope::General | DocumentScope::Group(_) => None,
        };
        let document = v3::document(own, &what.paths(place, &texts), &texts);
        // As stock servers escape it, so that the same document has the same hash.
        Arc::new(Document::from_json(
            go_json(&document),
            protobuf::v3,
            started(),
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
        Arc::new(Document::from_json(
            v2::document(&paths, &texts).to_vec(),
            protobuf::v2,
            started(),
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
enum DocumentScope {
    /// Paths that belong to no group.
    General,
    /// A group.
    Group(&'static str),
    /// A group's version.
    Version(&'static str, &'static str),
}

impl DocumentScope {
    fn paths(self, place: &str, texts: &Texts) -> Vec<operations::PathItem> {
        match self {
            Self::General => operations::general(place).into_iter().collect(),
            Self::Group(group) => vec![operations::group(group)],
            Self::Version(group, version) => operations::version(group, version, texts),
        }
    }
}

type Places = BTreeMap<String, (DocumentScope, OnceLock<Arc<Document>>)>;

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
        put(place.to_owned(), DocumentScope::General);
    }
    for group in registry::groups() {
        if !group.name.is_empty() {
            put(
                format!("apis/{}", group.name),
                DocumentScope::Group(group.name),
            );
        }
        for version in group.versions {
            let place = if group.name.is_empty() {
                format!("api/{version}")
            } else {
                format!("apis/{}/{version}", group.name)
            };
            put(place, DocumentScope::Version(group.name, version));
        }
    }
    out
});

#[cfg(test)]
mod tests;
