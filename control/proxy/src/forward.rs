//! One request passed on, its answer passed back.

use std::io::Write as _;
use std::net::IpAddr;

use bytes::{Buf, Bytes};
use control_types::status::Status;
use flate2::write::{DeflateDecoder, GzDecoder};
use futures::{Stream, StreamExt};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, LOCATION};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use super::html::Rewriter;
use super::location::Links;
use super::{headers, upgrade};
use crate::ProxiedRequest;
use crate::egress::client::explain;
use crate::egress::target::Target;
use control_request::Answer;
use control_request::body::{self, Body, BoxError};
use control_request::peer::ClientAddr;

/// A page is unpacked in steps of so many packed bytes, so that what one step
/// makes of them stays small.
const STEP: usize = 4 << 10;

/// Passes a request on to the target: what follows `/proxy` in its path becomes
/// the path.
///
/// # Errors
/// 503 when the target cannot be asked.
pub async fn forward(incoming: ProxiedRequest<'_>, target: &Target, body: Body) -> Answer {
    let uri = &incoming.parts.uri;
    let place = ForwardedPath::of(uri.path(), incoming.rest, uri.query());
    if headers::wants_upgrade(&incoming.parts.headers) {
        return upgrade::pass(incoming, target, &place.path_and_query).await;
    }
    let reads = matches!(incoming.parts.method, Method::GET | Method::HEAD);
    if place.lacks_slash && reads {
        return Ok(redirect(uri.path(), uri.query()));
    }
    let request = request(incoming, &place, body)?;
    let response = target.send(request).await.map_err(|error| {
        let why = explain(&error);
        Status::service_unavailable(format!("error trying to reach service: {why}"))
    })?;
    let links = Links {
        prefix: place.prefix,
        target: target.address(),
        host: host_of(incoming.parts).unwrap_or_default(),
    };
    let is_head = incoming.parts.method == Method::HEAD;
    Ok(answer(response, links, is_head, incoming.ending))
}

/// Where a proxied request goes.
#[derive(Debug, PartialEq, Eq)]
struct ForwardedPath {
    /// The path before what is passed on, without a slash at its end.
    prefix: String,
    /// What is asked of the target.
    path_and_query: String,
    /// Whether the path ends with `/proxy`: links of the page that are relative
    /// would then lead elsewhere.
    lacks_slash: bool,
}

impl ForwardedPath {
    fn of(path: &str, rest: &str, query: Option<&str>) -> Self {
        let prefix = path.strip_suffix(rest).unwrap_or(path);
        let mut path_and_query = String::with_capacity(rest.len() + 16);
        if !rest.starts_with('/') {
            path_and_query.push('/');
        }
        path_and_query.push_str(rest);
        if let Some(query) = query {
            path_and_query.push('?');
            path_and_query.push_str(query);
        }
        Self {
            prefix: prefix.trim_end_matches('/').to_owned(),
            path_and_query,
            lacks_slash: rest.is_empty() && !path.ends_with('/'),
        }
    }
}

fn redirect(path: &str, query: Option<&str>) -> Response<Body> {
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = Response::new(body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(location) = HeaderValue::from_str(&format!("{path}/{query}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

fn request(
    incoming: ProxiedRequest<'_>,
    place: &ForwardedPath,
    body: Body,
) -> Result<Request<Body>, Status> {
    let parts = incoming.parts;
    let mut request = Request::new(body);
    request.method_mut().clone_from(&parts.method);
    *request.uri_mut() = place
        .path_and_query
        .parse()
        .map_err(|error| Status::bad_request(format!("cannot pass on this path: {error}")))?;
    let mut headers = headers::of_request(&parts.headers, client_address(incoming));
    set_host(&mut headers, parts);
    if let Ok(path) = HeaderValue::from_str(parts.uri.path()) {
        headers.insert("x-forwarded-uri", path);
    }
    *request.headers_mut() = headers;
    Ok(request)
}

fn answer(
    response: Response<Incoming>,
    links: Links,
    is_head: bool,
    shutdown: &CancellationToken,
) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    parts.headers = headers::of_response(std::mem::take(&mut parts.headers));
    parts.version = http::Version::default();
    parts.extensions.clear();
    if let Some(location) = text(&parts.headers, &LOCATION) {
        if let Some(rewritten) = links.rewrite(location)
            && let Ok(value) = HeaderValue::from_str(&rewritten)
        {
            parts.headers.insert(LOCATION, value);
        }
        return Response::from_parts(parts, until(body, shutdown.clone()));
    }
    let packing = match text(&parts.headers, &CONTENT_ENCODING).unwrap_or_default() {
        "" => Some(BodyDecoder::None),
        "gzip" => Some(BodyDecoder::Gzip(GzDecoder::new(Vec::new()))),
        "deflate" => Some(BodyDecoder::Deflate(DeflateDecoder::new(Vec::new()))),
        // The page cannot be read: its links stay as they are.
        _ => None,
    };
    let is_page = text(&parts.headers, &CONTENT_TYPE)
        .and_then(|kind| kind.split(';').next())
        .is_some_and(|kind| kind.trim() == "text/html");
    match packing {
        Some(packing) if is_page && !is_head => {
            parts.headers.remove(CONTENT_LENGTH);
            parts.headers.remove(CONTENT_ENCODING);
            let page = Page {
                body: BodyStream::new(body),
                waiting: Bytes::new(),
                packing,
                rewriter: Some(Rewriter::new(links)),
            };
            let frames = page.frames().take_until(shutdown.clone().cancelled_owned());
            Response::from_parts(parts, Body::new(StreamBody::new(frames)))
        }
        _ => Response::from_parts(parts, until(body, shutdown.clone())),
    }
}

/// A body that ends with the server.
#[must_use]
pub fn until(body: Incoming, shutdown: CancellationToken) -> Body {
    use http_body::Body as _;
    if body
        .size_hint()
        .exact()
        .is_some_and(|size| size <= 64 << 10)
    {
        // It ends by itself soon enough, and keeps its length.
        return Body::new(body.map_err(BoxError::from));
    }
    let frames = BodyStream::new(body)
        .map(|frame| frame.map_err(BoxError::from))
        .take_until(shutdown.cancelled_owned());
    Body::new(StreamBody::new(frames))
}

/// The address of the client, if it came over a network.
#[must_use]
pub fn client_address(incoming: ProxiedRequest<'_>) -> Option<IpAddr> {
    let address = incoming.parts.extensions.get::<ClientAddr>()?;
    Some(address.0.ip())
}

/// Brings the headers of HTTP/2 into the form of HTTP/1.1: `Host`, one `Cookie`.
pub fn set_host(headers: &mut HeaderMap, parts: &http::request::Parts) {
    if let Some(host) = host_of(parts).and_then(|host| HeaderValue::from_str(&host).ok()) {
        headers.insert(HOST, host);
    }
    let cookies: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if cookies.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..]))
    {
        headers.insert(COOKIE, joined);
    }
}

/// What the client calls this server.
fn host_of(parts: &http::request::Parts) -> Option<String> {
    match text(&parts.headers, &HOST) {
        Some(host) => Some(host.to_owned()),
        None => parts.uri.authority().map(|host| host.as_str().to_owned()),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A page on its way through the rewriter.
struct Page {
    body: BodyStream<Incoming>,
    /// Came, but is not unpacked yet.
    waiting: Bytes,
    packing: BodyDecoder,
    /// `None` once the end has been told.
    rewriter: Option<Rewriter>,
}

enum BodyDecoder {
    None,
    Gzip(GzDecoder<Vec<u8>>),
    Deflate(DeflateDecoder<Vec<u8>>),
}

// === impl Page ===

impl Page {
    fn frames(self) -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> {
        futures::stream::unfold(self, |mut page| async move {
            let next = page.next().await.transpose()?;
            Some((next.map(Frame::data), page))
        })
    }

    /// The next bytes for the client.
    async fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        let mut out = Vec::new();
        while out.is_empty() {
            let Some(rewriter) = &mut self.rewriter else {
                return Ok(None);
            };
            if self.waiting.is_empty() {
                match self.body.next().await {
                    Some(frame) => self.waiting = frame?.into_data().unwrap_or_default(),
                    None => {
                        rewriter.push(&self.packing.finish()?, &mut out);
                        rewriter.finish(&mut out);
                        self.rewriter = None;
                    }
                }
                continue;
            }
            let step = self.waiting.split_to(self.waiting.remaining().min(STEP));
            rewriter.push(&self.packing.unpack(&step)?, &mut out);
        }
        Ok(Some(out.into()))
    }
}

// === impl BodyDecoder ===

impl BodyDecoder {
    fn unpack(&mut self, bytes: &Bytes) -> Result<Bytes, BoxError> {
        Ok(match self {
            Self::None => bytes.clone(),
            Self::Gzip(decoder) => {
                decoder.write_all(bytes)?;
                std::mem::take(decoder.get_mut()).into()
            }
            Self::Deflate(decoder) => {
                decoder.write_all(bytes)?;
                std::mem::take(decoder.get_mut()).into()
            }
        })
    }

    fn finish(&mut self) -> Result<Bytes, BoxError> {
        Ok(match self {
            Self::None => Bytes::new(),
            Self::Gzip(decoder) => {
                decoder.try_finish()?;
                std::mem::take(decoder.get_mut()).into()
            }
            Self::Deflate(decoder) => {
                decoder.try_finish()?;
                std::mem::take(decoder.get_mut()).into()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_proxy_becomes_the_path() {
        let place = |prefix: &str, asked: &str, lacks_slash| ForwardedPath {
            prefix: prefix.into(),
            path_and_query: asked.into(),
            lacks_slash,
        };
        for (path, rest, query, expected) in [
            ("/a/proxy", "", None, place("/a/proxy", "/", true)),
            ("/a/proxy/", "", Some("q"), place("/a/proxy", "/?q", false)),
            (
                "/a/proxy/x/y%2Fz/",
                "x/y%2Fz/",
                Some("b=1&c=%20"),
                place("/a/proxy", "/x/y%2Fz/?b=1&c=%20", false),
            ),
            ("/a/proxy//x", "/x", None, place("/a/proxy", "/x", false)),
        ] {
            assert_eq!(ForwardedPath::of(path, rest, query), expected, "{path}");
        }
    }

    #[test]
    fn a_missing_slash_is_asked_for_with_the_query_kept() {
        let answer = redirect("/a/proxy", Some("b=1"));
        assert_eq!(answer.status(), 301);
        assert_eq!(answer.headers()[LOCATION], "/a/proxy/?b=1");
    }

    /// What comes of an answer that a target gives in raw.
    async fn answered(raw: &[u8], is_head: bool) -> (http::response::Parts, Vec<u8>) {
        use tokio::io::AsyncWriteExt as _;

        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let raw = raw.to_vec();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.write_all(&raw).await.expect("answered");
            // Until the other side has read it all.
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        });
        let target = Target {
            host: "127.0.0.1".to_owned(),
            port,
            tls: None,
            server_name: None,
            dialer: crate::egress::Dialer::default(),
        };
        let mut request = Request::new(body::empty());
        if is_head {
            *request.method_mut() = Method::HEAD;
        }
        let response = target.send(request).await.expect("an answer");
        let links = Links {
            prefix: "/p/proxy".to_owned(),
            target: target.address(),
            host: "server".to_owned(),
        };
        let response = answer(response, links, is_head, &CancellationToken::new());
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        (parts, body.to_vec())
    }

    fn gzipped(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).expect("packed");
        encoder.finish().expect("packed")
    }

    #[tokio::test]
    async fn links_of_pages_are_rewritten_packed_or_not() {
        let page = "<a href=\"/x\">y</a>".repeat(5000);
        let expected = page.replace("/x", "/p/proxy/x");
        for (encoding, body) in [("", page.clone().into_bytes()), ("gzip", gzipped(&page))] {
            let mut raw = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\
                 Content-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n",
                body.len()
            )
            .into_bytes();
            raw.extend(body);
            let (parts, got) = answered(&raw, false).await;
            assert!(got == expected.as_bytes(), "{encoding}");
            assert!(!parts.headers.contains_key(CONTENT_LENGTH));
            assert!(!parts.headers.contains_key(CONTENT_ENCODING));
        }
    }

    #[tokio::test]
    async fn what_is_no_page_goes_through_as_it_came() {
        let raw = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\
            Connection: close\r\n\r\n<a href=\"/x\">";
        let (parts, got) = answered(raw, false).await;
        assert_eq!(got, b"<a href=\"/x\">");
        assert_eq!(parts.headers[CONTENT_LENGTH], "13");
        let raw = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n";
        let (parts, got) = answered(raw, true).await;
        assert!(got.is_empty());
        assert_eq!(parts.headers[CONTENT_LENGTH], "13");
    }

    #[tokio::test]
    async fn redirects_lead_through_the_proxy() {
        let raw = b"HTTP/1.1 302 Found\r\nLocation: /login?next=/\r\nContent-Length: 0\r\n\r\n";
        let (parts, _) = answered(raw, false).await;
        assert_eq!(parts.status, 302);
        assert_eq!(parts.headers[LOCATION], "/p/proxy/login?next=/");
    }
}
