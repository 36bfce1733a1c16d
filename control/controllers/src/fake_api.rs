//! A small API server in memory for tests of whole controllers in paused time.
//!
//! It stores JSON by path and serves get, list, watch, create, update, patch (merge,
//! strategic merge and JSON), and deletes with finalizers and preconditions. It does not
//! validate, default, authorize or collect garbage, and its selectors know
//! `metadata.name` alone: what depends on those is for tests against the real
//! server.

mod patch;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use control_client::{Client, RequestBody};
use futures::{StreamExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{Config, Context, Controller};

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// Answers a request instead of the fake.
type Override = dyn Fn(&Recorded) -> Option<(u16, Value)> + Send;

/// The fake server. Clones are the same server.
#[derive(Clone)]
pub(crate) struct FakeApi(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// The newest revision.
    revision: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    revision: u64,
    objects: BTreeMap<String, Value>,
    events: Vec<Event>,
    requests: Vec<Recorded>,
    answers: Option<Box<Override>>,
}

#[derive(Clone)]
struct Event {
    revision: u64,
    path: String,
    kind: &'static str,
    object: Value,
}

/// A request that the fake received.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub at: Instant,
    pub method: Method,
    /// Without the query.
    pub path: String,
    pub query: String,
    pub body: Value,
}

/// The target of a request.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    root: String,
    namespace: Option<String>,
    plural: String,
    name: Option<String>,
    subresource: Option<String>,
}

impl Target {
    fn parse(path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let root = match parts.next()? {
            "api" => format!("/api/{}", parts.next()?),
            "apis" => format!("/apis/{}/{}", parts.next()?, parts.next()?),
            _ => return None,
        };
        let rest: Vec<&str> = parts.collect();
        let at = |index: usize| rest.get(index).map(|part| (*part).to_owned());
        let nested = rest.first() == Some(&"namespaces")
            && rest.len() > 2
            && !matches!(rest[2], "status" | "finalize");
        let (namespace, skip) = if nested { (at(1), 2) } else { (None, 0) };
        Some(Self {
            root,
            namespace,
            plural: at(skip)?,
            name: at(skip + 1),
            subresource: at(skip + 2),
        })
    }

    /// The path of the object itself.
    fn object(&self) -> String {
        let mut path = self.root.clone();
        if let Some(namespace) = &self.namespace {
            path.push_str(&format!("/namespaces/{namespace}"));
        }
        path.push_str(&format!("/{}", self.plural));
        if let Some(name) = &self.name {
            path.push_str(&format!("/{name}"));
        }
        path
    }

    /// Whether a list or watch of this collection contains the object at `path`.
    fn contains(&self, path: &str) -> bool {
        Self::parse(path).is_some_and(|object| {
            object.root == self.root
                && object.plural == self.plural
                && (self.namespace.is_none() || object.namespace == self.namespace)
        })
    }
}

impl FakeApi {
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            revision: watch::Sender::new(0),
        }))
    }

    pub fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<RequestBody>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.serve(request).await) }
        });
        Client::in_process(service, ())
    }

    /// A client whose requests `fault` may answer instead, or leave without an answer.
    pub fn client_with_faults<F, Fut>(&self, fault: F) -> Client
    where
        F: Fn(&Method, &str) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Option<u16>> + Send,
    {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<RequestBody>| {
            let (api, fault) = (api.clone(), fault.clone());
            async move {
                let faulty = fault(request.method(), request.uri().path()).await;
                Ok::<_, Infallible>(match faulty {
                    Some(code) => failure(code, "Fault"),
                    None => api.serve(request).await,
                })
            }
        });
        Client::in_process(service, ())
    }

    /// Calls `answer` for every request first. On `None` the fake answers itself.
    pub fn answer_with(&self, answer: impl Fn(&Recorded) -> Option<(u16, Value)> + Send + 'static) {
        self.state().answers = Some(Box::new(answer));
    }

    /// Stores an object as a user would: created, or replaced whole.
    pub fn put(&self, path: &str, object: Value) {
        let known = self.state().objects.contains_key(path);
        self.store(path, object, if known { "MODIFIED" } else { "ADDED" });
    }

    /// Removes an object in spite of its finalizers.
    pub fn remove(&self, path: &str) {
        let mut state = self.state();
        if let Some(object) = state.objects.remove(path) {
            self.publish(&mut state, path, object, "DELETED");
        }
    }

    pub fn object(&self, path: &str) -> Option<Value> {
        self.state().objects.get(path).cloned()
    }

    /// Runs one controller against this server until the result is dropped.
    #[must_use]
    pub fn run(&self, controller: &Controller, config: Config) -> JoinSet<()> {
        let context = Context::new(self.client(), config, CancellationToken::new());
        let mut tasks = JoinSet::new();
        tasks.spawn((controller.start)(&context));
        context.launch(&mut tasks);
        tasks
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Recorded> {
        self.state().requests.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self, path: &str, mut object: Value, kind: &'static str) -> Value {
        let target = Target::parse(path).expect("the path of an object");
        let mut state = self.state();
        let meta = &mut object["metadata"];
        meta["name"] = target.name.expect("a name").into();
        if let Some(namespace) = target.namespace {
            meta["namespace"] = namespace.into();
        }
        if meta["uid"].is_null() {
            meta["uid"] = format!("uid-{}", state.revision + 1).into();
        }
        meta["resourceVersion"] = (state.revision + 1).to_string().into();
        state.objects.insert(path.to_owned(), object.clone());
        self.publish(&mut state, path, object.clone(), kind);
        object
    }

    fn publish(&self, state: &mut State, path: &str, mut object: Value, kind: &'static str) {
        state.revision += 1;
        object["metadata"]["resourceVersion"] = state.revision.to_string().into();
        state.events.push(Event {
            revision: state.revision,
            path: path.to_owned(),
            kind,
            object,
        });
        self.0.revision.send_replace(state.revision);
    }

    async fn serve(&self, request: Request<RequestBody>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        let recorded = Recorded {
            at: Instant::now(),
            method: head.method,
            path: head.uri.path().replace("%3A", ":"),
            query: head.uri.query().unwrap_or_default().to_owned(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        };
        let overridden = {
            let mut state = self.state();
            state.requests.push(recorded.clone());
            state.answers.as_ref().and_then(|answer| answer(&recorded))
        };
        if let Some((code, body)) = overridden {
            return whole(code, &body);
        }
        let Some(target) = Target::parse(&recorded.path) else {
            return failure(404, "NotFound");
        };
        let media = head.headers.get("content-type");
        let media = media.and_then(|media| media.to_str().ok());
        let media = media.unwrap_or_default();
        match (recorded.method.as_str(), &target.name) {
            ("GET", None) if recorded.query.contains("watch=") => self.watch(target, &recorded),
            ("GET", None) => self.list(&target, &recorded),
            ("GET", Some(_)) => match self.object(&target.object()) {
                Some(object) => whole(200, &object),
                None => failure(404, "NotFound"),
            },
            ("POST", None) => self.create(&target, recorded.body),
            ("PUT", Some(_)) => self.update(&target, recorded.body),
            ("PATCH", Some(_)) => self.patch(&target, &recorded.body, media),
            ("DELETE", Some(_)) => self.delete(&target.object(), &recorded.body),
            ("DELETE", None) => {
                for path in self.matching(&target) {
                    self.delete(&path, &Value::Null);
                }
                whole(200, &json!({"kind": "Status"}))
            }
            _ => failure(405, "MethodNotAllowed"),
        }
    }

    fn matching(&self, target: &Target) -> Vec<String> {
        let state = self.state();
        let paths = state.objects.keys();
        paths
            .filter(|path| target.contains(path))
            .cloned()
            .collect()
    }

    fn list(&self, target: &Target, recorded: &Recorded) -> Response<Body> {
        let paths = self.matching(target);
        let state = self.state();
        let items: Vec<&Value> = paths
            .iter()
            .map(|path| &state.objects[path])
            .filter(|object| is_selected(&recorded.query, object))
            .collect();
        let revision = state.revision.to_string();
        whole(
            200,
            &json!({"metadata": {"resourceVersion": revision}, "items": items}),
        )
    }

    fn watch(&self, target: Target, recorded: &Recorded) -> Response<Body> {
        let mut lines = Vec::new();
        let query = recorded.query.clone();
        let from = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("resourceVersion=")?.parse().ok());
        let initial = query.contains("sendInitialEvents=true");
        let paths = self.matching(&target);
        let mut seen = {
            let state = self.state();
            if initial {
                for path in &paths {
                    let object = &state.objects[path];
                    if is_selected(&query, object) {
                        lines.push(line("ADDED", object));
                    }
                }
                let bookmark = json!({"metadata": {
                    "resourceVersion": state.revision.to_string(),
                    "annotations": {"k8s.io/initial-events-end": "true"}
                }});
                lines.push(line("BOOKMARK", &bookmark));
                state.revision
            } else {
                from.unwrap_or(state.revision)
            }
        };
        let first = stream::iter(lines).map(Ok);
        let api = self.clone();
        let rest = lines_after_changes(Arc::clone(&self.0), move || {
            let state = api.state();
            let since = std::mem::replace(&mut seen, state.revision);
            state
                .events
                .iter()
                .filter(|event| event.revision > since)
                .filter(|event| target.contains(&event.path) && is_selected(&query, &event.object))
                .map(|event| line(event.kind, &event.object))
                .collect()
        });
        let lines = first.chain(rest).map(|line| line.map(Frame::data));
        Response::new(StreamBody::new(lines).boxed_unsync())
    }

    fn create(&self, target: &Target, mut body: Value) -> Response<Body> {
        let name = body.pointer("/metadata/name").and_then(Value::as_str);
        let name = match name {
            Some(name) => name.to_owned(),
            None => format!(
                "{}{}",
                body.pointer("/metadata/generateName")
                    .and_then(Value::as_str)
                    .unwrap_or_default(),
                self.state().revision
            ),
        };
        body["metadata"]["name"] = name.as_str().into();
        let path = format!("{}/{name}", target.object());
        if self.object(&path).is_some() {
            return failure(409, "AlreadyExists");
        }
        whole(201, &self.store(&path, body, "ADDED"))
    }

    fn update(&self, target: &Target, body: Value) -> Response<Body> {
        let path = target.object();
        let Some(known) = self.object(&path) else {
            return failure(404, "NotFound");
        };
        let revision = &body["metadata"]["resourceVersion"];
        if !revision.is_null() && *revision != known["metadata"]["resourceVersion"] {
            return failure(409, "Conflict");
        }
        self.finish(&path, body)
    }

    fn patch(&self, target: &Target, body: &Value, media: &str) -> Response<Body> {
        let path = target.object();
        let Some(mut object) = self.object(&path) else {
            return failure(404, "NotFound");
        };
        if media == "application/json-patch+json" {
            if patch::json(&mut object, body).is_err() {
                return failure(422, "Invalid");
            }
        } else {
            for field in ["uid", "resourceVersion"] {
                let wanted = &body["metadata"][field];
                if !wanted.is_null() && *wanted != object["metadata"][field] {
                    return failure(409, "Conflict");
                }
            }
            if media == "application/apply-patch+yaml" {
                patch::apply(&mut object, body);
            } else if media == "application/strategic-merge-patch+json" {
                patch::strategic(&mut object, body);
            } else {
                patch::merge(&mut object, body);
            }
        }
        self.finish(&path, object)
    }

    /// Stores a written object, or removes it when its deletion was waiting for
    /// this write.
    fn finish(&self, path: &str, object: Value) -> Response<Body> {
        if is_held(&object) || object["metadata"]["deletionTimestamp"].is_null() {
            return whole(200, &self.store(path, object, "MODIFIED"));
        }
        self.remove(path);
        whole(200, &object)
    }

    fn delete(&self, path: &str, options: &Value) -> Response<Body> {
        let Some(mut object) = self.object(path) else {
            return failure(404, "NotFound");
        };
        for field in ["uid", "resourceVersion"] {
            let wanted = &options["preconditions"][field];
            if !wanted.is_null() && *wanted != object["metadata"][field] {
                return failure(409, "Conflict");
            }
        }
        if !is_held(&object) {
            self.remove(path);
        } else if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            self.store(path, object, "MODIFIED");
        }
        whole(200, &json!({"kind": "Status"}))
    }
}

/// Whether finalizers keep the object.
fn is_held(object: &Value) -> bool {
    ["/metadata/finalizers", "/spec/finalizers"]
        .iter()
        .any(|list| {
            let list = object.pointer(list).and_then(Value::as_array);
            list.is_some_and(|list| !list.is_empty())
        })
}

/// The lines of a watch: what `next` gives now, and again after each change.
fn lines_after_changes(
    shared: Arc<Shared>,
    next: impl FnMut() -> Vec<Bytes> + Send + 'static,
) -> impl futures::Stream<Item = Result<Bytes, std::io::Error>> + Send {
    let changed = shared.revision.subscribe();
    // the sender must live as long as the stream
    stream::unfold(
        (shared, changed, next),
        |(shared, mut changed, mut next)| async move {
            changed.mark_unchanged();
            let lines = next();
            if lines.is_empty() {
                let _ = changed.changed().await;
            }
            Some((stream::iter(lines).map(Ok), (shared, changed, next)))
        },
    )
    .flatten()
}

fn is_selected(query: &str, object: &Value) -> bool {
    let wanted = query.split('&').find_map(|pair| {
        let selector = pair.strip_prefix("fieldSelector=")?;
        let selector = selector.replace("%3D", "=").replace("%3A", ":");
        Some(selector.strip_prefix("metadata.name=")?.to_owned())
    });
    wanted.is_none_or(|name| object["metadata"]["name"] == name.as_str())
}

fn line(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{}\n", json!({"type": kind, "object": object})))
}

fn whole(code: u16, body: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(body.to_string()))
        .map_err(|never: Infallible| match never {})
        .boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).expect("a status code");
    response
}

fn failure(code: u16, reason: &str) -> Response<Body> {
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": reason});
    whole(code, &status)
}
