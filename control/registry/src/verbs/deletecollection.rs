//! DELETE of all objects that a selection names.

use std::sync::Arc;

use futures::future::join_all;

use crate::context::Context;
use crate::reply::{self, Answer};
use crate::selection::Selection;
use crate::served_resource::ServedResource;
use crate::verbs::list::Page;
use crate::verbs::{delete, list};
use control_request::body::Body;
use control_request::negotiate::{Format, Shape};
use control_request::options::ListOptions;
use control_watch_cache::TreeEntry;

/// How many objects are deleted at the same time: they share the store's commits.
const AT_ONCE: usize = 32;

/// Answers a deletion of a collection with the list of what was deleted.
///
/// # Errors
/// When options are malformed, or an object cannot be deleted.
pub async fn delete_collection(
    context: &Context,
    served: &Arc<ServedResource>,
    body: Body,
) -> Answer {
    let format = Format::negotiate(&context.parts.headers, context.query())?;
    let list_options = ListOptions::parse(context.query())?;
    list_options.validate(false)?;
    let options = delete::read_options(context, body).await?;
    let selection = Selection::new(served, &context.info.namespace, "", &list_options)?;
    let (snapshot, start) =
        list::snapshot(&context.registry, served, &list_options, &selection).await?;
    let page = Page::new(&snapshot, &selection, start, list_options.page_size());
    for some in page.selected(&selection).chunks(AT_ONCE) {
        let mut removals = Vec::with_capacity(some.len());
        for object in some {
            removals.push(delete::remove(context, served, object.key(), &options, ""));
        }
        for removed in join_all(removals).await {
            match removed {
                Ok(_) => {}
                // Somebody else was faster; the end is the same.
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
    }
    if format.shape == Shape::Metadata && !format.of_list {
        return Err(reply::not_acceptable_shape(served.resource, true));
    }
    // The answer is what was found, not what became of it.
    list::respond(&context.registry, served, page, selection, format).await
}
