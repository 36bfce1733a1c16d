//! The disk of a node's agent runs full: the node says so and takes no further pods; what runs
//! goes on; with room again everything is as before.

use std::{fs, time::Duration};

use tests::Failure;

use crate::{Drill, VICTIM, bounds::Bounds, host, timeline::now, workload::Workload};

const FOLDER: &str = "/var/lib/kubelet";
const FILLER: &str = "/var/lib/kubelet/filler";

pub fn run(drill: &Drill, bounds: &mut Bounds) -> Result<(), Failure> {
    let small = Small::put(drill)?;
    let workload = Workload::start(drill)?;
    let fault = now();
    let fill = format!("dd if=/dev/zero of={FILLER} bs=64k 2>/dev/null; true");
    host::shell(&drill.cluster, VICTIM, &fill)?;
    let timeline = &workload.timeline;
    let patience = Duration::from_secs(60);
    let pressed = timeline.wait(fault, patience, |view| {
        view.node_has(VICTIM, "DiskPressure", "True")
    });
    bounds.within("full to DiskPressure", pressed.map(|at| at - fault), 20.0);
    let key = "node.kubernetes.io/disk-pressure";
    let tainted = timeline.wait(fault, patience, |view| {
        view.tainted(VICTIM, key, "NoSchedule")
    });
    bounds.within(
        "full to taint NoSchedule",
        tainted.map(|at| at - fault),
        21.0,
    );
    workload.pass(5.0);
    let returned = now();
    host::shell(&drill.cluster, VICTIM, &format!("rm -f {FILLER}"))?;
    let relieved = timeline.wait(returned, patience, |view| {
        view.node_has(VICTIM, "DiskPressure", "False") && !view.has_taints(VICTIM)
    });
    bounds.within(
        "room to no pressure",
        relieved.map(|at| at - returned),
        30.0,
    );
    let whole = timeline.wait(returned, Duration::from_secs(60), |view| {
        view.ready_pods(VICTIM) + view.ready_pods(crate::SERVER) >= 4
    });
    bounds.within(
        "room to four pods ready",
        whole.map(|at| at - returned),
        30.0,
    );
    workload.judge(bounds, "requests failed from first to last", fault);
    drop(workload);
    drop(small);
    Ok(())
}

/// A small file system where the agent has its files, and thresholds for it, until this is
/// dropped.
struct Small<'a> {
    drill: &'a Drill,
    before: String,
}

impl<'a> Small<'a> {
    fn put(drill: &'a Drill) -> Result<Self, Failure> {
        let cluster = &drill.cluster;
        crate::workload::remove(cluster)?;
        let file = host::folder(cluster, VICTIM).join("kubelet.yaml");
        let before = fs::read_to_string(&file)?;
        let changed = before.replace("nodefs.available: 1%", "nodefs.available: 10%")
            + "evictionPressureTransitionPeriod: 5s\n";
        fs::write(&file, changed)?;
        let small = Self { drill, before };
        let script = format!(
            "truncate -s 64M /mnt/small.img && mkfs.ext2 -q -m 0 -b 4096 /mnt/small.img \
             && mkdir -p /mnt/small && mount -o loop /mnt/small.img /mnt/small \
             && tar -C {FOLDER} --one-file-system -cf - . | tar -C /mnt/small -xf - \
             && mount --bind /mnt/small {FOLDER} && umount /mnt/small && rmdir /mnt/small"
        );
        host::shell(cluster, VICTIM, &script)?;
        host::restart(cluster, VICTIM, "node-agent")?;
        Ok(small)
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let cluster = &self.drill.cluster;
        let folder = host::folder(cluster, VICTIM);
        let _ = crate::workload::remove(cluster);
        let _ = fs::write(folder.join("kubelet.yaml"), &self.before);
        let _ = host::shell(cluster, VICTIM, &format!("umount --lazy {FOLDER}"));
        let _ = fs::remove_file(folder.join("small.img"));
        let _ = host::restart(cluster, VICTIM, "node-agent");
    }
}
