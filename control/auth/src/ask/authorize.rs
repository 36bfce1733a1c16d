//! Another server that decides (`SubjectAccessReview` by webhook).

use std::time::Duration;

use control_access::configuration::authorization::Webhook;
use control_access::{Attributes, Selection};
use control_types::labels::Operator;
use control_types::value::Value;
use control_types::{error_chain, value};

use crate::authorize::Opinion;
use crate::review_user::{extra, list};
use control_proxy::egress::kubeconfig::Error;
use control_proxy::egress::{Egress, Kind};
use control_proxy::{AnswerCache, Reviewer};

/// How many answers are remembered.
const MOST: usize = 8192;
/// What of a request a client chooses must not fill the cache.
const LONGEST: usize = 10_000;

/// The server and what it said.
#[derive(Debug)]
pub(crate) struct WebhookAuthorizer {
    webhook: Webhook,
    server: Reviewer,
    answers: AnswerCache<Vec<u8>, Opinion>,
}

impl WebhookAuthorizer {
    /// Reads the kubeconfig that the webhook names.
    ///
    /// # Errors
    /// When it names no server.
    pub fn new(webhook: Webhook, egress: &Egress) -> Result<Self, Error> {
        let dialer = egress.to(Kind::ControlPlane);
        let server = Reviewer::open(&webhook.kubeconfig, webhook.timeout, dialer)?;
        Ok(Self {
            webhook,
            server,
            answers: AnswerCache::new(MOST),
        })
    }

    /// Its name in metrics.
    pub(crate) fn name(&self) -> &str {
        &self.webhook.name
    }

    /// What it says, and what failed.
    pub(crate) async fn decide(&self, attributes: &Attributes) -> (Opinion, Option<String>) {
        let spec = spec(attributes);
        match self.webhook.concerns(&spec) {
            Ok(true) => {}
            Ok(false) => return (Opinion::None(String::new()), None),
            Err(error) => return self.failed(error_chain(&error)),
        }
        let key = spec.to_vec();
        if let Some(known) = self.answers.get(&key) {
            return (known, None);
        }
        let review = value!({
            "kind": "SubjectAccessReview",
            "apiVersion": (format!("authorization.k8s.io/{}", self.webhook.version)),
            "metadata": {},
            "spec": (spec_in(&self.webhook.version, spec)),
            "status": {"allowed": false}
        });
        let answer = match self.server.review(&review).await {
            Ok(answer) => answer,
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(webhook = %self.webhook.name, error, "an authorizer cannot be asked");
                return self.failed(error);
            }
        };
        let flag = |name: &str| answer.bool_at(&["status", name]) == Some(true);
        let reason = answer
            .str_at(&["status", "reason"])
            .unwrap_or_default()
            .to_owned();
        let mut failure = None;
        let opinion = match (flag("denied"), flag("allowed")) {
            (true, allowed) => {
                failure = allowed.then(|| {
                    "webhook subject access review returned both allow and deny response".to_owned()
                });
                Opinion::Deny(reason)
            }
            (false, true) => Opinion::Allow(reason),
            (false, false) => Opinion::None(reason),
        };
        if key.len() < LONGEST {
            self.answers.put(key, opinion.clone(), self.lasts(&opinion));
        }
        (opinion, failure)
    }

    fn lasts(&self, opinion: &Opinion) -> Duration {
        match opinion {
            Opinion::Allow(_) => self.webhook.authorized,
            _ => self.webhook.unauthorized,
        }
    }

    fn failed(&self, error: String) -> (Opinion, Option<String>) {
        let opinion = if self.webhook.denies_on_failure {
            Opinion::Deny(String::new())
        } else {
            Opinion::None(String::new())
        };
        (opinion, Some(error))
    }
}

/// The specification of a `SubjectAccessReview` about a request.
fn spec(asked: &Attributes) -> Value {
    let mut spec = Value::object();
    if asked.is_resource_request {
        let mut resource = Value::object();
        for (field, text) in [
            ("namespace", &asked.namespace),
            ("verb", &asked.verb),
            ("group", &asked.group),
            ("version", &asked.version),
            ("resource", &asked.resource),
            ("subresource", &asked.subresource),
            ("name", &asked.name),
        ] {
            if !text.is_empty() {
                resource.insert(field, text.as_str());
            }
        }
        if let Some(selection) = &asked.selection {
            selectors(selection, &mut resource);
        }
        spec.insert("resourceAttributes", resource);
    } else {
        let mut path = Value::object();
        path.insert("path", asked.path.as_str());
        path.insert("verb", asked.verb.as_str());
        spec.insert("nonResourceAttributes", path);
    }
    spec.insert("user", asked.user.name.as_str());
    if !asked.user.groups.is_empty() {
        spec.insert("groups", list(&asked.user.groups));
    }
    if !asked.user.extra.is_empty() {
        spec.insert("extra", extra(&asked.user));
    }
    if !asked.user.uid.is_empty() {
        spec.insert("uid", asked.user.uid.as_str());
    }
    spec
}

fn selectors(selection: &Selection, resource: &mut Value) {
    let one = |key: &str, operator: &str, values: Vec<Value>| {
        let mut requirement = Value::object();
        requirement.insert("key", key);
        requirement.insert("operator", operator);
        if !values.is_empty() {
            requirement.insert("values", Value::Array(values));
        }
        requirement
    };
    let fields: Vec<Value> = selection
        .fields
        .iter()
        .map(|term| {
            let operator = if term.negated { "NotIn" } else { "In" };
            one(&term.field, operator, vec![term.value.as_str().into()])
        })
        .collect();
    let labels: Vec<Value> = selection
        .labels
        .iter()
        .filter_map(|requirement| {
            let operator = match requirement.operator {
                Operator::In | Operator::Equals | Operator::DoubleEquals => "In",
                Operator::NotIn | Operator::NotEquals => "NotIn",
                Operator::Exists => "Exists",
                Operator::DoesNotExist => "DoesNotExist",
                _ => return None,
            };
            let values = requirement.values.iter().map(|value| value.as_str().into());
            Some(one(&requirement.key, operator, values.collect()))
        })
        .collect();
    for (field, requirements) in [("fieldSelector", fields), ("labelSelector", labels)] {
        if !requirements.is_empty() {
            resource.insert(
                field,
                value!({ "requirements": (Value::Array(requirements)) }),
            );
        }
    }
}

/// In `v1beta1` the groups are called `group`.
fn spec_in(version: &str, mut spec: Value) -> Value {
    if version == "v1beta1"
        && let Some(groups) = spec.remove("groups")
    {
        spec.insert("group", groups);
    }
    spec
}

#[cfg(test)]
mod tests {
    use control_access::User;

    use super::*;

    #[test]
    fn a_request_is_told_with_its_selectors() {
        let asked = Attributes {
            user: User::named("ann", ["dev"]),
            verb: "list".to_owned(),
            resource: "pods".to_owned(),
            version: "v1".to_owned(),
            is_resource_request: true,
            selection: Selection::parse("spec.nodeName=n1", "a in (b,c),!d"),
            ..Attributes::default()
        };
        assert_eq!(
            spec(&asked),
            value!({
                "resourceAttributes": {
                    "verb": "list", "version": "v1", "resource": "pods",
                    "fieldSelector": {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]},
                    "labelSelector": {"requirements": [
                        {"key": "a", "operator": "In", "values": ["b", "c"]},
                        {"key": "d", "operator": "DoesNotExist"}
                    ]}
                },
                "user": "ann", "groups": ["dev", "system:authenticated"]
            })
        );
        assert!(spec_in("v1beta1", spec(&asked)).get("group").is_some());
    }
}
