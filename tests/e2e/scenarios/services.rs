//! Services from pods: by name, TCP and UDP, headless, and none behind them.

use tests::{Cluster, Failure, ensure, eventually};

use super::IMAGE;

const MANIFEST: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: echo}
spec:
  replicas: 2
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      containers:
      - {name: echo, image: IMAGE}
---
apiVersion: v1
kind: Service
metadata: {name: echo}
spec:
  selector: {app: echo}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: tcp, port: 7, targetPort: 7777}
  - {name: udp, port: 7, targetPort: 7777, protocol: UDP}
---
apiVersion: v1
kind: Service
metadata: {name: headless}
spec:
  clusterIP: None
  selector: {app: echo}
  ports: [{port: 8080}]
---
apiVersion: v1
kind: Service
metadata: {name: empty}
spec:
  selector: {app: nobody}
  ports: [{port: 80}]
---
apiVersion: v1
kind: Pod
metadata: {name: caller}
spec:
  containers: [{name: caller, image: IMAGE}]
";

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let manifest = MANIFEST.replace("IMAGE", IMAGE);
    cluster.kubectl_with("apply -f -", &manifest)?;
    cluster.kubectl("rollout status deployment/echo --timeout=60s")?;
    cluster.kubectl("wait pod/caller --for=condition=Ready --timeout=60s")?;
    let call = |words: &str| cluster.kubectl(&format!("exec caller -- /program {words}"));

    let answers = eventually("answers from both pods", 30, || {
        let answers = call("get echo:80 40")?;
        let different: std::collections::BTreeSet<_> = answers.lines().collect();
        ensure(different.len() == 2, format!("from {different:?}"))?;
        Ok(answers)
    })?;
    ensure(!answers.contains("error"), answers)?;
    for words in [
        "echo echo.default.svc.cluster.local:7 udp hello",
        "echo echo.default:7 tcp hello",
    ] {
        let answer = call(words)?;
        ensure(answer == "hello\n", format!("{words}: {answer}"))?;
    }
    let answer = call("get headless:8080 1")?;
    ensure(answer.starts_with("echo-"), format!("headless: {answer}"))?;

    // No endpoints: refused at once, not timed out.
    let started = std::time::Instant::now();
    let refused = cluster
        .command("exec caller -- /program get empty:80 1")
        .output()?;
    let text = String::from_utf8_lossy(&refused.stdout).into_owned();
    ensure(
        text.contains("refused"),
        format!("an empty Service: {text}"),
    )?;
    ensure(
        started.elapsed().as_millis() < 2500,
        format!("refused after {:?}", started.elapsed()),
    )?;
    let missing = cluster
        .command("exec caller -- /program get no-such-name:80 1")
        .output()?;
    ensure(
        !missing.status.success(),
        "a name that does not exist does not resolve",
    )?;
    cluster
        .kubectl_with("delete --grace-period=1 -f -", &manifest)
        .map(drop)
}
