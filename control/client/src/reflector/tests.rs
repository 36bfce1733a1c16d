//! The reflector against fakes: one that answers by script, and one that is a
//! small API server with a model inside. What they cannot prove, namely that
//! real servers behave so, is for the tests against real ones.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame as BodyFrame;
use http_body_util::{BodyExt, StreamBody};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::service_fn;

use super::*;
use crate::client::Client;
use crate::meta::Metadata;
use crate::resource::resources;
use crate::transport::{ConnectionError, RequestBody};

type FakeBody = http_body_util::combinators::UnsyncBoxBody<Bytes, std::io::Error>;

fn whole(code: u16, body: &Value) -> Response<FakeBody> {
    let body = http_body_util::Full::new(Bytes::from(body.to_string()))
        .map_err(|never: Infallible| match never {})
        .boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}

fn streamed(
    chunks: impl futures::Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static,
) -> Response<FakeBody> {
    Response::new(StreamBody::new(chunks.map(|chunk| chunk.map(BodyFrame::data))).boxed_unsync())
}

fn pod(name: &str, version: u64) -> Value {
    json!({"metadata": {"namespace": "default", "name": name, "uid": name,
        "resourceVersion": version.to_string()}})
}

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

fn bookmark(version: u64, ends: bool) -> String {
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if ends {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    event("BOOKMARK", &json!({"metadata": metadata}))
}

fn expired() -> Value {
    json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})
}

// === A server that answers by script ===

/// One answer.
enum Answer {
    Whole(u16, Value),
    /// Lines of a watch, and how it ends.
    Watch(Vec<String>, Ending),
}

enum Ending {
    Close,
    Cut,
    Hang,
}

/// Answers in order, then hangs; remembers what it was asked.
fn scripted(script: Vec<Answer>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let script = Arc::new(Mutex::new(VecDeque::from(script)));
    let service = {
        let asked = Arc::clone(&asked);
        service_fn(move |request: Request<RequestBody>| {
            let uri = request.uri().to_string();
            // the time limit is drawn by lot
            let uri = uri
                .split('&')
                .filter(|pair| !pair.starts_with("timeoutSeconds"))
                .collect::<Vec<_>>()
                .join("&");
            asked.lock().unwrap().push(uri);
            let answer = script.lock().unwrap().pop_front();
            async move {
                Ok::<_, Infallible>(match answer {
                    None => streamed(stream::pending()),
                    Some(Answer::Whole(code, body)) => whole(code, &body),
                    Some(Answer::Watch(lines, ending)) => {
                        let lines = stream::iter(lines).map(|line| Ok(Bytes::from(line)));
                        match ending {
                            Ending::Close => streamed(lines),
                            Ending::Cut => streamed(lines.chain(stream::iter([Err(
                                std::io::Error::from(std::io::ErrorKind::ConnectionReset),
                            )]))),
                            Ending::Hang => streamed(lines.chain(stream::pending())),
                        }
                    }
                })
            }
        })
    };
    (Client::in_process(service, ()), asked)
}

fn follow(client: &Client) -> Reflector<Metadata> {
    reflect_resource(client, resources::PODS, Selection::all())
}

/// Names and versions.
fn contents(reflector: &Reflector<Metadata>) -> String {
    let snapshot = reflector.cache().snapshot();
    let objects: Vec<_> = snapshot
        .iter()
        .map(|object| {
            format!(
                "{}@{}",
                object.metadata.name, object.metadata.resource_version
            )
        })
        .collect();
    objects.join(" ")
}

/// Waits for the contents, with virtual time.
async fn becomes(reflector: &Reflector<Metadata>, expected: &str) {
    for _ in 0..10_000 {
        if reflector.is_synced() && contents(reflector) == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("expected `{expected}`, have `{}`", contents(reflector));
}

/// What a change says: `+name`, `~name`, `-name`.
fn told(changes: &mut Changes<Metadata>) -> String {
    let mut text = Vec::new();
    while let Some(change) = changes.try_recv() {
        let sign = match (&change.previous, &change.current) {
            (None, _) => '+',
            (Some(_), Some(_)) => '~',
            (Some(_), None) => '-',
        };
        let object = change.latest().unwrap();
        text.push(format!("{sign}{}", object.metadata.name));
    }
    text.join(" ")
}

const STREAM: &str = "/api/v1/pods?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

fn watch_from(version: u64) -> String {
    format!("/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion={version}")
}

#[tokio::test(start_paused = true)]
async fn initial_events_then_changes_arrive_over_one_watch() {
    let (client, asked) = scripted(vec![Answer::Watch(
        vec![
            event("ADDED", &pod("a", 1)),
            event("ADDED", &pod("b", 2)),
            bookmark(5, true),
            event("MODIFIED", &pod("a", 6)),
            event("DELETED", &pod("b", 7)),
            event("ADDED", &pod("c", 8)),
        ],
        Ending::Hang,
    )]);
    let reflector = follow(&client);
    let mut changes = reflector.changes();
    becomes(&reflector, "a@6 c@8").await;
    assert_eq!(told(&mut changes), "+a +b ~a -b +c");
    assert_eq!(*asked.lock().unwrap(), [STREAM]);
    assert_eq!(reflector.stats().relists, 1);
    assert_eq!(reflector.stats().events, 3);
}

#[tokio::test(start_paused = true)]
async fn a_filter_refuses_objects_that_are_known_and_changes_that_come() {
    let (client, _) = scripted(vec![Answer::Watch(
        vec![
            event("ADDED", &pod("a", 1)),
            event("ADDED", &pod("b", 2)),
            bookmark(5, true),
            event("MODIFIED", &pod("a", 6)),
            event("MODIFIED", &pod("b", 7)),
            event("DELETED", &pod("a", 8)),
        ],
        Ending::Hang,
    )]);
    let reflector = follow(&client);
    let is_b = |change: &Change<Metadata>| change.latest().is_some_and(|it| it.name() == "b");
    let mut from_the_beginning = reflector.changes_where(is_b);
    becomes(&reflector, "b@7").await;
    assert_eq!(told(&mut from_the_beginning), "+b ~b");
    let mut later = reflector.changes_where(move |change| !is_b(change));
    assert_eq!(told(&mut later), "");
}

#[tokio::test(start_paused = true)]
async fn a_weak_reference_does_not_keep_the_watch_open() {
    let (client, asked) = scripted(Vec::new());
    let reflector = follow(&client);
    let weak = reflector.downgrade();
    let cache = weak.upgrade().expect("it lives").cache();
    drop(reflector);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(asked.lock().unwrap().len(), 1);
    assert!(weak.upgrade().is_some(), "a cache of it lives");
    drop(cache);
    assert!(weak.upgrade().is_none());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_visible_before_the_initial_events_are_complete() {
    let (client, _) = scripted(vec![Answer::Watch(
        vec![event("ADDED", &pod("a", 1)), bookmark(3, false)],
        Ending::Hang,
    )]);
    let reflector = follow(&client);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!reflector.is_synced());
    assert_eq!(contents(&reflector), "");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_is_listed_in_pages_and_watched() {
    let invalid = json!({"kind": "Status", "code": 422, "reason": "Invalid",
        "message": "sendInitialEvents is forbidden"});
    let (client, asked) = scripted(vec![
        Answer::Whole(422, invalid),
        Answer::Whole(
            200,
            json!({"metadata": {"resourceVersion": "9", "continue": "x/y"}, "items": [pod("a", 1)]}),
        ),
        Answer::Whole(
            200,
            json!({"metadata": {"resourceVersion": "9"}, "items": [pod("b", 2)]}),
        ),
        Answer::Watch(vec![event("ADDED", &pod("c", 10))], Ending::Hang),
    ]);
    let reflector = follow(&client);
    becomes(&reflector, "a@1 b@2 c@10").await;
    assert_eq!(
        *asked.lock().unwrap(),
        [
            STREAM,
            "/api/v1/pods?limit=500",
            "/api/v1/pods?limit=500&continue=x%2Fy",
            &watch_from(9)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_half_way_leaves_nothing_in_the_next() {
    let (client, _) = scripted(vec![
        Answer::Watch(vec![event("ADDED", &pod("a", 1))], Ending::Cut),
        Answer::Watch(
            vec![event("ADDED", &pod("b", 2)), bookmark(2, true)],
            Ending::Close,
        ),
    ]);
    becomes(&follow(&client), "b@2").await;

    let invalid = json!({"kind": "Status", "code": 422, "reason": "Invalid"});
    let page = |name, next: &str| json!({"metadata": {"resourceVersion": "9", "continue": next}, "items": [pod(name, 1)]});
    let (client, _) = scripted(vec![
        Answer::Whole(422, invalid),
        Answer::Whole(200, page("a", "x")),
        Answer::Whole(410, expired()),
        Answer::Whole(200, page("b", "")),
    ]);
    becomes(&follow(&client), "b@1").await;
}

/// As a kube-apiserver on an etcd without progress notifications answers.
#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_send_initial_events_is_listed_and_asked_for_them_again() {
    let sorry = json!({"kind": "Status", "code": 500, "reason": "InternalError",
        "message": "a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled"});
    let list = || json!({"metadata": {"resourceVersion": "7"}, "items": [pod("a", 3)]});
    let (client, asked) = scripted(vec![
        Answer::Watch(vec![event("ERROR", &sorry)], Ending::Close),
        Answer::Whole(200, list()),
        Answer::Watch(vec![event("ERROR", &expired())], Ending::Close),
        Answer::Whole(500, sorry),
        Answer::Whole(200, list()),
    ]);
    let reflector = reflect::<Metadata>(&client, Selection::all());
    becomes(&reflector, "a@3").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let asked = asked.lock().unwrap().clone();
    let kinds: Vec<&str> = asked
        .iter()
        .map(|path| match path {
            path if path.contains("sendInitialEvents") => "initial",
            path if path.contains("watch=true") => "watch",
            _ => "list",
        })
        .collect();
    assert_eq!(
        kinds,
        ["initial", "list", "watch", "initial", "list", "watch"],
        "{asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_initial_events_is_listed_after_a_while() {
    let (client, asked) = scripted(vec![
        Answer::Watch(vec![event("ADDED", &pod("a", 1))], Ending::Hang),
        Answer::Whole(
            200,
            json!({"metadata": {"resourceVersion": "4"}, "items": [pod("a", 1)]}),
        ),
    ]);
    let reflector = follow(&client);
    becomes(&reflector, "a@1").await;
    assert_eq!(
        *asked.lock().unwrap(),
        [STREAM, "/api/v1/pods?limit=500", &watch_from(4)]
    );
}

#[tokio::test(start_paused = true)]
async fn after_a_cut_the_watch_resumes_where_it_was() {
    let (client, asked) = scripted(vec![
        Answer::Watch(
            vec![
                bookmark(5, true),
                event("ADDED", &pod("a", 6)),
                bookmark(30, false),
            ],
            Ending::Cut,
        ),
        Answer::Whole(503, json!({})),
        Answer::Watch(vec![event("ADDED", &pod("b", 31))], Ending::Close),
    ]);
    let reflector = follow(&client);
    becomes(&reflector, "a@6 b@31").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        *asked.lock().unwrap(),
        [STREAM, &watch_from(30), &watch_from(30), &watch_from(31)]
    );
    assert_eq!(reflector.stats().relists, 1);
}

#[tokio::test(start_paused = true)]
async fn an_expired_revision_is_read_anew_and_only_the_difference_is_told() {
    for as_event in [true, false] {
        let gone = if as_event {
            Answer::Watch(vec![event("ERROR", &expired())], Ending::Close)
        } else {
            Answer::Whole(410, expired())
        };
        let (client, asked) = scripted(vec![
            Answer::Watch(
                vec![
                    event("ADDED", &pod("same", 1)),
                    event("ADDED", &pod("gone", 2)),
                    event("ADDED", &pod("new", 3)),
                    bookmark(5, true),
                ],
                Ending::Cut,
            ),
            gone,
            Answer::Watch(
                vec![
                    event("ADDED", &pod("same", 1)),
                    event("ADDED", &pod("new", 8)),
                    event("ADDED", &pod("more", 9)),
                    bookmark(20, true),
                ],
                Ending::Hang,
            ),
        ]);
        let reflector = follow(&client);
        let mut changes = reflector.changes();
        becomes(&reflector, "more@9 new@8 same@1").await;
        assert_eq!(told(&mut changes), "+gone +new +same +more ~new -gone");
        assert_eq!(*asked.lock().unwrap(), [STREAM, &watch_from(5), STREAM]);
        assert_eq!(reflector.stats().relists, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reflector_that_panics_reads_everything_again_and_tells_what_it_missed() {
    let supervisor = control_supervise::Supervisor::new();
    let (client, asked) = scripted(vec![
        Answer::Watch(
            vec![
                event("ADDED", &pod("a", 1)),
                event("ADDED", &pod("b", 2)),
                bookmark(2, true),
            ],
            Ending::Hang,
        ),
        Answer::Watch(
            vec![
                event("ADDED", &pod("a", 3)),
                event("ADDED", &pod("c", 4)),
                bookmark(4, true),
                event("MODIFIED", &pod("c", 5)),
            ],
            Ending::Hang,
        ),
    ]);
    let test = async {
        let reflector = follow(&client);
        let mut changes = reflector.changes();
        becomes(&reflector, "a@1 b@2").await;
        assert_eq!(told(&mut changes), "+a +b");
        assert_eq!(supervisor.panic("reflector"), 1);
        becomes(&reflector, "a@3 c@5").await;
        // Readers see the objects all the while: nothing goes and comes back.
        assert_eq!(told(&mut changes), "~a +c -b ~c");
        assert_eq!(supervisor.restarts("reflector"), 1);
        assert!(supervisor.unhealthy().is_empty());
        assert_eq!(*asked.lock().unwrap(), [STREAM, STREAM]);
    };
    supervisor.scope(test).await;
}

#[tokio::test(start_paused = true)]
async fn events_of_the_past_change_nothing() {
    let (client, _) = scripted(vec![Answer::Watch(
        vec![
            event("ADDED", &pod("a", 5)),
            bookmark(10, true),
            event("MODIFIED", &pod("a", 4)),
            event("DELETED", &pod("a", 3)),
            event("MODIFIED", &pod("a", 5)),
            event("ADDED", &pod("z", 11)),
        ],
        Ending::Hang,
    )]);
    let reflector = follow(&client);
    let mut changes = reflector.changes();
    becomes(&reflector, "a@5 z@11").await;
    assert_eq!(told(&mut changes), "+a +z");
}

#[tokio::test(start_paused = true)]
async fn an_object_made_anew_under_its_name_replaces_the_old_one() {
    let mut again = pod("a", 4);
    again["metadata"]["uid"] = json!("another");
    let (client, _) = scripted(vec![Answer::Watch(
        vec![
            event("ADDED", &pod("a", 9)),
            bookmark(10, true),
            event("ADDED", &again),
        ],
        Ending::Hang,
    )]);
    let reflector = follow(&client);
    let mut changes = reflector.changes();
    becomes(&reflector, "a@4").await;
    assert_eq!(told(&mut changes), "+a -a +a");
    let object = reflector.cache().get("default", "a").unwrap();
    assert_eq!(object.metadata.uid, "another");
}

#[tokio::test(start_paused = true)]
async fn a_restored_server_is_read_anew() {
    let too_large = json!({"kind": "Status", "code": 504, "reason": "Timeout",
    "message": "Timeout: Too large resource version: 30, current: 9",
    "details": {"retryAfterSeconds": 1, "causes": [
        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    ]}});
    for told in [
        Answer::Whole(504, too_large.clone()),
        Answer::Watch(vec![event("ERROR", &too_large)], Ending::Close),
        // A server that accepts the revision, but whose bookmarks are older.
        Answer::Watch(vec![bookmark(8, false)], Ending::Hang),
    ] {
        let (client, asked) = scripted(vec![
            Answer::Watch(
                vec![event("ADDED", &pod("lost", 29)), bookmark(30, true)],
                Ending::Cut,
            ),
            told,
            Answer::Watch(
                vec![event("ADDED", &pod("old", 3)), bookmark(9, true)],
                Ending::Hang,
            ),
        ]);
        let reflector = follow(&client);
        becomes(&reflector, "old@3").await;
        assert_eq!(
            *asked.lock().unwrap(),
            [STREAM, &watch_from(30), STREAM].map(str::to_owned)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_is_left_out_and_the_rest_goes_on() {
    let mut bad = pod("bad", 11);
    bad["metadata"]["generation"] = json!("three");
    let (client, asked) = scripted(vec![
        Answer::Watch(
            vec![
                bookmark(10, true),
                event("ADDED", &bad),
                event("ADDED", &pod("good", 12)),
            ],
            Ending::Cut,
        ),
        Answer::Whole(410, expired()),
        Answer::Whole(400, json!({"code": 400})),
        Answer::Whole(
            200,
            json!({"metadata": {"resourceVersion": "20"}, "items": [bad, pod("good", 12)]}),
        ),
    ]);
    let reflector = follow(&client);
    becomes(&reflector, "good@12").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(contents(&reflector), "good@12");
    assert_eq!(reflector.stats().unreadable, 1, "not even its metadata");
    assert_eq!(asked.lock().unwrap().last(), Some(&watch_from(20)));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_the_server_forgets_is_given_up() {
    let (client, asked) = scripted(vec![Answer::Watch(vec![bookmark(5, true)], Ending::Hang)]);
    let reflector = follow(&client);
    becomes(&reflector, "").await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(asked.lock().unwrap().len(), 1);
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert_eq!(asked.lock().unwrap().get(1), Some(&watch_from(5)));
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_ever_more_slowly() {
    let refusals = (0..40).map(|_| Answer::Whole(500, json!({}))).collect();
    let (client, asked) = scripted(refusals);
    let reflector = follow(&client);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let early = asked.lock().unwrap().len();
    assert!((4..=7).contains(&early), "{early} in the first second");
    tokio::time::sleep(Duration::from_secs(59)).await;
    let late = asked.lock().unwrap().len() - early;
    assert!((5..=14).contains(&late), "{late} in the first minute");
    assert!(!reflector.is_synced());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_back_is_followed_within_a_second_however_long_it_was_gone() {
    let is_back = Arc::new(AtomicBool::new(false));
    let service = {
        let is_back = Arc::clone(&is_back);
        service_fn(move |_: Request<RequestBody>| {
            let answer = if is_back.load(Ordering::Relaxed) {
                let chunks = stream::iter([Ok(Bytes::from(bookmark(1, true)))]);
                Ok(streamed(chunks.chain(stream::pending())))
            } else {
                Err(ConnectionError {
                    server: "https://10.0.0.1:6443".to_owned(),
                    reason: "tcp connect error: Connection refused".to_owned(),
                    is_tls: false,
                })
            };
            std::future::ready(answer)
        })
    };
    let reflector = follow(&Client::in_process(service, ()));
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(!reflector.is_synced());
    is_back.store(true, Ordering::Relaxed);
    let synced = tokio::time::timeout(Duration::from_secs(1), reflector.synced()).await;
    assert!(synced.is_ok(), "not followed after a second");
}

#[tokio::test(start_paused = true)]
async fn a_late_subscriber_gets_what_is_there_and_then_what_comes() {
    let (client, _) = scripted(vec![
        Answer::Watch(
            vec![event("ADDED", &pod("a", 1)), bookmark(5, true)],
            Ending::Cut,
        ),
        Answer::Watch(vec![event("ADDED", &pod("b", 6))], Ending::Hang),
    ]);
    let reflector = follow(&client);
    reflector.synced().await;
    let mut changes = reflector.changes();
    becomes(&reflector, "a@1 b@6").await;
    assert_eq!(told(&mut changes), "+a +b");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_ends_the_watch() {
    let (client, _) = scripted(vec![Answer::Watch(vec![bookmark(5, true)], Ending::Hang)]);
    let reflector = follow(&client);
    reflector.synced().await;
    let mut changes = reflector.changes();
    let cache = reflector.cache();
    drop(reflector);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(changes.try_recv().is_none());
    drop(cache);
    let ended = tokio::time::timeout(Duration::from_secs(1), changes.recv()).await;
    assert!(matches!(ended, Ok(None)));
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_is_asked_for_and_selectors_are_sent() {
    let (client, asked) = scripted(vec![]);
    let selection = Selection::all()
        .namespace("a")
        .fields("spec.nodeName=n")
        .metadata_only();
    let _reflector = reflect_resource::<Metadata>(&client, resources::PODS, selection);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(
        asked.lock().unwrap()[0]
            .starts_with("/api/v1/namespaces/a/pods?fieldSelector=spec.nodeName%3Dn&watch=true&")
    );
}

// === A server with a model inside ===

/// What happens to the server and to the connections to it.
#[derive(Clone, Debug)]
enum Happening {
    Put(u8),
    Delete(u8),
    Recreate(u8),
    Disconnect,
    Compact,
    Refuse,
    Wait,
}

#[derive(Default)]
struct Model {
    revision: u64,
    /// Name to uid and revision.
    objects: BTreeMap<String, (u64, u64)>,
    log: Vec<(u64, &'static str, Value)>,
    compacted: u64,
    refusals: u32,
}

struct Server {
    model: Mutex<Model>,
    /// Moves on with each write; the second number with each disconnection.
    moved: watch::Sender<(u64, u64)>,
    streaming: bool,
}

fn model_object(name: &str, uid: u64, revision: u64) -> Value {
    json!({"metadata": {"namespace": "default", "name": name, "uid": uid.to_string(),
        "resourceVersion": revision.to_string()}})
}

impl Server {
    fn happen(&self, happening: &Happening) {
        let mut model = self.model.lock().unwrap();
        match happening {
            Happening::Put(name) => model.put(&name.to_string(), false),
            Happening::Delete(name) => model.delete(&name.to_string()),
            Happening::Recreate(name) => {
                model.delete(&name.to_string());
                model.put(&name.to_string(), true);
            }
            Happening::Compact => model.compacted = model.revision,
            Happening::Refuse => model.refusals += 1,
            Happening::Disconnect | Happening::Wait => {}
        }
        let revision = model.revision;
        self.moved.send_modify(|moved| {
            moved.0 = revision;
            moved.1 += u64::from(matches!(happening, Happening::Disconnect));
        });
    }

    fn answer(self: Arc<Self>, uri: &http::Uri) -> Response<FakeBody> {
        let query: BTreeMap<&str, &str> = uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .collect();
        let mut model = self.model.lock().unwrap();
        if model.refusals > 0 {
            model.refusals -= 1;
            return whole(500, &json!({}));
        }
        if !query.contains_key("watch") {
            let items: Vec<Value> = model
                .objects
                .iter()
                .map(|(name, (uid, revision))| model_object(name, *uid, *revision))
                .collect();
            let metadata = json!({"resourceVersion": model.revision.to_string()});
            return whole(200, &json!({"metadata": metadata, "items": items}));
        }
        let mut first = String::new();
        let from = if query.contains_key("sendInitialEvents") {
            if !self.streaming {
                return whole(422, &json!({"code": 422, "reason": "Invalid"}));
            }
            for (name, (uid, revision)) in &model.objects {
                first.push_str(&event("ADDED", &model_object(name, *uid, *revision)));
            }
            first.push_str(&bookmark(model.revision, true));
            model.revision
        } else {
            query["resourceVersion"].parse().unwrap()
        };
        if from < model.compacted {
            return whole(410, &expired());
        }
        drop(model);
        let moved = self.moved.subscribe();
        let connection = moved.borrow().1;
        let events = stream::unfold(
            (self, moved, from),
            move |(server, mut moved, from)| async move {
                loop {
                    let (_, disconnections) = *moved.borrow_and_update();
                    if disconnections != connection {
                        let error = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                        return Some((Err(error), (server, moved, from)));
                    }
                    let (text, now) = {
                        let model = server.model.lock().unwrap();
                        let text: String = model
                            .log
                            .iter()
                            .filter(|(revision, ..)| *revision > from)
                            .map(|(_, kind, object)| event(kind, object))
                            .collect();
                        (text, model.revision)
                    };
                    if !text.is_empty() {
                        // cut anywhere: chunks are not lines
                        return Some((Ok(Bytes::from(text)), (server, moved, now)));
                    }
                    moved.changed().await.ok()?;
                }
            },
        );
        let first = (!first.is_empty()).then(|| Ok(Bytes::from(first)));
        streamed(stream::iter(first).chain(events))
    }
}

impl Model {
    fn put(&mut self, name: &str, anew: bool) {
        self.revision += 1;
        let revision = self.revision;
        let known = self.objects.get(name).filter(|_| !anew);
        let kind = if known.is_some() { "MODIFIED" } else { "ADDED" };
        let uid = known.map_or(revision, |(uid, _)| *uid);
        self.objects.insert(name.to_owned(), (uid, revision));
        self.log
            .push((revision, kind, model_object(name, uid, revision)));
    }

    fn delete(&mut self, name: &str) {
        if let Some((uid, _)) = self.objects.remove(name) {
            self.revision += 1;
            let object = model_object(name, uid, self.revision);
            self.log.push((self.revision, "DELETED", object));
        }
    }
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        6 => (0u8..12).prop_map(Happening::Put),
        3 => (0u8..12).prop_map(Happening::Delete),
        1 => (0u8..12).prop_map(Happening::Recreate),
        1 => Just(Happening::Disconnect),
        1 => Just(Happening::Compact),
        1 => Just(Happening::Refuse),
        3 => Just(Happening::Wait),
    ];
    prop::collection::vec(one, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_cache_and_what_it_tells_become_equal_to_the_server(
        happenings in happenings(), streaming in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async move {
            let server = Arc::new(Server {
                model: Mutex::default(),
                moved: watch::Sender::new((0, 0)),
                streaming,
            });
            let service = {
                let server = Arc::clone(&server);
                service_fn(move |request: Request<RequestBody>| {
                    let response = Arc::clone(&server).answer(request.uri());
                    async move { Ok::<_, Infallible>(response) }
                })
            };
            let client = Client::in_process(service, ());
            let reflector = follow(&client);
            let mut changes = reflector.changes();
            let mut replayed = BTreeMap::new();
            for happening in &happenings {
                server.happen(happening);
                if matches!(happening, Happening::Wait) {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
            let expected: Vec<String> = server.model.lock().unwrap().objects.iter()
                .map(|(name, (_, revision))| format!("{name}@{revision}")).collect();
            becomes(&reflector, &expected.join(" ")).await;
            // and the changes, applied one after the other, lead to the same
            while let Some(change) = changes.try_recv() {
                let name = change.latest().unwrap().metadata.name.clone();
                if let (Some(previous), Some(current)) = (&change.previous, &change.current) {
                    assert_eq!(previous.metadata.uid, current.metadata.uid);
                }
                let known: Option<Arc<Metadata>> = match &change.current {
                    Some(current) => replayed.insert(name, Arc::clone(current)),
                    None => replayed.remove(&name),
                };
                assert_eq!(known.is_some(), change.previous.is_some());
                if let (Some(known), Some(previous)) = (known, change.previous) {
                    assert!(Arc::ptr_eq(&known, &previous));
                }
            }
            let replayed: Vec<String> = replayed.values()
                .map(|object| format!("{}@{}", object.metadata.name, object.metadata.resource_version))
                .collect();
            assert_eq!(replayed, expected);
        });
    }
}
