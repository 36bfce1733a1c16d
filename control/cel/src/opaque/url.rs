//! URLs and paths as Go parses them.

use crate::run::encoding::quoted;

/// The parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub(crate) scheme: String,
    /// With its port, without user.
    pub(crate) host: String,
    /// With its escapes.
    pub(crate) path: String,
    pub(crate) query: String,
    rest: String,
}

/// Error for text that is not a URL; the message is Go's.
#[derive(Debug, thiserror::Error)]
#[error("parse {url}: {problem}", url = quoted(.url))]
pub(crate) struct UrlError {
    url: String,
    problem: UrlProblem,
}

/// The problem of a URL.
#[derive(Debug, thiserror::Error)]
enum UrlProblem {
    #[error("empty url")]
    Empty,
    #[error("net/url: invalid control character in URL")]
    Control,
    #[error("missing protocol scheme")]
    Scheme,
    #[error("invalid URI for request")]
    Relative,
    #[error("missing ']' in host")]
    Bracket,
    #[error("invalid port {} after host", quoted(.0))]
    Port(String),
    #[error("invalid character {} in host name", quoted(.0))]
    HostCharacter(String),
    #[error("invalid URL escape {}", quoted(.0))]
    Escape(String),
}

impl Url {
    /// Parses a URL as in a request: absolute, or a path.
    pub(crate) fn read(text: &str) -> Result<Self, UrlError> {
        let wrong = |problem: UrlProblem| {
            Err(UrlError {
                url: text.to_owned(),
                problem,
            })
        };
        if text.is_empty() {
            return wrong(UrlProblem::Empty);
        }
        if text.bytes().any(|c| c < 0x20 || c == 0x7f) {
            return wrong(UrlProblem::Control);
        }
        let (whole, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = match whole.split_once(':') {
            Some(("", _)) => return wrong(UrlProblem::Scheme),
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            Some((head, _))
                if !head.contains('/')
                    && head.starts_with(|c: char| {
                        c.is_ascii_digit() || matches!(c, '+' | '-' | '.')
                    }) =>
            {
                return wrong(UrlProblem::Scheme);
            }
            _ => (String::new(), whole),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            if scheme.is_empty() {
                return wrong(UrlProblem::Relative);
            }
            // a URL with a scheme and no slash is opaque
            return Ok(Self {
                scheme,
                host: String::new(),
                path: String::new(),
                query: query.to_owned(),
                rest: format!("{rest}#{fragment}"),
            });
        }
        let (host, path, user) = match rest.strip_prefix("//") {
            Some(rest) if !scheme.is_empty() || !rest.starts_with('/') => {
                let (authority, path) = match rest.find('/') {
                    Some(at) => rest.split_at(at),
                    None => (rest, ""),
                };
                let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
                (host, path, user)
            }
            _ => ("", rest, ""),
        };
        if let Err(problem) = check_host(host) {
            return wrong(problem);
        }
        if let Some(escape) = bad_escape(path) {
            return wrong(UrlProblem::Escape(escape));
        }
        Ok(Self {
            scheme,
            host: host.to_owned(),
            path: escaped(path),
            query: query.to_owned(),
            rest: format!("{user}#{fragment}"),
        })
    }

    pub(crate) fn port_at(&self) -> Option<usize> {
        let after = self.host.rfind(']').unwrap_or(0);
        let at = self.host.get(after..)?.rfind(':')? + after;
        let digits = self.host.get(at + 1..)?;
        digits.bytes().all(|c| c.is_ascii_digit()).then_some(at)
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'-' | b'.'))
}

fn check_host(host: &str) -> Result<(), UrlProblem> {
    let port = match host.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((_, port)) => port,
            None => return Err(UrlProblem::Bracket),
        },
        None => match host.rfind(':') {
            Some(at) => host.get(at..).unwrap_or(""),
            None => "",
        },
    };
    let right = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|c| c.is_ascii_digit()),
        None => port.is_empty(),
    };
    if !right {
        return Err(UrlProblem::Port(port.to_owned()));
    }
    if let Some(c) = host.chars().find(|c| {
        matches!(
            c,
            ' ' | '"' | '<' | '>' | '^' | '`' | '{' | '|' | '}' | '\\'
        )
    }) {
        return Err(UrlProblem::HostCharacter(c.to_string()));
    }
    Ok(())
}

/// Returns the first invalid escape.
fn bad_escape(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    bytes
        .iter()
        .enumerate()
        .filter(|(_, c)| **c == b'%')
        .find(|(at, _)| {
            !(bytes.get(at + 1).is_some_and(u8::is_ascii_hexdigit)
                && bytes.get(at + 2).is_some_and(u8::is_ascii_hexdigit))
        })
        .map(|(at, _)| {
            let end = (at + 3).min(bytes.len());
            String::from_utf8_lossy(bytes.get(at..end).unwrap_or_default()).into_owned()
        })
}

/// A path with escapes for all that needs one; escapes that are there stay.
fn escaped(path: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@%!'()*[]".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // writing to a text does not fail
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// A part of a query with its escapes resolved.
pub(crate) fn unescaped(text: &str) -> Option<String> {
    if bad_escape(text).is_some() {
        return None;
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digit = |c: Option<u8>| c.and_then(|c| char::from(c).to_digit(16)).unwrap_or(0);
                let (high, low) = (digit(bytes.next()), digit(bytes.next()));
                out.push((high * 16 + low) as u8);
            }
            byte => out.push(byte),
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}
