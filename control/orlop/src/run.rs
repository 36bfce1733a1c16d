//! How commands are run: runtime, log, signals, the one-line error.

use std::{error::Error as StdError, future::Future, time::Duration};

use control_supervise::Supervisor;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::logging::LogOptions;
use crate::memory;

/// Runs a command that ends by itself.
///
/// # Errors
/// The command's own, or [`Error::Start`].
pub fn command(work: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    prepare();
    block_on(runtime()?, work)
}

/// Runs a service, whose log goes to standard error.
///
/// # Errors
/// The service's error, or [`Error::Start`].
pub fn service(
    logging: &LogOptions,
    work: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    logging.begin();
    control_supervise::install_panic_hook();
    command(work)
}

/// Runs a service of a node, which shares its machine with pods: on few threads, that
/// keep little.
///
/// # Errors
/// The service's own, or [`Error::Start`].
pub fn agent(
    logging: &LogOptions,
    work: impl Future<Output = Result<(), Error>> + Send + 'static,
) -> Result<(), Error> {
    logging.begin();
    control_supervise::install_panic_hook();
    prepare();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.min(WORKERS))
        .thread_keep_alive(KEEP_ALIVE)
        .on_thread_park(memory::give_back_when_asked)
        .enable_all()
        .build()
        .map_err(Error::Start)?;
    // As a task it shares the heap of the threads that run the others, and their caches.
    let done = block_on(runtime, async { Ok(tokio::spawn(work).await) })?;
    done.unwrap_or_else(|panic| match panic.try_into_panic() {
        Ok(payload) => std::panic::resume_unwind(payload),
        Err(cancelled) => Err(Error::Start(cancelled.into())),
    })
}

/// Runs a command to its end. Threads that still work then, or after a panic, do not
/// keep the process.
fn block_on<T>(
    runtime: tokio::runtime::Runtime,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let work = std::panic::AssertUnwindSafe(|| runtime.block_on(work));
    let done = std::panic::catch_unwind(work);
    runtime.shutdown_timeout(THREADS_END);
    let done = done.unwrap_or_else(|payload| std::panic::resume_unwind(payload));
    match Supervisor::process().failure() {
        Some(failure) => Err(Error::Task(failure)),
        None => done,
    }
}

/// How long threads that block get at the end of the process.
const THREADS_END: Duration = Duration::from_secs(5);
/// How long the process has to end well after an essential task failed.
const FAILED_END: Duration = Duration::from_secs(30);

/// The maximum number of threads for a node's tasks, however many processors there are:
/// each has its own heap.
const WORKERS: usize = 4;
/// Time for which an idle blocking thread is kept. It keeps its heap meanwhile.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Returns a token that is cancelled by SIGTERM or SIGINT, and when an essential task
/// fails. A second signal ends the process immediately.
///
/// # Errors
/// [`Error::Start`] when handlers cannot be installed.
pub fn shutdown_on_signals() -> Result<CancellationToken, Error> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Start)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Start)?;
    let token = CancellationToken::new();
    let shutdown = token.clone();
    let (failed, ending) = (Supervisor::process(), token.clone());
    tokio::spawn(async move {
        failed.failed().await;
        ending.cancel();
        tokio::time::sleep(FAILED_END).await;
        tracing::error!("process did not end, exiting");
        std::process::exit(1);
    });
    tokio::spawn(async move {
        for _ in 0..2 {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if shutdown.is_cancelled() {
                std::process::exit(130);
            }
            tracing::info!("shutting down");
            shutdown.cancel();
        }
    });
    Ok(token)
}

/// An error with its causes, in one line.
pub fn in_one_line(error: &Error) -> String {
    all_causes(error)
}

/// An error of any kind with all its causes.
pub fn all_causes(error: &dyn StdError) -> String {
    control_types::error_chain(error).replace('\n', " ")
}

fn prepare() {
    // The one TLS implementation; a second call finds it installed.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    // Connections, watches and pods take descriptors; the soft limit of 1024 is
    // for programs that use select(2).
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Error::Start)
}
