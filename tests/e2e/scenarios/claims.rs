//! A pod gets a device of a real driver by its claim, keeps it while the agent is killed,
//! and the driver gets it back, also when it is away at the pod's end.
//!
//! The driver is sigs.k8s.io/dra-example-driver's; `ORLOP_DRA_DRIVER` names another file.
//! It needs a containerd that knows CDI (1.7 or later): `ORLOP_CONTAINERD=FOLDER` names
//! one. The claim is allocated by hand.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::json;
use tests::{
    Cluster, Failure, ensure, eventually, machine, no_stock_program, report::skip, stock_program,
};

use super::IMAGE;

const NODE: &str = "node-2";
const DRIVER: &str = "gpu.example.com";

const VARIABLE: &str = "ORLOP_DRA_DRIVER";
const PROGRAM: &str = "dra-example-kubeletplugin";

const OBJECTS: &str = "
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: DRIVER}
spec: {selectors: [{cel: {expression: \"device.driver == 'DRIVER'\"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: claimed}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: DRIVER}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: claims}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: gpu, resourceClaimName: claimed}]
  containers:
  - {name: with, image: IMAGE, resources: {claims: [{name: gpu}]}}
  - {name: without, image: IMAGE, args: [serve, '8081', '7778']}
";

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let Some(program) = stock_program(VARIABLE, PROGRAM) else {
        return skip(no_stock_program(VARIABLE, PROGRAM));
    };
    if !knows_cdi(&containerd_version()?) {
        return skip(
            "containerd is older than 1.7 and knows no CDI; ORLOP_CONTAINERD names the folder \
             of another",
        );
    }
    let folder = cluster.dir.join("nodes").join(NODE);
    fs::copy(program, folder.join("driver"))?;
    let config = cluster.kubectl("config view --raw --flatten")?;
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(cluster.dir.join("cluster.json"))?)?;
    let server = record["nodes"][0]["address"].as_str().unwrap_or_default();
    let config = config.replace(
        &format!("https://127.0.0.1:{}", record["port"]),
        &format!("https://{server}:6443"),
    );
    fs::write(folder.join("driver.kubeconfig"), config)?;
    let pid = record["nodes"][1]["pid"].to_string();
    let driver = Driver::start(&folder, &pid)?;
    eventually("the driver's devices", 60, || {
        let slices = cluster.kubectl("get resourceslices -o name")?;
        ensure(!slices.is_empty(), "no slices")
    })?;

    let objects = OBJECTS.replace("NODE", NODE).replace("IMAGE", IMAGE);
    cluster.kubectl_with("apply -f -", &objects.replace("DRIVER", DRIVER))?;
    allocate(cluster)?;
    cluster.kubectl("wait pod claims --for=condition=Ready --timeout=90s")?;
    let variables =
        |container: &str| cluster.kubectl(&format!("exec claims -c {container} -- /program env"));
    let given = "GPU_DEVICE_0=gpu-0";
    let with = variables("with")?;
    ensure(with.contains(given), format!("its variables are {with}"))?;
    let without = variables("without")?;
    ensure(!without.contains(given), "the other container has it, too")?;

    let containers = || cluster.kubectl("get pod claims -o jsonpath={..containerID}");
    let before = containers()?;
    ensure(
        machine::kill_program(&cluster.dir, NODE, &["orlop", "node-agent"]) > 0,
        "no agent was killed",
    )?;
    eventually("the next agent", 60, || {
        let said = cluster.kubectl(&format!("get --raw /api/v1/nodes/{NODE}/proxy/healthz"))?;
        ensure(said == "ok", said)
    })?;
    ensure(containers()? == before, "containers were replaced")?;

    drop(driver);
    cluster.kubectl("delete pod claims --wait=false")?;
    eventually("the containers' end", 60, || {
        let ended = cluster.kubectl("get pod claims -o jsonpath={..terminated.exitCode}")?;
        ensure(!ended.is_empty(), "they run")
    })?;
    let driver = Driver::start(&folder, &pid)?;
    eventually("the pod's end", 90, || {
        let left = cluster.kubectl("get pod claims --ignore-not-found -o name")?;
        ensure(left.is_empty(), left)
    })?;
    let log = driver.log()?;
    ensure(
        // `NodeUnprepareResources` or `UnprepareResourceClaims`, by the driver's version
        log.contains("UnprepareResource"),
        "the driver was not told to take the device back",
    )?;
    cluster.kubectl("delete resourceclaim claimed")?;
    cluster
        .kubectl(&format!("delete deviceclass {DRIVER}"))
        .map(drop)
}

/// The line that the nodes' containerd prints as its version.
fn containerd_version() -> Result<String, Failure> {
    let other = std::env::var("ORLOP_CONTAINERD").unwrap_or_default();
    let folder = match other.split_once('=') {
        Some((NODE, folder)) => folder,
        Some(_) => "",
        None => &other,
    };
    let program = Path::new(folder).join("containerd");
    let output = Command::new(program).arg("--version").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether this version line is of containerd 1.7 or later.
fn knows_cdi(version: &str) -> bool {
    let number = |text: &str| text.parse::<u32>().ok();
    version
        .split_whitespace()
        .find_map(|word| {
            let mut parts = word.trim_start_matches('v').split('.');
            Some((number(parts.next()?)?, number(parts.next()?)?))
        })
        .is_some_and(|version| version >= (1, 7))
}

/// What a scheduler says.
fn allocate(cluster: &Cluster) -> Result<(), Failure> {
    let uid = cluster.kubectl("get pod claims -o jsonpath={.metadata.uid}")?;
    let status = json!({"status": {
        "allocation": {"devices": {"results": [
            {"request": "gpu", "driver": DRIVER, "pool": NODE, "device": "gpu-0"},
        ]}},
        "reservedFor": [{"resource": "pods", "name": "claims", "uid": uid}],
    }});
    let words =
        "patch resourceclaim claimed --subresource=status --type=merge --patch-file=/dev/stdin";
    cluster.kubectl_with(words, &status.to_string()).map(drop)
}

/// The driver, on the node; it ends when dropped.
struct Driver {
    child: Child,
    log: PathBuf,
}

impl Driver {
    fn start(folder: &Path, pid: &str) -> Result<Self, Failure> {
        let log = folder.join("logs/driver.log");
        let out = File::create(&log)?;
        let child = Command::new("nsenter")
            .args(["--target", pid, "--net", "--mount", "--"])
            .args([
                "/mnt/driver",
                "--node-name",
                NODE,
                "--cdi-root",
                "/run/cdi",
                "-v",
                "5",
            ])
            .args(["--kubeconfig", "/mnt/driver.kubeconfig"])
            .env("HOME", "/root")
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()?;
        Ok(Self { child, log })
    }

    fn log(&self) -> Result<String, Failure> {
        Ok(fs::read_to_string(&self.log)?)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
