//! From what is asked for to the handler that does it.

use std::sync::Arc;

use control_types::registry;
use control_types::status::{Status, quote};
use http::Method;

use crate::api::Api;
use crate::{components, encryption, health, metrics_page, pprof, subresources, zpages};
use control_auth::{oidc, reviews};
use control_discovery::{paths, representable};
use control_registry::reply::{self, Answer};
use control_registry::{Context, ServedResource, verbs};
use control_request::RequestInfo;
use control_request::body::Body;
use control_request::negotiate::{self, Media};
use control_strategy::ResourceStrategy;

/// Finds the handler of a request and lets it answer.
///
/// # Errors
/// What the handler answers; 404 and 405 for what nobody handles.
pub async fn route(api: &Api, mut context: Context, body: Body) -> Answer {
    let info = &context.info;
    if info.path.starts_with("//") {
        // It is read as if the slashes were one, but nothing is served there.
        return unknown(&context);
    }
    if let Some(projected) = api.projected.iter().find(|one| one.is_for(info)) {
        return projected.answer(context).await;
    }
    if let Some(remote) = api.aggregator.remote_for(info) {
        if remote.is_local() {
            return api.node_metrics.answer(&context);
        }
        return control_aggregation::proxy(&context, &remote, body).await;
    }
    if !info.is_resource {
        if info.path.starts_with("/openapi/") {
            let path = context.parts.uri.path();
            let answer = api.openapi.answer(&context, path).await;
            return answer.map_or_else(|| unknown(&context), Ok);
        }
        if info.path.starts_with("/apis") {
            api.definitions.refresh(api).await?;
        }
        if info.path == encryption::PATH {
            return encryption::answer(&context, &api.config.encryption).await;
        }
        return paths(api, &context).await;
    }
    let Some(served) = api
        .served_now(&info.group, &info.version, &info.resource)
        .await?
    else {
        return unknown(&context);
    };
    let resource = served.resource;
    if resource.is_custom() && context.info.subresource != "scale" {
        negotiate::without_protobuf(&mut context.request.parts.headers);
    }
    let info = &context.info;
    // Only proxies take what follows a subresource; the old form of a watch, and
    // of proxies, has none.
    let is_proxy = info.subresource == "proxy";
    let old_form = info.watch_prefix || info.verb == "proxy";
    if (!info.rest.is_empty() && !is_proxy)
        || (old_form && !info.subresource.is_empty())
        || info.verb == "proxy"
    {
        return Err(Status::unknown_path());
    }
    if info.watch_prefix && context.parts.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    if resource.namespaced {
        // Objects of a namespace are read across all namespaces, but written
        // in one only.
        if info.namespace.is_empty() && info.name_in_path {
            if resource.is_custom() {
                return unknown(&context);
            }
            return Err(Status::unknown_path());
        }
        if info.namespace.is_empty() && served.is_review() {
            // What can only be made has no path across namespaces.
            return Err(Status::unknown_path());
        }
        if info.namespace.is_empty() && !matches!(info.verb, "list" | "watch") {
            if resource.is_custom() {
                return unknown(&context);
            }
            return Err(Status::method_not_allowed());
        }
    } else if !info.namespace.is_empty() && resource.plural != "namespaces" {
        if resource.is_custom() {
            return unknown(&context);
        }
        return Err(Status::unknown_path());
    }
    if info.name_in_path
        && context.parts.method != Method::POST
        && let Some(why) = no_segment(&info.name)
    {
        let name = quote(&info.name);
        let why = format!("Name parameter invalid: {name}: {why}");
        return Err(Status::bad_request(why));
    }
    if let ResourceStrategy::Custom(kind, _) = &served.kind {
        context.warnings.extend(kind.deprecation.clone());
    }
    if info.subresource.is_empty() {
        object_verbs(api, context, served, body).await
    } else {
        subresources::route(api, context, served, body).await
    }
}

/// Why a name cannot be part of a key; `None`: it can.
fn no_segment(name: &str) -> Option<String> {
    match name {
        "." | ".." => return Some(format!("may not be '{name}'")),
        _ => {}
    }
    let found: Vec<String> = ["/", "%"]
        .iter()
        .filter(|sign| name.contains(**sign))
        .map(|sign| format!("may not contain '{sign}'"))
        .collect();
    (!found.is_empty()).then(|| found.join(";"))
}

async fn object_verbs(
    api: &Api,
    context: Context,
    served: Arc<ServedResource>,
    body: Body,
) -> Answer {
    let info = &context.info;
    let named = info.name_in_path;
    if named && served.is_review() && served.resource.plural != components::PLURAL {
        // What has no objects has no paths for them.
        return Err(Status::unknown_path());
    }
    let verb = match (&context.parts.method, named) {
        (&Method::GET, true) if info.verb == "watch" => "watch",
        (&Method::GET, true) => "get",
        (&Method::GET, false) if info.verb == "watch" => "watch",
        (&Method::GET, false) => "list",
        (&Method::POST, false) => "create",
        // What stands behind the resource is not looked at.
        (&Method::POST, true) if served.resource.is_custom() => "create",
        (&Method::PUT, true) => "update",
        (&Method::PATCH, true) => "patch",
        (&Method::DELETE, true) => "delete",
        (&Method::DELETE, false) => "deletecollection",
        _ => return Err(Status::method_not_allowed()),
    };
    if !served.resource.verbs.contains(&verb) {
        return Err(Status::method_not_allowed());
    }
    negotiate::acceptable(&context.parts.headers, matches!(verb, "list" | "watch"))?;
    if let Some(warning) = deprecation(info) {
        context.warnings.push(warning);
        context.annotate("k8s.io/deprecated", "true");
        let subresource = served.resource.subresource(&info.subresource);
        let subresource = subresource.map_or("", |known| known.name);
        let counts = &api.metrics.requests;
        counts.deprecated(served.resource, subresource);
    }
    match verb {
        "get" | "list" if served.resource.plural == components::PLURAL => {
            components::answer(&context, &api.components, &served).await
        }
        "get" => verbs::get::get(&context, &served).await,
        "list" => verbs::list::list(&context, &served).await,
        "watch" => verbs::watch::watch(&context, &served).await,
        "create" if served.resource.kind.ends_with("Review") => {
            reviews::create(&context, &*api.config.access, &served, body).await
        }
        "create" if served.resource.kind == "Binding" => {
            subresources::bind(&context, &served, body).await
        }
        "create" => verbs::create::create(&context, &served, body).await,
        "update" => verbs::update::update(&context, &served, body).await,
        "patch" => verbs::patch::patch(&context, &served, body).await,
        "delete" => verbs::delete::delete(&context, &served, body).await,
        _ => verbs::deletecollection::delete_collection(&context, &served, body).await,
    }
}

/// What clients of an old API are told with every answer.
fn deprecation(info: &RequestInfo) -> Option<&'static str> {
    match (&*info.group, &*info.version, &*info.resource) {
        ("", "v1", "endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        ("", "v1", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

/// Everything that is no resource.
async fn paths(api: &Api, context: &Context) -> Answer {
    let path = context.info.path.trim_end_matches('/');
    if path.is_empty() || path == "/index.html" {
        return Ok(reply::json(
            200,
            paths::index(&api.definitions.now(), &api.aggregator.now()).to_vec_pretty(),
        ));
    }
    if ["/healthz", "/livez", "/readyz"].iter().any(|root| {
        path.strip_prefix(root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }) {
        if context.info.path.ends_with('/') {
            return unknown(context);
        }
        return Ok(api.health().answer(context, path).await);
    }
    if path == "/metrics" {
        return Ok(metrics_page::metrics_page(api, &context.parts.headers).await);
    }
    if path == "/metrics/slis" {
        return Ok(metrics_page::slis_page(api, &context.parts.headers));
    }
    let settings = &api.config.chain;
    if let Some(page) = zpages::answer(settings, api.started, path, &context.parts.headers) {
        return page;
    }
    if settings.profiling
        && let Some(page) = pprof::answer(&context.info.path)
    {
        return Ok(page);
    }
    if let Some(page) = api.fairness.dump(path, context.query()) {
        return Ok(page);
    }
    if let Some(answer) = api.discovery.answer(context, path)? {
        return Ok(answer);
    }
    let headers = &context.parts.headers;
    let found = match path {
        "/version" => {
            representable(headers, &[Media::Json.content_type()])?;
            Some(reply::json(200, health::version().to_vec_pretty()))
        }
        _ => oidc::document(api.config.access.tokens(), api.config.address(), path),
    };
    match found {
        Some(_) if context.parts.method != Method::GET => Err(Status::method_not_allowed()),
        Some(answer) => Ok(answer),
        None => unknown(context),
    }
}

/// 404: a Status below the roots that an API has, text elsewhere.
fn unknown(context: &Context) -> Answer {
    let path = context.info.path.as_str();
    let below = |root: &str| {
        path.strip_prefix(root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let group = path
        .strip_prefix("/apis/")
        .and_then(|rest| rest.split_once('/'))
        .map(|(group, _)| group)
        .filter(|group| !group.is_empty());
    // Groups that definitions bring have no root of their own.
    let known = group.is_some_and(|group| registry::groups().iter().any(|one| one.name == group))
        || paths::ROOTS.iter().any(|root| below(root));
    if known {
        Err(Status::unknown_path())
    } else {
        Ok(reply::text(404, "404 page not found\n"))
    }
}
