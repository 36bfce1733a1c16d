//! Output of commands. If the reader closes the pipe, as `head` does, the command ends
//! quietly, as other programs do.
//!
//! The signal that would do so (SIGPIPE) stays ignored, as in Rust by default: otherwise
//! a connection that a peer closes would end the command, too.

use std::{fmt, io::Write};

/// The code of a program that SIGPIPE ended, as shells report it.
const CLOSED: i32 = 128 + 13;

/// Prints to standard output; ends the process if the reader has closed it.
///
/// # Panics
/// When standard output cannot be written for another reason, as `print!` does.
pub fn write(text: fmt::Arguments<'_>) {
    match std::io::stdout().lock().write_fmt(text) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            std::process::exit(CLOSED);
        }
        Err(error) => panic!("cannot write to standard output: {error}"),
    }
}

/// In place of the standard library's, which panics when the pipe is closed.
macro_rules! print {
    ($($word:tt)*) => { $crate::output::write(format_args!($($word)*)) };
}

/// In place of the standard library's, which panics when the pipe is closed.
macro_rules! println {
    () => { $crate::output::write(format_args!("\n")) };
    ($($word:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($word)*))) };
}
