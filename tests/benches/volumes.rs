//! Measures how long claims wait for volumes of the nodes' own driver, and pods for both.
//!
//! `cargo bench --package tests --bench volumes` starts one test host and measures it. It needs
//! root and kubectl. Other load on the machine distorts times, so the load is printed beside them.

use std::time::{Duration, Instant};

use control_client::{Client, DeleteOptions, Discard, Resource, Selection, resources};
use serde_json::{Value, json};
use tests::{Cluster, Failure};

const SINGLES: usize = 20;
const BATCH: usize = 100;
const NAMESPACE: &str = "default";
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(180);

fn main() -> Result<(), Failure> {
    if !nix::unistd::geteuid().is_root() || tests::kubectl_program().is_none() {
        println!("skipped: clusters need root and kubectl");
        return Ok(());
    }
    println!("load average at the start: {}", load());
    let dir = tempfile::tempdir()?;
    let cluster = Cluster::up_with(&dir.path().join("cluster"), 1, &["--no-demo"])?;
    let measured = tokio::runtime::Runtime::new()?.block_on(measure(&cluster));
    cluster.down()?;
    println!("load average at the end: {}", load());
    measured
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

async fn measure(cluster: &Cluster) -> Result<(), Failure> {
    let client = Client::from_kubeconfig(&cluster.kubeconfig()).await?;
    let class = json!({"metadata": {"name": "local-at-once"}, "provisioner": "csi.orlop.dev",
        "volumeBindingMode": "Immediate"});
    client
        .create::<Discard>(&resources::STORAGE_CLASSES, "", &class)
        .await?;

    let mut times = Vec::new();
    for number in 0..SINGLES {
        let name = format!("single-{number}");
        let began = Instant::now();
        claim(&client, &name, "local").await?;
        pod(&client, &name).await?;
        all(&client, &resources::PODS, 1, is_ready).await?;
        times.push(began.elapsed());
        clear(&client).await?;
    }
    times.sort();
    println!(
        "claim and pod created to pod Ready, one after the other: p50 {:.2} s, p90 {:.2} s of {SINGLES}",
        times[SINGLES / 2].as_secs_f64(),
        times[SINGLES * 9 / 10].as_secs_f64()
    );

    let began = Instant::now();
    for number in 0..BATCH {
        claim(&client, &format!("batch-{number}"), "local-at-once").await?;
    }
    all(&client, &resources::PERSISTENT_VOLUME_CLAIMS, BATCH, |it| {
        it["status"]["phase"] == "Bound"
    })
    .await?;
    println!(
        "{BATCH} claims created to the last one Bound: {:.2} s",
        began.elapsed().as_secs_f64()
    );
    clear(&client).await?;

    let began = Instant::now();
    for number in 0..BATCH {
        let name = format!("batch-{number}");
        claim(&client, &name, "local").await?;
        pod(&client, &name).await?;
    }
    all(&client, &resources::PODS, BATCH, is_ready).await?;
    println!(
        "{BATCH} claims and their pods created to the last pod Ready: {:.2} s",
        began.elapsed().as_secs_f64()
    );
    let began = Instant::now();
    clear(&client).await?;
    println!(
        "their deletion to the last volume gone: {:.2} s",
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

async fn claim(client: &Client, name: &str, class: &str) -> Result<(), Failure> {
    let claim = json!({"metadata": {"name": name}, "spec": {"storageClassName": class,
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}}});
    let resource = &resources::PERSISTENT_VOLUME_CLAIMS;
    client
        .create::<Discard>(resource, NAMESPACE, &claim)
        .await?;
    Ok(())
}

async fn pod(client: &Client, name: &str) -> Result<(), Failure> {
    let pod = json!({"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "registry.orlop.dev/pause:1",
            "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}});
    client
        .create::<Discard>(&resources::PODS, NAMESPACE, &pod)
        .await?;
    Ok(())
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it["type"] == "Ready" && it["status"] == "True")
}

/// Waits until there are `count` objects that are all as they should be.
async fn all(
    client: &Client,
    resource: &Resource,
    count: usize,
    is_done: impl Fn(&Value) -> bool,
) -> Result<(), Failure> {
    let began = Instant::now();
    let selection = Selection::all().namespace(NAMESPACE);
    loop {
        let found = client.list::<Value>(resource, &selection).await?.items;
        let done = found.iter().filter(|it| is_done(it)).count();
        if found.len() == count && done == count {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("{done} of {count} {} are done", resource.plural).into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Deletes pods and claims, and waits until the volumes are gone.
async fn clear(client: &Client) -> Result<(), Failure> {
    let selection = Selection::all().namespace(NAMESPACE);
    for resource in [&resources::PODS, &resources::PERSISTENT_VOLUME_CLAIMS] {
        for object in client.list::<Value>(resource, &selection).await?.items {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let options = DeleteOptions::default();
            client.delete(resource, NAMESPACE, name, &options).await?;
        }
    }
    for resource in [&resources::PODS, &resources::PERSISTENT_VOLUMES] {
        let began = Instant::now();
        while !client
            .list::<Value>(resource, &Selection::all())
            .await?
            .items
            .iter()
            .all(|it| it["metadata"]["namespace"] == "kube-system")
        {
            if began.elapsed() > PATIENCE {
                return Err(format!("{} stay", resource.plural).into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}
