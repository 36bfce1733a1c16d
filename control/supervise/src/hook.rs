//! Logs panics of threads.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

use crate::{CURRENT, position};

/// Logs panics with their task, thread, location and message. Before logging is set up
/// they are printed as without this hook.
pub fn install_panic_hook() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !tracing::dispatcher::has_been_set() {
            return usual(info);
        }
        log(info);
    }));
}

fn log(info: &PanicHookInfo<'_>) {
    let current = CURRENT.try_with(|scope| scope.entry.clone()).ok().flatten();
    let name = current.as_ref().map(|entry| entry.name);
    let detail = current.as_ref().and_then(|entry| entry.detail());
    let thread = std::thread::current();
    let location = position(info.location());
    let message = info
        .payload_as_str()
        .map_or_else(|| "no message".to_owned(), ToOwned::to_owned);
    let trace = Backtrace::capture();
    let trace = (trace.status() == BacktraceStatus::Captured).then(|| trace.to_string());
    tracing::error!(
        task = name,
        detail,
        thread = thread.name().unwrap_or("unnamed"),
        location,
        message,
        backtrace = trace,
        "panic"
    );
}
