//! `orlop policy`: what policies decide, asked of files or of a cluster. The
//! questions are answered by the compiler that fills the nodes' maps.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use control_client::{Client, Resource, Selection, resources};
use node_agent_policy::check::{self, Change, CheckedFlow, ExpectedVerdict};
use serde_json::Value;

use super::policy_import::{self, Import};
use crate::{error::Error, kubeconfig::Kubeconfig};

/// Subcommand and options.
#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

/// Subcommand.
#[derive(Subcommand)]
enum Command {
    /// Test expectations: which flows are allowed, which are denied, and by which rule.
    ///
    /// FILE contains documents of kind PolicyTest, and may contain manifests. Objects are
    /// read from FILE, from --objects, and with --live or --kubeconfig from a cluster; a
    /// manifest replaces the cluster's object of the same name. With --apply, print the
    /// flows that a change would decide differently. Ends with code 1 if a flow is not as
    /// expected, with --apply: would not be.
    Test(PolicyTest),
    /// Print the definition of ClusterNetworkPolicy, for clusters that lack it.
    Crd,
    /// Convert Calico's or Cilium's policies to NetworkPolicies and
    /// ClusterNetworkPolicies that decide the same. What cannot be converted is named,
    /// with the reason, and no output allows more than the original.
    #[command(after_help = policy_import::EXAMPLES)]
    Import(Import),
}

/// Sources of expectations and objects.
#[derive(Args)]
struct PolicyTest {
    /// The expectations.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File or folder of manifests (*.yaml, *.yml, *.json); workloads stand for their
    /// pods.
    #[arg(long, visible_alias = "manifests", value_name = "DIR|FILE")]
    objects: Vec<PathBuf>,
    /// Change to evaluate: a file or folder of manifests to add, or to replace those of
    /// the same name. Prints the flows that it decides differently.
    #[arg(long, value_name = "DIR|FILE")]
    apply: Vec<PathBuf>,
    /// Use the objects of the cluster that --kubeconfig or KUBECONFIG names. --kubeconfig
    /// alone implies it.
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    /// Print only flows that are not as expected.
    #[arg(long)]
    quiet: bool,
}

pub(super) const NETWORK_POLICIES: Resource = Resource::namespaced(
    "networking.k8s.io",
    "v1",
    "networkpolicies",
    "NetworkPolicy",
);
const REPLICA_SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
const JOBS: Resource = Resource::namespaced("batch", "v1", "jobs", "Job");
pub(super) const CLUSTER_NETWORK_POLICIES: Resource = Resource::cluster(
    "policy.networking.k8s.io",
    "v1alpha2",
    "clusternetworkpolicies",
    "ClusterNetworkPolicy",
);

/// Runs the command.
///
/// # Errors
/// Unreadable files, a cluster that does not answer, invalid or failed expectations.
pub async fn run(options: Options) -> Result<(), Error> {
    match options.command {
        Command::Crd => {
            print!(
                "{}",
                node_agent_policy::custom_resource::CLUSTER_NETWORK_POLICY
            );
            Ok(())
        }
        Command::Test(test) => test.run().await,
        Command::Import(import) => import.run().await,
    }
}

impl PolicyTest {
    async fn run(&self) -> Result<(), Error> {
        let mut documents = Vec::new();
        if self.live || self.kubeconfig.is_given() {
            let client = self.kubeconfig.client("orlop-policy").await?;
            live(&client, &mut documents).await?;
            controllers(&client, &mut documents).await?;
        }
        // Later documents replace earlier ones.
        for path in &self.objects {
            manifests(path, true, &mut documents)?;
        }
        manifests(&self.file, true, &mut documents)?;
        if !self.apply.is_empty() {
            return self.change(documents);
        }
        let checked = checked(documents)?;
        print!("{}", table(&checked, self.quiet));
        let wrong = checked.iter().filter(|it| !it.holds()).count();
        if wrong > 0 {
            return Err(Error::Policy(format!(
                "{wrong} of {} flows are not as expected",
                checked.len()
            )));
        }
        println!("{} flows are as expected", checked.len());
        Ok(())
    }

    /// Prints the flows that a change decides differently.
    fn change(&self, documents: Vec<Value>) -> Result<(), Error> {
        let mut after = documents.clone();
        for path in &self.apply {
            manifests(path, true, &mut after)?;
        }
        let (before, after) = (checked(documents)?, checked(after)?);
        let changes = check::changes(&before, &after);
        print!("{}", changed(&changes, self.quiet));
        println!("{} of {} flows change", changes.len(), after.len());
        let wrong: Vec<_> = after.iter().filter(|it| !it.holds()).collect();
        if wrong.is_empty() {
            return Ok(());
        }
        let already = wrong.len() - changes.iter().filter(|it| !it.after.holds()).count();
        Err(Error::Policy(format!(
            "{} of {} flows would not be as expected ({already} are not already)",
            wrong.len(),
            after.len()
        )))
    }
}

fn checked(documents: Vec<Value>) -> Result<Vec<CheckedFlow>, Error> {
    let (objects, tests) = check::read(documents).map_err(policy)?;
    check::check(&objects, &tests).map_err(policy)
}

fn policy(error: check::Error) -> Error {
    Error::Policy(error.to_string())
}

/// Reads a file, or a folder with all below it in the order of names.
pub(super) fn manifests(path: &Path, named: bool, documents: &mut Vec<Value>) -> Result<(), Error> {
    let file = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    if path.is_dir() {
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).map_err(file)? {
            inside.push(entry.map_err(file)?.path());
        }
        inside.sort();
        return inside
            .iter()
            .try_for_each(|it| manifests(it, false, documents));
    }
    let kind = path.extension().and_then(|it| it.to_str());
    if !named && !matches!(kind, Some("yaml" | "yml" | "json")) {
        return Ok(());
    }
    let text = std::fs::read_to_string(path).map_err(file)?;
    // `y` and `no` are names, as for kubectl.
    let options = serde_saphyr::options! { strict_booleans: true };
    let read: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options)
        .map_err(|error| Error::Policy(format!("`{}` is no YAML: {error}", path.display())))?;
    documents.extend(read);
    Ok(())
}

/// All objects of a cluster that count.
pub async fn live(client: &Client, documents: &mut Vec<Value>) -> Result<(), Error> {
    for resource in [
        &resources::NAMESPACES,
        &resources::NODES,
        &resources::PODS,
        &NETWORK_POLICIES,
        &CLUSTER_NETWORK_POLICIES,
    ] {
        let list = match client.list::<Value>(resource, &Selection::all()).await {
            Ok(list) => list,
            // The definition may not be installed.
            Err(control_client::Error::NotFound { .. })
                if *resource == CLUSTER_NETWORK_POLICIES =>
            {
                continue;
            }
            Err(error) => return Err(Error::Client(error)),
        };
        for mut item in list.items {
            item["apiVersion"] = resource.api_version().into();
            item["kind"] = resource.kind.as_ref().into();
            documents.push(item);
        }
    }
    Ok(())
}

/// The ReplicaSets and Jobs that lead from pods to their Deployments and CronJobs, so that
/// expectations can name these.
async fn controllers(client: &Client, documents: &mut Vec<Value>) -> Result<(), Error> {
    for resource in [&REPLICA_SETS, &JOBS] {
        let list = client
            .list::<Value>(resource, &Selection::all())
            .await
            .map_err(Error::Client)?;
        // One without a controller would stand for pods, which are present themselves.
        let controlled = list
            .items
            .into_iter()
            .filter(|it| !it["metadata"]["ownerReferences"].is_null());
        documents.extend(controlled.map(|mut item| {
            item["apiVersion"] = resource.api_version().into();
            item["kind"] = resource.kind.as_ref().into();
            item
        }));
    }
    Ok(())
}

const fn word(allow: bool) -> &'static str {
    if allow { "allow" } else { "deny" }
}

fn holds(it: &CheckedFlow) -> String {
    if it.holds() { "ok" } else { "WRONG" }.to_owned()
}

/// Formats one line per flow that is decided differently: whether it is then as expected,
/// the decisions before and after, and the reason.
fn changed(changes: &[Change], only_wrong: bool) -> String {
    let rows: Vec<[String; 7]> = changes
        .iter()
        .filter(|it| !only_wrong || !it.after.holds())
        .map(|Change { before, after }| {
            let was = before.as_ref().map_or("-", |it| word(it.explanation.allow));
            [
                holds(after),
                after.explanation.from.to_string(),
                after.explanation.to.to_string(),
                after.port.clone(),
                was.to_owned(),
                word(after.explanation.allow).to_owned(),
                after.why(),
            ]
        })
        .collect();
    crate::table::table(["", "FROM", "TO", "PORT", "BEFORE", "AFTER", "WHY"], &rows)
}

/// Formats one line per flow: whether it is as expected, the flow, the decision, and the
/// reason.
fn table(checked: &[CheckedFlow], only_wrong: bool) -> String {
    let rows: Vec<[String; 6]> = checked
        .iter()
        .filter(|it| !only_wrong || !it.holds())
        .map(|it| {
            [
                holds(it),
                it.explanation.from.to_string(),
                it.explanation.to.to_string(),
                it.port.clone(),
                if it.holds() {
                    word(it.explanation.allow).to_owned()
                } else {
                    let expected = word(it.expected == ExpectedVerdict::Allow);
                    format!("{}, not {expected}", word(it.explanation.allow))
                },
                it.why(),
            ]
        })
        .collect();
    crate::table::table(["", "FROM", "TO", "PORT", "VERDICT", "WHY"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: y, name: web}
spec: {template: {metadata: {labels: {app: web}}}}
---
apiVersion: v1
kind: Pod
metadata: {namespace: no, name: db, labels: {app: db}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: no, name: closed}
spec: {podSelector: {}}
---
apiVersion: orlop.dev/v1alpha1
kind: PolicyTest
flows:
- {from: y/app=web, to: no/db, port: 5432, expect: EXPECT}
- {from: no/db, to: y/web, port: [80, 53/UDP], expect: allow}
";

    fn run(expect: &str) -> (Result<(), Error>, String) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.yaml");
        std::fs::write(&file, FILE.replace("EXPECT", expect)).unwrap();
        let test = PolicyTest {
            file: file.clone(),
            objects: Vec::new(),
            apply: Vec::new(),
            live: false,
            kubeconfig: Kubeconfig::default(),
            quiet: false,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let mut documents = Vec::new();
        manifests(&file, true, &mut documents).unwrap();
        let (objects, tests) = check::read(documents).unwrap();
        let checked = check::check(&objects, &tests).unwrap();
        (runtime.block_on(test.run()), table(&checked, false))
    }

    #[test]
    fn expectations_hold_or_end_with_an_error_that_says_how_many_do_not() {
        let (done, table) = run("deny");
        assert!(done.is_ok(), "{done:?}\n{table}");
        let (done, table) = run("allow");
        let error = done.unwrap_err().to_string();
        assert_eq!(error, "1 of 3 flows are not as expected");
        let line = table.lines().nth(1).unwrap();
        assert!(line.starts_with("WRONG"), "{table}");
        assert!(
            line.contains("selected by NetworkPolicy no/closed"),
            "{table}"
        );
    }

    #[test]
    fn a_deployment_stands_for_the_live_pods_of_its_replica_set() {
        let owned = |kind: &str, api: &str, name: &str, owner: (&str, &str), spec: Value| {
            serde_json::json!({
                "apiVersion": api, "kind": kind,
                "metadata": {"namespace": "shop", "name": name, "labels": {"app": "web"},
                    "ownerReferences": [
                        {"kind": "Other", "name": "first"},
                        {"kind": owner.0, "name": owner.1, "controller": true}]},
                "spec": spec,
            })
        };
        let pod = ("ReplicaSet", "web-5d");
        let spec = || serde_json::json!({});
        let template = serde_json::json!({"template": {"metadata": {"labels": {"app": "web"}}}});
        let test: Value = serde_json::json!({
            "apiVersion": "orlop.dev/v1alpha1", "kind": "PolicyTest",
            "flows": [{"from": "shop/web", "to": "192.0.2.1", "port": 80, "expect": "allow"}],
        });
        let checked = checked(vec![
            owned("Pod", "v1", "web-5d-1", pod, spec()),
            owned("Pod", "v1", "web-5d-2", pod, spec()),
            owned(
                "ReplicaSet",
                "apps/v1",
                "web-5d",
                ("Deployment", "web"),
                template,
            ),
            test,
        ])
        .unwrap();
        let senders: Vec<_> = checked
            .iter()
            .map(|it| it.explanation.from.to_string())
            .collect();
        assert_eq!(senders, ["shop/web-5d-1", "shop/web-5d-2"]);
    }

    #[test]
    fn a_change_is_told_by_what_it_decides_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let file = write("test.yaml", &FILE.replace("EXPECT", "deny"));
        let open = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, \
                    metadata: {namespace: no, name: closed}, \
                    spec: {podSelector: {}, ingress: [{ports: [{port: 5432}]}]}}";
        let apply = write("change.yaml", open);
        let test = PolicyTest {
            file: file.clone(),
            objects: Vec::new(),
            apply: vec![apply.clone()],
            live: false,
            kubeconfig: Kubeconfig::default(),
            quiet: false,
        };
        let mut documents = Vec::new();
        manifests(&file, true, &mut documents).unwrap();
        let error = test.change(documents.clone()).unwrap_err().to_string();
        assert_eq!(
            error,
            "1 of 3 flows would not be as expected (0 are not already)"
        );
        let before = checked(documents.clone()).unwrap();
        manifests(&apply, true, &mut documents).unwrap();
        let after = checked(documents).unwrap();
        let table = changed(&check::changes(&before, &after), false);
        let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(
            row[..6],
            ["WRONG", "y/web", "no/db", "5432", "deny", "allow"]
        );
        assert_eq!(table.lines().count(), 2, "{table}");
        // A change that changes nothing is no fault.
        let same = PolicyTest {
            apply: vec![file.clone()],
            ..test
        };
        let mut documents = Vec::new();
        manifests(&file, true, &mut documents).unwrap();
        assert!(same.change(documents).is_ok());
    }
}
