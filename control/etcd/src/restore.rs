//! Makes the first member of a new cluster from a snapshot of etcd.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::record::Launch;
use crate::{Error, Record};

/// The programs that restore snapshots, the better one first: etcd 3.5 moved the command from
/// `etcdctl` to `etcdutl`, and 3.6 removed the old one.
const PROGRAMS: [&str; 2] = ["etcdutl", "etcdctl"];

/// Makes the data of the member of `record` from the snapshot in `file` and writes its record, so
/// that a server that starts on the folder of `launch` finds a member of a cluster of one.
///
/// # Errors
/// [`Error::NoRestorer`] without a program that can do it, [`Error::NotRestored`] when that fails,
/// or [`Error::File`].
pub fn first_member(record: &Record, launch: &Launch, file: &Path) -> Result<(), Error> {
    let candidates = candidates(&launch.binary);
    // Neither counts as found unless it runs.
    let program = candidates
        .iter()
        .find(|program| runs(program))
        .ok_or_else(|| Error::NoRestorer {
            tried: candidates
                .iter()
                .map(|program| program.display().to_string())
                .collect::<Vec<_>>()
                .join(", "),
        })?;
    let failed = |problem: String| Error::NotRestored {
        program: program.clone(),
        problem,
    };
    let output = Command::new(program)
        .env("ETCDCTL_API", "3")
        .args(arguments(record, launch, file))
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        // The last line is the error; those before it are the log.
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        return Err(failed(last.unwrap_or("it says nothing").to_owned()));
    }
    record.save(&launch.folder)
}

/// Returns the programs to look for: those beside an etcd that is named by a path, then those on
/// the `PATH`.
fn candidates(etcd: &Path) -> Vec<PathBuf> {
    let beside = etcd
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let beside = beside
        .into_iter()
        .flat_map(|folder| PROGRAMS.map(|name| folder.join(name)));
    beside.chain(PROGRAMS.map(PathBuf::from)).collect()
}

/// Whether the program runs and has the command.
fn runs(program: &Path) -> bool {
    let output = Command::new(program)
        .env("ETCDCTL_API", "3")
        .args(["snapshot", "restore", "--help"])
        .output();
    output.is_ok_and(|output| {
        output.status.success()
            && String::from_utf8_lossy(&output.stdout).contains("--initial-cluster")
    })
}

/// Returns the arguments of the program.
fn arguments(record: &Record, launch: &Launch, file: &Path) -> Vec<String> {
    let peer = record.peer_url();
    let mut arguments = vec![
        "snapshot".to_owned(),
        "restore".to_owned(),
        file.display().to_string(),
    ];
    for (option, value) in [
        ("name", record.name.clone()),
        ("initial-cluster", format!("{}={peer}", record.name)),
        ("initial-advertise-peer-urls", peer),
        ("initial-cluster-token", record.cluster_token.clone()),
        ("data-dir", launch.data().display().to_string()),
    ] {
        arguments.push(format!("--{option}={value}"));
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_beside_the_given_etcd_come_first() {
        let found = |etcd: &str| -> Vec<String> {
            let found = candidates(Path::new(etcd)).into_iter();
            found.map(|path| path.display().to_string()).collect()
        };
        assert_eq!(found("etcd"), ["etcdutl", "etcdctl"]);
        assert_eq!(
            found("/opt/etcd/etcd"),
            [
                "/opt/etcd/etcdutl",
                "/opt/etcd/etcdctl",
                "etcdutl",
                "etcdctl"
            ]
        );
    }

    #[test]
    fn the_member_is_the_only_one_of_its_cluster() {
        let record = Record::first("server-1", [10, 0, 0, 1].into(), 2379, 2380);
        let launch = Launch {
            binary: "etcd".into(),
            folder: "/d/etcd".into(),
            pki: "/d/pki/etcd".into(),
            quota_bytes: 0,
            begins_anew: false,
        };
        let arguments = arguments(&record, &launch, Path::new("/d/etcd.db"));
        assert_eq!(arguments[..3], ["snapshot", "restore", "/d/etcd.db"]);
        for option in [
            "--name=server-1",
            "--initial-cluster=server-1=https://10.0.0.1:2380",
            "--initial-advertise-peer-urls=https://10.0.0.1:2380",
            "--data-dir=/d/etcd/data",
        ] {
            assert!(arguments.iter().any(|it| it == option), "{arguments:?}");
        }
    }
}
