//! The provisioner with a real driver, whose volumes are files, and an API server of fixed
//! answers. That what it writes is accepted is for tests against the real server.

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use control_client::{Client, RequestBody};
use csi::backend::Environment;
use csi::config::Config;
use csi::steps::TraceSteps;
use csi::tool::SystemRunner;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use node_agent_informers::{Informers, NodeScope};
use serde_json::Value;

use super::*;
use crate::Driver;
use crate::testing;

/// A request that changes something.
type Written = (Method, String, Value);

/// Lists one claim and one class; volumes are refused with 500 while `refuses` says so.
#[derive(Clone, Default)]
struct FixedApi {
    /// What the claim asks for, if it is not the usual.
    size: Option<&'static str>,
    refuses: Arc<AtomicBool>,
    written: Arc<Mutex<Vec<Written>>>,
}

impl FixedApi {
    async fn answer(self, request: Request<RequestBody>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let query = head.uri.query().unwrap_or_default();
        if query.contains("watch=") && !query.contains("sendInitialEvents=") {
            return std::future::pending().await;
        }
        let list =
            |items: Vec<Value>| json!({"metadata": {"resourceVersion": "9"}, "items": items});
        let (code, object): (u16, Value) = match (head.method.as_str(), path.rsplit('/').next()) {
            // Objects are listed.
            ("GET", _) if query.contains("watch=") => {
                let message = "sendInitialEvents is forbidden";
                (
                    422,
                    json!({"code": 422, "reason": "Invalid", "message": message}),
                )
            }
            ("GET", Some("localclaims")) => {
                let mut claim = testing::claim();
                if let Some(size) = self.size {
                    claim["spec"]["resources"]["requests"]["storage"] = json!(size);
                }
                (200, list(vec![claim]))
            }
            ("GET", Some("storageclasses")) => (200, list(vec![testing::class()])),
            ("GET", _) => (200, list(Vec::new())),
            (_, _) => {
                let body = body
                    .collect()
                    .await
                    .map(http_body_util::Collected::to_bytes);
                let object = serde_json::from_slice(&body.unwrap_or_default());
                let object: Value = object.unwrap_or_default();
                let mut written = self.written.lock().expect("no panic");
                written.push((head.method, path.clone(), object.clone()));
                let refused = self.refuses.load(Ordering::Relaxed);
                match path.ends_with("persistentvolumes") && refused {
                    true => (500, json!({"code": 500, "message": "no leader"})),
                    false => (201, object),
                }
            }
        };
        let body = Full::new(Bytes::from(object.to_string()));
        let answer = Response::builder().status(code).body(body);
        answer.expect("an answer")
    }

    fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<RequestBody>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.answer(request).await) }
        });
        Client::in_process(service, ())
    }

    fn written(&self, path: &str) -> Vec<Value> {
        let written = self.written.lock().expect("no panic");
        let to_path = written.iter().filter(|(_, to, _)| to.ends_with(path));
        to_path.map(|(_, _, object)| object.clone()).collect()
    }
}

/// Serves a driver of files in a folder.
async fn driver(dir: &Path, end: &CancellationToken) -> Driver {
    let folder = dir.join("disk");
    std::fs::create_dir(&folder).expect("a folder");
    let text = format!(
        "apiVersion: orlop.dev/v1alpha1\nkind: VolumeConfiguration\nclasses:\n- {{name: local, backend: file, path: {}}}\n",
        folder.display()
    );
    let socket = dir.join("csi.sock");
    let options = csi::Options {
        socket: socket.clone(),
        node: "n1".to_owned(),
        config: Config::parse(&text).expect("a configuration"),
        metrics: None,
        registry: None,
        expands_on_node: false,
        counts: csi::metrics::Metrics::default(),
    };
    let environment = Environment {
        tools: Arc::new(SystemRunner),
        steps: Arc::new(TraceSteps),
    };
    let (ready, is_ready) = tokio::sync::oneshot::channel();
    let serving = csi::run(options, environment, end.clone(), move || {
        let _ = ready.send(());
    });
    tokio::spawn(serving);
    is_ready.await.expect("it serves");
    Driver::new(&socket)
}

#[tokio::test]
async fn a_volume_is_made_once_and_deleted_when_its_claim_goes_before_it_is_saved() {
    let dir = tempfile::tempdir().expect("a folder");
    let end = CancellationToken::new();
    let api = FixedApi::default();
    let shared = LoopContext::new(
        &api.client(),
        &Informers::new(api.client(), "n1", NodeScope::Own),
        "n1",
        driver(dir.path(), &end).await,
        Arc::new(Vec::new),
        Arc::new(|_, _| {}),
    );
    shared.synced().await;
    shared.standby.assume_no_sidecars();
    let provisioner = Provisioner {
        shared: Arc::new(shared),
        queue: queue(),
        unsaved: Mutex::default(),
        refused: Mutex::default(),
    };
    let key = Key {
        namespace: "default".into(),
        name: "data".into(),
    };
    let image = dir.path().join("disk/volumes/pvc-u1.img");

    api.refuses.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        let failed = provisioner.sync(key.clone()).await;
        assert!(matches!(failed, Err(Error::Api { .. })), "{failed:?}");
        assert!(image.exists());
    }
    provisioner
        .give_up_unsaved(&key, None)
        .await
        .expect("deleted");
    assert!(
        !image.exists(),
        "the claim is gone, and nobody knows the volume"
    );
    assert!(provisioner.unsaved().is_empty());

    api.refuses.store(false, Ordering::Relaxed);
    let before = api.written("/persistentvolumes").len();
    provisioner.sync(key.clone()).await.expect("provisioned");
    let saved = api.written("/persistentvolumes");
    assert_eq!(saved.len(), before + 1);
    let volume = &saved[before];
    assert_eq!(volume["metadata"]["name"], "pvc-u1");
    assert_eq!(volume["spec"]["csi"]["volumeHandle"], "pvc-u1");
    assert_eq!(volume["spec"]["capacity"]["storage"], "1Gi");
    assert!(image.exists() && provisioner.unsaved().is_empty());
    end.cancel();
}

#[tokio::test]
async fn nothing_is_made_until_it_is_known_that_no_sidecar_works() {
    let dir = tempfile::tempdir().expect("a folder");
    let end = CancellationToken::new();
    let api = FixedApi::default();
    let shared = LoopContext::new(
        &api.client(),
        &Informers::new(api.client(), "n1", NodeScope::Own),
        "n1",
        driver(dir.path(), &end).await,
        Arc::new(Vec::new),
        Arc::new(|_, _| {}),
    );
    shared.synced().await;
    let provisioner = Provisioner {
        shared: Arc::new(shared),
        queue: queue(),
        unsaved: Mutex::default(),
        refused: Mutex::default(),
    };
    let key = Key {
        namespace: "default".into(),
        name: "data".into(),
    };
    let again = provisioner.sync(key).await.expect("it rests");
    assert_eq!(again, Some(REST / 10));
    assert_eq!(api.written("/persistentvolumes"), Vec::<Value>::new());
    end.cancel();
}

#[tokio::test]
async fn a_claim_that_failed_is_tried_again_as_soon_as_there_is_room() {
    let dir = tempfile::tempdir().expect("a folder");
    let end = CancellationToken::new();
    let api = FixedApi::default();
    let shared = LoopContext::new(
        &api.client(),
        &Informers::new(api.client(), "n1", NodeScope::Own),
        "n1",
        driver(dir.path(), &end).await,
        Arc::new(Vec::new),
        Arc::new(|_, _| {}),
    );
    shared.synced().await;
    shared.standby.assume_no_sidecars();
    let shared = Arc::new(shared);
    let hour = Duration::from_secs(3600);
    let provisioner = Arc::new(Provisioner {
        shared: shared.clone(),
        queue: Queue::with_delays(hour, hour),
        unsaved: Mutex::default(),
        refused: Mutex::default(),
    });
    let worker = provisioner.clone();
    let work = move |key| {
        let this = worker.clone();
        async move { this.sync(key).await }
    };
    api.refuses.store(true, Ordering::Relaxed);
    let attempts = async {
        while api.written("/persistentvolumes").is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The failure is in the queue by the time of the notice.
        tokio::time::sleep(Duration::from_millis(200)).await;
        api.refuses.store(false, Ordering::Relaxed);
        shared.space_freed.notify_one();
        while api.written("/persistentvolumes").len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let all = async {
        tokio::select! {
            () = provisioner.queue.run("test", 1, &end, work) => {}
            () = provisioner.follow() => {}
            () = attempts => {}
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(20), all).await;
    assert!(done.is_ok(), "the claim waits for an hour");
    end.cancel();
}

#[tokio::test]
async fn a_claim_without_room_says_so_once_and_comes_back_ever_later() {
    let dir = tempfile::tempdir().expect("a folder");
    let end = CancellationToken::new();
    let api = FixedApi {
        size: Some("4Pi"),
        ..FixedApi::default()
    };
    let shared = LoopContext::new(
        &api.client(),
        &Informers::new(api.client(), "n1", NodeScope::Own),
        "n1",
        driver(dir.path(), &end).await,
        Arc::new(Vec::new),
        Arc::new(|_, _| {}),
    );
    shared.synced().await;
    shared.standby.assume_no_sidecars();
    let provisioner = Provisioner {
        shared: Arc::new(shared),
        queue: queue(),
        unsaved: Mutex::default(),
        refused: Mutex::default(),
    };
    let key = Key {
        namespace: "default".into(),
        name: "data".into(),
    };
    let given_back = || api.written("/persistentvolumeclaims/data").len();
    for count in 1..=2 {
        let done = provisioner.sync(key.clone()).await.expect("given back");
        assert_eq!((done, given_back()), (None, count));
    }
    let rest = provisioner.sync(key.clone()).await.expect("it waits");
    assert!(rest.is_some_and(|rest| rest <= Duration::from_secs(1)));
    assert_eq!(given_back(), 2, "it is selected again too early");
    // Both reasons were sent before the second attempt's would be.
    let mut told = 0;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let written = api.written.lock().expect("no panic");
        told = written
            .iter()
            .filter(|(_, path, _)| path.contains("/events"))
            .count();
    }
    assert_eq!(told, 2, "`Provisioning` and `ProvisioningFailed`");
    end.cancel();
}
