//! The clock of a node, and then that of the server, jumps. A preloaded library moves the wall
//! clock of one program while it runs; its other clocks go on.

use std::{fs, path::Path};

use tests::{Cluster, Failure, eventually, report::skip};

use crate::{Drill, SERVER, VICTIM, bounds::Bounds, host, timeline::now, workload::Workload};

/// The library.
pub const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// One hour ahead.
pub fn ahead(drill: &Drill, bounds: &mut Bounds) -> Result<(), Failure> {
    jumps(drill, bounds, "+3600")
}

/// One hour back.
pub fn behind(drill: &Drill, bounds: &mut Bounds) -> Result<(), Failure> {
    jumps(drill, bounds, "-3600")
}

fn jumps(drill: &Drill, bounds: &mut Bounds, by: &str) -> Result<(), Failure> {
    let cluster = &drill.cluster;
    if !Path::new(LIBRARY).exists() {
        return skip(format!(
            "`{LIBRARY}` is missing: apt-get install libfaketime"
        ));
    }
    for (node, program) in [(VICTIM, "node-agent"), (SERVER, "server")] {
        let clock = Clock::put(cluster, node, program)?;
        let workload = Workload::start(drill)?;
        let fault = now();
        clock.set(by)?;
        workload.pass(if drill.short { 20.0 } else { 75.0 });
        cluster.kubectl("scale deployment/web --namespace drill --replicas=6")?;
        let what = format!("{program}: another pod on each node is ready");
        let started = now();
        eventually(&what, 60, || {
            let rollout = "rollout status deployment/web --namespace drill --timeout=1s";
            cluster.kubectl(rollout).map(drop)
        })?;
        bounds.within(&what, Some(now() - started), 15.0);
        clock.set("+0")?;
        workload.pass(if drill.short { 5.0 } else { 75.0 });
        let timeline = &workload.timeline;
        for node in [SERVER, VICTIM] {
            let lost = timeline.first(fault, |view| view.node_ready(node) != "True");
            let what = format!("{program}: {node} stays Ready");
            bounds.holds_that(&what, lost.is_none(), format!("{lost:?}"));
        }
        workload.judge(bounds, &format!("{program}: requests failed"), fault);
    }
    Ok(())
}

/// Has the host in `folder` start a program with a clock that [`set`] moves.
pub fn prepare(folder: &Path, program: &str) -> Result<(), Failure> {
    let environment = folder.join("environment");
    fs::create_dir_all(&environment)?;
    fs::write(
        environment.join(program),
        format!(
            "LD_PRELOAD={LIBRARY}\nFAKETIME_TIMESTAMP_FILE=/mnt/clock-{program}\n\
             FAKETIME_NO_CACHE=1\nFAKETIME_DONT_FAKE_MONOTONIC=1\n"
        ),
    )?;
    Ok(())
}

/// Has the host start the program with its own clock again.
pub fn remove(folder: &Path, program: &str) -> Result<(), Failure> {
    Ok(fs::remove_file(folder.join("environment").join(program))?)
}

/// Moves the clock by so many seconds from the true time, such as `+3600`.
pub fn set(folder: &Path, program: &str, by: &str) -> Result<(), Failure> {
    let new = folder.join("clock.new");
    fs::write(&new, format!("{by}\n"))?;
    fs::rename(new, folder.join(format!("clock-{program}")))?;
    Ok(())
}

/// A program with a clock that can be set; it has its own again when this is dropped.
struct Clock<'a> {
    cluster: &'a Cluster,
    node: &'static str,
    program: &'static str,
}

impl<'a> Clock<'a> {
    fn put(
        cluster: &'a Cluster,
        node: &'static str,
        program: &'static str,
    ) -> Result<Self, Failure> {
        let clock = Self {
            cluster,
            node,
            program,
        };
        clock.set("+0")?;
        prepare(&host::folder(cluster, node), program)?;
        host::restart(cluster, node, program)?;
        eventually("a cluster that answers", 60, || {
            cluster.kubectl("get --raw /readyz")?;
            host::processes(cluster, node, program).map(drop)
        })?;
        Ok(clock)
    }

    /// Moves the clock by so many seconds from the true time.
    fn set(&self, by: &str) -> Result<(), Failure> {
        set(&host::folder(self.cluster, self.node), self.program, by)
    }
}

impl Drop for Clock<'_> {
    fn drop(&mut self) {
        let _ = remove(&host::folder(self.cluster, self.node), self.program);
        let _ = host::restart(self.cluster, self.node, self.program);
        let _ = eventually("a cluster that answers", 60, || {
            self.cluster.kubectl("get --raw /readyz").map(drop)
        });
    }
}
