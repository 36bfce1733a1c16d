//! The store's history is kept for five minutes, and what the allocators know
//! is compared with what there is.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use control_store::Error;
use control_types::status::Status;
use futures::FutureExt;

use super::PostStartHook;
use super::context::HookContext;
use control_registry::store_error;

pub(super) static HOOK: PostStartHook =
    PostStartHook::new("history", Duration::from_secs(10), |context| {
        run(context).boxed()
    });

/// How far back watches and continued lists can go.
const KEEP: Duration = Duration::from_secs(300);

/// Revisions of the past and when they were the newest.
#[derive(Debug, Default)]
pub(crate) struct Marks(Mutex<std::collections::VecDeque<(Instant, u64)>>);

impl Marks {
    /// Notes the newest revision; answers the one that may be forgotten up to.
    fn note(&self, now: Instant, newest: u64) -> Option<u64> {
        let mut marks = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        marks.push_back((now, newest));
        let mut old = None;
        while let Some((at, revision)) = marks.front().copied()
            && now.duration_since(at) > KEEP
        {
            old = Some(revision);
            marks.pop_front();
        }
        old
    }
}

async fn run(context: &HookContext) -> Result<(), Status> {
    context.allocators.rebuild(context);
    let store = context.store();
    if let Some(old) = context.history.note(Instant::now(), store.revision())
        && old > store.compacted()
    {
        forgotten(store.compact(old).await).map_err(|error| store_error(&error))?;
    }
    Ok(())
}

/// Whether the past is forgotten; another server of the same store may have done it just before.
fn forgotten(compacted: Result<(), Error>) -> Result<(), Error> {
    match compacted {
        Err(Error::Compacted { .. }) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_five_minutes_is_forgotten() {
        let marks = Marks::default();
        let start = Instant::now();
        assert_eq!(marks.note(start, 5), None);
        assert_eq!(marks.note(start + KEEP, 9), None);
        assert_eq!(
            marks.note(start + KEEP + Duration::from_secs(1), 11),
            Some(5)
        );
        assert_eq!(marks.note(start + KEEP * 3, 12), Some(11));
    }

    #[test]
    fn what_another_server_has_forgotten_is_forgotten() {
        let already = Error::Compacted {
            requested: 7,
            compacted: 9,
        };
        assert!(forgotten(Err(already)).is_ok());
        let ahead = Error::FutureRevision {
            requested: 7,
            current: 5,
        };
        assert!(forgotten(Err(ahead)).is_err());
    }
}
