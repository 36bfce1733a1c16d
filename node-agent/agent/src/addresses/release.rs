//! Takes interfaces of pods that end away, and their addresses back.
//!
//! The kernel waits while it removes a device. Who asks while others' are removed is done
//! with all that ask meanwhile, at once: of a crowd the second to the last wait once.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use cni_addresses::{
    Holder, Store,
    wire::{self, Answer},
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::Error;

/// Interfaces that are removed at once, at most: the kernel's lock of all devices is held
/// meanwhile.
const TOGETHER: usize = 256;

/// An interface to be removed, and where the result goes.
struct InterfaceRemoval {
    holder: Holder,
    told: oneshot::Sender<Answer>,
}

/// Removes pod interfaces.
#[derive(Clone)]
pub struct InterfaceRemover {
    leaving: mpsc::Sender<InterfaceRemoval>,
}

impl InterfaceRemover {
    /// One whose task ends with `shutdown`. `pin_dir` is the datapath's.
    pub fn start(store: Arc<Store>, pin_dir: PathBuf, shutdown: CancellationToken) -> Self {
        Self::by(shutdown, move |holders| release(&store, &pin_dir, holders))
    }

    /// The same, which removes interfaces by other means.
    fn by(
        shutdown: CancellationToken,
        release: impl Fn(&BTreeSet<Holder>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        let (leaving, asked) = mpsc::channel(TOGETHER);
        let release = Arc::new(release);
        // Kept between runs, with what waits in it.
        let asked = Arc::new(tokio::sync::Mutex::new(asked));
        control_supervise::task("interface-remover").spawn_restarting(move || {
            let (release, asked, shutdown) = (release.clone(), asked.clone(), shutdown.clone());
            async move {
                let mut asked = asked.lock().await;
                let mut all: Vec<InterfaceRemoval> = Vec::new();
                loop {
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        count = asked.recv_many(&mut all, TOGETHER) => if count == 0 { return },
                    }
                    let holders = all.iter().map(|it| it.holder.clone()).collect();
                    let release = release.clone();
                    let done = tokio::task::spawn_blocking(move || release(&holders)).await;
                    let done = done.map_err(Error::Panic).and_then(|done| done);
                    if let Err(error) = &done {
                        let error = error as &dyn std::error::Error;
                        warn!(error, "failed to remove pod interfaces");
                    }
                    for it in all.drain(..) {
                        // Who asked may have gone.
                        let _ = it.told.send(answer(&done));
                    }
                }
            }
        });
        Self { leaving }
    }

    /// Takes away what `holder` has.
    pub async fn release(&self, holder: Holder) -> Answer {
        let (told, done) = oneshot::channel();
        let leaving = InterfaceRemoval { holder, told };
        let ending = || Answer::refuse(wire::LATER, "the agent is ending");
        if self.leaving.send(leaving).await.is_err() {
            return ending();
        }
        done.await.unwrap_or_else(|_| ending())
    }
}

fn answer(done: &Result<(), Error>) -> Answer {
    match done {
        Ok(()) => Answer::default(),
        Err(error) => Answer::refuse(wire::LATER, error.to_string()),
    }
}

/// Takes away what these have: devices first, so that no address is given to another
/// while packets still reach its former pod.
///
/// # Errors
/// [`Error::Datapath`], [`Error::Addresses`].
pub fn release(store: &Store, pin_dir: &Path, holders: &BTreeSet<Holder>) -> Result<(), Error> {
    let devices = holders.iter().map(Holder::device).collect();
    node_agent_datapath::remove_devices(pin_dir, &devices).map_err(Error::Datapath)?;
    let given = store.give_back_all(holders);
    given.map(drop).map_err(Error::Addresses)
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc as channel};

    use super::*;

    fn holder(number: usize) -> Holder {
        Holder {
            container_id: format!("c{number}"),
            ifname: "eth0".to_owned(),
        }
    }

    #[tokio::test]
    async fn who_asks_while_others_are_removed_is_done_with_all_that_ask_meanwhile() {
        let (begun, begins) = channel::channel::<usize>();
        let (end, ends) = channel::channel::<bool>();
        let ends = Mutex::new(ends);
        let shutdown = CancellationToken::new();
        let release = InterfaceRemover::by(shutdown.clone(), move |holders| {
            begun.send(holders.len()).expect("the test");
            match ends.lock().expect("not poisoned").recv() {
                Ok(true) => Ok(()),
                _ => Err(Error::NotRoot),
            }
        });
        let ask = |number| {
            let release = release.clone();
            tokio::spawn(async move { release.release(holder(number)).await.refused.is_none() })
        };
        let first = ask(0);
        let begins = tokio::task::spawn_blocking(move || {
            assert_eq!(begins.recv().expect("the first"), 1);
            begins
        });
        let begins = begins.await.expect("begun");
        let crowd: Vec<_> = (1..=9).map(ask).collect();
        while release.leaving.capacity() != TOGETHER - crowd.len() {
            tokio::task::yield_now().await;
        }
        end.send(true).expect("the first");
        end.send(false).expect("the others");
        assert!(first.await.expect("told"));
        for it in crowd {
            assert!(!it.await.expect("told"), "it was not removed");
        }
        assert_eq!(begins.recv().expect("the others"), 9);
        shutdown.cancel();
        while !release.leaving.is_closed() {
            tokio::task::yield_now().await;
        }
        assert!(release.release(holder(1)).await.refused.is_some());
    }
}
