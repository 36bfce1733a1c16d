//! Valid requests with random damage, sent to a server in this process: whatever they
//! are, the answer is an answer, and what is stored reads back.
//!
//! `MUTANTS` says how many (default 3000), `MUTANTS_SEED` where to begin.

mod common;

use bytes::Bytes;
use common::{ask, root, server};
use control_apiserver::ApiServer;
use control_request::body;
use control_types::meta;
use control_types::protobuf;
use control_types::registry::{self, Resource};
use control_types::value;
use control_types::value::Value;
use http::{Method, Request};
use http_body_util::BodyExt;
use tower::ServiceExt;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A small generator: the run can be repeated from its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap_or_default()
    }

    fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// A request that would be answered well.
#[derive(Clone, Debug)]
struct Sample {
    method: Method,
    path: String,
    media: String,
    accept: String,
    body: Vec<u8>,
}

fn objects() -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../types/tests/objects");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("objects")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    paths.sort();
    let mut all: Vec<Value> = paths
        .iter()
        .map(|path| Value::from_slice(&std::fs::read(path).expect("a file")).expect("JSON"))
        .collect();
    all.push(value!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c", "labels": {"a": "b"}}, "data": {"k": "v"}, "binaryData": {"b": "AAEC"}}));
    all.push(value!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "other"}}));
    all.push(value!({"kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "r"}, "rules": []}));
    for object in &mut all {
        for field in [
            "uid",
            "resourceVersion",
            "managedFields",
            "creationTimestamp",
            "ownerReferences",
        ] {
            object.remove_path(&["metadata", field]);
        }
        for field in ["clusterIP", "clusterIPs", "nodeName"] {
            object.remove_path(&["spec", field]);
        }
        if !meta::namespace(object).is_empty() {
            object.set_path(&["metadata", "namespace"], "default");
        }
    }
    all
}

fn resource_of(object: &Value) -> &'static Resource {
    let (group, version) = meta::split_api_version(meta::api_version(object));
    registry::lookup_kind(group, version, meta::kind(object)).expect("a known kind")
}

fn path_of(resource: &Resource) -> String {
    let root = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    if resource.namespaced {
        format!("{root}/namespaces/default/{}", resource.plural)
    } else {
        format!("{root}/{}", resource.plural)
    }
}

fn in_protobuf(object: &Value) -> Vec<u8> {
    let resource = resource_of(object);
    let mut out = Vec::new();
    let (version, kind) = (meta::api_version(object), meta::kind(object));
    protobuf::envelope(&object.to_vec(), version, kind, resource.schema, &mut out).expect("fits");
    out
}

/// Requests of every sort about every object.
fn samples() -> Vec<Sample> {
    let mut all = Vec::new();
    let json = "application/json";
    let mut push = |method: Method, path: String, media: &str, accept: &str, body: Vec<u8>| {
        all.push(Sample {
            method,
            path,
            media: media.into(),
            accept: accept.into(),
            body,
        });
    };
    for object in objects() {
        let path = path_of(resource_of(&object));
        let one = format!("{path}/{}", meta::name(&object));
        let text = object.to_vec();
        for (media, body) in [
            (json, text.clone()),
            (PROTOBUF, in_protobuf(&object)),
            ("application/yaml", object.to_vec_pretty()),
        ] {
            push(Method::POST, path.clone(), media, json, body.clone());
            push(Method::PUT, one.clone(), media, PROTOBUF, body);
        }
        push(
            Method::PUT,
            format!("{one}/status"),
            json,
            json,
            text.clone(),
        );
        let mut named = object.clone();
        named.remove_path(&["metadata", "name"]);
        named.set_path(&["metadata", "generateName"], "g-");
        push(
            Method::POST,
            format!("{path}?fieldValidation=Strict"),
            json,
            json,
            named.to_vec(),
        );
        for (media, patch) in [
            (
                "application/merge-patch+json",
                value!({"metadata": {"labels": {"x": "y", "a": null}}, "spec": {"replicas": 2}}),
            ),
            (
                "application/strategic-merge-patch+json",
                value!({"metadata": {"annotations": {"x": "y"}}, "spec": {"containers": [{"name": "web", "image": "b", "$patch": "merge"}], "$setElementOrder/containers": [{"name": "web"}]}}),
            ),
            (
                "application/json-patch+json",
                value!([{"op": "add", "path": "/metadata/labels", "value": {"z": "1"}}, {"op": "test", "path": "/kind", "value": (meta::kind(&object))}, {"op": "copy", "from": "/metadata/labels/z", "path": "/metadata/labels/w"}, {"op": "remove", "path": "/metadata/labels/z"}]),
            ),
        ] {
            push(Method::PATCH, one.clone(), media, json, patch.to_vec());
        }
        push(
            Method::PATCH,
            format!("{one}?fieldManager=m&force=true"),
            "application/apply-patch+yaml",
            json,
            text,
        );
        for query in [
            "",
            "?limit=1",
            "?labelSelector=a%3Db,c%20in%20(d,e)",
            "?fieldSelector=metadata.name%3Dx",
            "?resourceVersion=1&resourceVersionMatch=NotOlderThan",
            "?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiJhIn0",
            "?pretty=true&includeObject=Object",
        ] {
            let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
            for accept in [json, PROTOBUF, table, "application/yaml"] {
                push(
                    Method::GET,
                    format!("{path}{query}"),
                    "",
                    accept,
                    Vec::new(),
                );
            }
        }
        push(Method::GET, one.clone(), "", PROTOBUF, Vec::new());
        push(
            Method::DELETE,
            format!("{one}?propagationPolicy=Foreground"),
            json,
            json,
            value!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "preconditions": {"uid": "x"}}).to_vec(),
        );
        push(
            Method::DELETE,
            format!("{one}?dryRun=All"),
            json,
            json,
            Vec::new(),
        );
    }
    push(
        Method::POST,
        "/apis/authorization.k8s.io/v1/subjectaccessreviews".into(),
        json,
        PROTOBUF,
        value!({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": {"user": "a", "resourceAttributes": {"verb": "get", "resource": "pods"}}}).to_vec(),
    );
    push(
        Method::PUT,
        "/apis/apps/v1/namespaces/default/deployments/web/scale".into(),
        json,
        json,
        value!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 5}}).to_vec(),
    );
    all
}

/// Values that seldom are where they are put.
fn odd(random: &mut Random) -> Value {
    match random.below(18) {
        0 => Value::Null,
        1 => Value::from(-1),
        2 => Value::from(i64::MAX),
        3 => Value::Float(1e300),
        4 => Value::from(""),
        5 => Value::from("x".repeat(300)),
        6 => Value::Bool(true),
        7 => Value::Array(Vec::new()),
        8 => Value::object(),
        9 => Value::Array(vec![Value::Null; 3]),
        10 => Value::from("\u{0}\u{7f}\u{2028}é\"\\"),
        11 => Value::from("9999999999999999999Ei"),
        12 => Value::from("2024-02-30T00:00:00Z"),
        13 => value!({"a": {"b": {"c": [1, "x", null]}}}),
        14 => value!({"$patch": "delete"}),
        15 => Value::from("0"),
        16 => (0..600).fold(Value::from(1), |inner, _| Value::Array(vec![inner])),
        _ => Value::from("a/b"),
    }
}

/// Changes the tree somewhere.
fn disturb(random: &mut Random, value: &mut Value, depth: usize) {
    let stay = depth > 8 || random.below(6) == 0;
    match value {
        Value::Object(map) if !map.is_empty() && !stay => {
            let at = random.below(map.len());
            match random.below(12) {
                0 => drop(map.entries_mut().remove(at)),
                1 => {
                    let odd = odd(random);
                    map.insert("unknown", odd);
                }
                2 => {
                    let entry = map.entries_mut()[at].clone();
                    map.insert("$retainKeys", entry.1);
                }
                _ => disturb(random, &mut map.entries_mut()[at].1, depth + 1),
            }
        }
        Value::Array(items) if !items.is_empty() && !stay => {
            let at = random.below(items.len());
            match random.below(8) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                _ => disturb(random, &mut items[at], depth + 1),
            }
        }
        other => *other = odd(random),
    }
}

fn damage(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            bytes.push(b'{');
        }
        let at = random.below(bytes.len());
        let end = (at + random.below(24)).min(bytes.len());
        match random.below(7) {
            0 | 1 => bytes[at] = random.next().to_le_bytes()[0],
            2 => bytes.insert(at, random.next().to_le_bytes()[0]),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            5 => bytes[at] ^= 1 << random.below(8),
            _ => bytes.truncate(at),
        }
    }
}

fn mutant(random: &mut Random, samples: &[Sample]) -> Sample {
    let mut sample = random.of(samples).clone();
    if random.below(20) == 0 {
        return sample;
    }
    if !sample.body.is_empty() && random.below(3) > 0 {
        let tree = Value::from_slice(&sample.body)
            .ok()
            .or_else(|| protobuf::decode(&sample.body).ok());
        match tree {
            Some(mut tree) if random.below(3) > 0 => {
                for _ in 0..=random.below(3) {
                    disturb(random, &mut tree, 0);
                }
                let mut wire = Vec::new();
                let resource = (sample.media == PROTOBUF).then(|| {
                    let (group, version) = meta::split_api_version(meta::api_version(&tree));
                    registry::schema_of(group, version, meta::kind(&tree))
                });
                sample.body = match resource {
                    Some(Some(schema))
                        if protobuf::envelope(
                            &tree.to_vec(),
                            meta::api_version(&tree),
                            meta::kind(&tree),
                            schema,
                            &mut wire,
                        )
                        .is_ok() =>
                    {
                        wire
                    }
                    _ => tree.to_vec(),
                };
            }
            _ => damage(random, &mut sample.body),
        }
    }
    match random.below(14) {
        0 => {
            let mut path = sample.path.into_bytes();
            damage(random, &mut path);
            sample.path = String::from_utf8_lossy(&path).into_owned();
        }
        1 => {
            let media = [
                "application/json",
                PROTOBUF,
                "application/yaml",
                "application/merge-patch+json",
                "application/json-patch+json",
                "application/apply-patch+yaml",
                "text/plain",
                "application/json;x",
            ];
            sample.media = (*random.of(&media)).to_owned();
        }
        2 => {
            let accept = [
                "*/*",
                "application/*",
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                "text/html",
                ";;,,q=",
            ];
            sample.accept = (*random.of(&accept)).to_owned();
        }
        3 => {
            let sign = if sample.path.contains('?') { '&' } else { '?' };
            let more = [
                "dryRun=All",
                "fieldValidation=Ignore",
                "fieldManager=%00",
                "resourceVersion=-1",
                "limit=-9223372036854775808",
                "timeoutSeconds=x",
                "labelSelector=!%3D(",
                "force=maybe",
                "gracePeriodSeconds=-1",
                "continue=%ff",
            ];
            sample.path = format!("{}{sign}{}", sample.path, random.of(&more));
        }
        4 => {
            sample.method = random
                .of(&[
                    Method::GET,
                    Method::POST,
                    Method::PUT,
                    Method::PATCH,
                    Method::DELETE,
                ])
                .clone();
        }
        _ => {}
    }
    sample
}

/// Sends it; nothing when it is no request at all.
async fn send(server: &ApiServer, sample: &Sample) -> Option<(u16, String, Bytes)> {
    let mut request = Request::builder()
        .method(sample.method.clone())
        .uri(sample.path.as_str());
    if !sample.media.is_empty() {
        request = request.header("content-type", &sample.media);
    }
    if !sample.accept.is_empty() {
        request = request.header("accept", &sample.accept);
    }
    let mut request = request.body(body::full(sample.body.clone())).ok()?;
    // Nobody waits for the end of a watch here.
    if request
        .uri()
        .query()
        .is_some_and(|query| query.contains("watch"))
    {
        return None;
    }
    request.extensions_mut().insert(root());
    let answer = server.service().oneshot(request).await.expect("an answer");
    let code = answer.status().as_u16();
    let media = answer
        .headers()
        .get("content-type")
        .and_then(|media| media.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let body = answer.into_body().collect();
    let bytes = tokio::time::timeout(std::time::Duration::from_secs(20), body)
        .await
        .expect("an answer ends")
        .expect("a whole body")
        .to_bytes();
    Some((code, media, bytes))
}

/// Whether a stock server answers this with the same failure. Errors that its libraries
/// return plainly (patches that do not fit the type, resource versions that are no
/// numbers) become a 500 without reason there, and here, since clients see it. Faults
/// of our own have one: `InternalError`.
fn stock_fails(code: u16, answer: &[u8]) -> bool {
    let status = Value::from_slice(answer)
        .or_else(|_| protobuf::decode(answer).map_err(|_| ()))
        .unwrap_or_default();
    let text = |field| status.str_at(&[field]).unwrap_or_default();
    (code == 500 && text("reason").is_empty())
        // A revision that is not there yet.
        || (code == 504 && text("message").starts_with("Too large resource version"))
}

/// Everything in the store, by path: in JSON, and readable in protobuf.
async fn contents(server: &ApiServer) -> std::collections::BTreeMap<String, Value> {
    let mut all = std::collections::BTreeMap::new();
    for resource in registry::resources() {
        if !resource.has_verb("list") || !resource.has_verb("create") {
            continue;
        }
        let mut path = path_of(resource);
        path = path.replace("/namespaces/default", "");
        let (code, list) = ask(server, &root(), Method::GET, &path, None).await;
        assert_eq!(code, 200, "{path}");
        let sample = Sample {
            method: Method::GET,
            path: path.clone(),
            media: String::new(),
            accept: PROTOBUF.into(),
            body: Vec::new(),
        };
        let (code, media, bytes) = send(server, &sample).await.expect("a request");
        assert_eq!((code, media.as_str()), (200, PROTOBUF), "{path}");
        let read = protobuf::decode(&bytes).expect("a list in protobuf");
        assert_eq!(
            read.items_at(&["items"]).len(),
            list.items_at(&["items"]).len(),
            "{path}"
        );
        for item in list.items_at(&["items"]) {
            let key = format!("{path} {}/{}", meta::namespace(item), meta::name(item));
            all.insert(key, item.clone());
        }
    }
    all
}

#[test]
fn whatever_is_sent_is_answered_and_what_is_stored_reads_back() {
    let number = |name: &str, default: u64| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (count, seed) = (number("MUTANTS", 3000), number("MUTANTS_SEED", 1));
    let dir = tempfile::tempdir().expect("a directory");
    // Each server in a runtime of its own: with that, all of it ends.
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    let before = runtime().block_on(attack(dir.path(), count, seed));
    let after = runtime().block_on(async { contents(&server(dir.path()).await).await });
    for (key, object) in &before {
        // What the system itself keeps up is written at every start, and addresses that
        // belong to no service any more are taken back then.
        if key.contains("/ipaddresses ") {
            continue;
        }
        let Some(now) = after.get(key) else {
            panic!("{key} does not read back");
        };
        if meta::resource_version(now) == meta::resource_version(object) {
            assert_eq!(now.to_string(), object.to_string(), "{key}");
        }
    }
}

/// Sends the mutants, and answers with what is stored then.
async fn attack(
    dir: &std::path::Path,
    count: u64,
    seed: u64,
) -> std::collections::BTreeMap<String, Value> {
    let first = server(dir).await;
    let account =
        value!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default"}});
    let path = "/api/v1/namespaces/default/serviceaccounts";
    let (code, answer) = ask(&first, &root(), Method::POST, path, Some(account)).await;
    assert!(matches!(code, 201 | 409), "{answer}");
    let samples = samples();
    let mut random = Random(seed);
    let mut codes = std::collections::BTreeMap::<u16, u64>::new();
    let mut failed = Vec::new();
    for at in 0..count {
        let sample = mutant(&mut random, &samples);
        let Some((code, media, bytes)) = send(&first, &sample).await else {
            continue;
        };
        *codes.entry(code).or_default() += 1;
        let readable = match media.split(';').next().unwrap_or_default() {
            "application/json" => Value::from_slice(&bytes).is_ok(),
            PROTOBUF => protobuf::decode(&bytes).is_ok(),
            _ => std::str::from_utf8(&bytes).is_ok(),
        };
        if (code >= 500 && !stock_fails(code, &bytes)) || !readable {
            failed.push(format!(
                "mutant {at}: {} {} ({}, {})\n  {}\n  answered {code} {}",
                sample.method,
                sample.path,
                sample.media,
                sample.accept,
                String::from_utf8_lossy(&sample.body)
                    .chars()
                    .take(600)
                    .collect::<String>(),
                String::from_utf8_lossy(&bytes)
                    .chars()
                    .take(400)
                    .collect::<String>()
            ));
            if failed.len() > 8 {
                break;
            }
        }
    }
    println!("{count} mutants from seed {seed}: {codes:?}");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(
        codes
            .get(&201)
            .is_some_and(|created| *created > count / 200)
    );

    contents(&first).await
}
