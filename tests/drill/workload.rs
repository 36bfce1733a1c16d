//! What runs while faults happen: a Deployment on two nodes behind a Service.

use std::{net::SocketAddr, thread, time::Duration};

use tests::{Cluster, Failure, ensure, eventually};

use crate::{
    Drill, SERVER, VICTIM,
    probe::Probe,
    timeline::{Timeline, now},
};

/// The workload's namespace.
pub const NAMESPACE: &str = "drill";
/// How long pods stay on a node that is gone, in seconds; users say 300 unless they say another.
pub const TOLERATED: f64 = 5.0;

const MANIFEST: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: drill}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: drill}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 2
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 5}
      containers:
      - name: web
        image: registry.orlop.dev/demo:1
        readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: drill}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
";

/// The workload with two pods a node, watched and asked all the while.
pub struct Workload {
    /// What the API says.
    pub timeline: Timeline,
    /// A client on the node with the server.
    pub inside: Probe,
    /// A client beside the nodes, through the node port of the node with the server.
    pub outside: Probe,
}

impl Workload {
    /// Puts two pods on each of the two nodes, and starts to watch and to ask.
    ///
    /// # Errors
    /// What kubectl printed, or when pods or watches do not come.
    pub fn start(drill: &Drill) -> Result<Self, Failure> {
        let cluster = &drill.cluster;
        remove(cluster)?;
        place(cluster, 2, VICTIM)?;
        place(cluster, 4, SERVER)?;
        let service = cluster.get("service web --namespace drill")?;
        let address = service["spec"]["clusterIP"].as_str().unwrap_or_default();
        let node_port = &service["spec"]["ports"][0]["nodePort"];
        let target: SocketAddr = format!("{address}:80").parse()?;
        let outside: SocketAddr = format!("10.88.0.11:{node_port}").parse()?;
        let timeline = Timeline::start(cluster);
        timeline.ready()?;
        let workload = Self {
            timeline,
            inside: Probe::inside(cluster, target)?,
            outside: Probe::outside(cluster, outside)?,
        };
        workload.settle()?;
        Ok(workload)
    }

    /// Waits for two seconds without a failed request on either side.
    fn settle(&self) -> Result<(), Failure> {
        let begun = now();
        eventually("requests that are answered", 30, || {
            let (from, to) = ((now() - 2.0).max(begun), now());
            for probe in [&self.inside, &self.outside] {
                let asked = probe.between(from, to);
                let mut errors = asked.iter().filter_map(|answer| answer.error.as_ref());
                if let Some(error) = errors.next_back() {
                    return Err(format!("{error} ({} requests)", asked.len()).into());
                }
                ensure(asked.len() >= 15, format!("{} requests", asked.len()))?;
            }
            Ok(())
        })
    }

    /// Failed requests of both clients in this time, in seconds since 1970.
    pub fn failed(&self, from: f64, to: f64) -> usize {
        self.inside.failures(from, to).1 + self.outside.failures(from, to).1
    }

    /// The share of failed requests of both clients, for people.
    pub fn share(&self, from: f64, to: f64) -> String {
        let (asked, failed) = self.inside.failures(from, to);
        let (more, failed_outside) = self.outside.failures(from, to);
        format!("{failed} of {asked} inside, {failed_outside} of {more} outside")
    }

    /// When the last failed request of either client began.
    pub fn last_failure(&self, from: f64, to: f64) -> Option<f64> {
        let both = [&self.inside, &self.outside].map(|probe| probe.last_failure(from, to));
        both.into_iter().flatten().max_by(f64::total_cmp)
    }

    /// Lets time pass, in seconds.
    pub fn pass(&self, seconds: f64) {
        thread::sleep(Duration::from_secs_f64(seconds));
    }
}

/// Scales the Deployment while one node takes no pods.
fn place(cluster: &Cluster, replicas: u8, closed: &str) -> Result<(), Failure> {
    cluster.kubectl(&format!("cordon {closed}"))?;
    let placed = (|| {
        cluster.kubectl_with("apply -f -", MANIFEST)?;
        let scale = format!("scale deployment/web --namespace drill --replicas={replicas}");
        cluster.kubectl(&scale)?;
        cluster.kubectl("rollout status deployment/web --namespace drill --timeout=90s")
    })();
    cluster.kubectl(&format!("uncordon {closed}"))?;
    placed.map(drop)
}

/// Removes the workload.
///
/// # Errors
/// What kubectl printed.
pub fn remove(cluster: &Cluster) -> Result<(), Failure> {
    let words = "delete namespace drill --ignore-not-found --timeout=90s";
    cluster.kubectl(words).map(drop)
}
