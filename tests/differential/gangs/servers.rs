//! The stock programs: a kube-apiserver that serves PodGroups, its store, and a kube-scheduler
//! that schedules by them.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use control_client::{Client, Selection, resources};
use control_pki::Cluster;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Error;
use crate::process::Running;

/// How long the API server may take to answer.
const PATIENCE: Duration = Duration::from_secs(300);

/// What is on that is off by default.
const GATES: &str = "GenericWorkload=true,GangScheduling=true,OpportunisticBatching=false";

/// How long pods back off, at first and at most.
pub const BACKOFF: Duration = Duration::from_secs(1);

/// A stock API server and its store; their folder goes with them.
pub struct Servers {
    // Ended in this order.
    _apiserver: Running,
    _etcd: Running,
    folder: TempDir,
}

fn failed(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Io { what, source }
}

fn pki(error: control_pki::Error) -> Error {
    Error::Program(format!("no certificates: {error}"))
}

fn free_port() -> Result<u16, Error> {
    free_port::free_port().map_err(failed("finding a free port"))
}

fn start(command: &mut Command, log: &Path, what: &'static str) -> Result<Running, Error> {
    let out = File::create(log).map_err(failed("creating a log"))?;
    let again = out.try_clone().map_err(failed("creating a log"))?;
    let child = command.stdin(Stdio::null()).stdout(out).stderr(again);
    Ok(Running::new(child.spawn().map_err(failed(what))?))
}

impl Servers {
    /// Starts both on loopback.
    pub fn start(etcd: &Path, apiserver: &Path) -> Result<Self, Error> {
        let folder = tempfile::Builder::new()
            .prefix("orlop-differential-")
            .tempdir()
            .map_err(failed("making a temporary folder"))?;
        let at = |name: &str| folder.path().join(name);
        let (clients, peers) = (free_port()?, free_port()?);
        let (clients, peers) = (
            format!("http://127.0.0.1:{clients}"),
            format!("http://127.0.0.1:{peers}"),
        );
        let store = start(
            Command::new(etcd)
                .arg("--data-dir")
                .arg(at("etcd"))
                .args(["--listen-client-urls", &clients])
                .args(["--advertise-client-urls", &clients])
                .args(["--listen-peer-urls", &peers])
                .args(["--initial-advertise-peer-urls", &peers])
                .args(["--initial-cluster", &format!("default={peers}")])
                .args(["--log-level", "error"]),
            &at("etcd.log"),
            "starting etcd",
        )?;
        let port = free_port()?;
        let cluster = Cluster::load_or_create(at("pki")).map_err(pki)?;
        let serving = cluster.serving(["127.0.0.1"]).map_err(pki)?;
        let admin = control_pki::kubeconfig(
            &format!("https://127.0.0.1:{port}"),
            cluster.ca.certificate_pem(),
            &cluster.administrator().map_err(pki)?,
            "stock",
            "admin",
        );
        for (name, text) in [
            ("admin.kubeconfig", &admin),
            ("serving.crt", &serving.cert_pem),
            ("serving.key", &serving.key_pem),
        ] {
            std::fs::write(at(name), text).map_err(failed("writing a file"))?;
        }
        let option = |option: &str, name: &str| format!("--{option}={}", at(name).display());
        let server = start(
            Command::new(apiserver)
                .arg(format!("--etcd-servers={clients}"))
                .arg(format!("--secure-port={port}"))
                .args([
                    "--bind-address=127.0.0.1",
                    "--advertise-address=127.0.0.1",
                    "--authorization-mode=RBAC",
                    "--service-cluster-ip-range=10.96.0.0/16",
                    "--service-account-issuer=https://kubernetes.default.svc",
                    "--endpoint-reconciler-type=none",
                    "--feature-gates=GenericWorkload=true",
                    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
                    // Nobody makes accounts, or says that nodes are ready.
                    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
                ])
                .arg(option("client-ca-file", "pki/ca.crt"))
                .arg(option("tls-cert-file", "serving.crt"))
                .arg(option("tls-private-key-file", "serving.key"))
                .arg(option("service-account-key-file", "pki/sa.pub"))
                .arg(option("service-account-signing-key-file", "pki/sa.key")),
            &at("apiserver.log"),
            "starting kube-apiserver",
        )?;
        Ok(Self {
            _apiserver: server,
            _etcd: store,
            folder,
        })
    }

    /// An administrator, once the API server answers.
    pub async fn client(&self) -> Result<Client, Error> {
        let kubeconfig = self.folder.path().join("admin.kubeconfig");
        let client = Client::from_kubeconfig(kubeconfig).await?;
        let began = Instant::now();
        loop {
            let priorities = client
                .list::<Value>(&resources::PRIORITY_CLASSES, &Selection::all())
                .await;
            // They come a moment after the server.
            let failure = match priorities {
                Ok(list) if !list.items.is_empty() => return Ok(client),
                Ok(_) => String::new(),
                Err(error) => error.chain(),
            };
            if began.elapsed() > PATIENCE {
                let log = self.folder.path().join("apiserver.log");
                let log = std::fs::read_to_string(log).unwrap_or_default();
                let last: Vec<&str> = log.lines().rev().take(5).collect();
                return Err(Error::Program(format!(
                    "kube-apiserver does not answer: {failure}\n{}",
                    last.join("\n")
                )));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Starts a kube-scheduler.
    pub fn scheduler(&self, program: &Path) -> Result<Running, Error> {
        let at = |name: &str| self.folder.path().join(name);
        let seconds = BACKOFF.as_secs();
        let config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": false},
            "clientConnection": {
                "kubeconfig": at("admin.kubeconfig"), "qps": 10000.0, "burst": 10000,
            },
            "percentageOfNodesToScore": 100,
            "podInitialBackoffSeconds": seconds,
            "podMaxBackoffSeconds": seconds,
        });
        std::fs::write(at("scheduler.json"), config.to_string())
            .map_err(failed("writing a configuration"))?;
        start(
            Command::new(program)
                .arg("--config")
                .arg(at("scheduler.json"))
                .args(["--secure-port=0", "-v=2"])
                .arg(format!("--feature-gates={GATES}")),
            &at("scheduler.log"),
            "starting kube-scheduler",
        )
    }
}
