//! Documents of built-in and custom resources together.
//!
//! What definitions bring is made when somebody asks and made anew when it has
//! become another: documents of version 3 one by one, as the definitions in their
//! group change; the one of version 2 whenever anything does. Between these only
//! packed documents are kept, and of those that nobody asked for only the hash.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bytes::Bytes;
use control_types::object;
use control_types::value;
use control_types::value::{Map, Value};
use jiff::Timestamp;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha512};

use super::custom::{Custom, Parts};
use super::document::Document;
use super::schemas::{self, Kinds, OpenApiVersion};
use super::texts::Texts;
use super::{metrics, protobuf, v2, v3};
use crate::aggregated::{DEFINITIONS, PARAMETERS, Swagger, redirect};

/// Of so many kinds in a version of a group the hash of their document is told
/// before anyone asks for it; of more, that of what it will be made of.
const EAGER: usize = 32;

/// Custom resources at one moment, as documents describe them.
pub trait CustomResources {
    /// Returns a number that changes whenever what is served does.
    fn generation(&self) -> u64;
    /// Returns the groups in alphabetical order.
    fn groups(&self) -> Vec<&'static str>;
    /// Returns the versions of a group, the preferred one first.
    fn versions(&self, group: &str) -> Vec<&'static str>;
    /// Returns UID and generation of each definition with a kind in a version of a group.
    fn identities(&self, group: &str, version: &str) -> Vec<String>;
    /// Returns the present definitions with a kind in a version of a group.
    fn definitions(&self, group: &str, version: &str) -> Vec<Value>;
}

/// Documents that describe custom resources, too, made when first asked for.
#[derive(Debug, Default)]
pub struct MergedDocuments {
    v3: Mutex<V3>,
    v2: Mutex<Option<(State, Arc<Document>)>>,
}

/// What the document of everything is made of.
#[derive(Debug, PartialEq, Eq)]
struct State {
    /// The generation of what definitions bring.
    generation: u64,
    /// Whether what nodes use is told by this server.
    metrics: bool,
    /// The parts of other servers.
    others: Vec<[u8; 32]>,
}

#[derive(Debug, Default)]
struct V3 {
    /// By group and version.
    places: FxHashMap<(String, String), VersionDocument>,
    index: Option<(u64, Index)>,
}

/// The index of documents, and since when it is so.
#[derive(Clone, Debug)]
pub struct Index {
    /// JSON.
    pub json: Bytes,
    /// When it was made.
    pub made: Timestamp,
}

/// A version of a group.
#[derive(Debug)]
struct VersionDocument {
    /// Which states of definitions it is made of.
    of: Vec<String>,
    hash: String,
    document: Option<Arc<Document>>,
}

impl MergedDocuments {
    /// Returns the index of documents of OpenAPI 3.
    #[must_use]
    pub fn index(&self, custom: &impl CustomResources) -> Index {
        let mut v3 = self.v3.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((generation, index)) = &v3.index
            && *generation == custom.generation()
        {
            return index.clone();
        }
        let mut places: BTreeMap<String, String> = super::PLACES
            .keys()
            .filter_map(|place| Some((place.clone(), super::v3(place)?.hash.clone())))
            .collect();
        let mut present = FxHashMap::default();
        for group in custom.groups() {
            for version in custom.versions(group) {
                if let Some(place) = v3.place(custom, (group, version), false) {
                    places.insert(format!("apis/{group}/{version}"), place.hash.clone());
                    let at = (group.to_owned(), version.to_owned());
                    present.extend(v3.places.remove_entry(&at));
                }
            }
        }
        // Drops documents of groups that are no longer served.
        v3.places = present;
        let mut paths = Map::with_capacity(places.len());
        for (place, hash) in places {
            let url = format!("/openapi/v3/{place}?hash={hash}");
            paths.push_unchecked(place.as_str().into(), value!({"serverRelativeURL": url}));
        }
        let index = Index {
            json: value!({"paths": paths}).to_vec().into(),
            made: Timestamp::now(),
        };
        v3.index = Some((custom.generation(), index.clone()));
        index
    }

    /// Returns the document at a place below `/openapi/v3/`, of a version with custom
    /// resources.
    #[must_use]
    pub fn of_version(&self, custom: &impl CustomResources, place: &str) -> Option<Arc<Document>> {
        let (group, version) = place.strip_prefix("apis/")?.split_once('/')?;
        let mut v3 = self.v3.lock().unwrap_or_else(PoisonError::into_inner);
        let place = v3.place(custom, (group, version), true)?;
        place.document.clone()
    }

    /// Returns the document of everything: `others` are the parts of other servers;
    /// `metrics` tells whether `metrics.k8s.io` is served by this one.
    #[must_use]
    pub fn of_everything(
        &self,
        custom: &impl CustomResources,
        others: &[Arc<Swagger>],
        metrics: bool,
    ) -> Arc<Document> {
        let state = State {
            generation: custom.generation(),
            metrics,
            others: others.iter().map(|one| one.digest).collect(),
        };
        let groups = custom.groups();
        if groups.is_empty() && !metrics && others.is_empty() {
            return v2();
        }
        let mut made = self.v2.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, document)) = &*made
            && *known == state
        {
            return Arc::clone(document);
        }
        let mut parts = Vec::new();
        for group in groups {
            for version in custom.versions(group) {
                for definition in custom.definitions(group, version) {
                    let custom = Custom::find_version(&definition, version);
                    parts.extend(custom.map(|one| one.parts(OpenApiVersion::V2, &TEXTS)));
                }
            }
        }
        if metrics {
            parts.extend(metrics::parts(OpenApiVersion::V2, &TEXTS));
        }
        let json = with_custom(&v2().json(), &parts, others);
        let document = Arc::new(Document::from_json(json, protobuf::v2, Timestamp::now()));
        *made = Some((state, Arc::clone(&document)));
        document
    }
}

impl V3 {
    /// Returns what is made of a version of a group, with its document if `document`;
    /// `None` if it has no custom resources.
    fn place(
        &mut self,
        custom: &impl CustomResources,
        (group, version): (&str, &str),
        document: bool,
    ) -> Option<&VersionDocument> {
        let mut of = custom.identities(group, version);
        if of.is_empty() {
            return None;
        }
        of.sort_unstable();
        let at = (group.to_owned(), version.to_owned());
        let known = self.places.get(&at).filter(|known| known.of == of);
        let complete = known.is_some_and(|known| known.document.is_some() || !document);
        if !complete {
            let many = of.len() > EAGER;
            // The name of a state does not change with what is asked of it.
            let hash = many.then(|| hash(of.join(";").as_bytes()));
            let made = (document || !many).then(|| {
                let definitions = custom.definitions(group, version);
                super::document::go_json(&of_definitions(&definitions, version))
            });
            let hash = match (hash, &made) {
                (Some(hash), _) => hash,
                (None, made) => self::hash(made.as_deref().unwrap_or_default()),
            };
            let document = made.filter(|_| document).map(|json| {
                let mut document = Document::from_json(json, protobuf::v3, Timestamp::now());
                document.hash.clone_from(&hash);
                Arc::new(document)
            });
            let place = VersionDocument { of, hash, document };
            self.places.insert(at.clone(), place);
        }
        self.places.get(&at)
    }
}

/// SHA-512, upper case hexadecimal.
fn hash(bytes: &[u8]) -> String {
    let hash = Sha512::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The document of OpenAPI 3 of a version of a group.
fn of_definitions(definitions: &[Value], version: &str) -> Value {
    let custom = definitions.iter();
    let custom = custom.filter_map(|one| Custom::find_version(one, version));
    of_parts(custom.map(|one| one.parts(OpenApiVersion::V3, &TEXTS)))
}

/// The document of OpenAPI 3 of these kinds.
pub(super) fn of_parts(parts: impl IntoIterator<Item = Parts>) -> Value {
    let mut paths = Vec::new();
    let mut all: BTreeMap<String, Map> = BTreeMap::new();
    for one in parts {
        paths.extend(one.paths);
        all.extend(one.schemas);
    }
    paths.sort_by(|a, b| a.path.cmp(&b.path));
    let shared = ["ObjectMeta", "ListMeta"].map(|kind| format!("{META}{kind}"));
    let shared = schemas::of_paths(OpenApiVersion::V3, Kinds::Client, &TEXTS, &paths, &shared);
    for (name, schema) in shared.iter() {
        if let Value::Object(schema) = schema {
            all.insert(name.as_str().to_owned(), schema.clone());
        }
    }
    let schemas: Map = all.into_iter().collect();
    value!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": (v3::path_items(&paths)),
        "components": (object!({"schemas": schemas}))
    })
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// What documents of custom resources take from the texts; kept, since it is
/// little and wanted whenever a definition changes.
pub(super) static TEXTS: LazyLock<Texts> = LazyLock::new(|| {
    Texts::of_types(|name| {
        name.starts_with(META)
            || name.starts_with("io.k8s.api.autoscaling.v1.Scale")
            || matches!(
                name,
                "io.k8s.api.core.v1.Pod" | "io.k8s.api.core.v1.PodList"
            )
    })
});

/// The document of OpenAPI 2, its large parts not looked into.
#[derive(Deserialize)]
struct RawSwagger<'a> {
    #[serde(borrow)]
    swagger: &'a RawValue,
    #[serde(borrow)]
    info: &'a RawValue,
    #[serde(borrow)]
    paths: BTreeMap<String, &'a RawValue>,
    #[serde(borrow)]
    definitions: BTreeMap<String, &'a RawValue>,
    #[serde(borrow)]
    parameters: BTreeMap<String, &'a RawValue>,
    #[serde(borrow, rename = "securityDefinitions")]
    definitions_of_security: &'a RawValue,
    #[serde(borrow)]
    security: &'a RawValue,
}

/// Puts custom resources into the document of the built-in ones, which win where
/// both say something.
fn with_custom(built_in: &[u8], parts: &[Parts], others: &[Arc<Swagger>]) -> Vec<u8> {
    let Ok(swagger) = serde_json::from_slice::<RawSwagger<'_>>(built_in) else {
        // What this program wrote it reads; if not, then less is said.
        return built_in.to_vec();
    };
    let mut shared = v2::SharedParameters::new();
    let mut paths: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    let mut definitions: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for part in parts {
        for item in &part.paths {
            let written = Value::from(v2::path_item(item, &mut shared));
            paths.insert(&item.path, written.to_vec());
        }
        for (name, schema) in &part.schemas {
            definitions.insert(name, Value::Object(schema.clone()).to_vec());
        }
    }
    let mut paths = owned(paths);
    let mut definitions = owned(definitions);
    let mut parameters: BTreeMap<String, Vec<u8>> = shared
        .into_iter()
        .map(|(name, one)| (name, Value::Object(one).to_vec()))
        .collect();
    // What other servers said, as they said it: references are led elsewhere since.
    let mut said: [BTreeMap<String, Vec<u8>>; 2] = Default::default();
    for other in others {
        let mut to = BTreeMap::new();
        let schemas = new_names(&other.definitions, |name| {
            let built_in = swagger
                .definitions
                .get(name)
                .map(|raw| raw.get().as_bytes());
            let theirs = || said[0].get(name).map(Vec::as_slice);
            let custom = || definitions.get(name).map(Vec::as_slice);
            built_in.or_else(theirs).or_else(custom)
        });
        let taken = new_names(&other.parameters, |name| {
            let built_in = swagger.parameters.get(name).map(|raw| raw.get().as_bytes());
            let theirs = || said[1].get(name).map(Vec::as_slice);
            let custom = || parameters.get(name).map(Vec::as_slice);
            built_in.or_else(theirs).or_else(custom)
        });
        for (root, names) in [(DEFINITIONS, &schemas), (PARAMETERS, &taken)] {
            for (name, given) in names.iter().filter(|(name, given)| name != given) {
                to.insert(format!("{root}{name}"), format!("{root}{given}"));
            }
        }
        let led = |tree: &Value| {
            let mut tree = tree.clone();
            redirect(&mut tree, &to);
            tree.to_vec()
        };
        for (path, item) in &other.paths {
            // Whoever said something first said it.
            if !paths.contains_key(path) {
                paths.insert(path.clone(), led(item));
            }
        }
        for (at, all, names, own) in [
            (0, &mut definitions, &schemas, &other.definitions),
            (1, &mut parameters, &taken, &other.parameters),
        ] {
            for (name, tree) in own {
                if let Some(given) = names.get(name)
                    && !all.contains_key(given)
                {
                    all.insert(given.clone(), led(tree));
                    said[at].insert(given.clone(), tree.to_vec());
                }
            }
        }
    }
    let parameters = parameters
        .iter()
        .map(|(name, json)| (name.as_str(), json.as_slice()));
    let more = |all: &BTreeMap<String, Vec<u8>>| all.values().map(Vec::len).sum::<usize>();
    let mut out = Vec::with_capacity(built_in.len() + more(&paths) + more(&definitions));
    let mut first = true;
    let mut plain = |out: &mut Vec<u8>, name: &str| {
        out.push(if std::mem::take(&mut first) {
            b'{'
        } else {
            b','
        });
        Value::write_string(name, out);
        out.push(b':');
    };
    plain(&mut out, "swagger");
    out.extend_from_slice(swagger.swagger.get().as_bytes());
    plain(&mut out, "info");
    out.extend_from_slice(swagger.info.get().as_bytes());
    plain(&mut out, "paths");
    let own = paths
        .iter()
        .map(|(name, json)| (name.as_str(), json.as_slice()));
    members(&swagger.paths, own, &mut out);
    plain(&mut out, "definitions");
    let own = definitions
        .iter()
        .map(|(name, json)| (name.as_str(), json.as_slice()));
    members(&swagger.definitions, own, &mut out);
    plain(&mut out, "parameters");
    members(&swagger.parameters, parameters, &mut out);
    plain(&mut out, "securityDefinitions");
    out.extend_from_slice(swagger.definitions_of_security.get().as_bytes());
    plain(&mut out, "security");
    out.extend_from_slice(swagger.security.get().as_bytes());
    out.push(b'}');
    out
}

fn owned(all: BTreeMap<&str, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    all.into_iter()
        .map(|(name, json)| (name.to_owned(), json))
        .collect()
}

/// How many servers may mean something else by one name.
const MEANINGS: u32 = 100;

/// Under which names things of another server stand in the document of everything: their
/// own, or one that nobody uses where something else has it (`Name_v2`).
fn new_names<'a>(
    own: &BTreeMap<String, Value>,
    known: impl Fn(&str) -> Option<&'a [u8]>,
) -> BTreeMap<String, String> {
    // Which kinds a schema is of may be told more or less fully.
    let same = |one: &Value, json: &[u8]| {
        let plain = |mut tree: Value| {
            tree.remove("x-kubernetes-group-version-kind");
            tree
        };
        Value::from_slice(json).is_ok_and(|other| plain(other) == plain(one.clone()))
    };
    own.iter()
        .map(|(name, tree)| {
            let names = (1..MEANINGS).map(|at| match at {
                1 => name.clone(),
                at => format!("{name}_v{at}"),
            });
            let free = |name: &String| known(name).is_none_or(|json| same(tree, json));
            let given = { names }.find(free);
            (name.clone(), given.unwrap_or_else(|| name.clone()))
        })
        .collect()
}

/// Writes an object of what is built in and what is not, ordered by name.
fn members<'a>(
    built_in: &'a BTreeMap<String, &RawValue>,
    custom: impl Iterator<Item = (&'a str, &'a [u8])>,
    out: &mut Vec<u8>,
) {
    let mut all: BTreeMap<&str, &[u8]> = custom.collect();
    for (name, json) in built_in {
        all.insert(name, json.get().as_bytes());
    }
    out.push(b'{');
    for (at, (name, json)) in all.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        Value::write_string(name, out);
        out.push(b':');
        out.extend_from_slice(json);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests;
