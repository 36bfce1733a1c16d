//! The first process of a pod's sandbox: holds its namespaces, and reaps the
//! orphans of pods that share one process namespace.

use nix::{
    errno::Errno,
    sys::{
        signal::{SigSet, Signal},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
};

fn main() {
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGCHLD]);
    if signals.thread_block().is_err() {
        std::process::exit(2);
    }
    loop {
        match signals.wait() {
            Ok(Signal::SIGCHLD) => reap(),
            Ok(_) => return,
            Err(Errno::EINTR) => {}
            Err(_) => std::process::exit(3),
        }
    }
}

fn reap() {
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            return;
        }
    }
}
