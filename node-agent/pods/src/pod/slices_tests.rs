//! A pod whose control group systemd makes.

use node_agent_cgroups::fake::{LONG, Systemd};
use node_agent_cgroups::{CgroupLayout, CgroupManager, Cgroups};
use node_agent_cri::fake::Fake;

use crate::testing::Run;

#[tokio::test]
async fn a_pod_waits_for_its_slice_and_runs_in_it_until_its_end() {
    let mount = tempfile::tempdir().unwrap();
    std::fs::write(mount.path().join("cgroup.controllers"), "cpu memory").unwrap();
    let systemd = Systemd::default();
    systemd.end_jobs(Some("failed"));
    let (slices, _other_end) = systemd.slices(LONG).await;
    let layout = CgroupLayout::new(CgroupManager::Systemd, "/");
    let spec = serde_json::json!({"containers": [{"name": "a", "image": "i"}]});
    let run = Run::begin_with(spec, Fake::default(), |shared| {
        let found = Cgroups::find(mount.path(), layout.clone()).unwrap();
        shared.cgroups = Some(found.through(slices));
        shared.node.cgroups = layout;
    });
    run.until("told", |r| r.received("FailedCreatePodSandBox"))
        .await;
    assert!(run.received("kubepods-besteffort-podu.slice") && run.runtime.groups().is_empty());
    systemd.end_jobs(Some("done"));
    run.until("running", |r| r.phase() == "Running").await;
    assert_eq!(
        run.runtime.groups(),
        ["/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podu.slice"]
    );
    run.delete().await;
    let calls = systemd.calls();
    let stopped = calls
        .iter()
        .any(|c| c == "stop kubepods-besteffort-podu.slice");
    assert!(stopped, "{calls:?}");
}
