//! Subresources: those that hold the whole object take the generic path, the others have
//! handlers of their own.

use std::sync::Arc;

use control_types::status::Status;
use http::Method;

use crate::api::Api;
use control_auth::token_request;
use control_registry::subresources::{binding, eviction, scale};
use control_registry::{Context, ServedResource, verbs};
use control_request::Answer;
use control_request::body::Body;

/// Answers `POST …/bindings`, the older form of a pod's `binding`.
///
/// # Errors
/// What forbids the binding.
pub async fn bind(context: &Context, served: &Arc<ServedResource>, body: Body) -> Answer {
    let pods = context.registry.resource("", "pods")?;
    binding::bind(context, pods, served, body).await
}

/// Finds the handler of a subresource.
///
/// # Errors
/// 404 for subresources that the resource does not have, 405 for methods.
pub async fn route(api: &Api, context: Context, served: Arc<ServedResource>, body: Body) -> Answer {
    let name = context.info.subresource.clone();
    if served.subresource(&name).is_none() {
        if served.resource.is_custom() {
            return Err(served.not_found(&context.info.name));
        }
        return Err(Status::unknown_path());
    }
    let connects = match name.as_str() {
        "exec" | "attach" | "portforward" => {
            matches!(context.parts.method, Method::GET | Method::POST)
        }
        name => name == "proxy",
    };
    if connects
        && context
            .query_value("dryRun")
            .is_some_and(|value| !value.is_empty())
    {
        return Err(Status::bad_request("dryRun is not supported"));
    }
    let whole = matches!(
        name.as_str(),
        "status" | "approval" | "resize" | "ephemeralcontainers"
    );
    if !matches!(
        name.as_str(),
        "log" | "exec" | "attach" | "portforward" | "proxy"
    ) {
        control_request::negotiate::acceptable(&context.parts.headers, false)?;
    }
    match (served.resource.plural, name.as_str(), &context.parts.method) {
        (_, _, &Method::GET) if whole => verbs::get::get(&context, &served).await,
        (_, name, &Method::PUT) if whole => {
            verbs::update::through(&context, &served, name, body).await
        }
        (_, name, &Method::PATCH) if whole => {
            verbs::patch::through(&context, &served, name, body).await
        }
        (_, "scale", &Method::GET) => scale::get(&context, &served).await,
        (_, "scale", &Method::PUT) => scale::update(&context, &served, body).await,
        (_, "scale", &Method::PATCH) => scale::patch(&context, &served, body).await,
        ("serviceaccounts", "token", &Method::POST) => {
            token_request::create(&context, &*api.config.access, &served, body).await
        }
        ("pods", "log", &Method::GET) => api.connector.log(&context, &served).await,
        ("pods", "exec" | "attach" | "portforward", &Method::GET | &Method::POST) => {
            api.connector.stream(&context, &served).await
        }
        (
            _,
            "proxy",
            &Method::GET
            | &Method::HEAD
            | &Method::POST
            | &Method::PUT
            | &Method::PATCH
            | &Method::DELETE
            | &Method::OPTIONS,
        ) => api.connector.proxy(&context, &served, body).await,
        ("pods", "binding", &Method::POST) => binding::bind(&context, &served, &served, body).await,
        ("pods", "eviction", &Method::POST) => eviction::evict(&context, &served, body).await,
        ("namespaces", "finalize", &Method::PUT) => {
            verbs::update::through(&context, &served, "finalize", body).await
        }
        _ => Err(Status::method_not_allowed()),
    }
}
