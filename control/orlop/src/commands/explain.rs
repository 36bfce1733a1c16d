//! `orlop explain`: why the scheduler puts a pod where it does, node by node.

use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use control_client::resources;
use control_scheduler::gangs::Attempt;
use control_scheduler::objects::{ObjectSet, view};
use control_scheduler::view::Pod;
use control_scheduler::{Cluster, Explanation, Features, Placer, PodOutcome, Profile};
use serde::Serialize;
use serde_json::Value;

use crate::{cluster_objects, error::Error, kubeconfig::Kubeconfig, table};

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop explain pod web-0                     why a pod of the namespace `default` is pending
  orlop explain pod web-0 -n shop -o json     the same as JSON, all scores included

Ends with code 1 when there is no such pod or the cluster does not answer; a pod that fits
nowhere is an answer like any other.";

/// What to explain.
#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Explain why a pod is on its node, or is on none: what rejects it on each node, and
    /// how each plugin scores the others. For a bound pod, show what would be decided now
    /// if it were pending.
    #[command(after_help = EXAMPLES)]
    Pod(PodOptions),
}

#[derive(Args)]
struct PodOptions {
    /// The pod's name.
    name: String,
    /// Its namespace.
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// Tables.
    Text,
    /// One object.
    Json,
}

/// A pod, where it is, and where it would go.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplainReport {
    namespace: String,
    name: String,
    /// The node that it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// Whether scheduling gates keep it from being placed.
    gated: bool,
    /// The pods with which it is scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_group: Option<PodGroupReport>,
    /// The effect of preemption.
    #[serde(skip_serializing_if = "Option::is_none")]
    preemption: Option<Evictions>,
    #[serde(flatten)]
    explanation: Explanation,
}

/// The PodGroup of a pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodGroupReport {
    name: String,
    /// Whether the API server knows it.
    exists: bool,
    /// How many pods have to fit at the same time; nothing: as many as fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    min_count: Option<usize>,
    /// How many pods there are, the explained one included.
    pods: usize,
    /// The number of them that are on nodes.
    scheduled: usize,
    /// How many of the others fit now, all together.
    fitting: usize,
    /// The message of the condition `PodGroupScheduled`, if it is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// Pods that are evicted so that another fits.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Evictions {
    node: String,
    pods: Vec<String>,
    /// How many of the pods a disruption budget protects.
    violated_budgets: usize,
}

/// Prints it.
///
/// # Errors
/// A cluster that does not answer, or no such pod.
pub async fn run(options: Options) -> Result<(), Error> {
    let Command::Pod(options) = options.command;
    let client = options.kubeconfig.client("orlop-explain").await?;
    let objects = cluster_objects::live(&client).await?;
    let report = report(objects, &options.namespace, &options.name)?;
    match options.output {
        Output::Text => print!("{}", report.text()),
        Output::Json => println!("{}", serde_json::json!(report)),
    }
    Ok(())
}

/// Explains a pod as if it were pending.
fn report(mut objects: ObjectSet, namespace: &str, name: &str) -> Result<ExplainReport, Error> {
    let Some(mut pod) = objects.remove(&resources::PODS, namespace, name) else {
        return Err(Error::Option(format!(
            "there is no pod `{name}` in the namespace `{namespace}`: `kubectl get pods -A` \
             lists all"
        )));
    };
    let node = pod["spec"]["nodeName"].as_str().map(str::to_owned);
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("nodeName");
    }
    if let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) {
        // A terminated pod is explained as if it were to start.
        status.remove("phase");
    }
    let pod: Arc<Pod> = Arc::new(view(&pod).map_err(Error::Objects)?);
    let mut cluster = objects.cluster().map_err(Error::Objects)?;
    let mut explanation = Placer::default().explain(&mut cluster, &pod);
    let preemption = match Placer::default().outcome(&mut cluster, &pod, 0) {
        PodOutcome::Placed { .. } => None,
        PodOutcome::Nowhere {
            message,
            preemption,
        } => {
            // With what preemption adds to it.
            explanation.message = Some(message);
            preemption
        }
        PodOutcome::Failed { message } => {
            explanation.message = Some(message);
            None
        }
    };
    let preemption = preemption.map(|it| Evictions {
        node: it.node,
        violated_budgets: it.violations,
        pods: it
            .victims
            .iter()
            .map(|it| format!("{}/{}", it.metadata.namespace, it.metadata.name))
            .collect(),
    });
    let pod_group = pod_group(&mut cluster, &pod);
    Ok(ExplainReport {
        pod_group,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        node: node.filter(|node| !node.is_empty()),
        gated: pod.gated,
        preemption,
        explanation,
    })
}

/// The pod's PodGroup, and what becomes of its pods together.
fn pod_group(cluster: &mut Cluster, pod: &Arc<Pod>) -> Option<PodGroupReport> {
    let gang = pod.gang()?;
    // If the PodGroup does not exist yet, the pod waits for it regardless.
    cluster.gangs.enable();
    cluster.gangs.observe(pod);
    let group = cluster.gangs.group(&gang).cloned();
    let counts = cluster.gangs.counts(&gang);
    let features = Features {
        generic_workload: true,
        gang_scheduling: true,
    };
    let waiting = cluster.gangs.unscheduled(&gang);
    let waiting: Vec<_> = waiting.into_iter().filter(|it| !it.gated).collect();
    let mut placer = Placer::new(Arc::new(Profile::with_features(features)));
    let decision = placer.place_gang(cluster, &waiting, 0);
    let fitting = decision.members.iter();
    let fitting = fitting.filter(|it| matches!(it.attempt, Some(Attempt::Placed { .. })));
    let scheduled = group.as_ref().and_then(|it| it.scheduled.clone());
    let message = scheduled.filter(|it| it.status == "False");
    Some(PodGroupReport {
        name: gang.1.to_string(),
        exists: group.is_some(),
        min_count: group.and_then(|it| it.min_count),
        pods: counts.all,
        scheduled: counts.scheduled,
        fitting: fitting.count(),
        message: message.map(|it| it.message),
    })
}

impl PodGroupReport {
    fn text(&self) -> String {
        let Self {
            name,
            pods,
            scheduled,
            fitting,
            ..
        } = self;
        if !self.exists {
            return format!(
                "It waits for its PodGroup {name}, which does not exist, where the feature \
                 gate GangScheduling is on.\n"
            );
        }
        let mut text = match self.min_count {
            Some(needed) => format!(
                "It belongs to the gang {name}: {needed} pods have to fit, {pods} exist, \
                 {scheduled} are on nodes, {fitting} fit now together.\n"
            ),
            None => format!(
                "It belongs to the PodGroup {name}: {pods} pods exist, {scheduled} are on \
                 nodes, {fitting} fit now together.\n"
            ),
        };
        if let Some(needed) = self.min_count.filter(|needed| pods < needed) {
            text.push_str(&format!(
                "None is tried before {needed} pods of the gang exist.\n"
            ));
        }
        if let Some(message) = &self.message {
            text.push_str(&format!("PodGroupScheduled is false: {message}\n"));
        }
        text
    }
}

impl ExplainReport {
    fn text(&self) -> String {
        let mut text = format!("{}\n", self.headline());
        if let Some(group) = &self.pod_group {
            text.push_str(&group.text());
        }
        if let Some(message) = &self.explanation.message {
            text.push_str(message);
            text.push('\n');
        }
        if let Some(evictions) = &self.preemption {
            let pods = evictions.pods.join(", ");
            text.push_str(&format!(
                "Preemption evicts from {}: {pods}",
                evictions.node
            ));
            if evictions.violated_budgets > 0 {
                let count = evictions.violated_budgets;
                text.push_str(&format!(" ({count} of them against a disruption budget)"));
            }
            text.push('\n');
        }
        if let Some(unmet) = &self.explanation.unmet {
            text.push_str(&format!("{}: {}\n", unmet.plugin, unmet.reasons.join(", ")));
            return text;
        }
        text.push('\n');
        let mut nodes: Vec<_> = self.explanation.nodes.iter().collect();
        nodes.sort_by_key(|node| (node.rejected.is_some(), -node.score, &node.name));
        let rows: Vec<[String; 3]> = nodes
            .iter()
            .map(|node| match &node.rejected {
                Some(rejecter) => {
                    let help = if rejecter.resolvable {
                        ""
                    } else {
                        "; evicting pods would not help"
                    };
                    let reasons = rejecter.reasons.join(", ");
                    let why = format!("{}: {reasons}{help}", rejecter.plugin);
                    [node.name.clone(), "-".to_owned(), why]
                }
                None => {
                    let best = self.explanation.best.contains(&node.name);
                    let verdict = if best { "best" } else { "fits" };
                    [
                        node.name.clone(),
                        node.score.to_string(),
                        verdict.to_owned(),
                    ]
                }
            })
            .collect();
        text.push_str(&table::table(["NODE", "SCORE", "VERDICT"], &rows));
        let rows: Vec<[String; 5]> = nodes
            .iter()
            .flat_map(|node| {
                node.scores.iter().map(|score| {
                    [
                        node.name.clone(),
                        score.plugin.clone(),
                        score.raw.to_string(),
                        score.normalized.to_string(),
                        score.weighted.to_string(),
                    ]
                })
            })
            .collect();
        if !rows.is_empty() {
            text.push('\n');
            let head = ["NODE", "PLUGIN", "RAW", "NORMALIZED", "WEIGHTED"];
            text.push_str(&table::table(head, &rows));
        }
        text
    }

    fn headline(&self) -> String {
        let pod = format!("Pod {}/{}", self.namespace, self.name);
        let would = match self.explanation.best.as_slice() {
            [] => "fits nowhere".to_owned(),
            [one] => format!("goes to {one}"),
            some => format!("goes to one of {}", some.join(", ")),
        };
        match (&self.node, self.gated) {
            (Some(node), _) => {
                format!("{pod} is bound to {node}. Placed now, without itself there, it {would}.")
            }
            (None, true) => format!("{pod} has scheduling gates. Without them it {would}."),
            (None, false) => format!("{pod} {would}."),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn objects(pod: Value) -> ObjectSet {
        let node = |name: &str, cpu: &str| {
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                "status": {"allocatable": {"cpu": cpu, "memory": "1Gi", "pods": "10"}}})
        };
        let mut objects = ObjectSet::default();
        for object in [node("big", "4"), node("small", "1"), pod] {
            objects.put(object).unwrap();
        }
        objects
    }

    fn pod(spec: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "n", "name": "p"},
            "spec": spec})
    }

    fn requests(cpu: &str) -> Value {
        json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}])
    }

    #[test]
    fn a_pending_pod_is_explained_node_by_node() {
        let pod = pod(json!({"containers": requests("2")}));
        let report = report(objects(pod), "n", "p").unwrap();
        let text = report.text();
        assert!(text.starts_with("Pod n/p goes to big.\n"), "{text}");
        let small = text.lines().find(|it| it.starts_with("small")).unwrap();
        assert!(
            small.contains("NodeResourcesFit: Insufficient cpu"),
            "{text}"
        );
        assert!(text.contains("NodeResourcesFit "), "{text}");
    }

    #[test]
    fn a_bound_pod_is_explained_as_if_it_were_not() {
        let pod = pod(json!({"containers": requests("1"), "nodeName": "small"}));
        let report = report(objects(pod), "n", "p").unwrap();
        let text = report.text();
        assert!(
            text.starts_with("Pod n/p is bound to small. Placed now"),
            "{text}"
        );
        assert!(
            report
                .explanation
                .nodes
                .iter()
                .all(|it| it.rejected.is_none())
        );
    }

    #[test]
    fn a_pod_that_fits_nowhere_has_the_message_of_its_condition() {
        let pod = pod(json!({"containers": requests("9")}));
        let report = report(objects(pod), "n", "p").unwrap();
        let message = report.explanation.message.clone().unwrap();
        assert!(
            message.starts_with("0/2 nodes are available: 2 Insufficient cpu."),
            "{message}"
        );
        assert!(report.text().contains("fits nowhere"));
        let json = json!(report);
        assert_eq!(json["nodes"][0]["rejected"]["plugin"], "NodeResourcesFit");
    }

    #[test]
    fn preemption_is_told_with_its_victims() {
        let important = pod(json!({"containers": requests("4"), "priority": 9}));
        let mut objects = objects(important);
        for (name, cpu) in [("one", "1"), ("two", "3")] {
            let mut other = pod(json!({"containers": requests(cpu), "nodeName": "big"}));
            other["metadata"]["name"] = name.into();
            objects.put(other).unwrap();
        }
        let report = report(objects, "n", "p").unwrap();
        let text = report.text();
        assert!(text.contains("Preemption evicts from big: n/"), "{text}");
        assert_eq!(report.preemption.unwrap().pods.len(), 2);
    }

    #[test]
    fn the_gang_of_a_pod_is_named_with_what_it_lacks() {
        let group = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"namespace": "n", "name": "train"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
            "status": {"conditions": [{"type": "PodGroupScheduled", "status": "False",
                "reason": "Unschedulable", "message": "pod group is unschedulable"}]}});
        let member = |name: &str| {
            let mut member = pod(json!({"containers": requests("2"),
                "schedulingGroup": {"podGroupName": "train"}}));
            member["metadata"]["name"] = name.into();
            member
        };
        let mut two = objects(member("p"));
        two.put(member("q")).unwrap();
        let text = report(two.clone(), "n", "p").unwrap().text();
        assert!(text.contains("It waits for its PodGroup train"), "{text}");
        two.put(group).unwrap();
        let text = report(two.clone(), "n", "p").unwrap().text();
        let short = "It belongs to the gang train: 3 pods have to fit, 2 exist, 0 are on nodes, \
                     2 fit now together.\nNone is tried before 3 pods of the gang exist.\n\
                     PodGroupScheduled is false: pod group is unschedulable\n";
        assert!(text.contains(short), "{text}");
        // The third fits nowhere: `big` has room for two, `small` for none.
        two.put(member("r")).unwrap();
        let report = report(two, "n", "p").unwrap();
        let full = "3 pods have to fit, 3 exist, 0 are on nodes, 2 fit now together.\nPod";
        assert!(report.text().contains(full), "{}", report.text());
        assert_eq!(json!(report)["podGroup"]["minCount"], 3);
    }

    #[test]
    fn a_pod_that_is_not_there_is_an_error_with_a_way_out() {
        let error = report(ObjectSet::default(), "n", "p")
            .unwrap_err()
            .to_string();
        assert!(error.contains("kubectl get pods"), "{error}");
    }
}
