//! A namespace goes with all that is in it.

use tests::{Cluster, Failure, ensure, eventually};

use super::IMAGE;

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    cluster.kubectl("create namespace passing")?;
    eventually("its service account and root certificate", 20, || {
        cluster.kubectl("get serviceaccount default -n passing")?;
        cluster
            .kubectl("get configmap kube-root-ca.crt -n passing")
            .map(drop)
    })?;
    cluster.kubectl(&format!(
        "create deployment inside --image={IMAGE} --replicas=2 -n passing"
    ))?;
    cluster.kubectl("create configmap more --from-literal=a=b -n passing")?;
    cluster.kubectl("rollout status deployment/inside -n passing --timeout=60s")?;
    cluster.kubectl("delete namespace passing --wait=false")?;
    let refused = cluster
        .command("create configmap late -n passing")
        .output()?;
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure(
        refused.status.code() == Some(1)
            && (text.contains("because it is being terminated") || text.contains("not found")),
        format!("creation in a namespace that goes: {text}"),
    )?;
    eventually("the namespace to be gone", 60, || {
        let gone = cluster.command("get namespace passing").output()?;
        ensure(!gone.status.success(), "it is still there")
    })
}
