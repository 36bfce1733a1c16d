//! `kubectl apply` of a Deployment and a Service, twice, then with a change.

use tests::{Cluster, Failure, ensure};

use super::IMAGE;

fn manifest(replicas: u8) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: applied, labels: {{app: applied}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: applied}}}}
  template:
    metadata: {{labels: {{app: applied}}}}
    spec:
      containers:
      - name: web
        image: {IMAGE}
        ports: [{{containerPort: 8080}}]
---
apiVersion: v1
kind: Service
metadata: {{name: applied}}
spec:
  selector: {{app: applied}}
  ports: [{{port: 80, targetPort: 8080}}]
"
    )
}

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let first = cluster.kubectl_with("apply -f -", &manifest(1))?;
    ensure(
        first.matches("created").count() == 2,
        format!("first: {first}"),
    )?;
    let second = cluster.kubectl_with("apply -f -", &manifest(1))?;
    ensure(
        second.matches("unchanged").count() == 2,
        format!("second: {second}"),
    )?;
    let third = cluster.kubectl_with("apply -f -", &manifest(2))?;
    ensure(
        third.contains("deployment.apps/applied configured")
            && third.contains("service/applied unchanged"),
        format!("third: {third}"),
    )?;
    cluster.kubectl("rollout status deployment/applied --timeout=60s")?;
    let refused = cluster
        .command("create deployment Wrong_Name --image=x")
        .output()?;
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure(
        text.contains("is invalid: metadata.name: Invalid value: \"Wrong_Name\""),
        format!("wording of an invalid name: {text}"),
    )?;
    cluster
        .kubectl("delete deployment/applied service/applied --wait=true")
        .map(drop)
}
