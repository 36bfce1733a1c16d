//! Work that keeps its thread waiting, in the midst of a task.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does what waits for a disk, for seconds if much is to be removed or others write, or for
/// a lock of the kernel's, while the other tasks of this thread go on in another one: the
/// node's heartbeat is among them, and there are few threads for tasks.
pub fn here<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|it| it.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // Without others there is nobody to wait.
        _ => work(),
    }
}

/// Locks what is held while its holder waits for a disk.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
        Err(TryLockError::WouldBlock) => {
            here(|| mutex.lock().unwrap_or_else(PoisonError::into_inner))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn tasks_go_on_while_one_waits() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let (go_on, ended) = mpsc::channel();
        let (begun, begins) = tokio::sync::oneshot::channel();
        let slow = runtime.spawn(async move {
            here(|| {
                begun.send(()).unwrap();
                ended.recv_timeout(Duration::from_secs(60))
            })
        });
        runtime.spawn(async move {
            begins.await.unwrap();
            go_on.send(()).unwrap();
        });
        runtime.block_on(slow).unwrap().unwrap();
        assert_eq!(here(|| 1), 1);
    }

    #[test]
    fn tasks_go_on_while_one_waits_for_another_s_lock() {
        static HELD: Mutex<()> = Mutex::new(());
        let held = HELD.lock().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let (begun, begins) = tokio::sync::oneshot::channel();
        let waits = runtime.spawn(async move {
            begun.send(()).unwrap();
            drop(lock(&HELD));
        });
        let (goes_on, went_on) = mpsc::channel();
        runtime.spawn(async move {
            begins.await.unwrap();
            goes_on.send(()).unwrap();
        });
        let other = went_on.recv_timeout(Duration::from_secs(60));
        drop(held);
        runtime.block_on(waits).unwrap();
        other.unwrap();
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_simply_does_it() {
        assert_eq!(here(|| 1), 1);
    }
}
