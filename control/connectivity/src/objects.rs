//! The objects that the checks need.

use serde_json::{Value, json};

use crate::{
    check::Client,
    operation::Task,
    topology::{HostPorts, Node},
};

/// Port of pods that answer with their names.
pub const HTTP: u16 = 8080;
/// Port of echo servers, for TCP and UDP.
pub const ECHO: u16 = 7777;
/// The first of these, as a port of Services.
pub const SERVICE_HTTP: u16 = 80;
/// The second, as a port of Services.
pub const SERVICE_ECHO: u16 = 7;

/// Label of the namespaces of connectivity tests.
pub const LABEL: &str = "orlop.dev/connectivity-test";

/// The environment variable with a client's tasks.
pub const TASKS: &str = "ORLOP_PROBE_TASKS";

/// How pods are made.
#[derive(Clone, Debug)]
pub struct PodOptions<'a> {
    /// The image.
    pub image: &'a str,
    /// When it is pulled.
    pub pull_policy: &'a str,
    /// The nodes that take part.
    pub nodes: &'a [Node],
    /// Ports on nodes.
    pub host_ports: HostPorts,
    /// How long a check is tried, in seconds.
    pub settle: u64,
}

/// The namespace, which must allow the host network.
#[must_use]
pub fn namespace() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "generateName": "orlop-connectivity-",
            "labels": {
                LABEL: "true",
                "pod-security.kubernetes.io/enforce": "privileged",
                "pod-security.kubernetes.io/audit": "privileged",
                "pod-security.kubernetes.io/warn": "privileged",
            },
        },
    })
}

/// Pods that only serve.
#[must_use]
pub fn servers(options: &PodOptions<'_>) -> Vec<Value> {
    let mut pods = Vec::new();
    let mut pod_b = options.server("server-b", 1);
    pod_b["spec"]["containers"][0]["ports"] = json!([
        {"name": "http", "containerPort": HTTP, "hostPort": options.host_ports.pod},
    ]);
    pod_b["metadata"]["labels"]["server"] = "b".into();
    pods.push(options.server("server-a", 0));
    pods.push(pod_b);
    let mut guarded = options.server("guarded", 1);
    guarded["metadata"]["labels"] = json!({"app": "guarded"});
    pods.push(guarded);
    for (number, name) in ["host-a", "host-b"].iter().enumerate() {
        if number < options.nodes.len() {
            pods.push(options.host_server(name, number));
        }
    }
    pods
}

/// The Services.
#[must_use]
pub fn services() -> Vec<Value> {
    let service = |name: &str, spec: Value| {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name}, "spec": spec,
        })
    };
    let selector = json!({"app": "server"});
    let http = json!({"name": "http", "port": SERVICE_HTTP, "targetPort": "http"});
    let ports = json!([
        http,
        {"name": "tcp", "port": SERVICE_ECHO, "targetPort": ECHO},
        {"name": "udp", "port": SERVICE_ECHO, "targetPort": ECHO, "protocol": "UDP"},
    ]);
    let policy = "PreferDualStack";
    vec![
        service(
            "cluster",
            json!({"selector": selector, "ports": ports, "ipFamilyPolicy": policy}),
        ),
        service(
            "node-port",
            json!({
                "type": "NodePort", "selector": selector, "ports": ports,
                "ipFamilyPolicy": policy,
            }),
        ),
        service(
            "node-port-local",
            json!({
                "type": "NodePort", "selector": {"server": "b"}, "ports": [http],
                "ipFamilyPolicy": policy, "externalTrafficPolicy": "Local",
            }),
        ),
        service(
            "affinity",
            json!({
                "selector": selector, "ports": [http], "ipFamilyPolicy": policy,
                "sessionAffinity": "ClientIP",
            }),
        ),
        service(
            "internal-local",
            json!({
                "selector": selector, "ports": [http], "ipFamilyPolicy": policy,
                "internalTrafficPolicy": "Local",
            }),
        ),
        service(
            "headless",
            json!({
                "selector": selector, "clusterIP": "None", "ipFamilyPolicy": policy,
                "ports": [{"name": "http", "port": HTTP, "targetPort": "http"}],
            }),
        ),
        service(
            "hairpin",
            json!({
                "selector": {"app": "hairpin"}, "ports": [http], "ipFamilyPolicy": policy,
            }),
        ),
        service(
            "guarded",
            json!({
                "selector": {"app": "guarded"}, "ports": [http], "ipFamilyPolicy": policy,
            }),
        ),
        service(
            "empty",
            json!({"selector": {"app": "nobody"}, "ports": [http], "ipFamilyPolicy": policy}),
        ),
        service(
            "load-balancer",
            json!({"type": "LoadBalancer", "selector": selector, "ports": [http]}),
        ),
    ]
}

/// A Service that is another name of `cluster`, whose full name is given.
#[must_use]
pub fn external_name(cluster: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "external-name"},
        "spec": {"type": "ExternalName", "externalName": cluster},
    })
}

/// The policies.
#[must_use]
pub fn policies() -> Vec<Value> {
    let policy = |name: &str, spec: Value| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": name}, "spec": spec,
        })
    };
    vec![
        policy(
            "guarded",
            json!({
                "podSelector": {"matchLabels": {"app": "guarded"}},
                "policyTypes": ["Ingress"],
                "ingress": [{
                    "from": [{"podSelector": {"matchLabels": {"role": "friend"}}}],
                    "ports": [{"port": HTTP}],
                }],
            }),
        ),
        policy(
            "confined",
            json!({
                "podSelector": {"matchLabels": {"app": "confined"}},
                "policyTypes": ["Egress"],
                "egress": [{
                    "to": [{"podSelector": {"matchLabels": {"server": "a"}}}],
                    "ports": [{"port": HTTP}],
                }],
            }),
        ),
    ]
}

/// The pod of a client with its tasks.
#[must_use]
pub fn client(client: Client, tasks: &[Task], options: &PodOptions<'_>) -> Value {
    let node = usize::from(client.is_on_second_node());
    let name = client.pod();
    let settle = options.settle.to_string();
    let mut arguments = vec!["--name", name, "--settle", &settle];
    let is_server = client == Client::Hairpin;
    if is_server {
        arguments.push("--serve");
    }
    let mut pod = options.pod(name, node, &arguments);
    let tasks = serde_json::to_string(tasks).unwrap_or_default();
    pod["spec"]["containers"][0]["env"] = json!([{"name": TASKS, "value": tasks}]);
    match client {
        Client::PodA => pod["metadata"]["labels"]["role"] = "friend".into(),
        Client::NodeA | Client::NodeB => {
            pod["spec"]["hostNetwork"] = true.into();
            pod["spec"]["dnsPolicy"] = "ClusterFirstWithHostNet".into();
        }
        Client::Hairpin => {
            pod["spec"]["containers"][0]["ports"] = json!([
                {"name": "http", "containerPort": HTTP},
            ]);
        }
        Client::PodB | Client::Confined => {}
    }
    pod
}

// === impl PodOptions ===

impl PodOptions<'_> {
    /// Returns a pod on a node; on the only one if there is no such number. For pods
    /// placed by the node's name, as in DaemonSets, the scheduler reports when the node
    /// cannot take them.
    fn pod(&self, name: &str, node: usize, arguments: &[&str]) -> Value {
        let node = self.nodes.get(node).or_else(|| self.nodes.first());
        let node = node.map_or("", |node| node.name.as_str());
        let mut words = vec!["connectivity", "probe"];
        words.extend_from_slice(arguments);
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "affinity": {"nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchFields": [
                            {"key": "metadata.name", "operator": "In", "values": [node]},
                        ]}],
                    },
                }},
                "tolerations": [{"operator": "Exists"}],
                "securityContext": {
                    "runAsNonRoot": true, "runAsUser": 65_534, "runAsGroup": 65_534,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [{
                    "name": "probe", "image": self.image, "imagePullPolicy": self.pull_policy,
                    "args": words,
                    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": false,
                        "readOnlyRootFilesystem": true,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }],
            },
        })
    }

    fn server(&self, name: &str, node: usize) -> Value {
        let mut pod = self.pod(name, node, &["--name", name, "--serve"]);
        pod["metadata"]["labels"] = json!({"app": "server", "server": "a"});
        let container = &mut pod["spec"]["containers"][0];
        container["ports"] = json!([{"name": "http", "containerPort": HTTP}]);
        pod
    }

    fn host_server(&self, name: &str, node: usize) -> Value {
        let ports = [self.host_ports.http, self.host_ports.echo].map(|port| port.to_string());
        let [http, echo] = &ports;
        let arguments = ["--name", name, "--serve", "--http", http, "--echo", echo];
        let mut pod = self.pod(name, node, &arguments);
        pod["spec"]["hostNetwork"] = true.into();
        pod["spec"]["containers"][0]["ports"] = json!([
            {"name": "http", "containerPort": self.host_ports.http},
        ]);
        pod
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize) -> Vec<Node> {
        let node = |number| Node {
            name: format!("n{number}"),
            addresses: vec![],
        };
        (0..count).map(node).collect()
    }

    fn options(nodes: &[Node]) -> PodOptions<'_> {
        PodOptions {
            image: "image:1",
            pull_policy: "IfNotPresent",
            nodes,
            host_ports: HostPorts::default(),
            settle: 5,
        }
    }

    fn node_of(pod: &Value) -> &str {
        pod.pointer(
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
             /nodeSelectorTerms/0/matchFields/0/values/0",
        )
        .and_then(Value::as_str)
        .unwrap()
    }

    #[test]
    fn two_nodes_have_a_server_each_and_one_node_has_both() {
        let two = nodes(2);
        let pods = servers(&options(&two));
        let place = |name: &str| {
            let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name);
            node_of(pod.unwrap()).to_owned()
        };
        assert_eq!([place("server-a"), place("server-b")], ["n0", "n1"]);
        assert_eq!([place("host-a"), place("host-b")], ["n0", "n1"]);
        let one = nodes(1);
        let pods = servers(&options(&one));
        assert!(pods.iter().all(|pod| node_of(pod) == "n0"));
        assert!(pods.iter().all(|pod| pod["metadata"]["name"] != "host-b"));
    }

    #[test]
    fn clients_get_their_tasks_and_only_node_clients_the_host_network() {
        let two = nodes(2);
        for it in Client::ALL {
            let pod = client(it, &[], &options(&two));
            let is_host = pod["spec"]["hostNetwork"] == true;
            assert_eq!(is_host, matches!(it, Client::NodeA | Client::NodeB));
            assert_eq!(pod["spec"]["containers"][0]["env"][0]["value"], "[]");
        }
    }

    #[test]
    fn policies_select_what_the_pods_are_labelled() {
        let two = nodes(2);
        let pods = servers(&options(&two));
        let label = |name: &str, key: &str| {
            let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name);
            pod.unwrap()["metadata"]["labels"][key].clone()
        };
        assert_eq!(label("server-a", "server"), "a");
        assert_eq!(label("server-b", "server"), "b");
        assert_eq!(label("guarded", "app"), "guarded");
        let friend = client(Client::PodA, &[], &options(&two));
        assert_eq!(friend["metadata"]["labels"]["role"], "friend");
        let confined = client(Client::Confined, &[], &options(&two));
        assert_eq!(confined["metadata"]["labels"]["app"], "confined");
    }
}
