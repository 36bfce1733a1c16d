//! Which pages may call from a browser (CORS).

use std::sync::Arc;

use http::header::ORIGIN;
use http::{HeaderMap, HeaderValue};
use regex::RegexSet;

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
    pub(super) fn origin_of(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        self.0
            .is_match(origin.to_str().ok()?)
            .then(|| origin.clone())
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
            assert_eq!(origins.origin_of(&headers).is_some(), allowed, "{origin}");
        }
        assert!(origins.origin_of(&HeaderMap::new()).is_none());
        assert!(Origins::new(["("]).is_err());
    }
}
