//! External programs (`mkfs.xfs`, `lvcreate`, `cryptsetup`, …): one typed way to run
//! them.
//!
//! A program is started without a shell, in the C locale, with only `PATH` of the
//! driver's environment, in its own process group. Its time and output are limited: a
//! program that hangs is killed with all of its children. Without udev, as in a
//! container, device-mapper's programs are configured to create device nodes themselves.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

/// Longest time that a program may take unless its call says otherwise.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Longest output that is kept, for each of the two streams.
const OUTPUT_LIMIT: u64 = 4 << 20;

/// How much of a program's complaint becomes part of an error.
const COMPLAINT_LIMIT: usize = 1024;

/// How often a running program is looked at.
const POLL: Duration = Duration::from_millis(2);

/// Failure of an external program.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The program is not installed.
    #[error("`{program}` is not installed: install the package that contains it")]
    Absent {
        /// Name of the program.
        program: &'static str,
    },
    /// The program could not be started or watched.
    #[error("cannot run `{program}`")]
    Start {
        /// Name of the program.
        program: &'static str,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The program took too long and was killed.
    #[error("`{program}` did not end within {seconds} s and was killed")]
    Timeout {
        /// Name of the program.
        program: &'static str,
        /// Time that it had, in seconds.
        seconds: u64,
    },
    /// The program reported a failure.
    #[error("`{program}` ended with {status}: {complaint}")]
    Exit {
        /// Name of the program.
        program: &'static str,
        /// Exit status or signal.
        status: String,
        /// Exit code, where it was no signal.
        code: Option<i32>,
        /// Its standard error.
        complaint: String,
    },
    /// The output is not in the documented format.
    #[error("`{program}` printed something else than the documented report")]
    Report {
        /// Name of the program.
        program: &'static str,
        /// Cause.
        #[source]
        source: serde_json::Error,
    },
}

/// Bytes for a program's standard input that never appear in logs or errors.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Makes a secret of bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    program: &'static str,
    arguments: Vec<OsString>,
    input: Option<Secret>,
    timeout: Duration,
    accepted: &'static [i32],
}

impl Invocation {
    /// Makes an invocation without arguments.
    #[must_use]
    pub fn new(program: &'static str) -> Self {
        Self {
            program,
            arguments: Vec::new(),
            input: None,
            timeout: TIMEOUT,
            accepted: &[0],
        }
    }

    /// Appends an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Appends arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item: AsRef<OsStr>>>(mut self, arguments: I) -> Self {
        let owned = arguments.into_iter().map(|it| it.as_ref().to_owned());
        self.arguments.extend(owned);
        self
    }

    /// Sets the program's standard input.
    #[must_use]
    pub fn input(mut self, input: Secret) -> Self {
        self.input = Some(input);
        self
    }

    /// Sets how long the program may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the exit codes that are no failure.
    #[must_use]
    pub fn accept(mut self, codes: &'static [i32]) -> Self {
        self.accepted = codes;
        self
    }

    /// Returns the program and its arguments as one line, for tests and logs.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = self.program.to_owned();
        for argument in &self.arguments {
            line.push(' ');
            line.push_str(&argument.to_string_lossy());
        }
        line
    }
}

/// The results of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// Runs external programs.
pub trait ToolRunner: Send + Sync {
    /// Runs a program to its end.
    ///
    /// # Errors
    /// When it cannot be started, takes too long, or ends with an exit code
    /// that the invocation does not accept.
    fn run(&self, invocation: &Invocation) -> Result<Output, ToolError>;
}

/// Runs a program that prints JSON, and parses its output.
///
/// # Errors
/// As [`ToolRunner::run`], and if the output cannot be parsed.
pub fn report<T: DeserializeOwned>(
    runner: &dyn ToolRunner,
    invocation: &Invocation,
) -> Result<T, ToolError> {
    let output = runner.run(invocation)?;
    serde_json::from_slice(&output.stdout).map_err(|source| ToolError::Report {
        program: invocation.program,
        source,
    })
}

/// Runs programs of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRunner;

impl ToolRunner for SystemRunner {
    fn run(&self, invocation: &Invocation) -> Result<Output, ToolError> {
        let begun = Instant::now();
        let result = run(invocation);
        tracing::debug!(
            program = invocation.program,
            elapsed = ?begun.elapsed(),
            failed = result.is_err(),
            "ran a program"
        );
        result
    }
}

/// The search path of programs: the driver may run with an empty `PATH`.
pub(crate) const DEFAULT_PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

fn run(invocation: &Invocation) -> Result<Output, ToolError> {
    let program = invocation.program;
    let start = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => ToolError::Absent { program },
        _ => ToolError::Start { program, source },
    };
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let mut child = Command::new(program)
        .args(&invocation.arguments)
        .env_clear()
        .env("PATH", path)
        .env("LC_ALL", "C")
        .envs(without_udev())
        .current_dir("/")
        .process_group(0)
        .stdin(if invocation.input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    if let (Some(mut pipe), Some(Secret(bytes))) = (child.stdin.take(), invocation.input.clone()) {
        // A program that ends before it reads is judged by its exit code.
        thread::spawn(move || pipe.write_all(&bytes));
    }
    let status = wait(&mut child, invocation)?;
    let collected = |stream: mpsc::Receiver<Vec<u8>>| {
        // A grandchild may hold the pipe open after the program's end.
        stream
            .recv_timeout(Duration::from_secs(1))
            .unwrap_or_default()
    };
    let (stdout, stderr) = (collected(stdout), collected(stderr));
    match status.code() {
        Some(code) if invocation.accepted.contains(&code) => Ok(Output {
            code,
            stdout,
            stderr,
        }),
        code => Err(ToolError::Exit {
            program,
            status: code.map_or_else(
                || format!("signal {}", status.signal().unwrap_or_default()),
                |code| format!("exit code {code}"),
            ),
            code,
            complaint: complaint(&stderr),
        }),
    }
}

/// The socket of udev.
const UDEV: &str = "/run/udev/control";

/// The variable by which `lvm(8)` and `cryptsetup(8)` do without udev.
fn without_udev() -> Option<(&'static str, &'static str)> {
    (!Path::new(UDEV).exists()).then_some(("DM_DISABLE_UDEV", "1"))
}

fn wait(child: &mut Child, invocation: &Invocation) -> Result<std::process::ExitStatus, ToolError> {
    let program = invocation.program;
    let deadline = Instant::now() + invocation.timeout;
    let mut pause = POLL;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < deadline => {}
            Ok(None) => {
                kill_group(child);
                return Err(ToolError::Timeout {
                    program,
                    seconds: invocation.timeout.as_secs(),
                });
            }
            Err(source) => {
                kill_group(child);
                return Err(ToolError::Start { program, source });
            }
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Kills a program and its children, and takes its exit status away.
fn kill_group(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Reads a stream to its end in a thread, keeping a bounded part.
fn collect(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut stream) = stream {
            let _ = (&mut stream).take(OUTPUT_LIMIT).read_to_end(&mut kept);
            // Without a reader the program would block.
            let _ = io::copy(&mut stream, &mut io::sink());
        }
        let _ = sender.send(kept);
    });
    receiver
}

/// Returns the end of a program's standard error, on one line.
fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .collect();
    let line = lines.join("; ");
    let cut = line.len().saturating_sub(COMPLAINT_LIMIT);
    let start = (cut..=line.len()).find(|at| line.is_char_boundary(*at));
    line[start.unwrap_or(0)..].to_owned()
}

#[cfg(test)]
pub(crate) mod fake {
    //! A runner that answers from a script and remembers what it was asked.

    use std::sync::Mutex;

    use super::{Invocation, Output, ToolError, ToolRunner};

    /// Answers the first rule whose text is part of the command line.
    #[derive(Default)]
    pub struct FakeRunner {
        rules: Mutex<Vec<(String, String)>>,
        failing: Mutex<Vec<String>>,
        lines: Mutex<Vec<String>>,
    }

    impl FakeRunner {
        /// Prints `output` for commands that contain `part`.
        pub fn answer(&self, part: &str, output: &str) {
            let mut rules = self.rules.lock().unwrap();
            rules.retain(|(known, _)| known != part);
            rules.push((part.to_owned(), output.to_owned()));
        }

        /// Lets commands that contain `part` fail.
        pub fn fail(&self, part: &str) {
            self.failing.lock().unwrap().push(part.to_owned());
        }

        /// Returns the commands so far, one a line, and forgets them.
        pub fn dump(&self) -> String {
            std::mem::take(&mut *self.lines.lock().unwrap()).join("\n")
        }
    }

    impl ToolRunner for FakeRunner {
        fn run(&self, invocation: &Invocation) -> Result<Output, ToolError> {
            let line = invocation.line();
            let rules = self.rules.lock().unwrap();
            let found = rules.iter().find(|(part, _)| line.contains(part));
            let stdout = found.map(|(_, output)| output.clone().into_bytes());
            let fails = self.failing.lock().unwrap();
            let fails = fails.iter().any(|part| line.contains(part));
            self.lines.lock().unwrap().push(line);
            if fails {
                return Err(ToolError::Exit {
                    program: invocation.program,
                    status: "exit status: 1".to_owned(),
                    code: Some(1),
                    complaint: "as the test wants it".to_owned(),
                });
            }
            Ok(Output {
                stdout: stdout.unwrap_or_default(),
                ..Output::default()
            })
        }
    }
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
