//! Links of a proxied page, made to go through the proxy again.

/// What links are rewritten with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links {
    /// The path of the proxy, without a slash at its end:
    /// `/api/v1/namespaces/a/pods/b/proxy`.
    pub prefix: String,
    /// Host and port of the target.
    pub target: String,
    /// What the client calls this server.
    pub host: String,
}

impl Links {
    /// A link with the proxy's path before its own; `None` when it shall stay
    /// as it is: it is relative, leads to another host, or has the prefix.
    #[must_use]
    pub fn rewrite(&self, link: &str) -> Option<String> {
        let (origin, rest) = split_origin(link);
        if !rest.starts_with('/') {
            return None;
        }
        let authority = origin.rsplit_once("//").map_or("", |(_, host)| host);
        let known = authority.is_empty() || authority == self.target || authority == self.host;
        if !known {
            return None;
        }
        // The client's own name for this server stays in front; the target's
        // goes, since only this server can reach it.
        let origin = if authority == self.host { origin } else { "" };
        if rest.starts_with(&self.prefix) {
            return (origin.len() + rest.len() != link.len()).then(|| rest.to_owned());
        }
        Some(format!("{origin}{}{rest}", self.prefix))
    }
}

/// A link's scheme and host (may be empty), and the rest.
fn split_origin(link: &str) -> (&str, &str) {
    let end = link.find(['?', '#']).unwrap_or(link.len());
    let head = &link[..end];
    let host_at = if head.starts_with("//") {
        2
    } else {
        match head.split_once("://") {
            Some((scheme, _))
                if scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                    && scheme
                        .chars()
                        .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) =>
            {
                scheme.len() + 3
            }
            _ => return ("", link),
        }
    };
    let path_at = head[host_at..].find('/').map_or(end, |at| host_at + at);
    link.split_at(path_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_the_target_go_through_the_proxy() {
        let links = Links {
            prefix: "/api/v1/namespaces/a/pods/b/proxy".into(),
            target: "10.1.2.3:80".into(),
            host: "localhost:8001".into(),
        };
        let prefix = &links.prefix;
        for (link, expected) in [
            ("/x", Some(format!("{prefix}/x"))),
            ("/", Some(format!("{prefix}/"))),
            ("/x/?q=/y#z", Some(format!("{prefix}/x/?q=/y#z"))),
            ("http://10.1.2.3:80/x", Some(format!("{prefix}/x"))),
            ("//10.1.2.3:80/x", Some(format!("{prefix}/x"))),
            (
                "http://localhost:8001/x",
                Some(format!("http://localhost:8001{prefix}/x")),
            ),
            ("http://example.org/x", None),
            ("http://10.1.2.3:81/x", None),
            ("x/y", None),
            ("?q=/x", None),
            ("#top", None),
            ("", None),
            ("mailto:a@example.org", None),
            ("http://10.1.2.3:80", None),
            (&format!("{prefix}/x"), None),
            (
                &format!("http://10.1.2.3:80{prefix}/x"),
                Some(format!("{prefix}/x")),
            ),
            ("é://x/y", None),
        ] {
            assert_eq!(links.rewrite(link), expected, "{link}");
        }
    }
}
