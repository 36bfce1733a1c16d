//! DELETE of all objects that a selection names.

use std::sync::Arc;

use control_types::status::Status;
use control_types::value::Value;
use futures::future::join_all;

use crate::api::Served;
use crate::body::Body;
use crate::cache::Keyed;
use crate::chain::Context;
use crate::negotiate::Format;
use crate::options::ListOptions;
use crate::reply::{self, Answer};
use crate::selection::Selection;
use crate::verbs::{delete, list};

/// How many objects are deleted at the same time: they share the store's commits.
const AT_ONCE: usize = 32;

/// Answers a deletion of a collection with the list of what was deleted.
///
/// # Errors
/// When options are malformed, or an object cannot be deleted.
pub async fn delete_collection(context: &Context, served: &Arc<Served>, body: Body) -> Answer {
    let format = Format::of(&context.parts.headers, context.query())?;
    let list_options = ListOptions::parse(context.query())?;
    list_options.validate(false)?;
    let options = delete::read_options(context, body).await?;
    let selection = Selection::new(served.kind, &context.info.namespace, "", &list_options)?;
    context.api.catch_up().await?;
    let snapshot = list::present(&context.api, served)?;
    let limit = if list_options.limit == 0 {
        usize::MAX
    } else {
        list_options.limit
    };
    let objects: Vec<_> = snapshot
        .objects
        .prefixed(selection.prefix())
        .filter(|object| selection.matches(object))
        .take(limit)
        .cloned()
        .collect();
    let mut items = Vec::with_capacity(objects.len());
    for some in objects.chunks(AT_ONCE) {
        let mut removals = Vec::with_capacity(some.len());
        for object in some {
            removals.push(delete::remove(context, served, object.key(), &options));
        }
        for (object, removed) in some.iter().zip(join_all(removals).await) {
            match removed {
                // The answer is what was found, not what became of it.
                Ok(_) => {
                    let mut object = served.tree(object)?;
                    object.remove("kind");
                    object.remove("apiVersion");
                    items.push(object);
                }
                // Somebody else was faster; the end is the same.
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
    }
    let mut answer = Value::object();
    answer.insert("kind", served.resource.list_kind());
    answer.insert("apiVersion", served.api_version.as_str());
    answer.insert(
        "metadata",
        control_types::value!({"resourceVersion": (snapshot.revision.to_string())}),
    );
    answer.insert("items", Value::Array(items));
    Ok::<_, Status>(reply::value(
        200,
        &answer,
        Format {
            shape: crate::negotiate::Shape::Plain,
            ..format
        },
    ))
}
