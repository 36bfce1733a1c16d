//! A small API server in memory, with faults on demand.
//!
//! It stores objects as JSON and behaves towards clients as the real one does where
//! controllers depend on it: revisions, optimistic locks, watches that resume or expire,
//! initial events, finalizers, graceful deletion of pods, propagation policies,
//! namespaces that end. It knows all built-in kinds of the registry, and custom ones by
//! their definitions. It does not validate, default or authorise.
//!
//! That real servers behave the same is for the tests against real servers.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use control_client::{Client, RequestBody, Resource};
use control_types::registry;
use futures::{StreamExt as _, stream};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use serde_json::{Value, json};

use crate::{defaults, patch};

mod target;
mod watch;

use self::target::{Kind, Target, is_stored, text, unescape};
use self::watch::{Selector, Watcher};

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// A resource, `pods` or `replicasets.apps`.
type ResourceName = String;

/// Where an object is stored. The namespace is empty for cluster-scoped objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub resource: ResourceName,
    pub namespace: String,
    pub name: String,
}

/// What happened to an object.
#[derive(Debug, Clone)]
pub struct Event {
    pub revision: u64,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub kind: &'static str,
    pub key: ObjectKey,
    pub object: Value,
    /// Whether a controller wrote it, and not the environment or a user.
    pub by_controller: bool,
}

/// What happens to one write of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFault {
    /// It is answered with 500 and not done.
    Refuse,
    /// It is done, and the answer is lost.
    LoseAnswer,
    /// Another client changes the object just before.
    Conflict,
    /// It is done, and then the controllers are dead.
    Crash,
}

/// A server. Clones are the same one.
#[derive(Clone)]
pub struct Api(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Counts changes that may concern watches.
    changed: tokio::sync::watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    revision: u64,
    objects: BTreeMap<ObjectKey, Value>,
    log: Vec<Event>,
    /// Watches from before this revision are expired.
    compacted: u64,
    names: u64,
    /// Which incarnation of the controllers lives; the requests of others hang.
    incarnation: u64,
    crashed: bool,
    requests: u64,
    outage: bool,
    write_faults: VecDeque<WriteFault>,
    denied_deletes: HashSet<ResourceName>,
    /// Resources whose watches show nothing after the revision.
    held: HashMap<ResourceName, u64>,
    /// Resources that cannot be listed or watched at all.
    unreadable: HashSet<ResourceName>,
    /// How often all watches of all resources were cut.
    cuts: u64,
    /// Resources behind feature gates, which the registry does not have.
    gated: Vec<Resource>,
}

/// An answer: its code, and the object.
type Answer = (u16, Value);

fn status(code: u16, reason: &str, message: impl Into<String>) -> Answer {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": message.into()});
    (code, body)
}

fn not_found(key: &ObjectKey) -> Answer {
    status(
        404,
        "NotFound",
        format!("{} {} not found", key.resource, key.name),
    )
}

fn timestamp() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

impl Api {
    /// An empty server.
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State {
                revision: 1,
                ..State::default()
            }),
            changed: tokio::sync::watch::Sender::new(0),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    fn wake(&self) {
        self.0.changed.send_modify(|count| *count += 1);
    }

    // === For the environment and users ===

    /// Creates or replaces an object, without faults.
    pub fn put(&self, resource: &str, object: Value) -> Value {
        let mut state = self.state();
        let key = ObjectKey {
            resource: resource.into(),
            namespace: text(&object, "/metadata/namespace").into(),
            name: text(&object, "/metadata/name").into(),
        };
        let written = state.write(key, object, false);
        drop(state);
        self.wake();
        written
    }

    /// Changes an object, if it is there and the change is one.
    pub fn change(&self, key: &ObjectKey, change: impl FnOnce(&mut Value)) {
        let mut state = self.state();
        let Some(mut object) = state.objects.get(key).cloned() else {
            return;
        };
        let spec = object.get("spec").cloned();
        change(&mut object);
        if object.get("spec") != spec.as_ref() {
            let generation = object
                .pointer("/metadata/generation")
                .and_then(Value::as_i64);
            object["metadata"]["generation"] = (generation.unwrap_or(1) + 1).into();
        }
        state.write(key.clone(), object, false);
        drop(state);
        self.wake();
    }

    /// Deletes an object as a user does.
    pub fn delete(&self, key: &ObjectKey, options: &Value) {
        self.state().delete(key, options, false);
        self.wake();
    }

    /// One object.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = ObjectKey {
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
        };
        self.state().objects.get(&key).cloned()
    }

    /// All objects of a resource.
    pub fn list(&self, resource: &str) -> Vec<Value> {
        self.objects(resource)
            .into_iter()
            .map(|(_, object)| object)
            .collect()
    }

    /// All objects of a resource with their keys.
    pub fn objects(&self, resource: &str) -> Vec<(ObjectKey, Value)> {
        let state = self.state();
        let of_it = state.of_resource(resource);
        of_it
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect()
    }

    /// All objects with their keys.
    pub fn all(&self) -> Vec<(ObjectKey, Value)> {
        let state = self.state();
        state
            .objects
            .iter()
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect()
    }

    /// What happened since a revision, exclusive.
    pub fn events_since(&self, revision: u64) -> Vec<Event> {
        let state = self.state();
        state
            .log
            .iter()
            .filter(|event| event.revision > revision)
            .cloned()
            .collect()
    }

    pub fn revision(&self) -> u64 {
        self.state().revision
    }

    /// How many requests came, without watches that go on.
    pub fn requests(&self) -> u64 {
        self.state().requests
    }

    // === Faults ===

    /// No request is answered while it lasts; watches break.
    pub fn set_outage(&self, outage: bool) {
        let mut state = self.state();
        state.outage = outage;
        state.cuts += u64::from(outage);
        drop(state);
        self.wake();
    }

    /// What happens to the next writes of controllers, each once.
    pub fn fault_writes(&self, faults: impl IntoIterator<Item = WriteFault>) {
        self.state().write_faults.extend(faults);
    }

    /// Answers all deletions of a resource with 500, from now on.
    pub fn deny_deletes(&self, resource: &str) {
        self.state().denied_deletes.insert(resource.into());
    }

    /// Watches of a resource show nothing that happens from now on, until released.
    pub fn hold_watches(&self, resource: &str) {
        let mut state = self.state();
        let revision = state.revision;
        state.held.entry(resource.into()).or_insert(revision);
    }

    /// A resource cannot be read until this is lifted.
    pub fn set_unreadable(&self, resource: &str, unreadable: bool) {
        let mut state = self.state();
        if unreadable {
            state.unreadable.insert(resource.into());
        } else {
            state.unreadable.remove(resource);
        }
    }

    /// Ends all watches in the middle.
    pub fn cut_watches(&self) {
        self.state().cuts += 1;
        self.wake();
    }

    /// Forgets the history: watches that resume are answered with 410.
    pub fn compact(&self) {
        let mut state = self.state();
        state.compacted = state.revision;
    }

    /// Serves a resource that is behind a feature gate.
    pub fn serve_gated(&self, resource: Resource) {
        self.state().gated.push(resource);
    }

    /// Ends all faults but [`Api::deny_deletes`].
    pub fn heal(&self) {
        let mut state = self.state();
        state.outage = false;
        state.write_faults.clear();
        state.held.clear();
        state.unreadable.clear();
        drop(state);
        self.wake();
    }

    /// Whether a write crashed the controllers.
    pub fn crashed(&self) -> bool {
        self.state().crashed
    }

    /// The client of a new incarnation of the controllers. Those of all others hang from
    /// now on, as if their process had been killed.
    pub fn client(&self) -> Client {
        let incarnation = {
            let mut state = self.state();
            state.incarnation += 1;
            state.crashed = false;
            state.incarnation
        };
        self.wake();
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<RequestBody>| {
            let api = api.clone();
            async move { api.serve(incarnation, request).await }
        });
        Client::in_process(service, ())
    }

    // === Requests ===

    async fn serve(
        &self,
        incarnation: u64,
        request: Request<RequestBody>,
    ) -> Result<Response<Body>, std::io::Error> {
        let (head, body) = request.into_parts();
        let body = body
            .collect()
            .await
            .map_err(std::io::Error::other)?
            .to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        // Requests take time, so that they interleave.
        tokio::time::sleep(Duration::from_micros(rand::random_range(100..3_000))).await;
        self.unless_dead(incarnation).await;
        if self.state().outage {
            return Err(std::io::ErrorKind::ConnectionRefused.into());
        }
        let path = head.uri.path().to_owned();
        let query: HashMap<String, String> = head
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), unescape(value)))
            .collect();
        if query.contains_key("watch") {
            return Ok(self.watch(incarnation, &path, &query));
        }
        let media = head
            .headers
            .get(http::header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        let ((code, answer), fault) = {
            let mut state = self.state();
            state.requests += 1;
            let fault = state.fault_after(&head.method, &path);
            let answer = match state.fault_before(&head.method, &path) {
                Some(answer) => answer,
                None => state.answer(&head.method, &path, &query, &media, body),
            };
            (answer, fault)
        };
        if head.method != Method::GET {
            self.wake();
        }
        match fault {
            Some(WriteFault::Crash) => self.state().crashed = true,
            Some(WriteFault::LoseAnswer) => {
                return Err(std::io::ErrorKind::ConnectionReset.into());
            }
            _ => {}
        }
        self.unless_dead(incarnation).await;
        let body = http_body_util::Full::new(Bytes::from(answer.to_string()))
            .map_err(|never: Infallible| match never {})
            .boxed_unsync();
        Ok(Response::builder().status(code).body(body).unwrap())
    }

    /// Returns at once for those that live, and never for others.
    async fn unless_dead(&self, incarnation: u64) {
        let dead = {
            let state = self.state();
            state.incarnation != incarnation || state.crashed
        };
        if dead {
            std::future::pending::<()>().await;
        }
    }

    fn watch(
        &self,
        incarnation: u64,
        path: &str,
        query: &HashMap<String, String>,
    ) -> Response<Body> {
        let whole = |(code, answer): Answer| {
            let body = http_body_util::Full::new(Bytes::from(answer.to_string()))
                .map_err(|never: Infallible| match never {})
                .boxed_unsync();
            Response::builder().status(code).body(body).unwrap()
        };
        let state = self.state();
        let Some(target) = state.target(path) else {
            return whole(status(404, "NotFound", path));
        };
        let resource = target.kind.resource.clone();
        if state.unreadable.contains(&resource) {
            return whole(status(500, "InternalError", "cannot be read"));
        }
        let from = query
            .get("resourceVersion")
            .and_then(|text| text.parse::<u64>().ok());
        if from.is_some_and(|from| from < state.compacted) {
            return whole(status(410, "Expired", "too old resource version"));
        }
        let seconds = query
            .get("timeoutSeconds")
            .and_then(|text| text.parse().ok());
        let watcher = Watcher {
            api: self.clone(),
            incarnation,
            resource,
            namespace: target.namespace,
            selector: Selector::of(query),
            cursor: from,
            cuts: state.cuts,
            changed: self.0.changed.subscribe(),
            deadline: tokio::time::Instant::now() + Duration::from_secs(seconds.unwrap_or(300)),
        };
        drop(state);
        let chunks = stream::unfold(watcher, |mut watcher| async move {
            let chunk = watcher.next().await?;
            Some((chunk, watcher))
        });
        let frames = chunks.map(|chunk| chunk.map(http_body::Frame::data));
        Response::new(StreamBody::new(frames).boxed_unsync())
    }
}

impl State {
    // === Faults ===

    /// The fault that comes after the request was done, if it has one.
    fn fault_after(&mut self, method: &Method, path: &str) -> Option<WriteFault> {
        if *method == Method::GET || !is_stored(path) {
            return None;
        }
        self.write_faults
            .pop_front_if(|fault| matches!(fault, WriteFault::LoseAnswer | WriteFault::Crash))
    }

    /// The fault that comes in place of the request, or before it.
    fn fault_before(&mut self, method: &Method, path: &str) -> Option<Answer> {
        let target = self.target(path);
        let resource = target.as_ref().map(|target| target.kind.resource.as_str());
        if *method == Method::GET {
            let unreadable = resource.is_some_and(|name| self.unreadable.contains(name));
            return unreadable.then(|| status(500, "InternalError", "cannot be read"));
        }
        let denied = resource.is_some_and(|name| self.denied_deletes.contains(name));
        if *method == Method::DELETE && denied {
            return Some(status(500, "InternalError", "deletion is denied"));
        }
        if !is_stored(path) {
            return None;
        }
        let before =
            |fault: &mut WriteFault| matches!(fault, WriteFault::Refuse | WriteFault::Conflict);
        match self.write_faults.pop_front_if(before)? {
            WriteFault::Conflict => {
                let target = target?;
                let key = target.key();
                let mut object = self.objects.get(&key)?.clone();
                object["metadata"]["annotations"]["example.com/touched"] =
                    self.revision.to_string().into();
                self.write(key, object, false);
                None
            }
            _ => Some(status(500, "InternalError", "a fault")),
        }
    }

    // === Resources ===

    /// The objects of a resource.
    fn of_resource<'a>(
        &'a self,
        resource: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> {
        let first = ObjectKey {
            resource: resource.into(),
            namespace: String::new(),
            name: String::new(),
        };
        let rest = self.objects.range(first..);
        rest.take_while(move |(key, _)| key.resource == resource)
    }

    fn kinds(&self, group: &str, version: &str, plural: &str) -> Option<Kind> {
        let api_version = |group: &str| {
            if group.is_empty() {
                version.to_owned()
            } else {
                format!("{group}/{version}")
            }
        };
        let resource = if group.is_empty() {
            plural.to_owned()
        } else {
            format!("{plural}.{group}")
        };
        if let Some(row) = registry::lookup(group, version, plural) {
            return Some(Kind {
                resource,
                api_version: api_version(group),
                kind: row.kind.into(),
            });
        }
        let mut gated = self.gated.iter();
        if let Some(found) =
            gated.find(|it| it.group == group && it.version == version && it.plural == plural)
        {
            return Some(Kind {
                resource,
                api_version: api_version(group),
                kind: found.kind.to_string(),
            });
        }
        let definition = self.objects.get(&ObjectKey {
            resource: "customresourcedefinitions.apiextensions.k8s.io".into(),
            namespace: String::new(),
            name: resource.clone(),
        })?;
        Some(Kind {
            resource,
            api_version: api_version(group),
            kind: text(definition, "/spec/names/kind").into(),
        })
    }

    /// What a path is about.
    fn target(&self, path: &str) -> Option<Target> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..]
                if !rest.is_empty() && !matches!(rest, ["status" | "finalize"]) =>
            {
                (*namespace, rest)
            }
            rest => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, "", ""),
            [plural, name] => (*plural, *name, ""),
            [plural, name, subresource] => (*plural, *name, *subresource),
            _ => return None,
        };
        Some(Target {
            kind: self.kinds(group, version, plural)?,
            namespace: unescape(namespace),
            name: unescape(name),
            subresource: subresource.into(),
        })
    }

    fn discovery(&self, path: &str) -> Option<Answer> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version) = match parts.as_slice() {
            ["api"] => return Some((200, json!({"kind": "APIVersions", "versions": ["v1"]}))),
            ["apis"] => return Some((200, json!({"kind": "APIGroupList", "groups": []}))),
            ["api", version] => ("", *version),
            ["apis", group, version] => (*group, *version),
            _ => return None,
        };
        let built_in = registry::resources_of(group, version).map(|row| {
            json!({"name": row.plural, "kind": row.kind, "namespaced": row.namespaced,
                "verbs": row.verbs})
        });
        let gated = self.gated.iter();
        let gated = gated.filter(|it| it.group == group && it.version == version);
        let gated = gated.map(|it| {
            json!({"name": it.plural, "kind": it.kind, "namespaced": it.namespaced,
                "verbs": ["list", "patch", "update"]})
        });
        let resources: Vec<Value> = built_in.chain(gated).collect();
        if resources.is_empty() {
            return Some(status(404, "NotFound", path));
        }
        Some((
            200,
            json!({"kind": "APIResourceList", "resources": resources}),
        ))
    }

    // === Verbs ===

    fn answer(
        &mut self,
        method: &Method,
        path: &str,
        query: &HashMap<String, String>,
        media: &str,
        body: Value,
    ) -> Answer {
        if *method == Method::GET
            && let Some(answer) = self.discovery(path)
        {
            return answer;
        }
        if *method != Method::GET && !is_stored(path) {
            let mut answer = body;
            if path.contains("authorization.k8s.io") {
                answer["status"] = json!({"allowed": true});
            }
            return (201, answer);
        }
        let Some(target) = self.target(path) else {
            return status(404, "NotFound", path);
        };
        let key = target.key();
        if target.subresource == "scale" {
            return self.scale(method, &target, &body);
        }
        match (method.as_str(), target.name.is_empty()) {
            ("GET", true) => {
                let selector = Selector::of(query);
                let items: Vec<&Value> =
                    self.select(&target, &selector).map(|(_, it)| it).collect();
                let revision = self.revision.to_string();
                (
                    200,
                    json!({"kind": format!("{}List", target.kind.kind),
                    "metadata": {"resourceVersion": revision}, "items": items}),
                )
            }
            ("GET", false) => match self.objects.get(&key) {
                Some(object) => (200, object.clone()),
                None => not_found(&key),
            },
            ("POST", true) => self.create(target, body),
            ("POST", false) if target.subresource == "eviction" => {
                self.delete(&key, &body["deleteOptions"], true)
            }
            ("PUT", false) => self.update(&target, body),
            ("PATCH", false) => self.patch(target, media, &body),
            ("DELETE", true) => {
                let selector = Selector::of(query);
                let keys: Vec<ObjectKey> = self
                    .select(&target, &selector)
                    .map(|(key, _)| key.clone())
                    .collect();
                for key in keys {
                    self.delete(&key, &body, true);
                }
                (200, json!({"kind": "Status", "status": "Success"}))
            }
            ("DELETE", false) => self.delete(&key, &body, true),
            _ => status(405, "MethodNotAllowed", format!("{method} {path}")),
        }
    }

    /// Reads or writes the number of replicas of a workload.
    fn scale(&mut self, method: &Method, target: &Target, body: &Value) -> Answer {
        let key = target.key();
        let Some(old) = self.objects.get(&key).cloned() else {
            return not_found(&key);
        };
        let labels = old.pointer("/spec/selector/matchLabels");
        let labels = labels.and_then(Value::as_object).into_iter().flatten();
        let selector: Vec<String> = labels
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        let answer = |object: &Value| {
            json!({"kind": "Scale", "apiVersion": "autoscaling/v1",
                "metadata": {"name": key.name, "namespace": key.namespace,
                    "resourceVersion": object["metadata"]["resourceVersion"]},
                "spec": {"replicas": object["spec"]["replicas"]},
                "status": {"replicas": object["spec"]["replicas"],
                    "selector": selector.join(",")}})
        };
        if *method == Method::GET {
            return (200, answer(&old));
        }
        if let Some(conflict) = Self::conflict(&key, &old, body) {
            return conflict;
        }
        let mut new = old.clone();
        new["spec"]["replicas"] = body["spec"]["replicas"].clone();
        let main = Target {
            subresource: String::new(),
            kind: target.kind.clone(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
        };
        let (code, written) = self.replace(&main, &old, new);
        (code, answer(&written))
    }

    fn select<'a>(
        &'a self,
        target: &'a Target,
        selector: &'a Selector,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> {
        self.of_resource(&target.kind.resource)
            .filter(move |(key, object)| {
                (target.namespace.is_empty() || key.namespace == target.namespace)
                    && selector.matches(object)
            })
    }

    fn create(&mut self, target: Target, mut object: Value) -> Answer {
        if !target.namespace.is_empty() {
            let namespace = self.objects.get(&ObjectKey {
                resource: "namespaces".into(),
                namespace: String::new(),
                name: target.namespace.clone(),
            });
            let Some(namespace) = namespace else {
                return status(
                    404,
                    "NotFound",
                    format!("namespaces {} not found", target.namespace),
                );
            };
            if namespace.pointer("/metadata/deletionTimestamp").is_some() {
                let (code, mut body) = status(403, "Forbidden", "namespace is being terminated");
                body["details"] = json!({"causes": [{"reason": "NamespaceTerminating",
                    "message": "namespace is being terminated", "field": "metadata.namespace"}]});
                return (code, body);
            }
        }
        let mut name = text(&object, "/metadata/name").to_owned();
        if name.is_empty() {
            self.names += 1;
            name = format!(
                "{}{:05}",
                text(&object, "/metadata/generateName"),
                self.names
            );
        }
        let key = ObjectKey {
            resource: target.kind.resource,
            namespace: target.namespace,
            name,
        };
        if self.objects.contains_key(&key) {
            return status(409, "AlreadyExists", format!("{} exists", key.name));
        }
        object["apiVersion"] = target.kind.api_version.into();
        object["kind"] = target.kind.kind.into();
        object["metadata"]["name"] = key.name.as_str().into();
        if !key.namespace.is_empty() {
            object["metadata"]["namespace"] = key.namespace.as_str().into();
        }
        (201, self.write(key, object, true))
    }

    /// A conflict, if the new object is of another uid or revision than the old one.
    fn conflict(key: &ObjectKey, old: &Value, new: &Value) -> Option<Answer> {
        ["/metadata/uid", "/metadata/resourceVersion"]
            .iter()
            .any(|field| {
                let wanted = text(new, field);
                !wanted.is_empty() && wanted != text(old, field)
            })
            .then(|| status(409, "Conflict", format!("{} has been modified", key.name)))
    }

    fn update(&mut self, target: &Target, object: Value) -> Answer {
        let key = target.key();
        let Some(old) = self.objects.get(&key).cloned() else {
            return not_found(&key);
        };
        match Self::conflict(&key, &old, &object) {
            Some(answer) => answer,
            None => self.replace(target, &old, object),
        }
    }

    fn patch(&mut self, target: Target, media: &str, body: &Value) -> Answer {
        let key = target.key();
        let Some(old) = self.objects.get(&key).cloned() else {
            if media.contains("apply") && target.subresource.is_empty() {
                return self.create(target, body.clone());
            }
            return not_found(&key);
        };
        let mut new = old.clone();
        if media.contains("json-patch+json") {
            if let Err(problem) = patch::json(&mut new, body) {
                return status(422, "Invalid", problem.to_string());
            }
        } else {
            if let Some(answer) = Self::conflict(&key, &old, body) {
                return answer;
            }
            if media.contains("apply") {
                patch::apply(&mut new, body);
            } else if media.contains("merge-patch+json") && !media.contains("strategic") {
                patch::merge(&mut new, body);
            } else {
                patch::strategic(&mut new, body);
            }
        }
        self.replace(&target, &old, new)
    }

    /// Writes what an update or a patch leads to.
    fn replace(&mut self, target: &Target, old: &Value, mut new: Value) -> Answer {
        let take = |into: &mut Value, part: &str| match old.get(part) {
            Some(value) => into[part] = value.clone(),
            None => {
                into.as_object_mut().map(|object| object.remove(part));
            }
        };
        match target.subresource.as_str() {
            "status" | "approval" => take(&mut new, "spec"),
            "finalize" => take(&mut new, "status"),
            _ if old.get("status").is_some() => take(&mut new, "status"),
            _ => {}
        }
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "name",
            "namespace",
        ] {
            if let Some(value) = old["metadata"].get(field) {
                new["metadata"][field] = value.clone();
            }
        }
        let generation = old.pointer("/metadata/generation").and_then(Value::as_i64);
        let changed = new.get("spec") != old.get("spec");
        new["metadata"]["generation"] = (generation.unwrap_or(1) + i64::from(changed)).into();
        (200, self.write(target.key(), new, true))
    }

    /// Stores an object, with a new revision if it is another. One that is being deleted
    /// and that nothing keeps is gone with that.
    fn write(&mut self, key: ObjectKey, mut object: Value, by_controller: bool) -> Value {
        let old = self.objects.get(&key);
        match old {
            Some(old) => {
                object["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
                object["metadata"]["uid"] = old["metadata"]["uid"].clone();
                if object == *old {
                    return object;
                }
            }
            None => {
                let metadata = &mut object["metadata"];
                metadata["uid"] = format!("{:08}-{}", self.revision + 1, key.name).into();
                if metadata.get("creationTimestamp").is_none() {
                    metadata["creationTimestamp"] = timestamp().into();
                }
                metadata["generation"] = 1.into();
                defaults::fill_in(&key.resource, &mut object);
            }
        }
        let kind = if old.is_some() { "MODIFIED" } else { "ADDED" };
        if let Some(list) = object
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array)
            && list.is_empty()
        {
            object["metadata"]
                .as_object_mut()
                .map(|metadata| metadata.remove("finalizers"));
        }
        let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
        let kept = object.pointer("/metadata/finalizers").is_some()
            || object
                .pointer("/metadata/deletionGracePeriodSeconds")
                .and_then(Value::as_i64)
                .is_some_and(|seconds| seconds > 0)
            || (key.resource == "namespaces"
                && object
                    .pointer("/spec/finalizers")
                    .and_then(Value::as_array)
                    .is_some_and(|list| !list.is_empty()));
        if deleting && !kept {
            self.remove(&key, object.clone(), by_controller);
            return object;
        }
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        self.objects.insert(key.clone(), object.clone());
        self.log.push(Event {
            revision: self.revision,
            kind,
            key,
            object: object.clone(),
            by_controller,
        });
        object
    }

    fn remove(&mut self, key: &ObjectKey, mut object: Value, by_controller: bool) {
        self.objects.remove(key);
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        self.log.push(Event {
            revision: self.revision,
            kind: "DELETED",
            key: key.clone(),
            object,
            by_controller,
        });
    }

    fn delete(&mut self, key: &ObjectKey, options: &Value, by_controller: bool) -> Answer {
        let Some(old) = self.objects.get(key).cloned() else {
            return not_found(key);
        };
        for (wanted, field) in [
            ("/preconditions/uid", "/metadata/uid"),
            (
                "/preconditions/resourceVersion",
                "/metadata/resourceVersion",
            ),
        ] {
            let wanted = text(options, wanted);
            if !wanted.is_empty() && wanted != text(&old, field) {
                return status(409, "Conflict", "the precondition failed");
            }
        }
        let mut object = old;
        let before = object
            .pointer("/metadata/deletionGracePeriodSeconds")
            .cloned();
        let mut finalizers: Vec<String> = object
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|one| one.as_str().map(str::to_owned))
            .collect();
        let policy = text(options, "/propagationPolicy");
        let added = match policy {
            "Orphan" => Some("orphan"),
            "Foreground" => Some("foregroundDeletion"),
            _ => None,
        };
        if !policy.is_empty() {
            finalizers.retain(|one| one != "orphan" && one != "foregroundDeletion");
        }
        finalizers.extend(added.map(str::to_owned));
        let metadata = &mut object["metadata"];
        metadata["finalizers"] = json!(finalizers);
        if metadata.get("deletionTimestamp").is_none() {
            metadata["deletionTimestamp"] = timestamp().into();
            metadata["deletionGracePeriodSeconds"] = 0.into();
        }
        if key.resource == "pods" {
            let runs = !text(&object, "/spec/nodeName").is_empty()
                && !matches!(text(&object, "/status/phase"), "Succeeded" | "Failed");
            let grace = options.get("gracePeriodSeconds").and_then(Value::as_i64);
            let grace = if runs { grace.unwrap_or(30) } else { 0 };
            // A grace period is only ever shortened.
            let before = before.as_ref().and_then(Value::as_i64);
            let grace = before.map_or(grace, |before| before.min(grace));
            object["metadata"]["deletionGracePeriodSeconds"] = grace.into();
        }
        if key.resource == "namespaces" {
            object["status"]["phase"] = "Terminating".into();
        }
        (200, self.write(key.clone(), object, by_controller))
    }
}
