//! Which pages may call from a browser (CORS), and what else answers say to
//! browsers.

use std::sync::Arc;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ORIGIN, STRICT_TRANSPORT_SECURITY,
};
use http::{HeaderMap, HeaderValue, Method, Response};
use regex::RegexSet;

use super::passage::Passage;
use control_request::body::{self, Body};

const METHODS: &str = "POST, GET, OPTIONS, PUT, DELETE, PATCH";
const HEADERS: &str = "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since";

/// From where browsers may call.
#[derive(Debug, Clone)]
pub struct Origins(Arc<RegexSet>);

// === impl Origins ===

impl Origins {
    /// Origins of which a part matches one of these patterns, as with
    /// kube-apiserver: `^` and `$` are the writer's to set.
    ///
    /// # Errors
    /// When a pattern is none.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, regex::Error> {
        Ok(Self(Arc::new(RegexSet::new(patterns)?)))
    }

    /// The origin that a request comes from, if it is one of these.
    pub(super) fn of(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        self.0
            .is_match(origin.to_str().ok()?)
            .then(|| origin.clone())
    }
}

/// The filter: tells browsers which pages may read the answer, and answers those that ask.
pub(super) fn filter(passage: &mut Passage<'_>) -> Option<Response<Body>> {
    let origins = passage.api.config.chain.origins.as_ref()?;
    let origin = origins.of(&passage.parts.headers)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_origins_may_call() {
        let origins =
            Origins::new(["^https://console\\.example$", "//localhost(:|$)"]).expect("patterns");
        for (origin, allowed) in [
            ("https://console.example", true),
            ("https://console.example.evil", false),
            ("http://localhost:8001", true),
            ("http://localhost.evil", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ORIGIN, origin.parse().expect("a value"));
            assert_eq!(origins.of(&headers).is_some(), allowed, "{origin}");
        }
        assert!(origins.of(&HeaderMap::new()).is_none());
        assert!(Origins::new(["("]).is_err());
    }
}
