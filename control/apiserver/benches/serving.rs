//! What a client of the API server alone waits for: its start, LIST, watch
//! events, writes. A plain program: the server is a process of its own, so that
//! its processor time and memory are told apart from those of the client.
//!
//! `cargo bench -p control-apiserver` (files in `BENCH_DIR`, default the build
//! directory's disk). Figures of a busy machine say nothing: they come with how
//! busy it was.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use common::{Result, Server, say, times};
use control_access::Tokens;
use control_apiserver::{ApiServer, ClusterAccess, Config};
use control_pki::{ClientTrust, Cluster, ServingIdentity, server_config};
use control_store::embedded::{EmbeddedStore, Options};
use control_types::value;
use control_types::value::Value;
use http::Method;
use http_body_util::BodyExt;
use tokio_util::sync::CancellationToken;

/// Says to this program that it is the server: `DIR PORT`.
const SERVER: &str = "ORLOP_BENCH_SERVER";
const STARTS: usize = 5;
const PODS: usize = 10_000;
const LISTS: usize = 20;
const WATCHERS: usize = 100;
const EVENTS: usize = 200;
/// Between two writes that watchers see.
const PACE: Duration = Duration::from_millis(20);
const WRITING: Duration = Duration::from_secs(3);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    if let Ok(place) = std::env::var(SERVER) {
        let (dir, port) = place.rsplit_once(' ').ok_or("no place for the server")?;
        return runtime.block_on(serve(Path::new(dir), port.parse()?));
    }
    let base = std::env::var_os("BENCH_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    runtime.block_on(client(&base))
}

/// The server, until it is killed.
async fn serve(dir: &Path, port: u16) -> Result<()> {
    let pki = Cluster::load_or_create(dir.join("pki"))?;
    let trust = ClientTrust::new(pki.ca.certificate_pem())?;
    let serving = pki.serving(["127.0.0.1"])?;
    let identity = ServingIdentity::new(&serving, &dir.join("pki/apiserver.crt"))?;
    let tls = server_config(identity, &[&trust])?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let server = ApiServer::new(Config {
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
        advertise_port: port,
        service_cidrs: vec!["10.96.0.0/16".parse()?],
        node_ports: (30000, 32767),
        kubelets: None,
        proxy_identity: None,
        egress: control_proxy::Egress::default(),
        whole: false,
        chain: control_apiserver::chain::Settings::default(),
    })
    .await?;
    let tls = Arc::new(ArcSwap::from_pointee(tls));
    server
        .serve([listener], tls, CancellationToken::new())
        .await;
    Ok(())
}

/// This very program again, as the server.
async fn start(dir: &Path) -> Result<Server> {
    Server::start(dir, |port| {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(SERVER, format!("{} {port}", dir.display()));
        Ok(command)
    })
    .await
}

async fn client(base: &Path) -> Result<()> {
    let dir = tempfile::tempdir_in(base)?;
    let mut starts = Vec::new();
    for _ in 1..STARTS {
        let dir = tempfile::tempdir_in(base)?;
        starts.push(start(dir.path()).await?.took);
    }
    let server = start(dir.path()).await?;
    starts.push(server.took);
    say("start to /readyz, empty store", times(&mut starts));
    tokio::time::sleep(Duration::from_secs(2)).await;
    say(
        "resident, idle, empty store",
        format!("{:.1} MB", server.resident()),
    );
    writes(&server).await?;
    for connections in [1, WATCHERS] {
        watch(&server, connections).await?;
    }
    list(&server).await
}

fn map(name: &str) -> Value {
    value!({"metadata": {"name": name}, "data": {"text": ("x".repeat(1024))}})
}

/// A pod of some 5 KB, as a cluster has them.
fn pod(name: &str) -> Value {
    let env: Vec<Value> = (0..24)
        .map(|at| value!({"name": (format!("VARIABLE_{at}")), "value": (format!("value-{at}-{}", "v".repeat(60)))}))
        .collect();
    value!({
        "metadata": {
            "name": name,
            "labels": {"app": "web", "pod-template-hash": "5d4f8c7b9f", "tier": "front"},
            "annotations": {"example.com/checksum": ("c".repeat(64))}
        },
        "spec": {
            "nodeName": "node-1",
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

/// One client that writes as fast as it is answered.
async fn writes(server: &Server) -> Result<()> {
    let mut connection = server.connect().await?;
    let end = Instant::now() + WRITING;
    let before = server.processor();
    let mut took = Vec::new();
    while Instant::now() < end {
        let object = map(&format!("write-{}", took.len()));
        let began = Instant::now();
        connection.create(MAPS, &object).await?;
        took.push(began.elapsed());
    }
    let processor = (server.processor() - before).as_secs_f64() * 1e6 / took.len() as f64;
    let figure = times(&mut took);
    say(
        "create, one client",
        format!("{figure}  {processor:.0} us of processor each"),
    );
    Ok(())
}

/// From a write's answer to its event at each of many watchers.
async fn watch(server: &Server, connections: usize) -> Result<()> {
    let mut shared = Vec::new();
    for _ in 0..connections {
        shared.push(server.connect().await?);
    }
    let (seen, mut arrivals) = tokio::sync::mpsc::unbounded_channel();
    for at in 0..WATCHERS {
        let mut connection = shared[at % connections].clone();
        let path =
            format!("{MAPS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan");
        let body = connection.ask(Method::GET, &path, None).await?.into_body();
        let seen = seen.clone();
        tokio::spawn(async move {
            let mut body = body;
            // What is measured is the server: frames are timed, not read.
            while let Some(Ok(frame)) = body.frame().await {
                if frame.data_ref().is_some_and(|data| data.ends_with(b"\n"))
                    && seen.send(Instant::now()).is_err()
                {
                    return;
                }
            }
        });
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut writer = server.connect().await?;
    let mut late = Vec::with_capacity(EVENTS * WATCHERS);
    let before = server.processor();
    for at in 0..EVENTS {
        let object = map(&format!("watch-{connections}-{at}"));
        writer.create(MAPS, &object).await?;
        let answered = Instant::now();
        for _ in 0..WATCHERS {
            let arrived = tokio::time::timeout(Duration::from_secs(5), arrivals.recv()).await?;
            let arrived = arrived.ok_or("a watch ended")?;
            late.push(arrived.saturating_duration_since(answered));
        }
        tokio::time::sleep(PACE).await;
    }
    let events = (EVENTS * WATCHERS) as f64;
    let processor = (server.processor() - before).as_secs_f64() * 1e6 / events;
    let what = format!("answer to event, {WATCHERS} watchers, {connections} connections");
    let figure = times(&mut late);
    say(
        &what,
        format!("{figure}  {processor:.1} us of processor each"),
    );
    Ok(())
}

/// LIST of all pods from the cache.
async fn list(server: &Server) -> Result<()> {
    let account = value!({"metadata": {"name": "default"}});
    let mut connection = server.connect().await?;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    connection.create(accounts, &account).await?;
    let began = Instant::now();
    let before = server.processor();
    let mut tasks = Vec::new();
    for task in 0..32 {
        let mut connection = connection.clone();
        tasks.push(tokio::spawn(async move {
            for at in (task..PODS).step_by(32) {
                let pod = pod(&format!("web-{at}"));
                connection
                    .create("/api/v1/namespaces/default/pods", &pod)
                    .await?;
            }
            Result::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    let each = (server.processor() - before).as_secs_f64() * 1e6 / PODS as f64;
    let rate = PODS as f64 / began.elapsed().as_secs_f64();
    say(
        "create pods, 32 clients",
        format!("{rate:.0} per s  {each:.0} us of processor each"),
    );
    say(
        "resident, 10 000 pods",
        format!("{:.1} MB", server.resident()),
    );
    for (what, path) in [
        ("LIST of 10 000 pods, consistent", "/api/v1/pods"),
        (
            "LIST of 10 000 pods, resourceVersion=0",
            "/api/v1/pods?resourceVersion=0",
        ),
    ] {
        let mut took = Vec::new();
        let mut bytes = 0;
        let before = server.processor();
        for _ in 0..LISTS {
            let began = Instant::now();
            let mut body = connection.ask(Method::GET, path, None).await?.into_body();
            while let Some(frame) = body.frame().await {
                bytes += frame?.data_ref().map_or(0, Bytes::len);
            }
            took.push(began.elapsed());
        }
        let megabytes = bytes as f64 / 1e6;
        let used = (server.processor() - before).as_secs_f64();
        let rate = megabytes / took.iter().sum::<Duration>().as_secs_f64();
        let each = megabytes / LISTS as f64;
        let figure = times(&mut took);
        let core = megabytes / used;
        say(
            what,
            format!("{figure}  {each:.0} MB  {rate:.0} MB/s  {core:.0} MB per s of processor"),
        );
    }
    Ok(())
}
