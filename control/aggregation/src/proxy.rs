//! Requests passed on to other servers.

use std::sync::Arc;
use std::time::Duration;

use control_types::status::Status;
use http::header::{HOST, LOCATION};
use http::uri::InvalidUri;
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body::Body as _;
use hyper::body::Incoming;

use crate::headers;
use crate::remote::{Connection, Remote};
use control_proxy::egress::client::{RequestError, explain};
use control_proxy::egress::target::Target;
use control_proxy::forward::{client_address, until};
use control_proxy::service_resolver::Location;
use control_proxy::{self, upgrade};
use control_registry::Context;
use control_registry::reply::{self, Answer};
use control_request::body::{self, Body};

/// How long discovery may take: every client waits for it.
const DISCOVERY: Duration = Duration::from_secs(5);

/// Passes a request on to the server that serves its group and version.
///
/// # Errors
/// None: what goes wrong is told in plain text, as in stock.
pub async fn proxy(context: &Context, remote: &Remote, body: Body) -> Answer {
    if !remote.is_available() {
        return Ok(unavailable());
    }
    let connection = match remote.connection() {
        Ok(connection) => connection,
        Err(error) => return Ok(reply::text(500, format!("{}\n", explain(error)))),
    };
    let location = match remote.location(&*context.registry.storage) {
        Ok(location) => location,
        Err(error) => {
            tracing::debug!(name = %remote.name, %error, "an API service has no address");
            return Ok(unavailable());
        }
    };
    if control_proxy::headers::wants_upgrade(&context.parts.headers) {
        return Ok(upgraded(context, connection, &location)
            .await
            .unwrap_or_else(|status| reply::text(503, format!("{}\n", status.message))));
    }
    let forwarded = forward(context, connection, &location, body);
    let answer = if context.info.is_resource {
        forwarded.await
    } else {
        tokio::time::timeout(DISCOVERY, forwarded)
            .await
            .unwrap_or(Err(ForwardError::Deadline))
    };
    Ok(match answer {
        Ok(response) => answered(context, response),
        Err(error) => reply::text(
            503,
            format!("error trying to reach service: {}\n", explain(&error)),
        ),
    })
}

fn unavailable() -> Response<Body> {
    reply::text(503, "service unavailable\n")
}

/// Error for a server that does not answer a request.
#[derive(Debug, thiserror::Error)]
enum ForwardError {
    #[error("its Service has no addresses")]
    NoAddress,
    #[error(transparent)]
    Uri(#[from] InvalidUri),
    #[error("{}", explain(.0))]
    NoAnswer(RequestError),
    #[error("context deadline exceeded")]
    Deadline,
}

/// Asks the server. Where it has several addresses and the request has no body,
/// the next is tried when one cannot be reached.
async fn forward(
    context: &Context,
    connection: &Connection,
    location: &Location,
    body: Body,
) -> Result<Response<Incoming>, ForwardError> {
    let repeatable = body.is_end_stream() || body.size_hint().exact() == Some(0);
    let mut body = Some(body);
    let mut last = ForwardError::NoAddress;
    let tries = if repeatable {
        location.addresses.len()
    } else {
        1
    };
    for address in location.addresses.iter().take(tries) {
        let body = body.take().unwrap_or_else(body::empty);
        let request = request(context, address, body)?;
        match connection.client.request(request).await {
            Ok(response) => return Ok(response),
            Err(error) if error.is_connect() => last = ForwardError::NoAnswer(error),
            Err(error) => return Err(ForwardError::NoAnswer(error)),
        }
    }
    Err(last)
}

fn path_and_query(context: &Context) -> &str {
    let uri = &context.parts.uri;
    uri.path_and_query()
        .map_or_else(|| uri.path(), |both| both.as_str())
}

fn request(context: &Context, address: &str, body: Body) -> Result<Request<Body>, InvalidUri> {
    let parts = &context.parts;
    let mut request = Request::new(body);
    request.method_mut().clone_from(&parts.method);
    *request.uri_mut() = format!("https://{address}{}", path_and_query(context)).parse::<Uri>()?;
    let mut headers =
        control_proxy::headers::of_request(&parts.headers, client_address(context.proxied()));
    headers.remove(HOST);
    headers::identify(&mut headers, &context.user);
    if let Ok(path) = HeaderValue::from_str(parts.uri.path()) {
        headers.insert("x-forwarded-uri", path);
    }
    if let Ok(host) = HeaderValue::from_str(address) {
        headers.insert("x-forwarded-host", host);
    }
    headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
    *request.headers_mut() = headers;
    Ok(request)
}

/// The answer as the client gets it. Where the server would send the client
/// elsewhere, the client stays: with the rights that it has here it might reach
/// what it should not.
fn answered(context: &Context, response: Response<Incoming>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    if parts.status.is_redirection() && parts.headers.contains_key(LOCATION) {
        return reply::text(
            502,
            "the backend attempted to redirect this request, which is not permitted",
        );
    }
    parts.headers = control_proxy::headers::of_response(std::mem::take(&mut parts.headers));
    parts.version = http::Version::default();
    parts.extensions.clear();
    let body = if context.parts.method == Method::HEAD {
        body::empty()
    } else {
        until(body, context.ending().clone())
    };
    Response::from_parts(parts, body)
}

async fn upgraded(context: &Context, connection: &Connection, location: &Location) -> Answer {
    let address = location.addresses.first().map_or("", String::as_str);
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "443"));
    let target = Target {
        host: host.trim_matches(['[', ']']).to_owned(),
        port: port
            .parse()
            .map_err(|_| Status::service_unavailable("service unavailable"))?,
        tls: Some(Arc::clone(&connection.tls)),
        server_name: Some(location.server_name.clone()),
        dialer: connection.dialer.clone(),
    };
    upgrade::pass_with(
        context.proxied(),
        &target,
        path_and_query(context),
        |headers| {
            headers::identify(headers, &context.user);
        },
    )
    .await
}
