//! What runs while faults happen: a Deployment on two nodes behind a Service.

use std::{collections::BTreeMap, net::SocketAddr, thread, time::Duration};

use tests::{Cluster, Failure, ensure, eventually};

use crate::{
    Drill, SERVER, VICTIM,
    bounds::Bounds,
    host::Cordon,
    probe::Probe,
    timeline::{Timeline, now},
};

/// The workload's namespace.
pub const NAMESPACE: &str = "drill";
/// How long pods stay on a node that is gone, in seconds, so that drills are short.
pub const TOLERATED: u32 = 5;
/// How long pods stay there whose users do not say how long, in seconds.
pub const USUALLY_TOLERATED: u32 = 300;

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
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: TOLERATED}
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: TOLERATED}
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
        Self::start_tolerating(drill, TOLERATED)
    }

    /// The same, with pods that stay so many seconds on a node that is gone.
    ///
    /// # Errors
    /// As [`Workload::start`].
    pub fn start_tolerating(drill: &Drill, seconds: u32) -> Result<Self, Failure> {
        let cluster = &drill.cluster;
        let manifest = MANIFEST.replace("TOLERATED", &seconds.to_string());
        remove(cluster)?;
        place(cluster, &manifest, 2, VICTIM)?;
        place(cluster, &manifest, 4, SERVER)?;
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

    /// Holds that no request has failed since `from`; else says when they failed and how.
    pub fn judge(&self, bounds: &mut Bounds, what: &str, from: f64) {
        let to = now();
        bounds.at_most(what, self.failed(from, to), 0);
        let both = [&self.inside, &self.outside].map(|probe| probe.between(from, to));
        let mut kinds: BTreeMap<String, (usize, f64, f64)> = BTreeMap::new();
        for answer in both.into_iter().flatten() {
            let Some(error) = answer.error else { continue };
            let kind = kinds
                .entry(error)
                .or_insert((0, answer.began, answer.began));
            *kind = (
                kind.0 + 1,
                kind.1.min(answer.began),
                kind.2.max(answer.began),
            );
        }
        for (error, (times, first, last)) in kinds {
            let when = format!("{times} from {:.1} s to {:.1} s", first - from, last - from);
            bounds.note(&format!("  {error}"), when);
        }
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
fn place(
    cluster: &Cluster,
    manifest: &str,
    replicas: u8,
    closed: &'static str,
) -> Result<(), Failure> {
    let _cordon = Cordon::put(cluster, closed)?;
    cluster.kubectl_with("apply -f -", manifest)?;
    let scale = format!("scale deployment/web --namespace drill --replicas={replicas}");
    cluster.kubectl(&scale)?;
    let rollout = "rollout status deployment/web --namespace drill --timeout=90s";
    cluster.kubectl(rollout).map(drop)
}

/// Removes the workload.
///
/// # Errors
/// What kubectl printed.
pub fn remove(cluster: &Cluster) -> Result<(), Failure> {
    let words = "delete namespace drill --ignore-not-found --timeout=90s";
    cluster.kubectl(words).map(drop)
}
