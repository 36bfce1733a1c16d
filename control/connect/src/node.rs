//! From a pod to its node's agent.

use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;

use control_proxy::kubelet::Endpoint;
use control_registry::{Context, ServedResource};

/// The pod of the request's path.
///
/// # Errors
/// 404; 504 when the cache lags.
pub async fn pod(context: &Context, served: &ServedResource) -> Result<Value, Status> {
    let key = served.key(&context.info.namespace, &context.info.name);
    served.tree(&*context.registry.get(served, &key).await?)
}

/// Where the agent of a node listens.
///
/// # Errors
/// 404 when there is no such node, 500 when it has no address.
pub async fn endpoint(context: &Context, node: &str) -> Result<Endpoint, Status> {
    let nodes = context.registry.resource("", "nodes")?;
    // Whatever is missing, stock says that it is of the resource that was asked for.
    let found = context.registry.get(nodes, node).await;
    let node = found.map_err(|status| {
        if status.code == 404 {
            Status::not_found(&context.info.group, &context.info.resource, node)
        } else {
            status
        }
    })?;
    Endpoint::from_node(&nodes.tree(&node)?)
}

/// Where the agent of a pod's node listens; `None` for a pod without a node.
///
/// # Errors
/// As [`endpoint`].
pub async fn endpoint_of_pod(context: &Context, pod: &Value) -> Result<Option<Endpoint>, Status> {
    match pod.str_at(&["spec", "nodeName"]) {
        None | Some("") => Ok(None),
        Some(node) => endpoint(context, node).await.map(Some),
    }
}

/// The container that is meant: the one named, or the only one.
///
/// # Errors
/// 400 when the pod has no container of that name, or several and none is named.
pub fn container<'a>(pod: &'a Value, wanted: &str) -> Result<&'a str, Status> {
    let names = |list: &'static str| {
        pod.items_at(&["spec", list])
            .iter()
            .filter_map(|container| container.str_at(&["name"]))
    };
    let name = meta::name(pod);
    let mut all = names("initContainers")
        .chain(names("containers"))
        .chain(names("ephemeralContainers"));
    if !wanted.is_empty() {
        return all.find(|name| *name == wanted).ok_or_else(|| {
            Status::bad_request(format!("container {wanted} is not valid for pod {name}"))
        });
    }
    let mut regular = names("containers");
    match (regular.next(), regular.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {name}"
        ))),
        _ => {
            let all: Vec<_> = all.collect();
            Err(Status::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                all.join(" ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn the_only_container_need_not_be_named() {
        let pod = value!({
            "metadata": {"name": "p"},
            "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "a"}]}
        });
        assert_eq!(container(&pod, ""), Ok("a"));
        assert_eq!(container(&pod, "i"), Ok("i"));
        assert_eq!(
            container(&pod, "x").expect_err("none").message,
            "container x is not valid for pod p"
        );
    }

    #[test]
    fn one_of_several_containers_must_be_named() {
        let pod = value!({
            "metadata": {"name": "p"},
            "spec": {
                "initContainers": [{"name": "i"}],
                "containers": [{"name": "a"}, {"name": "b"}],
                "ephemeralContainers": [{"name": "e"}]
            }
        });
        let status = container(&pod, "").expect_err("ambiguous");
        assert_eq!(status.code, 400);
        assert_eq!(
            status.message,
            "a container name must be specified for pod p, choose one of: [i a b e]"
        );
        assert_eq!(container(&pod, "e"), Ok("e"));
        let empty = value!({"metadata": {"name": "p"}, "spec": {}});
        assert_eq!(
            container(&empty, "").expect_err("none").message,
            "a container name must be specified for pod p"
        );
    }
}
