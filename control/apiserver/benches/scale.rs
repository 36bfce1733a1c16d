//! What many of something cost a release of `orlop apiserver`: clients that never
//! pause, definitions of custom resources, streams that nobody reads.
//!
//! `cargo build --release -p orlop && cargo bench -p control-apiserver --bench scale`;
//! `ORLOP` names another program, `ONLY` one part (`clients`, `definitions`,
//! `streams`), `BENCH_DIR` where files are. Figures of a busy machine say nothing:
//! they come with how busy it was.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{Connection, Peer, Result, Server, WINDOWS, say, times};
use control_pki::{Cluster, Spec};
use control_types::value;
use control_types::value::Value;
use http::Method;
use http_body_util::BodyExt;

/// Says to this program that it is the crowd: `PORT DIR`; tokens come from its input.
const CROWD: &str = "ORLOP_BENCH_CROWD";
const CLIENTS: usize = 2000;
const ACCOUNTS: usize = 4;
const RENEWALS: usize = 100;
const PACE: Duration = Duration::from_millis(50);
const MAPS: usize = 200;
const DEFINITIONS: usize = 1000;
const STREAMS: usize = 1000;

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    if let Ok(place) = std::env::var(CROWD) {
        let (port, dir) = place.split_once(' ').ok_or("no place of a server")?;
        return runtime.block_on(crowd(port.parse()?, Path::new(dir)));
    }
    let base = std::env::var_os("BENCH_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let program = match std::env::var_os("ORLOP") {
        Some(program) => PathBuf::from(program),
        None => std::env::current_exe()?.with_file_name("../orlop"),
    };
    if !program.is_file() {
        let program = program.display();
        return Err(format!("{program} is not there: cargo build --release -p orlop").into());
    }
    let only = std::env::var("ONLY").unwrap_or_default();
    let wanted = |part: &str| only.is_empty() || only == part;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    say("load of the machine before", load.trim());
    runtime.block_on(async {
        if wanted("clients") {
            clients(&program, &base, true).await?;
            clients(&program, &base, false).await?;
        }
        if wanted("definitions") {
            definitions(&program, &base).await?;
        }
        if wanted("streams") {
            streams(&program, &base).await?;
        }
        Ok(())
    })
}

/// `orlop apiserver` with these further options.
async fn start(program: &Path, dir: &Path, options: &[&str]) -> Result<Server> {
    Server::start(dir, |port| {
        let mut command = Command::new(program);
        command
            .args(["apiserver", "--bind-address=127.0.0.1", "--data-dir"])
            .arg(dir)
            .arg(format!("--secure-port={port}"))
            .args(options)
            .stderr(Stdio::null());
        Ok(command)
    })
    .await
}

fn parsed(bytes: &Bytes) -> Result<Value> {
    Ok(Value::from_slice(bytes)?)
}

// === clients ===

/// A node renews its lease while two thousand clients of four service accounts,
/// each with a connection of its own, list 200 `ConfigMap`s (200 KB) without a pause.
/// The crowd is a process of its own that the machine serves last: else it were the
/// clients that the lease waits for.
async fn clients(program: &Path, base: &Path, fair: bool) -> Result<()> {
    let dir = tempfile::tempdir_in(base)?;
    let options: &[&str] = if fair {
        &[]
    } else {
        // So many that nobody is refused: all wait for the processor.
        &[
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=4000",
        ]
    };
    let server = start(program, dir.path(), options).await?;
    let mut admin = server.connect().await?;
    for name in ["greedy", "kube-node-lease"] {
        let object = value!({"metadata": {"name": (name)}});
        // The server may have made it itself.
        let _ = admin.create("/api/v1/namespaces", &object).await;
    }
    let binding = value!({
        "metadata": {"name": "greedy"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts:greedy"}]
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    admin.create(path, &binding).await?;
    for at in 0..MAPS {
        let object = value!({"metadata": {"name": (format!("c{at}"))}, "data": {"text": ("x".repeat(1000))}});
        let path = "/api/v1/namespaces/default/configmaps";
        admin.create(path, &object).await?;
    }
    let mut tokens = Vec::new();
    for at in 0..ACCOUNTS {
        let path = "/api/v1/namespaces/greedy/serviceaccounts";
        let object = value!({"metadata": {"name": (format!("g{at}"))}});
        admin.create(path, &object).await?;
        let path = format!("{path}/g{at}/token");
        let answer = parsed(&admin.create(&path, &value!({"spec": {}})).await?)?;
        let token = answer.str_at(&["status", "token"]).ok_or("no token")?;
        tokens.push(token.to_owned());
    }
    let pki = Cluster::load_or_create(dir.path().join("pki"))?;
    let node = Spec::client("system:node:n1", &["system:nodes"]);
    let node = Peer::new(server.admin.address, &pki, Some(&pki.ca.issue(&node)?))?;
    let mut node = node.connect(WINDOWS).await?;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let lease = value!({
        "metadata": {"name": "n1"}, "spec": {"holderIdentity": "n1", "leaseDurationSeconds": 40}
    });
    let lease = parsed(&node.create(leases, &lease).await?)?;
    let path = format!("{leases}/n1");
    let (lease, mut alone) = renewals(&mut node, &path, lease, RENEWALS).await?;

    let mut crowd = Command::new("nice")
        .args(["-n", "19"])
        .arg(std::env::current_exe()?)
        .env(
            CROWD,
            format!("{} {}", server.admin.address.port(), dir.path().display()),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = crowd.stdin.take().ok_or("no input")?;
    for token in &tokens {
        writeln!(input, "{token}")?;
    }
    let mut said = BufReader::new(crowd.stdout.take().ok_or("no output")?).lines();
    let connected = said.next().ok_or("the crowd ended")??;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (before, began) = (server.processor(), Instant::now());
    let (_, mut took) = renewals(&mut node, &path, lease, RENEWALS).await?;
    let busy = (server.processor() - before).as_secs_f64() / began.elapsed().as_secs_f64();
    let resident = server.resident();
    drop(input);
    let served = said.next().ok_or("the crowd ended without a word")??;
    let ended = crowd.wait()?;
    if !ended.success() {
        return Err(format!("the crowd ended with {ended}: {served}").into());
    }
    let how = if fair { "with" } else { "without" };
    say("a lease's update, nobody else there", times(&mut alone));
    say(
        &format!("beside {CLIENTS} clients, {how} fairness"),
        format!(
            "{}  ({connected}; {served}; server: {busy:.1} processors, {resident:.0} MB)",
            times(&mut took)
        ),
    );
    Ok(())
}

async fn renewals(
    node: &mut Connection,
    path: &str,
    mut lease: Value,
    count: usize,
) -> Result<(Value, Vec<Duration>)> {
    let mut took = Vec::new();
    for at in 0..count {
        lease.set_path(&["spec", "leaseTransitions"], at as i64);
        let began = Instant::now();
        let answer = node.ask(Method::PUT, path, Some(&lease)).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        took.push(began.elapsed());
        if status != 200 {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into());
        }
        lease = parsed(&body)?;
        tokio::time::sleep(PACE).await;
    }
    Ok((lease, took))
}

/// The clients, until their input ends.
async fn crowd(port: u16, dir: &Path) -> Result<()> {
    let input = std::io::stdin();
    let tokens: Vec<String> = input
        .lock()
        .lines()
        .take(ACCOUNTS)
        .collect::<std::io::Result<_>>()?;
    let pki = Cluster::load_or_create(dir.join("pki"))?;
    let peer = Peer::new(([127, 0, 0, 1], port).into(), &pki, None)?;
    let began = Instant::now();
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(peer.connect(WINDOWS).await?);
    }
    println!("connected in {:.1} s", began.elapsed().as_secs_f64());
    let counts = Arc::new([const { AtomicUsize::new(0) }; 3]);
    let began = Instant::now();
    for (at, mut connection) in connections.into_iter().enumerate() {
        let bearer = format!("Bearer {}", tokens[at % ACCOUNTS]);
        let counts = Arc::clone(&counts);
        tokio::spawn(async move {
            loop {
                let headers = [("authorization", bearer.as_str())];
                let path = "/api/v1/configmaps";
                let answer = connection
                    .send(Method::GET, path, &headers, Bytes::new())
                    .await;
                let Ok(answer) = answer else { return };
                let status = answer.status();
                let mut body = answer.into_body();
                while let Some(Ok(_)) = body.frame().await {}
                match status.as_u16() {
                    200 => counts[0].fetch_add(1, Ordering::Relaxed),
                    429 => {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        counts[1].fetch_add(1, Ordering::Relaxed)
                    }
                    // Whose turn did not come in time.
                    504 => counts[2].fetch_add(1, Ordering::Relaxed),
                    other => {
                        println!("a client that may not list: {other}");
                        std::process::exit(1)
                    }
                };
            }
        });
    }
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()))
        .await??;
    let rate =
        |at: usize| counts[at].load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
    println!(
        "{:.0} lists, {:.0} refusals and {:.0} timeouts a second",
        rate(0),
        rate(1),
        rate(2)
    );
    std::io::stdout().flush()?;
    // Without waiting for two thousand connections to end in order.
    std::process::exit(0)
}

// === definitions ===

/// A definition as an operator brings it: some 12 KB, most of it descriptions.
fn definition(at: usize) -> Value {
    let described = |at: usize| {
        let text = format!(
            "Field {at} of what is wanted. {}",
            "It says more than a name. ".repeat(3)
        );
        match at % 4 {
            0 => value!({"type": "string", "description": (text), "maxLength": 63}),
            1 => {
                value!({"type": "integer", "format": "int32", "description": (text), "minimum": 0})
            }
            2 => {
                value!({"type": "array", "description": (text), "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "value": {"type": "string"}}}})
            }
            _ => {
                value!({"type": "object", "description": (text), "properties": {"enabled": {"type": "boolean"}, "selector": {"type": "object", "additionalProperties": {"type": "string"}}}})
            }
        }
    };
    let mut fields = Value::object();
    for at in 0..60 {
        fields.set_path(&[&format!("field{at}")], described(at));
    }
    let (plural, kind) = (format!("things{at}"), format!("Thing{at}"));
    value!({
        "metadata": {"name": (format!("{plural}.g{}.example.com", at % 20))},
        "spec": {
            "group": (format!("g{}.example.com", at % 20)),
            "scope": "Namespaced",
            "names": {"listKind": (format!("{kind}List")), "plural": (plural), "kind": (kind)},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Field", "type": "string", "jsonPath": ".spec.field0"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": (fields)},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
                }}}
            }]
        }
    })
}

fn objects(at: usize) -> String {
    format!(
        "/apis/g{}.example.com/v1/namespaces/default/things{at}",
        at % 20
    )
}

async fn definitions(program: &Path, base: &Path) -> Result<()> {
    const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let dir = tempfile::tempdir_in(base)?;
    let server = start(program, dir.path(), &[]).await?;
    let empty = server.took;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = server.resident();
    let mut connection = server.connect().await?;
    let began = Instant::now();
    let mut served = Vec::new();
    for at in 0..DEFINITIONS {
        connection.create(PATH, &definition(at)).await?;
        if at % 50 == 49 {
            served.push(until_served(&mut connection, at).await?);
        }
    }
    for at in 0..DEFINITIONS {
        until_served(&mut connection, at).await?;
    }
    let each = began.elapsed().as_secs_f64() * 1e3 / DEFINITIONS as f64;
    let bytes = definition(0).to_vec().len();
    let what = format!("{DEFINITIONS} definitions of {bytes} bytes");
    say(&what, format!("{each:.1} ms each"));
    say(
        "a definition's creation to its resource",
        times(&mut served),
    );
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = server.resident();
    let figure = |before: f64, after: f64| {
        let each = (after - before) * 1e3 / DEFINITIONS as f64;
        format!("{before:.0} MB before, {after:.0} MB: {each:.0} KB each")
    };
    say("resident after", figure(before, after));
    drop((connection, server));

    let server = start(program, dir.path(), &[]).await?;
    let mut connection = server.connect().await?;
    for at in 0..DEFINITIONS {
        let answer = connection.ask(Method::GET, &objects(at), None).await?;
        if answer.status() != 200 {
            return Err(format!("ready, but {} says {}", objects(at), answer.status()).into());
        }
        answer.into_body().collect().await?;
    }
    let took = (empty.as_secs_f64() * 1e3, server.took.as_secs_f64() * 1e3);
    say(
        "start to /readyz, all of them served",
        format!("{:.0} ms (empty: {:.0} ms)", took.1, took.0),
    );
    tokio::time::sleep(Duration::from_secs(3)).await;
    say(
        "resident after that start",
        figure(before, server.resident()),
    );
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    for (what, path, accept) in [
        (
            "discovery of all, aggregated",
            "/apis",
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        ),
        ("OpenAPI v3, the paths", "/openapi/v3", "application/json"),
        (
            "OpenAPI v3, a group of 50",
            "/openapi/v3/apis/g7.example.com/v1",
            "application/json",
        ),
        ("OpenAPI v2, JSON", "/openapi/v2", "application/json"),
        ("OpenAPI v2, protobuf", "/openapi/v2", protobuf),
    ] {
        // The first has to make it, the second finds it made, the third comes after a
        // definition that is new.
        let mut figures = Vec::new();
        let mut bytes = 0;
        for again in 0..3 {
            if again == 2 {
                let at = DEFINITIONS + served.len();
                served.push(Duration::ZERO);
                connection.create(PATH, &definition(at)).await?;
                until_served(&mut connection, at).await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            let began = Instant::now();
            let headers = [("accept", accept)];
            let answer = connection
                .send(Method::GET, path, &headers, Bytes::new())
                .await?;
            if answer.status() != 200 {
                return Err(format!("{path} says {}", answer.status()).into());
            }
            bytes = answer.into_body().collect().await?.to_bytes().len();
            figures.push(format!("{:.0}", began.elapsed().as_secs_f64() * 1e3));
        }
        let megabytes = bytes as f64 / 1e6;
        say(
            what,
            format!("{} ms  {megabytes:.1} MB", figures.join(", ")),
        );
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    say(
        "resident after these questions",
        figure(before, server.resident()),
    );
    Ok(())
}

/// How long it took until the resource answers.
async fn until_served(connection: &mut Connection, at: usize) -> Result<Duration> {
    let began = Instant::now();
    loop {
        let answer = connection.ask(Method::GET, &objects(at), None).await?;
        let status = answer.status();
        answer.into_body().collect().await?;
        if status == 200 {
            return Ok(began.elapsed());
        }
        if began.elapsed() > Duration::from_secs(30) {
            return Err(format!("{} still says {status}", objects(at)).into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

// === streams ===

/// One connection asks for 2 MB a thousand times and reads nothing of it.
async fn streams(program: &Path, base: &Path) -> Result<()> {
    let dir = tempfile::tempdir_in(base)?;
    let server = start(program, dir.path(), &[]).await?;
    let mut admin = server.connect().await?;
    for at in 0..MAPS {
        let object = value!({"metadata": {"name": (format!("c{at}"))}, "data": {"text": ("x".repeat(10_000))}});
        let path = "/api/v1/namespaces/default/configmaps";
        admin.create(path, &object).await?;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = server.resident();
    // The connection takes everything, each stream what the standard has as default.
    let mut connection = server.admin.connect((65_535, 1 << 30)).await?;
    let mut held = Vec::new();
    for _ in 0..STREAMS {
        let path = "/api/v1/configmaps?resourceVersion=0";
        held.push(connection.ask(Method::GET, path, None).await?);
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let each = (server.resident() - before) * 1e6 / 1024.0 / held.len() as f64;
    say(
        &format!("{STREAMS} streams that nobody reads"),
        format!("{each:.0} KiB each"),
    );
    Ok(())
}
