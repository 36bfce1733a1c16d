//! WATCH: events out of the ring, one task-less stream per watcher.
//!
//! Here a request becomes a `watcher::Watcher`, which knows what to say next;
//! `stream::Stream` is the body that lets it speak.

mod stream;
mod watcher;

use std::sync::Arc;
use std::time::Duration;

use control_types::status::Status;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use tokio::time::Instant;

use crate::context::Context;
use crate::registry::Registry;
use crate::selection::Selection;
use crate::served_resource::ServedResource;
use crate::verbs::list::in_version;
use control_request::Answer;
use control_request::body::Body;
use control_request::negotiate::{Format, STREAM_MEDIA_TYPES};
use control_request::options::{ListOptions, parse_revision};
use control_watch_cache::State;
use stream::Stream;
use watcher::{Begin, Watcher};

/// Answers a watch.
///
/// # Errors
/// When options are malformed. A resource version that is compacted, or newer than the
/// store's, does not fail the request: it is reported in the stream as an `ERROR` event.
pub async fn watch(context: &Context, served: &Arc<ServedResource>) -> Answer {
    let mut options = ListOptions::parse(context.query())?;
    options.default_watch();
    options.validate(true)?;
    if !context.registry.watches.initial_events {
        options.refuse_initial_events()?;
    }
    let format = Format::negotiate(&context.parts.headers, context.query())?;
    let media = format
        .media
        .stream_type()
        .ok_or_else(|| Status::not_acceptable(STREAM_MEDIA_TYPES))?;
    let info = &context.info;
    let selection = Selection::new(
        served,
        served.scope(&info.namespace),
        if info.name_in_path { &info.name } else { "" },
        &options,
    )?;
    let revision = parse_revision(&options.resource_version)?;
    let registry = &context.registry;
    let cache = Arc::clone(served.cache()?);
    // A client may say that it wants no beginning with all objects.
    let initial = options
        .send_initial_events
        .unwrap_or(revision.is_none_or(|revision| revision == 0));
    match revision {
        None => registry.fresh(served, None).await?,
        Some(0) => {}
        Some(revision) if initial => registry.fresh(served, Some(revision)).await?,
        Some(_) => {}
    }
    let applied = registry.caches.applied();
    let state = cache.state();
    let snapshot_revision = applied.max(state.revision);
    let (next, floor, past) = match revision {
        Some(revision) if !initial && revision > 0 => match cache.first_after(revision) {
            Ok(next) => (next, revision, None),
            Err(_) => (0, revision, Some(registry.caches.past(&cache, revision))),
        },
        _ => (state.next, state.revision, None),
    };
    let ahead = revision.filter(|revision| !initial && *revision > snapshot_revision);
    let shortest = registry.watches.min_request_timeout.as_secs().max(1);
    let seconds = options
        .timeout_seconds
        .unwrap_or_else(|| shortest + rand::random_range(0..shortest));
    let deadline = Instant::now() + Duration::from_secs(seconds.min(86_400));
    let initial = if initial {
        Some(converted(registry, served, state, &selection).await?)
    } else {
        None
    };
    let watcher = Watcher::new(Begin {
        registry: Arc::clone(registry),
        ending: context.ending().clone(),
        began: context.began,
        scope: info.scope(),
        served: Arc::clone(served),
        cache,
        place: context.take_place(),
        initial,
        initial_bookmark: (options.send_initial_events == Some(true)
            && options.allow_watch_bookmarks)
            .then_some(snapshot_revision),
        bookmarks: options.allow_watch_bookmarks,
        selection,
        format,
        next,
        floor,
        delivered: snapshot_revision.max(floor),
        deadline,
        past,
        ahead,
    });
    let mut response = Response::new(Body::new(Stream::new(watcher)));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

/// All selected objects of a state in the version that is served, where that takes a
/// webhook or decides which are selected.
async fn converted(
    registry: &Registry,
    served: &ServedResource,
    state: Arc<State>,
    selection: &Selection,
) -> Result<Arc<State>, Status> {
    if served.converter().is_none() && !selection.by_served_fields() {
        return Ok(state);
    }
    Ok(Arc::new(State {
        objects: in_version(registry, served, &state.objects, selection).await?,
        next: state.next,
        revision: state.revision,
    }))
}
