//! The driver's program, and calls to it as a kubelet makes them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::str::FromStr;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use csi_api as api;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tonic::transport::{Endpoint, Uri};

use super::harness::configuration;

/// How long the program may take to answer, and a call to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program with one class; it is killed with the value.
pub struct Process {
    folder: PathBuf,
    runtime: Runtime,
    child: Option<Child>,
}

impl Process {
    /// Starts it; its socket, configuration and log are in `folder`.
    pub fn start(folder: &Path, class: &str) -> Self {
        fs::write(folder.join("config.yaml"), configuration(class)).expect("configuration");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("runtime");
        let mut process = Self {
            folder: folder.to_owned(),
            runtime,
            child: None,
        };
        process.restart();
        process
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("csi.sock")
    }

    /// Starts it again after it was killed.
    pub fn restart(&mut self) {
        self.kill();
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("driver.log"))
            .expect("log");
        let child = Command::new(env!("CARGO_BIN_EXE_orlop-csi"))
            .arg(format!("--endpoint=unix://{}", self.socket().display()))
            .arg("--node-id=node-1")
            .arg(format!(
                "--config={}",
                self.folder.join("config.yaml").display()
            ))
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("driver"));
        let begun = Instant::now();
        while std::os::unix::net::UnixStream::connect(self.socket()).is_err() {
            assert!(begun.elapsed() < PATIENCE, "{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills it as `kill -9` does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// What it logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("driver.log")).unwrap_or_default()
    }

    /// Makes a call and returns its answer.
    pub fn call<Q, A>(&self, method: &str, request: Q) -> Result<A, tonic::Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let socket = self.socket();
        let call = async {
            let connector = tower::service_fn(move |_: Uri| {
                let socket = socket.clone();
                async move { UnixStream::connect(socket).await.map(TokioIo::new) }
            });
            let channel = Endpoint::from_static("http://driver.invalid")
                .connect_with_connector(connector)
                .await
                .map_err(|error| tonic::Status::unavailable(error.to_string()))?;
            let mut grpc = tonic::client::Grpc::new(channel);
            grpc.ready()
                .await
                .map_err(|error| tonic::Status::unavailable(error.to_string()))?;
            let path = PathAndQuery::from_str(&format!("/csi.v1.{method}")).expect("a path");
            let codec = tonic_prost::ProstCodec::<Q, A>::default();
            let answer = grpc
                .unary(tonic::Request::new(request), path, codec)
                .await?;
            Ok(answer.into_inner())
        };
        self.runtime.block_on(async {
            match tokio::time::timeout(PATIENCE, call).await {
                Ok(answer) => answer,
                Err(_) => Err(tonic::Status::deadline_exceeded("no answer")),
            }
        })
    }

    /// Creates a volume with a file system and returns its identifier.
    pub fn create(
        &self,
        name: &str,
        bytes: i64,
        source: Option<api::VolumeContentSource>,
    ) -> String {
        let request = api::CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: Some(api::CapacityRange {
                required_bytes: bytes,
                limit_bytes: 0,
            }),
            volume_capabilities: vec![capability()],
            volume_content_source: source,
            ..api::CreateVolumeRequest::default()
        };
        let answer: api::CreateVolumeResponse = self
            .call("Controller/CreateVolume", request)
            .expect("a volume");
        answer.volume.expect("a volume").volume_id
    }

    /// Kills it after a while, from a thread.
    pub fn kill_after(&self, after: Duration) -> JoinHandle<()> {
        let pid = self.child.as_ref().map(Child::id);
        std::thread::spawn(move || {
            std::thread::sleep(after);
            let pid = pid.and_then(|pid| i32::try_from(pid).ok());
            let pid = Pid::from_raw(pid.expect("it runs"));
            kill(pid, Signal::SIGKILL).expect("killed");
        })
    }

    /// Stages and publishes a volume, as the kubelet does for a pod, and again when it or
    /// the driver was restarted.
    pub fn publish(&self, volume: &str, staging: &Path, target: &Path) {
        let (staging, target) = (staging.display().to_string(), target.display().to_string());
        let stage = api::NodeStageVolumeRequest {
            volume_id: volume.to_owned(),
            staging_target_path: staging.clone(),
            volume_capability: Some(capability()),
            ..api::NodeStageVolumeRequest::default()
        };
        let staged: Result<api::NodeStageVolumeResponse, _> =
            self.call("Node/NodeStageVolume", stage);
        staged.expect("staged");
        let publish = api::NodePublishVolumeRequest {
            volume_id: volume.to_owned(),
            staging_target_path: staging,
            target_path: target,
            volume_capability: Some(capability()),
            ..api::NodePublishVolumeRequest::default()
        };
        let published: Result<api::NodePublishVolumeResponse, _> =
            self.call("Node/NodePublishVolume", publish);
        published.expect("published");
    }

    /// Takes a volume away, as the kubelet does when its last pod is gone.
    pub fn unpublish(&self, volume: &str, staging: &Path, target: &Path) {
        let unpublish = api::NodeUnpublishVolumeRequest {
            volume_id: volume.to_owned(),
            target_path: target.display().to_string(),
        };
        let unpublished: Result<api::NodeUnpublishVolumeResponse, _> =
            self.call("Node/NodeUnpublishVolume", unpublish);
        unpublished.expect("unpublished");
        let unstage = api::NodeUnstageVolumeRequest {
            volume_id: volume.to_owned(),
            staging_target_path: staging.display().to_string(),
        };
        let unstaged: Result<api::NodeUnstageVolumeResponse, _> =
            self.call("Node/NodeUnstageVolume", unstage);
        unstaged.expect("unstaged");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn capability() -> api::VolumeCapability {
    api::VolumeCapability {
        block: None,
        mount: Some(api::MountVolume::default()),
        access_mode: Some(api::AccessMode {
            mode: api::Mode::SingleNodeWriter.into(),
        }),
    }
}
