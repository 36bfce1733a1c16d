//! Storage version migration: rewrites, without changes, each object that is still stored in an
//! older API version, so that the server stores it in the current one.

use std::collections::BTreeMap;

use control_client::{Client, Discard, Error as ClientError, Patch, Resource};
use http::Method;
use serde_json::{Value, json};

use crate::error::Error;

/// The number of objects per page.
const PAGE: usize = 200;
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);

/// Objects of which some may be stored in another version than now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stale {
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    base: String,
    /// The plural name.
    resource: String,
}

/// A definition of custom resources whose objects may be stored in several versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    name: String,
    revision: String,
    /// The version in which objects are stored now.
    storage: String,
    /// Its objects.
    stale: Stale,
}

/// The built-in resources that are stored otherwise than `before`, by the hashes of discovery;
/// of each group's versions one is enough.
pub fn changed(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<Stale> {
    let mut found: BTreeMap<(String, String), Stale> = BTreeMap::new();
    for (name, hash) in now {
        let is_same = before.get(name).is_none_or(|before| before == hash);
        let Some((version, resource)) = name.rsplit_once('/').filter(|_| !is_same) else {
            continue;
        };
        let (group, base) = match version.split_once('/') {
            Some((group, _)) => (group, format!("/apis/{version}")),
            None => ("", format!("/api/{version}")),
        };
        let stale = Stale {
            base,
            resource: resource.to_owned(),
        };
        found
            .entry((group.to_owned(), resource.to_owned()))
            .or_insert(stale);
    }
    found.into_values().collect()
}

/// The definitions of a list whose objects may be stored in several versions.
pub fn of_definitions(list: &Value) -> Vec<Definition> {
    let definitions = list["items"].as_array().into_iter().flatten();
    definitions
        .filter_map(|definition| {
            let versions = definition["spec"]["versions"].as_array()?;
            let storage = versions.iter().find(|version| version["storage"] == true)?;
            let storage = storage["name"].as_str()?;
            let stored = definition["status"]["storedVersions"].as_array()?;
            if stored.iter().all(|version| version == storage) {
                return None;
            }
            let served = versions.iter().find(|version| version["served"] == true)?;
            let group = definition["spec"]["group"].as_str()?;
            let stale = Stale {
                base: format!("/apis/{group}/{}", served["name"].as_str()?),
                resource: definition["spec"]["names"]["plural"].as_str()?.to_owned(),
            };
            let text = |name: &str| Some(definition["metadata"][name].as_str()?.to_owned());
            Some(Definition {
                name: text("name")?,
                revision: text("resourceVersion")?,
                storage: storage.to_owned(),
                stale,
            })
        })
        .collect()
}

/// Rewrites all objects of resources whose storage version differs from `before`, and
/// those of definitions with several stored versions; returns their number.
///
/// # Errors
/// The API's error.
pub async fn migrate(
    client: &Client,
    before: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> Result<u64, Error> {
    let mut written = 0;
    for stale in changed(before, now) {
        written += rewrite(client, &stale).await?;
    }
    let definitions: Value = client
        .request(Method::GET, DEFINITIONS, None::<&()>)
        .await
        .map_err(Error::Client)?;
    for definition in of_definitions(&definitions) {
        let Definition {
            name,
            revision,
            storage,
            stale,
        } = definition;
        written += rewrite(client, &stale).await?;
        // One that changed may have another storage version by now.
        let body = json!({
            "metadata": {"resourceVersion": revision},
            "status": {"storedVersions": [storage]},
        });
        client
            .patch_status::<Value>(&DEFINITION, "", &name, Patch::Merge(&body))
            .await
            .map_err(Error::Client)?;
        println!("{name} is stored in {storage} alone");
    }
    Ok(written)
}

/// Writes each object of a resource as it is.
async fn rewrite(client: &Client, stale: &Stale) -> Result<u64, Error> {
    let Stale { base, resource } = stale;
    let (mut written, mut token) = (0, String::new());
    loop {
        let path = format!("{base}/{resource}?limit={PAGE}&continue={token}");
        let list: Value = client
            .request(Method::GET, &path, None::<&()>)
            .await
            .map_err(Error::Client)?;
        for item in list["items"].as_array().into_iter().flatten() {
            written += u64::from(put(client, stale, &list, item).await?);
        }
        let next = list["metadata"]["continue"].as_str().unwrap_or_default();
        if next.is_empty() {
            println!("{written} {resource} written anew");
            return Ok(written);
        }
        token = crate::commands::encryption::escaped(next);
    }
}

/// Rewrites one object unchanged; returns whether it did. An object that was changed or
/// deleted in between needs no rewrite.
async fn put(client: &Client, stale: &Stale, list: &Value, item: &Value) -> Result<bool, Error> {
    let Stale { base, resource } = stale;
    let mut object = item.clone();
    // Items of a list do not repeat their type.
    let kind = list["kind"].as_str().unwrap_or_default();
    object["kind"] = kind.trim_end_matches("List").into();
    object["apiVersion"] = list["apiVersion"].clone();
    let name = item["metadata"]["name"].as_str().unwrap_or_default();
    let path = match item["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{base}/namespaces/{namespace}/{resource}/{name}"),
        None => format!("{base}/{resource}/{name}"),
    };
    let done: Result<Discard, ClientError> =
        client.request(Method::PUT, &path, Some(&object)).await;
    match done {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(false),
        Err(error) => Err(Error::Client(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_whose_storage_changed_are_written_once_a_group() {
        let map = |all: &[(&str, &str)]| {
            let pairs = all
                .iter()
                .map(|(name, hash)| ((*name).into(), (*hash).into()));
            pairs.collect::<BTreeMap<String, String>>()
        };
        let before = map(&[
            ("v1/pods", "a"),
            ("autoscaling/v1/horizontalpodautoscalers", "b"),
            ("autoscaling/v2/horizontalpodautoscalers", "b"),
            ("old/v1/gone", "c"),
        ]);
        let now = map(&[
            ("v1/pods", "a"),
            ("autoscaling/v1/horizontalpodautoscalers", "x"),
            ("autoscaling/v2/horizontalpodautoscalers", "x"),
            ("new/v1/things", "d"),
        ]);
        assert_eq!(
            changed(&before, &now),
            [Stale {
                base: "/apis/autoscaling/v1".to_owned(),
                resource: "horizontalpodautoscalers".to_owned(),
            }]
        );
        assert_eq!(changed(&BTreeMap::new(), &now), []);
        let core = changed(&map(&[("v1/pods", "a")]), &map(&[("v1/pods", "b")]));
        assert_eq!(core[0].base, "/api/v1");
    }

    #[test]
    fn definitions_with_several_stored_versions_are_found() {
        let definition = |name: &str, stored: &[&str]| {
            json!({
                "metadata": {"name": name, "resourceVersion": "7"},
                "spec": {
                    "group": "example.com",
                    "names": {"plural": "things"},
                    "versions": [
                        {"name": "v1", "served": true, "storage": false},
                        {"name": "v2", "served": true, "storage": true},
                    ],
                },
                "status": {"storedVersions": stored},
            })
        };
        let list = json!({"items": [
            definition("a", &["v2"]),
            definition("b", &["v1", "v2"]),
            {"metadata": {"name": "c"}},
        ]});
        let found = of_definitions(&list);
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].name, &*found[0].storage), ("b", "v2"));
        assert_eq!(found[0].stale.base, "/apis/example.com/v1");
    }
}
