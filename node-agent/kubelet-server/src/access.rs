//! What clients of a kubelet's port need a right to: subresources of its node.
//!
//! <https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/>, with the finer
//! ones of KEP-2862.

use control_serving::access::{AccessDenied, GuardedPort, Rights};
use http::{Method, Response};

use super::{Body, text};

/// A kubelet's port.
pub const KUBELET: GuardedPort = GuardedPort {
    audience: None,
    header: "authorization",
    rights: Rights::Resource {
        group: "",
        resource: "nodes",
        attributes,
    },
    refusal,
};

/// The answer to a request that is not served: the reason, in plain text.
#[must_use]
pub fn refusal(refused: &AccessDenied) -> Response<Body> {
    text(refused.status, refused.message.clone())
}

/// The verb of a request, and the subresources of the node of which one has to
/// be allowed.
#[must_use]
pub fn attributes(method: &Method, path: &str) -> (&'static str, Vec<&'static str>) {
    let verb = match *method {
        Method::POST => "create",
        Method::GET => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    };
    let first = path.trim_start_matches('/').split('/').next();
    let subresources = match first.unwrap_or_default() {
        "pods" | "runningpods" => vec!["pods", "proxy"],
        "healthz" => vec!["healthz", "proxy"],
        "configz" => vec!["configz", "proxy"],
        "stats" => vec!["stats"],
        "metrics" => vec!["metrics"],
        "logs" => vec!["log"],
        "checkpoint" => vec!["checkpoint"],
        "statusz" => vec!["statusz"],
        "flagz" => vec!["configz"],
        _ => vec!["proxy"],
    };
    (verb, subresources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_subresources_of_the_node() {
        let of = |method, path| attributes(&method, path);
        assert_eq!(
            of(Method::GET, "/metrics/cadvisor"),
            ("get", vec!["metrics"])
        );
        assert_eq!(of(Method::GET, "/pods"), ("get", vec!["pods", "proxy"]));
        assert_eq!(of(Method::GET, "/podsx"), ("get", vec!["proxy"]));
        assert_eq!(of(Method::POST, "/exec/a/b/c"), ("create", vec!["proxy"]));
        assert_eq!(
            of(Method::POST, "/checkpoint/a/b/c"),
            ("create", vec!["checkpoint"])
        );
        assert_eq!(of(Method::GET, "/logs/"), ("get", vec!["log"]));
        assert_eq!(
            of(Method::GET, "/healthz"),
            ("get", vec!["healthz", "proxy"])
        );
    }
}
