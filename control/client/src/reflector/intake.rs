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

    /// Reads a line of a watch. While the watch sends what exists already, its object is gathered;
    /// afterwards the change of the cache is noted.
    fn read_event(&mut self, line: &[u8], is_initial: bool) -> Result<Event, serde_json::Error>;

    /// Replaces the objects of the cache by those gathered, and returns their number.
    fn replace_by_gathered(&mut self) -> usize;

    /// Frees what a list or a watch gathered before it failed.
    fn drop_gathered(&mut self);

    /// Publishes the changes that were noted, and returns whether there were any.
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

    fn read_event(&mut self, line: &[u8], is_initial: bool) -> Result<Event, serde_json::Error> {
        let (object, is_deleted) = match Frame::<V>::parse(line)? {
            Frame::Applied(object) => (object, false),
            Frame::Deleted(object) => (object, true),
            Frame::Bookmark(bookmark) => return Ok(Event::Bookmark(bookmark)),
            Frame::Error(status) => return Ok(Event::Error(status)),
            Frame::Unknown => return Ok(Event::Unknown),
        };
        let revision = object.resource_version().into();
        match (is_initial, is_deleted) {
            (true, false) => self.gathered.push(object),
            // changes may be mixed in with the initial events
            (true, true) => self.gathered.retain(|known| {
                known.name() != object.name() || known.namespace() != object.namespace()
            }),
            (false, false) => self.insert(object),
            (false, true) => self.delete(&object),
        }
        Ok(Event::Object { revision })
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
