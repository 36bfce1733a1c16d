//! The answer: each end's chain, and where those that should agree do not.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use node_agent::explain::{DecisionAccount, EndAccount};
use serde::Serialize;
use serde_json::Value;

use super::asked::NamedEnd;
use crate::{error::Error, nodes::NodeError, run::all_causes};

/// Checks that every connection goes through: the verdict of `--exit-code`.
///
/// # Errors
/// [`Error::Policy`], with which the command ends with code 1, when one is dropped.
pub fn ensure_allowed(reports: &[Report]) -> Result<(), Error> {
    let dropped = reports.iter().filter(|report| !report.allow).count();
    if dropped == 0 {
        return Ok(());
    }
    Err(Error::Policy(format!(
        "{dropped} of {} connections are dropped",
        reports.len()
    )))
}

/// The answer of one end's node.
#[derive(Clone, Debug)]
pub struct NodeAnswer {
    /// The node.
    pub node: String,
    /// Its answer, or why there is none.
    pub answer: Result<DecisionAccount, Arc<NodeError>>,
}

/// Everything about one flow.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The client.
    from: String,
    /// The server.
    to: String,
    /// Both addresses, port and protocol.
    flow: String,
    /// The Service whose endpoint is the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    /// Whether it is allowed, as far as is known.
    allow: bool,
    /// The sender's end, then the receiver's.
    ends: Vec<ReportEnd>,
    /// Inconsistencies.
    differences: Vec<String>,
}

/// One end.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportEnd {
    direction: &'static str,
    who: String,
    /// The node that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// Why it did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
    /// The node's account.
    #[serde(skip_serializing_if = "Option::is_none")]
    said: Option<EndAccount>,
    /// The account from the objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    objects: Option<EndAccount>,
    /// The rule that decides, as in its object.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<Value>,
}

// === impl Report ===

impl Report {
    /// Combines the account from the objects with those of both nodes.
    pub fn new(
        named: &NamedEnd,
        objects: &DecisionAccount,
        sender: Option<NodeAnswer>,
        receiver: Option<NodeAnswer>,
    ) -> Self {
        let question = &named.question;
        let flow = match question.port {
            0 => format!("{} to {} {}", question.from, question.to, protocol(named)),
            port => {
                let to = std::net::SocketAddr::new(question.to, port);
                format!("{} to {to} {}", question.from, protocol(named))
            }
        };
        let mut differences = between(sender.as_ref(), receiver.as_ref());
        let ends = [
            ("egress", &objects.from, sender, &objects.egress),
            ("ingress", &objects.to, receiver, &objects.ingress),
        ];
        let ends: Vec<ReportEnd> = ends
            .into_iter()
            .filter_map(|(direction, who, heard, objects)| {
                // Nothing decides for an outside end.
                objects.as_ref()?;
                Some(ReportEnd::new(direction, who, heard, objects.clone()))
            })
            .collect();
        for end in &ends {
            differences.extend(end.differences());
        }
        Self {
            from: objects.from.clone(),
            to: objects.to.clone(),
            flow,
            service: named.service.clone(),
            allow: ends.iter().all(ReportEnd::allows),
            ends,
            differences,
        }
    }

    /// Adds the rules that decide, as their objects have them.
    pub fn quote(&mut self, documents: &[Value]) {
        for end in &mut self.ends {
            end.rule = end.decisive().and_then(|it| quoted(it, documents));
        }
    }
}

fn protocol(named: &NamedEnd) -> String {
    match named.question.protocol.0 {
        1 => "ICMP".to_owned(),
        _ => named.question.protocol.to_string(),
    }
}

/// Returns where both nodes disagree about the two ends.
fn between(sender: Option<&NodeAnswer>, receiver: Option<&NodeAnswer>) -> Vec<String> {
    let (Some(sender), Some(receiver)) = (sender, receiver) else {
        return Vec::new();
    };
    let (Ok(one), Ok(other)) = (&sender.answer, &receiver.answer) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for (what, a, b) in [
        ("sender", &one.from, &other.from),
        ("receiver", &one.to, &other.to),
    ] {
        if a != b {
            all.push(format!(
                "who the {what} is: {a} to {}, {b} to {}",
                sender.node, receiver.node
            ));
        }
    }
    all
}

/// A rule by its object's name and its path in it.
fn quoted(end: &EndAccount, documents: &[Value]) -> Option<Value> {
    let (kind, name) = end.plan.object.as_deref()?.split_once(' ')?;
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = documents.iter().rev().find(|it| {
        text(&it["kind"]) == kind
            && text(&it["metadata"]["name"]) == name
            && text(&it["metadata"]["namespace"]) == namespace
    })?;
    let path = end
        .plan
        .path
        .as_deref()?
        .replace(['.', '['], "/")
        .replace(']', "");
    object.pointer(&format!("/{path}")).cloned()
}

// === impl End ===

impl ReportEnd {
    fn new(
        direction: &'static str,
        who: &str,
        heard: Option<NodeAnswer>,
        objects: Option<EndAccount>,
    ) -> Self {
        let mut end = Self {
            direction,
            who: who.to_owned(),
            node: None,
            unknown: None,
            said: None,
            objects,
            rule: None,
        };
        match heard {
            None => end.unknown = Some("it is on no node".to_owned()),
            Some(NodeAnswer { node, answer }) => {
                match answer {
                    Ok(account) if !account.complete => {
                        end.unknown = Some("its agent does not know all objects yet".to_owned());
                    }
                    Ok(account) => {
                        end.said = match direction {
                            "egress" => account.egress,
                            _ => account.ingress,
                        };
                        if end.said.is_none() {
                            end.unknown = Some("the node does not know this end as its own".into());
                        }
                    }
                    Err(error) => end.unknown = Some(all_causes(&*error)),
                }
                end.node = Some(node);
            }
        }
        end
    }

    /// Returns the decisive account: the node's, else that from the objects.
    fn decisive(&self) -> Option<&EndAccount> {
        self.said.as_ref().or(self.objects.as_ref())
    }

    fn allows(&self) -> bool {
        self.decisive().is_none_or(EndAccount::allows)
    }

    fn differences(&self) -> Vec<String> {
        let node = self.node.as_deref().unwrap_or_default();
        let mut all = Vec::new();
        if let Some(why) = &self.unknown {
            let nobody = match node {
                "" => "nobody says".to_owned(),
                node => format!("{node} does not say"),
            };
            all.push(format!(
                "{} of {}: {nobody} ({why}); told is what the objects say",
                self.direction, self.who
            ));
        }
        let Some(said) = &self.said else {
            return all;
        };
        let told = |difference: &String| {
            format!(
                "{} on {node}: plan and maps differ: {difference}",
                self.direction
            )
        };
        all.extend(said.differences.iter().map(told));
        if let Some(objects) = &self.objects
            && (said.plan.allow, &said.plan.why) != (objects.plan.allow, &objects.plan.why)
        {
            all.push(format!(
                "{} on {node}: the node compiled `{}`, the objects say `{}`",
                self.direction, said.plan.why, objects.plan.why
            ));
        }
        all
    }
}

// === impl Display ===

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verdict = if self.allow { "ALLOWED" } else { "DROPPED" };
        write!(f, "{verdict}: {} to {}", self.from, self.to)?;
        if let Some(service) = &self.service {
            write!(f, " of service {service}")?;
        }
        writeln!(f, " ({})", self.flow)?;
        if self.ends.is_empty() {
            writeln!(f, "  neither end is one of the cluster's")?;
        }
        for end in &self.ends {
            Display::fmt(end, f)?;
        }
        for difference in &self.differences {
            writeln!(f, "! {difference}")?;
        }
        Ok(())
    }
}

impl Display for ReportEnd {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verdict = if self.allows() { "allowed" } else { "DROPPED" };
        write!(f, "{} of {}", self.direction, self.who)?;
        if let Some(node) = &self.node {
            write!(f, ", on {node}")?;
        }
        writeln!(f, ": {verdict}")?;
        let Some(it) = self.decisive() else {
            return Ok(());
        };
        let plan = &it.plan;
        write!(f, "  peer      class {}", plan.identity)?;
        if !plan.matches.is_empty() {
            write!(f, ": {}", plan.matches.join("; "))?;
        }
        writeln!(f)?;
        match plan.ruleset {
            0 => writeln!(f, "  ruleset   none: no policy selects it")?,
            number => {
                let policies = plan.policies.join(", ");
                writeln!(f, "  ruleset   {number}: {policies}")?;
                writeln!(f, "  ports     class {}", plan.port_class)?;
            }
        }
        if let Some(tier) = &plan.tier {
            writeln!(f, "  tier      {tier}")?;
        }
        if let Some(object) = &plan.object {
            let path = plan.path.as_deref().unwrap_or_default();
            writeln!(f, "  object    {object} {path}")?;
        }
        if let Some(rule) = &self.rule {
            writeln!(f, "  rule      {rule}")?;
        }
        writeln!(f, "  decision  {}", plan.why)?;
        let Some(map) = &it.map else {
            return Ok(());
        };
        for look in &map.looks {
            writeln!(f, "  map       {look}")?;
        }
        let verdict = if map.allow { "allow" } else { "deny" };
        let rule = map.rule.as_deref().map(|it| format!(": {it}"));
        writeln!(
            f,
            "  map says  {verdict}, cookie {}{}",
            map.cookie,
            rule.unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests {
    use ebpf_abi::Protocol;
    use node_agent::explain::FlowQuestion;
    use serde_json::json;

    use super::*;

    fn named() -> NamedEnd {
        NamedEnd {
            question: FlowQuestion {
                from: "10.0.0.1".parse().unwrap(),
                to: "10.0.0.2".parse().unwrap(),
                protocol: Protocol::TCP,
                port: 80,
            },
            service: None,
        }
    }

    fn end(allow: bool) -> Value {
        json!({
            "plan": {
                "allow": allow, "identity": 5, "matches": ["pods app=a of namespace x"],
                "ruleset": 2, "policies": ["NetworkPolicy x/p"], "portClass": 1,
                "why": if allow { "ingress allowed: NetworkPolicy x/p ingress[1] (tier NetworkPolicy)" }
                    else { "ingress denied: no ingress rule allows it; selected by NetworkPolicy x/p" },
                "cookie": 19, "object": "NetworkPolicy x/p", "tier": "NetworkPolicy",
                "path": if allow { "spec.ingress[1]" } else { "spec.podSelector" },
            },
            "map": {"allow": allow, "cookie": 19, "looks": ["PEERS     10.0.0.1: class 5"]},
        })
    }

    fn account(node: &str, egress: Value, ingress: Value) -> DecisionAccount {
        let value = json!({
            "node": node, "complete": true, "epoch": 1, "generation": 2,
            "from": "x/a", "to": "x/b", "egress": egress, "ingress": ingress,
        });
        serde_json::from_value(value).unwrap()
    }

    fn heard(node: &str, answer: Result<DecisionAccount, NodeError>) -> Option<NodeAnswer> {
        Some(NodeAnswer {
            node: node.to_owned(),
            answer: answer.map_err(Arc::new),
        })
    }

    fn objects(allow: bool) -> DecisionAccount {
        account("", end(true), end(allow))
    }

    #[test]
    fn ends_that_agree_are_told_link_by_link() {
        let sender = heard("n1", Ok(account("n1", end(true), Value::Null)));
        let receiver = heard("n2", Ok(account("n2", Value::Null, end(true))));
        let mut report = Report::new(&named(), &objects(true), sender, receiver);
        report.quote(&[json!({
            "kind": "NetworkPolicy", "metadata": {"namespace": "x", "name": "p"},
            "spec": {"ingress": [{}, {"ports": [{"port": 80}]}]},
        })]);
        assert!(report.allow && report.differences.is_empty());
        let text = report.to_string();
        for line in [
            "ALLOWED: x/a to x/b (10.0.0.1 to 10.0.0.2:80 TCP)",
            "egress of x/a, on n1: allowed",
            "ingress of x/b, on n2: allowed",
            "  peer      class 5: pods app=a of namespace x",
            "  ruleset   2: NetworkPolicy x/p",
            "  object    NetworkPolicy x/p spec.ingress[1]",
            "  rule      {\"ports\":[{\"port\":80}]}",
            "  map       PEERS     10.0.0.1: class 5",
            "  map says  allow, cookie 19",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_exit_code_is_1_when_any_connection_is_dropped() {
        let report = |allow| {
            let sender = heard("n1", Ok(account("n1", end(true), Value::Null)));
            let receiver = heard("n2", Ok(account("n2", Value::Null, end(allow))));
            Report::new(&named(), &objects(allow), sender, receiver)
        };
        assert!(ensure_allowed(&[report(true), report(true)]).is_ok());
        let error = ensure_allowed(&[report(true), report(false), report(true)]);
        assert_eq!(
            error.unwrap_err().to_string(),
            "1 of 3 connections are dropped"
        );
    }

    #[test]
    fn an_ordinary_ingress_policy_is_no_difference() {
        let sender = heard("n1", Ok(account("n1", end(true), Value::Null)));
        let receiver = heard("n2", Ok(account("n2", Value::Null, end(false))));
        let report = Report::new(&named(), &objects(false), sender, receiver);
        assert!(!report.allow);
        assert_eq!(report.differences, [""; 0]);
    }

    #[test]
    fn ends_that_differ_say_so() {
        let sender = heard("n1", Ok(account("n1", end(true), Value::Null)));
        let mut late = account("n2", Value::Null, end(false));
        late.from = "10.0.0.1".to_owned();
        let receiver = heard("n2", Ok(late));
        let report = Report::new(&named(), &objects(true), sender, receiver);
        assert!(!report.allow);
        let text = report.to_string();
        for part in [
            "! who the sender is: x/a to n1, 10.0.0.1 to n2",
            "! ingress on n2: the node compiled `ingress denied",
            "DROPPED: x/a to x/b",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn a_node_that_does_not_answer_is_named_and_the_objects_stand_for_it() {
        let receiver = heard("n2", Err(NodeError::Ended));
        let report = Report::new(&named(), &objects(false), None, receiver);
        assert!(!report.allow);
        let text = report.to_string();
        assert!(
            text.contains("! ingress of x/b: n2 does not say (the node said no more)"),
            "{text}"
        );
        assert!(
            text.contains("! egress of x/a: nobody says (it is on no node)"),
            "{text}"
        );
        let mut behind = account("n2", Value::Null, end(true));
        behind.complete = false;
        let report = Report::new(&named(), &objects(true), None, heard("n2", Ok(behind)));
        assert!(report.to_string().contains("does not know all objects yet"));
    }

    #[test]
    fn maps_that_differ_are_told() {
        let mut wrong = end(true);
        wrong["differences"] = json!(["compiled it is allowed, by the maps it is denied"]);
        wrong["map"]["allow"] = false.into();
        let receiver = heard("n2", Ok(account("n2", Value::Null, wrong)));
        let sender = heard("n1", Ok(account("n1", end(true), Value::Null)));
        let report = Report::new(&named(), &objects(true), sender, receiver);
        assert!(!report.allow, "maps have the last word");
        assert!(
            report
                .to_string()
                .contains("! ingress on n2: plan and maps differ: compiled it is allowed")
        );
    }
}
