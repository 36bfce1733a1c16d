//! What is read while the store has no leader comes from the cache, and says so.

use std::time::Duration;

use control_request::RequestInfo;

/// The warning of an answer to a read, where the store has been out for so long.
pub(super) fn warning(info: &RequestInfo, outage: Option<Duration>) -> Option<String> {
    let outage = outage?;
    let is_read = info.is_resource && matches!(info.verb, "get" | "list" | "watch");
    is_read.then(|| {
        format!(
            "etcd has had no leader for {} s: this is what the API server has cached, and may be out of date",
            outage.as_secs()
        )
    })
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn reads_of_objects_are_marked_while_the_store_is_out() {
        let of = |method: &Method, path: &str, query, outage| {
            let info = RequestInfo::parse(method, path, query);
            warning(&info, outage)
        };
        let out = Some(Duration::from_millis(7300));
        let pods = "/api/v1/namespaces/a/pods";
        let said = of(&Method::GET, pods, Some("resourceVersion=0"), out);
        assert!(said.is_some_and(|text| text.contains("no leader for 7 s")));
        assert!(of(&Method::GET, pods, Some("watch=true"), out).is_some());
        assert_eq!(of(&Method::GET, pods, None, None), None);
        assert_eq!(of(&Method::POST, pods, None, out), None);
        assert_eq!(of(&Method::GET, "/readyz", None, out), None);
    }
}
