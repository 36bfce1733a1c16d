//! Collects the contents of a support bundle. Secrets, keys and kubeconfigs are never
//! read; everything else passes through `redact`.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use control_client::Client;
use node_agent::{
    ReportSelection,
    machine::{self as checks, MachineRole},
};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{Keep, SupportBundle};
use crate::{
    redact,
    run::all_causes,
    status::{ANSWER_WITHIN, Answer, cluster, machine},
};

/// Objects that tell how a cluster is. Never Secrets or ConfigMaps.
const OBJECTS: [(&str, &str); 12] = [
    ("nodes", "/api/v1/nodes"),
    ("pods", "/api/v1/pods"),
    ("services", "/api/v1/services"),
    ("events", "/api/v1/events"),
    ("endpointslices", "/apis/discovery.k8s.io/v1/endpointslices"),
    ("leases", "/apis/coordination.k8s.io/v1/leases"),
    (
        "networkpolicies",
        "/apis/networking.k8s.io/v1/networkpolicies",
    ),
    (
        "certificatesigningrequests",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    ),
    ("daemonsets", "/apis/apps/v1/daemonsets"),
    ("deployments", "/apis/apps/v1/deployments"),
    ("storageclasses", "/apis/storage.k8s.io/v1/storageclasses"),
    ("apiservices", "/apis/apiregistration.k8s.io/v1/apiservices"),
];
/// Files of the kernel and the system that hold no secrets.
const FILES: [&str; 13] = [
    "/etc/os-release",
    "/proc/version",
    "/proc/cmdline",
    "/proc/meminfo",
    "/proc/loadavg",
    "/proc/mounts",
    "/proc/cgroups",
    "/proc/net/dev",
    "/proc/net/route",
    "/proc/net/ipv6_route",
    "/proc/net/sockstat",
    "/proc/net/snmp",
    "/proc/net/netstat",
];
/// Directories whose files are listed, not read.
const LISTED: [&str; 5] = [
    "/etc/orlop",
    "/etc/cni/net.d",
    "/opt/cni/bin",
    "/run/orlop",
    "/var/lib/orlop",
];
/// Units of systemd whose journals are read.
const UNITS: &str = "orlop*";
/// Files of a listing.
const MOST_LISTED: usize = 2_000;
/// Bytes of a program's output, and of an answer, that are read.
const MOST: u64 = 8 << 20;
/// How long a program may take.
const PROGRAM_WITHIN: Duration = Duration::from_secs(15);

/// The paths to collect from.
#[derive(Clone, Debug)]
pub struct BundlePaths {
    /// This machine's parts.
    pub machine: machine::MachinePaths,
    /// The paths for preflight checks.
    pub checks: checks::ProbePaths,
    /// The start of logs, in journalctl's format.
    pub since: String,
}

/// Collects the state of this machine.
pub async fn of_machine(bundle: &mut SupportBundle, places: &BundlePaths) {
    let facts = checks::gather(&places.checks).await;
    let findings = checks::judge(&facts, MachineRole::Whole);
    add_json(
        bundle,
        "preflight.json",
        json!({ "findings": findings, "facts": facts }),
    );
    for path in FILES {
        let name = format!("system{path}");
        match fs::read_to_string(path) {
            Ok(text) => bundle.add(&name, &text, Keep::Head),
            Err(error) => bundle.missing(&name, &error.to_string()),
        }
    }
    let folders = LISTED.iter().map(PathBuf::from).chain([
        places.machine.server_dir.clone(),
        places.machine.agent_dir.clone(),
        places.machine.pin_dir.clone(),
    ]);
    let mut listing = String::new();
    for folder in folders {
        list(&folder, &mut listing, &mut 0);
    }
    bundle.add("files.txt", &listing, Keep::Head);
    let pins = &places.machine.pin_dir;
    match node_agent::inspect(pins) {
        Ok(text) => bundle.add("datapath/maps.txt", &text, Keep::Head),
        Err(error) => bundle.missing("datapath/maps.txt", &error.to_string()),
    }
    match node_agent::report(pins, &ReportSelection::All).await {
        Ok(report) => add_json(bundle, "datapath/services.json", json!(report)),
        Err(error) => bundle.missing("datapath/services.json", &error.to_string()),
    }
    let metrics = std::net::SocketAddr::new(places.machine.healthz.ip(), 10249);
    for (name, address, path) in [
        ("agent/healthz.json", places.machine.healthz, "/healthz"),
        ("agent/livez.json", places.machine.healthz, "/livez"),
        ("agent/metrics.txt", metrics, "/metrics"),
        ("agent/configz.json", metrics, "/configz"),
    ] {
        match checks::fetch(address, path, MOST, ANSWER_WITHIN).await {
            Ok((code, body)) => bundle.add(name, &format!("HTTP {code}\n{body}"), Keep::Head),
            Err(error) => bundle.missing(name, &all_causes(&error)),
        }
    }
    let since = format!("--since={}", places.since);
    let newest = ["--no-pager", "--output=short-iso", since.as_str()];
    let journal = [&newest[..], &["-n", "50000", "-u", UNITS]].concat();
    let kernel = [&newest[..], &["-n", "5000", "-k"]].concat();
    for (name, program, arguments) in [
        ("logs/journal.txt", "journalctl", journal),
        ("logs/kernel.txt", "journalctl", kernel),
        ("network/addresses.txt", "ip", vec!["-details", "address"]),
        (
            "network/routes.txt",
            "ip",
            vec!["route", "show", "table", "all"],
        ),
        ("network/rules.txt", "ip", vec!["rule"]),
        ("network/qdiscs.txt", "tc", vec!["qdisc"]),
    ] {
        match output(program, &arguments).await {
            Ok(text) => bundle.add(name, &text, Keep::Tail),
            Err(error) => bundle.missing(name, &all_causes(&error)),
        }
    }
}

/// Collects the state of the cluster from the API server.
pub async fn of_cluster(bundle: &mut SupportBundle, client: &Client) {
    for (name, path) in [
        ("readyz.txt", "/readyz?verbose"),
        ("livez.txt", "/livez?verbose"),
        ("metrics.txt", "/metrics"),
    ] {
        let name = format!("cluster/{name}");
        match cluster::text(client, path).await {
            Answer::Known(text) => bundle.add(&name, &text, Keep::Head),
            other => bundle.missing(&name, other.why_unknown()),
        }
    }
    for (name, path) in std::iter::once(("version", "/version")).chain(OBJECTS) {
        let name = format!("cluster/{name}.json");
        match cluster::get(client, path).await {
            Answer::Known(answer) => add_json(bundle, &name, answer),
            other => bundle.missing(&name, other.why_unknown()),
        }
    }
}

/// Adds an object without its secrets, one item a line.
pub fn add_json(bundle: &mut SupportBundle, name: &str, mut value: Value) {
    redact::object(&mut value);
    let text = match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => {
            let lines: Vec<_> = items.iter().map(Value::to_string).collect();
            lines.join("\n") + "\n"
        }
        _ => format!("{value:#}\n"),
    };
    bundle.add(name, &text, Keep::Head);
}

/// Lists names, sizes and modes of files, without their contents.
fn list(folder: &Path, listing: &mut String, count: &mut usize) {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        if *count == MOST_LISTED {
            listing.push_str("…\n");
        }
        *count += 1;
        if *count > MOST_LISTED {
            return;
        }
        listing.push_str(&format!(
            "{:o} {}:{} {:>12} {}\n",
            metadata.permissions().mode() & 0o7777,
            metadata.uid(),
            metadata.gid(),
            metadata.len(),
            path.display()
        ));
        if metadata.is_dir() {
            list(&path, listing, count);
        }
    }
}

/// Why a program has no output.
#[derive(Debug, thiserror::Error)]
enum ProgramError {
    /// It cannot be started.
    #[error("`{program}`")]
    Start { program: String, source: io::Error },
    /// It takes too long.
    #[error("`{0}` took longer than {seconds} s", seconds = PROGRAM_WITHIN.as_secs())]
    Timeout(String),
    /// It exits with a code other than zero.
    #[error("`{program}`: {message}")]
    Failed { program: String, message: String },
}

/// Returns the output of a program.
async fn output(program: &str, arguments: &[&str]) -> Result<String, ProgramError> {
    let running = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let done = tokio::time::timeout(PROGRAM_WITHIN, running)
        .await
        .map_err(|_| ProgramError::Timeout(program.to_owned()))?
        .map_err(|source| ProgramError::Start {
            program: program.to_owned(),
            source,
        })?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(ProgramError::Failed {
        program: program.to_owned(),
        message: said.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_and_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("pki")).expect("a folder");
        fs::write(folder.path().join("pki/ca.key"), "planted").expect("written");
        let mut listing = String::new();
        list(folder.path(), &mut listing, &mut 0);
        assert!(
            listing.contains("pki/ca.key") && !listing.contains("planted"),
            "{listing}"
        );
    }

    #[tokio::test]
    async fn programs_that_are_not_there_or_fail_say_so() {
        assert!(output("orlop-no-such-program", &[]).await.is_err());
        assert!(output("false", &[]).await.is_err());
        assert_eq!(output("echo", &["x"]).await.expect("output"), "x\n");
    }

    #[test]
    fn items_of_lists_are_lines() {
        let mut bundle = SupportBundle::new(1 << 10);
        add_json(
            &mut bundle,
            "a.json",
            json!({ "items": [{ "token": "planted" }, { "b": 1 }] }),
        );
        let entry = &bundle.contents()[0];
        assert_eq!(entry.size, "{\"token\":\"<redacted>\"}\n{\"b\":1}\n".len());
    }
}
