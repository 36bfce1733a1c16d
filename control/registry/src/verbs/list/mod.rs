//! LIST: a snapshot of the cache, written without looking at the objects.
//!
//! The answer is made while it is sent, a chunk at a time: a list of any size
//! costs its reader's server one chunk and a reference to the snapshot.

mod chunks;
mod continue_token;
mod page;
mod snapshot;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use control_kinds::Column;
use control_types::protobuf::EncodeError;
use control_types::registry;
use control_types::status::Status;
use control_types::value::Value;

use self::chunks::{Tally, WriteItem, Writer, streamed};
use crate::context::Context;
use crate::registry::Registry;
use crate::reply::{self, Answer, GZIP_FROM};
use crate::selection::Selection;
use crate::served_resource::ServedResource;
use control_request::negotiate::{Format, Media, Shape};
use control_request::options::ListOptions;
use control_strategy::{protobuf, table};
use control_watch_cache::{CacheEntry, TreeEntry as _};

pub(crate) use self::page::Page;
pub(crate) use self::snapshot::{in_version, snapshot};

/// Lists of more objects than this are measured beside the tasks that answer others.
const BLOCKING: usize = 2000;

type EncodeResult = Result<(), EncodeError>;

/// Answers a list.
///
/// # Errors
/// When options are malformed or the wanted resource version is gone.
pub async fn list(context: &Context, served: &Arc<ServedResource>) -> Answer {
    let options = ListOptions::parse(context.query())?;
    options.validate(false)?;
    let format = Format::negotiate(&context.parts.headers, context.query())?;
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
    let found = snapshot(&context.registry, served, &options, &selection).await;
    drop(span);
    let (snapshot, start) = found?;
    let page = Page::new(&snapshot, &selection, start, options.page_size());
    let _span = control_tracing::child(reply::SERIALIZE);
    respond(&context.registry, served, page, selection, format).await
}

/// Writes a page in the shape that the client wants.
pub(crate) async fn respond(
    registry: &Registry,
    served: &Arc<ServedResource>,
    page: Page,
    selection: Selection,
    format: Format,
) -> Answer {
    let page = page.converted(registry, served, &selection).await?;
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
        tally: Tally::begin(served),
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
    let item = |served: &Arc<ServedResource>| -> Box<dyn Fn(&CacheEntry, &mut Vec<u8>) -> EncodeResult + Send> {
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
    writer.tally = Tally::begin(served);
    let first = writer.next().unwrap_or_default();
    if writer.position.is_none() && first.len() < GZIP_FROM {
        return Ok(reply::bytes(200, format.media.content_type(), first));
    }
    Ok(streamed(first, writer, format))
}
