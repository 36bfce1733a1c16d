//! Informers against an API server that knows its open watches.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use control_client::{Change, RequestBody};
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::*;

/// An API server that has two Nodes, and sends what it is told to each watch.
#[derive(Clone)]
struct Server {
    /// Path and selector of each watch that is open.
    watches: Arc<Mutex<Vec<String>>>,
    lines: broadcast::Sender<String>,
}

/// Ends with the answer to a watch.
struct OpenWatch(Server, String);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        let mut watches = self.0.watches.lock().unwrap();
        let at = watches.iter().position(|it| *it == self.1);
        watches.remove(at.expect("it was open"));
    }
}

fn node(name: &str, revision: u64) -> Value {
    json!({"metadata": {"name": name, "uid": name, "resourceVersion": revision.to_string()}})
}

impl Server {
    fn new() -> Self {
        Self {
            watches: Arc::default(),
            lines: broadcast::channel(100).0,
        }
    }

    fn send(&self, kind: &str, object: &Value) {
        let line = json!({"type": kind, "object": object});
        self.lines.send(format!("{line}\n")).expect("a watch");
    }

    fn informers(&self, scope: NodeScope) -> Informers {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<RequestBody>| {
            let answer = server.answer(&request);
            async move { Ok::<_, Infallible>(answer) }
        });
        Informers::new(Client::in_process(service, ()), "a", scope)
    }

    fn answer(&self, request: &Request<RequestBody>) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
        let query = request.uri().query().expect("all are watches");
        let selector = query.split('&').filter(|it| it.contains("Selector"));
        let path = request.uri().path();
        let watch = [path]
            .into_iter()
            .chain(selector)
            .collect::<Vec<_>>()
            .join(" ");
        self.watches.lock().unwrap().push(watch.clone());
        let open = OpenWatch(self.clone(), watch);
        let mut end = json!({"metadata": {"resourceVersion": "5"}});
        end["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        let mut first = Vec::new();
        if path.ends_with("/nodes") {
            let all = [node("a", 1), node("b", 2)].into_iter();
            first.extend(all.map(|it| json!({"type": "ADDED", "object": it})));
        }
        first.push(json!({"type": "BOOKMARK", "object": end}));
        let first = first.into_iter().map(|it| format!("{it}\n"));
        let later = stream::unfold((self.lines.subscribe(), open), async |mut state| {
            let line = state.0.recv().await.ok()?;
            Some((line, state))
        });
        let lines = stream::iter(first.collect::<Vec<_>>()).chain(later);
        let frames = lines.map(|line| Ok(Frame::data(Bytes::from(line))));
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    /// The open watches, once nothing is going on any more.
    async fn watches(&self) -> Vec<String> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut watches = self.watches.lock().unwrap().clone();
        watches.sort();
        watches
    }
}

const NODES: &str = "/api/v1/nodes";

#[tokio::test(start_paused = true)]
async fn a_kind_is_watched_once_and_while_it_has_subscribers() {
    let server = Server::new();
    let informers = server.informers(NodeScope::All);
    assert!(server.watches().await.is_empty(), "nobody subscribed");
    let first = informers.subscribe::<Node>();
    let second = informers.clone().subscribe::<Node>();
    let own = informers.own_node();
    let services = informers.subscribe::<Service>();
    assert_eq!(server.watches().await, [NODES, "/api/v1/services"]);
    let object = first.cache().get("", "b").expect("it is listed");
    let same = second.cache().get("", "b").expect("it is listed");
    assert!(Arc::ptr_eq(&object, &same), "objects are shared");
    drop((first, second, services));
    assert_eq!(server.watches().await, [NODES], "the own Node is of them");
    drop(own);
    assert!(server.watches().await.is_empty());
    let again = informers.subscribe::<Node>();
    assert_eq!(server.watches().await, [NODES]);
    assert!(again.is_synced());
}

#[tokio::test(start_paused = true)]
async fn who_follows_no_other_nodes_in_any_case_watches_its_own() {
    let server = Server::new();
    let informers = server.informers(NodeScope::Own);
    let own = informers.own_node();
    let selected = "/api/v1/nodes fieldSelector=metadata.name%3Da";
    assert_eq!(server.watches().await, [selected]);
    let all = informers.subscribe::<Node>();
    assert_eq!(server.watches().await, [NODES, selected]);
    drop((own, all));
    assert!(server.watches().await.is_empty());
}

fn names(changes: &mut Changes<Node>) -> String {
    let mut names = Vec::new();
    while let Some(Change { previous, current }) = changes.try_recv() {
        let sign = match (&previous, &current) {
            (None, _) => '+',
            (Some(_), Some(_)) => '~',
            (Some(_), None) => '-',
        };
        let node = current.or(previous).expect("one of them");
        names.push(format!("{sign}{}", node.name()));
    }
    names.join(" ")
}

#[tokio::test(start_paused = true)]
async fn all_subscribers_receive_changes_in_one_order_and_the_own_node_only_its_own() {
    let server = Server::new();
    let informers = server.informers(NodeScope::All);
    let (nodes, own) = (informers.subscribe::<Node>(), informers.own_node());
    let mut all = [nodes.changes(), nodes.changes()];
    let mut of_own = own.changes();
    own.synced().await;
    assert!(own.is_synced());
    server.send("MODIFIED", &node("b", 6));
    server.send("MODIFIED", &node("a", 7));
    server.send("DELETED", &node("b", 8));
    assert_eq!(server.watches().await, [NODES]);
    let mut later = nodes.changes();
    assert_eq!(all.each_mut().map(names), ["+a +b ~b ~a -b"; 2]);
    assert_eq!(names(&mut of_own), "+a ~a");
    assert_eq!(
        names(&mut later),
        "+a",
        "whoever comes later receives what there is"
    );
    assert_eq!(own.cache().len(), 1);
}
