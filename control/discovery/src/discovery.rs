//! Discovery: which groups, versions and resources there are.
//!
//! The tables never change while the server runs, so every document of theirs is
//! made once; with custom resources, when their definitions have changed. Clients of today ask
//! for the aggregated form by `Accept` and get the whole API with two requests; older ones walk
//! from `/api` and `/apis`.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use control_types::registry::{self, Group, Resource};
use control_types::status::Status;
use control_types::value::{Map, Value};
use control_types::{meta, object, value};
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Response};
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha512};

use arc_swap::ArcSwapOption;
use control_aggregation::{Aggregator, Form, join, merge};
use control_registry::custom::Snapshot;
use control_registry::{Context, ServedResource, Storage, reply};
use control_request::body::Body;
use control_request::negotiate::{Format, MEDIA_TYPES, Media};

/// The media types of the aggregated form, for each way of writing it.
const fn aggregated_type(media: Media) -> &'static str {
    match media {
        Media::Json => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Media::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Media::Protobuf => {
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        }
    }
}

/// The documents of discovery of a server.
#[derive(Debug)]
pub struct Discovery {
    storage: Arc<Storage>,
    aggregator: Arc<Aggregator>,
    /// Where clients reach the server.
    address: SocketAddr,
    /// The last document of built-in and custom resources together.
    last: ArcSwapOption<LastDocument>,
}

/// What was last made of built-in and custom resources together.
#[derive(Debug)]
struct LastDocument {
    /// Of definitions, and of other servers.
    generations: (u64, u64),
    document: Document,
}

impl Discovery {
    /// Shows what is served from `storage` and by other servers; clients reach this one at
    /// `address`.
    #[must_use]
    pub fn new(storage: Arc<Storage>, aggregator: Arc<Aggregator>, address: SocketAddr) -> Self {
        Self {
            storage,
            aggregator,
            address,
            last: ArcSwapOption::empty(),
        }
    }

    /// Answers a request for discovery: `/api`, `/apis`, `/api/v1`, `/apis/<group>`,
    /// `/apis/<group>/<version>`; nothing for other paths. The aggregated form of the
    /// first two goes to those whose `Accept` names it.
    ///
    /// # Errors
    /// 406 if the client accepts no media type that the server has, 405 for methods that only
    /// write. `/apis` and `/apis/<group>` are served for every method and every `Accept`.
    pub fn answer(&self, context: &Context, path: &str) -> Result<Option<Response<Body>>, Status> {
        let headers = &context.parts.headers;
        let path = path.trim_end_matches('/');
        if matches!(path, "/api" | "/apis")
            && let Some(format) = Format::of_aggregated(headers, context.query())
            && let Some(document) = self.whole(path)
        {
            if path == "/api" {
                only_get(context)?;
            }
            return Ok(Some(aggregated(&document, headers, format)));
        }
        let body = match DOCUMENTS.get(path) {
            _ if let Some(group) = self.of_others(path) => group.to_vec().into(),
            Some(_) if path == "/apis" => self.groups(),
            Some(body) => body.clone(),
            None if path == "/api" => versions(self.address).to_vec().into(),
            None => match of_custom(&self.storage.definitions.now(), path) {
                Some(document) => document.to_vec().into(),
                None => return Ok(None),
            },
        };
        // What the list of groups and each group answer is above the routes of
        // versions, which know methods and media types themselves.
        let is_group = path
            .strip_prefix("/apis")
            .is_some_and(|rest| rest.matches('/').count() < 2);
        if !is_group {
            // Who answers for custom resources does not look at methods.
            if DOCUMENTS.contains_key(path) || path == "/api" {
                only_get(context)?;
            }
            representable(headers, MEDIA_TYPES)?;
        }
        let format = Format::of_document(headers, context.query())?;
        Ok(Some(written(body, format)))
    }

    /// The whole below a root, with custom resources.
    fn whole(&self, path: &str) -> Option<Document> {
        let built_in = AGGREGATED.get(path)?;
        let now = self.storage.definitions.now();
        let custom = now.groups();
        // Read before what it numbers: a change meanwhile is seen by the next.
        let generations = (now.generation, self.aggregator.generation());
        let others = self.aggregator.now();
        if path == "/api" || (custom.is_empty() && others.is_empty()) {
            return Some(built_in.clone());
        }
        let last = self.last.load_full();
        if let Some(made) = last.filter(|made| made.generations == generations) {
            return Some(made.document.clone());
        }
        let mut list = Value::from_slice(&built_in.body).ok()?;
        if let Some(items) = list.get_mut("items").and_then(Value::as_array_mut) {
            for group in custom {
                items.push(Value::Object(aggregated_custom(&now, group)));
            }
            merge(items, &others, Form::Whole);
        }
        let document = Document::of(&list);
        self.last.store(Some(Arc::new(LastDocument {
            generations,
            document: document.clone(),
        })));
        Some(document)
    }

    /// The list of groups, with those of custom resources.
    fn groups(&self) -> Bytes {
        let now = self.storage.definitions.now();
        let custom = now.groups();
        let others = self.aggregator.now();
        if custom.is_empty() && others.is_empty() {
            return DOCUMENTS["/apis"].clone();
        }
        let named = registry::groups().iter().filter(|g| !g.name.is_empty());
        let mut groups: Vec<Value> = named
            .map(|group| group_of(group.name, group.versions))
            .chain(
                custom
                    .into_iter()
                    .map(|group| group_of(group, &now.versions(group))),
            )
            .collect();
        merge(&mut groups, &others, Form::Names);
        value!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
            .to_vec()
            .into()
    }

    /// The document of a group that other servers have a part in.
    fn of_others(&self, path: &str) -> Option<Value> {
        let others = self.aggregator.now();
        if others.is_empty() {
            return None;
        }
        let group = path.strip_prefix("/apis/")?;
        if others.of_group(group).is_empty() {
            return None;
        }
        let own = match DOCUMENTS.get(path) {
            Some(body) => Value::from_slice(body).ok(),
            None => of_custom(&self.storage.definitions.now(), path),
        };
        let mut one = object!({"kind": "APIGroup", "apiVersion": "v1"});
        if let Value::Object(more) = join(group, own, &others, Form::Names) {
            one.extend(more);
        }
        Some(Value::Object(one))
    }
}

fn only_get(context: &Context) -> Result<(), Status> {
    if context.parts.method == Method::GET {
        Ok(())
    } else {
        Err(Status::method_not_allowed())
    }
}

/// Checks that a clause of `Accept` names a media type that the server has, whatever its
/// parameters.
///
/// # Errors
/// 406 unless one does.
pub fn representable(headers: &HeaderMap, available: &[&str]) -> Result<(), Status> {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let accept = accept.filter(|accept| !accept.is_empty()).unwrap_or("*/*");
    let mut clauses = accept.split(',');
    let any = clauses.any(|clause| {
        let media = clause.split(';').next().unwrap_or_default().trim();
        media == "*/*" || available.contains(&media)
    });
    if any {
        Ok(())
    } else {
        Err(Status::no_representation(available))
    }
}

/// A document as the client wants it.
fn written(json: Bytes, format: Format) -> Response<Body> {
    if format.media == Media::Json && !format.pretty {
        return reply::json(200, reply::line(&json));
    }
    // Written by this server.
    let mut tree = Value::from_slice(&json).unwrap_or_default();
    if format.media == Media::Protobuf && meta::api_version(&tree).is_empty() {
        // The oldest kinds have no version but where they must have one.
        tree.insert("apiVersion", "v1");
    }
    reply::value(200, &tree, format)
}

fn aggregated(document: &Document, headers: &HeaderMap, format: Format) -> Response<Body> {
    let known = headers.get(IF_NONE_MATCH).and_then(|tag| tag.to_str().ok());
    let mut response = if known == Some(&document.etag) {
        let mut response = reply::json(304, Bytes::new());
        response.headers_mut().remove(CONTENT_TYPE);
        response.headers_mut().remove(CONTENT_LENGTH);
        response
    } else {
        let mut response = written(document.body.clone(), format);
        response.headers_mut().insert(
            CONTENT_TYPE,
            HeaderValue::from_static(aggregated_type(format.media)),
        );
        response
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(etag) = HeaderValue::from_str(&document.etag) {
        headers.insert(ETAG, etag);
    }
    response
}

/// The whole of discovery below a root.
#[derive(Clone, Debug)]
struct Document {
    body: Bytes,
    /// Quoted hash of the bytes.
    etag: String,
}

/// The document of a group of custom resources, or of one of its versions.
fn of_custom(now: &Snapshot, path: &str) -> Option<Value> {
    let rest = path.strip_prefix("/apis/")?;
    let Some((group, version)) = rest.split_once('/') else {
        if !now.has_group(rest) {
            return None;
        }
        let mut one = object!({"kind": "APIGroup", "apiVersion": "v1"});
        if let Value::Object(more) = group_of(rest, &now.versions(rest)) {
            one.extend(more);
        }
        return Some(Value::Object(one));
    };
    let served = now.resources_of(group, version);
    let group = served.first()?.resource.group;
    let version = served.first()?.resource.version;
    let rows = served.iter().map(|served| (served.resource, verbs(served)));
    Some(resource_list(group, version, rows))
}

/// What can be done with a resource; nothing is made or changed of one whose
/// definition is on its way out.
fn verbs(served: &ServedResource) -> &'static [&'static str] {
    match served.kind.crd_versions() {
        Some(family) if family.is_terminating() => {
            &["delete", "deletecollection", "get", "list", "watch"]
        }
        _ => served.resource.verbs,
    }
}

fn aggregated_custom(now: &Snapshot, group: &'static str) -> Map {
    let versions = now.versions(group).into_iter().map(|version| {
        let resources: Value = now
            .resources_of(group, version)
            .iter()
            .map(|served| aggregated_resource(served.resource, verbs(served)))
            .collect();
        object!({"version": version, "resources": resources, "freshness": "Current"})
    });
    object!({"metadata": {"name": group}, "versions": (versions.collect::<Value>())})
}

impl Document {
    fn of(value: &Value) -> Self {
        let body = Bytes::from(value.to_vec());
        let hash = Sha512::digest(&body);
        let hash: String = hash.iter().map(|byte| format!("{byte:02X}")).collect();
        Self {
            body,
            etag: format!("\"{hash}\""),
        }
    }
}

/// The plain form of `/api`, which also says where this server is reached.
#[must_use]
pub fn versions(address: SocketAddr) -> Value {
    let server = address.to_string();
    value!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server}]
    })
}

static AGGREGATED: LazyLock<FxHashMap<&str, Document>> = LazyLock::new(|| {
    let list = |core: bool| {
        let groups = registry::groups().iter();
        let items: Value = groups
            .filter(|group| group.name.is_empty() == core)
            .map(aggregated_group)
            .collect();
        Document::of(&value!({
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items
        }))
    };
    [("/api", list(true)), ("/apis", list(false))]
        .into_iter()
        .collect()
});

static DOCUMENTS: LazyLock<FxHashMap<String, Bytes>> = LazyLock::new(|| {
    let mut out = FxHashMap::default();
    let mut put = |path: String, value: Value| out.insert(path, Bytes::from(value.to_vec()));
    let named = || {
        registry::groups()
            .iter()
            .filter(|group| !group.name.is_empty())
    };
    let groups: Value = named()
        .map(|group| group_of(group.name, group.versions))
        .collect();
    put(
        "/apis".into(),
        value!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}),
    );
    for group in registry::groups() {
        if !group.name.is_empty() {
            let mut one = object!({"kind": "APIGroup", "apiVersion": "v1"});
            if let Value::Object(rest) = group_of(group.name, group.versions) {
                one.extend(rest);
            }
            put(format!("/apis/{}", group.name), Value::Object(one));
        }
        for version in group.versions {
            let path = if group.name.is_empty() {
                format!("/api/{version}")
            } else {
                format!("/apis/{}/{version}", group.name)
            };
            let rows = registry::resources_of(group.name, version).map(|one| (one, one.verbs));
            put(path, resource_list(group.name, version, rows));
        }
    }
    out
});

fn group_of(group: &str, versions: &[&str]) -> Value {
    let version = |version: &&str| {
        object!({
            "groupVersion": (meta::join_api_version(group, version)),
            "version": (*version)
        })
    };
    let preferred = versions.first().map(version);
    let versions: Value = versions.iter().map(version).collect();
    value!({"name": group, "versions": versions, "preferredVersion": preferred})
}

fn texts(map: &mut Map, key: &'static str, items: &[&str]) {
    if !items.is_empty() {
        map.insert(key, items);
    }
}

fn resource_list(
    group: &'static str,
    version: &'static str,
    resources: impl Iterator<Item = (&'static Resource, &'static [&'static str])>,
) -> Value {
    let mut rows: Vec<Map> = Vec::new();
    for (one, verbs) in resources {
        let mut row = object!({
            "name": (one.plural),
            "singularName": (one.singular),
            "namespaced": (one.namespaced),
            "kind": (one.kind),
            "verbs": verbs
        });
        texts(&mut row, "shortNames", one.short_names);
        texts(&mut row, "categories", one.categories);
        if !one.storage_version_hash.is_empty() {
            row.insert("storageVersionHash", one.storage_version_hash);
        }
        rows.push(row);
        for sub in one.subresources {
            let mut row = object!({
                "name": (format!("{}/{}", one.plural, sub.name)),
                "singularName": "",
                "namespaced": (one.namespaced)
            });
            if (sub.group, sub.version) != (group, version) {
                row.insert("group", sub.group);
                row.insert("version", sub.version);
            }
            row.insert("kind", sub.kind);
            row.insert("verbs", sub.verbs);
            rows.push(row);
        }
    }
    let mut list = object!({"kind": "APIResourceList"});
    // The oldest list has never said of which version it is itself.
    if !group.is_empty() {
        list.insert("apiVersion", "v1");
    }
    list.insert("groupVersion", meta::join_api_version(group, version));
    list.insert("resources", rows);
    Value::Object(list)
}

fn aggregated_group(group: &'static Group) -> Map {
    let versions = group.versions.iter().map(|version| {
        let resources: Value = registry::resources_of(group.name, version)
            .map(|one| aggregated_resource(one, one.verbs))
            .collect();
        object!({"version": (*version), "resources": resources, "freshness": "Current"})
    });
    let mut metadata = Map::new();
    if !group.name.is_empty() {
        metadata.insert("name", group.name);
    }
    object!({"metadata": metadata, "versions": (versions.collect::<Value>())})
}

fn aggregated_resource(one: &'static Resource, verbs: &[&str]) -> Map {
    let kind = |group: &str, version: &str, kind: &str| {
        // The resource's own group and version are left out, but for custom ones.
        let own = (group, version) == (one.group, one.version) && !one.is_custom();
        object!({
            "group": (if own { "" } else { group }),
            "version": (if own { "" } else { version }),
            "kind": kind
        })
    };
    let mut row = object!({
        "resource": (one.plural),
        "responseKind": (kind(one.group, one.version, one.kind)),
        "scope": (if one.namespaced { "Namespaced" } else { "Cluster" }),
        "singularResource": (one.singular),
        "verbs": verbs
    });
    texts(&mut row, "shortNames", one.short_names);
    texts(&mut row, "categories", one.categories);
    if !one.subresources.is_empty() {
        let subresources = one.subresources.iter().map(|sub| {
            object!({
                "subresource": (sub.name),
                "responseKind": (kind(sub.group, sub.version, sub.kind)),
                "verbs": (sub.verbs)
            })
        });
        row.insert("subresources", subresources.collect::<Value>());
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(name: &str) -> Option<Value> {
        let output = std::process::Command::new("go")
            .args(["env", "GOMODCACHE"])
            .output()
            .ok()?;
        let cache = String::from_utf8(output.stdout).ok()?;
        let path = format!(
            "{}/k8s.io/kubernetes@v1.36.3/api/discovery/{name}.json",
            cache.trim()
        );
        Value::from_slice(&std::fs::read(path).ok()?).ok()
    }

    fn read(path: &str) -> Value {
        Value::from_slice(&DOCUMENTS[path]).unwrap()
    }

    #[test]
    fn every_stable_version_lists_what_is_published() {
        if published("api__v1").is_none() {
            println!("skipped: the Go module of Kubernetes 1.36.3 is not in Go's cache");
            return;
        }
        for group in registry::groups() {
            for version in group.versions {
                let (path, file) = if group.name.is_empty() {
                    (format!("/api/{version}"), format!("api__{version}"))
                } else {
                    let path = format!("/apis/{}/{version}", group.name);
                    (path, format!("apis__{}__{version}", group.name))
                };
                let (ours, stock) = (read(&path), published(&file).unwrap());
                assert_eq!(ours.path(&["groupVersion"]), stock.path(&["groupVersion"]));
                let rows = stock.items_at(&["resources"]);
                assert_eq!(ours.items_at(&["resources"]).len(), rows.len(), "{path}");
                for row in rows {
                    assert!(ours.items_at(&["resources"]).contains(row), "{path}: {row}");
                }
            }
        }
    }

    #[test]
    fn the_aggregated_form_has_the_published_resources() {
        let Some(stock) = published("aggregated_v2") else {
            println!("skipped: the Go module of Kubernetes 1.36.3 is not in Go's cache");
            return;
        };
        let ours = Value::from_slice(&AGGREGATED["/apis"].body).unwrap();
        for group in ours.items_at(&["items"]) {
            let name = group.str_at(&["metadata", "name"]);
            let same = stock
                .items_at(&["items"])
                .iter()
                .find(|one| one.str_at(&["metadata", "name"]) == name);
            for version in group.items_at(&["versions"]) {
                assert!(
                    same.unwrap().items_at(&["versions"]).contains(version),
                    "{name:?}"
                );
            }
        }
    }

    #[test]
    fn media_types_are_known_whatever_else_is_asked() {
        let accept = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_str(text).expect("text"));
            representable(&headers, MEDIA_TYPES).map_err(|status| status.code)
        };
        assert_eq!(accept("text/html, application/json;as=Pie"), Ok(()));
        assert_eq!(accept("*/*;q=0.1"), Ok(()));
        assert_eq!(accept("text/html"), Err(406));
        assert_eq!(
            representable(&HeaderMap::new(), MEDIA_TYPES).map_err(|_| ()),
            Ok(())
        );
    }
}
