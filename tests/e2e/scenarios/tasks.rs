//! A pod that starts processes until it may start no more: its neighbours are served,
//! entered and started as before, and it goes when it is deleted.

use std::{thread, time::Duration};

use tests::{Cluster, Failure, ensure, eventually};

use super::node::{Node, end, ready, same, states};

const NODE: &str = "node-2";
/// What a pod may have: enough for a container to start, far less than is tried.
const MOST: u32 = 64;

const BESIDE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: tasks-beside, labels: {tasks: beside}}
spec:
  nodeName: NODE
  containers:
  - name: main
    image: IMAGE
    readinessProbe: {exec: {command: [/program, env]}, periodSeconds: 1, timeoutSeconds: 5}
    livenessProbe: {httpGet: {port: 8080}, periodSeconds: 1, failureThreshold: 3}
";
const GREEDY: &str = "
apiVersion: v1
kind: Pod
metadata: {name: tasks-greedy}
spec:
  nodeName: NODE
  containers: [{name: main, image: IMAGE, args: [fork, '100000']}]
";
const LATE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: tasks-late, labels: {tasks: beside}}
spec:
  nodeName: NODE
  containers:
  - name: main
    image: IMAGE
    readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
";

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let node = Node::of(cluster, NODE);
    let configured = node.configured(|text| format!("{text}podPidsLimit: {MOST}\n"))?;
    node.restart_agent(0)?;
    let result = is_survived(cluster, &node);
    let gone = end(cluster, "pod tasks-beside tasks-greedy tasks-late");
    drop(configured);
    node.restart_agent(0)?;
    result.and(gone)
}

fn is_survived(cluster: &Cluster, node: &Node<'_>) -> Result<(), Failure> {
    node.apply(BESIDE)?;
    ready(cluster, "pod tasks-beside")?;
    let before = states(cluster, "pod tasks-beside")?;

    node.apply(GREEDY)?;
    let count = eventually("a pod that may start no more", 60, || {
        let log = cluster.kubectl("logs tasks-greedy")?;
        let (count, why) = log.split_once(" of 100000 children: ").ok_or(log.clone())?;
        ensure(why.contains("temporarily unavailable"), why)?;
        Ok(count.parse::<u32>()?)
    })?;
    ensure(count < MOST, format!("{count} children, at most {MOST}"))?;

    // meanwhile its neighbour is probed several times, entered, and gets another beside it
    node.apply(LATE)?;
    ready(cluster, "pod tasks-late")?;
    thread::sleep(Duration::from_secs(5));
    let entered = cluster.kubectl("exec tasks-beside -- /program env")?;
    ensure(entered.contains("PATH="), entered)?;
    same(&before, &states(cluster, "pod tasks-beside")?)?;
    let told = cluster.get(&format!("node {NODE}"))?;
    let conditions = told["status"]["conditions"].as_array();
    for condition in conditions.into_iter().flatten() {
        let wanted = if condition["type"] == "Ready" {
            "True"
        } else {
            "False"
        };
        ensure(condition["status"] == wanted, condition.to_string())?;
    }
    let greedy = cluster.get("pod tasks-greedy")?;
    let restarts = &greedy["status"]["containerStatuses"][0]["restartCount"];
    ensure(restarts == 0, format!("it was restarted {restarts} times"))?;
    let begun = std::time::Instant::now();
    cluster.kubectl("delete pod tasks-greedy --grace-period=1 --timeout=60s")?;
    let took = begun.elapsed();
    ensure(
        took < Duration::from_secs(20),
        format!("its end took {took:?}"),
    )
}
