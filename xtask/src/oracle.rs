//! `cargo xtask oracle`: the API server alone in a temporary folder, asked the
//! questions of a recording, its answers compared with a stock server's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Args;

use crate::error::Error;
use crate::run::{cargo, print_step, run, target, wait_until, workspace};

/// The recordings with thresholds: folders of `tests/oracle`, each with
/// `answers.jsonl.gz` and `floors`.
const CORPORA: [&str; 4] = ["", "kinds", "policies", "edges"];

/// How many differences are shown unless told otherwise.
const SHOWN: usize = 40;

/// Questions to ask.
#[derive(Args)]
pub struct Options {
    /// Another recording; without thresholds.
    #[arg(long)]
    answers: Option<PathBuf>,
    /// Only groups of questions whose names this regular expression finds.
    #[arg(long)]
    only: Option<String>,
    /// How many differences are shown.
    #[arg(long, default_value_t = SHOWN)]
    show: usize,
    /// Show also what agrees but is worded otherwise.
    #[arg(long)]
    inexact: bool,
    /// Raise the thresholds in the file to the results.
    #[arg(long)]
    raise: bool,
    /// Build without optimisation, which is faster to build and slower to run.
    #[arg(long)]
    dev: bool,
}

/// Runs it.
///
/// # Errors
/// When something cannot be built or started, or when less agrees than the
/// committed thresholds say.
pub fn oracle(options: &Options) -> Result<(), Error> {
    let profile: &[&str] = if options.dev { &[] } else { &["--release"] };
    let build = |what: &[&str]| run(cargo().args(["build", "--quiet"]).args(profile).args(what));
    build(&["--package", "control-apiserver", "--example", "apiserver"])?;
    build(&["--package", "tests", "--bin", "oracle"])?;
    ask(
        options,
        &target().join(if options.dev { "debug" } else { "release" }),
    )
}

/// Asks all recordings with the programs that `cargo test` has built, without optimisation, so
/// that nothing is built twice.
///
/// # Errors
/// As [`oracle`].
pub fn run_among_tests() -> Result<(), Error> {
    let options = Options {
        answers: None,
        only: None,
        show: SHOWN,
        inexact: false,
        raise: false,
        dev: true,
    };
    ask(&options, &target().join("debug"))
}

fn ask(options: &Options, programs: &Path) -> Result<(), Error> {
    let folder = workspace().join("tests/oracle");
    let recordings = match &options.answers {
        Some(answers) => vec![(answers.clone(), None)],
        None => CORPORA
            .map(|corpus| {
                let folder = folder.join(corpus);
                let floors = folder.join("floors");
                (folder.join("answers.jsonl.gz"), Some(floors))
            })
            .to_vec(),
    };
    let mut first_failure = None;
    for (answers, floors) in recordings {
        // A new one each time: questions take an empty server for granted.
        let server = Server::start(&programs.join("examples/apiserver"))?;
        let mut command = Command::new(programs.join("oracle"));
        command
            .args(["check", "--kubeconfig"])
            .arg(server.kubeconfig())
            .arg("--answers")
            .arg(answers)
            .args(["--show", &options.show.to_string()]);
        if options.inexact {
            command.arg("--inexact");
        }
        if let Some(only) = &options.only {
            command.args(["--only", only]);
        }
        if let Some(floors) = floors {
            command.arg("--floors").arg(floors);
            if options.raise {
                command.arg("--raise");
            }
        }
        // One run tells all that differs.
        if let Err(error) = run(&mut command) {
            first_failure.get_or_insert(error);
        }
    }
    first_failure.map_or(Ok(()), Err)
}

/// The API server while it runs; dropped, it ends and its folder goes.
struct Server {
    child: Child,
    folder: PathBuf,
}

impl Server {
    fn start(program: &Path) -> Result<Self, Error> {
        let failed = |what: &str, error: std::io::Error| Error::Failed(format!("{what}: {error}"));
        let port = free_port::free_port().map_err(|error| failed("no free port", error))?;
        let folder = std::env::temp_dir().join(format!("orlop-oracle-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| failed("no temporary folder", error))?;
        let log = folder.join("log");
        let out = fs::File::create(&log).map_err(|error| failed("no log", error))?;
        let again = out.try_clone().map_err(|error| failed("no log", error))?;
        let child = Command::new(program)
            .arg(&folder)
            .arg(port.to_string())
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(again)
            .spawn()
            .map_err(|error| failed("the API server cannot be started", error))?;
        let server = Self { child, folder };
        let kubeconfig = server.kubeconfig();
        wait_until("the API server", Duration::from_secs(30), &log, || {
            kubeconfig.is_file() && std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        })?;
        print_step(format!("an API server alone on port {port}"));
        Ok(server)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.join("admin.kubeconfig")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It keeps nothing that must be ended in order.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
