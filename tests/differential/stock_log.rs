//! What kube-scheduler's log says, as klog writes it in its text format.

/// A line that says something about decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The scheduler knows of a node.
    NodeAdded(String),
    /// The scheduler knows of a change of a node.
    NodeUpdated(String),
    /// The scheduler knows that a node is gone.
    NodeDeleted(String),
    /// The scheduler knows of a pod on a node.
    PodAssigned(String),
    /// The scheduler knows of a change of a pod on a node.
    PodUpdated(String),
    /// The scheduler knows that a pod is gone.
    PodDeleted(String),
    /// What a plugin adds to a node's score, its weight included.
    PluginScore {
        /// Namespace and name.
        pod: String,
        /// The plugin.
        plugin: String,
        /// The node.
        node: String,
        /// The score.
        score: i64,
    },
    /// A node's score.
    FinalScore {
        /// Namespace and name.
        pod: String,
        /// The node.
        node: String,
        /// The sum of all plugins' scores.
        score: i64,
    },
    /// A pod was bound.
    Bound {
        /// Namespace and name.
        pod: String,
        /// How many nodes passed all filters.
        feasible: usize,
    },
    /// All victims of a preemption are deleted.
    Preempted {
        /// Namespace and name of the pod that they make room for.
        preemptor: String,
    },
    /// Something failed.
    Failed(String),
}

/// What a line says; `None`: nothing about decisions.
pub fn parse(line: &str) -> Option<Record> {
    let (head, rest) = line.split_once("] ")?;
    let is_error = head.starts_with(['E', 'F']);
    let mut rest = rest;
    let Some(message) = quoted(&mut rest) else {
        return is_error.then(|| Record::Failed(rest.to_owned()));
    };
    let fields = fields(rest);
    let field = |name: &str| {
        let found = fields.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.clone())
    };
    let number = |name: &str| field(name)?.parse().ok();
    match message.as_str() {
        "Add event for node" => Some(Record::NodeAdded(field("node")?)),
        "Update event for node" => Some(Record::NodeUpdated(field("node")?)),
        "Delete event for node" => Some(Record::NodeDeleted(field("node")?)),
        "Add event for scheduled pod" => Some(Record::PodAssigned(field("pod")?)),
        "Update event for scheduled pod" => Some(Record::PodUpdated(field("pod")?)),
        "Delete event for scheduled pod" | "Delete event for unscheduled pod" => {
            Some(Record::PodDeleted(field("pod")?))
        }
        "Plugin scored node for pod" => Some(Record::PluginScore {
            pod: field("pod")?,
            plugin: field("plugin")?,
            node: field("node")?,
            score: number("score")?,
        }),
        "Calculated node's final score for pod" => Some(Record::FinalScore {
            pod: field("pod")?,
            node: field("node")?,
            score: number("score")?,
        }),
        "Successfully bound pod to node" => Some(Record::Bound {
            pod: field("pod")?,
            feasible: usize::try_from(number("feasibleNodes")?).ok()?,
        }),
        "Async Preemption finished completely" => Some(Record::Preempted {
            preemptor: field("preemptor")?,
        }),
        _ if is_error => Some(Record::Failed(format!("{message}{rest}"))),
        _ => None,
    }
}

/// Takes a quoted text from the front of `rest`.
fn quoted(rest: &mut &str) -> Option<String> {
    let inner = rest.strip_prefix('"')?;
    let mut text = String::new();
    let mut escaped = false;
    for (at, character) in inner.char_indices() {
        match (character, escaped) {
            (character, true) => {
                text.push(match character {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                });
                escaped = false;
            }
            ('\\', false) => escaped = true,
            ('"', false) => {
                *rest = inner.get(at + 1..)?;
                return Some(text);
            }
            (character, false) => text.push(character),
        }
    }
    None
}

/// Pairs of keys and values: `pod="red/p1" score=7`.
fn fields(mut rest: &str) -> Vec<(&str, String)> {
    let mut fields = Vec::new();
    while let Some((key, after)) = rest.trim_start().split_once('=') {
        rest = after;
        let value = match quoted(&mut rest) {
            Some(value) => value,
            None => {
                let (value, after) = rest.split_once(' ').unwrap_or((rest, ""));
                rest = after;
                value.to_owned()
            }
        };
        fields.push((key, value));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_bindings_and_errors_are_read_and_other_lines_are_not() {
        let line = |rest: &str| parse(&format!("I1126 11:02:01.123456   12345 a.go:982] {rest}"));
        let score = line(
            r#""Plugin scored node for pod" pod="red/p1" plugin="NodeAffinity" node="n1" score=-7"#,
        );
        let expected = Record::PluginScore {
            pod: "red/p1".to_owned(),
            plugin: "NodeAffinity".to_owned(),
            node: "n1".to_owned(),
            score: -7,
        };
        assert_eq!(score, Some(expected));
        let bound = line(
            r#""Successfully bound pod to node" pod="red/p1" node="n1" evaluatedNodes=3 feasibleNodes=2"#,
        );
        let expected = Record::Bound {
            pod: "red/p1".to_owned(),
            feasible: 2,
        };
        assert_eq!(bound, Some(expected));
        assert_eq!(line(r#""Started" a=1"#), None);
        assert_eq!(parse("plain words"), None);
        let failed = parse(r#"E1126 11:02:01.1 1 a.go:1] "Failed to \"bind\"" err="a\nb""#);
        let expected = Record::Failed(r#"Failed to "bind" err="a\nb""#.to_owned());
        assert_eq!(failed, Some(expected));
    }
}
