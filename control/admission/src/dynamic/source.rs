//! What is configured, in the form in which requests use it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use control_types::value::Value;

use control_strategy::{CachedObject, ObjectCache};

/// All objects of a kind, each made into a `T`. Requests look at the cache of the
/// kind itself: so what is configured holds from the moment at which it can be read.
pub struct Source<T> {
    cache: Arc<dyn ObjectCache>,
    make: Box<dyn Fn(&Value) -> T + Send + Sync>,
    made: ArcSwap<ParsedObjects<T>>,
}

#[derive(Debug)]
struct ParsedObjects<T> {
    revision: u64,
    /// With key and revision of the object that each was made of.
    objects: Vec<(String, u64, Arc<T>)>,
    list: Arc<[Arc<T>]>,
}

impl<T: std::fmt::Debug> std::fmt::Debug for Source<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Source");
        shown.field("made", &self.made).finish_non_exhaustive()
    }
}

impl<T> Source<T> {
    /// The objects of `cache`, each made into what requests use by `make`.
    #[must_use]
    pub fn new(
        cache: Arc<dyn ObjectCache>,
        make: impl Fn(&Value) -> T + Send + Sync + 'static,
    ) -> Self {
        Self {
            cache,
            make: Box::new(make),
            made: ArcSwap::from_pointee(ParsedObjects {
                revision: 0,
                objects: Vec::new(),
                list: Arc::from([]),
            }),
        }
    }

    /// All there is, ordered by name; none if there is nothing.
    #[must_use]
    pub fn now(&self) -> Option<Arc<[Arc<T>]>> {
        if self.cache.is_empty() {
            return None;
        }
        let made = self.made.load();
        if made.revision == self.cache.revision() {
            return Some(Arc::clone(&made.list));
        }
        let (revision, present) = self.cache.list("");
        let before = |key: &str, revision| {
            let known = made.objects.iter();
            known
                .filter(|(known, at, _)| known == key && *at == revision)
                .map(|(.., made)| Arc::clone(made))
                .next()
        };
        let objects: Vec<(String, u64, Arc<T>)> = present
            .iter()
            .filter_map(|object| {
                let (key, revision) = (object.key(), object.revision());
                let one = before(key, revision).or_else(|| self.read(&**object))?;
                Some((key.to_owned(), revision, one))
            })
            .collect();
        let list: Arc<[Arc<T>]> = objects.iter().map(|(.., made)| Arc::clone(made)).collect();
        self.made.store(Arc::new(ParsedObjects {
            revision,
            objects,
            list: Arc::clone(&list),
        }));
        Some(list)
    }

    fn read(&self, object: &dyn CachedObject) -> Option<Arc<T>> {
        match object.value() {
            Ok(value) => Some(Arc::new((self.make)(&value))),
            Err(error) => {
                tracing::error!(name = object.key(), %error, "object cannot be read");
                None
            }
        }
    }
}
