//! `orlop simulate`: where pods would go, on a snapshot of a cluster, and what draining or
//! adding nodes would change.

mod change;
mod placing;
mod workloads;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use control_scheduler::objects::ObjectSet;
use serde::Serialize;

use self::change::{AddLike, SimulatedChange};
use self::placing::{Fate, place_all};
use crate::{cluster_objects, error::Error, kubeconfig::Kubeconfig, table};

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop simulate web.yaml                              where its pods would go in this cluster
  orlop simulate --drain node-1                        where the pods of node-1 would go
  orlop simulate --add-like node-1=3                   which pending pods three more such nodes take
  orlop simulate web.yaml --snapshot cluster.json      offline

A snapshot is a List as kubectl prints it:
  kubectl get nodes,pods,namespaces,services,replicasets,statefulsets,pvc,pv,storageclasses,pdb,priorityclasses -A -o json > cluster.json

Ends with code 0 when the simulation ran, with code 1 when something cannot be read, and with
--exit-code also when a pod fits nowhere.";

/// What to simulate.
#[derive(Args)]
pub struct Options {
    /// Files of YAML or JSON (`-` for standard input) with pods, or with workloads that
    /// stand for their pods: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job,
    /// CronJob, ReplicationController. Other objects in them, such as Services or claims,
    /// count as created.
    #[arg(value_name = "FILE", required_unless_present_any = ["drain", "add_node", "add_like"])]
    files: Vec<PathBuf>,
    /// File with the objects of a cluster. Without it, a cluster is read.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Node to drain: it is cordoned, and its pods are placed elsewhere, except those of
    /// DaemonSets and static ones. Repeatable.
    #[arg(long, value_name = "NODE")]
    drain: Vec<String>,
    /// File with Node objects that join the cluster. Repeatable.
    #[arg(long, value_name = "FILE")]
    add_node: Vec<PathBuf>,
    /// Node like which others join the cluster, with the pods that DaemonSets have on it.
    /// Repeatable.
    #[arg(long, value_name = "NODE[=COUNT]")]
    add_like: Vec<AddLike>,
    /// End with code 1 if a pod fits nowhere.
    #[arg(long)]
    exit_code: bool,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// A table.
    Text,
    /// One object.
    Json,
}

/// The outcome for all pods.
#[derive(Debug, Serialize)]
struct SimulationReport {
    pods: Vec<SimulationRow>,
}

/// The outcome for a pod, before and after the change.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SimulationRow {
    pod: String,
    /// As the cluster is.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Fate>,
    /// After the change; the same without one.
    after: Fate,
}

/// Prints the outcome.
///
/// # Errors
/// Unreadable files, a cluster that does not answer, unknown nodes; with `--exit-code`
/// pods that fit nowhere.
pub async fn run(options: Options) -> Result<(), Error> {
    let mut objects = match &options.snapshot {
        Some(path) => cluster_objects::snapshot(path)?,
        None => {
            let client = options.kubeconfig.client("orlop-simulate").await?;
            cluster_objects::live(&client).await?
        }
    };
    let mut documents = Vec::new();
    for path in &options.files {
        documents.extend(cluster_objects::documents(path)?);
    }
    let mut change = SimulatedChange {
        drain: options.drain,
        like: options.add_like,
        ..SimulatedChange::default()
    };
    for path in &options.add_node {
        change.nodes.extend(cluster_objects::documents(path)?);
    }
    let incoming = workloads::take_in(documents, &mut objects)?;
    let report = report(objects, &incoming, &change)?;
    match options.output {
        Output::Text => print!("{}", report.text(!change.is_empty())),
        Output::Json => println!("{}", serde_json::json!(report)),
    }
    let nowhere = report.nowhere();
    if options.exit_code && nowhere > 0 {
        return Err(Error::Simulation(format!(
            "{nowhere} of {} pods fit nowhere",
            report.pods.len()
        )));
    }
    Ok(())
}

/// Returns the outcome for incoming pods, pending ones, and those on drained nodes.
fn report(
    objects: ObjectSet,
    incoming: &[workloads::IncomingPods],
    change: &SimulatedChange,
) -> Result<SimulationReport, Error> {
    if change.is_empty() {
        let after = place_all(objects, incoming, &[])?.into_iter();
        let pods = after.map(|(pod, after)| SimulationRow {
            pod,
            before: None,
            after,
        });
        return Ok(SimulationReport {
            pods: pods.collect(),
        });
    }
    let before = place_all(objects.clone(), incoming, &[])?;
    let mut changed = objects;
    let drained = change.apply(&mut changed)?;
    let after = place_all(changed, incoming, &drained)?;
    let pods = after.into_iter().map(|(pod, after)| {
        let was_on = drained.iter().find(|it| it.pod == pod);
        let same = before.iter().find(|(other, _)| *other == pod);
        let before = match (was_on, same) {
            (Some(drained), _) => Some(Fate::On {
                node: drained.node.clone(),
            }),
            (None, same) => same.map(|(_, fate)| fate.clone()),
        };
        SimulationRow { pod, before, after }
    });
    Ok(SimulationReport {
        pods: pods.collect(),
    })
}

impl SimulationReport {
    fn nowhere(&self) -> usize {
        let fits_nowhere = |it: &&SimulationRow| matches!(it.after, Fate::Nowhere { .. });
        self.pods.iter().filter(fits_nowhere).count()
    }

    fn text(&self, with_change: bool) -> String {
        if self.pods.is_empty() {
            return "no pod is to be placed\n".to_owned();
        }
        let mut text = if with_change {
            let rows: Vec<[String; 4]> = self
                .pods
                .iter()
                .map(|row| {
                    let before = row.before.as_ref().map_or("-", Fate::node);
                    [
                        row.pod.clone(),
                        before.to_owned(),
                        row.after.node().to_owned(),
                        row.after.why().to_owned(),
                    ]
                })
                .collect();
            table::table(["POD", "BEFORE", "AFTER", "WHY NOT"], &rows)
        } else {
            let rows: Vec<[String; 3]> = self
                .pods
                .iter()
                .map(|row| {
                    let (node, why) = (row.after.node(), row.after.why());
                    [row.pod.clone(), node.to_owned(), why.to_owned()]
                })
                .collect();
            table::table(["POD", "NODE", "WHY NOT"], &rows)
        };
        let nowhere = self.nowhere();
        let placed = self.pods.iter().filter(|it| it.after.is_placed()).count();
        text.push_str(&format!("{placed} pods placed, {nowhere} fit nowhere\n"));
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub(super) fn node(name: &str, cpu: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": cpu, "memory": "4Gi", "pods": "10"}}})
    }

    pub(super) fn pod(name: &str, cpu: &str, on: Option<&str>, owner: Option<&str>) -> Value {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "n", "name": name},
            "spec": {"containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}});
        if let Some(node) = on {
            pod["spec"]["nodeName"] = node.into();
        }
        if let Some(kind) = owner {
            pod["metadata"]["ownerReferences"] = json!([
                {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": true}]);
        }
        pod
    }

    fn objects(all: Vec<Value>) -> ObjectSet {
        let mut objects = ObjectSet::default();
        for object in all {
            objects.put(object).unwrap();
        }
        objects
    }

    fn lines(report: &SimulationReport, with_change: bool) -> Vec<String> {
        let text = report.text(with_change);
        text.lines()
            .map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn pods_of_workloads_fill_the_cluster_one_after_the_other() {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": "n", "name": "web"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "i",
                        "resources": {"requests": {"cpu": "1"}}}]}}}});
        let mut objects = objects(vec![node("a", "1"), node("b", "1")]);
        let incoming = workloads::take_in(vec![deployment], &mut objects).unwrap();
        let report = report(objects, &incoming, &SimulatedChange::default()).unwrap();
        let lines = lines(&report, false);
        assert_eq!(lines[0], "POD NODE WHY NOT");
        assert!(lines[3].starts_with("n/web#2 - 0/2 nodes are available: 2 Insufficient cpu."));
        assert_eq!(lines[4], "2 pods placed, 1 fit nowhere");
    }

    #[test]
    fn pods_of_a_drained_node_are_placed_elsewhere_but_for_those_of_daemon_sets() {
        let objects = objects(vec![
            node("a", "2"),
            node("b", "1"),
            pod("web", "1", Some("a"), Some("ReplicaSet")),
            pod("db", "1", Some("a"), Some("StatefulSet")),
            pod("agent", "0", Some("a"), Some("DaemonSet")),
            pod("alone", "0", Some("a"), None),
        ]);
        let change = SimulatedChange {
            drain: vec!["a".to_owned()],
            ..SimulatedChange::default()
        };
        let report = report(objects, &[], &change).unwrap();
        let lines = lines(&report, true);
        assert_eq!(lines[0], "POD BEFORE AFTER WHY NOT");
        let placed = |pod: &str| lines.iter().find(|it| it.starts_with(pod)).unwrap();
        assert!(
            placed("n/alone").starts_with("n/alone a - no controller"),
            "{lines:?}"
        );
        assert_eq!(placed("n/db"), "n/db a b");
        assert!(
            placed("n/web").contains("1 node(s) were unschedulable"),
            "{lines:?}"
        );
        assert!(!lines.iter().any(|it| it.contains("agent")));
    }

    #[test]
    fn more_nodes_take_pending_pods() {
        let objects = objects(vec![
            node("a", "1"),
            pod("big", "1", Some("a"), None),
            pod("waits", "1", None, None),
        ]);
        let change = SimulatedChange {
            like: vec!["a=2".parse().unwrap()],
            ..SimulatedChange::default()
        };
        let report = report(objects, &[], &change).unwrap();
        let lines = lines(&report, true);
        assert!(lines[1].starts_with("n/waits - a-like-"), "{lines:?}");
    }
}
