//! Events that the server tells about objects.

use control_types::value::Value;
use control_types::{meta, time, value};

use control_registry::{Registry, own};

/// Tells that something is wrong with an object. An event that cannot be
/// written is only logged: what it tells of is more important.
pub(super) async fn warn(registry: &Registry, about: &Value, who: &str, reason: &str, note: &str) {
    tracing::warn!(object = meta::name(about), reason, note, "found wrong");
    let namespace = match meta::namespace(about) {
        "" => "default",
        namespace => namespace,
    };
    let now = time::now();
    // One event an object and reason; it is told anew when it is old.
    let name = format!("{}.{}", meta::name(about), reason.to_lowercase());
    let event = value!({
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": (name.as_str()), "namespace": namespace},
        "involvedObject": {
            "kind": (meta::kind(about)),
            "apiVersion": (meta::api_version(about)),
            "namespace": (meta::namespace(about)),
            "name": (meta::name(about)),
            "uid": (meta::uid(about)),
            "resourceVersion": (meta::resource_version(about))
        },
        "reason": reason,
        "message": note,
        "source": {"component": who},
        "firstTimestamp": (now.as_str()),
        "lastTimestamp": (now.as_str()),
        "count": 1,
        "type": "Warning",
        "reportingComponent": who,
        "reportingInstance": ""
    });
    let told = own::ensure(
        registry,
        ("", "events"),
        own::OWN,
        event,
        |stored, event| {
            let count = stored.i64_at(&["count"]).unwrap_or_default();
            stored.insert("count", count + 1);
            own::copy(stored, event, &["lastTimestamp"])
        },
    )
    .await;
    if let Err(error) = told {
        tracing::warn!(%error, reason, "an event cannot be told");
    }
}
