//! Wakers of the watchers that wait for a resource's next event.
//!
//! A thousand watchers are woken for one event, so waking and waiting are the
//! price of an event. Each watcher leaves its waker once, for as long as the same
//! task polls it; from then on to wait is to set a flag. Who does not wait, since
//! its connection takes nothing more, is not woken.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use slab::Slab;

/// The wakers of all watchers of a resource.
#[derive(Debug, Default)]
pub struct WatcherWakers(Mutex<Slab<Arc<Place>>>);

#[derive(Debug)]
struct Place {
    waits: AtomicBool,
    waker: Mutex<Waker>,
}

/// A watcher's entry, which is removed when dropped.
#[derive(Debug)]
pub struct Waiter {
    place: Arc<Place>,
    at: usize,
    among: Arc<WatcherWakers>,
}

impl WatcherWakers {
    /// Adds a watcher.
    #[must_use]
    pub fn join(self: &Arc<Self>) -> Waiter {
        let place = Arc::new(Place {
            waits: AtomicBool::new(false),
            waker: Mutex::new(Waker::noop().clone()),
        });
        let at = self.all().insert(Arc::clone(&place));
        Waiter {
            place,
            at,
            among: Arc::clone(self),
        }
    }

    /// Returns the number of watchers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all().len()
    }

    /// Wakes all waiting watchers; the event must be in the ring before.
    pub fn wake(&self) {
        // Orders what was made before with the flags: either a waiter sees it, or
        // its flag is seen here.
        fence(Ordering::SeqCst);
        for (_, place) in self.all().iter() {
            if place.waits.load(Ordering::Relaxed) && place.waits.swap(false, Ordering::AcqRel) {
                let waker = place.waker.lock().unwrap_or_else(PoisonError::into_inner);
                waker.wake_by_ref();
            }
        }
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Slab<Arc<Place>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// Registers to be woken. The caller must then look for events once more before it waits.
    pub fn wait(&self, waker: &Waker) {
        {
            let mut known = self.place.waker.lock();
            let known = known.as_deref_mut();
            if let Ok(known) = known
                && !known.will_wake(waker)
            {
                known.clone_from(waker);
            }
        }
        self.place.waits.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.among.all().try_remove(self.at);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn only_who_waits_is_woken_and_only_once() {
        let all = Arc::new(WatcherWakers::default());
        let (one, other) = (all.join(), all.join());
        let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
        one.wait(&Waker::from(Arc::clone(&first)));
        all.wake();
        all.wake();
        assert_eq!(first.0.load(Ordering::SeqCst), 1);
        // Another task may poll it the next time.
        one.wait(&Waker::from(Arc::clone(&second)));
        all.wake();
        assert_eq!(first.0.load(Ordering::SeqCst), 1);
        assert_eq!(second.0.load(Ordering::SeqCst), 1);
        drop(one);
        assert_eq!(all.len(), 1);
        drop(other);
        assert_eq!(all.len(), 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_event_is_missed_by_who_begins_to_wait_beside_it() {
        const LAST: u64 = 20_000;
        let all = Arc::new(WatcherWakers::default());
        let made = Arc::new(AtomicU64::new(0));
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let (waiter, made) = (all.join(), Arc::clone(&made));
                tokio::spawn(std::future::poll_fn(move |context| {
                    waiter.wait(context.waker());
                    if made.load(Ordering::Acquire) == LAST {
                        std::task::Poll::Ready(())
                    } else {
                        std::task::Poll::Pending
                    }
                }))
            })
            .collect();
        let writer = tokio::spawn(async move {
            for next in 1..=LAST {
                made.store(next, Ordering::Release);
                all.wake();
                if next % 64 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
        writer.await.expect("written");
        for reader in readers {
            let read = tokio::time::timeout(std::time::Duration::from_secs(10), reader);
            read.await.expect("woken").expect("read");
        }
    }
}
