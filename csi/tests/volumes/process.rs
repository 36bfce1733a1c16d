//! The driver's program, and calls to it as a kubelet makes them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::str::FromStr;
use std::time::{Duration, Instant};

use csi_api as api;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tonic::transport::{Endpoint, Uri};

use super::disk::{Disk, isolate, missing};
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
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn capability() -> api::VolumeCapability {
    api::VolumeCapability {
        block: None,
        mount: Some(api::MountVolume::default()),
        access_mode: Some(api::AccessMode {
            mode: api::Mode::SingleNodeWriter.into(),
        }),
    }
}

/// csi-sanity's paging of snapshots wants five volumes of 10 GiB: a class that promises no
/// more than it has refuses the last on a small disk, and one that may promise more lists
/// their snapshots page by page.
#[test]
fn snapshots_of_volumes_larger_than_the_disk_are_listed_page_by_page() {
    if let Some(reason) = missing(&["mkfs.ext4"]) {
        println!("skipped: {reason}");
        return;
    }
    isolate();
    let disk = Disk::new("ext4", 256);
    let folder = disk.beside("driver");
    let class = format!("backend: file, path: {}", disk.path().display());
    let create = api::CreateVolumeRequest {
        name: "v".to_owned(),
        capacity_range: Some(api::CapacityRange {
            required_bytes: 10 << 30,
            limit_bytes: 0,
        }),
        volume_capabilities: vec![capability()],
        ..api::CreateVolumeRequest::default()
    };
    let strict = Process::start(&folder, &class);
    let refused: Result<api::CreateVolumeResponse, _> =
        strict.call("Controller/CreateVolume", create);
    let refused = refused.expect_err("no space");
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    assert!(
        refused.message().contains("raise `overcommit`"),
        "{refused}"
    );
    drop(strict);

    let driver = Process::start(&folder, &format!("{class}, overcommit: 1000"));
    for number in 0..5 {
        let volume = driver.create(&format!("v{number}"), 10 << 30, None);
        let request = api::CreateSnapshotRequest {
            source_volume_id: volume,
            name: format!("s{number}"),
            ..api::CreateSnapshotRequest::default()
        };
        let made: Result<api::CreateSnapshotResponse, _> =
            driver.call("Controller/CreateSnapshot", request);
        made.expect("a snapshot");
    }
    let (mut token, mut sizes, mut found) = (String::new(), Vec::new(), Vec::new());
    for _ in 0..5 {
        let request = api::ListSnapshotsRequest {
            max_entries: 2,
            starting_token: token,
            ..api::ListSnapshotsRequest::default()
        };
        let page: api::ListSnapshotsResponse = driver
            .call("Controller/ListSnapshots", request)
            .expect("a page");
        sizes.push(page.entries.len());
        let snapshots = page.entries.into_iter().filter_map(|entry| entry.snapshot);
        found.extend(snapshots.map(|snapshot| snapshot.snapshot_id));
        token = page.next_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(sizes, [2, 2, 1]);
    found.dedup();
    assert_eq!(found.len(), 5, "{found:?}");
}
