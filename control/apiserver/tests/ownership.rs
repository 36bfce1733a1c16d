//! What a stock server of 1.36 answered to some hundred writes by many managers:
//! applies, updates and patches of all media types, through subresources, scale
//! and other versions, with `managedFields` and messages. The questions and
//! answers of `corpus/ownership.jsonl.gz` are a line of JSON for each scenario;
//! each runs in a namespace of its own.

mod common;

use std::io::{BufRead, BufReader};

use common::{ask, root, server};
use control_access::User;
use control_apiserver::ApiServer;
use control_request::body;
use control_types::value;
use control_types::value::{Map, Value};
use http::{Method, Request};
use http_body_util::BodyExt;
use tower::ServiceExt;

const CORPUS: &[u8] = include_bytes!("corpus/ownership.jsonl.gz");

/// Fields whose values each server makes up.
const MADE_UP: &[&str] = &[
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "time",
    "lastTransitionTime",
    "lastUpdateTime",
    "renewTime",
    "lastProbeTime",
    "startTime",
    "startedAt",
    "firstTimestamp",
    "lastTimestamp",
    "eventTime",
    "expirationTimestamp",
    "token",
    "clusterIP",
    "clusterIPs",
    "nodePort",
];

/// What generated names of volumes begin with.
const GENERATED: &str = "kube-api-access-";

/// The answer without what each server makes up.
fn normal(value: &Value, namespace: &str) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| {
                    let name = masked(key, namespace);
                    let value = match key.as_str() {
                        _ if MADE_UP.contains(&key.as_str()) && !empty(value) => "<set>".into(),
                        "managedFields" => managers(value, namespace),
                        _ => normal(value, namespace),
                    };
                    (name, value)
                })
                .collect::<Map>(),
        ),
        Value::Array(items) => items.iter().map(|item| normal(item, namespace)).collect(),
        Value::String(text) => masked(text, namespace).into(),
        other => other.clone(),
    }
}

fn empty(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("") || *value == Value::Int(0)
}

/// Managers without times, in an order that does not depend on them.
fn managers(list: &Value, namespace: &str) -> Value {
    let mut entries: Vec<Value> = list
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .map(|entry| {
            let mut entry = normal(entry, namespace);
            entry.remove("time");
            entry
        })
        .collect();
    entries.sort_by_key(|entry| {
        ["operation", "manager", "apiVersion", "subresource"]
            .map(|field| entry.str_at(&[field]).unwrap_or_default().to_owned())
    });
    Value::Array(entries)
}

/// A text without the namespace, ids, times and versions.
fn masked(text: &str, namespace: &str) -> String {
    let text = text.replace(namespace, "<ns>");
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        if let Some(length) = uid(rest) {
            out.push_str("<uid>");
            rest = &rest[length..];
        } else if let Some(length) = stamp(rest) {
            out.push_str("<time>");
            rest = &rest[length..];
        } else if let Some(after) = rest.strip_prefix("\"resourceVersion\":\"") {
            out.push_str("\"resourceVersion\":\"<set>");
            rest = after.trim_start_matches(|letter: char| letter.is_ascii_digit());
        } else if let Some(after) = rest.strip_prefix("\\\"resourceVersion\\\":\\\"") {
            out.push_str("\\\"resourceVersion\\\":\\\"<set>");
            rest = after.trim_start_matches(|letter: char| letter.is_ascii_digit());
        } else if let Some(after) = rest.strip_prefix(GENERATED) {
            out.push_str(GENERATED);
            out.push_str("<gen>");
            rest = after.strip_prefix("<gen>").unwrap_or_else(|| &after[5..]);
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    // Within a message the managers stand in the order of their times.
    if let (Some(from), Some(to)) = (out.find("\\\"managedFields\\\":["), out.rfind("]}}\"")) {
        out.replace_range(from..to.max(from), "<managers>");
    }
    out
}

/// Whether a text begins as the pattern says, in which `x` stands for a hex digit
/// and `0` for a digit; the pattern's length then.
fn begins(text: &str, pattern: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    pattern
        .bytes()
        .enumerate()
        .all(|(at, wanted)| {
            bytes.get(at).is_some_and(|byte| match wanted {
                b'x' => byte.is_ascii_hexdigit(),
                b'0' => byte.is_ascii_digit(),
                other => *byte == other,
            })
        })
        .then_some(pattern.len())
}

fn uid(text: &str) -> Option<usize> {
    begins(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
}

fn stamp(text: &str) -> Option<usize> {
    let end = begins(text, "0000-00-00T00:00:00")?;
    let fraction = text[end..]
        .find(|letter: char| letter != '.' && !letter.is_ascii_digit())
        .unwrap_or(0);
    text[end + fraction..]
        .starts_with('Z')
        .then_some(end + fraction + 1)
}

/// One question; the answer's code, warnings and body.
async fn answer(server: &ApiServer, user: &User, step: &Value, namespace: &str) -> Value {
    let fill = |text: &str| text.replace("$ns", namespace);
    let mut path = fill(step.str_at(&["path"]).expect("a path"));
    if let Some(query) = step.get("query").and_then(Value::as_object) {
        let pairs: Vec<_> = query
            .iter()
            .map(|(key, value)| format!("{key}={}", escape(&fill(value.as_str().unwrap_or("")))))
            .collect();
        path = format!("{path}?{}", pairs.join("&"));
    }
    let method: Method = step
        .str_at(&["method"])
        .and_then(|method| method.parse().ok())
        .expect("a method");
    let mut request = Request::builder().method(method).uri(path);
    let headers = step.get("headers").and_then(Value::as_object);
    let given = |name: &str| headers.is_some_and(|headers| headers.contains_key(name));
    if !given("User-Agent") {
        request = request.header("user-agent", "oracle/1");
    }
    let content = step.get("body").filter(|body| !body.is_null());
    if content.is_some() && !given("Content-Type") {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in headers.into_iter().flatten() {
        request = request.header(name.as_str(), value.as_str().unwrap_or(""));
    }
    let bytes = match content {
        Some(Value::String(text)) => fill(text).into_bytes(),
        Some(object) => fill(&object.to_string()).into_bytes(),
        None => Vec::new(),
    };
    let mut request = request.body(body::full(bytes)).expect("a request");
    request.extensions_mut().insert(user.clone());
    let answer = server.service().oneshot(request).await.expect("infallible");
    let code = u32::from(answer.status().as_u16());
    let mut warnings: Vec<String> = answer
        .headers()
        .get_all("warning")
        .iter()
        .map(|warning| masked(&String::from_utf8_lossy(warning.as_bytes()), namespace))
        .collect();
    warnings.sort();
    let bytes = answer
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    let body = Value::from_slice(&bytes).unwrap_or_default();
    value!({"code": code, "warnings": (Value::from(warnings)), "body": (normal(&body, namespace))})
}

fn escape(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}

/// The first path at which two answers differ.
fn difference(want: &Value, got: &Value, path: &str) -> Option<String> {
    match (want, got) {
        (Value::Object(left), Value::Object(right)) => {
            left.keys()
                .chain(right.keys())
                .find_map(|key| match (left.get(key), right.get(key)) {
                    (Some(left), Some(right)) => difference(left, right, &format!("{path}.{key}")),
                    (left, right) => Some(format!("{path}.{key}: {left:?}, not {right:?}")),
                })
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => left
            .iter()
            .zip(right)
            .enumerate()
            .find_map(|(at, (left, right))| difference(left, right, &format!("{path}[{at}]"))),
        (left, right) => (left != right).then(|| format!("{path}: {left}, not {right}")),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_only_patch_does_not_create_by_applying() {
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    let role = value!({"metadata": {"name": "patcher"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch", "get"]}]});
    let binding = value!({"metadata": {"name": "patcher"}, "subjects": [{"kind": "User", "name": "jane"}], "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "patcher"}});
    for (plural, object) in [("roles", role), ("rolebindings", binding)] {
        let path = format!("{RBAC}/{plural}");
        let (code, made) = ask(&server, &root, Method::POST, &path, Some(object)).await;
        assert_eq!(code, 201, "{made:?}");
    }
    let jane = User::named("jane", ["system:authenticated"]);
    let apply = value!({
        "method": "PATCH", "path": "/api/v1/namespaces/default/configmaps/c",
        "query": {"fieldManager": "jane"}, "headers": {"Content-Type": "application/apply-patch+yaml"},
        "body": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    });
    // The policy takes effect a moment after it was written.
    let mut refused = Value::Null;
    for _ in 0..100 {
        refused = answer(&server, &jane, &apply, "default").await;
        let said = refused.str_at(&["body", "message"]).unwrap_or_default();
        if said.contains("cannot create") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(
        refused.str_at(&["body", "message"]),
        Some(
            "configmaps \"c\" is forbidden: User \"jane\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"<ns>\""
        )
    );
    let made = answer(&server, &root, &apply, "default").await;
    assert_eq!(made.i64_at(&["code"]), Some(201));
    let applied = answer(&server, &jane, &apply, "default").await;
    assert_eq!(applied.i64_at(&["code"]), Some(200), "{applied}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_by_many_managers_are_answered_as_a_stock_server_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    let lines = BufReader::new(flate2::read::GzDecoder::new(CORPUS)).lines();
    let (mut asked, mut wrong) = (0, Vec::new());
    for (number, line) in lines.enumerate() {
        let group = Value::from_slice(line.expect("a line").as_bytes()).expect("JSON");
        let namespace = format!("orc-rust-{number}");
        for (path, name) in [
            ("/api/v1/namespaces", "$ns"),
            ("/api/v1/namespaces/$ns/serviceaccounts", "default"),
        ] {
            let step =
                value!({"method": "POST", "path": path, "body": {"metadata": {"name": name}}});
            answer(&server, &root, &step, &namespace).await;
        }
        let mut version = String::new();
        for step in group.items_at(&["steps"]) {
            let mut step = step.clone();
            if let Some(Value::Object(_)) = step.get("body") {
                // The one value that a later step takes over.
                let body = step
                    .get("body")
                    .map(ToString::to_string)
                    .unwrap_or_default();
                let body = Value::from_slice(body.replace("${rv}", &version).as_bytes());
                step.insert("body", body.expect("JSON"));
            }
            let got = answer(&server, &root, &step, &namespace).await;
            if step.get("save").is_some() {
                let path = step.str_at(&["path"]).unwrap_or_default();
                let name = step
                    .str_at(&["body", "metadata", "name"])
                    .unwrap_or_default();
                let path = format!("{path}/{name}").replace("$ns", &namespace);
                let (_, object) = ask(&server, &root, Method::GET, &path, None).await;
                version = object
                    .str_at(&["metadata", "resourceVersion"])
                    .unwrap_or_default()
                    .to_owned();
            }
            let mut want = value!({});
            for member in ["code", "warnings", "body"] {
                let value = step.path(&["want", member]).cloned().unwrap_or_default();
                want.insert(member, normal(&value, "<ns>"));
            }
            asked += 1;
            if let Some(why) = difference(&want, &got, "") {
                let group = group.str_at(&["group"]).unwrap_or_default();
                let step = step.str_at(&["name"]).unwrap_or_default();
                wrong.push(format!("{group}: {step}: {why}"));
            }
        }
    }
    assert!(asked > 500, "the corpus was read");
    assert!(
        wrong.is_empty(),
        "{} of {asked} answers differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[tokio::test]
async fn a_key_that_comes_twice_in_a_configuration_is_told_as_validation_wants_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    let config =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: twice\ndata:\n  a: b\n  a: c\n";
    let finding = "error converting YAML to JSON: yaml: unmarshal errors:\n  line 7: key \"a\" already set in map";
    let apply = async |validation: &str| {
        let path = format!(
            "/api/v1/namespaces/default/configmaps/twice?fieldManager=m&fieldValidation={validation}"
        );
        let mut request = Request::builder()
            .method(Method::PATCH)
            .uri(path)
            .header("content-type", "application/apply-patch+yaml")
            .body(body::full(config))
            .expect("a request");
        request.extensions_mut().insert(root());
        let answer = server.service().oneshot(request).await.expect("infallible");
        let warnings: Vec<String> = answer
            .headers()
            .get_all("warning")
            .iter()
            .map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned())
            .collect();
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.expect("a body");
        let object = Value::from_slice(&bytes.to_bytes()).expect("JSON");
        (code, warnings, object)
    };
    let (code, _, status) = apply("Strict").await;
    assert_eq!(code, 400);
    assert_eq!(
        status.str_at(&["message"]),
        Some(&*format!("error strict decoding YAML: {finding}"))
    );
    let (code, warnings, object) = apply("Warn").await;
    assert_eq!((code, object.str_at(&["data", "a"])), (201, Some("c")));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let (code, warnings, _) = apply("Ignore").await;
    assert_eq!((code, warnings), (200, Vec::new()));
}
