//! The paths of the profiler answer as stock's recording (`tests/oracle`, part
//! `profiling`) has them, except for the profiles of Go's runtime.

mod common;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use common::{root, send, server, server_of};
use control_access::User;
use control_apiserver::{ApiServer, chain};
use control_auth::Settings;
use control_types::value::Value;
use flate2::read::GzDecoder;
use http::Method;
use http::header::{CONTENT_TYPE, LOCATION};
use http_body_util::BodyExt;

/// What only a program with Go's runtime can give.
const GO_PROFILES: [&str; 8] = [
    "allocs",
    "block",
    "goroutine",
    "heap",
    "mutex",
    "profile",
    "threadcreate",
    "trace",
];

fn oracle(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/oracle")
        .join(file)
}

/// The recorded questions with their answers.
fn recording() -> Vec<Value> {
    let file = std::fs::File::open(oracle("answers.jsonl.gz")).expect("the recording");
    let mut text = String::new();
    GzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("the recording is readable");
    let line = text
        .lines()
        .find(|line| line.starts_with("{\"group\":\"profiling: "));
    let group = Value::from_slice(line.expect("the part").as_bytes()).expect("JSON");
    group.items_at(&["steps"]).to_vec()
}

/// The question's path with its query.
fn target(step: &Value) -> String {
    let mut target = step.str_at(&["path"]).unwrap_or_default().to_owned();
    if let Some(Value::Object(query)) = step.get("query") {
        for (mark, (name, value)) in std::iter::once("?")
            .chain(std::iter::repeat("&"))
            .zip(query.iter())
        {
            let value = value.as_str().map_or_else(
                || String::from_utf8(value.to_vec()).expect("text"),
                str::to_owned,
            );
            target.push_str(&format!("{mark}{name}={value}"));
        }
    }
    target
}

/// The status, media type and, where it is compared, JSON body of an answer.
async fn ask(server: &ApiServer, step: &Value) -> (u16, String, Value) {
    // The in-process transport trusts the caller's user, as if it were impersonated.
    let user = match step.str_at(&["headers", "Impersonate-User"]) {
        Some(name) => User::named(name, ["system:authenticated"]),
        None if step.get("anonymous").is_some() => {
            User::named("system:anonymous", ["system:unauthenticated"])
        }
        None => root(),
    };
    let mut headers = Vec::new();
    if let Some(Value::Object(all)) = step.get("headers") {
        for (name, value) in all.iter() {
            headers.push((name.as_str(), value.as_str().unwrap_or_default()));
        }
    }
    let method = step.str_at(&["method"]).unwrap_or_default();
    let method: Method = method.parse().expect("a method");
    let answer = send(server, &user, method, &target(step), &headers, None).await;
    let media = answer.headers().get(CONTENT_TYPE);
    let media = media.and_then(|media| media.to_str().ok()).unwrap_or("");
    let media = media.split(';').next().unwrap_or("").to_owned();
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.expect("a body");
    let body = Value::from_slice(&body.to_bytes()).unwrap_or_default();
    (code, media, body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_of_the_profiler_answer_as_stock_except_for_profiles_of_go() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    let steps = recording();
    let mut differing = BTreeSet::new();
    let mut agreeing = 0;
    for step in &steps {
        let want = step.get("want").expect("an answer");
        let (code, media, body) = ask(&server, step).await;
        let wanted = want.path(&["code"]).and_then(Value::as_i64);
        let same_body = step.get("only_code").is_some()
            || want.str_at(&["body", "message"]) == body.str_at(&["message"]);
        if wanted == Some(i64::from(code))
            && want.str_at(&["type"]) == Some(media.as_str())
            && same_body
        {
            agreeing += 1;
            continue;
        }
        let path = step.str_at(&["path"]).unwrap_or_default();
        let profile = path.rsplit('/').next().unwrap_or_default();
        assert!(
            GO_PROFILES.contains(&profile) && (code, media.as_str()) == (404, "text/plain"),
            "{}: {code} {media} {body:?}, stock: {want:?}",
            step.str_at(&["name"]).unwrap_or_default()
        );
        differing.insert(profile);
    }
    assert_eq!(differing, BTreeSet::from(GO_PROFILES));
    // The floor that `cargo xtask oracle` holds is exactly this.
    let floors = std::fs::read_to_string(oracle("floors")).expect("the floors");
    let floor = floors
        .lines()
        .find_map(|line| line.strip_prefix("profiling "));
    let percent = (f64::from(agreeing) * 10_000.0 / steps.len() as f64).floor() / 100.0;
    assert_eq!(floor, Some(format!("{percent:.2} {percent:.2}").as_str()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_profiling_the_paths_do_not_exist() {
    let dir = tempfile::tempdir().expect("a directory");
    let off = chain::Settings {
        profiling: false,
        ..chain::Settings::default()
    };
    let server = server_of(dir.path(), Settings::default(), off).await;
    for path in ["/debug/pprof", "/debug/pprof/", "/debug/pprof/symbol"] {
        let answer = send(&server, &root(), Method::GET, path, &[], None).await;
        assert_eq!(answer.status(), 404, "{path}");
        assert!(!answer.headers().contains_key(LOCATION));
        let body = answer.into_body().collect().await.expect("a body");
        assert_eq!(body.to_bytes(), "404 page not found\n", "{path}");
    }
}
