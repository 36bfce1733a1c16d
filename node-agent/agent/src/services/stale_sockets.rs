//! Looks for UDP sockets of backends that are gone, in a thread of its own: it
//! walks all namespaces, for which no change of a Service is to wait.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    time::Instant,
};

use ebpf_abi::ServiceKey;
use node_agent_datapath::{Move, Mover};
use node_agent_plan::RemovedBackends;
use tracing::{debug, warn};

use super::metrics::ServiceMetrics;
use crate::Error;

/// Sends work to the thread that reconnects sockets of removed backends; the thread ends when
/// this is dropped.
pub struct StaleSocketReaper {
    work: mpsc::Sender<Vec<Move>>,
}

// === impl Movers ===

impl StaleSocketReaper {
    /// Starts the thread. It stays in the network namespace of the caller.
    ///
    /// # Errors
    /// [`Error::Datapath`], [`Error::File`] when there can be no thread.
    pub fn start(pin_dir: &Path, metrics: Arc<ServiceMetrics>) -> Result<Self, Error> {
        let mut mover = Mover::open(pin_dir).map_err(Error::Datapath)?;
        let (work, arriving) = mpsc::channel::<Vec<Move>>();
        std::thread::Builder::new()
            .name("udp-moves".to_owned())
            .spawn(move || {
                while let Some(mut moves) = next(&arriving, mover.due()) {
                    // What came meanwhile is looked for together.
                    moves.extend(arriving.try_iter().flatten());
                    match mover.run(&moves, Instant::now()) {
                        Ok(moved) => {
                            debug!(?moved, "reconnecting UDP sockets of removed backends");
                            metrics
                                .moved
                                .inc_by((moved.reconnected + moved.destroyed) as u64);
                        }
                        Err(error) => warn!(
                            error = &error as &dyn std::error::Error,
                            "failed to reconnect UDP sockets of removed backends"
                        ),
                    }
                }
            })
            .map_err(|source: io::Error| Error::File {
                action: "start a thread for",
                path: pin_dir.to_owned(),
                source,
            })?;
        Ok(Self { work })
    }

    /// Hands work over.
    pub fn push(&self, gone: Vec<RemovedBackends>) {
        if gone.is_empty() {
            return;
        }
        // Without the thread, sockets stay as they are.
        let _ = self.work.send(gone.iter().map(planned).collect());
    }
}

/// What is to be looked for next; nothing new when it is time to look again. None when
/// there will be nothing more.
fn next<T>(arriving: &Receiver<Vec<T>>, due: Option<Instant>) -> Option<Vec<T>> {
    let Some(due) = due else {
        return arriving.recv().ok();
    };
    match arriving.recv_timeout(due.saturating_duration_since(Instant::now())) {
        Ok(moves) => Some(moves),
        Err(RecvTimeoutError::Timeout) => Some(Vec::new()),
        Err(RecvTimeoutError::Disconnected) => None,
    }
}

fn planned(gone: &RemovedBackends) -> Move {
    let front = |key: &ServiceKey| SocketAddr::new(IpAddr::from(key.address), key.port.get());
    Move {
        fronts: gone.keys.iter().map(front).collect(),
        backends: gone.backends.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn work_that_arrives_is_next_and_what_is_due_otherwise() {
        let (work, arriving) = mpsc::channel();
        let soon = Instant::now() + Duration::from_millis(1);
        assert_eq!(next::<u8>(&arriving, Some(soon)), Some(Vec::new()));
        work.send(vec![1]).expect("a receiver");
        let late = Instant::now() + Duration::from_secs(600);
        assert_eq!(next(&arriving, Some(late)), Some(vec![1]));
        work.send(vec![2]).expect("a receiver");
        assert_eq!(next(&arriving, None), Some(vec![2]));
        drop(work);
        assert_eq!(next(&arriving, None), None);
        assert_eq!(next(&arriving, Some(late)), None);
    }
}
