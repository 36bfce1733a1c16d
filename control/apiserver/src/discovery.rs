//! Discovery: which groups, versions and resources there are.
//!
//! The tables never change while the server runs, so every document is made
//! once. Clients of today ask for the aggregated form by `Accept` and get the
//! whole API with two requests; older ones walk from `/api` and `/apis`.

use std::sync::LazyLock;

use bytes::Bytes;
use control_types::object;
use control_types::registry::{self, Group, Resource};
use control_types::value::{Map, Value};
use control_types::{meta, value};
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

/// A document ready to be sent.
#[derive(Clone, Debug)]
pub struct Document {
    /// The bytes.
    pub body: Bytes,
    /// Their media type.
    pub content_type: &'static str,
    /// Quoted hash of the bytes, for `ETag`.
    pub etag: String,
}

impl Document {
    /// The document of a value, with its hash.
    #[must_use]
    pub fn json(value: &Value, content_type: &'static str) -> Self {
        let body = Bytes::from(value.to_vec());
        let etag = format!("\"{}\"", hash(&body));
        Self {
            body,
            content_type,
            etag,
        }
    }
}

/// SHA-256 of some bytes, in upper case hexadecimal as stock servers print it.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect()
}

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const V2BETA1: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// The discovery document at a path, when there is one: `/api`, `/apis`,
/// `/api/v1`, `/apis/<group>`, `/apis/<group>/<version>`. The aggregated form of
/// the first two goes to those whose `Accept` prefers it.
#[must_use]
pub fn document(path: &str, accept: &str) -> Option<&'static Document> {
    let path = path.trim_end_matches('/');
    match (path, aggregated(accept)) {
        ("/api" | "/apis", Some(form)) => DOCUMENTS.get(&format!("{path} {form}")),
        _ => DOCUMENTS.get(path),
    }
}

/// The plain form of `/api`, which also says where this server is reached.
#[must_use]
pub fn versions(address: std::net::SocketAddr) -> Value {
    let server = address.to_string();
    value!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server}]
    })
}

/// The aggregated form that stands first in `Accept`, before any plain one.
fn aggregated(accept: &str) -> Option<&'static str> {
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters: Vec<&str> = parts.collect();
        let has = |parameter: &str| parameters.contains(&parameter);
        if media != "application/json" {
            continue;
        }
        if !has("as=APIGroupDiscoveryList") {
            return None;
        }
        if has("g=apidiscovery.k8s.io") && has("v=v2") {
            return Some(V2);
        }
        if has("g=apidiscovery.k8s.io") && has("v=v2beta1") {
            return Some(V2BETA1);
        }
    }
    None
}

static DOCUMENTS: LazyLock<FxHashMap<String, Document>> = LazyLock::new(|| {
    let mut out = FxHashMap::default();
    let mut put = |path: String, value: Value, content_type| {
        out.insert(path, Document::json(&value, content_type));
    };
    let plain = "application/json";
    let named = || {
        registry::groups()
            .iter()
            .filter(|group| !group.name.is_empty())
    };
    let groups: Value = named().map(group_of).collect();
    put(
        "/apis".into(),
        value!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}),
        plain,
    );
    for (form, version) in [(V2, "v2"), (V2BETA1, "v2beta1")] {
        let list = |items: Value| {
            value!({
                "kind": "APIGroupDiscoveryList",
                "apiVersion": (format!("apidiscovery.k8s.io/{version}")),
                "metadata": {},
                "items": items
            })
        };
        let core = registry::groups()
            .iter()
            .filter(|group| group.name.is_empty());
        put(
            format!("/api {form}"),
            list(core.map(aggregated_group).collect()),
            form,
        );
        put(
            format!("/apis {form}"),
            list(named().map(aggregated_group).collect()),
            form,
        );
    }
    for group in registry::groups() {
        if !group.name.is_empty() {
            let mut one = object!({"kind": "APIGroup", "apiVersion": "v1"});
            if let Value::Object(rest) = group_of(group) {
                one.extend(rest);
            }
            put(format!("/apis/{}", group.name), Value::Object(one), plain);
        }
        for version in group.versions {
            let path = if group.name.is_empty() {
                format!("/api/{version}")
            } else {
                format!("/apis/{}/{version}", group.name)
            };
            put(path, resource_list(group.name, version), plain);
        }
    }
    out
});

fn group_of(group: &Group) -> Value {
    let version = |version: &&str| {
        object!({
            "groupVersion": (meta::join_api_version(group.name, version)),
            "version": (*version)
        })
    };
    let versions: Value = group.versions.iter().map(version).collect();
    let preferred = group.versions.first().map(version);
    value!({"name": (group.name), "versions": versions, "preferredVersion": preferred})
}

fn texts(map: &mut Map, key: &'static str, items: &[&str]) {
    if !items.is_empty() {
        map.insert(key, items);
    }
}

fn resource_list(group: &'static str, version: &'static str) -> Value {
    let mut rows: Vec<Map> = Vec::new();
    for one in registry::resources_of(group, version) {
        let mut row = object!({
            "name": (one.plural),
            "singularName": (one.singular),
            "namespaced": (one.namespaced),
            "kind": (one.kind),
            "verbs": (one.verbs)
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
            .map(aggregated_resource)
            .collect();
        object!({"version": (*version), "resources": resources, "freshness": "Current"})
    });
    let mut metadata = Map::new();
    if !group.name.is_empty() {
        metadata.insert("name", group.name);
    }
    object!({"metadata": metadata, "versions": (versions.collect::<Value>())})
}

fn aggregated_resource(one: &'static Resource) -> Map {
    let kind = |group: &str, version: &str, kind: &str| {
        // The resource's own group and version are left out.
        let own = (group, version) == (one.group, one.version);
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
        "verbs": (one.verbs)
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

    fn read(path: &str, accept: &str) -> Value {
        Value::from_slice(&document(path, accept).unwrap().body).unwrap()
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
                let (ours, stock) = (read(&path, ""), published(&file).unwrap());
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
        let ours = read("/apis", V2);
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
    fn the_form_follows_accept() {
        let client = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_eq!(document("/apis", client).unwrap().content_type, V2);
        assert_eq!(document("/api", client).unwrap().content_type, V2);
        assert_eq!(
            document("/apis", "application/json").unwrap().content_type,
            "application/json"
        );
        assert_eq!(
            document("/apis", "*/*").unwrap().content_type,
            "application/json"
        );
        assert_eq!(
            document("/apis/apps/v1", client).unwrap().content_type,
            "application/json"
        );
        assert!(document("/apis/nope", "").is_none());
    }
}
