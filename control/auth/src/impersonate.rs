//! Acting as somebody else (`kubectl --as`), for those who may.
//!
//! The headers `Impersonate-User`, `-Group`, `-Uid` and `-Extra-KEY` name the
//! other. Two ways lead there: the verb `impersonate` for each of them, which
//! then allows everything that the other may; and, tried before it, the verbs of
//! constrained impersonation (KEP-5284), which take a right for the other
//! (`impersonate:MODE`) and one for the action (`impersonate-on:MODE:VERB`).

use std::time::Duration;

use control_access::{
    ANONYMOUS, AUTHENTICATED, Attributes, MASTERS, NODE_USER_PREFIX, NODES, SERVICE_ACCOUNTS,
    SERVICE_ACCOUNTS_PREFIX, UNAUTHENTICATED, User, split_service_account,
};
use control_types::names;
use control_types::status::{Status, quote};
use http::HeaderMap;

use crate::access::{Access, Impersonation};
use control_proxy::AnswerCache;
use control_registry::authorizer::{Verdict, attributes, decide, denied};
use control_request::{RequestInfo, percent_decode};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

const AUTHENTICATION: &str = "authentication.k8s.io";
/// From how many groups or extra values on one right for all of them is asked
/// for first.
const MANY: usize = 4;
/// Of how many callers the last way is remembered, and for how long: a guess is
/// never wrong, only slow.
const CALLERS: usize = 10_000;
const WHILE: Duration = Duration::from_secs(24 * 3600);
/// Under which key a service account's token names its node.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// Whether a request asks for it at all.
pub(super) fn is_asked(headers: &HeaderMap) -> bool {
    headers
        .keys()
        .any(|name| name.as_str().starts_with("impersonate-"))
}

/// The user that the headers name; `None` when they name none.
///
/// # Errors
/// 400 when they name something else of a user, but not the user.
pub(super) fn wanted(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let bad = |_| Status::bad_request("impersonation headers must be visible ASCII");
    let text = |name: &str| {
        let all = headers.get_all(name).iter();
        all.map(|value| value.to_str().map(ToOwned::to_owned))
            .collect::<Result<Vec<_>, _>>()
            .map_err(bad)
    };
    let first = |name: &str| Ok(text(name)?.into_iter().next().unwrap_or_default());
    let mut wanted = User {
        name: first(USER)?,
        uid: first(UID)?,
        groups: text(GROUP)?,
        ..User::default()
    };
    for (header, value) in headers {
        let Some(key) = header.as_str().strip_prefix(EXTRA) else {
            continue;
        };
        let value = value.to_str().map_err(bad)?.to_owned();
        let key = percent_decode(key);
        match wanted.extra.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => wanted.extra.push((key, vec![value])),
        }
    }
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty() {
        return Ok(None);
    }
    Err(Status::bad_request(format!(
        "requested {} without impersonating a user name",
        in_go(&wanted)
    )))
}

/// As kube-apiserver shows it.
fn in_go(user: &User) -> String {
    let list = |texts: &[String]| {
        let texts: Vec<String> = texts.iter().map(|text| quote(text)).collect();
        texts.join(", ")
    };
    let groups = if user.groups.is_empty() {
        "[]string(nil)".to_owned()
    } else {
        format!("[]string{{{}}}", list(&user.groups))
    };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let mut all: Vec<_> = user.extra.iter().collect();
        all.sort();
        let all: Vec<String> = all
            .into_iter()
            .map(|(key, values)| format!("{}:[]string{{{}}}", quote(key), list(values)))
            .collect();
        format!("map[string][]string{{{}}}", all.join(", "))
    };
    format!(
        r#"&user.DefaultInfo{{Name:"", UID:{}, Groups:{groups}, Extra:{extra}}}"#,
        quote(&user.uid)
    )
}

/// By which way each caller became somebody else last. It is tried first: whoever
/// has the older right goes on with one question, and is told of that right when
/// it does not suffice, as by kube-apiserver.
#[derive(Debug)]
pub(super) struct RecentModes(AnswerCache<String, Mode>);

impl Default for RecentModes {
    fn default() -> Self {
        Self(AnswerCache::new(CALLERS))
    }
}

/// The user that the request is to be made as.
///
/// # Errors
/// 403 if the caller may not act as that user.
pub(super) async fn apply(
    access: &dyn Access,
    lately: &RecentModes,
    caller: &User,
    wanted: User,
    info: &RequestInfo,
) -> Result<Impersonation, Status> {
    let mut refused = None;
    let last = lately.0.get(&caller.name);
    let others = MODES.into_iter().filter(|mode| Some(*mode) != last);
    for mode in last.into_iter().chain(others) {
        if !mode.concerns(caller, &wanted) {
            continue;
        }
        let attempt = Attempt {
            access,
            caller,
            mode,
        };
        match attempt.make(&wanted, info).await {
            Ok(user) => {
                if last != Some(mode) {
                    lately.0.put(caller.name.clone(), mode, WHILE);
                }
                return Ok(user);
            }
            Err(status) => {
                refused.get_or_insert(status);
            }
        }
    }
    Err(refused.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
}

/// A way to become somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// A service account as the node that its pod runs on.
    AssociatedNode,
    /// Any node.
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    /// The verb `impersonate`, without constraint.
    Legacy,
}

/// In the order in which they are tried.
const MODES: [Mode; 5] = [
    Mode::AssociatedNode,
    Mode::ArbitraryNode,
    Mode::ServiceAccount,
    Mode::UserInfo,
    Mode::Legacy,
];

// === impl Mode ===

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    fn verb(self) -> String {
        match self {
            Self::Legacy => "impersonate".to_owned(),
            _ => format!("impersonate:{}", self.name()),
        }
    }

    /// Whether the user is one that this way leads to.
    fn concerns(self, caller: &User, wanted: &User) -> bool {
        let name_only =
            wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_of(&wanted.name);
        let account = account_of(&wanted.name);
        match self {
            Self::AssociatedNode => {
                name_only
                    && node.is_some()
                    && account_of(&caller.name).is_some()
                    && single_extra(caller, NODE_NAME) == node
            }
            Self::ArbitraryNode => name_only && node.is_some(),
            Self::ServiceAccount => name_only && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }
}

fn single_extra<'a>(user: &'a User, wanted: &str) -> Option<&'a str> {
    let (_, values) = user.extra.iter().find(|(key, _)| key == wanted)?;
    match &values[..] {
        [one] => Some(one),
        _ => None,
    }
}

fn node_of(user: &str) -> Option<&str> {
    let name = user.strip_prefix(NODE_USER_PREFIX)?;
    names::dns1123_subdomain(name).is_empty().then_some(name)
}

fn account_of(user: &str) -> Option<(&str, &str)> {
    split_service_account(user).filter(|(namespace, name)| {
        names::dns1123_label(namespace).is_empty() && names::dns1123_subdomain(name).is_empty()
    })
}

/// One way, tried.
struct Attempt<'a> {
    access: &'a dyn Access,
    caller: &'a User,
    mode: Mode,
}

// === impl Attempt ===

impl Attempt<'_> {
    async fn make(&self, wanted: &User, info: &RequestInfo) -> Result<Impersonation, Status> {
        if self.is_constrained() {
            let mut on = attributes(info, self.caller);
            on.verb = format!("impersonate-on:{}:{}", self.mode.name(), info.verb);
            self.must(on).await?;
        }
        let mut user = wanted.clone();
        self.name(wanted, &mut user).await?;
        if !wanted.uid.is_empty() {
            self.must(self.asking(AUTHENTICATION, "uids", &wanted.uid))
                .await?;
        }
        self.groups(&wanted.groups).await?;
        self.extra(&wanted.extra).await?;
        if user.name == ANONYMOUS {
            user.join(UNAUTHENTICATED);
        } else if !user.is_in(UNAUTHENTICATED) {
            user.join(AUTHENTICATED);
        }
        let constraint = if self.is_constrained() {
            self.mode.verb()
        } else {
            String::new()
        };
        Ok(Impersonation { user, constraint })
    }

    fn is_constrained(&self) -> bool {
        self.mode != Mode::Legacy
    }

    /// The group in which rules speak of users, groups and accounts.
    fn identities(&self) -> &'static str {
        if self.is_constrained() {
            AUTHENTICATION
        } else {
            ""
        }
    }

    fn asking(&self, group: &str, resource: &str, name: &str) -> Attributes {
        Attributes {
            user: self.caller.clone(),
            verb: self.mode.verb(),
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            is_resource_request: true,
            ..Attributes::default()
        }
    }

    async fn must(&self, mut attributes: Attributes) -> Result<(), Status> {
        if self.mode == Mode::AssociatedNode {
            // The right is one for whichever node it is.
            if attributes.verb == "impersonate:associated-node" {
                "*".clone_into(&mut attributes.name);
            }
            let mut keys: Vec<String> = self
                .caller
                .extra
                .iter()
                .map(|(key, _)| key.clone())
                .collect();
            keys.sort();
            attributes.user.extra = vec![(
                "authentication.kubernetes.io/associated-node-keys".to_owned(),
                keys,
            )];
        }
        match decide(self.access, &attributes).await? {
            Verdict::Allow => Ok(()),
            Verdict::Deny(reason) => Err(denied(&attributes, &reason)),
        }
    }

    /// The right to the name; a node or a service account brings its groups along.
    async fn name(&self, wanted: &User, user: &mut User) -> Result<(), Status> {
        let mut asked = self.asking(self.identities(), "users", &wanted.name);
        let no_groups = |asked: &Attributes, what: &str| {
            let groups: Vec<String> = wanted.groups.iter().map(|group| quote(group)).collect();
            let groups = groups.join(" ");
            let why = format!("when impersonating {what}, cannot impersonate groups [{groups}]");
            denied(asked, &why)
        };
        if self.is_constrained()
            && let Some(node) = node_of(&wanted.name)
        {
            "nodes".clone_into(&mut asked.resource);
            node.clone_into(&mut asked.name);
            if !wanted.groups.is_empty() {
                return Err(no_groups(&asked, "a node"));
            }
            user.groups = vec![NODES.to_owned()];
        }
        if let Some((namespace, name)) = account_of(&wanted.name) {
            "serviceaccounts".clone_into(&mut asked.resource);
            namespace.clone_into(&mut asked.namespace);
            name.clone_into(&mut asked.name);
            if wanted.groups.is_empty() {
                user.groups = vec![
                    SERVICE_ACCOUNTS.to_owned(),
                    format!("{SERVICE_ACCOUNTS_PREFIX}{namespace}"),
                ];
            } else if self.is_constrained() {
                return Err(no_groups(&asked, "a service account"));
            }
        }
        self.must(asked).await
    }

    async fn groups(&self, groups: &[String]) -> Result<(), Status> {
        if groups.is_empty() {
            return Ok(());
        }
        let asking = |name: &str| self.asking(self.identities(), "groups", name);
        if self.is_constrained() {
            if groups.iter().any(String::is_empty) {
                let why = "impersonating the empty string group is not allowed";
                return Err(denied(&asking(""), why));
            }
            if groups.iter().any(|group| group == MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(denied(&asking(MASTERS), why));
            }
            if groups.len() >= MANY && self.must(asking("*")).await.is_ok() {
                return Ok(());
            }
        }
        for group in groups {
            self.must(asking(group)).await?;
        }
        Ok(())
    }

    async fn extra(&self, extra: &[(String, Vec<String>)]) -> Result<(), Status> {
        let asking = |key: &str, value: &str| Attributes {
            subresource: key.to_owned(),
            ..self.asking(AUTHENTICATION, "userextras", value)
        };
        if self.is_constrained() {
            if let Err(why) = check_extra(extra) {
                return Err(denied(&asking("", ""), &why.to_string()));
            }
            let values: usize = extra.iter().map(|(_, values)| values.len()).sum();
            let many = extra.len() >= MANY || values >= MANY;
            if many && self.must(asking("*", "*")).await.is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.must(asking(key, value)).await?;
            }
        }
        Ok(())
    }
}

/// Error for extra fields of a user that nobody may be made to have; stock's messages.
#[derive(Debug, thiserror::Error)]
enum ExtraError {
    #[error("impersonating the empty string key in extra is not allowed")]
    EmptyKey,
    #[error("impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {}: must be a domain-prefixed path (such as \"acme.io/foo\")", quote(.0))]
    InvalidKey(String),
    #[error("impersonating the empty string value in extra is not allowed")]
    EmptyValue,
}

fn check_extra(extra: &[(String, Vec<String>)]) -> Result<(), ExtraError> {
    for (key, values) in extra {
        if key.is_empty() {
            return Err(ExtraError::EmptyKey);
        }
        let prefixed = key.split_once('/').is_some_and(|(domain, path)| {
            names::dns1123_subdomain(domain).is_empty() && !path.is_empty()
        });
        if !prefixed {
            return Err(ExtraError::InvalidKey(key.clone()));
        }
        if values.iter().any(String::is_empty) {
            return Err(ExtraError::EmptyValue);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
