//! `orlop demo`: the main job, for all to see. A Deployment behind a Service,
//! called from a node and from another pod.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use clap::Args;
use control_client::{Client, Error as ClientError, resources};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::{error::Error, kubeconfig::Kubeconfig};

/// Contents of the demo.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    /// How many nodes have to be Ready first.
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// The image: serves HTTP with its host name on port 8080, and as `get
    /// HOST:PORT COUNT` is a client that prints a line an answer.
    #[arg(long)]
    image: String,
    /// A command that runs what follows it as a process of a node.
    #[arg(long, default_value = "")]
    from_node: String,
    /// The image's program, to be run on the node.
    #[arg(long)]
    client: Option<PathBuf>,
    /// Wait for the nodes and do no more.
    #[arg(long)]
    only_wait: bool,
    /// Longest wait for any one thing, in seconds.
    #[arg(long, default_value_t = 60)]
    timeout: u64,
}

impl Options {
    /// Checks the requirements of calls from the node, before anything is created.
    fn check(&self) -> Result<(), Error> {
        if self.only_wait {
            return Ok(());
        }
        let words = self.from_node.split_whitespace();
        // With a command in front, the program is a file of the node.
        let program = match words.map(PathBuf::from).next() {
            Some(first) => Some(first),
            None => self.client.clone(),
        };
        match program {
            Some(program) if program.is_absolute() && !program.is_file() => Err(Error::Option(
                format!("`{}` is no program", program.display()),
            )),
            _ => Ok(()),
        }
    }
}

const NAMESPACE: &str = "default";
const REPLICAS: u64 = 3;
const CALLS: u32 = 30;

struct Demo {
    client: Client,
    limit: Duration,
    steps: Vec<(String, Duration)>,
}

/// Runs the demo.
///
/// # Errors
/// [`Error::Demo`] naming what did not happen in time, or the API's error.
pub async fn run(options: Options) -> Result<(), Error> {
    options.check()?;
    let mut demo = Demo {
        client: options.kubeconfig.client("orlop-demo").await?,
        limit: Duration::from_secs(options.timeout),
        steps: Vec::new(),
    };
    demo.nodes(options.nodes).await?;
    if options.only_wait {
        return Ok(());
    }
    demo.create(&options.image).await?;
    demo.rollout().await?;
    let address = demo.service_address().await?;
    let target = format!("{address}:80");
    let from_node = demo.call_from_node(&options, &target).await?;
    let from_pod = demo.call_from_pod(&options.image, &target).await?;
    demo.table(&target, &from_node, &from_pod).await
}

/// How far a step is.
enum StepState<T> {
    Done(T),
    /// What there is so far.
    Waiting(String),
}

impl Demo {
    /// Polls until there is an answer, and shows the state of what it waits for.
    async fn step<T>(
        &mut self,
        what: &str,
        mut ask: impl AsyncFnMut(&Client) -> Result<StepState<T>, ClientError>,
    ) -> Result<T, Error> {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("  {spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        let started = Instant::now();
        loop {
            let state = match ask(&self.client).await {
                Ok(StepState::Done(value)) => {
                    bar.finish_and_clear();
                    let took = started.elapsed();
                    println!("  {what:<44} {:>7.2} s", took.as_secs_f64());
                    self.steps.push((what.to_owned(), took));
                    return Ok(value);
                }
                Ok(StepState::Waiting(state)) => state,
                Err(error) => error.to_string(),
            };
            if started.elapsed() > self.limit {
                return Err(Error::Demo(format!(
                    "waited {} s for {what}: {state}",
                    self.limit.as_secs()
                )));
            }
            bar.set_message(format!("{what}: {state}"));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn nodes(&mut self, wanted: usize) -> Result<(), Error> {
        self.step("nodes Ready", async |client| {
            let nodes = client
                .list::<Value>(&resources::NODES, &Default::default())
                .await?;
            let ready = nodes.items.iter().filter(|node| is_ready(node)).count();
            Ok(if ready >= wanted {
                StepState::Done(())
            } else {
                StepState::Waiting(format!("{ready} of {wanted}"))
            })
        })
        .await
    }

    async fn create(&mut self, image: &str) -> Result<(), Error> {
        let labels = json!({"app": "web"});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "labels": labels},
            "spec": {
                "replicas": REPLICAS,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{
                        "name": "web", "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "ports": [{"name": "http", "containerPort": 8080}],
                        "readinessProbe": {
                            "httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1,
                        },
                    }]},
                },
            },
        });
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "labels": labels},
            "spec": {
                "selector": labels,
                "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
            },
        });
        self.step("Deployment and Service created", async |client| {
            for (resource, body) in [
                (&resources::DEPLOYMENTS, &deployment),
                (&resources::SERVICES, &service),
            ] {
                match client.create::<Value>(resource, NAMESPACE, body).await {
                    Err(error) if !error.is_already_exists() => return Err(error),
                    _ => {}
                }
            }
            Ok(StepState::Done(()))
        })
        .await
    }

    async fn rollout(&mut self) -> Result<(), Error> {
        self.step("rollout of 3 replicas", async |client| {
            let web: Value = client
                .get(&resources::DEPLOYMENTS, NAMESPACE, "web")
                .await?;
            let ready = web["status"]["availableReplicas"].as_u64().unwrap_or(0);
            let wanted = web["spec"]["replicas"].as_u64().unwrap_or(REPLICAS);
            Ok(if ready >= wanted {
                StepState::Done(())
            } else {
                StepState::Waiting(format!("{ready} of {wanted}"))
            })
        })
        .await
    }

    async fn service_address(&mut self) -> Result<String, Error> {
        self.step("Service has endpoints", async |client| {
            let service: Value = client.get(&resources::SERVICES, NAMESPACE, "web").await?;
            let slices = client
                .list::<Value>(
                    &resources::ENDPOINT_SLICES,
                    &control_client::Selection::all()
                        .namespace(NAMESPACE)
                        .labels("kubernetes.io/service-name=web"),
                )
                .await?;
            let endpoints: usize = slices
                .items
                .iter()
                .filter_map(|slice| slice["endpoints"].as_array())
                .flatten()
                .filter(|endpoint| endpoint["conditions"]["ready"] != json!(false))
                .count();
            Ok(match service["spec"]["clusterIP"].as_str() {
                Some(address) if endpoints as u64 >= REPLICAS => {
                    StepState::Done(address.to_owned())
                }
                _ => StepState::Waiting(format!("{endpoints} endpoints")),
            })
        })
        .await
    }

    /// Calls the Service from a process of a node.
    async fn call_from_node(
        &mut self,
        options: &Options,
        target: &str,
    ) -> Result<BTreeMap<String, u32>, Error> {
        let Some(program) = &options.client else {
            return Ok(BTreeMap::new());
        };
        let mut words = options.from_node.split_whitespace().map(str::to_owned);
        let mut command = match words.next() {
            Some(first) => {
                let mut command = tokio::process::Command::new(first);
                command.args(words).arg(program);
                command
            }
            None => tokio::process::Command::new(program),
        };
        command
            .args(["get", target, &CALLS.to_string()])
            .stdin(Stdio::null());
        let started = Instant::now();
        let output = command
            .output()
            .await
            .map_err(|error| Error::Demo(format!("`{}`: {error}", program.display())))?;
        let took = started.elapsed();
        let what = format!("{CALLS} calls from the node");
        println!("  {what:<44} {:>7.2} s", took.as_secs_f64());
        self.steps.push((what, took));
        let text = String::from_utf8_lossy(&output.stdout);
        if text.trim().is_empty() {
            return Err(Error::Demo(format!(
                "the client on the node printed nothing: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            )));
        }
        Ok(count(&text))
    }

    /// Calls it from another pod, whose log has the answers.
    async fn call_from_pod(
        &mut self,
        image: &str,
        target: &str,
    ) -> Result<BTreeMap<String, u32>, Error> {
        let name = "web-client";
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "client", "image": image, "imagePullPolicy": "IfNotPresent",
                    "args": ["get", target, CALLS.to_string()],
                }],
            },
        });
        let remove = async |client: &Client| {
            client
                .delete(&resources::PODS, NAMESPACE, name, &Default::default())
                .await
        };
        match remove(&self.client).await {
            Err(error) if !error.is_not_found() => return Err(Error::Client(error)),
            _ => {}
        }
        let mut created = false;
        self.step(&format!("{CALLS} calls from another pod"), async |client| {
            if !created {
                match client
                    .create::<Value>(&resources::PODS, NAMESPACE, &pod)
                    .await
                {
                    Ok(_) => created = true,
                    // The one of the last demo is still going.
                    Err(error) if error.is_already_exists() => {
                        return Ok(StepState::Waiting(error.to_string()));
                    }
                    Err(error) => return Err(error),
                }
            }
            let pod: Value = client.get(&resources::PODS, NAMESPACE, name).await?;
            let phase = pod["status"]["phase"].as_str().unwrap_or("").to_owned();
            Ok(match phase.as_str() {
                "Succeeded" | "Failed" => StepState::Done(()),
                _ => StepState::Waiting(phase),
            })
        })
        .await?;
        let request = http::Request::get(format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}/log"))
            .body(Vec::new())
            .map_err(|error| Error::Demo(error.to_string()))?;
        let log = self
            .client
            .kube()
            .request_text(request)
            .await
            .map_err(|error| Error::Demo(format!("the log of pod `{name}`: {error}")))?;
        remove(&self.client).await.map_err(Error::Client)?;
        Ok(count(&log))
    }

    async fn table(
        &self,
        target: &str,
        from_node: &BTreeMap<String, u32>,
        from_pod: &BTreeMap<String, u32>,
    ) -> Result<(), Error> {
        let pods = self
            .client
            .list::<Value>(
                &resources::PODS,
                &control_client::Selection::all()
                    .namespace(NAMESPACE)
                    .labels("app=web"),
            )
            .await
            .map_err(Error::Client)?;
        println!("\n  Service web at {target}, TCP, by eBPF socket hooks\n");
        println!(
            "  {:<24} {:<10} {:<16} {:>12} {:>12}",
            "POD", "NODE", "IP", "ANSWERS NODE", "ANSWERS POD"
        );
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let mut known = Vec::new();
        for pod in &pods.items {
            let name = text(&pod["metadata"]["name"]);
            println!(
                "  {name:<24} {:<10} {:<16} {:>12} {:>12}",
                text(&pod["spec"]["nodeName"]),
                text(&pod["status"]["podIP"]),
                from_node.get(&name).copied().unwrap_or(0),
                from_pod.get(&name).copied().unwrap_or(0),
            );
            known.push(name);
        }
        println!();
        for (from, answers) in [("the node", from_node), ("the pod", from_pod)] {
            let foreign = answers.iter().find(|(line, _)| !known.contains(line));
            if let Some((line, times)) = foreign {
                return Err(Error::Demo(format!(
                    "{times} of {CALLS} calls from {from} gave `{line}`"
                )));
            }
        }
        Ok(())
    }
}

fn is_ready(node: &Value) -> bool {
    node["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn count(text: &str) -> BTreeMap<String, u32> {
    let mut answers = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        *answers.entry(line.trim().to_owned()).or_default() += 1;
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_is_found_before_anything_is_created() {
        let options = |from_node: &str, client: Option<&str>| Options {
            kubeconfig: Kubeconfig::default(),
            nodes: 1,
            image: "registry.orlop.dev/demo:1".to_owned(),
            from_node: from_node.to_owned(),
            client: client.map(PathBuf::from),
            only_wait: false,
            timeout: 1,
        };
        let this = std::env::current_exe().unwrap();
        assert!(options("", None).check().is_ok());
        assert!(options("", this.to_str()).check().is_ok());
        for (from_node, client) in [("", "/none/demo"), ("/none/exec node-1", "/demo")] {
            let error = options(from_node, Some(client)).check().unwrap_err();
            assert!(error.to_string().contains("/none/"), "{error}");
        }
    }
}
