//! A real Prometheus scrapes a node and the server, loads the chart's rules, and answers every
//! query of rules and dashboards.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use tests::{
    Cluster, Failure, ensure, eventually, machine, netns, no_stock_program, report::skip,
    stock_program, workspace,
};

const VARIABLE: &str = "ORLOP_PROMETHEUS";
const PROGRAM: &str = "prometheus";
/// Where it listens in the node's network.
const ADDRESS: &str = "127.0.0.1:9099";

/// Queries that have no answer on a cluster where all is well and nobody peers: all alerts, and
/// what dashboards show of faults, by a word of theirs.
const QUIET: &[&str] = &[
    "orlop_task_up{instance=~\".*\"} == 0",
    "policy!=\"\"",
    "orlop_datapath_refusals_total",
    "orlop_datapath_problems",
];

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let Some(program) = stock_program(VARIABLE, PROGRAM) else {
        return skip(no_stock_program(VARIABLE, PROGRAM));
    };
    let agents = machine::processes_of(&cluster.dir, "node-1", &["orlop", "node-agent"]);
    let network = netns::of(*agents.first().ok_or("no agent runs")?);
    let dir = tempfile::tempdir()?;
    let config = dir.path().join("prometheus.yaml");
    fs::write(&config, configuration(cluster, dir.path())?)?;
    let mut prometheus = netns::command(&network, &program.display().to_string());
    prometheus
        .arg(format!("--config.file={}", config.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            dir.path().join("data").display()
        ))
        .arg(format!("--web.listen-address={ADDRESS}"))
        .arg("--log.level=warn");
    let _prometheus = Ended(start(&mut prometheus, &dir.path().join("log"))?);

    let command = |program: &str, arguments: &[&str]| -> Result<String, Failure> {
        let output = netns::command(&network, program).args(arguments).output()?;
        Ok(String::from_utf8(output.stdout)?)
    };
    let get = |path: &str, query: &str| -> Result<Value, Failure> {
        let mut curl = netns::command(&network, "curl");
        curl.args(["--silent", "--get", "--data-urlencode"])
            .arg(format!("query={query}"))
            .arg(format!("http://{ADDRESS}/api/v1/{path}"));
        let output = curl.output()?;
        let answer: Value = serde_json::from_slice(&output.stdout)?;
        ensure(answer["status"] == "success", format!("{query}: {answer}"))?;
        Ok(answer["data"].clone())
    };
    let counted = eventually("both targets to be scraped", 60, || {
        // `rate` needs two samples.
        let data = get("query", "min(sum_over_time(up[5m]))")
            .map_err(|error| log_beside(error, dir.path()))?;
        let least = &data["result"][0]["value"][1];
        let targets = get("query", "count(up)")?;
        let targets = &targets["result"][0]["value"][1];
        ensure(
            *targets == "2"
                && least
                    .as_str()
                    .is_some_and(|least| least.parse().unwrap_or(0) > 2),
            format!("{targets} targets, scraped {least} times"),
        )
    });
    counted.map_err(|error| log_beside(error, dir.path()))?;
    for page in [
        command("curl", &["--silent", "http://127.0.0.1:10249/metrics"])?,
        cluster.kubectl("get --raw /metrics")?,
    ] {
        let repeated = repeated_series(&page);
        ensure(
            repeated.is_empty(),
            format!("series that a page has twice: {repeated:#?}"),
        )?;
    }

    let rules = get("rules", "")?;
    let rules = rules["groups"][0]["rules"].as_array();
    let rules = rules.ok_or("no rules are loaded")?;
    for rule in rules {
        let query = rule["query"].as_str().unwrap_or_default();
        get("query", query)?;
        ensure(rule["health"] != "err", format!("{rule}"))?;
    }
    ensure(rules.len() > 10, format!("{} rules", rules.len()))?;
    let mut asked = 0;
    for query in dashboards()? {
        let answers = |query: &str| {
            let data = get("query", query)?;
            let found = data["result"].as_array().map_or(0, Vec::len);
            let is_quiet = QUIET.iter().any(|word| query.contains(word));
            ensure(found > 0 || is_quiet, format!("no answer to {query}"))
        };
        // What a dashboard shows of a Service that changes needs one that did.
        eventually("an answer", 20, || answers(&query))?;
        asked += 1;
    }
    ensure(asked > 20, format!("{asked} queries of dashboards"))
}

/// Returns the configuration of a Prometheus in a node's network that scrapes that node and the
/// server.
fn configuration(cluster: &Cluster, dir: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(cluster.kubeconfig())?;
    let kubeconfig: Value = serde_saphyr::from_str(&text)?;
    let user = &kubeconfig["users"][0]["user"];
    let authority = &kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"];
    for (name, data) in [
        ("ca.crt", authority),
        ("client.crt", &user["client-certificate-data"]),
        ("client.key", &user["client-key-data"]),
    ] {
        let data = data
            .as_str()
            .ok_or_else(|| format!("no {name} in the kubeconfig"))?;
        fs::write(dir.join(name), STANDARD.decode(data)?)?;
    }
    let endpoints = cluster.get("endpoints kubernetes --namespace default")?;
    let subset = &endpoints["subsets"][0];
    let address = subset["addresses"][0]["ip"].as_str().unwrap_or_default();
    let rules = workspace().join("node-agent/agent/deploy/chart/files/rules.yaml");
    Ok(format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ['{rules}']
scrape_configs:
- job_name: node
  static_configs: [{{targets: ['127.0.0.1:10249']}}]
- job_name: server
  scheme: https
  tls_config: {{ca_file: '{dir}/ca.crt', cert_file: '{dir}/client.crt', key_file: '{dir}/client.key'}}
  static_configs: [{{targets: ['{address}:{port}']}}]
",
        rules = rules.display(),
        dir = dir.display(),
        port = subset["ports"][0]["port"],
    ))
}

/// Returns the series of a page that it has more than once; Prometheus drops all but one of them.
fn repeated_series(page: &str) -> BTreeSet<&str> {
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    let mut seen = BTreeSet::new();
    samples
        .filter_map(|line| Some(line.rsplit_once(' ')?.0))
        .filter(|series| !seen.insert(*series))
        .collect()
}

/// Returns the queries of the chart's dashboards, for all instances.
fn dashboards() -> Result<Vec<String>, Failure> {
    let folder = workspace().join("node-agent/agent/deploy/chart/files/dashboards");
    let mut queries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let dashboard: Value = serde_json::from_str(&fs::read_to_string(entry?.path())?)?;
        for panel in dashboard["panels"].as_array().into_iter().flatten() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let query = target["expr"].as_str().ok_or("a target without a query")?;
                queries.push(query.replace("$instance", ".*"));
            }
        }
    }
    Ok(queries)
}

/// A process that ends with the scenario.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command, log: &Path) -> Result<Child, Failure> {
    let log = fs::File::create(log)?;
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()?;
    Ok(child)
}

fn log_beside(error: Failure, dir: &Path) -> Failure {
    let log = fs::read_to_string(dir.join("log")).unwrap_or_default();
    format!("{error}; Prometheus says: {log}").into()
}
