//! What controllers do while their servers fail: a StatefulSet never has two pods of one ordinal,
//! and a Job runs each of its pods once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{JoinHandle, sleep},
    time::{Duration, Instant},
};

use ::tests::{
    Cluster, Failure, ensure, eventually,
    watches::{Told, follow},
};
use control_client::Client;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};

const NAMESPACE: &str = "loops";
/// How often running containers are looked at.
const LOOK: Duration = Duration::from_millis(150);
/// How long the pods of a Job may take to be done once all servers are well.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long a write is tried again.
const RETRIES: Duration = Duration::from_secs(30);
/// The label of a Job's pods with the Job's name.
const JOB: &str = "batch.kubernetes.io/job-name";
/// The label of an indexed Job's pods with the index.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Pods of a Job.
const COMPLETIONS: usize = 2;

const ORDINALS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: loops}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: ordinals, namespace: loops}
spec:
  replicas: 2
  serviceName: ordinals
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: ordinals}}
  template:
    metadata: {labels: {app: ordinals}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: registry.orlop.dev/demo:1
";

const ONCE: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, namespace: loops}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers:
      - {name: main, image: 'registry.orlop.dev/demo:1', args: [env]}
";

/// A pod, as watches showed it.
#[derive(Clone, Debug, Default)]
struct Seen {
    name: String,
    job: Option<(String, String)>,
    has_succeeded: bool,
}

#[derive(Default)]
struct Observed {
    /// By identifier.
    pods: BTreeMap<String, Seen>,
    /// Pods that had running containers at the same moment.
    together: BTreeSet<(String, String)>,
}

/// Workloads of controllers, watched until this is dropped.
pub struct Loops<'a> {
    cluster: &'a Cluster,
    observed: Arc<Mutex<Observed>>,
    ended: Arc<AtomicBool>,
    looks: Option<JoinHandle<()>>,
    _runtime: tokio::runtime::Runtime,
    /// Jobs that are not done, with when they were made.
    jobs: Vec<(String, Instant)>,
    made: usize,
}

fn lock(observed: &Mutex<Observed>) -> MutexGuard<'_, Observed> {
    observed.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Loops ===

impl<'a> Loops<'a> {
    /// Makes the StatefulSet, and begins to watch.
    ///
    /// # Errors
    /// What kubectl printed, or a cluster that does not answer.
    pub fn start(cluster: &'a Cluster) -> Result<Self, Failure> {
        cluster.kubectl_with("apply -f -", ORDINALS)?;
        let rollout = "rollout status statefulset/ordinals --namespace loops --timeout=180s";
        cluster.kubectl(rollout)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let observed = Arc::<Mutex<Observed>>::default();
        let path = cluster.kubeconfig();
        let client = runtime.block_on(Client::from_kubeconfig(&path))?;
        let api = Api::<Pod>::namespaced(client.kube().clone(), NAMESPACE);
        let list = runtime.block_on(api.list(&ListParams::default()))?;
        for pod in list.items {
            lock(&observed).see(pod);
        }
        let revision = list.metadata.resource_version.unwrap_or_default().parse()?;
        let told = Arc::clone(&observed);
        runtime.spawn(follow(api, revision, move |event| match event {
            Told::Changed(pod) | Told::Deleted(pod) => lock(&told).see(pod),
            Told::Expired(_, pods) => {
                for pod in pods {
                    lock(&told).see(pod);
                }
            }
            Told::Bookmark(_) => {}
        }));
        let ended = Arc::new(AtomicBool::new(false));
        let looks = {
            let (observed, ended) = (Arc::clone(&observed), Arc::clone(&ended));
            std::thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let running = running_pods();
                    lock(&observed).look(&running);
                    sleep(LOOK);
                }
            })
        };
        Ok(Self {
            cluster,
            observed,
            ended,
            looks: Some(looks),
            _runtime: runtime,
            jobs: Vec::new(),
            made: 0,
        })
    }

    /// Gives the controllers something to do: a pod of the StatefulSet goes, and a Job comes.
    ///
    /// # Errors
    /// What kubectl printed.
    pub fn begin(&mut self) -> Result<(), Failure> {
        self.made += 1;
        let job = format!("once-{}", self.made);
        let manifest = ONCE.replace("NAME", &job);
        // A connection may break with a server that has just lost its leader; the fate of the write
        // is unknown then, and applying it once more does no harm.
        eventually("a Job to be made", RETRIES.as_secs(), || {
            self.cluster.kubectl_with("apply -f -", &manifest).map(drop)
        })?;
        self.jobs.push((job, Instant::now()));
        let ordinal = self.made % 2;
        let pod = format!("delete pod ordinals-{ordinal} --namespace loops --wait=false");
        let pod = format!("{pod} --ignore-not-found");
        eventually("a pod to be deleted", RETRIES.as_secs(), || {
            self.cluster.kubectl(&pod).map(drop)
        })
    }

    /// Checks all that was seen until now, and that Jobs of earlier cycles are done.
    ///
    /// # Errors
    /// An ordinal with two pods, or a Job that ran twice or not at all.
    pub fn check(&mut self) -> Result<(), Failure> {
        let observed = lock(&self.observed);
        observed.check_ordinals()?;
        observed.check_jobs()?;
        let late =
            |(job, made): &&(String, Instant)| made.elapsed() > PATIENCE && !observed.is_done(job);
        let late: Vec<&str> = self
            .jobs
            .iter()
            .filter(late)
            .map(|(job, _)| &**job)
            .collect();
        ensure(
            late.is_empty(),
            format!("not done after {PATIENCE:?}: {late:?}"),
        )?;
        let done: Vec<String> = self
            .jobs
            .extract_if(.., |(job, _)| observed.is_done(job))
            .map(|(job, _)| job)
            .collect();
        drop(observed);
        for job in done {
            let delete = format!("delete job {job} --namespace loops --wait=false");
            let delete = format!("{delete} --ignore-not-found");
            eventually("a Job to be deleted", RETRIES.as_secs(), || {
                self.cluster.kubectl(&delete).map(drop)
            })?;
        }
        Ok(())
    }

    /// Waits until all Jobs are done and both ordinals have a pod, and checks a last time.
    ///
    /// # Errors
    /// As [`Loops::check`].
    pub fn end(mut self) -> Result<(), Failure> {
        let cluster = self.cluster;
        let rollout = "rollout status statefulset/ordinals --namespace loops --timeout=180s";
        cluster.kubectl(rollout)?;
        eventually("all Jobs to be done", PATIENCE.as_secs(), || {
            self.check()?;
            ensure(self.jobs.is_empty(), format!("{:?}", self.jobs))
        })?;
        cluster
            .kubectl("delete namespace loops --wait=false")
            .map(drop)
    }
}

impl Drop for Loops<'_> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(looks) = self.looks.take() {
            let _ = looks.join();
        }
    }
}

/// The identifiers of pods that have a running container of the workloads, on any host.
fn running_pods() -> BTreeSet<String> {
    let mut running = BTreeSet::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let path = entry.path();
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        if line.starts_with(b"/program\0") {
            let group = fs::read_to_string(path.join("cgroup")).unwrap_or_default();
            running.extend(pod_of_group(&group));
        }
    }
    running
}

/// The identifier of the pod in the name of a control group.
fn pod_of_group(group: &str) -> Option<String> {
    let (_, rest) = group.split_once("/pod")?;
    let id: String = rest.chars().take(36).collect();
    (id.len() == 36).then(|| id.replace('_', "-"))
}

// === impl Observed ===

impl Observed {
    fn see(&mut self, pod: Pod) {
        let labels = pod.metadata.labels.unwrap_or_default();
        let job = labels.get(JOB).map(|job| {
            let index = labels.get(INDEX).cloned().unwrap_or_default();
            (job.clone(), index)
        });
        let phase = pod.status.and_then(|status| status.phase);
        let seen = self
            .pods
            .entry(pod.metadata.uid.unwrap_or_default())
            .or_default();
        seen.name = pod.metadata.name.unwrap_or_default();
        seen.job = job;
        seen.has_succeeded |= phase.as_deref() == Some("Succeeded");
    }

    fn look(&mut self, running: &BTreeSet<String>) {
        for one in running {
            let others = running.range(one.clone()..).skip(1);
            let pairs = others.map(|other| (one.clone(), other.clone()));
            self.together.extend(pairs);
        }
    }

    fn check_ordinals(&self) -> Result<(), Failure> {
        let name = |id: &String| self.pods.get(id).map(|seen| &*seen.name);
        let twice = self
            .together
            .iter()
            .find(|(one, other)| name(one).is_some() && name(one) == name(other));
        ensure(
            twice.is_none(),
            format!("two pods of one name ran at the same time: {twice:?}"),
        )
    }

    fn check_jobs(&self) -> Result<(), Failure> {
        let mut pods: BTreeMap<&(String, String), Vec<&str>> = BTreeMap::new();
        for seen in self.pods.values() {
            if let Some(job) = &seen.job {
                pods.entry(job).or_default().push(&seen.name);
            }
        }
        let twice = pods.into_iter().find(|(_, pods)| pods.len() > 1);
        ensure(twice.is_none(), format!("a Job ran twice: {twice:?}"))
    }

    fn is_done(&self, job: &str) -> bool {
        let pods = self.pods.values();
        let done = pods.filter(|seen| {
            let of_job = seen.job.as_ref().is_some_and(|(name, _)| name == job);
            of_job && seen.has_succeeded
        });
        done.count() >= COMPLETIONS
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, id: &str, labels: &[(&str, &str)], phase: &str) -> Pod {
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        let metadata = json!({"name": name, "uid": id, "labels": labels});
        let pod = json!({"metadata": metadata, "status": {"phase": phase}});
        serde_json::from_value(pod).expect("a pod")
    }

    fn ids(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_ordinal_that_runs_twice_at_a_time_is_found() {
        let mut observed = Observed::default();
        for (name, id) in [
            ("ordinals-0", "a"),
            ("ordinals-1", "b"),
            ("ordinals-0", "c"),
        ] {
            observed.see(pod(name, id, &[], "Running"));
        }
        observed.look(&ids(&["a", "b"]));
        observed.look(&ids(&["b", "c", "unknown"]));
        assert!(observed.check_ordinals().is_ok(), "one after the other");
        observed.look(&ids(&["a", "b", "c"]));
        let found = observed.check_ordinals().expect_err("found").to_string();
        assert!(found.contains("\"a\", \"c\""), "{found}");
    }

    #[test]
    fn a_job_that_runs_an_index_twice_is_found() {
        let mut observed = Observed::default();
        let of = |index| [(JOB, "once-1"), (INDEX, index)];
        observed.see(pod("once-1-0-x", "a", &of("0"), "Running"));
        observed.see(pod("once-1-1-y", "b", &of("1"), "Succeeded"));
        assert!(observed.check_jobs().is_ok() && !observed.is_done("once-1"));
        observed.see(pod("once-1-0-x", "a", &of("0"), "Succeeded"));
        observed.see(pod("once-1-0-x", "a", &of("0"), ""));
        assert!(observed.is_done("once-1") && !observed.is_done("once-2"));
        observed.see(pod("once-1-0-z", "c", &of("0"), "Pending"));
        assert!(observed.check_jobs().is_err());
    }

    #[test]
    fn pods_are_found_by_their_control_groups() {
        let id = "0f3c2c1e-57b1-4c11-9a5e-1c2d3e4f5a6b";
        let line = format!("0::/orlop-1/node-1/kubepods/besteffort/pod{id}/abc\n");
        assert_eq!(pod_of_group(&line).as_deref(), Some(id));
        assert_eq!(pod_of_group("0::/orlop-1/node-1/system\n"), None);
    }
}
