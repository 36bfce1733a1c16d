//! The programs of a run: an API server alone, and a stock kube-scheduler that is its client.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::Error;
use crate::stock_log::{Record, parse};

/// How long a program may take to do what it is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// With this variable set, the folder of logs stays.
const KEEP: &str = "DIFFERENTIAL_KEEP";

/// A program that ends when this is dropped.
pub struct Running(Child);

/// The API server; its folder goes with it.
pub struct ApiServer {
    _process: Running,
    folder: PathBuf,
}

/// A stock scheduler, and what it has logged.
pub struct StockScheduler {
    _process: Running,
    records: mpsc::UnboundedReceiver<Record>,
    /// What was read of the log since [`StockScheduler::forget`].
    pub seen: Seen,
}

/// What a log said.
#[derive(Debug, Default)]
pub struct Seen {
    /// Nodes that were added.
    pub nodes_added: BTreeSet<String>,
    /// Nodes that changed.
    pub nodes_updated: BTreeSet<String>,
    /// Nodes that are gone.
    pub nodes_deleted: BTreeSet<String>,
    /// Pods on nodes.
    pub pods_assigned: BTreeSet<String>,
    /// Pods on nodes that changed.
    pub pods_updated: BTreeSet<String>,
    /// Pods that are gone.
    pub pods_deleted: BTreeSet<String>,
    /// By pod and node: the score, by plugin.
    pub plugin_scores: BTreeMap<(String, String), BTreeMap<String, i64>>,
    /// By pod and node: the score.
    pub final_scores: BTreeMap<(String, String), i64>,
    /// Pods that were bound, with how many nodes passed all filters.
    pub bound: BTreeMap<String, usize>,
    /// Pods whose victims are deleted.
    pub preempted: BTreeSet<String>,
    /// What failed.
    pub failures: Vec<String>,
}

impl Running {
    /// The program as it was started.
    pub const fn new(child: Child) -> Self {
        Self(child)
    }

    /// Whether it ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nothing is kept that must be ended in order.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl ApiServer {
    /// Starts `program DIR PORT` on loopback and waits until it answers.
    pub fn start(program: &Path) -> Result<Self, Error> {
        let failed = |what: &'static str| move |source| Error::Io { what, source };
        let port = free_port::free_port().map_err(failed("finding a free port"))?;
        let folder = tempfile::Builder::new()
            .prefix("orlop-differential-")
            .tempdir()
            .map_err(failed("making a temporary folder"))?
            .keep();
        let log = folder.join("apiserver.log");
        let out = File::create(&log).map_err(failed("creating a log"))?;
        let again = out.try_clone().map_err(failed("creating a log"))?;
        let child = Command::new(program)
            .arg(&folder)
            .arg(port.to_string())
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(again)
            .spawn()
            .map_err(failed("starting the API server"))?;
        let server = Self {
            _process: Running(child),
            folder,
        };
        let began = Instant::now();
        while !server.kubeconfig().is_file()
            || std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
        {
            if began.elapsed() > PATIENCE {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(Error::Program(format!(
                    "the API server does not answer: {said}"
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("admin.kubeconfig")
    }

    /// The folder of its files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        if std::env::var_os(KEEP).is_some() {
            println!("logs are in {}", self.folder.display());
            return;
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl StockScheduler {
    /// Starts a stock scheduler beside an API server. All nodes are looked at for each pod,
    /// and no result is kept for the next: so what it logs is what it decides by.
    pub fn start(program: &Path, server: &ApiServer) -> Result<Self, Error> {
        let failed = |what: &'static str| move |source| Error::Io { what, source };
        let config = serde_json::json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": false},
            "clientConnection": {
                "kubeconfig": server.kubeconfig(), "qps": 10000.0, "burst": 10000,
            },
            "percentageOfNodesToScore": 100,
        });
        let path = server.folder().join("scheduler.json");
        std::fs::write(&path, config.to_string()).map_err(failed("writing a configuration"))?;
        let mut child = Command::new(program)
            .arg("--config")
            .arg(&path)
            .args([
                "--secure-port=0",
                "--feature-gates=OpportunisticBatching=false",
            ])
            .args(["-v=2", "--vmodule=schedule_one=10,eventhandlers=4"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed("starting the stock scheduler"))?;
        let log = child.stderr.take();
        let process = Running(child);
        let log = log.ok_or_else(|| Error::Program("the stock scheduler has no log".to_owned()))?;
        let mut copy = File::create(server.folder().join("scheduler.log"))
            .map_err(failed("creating a log"))?;
        let (sender, records) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                // The copy is for people who look into a run; the run goes on without it.
                let _ = writeln!(copy, "{line}");
                if let Some(record) = parse(&line)
                    && sender.send(record).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self {
            _process: process,
            records,
            seen: Seen::default(),
        })
    }

    /// Forgets what the log said so far.
    pub fn forget(&mut self) {
        while self.records.try_recv().is_ok() {}
        self.seen = Seen::default();
    }

    /// Reads the log until it has said what is waited for.
    pub async fn until(
        &mut self,
        what: &str,
        is_said: impl Fn(&Seen) -> bool,
    ) -> Result<(), Error> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !is_said(&self.seen) {
            let record = tokio::time::timeout_at(deadline, self.records.recv()).await;
            let Ok(record) = record else {
                let last = self.seen.failures.last().cloned().unwrap_or_default();
                return Err(Error::Program(format!(
                    "the stock scheduler's log does not say: {what} {last}"
                )));
            };
            let record =
                record.ok_or_else(|| Error::Program("the stock scheduler ended".to_owned()))?;
            self.seen.take(record);
        }
        Ok(())
    }
}

impl Seen {
    fn take(&mut self, record: Record) {
        match record {
            Record::NodeAdded(node) => _ = self.nodes_added.insert(node),
            Record::NodeUpdated(node) => _ = self.nodes_updated.insert(node),
            Record::NodeDeleted(node) => _ = self.nodes_deleted.insert(node),
            Record::PodAssigned(pod) => _ = self.pods_assigned.insert(pod),
            Record::PodUpdated(pod) => _ = self.pods_updated.insert(pod),
            Record::PodDeleted(pod) => _ = self.pods_deleted.insert(pod),
            Record::PluginScore {
                pod,
                plugin,
                node,
                score,
            } => {
                let scores = self.plugin_scores.entry((pod, node)).or_default();
                scores.insert(plugin, score);
            }
            Record::FinalScore { pod, node, score } => {
                self.final_scores.insert((pod, node), score);
            }
            Record::Bound { pod, feasible } => _ = self.bound.insert(pod, feasible),
            Record::Preempted { preemptor } => _ = self.preempted.insert(preemptor),
            Record::Failed(why) => self.failures.push(why),
        }
    }
}
