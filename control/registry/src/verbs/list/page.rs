//! A page of a list.

use std::sync::Arc;

use control_store::Revision;
use control_types::status::Status;
use control_types::value::Value;

use super::continue_token::Token;
use super::snapshot::ListSnapshot;
use crate::registry::Registry;
use crate::selection::Selection;
use crate::served_resource::ServedResource;
use control_watch_cache::{CacheEntry, Position, Tree, TreeEntry as _};

/// One page of a snapshot.
pub(crate) struct Page {
    pub(super) objects: Arc<Tree<CacheEntry>>,
    pub(super) revision: Revision,
    pub(super) begin: Position,
    /// How many items there are; `None` when that was not counted.
    pub(super) items: Option<usize>,
    pub(super) continue_token: String,
    pub(super) remaining: Option<usize>,
}

impl Page {
    /// The page that begins at `start`, or with the first object; `limit` 0
    /// takes all.
    pub(crate) fn new(
        snapshot: &ListSnapshot,
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
    pub(crate) fn selected(&self, selection: &Selection) -> Vec<Arc<CacheEntry>> {
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
    pub(super) async fn converted(
        mut self,
        registry: &Registry,
        served: &ServedResource,
        selection: &Selection,
    ) -> Result<Self, Status> {
        if served.converter().is_some() {
            let objects = self.selected(selection);
            let objects = served.all_in_version(registry, objects).await?;
            self.objects = Arc::new(Tree::from_sorted(objects));
            self.begin = Position::default();
        }
        Ok(self)
    }

    /// `metadata` of the list.
    pub(super) fn metadata(&self) -> Value {
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
