//! `orlop volumes`: lists local volumes of a cluster, and removes those of lost nodes.

mod forget;
mod report;

use clap::{Args, Subcommand, ValueEnum};
use control_client::{Client, Resource, Selection, resources};
use serde_json::Value;

use crate::{error::Error, kubeconfig::Kubeconfig, table};
use forget::{VolumeRemoval, removals};
use report::{Inventory, Row, rows};

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop volumes                      all claims, their volumes, and why some are pending
  orlop volumes -n shop -o json      those of one namespace as JSON
  orlop volumes forget n2            what the volumes of a machine are that will not come back
  orlop volumes forget n2 --yes      removes their objects; the data is given up";

/// Name of the driver.
const DRIVER: &str = "csi.orlop.dev";
/// Topology key by which a volume belongs to a node.
const NODE_KEY: &str = "topology.csi.orlop.dev/node";

/// Volumes and subcommand.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    verb: Option<VolumeVerb>,
    /// Only claims of this namespace.
    #[arg(short, long)]
    namespace: Option<String>,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
}

#[derive(Subcommand)]
enum VolumeVerb {
    /// Remove the claims, volumes and snapshots of a permanently lost node. Their data is
    /// abandoned.
    Forget {
        /// Name of the node, whose Node object must be deleted before.
        node: String,
        /// Remove them; without, they are only listed.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// A table.
    Text,
    /// A list of objects.
    Json,
}

/// Lists volumes, or removes those of a node.
///
/// # Errors
/// A cluster that does not answer, or a node that still exists.
pub async fn run(options: Options) -> Result<(), Error> {
    let client = options.kubeconfig.client("orlop-volumes").await?;
    if let Some(VolumeVerb::Forget { node, yes }) = options.verb {
        return forget(&client, &node, yes).await;
    }
    let inventory = inventory(&client, options.namespace.as_deref()).await?;
    let rows = rows(&inventory);
    match options.output {
        Output::Json => println!("{}", serde_json::json!(rows)),
        Output::Text if rows.is_empty() => println!("there are no claims to local volumes"),
        Output::Text => {
            let head = [
                "NAMESPACE",
                "CLAIM",
                "NODE",
                "CLASS",
                "STORAGE",
                "SIZE",
                "USED",
                "STATE",
                "VOLUME",
            ];
            let rows: Vec<_> = rows.iter().map(Row::cells).collect();
            print!("{}", table::table(head, &rows));
        }
    }
    Ok(())
}

async fn list(
    client: &Client,
    resource: &Resource,
    selection: &Selection,
) -> Result<Vec<Value>, Error> {
    let all = client.list::<Value>(resource, selection).await;
    Ok(all.map_err(Error::Client)?.items)
}

async fn inventory(client: &Client, namespace: Option<&str>) -> Result<Inventory, Error> {
    let everywhere = Selection::all();
    let selection = match namespace {
        Some(namespace) => Selection::all().namespace(namespace),
        None => Selection::all(),
    };
    let about_claims = selection
        .clone()
        .fields("involvedObject.kind=PersistentVolumeClaim");
    let mut inventory = Inventory {
        claims: list(client, &resources::PERSISTENT_VOLUME_CLAIMS, &selection).await?,
        volumes: list(client, &resources::PERSISTENT_VOLUMES, &everywhere).await?,
        classes: list(client, &resources::STORAGE_CLASSES, &everywhere).await?,
        pods: list(client, &resources::PODS, &selection).await?,
        events: list(client, &resources::EVENTS, &about_claims).await?,
        summaries: Vec::new(),
    };
    for node in inventory.nodes() {
        let path = format!("/api/v1/nodes/{node}/proxy/stats/summary");
        let summary = client
            .request::<Value>(http::Method::GET, &path, None::<&()>)
            .await;
        // A node that does not answer leaves its volumes' use unknown.
        inventory.summaries.extend(summary.ok());
    }
    Ok(inventory)
}

async fn forget(client: &Client, node: &str, yes: bool) -> Result<(), Error> {
    match client.get::<Value>(&resources::NODES, "", node).await {
        Ok(_) => {
            return Err(Error::Option(format!(
                "node {node} is part of the cluster: if its disks will not come back, run \
                 `kubectl delete node {node}` first"
            )));
        }
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(Error::Client(error)),
    }
    let everywhere = Selection::all();
    let volumes = list(client, &resources::PERSISTENT_VOLUMES, &everywhere).await?;
    let claims = list(client, &resources::PERSISTENT_VOLUME_CLAIMS, &everywhere).await?;
    let mut contents = Vec::new();
    if client
        .serves(&forget::CONTENTS)
        .await
        .map_err(Error::Client)?
    {
        contents = list(client, &forget::CONTENTS, &everywhere).await?;
    }
    let removals = removals(node, &volumes, &claims, &contents);
    if removals.is_empty() {
        println!("no volume and no snapshot is on node {node}");
        return Ok(());
    }
    for removal in &removals {
        if yes {
            remove(client, removal).await.map_err(Error::Client)?;
        }
        println!("{}{removal}", if yes { "removed " } else { "" });
    }
    if !yes {
        println!("nothing was changed: with --yes, these are removed and their data is given up");
    }
    Ok(())
}

async fn remove(client: &Client, removal: &VolumeRemoval) -> Result<(), control_client::Error> {
    let (resource, namespace, name) = (removal.resource(), &removal.namespace, &removal.name);
    let options = control_client::DeleteOptions::of_uid(removal.uid.as_str());
    let unless_gone = |done: Result<(), control_client::Error>| match done {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    };
    unless_gone(client.delete(resource, namespace, name, &options).await)?;
    let Some(finalizers) = &removal.finalizers else {
        return Ok(());
    };
    let patch = serde_json::json!({"metadata": {"uid": removal.uid, "finalizers": finalizers}});
    let patch = control_client::Patch::Merge(&patch);
    let patched = client
        .patch::<control_client::Discard>(resource, namespace, name, "", patch)
        .await;
    unless_gone(patched.map(drop))
}

/// Returns the node that has a volume of the driver.
fn node_of(volume: &Value) -> Option<&str> {
    if volume["spec"]["csi"]["driver"] != DRIVER {
        return None;
    }
    let terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"].as_array()?;
    let mut expressions = terms
        .iter()
        .flat_map(|term| term["matchExpressions"].as_array().into_iter().flatten());
    let own = expressions.find(|it| it["key"] == NODE_KEY)?;
    own["values"][0].as_str()
}
