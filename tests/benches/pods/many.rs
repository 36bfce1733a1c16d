//! Measures many pods at once, and checks that nothing of them remains.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::json;
use tests::{Failure, machine};

use super::{cost::load, idle, start, subject::Subject, watching::names};

/// How long what pods leave behind may take to go.
const PATIENCE: Duration = Duration::from_secs(180);

/// As many as `most` pods fit on the node: started, looked at idle, removed.
pub async fn run(subject: &Subject, most: usize, idle: u64) -> Result<(), Failure> {
    let before = Left::of(subject, &BTreeSet::new())?;
    let watching = subject.watching();
    let names = names("crowd", most.saturating_sub(subject.others().await?));
    start::all(subject, &watching, &names, &json!({})).await?;
    idle::still(subject, &format!("{most} pods"), idle).await;
    let seen = watching.seen();
    let restarts: i32 = seen.values().map(|pod| pod.restarts).sum();
    let flips: usize = seen.values().map(|pod| pod.flips).sum();
    let took = subject.remove().await?;
    let uids = seen.into_values().map(|pod| pod.uid).collect();
    let asked = Instant::now();
    let left = loop {
        let left = Left::of(subject, &uids)?;
        if left == before || asked.elapsed() > PATIENCE {
            break left;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    println!(
        "{most} pods: {restarts} containers restarted, {flips} times one was no longer ready; \
         all removed after {:.1} s, nothing left {:.1} s later; load {}",
        took.as_secs_f64(),
        asked.elapsed().as_secs_f64(),
        load()
    );
    if left != before {
        return Err(format!("{left:?} is left, not {before:?}").into());
    }
    Ok(())
}

/// What a node has for its pods.
#[derive(Debug, PartialEq)]
struct Left {
    /// Devices of the node's network.
    links: usize,
    /// Processes of the runtime, one a pod.
    shims: usize,
    /// Folders and control groups that are named after these pods.
    named: Vec<String>,
}

impl Left {
    fn of(subject: &Subject, uids: &BTreeSet<String>) -> Result<Self, Failure> {
        let agent = subject.agent()?;
        let links = fs::read_to_string(format!("/proc/{agent}/net/dev"))?;
        let root = Path::new("/proc").join(agent.to_string()).join("root");
        let mut names: Vec<String> = ["var/lib/kubelet/pods", "var/log/pods"]
            .iter()
            .flat_map(|folder| fs::read_dir(root.join(folder)).into_iter().flatten())
            .flatten()
            .map(|entry| entry.path().display().to_string())
            .collect();
        let groups = machine::groups().into_iter();
        names.extend(groups.map(|path| path.display().to_string()));
        let of_pods = |name: &String| uids.iter().any(|uid| name.contains(uid));
        names.retain(of_pods);
        Ok(Self {
            links: links.lines().count(),
            shims: subject.shims(),
            named: names,
        })
    }
}
