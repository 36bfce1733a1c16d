//! Where the requests of a connection run.
//!
//! HTTP/2 hands each request to an executor. To spawn a task for each means to wake
//! another worker, which takes the request to another core, for an answer that the
//! connection's task then has to be woken for: more than most answers cost. A client
//! that sends one request after the other is answered in the connection's own task
//! instead. As soon as there is a second request, the first goes to a task of its
//! own: requests of one connection use all cores.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::idle::Idle;

/// So many turns of connection and request make one turn of the task.
const TURNS: usize = 16;

type Request = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The executor that a connection is given.
#[derive(Clone, Default)]
pub(super) struct InlineExecutor {
    next: Arc<Mutex<Option<Request>>>,
    idle: Idle,
}

/// Polls a connection and the request that runs beside it.
pub(super) struct Driver {
    executor: InlineExecutor,
    here: Option<Request>,
    connection: Arc<Turn>,
    request: Arc<Turn>,
    wakers: [Waker; 2],
}

/// Notes that something is to be polled. While its task polls anyway that is enough;
/// at other times the task is woken.
struct Turn {
    due: AtomicBool,
    polling: AtomicBool,
    task: Mutex<Waker>,
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for InlineExecutor {
    fn execute(&self, future: F) {
        let open = self.idle.open();
        let future = async move {
            let _open = open;
            future.await;
        };
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.is_none() {
            *next = Some(Box::pin(future));
        } else {
            tokio::spawn(future);
        }
    }
}

impl InlineExecutor {
    /// When it was given something to do last.
    pub fn idle(&self) -> &Idle {
        &self.idle
    }
}

impl Driver {
    pub fn new(executor: InlineExecutor) -> Self {
        let (connection, request) = (Turn::new(), Turn::new());
        let wakers = [
            Waker::from(Arc::clone(&connection)),
            Waker::from(Arc::clone(&request)),
        ];
        Self {
            executor,
            here: None,
            connection,
            request,
            wakers,
        }
    }

    /// Runs the connection to its end. A request that is open then is dropped, as
    /// its stream has ended.
    pub fn poll<C: Future>(
        &mut self,
        mut connection: Pin<&mut C>,
        context: &mut Context<'_>,
    ) -> Poll<C::Output> {
        self.connection.enter(context.waker());
        self.request.enter(context.waker());
        let mut turns = 0;
        loop {
            if self.connection.take() {
                let mut own = Context::from_waker(&self.wakers[0]);
                if let Poll::Ready(ended) = connection.as_mut().poll(&mut own) {
                    return Poll::Ready(ended);
                }
                self.admit();
            }
            if self.request.take()
                && let Some(request) = &mut self.here
            {
                let mut own = Context::from_waker(&self.wakers[1]);
                if request.as_mut().poll(&mut own).is_ready() {
                    self.here = None;
                }
            }
            turns += 1;
            // Both: a turn that comes due from now on wakes the task.
            let (again, more) = (self.connection.leave(), self.request.leave());
            if !again && !more {
                return Poll::Pending;
            }
            if turns == TURNS {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.connection.polls();
            self.request.polls();
        }
    }

    /// The connection has something to do that nobody told it of.
    pub fn woken(&self) {
        self.connection.due.store(true, Ordering::SeqCst);
    }

    /// Takes the request that has come, if there is one.
    fn admit(&mut self) {
        let next = self.executor.next.lock();
        let next = next.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(next) = next {
            if let Some(before) = self.here.replace(next) {
                tokio::spawn(before);
            }
            self.request.due.store(true, Ordering::SeqCst);
        }
    }
}

impl Turn {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            due: AtomicBool::new(true),
            polling: AtomicBool::new(false),
            task: Mutex::new(Waker::noop().clone()),
        })
    }

    /// The task polls from now on.
    fn enter(&self, task: &Waker) {
        let mut known = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.will_wake(task) {
            known.clone_from(task);
        }
        drop(known);
        self.polls();
    }

    fn polls(&self) {
        self.polling.store(true, Ordering::SeqCst);
    }

    /// Whether it is its turn, which it then has had.
    fn take(&self) -> bool {
        self.due.swap(false, Ordering::SeqCst)
    }

    /// The task polls no more; tells whether it has to, since a turn came due.
    fn leave(&self) -> bool {
        self.polling.store(false, Ordering::SeqCst);
        self.due.load(Ordering::SeqCst)
    }
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // The note first: who leaves looks at it after it said so.
        self.due.store(true, Ordering::SeqCst);
        if !self.polling.load(Ordering::SeqCst) {
            let task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
            task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use hyper::rt::Executor as _;
    use tokio::sync::{Notify, mpsc, oneshot};

    use super::*;

    /// A connection that runs what it is sent, until there is nothing more.
    async fn connection(executor: InlineExecutor, mut requests: mpsc::Receiver<Request>) {
        while let Some(request) = requests.recv().await {
            executor.execute(request);
        }
    }

    /// Starts one; gives its task and the way to send to it.
    fn start() -> (tokio::task::JoinHandle<()>, mpsc::Sender<Request>) {
        let (sender, requests) = mpsc::channel(1);
        let task = tokio::spawn(async move {
            let executor = InlineExecutor::default();
            let mut connection = Box::pin(connection(executor.clone(), requests));
            let mut driver = Driver::new(executor);
            poll_fn(|context| driver.poll(connection.as_mut(), context)).await;
        });
        (task, sender)
    }

    async fn soon<T>(future: impl Future<Output = T>) -> T {
        let limit = Duration::from_secs(10);
        tokio::time::timeout(limit, future).await.expect("in time")
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_request_after_the_other_runs_where_the_connection_runs() {
        let (task, sender) = start();
        for _ in 0..3 {
            let (done, ran) = oneshot::channel();
            let request = async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                let _ = done.send(tokio::task::id());
            };
            soon(sender.send(Box::pin(request))).await.expect("open");
            assert_eq!(soon(ran).await.expect("ran"), task.id());
            // It has ended when the next one comes.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(sender);
        soon(task).await.expect("ended");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_request_that_waits_goes_elsewhere_when_the_next_one_comes() {
        let (task, sender) = start();
        let (go, mut rans) = (Arc::new(Notify::new()), Vec::new());
        for _ in 0..3 {
            let (done, ran) = oneshot::channel();
            let go = Arc::clone(&go);
            let request = async move {
                go.notified().await;
                let _ = done.send(tokio::task::id());
            };
            soon(sender.send(Box::pin(request))).await.expect("open");
            rans.push(ran);
        }
        // All wait, on whichever task.
        tokio::time::sleep(Duration::from_millis(50)).await;
        go.notify_waiters();
        let mut ids = Vec::new();
        for ran in rans {
            ids.push(soon(ran).await.expect("ran"));
        }
        let here = ids.iter().filter(|id| **id == task.id()).count();
        assert_eq!(here, 1, "the last one");
        assert!(ids[0] != ids[1]);
        drop(sender);
        soon(task).await.expect("ended");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_that_comes_beside_a_turn_is_missed() {
        let (task, sender) = start();
        for round in 0..2_000_u32 {
            let (done, ran) = oneshot::channel();
            let (ask, asked) = oneshot::channel();
            let request = async move {
                let _ = done.send(asked.await);
            };
            soon(sender.send(Box::pin(request))).await.expect("open");
            // Asked from another thread while the request begins to wait.
            std::thread::spawn(move || ask.send(round))
                .join()
                .expect("asked")
                .expect("waits");
            assert_eq!(soon(ran).await.expect("ran"), Ok(round));
        }
        drop(sender);
        soon(task).await.expect("ended");
    }
}
