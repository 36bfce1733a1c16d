//! What the caches hold is compared with what the store holds: a few resources at a
//! time, each about every five minutes, as kube-apiserver does.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use control_types::status::Status;
use futures::FutureExt;

use super::PostStartHook;
use super::context::HookContext;

/// How often some are compared.
const EVERY: Duration = Duration::from_secs(10);
/// How often each is.
const ROUND: Duration = Duration::from_secs(300);

pub(super) static HOOK: PostStartHook =
    PostStartHook::new("comparison", EVERY, |context| run(context).boxed());

/// Where the round is; `None` before the server serves, when the caches were read just
/// now.
#[derive(Debug, Default)]
pub(crate) struct Rounds(Mutex<Option<usize>>);

impl Rounds {
    /// The places of those that are compared now, of so many.
    fn next(&self, all: usize) -> impl Iterator<Item = usize> + use<> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = usize::try_from(ROUND.as_secs() / EVERY.as_secs()).unwrap_or(1);
        let (from, count) = match *place {
            None => (0, 0),
            Some(from) => (from, all.div_ceil(turns)),
        };
        *place = Some((from + count) % all.max(1));
        (from..from + count).map(move |at| at % all)
    }
}

async fn run(context: &HookContext) -> Result<(), Status> {
    let caches: Vec<_> = context
        .stored()
        .filter_map(|served| Some((served, served.cache.as_ref()?)))
        .collect();
    for at in context.rounds.next(caches.len()) {
        let (served, cache) = caches[at];
        let resource = served.resource.plural;
        match context.caches.compare(cache).await {
            Ok(None) => {}
            Ok(Some(key)) => tracing::error!(
                resource,
                key,
                "the cache differs from the store: restart the server, and report it"
            ),
            Err(error) => tracing::warn!(resource, %error, "the cache cannot be compared"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_have_their_turn_within_a_round_and_none_at_the_start() {
        for all in [0, 1, 29, 30, 31, 70, 1000] {
            let rounds = Rounds::default();
            assert_eq!(rounds.next(all).count(), 0);
            let mut seen = vec![0; all];
            for _ in 0..30 {
                rounds.next(all).for_each(|at| seen[at] += 1);
            }
            assert!(seen.iter().all(|times| *times >= 1), "{all}: {seen:?}");
        }
    }
}
