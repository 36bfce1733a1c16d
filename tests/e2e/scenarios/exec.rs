//! Logs and exec through the API server and the node agent.

use tests::{Cluster, Failure, ensure};

use super::IMAGE;

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    cluster.kubectl(&format!("run talker --image={IMAGE} --port=8080"))?;
    cluster.kubectl("wait pod/talker --for=condition=Ready --timeout=60s")?;
    let log = cluster.kubectl("logs talker")?;
    ensure(
        log.contains("talker serves HTTP on 8080"),
        format!("log: {log}"),
    )?;
    let answer = cluster.kubectl("exec talker -- /program get 127.0.0.1:8080 2")?;
    ensure(answer == "talker\ntalker\n", format!("exec: {answer}"))?;
    let failed = cluster
        .command("exec talker -- /program get 127.0.0.1:1 1")
        .output()?;
    ensure(
        failed.status.code() == Some(1),
        format!("the program's exit code arrives: {:?}", failed.status),
    )?;
    cluster
        .kubectl("delete pod talker --grace-period=1")
        .map(drop)
}
