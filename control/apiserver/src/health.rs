//! `/version` and the health checks.

use control_types::value;
use control_types::value::Value;
use http::Response;

use crate::body::Body;
use crate::chain::Context;
use crate::reply;

/// The version of Kubernetes that is spoken, with ours behind the plus.
const GIT_VERSION: &str = concat!("v1.36.3+orlop.", env!("CARGO_PKG_VERSION"));

/// What `/version` answers.
#[must_use]
pub fn version() -> Value {
    value!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "go1.26",
        "compiler": "rustc",
        "platform": "linux/amd64"
    })
}

/// Answers a health check: `/livez`, `/readyz`, `/healthz`, each with
/// `?verbose`, `?exclude=` and one path per check.
#[must_use]
pub fn health(context: &Context, path: &str) -> Response<Body> {
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let root = parts.next().unwrap_or_default();
    let checks = checks(context, root);
    if let Some(one) = parts.next() {
        return match checks.iter().find(|(name, _)| *name == one) {
            Some((_, true)) => reply::text(200, "ok"),
            Some((name, false)) => {
                reply::text(500, format!("internal server error: {name} failed\n"))
            }
            None => reply::text(404, "404 page not found\n"),
        };
    }
    let query: Vec<_> = crate::request::pairs(context.query().unwrap_or_default()).collect();
    let excluded = |name: &str| {
        query
            .iter()
            .any(|(key, value)| key == "exclude" && value == name)
    };
    let failed = checks.iter().any(|(name, well)| !well && !excluded(name));
    if !failed && !query.iter().any(|(key, _)| key == "verbose") {
        return reply::text(200, "ok");
    }
    let mut page = String::new();
    for (name, well) in &checks {
        page.push_str(&match (excluded(name), well) {
            (true, _) => format!("[+]{name} excluded: ok\n"),
            (false, true) => format!("[+]{name} ok\n"),
            (false, false) => format!("[-]{name} failed: reason withheld\n"),
        });
    }
    page.push_str(&format!(
        "{root} check {}\n",
        if failed { "failed" } else { "passed" }
    ));
    reply::text(if failed { 500 } else { 200 }, page)
}

fn checks(context: &Context, root: &str) -> Vec<(&'static str, bool)> {
    let api = &context.api;
    // The server answers nothing before its caches are filled; they are not
    // allowed to fall far behind afterwards.
    let current = api.caches.applied() + 10_000 >= api.store().revision();
    let mut checks = vec![("ping", true), ("log", true), ("etcd", true)];
    if root != "livez" {
        checks.push(("informer-sync", current));
    }
    if root == "readyz" {
        checks.push(("shutdown", !api.shutdown.is_cancelled()));
    }
    checks
}
