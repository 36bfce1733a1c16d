//! Values of options that are checked as the command line is read, before a command acts.

use std::time::Duration;

use control_types::names;

/// Error for the value of an option.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {kind}: {way_out}")]
pub struct InvalidValue {
    text: String,
    kind: &'static str,
    way_out: String,
}

impl InvalidValue {
    /// Returns the error for a `text` that is not of a `kind`, with the way out.
    pub fn new(text: &str, kind: &'static str, way_out: impl Into<String>) -> Self {
        Self {
            text: text.to_owned(),
            kind,
            way_out: way_out.into(),
        }
    }
}

/// Reads the URL of an API server.
///
/// # Errors
/// A description of the expected value.
pub fn server_url(text: &str) -> Result<String, InvalidValue> {
    let url = text.trim_end_matches('/');
    let is_url = url.strip_prefix("https://").is_some_and(|rest| {
        let authority = rest.split('/').next().unwrap_or_default();
        !authority.is_empty() && url.parse::<http::Uri>().is_ok()
    });
    if is_url {
        Ok(url.to_owned())
    } else {
        let way_out = "write https://HOST:6443";
        Err(InvalidValue::new(text, "URL of an API server", way_out))
    }
}

/// Reads the name of a Node.
///
/// # Errors
/// A description of the expected value.
pub fn node_name(text: &str) -> Result<String, InvalidValue> {
    match names::dns1123_subdomain(text).first() {
        None => Ok(text.to_owned()),
        Some(problem) => Err(InvalidValue::new(text, "name of a Node", problem)),
    }
}

/// Reads a duration as Go writes it, such as `15s` or `1m30s`.
///
/// # Errors
/// A description of the expected value.
pub fn duration(text: &str) -> Result<Duration, InvalidValue> {
    control_types::time::parse_duration(text)
        .ok_or_else(|| InvalidValue::new(text, "duration", "write it like 30s or 1m30s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_an_https_url() {
        let read = |text| server_url(text).ok();
        let url = "https://10.0.0.1:6443";
        assert_eq!(read(url).as_deref(), Some(url));
        assert_eq!(read("https://10.0.0.1:6443/").as_deref(), Some(url));
        assert!(read("https://[fd00::1]:6443/k8s/c").is_some());
        for wrong in [
            "",
            "10.0.0.1:6443",
            "http://a",
            "https://",
            "https:///x",
            "https://a b",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_node_has_a_name_that_the_api_takes() {
        assert!(node_name("node-1.example.com").is_ok());
        for wrong in ["", "Node-1", "a_b", "-a", "../x"] {
            let error = node_name(wrong).unwrap_err();
            assert!(error.to_string().contains("no name of a Node"), "{error}");
        }
    }
}
