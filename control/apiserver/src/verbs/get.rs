//! GET of one object: the cache's bytes.

use crate::api::Served;
use crate::chain::Context;
use crate::negotiate::Format;
use crate::options::parse_revision;
use crate::reply::{self, Answer};

/// Answers one object.
///
/// # Errors
/// 404 when there is none; 504 for a resource version from the future.
pub async fn get(context: &Context, served: &Served) -> Answer {
    let format = Format::of(&context.parts.headers, context.query())?;
    if format.of_list {
        return Err(reply::not_acceptable_shape(served.resource, false));
    }
    let version = context.query_value("resourceVersion").unwrap_or_default();
    match parse_revision(&version)? {
        None => context.api.catch_up().await?,
        Some(0) => {}
        Some(revision) => context.api.reach(revision).await?,
    }
    let key = served.key(&context.info.namespace, &context.info.name);
    let object = served
        .cache()?
        .get(&key)
        .ok_or_else(|| served.not_found(&key))?;
    let object = served.in_version(&context.api, object).await?;
    reply::object(200, served.json(&object)?, &served.kind, format)
}
