//! From the bytes of lists and watches to a cache: what of following a resource depends on the
//! type of its objects.

use std::sync::atomic::Ordering;

use compact_str::CompactString;
use serde_json::value::RawValue;

use super::stats::Counters;
use super::writer::Writer;
use crate::error::Status;
use crate::resource::{Object, Resource};
use crate::wire::{Bookmark, Frame, Page, PageMeta};

/// Takes in what a follower reads. All that exists is gathered first, and then replaces what
/// the cache has at once.
pub(super) trait Intake: Send + Sync {
    /// Gathers the objects of a page of a list; those that are not readable are left out.
    fn gather_page(
        &mut self,
        resource: &Resource,
        bytes: &[u8],
    ) -> Result<PageMeta, serde_json::Error>;

    /// Reads a line of a watch while it tells what exists; gathers its object.
    fn gather(&mut self, line: &[u8]) -> Result<Event, serde_json::Error>;

    /// Makes the objects gathered those of the cache, and tells their number.
    fn replace_by_gathered(&mut self) -> usize;

    /// Forgets what a list or a watch that failed has gathered.
    fn drop_gathered(&mut self);

    /// Reads a line of a watch, and notes the change.
    fn apply(&mut self, line: &[u8]) -> Result<Event, serde_json::Error>;

    /// Publishes noted changes; whether there were any.
    fn publish(&mut self) -> bool;

    fn counters(&self) -> &Counters;
}

/// A line of a watch, without the object.
#[derive(Debug)]
pub(super) enum Event {
    /// An object was added, modified or deleted.
    Object { revision: CompactString },
    /// No change up to this revision.
    Bookmark(Bookmark),
    /// The watch ends for this reason.
    Error(Status),
    /// A type that this version does not know.
    Unknown,
}

impl<V: Object> Intake for Writer<V> {
    fn gather_page(
        &mut self,
        resource: &Resource,
        bytes: &[u8],
    ) -> Result<PageMeta, serde_json::Error> {
        let error = match serde_json::from_slice::<Page<V>>(bytes) {
            Ok(page) => {
                self.gathered.extend(page.items);
                return Ok(page.metadata);
            }
            Err(error) => error,
        };
        let raw: Page<Box<RawValue>> = serde_json::from_slice(bytes)?;
        tracing::error!(%resource, %error, "an object of the list is not readable, leaving it out");
        for item in raw.items {
            match serde_json::from_slice(item.get().as_bytes()) {
                Ok(object) => self.gathered.push(object),
                Err(_) => {
                    self.counters().unreadable.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(raw.metadata)
    }

    fn gather(&mut self, line: &[u8]) -> Result<Event, serde_json::Error> {
        Ok(match Frame::<V>::parse(line)? {
            Frame::Applied(object) => {
                let event = Event::of_object(&object);
                self.gathered.push(object);
                event
            }
            // changes may be mixed in with the initial events
            Frame::Deleted(object) => {
                self.gathered.retain(|known| {
                    known.name() != object.name() || known.namespace() != object.namespace()
                });
                Event::of_object(&object)
            }
            Frame::Bookmark(bookmark) => Event::Bookmark(bookmark),
            Frame::Error(status) => Event::Error(status),
            Frame::Unknown => Event::Unknown,
        })
    }

    fn replace_by_gathered(&mut self) -> usize {
        let objects = std::mem::take(&mut self.gathered);
        let number = objects.len();
        self.replace(objects);
        number
    }

    fn drop_gathered(&mut self) {
        self.gathered = Vec::new();
    }

    fn apply(&mut self, line: &[u8]) -> Result<Event, serde_json::Error> {
        Ok(match Frame::<V>::parse(line)? {
            Frame::Applied(object) => {
                let event = Event::of_object(&object);
                self.insert(object);
                event
            }
            Frame::Deleted(object) => {
                self.delete(&object);
                Event::of_object(&object)
            }
            Frame::Bookmark(bookmark) => Event::Bookmark(bookmark),
            Frame::Error(status) => Event::Error(status),
            Frame::Unknown => Event::Unknown,
        })
    }

    fn publish(&mut self) -> bool {
        let has_changes = self.has_pending();
        if has_changes {
            self.publish_pending();
        }
        has_changes
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters
    }
}

// === impl Event ===

impl Event {
    fn of_object(object: &impl Object) -> Self {
        Self::Object {
            revision: object.resource_version().into(),
        }
    }
}
