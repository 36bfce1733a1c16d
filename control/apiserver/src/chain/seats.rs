//! The filter that lets a request wait for its turn: priority and fairness, or two limits.

use std::time::Instant;

use control_access::User;
use control_request::body::Body;
use http::header::RETRY_AFTER;
use http::{HeaderValue, Response};

use super::passage::Passage;
use control_flow_control::{Rejection, Seat, SeatRequest};
use control_registry::reply;

/// What a request occupies while it is answered.
#[derive(Debug)]
pub(super) enum RequestPlace {
    Level(Seat),
    InFlight(
        #[expect(dead_code, reason = "held, not looked at")] tokio::sync::OwnedSemaphorePermit,
    ),
}

/// Returns the place of a request among others, if it needs one.
///
/// # Errors
/// What it is refused with.
pub(super) async fn take(
    passage: &mut Passage<'_>,
    user: &User,
) -> Result<Option<RequestPlace>, Response<Body>> {
    let step = passage.record.step("priorityandfairness");
    let place = find(passage, user).await;
    drop(step);
    if place.is_err() {
        passage.record.terminated = true;
        passage.record.unheard();
    }
    place
}

async fn find(
    passage: &mut Passage<'_>,
    user: &User,
) -> Result<Option<RequestPlace>, Response<Body>> {
    let Passage {
        api,
        in_flight,
        record,
        info,
        parts,
        time,
        ..
    } = passage;
    if info.is_long_running() && info.verb != "watch" {
        return Ok(None);
    }
    if let Some(in_flight) = in_flight {
        if info.verb == "watch" || user.is_master() {
            return Ok(None);
        }
        return match in_flight.enter(info.is_read_only()) {
            Some(permit) => Ok(Some(RequestPlace::InFlight(permit))),
            None => Err(too_many(1)),
        };
    }
    let asked = SeatRequest {
        info,
        query: parts.uri.query(),
        user,
        wait: time.unwrap_or(api.config.chain.request_timeout) / 4,
    };
    let began = Instant::now();
    let admitted = api.fairness.admit(&asked, &mut record.headers).await;
    record.waited = began.elapsed();
    match admitted {
        Ok(seat) => Ok(Some(RequestPlace::Level(seat))),
        Err(Rejection { retry_after }) => Err(too_many(retry_after)),
    }
}

fn too_many(retry_after: u64) -> Response<Body> {
    let mut answer = reply::text(429, "Too many requests, please try again later.\n");
    answer
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(retry_after));
    answer
}
