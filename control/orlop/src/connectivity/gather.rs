//! Reads the cluster's objects.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use control_client::{Client, Resource, Selection, resources};
use control_connectivity::topology::{Node, Service};
use serde_json::Value;

use crate::error::Error;

/// Returns the participating nodes: those with these names, else two that are ready.
///
/// # Errors
/// The API's error, or that there is none.
pub async fn nodes(client: &Client, names: &[String]) -> Result<Vec<Node>, Error> {
    let list = client
        .list::<Value>(&resources::NODES, &Selection::all())
        .await
        .map_err(Error::Client)?;
    choose(&list.items, names).map_err(|error| Error::Connectivity(error.to_string()))
}

/// Why no nodes can participate.
#[derive(Debug, thiserror::Error)]
enum NodeChoiceError {
    /// A node that was named does not exist.
    #[error("there is no node `{0}`")]
    NoNode(String),
    /// None was named, and none is ready.
    #[error("no node is ready: `kubectl get nodes` shows them")]
    NoneReady,
}

fn choose(nodes: &[Value], names: &[String]) -> Result<Vec<Node>, NodeChoiceError> {
    let find = |wanted: &String| {
        let found = nodes.iter().find(|node| name(node) == Some(wanted));
        found.ok_or_else(|| NodeChoiceError::NoNode(wanted.clone()))
    };
    let mut chosen: Vec<&Value> = names.iter().map(find).collect::<Result<_, _>>()?;
    if chosen.is_empty() {
        let is_usable =
            |node: &&Value| is_ready(node) && node["spec"]["unschedulable"] != Value::Bool(true);
        chosen = nodes.iter().filter(is_usable).collect();
        // Machines that run the control plane come last: others show more.
        chosen.sort_by_key(|node| {
            !node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"].is_null()
        });
    }
    chosen.truncate(2);
    if chosen.is_empty() {
        return Err(NodeChoiceError::NoneReady);
    }
    let node = |node: &&Value| Node {
        name: name(node).unwrap_or_default().to_owned(),
        addresses: list(&node["status"]["addresses"])
            .filter(|it| it["type"] == "InternalIP")
            .filter_map(|it| it["address"].as_str()?.parse().ok())
            .collect(),
    };
    Ok(chosen.iter().map(node).collect())
}

/// The pods of a namespace by name.
///
/// # Errors
/// What the API says.
pub async fn pods(client: &Client, namespace: &str) -> Result<BTreeMap<String, Value>, Error> {
    named(client, &resources::PODS, namespace).await
}

/// The Services of a namespace by name.
///
/// # Errors
/// What the API says.
pub async fn services(
    client: &Client,
    namespace: &str,
) -> Result<BTreeMap<String, Service>, Error> {
    let services = named(client, &resources::SERVICES, namespace).await?;
    let read = |(name, service): (String, Value)| (name, self::service(&service));
    Ok(services.into_iter().map(read).collect())
}

fn service(service: &Value) -> Service {
    let spec = &service["spec"];
    let node_port = |port: &Value| {
        let number = port["nodePort"].as_u64()?;
        let name = port["name"].as_str().unwrap_or_default();
        Some((name.to_owned(), u16::try_from(number).ok()?))
    };
    let ingress = list(&service["status"]["loadBalancer"]["ingress"]);
    let address = |it: &Value| {
        it["ip"]
            .as_str()
            .or(it["hostname"].as_str())
            .map(str::to_owned)
    };
    Service {
        cluster_ips: list(&spec["clusterIPs"]).filter_map(address_of).collect(),
        node_ports: list(&spec["ports"]).filter_map(node_port).collect(),
        load_balancer: ingress.filter_map(address).collect(),
    }
}

/// Returns the addresses of the API server from the Service `default/kubernetes`.
///
/// # Errors
/// The API's error.
pub async fn api_server(client: &Client) -> Result<Vec<SocketAddr>, Error> {
    let selection = Selection::all()
        .namespace("default")
        .labels("kubernetes.io/service-name=kubernetes");
    let slices = client
        .list::<Value>(&resources::ENDPOINT_SLICES, &selection)
        .await
        .map_err(Error::Client)?;
    let mut found = Vec::new();
    for slice in &slices.items {
        let port = slice["ports"][0]["port"].as_u64();
        let Some(port) = port.and_then(|port| u16::try_from(port).ok()) else {
            continue;
        };
        for endpoint in list(&slice["endpoints"]) {
            let addresses = list(&endpoint["addresses"]).filter_map(address_of);
            found.extend(addresses.map(|address| SocketAddr::new(address, port)));
        }
    }
    Ok(found)
}

/// A pod's log so far.
///
/// # Errors
/// What the API says.
pub async fn log(client: &Client, namespace: &str, pod: &str) -> Result<String, Error> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/log");
    let request = http::Request::get(path)
        .body(Vec::new())
        .map_err(|error| Error::Connectivity(error.to_string()))?;
    let text = client.kube().request_text(request).await;
    text.map_err(|error| Error::Connectivity(format!("the log of pod `{pod}`: {error}")))
}

async fn named(
    client: &Client,
    resource: &Resource,
    namespace: &str,
) -> Result<BTreeMap<String, Value>, Error> {
    let selection = Selection::all().namespace(namespace);
    let list = client.list::<Value>(resource, &selection).await;
    let items = list.map_err(Error::Client)?.items;
    let by_name = |item: Value| Some((name(&item)?.to_owned(), item));
    Ok(items.into_iter().filter_map(by_name).collect())
}

/// An object's name.
pub fn name(object: &Value) -> Option<&str> {
    object["metadata"]["name"].as_str()
}

/// Whether a node or pod has the condition `Ready`.
pub fn is_ready(object: &Value) -> bool {
    list(&object["status"]["conditions"])
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Whether a pod's container started, so that it may have a log.
pub fn has_started(pod: &Value) -> bool {
    ["Running", "Succeeded", "Failed"]
        .iter()
        .any(|phase| pod["status"]["phase"] == *phase)
}

/// Whether a pod has ended.
pub fn has_ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"]
        .iter()
        .any(|phase| pod["status"]["phase"] == *phase)
}

/// Describes the state of a pod: its phase, and what it waits for.
pub fn state(pod: &Value) -> String {
    let status = &pod["status"];
    let phase = status["phase"].as_str().unwrap_or("Unknown");
    let waiting = list(&status["containerStatuses"]).find_map(|it| {
        let waiting = &it["state"]["waiting"];
        let terminated = &it["state"]["terminated"];
        let reason = waiting["reason"]
            .as_str()
            .or(terminated["reason"].as_str())?;
        let message = waiting["message"]
            .as_str()
            .or(terminated["message"].as_str())
            .unwrap_or_default();
        Some((reason.to_owned(), message.to_owned()))
    });
    let unscheduled = || {
        list(&status["conditions"])
            .find(|it| it["type"] == "PodScheduled" && it["status"] == "False")
            .map(|it| {
                let text = |key: &str| it[key].as_str().unwrap_or_default().to_owned();
                (text("reason"), text("message"))
            })
    };
    let refused = || {
        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        Some((text("reason"), text("message"))).filter(|(reason, _)| !reason.is_empty())
    };
    match waiting.or_else(unscheduled).or_else(refused) {
        Some((reason, message)) if message.is_empty() => format!("{phase}: {reason}"),
        Some((reason, message)) => format!("{phase}: {reason}: {message}"),
        None => phase.to_owned(),
    }
}

/// A pod's addresses.
pub fn addresses(pod: &Value) -> Vec<IpAddr> {
    list(&pod["status"]["podIPs"])
        .filter_map(|it| address_of(&it["ip"]))
        .collect()
}

fn address_of(value: &Value) -> Option<IpAddr> {
    value.as_str()?.parse().ok()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, ready: &str, labels: Value) -> Value {
        json!({
            "metadata": {"name": name, "labels": labels},
            "status": {
                "conditions": [{"type": "Ready", "status": ready}],
                "addresses": [
                    {"type": "Hostname", "address": name},
                    {"type": "InternalIP", "address": "10.0.0.1"},
                ],
            },
        })
    }

    #[test]
    fn two_ready_nodes_are_chosen_and_the_control_plane_last() {
        let control_plane = json!({"node-role.kubernetes.io/control-plane": ""});
        let mut cordoned = node("cordoned", "True", json!({}));
        cordoned["spec"]["unschedulable"] = true.into();
        let nodes = [
            node("server", "True", control_plane),
            node("away", "Unknown", json!({})),
            cordoned,
            node("worker", "True", json!({})),
        ];
        let chosen = choose(&nodes, &[]).unwrap();
        let names: Vec<&str> = chosen.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["worker", "server"]);
        assert_eq!(chosen[0].addresses, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        let named = choose(&nodes, &["away".to_owned()]).unwrap();
        assert_eq!(named[0].name, "away");
        assert!(choose(&nodes, &["gone".to_owned()]).is_err());
        assert!(choose(&[], &[]).is_err());
    }

    #[test]
    fn a_service_is_what_it_was_given() {
        let read = service(&json!({
            "spec": {
                "clusterIPs": ["10.96.0.7", "fd00::7"],
                "ports": [
                    {"name": "http", "port": 80, "nodePort": 30080},
                    {"name": "tcp", "port": 7},
                ],
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "a.b"}]}},
        }));
        assert_eq!(read.cluster_ips.len(), 2);
        assert_eq!(read.node_ports, [("http".to_owned(), 30_080)].into());
        assert_eq!(read.load_balancer, ["192.0.2.1", "a.b"]);
        let headless = service(&json!({"spec": {"clusterIPs": ["None"]}}));
        assert!(headless.cluster_ips.is_empty());
    }

    #[test]
    fn a_pod_says_what_it_waits_for() {
        let waiting = json!({"status": {
            "phase": "Pending",
            "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}],
        }});
        assert_eq!(state(&waiting), "Pending: ErrImagePull: no");
        let unscheduled = json!({"status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                            "message": "0/1 nodes"}],
        }});
        assert_eq!(state(&unscheduled), "Pending: Unschedulable: 0/1 nodes");
        assert_eq!(state(&json!({"status": {"phase": "Running"}})), "Running");
        let refused = json!({"status": {
            "phase": "Failed", "reason": "NodePorts", "message": "Pod was rejected",
        }});
        assert_eq!(state(&refused), "Failed: NodePorts: Pod was rejected");
    }
}
