//! LIST: a snapshot of the cache, written without looking at the objects.
//!
//! The answer is made while it is sent, a chunk at a time: a list of any size
//! costs its reader's server one chunk and a reference to the snapshot.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use bytes::Bytes;
use control_kinds::Column;
use control_store::{Range, Revision};
use control_types::protobuf::EncodeError;
use control_types::registry;
use control_types::status::Status;
use control_types::value::Value;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::StreamBody;

use crate::api::{Api, ServedResource};
use crate::chain::Context;
use crate::reply::{self, Answer, GZIP_FROM};
use crate::selection::Selection;
use crate::write::store_error;
use control_request::body::{Body, BoxError};
use control_request::negotiate::{Format, Media, Shape};
use control_request::options::ListOptions;
use control_strategy::protobuf;
use control_strategy::table;
use control_watch_cache::{Cached, Change, Counts, Keyed, Position, ResourceCache, Tree};

/// How much of a list is made at a time.
const CHUNK: usize = 128 * 1024;

/// A snapshot of a resource and the revision as of which it is true.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The objects.
    pub objects: Arc<Tree<Cached>>,
    /// As of which revision.
    pub revision: Revision,
}

/// Answers a list.
///
/// # Errors
/// When options are malformed or the wanted resource version is gone.
pub async fn list(context: &Context, served: &Arc<ServedResource>) -> Answer {
    let options = ListOptions::parse(context.query())?;
    options.validate(false)?;
    let format = Format::of(&context.parts.headers, context.query())?;
    if format.shape == Shape::Metadata && !format.of_list {
        return Err(reply::not_acceptable_shape(served.resource, true));
    }
    let info = &context.info;
    let selection = Selection::new(
        served,
        served.scope(&info.namespace),
        if info.name_in_path { &info.name } else { "" },
        &options,
    )?;
    let span = control_tracing::child("cacher.GetList");
    let found = snapshot(&context.api, served, &options, &selection).await;
    drop(span);
    let (snapshot, start) = found?;
    let page = Page::new(&snapshot, &selection, start, options.page_size());
    let _span = control_tracing::child(reply::SERIALIZE);
    respond(&context.api, served, page, selection, format).await
}

/// The snapshot that a request asks for, and the place where its page begins. Where
/// objects are selected by what they are in the version that is served, it holds only
/// the selected ones.
pub(crate) async fn snapshot(
    api: &Api,
    served: &ServedResource,
    options: &ListOptions,
    selection: &Selection,
) -> Result<(Snapshot, Option<String>), Status> {
    let (mut snapshot, start) = whole(api, served, options, selection).await?;
    if selection.by_served_fields() {
        snapshot.objects = Arc::new(in_version(api, served, &snapshot.objects, selection).await?);
    }
    Ok((snapshot, start))
}

/// The selected objects in the version that is served, as far as it takes a webhook to
/// bring them there.
pub(crate) async fn in_version(
    api: &Api,
    served: &ServedResource,
    objects: &Tree<Cached>,
    selection: &Selection,
) -> Result<Tree<Cached>, Status> {
    let stored = objects
        .prefixed(selection.prefix())
        .filter(|object| selection.matches(object))
        .cloned()
        .collect();
    let mut objects = served.all_in_version(api, stored).await?;
    objects.retain(|object| selection.matches_served(served, object));
    Ok(Tree::from_sorted(objects))
}

async fn whole(
    api: &Api,
    served: &ServedResource,
    options: &ListOptions,
    selection: &Selection,
) -> Result<(Snapshot, Option<String>), Status> {
    if !options.continue_token.is_empty() {
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let token = Token::decode(&options.continue_token)?;
        let start = Some(format!(
            "{}{}",
            selection.prefix(),
            token.start.trim_start_matches('/')
        ));
        let Some(at) = token.revision else {
            api.fresh(served, None).await?;
            return Ok((present(api, served)?, start));
        };
        return match exact(api, served, at).await {
            Ok(snapshot) => Ok((snapshot, start)),
            Err(status) if status.reason == "Expired" => Err(expired_token(api, &token)),
            Err(status) => Err(status),
        };
    }
    match options.revision()? {
        None => api.fresh(served, None).await?,
        Some(0) => {}
        Some(at)
            if options.resource_version_match == "Exact"
                || (options.resource_version_match.is_empty() && options.limit > 0) =>
        {
            return Ok((exact(api, served, at).await?, None));
        }
        Some(at) => api.fresh(served, Some(at)).await?,
    }
    Ok((present(api, served)?, None))
}

/// The newest snapshot. The revision is read first: the snapshot holds at
/// least all that had happened by then.
pub(crate) fn present(api: &Api, served: &ServedResource) -> Result<Snapshot, Status> {
    let applied = api.caches.applied();
    let state = served.cache()?.state();
    Ok(Snapshot {
        objects: Arc::new(state.objects.clone()),
        revision: applied.max(state.revision),
    })
}

/// The objects as they were at a revision: the present ones if nothing changed
/// since, else the store's.
async fn exact(api: &Api, served: &ServedResource, revision: Revision) -> Result<Snapshot, Status> {
    api.reach(revision).await?;
    // What the store has forgotten is told to be gone even where nothing has
    // changed since: clients learn at the same time, whatever they list.
    if revision < api.store().compacted() {
        return Err(store_error(&control_store::Error::Compacted {
            requested: revision,
            compacted: api.store().compacted(),
        }));
    }
    let cache = served.cache()?;
    let state = cache.state();
    if state.revision <= revision {
        return Ok(Snapshot {
            objects: Arc::new(state.objects.clone()),
            revision,
        });
    }
    let range = Range {
        at: Some(revision),
        ..Range::prefix(cache.prefix().to_owned())
    };
    let page = api
        .store()
        .range(range)
        .await
        .map_err(|error| store_error(&error))?;
    let mut objects = Vec::with_capacity(page.kvs.len());
    for kv in &page.kvs {
        let Some(key) = std::str::from_utf8(&kv.key)
            .ok()
            .and_then(|key| key.strip_prefix(cache.prefix()))
        else {
            continue;
        };
        let bytes = api
            .transform
            .open(&kv.key, &kv.value)
            .map_err(Status::internal)?;
        let (revision, reading) = (kv.mod_revision, cache.reading());
        let object = Cached::new(key, &bytes, revision, Change::Modified, reading)
            .map_err(Status::internal)?;
        objects.push(Arc::new(object));
    }
    Ok(Snapshot {
        objects: Arc::new(Tree::from_sorted(objects)),
        revision,
    })
}

fn expired_token(api: &Api, token: &Token) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    let _ = api;
    status.continue_token = Token {
        revision: None,
        start: token.start.clone(),
    }
    .encode();
    status
}

/// A continuation token, in the form of stock: base64 of a JSON object.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    /// Of the first page; `None` goes on in the present.
    revision: Option<Revision>,
    /// The key, within the namespace listed, of the first item of the next page.
    start: String,
}

impl Token {
    fn encode(&self) -> String {
        let mut token = Value::object();
        token.insert("v", "meta.k8s.io/v1");
        token.insert("rv", self.revision.map_or(Value::Int(-1), Value::from));
        token.insert("start", self.start.as_str());
        URL_SAFE_NO_PAD.encode(token.to_vec())
    }

    fn decode(text: &str) -> Result<Self, Status> {
        let bad = |why: &str| {
            Status::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        let bytes = [URL_SAFE_NO_PAD, URL_SAFE, STANDARD, STANDARD_NO_PAD]
            .iter()
            .find_map(|engine| engine.decode(text).ok())
            .ok_or_else(|| {
                let at = no_base64(text);
                bad(&format!("illegal base64 data at input byte {at}"))
            })?;
        let token = Value::from_slice(&bytes).map_err(|error| bad(&error.to_string()))?;
        for (member, kind) in [("v", "string"), ("rv", "int64"), ("start", "string")] {
            let fits = match token.get(member) {
                None | Some(Value::Null) => true,
                Some(value) if kind == "string" => value.as_str().is_some(),
                Some(value) => value.as_i64().is_some(),
            };
            if !fits {
                let given = token.get(member).map_or("null", Value::type_name);
                return Err(bad(&format!(
                    "json: cannot unmarshal {given} into Go struct field continueToken.{member} of type {kind}"
                )));
            }
        }
        let version = token.str_at(&["v"]).unwrap_or_default();
        if version != "meta.k8s.io/v1" {
            return Err(bad(&format!(
                "server does not recognize this encoded version {version}"
            )));
        }
        let start = token
            .str_at(&["start"])
            .filter(|start| !start.is_empty())
            .ok_or_else(|| bad("encoded start key empty (version meta.k8s.io/v1)"))?;
        if start.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(bad(start));
        }
        let revision = match token.i64_at(&["rv"]) {
            Some(number) if number < 0 => None,
            Some(0) | None => {
                return Err(bad(
                    "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
                ));
            }
            Some(number) => u64::try_from(number).ok(),
        };
        Ok(Self {
            revision,
            start: start.to_owned(),
        })
    }
}

/// Where a text stops being base64, as Go counts.
fn no_base64(text: &str) -> usize {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let strange = text.bytes().position(|byte| !is_letter(byte));
    strange.unwrap_or_else(|| text.len().saturating_sub(1))
}

/// One page of a snapshot.
pub(crate) struct Page {
    objects: Arc<Tree<Cached>>,
    revision: Revision,
    begin: Position,
    /// How many items there are; `None` when that was not counted.
    items: Option<usize>,
    continue_token: String,
    remaining: Option<usize>,
}

impl Page {
    /// The page that begins at `start`, or with the first object; `limit` 0
    /// takes all.
    pub(crate) fn new(
        snapshot: &Snapshot,
        selection: &Selection,
        start: Option<String>,
        limit: usize,
    ) -> Self {
        let objects = Arc::clone(&snapshot.objects);
        let begin = objects.seek(
            start
                .as_deref()
                .or(selection.only())
                .unwrap_or_else(|| selection.prefix()),
        );
        let mut page = Self {
            objects,
            revision: snapshot.revision,
            begin,
            items: None,
            continue_token: String::new(),
            remaining: None,
        };
        if limit == 0 {
            return page;
        }
        let objects = Arc::clone(&page.objects);
        let mut rest = objects
            .iter_from(begin)
            .take_while(|object| object.key().starts_with(selection.prefix()));
        let mut last = None;
        let mut items = 0;
        for object in rest
            .by_ref()
            .filter(|object| selection.matches(object))
            .take(limit)
        {
            last = Some(object.key().to_owned());
            items += 1;
        }
        let more = if selection.is_everything() {
            let count = rest.count();
            page.remaining = (count > 0).then_some(count);
            count > 0
        } else {
            rest.any(|object| selection.matches(object))
        };
        page.items = Some(items);
        if let Some(last) = last.filter(|_| more) {
            // The smallest key after the last one.
            let start = format!("/{}\0", &last[selection.prefix().len()..]);
            page.continue_token = Token {
                revision: Some(snapshot.revision),
                start,
            }
            .encode();
        }
        page
    }

    /// The selected objects of the page.
    pub(crate) fn selected(&self, selection: &Selection) -> Vec<Arc<Cached>> {
        self.objects
            .iter_from(self.begin)
            .take_while(|object| object.key().starts_with(selection.prefix()))
            .filter(|object| selection.matches(object))
            .take(self.items.unwrap_or(usize::MAX))
            .cloned()
            .collect()
    }

    /// The page with its objects in the version that is served, where that takes a
    /// webhook.
    async fn converted(
        mut self,
        api: &Api,
        served: &ServedResource,
        selection: &Selection,
    ) -> Result<Self, Status> {
        if served.converter().is_some() {
            let objects = self.selected(selection);
            let objects = served.all_in_version(api, objects).await?;
            self.objects = Arc::new(Tree::from_sorted(objects));
            self.begin = Position::default();
        }
        Ok(self)
    }

    /// `metadata` of the list.
    fn metadata(&self) -> Value {
        let mut metadata = Value::object();
        metadata.insert("resourceVersion", self.revision.to_string());
        if !self.continue_token.is_empty() {
            metadata.insert("continue", self.continue_token.as_str());
        }
        if let Some(remaining) = self.remaining {
            metadata.insert("remainingItemCount", remaining);
        }
        metadata
    }
}

/// How an item is written.
type WriteItem = Box<dyn Fn(&Cached, &mut Vec<u8>) + Send>;

/// Makes the bytes of a list, a chunk at a time.
struct Writer {
    objects: Arc<Tree<Cached>>,
    position: Option<Position>,
    selection: Selection,
    /// How many items may still come.
    left: usize,
    first: bool,
    head: Vec<u8>,
    /// What stands before the first item, between items, behind the last, and instead
    /// of all that where there is none.
    open: &'static [u8],
    between: &'static [u8],
    end: &'static [u8],
    none: &'static [u8],
    item: WriteItem,
    tally: Tally,
}

/// Counts what a list took, where its cache is known.
#[derive(Default)]
struct Tally(Option<Arc<ResourceCache>>);

impl Tally {
    /// Begins a list.
    fn of(served: &ServedResource) -> Self {
        if let Some(cache) = &served.cache {
            Counts::add(&cache.counts().lists, 1);
        }
        Self(served.cache.clone())
    }

    /// So many objects were looked at and sent.
    fn add(&self, looked: usize, sent: usize) {
        if let Some(cache) = &self.0 {
            Counts::add(&cache.counts().fetched, looked);
            Counts::add(&cache.counts().returned, sent);
        }
    }
}

impl Iterator for Writer {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut position = self.position?;
        let (mut looked, mut ended, left) = (0, false, self.left);
        let mut out = Vec::with_capacity(if self.head.is_empty() {
            CHUNK + CHUNK / 4
        } else {
            1024
        });
        out.append(&mut self.head);
        let everything = self.selection.is_everything();
        while out.len() < CHUNK && self.left > 0 {
            let Some((object, next)) = self.objects.at(position) else {
                break;
            };
            if !object.key().starts_with(self.selection.prefix()) {
                break;
            }
            position = next;
            looked += 1;
            if everything || self.selection.matches(object) {
                let first = std::mem::replace(&mut self.first, false);
                out.extend_from_slice(if first { self.open } else { self.between });
                (self.item)(object, &mut out);
                self.left -= 1;
            } else if self
                .selection
                .only()
                .is_some_and(|only| only < object.key())
            {
                ended = true;
                break;
            }
        }
        self.tally.add(looked, left - self.left);
        if ended {
            self.left = 0;
        }
        if out.len() < CHUNK {
            out.extend_from_slice(if self.first { self.none } else { self.end });
            self.position = None;
        } else {
            self.position = Some(position);
        }
        Some(out)
    }
}

/// Writes a page in the shape that the client wants.
pub(crate) async fn respond(
    api: &Api,
    served: &Arc<ServedResource>,
    page: Page,
    selection: Selection,
    format: Format,
) -> Answer {
    let page = page.converted(api, served, &selection).await?;
    if format.media == Media::Protobuf {
        return in_protobuf(served, page, selection, format).await;
    }
    let mut head = Vec::with_capacity(256);
    let (kind, version, items, item): (String, String, &[u8], WriteItem) = match format.shape {
        // Custom objects say in lists, too, what they are.
        Shape::Plain if served.is_stored_form() && served.resource.is_custom() => (
            served.list_kind(),
            served.api_version.clone(),
            b",\"items\":",
            {
                let served = Arc::clone(served);
                Box::new(move |object, out| {
                    if served.is_form_of(object) {
                        out.extend_from_slice(object.json());
                    } else {
                        served.tree(object).unwrap_or_default().write(out);
                    }
                })
            },
        ),
        Shape::Plain if served.is_stored_form() => (
            served.list_kind(),
            served.api_version.clone(),
            b",\"items\":",
            Box::new(|object, out| {
                out.push(b'{');
                out.extend_from_slice(object.item());
            }),
        ),
        shape => {
            let served = Arc::clone(served);
            let (kind, version, items) = match shape {
                Shape::Plain => (
                    served.list_kind(),
                    served.api_version.clone(),
                    &b",\"items\":"[..],
                ),
                Shape::Metadata => (
                    "PartialObjectMetadataList".into(),
                    format!("meta.k8s.io/{}", format.shape_version),
                    &b",\"items\":"[..],
                ),
                Shape::Table => (
                    "Table".into(),
                    format!("meta.k8s.io/{}", format.shape_version),
                    &b",\"rows\":"[..],
                ),
            };
            let write: WriteItem = Box::new(move |object, out| match served.tree(object) {
                Ok(mut value) => {
                    match shape {
                        Shape::Plain if served.resource.is_custom() => {}
                        Shape::Plain => {
                            value.remove("kind");
                            value.remove("apiVersion");
                        }
                        Shape::Metadata => value = table::partial(value, &served.kind, format),
                        Shape::Table => value = table::row(&served.kind, value, format),
                    }
                    value.write(out);
                }
                Err(_) => out.extend_from_slice(b"null"),
            });
            (kind, version, items, write)
        }
    };
    head.extend_from_slice(b"{\"kind\":");
    Value::from(kind).write(&mut head);
    head.extend_from_slice(b",\"apiVersion\":");
    Value::from(version).write(&mut head);
    head.extend_from_slice(b",\"metadata\":");
    let mut metadata = page.metadata();
    let is_plain = format.shape == Shape::Plain;
    if is_plain && served.resource.is_custom() && metadata.get("continue").is_none() {
        // Lists of custom objects are trees to Go, which leave nothing out.
        metadata.insert("continue", "");
    }
    metadata.write(&mut head);
    if format.shape == Shape::Table {
        head.extend_from_slice(b",\"columnDefinitions\":");
        table::column_definitions(served.kind.columns()).write(&mut head);
    }
    head.extend_from_slice(items);
    // What Go makes of a list by appending to none, as opposed to one of length 0.
    let is_null = match format.shape {
        Shape::Plain => false,
        Shape::Metadata => true,
        Shape::Table => Column::are_default(served.kind.columns()),
    };
    let mut writer = Writer {
        objects: page.objects,
        position: Some(page.begin),
        selection,
        left: page.items.unwrap_or(usize::MAX),
        first: true,
        head,
        open: b"[",
        between: b",",
        end: b"]}\n",
        none: if is_null { b"null}\n" } else { b"[]}\n" },
        item,
        tally: Tally::of(served),
    };
    if format.media == Media::Yaml || format.pretty {
        let whole: Vec<u8> = writer.flatten().collect();
        let value = Value::from_slice(&whole).map_err(Status::internal)?;
        return Ok(reply::value(200, &value, format));
    }
    let first = writer.next().unwrap_or_default();
    if writer.position.is_none() && first.len() < GZIP_FROM {
        return Ok(reply::json(200, first));
    }
    Ok(streamed(first, writer, format))
}

/// A list in protobuf. Its envelope begins with its length, so that the items are
/// measured before the first byte is sent; what an object takes is then remembered.
async fn in_protobuf(
    served: &Arc<ServedResource>,
    page: Page,
    selection: Selection,
    format: Format,
) -> Answer {
    let stored = format.shape == Shape::Plain && served.is_stored_form();
    let item = |served: &Arc<ServedResource>| -> Box<dyn Fn(&Cached, &mut Vec<u8>) -> Step + Send> {
        let served = Arc::clone(served);
        let schema = served.resource.schema;
        match format.shape {
            Shape::Plain if stored => {
                Box::new(move |object, out| protobuf::push_item(object.json(), schema, out))
            }
            shape => {
                let of = if shape == Shape::Metadata {
                    registry::schema_of("meta.k8s.io", "v1", "PartialObjectMetadata")
                } else {
                    Some(schema)
                };
                Box::new(move |object, out| {
                    // An object that cannot be read is left out.
                    if let (Ok(mut value), Some(of)) = (served.tree(object), of) {
                        if shape == Shape::Metadata {
                            value = table::partial(value, &served.kind, format);
                        }
                        protobuf::push_item(&value.to_vec(), of, out)?;
                    }
                    Ok(())
                })
            }
        }
    };
    let metadata = page.metadata();
    let (kind, version) = match format.shape {
        Shape::Metadata => (
            "PartialObjectMetadataList".to_owned(),
            format!("meta.k8s.io/{}", format.shape_version),
        ),
        _ => (served.list_kind(), served.api_version.clone()),
    };
    let writer = |head: Vec<u8>, page: &Page, selection: Selection, item: WriteItem| Writer {
        objects: Arc::clone(&page.objects),
        position: Some(page.begin),
        selection,
        left: page.items.unwrap_or(usize::MAX),
        first: true,
        head,
        open: b"",
        between: b"",
        end: protobuf::LIST_END,
        none: protobuf::LIST_END,
        item,
        // It is measured first, which is not another list.
        tally: Tally::default(),
    };
    let (total, failed) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let measure: WriteItem = {
        let (total, failed) = (Arc::clone(&total), Arc::clone(&failed));
        let (schema, write) = (served.resource.schema, item(served));
        let scratch = std::sync::Mutex::new(Vec::new());
        Box::new(move |object, _| {
            let mut scratch = scratch.lock().unwrap_or_else(PoisonError::into_inner);
            let length = if stored {
                object.protobuf_item_length(schema, &mut scratch)
            } else {
                scratch.clear();
                write(object, &mut scratch).map(|()| scratch.len())
            };
            match length {
                Ok(length) => {
                    total.fetch_add(length, Ordering::Relaxed);
                }
                Err(error) => {
                    tracing::error!(key = object.key(), %error, "object has no form in protobuf");
                    failed.store(true, Ordering::Relaxed);
                }
            }
        })
    };
    let measured = writer(Vec::new(), &page, selection.clone(), measure);
    let large = page.items.unwrap_or(usize::MAX).min(page.objects.len()) > BLOCKING;
    let count = move || measured.for_each(drop);
    if large {
        tokio::task::spawn_blocking(count)
            .await
            .map_err(Status::internal)?;
    } else {
        count();
    }
    if failed.load(Ordering::Relaxed) {
        return Err(Status::internal("an object cannot be written in protobuf"));
    }
    let head = protobuf::list_head(&version, &kind, &metadata, total.load(Ordering::Relaxed))?;
    let write = item(served);
    let mut writer = writer(
        head,
        &page,
        selection,
        // What was measured is written: it cannot fail here.
        Box::new(move |object, out| {
            let _ = write(object, out);
        }),
    );
    writer.tally = Tally::of(served);
    let first = writer.next().unwrap_or_default();
    if writer.position.is_none() && first.len() < GZIP_FROM {
        return Ok(reply::bytes(200, format.media.content_type(), first));
    }
    Ok(streamed(first, writer, format))
}

/// Lists of more objects than this are measured beside the tasks that answer others.
const BLOCKING: usize = 2000;

type Step = Result<(), EncodeError>;

/// A response whose body is made while it is sent.
fn streamed(first: Vec<u8>, rest: Writer, format: Format) -> Response<Body> {
    let gzip = format.gzip;
    let chunks = std::iter::once(first).chain(rest);
    let mut response = if gzip {
        let packed = Gzip {
            chunks,
            encoder: Some(GzEncoder::new(
                Vec::with_capacity(CHUNK / 4),
                Compression::fast(),
            )),
        };
        Response::new(stream_body(packed))
    } else {
        Response::new(stream_body(chunks.map(Bytes::from)))
    };
    let headers = response.headers_mut();
    let media = format.media.content_type();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

fn stream_body(chunks: impl Iterator<Item = Bytes> + Send + 'static) -> Body {
    Body::new(StreamBody::new(stream::iter(
        chunks.map(|chunk| Ok::<_, BoxError>(Frame::data(chunk))),
    )))
}

/// Compresses chunks on their way.
struct Gzip<I> {
    chunks: I,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl<I: Iterator<Item = Vec<u8>>> Iterator for Gzip<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            let encoder = self.encoder.as_mut()?;
            let Some(chunk) = self.chunks.next() else {
                // Writing to memory does not fail.
                return self
                    .encoder
                    .take()
                    .and_then(|encoder| encoder.finish().ok())
                    .map(Bytes::from);
            };
            if encoder.write_all(&chunk).is_err() {
                return None;
            }
            let packed = std::mem::take(encoder.get_mut());
            if !packed.is_empty() {
                return Some(packed.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_back() {
        for revision in [Some(17), None] {
            let token = Token {
                revision,
                start: "web\0".into(),
            };
            assert_eq!(Token::decode(&token.encode()), Ok(token));
        }
    }

    #[test]
    fn tokens_of_others_are_refused() {
        for text in [
            "!",
            "e30",
            &URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#),
            &URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"../a"}"#),
        ] {
            assert_eq!(
                Token::decode(text).expect_err("refused").code,
                400,
                "{text}"
            );
        }
    }
}
