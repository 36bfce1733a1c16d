//! `namespaces/finalize`: who has cleaned up a namespace takes itself off the
//! list; the last one ends the namespace.

use std::sync::Arc;

use control_types::value::Value;

use crate::api::Served;
use crate::body::Body;
use crate::chain::Context;
use crate::decode::{self, Expected};
use crate::managed::{self, Endpoint};
use crate::negotiate::Format;
use crate::options::WriteOptions;
use crate::reply::{self, Answer};
use crate::verbs::update::{check_name, is_finished};
use crate::write::Decision;

/// Replaces `spec.finalizers`.
///
/// # Errors
/// 404 and what cannot be decoded.
pub async fn finalize(context: &Context, served: &Arc<Served>, body: Body) -> Answer {
    let format = Format::of(&context.parts.headers, context.query())?;
    let options = WriteOptions::parse(context.query(), "UpdateOptions", false)?;
    let headers = &context.parts.headers;
    let expected = Expected::of(served);
    let mut given = decode::object(headers, body, expected, options.field_validation)
        .await?
        .object;
    check_name(context, served, &mut given)?;
    let finalizers: Value = given
        .path(&["spec", "finalizers"])
        .cloned()
        .unwrap_or_default();
    let key = served.key("", &context.info.name);
    let writer = managed::manager_of(context, &options);
    let endpoint = Endpoint::of(&context.api, served, "finalize");
    let done = context
        .api
        .modify(served, &key, options.dry_run, None, |current| {
            let before = current.ok_or_else(|| served.not_found(&key))?.object;
            let mut object = before.clone();
            if finalizers.as_array().is_some_and(|list| !list.is_empty()) {
                object.set_path(&["spec", "finalizers"], finalizers.clone());
            } else {
                object.remove_path(&["spec", "finalizers"]);
            }
            endpoint.write(Some(&before), &mut object, &writer);
            Ok(if is_finished(&object) {
                Decision::Delete(object)
            } else {
                Decision::Put(object)
            })
        })
        .await?;
    Ok(reply::value(
        200,
        &reply::shaped(done.object, served.kind, format),
        format,
    ))
}
