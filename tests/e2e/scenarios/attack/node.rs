//! A thief with the credential of `node-2` tries to become more than that node.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tests::{Cluster, Failure, ensure, eventually, lan::Lan, netns};

use super::{Attempt, judge};
use crate::scenarios::{IMAGE, node::Node};

const STOLEN: &str = "node-2";
const VICTIM: &str = "node-1";
/// The address of the server's node.
const SERVER: &str = "10.88.0.11";
/// Longer than the controllers take to approve and sign a request.
const SIGNING: Duration = Duration::from_secs(3);

/// What the attempts need beside the node: a secret, and a pod of another node that reads it.
const WORLD: &str = "
apiVersion: v1
kind: Secret
metadata: {name: prize}
stringData: {word: swordfish}
---
apiVersion: v1
kind: Pod
metadata: {name: prized}
spec:
  nodeName: node-1
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: IMAGE, env: [{name: W, valueFrom: {secretKeyRef: {name: prize, key: word}}}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: owned, labels: {app: owned}}
spec:
  nodeName: node-2
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: IMAGE}]
---
apiVersion: v1
kind: Service
metadata: {name: owned}
spec: {selector: {app: owned}, ports: [{port: 80, targetPort: 8080}]}
";

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    cluster.kubectl_with("apply -f -", &WORLD.replace("IMAGE", IMAGE))?;
    cluster.kubectl("wait pod/prized pod/owned --for=condition=Ready --timeout=60s")?;
    let thief = Thief::new(cluster)?;
    let result = judge(attempts(cluster, &thief));
    let _ = cluster.kubectl("delete csr thief-names --ignore-not-found");
    cluster.kubectl("delete pod/prized pod/owned secret/prize service/owned --grace-period=1")?;
    result
}

fn attempts(cluster: &Cluster, thief: &Thief<'_>) -> Vec<Attempt> {
    let mut all: Vec<Attempt> = FORBIDDEN
        .iter()
        .map(|(what, words)| Attempt {
            what: (*what).to_owned(),
            refusal: thief.is_refused(words, None),
        })
        .collect();
    let mut attempt = |what: &str, refusal: Result<String, Failure>| {
        all.push(Attempt {
            what: what.to_owned(),
            refusal,
        });
    };
    attempt(
        "a serving certificate for the API server's names",
        names(cluster, thief),
    );
    for range in ["0.0.0.0/1", "10.88.0.11/32", "10.96.0.0/16", "::/0"] {
        attempt(
            &format!("announce {range} as pods' range"),
            ranges(cluster, thief, range),
        );
    }
    attempt(
        "its pod has the API server's address",
        pod_address(cluster, thief),
    );
    attempt("a pod of its own for another node", foreign_pod(thief));
    attempt("the label of a control plane", label(thief));
    all
}

/// Requests that are refused whatever else is so, by what they would give.
const FORBIDDEN: &[(&str, &str)] = &[
    ("another node's secret", "get secret prize"),
    ("all secrets of kube-system", "get secrets -n kube-system"),
    ("all secrets of all namespaces", "get secrets -A"),
    (
        "passwords of BGP peers of other nodes",
        "get secret -n kube-system orlop-bgp",
    ),
    ("all pods", "get pods -A"),
    (
        "another node's pods",
        "get pods -A --field-selector spec.nodeName=node-1",
    ),
    ("another node's pod's environment", "get pod prized"),
    ("another node's object", "annotate node node-1 stolen=yes"),
    (
        "another node's taint",
        "taint node node-1 stolen=yes:NoExecute",
    ),
    ("another node's end", "delete node node-1"),
    (
        "another node's lease",
        "delete lease node-1 -n kube-node-lease",
    ),
    ("another node's pod", "delete pod prized"),
    (
        "another node's pod's status",
        "patch pod prized --subresource status --type merge -p {\"status\":{\"podIP\":\"10.88.0.12\"}}",
    ),
    (
        "a command in another node's pod",
        "exec prized -- /program env",
    ),
    (
        "a token of an administrator's account",
        "create token -n kube-system clusterrole-aggregation-controller",
    ),
    (
        "a token of the network's account",
        "create token -n kube-system orlop-network",
    ),
    (
        "a role of its own",
        "create clusterrolebinding thief --clusterrole cluster-admin --user system:node:node-2",
    ),
    (
        "the identity of an administrator",
        "get secrets --as admin --as-group system:masters",
    ),
    (
        "another node's kubelet",
        "get --raw /api/v1/nodes/node-1/proxy/pods",
    ),
    (
        "a Service's endpoints",
        "delete endpointslices -l kubernetes.io/service-name=owned",
    ),
];

/// Certificates for what is the API server's are not issued, whatever the node says of itself.
fn names(cluster: &Cluster, thief: &Thief<'_>) -> Result<String, Failure> {
    let before = cluster.get(&format!("node {STOLEN}"))?["status"]["addresses"].clone();
    let status = json!({"status": {"addresses": [
        {"type": "InternalIP", "address": SERVER},
        {"type": "InternalIP", "address": "10.96.0.1"},
        {"type": "InternalDNS", "address": "kubernetes.default.svc"},
        {"type": "Hostname", "address": "node-2"},
    ]}});
    let lie = thief.patch(&format!("node {STOLEN} --subresource status"), &status);
    let mut params = rcgen::CertificateParams::new(vec![
        "kubernetes.default.svc".to_owned(),
        "10.96.0.1".to_owned(),
        SERVER.to_owned(),
    ])?;
    let name = &mut params.distinguished_name;
    name.push(rcgen::DnType::OrganizationName, "system:nodes");
    name.push(rcgen::DnType::CommonName, format!("system:node:{STOLEN}"));
    let key = rcgen::KeyPair::generate()?;
    let request = params.serialize_request(&key)?.pem()?;
    let object = json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "thief-names"},
        "spec": {
            "request": STANDARD.encode(request),
            "signerName": "kubernetes.io/kubelet-serving",
            "usages": ["digital signature", "server auth"],
        },
    });
    let asked = thief.run("create -f -", Some(&object.to_string()));
    let approval = thief.run("certificate approve thief-names", None);
    ensure(approval.is_err(), "the node approved its own request")?;
    std::thread::sleep(SIGNING);
    let found = match &asked {
        Ok(_) => cluster.get("csr thief-names")?["status"].clone(),
        Err(_) => Value::Null,
    };
    // The truth again, for what comes after.
    let truth = json!({"status": {"addresses": before}});
    cluster.kubectl(&format!(
        "patch node {STOLEN} --subresource status --type merge -p {truth}"
    ))?;
    let issued = !found["certificate"].is_null();
    let approved = found["conditions"].as_array().is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| condition["type"] == "Approved")
    });
    ensure(!issued && !approved, format!("the request became {found}"))?;
    Ok(match (asked, lie) {
        (Err(error), _) => code(&error.to_string()),
        (_, Err(error)) => format!("not approved; addresses {}", code(&error.to_string())),
        _ => "not approved".to_owned(),
    })
}

/// No other node gets a route that the thief asks for, and loses none of its own.
fn ranges(cluster: &Cluster, thief: &Thief<'_>, range: &str) -> Result<String, Failure> {
    let victim = Node::of(cluster, VICTIM);
    let routes = || -> Result<String, Failure> {
        let network = netns::of(victim.runtime()?[0]);
        let both = ["-4", "-6"]
            .map(|family| netns::inside(&network, &format!("ip {family} route show table all")));
        let [four, six] = both;
        Ok(four? + &six?)
    };
    let before = routes()?;
    let pools = json!({"default": [range]}).to_string();
    let change = json!({"metadata": {"annotations": {"orlop.dev/ip-pools": pools}}});
    let said = thief.patch(&format!("node {STOLEN}"), &change);
    std::thread::sleep(Duration::from_secs(2));
    let after = routes()?;
    let undo = json!({"metadata": {"annotations": {"orlop.dev/ip-pools": null}}});
    cluster.kubectl(&format!("patch node {STOLEN} --type merge -p {undo}"))?;
    let came: Vec<&str> = after
        .lines()
        .filter(|line| line.contains(range))
        .filter(|line| !before.contains(*line))
        .collect();
    ensure(came.is_empty(), format!("{VICTIM} got {}", came.join("; ")))?;
    let default = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with("default"))
            .count()
    };
    ensure(
        default(&before) == default(&after),
        "a default route changed",
    )?;
    Ok(said.map_or_else(|error| code(&error.to_string()), |_| "no route".to_owned()))
}

/// A pod's status does not bring the API server's address among a Service's endpoints.
fn pod_address(cluster: &Cluster, thief: &Thief<'_>) -> Result<String, Failure> {
    let lie = json!({"status": {"podIP": SERVER, "podIPs": [{"ip": SERVER}]}});
    let said = thief.patch("pod owned --subresource status", &lie);
    std::thread::sleep(Duration::from_secs(1));
    let slices = cluster.get("endpointslices -l kubernetes.io/service-name=owned")?;
    ensure(
        !slices.to_string().contains(SERVER),
        "the address is among the endpoints",
    )?;
    // The agent says the truth again.
    eventually("the pod's own address", 60, || {
        let pod = cluster.get("pod owned")?;
        ensure(
            pod["status"]["podIP"] != SERVER,
            "it has the server's address",
        )
    })?;
    Ok(said.map_or_else(
        |error| code(&error.to_string()),
        |_| "no endpoint".to_owned(),
    ))
}

fn foreign_pod(thief: &Thief<'_>) -> Result<String, Failure> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "thief",
            "annotations": {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.hash": "x"},
        },
        "spec": {"nodeName": VICTIM, "containers": [{"name": "main", "image": IMAGE}]},
    });
    thief.is_refused("create -f -", Some(&pod.to_string()))
}

fn label(thief: &Thief<'_>) -> Result<String, Failure> {
    let labels = "label node node-2 node-restriction.kubernetes.io/trusted=yes";
    thief.is_refused(labels, None)
}

/// kubectl with the stolen credential, on the nodes' network.
struct Thief<'a> {
    cluster: &'a Cluster,
    network: PathBuf,
    kubeconfig: PathBuf,
}

impl<'a> Thief<'a> {
    fn new(cluster: &'a Cluster) -> Result<Self, Failure> {
        let lan = Lan::join(&cluster.dir, "10.88.0.2/24")?;
        let folder = cluster.dir.join("nodes").join(STOLEN).join("credentials");
        Ok(Self {
            cluster,
            network: lan.network(),
            kubeconfig: folder.join("kubeconfig"),
        })
    }

    fn run(&self, words: &str, input: Option<&str>) -> Result<String, Failure> {
        use std::io::Write;
        let kubectl = self.cluster.command("");
        let program = kubectl.get_program().to_string_lossy().into_owned();
        let mut command: Command = netns::command(&self.network, &program);
        let mut child = command
            .args(words.split_whitespace())
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.unwrap_or_default().as_bytes())?;
        }
        let done = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        if done.status.success() {
            Ok(String::from_utf8_lossy(&done.stdout).into_owned())
        } else {
            Err(said.into())
        }
    }

    fn patch(&self, what: &str, change: &Value) -> Result<String, Failure> {
        self.run(&format!("patch {what} --type merge -p {change}"), None)
    }

    /// The server's refusal, by its code; anything else, an answer too, is an error.
    fn is_refused(&self, words: &str, input: Option<&str>) -> Result<String, Failure> {
        match self.run(words, input) {
            Ok(answer) => Err(format!("was answered: {}", answer.trim()).into()),
            Err(error) => {
                let said = error.to_string();
                let code = code(&said);
                ensure(code != "?", said)?;
                Ok(code)
            }
        }
    }
}

/// The code behind kubectl's words for a refusal.
fn code(said: &str) -> String {
    let known = [
        ("(Forbidden)", "403"),
        ("is forbidden", "403"),
        ("cannot create resource", "403"),
        ("(Unauthorized)", "401"),
        ("(NotFound)", "404"),
        ("(Invalid)", "422"),
        ("is invalid", "422"),
        ("(BadRequest)", "400"),
    ];
    let found = known.iter().find(|(words, _)| said.contains(words));
    found.map_or("?", |(_, code)| *code).to_owned()
}
