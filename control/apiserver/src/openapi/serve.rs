//! How documents are answered: which form, from whose cache, for how long.

use std::sync::OnceLock;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG,
    EXPIRES, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, LOCATION, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use jiff::{SignedDuration, Timestamp};

use super::Document;
use crate::body::Body;
use crate::chain::Context;
use crate::reply;

/// How long clients may keep what they asked for by its hash.
const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);

/// Answers a request below `/openapi/`; nothing for paths that nobody serves.
pub async fn answer(context: &Context, path: &str) -> Option<Response<Body>> {
    let headers = &context.parts.headers;
    if path == "/openapi/v2" {
        let document = blocking(super::v2).await?;
        return Some(v2(document, headers).await);
    }
    if path == "/openapi/v3" {
        let index = blocking(super::index).await?;
        let mut response = reply::bytes(200, "text/plain; charset=utf-8", index.clone());
        set(&mut response, LAST_MODIFIED, &date(started()));
        return Some(response);
    }
    let place = path.strip_prefix("/openapi/v3/")?.to_owned();
    let Some(document) = blocking(move || super::v3(&place)).await? else {
        return Some(empty(404));
    };
    Some(v3(document, path, context).await)
}

/// Documents are megabytes: making and unpacking them is left to other threads.
async fn blocking<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(make).await.ok()
}

async fn v3(document: &'static Document, path: &str, context: &Context) -> Response<Body> {
    let headers = &context.parts.headers;
    let Some(media) = accepted(headers) else {
        let mut response = empty(406);
        vary(&mut response, "Accept");
        return response;
    };
    let asked = context.query_value("hash").filter(|hash| !hash.is_empty());
    if let Some(asked) = &asked
        && !asked.eq_ignore_ascii_case(&document.hash)
    {
        let mut response = reply::bytes(301, media.name(), "");
        set(
            &mut response,
            LOCATION,
            &format!("{path}?hash={}", document.hash),
        );
        etag(&mut response, document);
        vary(&mut response, "Accept");
        return response;
    }
    let mut response = match unchanged(document, headers) {
        Some(response) => response,
        None => whole(document, media).await,
    };
    etag(&mut response, document);
    vary(&mut response, "Accept");
    if asked.is_some() {
        set(&mut response, CACHE_CONTROL, "public, immutable");
        let expires = date(Timestamp::now() + YEAR).replace("GMT", "UTC");
        set(&mut response, EXPIRES, &expires);
    }
    response
}

async fn v2(document: &'static Document, headers: &HeaderMap) -> Response<Body> {
    let Some(media) = accepted(headers) else {
        let mut response = empty(406);
        vary(&mut response, "Accept-Encoding");
        vary(&mut response, "Accept");
        return response;
    };
    let gzip = media == Media::Json
        && headers.get_all(ACCEPT_ENCODING).iter().any(|value| {
            let value = value.to_str().unwrap_or_default();
            value.split(',').any(|one| {
                one.split(';')
                    .next()
                    .is_some_and(|one| one.trim() == "gzip")
            })
        });
    let mut response = match unchanged(document, headers) {
        Some(response) => response,
        None if gzip => {
            let mut response = reply::bytes(200, media.name(), document.gzip.clone());
            set(&mut response, CONTENT_ENCODING, "gzip");
            set(&mut response, LAST_MODIFIED, &date(started()));
            response
        }
        None => whole(document, media).await,
    };
    etag(&mut response, document);
    vary(&mut response, "Accept-Encoding");
    vary(&mut response, "Accept");
    response
}

/// 304, if the client has the document.
fn unchanged(document: &Document, headers: &HeaderMap) -> Option<Response<Body>> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let same = match (text(IF_NONE_MATCH), text(IF_MODIFIED_SINCE)) {
        (Some(list), _) => list.split(',').any(|one| {
            let one = one.trim();
            let one = one.strip_prefix("W/").unwrap_or(one);
            one == "*" || one.trim_matches('"') == document.hash
        }),
        (None, Some(since)) => jiff::fmt::rfc2822::parse(since)
            .is_ok_and(|since| started().as_second() <= since.timestamp().as_second()),
        (None, None) => false,
    };
    same.then(|| {
        let mut response = empty(304);
        response.headers_mut().remove(CONTENT_LENGTH);
        response
    })
}

async fn whole(document: &'static Document, media: Media) -> Response<Body> {
    let bytes = blocking(|| document.json()).await.unwrap_or_default();
    let mut response = reply::bytes(200, media.name(), bytes);
    set(&mut response, LAST_MODIFIED, &date(started()));
    response
}

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Media {
    Json,
}

impl Media {
    const fn name(self) -> &'static str {
        match self {
            Self::Json => "application/json",
        }
    }
}

/// What the client wants most of what there is.
fn accepted(headers: &HeaderMap) -> Option<Media> {
    let accept = headers
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .filter(|accept| !accept.is_empty())
        .unwrap_or("*/*");
    let mut clauses: Vec<(f32, &str)> = accept
        .split(',')
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let weight = parts
                .filter_map(|part| part.strip_prefix("q="))
                .find_map(|weight| weight.parse().ok());
            (weight.unwrap_or(1.0), media)
        })
        .collect();
    clauses.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    clauses.into_iter().find_map(|(_, media)| match media {
        "*/*" | "application/*" | "application/json" => Some(Media::Json),
        _ => None,
    })
}

/// When documents last changed: never while the program runs.
fn started() -> Timestamp {
    static STARTED: OnceLock<Timestamp> = OnceLock::new();
    *STARTED.get_or_init(Timestamp::now)
}

/// A date as HTTP writes it.
fn date(at: Timestamp) -> String {
    at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

fn empty(code: u16) -> Response<Body> {
    let mut response = reply::bytes(code, "", Bytes::new());
    response.headers_mut().remove(CONTENT_TYPE);
    response
}

fn set(response: &mut Response<Body>, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        response.headers_mut().insert(name, value);
    }
}

fn etag(response: &mut Response<Body>, document: &Document) {
    set(response, ETAG, &format!("\"{}\"", document.hash));
}

fn vary(response: &mut Response<Body>, by: &'static str) {
    response
        .headers_mut()
        .append(VARY, HeaderValue::from_static(by));
}
