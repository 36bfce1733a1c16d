//! What a node's agent answers, in the text format of Prometheus.

use jiff::Timestamp;
use rustc_hash::FxHashMap;

/// What is kept of one answer: nothing more than so many pods' values.
const PODS: usize = 2000;

/// One answer of a node.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// When it came.
    pub at: Timestamp,
    /// The node itself.
    pub node: Usage,
    /// Containers, by namespace and name of their pod, then by their own name.
    pub pods: FxHashMap<(String, String), FxHashMap<String, Usage>>,
}

/// What something used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Usage {
    /// Since it began.
    pub cpu_seconds: Option<f64>,
    /// Now, without what the kernel could take back at once.
    pub memory_bytes: Option<f64>,
}

impl Sample {
    /// Reads an answer; lines that are not understood say nothing.
    pub fn parse(text: &str, at: Timestamp) -> Self {
        let mut sample = Self {
            at,
            ..Self::default()
        };
        for line in text.lines() {
            let Some((name, labels, value)) = split(line) else {
                continue;
            };
            let (of_node, of_cpu) = match name {
                "node_cpu_usage_seconds_total" => (true, true),
                "node_memory_working_set_bytes" => (true, false),
                "container_cpu_usage_seconds_total" => (false, true),
                "container_memory_working_set_bytes" => (false, false),
                _ => continue,
            };
            let usage = if of_node {
                &mut sample.node
            } else {
                let (Some(namespace), Some(pod), Some(container)) = (
                    label(labels, "namespace"),
                    label(labels, "pod"),
                    label(labels, "container"),
                ) else {
                    continue;
                };
                let key = (namespace.to_owned(), pod.to_owned());
                if sample.pods.len() >= PODS && !sample.pods.contains_key(&key) {
                    continue;
                }
                let containers = sample.pods.entry(key).or_default();
                containers.entry(container.to_owned()).or_default()
            };
            if of_cpu {
                usage.cpu_seconds = Some(value);
            } else {
                usage.memory_bytes = Some(value);
            }
        }
        sample
    }
}

/// Name, labels and value of a line.
fn split(line: &str) -> Option<(&str, &str, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let (name, labels, rest) = match line.split_once('{') {
        Some((name, rest)) => {
            let (labels, rest) = rest.rsplit_once('}')?;
            (name, labels, rest)
        }
        None => {
            let (name, rest) = line.split_once(' ')?;
            (name, "", rest)
        }
    };
    // A time may follow the value.
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    value.is_finite().then_some((name, labels, value))
}

/// The value of a label. Names of Kubernetes need no escapes.
fn label<'a>(labels: &'a str, wanted: &str) -> Option<&'a str> {
    labels.split(',').find_map(|one| {
        let (name, value) = one.split_once('=')?;
        (name.trim() == wanted).then(|| value.trim().trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_any_agent_are_read_and_others_say_nothing() {
        let text = "# TYPE node_cpu_usage_seconds_total counter\n\
            node_cpu_usage_seconds_total 12.5 1700000000000\n\
            node_memory_working_set_bytes 1e+06\n\
            container_cpu_usage_seconds_total{container=\"c\",namespace=\"n\",pod=\"p\"} 3\n\
            container_cpu_usage_seconds_total{container=\"c\"} 3\n\
            container_memory_working_set_bytes{container=\"c\",namespace=\"n\",pod=\"p\"} NaN\n\
            broken{ 1\nother 7\n";
        let sample = Sample::parse(text, Timestamp::UNIX_EPOCH);
        assert_eq!(
            sample.node,
            Usage {
                cpu_seconds: Some(12.5),
                memory_bytes: Some(1e6)
            }
        );
        assert_eq!(sample.pods.len(), 1);
        let pod = &sample.pods[&("n".to_owned(), "p".to_owned())];
        assert_eq!(
            pod["c"],
            Usage {
                cpu_seconds: Some(3.0),
                memory_bytes: None
            }
        );
    }
}
