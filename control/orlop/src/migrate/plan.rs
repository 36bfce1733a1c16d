//! Plans which nodes to change, in which order, and when to stop. Pure.

use std::collections::BTreeMap;

use node_agent::kube_proxy_takeover::step::{CONDITION, LABEL, ServiceProxyChoice, TakeoverReason};
use serde_json::{Value, json};

/// The annotation that keeps the DaemonSet's original affinity.
pub const ORIGINAL: &str = "orlop.dev/kube-proxy-affinity";
/// The annotation that keeps the DaemonSet's original update strategy.
pub const ORIGINAL_STRATEGY: &str = "orlop.dev/kube-proxy-update-strategy";

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    /// Its name.
    pub name: String,
    /// The choice in its label.
    pub wanted: ServiceProxyChoice,
    /// The report of its agent; `None` without an agent.
    pub reported: Option<(TakeoverReason, String)>,
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Have the DaemonSet leave out nodes that are labelled so, and leave its pods on the others.
    ExemptNodes,
    /// Label a node and wait until its agent reports this.
    Move(String, ServiceProxyChoice),
    /// Give the DaemonSet its own affinity and update strategy back.
    RestoreDaemonSet,
}

/// The reason why nothing is done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nodes without an agent that reports.
    #[error(
        "no agent of Orlop reports on {0}: run `orlop node-agent install --datapath-only` there, and \
         see that it may patch nodes/status"
    )]
    NoAgent(String),
    /// There are no such nodes.
    #[error("there is no node `{0}`")]
    NoNode(String),
    /// Nodes that a former run left worse.
    #[error(
        "{0} became worse than before when kube-proxy's rules were removed; give it back with \
         `orlop migrate kube-proxy --undo --node {0}`"
    )]
    Worse(String),
}

/// How a node's way is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationProgress {
    /// It arrived.
    Done(String),
    /// In progress, with what it waits for.
    Waiting(String),
    /// It stopped.
    Stopped(String),
}

impl NodeState {
    /// Reads a Node.
    pub fn from_node(node: &Value) -> Self {
        let conditions = node["status"]["conditions"].as_array();
        let condition = conditions
            .into_iter()
            .flatten()
            .find(|it| it["type"] == CONDITION);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            name: text(&node["metadata"]["name"]),
            wanted: ServiceProxyChoice::of_label(node["metadata"]["labels"][LABEL].as_str()),
            reported: condition.and_then(|it| {
                let reason = TakeoverReason::of_word(it["reason"].as_str()?)?;
                Some((reason, text(&it["message"])))
            }),
        }
    }

    /// Whether it has arrived where it is to go.
    pub fn progress(&self, to: ServiceProxyChoice) -> MigrationProgress {
        let Some((reason, message)) = self.reported.clone() else {
            return MigrationProgress::Waiting("its agent says nothing".to_owned());
        };
        let arrived = match to {
            ServiceProxyChoice::Replaced => reason == TakeoverReason::Replaced,
            ServiceProxyChoice::Restored => reason == TakeoverReason::Restored,
            ServiceProxyChoice::Beside => reason == TakeoverReason::Beside,
        };
        match reason {
            _ if arrived => MigrationProgress::Done(message),
            TakeoverReason::WorseThanBefore | TakeoverReason::CleanupFailed
                if to == ServiceProxyChoice::Replaced =>
            {
                MigrationProgress::Stopped(message)
            }
            _ => MigrationProgress::Waiting(message),
        }
    }
}

/// Chooses nodes by name; all of them without names.
///
/// # Errors
/// [`Refusal::NoNode`].
pub fn choose(nodes: &[NodeState], names: &[String]) -> Result<Vec<NodeState>, Refusal> {
    if names.is_empty() {
        return Ok(nodes.to_vec());
    }
    let find = |name: &String| {
        let found = nodes.iter().find(|it| it.name == *name);
        found.cloned().ok_or_else(|| Refusal::NoNode(name.clone()))
    };
    names.iter().map(find).collect()
}

/// Plans the way from kube-proxy to Orlop on these nodes.
///
/// # Errors
/// [`Refusal::NoAgent`], [`Refusal::Worse`]: then nothing is to be done at all.
pub fn migrate(chosen: &[NodeState], daemon_set: Option<&Value>) -> Result<Vec<Task>, Refusal> {
    let silent: Vec<_> = chosen
        .iter()
        .filter(|it| it.reported.is_none())
        .map(|it| it.name.as_str())
        .collect();
    if !silent.is_empty() {
        return Err(Refusal::NoAgent(silent.join(", ")));
    }
    let is_worse = |it: &&NodeState| {
        matches!(&it.reported, Some((TakeoverReason::WorseThanBefore, _)))
            && it.wanted == ServiceProxyChoice::Replaced
    };
    if let Some(node) = chosen.iter().find(is_worse) {
        return Err(Refusal::Worse(node.name.clone()));
    }
    let to = ServiceProxyChoice::Replaced;
    let left: Vec<_> = chosen
        .iter()
        .filter(|it| !matches!(it.progress(to), MigrationProgress::Done(_)) || it.wanted != to)
        .map(|it| Task::Move(it.name.clone(), to))
        .collect();
    let exempt = daemon_set.filter(|it| !left.is_empty() && !is_exempting(it));
    let exempt = exempt.map(|_| Task::ExemptNodes);
    Ok(exempt.into_iter().chain(left).collect())
}

/// Plans the way back. `nodes` are all nodes, of which the `chosen` go back. The
/// DaemonSet comes first, so that kube-proxy's pods start while Orlop serves. Nodes that went
/// back earlier have pods of the changed DaemonSet: Orlop serves there once more until theirs are
/// replaced, too, since kube-proxy may serve nothing after a restart ([`exempting`]).
pub fn undo(nodes: &[NodeState], chosen: &[NodeState], daemon_set: Option<&Value>) -> Vec<Task> {
    let mut back: Vec<&str> = chosen
        .iter()
        .filter(|it| it.wanted == ServiceProxyChoice::Replaced)
        .map(|it| it.name.as_str())
        .collect();
    let stays = |it: &NodeState| {
        it.wanted == ServiceProxyChoice::Replaced && !back.contains(&it.name.as_str())
    };
    let restores = daemon_set.is_some_and(is_exempting) && !nodes.iter().any(stays);
    let mut tasks = Vec::new();
    if restores {
        let is_back = |it: &&NodeState| {
            it.wanted == ServiceProxyChoice::Restored
                && matches!(&it.reported, Some((TakeoverReason::Restored, _)))
        };
        for node in nodes.iter().filter(is_back) {
            tasks.push(Task::Move(node.name.clone(), ServiceProxyChoice::Replaced));
            back.push(&node.name);
        }
        tasks.push(Task::RestoreDaemonSet);
    }
    let moves = back
        .iter()
        .map(|name| Task::Move((*name).to_owned(), ServiceProxyChoice::Restored));
    tasks.extend(moves);
    tasks
}

fn is_exempting(daemon_set: &Value) -> bool {
    daemon_set["metadata"]["annotations"][ORIGINAL].is_string()
}

/// Returns the patch (RFC 7386) that removes kube-proxy's pods from `replaced` nodes.
/// Each term of its own affinity gets the condition, since a node has to match one of
/// them.
///
/// The pods of other nodes stay as they are, since Orlop need not serve there: kube-proxy 1.36 in
/// mode nftables, with nft 1.0.6, serves no Service once it is restarted beside its own table.
pub fn exempting(daemon_set: &Value) -> Value {
    let own = &daemon_set["spec"]["template"]["spec"]["affinity"];
    let condition = json!({"key": LABEL, "operator": "NotIn", "values": ["replaced"]});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let mut affinity = if own.is_object() {
        own.clone()
    } else {
        json!({})
    };
    let terms = affinity["nodeAffinity"][required]["nodeSelectorTerms"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let terms = if terms.is_empty() {
        vec![json!({})]
    } else {
        terms
    };
    let terms: Vec<_> = terms
        .into_iter()
        .map(|mut term| {
            let mut all = term["matchExpressions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            all.push(condition.clone());
            term["matchExpressions"] = Value::from(all);
            term
        })
        .collect();
    affinity["nodeAffinity"][required]["nodeSelectorTerms"] = Value::from(terms);
    let strategy = &daemon_set["spec"]["updateStrategy"];
    json!({
        "metadata": {"annotations": {
            ORIGINAL: own.to_string(),
            ORIGINAL_STRATEGY: strategy.to_string(),
        }},
        "spec": {
            "updateStrategy": {"type": "OnDelete", "rollingUpdate": null},
            "template": {"spec": {"affinity": affinity}},
        },
    })
}

/// Returns the patch (RFC 6902) that gives the DaemonSet back what [`exempting`] changed.
pub fn restoring(daemon_set: &Value) -> Option<Value> {
    let recorded = |annotation: &str| -> Option<Value> {
        let annotations = &daemon_set["metadata"]["annotations"];
        serde_json::from_str(annotations[annotation].as_str()?).ok()
    };
    let forget = |annotation: &str| {
        let path = format!("/metadata/annotations/{}", annotation.replace('/', "~1"));
        json!({"op": "remove", "path": path})
    };
    let back = |path: &str, own: Value| {
        if own.is_null() {
            json!({"op": "remove", "path": path})
        } else {
            json!({"op": "replace", "path": path, "value": own})
        }
    };
    let mut patch = vec![
        back("/spec/template/spec/affinity", recorded(ORIGINAL)?),
        forget(ORIGINAL),
    ];
    // Releases before this one left the strategy alone.
    if let Some(strategy) = recorded(ORIGINAL_STRATEGY) {
        patch.push(back("/spec/updateStrategy", strategy));
        patch.push(forget(ORIGINAL_STRATEGY));
    }
    Some(Value::from(patch))
}

/// Describes the tasks for people.
pub fn describe(tasks: &[Task], daemon_set: &str) -> BTreeMap<usize, String> {
    let words = |task: &Task| match task {
        Task::ExemptNodes => format!(
            "DaemonSet {daemon_set}: leave out nodes with the label {LABEL}=replaced; its pods on \
             other nodes are not restarted"
        ),
        Task::Move(node, ServiceProxyChoice::Replaced) => format!(
            "node {node}: label {LABEL}=replaced; kube-proxy ends there, and the agent removes its \
             rules once all Services are in force"
        ),
        Task::Move(node, ServiceProxyChoice::Beside) => {
            format!("node {node}: no label {LABEL}; Orlop serves new connections again")
        }
        Task::Move(node, ServiceProxyChoice::Restored) => format!(
            "node {node}: label {LABEL}=restored; kube-proxy starts there, and gets new connections \
             once it has written its rules"
        ),
        Task::RestoreDaemonSet => {
            format!("DaemonSet {daemon_set}: its own affinity and update strategy again")
        }
    };
    tasks.iter().map(words).enumerate().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, wanted: ServiceProxyChoice, reason: Option<TakeoverReason>) -> NodeState {
        NodeState {
            name: name.to_owned(),
            wanted,
            reported: reason.map(|reason| (reason, "words".to_owned())),
        }
    }

    fn beside(name: &str) -> NodeState {
        node(
            name,
            ServiceProxyChoice::Beside,
            Some(TakeoverReason::Beside),
        )
    }

    fn replaced(name: &str) -> NodeState {
        node(
            name,
            ServiceProxyChoice::Replaced,
            Some(TakeoverReason::Replaced),
        )
    }

    fn daemon_set(affinity: &Value) -> Value {
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
        let mut it = json!({
            "metadata": {"name": "kube-proxy"},
            "spec": {"template": {"spec": {}}, "updateStrategy": rolling},
        });
        if !affinity.is_null() {
            it["spec"]["template"]["spec"]["affinity"] = affinity.clone();
        }
        it
    }

    /// Applies a patch as the API server does.
    fn patched(object: &Value, patch: &Value) -> Value {
        fn merge(into: &mut Value, patch: &Value) {
            let Some(fields) = patch.as_object() else {
                *into = patch.clone();
                return;
            };
            if !into.is_object() {
                *into = json!({});
            }
            for (key, value) in fields {
                merge(&mut into[key], value);
            }
            let all = into.as_object_mut().expect("an object");
            all.retain(|key, _| fields.get(key) != Some(&Value::Null));
        }
        let mut object = object.clone();
        merge(&mut object, patch);
        object
    }

    #[test]
    fn nodes_move_one_by_one_after_the_daemon_set_may_leave_them() {
        let nodes = [beside("a"), replaced("b"), beside("c")];
        let to = |name: &str| Task::Move(name.to_owned(), ServiceProxyChoice::Replaced);
        let set = daemon_set(&Value::Null);
        let tasks = migrate(&nodes, Some(&set)).unwrap();
        assert_eq!(tasks, [Task::ExemptNodes, to("a"), to("c")]);
        assert_eq!(migrate(&nodes[..1], None).unwrap(), [to("a")]);
        assert_eq!(migrate(&nodes[1..2], Some(&set)).unwrap(), []);
        let again = patched(&set, &exempting(&set));
        assert_eq!(migrate(&nodes[..1], Some(&again)).unwrap(), [to("a")]);
    }

    /// kube-proxy serves the nodes that went back, chosen or not, until they move themselves.
    #[test]
    fn nodes_that_went_back_stay_with_kube_proxy_until_their_turn() {
        let restored = |name| {
            let reported = Some(TakeoverReason::Restored);
            node(name, ServiceProxyChoice::Restored, reported)
        };
        let nodes = [restored("a"), restored("b")];
        let to = |name: &str| Task::Move(name.to_owned(), ServiceProxyChoice::Replaced);
        let set = daemon_set(&Value::Null);
        let tasks = migrate(&nodes[1..], Some(&set)).unwrap();
        assert_eq!(tasks, [Task::ExemptNodes, to("b")]);
        let changed = patched(&set, &exempting(&set));
        let strategy = &changed["spec"]["updateStrategy"];
        assert_eq!(
            (&strategy["type"], &strategy["rollingUpdate"]),
            (&json!("OnDelete"), &Value::Null),
            "no pod of another node is restarted"
        );
        assert_eq!(migrate(&nodes, Some(&changed)).unwrap(), [to("a"), to("b")]);
    }

    #[test]
    fn nothing_begins_where_an_agent_is_missing_or_a_node_is_worse() {
        let nodes = [beside("a"), node("b", ServiceProxyChoice::Beside, None)];
        let refused = migrate(&nodes, None).unwrap_err();
        assert_eq!(refused, Refusal::NoAgent("b".to_owned()));
        let worse = node(
            "c",
            ServiceProxyChoice::Replaced,
            Some(TakeoverReason::WorseThanBefore),
        );
        let refused = migrate(&[beside("a"), worse], None).unwrap_err();
        assert!(refused.to_string().contains("--undo --node c"), "{refused}");
        assert!(choose(&nodes, &["x".to_owned()]).is_err());
    }

    #[test]
    fn the_daemon_set_is_restored_before_the_last_nodes() {
        let set = daemon_set(&Value::Null);
        let set = patched(&set, &exempting(&set));
        let nodes = [replaced("a"), replaced("b"), beside("c")];
        let back = |name: &str| Task::Move(name.to_owned(), ServiceProxyChoice::Restored);
        assert_eq!(undo(&nodes, &nodes[..1], Some(&set)), [back("a")]);
        let all = undo(&nodes, &nodes, Some(&set));
        assert_eq!(all, [Task::RestoreDaemonSet, back("a"), back("b")]);
    }

    /// kube-proxy's pods on nodes that went back one by one are of the changed DaemonSet.
    #[test]
    fn orlop_serves_while_kube_proxy_is_restarted_where_it_is_back() {
        let set = daemon_set(&Value::Null);
        let changed = patched(&set, &exempting(&set));
        let reported = Some(TakeoverReason::Restored);
        let restored = node("a", ServiceProxyChoice::Restored, reported);
        let nodes = [restored, replaced("b"), beside("c")];
        let to = |name: &str, to| Task::Move(name.to_owned(), to);
        let expected = [
            to("a", ServiceProxyChoice::Replaced),
            Task::RestoreDaemonSet,
            to("b", ServiceProxyChoice::Restored),
            to("a", ServiceProxyChoice::Restored),
        ];
        assert_eq!(undo(&nodes, &nodes[1..2], Some(&changed)), expected);
        assert_eq!(undo(&nodes[..1], &nodes[..1], Some(&set)), []);
    }

    #[test]
    fn a_node_that_became_worse_stops_the_way() {
        let at = |reason| {
            node("a", ServiceProxyChoice::Replaced, Some(reason))
                .progress(ServiceProxyChoice::Replaced)
        };
        assert!(matches!(
            at(TakeoverReason::Replaced),
            MigrationProgress::Done(_)
        ));
        assert!(matches!(
            at(TakeoverReason::Waiting),
            MigrationProgress::Waiting(_)
        ));
        assert!(matches!(
            at(TakeoverReason::WorseThanBefore),
            MigrationProgress::Stopped(_)
        ));
        assert!(matches!(
            at(TakeoverReason::CleanupFailed),
            MigrationProgress::Stopped(_)
        ));
        // What it said before it was asked.
        assert!(matches!(
            at(TakeoverReason::Restored),
            MigrationProgress::Waiting(_)
        ));
    }

    #[test]
    fn the_daemon_set_gets_exactly_back_what_was_changed() {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let linux = json!({"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]});
        let terms = json!([{"matchExpressions": [linux]}, {"matchFields": []}]);
        let own = json!({"nodeAffinity": {required: {"nodeSelectorTerms": terms}}});
        for own in [Value::Null, own] {
            let before = daemon_set(&own);
            let changed = patched(&before, &exempting(&before));
            let affinity = &changed["spec"]["template"]["spec"]["affinity"]["nodeAffinity"];
            let terms = affinity[required]["nodeSelectorTerms"].as_array().unwrap();
            assert!(!terms.is_empty());
            for term in terms {
                let last = term["matchExpressions"].as_array().unwrap().last().unwrap();
                assert_eq!(
                    (&last["key"], &last["operator"]),
                    (&json!(LABEL), &json!("NotIn"))
                );
            }
            let mut affinity = json!({"op": "remove", "path": "/spec/template/spec/affinity"});
            if own.is_object() {
                affinity["op"] = "replace".into();
                affinity["value"] = own;
            }
            let strategy = &before["spec"]["updateStrategy"];
            let recorded = "/metadata/annotations/orlop.dev~1kube-proxy";
            assert_eq!(
                restoring(&changed),
                Some(json!([
                    affinity,
                    {"op": "remove", "path": format!("{recorded}-affinity")},
                    {"op": "replace", "path": "/spec/updateStrategy", "value": strategy},
                    {"op": "remove", "path": format!("{recorded}-update-strategy")},
                ]))
            );
        }
        assert_eq!(restoring(&daemon_set(&Value::Null)), None);
    }

    #[test]
    fn a_daemon_set_whose_strategy_was_not_recorded_keeps_it() {
        let before = daemon_set(&Value::Null);
        let mut patch = exempting(&before);
        let annotations = patch["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove(ORIGINAL_STRATEGY);
        let back = restoring(&patched(&before, &patch)).unwrap();
        assert!(!back.to_string().contains("updateStrategy"), "{back}");
    }

    #[test]
    fn a_node_is_read_with_its_label_and_its_agent_s_words() {
        let it = NodeState::from_node(&json!({
            "metadata": {"name": "a", "labels": {LABEL: "replaced"}},
            "status": {"conditions": [
                {"type": "Ready", "reason": "Replaced"},
                {"type": CONDITION, "reason": "Waiting", "message": "words"},
            ]},
        }));
        assert_eq!(
            it,
            node(
                "a",
                ServiceProxyChoice::Replaced,
                Some(TakeoverReason::Waiting)
            )
        );
        let bare = NodeState::from_node(&json!({"metadata": {"name": "b"}}));
        assert_eq!(bare, node("b", ServiceProxyChoice::Beside, None));
    }
}
