//! The paths that a server has: what `/` answers, and below which roots an
//! unknown path is told in a Status.

use control_types::value::Value;
use control_types::{registry, value};

use control_aggregation::Snapshot as RemoteSnapshot;
use control_registry::custom::Snapshot;

/// The roots of APIs that answer with a Status when they do not know a path.
pub const ROOTS: &[&str] = &[
    "/api",
    "/version",
    "/openid/v1/jwks",
    "/.well-known/openid-configuration",
];

/// Paths that belong to no group.
const OTHERS: &[&str] = &[
    "/.well-known/openid-configuration",
    "/api",
    "/api/v1",
    "/apis",
    "/apis/",
    "/flagz",
    "/healthz",
    "/livez",
    "/metrics",
    "/metrics/slis",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/readyz",
    "/statusz",
    "/version",
];

/// What `/` answers.
pub fn index(custom: &Snapshot, others: &RemoteSnapshot) -> Value {
    let mut paths: Vec<String> = OTHERS.iter().map(|path| (*path).to_owned()).collect();
    for resource in registry::resources() {
        if resource.group.is_empty() {
            continue;
        }
        paths.push(format!("/apis/{}", resource.group));
        paths.push(format!("/apis/{}/{}", resource.group, resource.version));
    }
    for group in custom.groups() {
        paths.push(format!("/apis/{group}"));
        for version in custom.versions(group) {
            paths.push(format!("/apis/{group}/{version}"));
        }
    }
    for remote in others.all() {
        paths.push(format!("/apis/{}", remote.group));
        paths.push(remote.path());
    }
    paths.sort();
    paths.dedup();
    value!({"paths": (paths)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_and_version_has_a_path() {
        let index = index(&Snapshot::default(), &RemoteSnapshot::default());
        let paths: Vec<_> = index
            .items_at(&["paths"])
            .iter()
            .filter_map(Value::as_str)
            .collect();
        for path in ["/api/v1", "/apis/apps", "/apis/apps/v1", "/version"] {
            assert!(paths.contains(&path), "{path}");
        }
        assert!(paths.is_sorted());
    }
}
