//! Which pages may call from a browser (CORS), and what else answers say to
//! browsers.

use super::passage::Passage;
use control_request::body::{self, Body};
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, STRICT_TRANSPORT_SECURITY,
};
use http::{HeaderMap, HeaderValue, Method, Response};

const METHODS: &str = "POST, GET, OPTIONS, PUT, DELETE, PATCH";
const HEADERS: &str = "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since";

/// The filter: tells browsers which pages may read the answer, and answers those that ask.
pub(super) fn filter(passage: &mut Passage<'_>) -> Option<Response<Body>> {
    let origins = passage.api.config.chain.origins.as_ref()?;
    let origin = origins.origin_of(&passage.parts.headers)?;
    allow(&mut passage.record.headers, origin);
    preflight(&passage.parts.method)
}

/// Tells a browser that pages of this origin may read the answer.
fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    for (name, value) in [
        (ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (ACCESS_CONTROL_EXPOSE_HEADERS, "Date"),
        (ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// The answer to a browser that asks what it may do.
fn preflight(method: &Method) -> Option<Response<Body>> {
    (method == Method::OPTIONS).then(|| {
        let mut response = Response::new(body::empty());
        *response.status_mut() = http::StatusCode::NO_CONTENT;
        response
    })
}

/// Tells a browser to come by TLS only.
pub(super) fn strict_transport(headers: &mut HeaderMap, directives: &str) {
    if !directives.is_empty()
        && let Ok(value) = HeaderValue::from_str(directives)
    {
        headers.entry(STRICT_TRANSPORT_SECURITY).or_insert(value);
    }
}
