//! `cargo xtask down`: nothing is left.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{Cluster, groups, is_keeper, node_dir};
use crate::{
    error::{Error, at},
    run::say,
};

/// Ends the cluster in `dir` and removes what it left: processes, and with them
/// namespaces, mounts and pins; control groups; files, but the store when
/// `keep_state` is set. A cluster that is half up or long dead goes the same way.
///
/// # Errors
/// When a control group or a file cannot be removed.
pub fn down(dir: &Path, keep_state: bool) -> Result<(), Error> {
    let started = Instant::now();
    let existed = dir.exists();
    stop(dir)?;
    if existed {
        let kept = ["server"];
        for entry in fs::read_dir(dir).map_err(at(dir))?.flatten() {
            let path = entry.path();
            if keep_state && kept.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            if path.is_dir() {
                fs::remove_dir_all(&path).map_err(at(&path))?;
            } else {
                fs::remove_file(&path).map_err(at(&path))?;
            }
        }
        if !keep_state {
            fs::remove_dir(dir).map_err(at(dir))?;
        }
    }
    say(format!(
        "{} is down after {:.1} s",
        dir.display(),
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// Ends the cluster's processes and removes its control groups.
///
/// # Errors
/// When the record cannot be read, or a control group stays.
pub fn stop(dir: &Path) -> Result<(), Error> {
    if let Some(cluster) = Cluster::load(dir)? {
        for node in &cluster.nodes {
            end(node.pid, &node_dir(dir, &node.name));
        }
        if let Some(lan) = cluster.lan {
            end(lan, &dir.join("lan"));
        }
    }
    let left = groups::remove(&Cluster::id_of(dir));
    if let Some(first) = left.first() {
        return Err(Error::State(format!(
            "the control group `{}` does not go: a process in it cannot be ended (see its cgroup.procs)",
            first.display()
        )));
    }
    Ok(())
}

/// Kills the keeper of a host, and with it all that runs in it.
pub fn end(pid: i32, folder: &Path) {
    if !is_keeper(pid, folder) {
        return;
    }
    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    // Its namespaces end with its child, which the kernel kills with it.
    for _ in 0..200 {
        if !is_keeper(pid, folder) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
