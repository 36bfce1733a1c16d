//! The process of a member: started again with back-off when it ends, its output in our log,
//! ended in order.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use control_supervise::{TaskHandle, task};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::log_line::{self, Level};
use crate::record::{self, Launch, Record};
use crate::{Error, spawn};

/// The pause before the first restart, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A process that ran this long is restarted after the first pause again.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);
/// How long the process may take to end after SIGTERM: it hands the leadership over.
const GRACE: Duration = Duration::from_secs(10);

/// A member that runs until [`Process::stop`].
#[derive(Debug)]
pub struct Process {
    stop: CancellationToken,
    keeper: TaskHandle,
    removed: watch::Receiver<bool>,
}

/// How one run of the process ended.
enum ProcessExit {
    Stopped,
    Removed,
    Exited(ExitStatus),
    Failed(std::io::Error),
}

/// Checks that the program is there and of a version that is known to work.
///
/// # Errors
/// [`Error::Program`] or [`Error::Version`].
pub fn check(binary: &std::path::Path) -> Result<String, Error> {
    let program = binary.display().to_string();
    let output = Command::new(binary)
        .arg("--version")
        .output()
        .map_err(|source| Error::Program {
            program: program.clone(),
            source,
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    match record::version(&text) {
        Some(version) if record::is_supported(version) => Ok(version.to_owned()),
        found => Err(Error::Version {
            program,
            version: found
                .unwrap_or_else(|| text.lines().next().unwrap_or("of an unknown version"))
                .to_owned(),
        }),
    }
}

// === impl Process ===

impl Process {
    /// Starts the member.
    #[must_use]
    pub fn start(record: Record, launch: Launch) -> Self {
        let stop = CancellationToken::new();
        let (tell, removed) = watch::channel(false);
        let until = stop.clone();
        let keeper = task("etcd").until(&stop).spawn_restarting(move || {
            keep(record.clone(), launch.clone(), until.clone(), tell.clone())
        });
        Self {
            stop,
            keeper,
            removed,
        }
    }

    /// Ends the process in order, and waits until it has ended.
    pub async fn stop(self) {
        self.stop.cancel();
        self.keeper.await;
    }

    /// Returns once the member says that it was removed from its cluster.
    pub async fn removed(&self) {
        let mut removed = self.removed.clone();
        // A dropped sender changes nothing.
        if removed.wait_for(|removed| *removed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn keep(
    record: Record,
    launch: Launch,
    stop: CancellationToken,
    removed: watch::Sender<bool>,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        match run(&record, &launch, &stop).await {
            ProcessExit::Stopped => return,
            ProcessExit::Removed => {
                let error = Error::Removed {
                    name: record.name.clone(),
                    folder: launch.folder.clone(),
                };
                tracing::error!(%error, "etcd has stopped");
                removed.send_replace(true);
                stop.cancelled().await;
                return;
            }
            ProcessExit::Exited(status) => {
                tracing::warn!(%status, restart_after = ?pause, "etcd ended");
            }
            ProcessExit::Failed(error) => {
                tracing::error!(
                    program = %launch.binary.display(),
                    %error,
                    restart_after = ?pause,
                    "failed to start etcd"
                );
            }
        }
        if began.elapsed() >= HEALTHY_AFTER {
            pause = FIRST_PAUSE;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Runs the process once. A separate thread starts it and waits for it: the kernel ends
/// the process with the thread that started it.
async fn run(record: &Record, launch: &Launch, stop: &CancellationToken) -> ProcessExit {
    let mut command = Command::new(&launch.binary);
    command.args(record.arguments(launch));
    // Environment variables must not set what no argument sets.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ETCD_") {
            command.env_remove(name);
        }
    }
    let (begun, begins) = oneshot::channel();
    let (ended, mut ends) = oneshot::channel();
    let thread = std::thread::Builder::new().name("etcd".to_owned());
    let started = thread.spawn(move || {
        let mut child = match spawn::with_this_thread(&mut command) {
            Ok(child) => child,
            Err(error) => {
                let _ = begun.send(Err(error));
                return;
            }
        };
        let _ = begun.send(Ok(child.id()));
        let was_removed = AtomicBool::new(false);
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        std::thread::scope(|scope| {
            if let Some(output) = output {
                scope.spawn(|| pass_on(output, &was_removed));
            }
            if let Some(errors) = errors {
                pass_on(errors, &was_removed);
            }
        });
        let _ = ended.send((child.wait(), was_removed.into_inner()));
    });
    if let Err(error) = started {
        return ProcessExit::Failed(error);
    }
    let id = match begins.await {
        Ok(Ok(id)) => id,
        Ok(Err(error)) => return ProcessExit::Failed(error),
        Err(_) => return ProcessExit::Failed(std::io::ErrorKind::Other.into()),
    };
    tracing::info!(pid = id, name = record.name, "etcd started");
    let finished = tokio::select! {
        finished = &mut ends => finished,
        () = stop.cancelled() => {
            signal(id, Signal::SIGTERM);
            if tokio::time::timeout(GRACE, &mut ends).await.is_err() {
                tracing::warn!(pid = id, "etcd did not end, killing it");
                signal(id, Signal::SIGKILL);
                let _ = tokio::time::timeout(GRACE, &mut ends).await;
            }
            return ProcessExit::Stopped;
        }
    };
    match finished {
        Ok((_, true)) => ProcessExit::Removed,
        Ok((Ok(status), false)) => ProcessExit::Exited(status),
        Ok((Err(error), false)) => ProcessExit::Failed(error),
        Err(_) => ProcessExit::Failed(std::io::ErrorKind::Other.into()),
    }
}

fn signal(id: u32, signal: Signal) {
    if let Ok(id) = i32::try_from(id) {
        let _ = kill(Pid::from_raw(id), signal);
    }
}

/// Copies the output of the process to our log, until it ends.
fn pass_on(output: impl Read, was_removed: &AtomicBool) {
    for line in BufReader::new(output).lines() {
        let Ok(line) = line else { return };
        let line = log_line::parse(&line);
        if log_line::tells_of_removal(&line.text) {
            was_removed.store(true, Ordering::Relaxed);
        }
        match line.level {
            Level::Debug => tracing::debug!(target: "etcd", "{}", line.text),
            Level::Info => tracing::info!(target: "etcd", "{}", line.text),
            Level::Warn => tracing::warn!(target: "etcd", "{}", line.text),
            Level::Error => tracing::error!(target: "etcd", "{}", line.text),
        }
    }
}
