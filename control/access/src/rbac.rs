//! Role-based access control: rules, indexed so that a decision reads only the bindings
//! of the user and the user's groups.
//!
//! The semantics are those of the `rbac.authorization.k8s.io/v1` API: rules only ever
//! allow; a ClusterRoleBinding grants everywhere, a RoleBinding in its own namespace; a
//! role that does not exist grants nothing.

use std::sync::{Arc, PoisonError, RwLock};

use control_types::meta;
use control_types::status::quote;
use control_types::value::Value;
use rustc_hash::FxHashMap;

use crate::attributes::Attributes;
use crate::user::User;
use crate::user::{SERVICE_ACCOUNT_USER_PREFIX, split_service_account};

/// The four kinds that make up the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// A Role.
    Role,
    /// A ClusterRole.
    ClusterRole,
    /// A RoleBinding.
    RoleBinding,
    /// A ClusterRoleBinding.
    ClusterRoleBinding,
}

/// One rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The verbs, `*` for all.
    pub verbs: Vec<String>,
    /// The API groups, `*` for all.
    pub api_groups: Vec<String>,
    /// Resources as `pods`, `pods/log`, `*/scale` or `*`.
    pub resources: Vec<String>,
    /// The names; none means all.
    pub resource_names: Vec<String>,
    /// Paths, with `*` at the end for all that begin so.
    pub non_resource_urls: Vec<String>,
}

/// Denial of a request that no rule allows, in the words of kube-apiserver; the message is
/// empty unless roles are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{}", aggregate(.missing).map_or_else(String::new, |missing| format!("RBAC: {missing}")))]
pub struct RbacDenial {
    /// Roles that bindings of the user name and that do not exist.
    pub missing: Vec<MissingRole>,
}

/// Error for a role that a binding names and that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}.rbac.authorization.k8s.io {} not found", quote(.name))]
pub struct MissingRole {
    kind: &'static str,
    name: String,
}

/// The policy, kept up to date object by object.
#[derive(Debug, Default)]
pub struct Rbac(RwLock<State>);

/// Namespace (empty for the cluster) and name.
type RoleScope = (String, String);

#[derive(Debug, Default)]
struct State {
    roles: FxHashMap<RoleScope, Arc<[Rule]>>,
    bindings: FxHashMap<RoleScope, Arc<Binding>>,
    /// Rules by namespace (empty: everywhere).
    granted: FxHashMap<String, GrantedRules>,
}

/// The bindings of one scope by their subjects.
#[derive(Debug, Default)]
struct GrantedRules {
    users: FxHashMap<String, BoundRole>,
    groups: FxHashMap<String, BoundRole>,
}

/// A binding of one subject in one scope.
#[derive(Debug, Default)]
struct BoundRole {
    bindings: Vec<Arc<Binding>>,
    /// The roles that they name, each with how often: whether something is allowed
    /// needs a look at each role, not at each binding.
    roles: FxHashMap<RoleScope, usize>,
}

#[derive(Debug, PartialEq, Eq)]
struct Binding {
    place: RoleScope,
    role: RoleScope,
    subjects: Vec<Subject>,
}

/// A user or a group; a service account is the user it authenticates as.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    User(String),
    Group(String),
    /// A service account, by the name of its user.
    Account(String),
}

// === impl PolicyKind ===

impl PolicyKind {
    /// Parses the kind's name.
    #[must_use]
    pub fn from_kind(kind: &str) -> Option<Self> {
        Some(match kind {
            "Role" => Self::Role,
            "ClusterRole" => Self::ClusterRole,
            "RoleBinding" => Self::RoleBinding,
            "ClusterRoleBinding" => Self::ClusterRoleBinding,
            _ => return None,
        })
    }
}

// === impl Rule ===

impl Rule {
    /// Reads a `PolicyRule`. Fields of another type than the API has count as
    /// absent, so that they never grant anything.
    #[must_use]
    pub fn from_value(rule: &Value) -> Self {
        let list = |field: &str| {
            rule.items_at(&[field])
                .iter()
                .filter_map(Value::as_str)
                .map(ToOwned::to_owned)
                .collect()
        };
        Self {
            verbs: list("verbs"),
            api_groups: list("apiGroups"),
            resources: list("resources"),
            resource_names: list("resourceNames"),
            non_resource_urls: list("nonResourceURLs"),
        }
    }

    /// Whether the rule allows the request.
    #[must_use]
    pub fn allows(&self, attributes: &Attributes) -> bool {
        if !has(&self.verbs, &attributes.verb) {
            return false;
        }
        if !attributes.is_resource_request {
            return self
                .non_resource_urls
                .iter()
                .any(|pattern| path_matches(pattern, &attributes.path));
        }
        has(&self.api_groups, &attributes.group)
            && self.resources.iter().any(|resource| {
                resource_matches(resource, &attributes.resource, &attributes.subresource)
            })
            && (self.resource_names.is_empty() || self.resource_names.contains(&attributes.name))
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == "*" || entry == wanted)
}

fn path_matches(pattern: &str, path: &str) -> bool {
    pattern == "*"
        || pattern == path
        || pattern
            .strip_suffix('*')
            .is_some_and(|prefix| path.starts_with(prefix))
}

fn resource_matches(pattern: &str, resource: &str, subresource: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    match pattern.split_once('/') {
        None => subresource.is_empty() && pattern == resource,
        Some((of, sub)) => {
            !subresource.is_empty() && sub == subresource && (of == "*" || of == resource)
        }
    }
}

// === impl Rbac ===

impl Rbac {
    /// The policy that these objects make; others among them are ignored.
    pub fn new<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let rbac = Self::default();
        for object in objects {
            if let Some(kind) = PolicyKind::from_kind(meta::kind(object)) {
                rbac.set(kind, object);
            }
        }
        rbac
    }

    /// Takes an object as it is now.
    pub fn set(&self, kind: PolicyKind, object: &Value) {
        let place = (
            meta::namespace(object).to_owned(),
            meta::name(object).to_owned(),
        );
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match kind {
            PolicyKind::Role | PolicyKind::ClusterRole => {
                let rules = object
                    .items_at(&["rules"])
                    .iter()
                    .map(Rule::from_value)
                    .collect();
                state.roles.insert(place, rules);
            }
            PolicyKind::RoleBinding | PolicyKind::ClusterRoleBinding => {
                state.unbind(&place);
                if let Some(binding) = Binding::from_value(place, object) {
                    state.bind(Arc::new(binding));
                }
            }
        }
    }

    /// Forgets a deleted object. `namespace` is empty for cluster kinds.
    pub fn remove(&self, kind: PolicyKind, namespace: &str, name: &str) {
        let place = (namespace.to_owned(), name.to_owned());
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match kind {
            PolicyKind::Role | PolicyKind::ClusterRole => {
                state.roles.remove(&place);
            }
            PolicyKind::RoleBinding | PolicyKind::ClusterRoleBinding => state.unbind(&place),
        }
    }

    /// Whether the policy allows the request.
    #[must_use]
    pub fn allows(&self, attributes: &Attributes) -> bool {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut bound = state.bound(&attributes.user, &attributes.namespace);
        bound.any(|(_, bound)| {
            let mut roles = bound.roles.keys();
            roles.any(|role| {
                let rules = state
                    .roles
                    .get(role)
                    .into_iter()
                    .flat_map(|rules| rules.iter());
                rules.into_iter().any(|rule| rule.allows(attributes))
            })
        })
    }

    /// As [`Rbac::allows`], with reasons.
    ///
    /// # Errors
    /// When it is not allowed.
    pub fn explain(&self, attributes: &Attributes) -> Result<String, RbacDenial> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut missing = Vec::new();
        let namespace = &*attributes.namespace;
        let found = state.visit(&attributes.user, namespace, |subject, binding, rules| {
            let Some(rules) = rules else {
                binding.missing_role(&mut missing);
                return None;
            };
            let mut rules = rules.iter();
            rules
                .any(|rule| rule.allows(attributes))
                .then(|| reason(subject, binding))
        });
        found.ok_or(RbacDenial { missing })
    }

    /// Returns all rules of the user in a namespace, for SelfSubjectRulesReview, and an
    /// error about missing ones.
    #[must_use]
    pub fn rules(&self, user: &User, namespace: &str) -> (Vec<Rule>, Option<String>) {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::new();
        let mut missing = Vec::new();
        let _: Option<()> = state.visit(user, namespace, |_, binding, rules| {
            match rules {
                Some(rules) => all.extend(rules.iter().cloned()),
                None => binding.missing_role(&mut missing),
            }
            None
        });
        (all, aggregate(&missing))
    }
}

/// Missing roles as one text, each once.
fn aggregate(missing: &[MissingRole]) -> Option<String> {
    let texts: Vec<String> = missing.iter().map(ToString::to_string).collect();
    match &texts[..] {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}

// === impl State ===

impl State {
    fn bind(&mut self, binding: Arc<Binding>) {
        let granted = self.granted.entry(binding.place.0.clone()).or_default();
        for subject in &binding.subjects {
            let (index, name) = granted.of(subject);
            index.entry(name.clone()).or_default().add(&binding);
        }
        self.bindings.insert(binding.place.clone(), binding);
    }

    fn unbind(&mut self, place: &RoleScope) {
        let Some(binding) = self.bindings.remove(place) else {
            return;
        };
        let Some(granted) = self.granted.get_mut(&place.0) else {
            return;
        };
        for subject in &binding.subjects {
            let (index, name) = granted.of(subject);
            if let Some(bound) = index.get_mut(name) {
                bound.remove(&binding);
                if bound.bindings.is_empty() {
                    index.remove(name);
                }
            }
        }
        if granted.users.is_empty() && granted.groups.is_empty() {
            self.granted.remove(&place.0);
        }
    }

    /// Calls `see` with the rules of every binding of the user, those of the cluster
    /// first, until it returns a value; the rules are absent if the role is missing.
    fn visit<T>(
        &self,
        user: &User,
        namespace: &str,
        mut see: impl FnMut(RuleRequest<'_>, &Binding, Option<&Arc<[Rule]>>) -> Option<T>,
    ) -> Option<T> {
        for (subject, bound) in self.bound(user, namespace) {
            for binding in &bound.bindings {
                let rules = self.roles.get(&binding.role);
                if let Some(answer) = see(subject, binding, rules) {
                    return Some(answer);
                }
            }
        }
        None
    }

    /// Returns the bindings of the user and the user's groups, in the cluster and then in
    /// the namespace (empty: none).
    fn bound<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = (RuleRequest<'a>, &'a BoundRole)> {
        let inside = (!namespace.is_empty()).then_some(namespace);
        let scopes = std::iter::once("").chain(inside);
        let scopes = scopes.filter_map(|scope| self.granted.get(scope));
        scopes.flat_map(|granted| {
            let own = granted.users.get(&user.name);
            let own = own.map(|bound| (RuleRequest::User(&user.name), bound));
            let groups = user.groups.iter().filter_map(|group| {
                let bound = granted.groups.get(group)?;
                Some((RuleRequest::Group(group), bound))
            });
            own.into_iter().chain(groups)
        })
    }
}

// === impl Bound ===

impl BoundRole {
    fn add(&mut self, binding: &Arc<Binding>) {
        self.bindings.push(Arc::clone(binding));
        *self.roles.entry(binding.role.clone()).or_default() += 1;
    }

    fn remove(&mut self, binding: &Binding) {
        let before = self.bindings.len();
        self.bindings.retain(|other| other.place != binding.place);
        let gone = before - self.bindings.len();
        if let Some(count) = self.roles.get_mut(&binding.role) {
            *count -= gone.min(*count);
            if *count == 0 {
                self.roles.remove(&binding.role);
            }
        }
    }
}

/// As whom a binding concerns a user.
#[derive(Clone, Copy)]
enum RuleRequest<'a> {
    User(&'a str),
    Group(&'a str),
}

// === impl Granted ===

impl GrantedRules {
    fn of<'a>(&mut self, subject: &'a Subject) -> (&mut FxHashMap<String, BoundRole>, &'a String) {
        match subject {
            Subject::User(name) | Subject::Account(name) => (&mut self.users, name),
            Subject::Group(name) => (&mut self.groups, name),
        }
    }
}

// === impl Binding ===

impl Binding {
    fn from_value(place: RoleScope, object: &Value) -> Option<Self> {
        let role_name = object.str_at(&["roleRef", "name"])?.to_owned();
        let role = match object.str_at(&["roleRef", "kind"])? {
            "ClusterRole" => (String::new(), role_name),
            // Only a RoleBinding can name a Role, in its own namespace.
            "Role" if !place.0.is_empty() => (place.0.clone(), role_name),
            _ => return None,
        };
        let subjects = object.items_at(&["subjects"]).iter().filter_map(|subject| {
            let name = subject.str_at(&["name"])?;
            Some(match subject.str_at(&["kind"])? {
                "User" => Subject::User(name.to_owned()),
                "Group" => Subject::Group(name.to_owned()),
                "ServiceAccount" => {
                    let own = subject
                        .str_at(&["namespace"])
                        .filter(|namespace| !namespace.is_empty());
                    let namespace = own.unwrap_or(&place.0);
                    if namespace.is_empty() {
                        return None;
                    }
                    Subject::Account(format!("{SERVICE_ACCOUNT_USER_PREFIX}{namespace}:{name}"))
                }
                _ => return None,
            })
        });
        let mut subjects: Vec<_> = subjects.collect();
        // One subject twice must not be indexed twice.
        let mut seen = rustc_hash::FxHashSet::default();
        subjects.retain(|subject| {
            seen.insert(match subject {
                Subject::Account(name) => Subject::User(name.clone()),
                other => other.clone(),
            })
        });
        Some(Self {
            place,
            role,
            subjects,
        })
    }

    /// The service account that is the user, where the binding names it as such
    /// first.
    fn account<'a>(&self, user: &'a str) -> Option<(&'a str, &'a str)> {
        let first = self.subjects.iter().find(|subject| match subject {
            Subject::User(name) | Subject::Account(name) => name == user,
            Subject::Group(_) => false,
        });
        match first {
            Some(Subject::Account(_)) => split_service_account(user),
            _ => None,
        }
    }

    /// Notes that the role does not exist, once.
    fn missing_role(&self, missing: &mut Vec<MissingRole>) {
        let kind = if self.role.0.is_empty() {
            "clusterrole"
        } else {
            "role"
        };
        let name = self.role.1.clone();
        let role = MissingRole { kind, name };
        if !missing.contains(&role) {
            missing.push(role);
        }
    }
}

/// In the words of kube-apiserver's audit annotation.
fn reason(subject: RuleRequest<'_>, binding: &Binding) -> String {
    let (namespace, name) = &binding.place;
    let (kind, name) = if namespace.is_empty() {
        ("ClusterRoleBinding", quote(name))
    } else {
        ("RoleBinding", quote(&format!("{name}/{namespace}")))
    };
    let role_kind = if binding.role.0.is_empty() {
        "ClusterRole"
    } else {
        "Role"
    };
    let role = quote(&binding.role.1);
    let to = match subject {
        RuleRequest::User(user) => match binding.account(user) {
            Some((namespace, name)) => {
                format!("ServiceAccount {}", quote(&format!("{name}/{namespace}")))
            }
            None => format!("User {}", quote(user)),
        },
        RuleRequest::Group(group) => format!("Group {}", quote(group)),
    };
    format!("RBAC: allowed by {kind} {name} of {role_kind} {role} to {to}")
}

#[cfg(test)]
mod tests;
