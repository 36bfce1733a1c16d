//! Values of options that are checked as the command line is read, before a command acts.

use std::time::Duration;

use control_types::names;

/// Reads the URL of an API server.
///
/// # Errors
/// A description of the expected value.
pub fn server_url(text: &str) -> Result<String, String> {
    let url = text.trim_end_matches('/');
    let is_url = url.strip_prefix("https://").is_some_and(|rest| {
        let authority = rest.split('/').next().unwrap_or_default();
        !authority.is_empty() && url.parse::<http::Uri>().is_ok()
    });
    if is_url {
        Ok(url.to_owned())
    } else {
        Err(format!(
            "`{text}` is no URL of an API server: write https://HOST:6443"
        ))
    }
}

/// Reads the name of a Node.
///
/// # Errors
/// A description of the expected value.
pub fn node_name(text: &str) -> Result<String, String> {
    match names::dns1123_subdomain(text).first() {
        None => Ok(text.to_owned()),
        Some(problem) => Err(format!("`{text}` is no name of a Node: {problem}")),
    }
}

/// Reads a duration as Go writes it, such as `15s` or `1m30s`.
///
/// # Errors
/// What it must be.
pub fn duration(text: &str) -> Result<Duration, String> {
    control_types::time::parse_duration(text)
        .ok_or_else(|| format!("`{text}` is no duration: write it like 30s or 1m30s"))
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
            assert!(error.contains("no name of a Node"), "{error}");
        }
    }
}
