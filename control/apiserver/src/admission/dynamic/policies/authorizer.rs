//! The authorizer as expressions ask it.

use std::sync::{Mutex, PoisonError};

use control_access::{Attributes, Selection, User};
use control_kinds::policies::{Authorizer, Decision, Question};
use futures::FutureExt as _;

use crate::chain::{Context, Verdict};

/// Asks on behalf of the user of a request. The same is asked once.
#[derive(Debug)]
pub struct Asked<'a> {
    context: &'a Context,
    known: Mutex<Vec<(Question, Decision)>>,
}

impl<'a> Asked<'a> {
    /// Nothing was asked yet.
    #[must_use]
    pub fn new(context: &'a Context) -> Self {
        Self {
            context,
            known: Mutex::default(),
        }
    }

    fn ask(&self, question: &Question) -> Decision {
        let user = match &question.service_account {
            Some((namespace, name)) => User {
                name: format!("system:serviceaccount:{namespace}:{name}"),
                groups: vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                ],
                ..User::default()
            },
            None => self.context.user.clone(),
        };
        let attributes = match &question.path {
            Some(path) => Attributes {
                user,
                verb: question.verb.clone(),
                path: path.clone(),
                ..Attributes::default()
            },
            None => Attributes {
                user,
                verb: question.verb.clone(),
                group: question.group.clone(),
                version: "*".to_owned(),
                resource: question.resource.clone(),
                subresource: question.subresource.clone(),
                namespace: question.namespace.clone(),
                name: question.name.clone(),
                is_resource_request: true,
                selection: Selection::parse(&question.field_selector, &question.label_selector),
                ..Attributes::default()
            },
        };
        let access = &self.context.api.config.access;
        // Only where no other server is asked is the reason known at once.
        let explained = match access.ask(&attributes) {
            None => access.explain(&attributes).now_or_never(),
            Some(_) => None,
        };
        let Some(decision) = explained else {
            let verdict = access.authorize(&attributes);
            return Decision {
                allowed: verdict == Verdict::Allow,
                reason: match verdict {
                    Verdict::Allow => String::new(),
                    Verdict::Deny(reason) => reason,
                },
                error: None,
            };
        };
        Decision {
            allowed: decision.allowed,
            reason: decision.reason,
            error: decision.error,
        }
    }
}

impl Authorizer for Asked<'_> {
    fn authorize(&self, question: &Question) -> Decision {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, decision)) = known.iter().find(|(asked, _)| asked == question) {
            return decision.clone();
        }
        let decision = self.ask(question);
        known.push((question.clone(), decision.clone()));
        decision
    }
}
