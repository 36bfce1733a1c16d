//! Checks the Helm chart's dashboards and rules: each metric in a query is in the reference of
//! metrics, which other tests compare with what programs export.

use std::{collections::BTreeSet, path::Path};

use regex::Regex;
use serde_json::Value;

/// Metrics of programs, by the beginnings of their names.
const PREFIXES: &str =
    r"(?-u:\b)(?:orlop|kubeproxy|apiserver|etcd|workqueue|process|kubelet)_[a-z0-9_]+";

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Each query with where it stands.
fn queries() -> Vec<(String, String)> {
    let files = root().join("node-agent/agent/deploy/chart/files");
    let rules = std::fs::read_to_string(files.join("rules.yaml")).expect("rules");
    let rules: Value = serde_saphyr::from_str(&rules).expect("YAML");
    let mut queries = Vec::new();
    for rule in rules["groups"][0]["rules"].as_array().expect("rules") {
        let name = rule["alert"].as_str().expect("a name");
        let query = rule["expr"].as_str().expect("a query");
        assert!(
            rule["annotations"]["summary"].is_string(),
            "{name}: no summary"
        );
        assert!(
            rule["labels"]["severity"].is_string(),
            "{name}: no severity"
        );
        queries.push((name.to_owned(), query.to_owned()));
    }
    for entry in std::fs::read_dir(files.join("dashboards")).expect("dashboards") {
        let path = entry.expect("entry").path();
        let text = std::fs::read_to_string(&path).expect("a dashboard");
        let dashboard: Value = serde_json::from_str(&text).expect("JSON");
        for panel in dashboard["panels"].as_array().expect("panels") {
            let title = format!("{}: {}", dashboard["title"], panel["title"]);
            for target in panel["targets"].as_array().expect("targets") {
                let query = target["expr"].as_str().expect("a query");
                queries.push((title.clone(), query.to_owned()));
            }
        }
    }
    queries
}

#[test]
fn every_query_of_dashboards_and_rules_asks_for_metrics_of_the_reference() {
    let reference = std::fs::read_to_string(root().join("docs/reference/metrics.md"));
    let reference = reference.expect("the reference");
    let names = Regex::new(r"`([a-z]+_[a-z0-9_]*\*?)`").expect("a pattern");
    let documented: BTreeSet<&str> = names
        .captures_iter(&reference)
        .filter_map(|found| found.get(1).map(|it| it.as_str()))
        .collect();
    let metrics = Regex::new(PREFIXES).expect("a pattern");
    let endings = ["_bucket", "_sum", "_count", "_capacity", "_full", "_lost"];
    let is_documented = |name: &str| {
        let stems = endings
            .iter()
            .filter_map(|ending| name.strip_suffix(ending));
        std::iter::once(name).chain(stems).any(|stem| {
            documented
                .iter()
                .any(|known| match known.strip_suffix('*') {
                    Some(start) => stem.starts_with(start),
                    None => stem == *known,
                })
        })
    };
    let queries = queries();
    assert!(queries.len() > 30, "{} queries", queries.len());
    let mut wrong = Vec::new();
    for (place, query) in &queries {
        let asked: Vec<_> = metrics.find_iter(query).map(|it| it.as_str()).collect();
        if asked.is_empty() {
            wrong.push(format!("{place}: no metric in `{query}`"));
        }
        let unknown = asked.iter().filter(|name| !is_documented(name));
        wrong.extend(unknown.map(|name| format!("{place}: `{name}` is not documented")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each alert has a test in which it stays quiet and fires, and a real promtool agrees.
#[test]
fn every_alert_fires_once_in_its_test() {
    let deploy = root().join("node-agent/agent/deploy");
    let text = std::fs::read_to_string(deploy.join("rules-test.yaml")).expect("tests of rules");
    let tests: Value = serde_saphyr::from_str(&text).expect("YAML");
    let cases = tests["tests"].as_array().expect("tests").iter();
    let asked = cases.flat_map(|case| case["alert_rule_test"].as_array().expect("alerts"));
    let (firing, quiet): (Vec<_>, Vec<_>) = asked.partition(|it| it["exp_alerts"].is_array());
    let names = |asked: Vec<&Value>| -> BTreeSet<String> {
        let names = asked.iter().filter_map(|it| it["alertname"].as_str());
        names.map(str::to_owned).collect()
    };
    let (firing, quiet) = (names(firing), names(quiet));
    let rules = std::fs::read_to_string(deploy.join("chart/files/rules.yaml")).expect("rules");
    let rules: Value = serde_saphyr::from_str(&rules).expect("YAML");
    for rule in rules["groups"][0]["rules"].as_array().expect("rules") {
        let name = rule["alert"].as_str().expect("a name");
        assert!(firing.contains(name), "no test lets {name} fire");
        // One of another object that does not fire will do as well.
        let other = text.matches(&format!("alertname: {name}")).count() > 1;
        assert!(quiet.contains(name) || other, "no test has {name} quiet");
    }

    let Some(promtool) = tests::stock_program("ORLOP_PROMTOOL", "promtool") else {
        let missing = tests::no_stock_program("ORLOP_PROMTOOL", "promtool");
        println!("skipped: {missing}");
        return;
    };
    for words in [
        ["check", "rules", "chart/files/rules.yaml"],
        ["test", "rules", "rules-test.yaml"],
    ] {
        let output = std::process::Command::new(&promtool)
            .args(words)
            .current_dir(&deploy)
            .output()
            .expect("promtool runs");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(output.status.success(), "{words:?}: {text}");
    }
}

#[test]
fn chart_and_packages_have_the_version_of_the_workspace() {
    let chart = std::fs::read_to_string(root().join("node-agent/agent/deploy/chart/Chart.yaml"));
    let chart: Value = serde_saphyr::from_str(&chart.expect("the chart")).expect("YAML");
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
}
