//! Runs programs, and prints progress.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::error::Error;

/// The workspace's root folder.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
        .to_owned()
}

/// The folder of what cargo builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace().join("target"), |dir| workspace().join(dir))
}

/// Settings for machines that build everything once: incremental state is never read
/// again, and nobody debugs. The two take more disk than everything else together, and
/// time to write and link.
const BUILT_ONCE: [(&str, &str); 2] =
    [("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")];

/// A cargo command of the toolchain that built this program.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    if std::env::var_os("CI").is_some() {
        for (name, value) in BUILT_ONCE {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
    }
    command
}

/// Prints the current step.
pub fn print_step(text: impl AsRef<str>) {
    println!("orlop: {}", text.as_ref());
}

/// Runs a program with its output shown.
///
/// # Errors
/// When it cannot be started or ends with a failure.
pub fn run(command: &mut Command) -> Result<(), Error> {
    let status = command
        .status()
        .map_err(|error| cannot_start(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::Command {
            command: shown(command),
            status: status.to_string(),
            output: String::new(),
        })
    }
}

/// Runs a program quietly and returns its output.
///
/// # Errors
/// When it cannot be started or fails; the error contains its last lines.
pub fn output(command: &mut Command) -> Result<String, Error> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| cannot_start(command, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut text = String::from_utf8_lossy(&output.stderr).into_owned();
    if text.trim().is_empty() {
        text = String::from_utf8_lossy(&output.stdout).into_owned();
    }
    let lines: Vec<&str> = text.trim().lines().collect();
    Err(Error::Command {
        command: shown(command),
        status: output.status.to_string(),
        output: format!(": {}", lines[lines.len().saturating_sub(20)..].join("\n")),
    })
}

/// Whether a program is on the PATH, and where.
pub fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

/// The error for a program that the system does not start.
pub fn cannot_start(command: &Command, error: &std::io::Error) -> Error {
    Error::Missing {
        what: format!("`{}`", command.get_program().to_string_lossy()),
        how: format!("it cannot be started ({error}); `cargo xtask setup` installs what is needed"),
    }
}

/// The words of a command, for messages.
pub fn shown(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// One step of a long task: a spinner while it lasts, a line with its time after.
pub struct Step {
    bar: ProgressBar,
    text: String,
    started: Instant,
}

impl Step {
    /// Begins a step.
    pub fn begin(text: impl Into<String>) -> Self {
        let text = text.into();
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("  {spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(text.clone());
        bar.enable_steady_tick(Duration::from_millis(100));
        Self {
            bar,
            text,
            started: Instant::now(),
        }
    }

    /// Shows how far the step is.
    pub fn progress(&self, text: impl AsRef<str>) {
        self.bar
            .set_message(format!("{}: {}", self.text, text.as_ref()));
    }

    /// Ends the step and prints how long it took.
    pub fn done(self) -> Duration {
        let took = self.started.elapsed();
        self.bar.finish_and_clear();
        println!("  {:<44} {:>7.2} s", self.text, took.as_secs_f64());
        took
    }
}

/// Asks again until the answer is yes.
///
/// # Errors
/// [`Error::Timeout`] naming `what` and `log` when it takes longer than `limit`.
pub fn wait_until(
    what: &str,
    limit: Duration,
    log: &Path,
    mut ready: impl FnMut() -> bool,
) -> Result<(), Error> {
    let started = Instant::now();
    while !ready() {
        if started.elapsed() > limit {
            return Err(Error::Timeout {
                what: what.to_owned(),
                seconds: limit.as_secs(),
                log: log.to_owned(),
            });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
