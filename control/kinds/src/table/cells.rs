//! Cells that several kinds share.

use control_types::value::Value;

use crate::tree::Read;

/// Names and images of a pod template's containers.
pub(crate) fn containers(pod_spec: &Value) -> [Value; 2] {
    let join = |field: &str| {
        let all: Vec<_> = pod_spec
            .items("containers")
            .iter()
            .map(|c| c.text(field))
            .collect();
        Value::from(all.join(","))
    };
    [join("name"), join("image")]
}

/// `True`, `False`, or `<unset>`.
pub(crate) fn truth(value: Option<bool>) -> Value {
    match value {
        Some(true) => "True".into(),
        Some(false) => "False".into(),
        None => "<unset>".into(),
    }
}

/// Items joined by commas, with `+ N more...` when there are more than three.
pub(crate) fn three_of(items: &[String], count: usize) -> String {
    let shown = items
        .iter()
        .take(3)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(",");
    if items.len() > 3 {
        format!("{shown} + {} more...", count.saturating_sub(3))
    } else {
        shown
    }
}

/// Modes of access in short: `RWO,ROX`.
pub(crate) fn access_modes(modes: &[Value]) -> String {
    let has = |name: &str| modes.iter().any(|m| m.as_text() == name);
    [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .iter()
    .filter(|(long, _)| has(long))
    .map(|(_, short)| *short)
    .collect::<Vec<_>>()
    .join(",")
}

/// Addresses of a load balancer's status; shortened unless `wide`.
pub(crate) fn load_balancer(status: &Value, wide: bool) -> String {
    let mut all: Vec<&str> = status
        .at("loadBalancer")
        .items("ingress")
        .iter()
        .map(|i| {
            if i.text("ip").is_empty() {
                i.text("hostname")
            } else {
                i.text("ip")
            }
        })
        .filter(|a| !a.is_empty())
        .collect();
    all.sort_unstable();
    all.dedup();
    let text = all.join(",");
    if !wide && text.chars().count() > 16 {
        return text.chars().take(13).chain("...".chars()).collect();
    }
    text
}
