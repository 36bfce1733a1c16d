//! The end of the chain: the handler.

use std::sync::{Arc, Mutex};

use control_access::User;
use control_registry::Context;
use control_request::{Answer, RequestContext, body};

use super::finish;
use super::passage::Passage;
use super::seats::RequestPlace;
use crate::route;

/// Answers a request that has passed all filters.
///
/// # Errors
/// The handler's.
pub(super) async fn handle(passage: Passage<'_>, user: User, seat: Option<RequestPlace>) -> Answer {
    let Passage {
        api,
        record,
        info,
        parts,
        body,
        began,
        ..
    } = passage;
    let settings = &api.config.chain;
    let (seat, opening) = match seat {
        // A watch gives its seat back when it has begun.
        Some(RequestPlace::Level(seat)) if info.verb == "watch" => {
            (None, Some(api.fairness.open(info, parts.uri.query(), seat)))
        }
        seat => (seat, None),
    };
    // Streams of clients over the network end before those of callers in the process,
    // who have last words to write.
    let ending = match parts.extensions.get::<User>() {
        Some(_) => &api.shutdown,
        None => api.lifecycle.draining(),
    };
    let request = RequestContext {
        info: Arc::clone(info),
        user,
        parts,
        began,
        warnings: record.warnings.clone(),
        annotations: record.annotations.clone(),
    };
    let context = Context {
        registry: Arc::clone(&api.registry),
        ending: ending.clone(),
        place: Mutex::new(opening.map(|opening| Box::new(opening) as _)),
        request,
    };
    let mut answer = match &record.traced {
        None => route::route(api, context, body).await,
        Some(traced) => {
            let verb = control_tracing::of_verb(traced.whole(), info);
            let within = verb.as_ref().unwrap_or(traced.whole());
            Box::pin(control_tracing::under(
                Some(within),
                route::route(api, context, body),
            ))
            .await
        }
    };
    if let (Some(seat), Ok(response)) = (seat, &mut answer)
        && http_body::Body::size_hint(response.body())
            .exact()
            .is_none()
    {
        // It is still being made: the seat is held until it is, but not for
        // who reads it slowly.
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let body = std::mem::replace(response.body_mut(), body::empty());
        *response.body_mut() = finish::until(body, end);
        let most = settings.request_timeout;
        tokio::spawn(async move {
            let _ = tokio::time::timeout(most, ended).await;
            drop(seat);
        });
    }
    answer
}
