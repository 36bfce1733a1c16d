//! The manifests for other clusters are accepted as they are, and the queries of dashboards and
//! rules ask for metrics that the programs export.

use std::{collections::BTreeSet, fs};

use regex::Regex;
use tests::{Cluster, Failure, ensure, eventually, machine, netns, workspace};

const FOLDER: &str = "node-agent/agent/deploy";

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    for name in ["datapath", "network", "load-balancer"] {
        let path = workspace()
            .join(FOLDER)
            .join(format!("manifests/{name}.yaml"));
        let apply = "apply --dry-run=server --validate=strict -f";
        cluster.kubectl(&format!("{apply} {}", path.display()))?;
    }
    let mut asked = BTreeSet::new();
    let metric =
        Regex::new(r"(?-u:\b)(?:orlop|kubeproxy|apiserver|etcd|workqueue|process)_[a-z0-9_]+")?;
    let files = workspace().join(FOLDER).join("chart/files");
    let mut paths = vec![files.join("rules.yaml")];
    for entry in fs::read_dir(files.join("dashboards"))? {
        paths.push(entry?.path());
    }
    for path in paths {
        let text = fs::read_to_string(path)?;
        let queries = text.lines().filter(|line| line.contains("expr"));
        asked.extend(queries.flat_map(|line| {
            let found = metric.find_iter(line);
            found.map(|it| it.as_str().to_owned()).collect::<Vec<_>>()
        }));
    }
    ensure(asked.len() > 25, format!("only {} metrics", asked.len()))?;
    // Some appear with the first flow.
    eventually("all metrics", 30, || {
        let exported = exported(cluster)?;
        let missing: Vec<_> = asked
            .iter()
            .filter(|name| !NOT_YET.contains(&name.as_str()))
            .filter(|name| {
                let plain = ["_bucket", "_sum", "_count", "_total"];
                let mut stems = plain.iter().filter_map(|ending| name.strip_suffix(ending));
                !exported.contains(*name) && !stems.any(|stem| exported.contains(stem))
            })
            .collect();
        ensure(missing.is_empty(), format!("no such metrics: {missing:?}"))
    })
}

/// Metrics that exist only with a BGP peer.
const NOT_YET: [&str; 1] = ["orlop_announce_bgp_session_up"];

/// The names of all metrics of the server and of a node.
fn exported(cluster: &Cluster) -> Result<BTreeSet<String>, Failure> {
    let agents = machine::processes_of(&cluster.dir, "node-1", &["orlop", "node-agent"]);
    let network = netns::of(*agents.first().ok_or("no agent runs")?);
    let pages = [
        cluster.kubectl("get --raw /metrics")?,
        netns::inside(&network, "curl -s http://127.0.0.1:10249/metrics")?,
    ];
    let lines = pages.iter().flat_map(|page| page.lines());
    let names = lines.filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    Ok(names.map(str::to_owned).collect())
}
