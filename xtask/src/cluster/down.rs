//! `cargo xtask down`: nothing is left.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::{
    mount::{MntFlags, umount2},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{Cluster, groups, is_keeper, loops, node_dir};
use crate::{
    error::{Error, at},
    run::print_step,
};

/// The folder of the server's store and keys.
const SERVER: &str = "server";
/// The files that `up` creates in a state folder.
const FILES: [&str; 7] = [
    "cluster.json",
    "cluster.json.new",
    "admin.kubeconfig",
    "lan",
    "nodes",
    "servers",
    SERVER,
];
/// Files that mark a state folder: one of them exists from the beginning of `up` to the
/// end of `down`, also in one that keeps the state.
const MARKS: [&str; 6] = [
    "cluster.json",
    "host.pid",
    "lan/host.log",
    "nodes/node-1",
    "server/pki",
    "server/server-1",
];

/// Stops the cluster in `dir` and removes its traces: processes, and with them
/// namespaces, mounts and pins; control groups; files, except the store if `keep_state`
/// is set. This works for a cluster that is half up or long dead, too.
///
/// # Errors
/// When `dir` is not a state folder, or a control group or a file cannot be removed.
pub fn down(dir: &Path, keep_state: bool) -> Result<(), Error> {
    let started = Instant::now();
    ensure_own(dir)?;
    stop(dir)?;
    loops::detach(&dir.join("nodes"));
    detach_mounts(dir)?;
    remove(dir, &FILES, keep_state)?;
    print_step(format!(
        "{} is down after {:.1} s",
        dir.display(),
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// Detaches file systems that are mounted in a state folder, such as the small disks of a drill
/// that was interrupted.
fn detach_mounts(dir: &Path) -> Result<(), Error> {
    let Ok(dir) = dir.canonicalize() else {
        return Ok(());
    };
    let table = Path::new("/proc/self/mountinfo");
    let mounted = fs::read_to_string(table).map_err(at(table))?;
    for point in mounts_below(&mounted, &dir) {
        umount2(&point, MntFlags::MNT_DETACH).map_err(|error| at(&point)(error.into()))?;
    }
    Ok(())
}

/// Returns the mount points below a folder, the last mounted first. `table` has the form of
/// `/proc/self/mountinfo`, see proc(5).
fn mounts_below(table: &str, dir: &Path) -> Vec<PathBuf> {
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    let points = points.map(|point| PathBuf::from(unescape(point)));
    let mut below: Vec<PathBuf> = points
        .filter(|point| point != dir && point.starts_with(dir))
        .collect();
    below.reverse();
    below
}

/// Returns the path that mountinfo writes with spaces, tabs, newlines and backslashes in octal.
fn unescape(text: &str) -> String {
    let escapes = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    escapes
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Refuses a folder with files in it that `up` did not make a state folder.
///
/// # Errors
/// [`Error::State`], naming the folder.
pub fn ensure_own(dir: &Path) -> Result<(), Error> {
    let is_empty = match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => return Err(at(dir)(error)),
        Ok(mut entries) => entries.next().is_none(),
    };
    if is_empty || MARKS.iter().any(|mark| dir.join(mark).exists()) {
        return Ok(());
    }
    Err(Error::State(format!(
        "{} is no state folder of a cluster, but has files in it: nothing is done there",
        dir.display()
    )))
}

/// Removes these files of a state folder, and the folder itself unless something else is in it;
/// with `keep_state` the server's store and keys stay.
///
/// # Errors
/// When a file cannot be removed.
pub fn remove(dir: &Path, names: &[&str], keep_state: bool) -> Result<(), Error> {
    for name in names
        .iter()
        .filter(|name| !(keep_state && **name == SERVER))
    {
        let path = dir.join(name);
        let removed = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        removed.map_err(at(&path))?;
    }
    let left = fs::read_dir(dir).map_or(0, Iterator::count);
    if left == 0 && dir.exists() {
        fs::remove_dir(dir).map_err(at(dir))?;
    } else if left > usize::from(keep_state) {
        print_step(format!(
            "{} keeps files that are none of the cluster's",
            dir.display()
        ));
    }
    Ok(())
}

/// Ends the cluster's processes and removes its control groups.
///
/// # Errors
/// When the record cannot be read, or a control group stays.
pub fn stop(dir: &Path) -> Result<(), Error> {
    if let Some(cluster) = Cluster::load(dir)? {
        for node in cluster.hosts() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_somebody_else_is_left_alone() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let dir = folder.path();
        assert!(ensure_own(dir).is_ok(), "empty");
        fs::create_dir(dir.join("server")).expect("made");
        fs::write(dir.join("server/thesis.txt"), "").expect("written");
        let refused = down(dir, false).expect_err("refused").to_string();
        assert!(refused.contains(&dir.display().to_string()), "{refused}");
        assert!(dir.join("server/thesis.txt").exists());
    }

    #[test]
    fn what_is_mounted_in_the_folder_is_detached_in_the_order_of_nesting() {
        let table = "\
            21 1 8:1 / / rw - ext4 /dev/vda rw\n\
            30 21 0:30 / /a\\040b rw - tmpfs tmpfs rw\n\
            31 21 0:31 / /a\\040b/server/server-1 rw shared:1 - tmpfs tmpfs rw\n\
            32 31 0:32 / /a\\040b/server/server-1/etcd rw - tmpfs tmpfs rw\n\
            33 21 0:33 / /a\\040bc rw - tmpfs tmpfs rw\n";
        assert_eq!(
            mounts_below(table, Path::new("/a b")),
            [
                Path::new("/a b/server/server-1/etcd"),
                Path::new("/a b/server/server-1"),
            ]
        );
    }

    #[test]
    fn a_cluster_takes_only_its_own_files_with_it() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let dir = folder.path().join("state");
        fs::create_dir_all(dir.join("server/pki")).expect("made");
        fs::create_dir_all(dir.join("nodes/node-1")).expect("made");
        fs::write(dir.join("thesis.txt"), "").expect("written");
        remove(&dir, &FILES, true).expect("removed");
        assert!(dir.join("server/pki").exists() && !dir.join("nodes").exists());
        remove(&dir, &FILES, false).expect("removed");
        assert!(!dir.join("server").exists() && dir.join("thesis.txt").exists());
        fs::remove_file(dir.join("thesis.txt")).expect("removed");
        remove(&dir, &FILES, false).expect("removed");
        assert!(!dir.exists());
    }
}
