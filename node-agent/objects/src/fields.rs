//! The downward API: what a pod may read about itself.

use std::collections::BTreeMap;

use super::quantity;
use crate::pod::{Container, Pod, ResourceFieldRef};

/// Facts about the pod that its object does not contain.
#[derive(Clone, Debug, Default)]
pub struct PodFacts {
    /// The pod's addresses, the primary first.
    pub pod_ips: Vec<String>,
    /// The node's addresses, the primary first.
    pub host_ips: Vec<String>,
    /// What the node has for pods: stands in for limits that are not set.
    pub allocatable: BTreeMap<String, String>,
}

/// The value of a field of the pod; `None` for a path that is none.
#[must_use]
pub fn field(pod: &Pod, facts: &PodFacts, path: &str) -> Option<String> {
    let first = |list: &[String]| list.first().cloned().unwrap_or_default();
    if let Some(key) = subscript(path, "metadata.labels") {
        return Some(pod.metadata.labels.get(key).unwrap_or_default().to_owned());
    }
    if let Some(key) = subscript(path, "metadata.annotations") {
        return Some(
            pod.metadata
                .annotations
                .get(key)
                .unwrap_or_default()
                .to_owned(),
        );
    }
    Some(match path {
        "metadata.name" => pod.name().to_owned(),
        "metadata.namespace" => pod.namespace().to_owned(),
        "metadata.uid" => pod.uid().to_owned(),
        "metadata.labels" => lines(pod.metadata.labels.iter()),
        "metadata.annotations" => lines(pod.metadata.annotations.iter()),
        "spec.nodeName" => pod.spec.node_name.clone(),
        "spec.serviceAccountName" => pod.spec.service_account_name.clone(),
        "status.hostIP" => first(&facts.host_ips),
        "status.hostIPs" => facts.host_ips.join(","),
        "status.podIP" => first(&facts.pod_ips),
        "status.podIPs" => facts.pod_ips.join(","),
        _ => return None,
    })
}

/// `key` of `path['key']`.
fn subscript<'a>(path: &'a str, of: &str) -> Option<&'a str> {
    path.strip_prefix(of)?
        .strip_prefix("['")?
        .strip_suffix("']")
}

/// `key="value"` lines, sorted, as labels and annotations come in files.
fn lines<'a>(entries: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let lines: Vec<String> = entries
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    lines.join("\n")
}

/// As Go quotes a string (`%q`).
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The value of a container's resource in units of the divisor, rounded up;
/// `None` for a name that is none. A limit that is not set is the node's.
#[must_use]
pub fn resource(
    container: &Container,
    facts: &PodFacts,
    wanted: &ResourceFieldRef,
) -> Option<String> {
    let (kind, name) = wanted.resource.split_once('.')?;
    let resources = &container.resources;
    let text = match kind {
        "limits" => resources
            .limits
            .get(name)
            .or_else(|| facts.allocatable.get(name)),
        "requests" => resources
            .requests
            .get(name)
            .or_else(|| resources.limits.get(name)),
        _ => return None,
    };
    let value = text.map_or(Some(0), |t| quantity::milli(t))?;
    let divisor = match wanted.divisor.as_str() {
        "" | "0" => 1000,
        text => quantity::milli(text).filter(|d| *d > 0)?,
    };
    let mut units = value / divisor;
    if value % divisor > 0 {
        units += 1;
    }
    Some(units.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Pod {
        serde_json::from_str(
            r#"{"metadata":{"name":"web","namespace":"shop","uid":"u-1",
                "labels":{"b":"2","a":"1"},"annotations":{"note":"say \"hi\"\n"}},
                "spec":{"nodeName":"node-1","serviceAccountName":"default",
                "containers":[{"name":"c","resources":{"limits":{"cpu":"1500m"},"requests":{"memory":"100Mi"}}}]}}"#,
        )
        .unwrap()
    }

    #[test]
    fn fields_come_as_the_downward_api_words_them() {
        let facts = PodFacts {
            pod_ips: vec!["10.0.0.1".into(), "fd00::1".into()],
            host_ips: vec!["192.0.2.1".into()],
            ..PodFacts::default()
        };
        let cases = [
            ("metadata.name", Some("web")),
            ("metadata.labels['a']", Some("1")),
            ("metadata.labels['none']", Some("")),
            ("metadata.labels", Some("a=\"1\"\nb=\"2\"")),
            ("metadata.annotations", Some("note=\"say \\\"hi\\\"\\n\"")),
            ("status.podIP", Some("10.0.0.1")),
            ("status.podIPs", Some("10.0.0.1,fd00::1")),
            ("status.hostIP", Some("192.0.2.1")),
            ("spec.containers", None),
        ];
        for (path, wanted) in cases {
            assert_eq!(field(&pod(), &facts, path).as_deref(), wanted, "{path}");
        }
    }

    #[test]
    fn resources_are_rounded_up_and_default_to_the_nodes() {
        let mut facts = PodFacts::default();
        facts.allocatable.insert("memory".into(), "1Gi".into());
        let pod = pod();
        let value = |resource: &str, divisor: &str| {
            let wanted = ResourceFieldRef {
                container_name: String::new(),
                resource: resource.into(),
                divisor: divisor.into(),
            };
            super::resource(&pod.spec.containers[0], &facts, &wanted)
        };
        assert_eq!(value("limits.cpu", "").as_deref(), Some("2"));
        assert_eq!(value("limits.cpu", "1m").as_deref(), Some("1500"));
        assert_eq!(value("limits.memory", "1Mi").as_deref(), Some("1024"));
        assert_eq!(value("requests.memory", "").as_deref(), Some("104857600"));
        assert_eq!(value("requests.cpu", "").as_deref(), Some("2"));
        assert_eq!(value("nothing", ""), None);
    }
}
