//! The chain of authorizers: asked in the order configured, the first that has
//! an opinion decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use control_access::{Abac, Attributes, NODE_USER_PREFIX, NODES, NodeGraph, Rbac, Rule, User};

use crate::ask::WebhookAuthorizer;
use crate::counts::DecisionCount;
use control_registry::authorizer::{AccessDecision, GrantedRules};

/// What decides.
#[derive(Debug)]
pub(super) enum Authorizer {
    /// Node agents by the graph of what their pods refer to.
    Node(Arc<NodeGraph>),
    /// Roles and bindings.
    Rbac(Arc<Rbac>),
    /// Policies of a file.
    Abac(Abac),
    /// Another server.
    Webhook(Arc<WebhookAuthorizer>),
    /// Everybody may everything.
    AlwaysAllow,
    /// Nobody may anything.
    AlwaysDeny,
}

/// What one of them says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opinion {
    /// Yes, for this reason (may be empty).
    Allow(String),
    /// No, whatever others say.
    Deny(String),
    /// None, for this reason (may be empty).
    None(String),
}

/// Authorizers in their order; before all, the group `system:masters` may
/// everything.
#[derive(Debug, Default)]
pub(super) struct Authorizers {
    all: Vec<Authorizer>,
    waits: bool,
    /// How often each allowed and denied.
    decided: Vec<[AtomicU64; 2]>,
}

// === impl Authorizer ===

impl Authorizer {
    fn decide(&self, attributes: &Attributes, reasons: bool) -> Opinion {
        match self {
            Self::Node(graph) => node(graph, attributes),
            Self::Rbac(rbac) if !reasons && rbac.allows(attributes) => {
                Opinion::Allow(String::new())
            }
            Self::Rbac(rbac) => match rbac.explain(attributes) {
                Ok(reason) => Opinion::Allow(reason),
                Err(denial) => Opinion::None(denial.to_string()),
            },
            Self::Abac(policies) if policies.allows(attributes) => Opinion::Allow(String::new()),
            Self::Abac(_) => Opinion::None("No policy matched.".to_owned()),
            // Asked by who can wait: see `decide_waiting`.
            Self::Webhook(_) => Opinion::None(String::new()),
            Self::AlwaysAllow => Opinion::Allow(String::new()),
            Self::AlwaysDeny => Opinion::None("Everything is forbidden.".to_owned()),
        }
    }

    /// Its type, as configurations name it.
    fn kind(&self) -> &'static str {
        match self {
            Self::Node(_) => "Node",
            Self::Rbac(_) => "RBAC",
            Self::Abac(_) => "ABAC",
            Self::Webhook(_) => "Webhook",
            Self::AlwaysAllow => "AlwaysAllow",
            Self::AlwaysDeny => "AlwaysDeny",
        }
    }

    /// Its name in metrics; only webhooks have names of their own.
    fn name(&self) -> String {
        match self {
            Self::Webhook(webhook) => webhook.name().to_owned(),
            other => other.kind().to_lowercase(),
        }
    }

    fn add_rules(
        &self,
        user: &User,
        namespace: &str,
        held: &mut GrantedRules,
        errors: &mut Vec<String>,
    ) {
        match self {
            Self::Node(_) if user.name.starts_with(NODE_USER_PREFIX) && user.is_in(NODES) => {
                held.incomplete = true;
                errors.push("node authorizer does not support user rule resolution".to_owned());
            }
            Self::Rbac(rbac) => {
                let (rules, missing) = rbac.rules(user, namespace);
                held.rules.extend(rules);
                errors.extend(missing);
            }
            Self::Abac(policies) => held.rules.extend(policies.rules(user, namespace)),
            Self::Webhook(_) => {
                held.incomplete = true;
                errors.push("webhook authorizer does not support user rule resolution".to_owned());
            }
            Self::AlwaysAllow => {
                let all = || vec!["*".to_owned()];
                held.rules.push(Rule {
                    verbs: all(),
                    api_groups: all(),
                    resources: all(),
                    ..Rule::default()
                });
                held.rules.push(Rule {
                    verbs: all(),
                    non_resource_urls: all(),
                    ..Rule::default()
                });
            }
            Self::Node(_) | Self::AlwaysDeny => {}
        }
    }
}

fn node(graph: &NodeGraph, attributes: &Attributes) -> Opinion {
    let user = &attributes.user;
    let Some(node) = user.name.strip_prefix(NODE_USER_PREFIX) else {
        return Opinion::None(String::new());
    };
    if !user.is_in(NODES) {
        return Opinion::None(String::new());
    }
    if node.is_empty() {
        let name = control_types::status::quote(&user.name);
        return Opinion::None(format!("unknown node for user {name}"));
    }
    match graph.allows(node, attributes) {
        Ok(()) => Opinion::Allow(String::new()),
        Err(denial) => Opinion::None(denial.to_string()),
    }
}

// === impl Authorizers ===

impl Authorizers {
    pub fn new(all: Vec<Authorizer>) -> Self {
        let waits = all.iter().any(|one| matches!(one, Authorizer::Webhook(_)));
        let decided = all.iter().map(|_| Default::default()).collect();
        Self {
            all,
            waits,
            decided,
        }
    }

    /// How often each decided.
    pub fn decided(&self) -> Vec<DecisionCount> {
        let counts = self.all.iter().zip(&self.decided);
        counts
            .map(|(one, [allowed, denied])| DecisionCount {
                kind: one.kind(),
                name: one.name(),
                allowed: allowed.load(Ordering::Relaxed),
                denied: denied.load(Ordering::Relaxed),
            })
            .collect()
    }

    fn count(&self, at: usize, decision: &AccessDecision) {
        if let Some(counts) = self.decided.get(at) {
            counts[usize::from(!decision.allowed)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether other servers are asked: then [`Authorizers::decide`] does not know
    /// enough.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// As [`Authorizers::decide`], asking other servers, too.
    pub async fn decide_waiting(&self, attributes: &Attributes) -> AccessDecision {
        let mut decision = AccessDecision::default();
        if attributes.user.is_master() {
            decision.allowed = true;
            return decision;
        }
        let mut errors = Vec::new();
        for (at, authorizer) in self.all.iter().enumerate() {
            let (opinion, error) = match authorizer {
                Authorizer::Webhook(webhook) => webhook.decide(attributes).await,
                local => (local.decide(attributes, true), None),
            };
            if hear(&mut decision, opinion) {
                self.count(at, &decision);
                decision.error = error;
                return decision;
            }
            errors.extend(error);
        }
        decision.error = match &errors[..] {
            [] => None,
            [one] => Some(one.clone()),
            many => Some(format!("[{}]", many.join(", "))),
        };
        decision
    }

    /// The decision, with the reason for it; the reason of what is allowed only
    /// where `reasons` are asked for, since it must be made up.
    pub fn decide(&self, attributes: &Attributes, reasons: bool) -> AccessDecision {
        let mut decision = AccessDecision::default();
        if attributes.user.is_master() {
            decision.allowed = true;
            return decision;
        }
        for (at, authorizer) in self.all.iter().enumerate() {
            if hear(&mut decision, authorizer.decide(attributes, reasons)) {
                self.count(at, &decision);
                break;
            }
        }
        decision
    }

    /// The rules that hold for a user in a namespace, as far as they are known.
    pub fn rules(&self, user: &User, namespace: &str) -> GrantedRules {
        let mut held = GrantedRules::default();
        let mut errors = Vec::new();
        for authorizer in &self.all {
            authorizer.add_rules(user, namespace, &mut held, &mut errors);
        }
        held.error = match &errors[..] {
            [] => None,
            [one] => Some(one.clone()),
            many => Some(format!("[{}]", many.join(", "))),
        };
        held
    }
}

/// Takes what one of several says, in their order; tells whether it decides.
fn hear(decision: &mut AccessDecision, opinion: Opinion) -> bool {
    match opinion {
        Opinion::Allow(reason) => {
            decision.allowed = true;
            decision.reason = reason;
            true
        }
        Opinion::Deny(reason) => {
            decision.denied = true;
            decision.reason = reason;
            true
        }
        Opinion::None(reason) if reason.is_empty() => false,
        Opinion::None(reason) => {
            if !decision.reason.is_empty() {
                decision.reason.push('\n');
            }
            decision.reason.push_str(&reason);
            false
        }
    }
}
