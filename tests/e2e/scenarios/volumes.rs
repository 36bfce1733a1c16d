//! What a container is given: variables, files, an identity.

use tests::{Cluster, Failure, ensure};

use super::IMAGE;

const MANIFEST: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue, shape: round}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden}
stringData: {word: swordfish}
---
apiVersion: v1
kind: Pod
metadata: {name: given, labels: {app: given}}
spec:
  containers:
  - name: given
    image: IMAGE
    env:
    - {name: COLOUR, valueFrom: {configMapKeyRef: {name: settings, key: colour}}}
    - {name: WORD, valueFrom: {secretKeyRef: {name: hidden, key: word}}}
    - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    volumeMounts:
    - {name: settings, mountPath: /settings}
    - {name: hidden, mountPath: /hidden}
    - {name: scratch, mountPath: /scratch}
  volumes:
  - {name: settings, configMap: {name: settings}}
  - {name: hidden, secret: {secretName: hidden}}
  - {name: scratch, emptyDir: {medium: Memory}}
";

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let manifest = MANIFEST.replace("IMAGE", IMAGE);
    cluster.kubectl_with("apply -f -", &manifest)?;
    cluster.kubectl("wait pod/given --for=condition=Ready --timeout=60s")?;
    let read = |words: &str| cluster.kubectl(&format!("exec given -- /program {words}"));
    let variables = read("env")?;
    let ip = cluster.get("pod given")?["status"]["podIP"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    for line in [
        "COLOUR=blue",
        "WORD=swordfish",
        "POD_NAME=given",
        &format!("POD_IP={ip}"),
    ] {
        ensure(
            variables.lines().any(|l| l == line),
            format!("no {line} in {variables}"),
        )?;
    }
    for (path, text) in [
        ("/settings/shape", "round"),
        ("/hidden/word", "swordfish"),
        (
            "/var/run/secrets/kubernetes.io/serviceaccount/namespace",
            "default",
        ),
    ] {
        let found = read(&format!("cat {path}"))?;
        ensure(found == text, format!("{path}: {found}"))?;
    }
    let token = read("cat /var/run/secrets/kubernetes.io/serviceaccount/token")?;
    ensure(token.split('.').count() == 3, "the token is a JWT")?;
    let authority = read("cat /var/run/secrets/kubernetes.io/serviceaccount/ca.crt")?;
    ensure(
        authority.contains("BEGIN CERTIFICATE"),
        "the authority is given",
    )?;
    cluster
        .kubectl_with("delete --grace-period=1 -f -", &manifest)
        .map(drop)
}
