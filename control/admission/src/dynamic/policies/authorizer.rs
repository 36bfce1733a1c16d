//! The authorizer as expressions ask it.

use std::sync::{Mutex, PoisonError};

use control_access::{Attributes as AccessAttributes, Selection, User};
use control_kinds::policies::{Authorizer, Decision, Question};

use crate::attributes::Attributes;

/// Asks on behalf of the user of a request. The same is asked once.
#[derive(Debug)]
pub struct UserAuthorizer<'a> {
    attributes: &'a Attributes<'a>,
    known: Mutex<Vec<(Question, Decision)>>,
}

impl<'a> UserAuthorizer<'a> {
    /// Nothing was asked yet.
    #[must_use]
    pub fn new(attributes: &'a Attributes<'a>) -> Self {
        Self {
            attributes,
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
            None => self.attributes.context.user.clone(),
        };
        let attributes = match &question.path {
            Some(path) => AccessAttributes {
                user,
                verb: question.verb.clone(),
                path: path.clone(),
                ..AccessAttributes::default()
            },
            None => AccessAttributes {
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
                ..AccessAttributes::default()
            },
        };
        self.attributes.cluster.explain(&attributes)
    }
}

impl Authorizer for UserAuthorizer<'_> {
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
