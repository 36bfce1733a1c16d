//! GET of one object: the cache's bytes.

use control_types::status::Status;

use crate::context::Context;
use crate::reply::{self, Answer};
use crate::served_resource::ServedResource;
use control_request::negotiate::Format;
use control_request::options::parse_revision;

/// What Go reads as true.
const EXPORT: [&str; 6] = ["1", "t", "T", "true", "TRUE", "True"];

/// Answers one object.
///
/// # Errors
/// 404 when there is none; 504 for a resource version from the future.
pub async fn get(context: &Context, served: &ServedResource) -> Answer {
    let format = Format::negotiate(&context.parts.headers, context.query())?;
    if context
        .query_value("export")
        .is_some_and(|wanted| EXPORT.contains(&wanted.as_str()))
    {
        return Err(Status::bad_request(
            "the export parameter, deprecated since v1.14, is no longer supported",
        ));
    }
    let version = context.query_value("resourceVersion").unwrap_or_default();
    let span = control_tracing::child("cacher.Get");
    match parse_revision(&version)? {
        None => context.registry.catch_up().await?,
        Some(0) => {}
        Some(revision) => context.registry.reach(revision).await?,
    }
    drop(span);
    let key = served.key(&context.info.namespace, &context.info.name);
    let object = served
        .cache()?
        .get(&key)
        .ok_or_else(|| served.not_found(&key))?;
    reply::acceptable_for_one(served.resource, format)?;
    let object = served.in_version(&context.registry, object).await?;
    reply::object(200, served.json(&object)?, &served.kind, format)
}
