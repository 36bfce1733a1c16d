//! From a definition to what is served.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_kinds::CustomKind;
use control_strategy::CrdVersions;
use control_types::registry::{CUSTOM, Resource, Storage, Subresource};
use control_types::schema::TypeId;
use control_types::value::Value;
use control_types::{intern, meta};
use sha2::{Digest, Sha256};

use super::conversion::{ConversionWebhooks, Converter};
use crate::served_resource::ServedResource;
use control_strategy::{ResourceStrategy, ServedVersion};
use control_watch_cache::ResourceCache;

/// What every custom resource can do.
const VERBS: &[&str] = &[
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
/// What their subresources can do.
const PARTIAL_VERBS: &[&str] = &["get", "patch", "update"];

/// What the keys of a custom resource begin with in the store.
#[must_use]
pub fn prefix(group: &str, plural: &str) -> String {
    format!("/registry/{group}/{plural}/")
}

/// What a definition makes. Clones are the same.
#[derive(Clone)]
pub(super) struct CrdInfo {
    pub crd: Arc<CrdVersions>,
    pub cache: Arc<ResourceCache>,
    /// One for each version that is served.
    pub served: Vec<Arc<ServedResource>>,
}

impl CrdInfo {
    /// Whether it is another clone of the same.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.crd, &other.crd)
    }
}

/// Makes all that is served of a definition; `None` when it has no version in
/// which objects are stored.
pub(super) fn build(definition: &Value, webhooks: &ConversionWebhooks) -> Option<CrdInfo> {
    let text = |path: &[&str]| definition.str_at(path).unwrap_or_default();
    let versions = definition.items_at(&["spec", "versions"]);
    let kinds: Box<[Arc<CustomKind>]> = versions
        .iter()
        .map(|version| Arc::new(CustomKind::new(definition, version)))
        .collect();
    let stored = versions
        .iter()
        .position(|version| version.bool_at(&["storage"]) == Some(true))?;
    let converter = Converter::from_definition(definition, webhooks).map(Arc::new);
    let crd = Arc::new(CrdVersions::new(
        kinds,
        format!(
            "{},{}",
            meta::uid(definition),
            definition
                .i64_at(&["metadata", "generation"])
                .unwrap_or_default()
        ),
        converter.is_some(),
    ));
    let storage = Arc::clone(&crd.kinds()[stored]);
    let prefix = prefix(storage.group, text(&["spec", "names", "plural"]));
    let storage_version = storage.version;
    let strategy = ResourceStrategy::Custom(storage, Arc::clone(&crd));
    let cache = Arc::new(ResourceCache::new(strategy, &prefix));
    let served = versions
        .iter()
        .zip(crd.kinds())
        .filter(|(version, _)| version.bool_at(&["served"]) == Some(true))
        .filter_map(|(_, kind)| {
            let resource = resource(definition, kind, storage_version)?;
            Some(Arc::new(ServedResource {
                version: Arc::new(ServedVersion::new(
                    resource,
                    ResourceStrategy::Custom(Arc::clone(kind), Arc::clone(&crd)),
                    (resource.storage.group, resource.storage.version),
                )),
                cache: Some(Arc::clone(&cache)),
                converter: converter.clone(),
                projection: None,
            }))
        })
        .collect();
    Some(CrdInfo { crd, cache, served })
}

/// The row of the registry that the version would have. The same rows are one:
/// memory grows with what definitions say, not with how often.
fn resource(definition: &Value, kind: &CustomKind, stored: &str) -> Option<&'static Resource> {
    static ROWS: LazyLock<Mutex<HashMap<String, &'static Resource>>> =
        LazyLock::new(Mutex::default);
    let schema = TypeId::by_name(CUSTOM)?;
    let names = definition.path(&["status", "acceptedNames"])?;
    let text = |name: &str| names.str_at(&[name]).unwrap_or_default();
    let list = |name: &str| {
        let items = names.items_at(&[name]).iter();
        intern::texts(items.filter_map(Value::as_str))
    };
    let mut subresources = Vec::new();
    if kind.has_status() {
        subresources.push(Subresource {
            name: "status",
            kind: kind.kind,
            group: kind.group,
            version: kind.version,
            verbs: PARTIAL_VERBS,
            schema,
        });
    }
    if kind.scale().is_some() {
        subresources.push(Subresource {
            name: "scale",
            kind: "Scale",
            group: "autoscaling",
            version: "v1",
            verbs: PARTIAL_VERBS,
            schema,
        });
    }
    let row = |subresources| Resource {
        group: kind.group,
        version: kind.version,
        kind: kind.kind,
        plural: intern::text(
            definition
                .str_at(&["spec", "names", "plural"])
                .unwrap_or_default(),
        ),
        singular: intern::text(text("singular")),
        short_names: list("shortNames"),
        categories: list("categories"),
        namespaced: kind.namespaced,
        verbs: VERBS,
        subresources,
        storage_version_hash: intern::text(&hash(kind.group, stored, kind.kind)),
        storage: Storage {
            group: kind.group,
            version: intern::text(stored),
        },
        schema,
        list_schema: None,
        returns_deleted: false,
    };
    let content = format!("{:?} {subresources:?}", row(&[]));
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = rows.get(&content) {
        return Some(known);
    }
    let kept: &'static Resource = Box::leak(Box::new(row(Box::leak(subresources.into()))));
    rows.insert(content, kept);
    Some(kept)
}

/// Tells clients when the stored version changes, as stock servers compute it.
fn hash(group: &str, version: &str, kind: &str) -> String {
    let hash = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(&hash[..8])
}

#[cfg(test)]
mod tests {
    use control_proxy::Egress;
    use control_types::{registry, value};
    use prometheus_client::registry::Registry;

    use super::super::conversion::ConversionCounts;
    use super::*;

    #[test]
    fn hashes_are_those_of_stock_servers() {
        let pods = registry::lookup("apps", "v1", "deployments").expect("known");
        assert_eq!(hash("apps", "v1", "Deployment"), pods.storage_version_hash);
    }

    #[test]
    fn a_definition_is_served_in_its_versions_and_kept_in_one() {
        let definition = value!({
            "metadata": {"name": "gears.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"},
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                     "schema": {"openAPIV3Schema": {"type": "object"}}},
                    {"name": "v1beta1", "served": true, "storage": false,
                     "schema": {"openAPIV3Schema": {"type": "object"}}},
                    {"name": "v1alpha1", "served": false, "storage": false,
                     "schema": {"openAPIV3Schema": {"type": "object"}}}
                ]
            },
            "status": {"acceptedNames": {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"}}
        });
        let webhooks = ConversionWebhooks {
            egress: Egress::default(),
            counts: ConversionCounts::registered(&mut Registry::default()),
        };
        let built = build(&definition, &webhooks).expect("has a stored version");
        assert_eq!(built.served.len(), 2);
        assert_eq!(built.cache.prefix(), "/registry/example.com/gears/");
        assert!(built.served[0].is_stored_form() && !built.served[1].is_stored_form());
        assert_eq!(built.served[0].resource.subresources.len(), 1);
        assert!(built.crd.version("v1alpha1").is_some());
        // The same facts are one row.
        let again = build(&definition, &webhooks).expect("has a stored version");
        assert!(std::ptr::eq(
            built.served[0].resource,
            again.served[0].resource
        ));
    }
}
