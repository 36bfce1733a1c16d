//! What tests that cross crates share: starting clusters and asking them.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

pub mod history;
pub mod lan;
pub mod load;
pub mod logs;
pub mod machine;
pub mod netns;
pub mod random;
pub mod report;
mod servers;
pub mod watches;

use serde_json::Value;

/// The workspace's root.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
        .to_owned()
}

/// Where the built programs are: `xtask` builds them in the release profile.
pub fn programs() -> PathBuf {
    target().join("release")
}

/// The folder of what cargo builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace().join("target"), |dir| workspace().join(dir))
}

/// The programs that nodes run: `$ORLOP_PROGRAMS`, for trying others, or
/// [`programs`].
pub fn node_programs() -> PathBuf {
    std::env::var_os("ORLOP_PROGRAMS").map_or_else(programs, PathBuf::from)
}

/// A stock kubectl: `$KUBECTL`, the one on the PATH, or the one that `cargo xtask setup
/// --for-tests` built.
pub fn kubectl_program() -> Option<PathBuf> {
    stock_program("KUBECTL", "kubectl")
}

/// A stock program that tests run beside ours: the file that `variable` names, the first
/// of its name on the PATH, or the one that `cargo xtask setup --for-tests` built.
pub fn stock_program(variable: &str, name: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([target().join("go/bin")])
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// The reason printed where [`stock_program`] finds nothing.
pub fn no_stock_program(variable: &str, name: &str) -> String {
    format!(
        "no `{name}` on the PATH or in target/go/bin, and {variable} is not set; \
         `cargo xtask setup --for-tests` builds it where Go is installed"
    )
}

/// A cluster of test hosts, taken down when dropped.
pub struct Cluster {
    /// Its state folder.
    pub dir: PathBuf,
    kubectl: PathBuf,
    /// The network namespace of its clients, where the API server is not at this machine's loopback.
    clients: Option<PathBuf>,
    down: bool,
}

/// A failure of a scenario, in words.
pub type Failure = Box<dyn std::error::Error>;

impl Cluster {
    /// Brings a cluster up in `dir`, with the show when `demo` is set.
    ///
    /// # Errors
    /// What `xtask up` printed.
    pub fn up(dir: &Path, nodes: u8, demo: bool) -> Result<Self, Failure> {
        let options: &[&str] = if demo { &[] } else { &["--no-demo"] };
        Self::up_with(dir, nodes, options)
    }

    /// Brings a cluster up in `dir`, with these options of `xtask up`.
    ///
    /// # Errors
    /// What `xtask up` printed.
    pub fn up_with(dir: &Path, nodes: u8, options: &[&str]) -> Result<Self, Failure> {
        let kubectl = kubectl_program().ok_or("no kubectl on the PATH, and KUBECTL is not set")?;
        let mut command = xtask();
        command
            .args(["up", "--nodes", &nodes.to_string(), "--state"])
            .arg(dir)
            .arg("--programs")
            .arg(node_programs())
            .args(options);
        let output = command.stdin(Stdio::null()).output()?;
        print!("{}", String::from_utf8_lossy(&output.stdout));
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok(Self {
            dir: dir.canonicalize()?,
            kubectl,
            clients: None,
            down: false,
        })
    }

    /// A cluster that is up already, and stays up when this is dropped.
    ///
    /// # Errors
    /// When there is no folder `dir`, or no kubectl.
    pub fn running(dir: &Path) -> Result<Self, Failure> {
        let kubectl = kubectl_program().ok_or("no kubectl on the PATH, and KUBECTL is not set")?;
        Ok(Self {
            dir: dir.canonicalize()?,
            kubectl,
            clients: None,
            down: true,
        })
    }

    /// Does something to one of its test hosts: `xtask host VERB NAME`.
    ///
    /// # Errors
    /// What `xtask host` printed.
    pub fn host(&self, verb: &str, name: &str) -> Result<(), Failure> {
        let mut command = xtask();
        command.args(["host", verb, name, "--state"]).arg(&self.dir);
        let output = command.stdin(Stdio::null()).output()?;
        checked(output, &format!("xtask host {verb} {name}")).map(drop)
    }

    /// Takes it down.
    ///
    /// # Errors
    /// What `xtask down` printed.
    pub fn down(mut self) -> Result<(), Failure> {
        self.down = true;
        end(&self.dir)
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("admin.kubeconfig")
    }

    /// Has clients run in this network namespace.
    pub fn clients_in(&mut self, network: PathBuf) {
        self.clients = Some(network);
    }

    /// A program that is a client of the API server.
    pub fn client(&self, program: &Path) -> Command {
        match &self.clients {
            Some(network) => netns::command(network, &program.display().to_string()),
            None => Command::new(program),
        }
    }

    /// A kubectl command, its words separated by spaces.
    pub fn command(&self, words: &str) -> Command {
        let mut command = self.client(&self.kubectl);
        command
            .env("KUBECONFIG", self.kubeconfig())
            .args(words.split_whitespace());
        command
    }

    /// Runs kubectl and gives what it printed.
    ///
    /// # Errors
    /// What it printed as its error.
    pub fn kubectl(&self, words: &str) -> Result<String, Failure> {
        checked(self.command(words).stdin(Stdio::null()).output()?, words)
    }

    /// Runs kubectl with text on its standard input.
    ///
    /// # Errors
    /// What it printed as its error.
    pub fn kubectl_with(&self, words: &str, input: &str) -> Result<String, Failure> {
        use std::io::Write;
        let mut child = self
            .command(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        checked(child.wait_with_output()?, words)
    }

    /// An object or list as JSON.
    ///
    /// # Errors
    /// What kubectl printed.
    pub fn get(&self, words: &str) -> Result<Value, Failure> {
        let text = self.kubectl(&format!("get {words} -o json"))?;
        Ok(serde_json::from_str(&text)?)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.down
            && let Err(error) = end(&self.dir)
        {
            eprintln!("{error}");
        }
    }
}

fn xtask() -> Command {
    let mut command = Command::new(programs().join("xtask"));
    command.current_dir(workspace());
    command
}

fn end(dir: &Path) -> Result<(), Failure> {
    let output = xtask().arg("down").arg("--state").arg(dir).output()?;
    checked(output, "xtask down").map(drop)
}

fn checked(output: Output, what: &str) -> Result<String, Failure> {
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!(
            "{what}: {}{}",
            String::from_utf8_lossy(&output.stderr),
            String::from_utf8_lossy(&output.stdout)
        )
        .into())
    }
}

/// Asks again until the answer is yes.
///
/// # Errors
/// The last answer's reason, after `seconds`.
pub fn eventually<T>(
    what: &str,
    seconds: u64,
    mut ask: impl FnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let started = Instant::now();
    loop {
        match ask() {
            Ok(value) => return Ok(value),
            Err(error) if started.elapsed() > Duration::from_secs(seconds) => {
                return Err(format!("waited {seconds} s for {what}: {error}").into());
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Fails with a sentence unless the condition holds.
///
/// # Errors
/// The sentence.
pub fn ensure(condition: bool, otherwise: impl Into<String>) -> Result<(), Failure> {
    if condition {
        Ok(())
    } else {
        Err(otherwise.into().into())
    }
}
