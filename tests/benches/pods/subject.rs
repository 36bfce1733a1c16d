//! The measured node.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tests::{Cluster, Failure, machine};

use super::{Options, watching::Watching};

/// The label of all pods made here, for their removal.
const LABEL: &str = "orlop-bench=pods";

/// A node, its programs, and the API that it belongs to.
pub struct Subject {
    pub client: Client,
    pub config: Config,
    pub node: String,
    image: String,
    group: String,
    agent: Vec<String>,
    cluster: Option<(Cluster, tempfile::TempDir)>,
}

impl Subject {
    /// The node that was named, or one of a new cluster.
    pub async fn find(options: &Options) -> Result<Self, Failure> {
        let (kubeconfig, group, agent, cluster) = match (&options.kubeconfig, &options.group) {
            (Some(kubeconfig), Some(group)) => (
                kubeconfig.clone(),
                group.clone(),
                options.agent.clone(),
                None,
            ),
            _ => {
                let dir = tempfile::tempdir()?;
                let cluster = Cluster::up(&dir.path().join("cluster"), 1, false)?;
                if options.pods > 110 {
                    room(&cluster, options.pods)?;
                }
                let group = machine::group_of(&cluster.dir, "node-1").ok_or("no record")?;
                let agent = vec!["orlop node-agent".to_owned()];
                (cluster.kubeconfig(), group, agent, Some((cluster, dir)))
            }
        };
        let config = Config::from_custom_kubeconfig(
            Kubeconfig::read_from(kubeconfig)?,
            &KubeConfigOptions::default(),
        )
        .await?;
        let subject = Self {
            client: Client::try_from(config.clone())?,
            config,
            node: options.node.clone(),
            image: options.image.clone(),
            group,
            agent,
            cluster,
        };
        let nodes: Api<Node> = Api::all(subject.client.clone());
        nodes.get(&subject.node).await?;
        if subject.agents().len() < subject.agent.len() {
            return Err(format!("no programs {:?} in {}", subject.agent, subject.group).into());
        }
        Ok(subject)
    }

    /// Ends what was brought up.
    pub fn end(self) -> Result<(), Failure> {
        self.cluster
            .map_or(Ok(()), |(cluster, _dir)| cluster.down())
    }

    /// The processes of the agent's programs.
    pub fn agents(&self) -> Vec<i32> {
        let each = self.agent.iter();
        each.flat_map(|words| machine::processes_in(&self.group, &[words.as_str()]))
            .collect()
    }

    /// The process that runs pods.
    pub fn agent(&self) -> Result<i32, Failure> {
        let found = self.agents().first().copied();
        found.ok_or_else(|| format!("{:?} does not run", self.agent).into())
    }

    /// The process of the API server, if it is on the node, too.
    pub fn server(&self) -> Option<i32> {
        let found = machine::processes_in(&self.group, &["orlop server"]);
        found.first().copied()
    }

    /// How many pods' processes of the container runtime there are.
    pub fn shims(&self) -> usize {
        machine::processes_in(&self.group, &["containerd-shim"]).len()
    }

    /// The process of the container runtime.
    pub fn runtime(&self) -> Vec<i32> {
        machine::processes_in(&self.group, &["containerd --config"])
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// A watch of the pods made here.
    pub fn watching(&self) -> Watching {
        Watching::start(self.pods(), LABEL)
    }

    /// What the API answers to a GET.
    pub async fn get(&self, path: &str) -> Result<String, Failure> {
        let request = http::Request::get(path).body(Vec::new())?;
        Ok(self.client.request_text(request).await?)
    }

    /// How many pods others have on the node.
    pub async fn others(&self) -> Result<usize, Failure> {
        let all: Api<Pod> = Api::all(self.client.clone());
        let here = ListParams::default().fields(&format!("spec.nodeName={}", self.node));
        Ok(all.list(&here).await?.items.len())
    }

    /// Makes pods, some at a time, bound to the node.
    pub async fn make(&self, names: &[String], further: &Value) -> Result<(), Failure> {
        use futures::{StreamExt as _, TryStreamExt as _};
        let pods = self.pods();
        let made = futures::stream::iter(names).map(|name| {
            let (pods, pod) = (pods.clone(), self.pod(name, further));
            async move {
                pods.create(&PostParams::default(), &pod?)
                    .await
                    .map_err(Failure::from)
            }
        });
        made.buffer_unordered(16)
            .try_for_each(|_| async { Ok(()) })
            .await
    }

    fn pod(&self, name: &str, further: &Value) -> Result<Pod, Failure> {
        let mut container = json!({"name": "main", "image": self.image});
        if let (Some(container), Some(further)) = (container.as_object_mut(), further.as_object()) {
            container.extend(further.clone());
        }
        Ok(serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"orlop-bench": "pods"}},
            "spec": {
                "nodeName": self.node,
                "terminationGracePeriodSeconds": 1,
                "containers": [container],
            },
        }))?)
    }

    /// The log of a pod's container, as this process sees it.
    pub fn log(&self, name: &str, uid: &str) -> Result<PathBuf, Failure> {
        Ok(PathBuf::from(format!(
            "/proc/{}/root/var/log/pods/default_{name}_{uid}/main/0.log",
            self.agent()?
        )))
    }

    /// Removes all pods made here, and waits until the node has nothing of them.
    pub async fn clear(&self) -> Result<(), Failure> {
        self.remove().await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        Ok(())
    }

    /// Removes all pods made here; how long it took until the API had none of them.
    pub async fn remove(&self) -> Result<Duration, Failure> {
        let (pods, ours) = (self.pods(), ListParams::default().labels(LABEL));
        let started = Instant::now();
        pods.delete_collection(&DeleteParams::default(), &ours)
            .await?;
        while !pods.list(&ours).await?.items.is_empty() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(started.elapsed())
    }
}

/// Gives the node of a cluster leave and addresses for more pods than usual.
fn room(cluster: &Cluster, pods: usize) -> Result<(), Failure> {
    let file = cluster.dir.join("nodes/node-1/kubelet.yaml");
    let settings = std::fs::read_to_string(&file)?;
    std::fs::write(&file, format!("{settings}maxPods: {pods}\n"))?;
    cluster.kubectl(r#"annotate node node-1 orlop.dev/ip-pools={"default":["10.245.0.0/20"]}"#)?;
    machine::kill_program(&cluster.dir, "node-1", &["orlop", "node-agent"]);
    tests::eventually("the node with more pods", 30, || {
        let node = cluster.get("node node-1")?;
        let told = node["status"]["allocatable"]["pods"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        tests::ensure(told == pods.to_string(), told)
    })
}
