//! Requests for another protocol: passed on as they are; once the target has
//! agreed (101), bytes go both ways until either side ends.

use control_streams::join::join;
use control_types::status::Status;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;

use crate::ProxiedRequest;
use crate::egress::client::explain;
use crate::egress::target::Target;
use control_request::Answer;
use control_request::body::{self, Body, BoxError};
use control_request::plain_error;

/// An upgraded connection.
pub type UpgradedStream = TokioIo<Upgraded>;

/// 400 for requests that make sense as upgrades only.
#[must_use]
pub fn required() -> Status {
    Status::bad_request("Upgrade request required")
}

/// The client's side of an upgrade, once the answer to it has been sent.
///
/// # Errors
/// 400 when the client's connection cannot change its protocol (HTTP/2, or
/// within the process).
pub fn client_side(incoming: ProxiedRequest<'_>) -> Result<OnUpgrade, Status> {
    let upgrade = incoming.parts.extensions.get::<OnUpgrade>();
    upgrade.cloned().ok_or_else(required)
}

/// Asks the target for an upgrade. `Err` of the inner result is its answer when
/// it does not agree.
///
/// # Errors
/// 500 when it cannot be asked, or agrees to something else.
pub async fn request_upgrade(
    target: &Target,
    method: Method,
    path_and_query: &str,
    headers: HeaderMap,
) -> Result<Result<Response<hyper::body::Incoming>, Response<Body>>, Status> {
    let mut request = Request::new(body::empty());
    *request.method_mut() = method;
    *request.uri_mut() = path_and_query
        .parse()
        .map_err(|error| plain_error(format!("error sending request: {error}")))?;
    *request.headers_mut() = headers;
    let response = target
        .send(request)
        .await
        .map_err(|error| plain_error(format!("error dialing backend: {}", explain(&error))))?;
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => Ok(Ok(response)),
        code if code.as_u16() < 400 => Err(plain_error(format!(
            "invalid upgrade response: status code {}",
            code.as_u16()
        ))),
        _ => Ok(Err(
            response.map(|body| Body::new(body.map_err(BoxError::from)))
        )),
    }
}

/// Passes a request for an upgrade on, and then the bytes.
///
/// # Errors
/// 400 when the client's connection cannot be upgraded, 500 when the target
/// does not answer.
pub async fn pass(incoming: ProxiedRequest<'_>, target: &Target, path_and_query: &str) -> Answer {
    pass_with(incoming, target, path_and_query, |_| {}).await
}

/// As [`pass`], with headers that `change` makes of the client's.
///
/// # Errors
/// As [`pass`].
pub async fn pass_with(
    incoming: ProxiedRequest<'_>,
    target: &Target,
    path_and_query: &str,
    change: impl FnOnce(&mut HeaderMap),
) -> Answer {
    let client = client_side(incoming)?;
    let address = super::forward::client_address(incoming);
    let mut headers = super::headers::of_upgrade(&incoming.parts.headers, address);
    super::forward::set_host(&mut headers, incoming.parts);
    change(&mut headers);
    let method = incoming.parts.method.clone();
    let mut answer = match request_upgrade(target, method, path_and_query, headers).await? {
        Ok(answer) => answer,
        Err(refusal) => return Ok(refusal),
    };
    let target_side = hyper::upgrade::on(&mut answer);
    let (parts, _) = answer.into_parts();
    let shutdown = incoming.ending.clone();
    tokio::spawn(async move {
        // Both sides are there as soon as the answer has reached the client.
        match futures::future::try_join(client, target_side).await {
            Ok((client, target)) => {
                let (client, target) = (TokioIo::new(client), TokioIo::new(target));
                join(client, target, shutdown.cancelled()).await;
            }
            Err(error) => tracing::debug!(%error, "an upgrade did not come about"),
        }
    });
    let mut response = Response::from_parts(parts, body::empty());
    response.headers_mut().remove(http::header::CONTENT_LENGTH);
    Ok(response)
}

/// Runs `work` on the client's side of an upgrade once the answer has gone out,
/// and ends it with the server.
pub fn spawn_on<F>(
    incoming: ProxiedRequest<'_>,
    client: OnUpgrade,
    work: impl FnOnce(UpgradedStream) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send,
{
    let ending = incoming.ending.clone();
    tokio::spawn(async move {
        match client.await {
            Ok(client) => {
                tokio::select! {
                    () = ending.cancelled() => {}
                    () = work(TokioIo::new(client)) => {}
                }
            }
            Err(error) => tracing::debug!(%error, "an upgrade did not come about"),
        }
    });
}
