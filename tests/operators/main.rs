//! Operators as people write them run against `orlop server`: one with kube-rs
//! (`kube_rs.rs`), one with controller-runtime (`go/`). Each looks after mills: makes
//! a Deployment and a ConfigMap, tells the status through its subresource, holds a
//! finalizer; what it owned is collected when the mill goes. No nodes are needed.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Config};
use serde::de::DeserializeOwned;
use serde_json::json;

mod kube_rs;

use tests::report::{Report, skip};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

const KUBE_RS: &str = "an_operator_of_kube_rs_works";
const CONTROLLER_RUNTIME: &str = "an_operator_of_controller_runtime_works";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|one| name.contains(*one));
    let names = [KUBE_RS, CONTROLLER_RUNTIME].map(|name| (name, wanted(name)));
    if words.iter().any(|word| word == "--list") {
        for (name, _) in names {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let mut report = Report::default();
    let chosen = || names.iter().filter(|(_, wanted)| *wanted);
    if chosen().next().is_none() {
        return report.end();
    }
    let program = tests::node_programs().join("orlop");
    if !program.is_file() {
        let missing = format!(
            "there is no `{}`; `cargo xtask build` makes it",
            program.display()
        );
        report.skip_all(chosen().map(|(name, _)| *name), &missing);
        return report.end();
    }
    let started = Instant::now();
    let outcome = tokio::runtime::Runtime::new()
        .map_err(Into::into)
        .and_then(|runtime| {
            runtime.block_on(all(&program, names.map(|(_, wanted)| wanted), &mut report))
        });
    if outcome.is_err() {
        report.record("operators_run_against_a_server", started, outcome);
    }
    report.end()
}

async fn all(program: &Path, [rust, go]: [bool; 2], report: &mut Report) -> Outcome {
    let work = tempfile::tempdir()?;
    // Go builds while the other operator is at work.
    let build = go.then(|| GoBuild::begin(work.path()));
    let server = Server::start(program).await?;
    let client = server.client().await?;
    define(&client).await?;
    if rust {
        let started = Instant::now();
        let own = tokio::spawn(kube_rs::run(client.clone(), "rust".into()));
        let outcome = look_after(&client, "rust", "example.com/kube-rs").await;
        own.abort();
        report.record(KUBE_RS, started, outcome);
    }
    if let Some(build) = build {
        let started = Instant::now();
        let outcome = controller_runtime(build, work.path(), &server, &client).await;
        report.record(CONTROLLER_RUNTIME, started, outcome);
    }
    Ok(())
}

/// Runs the operator in Go once it is built.
async fn controller_runtime(
    build: Outcome<GoBuild>,
    work: &Path,
    server: &Server,
    client: &Client,
) -> Outcome {
    let operator = build?.end()?;
    let log = work.join("operator.log");
    let mut operator = Command::new(operator)
        .env("KUBECONFIG", server.kubeconfig())
        .args(["--namespace", "go"])
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(&log)?)
        .spawn()?;
    let outcome = look_after(client, "go", "example.com/controller-runtime").await;
    operator.kill()?;
    operator.wait()?;
    outcome.map_err(|error| {
        let log = std::fs::read_to_string(log).unwrap_or_default();
        format!("{error}; the operator said:\n{log}").into()
    })
}

/// Installs the definition and waits until it is established.
async fn define(client: &Client) -> Outcome {
    let definition: CustomResourceDefinition =
        serde_saphyr::from_str(include_str!("definition.yaml"))?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .create(&PostParams::default(), &definition)
        .await?;
    let made = Instant::now();
    eventually("the definition is established", || async {
        let found = definitions.get("mills.example.com").await.ok()?;
        let conditions = found.status?.conditions?;
        conditions
            .iter()
            .any(|one| one.type_ == "Established" && one.status == "True")
            .then_some(())
    })
    .await?;
    println!("    established after {:?}", made.elapsed());
    Ok(())
}

/// The life of a mill, as its users see it.
async fn look_after(client: &Client, namespace: &str, finalizer: &str) -> Outcome {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let place = Namespace {
        metadata: kube::core::ObjectMeta {
            name: Some(namespace.to_owned()),
            ..Default::default()
        },
        ..Default::default()
    };
    namespaces.create(&PostParams::default(), &place).await?;
    let mills: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &kube_rs::mill());
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let mill = DynamicObject::new("north", &kube_rs::mill()).data(json!({"spec": {"stones": 3}}));
    let made = mills.create(&PostParams::default(), &mill).await?;
    if made.data["spec"]["grain"] != "rye" {
        return Err("the grain was not defaulted".into());
    }
    eventually("a Deployment of three", || async {
        let found = deployments.get("north").await.ok()?;
        (found.spec?.replicas == Some(3)).then_some(())
    })
    .await?;
    eventually("a ConfigMap that names the grain", || async {
        let found = maps.get("north").await.ok()?;
        (found.data?.get("grain")? == "rye").then_some(())
    })
    .await?;
    eventually("the status of what was seen, and a finalizer", || async {
        let found = mills.get("north").await.ok()?;
        let seen = found.data["status"]["observedGeneration"].as_i64()?;
        let held = found.metadata.finalizers.unwrap_or_default();
        (found.data["status"]["phase"] == "Grinding"
            && Some(seen) == found.metadata.generation
            && held.iter().any(|one| one == finalizer))
        .then_some(())
    })
    .await?;
    let change = Patch::Merge(json!({"spec": {"stones": 1, "grain": "wheat"}}));
    mills
        .patch("north", &PatchParams::default(), &change)
        .await?;
    eventually("one stone, and wheat", || async {
        let replicas = deployments.get("north").await.ok()?.spec?.replicas;
        let map = maps.get("north").await.ok()?;
        (replicas == Some(1) && map.data?.get("grain")? == "wheat").then_some(())
    })
    .await?;
    deployments
        .delete("north", &DeleteParams::default())
        .await?;
    eventually("a Deployment that was deleted is made again", || async {
        let found = deployments.get("north").await.ok()?;
        (found.metadata.deletion_timestamp.is_none()).then_some(())
    })
    .await?;
    mills.delete("north", &DeleteParams::default()).await?;
    eventually("the mill is gone and noted", || async {
        let gone = mills.get_opt("north").await.ok()?.is_none();
        (gone && maps.get_opt("north-ended").await.ok()?.is_some()).then_some(())
    })
    .await?;
    gone(&deployments, "its Deployment is collected").await?;
    gone(&maps, "its ConfigMap is collected").await
}

async fn gone<K>(api: &Api<K>, what: &str) -> Outcome
where
    K: kube::Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
{
    eventually(what, || async {
        api.get_opt("north").await.ok()?.is_none().then_some(())
    })
    .await
}

/// Asks until there is an answer.
async fn eventually<T, F>(what: &str, mut ask: impl FnMut() -> F) -> Outcome<T>
where
    F: Future<Output = Option<T>>,
{
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return Ok(answer);
        }
        if Instant::now() > until {
            return Err(format!("not within {PATIENCE:?}: {what}").into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The operator in Go, being built.
struct GoBuild {
    go: Child,
    program: PathBuf,
    said: PathBuf,
}

impl GoBuild {
    /// Begins; skipped where there is no Go.
    fn begin(dir: &Path) -> Outcome<Self> {
        if Command::new("go").arg("version").output().is_err() {
            return skip("there is no Go on the PATH");
        }
        let (program, said) = (dir.join("mills"), dir.join("go.log"));
        let go = Command::new("go")
            .args(["build", "-mod=readonly", "-ldflags=-s -w", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(tests::workspace().join("tests/operators/go"))
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(&said)?)
            .spawn()?;
        Ok(Self { go, program, said })
    }

    /// The program; skipped where its modules cannot be had.
    fn end(mut self) -> Outcome<PathBuf> {
        if self.go.wait()?.success() {
            return Ok(self.program.clone());
        }
        let said = std::fs::read_to_string(&self.said)?;
        let unreachable = ["dial tcp", "no such host", "lookup disabled"];
        if unreachable.iter().any(|why| said.contains(why)) {
            return skip(
                "controller-runtime is not in Go's module cache, and its proxy does not answer",
            );
        }
        Err(format!("the operator does not build: {said}").into())
    }
}

impl Drop for GoBuild {
    fn drop(&mut self) {
        // Nothing waits for it any more.
        let _ = self.go.kill();
        let _ = self.go.wait();
    }
}

/// `orlop server` in a folder of its own; dropped, it ends.
struct Server {
    child: Child,
    dir: tempfile::TempDir,
}

impl Server {
    async fn start(program: &Path) -> Outcome<Self> {
        let dir = tempfile::tempdir()?;
        let port = free_port::free_port()?;
        let log = std::fs::File::create(dir.path().join("log"))?;
        let child = Command::new(program)
            .args(["server", "--bind-address", "127.0.0.1", "--secure-port"])
            .arg(port.to_string())
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .arg("--write-kubeconfig")
            .arg(dir.path().join("kubeconfig"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let server = Self { child, dir };
        let kubeconfig = server.kubeconfig();
        eventually("the server is ready", || async {
            kubeconfig.is_file().then_some(())
        })
        .await
        .map_err(|error| {
            let log = std::fs::read_to_string(server.dir.path().join("log"));
            format!("{error}: {}", log.unwrap_or_default())
        })?;
        Ok(server)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    async fn client(&self) -> Outcome<Client> {
        let file = Kubeconfig::read_from(self.kubeconfig())?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(file, &options).await?;
        Ok(Client::try_from(config)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // What it keeps goes with its folder.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
