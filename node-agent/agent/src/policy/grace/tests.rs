use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use node_agent_policy::{Config, objects};
use prometheus_client::encoding::text::encode;
use serde_json::{Value, from_value, json};
use tokio::time::Instant;

use super::*;

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    from_value(object).expect("an object")
}

/// One of which a policy was taken away, and its ruleset has to be removed.
fn leaving() -> Compiler {
    let mut compiler = Compiler::new(Config {
        node: Some("n".to_owned()),
        ..Config::default()
    });
    let pod: objects::Pod = read(json!({
        "metadata": {"name": "p", "namespace": "x"},
        "spec": {"nodeName": "n"},
        "status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
    }));
    let policy: objects::NetworkPolicy = read(json!({
        "metadata": {"name": "deny", "namespace": "x"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    }));
    let namespace = read(json!({"metadata": {"name": "x"}}));
    compiler.namespace("x", Some(&namespace));
    compiler.pod("x", "p", Some(&pod));
    compiler.network_policy("x", "deny", Some(&policy));
    compiler.sync();
    compiler.network_policy("x", "deny", None);
    compiler.sync();
    assert!(compiler.mark().is_some() && compiler.waiting() > 0);
    compiler
}

fn fails() -> Result<(), Error> {
    Err(Error::Wait {
        source: io::Error::from_raw_os_error(12),
    })
}

fn shown(metrics: &GraceMetrics) -> String {
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).expect("encoded");
    text
}

#[tokio::test(start_paused = true)]
async fn a_kernel_that_cannot_be_waited_for_is_asked_less_and_less_often() {
    static FAILS: AtomicBool = AtomicBool::new(true);
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let compiler = leaving();
    let metrics = GraceMetrics::default();
    let mut passing = GraceWait {
        wait: || {
            ASKED.fetch_add(1, Ordering::Relaxed);
            if FAILS.load(Ordering::Relaxed) {
                fails()
            } else {
                Ok(())
            }
        },
        ..GraceWait::new(metrics.clone())
    };
    let begun = Instant::now();
    for expected in [0, 1, 3, 7] {
        // As after every change.
        passing.begin(&compiler);
        passing.begin(&compiler);
        assert_eq!(passing.over().await, None);
        assert_eq!(begun.elapsed().as_secs(), expected);
    }
    assert_eq!(ASKED.load(Ordering::Relaxed), 4);
    let text = shown(&metrics);
    assert!(
        text.contains("orlop_policy_waits_failed_total 4\n"),
        "{text}"
    );
    let waiting = format!("orlop_policy_leaving {}\n", compiler.waiting());
    assert!(text.contains(&waiting), "{text}");

    FAILS.store(false, Ordering::Relaxed);
    passing.begin(&compiler);
    assert_eq!(passing.over().await, compiler.mark());
    let begun = Instant::now();
    passing.begin(&compiler);
    assert_eq!(passing.over().await, compiler.mark());
    assert_eq!(begun.elapsed().as_secs(), 0, "as if nothing had been");
}

#[test]
fn pauses_end_at_a_minute() {
    let pauses: Vec<_> = (0..9).map(|it| pause(it).as_secs()).collect();
    assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(pause(u32::MAX), RARELY);
}

/// Else policies would stand still for as long as the kernel says nothing.
#[tokio::test]
async fn changes_wait_only_for_a_kernel_that_answers() {
    let compiler = leaving();
    let mut passing = GraceWait {
        wait: fails,
        ..GraceWait::new(GraceMetrics::default())
    };
    assert!(passing.is_too_much(compiler.waiting() + MOST));
    passing.begin(&compiler);
    assert_eq!(passing.over().await, None);
    assert!(!passing.is_too_much(compiler.waiting() + MOST));
}

/// A metric that nobody can read about is none.
#[test]
fn every_metric_is_explained() {
    let page = include_str!("../../../../../docs/reference/counters.md");
    let text = shown(&GraceMetrics::default());
    let mut shown = 0;
    for line in text.lines() {
        let Some((name, _)) = line.split_once(' ').filter(|it| it.0 != "#") else {
            continue;
        };
        let cell = format!(" | `{name}` | ");
        assert!(page.lines().any(|it| it.contains(&cell)), "{name}");
        shown += 1;
    }
    assert_eq!(shown, page.matches(" | `orlop_policy_").count());
}
