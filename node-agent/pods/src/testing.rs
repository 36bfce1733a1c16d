//! One pod's task over the fake runtime and an API that takes everything, for
//! tests.
//!
//! What the fakes cannot show: processes, images, networks, and an API that
//! refuses.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use control_client::{Cache, Client, RequestBody};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use node_agent_cgroups::CgroupLayout;
use node_agent_cri::fake::Fake;
use node_agent_cri::{RelistRate, Runtime};
use node_agent_images::ImagePuller;
use node_agent_images::providers::CredentialProviders;
use node_agent_images::pulls::PullRecords;
use node_agent_kubelet_config::{PullVerification, Settings};
use node_agent_objects::events::NodeEvents;
use node_agent_objects::fake::FakeObjects;
use node_agent_objects::pod::Pod;
use node_agent_pod_registry::EvictionRequest;
use node_agent_resource_managers::ResourceManagers;
use node_agent_resource_managers::devices::DeviceManager;
use node_agent_resource_managers::dra::{AWAY, ClaimManager};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::pod::config::NodeFacts;
use crate::pod::context::PodContext;
use crate::pod::dns::{NodeDns, ResolverConfig};
use crate::pod::limits::LimitRules;
use crate::pod::userns::IdRanges;
use crate::pod::worker::{self, WorkerHandle};
use crate::sandbox_limiter::SandboxLimiter;

fn api(written: Written) -> Client {
    let service = tower::service_fn(move |request: Request<RequestBody>| {
        let written = written.clone();
        async move {
            let (head, body) = request.into_parts();
            if let Ok(body) = body.collect().await {
                let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
                let line = format!("{} {} {text}", head.method, head.uri);
                written.lock().unwrap().push(line);
            }
            let body = Full::new(Bytes::from_static(
                br#"{"metadata":{"resourceVersion":"1"}}"#,
            ));
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    Client::in_process(service, ())
}

/// What the API was asked: method, path and body.
pub(crate) type Written = Arc<Mutex<Vec<String>>>;

/// What workers use, as of a node with nothing configured.
pub(crate) fn context(runtime: &Fake, root: &Path, written: Written) -> PodContext {
    let client = api(written);
    let runtime: Arc<dyn Runtime> = Arc::new(runtime.clone());
    let attention = RelistRate::default();
    attention.set_network_ready(true);
    let claims = ClaimManager::new(
        client.clone(),
        "n",
        root,
        mpsc::unbounded_channel().0,
        AWAY,
        CancellationToken::new(),
    );
    PodContext {
        objects: Arc::new(FakeObjects::default()),
        node_object: Cache::fixed([]),
        events: NodeEvents::new(&client, "n"),
        attention: Arc::new(attention),
        crowd: SandboxLimiter::for_processors(1),
        images: Arc::new(ImagePuller::new(
            runtime.clone(),
            3,
            PullRecords::new(root, PullVerification::Fetched),
            CredentialProviders::default(),
        )),
        csi: Arc::default(),
        devices: Arc::new(DeviceManager::new(root)),
        claims: Arc::new(claims.unwrap()),
        managers: Arc::new(ResourceManagers::new(root, &Settings::default(), 1 << 30).unwrap()),
        cgroups: None,
        ranges: IdRanges::new(root, 3),
        node: NodeFacts {
            name: "n".to_owned(),
            host_ips: vec!["10.1.0.1".to_owned()],
            allocatable: Default::default(),
            room: Default::default(),
            dns: NodeDns {
                servers: Vec::new(),
                domain: "cluster.local".to_owned(),
                host: ResolverConfig::parse(""),
            },
            runtime_name: "fake".to_owned(),
            root: root.to_owned(),
            log_root: root.join("logs"),
            seccomp_root: root.join("seccomp"),
            cgroups: CgroupLayout::below("/"),
            rules: LimitRules::plain(1 << 30),
            cluster_domain: "cluster.local".to_owned(),
            seccomp_default: false,
        },
        settings: Arc::default(),
        pressure: Default::default(),
        leaving: Arc::default(),
        allocations: Arc::default(),
        grants: Mutex::default(),
        pods: Arc::default(),
        probes: Arc::default(),
        metrics: Arc::default(),
        runtime,
        client,
    }
}

/// A pod.
pub(crate) fn pod(name: &str, spec: serde_json::Value, deleting: bool) -> Arc<Pod> {
    let mut metadata = serde_json::json!({"name": name, "namespace": "default", "uid": "u"});
    if deleting {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        metadata["deletionGracePeriodSeconds"] = 1.into();
    }
    Arc::new(
        serde_json::from_value(serde_json::json!({"metadata": metadata, "spec": spec})).unwrap(),
    )
}

/// A pod's worker at work.
pub(crate) struct Run {
    pub(crate) runtime: Fake,
    pub(crate) handle: WorkerHandle,
    pub(crate) orders: mpsc::UnboundedSender<EvictionRequest>,
    ordered: tokio::task::JoinHandle<()>,
    name: String,
    spec: serde_json::Value,
    pub(crate) shared: Arc<PodContext>,
    pub(crate) written: Written,
    done: mpsc::UnboundedReceiver<String>,
    root: tempfile::TempDir,
}

impl Run {
    pub(crate) fn begin(spec: serde_json::Value, runtime: Fake) -> Self {
        Self::begin_with(spec, runtime, |_| {})
    }

    /// On a node that `change` has made different.
    pub(crate) fn begin_with(
        spec: serde_json::Value,
        runtime: Fake,
        change: impl FnOnce(&mut PodContext),
    ) -> Self {
        Self::begin_named("web", spec, runtime, change)
    }

    /// A pod of that name.
    pub(crate) fn begin_named(
        name: &str,
        spec: serde_json::Value,
        runtime: Fake,
        change: impl FnOnce(&mut PodContext),
    ) -> Self {
        let pod = pod(name, spec.clone(), false);
        Self::begin_pod(pod, spec, runtime, change)
    }

    /// Another agent over the same runtime takes over from this one, which does
    /// nothing any more; the API has the pod as it is given.
    pub(crate) async fn again(self, pod: Pod, change: impl FnOnce(&mut PodContext)) -> Self {
        let (spec, runtime) = (self.spec.clone(), self.runtime.clone());
        // a worker whose handles are gone waits for ever
        self.ordered.abort();
        let _ = self.ordered.await;
        drop((self.handle, self.shared));
        Self::begin_pod(Arc::new(pod), spec, runtime, change)
    }

    fn begin_pod(
        pod: Arc<Pod>,
        spec: serde_json::Value,
        runtime: Fake,
        change: impl FnOnce(&mut PodContext),
    ) -> Self {
        let root = tempfile::tempdir().unwrap();
        let name = pod.name().to_owned();
        let (orders, mut ordered) = mpsc::unbounded_channel();
        let written = Written::default();
        let mut shared = context(&runtime, root.path(), written.clone());
        change(&mut shared);
        let shared = Arc::new(shared);
        let (sender, done) = mpsc::unbounded_channel();
        let handle = worker::spawn(shared.clone(), pod, sender);
        let other_end = handle.clone();
        // as the manager does
        let taken = tokio::spawn(async move {
            while let Some(EvictionRequest {
                sentence, grace, ..
            }) = ordered.recv().await
            {
                other_end.end(sentence, grace);
            }
        });
        Self {
            runtime,
            handle,
            orders,
            ordered: taken,
            name,
            spec,
            shared,
            written,
            done,
            root,
        }
    }

    pub(crate) fn phase(&self) -> String {
        let found = self.shared.pods.find("default", &self.name);
        found.map_or(String::new(), |e| e.status.phase.clone())
    }

    /// Whether the API was told something that holds this text.
    pub(crate) fn received(&self, text: &str) -> bool {
        self.written
            .lock()
            .unwrap()
            .iter()
            .any(|w| w.contains(text))
    }

    /// Waits, nudging as the manager does.
    pub(crate) async fn until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        for _ in 0..900 {
            if is(self) {
                return;
            }
            self.handle.nudge();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("not {what}:\n{}{:?}", self.runtime, self.runtime.calls());
    }

    pub(crate) async fn delete(self) {
        self.delete_and_keep().await;
    }

    /// Its folder is there as long as what is returned.
    pub(crate) async fn delete_and_keep(mut self) -> tempfile::TempDir {
        self.handle.set(pod(&self.name, self.spec.clone(), true));
        let uid = tokio::time::timeout(Duration::from_secs(90), self.done.recv()).await;
        assert_eq!(
            uid.expect("a deleted pod ends").as_deref(),
            Some("u"),
            "{}",
            self.runtime
        );
        assert!(self.runtime.is_empty(), "left:\n{}", self.runtime);
        self.root
    }
}
