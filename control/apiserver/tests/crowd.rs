//! Many watchers of the same resource in a storm of changes: what they share must
//! be what each of them wants.

mod common;

use std::time::Duration;

use common::{ask, root, send, server};
use control_apiserver::ApiServer;
use control_request::body::Body;
use control_types::value;
use control_types::value::Value;
use http::{Method, Response};
use http_body_util::BodyExt;

const NAMESPACES: [&str; 2] = ["default", "kube-public"];
const WRITES: usize = 120;

fn maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// One change: namespace, whether the map is marked, and revision.
type Made = (&'static str, bool, i64);

async fn make(server: &ApiServer, namespace: &'static str, marked: bool, name: &str) -> Made {
    let labels = if marked {
        value!({"marked": "yes"})
    } else {
        value!({})
    };
    let map = value!({"metadata": {"name": (name), "labels": (labels)}});
    let (code, map) = ask(server, &root(), Method::POST, &maps(namespace), Some(map)).await;
    assert_eq!(code, 201, "{map:?}");
    (namespace, marked, revision(&map))
}

async fn storm(server: &ApiServer, name: &str) -> Vec<Made> {
    let mut made = Vec::new();
    for write in 0..WRITES {
        let name = format!("{name}-{write}");
        made.push(make(server, NAMESPACES[write % 2], write % 3 == 0, &name).await);
    }
    made
}

fn revision(object: &Value) -> i64 {
    let text = object.str_at(&["metadata", "resourceVersion"]);
    text.and_then(|text| text.parse().ok()).expect("a revision")
}

/// The revisions that a watch tells of until the map `end` of a namespace.
async fn told(answer: Response<Body>, end: &str) -> Vec<i64> {
    let (mut body, mut rest, mut seen) = (answer.into_body(), Vec::new(), Vec::new());
    loop {
        let frame = tokio::time::timeout(Duration::from_secs(20), body.frame()).await;
        let frame = frame.expect("an event in time").expect("no end");
        rest.extend_from_slice(frame.expect("no error").data_ref().expect("data"));
        while let Some(line) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=line).collect();
            let event = Value::from_slice(&line).expect("JSON");
            assert_eq!(event.str_at(&["type"]), Some("ADDED"), "{event:?}");
            let object = event.get("object").expect("an object");
            seen.push(revision(object));
            let metadata = |field| object.str_at(&["metadata", field]);
            if metadata("name") == Some("end") && metadata("namespace") == Some(end) {
                return seen;
            }
        }
        // Some are read slowly, and get many events at once.
        tokio::time::sleep(Duration::from_millis(seen.len() as u64 % 4)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_in_a_crowd_gets_what_it_asked_for_and_all_of_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    let mut made = storm(&server, "before").await;
    let mut readers = Vec::new();
    // Watches begin all along what has happened already.
    for reader in 0..60 {
        let after = made[(reader * 7) % WRITES].2;
        let namespace = [Some("default"), Some("kube-public"), None][reader % 3];
        let marked = reader % 5 == 0;
        let path = namespace.map_or("/api/v1/configmaps".into(), maps);
        let selector = if marked {
            "&labelSelector=marked%3Dyes"
        } else {
            ""
        };
        let path = format!("{path}?watch=1&resourceVersion={after}{selector}");
        let answer = send(&server, &root(), Method::GET, &path, &[], None).await;
        assert_eq!(answer.status(), 200);
        let reads = tokio::spawn(told(answer, namespace.unwrap_or(NAMESPACES[1])));
        readers.push((after, namespace, marked, reads));
    }
    made.extend(storm(&server, "beside").await);
    for namespace in NAMESPACES {
        made.push(make(&server, namespace, true, "end").await);
    }
    for (after, namespace, marked, reads) in readers {
        let wanted: Vec<i64> = made
            .iter()
            .filter(|(of, is_marked, revision)| {
                *revision > after
                    && namespace.is_none_or(|namespace| namespace == *of)
                    && (!marked || *is_marked)
            })
            .map(|(.., revision)| *revision)
            .collect();
        let seen = reads.await.expect("read");
        assert_eq!(
            seen, wanted,
            "{namespace:?} after {after}, marked: {marked}"
        );
    }
}
