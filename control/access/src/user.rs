//! The user of a request.

/// The user of every request that brought no credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of those who brought none.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of all others.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group that may do everything, without any rule saying so.
pub const MASTERS: &str = "system:masters";
/// The group of nodes' agents.
pub const NODES: &str = "system:nodes";
/// The prefix of a node's user name.
pub const NODE_USER_PREFIX: &str = "system:node:";
/// The prefix of a service account's user name.
pub const SERVICE_ACCOUNT_USER_PREFIX: &str = "system:serviceaccount:";
/// The group of all service accounts.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// The prefix of the group of a namespace's service accounts.
pub const SERVICE_ACCOUNTS_PREFIX: &str = "system:serviceaccounts:";

/// An authenticated user: a person, a component or a service account
/// (`authentication.k8s.io` `UserInfo`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name that rules are written for.
    pub name: String,
    /// Tells apart users of the same name over time; may be empty.
    pub uid: String,
    /// The groups, in the order in which they were found.
    pub groups: Vec<String>,
    /// Further attributes, such as the pod that a token is bound to.
    pub extra: Vec<(String, Vec<String>)>,
}

// === impl User ===

impl User {
    /// A user of that name in those groups, as an in-process component or a
    /// test needs it. `system:authenticated` is added.
    pub fn named<'a>(name: impl Into<String>, groups: impl IntoIterator<Item = &'a str>) -> Self {
        let mut user = Self {
            name: name.into(),
            groups: groups.into_iter().map(ToOwned::to_owned).collect(),
            ..Self::default()
        };
        user.join(AUTHENTICATED);
        user
    }

    /// Returns the user of requests without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// The user that a service account is.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            name: format!("{SERVICE_ACCOUNT_USER_PREFIX}{namespace}:{name}"),
            uid: uid.to_owned(),
            groups: vec![
                SERVICE_ACCOUNTS.to_owned(),
                format!("{SERVICE_ACCOUNTS_PREFIX}{namespace}"),
                AUTHENTICATED.to_owned(),
            ],
            extra: Vec::new(),
        }
    }

    /// Whether the user is in `group`.
    #[must_use]
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// Whether the user may do everything.
    #[must_use]
    pub fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// Adds `group` if it is missing.
    pub fn join(&mut self, group: &str) {
        if !self.is_in(group) {
            self.groups.push(group.to_owned());
        }
    }

    /// The node whose agent this is: in the group of nodes and named after one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        let name = self.name.strip_prefix(NODE_USER_PREFIX)?;
        (!name.is_empty() && self.is_in(NODES)).then_some(name)
    }

    /// Namespace and name of the service account that this is.
    #[must_use]
    pub fn as_service_account(&self) -> Option<(&str, &str)> {
        split_service_account(&self.name)
    }
}

/// Namespace and name in a service account's user name.
#[must_use]
pub fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user
        .strip_prefix(SERVICE_ACCOUNT_USER_PREFIX)?
        .split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_account_is_known_by_its_user_name_and_back() {
        let user = User::service_account("kube-system", "attach", "7");
        assert_eq!(user.as_service_account(), Some(("kube-system", "attach")));
        assert!(user.is_in("system:serviceaccounts:kube-system") && user.is_in(AUTHENTICATED));
        for no in [
            "attach",
            "system:serviceaccount:a",
            "system:serviceaccount::b",
            "system:serviceaccount:a:b:c",
        ] {
            assert_eq!(split_service_account(no), None, "{no}");
        }
    }

    #[test]
    fn a_node_needs_the_name_and_the_group() {
        assert_eq!(User::named("system:node:n1", [NODES]).node(), Some("n1"));
        assert_eq!(User::named("system:node:n1", []).node(), None);
        assert_eq!(User::named("system:node:", [NODES]).node(), None);
        assert_eq!(User::named("n1", [NODES]).node(), None);
    }
}
