//! How documents are answered: which form, from whose cache, for how long.

use std::sync::Arc;

use bytes::Bytes;
use control_types::value;
use control_types::value::Value;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_RANGE, CONTENT_TYPE, ETAG, EXPIRES, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
    LOCATION, RANGE, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};

use control_openapi::{CustomResources, Document, metrics};
use control_watch_cache::ResourceCache;

use control_aggregation::Aggregator;
use control_openapi::MergedDocuments;
use control_registry::custom::{self, Snapshot};
use control_registry::{Context, Storage, reply};
use control_request::body::Body;

/// How long clients may keep what they asked for by its hash.
const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);

/// The OpenAPI documents of a server.
#[derive(Debug)]
pub struct OpenApi {
    storage: Arc<Storage>,
    aggregator: Arc<Aggregator>,
    /// What documents last said of custom resources and other servers.
    merged: MergedDocuments,
}

impl OpenApi {
    /// Describes what is served from `storage` and by other servers.
    #[must_use]
    pub fn new(storage: Arc<Storage>, aggregator: Arc<Aggregator>) -> Self {
        Self {
            storage,
            aggregator,
            merged: MergedDocuments::default(),
        }
    }

    /// Answers a request below `/openapi/`; nothing for paths that nobody serves.
    pub async fn answer(self: &Arc<Self>, context: &Context, path: &str) -> Option<Response<Body>> {
        let headers = &context.parts.headers;
        let this = Arc::clone(self);
        if path == "/openapi/v2" {
            let document = blocking(move || this.of_everything()).await?;
            return Some(v2(document, headers).await);
        }
        if path == "/openapi/v3" {
            let index = blocking(move || this.merged.index(&this.definitions())).await?;
            let media = "text/plain; charset=utf-8";
            let mut others = self.aggregator.documents();
            if self.serves_metrics()
                && let Some(document) = blocking(metrics::document).await
            {
                let url = format!("/openapi/v3/{}?hash={}", metrics::PLACE, document.hash);
                others.push((metrics::PLACE.to_owned(), url));
            }
            let json = if others.is_empty() {
                index.json
            } else {
                with_others(&index.json, others)
            };
            return Some(part(json, media, index.made, headers));
        }
        let place = path.strip_prefix("/openapi/v3/")?.to_owned();
        let find = move || {
            if place == metrics::PLACE && this.serves_metrics() {
                return Some(metrics::document());
            }
            control_openapi::v3(&place)
                .or_else(|| this.merged.of_version(&this.definitions(), &place))
        };
        let Some(document) = blocking(find).await? else {
            return Some(empty(404));
        };
        Some(v3(document, path, context).await)
    }

    fn of_everything(&self) -> Arc<Document> {
        let others = self.aggregator.swaggers();
        self.merged
            .of_everything(&self.definitions(), &others, self.serves_metrics())
    }

    /// Whether this server serves `metrics.k8s.io` at the moment.
    fn serves_metrics(&self) -> bool {
        self.aggregator
            .serves_locally(metrics::GROUP, metrics::VERSION)
    }

    /// The definitions as they are now.
    fn definitions(&self) -> Definitions {
        let served = self.storage.resource(custom::GROUP, custom::PLURAL).ok();
        Definitions {
            snapshot: Arc::clone(&self.storage.definitions.now()),
            cache: served.and_then(|served| served.cache.clone()),
        }
    }
}

/// The definitions of custom resources at one moment.
struct Definitions {
    snapshot: Arc<Snapshot>,
    cache: Option<Arc<ResourceCache>>,
}

impl CustomResources for Definitions {
    fn generation(&self) -> u64 {
        self.snapshot.generation
    }

    fn groups(&self) -> Vec<&'static str> {
        self.snapshot.groups()
    }

    fn versions(&self, group: &str) -> Vec<&'static str> {
        self.snapshot.versions(group)
    }

    fn identities(&self, group: &str, version: &str) -> Vec<String> {
        let served = self.snapshot.resources_of(group, version);
        served
            .iter()
            .filter_map(|served| Some(served.kind.crd_versions()?.identity.clone()))
            .collect()
    }

    fn definitions(&self, group: &str, version: &str) -> Vec<Value> {
        let served = self.snapshot.resources_of(group, version);
        served
            .iter()
            .filter_map(|served| {
                let name = format!("{}.{group}", served.resource.plural);
                // One that is gone by now is not told of any more.
                self.cache.as_ref()?.get(&name)?.value().ok()
            })
            .collect()
    }
}

/// The index with the documents of other servers, which win where they have one.
fn with_others(index: &[u8], others: Vec<(String, String)>) -> Bytes {
    // Written by this server.
    let mut index = Value::from_slice(index).unwrap_or_default();
    let paths = index.make_object().object_mut("paths");
    for (place, url) in others {
        paths.insert(place.as_str(), value!({"serverRelativeURL": url}));
    }
    paths.sort();
    index.to_vec().into()
}

/// Documents are megabytes: making and unpacking them is left to other threads.
async fn blocking<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(make).await.ok()
}

async fn v3(document: Arc<Document>, path: &str, context: &Context) -> Response<Body> {
    let headers = &context.parts.headers;
    let Some(media) = accepted(headers, "3") else {
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
        etag(&mut response, &document);
        vary(&mut response, "Accept");
        return response;
    }
    let mut response = match unchanged(&document, headers) {
        Some(response) => response,
        None => plain(Arc::clone(&document), media, headers).await,
    };
    etag(&mut response, &document);
    vary(&mut response, "Accept");
    if asked.is_some() {
        set(&mut response, CACHE_CONTROL, "public, immutable");
        let expires = date(Timestamp::now() + YEAR).replace("GMT", "UTC");
        set(&mut response, EXPIRES, &expires);
    }
    response
}

async fn v2(document: Arc<Document>, headers: &HeaderMap) -> Response<Body> {
    let Some(media) = accepted(headers, "2") else {
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
    let mut response = match unchanged(&document, headers) {
        Some(response) => response,
        None if gzip => {
            let mut response = part(document.gzip.clone(), media.name(), document.made, headers);
            set(&mut response, CONTENT_ENCODING, "gzip");
            response
        }
        None => plain(Arc::clone(&document), media, headers).await,
    };
    etag(&mut response, &document);
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
            .is_ok_and(|since| document.made.as_second() <= since.timestamp().as_second()),
        (None, None) => false,
    };
    same.then(|| {
        let mut response = empty(304);
        response.headers_mut().remove(CONTENT_LENGTH);
        response
    })
}

async fn plain(document: Arc<Document>, media: Media, headers: &HeaderMap) -> Response<Body> {
    let made = document.made;
    let bytes = blocking(move || match media {
        Media::Json => document.json(),
        Media::Protobuf(_) => document.protobuf(),
    });
    part(
        bytes.await.unwrap_or_default().into(),
        media.name(),
        made,
        headers,
    )
}

/// Bytes, or the part of them that is asked for (RFC 9110, section 14).
fn part(bytes: Bytes, media: &'static str, made: Timestamp, headers: &HeaderMap) -> Response<Body> {
    let length = bytes.len();
    let asked = headers.get(RANGE).and_then(|range| range.to_str().ok());
    let range = asked.and_then(|range| range_of(range, length));
    let mut response = match range {
        None => reply::bytes(200, media, bytes),
        Some(Some((first, last))) => {
            let mut response = reply::bytes(206, media, bytes.slice(first..=last));
            let told = format!("bytes {first}-{last}/{length}");
            set(&mut response, CONTENT_RANGE, &told);
            response
        }
        Some(None) => {
            let mut response = reply::text(416, "invalid range: failed to overlap\n");
            set(&mut response, CONTENT_RANGE, &format!("bytes */{length}"));
            return response;
        }
    };
    set(&mut response, ACCEPT_RANGES, "bytes");
    set(&mut response, LAST_MODIFIED, &date(made));
    response
}

/// The first and last byte of a range; inner nothing when it is beyond the end.
/// Several ranges at once, and what is none, get the whole, which is allowed.
fn range_of(range: &str, length: usize) -> Option<Option<(usize, usize)>> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let end = length.checked_sub(1)?;
    if first.is_empty() {
        let count: usize = last.parse().ok()?;
        return Some((count > 0).then_some((length.saturating_sub(count), end)));
    }
    let first: usize = first.parse().ok()?;
    let last = if last.is_empty() {
        end
    } else {
        last.parse().ok().filter(|last| *last >= first)?
    };
    Some((first < length).then_some((first, last.min(end))))
}

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Media {
    Json,
    /// The protobuf of OpenAPI, by its media type.
    Protobuf(&'static str),
}

impl Media {
    const fn name(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf(name) => name,
        }
    }
}

/// What the client wants most of what there is.
fn accepted(headers: &HeaderMap, version: &str) -> Option<Media> {
    let protobuf = match version {
        "2" => "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
        _ => "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    };
    // The name in use before had a letter that media types may not have.
    let older = protobuf.replace(&format!("v{version}.v1.0"), &format!("v{version}@v1.0"));
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
        other if other == protobuf || other == older => Some(Media::Protobuf(protobuf)),
        _ => None,
    })
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
    if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
        return;
    }
    set(response, ETAG, &format!("\"{}\"", document.hash));
}

fn vary(response: &mut Response<Body>, by: &'static str) {
    response
        .headers_mut()
        .append(VARY, HeaderValue::from_static(by));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_other_servers_stand_in_the_index_by_name() {
        let index = value!({"paths": {"api/v1": {"serverRelativeURL": "/a"}, "version": {}}});
        let others = vec![(
            "apis/g/v1".to_owned(),
            "/openapi/v3/apis/g/v1?hash=H".to_owned(),
        )];
        let merged = with_others(&index.to_vec(), others);
        let wanted = value!({"paths": {
            "api/v1": {"serverRelativeURL": "/a"},
            "apis/g/v1": {"serverRelativeURL": "/openapi/v3/apis/g/v1?hash=H"},
            "version": {}
        }});
        assert_eq!(&merged[..], wanted.to_vec());
    }

    fn accept(text: &str) -> Option<Media> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(text).expect("text"));
        accepted(&headers, "2")
    }

    #[test]
    fn the_heaviest_clause_that_can_be_made_wins() {
        let name = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
        let older = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
        assert_eq!(accept(older), Some(Media::Protobuf(name)));
        let both = format!("application/json;q=0.1,{name}");
        assert_eq!(accept(&both), Some(Media::Protobuf(name)));
        assert_eq!(accept("text/html,application/*"), Some(Media::Json));
        assert_eq!(accept("application/yaml"), None);
        assert_eq!(accepted(&HeaderMap::new(), "3"), Some(Media::Json));
    }

    #[test]
    fn ranges_are_cut_to_what_there_is() {
        assert_eq!(range_of("bytes=0-10", 100), Some(Some((0, 10))));
        assert_eq!(range_of("bytes=90-", 100), Some(Some((90, 99))));
        assert_eq!(range_of("bytes=-5", 100), Some(Some((95, 99))));
        assert_eq!(range_of("bytes=50-500", 100), Some(Some((50, 99))));
        assert_eq!(range_of("bytes=100-", 100), Some(None));
        for whole in ["bytes=5-4", "bytes=a-b", "lines=0-1", "bytes=0-1,5-6"] {
            assert_eq!(range_of(whole, 100), None, "{whole}");
        }
    }

    #[test]
    fn dates_are_those_of_http() {
        let at = Timestamp::from_second(784_111_777).expect("in range");
        assert_eq!(date(at), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
