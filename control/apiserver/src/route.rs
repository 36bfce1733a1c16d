//! From what is asked for to the handler that does it.

use std::sync::Arc;

use control_types::status::Status;
use http::header::{ACCEPT, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderValue, Method};

use crate::api::Served;
use crate::body::Body;
use crate::chain::Context;
use crate::reply::{self, Answer};
use crate::{discovery, health, oidc, openapi, reviews, subresources, verbs};

/// Finds the handler of a request and lets it answer.
///
/// # Errors
/// What the handler answers; 404 and 405 for what nobody handles.
pub async fn route(context: Context, body: Body) -> Answer {
    let info = &context.info;
    if !info.is_resource {
        return paths(&context);
    }
    let Some(served) = context
        .api
        .served(&info.group, &info.version, &info.resource)
        .cloned()
    else {
        return if context.api.has_version(&info.group, &info.version) {
            Err(Status::unknown_path())
        } else {
            Ok(not_found())
        };
    };
    let resource = served.resource;
    if resource.namespaced {
        // Objects of a namespace are read across all namespaces, but written
        // in one only.
        if info.namespace.is_empty() && info.name_in_path {
            return Err(Status::unknown_path());
        }
        if info.namespace.is_empty()
            && !matches!(info.verb, "list" | "watch")
            && !served.is_review()
        {
            return Err(Status::method_not_allowed());
        }
    } else if !info.namespace.is_empty() && resource.plural != "namespaces" {
        return Err(Status::unknown_path());
    }
    if info.subresource.is_empty() {
        object_verbs(context, served, body).await
    } else {
        subresources::route(context, served, body).await
    }
}

async fn object_verbs(context: Context, served: Arc<Served>, body: Body) -> Answer {
    let info = &context.info;
    let named = info.name_in_path;
    let verb = match (&context.parts.method, named) {
        (&Method::GET | &Method::HEAD, true) if info.verb == "watch" => "watch",
        (&Method::GET | &Method::HEAD, true) => "get",
        (&Method::GET | &Method::HEAD, false) if info.verb == "watch" => "watch",
        (&Method::GET | &Method::HEAD, false) => "list",
        (&Method::POST, false) => "create",
        (&Method::PUT, true) => "update",
        (&Method::PATCH, true) => "patch",
        (&Method::DELETE, true) => "delete",
        (&Method::DELETE, false) => "deletecollection",
        _ => return Err(Status::method_not_allowed()),
    };
    if !served.resource.verbs.contains(&verb) {
        // What has no objects has no paths for them.
        return Err(if served.is_review() && named {
            Status::unknown_path()
        } else {
            Status::method_not_allowed()
        });
    }
    match verb {
        "get" => verbs::get::get(&context, &served).await,
        "list" => verbs::list::list(&context, &served).await,
        "watch" => verbs::watch::watch(&context, &served).await,
        "create" if served.resource.kind.ends_with("Review") => {
            reviews::create(&context, &served, body).await
        }
        "create" => verbs::create::create(&context, &served, body).await,
        "update" => verbs::update::update(&context, &served, body).await,
        "patch" => verbs::patch::patch(&context, &served, body).await,
        "delete" => verbs::delete::delete(&context, &served, body).await,
        _ => verbs::deletecollection::delete_collection(&context, &served, body).await,
    }
}

/// Everything that is no resource.
fn paths(context: &Context) -> Answer {
    if !matches!(context.parts.method, Method::GET | Method::HEAD) {
        return Err(Status::method_not_allowed());
    }
    let path = context.info.path.trim_end_matches('/');
    match path {
        "/version" => Ok(reply::json(200, health::version().to_vec_pretty())),
        "/metrics" => Ok(context.api.metrics.page()),
        _ if ["/healthz", "/livez", "/readyz"].iter().any(|root| {
            path == *root
                || path
                    .strip_prefix(root)
                    .is_some_and(|rest| rest.starts_with('/'))
        }) =>
        {
            Ok(health::health(context, path))
        }
        _ => Ok(oidc::document(context, path)
            .or_else(|| document(context, path))
            .unwrap_or_else(not_found)),
    }
}

/// Discovery and OpenAPI: documents that never change while the server runs.
fn document(context: &Context, path: &str) -> Option<http::Response<Body>> {
    let headers = &context.parts.headers;
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let accept = text(ACCEPT).unwrap_or_default();
    let Some(document) = discovery::document(path, accept).or_else(|| openapi::document(path))
    else {
        let config = &context.api.config;
        let address = (config.advertise_address, config.advertise_port).into();
        return (path == "/api").then(|| {
            let mut response = reply::json(200, discovery::versions(address).to_vec());
            response
                .headers_mut()
                .insert(VARY, HeaderValue::from_static("Accept"));
            response
        });
    };
    let known = text(IF_NONE_MATCH).is_some_and(|known| known == document.etag);
    let mut response = if known {
        reply::bytes(304, document.content_type, "")
    } else {
        reply::bytes(200, document.content_type, document.body.clone())
    };
    response
        .headers_mut()
        .insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(etag) = HeaderValue::from_str(&document.etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    Some(response)
}

/// 404 for paths that belong to no API.
fn not_found() -> http::Response<Body> {
    reply::text(404, "404 page not found\n")
}
