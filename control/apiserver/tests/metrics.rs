//! Metrics stand under kube-apiserver's names, so that dashboards work.

mod common;

use std::collections::BTreeMap;

use common::{ask, root, send, server};
use control_apiserver::ApiServer;
use control_types::value;
use http::Method;
use http_body_util::BodyExt;

/// The metrics of kube-apiserver 1.36.3, from the list that comes with its source
/// (`test/instrumentation`): stability, type, name and labels. Before those that do not
/// exist here stands `-`, and behind them why; before those that are there only once
/// something was counted, `~`.
const STOCK: &str = include_str!("corpus/metrics.txt");

async fn page(server: &ApiServer) -> String {
    let answer = send(server, &root(), Method::GET, "/metrics", &[], None).await;
    assert_eq!(answer.status(), 200);
    let bytes = answer.into_body().collect().await.expect("read").to_bytes();
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// The type of each metric of a page.
fn types(page: &str) -> BTreeMap<&str, &str> {
    let heads = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    heads.filter_map(|head| head.split_once(' ')).collect()
}

/// The names of the labels of a metric, where there is a sample of it.
fn labels(page: &str, name: &str) -> Option<Vec<String>> {
    let line = page.lines().find(|line| {
        let rest = line.strip_prefix(name);
        let rest = rest.map(|rest| rest.strip_prefix("_bucket").unwrap_or(rest));
        rest.is_some_and(|rest| rest.starts_with('{'))
    })?;
    let inner = line.split_once('{')?.1.rsplit_once('}')?.0;
    let mut names: Vec<String> = Vec::new();
    for part in inner.split("\",") {
        let (name, _) = part.split_once("=\"")?;
        if name != "le" {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Some(names)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_have_stocks_names_types_and_labels_or_a_reason_not_to_be() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = value!({"metadata": {"name": "a"}});
    let (code, _) = ask(&server, &root(), Method::POST, maps, Some(map)).await;
    assert_eq!(code, 201);
    for path in [maps, "/api/v1/endpoints", "/api/v1/pods"] {
        assert_eq!(ask(&server, &root(), Method::GET, path, None).await.0, 200);
    }
    let watch = format!(
        "{maps}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let answer = send(&server, &root(), Method::GET, &watch, &[], None).await;
    assert_eq!(common::events(answer).await.len(), 2);
    let page = page(&server).await;
    let types = types(&page);
    let mut wrong = Vec::new();
    for line in STOCK.lines().filter(|line| !line.starts_with('#')) {
        if let Some(rest) = line.strip_prefix("- ") {
            let name = rest.split([' ', ':']).nth(2).expect("a name");
            if types.contains_key(name) {
                wrong.push(format!("{name} exists: say so"));
            }
            continue;
        }
        let later = line.strip_prefix("~ ");
        let mut words = later.unwrap_or(line).split(' ').skip(1);
        let (kind, name) = (words.next().expect("a type"), words.next().expect("a name"));
        let wanted: Vec<&str> = words
            .next()
            .map_or_else(Vec::new, |all| all.split(',').collect());
        let may_be_absent = later.is_some() && !types.contains_key(name);
        if types.get(name) != Some(&kind) && !may_be_absent {
            wrong.push(format!("{name} is {:?}, not {kind}", types.get(name)));
        }
        if let Some(found) = labels(&page, name)
            && found != wanted
        {
            wrong.push(format!("{name} has labels {found:?}, not {wanted:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for line in [
        r#"apiserver_requested_deprecated_apis{group="",removed_release="",resource="endpoints",subresource="",version="v1"} 1"#,
        r#"apiserver_init_events_total{group="",resource="configmaps"} 1"#,
        r#"apiserver_watch_cache_consistent_read_total{fallback="false",group="",resource="pods",success="true"} 1"#,
        r#"apiserver_watch_list_duration_seconds_count{group="",resource="configmaps",scope="namespace",version="v1"} 1"#,
        r#"apiserver_terminated_watchers_total{group="",resource="configmaps"} 0"#,
    ] {
        assert!(page.contains(line), "no {line}");
    }
}
