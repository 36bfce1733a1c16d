//! What one request costs the server's processor, without the network: requests
//! go through the whole chain within this process, one after the other.
//!
//! `cargo bench -p control-apiserver --bench requests`. To count instructions,
//! run the program that cargo names under a tool of your choice with `ONLY=get`
//! (or `map`, `pod`, `update`) and `COUNT=2000`.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use control_access::{Tokens, User};
use control_apiserver::{ApiServer, ClusterAccess, Config, Service};
use control_pki::{ClientTrust, Cluster};
use control_request::body::Body;
use control_store::embedded::{EmbeddedStore, Options};
use control_types::value;
use control_types::value::Value;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use tower::ServiceExt;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn main() -> Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(run())
}

async fn run() -> Result<()> {
    let only = std::env::var("ONLY").unwrap_or_default();
    let count = std::env::var("COUNT")
        .ok()
        .map_or(Ok(5000), |n| n.parse())?;
    let dir = tempfile::tempdir()?;
    let server = server(dir.path()).await?;
    let client = Client {
        service: server.service(),
        user: User {
            name: "kubernetes-admin".into(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            ..User::default()
        },
    };
    let account = value!({"metadata": {"name": "default"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    client.send(Method::POST, accounts, Some(&account)).await?;
    client.send(Method::POST, PODS, Some(&pod("read"))).await?;
    println!("processor time of a request, {count} of each, one at a time");
    let wanted = |name: &str| only.is_empty() || only == name;
    if wanted("get") {
        let path = format!("{PODS}/read");
        measure("get", count, async |_| {
            client.send(Method::GET, &path, None).await
        })
        .await?;
    }
    if wanted("map") {
        measure("map", count, async |at| {
            let object = map(&format!("map-{at}"), at);
            client.send(Method::POST, MAPS, Some(&object)).await
        })
        .await?;
    }
    if wanted("update") {
        let object = map("changed", 0);
        client.send(Method::POST, MAPS, Some(&object)).await?;
        let path = format!("{MAPS}/changed");
        measure("update", count, async |at| {
            let object = map("changed", at + 1);
            client.send(Method::PUT, &path, Some(&object)).await
        })
        .await?;
    }
    if wanted("pod") {
        measure("pod", count, async |at| {
            let object = pod(&format!("pod-{at}"));
            client.send(Method::POST, PODS, Some(&object)).await
        })
        .await?;
    }
    Ok(())
}

/// Prints what `count` runs took, after some that warm up.
async fn measure(
    name: &str,
    count: usize,
    mut run: impl AsyncFnMut(usize) -> Result<()>,
) -> Result<()> {
    let warm = count / 10;
    for at in 0..warm {
        run(at).await?;
    }
    let (used, began) = (processor(), Instant::now());
    for at in warm..warm + count {
        run(at).await?;
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
    println!(
        "{name:8} {:8.1} µs of processor  {:8.1} µs until answered",
        each(processor() - used),
        each(began.elapsed())
    );
    Ok(())
}

/// Processor time of this process, all threads.
fn processor() -> Duration {
    let Ok(used) = getrusage(UsageWho::RUSAGE_SELF) else {
        return Duration::ZERO;
    };
    let micros = used.user_time().num_microseconds() + used.system_time().num_microseconds();
    Duration::from_micros(micros.unsigned_abs())
}

async fn server(dir: &std::path::Path) -> Result<ApiServer> {
    let pki = Cluster::load_or_create(dir.join("pki"))?;
    let trust = ClientTrust::new(pki.ca.certificate_pem())?;
    let config = Config {
        store: Arc::new(EmbeddedStore::open(
            dir.join("store.redb"),
            Options::default(),
        )?),
        access: Arc::new(ClusterAccess::new(
            trust,
            Tokens::new(Arc::new(pki.service_account_key)),
        )),
        encryption: control_encryption::Encryption::own(&dir.join("pki/encryption.key"))?,
        advertise_address: [127, 0, 0, 1].into(),
        advertise_port: 6443,
        service_cidrs: vec!["10.96.0.0/16".parse()?],
        node_ports: (30000, 32767),
        proxy_identity: None,
        egress: control_proxy::Egress::default(),
        whole: false,
        chain: control_apiserver::chain::Settings::default(),
        kubelets: None,
    };
    Ok(ApiServer::new(config).await?)
}

struct Client {
    service: Service,
    user: User,
}

impl Client {
    async fn send(&self, method: Method, path: &str, object: Option<&Value>) -> Result<()> {
        let bytes = object.map(Value::to_vec).unwrap_or_default();
        let body = Full::new(Bytes::from(bytes)).map_err(|never| match never {});
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("accept", "application/json, */*")
            .header("content-type", "application/json")
            .header(
                "user-agent",
                "bench/v0.0.0 (linux/amd64) kubernetes/$Format",
            )
            .body(Body::new(body))?;
        request.extensions_mut().insert(self.user.clone());
        let answer = self.service.clone().oneshot(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into());
        }
        Ok(())
    }
}

fn map(name: &str, at: usize) -> Value {
    let text = format!("{at:08}{}", "x".repeat(1016));
    value!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"}, "data": {"text": (text)}})
}

/// A pod of some 4 KB, as a cluster has them.
fn pod(name: &str) -> Value {
    let env: Vec<Value> = (0..20)
        .map(|at| value!({"name": (format!("VARIABLE_{at}")), "value": (format!("value-{at}-{}", "v".repeat(60)))}))
        .collect();
    value!({
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"app": "web", "pod-template-hash": "5d4f8c7b9f", "tier": "front"},
            "annotations": {"example.com/checksum": ("c".repeat(64))}
        },
        "spec": {
            "containers": [{
                "name": "web",
                "image": "registry.example/web:1.2.3",
                "env": (env),
                "ports": [{"containerPort": 8080, "name": "http"}],
                "resources": {
                    "requests": {"cpu": "100m", "memory": "128Mi"},
                    "limits": {"memory": "256Mi"}
                },
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5}
            }]
        }
    })
}
