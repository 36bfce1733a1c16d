//! The objects by which pods are placed: of a cluster, or of files.

use std::path::Path;

use control_client::{Client, Resource, Selection, resources};
use control_scheduler::objects::ObjectSet;
use serde_json::Value;

use crate::error::Error;

/// Reads all objects that influence placement. Resources that the server does not serve,
/// or that are forbidden, are left out; the latter cause a warning.
///
/// # Errors
/// A server that does not answer, or nodes or pods that may not be read.
pub async fn live(client: &Client) -> Result<ObjectSet, Error> {
    let mut objects = ObjectSet::default();
    let resources = ObjectSet::resources().chain([resources::PRIORITY_CLASSES]);
    for resource in resources.chain([resources::POD_GROUPS]) {
        if resource == resources::POD_GROUPS && !names_pod_groups(&objects) {
            // Few clusters serve them.
            continue;
        }
        let list = client.list::<Value>(&resource, &Selection::all()).await;
        let list = match list {
            Ok(list) => list,
            Err(error) if is_needed(&resource) => return Err(Error::Client(error)),
            Err(error) if error.is_not_found() => continue,
            Err(error) => {
                eprintln!("orlop: {resource} are left out: {error}");
                continue;
            }
        };
        for item in list.items {
            objects
                .put(with_kind(item, &resource))
                .map_err(Error::Objects)?;
        }
    }
    Ok(objects)
}

/// Whether a pod belongs to a PodGroup.
fn names_pod_groups(objects: &ObjectSet) -> bool {
    let mut pods = objects.all(&resources::PODS);
    pods.any(|pod| !pod["spec"]["schedulingGroup"].is_null())
}

fn is_needed(resource: &Resource) -> bool {
    [resources::NODES, resources::PODS].contains(resource)
}

fn with_kind(mut item: Value, resource: &Resource) -> Value {
    item["apiVersion"] = resource.api_version().into();
    item["kind"] = resource.kind.as_ref().into();
    item
}

/// Reads the documents of a file of YAML or JSON; `-` is the standard input.
///
/// # Errors
/// A file that cannot be read, or is no YAML.
pub fn documents(path: &Path) -> Result<Vec<Value>, Error> {
    let file = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin()).map_err(file)?
    } else {
        std::fs::read_to_string(path).map_err(file)?
    };
    // JSON is YAML, but a snapshot of a cluster is long, and this reads it faster.
    if let Ok(one) = serde_json::from_str::<Value>(&text) {
        return Ok(vec![one]);
    }
    // `y` and `no` are names, as for kubectl.
    let options = serde_saphyr::options! { strict_booleans: true };
    let all: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options)
        .map_err(|error| Error::Option(format!("`{}` is no YAML: {error}", path.display())))?;
    Ok(all.into_iter().filter(|it| !it.is_null()).collect())
}

/// A snapshot of a cluster, as `kubectl get nodes,pods,… -A -o json` prints it.
///
/// # Errors
/// A file that cannot be read, or holds something else than objects.
pub fn snapshot(path: &Path) -> Result<ObjectSet, Error> {
    let mut objects = ObjectSet::default();
    for document in documents(path)? {
        objects.put(document).map_err(Error::Objects)?;
    }
    if objects.all(&resources::NODES).next().is_none() {
        return Err(Error::Option(format!(
            "`{}` has no nodes: write it with `kubectl get nodes,pods,namespaces,services,\
             replicasets,statefulsets,pvc,pv,storageclasses,pdb,priorityclasses -A -o json`",
            path.display()
        )));
    }
    Ok(objects)
}
