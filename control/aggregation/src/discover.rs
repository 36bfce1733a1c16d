//! What other servers have: read from their discovery, in today's form or the
//! one before it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control_types::value::{Map, Value};
use control_types::{object, value};
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};

use crate::aggregator::Aggregator;
use crate::headers;
use crate::remote::{DiscoveredVersion, Remote};
use control_openapi::Swagger;
use control_proxy::egress::client::explain;
use control_request::body;

/// How old what is known may be before it is read again.
const OLD: Duration = Duration::from_secs(60);
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes that are read of an answer.
const LIMIT: usize = 16 << 20;
const JSON: &str = "application/json";
/// Today's forms.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
     application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// Why discovery cannot be read.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{0}")]
    Registration(String),
    #[error("no answer from {url}: {why}")]
    NoAnswer { url: String, why: String },
    #[error("{url} answered {code}")]
    Refused { url: String, code: u16 },
    #[error("what {url} answered is no JSON")]
    NoJson { url: String },
}

/// What discovery says of a server.
pub(super) fn entry(remote: &Remote) -> Value {
    match &*remote.discovered.load() {
        Some(known) => known.entry.clone(),
        None => stale_entry(remote),
    }
}

fn stale_entry(remote: &Remote) -> Value {
    value!({"version": (remote.version.as_str()), "freshness": "Stale"})
}

/// Says that nothing is known of a server that cannot be reached.
pub(super) fn stale(aggregator: &Aggregator, remote: &Remote) {
    put(
        aggregator,
        remote,
        DiscoveredVersion::from_entry(stale_entry(remote)),
    );
}

/// Reads a server's discovery, if what is known is old.
pub(super) async fn renew(aggregator: &Aggregator, remote: &Remote, address: &str) {
    let young = |known: &Arc<DiscoveredVersion>| known.read.is_some_and(|at| at.elapsed() < OLD);
    if remote.discovered.load().as_ref().is_some_and(young) {
        return;
    }
    match read(remote, address).await {
        Ok(entry) => {
            let discovered = DiscoveredVersion {
                entry,
                document: document(remote, address).await,
                swagger: swagger(remote, address).await,
                read: Some(Instant::now()),
            };
            put(aggregator, remote, discovered);
        }
        Err(error) => {
            tracing::warn!(name = %remote.name, %error, "an API service's discovery cannot be read");
            let mut last = entry(remote);
            last.insert("freshness", "Stale");
            put(aggregator, remote, DiscoveredVersion::from_entry(last));
        }
    }
}

fn put(aggregator: &Aggregator, remote: &Remote, now: DiscoveredVersion) {
    let known = remote.discovered.load();
    let same = known.as_ref().is_some_and(|known| known.entry == now.entry);
    remote.discovered.store(Some(Arc::new(now)));
    if !same {
        aggregator.changed();
    }
}

async fn read(remote: &Remote, address: &str) -> Result<Value, Error> {
    if let Ok(Some((list, _))) = get(remote, address, "/apis", AGGREGATED, "").await {
        let mut entry = of_aggregated(&list, &remote.group, &remote.version)
            .unwrap_or_else(|| value!({"version": (remote.version.as_str())}));
        entry.insert("freshness", "Current");
        return Ok(entry);
    }
    let path = remote.path();
    let list = get(remote, address, &path, JSON, "").await?;
    let (list, _) = list.unwrap_or_default();
    Ok(of_list(&remote.version, &list))
}

/// Where a server's document of OpenAPI 3 is; nothing if it has none.
async fn document(remote: &Remote, address: &str) -> Option<String> {
    let index = get(remote, address, "/openapi/v3", JSON, "").await;
    let (index, _) = index.ok().flatten()?;
    let place = remote.path();
    let url = index.str_at(&["paths", place.trim_start_matches('/'), "serverRelativeURL"])?;
    // Only what is asked of the very server is a place there.
    url.starts_with("/openapi/v3/").then(|| url.to_owned())
}

/// What its document of OpenAPI 2 says of it. Most of it is about other versions, so
/// it is only read when it has become another; it is kept when it cannot be read.
async fn swagger(remote: &Remote, address: &str) -> Option<Arc<Swagger>> {
    let known = remote.discovered.load_full();
    let known = known.and_then(|known| known.swagger.clone());
    let etag = known.as_ref().map_or("", |known| &known.etag);
    match get(remote, address, "/openapi/v2", JSON, etag).await {
        Ok(Some((document, etag))) => {
            Some(Arc::new(Swagger::below(&remote.path(), &document, etag)))
        }
        Ok(None) => known,
        // It has none.
        Err(Error::Refused { code: 404, .. }) => None,
        Err(error) => {
            tracing::debug!(name = %remote.name, %error, "an API service's OpenAPI cannot be read");
            known
        }
    }
}

/// Asks for a document, and how its state is called; nothing if it comes in another
/// form than was asked for, or if it is still the one of that `etag`.
async fn get(
    remote: &Remote,
    address: &str,
    path: &str,
    accept: &'static str,
    etag: &str,
) -> Result<Option<(Value, String)>, Error> {
    let connection = remote
        .connection()
        .map_err(|error| Error::Registration(explain(error)))?;
    let url = format!("https://{address}{path}");
    let no_answer = |why: String| Error::NoAnswer {
        url: url.clone(),
        why,
    };
    let mut request = Request::get(&url)
        .header(ACCEPT, accept)
        .body(body::empty())
        .map_err(|error| no_answer(error.to_string()))?;
    if let Ok(etag) = HeaderValue::from_str(etag)
        && !etag.is_empty()
    {
        request.headers_mut().insert(IF_NONE_MATCH, etag);
    }
    headers::identify(request.headers_mut(), &headers::aggregator());
    let asked = async {
        let response = connection
            .client
            .request(request)
            .await
            .map_err(|error| no_answer(explain(&error)))?;
        if response.status() == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        if response.status() != StatusCode::OK {
            return Err(Error::Refused {
                url: url.clone(),
                code: response.status().as_u16(),
            });
        }
        let aggregated = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.contains("g=apidiscovery.k8s.io"));
        if aggregated != (accept == AGGREGATED) {
            return Ok(None);
        }
        let etag = response.headers().get(ETAG);
        let etag = etag.and_then(|etag| etag.to_str().ok());
        let etag = etag.unwrap_or_default().to_owned();
        let bytes = Limited::new(response.into_body(), LIMIT)
            .collect()
            .await
            .map_err(|error| no_answer(explain(&*error)))?
            .to_bytes();
        Value::from_slice(&bytes)
            .map(|document| Some((document, etag)))
            .map_err(|_| Error::NoJson { url: url.clone() })
    };
    tokio::time::timeout(TIMEOUT, asked)
        .await
        .unwrap_or_else(|_| Err(no_answer("context deadline exceeded".to_owned())))
}

/// A version's entry of an `APIGroupDiscoveryList`.
fn of_aggregated(list: &Value, group: &str, version: &str) -> Option<Value> {
    let mut entry = list
        .items_at(&["items"])
        .iter()
        .find(|one| one.str_at(&["metadata", "name"]).unwrap_or_default() == group)?
        .items_at(&["versions"])
        .iter()
        .find(|one| one.str_at(&["version"]) == Some(version))?
        .clone();
    // Clients of some releases rely on there being a kind.
    let complete = |resource: &mut Value| {
        if resource.get("responseKind").is_none_or(Value::is_null) {
            let none = value!({"group": "", "version": "", "kind": ""});
            resource.insert("responseKind", none);
        }
    };
    let resources = entry.get_mut("resources").and_then(Value::as_array_mut);
    for resource in resources.into_iter().flatten() {
        complete(resource);
        let subresources = resource
            .get_mut("subresources")
            .and_then(Value::as_array_mut);
        subresources.into_iter().flatten().for_each(complete);
    }
    Some(entry)
}

/// The entry that an `APIResourceList` makes.
fn of_list(version: &str, list: &Value) -> Value {
    let mut resources: Vec<Map> = Vec::new();
    let text = |one: &Value, key: &str| one.str_at(&[key]).unwrap_or_default().to_owned();
    let kind = |one: &Value| {
        object!({
            "group": (text(one, "group")), "version": (text(one, "version")), "kind": (text(one, "kind"))
        })
    };
    let verbs = |one: &Value| one.get("verbs").cloned().unwrap_or_default();
    for one in list.items_at(&["resources"]) {
        let name = text(one, "name");
        if name.contains('/') {
            continue;
        }
        let namespaced = one.bool_at(&["namespaced"]) == Some(true);
        let mut row = object!({
            "resource": (name.as_str()),
            "responseKind": (kind(one)),
            "scope": (if namespaced { "Namespaced" } else { "Cluster" }),
            "singularResource": (text(one, "singularName")),
            "verbs": (verbs(one))
        });
        for key in ["shortNames", "categories"] {
            if !one.items_at(&[key]).is_empty() {
                row.insert(key, one.get(key).cloned().unwrap_or_default());
            }
        }
        let below: Vec<Map> = list
            .items_at(&["resources"])
            .iter()
            .filter_map(|sub| {
                let name_of_sub = sub.str_at(&["name"])?;
                let (parent, rest) = name_of_sub.split_once('/')?;
                (parent == name).then(|| {
                    object!({"subresource": rest, "responseKind": (kind(sub)), "verbs": (verbs(sub))})
                })
            })
            .collect();
        if !below.is_empty() {
            row.insert("subresources", below);
        }
        resources.push(row);
    }
    value!({"version": version, "resources": resources, "freshness": "Current"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_resources_becomes_an_entry() {
        let list = value!({"kind": "APIResourceList", "resources": [
            {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
             "verbs": ["get"], "shortNames": ["fl"]},
            {"name": "flunders/status", "singularName": "", "namespaced": true, "kind": "Flunder",
             "verbs": ["update"]}
        ]});
        assert_eq!(
            of_list("v1", &list),
            value!({"version": "v1", "resources": [{
                "resource": "flunders",
                "responseKind": {"group": "", "version": "", "kind": "Flunder"},
                "scope": "Namespaced", "singularResource": "flunder", "verbs": ["get"],
                "shortNames": ["fl"],
                "subresources": [{
                    "subresource": "status",
                    "responseKind": {"group": "", "version": "", "kind": "Flunder"},
                    "verbs": ["update"]
                }]
            }], "freshness": "Current"})
        );
    }

    #[test]
    fn a_version_is_found_in_the_aggregated_form_and_has_kinds() {
        let list = value!({"items": [
            {"metadata": {"name": "a"}, "versions": [
                {"version": "v1", "resources": [{"resource": "x", "subresources": [{"subresource": "y"}]}]}
            ]},
            {"metadata": {"name": "b"}, "versions": [{"version": "v1"}]}
        ]});
        let none = value!({"group": "", "version": "", "kind": ""});
        assert_eq!(
            of_aggregated(&list, "a", "v1"),
            Some(value!({"version": "v1", "resources": [{
                "resource": "x",
                "subresources": [{"subresource": "y", "responseKind": (none.clone())}],
                "responseKind": (none)
            }]}))
        );
        assert_eq!(of_aggregated(&list, "a", "v2"), None);
    }
}
