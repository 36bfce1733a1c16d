//! Why a new flow is allowed or denied, at each of its ends: what was compiled,
//! what the maps say, and where the two differ. What the node answers and what
//! commands print is the same.

use std::net::IpAddr;

use ebpf_abi::{Protocol, policy::Direction};
use node_agent_datapath::{HookPlace, PolicyQuestion, PolicyWalk};
use node_agent_policy::{End, Explanation, Reason, Side};
use serde::{Deserialize, Serialize};

/// A new flow to be explained; addresses are those after translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowQuestion {
    /// Who begins it.
    pub from: IpAddr,
    /// Who is to get it.
    pub to: IpAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The destination's port; 0 where there are none.
    pub port: u16,
}

/// Why a request's query is no question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowQuestionError {
    /// It lacks a parameter.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A parameter has a value that cannot be.
    #[error("`{0}` is none")]
    Invalid(&'static str),
}

/// A node's explanation of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionAccount {
    /// The node.
    pub node: String,
    /// Does the agent know all objects, and did it write them?
    pub complete: bool,
    /// Under which epoch and generation the maps are.
    pub epoch: u32,
    /// It moves with every change.
    pub generation: u32,
    /// Who begins it, as the node knows him.
    pub from: String,
    /// Who is to get it.
    pub to: String,
    /// The sender's side, on the sender's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<EndAccount>,
    /// The receiver's side, on the receiver's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<EndAccount>,
}

/// One end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndAccount {
    /// What was compiled out of the objects.
    pub plan: PlannedDecision,
    /// What the maps say; none where they were not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<MapDecision>,
    /// In what the two differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
}

/// The decision that the compiled policy makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedDecision {
    /// Allowed?
    pub allow: bool,
    /// The other end's identity: the class of those whom all rules treat alike.
    pub identity: u32,
    /// What of rules matches the other end.
    pub matches: Vec<String>,
    /// The ruleset; 0: no policy.
    pub ruleset: u32,
    /// Its policies, in the order of evaluation.
    pub policies: Vec<String>,
    /// The class of the port.
    pub port_class: u16,
    /// Why, in a sentence.
    pub why: String,
    /// The rule's number in the maps.
    pub cookie: u32,
    /// The object that decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The tier of its rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Where in the object the rule stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// The decision that the maps make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MapDecision {
    /// Allowed?
    pub allow: bool,
    /// The rule's number.
    pub cookie: u32,
    /// The rule's name, as it stands in the maps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The other end's class; none: nobody that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<u32>,
    /// The ruleset; none: there are no rules yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ruleset: Option<u32>,
    /// Every look at a map, in words.
    pub looks: Vec<String>,
}

// === impl Question ===

impl FlowQuestion {
    /// As the query of a request.
    #[must_use]
    pub fn query(&self) -> Vec<(&'static str, String)> {
        vec![
            ("from", self.from.to_string()),
            ("to", self.to.to_string()),
            ("protocol", self.protocol.0.to_string()),
            ("port", self.port.to_string()),
        ]
    }

    /// Out of the query of a request.
    ///
    /// # Errors
    /// What is missing, or none.
    pub fn from_query(query: &[(String, String)]) -> Result<Self, FlowQuestionError> {
        let value = |name: &'static str| {
            let pair = query.iter().find(|(it, _)| it == name);
            pair.map(|(_, value)| value.as_str())
                .ok_or(FlowQuestionError::Missing(name))
        };
        let wrong = FlowQuestionError::Invalid;
        Ok(Self {
            from: value("from")?.parse().map_err(|_| wrong("from"))?,
            to: value("to")?.parse().map_err(|_| wrong("to"))?,
            protocol: Protocol(value("protocol")?.parse().map_err(|_| wrong("protocol"))?),
            port: value("port")?.parse().map_err(|_| wrong("port"))?,
        })
    }

    /// What one end asks the maps.
    pub fn of_end(&self, direction: Direction, own: &End) -> PolicyQuestion {
        let (mine, other) = if direction == Direction::INGRESS {
            (self.to, self.from)
        } else {
            (self.from, self.to)
        };
        PolicyQuestion {
            place: match own {
                End::Node(_) => HookPlace::Host,
                End::Pod { .. } | End::UnknownPod(_) | End::Outside(_) => HookPlace::Pod,
            },
            direction,
            own: mine,
            peer: other,
            protocol: self.protocol,
            port: self.port,
        }
    }
}

// === impl Account ===

impl DecisionAccount {
    /// What was compiled; `walk` asks the maps, where there are any.
    pub fn explain(
        node: &str,
        question: &FlowQuestion,
        explained: &Explanation,
        walk: impl Fn(&PolicyQuestion) -> Option<PolicyWalk>,
    ) -> Self {
        let end = |side: &Option<Side>, own: &End| {
            let side = side.as_ref()?;
            Some(EndAccount::of(
                side,
                walk(&question.of_end(side.direction, own)).as_ref(),
            ))
        };
        Self {
            node: node.to_owned(),
            complete: true,
            epoch: 0,
            generation: 0,
            from: explained.from.to_string(),
            to: explained.to.to_string(),
            egress: end(&explained.egress, &explained.from),
            ingress: end(&explained.ingress, &explained.to),
        }
    }
}

// === impl EndAccount ===

impl EndAccount {
    fn of(side: &Side, walk: Option<&PolicyWalk>) -> Self {
        let plan = PlannedDecision::of(side);
        Self {
            differences: walk.map_or_else(Vec::new, |walk| differences(side, walk)),
            plan,
            map: walk.map(MapDecision::of),
        }
    }

    /// Is it allowed? Maps have the last word.
    #[must_use]
    pub fn allows(&self) -> bool {
        self.map.as_ref().map_or(self.plan.allow, |it| it.allow)
    }
}

impl PlannedDecision {
    fn of(side: &Side) -> Self {
        let reason = &side.decided.reason;
        Self {
            allow: side.decided.allow,
            identity: side.peer,
            matches: side.matches.clone(),
            ruleset: side.ruleset,
            policies: side.policies.iter().map(ToString::to_string).collect(),
            port_class: side.class,
            why: side.to_string(),
            cookie: side.decided.cookie,
            object: reason.object().map(ToString::to_string),
            tier: match reason {
                Reason::Rule { tier, .. } => Some(tier.to_string()),
                Reason::Isolated { .. } => Some("NetworkPolicy".to_owned()),
                _ => None,
            },
            path: reason.path(side.direction),
        }
    }
}

impl MapDecision {
    fn of(walk: &PolicyWalk) -> Self {
        Self {
            allow: walk.allow,
            cookie: walk.cookie,
            rule: walk.rule.clone(),
            identity: walk.peer.map(|it| it.peer),
            ruleset: walk.ruleset,
            looks: walk
                .looks
                .iter()
                .map(|look| {
                    let found = look.found.as_deref().unwrap_or("nothing");
                    format!("{:<9} {}: {found}", look.map, look.key)
                })
                .collect(),
        }
    }
}

/// In what plan and maps differ, one sentence each.
fn differences(side: &Side, walk: &PolicyWalk) -> Vec<String> {
    let word = |allow| if allow { "allowed" } else { "denied" };
    let mut all = Vec::new();
    if side.decided.allow != walk.allow {
        all.push(format!(
            "compiled it is {}, by the maps it is {}",
            word(side.decided.allow),
            word(walk.allow)
        ));
    }
    if side.decided.cookie != walk.cookie {
        all.push(format!(
            "compiled rule {} decides, by the maps rule {}",
            side.decided.cookie, walk.cookie
        ));
    }
    // Where a pod meets its node or itself nobody looks further.
    let asked = !matches!(side.decided.reason, Reason::Node | Reason::Itself);
    let ruleset = walk.ruleset.unwrap_or(0);
    if asked && side.ruleset != ruleset {
        all.push(format!(
            "compiled its ruleset is {}, by the maps {ruleset}",
            side.ruleset
        ));
    }
    let identity = walk.peer.map(|it| it.peer);
    if asked && ruleset != 0 && identity.is_some_and(|it| it != side.peer) {
        all.push(format!(
            "compiled the other end is of class {}, by the maps of class {}",
            side.peer,
            identity.unwrap_or_default()
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use ebpf_abi::policy::{PeerEntry, PolicyRoot};
    use node_agent_policy::{Compiler, Config};
    use serde_json::json;

    use super::*;

    fn explained() -> (FlowQuestion, Explanation) {
        let mut compiler = Compiler::new(Config {
            node: Some("n1".to_owned()),
            ..Config::default()
        });
        let namespace = serde_json::from_value(json!({"metadata": {"name": "x"}}));
        compiler.namespace("x", Some(&namespace.expect("a namespace")));
        for (name, address) in [("a", "10.0.0.1"), ("b", "10.0.0.2")] {
            let pod = json!({
                "metadata": {"name": name, "namespace": "x", "labels": {"app": name}},
                "spec": {"nodeName": "n1"},
                "status": {"podIP": address},
            });
            let pod = serde_json::from_value(pod).expect("a pod");
            compiler.pod("x", name, Some(&pod));
        }
        let policy = json!({
            "metadata": {"name": "p", "namespace": "x"},
            "spec": {
                "podSelector": {"matchLabels": {"app": "b"}},
                "ingress": [
                    {"ports": [{"port": 81}]},
                    {"from": [{"podSelector": {"matchLabels": {"app": "a"}}}], "ports": [{"port": 80}]},
                ],
            },
        });
        let policy = serde_json::from_value(policy).expect("a policy");
        compiler.network_policy("x", "p", Some(&policy));
        compiler.sync();
        let question = FlowQuestion {
            from: "10.0.0.1".parse().expect("an address"),
            to: "10.0.0.2".parse().expect("an address"),
            protocol: Protocol::TCP,
            port: 80,
        };
        let said = compiler.explain(question.from, question.to, question.protocol, question.port);
        (question, said)
    }

    /// Maps that say what was compiled.
    fn walk(side: &Side) -> PolicyWalk {
        PolicyWalk {
            allow: side.decided.allow,
            cookie: side.decided.cookie,
            rule: None,
            root: PolicyRoot::default(),
            peer: Some(PeerEntry {
                peer: side.peer,
                flags: PeerEntry::POD,
            }),
            ruleset: Some(side.ruleset),
            class: u32::from(side.class),
            looks: Vec::new(),
        }
    }

    #[test]
    fn the_chain_leads_from_the_identity_to_the_place_in_the_object() {
        let (question, said) = explained();
        let account = DecisionAccount::explain("n1", &question, &said, |_| None);
        assert_eq!((&*account.from, &*account.to), ("x/a", "x/b"));
        let egress = account.egress.expect("a side");
        assert_eq!(egress.plan.why, "egress allowed: no policy selects it");
        assert_eq!((egress.plan.ruleset, egress.plan.object), (0, None));
        let ingress = account.ingress.expect("a side").plan;
        assert!(ingress.allow && ingress.ruleset != 0 && ingress.identity >= PeerEntry::FIRST);
        assert_eq!(ingress.matches.len(), 1);
        assert_eq!(ingress.policies, ["NetworkPolicy x/p"]);
        assert_eq!(ingress.object.as_deref(), Some("NetworkPolicy x/p"));
        assert_eq!(ingress.path.as_deref(), Some("spec.ingress[1]"));
        assert_eq!(ingress.tier.as_deref(), Some("NetworkPolicy"));
    }

    #[test]
    fn maps_that_say_otherwise_are_told_and_have_the_last_word() {
        let (question, said) = explained();
        let side = said.ingress.clone().expect("a side");
        let of = |change: &dyn Fn(&mut PolicyWalk)| {
            let mut walk = walk(&side);
            change(&mut walk);
            let account = DecisionAccount::explain("n1", &question, &said, |asked| {
                (asked.direction == Direction::INGRESS).then(|| walk.clone())
            });
            account.ingress.expect("a side")
        };
        let same = of(&|_| {});
        assert_eq!(same.differences, [""; 0]);
        assert!(same.allows());
        let denied = of(&|it| it.allow = false);
        assert!(!denied.allows() && denied.plan.allow);
        assert_eq!(
            denied.differences,
            ["compiled it is allowed, by the maps it is denied"]
        );
        assert_eq!(of(&|it| it.cookie += 1).differences.len(), 1);
        assert_eq!(of(&|it| it.ruleset = None).differences.len(), 1);
        let elsewhere = of(&|it| it.peer = it.peer.map(|it| PeerEntry { peer: 99, ..it }));
        assert_eq!(elsewhere.differences.len(), 1);
    }

    #[test]
    fn questions_are_read_as_they_are_written() {
        let (question, _) = explained();
        let pairs: Vec<_> = question
            .query()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        assert_eq!(FlowQuestion::from_query(&pairs), Ok(question));
        for missing in 0..pairs.len() {
            let mut pairs = pairs.clone();
            pairs.remove(missing);
            assert!(FlowQuestion::from_query(&pairs).is_err());
        }
        let wrong = [("from".to_owned(), "web".to_owned())];
        assert_eq!(
            FlowQuestion::from_query(&wrong),
            Err(FlowQuestionError::Invalid("from"))
        );
    }
}
