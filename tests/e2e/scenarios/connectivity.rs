//! `orlop connectivity test`: all is well on a healthy cluster; a policy that denies shows as
//! failed lines; and its namespace goes, however it ends.

use std::{
    process::{Command, Output, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tests::{Cluster, Failure, ensure, eventually, node_programs};

const IMAGE: &str = "registry.orlop.dev/probe:1";

/// Denies what reaches the second server of every connectivity test.
const FAULT: &str = "apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: connectivity-fault}
spec:
  tier: Admin
  priority: 1
  subject:
    pods:
      namespaceSelector: {matchLabels: {orlop.dev/connectivity-test: \"true\"}}
      podSelector: {matchLabels: {server: b}}
  ingress:
  - {action: Deny, from: [{namespaces: {}}]}
";

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let healthy = finished(test(cluster, &["-o", "json"]))?;
    let result = parsed(&healthy)?;
    println!("{}", summary(&result));
    let failed = lines(&result, "fail");
    ensure(failed.is_empty(), format!("failed: {failed:#?}"))?;
    ensure(healthy.status.success(), "exit code 0 when nothing failed")?;
    let passed = lines(&result, "pass").len();
    ensure(passed >= 60, format!("only {passed} checks were made"))?;
    for group in [
        "pods",
        "services",
        "node-ports",
        "dns",
        "policy",
        "hosts",
        "mtu",
        "egress",
    ] {
        let all = lines(&result, "pass");
        let has = all.iter().any(|line| line["group"] == group);
        ensure(has, format!("no check of {group} passed"))?;
    }
    none_left(cluster)?;
    a_policy_that_denies_is_seen(cluster)?;
    a_probe_that_does_not_start_is_named(cluster)?;
    an_interrupted_test_cleans_up(cluster)
}

fn a_policy_that_denies_is_seen(cluster: &Cluster) -> Result<(), Failure> {
    let crd = Command::new(node_programs().join("orlop"))
        .args(["policy", "crd"])
        .output()?;
    cluster.kubectl_with("apply -f -", &String::from_utf8_lossy(&crd.stdout))?;
    eventually("the policy is accepted", 30, || {
        cluster.kubectl_with("apply -f -", FAULT)
    })?;
    let seen = eventually("failed checks", 90, || {
        let words = [
            "-o",
            "json",
            "--only",
            "pods",
            "--settle",
            "3s",
            "--exit-code",
            "7",
        ];
        let output = finished(test(cluster, &words))?;
        let result = parsed(&output)?;
        let failed = lines(&result, "fail");
        ensure(!failed.is_empty(), "all checks passed")?;
        let code = output.status.code();
        ensure(code == Some(7), format!("exit code {code:?}"))?;
        for line in &failed {
            let to = line["to"].as_str().unwrap_or_default();
            ensure(to.contains("server-b"), format!("not the fault: {line}"))?;
            let why = line["why"].as_str().unwrap_or_default();
            ensure(why.contains("no answer"), format!("no reason: {line}"))?;
        }
        ensure(
            lines(&result, "pass")
                .iter()
                .any(|line| line["to"] == "pod server-a, same node"),
            "what is allowed passes",
        )
    });
    cluster.kubectl("delete clusternetworkpolicy connectivity-fault")?;
    seen?;
    none_left(cluster)
}

fn a_probe_that_does_not_start_is_named(cluster: &Cluster) -> Result<(), Failure> {
    let words = [
        "--timeout",
        "6s",
        "--image-pull-policy",
        "Never",
        "--image",
        "none.example/none:1",
    ];
    let mut command = Command::new(node_programs().join("orlop"));
    command
        .args(["connectivity", "test", "--kubeconfig"])
        .arg(cluster.kubeconfig());
    let output = command.args(words).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure(!output.status.success(), "a test without probes fails")?;
    ensure(
        said.contains("ErrImageNeverPull") && said.contains("pod "),
        format!("the reason is not named: {said}"),
    )?;
    none_left(cluster)
}

fn an_interrupted_test_cleans_up(cluster: &Cluster) -> Result<(), Failure> {
    let child = test(cluster, &[])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let pid = Pid::from_raw(i32::try_from(child.id())?);
    eventually("a namespace of the test", 30, || {
        let there = namespaces(cluster)?;
        ensure(!there.is_empty(), "none yet")
    })?;
    std::thread::sleep(Duration::from_millis(500));
    kill(pid, Signal::SIGINT)?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure(
        !output.status.success() && said.contains("interrupted"),
        format!("{}: {said}", output.status),
    )?;
    none_left(cluster)
}

fn test(cluster: &Cluster, words: &[&str]) -> Command {
    let mut command = Command::new(node_programs().join("orlop"));
    command
        .args(["connectivity", "test", "--image", IMAGE, "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .args(words)
        .stdin(Stdio::null());
    command
}

fn finished(mut command: Command) -> Result<Output, Failure> {
    Ok(command.output()?)
}

fn parsed(output: &Output) -> Result<Value, Failure> {
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("no JSON ({error}): {said}").into()
    })
}

fn lines<'a>(result: &'a Value, verdict: &str) -> Vec<&'a Value> {
    let all = result["checks"].as_array().into_iter().flatten();
    all.filter(|line| line["result"] == verdict).collect()
}

fn summary(result: &Value) -> String {
    format!(
        "connectivity: {} passed, {} failed, {} skipped",
        result["passed"], result["failed"], result["skipped"]
    )
}

fn namespaces(cluster: &Cluster) -> Result<Vec<Value>, Failure> {
    let list = cluster.get("namespaces -l orlop.dev/connectivity-test=true")?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

fn none_left(cluster: &Cluster) -> Result<(), Failure> {
    let left = namespaces(cluster)?;
    ensure(
        left.is_empty(),
        format!("{} namespaces are left", left.len()),
    )
}
