//! Network policy: who may is answered, who may not is not, from the moment that
//! the policy is there until it is gone.

use tests::{Cluster, Failure, ensure, eventually};

use super::IMAGE;

const PODS: &str = "apiVersion: v1
kind: Pod
metadata: {name: guarded, labels: {app: guarded}}
spec:
  containers: [{name: guarded, image: IMAGE}]
---
apiVersion: v1
kind: Pod
metadata: {name: friend, labels: {role: friend}}
spec:
  containers: [{name: friend, image: IMAGE}]
---
apiVersion: v1
kind: Pod
metadata: {name: stranger}
spec:
  containers: [{name: stranger, image: IMAGE}]
---
apiVersion: v1
kind: Service
metadata: {name: guarded}
spec:
  selector: {app: guarded}
  ports: [{port: 80, targetPort: 8080}]
";

const POLICY: &str = "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: friends-only}
spec:
  podSelector: {matchLabels: {app: guarded}}
  ingress:
  - from: [{podSelector: {matchLabels: {role: friend}}}]
    ports: [{port: 8080}]
";

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let pods = PODS.replace("IMAGE", IMAGE);
    cluster.kubectl_with("apply -f -", &pods)?;
    cluster
        .kubectl("wait pod/guarded pod/friend pod/stranger --for=condition=Ready --timeout=60s")?;
    let reaches = |who: &str| -> Result<bool, Failure> {
        let asked = cluster
            .command(&format!("exec {who} -- /program get guarded:80 1"))
            .output()?;
        let text = String::from_utf8_lossy(&asked.stdout).into_owned();
        match (text.trim() == "guarded", text.contains("timed out")) {
            (true, _) => Ok(true),
            (_, true) => Ok(false),
            _ => Err(format!("{who} got neither an answer nor silence: {text}").into()),
        }
    };
    let both = |friend: bool, stranger: bool| {
        eventually("verdicts", 30, || {
            let found = (reaches("friend")?, reaches("stranger")?);
            ensure(
                found == (friend, stranger),
                format!("friend and stranger reach it: {found:?}"),
            )
        })
    };
    both(true, true)?;
    cluster.kubectl_with("apply -f -", POLICY)?;
    both(true, false)?;
    cluster.kubectl("label pod stranger role=friend")?;
    both(true, true)?;
    cluster.kubectl("label pod friend role-")?;
    both(false, true)?;
    cluster.kubectl("delete networkpolicy friends-only")?;
    both(true, true)?;
    cluster
        .kubectl_with("delete --grace-period=1 -f -", &pods)
        .map(drop)
}
